/* Strips that take a step of the loop around with them; included by strips_isa.c.
 *
 * What: reductions down the rows of a tile, reductions of halves, scans of several rows,
 * comparisons of indices.  How: several rows a pass, so that what they are added to is loaded and
 * stored once for all, and sums of rows that do not wait for each other.  Why not one row a call:
 * then the calls and the memory traffic of the sum cost more than the additions. */

/* ---- halves as they are read ---- */

#define READ_f32(v) (v)
#define READ_f64(v) (v)
#define READ_bf16(v) dlc_load_bf16(v)
#define READ_f16(v) dlc_load_f16(v)
#define SQUARE_OF(v) ((v) * (v))

/* The sixteen from `from` on, for a loop over lanes in which `element` is one of them; see
 * DLC_WIDE_BF16. */
#define WIDE_f32(from)
#define WIDE_f64(from)
#define WIDE_bf16(from) DLC_WIDE_BF16(wide, from);
#define WIDE_f16(from)
#define LANE_f32(element) (element)
#define LANE_f64(element) (element)
#define LANE_bf16(element) DLC_WIDENED(wide[k], dlc_load_bf16(element))
#define LANE_f16(element) dlc_load_f16(element)

/* ---- down the rows: one after the other into the sum of their column ---- */

/* `together` rows, of whose second operand each is one element where scalar is not 0. */
#define DOWN_PASS(name, A, T, read, combine, expr) \
    static inline __attribute__((always_inline)) void down_##name( \
        T *sum, const A *a, int64_t a_step, const T *b, int64_t b_step, int scalar, int together, \
        int64_t n) \
    { \
        T each[8]; \
        for (int r = 0; r < together; r++) { \
            each[r] = b[r * b_step]; \
        } \
        INDEPENDENT \
        for (int64_t i = 0; i < n; i++) { \
            T s = sum[i]; \
            _Pragma("GCC unroll 8") for (int r = 0; r < together; r++) \
            { \
                T x = read(a[r * a_step + i]), y = scalar ? each[r] : b[r * b_step + i]; \
                (void)y; \
                s = combine(s, expr); \
            } \
            sum[i] = s; \
        } \
    }

/* Rows a pass, of all operands.  That many streams side by side are as fast from memory as with
 * what comes next prefetched, in any of a dozen ways (64 MiB of random numbers, rows of 1 KB, 4 KB,
 * or 256 KB apart: 1.5 to 1.6 ms; 1.5 to 2.5), and a tenth to a quarter faster from caches. */
enum { DOWN_TOGETHER = 8 };

#define DOWN_ROWS(name, A, T, scalar, many) \
    for (; rows >= many; rows -= many, a += many * a_step, b += many * b_step) { \
        down_##name(sum, a, a_step, b, b_step, scalar, many, n); \
    } \
    for (; rows > 0; rows--, a += a_step, b += b_step) { \
        down_##name(sum, a, a_step, b, b_step, scalar, 1, n); \
    }

/* Of one operand, which is all that expr reads, or of two. */
#define DOWN(name, operands, A, T, read, combine, expr) \
    DOWN_PASS(name, A, T, read, combine, expr) \
    static void strip_down_##name(void *result, const void *first, int64_t a_step, \
                                  const void *second, int64_t b_step, int64_t rows, int64_t n, \
                                  unsigned scalars) \
    { \
        static const T nothing[1]; \
        T *sum = result; \
        const A *a = first; \
        const T *b = operands == 1 ? nothing : second; \
        b_step = operands == 1 ? 0 : b_step; \
        if (operands == 1 || scalars & 2) { \
            DOWN_ROWS(name, A, T, 1, DOWN_TOGETHER / operands) \
        } else { \
            DOWN_ROWS(name, A, T, 0, DOWN_TOGETHER / operands) \
        } \
    }

#define DOWNS(dtype, A, compute, T) \
    DOWN(sum_load_##dtype, 1, A, T, READ_##dtype, apply_add_##compute, x) \
    DOWN(sum_square_sub_##dtype, 2, A, T, READ_##dtype, apply_add_##compute, SQUARE_OF(x - y))

DOWNS(f32, float, f32, float)
DOWNS(f64, double, f64, double)
DOWNS(bf16, uint16_t, f32, float)
DOWN(sum_square_f32, 1, float, float, READ_f32, apply_add_f32, SQUARE_OF(x))
DOWN(sum_mul_f32, 2, float, float, READ_f32, apply_add_f32, x * y)
DOWN(amax_load_f32, 1, float, float, READ_f32, apply_maximum_f32, x)
DOWN(amin_load_f32, 1, float, float, READ_f32, apply_minimum_f32, x)

/* ---- the same of rows that lie anywhere ---- */

enum { GATHERED = 8 };                    /* rows a pass */

#define GATHER_ROWS(name, A, T, read, combine) \
    static inline __attribute__((always_inline)) void gather_##name(T *sum, const A *const *rows, \
                                                                    int together, int64_t n) \
    { \
        INDEPENDENT \
        for (int64_t i = 0; i < n; i++) { \
            T s = sum[i]; \
            _Pragma("GCC unroll 8") for (int r = 0; r < together; r++) \
            { \
                s = combine(s, read(rows[r][i])); \
            } \
            sum[i] = s; \
        } \
    } \
    static void strip_gathered_##name(void *result, const void *first, const int64_t *at, \
                                      int64_t step, int64_t rows, int64_t n) \
    { \
        const A *a = first, *gathered[GATHERED]; \
        for (; rows >= GATHERED; rows -= GATHERED, at += GATHERED) { \
            for (int r = 0; r < GATHERED; r++) { \
                gathered[r] = a + at[r] * step; \
            } \
            gather_##name(result, gathered, GATHERED, n); \
        } \
        for (; rows > 0; rows--, at++) { \
            gathered[0] = a + at[0] * step; \
            gather_##name(result, gathered, 1, n); \
        } \
    }

/* Prefetches rows of this many bytes, each of which begins at an index. */
static void
strip_prefetch_rows(const void *first, const int64_t *at, int64_t step, int64_t rows, int64_t bytes)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t k = 0; k < bytes; k += 64) {
            __builtin_prefetch(
                (const void *)((__UINTPTR_TYPE__)first + (uint64_t)(at[r] * step + k)));
        }
    }
}

GATHER_ROWS(sum_f32, float, float, READ_f32, apply_add_f32)
GATHER_ROWS(sum_f64, double, double, READ_f64, apply_add_f64)
GATHER_ROWS(sum_bf16, uint16_t, float, READ_bf16, apply_add_f32)
GATHER_ROWS(amax_f32, float, float, READ_f32, apply_maximum_f32)
GATHER_ROWS(amin_f32, float, float, READ_f32, apply_minimum_f32)


/* ---- a block of a row, of dtypes and operations that the strips of fused.def are not of ---- */

#define ALONG(form, dtype, A, T, compute, expr) \
    static T strip_along_sum_##form##_##dtype(const void *first, const void *second, int64_t n, \
                                              unsigned scalars) \
    { \
        const A *a = first; \
        const T *b = second, y = scalars & 2 ? *b : 0; \
        T lanes[16]; \
        (void)y; \
        for (int k = 0; k < 16; k++) { \
            lanes[k] = dlc_identity_sum_##compute(); \
        } \
        int64_t i = 0; \
        for (; i + 16 <= n; i += 16) { \
            PREFETCH_AFTER(a) \
            WIDE_##dtype(a + i) LANES for (int k = 0; k < 16; k++) \
            { \
                T x = LANE_##dtype(a[i + k]); \
                lanes[k] = dlc_combine_sum_##compute(lanes[k], expr); \
            } \
        } \
        for (int k = 0; i + k < n; k++) { \
            T x = READ_##dtype(a[i + k]); \
            lanes[k] = dlc_combine_sum_##compute(lanes[k], expr); \
        } \
        return dlc_lanes_sum_##compute(lanes); \
    }
#define ALONGS(dtype, A, T, compute) \
    ALONG(square, dtype, A, T, compute, SQUARE_OF(x)) \
    ALONG(square_sub, dtype, A, T, compute, SQUARE_OF(x - y))

ALONGS(f64, double, double, f64)
ALONGS(f16, uint16_t, float, f32)
ALONGS(bf16, uint16_t, float, f32)
ALONG(load, f32, float, float, f32, x)
ALONG(load, f64, double, double, f64, x)
ALONG(load, f16, uint16_t, float, f32, x)
ALONG(load, bf16, uint16_t, float, f32, x)


/* ---- scans of up to eight rows ---- */

#define SCAN(name, A, W, step, read, write, at_once) \
    static inline __attribute__((always_inline)) void scan_##name( \
        A *out, int64_t out_step, int64_t out_row, const A *a, int64_t a_step, int64_t a_row, \
        W start, int64_t n, int count) \
    { \
        W run[8]; \
        for (int r = 0; r < count; r++) { \
            run[r] = start; \
        } \
        for (int64_t i = 0; i < n; i++, a += a_step, out += out_step) { \
            _Pragma("GCC unroll 8") for (int r = 0; r < count; r++) \
            { \
                run[r] = step(run[r], read(a[r * a_row])); \
                out[r * out_row] = write(run[r]); \
            } \
        } \
    } \
    static void strip_scan_##name(void *result, int64_t out_step, int64_t out_row, \
                                  const void *first, int64_t a_step, int64_t a_row, \
                                  const void *start, int64_t n, int64_t rows, int nontemporal) \
    { \
        A *out = result; \
        const A *a = first; \
        W from = *(const W *)start; \
        if (rows == 8) { \
            at_once(name) scan_##name(out, out_step, out_row, a, a_step, a_row, from, n, 8); \
            return; \
        } \
        for (int64_t r = 0; r < rows; r++) { \
            scan_##name(out + r * out_row, out_step, 0, a + r * a_row, a_step, 0, from, n, 1); \
        } \
    }
#define IN_ORDER(name) (void)nontemporal;
#define AT_ONCE(name) \
    if (out_step == 1 && a_step == 1) { \
        dlc_scan_rows_##name(out, out_row, a, a_row, from, n, nontemporal); \
        return; \
    }
#define AS_DOUBLE(v) ((double)(v))
#define AS_FLOAT(v) ((float)(v))
#define AS_READ(v) (v)

SCAN(add_f32, float, double, apply_add_f64, AS_DOUBLE, AS_FLOAT, AT_ONCE)
SCAN(mul_f32, float, double, apply_mul_f64, AS_DOUBLE, AS_FLOAT, AT_ONCE)
SCAN(maximum_f32, float, float, apply_maximum_f32, AS_READ, AS_READ, IN_ORDER)
SCAN(minimum_f32, float, float, apply_minimum_f32, AS_READ, AS_READ, IN_ORDER)
SCAN(add_f64, double, double, apply_add_f64, AS_READ, AS_READ, IN_ORDER)
SCAN(mul_f64, double, double, apply_mul_f64, AS_READ, AS_READ, IN_ORDER)
SCAN(add_i64, int64_t, int64_t, apply_add_i64, AS_READ, AS_READ, IN_ORDER)
SCAN(add_bf16, uint16_t, float, apply_add_f32, dlc_load_bf16, dlc_store_bf16, IN_ORDER)

/* ---- arithmetic of bf16, operands as they are in memory ---- */

/* Bits of kinds: 0 and 1, the operand is bf16 (of one at least); 2 and 3, it is one element. */
#define HALF_BEGIN \
    float *out = result; \
    const float *a = first, *b = second; \
    const uint16_t *c = first, *d = second;
#define HALF_FIRST(op) \
    case 1: EACH(half_##op(dlc_load_bf16(c[i]), b[i])) break; \
    case 3: EACH(half_##op(dlc_load_bf16(c[i]), dlc_load_bf16(d[i]))) break; \
    case 9: { \
        float b0 = *b; \
        EACH(half_##op(dlc_load_bf16(c[i]), b0)) \
        break; \
    }
#define HALF_SECOND(op) \
    case 2: EACH(half_##op(a[i], dlc_load_bf16(d[i]))) break; \
    default: { \
        float a0 = *a; \
        EACH(half_##op(a0, dlc_load_bf16(d[i]))) \
    }
#define HALF_ROUNDED(op) \
    DLC_FN float half_##op(float a, float b) { return dlc_round_bf16(apply_##op##_f32(a, b)); }

/* Either way round it is the same sum or product. */
#define HALF(op) \
    HALF_ROUNDED(op) \
    static void strip_half_##op##_bf16(void *result, const void *first, const void *second, \
                                       int64_t n, unsigned kinds) \
    { \
        if (!(kinds & 1)) { \
            const void *other = first; \
            first = second; \
            second = other; \
            kinds = kinds == 2 ? 1 : 9; \
        } \
        HALF_BEGIN(void) a; \
        switch (kinds) { \
            HALF_FIRST(op) \
        } \
    }

HALF(add)
HALF(mul)
HALF_ROUNDED(sub)

static void
strip_half_sub_bf16(void *result, const void *first, const void *second, int64_t n, unsigned kinds)
{
    HALF_BEGIN
    switch (kinds) {
    HALF_FIRST(sub)
    HALF_SECOND(sub)
    }
}

/* ---- indices compared with one value ---- */

/* From the first index on that is beyond the value, or up to it. */
#define INDICES_FROM(name, last, before) \
    static void strip_index_##name(void *result, const int64_t *value, int64_t start, int64_t n) \
    { \
        uint8_t *out = result; \
        int64_t first = *value < start - last        ? 0 \
                        : *value >= start + n - last ? n \
                                                     : *value - start + last; \
        __builtin_memset(out, before, (uint64_t)first); \
        __builtin_memset(out + first, !before, (uint64_t)(n - first)); \
    }

INDICES_FROM(lt, 0, 1)
INDICES_FROM(le, 1, 1)
INDICES_FROM(gt, 1, 0)
INDICES_FROM(ge, 0, 0)
