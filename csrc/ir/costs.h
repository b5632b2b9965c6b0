/* The rows of costs.def as constants, and estimates where sizes are symbols. */
#ifndef DLC_COSTS_H
#define DLC_COSTS_H

#include "ir/ir.h"

enum {
#define COST(name, value, what) COST_##name = value,
#include "ir/costs.def"
};

/* ---- estimate.c: numbers of elements and bytes where sizes are symbols ---- */

/* The value, at least 0, if each name is COST_TYPICAL or the nearest value in its range. */
int64_t dim_typical(Cx *cx, Dim d);
int64_t dim_typical_least(Cx *cx, Dim d);       /* a lower bound in typical programs */
int64_t dims_typical(Cx *cx, int n, const Dim *dims);   /* the elements of these typical sizes */
int64_t type_typical_bytes(Cx *cx, const Type *t);
int64_t dims_most(Cx *cx, int n, const Dim *dims);      /* the most elements, or DIM_INF */

/* ---- math/cost.c: operations, in quarters of a cycle for an element of a vectorised loop ---- */

int cost_op(Op op, Dtype dtype);                /* dtype: of the arithmetic; or DTYPE_COUNT */
Dtype cost_dtype(const Let *let);               /* that of a MAP let; DTYPE_COUNT: of constants */
int cost_let(const Let *let);

#endif
