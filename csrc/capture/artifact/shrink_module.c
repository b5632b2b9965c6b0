/* Smaller programs that still fail, from Python. */
#include "capture/module.h"

typedef struct {
    const char *text;
    PyObject *fails;
    bool raised;                /* by fails: nothing is tried any more */
    const char *best;
} Job;

static bool
ask(void *arg, const char *text)
{
    Job *job = arg;
    PyObject *answer = job->raised ? NULL : PyObject_CallFunction(job->fails, "s", text);
    int yes = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    job->raised |= yes < 0;
    return yes > 0;
}

static void
body(Cx *cx, void *arg)
{
    Job *job = arg;
    Fn *fn = parse_fn(cx, job->text, "text");
    verify_fn(fn);
    if (fn->stage != STAGE_GRAPH) {
        fail(cx, DIAG_SHRINK_STAGE, stage_name(fn->stage));
    }
    job->best = shrink(cx, job->text, ask, job);
}

static PyObject *
ir_shrink(PyObject *Py_UNUSED(module), PyObject *args)
{
    Job job = {0};
    PyObject *text = NULL;
    if (!PyArg_ParseTuple(args, "sO", &job.text, &job.fails)) {
        return NULL;
    }
    Cx *cx = cx_new();
    if (!cx) {
        return PyErr_NoMemory();
    }
    if (!cx_try(cx, body, &job)) {
        raise_diag(cx_diag(cx));
    } else if (!job.raised) {
        text = PyUnicode_FromString(job.best);
    }
    cx_free(cx);
    return text;
}

static PyMethodDef methods[] = {
    {"ir_shrink", ir_shrink, METH_VARARGS,
     PyDoc_STR(
         "ir_shrink(text, fails) -> str: the smallest text found for which fails(text) is true, as "
         "it is for\n"
         "text. It is called with texts that may break a rule. What it raises ends it.")},
    {NULL},
};

int
shrink_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
