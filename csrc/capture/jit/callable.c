/* dlc._C.Callable: the object that torch calls. Boxed: it takes one list of arguments and returns
 * one list of results. */

#include "callable.h"

#include <string.h>
#include <structmember.h>

enum { FEW = 48, FEW_INPUTS = 128 };

/* The arguments and results of one call, in the form that the plan takes. */
typedef struct {
    PlanParam *in;
    PlanTensor *out;
    int64_t *sizes;
    union Scalar {
        int64_t i;
        double f;
        uint8_t b;
    } *scalars;
    PyObject *held; /* a list of tensors that were made for the call; NULL: none was */
} Arguments;

static int
read_scalar(PyObject *value, Dtype dtype, union Scalar *store, PlanParam *out)
{
    *out = (PlanParam){.of = {.data = store}};
    if (dtype == DT_f64) {
        store->f = PyFloat_AsDouble(value);
    } else if (dtype == DT_bool) {
        store->b = (uint8_t)PyObject_IsTrue(value);
    } else {
        store->i = PyLong_AsLongLong(value);
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* borrowed: the tensor with its elements in its memory.  Nobody guards the gradients that a
 * backward gets, which may be conjugated or negated when they are read. */
static PyObject *
resolve_argument(PyObject *value, Arguments *to)
{
    PyObject *made = pytensor_resolve(Py_NewRef(value));
    if (!made || (!to->held && !(to->held = PyList_New(0))) || PyList_Append(to->held, made) < 0) {
        Py_XDECREF(made);
        return NULL;
    }
    Py_DECREF(made);
    return made;
}

/* Reads the arguments; 1: the plan cannot take them, 0: done, -1: an exception. */
static int
read_arguments(const Callable *self, PyObject *const *given, Arguments *to)
{
    const Captured *captured = &self->captured;
    for (int k = 0; k < self->nsizes; k++) {
        to->sizes[k] = SIZE_UNKNOWN;
    }
    for (int k = 0; k < captured->ninputs; k++) {
        const InputSpec *spec = &captured->inputs[k];
        PyObject *value = given[k];
        if (spec->kind == INPUT_TENSOR) {
            bool tensor = pytensor_check(value);
            if (tensor && !spec->lazy && pytensor_is_lazy(value) &&
                !(value = resolve_argument(value, to))) {
                return -1;
            }
            if (!tensor ||
                pytensor_param(value, self->param_dtypes[spec->index], &to->in[spec->index]) < 0) {
                return 1;
            }
        } else if (spec->kind == INPUT_SIZE) {
            to->sizes[spec->index] = PyLong_AsLongLong(value);
            if (to->sizes[spec->index] == -1 && PyErr_Occurred()) {
                return -1;
            }
        } else if (spec->kind == INPUT_SCALAR &&
                   read_scalar(value, self->param_dtypes[spec->index], &to->scalars[spec->index],
                               &to->in[spec->index]) < 0) {
            return -1;
        }
    }
    return 0;
}

/* The tensor of a result that the plan gave as a number, sizes[0]: fills in its object. */
static int
number_tensor(PlanTensor *out)
{
    int64_t value = out->sizes[0];
    if (pytensor_empty(DT_i64, out) < 0) {
        return -1;
    }
    *(int64_t *)out->data = value;
    return 0;
}

const void *
number_at(const PlanTensor *result, Dtype dtype)
{
    PlanTensor read = *result;
    if (!read.data && (!read.object || !pytensor_check(read.object) ||
                       pytensor_read(read.object, dtype, &read) < 0 || read.rank != 0)) {
        PyErr_SetString(PyExc_RuntimeError,
                        "dlc: an operator gave no number where one is returned");
        return NULL;
    }
    return read.data;
}

/* Returns a new reference: an int or bool that the graph returns. */
static PyObject *
output_integer(const OutputSpec *spec, PlanTensor *result)
{
    const int64_t *number = result->object ? number_at(result, DT_i64) : &result->sizes[0];
    return !number                     ? NULL
           : spec->kind == OUTPUT_BOOL ? PyBool_FromLong(*number != 0)
                                       : PyLong_FromLongLong(*number);
}

/* Returns a new reference: the object that the graph returns for this output. */
static PyObject *
output_object(const OutputSpec *spec, PyObject *const *given, PlanTensor *out)
{
    PlanTensor *result = out + spec->index;
    switch (spec->kind) {
    case OUTPUT_TENSOR:
        if (!result->object && number_tensor(result) < 0) {
            return NULL;
        }
        return Py_NewRef((PyObject *)result->object);
    case OUTPUT_INT:
    case OUTPUT_BOOL:
        return output_integer(spec, result);
    case OUTPUT_FLOAT: {
        const double *number = number_at(result, DT_f64);
        return number ? PyFloat_FromDouble(*number) : NULL;
    }
    case OUTPUT_INPUT:
        return Py_NewRef(given[spec->index]);
    default:
        return Py_NewRef(spec->object);
    }
}

/* Returns all outputs: in a list if the caller wants them boxed, else in a tuple. */
static PyObject *
make_results(const Callable *self, bool boxed, PyObject *const *given, PlanTensor *out)
{
    const Captured *captured = &self->captured;
    PyObject *results = boxed ? PyList_New(captured->noutputs) : PyTuple_New(captured->noutputs);
    for (int k = 0; results && k < captured->noutputs; k++) {
        PyObject *object = output_object(&captured->outputs[k], given, out);
        if (!object) {
            Py_CLEAR(results);
        } else if (boxed) {
            PyList_SET_ITEM(results, k, object);
        } else {
            PyTuple_SET_ITEM(results, k, object);
        }
    }
    for (int k = 0; k < self->nresults; k++) {
        Py_XDECREF((PyObject *)out[k].object);
    }
    return results;
}

/* Runs the graph as torch would: the plan was not compiled for such arguments. */
static PyObject *
run_fallback(const Callable *self, bool boxed, PyObject *const *given)
{
    count_add(COUNT_EAGER_CALLS, 1);
    PyObject *value = PyObject_Vectorcall(self->fallback, given, (size_t)self->captured.ninputs,
                                          NULL);
    bool many = value && (PyTuple_Check(value) || PyList_Check(value));
    PyObject *list = many ? PySequence_List(value) : value ? Py_BuildValue("[O]", value) : NULL;
    PyObject *results = list && !boxed ? PyList_AsTuple(list) : Py_XNewRef(list);
    Py_XDECREF(value);
    Py_XDECREF(list);
    return results;
}

int
callable_count_writes(const Callable *self, const PlanParam *in)
{
    PyObject *written = PyTuple_New(self->nwritten);
    for (int k = 0; written && k < self->nwritten; k++) {
        PyTuple_SET_ITEM(written, k, Py_NewRef((PyObject *)in[self->written[k]].of.object));
    }
    PyObject *done = written ? PyObject_CallOneArg(self->increment_version, written) : NULL;
    Py_XDECREF(written);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* 1: torch itself has to run the call; 0: it does not have to; -1: an exception.  A compiled
 * graph computes no tangents, and eager itself refuses writes that are not allowed. */
static int
is_for_eager(const Callable *self, const Arguments *arguments)
{
    int eager = 0;
    bool forward = !self->captured.recorded && pytensor_forward_mode();
    for (int k = 0; forward && k < self->nparams && eager == 0; k++) {
        PyObject *tensor = arguments->in[k].of.object;
        eager = tensor ? pytensor_has_tangent(tensor) : 0;
    }
    for (int k = 0; k < self->nwritten && eager == 0; k++) {
        eager = pytensor_is_frozen(arguments->in[self->written[k]].of.object);
    }
    if (eager > 0) {
        log_line(
            "a call runs eagerly: an argument has a tangent, or is a tensor of inference mode that "
            "is written to");
    }
    return eager;
}

/* Results of a graph from Dynamo that are views, of its inputs or of one another, are also views
 * for autograd: a write to one counts as a write to the other.  AOTAutograd makes such views
 * itself. */
static int
direct_view(void *arg, const PlanObject *base, Dtype dtype, int64_t offset, PlanTensor *out)
{
    const HostCall *call = arg;
    bool returned = out >= call->results && out < call->results + call->callable->nresults;
    if (!returned || !base->object) {
        return host_functions.view(arg, base, dtype, offset, out);
    }
    if (call->grad) {
        pytensor_grad_mode(true);
    }
    int status = pytensor_alias(base->object, offset, out);
    if (call->grad) {
        pytensor_grad_mode(false);
    }
    return status;
}

static PyObject *
run_plan(const Callable *self, bool boxed, PyObject *const *given, Arguments *arguments)
{
    int status = read_arguments(self, given, arguments);
    status = status == 0 ? is_for_eager(self, arguments) : status;
    if (status == 0) {
        bool calls = self->captured.nsites > 0, grad = calls && pytensor_grad_mode(false);
        HostCall call = {.callable = self,
                         .given = boxed ? (PyObject **)given : NULL,
                         .in = arguments->in,
                         .results = arguments->out,
                         .grad = grad};
        PlanHost host = host_functions;
        host.arg = &call;
        host.view = boxed ? host.view : direct_view;
        host.views = !boxed;
        host.profile = self->profile;
        count_add(COUNT_CALLS, 1);
        status = prepared_take(self, arguments->in);
        if (status == 0) {
            status = plan_run(self->plan, &host, arguments->sizes, arguments->in, arguments->out);
            status = call.layout ? 1 : status;
            prepared_give(self->captured.nprepared, arguments->in + self->nparams);
        }
        if (grad) {
            pytensor_grad_mode(true);
        }
    }
    if (status == 0 && self->nwritten && !boxed) {
        status = callable_count_writes(self, arguments->in);
        for (int k = 0; status < 0 && k < self->nresults; k++) {
            Py_CLEAR(arguments->out[k].object);
        }
    }
    PyObject *results = status > 0   ? run_fallback(self, boxed, given)
                        : status < 0 ? NULL
                                     : make_results(self, boxed, given, arguments->out);
    Py_XDECREF(arguments->held);
    return results;
}

static PyObject *
call_with(const Callable *self, bool boxed, PyObject *const *given)
{
    PlanParam few_in[FEW_INPUTS];
    PlanTensor few_out[FEW];
    int64_t few_sizes[FEW];
    union Scalar few_scalars[FEW_INPUTS];
    size_t nin = (size_t)(self->nparams + self->captured.nprepared);
    size_t nout = (size_t)self->nresults;
    if (nin <= FEW_INPUTS && nout <= FEW && self->nsizes <= FEW) {
        Arguments arguments = {few_in, few_out, few_sizes, few_scalars, NULL};
        return run_plan(self, boxed, given, &arguments);
    }
    char *memory = PyMem_Malloc(nin * sizeof *few_in + nout * sizeof *few_out +
                                (size_t)self->nsizes * sizeof *few_sizes +
                                (size_t)self->nparams * sizeof *few_scalars + 1);
    if (!memory) {
        return PyErr_NoMemory();
    }
    Arguments arguments = {.in = (PlanParam *)memory};
    arguments.out = (PlanTensor *)(arguments.in + nin);
    arguments.sizes = (int64_t *)(arguments.out + nout);
    arguments.scalars = (union Scalar *)(arguments.sizes + self->nsizes);
    PyObject *results = run_plan(self, boxed, given, &arguments);
    PyMem_Free(memory);
    return results;
}

/* Empties the list, also after an exception, which stays. */
static int
empty_list(PyObject *list)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    int status = PyList_SetSlice(list, 0, PyList_GET_SIZE(list), NULL);
    if (type) {
        PyErr_Restore(type, value, traceback);
    }
    return status;
}

/* callable(list): the boxed convention; the list is emptied.  callable(*args): the plain one, to a
 * tuple. */
static PyObject *
callable_vectorcall(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    const Callable *self = (const Callable *)object;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (kwnames && PyTuple_GET_SIZE(kwnames)) {
        PyErr_SetString(PyExc_TypeError, "a compiled graph takes no keyword arguments");
        return NULL;
    }
    bool boxed = nargs == 1 && PyList_CheckExact(args[0]);
    Py_ssize_t given = boxed ? PyList_GET_SIZE(args[0]) : nargs;
    PyObject *results = NULL;
    if (given != self->captured.ninputs) {
        PyErr_Format(PyExc_TypeError, "the compiled graph takes %d arguments, not %zd",
                     self->captured.ninputs, given);
    } else {
        results = call_with(self, boxed, boxed ? ((PyListObject *)args[0])->ob_item : args);
    }
    if (boxed && empty_list(args[0]) < 0) {
        Py_CLEAR(results);
    }
    return results;
}

static int
callable_traverse(PyObject *object, visitproc visit, void *arg)
{
    Callable *self = (Callable *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->fallback);
    Py_VISIT(self->increment_version);
    Py_VISIT(self->report);
    Py_VISIT(self->progress);
    Py_VISIT(self->dict);
    for (int k = 0; k < self->captured.nsites; k++) {
        Py_VISIT(self->captured.sites[k].target);
        Py_VISIT(self->captured.sites[k].function);
        Py_VISIT(self->captured.sites[k].args);
        Py_VISIT(self->captured.sites[k].kwargs);
    }
    return 0;
}

static int
callable_clear(PyObject *object)
{
    Callable *self = (Callable *)object;
    Py_CLEAR(self->fallback);
    Py_CLEAR(self->increment_version);
    Py_CLEAR(self->report);
    Py_CLEAR(self->progress);
    Py_CLEAR(self->dict);
    captured_clear(&self->captured);
    return 0;
}

static void
callable_dealloc(PyObject *object)
{
    Callable *self = (Callable *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    callable_clear(object);
    call_profile_free(self->profile);
    PyMem_Free(self->position);
    plan_free(self->plan);
    PyMem_Free(self->param_dtypes);
    PyMem_Free(self->written);
    Py_XDECREF(self->sizes);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMemberDef callable_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Callable, vectorcall), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(Callable, dict), READONLY, NULL},
    {"report", T_OBJECT, offsetof(Callable, report), READONLY,
     "What dlc.explain shows of this graph: a dict, or None."},
    {"calls", T_INT, offsetof(Callable, captured.nsites), READONLY,
     "How many places of the graph run an operator of torch's."},
    {"fallback", T_OBJECT, offsetof(Callable, fallback), READONLY, "The graph as torch runs it."},
    {NULL},
};

static PyGetSetDef callable_getset[] = {
    {"__dict__", PyObject_GenericGetDict, NULL, NULL, NULL},
    {NULL},
};

PyDoc_STRVAR(
    callable_doc,
    "A compiled graph.\n\n"
    "Called with one list of the graph's inputs (tensors, and ints for sizes), which it empties, "
    "or with\n"
    "the inputs themselves.  Returns the graph's outputs, a list for a list, else a tuple.  Thread "
    "safe.");

static PyType_Slot callable_slots[] = {
    {Py_tp_doc, (void *)callable_doc},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_traverse, callable_traverse},
    {Py_tp_clear, callable_clear},
    {Py_tp_dealloc, callable_dealloc},
    {Py_tp_members, callable_members},
    {Py_tp_getset, callable_getset},
    {Py_tp_methods, callable_profile_methods},
    {0, NULL},
};

static PyType_Spec callable_spec = {
    .name = "dlc._C.Callable",
    .basicsize = sizeof(Callable),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = callable_slots,
};

/* Calling an OpOverload runs a Python function that forwards to its _op, a builtin. */
static void
resolve_targets(Captured *captured)
{
    for (int k = 0; k < captured->nsites; k++) {
        CallSite *site = &captured->sites[k];
        if (strcmp(Py_TYPE(site->target)->tp_name, "OpOverload") == 0) {
            site->function = PyObject_GetAttrString(site->target, "_op");
        }
        if (!site->function) {
            PyErr_Clear();
            site->function = Py_NewRef(site->target);
        }
        product_find(site);
        /* The kernel makes the workspace for its gradient only while gradients are recorded. */
        site->recorded = is_overload(site->target, "aten.mkldnn_rnn_layer.default");
    }
}

/* Returns a new tuple with the names of the function's sizes. */
static PyObject *
size_names(const Fn *fn)
{
    PyObject *names = PyTuple_New(fn->nsizes);
    for (int k = 0; names && k < fn->nsizes; k++) {
        PyObject *name = PyUnicode_FromString(dim_name(fn->cx, fn->sizes[k]));
        if (!name) {
            Py_CLEAR(names);
        } else {
            PyTuple_SET_ITEM(names, k, name);
        }
    }
    return names;
}

/* Finds the argument that each parameter is. Returns -1 with an exception set. */
static int
find_positions(Callable *self)
{
    self->position = PyMem_Calloc((size_t)self->nparams + 1, sizeof *self->position);
    if (!self->position) {
        PyErr_NoMemory();
        return -1;
    }
    for (int k = 0; k < self->captured.ninputs; k++) {
        const InputSpec *spec = &self->captured.inputs[k];
        if (spec->kind == INPUT_TENSOR) {
            self->position[spec->index] = k;
        }
    }
    return 0;
}

/* The parameters that a call writes to; -1: an exception. */
static int
find_written(Callable *self, const Fn *fn)
{
    self->written = PyMem_Calloc((size_t)self->nresults + 1, sizeof *self->written);
    for (int k = 0; self->written && k < self->nresults; k++) {
        if (fn->results[k].kind == RESULT_INTO) {
            self->written[self->nwritten++] = fn->results[k].of;
        }
    }
    if (!self->written) {
        PyErr_NoMemory();
        return -1;
    }
    if (!self->nwritten) {
        return 0;
    }
    PyObject *graph = PyImport_ImportModule("torch.autograd.graph");
    self->increment_version = graph ? PyObject_GetAttrString(graph, "increment_version") : NULL;
    Py_XDECREF(graph);
    return self->increment_version ? 0 : -1;
}

PyObject *
callable_new(PyTypeObject *type, Plan *plan, Captured *captured, PyObject *fallback,
             PyObject *report, PyObject *progress)
{
    const Fn *fn = captured->fn;
    Dtype *dtypes = PyMem_Calloc((size_t)fn->nparams + 1, sizeof *dtypes);
    Callable *self = dtypes ? (Callable *)type->tp_alloc(type, 0) : NULL;
    if (!self) {
        PyMem_Free(dtypes);
        plan_free(plan);
        captured_clear(captured);
        return PyErr_NoMemory();
    }
    for (int k = 0; k < fn->nparams; k++) {
        dtypes[k] = fn->params[k]->type->dtype;
    }
    resolve_targets(captured);
    self->vectorcall = callable_vectorcall;
    self->plan = plan;
    self->nparams = fn->nparams;
    self->nresults = fn->body->nrets;
    self->nsizes = fn->nsizes;
    self->param_dtypes = dtypes;
    int status = find_written(self, fn);
    self->captured = *captured;
    self->captured.fn = NULL;
    status = status < 0 ? status : find_positions(self);
    self->sizes = size_names(fn);
    self->fallback = Py_NewRef(fallback);
    self->report = Py_XNewRef(report);
    self->progress = Py_XNewRef(progress);
    self->profile = report ? call_profile_new(plan) : NULL;
    *captured = (Captured){0};
    self->dict = PyDict_New();
    if (status < 0 || !self->sizes || !self->dict ||
        PyDict_SetItemString(self->dict, "_boxed_call", Py_True) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

PyTypeObject *
callable_register(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &callable_spec, NULL);
    if (type && PyModule_AddType(module, (PyTypeObject *)type) < 0) {
        Py_CLEAR(type);
    }
    return (PyTypeObject *)type;
}
