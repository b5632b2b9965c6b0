/* The machine code of one compiled graph: named entries, each the best that is ready.
 *
 * An entry goes from nothing to libtcc's code to gcc's, by atomic stores while other threads call
 * it. The memory behind an old entry stays until the last reference goes: a call may still be
 * inside. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "code.h"
#include "codegen/process.h"
#include "codegen/lock.h"

typedef struct {
    const char *name;
    _Atomic(KernelFn) fn;
    _Atomic(enum CodeTier) tier;
    _Atomic(const CodeVariant *) variant;
} Entry;

/* A mapping or a loaded object that entries point into. */
typedef struct Image {
    struct Image *next;
    void (*release)(void *memory, size_t size);
    void *memory;
    size_t size;
} Image;

struct Code {
    atomic_int refs;
    int count;
    Image *images;
    Entry entries[];                /* and the characters of their names behind them */
};

Code *
code_new(const char *const *names, int count)
{
    size_t text = 0;
    for (int k = 0; k < count; k++) {
        text += strlen(names[k]) + 1;
    }
    Code *code = calloc(1, sizeof *code + (size_t)count * sizeof *code->entries + text);
    if (!code) {
        return NULL;
    }
    atomic_init(&code->refs, 1);
    code->count = count;
    char *to = (char *)(code->entries + count);
    for (int k = 0; k < count; k++) {
        size_t size = strlen(names[k]) + 1;
        code->entries[k].name = memcpy(to, names[k], size);
        to += size;
    }
    return code;
}

Code *
code_ref(Code *code)
{
    atomic_fetch_add_explicit(&code->refs, 1, memory_order_relaxed);
    return code;
}

void
code_unref(Code *code)
{
    if (!code || atomic_fetch_sub_explicit(&code->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (Image *image = code->images, *next; image; image = next) {
        next = image->next;
        image->release(image->memory, image->size);
        free(image);
    }
    free(code);
}

bool
code_is_alone(const Code *code)
{
    return atomic_load_explicit(&code->refs, memory_order_acquire) == 1;
}

KernelFn
code_entry(const Code *code, int k)
{
    return atomic_load_explicit(&code->entries[k].fn, memory_order_acquire);
}

enum CodeTier
code_tier(const Code *code, int k)
{
    return atomic_load_explicit(&code->entries[k].tier, memory_order_relaxed);
}

KernelFn
code_entry_of(const Code *code, int k, enum CodeTier *tier)
{
    lock_take(LOCK_code);       /* code_set changes the two one after the other */
    KernelFn fn = code_entry(code, k);
    *tier = code_tier(code, k);
    lock_give(LOCK_code);
    return fn;
}

int
code_count(const Code *code)
{
    return code->count;
}

const char *
code_name(const Code *code, int k)
{
    return code->entries[k].name;
}

void
code_set(Code *code, int k, KernelFn fn, enum CodeTier tier)
{
    Entry *entry = &code->entries[k];
    lock_take(LOCK_code);
    enum CodeTier old = atomic_load_explicit(&entry->tier, memory_order_relaxed);
    if (tier > old) {
        atomic_store_explicit(&entry->fn, fn, memory_order_release);
        atomic_store_explicit(&entry->tier, tier, memory_order_relaxed);
    }
    lock_give(LOCK_code);
    if (tier > old && old != TIER_NONE) {
        count_add(COUNT_SWAPS, 1);
        trace_event("swap", entry->name, clock_seconds(), -1);
    }
}

const CodeVariant *
code_variant(const Code *code, int k)
{
    return atomic_load_explicit(&code->entries[k].variant, memory_order_acquire);
}

void
code_set_variant(Code *code, int k, const CodeVariant *variant)
{
    atomic_store_explicit(&code->entries[k].variant, variant, memory_order_release);
}

bool
code_own(Code *code, void (*release)(void *, size_t), void *memory, size_t size)
{
    Image *image = malloc(sizeof *image);
    if (!image) {
        return false;
    }
    *image = (Image){NULL, release, memory, size};
    lock_take(LOCK_code);
    image->next = code->images;
    code->images = image;
    lock_give(LOCK_code);
    return true;
}
