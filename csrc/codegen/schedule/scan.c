/* Scans alone: recurrences that one routine does.
 *
 * What:     marks loops marked recurrences `scan` that scan what they load and do nothing else,
 *           where the target has a routine for them.
 * Requires: a scheduled function.
 * Ensures:  each row's order (V20).
 * How:      in `cc` the lanes of vectors are eight rows of adjacent floats (prelude_scan.h); in
 *           `tcc` a primitive goes through rows side by side, however their elements lie.
 * Why not:  in `cc` where there are fewer rows than run together: the routine would never run.
 * Example:  y = cumsum of x[N, M] along M: for i in N recurrences=8 scan { .. }
 */
#include "codegen/loops/phase_use.h"
#include "codegen/loops/scan.h"
#include "codegen/rewrites.h"

/* Does the target's routine do it? */
static bool
has_routine(const PhaseView *phase, const Let *loop, const Scan *s)
{
    int64_t rows = dim_range(phase->fn->cx, loop_extent(loop)).hi;
    bool lanes = s->at_once && rows >= let_mark_value(loop, MARK_recurrences) &&
                 !let_has(s->loop, MARK_distribute);
    return lanes || !target_of(phase->fn)->costs.scans_lanes;
}

static bool
mark_scan(const PhaseView *phase, Let *loop)
{
    Scan s;
    if (let_has(loop, MARK_recurrences) && scan_alone(phase->facts, loop, &s) &&
        has_routine(phase, loop, &s) && fuel_spend(phase->fn->cx)) {
        let_mark(loop, MARK_scan, true);
    }
    return true;
}

Fn *
rewrite_scan(Fn *fn)
{
    return loops_visit(fn, mark_scan);
}
