/* The extension module's state. */
#ifndef DLC_MODULE_H
#define DLC_MODULE_H

#include "capture.h"

typedef struct {
    PyTypeObject *callable_type, *tree_type;
    bool counted;               /* among the modules that there are */
} ModuleState;

/* Of torch, once torch_init has run: the exact types of tensors that are taken; the function that
 * says whether inference mode is on; the globals of forward mode; UntypedStorage._free_weak_ref.
 * What a call has at hand is tensors and not a module, and torch, which they are of, is one for the
 * process: a module that is imported once more knows it too, and takes nothing away when it
 * goes. */
typedef struct {
    PyTypeObject *tensor_type, *parameter_type;
    PyObject *is_inference_mode, *forward_ad, *level_name, *unpack_name;
    PyObject *free_hold;
} TorchKnown;

/* borrowed */
ModuleState *module_state(PyObject *module);
extern TorchKnown torch_known;

#endif
