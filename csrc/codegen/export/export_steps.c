/* The steps of a plan as C: the function steps<number> of it.
 *
 * What:     steps0(B, N, p, work, threads) runs a plan on p, the addresses of its parameters, in
 *           the order of its slots, and, of the function itself, of its results behind them.
 * Ensures:  nothing is allocated, and nothing is written but results, parameters that the program
 *           writes to, and the workspace.
 * How:      A value's address is an expression: p[k], a block of the workspace, or one of these and
 *           an offset.  Tensors of the host, which a plan allocates, are results here or blocks.
 */
#include <string.h>

#include "export_text.h"

/* ---- slots ---- */

static const char *
memory_c(Export *x, ExportPlan *p, int slot)
{
    const Slot *s = &p->plan->slots[slot];
    if (s->kind == SLOT_PARAM) {
        return cx_format(x->cx, "p[%d]", slot);
    }
    if (p->output[slot]) {
        return cx_format(x->cx, "p[%d]", p->plan->nparams + p->output[slot] - 1);
    }
    return p->block[slot] < 0 ? "work" : block_c(x, p, p->block[slot]);
}

const char *
slot_c(Export *x, ExportPlan *p, int slot)
{
    const Slot *s = &p->plan->slots[slot];
    int64_t number;
    if (s->kind == SLOT_SCALAR) {
        return cx_format(x->cx, "&scalar%d", slot);
    }
    const char *base = memory_c(x, p, s->root);
    if (s->kind != SLOT_VIEW || strcmp(size_c(x, p, s->offset), "0") == 0) {
        return base;
    }
    int bytes = dtype_info[s->dtype].bytes;
    const char *offset = size_c(x, p, s->offset);
    offset = size_number(offset, &number)
                 ? cx_format(x->cx, "%lld", (long long)number * bytes)
                 : cx_format(x->cx, "%d * %s", bytes, size_factor_c(x, p, s->offset));
    return cx_format(x->cx, "%s%s + %s", *base == 'p' ? "(char *)" : "", base, offset);
}

const char *
slot_bytes_c(Export *x, ExportPlan *p, int slot)
{
    const Slot *s = &p->plan->slots[slot];
    int bytes = dtype_info[s->dtype].bytes;
    int64_t last = 0, size, stride;
    for (int ax = 0; ax < s->rank; ax++) {
        if (size_number(size_c(x, p, s->sizes[ax]), &size) && size == 0) {
            return "0";
        }
    }
    for (int ax = 0; ax < s->rank; ax++) {
        if (!size_number(size_c(x, p, s->sizes[ax]), &size) ||
            !size_number(size_c(x, p, s->strides[ax]), &stride)) {
            return cx_format(x->cx, "%d * size_span(%d, %s, %s)", bytes, s->rank,
                             sizes_c(x, p, s->rank, s->sizes), sizes_c(x, p, s->rank, s->strides));
        }
        last = bytes_sum(x, last, bytes_product(x, size - 1, stride));
    }
    return cx_format(x->cx, "%lld", (long long)bytes_product(x, bytes_sum(x, last, 1), bytes));
}

/* ---- steps ---- */

/* Where a step comes from, as a comment. */
static void
put_place(const char *name, const char *source, Text *out)
{
    size_t begin = out->length;
    text_add(out, "    /* %s%s%s */\n", name ? name : "", source ? ": " : "", source ? source : "");
    char *end = out->text + out->length - 4;
    for (char *c = out->text + begin + 6; c < end; c++) {
        bool ends = (*c == '*' && c[1] == '/') || (*c == '/' && c[1] == '*');
        *c = ends || *c == '\n' ? ' ' : *c;
    }
}

static void
put_launch(Export *x, ExportPlan *p, const Launch *l, Text *out)
{
    const char *scratch = launch_scratch_c(x, p, l, false);
    int block = p->block[p->plan->nslots + (int)(l - p->plan->launches)];
    if (l->phases) {
        put_place(l->name, l->source, out);
    }
    if (is_for(x, EXPORT_DEVICE)) {
        const char *extent = size_c(x, p, l->extent);
        int64_t n;
        bool known = size_number(extent, &n);
        text_add(out, "    if (%s%s%s((void *[]){", known && n > 0 ? "" : extent,
                 known && n > 0 ? "" : " > 0 && ", launch_function_c(x, p, l));
        for (int k = 0; k < l->nbuffers; k++) {
            text_add(out, "%s, ", slot_c(x, p, l->buffers[k]));
        }
        text_add(out, "%s},\n            %s, 0, %s)) {\n        return 1;\n    }\n",
                 block < 0 ? "work" : block_c(x, p, block), launch_sizes_c(x, p, l), extent);
        return;
    }
    text_add(out, "    if (dlc_launch(&(dlc_job){\n            .run = %s,\n",
             launch_function_c(x, p, l));
    text_add(out, "            .p = (void *[]){");
    for (int k = 0; k < l->nbuffers; k++) {
        text_add(out, "%s, ", slot_c(x, p, l->buffers[k]));
    }
    text_add(out, "%s},\n            .n = %s,\n", block < 0 ? "work" : block_c(x, p, block),
             launch_sizes_c(x, p, l));
    text_add(out, "            .count = %d,\n            .extent = %s,\n            .work = %s,\n",
             l->nbuffers, size_c(x, p, l->extent), size_c(x, p, l->work));
    if (strcmp(scratch, "0") != 0) {
        text_add(out, "            .each = size_room(%s),\n", scratch);
    }
    text_add(out, "        }, %s)) {\n        return 1;\n    }\n", l->in_order ? "0" : "threads");
    x->buffers = l->nbuffers > x->buffers ? l->nbuffers : x->buffers;
}

static void
put_copy(Export *x, ExportPlan *p, int to, int from, Text *out)
{
    const Slot *t = &p->plan->slots[to], *f = &p->plan->slots[from];
    text_add(out, "    dlc_copy(%d, %d, %s,\n        %s, %s,\n        %s, %s);\n",
             dtype_info[t->dtype].bytes, t->rank, sizes_c(x, p, t->rank, t->sizes),
             slot_c(x, p, to), sizes_c(x, p, t->rank, t->strides), slot_c(x, p, from),
             sizes_c(x, p, f->rank, f->strides));
    x->rank = t->rank > x->rank ? t->rank : x->rank;
}

static void
put_step(Export *x, ExportPlan *p, int k, Text *out)
{
    const Plan *plan = p->plan;
    const Step *step = &plan->steps[k];
    if (step->kind == STEP_LAUNCH) {
        put_launch(x, p, &plan->launches[step->launch], out);
    } else if (step->kind == STEP_COPY) {
        put_copy(x, p, step->slot, step->from, out);
    } else if (step->kind == STEP_FLOW) {
        put_place(plan->flows[step->flow].name, NULL, out);
        put_flow(x, p, k, out);
    }
}

/* Results that a step does not make in their place: sizes, and views of what is larger. */
static void
put_results(Export *x, ExportPlan *p, Text *out)
{
    const Plan *plan = p->plan;
    for (int k = 0; k < plan->nresults && p == x->main; k++) {
        const PlanResult *r = &plan->results[k];
        const Slot *s = &plan->slots[r->slot];
        if (r->kind == RESULT_INTO) {
            continue;
        }
        if (s->kind == SLOT_SCALAR) {
            text_add(out, "    *(int64_t *)p[%d] = scalar%d;\n", plan->nparams + k, r->slot);
        } else if (p->output[s->root] != 1 + k) {
            const char *sizes = sizes_c(x, p, s->rank, s->sizes),
                       *strides = sizes_c(x, p, s->rank, s->strides);
            text_add(out, "    dlc_copy(%d, %d, %s,\n        p[%d], %s,\n        %s, %s);\n",
                     dtype_info[s->dtype].bytes, s->rank, sizes, plan->nparams + k, strides,
                     slot_c(x, p, r->slot), strides);
            x->rank = s->rank > x->rank ? s->rank : x->rank;
        }
    }
}

void
put_steps(Export *x, ExportPlan *p, Text *out)
{
    const Plan *plan = p->plan;
    Text body = {.cx = x->cx};
    text_add(&body, "%s", "");
    for (int k = 0; k < plan->nsteps; k++) {
        put_step(x, p, k, &body);
    }
    put_results(x, p, &body);
    text_add(out,
             "\nstatic int\nsteps%d(%svoid *const *p, char *work,\n"
             "       const %s_threads *threads)\n{\n",
             p->number, size_params(x, p, true), x->options->name);
    for (int k = 0; k < plan->nslots; k++) {
        const Slot *s = &plan->slots[k];
        if (s->kind == SLOT_SCALAR) {
            text_add(out, "    int64_t scalar%d = %s;\n", k, size_c(x, p, s->offset));
        }
    }
    if (p->computed) {
        text_add(out, "    int64_t at[%d];\n    places%d(%sat);\n", p->nblocks, p->number,
                 size_params(x, p, false));
    }
    text_put(out, body.text, body.length);
    text_add(out, "    (void)p, (void)work, (void)threads;\n");
    for (int k = 0; k < plan->nslots; k++) {
        if (plan->slots[k].kind == SLOT_SCALAR) {
            text_add(out, "    (void)scalar%d;\n", k);
        }
    }
    put_unused(x, p, out);
    text_add(out, "    return 0;\n}\n");
}
