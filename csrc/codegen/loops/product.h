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
    const Let *store; /* of a sum */
    bool adds; /* to what is there */
    bool each; /* each column has elements of the rows of its own */
    bool packed; /* the columns are those of panels */
} Product;

Product product_of(const Facts *facts, const Let *micro);

/* A sum on three levels of even steps: elements of a run, runs of a group, and groups. */
typedef struct {
    Dim at, from; /* where element 0 is, at index 0; the number at that index */
    Dim run, runs; /* elements of a run, runs of a group */
    Dim step, next, jump; /* between elements, runs and groups */
} ProductRuns;

/* Finds the runs of an offset over p; false: it has none that a call can follow. */
bool product_runs(Cx *cx, Dim offset, Dim p, ProductRuns *found);

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
/* 0 where the call reads the panels for the first time of several: in the first iteration of the
 * innermost loop that changes the rows alone; without such a loop always.  Never for panels that
 * were just packed, because they are in a cache. */
Dim product_first_time(const Facts *facts, const Product *p);
/* Where a tile is stored after its last product: the first store in the loops that follow it that
 * goes along the tile's columns, to what is declared before it.  `at` is where the first row
 * begins, `row` the elements from row to row; as if the row in which a tile begins had no end where
 * it goes on in the next row of an image.  The loops around the call give both.  store: NULL if
 * there is no such one. */
typedef struct {
    const Let *store;
    Dim at, row;
} ProductResult;
ProductResult product_result(const Facts *facts, const Let *micro, const Value *tile);

#endif
