/* Axes to loops: split, order and merge an index space so that the innermost loop runs along
 * memory.
 *
 * What:     the loops for an index space, and each axis as a function of their indices.
 * Requires: axes named by bare indices and the offsets, over these, of all elements that the loops
 *           will touch.
 * Ensures:  every element is visited once.  Without NEST_KEEP the order is chosen for speed.
 * How:      1. An axis that an offset uses as i//d or i%d, where d divides its size, becomes two:
 *              this removes the divisions of a transpose that is seen through a reshape.
 *           2. The axis along which most offsets advance by one goes innermost.  Stores count more
 *              than loads, since loads across rows can be transposed in tiles (schedule.c).  A
 *              short axis is preferred only if its rows are contiguous, one after the other: both
 *              tiers run many such rows at once.
 *           3. Neighbours whose offsets all advance as if they were one axis become one: a
 *              contiguous pointwise kernel becomes one flat loop.
 *           4. The axis along which most of the other offsets advance by one goes next to the
 *              innermost: it becomes the rows of those tiles.
 *           Linear in offsets times axes, squared in axes.
 * Why not:  search all orders: with contiguous stores and one reduction, the innermost loop alone
 *           decides how memory is read.  The other loops keep the order in which results are laid
 *           out.
 * Example:  axes i < B, j < N; offsets i*N + j, j (a bias): order i, j; no merge, since j does not
 *           advance with i.  With only i*N + j: one loop f < B*N, i = f//N, j = f%N.
 */
#include <string.h>

#include "lower.h"

typedef struct {
    Cx *cx;
    Nest *nest;
    int nstores, noffsets;      /* the stores are the first */
    Dim *offsets;
    Dim split, divisor;         /* the first index//divisor or index%divisor found in an offset */
    Dim *stack;                 /* of the walk over one offset */
    int depth;
} Planner;

/* ---- splitting ---- */

static void
see_leaf(void *arg, char kind, int64_t value, Dim name)
{
    Planner *p = arg;
    p->stack = cx_grow(p->cx, p->stack, p->depth, sizeof(Dim));
    p->stack[p->depth++] = kind == 'i' ? dim_int(p->cx, value) : name;
}

static int
loop_of(const Nest *nest, Dim index)
{
    for (int k = 0; k < nest->nloops; k++) {
        if (nest->index[k] == index) {
            return k;
        }
    }
    return -1;
}

/* The walk rebuilds the offset, to have the operands of each division as dims. */
static void
see_binary(void *arg, char kind)
{
    Planner *p = arg;
    Cx *cx = p->cx;
    Dim b = p->stack[--p->depth], a = p->stack[p->depth - 1];
    if ((kind == '/' || kind == '%') && !p->split) {
        int k = loop_of(p->nest, a);
        if (k >= 0 && !dim_is(cx, b, 0) &&
            dim_mul(cx, dim_div(cx, p->nest->count[k], b), b) == p->nest->count[k]) {
            p->split = a;
            p->divisor = b;
        }
    }
    p->stack[p->depth - 1] = dim_apply(cx, kind, a, b);
}

static bool
find_split(Planner *p)
{
    static const DimWalk walk = {see_leaf, see_binary};
    p->split = DIM_NONE;
    for (int k = 0; k < p->noffsets && !p->split; k++) {
        p->depth = 0;
        dim_walk(p->cx, p->offsets[k], &walk, p);
    }
    return p->split != DIM_NONE;
}

static void
replace(Planner *p, Dim name, Dim by)
{
    for (int k = 0; k < p->noffsets; k++) {
        p->offsets[k] = dim_replace(p->cx, p->offsets[k], name, by);
    }
    for (int ax = 0; ax < p->nest->naxes; ax++) {
        p->nest->axis[ax] = dim_replace(p->cx, p->nest->axis[ax], name, by);
    }
}

static void
split_loops(Planner *p)
{
    Nest *nest = p->nest;
    while (nest->nloops < MAX_LOOPS && find_split(p)) {
        int k = loop_of(nest, p->split);
        size_t after = (size_t)(nest->nloops - k - 1) * sizeof(Dim);
        memmove(&nest->index[k + 2], &nest->index[k + 1], after);
        memmove(&nest->count[k + 2], &nest->count[k + 1], after);
        nest->nloops++;
        nest->count[k] = dim_div(p->cx, nest->count[k], p->divisor);
        nest->count[k + 1] = p->divisor;
        nest->index[k] = dim_index(p->cx, "hi", nest->count[k]);
        nest->index[k + 1] = dim_index(p->cx, "lo", p->divisor);
        replace(p, p->split,
                dim_add(p->cx, dim_mul(p->cx, nest->index[k], p->divisor), nest->index[k + 1]));
    }
}

/* ---- ordering ---- */

int
nest_score(Cx *cx, Dim name, int noffsets, const Dim *offsets)
{
    int score = 0;
    for (int k = 0; k < noffsets; k++) {
        Dim step, rest;
        score += dim_affine(cx, offsets[k], name, &step, &rest) && dim_is(cx, step, 1);
    }
    return score;
}

static void
move_loop(Nest *nest, int from, int to)
{
    Dim index = nest->index[from], count = nest->count[from];
    for (int k = from; k < to; k++) {
        nest->index[k] = nest->index[k + 1];
        nest->count[k] = nest->count[k + 1];
    }
    nest->index[to] = index;
    nest->count[to] = count;
}

/* Has the loop a few iterations only?  Then stores are not put in order for it, and it is no good
 * vector if there is another loop. */
static bool
is_short(Planner *p, int k)
{
    return dim_range(p->cx, p->nest->count[k]).hi < DLC_LANES;
}

/* Does the offset depend on another loop than k? */
static bool
uses_others(Planner *p, Dim offset, int k)
{
    bool found = false;
    for (int j = 0; j < p->nest->nloops; j++) {
        found |= j != k && dim_uses(p->cx, offset, p->nest->index[j]);
    }
    return found;
}

/* Is a short loop the row of many rows that are contiguous, one after the other, so that several
 * can run as one?  All stores must be so, and all loads but those that read one number for a row or
 * the same row each time. */
static bool
is_row(Planner *p, int k)
{
    Dim step, rest, next, more;
    for (int o = 0; o < p->noffsets; o++) {
        Dim offset = p->offsets[o];
        bool contiguous = false;
        if (o >= p->nstores &&
            (!dim_uses(p->cx, offset, p->nest->index[k]) || !uses_others(p, offset, k))) {
            continue;
        }
        if (!dim_affine(p->cx, offset, p->nest->index[k], &step, &rest) ||
            !dim_is(p->cx, step, 1)) {
            return false;
        }
        for (int j = 0; j < p->nest->nloops; j++) {
            contiguous |= j != k && !is_short(p, j) &&
                          dim_affine(p->cx, rest, p->nest->index[j], &next, &more) &&
                          next == p->nest->count[k];
        }
        if (!contiguous) {
            return false;
        }
    }
    return p->nstores > 0;
}

/* flags: with NEST_BITS the order must not depend on whether a loop is known to be short, because a
 * size symbol does not tell and the bits would differ. */
static void
order_loops(Planner *p, int flags)
{
    Nest *nest = p->nest;
    int best = nest->nloops - 1, most = -1;
    for (int k = nest->nloops - 1; k >= 0; k--) {
        int score = 2 * nest_score(p->cx, nest->index[k], p->noffsets, p->offsets);
        bool rows = (flags & NEST_ROWS) && is_short(p, k) && is_row(p, k);
        if (!(flags & NEST_BITS) && (rows || !is_short(p, k))) {
            score += 1 +
                     2 * p->noffsets * nest_score(p->cx, nest->index[k], p->nstores, p->offsets);
        }
        if (score > most) {
            most = score;
            best = k;
        }
    }
    if (nest->nloops > 0) {
        move_loop(nest, best, nest->nloops - 1);
    }
}

/* Counts the offsets that advance by one with loop k, and by neither 0 nor 1 with the innermost. */
static int
rows_score(Planner *p, int k)
{
    int score = 0;
    for (int j = 0; j < p->noffsets; j++) {
        Dim out, in, rest;
        score += dim_affine(p->cx, p->offsets[j], p->nest->index[k], &out, &rest) &&
                 dim_is(p->cx, out, 1) &&
                 dim_affine(p->cx, p->offsets[j], p->nest->index[p->nest->nloops - 1], &in,
                            &rest) &&
                 !dim_is(p->cx, in, 0) && !dim_is(p->cx, in, 1);
    }
    return score;
}

static void
order_rows(Planner *p)
{
    Nest *nest = p->nest;
    int best = nest->nloops - 2, most = 0;
    for (int k = best; k >= 0; k--) {
        int score = rows_score(p, k);
        if (score > most) {
            most = score;
            best = k;
        }
    }
    if (most > 0) {
        move_loop(nest, best, nest->nloops - 2);
    }
}

/* ---- merging ---- */

/* Is it a condition: a loop of one iteration or none? */
static bool
is_condition(Cx *cx, Dim count)
{
    return dim_range(cx, count).lo < 1 && dim_le(cx, count, dim_int(cx, 1));
}

/* Do loop k and the one inside it advance all offsets as one loop would?  An inner loop that may be
 * empty is not merged, since the merged index is divided by its extent.  An outer one that is a
 * condition stays: of a merged loop nobody could say that its index is 0. */
static bool
may_merge(Planner *p, int k)
{
    const Nest *nest = p->nest;
    if (dim_range(p->cx, nest->count[k + 1]).lo < 1 || is_condition(p->cx, nest->count[k])) {
        return false;
    }
    for (int j = 0; j < p->noffsets; j++) {
        Dim out, in, rest;
        if (!dim_affine(p->cx, p->offsets[j], nest->index[k], &out, &rest) ||
            !dim_affine(p->cx, p->offsets[j], nest->index[k + 1], &in, &rest) ||
            out != dim_mul(p->cx, in, nest->count[k + 1])) {
            return false;
        }
    }
    return true;
}

static void
merge_two(Planner *p, int k)
{
    Nest *nest = p->nest;
    Dim inner = nest->count[k + 1];
    Dim count = dim_mul(p->cx, nest->count[k], inner);
    Dim flat = dim_index(p->cx, "flat", count), step, out, rest;
    for (int j = 0; j < p->noffsets; j++) { /* may_merge has seen that all are affine */
        dim_affine(p->cx, p->offsets[j], nest->index[k + 1], &step, &rest);
        dim_affine(p->cx, rest, nest->index[k], &out, &rest);
        p->offsets[j] = dim_add(p->cx, dim_mul(p->cx, step, flat), rest);
    }
    for (int ax = 0; ax < nest->naxes; ax++) {
        Dim d = dim_replace(p->cx, nest->axis[ax], nest->index[k], dim_div(p->cx, flat, inner));
        nest->axis[ax] = dim_replace(p->cx, d, nest->index[k + 1], dim_mod(p->cx, flat, inner));
    }
    nest->nloops--;
    size_t after = (size_t)(nest->nloops - k - 1) * sizeof(Dim);
    memmove(&nest->index[k + 1], &nest->index[k + 2], after);
    memmove(&nest->count[k + 1], &nest->count[k + 2], after);
    nest->index[k] = flat;
    nest->count[k] = count;
}

void
nest_plan(Cx *cx, Nest *nest, int naxes, const Dim *names, const Dim *extents, int nstores,
          int noffsets, const Dim *offsets, int flags)
{
    Planner p = {.cx = cx, .nest = nest, .nstores = nstores, .noffsets = noffsets};
    p.offsets = cx_copy(cx, offsets, (size_t)noffsets * sizeof *offsets);
    nest->naxes = nest->nloops = naxes;
    for (int ax = 0; ax < naxes; ax++) {
        nest->name[ax] = nest->axis[ax] = nest->index[ax] = names[ax];
        nest->extent[ax] = nest->count[ax] = extents[ax];
    }
    if (flags & NEST_FLAT) {
        p.nstores = p.noffsets = 0;
    } else if (!(flags & NEST_KEEP)) {
        split_loops(&p);
        order_loops(&p, flags);
    }
    for (int k = nest->nloops - 2; k >= 0 && !(flags & NEST_AXES); k--) {
        if (may_merge(&p, k)) {
            merge_two(&p, k);
        }
    }
    if (!(flags & NEST_KEEP) && nstores) {
        order_rows(&p);
    }
}
