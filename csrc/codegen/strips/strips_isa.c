/* The strips for one instruction set.
 *
 * Compiled once for each, with DLC_ISA naming it and the compiler's flags choosing it:
 *     sse2      -DDLC_ISA=sse2
 *     avx2      -DDLC_ISA=avx2   -mavx2 -mfma
 *     avx512    -DDLC_ISA=avx512 -mavx2 -mfma -mavx512f -mavx512bw -mavx512dq -mavx512vl
 *     neon      -DDLC_ISA=neon   (aarch64)
 * always with -O3 and the flags that prelude.h requires.  All but the table is static.
 *
 * What: the loops; the arithmetic is in prelude.h and ir/ops.def.  How: each row of ops.def becomes
 * an inline scalar function and a strip of loops over it, which the compiler vectorises.  Why not
 * intrinsics: one text serves every instruction set and gives the bits that generated C gives. */
#include "ir/math/prelude.h"
#include "codegen/emit/prelude_reduce.h"
#include "codegen/emit/prelude_transpose.h"
#include "codegen/emit/prelude_scan.h"
#include "strips.h"

/* No element depends on another: out is an operand's array or overlaps none. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define LANES INDEPENDENT
#else
#define INDEPENDENT _Pragma("GCC ivdep")
/* Sixteen iterations that must not become sixteen statements before they are vectorised: where the
 * step is a choice; an addition is vectorised better from the statements. */
#define LANES _Pragma("GCC unroll 1")
#endif

/* ---- MAP rows: a scalar function and a strip each ---- */

#define EACH(value) \
    INDEPENDENT \
    for (int64_t i = 0; i < n; i++) { \
        out[i] = value; \
    }

#define STRIP1(...) STRIP1_(__VA_ARGS__)
#define STRIP1_(op, R, A, B, C, expr) \
    DLC_FN R apply_##op(A a) { return (R)(expr); } \
    static void \
    strip_##op(void *result, const void *first, int64_t n, unsigned scalars) \
    { \
        R *out = result; \
        const A *a = first; \
        if (scalars & 1) { \
            R value = apply_##op(*a); \
            EACH(value) \
        } \
        else { \
            EACH(apply_##op(a[i])) \
        } \
    }

/* One that has a form for near operands, see prelude.h: nearly always no operand of a strip is
 * far. */
#define NEAR1(...) NEAR1_(__VA_ARGS__)
#define NEAR1_(op, R, A, B, C, expr) \
    DLC_FN R apply_##op(A a) { return (R)(expr); } \
    static void \
    strip_##op(void *result, const void *first, int64_t n, unsigned scalars) \
    { \
        R *out = result; \
        const A *a = first; \
        __typeof__(dlc_far_##op(0)) far = 0; \
        if (scalars & 1) { \
            R value = apply_##op(*a); \
            EACH(value) \
            return; \
        } \
        for (int64_t i = 0; i < n; i++) { \
            far |= dlc_far_##op(a[i]); \
        } \
        if (DLC_IS_FAR(far)) { \
            EACH(apply_##op(a[i])) \
        } \
        else { \
            EACH(dlc_near_##op(a[i])) \
        } \
    }

#define STRIP2(...) STRIP2_(__VA_ARGS__)
#define STRIP2_(op, R, A, B, C, expr) \
    DLC_FN R apply_##op(A a, B b) { return (R)(expr); } \
    STRIP2_LOOPS(op, R, A, B)
#define STRIP2_LOOPS(op, R, A, B) \
    static void \
    strip_##op(void *result, const void *first, const void *second, int64_t n, unsigned scalars) \
    { \
        R *out = result; \
        const A *a = first, a0 = scalars & 1 ? *a : 0; \
        const B *b = second, b0 = scalars & 2 ? *b : 0; \
        switch (scalars & 3) { \
        case 0: EACH(apply_##op(a[i], b[i])) break; \
        case 1: EACH(apply_##op(a0, b[i])) break; \
        case 2: EACH(apply_##op(a[i], b0)) break; \
        default: { \
            R value = apply_##op(a0, b0); \
            EACH(value) \
        } \
        } \
    }

#define STRIP3(...) STRIP3_(__VA_ARGS__)
#define STRIP3_(op, R, A, B, C, expr) \
    DLC_FN R apply_##op(A a, B b, C c) { return (R)(expr); } \
    static void \
    strip_##op(void *result, const void *first, const void *second, const void *third, int64_t n, \
               unsigned scalars) \
    { \
        R *out = result; \
        const A *a = first, a0 = scalars & 1 ? *a : 0; \
        const B *b = second, b0 = scalars & 2 ? *b : 0; \
        const C *c = third, c0 = scalars & 4 ? *c : 0; \
        switch (scalars & 7) { \
        case 0: EACH(apply_##op(a[i], b[i], c[i])) break; \
        case 1: EACH(apply_##op(a0, b[i], c[i])) break; \
        case 2: EACH(apply_##op(a[i], b0, c[i])) break; \
        case 3: EACH(apply_##op(a0, b0, c[i])) break; \
        case 4: EACH(apply_##op(a[i], b[i], c0)) break; \
        case 5: EACH(apply_##op(a0, b[i], c0)) break; \
        case 6: EACH(apply_##op(a[i], b0, c0)) break; \
        default: { \
            R value = apply_##op(a0, b0, c0); \
            EACH(value) \
        } \
        } \
    }

#define CHOOSE4(...) CHOOSE4_(__VA_ARGS__)
#define CHOOSE4_(op, T, compare) \
    DLC_FN T apply_##op(T a, T b, T c, T d) { return compare(a, b) ? c : d; } \
    static void \
    strip_##op(void *result, const void *first, const void *second, const void *third, \
               const void *fourth, int64_t n, unsigned scalars) \
    { \
        T *out = result; \
        const T *a = first; \
        const T *b = second, b0 = scalars & 2 ? *b : 0; \
        const T *c = third, c0 = scalars & 4 ? *c : 0; \
        const T *d = fourth, d0 = scalars & 8 ? *d : 0; \
        switch (scalars >> 1) { \
        case 0: EACH(apply_##op(a[i], b[i], c[i], d[i])) break; \
        case 1: EACH(apply_##op(a[i], b0, c[i], d[i])) break; \
        case 2: EACH(apply_##op(a[i], b[i], c0, d[i])) break; \
        case 3: EACH(apply_##op(a[i], b0, c0, d[i])) break; \
        case 4: EACH(apply_##op(a[i], b[i], c[i], d0)) break; \
        case 5: EACH(apply_##op(a[i], b0, c[i], d0)) break; \
        case 6: EACH(apply_##op(a[i], b[i], c0, d0)) break; \
        default: EACH(apply_##op(a[i], b0, c0, d0)) \
        } \
    }

#define TWICE4(...) TWICE4_(__VA_ARGS__)
#define TWICE4_(op, T, expr) \
    DLC_FN T apply_##op(T a, T b, T c, T d) { return expr; } \
    static void \
    strip_##op(void *result, const void *first, const void *second, const void *third, \
               const void *fourth, int64_t n, unsigned scalars) \
    { \
        T *out = result; \
        const T *a = first, *c = third; \
        const T *b = second, b0 = scalars & 2 ? *b : 0; \
        const T *d = fourth, d0 = scalars & 8 ? *d : 0; \
        switch (scalars & 10) { \
        case 0: EACH(apply_##op(a[i], b[i], c[i], d[i])) break; \
        case 2: EACH(apply_##op(a[i], b0, c[i], d[i])) break; \
        case 8: EACH(apply_##op(a[i], b[i], c[i], d0)) break; \
        default: EACH(apply_##op(a[i], b0, c[i], d0)) \
        } \
    }

/* minimum(maximum(a, low), high) for bounds that are no NaN: a comparison each. */
static void
strip_clamp_f32(void *result, const void *first, const void *low, const void *high, int64_t n,
                unsigned scalars)
{
    float *out = result;
    const float *a = first, lo = *(const float *)low, hi = *(const float *)high;
    (void)scalars;
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        float v = a[i], above = lo >= v ? lo : v;
        out[i] = hi <= above ? hi : above;
    }
}

/* What the rows of each dtype rule become, for the dtype that T, OP and M are set to. */
#define F(c, a, i, t) STRIP
#define N(c, a, i, t) NEAR
#define KIND(flags, arity) KIND_(flags, arity)
#define KIND_(kind, arity) kind##arity
#define TO_SAME(name, strip, expr) strip(OP(name), T, T, T, T, expr)
#define TO_BOOL(name, strip, expr) strip(OP(name), uint8_t, T, T, T, expr)
#define TO_CHOICE(name, strip, expr) strip(OP(name), T, uint8_t, T, T, expr)
#define TO_NOTHING(name, strip, expr)

#define RULE_CAST TO_NOTHING
#define RULE_PART TO_NOTHING
#define RULE_PAIR TO_NOTHING
#define RULE_BITS TO_NOTHING
#define RULE_SAME TO_SAME
#define RULE_CMP TO_BOOL
#define RULE_SEL TO_CHOICE
#define MAKE(name, arity, rule, flags, cost, expr) RULE_##rule(name, KIND(flags, arity), expr)

#define RULE_NUM TO_SAME
#define RULE_FLOAT TO_SAME
#define RULE_PRED TO_BOOL
#define RULE_INT TO_NOTHING
#define RULE_BOOL TO_NOTHING

#define T float
#define OP(name) name##_f32
#define M(f) dlc_##f##_f32
#define MAP MAKE
#include "ir/ops.def"
#undef T
#undef OP
#undef M

#define T double
#define OP(name) name##_f64
#define M(f) dlc_##f##_f64
#define MAP MAKE
#include "ir/ops.def"
#undef T
#undef OP
#undef M

/* Pairs of operations, see fused.def. */
#define TYPE_f32 float
#define TYPE_f64 double
#define SIDE_left(second, t, c) second(t, c)
#define SIDE_right(second, t, c) second(c, t)
#define PAIR(dtype, first, second, side) \
    STRIP3(pair_##first##_##second##_##side##_##dtype, TYPE_##dtype, TYPE_##dtype, TYPE_##dtype, \
           TYPE_##dtype, SIDE_##side(apply_##second##_##dtype, apply_##first##_##dtype(a, b), c))
#define SQUARE(dtype, first) \
    STRIP2(square_##first##_##dtype, TYPE_##dtype, TYPE_##dtype, TYPE_##dtype, TYPE_##dtype, \
           apply_##first##_##dtype(a, b) * apply_##first##_##dtype(a, b))
#define THEN(dtype, arity, first, second) \
    STRIP##arity(then_##first##_##second##_##dtype, TYPE_##dtype, TYPE_##dtype, TYPE_##dtype, \
                 TYPE_##dtype, apply_##second##_##dtype(FIRST##arity(apply_##first##_##dtype)))
#define FIRST1(apply) apply(a)
#define FIRST2(apply) apply(a, b)
#define TWICE(dtype, first, second) \
    TWICE4(twice_##first##_##second##_##dtype, TYPE_##dtype, \
           apply_##second##_##dtype(apply_##first##_##dtype(a, b), apply_##first##_##dtype(c, d)))
#define BOTH(dtype, first, other, second) \
    TWICE4(both_##first##_##other##_##second##_##dtype, TYPE_##dtype, \
           apply_##second##_##dtype(apply_##first##_##dtype(a, b), apply_##other##_##dtype(c, d)))
#define CHOOSE(dtype, first, mirrored) \
    CHOOSE4(choose_##first##_##dtype, TYPE_##dtype, apply_##first##_##dtype)
#include "fused.def"

#undef RULE_NUM
#undef RULE_FLOAT
#undef RULE_PRED
#undef RULE_INT
#undef RULE_BOOL

#define RULE_NUM TO_SAME
#define RULE_FLOAT TO_NOTHING
#define RULE_PRED TO_NOTHING
#define RULE_INT TO_SAME
#define RULE_BOOL TO_NOTHING

#define T int32_t
#define OP(name) name##_i32
#define M(f) dlc_##f##_i32
#define MAP MAKE
#include "ir/ops.def"
#undef T
#undef OP
#undef M

#define T int64_t
#define OP(name) name##_i64
#define M(f) dlc_##f##_i64
#define MAP MAKE
#include "ir/ops.def"
#undef T
#undef OP
#undef M

#undef RULE_NUM
#undef RULE_FLOAT
#undef RULE_PRED
#undef RULE_INT
#undef RULE_BOOL

#define RULE_NUM TO_NOTHING
#define RULE_FLOAT TO_NOTHING
#define RULE_PRED TO_NOTHING
#define RULE_INT TO_SAME
#define RULE_BOOL TO_SAME

#define T uint8_t
#define OP(name) name##_bool
#define M(f) dlc_##f##_bool
#define MAP MAKE
#include "ir/ops.def"
#undef T
#undef OP
#undef M

#undef RULE_NUM
#undef RULE_FLOAT
#undef RULE_PRED
#undef RULE_INT
#undef RULE_BOOL

#undef F
#undef N

/* ---- the parts of complex numbers ---- */

#define COMPLEX(f, T, c, Z) \
    STRIP1(real_##c, T, Z, , , dlc_real_##c(a)) \
    STRIP1(imag_##c, T, Z, , , dlc_imag_##c(a)) \
    DLC_FN Z apply_complex_##f(T a, T b) { return dlc_complex_##f(a, b); } \
    STRIP2_LOOPS(complex_##f, Z, T, T)

COMPLEX(f32, float, c64, uint64_t)
COMPLEX(f64, double, c128, dlc_c128)

#include "strips_move.h"
#include "strips_reduce.h"
#include "strips_fold.h"
#include "strips_rows.h"
#include "strips_nontemporal.h"

/* ---- the table ---- */

#define ROW(name) {"strip_" #name, (StripFn)strip_##name},
#define ROWS_CAST(name)
#define ROWS_BITS(name)
#define ROWS_PART(name) ROW(name##_c64) ROW(name##_c128)
#define ROWS_PAIR(name) ROWS_FLOAT(name)
#define ROWS_BOOL(name) ROW(name##_bool)
#define ROWS_FLOAT(name) ROW(name##_f32) ROW(name##_f64)
#define ROWS_PRED(name) ROWS_FLOAT(name)
#define ROWS_INTEGER(name) ROW(name##_i32) ROW(name##_i64)
#define ROWS_INT(name) ROW(name##_bool) ROWS_INTEGER(name)
#define ROWS_NUM(name) ROWS_INTEGER(name) ROWS_FLOAT(name)
#define ROWS_SAME(name) ROW(name##_bool) ROWS_NUM(name)
#define ROWS_CMP(name) ROWS_SAME(name)
#define ROWS_SEL(name) ROWS_SAME(name)
#define ROWS_ONE(name) ROW(name)
#define ROWS_BYTES(name) ROW(name##_1) ROW(name##_2) ROW(name##_4) ROW(name##_8) ROW(name##_16)
#define ROWS_GRIDS(name) \
    ROW(name##_1) ROW(name##_4) ROW(name##_8) ROW(name##_16) \
    ROW(name##_u8) ROW(name##_i8) ROW(name##_i16) ROW(name##_f16) ROW(name##_bf16)
#define ROWS_STORAGE(name) \
    ROW(name##_bool) ROW(name##_u8) ROW(name##_i8) ROW(name##_i16) ROW(name##_i32) \
    ROW(name##_i64) ROW(name##_f16) ROW(name##_bf16) ROW(name##_f32) ROW(name##_f64) \
    ROWS_PART(name)

#define TABLE(isa) TABLE_(isa)
#define TABLE_(isa) strip_rows_##isa

const StripRow TABLE(DLC_ISA)[] = {
#define PAIR(dtype, first, second, side) ROW(pair_##first##_##second##_##side##_##dtype)
#define SQUARE(dtype, first) ROW(square_##first##_##dtype)
#define THEN(dtype, arity, first, second) ROW(then_##first##_##second##_##dtype)
#define TWICE(dtype, first, second) ROW(twice_##first##_##second##_##dtype)
#define BOTH(dtype, first, other, second) ROW(both_##first##_##other##_##second##_##dtype)
#define CHOOSE(dtype, first, mirrored) ROW(choose_##first##_##dtype)
#define FOLD(red, arity, strip) ROW(fold_##red##_##strip##_f32)
#define NONTEMPORAL(arity, strip) ROW(nontemporal_##strip##_f32)
#include "fused.def"
#define MAP(name, arity, rule, flags, cost, expr) ROWS_##rule(name)
#include "ir/ops.def"
#define FORMS(kind, name) ROWS_##kind(name)
#include "strips.def"
    {0, 0},
};
