/* The plan's host on NumPy arrays, of loaded programs and of dlc.jit: memory for results, views of
 * them, the interpreter lock. */
#include "array.h"

int
array_host_alloc(void *arg, Dtype dtype, PlanTensor *out)
{
    (void)arg;
    PyObject *array = array_empty(dtype, out->rank, out->sizes, out->strides);
    if (!array) {
        return -1;
    }
    out->object = array;
    out->data = PyArray_DATA((PyArrayObject *)array);
    return 0;
}

int
array_host_view(void *arg, const PlanObject *base, Dtype dtype, int64_t offset, PlanTensor *out)
{
    (void)arg;
    char *data = (char *)base->data + offset * dtype_info[dtype].bytes;
    out->object = array_view(base->object, dtype, out->rank, out->sizes, out->strides, data);
    out->data = data;
    return out->object ? 0 : -1;
}

/* A program of arrays calls no operators, which take tensors: a call is an internal error. */
int
array_host_call(void *arg, int site, int nargs, const PlanTensor *args, int ndims,
                const int64_t *dims, int nres, PlanTensor *results, PlanBinder *binder)
{
    (void)arg, (void)nargs, (void)args, (void)ndims, (void)dims, (void)nres, (void)results;
    (void)binder;
    PyErr_Format(dlc_InternalError, "call %d of an operator in a program that has none", site);
    return -1;
}

static void
host_fault(void *arg, int fault, const char *node, const char *source)
{
    ArrayCall *call = arg;
    if (fault == FAULT_LAYOUT) {
        call->layout = true;
    } else {
        raise_fault(fault, node, source);
    }
}

static void
host_leave(void *arg)
{
    interpreter_leave(&((ArrayCall *)arg)->state);
}

static void
host_enter(void *arg)
{
    interpreter_enter(&((ArrayCall *)arg)->state);
}

const PlanHost array_host = {
    .alloc = array_host_alloc,
    .view = array_host_view,
    .call = array_host_call,
    .retain = object_retain,
    .release = object_release,
    .fault = host_fault,
    .leave = host_leave,
    .enter = host_enter,
    .interrupted = interpreter_signals,
};
