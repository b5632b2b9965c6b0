/* A node that makes tensors, or writes to them: by a builder's lets, or as a call. */
#include "walk.h"

#include <string.h>

/* The results of a node: types and strides of each, NULL where meta['val'] has no tensor. */
typedef struct {
    Walk *w;
    Bound *at;
    int n;
    const Type **types;
    const Dim **strides;
    Value **res;
    const AtenRow *row;         /* NULL: no builder */
    const Arg *args;            /* NULL: those of the overload's schema */
    int nargs;
    PyObject *index;            /* of operator.getitem on a tensor */
    bool built;                 /* by the builder */
    const char *refusal;
} Node;

static void
result_at(Node *node, PyObject *val)
{
    Walk *w = node->w;
    int k = node->n++;
    node->types = cx_grow(w->cx, node->types, k, sizeof *node->types);
    node->strides = cx_grow(w->cx, node->strides, k, sizeof *node->strides);
    node->types[k] = NULL;
    node->strides[k] = NULL;
    if (is_a(val, py.Tensor)) {
        node->types[k] = tensor_type(w, val);
        node->strides[k] = tensor_strides(w, val, node->types[k]);
    } else if (val != Py_None) {
        refuse(w, "its result has the type %s, and only tensors and numbers are compiled",
               Py_TYPE(val)->tp_name);
    }
}

static void
results_of(Node *node)
{
    PyObject *val = node->at->val;
    if (PyTuple_Check(val) || PyList_Check(val)) {
        for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(val); k++) {
            result_at(node, PySequence_Fast_GET_ITEM(val, k));
        }
    } else {
        result_at(node, val);
    }
    node->res = cx_alloc(node->w->cx, (size_t)(node->n + 1) * sizeof *node->res);
}

/* Is one of the operands a matrix of floats, or of a convolution a tensor, that is one of the
 * weights, or a view of one? */
static bool
reads_weight(Walk *w, const Bound *at)
{
    PyObject *nodes = w->weights ? attr(w, at->node, py.name.all_input_nodes) : NULL;
    bool found = false;
    for (Py_ssize_t k = 0; nodes && k < PyList_Size(nodes); k++) {
        const Bound *b = bound_of(w, PyList_GET_ITEM(nodes, k));
        const Type *type = b->arg.kind == ARG_TENSOR ? b->arg.v->type : NULL;
        bool fits = type && (type->rank == 2 || (type->rank > 2 && convolution_is(at))) &&
                    (type->dtype == DT_f32 || type->dtype == DT_f64 ||
                     (w->short_weights && dtype_info[type->dtype].class == CLASS_FLOAT));
        PyObject *root = fits ? own(w, PyLong_FromLong(b->root)) : NULL;
        int in = root ? PySequence_Contains(w->weights, root) : 0;
        if (in < 0) {
            own(w, NULL);
        }
        found |= in;
    }
    return found;
}

/* Products are left to eager unless they may be computed here. */
static const AtenRow *
row_used(Walk *w, const AtenRow *row)
{
    return row && row->product && w->products == PRODUCTS_LIBRARY ? NULL : row;
}

/* By the instructions that torch's kernels are compiled for (aten/src/ATen/native/cpu/
 * int4mm_kernel.cpp): the weight was packed by such a kernel. */
static Packing
packing(Walk *w, const AtenRow *row)
{
    if (!row || row->build != aten_int4_mm) {
        return (Packing){0};
    }
    const char *isa = utf8(w, own(w, PyObject_CallNoArgs(py.cpu_capability)));
    return strcmp(isa, "AVX512") == 0    ? (Packing){64, false}
           : strcmp(isa, "AVX2") == 0    ? (Packing){32, false}
           : strcmp(isa, "DEFAULT") == 0 ? (Packing){32, true}
                                         : (Packing){0};
}

static void
try_builder(Cx *cx, void *arg)
{
    Node *node = arg;
    Walk *w = node->w;
    Aten aten = {.b = w->b,
                 .cx = cx,
                 .number = w->number,
                 .fills_empty = w->fills_empty,
                 .products = w->products,
                 .images = node->row && node->row->product && images_are_last(w),
                 .prepared = node->row && node->row->product && reads_weight(w, node->at),
                 .packing = packing(w, node->row),
                 .types = node->types,
                 .strides = node->strides,
                 .type = node->types[0],
                 .nres = node->n,
                 .res = node->res,
                 .args = node->args,
                 .nargs = node->nargs};
    if (!aten.args) {
        aten.args = args_of(w, node->at, &aten.nargs);
    }
    if (!node->index) {
        node->built = aten_build(&aten, node->row);
    } else {
        node->res[0] = index_is_view(w, node->index)
                           ? index_view(w, node->args[0].v, node->index, aten.type)
                           : index_gather(w, &aten, node->index);
        node->built = aten_hold(&aten);
    }
    node->refusal = aten.refusal;
}

Value *
view_base(Value *v)
{
    while (value_is_view(v) && v->def->op != OP_flip) {
        v = v->def->args[0];
    }
    return v;
}

/* A result that is new in eager must not be a value that shares storage with a call's operand. */
static bool
is_fresh_enough(const Node *node)
{
    const Bound *at = node->at;
    bool views = at->overload ? at->overload->alias >= 0 : &node->w->bound[at->root] != at;
    for (int k = 0; k < node->n && !views; k++) {
        if (node->types[k] && is_alias(node->w, view_base(node->res[k]))) {
            return false;
        }
    }
    return true;
}

/* Only a call can find a size that depends on data. */
static bool
sizes_are_known(const Node *node)
{
    Walk *w = node->w;
    for (int k = 0; k < node->n; k++) {
        for (int ax = 0; node->types[k] && ax < node->types[k]->rank; ax++) {
            if (!dim_is_known(w, node->types[k]->dims[ax])) {
                return false;
            }
        }
    }
    return true;
}

/* A builder that fails is never a wrong result: the node becomes a call. */
static bool
by_builder(Node *node)
{
    Walk *w = node->w;
    if ((!node->row && !node->index) || node->n == 0 || !sizes_are_known(node)) {
        return false;
    }
    if (!cx_try(w->cx, try_builder, node)) {
        if (PyErr_Occurred()) {
            python_failed(w);
        }
        if (cx_diag(w->cx)->code == DIAG_MEMORY) {
            fail_again(w->cx);
        }
        log_line("%sleft to eager: %s", w->place, cx_diag(w->cx)->message);
        return false;
    }
    if (node->refusal) {
        refuse(w, "%s", node->refusal);
    }
    if (!node->built || !is_fresh_enough(node)) {
        return false;
    }
    return true;
}

static void
bind_results(Node *node)
{
    Bound *at = node->at;
    bool many = PyTuple_Check(at->val) || PyList_Check(at->val);
    Arg *items = cx_alloc(node->w->cx, (size_t)(node->n + 1) * sizeof *items);
    for (int k = 0; k < node->n; k++) {
        items[k] = (Arg){.kind = node->types[k] ? ARG_TENSOR : ARG_NONE, .v = node->res[k]};
    }
    at->arg = many ? (Arg){.kind = ARG_LIST, .n = node->n, .items = items} : items[0];
    at->strides = many || node->n == 0 ? NULL : node->strides[0];
}

/* ---- overloads that address the storage itself ---- */

static bool
reads_storage(const Overload *o)
{
    return o && strncmp(o->name, "aten.as_strided", 15) == 0;
}

/* The storage of a parameter is known; of another tensor, or of a separate one, the builder knows
 * the elements if they are dense in row-major order.  A view is replaced by its base, because the
 * offset counts from the base's start. */
static void
storage_build(Node *node)
{
    Walk *w = node->w;
    PyObject *args = attr(w, node->at->node, py.name.args);
    Bound *x = bound_of(w, PyTuple_GET_ITEM(args, 0));
    const Bound *root = &w->bound[x->root];
    bool is_scatter = strcmp(node->at->overload->name, "aten.as_strided_scatter.default") == 0;
    int offset = is_scatter ? 4 : 3;
    bool has_offset = PyTuple_GET_SIZE(args) > offset && PyTuple_GET_ITEM(args, offset) != Py_None;
    if (x != root && (!has_offset || is_scatter)) {
        refuse(w,
               "as_strided of a view needs the argument storage_offset: without it eager takes the "
               "view's own");
    }
    Arg own_arg = x->arg;
    x->arg = root->arg;
    bool itself = is_scatter && !has_offset && root->arg.kind == ARG_TENSOR &&
                  !root->arg.v->strides;
    if (root->param >= 0 && !(itself && by_builder(node))) {
        call_build(w, node->at, false, true, node->n, node->types, node->strides, node->res);
    } else if (root->param < 0 &&
               (root->strides || root->arg.kind != ARG_TENSOR || !by_builder(node))) {
        refuse(w, "as_strided of a tensor that dlc lays out otherwise than eager does");
    }
    x->arg = own_arg;
}

/* Has torch already decomposed the operator?  Not in graphs from Dynamo, except for parts traced
 * since. */
static bool
is_traced(Walk *w, const Bound *at)
{
    return !w->direct || PyDict_GetItemWithError(attr(w, at->node, py.name.meta), py.name.val);
}

/* Processes meet in these: they come in one order in all of them. */
static bool
is_collective(const Overload *o)
{
    return strncmp(o->name, "_c10d_functional.", 17) == 0;
}

static bool
has_call(const Block *body, int from)
{
    bool has = false;
    for (int k = from; k < body->n; k++) {
        has |= body->lets[k]->op == OP_call;
    }
    return has;
}

/* out_dtype(overload, dtype, ..): the overload of operands that are cast to the dtype.  A product
 * of i8 reads them as they are. */
static void
read_out_dtype(Node *node)
{
    Walk *w = node->w;
    PyObject *target = attr(w, node->at->node, py.name.target), *args;
    PyObject *name = node->at->overload ? NULL : attr_or_null(w, target, py.name.__name__);
    if (!name || !PyUnicode_Check(name) || strcmp(utf8(w, name), "out_dtype") != 0) {
        return;
    }
    args = attr(w, node->at->node, py.name.args);
    const Overload *of = overload_of(w, PyTuple_GET_ITEM(args, 0));
    Arg to = arg_of(w, PyTuple_GET_ITEM(args, 1));
    int count = (int)PyTuple_GET_SIZE(args) - 2;
    Arg *given = cx_alloc(w->cx, (size_t)(count + 1) * sizeof *given);
    bool product = of && strcmp(of->name, "aten.mm.default") == 0, fits = of && of->row;
    for (int k = 0; k < count && fits; k++) {
        given[k] = arg_of(w, PyTuple_GET_ITEM(args, k + 2));
        const Type *t = given[k].kind == ARG_TENSOR ? given[k].v->type : NULL;
        fits = to.kind == ARG_DTYPE && (!t || dtype_info[t->dtype].class < CLASS_COMPLEX) &&
               dtype_info[to.dtype].class < CLASS_COMPLEX;
        product = product && t && t->dtype == DT_i8;
    }
    for (int k = 0; k < count && fits && !product; k++) {
        if (given[k].kind == ARG_TENSOR) {
            given[k].v = build_cast(w->b, given[k].v, to.dtype);
        }
    }
    node->row = !fits ? NULL : row_used(w, product ? aten_find("aten._int_mm.default") : of->row);
    node->args = given;
    node->nargs = count;
}

/* Builds a node that makes tensors, or that only has an effect. */
void
tensors_build(Walk *w, Bound *at)
{
    const Overload *o = at->overload;
    Node node = {.w = w, .at = at};
    if (!is_traced(w, at) && (!o || (!o->row && strncmp(o->name, "aten.", 5) == 0))) {
        refuse(w, "the function is not in the table of those that dlc knows");
    }
    if (o && o->writes) {
        refuse(w, "it writes to its arguments, which an operator of a functional graph may not do");
    }
    if (!is_a(at->val, py.Tensor) && at->val == Py_None) {
        node.res = cx_alloc(w->cx, sizeof *node.res);
        call_build(w, at, true, false, 0, NULL, NULL, node.res);
        return;
    }
    results_of(&node);
    node.row = o ? row_used(w, o->row) : NULL;
    read_out_dtype(&node);
    bool known = eager_check(w, at, node.row, node.n, node.types, node.strides);
    int before = w->fn->body->n;
    if (reads_storage(o)) {
        storage_build(&node);
    } else if (known && !at->shown && by_builder(&node)) {
        at->pure = !has_call(w->fn->body, before);
    } else {
        bool effect = !o || o->random || is_collective(o);
        call_build(w, at, effect, !o || o->alias >= 0, node.n, node.types, node.strides, node.res);
    }
    bind_results(&node);
    known_read(w, at);
}

/* ---- functions of torch.def ---- */

PyObject *
argument(Walk *w, const Bound *at, int k)
{
    PyObject *args = attr(w, at->node, py.name.args);
    if (k >= PyTuple_GET_SIZE(args)) {
        refuse(w, "an argument has to be given by position, and not by name");
    }
    return PyTuple_GET_ITEM(args, k);
}

static void
eager_build(Node *node)
{
    Bound *at = node->at;
    bool views = &node->w->bound[at->root] != at;
    for (int k = 0; k < node->n; k++) {
        if (node->types[k]) {
            need_sizes(node->w, node->types[k]);
        }
    }
    bool draws = at->torch && strchr(at->torch->in, 'r');
    call_build(node->w, at, draws, views, node->n, node->types, node->strides, node->res);
}

/* If eager would compute in another dtype than the one it writes to, AOTAutograd gets the graph,
 * because it rounds twice, as eager does. */
static void
check_promotion(Walk *w, const Node *node)
{
    const Type *to = node->types[0];
    for (int k = 1; k < node->nargs; k++) {
        const Arg *a = &node->args[k];
        if (a->kind != ARG_TENSOR || a->v->type->dtype == to->dtype ||
            a->v->type->dtype == DT_bool || node->row->build == torch_copy) {
            continue;
        }
        bool weak = a->v->type->rank == 0 && to->rank > 0 &&
                    dtype_info[a->v->type->dtype].class <= dtype_info[to->dtype].class;
        if (!weak) {
            refuse(w, "it writes in place to a tensor of another dtype than its operand's");
        }
    }
}

/* The written value, as the result of a call that does not write. */
static void
twin_call(Node *node)
{
    Bound *at = node->at;
    if (!twin_find(node->w, at)) {
        refuse(node->w, "it writes to its argument a value that is not compiled");
    }
    bool draws = strchr(at->torch->in, 'r');
    call_build(node->w, at, draws, false, 1, node->types, node->strides, node->res);
    at->twin = (Twin){NULL};
}

/* x.add_(y): the node represents x, whose value changes here. */
static void
write_build(Node *node)
{
    Walk *w = node->w;
    Bound *at = node->at, *x = bound_of(w, argument(w, at, 0));
    if (node->n != 1 || !node->types[0]) {
        refuse(w, "it writes to its argument in a form that is not compiled");
    }
    if (node->row && !(at->writes && strchr(at->torch->in, 'w'))) {
        check_promotion(w, node);
    }
    if (!by_builder(node)) {
        twin_call(node);
    }
    write_value(w, x, NULL, &(Arg){.kind = ARG_TENSOR, .v = node->res[0]});
    at->same = (int)(x - w->bound);
    renew(w, at);
}

void
torch_build(Walk *w, Bound *at)
{
    Node node = {.w = w, .at = at};
    results_of(&node);
    node.row = row_used(w, torch_builder(at->torch));
    if (!at->writes) {
        eager_check(w, at, node.row, node.n, node.types, node.strides);
    }
    if (node.row) {
        node.args = torch_args(w, at, &node.nargs);
    } else {
        torch_check_call(w, at);
    }
    if (at->writes || (node.row && torch_writes(at, node.args))) {
        write_build(&node);
        return;
    }
    if (!by_builder(&node)) {
        if (!torch_may_call(at->torch)) {
            refuse(w, "it is not compiled with these arguments");
        }
        eager_build(&node);
    }
    bind_results(&node);
}

/* operator.getitem(tensor, index) */
void
index_build(Walk *w, Bound *at, const Bound *from)
{
    Node node = {.w = w, .at = at, .args = &from->arg, .nargs = 1, .index = argument(w, at, 1)};
    index_is_view(w, node.index); /* refuses results that depend on data */
    results_of(&node);
    if (!by_builder(&node)) {
        eager_build(&node);
    }
    bind_results(&node);
}
