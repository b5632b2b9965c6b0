/* Parameters that kernels write to while others are read: are they disjoint?
 *
 * What:     says whether one of them shares memory with another parameter of a call.
 * Requires: an instance for the sizes of the call.
 * How:      the ranges of memory, sorted; a range that begins before an earlier one ends shares
 *           with it, which counts where one of the two is written to.  A program calls with the
 *           same tensors again and again, so an instance keeps the addresses that were disjoint
 *           last, and compares.
 * Why not:  trust the capture: nothing guards that arguments which were disjoint in the first call
 *           are so in the next.
 */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

typedef struct {
    uintptr_t lo, hi;
    bool written;
} Extent;

static int
lower_first(const void *a, const void *b)
{
    const Extent *x = a, *y = b;
    return x->lo != y->lo ? (x->lo > y->lo) - (x->lo < y->lo) : (x->hi > y->hi) - (x->hi < y->hi);
}

static bool
known_disjoint(Plan *plan, const Instance *inst, const PlanParam *in)
{
    bool same = true;
    plan_lock(plan);
    for (int k = 0; k < plan->nparams && same; k++) {
        same = inst->disjoint[k] == in[k].of.data;
    }
    plan_unlock(plan);
    return same;
}

static void
remember(Plan *plan, Instance *inst, const PlanParam *in)
{
    plan_lock(plan);
    for (int k = 0; k < plan->nparams; k++) {
        inst->disjoint[k] = in[k].of.data;
    }
    plan_unlock(plan);
}

static bool
extents_overlap(Extent *extents, int n)
{
    uintptr_t any = 0, written = 0;     /* ends of what begins before */
    qsort(extents, (size_t)n, sizeof *extents, lower_first);
    for (int k = 0; k < n; k++) {
        const Extent *e = &extents[k];
        if (e->lo < written || (e->written && e->lo < any)) {
            return true;
        }
        any = e->hi > any ? e->hi : any;
        written = e->written && e->hi > written ? e->hi : written;
    }
    return false;
}

bool
params_overlap(Plan *plan, Instance *inst, const PlanParam *in)
{
    if (known_disjoint(plan, inst, in)) {
        return false;
    }
    Extent *extents = calloc((size_t)plan->nparams, sizeof *extents);
    if (!extents) {
        return true;            /* what overlaps costs time, no more */
    }
    int n = 0;
    for (int k = 0; k < plan->nin_place; k++) {
        extents[plan->in_place[k]].written = true;
    }
    for (int k = 0; k < plan->nparams; k++) {
        const Slot *slot = &plan->slots[k];
        uintptr_t at = (uintptr_t)in[k].of.data;
        uintptr_t bytes = (uintptr_t)slot_bytes(slot, inst->values);
        bool written = extents[k].written;
        if (bytes) {
            extents[n++] = (Extent){at, at + bytes, written};
        }
    }
    bool overlap = extents_overlap(extents, n);
    free(extents);
    if (!overlap) {
        remember(plan, inst, in);
    }
    return overlap;
}
