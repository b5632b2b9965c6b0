/* A program and arrays that are fixed: what depends on these alone is computed.
 *
 * What:     the function that runs, whose further parameters are the values that were computed; for
 *           dlc.load, and for programs that leave with their weights: these read the panels that
 *           products take, and no call makes them again.
 * Requires: nothing: a text is not trusted.  It is parsed, and verified after each pass.
 * Ensures:  the results of the text, bit for bit (fusion/frozen/prepare.c). */
#include "loaded.h"

#include <string.h>

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
read_program(Cx *cx, const Job *job)
{
    Fn *fn = parse_fn(cx, job->text, "program");
    verify_fn(fn);
    if (fn->stage != STAGE_GRAPH) {
        fail(cx, DIAG_NOT_GRAPH, stage_name(fn->stage));
    }
    if (job->runs) {
        fn_each_let(fn, refuse_call, cx);
    }
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
        if (array_describe(array, k, &self->fixed[k]) < 0) {
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

PlanParam
param_of(const Tensor *t, PyObject *array)
{
    return (PlanParam){{array, t->data}, t->rank, t->sizes, t->strides};
}

/* Arrays that begin at any byte, and that the function reads, are copied. */
static bool
align_arrays(Job *job, const Fn *run, int nparams)
{
    Loaded *self = job->self;
    const ValueUse *uses = value_uses(run);
    for (int k = 0; k < nparams; k++) {
        if (!self->arrays[k] || uses[run->params[k]->id].last < 0) {
            continue;
        }
        PyObject *array = array_aligned(self->arrays[k]);
        if (!array) {
            return false;
        }
        Py_SETREF(self->arrays[k], array);
        if (array_read(array, k, &self->fixed[k]) < 0) {
            return false;
        }
    }
    return true;
}

/* The function that runs: what depends on fixed arrays alone is computed now. */
static Fn *
prepare(Cx *cx, Job *job, Fn *fn, const bool *frozen)
{
    Loaded *self = job->self;
    int nparams = fn->nparams;
    PassOptions passes = verified_passes(job);
    fn = pass_run(pass_find("dead"), pass_run(pass_find("canonicalise"), fn, &passes), &passes);
    job->passes.fuel = passes.fuel;
    Preparation *made = job->made = prepare_cut(fn, frozen, &job->passes.fuel);
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
    self->nparams = all;
    self->nfixed += made->nvalues;
    if (!values_make(cx, job, nparams) || !align_arrays(job, made->run, nparams)) {
        job->raised = true;
        return NULL;
    }
    verify_fn(made->run);
    return made->run;
}

Fn *
loaded_read(Cx *cx, Job *job)
{
    verified_open(cx, job);
    Fn *fn = read_program(cx, job);
    describe(cx, job->self, fn);
    job->frozen = take_arrays(cx, job, fn);
    job->options.passes = job->passes;
    return job->frozen ? prepare(cx, job, fn, job->frozen) : NULL;
}

/* ---- the program, for those that it leaves with ---- */

typedef struct {
    Job job;
    PyObject *text, *arrays; /* owned; of the function that runs */
} Leaving;

static void
drop_param(Fn *fn, int k)
{
    fn->nparams--;
    for (int j = k; j < fn->nparams; j++) {
        fn->params[j] = fn->params[j + 1];
        fn->params[j]->result = j;
    }
    for (int j = 0; j < fn->body->nrets; j++) {
        Result *r = &fn->results[j];
        bool is_param = r->kind == RESULT_INTO || r->kind == RESULT_VIEW_PARAM;
        r->of -= is_param && r->of > k;
    }
}

/* new: the names of the parameters that a value is computed of; that of k itself, if it is none */
static PyObject *
origins_of(const Job *job, const Fn *fn, int k)
{
    int first = fn->nparams - job->made->nvalues;
    const PreparedValue *value = k < first ? NULL : &job->made->values[k - first];
    PyObject *names = PyList_New(0);
    for (int j = 0; names && j < (value ? value->make->nparams : 1); j++) {
        PyObject *name = PyUnicode_FromString(fn->params[value ? value->params[j] : k]->name);
        if (!name || PyList_Append(names, name) < 0) {
            Py_CLEAR(names);
        }
        Py_XDECREF(name);
    }
    return names;
}

/* new: a dict of (array, names) by name of a fixed parameter that the function reads */
static PyObject *
arrays_of(const Job *job, const Fn *fn, const bool *dropped)
{
    PyObject *found = PyDict_New();
    for (int k = 0; found && k < fn->nparams; k++) {
        PyObject *array = job->self->arrays[k];
        PyObject *names = array && !dropped[k] ? origins_of(job, fn, k) : NULL;
        PyObject *row = names ? Py_BuildValue("(ON)", array, names) : NULL;
        if (array && !dropped[k] &&
            (!row || PyDict_SetItemString(found, fn->params[k]->name, row) < 0)) {
            Py_CLEAR(found);
        }
        Py_XDECREF(row);
    }
    return found;
}

static void
leave_body(Cx *cx, void *arg)
{
    Leaving *leaving = arg;
    Job *job = &leaving->job;
    Fn *fn = loaded_read(cx, job);
    if (!fn) {
        return;
    }
    const ValueUse *uses = value_uses(fn);
    int first = fn->nparams - job->made->nvalues;
    bool *dropped = cx_alloc(cx, (size_t)fn->nparams + 1);
    for (int k = 0; k < first; k++) {
        dropped[k] = job->frozen[k] && uses[fn->params[k]->id].last < 0;
    }
    leaving->arrays = arrays_of(job, fn, dropped);
    for (int k = first - 1; k >= 0; k--) {
        if (dropped[k]) {
            drop_param(fn, k);
        }
    }
    verify_fn(fn);
    Text text = {.cx = cx};
    print_fn(fn, &text);
    leaving->text = PyUnicode_FromStringAndSize(text.text, (Py_ssize_t)text.length);
}

static PyObject *
prepared(PyObject *Py_UNUSED(module), PyObject *args)
{
    Loaded self = {0};
    Leaving leaving = {.job = {.self = &self}};
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "sO!", &leaving.job.text, &PyDict_Type, &leaving.job.given) ||
        compile_mode("tcc", &leaving.job.options) < 0 || array_ready() < 0) {
        return NULL;
    }
    leaving.job.passes = (PassOptions){.verify = true, .no_file = true, .fuel = -1};
    bool good = loaded_try(&leaving.job, leave_body);
    if (good && leaving.text && leaving.arrays) {
        result = Py_BuildValue("(OO)", leaving.text, leaving.arrays);
    }
    Py_XDECREF(leaving.text);
    Py_XDECREF(leaving.arrays);
    loaded_clear(&self);
    return result;
}

static PyMethodDef methods[] = {
    {"prepared", prepared, METH_VARARGS,
     PyDoc_STR(
         "prepared(text, given) -> (text, arrays)\n\n"
         "The program that reads what depends on given arrays alone, of a program of the graph\n"
         "stage and a dict of arrays by parameter.  arrays: by parameter of the new program, the\n"
         "array and the names of the parameters that it was computed of.  Parameters that it does\n"
         "not read are gone.")},
    {NULL},
};

int
prepare_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
