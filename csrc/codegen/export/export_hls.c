/* A program for high-level synthesis: tools that make a circuit of a C function.
 *
 * What:     m_run takes each input and output as an array whose size is a number.  Kernels are
 *           functions of arrays, and each value between them has an array of its type.
 * Ensures:  no pointers to pointers, no casts of pointers, no memory but arrays, loops of constant
 *           bounds in kernels and copies; the pragmas of the target's row.  A compiler that knows
 *           no such pragmas makes a program of it with the bits of the portable one.
 * Requires: no size symbols, the elements of all weights, no loops or branches of the program and
 *           no complex numbers: export_c fails without.
 * How:      A block of the workspace is one array for each type of the values that it holds.
 */
#include <string.h>

#include "export_text.h"

#define WHY "a program for hls "

static int64_t
number_of(Export *x, ExportPlan *p, DimRef ref)
{
    int64_t n = 0;
    size_number(size_c(x, p, ref), &n);
    return n;
}

/* From its first element to its last one; at least 1, as an array has. */
int64_t
hls_elements(Export *x, int slot)
{
    const Slot *s = &x->main->plan->slots[slot];
    int64_t bytes = 0;
    if (s->kind != SLOT_SCALAR) {
        size_number(slot_bytes_c(x, x->main, slot), &bytes);
    }
    return bytes > 0 ? bytes / dtype_info[s->dtype].bytes : 1;
}

void
check_hls(Export *x)
{
    const Plan *plan = x->main->plan;
    check_device(x);
    if (plan->nflows) {
        fail_as(x->cx, DIAG_EXPORT_SIZES, WHY "has no loops and branches of its own, and %s is one",
                plan->flows[0].name);
    }
    for (int k = 0; k < plan->nslots; k++) {
        const Slot *s = &plan->slots[k];
        if (s->kind != SLOT_SCALAR && dtype_components(s->dtype) == 2) {
            fail_as(x->cx, DIAG_EXPORT_SIZES, WHY "has no complex numbers");
        }
        if (s->kind == SLOT_VIEW && s->dtype != plan->slots[s->root].dtype) {
            fail_as(x->cx, DIAG_EXPORT_SIZES, WHY "has no views of another type than its memory");
        }
    }
}

/* ---- arrays ---- */

static const char *
block_array(Export *x, int block, Dtype dtype)
{
    return cx_format(x->cx, "dlc_block%d_%s", block, dtype_info[dtype].name);
}

/* The array of a value, or the part of one that begins with its first element. */
static const char *
array_c(Export *x, int slot)
{
    ExportPlan *p = x->main;
    const Slot *s = &p->plan->slots[slot];
    if (s->kind == SLOT_SCALAR) {
        return cx_format(x->cx, "&scalar%d", slot);
    }
    const char *array = s->root < p->plan->nparams && is_weight(x, s->root)
                            ? cx_format(x->cx, "dlc_weight%d", s->root)
                        : s->root < p->plan->nparams ? x->params[s->root]
                        : p->output[s->root]         ? x->outputs[p->output[s->root] - 1]
                        : p->block[s->root] < 0      ? "dlc_none"
                                                     : block_array(x, p->block[s->root], s->dtype);
    int64_t offset = s->kind == SLOT_VIEW ? number_of(x, p, s->offset) : 0;
    return offset ? cx_format(x->cx, "&%s[%lld]", array, (long long)offset) : array;
}

/* The arrays of the blocks, each as long as the longest value of its type that it holds. */
static void
put_blocks(Export *x, Text *out)
{
    const ExportPlan *p = x->main;
    for (int block = 0; block < p->nblocks; block++) {
        int64_t most[DTYPE_COUNT] = {0};
        for (int k = 0; k < p->plan->nslots; k++) {
            Dtype dtype = p->plan->slots[k].dtype;
            int64_t n = p->block[k] == block ? hls_elements(x, k) : 0;
            most[dtype] = n > most[dtype] ? n : most[dtype];
        }
        for (int k = 0; k < DTYPE_COUNT; k++) {
            if (most[k]) {
                text_add(out, "    static %s %s[%lld];\n", element_c((Dtype)k),
                         block_array(x, block, (Dtype)k), (long long)most[k]);
            }
        }
    }
}

/* ---- steps ---- */

static void
put_call(Export *x, const Launch *l, Text *out)
{
    if (launch_size_c(x, x->main, l, 0) ||
        strcmp(launch_scratch_c(x, x->main, l, false), "0") != 0) {
        fail_as(x->cx, DIAG_EXPORT_SIZES,
                WHY "has sizes that are numbers, and a kernel of %s has none",
                l->name ? l->name : "it");
    }
    if (number_of(x, x->main, l->extent) == 0) {
        text_add(out, "    (void)%s; /* what it makes has no elements */\n",
                 launch_function_c(x, x->main, l));
        return;
    }
    text_add(out, "    if (%s(", launch_function_c(x, x->main, l));
    for (int k = 0; k < l->nbuffers; k++) {
        text_add(out, "%s%s", k ? ", " : "", array_c(x, l->buffers[k]));
    }
    text_add(out, ")) {\n        return %s_INDEX;\n    }\n", upper_c(x->cx, x->options->name));
}

static const char *
index_of(Export *x, int rank, const DimRef *strides)
{
    Text text = {.cx = x->cx};
    for (int ax = 0; ax < rank; ax++) {
        text_add(&text, "%sd%d * %lld", ax ? " + " : "", ax,
                 (long long)number_of(x, x->main, strides[ax]));
    }
    return rank ? text.text : "0";
}

/* Loops over the elements of `from`, which has the sizes of `s`. */
static void
put_nest(Export *x, const Slot *s, const char *to, const DimRef *strides, int from, Text *out)
{
    const Slot *f = &x->main->plan->slots[from];
    const char *pragma = target_info[x->target].pragmas.loop, *array = array_c(x, from);
    int64_t offset = f->kind == SLOT_VIEW ? number_of(x, x->main, f->offset) : 0;
    array = offset ? cx_format(x->cx, "(%s)", array) : array;
    for (int ax = 0; ax < s->rank; ax++) {
        text_add(out, "%*sfor (int64_t d%d = 0; d%d < %lld; d%d++) {\n", 4 + 4 * ax, "", ax, ax,
                 (long long)number_of(x, x->main, s->sizes[ax]), ax);
    }
    text_add(out, "%s%s%*s%s[%s] = %s[%s];\n", s->rank ? pragma : "", s->rank ? "\n" : "",
             4 + 4 * s->rank, "", to, index_of(x, s->rank, strides), array,
             index_of(x, s->rank, f->strides));
    for (int ax = s->rank - 1; ax >= 0; ax--) {
        text_add(out, "%*s}\n", 4 + 4 * ax, "");
    }
}

/* Results that no step makes in their place. */
static void
put_results(Export *x, Text *out)
{
    const Plan *plan = x->main->plan;
    for (int k = 0; k < plan->nresults; k++) {
        const PlanResult *r = &plan->results[k];
        const Slot *s = &plan->slots[r->slot];
        if (r->kind != RESULT_INTO && s->kind == SLOT_SCALAR) {
            text_add(out, "    %s[0] = scalar%d;\n", x->outputs[k], r->slot);
        } else if (r->kind != RESULT_INTO && x->main->output[s->root] != 1 + k) {
            put_nest(x, s, x->outputs[k], s->strides, r->slot, out);
        }
    }
}

void
put_hls_run(Export *x, Text *out)
{
    const Plan *plan = x->main->plan;
    const char *name = x->options->name;
    text_add(out, "\n%s_status\n%s_run(%s)\n{\n", name, name, run_params(x, true));
    put_blocks(x, out);
    for (int k = 0; k < plan->nslots; k++) {
        const Slot *s = &plan->slots[k];
        if (s->kind == SLOT_SCALAR) {
            text_add(out, "    const int64_t scalar%d = %lld;\n    (void)scalar%d;\n", k,
                     (long long)number_of(x, x->main, s->offset), k);
        }
    }
    for (int k = 0; k < plan->nparams; k++) {
        if (!is_weight(x, k)) {
            text_add(out, "    (void)%s;\n", x->params[k]);
        }
    }
    for (int k = 0; k < plan->nresults; k++) {
        if (x->outputs[k]) {
            text_add(out, "    (void)%s;\n", x->outputs[k]);
        }
    }
    for (int k = 0; k < plan->nsteps; k++) {
        const Step *step = &plan->steps[k];
        if (step->kind == STEP_LAUNCH) {
            put_call(x, &plan->launches[step->launch], out);
        } else if (step->kind == STEP_COPY) {
            const Slot *to = &plan->slots[step->slot];
            put_nest(x, to, cx_format(x->cx, "(%s)", array_c(x, step->slot)), to->strides,
                     step->from, out);
        }
    }
    put_results(x, out);
    text_add(out, "    return %s_OK;\n}\n", upper_c(x->cx, name));
}

/* ---- weights and interface ---- */

void
put_hls_element(Export *x, Dtype dtype, uint64_t bits, Text *out)
{
    int unused = 64 - 8 * dtype_info[dtype].bytes;
    if (dtype == DT_f32 || dtype == DT_f64) {
        double v;
        float f;
        memcpy(&v, &bits, sizeof v);
        memcpy(&f, &bits, sizeof f);
        v = dtype == DT_f32 ? (double)f : v;
        const char *kind = dtype == DT_f32 ? "f" : "";
        if (v != v) {
            fail_as(x->cx, DIAG_EXPORT_SIZES, WHY "has no weight that is NaN");
        } else if (v - v != 0) {
            text_add(out, " %s1.0%s / 0.0%s,", v < 0 ? "-" : "", kind, kind);
        } else {
            text_add(out, " %a%s,", v, kind);
        }
    } else if (dtype == DT_i64 && bits == (uint64_t)1 << 63) {
        text_add(out, " INT64_MIN,");
    } else if (dtype_info[dtype].class == CLASS_INT && dtype != DT_u8) {
        text_add(out, " %lld,", (long long)(int64_t)(bits << unused) >> unused);
    } else {
        text_add(out, " 0x%llx,", (unsigned long long)bits);
    }
}

void
put_hls_header(Export *x, const char *big, Text *out)
{
    const char *name = x->options->name;
    text_add(out,
             "typedef enum {\n    %s_OK,\n    %s_INDEX\n} %s_status;\n\n"
             "/* %s_INDEX: an index in an input is out of range. */\n"
             "%s_status %s_run(%s);\n\n",
             big, big, name, big, name, name, run_params(x, true));
}

void
put_hls_guide(Export *x, Text *out)
{
    const char *name = x->options->name;
    text_add(
        out,
        "# %s\n\n"
        "The program `%s` for high-level synthesis, made by dlc. The top function is `%s_run` "
        "in `%s.c`; its arrays are\nin `%s.h`. Weights are constants. `%s_check.c` is the test "
        "bench: it returns 0 if the bits of an example are those of\ndlc. `make` compiles and "
        "runs both here.\n\n"
        "Fused multiply-adds are computed by doubles and integers unless the compiler has "
        "them. `-DDLC_HAS_FMA=0` makes each\ntwo operations, with other bits.\n",
        name, x->main->fn->name, name, name, name, name);
}
