/* Adaptive pools: a given number of windows, whose sizes differ by one if that number does not
 * divide the image.
 *
 * Each place of the largest window is a gather, folded in eager's order; elements outside a smaller
 * window are left out by a selection. Windows of one size are slices, as in aten_pool.c. */
#include "aten.h"

#include <math.h>

enum { MAX_AXES = 3, MAX_PLACES = 64, MAX_COUNT = INT16_MAX };

/* Describes the windows along one axis. */
typedef struct {
    int64_t size, count;        /* elements, windows */
    int64_t least, most;        /* elements of a window */
    Value *from, *to;           /* where each window begins and ends, i32 of the windows' shape */
} Along;

typedef struct {
    Aten *n;
    int axes, first;
    Along along[MAX_AXES];
    const Type *grid;           /* the windows along the pooled axes, i32 */
} Parts;

static int64_t
begins(const Along *a, int64_t k)
{
    return k * a->size / a->count;
}

static int64_t
ends(const Along *a, int64_t k)
{
    return ((k + 1) * a->size + a->count - 1) / a->count;
}

/* Sizes and counts that are known and not 0. */
static bool
read_axis(const Parts *p, Along *a, Dim size, Dim count)
{
    Cx *cx = p->n->cx;
    if (!dim_is_int(cx, size, &a->size) || !dim_is_int(cx, count, &a->count) || a->size < 1 ||
        a->count < 1 || a->size > MAX_COUNT || a->count > MAX_COUNT) {
        return false;
    }
    a->least = INT64_MAX;
    for (int64_t k = 0; k < a->count; k++) {
        int64_t wide = ends(a, k) - begins(a, k);
        a->least = wide < a->least ? wide : a->least;
        a->most = wide > a->most ? wide : a->most;
    }
    return true;
}

/* Returns the number of elements in the largest window. */
static int64_t
places(const Parts *p)
{
    int64_t count = 1;
    for (int k = 0; k < p->axes; k++) {
        count *= p->along[k].most;
    }
    return count;
}

static bool
parts_of(Aten *n, Parts *p)
{
    const Type *x = arg_tensor(n, 0)->type, *made = n->type;
    *p = (Parts){.n = n, .axes = n->axes, .first = x->rank - n->axes};
    if (p->first < 0 || made->rank != x->rank || dtype_info[x->dtype].class != CLASS_FLOAT) {
        return false;
    }
    for (int k = 0; k < n->axes; k++) {
        if (!read_axis(p, &p->along[k], x->dims[p->first + k], made->dims[p->first + k])) {
            return false;
        }
    }
    p->grid = type_of(n->cx, DT_i32, n->axes, made->dims + p->first);
    return places(p) <= MAX_PLACES;
}

/* (k * size + more) / count for each window k of an axis. */
static Value *
quotient(const Parts *p, int k, int64_t more)
{
    Aten *n = p->n;
    const Along *a = &p->along[k];
    Value *at = build_cast(n->b, position(n, type_with(n->cx, p->grid, DT_i64), k), DT_i32);
    at = map2(n, OP_add, map2(n, OP_mul, at, build_int(n->b, a->size)), build_int(n->b, more));
    return map2(n, OP_div_trunc, at, build_int(n->b, a->count));
}

static void
place_windows(Parts *p)
{
    for (int k = 0; k < p->axes; k++) {
        Along *a = &p->along[k];
        a->from = quotient(p, k, 0);
        a->to = quotient(p, k, a->size + a->count - 1);
    }
}

/* Element number `at`, counted row by row in the largest window, of each window. */
typedef struct {
    Value *at;                  /* its position in the image, i32 */
    Value *inside;              /* is it in the window?  NULL: always */
} Place;

static Place
place(const Parts *p, int64_t at)
{
    Aten *n = p->n;
    int64_t step[MAX_AXES];
    Place it = {NULL, NULL};
    for (int k = p->axes - 1; k >= 0; k--) {
        step[k] = at % p->along[k].most;
        at /= p->along[k].most;
    }
    for (int k = 0; k < p->axes; k++) {
        const Along *a = &p->along[k];
        Value *next = map2(n, OP_add, a->from, build_int(n->b, step[k]));
        if (step[k] >= a->least) {
            Value *in = map2(n, OP_lt, next, a->to);
            it.inside = it.inside ? map2(n, OP_bit_and, it.inside, in) : in;
            next = map2(n, OP_minimum, next, build_int(n->b, a->size - 1));
        }
        it.at = row_major(n, it.at, dim_int(n->cx, a->size), next);
    }
    return it;
}

/* Repeats a value of the windows for the planes of the image; the window axes are the last axes of
 * t. */
static Value *
over_planes(const Parts *p, Value *v, const Type *t)
{
    int to[MAX_AXES];
    for (int k = 0; k < p->axes; k++) {
        to[k] = p->first + k;
    }
    return build_expand(p->n->b, v, t->rank, t->dims, to);
}

static Value *
element(const Parts *p, Value *x, const Place *it)
{
    return gather_merged(p->n, x, p->first, p->axes, build_cast(p->n->b, it->at, DT_i64));
}

/* Sums each window in the order in which eager adds its elements. */
static Value *
sum_over_parts(Parts *p, Value *x)
{
    Aten *n = p->n;
    Value *sum = number(n, 0);
    place_windows(p);
    for (int64_t k = 0; k < places(p); k++) {
        Place it = place(p, k);
        Value *v = element(p, x, &it);
        v = it.inside ? map3(n, OP_where, over_planes(p, it.inside, n->type), v, number(n, 0)) : v;
        sum = map2(n, OP_add, sum, v);
    }
    return sum;
}

/* v, which is of the windows, over their sizes. */
static Value *
shared(const Parts *p, Value *v)
{
    Aten *n = p->n;
    for (int k = 0; k < p->axes; k++) {
        Value *size = map2(n, OP_sub, p->along[k].to, p->along[k].from);
        v = map2(n, OP_div, v, over_planes(p, build_cast(n->b, size, v->type->dtype), v->type));
    }
    return v;
}

Value *
uneven_avg_pool(Aten *n)
{
    Parts p;
    if (!parts_of(n, &p)) {
        return NULL;
    }
    Value *sum = sum_over_parts(&p, build_cast(n->b, arg_tensor(n, 0), wide(n->type->dtype)));
    return shared(&p, sum);
}

/* The windows that hold an element are the windows of a pool from the windows to the image. */
Value *
uneven_avg_pool_backward(Aten *n)
{
    Parts p, of;
    if (!parts_of(n, &p)) {
        return NULL;
    }
    Value *grad = build_cast(n->b, arg_tensor(n, 0), wide(n->type->dtype));
    of = p;
    of.grid = type_of(n->cx, DT_i32, n->axes, grad->type->dims + p.first);
    for (int k = 0; k < n->axes; k++) {
        of.along[k] = (Along){.size = p.along[k].count, .count = p.along[k].size};
    }
    place_windows(&of);
    return sum_over_parts(&p, shared(&of, grad));
}

/* If all windows have one size, they are those of a max pool with steps of this size. */
static Value *
even_max_pool(const Parts *p)
{
    Aten *n = p->n, as = *n;
    Arg size[MAX_AXES];
    for (int k = 0; k < p->axes; k++) {
        const Along *a = &p->along[k];
        size[k] = (Arg){.kind = ARG_INT, .i = a->most};
        if (a->size != a->count * a->most) {
            return NULL;
        }
    }
    const Arg window = {.kind = ARG_LIST, .items = size, .n = p->axes}, none = {.kind = ARG_INT};
    const Arg args[] = {n->args[0], window, window, none};
    as.args = args;
    as.nargs = 4;
    return aten_max_pool(&as);
}

/* adaptive_max_pool2d(x, size) */
Value *
aten_adaptive_max_pool(Aten *n)
{
    Parts p;
    Value *x = arg_tensor(n, 0), *best = NULL, *index = NULL;
    if (!parts_of(n, &p)) {
        return NULL;
    }
    best = even_max_pool(&p);
    if (best) {
        return best;
    }
    place_windows(&p);
    for (int64_t k = 0; k < places(&p); k++) {
        Place it = place(&p, k);
        Value *v = element(&p, x, &it), *at = over_planes(&p, it.at, n->type);
        Value *better = map1(n, OP_isnan, v);
        better = k ? map2(n, OP_bit_or, better, map2(n, OP_gt, v, best)) : better;
        better = it.inside ? map2(n, OP_bit_and, better, over_planes(&p, it.inside, n->type))
                           : better;
        best = k ? map3(n, OP_where, better, v, best) : v;
        index = k ? map3(n, OP_where, better, at, index) : at;
    }
    n->res[1] = index;
    return best;
}
