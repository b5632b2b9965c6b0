/* Reductions whose rows may be short get code of their own for that.
 *
 * What:     marks reductions in lanes `short`: a row of at most one block goes without what
 *           combines blocks, by a choice for each row when it runs.
 * Requires: reductions as lower.c leaves them.
 * Ensures:  the order of docs/bits.md: of one block nothing is combined.
 * How:      a reduction is marked if its extent may be a block at most or more, and if its body
 *           costs less than what combines blocks: of an expensive one the second copy of the text
 *           would cost more time to compile than it saves.
 * Why not:  an if, as rows of fewer elements than lanes have (lower_short.c): the
 *           choice is the same in all rows, so that the processor foresees it.
 * Example:  distance of points in D dimensions:
 *               let s: f32 = reduce sum d in D lanes short { .. }
 */
#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

/* Is its extent a block at most or more, as it comes when it runs? */
static bool
may_be_both(Cx *cx, const Let *reduce)
{
    Range extent = dim_range(cx, loop_extent(reduce));
    return extent.lo <= DLC_BLOCK && extent.hi > DLC_BLOCK;
}

static bool
shorten(const PhaseView *phase, Let *loop)
{
    Cx *cx = phase->fn->cx;
    if (loop->op == OP_reduce && op_info[let_op(loop)].rule != RULE_INDEX &&
        loop_is_latency_bound(loop) && may_be_both(cx, loop) && fuel_spend(cx)) {
        let_mark(loop, MARK_short, true);
    }
    return true;
}

Fn *
rewrite_shorten(Fn *fn)
{
    return loops_visit(fn, shorten);
}
