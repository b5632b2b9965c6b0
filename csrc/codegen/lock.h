/* The locks of the process, which every child of fork finds free: lock.def names them. */
#ifndef DLC_LOCK_H
#define DLC_LOCK_H

#include <pthread.h>

typedef enum {
#define LOCK(name, in_child) LOCK_##name,
#include "codegen/lock.def"
#undef LOCK
    LOCK_COUNT
} Lock;

void lock_take(Lock lock);
void lock_give(Lock lock);
pthread_mutex_t *lock_mutex(Lock lock);         /* to wait for a condition with */

/* Each runs in a child of fork, which has all locks and one thread. */
#define LOCK(name, in_child) void in_child(void);
#include "codegen/lock.def"
#undef LOCK

#endif
