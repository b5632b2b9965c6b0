/* The walk over an FX graph, shared by walk*.c and sympy.c.
 *
 * The whole walk runs inside one cx_try(): a Python exception, a refusal and a failure of the IR
 * all end it by fail(), so no function returns an error.  Every new reference therefore goes
 * through own(), whose pool is released at the end of each node and of the walk. */
#ifndef DLC_WALK_H
#define DLC_WALK_H

#include "capture/capture.h"

#include "capture/torch/torch.h"

/* Attribute names of torch's and sympy's objects, interned once. */
#define WALK_NAMES(X) \
    X(__module__) \
    X(__name__) X(_cdata) X(_expr) X(_hint) X(_name) X(_schema) X(alias_info) X(all_input_nodes) \
        X(args) X(arguments) X(before_set) X(bound_sympy) X(custom) X(default_value) X(device) \
            X(divisible) \
            X(dlc_in_place) X(dlc_known) X(dlc_order) X(dtype) X(example_value) X(expr) \
            X(fwd_source_fn_stack) X(get) X(graph) X(guards) X(is_Float) \
                X(_base) X(inplace) X(is_Integer) X(is_Rational) X(is_Symbol) X(is_conj) \
                X(is_inference) \
                X(is_integer) X(is_neg) \
                    X(is_write) X(item) X(kwargs) X(layout) X(lower) X(meta) X(name) X(node) \
                        X(nodes) X(op) X(requires_grad) X(returns) X(shape_env) X(size) \
                            X(stack_trace) X(stride) X(tags) X(target) X(type) \
                                X(unbacked_bindings) X(untyped_storage) X(upper) X(users) X(val) \
                                    X(var_to_range)

/* The Python objects that the walk uses; made at the first walk, for the life of the process. */
typedef struct {
#define X(name) PyObject *name;
    struct { WALK_NAMES(X) } name;
#undef X
    PyObject *Tensor, *TensorBase, *Node, *SymInt, *SymFloat, *SymBool, *OpOverload, *GraphModule;
    PyObject *torch_dtype, *float32, *strided, *seeded, *pointwise, *aten, *assert_scalar, *whole,
        *size_functions, *resolve_conj, *resolve_neg, *detach, *drawn;
    PyObject *getitem, *setitem, *item_getter, *clone, *contiguous, *is_alias_of;
    PyObject *set_grad_enabled, *is_grad_enabled, *get_default_dtype, *is_deterministic,
        *fills_empty, *cpu_capability;
    PyObject *enter_autocast, *exit_autocast, *log_api_usage;
    PyObject *dtypes;           /* torch.dtype -> Dtype */
    PyObject *overloads;        /* OpOverload -> capsule of an Overload */
    PyObject *functions;        /* function, or name of a method -> row of torch.def */
} WalkPython;

extern WalkPython py;

/* Facts about an overload, found once for the process. */
typedef struct {
    const AtenRow *row;         /* NULL: no builder */
    char *name;                 /* "aten.add.Tensor" */
    int nargs;
    PyObject **names;           /* of the arguments */
    Arg *defaults;              /* no lists, no tensors: ARG_OTHER if it is not simple */
    int alias;                  /* the argument whose storage the results share, or -1 */
    bool maybe_alias;           /* ... or do not: the fake tensors know */
    bool writes;                /* to an argument */
    bool silent;                /* returns nothing */
    bool random;
} Overload;

/* Has a node eager's strides on axes of one element?
 *   EAGER    yes, and so has the fake tensor
 *   OTHER    yes, but the fake tensor has others
 *   UNKNOWN  it has the fake tensor's, which may be wrong: it is a view of what is OTHER, or is
 *            made of it */
typedef enum { ONES_EAGER, ONES_OTHER, ONES_UNKNOWN } Ones;

/* A call that does the work of a node without writing to an argument; borrowed.  NULL: the node's
 * own. */
typedef struct { PyObject *target, *args, *kwargs; } Twin;

/* What the walk knows about a node of the graph. */
typedef struct {
    Arg arg;                    /* LIST: several results, NONE where one is None */
    PyObject *node, *val;       /* borrowed from the graph; val may be NULL */
    const Overload *overload;   /* of a call_function node; NULL: not an overload */
    const TorchRow *torch;      /* of a function or method in torch.def, else NULL */
    Twin twin;                  /* the call that replaces the node's, if it is not the target */
    bool writes;                /* ... that writes its result to its first argument */
    const Dim *strides;         /* of a tensor, as meta['val'] has them; NULL: dense row-major */
    int root;                   /* the node whose storage it is */
    int storage;                /* the same; or that of its lazily negated or conjugated source */
    int same;                   /* the node that it wrote to and returned, or -1 */
    int version, versions;      /* of its storage: when its value was made; a root: now */
    int result;                 /* of the function, -1: none yet */
    int param;                  /* placeholder: the parameter, else -1 */
    bool shared;                /* several outputs share its storage */
    bool shown;                 /* an output is this view of another dtype, or a view of it: eager
                                 * makes it, so that it shares the storage */
    bool written;      /* a placeholder that is written to: by a copy_, or as direct_write.c says */
    bool constant;              /* an attribute of the graph */
    bool pure;                  /* a builder made it, without a call: it draws no random numbers */
    bool displaced;             /* eager's has another layout, or may: see eager_check */
    Ones ones;
} Bound;

/* The requirements of a call on an operand's memory, from the least to the most. */
typedef enum {
    LAYOUT_ROWS,    /* elements of rows or of columns side by side, if eager's operand is in rows */
    LAYOUT_INNER,   /* elements of rows side by side */
    LAYOUT_LIKE,    /* eager's order of axes: the result has it, its elements need only rows */
    LAYOUT_ORDER,   /* eager's order of axes: with another the operator is as right, but slower */
    LAYOUT_DRAWN,   /* eager's order of axes: random numbers are drawn in it */
    LAYOUT_VERY,    /* eager's strides */
} Layout;

/* An operand of a call, the strides that its node has (NULL: row-major), and the requirement of the
 * call. */
typedef struct { const Value *v; const Dim *strides; Layout needed; } Taken;

/* A node of n results that has eager's strides on axes of one element, unlike its fake tensor: the
 * order of the first result's axes.  See result_layout.c. */
typedef struct { Bound *at; int n, rank, perm[MAX_RANK]; } Restrided;

typedef struct Walk {
    Cx *cx;
    Fn *fn;
    Build *b;
    PyObject *gm, *bodies;      /* bodies: see walk_graph */
    bool inference;             /* see WalkOptions */
    Products products;          /* see WalkOptions */
    PyObject *weights;          /* see WalkOptions */
    bool short_weights;         /* see WalkOptions */
    bool direct;            /* Dynamo's graph of Python functions, not AOTAutograd's of overloads */
    Dtype number;               /* torch's default dtype */
    bool fills_empty;           /* does torch.empty fill the tensors it makes? */
    bool inner;                 /* the graph is the body of a loop or a branch in another one */
    bool joint;                 /* a joint graph, see joint.c: its outputs are left out */
    Captured *out;
    PyObject **pool;            /* owned references */
    int npool, room_pool;
    PyObject **objects;         /* that call sites hold and a text cannot tell apart; borrowed */
    int nobjects;
    PyObject *index;            /* node -> position in bound */
    PyObject *dims, *given;     /* sympy expression -> Dim; the same before torch's replacements */
    Bound *bound;
    int nbound, nconvolutions;
    Dim *sizes;                 /* size symbols that parameters or earlier calls bind */
    int nsizes;
    Value **values;             /* of the function's results, with the promises about them */
    Result *promises;
    int nresults;
    struct { const char *name; Value *v; } *floats;     /* symbols whose value is in a tensor */
    int nfloats;
    Value **stored;             /* values that several results share the storage of */
    int nstored;
    Taken *taken;               /* by all calls so far, see operand_layout.c */
    int ntaken;
    bool *aliasing;             /* by call site: the result may share an operand's storage */
    struct { Value *v, *param; } *known;      /* values that parameters hold, see saved_results.c */
    int nknown;
    bool leaves_grad;           /* recording for autograd is not as it was before the graph */
    bool in_inputs;             /* a placeholder is being built: no call can be before it */
    bool wrote;                 /* a copy_ into a parameter has been seen */
    bool displaced;             /* a node is */
    Restrided *restrided;
    int nrestrided;
    const char *place;          /* "aten.add.Tensor: " for messages */
    PyObject *last_trace;       /* the stack trace that last_source came from; borrowed */
    const char *last_source;
} Walk;

/* ---- walk.c ---- */

/* Builds the value of every node. It is called inside walk_try. */
void walk_nodes(Walk *w);
/* Runs the body on w, whose cx, gm and out are set; releases its references.  0, or -1 with an
 * exception. */
int walk_try(Walk *w, void (*body)(Cx *cx, void *walk));

/* ---- walk_python.c: references, attributes, failures ---- */

int walk_python_ready(void);                            /* 0, or -1 with an exception */
PyObject *own(Walk *w, PyObject *fresh);                /* new -> borrowed; NULL: ends the walk */
void pool_release(Walk *w, int mark);
PyObject *attr(Walk *w, PyObject *o, PyObject *name);   /* borrowed from the pool */
PyObject *attr_or_null(Walk *w, PyObject *o, PyObject *name);
bool attr_true(Walk *w, PyObject *o, PyObject *name);
PyObject *call0(Walk *w, PyObject *o, PyObject *method);
const char *utf8(Walk *w, PyObject *text);              /* lives as long as text */
_Noreturn void python_failed(Walk *w);
/* Ends the walk: this graph cannot be taken; the message gets the node's place in front. */
_Noreturn void refuse(Walk *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
const Overload *overload_of(Walk *w, PyObject *target); /* NULL when it is not an OpOverload */
Dtype dtype_of(Walk *w, PyObject *torch_dtype);         /* DTYPE_COUNT when there is none */

/* ---- torch_table.c: torch.def ---- */

/* The table by object.  holders: the modules of t, f, n, o, b and l in torch.def. */
int torch_table_ready(PyObject *const holders[TORCH_HOLDERS]);  /* 0, or -1 with an exception */
const TorchRow *torch_row_of(Walk *w, PyObject *target, bool *writes);  /* NULL: not in the table */
const AtenRow *torch_builder(const TorchRow *row);  /* NULL: it always runs as the eager function */
bool torch_may_call(const TorchRow *row);               /* may it run as the eager function? */
/* The arguments in the order of the row's parameters, defaults filled in; in the arena. */
const Arg *torch_args(Walk *w, const Bound *at, int *n);
bool torch_writes(const Bound *at, const Arg *args);    /* its result goes to its first argument */
int torch_inplace(const TorchRow *row);     /* the position of the parameter `inplace`, or -1 */
void torch_check_call(Walk *w, const Bound *at);        /* refuses arguments no call may have */

/* ---- direct_index.c: x[..] ---- */

/* The items of an index, a node or an object; false: not one of numbers, slices, None and `...`. */
bool index_is_view(Walk *w, PyObject *index);
/* x[index]; shape: the result's dims, NULL when they must follow from the index. */
Value *index_view(Walk *w, Value *x, PyObject *index, const Type *shape);
/* The node as operator.getitem of a tensor by an index with tensors in it, NULL to decline. */
Value *index_gather(Walk *w, Aten *n, PyObject *index);
/* The index of n's first argument as a list of tensors and None; ARG_NONE: it is not one. */
Arg index_list(Walk *w, const Aten *n, PyObject *index);
/* `v` as assigned to a tensor of type t. */
Value *assigned(Walk *w, const Arg *v, const Type *t);

/* ---- direct_write.c: values that the graph itself changes ---- */

/* x, or x[index] unless that is NULL, becomes v, and so do the tensors that share its storage. */
void write_value(Walk *w, Bound *x, PyObject *index, const Arg *v);
void set_item(Walk *w, Bound *at);                      /* operator.setitem(x, index, v) */
/* The node's value again, after a write to its storage. */
void renew(Walk *w, Bound *at);

/* ---- direct_twin.c: calls that write, as calls that do not ---- */

/* Gives a node that writes to its first argument a twin, which computes the written value; false:
 * it has none. */
bool twin_find(Walk *w, Bound *at);

/* ---- saved_results.c: results that are given ---- */

/* Follows reshapes back to the value that v is a reshape of. */
Value *known_base(Value *v);
void known_read(Walk *w, const Bound *at);              /* a node whose builder has run */
void known_replace(Walk *w);                     /* at the end: the program without the known
                                                  * values */

/* ---- direct_mode.c: grad mode, autocast ---- */

bool grad_enabled(Walk *w);                      /* is recording for autograd on? */
bool mode_build(Walk *w, Bound *at, PyObject *target);  /* false: the target changes no mode */
void modes_check(Walk *w);                       /* at the end: refuses a mode that stays changed */

/* ---- sympy.c: symbolic integers and floats ---- */

Dim dim_of(Walk *w, PyObject *integer);                 /* an int or a SymInt */
Dim dim_of_expr(Walk *w, PyObject *expr, PyObject *shape_env);
Dim truth_of(Walk *w, PyObject *sym_bool);              /* 1 or 0 */
Value *number_of(Walk *w, PyObject *sym_float);         /* a scalar f64 */
Value *float_symbol(Walk *w, PyObject *expr);           /* a symbol of sympy, as it is bound */
void float_bind(Walk *w, PyObject *sym_float, Value *v);        /* its symbol, if it is a symbol, is
                                                                 * v */

/* ---- walk_args.c: arguments of nodes ---- */

Bound *bound_of(Walk *w, PyObject *node);               /* with its value as it is now */
Arg arg_of(Walk *w, PyObject *o);                       /* as builders see it */
/* The arguments in the order of the schema, defaults filled in; in the arena. */
const Arg *args_of(Walk *w, const Bound *at, int *n);

/* ---- walk_call.c: calls ---- */

/* The node as a call of its target; res[k] for the types that are not NULL. aliasing: a result may
 * share the storage of an operand. */
void call_build(Walk *w, const Bound *at, bool effect, bool aliasing, int n,
                const Type *const *types, const Dim *const *strides, Value **res);
/* The call sites of a graph that was walked by itself, for w's program, which takes its lets. */
void sites_take(Walk *w, Walk *from);
/* A call of Python that computes the expression of sympy and binds its result as a size. */
Dim whole_build(Walk *w, PyObject *expr, PyObject *shape_env);
/* A call that raises unless the dim, which is 0 or 1, is 1. */
void assert_build(Walk *w, Dim truth, const char *message);
/* A call of `target` on v (unless NULL) and a tuple of other arguments (unless NULL). */
Value *call_on(Walk *w, PyObject *target, Value *v, PyObject *rest, const Type *t,
               const Dim *strides);

/* ---- walk_input.c: placeholders, attributes, and what is known of tensors ---- */

bool is_a(PyObject *o, PyObject *type);                 /* false for NULL */
bool is_lazy(Walk *w, PyObject *val, Dtype dtype);      /* negated or conjugated when it is read? */
const Type *tensor_type(Walk *w, PyObject *val);        /* refuses tensors for which the IR has no
                                                         * type */
const Dim *tensor_strides(Walk *w, PyObject *val, const Type *t);       /* NULL: dense row-major */
Arg constant_arg(PyObject *val);                        /* None, a number, or ARG_OTHER */
bool size_known(const Walk *w, Dim name);
void size_add(Walk *w, Dim name);
void size_bind(Walk *w, Let *call, Dim name);           /* unless it is known, the call binds it */
void need_sizes(Walk *w, const Type *t);                /* refuses sizes that nothing binds */
void need_dim(Walk *w, Dim d);
bool dim_is_known(Walk *w, Dim d);              /* do parameters or earlier calls bind its names? */
void placeholder_build(Walk *w, Bound *at);
void attribute_build(Walk *w, Bound *at);

/* ---- operand_layout.c: how the operands of a call lie in memory ---- */

typedef struct { Layout first, others; } Needs;         /* of the first operand, of all others */
Needs layout_needed(const Walk *w, const Bound *at, bool aliasing);
/* The node's value for a call: with its strides in memory, or in another layout that the call
 * accepts. (The result of a builder of `clone` may have the layout of its operand.) */
Value *laid_out(Walk *w, const Bound *b, Layout needed);
/* The value as a result of the graph: a copy, where a call has taken it as another node has it. */
Value *laid_as_result(Walk *w, const Bound *b);
/* Will v have these strides in memory? */
bool lies_in(Walk *w, const Value *v, const Dim *strides);
bool may_be_written(const Walk *w, const Value *v);     /* by a kernel, in any order of its axes? */
/* A kernel makes the value, and can write it so: where it is in memory, it has these strides from
 * here on.  That is lost if a pass finds that it is another value; then a call gets it in rows, and
 * its results are copied. */
bool written_so(Walk *w, Value *v, const Dim *strides);

/* ---- axis_order.c: orders of axes in memory, outermost first ---- */

/* The stride of an axis of a dense tensor.  torch counts an empty axis as one long, so that for a
 * size which may be 0 it says max(size, 1): the same wherever there is an element. */
typedef struct {
    Dim plain, positive;
} DenseStride;

DenseStride dense_innermost(Walk *w);
DenseStride dense_outside(Walk *w, DenseStride d, Dim size);    /* of the next axis outwards */
/* Does an axis of a tensor with elements have that stride, if it has the stride of d? */
bool is_dense(Walk *w, DenseStride d, Dim stride);

void rows_order(int rank, int *perm);
void channels_last_order(int rank, int *perm);
/* Is a tensor with these strides dense in the order, except for axes of one element? */
bool is_in_order(Walk *w, const Type *t, const Dim *strides, const int *perm);

/* Which place in an order has an axis of one element, whose stride addresses nothing?
 *   BY_INDEX   any will do: from inside outwards, the last axis that fits is taken
 *   BY_STRIDE  one where its stride is dense, inside of a longer axis with the same stride */
typedef enum { ONES_BY_INDEX, ONES_BY_STRIDE } PlaceOfOnes;
/* The order in which a tensor with these strides is dense; false: there is none. */
bool dense_order(Walk *w, const Type *t, const Dim *strides, PlaceOfOnes place, int *perm);

enum { MAX_OPERANDS = 8 };      /* of an elementwise operation */

/* Tensors as one elementwise operation takes them: strides along the axes of its result, 0 where
 * one repeats. */
typedef struct {
    int n;
    bool alike;                 /* each has the sizes of the result, and none is a number */
    Dim strides[MAX_OPERANDS][MAX_RANK];
} Operands;

/* The order of a dense result: as eager sorts axes, by insertion from the last one on, by the first
 * operand that tells two apart.  false: it depends on sizes known at run time. */
bool eager_order(Walk *w, const Type *t, const Operands *of, int *perm);

bool is_image_batch(const Type *t);   /* has it as many axes as a batch of images, or of volumes? */
/* Does torch consider a tensor as images, or volumes, in channels last? 1 yes, 0 no; -1: it depends
 * on sizes known at run time. */
int lies_as_image(Walk *w, const Type *t, const Dim *strides);

/* ---- image_layout.c: convolutions as calls ---- */

bool convolution_is(const Bound *at);                 /* of any number of axes, transposed or not */
/* Does the graph have enough convolutions, and is nothing recorded for autograd, so that images
 * between them are channels last? */
bool images_are_last(const Walk *w);
/* The strides that the result of a call of the node is to have, if it is a convolution that takes
 * its image channels last where eager's is not; else NULL. */
const Dim *images_last(Walk *w, const Bound *at, const Type *made);
/* operand k of such a call, in its layout */
Value *images_operand(Walk *w, const Bound *b, int k);

/* ---- result_layout.c: results of which the fake tensors are wrong ---- */

/* For a node with n results whose axis order in eager differs from the fake tensors': puts the
 * order into meta['dlc_order'] for dlc/layouts.py, once; a node with that entry is accepted.  The
 * walk goes on, to find all such nodes, and is refused at its end; nodes computed from such results
 * are not checked, since their fake tensors will change.  A graph from Dynamo is refused at once.
 * False: the layout in eager depends on sizes known at run time, and no builder may take the
 * node. */
bool eager_check(Walk *w, Bound *at, const AtenRow *row, int n, const Type *const *types,
                 const Dim **strides);
Ones ones_read(Walk *w, const Bound *at);      /* over the tensors that the node reads, the last of
                                                * enum Ones */
bool reads_displaced(Walk *w, const Bound *at);         /* such a result, or one computed from it */
void eager_check_end(Walk *w);

/* ---- walk_node.c: one node ---- */

void node_build(Walk *w, Bound *at);
void function_build(Walk *w, Bound *at, PyObject *target);

/* ---- walk_tensor.c: nodes that make tensors ---- */

void tensors_build(Walk *w, Bound *at);                 /* an overload, or a function in no table */
void torch_build(Walk *w, Bound *at);                   /* a function or method of torch.def */
void index_build(Walk *w, Bound *at, const Bound *from);       /* operator.getitem(tensor, index) */
PyObject *argument(Walk *w, const Bound *at, int k);    /* of the node, by position */
/* The value at the end of a sequence of views. */
Value *view_base(Value *v);

/* ---- walk_scalar.c: numbers that depend on data ---- */

/* x.item(), or an assertion about numbers: builds it; false: the node is another. */
bool scalar_build(Walk *w, Bound *at);

/* ---- walk_flow.c: control flow ---- */

/* torch.cond, while_loop, scan or map as a loop or a branch; false: the node is another, or has to
 * be a call. */
bool flow_build(Walk *w, Bound *at);

/* ---- walk_root.c: whose storage a node is in ---- */

void roots_find(Walk *w);                               /* before the first node is built */
Bound *viewed(Walk *w, const Bound *at);                /* the node that a view is of, or NULL */

/* ---- walk_result.c: what the graph returns ---- */

PyObject *outputs_of(Walk *w, const Bound *output);     /* a tuple */
void results_build(Walk *w, const Bound *output);
void result_into(Walk *w, Bound *copy);                 /* copy_(placeholder, value) */
void inputs_build(Walk *w);                     /* inputs that a graph of Dynamo's has written to */
bool is_alias(const Walk *w, const Value *v);           /* made by a call that may share storage */
/* v, the value of a node whose storage several outputs share, as a value that has storage of its
 * own. */
Value *stored(Walk *w, const Bound *at, Value *v);

#endif
