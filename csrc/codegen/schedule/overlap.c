/* Long rows: parts of which run side by side, so that one waits while others go on.
 *
 * What:     marks reductions along rows `parts`: so many parts of a row run in one loop, each with
 *           lanes of its own.  They are blocks; of argmax and argmin the halves of a block, or
 *           every other few elements of a row whose lanes record where theirs are (`places`).
 *           Where what argmax and argmin compare is not a row of memory, marks them `array`: the
 *           elements of a block are in an array, in which the place of the extreme is looked for.
 * Requires: a scheduled function.
 * Ensures:  the order of prelude_reduce.h (V41): blocks are combined as without.
 * How:      A step waits for the one before it where the body is cheap.  Of argmax and argmin rows
 *           of memory alone, as others have to be kept in an array.  Short rows of floats have
 *           places: then nothing is looked for in them.
 * Why not:  to look for it in short rows: nothing is prefetched meanwhile, and when it is found
 *           nobody foresees. 16384 rows of 1024, two threads of Zen 5: 1.8 ms so, 1.2 with places,
 *           as loading them alone takes; of 256 KB as long.  Places of rows of 64 or of more than
 *           2048 elements, or of float64: up to 1.6 times as long as without.
 * Example:  let s: f32 = reduce sum j in 100000 lanes parts=4 { .. }
 */
#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

static bool
has_places(Cx *cx, const Let *reduce)
{
    Range n = dim_range(cx, loop_extent(reduce));
    return reduce->body->rets[0]->type->dtype == DT_f32 && n.lo >= DLC_SHORTEST_PLACED &&
           n.hi <= DLC_LONGEST_PLACED;
}

static void
mark_index(const Facts *facts, Let *reduce)
{
    enum { HALVES = 2 };
    Cx *cx = facts->cx;
    bool row = facts_reduced_row(facts, reduce), places = row && has_places(cx, reduce),
         halves = row && dim_range(cx, loop_extent(reduce)).hi >= DLC_BLOCK;
    if (!row && fuel_spend(cx)) {
        let_mark_with(cx, reduce, MARK_array, DLC_BLOCK + DLC_LANES);
    } else if ((places || halves) && fuel_spend(cx)) {
        let_mark_with(cx, reduce, MARK_parts, HALVES);
        let_mark(reduce, MARK_places, places);
    }
}

static void
mark_blocks(Cx *cx, Let *reduce)
{
    if (loop_is_latency_bound(reduce) &&
        dim_range(cx, loop_extent(reduce)).hi >= DLC_BLOCKS * DLC_BLOCK && fuel_spend(cx)) {
        let_mark_with(cx, reduce, MARK_parts, DLC_BLOCKS);
    }
}

static bool
mark_reduction(const PhaseView *phase, Let *loop)
{
    if (let_has(loop, MARK_lanes) && !let_has(loop, MARK_onehot)) {
        if (op_info[let_op(loop)].rule == RULE_INDEX) {
            mark_index(phase->facts, loop);
        } else {
            mark_blocks(phase->facts->cx, loop);
        }
    }
    return true;
}

Fn *
rewrite_overlap(Fn *fn)
{
    return loops_visit(fn, mark_reduction);
}
