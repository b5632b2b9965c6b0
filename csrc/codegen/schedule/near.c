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

/* Is there a function with a near form in the let or deeper? */
static bool
has_near_forms(const Let *let)
{
    bool found = let_is_map(let) && op_info[let->op].flags & OPF_NEAR &&
                 (dtype_info[map_dtype(let)].compute == DT_f32 ||
                  dtype_info[map_dtype(let)].compute == DT_f64);
    for (int k = 0; let->body && k < let->body->n && !found; k++) {
        found = has_near_forms(let->body->lets[k]);
    }
    return found;
}

/* Is the tensor accessed by the op, in the let or deeper? */
static bool
accesses(const Let *let, Op op, const Value *tensor)
{
    bool found = let->op == op && let->args[0] == tensor;
    for (int k = 0; let->body && k < let->body->n && !found; k++) {
        found = accesses(let->body->lets[k], op, tensor);
    }
    return found;
}

/* May its iterations run again? */
static bool
may_repeat(const PhaseView *phase)
{
    PhaseUse use = phase_use(phase->fn, phase->loop);
    bool may = !phase->facts->updates;
    for (int k = 0; k < use.nbuffers && may; k++) {
        const Value *v = use.buffers[k];
        may = !(accesses(phase->loop, OP_store, v) && accesses(phase->loop, OP_load, v));
    }
    return may;
}

static void
mark_phase(const PhaseView *phase, const void *arg)
{
    (void)arg;
    if (!let_has(phase->loop, MARK_steps) && has_near_forms(phase->loop) &&
        !loop_has_choice(phase->loop) && may_repeat(phase) && fuel_spend(phase->fn->cx)) {
        let_mark_with(phase->fn->cx, phase->loop, MARK_near, DLC_NEAR_PART);
    }
}

Fn *
rewrite_near(Fn *fn)
{
    return phases_visit(fn, mark_phase, NULL);
}
