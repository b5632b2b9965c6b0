/* The gradients of what moves elements: views, gathers, pads. */
#include "derive.h"

static Value *
zeros(Build *b, const Type *t, const Value *g)
{
    return derive_zero(b, type_with(build_cx(b), t, g->type->dtype));
}

static Value *
of_expand(Build *b, const Let *let, Value *g)
{
    const Attr *to = let_attr(let, "to");
    int axes[MAX_RANK], n = 0;
    for (int ax = 0, at = 0; ax < g->type->rank; ax++) {
        if (at < to->n && to->axes[at] == ax) {
            at++;
        } else {
            axes[n++] = ax;
        }
    }
    return n ? build_red(b, OP_sum, g, n, axes) : g;
}

static Value *
of_permute(Build *b, const Let *let, Value *g)
{
    const Attr *perm = let_attr(let, "perm");
    int back[MAX_RANK];
    for (int k = 0; k < perm->n; k++) {
        back[perm->axes[k]] = k;
    }
    return build_permute(b, g, back);
}

/* start + step*iota along the axis, an index for each element of t. */
static Value *
places(Build *b, const Type *t, int axis, Dim start, Dim step)
{
    Cx *cx = build_cx(b);
    Value *i = build_iota(b, type_with(cx, t, DT_i64), axis), *n;
    if (!dim_is(cx, step, 1)) {
        n = build_expand(b, build_size(b, step), t->rank, t->dims, NULL);
        i = build_map(b, OP_mul, i, n, NULL);
    }
    if (!dim_is(cx, start, 0)) {
        n = build_expand(b, build_size(b, start), t->rank, t->dims, NULL);
        i = build_map(b, OP_add, i, n, NULL);
    }
    return i;
}

static Value *
of_slice(Build *b, const Let *let, Value *g)
{
    Cx *cx = build_cx(b);
    const Type *t = let->args[0]->type;
    int axis = (int)let_int(let, "axis");
    Dim start = let_dim(let, "start"), step = let_dim(let, "step"), lo[MAX_RANK];
    if (!dim_is(cx, step, 1)) {
        Value *index = places(b, g->type, axis, start, step);
        return build_scatter(b, OP_sum, zeros(b, t, g), index, g, axis, INDEX_FROM_START);
    }
    for (int ax = 0; ax < t->rank; ax++) {
        lo[ax] = ax == axis ? start : dim_int(cx, 0);
    }
    return build_pad(b, g, build_float(b, 0), type_with(cx, t, g->type->dtype), lo);
}

static Value *
of_strided(Build *b, const Let *let, Value *g)
{
    Cx *cx = build_cx(b);
    const Type *t = let->args[0]->type;
    const Dim *strides = let_attr(let, "strides")->dims;
    Dim numel = type_numel(cx, t), n = type_numel(cx, g->type);
    Value *index = build_expand(b, build_size(b, let_dim(let, "offset")), g->type->rank,
                                g->type->dims, NULL);
    for (int ax = 0; ax < g->type->rank; ax++) {
        Value *along = places(b, g->type, ax, dim_int(cx, 0), strides[ax]);
        index = build_map(b, OP_add, index, along, NULL);
    }
    Value *to = derive_zero(b, type_of(cx, g->type->dtype, 1, &numel));
    Value *flat = build_scatter(b, OP_sum, to, build_reshape(b, index, 1, &n),
                                build_reshape(b, g, 1, &n), 0, INDEX_FROM_START);
    return build_reshape(b, flat, t->rank, t->dims);
}

/* Returns the gradient of a view's operand. Complex numbers come by their parts. */
static Value *
of_view(Build *b, const Let *let, Value *g)
{
    const Type *t = let->args[0]->type;
    switch (let->op) {
    case OP_expand:
        return of_expand(b, let, g);
    case OP_reshape:
        return build_reshape(b, g, t->rank, t->dims);
    case OP_permute:
        return of_permute(b, let, g);
    case OP_slice:
        return of_slice(b, let, g);
    case OP_flip: {
        const Attr *axes = let_attr(let, "axes");
        return build_flip(b, g, axes->n, axes->axes);
    }
    default:
        return of_strided(b, let, g);
    }
}

/* One index for each element: the axes of the index are one axis, as those that it made. */
static Value *
of_gather(Build *b, const Let *let, Value *g)
{
    Cx *cx = build_cx(b);
    Value *index = let->args[1];
    const Type *t = let->args[0]->type;
    int axis = (int)let_int(let, "axis"), wrap = (int)let_int(let, "wrap");
    Dim dims[MAX_RANK], n = type_numel(cx, index->type);
    for (int ax = 0; ax < t->rank; ax++) {
        dims[ax] = ax == axis ? n : t->dims[ax];
    }
    index = build_expand(b, build_reshape(b, index, 1, &n), t->rank, dims, &axis);
    return build_scatter(b, OP_sum, zeros(b, t, g), index, build_reshape(b, g, t->rank, dims), axis,
                         wrap);
}

/* The gradient of a pad is a pad with the opposite amounts: it removes the border that the pad
 * added, and gives 0 to elements that the pad cut off. */
static Value *
of_pad(Build *b, const Let *let, Value *g)
{
    Cx *cx = build_cx(b);
    const Type *t = let->args[0]->type;
    const Dim *lo = let_attr(let, "lo")->dims;
    Dim back[MAX_RANK];
    for (int ax = 0; ax < t->rank; ax++) {
        back[ax] = dim_sub(cx, dim_int(cx, 0), lo[ax]);
    }
    return build_pad(b, g, build_float(b, 0), type_with(cx, t, g->type->dtype), back);
}

/* A sum of complex numbers is that of their parts. */
static Value *
by_parts(Build *b, const Let *let, Value *g, Value *(*rule)(Build *, const Let *, Value *))
{
    if (dtype_info[g->type->dtype].class != CLASS_COMPLEX) {
        return rule(b, let, g);
    }
    Value *re = rule(b, let, build_map(b, OP_real, g, NULL, NULL));
    Value *im = rule(b, let, build_map(b, OP_imag, g, NULL, NULL));
    return build_map(b, OP_complex, re, im, NULL);
}

Value *
derive_view(Build *b, const Let *let, Value *g)
{
    return by_parts(b, let, g, of_view);
}

Value *
derive_gather(Build *b, const Let *let, Value *g)
{
    return by_parts(b, let, g, of_gather);
}

Value *
derive_pad(Build *b, const Let *let, Value *g)
{
    return by_parts(b, let, g, of_pad);
}

/* The one axis of an index that is the same for all others; NULL: it is not. */
static Value *
index_alone(const Type *x, Value *index, int axis)
{
    const Let *let = index->def;
    const Attr *to = let && let->op == OP_expand ? let_attr(let, "to") : NULL;
    bool alone = to && to->n == 1 && to->axes[0] == axis;
    for (int ax = 0; alone && ax < x->rank; ax++) {
        alone = ax == axis || x->dims[ax] == index->type->dims[ax];
    }
    return alone ? let->args[0] : NULL;
}

/* ---- what a window of constant steps takes ---- */

/* A value of integers as start + the sum of step[k] times the index of axis k. */
typedef struct {
    Cx *cx;
    Dim start, step[MAX_RANK];
} Steps;

static void
steps_scale(Steps *s, Dim by)
{
    s->start = dim_mul(s->cx, s->start, by);
    for (int ax = 0; ax < MAX_RANK; ax++) {
        s->step[ax] = dim_mul(s->cx, s->step[ax], by);
    }
}

static bool steps_of(Steps *s, const Value *v);

/* The steps of a sum, or of a product with one constant factor. */
static bool
steps_of_two(Steps *s, const Let *let)
{
    Steps other = {.cx = s->cx};
    if (!steps_of(s, let->args[0]) || !steps_of(&other, let->args[1])) {
        return false;
    }
    bool same[2] = {true, true};
    for (int ax = 0; ax < MAX_RANK; ax++) {
        same[0] &= dim_is(s->cx, s->step[ax], 0);
        same[1] &= dim_is(s->cx, other.step[ax], 0);
    }
    if (let->op == OP_mul) {
        Dim by = same[0] ? s->start : other.start;
        *s = same[0] ? other : *s;
        steps_scale(s, by);
        return same[0] || same[1];
    }
    s->start = dim_add(s->cx, s->start, other.start);
    for (int ax = 0; ax < MAX_RANK; ax++) {
        s->step[ax] = dim_add(s->cx, s->step[ax], other.step[ax]);
    }
    return true;
}

static bool
steps_of(Steps *s, const Value *v)
{
    const Let *let = value_is_const(v) ? NULL : v->def;
    s->start = dim_int(s->cx, value_is_const(v) ? v->literal.i : 0);
    for (int ax = 0; ax < MAX_RANK; ax++) {
        s->step[ax] = dim_int(s->cx, 0);
    }
    if (value_is_const(v)) {
        return true;
    }
    switch (let ? let->op : OP_gather) {
    case OP_iota:
        s->step[let_int(let, "axis")] = dim_int(s->cx, 1);
        return true;
    case OP_size:
        s->start = let_dim(let, "dim");
        return true;
    case OP_expand: {
        Steps of = {.cx = s->cx};
        const Attr *to = let_attr(let, "to");
        bool is = steps_of(&of, let->args[0]);
        s->start = of.start;
        for (int k = 0; k < to->n; k++) {
            s->step[to->axes[k]] = of.step[k];
        }
        return is;
    }
    case OP_add:
    case OP_mul:
        return steps_of_two(s, let);
    default:
        return false;
    }
}

/* x at an index that goes through a window at constant steps, as derive_view makes it of a window:
 * the window of x.  NULL: it is none, or may not lie inside of x, which a gather checks. */
static Value *
window_taken(Build *b, Value *x, Value *index, int axis)
{
    Cx *cx = build_cx(b);
    const Let *let = index->def;
    const Value *of = let && let->op == OP_reshape ? let->args[0] : index;
    const Type *t = x->type;
    Dim dims[MAX_RANK], strides[MAX_RANK], dense[MAX_RANK], to[MAX_RANK];
    Steps s = {.cx = cx};
    int rank = t->rank - 1 + of->type->rank, n = 0;
    if (index->type->rank != 1 || rank > MAX_RANK || !steps_of(&s, of)) {
        return NULL;
    }
    type_dense(cx, t, dense);
    for (int ax = 0; ax < t->rank; ax++) {
        to[ax] = ax == axis ? index->type->dims[0] : t->dims[ax];
        for (int k = 0; k < (ax == axis ? of->type->rank : 1); k++) {
            dims[n] = ax == axis ? of->type->dims[k] : t->dims[ax];
            strides[n++] = ax == axis ? dim_mul(cx, dense[axis], s.step[k]) : dense[ax];
        }
    }
    Dim start = dim_mul(cx, dense[axis], s.start);
    if (!stride_is_inside(cx, type_numel(cx, t), rank, dims, strides, start)) {
        return NULL;
    }
    return build_reshape(b, build_as_strided(b, x, rank, dims, strides, start), t->rank, to);
}

Value *
derive_taken(Build *b, Value *x, Value *index, int axis)
{
    Cx *cx = build_cx(b);
    const Type *t = index->type;
    Value *alone = index_alone(x->type, index, axis), *place = NULL;
    Dim strides[MAX_RANK], numel = type_numel(cx, x->type), n = type_numel(cx, t);
    if (alone) {
        Value *window = window_taken(b, x, alone, axis);
        return window ? window : build_gather(b, x, alone, axis, INDEX_FROM_START);
    }
    type_dense(cx, x->type, strides);
    for (int ax = 0; ax < t->rank; ax++) {
        Value *along = build_iota(b, type_with(cx, t, DT_i64), ax);
        along = ax == axis ? build_cast(b, index, DT_i64) : along;
        Value *stride = build_expand(b, build_size(b, strides[ax]), t->rank, t->dims, NULL);
        along = build_map(b, OP_mul, along, stride, NULL);
        place = place ? build_map(b, OP_add, place, along, NULL) : along;
    }
    Value *flat = build_gather(b, build_reshape(b, x, 1, &numel), build_reshape(b, place, 1, &n), 0,
                               INDEX_FROM_START);
    return build_reshape(b, flat, t->rank, t->dims);
}
