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
/* Does a reduction of the rows run in one loop for both of two rows? */
bool jam_is_joint(const Nest *nest, const Let *loop, const Let *rows);
/* The iterations of the longest such reduction; the same of all rows together. */
Dim jam_row(const Nest *nest, const Let *rows);
Dim jam_elements(const Nest *nest, const Let *rows);

#endif
