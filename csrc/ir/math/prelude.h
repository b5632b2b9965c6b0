/* The math header: the scalar functions that the expressions of ir/ops.def call, one text for the
 * SIMD strips, for the generated units of the C compiler and for all else that evaluates ops.
 *
 * M(f) of an expression is dlc_<f>_<dtype> for the compute dtypes bool, i32, i64, f32 and f64.
 * Everything is plain C11 with a few GNU attributes and builtins that never become a library call,
 * and needs no other header, so that the text can head a unit that includes nothing.
 * It is seven files, in this order: prelude.h (bits, rounding, integers, conversions),
 * prelude_poly.h (polynomials), prelude_f64.h, prelude_f64_trig.h, prelude_f64_special.h,
 * prelude_f32.h, prelude_f32_special.h.  A generated unit has their texts pasted one after the
 * other, then those of codegen/emit: prelude_reduce.h (the order of reductions),
 * prelude_transpose.h (transposes), prelude_scan.h (scans of several rows).  It defines DLC_PASTED
 * first; any other unit includes this one.
 *
 * The functions are free of branches wherever a vectoriser is to take them, see Note [No branches].
 * The same formula serves vector bodies and tails: a result depends on the operands alone.
 * Requires -ffp-contract=off -fno-math-errno -fno-trapping-math -fwrapv for the promised bits.
 *
 * With DLC_PORTABLE, which codegen/emit/c/prelude_c.h defines with all that stands for GNU C there,
 * the preprocessor makes C11 of it: types are those of <stdint.h>, fused operations and rounding
 * functions of the C library, and DLC_FMA and DLC_HAS_FMA stay names that another text defines.  So
 * no #if here asks for DLC_HAS_FMA. */
#ifndef DLC_PRELUDE_H
#define DLC_PRELUDE_H

#ifndef DLC_PORTABLE
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
#endif

/* A complex number of f64; one of f32 is a uint64_t whose low half is the real part. */
#ifndef DLC_C128
#define DLC_C128
typedef struct { double re, im; } dlc_c128;
#endif

#define DLC_FN static inline __attribute__((always_inline, unused))
#define DLC_TABLE static const __attribute__((unused))

/* Fused where the strips are fused: those for AVX2 and AVX-512 require FMA, those for SSE2 have
 * none, and a processor with FMA but without AVX2 runs the latter. */
#if defined(DLC_PORTABLE)
/* names */
#elif defined(__aarch64__) || (defined(__FMA__) && defined(__AVX2__))
#define DLC_HAS_FMA 1
#define DLC_FMA(a, b, c) \
    _Generic(a, float: __builtin_fmaf, default: __builtin_fma)(a, b, c)
#else
#define DLC_HAS_FMA 0
#define DLC_FMA(a, b, c) ((a) * (b) + (c))
#endif

#if defined(DLC_PORTABLE) || defined(__aarch64__) || defined(__SSE4_1__)
#define DLC_HAS_ROUND 1
#else
#define DLC_HAS_ROUND 0
#endif

/* The word for shuffles of vectors, where the compiler has one. */
#if defined __has_builtin && !defined DLC_PORTABLE
#if __has_builtin(__builtin_shufflevector)
#define DLC_ZIP(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
#endif

/* Note [Near]; how a part of a phase runs, see emit_cc_near.c. */
#define DLC_IS_FAR(far) ((far) >> (sizeof(far) == 4 ? 18 : 27) != 0)
enum { DLC_NEAR, DLC_EXACT, DLC_TEST };

/* ---- bits ---- */

DLC_FN uint32_t
dlc_bits_f32(float a)
{
    uint32_t u;

    __builtin_memcpy(&u, &a, sizeof u);
    return u;
}

DLC_FN float
dlc_from_bits_f32(uint32_t u)
{
    float a;

    __builtin_memcpy(&a, &u, sizeof a);
    return a;
}

DLC_FN uint64_t
dlc_bits_f64(double a)
{
    uint64_t u;

    __builtin_memcpy(&u, &a, sizeof u);
    return u;
}

DLC_FN double
dlc_from_bits_f64(uint64_t u)
{
    double a;

    __builtin_memcpy(&a, &u, sizeof a);
    return a;
}

/* a ? b : c.  With AVX-512 gcc makes branches of that, and no vectors, in a loop over lanes of
 * 64-bit floats whose condition is a byte in memory. */
DLC_FN double
dlc_select_f64(uint8_t a, double b, double c)
{
    const uint64_t other = dlc_bits_f64(c), differ = dlc_bits_f64(b) ^ other;
    return dlc_from_bits_f64((differ & -(uint64_t)(a != 0)) ^ other);
}

/* ---- the parts of complex numbers ---- */

DLC_FN float dlc_real_c64(uint64_t z) { return dlc_from_bits_f32((uint32_t)z); }
DLC_FN float dlc_imag_c64(uint64_t z) { return dlc_from_bits_f32((uint32_t)(z >> 32)); }
DLC_FN double dlc_real_c128(dlc_c128 z) { return z.re; }
DLC_FN double dlc_imag_c128(dlc_c128 z) { return z.im; }

DLC_FN uint64_t
dlc_complex_f32(float re, float im)
{
    return (uint64_t)dlc_bits_f32(im) << 32 | dlc_bits_f32(re);
}

/* One part goes through its bits: else gcc 12 makes fused operations of a product's parts side by
 * side, whatever -ffp-contract says. */
DLC_FN dlc_c128
dlc_complex_f64(double re, double im)
{
    dlc_c128 z;
    uint64_t bits = dlc_bits_f64(re);
    z.im = im;
    __builtin_memcpy(&z.re, &bits, sizeof bits);
    return z;
}

/* ---- floating point: sign, rounding, neighbours ---- */

DLC_FN float dlc_abs_f32(float a) { return __builtin_fabsf(a); }
DLC_FN double dlc_abs_f64(double a) { return __builtin_fabs(a); }
DLC_FN float dlc_fma_f32(float a, float b, float c) { return DLC_FMA(a, b, c); }
DLC_FN double dlc_fma_f64(double a, double b, double c) { return DLC_FMA(a, b, c); }
DLC_FN float dlc_sign_f32(float a) { return (float)((0 < a) - (a < 0)); }
DLC_FN double dlc_sign_f64(double a) { return (double)((0 < a) - (a < 0)); }
DLC_FN float dlc_sqrt_f32(float a) { return __builtin_sqrtf(a); }
DLC_FN double dlc_sqrt_f64(double a) { return __builtin_sqrt(a); }
DLC_FN float dlc_copysign_f32(float a, float b) { return __builtin_copysignf(a, b); }
DLC_FN double dlc_copysign_f64(double a, double b) { return __builtin_copysign(a, b); }
DLC_FN uint8_t dlc_isinf_f32(float a) { return __builtin_fabsf(a) == __builtin_inff(); }
DLC_FN uint8_t dlc_isinf_f64(double a) { return __builtin_fabs(a) == __builtin_inf(); }
DLC_FN uint8_t dlc_signbit_f32(float a) { return (uint8_t)(dlc_bits_f32(a) >> 31); }
DLC_FN uint8_t dlc_signbit_f64(double a) { return (uint8_t)(dlc_bits_f64(a) >> 63); }

/* Half to even, by adding and taking away a number whose unit is 1. */
DLC_FN float
dlc_round_f32(float a)
{
#if DLC_HAS_ROUND
    return __builtin_rintf(a);
#else
    float size = __builtin_fabsf(a);

    return __builtin_copysignf(size < 0x1p23f ? size + 0x1p23f - 0x1p23f : size, a);
#endif
}

DLC_FN double
dlc_round_f64(double a)
{
#if DLC_HAS_ROUND
    return __builtin_rint(a);
#else
    double size = __builtin_fabs(a);

    return __builtin_copysign(size < 0x1p52 ? size + 0x1p52 - 0x1p52 : size, a);
#endif
}

DLC_FN float
dlc_trunc_f32(float a)
{
#if DLC_HAS_ROUND
    return __builtin_truncf(a);
#else
    float size = __builtin_fabsf(a), near = dlc_round_f32(size);

    return __builtin_copysignf(near > size ? near - 1 : near, a);
#endif
}

DLC_FN double
dlc_trunc_f64(double a)
{
#if DLC_HAS_ROUND
    return __builtin_trunc(a);
#else
    double size = __builtin_fabs(a), near = dlc_round_f64(size);

    return __builtin_copysign(near > size ? near - 1 : near, a);
#endif
}

DLC_FN float
dlc_floor_f32(float a)
{
#if DLC_HAS_ROUND
    return __builtin_floorf(a);
#else
    float near = dlc_round_f32(a);

    return __builtin_copysignf(near > a ? near - 1 : near, a);
#endif
}

DLC_FN double
dlc_floor_f64(double a)
{
#if DLC_HAS_ROUND
    return __builtin_floor(a);
#else
    double near = dlc_round_f64(a);

    return __builtin_copysign(near > a ? near - 1 : near, a);
#endif
}

DLC_FN float dlc_ceil_f32(float a) { return -dlc_floor_f32(-a); }
DLC_FN double dlc_ceil_f64(double a) { return -dlc_floor_f64(-a); }

DLC_FN float
dlc_nextafter_f32(float a, float b)
{
    uint32_t u = dlc_bits_f32(a), sign = dlc_bits_f32(b) & 0x80000000u;
    uint32_t away = (a < b) == (a > 0);

    u = a == 0 ? sign | 1 : away ? u + 1 : u - 1;
    return a != a || b != b ? a + b : a == b ? b : dlc_from_bits_f32(u);
}

DLC_FN double
dlc_nextafter_f64(double a, double b)
{
    uint64_t u = dlc_bits_f64(a), sign = dlc_bits_f64(b) & 0x8000000000000000u;
    uint64_t away = (a < b) == (a > 0);

    u = a == 0 ? sign | 1 : away ? u + 1 : u - 1;
    return a != a || b != b ? a + b : a == b ? b : dlc_from_bits_f64(u);
}

/* ---- integers: they wrap; a quotient by zero is 0 and its remainder the dividend ---- */

DLC_FN int32_t dlc_abs_i32(int32_t a) { return a < 0 ? -a : a; }
DLC_FN int64_t dlc_abs_i64(int64_t a) { return a < 0 ? -a : a; }
DLC_FN int32_t dlc_sign_i32(int32_t a) { return (a > 0) - (a < 0); }
DLC_FN int64_t dlc_sign_i64(int64_t a) { return (a > 0) - (a < 0); }

/* In double, which holds every quotient of two int32 exactly enough and which SIMD can divide. */
DLC_FN int32_t
dlc_div_trunc_i32(int32_t a, int32_t b)
{
    int32_t plain = b == 0 || b == -1 ? 1 : b;
    int32_t q = (int32_t)((double)a / (double)plain);

    return b == 0 ? 0 : b == -1 ? -a : q;
}

DLC_FN int64_t
dlc_div_trunc_i64(int64_t a, int64_t b)
{
    int64_t plain = b == 0 || b == -1 ? 1 : b;
    int64_t q = a / plain;

    return b == 0 ? 0 : b == -1 ? -a : q;
}

DLC_FN int32_t dlc_fmod_i32(int32_t a, int32_t b) { return a - dlc_div_trunc_i32(a, b) * b; }
DLC_FN int64_t dlc_fmod_i64(int64_t a, int64_t b) { return a - dlc_div_trunc_i64(a, b) * b; }

DLC_FN int32_t
dlc_div_floor_i32(int32_t a, int32_t b)
{
    int32_t q = dlc_div_trunc_i32(a, b), r = a - q * b;

    return b != 0 && r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}

DLC_FN int64_t
dlc_div_floor_i64(int64_t a, int64_t b)
{
    int64_t q = dlc_div_trunc_i64(a, b), r = a - q * b;

    return b != 0 && r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}

DLC_FN int32_t dlc_remainder_i32(int32_t a, int32_t b) { return a - dlc_div_floor_i32(a, b) * b; }
DLC_FN int64_t dlc_remainder_i64(int64_t a, int64_t b) { return a - dlc_div_floor_i64(a, b) * b; }

DLC_FN uint8_t dlc_bit_not_bool(uint8_t a) { return !a; }
DLC_FN int32_t dlc_bit_not_i32(int32_t a) { return ~a; }
DLC_FN int64_t dlc_bit_not_i64(int64_t a) { return ~a; }

/* A shift by a negative amount, or by the width or more, shifts everything out. */
DLC_FN uint8_t dlc_shl_bool(uint8_t a, uint8_t b) { return a & !b; }
DLC_FN uint8_t dlc_shr_bool(uint8_t a, uint8_t b) { return a & !b; }

DLC_FN int32_t
dlc_shl_i32(int32_t a, int32_t b)
{
    return (uint32_t)b > 31 ? 0 : (int32_t)((uint32_t)a << (b & 31));
}

DLC_FN int64_t
dlc_shl_i64(int64_t a, int64_t b)
{
    return (uint64_t)b > 63 ? 0 : (int64_t)((uint64_t)a << (b & 63));
}

DLC_FN int32_t dlc_shr_i32(int32_t a, int32_t b) { return a >> ((uint32_t)b > 31 ? 31 : b); }
DLC_FN int64_t dlc_shr_i64(int64_t a, int64_t b) { return a >> ((uint64_t)b > 63 ? 63 : b); }

/* ---- casts between compute dtypes: dlc_cast_<from>_<to> ---- */

/* Out of range, as NaN, becomes the most negative integer: what x86 does and eager shows there.  By
 * a mask: of choices gcc makes branches where the greatest is looked for, to which that integer is
 * nothing. */
#define DLC_CAST_FLOAT(F, f, W, w, U, V, fits) \
    DLC_FN W \
    dlc_cast_##f##_##w(F a) \
    { \
        V mask = -(V)(fits), i = (V)(W)dlc_from_bits_##f(dlc_bits_##f(a) & -(U)(fits)); \
        return (W)((i & mask) | (~mask & (V)1 << (sizeof(W) * 8 - 1))); \
    }

DLC_CAST_FLOAT(float, f32, int32_t, i32, uint32_t, uint32_t, (a >= -0x1p31f) & (a < 0x1p31f))
DLC_CAST_FLOAT(double, f64, int32_t, i32, uint64_t, uint32_t, (a > -0x1.00000002p31) & (a < 0x1p31))
DLC_CAST_FLOAT(float, f32, int64_t, i64, uint32_t, uint64_t, (a >= -0x1p63f) & (a < 0x1p63f))
DLC_CAST_FLOAT(double, f64, int64_t, i64, uint64_t, uint64_t, (a >= -0x1p63) & (a < 0x1p63))

/* Of what was cast from a float gcc 12 makes a truncation, and so -0 of numbers between -1 and 0:
 * the sign is that of the integer, by bits, where it does not look.  A comparison with 0 would be
 * one of narrow integers, whose masks are then widened. */
#define DLC_CAST_WHOLE(W, w, F, f, U) \
    DLC_FN F dlc_cast_##w##_##f(W a) \
    { \
        const U sign = (U)(a >> (sizeof(W) > sizeof(U) ? 32 : 0)) | (U)-1 >> 1; \
        return dlc_from_bits_##f(dlc_bits_##f((F)a) & sign); \
    }

DLC_CAST_WHOLE(int32_t, i32, float, f32, uint32_t)
DLC_CAST_WHOLE(int64_t, i64, float, f32, uint32_t)
DLC_CAST_WHOLE(int32_t, i32, double, f64, uint64_t)
DLC_CAST_WHOLE(int64_t, i64, double, f64, uint64_t)

/* 0, which the compiler does not know: see Note [Indices from comparisons] in emit_cc.c. */
DLC_FN int64_t
dlc_opaque_zero(void)
{
    int64_t nothing = 0;
    __asm__("" : "+r"(nothing));
    return nothing;
}

/* How many iterations of so much work are about `all`: 2 at least (emit_cc_jam.c), by 64 if many
 * (emit_cc_flat.c). */
DLC_FN int64_t
dlc_part(int64_t all, int64_t each)
{
    int64_t part = all / (each > 0 ? each : 1);
    return part < 2 ? 2 : part > 64 ? part / 64 * 64 : part;
}

DLC_FN uint8_t dlc_cast_bool_bool(uint8_t a) { return a; }
DLC_FN uint8_t dlc_cast_i32_bool(int32_t a) { return a != 0; }
DLC_FN uint8_t dlc_cast_i64_bool(int64_t a) { return a != 0; }
DLC_FN uint8_t dlc_cast_f32_bool(float a) { return a != 0; }
DLC_FN uint8_t dlc_cast_f64_bool(double a) { return a != 0; }
DLC_FN int32_t dlc_cast_bool_i32(uint8_t a) { return a != 0; }
DLC_FN int32_t dlc_cast_i32_i32(int32_t a) { return a; }
DLC_FN int32_t dlc_cast_i64_i32(int64_t a) { return (int32_t)a; }
DLC_FN int64_t dlc_cast_bool_i64(uint8_t a) { return a != 0; }
DLC_FN int64_t dlc_cast_i32_i64(int32_t a) { return a; }
DLC_FN int64_t dlc_cast_i64_i64(int64_t a) { return a; }
/* The bits of one or zero, neither converted nor chosen: gcc does not vectorise a conversion of a
 * comparison to floating point, and makes a choice that is multiplied by something a branch. */
DLC_FN float
dlc_cast_bool_f32(uint8_t a)
{
    return dlc_from_bits_f32(-(uint32_t)(a != 0) & 0x3f800000u);
}
DLC_FN float dlc_cast_f32_f32(float a) { return a; }
DLC_FN float dlc_cast_f64_f32(double a) { return (float)a; }
DLC_FN double
dlc_cast_bool_f64(uint8_t a)
{
    return dlc_from_bits_f64(-(uint64_t)(a != 0) & 0x3ff0000000000000u);
}
DLC_FN double dlc_cast_f32_f64(float a) { return a; }
DLC_FN double dlc_cast_f64_f64(double a) { return a; }

/* ---- the storage dtypes: load to, round in, and store from their compute dtype ---- */

DLC_FN float dlc_load_bf16(uint16_t u) { return dlc_from_bits_f32((uint32_t)u << 16); }

/* Sixteen side by side for a loop over lanes.  A loop of so few iterations cannot be one of vectors
 * of sixteen narrow elements as well as of sixteen wide ones to compilers: they halve all
 * vectors. */
#if defined(__AVX2__) && defined(DLC_ZIP)
typedef uint32_t dlc_sixteen __attribute__((vector_size(64), aligned(4), may_alias));
DLC_FN void
dlc_widen_bf16(float *to, const uint16_t *a)
{
    *(dlc_sixteen *)to = (dlc_sixteen){a[0], a[1], a[2],  a[3],  a[4],  a[5],  a[6],  a[7],
                                       a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15]} << 16;
}
#define DLC_WIDE_BF16(wide, from) float wide[16]; dlc_widen_bf16(wide, from)
#define DLC_WIDENED(wide, element) wide
#else
#define DLC_WIDE_BF16(wide, from)
#define DLC_WIDENED(wide, element) element
#endif

/* The bytes of thirty-two columns side by side.  Of a loop gcc makes vectors of as many integers as
 * a vector has bytes, in two steps and by halves. */
#if defined(__AVX2__) && defined(DLC_ZIP)
typedef char dlc_bytes __attribute__((vector_size(16)));
typedef long long dlc_pair_i64 __attribute__((vector_size(16)));
typedef long long dlc_eight_bytes __attribute__((aligned(1), may_alias));
typedef int32_t dlc_eight_i32 __attribute__((vector_size(32), aligned(4), may_alias));
#ifdef __clang__
#define DLC_WIDE_BYTES(S, bytes, z) \
    __builtin_convertvector((S __attribute__((vector_size(8))))(bytes), dlc_eight_i32)
#else
#define DLC_WIDE_BYTES(S, bytes, z) \
    (dlc_eight_i32)__builtin_ia32_pmov##z##xbd256((dlc_bytes)(dlc_pair_i64){bytes, 0})
#endif
#define DLC_WIDEN(S, s, z) \
    DLC_FN void dlc_widen_##s(int32_t *to, const S *a) \
    { \
        for (int k = 0; k < 4; k++) { \
            ((dlc_eight_i32 *)to)[k] = DLC_WIDE_BYTES(S, ((const dlc_eight_bytes *)a)[k], z); \
        } \
    }
#else
#define DLC_WIDEN(S, s, z) \
    DLC_FN void dlc_widen_##s(int32_t *to, const S *a) \
    { \
        for (int k = 0; k < 32; k++) { \
            to[k] = a[k]; \
        } \
    }
#endif

DLC_WIDEN(int8_t, i8, s)
DLC_WIDEN(uint8_t, u8, z)

DLC_FN uint16_t
dlc_store_bf16(float a)
{
    uint32_t u = dlc_bits_f32(a), even = (u >> 16) & 1;

    return (uint16_t)(a != a ? 0x7fc0 | (u >> 31 << 15) : (u + 0x7fff + even) >> 16);
}

/* The exponent is moved by a multiplication, which is exact and puts subnormals right. */
DLC_FN float
dlc_load_f16(uint16_t u)
{
    uint32_t shifted = (uint32_t)(u & 0x7fff) << 13, sign = (uint32_t)(u & 0x8000) << 16;
    float size = dlc_from_bits_f32(shifted) * 0x1p112f;
    uint32_t bits = shifted >= 0x0f800000 ? shifted | 0x7f800000 : dlc_bits_f32(size);

    return dlc_from_bits_f32(bits | sign);
}

/* By a mask: gcc makes branches of choices, or narrows one to the 16 bits that are stored while its
 * condition stays wide, and then no vectors. */
DLC_FN uint32_t
dlc_masked(int first, uint32_t a, uint32_t b)
{
    uint32_t mask = -(uint32_t)first;

    return (a & mask) | (b & ~mask);
}

/* Rounds by an addition whose unit in the last place is the result's, at the result's exponent. */
DLC_FN uint16_t
dlc_store_f16(float a)
{
    uint32_t u = dlc_bits_f32(a), sign = u >> 31 << 15, size = u & 0x7fffffff;
    uint32_t even = (size >> 13) & 1, normal = (size + 0xfff + even - 0x38000000) >> 13;
    uint32_t tiny = dlc_bits_f32(dlc_from_bits_f32(size) + 0.5f) - 0x3f000000;
    uint32_t beyond = size > 0x7f800000 ? 0x7e00 : 0x7c00;
    uint32_t h = dlc_masked(size >= 0x47800000, beyond, normal);

    return (uint16_t)(sign | dlc_masked(size < 0x38800000, tiny, h));
}

/* dlc_load_bf16(dlc_store_bf16(a)), without the narrow number in between. */
DLC_FN float
dlc_round_bf16(float a)
{
    uint32_t u = dlc_bits_f32(a), even = (u >> 16) & 1;

    return dlc_from_bits_f32(a != a ? 0x7fc00000u | (u & 0x80000000u)
                                    : (u + 0x7fff + even) & 0xffff0000u);
}

/* dlc_store_bf16 of what is a bf16 already. */
DLC_FN uint16_t dlc_pack_bf16(float a) { return (uint16_t)(dlc_bits_f32(a) >> 16); }

/* dlc_load_f16(dlc_store_f16(a)), without the narrow number in between: 13 bits are rounded off, of
 * the tiny all below the smallest subnormal. */
DLC_FN float
dlc_round_f16(float a)
{
    uint32_t u = dlc_bits_f32(a), sign = u & 0x80000000, size = u ^ sign;
    uint32_t even = (size >> 13) & 1, normal = (size + 0xfff + even) & 0xffffe000;
    uint32_t tiny = dlc_bits_f32(dlc_from_bits_f32(size) + 0.5f - 0.5f);
    uint32_t beyond = size > 0x7f800000 ? 0x7fc00000 : 0x7f800000;
    uint32_t rounded = dlc_masked(normal >= 0x47800000, beyond, normal);

    return dlc_from_bits_f32(sign | dlc_masked(size < 0x38800000, tiny, rounded));
}

/* dlc_store_f16 of what is an f16 already. */
DLC_FN uint16_t
dlc_pack_f16(float a)
{
    uint32_t u = dlc_bits_f32(a), sign = u >> 31 << 15, size = u & 0x7fffffff;
    uint32_t tiny = dlc_bits_f32(dlc_from_bits_f32(size) + 0.5f) - 0x3f000000;
    uint32_t large = dlc_masked(size >= 0x7f800000, size >> 13 & 0x7fff, (size - 0x38000000) >> 13);

    return (uint16_t)(sign | dlc_masked(size < 0x38800000, tiny, large));
}

/* ---- bits as another dtype: dlc_bitcast_<from>_<to>, both as they are computed in ---- */

DLC_FN float dlc_bitcast_i16_f16(int32_t a) { return dlc_load_f16((uint16_t)a); }
DLC_FN float dlc_bitcast_i16_bf16(int32_t a) { return dlc_load_bf16((uint16_t)a); }
DLC_FN float dlc_bitcast_i32_f32(int32_t a) { return dlc_from_bits_f32((uint32_t)a); }
DLC_FN double dlc_bitcast_i64_f64(int64_t a) { return dlc_from_bits_f64((uint64_t)a); }
DLC_FN int32_t dlc_bitcast_f16_i16(float a) { return (int16_t)dlc_pack_f16(a); }
DLC_FN int32_t dlc_bitcast_bf16_i16(float a) { return (int16_t)dlc_pack_bf16(a); }
DLC_FN int32_t dlc_bitcast_f32_i32(float a) { return (int32_t)dlc_bits_f32(a); }
DLC_FN int64_t dlc_bitcast_f64_i64(double a) { return (int64_t)dlc_bits_f64(a); }

DLC_FN int32_t dlc_wrap_u8(int32_t a) { return (uint8_t)a; }
DLC_FN int32_t dlc_wrap_i8(int32_t a) { return (int8_t)a; }
DLC_FN int32_t dlc_wrap_i16(int32_t a) { return (int16_t)a; }

#ifndef DLC_PASTED
#include "prelude_poly.h"
#include "prelude_f64.h"
#include "prelude_f64_trig.h"
#include "prelude_f64_special.h"
#include "prelude_f32.h"
#include "prelude_f32_special.h"
#endif

/* Note [No branches]
 *
 * A vectoriser turns `c ? x : y` into a blend when x and y are values already computed.  So both
 * sides are computed first and chosen between last, and what is not wanted may be any nonsense,
 * infinity or NaN included, but never undefined behaviour.  Tables are read only where noted. */

/* Note [Near]
 *
 * Of some functions (flag N in ir/ops.def) nearly all operands need less work: angles of less than
 * 2^17 quarter turns no table of the bits of pi.  As a choice for each element would cost both,
 * such an f has two more functions:
 *
 *   dlc_near_f   f where the operand is near, anything elsewhere; without that work
 *   dlc_far_f    an integer as wide as the operand, DLC_IS_FAR if the operand is: it has a high bit
 *                then
 *
 * A loop computes dlc_near_f, or'ing dlc_far_f, and all again by f if that is far in the end.  f
 * chooses for each element and of a near one makes the same bits: a result depends on the operand
 * alone here too. */
#endif
