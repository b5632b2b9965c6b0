/* Writes and sums at an index: the values for one element are combined in the order of the index.
 *
 * The scatter of the IR takes an index for each of the values, along one axis. An index of rows is
 * repeated along the other axes; several indices become one index into their merged axes, as in
 * aten_gather.c. */
#include "aten.h"

#include <math.h>
#include <string.h>

/* x with its only axis; eager takes a scalar for it. */
static Value *
at_least_one_axis(Aten *n, Value *x)
{
    Dim size = one(n);
    return x->type->rank ? x : build_reshape(n->b, x, 1, &size);
}

static bool
is_tensor_of(const Arg *a, const Type *like)
{
    return a->kind == ARG_TENSOR && a->v->type->dtype == like->dtype;
}

static bool
is_summed(Op op, Dtype dtype)
{
    return dtype != DT_bool || (op != OP_sum && op != OP_prod);
}

/* Fewer than x along another axis than the scatter's, and of x's rank. */
static bool
fits_across(Aten *n, const Type *t, const Type *x, int axis)
{
    bool fits = t->rank == x->rank;
    for (int ax = 0; ax < x->rank && fits; ax++) {
        fits = ax == axis || dim_le(n->cx, t->dims[ax], x->dims[ax]);
    }
    return fits;
}

static Value *
scattered(Aten *n, Op op, Value *x, Value *index, Value *v, int axis, int wrap)
{
    return build_scatter(n->b, op, x, build_cast(n->b, index, DT_i64), v, axis, wrap);
}

/* ---- an index for each element: scatter, scatter_add, scatter_reduce ---- */

typedef struct {
    Value *x, *index;
    const Type *of;
    int axis;
} Places;

/* Arguments (x, dim, index); of: the type of the values. */
static bool
read_places(Aten *n, Places *p)
{
    const Arg *index = arg_at(n, 2);
    if (!is_index(index)) {
        return false;
    }
    p->x = at_least_one_axis(n, arg_tensor(n, 0));
    p->index = at_least_one_axis(n, index->v);
    p->of = type_with(n->cx, p->index->type, p->x->type->dtype);
    return arg_axis(arg_at(n, 1), p->x->type->rank, &p->axis) &&
           fits_across(n, p->of, p->x->type, p->axis);
}

/* The values: the part of a source that the index has places for, or one number for all. */
static Value *
values_for(Aten *n, const Places *p, const Arg *src)
{
    if (src->kind != ARG_TENSOR) {
        return operand(n, src, p->of);
    }
    Value *v = at_least_one_axis(n, src->v);
    if (v->type->dtype != p->of->dtype || v->type->rank != p->of->rank) {
        return NULL;
    }
    for (int ax = 0; ax < p->of->rank; ax++) {
        if (v->type->dims[ax] != p->of->dims[ax]) {
            v = part(n, v, ax, zero(n), one(n), p->of->dims[ax]);
        }
    }
    return v;
}

static Value *
named(Aten *n, Value *v, const Type *t)
{
    return value_is_const(v) ? build_const(n->b, t, v->literal) : v;
}

static Value *
at_places(Aten *n, const Places *p, Op op, Value *x, Value *v)
{
    return scattered(n, op, x, p->index, v, p->axis, INDEX_OF_ELEMENT);
}

static Value *
shaped_as_result(Aten *n, Value *v)
{
    return v ? build_reshape(n->b, v, n->type->rank, n->type->dims) : NULL;
}

Value *
scatter_elements(Aten *n, Op op, const Arg *src)
{
    Places p;
    if (!read_places(n, &p) || !is_summed(op, p.of->dtype)) {
        return NULL;
    }
    Value *v = values_for(n, &p, src);
    return v ? shaped_as_result(n, at_places(n, &p, op, p.x, named(n, v, p.of))) : NULL;
}

/* scatter(x, dim, index, src or value, reduce) */
Value *
aten_scatter_with(Aten *n)
{
    const Arg *how = arg_at(n, 4);
    Op op = how->kind != ARG_TEXT                ? OP_COUNT
            : strcmp(how->text, "add") == 0      ? OP_sum
            : strcmp(how->text, "multiply") == 0 ? OP_prod
                                                 : OP_COUNT;
    return op == OP_COUNT ? NULL : scatter_elements(n, op, arg_at(n, 3));
}

/* ---- reductions by name ---- */

static Op
reduction_named(const Arg *how)
{
    static const struct {
        const char *name;
        Op op;
    } rows[] = {
        {"sum", OP_sum}, {"prod", OP_prod}, {"mean", OP_sum}, {"amax", OP_amax}, {"amin", OP_amin},
    };
    for (size_t k = 0; how->kind == ARG_TEXT && k < sizeof rows / sizeof *rows; k++) {
        if (strcmp(rows[k].name, how->text) == 0) {
            return rows[k].op;
        }
    }
    return OP_COUNT;
}

/* Returns the value of a reduction over no elements, such as 0 for a sum. */
static Value *
identity(Aten *n, Op op, const Type *t)
{
    bool least = op == OP_amax;
    int bits = 8 * dtype_info[t->dtype].bytes;
    Literal v = {.is_int = true, .i = op == OP_prod};
    if (op == OP_amax || op == OP_amin) {
        bool real = dtype_info[t->dtype].class == CLASS_FLOAT;
        int64_t low = t->dtype == DT_u8 ? 0 : INT64_MIN >> (64 - bits);
        int64_t high = t->dtype == DT_u8 ? 255 : INT64_MAX >> (64 - bits);
        v = real ? (Literal){.f = least ? -INFINITY : INFINITY}
                 : (Literal){.is_int = true, .i = least ? low : high};
        v.i = t->dtype == DT_bool ? !least : v.i;
    }
    return build_const(n->b, t, v);
}

/* Sums over how many there were; integers are rounded down. */
static Value *
divided(Aten *n, Value *sum, Value *count)
{
    bool real = dtype_info[sum->type->dtype].class == CLASS_FLOAT;
    count = map2(n, OP_maximum, count, build_int(n->b, 1));
    return map2(n, real ? OP_div : OP_div_floor, sum, build_cast(n->b, count, sum->type->dtype));
}

/* Reduces v into the destination. The arguments from `at` on are reduce and include_self. */
static Value *
reduced_at(Aten *n, const Places *p, Value *v, int at, int wrap)
{
    const Arg *how = arg_at(n, at), *self = arg_at(n, at + 1);
    Op op = reduction_named(how);
    bool includes = self->kind == ARG_NONE || arg_true(self);
    const Type *t = p->x->type;
    if (op == OP_COUNT || t->dtype == DT_bool) {
        return NULL;
    }
    Value *x = p->x;
    if (!includes) {
        Value *no = build_const(n->b, type_with(n->cx, t, DT_bool), (Literal){.is_int = true});
        Value *yes = build_const(n->b, type_with(n->cx, v->type, DT_bool),
                                 (Literal){.is_int = true, .i = 1});
        Value *touched = scattered(n, OP_store, no, p->index, yes, p->axis, wrap);
        x = map3(n, OP_where, touched, identity(n, op, t), x);
    }
    Value *r = scattered(n, op, x, p->index, v, p->axis, wrap);
    if (strcmp(how->text, "mean") == 0) {
        Value *first = build_const(n->b, type_with(n->cx, t, DT_i64),
                                   (Literal){.is_int = true, .i = includes});
        Value *each = build_const(n->b, type_with(n->cx, v->type, DT_i64),
                                  (Literal){.is_int = true, .i = 1});
        r = divided(n, r, scattered(n, OP_sum, first, p->index, each, p->axis, wrap));
    }
    return r;
}

/* scatter_reduce(x, dim, index, src, reduce, include_self) */
Value *
aten_scatter_reduce(Aten *n)
{
    Places p;
    Value *v = read_places(n, &p) ? values_for(n, &p, arg_at(n, 3)) : NULL;
    return v ? shaped_as_result(n, reduced_at(n, &p, named(n, v, p.of), 4, INDEX_OF_ELEMENT))
             : NULL;
}

/* ---- an index for each row: index_add, index_copy, index_fill, index_reduce ---- */

/* (x, dim, index, ..): the index as one of each of the values, which have x's shape with its own
 * size. */
static bool
read_rows(Aten *n, Places *p)
{
    const Arg *index = arg_at(n, 2);
    Dim dims[MAX_RANK];
    if (!is_index(index) || index->v->type->rank > 1) {
        return false;
    }
    Value *at = at_least_one_axis(n, index->v);
    p->x = at_least_one_axis(n, arg_tensor(n, 0));
    if (!arg_axis(arg_at(n, 1), p->x->type->rank, &p->axis)) {
        return false;
    }
    memcpy(dims, p->x->type->dims, (size_t)p->x->type->rank * sizeof *dims);
    dims[p->axis] = at->type->dims[0];
    p->of = type_of(n->cx, p->x->type->dtype, p->x->type->rank, dims);
    p->index = build_expand(n->b, at, p->of->rank, p->of->dims, &p->axis);
    return true;
}

/* The source of an index function: of the values' shape. */
static Value *
rows_of(Aten *n, const Places *p, const Arg *src)
{
    if (!is_tensor_of(src, p->of)) {
        return NULL;
    }
    Value *v = at_least_one_axis(n, src->v);
    return type_same_shape(v->type, p->of) ? v : NULL;
}

/* index_add(x, dim, index, source, alpha); of several axes eager makes a scatter_add of it, which
 * has its own error. */
Value *
aten_index_add(Aten *n)
{
    Places p;
    Value *v = read_rows(n, &p) ? rows_of(n, &p, arg_at(n, 3)) : NULL;
    const Arg *alpha = arg_at(n, 4);
    if (!v || p.of->dtype == DT_bool) {
        return NULL;
    }
    if (alpha->kind != ARG_NONE && !(arg_is_number(alpha) && arg_float(alpha, 1) == 1)) {
        Value *by = operand(n, alpha, p.of);
        v = by ? map2(n, OP_mul, v, by) : NULL;
    }
    int wrap = p.x->type->rank > 1 ? INDEX_OF_ELEMENT : INDEX_FROM_START;
    return v ? shaped_as_result(n, scattered(n, OP_sum, p.x, p.index, v, p.axis, wrap)) : NULL;
}

/* index_copy(x, dim, index, source); eager refuses an index of i32. */
Value *
aten_index_copy(Aten *n)
{
    Places p;
    Value *v = is_index64(arg_at(n, 2)) && read_rows(n, &p) ? rows_of(n, &p, arg_at(n, 3)) : NULL;
    return v ? shaped_as_result(n,
                                scattered(n, OP_store, p.x, p.index, v, p.axis, INDEX_FROM_START))
             : NULL;
}

/* index_fill(x, dim, index, value); eager refuses an index of i32, and keeps x's strides, which the
 * graph's metadata does not have. */
Value *
aten_index_fill(Aten *n)
{
    Places p;
    bool fits = is_index64(arg_at(n, 2)) && !arg_tensor(n, 0)->strides && read_rows(n, &p);
    Value *v = fits ? operand(n, arg_at(n, 3), p.of) : NULL;
    v = v ? scattered(n, OP_store, p.x, p.index, named(n, v, p.of), p.axis, INDEX_FROM_END) : NULL;
    return shaped_as_result(n, v);
}

/* index_reduce(x, dim, index, source, reduce, include_self) */
Value *
aten_index_reduce(Aten *n)
{
    Places p;
    Value *v = read_rows(n, &p) ? rows_of(n, &p, arg_at(n, 3)) : NULL;
    return v ? shaped_as_result(n, reduced_at(n, &p, v, 4, INDEX_FROM_START)) : NULL;
}

/* embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq) */
Value *
aten_embedding_dense_backward(Aten *n)
{
    const Arg *grad = arg_at(n, 0), *index = arg_at(n, 1), *padding = arg_at(n, 3);
    if (grad->kind != ARG_TENSOR || !is_index(index) || arg_true(arg_at(n, 4)) ||
        n->type->rank != 2 || grad->v->type->rank != index->v->type->rank + 1) {
        return NULL;
    }
    Dim rows = type_numel(n->cx, index->v->type), dims[] = {rows, n->type->dims[1]};
    int first = 0;
    Value *at = build_cast(n->b, build_reshape(n->b, index->v, 1, &rows), DT_i64);
    Value *v = build_reshape(n->b, build_cast(n->b, grad->v, n->type->dtype), 2, dims);
    if (!(padding->kind == ARG_INT && padding->i < 0)) {
        Value *none = operand(n, padding, at->type);
        Value *skipped = none ? map2(n, OP_eq, at, none) : NULL;
        if (!skipped) {
            return NULL;
        }
        v = map3(n, OP_where, build_expand(n->b, skipped, 2, dims, &first), number(n, 0), v);
    }
    Value *none = build_const(n->b, n->type, (Literal){.is_int = true});
    return scattered(n, OP_sum, none, build_expand(n->b, at, 2, dims, &first), v, 0,
                     INDEX_FROM_START);
}

/* ---- places in all of x ---- */

/* put(x, index, source, accumulate) */
Value *
aten_put(Aten *n)
{
    const Arg *index = arg_at(n, 1), *src = arg_at(n, 2);
    Value *x = arg_tensor(n, 0);
    bool adds = arg_true(arg_at(n, 3));
    if (!is_index64(index) || !is_tensor_of(src, x->type) || (adds && x->type->dtype == DT_bool)) {
        return NULL;
    }
    Dim size = type_numel(n->cx, x->type), count = type_numel(n->cx, index->v->type);
    if (type_numel(n->cx, src->v->type) != count) {
        return NULL;
    }
    Value *v = build_reshape(n->b, src->v, 1, &count),
          *at = build_reshape(n->b, index->v, 1, &count);
    v = scattered(n, adds ? OP_sum : OP_store, build_reshape(n->b, x, 1, &size), at, v, 0,
                  INDEX_FROM_END);
    return shaped_as_result(n, v);
}

/* ---- places that are known ---- */

static Dim
diagonal_length(Aten *n, Dim rows, Dim columns, int64_t offset)
{
    Dim by = dim_int(n->cx, offset < 0 ? -offset : offset), none = zero(n);
    rows = offset < 0 ? dim_sub(n->cx, rows, by) : rows;
    columns = offset < 0 ? columns : dim_sub(n->cx, columns, by);
    Dim least = dim_le(n->cx, rows, columns)   ? rows
                : dim_le(n->cx, columns, rows) ? columns
                                               : dim_min(n->cx, rows, columns);
    return dim_le(n->cx, none, least) ? least : dim_max(n->cx, least, none);
}

/* diagonal_scatter(x, src, offset, dim1, dim2): x with src, whose last axis runs along it, as its
 * diagonal. */
Value *
aten_diagonal_scatter(Aten *n)
{
    Value *x = arg_tensor(n, 0), *v;
    const Arg *src = arg_at(n, 1), *offset = arg_at(n, 2);
    int rank = x->type->rank, a, b, perm[MAX_RANK], back[MAX_RANK];
    Dim dims[MAX_RANK] = {zero(n)};
    if (!is_tensor_of(src, x->type) || src->v->type->rank != rank - 1 || offset->kind != ARG_INT ||
        !arg_axis(arg_at(n, 3), rank, &a) || !arg_axis(arg_at(n, 4), rank, &b) || a == b) {
        return NULL;
    }
    for (int ax = 0, k = 0; ax < rank; ax++) {
        int at = ax == a ? rank - 2 : ax == b ? rank - 1 : k++;
        perm[at] = ax;
        back[ax] = at;
    }
    x = build_permute(n->b, x, perm);
    const Type *t = x->type, *of = src->v->type;
    memcpy(dims, t->dims, (size_t)(rank - 2) * sizeof *dims);
    dims[rank - 2] = diagonal_length(n, t->dims[rank - 2], t->dims[rank - 1], offset->i);
    if (!may_have_sizes(n, src->v, dims)) {
        return NULL; /* eager raises */
    }
    bool known = has_sizes(n, src->v, dims);
    v = src->v;
    for (int ax = 0; ax < rank - 1 && !known; ax++) {
        if (of->dims[ax] != dims[ax]) {
            raise_unless_size(n, &x, &v, ax, dims[ax]);
        }
    }
    Dim width = t->dims[rank - 1], first = dim_int(n->cx, offset->i < 0 ? -offset->i : offset->i);
    dims[rank - 2] = dim_mul(n->cx, t->dims[rank - 2], width);
    first = offset->i < 0 ? dim_mul(n->cx, first, width) : first;
    const Type *places = type_with(n->cx, of, DT_i64);
    const Arg step = {.kind = ARG_DIM, .d = dim_add(n->cx, width, one(n))},
              from = {.kind = ARG_DIM, .d = first};
    Value *at = map2(n, OP_mul, position(n, places, rank - 2), operand(n, &step, places));
    at = map2(n, OP_add, at, operand(n, &from, places));
    x = build_reshape(n->b, x, rank - 1, dims);
    x = scattered(n, OP_store, x, at, v, rank - 2, INDEX_FROM_START);
    return build_permute(n->b, build_reshape(n->b, x, rank, t->dims), back);
}

/* The positions, given by strides and an offset, among elements in row-major order; t: i64, of
 * their shape. */
static Value *
strided_places(Aten *n, const Type *t, const Dim *strides, Dim offset)
{
    Value *at = named(n, operand(n, &(Arg){.kind = ARG_DIM, .d = offset}, t), t);
    for (int ax = 0; ax < t->rank; ax++) {
        Value *by = operand(n, &(Arg){.kind = ARG_DIM, .d = strides[ax]}, t);
        at = map2(n, OP_add, at, map2(n, OP_mul, position(n, t, ax), by));
    }
    return at;
}

/* as_strided_scatter(x, src, size, stride, offset): x with src there; the walk makes x the tensor
 * that owns the storage. */
Value *
aten_as_strided_scatter(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    const Arg *src = arg_at(n, 1), *size = arg_at(n, 2), *stride = arg_at(n, 3),
              *from = arg_at(n, 4);
    Dim strides[MAX_RANK], offset = zero(n), last, d;
    if (!is_tensor_of(src, x->type) || size->kind != ARG_LIST || stride->kind != ARG_LIST ||
        size->n != src->v->type->rank || stride->n != size->n ||
        (from->kind != ARG_NONE && !arg_dim(n, from, &offset))) {
        return NULL;
    }
    const Type *of = src->v->type;
    last = offset;
    for (int ax = 0; ax < size->n; ax++) {
        if (!arg_dim(n, &size->items[ax], &d) || d != of->dims[ax] ||
            !arg_dim(n, &stride->items[ax], &strides[ax]) || !dim_le(n->cx, zero(n), strides[ax])) {
            return NULL;
        }
        last = dim_add(n->cx, last, dim_mul(n->cx, dim_sub(n->cx, d, one(n)), strides[ax]));
    }
    Dim all = type_numel(n->cx, x->type), count = type_numel(n->cx, of);
    if (!dim_le(n->cx, zero(n), offset) || !dim_lt(n->cx, last, all) ||
        !strides_do_not_overlap(n->cx, of, strides)) {
        return NULL; /* eager finds the storage too small, or the order of writes is its own */
    }
    Value *at = strided_places(n, type_with(n->cx, of, DT_i64), strides, offset);
    Value *v = build_reshape(n->b, src->v, 1, &count);
    x = build_reshape(n->b, x, 1, &all);
    return shaped_as_result(
        n, scattered(n, OP_store, x, build_reshape(n->b, at, 1, &count), v, 0, INDEX_FROM_START));
}
