/* What this machine was measured to do: how fast memory is by working set, the clock, and what it
 * takes to start all threads.
 *
 * A working set is read, or half of it is copied to the other half, again and again, by one thread
 * and by all, of which each has a part of its own.  The largest one is also copied with stores that
 * bypass the caches, since an ordinary store reads the line first, and read in pages that lie
 * apart, since a processor that has seen a row begin fetches what follows.  The fastest time
 * counts: whatever else happens only makes it longer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "codegen/plan/parallel.h"
#include "codegen/plan/plan.h"
#include "codegen/process.h"
#include "codegen/processor.h"
#include "predict.h"

enum {
    LEAST_TIMES = 3,            /* that a working set is gone through, however slow */
    MOST_TIMES = 200,
    FORKS = 400,
    STARTED = 16,               /* MiB that threads go through at least, once they have started */
    APART = 16,                 /* pages from one that is read to the next */
};

static const double each = 6e-3; /* seconds for a working set */

/* ---- reading ---- */

#define READS(isa, bytes, attributes) \
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
READS(avx512, 64, __attribute__((target("avx512f"))))
READS(avx2, 32, __attribute__((target("avx2,fma"))))
READS(sse2, 16, )
#else
READS(neon, 16, )
#endif

static uint64_t (*const reads[])(const char *from, size_t n) = {
#define ISA(name, vector, fuses) read_##name,
#include "codegen/strips/isa.def"
};

static void
copy(char *to, const char *from, size_t n)
{
    memcpy(to, from, n);
}

/* A copy whose stores bypass the caches, of whole lines. */
static void
stream(char *to, const char *from, size_t n)
{
#if defined(__x86_64__)
    for (size_t k = 0; k + 16 <= n; k += 16) {
        _mm_stream_si128((__m128i *)(to + k), _mm_load_si128((const __m128i *)(from + k)));
    }
    _mm_sfence();
#else
    memcpy(to, from, n);
#endif
}

/* Reads pages in an order in which none follows its neighbour, each once. */
static uint64_t
jump(const char *from, size_t n)
{
    size_t pages = n / SPEED_PAGE;
    uint64_t sum = 0;
    for (size_t first = 0; first < APART; first++) {
        for (size_t k = first; k < pages; k += APART) {
            sum ^= reads[processor_isa()](from + k * SPEED_PAGE, SPEED_PAGE);
        }
    }
    return sum;
}

/* ---- a working set, by threads ---- */

typedef enum { READ, COPY, STREAM, JUMP } Way;

/* p: where it is.  n: bytes of each thread's part, the way, how often.  The compiler is told that
 * what is read or copied is used. */
static int
go_through(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    for (int64_t k = lo; k < hi; k++) {
        char *part = (char *)p[0] + k * n[0];
        size_t half = (size_t)n[0] / 2;
        for (int64_t run = 0; run < n[2]; run++) {
            if (n[1] == READ || n[1] == JUMP) {
                uint64_t read = (n[1] == READ ? reads[processor_isa()] : jump)(part, (size_t)n[0]);
                __asm__ volatile("" : : "r"(read));
            } else {
                (n[1] == COPY ? copy : stream)(part, part + half, half);
                __asm__ volatile("" : : "r"(part) : "memory");
            }
        }
    }
    return 0;
}

/* Bytes a second, without the start of threads, which `fork` counts: so small working sets are gone
 * through many times by each thread. */
static double
rate(char *memory, int64_t bytes, int threads, Way way)
{
    void *p[1] = {memory};
    int64_t runs = (1 << 20) / bytes * STARTED + 1;
    int64_t n[3] = {bytes / threads / 4096 * 4096, way, runs};
    ParallelJob job = {.body = go_through, .p = p, .n = n, .extent = threads, .grain = 1};
    double first = clock_seconds(), least = INFINITY;
    for (int k = 0; k < MOST_TIMES && (k < LEAST_TIMES || clock_seconds() < first + each); k++) {
        double begin = clock_seconds();
        parallel_for(&job);
        least = fmin(least, (clock_seconds() - begin) / (double)runs);
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
    memory_want_huge(memory, (size_t)most); /* as tensors */
    memset(memory, 1, (size_t)most);
    out->threads = parallel_threads();
    out->clock = micro_clock();
    out->fork = fork_seconds(out->threads);
    int64_t bytes = SPEED_FIRST;
    for (int k = 0; k < SPEED_LEVELS; k++, bytes *= SPEED_STEP) {
        int threads = bytes / out->threads >= 4096 ? out->threads : 1;
        out->alone.read[k] = rate(memory, bytes, 1, READ);
        out->alone.copy[k] = rate(memory, bytes, 1, COPY);
        out->together.read[k] = rate(memory, bytes, threads, READ);
        out->together.copy[k] = rate(memory, bytes, threads, COPY);
    }
    out->alone.streamed = rate(memory, most, 1, STREAM);
    out->together.streamed = rate(memory, most, out->threads, STREAM);
    out->alone.jumping = rate(memory, most, 1, JUMP);
    out->together.jumping = rate(memory, most, out->threads, JUMP);
    free(memory);
    return true;
}
