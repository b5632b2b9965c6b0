/* Capture: the Python boundary.  FX graphs in, tensors in and out, the callable.  The only folder that
 * includes Python.h, NumPy or knows torch.
 *
 * Ownership words on prototypes, as in CPython's documents: "new" a reference the caller owns,
 * "borrowed" one it does not, "steals" one it gives away.  Functions that return PyObject * or int
 * set an exception and return NULL or -1 on failure. */
#ifndef DLC_CAPTURE_H
#define DLC_CAPTURE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../codegen/codegen.h"
#include "../fusion/fusion.h"
#include "../ir/ir.h"

/* ---- walk.c, walk_*.c, sympy.c, aten_*.c: an FX graph of aten overloads to the IR ---- */

/* How a placeholder of the FX graph reaches the plan. */
typedef struct {
    enum { INPUT_TENSOR, INPUT_SIZE, INPUT_SCALAR, INPUT_UNUSED } kind;
    int index;                  /* TENSOR, SCALAR: the function's parameter; SIZE: position in fn->sizes */
} InputSpec;

/* What the graph returns at a position. */
typedef struct {
    enum { OUTPUT_TENSOR, OUTPUT_INT, OUTPUT_FLOAT, OUTPUT_BOOL, OUTPUT_OBJECT } kind;
    int index;                  /* the function's result (OBJECT: none) */
    PyObject *object;           /* OBJECT: None or a constant of the graph; owned */
} OutputSpec;

/* A call let's Python side.  args and kwargs are templates: a Slot object (see callable.c) stands where an
 * operand or a dim goes, at any depth of tuples, lists and dicts. */
typedef struct {
    PyObject *target;           /* an OpOverload or another callable; owned */
    PyObject *args, *kwargs;    /* owned; kwargs may be NULL */
    char *node, *source;        /* for messages; PyMem memory */
    int nresults;               /* results of the let */
    bool is_tuple;              /* the overload returns a tuple or list even when nresults is 1 */
} CallSite;

typedef struct {
    Fn *fn;                     /* in the arena of its cx */
    InputSpec *inputs;
    OutputSpec *outputs;
    CallSite *sites;
    int ninputs, noutputs, nsites;
} Captured;

/* Translates an aten-level graph.  gm: a torch.fx.GraphModule whose nodes carry meta['val'].  new: fill
 * *out, which captured_clear releases.  -1 with an exception: Python's own, or dlc's CaptureError with the
 * operator, the reason and the user's line for a graph that cannot be taken. */
int walk_graph(Cx *cx, PyObject *gm, Captured *out);
void captured_clear(Captured *captured);
/* Slot objects of templates: new; kind 'a' operand, 'd' dim. */
PyObject *slot_new(char kind, int index);
bool slot_check(PyObject *object, char *kind, int *index);

/* ---- callable.c, host.c: what torch calls ---- */

int callable_register(PyObject *module);

/* ---- ndarray.c: dlc.ir functions on NumPy arrays ---- */

int ndarray_register(PyObject *module);

/* ---- module.c ---- */

/* Raises what cx_diag says as the Python exception of its kind, with the user's line. */
void raise_diag(const Diag *diag);
extern PyObject *dlc_CaptureError, *dlc_InternalError, *dlc_ParseError;         /* borrowed; set at import */

#endif
