/* What is so of the lets of a loop nest, computed once: see facts.c. */
#ifndef DLC_FACTS_H
#define DLC_FACTS_H

#include "map.h"

/* How the offset of an access depends on a loop around it: it is step times the loop's index plus
 * rest, and rest does not contain the index. step: DIM_NONE if the offset does not have this
 * form. */
typedef struct {
    Dim index, step, rest;
} Step;

/* The facts of a load, a store or an update. */
typedef struct {
    Dim offset; /* of its element, in elements */
    int bytes; /* of an element */
    int per_line; /* elements of a line of the caches, which one prefetch takes */
    bool is_private; /* its buffer is declared inside a loop of the kernel */
    bool from_loops; /* loops and sizes give the offset, and no data */
    int nsteps;
    Step *steps; /* one for each loop around, the innermost first */
    Step still; /* for any other index */
} AccessFacts;

/* The facts of a loop or a reduction. */
typedef struct {
    int cost; /* of its own MAP lets, by ops.def */
    int loops; /* in its own block */
    bool is_plain; /* its own lets only compute, load or store, or are buffers or loops */
} LoopFacts;

typedef struct {
    Cx *cx;
    const Let *kernel;
    Map lets; /* by let */
    bool updates; /* one of them is an update */
} Facts;

/* Those of a phase, and of the accesses of the kernel's own block.  They are found once, and kept
 * with the function while only marks change. */
const Facts *facts_of_phase(const Fn *fn, const Let *phase);
/* To be called by a rewrite that changes anything else. */
void facts_forget(Fn *fn);
const AccessFacts *facts_access(const Facts *facts, const Let *access);
const LoopFacts *facts_loop(const Facts *facts, const Let *loop);
/* The step of the access along the loop index; NULL: the steps are not constant. */
const Step *facts_step(const Facts *facts, const Let *access, Dim index);
/* Are its elements adjacent along the index? */
bool facts_contiguous(const Facts *facts, const Let *access, Dim index);
/* Does the load read a tensor that may have to come from memory, at a place that loops give? */
bool facts_from_memory(const Facts *facts, const Let *load);
/* The offset of a load whose elements are adjacent along the index, without the index; DIM_NONE for
 * others. */
Dim facts_row(const Facts *facts, const Let *load, Dim index);
/* The distance in bytes from what a load in a loop or reduction reads to what it prefetches, by its
 * mark; 0: it has none.  `rows`: the loop that goes on to coming rows.  The reduction loads `least`
 * bytes at a time. */
int facts_prefetched(const Facts *facts, const Let *load, const Let *rows, int64_t least);
/* The load of adjacent elements that is all that a reduction reduces, as they are compared; or
 * NULL. */
const Let *facts_reduced_row(const Facts *facts, const Let *reduce);
/* Does the reduction run in lanes in the C for gcc?  That to a place needs such a row, or an array
 * in which the place is looked for. */
bool facts_in_lanes(const Facts *facts, const Let *reduce);
/* The bytes of an element, 4 or 8, if the access goes along adjacent elements of a tensor; else
 * 0. */
int facts_adjacent_bytes(const Facts *facts, const Let *access, Dim index);
/* Are they adjacent along the loop `rows`, and *step apart along the vector loop `inner` in it, at
 * places that neither reads from memory? */
bool facts_transposed(const Facts *facts, const Let *load, const Let *rows, const Let *inner,
                      Dim *step);

/* The cost of one iteration of a loop, with the loops in it; that of all of them.  An extent that
 * depends on loops around counts as in their first iterations. */
Dim work_of_iteration(Cx *cx, const Let *loop);
Dim work_of_loop(Cx *cx, const Let *loop);

/* ---- straight.c ---- */

/* The runs of a vector loop: the lets between two of its inner loops. */
typedef struct {
    const Facts *facts;
    const Let *loop;
    int *runs, *bind_runs; /* where a value is made, by Value.id; a bound index */
    bool *crosses; /* by Value.id: used in another run than its own */
    const Let **binds;
    bool *bind_crosses;
    int nbinds;
} Straight;

/* nvalues: of the function. */
Straight straight_runs(const Facts *facts, const Let *loop, int nvalues);
/* Does the let in the loop leave a value, an index or a buffer to other runs? */
bool straight_leaves(const Straight *t, const Let *let);
bool straight_in_arrays(const Straight *t); /* is all that they leave marked array? */
/* Do the attributes of the let, or the offset of its access, use the name? */
bool facts_uses(const Facts *facts, const Let *let, Dim name);

#endif
