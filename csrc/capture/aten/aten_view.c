/* Views.  Sizes come from the result's type wherever the graph knows them. */
#include "aten.h"

Dim
zero(const Aten *n)
{
    return dim_int(n->cx, 0);
}

Dim
one(const Aten *n)
{
    return dim_int(n->cx, 1);
}

/* A view is only built where it is known to stay inside; else the node is left to eager, which
 * checks. */
static void
require(const Aten *n, bool inside)
{
    if (!inside) {
        fail(n->cx, DIAG_OUTSIDE);
    }
}

Value *
part(Aten *n, Value *x, int axis, Dim start, Dim step, Dim length)
{
    Cx *cx = n->cx;
    Dim last = dim_add(cx, start, dim_mul(cx, dim_sub(cx, length, one(n)), step));
    require(n, dim_le(cx, zero(n), start) && dim_le(cx, zero(n), step));
    require(n, dim_lt(cx, last, x->type->dims[axis]));
    return build_slice(n->b, x, axis, start, step, length);
}

/* The result's type by strides and an offset in the row-major elements of x. */
static Value *
strided(Aten *n, Value *x, const Dim *strides, Dim offset)
{
    Cx *cx = n->cx;
    Dim last = offset;
    for (int ax = 0; ax < n->type->rank; ax++) {
        Dim steps = dim_sub(cx, n->type->dims[ax], one(n));
        require(n, dim_le(cx, zero(n), strides[ax]));
        last = dim_add(cx, last, dim_mul(cx, steps, strides[ax]));
    }
    require(n, dim_le(cx, zero(n), offset) && dim_lt(cx, last, type_numel(cx, x->type)));
    return build_as_strided(n->b, x, n->type->rank, n->type->dims, strides, offset);
}

/* Argument 0 itself: detach, alias, clone, contiguous, ...: the layout is the result's, not the
 * value's. */
Value *
aten_same(Aten *n)
{
    return arg_tensor(n, 0);
}

Value *
aten_reshape(Aten *n)
{
    return build_reshape(n->b, arg_tensor(n, 0), n->type->rank, n->type->dims);
}

Value *
aten_expand(Aten *n)
{
    return build_broadcast(n->b, arg_tensor(n, 0), n->type->rank, n->type->dims);
}

/* ---- permutations ---- */

Value *
aten_permute(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    int count, perm[MAX_RANK];
    const Arg *dims = arg_at(n, 1);
    if (dims->kind != ARG_LIST || dims->n != x->type->rank ||
        !arg_axes(dims, x->type->rank, &count, perm)) {
        return NULL;
    }
    return x->type->rank ? build_permute(n->b, x, perm) : x;
}

static Value *
swap(Aten *n, Value *x, int a, int b)
{
    int perm[MAX_RANK];
    for (int ax = 0; ax < x->type->rank; ax++) {
        perm[ax] = ax == a ? b : ax == b ? a : ax;
    }
    return x->type->rank ? build_permute(n->b, x, perm) : x;
}

Value *
aten_transpose(Aten *n)
{
    int a, b, rank = arg_tensor(n, 0)->type->rank;
    if (!arg_axis(arg_at(n, 1), rank, &a) || !arg_axis(arg_at(n, 2), rank, &b)) {
        return NULL;
    }
    return swap(n, arg_tensor(n, 0), a, b);
}

Value *
aten_t(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    return x->type->rank == 2 ? swap(n, x, 0, 1) : x;
}

/* ---- parts ---- */

bool
from_start(const Aten *n, Dim index, Dim size, Dim *out)
{
    if (dim_le(n->cx, zero(n), index)) {
        *out = index;
        return true;
    }
    *out = dim_add(n->cx, index, size);
    return dim_lt(n->cx, index, zero(n));
}

static Dim
clamped(const Aten *n, Dim index, Dim size)
{
    Cx *cx = n->cx;
    if (!dim_le(cx, index, size)) {
        index = dim_min(cx, index, size);
    }
    return dim_le(cx, zero(n), index) ? index : dim_max(cx, index, zero(n));
}

/* An end of a slice: argument k, or `otherwise` for None. */
static bool
slice_end(const Aten *n, int k, Dim otherwise, Dim size, Dim *end)
{
    Dim index = otherwise;
    const Arg *a = arg_at(n, k);
    if (a->kind != ARG_NONE && !arg_dim(n, a, &index)) {
        return false;
    }
    if (!from_start(n, index, size, end)) {
        return false;
    }
    *end = clamped(n, *end, size);
    return true;
}

bool
slice_start(const Aten *n, int k, Dim size, Dim *start)
{
    return slice_end(n, k, zero(n), size, start);
}

bool
slice_extent(const Aten *n, int k, Dim size, Dim start, int64_t step, Dim *length)
{
    Dim end, each = dim_int(n->cx, step);
    if (!slice_end(n, k, size, size, &end)) {
        return false;
    }
    Dim count = dim_sub(n->cx, end, start);
    count = dim_le(n->cx, zero(n), count) ? count : dim_max(n->cx, count, zero(n));
    *length = dim_div(n->cx, dim_add(n->cx, count, dim_int(n->cx, step - 1)), each);
    return true;
}

/* slice(x, dim, start, end, step): the graph knows the length. */
Value *
aten_slice(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    int axis;
    Dim start, step = one(n);
    if (!x->type->rank || !arg_axis(arg_at(n, 1), x->type->rank, &axis) ||
        !slice_start(n, 2, x->type->dims[axis], &start) ||
        (n->nargs > 4 && !arg_dim(n, arg_at(n, 4), &step))) {
        return NULL;
    }
    return part(n, x, axis, start, step, n->type->dims[axis]);
}

/* Selects one index along an axis, which is dropped. */
static Value *
selected(Aten *n, Value *x, int axis, Dim index, const Type *t)
{
    return build_reshape(n->b, part(n, x, axis, index, one(n), one(n)), t->rank, t->dims);
}

Value *
aten_select(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    int axis;
    Dim index;
    const Arg *at = arg_at(n, 2);
    if (at->kind == ARG_TENSOR && x->type->rank && arg_axis(arg_at(n, 1), x->type->rank, &axis)) {
        return build_gather(n->b, x, at->v, axis, INDEX_FROM_END); /* by data */
    }
    if (!x->type->rank || !arg_axis(arg_at(n, 1), x->type->rank, &axis) ||
        !arg_dim(n, arg_at(n, 2), &index) || !from_start(n, index, x->type->dims[axis], &index)) {
        return NULL;
    }
    return selected(n, x, axis, index, n->type);
}

Value *
aten_unbind(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    int axis;
    if (!x->type->rank || !arg_axis(arg_at(n, 1), x->type->rank, &axis)) {
        return NULL;
    }
    for (int k = 0; k < n->nres; k++) {
        n->res[k] = selected(n, x, axis, dim_int(n->cx, k), n->types[k]);
    }
    return n->res[0];
}

/* split, split_with_sizes, chunk: the results' types say where the cuts are. */
Value *
aten_split(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    int axis;
    if (!x->type->rank || !arg_axis(arg_at(n, 2), x->type->rank, &axis)) {
        return NULL;
    }
    Dim start = zero(n);
    for (int k = 0; k < n->nres; k++) {
        Dim length = n->types[k]->dims[axis];
        n->res[k] = part(n, x, axis, start, one(n), length);
        start = dim_add(n->cx, start, length);
    }
    return n->res[0];
}

/* ---- views by strides over the elements in row-major order ---- */

/* diagonal(x, offset, dim1, dim2) */
Value *
aten_diagonal(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    int rank = x->type->rank, a, b, made = 0;
    const Arg *off = arg_at(n, 1);
    if (rank < 2 || off->kind != ARG_INT || !arg_axis(arg_at(n, 2), rank, &a) ||
        !arg_axis(arg_at(n, 3), rank, &b) || a == b || dim_is(n->cx, n->type->dims[rank - 2], 0)) {
        return NULL;
    }
    Dim dense[MAX_RANK], strides[MAX_RANK];
    type_dense(n->cx, x->type, dense);
    for (int ax = 0; ax < rank; ax++) {
        if (ax != a && ax != b) {
            strides[made++] = dense[ax];
        }
    }
    strides[made] = dim_add(n->cx, dense[a], dense[b]);
    Dim away = dim_int(n->cx, off->i < 0 ? -off->i : off->i);
    Dim start = dim_mul(n->cx, away, dense[off->i < 0 ? a : b]);
    return strided(n, x, strides, start);
}

/* unfold(x, dim, size, step): windows along an axis, the window being the last axis */
Value *
aten_unfold(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    int rank = x->type->rank, axis;
    Dim step, dense[MAX_RANK + 1];
    if (!rank || rank >= MAX_RANK || !arg_axis(arg_at(n, 1), rank, &axis) ||
        !arg_dim(n, arg_at(n, 3), &step)) {
        return NULL;
    }
    type_dense(n->cx, x->type, dense);
    dense[rank] = dense[axis];
    dense[axis] = dim_mul(n->cx, dense[axis], step);
    return strided(n, x, dense, zero(n));
}

/* as_strided(x, size, stride, offset); the walk makes x the tensor that owns the storage. */
Value *
aten_as_strided(Aten *n)
{
    const Arg *list = arg_at(n, 2);
    Dim strides[MAX_RANK], offset = zero(n);
    const Arg *at = arg_at(n, 3);
    if (list->kind != ARG_LIST || list->n != n->type->rank ||
        (at->kind != ARG_NONE && !arg_dim(n, at, &offset))) {
        return NULL;
    }
    for (int ax = 0; ax < list->n; ax++) {
        if (!arg_dim(n, &list->items[ax], &strides[ax])) {
            return NULL;
        }
    }
    return strided(n, arg_tensor(n, 0), strides, offset);
}
