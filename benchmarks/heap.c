/* Bytes of the heap that are alive, and the most that were: a library to preload (memory.py).
 *
 * Every block of LEAST bytes or more counts with the bytes that were asked for, whoever asks:
 * torch's allocator, its libraries, a compiler's kernels, dlc.  A table keeps the blocks, as
 * malloc_usable_size would tell rounded ones. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 1024, ROOM = 1 << 20, GONE = 1 };

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

static struct {
    uintptr_t block;
    int64_t bytes;
} table[ROOM];
static atomic_flag lock = ATOMIC_FLAG_INIT;
static int64_t live, peak;

void heap_begin(void);
int64_t heap_live(void);
int64_t heap_peak(void);

void
heap_begin(void)
{
    peak = live;
}

int64_t
heap_live(void)
{
    return live;
}

int64_t
heap_peak(void)
{
    return peak;
}

static size_t
place_of(uintptr_t block)
{
    return (size_t)((block >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 44) % ROOM;
}

static void *
add(void *block, size_t bytes)
{
    if (!block || bytes < LEAST) {
        return block;
    }
    while (atomic_flag_test_and_set(&lock)) {
    }
    size_t at = place_of((uintptr_t)block);
    while (table[at].block > GONE) {
        at = (at + 1) % ROOM;
    }
    table[at].block = (uintptr_t)block;
    table[at].bytes = (int64_t)bytes;
    live += (int64_t)bytes;
    peak = live > peak ? live : peak;
    atomic_flag_clear(&lock);
    return block;
}

static void
take_out(void *block)
{
    if (!block) {
        return;
    }
    while (atomic_flag_test_and_set(&lock)) {
    }
    size_t at = place_of((uintptr_t)block);
    while (table[at].block && table[at].block != (uintptr_t)block) {
        at = (at + 1) % ROOM;
    }
    if (table[at].block) {
        live -= table[at].bytes;
        table[at].block = table[(at + 1) % ROOM].block ? GONE : 0;
    }
    atomic_flag_clear(&lock);
}

void *
malloc(size_t size)
{
    return add(__libc_malloc(size), size);
}

void *
calloc(size_t n, size_t size)
{
    return add(__libc_calloc(n, size), n * size);
}

void *
realloc(void *block, size_t size)
{
    take_out(block);
    return add(__libc_realloc(block, size), size);
}

void *
memalign(size_t alignment, size_t size)
{
    return add(__libc_memalign(alignment, size), size);
}

void *
aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int
posix_memalign(void **out, size_t alignment, size_t size)
{
    void *block = memalign(alignment, size);
    *out = block ? block : *out;
    return block ? 0 : ENOMEM;
}

void
free(void *block)
{
    take_out(block);
    __libc_free(block);
}
