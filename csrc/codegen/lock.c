/* Locks that are free in every forked child, with intact data behind them.
 *
 * What:     a mutex for each row of lock.def.
 * Requires: a thread that has a lock takes only those of later rows, and forks with none.
 * Ensures:  in a child of fork no lock is held, and no other thread was in the middle of a change.
 * How:      the forking thread takes all locks first, in the order of the table; both processes
 *           release them. The child handles the guarded data as the table says. A plan has its own
 *           lock, which is not in the table: it records the process of its holder, and is released
 *           if the holder is not in this process.
 * Why not:  a handler of fork for each lock: the C library calls them in the order of first use,
 *           the last first, which differs from process to process.
 * Example:  a worker of torch's DataLoader is a child of fork, while another thread calls a plan.
 */
#include <sched.h>

#include "codegen/lock.h"

static pthread_mutex_t locks[] = {
#define LOCK(name, in_child) PTHREAD_MUTEX_INITIALIZER,
#include "codegen/lock.def"
#undef LOCK
};
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_uint forks; /* that this process came from */

static void
before_fork(void)
{
    for (int k = 0; k < LOCK_COUNT; k++) {
        pthread_mutex_lock(&locks[k]);
    }
}

static void
after_fork(void)
{
    for (int k = LOCK_COUNT; k-- > 0;) {
        pthread_mutex_unlock(&locks[k]);
    }
}

static void
after_fork_in_child(void)
{
#define LOCK(name, in_child) in_child();
#include "codegen/lock.def"
#undef LOCK
    forks++;
    after_fork();
}

static void
handle_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

void
lock_keep(void)
{
}

void
lock_take(Lock lock)
{
    pthread_once(&once, handle_forks);
    pthread_mutex_lock(&locks[lock]);
}

void
lock_give(Lock lock)
{
    pthread_mutex_unlock(&locks[lock]);
}

pthread_mutex_t *
lock_mutex(Lock lock)
{
    return &locks[lock];
}

bool
spin_take(SpinLock *lock)
{
    unsigned own = atomic_load_explicit(&forks, memory_order_relaxed) + 1;
    for (;;) {
        unsigned holder = 0;
        if (atomic_compare_exchange_strong_explicit(&lock->holder, &holder, own,
                                                    memory_order_acquire, memory_order_relaxed)) {
            return false;
        }
        if (holder != own &&
            atomic_compare_exchange_strong_explicit(&lock->holder, &holder, own,
                                                    memory_order_acquire, memory_order_relaxed)) {
            return true;
        }
        sched_yield();
    }
}

void
spin_give(SpinLock *lock)
{
    atomic_store_explicit(&lock->holder, 0, memory_order_release);
}
