/* Locks that every child of fork finds free, and what they guard whole.
 *
 * What:     a mutex for each row of lock.def.
 * Requires: a thread that has a lock takes only those of later rows, and forks with none.
 * Ensures:  in a child of fork no lock is held, and no other thread was in the middle of a change.
 * How:      who forks takes all locks first, in the order of the table; both processes give them
 *           back.  The child does with what they guard what the table says.
 *           A plan has a lock of its own, which no table knows: it says of which process its holder
 *           is, and one whose holder is not here is taken away.
 * Why not:  a handler of fork for each lock: the C library calls them in the order of first use,
 *           the last first, which is another one in each process.
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
