/* What the two files of the rewrite share: decode.c finds products, sums.c makes their loops. */
#ifndef DLC_DECODE_H
#define DLC_DECODE_H

#include "codegen/loops/phase_use.h"
#include "codegen/loops/product.h"

/* What stands for values and indices in a copy. */
typedef struct {
    Fn *fn;
    Value **values; /* by Value.id; NULL: the value itself does */
    int nvalues;
    Dim *indices, *by;
    int n;
} Copies;

Copies copies_of(Fn *fn);
void copies_index(Copies *c, Dim index, Dim by);
Value *copied_value(const Copies *c, Value *v);
Dim copied_dim(const Copies *c, Dim d);
/* A copy of a let that is no loop; what it binds is known to the copies, and its marks are gone. */
Let *copied_let(Copies *c, const Let *let, Block *to);

void block_insert(Cx *cx, Block *blk, int at, Let *let);
/* x, if the dim is min(x, n) and n is at least that: conditions on smaller numbers are on x. */
Dim dim_without_limit(Cx *cx, Dim d, int64_t least);
/* Puts plain loops in the place of a loop over rows, whose body is one over columns, which begins
 * with the sum.  few: they stand where that is at most DLC_DECODED_ROWS. */
void decode_sums(Fn *fn, Let *rows, Dim few);

#endif
