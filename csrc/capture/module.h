/* The extension module's state. */
#ifndef DLC_MODULE_H
#define DLC_MODULE_H

#include "capture.h"

typedef struct {
    PyTypeObject *callable_type, *tree_type;
    /* Of torch, once torch_init has run: the exact types of tensors that are taken; the function
     * that says whether inference mode is on; the globals of forward mode;
     * UntypedStorage._free_weak_ref. */
    PyTypeObject *tensor_type, *parameter_type;
    PyObject *is_inference_mode, *forward_ad, *level_name, *unpack_name;
    PyObject *free_hold;
} ModuleState;

/* borrowed */
ModuleState *module_state(PyObject *module);
/* The state of the module that was imported last.  What a call has at hand is tensors and not the
 * module, and torch, which they are of, is one for the process. */
extern ModuleState *module_imported;

#endif
