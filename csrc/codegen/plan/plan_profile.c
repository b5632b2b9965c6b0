/* What the steps of a call took, for those who ask (dlc.explain).
 *
 * A profile keeps the fastest call since it was begun, with its Instance, which says how large
 * everything was; and the least seconds of each step in calls of these sizes: a step may have been
 * interrupted in the fastest one.  A call that nobody profiles has no part in this. */
#include <stdlib.h>
#include <string.h>

#include "plan_run.h"

struct Profile {
    const Plan *plan;
    Instance *inst;             /* of the fastest call, NULL: there was none */
    double *seconds;            /* by step, the least of calls with `inst` */
    double best;
    int64_t calls;
};

Profile *
call_profile_new(const Plan *plan)
{
    Profile *profile = calloc(1, sizeof *profile);
    if (!profile ||
        !(profile->seconds = calloc((size_t)plan->nsteps + 1, sizeof *profile->seconds))) {
        free(profile);
        return NULL;
    }
    profile->plan = plan;
    return profile;
}

void
call_profile_free(Profile *profile)
{
    if (profile) {
        instance_unref(profile->inst);
        free(profile->seconds);
        free(profile);
    }
}

void
call_profile_begin(Profile *profile)
{
    lock_take(LOCK_profiles);
    profile->calls = 0;
    lock_give(LOCK_profiles);
}

void
call_profile_add(Profile *profile, Instance *inst, const double *seconds, double total)
{
    Instance *old = NULL;
    lock_take(LOCK_profiles);
    bool first = !profile->calls++, faster = first || total < profile->best;
    bool alike = !first && inst == profile->inst;       /* of the same sizes */
    for (int k = 0; k < profile->plan->nsteps; k++) {
        if (alike ? seconds[k] < profile->seconds[k] : faster) {
            profile->seconds[k] = seconds[k];
        }
    }
    if (faster) {
        old = profile->inst;
        atomic_fetch_add(&inst->refs, 1);
        profile->inst = inst;
        profile->best = total;
    }
    lock_give(LOCK_profiles);
    instance_unref(old);
}

/* ---- reading: no call is under way ---- */

bool
call_profile_summary(const Profile *profile, ProfileSummary *out)
{
    if (!profile->inst) {
        return false;
    }
    *out = (ProfileSummary){
        .calls = profile->calls,
        .seconds = profile->best,
        .nsteps = profile->plan->nsteps,
        .nslots = profile->plan->nslots,
        .nsizes = profile->plan->nsizes,
    };
    return true;
}

void
call_profile_memory(const Profile *profile, const int64_t *inside, PlanMemory *out, int64_t *given)
{
    instance_memory(profile->plan, profile->inst, inside, out, given);
}

void
call_profile_step(const Profile *profile, int k, ProfileStep *out)
{
    static const char *const kinds[] = {"alloc", "view", "launch", "call", "copy", "free", "flow"};
    const Plan *plan = profile->plan;
    const Step *step = &plan->steps[k];
    *out = (ProfileStep){.kind = step->kind == STEP_FLOW ? flow_word(plan, step)
                                                         : kinds[step->kind],
                         .seconds = profile->seconds[k],
                         .kernel = -1,
                         .site = -1};
    if (step->kind == STEP_LAUNCH) {
        const Launch *launch = &plan->launches[step->launch];
        const int64_t *values = profile->inst->values;
        out->kernel = launch->use;
        out->node = launch->node;
        out->source = launch->source;
        out->symbol = code_name(launch->code, launch->entry);
        out->tier = code_tier(launch->code, launch->entry);
        out->slots = launch->buffers;
        out->nslots = launch->nbuffers;
        out->extent = values[launch->extent];
        out->operations = launch->counted ? values[launch->operations] : 0;
    } else if (step->kind == STEP_CALL) {
        const Call *call = &plan->calls[step->call];
        out->site = call->site;
        out->slots = call->args;
        out->nslots = call->nargs;
        out->results = call->res;
        out->nresults = call->nres;
    } else if (step->kind == STEP_FLOW) {
        const Flow *flow = &plan->flows[step->flow];
        out->node = flow->name;
        out->slots = flow->args;
        out->nslots = flow->nargs;
        out->results = flow->res;
        out->nresults = flow->nres;
    } else if (step->kind == STEP_COPY) {
        out->slots = &step->from;
        out->results = &step->slot;
        out->nslots = out->nresults = 1;
    } else {
        out->slots = &step->slot;
        out->nslots = 1;
    }
}

void
call_profile_slot(const Profile *profile, int k, ProfileSlot *out)
{
    static const char *const kinds[] = {"param", "work", "tensor", "view", "scalar"};
    const Slot *slot = &profile->plan->slots[k];
    *out = (ProfileSlot){
        .kind = kinds[slot->kind], .dtype = slot->dtype, .rank = slot->rank, .root = slot->root};
    for (int ax = 0; ax < slot->rank; ax++) {
        out->sizes[ax] = profile->inst->values[slot->sizes[ax]];
    }
    out->bytes = slot_bytes(slot, profile->inst->values);
}

const char *
call_profile_size(const Profile *profile, int k, int64_t *value)
{
    *value = profile->inst->sizes[k];
    return profile->plan->size_names[k];
}

/* ---- operations ---- */

static Dim
elements_of(Cx *cx, const Type *t)
{
    Dim n = dim_int(cx, 1);
    for (int ax = 0; t && ax < t->rank; ax++) {
        n = dim_mul(cx, n, t->dims[ax]);
    }
    return n;
}

/* Of n operations of a contraction, those whose terms are not left out, as far as is known. */
static Dim
without_left_out(Cx *cx, const Let *let, const Contraction *c, Dim n)
{
    const Type *a = let->args[0]->type, *b = let->args[1]->type;
    for (int k = c->where.first.place ? -1 : 0; k < c->where.nlater; k++) {
        const Within *w = k < 0 ? &c->where.first : &c->where.later[k];
        Dim ats = letter_dim(c, a, b, w->at), places = letter_dim(c, a, b, w->place);
        int64_t count = within_count(cx, w, ats, places);
        n = count <= 0 ? n
                       : dim_mul(cx, dim_div(cx, n, dim_mul(cx, ats, places)), dim_int(cx, count));
    }
    return n;
}

static Dim
operations_of(Cx *cx, const Let *let)
{
    Dim n = dim_int(cx, 0);
    if (op_info[let->op].kind == KIND_MAP && let->nres) {
        n = elements_of(cx, let->res[0]->type);
    } else if (op_info[let->op].kind == KIND_RED && let->nargs) {
        n = elements_of(cx, let->args[0]->type);
    } else if (let->op == OP_contract) {
        const Contraction *c = let_contraction(let);
        n = dim_mul(cx, dim_int(cx, 2), elements_of(cx, let->res[0]->type));
        for (int k = 0; k < c->nsum; k++) {
            n = dim_mul(cx, n, letter_dim(c, let->args[0]->type, let->args[1]->type, c->sum[k]));
        }
        n = without_left_out(cx, let, c, n);
    }
    for (int k = 0; let->body && k < let->body->n; k++) {
        n = dim_add(cx, n, operations_of(cx, let->body->lets[k]));
    }
    return n;
}

Dim
call_profile_operations(Cx *cx, const Let *kernel)
{
    return operations_of(cx, kernel);
}
