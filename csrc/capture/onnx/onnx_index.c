/* Operators whose indices are data, and those that find one. */
#include "onnx.h"

#include <string.h>

static Value *
whole(Onnx *o, Value *index)
{
    return build_cast(o->b, index, DT_i64);
}

void
onnx_gather(Onnx *o)
{
    Value *x = onnx_in(o, 0), *index = onnx_in(o, 1);
    int axis = onnx_axis(o, onnx_int(o, "axis", 0), x->type->rank);
    if (x->type->rank - 1 + index->type->rank > MAX_RANK) {
        onnx_refuse(o, "its result has more than %d axes", MAX_RANK);
    }
    o->out[0] = build_gather(o->b, x, whole(o, index), axis, INDEX_FROM_END);
}

/* Negative indices as positive ones; those known to be positive as they are. */
static Value *
counted_from_start(Onnx *o, Value *index, Dim size)
{
    index = whole(o, index);
    const Type *t = index->type;
    Value *n = build_broadcast(o->b, build_size(o->b, size), t->rank, t->dims);
    Value *negative = build_map(o->b, OP_lt, index, build_int(o->b, 0), NULL);
    return build_map(o->b, OP_where, negative, build_map(o->b, OP_add, index, n, NULL), index);
}

void
onnx_gather_elements(Onnx *o)
{
    Value *x = onnx_in(o, 0), *index = onnx_in(o, 1);
    int axis = onnx_axis(o, onnx_int(o, "axis", 0), x->type->rank);
    index = counted_from_start(o, index, x->type->dims[axis]);
    o->out[0] = onnx_aten(o, "aten.gather.default", type_with(o->cx, index->type, x->type->dtype),
                          ARGS(arg_v(x), arg_i(axis), arg_v(index)));
}

/* x with v at the indices along the axis, as the attribute `reduction` says. */
static Value *
scattered(Onnx *o, Value *x, int axis, Value *index, Value *v)
{
    static const char *const ways[][2] = {
        {"add", "sum"}, {"mul", "prod"}, {"max", "amax"}, {"min", "amin"}};
    const char *how = onnx_text(o, "reduction", "none");
    Arg args[6] = {arg_v(x), arg_i(axis), arg_v(index), arg_v(v)};
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        if (strcmp(how, ways[k][0]) == 0) {
            args[4] = (Arg){.kind = ARG_TEXT, .text = ways[k][1]};
            args[5] = (Arg){.kind = ARG_BOOL, .i = 1};
            return onnx_aten(o, "aten.scatter_reduce.two", x->type, 6, args);
        }
    }
    if (strcmp(how, "none") != 0) {
        onnx_refuse(o, "its reduction '%s' is none that is known", how);
    }
    return onnx_aten(o, "aten.scatter.src", x->type, 4, args);
}

void
onnx_scatter_elements(Onnx *o)
{
    Value *x = onnx_in(o, 0), *index = onnx_in(o, 1), *v = onnx_in(o, 2);
    int axis = onnx_axis(o, onnx_int(o, "axis", 0), x->type->rank);
    index = counted_from_start(o, index, x->type->dims[axis]);
    o->out[0] = scattered(o, x, axis, index, v);
}

/* Where a list of indices, the last axis of `index`, points to in the axes of t from `first` on:
 * the row-major number, negative indices from the end, and each in its own bounds. */
static Value *
number_of(Onnx *o, Value *index, const Type *t, int first, int count)
{
    int axis = index->type->rank - 1;
    Value *at = NULL;
    for (int k = 0; k < count; k++) {
        Dim size = t->dims[first + k], one = dim_int(o->cx, 1);
        Value *next = build_slice(o->b, index, axis, dim_int(o->cx, k), one, one);
        next = build_reshape(o->b, next, axis, index->type->dims);
        Value *all = build_iota(o->b, type_of(o->cx, DT_i64, 1, &size), 0);
        next = build_gather(o->b, all, next, 0, INDEX_FROM_END);
        if (at) {
            Value *n = build_broadcast(o->b, build_size(o->b, size), axis, next->type->dims);
            at = build_map(o->b, OP_add, build_map(o->b, OP_mul, at, n, NULL), next, NULL);
        } else {
            at = next;
        }
    }
    return at;
}

/* How many indices the last axis has, at most `most`. */
static int
indices_of(Onnx *o, const Value *index, int most)
{
    int64_t n;
    int rank = index->type->rank;
    if (rank == 0 || !dim_is_int(o->cx, index->type->dims[rank - 1], &n) || n < 1 || n > most) {
        onnx_refuse(o, "the last axis of its indices is not a number of axes of its operand");
    }
    return (int)n;
}

/* t with the axes from `first` to before `end` as one. */
static const Type *
merged(Onnx *o, const Type *t, int first, int end)
{
    Dim dims[MAX_RANK], all = dim_int(o->cx, 1);
    int n = 0;
    for (int ax = 0; ax < t->rank; ax++) {
        bool inside = ax >= first && ax < end;
        all = inside ? dim_mul(o->cx, all, t->dims[ax]) : all;
        if (!inside || ax == end - 1) {
            dims[n++] = inside ? all : t->dims[ax];
        }
    }
    return type_of(o->cx, t->dtype, n, dims);
}

void
onnx_gather_nd(Onnx *o)
{
    Value *x = onnx_in(o, 0), *index = whole(o, onnx_in(o, 1));
    int batch = (int)onnx_int(o, "batch_dims", 0), rank = index->type->rank;
    if (batch < 0 || batch >= x->type->rank || batch >= rank) {
        onnx_refuse(o, "it has more batch_dims than axes");
    }
    for (int ax = 0; ax < batch; ax++) {
        if (x->type->dims[ax] != index->type->dims[ax]) {
            onnx_refuse(o, "axis %d, a batch, is not known to be as long in its indices", ax);
        }
    }
    int count = indices_of(o, index, x->type->rank - batch);
    Value *at = number_of(o, index, x->type, batch, count);
    for (int ax = batch - 1; ax >= 0; ax--) { /* the batches' own indices come before */
        Dim rest = dim_int(o->cx, 1);
        for (int k = ax + 1; k < batch + count; k++) {
            rest = dim_mul(o->cx, rest, x->type->dims[k]);
        }
        const Type *t = at->type;
        Value *n = build_broadcast(o->b, build_size(o->b, rest), t->rank, t->dims);
        at = build_map(o->b, OP_add, at, build_map(o->b, OP_mul, build_iota(o->b, t, ax), n, NULL),
                       NULL);
    }
    const Type *line = merged(o, x->type, 0, batch + count);
    if (line->rank - 1 + at->type->rank > MAX_RANK) {
        onnx_refuse(o, "its result has more than %d axes", MAX_RANK);
    }
    x = build_reshape(o->b, x, line->rank, line->dims);
    o->out[0] = build_gather(o->b, x, at, 0, INDEX_FROM_START);
}

/* As rows [elements, rest] of x, and of the updates. */
void
onnx_scatter_nd(Onnx *o)
{
    Value *x = onnx_in(o, 0), *index = whole(o, onnx_in(o, 1)), *v = onnx_in(o, 2);
    int count = indices_of(o, index, x->type->rank);
    Value *at = number_of(o, index, x->type, 0, count);
    Dim rows = dim_int(o->cx, 1), rest = rows, places = type_numel(o->cx, at->type);
    for (int ax = 0; ax < x->type->rank; ax++) {
        Dim *to = ax < count ? &rows : &rest;
        *to = dim_mul(o->cx, *to, x->type->dims[ax]);
    }
    const Type *given = x->type;
    Value *flat = build_reshape(o->b, x, 2, (const Dim[]){rows, rest});
    Dim made[] = {places, rest};
    at = build_reshape(o->b, at, 1, &places);
    at = build_expand(o->b, at, 2, made, (const int[]){0});
    v = build_reshape(o->b, v, 2, made);
    flat = scattered(o, flat, 0, at, v);
    o->out[0] = build_reshape(o->b, flat, given->rank, given->dims);
}

/* An index that is out of range gives a row of off values. */
void
onnx_one_hot(Onnx *o)
{
    Value *index = onnx_in(o, 0), *values = onnx_in(o, 2);
    int rank = index->type->rank;
    Dim depth = onnx_one_dim(o, 1), dims[MAX_RANK], one = dim_int(o->cx, 1);
    int64_t given = onnx_int(o, "axis", -1);
    int axis = onnx_axis(o, given, rank + 1), to[MAX_RANK];
    if (rank + 1 > MAX_RANK) {
        onnx_refuse(o, "its result has more than %d axes", MAX_RANK);
    }
    for (int ax = 0; ax < rank; ax++) {
        to[ax] = ax + (ax >= axis);
        dims[to[ax]] = index->type->dims[ax];
    }
    dims[axis] = depth;
    const Type *t = type_of(o->cx, DT_i64, rank + 1, dims);
    Value *at = build_expand(o->b, counted_from_start(o, index, depth), rank + 1, dims, to);
    Value *is = build_map(o->b, OP_eq, at, build_iota(o->b, t, axis), NULL), *two[2];
    for (int k = 0; k < 2; k++) {
        two[k] = build_slice(o->b, values, 0, dim_int(o->cx, k), one, one);
        two[k] = build_broadcast(o->b, build_reshape(o->b, two[k], 0, NULL), rank + 1, dims);
    }
    o->out[0] = build_map(o->b, OP_where, is, two[1], two[0]);
}

/* The last of equals is the first of those in the other direction. */
static Value *
extreme_at(Onnx *o, Value *x, int axis, Op op, bool last)
{
    Dim size = x->type->dims[axis];
    Value *at = build_red(o->b, op, last ? build_flip(o->b, x, 1, &axis) : x, 1, &axis);
    if (last) {
        Dim most = dim_sub(o->cx, size, dim_int(o->cx, 1));
        Value *n = build_broadcast(o->b, build_size(o->b, most), at->type->rank, at->type->dims);
        at = build_map(o->b, OP_sub, n, at, NULL);
    }
    return at;
}

void
onnx_arg_extreme(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    int axis = onnx_axis(o, onnx_int(o, "axis", 0), x->type->rank);
    Value *at = extreme_at(o, x, axis, o->row->way, onnx_int(o, "select_last_index", 0) != 0);
    if (onnx_int(o, "keepdims", 1)) {
        const Type *t = onnx_resized(o, x->type, axis, dim_int(o->cx, 1), DT_i64);
        at = build_reshape(o->b, at, t->rank, t->dims);
    }
    o->out[0] = at;
}

void
onnx_hardmax(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    const Type *t = x->type;
    bool flat = o->node->version < 13;
    int axis = onnx_axis(o, onnx_int(o, "axis", flat ? 1 : -1), t->rank), to[MAX_RANK], n = 0;
    if (flat) {
        x = onnx_flat(o, x, axis);
        axis = 1;
    }
    for (int ax = 0; ax < x->type->rank; ax++) {
        if (ax != axis) {
            to[n++] = ax;
        }
    }
    Value *at = build_expand(o->b, extreme_at(o, x, axis, OP_argmax, false), x->type->rank,
                             x->type->dims, to);
    Value *is = build_map(o->b, OP_eq, at, build_iota(o->b, at->type, axis), NULL);
    o->out[0] = build_reshape(o->b, build_cast(o->b, is, t->dtype), t->rank, t->dims);
}

Value *
onnx_reversed(Onnx *o, Value *x, Value *lengths, int time, int batch)
{
    const Type *t = x->type, *ti = type_with(o->cx, t, DT_i64);
    Value *at = build_iota(o->b, ti, time);
    Value *n = build_expand(o->b, whole(o, lengths), t->rank, t->dims, &batch);
    Value *back = build_map(o->b, OP_sub, build_map(o->b, OP_sub, n, build_int(o->b, 1), NULL), at,
                            NULL);
    at = build_map(o->b, OP_where, build_map(o->b, OP_lt, at, n, NULL), back, at);
    return onnx_aten(o, "aten.gather.default", t, ARGS(arg_v(x), arg_i(time), arg_v(at)));
}

void
onnx_reverse_sequence(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    int time = onnx_axis(o, onnx_int(o, "time_axis", 0), x->type->rank);
    int batch = onnx_axis(o, onnx_int(o, "batch_axis", 1), x->type->rank);
    o->out[0] = onnx_reversed(o, x, onnx_in(o, 1), time, batch);
}

/* Rows of a cache, from an index of each batch on. */
void
onnx_tensor_scatter(Onnx *o)
{
    Value *x = onnx_in(o, 0), *v = onnx_in(o, 1), *first = onnx_given(o, 2);
    const Type *t = v->type, *ti = type_with(o->cx, t, DT_i64);
    int axis = onnx_axis(o, onnx_int(o, "axis", -2), x->type->rank);
    Value *at = build_iota(o->b, ti, axis);
    if (first) {
        at = build_map(o->b, OP_add, at,
                       build_expand(o->b, whole(o, first), t->rank, t->dims, (const int[]){0}),
                       NULL);
    }
    if (onnx_is_text(o, "mode", "circular", "linear")) {
        Value *n = build_broadcast(o->b, build_size(o->b, x->type->dims[axis]), t->rank, t->dims);
        at = build_map(o->b, OP_remainder, at, n, NULL);
    }
    o->out[0] = onnx_aten(o, "aten.scatter.src", x->type,
                          ARGS(arg_v(x), arg_i(axis), arg_v(at), arg_v(v)));
}
