/* The kernels of a function: its lets, their keys, and in the end their machine code. */
#include <string.h>

#include "kernels.h"

void
kernels_drop(Kernels *ks)
{
    for (int k = 0; k < ks->nuses; k++) {
        kernel_unref(ks->uses[k].kernel);
        ks->uses[k].kernel = NULL;
    }
    for (int k = 0; k < ks->nheld; k++) {
        kernel_unref(ks->held[k]);
    }
    ks->nheld = 0;
}

static void
release(void *ks)
{
    kernels_drop(ks);
}

Kernels *
kernels_of(const Fn *fn)
{
    Kernels *ks = cx_alloc(fn->cx, sizeof *ks);
    KernelCoder *coder = kernel_coder(fn);
    ks->cx = fn->cx;
    ks->fn = fn;
    cx_cleanup(fn->cx, release, ks);
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        if (let->op == OP_kernel) {
            ks->uses = cx_grow(ks->cx, ks->uses, ks->nuses, sizeof *ks->uses);
            KernelUse *use = &ks->uses[ks->nuses++];
            *use = (KernelUse){.let = let};
            kernel_key(coder, let, &use->key);
        }
    }
    return ks;
}

void
kernel_schedule(KernelUse *use, const char *schedule)
{
    Sha256 s;
    sha256_begin(&s);
    sha256_add(&s, use->key.key.hex, sizeof use->key.key.hex);
    sha256_add(&s, schedule, strlen(schedule));
    key_end(&s, &use->key.key);
    use->schedule = schedule;
}

static void
drop_target(void *target)
{
    cc_target_unref(target);
}

void
kernels_begin(Kernels *ks, const CompileOptions *options)
{
    ks->options = options;
    ks->passes = options->passes;
    CcOptions cc = options->cc;
    ks->anew = (ks->passes.verify && !options->keeps) || ks->passes.fuel >= 0;
    ks->passes.trace = NULL; /* of fusion's passes: those here run once a unit */
    /* with limited fuel the code differs but its key does not, so nothing is stored */
    cc.cache = ks->passes.fuel >= 0 ? "" : cc.cache;
    if ((options->mode != MODE_TCC || (options->keeps && !ks->anew)) && ks->nuses) {
        if (!(ks->target = cc_target_new(&cc))) {
            fail(ks->cx, DIAG_MEMORY, sizeof(void *));
        }
        cx_cleanup(ks->cx, drop_target, ks->target);
        ks->texts = options->keeps && !ks->anew && *cc_target_cache(ks->target) &&
                    (options->mode == MODE_TCC || !cc_target_compiles(ks->target));
    }
}

bool
unit_reads_late(const NewKernel *group, int n, const Fn *loops)
{
    bool late = false;
    for (int k = 0; k < n; k++) {
        const Let *made = loops->body->lets[k];
        for (int j = 0; j < made->nres; j++) {
            const Value *v = made->res[j];
            late |= group[k].let->res[j]->over &&
                    (!v->over || in_place_wrong_loops(loops->cx, v) != NULL);
        }
    }
    return late;
}

static bool
is_in_unit(const NewKernel *group, int n, const Let *let)
{
    bool in = false;
    for (int k = 0; k < n; k++) {
        in |= group[k].let == let;
    }
    return in;
}

Fn *
unit_equals(const Kernels *ks, const NewKernel *group, int n)
{
    KernelUse **uses = cx_alloc(ks->cx, (size_t)ks->nuses * sizeof *uses);
    int equal = 0;
    for (int j = 0; j < ks->nuses; j++) {
        bool same = false;
        for (int k = 0; k < n; k++) {
            same |= strcmp(ks->uses[j].key.key.hex, group[k].use->key.key.hex) == 0;
        }
        if (same && !is_in_unit(group, n, ks->uses[j].let)) {
            uses[equal++] = &ks->uses[j];
        }
    }
    return kernels_part(ks->fn, uses, equal);
}

void
kernels_retracted(Kernels *ks)
{
    for (int k = 0; k < ks->nuses; k++) {
        KernelUse *use = &ks->uses[k];
        if (let_in_place(use->let) != use->key.in_place) {
            kernel_unref(use->kernel);
            use->kernel = NULL;
            use->lowered = (Lowered){0};
        }
    }
}

void
kernels_key_again(Kernels *ks)
{
    KernelCoder *coder = kernel_coder(ks->fn);
    for (int k = 0; k < ks->nuses; k++) {
        KernelUse *use = &ks->uses[k];
        use->same_as = NULL;
        if (!use->kernel) {
            kernel_key(coder, use->let, &use->key);
            if (use->schedule) {
                kernel_schedule(use, use->schedule);
            }
        }
    }
}

void
kernels_share(Kernels *ks)
{
    for (int k = 0; k < ks->nuses; k++) {
        KernelUse *use = &ks->uses[k];
        if (use->same_as) {
            use->kernel = kernel_ref(use->same_as->kernel);
            use->lowered = (Lowered){0};
        }
    }
}
