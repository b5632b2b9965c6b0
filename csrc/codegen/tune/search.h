/* What a search tries: what search.c, model.c and tune.c share. */
#ifndef DLC_SEARCH_H
#define DLC_SEARCH_H

#include "codegen/phase.h"

/* ---- search.c: changes of a schedule ---- */

enum { SCOPE_ALL = -1 };

/* Which loops run at the sizes of a call. */
typedef struct {
    int n;
    const FixedSize *of;
} CallSizes;

int change_count(void); /* of marks */
const char *change_name(Cx *cx, int change); /* of a nest, too */
double change_gain(int change); /* of the row, as a logarithm of times; of a nest, too */
/* The phases that run at these sizes. */
int change_phases(const Fn *loops, const CallSizes *sizes);
/* The loops of the target cc with the change, in one of these phases or, SCOPE_ALL, in all of them.
 * NULL: there is nothing to change, or the verifier refuses it everywhere. */
const Fn *change_make(const Fn *loops, const CallSizes *sizes, int change, int phase);

/* ---- nests.c: changes of the loops themselves ---- */

int nest_count(void); /* their numbers follow those of the changes of marks */
const char *nest_name(int nest);
double nest_gain(int nest); /* of the row */
int nest_loops(const Fn *shared); /* how many loops may be changed */
/* The lines of the schedule with the change at one of these loops, of the loops that all targets
 * share.  NULL: there is nothing to change at these sizes, or the verifier refuses it. */
const char *nest_make(const Fn *shared, const CallSizes *sizes, int nest, int loop);

/* ---- model.c: which change to try first ---- */

/* What each change has gained so far on this machine, by the bytes that a kernel accesses, and how
 * far predictions come true. */
typedef struct Model Model;

Model *model_new(Cx *cx,
                 const char *noted); /* noted: what model_text made once, any text, or NULL */
/* predicted, gain: logarithms of the time before over the time after. */
double model_expects(const Model *model, int change, double bytes, double predicted);
void model_learns(Model *model, int change, double bytes, double gain);
void model_compares(Model *model, double predicted, double measured);
const char *model_text(Cx *cx, const Model *model);

#endif
