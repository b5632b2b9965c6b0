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
kernels_with_loops(const Fn *kernels, const Lowered *lowered)
{
    Cx *cx = kernels->cx;
    Fn *fn = cx_copy(cx, kernels, sizeof *kernels);
    fn->stage = STAGE_LOOPS;
    fn->body = cx_copy(cx, kernels->body, sizeof *kernels->body);
    fn->body->lets = cx_copy(cx, kernels->body->lets, (size_t)kernels->body->n * sizeof(Let *));
    for (int k = 0, at = 0; k < fn->body->n; k++) {
        if (fn->body->lets[k]->op == OP_kernel) {
            const Lowered *kernel = &lowered[at++];
            fn->body->lets[k] = kernel->loops.shared->body->lets[kernel->place];
        }
    }
    return fn;
}

void
kernels_show(const Kernels *ks, const CompileOptions *options)
{
    bool texts = compile_shows(options, "tcc") || compile_shows(options, "cc"),
         ir = compile_shows(options, "loops");
    unsigned targets = texts ? 1u << TARGET_tcc | 1u << TARGET_cc : 0;
    Lowered *lowered = cx_alloc(ks->cx, ((size_t)ks->nuses + 1) * sizeof *lowered);
    for (int k = 0; k < ks->nuses && (texts || ir); k++) {
        lowered[k] = *kernel_loops(ks, &ks->uses[k], options, targets);
    }
    if (ir) {
        Text text = {.cx = ks->cx};
        print_fn(kernels_with_loops(ks->fn, lowered), &text);
        compile_show(options, "loops", text.text);
    }
    if (texts) {
        Unit unit;
        emit_kernels(ks->cx, ks->nuses, lowered, targets, &unit);
        compile_show(options, "tcc", unit.text[TARGET_tcc]);
        compile_show(options, "cc", unit.text[TARGET_cc]);
    }
}
