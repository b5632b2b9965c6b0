/* One parallel loop, over the threads that torch has, or, without torch, those of pool.c.
 *
 * A thread gets one share of neighbours, the same at every launch, so that what it has in its cache
 * from one kernel is there for the next.  It runs its share in pieces and reads the entry anew for
 * each.  A thread that is through with its share takes pieces of the others': cores are not equally
 * fast at all times, and all threads wait for the last one.  Pieces become smaller towards the end
 * of a share, so that this wait is short. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/process.h"
#include "parallel.h"
#include "pool.h"
#include "codegen/lock.h"
#include "codegen/machine.h"

enum {
    SHARES = 64,                /* more threads begin in shares of others */
    PIECES = 8,                 /* a piece is this part of the rest of its share, */
    LEAST = 64,                 /* and at least this part of the whole share */
    FEW = 48,                   /* buffers whose pointers are copied without malloc */
};

/* The OpenMP runtime, by the names that GNU's and LLVM's both have. */
typedef struct {
    void (*parallel)(void (*body)(void *arg), void *arg, unsigned threads, unsigned flags);
    int (*max_threads)(void);
    int (*in_parallel)(void);
    int (*thread_num)(void);
} Runtime;

/* The rest of the loop of one thread, each in its own cache line. */
typedef struct {
    _Alignas(DLC_LINE) _Atomic(int64_t) lo;
    int64_t hi, least;
} Share;

typedef struct {
    const ParallelJob *job;
    const Runtime *runtime;
    atomic_int fault;
    int nshares;
    Share shares[SHARES];
} Launch;

static Runtime runtime;
static const Runtime own = {pool_parallel, pool_threads, pool_inside, pool_number};
static atomic_bool found;
static atomic_bool has_own; /* a process without an OpenMP runtime has threads of dlc's */
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
    if (!r.parallel || !r.max_threads || !r.in_parallel || !r.thread_num) {
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

/* Looks again while the process has no OpenMP runtime and no threads of dlc's: torch may come after
 * us, and tells of its own (parallel_use) in any case. */
static bool
have_runtime(void)
{
    static atomic_bool looked;
    if (atomic_exchange(&looked, has_own)) {
        return found;
    }
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
parallel_own(void)
{
    has_own = true;
}

/* NULL: everything runs in the calling thread. */
static const Runtime *
find_runtime(void)
{
    return forked ? NULL : found || have_runtime() ? &runtime : has_own ? &own : NULL;
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
    const Runtime *with = find_runtime();
    if (!with || with->in_parallel()) {
        return 1;
    }
    if (first) {
        begun = true;
        first();
    }
    int threads = with->max_threads();
    return threads > 1 ? threads : 1;
}

/* Takes the next piece *lo .. *hi-1 of a share; false: nothing is left. */
static bool
take_piece(Share *r, int64_t *lo, int64_t *hi)
{
    *lo = atomic_load_explicit(&r->lo, memory_order_relaxed);
    do {
        int64_t left = r->hi - *lo, piece = (left + PIECES - 1) / PIECES;
        if (left <= 0) {
            return false;
        }
        piece = piece > r->least ? piece : r->least;
        *hi = piece < left ? *lo + piece : r->hi;
    } while (!atomic_compare_exchange_weak_explicit(&r->lo, lo, *hi, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

static KernelFn
entry_of(const ParallelJob *job)
{
    return job->code ? code_entry(job->code, job->entry) : job->body;
}

/* Runs the pieces of a share that are left, until one has a fault. */
static int
run_share(const ParallelJob *job, void *const *p, Share *r)
{
    int fault = 0;
    for (int64_t lo, hi; fault == 0 && take_piece(r, &lo, &hi);) {
        fault = entry_of(job)(p, job->n, lo, hi);
    }
    return fault;
}

/* Runs the thread's own share, then the rest of the other shares, beginning with the next one. */
static int
run_shares(Launch *launch, void *const *p, int t)
{
    int fault = 0;
    for (int k = 0; k < launch->nshares && fault == 0; k++) {
        fault = run_share(launch->job, p, &launch->shares[(t + k) % launch->nshares]);
    }
    return fault;
}

/* The same, with the scratch of thread t. */
static int
run_thread(Launch *launch, int t)
{
    const ParallelJob *job = launch->job;
    if (job->each == 0) {
        return run_shares(launch, job->p, t);
    }
    void *few[FEW], **p = few;
    size_t count = (size_t)job->nbuffers;
    if (count >= FEW && !(p = malloc((count + 1) * sizeof *p))) {
        return FAULT_MEMORY;
    }
    memcpy(p, job->p, count * sizeof *p);
    p[count] = job->scratch + (size_t)t * job->each;
    int fault = run_shares(launch, p, t);
    if (p != few) {
        free(p);
    }
    return fault;
}

/* extent * t / threads, whose intermediate product may have more than 64 bits */
static int64_t
share_at(int64_t extent, int64_t t, int64_t threads)
{
    return extent / threads * t + extent % threads * t / threads;
}

static void
body(void *arg)
{
    Launch *launch = arg;
    int none = 0, fault = run_thread(launch, launch->runtime->thread_num());
    if (fault != 0) {
        atomic_compare_exchange_strong(&launch->fault, &none, fault);
    }
}

/* Cuts the loop into one share for each thread.  The share of a single thread has equal pieces. */
static void
cut(Launch *launch, int threads)
{
    int64_t grain = launch->job->grain, extent = launch->job->extent;
    int n = launch->nshares = threads < SHARES ? threads : SHARES;
    for (int t = 0; t < n; t++) {
        Share *r = &launch->shares[t];
        int64_t lo = share_at(extent, t, n), parts = n > 1 ? LEAST : PIECES;
        atomic_init(&r->lo, lo);
        r->hi = share_at(extent, t + 1, n);
        r->least = (r->hi - lo + parts - 1) / parts;
        r->least = r->least > grain ? r->least : grain;
    }
}

int
parallel_for(const ParallelJob *job)
{
    int64_t grain = job->grain > 1 ? job->grain : 1;
    bool ready = job->each == 0 || job->p[job->nbuffers] == job->scratch;
    if (job->extent <= grain && ready) { /* one piece, with the first thread's scratch */
        return job->extent > 0 ? entry_of(job)(job->p, job->n, 0, job->extent) : 0;
    }
    int threads = job->extent > grain ? parallel_threads() : 1;
    if (job->most && threads > job->most) { /* it was raised since there was made room */
        threads = job->most;
    }
    if (threads > job->extent / grain) {
        threads = (int)(job->extent / grain);
    }
    Launch launch; /* there are too many shares to clear all */
    launch.job = job;
    launch.runtime = threads > 1 ? find_runtime() : NULL;
    atomic_init(&launch.fault, 0);
    cut(&launch, threads > 1 ? threads : 1);
    if (threads <= 1 || !launch.runtime) {
        return run_thread(&launch, 0);
    }
    launch.runtime->parallel(body, &launch, (unsigned)threads, 0);
    return launch.fault;
}
