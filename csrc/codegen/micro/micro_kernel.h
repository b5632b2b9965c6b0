/* The kernels of one dtype of sums: DTYPE, T, COLUMNS.  Included once for each by micro_isa.c.
 *
 * A kernel keeps R rows and V vectors of each of P panels as sums in registers for the whole of a
 * chain. */
#define PASTE(a, b) PASTE_(a, b)
#define PASTE_(a, b) a##_##b
#define NAME(word) PASTE(word, DTYPE)
#define VEC NAME(vec)
#define LANES ((int)(VECTOR / sizeof(T)))
#define SIDE ((int)(16 / sizeof(T)))
#define ROW_VECTORS (128 / VECTOR)      /* vectors in a row of a panel */
#define ROW_LANES 8             /* parts of 16 bytes in such a row, of SIDE elements each */

#define OF(word) NAME(word)
#define BYTES VECTOR
#include "micro_chain.h"
#if HALVES
#define OF(word) PASTE(half, NAME(word))
#define BYTES (VECTOR / 2)
#include "micro_chain.h"
#endif

/* The square at bytes 16 * q of a line of each column; `line` has them if lines are read whole. */
DLC_FN void
NAME(square_at)(VEC *r, const int q, const VEC *line, const char *const *from, int64_t column,
                int64_t column_3)
{
    const char *at[VECTOR / 16];

    UNROLL for (int l = 0; l < VECTOR / 16; l++) {
        at[l] = from[l] + 16 * q;
    }
    if (WHOLE_LINES) {
        NAME(in_lanes)(r, line + q * SIDE);
    }
    else {
        NAME(square)(r, at, column, column_3);
    }
}

DLC_FN void
NAME(advance)(const char **pointers, const int count, int64_t bytes)
{
    UNROLL for (int i = 0; i < count; i++) {
        pointers[i] += bytes;
        OPAQUE(pointers[i]);
    }
}

/* One chain for R rows and V vectors of columns, which are `column` bytes apart.  Elements of k are
 * adjacent in both operands: those of the columns are transposed in registers.  A line of each
 * column is used up before the next ones come: where columns are a power of two apart, their lines
 * share a set of the cache.  A chain is a multiple of SIDE steps long. */
DLC_FN void
NAME(transposed)(const int R, const int V, const Chain *c, const char *a, const char *b,
                 int64_t column, T *out)
{
    const int per_pointer = R > 4 ? 4 : 1, pointers = (R + per_pointer - 1) / per_pointer;
    VEC sum[MICRO_ROWS][TOGETHER], r[SIDE], line[4 * SIDE];
    const int64_t row = c->row_stride * (int)sizeof(T), row_3 = 3 * row, column_3 = 3 * column;
    const char *from[TOGETHER * VECTOR / 16], *rows[4];
    int64_t left = c->k;

    UNROLL for (int i = 0; i < R; i += per_pointer) {
        rows[i / per_pointer] = a + i * row;
    }
    UNROLL for (int i = 0; i < R; i++) {
        UNROLL for (int j = 0; j < V; j++) {
            sum[i][j] = (VEC){0};
        }
    }
    UNROLL for (int l = 0; l < V * VECTOR / 16; l++) {
        from[l] = b + l * SIDE * column;
    }
#define A(i, p) \
    ((const T *)OF_FOUR(rows[(i) / per_pointer], (i) % per_pointer, row, row_3) + (p))
    for (; left >= 4 * SIDE; left -= 4 * SIDE) {
        UNROLL for (int j = 0; j < V; j++) {
            /* Else elements wait in registers for the next columns. */
            NAME(advance)(rows, V > 1 ? pointers : 0, 0);
            NAME(lines)(line, from + j * VECTOR / 16, column, column_3);
            UNROLL for (int q = 0; q < 4; q++) {
                NAME(square_at)(r, q, line, from + j * VECTOR / 16, column, column_3);
                UNROLL for (int e = 0; e < SIDE; e++) {
                    UNROLL for (int i = 0; i < R; i++) {
                        sum[i][j] = NAME(fma_at)(A(i, q * SIDE + e), r[e], sum[i][j]);
                    }
                }
                /* The next square waits: else the compiler begins it, and spills. */
                UNROLL for (int l = 0; l < V * VECTOR / 16 && !WHOLE_LINES; l++) {
                    OPAQUE_AFTER(from[l], sum[R - 1][j]);
                }
            }
        }
        NAME(advance)(from, V * VECTOR / 16, 64);
        NAME(advance)(rows, pointers, 64);
    }
    for (; left > 0; left -= SIDE) {
        UNROLL for (int j = 0; j < V; j++) {
            NAME(advance)(rows, pointers, 0);
            NAME(square)(r, from + j * VECTOR / 16, column, column_3);
            UNROLL for (int e = 0; e < SIDE; e++) {
                UNROLL for (int i = 0; i < R; i++) {
                    sum[i][j] = NAME(fma_at)(A(i, e), r[e], sum[i][j]);
                }
            }
        }
        NAME(advance)(from, V * VECTOR / 16, 16);
        NAME(advance)(rows, pointers, 16);
    }
#undef A
    UNROLL for (int i = 0; i < R; i++) {
        UNROLL for (int j = 0; j < V; j++) {
            VEC *to = (VEC *)(out + i * c->out_row + j * LANES);
            if (c->mode == ADD) {
                sum[i][j] += *to;
            }
            *to = sum[i][j];
        }
    }
}

/* ---- a function for each height ---- */

/* Those above the limit, which the registers do not hold, are never called. */
#define KERNEL(form, chain, R, V, P, limit) \
    static __attribute__((noinline)) void \
    PASTE(NAME(form), R)(const Chain *c, const void *a, const void *b, void *out) \
    { \
        if (R <= limit) { \
            chain(R, V, P, c, a, b, out); \
        } \
    }
#define PART(R) KERNEL(part, NAME(chain), R, WIDTH, 1, NAME(HEIGHT))
#define THIN_PART(R) KERNEL(thin, NAME(chain), R, 1, 1, NAME(THIN))
#define HALF_PART(R) KERNEL(half, PASTE(half, NAME(chain)), R, 1, 1, NAME(THIN))
#define WHOLE(R) KERNEL(whole, NAME(chain), R, ROW_VECTORS, 1, NAME(FULL))
#define SEVERAL(R) KERNEL(several, NAME(chain), R, ROW_VECTORS, PANELS(R), NAME(FULL))
#define TRANSPOSED(R) TRANSPOSE(R, one, 1) TRANSPOSE(R, some, TOGETHER)
#define TRANSPOSE(R, word, V) \
    static __attribute__((noinline)) void \
    PASTE(NAME(transposed_##word), R)(const Chain *c, const void *a, const void *b, \
                                            int64_t column, void *out) \
    { \
        if (R <= NAME(FEW)) { \
            NAME(transposed)(R, V, c, a, b, column, out); \
        } \
    }
EACH_FEW(TRANSPOSED)
EACH_ROWS(PART)
EACH_ROWS(THIN_PART)
#if HALVES
EACH_ROWS(HALF_PART)
#endif
EACH_ROWS(WHOLE)
EACH_ROWS(SEVERAL)
#define IN_TABLE(R) PASTE(NAME(part), R),
static Kernel *const NAME(parts)[] = {0, EACH_ROWS(IN_TABLE)};
#undef IN_TABLE
#define IN_TABLE(R) PASTE(NAME(thin), R),
static Kernel *const NAME(thins)[] = {0, EACH_ROWS(IN_TABLE)};
#undef IN_TABLE
#if HALVES
#define IN_TABLE(R) PASTE(NAME(half), R),
static Kernel *const NAME(halves)[] = {0, EACH_ROWS(IN_TABLE)};
#undef IN_TABLE
#endif
#define IN_TABLE(R) PASTE(NAME(whole), R),
static Kernel *const NAME(wholes)[] = {0, EACH_ROWS(IN_TABLE)};
#undef IN_TABLE
#define IN_TABLE(R) PASTE(NAME(several), R),
static Kernel *const NAME(severals)[] = {0, EACH_ROWS(IN_TABLE)};
#undef IN_TABLE

#define IN_TABLE(R) {PASTE(NAME(transposed_one), R), PASTE(NAME(transposed_some), R)},
static Transposed *const NAME(transposeds)[][2] = {{0}, EACH_FEW(IN_TABLE)};
#undef IN_TABLE

/* The next height of `rows` that are left: what remains should fill the registers too, or be wide
 * itself. */
static int64_t
NAME(height)(int64_t rows)
{
    int64_t height = rows < NAME(HEIGHT) ? rows : NAME(HEIGHT);

    while (rows > height && rows - height != NAME(FULL) && rows - height < NAME(FULL) + 2) {
        height--;
    }
    return height;
}

/* Is one of the heights a single row? */
static bool
NAME(single)(int64_t rows)
{
    int64_t height = 0;

    for (int64_t left = rows; left > 0 && height != 1; left -= height) {
        height = NAME(height)(left);
    }
    return height == 1;
}

/* Are a panel's wanted columns so few that the narrow kernels make all of them?  Others would make
 * columns that nobody reads. */
static inline bool
NAME(is_narrow)(const Chain *c)
{
    return NAME(FULL) != NAME(HEIGHT) && c->columns <= WIDTH * LANES;
}

/* Does one vector hold all of these columns? */
static inline bool
NAME(is_thin)(int64_t columns)
{
    return columns <= LANES;
}

/* The kernels for the columns that are left of a panel. */
static inline Kernel *const *
NAME(kernels)(int64_t columns)
{
#if HALVES
    if (columns <= LANES / 2) {
        return NAME(halves);
    }
#endif
    return NAME(is_thin)(columns) ? NAME(thins) : NAME(parts);
}

/* The next height in a panel.  Narrow kernels should be of heights alike: one of few rows has so
 * few sums that each waits for the one before it. */
static inline int64_t
NAME(next)(const Chain *c, int64_t rows)
{
    const int64_t most = NAME(is_thin)(c->columns) ? NAME(THIN) : NAME(HEIGHT);
    const int64_t passes = (rows + most - 1) / most;
    const bool alike = NAME(is_narrow)(c) || NAME(is_thin)(c->columns);
    return alike ? (rows + passes - 1) / passes : NAME(height)(rows);
}

static inline bool
NAME(is_whole)(const Chain *c, int64_t height)
{
    return !NAME(is_narrow)(c) && !NAME(is_thin)(c->columns) &&
           (height <= NAME(FULL) || NAME(FULL) == NAME(HEIGHT));
}

/* How often the rows go over a panel. */
static int64_t
NAME(passes)(const Chain *c)
{
    int64_t passes = 0, parts = (c->columns + WIDTH * LANES - 1) / (WIDTH * LANES);

    for (int64_t left = c->rows, height; left > 0; left -= height) {
        height = NAME(next)(c, left);
        passes += NAME(is_whole)(c, height) ? 1 : parts;
    }
    return passes;
}

/* A part of one chain for any rows of one panel: for each part of its columns all rows, for which
 * that part stays in the first-level cache.  What is prefetched is noted in the chain that the
 * caller has: a copy of it would wait for what was just stored there. */
static void
NAME(heights)(Chain *c, const T *a, const T *b, T *out)
{
    const int64_t passes = c->first ? NAME(passes)(c) : 0;
    const char *const result = c->result;
    int64_t pass = 0;

    prefetch_rows(c, ROWS_AHEAD);
    if (c->prefetched) {
        prefetch_next_read(c, b);
    }
    for (int64_t j = 0; j < c->columns; j += WIDTH * LANES) {
        const T *rows = a;
        T *to = out + j;
        for (int64_t left = c->rows, height; left > 0; left -= height) {
            height = NAME(next)(c, left);
            const bool whole = NAME(is_whole)(c, height);
            if (j == 0) {
                prefetch_result(c, height);
            }
            if (j == 0 || !whole) { /* the first part made all columns of the others */
                if (c->first) {
                    prefetch_part(c, pass++, passes, j * (int)sizeof(T));
                }
                (whole ? NAME(wholes) : NAME(kernels)(c->columns - j))[height](c, rows, b + j, to);
            }
            rows += height * c->row_stride;
            to += height * c->out_row;
        }
    }
    c->result = result;
}

/* A chain for the columns of some panels, as many at once as the rows allow. */
static void
NAME(panels)(Chain *c, const T *a, const char *b, T *out, int64_t columns)
{
    const int64_t together = c->rows <= NAME(FULL) ? PANELS(c->rows) : 1;

    for (int64_t n; columns > 0; columns -= n * COLUMNS, b += n * c->b_panel, out += n * COLUMNS) {
        n = columns <= (together - 1) * COLUMNS ? 1 : together;
        c->columns = columns < COLUMNS ? columns : COLUMNS;
        if (n > 1) {
            prefetch_rows(c, STREAM_ROWS_AHEAD);
            NAME(severals)[c->rows](c, a, b, out);
        }
        else {
            NAME(heights)(c, a, (const T *)(const void *)b, out);
        }
        c->result += c->result ? n * PANEL_ROW : 0;
        c->prefetched += c->prefetched ? c->k * c->prefetched_step : 0;
    }
}

/* How many of some columns are transposed together.  Where their lines share a set of the
 * first-level cache, more than one vector of them would evict what is prefetched. */
static int64_t
NAME(together)(int64_t column_stride, int64_t columns)
{
    return columns >= TOGETHER * LANES && column_stride * (int)sizeof(T) % DLC_SAME_SET
               ? TOGETHER * LANES
               : LANES;
}

/* A chain for as many columns in place, some rows at a time: what the first ones read is in the
 * cache for the next ones. */
static void
NAME(in_place)(const Chain *chain, const T *a, const T *b, int64_t column_stride, T *out)
{
    for (int64_t i = 0, n; i < chain->rows; i += n) {
        const int64_t left = chain->rows - i;
        n = left <= NAME(FEW) ? left : left < 2 * NAME(FEW) ? (left + 1) / 2 : NAME(FEW);
        NAME(transposeds)[n][chain->columns > LANES](chain, a + i * chain->row_stride, b,
                                                     column_stride * (int)sizeof(T),
                                                     out + i * chain->out_row);
    }
}

/* ---- products of each column with its own ---- */

/* R rows of V vectors, which are adjacent in both operands. */
DLC_FN void
NAME(each_block)(const int R, const int V, const Each *x, const T *a, const T *b, T *out)
{
    VEC sum[EACH_ROWS_MOST][EACH_VECTORS], y[EACH_VECTORS];
    const int64_t row = x->a_row * (int)sizeof(T), row_3 = 3 * row;

    UNROLL for (int i = 0; i < R; i++) {
        UNROLL for (int j = 0; j < V; j++) {
            sum[i][j] = (VEC){0};
        }
    }
    for (int64_t p = 0; p < x->k; p++, b += x->b_k) {
        const char *rows[2] = {(const char *)(a + x->at[p])};
        rows[1] = rows[0] + 4 * row;
        OPAQUE(rows[1]);
        UNROLL for (int j = 0; j < V; j++) {
            y[j] = *(const VEC *)(b + j * LANES);
        }
        UNROLL for (int i = 0; i < R; i++) {
            const char *from = OF_FOUR(rows[i / 4], i, row, row_3);
            UNROLL for (int j = 0; j < V; j++) {
                sum[i][j] = NAME(fma)(*(const VEC *)(from + j * VECTOR), y[j], sum[i][j]);
            }
        }
    }
    UNROLL for (int i = 0; i < R; i++) {
        UNROLL for (int j = 0; j < V; j++) {
            VEC *to = (VEC *)(out + i * x->out_row + j * LANES);
            if (x->mode == ADD) {
                sum[i][j] += *to;
            }
            *to = sum[i][j];
        }
    }
}

DLC_FN void
NAME(each_rows)(const Each *x, const int V, const T *a, const T *b, T *out)
{
    int64_t i = 0;

    for (; i + EACH_ROWS_MOST <= x->rows; i += EACH_ROWS_MOST) {
        NAME(each_block)(EACH_ROWS_MOST, V, x, a + i * x->a_row, b, out + i * x->out_row);
    }
    for (; i + 2 <= x->rows; i += 2) {
        NAME(each_block)(2, V, x, a + i * x->a_row, b, out + i * x->out_row);
    }
    if (i < x->rows) {
        NAME(each_block)(1, V, x, a + i * x->a_row, b, out + i * x->out_row);
    }
}

/* Fewer columns than a vector has: they are copied, row by row. */
static void
NAME(each_part)(const Each *x, const T *a, const T *b, T *out, int64_t columns)
{
    T of_a[MICRO_CHAIN * LANES], of_b[MICRO_CHAIN * LANES], made[LANES] = {0};
    int64_t at[MICRO_CHAIN];
    Each part = {.mode = BEGIN, .rows = 1, .k = x->k, .b_k = LANES, .at = at};

    memset(of_a, 0, sizeof *of_a * (size_t)(x->k * LANES));
    memset(of_b, 0, sizeof *of_b * (size_t)(x->k * LANES));
    for (int64_t p = 0; p < x->k; p++) {
        at[p] = p * LANES;
        memcpy(of_b + p * LANES, b + p * x->b_k, sizeof *b * (size_t)columns);
    }
    for (int64_t i = 0; i < x->rows; i++) {
        for (int64_t p = 0; p < x->k; p++) {
            memcpy(of_a + p * LANES, a + i * x->a_row + x->at[p], sizeof *a * (size_t)columns);
        }
        NAME(each_block)(1, 1, &part, of_a, of_b, made);
        for (int64_t j = 0; j < columns; j++) {
            T *to = out + i * x->out_row + j;
            *to = x->mode == ADD ? *to + made[j] : made[j];
        }
    }
}

/* The last vector overlaps the one before it, unless the tile would get its products twice. */
static void
NAME(each)(const Each *x, const T *a, const T *b, T *out)
{
    const int64_t whole = x->columns - x->columns % LANES;
    const bool over = whole >= LANES && x->mode != ADD;
    int64_t j = 0;

    for (; j + EACH_VECTORS * LANES <= x->columns; j += EACH_VECTORS * LANES) {
        NAME(each_rows)(x, EACH_VECTORS, a + j, b + j, out + j);
    }
    for (int64_t at; j < x->columns && (j < whole || over); j += LANES) {
        at = j < whole ? j : x->columns - LANES;
        NAME(each_rows)(x, 1, a + at, b + at, out + at);
    }
    if (j < x->columns) {
        NAME(each_part)(x, a + j, b + j, out + j, x->columns - j);
    }
}

/* ---- packs ---- */

static void
NAME(pack_elements)(int64_t k, int64_t columns, const T *b, int64_t k_stride, int64_t column_stride,
                    T *panel)
{
    for (int64_t p = 0; p < k; p++) {
        for (int64_t j = 0; j < COLUMNS; j++) {
            panel[p * COLUMNS + j] = j < columns ? b[p * k_stride + j * column_stride] : 0;
        }
    }
}

/* Adjacent columns.  Of fewer than a panel's, the last vector overlaps the one before it. */
static void
NAME(pack_copy)(int64_t k, int64_t columns, const T *b, int64_t k_stride, T *panel)
{
    for (int64_t p = 0; p < k; p++, b += k_stride, panel += COLUMNS) {
        __builtin_prefetch(b + PACK_ROWS_AHEAD * k_stride);
        __builtin_prefetch(b + PACK_ROWS_AHEAD * k_stride + columns - 1);
        if (columns == COLUMNS) {
            UNROLL for (int j = 0; j < COLUMNS; j += LANES) {
                *(VEC *)(panel + j) = *(const VEC *)(b + j);
            }
            continue;
        }
        UNROLL for (int j = 0; j < COLUMNS; j += LANES) {
            *(VEC *)(panel + j) = (VEC){0};
        }
        if (columns >= LANES) {
            for (int64_t j = 0; j < columns; j += LANES) {
                int64_t at = j < columns - LANES ? j : columns - LANES;
                *(VEC *)(panel + at) = *(const VEC *)(b + at);
            }
        }
        else {
            for (int64_t j = 0; j < columns; j++) {
                panel[j] = b[j];
            }
        }
    }
}

/* Adjacent elements of k.  A line of each column is used up before the next ones come: where
 * columns are a power of two apart, their lines share a set of the cache, which has fewer ways than
 * a panel has columns. */
static void
NAME(pack_transposed)(int64_t k, int64_t columns, const T *b, int64_t column_stride, T *panel)
{
    const int64_t step = column_stride * (int)sizeof(T), step_3 = 3 * step;
    const char *from[ROW_LANES];
    int64_t p = 0;

    UNROLL for (int l = 0; l < ROW_LANES; l++) {
        from[l] = (const char *)(b + l * SIDE * column_stride);
    }
    for (; columns == COLUMNS && p + 4 * SIDE <= k; p += 4 * SIDE) {
        UNROLL for (int j = 0; j < ROW_VECTORS; j++) {
            const char **rows = from + j * VECTOR / 16;
            T *to = panel + p * COLUMNS + j * LANES;
            VEC r[SIDE], line[4 * SIDE];
            NAME(lines)(line, rows, step, step_3);
            UNROLL for (int q = 0; q < 4; q++, to += SIDE * COLUMNS) {
                NAME(square_at)(r, q, line, rows, step, step_3);
                UNROLL for (int e = 0; e < SIDE; e++) {
                    *(VEC *)(to + e * COLUMNS) = r[e];
                }
            }
            NAME(advance)(rows, VECTOR / 16, 64);
        }
    }
    NAME(pack_elements)(k - p, columns, b + p, 1, column_stride, panel + p * COLUMNS);
}

static void
NAME(pack_sums)(int64_t k, int64_t columns, const void *from, int64_t k_stride,
                int64_t column_stride, void *panel)
{
    if (column_stride == 1) {
        NAME(pack_copy)(k, columns, from, k_stride, panel);
    }
    else if (k_stride == 1) {
        NAME(pack_transposed)(k, columns, from, column_stride, panel);
    }
    else {
        NAME(pack_elements)(k, columns, from, k_stride, column_stride, panel);
    }
}

#undef COLUMNS
#undef DTYPE
#undef T
