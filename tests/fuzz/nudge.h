#ifndef FUZZ_NUDGE_H
#define FUZZ_NUDGE_H

#include "ir/ir.h"

typedef struct {
    double roundings;           /* by which sums and products move */
    bool zeros;           /* do zeros that are the largest or smallest element change their sign? */
    int turn;  /* after so many sums and products they move the other way; 0: all the same way */
} Nudge;

/* Floating point sums and products moved by what another order of the same terms might make, and
 * zeros of maxima and minima: how far the results move says how exactly they can be expected. */
Fn *nudge(Fn *fn, const Nudge *by);

#endif
