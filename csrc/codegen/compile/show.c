/* The texts of a compile, for people: to standard error, and to who asks for them. */
#include <stdio.h>
#include <string.h>

#include "codegen/rewrites.h"
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
    fn->body->lets = lets_new(cx, kernels->body->n);
    for (int k = 0; k < kernels->body->n; k++) {
        fn->body->lets[k] = kernels->body->lets[k];
    }
    for (int k = 0, at = 0; k < fn->body->n; k++) {
        if (fn->body->lets[k]->op == OP_kernel) {
            const Lowered *kernel = &lowered[at++];
            const Fn *loops = target == TARGETS ? kernel->loops.shared : kernel->loops.of[target];
            fn->body->lets[k] = loops->body->lets[kernel->place];
        }
    }
    return fn;
}

/* The loops as comments, so that a schedule has the names that it is about. */
static void
add_comment(const Fn *loops, Text *out)
{
    const Let *kernel = loops->body->lets[0];
    Text text = {.cx = loops->cx};
    print_let(kernel, 0, &text);
    for (const char *line = text.text; *line;) {
        size_t length = strcspn(line, "\n");
        text_add(out, "# %.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

void
kernels_schedule_text(const Kernels *ks, const CompileOptions *options, unsigned targets, Text *out)
{
    for (int k = 0; k < ks->nuses; k++) {
        KernelUse alone = ks->uses[k]; /* in a unit of its own, as when its schedule is written */
        alone.lowered = (Lowered){0};
        alone.made = NULL;
        alone.same_as = NULL;
        Loops loops = kernel_loops(ks, &alone, options, targets)->loops;
        text_add(out, "kernel k%d\n", k);
        add_comment(loops.shared, out);
        written_print(loops.shared, TARGETS, out);
        for (int t = 0; t < TARGETS; t++) {
            if (targets & 1u << t) {
                written_print(loops.of[t], (Target)t, out);
            }
        }
    }
}

static void
show_schedule(const Kernels *ks, const CompileOptions *options, unsigned targets)
{
    if (compile_shows(options, "schedule")) {
        Text text = {.cx = ks->cx};
        kernels_schedule_text(ks, options, targets, &text);
        compile_show(options, "schedule", text.text ? text.text : "");
    }
}

/* target: TARGETS for the loops that all share. */
static const char *
loops_name(Cx *cx, Target target)
{
    return target == TARGETS ? "loops" : cx_format(cx, "%s_loops", target_info[target].name);
}

static void
show_loops(const Kernels *ks, const CompileOptions *options, const Lowered *lowered, Target target)
{
    const char *what = loops_name(ks->cx, target);
    if (compile_shows(options, what)) {
        Text text = {.cx = ks->cx};
        print_fn(kernels_with_loops(ks->fn, lowered, target), &text);
        compile_show(options, what, text.text);
    }
}

/* Are the loops of the target shown, or its text? */
static bool
shows_target(Cx *cx, const CompileOptions *options, Target target)
{
    return compile_shows(options, loops_name(cx, target)) ||
           compile_shows(options, target_info[target].name);
}

void
kernels_show(const Kernels *ks, const CompileOptions *options)
{
    unsigned targets = targets_compiled();
    show_schedule(ks, options, targets);
    bool shown = compile_shows(options, loops_name(ks->cx, TARGETS)), texts = false;
    for (int k = 0; k < TARGETS; k++) {
        shown |= targets & 1u << k && shows_target(ks->cx, options, (Target)k);
    }
    if (!shown) {
        return;
    }
    Lowered *lowered = cx_alloc(ks->cx, ((size_t)ks->nuses + 1) * sizeof *lowered);
    for (int k = 0; k < ks->nuses; k++) {
        lowered[k] = *kernel_loops(ks, &ks->uses[k], options, targets);
    }
    show_loops(ks, options, lowered, TARGETS);
    for (int k = 0; k < TARGETS; k++) {
        if (targets & 1u << k) {
            show_loops(ks, options, lowered, (Target)k);
            texts |= compile_shows(options, target_info[k].name);
        }
    }
    Unit unit;
    if (texts) {
        emit_kernels(ks->cx, ks->nuses, lowered, targets, &unit);
    }
    for (int k = 0; k < TARGETS && texts; k++) {
        if (targets & 1u << k) {
            compile_show(options, target_info[k].name, unit.text[k]);
        }
    }
}
