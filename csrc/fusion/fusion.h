/* Fusion: from the graph stage to the kernels stage.  Rewrites and grouping; knows the IR
 * (ir/ir.h) and nothing of loops, C or Python.  passes.def lists the passes, pipeline.c holds
 * their order. */
#ifndef DLC_FUSION_H
#define DLC_FUSION_H

#include "ir/ir.h"

/* ---- one file a pass ---- */

#define PASS(name, in, out, what) Fn *pass_##name(Fn *fn);
#include "passes.def"

/* ---- pipeline.c ---- */

const PassInfo *pass_table(int *count);
/* NULL when there is none; "pipeline" is all of them, in order. */
const PassInfo *pass_find(const char *name);
/* The whole pipeline: a verified graph in, the kernels stage out. */
Fn *pipeline_run(Fn *graph, PassOptions *options);

/* ---- recompute.c ---- */

/* Is v computed element by element of codes, values with fewer bytes?  As the columns of a product
 * it is then computed in the product's kernel. */
bool value_is_of_codes(Cx *cx, const Value *v);

/* ---- partition*.c: training's forward and backward out of one joint graph ---- */

/* Facts that the creator of a value knows, by Value.id. */
typedef enum {
    MARK_NAMED = 1,             /* it can be passed from forward to backward */
    MARK_KEEP = 2,              /* is not computed again in the backward */
    MARK_AGAIN = 4,             /* is computed again, if the backward needs it */
    MARK_LATE = 8,              /* belongs to the backward */
    MARK_WRITTEN =
        16, /* a parameter that the forward changes: named, a copy of it can be passed on; else
                                 * it is kept only if nothing else will do */
    MARK_COPIED =
        32, /* and views of it are copies, of which it may have been put together again: then it
                                 * cannot be kept at all */
    MARK_PRODUCT = 64, /* a product of the library's, which a call may compute again */
} Mark;

/* `user` cannot be computed without `used`, in addition to the operands of its let. */
typedef struct {
    const Value *user, *used;
} Need;

typedef struct {
    int nforward; /* the first results are the forward's, the others the backward's */
    const bool *tangents; /* by parameter: given to the backward alone */
    const uint8_t *marks; /* NULL: all values are named */
    const Need *needs;
    int nneeds;
    double budget; /* 1: the cheapest cut; below: between that and the fewest bytes, at 0 */
    bool products; /* a budget below 1 may buy products that are computed again */
    /* 0, or instead of a budget: the forward is computed again in segments, so that this share of
     * what the cheapest cut saves is alive at once */
    double share;
    int64_t fuel; /* how many values, the first in order, both may compute; negative: no limit */
} CutRules;

typedef struct {
    const Value **saved; /* the values that the forward passes on, including parameters, in order of
                          * creation */
    int nsaved;
    bool *forward, *backward; /* by Value.id: is computed there, or is a parameter used there */
    const bool *late; /* ...: depends on tangents */
    int64_t bytes; /* of the saved without parameters; names count as in cost.c */
    int recomputed; /* values computed in both, without views and constants; */
    int64_t cost; /* of computing them again, estimated */
} Cut;

/* Fails with DIAG_NO_CUT when a value that the backward needs can be neither passed on nor
 * computed. */
Cut *partition_cut(const Fn *joint, const CutRules *rules);
/* Makes the two functions.  The forward has the parameters without the tangents, and returns its
 * results and the saved values that are not parameters.  The backward has the saved values and the
 * tangents, and returns the other results. */
void partition_split(const Fn *joint, const CutRules *rules, const Cut *cut, Fn **forward,
                     Fn **backward);

/* ---- prepare.c: what of a function depends on frozen parameters alone ---- */

/* A value that is made before calls of the function, and again when one of its parameters has
 * changed. */
typedef struct {
    Fn *make; /* one result, fresh and dense; equal ones have equal texts */
    int *params; /* of the function: the parameters of `make` */
    int64_t bytes;
} PreparedValue;

typedef struct {
    Fn *run; /* the parameters of the function, then the prepared values; its results */
    PreparedValue *values;
    int nvalues;
} Preparation;

/* frozen: by parameter, or NULL: none is.  Each value takes a unit of fuel; negative: there is no
 * limit. */
Preparation *prepare_cut(const Fn *fn, const bool *frozen, int64_t *fuel);

/* ---- codes.c: weights of products as integers of few bits ---- */

typedef enum {
    WEIGHT_FLOAT,
    WEIGHT_INT8,
    WEIGHT_INT4,
    WEIGHT_INT4_ZERO,
    WEIGHT_FORMATS
} WeightFormat;

/* What a profile measures of a weight: the power of the results of its products, then what is added
 * to it by the errors of each format, and by those of rows of one digit and of two. */
enum { WEIGHT_ROWS = WEIGHT_FORMATS, WEIGHT_POWERS = WEIGHT_FORMATS + 2 };

/* A frozen parameter of floats that products read. */
typedef struct {
    int param; /* position in the function */
    WeightFormat format; /* FLOAT: it stays as it is; the caller sets the others */
    const char *why; /* it has to stay: the reason; else NULL */
    int products; /* lets that read it */
    int sum, columns; /* its axes: that products sum, and of their columns; -1 */
    bool gathered; /* a gather reads rows of it, too */
    int digits; /* of the rows of its products, which become integers; 0: they stay floats */
} Weight;

/* The weights of a function in canonical form; returns how many.  frozen: by parameter. */
int weights_find(const Fn *fn, const bool *frozen, Weight **out);
/* A function of the weight's parameter alone: the noise of the format, a scalar f64.  It is the
 * mean over columns of the share of a column's power that the error of its codes has. */
Fn *weights_measure(const Fn *fn, const Weight *w, WeightFormat format);
/* The function that computes what reads weights of their codes.  Each weight takes a unit of fuel;
 * formats become FLOAT where there is none left. */
Fn *weights_code(const Fn *fn, int n, Weight *weights, int64_t *fuel);
/* The function with WEIGHT_POWERS more results, scalars f64, for each weight that may become codes.
 */
Fn *weights_profile(const Fn *fn, int n, Weight *weights);
int64_t weight_bytes(const Fn *fn, const Weight *w, WeightFormat format);

/* ---- digits/digits.c: rows of products as integers ---- */

/* The function whose products of codes have rows of so many digits.  digits: by the parameter of
 * which the codes are made, 0 for none; becomes 0 where no product has been replaced. */
Fn *digits_by_param(Fn *fn, int *digits);
/* v, floats, as the numbers that so many digits stand for, with a factor for all elements along
 * these axes. */
Value *digits_rounded(Build *b, Value *v, int digits, int naxes, const int *axes);

#endif
