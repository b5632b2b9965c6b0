/* Rows or columns: which way the vectors of a reduction run.
 *
 * What:     whether the outer axes or the reduced ones are along memory, for all reductions of a
 *           group.
 * Requires: their loads, as offsets over the indices of both.
 * Ensures:  nothing but speed, and one order of the terms: it is part of what the loops say.
 * How:      of each side the axis along which most loads advance by one element; then the side with
 *           fewer loads across it, or else with more side by side.  Short rows are columns, however
 *           few there are: their number may be a name, and the bits are those of the row's size.
 * Why not:  count loads side by side alone: one that does not change with an axis at all is as good
 *           along it, and where sizes are symbols nothing else tells two sides apart.
 * Example:  sum over i of (x[i, j] - m[i]) * r[i] * g[i, j]: two loads are side by side along i,
 *           two along j; but x and g are across i, and nothing is across j: columns.
 */
#include "lower.h"

/* How many loads of reductions are contiguous along the best of some axes, and how many go
 * across. */
typedef struct { int contiguous, across; } RowLayout;

typedef struct { const Lower *lo; const Space *space; const Site *site; bool bound; } Bound;

static void
see_bound(void *arg, Dim name)
{
    Bound *b = arg;
    bool known = dim_extent(b->lo->cx, name) == DIM_NONE;
    for (int k = 0; k < b->space->nouter && !known; k++) {
        known = b->space->outer[k] == name;
    }
    for (int k = 0; k < b->site->nown && !known; k++) {
        known = b->site->own[k] == name;
    }
    b->bound |= !known;
}

/* Loads that change with the axis and not by one element; a load where data says is taken to change
 * with each reduced axis.  One that does not change with the axis is as good as any. */
static int
loads_across(const Lower *lo, const Space *space, const Site *s, Dim axis, bool own)
{
    int n = 0;
    for (int k = 0; k < s->noffsets; k++) {
        Dim step, rest;
        Bound b = {lo, space, s, false};
        bool contiguous = dim_affine(lo->cx, s->offsets[k], axis, &step, &rest) &&
                          dim_is(lo->cx, step, 1);
        dim_names(lo->cx, s->offsets[k], see_bound, &b);
        n += (dim_uses(lo->cx, s->offsets[k], axis) && !contiguous) || (own && b.bound);
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
        int64_t most = extent_most(lo->cx, s->nown, s->extent);
        row = most > row ? most : row;
    }
    bool along = outer.across != inner.across ? outer.across < inner.across && outer.contiguous > 0
                                              : outer.contiguous > inner.contiguous;
    return space->nouter > 0 && (along || row <= DLC_SHORT_ROW);
}
