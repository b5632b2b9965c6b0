/* Functions of the language on NumPy arrays, for dlc.ir.
 *
 * A call parses its text anew in a context of its own: nothing is shared, so calls may run at the
 * same time, and all memory of a call ends with it.  NumPy is imported by the first call. */
#include "capture.h"
#include "passes.h"

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>
#include <string.h>

static int
need_numpy(void)
{
    return PyArray_API ? 0 : _import_array();
}

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

static PyObject *
ir_run_pass(PyObject *Py_UNUSED(module), PyObject *args)
{
    Parse p = {.file = "text"};
    if (!PyArg_ParseTuple(args, "ss", &p.text, &p.pass)) {
        return NULL;
    }
    Cx *cx = cx_new();
    PyObject *text = run(cx, do_pass, &p) == 0 ? PyUnicode_FromString(p.canonical.text) : NULL;
    cx_free(cx);
    return text;
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

static const struct {
    int numpy;
    Dtype dtype;
} dtypes[] = {
    {NPY_BOOL, DT_bool}, {NPY_UINT8, DT_u8},   {NPY_INT8, DT_i8},    {NPY_INT16, DT_i16},
    {NPY_INT32, DT_i32}, {NPY_INT64, DT_i64},  {NPY_HALF, DT_f16},   {NPY_UINT16, DT_bf16},
    {NPY_FLOAT, DT_f32}, {NPY_DOUBLE, DT_f64}, {NPY_CFLOAT, DT_c64}, {NPY_CDOUBLE, DT_c128},
};
enum { NDTYPES = sizeof dtypes / sizeof *dtypes };

/* DTYPE_COUNT when there is none; long and long long may be one dtype under two numbers. */
static Dtype
dtype_of(PyArrayObject *array)
{
    for (int k = 0; k < NDTYPES; k++) {
        if (PyArray_EquivTypenums(PyArray_TYPE(array), dtypes[k].numpy)) {
            return dtypes[k].dtype;
        }
    }
    return DTYPE_COUNT;
}

/* The array as it is in memory; -1 with an exception. */
static int
tensor_of(PyObject *object, Py_ssize_t position, Tensor *out)
{
    if (!PyArray_Check(object)) {
        PyErr_Format(PyExc_TypeError, "argument %zd is not a NumPy array", position + 1);
        return -1;
    }
    PyArrayObject *array = (PyArrayObject *)object;
    out->dtype = dtype_of(array);
    out->rank = PyArray_NDIM(array);
    out->data = PyArray_DATA(array);
    npy_intp item = PyArray_ITEMSIZE(array);
    bool plain = out->dtype != DTYPE_COUNT && out->rank <= MAX_RANK &&
                 PyArray_ISNOTSWAPPED(array) && PyArray_ISALIGNED(array);
    for (int ax = 0; ax < out->rank && plain; ax++) {
        out->sizes[ax] = PyArray_DIM(array, ax);
        out->strides[ax] = PyArray_STRIDE(array, ax) / item;
        plain = PyArray_STRIDE(array, ax) % item == 0;
    }
    if (!plain) {
        PyErr_Format(PyExc_ValueError,
                     "argument %zd: an array of dtype %R, %d axes and such "
                     "strides is not supported",
                     position + 1, PyArray_DESCR(array), out->rank);
    }
    return plain ? 0 : -1;
}

/* new */
static PyObject *
array_of(const Tensor *t)
{
    npy_intp dims[MAX_RANK];
    int k = 0;
    while (dtypes[k].dtype != t->dtype) {
        k++;
    }
    for (int ax = 0; ax < t->rank; ax++) {
        dims[ax] = (npy_intp)t->sizes[ax];
    }
    PyObject *array = PyArray_SimpleNew(t->rank, dims, dtypes[k].numpy);
    if (array) {
        PyArrayObject *a = (PyArrayObject *)array;
        memcpy(PyArray_DATA(a), t->data, (size_t)PyArray_NBYTES(a));
    }
    return array;
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
                              : array_of(&c->out[k]);
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
        a->status = tensor_of(array, k, &a->call->in[k]);
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
        need_numpy() < 0) {
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
    npy_intp item = dtype_info[t->dtype].bytes, elements = 1, sizes[MAX_RANK], strides[MAX_RANK];
    for (int ax = 0; ax < t->rank; ax++) {
        sizes[ax] = (npy_intp)t->sizes[ax];
        strides[ax] = (npy_intp)t->strides[ax] * item;
        elements += sizes[ax] > 1 ? (sizes[ax] - 1) * (npy_intp)t->strides[ax] : 0;
    }
    Tensor flat = {.dtype = t->dtype, .rank = 1, .sizes = {elements}, .data = t->data};
    PyObject *memory = array_of(&flat), *array = NULL;
    if (memory) {
        PyArrayObject *m = (PyArrayObject *)memory;
        array = PyArray_New(&PyArray_Type, t->rank, sizes, PyArray_TYPE(m), strides,
                            PyArray_DATA(m), 0, NPY_ARRAY_WRITEABLE | NPY_ARRAY_ALIGNED, NULL);
    }
    /* steals the memory */
    if (array && PyArray_SetBaseObject((PyArrayObject *)array, memory) < 0) {
        Py_CLEAR(array);
    } else if (!array) {
        Py_XDECREF(memory);
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
        need_numpy() < 0) {
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
