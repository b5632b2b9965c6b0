/* NumPy arrays as operands and results of dlc.jit. */
#include "capture/arrays/array.h"
#include "jit.h"

#include <string.h>

/* Has the process NumPy?  It has if the object is NumPy's. */
static bool
is_loaded(PyObject *object)
{
    if (!PyArray_API) {
        if (strncmp(Py_TYPE(object)->tp_name, "numpy.", 6) || array_ready() < 0) {
            PyErr_Clear();
            return false;
        }
    }
    return true;
}

bool
numpy_check(PyObject *object)
{
    return is_loaded(object) && PyArray_CheckExact(object);
}

/* ---- scalars ---- */

bool
numpy_is_float(PyObject *object)
{
    return is_loaded(object) && PyArray_IsScalar(object, Floating);
}

bool
numpy_is_generator(PyObject *object)
{
    return strcmp(Py_TYPE(object)->tp_name, "numpy.random._generator.Generator") == 0;
}

PyObject *
numpy_plain(PyObject *object, bool tensors)
{
    if (!numpy_is_float(object)) {
        return Py_NewRef(object);
    }
    if (tensors) {
        return PyNumber_Float(object);
    }
    PyObject *array = PyArray_FromScalar(object, NULL);
    if (array) {
        PyArray_CLEARFLAGS((PyArrayObject *)array, NPY_ARRAY_WRITEABLE);
    }
    return array;
}

int
numpy_same(PyObject *a, PyObject *b)
{
    if (!is_loaded(a) || !PyArray_IsScalar(a, Number) || Py_TYPE(a) != Py_TYPE(b)) {
        return -1;
    }
    PyObject *x = PyArray_FromScalar(a, NULL), *y = PyArray_FromScalar(b, NULL);
    int same = -1;
    if (x && y) {
        const PyArrayObject *of = (PyArrayObject *)x;
        same = memcmp(PyArray_DATA(of), PyArray_DATA((PyArrayObject *)y),
                      (size_t)PyArray_ITEMSIZE(of)) == 0;
    }
    Py_XDECREF(x);
    Py_XDECREF(y);
    PyErr_Clear();
    return same;
}

/* ---- arrays ---- */

/* A number for each of NumPy's unsigned types that the language has no dtype for: a variant of such
 * arrays takes tensors of the same bits.  0 for others. */
static int
wide_unsigned(PyArrayObject *array)
{
    static const int types[] = {NPY_UINT16, NPY_UINT32, NPY_UINT64};
    int k = 0;
    while (k < 3 && !PyArray_EquivTypenums(PyArray_TYPE(array), types[k])) {
        k++;
    }
    return k < 3 ? k + 1 : 0;
}

int
numpy_read(PyObject *object, Taken *out, Dtype *dtype)
{
    PyArrayObject *array = (PyArrayObject *)object;
    PlanTensor *t = &out->tensor;
    *dtype = array_dtype(array);
    int wide = wide_unsigned(array);
    if ((*dtype == DTYPE_COUNT && !wide) || PyArray_NDIM(array) > MAX_RANK) {
        return 1;
    }
    if (wide) {
        *dtype = (Dtype)(DTYPE_COUNT + wide);
    }
    npy_intp item = PyArray_ITEMSIZE(array);
    bool copy = !PyArray_ISNOTSWAPPED(array) || !PyArray_ISALIGNED(array);
    t->object = object;
    t->data = PyArray_DATA(array);
    t->rank = PyArray_NDIM(array);
    for (int ax = 0; ax < t->rank; ax++) {
        npy_intp stride = PyArray_STRIDE(array, ax);
        t->sizes[ax] = PyArray_DIM(array, ax);
        t->strides[ax] = stride / item;
        copy = copy || (t->sizes[ax] > 1 && (stride < 0 || stride % item));
    }
    return copy || wide ? 2 : 0;
}

bool
numpy_is_writeable(PyObject *array)
{
    return PyArray_ISWRITEABLE((PyArrayObject *)array);
}

bool
numpy_is_scalar(PyObject *array)
{
    return PyArray_NDIM((PyArrayObject *)array) == 0 && !numpy_is_writeable(array);
}

PyObject *
numpy_scalar(PyObject *array)
{
    return array && PyArray_CheckExact(array) ? PyArray_Return((PyArrayObject *)array) : array;
}

/* Has NumPy arrays of the dtype?  Their bits are no numbers to a function of arrays. */
static bool
has_arrays(Dtype dtype)
{
    if (dtype == DT_bf16) {
        PyErr_Format(PyExc_TypeError,
                     "NumPy has no arrays of %s, which this function makes of its arguments: give "
                     "it tensors",
                     dtype_info[dtype].name);
    }
    return dtype != DT_bf16;
}

static int
host_alloc(void *arg, Dtype dtype, PlanTensor *out)
{
    return has_arrays(dtype) ? array_host_alloc(arg, dtype, out) : -1;
}

static int
host_view(void *arg, const PlanObject *base, Dtype dtype, int64_t offset, PlanTensor *out)
{
    return has_arrays(dtype) ? array_host_view(arg, base, dtype, offset, out) : -1;
}

static void
host_fault(void *arg, int fault, const char *node, const char *source)
{
    host_functions.fault(arg, fault, node, source);
}

static void
host_leave(void *arg)
{
    host_functions.leave(arg);
}

static void
host_enter(void *arg)
{
    host_functions.enter(arg);
}

const PlanHost numpy_host = {
    .alloc = host_alloc,
    .view = host_view,
    .call = array_host_call,
    .retain = object_retain,
    .release = object_release,
    .fault = host_fault,
    .leave = host_leave,
    .enter = host_enter,
    .tuning = host_tuning,
    .interrupted = interpreter_signals,
};
