/* One MAP op on one element: the expressions of ops.def compiled for every compute dtype. */
#include "eval.h"

#include <math.h>
#include <string.h>

#include "ir/math/prelude.h"

/* Rounded once, with instructions of the processor or without. */
#define dlc_fma_f32 fmaf
#define dlc_fma_f64 fma

#define ROW(row) row
#define NO_ROW(row)

#define T uint8_t
#define TAG _bool
#define IF_BOOL ROW
#define IF_INT NO_ROW
#define IF_FLOAT NO_ROW
#include "eval_map.inc"

#define T int32_t
#define TAG _i32
#define IF_BOOL NO_ROW
#define IF_INT ROW
#define IF_FLOAT NO_ROW
#include "eval_map.inc"

#define T int64_t
#define TAG _i64
#define IF_BOOL NO_ROW
#define IF_INT ROW
#define IF_FLOAT NO_ROW
#include "eval_map.inc"

#define T float
#define TAG _f32
#define IF_BOOL NO_ROW
#define IF_INT NO_ROW
#define IF_FLOAT ROW
#include "eval_map.inc"

#define T double
#define TAG _f64
#define IF_BOOL NO_ROW
#define IF_INT NO_ROW
#define IF_FLOAT ROW
#include "eval_map.inc"

/* ---- storage to compute dtype and back ---- */

Elem
elem_load(Dtype dtype, const void *p)
{
    Elem s = {0};
    uint16_t u;
    switch (dtype) {
    case DT_bool:
        s.b = *(const uint8_t *)p != 0;
        break;
    case DT_u8:
        s.i = *(const uint8_t *)p;
        break;
    case DT_i8:
        s.i = *(const int8_t *)p;
        break;
    case DT_i16:
        memcpy(&u, p, sizeof u);
        s.i = (int16_t)u;
        break;
    case DT_f16:
        memcpy(&u, p, sizeof u);
        s.f = dlc_load_f16(u);
        break;
    case DT_bf16:
        memcpy(&u, p, sizeof u);
        s.f = dlc_load_bf16(u);
        break;
    default:
        memcpy(&s, p, (size_t)dtype_info[dtype].bytes);
        break;
    }
    return s;
}

void
elem_store(Dtype dtype, Elem s, void *p)
{
    uint16_t u;
    switch (dtype) {
    case DT_u8:
    case DT_i8:
        *(uint8_t *)p = (uint8_t)s.i;
        break;
    case DT_i16:
        u = (uint16_t)s.i;
        memcpy(p, &u, sizeof u);
        break;
    case DT_f16:
        u = dlc_store_f16(s.f);
        memcpy(p, &u, sizeof u);
        break;
    case DT_bf16:
        u = dlc_store_bf16(s.f);
        memcpy(p, &u, sizeof u);
        break;
    default:
        memcpy(p, &s, (size_t)dtype_info[dtype].bytes);
        break;
    }
}

/* ---- casts between compute dtypes ---- */

Elem
elem_cast(Dtype from, Dtype to, Elem s)
{
    to = dtype_info[to].compute;
    switch (dtype_info[from].compute) {
    case DT_bool:
        return cast_bool(to, s.b);
    case DT_i32:
        return cast_i32(to, s.i);
    case DT_i64:
        return cast_i64(to, s.l);
    case DT_f32:
        return cast_f32(to, s.f);
    default:
        return cast_f64(to, s.d);
    }
}

Elem
elem_literal(Dtype dtype, Literal literal)
{
    return literal.is_int ? elem_cast(DT_i64, dtype, (Elem){.l = literal.i})
                          : elem_cast(DT_f64, dtype, (Elem){.d = literal.f});
}

/* ---- one element ---- */

static bool
is_truth(Op op)
{
    return op_info[op].rule == RULE_CMP || op_info[op].rule == RULE_PRED;
}

static Elem
truth_of(Op op, Dtype compute, Elem x, Elem y)
{
    switch (compute) {
    case DT_bool:
        return (Elem){.b = truth_bool(op, x.b, y.b)};
    case DT_i32:
        return (Elem){.b = truth_i32(op, x.i, y.i)};
    case DT_i64:
        return (Elem){.b = truth_i64(op, x.l, y.l)};
    case DT_f32:
        return (Elem){.b = truth_f32(op, x.f, y.f)};
    default:
        return (Elem){.b = truth_f64(op, x.d, y.d)};
    }
}

static Elem
value_of(Op op, Dtype compute, Elem x, Elem y, Elem z)
{
    switch (compute) {
    case DT_bool:
        return (Elem){.b = value_bool(op, x.b, y.b, z.b)};
    case DT_i32:
        return (Elem){.i = value_i32(op, x.i, y.i, z.i)};
    case DT_i64:
        return (Elem){.l = value_i64(op, x.l, y.l, z.l)};
    case DT_f32:
        return (Elem){.f = value_f32(op, x.f, y.f, z.f)};
    default:
        return (Elem){.d = value_f64(op, x.d, y.d, z.d)};
    }
}

/* Computes real, imag and complex; the two parts are adjacent in memory. */
static void
eval_parts(Op op, Dtype from, const void *a, const void *b, void *out)
{
    size_t whole = (size_t)dtype_info[from].bytes, half = whole / 2;
    if (op == OP_complex) {
        memcpy(out, a, whole);
        memcpy((char *)out + whole, b, whole);
    } else {
        memcpy(out, (const char *)a + (op == OP_imag ? half : 0), half);
    }
}

void
eval_map(Op op, Dtype from, Dtype to, const void *a, const void *b, const void *c, void *out)
{
    if (op == OP_where) {
        memcpy(out, *(const uint8_t *)a ? b : c, (size_t)dtype_info[to].bytes);
        return;
    }
    if (op == OP_bitcast) {
        memcpy(out, a, (size_t)dtype_info[to].bytes);
        return;
    }
    if (op_info[op].rule == RULE_PART || op_info[op].rule == RULE_PAIR) {
        eval_parts(op, from, a, b, out);
        return;
    }
    Dtype compute = dtype_info[from].compute;
    Elem x = elem_load(from, a), y = b ? elem_load(from, b) : x, z = c ? elem_load(from, c) : x;
    Elem r = op == OP_cast  ? elem_cast(from, to, x)
             : is_truth(op) ? truth_of(op, compute, x, y)
                            : value_of(op, compute, x, y, z);
    elem_store(to, r, out);
}
