/* dlc._C.notation: einstein notation for dlc.kernel. */
#include "capture.h"

#include <string.h>

typedef struct {
    const char *text;
    const Dtype *dtypes;        /* NULL: no program is requested */
    int ndtypes;
    const char *steps;          /* "": the text itself, not a derivative */
    Notation *notation;
    Fn *fn;
    Text program;
} Work;

static void
do_work(Cx *cx, void *arg)
{
    Work *w = arg;
    w->notation = notation_parse(cx, w->text, "kernel");
    if (!w->dtypes) {
        return;
    }
    if (notation_nparams(w->notation) != w->ndtypes) {
        fail(cx, DIAG_NOTATION_ARGUMENTS, notation_nparams(w->notation), w->ndtypes);
    }
    w->fn = notation_fn(w->notation, w->steps, w->dtypes);
    verify_fn(w->fn);
    w->program.cx = cx;
    print_fn(w->fn, &w->program);
}

static PyObject *
param_row(const void *notation, int k)
{
    return Py_BuildValue("(si)", notation_param(notation, k), notation_rank(notation, k));
}

/* Returns the type as a tuple: its dtype, and its sizes as text. */
static PyObject *
type_row(const Fn *fn, const Type *t)
{
    PyObject *dims = PyTuple_New(t->rank);
    for (int ax = 0; dims && ax < t->rank; ax++) {
        Text text = {.cx = fn->cx};
        dim_text(fn->cx, t->dims[ax], &text);
        PyObject *item = PyUnicode_FromString(text.text);
        if (!item) {
            Py_CLEAR(dims);
        } else {
            PyTuple_SET_ITEM(dims, ax, item);
        }
    }
    return dims ? Py_BuildValue("(sN)", dtype_info[t->dtype].name, dims) : NULL;
}

static PyObject *
param_type(const void *fn, int k)
{
    return type_row(fn, ((const Fn *)fn)->params[k]->type);
}

static PyObject *
result_type(const void *fn, int k)
{
    return type_row(fn, ((const Fn *)fn)->body->rets[k]->type);
}

static PyObject *
answer(const Work *w)
{
    if (!w->fn) {
        PyObject *params = list_made(notation_nparams(w->notation), param_row, w->notation);
        return params ? Py_BuildValue("(Ni)", params, notation_nresults(w->notation)) : NULL;
    }
    PyObject *params = list_made(w->fn->nparams, param_type, w->fn);
    PyObject *results = params ? list_made(w->fn->body->nrets, result_type, w->fn) : NULL;
    if (!results) {
        Py_XDECREF(params);
        return NULL;
    }
    return Py_BuildValue("(sNN)", w->program.text, params, results);
}

static int
read_dtypes(PyObject *names, Dtype *out)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); k++) {
        Py_ssize_t length;
        const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(names, k), &length);
        if (!name) {
            return -1;
        }
        out[k] = dtype_find(name, (size_t)length);
        if (out[k] == DTYPE_COUNT) {
            PyErr_Format(PyExc_TypeError, "dlc has no element type '%s'", name);
            return -1;
        }
    }
    return 0;
}

static PyObject *
run(Work *w)
{
    Cx *cx = cx_new();
    PyObject *made = NULL;
    if (!cx) {
        return PyErr_NoMemory();
    }
    if (!cx_try(cx, do_work, w)) {
        raise_diag(cx_diag(cx));
    } else {
        made = answer(w);
    }
    cx_free(cx);
    return made;
}

PyDoc_STRVAR(
    notation_doc,
    "notation(text, dtypes=None, steps='') -> ([(name, rank), ..], number of results), of the text "
    "alone;\n"
    "with dtypes, a tuple of names, by parameter of the text: a program (text, parameters, "
    "results), both as\n"
    "[(dtype, sizes), ..].  steps: which of its derivatives and batches, as "
    "csrc/ir/notation/notation_steps.c says.\n\n"
    "Raises ParseError with line, column and a caret.");

static PyObject *
notation(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *names = NULL;
    enum { MOST = 64 };
    Dtype dtypes[MOST];
    Work w = {.steps = ""};
    if (!PyArg_ParseTuple(args, "s|O!s", &w.text, &PyTuple_Type, &names, &w.steps)) {
        return NULL;
    }
    Py_ssize_t n = names ? PyTuple_GET_SIZE(names) : 0;
    if (n > MOST) {
        return PyErr_Format(PyExc_ValueError, "a kernel takes up to %d arguments", MOST);
    }
    if (names) {
        w.dtypes = dtypes;
        w.ndtypes = (int)n;
        if (read_dtypes(names, dtypes) < 0) {
            return NULL;
        }
    }
    return run(&w);
}

static PyMethodDef methods[] = {
    {"notation", notation, METH_VARARGS, notation_doc},
    {NULL},
};

int
kernel_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
