/* Which accesses of a loop nest need the order of its iterations: see dependence.c. */
#ifndef DLC_DEPENDENCE_H
#define DLC_DEPENDENCE_H

#include "ir/ir.h"

/* Where the iteration of the second access is along a loop, seen from that of the first. */
typedef enum { ITERATION_LATER, ITERATION_SAME, ITERATION_EARLIER } Direction;

enum { DEPENDENCE_LOOPS = 8 }; /* around both, whose directions are distinguished */

/* Two accesses of the same memory, of which at least one writes: `to` runs after `from` and may be
 * of the same element.  Where it may be in several directions, there is a dependence for each. */
typedef struct {
    const Let *from, *to;
    int nloops; /* that are around both in the nest, the outermost first */
    const Let *loops[DEPENDENCE_LOOPS];
    Direction directions[DEPENDENCE_LOOPS];
    /* The index of `to` less that of `from`, the same for each pair; DIM_NONE: not known. */
    Dim distances[DEPENDENCE_LOOPS];
} Dependence;

typedef struct {
    int n;
    Dependence *of;
} Dependences;

/* Those of a nest of the loops stage, whose outermost loop is `nest`. */
Dependences dependences_of(Cx *cx, const Let *nest);
/* One that is reversed if the two outermost loops of its nest change places; NULL: there is none,
 * and each access gets what it got. */
const Dependence *dependence_against_interchange(const Dependences *all);
/* "store a[i, j], then load a[i - 1, j + 1]: i later (1), j earlier (-1)" */
void dependence_text(const Cx *cx, const Dependence *d, Text *out);

#endif
