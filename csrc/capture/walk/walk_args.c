/* A node's arguments as builders get them: as Arg, in the order of the overload's schema. */
#include "walk.h"

#include <string.h>

static Bound *
bound_at(Walk *w, PyObject *node)
{
    PyObject *at = PyDict_GetItemWithError(w->index, node);
    if (!at) {
        if (PyErr_Occurred()) {
            python_failed(w);
        }
        refuse(w, "an argument is a node that this graph does not have");
    }
    return &w->bound[PyLong_AsLong(at)];
}

Bound *
bound_of(Walk *w, PyObject *node)
{
    Bound *at = bound_at(w, node);
    if (at->version != w->bound[at->root].versions) {
        renew(w, at);
    }
    return at;
}

/* ---- for builders ---- */

static Arg
list_of(Walk *w, PyObject *sequence)
{
    Py_ssize_t n = PySequence_Fast_GET_SIZE(sequence);
    PyObject **items = PySequence_Fast_ITEMS(sequence);
    Arg *args = cx_alloc(w->cx, (size_t)(n + 1) * sizeof *args);
    for (Py_ssize_t k = 0; k < n; k++) {
        args[k] = arg_of(w, items[k]);
    }
    return (Arg){.kind = ARG_LIST, .n = (int)n, .items = args};
}

static Arg
int_arg(PyObject *o)
{
    int overflow;
    int64_t i = PyLong_AsLongLongAndOverflow(o, &overflow);
    return overflow ? (Arg){.kind = ARG_OTHER} : (Arg){.kind = ARG_INT, .i = i};
}

Arg
arg_of(Walk *w, PyObject *o)
{
    if (is_a(o, py.Node)) {
        return bound_of(w, o)->arg;
    }
    if (o == Py_None) {
        return (Arg){.kind = ARG_NONE};
    }
    if (PyBool_Check(o)) {
        return (Arg){.kind = ARG_BOOL, .i = o == Py_True};
    }
    if (PyLong_Check(o)) {
        return int_arg(o);
    }
    if (PyFloat_Check(o)) {
        return (Arg){.kind = ARG_FLOAT, .f = PyFloat_AS_DOUBLE(o)};
    }
    if (PyComplex_Check(o)) {
        Py_complex z = PyComplex_AsCComplex(o);
        return (Arg){.kind = ARG_COMPLEX, .f = z.real, .im = z.imag};
    }
    if (PyList_Check(o) || PyTuple_Check(o)) {
        return list_of(w, o);
    }
    if (is_a(o, py.SymInt)) {
        return (Arg){.kind = ARG_DIM, .d = dim_of(w, o)};
    }
    if (is_a(o, py.torch_dtype)) {
        Dtype dtype = dtype_of(w, o);
        return (Arg){.kind = dtype == DTYPE_COUNT ? ARG_OTHER : ARG_DTYPE, .dtype = dtype};
    }
    if (PyUnicode_Check(o)) {
        return (Arg){.kind = ARG_TEXT, .text = utf8(w, o)};
    }
    return (Arg){.kind = ARG_OTHER};
}

const Arg *
args_of(Walk *w, const Bound *at, int *n)
{
    const Overload *o = at->overload;
    PyObject *args = attr(w, at->node, py.name.args), *kwargs = attr(w, at->node, py.name.kwargs);
    Py_ssize_t given = PyTuple_Size(args), named = PyDict_Size(kwargs);
    *n = o->nargs;
    Arg *out = cx_copy(w->cx, o->defaults, (size_t)o->nargs * sizeof *out);
    if (given < 0 || named < 0 || given > o->nargs) {
        refuse(w, "its arguments do not match the schema of the operator");
    }
    for (Py_ssize_t k = 0; k < given; k++) {
        out[k] = arg_of(w, PyTuple_GET_ITEM(args, k));
    }
    for (int k = (int)given; named && k < o->nargs; k++) {
        PyObject *value = PyDict_GetItemWithError(kwargs, o->names[k]);
        if (value) {
            out[k] = arg_of(w, value);
        } else if (PyErr_Occurred()) {
            python_failed(w);
        }
    }
    return out;
}
