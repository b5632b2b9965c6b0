/* The functions of each dtype of micro.def: blocks of a product for the kernels of its sums. */

#define LOAD_f32(x) x
#define LOAD_f64(x) x
#define LOAD_i32(x) x
#define LOAD_i64(x) x
#define LOAD_u8(x) x
#define LOAD_i8(x) x
#define LOAD_i16(x) x
#define LOAD_bf16(x) dlc_load_bf16(x)
#define LOAD_f16(x) dlc_load_f16(x)
typedef float sum_f32;
typedef double sum_f64;
typedef int32_t sum_i32;
typedef int64_t sum_i64;

/* to[i][p] = from[i * row_stride + p * k_stride], in rows of STEPS or more. */
#define WIDEN(dtype, S, T) \
    static void \
    widen_##dtype(T *restrict to, int64_t to_row, const S *restrict from, int64_t rows, int64_t k, \
                  int64_t row_stride, int64_t k_stride) \
    { \
        for (int64_t i = 0; i < rows; i++, to += to_row, from += row_stride) { \
            if (k_stride == 1) { \
                for (int64_t p = 0; p < k; p++) { \
                    to[p] = (T)LOAD_##dtype(from[p]); \
                } \
            } \
            else { \
                for (int64_t p = 0; p < k; p++) { \
                    to[p] = (T)LOAD_##dtype(from[p * k_stride]); \
                } \
            } \
        } \
    }

/* With k = 0 there is one block, of no steps, for the zeros of the tile. */
#define EACH_BLOCK(p, n, steps) \
    for (int64_t p = 0, n; n = k - p < (steps) ? k - p : (steps), p < k || (p == 0 && !more); p += (steps))

#define FUNCTIONS(dtype, S, s, narrow) \
    static void \
    micro_##dtype(int64_t rows, int64_t k, const void *a_, int64_t row_stride, int64_t k_stride, const void *panel, \
                  void *tile, int64_t more, const void *next) \
    { \
        const S *a = a_; \
        const sum_##s *b = panel; \
        sum_##s aside[narrow ? 128 / sizeof(sum_##s) * MICRO_ROWS : 1], wide[narrow ? MICRO_ROWS * STEPS : 1]; \
        Product x = {k, more, tile, aside}; \
        Chain c = {.rows = rows, .row_stride = narrow ? STEPS : row_stride, .k_stride = narrow ? 1 : k_stride, \
                   .out_row = MICRO_COLUMNS(sum_##s), .next = next ? (const char *)next - (const char *)panel : AHEAD}; \
        EACH_BLOCK(p, n, narrow ? STEPS : MICRO_CHAIN) { \
            c.k = n; \
            if (narrow) { \
                widen_##dtype(wide, STEPS, a + p * k_stride, rows, n, row_stride, k_stride); \
            } \
            block_##s(&c, &x, p, narrow ? wide : (const sum_##s *)(const void *)(a + p * k_stride), \
                      b + p * MICRO_COLUMNS(sum_##s)); \
        } \
    } \
    static void \
    pack_##dtype(int64_t k, int64_t columns, const void *b_, int64_t k_stride, int64_t column_stride, void *panel) \
    { \
        const S *b = b_; \
        sum_##s wide[narrow ? MICRO_COLUMNS(sum_##s) * STEPS : 1], *to = panel; \
        if (!narrow) { \
            pack_sums_##s(k, columns, b, k_stride, column_stride, panel); \
            return; \
        } \
        for (int64_t p = 0; p < k; p += STEPS) { \
            int64_t n = k - p < STEPS ? k - p : STEPS; \
            widen_##dtype(wide, STEPS, b + p * k_stride, columns, n, column_stride, k_stride); \
            pack_sums_##s(n, columns, wide, 1, STEPS, to + p * MICRO_COLUMNS(sum_##s)); \
        } \
    } \
    static void \
    micro_rows_##dtype(int64_t rows, int64_t k, const void *a_, int64_t row_stride, const void *b_, \
                       int64_t b_row_stride, int64_t columns, void *tile, int64_t more) \
    { \
        const S *a = a_, *b = b_; \
        sum_##s aside[128 / sizeof(sum_##s) * MICRO_ROWS], wide[narrow ? MICRO_ROWS * STEPS : 1]; \
        sum_##s panel[128 / sizeof(sum_##s) * STEPS] __attribute__((aligned(64))); \
        Product x = {k, more, tile, aside}; \
        Chain c = {.rows = rows, .row_stride = narrow ? STEPS : row_stride, .k_stride = 1, .distance = b_row_stride, \
                   .out_row = MICRO_COLUMNS(sum_##s)}; \
        const int64_t side = 16 / sizeof(sum_##s); \
        bool lies = !narrow && rows <= LYING_ROWS && columns == MICRO_COLUMNS(sum_##s); \
        for (int64_t p = 0; p < k || (p == 0 && !more); p += c.k ? c.k : 1) { \
            int64_t left = k - p; \
            const sum_##s *from = narrow ? wide : (const sum_##s *)(const void *)(a + p); \
            c.lying = lies && left >= side; \
            if (c.lying) { \
                c.k = left < MICRO_CHAIN ? left - left % side : MICRO_CHAIN; \
                block_##s(&c, &x, p, from, (const sum_##s *)(const void *)(b + p)); \
                continue; \
            } \
            c.k = left < STEPS ? left : STEPS; \
            if (narrow) { \
                widen_##dtype(wide, STEPS, a + p, rows, c.k, row_stride, 1); \
            } \
            pack_##dtype(c.k, columns, b + p, 1, b_row_stride, panel); \
            block_##s(&c, &x, p, from, panel); \
        } \
    } \
    static void \
    micro_wide_##dtype(int64_t rows, int64_t k, const void *a_, int64_t row_stride, int64_t k_stride, \
                       const void *panels, int64_t count, int64_t distance, void *tile, int64_t more) \
    { \
        const S *a = a_; \
        const sum_##s *b = panels; \
        sum_##s wide[narrow ? MICRO_ROWS * MICRO_CHAIN : 1], *to = tile; \
        Chain c = {.rows = rows, .row_stride = narrow ? MICRO_CHAIN : row_stride, .k_stride = narrow ? 1 : k_stride, \
                   .distance = distance, .out_row = count * MICRO_COLUMNS(sum_##s), .next = STREAM_AHEAD}; \
        int64_t together = rows <= FULL_##s ? PANELS(rows) : 1; \
        EACH_BLOCK(p, n, MICRO_CHAIN) { \
            const sum_##s *from = narrow ? wide : (const sum_##s *)(const void *)(a + p * k_stride); \
            c.k = n; \
            c.mode = p || more ? ADD : BEGIN; \
            if (narrow) { \
                widen_##dtype(wide, MICRO_CHAIN, a + p * k_stride, rows, n, row_stride, k_stride); \
            } \
            for (int64_t j = 0; j < count;) { \
                const sum_##s *at = b + j * distance + p * MICRO_COLUMNS(sum_##s); \
                bool several = together > 1 && j + together <= count; \
                if (several) { \
                    severals_##s[rows](&c, from, at, to + j * MICRO_COLUMNS(sum_##s)); \
                } \
                else { \
                    heights_##s(&c, from, at, to + j * MICRO_COLUMNS(sum_##s)); \
                } \
                j += several ? together : 1; \
            } \
        } \
    }

#define IS_NARROW(S, s) (!__builtin_types_compatible_p(S, sum_##s))
#define MICRO(dtype, S, s, columns) \
    _Static_assert(columns == MICRO_COLUMNS(sum_##s), "128 bytes"); \
    WIDEN(dtype, S, sum_##s) \
    FUNCTIONS(dtype, S, s, IS_NARROW(S, s))
#include "micro.def"

#define TABLE(isa) TABLE_(isa)
#define TABLE_(isa) micro_##isa
const Micro TABLE(DLC_ISA)[] = {
#define MICRO(dtype, S, s, columns) {#dtype, micro_##dtype, micro_wide_##dtype, micro_rows_##dtype, pack_##dtype},
#include "micro.def"
    {0},
};
