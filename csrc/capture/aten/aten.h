/* Builders: each translates one aten overload into the IR.  No Python below this line: walk.c has
 * read the node.
 *
 * A builder gets the overload's arguments in the order of its schema, defaults filled in, and the
 * types of its results in the graph.  It returns the value of result 0 (and writes the others to
 * res), or NULL to decline: then the node becomes a `call` of the eager overload.  So it may
 * decline at any point, whenever it is not certain: the lets already built are then dead. A result
 * whose shape differs from the graph's, or a builder that fails, is a decline too. */
#ifndef DLC_ATEN_H
#define DLC_ATEN_H

#include "capture/products.h"
#include "ir/ir.h"

typedef enum {
    ARG_NONE,
    ARG_BOOL,
    ARG_INT,          /* i */
    ARG_FLOAT,                  /* f */
    ARG_COMPLEX,                /* f + im i */
    ARG_DIM,                    /* d: an integer known as a size */
    ARG_NUMBER,                 /* v: a float known at run time, a scalar f64 */
    ARG_TENSOR,                 /* v */
    ARG_LIST,                   /* items[n] */
    ARG_DTYPE,                  /* dtype */
    ARG_TEXT,                   /* text */
    ARG_INPUT, /* i: an input of the graph, an object that is among its results alone */
    ARG_OTHER, /* a device, a layout, a generator, ... */
} ArgKind;

typedef struct Arg {
    ArgKind kind;
    Dtype dtype;
    int n;
    Dim d;
    int64_t i;
    double f, im;
    Value *v;
    const char *text;
    const struct Arg *items;
} Arg;

/* How torch's kernels for this processor pack weights of 4 bits: so many rows side by side, 0: it
 * is not known; two of a byte are adjacent rows, or the high halves are the second half of them. */
typedef struct {
    int rows;
    bool adjacent;
} Packing;

/* The node that is translated, with all that a builder may read. */
typedef struct Aten {
    Build *b;
    Cx *cx;
    Op op; /* of the row, OP_COUNT without one */
    int axes; /* of the row: how many of the last axes are meant, 0 where it does not say */
    const Arg *args;
    int nargs;
    Dtype number; /* of a floating number among the arguments: torch's default dtype */
    bool fills_empty; /* does torch.empty fill the tensors it makes? */
    Products products; /* which products are computed here */
    bool images; /* do images have their channels innermost, where the graph's do not say? */
    bool prepared; /* is an operand a weight whose panels are made once? */
    Packing packing;
    const Type *type; /* of result 0 */
    const Type **types; /* of each result; NULL where the graph has None */
    const Dim *const *strides; /* ... as eager has them, NULL: dense rows; NULL: not known */
    int nres;
    Value **res;
    const char *refusal; /* why the node should not run in eager either; only from torch.def */
} Aten;

typedef Value *(*AtenBuilder)(Aten *n);

typedef struct {
    const char *overload;
    AtenBuilder build;
    Op op;
    int axes;
    bool product; /* a product: the builder is not asked under PRODUCTS_LIBRARY */
} AtenRow;

/* ---- aten.c: the table, arguments ---- */

extern const AtenRow aten_rows[];
extern const int aten_nrows;
const AtenRow *aten_find(const char *overload); /* NULL when there is none */
/* Runs a row's builder and holds its results to the types of the graph: another dtype is cast,
 * another shape is a decline (false), as is any tensor of a dtype without arithmetic. */
bool aten_build(Aten *n, const AtenRow *row);
Value *aten_run(Aten *n, const AtenRow *row); /* its first half, and the work of the builder */
bool aten_hold(Aten *n); /* its second half */

const Arg *arg_at(const Aten *n, int k); /* NONE past the end */
/* The argument as a tensor; the builder declines where it is a number, a size or None. */
Value *arg_tensor(const Aten *n, int k);
bool arg_true(const Arg *a); /* a bool, or a number as one; None is false */
bool arg_dim(const Aten *n, const Arg *a, Dim *out); /* an int or a size */
double arg_float(const Arg *a, double otherwise); /* int or float; otherwise when None */
bool arg_is_number(const Arg *a); /* a constant: bool, int or float */
bool arg_is_float(const Arg *a); /* a tensor of floating-point numbers */
/* Is the value known to have exactly these sizes?  Used where eager refuses others. */
bool has_sizes(const Aten *n, const Value *v, const Dim *dims);
/* May the value have exactly these sizes? False only where another size is certain. */
bool may_have_sizes(const Aten *n, const Value *v, const Dim *dims);
/* Axis numbers, negative ones counted from the end; false when out of range. */
bool arg_axis(const Arg *a, int rank, int *axis);
/* The axes of an int, a list, or all of them for None and the empty list; false: out of range. */
bool arg_axes(const Arg *a, int rank, int *n, int *axes);

/* ---- aten_elementwise.c: promotion, broadcasting, elementwise ops ---- */

/* The argument as an operand of type t: tensors, sizes and run-time numbers cast and broadcast,
 * constants as they are.  NULL when it is none of these or the dtype cannot hold the constant. */
Value *operand(Aten *n, const Arg *a, const Type *t);
/* The same in the dtype for arithmetic in several steps, and in the shape of result 0. */
Value *wide_operand(Aten *n, int k);
Dtype wide(Dtype dtype); /* f32 for f16 and bf16, else itself */
bool is_half(Dtype dtype); /* f16, bf16 */
/* The dtype in which arguments first .. last are compared, as torch.result_type computes it. */
Dtype promoted(const Aten *n, int first, int last);
Value *to_bool(Aten *n, Value *v); /* v != 0 */
Value *number(Aten *n, double f); /* a constant operand */
Value *map1(Aten *n, Op op, Value *a);
Value *map2(Aten *n, Op op, Value *a, Value *b);
Value *map3(Aten *n, Op op, Value *a, Value *b, Value *c);
/* Evaluates a polynomial by Horner's rule; `c` begins with the coefficient of the highest power. */
Value *polynomial(Aten *n, Value *x, const double *c, int count);

/* One op of the node's first arguments, promoted by its dtype rule; NULL to decline. */
Value *each(Aten *n, Op op);

/* ---- narrow/aten_float8.c ---- */

/* Is a number that is too large for float8_e4m3fn NaN, as before torch 2.13?  Else it becomes the
 * largest one.  Written when torch is first met, under the interpreter's lock. */
extern bool float8_overflows;
/* The value in another dtype, also to and from 8-bit floats, of which `cast` has none. */
Value *in_dtype(Aten *n, Value *v, Dtype to);

/* ---- aten_arith.c: sums with a factor, quotients, powers ---- */

double rounded(Dtype dtype, double f); /* to f16 or bf16; else as it is */
/* A step of a formula in the wide dtype that eager rounds to the dtype of the result. */
Value *rounded_step(Aten *n, Value *v);
/* div_trunc or div_floor of operands of f16 or bf16. */
Value *half_quotient(Aten *n, Op op, Value *a, Value *b);

/* ---- aten_reduce.c ---- */

/* Is it not known that there is an element along the axes? */
bool may_be_empty(Aten *n, const Type *t, int naxes, const int *axes);
/* How many elements are along the axes, less `less` and at least 0: a constant or a scalar. */
Value *count_of(Aten *n, const Type *t, int naxes, const int *axes, int64_t less, Dtype dtype);
Value *mean_of(Aten *n, Value *v, int naxes, const int *axes); /* the axes go */
/* The dtype for means and squares of a tensor's elements along the axes: wide, and f64 for f32
 * where the rows are known to be long. */
Dtype statistics_dtype(Aten *n, const Type *t, int naxes, const int *axes);
/* Repeats a reduction's result, axes gone, along the axes of t again. */
Value *spread(Aten *n, Value *v, const Type *t, int naxes, const int *axes);
/* v op s, where s is a result of count_of. */
Value *scaled(Aten *n, Op op, Value *v, Value *s);

/* ---- aten_view.c ---- */

Dim zero(const Aten *n);
Dim one(const Aten *n);
/* x[.., start + k * step, ..] for k < length; fails if it is not known to be inside x. */
Value *part(Aten *n, Value *x, int axis, Dim start, Dim step, Dim length);
/* An index as eager reads it: negative ones count from the end.  false: its sign is not known. */
bool from_start(const Aten *n, Dim index, Dim size, Dim *out);
/* The start of a slice: argument k, None for 0, cut to 0 .. size.  false: it is not an integer. */
bool slice_start(const Aten *n, int k, Dim size, Dim *start);
/* The length of the slice, from its start to argument k (None: to size), in steps. */
bool slice_extent(const Aten *n, int k, Dim size, Dim start, int64_t step, Dim *length);

/* ---- aten_gather.c ---- */

/* The position along an axis, an i64 tensor of the shape of t. */
Value *position(Aten *n, const Type *t, int axis);
/* The index, i64 and checked to be one of 0 .. size-1, or as `wrap` (of a gather) says. */
Value *checked(Aten *n, Value *index, Dim size, int wrap);
/* An i64 0 where a truth value is false, else a fault of the kind. */
Value *fault_where(Aten *n, Value *wrong, int kind);
/* v, which raises an error if the truth value of its element, or that of all elements, is true. */
Value *raising_where(Aten *n, Value *v, Value *wrong, int kind);
/* For a source that is written to a part of x: makes both raise an error if the size of the source
 * along the axis is not the wanted one, unless the sizes are known to be equal. */
void raise_unless_size(Aten *n, Value **x, Value **src, int axis, Dim wanted);
/* at * size + next: the row-major position with one more axis; NULL starts one. */
Value *row_major(Aten *n, Value *at, Dim size, Value *next);
/* Elements of x by their positions in `count` axes from `first` on, which are known to be in
 * range. */
Value *gather_merged(Aten *n, Value *x, int first, int count, Value *at);

/* Brings axes from .. from+count-1 to `to`; the others keep their order. */
Value *move_axes(Aten *n, Value *v, int from, int count, int to);

bool is_index(const Arg *a); /* a tensor of i32 or i64 */
bool is_index64(const Arg *a); /* of i64, where eager takes no other */
/* x, argument 0, with v at the list of indices that is argument 1; NULL: not a list of indices. */
Value *put_at(Aten *n, Value *v, bool adds);

/* ---- aten_group.c ---- */

/* Argument 0 normalised over groups of its channels; results 1 and 2, where the node has them, are
 * means and reciprocal deviations. */
Value *group_norm(Aten *n, const Arg *groups, const Arg *weight, const Arg *bias, const Arg *eps);

/* ---- aten_scatter.c ---- */

/* (x, dim, index): x combined with src at an index for each element; op: a reduction, or
 * OP_store. */
Value *scatter_elements(Aten *n, Op op, const Arg *src);

/* ---- aten_adaptive.c ---- */

/* The mean over windows of different sizes, as many as the result has. */
Value *uneven_avg_pool(Aten *n);
Value *uneven_avg_pool_backward(Aten *n); /* its gradient; argument 0 is the gradient of the
                                           * result */

/* ---- aten_make.c ---- */

enum { MAX_LITERALS = 32 };
/* A tensor of these numbers, row by row, of at least one and at most MAX_LITERALS. */
Value *literals(Build *b, const Type *t, int count, const Literal *numbers);

/* ---- aten_complex.c ---- */

/* Runs a row's builder or, if an operand or the result is complex, the form for complex numbers. */
Value *complex_build(Aten *n, const AtenRow *row);

/* ---- the builders of the table ---- */

#define ATEN(overload, builder) Value *aten_##builder(Aten *n);
#define WITH(overload, builder, op) Value *aten_##builder(Aten *n);
#define OVER(overload, builder, axes) Value *aten_##builder(Aten *n);
#define PRODUCT(overload, builder) Value *aten_##builder(Aten *n);
#define EACH(overload, op)
#include "aten.def"
Value *aten_each(Aten *n);

#endif
