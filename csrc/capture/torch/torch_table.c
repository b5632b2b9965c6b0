/* torch.def as the walk asks it: from a Python function to its row, from its arguments to the row's
 * parameters. */
#include "capture/walk/walk.h"

#include <string.h>

enum { MAX_PARAMETERS = 10 };

typedef struct {
    PyObject *names[MAX_PARAMETERS];
    Arg otherwise[MAX_PARAMETERS];
    int n, inplace; /* position of the parameter of that name, or -1 */
    bool rest; /* the last one takes all that are left */
} Parameters;

/* By row; filled in at the first walk, like WalkPython. */
static Parameters *parameters;
static AtenRow *builders;

/* ---- the rows by function and by method ---- */

static int
row_add(PyObject *key, int row, bool writes)
{
    PyObject *value = key ? PyLong_FromLong(2 * row + writes) : NULL;
    int status = value ? PyDict_SetItem(py.functions, key, value) : -1;
    Py_XDECREF(value);
    Py_XDECREF(key);
    return status;
}

/* The function of that name; nothing when this torch has none. */
static int
function_add(PyObject *holder, const char *name, int row, bool writes)
{
    PyObject *function = PyObject_GetAttrString(holder, name);
    if (!function) {
        PyErr_Clear();
        return 0;
    }
    return row_add(function, row, writes);
}

static int
row_names(int row, PyObject *const holders[TORCH_HOLDERS])
{
    static const char places[] = "tfnobl";
    const TorchRow *r = &torch_rows[row];
    bool writes = strchr(r->in, '_') != NULL;
    char written[64], stem[64];
    snprintf(written, sizeof written, "%s_", r->name);
    snprintf(stem, sizeof stem, "i%.*s", (int)strcspn(r->name, "_"), r->name);
    for (const char *at = r->in; *at; at++) {
        const char *place = strchr(places, *at);
        if (*at == 'm' && (row_add(PyUnicode_FromString(r->name), row, false) < 0 ||
                           (writes && row_add(PyUnicode_FromString(written), row, true) < 0))) {
            return -1;
        }
        if (place && function_add(holders[place - places], r->name, row, false) < 0) {
            return -1;
        }
        if (place && writes && (*at == 't' || *at == 'o') &&
            function_add(holders[place - places], *at == 't' ? written : stem, row, true) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- the parameters ---- */

static Arg
default_of(const char *text, size_t length)
{
    static const char *const words[] = {"constant", "nearest", "none"};
    if (length == 0) {
        return (Arg){.kind = ARG_NONE};
    }
    for (size_t k = 0; *text == '\'' && k < sizeof words / sizeof *words; k++) {
        if (length == strlen(words[k]) + 2 && strncmp(text + 1, words[k], length - 2) == 0) {
            return (Arg){.kind = ARG_TEXT, .text = words[k]};
        }
    }
    if (*text == '\'') {
        return (Arg){.kind = ARG_OTHER}; /* a text that no builder knows */
    }
    if (*text == 'T' || *text == 'F') {
        return (Arg){.kind = ARG_BOOL, .i = *text == 'T'};
    }
    bool whole = !memchr(text, '.', length) && !memchr(text, 'e', length);
    return whole ? (Arg){.kind = ARG_INT, .i = atoi(text)}
                 : (Arg){.kind = ARG_FLOAT, .f = atof(text)};
}

static int
parameters_read(Parameters *p, const char *text)
{
    p->inplace = -1;
    while (text && *text) {
        size_t length = strcspn(text, " "), name = strcspn(text, " =");
        p->rest = *text == '*';
        p->names[p->n] = PyUnicode_FromStringAndSize(text + p->rest, (Py_ssize_t)(name - p->rest));
        if (!p->names[p->n]) {
            return -1;
        }
        p->inplace = strncmp(text, "inplace", length) == 0 ? p->n : p->inplace;
        p->otherwise[p->n++] = default_of(text + name + 1, length > name ? length - name - 1 : 0);
        text += length + (text[length] == ' ');
    }
    return 0;
}

/* A row without a builder, when aten.def has none for the overload, runs as the eager function. */
static AtenRow
builder_of(const TorchRow *row)
{
    const AtenRow *same = row->overload ? aten_find(row->overload) : NULL;
    return same ? *same : (AtenRow){row->name, row->build, OP_COUNT, row->axes, false};
}

int
torch_table_ready(PyObject *const holders[TORCH_HOLDERS])
{
    if (!parameters) {
        parameters = PyMem_Calloc((size_t)torch_nrows, sizeof *parameters);
        builders = PyMem_Calloc((size_t)torch_nrows, sizeof *builders);
    }
    if (!parameters || !builders) {
        PyErr_NoMemory();
        return -1;
    }
    for (int k = 0; k < torch_nrows; k++) {
        builders[k] = builder_of(&torch_rows[k]);
        parameters[k].n = 0;
        if (row_names(k, holders) < 0 ||
            parameters_read(&parameters[k], torch_rows[k].parameters) < 0) {
            return -1;
        }
    }
    return 0;
}

const TorchRow *
torch_row_of(Walk *w, PyObject *target, bool *writes)
{
    PyObject *found = PyDict_GetItemWithError(py.functions, target);
    if (!found) {
        PyErr_Clear(); /* not hashable: not in the table */
        return NULL;
    }
    long number = PyLong_AsLong(found);
    (void)w;
    *writes = number % 2;
    return &torch_rows[number / 2];
}

const AtenRow *
torch_builder(const TorchRow *row)
{
    const AtenRow *builder = &builders[row - torch_rows];
    return builder->build ? builder : NULL;
}

bool
torch_may_call(const TorchRow *row)
{
    return !row->build || strchr(row->in, 'c');
}

/* ---- arguments ---- */

/* Does the metadata of the result contain it as well? */
static bool
is_told(PyObject *name, PyObject *value)
{
    static const char *const told[] = {"dtype",         "device",       "layout",
                                       "memory_format", "non_blocking", "copy"};
    static const char *const off[] = {"pin_memory", "requires_grad", "out"};
    for (size_t k = 0; k < sizeof told / sizeof *told; k++) {
        if (PyUnicode_CompareWithASCIIString(name, told[k]) == 0) {
            return true;
        }
    }
    for (size_t k = 0; k < sizeof off / sizeof *off; k++) {
        if (PyUnicode_CompareWithASCIIString(name, off[k]) == 0) {
            return value == Py_None || value == Py_False;
        }
    }
    return false;
}

static int
position_of(const Parameters *p, PyObject *name)
{
    bool axis = PyUnicode_CompareWithASCIIString(name, "axis") == 0;
    bool keep = PyUnicode_CompareWithASCIIString(name, "keepdims") == 0;
    for (int k = 0; k < p->n; k++) {
        if (PyUnicode_Compare(p->names[k], name) == 0 ||
            (axis && PyUnicode_CompareWithASCIIString(p->names[k], "dim") == 0) ||
            (keep && PyUnicode_CompareWithASCIIString(p->names[k], "keepdim") == 0)) {
            return k;
        }
    }
    return -1;
}

/* A float known at run time becomes a constant, and torch guards it, unless the row takes it as it
 * is. */
static Arg
bound_arg(Walk *w, const TorchRow *row, PyObject *value)
{
    Arg a = arg_of(w, value);
    if (a.kind == ARG_NUMBER && is_a(value, py.Node) && !strchr(row->in, '#')) {
        PyObject *number = own(w, PyNumber_Float(bound_of(w, value)->val));
        a = (Arg){.kind = ARG_FLOAT, .f = PyFloat_AS_DOUBLE(number)};
    }
    return a;
}

static void
keywords_bind(Walk *w, const TorchRow *row, const Parameters *p, PyObject *kwargs, Arg *out)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(kwargs, &at, &name, &value)) {
        int k = position_of(p, name);
        if (k >= 0 && p->rest && k == p->n - 1) {
            Arg *item = cx_alloc(w->cx, sizeof *item);
            *item = arg_of(w, value);
            out[k] = (Arg){.kind = ARG_LIST, .n = 1, .items = item};
        } else if (k >= 0) {
            out[k] = bound_arg(w, row, value);
        } else if (!is_told(name, value)) {
            refuse(w, "it is not compiled with its argument %s", utf8(w, name));
        }
    }
}

const Arg *
torch_args(Walk *w, const Bound *at, int *n)
{
    const Parameters *p = &parameters[at->torch - torch_rows];
    PyObject *args = attr(w, at->node, py.name.args), *kwargs = attr(w, at->node, py.name.kwargs);
    int given = (int)PyTuple_Size(args), fixed = p->n - p->rest;
    Arg *out = cx_copy(w->cx, p->otherwise, (size_t)(p->n + 1) * sizeof *out);
    if (given > p->n && !p->rest) {
        refuse(w, "it has more arguments than dlc knows of");
    }
    for (int k = 0; k < given && k < fixed; k++) {
        out[k] = bound_arg(w, at->torch, PyTuple_GET_ITEM(args, k));
    }
    if (p->rest && given > fixed) {
        out[fixed] = arg_of(w, own(w, PyTuple_GetSlice(args, fixed, given)));
    }
    keywords_bind(w, at->torch, p, kwargs, out);
    *n = p->n;
    return out;
}

int
torch_inplace(const TorchRow *row)
{
    return parameters[row - torch_rows].inplace;
}

bool
torch_writes(const Bound *at, const Arg *args)
{
    int k = torch_inplace(at->torch);
    return at->writes || (k >= 0 && arg_true(&args[k]));
}

/* Refuses a function that runs eagerly if it writes to its argument `out`. */
void
torch_check_call(Walk *w, const Bound *at)
{
    PyObject *out = PyDict_GetItemString(attr(w, at->node, py.name.kwargs), "out");
    if (out && out != Py_None) {
        refuse(w, "it writes to its argument out, which is not compiled");
    }
}
