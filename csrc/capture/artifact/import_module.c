/* Compiled kernels as text and code, from one cache to another: dlc._C.cache_program, cache_origin,
 * cache_check, cache_import. */

#include <dlfcn.h>

#include "capture/capture.h"

static PyObject *
read_program(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *key, *option = NULL;
    char path[4096];
    Cache cache;
    if (!PyArg_ParseTuple(args, "s|z", &key, &option)) {
        return NULL;
    }
    if (!cache_path(option, path, sizeof path) || !cache_open(&cache, path)) {
        Py_RETURN_NONE;
    }
    size_t size = 0;
    void *object = cache_load(&cache, key), *bytes = object ? cache_read(&cache, key, &size) : NULL;
    const char *program = bytes ? dlsym(object, "dlc_program") : NULL;
    PyObject *result = program ? Py_BuildValue("(sy#)", program, bytes, (Py_ssize_t)size)
                               : Py_NewRef(Py_None);
    free(bytes);
    if (object) {
        dlclose(object);
    }
    cache_close(&cache);
    return result;
}

static PyObject *
read_origin(PyObject *Py_UNUSED(module), PyObject *args)
{
    CcOptions options = {0};
    Key common, compiler;
    if (!PyArg_ParseTuple(args, "|zz", &options.compiler, &options.cache)) {
        return NULL;
    }
    CcTarget *target = cc_target_new(&options);
    if (!target) {
        return PyErr_NoMemory();
    }
    cc_target_origin(target, &common, &compiler);
    cc_target_unref(target);
    return Py_BuildValue("(ss)", common.hex, compiler.hex);
}

typedef struct {
    Program program;
    CcOptions cc;
    ImportResult result;
    Wait wait;
} Job;

static void
check_body(Cx *cx, void *arg)
{
    program_check(cx, ((Job *)arg)->program.text);
}

static void
import_body(Cx *cx, void *arg)
{
    Job *job = arg;
    job->result = program_import(cx, &job->program, &job->cc);
}

/* Runs the body in a context of its own. Returns false with an exception set. */
static bool
run_body(void (*body)(Cx *, void *), Job *job)
{
    Cx *cx = cx_new();
    if (!cx) {
        PyErr_NoMemory();
        return false;
    }
    bool done = cx_try(cx, body, job);
    if (!done) {
        raise_diag(cx_diag(cx));
    }
    cx_free(cx);
    return done;
}

static PyObject *
check_program(PyObject *Py_UNUSED(module), PyObject *args)
{
    Job job = {0};
    if (!PyArg_ParseTuple(args, "s", &job.program.text) || !run_body(check_body, &job)) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
import_program(PyObject *Py_UNUSED(module), PyObject *args)
{
    static const char *const words[] = {
        [IMPORT_PRESENT] = "present",
        [IMPORT_TAKEN] = "taken",
        [IMPORT_COMPILED] = "compiled",
        [IMPORT_FAILED] = "failed",
    };
    Job job = {0};
    Py_ssize_t size = 0;
    if (!PyArg_ParseTuple(args, "ssz#ss|zz", &job.program.text, &job.program.key,
                          &job.program.object, &size, &job.program.common, &job.program.compiler,
                          &job.cc.compiler, &job.cc.cache)) {
        return NULL;
    }
    job.program.size = (size_t)size;
    wait_begin(&job.wait, &job.cc);
    bool done = run_body(import_body, &job);
    return !wait_raise(&job.wait) && done ? PyUnicode_FromString(words[job.result]) : NULL;
}

static PyMethodDef methods[] = {
    {"cache_program", read_program, METH_VARARGS,
     PyDoc_STR(
         "cache_program(key, folder=None) -> (text, object): the cache's object, and its program; "
         "or None.")},
    {"cache_origin", read_origin, METH_VARARGS,
     PyDoc_STR("cache_origin(cc=None, folder=None) -> (processor and dlc, compiler), as keys.")},
    {"cache_check", check_program, METH_VARARGS,
     PyDoc_STR("cache_check(text): raises ParseError or InternalError when text is no program.")},
    {"cache_import", import_program, METH_VARARGS,
     PyDoc_STR(
         "cache_import(text, key, object, common, compiler, cc=None, folder=None) -> 'present', "
         "'taken',\n"
         "'compiled' or 'failed'.  Puts the kernels of a program into the cache.  object: bytes, "
         "or None\n"
         "for the program to be compiled.")},
    {NULL},
};

int
import_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
