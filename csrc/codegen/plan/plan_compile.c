/* From the kernels stage to a plan: the kernels get their machine code (pipeline.c), then the plan
 * is built of them. */

#include <stdlib.h>

#include "plan_build.h"

static void
release(void *arg)
{
    plan_free(((Builder *)arg)->plan);
}

static Builder *
begin(const Fn *kernels, const CompileOptions *options)
{
    Cx *cx = kernels->cx;
    Builder *b = cx_alloc(cx, sizeof *b);
    b->cx = cx;
    b->counts = options->show != NULL;
    b->options = options;
    b->checks = options->checks;
    b->own_tensors = options->own_tensors;
    b->slot_of = cx_alloc(cx, (size_t)kernels->nvalues * sizeof *b->slot_of);
    for (int k = 0; k < kernels->nvalues; k++) {
        b->slot_of[k] = -1;
    }
    if (!(b->plan = calloc(1, sizeof *b->plan))) {
        fail(cx, DIAG_MEMORY, sizeof *b->plan);
    }
    cx_cleanup(cx, release, b);
    b->plan->name = plan_text_keep(b, kernels->name);
    return b;
}

/* By use.  They are the plan's from now on. */
static void
take_kernels(Builder *b)
{
    Plan *plan = b->plan;
    Kernels *ks = b->kernels;
    plan->kernels = plan_keep(b, (size_t)ks->nuses * sizeof *plan->kernels);
    for (int k = 0; k < ks->nuses; k++) {
        plan->kernels[k] = ks->uses[k].kernel;
    }
    plan->nkernels = ks->nuses;
    ks->nuses = 0;
}

static Plan *
build(Fn *kernels, const CompileOptions *options, bool inner)
{
    Builder *b = begin(kernels, options);
    b->plan->inner = inner;
    b->kernels = kernels_make(kernels, options);
    b->fn = b->kernels->fn;
    kernels_show(b->kernels, options);
    tuner_build(b, options);
    plan_steps(b);
    if (compile_shows(options, "plan")) {
        Text text = {.cx = b->cx};
        plan_text(b->plan, &text);
        compile_show(options, "plan", text.text);
    }
    if (options->plan) {
        options->plan(options->plan_arg, b->plan, b->kernels);
    }
    take_kernels(b);
    Plan *plan = b->plan;
    b->plan = NULL;
    return plan;
}

Plan *
plan_build(Fn *kernels, const CompileOptions *options)
{
    return build(kernels, options, false);
}

Plan *
plan_build_body(Fn *kernels, const CompileOptions *options)
{
    return build(kernels, options, true);
}
