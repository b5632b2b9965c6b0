/* Tensors made from nothing. */
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

/* Are they whole numbers, one as far from the next as any other?  Two are a choice in any case. */
static bool
are_evenly_spaced(int count, const Literal *numbers, int64_t *step)
{
    const int64_t most = 1 << 20; /* which every cast to floats rounds once */
    bool even = count > 2;
    for (int k = 0; k < count; k++) {
        even = even && numbers[k].is_int && numbers[k].i > -most && numbers[k].i < most;
    }
    *step = even ? numbers[1].i - numbers[0].i : 0;
    for (int k = 1; k < count; k++) {
        even = even && *step != 0 && numbers[k].i - numbers[k - 1].i == *step;
    }
    return even;
}

/* Evenly spaced numbers are computed from their positions; others are chosen, one by one. */
Value *
literals(Build *b, const Type *t, int count, const Literal *numbers)
{
    if (t->rank == 0) {
        return build_const(b, t, numbers[0]);
    }
    Cx *cx = build_cx(b);
    Dim all = dim_int(cx, count);
    const Type *line = type_of(cx, t->dtype, 1, &all);
    Value *v = build_const(b, line, numbers[0]),
          *at = build_iota(b, type_with(cx, line, DT_i64), 0);
    int64_t step;
    if (are_evenly_spaced(count, numbers, &step)) {
        at = build_map(b, OP_mul, at, build_int(b, step), NULL);
        v = build_cast(b, build_map(b, OP_add, at, build_int(b, numbers[0].i), NULL), t->dtype);
        count = 1;
    }
    for (int k = 1; k < count; k++) {
        Value *here = build_map(b, OP_eq, at, build_int(b, k), NULL);
        v = build_map(b, OP_where, here, build_const(b, line, numbers[k]), v);
    }
    return build_reshape(b, v, t->rank, t->dims);
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

/* Builds zeros, zeros_like and new_zeros. */
Value *
aten_zeros(Aten *n)
{
    return filled(n, &(Arg){.kind = ARG_INT, .i = 0});
}

/* empty and its like, whose contents are arbitrary; with use_deterministic_algorithms they are
 * filled as in eager: with NaN, or the greatest integer. */
Value *
aten_empty(Aten *n)
{
    static const int64_t greatest[DTYPE_COUNT] = {
        [DT_bool] = 1,        [DT_u8] = UINT8_MAX,  [DT_i8] = INT8_MAX,
        [DT_i16] = INT16_MAX, [DT_i32] = INT32_MAX, [DT_i64] = INT64_MAX,
    };
    int64_t most = greatest[n->type->dtype];
    if (!n->fills_empty) {
        return aten_zeros(n);
    }
    if (class_of(n->type->dtype) == CLASS_FLOAT) {
        return filled(n, &(Arg){.kind = ARG_FLOAT, .f = NAN});
    }
    return most ? filled(n, &(Arg){.kind = ARG_INT, .i = most}) : NULL;
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

Value *
aten_eye(Aten *n)
{
    const Type *t = type_with(n->cx, n->type, DT_i64);
    Value *on = map2(n, OP_eq, position(n, t, 0), position(n, t, 1));
    return build_cast(n->b, on, n->type->dtype);
}

/* tril(x, diagonal), triu(x, diagonal): keep where column - row <= or >= the diagonal. */
Value *
aten_triangle(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    int rank = x->type->rank;
    const Type *t = rank >= 2 ? type_with(n->cx, x->type, DT_i64) : NULL;
    const Arg *diagonal = arg_at(n, 1);
    Value *by = t ? operand(n, diagonal, t) : NULL;
    if (!by) {
        return NULL;
    }
    Value *keep = map2(n, n->op,
                       map2(n, OP_sub, position(n, t, rank - 1), position(n, t, rank - 2)), by);
    return map3(n, OP_where, keep, x, build_int(n->b, 0));
}
