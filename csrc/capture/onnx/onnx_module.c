/* dlc._C.onnx: a graph of ONNX, as plain Python data, to a program. */
#include "onnx.h"

#include "capture/capture.h"
#include "fusion/fusion.h"

#include <string.h>

typedef struct {
    const char *name;
    PyObject *inputs, *weights, *nodes, *outputs, *names, *kinds; /* lists, borrowed */
    PyObject *sizes; /* dict: name to (least, most) */
    bool raised; /* a Python exception is set */
    Onnx o;
    Value **params; /* by number, or NULL */
    Text wrong;
    int nwrong, nbound, nunknown, nsteps;
    PyObject *answer;
} Job;

/* ---- reading Python's data ---- */

static _Noreturn void
raised(Job *job)
{
    job->raised = true;
    fail(job->o.cx, DIAG_PYTHON);
}

static PyObject *
item(Job *job, PyObject *of, Py_ssize_t k)
{
    PyObject *found = PyTuple_Check(of) && k < PyTuple_GET_SIZE(of) ? PyTuple_GET_ITEM(of, k)
                      : PyList_Check(of) && k < PyList_GET_SIZE(of) ? PyList_GET_ITEM(of, k)
                                                                    : NULL;
    if (!found) {
        PyErr_SetString(PyExc_TypeError, "a graph of ONNX lacks a part");
        raised(job);
    }
    return found;
}

static int
length(Job *job, PyObject *of)
{
    Py_ssize_t n = PySequence_Length(of);
    if (n < 0 || n > INT32_MAX) {
        raised(job);
    }
    return (int)n;
}

static int64_t
whole(Job *job, PyObject *of)
{
    long long i = PyLong_AsLongLong(of);
    if (i == -1 && PyErr_Occurred()) {
        raised(job);
    }
    return i;
}

static double
real(Job *job, PyObject *of)
{
    double f = PyFloat_AsDouble(of);
    if (f == -1 && PyErr_Occurred()) {
        raised(job);
    }
    return f;
}

/* In the arena, since it outlives the object. */
static const char *
text(Job *job, PyObject *of)
{
    Py_ssize_t n;
    const char *s = PyUnicode_AsUTF8AndSize(of, &n);
    if (!s) {
        raised(job);
    }
    return cx_intern(job->o.cx, s, (size_t)n);
}

static const int *
value_numbers(Job *job, PyObject *list, int *n)
{
    *n = length(job, list);
    int *out = cx_alloc(job->o.cx, (size_t)(*n + 1) * sizeof *out);
    for (int k = 0; k < *n; k++) {
        int64_t i = whole(job, item(job, list, k));
        if (i < -1 || i >= job->o.nvalues) {
            PyErr_Format(PyExc_ValueError, "a graph of ONNX has no value %lld", (long long)i);
            raised(job);
        }
        out[k] = (int)i;
    }
    return out;
}

static void read_nodes(Job *job, OnnxGraph *g, PyObject *nodes);

/* (inputs, nodes, outputs) */
static const OnnxGraph *
graph_of(Job *job, PyObject *parts)
{
    OnnxGraph *g = cx_alloc(job->o.cx, sizeof *g);
    g->inputs = value_numbers(job, item(job, parts, 0), &g->ninputs);
    g->outputs = value_numbers(job, item(job, parts, 2), &g->noutputs);
    for (int k = 0; k < g->ninputs + g->noutputs; k++) {
        if ((k < g->ninputs ? g->inputs[k] : g->outputs[k - g->ninputs]) < 0) {
            PyErr_SetString(PyExc_ValueError, "an input or output of a graph has no name");
            raised(job);
        }
    }
    if (Py_EnterRecursiveCall(" in a graph of ONNX")) {
        raised(job);
    }
    read_nodes(job, g, item(job, parts, 1));
    Py_LeaveRecursiveCall();
    return g;
}

/* A text, a list of ints or floats, a tuple of texts, or a tuple of a graph's parts. */
static OnnxAttr
attr_of(Job *job, PyObject *pair)
{
    Cx *cx = job->o.cx;
    PyObject *value = item(job, pair, 1);
    OnnxAttr a = {.name = text(job, item(job, pair, 0)), .kind = ONNX_TEXT};
    if (PyUnicode_Check(value)) {
        a.text = text(job, value);
        return a;
    }
    if (PyTuple_Check(value) && length(job, value) && !PyUnicode_Check(item(job, value, 0))) {
        a.kind = ONNX_GRAPH;
        a.graph = graph_of(job, value);
        return a;
    }
    if (PyTuple_Check(value)) {
        a.kind = ONNX_TEXTS;
        a.n = length(job, value);
        const char **texts = cx_alloc(cx, (size_t)(a.n + 1) * sizeof *texts);
        for (int k = 0; k < a.n; k++) {
            texts[k] = text(job, item(job, value, k));
        }
        a.texts = texts;
        return a;
    }
    a.n = length(job, value);
    a.kind = a.n && PyFloat_Check(item(job, value, 0)) ? ONNX_FLOATS : ONNX_INTS;
    int64_t *ints = cx_alloc(cx, (size_t)(a.n + 1) * sizeof *ints);
    double *floats = cx_alloc(cx, (size_t)(a.n + 1) * sizeof *floats);
    for (int k = 0; k < a.n; k++) {
        PyObject *of = item(job, value, k);
        if (a.kind == ONNX_INTS) {
            ints[k] = whole(job, of);
        } else {
            floats[k] = real(job, of);
        }
    }
    a.ints = ints;
    a.floats = floats;
    return a;
}

/* (op, domain, version, name, inputs, outputs, attributes) */
static OnnxNode
node_of(Job *job, PyObject *row)
{
    OnnxNode node = {.op = text(job, item(job, row, 0)),
                     .domain = text(job, item(job, row, 1)),
                     .version = (int)whole(job, item(job, row, 2)),
                     .name = text(job, item(job, row, 3))};
    node.inputs = value_numbers(job, item(job, row, 4), &node.ninputs);
    node.outputs = value_numbers(job, item(job, row, 5), &node.noutputs);
    PyObject *list = item(job, row, 6);
    node.nattrs = length(job, list);
    OnnxAttr *attrs = cx_alloc(job->o.cx, (size_t)(node.nattrs + 1) * sizeof *attrs);
    for (int k = 0; k < node.nattrs; k++) {
        attrs[k] = attr_of(job, item(job, list, k));
    }
    node.attrs = attrs;
    return node;
}

static void
read_nodes(Job *job, OnnxGraph *g, PyObject *nodes)
{
    g->nnodes = length(job, nodes);
    OnnxNode *all = cx_alloc(job->o.cx, (size_t)(g->nnodes + 1) * sizeof *all);
    for (int k = 0; k < g->nnodes; k++) {
        all[k] = node_of(job, item(job, nodes, k));
    }
    g->nodes = all;
}

/* (number, dtype, sizes), a size a number or a name */
static const Type *
array_type(Job *job, PyObject *row, int *number)
{
    Cx *cx = job->o.cx;
    PyObject *sizes = item(job, row, 2);
    int rank = length(job, sizes);
    const char *name = text(job, item(job, row, 1));
    Dtype dtype = dtype_find(name, strlen(name));
    Dim dims[MAX_RANK];
    int64_t at = whole(job, item(job, row, 0));
    if (dtype == DTYPE_COUNT || rank > MAX_RANK || at < 0 || at >= job->o.nvalues) {
        PyErr_Format(PyExc_ValueError,
                     "an array of the element type %s with %d axes is not supported", name, rank);
        raised(job);
    }
    for (int ax = 0; ax < rank; ax++) {
        PyObject *size = item(job, sizes, ax);
        dims[ax] = PyUnicode_Check(size) ? dim_size(cx, text(job, size))
                                         : dim_int(cx, whole(job, size));
    }
    *number = (int)at;
    return type_of(cx, dtype, rank, dims);
}

static void
read_sizes(Job *job)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(job->sizes, &at, &key, &value)) {
        const char *name = text(job, key);
        int64_t most = whole(job, item(job, value, 1));
        Dim d = dim_size(job->o.cx, name);
        Range range = {whole(job, item(job, value, 0)), most < 0 ? DIM_INF : most};
        dim_declare(job->o.cx, d, range, 1);
        fn_take_name(job->o.fn, name);
        fn_size(job->o.fn, d);
    }
}

/* A name of the language that is like ONNX's. */
static const char *
param_name(Job *job, int number)
{
    Cx *cx = job->o.cx;
    char *name = cx_format(cx, "%s", job->o.names[number]);
    for (char *c = name; *c; c++) {
        bool is_letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        bool is_digit = *c >= '0' && *c <= '9';
        *c = is_letter || (is_digit && c > name) ? *c : '_';
    }
    if (strlen(name) > 64) {
        name[64] = '\0';
    }
    name = *name ? name : cx_format(cx, "x");
    return text_is_word(name) && op_find(name, strlen(name)) == OP_COUNT &&
                   dtype_find(name, strlen(name)) == DTYPE_COUNT &&
                   !fn_has_name(job->o.fn, name, strlen(name))
               ? name
               : fn_fresh_name(job->o.fn, cx_format(cx, "%s_", name));
}

static Value *
param_of(Job *job, PyObject *row)
{
    int number;
    const Type *t = array_type(job, row, &number);
    Value *v = fn_param(job->o.fn, param_name(job, number), t, NULL);
    job->params[number] = job->o.values[number] = v;
    return v;
}

/* (number, dtype, sizes, elements or None): a weight; one element is a constant. */
static void
weight_of(Job *job, PyObject *row)
{
    Onnx *o = &job->o;
    PyObject *values = item(job, row, 3);
    int n = values == Py_None ? -1 : length(job, values), number;
    Known known = {.n = n};
    if (n >= 0) {
        known.elements = cx_alloc(o->cx, (size_t)(n + 1) * sizeof *known.elements);
    }
    for (int k = 0; k < n; k++) {
        PyObject *of = item(job, values, k);
        known.elements[k] = PyFloat_Check(of)
                                ? (Element){ELEMENT_FLOAT, DIM_NONE, real(job, of)}
                                : (Element){ELEMENT_DIM, dim_int(o->cx, whole(job, of)), 0};
    }
    if (n == 1) {
        const Type *t = array_type(job, row, &number);
        int64_t i = 0;
        bool is_int = known.elements[0].kind == ELEMENT_DIM;
        if (is_int) {
            dim_is_int(o->cx, known.elements[0].d, &i);
        }
        Literal l = {.is_int = is_int, .i = i, .f = known.elements[0].f};
        o->values[number] = onnx_from_array(o, build_const(o->b, t, l), o->kinds[number]);
        return;
    }
    Value *v = param_of(job, row);
    if (n >= 0) {
        onnx_know_param(o, v, &known);
    }
}

/* Parameters of element types that the language lacks, as numbers. */
static void
take_arrays(Job *job)
{
    Onnx *o = &job->o;
    for (int k = 0; k < o->nvalues; k++) {
        if (job->params[k]) {
            o->values[k] = onnx_from_array(o, job->params[k], o->kinds[k]);
        }
    }
}

/* ---- nodes ---- */

static void
build_nodes(Job *job)
{
    Onnx *o = &job->o;
    OnnxGraph g = {0};
    read_nodes(job, &g, job->nodes);
    o->images = onnx_convolutions(&g) > 1;
    onnx_nodes(o, &g);
    if (job->nwrong > MAX_SHOWN) {
        text_add(&job->wrong, "; and %d more", job->nwrong - MAX_SHOWN);
    }
    if (job->nwrong) {
        fail(o->cx, DIAG_ONNX_NODES, job->nwrong, job->nwrong == 1 ? "" : "s", job->wrong.text);
    }
}

/* ---- the answer ---- */

/* Weights that nothing reads, and that are no output, go; by position, which did not. */
static void
drop_weights(Fn *fn, int first, const bool *given)
{
    ValueUse *uses = value_uses(fn);
    int kept = 0;
    for (int k = 0; k < fn->nparams; k++) {
        Value *v = fn->params[k];
        if (k < first || given[k] || uses[v->id].last >= 0) {
            v->result = kept;
            fn->params[kept++] = v;
        }
    }
    fn->nparams = kept;
}

/* The outputs: a result of the program or, where nothing is computed, a parameter. */
typedef struct {
    int n, nresults;
    Value **results; /* each once */
    const char **params; /* by output, or NULL */
    int *at; /* by output: the result */
} Outputs;

static Outputs
outputs_of(Job *job, bool *given)
{
    Onnx *o = &job->o;
    int n = length(job, job->outputs);
    Outputs out = {n, 0, cx_alloc(o->cx, (size_t)(n + 1) * sizeof *out.results),
                   cx_alloc(o->cx, (size_t)(n + 1) * sizeof *out.params),
                   cx_alloc(o->cx, (size_t)(n + 1) * sizeof *out.at)};
    for (int k = 0; k < n; k++) {
        int64_t at = whole(job, item(job, job->outputs, k));
        Value *v = at >= 0 && at < o->nvalues ? o->values[at] : NULL;
        for (int p = 0; v && p < o->nvalues; p++) { /* a parameter as it is given */
            bool same = job->params[p] && o->values[p] == v && o->kinds[p] == o->kinds[at];
            v = same ? job->params[p] : v;
        }
        v = v && v->def ? onnx_to_array(o, v, o->kinds[at]) : v;
        if (!v) {
            fail(o->cx, DIAG_ONNX_NODE, "an output of the graph is not computed");
        }
        if (!v->def) {
            given[v->result] = true;
            out.params[k] = v->name;
            continue;
        }
        while (out.at[k] < out.nresults && out.results[out.at[k]] != v) {
            out.at[k]++;
        }
        if (out.at[k] == out.nresults) {
            out.results[out.nresults++] = v;
        }
    }
    return out;
}

/* [(position of the parameter, number of the weight), ..] */
static PyObject *
weights_of(Job *job, const Fn *fn, int first)
{
    const Onnx *o = &job->o;
    PyObject *list = PyList_New(0);
    for (int k = first; list && k < fn->nparams; k++) {
        int number = 0;
        while (
            number < o->nvalues - 1 &&
            (!job->params[number] || strcmp(job->params[number]->name, fn->params[k]->name) != 0)) {
            number++;
        }
        PyObject *pair = Py_BuildValue("(ii)", k, number);
        if (!pair || PyList_Append(list, pair) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(pair);
    }
    return list;
}

static PyObject *
answer_of(Job *job, const Fn *fn, const Outputs *out, const char *program)
{
    PyObject *outputs = PyList_New(0);
    PyObject *weights = weights_of(job, fn, length(job, job->inputs));
    bool ok = outputs && weights;
    for (int k = 0; k < out->n && ok; k++) {
        int at = out->at[k];
        for (int p = 0; out->params[k] && p < fn->nparams; p++) {
            at = strcmp(fn->params[p]->name, out->params[k]) == 0 ? p : at;
        }
        PyObject *pair = Py_BuildValue("(si)", out->params[k] ? "input" : "array", at);
        ok = pair && PyList_Append(outputs, pair) == 0;
        Py_XDECREF(pair);
    }
    PyObject *made = ok ? Py_BuildValue("(sOO)", program, outputs, weights) : NULL;
    Py_XDECREF(weights);
    Py_XDECREF(outputs);
    return made;
}

static void
finish(Job *job)
{
    Onnx *o = &job->o;
    bool *given = cx_alloc(o->cx, (size_t)(o->fn->nparams + 1) * sizeof *given);
    Outputs out = outputs_of(job, given);
    PassOptions passes = PASS_OPTIONS_NONE;
    Text program = {.cx = o->cx};
    fn_results(o->fn, out.nresults, out.results, NULL);
    Fn *fn = pass_run(pass_find("dead"), o->fn, &passes);
    drop_weights(fn, length(job, job->inputs), given);
    verify_fn(fn);
    print_fn(fn, &program);
    job->answer = answer_of(job, fn, &out, program.text);
    job->raised = !job->answer;
}

static void
body(Cx *cx, void *arg)
{
    Job *job = arg;
    Onnx *o = &job->o;
    o->cx = cx;
    job->wrong.cx = cx;
    o->nvalues = length(job, job->names);
    o->values = cx_alloc(cx, (size_t)(o->nvalues + 1) * sizeof *o->values);
    o->names = cx_alloc(cx, (size_t)(o->nvalues + 1) * sizeof *o->names);
    for (int k = 0; k < o->nvalues; k++) {
        o->names[k] = text(job, item(job, job->names, k));
    }
    job->params = cx_alloc(cx, (size_t)(o->nvalues + 1) * sizeof *job->params);
    o->kinds = cx_alloc(cx, (size_t)(o->nvalues + 1) * sizeof *o->kinds);
    for (int k = 0; k < o->nvalues; k++) {
        o->kinds[k] = (int)whole(job, item(job, job->kinds, k));
    }
    o->fn = fn_new(cx, cx_intern(cx, job->name, strlen(job->name)), STAGE_GRAPH);
    o->b = build_new(o->fn);
    o->wrong = &job->wrong;
    o->nwrong = &job->nwrong;
    o->nbound = &job->nbound;
    o->nunknown = &job->nunknown;
    o->nsteps = &job->nsteps;
    read_sizes(job);
    bool *is_input = cx_alloc(cx, (size_t)o->nvalues + 1);
    for (int k = 0; k < length(job, job->inputs); k++) {
        param_of(job, item(job, job->inputs, k));
    }
    for (int k = 0; k < o->nvalues; k++) {
        is_input[k] = o->values[k] != NULL;
    }
    o->is_input = is_input;
    for (int k = 0; k < length(job, job->weights); k++) {
        weight_of(job, item(job, job->weights, k));
    }
    take_arrays(job);
    build_nodes(job);
    finish(job);
}

static PyObject *
onnx(PyObject *Py_UNUSED(module), PyObject *args)
{
    Job job = {0};
    if (!PyArg_ParseTuple(args, "sO!O!O!O!O!O!O!", &job.name, &PyList_Type, &job.names,
                          &PyList_Type, &job.kinds, &PyDict_Type, &job.sizes, &PyList_Type,
                          &job.inputs, &PyList_Type, &job.weights, &PyList_Type, &job.nodes,
                          &PyList_Type, &job.outputs)) {
        return NULL;
    }
    Cx *cx = cx_new();
    if (!cx) {
        return PyErr_NoMemory();
    }
    if (!cx_try(cx, body, &job) && !job.raised) {
        raise_diag(cx_diag(cx));
        Py_CLEAR(job.answer);
    }
    cx_free(cx);
    return job.answer;
}

/* [(operator, the version from which on a row holds), ..] */
static PyObject *
operators_row(const void *rows, int k)
{
    const OnnxRow *row = &((const OnnxRow *)rows)[k];
    return Py_BuildValue("(si)", row->op, row->since);
}

static PyObject *
onnx_operators(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    return list_made(onnx_nrows, operators_row, onnx_rows);
}

static PyMethodDef methods[] = {
    {"onnx", onnx, METH_VARARGS,
     PyDoc_STR(
         "onnx(name, names, kinds, sizes, inputs, weights, nodes, outputs) -> (program, outputs, "
         "weights)\n\n"
         "names: of the values, which have numbers; kinds: their element types in ONNX, 0: not "
         "known. sizes: {name: (least, most or -1)}. inputs: "
         "[(number, dtype, sizes), ..];\nweights: the same with the elements or None. nodes: "
         "[(op, domain, version, name, inputs, outputs, attributes), ..]\nin order. An output is "
         "('array', result) or ('input', parameter). Raises CaptureError with all nodes that\n"
         "are not supported.")},
    {"onnx_operators", onnx_operators, METH_NOARGS,
     PyDoc_STR("onnx_operators() -> [(operator, first version), ..]")},
    {NULL},
};

int
onnx_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
