/* Functions that change a mode of torch and not a value: they are left out where the mode has no
 * effect on a graph without gradients, and refused elsewhere. */
#include "walk.h"

bool
grad_enabled(Walk *w)
{
    return own(w, PyObject_CallNoArgs(py.is_grad_enabled)) == Py_True;
}

/* Switched on inside, gradients begin to matter, unless no input has one. */
static void
set_grad(Walk *w, const Bound *at)
{
    PyObject *value = argument(w, at, 0);
    for (int k = 0; value != Py_False && k < w->nbound; k++) {
        if (is_a(w->bound[k].val, py.Tensor) &&
            attr_true(w, w->bound[k].val, py.name.requires_grad)) {
            refuse(w, "the graph switches gradients on");
        }
    }
    w->leaves_grad = value == (grad_enabled(w) ? Py_False : Py_True);
}

bool
mode_build(Walk *w, Bound *at, PyObject *target)
{
    at->arg = (Arg){.kind = ARG_NONE};
    if (target == py.set_grad_enabled) {
        set_grad(w, at);
        return true;
    }
    if (target == py.enter_autocast) {
        if (argument(w, at, 2) != Py_False) {
            refuse(w, "the graph switches autocast on");
        }
        return true;
    }
    return target == py.exit_autocast || target == py.log_api_usage;
}

void
modes_check(Walk *w)
{
    if (w->leaves_grad) {
        refuse(w, "the graph ends with gradients switched on or off otherwise than it began");
    }
}
