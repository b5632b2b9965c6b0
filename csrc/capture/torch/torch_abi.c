/* Finds libtorch's C functions and the tensor inside a Python tensor.
 *
 * torch is loaded with RTLD_LOCAL, so that its symbols are not in sight of an ordinary dlsym; a
 * handle of the library that is there (RTLD_NOLOAD) has them.  Three things are no promise of
 * torch's, and proved here before they are used: that the functions exist, that a Python tensor
 * holds its at::Tensor (one pointer to the implementation, which Tensor._cdata names) at a fixed
 * offset, and that THPVariable_Wrap has the C++ name below. */
#include "torch_abi.h"

#include <dlfcn.h>

#include "codegen/codegen.h"

enum { MAX_OFFSET = 64 };       /* of the at::Tensor in a Python tensor */

struct TorchAbi torch_abi;

/* without: what is done where there is no such function; NULL: dlc needs it. */
static const struct {
    const char *name, *symbol;
    size_t member;
    const char *without;
} functions[] = {
#define NEED(result, name, arguments) {#name, #name, offsetof(struct TorchAbi, name), NULL},
#define MAY(result, name, arguments, without) \
    {#name, #name, offsetof(struct TorchAbi, name), without},
#define CPP(result, name, arguments, symbol, without) \
    {#name, symbol, offsetof(struct TorchAbi, name), without},
#include "torch_abi.def"
};

enum { MAX_LACKS = sizeof functions / sizeof *functions + 8 }; /* layouts are few */

/* Written when torch is first met, under the interpreter's lock. */
static struct {
    const char *what, *without;
} lacks[MAX_LACKS];
static int nlacks;

static void *
library(const char *name)
{
    void *handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (!handle) {
        PyErr_Format(PyExc_ImportError, "dlc: %s is not loaded: import torch first", name);
    }
    return handle;
}

void
torch_abi_lacks(const char *what, const char *without)
{
    if (nlacks < MAX_LACKS) {
        lacks[nlacks].what = what;
        lacks[nlacks++].without = without;
    }
}

PyObject *
torch_abi_lacking(void)
{
    PyObject *list = PyList_New(0);
    for (int k = 0; list && k < nlacks; k++) {
        PyObject *pair = Py_BuildValue("ss", lacks[k].what, lacks[k].without);
        if (!pair || PyList_Append(list, pair) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(pair);
    }
    return list;
}

/* Is the name among those of a tuple?  -1 with an exception. */
static int
is_named(PyObject *names, const char *name)
{
    PyObject *text = PyUnicode_FromString(name);
    int is = text ? PySequence_Contains(names, text) : -1;
    Py_XDECREF(text);
    return is;
}

static int
find_functions(void *cpu, PyObject *hidden)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        int hide = is_named(hidden, functions[i].name);
        if (hide < 0) {
            return -1;
        }
        void *function = hide ? NULL : dlsym(cpu, functions[i].symbol);
        if (!function && !functions[i].without) {
            PyErr_Format(PyExc_ImportError, "dlc: this torch has no %s", functions[i].name);
            return -1;
        }
        if (!function) {
            torch_abi_lacks(functions[i].name, functions[i].without);
        }
        *(void **)((char *)&torch_abi + functions[i].member) = function;
    }
    return 0;
}

/* Looks in the sample for the pointer that its _cdata is. */
static int
find_offset(PyObject *sample)
{
    PyObject *cdata = PyObject_GetAttrString(sample, "_cdata");
    void *wanted = cdata ? PyLong_AsVoidPtr(cdata) : NULL;
    Py_XDECREF(cdata);
    if (PyErr_Occurred()) {
        return -1;
    }
    Py_ssize_t size = Py_TYPE(sample)->tp_basicsize;
    Py_ssize_t end = size < MAX_OFFSET ? size : MAX_OFFSET;
    for (Py_ssize_t at = sizeof(PyObject); at + (Py_ssize_t)sizeof(void *) <= end;
         at += sizeof(void *)) {
        if (*(void **)((char *)sample + at) == wanted) {
            torch_abi.offset = at;
            return 0;
        }
    }
    PyErr_SetString(PyExc_ImportError,
                    "dlc: this torch keeps its tensors elsewhere than dlc expects");
    return -1;
}

static void
begin_thread(void)
{
    uint32_t threads;
    torch_abi.torch_get_num_threads(&threads);
}

int
torch_abi_init(PyObject *sample, PyObject *hidden)
{
    void *cpu = library("libtorch_cpu.so"), *python = cpu ? library("libtorch_python.so") : NULL;
    nlacks = 0;
    if (!python || find_functions(cpu, hidden) < 0 || find_offset(sample) < 0) {
        return -1;
    }
    /* PyObject *THPVariable_Wrap(const at::TensorBase &) */
    *(void **)&torch_abi.wrap = dlsym(python, "_Z16THPVariable_WrapRKN2at10TensorBaseE");
    if (!torch_abi.wrap) {
        PyErr_SetString(PyExc_ImportError, "dlc: this torch has no THPVariable_Wrap");
        return -1;
    }
    parallel_use(cpu); /* the threads that torch has, where several runtimes are loaded */
    if (torch_abi.torch_get_num_threads) {
        parallel_begin(begin_thread);
    }
    return 0;
}

const char *
torch_abi_error(void)
{
    const char *what = NULL;
    if (torch_abi.torch_exception_get_what_without_backtrace) {
        what = torch_abi.torch_exception_get_what_without_backtrace();
    }
    return what && *what ? what : "libtorch: a call failed and left no message";
}
