/* A program as plain C, from Python. */
#include "module.h"

#include <ctype.h>
#include <string.h>

typedef struct {
    const char *text, *name;
    PyObject *sizes;            /* dict: of the example */
    PyObject *weights; /* set of names of parameters; or dict: by name, (name in a file, array) */
    Py_buffer *views;  /* of the arrays, by parameter */
    int nviews;
    int pieces;
    ExportOptions options;
    const ExportFile *files;
    int count;
} Job;

/* Does it begin every name that a linker sees? */
static bool
is_identifier(const char *name)
{
    bool good = isalpha((unsigned char)*name) != 0;
    for (const char *c = name; *c; c++) {
        good &= isalnum((unsigned char)*c) || *c == '_';
    }
    return good;
}

/* The sizes of the example that are given, by position. */
static const int64_t *
read_sizes(const Fn *fn, PyObject *dict)
{
    int64_t *sizes = cx_alloc(fn->cx, ((size_t)fn->nsizes + 1) * sizeof *sizes);
    for (int k = 0; k < fn->nsizes; k++) {
        PyObject *value = PyDict_GetItemString(dict, dim_name(fn->cx, fn->sizes[k]));
        sizes[k] = value ? PyLong_AsLongLong(value) : SIZE_UNKNOWN;
    }
    return sizes;
}

/* Sizes that the program has as numbers. */
static const FixedSize *
fixed_sizes(Cx *cx, PyObject *dict, int *n)
{
    FixedSize *fixed = cx_alloc(cx, ((size_t)PyDict_Size(dict) + 1) * sizeof *fixed);
    PyObject *name, *value;
    Py_ssize_t at = 0;
    for (*n = 0; PyDict_Next(dict, &at, &name, &value); ++*n) {
        const char *text = PyUnicode_AsUTF8(name);
        fixed[*n] = (FixedSize){text ? text : "", PyLong_AsLongLong(value)};
    }
    return fixed;
}

static const char **
result_names(const Fn *fn)
{
    const char **names = cx_alloc(fn->cx, ((size_t)fn->body->nrets + 1) * sizeof *names);
    for (int k = 0; k < fn->body->nrets; k++) {
        const Value *v = fn->body->rets[k];
        names[k] = v->name && v->def ? v->name : "out";
    }
    return names;
}

/* By parameter: is it a weight?  NULL: there are none. */
static const bool *
find_weights(const Fn *fn, PyObject *names)
{
    bool *weights = cx_alloc(fn->cx, (size_t)fn->nparams + 1), any = false;
    for (int k = 0; k < fn->nparams; k++) {
        PyObject *name = PyUnicode_FromString(fn->params[k]->name);
        weights[k] = name && PySequence_Contains(names, name) > 0;
        any |= weights[k];
        Py_XDECREF(name);
    }
    return any ? weights : NULL;
}

/* The elements of weights, their bytes and their names in a file. */
static void
find_data(Job *job, const Fn *fn)
{
    size_t n = (size_t)fn->nparams + 1;
    const void **data = cx_alloc(fn->cx, n * sizeof *data);
    int64_t *bytes = cx_alloc(fn->cx, n * sizeof *bytes);
    const char **stored = cx_alloc(fn->cx, n * sizeof *stored);
    job->views = cx_alloc(fn->cx, n * sizeof *job->views);
    for (int k = 0; k < fn->nparams && job->options.weights; k++) {
        PyObject *pair = PyDict_GetItemString(job->weights, fn->params[k]->name), *array;
        Py_buffer *view = &job->views[job->nviews];
        if (!pair) {
            continue;
        }
        if (!PyArg_ParseTuple(pair, "sO", &stored[k], &array) ||
            PyObject_GetBuffer(array, view, PyBUF_C_CONTIGUOUS) < 0) {
            return;
        }
        job->nviews++;
        data[k] = view->buf;
        bytes[k] = view->len;
    }
    job->options.data = data;
    job->options.bytes = bytes;
    job->options.stored = stored;
}

static void
body(Cx *cx, void *arg)
{
    Job *job = arg;
    PassOptions passes = pass_options_wanted();
    if (!is_identifier(job->name)) {
        fail(cx, DIAG_EXPORT_NAME, job->name);
    }
    int n = 0;
    bool is_number = job->options.target != EXPORT_C;
    const FixedSize *fixed = is_number ? fixed_sizes(cx, job->sizes, &n) : NULL;
    if (PyErr_Occurred()) {
        return;
    }
    Fn *fn = parse_fixed(cx, job->text, "text", n, fixed);
    verify_fn(fn);
    if (fn->stage != STAGE_GRAPH) {
        fail(cx, DIAG_EXPORT_STAGE, stage_name(fn->stage));
    }
    job->options.name = job->name;
    job->options.outputs = result_names(fn);
    job->options.sizes = read_sizes(fn, job->sizes);
    job->options.pieces = job->pieces;
    job->options.weights = find_weights(fn, job->weights);
    if (PyDict_Check(job->weights)) {
        find_data(job, fn);
    }
    if (PyErr_Occurred()) {
        return;
    }
    job->files = export_c(pipeline_run(fn, &passes), &job->options, &job->count);
}

static PyObject *
export_to_c(PyObject *Py_UNUSED(module), PyObject *args)
{
    Job job = {0};
    PyObject *files = NULL;
    const char *target;
    if (!PyArg_ParseTuple(args, "ssO!iOs", &job.text, &job.name, &PyDict_Type, &job.sizes,
                          &job.pieces, &job.weights, &target)) {
        return NULL;
    }
    static const char *const targets[] = {
        [EXPORT_C] = "c", [EXPORT_WASM] = "wasm", [EXPORT_DEVICE] = "device", [EXPORT_HLS] = "hls"};
    while (strcmp(targets[job.options.target], target) != 0) {
        if (++job.options.target > EXPORT_HLS) {
            return PyErr_Format(PyExc_ValueError, "target is c, wasm, device or hls, not %s",
                                target);
        }
    }
    Cx *cx = cx_new();
    if (!cx) {
        return PyErr_NoMemory();
    }
    if (!cx_try(cx, body, &job)) {
        raise_diag(cx_diag(cx));
    } else if (!PyErr_Occurred()) {
        files = PyDict_New();
        for (int k = 0; files && k < job.count; k++) {
            const ExportFile *file = &job.files[k];
            PyObject *bytes = file->bytes
                                  ? PyBytes_FromStringAndSize(file->bytes, (Py_ssize_t)file->length)
                                  : Py_NewRef(Py_None);
            if (!bytes || PyDict_SetItemString(files, file->name, bytes) < 0) {
                Py_CLEAR(files);
            }
            Py_XDECREF(bytes);
        }
    }
    for (int k = 0; k < job.nviews; k++) {
        PyBuffer_Release(&job.views[k]);
    }
    cx_free(cx);
    return files;
}

static PyMethodDef methods[] = {
    {"export_c", export_to_c, METH_VARARGS,
     PyDoc_STR(
         "export_c(text, name, sizes, pieces, weights, target) -> dict of bytes by name: the files "
         "of a\nprogram as plain C.\n"
         "sizes: of the example, where they are to be others than small ones; for another target "
         "than c numbers\n"
         "of the program. pieces: into so many a kernel is\n"
         "cut for threads, at most. weights: a set of names of parameters, which are bound; or a "
         "dict, by name of a\n"
         "parameter (name in a file, array). A file that is None is that of the weights, which "
         "the caller writes. target: c, wasm, device or hls, see export.h.")},
    {NULL},
};

int
export_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
