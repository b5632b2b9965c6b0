/* What a program has besides its C to run in a browser: a function of its sizes, a module and a
 * page.
 *
 * JavaScript has arrays without shapes.  <name>_shapes tells it, for the sizes of a call, how many
 * numbers each array has; a table in the module has their names and types, in the order of
 * <name>_run's arguments.  module.mjs and page.html are the texts around these. */
#include <string.h>

#include "export_text.h"

/* module.mjs and page.html as texts: made by the build. */
extern const char dlc_module_text[], dlc_page_text[];

/* The slot of a result that is an array of its own, or -1. */
static int
output_slot(const Export *x, int k)
{
    return x->outputs[k] ? x->main->plan->results[k].slot : -1;
}

/* ---- sizes ---- */

static void
put_shape(Export *x, int slot, Text *out)
{
    ExportPlan *p = x->main;
    const Slot *s = &p->plan->slots[slot];
    if (s->kind == SLOT_SCALAR) {
        text_add(out, "    *to++ = 1;\n");
        return;
    }
    text_add(out, "    *to++ = %d * size_span(%d, %s, %s);\n", dtype_components(s->dtype), s->rank,
             sizes_c(x, p, s->rank, s->sizes), sizes_c(x, p, s->rank, s->strides));
    for (int ax = 0; ax < s->rank; ax++) {
        text_add(out, "    *to++ = %s;\n", size_c(x, p, s->sizes[ax]));
    }
}

void
put_shapes(Export *x, Text *out)
{
    const Plan *plan = x->main->plan;
    const char *name = x->options->name, *typed = size_params(x, x->main, true);
    text_add(out,
             "\n/* Of each array that %s_run takes: its numbers, then its sizes. */\n"
             "void\n%s_shapes(%sint64_t *to)\n{\n",
             name, name, typed);
    put_unused(x, x->main, out);
    for (int k = 0; k < plan->nparams; k++) {
        if (!is_weight(x, k)) {
            put_shape(x, k, out);
        }
    }
    for (int k = 0; k < plan->nresults; k++) {
        if (output_slot(x, k) >= 0) {
            put_shape(x, output_slot(x, k), out);
        }
    }
    text_add(out, "    (void)to;\n}\n");
}

/* ---- the table: JSON ---- */

/* name, type, type of a number in C, axes, is it written by the call? */
static void
put_array(const Export *x, const char *name, int slot, bool written, Text *out)
{
    const Slot *s = &x->main->plan->slots[slot];
    bool scalar = s->kind == SLOT_SCALAR;
    text_add(out, "\n    [\"%s\", \"%s\", \"%s\", %d, %s", name,
             scalar ? "i64" : dtype_info[s->dtype].name, scalar ? "int64_t" : element_c(s->dtype),
             scalar ? 0 : s->rank, written ? "true" : "false");
}

static void
put_table(Export *x, Text *out)
{
    const Plan *plan = x->main->plan;
    const char *comma = "";
    int weights = 0;
    text_add(out, "{\n  \"sizes\": [");
    for (int k = 0; k < plan->nsizes; k++) {
        text_add(out, "%s\"%s\"", k ? ", " : "", x->sizes[k]);
    }
    text_add(out, "],\n  \"inputs\": [");
    for (int k = 0; k < plan->nparams; k++) {
        weights += is_weight(x, k);
        if (!is_weight(x, k)) {
            text_add(out, "%s", comma);
            put_array(x, x->params[k], k, param_is_written(x, k), out);
            text_add(out, "]");
            comma = ",";
        }
    }
    text_add(out, "\n  ],\n  \"outputs\": [");
    comma = "";
    for (int k = 0; k < plan->nresults; k++) {
        if (output_slot(x, k) >= 0) {
            text_add(out, "%s", comma);
            put_array(x, x->outputs[k], output_slot(x, k), true, out);
            text_add(out, ", %d]", k); /* which result it is */
            comma = ",";
        }
    }
    text_add(out, "\n  ],\n  \"weights\": %d\n}", weights);
}

/* ---- the files ---- */

/* The text, in which @NAME@ and @TABLE@ stand for these. */
static void
put_filled(Export *x, const char *text, Text *out)
{
    static const char name[] = "@NAME@", table[] = "@TABLE@";
    for (const char *at = strchr(text, '@'); at; at = strchr(at, '@')) {
        if (strncmp(at, name, sizeof name - 1) == 0) {
            text_put(out, text, (size_t)(at - text));
            text_add(out, "%s", x->options->name);
            text = at += sizeof name - 1;
        } else if (strncmp(at, table, sizeof table - 1) == 0) {
            text_put(out, text, (size_t)(at - text));
            put_table(x, out);
            text = at += sizeof table - 1;
        } else {
            at++;
        }
    }
    text_add(out, "%s", text);
}

void
put_module(Export *x, Text *out)
{
    put_filled(x, dlc_module_text, out);
}

void
put_page(Export *x, Text *out)
{
    put_filled(x, dlc_page_text, out);
}

void
put_wasm_guide(Export *x, Text *out)
{
    const char *name = x->options->name;
    text_add(out,
             "# %s\n\n"
             "The program `%s` for browsers and other machines of WebAssembly, made by dlc.\n\n"
             "| file | what it holds |\n|---|---|\n"
             "| `%s.wasm` | the program: it imports nothing |\n"
             "| `%s.safetensors` | its weights |\n"
             "| `%s.mjs` | loads both and runs them, without other modules |\n"
             "| `%s.html`, `%s_example.safetensors` | a page that runs an example; these two are "
             "not needed elsewhere |\n\n",
             name, x->main->fn->name, name, name, name, name, name);
    text_add(out,
             "    python -m http.server        # then open http://localhost:8000/%s.html\n\n"
             "```js\nimport { load } from \"./%s.mjs\";\n\n"
             "const m = await load();\nconst results = m.run({",
             name, name);
    const Plan *plan = x->main->plan;
    const char *comma = "";
    for (int k = 0; k < plan->nparams; k++) {
        if (!is_weight(x, k)) {
            text_add(out, "%s%s", comma, x->params[k]);
            comma = ", ";
        }
    }
    text_add(out, "}");
    for (int k = 0; k < plan->nsizes; k++) {
        text_add(out, "%s%s", k ? ", " : ", {", x->sizes[k]);
    }
    text_add(out, "%s);\n```\n\nArrays:\n\n", plan->nsizes ? "}" : "");
    put_interface_table(x, out);
    text_add(
        out,
        "\nA bool is a byte, 0 or 1, and f16 and bf16 are their bits. i64 is a BigInt64Array; a "
        "complex number is two numbers.\n"
        "The bits of results are those of dlc on a processor without fused multiply-adds.\n");
}
