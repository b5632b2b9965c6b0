/* The Python objects that the walk uses: names and types, references, and facts about overloads. */
#include "walk.h"

#include <string.h>

WalkPython py;

/* ---- once for the process ---- */

static int
intern_names(void)
{
#define X(text) \
    if (!(py.name.text = PyUnicode_InternFromString(#text))) \
        return -1;
    WALK_NAMES(X)
#undef X
    return 0;
}

/* Imports an object that is named "module:attribute.attribute". */
static int
import_path(const char *path, PyObject **out)
{
    const char *colon = strchr(path, ':');
    PyObject *name = PyUnicode_FromStringAndSize(path, colon - path);
    PyObject *o = name ? PyImport_Import(name) : NULL;
    Py_XDECREF(name);
    for (const char *at = colon + 1; o && *at;) {
        size_t length = strcspn(at, ".");
        PyObject *part = PyUnicode_FromStringAndSize(at, (Py_ssize_t)length);
        PyObject *next = part ? PyObject_GetAttr(o, part) : NULL;
        Py_XDECREF(part);
        Py_SETREF(o, next);
        at += length + (at[length] == '.');
    }
    *out = o;
    return o ? 0 : -1;
}

static int
add_dtypes(PyObject *torch)
{
    static const char *const names[DTYPE_COUNT] = {
        [DT_bool] = "bool",
        [DT_u8] = "uint8",
        [DT_i8] = "int8",
        [DT_i16] = "int16",
        [DT_i32] = "int32",
        [DT_i64] = "int64",
        [DT_f16] = "float16",
        [DT_bf16] = "bfloat16",
        [DT_f32] = "float32",
        [DT_f64] = "float64",
        [DT_c64] = "complex64",
        [DT_c128] = "complex128",
        [DT_c32] = "complex32",
        [DT_u16] = "uint16",
        [DT_u32] = "uint32",
        [DT_u64] = "uint64",
        [DT_f8_e5m2] = "float8_e5m2",
        [DT_f8_e4m3] = "float8_e4m3fn",
        [DT_f8_e5m2u] = "float8_e5m2fnuz",
        [DT_f8_e4m3u] = "float8_e4m3fnuz",
        [DT_f8_e8m0] = "float8_e8m0fnu",
    };
    for (int k = 0; k < DTYPE_COUNT; k++) {
        PyObject *dtype = PyObject_GetAttrString(torch, names[k]), *number = PyLong_FromLong(k);
        int failed = !dtype || !number || PyDict_SetItem(py.dtypes, dtype, number) < 0;
        Py_XDECREF(dtype);
        Py_XDECREF(number);
        if (failed) {
            return -1;
        }
    }
    return 0;
}

/* The table of functions, by where torch.def finds them. */
static int
add_functions(void)
{
    static const char *const paths[TORCH_HOLDERS] = {
        "torch:", "torch.nn.functional:", "torch._C:_nn", "operator:", "builtins:", "torch.linalg:",
    };
    PyObject *holders[TORCH_HOLDERS] = {NULL};
    int status = 0;
    for (int k = 0; k < TORCH_HOLDERS && status == 0; k++) {
        status = import_path(paths[k], &holders[k]);
    }
    status = status < 0 || !(py.functions = PyDict_New()) ? -1 : torch_table_ready(holders);
    for (int k = 0; k < TORCH_HOLDERS; k++) {
        Py_XDECREF(holders[k]);
    }
    return status;
}

int
walk_python_ready(void)
{
    static bool ready;
    static const struct {
        const char *path;
        PyObject **out;
    } imports[] = {
        {"torch:Tensor", &py.Tensor},
        {"torch._C:TensorBase", &py.TensorBase},
        {"torch.fx:Node", &py.Node},
        {"torch:SymInt", &py.SymInt},
        {"torch:SymFloat", &py.SymFloat},
        {"torch:SymBool", &py.SymBool},
        {"torch:dtype", &py.torch_dtype},
        {"torch:float32", &py.float32},
        {"torch:ops.aten.clone.default", &py.clone},
        {"torch:ops.aten.contiguous.default", &py.contiguous},
        {"torch:ops.aten._assert_scalar.default", &py.assert_scalar},
        {"dlc.sizes:whole", &py.whole},
        {"dlc.sizes:FUNCTIONS", &py.size_functions},
        {"torch:ops.aten.resolve_conj.default", &py.resolve_conj},
        {"torch:ops.aten.resolve_neg.default", &py.resolve_neg},
        {"torch:ops.aten.detach.default", &py.detach},
        {"dlc.draws:drawn", &py.drawn},
        {"torch._ops:OpOverload", &py.OpOverload},
        {"torch.fx:GraphModule", &py.GraphModule},
        {"torch:strided", &py.strided},
        {"torch:Tag.nondeterministic_seeded", &py.seeded},
        {"torch:Tag.pointwise", &py.pointwise},
        {"torch:ops.aten", &py.aten},
        {"operator:getitem", &py.getitem},
        {"operator:setitem", &py.setitem},
        {"torch._C:_is_alias_of", &py.is_alias_of},
        {"torch:is_grad_enabled", &py.is_grad_enabled},
        {"torch:get_default_dtype", &py.get_default_dtype},
        {"torch:are_deterministic_algorithms_enabled", &py.is_deterministic},
        {"torch._C:_get_deterministic_fill_uninitialized_memory", &py.fills_empty},
        {"torch.backends.cpu:get_cpu_capability", &py.cpu_capability},
        {"torch._C:_set_grad_enabled", &py.set_grad_enabled},
        {"torch._C:_log_api_usage_once", &py.log_api_usage},
        {"torch.amp.autocast_mode:_enter_autocast", &py.enter_autocast},
        {"torch.amp.autocast_mode:_exit_autocast", &py.exit_autocast},
    };
    if (ready) {
        return 0;
    }
    for (size_t k = 0; k < sizeof imports / sizeof *imports; k++) {
        if (!*imports[k].out && import_path(imports[k].path, imports[k].out) < 0) {
            return -1;
        }
    }
    PyObject *torch = NULL, *itemgetter = NULL;
    int failed = intern_names() < 0 || !(py.dtypes = PyDict_New()) ||
                 !(py.overloads = PyDict_New()) || import_path("torch:", &torch) < 0 ||
                 add_dtypes(torch) < 0 || add_functions() < 0 ||
                 import_path("operator:itemgetter", &itemgetter) < 0 ||
                 !(py.item_getter = PyObject_CallFunction(itemgetter, "i", 0));
    Py_XDECREF(torch);
    Py_XDECREF(itemgetter);
    ready = !failed;
    return failed ? -1 : 0;
}

/* ---- references and failures ---- */

/* The exception is set already; walk_graph lets it through. */
void
python_failed(Walk *w)
{
    fail(w->cx, DIAG_PYTHON);
}

void
refuse(Walk *w, const char *format, ...)
{
    char reason[512];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    fail(w->cx, DIAG_GRAPH, w->place ? w->place : "", reason);
}

/* torch's attributes of a tensor may have a value beside an exception, where there was no memory
 * for a string. */
PyObject *
own(Walk *w, PyObject *fresh)
{
    if (fresh && PyErr_Occurred()) {
        Py_CLEAR(fresh);
    }
    if (!fresh) {
        python_failed(w);
    }
    if (w->npool == w->room_pool) {
        int room = w->room_pool ? 2 * w->room_pool : 256;
        PyObject **pool = PyMem_Realloc(w->pool, (size_t)room * sizeof *pool);
        if (!pool) {
            Py_DECREF(fresh);
            PyErr_NoMemory();
            python_failed(w);
        }
        w->pool = pool;
        w->room_pool = room;
    }
    return w->pool[w->npool++] = fresh;
}

void
pool_release(Walk *w, int mark)
{
    while (w->npool > mark) {
        Py_DECREF(w->pool[--w->npool]);
    }
}

PyObject *
attr(Walk *w, PyObject *o, PyObject *name)
{
    return own(w, PyObject_GetAttr(o, name));
}

PyObject *
attr_or_null(Walk *w, PyObject *o, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(o, name);
    if (!value && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        return NULL;
    }
    return own(w, value);
}

bool
attr_true(Walk *w, PyObject *o, PyObject *name)
{
    PyObject *value = attr_or_null(w, o, name);
    int truth = value ? PyObject_IsTrue(value) : 0;
    if (truth < 0) {
        python_failed(w);
    }
    return truth;
}

PyObject *
call0(Walk *w, PyObject *o, PyObject *method)
{
    return own(w, PyObject_CallMethodNoArgs(o, method));
}

const char *
utf8(Walk *w, PyObject *text)
{
    const char *s = PyUnicode_AsUTF8(text);
    if (!s) {
        python_failed(w);
    }
    return s;
}

Dtype
dtype_of(Walk *w, PyObject *torch_dtype)
{
    PyObject *number = PyDict_GetItemWithError(py.dtypes, torch_dtype);
    if (!number && PyErr_Occurred()) {
        python_failed(w);
    }
    return number ? (Dtype)PyLong_AsLong(number) : DTYPE_COUNT;
}

/* ---- overloads ---- */

static void
overload_free(PyObject *capsule)
{
    Overload *o = PyCapsule_GetPointer(capsule, NULL);
    for (int k = 0; o->names && k < o->nargs; k++) {
        Py_XDECREF(o->names[k]);
    }
    PyMem_Free(o->names);
    PyMem_Free(o->defaults);
    PyMem_Free(o->name);
    PyMem_Free(o);
}

static void *
zeroed(Walk *w, size_t count, size_t size)
{
    void *memory = PyMem_Calloc(count ? count : 1, size);
    if (!memory) {
        PyErr_NoMemory();
        python_failed(w);
    }
    return memory;
}

/* An empty list, or a number that the schema writes once for all of a list (`int[2] padding=0`). */
static Arg
default_list(PyObject *list)
{
    Py_ssize_t n = PyList_GET_SIZE(list);
    PyObject *first = n ? PyList_GET_ITEM(list, 0) : NULL;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *item = PyList_GET_ITEM(list, k);
        if (!PyLong_Check(item) || PyBool_Check(item) ||
            PyObject_RichCompareBool(item, first, Py_EQ) != 1) {
            return (Arg){.kind = ARG_OTHER};
        }
    }
    return n ? (Arg){.kind = ARG_INT, .i = PyLong_AsLongLong(first)} : (Arg){.kind = ARG_LIST};
}

/* A default is None, a number, a string or a list of one number in all that builders look at. */
static Arg
default_arg(PyObject *value)
{
    if (value == Py_None) {
        return (Arg){.kind = ARG_NONE};
    }
    if (PyBool_Check(value)) {
        return (Arg){.kind = ARG_BOOL, .i = value == Py_True};
    }
    if (PyLong_Check(value)) {
        return (Arg){.kind = ARG_INT, .i = PyLong_AsLongLong(value)};
    }
    if (PyFloat_Check(value)) {
        return (Arg){.kind = ARG_FLOAT, .f = PyFloat_AS_DOUBLE(value)};
    }
    if (PyList_Check(value)) {
        return default_list(value);
    }
    return (Arg){.kind = ARG_OTHER};
}

/* The sets of an alias annotation share a letter when results share storage. */
static bool
is_view_of(Walk *w, PyObject *argument, PyObject *result)
{
    PyObject *a = attr(w, argument, py.name.alias_info), *r = attr(w, result, py.name.alias_info);
    if (a == Py_None || r == Py_None) {
        return false;
    }
    PyObject *from = attr(w, a, py.name.before_set), *to = attr(w, r, py.name.before_set);
    PyObject *both = own(w, PyNumber_And(from, to));
    return PyObject_Size(both) > 0 || PyObject_Size(from) > 0;
}

static void
read_arguments(Walk *w, Overload *o, PyObject *schema)
{
    PyObject *arguments = attr(w, schema, py.name.arguments);
    PyObject *returns = attr(w, schema, py.name.returns);
    PyObject *result = PyList_GET_SIZE(returns) ? PyList_GET_ITEM(returns, 0) : NULL;
    o->alias = -1;
    o->silent = !result;
    o->nargs = (int)PyList_GET_SIZE(arguments);
    o->names = zeroed(w, (size_t)o->nargs, sizeof *o->names);
    o->defaults = zeroed(w, (size_t)o->nargs, sizeof *o->defaults);
    for (int k = 0; k < o->nargs; k++) {
        PyObject *argument = PyList_GET_ITEM(arguments, k);
        o->names[k] = Py_NewRef(attr(w, argument, py.name.name));
        o->defaults[k] = default_arg(attr(w, argument, py.name.default_value));
        PyErr_Clear(); /* an int beyond 64 bits: no default that matters */
        PyObject *alias = attr(w, argument, py.name.alias_info);
        o->writes |= alias != Py_None && attr_true(w, alias, py.name.is_write);
        if (o->alias < 0 && result && is_view_of(w, argument, result)) {
            o->alias = k;
        }
    }
}

static void
read_overload(Walk *w, Overload *o, PyObject *target)
{
    PyObject *text = own(w, PyObject_Str(target)), *tags = attr(w, target, py.name.tags);
    const char *name = utf8(w, text);
    size_t size = strlen(name) + 1;
    o->name = memcpy(zeroed(w, size, 1), name, size);
    o->row = aten_find(o->name);
    int random = PySequence_Contains(tags, py.seeded);
    if (random < 0) {
        python_failed(w);
    }
    o->random = random;
    read_arguments(w, o, attr(w, target, py.name._schema));
    PyObject *module = own(w, PyImport_ImportModule("torch._C"));
    PyObject *composite = own(
        w, PyObject_CallMethod(module, "_dispatch_has_kernel_for_dispatch_key", "Os",
                               attr(w, target, py.name._name), "CompositeImplicitAutograd"));
    o->maybe_alias = o->alias >= 0 && composite == Py_True;
}

const Overload *
overload_of(Walk *w, PyObject *target)
{
    if (!is_a(target, py.OpOverload)) {
        return NULL;
    }
    PyObject *capsule = PyDict_GetItemWithError(py.overloads, target);
    if (!capsule) {
        if (PyErr_Occurred()) {
            python_failed(w);
        }
        Overload *o = zeroed(w, 1, sizeof *o);
        capsule = PyCapsule_New(o, NULL, overload_free);
        if (!capsule) {
            PyMem_Free(o);
        }
        read_overload(w, PyCapsule_GetPointer(own(w, capsule), NULL), target);
        if (PyDict_SetItem(py.overloads, target, capsule) < 0) {
            python_failed(w);
        }
    }
    return PyCapsule_GetPointer(capsule, NULL);
}
