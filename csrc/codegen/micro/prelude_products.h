/* The microkernels of micro.h as text for a unit of portable C, which has functions of its own.
 *
 * A line of dashes with a word begins a part, which a unit has if it uses the word, see
 * micro_portable.c.  DTYPE, TYPE, X86 and ARM become f32, float, ps and 4s, or f64, double, pd and
 * 2d.  A compiler that has vectors (GNU C, for a processor with fused multiply-adds, or where a
 * multiply-add is two operations) keeps the sums of several rows in registers.  For others the
 * inner loop goes over columns.  The bits are the same. */

/* ---- DLC_VECTOR_BYTES ---- */
#ifndef DLC_VECTOR_BYTES
#if !defined(__GNUC__) || defined(DLC_PLAIN)
#define DLC_VECTOR_BYTES 0
#elif !DLC_HAS_FMA && (defined(__SSE2__) || defined(__wasm_simd128__))
#define DLC_VECTOR_BYTES 16
#elif DLC_HAS_FMA && defined(__AVX512F__)
#define DLC_VECTOR_BYTES 64
#elif DLC_HAS_FMA && defined(__AVX2__) && defined(__FMA__)
#define DLC_VECTOR_BYTES 32
#elif DLC_HAS_FMA && defined(__aarch64__)
#define DLC_VECTOR_BYTES 16
#else
#define DLC_VECTOR_BYTES 0
#endif
#endif
#if DLC_VECTOR_BYTES && defined(__clang__)
#define DLC_UNROLL _Pragma("clang loop unroll(full)")
#elif DLC_VECTOR_BYTES
#define DLC_UNROLL _Pragma("GCC unroll 8")
#endif

/* ---- DLC_SHUFFLE ---- */
#if DLC_VECTOR_BYTES && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define DLC_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
#endif

/* ---- dlc_run_DTYPE ---- */
enum {
#if DLC_VECTOR_BYTES
    DLC_WIDE_DTYPE = DLC_VECTOR_BYTES / sizeof(TYPE), /* elements of a vector */
#else
    DLC_WIDE_DTYPE = 16 / sizeof(TYPE),
#endif
    DLC_PANEL_DTYPE = 128 / sizeof(TYPE), /* columns of a panel */
    DLC_HALF_DTYPE = DLC_PANEL_DTYPE / 2
};

/* The sums are stored, or added to those that are there, or continue them. */
enum { DLC_STORE_DTYPE, DLC_ADD_DTYPE, DLC_CONTINUE_DTYPE };

/* Where element q of a row of A is.  The next ones are a_k apart; *run: how many of them. */
static inline int64_t
dlc_run_DTYPE(const MicroProduct *x, int64_t q, int64_t *run)
{
    if (x->a_run == 0) {
        return q * x->a_k;
    }
    const int64_t from = x->a_from + q, in = from % x->a_run, row = from / x->a_run;
    *run = *run < x->a_run - in ? *run : x->a_run - in;
    return in * x->a_k + row % x->a_runs * x->a_next + row / x->a_runs * x->a_jump;
}

/* ---- dlc_rows_DTYPE ---- */
#if DLC_VECTOR_BYTES
typedef TYPE dlc_vec_DTYPE
    __attribute__((vector_size(DLC_VECTOR_BYTES), aligned(sizeof(TYPE)), may_alias));

static inline dlc_vec_DTYPE
dlc_fma_vec_DTYPE(dlc_vec_DTYPE a, dlc_vec_DTYPE b, dlc_vec_DTYPE c)
{
#if !DLC_HAS_FMA
    return a * b + c;
#else
#if defined(__aarch64__)
    __asm__("fmla %0.ARM, %1.ARM, %2.ARM" : "+w"(c) : "w"(a), "w"(b));
#else
    __asm__("vfmadd231X86 %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
#endif
    return c;
#endif
}

/* Terms q .. q+k-1 of R rows and V vectors of columns; the sums are in registers. */
static inline __attribute__((always_inline)) void
dlc_chain_DTYPE(const int R, const int V, const MicroProduct *x, const TYPE *a, int64_t q,
                int64_t k, const TYPE *b, int64_t b_k, TYPE *out, int64_t out_row, int mode)
{
    const int64_t row = x->a_row, step = x->a_k;
    dlc_vec_DTYPE sum[6][8], y[8];
    DLC_UNROLL for (int i = 0; i < R; i++) {
        DLC_UNROLL for (int j = 0; j < V; j++) {
            const dlc_vec_DTYPE *from = (const dlc_vec_DTYPE *)(out + i * out_row) + j;
            sum[i][j] = mode == DLC_CONTINUE_DTYPE ? *from : (dlc_vec_DTYPE){0};
        }
    }
    while (k > 0) {
        int64_t run = k;
        const TYPE *from = a + dlc_run_DTYPE(x, q, &run), *next = from + 3 * row;
        for (int64_t p = 0; p < run; p++) {
            DLC_UNROLL for (int j = 0; j < V; j++) {
                y[j] = *((const dlc_vec_DTYPE *)b + j);
            }
            DLC_UNROLL for (int i = 0; i < R; i++) {
                const TYPE *at = i < 3 ? from + i * row : next + (i - 3) * row;
                const dlc_vec_DTYPE all = *at - (dlc_vec_DTYPE){0};
                DLC_UNROLL for (int j = 0; j < V; j++) {
                    sum[i][j] = dlc_fma_vec_DTYPE(all, y[j], sum[i][j]);
                }
            }
            from += step;
            next += step;
            b += b_k;
        }
        q += run;
        k -= run;
    }
    DLC_UNROLL for (int i = 0; i < R; i++) {
        DLC_UNROLL for (int j = 0; j < V; j++) {
            dlc_vec_DTYPE *to = (dlc_vec_DTYPE *)(out + i * out_row) + j;
            if (mode == DLC_ADD_DTYPE) {
                sum[i][j] += *to;
            }
            *to = sum[i][j];
        }
    }
}
#else
static void
dlc_chain_DTYPE(int R, int V, const MicroProduct *x, const TYPE *a, int64_t q, int64_t k,
                const TYPE *b, int64_t b_k, TYPE *out, int64_t out_row, int mode)
{
    for (int i = 0; i < R; i++) {
        TYPE sum[DLC_PANEL_DTYPE], *to = out + i * out_row;
        for (int j = 0; j < V * DLC_WIDE_DTYPE; j++) {
            sum[j] = mode == DLC_CONTINUE_DTYPE ? to[j] : 0;
        }
        const TYPE *of = b;
        for (int64_t done = 0, run; done < k; done += run) {
            run = k - done;
            const TYPE *from = a + i * x->a_row + dlc_run_DTYPE(x, q + done, &run);
            for (int64_t p = 0; p < run; p++, of += b_k) {
                for (int j = 0; j < V * DLC_WIDE_DTYPE; j++) {
                    sum[j] = DLC_FMA(from[p * x->a_k], of[j], sum[j]);
                }
            }
        }
        for (int j = 0; j < V * DLC_WIDE_DTYPE; j++) {
            to[j] = mode == DLC_ADD_DTYPE ? to[j] + sum[j] : sum[j];
        }
    }
}
#endif

#define DLC_CHAIN_DTYPE(rows, columns) \
    dlc_chain_DTYPE(rows, columns, x, from, q, k, of, b_k, to, out_row, mode); \
    break

/* All rows with the columns of half a panel, or of a whole one. */
static void
dlc_rows_DTYPE(const MicroProduct *x, int64_t q, int64_t k, const TYPE *b, int64_t b_k, int whole,
               TYPE *out, int64_t out_row, int mode)
{
    enum { V = DLC_HALF_DTYPE / DLC_WIDE_DTYPE, MOST = V > 2 ? 4 : 6 };
    const TYPE *a = x->a;
    for (int64_t i = 0, rows; i < x->rows; i += rows) {
        const int64_t left = x->rows - i;
        rows = left < MOST ? left : MOST;
        while (left > rows && left - rows != 3 && left - rows < 5) {
            rows--;
        }
        for (int j = 0; j < (whole ? 2 : 1); j++) {
            const TYPE *from = a + i * x->a_row, *of = b + j * DLC_HALF_DTYPE;
            TYPE *to = out + i * out_row + j * DLC_HALF_DTYPE;
            if (whole && rows <= 3 && V <= 2) {
                switch (rows) {
                case 1:
                    DLC_CHAIN_DTYPE(1, 2 * V);
                case 2:
                    DLC_CHAIN_DTYPE(2, 2 * V);
                default:
                    DLC_CHAIN_DTYPE(3, 2 * V);
                }
                break;
            }
            switch (rows) {
            case 1:
                DLC_CHAIN_DTYPE(1, V);
            case 2:
                DLC_CHAIN_DTYPE(2, V);
            case 3:
                DLC_CHAIN_DTYPE(3, V);
            case 4:
                DLC_CHAIN_DTYPE(4, V);
            case 5:
                DLC_CHAIN_DTYPE(5, V);
            default:
                DLC_CHAIN_DTYPE(6, V);
            }
        }
    }
}

/* ---- dlc_micro_DTYPE ---- */
/* The rows by panels. */
static void
dlc_micro_DTYPE(const MicroProduct *x)
{
    for (int64_t j = 0; j < x->columns; j += DLC_PANEL_DTYPE) {
        const TYPE *b = (const TYPE *)x->b + j / DLC_PANEL_DTYPE * x->b_panel;
        int64_t q = 0;
        do {
            const int64_t k = x->k - q < 256 ? x->k - q : 256;
            dlc_rows_DTYPE(x, q, k, b + q * DLC_PANEL_DTYPE, DLC_PANEL_DTYPE, 1,
                           (TYPE *)x->tile + j, x->tile_row,
                           x->more || q ? DLC_ADD_DTYPE : DLC_STORE_DTYPE);
            q += k;
        } while (q < x->k);
    }
}

/* ---- dlc_square_f32 ---- */
#ifdef DLC_SHUFFLE
/* Transposes 4 x 4 elements. */
static inline void
dlc_square_f32(const float *from, int64_t row, float *to, int64_t column)
{
    typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
    const Four a = *(const Four *)from, b = *(const Four *)(from + row),
               c = *(const Four *)(from + 2 * row), d = *(const Four *)(from + 3 * row),
               ab = DLC_SHUFFLE(a, b, 0, 4, 1, 5), cd = DLC_SHUFFLE(c, d, 0, 4, 1, 5),
               ab_high = DLC_SHUFFLE(a, b, 2, 6, 3, 7), cd_high = DLC_SHUFFLE(c, d, 2, 6, 3, 7);
    *(Four *)to = DLC_SHUFFLE(ab, cd, 0, 1, 4, 5);
    *(Four *)(to + column) = DLC_SHUFFLE(ab, cd, 2, 3, 6, 7);
    *(Four *)(to + 2 * column) = DLC_SHUFFLE(ab_high, cd_high, 0, 1, 4, 5);
    *(Four *)(to + 3 * column) = DLC_SHUFFLE(ab_high, cd_high, 2, 3, 6, 7);
}
#endif

/* ---- dlc_square_f64 ---- */
#ifdef DLC_SHUFFLE
/* Transposes 2 x 2 elements. */
static inline void
dlc_square_f64(const double *from, int64_t row, double *to, int64_t column)
{
    typedef double Two __attribute__((vector_size(16), aligned(8), may_alias));
    const Two a = *(const Two *)from, b = *(const Two *)(from + row);
    *(Two *)to = DLC_SHUFFLE(a, b, 0, 2);
    *(Two *)(to + column) = DLC_SHUFFLE(a, b, 1, 3);
}
#endif

/* ---- dlc_panel_DTYPE ---- */
/* k steps of some columns become rows of `width` elements, with zeros behind them. */
static void
dlc_panel_DTYPE(int k, int columns, int width, const TYPE *b, int64_t k_stride,
                int64_t column_stride, TYPE *panel)
{
    enum { SIDE = 16 / sizeof(TYPE) };
    int in_squares = 0, steps = 0;
#ifdef DLC_SHUFFLE
    in_squares = k_stride == 1 && column_stride != 1 ? columns / SIDE * SIDE : 0;
    steps = in_squares ? k / SIDE * SIDE : 0;
    for (int j = 0; j < in_squares; j += SIDE) {
        for (int p = 0; p < steps; p += SIDE) {
            dlc_square_DTYPE(b + j * column_stride + p, column_stride, panel + p * width + j,
                             width);
        }
    }
#endif
    for (int p = 0; p < k; p++) {
        for (int j = p < steps ? in_squares : 0; j < columns; j++) {
            panel[p * width + j] = b[p * k_stride + j * column_stride];
        }
        for (int j = columns; j < width; j++) {
            panel[p * width + j] = 0;
        }
    }
}

/* ---- dlc_pack_DTYPE ---- */
static void
dlc_pack_DTYPE(int64_t k, int64_t columns, const void *b, int64_t k_stride, int64_t column_stride,
               void *panel)
{
    dlc_panel_DTYPE((int)k, (int)columns, 128 / sizeof(TYPE), b, k_stride, column_stride, panel);
}

/* ---- dlc_pack_scattered_DTYPE ---- */
/* The same of a sum whose order is another one in memory, a few rows of the panel at a time: rows
 * of all e may be at a distance at which they evict each other from the cache. */
static void
dlc_pack_scattered_DTYPE(const MicroScatter *x)
{
    enum { WIDTH = 128 / sizeof(TYPE), ROWS = 16 };
    for (int64_t p = 0; p < x->k; p += ROWS) {
        const int rows = x->k - p < ROWS ? (int)(x->k - p) : ROWS;
        for (int64_t e = 0; e < x->each; e++) {
            const TYPE *from = (const TYPE *)x->b + p * x->k_stride + e * x->each_stride;
            TYPE *to = (TYPE *)x->panel + (e * x->rows + p) * WIDTH;
            for (int j = 0; j < WIDTH; j++) {
                const TYPE *column = from + (j < x->columns ? j * x->column_stride : 0);
                for (int i = 0; i < rows; i++) {
                    to[i * WIDTH + j] = j < x->columns ? column[i * x->k_stride] : 0;
                }
            }
        }
    }
}

/* ---- dlc_micro_unpacked_DTYPE ---- */
/* The rows by columns in place.  Those that are not adjacent, and the last ones, are packed, some
 * steps at a time. */
static void
dlc_micro_unpacked_DTYPE(const MicroProduct *x)
{
    enum { STEPS = 32, WIDTH = DLC_HALF_DTYPE };
    const TYPE *b = x->b;
    for (int64_t j = 0; j < x->columns; j += WIDTH) {
        const int64_t columns = x->columns - j < WIDTH ? x->columns - j : WIDTH;
        TYPE *tile = (TYPE *)x->tile + j;
        int64_t q = 0;
        do {
            const int64_t k = x->k - q < 256 ? x->k - q : 256;
            const int mode = x->more || q ? DLC_ADD_DTYPE : DLC_STORE_DTYPE;
            const TYPE *from = b + q * x->b_k + j * x->b_column;
            if (x->b_column == 1 && columns == WIDTH) {
                dlc_rows_DTYPE(x, q, k, from, x->b_k, 0, tile, x->tile_row, mode);
            } else {
                TYPE part[14 * WIDTH], panel[STEPS * WIDTH];
                int64_t p = 0;
                do {
                    const int64_t steps = k - p < STEPS ? k - p : STEPS;
                    dlc_panel_DTYPE((int)steps, (int)columns, WIDTH, from + p * x->b_k, x->b_k,
                                    x->b_column, panel);
                    dlc_rows_DTYPE(x, q + p, steps, panel, WIDTH, 0, part, WIDTH,
                                   p ? DLC_CONTINUE_DTYPE : DLC_STORE_DTYPE);
                    p += steps;
                } while (p < k);
                for (int64_t i = 0; i < x->rows; i++) {
                    for (int64_t c = 0; c < columns; c++) {
                        TYPE *to = tile + i * x->tile_row + c;
                        const TYPE one = part[i * WIDTH + c];
                        *to = mode == DLC_ADD_DTYPE ? *to + one : one;
                    }
                }
            }
            q += k;
        } while (q < x->k);
    }
}

/* ---- dlc_micro_each_DTYPE ---- */
/* Each column has elements of the rows of its own, which are adjacent too. */
static void
dlc_micro_each_DTYPE(const MicroProduct *x)
{
    enum { WIDTH = DLC_HALF_DTYPE };
    for (int64_t i = 0; i < x->rows; i++) {
        for (int64_t j = 0; j < x->columns; j += WIDTH) {
            const int64_t columns = x->columns - j < WIDTH ? x->columns - j : WIDTH;
            const TYPE *a = (const TYPE *)x->a + i * x->a_row + j, *b = (const TYPE *)x->b + j;
            TYPE *to = (TYPE *)x->tile + i * x->tile_row + j;
            int64_t q = 0;
            do {
                const int64_t k = x->k - q < 256 ? x->k - q : 256;
                TYPE sum[WIDTH] = {0};
                for (int64_t p = 0, run; p < k; p += run) {
                    run = k - p;
                    const TYPE *from = a + dlc_run_DTYPE(x, q + p, &run);
                    for (int64_t r = 0; r < run; r++, from += x->a_k) {
                        const TYPE *of = b + (q + p + r) * x->b_k;
                        if (columns == WIDTH) {
                            for (int c = 0; c < WIDTH; c++) {
                                sum[c] = DLC_FMA(from[c], of[c], sum[c]);
                            }
                        } else {
                            for (int c = 0; c < columns; c++) {
                                sum[c] = DLC_FMA(from[c], of[c], sum[c]);
                            }
                        }
                    }
                }
                for (int64_t c = 0; c < columns; c++) {
                    to[c] = x->more || q ? to[c] + sum[c] : sum[c];
                }
                q += k;
            } while (q < x->k);
        }
    }
}
