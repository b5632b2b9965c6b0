/* Predicted times for Python: what the machine was measured to do, and the steps of a program. */
#include "module.h"

static double *
numbers_of(Speeds *speeds)
{
    static_assert(sizeof(Speeds) - offsetof(Speeds, clock) == SPEEDS * sizeof(double),
                  "the numbers of a Speeds lie together");
    return &speeds->clock;
}

static PyObject *
number_at(const void *numbers, int k)
{
    return PyFloat_FromDouble(((const double *)numbers)[k]);
}

static PyObject *
speeds(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    Speeds found;
    bool measured;
    Py_BEGIN_ALLOW_THREADS measured = speeds_measure(&found);
    Py_END_ALLOW_THREADS return measured ? list_made(SPEEDS, number_at, numbers_of(&found))
                                         : PyErr_NoMemory();
}

typedef struct {
    const char *text;
    PyObject *given;            /* dict of sizes */
    FixedSize *sizes;
    int n;
    Speeds speeds;
    Predicted *found;
    int nfound;
} Job;

/* With the interpreter lock: the names belong to the dict. */
static void
read_sizes(Cx *cx, void *arg)
{
    Job *job = arg;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    job->sizes = cx_alloc(cx, ((size_t)PyDict_GET_SIZE(job->given) + 1) * sizeof *job->sizes);
    while (PyDict_Next(job->given, &at, &key, &value)) {
        FixedSize *size = &job->sizes[job->n];
        size->name = PyUnicode_AsUTF8(key);
        size->value = size->name ? PyLong_AsLongLong(value) : -1;
        if (PyErr_Occurred()) {
            return;
        }
        job->n++;
    }
}

/* The text is dlc's own, of kernels that were verified one by one: two may use a name, which no
 * program may, so it is not verified as one. */
static void
do_predict(Cx *cx, void *arg)
{
    Job *job = arg;
    Fn *fn = parse_fn(cx, job->text, "text");
    if (fn->stage != STAGE_LOOPS) {
        fail(cx, DIAG_SCHEDULE_STAGE, stage_name(fn->stage));
    }
    job->nfound = predict_program(fn, job->n, job->sizes, &job->speeds, &job->found);
}

static PyObject *
step_at(const void *found, int k)
{
    const Predicted *p = (const Predicted *)found + k;
    return Py_BuildValue("(sddddds)", op_info[p->let->op].name, p->bytes, p->moving, p->computing,
                         p->starting, p->seconds, limit_name(p->limit));
}

/* The speeds from the arguments: 0, or -1 with an exception. */
static int
read_speeds(PyObject *numbers, Speeds *out)
{
    PyObject *all = PySequence_Fast(numbers, "speeds: a sequence");
    int status = all && PySequence_Fast_GET_SIZE(all) == SPEEDS ? 0 : -1;
    for (int k = 0; k < SPEEDS && status == 0; k++) {
        double number = PyFloat_AsDouble(PySequence_Fast_GET_ITEM(all, k));
        numbers_of(out)[k] = number;
        status = PyErr_Occurred() ? -1 : 0;
    }
    if (status < 0 && !PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "speeds: %d numbers, as speeds() has them", SPEEDS);
    }
    Py_XDECREF(all);
    return status;
}

static PyObject *
predict(PyObject *Py_UNUSED(module), PyObject *args)
{
    Job job = {0};
    PyObject *numbers, *list = NULL;
    if (!PyArg_ParseTuple(args, "sO!iddO", &job.text, &PyDict_Type, &job.given, &job.speeds.threads,
                          &job.speeds.launch, &job.speeds.product, &numbers) ||
        read_speeds(numbers, &job.speeds) < 0) {
        return NULL;
    }
    Cx *cx = cx_new();
    bool done = cx && cx_try(cx, read_sizes, &job);
    if (!done) {
        PyErr_NoMemory();
    } else if (!PyErr_Occurred()) {
        Py_BEGIN_ALLOW_THREADS done = cx_try(cx, do_predict, &job);
        Py_END_ALLOW_THREADS if (done) { list = list_made(job.nfound, step_at, job.found); }
        else
        {
            raise_diag(cx_diag(cx));
        }
    }
    if (cx) {
        cx_free(cx);
    }
    return list;
}

static PyMethodDef methods[] = {
    {"speeds", speeds, METH_NOARGS,
     PyDoc_STR("speeds() -> list of float: what this machine is measured to do now, for predict: "
               "the cycles of a\n"
               "thread in a second; seconds to start all threads; bytes a second by working set, "
               "read and copied, by\n"
               "one thread and by all (csrc/codegen/tune/predict.h).")},
    {"predict", predict, METH_VARARGS,
     PyDoc_STR("predict(loops, sizes, threads, launch, product, speeds) -> list of (op, bytes, "
               "moving, computing,\n"
               "starting, seconds, limit): the steps of a program of the loops stage.  launch: "
               "seconds of the start of\n"
               "a kernel; product: operations that a thread does in a product in a second.")},
    {NULL, NULL, 0, NULL},
};

int
predict_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
