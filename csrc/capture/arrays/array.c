/* NumPy arrays as tensors. */
#define DLC_ARRAY_IMPORTS
#include "array.h"

#include <string.h>

int
array_ready(void)
{
    return PyArray_API ? 0 : _import_array();
}

static const struct {
    int numpy;
    Dtype dtype;
} dtypes[] = {
    {NPY_BOOL, DT_bool}, {NPY_UINT8, DT_u8},   {NPY_INT8, DT_i8},    {NPY_INT16, DT_i16},
    {NPY_INT32, DT_i32}, {NPY_INT64, DT_i64},  {NPY_HALF, DT_f16},   {NPY_UINT16, DT_bf16},
    {NPY_FLOAT, DT_f32}, {NPY_DOUBLE, DT_f64}, {NPY_CFLOAT, DT_c64}, {NPY_CDOUBLE, DT_c128},
};
enum { NDTYPES = sizeof dtypes / sizeof *dtypes };

Dtype
array_dtype(PyArrayObject *array)
{
    /* long and long long may be one dtype under two numbers */
    for (int k = 0; k < NDTYPES; k++) {
        if (PyArray_EquivTypenums(PyArray_TYPE(array), dtypes[k].numpy)) {
            return dtypes[k].dtype;
        }
    }
    return DTYPE_COUNT;
}

static int
numpy_of(Dtype dtype)
{
    int k = 0;
    while (dtypes[k].dtype != dtype) {
        k++;
    }
    return dtypes[k].numpy;
}

static int
refuse(PyArrayObject *array, Py_ssize_t position)
{
    PyErr_Format(PyExc_ValueError,
                 "argument %zd: an array of dtype %R, %d axes and such strides is not supported",
                 position + 1, PyArray_DESCR(array), PyArray_NDIM(array));
    return -1;
}

int
array_describe(PyObject *object, Py_ssize_t position, Tensor *out)
{
    if (!PyArray_Check(object)) {
        PyErr_Format(PyExc_TypeError, "argument %zd is not a NumPy array", position + 1);
        return -1;
    }
    PyArrayObject *array = (PyArrayObject *)object;
    out->dtype = array_dtype(array);
    out->rank = PyArray_NDIM(array);
    out->data = PyArray_DATA(array);
    npy_intp item = PyArray_ITEMSIZE(array);
    bool plain = out->dtype != DTYPE_COUNT && out->rank <= MAX_RANK && PyArray_ISNOTSWAPPED(array);
    for (int ax = 0; ax < out->rank && plain; ax++) {
        out->sizes[ax] = PyArray_DIM(array, ax);
        out->strides[ax] = PyArray_STRIDE(array, ax) / item;
        plain = PyArray_STRIDE(array, ax) % item == 0;
    }
    return plain ? 0 : refuse(array, position);
}

int
array_read(PyObject *object, Py_ssize_t position, Tensor *out)
{
    if (array_describe(object, position, out) < 0) {
        return -1;
    }
    PyArrayObject *array = (PyArrayObject *)object;
    return PyArray_ISALIGNED(array) ? 0 : refuse(array, position);
}

PyObject *
array_aligned(PyObject *array)
{
    PyArrayObject *a = (PyArrayObject *)array;
    return PyArray_ISALIGNED(a) ? Py_NewRef(array) : PyArray_NewCopy(a, NPY_KEEPORDER);
}

PyObject *
array_copy(const Tensor *dense)
{
    npy_intp dims[MAX_RANK];
    for (int ax = 0; ax < dense->rank; ax++) {
        dims[ax] = (npy_intp)dense->sizes[ax];
    }
    PyObject *array = PyArray_SimpleNew(dense->rank, dims, numpy_of(dense->dtype));
    if (array) {
        PyArrayObject *a = (PyArrayObject *)array;
        memcpy(PyArray_DATA(a), dense->data, (size_t)PyArray_NBYTES(a));
    }
    return array;
}

PyObject *
array_view(PyObject *base, Dtype dtype, int rank, const int64_t *sizes, const int64_t *strides,
           void *data)
{
    npy_intp item = dtype_info[dtype].bytes, dims[MAX_RANK], steps[MAX_RANK];
    for (int ax = 0; ax < rank; ax++) {
        dims[ax] = (npy_intp)sizes[ax];
        steps[ax] = (npy_intp)strides[ax] * item;
    }
    bool writeable = base && PyArray_ISWRITEABLE((PyArrayObject *)base);
    int flags = base ? NPY_ARRAY_ALIGNED | (writeable ? NPY_ARRAY_WRITEABLE : 0) : 0;
    PyObject *array = PyArray_New(&PyArray_Type, rank, dims, numpy_of(dtype), steps, data, 0, flags,
                                  NULL);
    /* PyArray_SetBaseObject takes over the reference, also when it fails. */
    if (array && base && PyArray_SetBaseObject((PyArrayObject *)array, Py_NewRef(base)) < 0) {
        Py_CLEAR(array);
    }
    return array;
}

PyObject *
array_empty(Dtype dtype, int rank, const int64_t *sizes, const int64_t *strides)
{
    npy_intp span = 1;
    int64_t elements = 1;
    for (int ax = 0; ax < rank; ax++) {
        elements *= sizes[ax];
        span += sizes[ax] > 1 ? (sizes[ax] - 1) * (npy_intp)strides[ax] : 0;
    }
    if (elements == 0 || span == elements) { /* in any order of its axes */
        return array_view(NULL, dtype, rank, sizes, strides, NULL);
    }
    /* with gaps: a view of a longer one */
    PyObject *memory = PyArray_SimpleNew(1, &span, numpy_of(dtype)), *array = NULL;
    if (memory) {
        array = array_view(memory, dtype, rank, sizes, strides,
                           PyArray_DATA((PyArrayObject *)memory));
        Py_DECREF(memory);
    }
    return array;
}
