/* The locks of the process, which every child of fork finds free: lock.def names them; and small
 * ones that objects have. */
#ifndef DLC_LOCK_H
#define DLC_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef enum {
#define LOCK(name, in_child) LOCK_##name,
#include "codegen/lock.def"
#undef LOCK
    LOCK_COUNT
} Lock;

void lock_take(Lock lock);
void lock_give(Lock lock);
pthread_mutex_t *lock_mutex(Lock lock);         /* to wait for a condition with */

/* Of an object, for a few loads and stores.  Zeroed, it is free.  Whoever has objects with one has
 * taken a lock of the table before. */
typedef struct {
    atomic_uint holder; /* 0: nobody; else 1 + the forks that its process came from */
} SpinLock;

/* true: a thread of the process that this one was forked from had it, and is not here.  What the
 * lock guards is as that thread left it, maybe in the middle of a change. */
bool spin_take(SpinLock *lock);
void spin_give(SpinLock *lock);

/* Each runs in a child of fork, which has all locks and one thread. */
#define LOCK(name, in_child) void in_child(void);
#include "codegen/lock.def"
#undef LOCK

#endif
