/* Whether a tensor has changed: see tensor_state.c. */
#ifndef DLC_TENSOR_STATE_H
#define DLC_TENSOR_STATE_H

#include "capture/capture.h"

typedef struct {
    PyObject *tensor;           /* borrowed; NULL: it is gone */
    PyObject *weak;             /* owned */
    PyObject *storage_hold; /* owned: a number, to be given to UntypedStorage._free_weak_ref */
    const char *implementation;
    const void *storage, *counter;
    uint32_t version;
    PlanTensor lies; /* data, sizes and strides; no object */
} TensorState;

/* The state of in's object, whose layout `in` has.  False: it cannot be determined; no exception is
 * set, and there is nothing to drop. died: called with the weak reference when the tensor is
 * freed. */
bool state_take(TensorState *state, const PlanParam *in, PyObject *died);
/* Is it the same tensor, unchanged since state_take? */
bool state_holds(const TensorState *state, const PlanParam *in);
/* Releases the references. An exception that is set stays set. */
void state_drop(TensorState *state);

#endif
