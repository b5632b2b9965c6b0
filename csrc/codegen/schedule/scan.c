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

static bool
mark_scan(const PhaseView *phase, Let *loop)
{
    Scan s;
    if (let_has(loop, MARK_recurrences) && scan_alone(phase->facts, loop, &s) &&
        fuel_spend(phase->fn->cx)) {
        let_mark(loop, MARK_scan, true);
    }
    return true;
}

static bool
mark_scan_of_lanes(const PhaseView *phase, Let *loop)
{
    Scan s;
    Cx *cx = phase->fn->cx;
    if (let_has(loop, MARK_recurrences) && scan_alone(phase->facts, loop, &s) && s.at_once &&
        dim_range(cx, loop_extent(loop)).hi >= let_mark_value(loop, MARK_recurrences) &&
        !let_has(s.loop, MARK_distribute) && fuel_spend(cx)) {
        let_mark(loop, MARK_scan, true);
    }
    return true;
}

Fn *
rewrite_scan_tcc(Fn *fn)
{
    return loops_visit(fn, mark_scan);
}

Fn *
rewrite_scan_cc(Fn *fn)
{
    return loops_visit(fn, mark_scan_of_lanes);
}
