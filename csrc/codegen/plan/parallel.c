/* One parallel loop, over the threads that torch has.
 *
 * A thread gets one range of neighbours, the same at every launch, so that what it has in its cache
 * from one kernel is there for the next.  It runs its range in pieces and reads the entry anew for
 * each. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/lock.h"

enum {
    PIECES = 8,                 /* of a thread's range, at most */
    FEW = 48,                   /* buffers whose pointers are copied without malloc */
};

/* The OpenMP runtime, by the names that GNU's and LLVM's both have. */
typedef struct {
    void (*parallel)(void (*body)(void *arg), void *arg, unsigned threads, unsigned flags);
    int (*max_threads)(void);
    int (*in_parallel)(void);
    int (*thread_num)(void);
    int (*num_threads)(void);
} Runtime;

typedef struct {
    const ParallelJob *job;
    atomic_int fault;
} Launch;

static Runtime runtime;
static atomic_bool found;
static _Atomic(void (*)(void)) begin;
/* the runtime's threads are the parent's: it would wait for them for ever */
static atomic_bool forked;

void
parallel_in_child(void)
{
    forked |= found;
}

bool
parallel_use(void *library)
{
    Runtime r;
    *(void **)&r.parallel = dlsym(library, "GOMP_parallel");
    *(void **)&r.max_threads = dlsym(library, "omp_get_max_threads");
    *(void **)&r.in_parallel = dlsym(library, "omp_in_parallel");
    *(void **)&r.thread_num = dlsym(library, "omp_get_thread_num");
    *(void **)&r.num_threads = dlsym(library, "omp_get_num_threads");
    if (!r.parallel || !r.max_threads || !r.in_parallel || !r.thread_num || !r.num_threads) {
        return false;
    }
    lock_take(LOCK_openmp);
    if (!found) {
        runtime = r;
        found = true;
    }
    lock_give(LOCK_openmp);
    return true;
}

/* Looks again while the process has no OpenMP runtime: torch may come after us. */
static bool
have_runtime(void)
{
    static const char *const names[] = {"libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
        if (library) {
            parallel_use(library);
        }
    }
    return found;
}

void
parallel_begin(void (*function)(void))
{
    begin = function;
}

int
parallel_threads(void)
{
    static _Thread_local bool begun;
    void (*first)(void) = begun ? NULL : begin;
    if (forked || !have_runtime() || runtime.in_parallel()) {
        return 1;
    }
    if (first) {
        begun = true;
        first();
    }
    int threads = runtime.max_threads();
    return threads > 1 ? threads : 1;
}

/* Runs lo .. hi-1 in pieces, until one has a fault. */
static int
run_pieces(const ParallelJob *job, void *const *p, int64_t lo, int64_t hi)
{
    int64_t piece = (hi - lo + PIECES - 1) / PIECES;
    int fault = 0;
    piece = piece > job->grain ? piece : job->grain;
    for (; lo < hi && fault == 0; lo += piece) {
        int64_t end = hi - lo > piece ? lo + piece : hi;
        fault = (job->code ? code_entry(job->code, job->entry) : job->body)(p, job->n, lo, end);
    }
    return fault;
}

/* The same, with the scratch of thread t. */
static int
run_range(const ParallelJob *job, int t, int64_t lo, int64_t hi)
{
    if (job->each == 0) {
        return run_pieces(job, job->p, lo, hi);
    }
    void *few[FEW], **p = few;
    size_t count = (size_t)job->nbuffers;
    if (count >= FEW && !(p = malloc((count + 1) * sizeof *p))) {
        return FAULT_MEMORY;
    }
    memcpy(p, job->p, count * sizeof *p);
    p[count] = job->scratch + (size_t)t * job->each;
    int fault = run_pieces(job, p, lo, hi);
    if (p != few) {
        free(p);
    }
    return fault;
}

/* extent * t / threads, of numbers whose product may have more than 64 bits */
static int64_t
share(int64_t extent, int64_t t, int64_t threads)
{
    return extent / threads * t + extent % threads * t / threads;
}

static void
body(void *arg)
{
    Launch *launch = arg;
    const ParallelJob *job = launch->job;
    int t = runtime.thread_num(), threads = runtime.num_threads(), none = 0;
    int64_t lo = share(job->extent, t, threads), hi = share(job->extent, t + 1, threads);
    int fault = run_range(job, t, lo, hi);
    if (fault != 0) {
        atomic_compare_exchange_strong(&launch->fault, &none, fault);
    }
}

int
parallel_for(const ParallelJob *job)
{
    int64_t grain = job->grain > 1 ? job->grain : 1;
    int threads = job->extent > grain ? parallel_threads() : 1;
    if (job->most && threads > job->most) { /* it was raised since there was made room */
        threads = job->most;
    }
    if (threads > job->extent / grain) {
        threads = (int)(job->extent / grain);
    }
    if (threads <= 1) {
        return run_range(job, 0, 0, job->extent);
    }
    Launch launch = {.job = job};
    runtime.parallel(body, &launch, (unsigned)threads, 0);
    return launch.fault;
}
