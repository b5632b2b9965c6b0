/* parallel_for: every index once, whatever the threads; scratch of one thread; faults come back. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

#include "jit_test.h"

enum { EXTENT = 10007, MANY = 70 };

static atomic_int seen[EXTENT];
static atomic_int calls, least;

static int
mark(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    CHECK(p[0] == seen && n[0] == 7 && lo < hi);
    for (int64_t i = lo; i < hi; i++) {
        atomic_fetch_add(&seen[i], 1);
    }
    atomic_fetch_add(&calls, 1);
    if (hi - lo < atomic_load(&least) && hi != EXTENT) {
        atomic_store(&least, (int)(hi - lo));
    }
    return 0;
}

static int
fault(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    (void)p, (void)n;
    return lo <= 5000 && 5000 < hi ? FAULT_INDEX : 0;
}

static Code *
code_of(KernelFn fn)
{
    Code *code = double_code();
    code_set(code, 0, fn, TIER_CC);
    return code;
}

static ParallelJob
job_of(const Code *code, int64_t extent, int64_t grain)
{
    static void *buffers[2] = {seen};
    static const int64_t n[1] = {7};
    return (ParallelJob){
        .code = code, .nbuffers = 1, .p = buffers, .n = n, .extent = extent, .grain = grain};
}

/* The OpenMP runtime of this machine, or false: then there is nothing to run in parallel. */
static bool
load_openmp(int threads)
{
    void *library = dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        return false;
    }
    void (*set_threads)(int);
    *(void **)&set_threads = dlsym(library, "omp_set_num_threads");
    set_threads(threads);
    CHECK(parallel_threads() == threads);
    return true;
}

static void
check_covers(int64_t extent, int64_t grain)
{
    Code *code = code_of(mark);
    ParallelJob job = job_of(code, extent, grain);
    memset(seen, 0, sizeof seen);
    least = EXTENT;
    CHECK(parallel_for(&job) == 0);
    for (int i = 0; i < EXTENT; i++) {
        CHECK(seen[i] == (i < extent));
    }
    code_unref(code);
}

void
test_parallel_serial(void)
{
    CHECK(parallel_threads() == 1);
    check_covers(EXTENT, 1);
    check_covers(0, 1);
    calls = 0;
    check_covers(100, 100);
    CHECK(calls == 1);
    calls = 0;
    check_covers(EXTENT, 4000); /* in pieces, so that a faster tier takes over */
    CHECK(calls == 3 && least >= 4000);
}

void
test_parallel_covers(void)
{
    for (int threads = 1; threads <= 4 && load_openmp(threads); threads++) {
        for (int64_t grain = 0; grain <= 20000; grain = 3 * grain + 1) {
            check_covers(EXTENT, grain);
            check_covers(grain, grain);
            check_covers(grain / 2, grain);
        }
    }
}

static int
use_scratch(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    int64_t *scratch = p[1];
    for (int64_t i = lo; i < hi; i++) {
        scratch[i % 8]++;
    }
    return mark(p, n, lo, hi);
}

void
test_parallel_scratch(void)
{
    int64_t scratch[4][8] = {{0}}, sum = 0;
    bool many = load_openmp(4);
    Code *code = code_of(use_scratch);
    ParallelJob job = job_of(code, EXTENT, 1);
    job.scratch = (char *)scratch;
    job.each = sizeof *scratch;
    CHECK(parallel_for(&job) == 0 && job.p[1] == NULL);
    for (int t = 0; t < 4; t++) {
        for (int i = 0; i < 8; i++) {
            sum += scratch[t][i];
        }
    }
    CHECK(sum == EXTENT && (many || scratch[3][0] == 0));
    code_unref(code);
}

static atomic_int left, waiting;

/* The first piece of the loop waits for all others, those of its own share too. */
static int
wait_for_others(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    atomic_fetch_sub(&left, (int)(hi - lo));
    while (lo == 0 && atomic_load(&left) > 0) {
        sched_yield();
    }
    return mark(p, n, lo, hi);
}

/* A thread that is through with its share runs what another one has not come to. */
void
test_parallel_shares(void)
{
    for (int threads = 2; threads <= 4 && load_openmp(threads); threads++) {
        Code *code = code_of(wait_for_others);
        ParallelJob job = job_of(code, EXTENT, 1);
        memset(seen, 0, sizeof seen);
        atomic_store(&left, EXTENT);
        CHECK(parallel_for(&job) == 0);
        for (int i = 0; i < EXTENT; i++) {
            CHECK(seen[i] == 1);
        }
        code_unref(code);
    }
}

static int
meet(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    static _Thread_local bool met;
    atomic_fetch_add(&waiting, !met);
    met = true;
    while (atomic_load(&waiting) < MANY) {
        sched_yield();
    }
    return use_scratch(p, n, lo, hi);
}

/* More threads than shares: each has a piece, as the first of each thread waits for all. */
void
test_parallel_many(void)
{
    static int64_t scratch[MANY][8];
    if (!load_openmp(MANY)) {
        return;
    }
    Code *code = code_of(meet);
    ParallelJob job = job_of(code, EXTENT, 1);
    job.scratch = (char *)scratch;
    job.each = sizeof *scratch;
    memset(seen, 0, sizeof seen);
    CHECK(parallel_for(&job) == 0);
    for (int i = 0; i < EXTENT; i++) {
        CHECK(seen[i] == 1);
    }
    for (int t = 0; t < MANY; t++) {
        bool any = false;
        for (int i = 0; i < 8; i++) {
            any |= scratch[t][i] != 0;
        }
        CHECK(any);
    }
    code_unref(code);
}

/* More threads than there was made scratch for, as when somebody raises their number during a
 * call. */
void
test_parallel_raised(void)
{
    int64_t scratch[4][8] = {{0}};
    Code *code = code_of(use_scratch);
    ParallelJob job = job_of(code, EXTENT, 1);
    job.scratch = (char *)scratch;
    job.each = sizeof *scratch;
    job.most = 2;
    load_openmp(4);
    CHECK(parallel_for(&job) == 0);
    CHECK(scratch[0][0] + scratch[1][0] != 0 && scratch[2][0] == 0 && scratch[3][0] == 0);
    for (int64_t i = 0; i < EXTENT; i++) {
        CHECK(seen[i] == 1);
    }
    code_unref(code);
}

void
test_parallel_fault(void)
{
    Code *code = code_of(fault);
    ParallelJob job = job_of(code, EXTENT, 1);
    CHECK(parallel_for(&job) == FAULT_INDEX);
    load_openmp(3);
    CHECK(parallel_for(&job) == FAULT_INDEX);
    job.extent = 5000;
    CHECK(parallel_for(&job) == 0);
    code_unref(code);
}

static int
nest(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    (void)p, (void)n, (void)lo, (void)hi;
    CHECK(parallel_threads() == 1);
    return 0;
}

void
test_parallel_nested(void)
{
    if (!load_openmp(2)) {
        return;
    }
    Code *code = code_of(nest);
    ParallelJob job = job_of(code, EXTENT, 1);
    CHECK(parallel_for(&job) == 0);
    code_unref(code);
}
