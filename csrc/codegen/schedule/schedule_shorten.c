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
#include <string.h>

#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

/* Is its extent a block at most or more, as it comes when it runs? */
static bool
may_be_both(Cx *cx, const Let *reduce)
{
    Range extent = dim_range(cx, loop_extent(reduce));
    return extent.lo <= DLC_BLOCK && extent.hi > DLC_BLOCK;
}

static void
shorten(Cx *cx, Let *loop)
{
    for (int k = 0; k < loop->body->n; k++) {
        Let *let = loop->body->lets[k];
        if (!loop_is(let)) {
            continue;
        }
        shorten(cx, let);
        const char *op = let->op == OP_reduce ? let_str(let, "op") : NULL;
        if (op && op_info[op_find(op, strlen(op))].rule != RULE_INDEX &&
            loop_is_latency_bound(let) && may_be_both(cx, let) && fuel_spend(cx)) {
            let_mark(let, MARK_short, true);
        }
    }
}

static void
shorten_phase(const PhaseView *phase, const void *arg)
{
    (void)arg;
    shorten(phase->fn->cx, phase->loop);
}

Fn *
rewrite_shorten(Fn *fn)
{
    return phases_visit(fn, shorten_phase, NULL);
}
