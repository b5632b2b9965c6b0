/* ONNX graphs as programs of the language: each node by a row of onnx.def, over the builders of
 * aten.def.  Only onnx_module.c uses Python: it reads what dlc/files/onnx.py has read. */
#ifndef DLC_ONNX_H
#define DLC_ONNX_H

#include "capture/aten/aten.h"

typedef struct OnnxGraph OnnxGraph;

/* An attribute of a node.  One number or text is also a list of one. */
typedef struct {
    const char *name;
    enum { ONNX_INTS, ONNX_FLOATS, ONNX_TEXT, ONNX_TEXTS, ONNX_GRAPH } kind;
    int n;
    const int64_t *ints;
    const double *floats;
    const char *text;
    const char *const *texts;
    const OnnxGraph *graph;
} OnnxAttr;

typedef struct {
    const char *op, *domain, *name;
    int version; /* of the domain's operators */
    int ninputs, noutputs, nattrs;
    const int *inputs, *outputs; /* numbers of values, -1: left out */
    const OnnxAttr *attrs;
} OnnxNode;

/* The nodes of the model, or of a body of If, Loop or Scan. */
struct OnnxGraph {
    int ninputs, noutputs, nnodes;
    const int *inputs, *outputs; /* numbers of values */
    const OnnxNode *nodes;
};

/* One element of a small tensor whose values are known: a size, or a float; of a bool 0 or 1. */
typedef struct {
    enum { ELEMENT_UNKNOWN, ELEMENT_DIM, ELEMENT_FLOAT } kind;
    Dim d;
    double f;
} Element;

enum { MAX_SHOWN = 20 }; /* nodes that an error names */
enum { MAX_KNOWN = 4096 }; /* elements of a tensor whose values may be looked at */

typedef struct {
    int n;
    Element *elements;
} Known;

typedef struct Onnx Onnx;
typedef struct OnnxRow OnnxRow;
typedef void (*OnnxBuilder)(Onnx *o);

struct OnnxRow {
    const char *op;
    int since; /* the version of the operators that it is of, and those after it */
    OnnxBuilder build;
    const char *overload; /* of aten.def, for the builders of many rows */
    Op way; /* of a reduction or a comparison, else OP_COUNT */
};

extern const OnnxRow onnx_rows[];
extern const int onnx_nrows;
/* The newest row that is not newer than the node's version; NULL: there is none. */
const OnnxRow *onnx_find(const OnnxNode *node);

/* A graph under translation, and its node. */
struct Onnx {
    Cx *cx;
    Fn *fn;
    Build *b;
    Value **values; /* by number; NULL: there is none yet, or its node failed */
    const char **names; /* ... of each, for messages */
    int nvalues;
    Known **contents; /* of parameters, by their position; NULL: not known */
    int ncontents;
    struct Knowledge *knowledge; /* of onnx_known.c */
    const bool *is_input; /* by number: of the model */
    int *kinds; /* by number: ONNX's number of the element type, 0: not known */
    const OnnxNode *node;
    const OnnxRow *row;
    Value **in, **out; /* of the node; NULL: left out */
    Text *wrong; /* the nodes that are not translated, each with its reason */
    int *nwrong;
    int *nunknown; /* how often onnx_not_known was called */
    int *nsteps; /* of loops that are written out */
    int *nbound; /* sizes that are known in a call alone */
    bool images; /* do images have their channels innermost? */
};

/* ---- onnx.c: one node ---- */

void onnx_build(Onnx *o, const OnnxNode *node, const OnnxRow *row);
/* The node cannot be translated: why. */
_Noreturn void onnx_refuse(Onnx *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
Value *onnx_in(Onnx *o, int k); /* refuses a node without it */
Value *onnx_given(const Onnx *o, int k); /* NULL: left out */
int onnx_axis(Onnx *o, int64_t axis, int rank); /* negative ones from the end; refuses others */
int64_t onnx_int(const Onnx *o, const char *name, int64_t otherwise);
double onnx_float(const Onnx *o, const char *name, double otherwise);
const char *onnx_text(const Onnx *o, const char *name, const char *otherwise);
const OnnxAttr *onnx_attr(const Onnx *o, const char *name); /* NULL: there is none */
bool onnx_is_text(const Onnx *o, const char *name, const char *text, const char *otherwise);
/* The axes of input k or, without it, of the attribute, sorted; 0: neither is there. */
int onnx_axes(Onnx *o, int k, const char *name, int rank, int *axes);
/* Of ONNX's enumeration: that in which such numbers are computed; refuses what dlc lacks. */
Dtype onnx_dtype(Onnx *o, int64_t number);

/* ---- onnx_kinds.c: element types that the language computes in others ---- */

/* That in which arrays of a kind are given; DTYPE_COUNT: in its own. */
Dtype onnx_array_dtype(int kind);
/* An array as the numbers that it holds, and back. */
Value *onnx_from_array(Onnx *o, Value *v, int kind);
Value *onnx_to_array(Onnx *o, Value *v, int kind);
Value *onnx_wrapped(Onnx *o, Value *v, int kind); /* cut to the bits of the kind */
int onnx_kind(const Onnx *o, int k); /* of input k, 0: not known */
/* The bounds of a kind of whole numbers of at most 16 bits; false: it is another. */
bool onnx_bounds(int kind, double *low, double *high);
bool onnx_is_u64(const Onnx *o, int k); /* is input k of 64 bits without a sign, held as i64? */
/* Such numbers in an order that i64 has too, and back. */
Value *onnx_ordered(Onnx *o, Value *v);
Value *onnx_u64_quotient(Onnx *o, Value *a, Value *b, bool rest);
Value *onnx_u64_real(Onnx *o, Value *v, Dtype to);
Value *onnx_converted(Onnx *o, Value *v, Dtype to); /* also to and from floats of 8 bits */
/* A float as one of 8 bits, as the attributes saturate and round_mode say. */
Value *onnx_to_float8(Onnx *o, Value *v, Dtype to);

/* An overload of aten.def with a result of this type; refuses what its builder declines. */
Value *onnx_aten(Onnx *o, const char *overload, const Type *t, int nargs, const Arg *args);
/* The same; NULL where its builder declines. */
Value *onnx_aten_or_none(Onnx *o, const char *overload, const Type *t, int nargs, const Arg *args);
/* The same with several results. */
void onnx_aten_all(Onnx *o, const char *overload, int nres, const Type **types, Value **res,
                   int nargs, const Arg *args);
Arg arg_v(Value *v); /* NULL: None */
Arg arg_i(int64_t i);
Arg arg_f(double f);
Arg arg_ints(Onnx *o, int n, const int64_t *ints);
#define ARGS(...) \
    (int)(sizeof((const Arg[]){__VA_ARGS__}) / sizeof(Arg)), (const Arg[]) { __VA_ARGS__ }

/* The shape of values that are broadcast, in a dtype. */
const Type *onnx_broadcast(Onnx *o, Dtype dtype, int n, Value *const *values);
/* A type like t with another size along an axis. */
const Type *onnx_resized(Onnx *o, const Type *t, int axis, Dim size, Dtype dtype);
/* A matrix: the axes before `axis` are its rows. */
Value *onnx_flat(Onnx *o, Value *x, int axis);
Value *onnx_map(Onnx *o, Op op, Value *a, Value *b); /* broadcast; b may be NULL or a constant */
Value *onnx_add(Onnx *o, Value *a, Value *b);
Value *onnx_mul(Onnx *o, Value *a, Value *b);
Value *onnx_map3(Onnx *o, Op op, Value *a, Value *b, Value *c);
Value *onnx_number(Onnx *o, double f); /* a constant operand */

/* ---- onnx_graph.c: the nodes of a graph; bodies ---- */

/* Builds the nodes; those that fail are added to o->wrong, and what reads them is left out. */
void onnx_nodes(Onnx *o, const OnnxGraph *g);
/* How many convolutions the graph and its bodies have: onnx_window.c. */
int onnx_convolutions(const OnnxGraph *g);
const OnnxGraph *onnx_graph(Onnx *o, const char *name); /* an attribute; refuses a node without */

/* A body under construction: a function of its own.  Its parameters come in this order: those that
 * onnx_body_param makes, then one for each value around it that its nodes read. */
typedef struct {
    Onnx outer; /* what is built on after it */
    Value **values;
    int nstays;
    Value **stays; /* the values around it, in the outer function */
} OnnxBody;

void onnx_body_open(Onnx *o, OnnxBody *body);
Value *onnx_body_param(Onnx *o, const char *name, const Type *t);
/* A value around the body, as one in it. */
Value *onnx_body_stay(Onnx *o, OnnxBody *body, Value *v);
/* Translates the graph inside; false: a node failed.  Its outputs are written to rets. */
bool onnx_body_nodes(Onnx *o, OnnxBody *body, const OnnxGraph *g, Value **rets);
/* Ends the body, and gives its function. */
Fn *onnx_body_close(Onnx *o, OnnxBody *body, int nrets, Value *const *rets);
/* One number that is not 0, as a scalar bool. */
Value *onnx_truth(Onnx *o, Value *v);
/* A loop of so many steps over carried values and rows, then what stays. */
typedef struct {
    int carries, rows;
    Dim steps; /* DIM_NONE: `go` says, and then the first result of the body */
    Value *go;
} OnnxLoop;
Let *onnx_loop(Onnx *o, const OnnxLoop *loop, Fn *body, int nargs, Value *const *args);
/* The first `count` rows of a tensor, where count is a scalar i64: a size that is known in a call.
 * The sizes of several such parts of one count are one size. */
void onnx_first_rows(Onnx *o, Value *count, int n, Value *const *rows, Value **out);

/* ---- onnx_known.c: what values are, as far as sizes decide them ---- */

void onnx_know_param(Onnx *o, const Value *param, const Known *content);
/* NULL: not known, or too many. */
const Known *onnx_known(Onnx *o, Value *v);
/* Input k as integers, each a size; refuses what is not known.  n: how many. */
const Dim *onnx_dims(Onnx *o, int k, int *n);
/* The same as numbers. */
const int64_t *onnx_numbers(Onnx *o, int k, int *n);
/* Refuses the node, since its input k has to be known when it is translated: names the graph's
 * input that it is of. */
_Noreturn void onnx_not_known(Onnx *o, int k);
/* Input k as the one size or number that it has; refuses another. */
Dim onnx_one_dim(Onnx *o, int k);
int64_t onnx_one_number(Onnx *o, int k);
/* Is it one known number?  As a literal, integers of 64 bits are exact. */
bool onnx_constant(Onnx *o, Value *v, double *f);
bool onnx_literal(Onnx *o, Value *v, Literal *l);
/* An i64 tensor of one axis. */
Value *onnx_of_dims(Onnx *o, int n, const Dim *dims);

/* ---- of the operators' files ---- */

/* The least or greatest number of a type. */
Literal onnx_furthest(Dtype dtype, bool low);
/* Each sequence of a batch the other way round, up to its length. */
Value *onnx_reversed(Onnx *o, Value *x, Value *lengths, int time, int batch);
/* An axis to another place; the others keep their order. */
Value *onnx_moved(Onnx *o, Value *v, int from, int to);
/* MatMul. */
Value *onnx_product(Onnx *o, Value *a, Value *b);
/* (x - mean) / sqrt(variance + epsilon) over axes, in f32 at least; mean and its reciprocal
 * deviation with axes of one element. */
Value *onnx_normalised(Onnx *o, Value *x, int n, const int *axes, double eps, Value **mean,
                       Value **rstd);
/* Formulas, onnx_resize.c.  Of numbers, a number: both operands may be constants. */
Value *onnx_pair_of(Onnx *o, Op op, Value *a, Value *b);
Value *onnx_plus(Onnx *o, Value *a, double f);
Value *onnx_times(Onnx *o, Value *a, double f);
Value *onnx_size_number(Onnx *o, Dim d, Dtype dtype);
/* The nearest place within an axis, as an index; is a place outside of it? */
Value *onnx_inside(Onnx *o, Value *at, Dim size);
Value *onnx_is_outside(Onnx *o, Value *at, Dim size);
/* The elements of x [N, C, size] at the places [N, points] of its axes, in row-major order; 0 where
 * `outside` holds. */
Value *onnx_elements_at(Onnx *o, Value *x, Value *at, Value *outside);
/* Where a list of truth values holds, i64, as many as there are: a size that a call finds. */
Value *onnx_where_true(Onnx *o, Value *is);

/* ---- the builders of the table ---- */

#define ROW(op, since, builder, overload, way) void onnx_##builder(Onnx *o);
#include "onnx.def"

#endif
