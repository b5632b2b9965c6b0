/* Pooling: windows of the last axes, each reduced to one element.
 *
 * A window's elements are slices of the padded operand, one for each place in the window, folded
 * elementwise in eager's order: loops without a test, which run along the image. */
#include "aten_window.h"

#include <math.h>
#include <string.h>

enum { LANES = 16 };

/* One number for each axis, or one for all; an empty list or none: `otherwise`. */
static bool
each_axis(const Arg *a, int axes, const int64_t *otherwise, int64_t *out)
{
    const Arg *items = a->kind == ARG_LIST ? a->items : a;
    int count = a->kind == ARG_NONE ? 0 : a->kind == ARG_LIST ? a->n : 1;
    for (int k = 0; k < axes; k++) {
        if (count == 0 && otherwise) {
            out[k] = otherwise[k];
            continue;
        }
        const Arg *item = count == 1 ? items : count == axes ? &items[k] : NULL;
        if (!item || item->kind != ARG_INT || item->i < 0 || item->i > INT16_MAX) {
            return false;
        }
        out[k] = item->i;
    }
    return true;
}

bool
window_read(Aten *n, int at, int rank, int axes, bool gap, Window *w)
{
    static const int64_t ones[MAX_AXES] = {1, 1, 1};
    *w = (Window){.n = n, .axes = axes, .first = rank - axes};
    if (w->first < 0 || !each_axis(arg_at(n, at), axes, NULL, w->size) ||
        !each_axis(arg_at(n, at + 1), axes, w->size, w->step) ||
        !each_axis(arg_at(n, at + 2), axes, NULL, w->lo) ||
        !each_axis(gap ? arg_at(n, at + 3) : &(Arg){.kind = ARG_NONE}, axes, ones, w->gap)) {
        return false;
    }
    for (int k = 0; k < axes; k++) {
        if (!w->size[k] || !w->step[k] || !w->gap[k]) {
            return false;       /* eager raises */
        }
    }
    return true;
}

bool
window_of(Aten *n, int at, int rank, int axes, bool gap, Window *w)
{
    bool known = window_read(n, at, rank, axes, gap, w);
    for (int k = 0; known && k < axes; k++) {
        known = 2 * w->lo[k] <= w->size[k];
    }
    return known;
}

int64_t
window_taps(const Window *w)
{
    int64_t count = 1;
    for (int k = 0; k < w->axes; k++) {
        count *= w->size[k];
    }
    return count;
}

/* Should the pool be a loop over the windows, with a let for each place? Not for many places. If
 * rows of windows are too short for vectors, only if the loop does little for each window (light),
 * or if eager, which starts again at each window, does much. */
static bool
is_loop(const Window *w, const Type *made, bool light)
{
    Dim most = dim_int(w->n->cx, LANES - 1);
    bool few = dim_le(w->n->cx, made->dims[made->rank - 1], most);
    bool worth = !few || light || w->step[w->axes - 1] == 1;
    return window_taps(w) <= (worth ? MAX_TAPS : LANES);
}

static bool
is_padded(const Window *w)
{
    return w->lo[0] || w->lo[w->axes - 1] || w->lo[w->axes / 2];
}

Dim
window_plus(const Window *w, Dim d, int64_t i)
{
    return dim_add(w->n->cx, d, dim_int(w->n->cx, i));
}

Dim
window_times(const Window *w, Dim d, int64_t i)
{
    return dim_mul(w->n->cx, d, dim_int(w->n->cx, i));
}

bool
strides_are_last(Cx *cx, int rank, const Dim *strides, int first)
{
    return first > 0 && dim_is(cx, strides[first - 1], 1) && !dim_is(cx, strides[rank - 1], 1);
}

bool
image_is_last(Cx *cx, const Value *x, int first)
{
    const Type *t = x->type;
    while (!x->strides && x->def && op_info[x->def->op].kind == KIND_MAP) {
        const Value *next = NULL;
        for (int k = 0; k < x->def->nargs && !next; k++) {
            const Value *a = x->def->args[k];
            bool image = !value_is_const(a) && type_same_shape(a->type, t) &&
                         !(a->def && a->def->op == OP_expand);
            next = image ? a : NULL;
        }
        if (!next) {
            return false;
        }
        x = next;
    }
    return x->strides && strides_are_last(cx, t->rank, x->strides, first);
}

bool
window_channels_last(const Window *w, const Value *x)
{
    return image_is_last(w->n->cx, x, w->first);
}

/* The operand and the windows as they are pooled: with the channels innermost where the operand has
 * them there and they are few, so that its rows are padded and not its planes. */
typedef struct {
    Value *x;
    const Type *made;
    bool last;
} Pooled;

static Pooled
pooled(Window *w, Value *x, const Type *made)
{
    Aten *n = w->n;
    int rank = made->rank;
    Pooled p = {x, made, false};
    if (window_channels_last(w, x) &&
        dim_le(n->cx, x->type->dims[w->first - 1], dim_int(n->cx, LANES - 1))) {
        p.last = true;
        Dim dims[MAX_RANK];
        w->first--;
        p.x = move_axes(n, x, w->first, 1, rank - 1);
        for (int ax = 0; ax < rank; ax++) {
            dims[ax] = made->dims[ax < w->first ? ax : ax == rank - 1 ? w->first : ax + 1];
        }
        p.made = type_of(n->cx, made->dtype, rank, dims);
    }
    return p;
}

static Value *
as_made(const Window *w, const Pooled *p, Value *v)
{
    return p->last ? move_axes(w->n, v, v->type->rank - 1, 1, w->first) : v;
}

/* The operand with as much around it as the windows of `made` reach for; NULL: not known how much,
 * or a copy that eager, which runs along many channels, does better without. */
static Value *
padded(const Window *w, Value *x, Value *fill, const Type *made)
{
    Aten *n = w->n;
    Dim lo[MAX_RANK], dims[MAX_RANK];
    for (int ax = 0; ax < x->type->rank; ax++) {
        int k = ax - w->first;
        lo[ax] = zero(n);
        dims[ax] = x->type->dims[ax];
        if (k < 0) {
            continue;
        }
        lo[ax] = dim_int(n->cx, w->lo[k]);
        Dim end = window_plus(w, dims[ax], w->lo[k]), full = window_plus(w, end, w->lo[k]);
        Dim last = window_times(w, window_plus(w, made->dims[ax], -1), w->step[k]);
        Dim need = window_plus(w, last, w->gap[k] * (w->size[k] - 1) + 1);
        if (!dim_le(n->cx, end, need) && !dim_le(n->cx, need, full)) {
            return NULL;
        }
        dims[ax] = dim_le(n->cx, end, need) ? need : dim_le(n->cx, need, end) ? end : full;
    }
    const Type *t = type_of(n->cx, x->type->dtype, x->type->rank, dims);
    return t == x->type ? x : window_channels_last(w, x) ? NULL : build_pad(n->b, x, fill, t, lo);
}

/* The elements at one place of all windows; `at` counts places in row-major order. */
static Value *
tap(const Window *w, Value *x, const Type *made, int64_t at, int64_t *place)
{
    for (int k = w->axes - 1; k >= 0; k--) {
        place[k] = at % w->size[k] * w->gap[k];
        at /= w->size[k];
    }
    for (int k = 0; k < w->axes; k++) {
        Dim start = dim_int(w->n->cx, place[k]), step = dim_int(w->n->cx, w->step[k]);
        x = part(w->n, x, w->first + k, start, step, made->dims[w->first + k]);
    }
    return x;
}

static Value *
count_value(Aten *n, Dim d, const Type *t)
{
    return operand(n, &(Arg){.kind = ARG_DIM, .d = d}, t);
}

/* Where the windows begin along pooled axis k, before the operand for negative ones. */
static Value *
begin(const Window *w, const Type *t, int k)
{
    Aten *n = w->n;
    Value *at = build_cast(n->b, position(n, type_with(n->cx, t, DT_i64), w->first + k), t->dtype);
    at = map2(n, OP_mul, at, build_int(n->b, w->step[k]));
    return map2(n, OP_sub, at, build_int(n->b, w->lo[k]));
}

/* ---- the largest, and where it stands ---- */

static Value *
lowest(Aten *n, Dtype dtype)
{
    int bits = 8 * dtype_info[dtype].bytes;
    return dtype_info[dtype].class == CLASS_FLOAT ? build_float(n->b, -INFINITY)
           : dtype == DT_u8                       ? build_int(n->b, 0)
                                                  : build_int(n->b, INT64_MIN >> (64 - bits));
}

/* A place as a distance in the row-major order of the operand's pooled axes. */
static Value *
distance(const Window *w, const Type *x, const Type *t, const int64_t *place)
{
    Dim d = zero(w->n);
    for (int k = 0; k < w->axes; k++) {
        d = window_plus(w, dim_mul(w->n->cx, d, x->dims[w->first + k]), place[k]);
    }
    return count_value(w->n, d, t);
}

/* The first place of each window that is in the operand: eager's index where nothing is chosen. */
static Value *
first_inside(const Window *w, const Type *x, const Type *t)
{
    Aten *n = w->n;
    Value *at = NULL;
    for (int k = 0; k < w->axes; k++) {
        Value *from = begin(w, t, k), *next = from;
        for (int64_t left = w->lo[k]; left > 0; left -= w->gap[k]) {
            Value *further = map2(n, OP_add, next, build_int(n->b, w->gap[k]));
            next = map3(n, OP_where, map2(n, OP_lt, next, build_int(n->b, 0)), further, next);
        }
        at = row_major(n, at, x->dims[w->first + k], map2(n, OP_sub, next, from));
    }
    return at;
}

/* Do positions in the pooled axes, and a window more, surely fit 32 bits? */
static bool
is_small(const Window *w, const Type *x)
{
    int64_t all = 1, size;
    for (int k = 0; k < w->axes; k++) {
        if (!dim_is_int(w->n->cx, x->dims[w->first + k], &size) || size > INT16_MAX) {
            return false;
        }
        all *= size + 2 * w->gap[k] * w->size[k];
    }
    return all < INT32_MAX;
}

/* The largest element of each window of v, the padded operand, and its distance from the window's
 * first place. */
static Value *
largest(const Window *w, const Pooled *p, Value *v, const Type *at, Value **index)
{
    Aten *n = w->n;
    const Type *x = p->x->type;
    Value *best = lowest(n, x->dtype);
    *index = is_padded(w) ? first_inside(w, x, at)
                          : build_const(n->b, at, (Literal){.is_int = true});
    for (int64_t k = 0; k < window_taps(w); k++) {
        int64_t place[MAX_AXES];
        Value *next = tap(w, v, p->made, k, place), *better = map2(n, OP_gt, next, best);
        if (dtype_info[x->dtype].class == CLASS_FLOAT) {
            better = map2(n, OP_bit_or, better, map1(n, OP_isnan, next));
        }
        *index = map3(n, OP_where, better, distance(w, x, at, place), *index);
        best = k ? map2(n, OP_maximum, next, best) : next;
    }
    return best;
}

/* max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil_mode) */
Value *
aten_max_pool(Aten *n)
{
    Window w;
    Value *x = arg_tensor(n, 0);
    bool whole = dtype_info[x->type->dtype].class != CLASS_FLOAT;
    if (x->type->dtype == DT_bool || (whole && n->axes == 1) || /* eager has none of these */
        !window_of(n, 1, x->type->rank, n->axes, true, &w)) {
        return NULL;
    }
    Pooled p = pooled(&w, x, n->type);
    bool light = n->nres == 1, compiled = is_loop(&w, n->type, light) || is_loop(&w, p.made, light);
    Value *v = compiled ? padded(&w, p.x, lowest(n, x->type->dtype), p.made) : NULL, *index;
    if (!v) {
        return NULL;
    }
    const Type *at = type_with(n->cx, p.made, is_small(&w, p.x->type) ? DT_i32 : DT_i64);
    Value *best = largest(&w, &p, v, at, &index), *from = NULL;
    for (int k = 0; k < n->axes; k++) {
        from = row_major(n, from, p.x->type->dims[w.first + k], begin(&w, at, k));
    }
    if (n->nres > 1) {
        n->res[1] = as_made(&w, &p, map2(n, OP_add, from, index));
    }
    return as_made(&w, &p, best);
}

/* ---- the mean ---- */

/* How many elements of axis k a window counts: all, or those that are in the operand and, where
 * padding counts, around it. */
static Value *
counted(const Window *w, const Type *x, const Type *t, int k, bool include)
{
    Aten *n = w->n;
    Dim size = x->dims[w->first + k];
    Value *from = begin(w, t, k), *to = map2(n, OP_add, from, build_int(n->b, w->size[k]));
    Value *end = count_value(n, include ? window_plus(w, size, w->lo[k]) : size, t);
    from = include ? from : map2(n, OP_maximum, from, build_int(n->b, 0));
    return map2(n, OP_sub, map2(n, OP_minimum, to, end), from);
}

Value *
window_divisor(const Window *w, const Type *x, const Type *t, const Arg *ceil, const Arg *include,
               const Arg *override)
{
    Aten *n = w->n;
    if (override->kind != ARG_NONE) {
        return override->kind == ARG_INT && override->i ? number(n, (double) override->i) : NULL;
    }
    if (!arg_true(ceil) && (arg_true(include) || !is_padded(w))) {
        return number(n, (double)window_taps(w));
    }
    Value *all = NULL;
    const Type *at = type_with(n->cx, t, DT_i64);
    for (int k = 0; k < w->axes; k++) {
        Value *some = counted(w, x, at, k, arg_true(include));
        all = all ? map2(n, OP_mul, all, some) : some;
    }
    return build_cast(n->b, all, t->dtype);
}

static Value *
sum_of_taps(const Window *w, Value *x, const Type *made)
{
    int64_t place[MAX_AXES];
    Value *sum = number(w->n, 0), *v = padded(w, x, build_int(w->n->b, 0), made);
    for (int64_t k = 0; v && k < window_taps(w); k++) {
        sum = map2(w->n, OP_add, tap(w, v, made, k, place), sum);
    }
    return v ? sum : NULL;
}

/* avg_pool2d(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override) */
Value *
aten_avg_pool(Aten *n)
{
    Window w;
    Value *x = arg_tensor(n, 0);
    bool refused = n->axes == 3 && is_half(x->type->dtype); /* eager has no kernel */
    if (dtype_info[x->type->dtype].class != CLASS_FLOAT || refused ||
        !window_of(n, 1, x->type->rank, n->axes, false, &w)) {
        return NULL;
    }
    Pooled p = pooled(&w, build_cast(n->b, x, wide(x->type->dtype)),
                      type_with(n->cx, n->type, wide(x->type->dtype)));
    if (!is_loop(&w, n->type, false) && !is_loop(&w, p.made, false)) {
        return NULL;
    }
    Value *by = window_divisor(&w, p.x->type, p.made, arg_at(n, 4), arg_at(n, 5), arg_at(n, 6));
    Value *sum = by ? sum_of_taps(&w, p.x, p.made) : NULL;
    return sum ? as_made(&w, &p, map2(n, OP_div, sum, by)) : NULL;
}

bool
window_even(Aten *n, const Type *x, const Type *made, int axes, Window *w)
{
    *w = (Window){.n = n, .axes = axes, .first = x->rank - axes};
    for (int k = 0; k < axes; k++) {
        int64_t size;
        Dim count = made->dims[w->first + k], d = dim_div(n->cx, x->dims[w->first + k], count);
        if (!dim_is_int(n->cx, d, &size) || size < 1 ||
            window_times(w, count, size) != x->dims[w->first + k]) {
            return false;
        }
        w->size[k] = w->step[k] = size;
        w->gap[k] = 1;
    }
    return true;
}

Value *
window_shared(const Window *w, Value *v)
{
    for (int k = 0; k < w->axes; k++) {
        v = map2(w->n, OP_div, v, number(w->n, (double)w->size[k]));
    }
    return v;
}

/* _adaptive_avg_pool2d(x, size) */
Value *
aten_adaptive_avg_pool(Aten *n)
{
    Window w;
    Value *x = arg_tensor(n, 0);
    if (dtype_info[x->type->dtype].class != CLASS_FLOAT || x->type->rank < n->axes) {
        return NULL;
    }
    if (!window_even(n, x->type, n->type, n->axes, &w)) {
        return uneven_avg_pool(n);
    }
    if (!is_loop(&w, n->type, false)) {
        return NULL;
    }
    x = build_cast(n->b, x, wide(x->type->dtype));
    Value *sum = sum_of_taps(&w, x, n->type);
    return sum ? window_shared(&w, sum) : NULL;
}

/* ---- the windows themselves ---- */

/* im2col(x, kernel, dilation, padding, stride): each window of each channel as a column */
Value *
aten_im2col(Aten *n)
{
    const Arg *a = n->args;
    const Arg args[5] = {a[0], *arg_at(n, 1), *arg_at(n, 4), *arg_at(n, 3), *arg_at(n, 2)};
    const Type *x = arg_tensor(n, 0)->type;
    Aten as = *n;
    as.args = args;
    as.nargs = 5;
    Window w;
    bool refused = dtype_info[x->dtype].class != CLASS_FLOAT; /* eager has no kernel of integers */
    if (refused || x->rank < 3 || !window_read(&as, 1, x->rank, 2, true, &w)) {
        return NULL;
    }
    int rank = x->rank, c = rank - 3;
    Dim dims[MAX_RANK], strides[MAX_RANK], dense[MAX_RANK];
    memcpy(dims, x->dims, (size_t)rank * sizeof *dims);
    for (int k = 0; k < 2; k++) {
        Dim reach = window_plus(&w, x->dims[c + 1 + k],
                                2 * w.lo[k] - w.gap[k] * (w.size[k] - 1) - 1);
        dims[c + 1 + k] = window_plus(&w, dim_div(n->cx, reach, dim_int(n->cx, w.step[k])), 1);
    }
    const Type *made = type_of(n->cx, x->dtype, rank, dims);
    Value *v = padded(&w, arg_tensor(n, 0), build_int(n->b, 0), made);
    if (!v) {
        return NULL;
    }
    type_dense(n->cx, v->type, dense);
    memcpy(strides, dense, (size_t)(c + 1) * sizeof *dense);
    for (int k = 0; k < 2; k++) {
        dims[c + 3 + k] = made->dims[c + 1 + k];
        strides[c + 3 + k] = window_times(&w, dense[c + 1 + k], w.step[k]);
    }
    for (int k = 0; k < 2; k++) {
        dims[c + 1 + k] = dim_int(n->cx, w.size[k]);
        strides[c + 1 + k] = window_times(&w, dense[c + 1 + k], w.gap[k]);
    }
    v = build_as_strided(n->b, v, rank + 2, dims, strides, zero(n));
    return build_reshape(n->b, v, n->type->rank, n->type->dims);
}
