/* Scans of rows side by side, for the libtcc tier.
 *
 * What:     a loop marked recurrences that does nothing but scan what it loads (loops/scan.c), as
 *           one call.
 * Requires: the loop, its rows from .. to - 1 at hand; see emit_panel.c.
 * Ensures:  each row's order; rows do not wait for each other.
 * How:      where a row and an element of it lie are arguments of the strip.
 * Why not:  rows one after the other: each addition waits for the one before it, four cycles in
 *           which those of other rows could begin.
 * Example:  y = cumsum of x[N, M] along M:
 *           strip_scan_add_f32(y + M*i, 1, M, x + M*i, 1, M, &zero, M, i_to - i_from, 0);
 */
#include "emit_tcc.h"

/* The first row's first element, and the steps: as C. */
static const char *
operand_c(Tcc *t, const Let *access, const ScanSteps *steps)
{
    Emit *e = t->e;
    return cx_format(e->cx, "%s + %s, %s, %s", name_c(e, access->args[0]),
                     dim_c(e, access_offset(e, access)), dim_c(e, steps->along),
                     dim_c(e, steps->row));
}

bool
tcc_put_scan(Tcc *t, const Let *recurrences)
{
    Emit *e = t->e;
    Scan s;
    if (!(let_has(recurrences, MARK_scan) && scan_alone(e->facts, recurrences, &s))) {
        return false;
    }
    const char *i = index_c(e, loop_index(recurrences)), *j = index_c(e, loop_index(s.loop));
    put(e, "const int64_t %s = %s_from, %s = 0;", i, i, j);
    put(e, "%s(%s, %s, %s, %s, %s_to - %s_from, %s);",
        tcc_strip(t, "strip_scan_%s_%s", op_info[s.op].name, dtype_info[s.dtype].name),
        operand_c(t, s.store, &s.to), operand_c(t, s.load, &s.from),
        tcc_literal(t, s.wide, *literal_of(s.first->args[1])), dim_c(e, loop_extent(s.loop)), i, i,
        use_nontemporal_c(e, s.store));
    return true;
}
