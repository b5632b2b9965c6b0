/* Frozen parameters that products read: found by weights.c, replaced by codes.c. */
#ifndef DLC_WEIGHTS_H
#define DLC_WEIGHTS_H

#include "fusion/group.h"

/* A parameter, or a view of one with other axes or another dtype. */
typedef struct {
    int weight; /* position in the list, -1: none */
    bool sliced;
    signed char axis[MAX_RANK]; /* along which an axis of the parameter runs, -1: along none */
} Seen;

typedef struct {
    const Fn *fn;
    Seen *seen; /* by Value.id */
    Weight *weights;
    int n;
} Finder;

Weight *weight_of(const Finder *f, const Value *v); /* of which v is a view; NULL: of none */
/* Finds again which value is a view of which of these n weights: weights_find returns fewer than it
 * has looked at. */
Finder weights_again(const Fn *fn, int n, const Weight *weights);

/* ---- pairs.c: codes of four bits ---- */

bool pairs_hold(const Value *v); /* Are they whole numbers from 0 to 15? */
Value *pairs_make(Build *b, Value *v, int axis, Dim n); /* n: how many pairs */
Value *pairs_read(Build *b, Value *pairs, int axis); /* as u8 */
Value *pairs_low(Build *b, Value *v); /* the low bits alone: v itself, whose text then says so */
const Type *pairs_type(Cx *cx, const Type *t, int axis);

#endif
