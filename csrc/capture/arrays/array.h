/* NumPy arrays as tensors, and the plan's host on them.  None of it needs torch. */
#ifndef DLC_CAPTURE_ARRAY_H
#define DLC_CAPTURE_ARRAY_H

#include "capture/capture.h"

/* One table of NumPy's functions for the folder and ndarray.c; array.c fills it. */
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL dlc_numpy_functions
#ifndef DLC_ARRAY_IMPORTS
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

/* Imports NumPy when it is first called; -1 with an exception.  Nothing below works before. */
int array_ready(void);
/* DTYPE_COUNT when there is none; 16-bit integers without sign are the bits of bf16. */
Dtype array_dtype(PyArrayObject *array);
/* The array as it is in memory; position: of the argument, for messages.  -1 with an exception. */
int array_read(PyObject *object, Py_ssize_t position, Tensor *out);
/* the same of one that may begin at any byte: nobody may read its elements through it then */
int array_describe(PyObject *object, Py_ssize_t position, Tensor *out);
/* new: the array, or a copy of one whose elements do not lie where their dtype wants them */
PyObject *array_aligned(PyObject *array);
/* new: an array with a copy of the elements of a dense tensor */
PyObject *array_copy(const Tensor *dense);
/* new: an array of t's sizes and strides, in memory of its own whose elements are not set */
PyObject *array_empty(Dtype dtype, int rank, const int64_t *sizes, const int64_t *strides);
/* new: the same over memory that is base's, an array, which it keeps; as writable as base is.  Base
 * and data NULL: over memory of its own, without gaps. */
PyObject *array_view(PyObject *base, Dtype dtype, int rank, const int64_t *sizes,
                     const int64_t *strides, void *data);

/* ---- array_host.c ---- */

typedef struct ArrayCall {
    PyThreadState *state;
    bool layout; /* the plan was not compiled for such sizes or strides: no exception is set */
} ArrayCall;

/* Results and workspaces are arrays, and there is nobody to call.  arg: an ArrayCall. */
extern const PlanHost array_host;
/* Its functions that dlc.jit has, too; see PlanHost. */
int array_host_alloc(void *arg, Dtype dtype, PlanTensor *out);
int array_host_view(void *arg, const PlanObject *base, Dtype dtype, int64_t offset,
                    PlanTensor *out);
int array_host_call(void *arg, int site, int nargs, const PlanTensor *args, int ndims,
                    const int64_t *dims, int nres, PlanTensor *results, PlanBinder *binder);

/* ---- loaded.c: _C.Loaded, a program that runs on arrays ---- */

int loaded_register(PyObject *module);

#endif
