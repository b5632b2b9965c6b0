/* From the kernels stage to a plan with machine code. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_build.h"

/* Kernel results that the caller was promised with strides are made with these strides. */
static void
promise_layouts(const Fn *fn)
{
    for (int k = 0; k < fn->body->nrets; k++) {
        Value *v = fn->body->rets[k];
        if (v->def && v->def->op == OP_kernel && !v->strides && fn->results[k].kind == RESULT_FRESH) {
            v->strides = fn->results[k].strides;
        }
    }
}

static Code *
compile_unit(Cx *cx, const Unit *unit, const CompileOptions *options)
{
    const char **names = cx_alloc(cx, ((size_t)unit->nphases + 1) * sizeof *names);
    char error[2048] = "";
    for (int k = 0; k < unit->nphases; k++) {
        names[k] = unit->phases[k].name;
    }
    Code *code = code_new(names, unit->nphases);
    if (!code) {
        fail(cx, DIAG_MEMORY, (size_t)unit->nphases);
    }
    if (unit->nphases == 0) {
        return code;
    }
    CcOptions cc = options->cc;
    cc.wait = options->mode == MODE_CC;
    if (options->mode == MODE_CC && jit_cc_submit(code, unit->cc_text, &cc, error, sizeof error)) {
        return code;
    }
    if (options->mode == MODE_CC) {
        log_line("%s: the libtcc tier is used", error);
    }
    if (!jit_tcc_compile(code, unit->tcc_text, error, sizeof error)) {
        code_unref(code);
        fail(cx, DIAG_CODEGEN, cx_format(cx, "libtcc: %s", error));
    }
    if (options->mode == MODE_AUTO) {
        jit_cc_submit(code, unit->cc_text, &cc, error, sizeof error);
    }
    return code;
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

static bool
dumped(const CompileOptions *options, const char *what)
{
    return options->dump && (lists(options->dump, what) || lists(options->dump, "all"));
}

/* Is the text wanted by anybody? */
static bool
wanted(const CompileOptions *options, const char *what)
{
    return options->show || dumped(options, what);
}

static void
show(const CompileOptions *options, const char *what, const char *text)
{
    if (dumped(options, what)) {
        fprintf(stderr, "/* %s */\n%s\n", what, text);
    }
    if (options->show) {
        options->show(options->show_arg, what, text);
    }
}

static const Fn *
to_loops(const Fn *kernels, const CompileOptions *options, Unit *unit)
{
    Cx *cx = kernels->cx;
    promise_layouts(kernels);
    Fn *loops = lower_fn(kernels);
    if (options->verify) {
        verify_fn(loops);
    }
    loops = schedule_fn(loops);
    if (options->verify) {
        verify_fn(loops);
    }
    if (wanted(options, "loops")) {
        Text text = {.cx = cx};
        print_fn(loops, &text);
        show(options, "loops", text.text);
    }
    emit_unit(loops, unit);
    show(options, "tcc", unit->tcc_text);
    show(options, "cc", unit->cc_text);
    return loops;
}

static void
release(void *arg)
{
    Builder *b = arg;
    plan_free(b->plan);
}

Plan *
plan_build(const Fn *kernels, const CompileOptions *options)
{
    Cx *cx = kernels->cx;
    Unit unit;
    Builder *b = cx_alloc(cx, sizeof *b);
    const Fn *loops = to_loops(kernels, options, &unit);
    b->cx = cx;
    b->fn = loops;
    b->slot_of = cx_alloc(cx, (size_t)loops->nvalues * sizeof *b->slot_of);
    for (int k = 0; k < loops->nvalues; k++) {
        b->slot_of[k] = -1;
    }
    if (!(b->plan = calloc(1, sizeof *b->plan))) {
        fail(cx, DIAG_MEMORY, sizeof *b->plan);
    }
    cx_cleanup(cx, release, b);
    b->plan->name = plan_text_keep(b, loops->name);
    plan_steps(b, &unit);
    if (wanted(options, "plan")) {
        Text text = {.cx = cx};
        plan_text(b->plan, &text);
        show(options, "plan", text.text);
    }
    b->plan->code = compile_unit(cx, &unit, options);
    Plan *plan = b->plan;
    b->plan = NULL;
    return plan;
}
