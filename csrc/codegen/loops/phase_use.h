/* What a phase of a kernel uses, see phase_use.c. */
#ifndef DLC_PHASE_USE_H
#define DLC_PHASE_USE_H

#include "facts.h"
#include "jam.h"

typedef struct {
    Value **buffers; /* that are not private, in the order of their first use */
    int nbuffers;
    Dim bytes; /* of these, together */
    const Let **lets; /* outside of loops that the phase uses, in order; no buffers */
    int nlets;
} PhaseUse;

/* What the phase uses; phase is a loop, or an if marked phase, in a root block. */
PhaseUse phase_use(const Fn *fn, const Let *phase);
/* Puts a phase's buffers in the order in which the shared loops access them.  A target's own may
 * have another one, and its text may be emitted without that of others. */
void phase_order(int n, Value **buffers, const PhaseUse *shared);

/* Does the kernel write to the buffer? */
bool is_written_in(const Value *buffer, const Let *kernel);

/* The parallel loops of a phase, outermost first: nothing stands between them, so they run as one.
 * Returns how many. */
int phase_parallel(const Let *phase, const Let *loops[MAX_LOOPS]);

/* Do the steps of the phase run in pieces, one after the other?  Between two pieces a user may
 * interrupt them, and faster code may take over.  Each reads anew what stands before the loop, so
 * the loop must not write that. */
bool phase_in_order(const PhaseUse *use, const Let *phase);
/* The loops whose iterations are those of a launch: these steps, or the parallel loops. */
int phase_launched(const PhaseUse *use, const Let *phase, const Let *loops[MAX_LOOPS]);

/* The loop of a phase, or the first one of an if marked phase. */
const Let *phase_loop(const Let *phase);
/* The size in whose value alone the loops of an if marked phase, at lets[at], differ: all that is
 * in them is the same, and so are their marks.  DIM_NONE: there is more. */
Dim phase_size_between(const Fn *fn, const Block *blk, int at);

/* A phase as a rewrite sees it. */
typedef struct {
    Fn *fn;
    Let *loop;
    const Facts *facts;
    Nest nest; /* its parallel loops */
} PhaseView;

/* Calls `visit` for each phase of the block, a kernel's own or a choice's, where the conditions of
 * its choices are assumed. */
void phases_each(Fn *fn, const Block *root, void (*visit)(Fn *fn, Let *phase, void *arg),
                 void *arg);
/* Visits the phases of all kernels of the function; returns fn. */
Fn *phases_visit(Fn *fn, void (*visit)(const PhaseView *phase, const void *arg), const void *arg);

/* Calls `visit` for each loop and reduction of each phase, first for the outer ones.  Those in one
 * for which it returns false are left out, and calls of microkernels.  Returns fn. */
Fn *loops_visit(Fn *fn, bool (*visit)(const PhaseView *phase, Let *loop));

/* The same of one phase, for a visitor that keeps something: arg. */
void phase_visit_loops(const PhaseView *phase, bool (*visit)(Let *loop, void *arg), void *arg);

/* Calls `visit` for each loop whose iterations may run together: one that runs in no other way, of
 * the parallel loops, which run as one, the innermost one that is none of elements.  Phases with
 * updates have none. */
Fn *phases_visit_rows(Fn *fn, void (*visit)(const PhaseView *phase, Let *rows));

#endif
