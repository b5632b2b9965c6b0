/* Calls that write to their first argument, replaced by a twin that computes the written value.
 *
 * The IR has no writes, and a call of the eager operator in it must not write either: the twin
 * makes a new tensor, and write_value() gives it to the argument.  Twins that draw random numbers
 * lay them out in memory as eager does, since that is the order in which it draws. */
#include "walk.h"

#include <string.h>

/* Replaces x.scatter_(..) by x.scatter(..), and other methods likewise. */
static void
method_twin(Bound *at)
{
    PyObject *methods = ((PyTypeObject *)py.TensorBase)->tp_dict;
    at->twin.target = PyDict_GetItemString(methods, at->torch->name);
}

/* Replaces x.uniform_(0, 1) by drawn("uniform_", dtype, sizes, strides, 0, 1). */
static void
drawn_twin(Walk *w, Bound *at)
{
    PyObject *sizes = own(w, PySequence_Tuple(call0(w, at->val, py.name.size)));
    PyObject *strides = own(w, PySequence_Tuple(call0(w, at->val, py.name.stride)));
    PyObject *of = own(w, PyTuple_Pack(4, attr(w, at->node, py.name.target),
                                       attr(w, at->val, py.name.dtype), sizes, strides));
    PyObject *args = attr(w, at->node, py.name.args);
    PyObject *rest = own(w, PyTuple_GetSlice(args, 1, PyTuple_Size(args)));
    at->twin = (Twin){.target = py.drawn, .args = own(w, PySequence_Concat(of, rest))};
}

/* dropout(x, 0.5, inplace=True): dropout(x, 0.5).  `inplace` is a function's last parameter. */
static void
plain_twin(Walk *w, Bound *at, int inplace)
{
    PyObject *args = attr(w, at->node, py.name.args);
    PyObject *kwargs = own(w, PyDict_Copy(attr(w, at->node, py.name.kwargs)));
    if (PyDict_GetItemWithError(kwargs, py.name.inplace) &&
        PyDict_DelItem(kwargs, py.name.inplace) < 0) {
        python_failed(w);
    }
    at->twin = (Twin){.target = attr(w, at->node, py.name.target),
                      .args = own(w, PyTuple_GetSlice(args, 0, inplace)),
                      .kwargs = kwargs};
}

bool
twin_find(Walk *w, Bound *at)
{
    const TorchRow *row = at->torch;
    int inplace = torch_inplace(row);
    if (at->writes && strchr(row->in, 'w')) {
        method_twin(at);
    } else if (at->writes && strchr(row->in, 'r')) {
        drawn_twin(w, at);
    } else if (!at->writes && inplace >= 0 && torch_may_call(row)) {
        plain_twin(w, at, inplace);
    }
    return at->twin.target != NULL;
}
