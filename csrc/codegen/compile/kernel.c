/* The kernels of this process: what one plan has compiled, the next one calls with other buffers.
 *
 * A table by key, of weak references: a kernel lives as long as a plan calls it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/lock.h"
#include "kernel.h"

enum { BUCKETS = 512 };

static Kernel *table[BUCKETS];

static Kernel **
bucket(const Key *id)
{
    unsigned hash = 0;
    for (int k = 0; k < 8; k++) {
        hash = 31 * hash + (unsigned char)id->hex[k];
    }
    return &table[hash % BUCKETS];
}

Kernel *
kernel_find(const Key *id)
{
    lock_take(LOCK_kernels);
    Kernel *kernel = *bucket(id);
    while (kernel && strcmp(kernel->id.hex, id->hex) != 0) {
        kernel = kernel->next;
    }
    if (kernel) {
        kernel->refs++;
    }
    lock_give(LOCK_kernels);
    return kernel;
}

Kernel *
kernel_new(const Key *id, const char *shape, Code *code, int first)
{
    Kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel || !(kernel->shape = strdup(shape))) {
        free(kernel);
        return NULL;
    }
    kernel->refs = 1;
    atomic_flag_clear(&kernel->tuned);
    kernel->id = *id;
    kernel->code = code_ref(code);
    kernel->first = first;
    kernel->nphases = shape_phases(shape);
    lock_take(LOCK_kernels);
    kernel->next = *bucket(id);
    *bucket(id) = kernel;
    lock_give(LOCK_kernels);
    return kernel;
}

Kernel *
kernel_ref(Kernel *kernel)
{
    lock_take(LOCK_kernels);
    kernel->refs++;
    lock_give(LOCK_kernels);
    return kernel;
}

void
kernel_unref(Kernel *kernel)
{
    if (!kernel) {
        return;
    }
    lock_take(LOCK_kernels);
    bool last = --kernel->refs == 0;
    for (Kernel **p = bucket(&kernel->id); last && *p; p = &(*p)->next) {
        if (*p == kernel) {
            *p = kernel->next;
            break;
        }
    }
    lock_give(LOCK_kernels);
    if (last) {
        code_unref(kernel->code);
        free(kernel->shape);
        free(kernel);
    }
}

/* ---- in machine code ---- */

void
kernel_symbol(const Key *key, int phase, char out[32])
{
    snprintf(out, 32, "k_%.16s_%d", key->hex, phase);
}

void
kernel_shape_symbol(const Key *key, char out[32])
{
    snprintf(out, 32, "k_%.16s_shape", key->hex);
}

static void
close_object(void *object, size_t size)
{
    (void)size;
    dlclose(object);
}

/* A Code with the kernel's phases, none of them set. */
static Code *
code_for(const Key *key, int nphases)
{
    char (*symbols)[32] = calloc((size_t)nphases + 1, sizeof *symbols);
    const char **names = calloc((size_t)nphases + 1, sizeof *names);
    Code *code = NULL;
    for (int k = 0; symbols && names && k < nphases; k++) {
        kernel_symbol(key, k, symbols[k]);
        names[k] = symbols[k];
    }
    if (symbols && names) {
        code = code_new(names, nphases);
    }
    free(symbols);
    free(names);
    return code;
}

/* The Code that has its entries in the object, or NULL. */
static Code *
code_in(const Key *key, int nphases, void *object)
{
    Code *code = nphases >= 0 ? code_for(key, nphases) : NULL;
    bool whole = code != NULL;
    for (int k = 0; whole && k < nphases; k++) {
        whole = dlsym(object, code_name(code, k)) != NULL;
    }
    if (!whole || !code_own(code, close_object, object, 0)) {
        code_unref(code);
        dlclose(object);
        return NULL;
    }
    for (int k = 0; k < nphases; k++) {
        code_set(code, k, (KernelFn)dlsym(object, code_name(code, k)), TIER_CC);
    }
    return code;
}

Kernel *
kernel_load(const Key *id, const Key *key, void *object)
{
    char symbol[32];
    kernel_shape_symbol(key, symbol);
    const char *shape = dlsym(object, symbol);
    Code *code = code_in(key, shape ? shape_phases(shape) : -1, object);
    Kernel *kernel = code ? kernel_new(id, shape, code, 0) : NULL;
    code_unref(code);
    return kernel;
}
