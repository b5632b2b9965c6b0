/* A program for a small device: m_run(&io) is all that there is to call.
 *
 * What:     sizes are numbers, weights stand in the text, where a linker puts them in flash, and
 *           values between kernels have one array, the arena.  Kernels are called by their names.
 * Ensures:  m_run has the bits of the program with a caller's workspace.  It calls nothing but
 *           memcpy and memset, and what a compiler has for numbers that the processor lacks.
 * Requires: no size symbols, and the elements of all weights: export_c fails without.
 */
#include "export_text.h"

void
check_device(Export *x)
{
    const Plan *plan = x->main->plan;
    if (plan->nsizes) {
        fail_as(
            x->cx, DIAG_EXPORT_SIZES,
            "a program for a device has sizes that are numbers, and %s is none: give its number "
            "(sizes={\"%s\": ..}, --size %s=..), or save the model without dynamic sizes",
            plan->size_names[0], plan->size_names[0], plan->size_names[0]);
    }
    for (int k = 0; k < plan->nparams; k++) {
        if (is_weight(x, k) && !weight_is_known(x, k)) {
            fail_as(x->cx, DIAG_EXPORT_SIZES,
                    "a program for a device has its weights in its text: give the array of %s",
                    x->main->fn->params[k]->name);
        }
    }
}

static int64_t
arena_bytes(const Export *x)
{
    int64_t bytes = 0;
    if (!size_number(x->main->workspace, &bytes)) {
        fail_as(
            x->cx, DIAG_EXPORT_SIZES,
            "a program for a device has an arena whose bytes are a number, and a loop or branch "
            "of %s takes memory by a size that it finds when it runs",
            x->main->fn->name);
    }
    return bytes;
}

void
put_device_header(Export *x, const char *big, Text *out)
{
    const Plan *plan = x->main->plan;
    const char *name = x->options->name;
    text_add(out, "typedef enum {\n    %s_OK,\n    %s_INDEX\n} %s_status;\n\n", big, big, name);
    text_add(out, "/* Bytes: of weights, which are constants; of values between kernels. */\n");
    text_add(out, "enum { %s_WEIGHT_BYTES = %lld, %s_ARENA_BYTES = %lld };\n\n", big,
             (long long)x->weight_bytes, big, (long long)arena_bytes(x));
    text_add(out, "typedef struct {\n");
    for (int k = 0; k < plan->nparams; k++) {
        if (!is_weight(x, k)) {
            text_add(out, "    %s%s *%s;\n", param_is_written(x, k) ? "" : "const ",
                     element_c(plan->slots[k].dtype), x->params[k]);
        }
    }
    for (int k = 0; k < plan->nresults; k++) {
        const Slot *s = &plan->slots[plan->results[k].slot];
        if (x->outputs[k]) {
            text_add(out, "    %s *%s;\n", s->kind == SLOT_SCALAR ? "int64_t" : element_c(s->dtype),
                     x->outputs[k]);
        }
    }
    text_add(
        out,
        "} %s_io;\n\n"
        "/* Calls share the arena: they do not run at the same time.  %s_INDEX: an index in an\n"
        " * input is out of range. */\n"
        "%s_status %s_run(const %s_io *io);\n\n",
        name, big, name, name, name);
}

void
put_device_run(Export *x, Text *out)
{
    const Plan *plan = x->main->plan;
    const char *name = x->options->name, *big = upper_c(x->cx, name);
    int64_t bytes = arena_bytes(x);
    text_add(out, "\n%s_status\n%s_run(const %s_io *io)\n{\n", name, name, name);
    text_add(out, "    static _Alignas(64) char work[%lld];\n    void *const p[] = {",
             (long long)(bytes ? bytes : 1));
    for (int k = 0; k < plan->nparams; k++) {
        text_add(out, "(void *)(uintptr_t)%s, ",
                 is_weight(x, k) ? weight_c(x, k) : cx_format(x->cx, "io->%s", x->params[k]));
    }
    for (int k = 0; k < plan->nresults; k++) {
        text_add(out, "%s%s, ", x->outputs[k] ? "io->" : "",
                 x->outputs[k] ? x->outputs[k] : "NULL");
    }
    text_add(out, "NULL};\n    return steps%d(p, work, NULL) ? %s_INDEX : %s_OK;\n}\n",
             x->main->number, big, big);
}

void
put_device_guide(Export *x, Text *out)
{
    const char *name = x->options->name;
    text_add(out,
             "# %s\n\n"
             "The program `%s` for a small device, made by dlc: `%s_run(&io)` with the pointers to "
             "inputs and outputs that `%s.h` names.\nWeights are constants (%lld bytes), values "
             "between kernels are in one array (%lld bytes), and nothing is allocated.\n\n"
             "    cc -std=c11 -O2 -ffp-contract=off -fwrapv -fno-math-errno -c %s.c\n",
             name, x->main->fn->name, name, name, (long long)x->weight_bytes,
             (long long)arena_bytes(x), name);
}
