/* Threads of dlc's own, for a process that has no OpenMP runtime: one that has no torch.
 *
 * One launch at a time has the threads; a launch that comes meanwhile, from another thread of the
 * caller's, runs in that thread alone.  The caller works too, and does not wait for threads that
 * have not begun when it is through: there is nothing left for them.  The threads live as long as
 * the process, and a forked child, which has none of them, runs in its own thread.
 *
 * Who waits looks again and again for a while before it sleeps: the next launch of a call is some
 * microseconds away, and to wake a thread takes tens of them.  It sleeps at once where the threads
 * are more than the processors, and where $OMP_WAIT_POLICY is passive. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "pool.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#include "codegen/lock.h"

enum {
    MOST = 64,
    WAIT = 200000, /* nanoseconds before a thread sleeps */
    LOOKS = 64,    /* between two looks at the clock */
};

/* all guarded by LOCK_pool; what is atomic may be read without it */
static struct {
    void (*body)(void *arg); /* of the launch that is open to threads; NULL: there is none */
    void *arg;
    atomic_int number;       /* of the launch; it may wrap around */
    atomic_int busy;         /* threads besides the caller that work */
    int wanted, begun;       /* threads besides the caller: at most, that have begun */
    int threads;             /* that there are */
    bool taken;              /* by a launch */
    bool forked;             /* the threads are the parent's */
} pool;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER, finished = PTHREAD_COND_INITIALIZER;
static _Thread_local int number; /* of this thread in a launch */
static _Thread_local bool inside;
static atomic_bool sleeps; /* at once */

/* Returns when the number is the value, or is no longer; or after a while. */
static void
look(const atomic_int *number_of, int value, bool is)
{
    struct timespec from, now;
    if (sleeps) {
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &from);
    do {
        for (int k = 0; k < LOOKS; k++) {
            if ((atomic_load_explicit(number_of, memory_order_relaxed) == value) == is) {
                return;
            }
#ifdef __x86_64__
            __builtin_ia32_pause();
#endif
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - from.tv_sec) * 1000000000 + now.tv_nsec - from.tv_nsec < WAIT);
}

void
pool_in_child(void)
{
    pool.forked |= pool.threads > 0;
    pool.taken = false;
}

static void *
work(void *unused)
{
    int seen = 0; /* no launch's */
    (void)unused;
    inside = true;
    lock_take(LOCK_pool);
    for (;;) {
        bool awake = true;
        while (!pool.body || pool.number == seen || pool.begun == pool.wanted) {
            seen = pool.number;
            if (awake) {
                lock_give(LOCK_pool);
                look(&pool.number, seen, false);
                lock_take(LOCK_pool);
            } else {
                pthread_cond_wait(&opened, lock_mutex(LOCK_pool));
            }
            awake = pool.number != seen;
        }
        void (*body)(void *arg) = pool.body;
        void *arg = pool.arg;
        seen = pool.number;
        number = ++pool.begun;
        pool.busy++;
        lock_give(LOCK_pool);
        body(arg);
        lock_take(LOCK_pool);
        if (--pool.busy == 0) {
            pthread_cond_signal(&finished);
        }
    }
    return NULL;
}

/* Makes threads until there are so many, or no more can be made; they see no signals. */
static void
make_threads(int wanted)
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.threads < wanted && pthread_create(&thread, NULL, work, NULL) == 0) {
        pthread_detach(thread);
        pool.threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void
pool_parallel(void (*body)(void *arg), void *arg, unsigned threads, unsigned flags)
{
    (void)flags;
    lock_take(LOCK_pool);
    bool mine = !pool.taken && !pool.forked;
    if (mine) {
        pool.taken = true;
        make_threads((int)threads - 1);
        pool.body = body;
        pool.arg = arg;
        pool.number++;
        pool.wanted = (int)threads - 1;
        pool.begun = 0;
        pthread_cond_broadcast(&opened);
    }
    lock_give(LOCK_pool);
    inside = true;
    number = 0;
    body(arg);
    inside = false;
    if (!mine) {
        return;
    }
    lock_take(LOCK_pool);
    pool.body = NULL;
    if (pool.busy) {
        lock_give(LOCK_pool);
        look(&pool.busy, 0, true);
        lock_take(LOCK_pool);
    }
    while (pool.busy) {
        pthread_cond_wait(&finished, lock_mutex(LOCK_pool));
    }
    pool.taken = false;
    lock_give(LOCK_pool);
}

/* $OMP_NUM_THREADS, or the processors that the process may use. */
int
pool_threads(void)
{
    static _Atomic(int) known;
    if (!known) {
        const char *text = getenv("OMP_NUM_THREADS");
        long given = text ? strtol(text, NULL, 10) : 0;
        cpu_set_t set;
        int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
        int threads = given > 0 && given <= MOST ? (int)given : cores;
        const char *policy = getenv("OMP_WAIT_POLICY");
        sleeps = threads > cores || (policy && strcasecmp(policy, "passive") == 0);
        known = threads < 1 ? 1 : threads > MOST ? MOST : threads;
    }
    return known;
}

int
pool_inside(void)
{
    return inside;
}

int
pool_number(void)
{
    return number;
}
