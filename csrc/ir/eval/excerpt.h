/* A part of a function's computation, as a separate program: see excerpt.c. */
#ifndef DLC_EXCERPT_H
#define DLC_EXCERPT_H

#include "ir/ir.h"

/* n elements along each axis, from number `first` on. */
typedef struct {
    int rank;
    int64_t first[MAX_RANK], n[MAX_RANK];
} Box;

/* A parameter of the part: a box of a parameter of the whole function. */
typedef struct {
    const Value *of;
    Box box;
} ExcerptParam;

typedef struct {
    Fn *fn; /* of the graph stage, its sizes are numbers */
    int result; /* of fn: the box */
    ExcerptParam *params; /* by position in fn->params */
    double cost; /* elements that it computes, terms of sums among them */
    bool more; /* it may compute elements that the whole would not, if it computed the boxes only */
} Excerpt;

/* sizes: by position in fn->sizes. */
Box excerpt_whole(const Fn *fn, const int64_t *sizes, const Type *t);
/* The program that computes these boxes of values of the graph stage, which may be inside a
 * kernel. */
Excerpt *excerpt_new(const Fn *fn, const int64_t *sizes, int n, Value *const *values,
                     const Box *boxes);

#endif
