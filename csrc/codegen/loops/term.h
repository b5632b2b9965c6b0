/* What a reduction reduces, if that is little more than what it loads: see term.c. */
#ifndef DLC_TERM_H
#define DLC_TERM_H

#include "loops.h"

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

#endif
