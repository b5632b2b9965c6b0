/* Element types that the language computes in others: integers without a sign of 16 to 64 bits,
 * integers of 2 and 4 bits, floats of 8 bits.
 *
 * Arrays of them are given as the language's numbers with the same bits, one element to a byte at
 * least.  In a program they are converted at its ends; between, the result of each node is cut to
 * the bits of its kind.  64 bits without a sign are held as i64, and computed by formulas where the
 * sign matters. */
#include "onnx.h"

#include <math.h>
#include <string.h>

enum { U16 = 4, U32 = 12, U64 = 13, U4 = 21, I4 = 22, U2 = 25, I2 = 26 };

static const struct {
    int kind;
    Dtype array, inside; /* inside: the same bits */
    int bits; /* of an integer that is cut to them, 0: it is not */
    bool is_signed;
} rows[] = {
    {U16, DT_i16, DT_i32, 16, false},   {U32, DT_i32, DT_i64, 32, false},
    {U64, DT_i64, DT_i64, 0, false},    {U4, DT_u8, DT_u8, 4, false},
    {I4, DT_i8, DT_i8, 4, true},        {U2, DT_u8, DT_u8, 2, false},
    {I2, DT_i8, DT_i8, 2, true},        {17, DT_u8, DT_f8_e4m3, 0, false},
    {18, DT_u8, DT_f8_e4m3u, 0, false}, {19, DT_u8, DT_f8_e5m2, 0, false},
    {20, DT_u8, DT_f8_e5m2u, 0, false}, {24, DT_u8, DT_f8_e8m0, 0, false},
};
enum { COUNT = sizeof rows / sizeof *rows };

static int
row_of(int kind)
{
    int k = COUNT - 1;
    while (k >= 0 && rows[k].kind != kind) {
        k--;
    }
    return k;
}

Dtype
onnx_array_dtype(int kind)
{
    int k = row_of(kind);
    return k < 0 ? DTYPE_COUNT : rows[k].array;
}

static Value *
cut(Onnx *o, Value *v, int k)
{
    if (!rows[k].is_signed) {
        return onnx_map(o, OP_bit_and, v, build_int(o->b, ((int64_t)1 << rows[k].bits) - 1));
    }
    Value *up = build_int(o->b, 8 - rows[k].bits);
    return onnx_map(o, OP_shr, onnx_map(o, OP_shl, v, up), up);
}

Value *
onnx_wrapped(Onnx *o, Value *v, int kind)
{
    int k = row_of(kind);
    bool is = k >= 0 && rows[k].bits && v->type && v->type->dtype == rows[k].inside;
    return is && v->def ? cut(o, v, k) : v; /* a parameter has been converted */
}

Value *
onnx_from_array(Onnx *o, Value *v, int kind)
{
    int k = row_of(kind);
    if (k < 0) {
        return v;
    }
    if (dtype_is_float8(rows[k].inside)) {
        return build_bitcast(o->b, v, rows[k].inside);
    }
    v = build_cast(o->b, v, rows[k].inside);
    return rows[k].bits ? cut(o, v, k) : v;
}

Value *
onnx_to_array(Onnx *o, Value *v, int kind)
{
    int k = row_of(kind);
    if (k < 0 || v->type->dtype != rows[k].inside) {
        return v;
    }
    return dtype_is_float8(rows[k].inside) ? build_bitcast(o->b, v, rows[k].array)
                                           : build_cast(o->b, v, rows[k].array);
}

int
onnx_kind(const Onnx *o, int k)
{
    return k < o->node->ninputs && o->node->inputs[k] >= 0 ? o->kinds[o->node->inputs[k]] : 0;
}

bool
onnx_bounds(int kind, double *low, double *high)
{
    static const struct {
        int kind;
        double low, high;
    } all[] = {{2, 0, 255}, {3, -128, 127}, {U16, 0, 65535}, {5, -32768, 32767},
               {U4, 0, 15}, {I4, -8, 7},    {U2, 0, 3},      {I2, -2, 1}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        if (all[k].kind == kind) {
            *low = all[k].low;
            *high = all[k].high;
            return true;
        }
    }
    return false;
}

/* ---- 64 bits without a sign ---- */

bool
onnx_is_u64(const Onnx *o, int k)
{
    return onnx_kind(o, k) == U64;
}

Value *
onnx_ordered(Onnx *o, Value *v)
{
    return onnx_map(o, OP_bit_xor, v, build_int(o->b, INT64_MIN));
}

static Value *
half(Onnx *o, Value *v)
{
    v = onnx_map(o, OP_shr, v, build_int(o->b, 1));
    return onnx_map(o, OP_bit_and, v, build_int(o->b, INT64_MAX));
}

/* By twice the quotient of half: it is right, or one less.  Of 0, as by 1. */
Value *
onnx_u64_quotient(Onnx *o, Value *a, Value *b, bool rest)
{
    Value *zero = build_int(o->b, 0),
          *one = build_const(o->b, b->type, (Literal){.is_int = true, .i = 1});
    b = onnx_map3(o, OP_where, onnx_map(o, OP_eq, b, zero), one, b);
    Value *large = onnx_map(o, OP_lt, b, zero); /* the quotient is 0 or 1 */
    Value *safe = onnx_map3(o, OP_where, large, one, b);
    Value *q = onnx_map(o, OP_shl, onnx_map(o, OP_div_trunc, half(o, a), safe), build_int(o->b, 1));
    q = onnx_map3(o, OP_where, large, build_const(o->b, q->type, (Literal){.is_int = true}), q);
    Value *r = onnx_map(o, OP_sub, a, onnx_map(o, OP_mul, q, b));
    Value *more = onnx_map(o, OP_ge, onnx_ordered(o, r), onnx_ordered(o, b));
    if (rest) {
        return onnx_map3(o, OP_where, more, onnx_map(o, OP_sub, r, b), r);
    }
    return onnx_map(o, OP_add, q, build_cast(o->b, more, DT_i64));
}

/* Half of a large one, with its last bit kept for rounding, is in i64's range. */
Value *
onnx_u64_real(Onnx *o, Value *v, Dtype to)
{
    Dtype at = to == DT_f64 ? DT_f64 : DT_f32;
    Value *last = onnx_map(o, OP_bit_and, v, build_int(o->b, 1));
    Value *part = build_cast(o->b, onnx_map(o, OP_bit_or, half(o, v), last), at);
    Value *is = onnx_map(o, OP_lt, v, build_int(o->b, 0));
    v = onnx_map3(o, OP_where, is, onnx_times(o, part, 2), build_cast(o->b, v, at));
    return build_cast(o->b, v, to);
}

/* ---- floats of 8 bits ---- */

Value *
onnx_converted(Onnx *o, Value *v, Dtype to)
{
    const Type *t = type_with(o->cx, v->type, to);
    Arg as = {.kind = ARG_DTYPE, .dtype = to};
    if (!dtype_is_float8(to) && !dtype_is_float8(v->type->dtype)) {
        return onnx_aten(o, "prims.convert_element_type.default", t, ARGS(arg_v(v), as));
    }
    Aten n = {
        .b = o->b, .cx = o->cx, .number = DT_f32, .types = &t, .type = t, .nres = 1, .res = &v};
    v = in_dtype(&n, v, to);
    return v;
}

/* Powers of 2, by the bits of f32: the exponent, one more where a part of it is left. */
static Value *
power_code(Onnx *o, Value *v, bool up)
{
    Value *x = build_cast(o->b, v, DT_f32), *bits = build_bitcast(o->b, x, DT_i32);
    bits = onnx_map(o, OP_bit_and, bits, build_int(o->b, INT32_MAX));
    bits = up ? onnx_map(o, OP_add, bits, build_int(o->b, (1 << 23) - 1)) : bits;
    bits = onnx_map(o, OP_shr, bits, build_int(o->b, 23));
    bits = onnx_map(o, OP_minimum, bits, build_int(o->b, 254));
    Value *none = build_const(o->b, bits->type, (Literal){.is_int = true, .i = 255});
    bits = onnx_map3(o, OP_where, build_map(o->b, OP_isnan, x, NULL, NULL), none, bits);
    return build_bitcast(o->b, build_cast(o->b, bits, DT_u8), DT_f8_e8m0);
}

/* Beyond its range, e4m3 has no number. */
static Value *
unsaturated(Onnx *o, Value *v, Dtype to)
{
    if (to != DT_f8_e4m3) {
        return v;
    }
    Value *is = onnx_map(o, OP_gt, build_map(o->b, OP_abs, v, NULL, NULL), onnx_number(o, 464));
    return onnx_map3(o, OP_where, is, build_const(o->b, v->type, (Literal){.f = NAN}), v);
}

Value *
onnx_to_float8(Onnx *o, Value *v, Dtype to)
{
    const char *round = onnx_text(o, "round_mode", "up");
    if (to == DT_f8_e8m0 && strcmp(round, "nearest") != 0) {
        return power_code(o, v, strcmp(round, "up") == 0);
    }
    if (!onnx_int(o, "saturate", 1)) {
        return onnx_converted(o, unsaturated(o, v, to), to);
    }
    double most = to == DT_f8_e4m3    ? 448
                  : to == DT_f8_e4m3u ? 240
                  : to == DT_f8_e8m0  ? 0x1p127
                                      : 57344;
    v = onnx_map(o, OP_minimum, v, onnx_number(o, most));
    v = onnx_map(o, OP_maximum, v, onnx_number(o, to == DT_f8_e8m0 ? 0 : -most));
    return onnx_converted(o, v, to);
}
