/* Memory that the process keeps from call to call: how much, in which pages, and workspaces.
 *
 * Memory comes from the system page by page, each cleared when it is first written, which takes as
 * long as a kernel that is bound by memory. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codegen/lock.h"
#include "plan.h"

enum {
    STORED = 4,                 /* workspaces kept */
    SMALL = 1 << 20,            /* bytes below which the bound does not matter */
    SHARE = 16,                 /* of the memory of the machine: kept at most */
};

int64_t
memory_bound(void)
{
    int64_t pages = sysconf(_SC_PHYS_PAGES), most = INT64_C(512) << 20;
    int64_t part = pages > 0 ? pages / SHARE * sysconf(_SC_PAGESIZE) : most;
    return environment_bytes("DLC_POOL", part < most ? part : most);
}

void
memory_want_huge(void *data, size_t size)
{
    uintptr_t mask = DLC_HUGE_PAGE - 1, start = (uintptr_t)data;
    uintptr_t low = (start + mask) & ~mask, high = (start + size) & ~mask;
    if (high > low) {
        madvise((void *)low, high - low, MADV_HUGEPAGE);
    }
}

/* The size of a block is stored before it, in the DLC_LINE bytes that precede it. */
static struct {
    void *memory;
    size_t bytes;
} stored[STORED];

/* Frees the largest stored block, which is too small: its replacement serves both. */
static void
drop_largest(void)
{
    void *out = NULL;
    int most = 0;
    lock_take(LOCK_workspaces);
    for (int k = 1; k < STORED; k++) {
        most = stored[k].memory && (!stored[most].memory || stored[k].bytes > stored[most].bytes)
                   ? k
                   : most;
    }
    out = stored[most].memory;
    stored[most].memory = NULL;
    lock_give(LOCK_workspaces);
    if (out) {
        free((char *)out - DLC_LINE);
    }
}

void *
block_take(size_t bytes)
{
    void *block = aligned_alloc(DLC_LINE, (bytes + DLC_LINE - 1) / DLC_LINE * DLC_LINE);
    if (block) {
        memory_want_huge(block, bytes);
    }
    return block;
}

void *
workspace_take(size_t bytes)
{
    void *found = NULL;
    lock_take(LOCK_workspaces);
    int best = -1;
    for (int k = 0; k < STORED; k++) {
        if (stored[k].memory && stored[k].bytes >= bytes &&
            (best < 0 || stored[k].bytes < stored[best].bytes)) {
            best = k;
        }
    }
    if (best >= 0) {
        found = stored[best].memory;
        stored[best].memory = NULL;
    }
    lock_give(LOCK_workspaces);
    if (found) {
        return found;
    }
    drop_largest();
    char *block = block_take(bytes + DLC_LINE); /* its size is in front */
    if (!block) {
        return NULL;
    }
    memcpy(block, &bytes, sizeof bytes);
    return block + DLC_LINE;
}

/* The entry in which a block is stored: a free one, or else that of the smallest block. */
static int
place(void)
{
    int least = 0;
    for (int k = 0; k < STORED && stored[least].memory; k++) {
        if (!stored[k].memory || stored[k].bytes < stored[least].bytes) {
            least = k;
        }
    }
    return least;
}

static size_t
stored_bytes(void)
{
    size_t bytes = 0;
    for (int k = 0; k < STORED; k++) {
        bytes += stored[k].memory ? stored[k].bytes : 0;
    }
    return bytes;
}

void
workspace_give(void *memory)
{
    size_t bytes;
    void *out = memory;
    memcpy(&bytes, (char *)memory - DLC_LINE, sizeof bytes);
    size_t bound = bytes < SMALL ? SIZE_MAX : (size_t)memory_bound();
    lock_take(LOCK_workspaces);
    int k = place();
    size_t there = stored[k].memory ? stored[k].bytes : 0;
    if (bytes > there && stored_bytes() - there + bytes <= bound) {
        out = stored[k].memory;
        stored[k].memory = memory;
        stored[k].bytes = bytes;
    }
    lock_give(LOCK_workspaces);
    if (out) {
        free((char *)out - DLC_LINE);
    }
}

void
workspace_free(void *memory)
{
    free((char *)memory - DLC_LINE);
}

void
workspace_release(void)
{
    lock_take(LOCK_workspaces);
    for (int k = 0; k < STORED; k++) {
        if (stored[k].memory) {
            free((char *)stored[k].memory - DLC_LINE);
            stored[k].memory = NULL;
        }
    }
    lock_give(LOCK_workspaces);
}
