/* The part of the C library that libtcc may use, and its memory.
 *
 * What:     a compile by libtcc begins with libtcc as it was loaded, and leaves nothing behind,
 *           however it ends.
 * How:      csrc/build.mk redirects names in its copy of the archive, see Note [What libtcc may
 *           reach].  Allocations come from chunks that are freed together; libtcc's variables are
 *           reset before each compile.
 * Why not:  its own clean-up.  libtcc does not check results of malloc at first; after a failure in
 *           the middle of its work, the clean-up walks tables that are half built.  It crashed in 8
 *           of 20 compiles at falling limits of memory.
 *
 * With a shared libtcc none of this is possible. */
#define _GNU_SOURCE
#include "tcc_memory.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef DLC_TCC_ARCHIVE

enum { CHUNK_BYTES = 1 << 16 };

typedef struct Chunk {
    struct Chunk *older;
    size_t used, room;
    _Alignas(max_align_t) char bytes[];
} Chunk;

/* Before each block its size, for realloc. */
typedef struct {
    _Alignas(max_align_t) size_t bytes;
} Head;

/* All of it is used with the lock of jit_tcc.c held. */
static Chunk *chunks;
static jmp_buf *escape;
static char said[256];

/* libtcc's variables; the linker makes the names of the ends. */
extern char __start_dlc_tcc_data[], __stop_dlc_tcc_data[], __start_dlc_tcc_bss[],
    __stop_dlc_tcc_bss[];
#pragma weak __start_dlc_tcc_data
#pragma weak __stop_dlc_tcc_data
static char first_data[256];    /* the initial data of its variables; there is hardly any */

extern FILE *dlc_tcc_stdin, *dlc_tcc_stdout, *dlc_tcc_stderr;
extern char **dlc_tcc_environ;
FILE *dlc_tcc_stdin, *dlc_tcc_stdout, *dlc_tcc_stderr;
char **dlc_tcc_environ;
_Noreturn void dlc_tcc_exit(int status);
_Noreturn void dlc_tcc___assert_fail(const char *what, const char *file, unsigned line,
                                     const char *function);
int dlc_tcc_mprotect(void *memory, size_t size, int protection);
void *dlc_tcc_malloc(size_t bytes);
void *dlc_tcc_calloc(size_t count, size_t size);
void *dlc_tcc_realloc(void *block, size_t bytes);
void dlc_tcc_free(void *block);

static size_t
data_size(void)
{
    return (size_t)((uintptr_t)__stop_dlc_tcc_data - (uintptr_t)__start_dlc_tcc_data);
}

__attribute__((constructor)) static void
look_at_libtcc(void)
{
    dlc_tcc_stdin = stdin;
    dlc_tcc_stdout = stdout;
    dlc_tcc_stderr = stderr;
    dlc_tcc_environ = environ;
    if (data_size() <= sizeof first_data) {
        memcpy(first_data, __start_dlc_tcc_data, data_size());
    }
}

bool
tcc_memory_begin(jmp_buf *out)
{
    if (data_size() > sizeof first_data) {
        return false;
    }
    escape = out;
    *said = '\0';
    memcpy(__start_dlc_tcc_data, first_data, data_size());
    memset(__start_dlc_tcc_bss, 0,
           (size_t)((uintptr_t)__stop_dlc_tcc_bss - (uintptr_t)__start_dlc_tcc_bss));
    return true;
}

void
tcc_memory_end(void)
{
    for (Chunk *older; chunks; chunks = older) {
        older = chunks->older;
        free(chunks);
    }
    escape = NULL;
}

bool
tcc_memory_is_its_own(void)
{
    return false;
}

const char *
tcc_memory_said(void)
{
    return said;
}

/* ---- the C library, as libtcc sees it ---- */

/* The chunk for a block; a large block gets its own, behind the one in use. */
static Chunk *
chunk_for(size_t bytes)
{
    if (chunks && chunks->room - chunks->used >= bytes) {
        return chunks;
    }
    bool large = bytes > CHUNK_BYTES / 4;
    size_t room = large ? bytes : CHUNK_BYTES;
    Chunk *fresh = malloc(sizeof *fresh + room);
    if (!fresh) {
        longjmp(*escape, ESCAPE_MEMORY);
    }
    Chunk **at = large && chunks ? &chunks->older : &chunks;
    *fresh = (Chunk){.older = *at, .room = room};
    *at = fresh;
    return fresh;
}

void *
dlc_tcc_malloc(size_t bytes)
{
    const size_t align = _Alignof(max_align_t);
    if (bytes > SIZE_MAX / 4) {
        longjmp(*escape, ESCAPE_MEMORY);
    }
    size_t want = sizeof(Head) + (bytes + align - 1) / align * align;
    Chunk *chunk = chunk_for(want);
    Head *head = (Head *)(chunk->bytes + chunk->used);
    chunk->used += want;
    head->bytes = bytes;
    return head + 1;
}

void *
dlc_tcc_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        longjmp(*escape, ESCAPE_MEMORY);
    }
    return memset(dlc_tcc_malloc(bytes), 0, bytes);
}

void *
dlc_tcc_realloc(void *block, size_t bytes)
{
    size_t old = block ? ((Head *)block - 1)->bytes : 0;
    if (bytes <= old) {
        return block;
    }
    void *more = dlc_tcc_malloc(bytes);
    return old ? memcpy(more, block, old) : more;
}

void
dlc_tcc_free(void *block)
{
    (void)block;                /* at the end of the compile, with all others */
}

void
dlc_tcc_exit(int status)
{
    (void)status;
    longjmp(*escape, ESCAPE_EXIT);
}

void
dlc_tcc___assert_fail(const char *what, const char *file, unsigned line, const char *function)
{
    snprintf(said, sizeof said, "%s:%u: %s: %s", file, line, function, what);
    longjmp(*escape, ESCAPE_EXIT);
}

int
dlc_tcc_mprotect(void *memory, size_t size, int protection)
{
    (void)memory, (void)size, (void)protection;
    return 0;                   /* load() makes the pages executable, and not writable */
}

#else

bool
tcc_memory_begin(jmp_buf *escape)
{
    (void)escape;
    return true;
}
void
tcc_memory_end(void)
{
}
bool
tcc_memory_is_its_own(void)
{
    return true;
}
const char *
tcc_memory_said(void)
{
    return "";
}

#endif

/* Note [What libtcc may reach]
 *
 *   stdin, stdout, stderr, environ   Debian's archive reaches them in a way that a shared object
 *                                    cannot have; they are variables here, which are
 *                                    set before anything runs.
 *   exit, __assert_fail              An error that comes while no text is being compiled (such as a
 *                                    symbol that is not there) would end the process.  Here it ends
 *                                    the compile.
 *   malloc, calloc, realloc, free    The chunks above.
 *   mprotect                         It would make the pages writable and executable.
 *
 * With a shared libtcc pages are for a moment all three. */
