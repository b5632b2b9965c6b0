/* From the saved parts of a graph to the result of a walk. The parts are not trusted: see Note
 * [Parts] in artifact.c. */
#include "artifact.h"

#include <string.h>

static int
bad(const char *what)
{
    PyErr_Format(PyExc_ValueError, "parts of a graph with %s", what);
    return -1;
}

/* Returns a borrowed reference to the list of tuples of that name. */
static PyObject *
rows_of(PyObject *parts, const char *name)
{
    PyObject *list = PyDict_GetItemString(parts, name);
    bool rows = list && PyList_Check(list);
    for (Py_ssize_t k = 0; rows && k < PyList_GET_SIZE(list); k++) {
        rows = PyTuple_Check(PyList_GET_ITEM(list, k));
    }
    if (!rows) {
        bad("a list missing");
    }
    return rows ? list : NULL;
}

static int
kind_of(const char *text, const char *const *kinds, int n)
{
    for (int k = 0; k < n; k++) {
        if (strcmp(text, kinds[k]) == 0) {
            return k;
        }
    }
    return bad("an unknown kind");
}

static void *
room(Py_ssize_t n, size_t size)
{
    void *memory = PyMem_Calloc((size_t)n + 1, size);
    if (!memory) {
        PyErr_NoMemory();
    }
    return memory;
}

/* ---- inputs ---- */

/* Inputs give each parameter once: a scalar one those that Python gives as numbers. */
static int
read_input(PyObject *row, const Fn *fn, bool *given, InputSpec *out)
{
    const char *text;
    int index;
    if (!PyArg_ParseTuple(row, "si", &text, &index)) {
        return -1;
    }
    int kind = kind_of(text, artifact_inputs, INPUT_UNUSED + 1);
    if (kind < 0) {
        return -1;
    }
    *out = (InputSpec){.kind = kind, .index = index};
    if (kind == INPUT_UNUSED) {
        return 0;
    }
    if (index < 0 || index >= (kind == INPUT_SIZE ? fn->nsizes : fn->nparams)) {
        return bad("an input of what is not there");
    }
    if (kind == INPUT_SIZE) {
        return 0;
    }
    const Type *type = fn->params[index]->type;
    bool number = type->rank == 0 &&
                  (type->dtype == DT_f64 || type->dtype == DT_i64 || type->dtype == DT_bool);
    if (given[index] || (kind == INPUT_SCALAR && !number)) {
        return bad("an input that is not of its parameter's sort");
    }
    given[index] = true;
    return 0;
}

static int
read_inputs(PyObject *parts, Captured *out)
{
    PyObject *rows = rows_of(parts, "inputs");
    Py_ssize_t n = rows ? PyList_GET_SIZE(rows) : 0;
    bool *given = room(out->fn->nparams, sizeof *given);
    out->inputs = room(n, sizeof *out->inputs);
    int status = rows && given && out->inputs ? 0 : -1;
    for (Py_ssize_t k = 0; status == 0 && k < n; k++) {
        status = read_input(PyList_GET_ITEM(rows, k), out->fn, given, &out->inputs[out->ninputs++]);
    }
    for (int k = 0; status == 0 && k < out->fn->nparams; k++) {
        status = given[k] ? 0 : bad("a parameter that no input gives");
    }
    PyMem_Free(given);
    return status;
}

/* ---- outputs ---- */

static int
read_output(PyObject *row, const Captured *of, OutputSpec *out)
{
    const Fn *fn = of->fn;
    const char *text;
    PyObject *object;
    int index;
    if (!PyArg_ParseTuple(row, "siO", &text, &index, &object)) {
        return -1;
    }
    int kind = kind_of(text, artifact_outputs, OUTPUT_INPUT + 1);
    if (kind < 0) {
        return -1;
    }
    if (kind == OUTPUT_OBJECT) {
        *out = (OutputSpec){kind, 0, Py_NewRef(object)};
        return 0;
    }
    *out = (OutputSpec){kind, index, NULL};
    if (index < 0 || index >= (kind == OUTPUT_INPUT ? of->ninputs : fn->body->nrets)) {
        return bad("an output of what is not there");
    }
    if (kind == OUTPUT_INPUT) {
        return 0;
    }
    if (fn->results[index].kind == RESULT_INTO) {
        return bad("an output of what goes into an input");
    }
    const Value *v = fn->body->rets[index];
    Dtype number = kind == OUTPUT_INT || kind == OUTPUT_BOOL ? DT_i64 : DT_f64;
    bool fits = v->type && v->type->rank == 0 && v->type->dtype == number;
    return fits || kind == OUTPUT_TENSOR ? 0 : bad("an output that is not of its result's sort");
}

static int
read_outputs(PyObject *parts, Captured *out)
{
    PyObject *rows = rows_of(parts, "outputs");
    Py_ssize_t n = rows ? PyList_GET_SIZE(rows) : 0;
    out->outputs = room(n, sizeof *out->outputs);
    int status = rows && out->outputs ? 0 : -1;
    for (Py_ssize_t k = 0; status == 0 && k < n; k++) {
        status = read_output(PyList_GET_ITEM(rows, k), out, &out->outputs[out->noutputs++]);
    }
    return status;
}

/* ---- calls ---- */

static char *
keep_text(const char *text)
{
    char *kept = text ? PyMem_Malloc(strlen(text) + 1) : NULL;
    return kept ? strcpy(kept, text) : NULL;    /* for messages: without memory there is none */
}

static int
read_positions(PyObject *list, CallSite *site)
{
    Py_ssize_t n = PyList_GET_SIZE(list);
    site->positions = room(n, sizeof *site->positions);
    site->dtypes = room(n, sizeof *site->dtypes);
    if (!site->positions || !site->dtypes) {
        return -1;
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        long at = PyLong_AsLong(PyList_GET_ITEM(list, k));
        if (at < -1 || at > INT_MAX || (at < 0 && n != 1) || PyErr_Occurred()) {
            return PyErr_Occurred() ? -1 : bad("a position of a result");
        }
        site->dtypes[k] = DTYPE_COUNT;                  /* the let will say */
        site->positions[site->nresults++] = (int)at;
    }
    return 0;
}

static int
read_site(PyObject *row, CallSite *site)
{
    PyObject *name, *target, *args, *kwargs, *positions;
    const char *node, *source;
    if (!PyArg_ParseTuple(row, "UOO!OzzO!", &name, &target, &PyTuple_Type, &args, &kwargs, &node,
                          &source, &PyList_Type, &positions)) {
        return -1;
    }
    if (!PyCallable_Check(target) || (kwargs != Py_None && !PyDict_CheckExact(kwargs))) {
        return bad("a call of what cannot be called");
    }
    site->target = Py_NewRef(target);
    site->args = Py_NewRef(args);
    site->kwargs = kwargs == Py_None ? NULL : Py_NewRef(kwargs);
    site->node = keep_text(node ? node : "");
    site->source = keep_text(source);
    return read_positions(positions, site);
}

/* ---- calls against the lets that make them ---- */

typedef struct {
    PyObject *rows;
    Captured *captured;
    int status;
} Check;

static int check_template(PyObject *o, const Let *let);

static int
check_slot(char kind, int index, const Let *let)
{
    if (kind == 'd' || kind == 'b') {
        return index < let_attr(let, "dims")->n ? 0 : bad("a slot of no size");
    }
    if (index >= let->nargs) {
        return bad("a slot of no operand");
    }
    const Type *type = let->args[index]->type;
    bool number = kind != 'f' || (type && type->rank == 0 && type->dtype == DT_f64);
    return number ? 0 : bad("a slot for a float of another operand");
}

static int
check_items(PyObject *o, const Let *let)
{
    PyObject *key, *value, **items = NULL;
    Py_ssize_t at = 0, n = 0;
    int status = 0;
    if (PyDict_CheckExact(o)) {
        while (status == 0 && PyDict_Next(o, &at, &key, &value)) {
            status = check_template(value, let);
        }
        return status;
    }
    if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
        items = PySequence_Fast_ITEMS(o);
        n = PySequence_Fast_GET_SIZE(o);
    }
    for (; status == 0 && at < n; at++) {
        status = check_template(items[at], let);
    }
    return status;
}

static int
check_template(PyObject *o, const Let *let)
{
    char kind;
    int index;
    if (slot_check(o, &kind, &index)) {
        return check_slot(kind, index, let);
    }
    if (Py_EnterRecursiveCall(" while a call is checked")) {
        return -1;
    }
    int status = check_items(o, let);
    Py_LeaveRecursiveCall();
    return status;
}

static int
check_let(const Check *check, const Let *let)
{
    const Captured *captured = check->captured;
    int64_t at = let_int(let, "site");
    if (at < 0 || at >= captured->nsites) {
        return bad("a call that is not there");
    }
    CallSite *site = &captured->sites[at];
    PyObject *name = PyTuple_GET_ITEM(PyList_GET_ITEM(check->rows, at), 0);
    if (PyUnicode_CompareWithASCIIString(name, let_str(let, "target")) != 0) {
        return bad("a call of another operator");
    }
    if (let->nres != site->nresults) {
        return bad("a call of other results");
    }
    for (int k = 0; k < let->nres; k++) {
        Dtype dtype = let->res[k]->type->dtype;
        if (site->dtypes[k] != DTYPE_COUNT && site->dtypes[k] != dtype) {
            return bad("a call that gives two dtypes");
        }
        site->dtypes[k] = dtype;
    }
    int status = check_template(site->args, let);
    return status < 0 || !site->kwargs ? status : check_template(site->kwargs, let);
}

static void
check_if_call(void *arg, Let *let)
{
    Check *check = arg;
    if (let->op == OP_call && check->status == 0) {
        check->status = check_let(check, let);
    }
    for (int k = 0; k < let->nbodies; k++) {
        fn_each_let(let->bodies[k], check_if_call, check);
    }
}

static int
read_calls(PyObject *parts, Captured *out)
{
    PyObject *rows = rows_of(parts, "calls");
    Py_ssize_t n = rows ? PyList_GET_SIZE(rows) : 0;
    out->sites = room(n, sizeof *out->sites);
    int status = rows && out->sites ? 0 : -1;
    for (Py_ssize_t k = 0; status == 0 && k < n; k++) {
        status = read_site(PyList_GET_ITEM(rows, k), &out->sites[out->nsites++]);
    }
    Check check = {rows, out, status};
    fn_each_let(out->fn, check_if_call, &check);
    return check.status;
}

int
artifact_read(Cx *cx, PyObject *parts, Captured *out)
{
    PyObject *text = PyDict_GetItemString(parts, "text");
    const char *program = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
    *out = (Captured){0};
    if (!program) {
        return PyErr_Occurred() ? -1 : bad("no text");
    }
    out->fn = parse_fn(cx, program, "artifact");
    out->recorded = PyDict_GetItemString(parts, "recorded") == Py_True;
    verify_fn(out->fn);
    if (out->fn->stage != STAGE_GRAPH) {
        return bad("a program that is no graph");
    }
    if (read_inputs(parts, out) < 0 || read_outputs(parts, out) < 0) {
        return -1;
    }
    return read_calls(parts, out);
}
