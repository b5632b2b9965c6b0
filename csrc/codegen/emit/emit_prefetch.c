/* Prefetching for an optimising C compiler; for both tiers, what reductions along rows prefetch.
 *
 * What:     hints to the processor about the loads that later steps of a reduction will make.
 * Requires: the body of a reduction that is put in lanes, or of one that is put over a tile of
 *           columns.
 * Ensures:  nothing but speed: a hint reads nothing, wherever it points.
 * How:      Processors prefetch by themselves within a page.  A row of 4 KB is a page, so each row
 *           would begin with a wait, and between two reductions over a row memory would be idle.
 *           A reduction along rows prefetches one page ahead: the same position of a coming row or,
 *           in a long row, a later part of it.  If rows are not contiguous, it prefetches the next
 *           row instead (without that, a batch norm of 64 MiB took a fifth longer).
 *           Only the last reduction of a row that reads an element prefetches, because it has fewer
 *           cache misses of its own.
 *           A reduction of columns prefetches its next steps.  If a loop over the row follows the
 *           reductions and has non-temporal stores, it prefetches all of the next row, since memory
 *           has nothing else to read then.  Two rows that run at a time come from caches or are
 *           short, so they prefetch nothing.
 *           What is known to stay in the second-level cache is not prefetched: each hint is one
 *           more load.  If sizes are symbols, it is not known, and the phase makes no comparison
 *           when it runs either.  There hints cost a hundredth for data in the first-level cache,
 *           and six hundredths for sums of rows of 64.
 * Why not:  prefetch in loops without a reduction: they would be cut in strips, to have one hint
 *           for each line.  Then a loop over data in the first-level cache takes up to 1.7 times as
 *           long, and one over memory a tenth less.  Prefetch what is stored: no lasting
 *           difference.
 * Example:  for (; sum_at + 16 <= sum_end; sum_at += 16) {
 *               PREFETCH(x + 1024 * i0 + sum_at, 4096); for k < 16 { .. } }
 */
#include "codegen/emit/cc/emit_cc.h"

/* Does it read a tensor that may have to come from memory, at a position that loops give? */
static bool
is_far(Emit *e, const Let *load)
{
    if (load->op != OP_load) {
        return false;
    }
    const Value *buffer = load->args[0];
    if (is_private(e, buffer) || panel_of(e, load) || dtype_info[buffer->type->dtype].bytes == 1 ||
        is_cached(e->cx, buffer)) {
        return false;
    }
    return loops_give(e->cx, load->parent->owner, access_offset(e, load));
}

/* ---- along rows ---- */

Dim
cc_row_offset(Emit *e, const Let *load, const Let *reduce)
{
    Dim step, rest;
    bool contiguous = load->op == OP_load &&
                      dim_affine(e->cx, access_offset(e, load), loop_index(reduce), &step, &rest) &&
                      dim_is(e->cx, step, 1);
    return contiguous ? rest : DIM_NONE;
}

/* Does a later reduction of the same rows read the element again? */
static bool
comes_again(Emit *e, const Let *load, const Let *reduce, Dim row)
{
    const Block *rows = reduce->parent;
    bool seen = false;
    for (int k = 0; k < rows->n; k++) {
        const Let *later = rows->lets[k];
        bool reads = seen && later->op == OP_reduce && loop_has(later, MARK_vector) &&
                     !is_onehot(later);
        for (int j = 0; reads && j < later->body->n; j++) {
            const Let *l = later->body->lets[j];
            if (l->op == OP_load && l->args[0] == load->args[0] &&
                cc_row_offset(e, l, later) == row) {
                return true;
            }
        }
        seen |= later == reduce;
    }
    return false;
}

/* The distance in bytes from a row's elements to what is prefetched meanwhile.  It is about a page
 * if the next row follows or the row itself goes on; else it is the distance to the next row; 0: it
 * is not known. */
static int
distance_in_row(Emit *e, const Let *reduce, Dim row, int bytes, int64_t least)
{
    const Let *rows = reduce->parent->owner;
    Range length = dim_range(e->cx, loop_extent(reduce));
    Dim stride, rest;
    int64_t elements = 0;
    int on = least < DLC_PAGE ? DLC_PAGE : least < DLC_L1 ? (int)least : DLC_L1;
    if (length.lo >= 2 * DLC_PAGE / bytes) {
        return on;
    }
    if (!loop_is(rows) || !dim_affine(e->cx, row, loop_index(rows), &stride, &rest)) {
        return 0;
    }
    if (stride == loop_extent(reduce) || dim_is(e->cx, stride, length.hi)) {
        return on;
    }
    bool far = dim_is_int(e->cx, stride, &elements) && elements > length.hi &&
               elements <= DLC_FARTHEST / bytes;
    return far && length.lo >= DLC_PAGE / bytes / DLC_PAGE_ROWS ? (int)elements * bytes : 0;
}

int
prefetch_along_row(Emit *e, const Let *load, const Let *reduce, int64_t least)
{
    Dim row = is_far(e, load) ? cc_row_offset(e, load, reduce) : DIM_NONE;
    bool prefetches = row != DIM_NONE && !is_onehot(reduce) && !comes_again(e, load, reduce, row);
    return prefetches ? distance_in_row(e, reduce, row,
                                        dtype_info[load->args[0]->type->dtype].bytes, least)
                      : 0;
}

void
cc_prefetch_lanes(Emit *e, const Let *reduce, const char *at, int elements)
{
    if (e->short_row || e->tile || e->rows || e->recurrences ||
        (e->jam && !cc_is_short(e, e->jam))) {
        return;
    }
    for (int k = 0; k < reduce->body->n; k++) {
        const Let *load = reduce->body->lets[k];
        int bytes = load->op == OP_load ? dtype_info[load->args[0]->type->dtype].bytes : 1;
        int far = prefetch_along_row(e, load, reduce, (int64_t)elements * bytes);
        for (int line = 0; far && line < DLC_LANES * bytes; line += DLC_LINE) {
            put(e, "PREFETCH(%s + %s + %s, %d);", name_c(e, load->args[0]),
                offset_c(e, cc_row_offset(e, load, reduce)), at, far + line);
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

int
prefetch_next_row(Emit *e, const Let *load)
{
    Cx *cx = e->cx;
    const Let *rows = load->parent->owner;
    int64_t bytes = dtype_info[load->args[0]->type->dtype].bytes, row = bytes, elements = 0;
    Dim stride, rest;
    while (row <= DLC_L2 && loop_is(rows) && !reduces(rows->body, load->args[0], false)) {
        Range n = dim_range(cx, loop_extent(rows));
        row = n.lo >= 1 && n.hi <= DLC_L2 ? row * n.hi : DLC_L2 + 1;
        rows = rows->parent->owner;
    }
    bool prefetches = row >= 2 * DLC_PAGE && row <= DLC_L2 && loop_is(rows) && is_far(e, load) &&
                      dim_affine(cx, access_offset(e, load), loop_index(rows), &stride, &rest) &&
                      dim_is_int(cx, stride, &elements) && elements > 0 &&
                      elements <= DLC_FARTHEST / bytes;
    return prefetches ? (int)(elements * bytes) : 0;
}

void
cc_prefetch_rows(Emit *e, const Let *loop, const char *at)
{
    for (int k = 0; k < loop->body->n; k++) {
        const Let *load = loop->body->lets[k];
        Dim row = cc_row_offset(e, load, loop);
        int bytes = row != DIM_NONE ? dtype_info[load->args[0]->type->dtype].bytes : 1;
        int far = row != DIM_NONE ? prefetch_next_row(e, load) : 0;
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
    Dim one, rest;
    return is_far(e, load) &&
           dim_affine(e->cx, access_offset(e, load), loop_index(tile), &one, row) &&
           dim_is(e->cx, one, 1) && dim_affine(e->cx, *row, loop_index(reduce), stride, &rest) &&
           !dim_is(e->cx, *stride, 0);
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
