/* torch tensors as the plan sees them, by the C functions that libtorch exports (torch_abi.h).
 *
 * A handle of libtorch's C interface is an at::Tensor *, and a Python tensor holds an at::Tensor at
 * a fixed offset, so that a tensor is read without a conversion.  torch_init() finds the offset and
 * refuses when it is not where it should be. */

#include <string.h>

#include "capture/module.h"
#include "capture/aten/aten.h"
#include "torch_abi.h"

/* Where a TensorImpl has its dispatch keys, and the keys of a tensor that is lazily negated or
 * conjugated. */
static ptrdiff_t keys_at;
static uint64_t lazy_keys;
/* The keys of an ordinary tensor of the CPU: one without others is there too, as a key says
 * where. */
static uint64_t cpu_keys;
/* A key that only tensors of inference mode lack. */
static uint64_t plain_key;

bool
pytensor_check(PyObject *object)
{
    return Py_TYPE(object) == torch_known.tensor_type ||
           Py_TYPE(object) == torch_known.parameter_type;
}

bool
pytensor_ready(void)
{
    return torch_known.tensor_type != NULL;
}

static int
failed(void)
{
    PyErr_SetString(PyExc_RuntimeError, torch_abi_error());
    return -1;
}

char *
pytensor_implementation(PyObject *tensor)
{
    return *(char **)torch_abi_handle(tensor);
}

size_t
pytensor_fields(void)
{
    return (size_t)keys_at + sizeof(uint64_t);
}

uint64_t
pytensor_keys(PyObject *tensor)
{
    uint64_t keys;
    memcpy(&keys, pytensor_implementation(tensor) + keys_at, sizeof keys);
    return keys;
}

bool
pytensor_is_lazy(PyObject *tensor)
{
    return (pytensor_keys(tensor) & lazy_keys) != 0;
}

/* Is a level of forward mode entered? Outside of them the level is negative. */
bool
pytensor_forward_mode(void)
{
    const TorchKnown *known = &torch_known;
    PyObject *level = PyDict_GetItemWithError(known->forward_ad, known->level_name);
    return !level || !PyLong_Check(level) || PyLong_AsLong(level) >= 0;
}

int
pytensor_has_tangent(PyObject *tensor)
{
    const TorchKnown *known = &torch_known;
    PyObject *unpack = PyDict_GetItemWithError(known->forward_ad, known->unpack_name);
    PyObject *pair = unpack ? PyObject_CallOneArg(unpack, tensor) : NULL;
    PyObject *tangent = pair ? PySequence_GetItem(pair, 1) : NULL;
    int has = !tangent ? -1 : tangent != Py_None;
    Py_XDECREF(pair);
    Py_XDECREF(tangent);
    return has;
}

int
pytensor_is_frozen(PyObject *tensor)
{
    if (pytensor_keys(tensor) & plain_key) {
        return 0;
    }
    PyObject *on = PyObject_CallNoArgs(torch_known.is_inference_mode);
    int frozen = !on ? -1 : on != Py_True;
    Py_XDECREF(on);
    return frozen;
}

PyObject *
pytensor_resolve(PyObject *tensor)
{
    static const char *const methods[] = {"resolve_conj", "resolve_neg"};
    for (int k = 0; tensor && pytensor_is_lazy(tensor) && k < 2; k++) {
        Py_SETREF(tensor, PyObject_CallMethod(tensor, methods[k], NULL));
    }
    return tensor;
}

/* Has its storage the element that is `last` after its first one?  A storage may have been made
 * smaller. */
static bool
is_inside(void *handle, int64_t last, int bytes)
{
    int64_t offset, size;
    return torch_abi.aoti_torch_get_storage_offset(handle, &offset) == 0 &&
           torch_abi.aoti_torch_get_storage_size(handle, &size) == 0 &&
           (offset + last + 1) * bytes <= size;
}

static bool
is_on_cpu(PyObject *tensor, void *handle)
{
    int32_t device;
    return (pytensor_keys(tensor) & ~cpu_keys) == 0 ||
           (torch_abi.aoti_torch_get_device_type(handle, &device) == 0 && device == 0);
}

int
pytensor_param(PyObject *tensor, Dtype dtype, PlanParam *out)
{
    void *handle = torch_abi_handle(tensor);
    int64_t rank, *sizes, *strides;
    int32_t scalar_type;
    if (torch_abi.aoti_torch_get_dtype(handle, &scalar_type) ||
        scalar_type != dtype_info[dtype].torch || !is_on_cpu(tensor, handle) ||
        torch_abi.aoti_torch_get_dim(handle, &rank) || rank > MAX_RANK ||
        torch_abi.aoti_torch_get_sizes(handle, &sizes) ||
        torch_abi.aoti_torch_get_strides(handle, &strides) ||
        torch_abi.aoti_torch_get_data_ptr(handle, &out->of.data)) {
        return -1;
    }
    out->of.object = tensor;
    out->rank = (int)rank;
    out->sizes = sizes;
    out->strides = strides;
    int64_t last = 0;
    bool empty = false;
    for (int ax = 0; ax < rank; ax++) {
        last += (sizes[ax] - 1) * strides[ax];
        empty |= sizes[ax] == 0;
    }
    return empty || is_inside(handle, last, dtype_info[dtype].bytes) ? 0 : -1;
}

int
pytensor_read(PyObject *tensor, Dtype dtype, PlanTensor *out)
{
    PlanParam param;
    if (pytensor_param(tensor, dtype, &param) < 0) {
        return -1;
    }
    out->object = tensor;
    out->data = param.of.data;
    out->rank = param.rank;
    for (int ax = 0; ax < param.rank; ax++) {
        out->sizes[ax] = param.sizes[ax];
        out->strides[ax] = param.strides[ax];
    }
    return 0;
}

/* Wraps an owned handle as a Python tensor, out->object, and releases the handle. */
static int
take_handle(void *handle, PlanTensor *out)
{
    out->object = torch_abi.wrap(handle);
    int status = out->object && torch_abi.aoti_torch_get_data_ptr(handle, &out->data) == 0 ? 0 : -1;
    torch_abi.aoti_torch_delete_tensor_object(handle);
    if (status < 0) {
        Py_XDECREF((PyObject *)out->object);
        out->object = NULL;
        return PyErr_Occurred() ? -1 : failed();
    }
    return 0;
}

/* Dense row-major strides of a tensor without elements as torch has them: an empty axis counts as
 * one long. */
static void
fix_empty(PlanTensor *t)
{
    int64_t full = 1, known = 1, strides[MAX_RANK];
    for (int ax = t->rank - 1; ax >= 0; ax--) {
        if (t->strides[ax] != full) {
            return;
        }
        strides[ax] = known;
        full *= t->sizes[ax];
        known *= t->sizes[ax] > 1 ? t->sizes[ax] : 1;
    }
    if (full == 0) {
        memcpy(t->strides, strides, (size_t)t->rank * sizeof *strides);
    }
}

int
pytensor_empty(Dtype dtype, PlanTensor *out)
{
    void *handle;
    fix_empty(out);
    if (storage_new(dtype, out, &handle)) {
        return failed();
    }
    return take_handle(handle, out);
}

int
pytensor_unpooled(Dtype dtype, PlanTensor *out)
{
    void *handle;
    fix_empty(out);
    if (storage_unpooled(dtype, out, &handle)) {
        return failed();
    }
    return take_handle(handle, out);
}

int
pytensor_view(PyObject *base, int64_t offset, PlanTensor *out)
{
    void *handle;
    if (torch_abi.aoti_torch__reinterpret_tensor(torch_abi_handle(base), out->rank, out->sizes,
                                                 out->strides, offset, &handle)) {
        return failed();
    }
    return take_handle(handle, out);
}

/* Returns the sizes or strides as a new tuple. */
static PyObject *
int_tuple(const int64_t *values, int n)
{
    PyObject *tuple = PyTuple_New(n);
    for (int k = 0; tuple && k < n; k++) {
        PyObject *item = PyLong_FromLongLong(values[k]);
        if (!item) {
            Py_CLEAR(tuple);
        } else {
            PyTuple_SET_ITEM(tuple, k, item);
        }
    }
    return tuple;
}

int
pytensor_alias(PyObject *tensor, int64_t offset, PlanTensor *out)
{
    int64_t start;
    if (torch_abi.aoti_torch_get_storage_offset(torch_abi_handle(tensor), &start)) {
        return failed();
    }
    PyObject *sizes = int_tuple(out->sizes, out->rank);
    PyObject *strides = sizes ? int_tuple(out->strides, out->rank) : NULL;
    out->object = strides ? PyObject_CallMethod(tensor, "as_strided", "OOL", sizes, strides,
                                                (long long)(start + offset))
                          : NULL;
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    if (out->object &&
        torch_abi.aoti_torch_get_data_ptr(torch_abi_handle(out->object), &out->data)) {
        Py_CLEAR(*(PyObject **)&out->object);
        return failed();
    }
    return out->object ? 0 : -1;
}

int
pytensor_copy(PyObject *to, PyObject *from)
{
    return torch_abi.aoti_torch_copy_(torch_abi_handle(to), torch_abi_handle(from), 0) ? failed()
                                                                                       : 0;
}

bool
pytensor_grad_mode(bool on)
{
    bool was = torch_abi.aoti_torch_grad_mode_is_enabled();
    torch_abi.aoti_torch_grad_mode_set_enabled(on);
    return was;
}

/* Where all of the samples hold their dispatch keys; -1: nowhere.  They are the last field, and
 * nothing behind them is read, because it may not be theirs. */
static ptrdiff_t
find_keys(PyObject *samples)
{
    for (ptrdiff_t at = 0; at + 8 <= MOST_FIELDS; at += 8) {
        bool all = true;
        for (Py_ssize_t k = 0; all && k < PyList_GET_SIZE(samples); k++) {
            PyObject *pair = PyList_GET_ITEM(samples, k);
            uint64_t keys;
            memcpy(&keys, pytensor_implementation(PyTuple_GET_ITEM(pair, 0)) + at, sizeof keys);
            all = keys == PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(pair, 1));
        }
        if (all) {
            return at;
        }
    }
    return -1;
}

static bool
are_samples(PyObject *samples, PyTypeObject *type)
{
    bool good = PyList_GET_SIZE(samples) > 2;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(samples) && good; k++) {
        PyObject *pair = PyList_GET_ITEM(samples, k);
        good = PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2 &&
               Py_TYPE(PyTuple_GET_ITEM(pair, 0)) == type &&
               PyLong_Check(PyTuple_GET_ITEM(pair, 1));
    }
    return good;
}

PyDoc_STRVAR(
    init_doc,
    "torch_init(Tensor, Parameter, samples, lazy, plain, is_inference_mode, forward_ad, "
    "float8_overflows, hidden=())\n\n"
    "Finds libtorch's C functions, where a Python tensor keeps its at::Tensor, and that its "
    "storage and its\n"
    "dispatch keys.  samples: [(tensor, dispatch keys), ..], more than two that are unlike, an\n"
    "ordinary one of the CPU first;\n"
    "lazy: the keys of tensors that are negated or conjugated when they are read; plain: one that "
    "only tensors of\n"
    "inference mode lack; is_inference_mode: torch's function; forward_ad: the dict of "
    "torch.autograd.forward_ad;\n"
    "float8_overflows: are numbers that are too large for float8_e4m3fn NaN?\n"
    "hidden: names of torch_abi.def to do without, as if this torch lacked them.\n"
    "Raises ImportError when this version of torch is not one dlc can read.");

static PyObject *
torch_init(PyObject *Py_UNUSED(module), PyObject *args)
{
    TorchKnown *known = &torch_known;
    PyObject *tensor, *parameter, *samples, *inference, *forward, *hidden = NULL;
    unsigned long long lazy, plain;
    int overflows;
    if (!PyArg_ParseTuple(args, "O!O!O!KKOO!p|O!", &PyType_Type, &tensor, &PyType_Type, &parameter,
                          &PyList_Type, &samples, &lazy, &plain, &inference, &PyDict_Type, &forward,
                          &overflows, &PyTuple_Type, &hidden)) {
        return NULL;
    }
    Py_XSETREF(known->level_name, PyUnicode_InternFromString("_current_level"));
    Py_XSETREF(known->unpack_name, PyUnicode_InternFromString("unpack_dual"));
    if (!known->level_name || !known->unpack_name) {
        return NULL;
    }
    if (!PyDict_Contains(forward, known->level_name) ||
        !PyDict_Contains(forward, known->unpack_name)) {
        PyErr_SetString(PyExc_ImportError,
                        "dlc: this torch keeps its forward mode elsewhere than dlc expects");
        return NULL;
    }
    if (!are_samples(samples, (PyTypeObject *)tensor)) {
        return PyErr_Format(PyExc_TypeError, "samples are pairs of a tensor and dispatch keys");
    }
    PyObject *sample = PyTuple_GET_ITEM(PyList_GET_ITEM(samples, 0), 0);
    PyObject *names = hidden ? Py_NewRef(hidden) : PyTuple_New(0);
    int found = names ? torch_abi_init(sample, names) : -1;
    Py_XDECREF(names);
    if (found < 0) {
        return NULL;
    }
    keys_at = find_keys(samples);
    lazy_keys = lazy;
    plain_key = plain;
    float8_overflows = overflows;
    Py_XSETREF(known->is_inference_mode, Py_NewRef(inference));
    Py_XSETREF(known->forward_ad, Py_NewRef(forward));
    if (keys_at < 0) {
        PyErr_SetString(PyExc_ImportError,
                        "dlc: this torch keeps its dispatch keys elsewhere than dlc expects");
        return NULL;
    }
    cpu_keys = pytensor_keys(sample);
    storage_init(sample);
    state_init(sample);
    Py_XSETREF(known->tensor_type, (PyTypeObject *)Py_NewRef(tensor));
    Py_XSETREF(known->parameter_type, (PyTypeObject *)Py_NewRef(parameter));
    Py_RETURN_NONE;
}

PyDoc_STRVAR(lacks_doc, "torch_lacks() -> [(what, without), ..]\n\n"
                        "What torch_init did not find in this torch, and what is done without it.");

static PyObject *
torch_lacks(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return torch_abi_lacking();
}

static PyMethodDef tensor_methods[] = {
    {"torch_init", torch_init, METH_VARARGS, init_doc},
    {"torch_lacks", torch_lacks, METH_NOARGS, lacks_doc},
    {NULL},
};

int
pytensor_register(PyObject *module)
{
    return PyModule_AddFunctions(module, tensor_methods);
}
