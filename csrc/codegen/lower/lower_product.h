/* What lower_contract.c tells lower_tiles.c about a product. */
#ifndef DLC_LOWER_PRODUCT_H
#define DLC_LOWER_PRODUCT_H

#include "lower.h"

/* An operand: where its elements are in memory, over the names of the letters. */
typedef struct {
    Value *from;
    Dim at[MAX_RANK], offset;
    bool panels;                /* packed already: its last two axes are those of a panel */
} Factor;

typedef struct {
    Lower *lo;
    const Let *let;
    Contraction letters;
    Dim name[128];              /* by letter: a bare index, or 0 if the letter has one element */
    Dim at[128];                /* by letter: its index in the operands, over that name */
    bool swapped;               /* the columns are of the first operand */
    Factor a, b;                /* the row operand and the column operand */
    Dim column; /* the columns, if both operands have their letter; else DIM_NONE */
    bool runs; /* sums go through runs of the row operand */
    int nsum;
    Dim sum[MAX_RANK], sum_extent[MAX_RANK]; /* the summed letters of more than one element */
    Dim nsums; /* terms of a sum, without those that a mask excludes */
    Dtype dtype; /* of the sums */
    Nest batch, rows, columns; /* the other letters, by the operands that have them */
} Product;

/* lower_contract.c: do the summed letters advance the offset as one axis would? */
bool product_is_one_sum(const Product *p, Dim offset);
/* lower_pack.c: packs the column operand before the phase, if it is the same for each block; false:
 * it is not. */
bool product_pack(Product *p);
bool product_may_pack(const Product *p);
/* lower_tiles.c: the indices of the summed letters at index `at` of the sum; the loops. */
void product_digits(const Product *p, Dim at, Dim *digits);
void lower_tiles(const Product *p, const Group *g);

#endif
