/* Strips that go through their elements in an order: recurrences and reductions; included by
 * strips_isa.c. */

/* ---- recurrences: each element waits for the one before it ---- */

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

/* The lanes of a block: `step` for each element, then those that are left; `before` a step of
 * all. */
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
        return dlc_lanes_checked_##name(lanes, sizes); \
    }

/* Memory that a coming block is in, while this one is gone through: from the fifth bit of scalars
 * on, how many bytes ahead. */
#define PREFETCH_AFTER(a) __builtin_prefetch((const char *)((a) + i) + (scalars >> 4));

/* The same of what an operation makes, see fused.def. */
#define BEGIN_sum
#define STEP_sum(value) lanes[k] = dlc_combine_sum_f32(lanes[k], value);
#define END_sum(lanes) dlc_lanes_sum_f32(lanes)
#define BEGIN_amax EXTREME_BEGIN(f32)
#define STEP_amax(value) EXTREME_STEP(amax_f32, f32, float, value)
#define END_amax(lanes) dlc_lanes_checked_amax_f32(lanes, sizes)

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
            EACH_LANE_AFTER(PREFETCH_AFTER(a), STEP_##red(apply(a[i + k], b0)), LANES) \
        } \
        else { \
            EACH_LANE(STEP_##red(apply(a[i + k], b[i + k])), LANES) \
        } \
        return END_##red(lanes); \
    }

#define FOLD(red, arity, strip) FOLD##arity(red, strip##_f32, apply_##strip##_f32)
#include "fused.def"

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

/* Sixteen elements that begin a multiple of sixteen after `a`, or the last ones, each with its
 * place. */
#define STEP_PLACES(value_name, set, from, count) \
    LANES \
    for (int k = 0; k < count; k++) { \
        float v = a[from + k]; \
        places[set][k] = dlc_place_##value_name(places[set][k], (int32_t)(from) + k, \
                                                lanes[set][k], v); \
        lanes[set][k] = dlc_combine_further_##value_name(lanes[set][k], v); \
        sizes[set][k] = dlc_size_seen_f32(sizes[set][k], v); \
    }

/* Of a long row of floats each lane keeps where its element is, two sets of lanes side by side
 * (emit_cc_arg.c). */
enum { LONG_ROW = 128 };
#define REDUCE_ARG_FLOAT(name, value_name) \
    REDUCE_ARG(short_##name, value_name, float) \
    static int64_t \
    strip_reduce_##name(const float *a, int64_t n, float *best) \
    { \
        if (n < LONG_ROW) { \
            return strip_reduce_short_##name(a, n, best); \
        } \
        float lanes[2][16]; \
        dlc_size_f32 sizes[2][16], places[2][16]; \
        for (int set = 0; set < 2; set++) { \
            for (int k = 0; k < 16; k++) { \
                lanes[set][k] = dlc_identity_##value_name(); \
                sizes[set][k] = 0; \
                places[set][k] = k; \
            } \
        } \
        int64_t i = 0; \
        for (; i + 32 <= n; i += 32) { \
            STEP_PLACES(value_name, 0, i, 16) \
            STEP_PLACES(value_name, 1, i + 16, 16) \
        } \
        for (; i + 16 <= n; i += 16) { \
            STEP_PLACES(value_name, 0, i, 16) \
        } \
        STEP_PLACES(value_name, 0, i, (int)(n - i)) \
        dlc_lanes_join_##value_name(lanes[0], sizes[0], places[0], lanes[1], sizes[1], places[1]); \
        int64_t at = dlc_lanes_place_##value_name(lanes[0], sizes[0], places[0], best); \
        at = at < 0 ? dlc_find_nan_f32(a, *best, n) : at; \
        *best = a[at]; \
        return at; \
    }

#define REDUCES(dtype, T) \
    REDUCE(sum_##dtype, T, ) \
    REDUCE(prod_##dtype, T, )

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
REDUCE_ARG_FLOAT(argmax_f32, amax_f32)
REDUCE_ARG_FLOAT(argmin_f32, amin_f32)
REDUCE_ARG(argmax_f64, amax_f64, double)
REDUCE_ARG(argmin_f64, amin_f64, double)
REDUCE_ARG(argmax_i32, amax_i32, int32_t)
REDUCE_ARG(argmin_i32, amin_i32, int32_t)
REDUCE_ARG(argmax_i64, amax_i64, int64_t)
REDUCE_ARG(argmin_i64, amin_i64, int64_t)
REDUCE(any_bool, uint8_t, LANES)
REDUCE(all_bool, uint8_t, LANES)
REDUCE(amax_bool, uint8_t, LANES)
REDUCE(amin_bool, uint8_t, LANES)
