/* Functions of the language on NumPy arrays, for dlc.ir.
 *
 * A call parses its text anew in a context of its own: nothing is shared, so calls may run at the
 * same time, and all memory of a call ends with it.  NumPy is imported by the first call. */
#include "arrays/array.h"
#include "passes.h"

#include <string.h>

/* Runs body in a context, without the GIL; -1 with the exception of its failure. */
static int
run(Cx *cx, void (*body)(Cx *cx, void *arg), void *arg)
{
    bool done;
    if (!cx) {
        PyErr_NoMemory();
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS done = cx_try(cx, body, arg);
    Py_END_ALLOW_THREADS if (!done) { raise_diag(cx_diag(cx)); }
    return done ? 0 : -1;
}

/* ---- parse(text, file) -> (text, name, stage, params, results, sizes) ---- */

typedef struct {
    const char *text, *file, *pass;
    Fn *fn;
    Text canonical;
} Parse;

static void
do_parse(Cx *cx, void *arg)
{
    Parse *p = arg;
    p->fn = parse_fn(cx, p->text, p->file);
    verify_fn(p->fn);
    p->canonical.cx = cx;
    print_fn(p->fn, &p->canonical);
}

static PyObject *
type_string(const Fn *fn, const Type *type)
{
    Text text = {.cx = fn->cx};
    type_text(fn->cx, type, &text);
    return PyUnicode_FromString(text.text);
}

static PyObject *
param_item(const void *fn, int k)
{
    const Value *param = ((const Fn *)fn)->params[k];
    PyObject *type = type_string(fn, param->type);
    return type ? Py_BuildValue("(sN)", param->name, type) : NULL;
}

static PyObject *
result_item(const void *fn, int k)
{
    return type_string(fn, ((const Fn *)fn)->body->rets[k]->type);
}

static PyObject *
size_item(const void *fn, int k)
{
    return PyUnicode_FromString(dim_name(((const Fn *)fn)->cx, ((const Fn *)fn)->sizes[k]));
}

static PyObject *
tuple_made(int n, PyObject *(*item)(const void *of, int k), const void *of)
{
    PyObject *list = list_made(n, item, of), *tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

static PyObject *
ir_parse(PyObject *Py_UNUSED(module), PyObject *args)
{
    Parse p = {0};
    PyObject *info = NULL;
    if (!PyArg_ParseTuple(args, "ss", &p.text, &p.file)) {
        return NULL;
    }
    Cx *cx = cx_new();
    if (run(cx, do_parse, &p) == 0) {
        PyObject *params = tuple_made(p.fn->nparams, param_item, p.fn);
        PyObject *results = params ? tuple_made(p.fn->body->nrets, result_item, p.fn) : NULL;
        PyObject *sizes = results ? tuple_made(p.fn->nsizes, size_item, p.fn) : NULL;
        if (sizes) {
            info = Py_BuildValue("(sssOOO)", p.canonical.text, p.fn->name, stage_name(p.fn->stage),
                                 params, results, sizes);
        }
        Py_XDECREF(params);
        Py_XDECREF(results);
        Py_XDECREF(sizes);
    }
    cx_free(cx);
    return info;
}

/* ---- run_pass(text, name) -> text ---- */

static void
do_pass(Cx *cx, void *arg)
{
    Parse *p = arg;
    PassOptions options = pass_options_wanted();
    options.verify = true;
    do_parse(cx, arg);
    const PassInfo *pass = pass_named(p->pass);
    if (!pass) {
        fail(cx, DIAG_NO_PASS, p->pass);
    }
    p->fn = pass_run(pass, p->fn, &options);
    p->canonical = (Text){.cx = cx};
    print_fn(p->fn, &p->canonical);
}

/* ---- scheduled(text, schedule) -> text, schedule(text, schedule) -> schedule ---- */

static void
do_scheduled(Cx *cx, void *arg)
{
    Parse *p = arg;
    do_parse(cx, arg);
    if (p->fn->stage != STAGE_LOOPS) {
        fail(cx, DIAG_SCHEDULE_STAGE, stage_name(p->fn->stage));
    }
    p->canonical = (Text){.cx = cx};
    print_fn(written_apply(p->fn, p->pass, TARGETS), &p->canonical);
}

static void
do_schedule(Cx *cx, void *arg)
{
    Parse *p = arg;
    CompileOptions options = {.passes = PASS_OPTIONS_NONE, .schedule = *p->pass ? p->pass : NULL};
    do_parse(cx, arg);
    if (p->fn->stage == STAGE_LOOPS) {
        fail(cx, DIAG_SCHEDULE_STAGE, stage_name(p->fn->stage));
    }
    Fn *kernels = p->fn->stage == STAGE_GRAPH ? pipeline_run(p->fn, &options.passes) : p->fn;
    p->canonical = (Text){.cx = cx};
    kernels_schedule(kernels, &options, &p->canonical);
}

static PyObject *
text_of(PyObject *args, void (*work)(Cx *cx, void *arg))
{
    Parse p = {.file = "text"};
    if (!PyArg_ParseTuple(args, "ss", &p.text, &p.pass)) {
        return NULL;
    }
    Cx *cx = cx_new();
    PyObject *text = run(cx, work, &p) == 0
                         ? PyUnicode_FromString(p.canonical.text ? p.canonical.text : "")
                         : NULL;
    cx_free(cx);
    return text;
}

static PyObject *
ir_run_pass(PyObject *Py_UNUSED(module), PyObject *args)
{
    return text_of(args, do_pass);
}

static PyObject *
ir_scheduled(PyObject *Py_UNUSED(module), PyObject *args)
{
    return text_of(args, do_scheduled);
}

static PyObject *
ir_schedule(PyObject *Py_UNUSED(module), PyObject *args)
{
    return text_of(args, do_schedule);
}

static PyObject *
ir_passes(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    const PassInfo *(*const tables[])(int *count) = {pass_table, rewrite_table};
    PyObject *list = PyList_New(0);
    for (int t = 0; list && t < 2; t++) {
        int n;
        const PassInfo *passes = tables[t](&n);
        for (int k = 0; list && k < n; k++) {
            PyObject *row = Py_BuildValue("(ss)", passes[k].name, passes[k].what);
            if (!row || PyList_Append(list, row) < 0) {
                Py_CLEAR(list);
            }
            Py_XDECREF(row);
        }
    }
    return list;
}

/* ---- call(text, arrays, sizes) -> (array, ..) ---- */

typedef struct {
    Parse parse;
    int nargs;
    Tensor *in, *out;
    bool *writable;             /* each argument's */
    const char *const *names;   /* of sizes given by the caller, with their values */
    const int64_t *values;
    int nvalues;
} Call;

static int64_t
size_given(const Call *c, const char *name)
{
    for (int j = 0; j < c->nvalues; j++) {
        if (strcmp(c->names[j], name) == 0) {
            return c->values[j];
        }
    }
    return SIZE_UNKNOWN;
}

static void
do_call(Cx *cx, void *arg)
{
    Call *c = arg;
    do_parse(cx, &c->parse);
    const Fn *fn = c->parse.fn;
    if (c->nargs != fn->nparams) {
        fail(cx, DIAG_ARRAYS, fn->name, fn->nparams, c->nargs);
    }
    for (int k = 0; k < fn->body->nrets; k++) {
        if (fn->results[k].kind == RESULT_INTO && !c->writable[fn->results[k].of]) {
            fail(cx, DIAG_READ_ONLY, fn->results[k].of + 1);
        }
    }
    int64_t *sizes = cx_alloc(cx, (size_t)fn->nsizes * sizeof *sizes);
    for (int k = 0; k < fn->nsizes; k++) {
        sizes[k] = size_given(c, dim_name(cx, fn->sizes[k]));
    }
    c->out = cx_alloc(cx, (size_t)fn->body->nrets * sizeof *c->out);
    eval_fn_at(fn, sizes, c->in, c->out);
}

/* new: the results; for one that goes into a parameter, that argument itself */
static PyObject *
results_of(const Call *c, PyObject *arrays)
{
    const Fn *fn = c->parse.fn;
    PyObject *tuple = PyTuple_New(fn->body->nrets);
    for (int k = 0; tuple && k < fn->body->nrets; k++) {
        bool into = fn->results[k].kind == RESULT_INTO;
        PyObject *item = into ? Py_NewRef(PyTuple_GET_ITEM(arrays, fn->results[k].of))
                              : array_copy(&c->out[k]);
        if (!item) {
            Py_CLEAR(tuple);
        } else {
            PyTuple_SET_ITEM(tuple, k, item);
        }
    }
    return tuple;
}

/* Sizes given by name; -1 with an exception.  The strings belong to the dict. */
static int
sizes_of(Cx *cx, PyObject *dict, Call *c)
{
    Py_ssize_t n = PyDict_GET_SIZE(dict), at = 0;
    PyObject *key, *value;
    const char **names = cx_alloc(cx, (size_t)n * sizeof *names);
    int64_t *values = cx_alloc(cx, (size_t)n * sizeof *values);
    while (PyDict_Next(dict, &at, &key, &value)) {
        names[c->nvalues] = PyUnicode_AsUTF8(key);
        values[c->nvalues] = names[c->nvalues] ? PyLong_AsLongLong(value) : -1;
        if (!names[c->nvalues] || (values[c->nvalues] == -1 && PyErr_Occurred())) {
            return -1;
        }
        c->nvalues++;
    }
    c->names = names;
    c->values = values;
    return 0;
}

typedef struct {
    Call *call;
    PyObject *arrays, *sizes;
    int status;
} Arguments;

/* Under cx_try for the arena's sake, with the GIL. */
static void
read_arguments(Cx *cx, void *arg)
{
    Arguments *a = arg;
    a->status = sizes_of(cx, a->sizes, a->call);
    a->call->nargs = (int)PyTuple_GET_SIZE(a->arrays);
    a->call->in = cx_alloc(cx, (size_t)a->call->nargs * sizeof(Tensor));
    a->call->writable = cx_alloc(cx, (size_t)a->call->nargs * sizeof(bool));
    for (int k = 0; k < a->call->nargs && a->status == 0; k++) {
        PyObject *array = PyTuple_GET_ITEM(a->arrays, k);
        a->status = array_read(array, k, &a->call->in[k]);
        a->call->writable[k] = a->status == 0 && PyArray_ISWRITEABLE((PyArrayObject *)array);
    }
}

static PyObject *
ir_call(PyObject *Py_UNUSED(module), PyObject *args)
{
    Call c = {.parse = {.file = "text"}};
    Arguments a = {.call = &c};
    PyObject *results = NULL;
    if (!PyArg_ParseTuple(args, "sO!O!", &c.parse.text, &PyTuple_Type, &a.arrays, &PyDict_Type,
                          &a.sizes) ||
        array_ready() < 0) {
        return NULL;
    }
    Cx *cx = cx_new();
    if (!cx || !cx_try(cx, read_arguments, &a)) {
        PyErr_NoMemory();
    } else if (a.status == 0 && run(cx, do_call, &c) == 0) {
        results = results_of(&c, a.arrays);
    }
    cx_free(cx);
    return results;
}

/* ---- sample(text, seed, sizes) -> (arrays, sizes) ---- */

typedef struct {
    Call call;
    uint64_t seed;
    int64_t *sizes;
} Sample;

/* Sizes that are not given are small; the same seed gives the same ones. */
static void
do_sample(Cx *cx, void *arg)
{
    Sample *s = arg;
    do_parse(cx, &s->call.parse);
    const Fn *fn = s->call.parse.fn;
    uint64_t state = sample_seed(s->seed);
    s->sizes = cx_alloc(cx, (size_t)fn->nsizes * sizeof *s->sizes + 1);
    s->call.in = cx_alloc(cx, (size_t)fn->nparams * sizeof *s->call.in + 1);
    sample_sizes(fn, &state, s->sizes);
    for (int k = 0; k < fn->nsizes; k++) {
        int64_t given = size_given(&s->call, dim_name(cx, fn->sizes[k]));
        s->sizes[k] = given == SIZE_UNKNOWN ? s->sizes[k] : given;
    }
    sample_named(fn, s->seed, s->sizes, s->call.in);
}

/* new: with the tensor's strides, in memory of its own */
static PyObject *
strided_array(const void *tensors, int k)
{
    const Tensor *t = &((const Tensor *)tensors)[k];
    int64_t elements = 1;
    for (int ax = 0; ax < t->rank; ax++) {
        elements += t->sizes[ax] > 1 ? (t->sizes[ax] - 1) * t->strides[ax] : 0;
    }
    Tensor flat = {.dtype = t->dtype, .rank = 1, .sizes = {elements}, .data = t->data};
    PyObject *memory = array_copy(&flat), *array = NULL;
    if (memory) {
        array = array_view(memory, t->dtype, t->rank, t->sizes, t->strides,
                           PyArray_DATA((PyArrayObject *)memory));
        Py_DECREF(memory);
    }
    return array;
}

static PyObject *
sampled_size(const void *sample, int k)
{
    const Sample *s = sample;
    const Fn *fn = s->call.parse.fn;
    return Py_BuildValue("(sL)", dim_name(fn->cx, fn->sizes[k]), (long long)s->sizes[k]);
}

static PyObject *
ir_sample(PyObject *Py_UNUSED(module), PyObject *args)
{
    Sample s = {.call.parse.file = "text"};
    unsigned long long seed;
    PyObject *arrays = NULL, *sizes = NULL;
    Arguments a = {.call = &s.call, .arrays = PyTuple_New(0)};
    if (!a.arrays ||
        !PyArg_ParseTuple(args, "sKO!", &s.call.parse.text, &seed, &PyDict_Type, &a.sizes) ||
        array_ready() < 0) {
        Py_XDECREF(a.arrays);
        return NULL;
    }
    s.seed = seed;
    Cx *cx = cx_new();
    if (!cx || !cx_try(cx, read_arguments, &a)) {
        PyErr_NoMemory();
    } else if (a.status == 0 && run(cx, do_sample, &s) == 0) {
        arrays = list_made(s.call.parse.fn->nparams, strided_array, s.call.in);
        sizes = arrays ? list_made(s.call.parse.fn->nsizes, sampled_size, &s) : NULL;
    }
    cx_free(cx);
    Py_DECREF(a.arrays);
    if (!sizes) {
        Py_XDECREF(arrays);
        return NULL;
    }
    return Py_BuildValue("(NN)", arrays, sizes);
}

static PyMethodDef methods[] = {
    {"ir_parse", ir_parse, METH_VARARGS,
     PyDoc_STR("ir_parse(text, file) -> (text, name, stage, params, results, sizes), verified.")},
    {"ir_run_pass", ir_run_pass, METH_VARARGS,
     PyDoc_STR("ir_run_pass(text, name) -> str: the program after the pass.")},
    {"ir_scheduled", ir_scheduled, METH_VARARGS,
     PyDoc_STR("ir_scheduled(text, schedule) -> str: the loops as the lines have them.")},
    {"ir_schedule", ir_schedule, METH_VARARGS,
     PyDoc_STR(
         "ir_schedule(text, schedule) -> str: the lines for the kernels of the program, whose own\n"
         "schedule may be written, with their loops in comments.")},
    {"ir_passes", ir_passes, METH_NOARGS,
     PyDoc_STR("ir_passes() -> list of (name, what it does in one sentence).")},
    {"ir_call", ir_call, METH_VARARGS,
     PyDoc_STR("ir_call(text, arrays, sizes) -> tuple of arrays: runs the reference interpreter.")},
    {"ir_sample", ir_sample, METH_VARARGS,
     PyDoc_STR(
         "ir_sample(text, seed, sizes) -> (arrays, [(size, value), ..]): random arguments, with "
         "the strides that\n"
         "are promised; sizes that are not given are small ones.")},
    {NULL, NULL, 0, NULL},
};

int
ndarray_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
