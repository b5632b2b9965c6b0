/* The microkernels by themselves, and what the processor could do at most. */
#include "codegen/micro/micro_isa.c"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MICRO_TABLE TABLE(DLC_ISA)[0] /* of f32 */
enum { WIDE = 32 };

double drive_peak(int64_t times);
double drive_threads(int64_t times, int64_t threads);
double drive_alone(int64_t rows, int64_t k, int64_t times);

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

/* The same loop in each of so many threads; returns how many operations all of them did. */
double
drive_threads(int64_t times, int64_t threads)
{
#pragma omp parallel for num_threads((int)threads)
    for (int64_t thread = 0; thread < threads; thread++) {
        drive_peak(times);
    }
    return (double)(threads * times) * 12 * 2 * VECTOR / 4;
}

/* The same of products of one panel again and again. */
double
drive_alone(int64_t rows, int64_t k, int64_t times)
{
    float *panel = aligned_alloc(64, (size_t)k * 128), *a = calloc((size_t)(rows * k), sizeof *a),
          tile[MICRO_ROWS * WIDE];

    memset(panel, 0, (size_t)k * 128);
    const MicroProduct x = {.rows = rows,
                            .columns = WIDE,
                            .k = k,
                            .a = a,
                            .a_row = k,
                            .a_k = 1,
                            .b = panel,
                            .tile = tile,
                            .tile_row = WIDE};
    MICRO_TABLE.micro(&x);
    double start = now();
    for (int64_t n = 0; n < times; n++) {
        MICRO_TABLE.micro(&x);
    }
    double seconds = now() - start;
    free(panel);
    free(a);
    return 2.0 * WIDE * (double)(rows * k * times) / seconds;
}
