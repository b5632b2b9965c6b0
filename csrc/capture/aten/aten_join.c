/* Rearrangements that copy: rolled, repeated, joined, replaced in part, padded. */
#include "aten.h"

#include <string.h>

Value *
aten_flip(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    int count, axes[MAX_RANK];
    const Arg *dims = arg_at(n, 1);
    if (dims->kind != ARG_LIST || !arg_axes(dims, x->type->rank, &count, axes)) {
        return NULL;
    }
    return dims->n && x->type->rank ? build_flip(n->b, x, count, axes) : x;
}

/* Rolls an axis by a constant 0 < by < size. */
static Value *
rolled(Aten *n, Value *x, int axis, Dim by)
{
    Dim size = x->type->dims[axis], head = dim_sub(n->cx, size, by);
    Value *parts[2] = {part(n, x, axis, head, one(n), by), part(n, x, axis, zero(n), one(n), head)};
    return build_cat(n->b, 2, parts, axis);
}

/* roll(x, shifts, dims) */
Value *
aten_roll(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    const Arg *shifts = arg_at(n, 1), *dims = arg_at(n, 2);
    if (shifts->kind != ARG_LIST || dims->kind != ARG_LIST || dims->n != shifts->n ||
        !x->type->rank) {
        return NULL;
    }
    for (int k = 0; k < dims->n; k++) {
        int axis;
        int64_t size, by;
        if (!arg_axis(&dims->items[k], x->type->rank, &axis) || shifts->items[k].kind != ARG_INT) {
            return NULL;
        }
        by = shifts->items[k].i;
        Dim shift = dim_int(n->cx, by);
        if (dim_is_int(n->cx, x->type->dims[axis], &size)) {
            by = size ? (by % size + size) % size : 0;
            shift = dim_int(n->cx, by);
        } else {
            shift = dim_mod(n->cx, shift, x->type->dims[axis]);
        }
        x = dim_is(n->cx, shift, 0) ? x : rolled(n, x, axis, shift);
    }
    return x;
}

/* repeat(x, repeats): each axis becomes (repeats, size), then they merge */
Value *
aten_repeat(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    const Arg *repeats = arg_at(n, 1);
    int rank = n->type->rank, lead = rank - x->type->rank, pair[MAX_RANK];
    Dim dims[MAX_RANK];
    if (repeats->kind != ARG_LIST || repeats->n != rank || 2 * rank > MAX_RANK) {
        return NULL;
    }
    for (int ax = 0; ax < rank; ax++) {
        if (!arg_dim(n, &repeats->items[ax], &dims[2 * ax])) {
            return NULL;
        }
        dims[2 * ax + 1] = ax < lead ? one(n) : x->type->dims[ax - lead];
        if (ax >= lead) {
            pair[ax - lead] = 2 * ax + 1;
        }
    }
    x = build_expand(n->b, x, 2 * rank, dims, pair);
    return build_reshape(n->b, x, rank, n->type->dims);
}

/* ---- joins ---- */

/* An empty vector is nothing to cat, whatever the others' rank. */
static bool
is_nothing(const Aten *n, const Arg *a)
{
    return n->type->rank != 1 && a->v->type->rank == 1 && dim_is(n->cx, a->v->type->dims[0], 0);
}

static Value *
joined(Aten *n, const Arg *list, int axis, bool stack)
{
    Value **parts = cx_alloc(n->cx, (size_t)(list->n + 1) * sizeof *parts);
    int count = 0;
    for (int k = 0; k < list->n; k++) {
        if (list->items[k].kind != ARG_TENSOR) {
            return NULL;
        }
        if (!stack && is_nothing(n, &list->items[k])) {
            continue;
        }
        Value *v = build_cast(n->b, list->items[k].v, n->type->dtype);
        if (stack) {
            Dim dims[MAX_RANK];
            for (int ax = 0; ax < n->type->rank; ax++) {
                dims[ax] = ax == axis ? one(n) : n->type->dims[ax];
            }
            v = build_reshape(n->b, v, n->type->rank, dims);
        }
        parts[count++] = v;
    }
    return count == 0 ? NULL : count == 1 ? parts[0] : build_cat(n->b, count, parts, axis);
}

static Value *
join(Aten *n, bool stack)
{
    const Arg *list = arg_at(n, 0), *dim = arg_at(n, 1);
    int axis;
    if (list->kind != ARG_LIST || !n->type->rank || !arg_axis(dim, n->type->rank, &axis)) {
        return NULL;
    }
    return joined(n, list, axis, stack);
}

Value *
aten_cat(Aten *n)
{
    return join(n, false);
}

Value *
aten_stack(Aten *n)
{
    return join(n, true);
}

/* x with start .. start+length of the axis replaced by src. */
static Value *
replaced(Aten *n, Value *x, Value *src, int axis, Dim start)
{
    Dim size = x->type->dims[axis], length = src->type->dims[axis];
    Dim end = dim_add(n->cx, start, length), rest = dim_sub(n->cx, size, end);
    Value *parts[3];
    int count = 0;
    if (!dim_le(n->cx, zero(n), rest)) {
        return NULL;
    }
    if (!dim_is(n->cx, start, 0)) {
        parts[count++] = part(n, x, axis, zero(n), one(n), start);
    }
    parts[count++] = build_cast(n->b, src, x->type->dtype);
    if (!dim_is(n->cx, rest, 0)) {
        parts[count++] = part(n, x, axis, end, one(n), rest);
    }
    return count == 1 ? parts[0] : build_cat(n->b, count, parts, axis);
}

/* x with src as every step-th element from `from` on: made in periods, as a cat of `step` parts. */
static Value *
replaced_interleaved(Aten *n, Value *x, Value *src, int axis, int64_t from, int64_t step)
{
    Value **parts = cx_alloc(n->cx, (size_t)step * sizeof *parts);
    Dim dims[MAX_RANK + 1], each = dim_int(n->cx, step);
    int rank = x->type->rank;
    for (int ax = 0; ax <= rank; ax++) {
        dims[ax] = ax <= axis       ? src->type->dims[ax]
                   : ax == axis + 1 ? one(n)
                                    : x->type->dims[ax - 1];
    }
    for (int64_t k = 0; k < step; k++) {
        Value *v = k == from ? build_cast(n->b, src, x->type->dtype)
                             : part(n, x, axis, dim_int(n->cx, k), each, dims[axis]);
        parts[k] = build_reshape(n->b, v, rank + 1, dims);
    }
    Value *made = build_cat(n->b, (int)step, parts, axis + 1);
    return build_reshape(n->b, made, rank, x->type->dims);
}

/* x with src at start, start + step, .. along the axis: a selection between x and a gather, which
 * takes the nearest element where none is needed. */
static Value *
replaced_in_steps(Aten *n, Value *x, Value *src, int axis, Dim start, int64_t step)
{
    Dim size = x->type->dims[axis], count = src->type->dims[axis];
    const Arg from = {.kind = ARG_DIM, .d = start},
              most = {.kind = ARG_DIM, .d = dim_sub(n->cx, count, one(n))};
    Dtype dtype = dim_range(n->cx, size).hi <= INT32_MAX && step <= INT32_MAX ? DT_i32 : DT_i64;
    const Type *t = type_of(n->cx, dtype, 1, &size);
    Value *away = map2(n, OP_sub, build_cast(n->b, position(n, t, 0), dtype), operand(n, &from, t));
    Value *by = build_int(n->b, step), *which = map2(n, OP_div_floor, away, by),
          *last = operand(n, &most, t);
    Value *at = map2(n, OP_maximum, map2(n, OP_minimum, which, last), build_int(n->b, 0));
    Value *here = map2(n, OP_eq, map2(n, OP_mul, at, by), away);
    Value *v = build_cast(n->b, src, x->type->dtype);
    v = build_gather(n->b, v, build_cast(n->b, at, DT_i64), axis, INDEX_FROM_START);
    return map3(n, OP_where, build_expand(n->b, here, x->type->rank, x->type->dims, &axis), v, x);
}

/* x with src at from, from + step, .. of all periods that begin at start; where the last may not be
 * whole, its element is written by itself. */
static Value *
replaced_periodically(Aten *n, Value *x, Value *src, int axis, Dim start, int64_t from,
                      int64_t step)
{
    Cx *cx = n->cx;
    Dim periods = src->type->dims[axis];
    Dim end = dim_add(cx, start, dim_mul(cx, periods, dim_int(cx, step)));
    bool whole = dim_le(cx, end, x->type->dims[axis]);
    Value *last = NULL;
    if (!whole) {
        periods = dim_sub(cx, periods, one(n));
        last = build_cast(n->b, part(n, src, axis, periods, one(n), one(n)), x->type->dtype);
        src = part(n, src, axis, zero(n), one(n), periods);
        start = dim_add(cx, start, dim_int(cx, from));
        from = 0;
    }
    Value *made = last;
    if (!dim_is(cx, periods, 0)) {
        Dim width = dim_mul(cx, periods, dim_int(cx, step));
        made = replaced_interleaved(n, part(n, x, axis, start, one(n), width), src, axis, from,
                                    step);
        made = last ? build_cat(n->b, 2, (Value *[]){made, last}, axis) : made;
    }
    return replaced(n, x, made, axis, start);
}

static Value *
replaced_by_steps(Aten *n, Value *x, Value *src, int axis, Dim start, int64_t step)
{
    enum { MOST_PARTS = 4 };
    Cx *cx = n->cx;
    int64_t from;
    if (!dim_lt(cx, zero(n), src->type->dims[axis])) {
        return NULL;
    }
    from = dim_is_int(cx, start, &from) ? from % step : 0;
    Dim begin = dim_sub(cx, start, dim_int(cx, from)), each = dim_int(cx, step),
        size = x->type->dims[axis];
    Dim end = dim_add(cx, begin, dim_mul(cx, src->type->dims[axis], each));
    Dim last = dim_add(cx, dim_sub(cx, end, each), dim_int(cx, from));
    bool real = dtype_info[x->type->dtype].class <= CLASS_FLOAT, along = axis == x->type->rank - 1;
    bool fits = dim_lt(cx, last, size) && step <= MOST_PARTS && x->type->rank < MAX_RANK;
    if (fits && (along || !real)) {
        return replaced_periodically(n, x, src, axis, begin, from, step);
    }
    return real ? replaced_in_steps(n, x, src, axis, start, step) : NULL;
}

/* slice_scatter(x, src, dim, start, end, step) */
Value *
aten_slice_scatter(Aten *n)
{
    Value *x = arg_tensor(n, 0), *src = arg_tensor(n, 1);
    const Arg *step = arg_at(n, 5);
    int axis;
    Dim start, dims[MAX_RANK];
    if (!x->type->rank || src->type->rank != x->type->rank || step->kind != ARG_INT ||
        step->i < 1 || !arg_axis(arg_at(n, 2), x->type->rank, &axis)) {
        return NULL;
    }
    Dim size = x->type->dims[axis];
    memcpy(dims, x->type->dims, (size_t)x->type->rank * sizeof *dims);
    if (!slice_start(n, 3, size, &start) ||
        !slice_extent(n, 4, size, start, step->i, &dims[axis]) || !may_have_sizes(n, src, dims)) {
        return NULL;
    }
    if (!has_sizes(n, src, dims)) {
        Dim wanted = dims[axis];
        dims[axis] = src->type->dims[axis];
        if (!has_sizes(n, src, dims)) {
            return NULL;
        }
        raise_unless_size(n, &x, &src, axis, wanted);
    }
    return step->i == 1 ? replaced(n, x, src, axis, start)
                        : replaced_by_steps(n, x, src, axis, start, step->i);
}

/* select_scatter(x, src, dim, index) */
Value *
aten_select_scatter(Aten *n)
{
    Value *x = arg_tensor(n, 0), *src = arg_tensor(n, 1);
    int axis;
    Dim index, dims[MAX_RANK];
    if (!x->type->rank || src->type->rank != x->type->rank - 1 ||
        !arg_axis(arg_at(n, 2), x->type->rank, &axis) || !arg_dim(n, arg_at(n, 3), &index) ||
        !from_start(n, index, x->type->dims[axis], &index)) {
        return NULL;
    }
    for (int ax = 0; ax < x->type->rank; ax++) {
        dims[ax] = ax == axis ? one(n) : x->type->dims[ax];
    }
    return replaced(n, x, build_reshape(n->b, src, x->type->rank, dims), axis, index);
}

/* The number of elements that a pad's width cuts off: -width if it is negative, else 0. False: its
 * sign is not known. */
static bool
cut_off(Aten *n, Dim width, Dim *cut)
{
    bool grows = dim_le(n->cx, zero(n), width);
    *cut = grows ? zero(n) : dim_sub(n->cx, zero(n), width);
    return grows || dim_lt(n->cx, width, zero(n));
}

/* constant_pad_nd(x, pad, value): pad holds (before, after) from the last axis on; negative ones
 * cut. */
Value *
aten_pad(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    const Arg *pad = arg_at(n, 1), *value = arg_at(n, 2);
    int rank = x->type->rank;
    Dim lo[MAX_RANK], shape[MAX_RANK];
    if (pad->kind != ARG_LIST || pad->n % 2 || pad->n > 2 * rank) {
        return NULL;
    }
    for (int ax = 0; ax < rank; ax++) {
        int at = 2 * (rank - 1 - ax);
        Dim before = zero(n), after = zero(n), size = x->type->dims[ax];
        if (at < pad->n &&
            !(arg_dim(n, &pad->items[at], &before) && arg_dim(n, &pad->items[at + 1], &after))) {
            return NULL;
        }
        Dim cut[2], keep;
        if (!cut_off(n, before, &cut[0]) || !cut_off(n, after, &cut[1])) {
            return NULL;
        }
        keep = dim_sub(n->cx, size, dim_add(n->cx, cut[0], cut[1]));
        if (!dim_le(n->cx, zero(n), keep)) {
            return NULL;
        }
        x = part(n, x, ax, cut[0], one(n), keep);
        lo[ax] = dim_add(n->cx, before, cut[0]);
        shape[ax] = dim_add(n->cx, lo[ax], dim_add(n->cx, keep, dim_add(n->cx, after, cut[1])));
    }
    Arg none = {.kind = ARG_INT};
    const Type *scalar = type_scalar(n->cx, n->type->dtype);
    Value *fill = operand(n, value->kind == ARG_NONE ? &none : value, scalar);
    if (!fill || !value_is_const(fill)) {
        return NULL;
    }
    const Type *t = type_of(n->cx, n->type->dtype, rank, shape);
    return t == x->type ? x : build_pad(n->b, x, fill, t, lo);
}

/* glu(x, dim): one half times the sigmoid of the other */
Value *
aten_glu(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    int axis;
    if (!x->type->rank || dtype_info[n->type->dtype].class != CLASS_FLOAT ||
        !arg_axis(arg_at(n, 1), x->type->rank, &axis)) {
        return NULL;
    }
    x = build_cast(n->b, x, wide(n->type->dtype));
    Dim half = n->type->dims[axis];
    Value *a = part(n, x, axis, zero(n), one(n), half);
    Value *b = part(n, x, axis, half, one(n), half);
    return map2(n, OP_mul, a, map1(n, OP_sigmoid, b));
}
