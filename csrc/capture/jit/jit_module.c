/* Has a module changed since it was compiled?  See Note [A tree]. */
#include "jit_module.h"

#include <string.h>

#include "capture/torch/torch_abi.h"

/* Compares numbers and text by value, everything else by identity. */
static bool
same_value(PyObject *now, PyObject *was)
{
    bool plain = now && was &&
                 (PyFloat_CheckExact(was) || PyLong_CheckExact(was) || PyUnicode_CheckExact(was));
    return now == was || (plain && same_constant(now, was) > 0);
}

static bool
same_entries(const Record *r)
{
    PyObject *key, *value;
    Py_ssize_t at = 0, k = 0;
    if (PyDict_Size(r->object) != r->n) {
        return false;
    }
    while (PyDict_Next(r->object, &at, &key, &value)) {
        if (k >= r->n || key != r->entries[k].key || !same_value(value, r->entries[k].value)) {
            return false;
        }
        k++;
    }
    return k == r->n;
}

static bool
same_names(const Record *r)
{
    for (Py_ssize_t k = 0; k < r->n; k++) {
        if (!same_value(PyDict_GetItemWithError(r->object, r->entries[k].key),
                        r->entries[k].value)) {
            return false;
        }
    }
    return true;
}

static bool
list_holds(const Record *r)
{
    bool same = PyList_GET_SIZE(r->object) == r->n;
    for (Py_ssize_t k = 0; same && k < r->n; k++) {
        same = same_value(PyList_GET_ITEM(r->object, k), r->entries[k].value);
    }
    return same;
}

/* Is it of the class that it had, with the dict that it had? */
static bool
object_holds(const Record *r)
{
    if ((PyObject *)Py_TYPE(r->object) != r->entries[0].value) {
        return false;
    }
    PyObject *dict = r->entries[1].value ? PyObject_GenericGetDict(r->object, NULL) : NULL;
    Py_XDECREF(dict);
    return dict == r->entries[1].value;
}

static bool
cell_holds(const Record *r)
{
    return same_value(PyCell_GET(r->object), r->entries[0].value);
}

/* Are the function's code and defaults those that were recorded? */
static bool
function_holds(const Record *r)
{
    return PyFunction_GET_CODE(r->object) == r->entries[0].value &&
           PyFunction_GET_DEFAULTS(r->object) == r->entries[1].value &&
           PyFunction_GET_KW_DEFAULTS(r->object) == r->entries[2].value;
}

static bool
record_holds(const Record *r)
{
    switch (r->kind) {
    case GUARD_DICT:
        return same_entries(r);
    case GUARD_NAMES:
        return same_names(r);
    case GUARD_LIST:
        return list_holds(r);
    case GUARD_SET:
        return PyObject_RichCompareBool(r->object, r->entries[0].value, Py_EQ) == 1;
    case GUARD_OBJECT:
        return object_holds(r);
    case GUARD_FUNCTION:
        return function_holds(r);
    default:
        return cell_holds(r);
    }
}

bool
held_read(const Held *held, Taken *taken)
{
    const char *why;
    PyObject *no_constants = PyTuple_New(0);
    bool taken_now = no_constants &&
                     take_argument(held->object, no_constants, taken, &why) == TAKING_DONE;
    Py_XDECREF(no_constants);
    return taken_now;
}

static bool
same_layout(const PlanTensor *a, const PlanTensor *b)
{
    size_t bytes = (size_t)a->rank * sizeof *a->sizes;
    return a->rank == b->rank && memcmp(a->sizes, b->sizes, bytes) == 0 &&
           memcmp(a->strides, b->strides, bytes) == 0;
}

void
held_keep(Held *held)
{
    held->implementation = pytensor_implementation(held->object);
    memcpy(held->fields, held->implementation + COUNTED, pytensor_fields() - COUNTED);
}

/* Compares torch's record of the tensor: usually its bytes are the same.  More than five sizes are
 * stored elsewhere. */
static bool
tensor_holds(Held *held, PlanTensor *tensor)
{
    char *implementation = pytensor_implementation(held->object);
    if (implementation == held->implementation && tensor->rank <= 5 &&
        memcmp(implementation + COUNTED, held->fields, pytensor_fields() - COUNTED) == 0) {
        return torch_abi.aoti_torch_get_data_ptr(torch_abi_handle(held->object), &tensor->data) ==
                   0 &&
               (tensor->data || held->empty);
    }
    Taken now = {0};
    if (!held_read(held, &now) || (now.signature | TAKEN_GRAD) != (held->signature | TAKEN_GRAD) ||
        !same_layout(&now.tensor, tensor) || (!now.tensor.data && !held->empty)) {
        return false;
    }
    tensor->data = now.tensor.data;
    held_keep(held);
    return true;
}

int
tree_changed(Tree *tree)
{
    for (int k = 0; k < tree->nwords; k++) {
        Word *word = &tree->words[k];
        if (*word->place != word->was) {
            if (!record_holds(&tree->records[word->record])) {
                PyErr_Clear();
                return word->record;
            }
            word->was = *word->place;
        }
    }
    for (int k = 0; k < tree->nalways; k++) {
        if (!record_holds(&tree->records[tree->always[k]])) {
            PyErr_Clear();
            return tree->always[k];
        }
    }
    for (int k = 0; k < tree->nheld; k++) {
        if (!tensor_holds(&tree->held[k], &tree->tensors[k])) {
            PyErr_Clear();
            return tree->nrecords + k;
        }
    }
    return -1;
}

bool
tree_holds(Tree *tree)
{
    return tree_changed(tree) < 0;
}

uint32_t
tree_state(const Tree *tree)
{
    if (torch_abi.aoti_torch_grad_mode_is_enabled()) {
        for (int k = 0; k < tree->nheld; k++) {
            if (torch_abi.requires_grad(pytensor_implementation(tree->held[k].object))) {
                return TREE_GRAD;
            }
        }
    }
    return 0;
}

int
tree_tensors(const Tree *tree, const PlanTensor **tensors)
{
    *tensors = tree->tensors;
    return tree->nheld;
}

/* Note [A tree]
 *
 * Python walks a module once (dlc/module.py) and hands over every dict, list, cell and object that
 * the module reads, and every tensor.  A call compares all of it with what was there: pointers, no
 * allocation, no Python code.  The tree owns what it compares with, so that no other object comes
 * to lie at an old one's address.
 *
 * Most of that is the dicts of modules: their attributes, parameters, buffers and children.  Up to
 * Python 3.11 each change of a dict gives it a number that no dict had before (PEP 509), so one
 * comparison says that nothing was assigned; only when it differs are the entries looked at, and
 * where these are the same the new number is kept.  Later versions of Python have no such number in
 * their interface: there the entries are compared in each call.
 *
 * Of a tensor, torch's record is compared with its copy, byte by byte: storage, sizes, strides,
 * dtype, dispatch keys.  The bytes differ without a reason to compile again (a gradient that is
 * wanted now): then it is read as an argument is. */
