/* Which loops are parts of a product: for the verifier, and for the rewrite that selects calls. */
#ifndef DLC_VERIFY_PRODUCT_H
#define DLC_VERIFY_PRODUCT_H

#include "ir/ir.h"

/* The loops that one call runs, the outermost first: a copy, or sums of products, with nothing
 * beside.  a, b: the loads of the factors, whose sum is the last loop; b is NULL where the loops
 * copy.  adds: to what is at the element. */
enum { CALL_LOOPS = 4 };
typedef struct {
    int nloops;
    const Let *loops[CALL_LOOPS];
    const Let *a, *b, *store;
    bool adds;
} CallNest;

bool call_nest(const Let *outermost, CallNest *nest); /* call_nest.c; false: they are others */
/* Has the `for` the form of V23, apart from its own marks?  Returns the buffer that it copies to,
 * or NULL. */
const Value *loop_packs(Cx *cx, const Let *let);
/* Has the `for` the form of V24, apart from its own marks? */
bool loop_multiplies(Cx *cx, const Let *let);
/* The plain nest of a product, see V57: its innermost loop, its sum, and the loads of the rows and
 * of the columns.  Of a nest with places: the outermost loop over these, and the buffer that they
 * add to, how it begins, and the load of what it has then; else NULL.  computes: what is added is
 * computed of the sum, and not the sum itself. */
typedef struct {
    const Let *columns, *sum, *a, *b;
    const Let *places, *total, *begin, *result;
    bool computes;
} PlainNest;

/* Is the `for` the outermost one of a plain nest? */
bool loop_is_plain_nest(Cx *cx, const Let *let, PlainNest *nest);
/* The let with a body, where the block has one such, and nothing else that stores; or NULL. */
const Let *block_loop(const Block *blk);

#endif
