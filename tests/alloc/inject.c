/* Allocations that fail when they are told to.
 *
 * Linked with the objects of the extension by the linker's --wrap (csrc/build.mk, `inject`): every
 * call of what allocates in csrc, libtcc's chunks among them, comes here first.  Nothing in csrc
 * knows of it.  tests/alloc/every.py says which allocation fails.  An arena (csrc/ir/cx.c,
 * tcc_memory.c) takes chunks from the system and gives pieces of them: when it is asked for, pieces
 * are counted too, so that each of them fails once. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <dirent.h>

#include "ir/ir.h"

#define EXPORT __attribute__((visibility("default")))

static _Atomic int64_t count, first, last, failed, live;
static atomic_bool pieces;

/* Allocations a .. b from now on fail, of which the first is 1; with a == 0 none does. */
EXPORT void dlc_inject(int64_t a, int64_t b);
EXPORT void dlc_inject_pieces(bool on);         /* do pieces of an arena count? */
EXPORT int64_t dlc_inject_count(void);          /* how many there were since */
EXPORT int64_t dlc_inject_failed(void);         /* and how many of them have failed */
EXPORT int64_t dlc_inject_live(void);           /* blocks that are not freed; mappings count too */

void
dlc_inject(int64_t a, int64_t b)
{
    count = failed = 0;
    first = a;
    last = b;
}

void dlc_inject_pieces(bool on) { pieces = on; }
int64_t dlc_inject_count(void) { return count; }
int64_t dlc_inject_failed(void) { return failed; }
int64_t dlc_inject_live(void) { return live; }

static bool
fails(void)
{
    int64_t k = atomic_fetch_add(&count, 1) + 1;
    bool fail = first && k >= first && k <= last;
    if (fail) {
        atomic_fetch_add(&failed, 1);
        errno = ENOMEM;
    }
    return fail;
}

static void *
noted(void *block)
{
    live += block != NULL;
    return block;
}

/* WRAP(what it returns, when it fails, name, parameters, arguments): one that nobody frees by
 * free(). */
#define WRAP(type, failure, name, parameters, arguments) \
    type __real_##name parameters; \
    type __wrap_##name parameters; \
    type __wrap_##name parameters { return fails() ? failure : __real_##name arguments; }
/* One that gives a block. */
#define WRAP_BLOCK(name, parameters, arguments) \
    void *__real_##name parameters; \
    void *__wrap_##name parameters; \
    void *__wrap_##name parameters { return fails() ? NULL : noted(__real_##name arguments); }
#define WRAP_REALLOC(name) \
    void *__real_##name(void *block, size_t size); \
    void *__wrap_##name(void *block, size_t size); \
    void *__wrap_##name(void *block, size_t size) \
    { \
        void *more = fails() ? NULL : __real_##name(block, size); \
        return block ? more : noted(more); \
    }
#define WRAP_FREE(name) \
    void __real_##name(void *block); \
    void __wrap_##name(void *block); \
    void __wrap_##name(void *block) { live -= block != NULL; __real_##name(block); }

WRAP_BLOCK(malloc, (size_t size), (size))
WRAP_BLOCK(calloc, (size_t n, size_t size), (n, size))
WRAP_BLOCK(aligned_alloc, (size_t align, size_t size), (align, size))
WRAP_BLOCK(strdup, (const char *text), (text))
WRAP_BLOCK(strndup, (const char *text, size_t size), (text, size))
WRAP_REALLOC(realloc)
WRAP_FREE(free)
WRAP_BLOCK(PyMem_Malloc, (size_t size), (size))
WRAP_BLOCK(PyMem_Calloc, (size_t n, size_t size), (n, size))
WRAP_REALLOC(PyMem_Realloc)
WRAP_FREE(PyMem_Free)
WRAP(FILE *, NULL, fopen, (const char *path, const char *mode), (path, mode))
WRAP(FILE *, NULL, fdopen, (int fd, const char *mode), (fd, mode))
WRAP(DIR *, NULL, fdopendir, (int fd), (fd))
WRAP(int, -1, mprotect, (void *memory, size_t size, int bits), (memory, size, bits))
WRAP(int, EAGAIN, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg),
     (thread, attr, run, arg))

void *__real_mmap(void *at, size_t size, int bits, int flags, int fd, off_t from);
void *__wrap_mmap(void *at, size_t size, int bits, int flags, int fd, off_t from);
int __real_munmap(void *memory, size_t size);
int __wrap_munmap(void *memory, size_t size);
int __wrap_asprintf(char **out, const char *format, ...);

void *
__wrap_mmap(void *at, size_t size, int bits, int flags, int fd, off_t from)
{
    void *memory = fails() ? MAP_FAILED : __real_mmap(at, size, bits, flags, fd, from);
    live += memory != MAP_FAILED;
    return memory;
}

int
__wrap_munmap(void *memory, size_t size)
{
    live--;
    return __real_munmap(memory, size);
}

int
__wrap_asprintf(char **out, const char *format, ...)
{
    va_list args;
    int size = -1;
    *out = NULL;
    if (!fails()) {
        va_start(args, format);
        size = vasprintf(out, format, args);
        va_end(args);
        live += size >= 0;
    }
    return size;
}

/* ---- pieces of arenas ---- */

void *__real_cx_alloc(Cx *cx, size_t bytes);
void *__wrap_cx_alloc(Cx *cx, size_t bytes);
void *__real_cx_copy(Cx *cx, const void *from, size_t bytes);
void *__wrap_cx_copy(Cx *cx, const void *from, size_t bytes);
void *__real_cx_grow(Cx *cx, void *array, int n, size_t size);
void *__wrap_cx_grow(Cx *cx, void *array, int n, size_t size);
void *__real_dlc_tcc_malloc(size_t bytes);
void *__wrap_dlc_tcc_malloc(size_t bytes);
void *__real_dlc_tcc_realloc(void *block, size_t bytes);
void *__wrap_dlc_tcc_realloc(void *block, size_t bytes);

/* bytes; more than there can be, where the piece is to fail */
static size_t
piece(size_t bytes)
{
    return pieces && fails() ? SIZE_MAX : bytes;
}

void *
__wrap_cx_alloc(Cx *cx, size_t bytes)
{
    return __real_cx_alloc(cx, piece(bytes));
}

void *
__wrap_cx_copy(Cx *cx, const void *from, size_t bytes)
{
    return __real_cx_copy(cx, from, piece(bytes));
}

void *
__wrap_cx_grow(Cx *cx, void *array, int n, size_t size)
{
    bool grows = !(n & (n - 1)) && (n || !array);       /* as in cx.c */
    return grows && piece(1) > 1 ? __real_cx_alloc(cx, SIZE_MAX)
                                 : __real_cx_grow(cx, array, n, size);
}

void *
__wrap_dlc_tcc_malloc(size_t bytes)
{
    return __real_dlc_tcc_malloc(piece(bytes));
}

void *
__wrap_dlc_tcc_realloc(void *block, size_t bytes)
{
    return __real_dlc_tcc_realloc(block, piece(bytes));
}
