/* The life of a plan: its memory, references and text. */

#include <stdlib.h>
#include <string.h>

#include "codegen/compile/kernel.h"
#include "plan.h"

struct Chunk {
    struct Chunk *next;
    size_t used, room;
    max_align_t bytes[];
};

enum { CHUNK = 16 * 1024 };

void *
plan_alloc(Plan *plan, size_t bytes)
{
    size_t want = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    struct Chunk *chunk = plan->chunks;
    if (!chunk || chunk->room - chunk->used < want) {
        size_t room = want > CHUNK ? want : CHUNK;
        chunk = calloc(1, sizeof *chunk + room);
        if (!chunk) {
            return NULL;
        }
        chunk->room = room;
        chunk->next = plan->chunks;
        plan->chunks = chunk;
    }
    void *memory = (char *)chunk->bytes + chunk->used;
    chunk->used += want;
    return memory;
}

void
plan_free(Plan *plan)
{
    if (!plan) {
        return;
    }
    for (int k = 0; k < INSTANCES && plan->instances[k]; k++) {
        instance_unref(plan->instances[k]);
    }
    for (int k = 0; k < plan->nkernels; k++) {
        kernel_unref(plan->kernels[k]);
    }
    for (int k = 0; k < plan->nflows; k++) {
        plan_free(plan->flows[k].bodies[0].plan);
        plan_free(plan->flows[k].bodies[1].plan);
    }
    for (struct Chunk *chunk = plan->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    free(plan);
}

static void
dim_put(const Plan *plan, DimRef d, Text *out)
{
    const DimCode *c = &plan->dims[d];
    if (c->op == 'i') {
        text_add(out, "%lld", (long long)c->value);
    } else if (c->op == 'n') {
        text_add(out, "%s", plan->size_names[c->a]);
    } else {
        text_add(out, c->op == 'M'   ? "max("
                      : c->op == 'm' ? "min("
                      : c->op == 's' ? "scale("
                                     : "(");
        dim_put(plan, c->a, out);
        text_add(out, "%s",
                 c->op == '+'   ? " + "
                 : c->op == '*' ? "*"
                 : c->op == '/' ? " // "
                 : c->op == '%' ? " % "
                                : ", ");
        if (c->op == 's') {
            text_float(out, dim_factor(plan->dims[c->b].value));
        } else {
            dim_put(plan, c->b, out);
        }
        text_add(out, ")");
    }
}

static void
slot_put(const Plan *plan, int k, Text *out)
{
    static const char *const kinds[] = {"param", "work", "tensor", "view", "scalar"};
    const Slot *slot = &plan->slots[k];
    text_add(out, "  %%%d: %s %s[", k, kinds[slot->kind], dtype_info[slot->dtype].name);
    for (int ax = 0; ax < slot->rank; ax++) {
        text_add(out, ax ? ", " : "");
        dim_put(plan, slot->sizes[ax], out);
    }
    text_add(out, "]");
    if (slot->kind == SLOT_VIEW) {
        text_add(out, " of %%%d at ", slot->root);
        dim_put(plan, slot->offset, out);
    } else if (slot->kind == SLOT_SCALAR) {
        text_add(out, " = ");
        dim_put(plan, slot->offset, out);
    }
    text_add(out, "\n");
}

static void
slots_put(const char *open, int n, const int *slots, Text *out)
{
    text_add(out, "%s", open);
    for (int k = 0; k < n; k++) {
        text_add(out, "%s%%%d", k ? ", " : "", slots[k]);
    }
    text_add(out, ")");
}

bool
step_binds(const Plan *plan, const Step *step)
{
    return step->kind == STEP_CALL   ? plan->calls[step->call].nbinds > 0
           : step->kind == STEP_FLOW ? plan->flows[step->flow].nbinds > 0
                                     : false;
}

const char *
flow_word(const Plan *plan, const Step *step)
{
    return plan->flows[step->flow].loops ? "loop" : "branch";
}

static void
step_put(const Plan *plan, const Step *step, Text *out)
{
    static const char *const words[] = {"alloc", "view", "launch", "call", "copy", "free", "flow"};
    text_add(out, "  %s ", step->kind == STEP_FLOW ? flow_word(plan, step) : words[step->kind]);
    if (step->kind == STEP_LAUNCH) {
        const Launch *launch = &plan->launches[step->launch];
        text_add(out, "%d", step->launch);
        slots_put("(", launch->nbuffers, launch->buffers, out);
        text_add(out, " over ");
        dim_put(plan, launch->extent, out);
        text_add(out, "%s", launch->in_order ? " in order" : "");
    } else if (step->kind == STEP_CALL) {
        const Call *call = &plan->calls[step->call];
        slots_put("(", call->nres, call->res, out);
        text_add(out, " = %s", call->target);
        slots_put("(", call->nargs, call->args, out);
    } else if (step->kind == STEP_FLOW) {
        const Flow *flow = &plan->flows[step->flow];
        slots_put("(", flow->nres, flow->res, out);
        slots_put(" = (", flow->nargs, flow->args, out);
        slots_put(" beside (", flow->carries, flow->other, out);
    } else if (step->kind == STEP_COPY) {
        text_add(out, "%%%d to %%%d", step->from, step->slot);
    } else {
        text_add(out, "%%%d", step->slot);
    }
    text_add(out, "\n");
}

void
plan_text(const Plan *plan, Text *out)
{
    text_add(out, "plan %s\n", plan->name);
    for (int k = 0; k < plan->nslots; k++) {
        slot_put(plan, k, out);
    }
    for (int k = 0; k < plan->nsteps; k++) {
        step_put(plan, &plan->steps[k], out);
    }
}
