/* The most arithmetic on f32 that this machine does in a second: the roofline of a report; and how
 * many cycles it has in a second.
 *
 * Each thread runs a loop of multiply-adds whose operands are all in registers.  The sums are so
 * many that none waits for the one before it, and the instruction set is that of the microkernels.
 * A product cannot be faster. */
#include "micro.h"
#include "codegen/processor.h"
#include "codegen/plan/parallel.h"

#include <math.h>
#include <stdatomic.h>

enum { SUMS = 12, STEPS = 20000, TIMES = 100, ADDITIONS = 400000 };

static const double patience = 0.05; /* seconds in which each thread comes, on any machine */

/* sse2 has no fused multiply-add: multiplications and additions take turns, in other registers. */
#define LOOP(isa, bytes, attributes, body) \
    attributes static void loop_##isa(void) \
    { \
        typedef float Vector __attribute__((vector_size(bytes))); \
        Vector sum[SUMS] = {{0}}, one = {0}; \
        for (int n = 0; n < STEPS; n++) { \
            _Pragma("GCC unroll 12") for (int k = 0; k < SUMS; k++) { body; } \
        } \
    }
#if defined(__x86_64__)
#define FUSED __asm__ volatile("vfmadd231ps %1, %1, %0" : "+v"(sum[k]) : "v"(one))
LOOP(avx512, 64, __attribute__((target("avx512f"))), FUSED)
LOOP(avx2, 32, __attribute__((target("avx2,fma"))), FUSED)
LOOP(sse2, 16, , if (k % 2) __asm__ volatile("mulps %1, %0" : "+x"(sum[k]) : "x"(one));
     else __asm__ volatile("addps %1, %0" : "+x"(sum[k]) : "x"(one)))
#else
LOOP(neon, 16, , __asm__ volatile("fmla %0.4s, %1.4s, %1.4s" : "+w"(sum[k]) : "w"(one)))
#endif

/* each: operations of a line of the innermost loop. */
typedef struct Peak {
    void (*loop)(void);
    double each;
} Peak;

static const Peak peaks[] = {
#define ISA(name, vector, fuses) {loop_##name, (fuses ? 2 : 1) * vector / (double)sizeof(float)},
#include "codegen/strips/isa.def"
};

/* What the threads share.  Times of a thread count while all of them run: where two are of one
 * core, it would be faster alone. */
typedef struct Race {
    Peak peak;
    unsigned number;            /* of all races in the process */
    int threads;                /* that run; OpenMP may give fewer than were asked for */
    atomic_int members;         /* that were seen */
    int wanted;                 /* that were asked for */
    double deadline;            /* until which they are waited for */
    atomic_int running;
    _Atomic int64_t rate;       /* of those that are done, operations a second */
} Race;

/* A thread that came would do the others' share too, and they would never be seen: it waits for
 * them. */
static int
join(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    static _Thread_local unsigned joined;
    Race *race = p[0];
    (void)n, (void)lo, (void)hi;
    race->members += joined != race->number;
    joined = race->number;
    while (race->members < race->wanted && clock_seconds() < race->deadline) {
    }
    return 0;
}

static int
run(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    (void)n;
    Race *race = p[0];
    for (int64_t k = lo; k < hi; k++) {
        double least = INFINITY, alone = INFINITY;
        atomic_fetch_add(&race->running, 1);
        for (int time = 0; time < TIMES; time++) {
            bool together = race->running == race->threads;
            double begin = clock_seconds();
            race->peak.loop();
            double took = clock_seconds() - begin;
            alone = fmin(alone, took);
            least = together && race->running == race->threads ? fmin(least, took) : least;
        }
        atomic_fetch_sub(&race->running, 1);
        double each = race->peak.each * SUMS * STEPS;
        atomic_fetch_add(&race->rate, (int64_t)(each / (isinf(least) ? alone : least)));
    }
    return 0;
}

/* Each thread takes its own time: with another program on the cores, they would seldom all be done
 * at once. */
double
micro_peak(void)
{
    static atomic_uint races;
    Race race = {.peak = peaks[processor_isa()],
                 .number = ++races,
                 .wanted = parallel_threads(),
                 .deadline = clock_seconds() + patience};
    void *p[2] = {&race};
    ParallelJob job = {.body = join, .p = p, .extent = race.wanted, .grain = 1};
    parallel_for(&job);
    job.body = run;
    job.extent = race.threads = race.members;
    parallel_for(&job);
    return (double)race.rate;
}

/* Additions that wait for one another take a cycle each, on every processor that has a row in
 * isa.def. */
double
micro_clock(void)
{
    double least = INFINITY;
    for (int time = 0; time < TIMES / 10; time++) {
        uint64_t x = 1, y = 3;
        __asm__ volatile("" : "+r"(y));
        double begin = clock_seconds();
        for (int k = 0; k < ADDITIONS; k += 8) {
            _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++)
            {
                x += y;
                __asm__ volatile("" : "+r"(x));
            }
        }
        least = fmin(least, clock_seconds() - begin);
    }
    return ADDITIONS / least;
}
