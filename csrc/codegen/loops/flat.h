/* Many short rows as one long one, see flat.c. */
#ifndef DLC_FLAT_H
#define DLC_FLAT_H

#include "facts.h"

/* How the elements of the rows are stored: contiguous, the same for all rows, or otherwise. */
typedef enum { CONTIGUOUS, SHARED, OTHER } RowLayout;

/* A loop over rows, and the loop of one. */
typedef struct {
    const Facts *facts;
    const Let *rows;
    const Let *loop; /* NULL: there is none */
    int64_t n; /* elements of a row; 0: it is not a number */
} Flat;

Flat flat_of(const Facts *facts, const Let *rows);
/* The rows' own let from number *k on, or NULL: there are no more. */
Let *flat_next_let(const Flat *f, int *k);
#define FOR_ROW_LETS(let, f) for (int k_ = 0; let = flat_next_let(f, &k_), let != NULL;)
/* Does the let's position, or the number that it is, differ from row to row? */
bool flat_has_row(const Flat *f, const Let *let);
/* The offset of the row's first element where the rows are contiguous, or DIM_NONE. */
Dim flat_row(const Flat *f, const Let *access);
RowLayout flat_layout(const Flat *f, const Let *let);
/* Does a load, or an index as a number, need an array that stands for it? */
bool flat_needs_array(const Flat *f, const Let *let);
/* Does the inner loop use the value of this let, which is computed once for a row? */
bool flat_is_spread(const Flat *f, const Let *let);

#endif
