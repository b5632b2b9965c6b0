/* The functions of each dtype of micro.def: chains of a product for the kernels of its sums. */

#define LOAD_f32(x) x
#define LOAD_f64(x) x
#define LOAD_i32(x) x
#define LOAD_i64(x) x
#define LOAD_u8(x) x
#define LOAD_i8(x) x
#define LOAD_i16(x) x
#define LOAD_bytes_of_u8(x) x
#define LOAD_bytes_of_i8(x) x
#define LOAD_words_of_u8(x) x
#define LOAD_words_of_i8(x) x
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

/* The offset in A of element q of a sum: within its run, plus the run within its group, plus the
 * group. */
static inline int64_t
place_of(const MicroProduct *x, int64_t q)
{
    if (!x->a_run) {
        return q * x->a_k;
    }
    int64_t number = q / x->a_run;
    return q % x->a_run * x->a_k + number % x->a_runs * x->a_next + number / x->a_runs * x->a_jump;
}

/* to[i][q] = the element number p + q of the sum of row i of A, q < n, in rows of to_row elements:
 * run by run. */
#define GATHER(dtype, S, T) \
    static void \
    gather_##dtype(T *restrict to, int64_t to_row, const MicroProduct *x, int64_t p, int64_t n) \
    { \
        const S *a = x->a; \
        for (int64_t q = x->a_from + p, end = q + n, length; q < end; q += length, to += length) { \
            int64_t left = x->a_run ? x->a_run - q % x->a_run : n; \
            length = left < end - q ? left : end - q; \
            widen_##dtype(to, to_row, a + place_of(x, q), x->rows, length, x->a_row, x->a_k); \
        } \
    }

/* The runs of the steps p .. p + n - 1 of a row of A; returns how many. */
static int64_t
runs_of(const MicroProduct *x, int64_t p, int64_t n, Run *runs)
{
    int64_t count = 0;
    if (!x->a_run || !n) {
        runs[0] = (Run){p * x->a_k, n};
        return 1;
    }
    for (int64_t q = x->a_from + p, end = q + n; q < end; q += runs[count++].k) {
        int64_t left = x->a_run - q % x->a_run;
        runs[count] = (Run){place_of(x, q), left < end - q ? left : end - q};
    }
    return count;
}

/* Do more rows of A share a set of the first-level cache than it has lines?  Each line would then
 * be evicted before all elements of it are used. */
static bool
is_crowded(const MicroProduct *x, int bytes, int64_t height)
{
    const uint64_t distance = (uint64_t)x->a_row * (uint64_t)bytes | DLC_SAME_SET;
    const int64_t rows = x->rows < height ? x->rows : height;
    return rows * (int64_t)(distance & -distance) > DLC_WAYS * DLC_SAME_SET;
}

/* Chains from p on, of n steps.  With k = 0 there is one, of no steps, for the zeros of a tile. */
#define EACH_CHAIN(p, n, k, more) \
    for (int64_t p = 0, n; n = (k) - p < MICRO_CHAIN ? (k) - p : MICRO_CHAIN, \
        p < (k) || (p == 0 && !(more)); \
         p += MICRO_CHAIN)

/* Are the columns of B transposed in registers, and not packed?  A kernel has `few` rows. */
static bool
is_transposed(const MicroProduct *x, int bytes, int64_t few)
{
    return x->a_k == 1 && x->b_k == 1 && x->b_column != 1 &&
           (x->rows <= DLC_TRANSPOSED_ROWS || x->rows <= 2 * few) && x->k % (16 / bytes) == 0;
}

/* By how many bytes each step of the sums of each panel goes on in what is prefetched; a panel has
 * `full` columns. */
static int64_t
prefetched_by_step(const MicroProduct *x, int64_t full)
{
    const int64_t steps = x->k * ((x->columns + full - 1) / full);
    return x->prefetched && steps ? (x->prefetched_bytes + steps - 1) / steps : 0;
}

#define FUNCTIONS(dtype, S, s, narrow) \
    static void \
    pack_##dtype(int64_t k, int64_t columns, const void *b_, int64_t k_stride, \
        int64_t column_stride, void *panel) \
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
    /* Some p at a time: rows of a panel as they are in memory, which are copied then. */ \
    static void \
    pack_scattered_##dtype(const MicroScatter *x) \
    { \
        const S *b = x->b; \
        sum_##s rows[SCATTERED * MICRO_COLUMNS(sum_##s)] __attribute__((aligned(64))), \
            *to = x->panel; \
        if (x->each_stride != 1 || x->k_stride != x->each || x->each > SCATTERED) { \
            for (int64_t e = 0; e < x->each; e++, to += x->rows * MICRO_COLUMNS(sum_##s)) { \
                pack_##dtype(x->k, x->columns, b + e * x->each_stride, x->k_stride, \
                    x->column_stride, to); \
            } \
            return; \
        } \
        const int64_t most = x->each * EVEN <= SCATTERED ? EVEN : SCATTERED / x->each; \
        for (int64_t p = 0, n; p < x->k; p += n, to += n * MICRO_COLUMNS(sum_##s)) { \
            n = x->k - p < most ? x->k - p : most; \
            pack_##dtype(n * x->each, x->columns, b + p * x->k_stride, 1, x->column_stride, rows); \
            for (int64_t e = 0; e < x->each; e++) { \
                for (int64_t q = 0; q < n; q++) { \
                    memcpy(to + (e * x->rows + q) * MICRO_COLUMNS(sum_##s), \
                           rows + (q * x->each + e) * MICRO_COLUMNS(sum_##s), PANEL_ROW); \
                } \
            } \
        } \
    } \
    static void \
    micro_##dtype(const MicroProduct *x) \
    { \
        const S *a = x->a; \
        const char *b = x->b; \
        sum_##s copy[MICRO_ROWS * COPY_ROW(sum_##s)] __attribute__((aligned(64))); \
        Run runs[MOST_RUNS]; \
        const bool copied = narrow || is_crowded(x, (int)sizeof(sum_##s), HEIGHT_##s) || \
            (x->a_run && (x->a_run < SHORT_RUN || single_##s(x->rows))); \
        const int64_t panel = x->b_panel * (int)sizeof(sum_##s); \
        Chain c = {.rows = x->rows, .row_stride = copied ? COPY_ROW(sum_##s) : x->a_row, \
                   .k_stride = copied ? 1 : x->a_k, \
                   .b_step = PANEL_ROW, .b_panel = panel, .out_row = x->tile_row, \
                   .first = x->first && panel, .runs = runs, .result_row = x->result_row, \
                   .prefetched = x->prefetched, \
                   .prefetched_step = prefetched_by_step(x, MICRO_COLUMNS(sum_##s))}; \
        EACH_CHAIN(p, n, x->k, x->more) { \
            c.k = n; \
            c.nruns = copied ? 1 : runs_of(x, p, n, runs); \
            c.result = p + n == x->k ? x->result : NULL; \
            c.mode = p || x->more ? ADD : BEGIN; \
            if (copied) { \
                runs[0] = (Run){0, n}; \
                gather_##dtype(copy, COPY_ROW(sum_##s), x, p, n); \
            } \
            panels_##s(&c, copied ? (const void *)copy : a, b + p * PANEL_ROW, x->tile, \
                x->columns); \
        } \
    } \
    /* A chain for the columns of one panel, packed some steps at a time: what is packed stays in \
     * the first-level cache.  What the tile holds already must not be touched before the end of \
     * the chain: its sums are kept aside until then. */ \
    static void \
    packed_##dtype(const Chain *chain, const MicroProduct *x, const void *a, const S *b, \
        sum_##s *out) \
    { \
        const int64_t full = MICRO_COLUMNS(sum_##s); \
        sum_##s aside[128 / sizeof(sum_##s) * MICRO_ROWS]; \
        sum_##s panel[128 / sizeof(sum_##s) * STEPS] __attribute__((aligned(64))); \
        const bool add = chain->mode == ADD && chain->k > STEPS; \
        Run run = {0, 0}; \
        Chain c = *chain; \
        c.runs = &run; \
        c.b_step = PANEL_ROW; \
        c.out_row = add ? full : chain->out_row; \
        c.mode = add ? BEGIN : chain->mode; \
        for (int64_t p = 0; p < chain->k || (p == 0 && chain->k == 0); p += STEPS) { \
            c.k = run.k = chain->k - p < STEPS ? chain->k - p : STEPS; \
            pack_##dtype(c.k, c.columns, b + p * x->b_k, x->b_k, x->b_column, panel); \
            heights_##s(&c, (const sum_##s *)a + p * c.k_stride, panel, add ? aside : out); \
            c.mode = CONTINUE; \
        } \
        for (int64_t i = 0; i < x->rows && add; i++) { \
            for (int64_t j = 0; j < c.columns; j++) { \
                out[i * x->tile_row + j] += aside[i * full + j]; \
            } \
        } \
    } \
    /* Columns first .. first + columns - 1, chain by chain.  Where they are adjacent, a panel's \
     * are read in place. */ \
    static void \
    columns_##dtype(const MicroProduct *x, int64_t first, int64_t columns, bool transposed) \
    { \
        const S *a = x->a, *b = (const S *)x->b + first * x->b_column; \
        sum_##s copy[narrow ? MICRO_ROWS * MICRO_CHAIN : 1], *tile = (sum_##s *)x->tile + first; \
        const int64_t full = MICRO_COLUMNS(sum_##s), row = x->b_k * (int)sizeof(S); \
        const int64_t whole = !narrow && x->b_column == 1 ? columns - columns % full : 0; \
        Run run = {0, 0}; \
        Chain c = {.rows = x->rows, .row_stride = narrow ? MICRO_CHAIN : x->a_row, \
                   .k_stride = narrow ? 1 : x->a_k, .runs = &run, .nruns = 1, .b_step = row, \
                   .b_panel = PANEL_ROW, .out_row = x->tile_row}; \
        EACH_CHAIN(p, n, x->k, x->more) { \
            const void *from = narrow ? (const void *)copy : a + p * x->a_k; \
            const S *rows = b + p * x->b_k; \
            c.k = run.k = n; \
            c.mode = p || x->more ? ADD : BEGIN; \
            if (narrow) { \
                widen_##dtype(copy, MICRO_CHAIN, a + p * x->a_k, x->rows, n, x->a_row, x->a_k); \
            } \
            panels_##s(&c, from, (const char *)rows, tile, whole); \
            if (transposed) { \
                c.columns = columns; \
                in_place_##s(&c, from, (const void *)rows, x->b_column, tile); \
            } \
            for (int64_t j = transposed ? columns : whole; j < columns; j += full) { \
                c.columns = columns - j < full ? columns - j : full; \
                packed_##dtype(&c, x, from, rows + j * x->b_column, tile + j); \
            } \
        } \
    } \
    /* Columns whose elements of k are adjacent are read from end to end: those of a panel at a \
     * time, and for few rows as many as are transposed together.  The last ones of these may be \
     * done twice, unless they are added to the tile. */ \
    static void \
    micro_unpacked_##dtype(const MicroProduct *x) \
    { \
        const int64_t full = MICRO_COLUMNS(sum_##s), least = VECTOR / (int)sizeof(sum_##s); \
        const bool few = !narrow && is_transposed(x, (int)sizeof(sum_##s), FEW_##s); \
        for (int64_t j = 0, n; j < x->columns; j += n) { \
            n = x->columns - j < full || narrow || x->b_k != 1 ? x->columns - j : full; \
            const bool transposed = few && (n == full || (n >= least && !x->more)); \
            int64_t step = transposed ? together_##s(x->b_column, n) : n; \
            for (int64_t q = 0; q < n; q += step) { \
                columns_##dtype(x, j + (q + step <= n ? q : n - step), step, transposed); \
            } \
        } \
    }

/* Where the steps p .. p + n - 1 of a row of A are. */
static void
places_of(const MicroProduct *x, int64_t p, int64_t n, int64_t *at)
{
    for (int64_t q = 0; q < n; q++) {
        at[q] = place_of(x, x->a_from + p + q);
    }
}

#define EACH(dtype, S, s, narrow) \
    /* Some columns at a time of operands that are widened, row by row. */ \
    static void \
    each_widened_##dtype(const Each *each, const S *a, const S *b, sum_##s *out) \
    { \
        const int64_t full = MICRO_COLUMNS(sum_##s); \
        sum_##s of_a[narrow ? MICRO_CHAIN * MICRO_COLUMNS(sum_##s) : 1]; \
        sum_##s of_b[narrow ? MICRO_CHAIN * MICRO_COLUMNS(sum_##s) : 1]; \
        int64_t at[MICRO_CHAIN]; \
        Each part = *each; \
        part.rows = 1, part.b_k = full, part.at = at; \
        for (int64_t p = 0; p < each->k; p++) { \
            at[p] = p * full; \
        } \
        for (int64_t j = 0; j < each->columns; j += full) { \
            part.columns = each->columns - j < full ? each->columns - j : full; \
            widen_##dtype(of_b, full, b + j, each->k, part.columns, each->b_k, 1); \
            for (int64_t i = 0; i < each->rows; i++) { \
                for (int64_t p = 0; p < each->k; p++) { \
                    widen_##dtype(of_a + p * full, full, a + i * each->a_row + each->at[p] + j, \
                        1, part.columns, 0, 1); \
                } \
                each_##s(&part, of_a, of_b, out + i * each->out_row + j); \
            } \
        } \
    } \
    static void \
    micro_each_##dtype(const MicroProduct *x) \
    { \
        int64_t at[MICRO_CHAIN]; \
        Each each = {.rows = x->rows, .columns = x->columns, .a_row = x->a_row, .b_k = x->b_k, \
                     .out_row = x->tile_row, \
                     .at = at}; \
        EACH_CHAIN(p, n, x->k, x->more) { \
            const S *b = (const S *)x->b + p * x->b_k; \
            each.k = n; \
            each.mode = p || x->more ? ADD : BEGIN; \
            places_of(x, p, n, at); \
            if (narrow) { \
                each_widened_##dtype(&each, x->a, b, x->tile); \
            } \
            else { \
                each_##s(&each, x->a, (const void *)b, x->tile); \
            } \
        } \
    }

#include "micro_bytes.h"

#define IS_NARROW(S, s) (!__builtin_types_compatible_p(S, sum_##s))
#define PANEL_SUMS(dtype, S, s) \
    GATHER(dtype, S, sum_##s) \
    FUNCTIONS(dtype, S, s, IS_NARROW(S, s))
#define PANEL_BYTES(dtype, S, s) BYTE_FUNCTIONS(dtype, S, (S)-1 < 0)
#define MICRO(dtype, S, s, columns, panel) \
    _Static_assert(columns == MICRO_COLUMNS(sum_##s), "as many columns as sums are in 128 bytes"); \
    WIDEN(dtype, S, sum_##s) \
    PANEL_##panel(dtype, S, s) \
    EACH(dtype, S, s, IS_NARROW(S, s))
#include "micro.def"

#define TABLE(isa) TABLE_(isa)
#define TABLE_(isa) micro_##isa
const Micro TABLE(DLC_ISA)[] = {
#define MICRO(dtype, S, s, columns, panel) \
    {#dtype, micro_##dtype, micro_unpacked_##dtype, micro_each_##dtype, pack_##dtype, \
     pack_scattered_##dtype},
#include "micro.def"
    {0},
};
