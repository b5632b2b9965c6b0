/* libtcc: C text to machine code in this process, in a fraction of a millisecond.
 *
 * The only file that includes libtcc.h.  libtcc 0.9.27 keeps compiler state in globals, so one
 * mutex holds for a whole compile.  It may not print, end the process, or make pages that are
 * writable and executable at once: see Note [What libtcc may reach] in tcc_memory.c. */
#define _GNU_SOURCE
#include <errno.h>
#include <libtcc.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codegen/process.h"
#include "codegen/processor.h"
#include "jit.h"
#include "codegen/lock.h"
#include "codegen/micro/micro.h"
#include "tcc_memory.h"

enum { MAX_NAMES = 4096 };      /* different strips in one text; a power of two */

typedef struct {
    char *text;
    size_t cap;
} Message;

typedef struct {
    const char *at;
    size_t size;
} Name;

/* For the compile in progress, which may end in the middle of libtcc. */
static jmp_buf escape;
static Name names[MAX_NAMES];
static struct {
    char *memory;
    size_t size;
} pages;                        /* for the machine code, until the Code has them */

/* ---- symbols ---- */

/* Functions that libtcc's own code calls: structure copies, and conversions that it does not
 * inline. */
static uint64_t
fixunssfdi(float x)
{
    return (uint64_t)x;
}
static uint64_t
fixunsdfdi(double x)
{
    return (uint64_t)x;
}
static uint64_t
fixunsxfdi(long double x)
{
    return (uint64_t)x;
}
static float
floatundisf(uint64_t x)
{
    return (float)x;
}
static double
floatundidf(uint64_t x)
{
    return (double)x;
}
static long double
floatundixf(uint64_t x)
{
    return (long double)x;
}

static const struct {
    const char *name;
    const void *address;
} runtime[] = {
    {"memcpy", (const void *)memcpy},
    {"memmove", (const void *)memmove},
    {"memset", (const void *)memset},
    {"__fixunssfdi", (const void *)fixunssfdi},
    {"__fixunsdfdi", (const void *)fixunsdfdi},
    {"__fixunsxfdi", (const void *)fixunsxfdi},
    {"__floatundisf", (const void *)floatundisf},
    {"__floatundidf", (const void *)floatundidf},
    {"__floatundixf", (const void *)floatundixf},
};

/* Enters the name; false when it was there. */
static bool
enter(Name name)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < name.size; i++) {
        h = (h ^ (unsigned char)name.at[i]) * 16777619u;
    }
    for (;; h++) {
        Name *slot = &names[h % MAX_NAMES];
        if (!slot->at) {
            *slot = name;
            return true;
        }
        if (slot->size == name.size && memcmp(slot->at, name.at, name.size) == 0) {
            return false;
        }
    }
}

static bool
in_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The end of the word at p, which begins with a letter or '_'. */
static const char *
word_end(const char *p)
{
    while (in_word(*p)) {
        p++;
    }
    return p;
}

static bool
add_strip(TCCState *tcc, const char *word, size_t size)
{
    char name[64];
    if (size >= sizeof name) {
        return true; /* no strip has so long a name: if it is one, libtcc will say so */
    }
    memcpy(name, word, size);
    name[size] = '\0';
    void *routine = strip_find(name);
    routine = routine ? routine : micro_find(name);
    return !routine || tcc_add_symbol(tcc, name, routine) == 0;
}

/* For most words the first letter decides. */
static bool
names_routine(const char *word)
{
    switch (*word) {
    case 's':
        return strncmp(word, "strip_", 6) == 0;
    case 'd':
        return strncmp(word, "dlc_", 4) == 0;
    case 'm':
        return strncmp(word, "micro_", 6) == 0;
    case 'p':
        return strncmp(word, "pack_", 5) == 0;
    default:
        return false;
    }
}

/* Gives the text the routines that it names: every word that begins with strip_, dlc_, micro_ or
 * pack_, once. */
static bool
add_symbols(TCCState *tcc, const char *text)
{
    for (size_t i = 0; i < sizeof runtime / sizeof *runtime; i++) {
        if (tcc_add_symbol(tcc, runtime[i].name, runtime[i].address) < 0) {
            return false;
        }
    }
    bool ok = true;
    int count = 0;
    memset(names, 0, sizeof names);
    for (const char *p = text; ok && *p;) {
        const char *end = word_end(p);
        if (names_routine(p) && enter((Name){p, (size_t)(end - p)})) {
            ok = ++count < MAX_NAMES && add_strip(tcc, p, (size_t)(end - p));
        }
        p = end == p ? p + 1 : end;
    }
    return ok;
}

/* ---- compile ---- */

static void
on_message(void *opaque, const char *text)
{
    Message *message = opaque;
    if (message->cap && !*message->text) { /* the first one is the reason */
        snprintf(message->text, message->cap, "%s", text);
    }
}

static void
unmap(void *memory, size_t size)
{
    munmap(memory, size);
}

static bool
has_entries(TCCState *tcc, const Code *code, Message *message)
{
    for (int k = 0; k < code_count(code); k++) {
        if (!tcc_get_symbol(tcc, code_name(code, k))) {
            snprintf(message->text, message->cap, "the text has no function %s",
                     code_name(code, k));
            return false;
        }
    }
    return true;
}

static bool
no_memory(const Message *message, const char *what)
{
    snprintf(message->text, message->cap, "no memory%s", what);
    errno = ENOMEM;
    return false;
}

/* Moves the compiled code into pages of ours, writable first and then executable. */
static bool
load(TCCState *tcc, Code *code, Message *message)
{
    int need = tcc_relocate(tcc, NULL);
    if (need < 0) {
        return false;
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    pages.size = ((size_t)need + page - 1) / page * page;
    void *memory = mmap(NULL, pages.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                        0);
    if (memory == MAP_FAILED) {
        return no_memory(message, " for machine code");
    }
    pages.memory = memory;
    if (tcc_relocate(tcc, memory) < 0 || !has_entries(tcc, code, message)) {
        return false;
    }
    if (mprotect(memory, pages.size, PROT_READ | PROT_EXEC) < 0 ||
        !code_own(code, unmap, memory, pages.size)) {
        return no_memory(message, " for machine code");
    }
    pages.memory = NULL;
    __builtin___clear_cache(memory, (char *)memory + pages.size);
    for (int k = 0; k < code_count(code); k++) {
        code_set(code, k, (KernelFn)tcc_get_symbol(tcc, code_name(code, k)), TIER_TCC);
    }
    perf_map_add(code, memory, pages.size);
    return true;
}

static bool
compile(Code *code, const char *text, Message *message)
{
    TCCState *tcc = tcc_new();
    if (!tcc) {
        return false;
    }
    tcc_set_error_func(tcc, message, on_message);
    tcc_set_options(tcc, "-nostdlib -nostdinc -w");
    bool ok = tcc_set_output_type(tcc, TCC_OUTPUT_MEMORY) == 0 &&
              tcc_compile_string(tcc, text) == 0 && add_symbols(tcc, text) &&
              load(tcc, code, message);
    if (tcc_memory_is_its_own()) {
        tcc_delete(tcc);
    }
    return ok;
}

/* With the lock held. */
static bool
compile_safely(Code *code, const char *text, Message *message)
{
    volatile bool ok = false;
    errno = 0;
    pages.memory = NULL;
    if (!tcc_memory_begin(&escape)) {
        return false;
    }
    switch (setjmp(escape)) {
    case 0:
        ok = compile(code, text, message);
        break;
    case ESCAPE_MEMORY:
        no_memory(message, " for libtcc");
        break;
    case ESCAPE_EXIT:
        on_message(message, tcc_memory_said());
        break;
    }
    int error = errno;
    tcc_memory_end();
    if (pages.memory) {
        unmap(pages.memory, pages.size);
    }
    errno = error;
    return ok;
}

bool
jit_tcc_compile(Code *code, const char *text, char *error, size_t cap)
{
    Message message = {error, cap};
    if (cap) {
        *error = '\0';
    }
    lock_take(LOCK_libtcc);
    double start = clock_seconds();
    bool ok = compile_safely(code, text, &message);
    int reason = errno;
    lock_give(LOCK_libtcc);
    trace_event("compile", "libtcc", start, clock_seconds() - start);
    if (ok) {
        count_add(COUNT_TCC_COMPILES, 1);
        return true;
    }
    if (cap && !*error) {
        snprintf(error, cap, "libtcc: no reason given");
    }
    log_line("libtcc: %.*s", (int)cap, error);
    errno = reason;
    return false;
}
