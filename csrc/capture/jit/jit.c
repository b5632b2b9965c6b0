/* dlc._C.Jit: a Python function as an operator.  dlc.jit makes them; see Note [A call]. */
#include "jit.h"

#include <string.h>
#include <structmember.h>

#include "capture/module.h"

enum {
    FEW_ARGUMENTS = 8,
    MAX_ARGUMENTS = 255,
    MAX_VARIANTS = 64,          /* if there are more, the oldest one is dropped */
    MAX_TRIES = 16,             /* compiles for one call */
};

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *dict, *weak;
    Signature signature;
    PyObject *call;             /* the function with all arguments by position */
    PyObject *compile;          /* called with the generation and the arguments; adds a variant */
    PyTypeObject *callable_type;
    Variant *variants[MAX_VARIANTS];
    int nvariants;
    long long generation;       /* variants added so far, and trees */
    WatchList watched;
    Tree *tree; /* owned; for a module: its state when the variants were compiled */
} Jit;

/* ---- a call ---- */

/* new: by the first variant that takes the call; NULL without an exception: none does. */
static PyObject *
run_variants(const Jit *self, Tree *tree, PyObject *const *bound, const Taken *taken)
{
    uint32_t state = torch_state() | (tree ? tree_state(tree) : 0);
    for (int k = 0; k < self->nvariants; k++) {
        Variant *v = self->variants[k];
        int match = variant_matches(v, state, tree, taken);
        if (match < 0) {
            return NULL;
        }
        if (match) {
            bool fits = true;
            v->refs++;
            PyObject *value = v->through
                                  ? PyObject_Vectorcall(v->through, bound,
                                                        (size_t)self->signature.nparams, NULL)
                                  : variant_run(v, taken, &fits);
            variant_unref(v);
            if (value || fits) {
                return value;
            }
        }
    }
    return NULL;
}

/* The same for a module that has not changed. */
static PyObject *
run_module(const Jit *self, PyObject *const *bound, const Taken *taken)
{
    Tree *tree = self->tree;
    Py_INCREF((PyObject *)tree); /* a comparison may run code that gives the module another one */
    PyObject *value = tree_holds(tree) ? run_variants(self, tree, bound, taken) : NULL;
    Py_DECREF((PyObject *)tree);
    return value;
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
    for (int k = 0; k < self->signature.nparams; k++) {
        args[k + 1] = bound[k];
    }
    size_t n = (size_t)self->signature.nparams + 1;
    PyObject *done = PyObject_Vectorcall(self->compile, args, n, NULL);
    Py_DECREF(number);
    Py_XDECREF(done);
    if (done && self->generation == before) {
        PyErr_Format(dlc_InternalError, "%s(): nothing was compiled",
                     signature_name(&self->signature));
        return -1;
    }
    return done ? 0 : -1;
}

static PyObject *call_bound(const Jit *self, PyObject **bound, Taken *taken);

/* A call with a NumPy float among the arguments. */
static PyObject *
call_plain(const Jit *self, PyObject **bound, Taken *taken)
{
    int n = self->signature.nparams, done = 0;
    bool tensors = false;
    for (int k = 0; k < n; k++) {
        tensors = tensors || pytensor_check(bound[k]);
    }
    for (; done < n; done++) {
        PyObject *plain = numpy_plain(bound[done], tensors);
        if (!plain) {
            break;
        }
        bound[done] = plain;
    }
    PyObject *value = done == n ? call_bound(self, bound, taken) : NULL;
    while (done) {
        Py_DECREF(bound[--done]);
    }
    return value;
}

static PyObject *
call_bound(const Jit *self, PyObject **bound, Taken *taken)
{
    int status = torch_watches() ? 1 : watch_check(&self->watched, &self->signature);
    if (status == 0) {
        status = signature_take(&self->signature, bound, taken);
    }
    if (status == TAKING_NUMPY_FLOAT) {
        return call_plain(self, bound, taken);
    }
    if (status) {
        size_t n = (size_t)self->signature.nparams;
        return status < 0 ? NULL : PyObject_Vectorcall(self->call, bound, n, NULL);
    }
    for (int tries = 0; tries < MAX_TRIES; tries++) {
        PyObject *value = self->tree ? run_module(self, bound, taken)
                                     : run_variants(self, NULL, bound, taken);
        if (value || PyErr_Occurred() || compile_variant(self, bound) < 0) {
            return value;
        }
    }
    return PyErr_Format(dlc_InternalError,
                        "%s(): what was compiled for these arguments does not take them",
                        signature_name(&self->signature));
}

static PyObject *
jit_vectorcall(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Jit *self = (Jit *)object;
    PyObject *few_bound[FEW_ARGUMENTS], **bound = few_bound, *value = NULL;
    Taken few[FEW_ARGUMENTS], *taken = few;
    if (self->signature.nparams > FEW_ARGUMENTS) {
        bound = PyMem_Malloc((size_t)self->signature.nparams * (sizeof *bound + sizeof *taken));
        taken = (Taken *)(bound + self->signature.nparams);
        if (!bound) {
            return PyErr_NoMemory();
        }
    }
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (signature_bind(&self->signature, args, nargs, kwnames, bound) == 0) {
        Py_INCREF(object); /* the caller's name for it may go while other threads run */
        value = call_bound(self, bound, taken);
        Py_DECREF(object);
    }
    if (bound != few_bound) {
        PyMem_Free(bound);
    }
    return value;
}

/* ---- methods ---- */

PyDoc_STRVAR(
    add_doc,
    "add(args, spec): adds a variant for such arguments.\n\n"
    "spec: a dict.  \"through\": a callable that takes such calls; or \"callable\": a Callable;\n"
    "\"inputs\": the argument of each of its inputs; \"symbols\" and \"guards\": see jit_guard.c;\n"
    "\"leaves\": [(\"result\", \"scalar\" or \"argument\", position) or (\"object\", value), ..];\n"
    "\"shape\": None for one leaf, tuple, or a callable that is given the list of leaves;\n"
    "\"writes\": [(argument, callable), ..] of those that the graph writes to; what the callable "
    "returns\nsays so.");

/* Takes the reference; drops the oldest variant if there are too many. */
static void
keep_variant(Jit *self, Variant *v)
{
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
        variant_unref(oldest); /* last: it may run any code */
    }
}

static PyObject *
jit_add(PyObject *object, PyObject *args)
{
    Jit *self = (Jit *)object;
    PyObject *given, *spec;
    Variant *v = NULL;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &given, &PyDict_Type, &spec)) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(given) != self->signature.nparams) {
        return PyErr_Format(PyExc_ValueError, "a variant for another number of arguments");
    }
    Taken *taken = PyMem_Calloc((size_t)self->signature.nparams + 1, sizeof *taken);
    if (!taken) {
        return PyErr_NoMemory();
    }
    int status = signature_take(&self->signature, ((PyTupleObject *)given)->ob_item, taken);
    if (status > 0) {
        PyErr_SetString(PyExc_TypeError, "a variant for tensors of another trace");
    } else if (status == 0) {
        v = variant_new(taken, &self->signature, self->tree, self->callable_type, spec);
    }
    PyMem_Free(taken);
    if (!v) {
        return NULL;
    }
    keep_variant(self, v);
    Py_RETURN_NONE;
}

static PyObject *
jit_watch(PyObject *object, PyObject *args)
{
    PyObject *name, *holder;
    if (!PyArg_ParseTuple(args, "OO", &name, &holder) ||
        watch_add(&((Jit *)object)->watched, name, holder) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Takes the present tree of a module; drops the variants that were compiled for another one. */
static PyObject *
jit_set_tree(PyObject *object, PyObject *tree)
{
    Jit *self = (Jit *)object;
    Variant *old[MAX_VARIANTS];
    int n = self->nvariants;
    if (!PyObject_TypeCheck(tree, module_state(PyType_GetModule(Py_TYPE(object)))->tree_type)) {
        return PyErr_Format(PyExc_TypeError, "not a Tree");
    }
    memcpy(old, self->variants, (size_t)n * sizeof *old);
    self->nvariants = 0;
    self->generation++;
    Py_INCREF(tree);
    Py_XSETREF(self->tree, (Tree *)tree);
    while (n) {
        variant_unref(old[--n]); /* last: it may run any code */
    }
    Py_RETURN_NONE;
}

/* Pickles the function by its name; dlc/pickled.py says how. */
static PyObject *
jit_reduce(PyObject *object, PyObject *Py_UNUSED(protocol))
{
    PyObject *module = PyImport_ImportModule("dlc.pickled");
    PyObject *how = module ? PyObject_CallMethod(module, "reduce", "O", object) : NULL;
    Py_XDECREF(module);
    return how;
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
    return PyUnicode_FromFormat("<dlc.jit of %R, compiled in %d variants>", self->signature.fn,
                                self->nvariants);
}

static PyObject *
jit_get(PyObject *object, PyObject *instance, PyObject *Py_UNUSED(type))
{
    return instance && instance != Py_None ? PyMethod_New(object, instance) : Py_NewRef(object);
}

/* ---- life ---- */

PyDoc_STRVAR(
    jit_doc,
    "Jit(fn, call, names, positional, defaults, compile, plain, traced, objects): a function that\n"
    "runs compiled variants of fn.\n\n"
    "call: fn with all arguments by position; names: of the parameters, `positional` of which may\n"
    "be given by position; defaults: a dict by name; compile(generation, *args): adds a variant "
    "for\n"
    "the arguments, unless another thread has added one since the generation; plain: types of\n"
    "arguments that are constants; traced: types of arguments for which call is called; objects: "
    "are\n"
    "all other objects constants too?");

static PyObject *
jit_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *fn, *call, *names, *defaults, *compile, *plain, *traced;
    int positional, objects;
    if (kwargs || !PyArg_ParseTuple(args, "OOO!iO!OO!O!p", &fn, &call, &PyTuple_Type, &names,
                                    &positional, &PyDict_Type, &defaults, &compile, &PyTuple_Type,
                                    &plain, &PyTuple_Type, &traced, &objects)) {
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
    self->call = Py_NewRef(call);
    self->compile = Py_NewRef(compile);
    PyTypeObject *callable_type = module_state(module)->callable_type;
    self->callable_type = (PyTypeObject *)Py_NewRef((PyObject *)callable_type);
    self->signature = (Signature){.fn = Py_NewRef(fn),
                                  .plain = Py_NewRef(plain),
                                  .traced = Py_NewRef(traced),
                                  .objects = objects};
    if (signature_init(&self->signature, names, positional, defaults) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int
jit_traverse(PyObject *object, visitproc visit, void *arg)
{
    Jit *self = (Jit *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->dict);
    Py_VISIT(self->call);
    Py_VISIT(self->compile);
    Py_VISIT((PyObject *)self->callable_type);
    Py_VISIT((PyObject *)self->tree);
    int stop = signature_traverse(&self->signature, visit, arg);
    for (int k = 0; !stop && k < self->nvariants; k++) {
        stop = variant_traverse(self->variants[k], visit, arg);
    }
    return stop ? stop : watch_traverse(&self->watched, visit, arg);
}

static int
jit_clear(PyObject *object)
{
    Jit *self = (Jit *)object;
    Py_CLEAR(self->dict);
    Py_CLEAR(self->call);
    Py_CLEAR(self->compile);
    while (self->nvariants) {
        variant_unref(self->variants[--self->nvariants]);
    }
    watch_clear(&self->watched);
    Py_CLEAR(self->tree);
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
    signature_clear(&self->signature);
    Py_XDECREF((PyObject *)self->callable_type);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef jit_methods[] = {
    {"add", jit_add, METH_VARARGS, add_doc},
    {"watch", jit_watch, METH_VARARGS,
     PyDoc_STR("watch(name, holder): calls fail when the dict, the cell or the class holds another "
               "value.")},
    {"set_tree", jit_set_tree, METH_O,
     PyDoc_STR(
         "set_tree(tree): variants are compiled for a module that is as this Tree has it; those "
         "there were "
         "are gone.")},
    {"__reduce_ex__", jit_reduce, METH_O, NULL},
    {"__copy__", jit_same, METH_NOARGS, NULL},
    {"__deepcopy__", jit_same, METH_O, NULL},
    {NULL},
};

static PyMemberDef jit_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Jit, vectorcall), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(Jit, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Jit, weak), READONLY, NULL},
    {"generation", T_LONGLONG, offsetof(Jit, generation), READONLY,
     "How many variants were added."},
    {NULL},
};

static PyGetSetDef jit_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL},
};

static PyType_Slot jit_slots[] = {
    {Py_tp_doc, (void *)jit_doc}, {Py_tp_new, jit_new},         {Py_tp_call, PyVectorcall_Call},
    {Py_tp_repr, jit_repr},       {Py_tp_descr_get, jit_get},   {Py_tp_traverse, jit_traverse},
    {Py_tp_clear, jit_clear},     {Py_tp_dealloc, jit_dealloc}, {Py_tp_methods, jit_methods},
    {Py_tp_members, jit_members}, {Py_tp_getset, jit_getset},   {0, NULL},
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
 * Dynamo answers two questions at each call in Python frames: are the arguments those of the
 * compiled code, and which code is that.  Here both are this file's.  A call binds its
 * arguments, compares what the function reads besides (identities, in the common case), reads
 * each argument once, and goes through the variants: words of dtypes and ranks, then constants,
 * then sizes by the variant's guard, then the plan's own comparison of strides.  All of it is
 * before anything is written, so that the next variant may be tried.  When none fits, Python
 * captures one (dlc/function.py) and the loop starts again.
 *
 * The list of variants only grows at its end, or loses its first; both happen with the
 * interpreter lock, which a call gives away only while it runs.  A variant that runs is kept by
 * its reference. */
