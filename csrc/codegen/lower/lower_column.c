/* Rows or columns: which way the vectors of a reduction run.
 *
 * What:     decides for all reductions of a group whether vectors run along the outer axes
 *           (columns) or along the reduced ones (rows).
 * Requires: their loads, as offsets over the indices of both.
 * Ensures:  the loops state one order of the terms; otherwise the choice concerns speed alone.
 * How:      For each side, take the axis along which most loads advance by one element.  The side
 *           with fewer loads across it wins; if both have as many, the side with more contiguous
 *           loads.  Short rows are always columns, even if there are few rows: their number may be
 *           a size symbol, and only the row's size may decide about bits.
 * Why not:  count contiguous loads alone: a load that does not change with an axis is as good along
 *           it, and where sizes are symbols only the loads across tell the two sides apart.
 * Example:  sum over i of (x[i, j] - m[i]) * r[i] * g[i, j]: two loads are contiguous along i and
 *           two along j; but x and g are across i, and nothing is across j, so these are columns.
 */
#include "lower.h"

/* How many loads of reductions are contiguous along the best of some axes, and how many go
 * across. */
typedef struct {
    int contiguous, across;
} RowLayout;

typedef struct {
    const Lower *lo;
    const Space *space;
    const Site *site;
} Axes;

/* Is it an index that is data: of no outer axis and no axis of the reduction? */
static bool
is_index_in_memory(const void *arg, Dim name)
{
    const Axes *b = arg;
    bool known = dim_extent(b->lo->cx, name) == DIM_NONE;
    for (int k = 0; k < b->space->nouter && !known; k++) {
        known = b->space->outer[k] == name;
    }
    for (int k = 0; k < b->site->nown && !known; k++) {
        known = b->site->own[k] == name;
    }
    return !known;
}

/* Counts the loads that change with the axis by a step other than one.  A load whose position is
 * data counts along each reduced axis.  A load that does not change with the axis never counts. */
static int
loads_across(const Lower *lo, const Space *space, const Site *s, Dim axis, bool own)
{
    int n = 0;
    for (int k = 0; k < s->noffsets; k++) {
        Dim step, rest;
        bool contiguous = dim_affine(lo->cx, s->offsets[k], axis, &step, &rest) &&
                          dim_is(lo->cx, step, 1);
        bool bound = own &&
                     dim_any_name(lo->cx, s->offsets[k], is_index_in_memory, &(Axes){lo, space, s});
        n += (dim_uses(lo->cx, s->offsets[k], axis) && !contiguous) || bound;
    }
    return n;
}

static RowLayout
layout_along(const Lower *lo, const Space *space, const Site *s, int n, const Dim *axes)
{
    RowLayout best = {0, 0};
    for (int k = 0; k < n; k++) {
        RowLayout one = {nest_score(lo->cx, axes[k], s->noffsets, s->offsets),
                         loads_across(lo, space, s, axes[k], axes == s->own)};
        if (k == 0 || one.contiguous > best.contiguous ||
            (one.contiguous == best.contiguous && one.across < best.across)) {
            best = one;
        }
    }
    return best;
}

bool
reduces_columns(Lower *lo, const Space *space, const Probe *probe)
{
    RowLayout outer = {0, 0}, inner = {0, 0};
    int64_t row = 0;
    for (int j = 0; j < probe->nsites; j++) {
        const Site *s = &probe->sites[j];
        RowLayout own = layout_along(lo, space, s, s->nown, s->own);
        RowLayout out = layout_along(lo, space, s, space->nouter, space->outer);
        inner = (RowLayout){inner.contiguous + own.contiguous, inner.across + own.across};
        outer = (RowLayout){outer.contiguous + out.contiguous, outer.across + out.across};
        int64_t most = dims_most(lo->cx, s->nown, s->extent);
        row = most > row ? most : row;
    }
    bool along = outer.across != inner.across ? outer.across < inner.across && outer.contiguous > 0
                                              : outer.contiguous > inner.contiguous;
    return space->nouter > 0 && (along || row <= DLC_SHORT_ROW);
}
