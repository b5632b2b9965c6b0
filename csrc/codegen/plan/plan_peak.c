/* How much memory a call takes: known from the plan and the sizes, before it runs.
 *
 * What:     the bytes of the workspace, and the most that are alive at once with the tensors that
 *           the call makes and those that it was given to free.
 * Requires: values of all declared sizes.  A tensor whose size a call binds counts as empty.
 * How:      the steps in order, as plan_run.c does them: a tensor lives from the step that makes it
 *           to the one that frees it, the workspace from the first step that has something in it to
 *           a call that frees it, and so again, large tables of slots for the whole call.
 * Why not   count what an operator of the library takes and gives back inside of its call: how much
 *           that is says only torch's memory profiler, of a call that has run.  Who has asked it
 *           (dlc/report/inside.py) gives the bytes of each call.
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

/* The bytes of tensors that are made early, before step `at`. */
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

/* The change of the bytes alive by the step. */
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

/* The bytes of parameters that the call may free, by parameter; returns their sum. */
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

/* The bytes of blocks whose life begins with step `at`, minus those of blocks whose life has ended
 * before it. */
static int64_t
own_change(const Instance *inst, int at)
{
    int64_t bytes = 0;
    for (int k = 0; k < inst->nown; k++) {
        bytes += inst->own[k].first == at ? inst->own[k].bytes : 0;
        bytes -= inst->own[k].last == at - 1 ? inst->own[k].bytes : 0;
    }
    return bytes;
}

/* The bytes of tensors and blocks at each step, and those of the workspace. */
typedef struct {
    const Plan *plan;
    const Instance *inst;
    int at; /* the step */
    int64_t alive, workspace;
} Walk;

static Walk
walk_begin(const Plan *plan, const Instance *inst, int64_t *given)
{
    return (Walk){plan, inst, -1, given_bytes(plan, inst, given), 0};
}

static bool
walk_on(Walk *w)
{
    if (++w->at == w->plan->nsteps) {
        w->alive += own_change(w->inst, w->at);
        return false;
    }
    const Step *step = &w->plan->steps[w->at];
    w->alive += made_before(w->plan, w->inst, w->at) + change_of(w->plan, w->inst, step) +
                own_change(w->inst, w->at);
    if (step_in_workspace(w->plan, w->inst, step)) {
        w->workspace = w->inst->workspace;
    } else if (w->inst->frees[w->at] || (w->inst->work_end >= 0 && w->at > w->inst->work_end)) {
        w->workspace = 0;
    }
    return true;
}

/* The memory of a loop or branch, without its operands and results.  For a branch, that of the body
 * that takes more. */
static int64_t
inside_flow(const Instance *inst, const Flow *flow)
{
    int64_t most = 0;
    for (int k = 0; k < 2 && flow->bodies[k].plan; k++) {
        const Body *body = &flow->bodies[k];
        int64_t *sizes = calloc((size_t)body->plan->nsizes + 1, sizeof *sizes);
        PlanMemory memory = {0};
        for (int j = 0; sizes && j < body->plan->ndeclared; j++) {
            sizes[j] = inst->values[body->sizes[j]];
        }
        bool known = sizes && plan_memory_for(body->plan, sizes, &memory, NULL);
        most = known && memory.peak > most ? memory.peak : most;
        free(sizes);
    }
    return most;
}

/* The bytes that a call of the library may use for copies, or the body of a loop or branch. */
static int64_t
copied(const Walk *w)
{
    const Step *step = &w->plan->steps[w->at];
    int64_t bytes = 0;
    if (step->kind == STEP_FLOW) {
        return inside_flow(w->inst, &w->plan->flows[step->flow]);
    }
    if (step->kind == STEP_CALL) {
        const Call *call = &w->plan->calls[step->call];
        bytes = made_by_call(w->plan, w->inst, call);
        for (int k = 0; k < call->nargs; k++) {
            bytes += slot_bytes(&w->plan->slots[call->args[k]], w->inst->values);
        }
    }
    return bytes;
}

static int64_t
most_with_copies(const Plan *plan, const Instance *inst)
{
    Walk w = walk_begin(plan, inst, NULL);
    int64_t most = w.alive;
    while (walk_on(&w)) {
        int64_t now = w.alive + w.workspace + copied(&w);
        most = now > most ? now : most;
    }
    return most;
}

/* The workspace is given back before calls of the library across which nothing lives in it. */
static void
set_frees(const Plan *plan, Instance *inst)
{
    for (int k = 0; k < plan->nsteps; k++) {
        bool call = plan->steps[k].kind == STEP_CALL && !plan->inner;
        inst->frees[k] = call && inst->workspace >= DLC_FREED;
        for (int j = 0; j < plan->nslots && inst->frees[k]; j++) {
            const Slot *slot = &plan->slots[j];
            inst->frees[k] = !(slot->kind == SLOT_WORK && !inst->home[j] && slot->first < k &&
                               slot->last > k);
        }
    }
}

/* ... and after the last step that needs it, if less is alive at once that way. */
int64_t
instance_peak(const Plan *plan, Instance *inst)
{
    set_frees(plan, inst);
    inst->work_end = -1;
    int64_t kept = most_with_copies(plan, inst);
    int end = plan->nsteps - 1;
    while (end >= 0 && !step_in_workspace(plan, inst, &plan->steps[end])) {
        end--;
    }
    inst->work_end = inst->workspace >= DLC_FREED && !plan->inner ? end : -1;
    int64_t freed = inst->work_end >= 0 ? most_with_copies(plan, inst) : kept;
    inst->work_end = freed < kept ? end : -1;
    return freed < kept ? freed : kept;
}

/* The bytes of a result that step k makes, which may take the place of kept memory. */
static int64_t
made_at(const Plan *plan, const Instance *inst, int k)
{
    const Step *step = &plan->steps[k];
    bool made = step->kind == STEP_ALLOC && !is_lender(inst, step->slot);
    int64_t bytes = made ? slot_bytes(&plan->slots[step->slot], inst->values) : 0;
    return bytes >= DLC_POOLED ? bytes : 0;
}

/* Goes backwards from the end, because keeping the memory that is freed last hinders least.  Kept
 * memory is freed when results of other sizes are made. */
void
instance_keeps(const Plan *plan, Instance *inst)
{
    int64_t *now = calloc((size_t)plan->nsteps + 1, sizeof *now), peak = 0, room = INT64_MAX / 4;
    memset(inst->keeps, 0, (size_t)plan->nsteps);
    if (!now) {
        return; /* nothing is kept */
    }
    Walk w = walk_begin(plan, inst, NULL);
    while (walk_on(&w)) {
        now[w.at] = w.alive + w.workspace + copied(&w);
        peak = now[w.at] > peak ? now[w.at] : peak;
    }
    for (int k = plan->nsteps - 1; k >= 0; k--) {
        const Step *step = &plan->steps[k];
        bool frees = step->kind == STEP_FREE && plan->slots[step->slot].kind == SLOT_PARAM;
        int64_t bytes = frees ? slot_bytes(&plan->slots[step->slot], inst->values) : 0;
        if (bytes >= DLC_POOLED && room >= bytes) {
            inst->keeps[k] = true;
            room -= bytes;
        }
        room = (peak - now[k] < room ? peak - now[k] : room) + made_at(plan, inst, k);
    }
    free(now);
}

void
instance_memory(const Plan *plan, const Instance *inst, const int64_t *inside, PlanMemory *out,
                int64_t *given)
{
    int64_t table = plan->nslots > FEW_SLOTS ? plan->nslots * (int64_t)sizeof(PlanObject) : 0;
    Walk w = walk_begin(plan, inst, given);
    int64_t most = w.alive;
    while (walk_on(&w)) {
        const Step *step = &plan->steps[w.at];
        bool asked = inside && step->kind == STEP_CALL;
        int64_t own = asked                     ? inside[plan->calls[step->call].site]
                      : step->kind == STEP_FLOW ? copied(&w)
                                                : 0;
        int64_t now = w.alive + w.workspace + own;
        most = now > most ? now : most;
    }
    out->workspace = inst->workspace;
    out->peak = table + most;
    out->left = w.alive;
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
        instance_memory(plan, inst, NULL, out, given);
    }
    instance_unref(inst);
    free(known);
    return fits;
}
