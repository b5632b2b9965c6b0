/* What reductions along rows prefetch, for all targets that do.
 *
 * What:     how far ahead of its own loads a reduction asks for memory.
 * Requires: a reduction along the contiguous elements of rows.
 * Ensures:  nothing but speed: a prefetch reads nothing, wherever it points.
 * How:      Processors prefetch by themselves within a page.  A row of 4 KB is a page, so each row
 *           would begin with a wait, and between two reductions over a row memory would be idle.
 *           A reduction along rows prefetches one page ahead: the same position of a coming row or,
 *           in a long row, a later part of it.  If rows are not contiguous, it prefetches the next
 *           row instead (without that, a batch norm of 64 MiB took a fifth longer).
 *           Only the last reduction of a row that reads an element prefetches, because it has fewer
 *           cache misses of its own.
 *           What is known to stay in the second-level cache is not prefetched: each prefetch is one
 *           more load.  If sizes are symbols, it is not known, and the phase makes no comparison
 *           when it runs either.  There prefetches cost a hundredth for data in the first-level
 *           cache, and six hundredths for sums of rows of 64.
 */
#include "emit.h"

bool
is_from_memory(Emit *e, const Let *load)
{
    if (load->op != OP_load) {
        return false;
    }
    const Value *buffer = load->args[0];
    if (is_private(e, buffer) || panel_of(e, load) || dtype_info[buffer->type->dtype].bytes == 1 ||
        is_cached(e->cx, buffer)) {
        return false;
    }
    return facts_access(e->facts, load)->from_loops;
}

/* ---- along rows ---- */

Dim
row_offset(const Emit *e, const Let *load, const Let *loop)
{
    bool contiguous = load->op == OP_load && is_contiguous(e, load, loop);
    return contiguous ? step_along(e, load, loop)->rest : DIM_NONE;
}

/* Does a later reduction of the same rows read the element again? */
static bool
comes_again(Emit *e, const Let *load, const Let *reduce, Dim row)
{
    const Block *rows = reduce->parent;
    bool seen = false;
    for (int k = 0; k < rows->n; k++) {
        const Let *later = rows->lets[k];
        bool reads = seen && let_has(later, MARK_lanes) && !let_has(later, MARK_onehot);
        for (int j = 0; reads && j < later->body->n; j++) {
            const Let *l = later->body->lets[j];
            if (l->op == OP_load && l->args[0] == load->args[0] && row_offset(e, l, later) == row) {
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
distance_in_row(Emit *e, const Let *load, const Let *reduce, int64_t least)
{
    int bytes = facts_access(e->facts, load)->bytes;
    const Let *rows = reduce->parent->owner;
    Range length = dim_range(e->cx, loop_extent(reduce));
    int64_t elements = 0;
    int on = least < DLC_PAGE ? DLC_PAGE : least < DLC_L1 ? (int)least : DLC_L1;
    if (length.lo >= 2 * DLC_PAGE / bytes) {
        return on;
    }
    const Step *next = loop_is(rows) ? step_along(e, load, rows) : NULL;
    if (!next) {
        return 0;
    }
    if (next->step == loop_extent(reduce) || dim_is(e->cx, next->step, length.hi)) {
        return on;
    }
    bool far = dim_is_int(e->cx, next->step, &elements) && elements > length.hi &&
               elements <= DLC_FARTHEST / bytes;
    return far && length.lo >= DLC_PAGE / bytes / DLC_PAGE_ROWS ? (int)elements * bytes : 0;
}

int
prefetch_along_row(Emit *e, const Let *load, const Let *reduce, int64_t least)
{
    Dim row = is_from_memory(e, load) ? row_offset(e, load, reduce) : DIM_NONE;
    bool prefetches = row != DIM_NONE && !let_has(reduce, MARK_onehot) &&
                      !comes_again(e, load, reduce, row);
    return prefetches ? distance_in_row(e, load, reduce, least) : 0;
}
