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
#include "prelude.h"
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

#define CHOOSE4(op, compare) \
    DLC_FN float apply_##op(float a, float b, float c, float d) { return compare(a, b) ? c : d; } \
    static void \
    strip_##op(void *result, const void *first, const void *second, const void *third, \
               const void *fourth, int64_t n, unsigned scalars) \
    { \
        float *out = result; \
        const float *a = first; \
        const float *b = second, b0 = scalars & 2 ? *b : 0; \
        const float *c = third, c0 = scalars & 4 ? *c : 0; \
        const float *d = fourth, d0 = scalars & 8 ? *d : 0; \
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
#define TO_SAME(name, arity, expr) STRIP##arity(OP(name), T, T, T, T, expr)
#define TO_BOOL(name, arity, expr) STRIP##arity(OP(name), uint8_t, T, T, T, expr)
#define TO_CHOICE(name, arity, expr) STRIP##arity(OP(name), T, uint8_t, T, T, expr)
#define TO_NOTHING(name, arity, expr)

#define RULE_CAST TO_NOTHING
#define RULE_PART TO_NOTHING
#define RULE_PAIR TO_NOTHING
#define RULE_SAME TO_SAME
#define RULE_CMP TO_BOOL
#define RULE_SEL TO_CHOICE
#define MAKE(name, arity, rule, flags, cost, expr) RULE_##rule(name, arity, expr)

#define RULE_NUM TO_SAME
#define RULE_FLOAT TO_SAME
#define RULE_PRED TO_BOOL
#define RULE_INT TO_NOTHING
#define RULE_BOOL TO_NOTHING

#define T float
#define OP(name) name##_f32
#define M(f) dlc_##f##_f32
#define MAP MAKE
#include "../ir/ops.def"
#undef T
#undef OP
#undef M

/* Pairs of operations, see pairs.def. */
#define SIDE_left(second, t, c) second(t, c)
#define SIDE_right(second, t, c) second(c, t)
#define PAIR(first, second, side) \
    STRIP3_(pair_##first##_##second##_##side##_f32, float, float, float, float, \
            SIDE_##side(apply_##second##_f32, apply_##first##_f32(a, b), c))
#define SQUARE(first) \
    STRIP2_(square_##first##_f32, float, float, float, float, \
            apply_##first##_f32(a, b) * apply_##first##_f32(a, b))
#define THEN(arity, first, second) \
    STRIP##arity(then_##first##_##second##_f32, float, float, float, float, \
                 apply_##second##_f32(FIRST##arity(apply_##first##_f32)))
#define FIRST1(apply) apply(a)
#define FIRST2(apply) apply(a, b)
#define CHOOSE(first, mirrored) CHOOSE4(choose_##first##_f32, apply_##first##_f32)
#define FOLD(red, arity, strip)
#include "pairs.def"

#define T double
#define OP(name) name##_f64
#define M(f) dlc_##f##_f64
#define MAP MAKE
#include "../ir/ops.def"
#undef T
#undef OP
#undef M

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
#include "../ir/ops.def"
#undef T
#undef OP
#undef M

#define T int64_t
#define OP(name) name##_i64
#define M(f) dlc_##f##_i64
#define MAP MAKE
#include "../ir/ops.def"
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
#include "../ir/ops.def"
#undef T
#undef OP
#undef M

#undef RULE_NUM
#undef RULE_FLOAT
#undef RULE_PRED
#undef RULE_INT
#undef RULE_BOOL

/* ---- the parts of complex numbers ---- */

#define COMPLEX(f, T, c, Z) \
    STRIP1(real_##c, T, Z, , , dlc_real_##c(a)) \
    STRIP1(imag_##c, T, Z, , , dlc_imag_##c(a)) \
    DLC_FN Z apply_complex_##f(T a, T b) { return dlc_complex_##f(a, b); } \
    STRIP2_LOOPS(complex_##f, Z, T, T)

COMPLEX(f32, float, c64, uint64_t)
COMPLEX(f64, double, c128, dlc_c128)

/* ---- conversions ---- */

#define CAST(from, From, to, To) \
    static void \
    strip_cast_##from##_##to(void *result, const void *first, int64_t n) \
    { \
        To *out = result; \
        const From *a = first; \
        EACH(dlc_cast_##from##_##to(a[i])) \
    }
#define CASTS(from, From) \
    CAST(from, From, bool, uint8_t) \
    CAST(from, From, i32, int32_t) \
    CAST(from, From, i64, int64_t) \
    CAST(from, From, f32, float) \
    CAST(from, From, f64, double)

CASTS(bool, uint8_t)
CASTS(i32, int32_t)
CASTS(i64, int64_t)
CASTS(f32, float)
CASTS(f64, double)

/* A load and a store of storage dtype dt, whose elements are S, from and to compute type C. */
#define STORAGE(dt, S, C, load, store) \
    static void \
    strip_load_##dt(void *result, const void *first, int64_t stride, int64_t n) \
    { \
        C *out = result; \
        const S *a = first; \
        if (stride == 1) { \
            EACH(load(a[i])) \
        } \
        else if (stride == 0 && n > 0) { \
            C value = load(*a); \
            EACH(value) \
        } \
        else { \
            EACH(load(a[i * stride])) \
        } \
    } \
    static void \
    strip_store_##dt(void *result, int64_t stride, const void *first, int64_t n) \
    { \
        S *out = result; \
        const C *a = first; \
        if (stride == 1) { \
            EACH(store(a[i])) \
        } \
        else { \
            for (int64_t i = 0; i < n; i++) { \
                out[i * stride] = store(a[i]); \
            } \
        } \
    }

STORAGE(bool, uint8_t, uint8_t, dlc_cast_i32_bool, dlc_cast_bool_bool)
STORAGE(u8, uint8_t, int32_t, (int32_t), (uint8_t))
STORAGE(i8, int8_t, int32_t, (int32_t), (int8_t))
STORAGE(i16, int16_t, int32_t, (int32_t), (int16_t))
STORAGE(i32, int32_t, int32_t, dlc_cast_i32_i32, dlc_cast_i32_i32)
STORAGE(i64, int64_t, int64_t, dlc_cast_i64_i64, dlc_cast_i64_i64)
STORAGE(f16, uint16_t, float, dlc_load_f16, dlc_store_f16)
STORAGE(bf16, uint16_t, float, dlc_load_bf16, dlc_store_bf16)
STORAGE(f32, float, float, dlc_cast_f32_f32, dlc_cast_f32_f32)
STORAGE(f64, double, double, dlc_cast_f64_f64, dlc_cast_f64_f64)
#define AS_IT_IS(z) (z)
STORAGE(c64, uint64_t, uint64_t, AS_IT_IS, AS_IT_IS)
STORAGE(c128, dlc_c128, dlc_c128, AS_IT_IS, AS_IT_IS)

#define IN_PLACE(op, T) \
    static void \
    strip_##op(void *tile, int64_t n) \
    { \
        T *out = tile; \
        EACH(dlc_##op(out[i])) \
    }

IN_PLACE(round_f16, float)
IN_PLACE(round_bf16, float)
IN_PLACE(wrap_u8, int32_t)
IN_PLACE(wrap_i8, int32_t)
IN_PLACE(wrap_i16, int32_t)

/* ---- fill, iota, gather ---- */

#define FILL(dtype, T) \
    static void \
    strip_fill_##dtype(void *result, const void *first, int64_t n) \
    { \
        T *out = result; \
        T value = *(const T *)first; \
        EACH(value) \
    }

FILL(bool, uint8_t)
FILL(i32, int32_t)
FILL(i64, int64_t)
FILL(f32, float)
FILL(f64, double)
FILL(c64, uint64_t)
FILL(c128, dlc_c128)

static void
strip_iota_i64(int64_t *out, int64_t start, int64_t step, int64_t n)
{
    EACH(start + i * step)
}

static int
strip_check_index(const int64_t *index, int64_t size, int wrap, int64_t *out, int64_t n)
{
    uint64_t bad = 0;

    for (int64_t i = 0; i < n; i++) {
        int64_t k = index[i] + (wrap && index[i] < 0 ? size : 0);

        bad |= (uint64_t)k >= (uint64_t)size;
        out[i] = k;
    }
    return bad != 0;
}

/* Which of n consecutive indices is the value. */
static void
strip_one_hot(void *result, const int64_t *value, int64_t start, int64_t n)
{
    uint8_t *out = result;
    EACH(0)
    uint64_t at = (uint64_t)*value - (uint64_t)start;
    if (at < (uint64_t)n) {
        out[at] = 1;
    }
}

#define GATHER(bytes, T) \
    static void \
    strip_gather_##bytes(void *result, const void *first, const int64_t *index, int64_t scale, \
                         int64_t n) \
    { \
        T *out = result; \
        const T *base = first; \
        EACH(base[index[i] * scale]) \
    }

GATHER(1, uint8_t)
GATHER(2, uint16_t)
GATHER(4, uint32_t)
GATHER(8, uint64_t)
GATHER(16, dlc_c128)

/* ---- updates: two indices may be equal ---- */

#define UPDATE(name, T, expr) \
    static void \
    strip_update_##name(void *base, const int64_t *index, int64_t scale, const void *values, int64_t n) \
    { \
        T *out = base; \
        const T *v = values; \
        for (int64_t i = 0; i < n; i++) { \
            T *to = &out[index[i] * scale]; \
            *to = expr; \
        } \
    }

#define UPDATES(dtype, T) \
    UPDATE(store_##dtype, T, v[i]) \
    UPDATE(amax_##dtype, T, apply_maximum_##dtype(*to, v[i])) \
    UPDATE(amin_##dtype, T, apply_minimum_##dtype(*to, v[i]))
#define UPDATES_NUM(dtype, T) \
    UPDATES(dtype, T) \
    UPDATE(sum_##dtype, T, apply_add_##dtype(*to, v[i])) \
    UPDATE(prod_##dtype, T, apply_mul_##dtype(*to, v[i]))

UPDATES(bool, uint8_t)
UPDATES_NUM(i32, int32_t)
UPDATES_NUM(i64, int64_t)
UPDATES_NUM(f32, float)
UPDATES_NUM(f64, double)
UPDATE(store_c64, uint64_t, v[i])
UPDATE(store_c128, dlc_c128, v[i])

/* ---- chains: each element waits for the one before it ---- */

#define RUN(name, T) \
    static void \
    strip_run_##name(void *result, const void *first, void *carry, int64_t n) \
    { \
        T *out = result, run = *(T *)carry; \
        const T *a = first; \
        for (int64_t i = 0; i < n; i++) { \
            out[i] = run = apply_##name(run, a[i]); \
        } \
        *(T *)carry = run; \
    }

#define RUNS(dtype, T) \
    RUN(maximum_##dtype, T) \
    RUN(minimum_##dtype, T)
#define RUNS_NUM(dtype, T) \
    RUNS(dtype, T) \
    RUN(add_##dtype, T) \
    RUN(mul_##dtype, T)

RUNS(bool, uint8_t)
RUNS_NUM(i32, int32_t)
RUNS_NUM(i64, int64_t)
RUNS_NUM(f32, float)
RUNS_NUM(f64, double)
RUN(logaddexp_f32, float)
RUN(logaddexp_f64, double)

/* ---- transposes ---- */

#define TURN(bytes) \
    static void \
    strip_turn_##bytes(void *out, const void *from, int64_t step, int64_t rows, int64_t columns) \
    { \
        dlc_turn_##bytes(out, from, step, rows, columns); \
    }

TURN(1)
TURN(2)
TURN(4)
TURN(8)
TURN(16)

/* ---- reductions of one block ---- */

/* The lanes of a block: `step` for each element, then those that are left. */
#define EACH_LANE(step, unrolling) \
    for (; i + 16 <= n; i += 16) { \
        unrolling \
        for (int k = 0; k < 16; k++) { \
            step \
        } \
    } \
    for (int k = 0; i + k < n; k++) { \
        step \
    }

#define REDUCE(name, T, unrolling) \
    static T \
    strip_reduce_##name(const T *a, int64_t n) \
    { \
        T lanes[16]; \
        for (int k = 0; k < 16; k++) { \
            lanes[k] = dlc_identity_##name(); \
        } \
        int64_t i = 0; \
        EACH_LANE(lanes[k] = dlc_combine_##name(lanes[k], a[i + k]);, unrolling) \
        return dlc_lanes_##name(lanes); \
    }

/* The largest or smallest of floats, with NaN looked for beside the lanes. */
#define EXTREME_BEGIN(dtype) dlc_size_##dtype sizes[16] = {0};
#define EXTREME_STEP(name, dtype, T, value) \
    T v = value; \
    lanes[k] = dlc_combine_further_##name(lanes[k], v); \
    sizes[k] = dlc_size_seen_##dtype(sizes[k], v);

#define EXTREME(name, dtype, T) \
    static T \
    strip_reduce_##name(const T *a, int64_t n) \
    { \
        T lanes[16]; \
        for (int k = 0; k < 16; k++) { \
            lanes[k] = dlc_identity_##name(); \
        } \
        int64_t i = 0; \
        EXTREME_BEGIN(dtype) \
        EACH_LANE(EXTREME_STEP(name, dtype, T, a[i + k]), LANES) \
        return dlc_lanes_beside_##name(lanes, sizes); \
    }

/* The same of what an operation makes, see pairs.def. */
#define BEGIN_sum
#define STEP_sum(value) lanes[k] = dlc_combine_sum_f32(lanes[k], value);
#define END_sum(lanes) dlc_lanes_sum_f32(lanes)
#define BEGIN_amax EXTREME_BEGIN(f32)
#define STEP_amax(value) EXTREME_STEP(amax_f32, f32, float, value)
#define END_amax(lanes) dlc_lanes_beside_amax_f32(lanes, sizes)

#define FOLD2(red, strip, apply) \
    static float \
    strip_fold_##red##_##strip(const void *first, const void *second, int64_t n, \
                               unsigned scalars) \
    { \
        const float *a = first, a0 = *a, *b = second, b0 = *b; \
        float lanes[16]; \
        for (int k = 0; k < 16; k++) { \
            lanes[k] = dlc_identity_##red##_f32(); \
        } \
        int64_t i = 0; \
        BEGIN_##red \
        if (scalars & 1) { \
            EACH_LANE(STEP_##red(apply(a0, b[i + k])), LANES) \
        } \
        else if (scalars & 2) { \
            EACH_LANE(STEP_##red(apply(a[i + k], b0)), LANES) \
        } \
        else { \
            EACH_LANE(STEP_##red(apply(a[i + k], b[i + k])), LANES) \
        } \
        return END_##red(lanes); \
    }

#define PAIR(first, second, side)
#define SQUARE(first)
#define THEN(arity, first, second)
#define CHOOSE(first, mirrored)
#define FOLD(red, arity, strip) FOLD##arity(red, strip##_f32, apply_##strip##_f32)
#include "pairs.def"

/* The extreme, then the first element that equals it; a NaN equals nothing and comes first. */
#define REDUCE_ARG(name, value_name, T) \
    static int64_t \
    strip_reduce_##name(const T *a, int64_t n, T *best) \
    { \
        T extreme = strip_reduce_##value_name(a, n); \
        int32_t first = 0x7fffffff; \
        for (int32_t i = 0; i < (int32_t)n; i++) { \
            int32_t miss = (a[i] != extreme) & (a[i] == a[i]), hit = i | (-miss & 0x7fffffff); \
            first = hit < first ? hit : first; \
        } \
        *best = a[first]; \
        return first; \
    }

#define REDUCES(dtype, T) \
    REDUCE(sum_##dtype, T, ) \
    REDUCE(prod_##dtype, T, ) \
    REDUCE_ARG(argmax_##dtype, amax_##dtype, T) \
    REDUCE_ARG(argmin_##dtype, amin_##dtype, T)

EXTREME(amax_f32, f32, float)
EXTREME(amin_f32, f32, float)
EXTREME(amax_f64, f64, double)
EXTREME(amin_f64, f64, double)
REDUCE(amax_i32, int32_t, LANES)
REDUCE(amin_i32, int32_t, LANES)
REDUCE(amax_i64, int64_t, LANES)
REDUCE(amin_i64, int64_t, LANES)
REDUCES(f32, float)
REDUCES(f64, double)
REDUCES(i32, int32_t)
REDUCES(i64, int64_t)
REDUCE(any_bool, uint8_t, LANES)
REDUCE(all_bool, uint8_t, LANES)
REDUCE(amax_bool, uint8_t, LANES)
REDUCE(amin_bool, uint8_t, LANES)

/* ---- the table ---- */

#define ROW(name) {"strip_" #name, (StripFn)strip_##name},
#define ROWS_CAST(name)
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
#define ROWS_STORAGE(name) \
    ROW(name##_bool) ROW(name##_u8) ROW(name##_i8) ROW(name##_i16) ROW(name##_i32) \
    ROW(name##_i64) ROW(name##_f16) ROW(name##_bf16) ROW(name##_f32) ROW(name##_f64) \
    ROWS_PART(name)

#define TABLE(isa) TABLE_(isa)
#define TABLE_(isa) strip_rows_##isa

static void
strip_prefetch(const void *from, int64_t bytes)
{
    for (int64_t k = 0; k < bytes; k += 64) {
        __builtin_prefetch((const char *)from + k, 0, 2);
    }
}

const StripRow TABLE(DLC_ISA)[] = {
#define PAIR(first, second, side) ROW(pair_##first##_##second##_##side##_f32)
#define SQUARE(first) ROW(square_##first##_f32)
#define THEN(arity, first, second) ROW(then_##first##_##second##_f32)
#define CHOOSE(first, mirrored) ROW(choose_##first##_f32)
#define FOLD(red, arity, strip) ROW(fold_##red##_##strip##_f32)
#include "pairs.def"
#define MAP(name, arity, rule, flags, cost, expr) ROWS_##rule(name)
#include "../ir/ops.def"
    ROWS_SAME(cast_bool) ROWS_SAME(cast_i32) ROWS_SAME(cast_i64) ROWS_SAME(cast_f32)
    ROWS_SAME(cast_f64) ROWS_STORAGE(load) ROWS_STORAGE(store) ROW(round_f16) ROW(round_bf16)
    ROW(wrap_u8) ROW(wrap_i8) ROW(wrap_i16) ROWS_SAME(fill) ROWS_PART(fill) ROW(iota_i64) ROW(prefetch)
    ROW(check_index) ROW(one_hot) ROW(clamp_f32) ROWS_SAME(update_store) ROWS_PART(update_store) ROWS_SAME(update_amax)
    ROWS_SAME(update_amin) ROWS_NUM(update_sum) ROWS_NUM(update_prod)
    ROWS_SAME(run_maximum) ROWS_SAME(run_minimum) ROWS_NUM(run_add) ROWS_NUM(run_mul)
    ROWS_FLOAT(run_logaddexp)
    ROW(turn_1) ROW(turn_2) ROW(turn_4) ROW(turn_8) ROW(turn_16) ROW(gather_1) ROW(gather_2) ROW(gather_4) ROW(gather_8) ROW(gather_16)
    ROWS_NUM(reduce_sum) ROWS_NUM(reduce_prod) ROWS_SAME(reduce_amax) ROWS_SAME(reduce_amin) ROWS_NUM(reduce_argmax)
    ROWS_NUM(reduce_argmin) ROW(reduce_any_bool) ROW(reduce_all_bool)
    {0, 0},
};
