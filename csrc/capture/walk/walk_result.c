/* The results of the graph, and those that share storage.
 *
 * Eager's results are views of inputs, of one another, or new.  Outputs whose root (walk_root.c) is
 * an input are views of the parameter.  When several outputs have one root, the root becomes a
 * result too, even if the graph does not return it, and they are views of that.  All other outputs
 * are new, each with its own value. */
#include "walk.h"

bool
is_alias(const Walk *w, const Value *v)
{
    return v->def && v->def->op == OP_call && w->aliasing[let_int(v->def, "site")];
}

/* Is it the storage of another tensor? */
static bool
is_stored(const Walk *w, const Value *v)
{
    bool found = false;
    for (int k = 0; k < w->nstored; k++) {
        found |= w->stored[k] == v;
    }
    return found;
}

Value *
stored(Walk *w, const Bound *at, Value *v)
{
    if (at->param >= 0) {
        return v;
    }
    bool own_storage = v->def && op_info[v->def->op].kind != KIND_VIEW && !is_alias(w, v);
    while (!own_storage || is_stored(w, v)) {
        /* equal calls are one: a copy of the copy */
        v = call_on(w, py.clone, v, NULL, v->type, at->strides);
        own_storage = true;
    }
    int perm[MAX_RANK];
    if (at->strides && dense_order(w, v->type, at->strides, ONES_BY_INDEX, perm)) {
        written_so(w, v, at->strides); /* so that a call which takes it otherwise gets a copy */
    }
    w->stored = cx_grow(w->cx, w->stored, w->nstored, sizeof *w->stored);
    return w->stored[w->nstored++] = v;
}

/* ---- results ---- */

static int
result_add(Walk *w, Value *v, Result promise)
{
    int k = w->nresults++;
    w->values = cx_grow(w->cx, w->values, k, sizeof *w->values);
    w->promises = cx_grow(w->cx, w->promises, k, sizeof *w->promises);
    w->values[k] = v;
    w->promises[k] = promise;
    return k;
}

/* Is its value a sequence of views from the root's value, with the node's strides?  The builder
 * returns the operand itself for a transpose of equal elements. */
static bool
is_viewed_as_eager(Walk *w, const Bound *root, const Bound *at)
{
    const Value *v = at->arg.v, *of = root->arg.v;
    if (view_base(at->arg.v) != of) {
        return false;
    }
    Dim dense[MAX_RANK], own[MAX_RANK], have[MAX_RANK];
    type_dense(w->cx, of->type, dense);
    type_dense(w->cx, v->type, own);
    const Dim *given = root->strides ? root->strides : dense,
              *want = at->strides ? at->strides : own;
    if (!value_layout_beside(w->cx, v, of, given, have)) {
        return true;
    }
    bool same = true;
    for (int ax = 0; ax < v->type->rank && same; ax++) {
        same = dim_is(w->cx, v->type->dims[ax], 1) ||
               stride_same(w->cx, v->type, have[ax], want[ax]);
    }
    return same;
}

/* The node's value as one that shares its root's storage: a chain of views from it, or calls of the
 * eager views where the builder made something else of them. */
static Value *
sharing(Walk *w, Bound *at)
{
    Bound *root = &w->bound[at->root];
    if (at == root || is_viewed_as_eager(w, root, at) || is_alias(w, at->arg.v)) {
        return at->arg.v;
    }
    Bound *from = at->overload || w->direct ? viewed(w, at) : NULL;
    if (!from || from->arg.kind != ARG_TENSOR) {
        refuse(
            w,
            "a result shares the storage of another tensor, and no view that dlc knows gives it");
    }
    from->arg.v = sharing(w, from);
    const Type *t = at->arg.v->type;
    call_build(w, at, false, true, 1, &t, &at->strides, &at->arg.v);
    return at->arg.v;
}

static bool
same_strides(const Value *v, const Dim *a, const Dim *b)
{
    bool same = a && b;
    for (int ax = 0; ax < v->type->rank && same; ax++) {
        same = a[ax] == b[ax];
    }
    return same || (!a && !b);
}

static int
result_fresh(Walk *w, const Bound *at)
{
    Value *v = laid_as_result(w, at);
    for (int k = 0; k < w->nresults; k++) {
        const Result *r = &w->promises[k];
        if (r->kind == RESULT_FRESH && w->values[k] == v && !w->inner &&
            !same_strides(v, r->strides, at->strides)) {
            /* Two results of one value are two tensors by themselves, but of one layout. */
            v = call_on(w, py.clone, v, NULL, v->type, at->strides);
        }
    }
    return result_add(w, v, (Result){.kind = RESULT_FRESH, .strides = at->strides});
}

/* The first new tensor among the results that is the value, or -1. */
static int
result_of(const Walk *w, const Value *v)
{
    int k = 0;
    while (k < w->nresults && (w->values[k] != v || w->promises[k].kind != RESULT_FRESH)) {
        k++;
    }
    return k < w->nresults ? k : -1;
}

/* The root's value is v from now on, and views of it are made from v. */
static void
root_becomes(Bound *root, Value *v)
{
    root->arg.v = v;
    root->version = ++root->versions;
}

/* A view of an input, in a graph from Dynamo: it is made from the input, which may have been
 * written to, and only from that one.  Two inputs in one storage need not share it in the next
 * call. */
static void
view_again_of_input(Walk *w, Bound *at, Bound *root)
{
    if (root->arg.kind != ARG_TENSOR || (root->arg.v->def && !root->written)) {
        refuse(w, "a result is a view of an input that is negated or conjugated when it is read");
    }
    for (int k = 0; k < w->nbound; k++) {
        const Bound *other = &w->bound[k];
        if (other != root && other->param >= 0 && &w->bound[other->root] == root) {
            refuse(w, "a result is a view of an input that shares its storage with another input");
        }
    }
    if (root->arg.v->def) {
        root_becomes(root, w->fn->params[root->param]);
    }
    if (at->version != root->versions) {
        renew(w, at);
    }
}

/* A tensor in the storage of an input that is no view of it for autograd: x.detach(),
 * x.view(dtype). */
static bool
is_detached(Walk *w, const Bound *at, const Bound *root)
{
    if (call0(w, at->val, py.name.is_inference) == Py_True) {
        return false;
    }
    PyObject *base = attr(w, at->val, py.name._base);
    return base == Py_None || (base != root->val && base != attr(w, root->val, py.name._base));
}

/* As a view of the whole input without its history, which becomes a result for that. */
static int
detached_result(Walk *w, Bound *at, Bound *root)
{
    Value *param = root->arg.v;
    Value *whole = call_on(w, py.detach, param, NULL, param->type, root->strides);
    root_becomes(root, whole);
    renew(w, at);
    Value *v = sharing(w, at);
    root_becomes(root, param);
    int of = result_of(w, v == whole || !is_alias(w, v) ? whole : v);
    if (of < 0 && is_alias(w, v)) {
        return result_add(w, v, (Result){.kind = RESULT_FRESH, .strides = at->strides});
    }
    if (of < 0) {
        of = result_add(w, whole, (Result){.kind = RESULT_FRESH, .strides = root->strides});
    }
    return result_add(w, v, (Result){RESULT_VIEW_RESULT, of, at->strides});
}

/* A result that eager negates or conjugates when it is read has its elements in memory of its own
 * here, which must not be another's as well. */
static void
check_lazy_result(Walk *w, const Bound *at)
{
    PyObject *outputs = outputs_of(w, &w->bound[w->nbound - 1]);
    bool alone = w->bound[at->storage].param < 0 && !w->bound[at->storage].constant;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(outputs); k++) {
        PyObject *o = PyTuple_GET_ITEM(outputs, k);
        const Bound *other = is_a(o, py.Node) ? bound_of(w, o) : at;
        alone = alone && (other->storage != at->storage || other->root == at->root);
    }
    if (!alone) {
        refuse(w, "a result is negated or conjugated when it is read: call resolve_neg() or "
                  "resolve_conj() on it");
    }
}

static int
tensor_result(Walk *w, Bound *at)
{
    while (at->same >= 0) {
        at = &w->bound[at->same];
    }
    Bound *root = &w->bound[at->root];
    if (at->result >= 0) {
        return at->result;
    }
    if (w->direct && at->storage != at->root) {
        check_lazy_result(w, at);
    }
    if (w->direct && root->constant) {
        refuse(w, "a result of the graph shares the storage of a constant");
    }
    if (w->direct && root->param >= 0) {
        view_again_of_input(w, at, root);
    }
    /* the elements of a lazy input are a new value */
    bool resolved = root->arg.kind == ARG_TENSOR && root->arg.v->def;
    bool of_param = root->param >= 0 && !resolved;
    if (w->direct && of_param && is_detached(w, at, root)) {
        return at->result = detached_result(w, at, root);
    }
    if (of_param || (root->shared && root != at)) {
        int of = of_param ? root->param : tensor_result(w, root);
        Value *v = sharing(w, at);
        if (w->direct && of_param && is_alias(w, v) && grad_enabled(w)) {
            refuse(w, "a result is a view of an input that only torch can make, for autograd");
        }
        ResultKind kind = is_alias(w, v) ? RESULT_FRESH
                          : of_param     ? RESULT_VIEW_PARAM
                                         : RESULT_VIEW_RESULT;
        if (kind == RESULT_FRESH && result_of(w, v) >= 0) { /* two views that one call gives */
            kind = RESULT_VIEW_RESULT;
            of = result_of(w, v);
        }
        at->result = result_add(w, v, (Result){kind, kind == RESULT_FRESH ? 0 : of, at->strides});
    } else {
        at->result = result_fresh(w, at);
    }
    return at->result;
}

static OutputSpec
scalar_output(Walk *w, const Bound *at)
{
    const Arg *a = &at->arg;
    switch (a->kind) {
    case ARG_DIM:
        return (OutputSpec){OUTPUT_INT, result_add(w, build_size(w->b, a->d), (Result){0}), NULL};
    case ARG_NUMBER:
        return (OutputSpec){OUTPUT_FLOAT, result_add(w, a->v, (Result){0}), NULL};
    case ARG_INT:
        return (OutputSpec){OUTPUT_OBJECT, 0, own(w, PyLong_FromLongLong(a->i))};
    case ARG_FLOAT:
        return (OutputSpec){OUTPUT_OBJECT, 0, own(w, PyFloat_FromDouble(a->f))};
    case ARG_BOOL:
        return (OutputSpec){OUTPUT_OBJECT, 0, a->i ? Py_True : Py_False};
    case ARG_NONE:
        return (OutputSpec){OUTPUT_OBJECT, 0, Py_None};
    default:
        if (is_a(at->val, py.SymBool)) {
            Value *v = build_size(w->b, truth_of(w, at->val));
            return (OutputSpec){OUTPUT_BOOL, result_add(w, v, (Result){0}), NULL};
        }
        refuse(w, "a result of the graph is neither a tensor nor a number");
    }
}

/* The position among the inputs of the one that eager returns itself, as x.to(..) and x.add_(..)
 * return x; in the trace they are the same object. -1: it is another tensor. */
static int
input_itself(const Walk *w, const Bound *at)
{
    const Bound *root = &w->bound[at->root];
    for (int k = 0; w->direct && root->param >= 0 && at->val == root->val && k < w->out->ninputs;
         k++) {
        if (w->out->inputs[k].kind == INPUT_TENSOR && w->out->inputs[k].index == root->param) {
            return k;
        }
    }
    return -1;
}

static OutputSpec
output_of(Walk *w, PyObject *o)
{
    if (!is_a(o, py.Node)) {
        if (o != Py_None && !PyLong_Check(o) && !PyFloat_Check(o)) {
            refuse(w,
                   "a result of the graph has the type %s, and only tensors, numbers and None are "
                   "returned",
                   Py_TYPE(o)->tp_name);
        }
        return (OutputSpec){OUTPUT_OBJECT, 0, o};
    }
    Bound *at = bound_of(w, o);
    int input = at->arg.kind == ARG_INPUT ? (int)at->arg.i : input_itself(w, at);
    if (input >= 0) {
        return (OutputSpec){OUTPUT_INPUT, input, NULL};
    }
    if (at->arg.kind == ARG_TENSOR) {
        return (OutputSpec){OUTPUT_TENSOR, tensor_result(w, at), NULL};
    }
    return scalar_output(w, at);
}

void
inputs_build(Walk *w)
{
    for (int k = 0; k < w->nbound; k++) {
        const Bound *at = &w->bound[k];
        if (at->written && at->arg.v != w->fn->params[at->param]) {
            result_add(w, at->arg.v, (Result){RESULT_INTO, at->param, at->strides});
        }
    }
}

void
results_build(Walk *w, const Bound *output)
{
    PyObject *outputs = outputs_of(w, output);
    Captured *out = w->out;
    size_t n = (size_t)PyTuple_GET_SIZE(outputs);
    out->outputs = PyMem_Calloc(n ? n : 1, sizeof *out->outputs);
    if (!out->outputs) {
        PyErr_NoMemory();
        python_failed(w);
    }
    for (size_t k = 0; k < n; k++) {
        OutputSpec spec = output_of(w, PyTuple_GET_ITEM(outputs, (Py_ssize_t)k));
        Py_XINCREF(spec.object);
        out->outputs[out->noutputs++] = spec;
    }
    fn_results(w->fn, w->nresults, w->values, w->promises);
}

void
result_into(Walk *w, Bound *copy)
{
    PyObject *args = attr(w, copy->node, py.name.args);
    Bound *to = bound_of(w, PyTuple_GET_ITEM(args, 0));
    const Bound *from = bound_of(w, PyTuple_GET_ITEM(args, 1));
    if (to->param < 0 || to->arg.kind != ARG_TENSOR || to->arg.v->def ||
        from->arg.kind != ARG_TENSOR) {
        refuse(w, "it writes to a tensor that is not an input of the graph");
    }
    const Type *t = to->arg.v->type;
    Dtype dtype = from->arg.v->type->dtype;
    bool casts = dtype_info[t->dtype].class < CLASS_COMPLEX &&
                 dtype_info[dtype].class < CLASS_COMPLEX;
    if (!casts && dtype != t->dtype) {
        refuse(w, "it copies to an input of another dtype, and one of the two is complex");
    }
    Value *v = build_broadcast(w->b, build_cast(w->b, from->arg.v, t->dtype), t->rank, t->dims);
    result_add(w, v, (Result){RESULT_INTO, to->param, to->strides});
    copy->arg = to->arg;
    copy->strides = to->strides;
    w->wrote = to->written = true;
}
