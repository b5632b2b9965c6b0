/* Prefetching for an optimising C compiler.
 *
 * What:     prefetches of what later steps of a reduction will load.
 * Requires: the body of a reduction that is put in lanes, or of one that is put over a tile of
 *           columns.
 * Ensures:  nothing but speed: a prefetch reads nothing, wherever it points.
 * How:      emit_prefetch.c says how far ahead a reduction along rows prefetches.
 *           A reduction of columns prefetches its next steps.  If a loop over the row follows the
 *           reductions and has non-temporal stores, it prefetches all of the next row, since memory
 *           has nothing else to read then.  Two rows that run at a time come from caches or are
 *           short, so they prefetch nothing.
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
    if (cc_of(e)->short_row || e->tile || e->rows || cc_of(e)->recurrences ||
        (cc_of(e)->jam && !cc_is_short(e, cc_of(e)->jam))) {
        return;
    }
    for (int k = 0; k < reduce->body->n; k++) {
        const Let *load = reduce->body->lets[k];
        int bytes = load->op == OP_load ? dtype_info[load->args[0]->type->dtype].bytes : 1;
        int far = prefetch_along_row(e, load, reduce, (int64_t)elements * bytes);
        for (int line = 0; far && line < DLC_LANES * bytes; line += DLC_LINE) {
            put(e, "PREFETCH(%s + %s + %s, %d);", name_c(e, load->args[0]),
                offset_c(e, row_offset(e, load, reduce)), at, far + line);
        }
    }
}

/* ---- rows that follow ---- */

/* Does a reduction in the block, at any depth, read the tensor?  within: blk is in a reduction. */
static bool
reduces(const Block *blk, const Value *tensor, bool within)
{
    bool found = false;
    for (int k = 0; k < blk->n && !found; k++) {
        const Let *let = blk->lets[k];
        found = within && let->op == OP_load && let->args[0] == tensor;
        found = found || (let->op == OP_reduce && reduces(let->body, tensor, true));
    }
    return found;
}

/* For a loop over a row after reductions of it, with non-temporal stores: the distance in bytes
 * from a load to the same element of the next row; 0: prefetching is not worth it. */
static int
next_row(Emit *e, const Let *load)
{
    Cx *cx = e->cx;
    const Let *rows = load->parent->owner;
    int64_t bytes = dtype_info[load->args[0]->type->dtype].bytes, row = bytes, elements = 0;
    while (row <= DLC_L2 && loop_is(rows) && !reduces(rows->body, load->args[0], false)) {
        Range n = dim_range(cx, loop_extent(rows));
        row = n.lo >= 1 && n.hi <= DLC_L2 ? row * n.hi : DLC_L2 + 1;
        rows = rows->parent->owner;
    }
    bool prefetches = row >= 2 * DLC_PAGE && row <= DLC_L2 && loop_is(rows) &&
                      is_from_memory(e, load) && step_along(e, load, rows) &&
                      dim_is_int(cx, step_along(e, load, rows)->step, &elements) && elements > 0 &&
                      elements <= DLC_FARTHEST / bytes;
    return prefetches ? (int)(elements * bytes) : 0;
}

void
cc_prefetch_rows(Emit *e, const Let *loop, const char *at)
{
    for (int k = 0; k < loop->body->n; k++) {
        const Let *load = loop->body->lets[k];
        Dim row = row_offset(e, load, loop);
        int bytes = row != DIM_NONE ? dtype_info[load->args[0]->type->dtype].bytes : 1;
        int far = row != DIM_NONE ? next_row(e, load) : 0;
        for (int line = 0; far && line < DLC_LANES * bytes; line += DLC_LINE) {
            put(e, "PREFETCH(%s + %s + %s, %d);", name_c(e, load->args[0]), offset_c(e, row), at,
                far + line);
        }
    }
}

/* ---- columns ---- */

/* Finds where a load's row of columns begins, and how far the next one is; false: the row comes
 * from a cache, or there is no row. */
static bool
column_row(Emit *e, const Let *load, const Let *reduce, const Let *tile, Dim *row, Dim *stride)
{
    const Step *next = is_from_memory(e, load) ? step_along(e, load, reduce) : NULL;
    *row = next ? row_offset(e, load, tile) : DIM_NONE;
    *stride = next ? next->step : DIM_NONE;
    return *row != DIM_NONE && !dim_is(e->cx, *stride, 0);
}

ColumnsFrom
cc_columns_from(Emit *e, const Let *reduce, const Let *tile)
{
    ColumnsFrom from = FROM_CACHES;
    for (int k = 0; k < reduce->body->n; k++) {
        Dim row, stride;
        if (column_row(e, reduce->body->lets[k], reduce, tile, &row, &stride)) {
            from = stride == loop_extent(tile) && from != FROM_PIECES ? FROM_ROWS : FROM_PIECES;
        }
    }
    return from;
}

void
cc_prefetch_columns(Emit *e, const Let *reduce, const Let *tile, const char *at, const char *step,
                    int steps)
{
    const char *i = index_c(e, loop_index(reduce));
    for (int k = 0; k < reduce->body->n; k++) {
        const Let *load = reduce->body->lets[k];
        Dim row, stride;
        if (!column_row(e, load, reduce, tile, &row, &stride)) {
            continue;
        }
        int bytes = dtype_info[load->args[0]->type->dtype].bytes;
        put_open(e, "for (int64_t k = first; k < last; k += %d)", DLC_LINE / bytes);
        for (int j = 0; j < steps; j++) {
            put_scope(e);
            put(e, "const int64_t %s = %s + %d;", i, step, DLC_PREFETCH_STEPS + j);
            put(e, "PREFETCH(%s, (%s + %s + k) * %d);", name_c(e, load->args[0]), offset_c(e, row),
                at, bytes);
            put_close(e);
        }
        put_close(e);
    }
}
