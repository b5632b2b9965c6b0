/* Loops and branches as C: a `for` and an `if` around the function of a body.
 *
 * What a loop carries has two places, which its steps write in turn, or one, as plan_flow.c says;
 * the function of the body gets the addresses of its parameters, then those of the places of what
 * it returns.
 */
#include <string.h>

#include "export_text.h"

ExportPlan *
plan_of_body(const Export *x, const Body *body)
{
    int k = 0;
    while (x->plans[k].plan != body->plan) {
        k++;
    }
    return &x->plans[k];
}

static void
put_move(Text *out, const char *margin, const char *to, const char *from, const char *bytes)
{
    text_add(out, "%sdlc_move(%s, %s, %s);\n", margin, to, from, bytes);
}

/* Calls the body, which takes q. */
static void
put_call(Export *x, ExportPlan *p, const ExportPlan *body, int flow, const char *margin, Text *out)
{
    int block = p->block[p->plan->nslots + p->plan->nlaunches + flow];
    text_add(out, "%sif (steps%d(%sq, %s, threads)) {\n%s    return 1;\n%s}\n", margin,
             body->number, size_params(x, body, false), block < 0 ? "work" : block_c(x, p, block),
             margin, margin);
}

/* ---- loops ---- */

/* Row `step` of what is stacked in `all`. */
static void
put_row(Export *x, ExportPlan *body, int param, const char *all, Text *out)
{
    text_add(out, "            q[%d] = (char *)(%s) + step * (%s);\n", param, all,
             slot_bytes_c(x, body, param));
}

static void
put_begin(Export *x, ExportPlan *p, const Flow *flow, ExportPlan *body, Text *out)
{
    int nparams = flow->bodies[0].nparams;
    text_add(out, "        void *q[%d] = {NULL};\n        int64_t step = 0;\n",
             body->plan->nparams);
    text_add(out, "        unsigned char go = 1;\n        q[0] = &step;\n");
    if (flow->whiles) {
        text_add(out, "        go = *(const unsigned char *)(%s);\n", slot_c(x, p, flow->args[0]));
        text_add(out, "        q[%d] = &go;\n", nparams);
    }
    for (int k = 0; k < flow->nargs - flow->whiles; k++) {
        if (k < flow->carries || k >= flow->carries + flow->rows) {
            text_add(out, "        q[%d] = %s;\n", 1 + k,
                     slot_c(x, p, flow->args[flow->whiles + k]));
        }
    }
    for (int k = 0; k < flow->carries; k++) {
        if (flow->other[k] == flow->res[k]) {
            const char *place = slot_c(x, p, flow->res[k]);
            put_move(out, "        ", place, cx_format(x->cx, "q[%d]", 1 + k),
                     slot_bytes_c(x, body, 1 + k));
            text_add(out, "        q[%d] = %s;\n", 1 + k, place);
        }
    }
}

/* Where the step finds its rows and writes. */
static void
put_addresses(Export *x, ExportPlan *p, const Flow *flow, ExportPlan *body, Text *out)
{
    int places = flow->bodies[0].nparams + flow->whiles;
    for (int k = 0; k < flow->rows; k++) {
        put_row(x, body, 1 + flow->carries + k,
                slot_c(x, p, flow->args[flow->whiles + flow->carries + k]), out);
    }
    for (int k = 0; k < flow->carries; k++) {
        const char *first = slot_c(x, p, flow->res[k]), *second = slot_c(x, p, flow->other[k]);
        if (strcmp(first, second) == 0) {
            text_add(out, "            q[%d] = %s;\n", places + k, first);
        } else {
            text_add(out, "            q[%d] = %s %% 2 ? (char *)(%s) : (char *)(%s);\n",
                     places + k, flow->counted ? "(steps - step)" : "(step + 1)", first, second);
        }
    }
    for (int k = flow->carries; k < flow->nres; k++) {
        put_row(x, body, places + k, slot_c(x, p, flow->res[k]), out);
    }
}

static void
put_loop(Export *x, ExportPlan *p, int at, Text *out)
{
    const Flow *flow = &p->plan->flows[at];
    ExportPlan *body = plan_of_body(x, &flow->bodies[0]);
    int places = flow->bodies[0].nparams + flow->whiles;
    text_add(out, "    {\n        const int64_t steps = %s;\n",
             flow->counted ? size_c(x, p, flow->steps) : "INT64_MAX");
    put_begin(x, p, flow, body, out);
    text_add(out, "        for (; go && step < steps; step++) {\n");
    put_addresses(x, p, flow, body, out);
    put_call(x, p, body, at, "            ", out);
    for (int k = 0; k < flow->carries; k++) {
        text_add(out, "            q[%d] = q[%d];\n", 1 + k, places + k);
    }
    text_add(out, "        }\n");
    for (int k = 0; k < flow->carries; k++) {
        put_move(out, "        ", slot_c(x, p, flow->res[k]), cx_format(x->cx, "q[%d]", 1 + k),
                 slot_bytes_c(x, body, 1 + k));
    }
    text_add(out, "    }\n");
}

/* ---- branches ---- */

static void
put_side(Export *x, ExportPlan *p, int at, int side, Text *out)
{
    const Flow *flow = &p->plan->flows[at];
    ExportPlan *body = plan_of_body(x, &flow->bodies[side]);
    text_add(out, "        void *q[] = {");
    for (int k = 1; k < flow->nargs; k++) {
        text_add(out, "%s, ", slot_c(x, p, flow->args[k]));
    }
    for (int k = 0; k < flow->nres; k++) {
        text_add(out, "%s, ", slot_c(x, p, flow->res[k]));
    }
    text_add(out, "NULL};\n");
    for (int k = 0; k < flow->nres; k++) {
        int kept = flow->bodies[side].kept[k];
        if (kept >= 0) {
            const char *place = slot_c(x, p, flow->res[k]);
            put_move(out, "        ", place, cx_format(x->cx, "q[%d]", kept),
                     slot_bytes_c(x, body, kept));
            text_add(out, "        q[%d] = %s;\n", kept, place);
        }
    }
    put_call(x, p, body, at, "        ", out);
}

void
put_flow(Export *x, ExportPlan *p, int step, Text *out)
{
    int at = p->plan->steps[step].flow;
    const Flow *flow = &p->plan->flows[at];
    if (flow->loops) {
        put_loop(x, p, at, out);
        return;
    }
    text_add(out, "    if (*(const unsigned char *)(%s)) {\n", slot_c(x, p, flow->args[0]));
    put_side(x, p, at, 0, out);
    text_add(out, "    } else {\n");
    put_side(x, p, at, 1, out);
    text_add(out, "    }\n");
}
