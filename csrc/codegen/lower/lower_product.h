/* What lower_contract.c tells lower_tiles.c about a product. */
#ifndef DLC_LOWER_PRODUCT_H
#define DLC_LOWER_PRODUCT_H

#include "lower.h"

/* An operand: where its elements are in memory, over the names of the letters. */
typedef struct {
    Value *from;
    Dim at[MAX_RANK], offset;
    bool panels;                /* packed already: the last two axes are those of a panel */
} Factor;

typedef struct {
    Lower *lo;
    const Let *let;
    Contraction letters;
    Dim name[128];              /* of a letter: a bare index, or 0 where there is one element */
    Dim at[128];                /* the index that it is over that name */
    bool swapped;               /* the first operand is that of the columns */
    Factor a, b;                /* of rows and of columns */
    Dim column;                 /* the columns are those of a letter that both operands have; DIM_NONE: they are not */
    bool runs;                  /* sums go through runs of the operand of the rows */
    int nsum;
    Dim sum[MAX_RANK], sum_extent[MAX_RANK];    /* the summed letters of more than one element */
    Dim nsums;                  /* terms of a sum: all of them, but for bounds */
    Dtype dtype;                /* of the sums */
    Nest batch, rows, columns;  /* the other letters, by the operands that have them */
} Product;

/* lower_contract.c: do the summed letters advance the offset as one would? */
bool product_is_one_sum(const Product *p, Dim offset);
/* lower_pack.c: packs the operand of the columns before the phase, if it is the same for each block.  False: it is not. */
bool product_pack(Product *p);
bool product_may_pack(const Product *p);
/* lower_tiles.c: the indices of the summed letters at one index of the sum; the loops. */
void product_digits(const Product *p, Dim at, Dim *digits);
void lower_tiles(const Product *p, const Group *g);

#endif
