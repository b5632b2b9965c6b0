/* What this machine was measured to do: how fast memory is by working set, the clock, and what it
 * takes to start all threads.
 *
 * A working set is read, or half of it is copied to the other half, again and again, by one thread
 * and by all, of which each has a part of its own.  The fastest time counts: whatever else happens
 * only makes it longer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/plan/parallel.h"
#include "codegen/process.h"
#include "codegen/processor.h"
#include "predict.h"

enum {
    LEAST_TIMES = 3,            /* that a working set is gone through, however slow */
    MOST_TIMES = 200,
    FORKS = 400,
};

static const double each = 6e-3; /* seconds for a working set */

/* ---- reading ---- */

#define READ(isa, bytes, attributes) \
    attributes static uint64_t read_##isa(const char *from, size_t n) \
    { \
        typedef uint64_t Vector __attribute__((vector_size(bytes), may_alias)); \
        Vector sum[4] = {{0}}; \
        for (size_t k = 0; k + 4 * bytes <= n; k += 4 * bytes) { \
            _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++) \
            { \
                sum[j] ^= *(const Vector *)(from + k + j * bytes); \
            } \
        } \
        sum[0] ^= sum[1] ^ sum[2] ^ sum[3]; \
        return sum[0][0] ^ sum[0][1]; \
    }
#if defined(__x86_64__)
READ(avx512, 64, __attribute__((target("avx512f"))))
READ(avx2, 32, __attribute__((target("avx2,fma"))))
READ(sse2, 16, )
#else
READ(neon, 16, )
#endif

static uint64_t (*const reads[])(const char *from, size_t n) = {
#define ISA(name, vector, fuses) read_##name,
#include "codegen/strips/isa.def"
};

/* ---- a working set, by threads ---- */

/* p: where it is.  n: bytes of each thread's part; is it copied?  The compiler is told that what is
 * read or copied is used. */
static int
go_through(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    for (int64_t k = lo; k < hi; k++) {
        char *part = (char *)p[0] + k * n[0];
        size_t half = (size_t)n[0] / 2;
        if (n[1]) {
            memcpy(part, part + half, half);
            __asm__ volatile("" : : "r"(part) : "memory");
        } else {
            uint64_t read = reads[processor_isa()](part, (size_t)n[0]);
            __asm__ volatile("" : : "r"(read));
        }
    }
    return 0;
}

/* Bytes a second. */
static double
rate(char *memory, int64_t bytes, int threads, bool copied)
{
    void *p[1] = {memory};
    int64_t n[2] = {bytes / threads / 4096 * 4096, copied};
    ParallelJob job = {.body = go_through, .p = p, .n = n, .extent = threads, .grain = 1};
    double first = clock_seconds(), least = INFINITY;
    for (int k = 0; k < MOST_TIMES && (k < LEAST_TIMES || clock_seconds() < first + each); k++) {
        int runs = (int)((1 << 20) / bytes) + 1; /* small ones take longer than the clock's steps */
        double begin = clock_seconds();
        for (int run = 0; run < runs; run++) {
            parallel_for(&job);
        }
        least = fmin(least, (clock_seconds() - begin) / runs);
    }
    return (double)(n[0] * threads) / least;
}

static int
nothing(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    (void)p, (void)n, (void)lo, (void)hi;
    return 0;
}

/* Seconds to start all threads and to wait for them. */
static double
fork_seconds(int threads)
{
    void *p[1] = {NULL};
    ParallelJob job = {.body = nothing, .p = p, .extent = threads, .grain = 1};
    double least = INFINITY;
    for (int k = 0; k < FORKS && threads > 1; k++) {
        double begin = clock_seconds();
        parallel_for(&job);
        least = fmin(least, clock_seconds() - begin);
    }
    return threads > 1 ? least : 0;
}

bool
speeds_measure(Speeds *out)
{
    int64_t most = SPEED_FIRST;
    for (int k = 1; k < SPEED_LEVELS; k++) {
        most *= SPEED_STEP;
    }
    char *memory = aligned_alloc(4096, (size_t)most);
    if (!memory) {
        return false;
    }
    memset(memory, 1, (size_t)most);
    out->threads = parallel_threads();
    out->clock = micro_clock();
    out->fork = fork_seconds(out->threads);
    int64_t bytes = SPEED_FIRST;
    for (int k = 0; k < SPEED_LEVELS; k++, bytes *= SPEED_STEP) {
        for (int copied = 0; copied < 2; copied++) {
            double alone = rate(memory, bytes, 1, copied);
            double together = alone;
            if (out->threads > 1 && bytes / out->threads >= 4096) {
                together = rate(memory, bytes, out->threads, copied);
            }
            *(copied ? &out->alone.copy[k] : &out->alone.read[k]) = alone;
            *(copied ? &out->together.copy[k] : &out->together.read[k]) = together;
        }
    }
    free(memory);
    return true;
}
