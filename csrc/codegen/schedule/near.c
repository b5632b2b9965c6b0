/* Functions with a form for near operands: see Note [Near] in prelude.h.
 *
 * What:     marks phases `near` that call such functions: they run in parts of so much work, with
 *           the forms for near operands, and a part again exactly if one of its operands was far.
 * Requires: a scheduled function.
 * Ensures:  the bits of the exact form, for each operand (V41).
 * How:      iterations that may run again: no updates, no steps, and nothing stored that they load.
 * Why not:  choosing for each element: it costs both forms.  Testing all operands first: they may
 *           take as long to compute.
 * Example:  for i in N parallel vector near=131072 { .. let y: f32 = sin a .. }
 */
#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

/* Is it a function with a near form? */
static bool
has_near_form(const void *arg, const Let *let)
{
    (void)arg;
    return let_is_map(let) && op_info[let->op].flags & OPF_NEAR &&
           (dtype_info[map_dtype(let)].compute == DT_f32 ||
            dtype_info[map_dtype(let)].compute == DT_f64);
}

/* May its iterations run again? */
static bool
may_repeat(const PhaseView *phase)
{
    PhaseUse use = phase_use(phase->fn, phase->loop);
    bool may = !phase->facts->updates;
    for (int k = 0; k < use.nbuffers && may; k++) {
        const Value *v = use.buffers[k];
        may = !(loop_accesses(phase->loop, OP_store, v) && loop_accesses(phase->loop, OP_load, v));
    }
    return may;
}

static void
mark_phase(const PhaseView *phase, const void *arg)
{
    (void)arg;
    if (!let_has(phase->loop, MARK_steps) && let_any(phase->loop, has_near_form, NULL) &&
        !loop_has_choice(phase->loop) && may_repeat(phase) && fuel_spend(phase->fn->cx)) {
        let_mark_with(phase->fn->cx, phase->loop, MARK_near, DLC_NEAR_PART);
    }
}

Fn *
rewrite_near(Fn *fn)
{
    return phases_visit(fn, mark_phase, NULL);
}
