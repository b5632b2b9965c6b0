/* Loops around the microkernels, to measure these: C[m][n] = A[m][k] W[n][k]^T, all of them contiguous floats. */
#include "codegen/micro/micro_isa.c"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A block of A and two of panels fit into a second cache of 512 KB. */
enum { WIDE = 32, BLOCK_K = MICRO_CHAIN, BLOCK_ROWS = 5 * MICRO_ROWS, SKINNY = 8, FEW_ROWS = 128 };

typedef struct Drive {
    int64_t m, n, k;
    const float *a, *w, *panels; /* panels: [n / 32, rounded up][k][32], or NULL: W is read where it lies, or packed */
    float *c;
    int64_t threads;
} Drive;

#define MICRO_TABLE TABLE(DLC_ISA)[0] /* of f32 */

void drive_pack(const Drive *d, float *panels);
void drive(const Drive *d);
double drive_peak(int64_t times);
double drive_alone(int64_t rows, int64_t k, int64_t times);

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void
drive_pack(const Drive *d, float *panels)
{
    for (int64_t j = 0; j < d->n; j += WIDE) {
        MICRO_TABLE.pack(d->k, smaller(WIDE, d->n - j), d->w + j * d->k, 1, d->k, panels + j * d->k);
    }
}

static void
to_tile(float *tile, const float *c, int64_t rows, int64_t columns, int64_t n)
{
    for (int64_t i = 0; i < rows; i++) {
        memcpy(tile + i * WIDE, c + i * n, (size_t)columns * sizeof *c);
    }
}

static void
from_tile(float *c, const float *tile, int64_t rows, int64_t columns, int64_t n, int64_t tile_row)
{
    for (int64_t i = 0; i < rows; i++) {
        memcpy(c + i * n, tile + i * tile_row, (size_t)columns * sizeof *c);
    }
}

/* Few rows: several panels at once, or rows of W where they lie. */
static void
skinny(const Drive *d, int64_t from, int64_t to)
{
    float tile[SKINNY * WIDE * MICRO_STREAMS];

    for (int64_t j = from; j < to;) {
        int64_t columns = smaller(WIDE, to - j), count = 1;

        if (d->panels) {
            columns = smaller(WIDE * MICRO_STREAMS, to - j);
            count = (columns + WIDE - 1) / WIDE;
            MICRO_TABLE.wide(d->m, d->k, d->a, d->k, 1, d->panels + j * d->k, count, WIDE * d->k, tile, 0);
        }
        else {
            MICRO_TABLE.rows(d->m, d->k, d->a, d->k, d->w + j * d->k, d->k, columns, tile, 0);
        }
        from_tile(d->c + j, tile, d->m, columns, d->n, count * WIDE);
        j += columns;
    }
}

/* Rows m0 .. m1 - 1 and columns j0 .. j1 - 1: blocks of k, blocks of rows, panels, tiles. */
static void
blocks(const Drive *d, int64_t m0, int64_t m1, int64_t j0, int64_t j1)
{
    float tile[MICRO_ROWS * WIDE], *own = d->panels ? NULL : aligned_alloc(64, BLOCK_K * WIDE * sizeof *own);
    int64_t rows = m1 - m0, tiles = (rows + MICRO_ROWS - 1) / MICRO_ROWS;
    int64_t parts = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;

    for (int64_t p = 0; p < d->k; p += BLOCK_K) {
        int64_t k = smaller(BLOCK_K, d->k - p);
        for (int64_t part = 0; part < (own ? 1 : parts); part++) {
            int64_t t0 = own ? 0 : part * tiles / parts, t1 = own ? tiles : (part + 1) * tiles / parts;
            for (int64_t j = j0; j < j1; j += WIDE) {
                int64_t columns = smaller(WIDE, j1 - j);
                const float *panel = own ? own : d->panels + j * d->k + p * WIDE;

                if (own) {
                    MICRO_TABLE.pack(k, columns, d->w + j * d->k + p, 1, d->k, own);
                }
                for (int64_t t = t0; t < t1; t++) {
                    int64_t i = m0 + t * rows / tiles, height = m0 + (t + 1) * rows / tiles - i;
                    float *c = d->c + i * d->n + j;
                    const float *next = t == t0 && !own && j + WIDE < j1 ? panel + d->k * WIDE : NULL;

                    if (p) {
                        to_tile(tile, c, height, columns, d->n);
                    }
                    MICRO_TABLE.micro(height, k, d->a + i * d->k + p, d->k, 1, panel, tile, p > 0, next);
                    from_tile(c, tile, height, columns, d->n, WIDE);
                }
            }
        }
    }
    free(own);
}

void
drive(const Drive *d)
{
    int64_t panels = (d->n + WIDE - 1) / WIDE, n = d->threads;

    #pragma omp parallel for num_threads(n) if (n > 1) schedule(static, 1)
    for (int64_t t = 0; t < n; t++) {
        int64_t j0 = panels * t / n * WIDE, j1 = smaller(d->n, panels * (t + 1) / n * WIDE);

        if (d->m <= SKINNY) {
            skinny(d, j0, j1);
        }
        else if (d->m < FEW_ROWS) {
            blocks(d, 0, d->m, j0, j1);
        }
        else {
            blocks(d, d->m * t / n, d->m * (t + 1) / n, 0, d->n);
        }
    }
}

static double
now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Floating-point operations a second of a loop of multiply-adds between registers. */
double
drive_peak(int64_t times)
{
    vec_f32 sum[12], a = splat_f32(0.5f), b = splat_f32(0.25f);

    UNROLL for (int i = 0; i < 12; i++) {
        sum[i] = a;
    }
    double start = now();
    for (int64_t n = 0; n < times; n++) {
        UNROLL for (int i = 0; i < 12; i++) {
            sum[i] = fma_f32(a, b, sum[i]);
#if defined(__x86_64__)
            __asm__ volatile("" : "+v"(sum[i]));
#else
            __asm__ volatile("" : "+w"(sum[i]));
#endif
        }
    }
    return (double)times * 12 * 2 * VECTOR / 4 / (now() - start);
}

/* The same of products of one panel again and again. */
double
drive_alone(int64_t rows, int64_t k, int64_t times)
{
    float *panel = aligned_alloc(64, (size_t)k * 128), *a = calloc((size_t)(rows * k), sizeof *a), tile[MICRO_ROWS * WIDE];

    memset(panel, 0, (size_t)k * 128);
    MICRO_TABLE.micro(rows, k, a, k, 1, panel, tile, 0, NULL);
    double start = now();
    for (int64_t n = 0; n < times; n++) {
        MICRO_TABLE.micro(rows, k, a, k, 1, panel, tile, 0, NULL);
    }
    double seconds = now() - start;
    free(panel);
    free(a);
    return 2.0 * WIDE * (double)(rows * k * times) / seconds;
}
