/* loop and branch: Loop and If, whose bodies see the values around them. */
#include "out.h"

/* What is at hand around a body. */
typedef struct {
    OutGraph *graph;
    const Fn *fn;
    Place *places;
    int nsizes;
} Around;

static OutGraph *
open_body(Out *o, const Fn *body, Around *around)
{
    *around = (Around){o->graph, o->fn, o->places, o->nsizes};
    o->graph = cx_alloc(o->cx, sizeof *o->graph);
    o->fn = body;
    o->places = cx_alloc(o->cx, (size_t)body->nvalues * sizeof *o->places);
    for (int k = 0; k < body->nvalues; k++) {
        o->places[k] = (Place){-1, -1};
    }
    return o->graph;
}

/* What a body computes, sizes too, is seen in it alone. */
static void
close_body(Out *o, const Around *around)
{
    o->graph = around->graph;
    o->fn = around->fn;
    o->places = around->places;
    o->nsizes = around->nsizes;
}

static void
is_param(Out *o, const Value *param, int number)
{
    o->places[param->id] = (Place){number, number};
}

static void
results(Out *o, OutNode *node)
{
    for (int k = 0; k < o->let->nres; k++) {
        int number = out_new(o, node, k, o->let->res[k]->type);
        o->places[o->let->res[k]->id] = (Place){number, number};
    }
}

void
out_branch(Out *o)
{
    OutGraph *bodies[2];
    int *args = cx_alloc(o->cx, (size_t)o->let->nargs * sizeof *args);
    for (int k = 0; k < o->let->nargs; k++) {
        args[k] = out_arg(o, k);
    }
    for (int j = 0; j < 2; j++) {
        Around around;
        const Fn *body = o->let->bodies[j];
        bodies[j] = open_body(o, body, &around);
        for (int k = 0; k < body->nparams; k++) {
            is_param(o, body->params[k], args[k + 1]);
        }
        out_body(o, body);
        close_body(o, &around);
    }
    OutNode *node = out_any(o, "If", 1, args, o->let->nres);
    node->bodies[0] = bodies[0];
    node->bodies[1] = bodies[1];
    results(o, node);
}

void
out_loop(Out *o)
{
    Loop loop = let_loop(o->let);
    Cx *cx = o->cx;
    if (o->let->nsizes) {
        out_refuse(o, "how many rows it makes is not known before it runs");
    }
    int n = loop.carries + loop.rows + loop.stays, first = loop.whiles;
    int *args = cx_alloc(cx, (size_t)(n + 3) * sizeof *args);
    for (int k = 0; k < n; k++) {
        args[k] = o->places[loop_arg(&loop, k)->id].whole;
    }
    int *in = cx_alloc(cx, (size_t)(loop.carries + 3) * sizeof *in);
    in[0] = loop.counted ? out_one(o, loop.steps) : -1;
    in[1] = first ? out_arg(o, 0) : -1;
    for (int k = 0; k < loop.carries; k++) {
        in[2 + k] = args[k];
    }
    Around around;
    OutGraph *body = open_body(o, loop.body, &around);
    int step = out_input(o, "step", type_scalar(cx, DT_i64));
    int go = out_input(o, "more", type_scalar(cx, DT_bool));
    is_param(o, loop.body->params[0], step);
    for (int k = 0; k < n; k++) {
        const Value *param = loop_param(&loop, k);
        int number = args[k];
        if (k < loop.carries) {
            number = out_input(o, param->name, param->type);
        } else if (k < loop.carries + loop.rows) {
            int row[] = {args[k], step};
            number = out_node(o, "Gather", param->type, 2, row, out_int("axis", 0));
        }
        is_param(o, param, number);
    }
    if (!first) {
        out_give(o, go);
    }
    out_body(o, loop.body);
    close_body(o, &around);
    OutNode *node = out_any(o, "Loop", 2 + loop.carries, in, o->let->nres);
    node->bodies[0] = body;
    results(o, node);
}
