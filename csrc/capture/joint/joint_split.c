/* From a cut of the program to two lists of nodes.
 *
 * The backward is found from its outputs: the nodes that depend on tangents, and those of the rest
 * that are not passed on. Each node comes right before its first reader, so that values that are
 * computed again live briefly.  The program may read less than the nodes (a builder that does not
 * need an argument). So a value that is missing, and must not be computed again, is passed on too.
 */
#include "joint.h"

enum { NEW, OPEN, DONE };

typedef struct {
    Joint *j;
    Walk *w;
    char *state;                /* by node: of the search */
    bool *passed;               /* by node: the forward passes it on */
    bool *here;                 /* by node: in the forward */
    int *stack, *edge;          /* a path of nodes, and which input of each is next */
    int depth;
    int *order, norder;         /* of the backward */
    bool *reads;                /* by edge: the elements of the input matter */
    PyObject *same, *known, *unread;
} Halves;

static bool
is_number_like(const Bound *at)
{
    return is_a(at->val, py.SymInt) || is_a(at->val, py.SymFloat) || is_a(at->val, py.SymBool);
}

static bool
is_op(const Halves *h, int k, const char *op)
{
    return PyUnicode_CompareWithASCIIString(attr(h->w, h->w->bound[k].node, py.name.op), op) == 0;
}

/* May the early node k be computed in the backward? */
static bool
may_run_again(const Halves *h, int k)
{
    const Joint *j = h->j;
    const Value *v = joint_value(j, k);
    if (is_op(h, k, "placeholder") || j->effect[k]) {
        return false;
    }
    if (h->w->bound[k].constant) {
        return true;
    }
    if (!v) {
        return !is_a(h->w->bound[k].val, py.SymInt);
    }
    if (j->cut->backward[v->id]) {
        return true;
    }
    return !(v->def && let_is_opaque(v->def)) && !(j->rules.marks[v->id] & MARK_KEEP);
}

/* The node to use for an input: itself if it is late, else the node that represents its value. */
static int
stand_in(Halves *h, int k)
{
    int of = joint_same(h->j, k);
    if (of != k && PyDict_SetItem(h->same, h->w->bound[k].node, h->w->bound[of].node) < 0) {
        python_failed(h->w);
    }
    return of;
}

static void
add_reads(Halves *h, int k, const Arg *a, bool *reads, bool *any)
{
    for (int i = 0; a->kind == ARG_LIST && i < a->n; i++) {
        add_reads(h, k, &a->items[i], reads, any);
    }
    if (a->kind == ARG_TENSOR && !value_is_const(a->v) && h->j->cut->backward[a->v->id]) {
        joint_reads(h->j, k, a->v, reads);
        *any = true;
    }
}

/* Finds the inputs of node k that the backward reads: those from which its results are computed. */
static void
find_reads(Halves *h, int k)
{
    const Joint *j = h->j;
    bool *reads = &h->reads[j->first[k]], any = false;
    if (!j->effect[k]) {
        add_reads(h, k, &h->w->bound[k].arg, reads, &any);
    }
    for (int i = 0; !any && i < j->first[k + 1] - j->first[k]; i++) {
        reads[i] = true;
    }
}

/* Inputs of node k that are not used, and are not available, get a stand-in. */
static void
note_unread(Halves *h, int k)
{
    const Joint *j = h->j;
    Walk *w = h->w;
    PyObject *unread = NULL;
    for (int i = j->first[k]; i < j->first[k + 1]; i++) {
        if (h->reads[i] || h->state[stand_in(h, j->inputs[i])] == DONE) {
            continue;
        }
        unread = unread ? unread : own(w, PySet_New(NULL));
        if (PySet_Add(unread, w->bound[j->inputs[i]].node) < 0) {
            python_failed(w);
        }
    }
    if (unread && PyDict_SetItem(h->unread, w->bound[k].node, unread) < 0) {
        python_failed(w);
    }
}

static void
enter(Halves *h, int k)
{
    const Joint *j = h->j;
    k = stand_in(h, k);
    if (h->state[k] != NEW) {
        return;
    }
    if (!j->late[k] && (h->passed[k] || !may_run_again(h, k))) {
        if (h->w->bound[k].arg.kind == ARG_LIST) {
            refuse(h->w, "several results that can only be passed on as one");
        }
        h->passed[k] = true;
        h->state[k] = DONE;
    } else if (j->late[k] && is_op(h, k, "placeholder")) {
        h->state[k] = DONE;
    } else {
        h->state[k] = OPEN;
        find_reads(h, k);
        h->edge[h->depth] = j->first[k];
        h->stack[h->depth++] = k;
    }
}

/* A node of several results is computed again: those that are passed on anyway need not be. */
static void
know_results(Halves *h, int k)
{
    Walk *w = h->w;
    PyObject *known = NULL;
    for (int i = k + 1; i < w->nbound && w->bound[k].arg.kind == ARG_LIST && !h->j->late[k]; i++) {
        if (joint_parent(h->j, i) != k || !h->passed[i]) {
            continue;
        }
        PyObject *args = attr(w, w->bound[i].node, py.name.args);
        known = known ? known : own(w, PyDict_New());
        h->state[i] = DONE;
        if (PyDict_SetItem(known, PyTuple_GET_ITEM(args, 1),
                           attr(w, w->bound[i].node, py.name.name)) < 0) {
            python_failed(w);
        }
    }
    if (known && PyDict_SetItem(h->known, w->bound[k].node, known) < 0) {
        python_failed(w);
    }
}

/* Puts k and the nodes that it needs into the order of the backward, inputs first, without
 * recursion. */
static void
visit(Halves *h, int k)
{
    enter(h, k);
    while (h->depth > 0) {
        int top = h->depth - 1, node = h->stack[top];
        int edge = h->edge[top];
        if (edge < h->j->first[node + 1]) {
            h->edge[top]++;
            if (h->reads[edge]) {
                enter(h, h->j->inputs[edge]);
            }
        } else {
            h->state[node] = DONE;
            h->order[h->norder++] = node;
            know_results(h, node);
            note_unread(h, node);
            h->depth--;
        }
    }
}

static void
find_backward(Halves *h)
{
    const Joint *j = h->j;
    Walk *w = h->w;
    const Cut *cut = j->cut;
    for (int k = 0; k < cut->nsaved; k++) {
        int node = j->node_of[cut->saved[k]->id];
        for (int i = 0; node < 0 && i < w->nbound; i++) {
            node = joint_value(j, i) == cut->saved[k] ? i : node; /* an input that is written to */
        }
        if (node < 0) {
            refuse(w, "a value that the forward pass saves is not that of a node");
        }
        h->passed[node] = true;
    }
    PyObject *wanted = own(w, PySet_New(NULL));
    for (Py_ssize_t k = j->nforward; k < PyTuple_GET_SIZE(j->outputs); k++) {
        PyObject *o = PyTuple_GET_ITEM(j->outputs, k);
        if (is_a(o, py.Node) && PySet_Add(wanted, o) < 0) {
            python_failed(w);
        }
    }
    for (int k = 0; k < w->nbound - 1; k++) {
        int mark = w->npool;
        if ((j->late[k] && j->effect[k]) || PySet_Contains(wanted, w->bound[k].node) == 1) {
            visit(h, k);
        }
        pool_release(w, mark);
    }
    /* A value that the cut saved but that no node of the backward reads is not passed on. */
    for (int k = 0; k < w->nbound; k++) {
        h->passed[k] &= h->state[k] == DONE;
    }
}

/* ---- the forward ---- */

static void
want(Halves *h, PyObject *node)
{
    if (is_a(node, py.Node)) {
        h->here[bound_of(h->w, node) - h->w->bound] = true;
    }
}

static void
find_forward(Halves *h, PyObject *sizes)
{
    const Joint *j = h->j;
    Walk *w = h->w;
    for (int k = 0; k < j->nforward; k++) {
        want(h, PyTuple_GET_ITEM(j->outputs, k));
    }
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(sizes); k++) {
        want(h, PyList_GET_ITEM(sizes, k));
    }
    for (int k = w->nbound - 2; k >= 0; k--) {
        h->here[k] |= h->passed[k] || (j->effect[k] && !j->late[k]);
        if (h->here[k] && j->late[k]) {
            refuse(w, "a result of the forward pass depends on a gradient");
        }
        for (int i = j->first[k]; h->here[k] && i < j->first[k + 1]; i++) {
            h->here[j->inputs[i]] = true;
        }
    }
}

/* ---- lists for Python ---- */

static void
push(Halves *h, PyObject *list, int k)
{
    if (PyList_Append(list, h->w->bound[k].node) < 0) {
        python_failed(h->w);
    }
}

static void
put(Halves *h, PyObject *result, const char *key, PyObject *value)
{
    if (PyDict_SetItemString(result, key, value) < 0) {
        python_failed(h->w);
    }
}

static PyObject *
list_passed(Halves *h, bool numbers)
{
    PyObject *list = own(h->w, PyList_New(0));
    for (int k = 0; k < h->w->nbound; k++) {
        if (h->passed[k] && is_number_like(&h->w->bound[k]) == numbers) {
            push(h, list, k);
        }
    }
    return list;
}

/* With sizes that change the backward needs their symbols, which torch's own functions find. */
static PyObject *
list_sizes(Halves *h, PyObject *saved)
{
    PyObject *sizes = list_passed(h, true);
    if (h->w->fn->nsizes == 0 && PyList_GET_SIZE(sizes) == 0) {
        return sizes;
    }
    sizes = own(h->w, PyObject_CallFunctionObjArgs(h->j->bind, saved, sizes, NULL));
    if (!PyList_Check(sizes)) {
        refuse(h->w, "bind() returned no list");
    }
    return sizes;
}

static PyObject *
list_forward(Halves *h)
{
    PyObject *list = own(h->w, PyList_New(0));
    for (int k = 0; k < h->w->nbound - 1; k++) {
        int mark = h->w->npool;
        if (h->here[k] && !is_op(h, k, "placeholder")) {
            push(h, list, k);
        }
        pool_release(h->w, mark);
    }
    return list;
}

static PyObject *
list_backward(Halves *h)
{
    PyObject *list = own(h->w, PyList_New(0));
    for (int k = 0; k < h->norder; k++) {
        push(h, list, h->order[k]);
    }
    return list;
}

void
joint_halves(Joint *j)
{
    Walk *w = &j->walk;
    size_t n = (size_t)w->nbound + 1;
    Halves h = {
        .j = j,
        .w = w,
        .state = cx_alloc(w->cx, n),
        .passed = cx_alloc(w->cx, n),
        .here = cx_alloc(w->cx, n),
        .stack = cx_alloc(w->cx, n * sizeof(int)),
        .edge = cx_alloc(w->cx, n * sizeof(int)),
        .order = cx_alloc(w->cx, n * sizeof(int)),
        .same = own(w, PyDict_New()),
        .known = own(w, PyDict_New()),
        .unread = own(w, PyDict_New()),
        .reads = cx_alloc(w->cx, (size_t)j->first[w->nbound] + 1),
    };
    find_backward(&h);
    PyObject *result = own(w, PyDict_New()), *saved = list_passed(&h, false);
    PyObject *sizes = list_sizes(&h, saved);
    find_forward(&h, sizes);
    put(&h, result, "saved", saved);
    put(&h, result, "sizes", sizes);
    put(&h, result, "forward", list_forward(&h));
    put(&h, result, "backward", list_backward(&h));
    put(&h, result, "same", h.same);
    put(&h, result, "known", h.known);
    put(&h, result, "unread", h.unread);
    put(&h, result, "bytes", own(w, PyLong_FromLongLong(j->cut->bytes)));
    put(&h, result, "cost", own(w, PyLong_FromLongLong(j->cut->cost)));
    put(&h, result, "recomputed", own(w, PyLong_FromLong(j->cut->recomputed)));
    j->result = Py_NewRef(result);
}
