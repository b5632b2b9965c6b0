/* Short loops that the C compiler must not unroll.
 *
 * What:     marks vector loops `rolled` that have few iterations and a `where` that chooses alike
 *           in all of them.
 * Requires: a scheduled function.
 * Ensures:  nothing but speed, if the C compiler is right.
 * How:      gcc may unroll a short loop and make a vector loop of the one around it.  gcc 12 then
 *           reads what a `where` chooses of several iterations of that by the condition of the
 *           first; so such a loop stays one.
 * Example:  for j in 8 vector rolled { let y: f32 = where c, a, b .. }, with c from outside
 */
#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

/* Is there a `where` in it, not deeper, that chooses alike in all iterations? */
static bool
has_outer_choice(const Block *blk)
{
    bool outer = false;
    for (int k = 0; k < blk->n && !outer; k++) {
        const Let *let = blk->lets[k], *of = let->op == OP_where ? let->args[0]->def : NULL;
        outer = of && of->parent != blk;
    }
    return outer;
}

static void
mark_loops(Cx *cx, Let *let)
{
    int64_t extent;
    if (!loop_is(let) || loop_is_call(let)) {
        return;
    }
    if (let->op == OP_for && let_has(let, MARK_vector) && loop_count(let->body) == 0 &&
        dim_is_int(cx, loop_extent(let), &extent) && extent <= DLC_UNROLLED &&
        has_outer_choice(let->body) && fuel_spend(cx)) {
        let_mark(let, MARK_rolled, true);
    }
    for (int k = 0; k < let->body->n; k++) {
        mark_loops(cx, let->body->lets[k]);
    }
}

static void
mark_phase(const PhaseView *phase, const void *arg)
{
    (void)arg;
    mark_loops(phase->fn->cx, phase->loop);
}

Fn *
rewrite_roll(Fn *fn)
{
    return phases_visit(fn, mark_phase, NULL);
}
