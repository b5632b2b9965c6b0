/* dlc._C.Loaded: a program of the graph stage, compiled, with the arrays of some of its parameters,
 * that runs on NumPy arrays and needs no torch.
 *
 * Of the arrays that are fixed, values that depend on nothing else are computed once, when the
 * object is made.  A program is not trusted: it is verified after every pass, and one that calls an
 * operator of torch's is refused. */
#include "array.h"

#include "capture/module.h"

#include <string.h>
#include <structmember.h>

typedef struct {
    Dtype dtype;
    int rank;
    char *name; /* PyMem; NULL: a prepared value */
} ParamInfo;

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    Plan *plan;
    ParamInfo *params;
    Tensor *fixed; /* by parameter, as its array is in memory */
    PyObject **arrays; /* by parameter: the array that is fixed, owned; NULL: of the call */
    int *into; /* by result: the parameter that it goes into; -1: it is new */
    PyObject *sizes; /* tuple of names */
    int nparams, nfixed, nresults, nsizes;
} Loaded;

/* ---- compiling ---- */

typedef struct {
    const char *text;
    PyObject *given; /* dict: the name of a parameter to its array */
    PassOptions passes;
    CompileOptions options;
    Loaded *self;
    bool raised; /* a Python exception is set */
    Wait wait;
} Job;

static void *
room(Cx *cx, int n, size_t size)
{
    void *memory = PyMem_Calloc((size_t)n + 1, size);
    if (!memory) {
        fail(cx, DIAG_MEMORY, (size_t)n * size);
    }
    return memory;
}

static void
refuse_call(void *arg, Let *let)
{
    Cx *cx = arg;
    if (let->op == OP_call) {
        fail(cx, DIAG_CALL_WITHOUT_TORCH, let_str(let, "target"));
    }
    for (int k = 0; k < let->nbodies; k++) {
        fn_each_let(let->bodies[k], refuse_call, arg);
    }
}

static Fn *
read_program(Cx *cx, const char *text)
{
    Fn *fn = parse_fn(cx, text, "program");
    verify_fn(fn);
    if (fn->stage != STAGE_GRAPH) {
        fail(cx, DIAG_NOT_GRAPH, stage_name(fn->stage));
    }
    fn_each_let(fn, refuse_call, cx);
    return fn;
}

/* Fills in what calls need of the program as it was read. */
static void
describe(Cx *cx, Loaded *self, const Fn *fn)
{
    self->nparams = fn->nparams;
    self->nsizes = fn->nsizes;
    self->nresults = fn->body->nrets;
    self->into = room(cx, self->nresults, sizeof *self->into);
    for (int k = 0; k < self->nresults; k++) {
        self->into[k] = fn->results[k].kind == RESULT_INTO ? fn->results[k].of : -1;
    }
}

/* Does the array have the dtype, and the sizes that the program states? */
static bool
fits(const Fn *fn, const Type *type, const Tensor *array)
{
    bool does = array->dtype == type->dtype && array->rank == type->rank;
    for (int ax = 0; does && ax < type->rank; ax++) {
        int64_t size;
        does = !dim_is_int(fn->cx, type->dims[ax], &size) || size == array->sizes[ax];
    }
    return does;
}

/* Room for the parameters and the values that are prepared, and the arrays that are fixed; by
 * parameter, whether it is. */
static bool *
take_arrays(Cx *cx, Job *job, const Fn *fn)
{
    Loaded *self = job->self;
    bool *frozen = cx_alloc(cx, (size_t)(fn->nparams + 1) * sizeof *frozen);
    self->params = room(cx, fn->nparams, sizeof *self->params);
    self->fixed = room(cx, fn->nparams, sizeof *self->fixed);
    self->arrays = room(cx, fn->nparams, sizeof *self->arrays);
    for (int k = 0; k < fn->nparams; k++) {
        const Value *param = fn->params[k];
        ParamInfo *info = &self->params[k];
        *info = (ParamInfo){param->type->dtype, param->type->rank, NULL};
        info->name = room(cx, (int)strlen(param->name), 1);
        strcpy(info->name, param->name);
        PyObject *array = PyDict_GetItemString(job->given, param->name);
        if (!array) {
            continue;
        }
        if (array_read(array, k, &self->fixed[k]) < 0) {
            job->raised = true;
            return NULL;
        }
        if (!fits(fn, param->type, &self->fixed[k])) {
            fail(cx, DIAG_FIXED_ARRAY, param->name);
        }
        self->arrays[k] = Py_NewRef(array);
        self->nfixed++;
        frozen[k] = true;
    }
    return frozen;
}

static PlanParam
param_of(const Tensor *t, PyObject *array)
{
    return (PlanParam){{array, t->data}, t->rank, t->sizes, t->strides};
}

/* How values are prepared: layers of one shape share it. */
typedef struct {
    const char *text;
    Plan *plan;
} Maker;

typedef struct {
    Maker *all;
    int n;
} Makers;

static void
drop_makers(void *arg)
{
    Makers *makers = arg;
    for (int k = 0; k < makers->n; k++) {
        plan_free(makers->all[k].plan);
    }
}

static Plan *
maker_of(Cx *cx, const Job *job, Makers *makers, Fn *make)
{
    Text text = {.cx = cx};
    print_fn(make, &text);
    for (int k = 0; k < makers->n; k++) {
        if (strcmp(makers->all[k].text, text.text) == 0) {
            return makers->all[k].plan;
        }
    }
    CompileOptions options = job->options;
    options.passes = job->passes;
    verify_fn(make);
    Plan *plan = plan_build(pipeline_run(make, &options.passes), &options);
    makers->all = cx_grow(cx, makers->all, makers->n, sizeof *makers->all);
    makers->all[makers->n++] = (Maker){text.text, plan};
    return plan;
}

/* Computes one value of fixed arrays, and keeps it as parameter `at`. */
static bool
prepare_one(Cx *cx, Job *job, Makers *makers, const PreparedValue *value, int at)
{
    Loaded *self = job->self;
    const Fn *make = value->make;
    PlanParam *in = cx_alloc(cx, (size_t)(make->nparams + 1) * sizeof *in);
    PlanTensor out;
    ArrayCall call = {NULL, false};
    PlanHost host = array_host;
    host.arg = &call;
    for (int k = 0; k < make->nparams; k++) {
        int of = value->params[k];
        in[k] = param_of(&self->fixed[of], self->arrays[of]);
    }
    Plan *plan = maker_of(cx, job, makers, value->make);
    int status = plan_run(plan, &host, NULL, in, &out);
    if (status < 0 && call.layout) {
        fail(cx, DIAG_FIXED_ARRAY, self->params[value->params[0]].name);
    }
    if (status < 0) {
        return false;
    }
    self->arrays[at] = out.object;
    self->params[at] = (ParamInfo){make->body->rets[0]->type->dtype, out.rank, NULL};
    return array_read(out.object, at, &self->fixed[at]) == 0;
}

/* The function that runs: what depends on fixed arrays alone is computed now. */
static Fn *
prepare(Cx *cx, Job *job, Fn *fn, const bool *frozen)
{
    Loaded *self = job->self;
    int nparams = fn->nparams;
    fn = pass_run(pass_find("dead"), pass_run(pass_find("canonicalise"), fn, &job->passes),
                  &job->passes);
    Preparation *made = prepare_cut(fn, frozen, &job->passes.fuel);
    Makers *makers = cx_alloc(cx, sizeof *makers);
    cx_cleanup(cx, drop_makers, makers);
    int all = nparams + made->nvalues;
    ParamInfo *params = room(cx, all, sizeof *params);
    memcpy(params, self->params, (size_t)nparams * sizeof *params);
    PyMem_Free(self->params);
    self->params = params;
    Tensor *fixed = room(cx, all, sizeof *fixed);
    memcpy(fixed, self->fixed, (size_t)nparams * sizeof *fixed);
    PyMem_Free(self->fixed);
    self->fixed = fixed;
    PyObject **arrays = room(cx, all, sizeof *arrays);
    memcpy(arrays, self->arrays, (size_t)nparams * sizeof *arrays);
    PyMem_Free(self->arrays);
    self->arrays = arrays;
    for (int k = 0; k < made->nvalues; k++) {
        self->nparams = nparams + k + 1; /* what is freed, if this fails */
        self->nfixed++;
        if (!prepare_one(cx, job, makers, &made->values[k], nparams + k)) {
            job->raised = true;
            return NULL;
        }
    }
    verify_fn(made->run);
    return made->run;
}

static void
compile_body(Cx *cx, void *arg)
{
    Job *job = arg;
    Fn *fn = read_program(cx, job->text);
    describe(cx, job->self, fn);
    const bool *frozen = take_arrays(cx, job, fn);
    if (!frozen) {
        return;
    }
    job->options.passes = job->passes;
    if (!(fn = prepare(cx, job, fn, frozen))) {
        return;
    }
    Fn *kernels = pipeline_run(fn, &job->passes);
    job->options.passes = job->passes;
    job->self->plan = plan_build(kernels, &job->options);
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
    "Loaded(text, given, *, tier='auto', cc=None, cache=None, fuel=-1)\n\n"
    "A program of the graph stage, compiled.  given: a dict of arrays by the names of the\n"
    "parameters that have the same one in every call.  Called with the arrays of the other\n"
    "parameters, in order, and sizes=a dict of the sizes that no array shows, or None.  Gives a\n"
    "tuple, of an array or, for a size, an int by result; or None: the arrays do not have the\n"
    "sizes and strides that the program declares.");

static PyObject *
loaded_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"text", "given", "tier", "cc", "cache", "fuel", NULL};
    const char *tier = "auto", *cc = NULL, *cache = NULL;
    long long fuel = -1;
    Job job = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO!|$szzL", names, &job.text, &PyDict_Type,
                                     &job.given, &tier, &cc, &cache, &fuel) ||
        compile_mode(tier, &job.options) < 0 || array_ready() < 0) {
        return NULL;
    }
    job.self = (Loaded *)type->tp_alloc(type, 0);
    Cx *cx = job.self ? cx_new() : NULL;
    if (!cx) {
        Py_XDECREF(job.self);
        return PyErr_NoMemory();
    }
    job.self->vectorcall = loaded_call;
    job.passes = (PassOptions){.verify = true, .no_file = true, .fuel = fuel};
    job.options.cc = (CcOptions){.compiler = cc, .cache = cache};
    job.options.keeps = true;
    wait_begin(&job.wait, &job.options.cc);
    log_configure();
    parallel_own();
    bool done = cx_try(cx, compile_body, &job);
    if (!done && !PyErr_Occurred()) {
        raise_diag(cx_diag(cx));
    }
    if (!done || job.raised || wait_raise(&job.wait)) {
        Py_CLEAR(job.self);
    }
    cx_free(cx);
    count_add(COUNT_GRAPHS, job.self != NULL);
    return (PyObject *)job.self;
}

static void
loaded_dealloc(PyObject *object)
{
    Loaded *self = (Loaded *)object;
    PyTypeObject *type = Py_TYPE(object);
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
    return status;
}
