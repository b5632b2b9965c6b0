/* What a reduction reduces, if that is little more than what it loads: see term.c. */
#ifndef DLC_TERM_H
#define DLC_TERM_H

#include "grid.h"

/* What is reduced: of x, and of y beside it or NULL. */
typedef struct {
    const char *form; /* load, square, mul, square_sub */
    const Let *x; /* a load */
    const Value *y;
    int lets; /* of the body that this takes in */
} Term;

/* Is the body of one of the forms, all of it? */
bool term_find(const Let *reduce, Dtype dtype, Term *term);
/* The load that v is, or the cast of to the dtype that it is computed in; NULL: none.  Adds the
 * lets that this takes. */
const Let *term_load(const Block *body, const Value *v, Dtype compute, int *lets);
/* Has strips.def a member of the family, such as "down", that reduces such a term of what a tensor
 * of the dtype has? */
bool term_has_strip(const char *family, Op red, const char *form, Dtype dtype);
/* Does a call of one strip add all steps of the reduction, in sequence, to a tile? */
bool term_goes_down(const Let *reduce);

/* Is the load of elements that are adjacent in the tile, or of one for all, at even steps along the
 * loop? */
bool term_has_rows(const Facts *facts, const Tile *tile, const Let *load, Dim along);
/* Does such a call do so in the tile?  Outside of loops marked tile. */
bool term_goes_down_in(const Facts *facts, const Tile *tile, const Let *reduce, Dtype dtype,
                       Term *term);
/* Does one call reduce a block of a row, of what it loads?  Outside of loops marked tile. */
bool term_goes_along(const Facts *facts, const Tile *tile, const Let *reduce, Dtype dtype,
                     Term *term);
/* The load of a sum's rows, each of which begins where a gather says, and is read element by
 * element; NULL: it is no such sum. */
const Let *term_gathered(const Facts *facts, const Tile *tile, const Let *reduce, Dtype dtype);
/* The load of the only index that such a row is gathered by, if the next row's follow in memory; or
 * NULL.  Of indices with strides of their own it is not known where they end. */
const Let *term_next_indices(const Facts *facts, const Let *reduce, const Let *row);

#endif
