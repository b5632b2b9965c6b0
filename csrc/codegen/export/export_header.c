/* The files around the program: its header, a Makefile and a page. */
#include <ctype.h>
#include <string.h>

#include "export_text.h"

const char *
element_c(Dtype dtype)
{
    static const char *const names[] = {
#define DTYPE(name, storage, bytes, class, compute, torch) #storage,
#include "ir/dtype.def"
    };
    return dtype == DT_c64 ? "float" : dtype == DT_c128 ? "double" : names[dtype];
}

bool
param_is_written(const Export *x, int param)
{
    const Plan *plan = x->main->plan;
    bool written = false;
    for (int k = 0; k < plan->nin_place; k++) {
        written |= plan->in_place[k] == param;
    }
    for (int k = 0; k < plan->nresults; k++) {
        written |= plan->results[k].kind == RESULT_INTO && plan->results[k].of == param;
    }
    return written;
}

const char *
run_params(Export *x, bool types)
{
    const Plan *plan = x->main->plan;
    const bool hls = is_for(x, EXPORT_HLS);
    Text text = {.cx = x->cx};
    if (x->in_file && types) {
        text_add(&text, "const %s_weights *weights, ", x->options->name);
    } else if (x->in_file) {
        text_add(&text, "&weights, ");
    }
    text_add(&text, "%s", hls ? "" : size_params(x, x->main, types));
    for (int k = 0; k < plan->nparams + plan->nresults; k++) {
        const int result = k - plan->nparams, slot = result < 0 ? k : plan->results[result].slot;
        const char *name = result >= 0 ? x->outputs[result] : is_weight(x, k) ? NULL : x->params[k];
        const Slot *s = &plan->slots[slot];
        if (name && types) {
            text_add(&text, "%s%s %s", result < 0 && !param_is_written(x, k) ? "const " : "",
                     s->kind == SLOT_SCALAR ? "int64_t" : element_c(s->dtype), hls ? "" : "*");
        }
        if (name && types && hls) {
            text_add(&text, "%s[%lld], ", name, (long long)hls_elements(x, slot));
        } else if (name) {
            text_add(&text, "%s, ", name);
        }
    }
    if (!hls) {
        text_add(&text, types ? "void *workspace, const %s_threads *threads" : "workspace, threads",
                 x->options->name);
        return text.text;
    }
    return text.length > 0 ? cx_format(x->cx, "%.*s", (int)text.length - 2, text.text)
           : types         ? "void"
                           : "";
}

/* ---- the header ---- */

const char *
upper_c(Cx *cx, const char *name)
{
    char *text = cx_format(cx, "%s", name);
    for (char *c = text; *c; c++) {
        if (isupper((unsigned char)*c)) {
            return cx_format(cx, "%s_status", name);
        }
        *c = (char)toupper((unsigned char)*c);
    }
    return text;
}

static void
put_type(Export *x, const char *role, const char *name, const Type *type, const Dim *strides,
         Text *out)
{
    text_add(out, " *   %-7s %-12s ", role, name);
    type_text(x->cx, type, out);
    for (int ax = 0; strides && ax < type->rank; ax++) {
        text_add(out, ax ? ", " : "  strides in elements: ");
        dim_text(x->cx, strides[ax], out);
    }
    text_add(out, "\n");
}

void
put_interface_table(Export *x, Text *out)
{
    const Plan *plan = x->main->plan;
    const Fn *fn = x->main->fn;
    for (int k = 0; k < plan->ndeclared; k++) {
        const Solve *s = &plan->solves[k];
        text_add(out, " *   size    %-12s %lld ..", x->sizes[k],
                 (long long)(s->range.lo > 0 ? s->range.lo : 0));
        if (s->range.hi < DIM_INF) {
            text_add(out, " %lld", (long long)s->range.hi);
        }
        if (s->divisor > 1) {
            text_add(out, ", a multiple of %lld", (long long)s->divisor);
        }
        text_add(out, "\n");
    }
    for (int k = 0; k < plan->nparams; k++) {
        const char *role = is_weight(x, k) ? "weight" : param_is_written(x, k) ? "inout" : "input";
        put_type(x, role, x->params[k], fn->params[k]->type, fn->params[k]->strides, out);
    }
    for (int k = 0; k < plan->nresults; k++) {
        if (x->outputs[k]) {
            put_type(x, "output", x->outputs[k], fn->body->rets[k]->type, NULL, out);
        }
    }
}

void
put_program_header(Export *x, Text *out)
{
    const char *name = x->options->name, *big = upper_c(x->cx, name);
    ExportPlan *p = x->main;
    const char *typed = size_params(x, p, true);
    int n = (int)strlen(typed);
    text_add(out, "/* %s: the program %s, made by dlc.\n *\n", name, x->main->fn->name);
    put_interface_table(x, out);
    text_add(
        out,
        " *\n * Arrays are dense in row-major order, unless strides are given.  "
        "A bool is a byte, 0 "
        "or 1; f16\n * and bf16 are their bits; a complex number is two numbers, its real part "
        "first.  Arrays that are\n * written share memory with no other one.\n");
    int64_t number;
    text_add(out, is_alone(x) ? "" : " *\n * The workspace: ");
    if (is_alone(x)) {
        text_add(out, " */\n");
    } else if (size_number(p->workspace, &number)) {
        text_add(out, "%lld bytes.", (long long)number + 64);
    } else {
        text_add(out, "%s_workspace(..) bytes, by these sizes.", name);
    }
    if (!is_alone(x)) {
        text_add(out, "  Calls with workspaces of their own may run at the same time. */\n");
    }
    text_add(out,
             "#ifndef DLC_%s_H\n#define DLC_%s_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n",
             name, name);
    text_add(out, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    if (is_alone(x)) {
        (is_for(x, EXPORT_HLS) ? put_hls_header : put_device_header)(x, big, out);
        text_add(out, "#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
        return;
    }
    text_add(out, "typedef enum {\n    %s_OK,\n    %s_SIZE,\n    %s_WORKSPACE,\n", big, big, big);
    text_add(out, "    %s_INDEX,\n    %s_WEIGHTS,\n    %s_HASH,\n    %s_ENDIAN\n} %s_status;\n\n",
             big, big, big, big, name);
    text_add(
        out,
        "/* Threads that are there already.  parallel calls body(arg, lo, hi) for parts of\n"
        " * 0 .. n-1 that together are all of it, in any order, at the same time or not, and\n"
        " * returns when all of these calls have.  The bits of results do not depend on it. */\n"
        "typedef struct {\n"
        "    void (*parallel)(void *user, int64_t n,\n"
        "                     void (*body)(void *arg, int64_t lo, int64_t hi), void *arg);\n"
        "    void *user;\n} %s_threads;\n\n",
        name);
    put_weights_header(x, out);
    text_add(out, "/* The bytes of a workspace; 0: the sizes are not allowed. */\n");
    text_add(out, "size_t %s_workspace(%.*s);\n\n", name, n ? n - 2 : 4, n ? typed : "void");
    text_add(out, "/* threads: NULL to run in the calling thread alone. */\n");
    text_add(out, "%s_status %s_run(%s);\n\n", name, name, run_params(x, true));
    text_add(out, "const char *%s_message(%s_status status);\n\n", name, name);
    text_add(out, "#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

/* ---- the other files ---- */

void
put_makefile(Export *x, Text *out)
{
    const char *name = x->options->name;
    text_add(out,
             "CFLAGS ?= -O3 -march=native\n\n"
             "check: %s_check\n\t./%s_check\n\n"
             "%s_check: %s.c %s_check.c %s.h\n"
             "\t$(CC) -std=c11 $(CFLAGS) -ffp-contract=off -fwrapv -fno-math-errno -o $@ "
             "%s.c %s_check.c $(LDFLAGS)\n\n"
             ".PHONY: check\n",
             name, name, name, name, name, name, name, name);
}

void
put_guide(Export *x, Text *out)
{
    const char *name = x->options->name;
    text_add(
        out,
        "# %s\n\n"
        "The program `%s` in C11, made by dlc. It includes `<stdint.h>` and `<stddef.h>` alone, "
        "calls no function\nbut those that a compiler puts there by itself (`memcpy`, `memset`), "
        "allocates nothing and has no variable that\nis written.\n\n"
        "| file | what it holds |\n|---|---|\n"
        "| `%s.h` | what a caller needs, with a table of inputs, outputs and sizes |\n"
        "| `%s.c` | the program |\n"
        "| `%s_check.c` | a program that runs an example: `make` builds and runs it |\n",
        name, x->main->fn->name, name, name, name);
    if (x->in_file && x->options->data) {
        text_add(out,
                 "| `%s.safetensors` | the weights, which `%s_bind` looks at: their names, types, "
                 "shapes, and a SHA-256 of all, which takes a second for some hundred megabytes. "
                 "`-DDLC_UNHASHED` leaves the SHA-256 out |\n",
                 name, name);
    }
    text_add(
        out,
        "\n    cc -std=c11 -O3 -march=native -ffp-contract=off -fwrapv -fno-math-errno -c %s.c\n\n"
        "The bits of results are those of dlc on a processor with fused multiply-adds. Without "
        "`-mfma` (or `-march=native`)\nthese are computed by integers and doubles: the bits are "
        "the same, and it takes longer. `-ffp-contract=off` keeps a\ncompiler from fusing what the "
        "program does not fuse; gcc and clang read the same in the file itself. `-fwrapv`\nlets "
        "integers that overflow wrap; gcc reads it in the file, and clang needs the option. "
        "`-fno-math-errno` makes loops\nwith square roots faster. `-ffast-math` changes "
        "results.\n",
        name);
}
