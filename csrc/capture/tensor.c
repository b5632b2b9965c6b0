/* torch tensors as the plan sees them, by the C functions that libtorch exports (torch_abi.h).
 *
 * A handle of libtorch's C interface is an at::Tensor *, and a Python tensor holds an at::Tensor at a fixed
 * offset, so that a tensor is read without a conversion.  torch_init() finds the offset and refuses when
 * it is not where it should be. */

#include <string.h>

#include "module.h"
#include "torch_abi.h"

/* The exact types taken; borrowed from torch, which is never unloaded. */
static PyTypeObject *tensor_type, *parameter_type;

bool
pytensor_check(PyObject *object)
{
    return Py_TYPE(object) == tensor_type || Py_TYPE(object) == parameter_type;
}

bool
pytensor_ready(void)
{
    return tensor_type != NULL;
}

static int
failed(void)
{
    PyErr_SetString(PyExc_RuntimeError, torch_abi_error());
    return -1;
}

int
pytensor_read(PyObject *tensor, Dtype dtype, PlanTensor *out)
{
    void *handle = torch_abi_handle(tensor);
    int64_t rank, *sizes, *strides;
    int32_t scalar_type, device;
    if (torch_abi.aoti_torch_get_dtype(handle, &scalar_type) || scalar_type != dtype_info[dtype].torch ||
        torch_abi.aoti_torch_get_device_type(handle, &device) || device != 0 ||
        torch_abi.aoti_torch_get_dim(handle, &rank) || rank > MAX_RANK ||
        torch_abi.aoti_torch_get_sizes(handle, &sizes) ||
        torch_abi.aoti_torch_get_strides(handle, &strides) ||
        torch_abi.aoti_torch_get_data_ptr(handle, &out->data)) {
        return -1;
    }
    out->object = tensor;
    out->rank = (int)rank;
    for (int ax = 0; ax < rank; ax++) {
        out->sizes[ax] = sizes[ax];
        out->strides[ax] = strides[ax];
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

/* Dense row-major strides of a tensor without elements as torch has them: an empty axis counts as one
 * long. */
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
pytensor_view(const PlanTensor *base, int64_t offset, PlanTensor *out)
{
    void *handle;
    if (torch_abi.aoti_torch__reinterpret_tensor(torch_abi_handle(base->object), out->rank, out->sizes,
                                                 out->strides, offset, &handle)) {
        return failed();
    }
    return take_handle(handle, out);
}

int
pytensor_copy(PyObject *to, PyObject *from)
{
    return torch_abi.aoti_torch_copy_(torch_abi_handle(to), torch_abi_handle(from), 0) ? failed() : 0;
}

bool
pytensor_grad_mode(bool on)
{
    bool was = torch_abi.aoti_torch_grad_mode_is_enabled();
    torch_abi.aoti_torch_grad_mode_set_enabled(on);
    return was;
}

PyDoc_STRVAR(init_doc,
"torch_init(Tensor, Parameter, sample)\n\n"
"Finds libtorch's C functions, where a Python tensor keeps its at::Tensor, and that its storage.\n"
"sample: any tensor.\n"
"Raises ImportError when this version of torch is not one dlc can read.");

static PyObject *
torch_init(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *tensor, *parameter, *sample;
    if (!PyArg_ParseTuple(args, "O!O!O", &PyType_Type, &tensor, &PyType_Type, &parameter, &sample)) {
        return NULL;
    }
    if (torch_abi_init(sample) < 0) {
        return NULL;
    }
    storage_init(sample);
    Py_XSETREF(tensor_type, (PyTypeObject *)Py_NewRef(tensor));
    Py_XSETREF(parameter_type, (PyTypeObject *)Py_NewRef(parameter));
    Py_RETURN_NONE;
}

static PyMethodDef tensor_methods[] = {
    {"torch_init", torch_init, METH_VARARGS, init_doc},
    {NULL},
};

int
pytensor_register(PyObject *module)
{
    return PyModule_AddFunctions(module, tensor_methods);
}
