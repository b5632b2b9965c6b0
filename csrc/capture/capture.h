/* Capture: the Python boundary.  FX graphs in, tensors in and out, the callable.  The only folder
 * that includes Python.h, NumPy or knows torch.
 *
 * Ownership words on prototypes, as in CPython's documents: "new" a reference the caller owns,
 * "borrowed" one it does not, "steals" one it gives away.  Functions that return PyObject * or int
 * set an exception and return NULL or -1 on failure. */
#ifndef DLC_CAPTURE_H
#define DLC_CAPTURE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "capture/products.h"
#include "codegen/codegen.h"
#include "fusion/fusion.h"
#include "ir/ir.h"

/* ---- walk.c, walk_*.c, sympy.c, aten_*.c: an FX graph of aten overloads to the IR ---- */

/* How a placeholder of the FX graph reaches the plan. */
typedef struct {
    enum { INPUT_TENSOR, INPUT_SIZE, INPUT_SCALAR, INPUT_UNUSED } kind;
    int index; /* TENSOR, SCALAR: the function's parameter; SIZE: position in fn->sizes */
    bool lazy; /* TENSOR: one that is negated or conjugated when it is read is meant */
} InputSpec;

/* An output of the graph. */
typedef struct {
    enum { OUTPUT_TENSOR, OUTPUT_INT, OUTPUT_BOOL, OUTPUT_FLOAT, OUTPUT_OBJECT, OUTPUT_INPUT } kind;
    int index; /* the function's result (OBJECT: none; INPUT: the graph's input itself) */
    PyObject *object; /* OBJECT: None or a constant of the graph; owned */
} OutputSpec;

/* The Python side of a call let. args and kwargs are templates: a Slot object (see callable.c) is
 * in the place of each operand or dim, at any depth of tuples, lists and dicts. */
typedef struct {
    PyObject *target; /* an OpOverload or another callable; owned */
    PyObject *function; /* the function that a call runs: the builtin of an OpOverload; NULL before;
                         * owned */
    PyObject *args, *kwargs; /* owned; kwargs may be NULL */
    /* see host_product.c */
    enum { PRODUCT_NONE, PRODUCT_MM, PRODUCT_ADDMM, PRODUCT_LINEAR } product;
    bool recorded; /* called as while gradients are recorded: see callable.c */
    char *node, *source; /* for messages; PyMem memory */
    int nresults; /* results of the let: those tensors of the overload's that exist */
    int *positions; /* of each in the tuple or list it returns; -1: the value itself; PyMem */
    Dtype *dtypes; /* of each; PyMem */
} CallSite;

typedef struct Recipe Recipe; /* how a value is computed from tensors, see prepared.c */

/* A parameter of the plan after those of the function: a value that is computed from some of
 * them. */
typedef struct {
    Recipe *recipe; /* a reference */
    Dtype dtype;
    int *params, nparams; /* positions among the function's; PyMem */
    struct Made *last; /* the value that the last call read; a reference, or NULL */
} PreparedInput;

typedef struct {
    Fn *fn; /* in the arena of its cx */
    InputSpec *inputs;
    OutputSpec *outputs;
    CallSite *sites;
    PreparedInput *prepared; /* PyMem */
    int ninputs, noutputs, nsites, nprepared;
    bool recorded; /* autograd has seen the call already: no argument has a tangent of its own */
} Captured;

typedef struct {
    bool direct; /* gm is of Python functions, as Dynamo gives it, with meta['example_value'] */
    bool inference; /* nothing is recorded for autograd: results may be made in any layout */
    Products products; /* which products are computed here, not by the eager operators */
    PyObject *weights; /* under PRODUCTS_AUTO also those by these inputs: positions; list or NULL */
    bool short_weights; /* and if these are f16 or bf16, which become codes */
    /* a function or NULL: what calls get instead of a GraphModule that is an attribute of gm */
    PyObject *bodies;
} WalkOptions;

/* Translates an aten-level graph.  gm: a torch.fx.GraphModule whose nodes carry meta['val'].  new:
 * fill *out, which captured_clear releases.  -1 with an exception: Python's own, or dlc's
 * CaptureError with the operator, the reason and the user's line for a graph that cannot be
 * taken. */
int walk_graph(Cx *cx, PyObject *gm, const WalkOptions *options, Captured *out);
/* The option products.  -1 with a ValueError. */
int products_from_text(const char *text, Products *out);
void captured_clear(Captured *captured);
/* _C.walk(graph_module) -> text, _C.overloads() -> list, _C.functions() -> list */
int walk_register(PyObject *module);
/* Slot objects of templates: new; kind 'a' operand, 'd' dim, 'b' a dim as a bool, 'f' a scalar
 * operand given as a float. */
PyObject *slot_new(char kind, int index);
bool slot_check(PyObject *object, char *kind, int *index);

/* ---- compile.c: dlc._C.compile, from a graph to a Callable ---- */

int compile_register(PyObject *module);
/* The option tier.  -1 with a ValueError. */
int compile_mode(const char *tier, CompileOptions *options);

/* ---- joint.c, joint_split.c: dlc._C.partition, training's joint graph cut in two ---- */

int joint_register(PyObject *module);

/* ---- callable.c, host.c: what torch calls ---- */

PyTypeObject *callable_register(PyObject *module); /* new */

/* ---- module.c: what every file needs of Python ---- */

/* new: [item(of, 0), .., item(of, n - 1)]; NULL as soon as one is. */
PyObject *list_made(int n, PyObject *(*item)(const void *of, int k), const void *of);
/* PlanHost's functions for Python objects, to be called with the GIL. */
void object_retain(void *arg, void *object);
void object_release(void *arg, void *object);

/* ---- tensor.c: torch tensors as the plan sees them ---- */

/* Was torch_init() called?  Nothing below works before. */
bool pytensor_ready(void);
/* Is it exactly a torch.Tensor or a torch.nn.Parameter? */
bool pytensor_check(PyObject *object);
/* The fields of its c10::TensorImpl, and how many bytes these have: the last are its dispatch keys.
 * Versions of torch differ in it. */
enum { MOST_FIELDS = 184 };
char *pytensor_implementation(PyObject *tensor);
size_t pytensor_fields(void);
uint64_t pytensor_keys(PyObject *tensor);
/* Is it negated or conjugated when it is read? */
bool pytensor_is_lazy(PyObject *tensor);
/* Is a level of forward mode open?  Tensors have tangents only there. */
bool pytensor_forward_mode(void);
/* 1: it has a tangent, 0: it has none, -1: an exception. */
int pytensor_has_tangent(PyObject *tensor);
/* 1: eager refuses to write to it, a tensor of inference mode outside of that; 0: it does not; -1:
 * an exception. */
int pytensor_is_frozen(PyObject *tensor);
/* The tensor (stolen) with its elements in its memory: another one where it is lazy.  NULL: an
 * exception. */
PyObject *pytensor_resolve(PyObject *tensor);
/* Data pointer, sizes and strides; the object is the tensor, borrowed.  -1 when its dtype is not
 * the one given, it has more than MAX_RANK axes, or it is not in the memory of the CPU: no
 * exception set. */
int pytensor_read(PyObject *tensor, Dtype dtype, PlanTensor *out);
/* The same; its sizes and strides stay in torch's memory, and are valid until the tensor is
 * resized. */
int pytensor_param(PyObject *tensor, Dtype dtype, PlanParam *out);
/* new: a fresh tensor of out's sizes and strides; fills object and data. */
int pytensor_empty(Dtype dtype, PlanTensor *out);
/* The same, in memory that storage.c does not keep, for tensors that live long. */
int pytensor_unpooled(Dtype dtype, PlanTensor *out);
/* new: out's sizes and strides over the storage of base, a tensor, `offset` elements after its
 * first one. */
int pytensor_view(PyObject *base, int64_t offset, PlanTensor *out);
/* The same as a view known to torch, for views that the caller gets of its own tensors: it shares
 * the version counter, by which autograd notices writes to saved tensors. */
int pytensor_alias(PyObject *base, int64_t offset, PlanTensor *out);
int pytensor_copy(PyObject *to, PyObject *from);
/* Switches recording for autograd off or on for this thread; returns how it was. */
bool pytensor_grad_mode(bool on);
int pytensor_register(PyObject *module);

/* ---- storage.c: memory of large results, used again ---- */

/* Finds where torch keeps storages and their counts of references; where it cannot, nothing is
 * kept. */
void storage_init(PyObject *sample);
/* new: an owned handle of a tensor of t's sizes and strides, with nothing in it. */
int32_t storage_new(Dtype dtype, const PlanTensor *t, void **made);
int32_t storage_unpooled(Dtype dtype, const PlanTensor *t, void **made); /* in memory of its own */
/* The address of the tensor's StorageImpl; NULL: it is not known where torch keeps it. */
const void *storage_address(PyObject *tensor);
/* The tensor's memory is not kept when nobody has it any more. */
void storage_forget(PyObject *tensor);
/* ... is kept only until a result wants memory of another size. */
void storage_spare(PyObject *tensor);
/* Frees kept storages that no tensor uses, and forgets the others. */
void storage_release(void);

/* ---- range.c: ranges of torch.profiler, for the plan's host ---- */

bool range_wanted(void);
void *range_begin(const char *name, int n, void *const *objects);
void range_end(void *range);

/* ---- prepared.c: values made of frozen parameters, kept from call to call ---- */

/* Finds where torch keeps the counters of versions (tensor_state.c). */
void state_init(PyObject *sample);
int prepared_register(PyObject *module); /* _C.thaw */
/* new: the recipe with this text, or NULL without an exception. */
Recipe *recipe_find(const char *text);
/* new: steals the plan, which makes one result of its parameters.  NULL: there is no memory, and
 * nothing was stolen. */
Recipe *recipe_new(const char *text, Plan *plan);
void recipe_unref(Recipe *recipe);
/* Runs a recipe of one tensor that makes a scalar f64; leaves *out as it is if the tensor is not
 * the one that was compiled for. */
void recipe_number(const Recipe *recipe, PyObject *tensor, Dtype dtype, double *out);
void prepared_clear(PreparedInput *inputs, int n);
void prepared_forget_all(void);

/* ---- jit.c, jit_*.c: dlc.jit, a function as an operator ---- */

int jit_register(PyObject *module);
PyTypeObject *tree_register(PyObject *module); /* new */

/* ---- artifact.c, artifact_read.c: graphs as parts that can be written down ---- */

/* The result of walk_graph, read from a dict of parts in the form of _C.parts, with "text": the
 * program. -1 with an exception; fails in cx for a program that does not parse or breaks a rule. */
int artifact_read(Cx *cx, PyObject *parts, Captured *out);
/* new: the dict that _C.parts() gives */
PyObject *artifact_parts(const Captured *captured);
int artifact_register(PyObject *module);

/* ---- cache_module.c: the disk cache from Python ---- */

int cache_register(PyObject *module);

/* ---- import_module.c: kernels from one cache to another ---- */

int import_register(PyObject *module);

/* ---- shrink_module.c: smaller programs that still fail ---- */

int shrink_register(PyObject *module);
/* ---- kernel.c: dlc.kernel's notation ---- */

int kernel_register(PyObject *module);

/* ---- export_module.c ---- */

int export_register(PyObject *module);

/* ---- predict.c ---- */

int predict_register(PyObject *module); /* _C.speeds, _C.predict */

/* ---- normals.c ---- */

int normals_register(PyObject *module); /* _C.fill_normals */

/* ---- onnx/onnx_module.c: dlc._C.onnx, a graph of ONNX as a program ---- */

int onnx_register(PyObject *module);

/* ---- onnx_out/out_module.c: dlc._C.onnx_graph, a program as a graph of ONNX ---- */

int onnx_out_register(PyObject *module);

/* ---- ndarray.c: dlc.ir functions on NumPy arrays ---- */

int ndarray_register(PyObject *module);

/* ---- module.c ---- */

/* The interpreter's lock is left and taken again; state is a PyThreadState ** that both are
 * given. */
void interpreter_leave(void *state);
/* PlanHost's: -1 where a handler of a signal has raised, Ctrl-C for one. */
int interpreter_signals(void *arg);
void interpreter_enter(void *state);

/* A thread that waits for a compile without the interpreter's lock. */
typedef struct {
    PyThreadState *thread;
    /* by an interrupt that ended the waiting: type, value, traceback; or NULL */
    PyObject *raised[3];
} Wait;

void wait_begin(Wait *wait, CcOptions *cc); /* the compiles of cc are waited for so from now on */
bool wait_raise(Wait *wait); /* raises the exception of an interrupt; false: there is none */

/* Raises the error in cx_diag as the Python exception of its kind, with the user's line. */
void raise_diag(const Diag *diag);
/* Raises the exception for what a plan reports, but for FAULT_LAYOUT, which is no error yet. */
void raise_fault(int fault, const char *node, const char *source);
/* borrowed; set at import */
extern PyObject *dlc_CaptureError, *dlc_InternalError, *dlc_ParseError;

#endif
