/* A program as plain C: the steps of its plan, and its kernels in C for any compiler.
 *
 * What:     <name>.c and <name>.h, which anybody compiles, a program that checks the result of an
 *           example, a Makefile and a page.  Files are texts in memory.
 * Requires: a verified function of the kernels stage.
 * Ensures:  C11 that includes <stdint.h> and <stddef.h> and calls nothing; no memory is allocated,
 *           and there is no variable that is written, so calls may run at the same time.  Sizes
 *           stay parameters.  All names that a linker sees begin with the program's.
 * How:      the plan is built as for a call, and its steps are printed.  Kernels are lowered and
 *           scheduled as always; only the last step is another target's.  Equal kernels have one
 *           function.  What is computed of weights alone the caller has prepared, or it is computed
 *           in each call.
 * Why not   print what a run does, size by size: a plan has all sizes in it.
 * Example:  docs/howto/c.md has a softmax.
 */
#include <ctype.h>
#include <string.h>

#include "export_text.h"

/* ---- kernels ---- */

static int
kernel_at(Export *x, Kernels *ks, KernelUse *use)
{
    for (int k = 0; k < x->nkernels; k++) {
        if (memcmp(&x->kernels[k].key, &use->key.key, sizeof use->key.key) == 0) {
            return k;
        }
    }
    const Lowered *made = kernel_loops(ks, use, &x->compile, 1u << x->target);
    x->kernels = cx_grow(x->cx, x->kernels, x->nkernels, sizeof *x->kernels);
    ExportKernel *kernel = &x->kernels[x->nkernels];
    *kernel = (ExportKernel){.key = use->key.key, .of = &use->key};
    kernel->lowered.place = made->place;
    kernel->lowered.loops.shared = made->loops.shared;
    kernel->lowered.loops.of[x->target] = made->loops.of[x->target];
    return x->nkernels++;
}

/* ---- what C cannot have ---- */

/* A library that is called, and memory for what is made in a number of steps that nobody knows
 * before. */
static int
list_refused(const Fn *fn, Text *out)
{
    int n = 0;
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        const char *node = let->loc.node ? let->loc.node : "";
        bool call = let->op == OP_call, steps = let->op == OP_loop && let->nsizes > 0;
        if (call || steps) {
            text_add(out, "\n  %s (%s%s%s)",
                     call ? let_str(let, "target") : "a loop with as many steps as a result has",
                     node, *node ? ", " : "", let->loc.source ? let->loc.source : "line unknown");
            n++;
        }
        for (int j = 0; j < let->nbodies; j++) {
            n += list_refused(let->bodies[j], out);
        }
    }
    return n;
}

static void
refuse_calls(const Fn *fn)
{
    Text list = {.cx = fn->cx};
    int n = list_refused(fn, &list);
    if (n) {
        fail(fn->cx, DIAG_EXPORT_CALLS, n, list.text);
    }
}

/* ---- plans ---- */

/* Notes a plan and the loops of its kernels, while these are at hand. */
static void
note_plan(void *arg, const Plan *plan, Kernels *ks)
{
    Export *x = arg;
    size_t uses = (size_t)ks->nuses + 1;
    x->plans = cx_grow(x->cx, x->plans, x->nplans, sizeof *x->plans);
    ExportPlan *p = &x->plans[x->nplans];
    *p = (ExportPlan){.plan = plan, .fn = ks->fn, .number = x->nplans};
    p->kernels = cx_alloc(x->cx, uses * sizeof *p->kernels);
    p->keys = cx_alloc(x->cx, uses * sizeof *p->keys);
    for (int k = 0; k < ks->nuses; k++) {
        p->keys[k] = &ks->uses[k].key;
        p->kernels[k] = kernel_at(x, ks, &ks->uses[k]);
    }
    p->exprs = cx_alloc(x->cx, ((size_t)plan->ndims + 1) * sizeof *p->exprs);
    x->nplans++;
}

static void
emit(Export *x)
{
    Lowered *all = cx_alloc(x->cx, ((size_t)x->nkernels + 1) * sizeof *all);
    for (int k = 0; k < x->nkernels; k++) {
        all[k] = x->kernels[k].lowered;
    }
    emit_kernels(x->cx, x->nkernels, all, 1u << x->target, &x->unit);
    for (int k = 0, at = 0; k < x->nkernels; k++) {
        ExportKernel *kernel = &x->kernels[k];
        const Let *let = kernel->lowered.loops.shared->body->lets[kernel->lowered.place];
        kernel->first = at;
        kernel->shape = shape_write(x->cx, kernel->of, let, &x->unit);
        while (at < x->unit.nphases && x->unit.phases[at].kernel == let) {
            at++;
        }
    }
}

/* ---- names ---- */

static bool
is_reserved(const char *name)
{
    static const char *const words[] = {
        "alignas",
        "alignof",
        "and",
        "asm",
        "auto",
        "bool",
        "break",
        "case",
        "catch",
        "char",
        "class",
        "const",
        "constexpr",
        "continue",
        "decltype",
        "default",
        "delete",
        "do",
        "double",
        "else",
        "enum",
        "explicit",
        "export",
        "extern",
        "false",
        "float",
        "for",
        "friend",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "mutable",
        "namespace",
        "new",
        "noexcept",
        "not",
        "nullptr",
        "operator",
        "or",
        "private",
        "protected",
        "public",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "template",
        "this",
        "throw",
        "true",
        "try",
        "typedef",
        "typeid",
        "typename",
        "typeof",
        "union",
        "unsigned",
        "using",
        "virtual",
        "void",
        "volatile",
        "while",
        "xor",
        "and_eq",
        "bitand",
        "bitor",
        "compl",
        "concept",
        "not_eq",
        "or_eq",
        "requires",
        "static_assert",
        "thread_local",
        "xor_eq",
        "linux",
        "unix",
        "errno",
        "main",
        "int8_t",
        "int16_t",
        "int32_t",
        "int64_t",
        "uint8_t",
        "uint16_t",
        "uint32_t",
        "uint64_t",
        "intptr_t",
        "uintptr_t",
        "ptrdiff_t",
        "wchar_t",
        "INT32_MAX",
        "INT64_MAX",
        "INT64_MIN",
        "INT64_C",
        "UINT64_C",
        "SIZE_MAX",
        /* names that the functions of the program have */
        "p",
        "at",
        "work",
        "threads",
        "workspace",
        "weights",
        "over",
        "unused",
        "q",
        "step",
        "steps",
        "go",
        "sizes_fit",
        "places",
        "file",
        "bytes",
        "status",
        "NULL",
        "fma",
        "fmaf",
        "sqrt",
        "sqrtf",
        "rint",
        "rintf",
        "trunc",
        "truncf",
        "floor",
        "floorf",
        "fabs",
        "fabsf",
        "copysign",
        "copysignf",
        /* names that the program that checks an example has */
        "calloc",
        "free",
        "printf",
        "puts",
        "clock",
        "argc",
        "argv",
    };
    bool found = false;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        found |= strcmp(words[k], name) == 0;
    }
    for (size_t k = 0; !found && k < 4; k++) { /* steps0, places1, scalar2, k3_0 */
        static const char *const made[] = {"steps", "places", "scalar", "k"};
        size_t length = strlen(made[k]), all = strlen(name);
        found = strncmp(name, made[k], length) == 0 && all > length &&
                isdigit((unsigned char)name[all - 1]) &&
                strspn(name + length, "0123456789_") == all - length;
    }
    return found;
}

/* Does it begin as the functions and macros of a program do? */
static bool
begins_as_ours(const char *name)
{
    return name[0] == '_' || strncmp(name, "dlc_", 4) == 0 || strncmp(name, "size_", 5) == 0 ||
           strncmp(name, "example_", 8) == 0;
}

bool
is_for(const Export *x, ExportTarget target)
{
    return x->options->target == target;
}

bool
is_alone(const Export *x)
{
    return is_for(x, EXPORT_DEVICE) || is_for(x, EXPORT_HLS);
}

/* Does the header of the export declare the name? */
static bool
is_declared(const Export *x, const char *name)
{
    static const char *const lower[] = {"run",     "workspace", "message", "status",
                                        "threads", "weights",   "bind",    "shapes"},
                             *const capitals[] = {"OK",      "SIZE", "WORKSPACE", "INDEX",
                                                  "WEIGHTS", "HASH", "ENDIAN"};
    const char *own = x->options->name, *big = upper_c(x->cx, own);
    bool found = false;
    for (size_t k = 0; k < sizeof lower / sizeof *lower; k++) {
        found |= strcmp(name, cx_format(x->cx, "%s_%s", own, lower[k])) == 0;
    }
    for (size_t k = 0; k < sizeof capitals / sizeof *capitals; k++) {
        found |= strcmp(name, cx_format(x->cx, "%s_%s", big, capitals[k])) == 0;
    }
    return found;
}

typedef struct {
    Export *x;
    const char **taken;
    int n;
} Namer;

/* The name, or one like it that C and the others leave free. */
static const char *
named(Namer *namer, const char *wanted)
{
    Cx *cx = namer->x->cx;
    char *name = cx_format(cx, "%s%s", isdigit((unsigned char)*wanted) ? "v" : "", wanted);
    for (char *c = name; *c; c++) {
        *c = isalnum((unsigned char)*c) ? *c : '_';
    }
    if (begins_as_ours(name)) {
        return named(namer, cx_format(cx, "v%s", name));
    }
    bool free = name[0] && !is_reserved(name) && !is_declared(namer->x, name);
    for (int k = 0; k < namer->n && free; k++) {
        free = strcmp(namer->taken[k], name) != 0;
    }
    if (!free) {
        return named(namer, cx_format(cx, "%s_", name));
    }
    namer->taken = cx_grow(cx, namer->taken, namer->n, sizeof *namer->taken);
    return namer->taken[namer->n++] = name;
}

static void
name_all(Export *x)
{
    const Plan *plan = x->main->plan;
    Namer namer = {x, NULL, 0};
    x->sizes = cx_alloc(x->cx, ((size_t)plan->nsizes + 1) * sizeof *x->sizes);
    x->params = cx_alloc(x->cx, ((size_t)plan->nparams + 1) * sizeof *x->params);
    x->outputs = cx_alloc(x->cx, ((size_t)plan->nresults + 1) * sizeof *x->outputs);
    for (int k = 0; k < plan->nsizes; k++) {
        x->sizes[k] = named(&namer, plan->size_names[k]);
    }
    for (int k = 0; k < plan->nparams; k++) {
        x->params[k] = named(&namer, x->main->fn->params[k]->name);
    }
    for (int k = 0; k < plan->nresults; k++) {
        bool into = plan->results[k].kind == RESULT_INTO;
        x->outputs[k] = into ? NULL : named(&namer, x->options->outputs[k]);
    }
}

/* ---- results ---- */

/* By slot: 1 + the result whose memory it is.  A view has the memory of what it shows if that is
 * all of it, in the same order. */
static const int *
find_outputs(Export *x, const ExportPlan *p)
{
    const Plan *plan = p->plan;
    int *output = cx_alloc(x->cx, ((size_t)plan->nslots + 1) * sizeof *output);
    for (int k = 0; k < plan->nresults && p == x->main; k++) {
        const PlanResult *r = &plan->results[k];
        const Slot *s = &plan->slots[r->slot];
        const Value *v = p->fn->body->rets[k], *root = value_root(v);
        bool whole = s->root == r->slot ||
                     (root && plan->dims[s->offset].op == 'i' && plan->dims[s->offset].value == 0 &&
                      !root->strides && !p->fn->results[k].strides &&
                      type_numel(x->cx, v->type) == type_numel(x->cx, root->type));
        bool made = r->kind == RESULT_FRESH && plan->slots[s->root].kind == SLOT_OBJECT;
        if (made && whole && !output[s->root]) {
            output[s->root] = 1 + k;
        }
    }
    return output;
}

/* All results are arrays of their own: C has no tensors that share memory. */
static void
make_fresh(Fn *fn)
{
    for (int k = 0; k < fn->body->nrets; k++) {
        if (fn->results[k].kind != RESULT_INTO) {
            fn->results[k] = (Result){.kind = RESULT_FRESH};
        }
    }
    for (int k = 0; k < fn->nparams; k++) {
        fn->params[k]->given = false;
    }
}

/* ---- the files ---- */

static void
put_interface(Export *x, Text *out)
{
    const char *name = x->options->name, *big = upper_c(x->cx, name);
    ExportPlan *p = x->main;
    const Plan *plan = p->plan;
    const char *sizes = size_params(x, p, false), *typed = size_params(x, p, true);
    int n = (int)strlen(typed), n_names = (int)strlen(sizes);
    text_add(out, "\nsize_t\n%s_workspace(%.*s)\n{\n", name, n ? n - 2 : 4, n ? typed : "void");
    text_add(out,
             "    const int64_t bytes = sizes_fit(%sNULL) ? %s : INT64_MAX;\n"
             "    const size_t most = SIZE_MAX < INT64_MAX ? SIZE_MAX : (size_t)INT64_MAX;\n"
             "    return (uint64_t)bytes > most - 64 ? 0 : (size_t)bytes + 64;\n}\n",
             sizes, p->workspace);
    put_bind(x, out);
    text_add(out, "\n%s_status\n%s_run(%s)\n{\n", name, name, run_params(x, true));
    text_add(out, "    if (!%s_workspace(%.*s)) {\n        return %s_SIZE;\n    }\n", name,
             n ? n_names - 2 : 0, sizes, big);
    text_add(out, "    if (!workspace) {\n        return %s_WORKSPACE;\n    }\n", big);
    text_add(out, "    void *const p[] = {");
    for (int k = 0; k < plan->nparams; k++) {
        text_add(out, "(void *)(uintptr_t)%s, ", is_weight(x, k) ? weight_c(x, k) : x->params[k]);
    }
    for (int k = 0; k < plan->nresults; k++) {
        text_add(out, "%s, ", x->outputs[k] ? x->outputs[k] : "NULL");
    }
    text_add(out, "NULL};\n    char *work = (char *)workspace;\n"
                  "    work += (64 - (uintptr_t)work %% 64) %% 64;\n");
    text_add(out, "    return steps%d(%sp, work, threads) ? %s_INDEX : %s_OK;\n}\n", p->number,
             sizes, big, big);
    text_add(out,
             "\nconst char *\n%s_message(%s_status status)\n{\n    switch (status) {\n"
             "    case %s_OK:\n        return \"it has run\";\n"
             "    case %s_SIZE:\n        return \"these sizes are not allowed: see the header\";\n"
             "    case %s_WORKSPACE:\n        return \"there is no workspace\";\n"
             "    case %s_INDEX:\n        return \"an index in an input is out of range\";\n"
             "    case %s_WEIGHTS:\n        return \"the file lacks a weight of this type and "
             "shape\";\n"
             "    case %s_ENDIAN:\n        return \"the file is little-endian, and this machine is "
             "not: swap the bytes of the weights\";\n"
             "    case %s_HASH:\n        return \"these are other weights than those of the "
             "export\";\n"
             "    }\n    return \"there is no such status\";\n}\n",
             name, name, big, big, big, big, big, big, big);
}

static void
put_program(Export *x, Text *out)
{
    const char *name = x->options->name;
    Text rest = {.cx = x->cx};
    for (int k = 0; k < x->nplans; k++) {
        put_places(x, &x->plans[k], &rest);
    }
    if (!is_alone(x)) {
        put_size_check(x, x->main, &rest);
    }
    for (int k = 0; k < x->nplans && !is_for(x, EXPORT_HLS); k++) {
        put_steps(x, &x->plans[k], &rest);
    }
    if (is_for(x, EXPORT_HLS)) {
        put_hls_run(x, &rest);
    } else if (is_for(x, EXPORT_DEVICE)) {
        put_device_run(x, &rest);
    } else {
        put_interface(x, &rest);
    }
    if (is_for(x, EXPORT_WASM)) {
        put_shapes(x, &rest);
    }
    text_add(out, "/* %s: made by dlc.  See %s.h. */\n#include \"%s.h\"\n\n", name, name, name);
    text_add(
        out,
        "/* The bits of results need a compiler that fuses no multiplication and addition that\n"
        " * the text does not. */\n"
        "#if defined(__clang__)\n#pragma STDC FP_CONTRACT OFF\n"
        "#elif defined(__GNUC__) && !defined(__TINYC__)\n"
        "#pragma GCC optimize(\"no-trapping-math\", \"fp-contract=off\", \"wrapv\")\n"
        "#endif\n"
        "#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0 && "
        "__FLT_EVAL_METHOD__ != 16\n"
        "#error \"floats are computed as wider numbers: on x86 compile with -msse2 -mfpmath=sse, "
        "elsewhere -fexcess-precision=fast\"\n"
        "#endif\n");
    if (!is_for(x, EXPORT_HLS)) {
        text_add(out, "\nenum { DLC_PIECES = %d, DLC_BUFFERS = %d, DLC_RANK = %d };\n",
                 x->options->pieces, x->buffers + 1, x->rank + 1);
    }
    if (is_for(x, EXPORT_DEVICE)) { /* of which there are none */
        text_add(out, "typedef struct %s_threads %s_threads;\n", name, name);
    }
    const char *unit = x->unit.text[x->target];
    put_runtime(x, cx_format(x->cx, "%s %s", unit, rest.text), out);
    for (int k = 0; k < x->unit.nphases && !is_for(x, EXPORT_HLS); k++) {
        text_add(out,
                 "%sstatic int %s(void *const *p, const int64_t *n, int64_t lo, int64_t hi);\n",
                 k ? "" : "\n", x->unit.phases[k].name);
    }
    put_weights(x, out);
    text_add(out, "\n%s\n%s", unit, rest.text);
}

static void
add_file(Export *x, ExportFile **files, int *count, const char *name,
         void (*put)(Export *x, Text *out))
{
    Text text = {.cx = x->cx};
    text_add(&text, "%s", "");
    put(x, &text);
    *files = cx_grow(x->cx, *files, *count, sizeof **files);
    (*files)[(*count)++] = (ExportFile){name, text.text, text.length};
}

static void
drop(void *plan)
{
    plan_free(plan);
}

const ExportFile *
export_c(Fn *kernels, const ExportOptions *options, int *count)
{
    Cx *cx = kernels->cx;
    Export *x = cx_alloc(cx, sizeof *x);
    *x = (Export){
        .cx = cx,
        .options = options,
        .compile = {.mode = MODE_TCC},
        .target = options->target == EXPORT_HLS      ? target_find("hls")
                  : options->target == EXPORT_DEVICE ? target_find("device")
                                                     : target_for(COMPILER_ANY),
    };
    x->compile.passes = pass_options_wanted();
    x->compile.plan = note_plan;
    x->compile.plan_arg = x;
    refuse_calls(kernels);
    make_fresh(kernels);
    Plan *plan = plan_build(kernels, &x->compile);
    cx_cleanup(cx, drop, plan);
    x->main = &x->plans[x->nplans - 1];
    name_all(x);
    check_weights(x);
    if (is_for(x, EXPORT_HLS)) {
        check_hls(x);
    } else if (is_for(x, EXPORT_DEVICE)) {
        check_device(x);
    }
    emit(x);
    for (int k = 0; k < x->nplans; k++) {
        x->plans[k].output = find_outputs(x, &x->plans[k]);
        place_values(x, &x->plans[k]);
    }
    ExportFile *files = NULL;
    const char *name = options->name;
    *count = 0;
    add_file(x, &files, count, cx_format(cx, "%s.c", name), put_program);
    add_file(x, &files, count, cx_format(cx, "%s.h", name), put_program_header);
    if (is_for(x, EXPORT_DEVICE)) {
        add_file(x, &files, count, "README.md", put_device_guide);
        return files;
    }
    if (is_for(x, EXPORT_WASM)) {
        add_file(x, &files, count, cx_format(cx, "%s.mjs", name), put_module);
        add_file(x, &files, count, cx_format(cx, "%s.html", name), put_page);
        add_file(x, &files, count, "README.md", put_wasm_guide);
    } else {
        add_file(x, &files, count, cx_format(cx, "%s_check.c", name), put_check);
        add_file(x, &files, count, "Makefile", put_makefile);
        add_file(x, &files, count, "README.md", is_for(x, EXPORT_HLS) ? put_hls_guide : put_guide);
    }
    if (x->in_file && options->data) {
        files = cx_grow(cx, files, *count, sizeof *files);
        files[(*count)++] = (ExportFile){.name = cx_format(cx, "%s.safetensors", name)};
    }
    return files;
}
