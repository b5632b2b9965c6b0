/* The microkernels of micro.h as text for a unit of portable C, which has functions of its own, and
 * the macros of such a unit, of which the compiler or its user decides.
 *
 * A line of dashes with a word begins a part, which a unit has if it uses the word, see
 * micro_portable.c.  DTYPE, TYPE, X86 and ARM become f32, float, ps and 4s, or f64, double, pd and
 * 2d.  A compiler that has vectors (GNU C, for a processor with fused multiply-adds, or where a
 * multiply-add is two operations) keeps the sums of several rows in registers.  For others the
 * inner loop goes over columns.  The bits are the same.
 *
 * DLC_FMA asks for one operation: who compiles the unit says whether it is one.  DLC_INDEPENDENT:
 * the iterations of the loop behind it are; clang would warn of one of which it makes no vectors.
 * DLC_ROLLED: gcc makes vectors of such a loop over lanes, and none of what it has unrolled. */

/* ---- DLC_FMA ---- */
#define DLC_FMA(a, b, c) _Generic((a), float: fmaf, default: fma)(a, b, c)

/* ---- DLC_HAS_FMA ---- */
#ifndef DLC_HAS_FMA
#define DLC_HAS_FMA 1
#endif

/* ---- DLC_INDEPENDENT ---- */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#define DLC_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define DLC_INDEPENDENT _Pragma("GCC ivdep")
#else
#define DLC_INDEPENDENT
#endif

/* ---- DLC_ROLLED ---- */
#if defined(__GNUC__) && !defined(__clang__)
#define DLC_ROLLED _Pragma("GCC unroll 1")
#else
#define DLC_ROLLED
#endif

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
#define DLC_UNROLL _Pragma("GCC unroll 16")
#endif
/* The tallest tile whose sums, and what a step needs, the registers hold: of DLC_WIDTH vectors, of
 * a whole panel, of one vector. */
#if DLC_VECTOR_BYTES == 64
enum { DLC_WIDTH = 2, DLC_HEIGHT = 14, DLC_FULL = 14, DLC_THIN = 14 };
#elif DLC_VECTOR_BYTES == 32
enum { DLC_WIDTH = 2, DLC_HEIGHT = 6, DLC_FULL = 3, DLC_THIN = 14 };
#elif DLC_VECTOR_BYTES && defined(__aarch64__)
enum { DLC_WIDTH = 4, DLC_HEIGHT = 6, DLC_FULL = 2, DLC_THIN = 14 };
#elif DLC_VECTOR_BYTES
enum { DLC_WIDTH = 2, DLC_HEIGHT = 4, DLC_FULL = 1, DLC_THIN = 8 };
#endif

/* ---- DLC_SHUFFLE ---- */
#if DLC_VECTOR_BYTES && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define DLC_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
#endif

/* ---- dlc_run_DTYPE ---- */
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

/* ---- dlc_chain_DTYPE ---- */
enum {
    DLC_PANEL_DTYPE = 128 / sizeof(TYPE), /* columns of a panel */
#if DLC_VECTOR_BYTES
    DLC_LANES_DTYPE = DLC_VECTOR_BYTES / sizeof(TYPE)
#else
    DLC_LANES_DTYPE = 16 / sizeof(TYPE)
#endif
};

/* The sums are stored, or added to those that are there, or continue them. */
enum { DLC_STORE_DTYPE, DLC_ADD_DTYPE, DLC_CONTINUE_DTYPE };

/* Terms q .. q+k-1 of some rows, and of B rows that are b_k elements apart and panels that are
 * b_panel apart.  What is prefetched begins `next` behind B and goes on by next_step. */
typedef struct {
    const MicroProduct *x;
    int64_t q, k, b_k, b_panel, next, next_step;
    int first, mode;
    int64_t out_row;
} dlc_chain_DTYPE;

/* ---- dlc_vec_DTYPE ---- */
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
#endif

/* ---- dlc_rows_DTYPE ---- */
#if DLC_VECTOR_BYTES
/* The sums of R rows and V vectors of columns are in registers.  A pointer goes on behind an empty
 * asm: else it becomes one for each address, more than there are registers for.  For four rows, or
 * four panels, one pointer is enough: an address adds a stride or twice a stride. */
static inline __attribute__((always_inline)) void
dlc_tile_DTYPE(const int R, const int V, const dlc_chain_DTYPE *c, const TYPE *a, const TYPE *b,
               TYPE *out)
{
    enum { PANEL = DLC_PANEL_DTYPE / DLC_LANES_DTYPE, LINE = 64 / sizeof(TYPE) };
    const int64_t row = c->x->a_row, row_3 = 3 * row, step = c->x->a_k, b_k = c->b_k,
                  b_panel = c->b_panel, panel_3 = 3 * b_panel, next_step = c->next_step,
                  out_row = c->out_row;
    const TYPE *next = b + c->next;
    dlc_vec_DTYPE sum[14][8], y[8], z[14];
#define DLC_AT(base, i, stride, three) \
    ((i) % 4 == 3 ? (base) + (three) : (base) + (i) % 4 * (stride))
#define DLC_A(i) (*DLC_AT(rows[(i) / 4], i, row, row_3) - (dlc_vec_DTYPE){0})
#define DLC_B(j) \
    (*((const dlc_vec_DTYPE *)DLC_AT(b, (j) / PANEL, b_panel, panel_3) + (j) % PANEL))
    DLC_UNROLL for (int i = 0; i < R; i++) {
        DLC_UNROLL for (int j = 0; j < V; j++) {
            const dlc_vec_DTYPE *from = (const dlc_vec_DTYPE *)(out + i * out_row) + j;
            sum[i][j] = c->mode == DLC_CONTINUE_DTYPE ? *from : (dlc_vec_DTYPE){0};
        }
    }
    for (int64_t done = 0, run; done < c->k; done += run) {
        run = c->k - done;
        const TYPE *rows[4];
        rows[0] = a + dlc_run_DTYPE(c->x, c->q + done, &run);
        DLC_UNROLL for (int i = 4; i < R; i += 4) {
            rows[i / 4] = rows[0] + i * row;
        }
        for (int64_t p = run; p > 0; p--) {
            DLC_UNROLL for (int j = 0; j < V * DLC_LANES_DTYPE; j += LINE) {
                __builtin_prefetch(DLC_AT(next, j / DLC_PANEL_DTYPE, b_panel, panel_3) +
                                   j % DLC_PANEL_DTYPE, 0, 2);
            }
            if (R < V) { /* the fewer wait in registers */
                DLC_UNROLL for (int i = 0; i < R; i++) {
                    z[i] = DLC_A(i);
                }
                DLC_UNROLL for (int j = 0; j < V; j++) {
                    y[0] = DLC_B(j);
                    DLC_UNROLL for (int i = 0; i < R; i++) {
                        sum[i][j] = dlc_fma_vec_DTYPE(z[i], y[0], sum[i][j]);
                    }
                }
            } else {
                DLC_UNROLL for (int j = 0; j < V; j++) {
                    y[j] = DLC_B(j);
                }
                DLC_UNROLL for (int i = 0; i < R; i++) {
                    z[0] = DLC_A(i);
                    DLC_UNROLL for (int j = 0; j < V; j++) {
                        sum[i][j] = dlc_fma_vec_DTYPE(z[0], y[j], sum[i][j]);
                    }
                }
            }
            DLC_UNROLL for (int i = 0; i < R; i += 4) {
                rows[i / 4] += step;
                __asm__("" : "+r"(rows[i / 4]));
            }
            b += b_k;
            next += next_step;
            __asm__("" : "+r"(b));
            __asm__("" : "+r"(next));
        }
    }
    __asm__("" : "+r"(out)); /* else addresses of its rows wait on the stack */
#undef DLC_A
#undef DLC_B
#undef DLC_AT
    DLC_UNROLL for (int i = 0; i < R; i++) {
        DLC_UNROLL for (int j = 0; j < V; j++) {
            dlc_vec_DTYPE *to = (dlc_vec_DTYPE *)(out + i * out_row) + j;
            if (c->mode == DLC_ADD_DTYPE) {
                sum[i][j] += *to;
            }
            *to = sum[i][j];
        }
    }
}

/* A function for each tile: in one function for all, registers would be chosen for all. */
#define DLC_TILE_DTYPE(R, shape, V, most) \
    static __attribute__((noinline)) void \
    dlc_tile_##shape##R##_DTYPE(const dlc_chain_DTYPE *c, const TYPE *a, const TYPE *b, TYPE *out) \
    { \
        if (R <= most) { \
            dlc_tile_DTYPE(R, V, c, a, b, out); \
        } \
    }
/* Panels that are read at once by R rows: so many sums that none waits for the one before it.  No
 * row has more than 8 sums, and of short vectors one panel has as many. */
#define DLC_PANELS(R) \
    (R <= 2 && DLC_VECTOR_BYTES == 64   ? 4 \
     : R <= 4 && DLC_VECTOR_BYTES == 64 ? 2 \
     : R == 1 && DLC_VECTOR_BYTES == 32 ? 2 \
                                        : 1)
#define DLC_TILES_DTYPE(R) \
    DLC_TILE_DTYPE(R, thin, 1, DLC_THIN) \
    DLC_TILE_DTYPE(R, part, DLC_WIDTH, DLC_HEIGHT) \
    DLC_TILE_DTYPE(R, whole, 128 / DLC_VECTOR_BYTES, DLC_FULL) \
    DLC_TILE_DTYPE(R, several, DLC_PANELS(R) * 128 / DLC_VECTOR_BYTES, DLC_FULL)
#define DLC_EACH_ROWS(X) \
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
DLC_EACH_ROWS(DLC_TILES_DTYPE)
enum { DLC_IS_THIN_DTYPE, DLC_IS_PART_DTYPE, DLC_IS_WHOLE_DTYPE, DLC_ARE_SEVERAL_DTYPE };
#define DLC_CALL_DTYPE(R, kind, shape) \
    case 4 * R + kind: \
        dlc_tile_##shape##R##_DTYPE(c, a, b, out); \
        break;
#define DLC_CALLS_DTYPE(R) \
    DLC_CALL_DTYPE(R, 0, thin) \
    DLC_CALL_DTYPE(R, 1, part) \
    DLC_CALL_DTYPE(R, 2, whole) \
    DLC_CALL_DTYPE(R, 3, several)
/* The tile of a height and a kind.  A table of functions would be data that a loader writes. */
static void
dlc_tile_of_DTYPE(int64_t rows, int kind, const dlc_chain_DTYPE *c, const TYPE *a, const TYPE *b,
                  TYPE *out)
{
    switch (4 * rows + kind) {
        DLC_EACH_ROWS(DLC_CALLS_DTYPE)
    }
}

/* The next height of `left` rows: what is left then should fill the registers too, or be wide
 * itself.  Tiles of a part of a panel should be of heights alike: one of few rows has so few sums
 * that each waits for the one before it. */
static inline int64_t
dlc_height_DTYPE(int64_t left, int64_t columns)
{
    const int64_t most = columns <= DLC_LANES_DTYPE ? DLC_THIN : DLC_HEIGHT;
    if (columns <= DLC_LANES_DTYPE * DLC_WIDTH && (most == DLC_THIN || DLC_FULL < DLC_HEIGHT)) {
        const int64_t passes = (left + most - 1) / most;
        return (left + passes - 1) / passes;
    }
    int64_t height = left < most ? left : most;
    while (left > height && left - height != DLC_FULL && left - height < DLC_FULL + 2) {
        height--;
    }
    return height;
}

/* All rows with the first columns of a panel. */
static void
dlc_rows_DTYPE(dlc_chain_DTYPE *c, const TYPE *a, const TYPE *b, TYPE *out, int64_t columns)
{
    enum { LANES = DLC_LANES_DTYPE, PART = DLC_WIDTH * LANES };
    const int whole_panels = columns > PART || DLC_FULL == DLC_HEIGHT;
    int64_t passes = 0, pass = 0;
    for (int64_t left = c->first ? c->x->rows : 0, height; left > 0; left -= height) {
        height = dlc_height_DTYPE(left, columns);
        passes += whole_panels && height <= DLC_FULL ? 1 : (columns + PART - 1) / PART;
    }
    c->next = 8 * c->b_k;
    c->next_step = c->b_k;
    for (int64_t j = 0; j < columns; j += PART) {
        const TYPE *rows = a;
        TYPE *to = out + j;
        for (int64_t left = c->x->rows, height; left > 0; left -= height) {
            height = dlc_height_DTYPE(left, columns);
            const int whole = columns > LANES && whole_panels && height <= DLC_FULL;
            if (j == 0 || !whole) {
                if (c->first) { /* each pass prefetches its part of the panel behind this one */
                    c->next = c->b_panel + pass++ * c->k * c->b_k / passes - j;
                    c->next_step = c->b_k / passes;
                }
                const int kind = whole                  ? DLC_IS_WHOLE_DTYPE
                                 : columns - j <= LANES ? DLC_IS_THIN_DTYPE
                                                        : DLC_IS_PART_DTYPE;
                dlc_tile_of_DTYPE(height, kind, c, rows, b + j, to);
            }
            rows += height * c->x->a_row;
            to += height * c->out_row;
        }
    }
}

#else
/* Parts of a panel with columns as many as short vectors have.  The inner loops are over constants,
 * so that a compiler makes vectors of them. */
static void
dlc_rows_DTYPE(dlc_chain_DTYPE *c, const TYPE *a, const TYPE *b, TYPE *out, int64_t columns)
{
    enum { PART = DLC_PANEL_DTYPE / 2 };
    for (int64_t j = 0; j < columns; j += PART) {
        for (int64_t i = 0; i < c->x->rows; i++) {
            TYPE sum[PART], *to = out + i * c->out_row + j;
            for (int e = 0; e < PART; e++) {
                sum[e] = c->mode == DLC_CONTINUE_DTYPE ? to[e] : 0;
            }
            const TYPE *of = b + j;
            for (int64_t done = 0, run; done < c->k; done += run) {
                run = c->k - done;
                const TYPE *from = a + i * c->x->a_row + dlc_run_DTYPE(c->x, c->q + done, &run);
                for (int64_t p = 0; p < run; p++, of += c->b_k) {
                    const TYPE one = from[p * c->x->a_k];
                    for (int e = 0; e < PART; e++) {
                        sum[e] = DLC_FMA(one, of[e], sum[e]);
                    }
                }
            }
            for (int e = 0; e < PART; e++) {
                to[e] = c->mode == DLC_ADD_DTYPE ? to[e] + sum[e] : sum[e];
            }
        }
    }
}
#endif

/* ---- dlc_panels_DTYPE ---- */
/* A chain for the columns of some panels, as many at once as the rows allow. */
static void
dlc_panels_DTYPE(dlc_chain_DTYPE *c, const TYPE *a, const TYPE *b, TYPE *out, int64_t columns)
{
    for (int64_t n; columns > 0; columns -= n * DLC_PANEL_DTYPE) {
        n = 1;
#if DLC_VECTOR_BYTES
        const int64_t rows = c->x->rows, most = rows <= DLC_FULL ? DLC_PANELS(rows) : 1;
        n = columns <= (most - 1) * DLC_PANEL_DTYPE ? 1 : most;
        if (n > 1) {
            c->next = 16 * c->b_k;
            c->next_step = c->b_k;
            dlc_tile_of_DTYPE(rows, DLC_ARE_SEVERAL_DTYPE, c, a, b, out);
        }
#endif
        if (n == 1) {
            dlc_rows_DTYPE(c, a, b, out, columns < DLC_PANEL_DTYPE ? columns : DLC_PANEL_DTYPE);
        }
        b += n * c->b_panel;
        out += n * DLC_PANEL_DTYPE;
    }
}

/* ---- dlc_micro_DTYPE ---- */
#if DLC_VECTOR_BYTES
/* Are rows of A copied?  Runs may be short, or so many rows share a set of the first-level cache
 * that a line is evicted before all of it is used. */
static inline int
dlc_is_copied_DTYPE(const MicroProduct *x)
{
    enum { SHORT = 8, SET = 4096, WAYS = 8 };
    const uint64_t distance = (uint64_t)x->a_row * sizeof(TYPE) | SET;
    const int64_t rows = x->rows < DLC_HEIGHT ? x->rows : DLC_HEIGHT;
    return (x->a_run && x->a_run < SHORT) || rows * (int64_t)(distance & -distance) > WAYS * SET;
}
#endif

/* The rows by panels. */
static void
dlc_micro_DTYPE(const MicroProduct *x)
{
    dlc_chain_DTYPE c = {.x = x, .b_k = DLC_PANEL_DTYPE, .b_panel = x->b_panel,
                         .first = x->first && x->b_panel, .out_row = x->tile_row};
#if DLC_VECTOR_BYTES
    enum { ROW = 256 + 64 / sizeof(TYPE) }; /* a line more, so that rows are in other sets */
    const int copied = dlc_is_copied_DTYPE(x);
    TYPE copy[14 * ROW];
    MicroProduct of_copy;
    if (copied) {
        of_copy = *x;
        of_copy.a_row = ROW;
        of_copy.a_k = 1;
        of_copy.a_run = 0;
        c.x = &of_copy;
    }
#endif
    do {
        const TYPE *a = x->a;
        const int64_t q = c.q;
        c.k = x->k - q < 256 ? x->k - q : 256;
        c.mode = x->more || q ? DLC_ADD_DTYPE : DLC_STORE_DTYPE;
#if DLC_VECTOR_BYTES
        if (copied) {
            for (int64_t done = 0, run; done < c.k; done += run) {
                run = c.k - done;
                const TYPE *from = a + dlc_run_DTYPE(x, q + done, &run);
                for (int64_t i = 0; i < x->rows; i++) {
                    for (int64_t p = 0; p < run; p++) {
                        copy[i * ROW + done + p] = from[i * x->a_row + p * x->a_k];
                    }
                }
            }
            a = copy;
            c.q = 0;
        }
#endif
        dlc_panels_DTYPE(&c, a, (const TYPE *)x->b + q * DLC_PANEL_DTYPE, x->tile, x->columns);
        c.q = q + c.k;
    } while (c.q < x->k);
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
/* k steps of some columns become rows of `width` elements, with zeros behind them.  The zeros are
 * written first, in one loop along memory: of a loop over the rest of each row compilers make
 * scattered stores. */
static void
dlc_panel_DTYPE(int k, int columns, int width, const TYPE *b, int64_t k_stride,
                int64_t column_stride, TYPE *panel)
{
    enum { SIDE = 16 / sizeof(TYPE) };
    int in_squares = 0, steps = 0;
    for (int e = 0; columns < width && e < k * width; e++) {
        panel[e] = 0;
    }
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
 * steps at a time.  What the tile holds already is added at the end of a chain: until then its sums
 * are kept aside.  A processor without vectors may have a stack of few kilobytes: there what is
 * packed is an eighth. */
static void
dlc_micro_unpacked_DTYPE(const MicroProduct *x)
{
#if DLC_VECTOR_BYTES
    enum { STEPS = 64, WIDTH = DLC_PANEL_DTYPE };
#else
    enum { STEPS = 16, WIDTH = DLC_PANEL_DTYPE / 2 };
#endif
    const TYPE *a = x->a, *b = x->b;
    const int64_t whole = x->b_column == 1 ? x->columns - x->columns % WIDTH : 0;
    int64_t q = 0;
    do {
        const int64_t k = x->k - q < 256 ? x->k - q : 256;
        const int mode = x->more || q ? DLC_ADD_DTYPE : DLC_STORE_DTYPE;
        dlc_chain_DTYPE c = {.x = x, .q = q, .k = k, .b_k = x->b_k, .b_panel = DLC_PANEL_DTYPE,
                             .mode = mode, .out_row = x->tile_row};
        dlc_panels_DTYPE(&c, a, b + q * x->b_k, x->tile, whole);
        c.b_k = WIDTH;
        for (int64_t j = whole; j < x->columns; j += WIDTH) {
            const int64_t columns = x->columns - j < WIDTH ? x->columns - j : WIDTH;
            const int aside = mode == DLC_ADD_DTYPE && k > STEPS;
            TYPE part[14 * WIDTH], panel[STEPS * WIDTH], *tile = (TYPE *)x->tile + j;
            int64_t p = 0;
            c.out_row = aside ? WIDTH : x->tile_row;
            do {
                c.q = q + p;
                c.k = k - p < STEPS ? k - p : STEPS;
                c.mode = p ? DLC_CONTINUE_DTYPE : aside ? DLC_STORE_DTYPE : mode;
                dlc_panel_DTYPE((int)c.k, (int)columns, WIDTH,
                                b + c.q * x->b_k + j * x->b_column, x->b_k, x->b_column, panel);
                dlc_rows_DTYPE(&c, a, panel, aside ? part : tile, columns);
                p += STEPS;
            } while (p < k);
            for (int64_t i = 0; i < x->rows && aside; i++) {
                for (int64_t e = 0; e < columns; e++) {
                    tile[i * x->tile_row + e] += part[i * WIDTH + e];
                }
            }
        }
        q += k;
    } while (q < x->k);
}

/* ---- dlc_each_DTYPE ---- */
#if DLC_VECTOR_BYTES
/* The sums of R rows and one vector of columns are in registers. */
static inline __attribute__((always_inline)) void
dlc_each_DTYPE(const int R, const MicroProduct *x, int64_t row, int64_t column)
{
    const TYPE *a = (const TYPE *)x->a + row * x->a_row + column, *b = (const TYPE *)x->b + column;
    TYPE *tile = (TYPE *)x->tile + row * x->tile_row + column;
    int64_t q = 0;
    do {
        const int64_t k = x->k - q < 256 ? x->k - q : 256;
        dlc_vec_DTYPE sum[8] = {{0}};
        for (int64_t p = 0, run; p < k; p += run) {
            run = k - p;
            const TYPE *from = a + dlc_run_DTYPE(x, q + p, &run);
            for (int64_t r = 0; r < run; r++, from += x->a_k) {
                const dlc_vec_DTYPE of = *(const dlc_vec_DTYPE *)(b + (q + p + r) * x->b_k);
                DLC_UNROLL
                for (int i = 0; i < R; i++) {
                    sum[i] = dlc_fma_vec_DTYPE(*(const dlc_vec_DTYPE *)(from + i * x->a_row), of,
                                               sum[i]);
                }
            }
        }
        DLC_UNROLL
        for (int i = 0; i < R; i++) {
            dlc_vec_DTYPE *to = (dlc_vec_DTYPE *)(tile + i * x->tile_row);
            if (x->more || q) {
                sum[i] = *to + sum[i];
            }
            *to = sum[i];
        }
        q += k;
    } while (q < x->k);
}
#endif

/* ---- dlc_micro_each_DTYPE ---- */
/* Each column has elements of the rows of its own, which are adjacent too. */
static void
dlc_micro_each_DTYPE(const MicroProduct *x)
{
    enum { WIDTH = 64 / sizeof(TYPE) };
    int64_t whole = 0;
#if DLC_VECTOR_BYTES
    const int64_t lanes = sizeof(dlc_vec_DTYPE) / sizeof(TYPE);
    for (; whole + lanes <= x->columns; whole += lanes) {
        int64_t i = 0;
        for (; i + 8 <= x->rows; i += 8) {
            dlc_each_DTYPE(8, x, i, whole);
        }
        for (; i + 2 <= x->rows; i += 2) {
            dlc_each_DTYPE(2, x, i, whole);
        }
        for (; i < x->rows; i++) {
            dlc_each_DTYPE(1, x, i, whole);
        }
    }
#endif
    for (int64_t i = 0; i < x->rows; i++) {
        for (int64_t j = whole; j < x->columns; j += WIDTH) {
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
