/* The arguments of a call of a dlc.jit function: by position, by name, or by default. */
#include <string.h>

#include "jit.h"

const char *
signature_name(const Signature *self)
{
    PyObject *name = PyObject_GetAttrString(self->fn, "__name__");
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    Py_XDECREF(name);           /* fn holds it */
    PyErr_Clear();
    return text ? text : "the function";
}

static int
parameter(const Signature *self, PyObject *name)
{
    for (int k = 0; k < self->nparams; k++) {
        if (PyTuple_GET_ITEM(self->names, k) == name) {
            return k;
        }
    }
    for (int k = 0; k < self->nparams; k++) {
        if (PyUnicode_Compare(PyTuple_GET_ITEM(self->names, k), name) == 0) {
            return k;
        }
    }
    return -1;
}

/* Puts keywords and defaults in their places; bound: borrowed, NULL where nothing was given. */
static int
bind_keywords(const Signature *self, PyObject *const *values, PyObject *kwnames, PyObject **bound)
{
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k);
        int at = parameter(self, name);
        if (at < 0 || bound[at]) {
            PyErr_Format(PyExc_TypeError,
                         at < 0 ? "%s() got an unexpected keyword argument '%U'"
                                : "%s() got multiple values for argument '%U'",
                         signature_name(self), name);
            return -1;
        }
        bound[at] = values[k];
    }
    for (int k = 0; k < self->nparams; k++) {
        bound[k] = bound[k] ? bound[k] : self->defaults[k];
        if (!bound[k]) {
            PyErr_Format(PyExc_TypeError, "%s() missing argument '%U'", signature_name(self),
                         PyTuple_GET_ITEM(self->names, k));
            return -1;
        }
    }
    return 0;
}

int
signature_bind(const Signature *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
               PyObject **bound)
{
    if (nargs > self->npositional) {
        PyErr_Format(PyExc_TypeError, "%s() takes %d positional arguments but %zd were given",
                     signature_name(self), self->npositional, nargs);
        return -1;
    }
    for (int k = 0; k < self->nparams; k++) {
        bound[k] = k < nargs ? args[k] : NULL;
    }
    bool all = nargs == self->nparams && !kwnames;
    return all ? 0 : bind_keywords(self, args + nargs, kwnames, bound);
}

static bool
answers_yes(PyObject *object, const char *method)
{
    PyObject *answer = PyObject_CallMethod(object, method, NULL);
    Py_XDECREF(answer);
    return answer == Py_True;
}

/* Where a tensor's elements are, if that is why it is not taken: new; NULL: that is not why. */
static PyObject *
describe_place(PyObject *object)
{
    PyObject *device = PyObject_GetAttrString(object, "device"),
             *type = device ? PyObject_GetAttrString(device, "type") : NULL,
             *layout = PyObject_GetAttrString(object, "layout"),
             *how = layout ? PyObject_Str(layout) : NULL;
    PyObject *nested = PyObject_GetAttrString(object, "is_nested"), *text = NULL;
    if (type && PyUnicode_Check(type) && PyUnicode_CompareWithASCIIString(type, "meta") == 0) {
        text = PyUnicode_FromString(" on the device meta, which has no values: "
                                    "torch.empty_like(x, device=\"cpu\") makes one that has");
    } else if (type && PyUnicode_Check(type) &&
               PyUnicode_CompareWithASCIIString(type, "cpu") != 0) {
        text = PyUnicode_FromFormat(" on the device %S, of which .cpu() makes a copy", device);
    } else if (how && PyUnicode_CompareWithASCIIString(how, "torch.strided") != 0) {
        text = PyUnicode_FromFormat(" of the layout %U, of which .to_dense() makes a dense one",
                                    how);
    } else if (nested == Py_True) {
        text = PyUnicode_FromString(" that is nested: .unbind() gives the tensors in it");
    } else if (answers_yes(object, "is_conj") || answers_yes(object, "is_neg")) {
        text = PyUnicode_FromString(" that is conjugated or negated when it is read: "
                                    "x.resolve_conj().resolve_neg() does so now");
    }
    Py_XDECREF(device);
    Py_XDECREF(type);
    Py_XDECREF(layout);
    Py_XDECREF(how);
    Py_XDECREF(nested);
    PyErr_Clear();
    return text;
}

/* The reason why a tensor or an array cannot be taken, as a text: new; NULL: there is none. */
static PyObject *
describe_elements(PyObject *object)
{
    PyObject *place = describe_place(object);
    if (place) {
        return place;
    }
    PyObject *rank = PyObject_GetAttrString(object, "ndim"),
             *dtype = PyObject_GetAttrString(object, "dtype");
    PyObject *text = NULL;
    if (rank && PyLong_Check(rank) && PyLong_AsLong(rank) > MAX_RANK) {
        text = PyUnicode_FromFormat(" of %S axes, which are more than %d", rank, MAX_RANK);
    } else if (dtype) {
        text = PyUnicode_FromFormat(" of dtype %S, which dlc does not compile", dtype);
    }
    Py_XDECREF(rank);
    Py_XDECREF(dtype);
    return text;
}

/* Refuses an argument that contains other objects: dlc.jit does not search it for tensors. */
static void
refuse_container(const Signature *self, int at, PyObject *object, const char *inner)
{
    bool tuple = PyTuple_CheckExact(object);
    PyErr_Format(PyExc_TypeError,
                 "%s(): argument '%U' is %s%s; dlc.jit takes tuples of constants (numbers, text, "
                 "None, dtypes) and no other containers: give each tensor or array a parameter of "
                 "its own, f(a, b) instead of f((a, b)); dlc.jit(fn, constants=True) takes any "
                 "object as a constant, in the state of its first call",
                 signature_name(self), PyTuple_GET_ITEM(self->names, at),
                 tuple ? "a tuple that holds an object of type " : "of type ",
                 tuple ? inner : Py_TYPE(object)->tp_name);
}

/* Such as one of JAX or pandas.  NumPy's masked arrays would lose their mask as plain arrays. */
static bool
is_array_of_another_library(PyObject *object)
{
    return PyObject_HasAttrString(object, "__array__") &&
           !PyObject_HasAttrString(object, "__array_finalize__") &&
           !PyObject_HasAttrString(object, "__torch_function__");
}

static void
refuse_argument(const Signature *self, int at, PyObject *object, const Taken *taken,
                const char *why)
{
    bool constant = taken_kind(taken->signature) == TAKE_CONSTANT;
    const char *how =
        "; dlc.jit(fn, constants=True) takes any object as a constant, in the state of its first "
        "call";
    if (at == 0 &&
        PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(self->names, at), "self") == 0) {
        how =
            "; a method is compiled with its object, self.f = dlc.jit(self.f) in __init__, without "
            "the decorator";
    } else if (is_array_of_another_library(object)) {
        how = "; np.asarray(x) makes an array of such an argument x";
    }
    bool elements = strcmp(why, "a tensor") == 0 || strcmp(why, "an array") == 0;
    PyObject *more = elements ? describe_elements(object) : NULL;
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError,
                 "%s(): argument '%U' is %s%s%V; dlc.jit takes dense tensors on the "
                 "CPU, NumPy arrays, numbers, text, None, dtypes, and tuples of constants%s",
                 signature_name(self), PyTuple_GET_ITEM(self->names, at),
                 constant ? "of type " : "", why, more, "", constant ? how : "");
    Py_XDECREF(more);
}

static bool
holds_others(PyObject *object)
{
    return PyTuple_CheckExact(object) || PyList_CheckExact(object) || PyDict_CheckExact(object);
}

static bool
is_traced(const Signature *self, PyObject *argument)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(self->traced); k++) {
        if (Py_IS_TYPE(argument, (PyTypeObject *)PyTuple_GET_ITEM(self->traced, k))) {
            return true;
        }
    }
    return false;
}

int
signature_take(const Signature *self, PyObject *const *bound, Taken *taken)
{
    int tensor = -1, array = -1, generator = -1;
    for (int k = 0; k < self->nparams; k++) {
        const char *why = "";
        taken[k].signature = TAKE_TENSOR;
        int status = take_argument(bound[k], self->plain, &taken[k], &why);
        if (status == TAKING_NUMPY_FLOAT) {
            return status;
        }
        if (status == TAKING_TRANSFORMED ||
            (status == TAKING_REFUSED && is_traced(self, bound[k]))) {
            return 1;
        }
        if (status == TAKING_REFUSED && self->objects &&
            taken_kind(taken[k].signature) == TAKE_CONSTANT) {
            taken[k].signature = TAKE_OBJECT;
            status = 0;
        }
        if (status > 0 && holds_others(bound[k])) {
            refuse_container(self, k, bound[k], why);
        } else if (status > 0) {
            refuse_argument(self, k, bound[k], &taken[k], why);
        }
        if (status != 0) {
            return -1;
        }
        TakeKind kind = taken_kind(taken[k].signature);
        tensor = kind == TAKE_TENSOR ? k : tensor;
        array = kind == TAKE_ARRAY || kind == TAKE_COPY ? k : array;
        generator = kind == TAKE_GENERATOR ? k : generator;
    }
    if (tensor >= 0 && generator >= 0) {
        PyErr_Format(PyExc_TypeError,
                     "%s(): argument '%U' is a generator of NumPy's and argument '%U' a tensor; "
                     "give arrays, or pass what it draws as an argument",
                     signature_name(self), PyTuple_GET_ITEM(self->names, generator),
                     PyTuple_GET_ITEM(self->names, tensor));
        return -1;
    }
    if (tensor >= 0 && array >= 0) {
        PyErr_Format(PyExc_TypeError,
                     "%s(): argument '%U' is a NumPy array and argument '%U' a "
                     "tensor; give all as arrays or all as tensors",
                     signature_name(self), PyTuple_GET_ITEM(self->names, array),
                     PyTuple_GET_ITEM(self->names, tensor));
        return -1;
    }
    return 0;
}

int
signature_init(Signature *self, PyObject *names, int npositional, PyObject *defaults)
{
    self->names = Py_NewRef(names);
    self->nparams = (int)PyTuple_GET_SIZE(names);
    self->npositional = npositional;
    self->defaults = PyMem_Calloc((size_t)self->nparams + 1, sizeof *self->defaults);
    if (!self->defaults) {
        PyErr_NoMemory();
        return -1;
    }
    for (int k = 0; k < self->nparams; k++) {
        PyObject *value = PyDict_GetItemWithError(defaults, PyTuple_GET_ITEM(names, k));
        if (!value && PyErr_Occurred()) {
            return -1;
        }
        self->defaults[k] = Py_XNewRef(value);
    }
    return 0;
}

int
signature_traverse(const Signature *self, visitproc visit, void *arg)
{
    Py_VISIT(self->fn);
    Py_VISIT(self->plain);
    Py_VISIT(self->traced);
    for (int k = 0; self->defaults && k < self->nparams; k++) {
        Py_VISIT(self->defaults[k]);
    }
    return 0;
}

void
signature_clear(Signature *self)
{
    for (int k = 0; self->defaults && k < self->nparams; k++) {
        Py_CLEAR(self->defaults[k]);
    }
    PyMem_Free(self->defaults);
    Py_XDECREF(self->fn);
    Py_XDECREF(self->names);
    Py_XDECREF(self->plain);
    Py_XDECREF(self->traced);
    *self = (Signature){0};
}
