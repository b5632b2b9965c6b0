/* dlc._C.Jit: a Python function as an operator.  dlc.jit makes them; see Note [A call]. */
#include "jit.h"

#include <structmember.h>

#include "module.h"

enum {
    FEW_ARGUMENTS = 8,
    MAX_ARGUMENTS = 255,
    MAX_VARIANTS = 64,          /* then the oldest one goes */
    MAX_TRIES = 16,             /* compiles for one call */
};

/* A global or closed-over name that the function reads, and what it was when that was compiled. */
typedef struct {
    PyObject *name;             /* owned */
    PyObject *holder;           /* a dict or a cell; owned */
    PyObject *value;            /* owned */
} Watched;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *fn, *dict, *weak;
    PyObject *names;            /* tuple of the parameters' names */
    PyObject **defaults;        /* by parameter, NULL: none; owned */
    int nparams, npositional;   /* the rest are keywords */
    PyObject *call;             /* fn with all arguments by position: how another trace sees it */
    PyObject *traced;           /* tuple of the types of arguments that another trace gives */
    PyObject *compile;          /* called with the generation and the arguments; adds a variant */
    PyObject *plain;            /* tuple of the types of constants */
    PyTypeObject *callable_type;
    Variant *variants[MAX_VARIANTS];
    int nvariants;
    long long generation;       /* variants added so far */
    Watched *watched;           /* PyMem */
    int nwatched;
} Jit;

/* ---- arguments ---- */

static const char *
function_name(const Jit *self)
{
    PyObject *name = PyObject_GetAttrString(self->fn, "__name__");
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    Py_XDECREF(name);           /* fn holds it */
    PyErr_Clear();
    return text ? text : "the function";
}

static int
parameter(const Jit *self, PyObject *name)
{
    for (int k = 0; k < self->nparams; k++) {
        if (PyTuple_GET_ITEM(self->names, k) == name) {
            return k;
        }
    }
    for (int k = 0; k < self->nparams; k++) {
        if (PyUnicode_Compare(PyTuple_GET_ITEM(self->names, k), name) == 0) {
            return k;
        }
    }
    return -1;
}

/* Puts keywords and defaults in their places; bound: borrowed, NULL where nothing was given. */
static int
bind_keywords(const Jit *self, PyObject *const *values, PyObject *kwnames, PyObject **bound)
{
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k);
        int at = parameter(self, name);
        if (at < 0 || bound[at]) {
            PyErr_Format(PyExc_TypeError, at < 0 ? "%s() got an unexpected keyword argument '%U'" :
                         "%s() got multiple values for argument '%U'", function_name(self), name);
            return -1;
        }
        bound[at] = values[k];
    }
    for (int k = 0; k < self->nparams; k++) {
        bound[k] = bound[k] ? bound[k] : self->defaults[k];
        if (!bound[k]) {
            PyErr_Format(PyExc_TypeError, "%s() missing argument '%U'", function_name(self),
                         PyTuple_GET_ITEM(self->names, k));
            return -1;
        }
    }
    return 0;
}

static int
bind(const Jit *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **bound)
{
    if (nargs > self->npositional) {
        PyErr_Format(PyExc_TypeError, "%s() takes %d positional arguments but %zd were given",
                     function_name(self), self->npositional, nargs);
        return -1;
    }
    for (int k = 0; k < self->nparams; k++) {
        bound[k] = k < nargs ? args[k] : NULL;
    }
    return nargs == self->nparams && !kwnames ? 0 : bind_keywords(self, args + nargs, kwnames, bound);
}

static void
refuse_argument(const Jit *self, int at, const Taken *taken, const char *why)
{
    bool constant = taken_kind(taken->print) == TAKE_CONSTANT;
    PyErr_Format(PyExc_TypeError, "%s(): argument '%U' is %s%s; dlc.jit takes dense tensors on the CPU, "
                 "NumPy arrays, numbers, text, None, dtypes, and tuples of constants", function_name(self),
                 PyTuple_GET_ITEM(self->names, at), constant ? "of type " : "", why);
}

static bool
is_traced(const Jit *self, PyObject *argument)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(self->traced); k++) {
        if (Py_IS_TYPE(argument, (PyTypeObject *)PyTuple_GET_ITEM(self->traced, k))) {
            return true;
        }
    }
    return false;
}

/* 0; 1: the call is part of what another function's capture sees; -1 with an exception. */
static int
take_all(const Jit *self, PyObject *const *bound, Taken *taken)
{
    int tensor = -1, array = -1;
    for (int k = 0; k < self->nparams; k++) {
        const char *why = "";
        taken[k].print = TAKE_TENSOR;
        int status = take_argument(bound[k], self->plain, &taken[k], &why);
        if (status > 0 && is_traced(self, bound[k])) {
            return 1;
        }
        if (status > 0) {
            refuse_argument(self, k, &taken[k], why);
        }
        if (status != 0) {
            return -1;
        }
        TakeKind kind = taken_kind(taken[k].print);
        tensor = kind == TAKE_TENSOR ? k : tensor;
        array = kind == TAKE_ARRAY || kind == TAKE_COPY ? k : array;
    }
    if (tensor >= 0 && array >= 0) {
        PyErr_Format(PyExc_TypeError, "%s(): argument '%U' is a NumPy array and argument '%U' a tensor; "
                     "give all as arrays or all as tensors", function_name(self),
                     PyTuple_GET_ITEM(self->names, array), PyTuple_GET_ITEM(self->names, tensor));
        return -1;
    }
    return 0;
}

/* ---- what the function reads besides ---- */

static PyObject *
watched_value(const Watched *w)
{
    return PyCell_Check(w->holder) ? PyCell_GET(w->holder) : PyDict_GetItemWithError(w->holder, w->name);
}

static int
check_watched(const Jit *self)
{
    for (int k = 0; k < self->nwatched; k++) {
        const Watched *w = &self->watched[k];
        PyObject *now = watched_value(w);
        if (now != w->value) {
            int same = now ? same_constant(now, w->value) : 0;
            if (same <= 0 && !PyErr_Occurred()) {
                PyErr_Format(PyExc_RuntimeError, "%s() reads '%U', which has another value than when it "
                             "was compiled: pass it as an argument, or use dlc.jit(fn, constants=True) "
                             "to keep the value it had", function_name(self), w->name);
            }
            if (same <= 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* ---- a call ---- */

/* new: by the first variant that takes the call; NULL without an exception: none does. */
static PyObject *
run_variants(const Jit *self, PyObject *const *bound, const Taken *taken)
{
    uint32_t state = torch_state();
    for (int k = 0; k < self->nvariants; k++) {
        Variant *v = self->variants[k];
        int match = variant_matches(v, state, taken);
        if (match < 0) {
            return NULL;
        }
        if (match) {
            bool fits = true;
            v->refs++;
            PyObject *value = v->through ?
                PyObject_Vectorcall(v->through, bound, (size_t)self->nparams, NULL) :
                variant_run(v, taken, &fits);
            variant_unref(v);
            if (value || fits) {
                return value;
            }
        }
    }
    return NULL;
}

/* Asks Python for a variant for these arguments. */
static int
compile_variant(const Jit *self, PyObject *const *bound)
{
    long long before = self->generation;
    PyObject *args[MAX_ARGUMENTS + 1], *number = PyLong_FromLongLong(before);
    if (!number) {
        return -1;
    }
    args[0] = number;
    for (int k = 0; k < self->nparams; k++) {
        args[k + 1] = bound[k];
    }
    PyObject *done = PyObject_Vectorcall(self->compile, args, (size_t)self->nparams + 1, NULL);
    Py_DECREF(number);
    Py_XDECREF(done);
    if (done && self->generation == before) {
        PyErr_Format(dlc_InternalError, "%s(): nothing was compiled", function_name(self));
        return -1;
    }
    return done ? 0 : -1;
}

static PyObject *
call_bound(const Jit *self, PyObject *const *bound, Taken *taken)
{
    int status = check_watched(self) < 0 ? -1 : take_all(self, bound, taken);
    if (status) {
        return status < 0 ? NULL : PyObject_Vectorcall(self->call, bound, (size_t)self->nparams, NULL);
    }
    for (int tries = 0; tries < MAX_TRIES; tries++) {
        PyObject *value = run_variants(self, bound, taken);
        if (value || PyErr_Occurred() || compile_variant(self, bound) < 0) {
            return value;
        }
    }
    return PyErr_Format(dlc_InternalError, "%s(): what was compiled for these arguments does not take them",
                        function_name(self));
}

static PyObject *
jit_vectorcall(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Jit *self = (Jit *)object;
    PyObject *few_bound[FEW_ARGUMENTS], **bound = few_bound, *value = NULL;
    Taken few[FEW_ARGUMENTS], *taken = few;
    if (self->nparams > FEW_ARGUMENTS) {
        bound = PyMem_Malloc((size_t)self->nparams * (sizeof *bound + sizeof *taken));
        taken = (Taken *)(bound + self->nparams);
        if (!bound) {
            return PyErr_NoMemory();
        }
    }
    if (bind(self, args, PyVectorcall_NARGS(nargsf), kwnames, bound) == 0) {
        Py_INCREF(object);      /* the caller's name for it may go while other threads run */
        value = call_bound(self, bound, taken);
        Py_DECREF(object);
    }
    if (bound != few_bound) {
        PyMem_Free(bound);
    }
    return value;
}

/* ---- methods ---- */

PyDoc_STRVAR(add_doc,
"add(args, spec): adds a variant for such arguments.\n\n"
"spec: a dict.  \"through\": a callable that takes such calls; or \"callable\": a Callable; \"inputs\": the\n"
"argument of each of its inputs; \"symbols\" and \"guards\": see jit_guard.c; \"leaves\": [(\"result\" or\n"
"\"argument\", position) or (\"object\", value), ..]; \"shape\": None for one leaf, tuple, or a callable\n"
"that is given the list of leaves.");

static PyObject *
jit_add(PyObject *object, PyObject *args)
{
    Jit *self = (Jit *)object;
    PyObject *given, *spec;
    Variant *v = NULL;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &given, &PyDict_Type, &spec)) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(given) != self->nparams) {
        return PyErr_Format(PyExc_ValueError, "a variant for another number of arguments");
    }
    Taken *taken = PyMem_Calloc((size_t)self->nparams + 1, sizeof *taken);
    if (!taken) {
        return PyErr_NoMemory();
    }
    int status = take_all(self, ((PyTupleObject *)given)->ob_item, taken);
    if (status > 0) {
        PyErr_SetString(PyExc_TypeError, "a variant for tensors of another trace");
    } else if (status == 0) {
        v = variant_new(taken, self->nparams, self->callable_type, spec);
    }
    PyMem_Free(taken);
    if (!v) {
        return NULL;
    }
    Variant *oldest = self->nvariants == MAX_VARIANTS ? self->variants[0] : NULL;
    if (oldest) {
        for (int k = 1; k < MAX_VARIANTS; k++) {
            self->variants[k - 1] = self->variants[k];
        }
        self->nvariants--;
    }
    self->variants[self->nvariants++] = v;
    self->generation++;
    if (oldest) {
        variant_unref(oldest);  /* last: it may run any code */
    }
    Py_RETURN_NONE;
}

static int
watch_add(Jit *self, PyObject *name, PyObject *holder)
{
    Watched w = {name, holder, NULL};
    w.value = PyCell_Check(holder) || PyDict_Check(holder) ? watched_value(&w) : NULL;
    if (!PyUnicode_Check(name) || !w.value) {
        PyErr_SetString(PyExc_ValueError, "a name is watched in a dict or a cell that has it");
        return -1;
    }
    Watched *more = PyMem_Realloc(self->watched, ((size_t)self->nwatched + 1) * sizeof *more);
    if (!more) {
        PyErr_NoMemory();
        return -1;
    }
    self->watched = more;
    more[self->nwatched++] = (Watched){Py_NewRef(name), Py_NewRef(holder), Py_NewRef(w.value)};
    return 0;
}

static PyObject *
jit_watch(PyObject *object, PyObject *args)
{
    PyObject *name, *holder;
    if (!PyArg_ParseTuple(args, "OO", &name, &holder) || watch_add((Jit *)object, name, holder) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
jit_reduce(PyObject *object, PyObject *Py_UNUSED(protocol))
{
    return PyErr_Format(PyExc_TypeError, "%s is compiled by dlc.jit and cannot be pickled: pickle the "
                        "function itself, its __wrapped__", function_name((Jit *)object));
}

static PyObject *
jit_same(PyObject *object, PyObject *Py_UNUSED(memo))
{
    return Py_NewRef(object);
}

static PyObject *
jit_repr(PyObject *object)
{
    const Jit *self = (Jit *)object;
    return PyUnicode_FromFormat("<dlc.jit of %R, compiled in %d variants>", self->fn, self->nvariants);
}

static PyObject *
jit_get(PyObject *object, PyObject *instance, PyObject *Py_UNUSED(type))
{
    return instance && instance != Py_None ? PyMethod_New(object, instance) : Py_NewRef(object);
}

/* ---- life ---- */

static int
read_defaults(Jit *self, PyObject *defaults)
{
    self->defaults = PyMem_Calloc((size_t)self->nparams + 1, sizeof *self->defaults);
    if (!self->defaults) {
        PyErr_NoMemory();
        return -1;
    }
    for (int k = 0; k < self->nparams; k++) {
        PyObject *value = PyDict_GetItemWithError(defaults, PyTuple_GET_ITEM(self->names, k));
        if (!value && PyErr_Occurred()) {
            return -1;
        }
        self->defaults[k] = Py_XNewRef(value);
    }
    return 0;
}

PyDoc_STRVAR(jit_doc,
"Jit(fn, call, names, positional, defaults, compile, plain, traced): a function that runs compiled\n"
"variants of fn.\n\n"
"call: fn with all arguments by position; names: of the parameters, `positional` of which may be given\n"
"by position; defaults: a dict by name; traced: types of arguments for which call is called;\n"
"compile(generation, *args): adds a variant for the arguments, unless another thread has added one since\n"
"the generation; plain: types of arguments that are constants.");

static PyObject *
jit_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *fn, *call, *names, *defaults, *compile, *plain, *traced;
    int positional;
    if (kwargs || !PyArg_ParseTuple(args, "OOO!iO!OO!O!", &fn, &call, &PyTuple_Type, &names, &positional,
                                    &PyDict_Type, &defaults, &compile, &PyTuple_Type, &plain,
                                    &PyTuple_Type, &traced)) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "Jit takes no keywords");
    }
    if (PyTuple_GET_SIZE(names) > MAX_ARGUMENTS) {
        return PyErr_Format(PyExc_TypeError, "a function of more than %d arguments", MAX_ARGUMENTS);
    }
    PyObject *module = PyType_GetModule(type);
    Jit *self = module ? (Jit *)type->tp_alloc(type, 0) : NULL;
    if (!self) {
        return NULL;
    }
    self->vectorcall = jit_vectorcall;
    self->fn = Py_NewRef(fn);
    self->names = Py_NewRef(names);
    self->nparams = (int)PyTuple_GET_SIZE(names);
    self->npositional = positional;
    self->call = Py_NewRef(call);
    self->traced = Py_NewRef(traced);
    self->compile = Py_NewRef(compile);
    self->plain = Py_NewRef(plain);
    self->callable_type = (PyTypeObject *)Py_NewRef((PyObject *)module_state(module)->callable_type);
    if (read_defaults(self, defaults) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int
jit_traverse(PyObject *object, visitproc visit, void *arg)
{
    Jit *self = (Jit *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->fn);
    Py_VISIT(self->dict);
    Py_VISIT(self->call);
    Py_VISIT(self->traced);
    Py_VISIT(self->compile);
    Py_VISIT(self->plain);
    Py_VISIT((PyObject *)self->callable_type);
    for (int k = 0; self->defaults && k < self->nparams; k++) {
        Py_VISIT(self->defaults[k]);
    }
    for (int k = 0; k < self->nvariants; k++) {
        int stop = variant_traverse(self->variants[k], visit, arg);
        if (stop) {
            return stop;
        }
    }
    for (int k = 0; k < self->nwatched; k++) {
        Py_VISIT(self->watched[k].holder);
        Py_VISIT(self->watched[k].value);
    }
    return 0;
}

static int
jit_clear(PyObject *object)
{
    Jit *self = (Jit *)object;
    Py_CLEAR(self->fn);
    Py_CLEAR(self->dict);
    Py_CLEAR(self->call);
    Py_CLEAR(self->compile);
    for (int k = 0; self->defaults && k < self->nparams; k++) {
        Py_CLEAR(self->defaults[k]);
    }
    while (self->nvariants) {
        variant_unref(self->variants[--self->nvariants]);
    }
    while (self->nwatched) {
        Watched w = self->watched[--self->nwatched];
        Py_DECREF(w.name);
        Py_DECREF(w.holder);
        Py_DECREF(w.value);
    }
    return 0;
}

static void
jit_dealloc(PyObject *object)
{
    Jit *self = (Jit *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (self->weak) {
        PyObject_ClearWeakRefs(object);
    }
    jit_clear(object);
    Py_XDECREF(self->names);
    Py_XDECREF(self->plain);
    Py_XDECREF(self->traced);
    Py_XDECREF((PyObject *)self->callable_type);
    PyMem_Free(self->defaults);
    PyMem_Free(self->watched);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef jit_methods[] = {
    {"add", jit_add, METH_VARARGS, add_doc},
    {"watch", jit_watch, METH_VARARGS,
     PyDoc_STR("watch(name, holder): calls fail when the dict or the cell holds another value.")},
    {"__reduce_ex__", jit_reduce, METH_O, NULL},
    {"__copy__", jit_same, METH_NOARGS, NULL},
    {"__deepcopy__", jit_same, METH_O, NULL},
    {NULL},
};

static PyMemberDef jit_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Jit, vectorcall), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(Jit, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Jit, weak), READONLY, NULL},
    {"generation", T_LONGLONG, offsetof(Jit, generation), READONLY, "How many variants were added."},
    {NULL},
};

static PyGetSetDef jit_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL},
};

static PyType_Slot jit_slots[] = {
    {Py_tp_doc, (void *)jit_doc},
    {Py_tp_new, jit_new},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_repr, jit_repr},
    {Py_tp_descr_get, jit_get},
    {Py_tp_traverse, jit_traverse},
    {Py_tp_clear, jit_clear},
    {Py_tp_dealloc, jit_dealloc},
    {Py_tp_methods, jit_methods},
    {Py_tp_members, jit_members},
    {Py_tp_getset, jit_getset},
    {0, NULL},
};

static PyType_Spec jit_spec = {
    .name = "dlc._C.Jit",
    .basicsize = sizeof(Jit),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = jit_slots,
};

int
jit_register(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &jit_spec, NULL);
    int status = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
    Py_XDECREF(type);
    return status < 0 ? -1 : PyModule_AddFunctions(module, jit_args_methods);
}

/* Note [A call]
 *
 * Dynamo answers two questions at each call in Python frames: are the arguments those of the compiled
 * code, and which code is that.  Here both are this file's.  A call binds its arguments, compares what
 * the function reads besides (identities, in the common case), reads each argument once, and goes through
 * the variants: words of dtypes and ranks, then constants, then sizes by the variant's guard, then the
 * plan's own comparison of strides.  All of it is before anything is written, so that the next variant may
 * be tried.  When none fits, Python captures one (dlc/jit.py) and the loop starts again.
 *
 * The list of variants only grows at its end, or loses its first; both happen with the interpreter lock,
 * which a call gives away only while it runs.  A variant that runs is kept by its reference. */
