/* Programs of the language as graphs of ONNX: each let by a row of out.def.  Only out_module.c
 * uses Python: it gives what dlc/files/onnx_out.py writes. */
#ifndef DLC_ONNX_OUT_H
#define DLC_ONNX_OUT_H

#include "ir/ir.h"

typedef struct OutGraph OutGraph;

/* An attribute: a text, an integer, or a list of integers. */
typedef struct {
    const char *name, *text; /* text NULL: no text */
    const int64_t *ints; /* NULL: one integer, i */
    int n;
    int64_t i;
} OutAttr;

typedef struct {
    const char *op;
    int nin, nout, nattrs;
    int *in, *out; /* numbers of values; in: -1 is one that is left out */
    OutAttr attrs[4];
    OutGraph *bodies[2]; /* of If, Loop */
    bool is_read; /* its results are, in the end */
} OutNode;

struct OutGraph {
    OutNode **nodes;
    int n, ninputs, noutputs;
    int *inputs, *outputs;
};

/* A value of the ONNX graph: an input, a constant, or the result of a node. */
typedef struct {
    const char *stem; /* what its name begins with */
    const Type *type;
    const OutGraph *graph; /* NULL: all see it */
    const OutNode *node; /* NULL: an input or a constant */
    int64_t *ints; /* of a constant: its elements, */
    double f; /* or the one that it is */
    bool is_constant, is_read;
} OutValue;

typedef struct Out Out;
typedef struct OutRow OutRow;
typedef void (*OutBuilder)(Out *o);

struct OutRow {
    OutBuilder build; /* NULL: ONNX lacks the operation */
    const char *onnx, *types;
};

extern const OutRow out_rows[OP_COUNT];

/* What an IR value is: the number of the whole tensor, and that of one that is broadcast to it. */
typedef struct {
    int whole, part;
} Place;
/* The number of a size, as a tensor of one element. */
typedef struct {
    Dim d;
    int number;
} SizeAt;

/* A program under translation, and its let. */
struct Out {
    Cx *cx;
    const Fn *top, *fn; /* the program, and the body at hand */
    OutGraph *graph;
    OutValue *values;
    int nvalues;
    int *constants, nconstants; /* numbers */
    Place *places; /* by Value.id of fn */
    SizeAt *sizes;
    int nsizes;
    const Let *let;
    const OutRow *row;
    Text wrong; /* the lets without a counterpart */
    int nwrong;
};

/* ---- out.c: values and nodes ---- */

OutGraph *out_program(Out *o, const Fn *fn); /* fails with all that ONNX lacks */
void out_body(Out *o, const Fn *body); /* its lets, to o->graph; o->fn and o->places are its own */
_Noreturn void out_refuse(Out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
int out_input(Out *o, const char *stem, const Type *t); /* of the graph at hand */
void out_give(Out *o, int number); /* an output of the graph at hand */
OutNode *out_any(Out *o, const char *op, int nin, const int *in, int nout);
int out_new(Out *o, OutNode *node, int k, const Type *t); /* result k of a node */
int out_node(Out *o, const char *op, const Type *t, int nin, const int *in, OutAttr a);
int out1(Out *o, const char *op, const Type *t, int a);
int out2(Out *o, const char *op, const Type *t, int a, int b);
int out3(Out *o, const char *op, const Type *t, int a, int b, int c);
OutAttr out_int(const char *name, int64_t i);
OutAttr out_text(const char *name, const char *text);
OutAttr out_list(Cx *cx, const char *name, int n, const int64_t *ints);
#define NO_ATTR ((OutAttr){0})
int out_scalar(Out *o, Dtype dtype, double f); /* a constant without axes */
int out_whole(Out *o, Dtype dtype, int64_t i);
int out_literal(Out *o, Dtype dtype, Literal l);
int out_ints(Out *o, int n, const int64_t *ints); /* a constant of one axis, i64 */
int out_cast(Out *o, int number, Dtype to);
const Type *out_type(const Out *o, int number);

/* ---- operands and results of the let at hand ---- */

int out_arg(Out *o, int k); /* the whole tensor */
Dtype out_computed(Out *o,
                   Dtype dtype); /* the dtype itself, or the one that the row computes it in */
int out_operand(Out *o, int k, Dtype dtype); /* of a MAP: what is broadcast; in the dtype */
Dtype out_dtype(Out *o); /* of the operands of a MAP, computed */
const Type *out_as(Out *o, Dtype dtype); /* the type of the result, in a dtype */
void out_result(Out *o, int number); /* in whatever dtype */
void out_places(Out *o, int whole, int part);

/* ---- out_size.c: sizes as tensors of integers ---- */

int out_dim(Out *o, Dim d); /* of one element */
int out_dims(Out *o, int n, const Dim *dims);
int out_one(Out *o, Dim d); /* without axes */

/* ---- out_view.c ---- */

int out_reshaped(Out *o, int number, int rank, const Dim *dims);
int out_transposed(Out *o, int number, const int *perm);
/* x with axes of one element at those of `axes`, which count in the result. */
int out_unsqueezed(Out *o, int number, int n, const int64_t *axes);
int out_expanded(Out *o, int number, const Type *t);

/* ---- out_window.c ---- */

bool out_conv(Out *o, const Contraction *c,
              Dtype dtype); /* false: it is no convolution of windows */

/* ---- the builders of the table ---- */

#define ROW(op, builder, onnx, types) void out_##builder(Out *o);
#include "out.def"

#endif
