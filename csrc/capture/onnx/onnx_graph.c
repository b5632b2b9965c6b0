/* The nodes of a graph, and bodies of If, Loop and Scan: functions of the language.
 *
 * A value has one number in the whole model.  In a body, the values around it that its nodes read
 * are its last parameters: while it is built, their numbers stand for these. */
#include "onnx.h"

#include <string.h>

/* ---- nodes ---- */

typedef struct {
    Onnx *o;
    const OnnxNode *node;
    const OnnxRow *row;
} Step;

static void
step(Cx *cx, void *arg)
{
    Step *s = arg;
    (void)cx;
    onnx_build(s->o, s->node, s->row);
}

/* Gemm 'fc1' (version 13): why */
static void
is_wrong(Onnx *o, const OnnxNode *node, const char *why)
{
    if ((*o->nwrong)++ < MAX_SHOWN) {
        text_add(o->wrong, "%s%s%s%s%s%s of opset %d%s%s", *o->nwrong > 1 ? "; " : "", node->domain,
                 *node->domain ? "." : "", node->op, *node->name ? " " : "", node->name,
                 node->version, *why ? ": " : "", why);
    }
}

/* Does it read what a node before it should have made? */
static bool
is_cut(const Onnx *o, const OnnxNode *node)
{
    for (int k = 0; k < node->ninputs; k++) {
        if (node->inputs[k] >= 0 && !o->values[node->inputs[k]]) {
            return true;
        }
    }
    return false;
}

void
onnx_nodes(Onnx *o, const OnnxGraph *g)
{
    for (int k = 0; k < g->nnodes; k++) {
        const OnnxNode *node = &g->nodes[k];
        Step s = {o, node, onnx_find(node)};
        if (!s.row) {
            is_wrong(o, node, "");
            continue;
        }
        if (is_cut(o, node)) {
            continue;
        }
        Onnx before = *o;
        int nwrong = *o->nwrong;
        build_at(o->b, (Loc){*node->name ? node->name : node->op, NULL});
        cx_set_loc(o->cx, (Loc){0});
        if (!cx_try(o->cx, step, &s)) {
            *o = before; /* it may have failed in a body */
            if (cx_diag(o->cx)->code == DIAG_MEMORY) {
                fail_again(o->cx);
            }
            if (*o->nwrong == nwrong) { /* else nodes of its body are named */
                is_wrong(o, node, cx_diag(o->cx)->message);
            }
        }
        o->node = before.node;
        o->row = before.row;
        o->in = before.in;
        o->out = before.out;
    }
}

const OnnxGraph *
onnx_graph(Onnx *o, const char *name)
{
    const OnnxAttr *a = onnx_attr(o, name);
    if (!a || a->kind != ONNX_GRAPH) {
        onnx_refuse(o, "it lacks the attribute %s", name);
    }
    return a->graph;
}

/* ---- bodies ---- */

void
onnx_body_open(Onnx *o, OnnxBody *body)
{
    *body = (OnnxBody){.outer = *o};
    body->values = cx_copy(o->cx, o->values, (size_t)(o->nvalues + 1) * sizeof *o->values);
    o->values = cx_copy(o->cx, o->values, (size_t)(o->nvalues + 1) * sizeof *o->values);
    o->fn = fn_new(o->cx, "body", STAGE_GRAPH);
    o->b = build_new(o->fn);
    o->contents = NULL;
    o->ncontents = 0;
    o->knowledge = NULL;
    build_at(o->b, build_loc(body->outer.b));
}

Value *
onnx_body_param(Onnx *o, const char *name, const Type *t)
{
    return fn_param(o->fn, fn_fresh_name(o->fn, name), t, NULL);
}

Value *
onnx_body_stay(Onnx *o, OnnxBody *body, Value *v)
{
    if (v->def && v->def->op == OP_const) {
        return build_const(o->b, v->type, v->def->args[0]->literal);
    }
    const Known *known = onnx_known(&body->outer, v);
    for (int k = 0; k < body->nstays; k++) {
        if (body->stays[k] == v) {
            return o->fn->params[o->fn->nparams - body->nstays + k];
        }
    }
    Value *param = onnx_body_param(o, v->name, v->type);
    if (known) {
        onnx_know_param(o, param, known);
    }
    body->stays = cx_grow(o->cx, body->stays, body->nstays, sizeof *body->stays);
    body->stays[body->nstays++] = v;
    return param;
}

static void
take_values(Onnx *o, OnnxBody *body, const OnnxGraph *g)
{
    for (int k = 0; k < g->nnodes; k++) {
        const OnnxNode *node = &g->nodes[k];
        for (int i = 0; i < node->ninputs; i++) {
            int at = node->inputs[i];
            if (at >= 0 && body->values[at] && o->values[at] == body->values[at]) {
                o->values[at] = onnx_body_stay(o, body, body->values[at]);
            }
        }
        for (int a = 0; a < node->nattrs; a++) {
            if (node->attrs[a].kind == ONNX_GRAPH) {
                take_values(o, body, node->attrs[a].graph);
            }
        }
    }
    for (int k = 0; k < g->noutputs; k++) {
        int at = g->outputs[k];
        if (body->values[at] && o->values[at] == body->values[at]) {
            o->values[at] = onnx_body_stay(o, body, body->values[at]);
        }
    }
}

bool
onnx_body_nodes(Onnx *o, OnnxBody *body, const OnnxGraph *g, Value **rets)
{
    int nwrong = *o->nwrong;
    take_values(o, body, g);
    onnx_nodes(o, g);
    for (int k = 0; k < g->noutputs; k++) {
        rets[k] = o->values[g->outputs[k]];
        if (!rets[k]) {
            return false;
        }
    }
    return *o->nwrong == nwrong;
}

Fn *
onnx_body_close(Onnx *o, OnnxBody *body, int nrets, Value *const *rets)
{
    Fn *fn = o->fn;
    if (rets) {
        fn_results(fn, nrets, rets, NULL);
        fn_free_sizes(fn);
    }
    *o = body->outer;
    return fn;
}

Value *
onnx_truth(Onnx *o, Value *v)
{
    int64_t n;
    if (!dim_is_int(o->cx, type_numel(o->cx, v->type), &n) || n != 1) {
        onnx_refuse(o, "its condition is not one number");
    }
    v = build_reshape(o->b, v, 0, NULL);
    return v->type->dtype == DT_bool ? v : build_map(o->b, OP_ne, v, build_int(o->b, 0), NULL);
}

/* ---- loops ---- */

/* A size that a call finds: its name occurs nowhere else, as bodies have names of their own. */
static Dim
bound_size(Onnx *o)
{
    const char *name;
    do {
        name = cx_format(o->cx, "K%d", (*o->nbound)++);
    } while (!fn_take_name(o->fn, name));
    Dim d = dim_size(o->cx, name);
    dim_declare(o->cx, d, (Range){0, DIM_INF}, 1);
    return d;
}

Let *
onnx_loop(Onnx *o, const OnnxLoop *loop, Fn *body, int nargs, Value *const *args)
{
    bool whiles = loop->steps == DIM_NONE;
    const Attr attrs[] = {attr_int(o->cx, "carries", loop->carries),
                          attr_int(o->cx, "rows", loop->rows), attr_int(o->cx, "while", whiles),
                          attr_dims(o->cx, "steps", !whiles, &loop->steps)};
    int nres = body->body->nrets - whiles;
    const Type **types = cx_alloc(o->cx, (size_t)(nres + 1) * sizeof *types);
    Dim steps = !whiles ? loop->steps : nres == loop->carries ? DIM_NONE : bound_size(o);
    for (int k = 0; k < nres; k++) {
        const Type *t = body->body->rets[k + whiles]->type;
        if (k >= loop->carries && t->rank == MAX_RANK) {
            onnx_refuse(o, "the rows of its result %d have %d axes", k + 1, MAX_RANK);
        }
        types[k] = k < loop->carries ? t : type_of_rows(o->cx, t, steps);
    }
    Value **all = cx_alloc(o->cx, (size_t)(nargs + 2) * sizeof *all);
    all[0] = loop->go;
    memcpy(all + whiles, args, (size_t)nargs * sizeof *all);
    Let *let = build_let(o->b, OP_loop, nargs + whiles, all, attrs, NULL, nres, types, NULL);
    let_bodies(o->cx, let, 1, &body);
    if (whiles && steps != DIM_NONE) {
        let->sizes = cx_grow(o->cx, let->sizes, let->nsizes, sizeof(Dim));
        let->sizes[let->nsizes++] = steps;
    }
    return let;
}

void
onnx_first_rows(Onnx *o, Value *count, int n, Value *const *rows, Value **out)
{
    OnnxBody body;
    Value **rets = cx_alloc(o->cx, (size_t)(n + 1) * sizeof *rets);
    Value *go = build_map(o->b, OP_gt, count, build_int(o->b, 0), NULL);
    onnx_body_open(o, &body);
    Value *at = onnx_body_param(o, "step", type_scalar(o->cx, DT_i64));
    Value *next = build_map(o->b, OP_add, at, build_int(o->b, 1), NULL);
    Dim one = dim_int(o->cx, 1);
    rets[0] = build_map(o->b, OP_lt, next, onnx_body_stay(o, &body, count), NULL);
    for (int k = 0; k < n; k++) {
        Value *of = onnx_body_stay(o, &body, rows[k]);
        Value *row = build_gather(o->b, of, build_reshape(o->b, at, 1, &one), 0, INDEX_FROM_START);
        rets[k + 1] = build_reshape(o->b, row, of->type->rank - 1, of->type->dims + 1);
    }
    Fn *fn = onnx_body_close(o, &body, n + 1, rets);
    Let *let = onnx_loop(o, &(OnnxLoop){.steps = DIM_NONE, .go = go}, fn, body.nstays, body.stays);
    memcpy(out, let->res, (size_t)n * sizeof *out);
}
