/* Lets that one vector primitive does together, see pairs.c. */
#ifndef DLC_PAIRS_H
#define DLC_PAIRS_H

#include "grid.h"

/* What one strip computes together with a let: another let, whose value nothing else uses. */
typedef struct {
    const char *strip; /* NULL: nothing */
    const char *mirrored; /* for the first's operands the other way round, or NULL */
    const Let *first;
    /* what makes the second operand, see TWICE and BOTH in fused.def; else NULL */
    const Let *other;
    int minus; /* of a sum: 1 + the operand to subtract, as a factor's neg is left out; else 0 */
    bool through; /* of that neg: its operand stands for it */
    /* of a load: the sum of two products of loads that it is one of, or NULL */
    const Let *in_place;
    bool taken; /* the let itself may be such a first */
    const Let *user; /* of an index: the let that compares it, and nothing else uses it */
    bool half; /* of a load: its one user takes it as it is in memory */
    bool folded; /* a reduction may take it in */
} Pair;

typedef struct {
    Cx *cx;
    Pair *of; /* by Value.id of the let's result */
    const int *uses; /* by Value.id: how often something reads it */
    bool possible; /* of all lets, not of marked ones alone */
} Pairs;

/* Of the lets in a kernel's block that are marked merged. */
Pairs *pairs_find(Cx *cx, int nvalues, const Block *root);
/* Of all of its lets: which could be. */
Pairs *pairs_possible(Cx *cx, int nvalues, const Block *root);
/* Does the strip of its only user have the let, which has a result? */
bool pairs_merge(const Pairs *p, const Let *let);

/* ---- the primitive that computes a let ---- */

enum { OPERANDS = 4 };

/* A strip by its name, and its operands. */
typedef struct {
    const char *strip;
    Op op; /* of one operation alone */
    const Value *args[OPERANDS];
    Dtype dtypes[OPERANDS]; /* of literals among them */
    int nargs;
    unsigned mask; /* of operands that are one element for all of the tile */
} Primitive;

/* Does the let's strip compute those that it takes in?  What is one for all of the tile is computed
 * by itself.  Of float32 and float64. */
bool pairs_takes(const Pairs *p, const Tile *tile, const Let *let);
/* The strip of an operation, taken: and of those that it takes in. */
Primitive pairs_primitive(const Pairs *p, const Tile *tile, const Let *let, bool taken);
/* The strips that do more than the one of this name, NULL: there is none.  It reduces a block of
 * what that makes; adds it to its last operand; stores it nontemporally. */
const char *pairs_fold(Op red, const char *strip);
const char *pairs_step(Op red, const char *strip);
const char *pairs_bypassing(const char *strip, unsigned mask);

/* Is it a comparison that an index may be left to? */
bool let_compares(const Let *let);
/* A store of the let's value to a result of the kernel, which nobody reads before and which shares
 * memory with no operand but the one that it is in place of: it may come early. */
const Let *pairs_store(const Pairs *p, const Let *let);
/* The store that puts rows into the result at once, and how that walks; NULL: they need a tile. */
const Let *pairs_in_place_store(const Pairs *p, const Facts *facts, const Tile *tile,
                                const Let *let, Walk *walk);
/* Is the load's the operand of one strip that takes four rows where they are?  Outside of loops
 * marked tile. */
bool pairs_in_place(const Pairs *p, const Facts *facts, const Tile *tile, const Let *load);
/* Is it, as the store is marked?  The strip for halves does that too. */
bool pairs_are_in_place(const Pairs *p, const Facts *facts, const Tile *tile, const Let *load);

/* ---- elements in turn: several loads or stores are one strip ---- */

enum { ZIPPED = 4 };

typedef struct {
    const Let *parts[ZIPPED]; /* that of the first element first */
    int n;
    Walk walk; /* of the access at hand */
} Zip;

/* Finds the accesses beside this one that together touch every element; false: not all are there,
 * or one twice.  Outside of grids and loops marked tile. */
bool zip_find(const Facts *facts, const Tile *tile, const Let *access, Zip *zip);
/* Does one primitive do them all? */
bool zip_is_marked(const Zip *zip);

#endif
