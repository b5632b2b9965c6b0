/* How much memory a call takes: known from the plan and the sizes, before it runs.
 *
 * What:     the bytes of the workspace, and the most that are alive at once with the tensors that
 *           the call makes and those that it was given to free.
 * Requires: values of all declared sizes.  A tensor whose size a call binds counts as empty.
 * How:      the steps in order, as plan_run.c does them: a tensor lives from the step that makes it
 *           to the one that frees it, the workspace from the first step that has something in it to
 *           a call that frees it, and so again, large tables of slots for the whole call.
 * Why not   count what an operator of the library takes and gives back inside of its call: nothing
 *           says how much that is.
 */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

static int64_t
made_by_call(const Plan *plan, const Instance *inst, const Call *call)
{
    int64_t bytes = 0;
    for (int k = 0; k < call->nres; k++) {
        bytes += slot_bytes(&plan->slots[call->res[k]], inst->values);
    }
    return bytes;
}

static bool
is_lender(const Instance *inst, int slot)
{
    bool lends = false;
    for (int k = 0; k < inst->nlenders; k++) {
        lends |= inst->lenders[k].slot == slot;
    }
    return lends;
}

/* Of tensors that are made early, before step `at`. */
static int64_t
made_before(const Plan *plan, const Instance *inst, int at)
{
    int64_t bytes = 0;
    for (int k = 0; k < inst->nlenders; k++) {
        const Lender *lender = &inst->lenders[k];
        bytes += lender->before == at ? slot_bytes(&plan->slots[lender->slot], inst->values) : 0;
    }
    return bytes;
}

/* What the step changes of the bytes that are alive. */
static int64_t
change_of(const Plan *plan, const Instance *inst, const Step *step)
{
    const Slot *slot = &plan->slots[step->slot];
    switch (step->kind) {
    case STEP_ALLOC:
        return is_lender(inst, step->slot) ? 0 : slot_bytes(&plan->slots[step->slot], inst->values);
    case STEP_CALL:
        return made_by_call(plan, inst, &plan->calls[step->call]);
    case STEP_FREE:
        return slot->kind == SLOT_VIEW ? 0 : -slot_bytes(&plan->slots[step->slot], inst->values);
    default:
        return 0;
    }
}

/* Of the parameters that the call was given to free, by parameter; returns their sum. */
static int64_t
given_bytes(const Plan *plan, const Instance *inst, int64_t *given)
{
    int64_t bytes = 0;
    for (int k = 0; k < plan->nsteps; k++) {
        const Step *step = &plan->steps[k];
        if (step->kind == STEP_FREE && plan->slots[step->slot].kind == SLOT_PARAM) {
            int64_t own = slot_bytes(&plan->slots[step->slot], inst->values);
            bytes += own;
            if (given) {
                given[step->slot] = own;
            }
        }
    }
    return bytes;
}

void
instance_memory(const Plan *plan, const Instance *inst, PlanMemory *out, int64_t *given)
{
    int rows = plan->nslots + plan->nparams + plan->nresults; /* with the caller's tables */
    int64_t table = plan->nslots > FEW_SLOTS ? rows * (int64_t)sizeof(PlanTensor) : 0;
    int64_t alive = given_bytes(plan, inst, given), most = alive, workspace = 0;
    for (int k = 0; k < plan->nsteps; k++) {
        const Step *step = &plan->steps[k];
        alive += made_before(plan, inst, k) + change_of(plan, inst, step);
        if (step_in_workspace(plan, inst, step)) {
            workspace = inst->workspace;
        } else if (step->kind == STEP_CALL && plan_frees(inst, &plan->calls[step->call])) {
            workspace = 0;
        }
        most = alive + workspace > most ? alive + workspace : most;
    }
    out->workspace = inst->workspace;
    out->peak = table + most;
    out->left = alive;
}

bool
plan_memory_for(Plan *plan, const int64_t *sizes, PlanMemory *out, int64_t *given)
{
    int64_t *known = calloc((size_t)plan->nsizes + 1, sizeof *known);
    Instance *inst = NULL;
    if (known) {
        memcpy(known, sizes, (size_t)plan->ndeclared * sizeof *known);
        for (int k = plan->ndeclared; k < plan->nsizes; k++) {
            known[k] = SIZE_UNKNOWN;
        }
        inst = instance_get(plan, known);
    }
    bool fits = inst && !inst->too_many;
    if (fits) {
        instance_memory(plan, inst, out, given);
    }
    instance_unref(inst);
    free(known);
    return fits;
}
