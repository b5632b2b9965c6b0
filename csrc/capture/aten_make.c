/* Tensors made from nothing, and lookups by index. */
#include "aten.h"

#include <math.h>

static DtypeClass
class_of(Dtype dtype)
{
    return dtype_info[dtype].class;
}

/* A constant tensor of the result's type, or a run-time number repeated. */
static Value *
filled(Aten *n, const Arg *value)
{
    Value *v = operand(n, value, n->type);
    return v && value_is_const(v) ? build_const(n->b, n->type, v->literal) : v;
}

/* full(size, value), full_like(x, value), scalar_tensor(value), new_full(x, size, value), fill(x,
 * value) */
Value *
aten_full(Aten *n)
{
    return filled(n, arg_at(n, 1));
}

Value *
aten_new_full(Aten *n)
{
    return filled(n, arg_at(n, 2));
}

Value *
aten_scalar(Aten *n)
{
    return filled(n, arg_at(n, 0));
}

/* zeros and its like; also empty, whose contents are anything. */
Value *
aten_zeros(Aten *n)
{
    return filled(n, &(Arg){.kind = ARG_INT, .i = 0});
}

Value *
aten_ones(Aten *n)
{
    return filled(n, &(Arg){.kind = ARG_INT, .i = 1});
}

/* start + step * k: in integers, or as eager's kernels do, in double and rounded once. */
static Value *
progression(Aten *n, const Arg *start, const Arg *step)
{
    bool whole = class_of(n->type->dtype) != CLASS_FLOAT;
    Dim unused;
    bool ints = arg_dim(n, start, &unused) && arg_dim(n, step, &unused);
    if (n->type->rank != 1 || n->type->dtype == DT_bool || (whole && !ints)) {
        return NULL;
    }
    const Type *t = type_with(n->cx, n->type, whole ? DT_i64 : DT_f64);
    Value *k = build_cast(n->b, build_iota(n->b, type_with(n->cx, t, DT_i64), 0), t->dtype);
    Value *from = operand(n, start, t), *by = operand(n, step, t);
    return from && by ? map2(n, OP_add, map2(n, OP_mul, k, by), from) : NULL;
}

static const Arg int_zero = {.kind = ARG_INT, .i = 0}, int_one = {.kind = ARG_INT, .i = 1};

Value *
aten_arange(Aten *n)
{
    return progression(n, &int_zero, &int_one);
}

Value *
aten_arange_from(Aten *n)
{
    return progression(n, arg_at(n, 0), &int_one);
}

Value *
aten_arange_step(Aten *n)
{
    return progression(n, arg_at(n, 0), arg_at(n, 2));
}

/* prims.iota(length, start, step) */
Value *
aten_iota(Aten *n)
{
    return progression(n, arg_at(n, 1), arg_at(n, 2));
}

/* The position along an axis, as a tensor of the result's shape. */
static Value *
position(Aten *n, int axis)
{
    Dim size = n->type->dims[axis];
    Value *k = build_iota(n->b, type_of(n->cx, DT_i64, 1, &size), 0);
    return build_expand(n->b, k, n->type->rank, n->type->dims, &axis);
}

Value *
aten_eye(Aten *n)
{
    Value *on = map2(n, OP_eq, position(n, 0), position(n, 1));
    return build_cast(n->b, on, n->type->dtype);
}

/* tril(x, diagonal), triu(x, diagonal): keep where column - row <= or >= the diagonal. */
Value *
aten_triangle(Aten *n)
{
    Value *x = n->args[0].v;
    int rank = x->type->rank;
    const Type *t = rank >= 2 ? type_with(n->cx, x->type, DT_i64) : NULL;
    const Arg *diagonal = arg_at(n, 1);
    Value *by = t ? operand(n, diagonal, t) : NULL;
    if (!by) {
        return NULL;
    }
    Value *keep = map2(n, n->op, map2(n, OP_sub, position(n, rank - 1), position(n, rank - 2)), by);
    return map3(n, OP_where, keep, x, build_int(n->b, 0));
}

/* ---- lookups ---- */

static bool
is_index(const Arg *a)
{
    return a->kind == ARG_TENSOR && (a->v->type->dtype == DT_i64 || a->v->type->dtype == DT_i32);
}

/* Rank of a lookup's result is within bounds. */
static bool
fits(const Value *x, const Value *index)
{
    return x->type->rank >= 1 && x->type->rank - 1 + index->type->rank <= MAX_RANK;
}

static Value *
lookup(Aten *n, Value *x, const Arg *index, int axis, bool wrap)
{
    if (!is_index(index) || !fits(x, index->v)) {
        return NULL;
    }
    return build_gather(n->b, x, build_cast(n->b, index->v, DT_i64), axis, wrap);
}

/* embedding(weight, indices, ...) */
Value *
aten_embedding(Aten *n)
{
    return lookup(n, n->args[0].v, arg_at(n, 1), 0, false);
}

/* index_select(x, dim, index) */
Value *
aten_index_select(Aten *n)
{
    Value *x = n->args[0].v;
    int axis;
    if (!arg_axis(arg_at(n, 1), x->type->rank, &axis) || arg_at(n, 2)->v->type->rank != 1) {
        return NULL;
    }
    return lookup(n, x, arg_at(n, 2), axis, false);
}

/* x[None, .., index, ..]: one tensor of integers among the indices */
Value *
aten_index(Aten *n)
{
    const Arg *list = arg_at(n, 1);
    int axis = -1;
    for (int k = 0; k < list->n; k++) {
        if (list->items[k].kind != ARG_NONE && axis >= 0) {
            return NULL;
        }
        axis = list->items[k].kind != ARG_NONE ? k : axis;
    }
    return axis < 0 ? NULL : lookup(n, n->args[0].v, &list->items[axis], axis, true);
}

/* The indices of neighbouring axes as one index into these axes merged. */
static Value *
merged_index(Aten *n, const Type *x, const Arg *indices, int first, int count, const Type *t)
{
    Value *at = NULL;
    for (int k = 0; k < count; k++) {
        if (!is_index(&indices[k])) {
            return NULL;
        }
        const Arg size = {.kind = ARG_DIM, .d = x->dims[first + k]};
        Value *v = operand(n, &indices[k], t), *extent = operand(n, &size, t);
        Value *back = map2(n, OP_add, v, extent);
        v = map3(n, OP_where, map2(n, OP_lt, v, build_int(n->b, 0)), back, v);
        at = at ? map2(n, OP_add, map2(n, OP_mul, at, extent), v) : v;
    }
    return at;
}

/* As index, of indices that the caller knows to be in range: several tensors side by side. */
Value *
aten_unsafe_index(Aten *n)
{
    Value *x = n->args[0].v;
    const Arg *list = arg_at(n, 1);
    int first = 0, last = list->n - 1, rank = x->type->rank;
    while (first < list->n && list->items[first].kind == ARG_NONE) {
        first++;
    }
    while (last > first && list->items[last].kind == ARG_NONE) {
        last--;
    }
    int count = last - first + 1, made = n->type->rank - (rank - count);
    if (count < 1 || made < 0) {
        return NULL;
    }
    const Type *t = type_of(n->cx, DT_i64, made, n->type->dims + first);
    Value *index = merged_index(n, x->type, &list->items[first], first, count, t);
    Dim dims[MAX_RANK];
    int kept = 0;
    for (int ax = 0; ax < rank; ax++) {
        if (ax <= first || ax > last) {
            dims[kept++] = x->type->dims[ax];
        }
        else {
            dims[first] = dim_mul(n->cx, dims[first], x->type->dims[ax]);
        }
    }
    x = build_reshape(n->b, x, kept, dims);
    return index ? build_gather(n->b, x, index, first, false) : NULL;
}
