/* Strips that go through their elements in an order: chains and reductions; included by strips_isa.c. */

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

/* ---- reductions of one block ---- */

/* The lanes of a block: `step` for each element, then those that are left; `before` a step of all. */
#define EACH_LANE(step, unrolling) EACH_LANE_AFTER(, step, unrolling)
#define EACH_LANE_AFTER(before, step, unrolling) \
    for (; i + 16 <= n; i += 16) { \
        before \
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

/* Memory that a coming block is in, while this one is gone through: from the fifth bit of scalars on, how many
 * bytes ahead. */
#define ASK(a) __builtin_prefetch((const char *)((a) + i) + (scalars >> 4));

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
            EACH_LANE_AFTER(ASK(a), STEP_##red(apply(a[i + k], b0)), LANES) \
        } \
        else { \
            EACH_LANE(STEP_##red(apply(a[i + k], b[i + k])), LANES) \
        } \
        return END_##red(lanes); \
    }

#define FOLD(red, arity, strip) FOLD##arity(red, strip##_f32, apply_##strip##_f32)
#include "pairs.def"

/* The extreme, then the first element that equals it; a NaN equals nothing and comes first.  A long row is looked
 * through up to there: a fifth less time, but of float alone, as each takes two kilobytes. */
enum { LONG_ROW = 512, FINDS_f32 = 1, FINDS_f64 = 0, FINDS_i32 = 0, FINDS_i64 = 0 };

#define REDUCE_ARG(name, value_name, dtype, T) \
    static int64_t \
    strip_reduce_##name(const T *a, int64_t n, T *best) \
    { \
        T extreme = strip_reduce_##value_name(a, n); \
        int64_t at = 0; \
        if (FINDS_##dtype && n >= LONG_ROW) { \
            at = dlc_find_##dtype(a, extreme, n); \
        } \
        else { \
            int32_t first = 0x7fffffff; \
            for (int32_t i = 0; i < (int32_t)n; i++) { \
                int32_t miss = (a[i] != extreme) & (a[i] == a[i]), hit = i | (-miss & 0x7fffffff); \
                first = hit < first ? hit : first; \
            } \
            at = first; \
        } \
        *best = a[at]; \
        return at; \
    }

#define REDUCES(dtype, T) \
    REDUCE(sum_##dtype, T, ) \
    REDUCE(prod_##dtype, T, ) \
    REDUCE_ARG(argmax_##dtype, amax_##dtype, dtype, T) \
    REDUCE_ARG(argmin_##dtype, amin_##dtype, dtype, T)

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

#define ROWS_REDUCE \
    ROWS_SAME(run_maximum) ROWS_SAME(run_minimum) ROWS_NUM(run_add) ROWS_NUM(run_mul) ROWS_FLOAT(run_logaddexp) \
    ROWS_NUM(reduce_sum) ROWS_NUM(reduce_prod) ROWS_SAME(reduce_amax) ROWS_SAME(reduce_amin) \
    ROWS_NUM(reduce_argmax) ROWS_NUM(reduce_argmin) ROW(reduce_any_bool) ROW(reduce_all_bool)
