/* Reductions whose terms need little arithmetic on what they load: see term.c. */
#ifndef DLC_TERM_H
#define DLC_TERM_H

#include "grid.h"

/* A term: its form, the load x, and the second operand y or NULL. */
typedef struct {
    const char *form; /* load, square, mul, square_sub */
    const Let *x; /* a load */
    const Value *y;
    int lets; /* of the body that this takes in */
} Term;

/* Is the body of one of the forms, all of it? */
bool term_find(const Let *reduce, Dtype dtype, Term *term);
/* The load that makes v, directly or through a cast to the compute dtype; NULL: there is none.
 * Adds the number of these lets to *lets. */
const Let *term_load(const Block *body, const Value *v, Dtype compute, int *lets);
/* Has strips.def a member of the family, such as "down", that reduces terms of this form of a
 * tensor of the dtype? */
bool term_has_strip(const char *family, Op red, const char *form, Dtype dtype);
/* Does a call of one strip add all steps of the reduction, in sequence, to a tile? */
bool term_goes_down(const Let *reduce);

/* Does the load read adjacent elements in the tile, or one for all, and advance by equal steps
 * along the loop? */
bool term_has_rows(const Facts *facts, const Tile *tile, const Let *load, Dim along);
/* Does a call of one strip do so in this tile?  Outside of loops marked tile. */
bool term_goes_down_in(const Facts *facts, const Tile *tile, const Let *reduce, Dtype dtype,
                       Term *term);
/* Does one call load and reduce a block of a row?  Outside of loops marked tile. */
bool term_goes_along(const Facts *facts, const Tile *tile, const Let *reduce, Dtype dtype,
                     Term *term);
/* The load of a sum over gathered rows: each row begins at an index that is data, and is read
 * element by element.  NULL: it is no such sum. */
const Let *term_gathered(const Facts *facts, const Tile *tile, const Let *reduce, Dtype dtype);
/* The load of the only index that such a row is gathered by, if the next row's follow in memory; or
 * NULL.  Of indices with strides of their own it is not known where they end. */
const Let *term_next_indices(const Facts *facts, const Let *reduce, const Let *row);

#endif
