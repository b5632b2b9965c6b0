/* One program, run in every way and compared. */
#ifndef DLC_RUN_H
#define DLC_RUN_H

#include "gen.h"

enum { RUN_TCC = 1, RUN_CC = 2, RUN_C = 4 };    /* the last by the portable C */

#define FUZZ_FIRST_STAGE "graph"        /* parsing, verifying, interpreting */

typedef Fn *Generator(Cx *cx, uint64_t seed);

/* What to run: a text, or when it is NULL what `generate` makes of the seed.  tiers: RUN_ bits.
 * damaged: the text may be no program, or one that the interpreter does not run.  limited: each way
 * may do `fuel` single rewrites and no more.  laid_out: the sizes are drawn around those of
 * panels.  scheduled: marks of the loops are drawn too, and the loops written to files; loops: see
 * schedules.h.  chooses: loops come to stand in choices, see choices.h.  exact: the interpreter's
 * loops of target cc have the bits of the tiers. */
typedef struct {
    uint64_t seed;
    const char *text, *loops;
    Generator *generate;
    unsigned tiers;
    bool damaged, limited, laid_out, scheduled, chooses, exact;
    int64_t fuel;
} Case;

/* Fails (cx_try) with what differs where.  In `stage` stands which way was under way, for crashes.
 * Returns the fuel that the passes have left, 0 or less when they used or needed all of it. */
int64_t run_case(Cx *cx, const Case *c, void (*stage)(const char *name));

#endif
