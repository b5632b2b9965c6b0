/* The state of a tensor, by which a call notices that the tensor has changed.
 *
 * A state is the tensor's implementation, its storage, the storage's memory, its version counter
 * and its layout. Addresses are compared, so none may become another object's: the storage is held
 * by a weak reference, which keeps its address and not its memory, and a weak reference to the
 * tensor reports when it is freed.
 *
 * The word of a tensor that is its version counter is found by comparing tensors with the values
 * that torch reports. If that fails, or if a tensor has no counter (inference mode), the tensor has
 * no state. */

#include "tensor_state.h"

#include <stdatomic.h>
#include <string.h>

#include "capture/module.h"
#include "torch_abi.h"

enum {
    WORDS = 22,                 /* of a TensorImpl */
    COUNTER_COUNTED = 16,       /* bytes of a counter before its number */
    CLONES = 16,                /* that are compared */
};

static int counter_at; /* the word of a TensorImpl that is its counter of versions; 0: unknown */

static const void *
counter_of(PyObject *tensor)
{
    return counter_at ? ((const void **)pytensor_implementation(tensor))[counter_at] : NULL;
}

static uint32_t
number_of(const void *counter)
{
    const _Atomic uint32_t *number = (const void *)((const char *)counter + COUNTER_COUNTED);
    return atomic_load_explicit(number, memory_order_acquire);
}

static bool
lies_so(const PlanTensor *a, const PlanParam *b)
{
    bool same = a->data == b->of.data && a->rank == b->rank;
    for (int ax = 0; same && ax < a->rank; ax++) {
        same = a->sizes[ax] == b->sizes[ax] && a->strides[ax] == b->strides[ax];
    }
    return same;
}

static void
keep_lies(PlanTensor *to, const PlanParam *from)
{
    to->data = from->of.data;
    to->rank = from->rank;
    memcpy(to->sizes, from->sizes, (size_t)from->rank * sizeof *to->sizes);
    memcpy(to->strides, from->strides, (size_t)from->rank * sizeof *to->strides);
}

bool
state_holds(const TensorState *state, const PlanParam *in)
{
    PyObject *tensor = in->of.object;
    const char *implementation = pytensor_implementation(tensor);
    return state->implementation == implementation && state->storage == storage_address(tensor) &&
           state->counter == counter_of(tensor) && number_of(state->counter) == state->version &&
           lies_so(&state->lies, in);
}

void
state_drop(TensorState *state)
{
    PyObject *type, *value, *traceback, *done = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    state->tensor = NULL;
    Py_CLEAR(state->weak);
    if (state->storage_hold) { /* without free_hold the process is ending */
        PyObject *free_hold = torch_known.free_hold;
        done = free_hold ? PyObject_CallOneArg(free_hold, state->storage_hold) : NULL;
        Py_CLEAR(state->storage_hold);
        Py_XDECREF(done);
        PyErr_Clear();
    }
    PyErr_Restore(type, value, traceback);
}

bool
state_take(TensorState *state, const PlanParam *in, PyObject *died)
{
    PyObject *tensor = in->of.object;
    *state = (TensorState){.tensor = tensor,
                           .implementation = pytensor_implementation(tensor),
                           .storage = storage_address(tensor),
                           .counter = counter_of(tensor)};
    if (!state->storage || !state->counter) {
        return false;
    }
    state->version = number_of(state->counter);
    keep_lies(&state->lies, in);
    PyObject *storage = PyObject_CallMethod(tensor, "untyped_storage", NULL);
    state->storage_hold = storage ? PyObject_CallMethod(storage, "_weak_ref", NULL) : NULL;
    state->weak = state->storage_hold ? PyWeakref_NewRef(tensor, died) : NULL;
    Py_XDECREF(storage);
    if (!state->weak) {
        PyErr_Clear();
        state_drop(state);
        return false;
    }
    return true;
}

/* ---- where torch keeps the counter ---- */

/* The words, as bits, that a tensor shares with a detached one but not with a clone, other than its
 * storage. */
static uint32_t
shared_words(PyObject *sample, PyObject *detached, PyObject *clone)
{
    void **a = (void **)pytensor_implementation(sample),
         **b = (void **)pytensor_implementation(detached);
    void **c = (void **)pytensor_implementation(clone);
    uint32_t found = 0;
    for (int at = 1; at < WORDS; at++) {
        bool shared = a[at] && a[at] == b[at] && a[at] != c[at] && a[at] != storage_address(sample);
        found |= (uint32_t)shared << at;
    }
    return found;
}

/* The one word that is shared like this for all clones; 0: there is none, or there are several.
 * The bytes between a tensor's members are not initialised: they differ in one clone or another, so
 * one clone is not enough. */
static int
find_counter(PyObject *sample, PyObject *detached, PyObject *clones)
{
    uint32_t words = UINT32_MAX;
    for (int k = 0; k < CLONES; k++) {
        PyObject *clone = PyObject_CallMethod(detached, "clone", NULL);
        if (!clone || PyList_Append(clones, clone) < 0) {
            Py_XDECREF(clone);
            return 0;
        }
        Py_DECREF(clone);
        words &= shared_words(sample, detached, clone);
    }
    return words && !(words & (words - 1)) ? __builtin_ctz(words) : 0;
}

/* Does a write to the tensor increase its version counter? */
static bool
counts(PyObject *clone)
{
    uint32_t before = number_of(counter_of(clone));
    PyObject *version = PyObject_GetAttrString(clone, "_version");
    bool same = version && PyLong_AsLong(version) == (long)before;
    PyObject *written = same ? PyObject_CallMethod(clone, "zero_", NULL) : NULL;
    bool counted = written && number_of(counter_of(clone)) == before + 1;
    Py_XDECREF(version);
    Py_XDECREF(written);
    return counted;
}

void
state_init(PyObject *sample)
{
    if (counter_at) {
        return;
    }
    PyObject *detached = PyObject_CallMethod(sample, "detach", NULL), *clones = PyList_New(0);
    PyObject *storage = detached ? PyObject_CallMethod(detached, "untyped_storage", NULL) : NULL;
    PyObject *free_hold = storage ? PyObject_GetAttrString((PyObject *)Py_TYPE(storage),
                                                           "_free_weak_ref")
                                  : NULL;
    Py_XSETREF(torch_known.free_hold, free_hold);
    if (free_hold && clones && storage_address(sample)) {
        counter_at = find_counter(sample, detached, clones);
        counter_at = counter_at && counts(PyList_GET_ITEM(clones, 0)) ? counter_at : 0;
    }
    Py_XDECREF(detached);
    Py_XDECREF(clones);
    Py_XDECREF(storage);
    PyErr_Clear();
    if (!counter_at) {
        torch_abi_lacks("the place of a tensor's version",
                        "what is made of frozen parameters is made anew in each call");
    }
}
