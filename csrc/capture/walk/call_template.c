/* Slot: the placeholder for an operand or a size in a call's argument template. */
#include "capture/capture.h"

typedef struct {
    PyObject_HEAD char kind;
    int index;
} Slot;

static PyObject *
slot_repr(PyObject *self)
{
    const Slot *slot = (Slot *)self;
    const char *mark = slot->kind == 'd' ? "%" : slot->kind == 'f' ? "float $" : "$";
    return PyUnicode_FromFormat("%s%d", mark, slot->index);
}

static PyTypeObject Slot_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dlc._C.Slot",
    .tp_doc = "A place in a call's arguments for an operand or a size.",
    .tp_basicsize = sizeof(Slot),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_repr = slot_repr,
};

PyObject *
slot_new(char kind, int index)
{
    if (PyType_Ready(&Slot_Type) < 0) {
        return NULL;
    }
    Slot *slot = PyObject_New(Slot, &Slot_Type);
    if (slot) {
        slot->kind = kind;
        slot->index = index;
    }
    return (PyObject *)slot;
}

bool
slot_check(PyObject *object, char *kind, int *index)
{
    if (!Py_IS_TYPE(object, &Slot_Type)) {
        return false;
    }
    *kind = ((Slot *)object)->kind;
    *index = ((Slot *)object)->index;
    return true;
}
