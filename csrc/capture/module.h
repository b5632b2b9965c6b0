/* The extension module's state. */
#ifndef DLC_MODULE_H
#define DLC_MODULE_H

#include "capture.h"

typedef struct {
    PyTypeObject *callable_type, *tree_type;
} ModuleState;

/* borrowed */
ModuleState *module_state(PyObject *module);

#endif
