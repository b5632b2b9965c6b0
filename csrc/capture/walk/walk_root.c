/* The root of each node: the node that owns its storage.
 *
 * In a graph of overloads, the schemas show which of them make views. In a graph from Dynamo, the
 * fake tensors show it: they share storage whenever eager's tensors do. A lazily negated or
 * conjugated tensor is a root of its own, because its elements are computed. */
#include "walk.h"

#include <string.h>

/* For a view that only the fake tensors show: the first input in the same storage. */
static Bound *
viewed_storage(Walk *w, const Bound *at)
{
    PyObject *inputs = attr(w, at->node, py.name.all_input_nodes);
    for (Py_ssize_t k = 0; k < PyList_Size(inputs); k++) {
        Bound *from = bound_of(w, PyList_GET_ITEM(inputs, k));
        if (from->root == at->root && is_a(from->val, py.Tensor)) {
            return from;
        }
    }
    return NULL;
}

/* The node that a view is of: the aliased argument, by position or by name. */
Bound *
viewed(Walk *w, const Bound *at)
{
    const Overload *o = at->overload;
    if (w->direct) {
        return viewed_storage(w, at);
    }
    PyObject *args = attr(w, at->node, py.name.args);
    PyObject *a = o->alias < PyTuple_GET_SIZE(args)
                      ? PyTuple_GET_ITEM(args, o->alias)
                      : PyDict_GetItem(attr(w, at->node, py.name.kwargs), o->names[o->alias]);
    return is_a(a, py.Node) ? bound_of(w, a) : NULL;
}

/* A complex tensor as the real one of its parts, or back. */
static bool
is_complex_view(const Overload *o)
{
    return strcmp(o->name, "aten.view_as_real.default") == 0 ||
           strcmp(o->name, "aten.view_as_complex.default") == 0;
}

static bool
same_storage(Walk *w, const Bound *a, const Bound *b)
{
    if (!is_a(a->val, py.Tensor) || !is_a(b->val, py.Tensor)) {
        return true;
    }
    if (attr(w, a->val, py.name.dtype) != attr(w, b->val, py.name.dtype)) {
        return is_complex_view(a->overload);    /* any other is not a view that strides can say */
    }
    return !a->overload->maybe_alias ||
           own(w, PyObject_CallFunctionObjArgs(py.is_alias_of, a->val, b->val, NULL)) == Py_True;
}

static bool
is_lazy_view(const Overload *o)
{
    return strcmp(o->name, "aten._conj.default") == 0 ||
           strcmp(o->name, "aten._neg_view.default") == 0;
}

static void
root_find(Walk *w, Bound *at, int position)
{
    at->root = position;
    if (at->overload && is_lazy_view(at->overload)) {
        return;                 /* its elements are computed */
    }
    if (at->overload && at->overload->alias >= 0) {
        const Bound *from = viewed(w, at);
        if (from && same_storage(w, at, from)) {
            at->root = from->root;
        }
    } else if (!at->overload && attr(w, at->node, py.name.target) == py.getitem) {
        PyObject *args = attr(w, at->node, py.name.args);
        const Bound *from = bound_of(w, PyTuple_GET_ITEM(args, 0));
        bool views = from->overload && from->overload->alias >= 0;
        at->root = views ? from->root : position;
    }
}

/* The first node of this key before; -1: there is none. */
static int
known_first(Walk *w, PyObject *storages, PyObject *key)
{
    PyObject *first = PyDict_GetItemWithError(storages, key);
    if (!first && PyErr_Occurred()) {
        python_failed(w);
    }
    return first ? (int)PyLong_AsLong(first) : -1;
}

/* The same, or `position` itself, which is the first one from now on. */
static int
first_of(Walk *w, PyObject *storages, PyObject *key, int position)
{
    int first = known_first(w, storages, key);
    if (first < 0 && PyDict_SetItem(storages, key, own(w, PyLong_FromLong(position))) < 0) {
        python_failed(w);
    }
    return first < 0 ? position : first;
}

static PyObject *
storage_of(Walk *w, PyObject *val)
{
    return attr(w, call0(w, val, py.name.untyped_storage), py.name._cdata);
}

/* The first node in the storage of the first of several tensors.  Where they are new it is the node
 * of that tensor itself, and so for each of the others. */
static int
first_of_several(Walk *w, PyObject *storages, PyObject *several, int position)
{
    int first = known_first(w, storages, storage_of(w, PySequence_Fast_GET_ITEM(several, 0)));
    return first < 0 ? position : first;
}

/* The elements of a lazily negated or conjugated tensor are computed, so the first tensor of those
 * that read a storage lazily is their root. */
static void
root_find_lazy(Walk *w, PyObject *storages, Bound *at, int position)
{
    at->storage = at->root;
    if (at->root == position ||
        !is_lazy(w, at->val, dtype_of(w, attr(w, at->val, py.name.dtype)))) {
        return;
    }
    PyObject *key = own(w, PyTuple_Pack(3, own(w, PyLong_FromLong(at->root)),
                                        call0(w, at->val, py.name.is_neg),
                                        call0(w, at->val, py.name.is_conj)));
    at->root = first_of(w, storages, key, position);
}

/* Dynamo's fake tensors share storage where eager's tensors do; no schema is asked. */
static void
root_find_direct(Walk *w, PyObject *storages, int position)
{
    Bound *at = &w->bound[position];
    PyObject *val = at->val;
    at->root = position;
    if (is_a(val, py.Tensor)) {
        if (attr(w, val, py.name.layout) != py.strided) {
            refuse(w, "the tensor's layout is not torch.strided, and no other one is compiled");
        }
        at->root = first_of(w, storages, storage_of(w, val), position);
        root_find_lazy(w, storages, at, position);
        return;
    } else if (val && (PyTuple_Check(val) || PyList_Check(val)) && PySequence_Fast_GET_SIZE(val) &&
               is_a(PySequence_Fast_GET_ITEM(val, 0), py.Tensor)) {
        at->root = first_of_several(w, storages, val, position);
    }
    at->storage = at->root;
}

PyObject *
outputs_of(Walk *w, const Bound *output)
{
    PyObject *args = attr(w, output->node, py.name.args);
    PyObject *values = PyTuple_GET_ITEM(args, 0);
    bool many = PyTuple_Check(values) || PyList_Check(values);
    return many ? own(w, PySequence_Tuple(values)) : own(w, PyTuple_Pack(1, values));
}

void
roots_find(Walk *w)
{
    PyObject *storages = own(w, PyDict_New());
    for (int k = 0; k < w->nbound; k++) {
        int mark = w->npool;
        if (w->direct) {
            root_find_direct(w, storages, k);
        } else {
            root_find(w, &w->bound[k], k);
            w->bound[k].storage = w->bound[k].root;
        }
        pool_release(w, mark);
    }
    if (w->joint) {
        return;
    }
    int mark = w->npool;
    PyObject *outputs = outputs_of(w, &w->bound[w->nbound - 1]);
    int *first = cx_alloc(w->cx, (size_t)w->nbound * sizeof *first);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(outputs); k++) {
        PyObject *o = PyTuple_GET_ITEM(outputs, k);
        if (is_a(o, py.Node)) {
            const Bound *at = bound_of(w, o);
            int me = (int)(at - w->bound) + 1;
            if (first[at->root] && first[at->root] != me) {
                w->bound[at->root].shared = true;
            }
            first[at->root] = me;
            Bound *root = &w->bound[at->root];
            root->shown = root->overload && strcmp(root->overload->name, "aten.view.dtype") == 0;
        }
    }
    pool_release(w, mark);
}
