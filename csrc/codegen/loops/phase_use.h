/* What a phase of a kernel uses, see phase_use.c. */
#ifndef DLC_PHASE_USE_H
#define DLC_PHASE_USE_H

#include "loops.h"

typedef struct {
    const bool *used; /* by Value.id: the phase uses it */
    Value **buffers; /* that are not private, in the order of their first use */
    int nbuffers;
    Dim bytes; /* of these, together */
} PhaseUse;

/* phase: a loop in the kernel's own block. */
PhaseUse phase_use(const Fn *fn, const Let *phase);

/* The parallel loops of a phase, outermost first: nothing stands between them, so they run as one.
 * Returns how many. */
int phase_parallel(const Let *phase, const Let *loops[MAX_LOOPS]);

#endif
