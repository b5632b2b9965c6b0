/* From the kernels stage to a plan with machine code. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_build.h"

void
plan_promise_layouts(const Fn *fn)
{
    for (int k = 0; k < fn->body->nrets; k++) {
        Value *v = fn->body->rets[k];
        if (v->def && v->def->op == OP_kernel && !v->strides &&
            fn->results[k].kind == RESULT_FRESH) {
            v->strides = fn->results[k].strides;
        }
    }
}

/* Does the list of names, such as "loops,tcc", have this one? */
static bool
lists(const char *names, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = names; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

bool
plan_dumps(const CompileOptions *options, const char *what)
{
    const char *dump = options->passes.dump;
    return dump && (lists(dump, what) || lists(dump, "all"));
}

/* Is the text wanted by anybody? */
static bool
wanted(const CompileOptions *options, const char *what)
{
    return options->show || plan_dumps(options, what);
}

static void
show(const CompileOptions *options, const char *what, const char *text)
{
    if (plan_dumps(options, what)) {
        fprintf(stderr, "/* %s */\n%s\n", what, text);
    }
    if (options->show) {
        options->show(options->show_arg, what, text);
    }
}

const Fn *
plan_with_loops(const Fn *kernels, const Lowered *lowered)
{
    Cx *cx = kernels->cx;
    Fn *fn = cx_copy(cx, kernels, sizeof *kernels);
    fn->stage = STAGE_LOOPS;
    fn->body = cx_copy(cx, kernels->body, sizeof *kernels->body);
    fn->body->lets = cx_copy(cx, kernels->body->lets, (size_t)kernels->body->n * sizeof(Let *));
    for (int k = 0, at = 0; k < fn->body->n; k++) {
        if (fn->body->lets[k]->op == OP_kernel) {
            fn->body->lets[k] = (Let *)lowered[at++].let;
        }
    }
    return fn;
}

/* Shows the loops that were compiled and what was made of them, as one function and one text. */
static void
show_loops(Builder *b, const CompileOptions *options)
{
    bool texts = wanted(options, "tcc") || wanted(options, "cc"), ir = wanted(options, "loops");
    Lowered *lowered = cx_alloc(b->cx, ((size_t)b->nuses + 1) * sizeof *lowered);
    for (int k = 0; k < b->nuses && (texts || ir); k++) {
        lowered[k] = plan_lowered(b, &b->uses[k], options);
    }
    if (ir) {
        Text text = {.cx = b->cx};
        print_fn(plan_with_loops(b->fn, lowered), &text);
        show(options, "loops", text.text);
    }
    if (texts) {
        Unit unit;
        emit_kernels(b->cx, b->nuses, lowered, 1u << TARGET_tcc | 1u << TARGET_cc, &unit);
        show(options, "tcc", unit.text[TARGET_tcc]);
        show(options, "cc", unit.text[TARGET_cc]);
    }
}

/* The kernels are in b->uses until the plan has them. */
static void
release(void *arg)
{
    Builder *b = arg;
    plan_free(b->plan);
    for (int k = 0; k < b->nuses; k++) {
        for (KernelUse *use = &b->uses[k]; use; use = use->shorts) {
            kernel_unref(use->kernel);
        }
    }
}

/* By use; after them those for short rows. */
static void
give_kernels(Builder *b)
{
    Plan *plan = b->plan;
    plan->kernels = plan_keep(b, 2 * (size_t)b->nuses * sizeof *plan->kernels);
    for (int k = 0; k < b->nuses; k++) {
        plan->kernels[k] = b->uses[k].kernel;
    }
    plan->nkernels = b->nuses;
    for (int k = 0; k < b->nuses; k++) {
        if (b->uses[k].shorts) {
            plan->kernels[plan->nkernels++] = b->uses[k].shorts->kernel;
        }
    }
    b->nuses = 0;
}

Plan *
plan_build(const Fn *kernels, const CompileOptions *options)
{
    Cx *cx = kernels->cx;
    Builder *b = cx_alloc(cx, sizeof *b);
    plan_promise_layouts(kernels);
    b->cx = cx;
    b->counts = options->show != NULL;
    b->checks = options->checks;
    b->given = options->given;
    b->own_tensors = options->own_tensors;
    b->fn = kernels;
    b->slot_of = cx_alloc(cx, (size_t)kernels->nvalues * sizeof *b->slot_of);
    for (int k = 0; k < kernels->nvalues; k++) {
        b->slot_of[k] = -1;
    }
    if (!(b->plan = calloc(1, sizeof *b->plan))) {
        fail(cx, DIAG_MEMORY, sizeof *b->plan);
    }
    cx_cleanup(cx, release, b);
    b->plan->name = plan_text_keep(b, kernels->name);
    plan_order(b);
    plan_find_uses(b);
    plan_find_short(b);
    plan_kernels(b, options);
    show_loops(b, options);
    tuner_build(b, options);
    plan_steps(b);
    if (wanted(options, "plan")) {
        Text text = {.cx = cx};
        plan_text(b->plan, &text);
        show(options, "plan", text.text);
    }
    give_kernels(b);
    Plan *plan = b->plan;
    b->plan = NULL;
    return plan;
}
