/* dlc._C.Tree: the values that a module reads, added part by part by Python. */
#include "jit_module.h"

#include <string.h>

#include "capture/torch/torch_abi.h"

static void
record_clear(Record *r)
{
    for (Py_ssize_t k = 0; k < r->n; k++) {
        Py_XDECREF(r->entries[k].key);
        Py_XDECREF(r->entries[k].value);
    }
    PyMem_Free(r->entries);
    Py_XDECREF(r->object);
}

static void
put(Record *r, PyObject *key, PyObject *value)
{
    r->entries[r->n++] = (Entry){Py_XNewRef(key), Py_XNewRef(value)};
}

/* -1 with an exception */
static int
room(Record *r, Py_ssize_t n)
{
    r->entries = PyMem_Calloc((size_t)n + 1, sizeof *r->entries);
    if (!r->entries) {
        PyErr_NoMemory();
    }
    return r->entries ? 0 : -1;
}

static int
fill_dict(Record *r)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (room(r, PyDict_Size(r->object)) < 0) {
        return -1;
    }
    while (PyDict_Next(r->object, &at, &key, &value)) {
        put(r, key, value);
    }
    return 0;
}

static int
fill_names(Record *r, PyObject *names)
{
    if (!names || !PyTuple_Check(names)) {
        PyErr_SetString(PyExc_TypeError, "names are a tuple");
        return -1;
    }
    if (room(r, PyTuple_GET_SIZE(names)) < 0) {
        return -1;
    }
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); k++) {
        PyObject *name = PyTuple_GET_ITEM(names, k);
        if (!PyUnicode_CheckExact(name)) {
            PyErr_SetString(PyExc_TypeError, "a name is text");
            return -1;
        }
        put(r, name, PyDict_GetItemWithError(r->object, name));
    }
    return 0;
}

static int
fill_list(Record *r)
{
    if (room(r, PyList_GET_SIZE(r->object)) < 0) {
        return -1;
    }
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(r->object); k++) {
        put(r, NULL, PyList_GET_ITEM(r->object, k));
    }
    return 0;
}

static int
fill_set(Record *r)
{
    PyObject *copy = PyFrozenSet_New(r->object);
    if (!copy || room(r, 1) < 0) {
        Py_XDECREF(copy);
        return -1;
    }
    put(r, NULL, copy);
    Py_DECREF(copy);
    return 0;
}

static int
fill_object(Record *r)
{
    PyObject *dict = PyObject_GenericGetDict(r->object, NULL);
    PyErr_Clear();
    int status = room(r, 2);
    if (status == 0) {
        put(r, NULL, (PyObject *)Py_TYPE(r->object));
        put(r, NULL, dict);
    }
    Py_XDECREF(dict);
    return status;
}

/* new: the dict that the attributes of a class are in */
static PyObject *
class_dict(PyObject *type)
{
#if PY_VERSION_HEX < 0x030C0000
    return Py_XNewRef(((PyTypeObject *)type)->tp_dict);
#else
    return PyType_GetDict((PyTypeObject *)type);
#endif
}

static int
fill_cell(Record *r)
{
    if (room(r, 1) < 0) {
        return -1;
    }
    put(r, NULL, PyCell_GET(r->object));
    return 0;
}

static int
fill_function(Record *r)
{
    if (room(r, 3) < 0) {
        return -1;
    }
    put(r, NULL, PyFunction_GET_CODE(r->object));
    put(r, NULL, PyFunction_GET_DEFAULTS(r->object));
    put(r, NULL, PyFunction_GET_KW_DEFAULTS(r->object));
    return 0;
}

/* -1 with an exception */
static int
add_always(Tree *self)
{
    int *more = PyMem_Realloc(self->always, ((size_t)self->nalways + 1) * sizeof *more);
    if (!more) {
        PyErr_NoMemory();
        return -1;
    }
    self->always = more;
    more[self->nalways++] = self->nrecords;
    return 0;
}

#if DICT_TAGS

static int
add_word(Tree *self, const void *place)
{
    Word *more = PyMem_Realloc(self->words, ((size_t)self->nwords + 1) * sizeof *more);
    if (!more) {
        PyErr_NoMemory();
        return -1;
    }
    self->words = more;
    more[self->nwords++] = (Word){place, *(const uint64_t *)place, self->nrecords};
    return 0;
}

/* The words of the next record, where Python has them. */
static int
find_words(Tree *self, const Record *r)
{
    if (self->tags && (r->kind == GUARD_DICT || r->kind == GUARD_NAMES)) {
        return add_word(self, &((PyDictObject *)r->object)->ma_version_tag);
    }
    if (self->tags && r->kind == GUARD_OBJECT) {
        PyObject **dict = r->entries[1].value ? _PyObject_GetDictPtr(r->object) : NULL;
        return add_word(self, &r->object->ob_type) < 0 || (dict && add_word(self, dict) < 0) ? -1
                                                                                             : 0;
    }
    if (self->tags && r->kind == GUARD_CELL) {
        return add_word(self, &((PyCellObject *)r->object)->ob_ref);
    }
    return add_always(self);
}

#else

static int
find_words(Tree *self, const Record *Py_UNUSED(r))
{
    return add_always(self);
}

#endif

static GuardKind
kind_of(PyObject *object)
{
    return PyDict_Check(object)       ? GUARD_DICT
           : PyList_Check(object)     ? GUARD_LIST
           : PyAnySet_Check(object)   ? GUARD_SET
           : PyFunction_Check(object) ? GUARD_FUNCTION
           : PyCell_Check(object)     ? GUARD_CELL
                                      : GUARD_OBJECT;
}

/* names: the entries of a dict or a class that count.  -1 with an exception */
static int
record_fill(Record *r, PyObject *object, PyObject *names)
{
    r->kind = kind_of(object);
    r->object = names && PyType_Check(object) ? class_dict(object) : Py_NewRef(object);
    if (names && r->object && PyDict_Check(r->object)) {
        r->kind = GUARD_NAMES;
        return fill_names(r, names);
    }
    switch (r->kind) {
    case GUARD_DICT:
        return fill_dict(r);
    case GUARD_LIST:
        return fill_list(r);
    case GUARD_SET:
        return fill_set(r);
    case GUARD_FUNCTION:
        return fill_function(r);
    case GUARD_CELL:
        return fill_cell(r);
    default:
        return fill_object(r);
    }
}

static PyObject *
tree_guard(PyObject *object, PyObject *args)
{
    Tree *self = (Tree *)object;
    PyObject *guarded, *names = NULL;
    if (!PyArg_ParseTuple(args, "O|O", &guarded, &names)) {
        return NULL;
    }
    Record made = {0},
           *more = PyMem_Realloc(self->records, ((size_t)self->nrecords + 1) * sizeof *more);
    if (!more) {
        return PyErr_NoMemory();
    }
    self->records = more;
    if (record_fill(&made, guarded, names == Py_None ? NULL : names) < 0 ||
        find_words(self, &made) < 0) {
        record_clear(&made);
        return NULL;
    }
    more[self->nrecords++] = made;
    Py_RETURN_NONE;
}

/* -1 with an exception */
static int
more_tensors(Tree *self)
{
    size_t n = (size_t)self->nheld + 1;
    Held *held = PyMem_Realloc(self->held, n * sizeof *held);
    self->held = held ? held : self->held;
    PlanTensor *tensors = held ? PyMem_Realloc(self->tensors, n * sizeof *tensors) : NULL;
    self->tensors = tensors ? tensors : self->tensors;
    if (!tensors) {
        PyErr_NoMemory();
    }
    return tensors ? 0 : -1;
}

static PyObject *
tree_tensor(PyObject *object, PyObject *tensor)
{
    Tree *self = (Tree *)object;
    Held held = {.object = tensor};
    Taken taken = {0};
    if (!pytensor_check(tensor) || !held_read(&held, &taken)) {
        return PyErr_Occurred()
                   ? NULL
                   : PyErr_Format(PyExc_TypeError, "not a dense tensor in the memory of the CPU");
    }
    if (more_tensors(self) < 0) {
        return NULL;
    }
    Py_INCREF(tensor);
    held.signature = taken.signature;
    held.empty = !taken.tensor.data;
    held_keep(&held);
    self->tensors[self->nheld] = taken.tensor;
    self->held[self->nheld++] = held;
    Py_RETURN_NONE;
}

static PyObject *
tree_changed_method(PyObject *object, PyObject *Py_UNUSED(none))
{
    int at = tree_changed((Tree *)object);
    return at < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(at);
}

/* ---- life ---- */

PyDoc_STRVAR(
    tree_doc,
    "Tree(tags=True): what a module reads besides its arguments, and what it was.\n\n"
    "tags: may a dict be taken as unchanged by its version, where Python has one?  The results are "
    "the same.");

static PyObject *
tree_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"tags", NULL};
    int tags = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p", names, &tags)) {
        return NULL;
    }
    if (!torch_abi.requires_grad) {
        return PyErr_Format(
            PyExc_ImportError,
            "dlc.jit of a module: this torch does not say which tensors require "
            "a gradient; torch.compile(module, backend=\"dlc\") works without that");
    }
    Tree *self = (Tree *)type->tp_alloc(type, 0);
    if (self) {
        self->tags = tags && DICT_TAGS;
    }
    return (PyObject *)self;
}

static int
tree_traverse(PyObject *object, visitproc visit, void *arg)
{
    Tree *self = (Tree *)object;
    Py_VISIT(Py_TYPE(object));
    for (int k = 0; k < self->nrecords; k++) {
        Py_VISIT(self->records[k].object);
        for (Py_ssize_t j = 0; j < self->records[k].n; j++) {
            Py_VISIT(self->records[k].entries[j].key);
            Py_VISIT(self->records[k].entries[j].value);
        }
    }
    for (int k = 0; k < self->nheld; k++) {
        Py_VISIT(self->held[k].object);
    }
    return 0;
}

static int
tree_clear(PyObject *object)
{
    Tree *self = (Tree *)object;
    self->nwords = self->nalways = 0;
    while (self->nrecords) {
        Record r = self->records[--self->nrecords];
        record_clear(&r);
    }
    while (self->nheld) {
        Held held = self->held[--self->nheld];
        Py_DECREF(held.object);
    }
    return 0;
}

static void
tree_dealloc(PyObject *object)
{
    Tree *self = (Tree *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    tree_clear(object);
    PyMem_Free(self->records);
    PyMem_Free(self->words);
    PyMem_Free(self->always);
    PyMem_Free(self->held);
    PyMem_Free(self->tensors);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef tree_methods[] = {
    {"guard", tree_guard, METH_VARARGS,
     PyDoc_STR(
         "guard(object, names=None): a dict, a list or a set has to keep what is in it, a cell its "
         "value, "
         "a function its code and its defaults, any other object its class and its dict; with "
         "names: a dict or a class what it has of these.")},
    {"tensor", tree_tensor, METH_O,
     PyDoc_STR("tensor(tensor): it has to keep its dtype, sizes and strides.  Its elements are an "
               "input.")},
    {"changed", tree_changed_method, METH_NOARGS,
     PyDoc_STR(
         "The number of the first part that is not as it was, guards before tensors, or None.")},
    {NULL},
};

static PyType_Slot tree_slots[] = {
    {Py_tp_doc, (void *)tree_doc},
    {Py_tp_new, tree_new},
    {Py_tp_traverse, tree_traverse},
    {Py_tp_clear, tree_clear},
    {Py_tp_dealloc, tree_dealloc},
    {Py_tp_methods, tree_methods},
    {0, NULL},
};

static PyType_Spec tree_spec = {
    .name = "dlc._C.Tree",
    .basicsize = sizeof(Tree),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = tree_slots,
};

PyTypeObject *
tree_register(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &tree_spec, NULL);
    if (type && PyModule_AddType(module, (PyTypeObject *)type) < 0) {
        Py_CLEAR(type);
    }
    return (PyTypeObject *)type;
}
