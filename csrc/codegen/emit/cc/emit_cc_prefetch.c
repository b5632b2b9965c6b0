/* Prefetching for an optimising C compiler.
 *
 * What:     prefetches of what later steps of a reduction will load.
 * Requires: the body of a reduction that is put in lanes, or of one that is put over a tile of
 *           columns.
 * Ensures:  nothing but speed: a prefetch reads nothing, wherever it points.
 * How:      the marks of loads say what is prefetched, and how far ahead (schedule/prefetch.c).
 *           Two rows that run at a time come from caches or are short, so they prefetch nothing.
 * Why not:  prefetch in loops without a reduction: they would be cut in strips, to have one
 *           prefetch for each line.  Then a loop over data in the first-level cache takes up to 1.7
 *           times as long, and one over memory a tenth less.  Prefetch what is stored: no lasting
 *           difference.
 * Example:  for (; sum_at + 16 <= sum_end; sum_at += 16) {
 *               PREFETCH(x + 1024 * i0 + sum_at, 4096); for k < 16 { .. } }
 */
#include "emit_cc.h"

/* ---- along rows ---- */

void
cc_prefetch_lanes(Emit *e, const Let *reduce, const char *at, int elements)
{
    for (int k = 0; k < reduce->body->n; k++) {
        const Let *load = reduce->body->lets[k];
        int bytes = load->op == OP_load ? dtype_info[load->args[0]->type->dtype].bytes : 1;
        int far = load->op == OP_load && row_offset(e, load, reduce) != DIM_NONE
                      ? prefetch_bytes(e, load, reduce->parent->owner, (int64_t)elements * bytes)
                      : 0;
        for (int line = 0; far && line < DLC_LANES * bytes; line += DLC_LINE) {
            put(e, "PREFETCH(%s + %s + %s, %d);", name_c(e, load->args[0]),
                offset_c(e, row_offset(e, load, reduce)), at, far + line);
        }
    }
}

/* ---- rows that follow ---- */

void
cc_prefetch_rows(Emit *e, const Let *loop, const char *at)
{
    for (int k = 0; k < loop->body->n; k++) {
        const Let *load = loop->body->lets[k];
        if (!let_has(load, MARK_prefetch_rows) || !facts_access(e->facts, load)->from_loops) {
            continue;
        }
        Dim row = row_offset(e, load, loop);
        int bytes = dtype_info[load->args[0]->type->dtype].bytes;
        int far = row == DIM_NONE ? 0 : prefetch_bytes(e, load, loop_of_reductions(load), 0);
        for (int line = 0; far && line < DLC_LANES * bytes; line += DLC_LINE) {
            put(e, "PREFETCH(%s + %s + %s, %d);", name_c(e, load->args[0]), offset_c(e, row), at,
                far + line);
        }
    }
}

/* ---- columns ---- */

/* Where the row of columns begins that a load prefetches; DIM_NONE: it prefetches none. */
static Dim
column_row(Emit *e, const Let *load, const Let *tile)
{
    bool marked = let_has(load, MARK_prefetch_rows) && facts_access(e->facts, load)->from_loops;
    return marked ? row_offset(e, load, tile) : DIM_NONE;
}

void
cc_prefetch_columns(Emit *e, const Let *reduce, const Let *tile, const char *at, const char *step,
                    int steps)
{
    const char *i = index_c(e, loop_index(reduce));
    for (int k = 0; k < reduce->body->n; k++) {
        const Let *load = reduce->body->lets[k];
        Dim row = column_row(e, load, tile);
        if (row == DIM_NONE) {
            continue;
        }
        int bytes = dtype_info[load->args[0]->type->dtype].bytes;
        put_open(e, "for (int64_t k = first; k < last; k += %d)", DLC_LINE / bytes);
        for (int j = 0; j < steps; j++) {
            put_scope(e);
            put(e, "const int64_t %s = %s + %d;", i, step,
                (int)let_mark_value(load, MARK_prefetch_rows) + j);
            put(e, "PREFETCH(%s, (%s + %s + k) * %d);", name_c(e, load->args[0]), offset_c(e, row),
                at, bytes);
            put_close(e);
        }
        put_close(e);
    }
}
