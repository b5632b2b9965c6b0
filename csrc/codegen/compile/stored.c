/* Units of libtcc in the cache folder: a program that is loaded again is not lowered again.
 *
 * What:     the text that libtcc gets, with the shapes of its kernels, under the key of each.
 * How:      an entry as that of an object is, private and sealed (jit/cache.c), so it is as
 *           trusted.  The key covers the processor and the sources that decide the text.
 * Why not:  the machine code: libtcc's has addresses of this process in it, and compiling the text
 *           takes a small part of the time that lowering takes.
 * Why not   for every compile: an entry costs a look at the whole folder, more than the compile of
 *           a small graph that is never seen again.
 *
 *     dlc unit 1 <kernels>
 *     <key of a kernel> <bytes of its shape>
 *     <shape>
 *     ..
 *     <text> */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

#define HEAD "dlc unit 1 %d\n"

enum { MOST_KERNELS = 4096, LINE = 128 };

/* The name of the entry: what the text depends on, apart from the kernel, is in `common`; the
 * compiler, which it does not depend on, is not. */
static void
entry_key(const Kernels *ks, const Key *kernel, Key *out)
{
    static const char kind[] = "libtcc";
    char verified = ks->options->passes.verify ? 'v' : '0';
    Key common, compiler;
    Sha256 s;
    cc_target_origin(ks->target, &common, &compiler);
    sha256_begin(&s);
    sha256_add(&s, kind, sizeof kind);
    sha256_add(&s, common.hex, sizeof common.hex);
    sha256_add(&s, &verified, 1);
    sha256_add(&s, kernel->hex, sizeof kernel->hex);
    key_end(&s, out);
}

void
stored_put(const Kernels *ks, const NewKernel *group, int n, const char *const *shapes,
           const char *text)
{
    Cache cache;
    if (!ks->texts || n > MOST_KERNELS || !cache_open(&cache, cc_target_cache(ks->target))) {
        return;
    }
    Key *keys = cx_alloc(ks->cx, (size_t)n * sizeof *keys);
    Text out = {.cx = ks->cx};
    text_add(&out, HEAD, n);
    for (int k = 0; k < n; k++) {
        const Key *key = &group[k].use->key.key;
        entry_key(ks, key, &keys[k]);
        text_add(&out, "%s %zu\n%s\n", key->hex, strlen(shapes[k]), shapes[k]);
    }
    text_put(&out, text, strlen(text));
    cache_store(&cache, keys, n, out.text, out.length, cache_bound());
    cache_close(&cache);
}

/* ---- reading ---- */

typedef struct {
    int n, nphases;
    KernelKey *keys;
    char **shapes;
    const char **symbols;
    const char *text;
} Stored;

/* The line at *at, without its end, and *at behind it; false: there is none. */
static bool
next_line(char **at, char line[LINE])
{
    size_t size = strcspn(*at, "\n");
    if ((*at)[size] != '\n' || size >= LINE) {
        return false;
    }
    memcpy(line, *at, size);
    line[size] = '\0';
    *at += size + 1;
    return true;
}

static bool
read_kernel(Cx *cx, Stored *unit, int k, char **at)
{
    char line[LINE];
    size_t size;
    if (!next_line(at, line) || sscanf(line, "%64s %zu", unit->keys[k].key.hex, &size) != 2 ||
        strlen(*at) <= size || (*at)[size] != '\n') {
        return false;
    }
    unit->shapes[k] = *at;
    (*at)[size] = '\0';
    *at += size + 1;
    int phases = shape_phases(unit->shapes[k]);
    for (int j = 0; j < phases; j++) {
        char symbol[32];
        kernel_symbol(&unit->keys[k].key, j, symbol);
        unit->symbols = cx_grow(cx, unit->symbols, unit->nphases, sizeof *unit->symbols);
        unit->symbols[unit->nphases++] = cx_format(cx, "%s", symbol);
    }
    return phases >= 0;
}

/* Cuts the entry, which ends with a zero, in its parts. */
static bool
read_unit(Cx *cx, char *at, Stored *unit)
{
    char line[LINE];
    *unit = (Stored){0};
    if (!next_line(&at, line) || sscanf(line, HEAD, &unit->n) != 1 || unit->n < 1 ||
        unit->n > MOST_KERNELS) {
        return false;
    }
    unit->keys = cx_alloc(cx, (size_t)unit->n * sizeof *unit->keys);
    unit->shapes = cx_alloc(cx, (size_t)unit->n * sizeof *unit->shapes);
    bool sound = true;
    for (int k = 0; k < unit->n && sound; k++) {
        sound = read_kernel(cx, unit, k, &at);
    }
    unit->text = at;
    return sound && unit->nphases;
}

/* All kernels of the unit, held; false: there is no memory, or libtcc refuses the text. */
static bool
make_kernels(Kernels *ks, const Stored *unit)
{
    char error[256];
    Code *code = code_new(unit->symbols, unit->nphases);
    bool made = code && jit_tcc_compile(code, unit->text, error, sizeof error);
    for (int k = 0, first = 0; k < unit->n && made; k++) {
        Key disk, id;
        kernel_keys(ks, &unit->keys[k], &disk, &id);
        Kernel *kernel = kernel_new(&id, unit->shapes[k], code, first);
        if (!kernel) {
            made = false;
            break;
        }
        first += kernel->nphases;
        ks->held = cx_grow(ks->cx, ks->held, ks->nheld, sizeof *ks->held);
        ks->held[ks->nheld++] = kernel;
    }
    code_unref(code);
    return made;
}

Kernel *
stored_find(Kernels *ks, Cache *cache, const KernelKey *key, const Key *id)
{
    Key entry;
    Stored unit;
    size_t size = 0;
    entry_key(ks, &key->key, &entry);
    char *data = cache_read(cache, entry.hex, &size);
    char *text = data ? cx_alloc(ks->cx, size + 1) : NULL;
    if (!data) {
        return NULL;
    }
    memcpy(text, data, size);
    free(data);
    if (!read_unit(ks->cx, text, &unit) || !make_kernels(ks, &unit)) {
        return NULL;
    }
    Kernel *kernel = kernel_find(id);
    count_add(COUNT_CACHE_HITS, kernel != NULL);
    return kernel;
}
