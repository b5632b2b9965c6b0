/* dlc._C: the extension module. */

#include "module.h"
#include "capture/arrays/array.h"

#include <pthread.h>
#include <unistd.h>

PyObject *dlc_CaptureError, *dlc_InternalError, *dlc_ParseError;

#if PY_VERSION_HEX < 0x030D0000
#define Py_IsFinalizing _Py_IsFinalizing
#endif

TorchKnown torch_known;
static int modules; /* that have been imported, and not freed; guarded by the interpreter lock */

ModuleState *
module_state(PyObject *module)
{
    return PyModule_GetState(module);
}

/* Tells the exception that is set which node it is about. */
static void
name_node(const char *node)
{
    PyObject *type, *value, *traceback, *name = PyUnicode_FromString(node);
    if (name) {
        PyErr_Fetch(&type, &value, &traceback);
        PyErr_NormalizeException(&type, &value, &traceback);
        if (PyObject_SetAttrString(value, "node", name) < 0) {
            PyErr_Clear();      /* the message says it too */
        }
        PyErr_Restore(type, value, traceback);
        Py_DECREF(name);
    }
}

void
raise_diag(const Diag *diag)
{
    bool text = diag->code == DIAG_PARSE || diag->code == DIAG_NOT_KERNELS ||
                diag->code == DIAG_NAME_IN_C;
    PyObject *kind = diag->kind == DIAGKIND_INTERNAL  ? dlc_InternalError
                     : text                           ? dlc_ParseError
                     : diag->kind == DIAGKIND_INVALID ? PyExc_ValueError
                                                      : dlc_CaptureError;
    if (diag->code == DIAG_MEMORY) {
        PyErr_SetString(PyExc_MemoryError, diag->message);
    } else {
        PyErr_SetString(kind, diag->message);   /* the place is in it: cx.c */
        if (diag->loc.node && kind == dlc_CaptureError) {
            name_node(diag->loc.node);
        }
    }
}

/* Raises the error of a gather whose index is out of range. */
static void
raise_index(int fault, const char *node, const char *source)
{
#define CHECK(kind, error, words) {PyExc_##error##Error, words},
    const struct {
        PyObject *type;
        const char *words;
    } rows[] = {
#include "ir/check.def"
    };
    int kind = INDEX_KINDS - 1;
    while (kind > 0 && !(fault & fault_of_index(kind))) {
        kind--;
    }
    PyErr_Format(rows[kind].type, "%s%s%s%s%s", rows[kind].words, node ? ": in " : "",
                 node ? node : "", source ? ", " : "", source ? source : "");
}

void
raise_fault(int fault, const char *node, const char *source)
{
    if (fault == FAULT_MEMORY) {
        PyErr_SetString(PyExc_MemoryError, "out of memory in a call of a compiled graph");
    } else if (fault == FAULT_SIZE) {
        PyErr_SetString(PyExc_RuntimeError, node);
    } else if (fault == FAULT_WRONG) {
        PyErr_SetString(dlc_InternalError, node);
    } else {
        raise_index(fault, node, source);
    }
}

PyObject *
list_made(int n, PyObject *(*item)(const void *of, int k), const void *of)
{
    PyObject *list = PyList_New(n);
    for (int k = 0; list && k < n; k++) {
        PyObject *made = item(of, k);
        if (!made) {
            Py_CLEAR(list);
        } else {
            PyList_SET_ITEM(list, k, made);
        }
    }
    return list;
}

void
object_retain(void *Py_UNUSED(arg), void *object)
{
    Py_XINCREF((PyObject *)object);
}

void
object_release(void *Py_UNUSED(arg), void *object)
{
    Py_XDECREF((PyObject *)object);
}

/* ---- counters, waiting, memory ---- */

static PyObject *
module_counters(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    PyObject *counters = PyDict_New();
    for (int c = 0; counters && c < COUNT_ROWS; c++) {
        int64_t n = count_get((enum Count)c);
        PyObject *value = count_is_time((enum Count)c) ? PyFloat_FromDouble(1e-9 * (double)n)
                                                       : PyLong_FromLongLong(n);
        if (!value || PyDict_SetItemString(counters, count_name((enum Count)c), value) < 0) {
            Py_CLEAR(counters);
        }
        Py_XDECREF(value);
    }
    return counters;
}

static PyObject *
module_count(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *name;
    long long n = 1;
    if (!PyArg_ParseTuple(args, "s|L", &name, &n)) {
        return NULL;
    }
    for (int c = 0; c < COUNT_ROWS; c++) {
        if (strcmp(name, count_name((enum Count)c)) == 0) {
            count_add((enum Count)c, n);
            Py_RETURN_NONE;
        }
    }
    return PyErr_Format(PyExc_ValueError, "there is no counter \"%s\"", name);
}

int
interpreter_signals(void *arg)
{
    (void)arg;
    return PyErr_CheckSignals();
}

void
interpreter_leave(void *state)
{
    *(PyThreadState **)state = PyEval_SaveThread();
}

static void
stay(void *unused)
{
    (void)unused;
    for (;;) {
        pause();
    }
}

/* A Python before 3.14 ends a thread that wants the lock of an interpreter that is gone, by
 * unwinding its stack.  There may be functions of C++ on it, through which that ends the process:
 * the thread stays here, as a later Python has it. */
void
interpreter_enter(void *state)
{
    pthread_cleanup_push(stay, NULL);
    PyEval_RestoreThread(*(PyThreadState **)state);
    pthread_cleanup_pop(0);
}

/* Python tells its main thread alone of signals, and has no lock for other threads when it ends. */
static bool
wait_interrupted(void *arg)
{
    Wait *wait = arg;
    if (!wait->raised[0] && gettid() == getpid()) {
        interpreter_enter(&wait->thread);
        if (PyErr_CheckSignals() < 0) {
            PyErr_Fetch(&wait->raised[0], &wait->raised[1], &wait->raised[2]);
        }
        interpreter_leave(&wait->thread);
    }
    return wait->raised[0] != NULL;
}

static_assert(offsetof(Wait, thread) == 0,
              "a Wait is the state that the lock's functions are given");

void
wait_begin(Wait *wait, CcOptions *cc)
{
    *wait = (Wait){NULL};
    cc->leave = interpreter_leave;
    cc->enter = interpreter_enter;
    cc->interrupted = wait_interrupted;
    cc->lock_arg = wait;
}

bool
wait_raise(Wait *wait)
{
    bool raised = wait->raised[0] != NULL;
    if (raised) {
        PyErr_Restore(wait->raised[0], wait->raised[1], wait->raised[2]);
    }
    return raised;
}

/* In pieces: between them an interrupt is seen. */
static PyObject *
module_wait(PyObject *Py_UNUSED(module), PyObject *args)
{
    double seconds = -1, piece = 0.05;
    if (!PyArg_ParseTuple(args, "|d", &seconds)) {
        return NULL;
    }
    double end = clock_seconds() + seconds;
    bool done, late = false;
    do {
        double left = seconds < 0 ? piece : end - clock_seconds();
        late = !(left > 0);
        Py_BEGIN_ALLOW_THREADS done = jit_cc_wait(late ? 0 : left < piece ? left : piece);
        Py_END_ALLOW_THREADS if (PyErr_CheckSignals() < 0) { return NULL; }
    } while (!done && !late);
    return PyBool_FromLong(done);
}

static PyObject *
module_release(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    prepared_forget_all();
    storage_release();
    workspace_release();
    Py_RETURN_NONE;
}

static PyObject *
module_compiler_failure(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    CcFailure failure;
    if (!jit_cc_failure(&failure)) {
        Py_RETURN_NONE;
    }
    PyObject *command = PyUnicode_DecodeFSDefault(failure.command);
    PyObject *line = PyUnicode_DecodeUTF8(failure.line, (Py_ssize_t)strlen(failure.line),
                                          "replace");
    PyObject *all = command && line
                        ? PyTuple_Pack(3, command, line, failure.asked ? Py_True : Py_False)
                        : NULL;
    Py_XDECREF(command);
    Py_XDECREF(line);
    return all;
}

static PyObject *
module_isa(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyUnicode_FromString(isa_info[processor_isa()].name);
}

static PyObject *
module_peak(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    double peak;
    Py_BEGIN_ALLOW_THREADS peak = micro_peak();
    Py_END_ALLOW_THREADS return PyFloat_FromDouble(peak);
}

static PyObject *
module_trace_start(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    trace_start();
    Py_RETURN_NONE;
}

static PyObject *
module_trace_write(PyObject *Py_UNUSED(module), PyObject *path)
{
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(path, &bytes)) {
        return NULL;
    }
    bool written = trace_write(PyBytes_AS_STRING(bytes));
    Py_DECREF(bytes);
    if (!written) {
        return PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path);
    }
    Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {
    {"counters", module_counters, METH_NOARGS,
     PyDoc_STR("counters() -> dict of int and float: what happened since the process began.")},
    {"trace_start", module_trace_start, METH_NOARGS,
     PyDoc_STR("trace_start(): events are kept from now on.")},
    {"trace_write", module_trace_write, METH_O,
     PyDoc_STR("trace_write(path): ends that, and writes them in Chrome's trace format.")},
    {"count", module_count, METH_VARARGS, PyDoc_STR("count(name, n=1): adds to a counter.")},
    {"wait", module_wait, METH_VARARGS,
     PyDoc_STR("wait(seconds=-1.0) -> bool: until no background compile is under way.")},
    {"release", module_release, METH_NOARGS,
     PyDoc_STR(
         "release(): gives the memory kept for prepared values, results and workspaces back.")},
    {"compiler_failure", module_compiler_failure, METH_NOARGS,
     PyDoc_STR(
         "compiler_failure() -> (command, line, asked) or None: what a C compiler did not compile "
         "last.")},
    {"isa", module_isa, METH_NOARGS,
     PyDoc_STR("isa() -> str: the instruction set of the strips in use.")},
    {"peak", module_peak, METH_NOARGS,
     PyDoc_STR("peak() -> float: operations on f32 that all threads do in a second, at most.")},
    {NULL},
};

/* ---- life ---- */

/* Makes the exception `name` once a process: C code raises it without a module at hand. */
static int
add_exception(PyObject *module, PyObject **where, const char *name, const char *doc, PyObject *base)
{
    if (!*where) {
        char full[64];
        PyOS_snprintf(full, sizeof full, "dlc.%s", name);
        *where = PyErr_NewExceptionWithDoc(full, doc, base, NULL);
    }
    return *where ? PyModule_AddObjectRef(module, name, *where) : -1;
}

static int
module_exec(PyObject *module)
{
    ModuleState *state = module_state(module);
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError,
                        "dlc works in the main interpreter alone, as torch does: compile and call "
                        "there, or in another process");
        return -1;
    }
    modules += !state->counted;
    state->counted = true;
    if (add_exception(module, &dlc_CaptureError, "CaptureError",
                      "A graph or an operator that dlc cannot compile.", PyExc_RuntimeError) < 0 ||
        add_exception(module, &dlc_InternalError, "InternalError",
                      "dlc broke a rule of its own language: a bug in dlc.",
                      PyExc_RuntimeError) < 0 ||
        add_exception(module, &dlc_ParseError, "ParseError",
                      "A text that is not the language of dlc.", PyExc_ValueError) < 0) {
        return -1;
    }
    static int (*const parts[])(PyObject *) = {
        compile_register, walk_register,     joint_register,  pytensor_register,
        cache_register,   import_register,   jit_register,    artifact_register,
        ndarray_register, prepared_register, shrink_register, kernel_register,
        loaded_register,  export_register,   onnx_register,   onnx_out_register,
        predict_register, normals_register,
    };
    state->callable_type = callable_register(module);
    state->tree_type = tree_register(module);
    bool ready = state->callable_type && state->tree_type;
    for (size_t k = 0; ready && k < sizeof parts / sizeof *parts; k++) {
        ready = parts[k](module) == 0;
    }
    return ready ? 0 : -1;
}

static int
module_traverse(PyObject *module, visitproc visit, void *arg)
{
    ModuleState *state = module_state(module);
    Py_VISIT(state->callable_type);
    Py_VISIT(state->tree_type);
    return 0;
}

static int
module_clear(PyObject *module)
{
    ModuleState *state = module_state(module);
    Py_CLEAR(state->callable_type);
    Py_CLEAR(state->tree_type);
    return 0;
}

static void
torch_forget(void)
{
    Py_CLEAR(torch_known.tensor_type);
    Py_CLEAR(torch_known.parameter_type);
    Py_CLEAR(torch_known.is_inference_mode);
    Py_CLEAR(torch_known.forward_ad);
    Py_CLEAR(torch_known.level_name);
    Py_CLEAR(torch_known.unpack_name);
    Py_CLEAR(torch_known.free_hold);
}

/* The facts about torch and the compiles in the background belong to the process: they are freed
 * with the last module of an interpreter that ends, and not if the module is imported again. */
static void
module_free(void *module)
{
    ModuleState *state = module_state(module);
    if (state) {
        module_clear(module);
        modules -= state->counted;
    }
    if (modules == 0 && Py_IsFinalizing()) {
        torch_forget();
        jit_cc_shutdown();
    }
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, (void *)module_exec},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dlc._C",
    .m_doc = "The compiler: from FX graphs to machine code, and the callables that run it.",
    .m_size = sizeof(ModuleState),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__C(void);

PyMODINIT_FUNC
PyInit__C(void)
{
    return PyModuleDef_Init(&module_def);
}
