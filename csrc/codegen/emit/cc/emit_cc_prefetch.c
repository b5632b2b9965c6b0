/* Prefetching for an optimising C compiler.
 *
 * What:     prefetches of what later steps of a reduction will load.
 * Requires: the body of a reduction that is put in lanes, or of one that is put over a tile of
 *           columns.
 * Ensures:  nothing but speed: a prefetch reads nothing, wherever it points.
 * How:      the marks of loads say what is prefetched, and how far ahead (schedule/prefetch.c).
 *           Of two rows that run at a time, loads marked alone prefetch nothing.
 * Example:  for (; sum_at + 16 <= sum_end; sum_at += 16) {
 *               PREFETCH(x + 1024 * i0 + sum_at, 4096); for k < 16 { .. } }
 */
#include "emit_cc.h"

/* ---- along rows ---- */

/* Lines of DLC_LANES elements of a row, so far ahead of its element `at`. */
static void
put_lines(Emit *e, const Let *load, Dim row, const char *at, int far)
{
    const AccessFacts *access = facts_access(e->facts, load);
    for (int k = 0; far && k < DLC_LANES; k += access->per_line) {
        put(e, "PREFETCH(%s + %s + %s, %d);", name_c(e, load->args[0]), offset_c(e, row), at,
            far + k * access->bytes);
    }
}

void
cc_prefetch_lanes(Emit *e, const Let *reduce, bool together, const char *at, int elements)
{
    for (int k = 0; k < reduce->body->n; k++) {
        const Let *load = reduce->body->lets[k];
        bool here = load->op == OP_load && !(together && let_has(load, MARK_alone));
        Dim row = here ? row_offset(e, load, reduce) : DIM_NONE;
        if (row != DIM_NONE) {
            int64_t least = (int64_t)elements * facts_access(e->facts, load)->bytes;
            put_lines(e, load, row, at,
                      facts_prefetched(e->facts, load, let_around(reduce), least));
        }
    }
}

/* ---- rows that follow ---- */

void
cc_prefetch_rows(Emit *e, const Let *loop, const char *at)
{
    for (int k = 0; k < loop->body->n; k++) {
        const Let *load = loop->body->lets[k];
        bool marked = let_has(load, MARK_prefetch_rows) && facts_access(e->facts, load)->from_loops;
        Dim row = marked ? row_offset(e, load, loop) : DIM_NONE;
        if (row != DIM_NONE) {
            put_lines(e, load, row, at,
                      facts_prefetched(e->facts, load, loop_of_reductions(load), 0));
        }
    }
}

/* ---- short rows ---- */

void
cc_prefetch_vector(Emit *e, const Let *loop)
{
    int64_t elements;
    bool known = dim_is_int(e->cx, loop_extent(loop), &elements);
    for (int k = 0; k < loop->body->n && known; k++) {
        const Let *load = loop->body->lets[k];
        bool ahead = load->op == OP_load && let_has(load, MARK_prefetch);
        Dim row = ahead ? row_offset(e, load, loop) : DIM_NONE;
        for (int64_t at = 0; row != DIM_NONE && at < elements;
             at += facts_access(e->facts, load)->per_line) {
            int bytes = facts_access(e->facts, load)->bytes;
            put(e, "PREFETCH(%s, (%s) * %d + %lld);", name_c(e, load->args[0]), offset_c(e, row),
                bytes, (long long)(let_mark_value(load, MARK_prefetch) + at * bytes));
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
        put_open(e, "for (int64_t k = first; k < last; k += %d)",
                 facts_access(e->facts, load)->per_line);
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
