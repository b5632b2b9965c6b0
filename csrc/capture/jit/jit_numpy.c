/* NumPy arrays as operands and results of dlc.jit. */
#include "jit.h"

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>
#include <string.h>

/* NumPy has no bfloat16, and torch's unsigned types beyond 8 bits have no place in the language. */
static const struct {
    int numpy;
    Dtype dtype;
} dtypes[] = {
    {NPY_FLOAT, DT_f32}, {NPY_DOUBLE, DT_f64}, {NPY_BOOL, DT_bool},    {NPY_UINT8, DT_u8},
    {NPY_INT8, DT_i8},   {NPY_INT16, DT_i16},  {NPY_INT32, DT_i32},    {NPY_INT64, DT_i64},
    {NPY_HALF, DT_f16},  {NPY_CFLOAT, DT_c64}, {NPY_CDOUBLE, DT_c128},
};
enum { NDTYPES = sizeof dtypes / sizeof *dtypes };

/* Has the process NumPy?  It has if the object is NumPy's. */
static bool
is_loaded(PyObject *object)
{
    if (!PyArray_API) {
        if (strncmp(Py_TYPE(object)->tp_name, "numpy.", 6) || _import_array() < 0) {
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

int
numpy_read(PyObject *object, Taken *out, Dtype *dtype)
{
    PyArrayObject *array = (PyArrayObject *)object;
    PlanTensor *t = &out->tensor;
    int k = 0;
    while (k < NDTYPES && !PyArray_EquivTypenums(PyArray_TYPE(array), dtypes[k].numpy)) {
        k++;
    }
    if (k == NDTYPES || PyArray_NDIM(array) > MAX_RANK) {
        return 1;
    }
    npy_intp item = PyArray_ITEMSIZE(array);
    bool copy = !PyArray_ISNOTSWAPPED(array) || !PyArray_ISALIGNED(array);
    *dtype = dtypes[k].dtype;
    t->object = object;
    t->data = PyArray_DATA(array);
    t->rank = PyArray_NDIM(array);
    for (int ax = 0; ax < t->rank; ax++) {
        npy_intp stride = PyArray_STRIDE(array, ax);
        t->sizes[ax] = PyArray_DIM(array, ax);
        t->strides[ax] = stride / item;
        copy = copy || (t->sizes[ax] > 1 && (stride < 0 || stride % item));
    }
    return copy ? 2 : 0;
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

/* NumPy's number of the dtype; -1 with an exception: it has none. */
static int
number_of(Dtype dtype)
{
    for (int k = 0; k < NDTYPES; k++) {
        if (dtypes[k].dtype == dtype) {
            return dtypes[k].numpy;
        }
    }
    PyErr_Format(PyExc_TypeError,
                 "NumPy has no arrays of %s, which this function makes of its arguments: give it "
                 "tensors",
                 dtype_info[dtype].name);
    return -1;
}

/* new: an array over the memory at data, which base keeps; data NULL: over memory of its own. */
static PyObject *
array_new(const PlanTensor *like, Dtype dtype, void *data, PyObject *base)
{
    npy_intp dims[MAX_RANK], strides[MAX_RANK];
    for (int ax = 0; ax < like->rank; ax++) {
        dims[ax] = (npy_intp)like->sizes[ax];
        strides[ax] = (npy_intp)like->strides[ax] * dtype_info[dtype].bytes;
    }
    int writable = base && PyArray_ISWRITEABLE((PyArrayObject *)base) ? NPY_ARRAY_WRITEABLE : 0;
    int number = number_of(dtype);
    PyObject *array = number < 0 ? NULL
                                 : PyArray_New(&PyArray_Type, like->rank, dims, number, strides,
                                               data, 0, data ? writable : 0, NULL);
    if (array && base && PyArray_SetBaseObject((PyArrayObject *)array, Py_NewRef(base)) < 0) {
        Py_CLEAR(array);
    }
    return array;
}

/* Elements between the first and the last one, both counted. */
static int64_t
span(const PlanTensor *t, int64_t *elements)
{
    int64_t last = 0;
    *elements = 1;
    for (int ax = 0; ax < t->rank; ax++) {
        *elements *= t->sizes[ax];
        last += (t->sizes[ax] - 1) * t->strides[ax];
    }
    return *elements ? last + 1 : 0;
}

static int
host_alloc(void *arg, Dtype dtype, PlanTensor *out)
{
    int64_t elements;
    (void)arg;
    if (span(out, &elements) == elements) {
        out->object = array_new(out, dtype, NULL, NULL);
    } else { /* with gaps: a view of a longer one */
        PlanTensor flat = {.rank = 1, .sizes = {span(out, &elements)}, .strides = {1}};
        PyObject *base = array_new(&flat, dtype, NULL, NULL);
        void *data = base ? PyArray_DATA((PyArrayObject *)base) : NULL;
        out->object = base ? array_new(out, dtype, data, base) : NULL;
        Py_XDECREF(base);
    }
    out->data = out->object ? PyArray_DATA((PyArrayObject *)out->object) : NULL;
    return out->object ? 0 : -1;
}

static int
host_view(void *arg, const PlanObject *base, Dtype dtype, int64_t offset, PlanTensor *out)
{
    (void)arg;
    out->data = (char *)base->data + offset * dtype_info[dtype].bytes;
    out->object = array_new(out, dtype, out->data, base->object);
    return out->object ? 0 : -1;
}

/* A graph of arrays calls no operators, because these take tensors. */
static int
host_call(void *arg, int site, int nargs, const PlanTensor *args, int ndims, const int64_t *dims,
          int nres, PlanTensor *results, PlanBinder *binder)
{
    (void)arg, (void)nargs, (void)args, (void)ndims, (void)dims, (void)nres, (void)results;
    (void)binder;
    PyErr_Format(dlc_InternalError, "call site %d of a graph for NumPy arrays", site);
    return -1;
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
    .call = host_call,
    .retain = object_retain,
    .release = object_release,
    .fault = host_fault,
    .leave = host_leave,
    .enter = host_enter,
    .tuning = host_tuning,
    .interrupted = interpreter_signals,
};
