/* Control flow: torch.cond, while_loop, scan, map and associative_scan as loops and branches.
 *
 * What:     a node of these operators becomes a `branch` or a `loop`; the graphs that it is given
 *           become its bodies.
 * Requires: a graph of overloads.  The joint graph of training keeps such nodes as they are: it is
 *           cut between nodes.
 * How:      each graph is walked as a graph of its own, in the same context, so that sizes have one
 *           name.  Placeholders are the operands, in order.  The condition of a while_loop is
 *           computed before the loop, for the first step, and at the end of each step, for the
 *           next.
 * Ensures:  where something is not as a loop or a branch needs it (an integer of Python that is
 *           carried, results whose sizes the bodies do not agree on), nothing has been built and
 *           the node is a call, which runs its graphs as plans of their own (dlc/bodies.py).
 * Example:  torch.cond(p, f, g, (x,)) is let y: f32[N] = branch p, x (x: f32[N]) { .. } else { .. }
 */
#include "walk.h"

#include <string.h>

/* The walk over a graph that is an operand, such as the body of a loop. */
typedef struct {
    Walk walk;
    Captured *captured;
    Fn *fn;
    int nargs;                  /* tensors among the operands */
    Value **args;
} BodyWalk;

static void
walk_body(Cx *cx, void *walk)
{
    (void)cx;
    walk_nodes(walk);
}

/* What a graph has captured is given back once its lets have been taken; after an error, which may
 * end the walk at any place, when the context is freed. */
static void
drop_captured(void *captured)
{
    PyObject *type, *value, *trace;             /* releasing may run any code */
    PyErr_Fetch(&type, &value, &trace);
    captured_clear(captured);
    PyErr_Restore(type, value, trace);
}

static void
bodies_drop(const BodyWalk *in, int n)
{
    for (int k = 0; k < n; k++) {
        drop_captured(in[k].captured);
    }
}

/* Walks the graph; false: it cannot be taken.  An error that is no refusal ends the outer walk.
 * Calls of both programs may be merged, so their objects have one numbering. */
static bool
body_open(Walk *w, PyObject *gm, BodyWalk *in)
{
    Loc loc = build_loc(w->b);
    *in = (BodyWalk){.walk = {.cx = w->cx,
                              .gm = gm,
                              .inference = w->inference,
                              .bodies = w->bodies,
                              .products = w->products,
                              .objects = w->objects,
                              .nobjects = w->nobjects,
                              .inner = true}};
    in->captured = in->walk.out = cx_alloc(w->cx, sizeof *in->captured);
    cx_cleanup(w->cx, drop_captured, in->captured);
    for (int k = 0; k < w->nsizes; k++) {
        size_add(&in->walk, w->sizes[k]);
    }
    int status = walk_try(&in->walk, walk_body);
    build_at(w->b, loc);        /* what fails from here on fails at this node again */
    w->objects = in->walk.objects;
    w->nobjects = in->walk.nobjects;
    if (status < 0 && !PyErr_ExceptionMatches(dlc_CaptureError)) {
        python_failed(w);
    }
    PyErr_Clear();
    in->fn = in->captured->fn;
    return status == 0;
}

/* ---- operands and results of a graph ---- */

static bool
takes_operand(BodyWalk *in, int k, const Arg *arg)
{
    const InputSpec *spec = &in->captured->inputs[k];
    const Arg *inside = &in->walk.bound[k].arg;
    if (arg->kind == ARG_TENSOR) {
        in->args[in->nargs++] = arg->v;
        return spec->kind == INPUT_TENSOR && !spec->lazy;
    }
    bool number = arg->kind == ARG_INT || arg->kind == ARG_BOOL;
    return inside->kind == arg->kind &&
           ((number && inside->i == arg->i) || (arg->kind == ARG_DIM && inside->d == arg->d));
}

/* Are its placeholders these operands, tensors and sizes?  A call in it may want them as they lie
 * in eager: a body has them dense. */
static bool
takes(Walk *w, BodyWalk *in, int n, const Arg *operands)
{
    bool fits = in->captured->ninputs == n;
    in->args = cx_alloc(w->cx, ((size_t)n + 1) * sizeof *in->args);
    for (int k = 0; k < n && fits; k++) {
        fits = takes_operand(in, k, &operands[k]);
    }
    for (int k = 0; k < in->fn->nparams && fits; k++) {
        fits = !in->fn->params[k]->strides || in->captured->nsites == 0;
        in->fn->params[k]->strides = NULL;
    }
    return fits;
}

/* The outputs become the results: of a body they are values, whoever shares their memory. */
static bool
gives_tensors(Walk *w, BodyWalk *in)
{
    int n = in->captured->noutputs;
    bool fits = true;
    Value **rets = cx_alloc(w->cx, ((size_t)n + 1) * sizeof *rets);
    for (int k = 0; k < in->fn->body->nrets; k++) {
        fits &= in->fn->results[k].kind != RESULT_INTO;
    }
    for (int k = 0; k < n && fits; k++) {
        const OutputSpec *out = &in->captured->outputs[k];
        fits = out->kind == OUTPUT_TENSOR;
        rets[k] = fits ? in->fn->body->rets[out->index] : NULL;
        fits = fits && !value_is_const(rets[k]);
    }
    if (fits) {
        fn_results(in->fn, n, rets, NULL);
    }
    return fits;
}

static Fn *
finish(BodyWalk *in)
{
    fn_free_sizes(in->fn);
    return in->fn;
}

/* The type of result k of the node; NULL: it is no tensor. */
static const Type *
made_type(Walk *w, const Bound *at, int k)
{
    bool many = PyTuple_Check(at->val) || PyList_Check(at->val);
    Py_ssize_t n = many ? PySequence_Fast_GET_SIZE(at->val) : 0;
    PyObject *val = k < n ? PySequence_Fast_GET_ITEM(at->val, k) : NULL;
    return is_a(val, py.Tensor) ? tensor_type(w, val) : NULL;
}

static int
count_made(const Bound *at)
{
    bool many = PyTuple_Check(at->val) || PyList_Check(at->val);
    return many ? (int)PySequence_Fast_GET_SIZE(at->val) : -1;
}

/* The results are those of the let from here on. */
static void
bind(Walk *w, Bound *at, const Let *let)
{
    Arg *items = cx_alloc(w->cx, ((size_t)let->nres + 1) * sizeof *items);
    for (int k = 0; k < let->nres; k++) {
        items[k] = (Arg){.kind = ARG_TENSOR, .v = let->res[k]};
    }
    at->arg = (Arg){.kind = ARG_LIST, .n = let->nres, .items = items};
}

/* The operands, attributes and bodies from which a let is built. */
typedef struct {
    Op op;
    const Attr *attrs;
    int nargs, nres, nbodies;
    Value **args;
    const Type **types;
    Fn *bodies[2];
} Parts;

static void
add_flow(Walk *w, Bound *at, const Parts *p)
{
    Let *let = build_let(w->b, p->op, p->nargs, p->args, p->attrs, NULL, p->nres, p->types, NULL);
    let_bodies(w->cx, let, p->nbodies, p->bodies);
    bind(w, at, let);
}

/* Positions of arguments: a GraphModule; a list or tuple of operands; one operand. */
static PyObject *
graph_at(Walk *w, const Bound *at, int k)
{
    PyObject *args = attr(w, at->node, py.name.args);
    PyObject *o = k < PyTuple_Size(args) ? PyTuple_GET_ITEM(args, k) : NULL;
    const Bound *b = is_a(o, py.Node) ? bound_of(w, o) : NULL;
    return b && is_a(b->val, py.GraphModule) ? b->val : NULL;
}

static Arg
argument_at(Walk *w, const Bound *at, int k)
{
    PyObject *args = attr(w, at->node, py.name.args);
    return k < PyTuple_Size(args) ? arg_of(w, PyTuple_GET_ITEM(args, k)) : (Arg){.kind = ARG_NONE};
}

/* Concatenates the lists. */
static const Arg *
joined(Walk *w, int nlists, const Arg *lists, int *n)
{
    *n = 0;
    for (int k = 0; k < nlists; k++) {
        *n += lists[k].kind == ARG_LIST ? lists[k].n : 0;
    }
    Arg *all = cx_alloc(w->cx, ((size_t)*n + 1) * sizeof *all);
    for (int k = 0, at = 0; k < nlists; k++) {
        for (int j = 0; lists[k].kind == ARG_LIST && j < lists[k].n; j++) {
            all[at++] = lists[k].items[j];
        }
    }
    return all;
}

static bool
are_tensors(const Arg *list)
{
    bool all = list->kind == ARG_LIST;
    for (int k = 0; all && k < list->n; k++) {
        all = list->items[k].kind == ARG_TENSOR;
    }
    return all;
}

/* Is it one real number, which is 0 or not? */
static bool
has_truth(Cx *cx, const Value *v)
{
    int64_t n;
    return dim_is_int(cx, type_numel(cx, v->type), &n) && n == 1 &&
           dtype_info[v->type->dtype].class < CLASS_COMPLEX;
}

/* Is the value, which has_truth, not 0?  As a scalar bool. */
static Value *
truth(Build *b, Value *v)
{
    Value *scalar = v->type->rank ? build_reshape(b, v, 0, NULL) : v;
    return v->type->dtype == DT_bool ? scalar : build_map(b, OP_ne, scalar, build_int(b, 0), NULL);
}

/* ---- cond(p, yes, no, operands) ---- */

/* Do both bodies return the types of the node?  A size that only one branch knows does not count as
 * equal. */
static bool
same_types(Walk *w, const Bound *at, const BodyWalk *in)
{
    int n = count_made(at);
    bool same = in[0].fn->body->nrets == n && in[1].fn->body->nrets == n && n > 0;
    for (int k = 0; k < n && same; k++) {
        const Type *t = made_type(w, at, k);
        same = t && t == in[0].fn->body->rets[k]->type && t == in[1].fn->body->rets[k]->type;
    }
    for (int k = 0; k < 2; k++) {
        for (int j = 0; j < in[k].nargs && same; j++) {
            same = in[k].args[j]->type == in[k].fn->params[j]->type;
        }
    }
    return same;
}

static bool
take_cond(Walk *w, Bound *at, BodyWalk *in, int *open)
{
    Arg operands = argument_at(w, at, 3), asked = argument_at(w, at, 0);
    bool fits = operands.kind == ARG_LIST;
    for (int k = 0; k < 2 && fits; k++) {
        PyObject *gm = graph_at(w, at, 1 + k);
        fits = gm && body_open(w, gm, &in[k]);
        *open += fits;
        fits = fits && takes(w, &in[k], operands.n, operands.items) && gives_tensors(w, &in[k]);
    }
    if (!fits || !same_types(w, at, in) || asked.kind != ARG_TENSOR || !has_truth(w->cx, asked.v)) {
        return false;
    }
    Parts p = {.op = OP_branch, .nres = count_made(at), .nbodies = 2};
    int n = in[0].nargs;
    p.nargs = 1 + n;
    p.args = cx_alloc(w->cx, ((size_t)n + 1) * sizeof *p.args);
    p.types = cx_alloc(w->cx, ((size_t)p.nres + 1) * sizeof *p.types);
    p.args[0] = truth(w->b, asked.v);
    memcpy(p.args + 1, in[0].args, (size_t)n * sizeof *p.args);
    for (int k = 0; k < p.nres; k++) {
        p.types[k] = in[0].fn->body->rets[k]->type;
    }
    for (int k = 0; k < 2; k++) {
        sites_take(w, &in[k].walk);
        p.bodies[k] = finish(&in[k]);
    }
    add_flow(w, at, &p);
    return true;
}

/* ---- loops ---- */

/* The number of the step, which these operators do not ask for, is the first parameter. */
static void
add_step(Fn *fn)
{
    Value *step = fn_param(fn, fn_fresh_name(fn, "step"), type_scalar(fn->cx, DT_i64), NULL);
    for (int k = fn->nparams - 1; k > 0; k--) {
        fn->params[k] = fn->params[k - 1];
        fn->params[k]->result = k;
    }
    fn->params[0] = step;
    step->result = 0;
}

/* The calls of the body are the program's already.  go: NULL, or whether there is a first step. */
static void
build_loop(Walk *w, Bound *at, BodyWalk *in, const Attr *attrs, Value *go, const Type **types)
{
    Parts p = {.op = OP_loop, .attrs = attrs, .types = types, .nbodies = 1};
    p.nres = in->fn->body->nrets - (go != NULL);
    p.args = cx_alloc(w->cx, ((size_t)in->nargs + 2) * sizeof *p.args);
    if (go) {
        p.args[p.nargs++] = go;
    }
    memcpy(p.args + p.nargs, in->args, (size_t)in->nargs * sizeof *p.args);
    p.nargs += in->nargs;
    add_step(in->fn);
    p.bodies[0] = finish(in);
    add_flow(w, at, &p);
}

/* Have the carried operands, the first ones, the types of the parameters, and of what the body
 * returns from its result `first` on? */
static bool
carries_fit(const BodyWalk *in, int carries, int first)
{
    bool fits = in->fn->body->nrets >= first + carries && in->nargs >= carries;
    for (int k = 0; k < carries && fits; k++) {
        const Type *t = in->args[k]->type;
        fits = in->fn->params[k]->type == t && in->fn->body->rets[first + k]->type == t;
    }
    return fits;
}

/* Have the operands from `from` on the types of the parameters? */
static bool
stays_fit(const BodyWalk *in, int from)
{
    bool fits = true;
    for (int k = from; k < in->nargs && fits; k++) {
        fits = in->fn->params[k]->type == in->args[k]->type;
    }
    return fits;
}

/* The lets of a function in another one, for these arguments, and the value that it returns.  The
 * function's bodies belong to these lets from then on. */
static Value *
inlined(Build *b, const Fn *fn, Value *const *args)
{
    Value **map = cx_alloc(fn->cx, ((size_t)fn->nvalues + 1) * sizeof *map);
    for (int k = 0; k < fn->nparams; k++) {
        map[fn->params[k]->id] = args[k];
    }
    for (int k = 0; k < fn->body->n; k++) {
        build_again(b, fn->body->lets[k], map);
    }
    return map[fn->body->rets[0]->id];
}

/* May it be computed at two places, and say whether a loop goes on?  A size has one place. */
static bool
may_inline(const Fn *fn)
{
    bool may = fn->body->nrets == 1 && has_truth(fn->cx, fn->body->rets[0]);
    for (int k = 0; k < fn->body->n; k++) {
        may &= fn->body->lets[k]->nsizes == 0;
    }
    return may;
}

/* Appends the condition to the body: at the end of a step, it is computed from the next carried
 * values. */
static void
add_condition(BodyWalk *body, const Fn *cond, int carries)
{
    Fn *fn = body->fn;
    int n = fn->body->nrets;
    Value **args = cx_alloc(fn->cx, ((size_t)fn->nparams + 1) * sizeof *args);
    Value **rets = cx_alloc(fn->cx, ((size_t)n + 1) * sizeof *rets);
    for (int k = 0; k < fn->nparams; k++) {
        args[k] = k < carries ? fn->body->rets[k] : fn->params[k];
    }
    Build *b = build_new(fn);
    rets[0] = truth(b, inlined(b, cond, args));
    memcpy(rets + 1, fn->body->rets, (size_t)n * sizeof *rets);
    fn_results(fn, n + 1, rets, NULL);
}

/* Opens the graphs of while_loop(cond, body, carried, others); their types are written to *types;
 * -1: they are no loop's, else how many values are carried. */
static int
open_while(Walk *w, const Bound *at, BodyWalk *in, int *open, const Type ***types)
{
    Arg lists[] = {argument_at(w, at, 2), argument_at(w, at, 3)};
    int n, carries = lists[0].n;
    const Arg *operands = joined(w, 2, lists, &n);
    bool fits = are_tensors(&lists[0]);
    for (int k = 0; k < 2 && fits; k++) {
        PyObject *gm = graph_at(w, at, k);
        fits = gm && body_open(w, gm, &in[k]);
        *open += fits;
        fits = fits && takes(w, &in[k], n, operands) && gives_tensors(w, &in[k]);
    }
    if (!fits || !may_inline(in[0].fn) || !carries_fit(&in[1], carries, 0) ||
        !stays_fit(&in[1], carries) || !stays_fit(&in[0], 0) || in[1].fn->body->nrets != carries ||
        count_made(at) != carries) {
        return -1;
    }
    *types = cx_alloc(w->cx, 2 * ((size_t)carries + 1) * sizeof **types);
    for (int k = 0; k < carries; k++) {
        (*types)[k] = in[1].args[k]->type;
    }
    return carries;
}

/* Before the condition stands at two places: a call gets its number in the program once. */
static Value *
first_condition(Walk *w, BodyWalk *in, Fn **again)
{
    Loc loc = build_loc(w->b);
    for (int k = 0; k < 2; k++) {
        sites_take(w, &in[k].walk);
    }
    *again = fn_clone(in[0].fn);
    Value *go = truth(w->b, inlined(w->b, in[0].fn, in[1].args));
    build_at(w->b, loc);
    return go;
}

static bool
take_while(Walk *w, Bound *at, BodyWalk *in, int *open)
{
    const Type **types;
    Fn *again;
    int carries = open_while(w, at, in, open, &types);
    bool fits = carries >= 0;
    for (int k = 0; k < carries; k++) {
        fits = fits && made_type(w, at, k) == types[k];
    }
    if (!fits) {
        return false;
    }
    Value *go = first_condition(w, in, &again);
    add_condition(&in[1], again, carries);
    const Attr attrs[] = {attr_int(w->cx, "carries", carries), attr_int(w->cx, "rows", 0),
                          attr_int(w->cx, "while", 1), attr_dims(w->cx, "steps", 0, NULL)};
    build_loop(w, at, &in[1], attrs, go, types);
    return true;
}

/* ---- while_loop_stack_output ---- */

/* Its rows are what each step makes or, if there is none, one: what the first would have read. */

/* The first n parameters of a function like this one. */
static Fn *
unchanged(const Fn *like, int n)
{
    Fn *fn = fn_new(like->cx, like->name, STAGE_GRAPH);
    for (int k = 0; k < like->nparams; k++) {
        fn_param(fn, fn_fresh_name(fn, "x"), like->params[k]->type, NULL);
    }
    fn_results(fn, n, fn->params, NULL);
    fn_free_sizes(fn);
    return fn;
}

/* A step: the body if `go` is true, and whether there is another step. */
static Fn *
stacking_step(BodyWalk *body, const Fn *cond, int n, const Type **types)
{
    Fn *inside = finish(body), *fn = fn_new(inside->cx, inside->name, STAGE_GRAPH);
    int nargs = inside->nparams;
    Cx *cx = fn->cx;
    Value **args = cx_alloc(cx, ((size_t)nargs + 1) * sizeof *args);
    Value **rets = cx_alloc(cx, 2 * ((size_t)n + 1) * sizeof *rets);
    fn_param(fn, "step", type_scalar(cx, DT_i64), NULL);
    args[0] = fn_param(fn, "go", type_scalar(cx, DT_bool), NULL);
    for (int k = 0; k < nargs; k++) {
        args[1 + k] = fn_param(fn, fn_fresh_name(fn, "x"), inside->params[k]->type, NULL);
    }
    Build *b = build_new(fn);
    Let *made = build_let(b, OP_branch, 1 + nargs, args, NULL, NULL, n, types, NULL);
    Fn *bodies[] = {inside, unchanged(inside, n)};
    let_bodies(cx, made, 2, bodies);
    Value **asked = cx_copy(cx, args + 1, (size_t)nargs * sizeof *asked);
    memcpy(asked, made->res, (size_t)n * sizeof *asked);
    Value *more = truth(b, inlined(b, cond, asked));
    rets[0] = rets[1] = build_map(b, OP_bit_and, more, args[0], NULL);
    memcpy(rets + 2, made->res, (size_t)n * sizeof *rets);
    memcpy(rets + 2 + n, made->res, (size_t)n * sizeof *rets);
    fn_results(fn, 2 + 2 * n, rets, NULL);
    fn_free_sizes(fn);
    return fn;
}

static bool
take_stacking(Walk *w, Bound *at, BodyWalk *in, int *open)
{
    Cx *cx = w->cx;
    const Type **types;
    Fn *again;
    int n = open_while(w, at, in, open, &types);
    const Type *first = n > 0 ? made_type(w, at, 0) : NULL;
    Dim steps = first && first->rank ? first->dims[0] : DIM_NONE;
    bool fits = steps != DIM_NONE && dim_is_name(cx, steps) && !size_known(w, steps);
    const Type **made = cx_alloc(cx, 2 * ((size_t)n + 1) * sizeof *made);
    made[0] = type_scalar(cx, DT_bool);
    for (int k = 0; k < n && fits; k++) {
        made[1 + k] = types[k];
        fits = types[k]->rank < MAX_RANK;
        made[1 + n + k] = fits ? type_of_rows(cx, types[k], steps) : NULL;
        fits = fits && made_type(w, at, k) == made[1 + n + k];
    }
    if (!fits) {
        return false;
    }
    int nargs = in[1].nargs;
    Value **args = cx_alloc(cx, ((size_t)nargs + 2) * sizeof *args);
    args[1] = first_condition(w, in, &again);
    args[0] = build_const(w->b, made[0], (Literal){.is_int = true, .i = 1});
    memcpy(args + 2, in[1].args, (size_t)nargs * sizeof *args);
    Fn *body = stacking_step(&in[1], again, n, types);
    const Attr attrs[] = {attr_int(cx, "carries", 1 + n), attr_int(cx, "rows", 0),
                          attr_int(cx, "while", 1), attr_dims(cx, "steps", 0, NULL)};
    Let *let = build_let(w->b, OP_loop, 2 + nargs, args, attrs, NULL, 1 + 2 * n, made, NULL);
    let_bodies(cx, let, 1, &body);
    size_bind(w, let, steps);
    bind(w, at, let);
    at->arg = (Arg){.kind = ARG_LIST, .n = n, .items = at->arg.items + 1 + n};
    return true;
}

/* Rows of operands, and rows that the node says are stacked. */
static bool
rows_fit(Walk *w, const Bound *at, const BodyWalk *in, int carries, int rows, Dim *steps,
         const Type **types)
{
    bool fits = rows > 0 && count_made(at) == in->fn->body->nrets;
    for (int k = carries; k < carries + rows && fits; k++) {
        const Type *t = in->args[k]->type;
        *steps = k == carries && t->rank ? t->dims[0] : *steps;
        fits = t->rank && t->dims[0] == *steps && in->fn->params[k]->type == type_of_row(w->cx, t);
    }
    for (int k = 0; k < in->fn->body->nrets && fits; k++) {
        const Type *t = in->fn->body->rets[k]->type;
        fits = k < carries || t->rank < MAX_RANK;
        types[k] = k < carries || !fits ? t : type_of_rows(w->cx, t, *steps);
        fits = fits && made_type(w, at, k) == types[k];
    }
    return fits;
}

/* Of n lists of operands after the graph: carried values (if there are three), rows, others. */
static bool
take_rows(Walk *w, Bound *at, BodyWalk *in, int *open, int nlists)
{
    Arg lists[3];
    for (int k = 0; k < nlists; k++) {
        lists[k] = argument_at(w, at, 1 + k);
    }
    const Arg *rows = &lists[nlists - 2];
    int n, carries = nlists == 3 ? lists[0].n : 0;
    const Arg *operands = joined(w, nlists, lists, &n);
    PyObject *gm = graph_at(w, at, 0);
    if (!gm || !are_tensors(&lists[0]) || !are_tensors(rows) || !body_open(w, gm, in)) {
        return false;
    }
    *open = 1;
    if (!takes(w, in, n, operands) || !gives_tensors(w, in)) {
        return false;
    }
    int nres = in->fn->body->nrets;
    const Type **types = cx_alloc(w->cx, ((size_t)nres + 1) * sizeof *types);
    Dim steps = DIM_NONE;
    if (!carries_fit(in, carries, 0) || !rows_fit(w, at, in, carries, rows->n, &steps, types) ||
        !stays_fit(in, carries + rows->n)) {
        return false;
    }
    const Attr attrs[] = {attr_int(w->cx, "carries", carries), attr_int(w->cx, "rows", rows->n),
                          attr_int(w->cx, "while", 0), attr_dims(w->cx, "steps", 1, &steps)};
    sites_take(w, &in->walk);
    build_loop(w, at, in, attrs, NULL, types);
    return true;
}

/* ---- associative_scan(combine, rows, others) ---- */

/* The reduction that the function is, if a scan of it computes each element as eager does; else
 * OP_COUNT. */
static Op
scan_of(const BodyWalk *in)
{
    static const struct {
        Op map, red;
    } SCANS[] = {{OP_add, OP_sum},
                 {OP_mul, OP_prod},
                 {OP_maximum, OP_amax},
                 {OP_minimum, OP_amin},
                 {OP_logaddexp, OP_logaddexp}};
    const Block *body = in->fn->body;
    Value *const *p = in->fn->params;
    const Let *let = body->n == 1 && in->fn->nparams == 2 ? body->lets[0] : NULL;
    Dtype dtype = body->rets[0]->type->dtype;
    bool number = dtype_info[dtype].class == CLASS_INT || dtype_info[dtype].class == CLASS_FLOAT;
    if (!let || !number || dtype_info[dtype].compute != dtype || let->nargs != 2 ||
        body->rets[0] != let->res[0] ||
        !((let->args[0] == p[0] && let->args[1] == p[1]) ||
          (let->args[0] == p[1] && let->args[1] == p[0]))) {
        return OP_COUNT;
    }
    for (size_t k = 0; k < sizeof SCANS / sizeof *SCANS; k++) {
        if (SCANS[k].map == let->op) {
            return SCANS[k].red;
        }
    }
    return OP_COUNT;
}

/* Does it make a row of n of two times n, of tensors that have at least one? */
static bool
combines(Walk *w, const Bound *at, const BodyWalk *in, int n)
{
    bool fits = n > 0 && count_made(at) == n && in->fn->body->nrets == n && in->nargs >= 2 * n;
    Dim steps = fits && in->args[0]->type->rank ? in->args[0]->type->dims[0] : DIM_NONE;
    for (int k = 0; k < n && fits; k++) {
        const Type *t = in->args[k]->type, *made = made_type(w, at, k);
        const Type *row = t->rank ? type_of_row(w->cx, t) : NULL;
        fits = row && t->dims[0] == steps && dim_range(w->cx, steps).lo > 0 && made == t &&
               in->fn->params[k]->type == row && in->fn->params[n + k]->type == row &&
               in->fn->body->rets[k]->type == row;
    }
    return fits && stays_fit(in, 2 * n);
}

/* The first rows, and the n values of the loop over the others that are behind its carried ones. */
static void
bind_rows(Walk *w, Bound *at, int n, Value *const *first)
{
    Arg *items = cx_alloc(w->cx, ((size_t)n + 1) * sizeof *items);
    for (int k = 0; k < n; k++) {
        Value *parts[] = {first[k], at->arg.items[n + k].v};
        items[k] = (Arg){.kind = ARG_TENSOR, .v = build_cat(w->b, 2, parts, 0)};
    }
    at->arg = (Arg){.kind = ARG_LIST, .n = n, .items = items};
}

/* A scan, or a loop that carries what the rows so far make, which is the row of the result. */
static bool
take_associative(Walk *w, Bound *at, BodyWalk *in, int *open)
{
    Arg rows = argument_at(w, at, 1), others = argument_at(w, at, 2);
    const Arg lists[] = {rows, rows, others};
    int n, leaves = rows.n;
    const Arg *operands = joined(w, 3, lists, &n);
    PyObject *gm = graph_at(w, at, 0);
    if (!gm || !are_tensors(&rows) || !body_open(w, gm, in)) {
        return false;
    }
    *open = 1;
    if (!takes(w, in, n, operands) || !gives_tensors(w, in) || !combines(w, at, in, leaves)) {
        return false;
    }
    Op op = scan_of(in);
    if (op != OP_COUNT) {
        Arg *item = cx_alloc(w->cx, sizeof *item);
        *item = (Arg){.kind = ARG_TENSOR, .v = build_scan(w->b, op, in->args[0], 0)};
        at->arg = (Arg){.kind = ARG_LIST, .n = 1, .items = item};
        return true;
    }
    Cx *cx = w->cx;
    size_t room = 2 * (size_t)leaves;
    Value **first = cx_alloc(cx, room * sizeof *first), **rets = cx_alloc(cx, room * sizeof *rets);
    const Type **types = cx_alloc(cx, room * sizeof *types);
    Dim one = dim_int(cx, 1), steps = dim_sub(cx, in->args[0]->type->dims[0], one);
    for (int k = 0; k < leaves; k++) {
        Value *all = in->args[k];
        const Type *row = in->fn->params[k]->type;
        first[k] = build_slice(w->b, all, 0, dim_int(cx, 0), one, one);
        in->args[k] = build_reshape(w->b, first[k], row->rank, row->dims);
        in->args[leaves + k] = build_slice(w->b, all, 0, one, one, steps);
        rets[k] = rets[leaves + k] = in->fn->body->rets[k];
        types[k] = row;
        types[leaves + k] = type_of_rows(cx, row, steps);
    }
    fn_results(in->fn, 2 * leaves, rets, NULL);
    const Attr attrs[] = {attr_int(cx, "carries", leaves), attr_int(cx, "rows", leaves),
                          attr_int(cx, "while", 0), attr_dims(cx, "steps", 1, &steps)};
    sites_take(w, &in->walk);
    build_loop(w, at, in, attrs, NULL, types);
    bind_rows(w, at, leaves, first);
    return true;
}

bool
flow_build(Walk *w, Bound *at)
{
    PyObject *target = attr(w, at->node, py.name.target);
    PyObject *name = at->overload || w->direct || w->joint
                         ? NULL
                         : attr_or_null(w, target, py.name.__name__);
    const char *is = name && PyUnicode_Check(name) ? utf8(w, name) : "";
    bool cond = strcmp(is, "cond") == 0, loop = strcmp(is, "while_loop") == 0,
         scan = strcmp(is, "scan") == 0, map = strcmp(is, "map_impl") == 0;
    bool combine = strcmp(is, "associative_scan") == 0;
    bool stack = strcmp(is, "while_loop_stack_output") == 0;
    if (!cond && !loop && !scan && !map && !combine && !stack) {
        return false;
    }
    BodyWalk in[2];
    int open = 0;
    bool taken = stack     ? take_stacking(w, at, in, &open)
                 : cond    ? take_cond(w, at, in, &open)
                 : loop    ? take_while(w, at, in, &open)
                 : combine ? take_associative(w, at, in, &open)
                           : take_rows(w, at, in, &open, scan ? 3 : 2);
    bodies_drop(in, open);
    if (!taken && w->inner) {
        refuse(w, "the operator is no loop or branch of the program that it stands in");
    }
    return taken;
}
