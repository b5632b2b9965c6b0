/* The derivatives of reductions and scans, in both directions. */
#include "derive.h"

/* A value of the result's shape over the axes that were reduced. */
static Value *
over_axes(Build *b, const Let *let, Value *v)
{
    const Type *t = let->args[0]->type;
    const Attr *axes = let_attr(let, "axes");
    int to[MAX_RANK], n = 0;
    for (int ax = 0, at = 0; ax < t->rank; ax++) {
        if (at < axes->n && axes->axes[at] == ax) {
            at++;
        } else {
            to[n++] = ax;
        }
    }
    return build_expand(b, v, t->rank, t->dims, to);
}

static Value *
summed(Build *b, const Let *let, Value *v)
{
    const Attr *axes = let_attr(let, "axes");
    return build_red(b, OP_sum, v, axes->n, axes->axes);
}

/* ---- products ---- */

/* The product of the elements before each one along the axis; with flips, behind it. */
static Value *
product_before(Build *b, Value *x, int axis)
{
    Cx *cx = build_cx(b);
    const Type *t = x->type;
    Dim lo[MAX_RANK], dims[MAX_RANK], one = dim_int(cx, 1), zero = dim_int(cx, 0);
    for (int ax = 0; ax < t->rank; ax++) {
        lo[ax] = ax == axis ? one : zero;
        dims[ax] = ax == axis ? dim_add(cx, t->dims[ax], one) : t->dims[ax];
    }
    x = build_pad(b, x, build_float(b, 1), type_of(cx, t->dtype, t->rank, dims), lo);
    return build_scan(b, OP_prod, build_slice(b, x, axis, zero, one, t->dims[axis]), axis);
}

/* The product of all elements along the axis but each one: right where some are 0. */
static Value *
product_of_others(Build *b, const Let *let)
{
    int axis = let_attr(let, "axes")->axes[0];
    Value *x = let->args[0];
    Value *before = product_before(b, x, axis);
    Value *behind = build_flip(b, product_before(b, build_flip(b, x, 1, &axis), axis), 1, &axis);
    return build_map(b, OP_mul, before, behind, NULL);
}

/* Of a scan of products, y[j] by x[k]: the product of x[0] to x[j] without x[k], 0 where k > j.
 * It has k as the axis, and j as the one behind it. */
static Value *
products_without(Build *b, const Let *let)
{
    Cx *cx = build_cx(b);
    Value *x = let->args[0];
    const Type *t = x->type;
    int axis = (int)let_int(let, "axis"), to[MAX_RANK + 1], rank = t->rank + 1;
    if (rank > MAX_RANK) {
        fail(cx, DIAG_RANK, rank, MAX_RANK);
    }
    Dim dims[MAX_RANK];
    for (int ax = 0; ax < rank; ax++) {
        dims[ax] = t->dims[ax <= axis ? ax : ax - 1];
        to[ax] = ax < axis ? ax : ax + 1;
    }
    Value *all = build_expand(b, x, rank, dims, to);
    const Type *places = type_with(cx, all->type, DT_i64);
    Value *k = build_iota(b, places, axis), *j = build_iota(b, places, axis + 1);
    Value *others = build_map(b, OP_where, build_map(b, OP_eq, k, j, NULL), build_float(b, 1), all);
    Value *products = build_scan(b, OP_prod, others, axis + 1);
    return build_map(b, OP_where, build_map(b, OP_le, k, j, NULL), products, build_float(b, 0));
}

/* The sum of products_without times v, which has one of the two axes, over that one. */
static Value *
products_times(Build *b, const Let *let, Value *v, bool forward)
{
    Value *products = products_without(b, let);
    int axis = (int)let_int(let, "axis"), over = forward ? axis : axis + 1, to[MAX_RANK];
    for (int ax = 0; ax < v->type->rank; ax++) {
        to[ax] = ax < axis || (ax == axis && forward) ? ax : ax + 1;
    }
    v = build_expand(b, v, products->type->rank, products->type->dims, to);
    return build_red(b, OP_sum, build_map(b, OP_mul, products, v, NULL), 1, &over);
}

Value *
derive_scan(Build *b, const Let *let, Value *g)
{
    if (let_op(let) != OP_prod) {
        derive_none(b, let->op);
    }
    return products_times(b, let, g, false);
}

Value *
tangent_scan(Build *b, const Let *let, Value *t)
{
    if (let_op(let) != OP_prod) {
        derive_none(b, let->op);
    }
    return products_times(b, let, t, true);
}

/* ---- reductions ---- */

/* Which elements are the extreme, and how many of a row. */
static Value *
extremes(Build *b, const Let *let, Value **count)
{
    Dtype dtype = let->res[0]->type->dtype;
    Value *is = build_map(b, OP_eq, let->args[0], over_axes(b, let, let->res[0]), NULL);
    *count = summed(b, let, build_cast(b, is, dtype));
    return is;
}

/* Elements that are the extreme share the gradient. */
Value *
derive_reduction(Build *b, const Let *let, Value *g)
{
    Value *is, *count;
    switch (let->op) {
    case OP_sum:
        return over_axes(b, let, g);
    case OP_prod:
        return build_map(b, OP_mul, over_axes(b, let, g), product_of_others(b, let), NULL);
    case OP_amax:
    case OP_amin:
        is = extremes(b, let, &count);
        return build_map(b, OP_where, is, over_axes(b, let, build_map(b, OP_div, g, count, NULL)),
                         build_float(b, 0));
    default:
        return NULL;
    }
}

Value *
tangent_reduction(Build *b, const Let *let, Value *t)
{
    Value *is, *count;
    switch (let->op) {
    case OP_sum:
        return summed(b, let, t);
    case OP_prod:
        return summed(b, let, build_map(b, OP_mul, t, product_of_others(b, let), NULL));
    case OP_amax:
    case OP_amin:
        is = extremes(b, let, &count);
        t = summed(b, let, build_map(b, OP_where, is, t, build_float(b, 0)));
        return build_map(b, OP_div, t, count, NULL);
    default:
        return NULL;
    }
}
