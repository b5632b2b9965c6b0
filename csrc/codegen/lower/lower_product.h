/* What the files that lower a product tell each other about it. */
#ifndef DLC_LOWER_PRODUCT_H
#define DLC_LOWER_PRODUCT_H

#include "lower.h"

/* An operand: where its elements are in memory, over the names of the letters. */
typedef struct {
    Value *from;
    Dim at[MAX_RANK], offset;
    bool panels;                /* already packed: the last two axes are those of a panel */
    bool computed; /* a phase before computes all of it */
} Factor;

typedef struct {
    Lower *lo;
    const Let *let;
    const Contraction *letters;
    Dim name[128];              /* by letter: a bare index, or 0 if the letter has one element */
    Dim at[128];                /* by letter: its index in the operands, over that name */
    bool swapped;               /* the columns are of the first operand */
    Factor a, b;                /* the row operand and the column operand */
    Dim column; /* the columns, if both operands have their letter; else DIM_NONE */
    bool runs; /* sums go through runs of the row operand */
    int nsum;
    Dim sum[MAX_RANK], sum_extent[MAX_RANK]; /* the summed letters of more than one element */
    Dim nsums; /* terms of a sum, without those that a mask excludes or `where` leaves out */
    Dim from; /* the first index of the first summed letter; DIM_NONE: 0 */
    bool varies; /* sums have different numbers of terms, as `where` leaves some out */
    int nplaces; /* summed letters up to the last later place of `where`: these have loops */
    const Let *collect; /* a contraction that adds the sums of groups, times a number; or NULL */
    int sums; /* which of its operands they are */
    Dim group; /* the index of the group, and their number */
    Dim groups;
    Dtype dtype; /* of the sums */
    Nest batch, rows, columns; /* the other letters, by the operands that have them */
} Product;

/* lower_operands.c.  Operand k, 0 or 1: its index over the names of the letters; where it is in
 * memory, false if it is computed; it as a buffer of the block; the number of elements of the
 * letters that only it and the result have, 0 if that is not known. */
void operand_index(const Product *p, int k, Dim *idx);
bool operand_find(const Product *p, int k, Factor *f);
void operand_materialise(const Product *p, int k);
int64_t operand_own_extent(const Product *p, int k);
/* By how much the bare index advances the offset; DIM_NONE: not by the same each time. */
Dim offset_step(Cx *cx, Dim offset, Dim index);
/* Do the summed letters advance the offset as one axis would?  Do they by even steps on at most
 * three levels, elements of a run, runs, and groups of runs?  A microkernel can follow both. */
bool product_is_one_sum(const Product *p, Dim offset);
bool product_goes_in_runs(const Product *p, Dim offset);
/* Can the row operand be read where it is?  *memory: is it in memory at all? */
bool product_reads_rows(Product *p, bool *memory);
/* Finds both operands if the row operand can be read in place, run by run; false: it cannot.  The
 * elements of a run, or those of the rows, are adjacent.  The column operand is then packed; its
 * last summed letter may be out of order in memory. */
bool product_find_runs(Product *p);
/* Prepares both operands for the tiles; or only the column operand, if both operands have the
 * letter of the columns and the row operand is already found. */
void product_make_operands(Product *p);
void product_make_columns(Product *p);
/* lower_letters.c: plans the loops of the letters, and the number of terms of a sum.  The class of
 * a letter of the result selects its loops: BOTH means the loops around all others. */
void product_plan(Product *p, const Group *g, const Probe *probe);
LetterClass product_class(const Product *p, char letter);
/* lower_pack.c: packs the column operand before the phase, if the operand is the same for each
 * block; false: it is not. */
bool product_pack(Product *p);
bool product_may_pack(const Product *p);
/* The same of a column operand that is not in memory. */
bool product_may_compute(const Product *p);
void product_compute(Product *p);
/* lower_places.c: the extent of a letter in the whole product; the condition in `where` on summed
 * letter number k, NULL if there is none; the number of summed letters up to the last one with a
 * condition; the number of places of the first one, for so many terms; the rows *from .. *to - 1
 * that are summed at this place of letter k, whose index in the row is given. */
Dim product_extent(const Product *p, char letter);
const Within *places_later(const Product *p, int k);
int places_count(const Product *p);
Dim places_first(const Product *p, Dim sums);
void places_rows(const Product *p, int k, Dim index, Dim row, Dim place, Dim *from, Dim *to);
/* lower_letters.c: the indices of the summed letters at index `at` of the sum; the index of the sum
 * at the letters' own indices; how many terms they have from number `first` on. */
void product_digits(const Product *p, Dim at, Dim *digits);
Dim product_sum(const Product *p);
Dim product_terms(const Product *p, int first);
/* lower_contract.c: which operand of the contraction is the cast of a product of integers that the
 * same nest computes, group by group; -1: none is. */
int groups_of(const Lower *lo, const Let *let);
/* lower_plain.c: its plain nest, which `tile` makes tiles of. */
void lower_plain(const Product *p, const Group *g);
/* Computes the group's outputs where the names have these indices, and stores them. */
void product_outputs(Lower *lo, const Group *g, const Renamed *names);
Value *plain_sum(Lower *lo); /* the sum, in the loops of the nest */

#endif
