/* The common header of the interpreter. */
#ifndef DLC_EVAL_H
#define DLC_EVAL_H

#include "ir/ir.h"

/* ---- eval_map.c: one element in its compute dtype ---- */

typedef union {
    uint8_t b;
    int32_t i;
    int64_t l;
    float f;
    double d;
    dlc_c128 z;
} Elem;

Elem elem_load(Dtype dtype, const void *p);
void elem_store(Dtype dtype, Elem s, void *p);      /* rounds and wraps */
Elem elem_cast(Dtype from, Dtype to, Elem s);
Elem elem_literal(Dtype dtype, Literal literal);

/* ---- eval.c ---- */

/* A size symbol or a loop index with its value; the latest of a name counts. */
typedef struct {
    Dim name;
    int64_t value;
} Known;

typedef struct {
    const Fn *fn;
    Cx *cx;
    Tensor *values;             /* by Value.id; dense */
    uint8_t **written; /* by Value.id: elements of buffers and of loops kernels' results */
    Known *known;
    int nknown, room;
    EvalMap *map;
    uint64_t noise;             /* the state of random numbers; 0: there is no noise */
    bool *noisy;                /* by Value.id: has it moved? */
    int beyond;                 /* which of the results beyond all numbers this run tries */
} Eval;

/* A function with all sizes given, run so. */
void eval_fn_how(const Fn *fn, EvalHow how, const int64_t *sizes, const Tensor *in, Tensor *out);
int64_t eval_dim(Eval *e, Dim d);
void eval_know(Eval *e, Dim name, int64_t value);
const Tensor *eval_value(Eval *e, const Value *v); /* of a name that has been evaluated */
/* Dense memory for a value; its former contents are lost. */
Tensor *eval_make(Eval *e, const Value *v);
void eval_block(Eval *e, const Block *blk);
void tensor_copy(const Tensor *to, const Tensor *from); /* of one shape and dtype */

/* ---- eval_sizes.c ---- */

/* Solves the sizes that are SIZE_UNKNOWN and checks all, and the arguments by them. */
void eval_solve(const Fn *fn, const Tensor *in, int64_t *values);

/* ---- eval_node.c: reductions, views, nodes of the graph ---- */

/* The state of a reduction that has read some of its terms. */
typedef struct {
    Op op;
    Dtype dtype;
    int64_t count, i, at;
    double f, size;             /* size: the sum of absolute values of the finite terms */
    double lost;                /* of a sum: what the roundings of f took from it */
    bool above, below;          /* of a sum: is a term above 0, or below? */
    double most, least;         /* the product of the factors above 1, and of those below */
} Fold;

Fold fold_start(Op op, Dtype dtype);
void fold_step(Fold *fold, const void *element, int64_t position);
void fold_end(Cx *cx, const Fold *fold, Dtype to, void *out);
void eval_red(Eval *e, const Let *let);
void eval_view(Eval *e, const Let *let);
void eval_node(Eval *e, const Let *let);

/* ---- noise.c ---- */

void noise_of_let(Eval *e, const Let *let); /* after it has been evaluated */
void noise_of_fold(Eval *e, const Let *let, const Fold *fold, void *element); /* of a reduction */

/* ---- eval_contract.c ---- */

void eval_contract(Eval *e, const Let *let);
Elem eval_multiply_add(Dtype wide, Elem x, Elem y, Elem sum); /* x*y + sum, rounded once */

/* ---- eval_flow.c: loops and branches ---- */

void eval_flow(Eval *e, const Let *let);

/* ---- eval_loops.c: kernels and what stands in their loops ---- */

void eval_kernel(Eval *e, const Let *let);
void eval_loop_node(Eval *e, const Let *let);

#endif
