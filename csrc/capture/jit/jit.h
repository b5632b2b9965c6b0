/* dlc.jit's own structures, shared by jit*.c.
 *
 * A Jit is a Python function with its compiled variants.  A call reads its arguments once, into
 * Taken records, and runs the first variant that was compiled for such arguments: of these
 * kinds, dtypes and ranks, in this state of torch, with sizes that the variant's guards allow. */
#ifndef DLC_JIT_H
#define DLC_JIT_H

#include "callable.h"

/* ---- jit_args.c: what a call was given ---- */

typedef enum {
    TAKE_TENSOR,                /* a dense torch tensor on the CPU */
    TAKE_ARRAY,                 /* a NumPy array that can be read where it is */
    TAKE_COPY,                  /* one that cannot: byte-swapped, strides of parts of elements, of
                                 * an unsigned dtype that the language has not */
    TAKE_FLOAT,
    TAKE_CONSTANT,              /* None, a bool, an int, text, a dtype and such, tuples of them */
    TAKE_OBJECT,                /* anything else, where it may be a constant: that very object */
    TAKE_GENERATOR,             /* a numpy.random.Generator, to be drawn from: any such object */
} TakeKind;

/* One argument. `signature` is equal for arguments that one variant may serve: its kind and, for
 * tensors and arrays, the dtype, the rank and whether a gradient is needed. */
typedef struct {
    uint32_t signature;
    PyObject *object;           /* borrowed */
    double number;              /* FLOAT */
    PlanTensor tensor;          /* TENSOR, ARRAY */
} Taken;

/* Flags: the tensor needs a gradient; the array stands for a NumPy scalar. */
enum { TAKEN_GRAD = 1 << 30, TAKEN_SCALAR = 1 << 29 };

static inline TakeKind
taken_kind(uint32_t signature)
{
    return (TakeKind)(signature & 15);
}

/* What came of reading an argument. */
enum {
    TAKING_RAISED = -1, /* an exception is set */
    TAKING_DONE,
    TAKING_REFUSED,     /* it cannot be taken; no exception is set */
    TAKING_TRANSFORMED, /* it belongs to a transform */
    TAKING_NUMPY_FLOAT, /* it is a float of NumPy's, for numpy_plain */
};

/* Reads an argument; `plain` is a tuple of the types of constants.  TAKING_REFUSED: *why describes
 * the argument. */
int take_argument(PyObject *object, PyObject *plain, Taken *out, const char **why);
/* Are both the same value of the same type, also inside tuples? -1 with an exception. */
int same_constant(PyObject *a, PyObject *b);
/* torch's default dtype and its automatic casts, on which a capture also depends. */
uint32_t torch_state(void);
/* Is a mode on that sees or replaces torch's operators (a trace, a count, a default device)? */
bool torch_watches(void);
extern PyMethodDef jit_args_methods[];                  /* jit_init */

/* ---- jit_bind.c: arguments and parameters ---- */

typedef struct {
    PyObject *fn;               /* named in errors */
    PyObject *names;            /* tuple of the parameters' names */
    PyObject **defaults;        /* by parameter, NULL: none; owned; PyMem */
    int nparams, npositional;   /* the rest are keywords */
    PyObject *plain;            /* tuple of the types of constants */
    PyObject *traced;           /* tuple of the types of tensors that another trace gives */
    bool objects;               /* may arguments be any object? */
} Signature;

/* defaults: a dict by name.  The rest is the caller's to fill in; signature_clear in any case. */
int signature_init(Signature *signature, PyObject *names, int npositional, PyObject *defaults);
int signature_traverse(const Signature *signature, visitproc visit, void *arg);
void signature_clear(Signature *signature);
const char *signature_name(const Signature *signature);
/* Writes the arguments to `bound` in the order of the parameters, as borrowed references. */
int signature_bind(const Signature *signature, PyObject *const *args, Py_ssize_t nargs,
                   PyObject *kwnames, PyObject **bound);
/* TAKING_DONE; TAKING_REFUSED: the call is for the function itself, as part of a trace or a
 * transform; TAKING_NUMPY_FLOAT: an argument is one; TAKING_RAISED. */
int signature_take(const Signature *signature, PyObject *const *bound, Taken *taken);

/* ---- jit_watch.c: what the function reads besides ---- */

/* A name that the function reads, and its value when the function was compiled. */
typedef struct {
    PyObject *name;             /* owned */
    PyObject *holder;           /* a dict, a cell, or a class whose attribute it is; owned */
    PyObject *value;            /* owned */
} Watched;

typedef struct {
    int n;
    Watched *all;               /* PyMem */
} WatchList;

int watch_add(WatchList *list, PyObject *name, PyObject *holder);
/* -1 with an exception when one has another value. */
int watch_check(const WatchList *list, const Signature *signature);
int watch_traverse(const WatchList *list, visitproc visit, void *arg);
void watch_clear(WatchList *list);

/* ---- jit_module.c, jit_tree.c: what a module reads, and whether it is still that ---- */

typedef struct Tree Tree;       /* an object of Python */

enum { TREE_GRAD = 1 << 24 };   /* beside the bits of torch_state */

/* Reads the tensors anew; false: something is not as it was. */
bool tree_holds(Tree *tree);
/* TREE_GRAD, if gradients are recorded and one of its tensors requires one; after tree_holds. */
uint32_t tree_state(const Tree *tree);
/* Returns the number of the module's tensors, and lends them to the caller. */
int tree_tensors(const Tree *tree, const PlanTensor **tensors);

/* ---- jit_guard.c: sizes, and what must be true of them ---- */

/* A size or stride that the capture named: where it is read, and the values that are allowed. */
typedef struct {
    int argument, axis;
    bool stride;
    int place;                  /* among the sizes of the function, -1: none */
    int64_t low, high;
} JitSymbol;

typedef struct {
    int nsymbols, ncode;
    JitSymbol *symbols;         /* PyMem */
    int64_t *code;              /* PyMem; stack code, see jit_guard.c */
} JitGuard;

enum { JIT_STACK = 64 };

/* Reads [(name, argument, "size" or "stride", axis, low, high or None), ..] and a guard program,
 * a list of ints, names and operations; size_names: of the callable.  -1 with an exception;
 * jit_guard_clear in any case. */
int jit_guard_read(PyObject *symbols, PyObject *program, PyObject *size_names, int narguments,
                   JitGuard *out);
void jit_guard_clear(JitGuard *guard);
/* Fills sizes, by place; values has room for nsymbols. */
bool jit_guard_holds(const JitGuard *guard, const Taken *args, int64_t *values, int64_t *sizes);

/* ---- jit_overlap.c: memory that arguments share ---- */

/* May an element of one be in the memory of an element of the other?  False is certain. */
bool tensors_overlap(const PlanTensor *a, Dtype dtype_a, const PlanTensor *b, Dtype dtype_b);
/* May two of its elements be in the same memory?  False is certain. */
bool tensor_overlaps_itself(const PlanTensor *t);

/* ---- jit_variant.c: one compiled form ---- */

/* One item of what the function returns, and where its value comes from. */
typedef struct {
    enum { LEAF_RESULT, LEAF_SCALAR, LEAF_ARGUMENT, LEAF_OBJECT } kind;
    int index;                  /* RESULT, SCALAR (NumPy's): of the graph's outputs; ARGUMENT: or
                                 * behind them a tensor of the tree */
    PyObject *object;           /* OBJECT: owned */
} JitLeaf;

/* An argument that the function writes to. */
typedef struct {
    int argument;
    PyObject *text;             /* a callable, whose text says so in errors; owned */
} JitWrite;

typedef struct {
    int refs;                   /* guarded by the interpreter lock */
    const Signature *signature;     /* of the Jit, which a call holds */
    uint32_t state, *signatures;    /* PyMem */
    int narguments;
    PyObject *through;          /* a callable that runs such calls; then the rest is empty */
    PyObject **constants;       /* by argument: the value compiled for, or NULL; PyMem */
    Callable *callable;
    /* by argument, then by tensor of the tree: the function's parameter, or -1; PyMem */
    int *param_of;
    const Tree *tree;           /* borrowed; NULL: of a function.  A call compares it, no more */
    int ntree;                  /* its tensors */
    JitGuard guard;
    JitLeaf *leaves;            /* PyMem */
    int nleaves;
    JitWrite *writes;           /* PyMem */
    int nwrites;
    enum { RETURN_ONE, RETURN_TUPLE, RETURN_TREE } shape;
    PyObject *unflatten;        /* TREE: called with the list of leaves */
    bool arrays;                /* NumPy arrays in and out */
} Variant;

/* new: from the keywords of Jit.add; NULL with an exception.  tree: of a module, or NULL. */
Variant *variant_new(const Taken *args, const Signature *signature, const Tree *tree,
                     PyTypeObject *callable_type, PyObject *spec);
void variant_unref(Variant *variant);
int variant_traverse(const Variant *variant, visitproc visit, void *arg);
/* 1 or 0; -1 with an exception.  Says nothing of sizes. */
int variant_matches(const Variant *variant, uint32_t state, const Tree *tree, const Taken *args);
/* new: the result; *fits false (and NULL without an exception): not with these sizes or strides. */
PyObject *variant_run(const Variant *variant, const Taken *args, bool *fits);

/* ---- jit_numpy.c: arrays; nothing here is called before numpy_check has seen one ---- */

bool numpy_check(PyObject *object);
/* 0: read, out->tensor filled; 1: not of a dtype of torch's; 2: to be given as tensors, or copied
 * first.  The dtype is behind DTYPE_COUNT where the language has none. */
int numpy_read(PyObject *array, Taken *out, Dtype *dtype);
/* Is it a scalar of NumPy's with a dtype of floats? */
bool numpy_is_float(PyObject *object);
bool numpy_is_writeable(PyObject *array);
/* Does the array stand for a scalar of NumPy's?  Functions do not write to these. */
bool numpy_is_scalar(PyObject *array);
/* Is the object a numpy.random.Generator? */
bool numpy_is_generator(PyObject *object);
/* new: a float of NumPy's as the float of Python's that it is beside tensors, else as an array of
 * no axes that is read-only, which promotes as it does; any other object as it is. */
PyObject *numpy_plain(PyObject *object, bool tensors);
/* Have two scalars of one type of NumPy's the same bits?  -1: they are none. */
int numpy_same(PyObject *a, PyObject *b);
/* new: the scalar of NumPy's that an array of no axes holds; takes the reference.  NULL stays
 * NULL. */
PyObject *numpy_scalar(PyObject *array);
extern const PlanHost numpy_host; /* makes arrays; arg is filled in for each call */


#endif
