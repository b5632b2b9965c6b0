/* Products of tensors by letters: aten_product.c and aten_einsum.c. */
#ifndef DLC_ATEN_PRODUCT_H
#define DLC_ATEN_PRODUCT_H

#include "capture/aten/aten.h"

/* The letters for the '.' of term_of, outermost first. */
#define REST "PONMLKJIHGFEDCBA"

/* A tensor with a letter for each axis. */
typedef struct {
    Value *v;
    int n;
    char letters[MAX_RANK];
} Term;

/* The argument as a term. `letters` may begin with '.', which is for all remaining axes: .., B, A.
 * False: it is no tensor with as many axes. */
bool term_of(const Arg *a, const char *letters, Term *out);
/* x = x * y, summed over the letters that are not in `keep`.  An axis of one element repeats along
 * a longer one of its letter.  to: the dtype of the result.  false: this is not computed. */
bool term_multiply(Aten *n, Term *x, const Term *y, const char *keep, Dtype to);
/* Permutes the axes of the term to the order of `letters`, which names all of them. */
Value *term_ordered(Aten *n, const Term *x, const char *letters, int count);
/* The dtype of the result, if the arguments first .. last are tensors of it and it has products;
 * DTYPE_COUNT. */
Dtype product_dtype(const Aten *n, int first, int last);

#endif
