/* Reads the arguments of a call, each once: see Note [What may be taken]. */
#include "jit.h"

#include <string.h>

#include "capture/torch/torch_abi.h"

/* ---- torch tensors: fields of c10::TensorImpl, found by jit_init ---- */

/* Written once, by jit_init.  plain: the dispatch keys of an ordinary tensor and of one made in
 * inference mode; transforms: keys that a tensor has inside of torch.func's transforms alone;
 * the offset of the pointer that is NULL where no gradient is kept. */
static struct {
    ptrdiff_t gradient;
    uint64_t plain[2], transforms;
    PyObject *requires_grad;                            /* its name */
} layout;

static bool
has_gradient(PyObject *tensor)
{
    return *(void **)(pytensor_implementation(tensor) + layout.gradient) != NULL;
}

static int
wants_gradient(PyObject *tensor)
{
    if (!has_gradient(tensor) || !torch_abi.aoti_torch_grad_mode_is_enabled()) {
        return 0;
    }
    PyObject *answer = PyObject_GetAttr(tensor, layout.requires_grad);
    Py_XDECREF(answer);
    return answer ? answer == Py_True : -1;
}

static uint32_t
signature_of(TakeKind kind, Dtype dtype, int rank)
{
    return (uint32_t)kind | (uint32_t)dtype << 8 | (uint32_t)rank << 16;
}

static Dtype
dtype_of_torch(int32_t number)
{
    int d = 0;
    while (d < DTYPE_COUNT && dtype_info[d].torch != number) {
        d++;
    }
    return (Dtype)d;
}

static int
take_tensor(PyObject *tensor, Taken *out, const char **why)
{
    uint64_t keys = pytensor_keys(tensor);
    int32_t number;
    int64_t rank;
    if (keys != layout.plain[0] && keys != layout.plain[1]) {
        *why = "a tensor";
        return keys & layout.transforms ? TAKING_TRANSFORMED : TAKING_REFUSED;
    }
    if (has_gradient(tensor) && pytensor_forward_mode()) {
        return TAKING_TRANSFORMED;
    }
    void *handle = torch_abi_handle(tensor);
    if (torch_abi.aoti_torch_get_dtype(handle, &number) ||
        torch_abi.aoti_torch_get_dim(handle, &rank)) {
        PyErr_SetString(PyExc_RuntimeError, torch_abi_error());
        return -1;
    }
    Dtype dtype = dtype_of_torch(number);
    if (dtype == DTYPE_COUNT || rank > MAX_RANK || pytensor_read(tensor, dtype, &out->tensor) < 0) {
        *why = "a tensor";
        return 1;
    }
    int gradient = wants_gradient(tensor);
    out->signature = signature_of(TAKE_TENSOR, dtype, (int)rank) | (gradient > 0 ? TAKEN_GRAD : 0);
    return gradient < 0 ? -1 : 0;
}

static int
take_array(PyObject *array, Taken *out, const char **why)
{
    Dtype dtype;
    int status = numpy_read(array, out, &dtype);
    if (status == 1) {
        *why = "an array";
        return 1;
    }
    out->signature = signature_of(status ? TAKE_COPY : TAKE_ARRAY, dtype, out->tensor.rank) |
                     (numpy_is_scalar(array) ? TAKEN_SCALAR : 0);
    return 0;
}

/* ---- constants ---- */

/* 1, or 0 with the type that is not allowed. */
static int
is_constant(PyObject *object, PyObject *plain, const char **why)
{
    if (PyTuple_CheckExact(object)) {
        int all = 1;
        for (Py_ssize_t k = 0; all && k < PyTuple_GET_SIZE(object); k++) {
            PyObject *item = PyTuple_GET_ITEM(object, k);
            all = PyFloat_CheckExact(item) || is_constant(item, plain, why);
        }
        return all;
    }
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(plain); k++) {
        if (Py_IS_TYPE(object, (PyTypeObject *)PyTuple_GET_ITEM(plain, k))) {
            return 1;
        }
    }
    *why = Py_TYPE(object)->tp_name;
    return 0;
}

int
same_constant(PyObject *a, PyObject *b)
{
    if (a == b) {
        return 1;
    }
    if (Py_TYPE(a) != Py_TYPE(b)) {
        return 0;
    }
    if (PyFloat_CheckExact(a)) { /* the bits: 0.0 is not -0.0, nan is nan */
        double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
        return memcmp(&x, &y, sizeof x) == 0;
    }
    if (!PyTuple_CheckExact(a)) {
        int same = numpy_same(a, b);
        return same < 0 ? PyObject_RichCompareBool(a, b, Py_EQ) : same;
    }
    int same = PyTuple_GET_SIZE(a) == PyTuple_GET_SIZE(b);
    for (Py_ssize_t k = 0; same == 1 && k < PyTuple_GET_SIZE(a); k++) {
        same = same_constant(PyTuple_GET_ITEM(a, k), PyTuple_GET_ITEM(b, k));
    }
    return same;
}

int
take_argument(PyObject *object, PyObject *plain, Taken *out, const char **why)
{
    out->object = object;
    if (pytensor_check(object)) {
        return take_tensor(object, out, why);
    }
    if (PyFloat_CheckExact(object)) {
        out->signature = TAKE_FLOAT;
        out->number = PyFloat_AS_DOUBLE(object);
        return 0;
    }
    if (numpy_check(object)) {
        return take_array(object, out, why);
    }
    if (numpy_is_float(object)) {
        return TAKING_NUMPY_FLOAT;
    }
    if (numpy_is_generator(object)) {
        out->signature = TAKE_GENERATOR;
        return 0;
    }
    out->signature = TAKE_CONSTANT;
    return !is_constant(object, plain, why);
}

uint32_t
torch_state(void)
{
    uint32_t state = (uint8_t)torch_abi.default_dtype();
    if (torch_abi.is_autocast(0)) {
        state |= 1u << 8 | (uint32_t)(uint8_t)torch_abi.autocast_dtype(0) << 16;
    }
    return state;
}

bool
torch_watches(void)
{
    return torch_abi.function_modes() > 0 || torch_abi.dispatch_modes() > 0;
}

/* ---- jit_init ---- */

/* Finds the one pointer of a tensor that is NULL until it requires a gradient. */
static ptrdiff_t
find_gradient(PyObject *fresh)
{
    char before[MOST_FIELDS];
    ptrdiff_t found = -1, end = (ptrdiff_t)pytensor_fields();
    memcpy(before, pytensor_implementation(fresh), end);
    PyObject *done = PyObject_CallMethod(fresh, "requires_grad_", NULL);
    if (!done) {
        return -1;
    }
    Py_DECREF(done);
    for (ptrdiff_t at = 0; at + 8 <= end; at += 8) {
        uint64_t was, is;
        memcpy(&was, before + at, sizeof was);
        memcpy(&is, pytensor_implementation(fresh) + at, sizeof is);
        if (was == 0 && is != 0) {
            if (found >= 0) {
                return -1;
            }
            found = at;
        }
    }
    return found;
}

static bool
has_functions(void)
{
    return torch_abi.default_dtype && torch_abi.is_autocast && torch_abi.autocast_dtype &&
           torch_abi.function_modes && torch_abi.dispatch_modes;
}

static PyObject *
jit_init(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *fresh;
    unsigned long long plain[2], transforms;
    if (!PyArg_ParseTuple(args, "(KK)OK", &plain[0], &plain[1], &fresh, &transforms)) {
        return NULL;
    }
    layout.gradient = pytensor_check(fresh) ? find_gradient(fresh) : -1;
    layout.requires_grad = PyUnicode_InternFromString("requires_grad");
    layout.transforms = transforms;
    if (!layout.requires_grad) {
        return NULL;
    }
    if (layout.gradient < 0 || !has_functions()) {
        PyErr_SetString(PyExc_ImportError,
                        "dlc.jit: this torch keeps its tensors in another way "
                        "than dlc expects; torch.compile(fn, backend=\"dlc\") works without that");
        return NULL;
    }
    layout.plain[0] = plain[0];
    layout.plain[1] = plain[1];
    Py_RETURN_NONE;
}

PyMethodDef jit_args_methods[] = {
    {"jit_init", jit_init, METH_VARARGS,
     PyDoc_STR(
         "jit_init(plain, fresh, transforms): finds what dlc.jit reads of "
         "tensors, after torch_init.  plain: the dispatch keys of an ordinary tensor and of one of "
         "inference mode; fresh: an ordinary one, which is made to require a gradient; "
         "transforms: dispatch keys of torch.func's.")},
    {NULL},
};

/* Note [What may be taken]
 *
 * A graph is captured for ordinary tensors.  Everything else that looks like a tensor (sparse,
 * on another device, quantised, conjugated or negated when it is read, a batch of vmap, under a
 * dispatch mode of its own) has other dispatch keys than an ordinary tensor, so one comparison
 * of the word with those keys excludes them all; those of torch.func's transforms and of forward
 * mode are for the function itself to take.  libtorch's C functions do not give the word; it is
 * read where torch_init found it, by looking for the values that torch says several unlike tensors
 * have.  The pointer to what autograd keeps is found likewise: it is the one that appears when a
 * tensor is told to require a gradient. */
