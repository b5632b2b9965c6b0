/* Loops marked micro, see product.c. */
#ifndef DLC_PRODUCT_H
#define DLC_PRODUCT_H

#include "facts.h"

/* The loops and loads of one. */
typedef struct {
    const Let *rows; /* marked micro */
    const Let *panels; /* or NULL */
    const Let *columns, *sum;
    const Let *a, *b; /* the loads of the factors: of a row, of a column */
    bool each; /* each column has elements of the rows of its own */
    bool packed; /* the columns are those of panels */
} Product;

Product product_of(const Facts *facts, const Let *micro);

/* Adjacent elements of a tensor; of: NULL where there are none. */
typedef struct {
    const Value *of;
    Dim from, count;
} Span;

/* The rows of the next tile, if the innermost loop around goes on to other rows and the same
 * panels; and, as of the other, the loops around the call alone give where they are. */
Span product_next_rows(const Facts *facts, const Product *p);
/* A call's part of the first `most` elements of what is packed next. */
Span product_next_pack(const Facts *facts, const Product *p, int64_t most);

#endif
