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

/* Of real numbers. */
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

/* What a pad has left out has no gradient; so the other way round it is a pad. */
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

Value *
derive_taken(Build *b, Value *x, Value *index, int axis)
{
    Cx *cx = build_cx(b);
    const Type *t = index->type;
    Value *alone = index_alone(x->type, index, axis), *place = NULL;
    Dim strides[MAX_RANK], numel = type_numel(cx, x->type), n = type_numel(cx, t);
    if (alone) {
        return build_gather(b, x, alone, axis, INDEX_FROM_START);
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
