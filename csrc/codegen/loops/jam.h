/* Rows that run two at a time, see jam.c. */
#ifndef DLC_JAM_H
#define DLC_JAM_H

#include "loops.h"

/* The parallel loops of a phase, which run as one. */
typedef struct {
    Cx *cx;
    const Let *const *parallel; /* outermost first */
    int n;
} Nest;

/* How often the loop's body runs in the phase, if the loop is a parallel one or in the last of
 * them. */
Dim nest_iterations(const Nest *nest, const Let *loop);
/* The iterations of the longest reduction marked joint in the rows; the same of all rows. */
Dim jam_row(Cx *cx, const Let *rows);
Dim jam_elements(const Nest *nest, const Let *rows);

#endif
