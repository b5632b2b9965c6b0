/* One compile a unit among the processes that share a cache folder.
 *
 * The lock is flock's, on a file beside the entries: the system takes it from a process that dies,
 * however it dies.  The owner removes the file before it releases the lock, so a process that gets
 * the lock checks that the file still has its name. A forked child must not keep its parent's
 * locks. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cc_job.h"
#include "codegen/lock.h"

enum {
    POLL_MS = 10,
    MANY = 16,                  /* locks at a time that a child of fork gives up */
};

static int open_files[MANY];    /* number + 1, 0: room */

/* They are the parent's. */
void
cache_locks_in_child(void)
{
    for (int k = 0; k < MANY; k++) {
        if (open_files[k]) {
            close(open_files[k] - 1);
        }
        open_files[k] = 0;
    }
}

/* Replaces `from` by `to` in the list; needs the lock. */
static void
note(int from, int to)
{
    for (int k = 0; k < MANY; k++) {
        if (open_files[k] == from) {
            open_files[k] = to;
            break;
        }
    }
}

/* No child is forked between the two halves of either, which would keep a file that it does not
 * know of. */
static int
open_lock(const Cache *cache, const char *name)
{
    lock_take(LOCK_cache);
    int fd = openat(cache->fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd >= 0) {
        note(0, fd + 1);
    }
    lock_give(LOCK_cache);
    return fd;
}

static void
close_lock(CacheLock *lock)
{
    lock_take(LOCK_cache);
    note(lock->fd + 1, 0);
    close(lock->fd);
    lock_give(LOCK_cache);
    lock->fd = -1;
}

static bool
is_current(const Cache *cache, const CacheLock *lock)
{
    struct stat here, there;
    return fstat(lock->fd, &here) == 0 &&
           fstatat(cache->fd, lock->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

bool
cache_lock(const Cache *cache, const Key *key, const ChildLimits *limits, CacheLock *out)
{
    double deadline = clock_seconds() + limits->seconds;
    snprintf(out->name, sizeof out->name, "lock-%s", key->hex);
    for (;;) {
        out->fd = open_lock(cache, out->name);
        if (out->fd < 0) {
            return false;
        }
        int rc = flock(out->fd, LOCK_EX | LOCK_NB);
        if (rc == 0 && is_current(cache, out)) {
            return true;
        }
        bool busy = rc == 0 || errno == EWOULDBLOCK || errno == EINTR;
        close_lock(out);
        if (!busy || clock_seconds() > deadline || child_is_stopped(limits)) {
            return false;
        }
        if (rc != 0) {
            nanosleep(&(struct timespec){0, POLL_MS * 1000000L}, NULL);
        }
    }
}

void
cache_unlock(const Cache *cache, CacheLock *lock)
{
    if (lock->fd >= 0) {
        unlinkat(cache->fd, lock->name, 0);
        close_lock(lock);
    }
}
