/* The plan's host: tensors for its results, calls of eager operators, the interpreter lock. */

#include <string.h>

#include "capture/jit/callable.h"

static int
host_alloc(void *arg, Dtype dtype, PlanTensor *out)
{
    (void)arg;
    return pytensor_empty(dtype, out);
}

/* new: a tensor of rank 0 for an argument that Python gave as a float. */
static PyObject *
float_tensor(const void *number)
{
    PlanTensor made = {0};
    if (pytensor_empty(DT_f64, &made) == 0) {
        memcpy(made.data, number, sizeof(double));
    }
    return made.object;
}

static int
host_view(void *arg, const PlanObject *base, Dtype dtype, int64_t offset, PlanTensor *out)
{
    (void)arg;
    (void)dtype;
    if (base->object) {
        return pytensor_view(base->object, offset, out);
    }
    PyObject *made = float_tensor(base->data);
    int status = made ? pytensor_view(made, offset, out) : -1;
    Py_XDECREF(made);
    return status;
}

static void
host_leave(void *arg)
{
    interpreter_leave(&((HostCall *)arg)->state);
}

static void
host_enter(void *arg)
{
    interpreter_enter(&((HostCall *)arg)->state);
}

/* None instead of the argument in the caller's list. */
static void
host_give_up(void *arg, int param, bool keep)
{
    const HostCall *call = arg;
    if (call->given) {
        PyObject **item = &call->given[call->callable->position[param]];
        PyObject *tensor = *item;
        *item = Py_NewRef(Py_None);
        if (keep) {
            storage_spare(tensor);
        } else {
            storage_forget(tensor);
        }
        Py_DECREF(tensor);
    }
}

static void
host_fault(void *arg, int fault, const char *node, const char *source)
{
    HostCall *call = arg;
    if (fault == FAULT_LAYOUT) {
        call->layout = true;
    } else {
        raise_fault(fault, node, source);
    }
}

/* ---- schedules looked for ---- */

/* None: there is no line.  A line may have any bytes: part of it is of a file. */
static PyObject *
line_text(const char *line)
{
    PyObject *text = line ? PyUnicode_DecodeUTF8(line, (Py_ssize_t)strlen(line), "replace") : NULL;
    if (!text) {
        PyErr_Clear();          /* a report that lacks a line is still a report */
    }
    return text ? text : Py_NewRef(Py_None);
}

static void
report_line(PyObject *report, PyObject *line)
{
    PyObject *lines = report ? PyDict_GetItemString(report, "tuned") : NULL;
    if (lines && line != Py_None && PyList_Append(lines, line) < 0) {
        PyErr_Clear();
    }
}

static int
tell(PyObject *progress, int done, int total, PyObject *line)
{
    PyObject *value = PyObject_CallFunction(progress, "iiO", done, total, line);
    if (!value && PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_WriteUnraisable(progress);        /* showing progress does not stop a call */
        return 0;
    }
    Py_XDECREF(value);
    return value ? 0 : -1;
}

/* Ends the display of progress, and keeps the exception. */
static void
tell_end(PyObject *progress, int total)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (tell(progress, total, total, Py_None) < 0) {
        PyErr_Clear();
    }
    PyErr_Restore(type, value, traceback);
}

int
host_tuning(void *arg, int done, int total, const char *line)
{
    const Callable *callable = ((HostCall *)arg)->callable;
    PyObject *text = line_text(line);
    report_line(callable->report, text);
    bool ends = tell(callable->progress, done, total, text) < 0 || PyErr_CheckSignals() < 0;
    if (ends) {
        tell_end(callable->progress, total);
    }
    Py_DECREF(text);
    return ends ? -1 : 0;
}

/* ---- calls ---- */

typedef struct {
    const PlanTensor *args;
    const int64_t *dims;
    bool recorded; /* autograd would record the call of tensors that require gradients */
} Operands;

static PyObject *fill(PyObject *template, const Operands *with);

/* new: the operand, or the same elements without a gradient, which recording does not see. */
static PyObject *
operand_object(const PlanTensor *tensor, const Operands *with)
{
    PlanTensor alias = *tensor;
    if (!with->recorded || tensor->rank < 0 || !pytensor_check(tensor->object)) {
        return Py_NewRef((PyObject *)tensor->object);
    }
    return pytensor_view(tensor->object, 0, &alias) < 0 ? NULL : alias.object;
}

static PyObject *
fill_sequence(PyObject *template, const Operands *with)
{
    bool tuple = PyTuple_Check(template);
    Py_ssize_t n = tuple ? PyTuple_GET_SIZE(template) : PyList_GET_SIZE(template);
    PyObject *made = tuple ? PyTuple_New(n) : PyList_New(n);
    for (Py_ssize_t k = 0; made && k < n; k++) {
        PyObject *item = tuple ? PyTuple_GET_ITEM(template, k) : PyList_GET_ITEM(template, k);
        PyObject *value = fill(item, with);
        if (!value) {
            Py_CLEAR(made);
        } else if (tuple) {
            PyTuple_SET_ITEM(made, k, value);
        } else {
            PyList_SET_ITEM(made, k, value);
        }
    }
    return made;
}

static PyObject *
fill_dict(PyObject *template, const Operands *with)
{
    PyObject *made = PyDict_New(), *key, *item;
    Py_ssize_t at = 0;
    while (made && PyDict_Next(template, &at, &key, &item)) {
        PyObject *value = fill(item, with);
        if (!value || PyDict_SetItem(made, key, value) < 0) {
            Py_CLEAR(made);
        }
        Py_XDECREF(value);
    }
    return made;
}

static PyObject *
fill_slice(const PySliceObject *template, const Operands *with)
{
    PyObject *start = fill(template->start, with),
             *stop = start ? fill(template->stop, with) : NULL;
    PyObject *step = stop ? fill(template->step, with) : NULL;
    PyObject *made = step ? PySlice_New(start, stop, step) : NULL;
    Py_XDECREF(start);
    Py_XDECREF(stop);
    Py_XDECREF(step);
    return made;
}

/* The template with operands and dims in the places of its slots: new. */
static PyObject *
fill(PyObject *template, const Operands *with)
{
    char kind;
    int index;
    if (slot_check(template, &kind, &index)) {
        if (kind == 'd') {
            return PyLong_FromLongLong(with->dims[index]);
        }
        if (kind == 'b') {
            return PyBool_FromLong(with->dims[index] != 0);
        }
        if (kind == 'f') {
            return PyFloat_FromDouble(*(const double *)with->args[index].data);
        }
        const PlanTensor *tensor = &with->args[index];
        return tensor->object ? operand_object(tensor, with) : float_tensor(tensor->data);
    }
    if (PyTuple_CheckExact(template) || PyList_CheckExact(template)) {
        return fill_sequence(template, with);
    }
    if (PyDict_CheckExact(template)) {
        return fill_dict(template, with);
    }
    if (PySlice_Check(template)) {
        return fill_slice((const PySliceObject *)template, with);
    }
    return Py_NewRef(template);
}

static bool
same_sizes(const PlanTensor *a, const PlanTensor *b)
{
    return a->rank == b->rank &&
           memcmp(a->sizes, b->sizes, (size_t)a->rank * sizeof *a->sizes) == 0;
}

static bool
same_strides(const PlanTensor *a, const PlanTensor *b)
{
    for (int ax = 0; ax < a->rank; ax++) {
        if (a->sizes[ax] > 1 && a->strides[ax] != b->strides[ax]) {
            return false;
        }
    }
    return true;
}

/* A whole number (stolen) as a tensor of rank 0. */
static int
take_number(PyObject *object, PlanTensor *out)
{
    long long value = PyLong_AsLongLong(object);
    Py_DECREF(object);
    *out = (PlanTensor){0};
    if ((value == -1 && PyErr_Occurred()) || pytensor_empty(DT_i64, out) < 0) {
        return -1;
    }
    *(int64_t *)out->data = value;
    return 0;
}

/* As pytensor_read; *as: the dtype, `dtype` or another one of floating point numbers.  Torch's rule
 * for the dtype of a result and its kernel are not always of one mind: running statistics of batch
 * norm in bf16. */
static int
read_result(PyObject *object, Dtype dtype, Dtype *as, PlanTensor *out)
{
    *as = dtype;
    int status = pytensor_read(object, dtype, out);
    for (int k = 0; status < 0 && dtype_info[dtype].class == CLASS_FLOAT && k < DTYPE_COUNT; k++) {
        *as = (Dtype)k;
        status = dtype_info[k].class == CLASS_FLOAT ? pytensor_read(object, *as, out) : -1;
    }
    return status;
}

/* Takes a result of an operator (steals `object`) as *out, which has the expected sizes and strides
 * (a rank of -1: none are expected).  A result with another layout or another floating dtype is
 * copied; other sizes or another class of dtypes are an error. */
static int
take_result(const CallSite *site, PyObject *object, Dtype dtype, PlanTensor *out)
{
    PlanTensor got;
    Dtype as;
    if (PyLong_Check(object) && dtype == DT_i64) {
        return take_number(object, out);
    }
    /* An undefined tensor is None in Python.  If only the caller reads a result, it gets it
     * unchanged. */
    if (out->rank < 0 && object == Py_None) {
        *out = (PlanTensor){.object = object};
        return 0;
    }
    /* None stands for a workspace that the call did not need: it becomes an empty tensor. */
    if (object == Py_None && out->sizes[0] == 0 && out->rank <= 1) {
        Py_DECREF(object);
        out->rank = 1;
        out->strides[0] = 1;
        return pytensor_empty(dtype, out);
    }
    if (out->rank < 0 && pytensor_check(object)) {
        out->object = object;
        return 0;
    }
    if (pytensor_check(object) && !(object = pytensor_resolve(object))) {
        return -1;
    }
    if (out->rank < 0 || !pytensor_check(object) || read_result(object, dtype, &as, &got) < 0 ||
        !same_sizes(&got, out)) {
        PyErr_Format(PyExc_RuntimeError,
                     "dlc: operator %s (%s) gave a result that is not of the dtype "
                     "and shape recorded when the graph was captured",
                     site->node, site->source ? site->source : "source unknown");
        Py_DECREF(object);
        return -1;
    }
    if (as == dtype && same_strides(out, &got)) {
        *out = got;
        return 0;
    }
    int status = pytensor_empty(dtype, out);
    if (status == 0 && pytensor_copy(out->object, object) < 0) {
        Py_CLEAR(out->object);
        status = -1;
    }
    Py_DECREF(object);
    return status;
}

/* The tensor at a position of the operator's return value: borrowed; NULL with an exception. */
static PyObject *
result_at(const CallSite *site, PyObject *value, int position)
{
    PyObject *item = position < 0 ? value : NULL;
    if (position >= 0 && PyTuple_Check(value) && position < PyTuple_GET_SIZE(value)) {
        item = PyTuple_GET_ITEM(value, position);
    } else if (position >= 0 && PyList_Check(value) && position < PyList_GET_SIZE(value)) {
        item = PyList_GET_ITEM(value, position);
    }
    if (!item) {
        PyErr_Format(PyExc_RuntimeError, "dlc: operator %s returned too few results", site->node);
    }
    return item;
}

/* Reports the results of a call that binds sizes to the plan. */
static int
bind_sizes(const CallSite *site, PyObject *value, int nres, PlanTensor *results, PlanBinder *binder)
{
    for (int k = 0; k < nres; k++) {
        PyObject *item = result_at(site, value, site->positions[k]);
        PlanTensor got = {0};
        if (item && PyLong_Check(item)) {
            got.sizes[0] = PyLong_AsLongLong(item);
        } else if (item &&
                   (!pytensor_check(item) || pytensor_read(item, site->dtypes[k], &got) < 0)) {
            PyErr_Format(PyExc_RuntimeError, "dlc: operator %s gave a result of another dtype",
                         site->node);
        } else if (item && got.rank == 0 && site->dtypes[k] == DT_i64) {
            got.sizes[0] = *(const int64_t *)got.data;
        }
        if (!item || PyErr_Occurred() || plan_bind(binder, k, &got) < 0) {
            return -1;
        }
    }
    return plan_bound(binder, results);
}

static int
take_results(const CallSite *site, PyObject *value, int nres, PlanTensor *results)
{
    for (int k = 0; k < nres; k++) {
        PyObject *item = result_at(site, value, site->positions[k]);
        if (!item || take_result(site, Py_NewRef(item), site->dtypes[k], &results[k]) < 0) {
            while (k-- > 0) {
                Py_CLEAR(results[k].object);
            }
            return -1;
        }
    }
    return 0;
}

/* Calls the target; some kernels keep the values that their gradient reads only while gradients are
 * recorded. */
static PyObject *
call_target(const CallSite *site, PyObject *positional, PyObject *keywords)
{
    bool was = site->recorded && pytensor_grad_mode(true);
    PyObject *value = PyObject_Call(site->function, positional, keywords);
    if (site->recorded) {
        pytensor_grad_mode(was);
    }
    return value;
}

static int
host_call(void *arg, int number, int nargs, const PlanTensor *args, int ndims, const int64_t *dims,
          int nres, PlanTensor *results, PlanBinder *binder)
{
    HostCall *call = arg;
    if (number < 0 || number >= call->callable->captured.nsites) {
        PyErr_Format(dlc_InternalError, "the program has no call %d", number);
        return -1;
    }
    const CallSite *site = &call->callable->captured.sites[number];
    const Operands with = {args, dims, site->recorded};
    (void)nargs;
    (void)ndims;
    int done = site->product && !binder ? product_run(call, site, args, results) : 0;
    if (done) {
        return done < 0 ? -1 : 0;
    }
    PyObject *positional = fill(site->args, &with), *keywords = NULL, *value = NULL;
    int status = -1;
    if (positional && (!site->kwargs || (keywords = fill(site->kwargs, &with)))) {
        value = call_target(site, positional, keywords);
    }
    if (value && (!binder || bind_sizes(site, value, nres, results, binder) == 0)) {
        status = take_results(site, value, nres, results);
    }
    Py_XDECREF(positional);
    Py_XDECREF(keywords);
    Py_XDECREF(value);
    return status;
}

const PlanHost host_functions = {
    .alloc = host_alloc,
    .view = host_view,
    .call = host_call,
    .retain = object_retain,
    .release = object_release,
    .give_up = host_give_up,
    .fault = host_fault,
    .leave = host_leave,
    .enter = host_enter,
    .tuning = host_tuning,
    .interrupted = interpreter_signals,
    .is_watched = range_wanted,
    .begin = range_begin,
    .end = range_end,
};
