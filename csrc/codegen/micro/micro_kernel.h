/* The kernels of one dtype of sums: DTYPE, T, COLUMNS.  Included once for each by micro_isa.c.
 *
 * A kernel keeps R rows and V vectors of each of P panels as sums in registers for the whole of a chain. */
#define PASTE(a, b) PASTE_(a, b)
#define PASTE_(a, b) a##_##b
#define NAME(word) PASTE(word, DTYPE)
#define VEC NAME(vec)
#define LANES ((int)(VECTOR / sizeof(T)))
#define ROW_VECTORS (128 / VECTOR)      /* those of a row of a panel */

/* Four rows of A, or four panels of B, from one pointer: the processor's addresses add a stride or twice a stride. */
#define OF_FOUR(base, i, stride, three) ((i) % 4 == 3 ? (base) + (three) : (base) + (i) % 4 * (stride))
/* Hides from the compiler how a pointer goes on: else it makes a pointer of each address, more than there are registers
 * for, or a second loop for a stride of 1. */
#define OPAQUE(pointer) __asm__("" : "+r"(pointer))

/* One chain of k steps, or a part of one, for R x P * V vectors of the tile `out`, whose rows are out_row apart. */
DLC_FN void
NAME(chain)(const int R, const int V, const int P, const Chain *c, const char *a, const char *b, T *out)
{
    VEC sum[MICRO_ROWS][ROW_VECTORS * MICRO_STREAMS], x[ROW_VECTORS * MICRO_STREAMS], y[MICRO_ROWS];
    const int64_t row = c->row_stride * (int)sizeof(T), step = c->k_stride * (int)sizeof(T);
    const int64_t panel = c->distance * (int)sizeof(T), row_3 = 3 * row, panel_3 = 3 * panel, out_row = c->out_row;
    const enum Mode mode = c->mode;
    const char *rows[4] = {a, a + 4 * row, a + 8 * row, a + 12 * row}, *next = b + c->next;

    UNROLL for (int i = 0; i < R; i++) {
        UNROLL for (int j = 0; j < P * V; j++) {
            sum[i][j] = (VEC){0};
            if (mode == CONTINUE) {
                sum[i][j] = *(const VEC *)(out + i * out_row + j * LANES);
            }
        }
    }
#define B(j) (*(const VEC *)(OF_FOUR(b, (j) / V, panel, panel_3) + (j) % V * VECTOR))
#define A(i) NAME(splat)(*(const T *)OF_FOUR(rows[(i) / 4], i, row, row_3))
    for (int64_t p = c->k; p > 0; p--) {
        UNROLL for (int j = 0; j < V * VECTOR; j += 64) {
            UNROLL for (int q = 0; q < P; q++) {
                __builtin_prefetch(OF_FOUR(next, q, panel, panel_3) + j, 0, 2);
            }
        }
        if (R < P * V) {        /* the fewer wait in registers */
            UNROLL for (int i = 0; i < R; i++) {
                y[i] = A(i);
            }
            UNROLL for (int j = 0; j < P * V; j++) {
                x[0] = B(j);
                UNROLL for (int i = 0; i < R; i++) {
                    sum[i][j] = NAME(fma)(y[i], x[0], sum[i][j]);
                }
            }
        }
        else {
            UNROLL for (int j = 0; j < P * V; j++) {
                x[j] = B(j);
            }
            UNROLL for (int i = 0; i < R; i++) {
                y[0] = A(i);
                UNROLL for (int j = 0; j < P * V; j++) {
                    sum[i][j] = NAME(fma)(y[0], x[j], sum[i][j]);
                }
            }
        }
        UNROLL for (int i = 0; i < (R + 3) / 4; i++) {
            rows[i] += step;
            OPAQUE(rows[i]);
        }
        b += 128;
        next += 128;
        OPAQUE(b);
        OPAQUE(next);
    }
#undef A
#undef B
    UNROLL for (int i = 0; i < R; i++) {
        UNROLL for (int j = 0; j < P * V; j++) {
            VEC *to = (VEC *)(out + i * out_row + j * LANES);
            if (mode == ADD) {
                sum[i][j] += *to;
            }
            *to = sum[i][j];
        }
    }
}

/* ---- a function for each height ---- */

/* Those above the limit, which the registers do not hold, are never called. */
#define KERNEL(form, R, V, P, limit) \
    static __attribute__((noinline)) void \
    PASTE(NAME(form), R)(const Chain *c, const void *a, const void *b, void *out) \
    { \
        if (R <= limit) { \
            NAME(chain)(R, V, P, c, a, b, out); \
        } \
    }
#define PART(R) KERNEL(part, R, WIDTH, 1, NAME(HEIGHT))
#define WHOLE(R) KERNEL(whole, R, ROW_VECTORS, 1, NAME(FULL))
#define SEVERAL(R) KERNEL(several, R, ROW_VECTORS, PANELS(R), NAME(FULL))
EACH_ROWS(PART)
EACH_ROWS(WHOLE)
EACH_ROWS(SEVERAL)
#define IN_TABLE(R) PASTE(NAME(part), R),
static Kernel *const NAME(parts)[] = {0, EACH_ROWS(IN_TABLE)};
#undef IN_TABLE
#define IN_TABLE(R) PASTE(NAME(whole), R),
static Kernel *const NAME(wholes)[] = {0, EACH_ROWS(IN_TABLE)};
#undef IN_TABLE
#define IN_TABLE(R) PASTE(NAME(several), R),
static Kernel *const NAME(severals)[] = {0, EACH_ROWS(IN_TABLE)};
#undef IN_TABLE

/* A part of one chain for any rows of one panel: heights that the registers hold, as even as can be. */
static void
NAME(heights)(const Chain *chain, const T *a, const T *b, T *out)
{
    Chain c = *chain;
    int64_t rows = c.rows, count = rows <= NAME(FULL) ? 1 : (rows + NAME(HEIGHT) - 1) / NAME(HEIGHT);

    for (int64_t t = 0; t < count; t++) {
        int64_t from = t * rows / count, height = (t + 1) * rows / count - from;

        if (height <= NAME(FULL) || NAME(FULL) == NAME(HEIGHT)) {
            NAME(wholes)[height](&c, a + from * c.row_stride, b, out + from * c.out_row);
        }
        else {
            for (int64_t j = 0; j < COLUMNS; j += WIDTH * LANES) {
                NAME(parts)[height](&c, a + from * c.row_stride, b + j, out + from * c.out_row + j);
            }
        }
        c.next = AHEAD;         /* the next panel has been asked for by now */
    }
}

/* Steps p .. p + c->k - 1 of k, which lie in one chain.  What the tile holds already, from the chains before or from
 * the caller, a chain in several blocks must not touch before its end: it stands in `aside` until then. */
static void
NAME(block)(Chain *c, const Product *x, int64_t p, const T *a, const T *b)
{
    T *tile = x->tile, *aside = x->aside;
    bool first = p % MICRO_CHAIN == 0, last = p + c->k == x->k || (p + c->k) % MICRO_CHAIN == 0;
    bool alone = p < MICRO_CHAIN && !x->more, whole = first && last;

    c->mode = !first ? CONTINUE : whole && !alone ? ADD : BEGIN;
    NAME(heights)(c, a, b, alone || whole ? tile : aside);
    if (!alone && !whole && last) {
        for (int64_t i = 0; i < c->rows * COLUMNS; i++) {
            tile[i] += aside[i];
        }
    }
}

/* ---- packs ---- */

static void
NAME(pack_elements)(int64_t k, int64_t columns, const T *b, int64_t k_stride, int64_t column_stride, T *panel)
{
    for (int64_t p = 0; p < k; p++) {
        for (int64_t j = 0; j < COLUMNS; j++) {
            panel[p * COLUMNS + j] = j < columns ? b[p * k_stride + j * column_stride] : 0;
        }
    }
}

/* Columns side by side. */
static void
NAME(pack_copy)(int64_t k, int64_t columns, const T *b, int64_t k_stride, T *panel)
{
    for (int64_t p = 0; p < k; p++, b += k_stride, panel += COLUMNS) {
        if (columns == COLUMNS) {
            __builtin_prefetch(b + PACK_ROWS_AHEAD * k_stride);
            __builtin_prefetch(b + PACK_ROWS_AHEAD * k_stride + COLUMNS - 1);
            UNROLL for (int j = 0; j < COLUMNS; j += LANES) {
                *(VEC *)(panel + j) = *(const VEC *)(b + j);
            }
        }
        else {
            __builtin_memcpy(panel, b, (size_t)columns * sizeof(T));
            __builtin_memset(panel + columns, 0, (size_t)(COLUMNS - columns) * sizeof(T));
        }
    }
}

/* Elements of k side by side: squares of all columns before the next ones, so that rows of the panel are written
 * whole. */
static void
NAME(pack_turn)(int64_t k, int64_t columns, const T *b, int64_t column_stride, T *panel)
{
    enum { SIDE = 16 / sizeof(T) };
    int64_t p = 0;

    for (; columns == COLUMNS && p + SIDE <= k; p += SIDE) {
        UNROLL for (int j = 0; j < COLUMNS; j += LANES) {
            VEC r[SIDE];
            NAME(square)(r, b + j * column_stride + p, column_stride);
            UNROLL for (int q = 0; q < SIDE; q++) {
                *(VEC *)(panel + (p + q) * COLUMNS + j) = r[q];
            }
        }
    }
    NAME(pack_elements)(k - p, columns, b + p, 1, column_stride, panel + p * COLUMNS);
}

static void
NAME(pack_sums)(int64_t k, int64_t columns, const void *from, int64_t k_stride, int64_t column_stride, void *panel)
{
    if (column_stride == 1) {
        NAME(pack_copy)(k, columns, from, k_stride, panel);
    }
    else if (k_stride == 1) {
        NAME(pack_turn)(k, columns, from, column_stride, panel);
    }
    else {
        NAME(pack_elements)(k, columns, from, k_stride, column_stride, panel);
    }
}

#undef EACH
#undef COLUMNS
#undef DTYPE
#undef T
