/* The values that a dlc.jit function reads apart from its arguments: plain values, compared at each
 * call. */
#include "jit.h"

/* new: NULL where the name has no value (any more), then maybe with an exception */
static PyObject *
value_now(const Watched *w)
{
    if (PyCell_Check(w->holder)) {
        return PyCell_Get(w->holder);
    }
    if (PyDict_CheckExact(w->holder)) {
        return Py_XNewRef(PyDict_GetItemWithError(w->holder, w->name));
    }
    return PyObject_GetAttr(w->holder, w->name);
}

static int
refuse(const Watched *w, const char *function)
{
    PyErr_Clear();
    PyErr_Format(PyExc_RuntimeError,
                 "%s() reads '%U', which has another value than when it was "
                 "compiled: pass it as an argument, or use dlc.jit(fn, constants=True) to keep the "
                 "value it had",
                 function, w->name);
    return -1;
}

int
watch_check(const WatchList *list, const Signature *signature)
{
    for (int k = 0; k < list->n; k++) {
        Watched w = list->all[k]; /* the list may grow meanwhile */
        PyObject *now = value_now(&w);
        int same = now == w.value ? 1 : now ? same_constant(now, w.value) : 0;
        Py_XDECREF(now);
        if (same <= 0) {
            return refuse(&w, signature_name(signature));
        }
    }
    return 0;
}

int
watch_add(WatchList *list, PyObject *name, PyObject *holder)
{
    Watched w = {name, holder, NULL};
    if (!PyUnicode_Check(name)) {
        PyErr_SetString(PyExc_TypeError, "a name is text");
        return -1;
    }
    w.value = value_now(&w);
    Watched *more = w.value ? PyMem_Realloc(list->all, ((size_t)list->n + 1) * sizeof *more) : NULL;
    if (!more) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_RuntimeError, "'%U' cannot be watched", name);
        }
        Py_XDECREF(w.value);
        return -1;
    }
    list->all = more;
    more[list->n++] = (Watched){Py_NewRef(name), Py_NewRef(holder), w.value};
    return 0;
}

int
watch_traverse(const WatchList *list, visitproc visit, void *arg)
{
    for (int k = 0; k < list->n; k++) {
        Py_VISIT(list->all[k].holder);
        Py_VISIT(list->all[k].value);
    }
    return 0;
}

void
watch_clear(WatchList *list)
{
    while (list->n) {
        Watched w = list->all[--list->n];
        Py_DECREF(w.name);
        Py_DECREF(w.holder);
        Py_DECREF(w.value);
    }
    PyMem_Free(list->all);
    *list = (WatchList){0};
}
