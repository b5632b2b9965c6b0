/* Orders of axes in memory: the one that strides give, and the one that eager chooses for a result.
 *
 * An order is a permutation of the axes, outermost first.  Strides of axes of one element address
 * nothing, so most questions leave these axes out. */
#include "walk.h"

void
rows_order(int rank, int *perm)
{
    for (int ax = 0; ax < rank; ax++) {
        perm[ax] = ax;
    }
}

void
channels_last_order(int rank, int *perm)
{
    for (int ax = 0; ax < rank; ax++) {
        perm[ax] = ax == 0 ? 0 : ax == rank - 1 ? 1 : ax + 1;
    }
}

DenseStride
dense_innermost(Walk *w)
{
    return (DenseStride){dim_int(w->cx, 1), dim_int(w->cx, 1)};
}

bool
is_dense(Walk *w, DenseStride d, Dim stride)
{
    return stride == d.plain || stride == d.positive || dim_of_nonempty(w->cx, stride) == d.plain;
}

DenseStride
dense_outside(Walk *w, DenseStride d, Dim size)
{
    return (DenseStride){dim_mul(w->cx, d.plain, size),
                         dim_mul(w->cx, d.positive, dim_max(w->cx, size, dim_int(w->cx, 1)))};
}

bool
dense_order(Walk *w, const Type *t, const Dim *strides, PlaceOfOnes place, int *perm)
{
    DenseStride next = dense_innermost(w);
    bool used[MAX_RANK] = {false};
    for (int at = t->rank - 1; at >= 0; at--) {
        int found = -1;
        for (int ax = 0; ax < t->rank; ax++) {
            bool one = dim_is(w->cx, t->dims[ax], 1), anywhere = place == ONES_BY_INDEX;
            bool fits = !used[ax] && (is_dense(w, next, strides[ax]) || (one && anywhere));
            /* by stride: after a longer axis one of one element no longer fits; two longer ones fit
             * at once only if the tensor is empty */
            found = fits && (found < 0 || one || anywhere) ? ax : found;
        }
        if (found < 0) {
            return false;
        }
        perm[at] = found;
        used[found] = true;
        next = dense_outside(w, next, t->dims[found]);
    }
    return true;
}

bool
is_in_order(Walk *w, const Type *t, const Dim *strides, const int *perm)
{
    DenseStride next = dense_innermost(w);
    for (int at = t->rank - 1; at >= 0; at--) {
        Dim size = t->dims[perm[at]];
        if (!dim_is(w->cx, size, 1) && !is_dense(w, next, strides[perm[at]])) {
            return false;
        }
        next = dense_outside(w, next, size);
    }
    return true;
}

/* Does eager put axis a inside axis b in a dense result? 1 yes, -1 no, 0 either is possible; 2:
 * unknown.  The axis with the smaller stride goes inside; for equal strides, the shorter axis. */
static int
goes_inside(Cx *cx, const Type *t, const Operands *of, int a, int b)
{
    for (int k = 0; k < of->n; k++) {
        Dim x = of->strides[k][a], y = of->strides[k][b];
        bool repeats = dim_is(cx, x, 0) || dim_is(cx, y, 0);
        bool level = x == y && (t->dims[a] == t->dims[b] || dim_le(cx, t->dims[b], t->dims[a]));
        if (!repeats && !level) {
            bool less = x == y ? dim_lt(cx, t->dims[a], t->dims[b]) : dim_lt(cx, x, y);
            return less ? 1 : x != y && dim_lt(cx, y, x) ? -1 : 2;
        }
    }
    return 0;
}

bool
eager_order(Walk *w, const Type *t, const Operands *of, int *perm)
{
    rows_order(t->rank, perm);
    for (int from = t->rank - 2; from >= 0; from--) {
        for (int at = from, next = from + 1; next < t->rank; next++) {
            int inside = goes_inside(w->cx, t, of, perm[at], perm[next]);
            if (inside == 2) {
                return false;
            }
            if (inside < 0) {
                break;
            }
            if (inside > 0) {
                int moved = perm[at];
                perm[at] = perm[next];
                perm[next] = moved;
                at = next;
            }
        }
    }
    return true;
}

bool
is_image_batch(const Type *t)
{
    return t->rank == 4 || t->rank == 5;
}

int
lies_as_image(Walk *w, const Type *t, const Dim *strides)
{
    if (!is_image_batch(t)) {
        return 0;
    }
    int last[MAX_RANK];
    channels_last_order(t->rank, last);
    Dim least = dim_int(w->cx, 0);
    for (int at = t->rank - 1; at >= 0; at--) {
        int ax = last[at];
        Dim size = t->dims[ax], stride = strides[ax];
        /* each axis but the first has one element: torch takes it for an image in rows */
        bool unsaid = ax == 0 && least == strides[1];
        if (dim_lt(w->cx, stride, least) || unsaid || dim_is(w->cx, size, 0) ||
            dim_is(w->cx, strides[1], 0)) {
            return 0;
        }
        if (!dim_le(w->cx, least, stride)) {
            return -1;
        }
        least = dim_mul(w->cx, stride, dim_max(w->cx, size, dim_int(w->cx, 1)));
    }
    return 1;
}
