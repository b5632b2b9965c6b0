/* dlc._C.partition: chooses the nodes of a joint graph that are saved for the backward.
 *
 * AOTAutograd traces a function and its gradients as one graph.  The walk translates it; a node
 * that has no builder is a call, as everywhere.  Then csrc/fusion/partition/partition.c cuts the
 * program, given facts that only the nodes have: the values that have a node and so can be passed
 * on, the reads of a node that its lets do not have, the requests of checkpoints, and the inputs
 * that are written to. */
#include "joint.h"

#include <string.h>

/* ---- the graph's edges ---- */

static int
number_of_node(const Joint *j, const Bound *at)
{
    return (int)(at - j->walk.bound);
}

static void
read_edges(Joint *j)
{
    Walk *w = &j->walk;
    int n = 0;
    j->first = cx_alloc(w->cx, (size_t)(w->nbound + 2) * sizeof *j->first);
    for (int k = 0; k < w->nbound; k++) {
        int mark = w->npool;
        PyObject *nodes = attr(w, w->bound[k].node, py.name.all_input_nodes);
        j->first[k] = n;
        for (Py_ssize_t i = 0; i < PyList_Size(nodes); i++) {
            j->inputs = cx_grow(w->cx, j->inputs, n, sizeof *j->inputs);
            j->inputs[n++] = number_of_node(j, bound_of(w, PyList_GET_ITEM(nodes, i)));
        }
        pool_release(w, mark);
    }
    j->first[w->nbound] = n;
}

static const char *
meta_text(Walk *w, const Bound *at, const char *key)
{
    PyObject *text = PyDict_GetItemString(attr(w, at->node, py.name.meta), key);
    return text && PyUnicode_Check(text) ? utf8(w, text) : "";
}

static bool
is_tangent(Walk *w, const Bound *at)
{
    PyObject *target = attr(w, at->node, py.name.target);
    return PyUnicode_Check(target) && strstr(utf8(w, target), "tangents") &&
           strcmp(utf8(w, attr(w, at->node, py.name.op)), "placeholder") == 0;
}

static bool
is_copy(const Bound *at)
{
    return at->overload && strcmp(at->overload->name, "aten.copy_.default") == 0;
}

/* Must the node be kept?  Yes if it draws random numbers, writes, or returns nothing. */
static bool
has_effect(const Bound *at)
{
    bool random = at->overload && at->overload->random && !at->pure;
    return at->overload && (random || at->overload->silent || is_copy(at));
}

static void
find_late(Joint *j)
{
    Walk *w = &j->walk;
    j->late = cx_alloc(w->cx, (size_t)w->nbound + 1);
    j->effect = cx_alloc(w->cx, (size_t)w->nbound + 1);
    for (int k = 0; k < w->nbound; k++) {
        int mark = w->npool;
        const Bound *at = &w->bound[k];
        j->effect[k] = has_effect(at);
        const char *tag = j->effect[k] ? meta_text(w, at, "partitioner_tag") : "";
        j->late[k] = is_tangent(w, at) || strcmp(tag, "is_backward") == 0;
        for (int i = j->first[k]; i < j->first[k + 1]; i++) {
            j->late[k] |= j->late[j->inputs[i]];
        }
        if (strcmp(tag, "must_be_in_backward") == 0 || (j->late[k] && is_copy(at))) {
            w->place = "";
            refuse(w, "the backward pass writes to an input of the graph");
        }
        pool_release(w, mark);
    }
}

/* ---- values and nodes ---- */

const Value *
joint_value(const Joint *j, int k)
{
    const Arg *a = &j->walk.bound[k].arg;
    return a->kind == ARG_TENSOR && !value_is_const(a->v) ? a->v : NULL;
}

int
joint_parent(const Joint *j, int k)
{
    int from = j->first[k] < j->first[k + 1] ? j->inputs[j->first[k]] : -1;
    bool item = from >= 0 && !j->walk.bound[k].overload && j->walk.bound[from].arg.kind == ARG_LIST;
    return item ? from : -1;
}

static bool
same_strides(const Bound *a, const Bound *b, int rank)
{
    return a->strides == b->strides ||
           (a->strides && b->strides &&
            memcmp(a->strides, b->strides, (size_t)rank * sizeof(Dim)) == 0);
}

int
joint_same(const Joint *j, int k)
{
    const Value *v = joint_value(j, k);
    int of = v && !j->late[k] ? j->node_of[v->id] : -1;
    return of >= 0 && same_strides(&j->walk.bound[of], &j->walk.bound[k], v->type->rank) ? of : k;
}

static bool
is_written(Joint *j, int k)
{
    Walk *w = &j->walk;
    const Bound *at = &w->bound[k];
    PyObject *number = own(w, PyLong_FromLong(k));
    int in = at->param >= 0 ? PySet_Contains(j->written, number) : 0;
    if (in < 0) {
        python_failed(w);
    }
    return in || at->written;
}

/* Can v be passed on under this node?  An alias of an input that the forward writes to cannot. */
static bool
is_a_name(const Bound *at, const Value *v, const uint8_t *marks)
{
    const Overload *o = at->overload;
    const Value *root = value_root(v);
    bool alias = o && (o->alias >= 0 || o->maybe_alias),
         written = root && marks[root->id] & MARK_WRITTEN;
    return is_a(at->val, py.Tensor) && !is_copy(at) && !(written && alias);
}

/* If an input is written to, v may be a view of it here, where torch makes a copy. */
static void
name_value(Joint *j, int k, const Value *v, uint8_t *marks)
{
    const Value *root = value_root(v);
    marks[v->id] |= MARK_NAMED;
    j->node_of[v->id] = k;
    if (root && root != v && marks[root->id] & MARK_WRITTEN) {
        marks[root->id] |= MARK_COPIED;
    }
}

/* The first node of each value represents it, except for inputs that are written to.  If a result
 * is a reshape of the value that its builder computed, it represents that value: see
 * saved_results.c. */
static void
name_values(Joint *j, uint8_t *marks)
{
    Walk *w = &j->walk;
    size_t bytes = (size_t)(w->fn->nvalues + 1) * sizeof *j->node_of;
    j->node_of = cx_alloc(w->cx, bytes);
    memset(j->node_of, -1, bytes);
    for (int k = 0; k < w->nbound; k++) {
        const Value *v = joint_value(j, k);
        if (v && is_written(j, k)) {
            marks[v->id] |= MARK_WRITTEN;
        } else if (v && j->node_of[v->id] < 0 && is_a_name(&w->bound[k], v, marks)) {
            name_value(j, k, v, marks);
        }
    }
    for (int k = 0; k < w->nbound; k++) {
        const Value *v = joint_value(j, k);
        const Value *base = v && is_a_name(&w->bound[k], v, marks) ? known_base((Value *)v) : NULL;
        if (base && base->def && !let_is_opaque(base->def) && j->node_of[base->id] < 0) {
            marks[base->id] |= MARK_NAMED;
            j->node_of[base->id] = k;
        }
    }
}

/* The request of torch.utils.checkpoint and its policies for a node.  Both halves have the graph's
 * constants. */
static Mark
wish_of(Walk *w, const Bound *at)
{
    if (at->constant) {
        return MARK_AGAIN;
    }
    PyObject *policy = PyDict_GetItemString(attr(w, at->node, py.name.meta), "recompute");
    if (!policy || policy == Py_None || has_effect(at)) {
        return 0;
    }
    const char *name = utf8(w, attr(w, policy, py.name.name));
    const char *const known[] = {"MUST_RECOMPUTE", "PREFER_RECOMPUTE", "MUST_SAVE", "PREFER_SAVE"};
    for (int k = 0; k < 4; k++) {
        if (strcmp(name, known[k]) == 0) {
            return k < 2 ? MARK_AGAIN : MARK_KEEP;
        }
    }
    refuse(w,
           "the checkpoint policy %s is none of MUST_SAVE, PREFER_SAVE, MUST_RECOMPUTE and "
           "PREFER_RECOMPUTE",
           name);
}

/* Is the node a matrix product or convolution of the library, with one result? */
static bool
is_product(const Bound *at)
{
    static const char *const names[] = {"aten.mm.default", "aten.addmm.default", "aten.bmm.default",
                                        "aten.baddbmm.default", "aten.convolution.default"};
    bool found = false;
    for (size_t k = 0; at->overload && k < sizeof names / sizeof *names; k++) {
        found |= strcmp(at->overload->name, names[k]) == 0;
    }
    return found;
}

static void
mark_arg(const Joint *j, int k, const Arg *a, uint8_t *marks, Mark mark)
{
    for (int i = 0; a->kind == ARG_LIST && i < a->n; i++) {
        mark_arg(j, k, &a->items[i], marks, mark);
    }
    if (a->kind == ARG_TENSOR && !value_is_const(a->v) &&
        (mark == MARK_LATE || j->node_of[a->v->id] >= k)) {
        marks[a->v->id] |= mark;
    }
}

static void
mark_nodes(Joint *j, uint8_t *marks)
{
    Walk *w = &j->walk;
    for (int k = 0; k < w->nbound; k++) {
        int mark = w->npool;
        const Bound *at = &w->bound[k];
        int parent = joint_parent(j, k);
        Mark wish = parent >= 0 && j->effect[parent] ? 0 : wish_of(w, at);
        if (wish) {
            mark_arg(j, k, &at->arg, marks, wish);
        }
        if (is_product(at)) {
            mark_arg(j, k, &at->arg, marks, MARK_PRODUCT);
        }
        if (j->late[k] && j->effect[k]) {
            mark_arg(j, k, &at->arg, marks, MARK_LATE);
        }
        pool_release(w, mark);
    }
}

/* ---- what a node reads ---- */

/* Builders know nothing of v but its type: not where it is a constant, or a part of another value.
 * And its sizes are numbers. */
static bool
is_opaque(const Joint *j, const Value *v)
{
    if (v->def && !let_is_opaque(v->def)) {
        return false;
    }
    for (int ax = 0; ax < v->type->rank; ax++) {
        if (!dim_is_int(j->walk.cx, v->type->dims[ax], NULL)) {
            return false;
        }
    }
    return true;
}

/* Marks the values that v, a result of node k, is computed from, up to the node's inputs.  False:
 * it is computed from something else, because builders fold, and reuse existing values; then
 * nothing is known about the inputs. */
static bool
find_sources(Joint *j, int k, const Value *v)
{
    int n = 0, stamp = ++j->stamp;
    for (int i = j->first[k]; i < j->first[k + 1]; i++) {
        const Value *input = joint_value(j, j->inputs[i]);
        if (input) {
            j->input_at[input->id] = stamp;
        }
    }
    j->read_at[v->id] = stamp;
    j->stack[n++] = v;
    while (n > 0) {
        const Value *u = j->stack[--n];
        int named = j->node_of[u->id];
        if (j->input_at[u->id] == stamp) {
            continue;
        }
        if (!u->def || let_is_opaque(u->def) ||
            (u != v && named >= 0 && named != k && joint_parent(j, named) != k)) {
            return false;
        }
        for (int i = 0; i < u->def->nargs; i++) {
            const Value *a = u->def->args[i];
            if (!value_is_const(a) && j->read_at[a->id] != stamp) {
                j->read_at[a->id] = stamp;
                j->stack[n++] = a;
            }
        }
    }
    return true;
}

void
joint_reads(Joint *j, int k, const Value *v, bool *reads)
{
    bool found = find_sources(j, k, v);
    for (int i = j->first[k]; i < j->first[k + 1]; i++) {
        const Value *input = joint_value(j, j->inputs[i]);
        bool plain = input && !j->walk.bound[j->inputs[i]].strides && is_opaque(j, input);
        reads[i - j->first[k]] |= !found || !plain || j->late[j->inputs[i]] ||
                                  j->read_at[input->id] == j->stamp;
    }
}

static void
add_need(Joint *j, const Value *user, const Value *used)
{
    for (int k = 0; user->def && k < user->def->nargs; k++) {
        if (user->def->args[k] == used) {
            return;
        }
    }
    if (used && used != user) {
        Need *needs = cx_grow(j->walk.cx, (Need *)j->rules.needs, j->rules.nneeds, sizeof *needs);
        needs[j->rules.nneeds++] = (Need){user, used};
        j->rules.needs = needs;
    }
}

/* A node is computed again as a whole: from all nodes that it reads, whatever its lets read, except
 * inputs whose elements are not used. */
static void
find_needs(Joint *j)
{
    bool *reads = cx_alloc(j->walk.cx, (size_t)j->first[j->walk.nbound] + 1);
    size_t bytes = (size_t)j->walk.fn->nvalues + 1;
    j->read_at = cx_alloc(j->walk.cx, bytes * sizeof *j->read_at);
    j->input_at = cx_alloc(j->walk.cx, bytes * sizeof *j->input_at);
    j->stack = cx_alloc(j->walk.cx, bytes * sizeof *j->stack);
    for (int k = 0; k < j->walk.nbound; k++) {
        const Value *v = joint_value(j, k);
        int parent = joint_parent(j, k), maker = parent >= 0 ? parent : k;
        int n = j->first[maker + 1] - j->first[maker];
        if (!v || j->node_of[v->id] != k || n == 0) {
            continue;
        }
        memset(reads, 0, (size_t)n);
        joint_reads(j, maker, v, reads);
        for (int i = 0; i < n; i++) {
            if (reads[i]) {
                add_need(j, v, joint_value(j, j->inputs[j->first[maker] + i]));
            }
        }
    }
}

/* ---- the program's results ---- */

static void
set_results(Joint *j)
{
    Walk *w = &j->walk;
    Py_ssize_t n = PyTuple_GET_SIZE(j->outputs);
    for (Py_ssize_t k = 0; k <= n; k++) {
        if (k == j->nforward) {
            j->rules.nforward = w->nresults; /* values written to inputs are among them */
        }
        PyObject *o = k < n ? PyTuple_GET_ITEM(j->outputs, k) : NULL;
        const Value *v = is_a(o, py.Node) ? joint_value(j, number_of_node(j, bound_of(w, o)))
                                          : NULL;
        if (v) {
            w->values = cx_grow(w->cx, w->values, w->nresults, sizeof *w->values);
            w->values[w->nresults++] = (Value *)v;
        } else if (o && !is_a(o, py.Node) && o != Py_None) {
            refuse(w,
                   "a result of the graph has the type %s, and only tensors, numbers and None are "
                   "returned",
                   Py_TYPE(o)->tp_name);
        }
    }
    fn_results(w->fn, w->nresults, w->values, NULL);
}

static void
joint_body(Cx *cx, void *walk)
{
    Joint *j = walk;
    Walk *w = &j->walk;
    walk_nodes(w);
    w->place = "";
    j->outputs = outputs_of(w, &w->bound[w->nbound - 1]);
    read_edges(j);
    find_late(j);
    uint8_t *marks = cx_alloc(cx, (size_t)w->fn->nvalues + 1);
    name_values(j, marks);
    mark_nodes(j, marks);
    find_needs(j);
    set_results(j);
    bool *tangents = cx_alloc(cx, (size_t)w->fn->nparams + 1);
    for (int k = 0; k < w->nbound; k++) {
        if (w->bound[k].param >= 0) {
            tangents[w->bound[k].param] = j->late[k];
        }
    }
    j->rules.tangents = tangents;
    j->rules.marks = marks;
    j->cut = partition_cut(w->fn, &j->rules);
    joint_halves(j);
}

/* ---- for Python ---- */

PyDoc_STRVAR(
    partition_doc,
    "partition(gm, nforward, written, bind, budget, fuel, products='auto', again=False,\n"
    "          share=0.0) -> dict\n\n"
    "Cuts a joint graph of AOTAutograd, whose first nforward outputs are the forward's, in two.  "
    "written: a set\n"
    "of the positions of placeholders that the forward writes to.  bind: called with a list of "
    "saved tensors and\n"
    "one of saved sizes when there are sizes that change; returns the list of sizes that is passed "
    "on.  budget: 1 for\n"
    "the cheapest cut, 0 for the one that saves the fewest bytes, or between.  fuel: how many "
    "values both halves may\n"
    "compute; negative for no limit.  products: as of compile.  again: a "
    "budget below 1 may have products\n"
    "computed again.  share: above 0, instead of a budget: the forward is computed again in "
    "segments, and this share of what\n"
    "the cheapest cut saves is there at once.\n\n"
    "The dict: 'saved' tensors and 'sizes', lists of nodes; 'forward' and 'backward', the nodes "
    "that each half\n"
    "computes in order, without placeholders; 'same', a node to the one of equal value that stands "
    "for it in the\n"
    "backward; 'known', a node of the backward to its results that are saved, by position; "
    "'unread', a node of the\n"
    "backward to inputs whose elements do not matter and that need not be passed on; 'bytes' saved "
    "besides inputs,\n"
    "estimated; 'recomputed', how many values both halves compute; 'cost' of that.\n\n"
    "Raises CaptureError when the graph cannot be cut.");

static PyObject *
partition(PyObject *module, PyObject *args)
{
    (void)module;
    Joint j = {.walk = {.joint = true}};
    long long fuel;
    const char *products = "auto";
    int again = 0;
    if (!PyArg_ParseTuple(args, "OiO!OdL|spd", &j.walk.gm, &j.nforward, &PySet_Type, &j.written,
                          &j.bind, &j.rules.budget, &fuel, &products, &again, &j.rules.share) ||
        products_from_text(products, &j.walk.products) < 0) {
        return NULL;
    }
    j.rules.fuel = fuel;
    j.rules.products = again;
    j.walk.out = &j.captured;
    j.walk.cx = cx_new();
    if (!j.walk.cx) {
        return PyErr_NoMemory();
    }
    if (walk_try(&j.walk, joint_body) < 0) {
        Py_CLEAR(j.result);
    }
    captured_clear(&j.captured);
    cx_free(j.walk.cx);
    return j.result;
}

static PyMethodDef methods[] = {
    {"partition", partition, METH_VARARGS, partition_doc},
    {NULL, NULL, 0, NULL},
};

int
joint_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
