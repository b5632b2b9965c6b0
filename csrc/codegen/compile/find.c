/* Which kernels are there already: in the process, then in the cache on disk.
 *
 * Kernels are told apart by key before anything is lowered (kernel_key.c). */
#include <string.h>

#include "kernels.h"

/* In this process a kernel is shared by those who want it compiled in the same way.  A kernel that
 * was verified after each rewrite has keys of its own: who wants that takes no other. */
void
kernel_keys(const Kernels *ks, const KernelKey *key, Key *disk, Key *id)
{
    const PassOptions *passes = &ks->options->passes;
    /* not all rewrites */
    char mode = (char)((passes->fuel >= 0 ? 'a' : passes->verify ? 'v' : '0') + ks->options->mode);
    char content[sizeof key->key.hex + 1] = {0};
    Sha256 s;
    *disk = key->key;
    memcpy(content, key->key.hex, sizeof key->key.hex);
    content[sizeof content - 1] = 'v';
    sha256_begin(&s);
    sha256_add(&s, &mode, 1);
    if (ks->target) {
        cc_target_key(ks->target, content, sizeof content - !passes->verify, disk);
        sha256_add(&s, cc_target_cache(ks->target), strlen(cc_target_cache(ks->target)) + 1);
    }
    sha256_add(&s, disk->hex, sizeof disk->hex);
    key_end(&s, id);
}

static Kernel *
from_disk(Cache *cache, const Key *disk, const Key *id, const Key *key)
{
    void *object = cache_load(cache, disk->hex);
    Kernel *kernel = object ? kernel_load(id, key, object) : NULL;
    count_add(COUNT_CACHE_HITS, kernel != NULL);
    return kernel;
}

static double
estimate_size(Cx *cx, Dim d)
{
    int64_t least = dim_range(cx, d).lo;
    return dim_is_int(cx, d, NULL) || least > 64 ? (double)least : 64;
}

/* A rough count of a kernel's operations; an unknown size counts as its least value, or as 64. */
static double
estimate_work(Cx *cx, const Let *kernel)
{
    double work = 0;
    const Let *inner = kernel_loop(kernel);
    const Block *steps = inner ? inner->bodies[0]->body : NULL;
    for (int k = 0; steps && k < steps->n; k++) {
        work += steps->lets[k]->body ? estimate_work(cx, steps->lets[k]) : 0;
    }
    if (inner) {
        Loop loop = let_loop(inner);
        return loop.counted ? work * estimate_size(cx, loop.steps) : 64 * work;
    }
    for (int k = 0; k < kernel->body->n; k++) {
        const Let *let = kernel->body->lets[k];
        const Type *t = let->nres ? let->res[0]->type : NULL;
        for (int j = 0; j < let->nargs; j++) { /* a reduction does the work of its operand */
            const Type *arg = let->args[j]->type;
            t = arg && (!t || arg->rank > t->rank) ? arg : t;
        }
        double elements = op_info[let->op].kind == KIND_MAP ? op_info[let->op].cost : 1;
        for (int ax = 0; t && ax < t->rank; ax++) {
            elements *= estimate_size(cx, t->dims[ax]);
        }
        work += elements;
    }
    return work;
}

static const NewKernel *
find_new(const Kernels *ks, const Key *id)
{
    for (int k = 0; k < ks->nfresh; k++) {
        if (strcmp(ks->fresh[k].id.hex, id->hex) == 0) {
            return &ks->fresh[k];
        }
    }
    return NULL;
}

static void
look_up(Kernels *ks, Cache *cache, KernelUse *use, int place)
{
    NewKernel new = {.let = use->let, .use = use, .place = place};
    bool objects = ks->options->mode != MODE_TCC;
    kernel_keys(ks, &use->key, &new.disk, &new.id);
    if (objects && ks->options->used) {
        ks->options->used(ks->options->used_arg, new.disk.hex);
    }
    use->kernel = ks->anew ? NULL : kernel_find(&new.id);
    if (!use->kernel && find_new(ks, &new.id)) {
        use->same_as = find_new(ks, &new.id)->use;
        return;
    }
    if (!use->kernel && cache && objects) {
        use->kernel = from_disk(cache, &new.disk, &new.id, &use->key.key);
    }
    if (!use->kernel && cache && ks->texts) {
        use->kernel = stored_find(ks, cache, &use->key, &new.id);
    }
    if (!use->kernel) {
        new.work = estimate_work(ks->cx, use->let);
        ks->fresh = cx_grow(ks->cx, ks->fresh, ks->nfresh, sizeof *ks->fresh);
        ks->fresh[ks->nfresh++] = new;
    }
}

void
kernels_look_up(Kernels *ks)
{
    Cache cache;
    bool open = ks->target && !ks->anew && *cc_target_cache(ks->target) &&
                cache_open(&cache, cc_target_cache(ks->target));
    ks->nfresh = 0;
    for (int k = 0; k < ks->nuses; k++) {
        if (!ks->uses[k].kernel) {
            look_up(ks, open ? &cache : NULL, &ks->uses[k], k);
        }
    }
    if (open) {
        cache_close(&cache);
    }
}
