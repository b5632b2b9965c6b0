/* Images from windows: the gradients of averages, and fold.
 *
 * Each element asks the windows that hold it, so that nothing is written twice: windows one element
 * apart are slices of the padded gradient, windows side by side repeat along new axes, all others
 * are looked up. */
#include "aten_window.h"

#include <string.h>

/* An image of adjacent windows, with the axes of the places in a window after each axis of
 * windows. */
typedef struct {
    int rank, to[MAX_RANK];     /* where the windows' axes are */
    Dim dims[MAX_RANK];
} SplitPlaces;

static SplitPlaces
split_places(const Window *w, const Type *made)
{
    SplitPlaces a = {0};
    for (int ax = 0; ax < made->rank; ax++) {
        a.to[ax] = a.rank;
        a.dims[a.rank++] = made->dims[ax];
        if (ax >= w->first) {
            a.dims[a.rank++] = dim_int(w->n->cx, w->step[ax - w->first]);
        }
    }
    return a;
}

/* Merges window axes and place axes into one axis each, and pads or cuts it to the size of x. */
static Value *
places_joined(const Window *w, Value *v, const Type *made, const Type *x)
{
    Aten *n = w->n;
    Dim dims[MAX_RANK], lo[MAX_RANK];
    for (int ax = 0; ax < x->rank; ax++) {
        lo[ax] = zero(n);
        dims[ax] = ax < w->first ? x->dims[ax]
                                 : window_times(w, made->dims[ax], w->step[ax - w->first]);
    }
    v = build_reshape(n->b, v, x->rank, dims);
    for (int ax = w->first; ax < x->rank; ax++) {
        if (!dim_le(n->cx, dims[ax], x->dims[ax])) {
            v = part(n, v, ax, zero(n), one(n), x->dims[ax]);
        }
    }
    const Type *t = type_with(n->cx, x, v->type->dtype);
    return v->type == t ? v : build_pad(n->b, v, build_int(n->b, 0), t, lo);
}

/* Are the windows adjacent, from the first element on? */
static bool
is_tiling(const Window *w)
{
    bool tiling = true;
    for (int k = 0; k < w->axes; k++) {
        tiling &= w->step[k] == w->size[k] && !w->lo[k] && w->gap[k] == 1;
    }
    return tiling;
}

/* The windows' values at the places of x that are `back` windows of step 1 behind the last that
 * holds them. */
static Value *
shifted(const Window *w, Value *v, const Type *x, const int64_t *back)
{
    for (int k = 0; k < w->axes; k++) {
        Dim start = dim_int(w->n->cx, w->lo[k] + back[k]);
        v = part(w->n, v, w->first + k, start, one(w->n), x->dims[w->first + k]);
    }
    return v;
}

/* The sum over the windows that hold an element, in eager's order; windows one element apart. */
static Value *
sum_of_holders(const Window *w, Value *grad, const Type *x)
{
    Aten *n = w->n;
    Value *sum = number(n, 0);
    Dim lo[MAX_RANK], dims[MAX_RANK];
    for (int ax = 0; ax < x->rank; ax++) {
        int k = ax - w->first;
        lo[ax] = k < 0 ? zero(n) : dim_int(n->cx, w->size[k] - 1);
        dims[ax] = k < 0 ? x->dims[ax] : window_plus(w, grad->type->dims[ax], 2 * (w->size[k] - 1));
    }
    const Type *t = type_of(n->cx, grad->type->dtype, x->rank, dims);
    grad = t == grad->type ? grad : build_pad(n->b, grad, build_int(n->b, 0), t, lo);
    for (int64_t at = 0; at < window_taps(w); at++) {
        int64_t back[MAX_AXES], rest = at;
        for (int k = w->axes - 1; k >= 0; k--) {
            back[k] = rest % w->size[k];
            rest /= w->size[k];
        }
        sum = map2(n, OP_add, shifted(w, grad, x, back), sum);
    }
    return sum;
}

static bool
is_dense(const Window *w)
{
    for (int k = 0; k < w->axes; k++) {
        if (w->step[k] != 1) {
            return false;
        }
    }
    return window_taps(w) <= MAX_TAPS;
}

/* ---- windows that overlap in steps ---- */

/* The windows that may hold an element, axis by axis: the last ones that begin before it,
 * backwards; or, with holes, for each place of a window, the window in which the element would be
 * at that place. */
typedef struct {
    const Window *w;
    const Type *grid; /* the image along these axes, of the dtype of positions */
    const Type *image;
    Dim count[MAX_AXES]; /* windows along each axis */
    int64_t most[MAX_AXES]; /* candidates along each axis */
} Holders;

typedef struct {
    Value *window, *place; /* which window, which place in it */
    Value *inside; /* does the window hold the element?  NULL: always */
} Holder;

/* Do positions among all elements of all windows fit in 32 bits? */
static bool
is_small(const Holders *h, Dim size, Dim count, int64_t *all)
{
    int64_t known, windows;
    if (!dim_is_int(h->w->n->cx, size, &known) || !dim_is_int(h->w->n->cx, count, &windows) ||
        known > INT16_MAX || windows > INT16_MAX) {
        return false;
    }
    *all *= windows;
    return *all < INT32_MAX / window_taps(h->w);
}

/* x: the image; counts: the windows along its last axes. */
static bool
holders_of(const Window *w, const Type *x, const Dim *counts, Holders *h)
{
    int64_t candidates = 1, all = 1;
    bool small = true;
    *h = (Holders){.w = w, .image = x};
    for (int k = 0; k < w->axes; k++) {
        h->count[k] = counts[k];
        h->most[k] = w->gap[k] > 1 ? w->size[k] : (w->size[k] + w->step[k] - 1) / w->step[k];
        candidates *= h->most[k];
        small = small && is_small(h, x->dims[w->first + k], counts[k], &all);
    }
    h->grid = type_of(w->n->cx, small ? DT_i32 : DT_i64, w->axes, x->dims + w->first);
    return candidates <= MAX_TAPS;
}

static void
require(Aten *n, Value **all, Value *one_more)
{
    *all = *all ? map2(n, OP_bit_and, *all, one_more) : one_more;
}

/* Candidate j of axis k, from the last window that holds the element on. */
static Holder
holder(const Holders *h, int k, int64_t j)
{
    const Window *w = h->w;
    Aten *n = w->n;
    bool holes = w->gap[k] > 1;
    int64_t step = w->step[k], ahead = w->lo[k] - (holes ? j * w->gap[k] : 0), back = holes ? 0 : j;
    Value *at = build_cast(n->b, position(n, type_with(n->cx, h->grid, DT_i64), k), h->grid->dtype);
    at = map2(n, OP_add, at, build_int(n->b, ahead));
    Value *first = step == 1 ? at : map2(n, OP_div_trunc, at, build_int(n->b, step));
    Holder it = {.window = map2(n, OP_sub, first, build_int(n->b, back))};
    Value *begins = map2(n, OP_mul, it.window, build_int(n->b, step)), *none = build_int(n->b, 0);
    it.place = holes ? build_const(n->b, h->grid, (Literal){.is_int = true, .i = j})
                     : map2(n, OP_sub, at, begins);
    if (ahead < 0 || ahead / step < back) {
        require(n, &it.inside, map2(n, OP_ge, holes ? at : it.window, none));
    }
    if (holes && step > 1) {
        require(n, &it.inside, map2(n, OP_eq, at, begins));
    }
    if (!holes && (back + 1) * step > w->size[k]) {
        require(n, &it.inside, map2(n, OP_lt, it.place, build_int(n->b, w->size[k])));
    }
    Dim last = dim_div(n->cx, window_plus(w, h->image->dims[w->first + k], ahead - 1),
                       dim_int(n->cx, step));
    if (!dim_lt(n->cx, window_plus(w, last, -back), h->count[k])) {
        const Arg count = {.kind = ARG_DIM, .d = h->count[k]};
        require(n, &it.inside, map2(n, OP_lt, it.window, operand(n, &count, h->grid)));
    }
    return it;
}

/* One candidate for each axis as a position in row-major order: among the windows, or (places)
 * among the places of each, and for each of those among the windows. */
static Holder
merged_holder(const Holders *h, int64_t at, bool places)
{
    const Window *w = h->w;
    Aten *n = w->n;
    Holder each[MAX_AXES], all = {NULL, NULL, NULL};
    for (int k = w->axes - 1; k >= 0; k--) {
        int64_t j = at % h->most[k];
        each[k] = holder(h, k, places ? j : h->most[k] - 1 - j);
        at /= h->most[k];
    }
    for (int k = 0; k < w->axes; k++) {
        if (each[k].inside) {
            each[k].window = map3(n, OP_where, each[k].inside, each[k].window, build_int(n->b, 0));
            each[k].place = map3(n, OP_where, each[k].inside, each[k].place, build_int(n->b, 0));
            require(n, &all.inside, each[k].inside);
        }
        all.place = row_major(n, all.place, dim_int(n->cx, w->size[k]), each[k].place);
    }
    all.window = places ? all.place : NULL;
    for (int k = 0; k < w->axes; k++) {
        all.window = row_major(n, all.window, h->count[k], each[k].window);
    }
    return all;
}

/* The sum over the windows that hold an element; v: the images, with everything of one plane as one
 * axis.  It has eager's order: that of the windows or (places) of the places. */
static Value *
sum_over_holders(const Holders *h, Value *v, bool places)
{
    const Window *w = h->w;
    Aten *n = w->n;
    Value *sum = number(n, 0);
    int64_t count = 1;
    int to[MAX_AXES];
    for (int k = 0; k < w->axes; k++) {
        count *= h->most[k];
        to[k] = w->first + k;
    }
    for (int64_t at = 0; at < count; at++) {
        Holder it = merged_holder(h, at, places);
        Value *term = build_gather(n->b, v, build_cast(n->b, it.window, DT_i64), w->first,
                                   INDEX_FROM_START);
        if (it.inside) {
            Value *inside = build_expand(n->b, it.inside, h->image->rank, h->image->dims, to);
            term = map3(n, OP_where, inside, term, number(n, 0));
        }
        sum = map2(n, OP_add, sum, term);
    }
    return sum;
}

/* v with the axes from `first` on as one. */
static Value *
planes(Aten *n, Value *v, int first)
{
    Dim dims[MAX_RANK], *last = &dims[first];
    memcpy(dims, v->type->dims, (size_t)first * sizeof *dims);
    *last = one(n);
    for (int ax = first; ax < v->type->rank; ax++) {
        *last = dim_mul(n->cx, *last, v->type->dims[ax]);
    }
    return build_reshape(n->b, v, first + 1, dims);
}

static Value *
spread_windows(const Window *w, Value *grad, const Type *x)
{
    Holders h;
    if (is_dense(w)) {
        return sum_of_holders(w, grad, x);
    }
    if (is_tiling(w) && x->rank + w->axes <= MAX_RANK) {
        SplitPlaces a = split_places(w, grad->type);
        return places_joined(w, build_expand(w->n->b, grad, a.rank, a.dims, a.to), grad->type, x);
    }
    return holders_of(w, x, grad->type->dims + w->first, &h)
               ? sum_over_holders(&h, planes(w->n, grad, w->first), false)
               : NULL;
}

/* avg_pool2d_backward(grad, x, kernel, stride, padding, ceil_mode, count_include_pad,
 * divisor_override) */
Value *
aten_avg_pool_backward(Aten *n)
{
    Window w;
    Value *grad = arg_tensor(n, 0);
    const Type *x = n->type;
    if (dtype_info[x->dtype].class != CLASS_FLOAT ||
        !window_of(n, 2, x->rank, n->axes, false, &w)) {
        return NULL;
    }
    grad = build_cast(n->b, grad, wide(x->dtype));
    Value *by = window_divisor(&w, x, grad->type, arg_at(n, 5), arg_at(n, 6), arg_at(n, 7));
    return by ? spread_windows(&w, map2(n, OP_div, grad, by), x) : NULL;
}

/* _adaptive_avg_pool2d_backward(grad, x) */
Value *
aten_adaptive_avg_pool_backward(Aten *n)
{
    Window w;
    Value *grad = arg_tensor(n, 0);
    if (dtype_info[n->type->dtype].class != CLASS_FLOAT || n->type->rank < n->axes) {
        return NULL;
    }
    if (!window_even(n, n->type, grad->type, n->axes, &w)) {
        return uneven_avg_pool_backward(n);
    }
    return spread_windows(&w, window_shared(&w, build_cast(n->b, grad, wide(n->type->dtype))),
                          n->type);
}

/* ---- columns ---- */

/* col2im(columns, size, kernel, dilation, padding, stride): each element is the sum of the elements
 * that im2col would make from it */
Value *
aten_col2im(Aten *n)
{
    const Arg *a = n->args;
    const Arg args[5] = {a[0], *arg_at(n, 2), *arg_at(n, 5), *arg_at(n, 4), *arg_at(n, 3)};
    const Type *made = n->type;
    Aten as = *n;
    as.args = args;
    as.nargs = 5;
    Window w;
    Holders h;
    Dim dims[MAX_RANK], counts[2];
    if (dtype_info[made->dtype].class != CLASS_FLOAT || made->rank < 3 ||
        !window_read(&as, 1, made->rank, 2, true, &w)) {
        return NULL;
    }
    memcpy(dims, made->dims, (size_t)w.first * sizeof *dims);
    dims[w.first] = dim_int(n->cx, window_taps(&w));
    for (int k = 0; k < 2; k++) {
        int64_t more = 2 * w.lo[k] - w.gap[k] * (w.size[k] - 1) - 1;
        Dim reach = window_plus(&w, made->dims[w.first + k], more);
        counts[k] = window_plus(&w, dim_div(n->cx, reach, dim_int(n->cx, w.step[k])), 1);
        dims[w.first] = dim_mul(n->cx, dims[w.first], counts[k]);
    }
    if (!holders_of(&w, made, counts, &h)) {
        return NULL;
    }
    Value *v = build_cast(n->b, arg_tensor(n, 0), wide(made->dtype));
    return sum_over_holders(&h, build_reshape(n->b, v, w.first + 1, dims), true);
}
