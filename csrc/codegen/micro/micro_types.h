/* The functions of each dtype of micro.def: chains of a product for the kernels of its sums. */

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

/* to[i][p] = from[i * row_stride + p * k_stride], in rows of to_row elements. */
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

/* Chains from p on, of n steps.  With k = 0 there is one, of no steps, for the zeros of the tile. */
#define EACH_CHAIN(p, n, k, more) \
    for (int64_t p = 0, n; n = (k) - p < MICRO_CHAIN ? (k) - p : MICRO_CHAIN, p < (k) || (p == 0 && !(more)); \
         p += MICRO_CHAIN)

#define FUNCTIONS(dtype, S, s, narrow) \
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
    micro_##dtype(const MicroProduct *x) \
    { \
        const S *a = x->a; \
        const char *b = x->b; \
        sum_##s copy[narrow ? MICRO_ROWS * MICRO_CHAIN : 1]; \
        const int64_t full = MICRO_COLUMNS(sum_##s), panel = x->b_panel * (int)sizeof(sum_##s); \
        Chain c = {.rows = x->rows, .row_stride = narrow ? MICRO_CHAIN : x->a_row, .k_stride = narrow ? 1 : x->a_k, \
                   .b_step = PANEL_ROW, .b_panel = panel, .out_row = x->tile_row, \
                   .next = x->first ? panel : ROWS_AHEAD * PANEL_ROW}; \
        EACH_CHAIN(p, n, x->k, x->more) { \
            const void *from = narrow ? (const void *)copy : a + p * x->a_k; \
            c.k = n; \
            c.mode = p || x->more ? ADD : BEGIN; \
            if (narrow) { \
                widen_##dtype(copy, MICRO_CHAIN, a + p * x->a_k, x->rows, n, x->a_row, x->a_k); \
            } \
            panels_##s(&c, from, b + p * PANEL_ROW, x->tile, (x->columns + full - 1) / full); \
        } \
    } \
    /* A chain of as many columns as a panel has, or fewer, with B in place: what squares do not make is packed. */ \
    static void \
    unpacked_##dtype(const Chain *chain, const MicroProduct *x, const sum_##s *a, const S *b, int64_t columns, \
                     sum_##s *out) \
    { \
        const int64_t full = MICRO_COLUMNS(sum_##s), line = 64 / sizeof(sum_##s); \
        sum_##s aside[128 / sizeof(sum_##s) * MICRO_ROWS]; \
        sum_##s panel[128 / sizeof(sum_##s) * STEPS] __attribute__((aligned(64))); \
        const bool squares = !narrow && x->b_k == 1 && x->rows <= TRANSPOSED_ROWS && columns == full; \
        const int64_t done = squares ? chain->k - chain->k % line : 0; \
        const bool whole = done == chain->k || (done == 0 && chain->k <= STEPS), add = chain->mode == ADD; \
        sum_##s *to = whole || !add ? out : aside; \
        Chain c = *chain; \
        if (to == aside) { \
            c.out_row = full; \
            c.mode = BEGIN; \
        } \
        if (done) { \
            c.k = done; \
            c.b_step = x->b_column * (int)sizeof(S); \
            transposed_##s(&c, a, (const char *)b, to); \
            c.mode = CONTINUE; \
        } \
        c.b_step = PANEL_ROW; \
        c.next = ROWS_AHEAD * PANEL_ROW; \
        for (int64_t p = done; p < chain->k || (p == 0 && chain->k == 0); p += STEPS) { \
            c.k = chain->k - p < STEPS ? chain->k - p : STEPS; \
            pack_##dtype(c.k, columns, b + p * x->b_k, x->b_k, x->b_column, panel); \
            heights_##s(&c, a + p * c.k_stride, panel, to); \
            c.mode = CONTINUE; \
        } \
        for (int64_t i = 0; i < x->rows && to == aside; i++) { \
            for (int64_t j = 0; j < full; j++) { \
                out[i * x->tile_row + j] += aside[i * full + j]; \
            } \
        } \
    } \
    static void \
    micro_unpacked_##dtype(const MicroProduct *x) \
    { \
        const S *a = x->a, *b = x->b; \
        const bool in_place = !narrow && (x->a_k == 1 || x->b_k != 1); \
        sum_##s copy[MICRO_ROWS * MICRO_CHAIN], *tile = x->tile; \
        const int64_t full = MICRO_COLUMNS(sum_##s), row = x->b_k * (int)sizeof(S); \
        const int64_t panels = !narrow && x->b_column == 1 ? x->columns / full : 0; \
        Chain c = {.rows = x->rows, .row_stride = in_place ? x->a_row : MICRO_CHAIN, .k_stride = in_place ? x->a_k : 1, \
                   .b_step = row, .b_panel = PANEL_ROW, .next = ROWS_AHEAD * row, .out_row = x->tile_row}; \
        EACH_CHAIN(p, n, x->k, x->more) { \
            const void *from = in_place ? (const void *)(a + p * x->a_k) : copy; \
            const S *rows = b + p * x->b_k; \
            c.k = n; \
            c.mode = p || x->more ? ADD : BEGIN; \
            if (!in_place) { \
                widen_##dtype(copy, MICRO_CHAIN, a + p * x->a_k, x->rows, n, x->a_row, x->a_k); \
            } \
            panels_##s(&c, from, (const char *)rows, tile, panels); \
            for (int64_t j = panels * full; j < x->columns; j += full) { \
                int64_t columns = x->columns - j < full ? x->columns - j : full; \
                unpacked_##dtype(&c, x, from, rows + j * x->b_column, columns, tile + j); \
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
#define MICRO(dtype, S, s, columns) {#dtype, micro_##dtype, micro_unpacked_##dtype, pack_##dtype},
#include "micro.def"
    {0},
};
