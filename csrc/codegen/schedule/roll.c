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

static bool
mark_loop(const PhaseView *phase, Let *loop)
{
    Cx *cx = phase->fn->cx;
    int64_t extent;
    if (loop->op == OP_for && let_has(loop, MARK_vector) && loop_count(loop->body) == 0 &&
        dim_is_int(cx, loop_extent(loop), &extent) && extent <= DLC_UNROLLED &&
        has_outer_choice(loop->body) && fuel_spend(cx)) {
        let_mark(loop, MARK_rolled, true);
    }
    return true;
}

Fn *
rewrite_roll(Fn *fn)
{
    return loops_visit(fn, mark_loop);
}
