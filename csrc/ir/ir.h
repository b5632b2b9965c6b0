/* The language: a let-binding tensor IR with symbolic sizes.
 *
 * A function (Fn) is a list of lets in the order of execution.  A let binds one or more values to
 * an op of ops.def applied to names or constants.  Kernels, loops and reductions are lets with a
 * body. Three stages share this one syntax, see `enum Stage`.  docs/ir.md is the language for its
 * users.
 *
 * Memory: everything here hangs on a Cx (one compile): an arena, intern tables and a cleanup list.
 * fail() unwinds to the one setjmp in cx_try(), so no function returns an error code.
 *
 * Letters, the same everywhere:  cx context   fn function   b builder   v value   t type   d dim
 *                                n count   k position   ax axis   blk block   let let
 */
#ifndef DLC_IR_H
#define DLC_IR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_RANK = 16 };         /* a tensor of more axes is left to the eager operator */

typedef struct Cx Cx;
typedef struct Type Type;
typedef struct Value Value;
typedef struct Let Let;
typedef struct Block Block;
typedef struct Fn Fn;

/* ---- the closed sets ---- */

#ifndef DLC_C128                /* ir/math/prelude.h has it too */
#define DLC_C128
typedef struct { double re, im; } dlc_c128;
#endif

typedef enum {
#define DTYPE(name, storage, bytes, class, compute, torch) DT_##name,
#include "dtype.def"
    DTYPE_COUNT
} Dtype;

typedef enum { CLASS_BOOL, CLASS_INT, CLASS_FLOAT, CLASS_COMPLEX, CLASS_OTHER } DtypeClass;

typedef struct {
    const char *name;
    int bytes;
    DtypeClass class;
    Dtype compute;
    int torch;
} DtypeInfo;

typedef enum {
#define MAP(name, arity, dtype, flags, cost, expr) OP_##name,
#define RED(name, combine, identity, dtype) OP_##name,
#define VIEW(name, attrs, reads) OP_##name,
#define NODE(name, arity, results, attrs, stages, reads, fuses, cost, flags) OP_##name,
#include "ops.def"
    OP_COUNT
} Op;

typedef enum { KIND_MAP, KIND_RED, KIND_VIEW, KIND_NODE } OpKind;
typedef enum {
    RULE_SAME, RULE_NUM, RULE_FLOAT, RULE_INT, RULE_CMP, RULE_BOOL, RULE_PRED, RULE_SEL, RULE_CAST,
    RULE_PART, RULE_PAIR, RULE_BITS, RULE_ACC, RULE_INDEX, RULE_TRUTH, RULE_NONE
} DtypeRule;

/* The kinds of lets that may be in one kernel with a let, see ops.def. */
typedef enum {
    FUSES_FREE, FUSES_ALL, FUSES_REDUCES, FUSES_CUT, FUSES_ORDERED, FUSES_CLOSED, FUSES_EPILOGUE,
    FUSES_NONE
} Fuses;

enum {
    OPF_COMMUTATIVE = 1, OPF_ASSOCIATIVE = 2, OPF_IDEMPOTENT = 4, OPF_TOTAL = 8, OPF_NEAR = 16,
    OPF_BODY = 32, OPF_LOOP = 64, OPF_ACCESS = 128, OPF_WRITES = 256, OPF_PLAIN = 512,
    OPF_FLOW = 1024, OPF_CHOICE = 2048,
};

/* A row of ops.def as data. */
typedef struct {
    const char *name;
    OpKind kind;
    int arity, results;         /* -1: any number */
    DtypeRule rule;
    unsigned flags;             /* OPF_... */
    int cost;                   /* of an element, see ops.def */
    const char *expr;           /* MAP: C over a, b, c; else NULL */
    const char *attrs;          /* VIEW, NODE: the schema, "key:kind key:kind" */
    const char *stages;         /* where it may occur: letters of "GTKL" */
    const char *reads;          /* how it reads its operands: a letter each, see ops.def */
    Fuses fuses;
    Op combine;                 /* RED */
} OpInfo;

/* The stage is named in the header line of the text.
 *   graph    as captured: MAP, RED, VIEW, NODE lets, no bodies
 *   kernels  every top-level let is a kernel, a view of what exists, a size or a call; a kernel's
 *            body holds graph lets and no call
 *   loops    a kernel's body holds buffers and loops over scalars.  Each top-level `for` of a
 *            kernel is a phase: it runs to its end, over all threads, before the next begins */
typedef enum { STAGE_GRAPH, STAGE_KERNELS, STAGE_LOOPS } Stage;

extern const DtypeInfo dtype_info[DTYPE_COUNT];
extern const OpInfo op_info[OP_COUNT];

/* ---- ops.c: the tables as data ---- */

Op op_find(const char *name, size_t length);            /* OP_COUNT when there is none */
int op_attrs(Op op);                                    /* how many attributes its schema has */
char op_reads(Op op, int arg);                          /* a letter of ops.def */
Dtype dtype_find(const char *name, size_t length);      /* DTYPE_COUNT when there is none */
bool dtype_is_float8(Dtype dtype);               /* of 8 bits: moved and bitcast, no arithmetic */
bool dtype_is_opaque(Dtype dtype);               /* no kernel reads or writes such elements */
Dtype dtype_part(Dtype dtype);                   /* of a complex number's parts, else DTYPE_COUNT */
Dtype dtype_pair(Dtype dtype);             /* the complex dtype with such parts, else DTYPE_COUNT */
int dtype_components(Dtype dtype);                    /* an element is 2 real numbers or 1 number */
Dtype dtype_component(Dtype dtype);                     /* of these numbers */

/* ---- cx.c: the context, memory, failure ---- */

typedef enum {
#define DIAG(code, kind, text) DIAG_##code,
#include "diag.def"
    DIAG_COUNT
} DiagCode;

/* The rows' texts as arrays, so that the C compiler checks the arguments of fail(). */
#define DIAG(code, kind, text) \
    __attribute__((unused)) static const char DIAG_##code##_TEXT[] = text;
#include "diag.def"

typedef enum { DIAGKIND_CANNOT, DIAGKIND_INVALID, DIAGKIND_GAP, DIAGKIND_INTERNAL } DiagKind;

/* Where a let comes from: the FX node's name and the user's source line ("model.py:12: y =
 * f(x)"). */
typedef struct { const char *node, *source; } Loc;

/* Why a compile ended.  message is complete, with place and fix. */
typedef struct {
    DiagCode code;
    DiagKind kind;
    char *message;              /* in the arena */
    Loc loc;
} Diag;

Cx *cx_new(void);                                       /* NULL without memory */
void cx_free(Cx *cx);                                   /* runs the cleanups, newest first */
/* Runs body(cx, arg); false when it failed, the reason is cx_diag(cx).  Nests. */
bool cx_try(Cx *cx, void (*body)(Cx *cx, void *arg), void *arg);
const Diag *cx_diag(const Cx *cx);
/* Zeroed memory of the compile, aligned for any type.  Never NULL: fails with DIAG_MEMORY. */
void *cx_alloc(Cx *cx, size_t bytes);
void *cx_copy(Cx *cx, const void *from, size_t bytes);
/* Array growth: returns `array` with room for count + 1 elements of `size` bytes (doubling).  All
 * of the array's growth must go through here, from NULL and count 0 on. */
void *cx_grow(Cx *cx, void *array, int count, size_t size);
const char *cx_intern(Cx *cx, const char *text, size_t length);      /* equal text, equal pointer */
char *cx_format(Cx *cx, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cx_cleanup(Cx *cx, void (*run)(void *arg), void *arg);
void cx_set_loc(Cx *cx, Loc loc);                       /* the position that fail() reports from now
                                                         * on */
Loc cx_loc(const Cx *cx);
double clock_seconds(void);                             /* monotonic */
/* Ends the innermost cx_try, for the reason of a row of diag.def, with its parameters. */
#define fail(cx, code, ...) fail_as((cx), code, code##_TEXT, ##__VA_ARGS__)
_Noreturn void fail_as(Cx *cx, DiagCode code, const char *text, ...)
    __attribute__((format(printf, 3, 4)));
/* Fails as the last cx_try did; used where there is no memory for anything else. */
_Noreturn void fail_again(Cx *cx);

/* Growing text in the arena. */
typedef struct { Cx *cx; char *text; size_t length, room; } Text;

void text_add(Text *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Is a word of the environment a yes?  All are but "", 0, false, no and off; NULL is not. */
bool text_is_yes(const char *text);
void text_vadd(Text *out, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
void text_put(Text *out, const char *bytes, size_t length);

/* ---- dim.c, range.c, prove.c: symbolic sizes ---- */

/* An interned size in normal form: a polynomial with int64 coefficients over atoms.  An atom is a
 * size symbol, a loop index, or an opaque a//b, a%b, max(a,b), min(a,b) of dims.  Two dims are
 * equal exactly when their ids are; `//` rounds down and `%` has the sign of the divisor, as in
 * Python. */
typedef uint32_t Dim;

enum { DIM_NONE = 0 };          /* not a dim */
#define DIM_INF INT64_MAX       /* an unbounded end of a range */

typedef struct { int64_t lo, hi; } Range;           /* both included; -DIM_INF, DIM_INF: no bound */

Dim dim_int(Cx *cx, int64_t value);
Dim dim_size(Cx *cx, const char *name);        /* the size symbol; new ones are 0..inf, divisor 1 */
void dim_declare(Cx *cx, Dim size, Range range, int64_t divisor);
Dim dim_index(Cx *cx, const char *name, Dim extent);    /* a fresh loop index, 0 .. extent-1 */
Dim dim_add(Cx *cx, Dim a, Dim b);
Dim dim_sub(Cx *cx, Dim a, Dim b);
Dim dim_mul(Cx *cx, Dim a, Dim b);
Dim dim_div(Cx *cx, Dim a, Dim b);                      /* a // b */
Dim dim_mod(Cx *cx, Dim a, Dim b);
Dim dim_max(Cx *cx, Dim a, Dim b);
Dim dim_min(Cx *cx, Dim a, Dim b);
/* d with x for each factor max(1, x), x >= 0: as torch writes the strides of sizes that may be 0.
 * Where the result is not 0, d is equal to it. */
Dim dim_of_nonempty(Cx *cx, Dim d);
/* a times by, in float64, rounded down; by is finite and not negative. */
Dim dim_scale(Cx *cx, Dim a, double by);
bool dim_is_int(const Cx *cx, Dim d, int64_t *value);   /* value may be NULL */
bool dim_is(const Cx *cx, Dim d, int64_t value);
bool dim_is_name(const Cx *cx, Dim d);                  /* a bare size symbol or loop index */
const char *dim_name(const Cx *cx, Dim d);              /* of a bare name */
Dim dim_extent(const Cx *cx, Dim index);           /* of a loop index; DIM_NONE for a size symbol */
Range dim_range(Cx *cx, Dim d);
Range dim_range_within(Cx *cx, Dim d, Dim symbol, Range range);  /* if the symbol is in `range` */
int64_t dim_divisor(Cx *cx, Dim d);                    /* a known divisor, at least 1; 0 for zero */
/* Proofs: true means true for all values in the declared ranges; false means not proved. */
bool dim_lt(Cx *cx, Dim a, Dim b);
bool dim_le(Cx *cx, Dim a, Dim b);
bool dim_lt_in(Cx *cx, Dim a, Dim b, Dim extent);      /* where a loop of the extent has an index */
bool dim_divides(Cx *cx, int64_t divisor, Dim d);
bool dim_uses(const Cx *cx, Dim d, Dim name);           /* does the bare name occur in d? */
Dim dim_replace(Cx *cx, Dim d, Dim name, Dim by);
/* d == coefficient * name + rest with neither using name; false when d is not affine in name. */
bool dim_affine(Cx *cx, Dim d, Dim name, Dim *coefficient, Dim *rest);
void dim_assume(Cx *cx, Dim a, Dim b);          /* until dim_forget, a <= b holds; nests */
void dim_forget(Cx *cx);                        /* a failure forgets, too */
/* Visits the bare names in d, each once, ascending; dim_any_name: is it so of one of them? */
void dim_names(const Cx *cx, Dim d, void (*visit)(void *arg, Dim name), void *arg);
bool dim_any_name(const Cx *cx, Dim d, bool (*is)(const void *arg, Dim name), const void *arg);
bool dim_has_index(const Cx *cx, Dim d);                /* does a loop index occur in d? */
/* The value, given a function for the bare names.  Divisions by zero give 0. */
int64_t dim_eval(const Cx *cx, Dim d, int64_t (*value)(void *arg, Dim name), void *arg);
/* Visits d as an expression in postorder, for printers and compilers of dims.
 * kind: 'i' integer (value), 'n' bare name (name); of two operands '+', '*', '/', '%', 'M' max, 'm'
 * min and 's' scale, whose second is the bits of its float as an integer. */
typedef struct {
    void (*leaf)(void *arg, char kind, int64_t value, Dim name);
    void (*binary)(void *arg, char kind);
} DimWalk;
void dim_walk(const Cx *cx, Dim d, const DimWalk *walk, void *arg);
Dim dim_apply(Cx *cx, char kind, Dim a, Dim b);         /* combines what dim_walk split */
int64_t dim_scaled(int64_t a, int64_t bits);            /* the value of 's' */
double dim_factor(int64_t bits);                        /* the float of its second operand */
void dim_text(const Cx *cx, Dim d, Text *out);          /* as the language writes it */

/* ---- type.c: interned types ---- */

struct Type {                   /* equal types are the same pointer */
    Dtype dtype;
    int rank;
    Dim dims[];
};

const Type *type_of(Cx *cx, Dtype dtype, int rank, const Dim *dims);
const Type *type_scalar(Cx *cx, Dtype dtype);
const Type *type_with(Cx *cx, const Type *t, Dtype dtype);              /* the same shape */
bool type_same_shape(const Type *a, const Type *b);
Dim type_numel(Cx *cx, const Type *t);
int type_wide_axes(Cx *cx, const Type *t);              /* how many have not one element */
void type_dense(Cx *cx, const Type *t, Dim *strides);   /* row-major strides, in elements */
bool type_is_empty(Cx *cx, const Type *t);              /* provably without elements */
void type_text(const Cx *cx, const Type *t, Text *out);

/* ---- fn.c: values, lets, blocks, functions ---- */

/* A constant operand.  It has no type of its own: its context has the dtype and the shape. */
typedef struct {
    bool is_int;                /* i, else f; bool constants are the ints 0 and 1 */
    int64_t i;
    double f;
} Literal;

struct Value {
    const char *name;           /* NULL: a constant */
    const Type *type;           /* NULL: a constant */
    const Dim *strides;         /* promised layout, in elements; NULL: dense row-major */
    /* a kernel's result: the older value whose memory it takes, see alias.c; or NULL */
    const Value *over;
    bool given;                 /* a parameter: the call frees it after its last use */
    Let *def;                   /* NULL: a parameter or a constant */
    int result;                 /* which result of def; position among the parameters */
    /* A dense number within the function, for side tables, from 1.  Constants are shared by all
     * functions and have 0. */
    int id;
    Literal literal;
};

typedef enum {
    ATTR_NONE, ATTR_INT, ATTR_DIM, ATTR_AXES, ATTR_DIMS, ATTR_STR, ATTR_NAME, ATTR_LETTERS,
    ATTR_MARKS
} AttrKind;

/* One attribute.  `key` is interned; the schema of the op says which there are and of what kind. */
typedef struct {
    const char *key;
    AttrKind kind;
    int n;                      /* AXES, DIMS: how many */
    int64_t i;                  /* INT; MARKS: their bits */
    Dim d;                      /* DIM; NAME when the name is a loop index */
    const int *axes;            /* AXES */
    const Dim *dims;            /* DIMS */
    const char *s;              /* STR, NAME (an op's or an index's name), interned */
    const struct Contraction *letters; /* LETTERS, interned */
    const int64_t *values;      /* MARKS: of each mark that has one, else 0; NULL: none has */
} Attr;

struct Block {
    Let **lets;
    int n;
    Value **rets;               /* what `ret` returns; the loops of a phase return nothing */
    int nrets;
    Let *owner;                 /* NULL: the function itself */
};

struct Let {
    Op op;
    int nargs, nres, nattrs, nsizes;
    Value **args;
    Value **res;
    Attr *attrs;                /* in schema order */
    Dim *sizes;                /* existential sizes this let binds: `let [K] y: i64[K] = call ..` */
    Block *body;                /* kernel, for, reduce, if, else */
    Fn **bodies;                /* loop: one; branch: two; functions of the same stage */
    int nbodies;
    Block *parent;
    Loc loc;
    int mark;                   /* a pass's own use; 0 on entry to each pass */
};

typedef enum { RESULT_FRESH, RESULT_INTO, RESULT_VIEW_PARAM, RESULT_VIEW_RESULT } ResultKind;

/* The promise about a result.  INTO: it is written into parameter `of` and not returned as a new
 * tensor.  VIEW_*: it shares the storage of parameter or result `of`. */
typedef struct {
    ResultKind kind;
    int of;
    const Dim *strides;         /* NULL: dense row-major */
} Result;

struct Fn {
    Cx *cx;
    const char *name;
    Stage stage;
    Dim *sizes;                 /* the size symbols declared, in order of declaration */
    int nsizes;
    Value **params;
    int nparams;
    Block *body;                /* body->rets are the results */
    Result *results;            /* body->nrets of them */
    int nvalues;                /* one more than the largest Value.id */
    struct Names *names;        /* names in use, of fn.c */
    const Let *owner;           /* of a body, while a pass runs: the loop or branch; else NULL */
    struct PhaseFacts *facts;   /* loops/facts.c; NULL: none since more than marks changed */
    int target;                 /* whose own copy of the loops it is, see PassInfo; 0: of all */
};

#include "marks.h"

Fn *fn_new(Cx *cx, const char *name, Stage stage);
const char *stage_name(Stage stage);                    /* in texts and messages */
void fn_size(Fn *fn, Dim size);
Value *fn_param(Fn *fn, const char *name, const Type *type, const Dim *strides);
Value *fn_param_like(Fn *fn, const Value *v);           /* all that the text says of a parameter */
/* results NULL: all are fresh and dense */
void fn_results(Fn *fn, int n, Value *const *values, const Result *results);
/* Marks a name as used in the function, by a value or an index; false when it was. */
bool fn_take_name(Fn *fn, const char *name);
bool fn_has_name(const Fn *fn, const char *name, size_t length);        /* is it used? */
/* stem0, stem1, ...: one that is not in use.  Digits at the end of stem do not count.  Interned. */
const char *fn_fresh_name(Fn *fn, const char *stem);
void fn_free_name(Fn *fn, const char *name);            /* of what is in the function no more */
/* A let that is in no block yet; copies operands and attributes.  let_result makes results. */
Let *let_new(Fn *fn, Op op, int nargs, Value *const *args, int nattrs, const Attr *attrs);
Value *let_result(Fn *fn, Let *let, const char *name, const Type *type, const Dim *strides);
Let **lets_new(Cx *cx, int n);          /* for a block's lets; block_append can add more */
void block_append(Cx *cx, Block *blk, Let *let);
Attr attr_int(Cx *cx, const char *key, int64_t i);
Attr attr_dim(Cx *cx, const char *key, Dim d);
Attr attr_axes(Cx *cx, const char *key, int n, const int *axes);
Attr attr_dims(Cx *cx, const char *key, int n, const Dim *dims);
Attr attr_str(Cx *cx, const char *key, const char *s);
Attr attr_letters(Cx *cx, const char *key, const struct Contraction *letters);
/* index: DIM_NONE for an op's */
Attr attr_name(Cx *cx, const char *key, const char *name, Dim index);
bool value_is_const(const Value *v);
bool value_is_view(const Value *v);                     /* is it the result of a VIEW? */
bool value_is_view_of(const Value *v, const Value *of); /* a view of views too, or `of` itself */
bool let_writes(const Let *let);             /* a store or an update: an element of its operand 0 */
bool let_accesses(const Let *let);                      /* or a load */
bool let_has_effect(const Let *let);  /* a call that draws numbers, for one, or it runs such */
bool let_is_flow(const Let *let);                       /* loop, branch */
/* Does it take and make whole tensors in memory, out of sight of kernels?  call, loop, branch. */
bool let_is_opaque(const Let *let);
/* Gives a let its bodies.  Passes change bodies, so each function is the body of one let: a program
 * built from another one takes them over, and a let copied to a second place gets clones. */
void let_bodies(Cx *cx, Let *let, int n, Fn *const *bodies);
bool let_is_plain(const Let *let);                      /* computes an element, and nothing else */
bool let_is_map(const Let *let);
bool loop_is(const Let *let);                           /* for, reduce */
bool let_is_choice(const Let *let);                     /* if, else */
const Let *let_around(const Let *let);  /* the loop or kernel around it, beyond choices */
/* The condition *a <= *b of a choice: of an `else`, what is so where its `if` is not. */
void let_condition(Cx *cx, const Let *choice, Dim *a, Dim *b);
bool let_excludes(const Let *a, const Let *b);  /* are they an if and its else? */
bool let_enter(Cx *cx, const Let *let); /* of a choice: assumes its condition, until dim_forget */
int let_assume(Cx *cx, const Let *let); /* those of all choices around; how many to forget */
/* fails never: the key is in the op's schema */
const Attr *let_attr(const Let *let, const char *key);
bool attr_has_axis(const Attr *axes, int axis);
/* In the graph stage: does the let have elements that a kernel computes or moves? */
bool let_is_made(const Let *let);
int64_t let_int(const Let *let, const char *key);
Op let_op(const Let *let);                          /* that its attribute `op` names, or OP_COUNT */
Dim let_dim(const Let *let, const char *key);
const char *let_str(const Let *let, const char *key);
/* A cat of a few parts of one element each, which codegen makes together, interleaved. */
bool let_interleaves(Cx *cx, const Let *let);
/* Names of indices, and what stands for them: one is replaced after the other. */
typedef struct {
    int n;
    Dim *name, *by;
} Renamed;
void renamed_add(Cx *cx, Renamed *r, Dim name, Dim by);
Renamed renamed_copy(Cx *cx, const Renamed *r);
void dims_rename(Cx *cx, const Renamed *r, int n, Dim *dims);
void let_rename(Cx *cx, const Renamed *r, Let *let);    /* what the let itself says */
/* A copy with lets, values, attributes and bodies of its own.  The two share constants, and names
 * that are made in one are not made in the other. */
Fn *fn_clone(const Fn *fn);
Let *let_copy(Fn *fn, const Let *loop, Block *parent);   /* all that it binds has fresh names */
/* The same of a block, where n names of indices stand for others. */
Block *block_copy(Fn *fn, const Block *blk, int n, const Dim *names, const Dim *by);
/* Declares the sizes that a body has from outside: those that it names and does not bind. */
void fn_free_sizes(Fn *fn);
typedef struct {                /* a loop, its operands and results in parts */
    const Let *let;
    const Fn *body;
    bool whiles, counted;       /* operand 0 is the bool before the first step; it has `steps` */
    Dim steps;
    Dim taken;                  /* how many steps there are; DIM_NONE: data says so */
    Dim at;                     /* in a kernel: the number of the step as a size, or DIM_NONE */
    int carries, rows, stays;   /* numbers of the other operands, which come in this order */
    int stacks;                 /* of results behind the carried values */
} Loop;

Loop let_loop(const Let *let);          /* of one whose form is right, V30 */
const Let *kernel_loop(const Let *kernel);      /* that it is, V47; NULL: it is none */
Value *loop_arg(const Loop *loop, int k);       /* of carries, rows, stays together */
Value *loop_param(const Loop *loop, int k);     /* the body's for it */
Value *loop_next(const Loop *loop, int k);      /* what the body returns for result k */
const Type *type_of_row(Cx *cx, const Type *t);         /* without the first axis */
const Type *type_of_rows(Cx *cx, const Type *t, Dim rows);      /* with one more */
/* Visits every let, bodies after their owner, in order; not those of functions that are bodies. */
void fn_each_let(Fn *fn, void (*visit)(void *arg, Let *let), void *arg);

/* ---- alias.c: results in place ---- */

/* How a function reads a value, itself or through views, by positions of its lets. */
typedef struct {
    int last;              /* of the last let that reads it, -1; a result reads it after all lets */
    int viewed;                 /* ... through a view */
    bool taken;                 /* by a call whose results may share its memory */
    int in_place;                  /* results over it */
} ValueUse;

ValueUse *value_uses(const Fn *fn);                     /* by Value.id */
/* Why result v of let `at` cannot take the memory of v->over, or NULL: it can. */
const char *in_place_wrong(const Fn *fn, const ValueUse *uses, int at, const Value *v);
/* The part of it that does not concern what the kernel does with the elements. */
const char *memory_wrong(const Fn *fn, const ValueUse *uses, int at, const Value *v);
/* The other part: if this result stores over the older value, has a result an element of it, which
 * is stored, at another position?  cut: by position in the body, lets that do not count, or NULL */
bool kernel_moves(Cx *cx, const Let *kernel, int result, const Value *old, const bool *cut);
int param_under(const Value *v);        /* the parameter that it is or, in the end, is over; -1 */
int flow_takes(const Let *flow, int k);         /* the operand that result k may be over; -1 */
const Value *value_root(const Value *v);        /* of a view's memory, or v; NULL: a constant */

/* ---- alias_loops.c ---- */
bool same_index(const Let *a, const Let *b);            /* of two loads, stores or updates */
bool store_is_idle(const Let *store);                   /* stores what is there, of `over` */
/* The part of in_place_wrong that concerns the loops alone. */
const char *in_place_wrong_loops(Cx *cx, const Value *v);

/* ---- rules.c: the types of ops; rules.h has those of each ---- */

/* The type that result k of the let must have, or NULL and the reason in *why; the verifier
 * compares it with the binder.  For ops that may bind any type (const, call, kernel, buffer, ..) it
 * is the binder's own. */
const Type *let_type(Cx *cx, const Let *let, int k, const char **why);
/* May the literal be used as an element of the dtype?  No fraction for an integer. */
bool literal_fits(Literal literal, Dtype dtype);

#include "contraction/contraction.h"

/* ---- build.c, fold.c, algebra.c: the folding, value-numbering builder ---- */

/* Appends lets to a block.  Every build_* checks its operands (a mistake fails with DIAG_BUILD),
 * folds constants by the interpreter, simplifies by the algebra of ops.def, and returns an existing
 * value if the same let is in the block or in one around it.  Algebra is exact: x*1, x+(-0.0),
 * where with equal arms, casts that undo each other without loss, views of views; never x*0, x-x,
 * or reassociation of floats. */
typedef struct Build Build;

Build *build_new(Fn *fn);
Cx *build_cx(const Build *b);
Fn *build_fn(const Build *b);
void build_at(Build *b, Loc loc);                       /* of the lets built from now on */
Loc build_loc(const Build *b);
/* Bodies nest: open gives a block under construction, close ends it. */
Block *build_open(Build *b);
void build_close(Build *b, int nrets, Value *const *rets);
/* Opens the body of a let that is already in a block, so that the body can name the let's own
 * results. */
Block *build_open_body(Build *b, Let *let);

Value *build_int(Build *b, int64_t i);                  /* constant operands */
Value *build_float(Build *b, double f);
Value *build_map(Build *b, Op op, Value *a, Value *bb, Value *c);       /* unused ones NULL */
Value *build_cast(Build *b, Value *a, Dtype to);       /* the value itself when it has that dtype */
/* The same bits as numbers of another dtype, which is as wide; not of bool, nor to it. */
Value *build_bitcast(Build *b, Value *a, Dtype to);
/* The MAP of the let, of these operands. */
Value *build_map_like(Build *b, const Let *let, Value *const *args);
Value *build_red(Build *b, Op op, Value *a, int naxes, const int *axes);     /* any order of axes */
Value *build_expand(Build *b, Value *a, int rank, const Dim *dims, const int *to);
Value *build_reshape(Build *b, Value *a, int rank, const Dim *dims);
Value *build_permute(Build *b, Value *a, const int *perm);
Value *build_slice(Build *b, Value *a, int axis, Dim start, Dim step, Dim length);
Value *build_flip(Build *b, Value *a, int naxes, const int *axes);
Value *build_as_strided(Build *b, Value *a, int rank, const Dim *dims, const Dim *strides,
                        Dim offset);
Value *build_const(Build *b, const Type *t, Literal literal);           /* a tensor */
Value *build_iota(Build *b, const Type *t, int axis);
Value *build_size(Build *b, Dim d);
Value *build_cat(Build *b, int n, Value *const *parts, int axis);
Value *build_pad(Build *b, Value *a, Value *fill, const Type *t, const Dim *lo);
/* `wrap` of a gather or bind, see ops.def */
enum {
#define CHECK(kind, error, words) INDEX_##kind,
#include "ir/check.def"
    INDEX_KINDS
};
Value *build_gather(Build *b, Value *a, Value *index, int axis, int wrap);
Value *build_scan(Build *b, Op op, Value *a, int axis);
/* op: a reduction, or OP_store */
Value *build_scatter(Build *b, Op op, Value *a, Value *index, Value *v, int axis, int wrap);
/* to: the operands' dtype or the one they are computed in */
Value *build_contract(Build *b, Value *x, Value *y, const Contraction *over, Dtype to);
/* The same with `over` as text: "mk,kn->mn". */
Value *build_product(Build *b, Value *x, Value *y, const char *over, Dtype to);
/* Broadcast to a shape by NumPy's rule: axes align at the end, axes of size 1 repeat. */
Value *build_broadcast(Build *b, Value *a, int rank, const Dim *dims);
/* An element of a kernel's operand, of a buffer or (in its own body) of a kernel's result.  Loads
 * from memory that is not stored to are merged. */
Value *build_load(Build *b, Value *a, const Dim *at);
/* A let of any op as given, never folded or merged, checked only by the verifier: kernels, loops.
 * attrs in schema order; types and strides (may be NULL) of the results. */
Let *build_let(Build *b, Op op, int nargs, Value *const *args, const Attr *attrs, Block *body,
               int nres, const Type *const *types, const Dim *const *strides);
/* Calls without an effect are merged. */
typedef struct {                /* the attributes of a call */
    const char *target, *args;
    const Dim *dims;
    int ndims, site;
    bool effect, shares, laid;
} CallAttrs;
Let *build_call(Build *b, const CallAttrs *call, int nargs, Value *const *args, int nres,
                const Type *const *types, const Dim *const *strides);
/* Rebuilds let with its operands mapped (operand -> map[operand->id], itself where NULL), through
 * the functions above, so that it folds anew; writes map for its results.  Bodies are rebuilt the
 * same way, but for those that are functions: the new let takes them over, see let_bodies. */
void build_again(Build *b, const Let *let, Value **map);
/* A loop or a branch like this one, with these operands, types of results and bodies.  A result of
 * another type loses its strides. */
Let *build_flow(Build *b, const Let *let, Value **args, const Type *const *types, Fn **bodies);
/* The function that rebuilds the lets of bodies from now on, for a pass that changes some of them;
 * NULL: build_again. */
typedef void BuildLet(void *arg, Build *b, const Let *let, Value **map);
void build_bodies(Build *b, BuildLet *each, void *arg);

/* ---- layout.c: views in memory ---- */

/* Are the strides equal wherever a tensor of the type has elements?  torch counts sizes of 0 as 1
 * in strides, by factors max(1, size). */
bool stride_same(Cx *cx, const Type *t, Dim a, Dim b);
/* Are all elements of the strided view provably among numel ones?  Where it has elements each size
 * is at least 1, and so strides that are sums of sizes have a sign. */
bool stride_is_inside(Cx *cx, Dim numel, int rank, const Dim *dims, const Dim *strides, Dim offset);
/* Computes the strides of the view let from its operand's strides and offset (in elements); false
 * if no strides express it. */
bool view_layout(Cx *cx, const Let *let, const Dim *base_strides, Dim base_offset, Dim *strides,
                 Dim *offset);
/* The strides that a value has in memory, row-major if a kernel makes it; false for a view that has
 * no strides of its own: a kernel has to make it. */
bool value_layout(Cx *cx, const Value *v, Dim *strides);
/* The axes of a tensor that is dense in memory, innermost first; of axes of one element, the last
 * first.  false: it is dense in no order. */
bool strides_order(Cx *cx, const Type *t, const Dim *strides, int *axes);
/* The same if fusion may store the common base of both, so that `of` has the given strides. */
bool value_layout_beside(Cx *cx, const Value *v, const Value *of, const Dim *given, Dim *strides);
/* Computes the strides of the operand from those of the view let, if every element of the operand
 * is in the view; false for other views, and if no strides of the operand give these. */
bool view_base_strides(Cx *cx, const Let *let, const Dim *strides, Dim *base_strides);
/* The offset of an element, in elements, simplified. */
Dim index_offset(Cx *cx, const Value *buffer, const Dim *at);
/* Do these strides put no two elements in one place, provably, for all sizes that have elements? */
bool strides_do_not_overlap(Cx *cx, const Type *of, const Dim *promised);
bool value_has_places(Cx *cx, const Value *v, const Dim *strides); /* ... or is v one number? */

/* ---- print.c, parse.c: exact inverses ---- */

void print_fn(const Fn *fn, Text *out);
void print_let(const Let *let, int indent, Text *out);  /* one let with its body */
bool text_is_word(const char *s);  /* a name: letters, digits and _, no digit first; not inf, nan */
void text_float(Text *out, double f);  /* the fewest digits that read back: 1.0, 2.5e-08, -inf */
/* Fails with DIAG_PARSE: "line:column: what was expected", the line and a caret. */
Fn *parse_fn(Cx *cx, const char *text, const char *file);
typedef struct { const char *name; int64_t value; } FixedSize;
/* With numbers for these sizes; DIAG_FIXED_SIZE: the program excludes one, or has no such size. */
Fn *parse_fixed(Cx *cx, const char *text, const char *file, int n, const FixedSize *fixed);

/* ---- shrink.c: smaller programs that still fail ---- */

/* The smallest text found for which fails(arg, text) holds, in the arena; it holds for `text`, of
 * the graph stage. fails is also called with texts that break a rule or are no program. */
const char *shrink(Cx *cx, const char *text, bool (*fails)(void *arg, const char *text), void *arg);
/* ---- notation*.c: einstein notation, see docs/kernels.md ---- */

typedef struct Notation Notation;
Notation *notation_parse(Cx *cx, const char *text, const char *file); /* fails as parse_fn */
int notation_nparams(const Notation *n);
const char *notation_param(const Notation *n, int k);
int notation_rank(const Notation *n, int k);            /* of parameter k */
int notation_nresults(const Notation *n);
/* A program of the text, for parameters with these dtypes and symbolic sizes. steps: selects one of
 * its derivatives and batches, "" the text itself; see notation_steps.c. */
Fn *notation_fn(const Notation *n, const char *steps, const Dtype *dtypes);
/* Appends its lets to a function under construction; false: the arguments do not fit.  Fails with
 * DIAG_TWO_SIZES if sizes are not known to be equal. */
bool notation_build(const Notation *n, const char *steps, Build *b, int nargs, Value *const *args,
                    int nres, Value **results);

/* ---- derive.c ---- */

/* The gradients of the n values `by`. `seeds` are the gradients of the nof values `of` that are
 * computed from them (NULL: none).  A gradient is NULL if there is none.  Every let is of the graph
 * stage and in the block under construction.  Fails with DIAG_NO_DERIVATIVE. */
void derive(Build *b, int nof, Value *const *of, Value *const *seeds, int n, Value *const *by,
            Value **gradients);

/* ---- verify.c: the rules of the language, V01.. at the head of the file ---- */

/* Fails with DIAG_VERIFY: the rule's number, what is wrong and ten lets of context. */
void verify_fn(const Fn *fn);

/* ---- pass.c: what happens around each pass ---- */

/* A pass reads a function and returns a new one (or the same, unchanged). */
typedef Fn *(*PassFn)(Fn *fn);

typedef struct PassInfo {
    const char *name;
    Stage in, out;
    PassFn run;                 /* NULL: the pass is its parts, one after the other */
    const char *what;           /* one sentence */
    const struct PassInfo *const *parts;        /* the last is NULL */
    int target;                 /* of parts that are of one target: 1 + its row; else 0 */
} PassInfo;

typedef struct PassOptions {
    bool verify, no_file;       /* after every pass; without a file with the input of a wrong one */
    const char *dump;           /* pass names with commas, or "all": to standard error */
    int64_t fuel;       /* single rewrites allowed, negative: no limit; a run subtracts its own */
    /* When not NULL, called after each pass with the function it made and the seconds it took. */
    void (*trace)(void *arg, const char *pass, const Fn *fn, double seconds);
    void *trace_arg;
} PassOptions;

/* Nothing but the rewrites, all of them. */
#define PASS_OPTIONS_NONE ((PassOptions){.fuel = -1})
/* The options that DLC_VERIFY, DLC_DUMP and DLC_FUEL set. */
PassOptions pass_options_wanted(void);
bool pass_dumps(const PassOptions *options, const char *name);   /* is its program to be printed? */
/* Runs a pass with verification, dump, trace and blame.  Fails with DIAG_PASS when it breaks the
 * language. */
Fn *pass_run(const PassInfo *pass, Fn *fn, PassOptions *options);
/* NULL: none has the name */
const PassInfo *pass_in(const PassInfo *table, int n, const char *name);
/* A file with the text where a person finds it, `name` in its name; NULL: nothing could be written.
 */
const char *reproducer_write(Cx *cx, const char *name, const char *text);
/* Every single rewrite asks first, and is not done when this is false. */
bool fuel_spend(Cx *cx);

/* ---- eval.c, eval_*.c: the reference interpreter: slow, obvious, right ---- */

/* A tensor in memory.  strides in elements; data at the first element. */
typedef struct {
    Dtype dtype;
    int rank;
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    void *data;
} Tensor;

int64_t tensor_numel(const Tensor *t);
void *tensor_at(const Tensor *t, const int64_t *index);
void *tensor_part(const Tensor *t, const int64_t *index, int part); /* of dtype_components */
/* The next index in row-major order; false after the last. */
bool tensor_next(const Tensor *t, int64_t *index);
/* Binds the size symbols by matching the parameters' types (fails with DIAG_ARGUMENT when they do
 * not match), runs the function at any stage, and fills `out`: fresh dense tensors in the arena;
 * INTO results are written to their parameter too.  Sums are accumulated in double. */
void eval_fn(const Fn *fn, const Tensor *in, Tensor *out);
/* The same with sizes given, by position in fn->sizes; SIZE_UNKNOWN: the parameters determine
 * it. */
#define SIZE_UNKNOWN INT64_MIN
void eval_fn_at(const Fn *fn, const int64_t *sizes, const Tensor *in, Tensor *out);
/* One MAP op on one element each; operands and result in the dtypes' storage. */
void eval_map(Op op, Dtype from, Dtype to, const void *a, const void *b, const void *c, void *out);
/* Solves the size symbols from the parameters' sizes; values by position in fn->sizes. */
void eval_sizes(const Fn *fn, const Tensor *in, int64_t *values);

/* ---- noise.c: how exactly results can be expected ---- */

typedef void EvalMap(Op op, Dtype from, Dtype to, const void *a, const void *b, const void *c,
                     void *out);

typedef struct {
    EvalMap *map; /* computes an element: eval_map, or the same with fused multiply-adds */
    /* If not 0: sums and products of floating point numbers whose order may matter change by some
     * roundings, and values computed from them by one or two, at random. */
    uint64_t noise;
} EvalHow;

/* As eval_fn. */

/* ---- sample.c: random arguments, for dlc-opt and the fuzzer ---- */

uint64_t sample_seed(uint64_t seed);                    /* the state a generator starts with */
int64_t sample_below(uint64_t *state, int64_t below);   /* 0 .. below-1 */
void sample_sizes(const Fn *fn, uint64_t *state, int64_t *sizes);
/* Tensors in the arena, with the promised strides; values used as indices are in range. */
void sample_args(const Fn *fn, uint64_t *state, const int64_t *sizes, Tensor *in);
/* The same, but a parameter's elements depend only on the seed, its name and its type, and none is
 * infinite or NaN. */
void sample_named(const Fn *fn, uint64_t seed, const int64_t *sizes, Tensor *in);
const int64_t *sample_indices(const Fn *fn, const int64_t *sizes); /* bounds by Value.id, or 0 */
/* The largest difference of two tensors in units of the dtype's rounding; INFINITY when they differ
 * in shape, in NaN or infinity, or at all where they are not floating point. */
double sample_distance(const Tensor *a, const Tensor *b);
double sample_epsilon(Dtype dtype);                     /* the rounding unit of 1 */
void sample_text(const Tensor *t, Text *out);           /* the type and the first elements */
double sample_number(Dtype dtype, const void *element);
void sample_element(const Tensor *t, const int64_t *index, Text *out);

#endif
