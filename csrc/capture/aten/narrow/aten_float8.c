/* Casts of 8-bit floats, as arithmetic on their bits that gives torch's.
 *
 * A float8 becomes an f32 by its bits, moved to where f32 has them, times a power of two: that is
 * exact and puts subnormals right.  An f32 becomes a float8 by an addition to its bits that rounds
 * half to even; of a number below the smallest normal one, by an addition of floats whose unit in
 * the last place is the smallest subnormal one. */
#include "capture/aten/aten.h"
#include "capture/aten/aten_formula.h"

#include <math.h>

bool float8_overflows;

typedef struct {
    Dtype dtype;
    int mantissa, bias;                /* bits of the mantissa; of the exponent */
    int32_t over, over_bits;           /* of f32: from here on a number becomes that; NaN: nan */
    int32_t nan;                       /* its bits in the format */
    bool zero_is_unsigned;             /* fnuz: -0 is NaN */
} Format;

static const Format formats[] = {
    {DT_f8_e5m2, 2, 15, 143 << 23, 0x7c, 0x7f, false},
    {DT_f8_e4m3, 3, 7, 0x43e80000, 0x7e, 0x7f, false},
    {DT_f8_e5m2u, 2, 16, 143 << 23, 0x80, 0x80, true},
    {DT_f8_e4m3u, 3, 8, 135 << 23, 0x80, 0x80, true},
};

static const Format *
format_of(Dtype dtype)
{
    for (size_t k = 0; k < sizeof formats / sizeof *formats; k++) {
        if (formats[k].dtype == dtype) {
            return &formats[k];
        }
    }
    return NULL; /* e8m0: powers of two */
}

#define INT(i) build_int(n->b, i)
#define OR(a, b) map2(n, OP_bit_or, a, b)
#define SHL(a, by) map2(n, OP_shl, a, INT(by))
#define SHR(a, by) map2(n, OP_shr, a, INT(by))
#define FLOAT(bits) build_bitcast(n->b, bits, DT_f32)
#define BITS(x) build_bitcast(n->b, x, DT_i32)

/* The exponent alone: 0 is 2^-127, a subnormal number, 255 NaN. */
static Value *
power_decoded(Aten *n, Value *u)
{
    Value *bits = WHERE(EQ(u, INT(0)), INT(0x400000), SHL(u, 23));
    return FLOAT(WHERE(EQ(u, INT(255)), INT(0x7f800001), bits));
}

static Value *
float8_decoded(Aten *n, Value *v)
{
    const Format *f = format_of(v->type->dtype);
    Value *u = build_cast(n->b, build_bitcast(n->b, v, DT_u8), DT_i32);
    if (!f) {
        return power_decoded(n, u);
    }
    if (f->dtype == DT_f8_e5m2) {       /* the high byte of an f16 */
        Value *half = build_cast(n->b, SHL(u, 8), DT_i16);
        return build_cast(n->b, build_bitcast(n->b, half, DT_f16), DT_f32);
    }
    Value *size = AND(u, INT(0x7f)), *sign = SHL(AND(u, INT(0x80)), 24);
    Value *x = MUL(FLOAT(SHL(size, 23 - f->mantissa)), NUM(ldexp(1, 127 - f->bias)));
    Value *of = f->zero_is_unsigned ? u : size, *nan = INT(0x7fc00000);
    nan = f->zero_is_unsigned ? nan : OR(sign, nan);
    return FLOAT(WHERE(EQ(of, INT(f->nan)), nan, OR(BITS(x), sign)));
}

/* The nearest power of two, in the middle the upper one if the lower is normal; infinity and NaN
 * are NaN. */
static Value *
power_encoded(Aten *n, Value *bits)
{
    Value *exponent = AND(SHR(bits, 23), INT(255)), *rest = AND(bits, INT(0x7fffff));
    Value *normal = build_cast(n->b, GT(exponent, INT(0)), DT_i32);
    Value *up = build_cast(n->b, GT(ADD(rest, normal), INT(0x400000)), DT_i32);
    return WHERE(EQ(exponent, INT(255)), INT(255), ADD(exponent, up));
}

static Value *
encoded(Aten *n, Value *bits, const Format *f)
{
    int dropped = 23 - f->mantissa, least = 128 - f->bias;
    int32_t moved = (int32_t)((uint32_t)(f->bias - 127) << 23) + (1 << (dropped - 1)) - 1;
    int unit = least +
               dropped; /* the exponent of the f32 whose last place is the smallest number */
    Value *size = AND(bits, INT(0x7fffffff)), *sign = AND(SHR(bits, 24), INT(0x80));
    Value *odd = AND(SHR(size, dropped), INT(1));
    Value *normal = SHR(ADD(ADD(size, INT(moved)), odd), dropped);
    Value *tiny = SUB(BITS(ADD(FLOAT(size), NUM(ldexp(1, unit - 127)))), INT((int64_t)unit << 23));
    Value *code = WHERE(LT(size, INT((int64_t)least << 23)), tiny, normal);
    Value *none = build_cast(n->b, GT(size, INT(0x7f800000)), DT_i32);
    Value *over = ADD(MUL(none, INT(f->nan - f->over_bits)), INT(f->over_bits));
    code = WHERE(GE(size, INT(f->over)), over, code);
    if (f->dtype == DT_f8_e4m3 && float8_overflows) { /* 464 itself rounds to 448 */
        code = WHERE(GT(size, INT(f->over)), INT(f->nan), code);
    }
    return f->zero_is_unsigned ? WHERE(EQ(code, INT(0)), INT(0), OR(code, sign)) : OR(code, sign);
}

static Value *
float8_encoded(Aten *n, Value *v, Dtype dtype)
{
    const Format *f = format_of(dtype);
    Value *bits = BITS(build_cast(n->b, v, DT_f32));
    Value *code = f ? encoded(n, bits, f) : power_encoded(n, bits);
    return build_bitcast(n->b, build_cast(n->b, code, DT_u8), dtype);
}

Value *
in_dtype(Aten *n, Value *v, Dtype to)
{
    if (v->type && v->type->dtype == to) {
        return v;
    }
    if (v->type && dtype_is_float8(v->type->dtype)) {
        v = float8_decoded(n, v);
    }
    return v->type && dtype_is_float8(to) ? float8_encoded(n, v, to) : build_cast(n->b, v, to);
}
