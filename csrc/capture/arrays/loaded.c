/* dlc._C.Loaded: a program of the graph stage, compiled, with the arrays of some of its parameters,
 * that runs on NumPy arrays and needs no torch.
 *
 * Of the arrays that are fixed, values that depend on nothing else are computed once, when the
 * object is made.  A program is not trusted: it is verified after every pass, or once if that was
 * done before (verified.c), and one that calls an operator of torch's is refused. */
#include "loaded.h"

#include <malloc.h>
#include <string.h>
#include <structmember.h>

static void
compile_body(Cx *cx, void *arg)
{
    Job *job = arg;
    Fn *fn = loaded_read(cx, job);
    if (!fn) {
        return;
    }
    PassOptions passes = verified_passes(job);
    Fn *kernels = pipeline_run(fn, &passes);
    if (job->verified) {
        verify_fn(kernels);
    }
    job->passes.fuel = passes.fuel;
    job->options.passes = job->passes;
    job->self->plan = plan_build(kernels, &job->options);
    verified_done(job);
    job->self->sizes = PyTuple_New(fn->nsizes);
    for (int k = 0; job->self->sizes && k < fn->nsizes; k++) {
        PyObject *name = PyUnicode_FromString(dim_name(cx, fn->sizes[k]));
        if (!name) {
            Py_CLEAR(job->self->sizes);
            break;
        }
        PyTuple_SET_ITEM(job->self->sizes, k, name);
    }
    job->raised = !job->self->sizes;
}

/* ---- a call ---- */

static int
take_argument(const Loaded *self, int k, PyObject *object, Tensor *store, PlanParam *out)
{
    const ParamInfo *info = &self->params[k];
    if (array_read(object, k, store) < 0) {
        return -1;
    }
    if (store->dtype != info->dtype || store->rank != info->rank) {
        PyErr_Format(PyExc_TypeError, "parameter '%s' takes %s of %d axes, not %s of %d axes",
                     info->name, dtype_info[info->dtype].name, info->rank,
                     dtype_info[store->dtype].name, store->rank);
        return -1;
    }
    *out = param_of(store, object);
    return 0;
}

static int
take_sizes(const Loaded *self, PyObject *given, int64_t *sizes)
{
    for (int k = 0; k < self->nsizes; k++) {
        PyObject *value = given ? PyDict_GetItem(given, PyTuple_GET_ITEM(self->sizes, k)) : NULL;
        sizes[k] = value ? PyLong_AsLongLong(value) : SIZE_UNKNOWN;
        if (value && PyErr_Occurred()) {
            return -1;
        }
    }
    return 0;
}

/* new: by result an array, or an int where it is a size */
static PyObject *
results_of(const Loaded *self, const PlanParam *in, PlanTensor *out)
{
    PyObject *tuple = PyTuple_New(self->nresults);
    for (int k = 0; k < self->nresults; k++) {
        PyObject *item = out[k].object;
        if (self->into[k] >= 0) {
            item = Py_NewRef((PyObject *)in[self->into[k]].of.object);
        } else if (!item && tuple) {
            item = PyLong_FromLongLong(out[k].sizes[0]);
        }
        if (!item || !tuple) {
            Py_XDECREF(item);
            Py_CLEAR(tuple);
        } else {
            PyTuple_SET_ITEM(tuple, k, item);
        }
    }
    return tuple;
}

static int
check_writable(const Loaded *self, const PlanParam *in)
{
    for (int k = 0; k < self->nresults; k++) {
        int of = self->into[k];
        if (of >= 0 && !PyArray_ISWRITEABLE((PyArrayObject *)in[of].of.object)) {
            PyErr_Format(PyExc_ValueError,
                         "the array of parameter '%s' is read-only, and the "
                         "program writes to it",
                         self->params[of].name);
            return -1;
        }
    }
    return 0;
}

typedef struct {
    PlanParam *in;
    PlanTensor *out;
    Tensor *store;
    int64_t *sizes;
} Arguments;

static PyObject *
run(const Loaded *self, PyObject *const *args, PyObject *sizes, const Arguments *a)
{
    ArrayCall call = {NULL, false};
    PlanHost host = array_host;
    host.arg = &call;
    for (int k = 0, at = 0; k < self->nparams; k++) {
        if (self->arrays[k]) {
            a->in[k] = param_of(&self->fixed[k], self->arrays[k]);
        } else if (take_argument(self, k, args[at], &a->store[at], &a->in[k]) < 0) {
            return NULL;
        } else {
            at++;
        }
    }
    if (take_sizes(self, sizes, a->sizes) < 0 || check_writable(self, a->in) < 0) {
        return NULL;
    }
    count_add(COUNT_CALLS, 1);
    if (plan_run(self->plan, &host, a->sizes, a->in, a->out) < 0) {
        return call.layout ? Py_NewRef(Py_None) : NULL;
    }
    return results_of(self, a->in, a->out);
}

/* loaded(*arrays, sizes=None) */
static PyObject *
loaded_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    const Loaded *self = (const Loaded *)object;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf), wants = self->nparams - self->nfixed;
    PyObject *sizes = kwnames && PyTuple_GET_SIZE(kwnames) == 1 ? args[nargs] : NULL;
    if (nargs != wants || (sizes && !PyDict_Check(sizes))) {
        return PyErr_Format(PyExc_TypeError, "the program takes %zd arrays, not %zd", wants, nargs);
    }
    size_t n = (size_t)self->nparams;
    char *memory = PyMem_Calloc(1, n * sizeof(PlanParam) + (size_t)nargs * sizeof(Tensor) +
                                       (size_t)self->nresults * sizeof(PlanTensor) +
                                       (size_t)self->nsizes * sizeof(int64_t) + 1);
    if (!memory) {
        return PyErr_NoMemory();
    }
    Arguments a = {.in = (PlanParam *)memory};
    a.store = (Tensor *)(a.in + n);
    a.out = (PlanTensor *)(a.store + nargs);
    a.sizes = (int64_t *)(a.out + self->nresults);
    PyObject *results = run(self, args, sizes, &a);
    PyMem_Free(memory);
    return results;
}

/* ---- the object ---- */

PyDoc_STRVAR(memory_doc, "memory(sizes) -> (workspace, peak, left) or None\n\n"
                         "What a call takes, in bytes, for a dict of all sizes by name; None: no "
                         "arrays have these sizes.");

static PyObject *
memory(PyObject *object, PyObject *given)
{
    const Loaded *self = (const Loaded *)object;
    PlanMemory found;
    int64_t *values = PyMem_Calloc((size_t)(self->nsizes + self->nparams) + 1, sizeof *values);
    PyObject *made = NULL;
    if (!values) {
        return PyErr_NoMemory();
    }
    if (!PyDict_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "sizes: a dict");
    } else if (take_sizes(self, given, values) == 0) {
        made = plan_memory_for(self->plan, values, &found, values + self->nsizes)
                   ? Py_BuildValue("(LLL)", (long long)found.workspace, (long long)found.peak,
                                   (long long)found.left)
                   : Py_NewRef(Py_None);
    }
    PyMem_Free(values);
    return made;
}

PyDoc_STRVAR(
    loaded_doc,
    "Loaded(text, given, *, tier='auto', cc=None, cache=None, fuel=-1, release=None,\n"
    "       origin=None)\n\n"
    "A program of the graph stage, compiled.  given: a dict of arrays by the names of the\n"
    "parameters that have the same one in every call.  Called with the arrays of the other\n"
    "parameters, in order, and sizes=a dict of the sizes that no array shows, or None.  Gives a\n"
    "tuple, of an array or, for a size, an int by result; or None: the arrays do not have the\n"
    "sizes and strides that the program declares.  release: called without arguments when a value\n"
    "has been computed of given arrays, whose memory is not read again soon.  origin: called\n"
    "without arguments for a text that no other arrays have by these names, or None; with a text,\n"
    "such values are kept in the cache folder.");

bool
loaded_try(Job *job, void (*body)(Cx *cx, void *arg))
{
    Cx *cx = cx_new();
    if (!cx) {
        PyErr_NoMemory();
        return false;
    }
    wait_begin(&job->wait, &job->options.cc);
    log_configure();
    parallel_own();
    bool done = cx_try(cx, body, job);
    if (!done && !PyErr_Occurred()) {
        raise_diag(cx_diag(cx));
    }
    done &= !job->raised && !wait_raise(&job->wait);
    cx_free(cx);
    return done;
}

static PyObject *
loaded_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"text", "given",   "tier",   "cc", "cache",
                            "fuel", "release", "origin", NULL};
    const char *tier = "auto", *cc = NULL, *cache = NULL;
    long long fuel = -1;
    Job job = {.runs = true};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO!|$szzLOO", names, &job.text, &PyDict_Type,
                                     &job.given, &tier, &cc, &cache, &fuel, &job.release,
                                     &job.origin) ||
        compile_mode(tier, &job.options) < 0 || array_ready() < 0) {
        return NULL;
    }
    job.release = job.release == Py_None ? NULL : job.release;
    job.origin = job.origin == Py_None ? NULL : job.origin;
    job.self = (Loaded *)type->tp_alloc(type, 0);
    if (!job.self) {
        return NULL;
    }
    job.self->vectorcall = loaded_call;
    job.passes = (PassOptions){.verify = true, .no_file = true, .fuel = fuel};
    job.options.cc = (CcOptions){.compiler = cc, .cache = cache};
    job.options.keeps = true;
    if (!loaded_try(&job, compile_body)) {
        Py_CLEAR(job.self);
    }
#ifdef __GLIBC__
    if (job.computed) { /* weights and their values passed through the heap: its pages are free */
        malloc_trim(0);
    }
#endif
    count_add(COUNT_GRAPHS, job.self != NULL);
    return (PyObject *)job.self;
}

void
loaded_clear(Loaded *self)
{
    plan_free(self->plan);
    for (int k = 0; k < self->nparams; k++) {
        if (self->arrays) {
            Py_XDECREF(self->arrays[k]);
        }
        if (self->params) {
            PyMem_Free(self->params[k].name);
        }
    }
    PyMem_Free(self->params);
    PyMem_Free(self->fixed);
    PyMem_Free(self->arrays);
    PyMem_Free(self->into);
    Py_XDECREF(self->sizes);
}

static void
loaded_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    loaded_clear((Loaded *)object);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef loaded_methods[] = {
    {"memory", memory, METH_O, memory_doc},
    {NULL},
};

static PyMemberDef loaded_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Loaded, vectorcall), READONLY, NULL},
    {"sizes", T_OBJECT, offsetof(Loaded, sizes), READONLY, "The names of the program's sizes."},
    {NULL},
};

static PyType_Slot loaded_slots[] = {
    {Py_tp_doc, (void *)loaded_doc},
    {Py_tp_new, loaded_new},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_dealloc, loaded_dealloc},
    {Py_tp_members, loaded_members},
    {Py_tp_methods, loaded_methods},
    {0, NULL},
};

static PyType_Spec loaded_spec = {
    .name = "dlc._C.Loaded",
    .basicsize = sizeof(Loaded),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = loaded_slots,
};

int
loaded_register(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &loaded_spec, NULL);
    int status = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
    Py_XDECREF(type);
    return status < 0 ? -1 : prepare_register(module);
}
