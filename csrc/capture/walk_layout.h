/* How dense tensors lie in memory: what walk_layout.c and walk_eager.c share. */
#ifndef DLC_WALK_LAYOUT_H
#define DLC_WALK_LAYOUT_H

#include "walk.h"

enum { MAX_OPERANDS = 8 };       /* of an elementwise operation */

/* The stride of an axis of a dense tensor.  torch counts an empty axis as one long, so that for a size
 * which may be 0 it says max(size, 1): the same wherever there is an element. */
typedef struct {
    Dim plain, positive;
} DenseStride;

bool is_dense(DenseStride d, Dim stride);
DenseStride dense_outside(Walk *w, DenseStride d, Dim size);
/* The order of axes, outermost first, in which a tensor of these strides is dense; false if in none. */
bool dense_order(Walk *w, const Type *t, const Dim *strides, int *perm);

/* Tensors as one elementwise operation takes them: strides along the axes of its result, 0 where one repeats. */
typedef struct {
    int n;
    Dim strides[MAX_OPERANDS][MAX_RANK];
} Operands;

/* The order of axes, outermost first, of a dense result: as eager sorts them, by insertion from the last axis on, by
 * the first operand that tells two apart.  false: it depends on sizes known at run time. */
bool eager_order(Walk *w, const Type *t, const Operands *of, int *perm);

#endif
