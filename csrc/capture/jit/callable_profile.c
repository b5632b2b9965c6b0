/* Callable.profile(): the times of the steps of the fastest call, and all sizes. */

#include "callable.h"

/* new: (value, ..) of `n` made one by one by `make`. */
static PyObject *
tuple_of(int n, PyObject *(*make)(const void *arg, int k), const void *arg)
{
    PyObject *items = PyTuple_New(n);
    for (int k = 0; items && k < n; k++) {
        PyObject *item = make(arg, k);
        if (!item) {
            Py_CLEAR(items);
        } else {
            PyTuple_SET_ITEM(items, k, item);
        }
    }
    return items;
}

static PyObject *
int_at(const void *array, int k)
{
    return PyLong_FromLong(((const int *)array)[k]);
}

static PyObject *
size_at(const void *array, int k)
{
    return PyLong_FromLongLong(((const int64_t *)array)[k]);
}

static PyObject *
step_at(const void *arg, int k)
{
    static const char *const tiers[] = {"none", "tcc", "gcc", "tuned"};
    const Callable *self = arg;
    ProfileStep step;
    call_profile_step(self->profile, k, &step);
    if (step.site >= 0) {
        step.node = self->captured.sites[step.site].node;
        step.source = self->captured.sites[step.site].source;
    }
    return Py_BuildValue("{sssisisdsssLsLszszszsNsN}", "kind", step.kind, "kernel", step.kernel,
                         "site", step.site, "seconds", step.seconds, "tier", tiers[step.tier],
                         "extent", (long long)step.extent, "operations", (long long)step.operations,
                         "node", step.node, "source", step.source, "symbol", step.symbol, "slots",
                         tuple_of(step.nslots, int_at, step.slots), "results",
                         tuple_of(step.nresults, int_at, step.results));
}

static PyObject *
slot_at(const void *arg, int k)
{
    ProfileSlot slot;
    call_profile_slot(((const Callable *)arg)->profile, k, &slot);
    return Py_BuildValue("{sssssisLsN}", "kind", slot.kind, "dtype", dtype_info[slot.dtype].name,
                         "root", slot.root, "bytes", (long long)slot.bytes, "sizes",
                         tuple_of(slot.rank, size_at, slot.sizes));
}

/* new: what each size was, by its name. */
static PyObject *
sizes_dict(const Callable *self, int n)
{
    PyObject *dict = PyDict_New();
    for (int k = 0; dict && k < n; k++) {
        int64_t size;
        const char *name = call_profile_size(self->profile, k, &size);
        PyObject *value = PyLong_FromLongLong(size);
        if (!value || PyDict_SetItemString(dict, name, value) < 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *
position_at(const void *arg, int k)
{
    const Callable *self = arg;
    for (int j = 0; j < self->captured.ninputs; j++) {
        const InputSpec *spec = &self->captured.inputs[j];
        if (spec->kind == INPUT_TENSOR && spec->index == self->written[k]) {
            return PyLong_FromLong(j);
        }
    }
    return PyLong_FromLong(-1);
}

/* new: the memory of a call, and the bytes of the arguments that it frees, by position. */
static PyObject *
memory_dict(const Callable *self, const PlanMemory *found, const int64_t *given)
{
    PyObject *bytes = PyDict_New();
    for (int k = 0; bytes && k < self->nparams; k++) {
        PyObject *at = given[k] ? PyLong_FromLong(self->position[k]) : NULL;
        PyObject *value = at ? PyLong_FromLongLong(given[k]) : NULL;
        if (given[k] && (!value || PyDict_SetItem(bytes, at, value) < 0)) {
            Py_CLEAR(bytes);
        }
        Py_XDECREF(at);
        Py_XDECREF(value);
    }
    return bytes ? Py_BuildValue("{sLsLsLsN}", "workspace", (long long)found->workspace, "peak",
                                 (long long)found->peak, "left", (long long)found->left, "given",
                                 bytes)
                 : NULL;
}

/* Reads a dict of bytes by call site, or None; -1: an exception. */
static int
read_inside(const Callable *self, PyObject *dict, int64_t *inside)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (dict != Py_None && PyDict_Next(dict, &at, &key, &value)) {
        long site = PyLong_AsLong(key);
        if (!PyErr_Occurred() && (site < 0 || site >= self->captured.nsites)) {
            PyErr_SetString(PyExc_IndexError, "the graph has no such call");
        }
        int64_t bytes = PyErr_Occurred() ? -1 : PyLong_AsLongLong(value);
        if (PyErr_Occurred()) {
            return -1;
        }
        inside[site] = bytes;
    }
    return 0;
}

/* Returns the memory that the profiled call used, a new reference. */
static PyObject *
memory_profiled(const Callable *self, PyObject *dict)
{
    size_t n = (size_t)self->captured.nsites;
    int64_t *inside = PyMem_Calloc(n + (size_t)self->nparams + 1, sizeof *inside),
            *given = inside + n;
    PyObject *made = NULL;
    PlanMemory found;
    if (!inside) {
        return PyErr_NoMemory();
    }
    if (read_inside(self, dict, inside) == 0) {
        call_profile_memory(self->profile, inside, &found, given);
        made = memory_dict(self, &found, given);
    }
    PyMem_Free(inside);
    return made;
}

PyDoc_STRVAR(
    profile_doc,
    "profile(begin=False, inside=None) -> dict or None\n\n"
    "What the steps of the fastest call took, in seconds, and the bytes of everything; None where "
    "no call was\n"
    "measured: only callables with a report measure.  written: the positions of the inputs that a "
    "call writes to.\n"
    "begin: forget the calls so far.  inside: a dict of the bytes that calls of operators take\n"
    "besides their results, by 'site' of their steps, which then count in 'memory'.");

static PyObject *
profile(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"begin", "inside", NULL};
    const Callable *self = (const Callable *)object;
    ProfileSummary sum;
    PyObject *inside = Py_None;
    int begin = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|pO", names, &begin, &inside)) {
        return NULL;
    }
    if (inside != Py_None && !PyDict_Check(inside)) {
        PyErr_SetString(PyExc_TypeError, "inside: a dict or None");
        return NULL;
    }
    if (!self->profile || !call_profile_summary(self->profile, &sum)) {
        Py_RETURN_NONE;
    }
    PyObject *made = Py_BuildValue(
        "{sLsdsNsNsNsNsN}", "calls", (long long)sum.calls, "seconds", sum.seconds, "memory",
        memory_profiled(self, inside), "steps", tuple_of(sum.nsteps, step_at, self), "slots",
        tuple_of(sum.nslots, slot_at, self), "sizes", sizes_dict(self, sum.nsizes), "written",
        tuple_of(self->nwritten, position_at, self));
    if (begin) {
        call_profile_begin(self->profile);
    }
    return made;
}

PyDoc_STRVAR(
    memory_doc,
    "memory(sizes) -> dict or None\n\n"
    "What a call takes, in bytes: 'workspace'; 'peak', the most at once of the workspace, tensors\n"
    "that the call makes and those that it was given to free; 'left', results that are new;\n"
    "'given', a dict of the positions of arguments that a call with a list frees.  sizes: a dict\n"
    "by name, see sizes.  None: no tensors have these sizes.");

static PyObject *
memory(PyObject *object, PyObject *sizes)
{
    const Callable *self = (const Callable *)object;
    size_t n = (size_t)self->nsizes;
    int64_t *values = PyMem_Calloc(n + (size_t)self->nparams + 1, sizeof *values);
    PyObject *made = NULL;
    PlanMemory found;
    if (!values) {
        return PyErr_NoMemory();
    }
    for (int k = 0; k < self->nsizes && !PyErr_Occurred(); k++) {
        PyObject *value = PyObject_GetItem(sizes, PyTuple_GET_ITEM(self->sizes, k));
        values[k] = value ? PyLong_AsLongLong(value) : 0;
        Py_XDECREF(value);
    }
    if (!PyErr_Occurred()) {
        bool fits = plan_memory_for(self->plan, values, &found, values + n);
        made = fits ? memory_dict(self, &found, values + n) : Py_NewRef(Py_None);
    }
    PyMem_Free(values);
    return made;
}

PyMethodDef callable_profile_methods[] = {
    {"memory", memory, METH_O, memory_doc},
    {"profile", (PyCFunction)(void (*)(void))profile, METH_VARARGS | METH_KEYWORDS, profile_doc},
    {NULL},
};
