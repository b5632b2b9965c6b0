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

int change_count(void);
const char *change_name(Cx *cx, int change);
double change_gain(int change); /* of the row, as a logarithm of times */
/* The phases that run at these sizes. */
int change_phases(const Fn *loops, const CallSizes *sizes);
/* The loops of the target cc with the change, in one of these phases or, SCOPE_ALL, in all of them.
 * NULL: there is nothing to change, or the verifier refuses it everywhere. */
const Fn *change_make(const Fn *loops, const CallSizes *sizes, int change, int phase);

/* ---- model.c: which change to try first ---- */

/* What each change has gained so far on this machine, by the bytes that a kernel accesses. */
typedef struct Model Model;

Model *model_new(Cx *cx,
                 const char *noted); /* noted: what model_text made once, any text, or NULL */
double model_expects(const Model *model, int change, double bytes);
/* gain: the logarithm of the time before over the time after. */
void model_learns(Model *model, int change, double bytes, double gain);
const char *model_text(Cx *cx, const Model *model);

#endif
