/* The texts of a compile, for people: to standard error, and to who asks for them. */
#include <stdio.h>
#include <string.h>

#include "kernels.h"

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
compile_dumps(const CompileOptions *options, const char *what)
{
    const char *dump = options->passes.dump;
    return dump && (lists(dump, what) || lists(dump, "all"));
}

bool
compile_shows(const CompileOptions *options, const char *what)
{
    return options->show || compile_dumps(options, what);
}

void
compile_show(const CompileOptions *options, const char *what, const char *text)
{
    if (compile_dumps(options, what)) {
        fprintf(stderr, "/* %s */\n%s\n", what, text);
    }
    if (options->show) {
        options->show(options->show_arg, what, text);
    }
}

const Fn *
kernels_with_loops(const Fn *kernels, const Lowered *lowered, Target target)
{
    Cx *cx = kernels->cx;
    Fn *fn = cx_copy(cx, kernels, sizeof *kernels);
    fn->stage = STAGE_LOOPS;
    fn->body = cx_copy(cx, kernels->body, sizeof *kernels->body);
    fn->body->lets = cx_copy(cx, kernels->body->lets, (size_t)kernels->body->n * sizeof(Let *));
    for (int k = 0, at = 0; k < fn->body->n; k++) {
        if (fn->body->lets[k]->op == OP_kernel) {
            const Lowered *kernel = &lowered[at++];
            const Fn *loops = target == TARGETS ? kernel->loops.shared : kernel->loops.of[target];
            fn->body->lets[k] = loops->body->lets[kernel->place];
        }
    }
    return fn;
}

/* target: TARGETS for the loops that all share. */
static void
show_loops(const Kernels *ks, const CompileOptions *options, const Lowered *lowered, Target target)
{
    const char *what = target == TARGETS ? "loops"
                                         : cx_format(ks->cx, "%s_loops", target_info[target].name);
    if (compile_shows(options, what)) {
        Text text = {.cx = ks->cx};
        print_fn(kernels_with_loops(ks->fn, lowered, target), &text);
        compile_show(options, what, text.text);
    }
}

static bool
shows_any(const CompileOptions *options)
{
    static const char *const texts[] = {"loops", "tcc_loops", "cc_loops", "tcc", "cc"};
    bool any = false;
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        any |= compile_shows(options, texts[k]);
    }
    return any;
}

void
kernels_show(const Kernels *ks, const CompileOptions *options)
{
    if (!shows_any(options)) {
        return;
    }
    unsigned targets = 1u << TARGET_tcc | 1u << TARGET_cc;
    Lowered *lowered = cx_alloc(ks->cx, ((size_t)ks->nuses + 1) * sizeof *lowered);
    for (int k = 0; k < ks->nuses; k++) {
        lowered[k] = *kernel_loops(ks, &ks->uses[k], options, targets);
    }
    show_loops(ks, options, lowered, TARGETS);
    show_loops(ks, options, lowered, TARGET_tcc);
    show_loops(ks, options, lowered, TARGET_cc);
    Unit unit;
    if (compile_shows(options, "tcc") || compile_shows(options, "cc")) {
        emit_kernels(ks->cx, ks->nuses, lowered, targets, &unit);
        compile_show(options, "tcc", unit.text[TARGET_tcc]);
        compile_show(options, "cc", unit.text[TARGET_cc]);
    }
}
