/* Where intermediates live, and the scratch of launches: offsets in the workspace, or in tensors
 * that are made later.
 *
 * They are taken by size, largest first, and each is put at the lowest offset where it
 * meets no slot already placed whose life overlaps ("greedy by size": Pisarchyk and Lee, Efficient
 * memory management for deep neural net inference, 2020).  Quadratic in the number of slots, which
 * is the number of intermediates between kernels; done once for a combination of sizes.
 *
 * At the end of a backward most gradients of parameters are there, and few intermediates.  Memory
 * of the gradients that come late holds intermediates before. */

#include <stdlib.h>
#include <string.h>

#include "plan.h"

enum {
    LARGEST_OWN = 1 << 26, /* bytes: larger values get their own blocks, if any do */
    WORTH_OWN = 128, /* the part of the peak that makes own blocks worthwhile */
    MAPPED = 1 << 25, /* bytes of a block that malloc maps, and gives back, each time */
    WORTH_MAPPED = 8, /* the part that makes such blocks worthwhile: each call clears their pages */
};

int64_t
slot_span(const Slot *slot, const int64_t *values)
{
    int64_t last = 0, reach;
    bool many = false;
    for (int ax = 0; ax < slot->rank; ax++) {
        int64_t size = values[slot->sizes[ax]];
        if (size <= 0) { /* below 0: of a size that no call has bound yet */
            return 0;
        }
        many |= __builtin_mul_overflow(size - 1, values[slot->strides[ax]], &reach);
        many |= __builtin_add_overflow(last, reach, &last);
    }
    return many || last >= MOST_ELEMENTS ? MOST_ELEMENTS : last + 1;
}

int64_t
slot_bytes(const Slot *slot, const int64_t *values)
{
    return slot_span(slot, values) * dtype_info[slot->dtype].bytes;
}

bool
slots_fit(const Plan *plan, const int64_t *values)
{
    for (int k = 0; k < plan->nslots; k++) {
        if (slot_span(&plan->slots[k], values) == MOST_ELEMENTS) {
            return false;
        }
    }
    return true;
}

/* Does each element have memory of its own?  Axes are visited from the shortest stride on: each
 * stride has to exceed the span of the axes before it. repeated: an axis of stride 0 is allowed,
 * because the elements along it are equal: an expanded tensor. */
static bool
is_non_overlapping(const Slot *slot, const int64_t *values, bool repeated)
{
    int order[MAX_RANK], n = 0;
    for (int ax = 0; ax < slot->rank; ax++) {
        int at = n;
        if (values[slot->sizes[ax]] < 1) {
            return true;
        }
        if (values[slot->sizes[ax]] == 1 || (repeated && values[slot->strides[ax]] == 0)) {
            continue;
        }
        for (; at > 0 && values[slot->strides[order[at - 1]]] > values[slot->strides[ax]]; at--) {
            order[at] = order[at - 1];
        }
        order[at] = ax;
        n++;
    }
    int64_t reach = 0;
    for (int k = 0; k < n; k++) {
        int64_t stride = values[slot->strides[order[k]]];
        if (stride <= reach) {
            return false;
        }
        reach += (values[slot->sizes[order[k]]] - 1) * stride;
    }
    return true;
}

bool
results_do_not_overlap(const Plan *plan, const int64_t *sizes, const int64_t *values)
{
    for (int k = plan->ndeclared; k < plan->nsizes; k++) {
        if (sizes[k] == SIZE_UNKNOWN) {
            return true; /* what depends on it is not known yet */
        }
    }
    for (int k = 0; k < plan->nsteps; k++) {
        const Step *step = &plan->steps[k];
        if (step->kind == STEP_ALLOC &&
            !is_non_overlapping(&plan->slots[step->slot], values, true)) {
            return false;
        }
    }
    for (int k = 0; k < plan->nresults; k++) {
        const PlanResult *r = &plan->results[k];
        if (r->kind == RESULT_INTO && !is_non_overlapping(&plan->slots[r->of], values, false)) {
            return false;
        }
    }
    return true;
}

static bool
is_in_workspace(const Plan *plan, const Instance *inst, int slot)
{
    int root = plan->slots[slot].root;
    return plan->slots[root].kind == SLOT_WORK && !inst->home[root];
}

static bool
any_in_workspace(const Plan *plan, const Instance *inst, int n, const int *slots)
{
    bool in = false;
    for (int k = 0; k < n && !in; k++) {
        in = is_in_workspace(plan, inst, slots[k]);
    }
    return in;
}

bool
step_in_workspace(const Plan *plan, const Instance *inst, const Step *step)
{
    if (step->kind == STEP_COPY) {
        return is_in_workspace(plan, inst, step->slot) || is_in_workspace(plan, inst, step->from);
    }
    if (step->kind == STEP_FLOW) {
        const Flow *flow = &plan->flows[step->flow];
        return any_in_workspace(plan, inst, flow->nargs, flow->args) ||
               any_in_workspace(plan, inst, flow->nres, flow->res) ||
               any_in_workspace(plan, inst, flow->carries, flow->other);
    }
    if (step->kind != STEP_LAUNCH) {
        return false;
    }
    const Launch *launch = &plan->launches[step->launch];
    bool in = inst->scratch[step->launch] && !inst->home[plan->nslots + step->launch];
    return in || any_in_workspace(plan, inst, launch->nbuffers, launch->buffers);
}

/* For a WORK slot, or for the scratch of launch `slot - nslots`. */
typedef struct {
    int slot;
    int64_t bytes;
} Want;

typedef struct {
    int first, last; /* steps */
} Life;

static int
larger_first(const void *a, const void *b)
{
    const Want *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : x->slot - y->slot;
}

/* The WORK slots on their way to a place.  Region 0 is the workspace, region k + 1 the memory of
 * lender k. */
typedef struct {
    const Plan *plan;
    Instance *inst;
    Want *wants; /* largest first */
    int nwants;
    int64_t *bytes; /* by Want.slot */
    Life *life;
    int64_t least_own; /* a value of this size has its own block */
    int *placed[MOST_LENDERS + 1], count[MOST_LENDERS + 1]; /* by region: sorted by offset */
} Placing;

/* The lowest offset at which `want` fits between the values in the region. */
static int64_t
lowest_gap(const Placing *p, const Want *want, int region)
{
    const Life *life = &p->life[want->slot];
    int64_t offset = 0;
    for (int k = 0; k < p->count[region]; k++) {
        int there = p->placed[region][k];
        const Life *other = &p->life[there];
        if (other->last < life->first || life->last < other->first) {
            continue;
        }
        int64_t at = p->inst->work_at[there], end = at + p->bytes[there];
        if (at >= offset + want->bytes) {
            break;
        }
        offset = end > offset ? end : offset;
    }
    return offset;
}

/* False: the region of `room` bytes is full. */
static bool
place_in(Placing *p, const Want *want, int region, int64_t room)
{
    int64_t *at = p->inst->work_at, offset = lowest_gap(p, want, region);
    if (room - want->bytes < offset) {
        return false;
    }
    int *placed = p->placed[region], k = p->count[region]++;
    for (; k > 0 && at[placed[k - 1]] > offset; k--) {
        placed[k] = placed[k - 1];
    }
    placed[k] = want->slot;
    at[want->slot] = offset;
    p->inst->home[want->slot] = region ? p->inst->lenders[region - 1].slot + 1 : 0;
    return true;
}

/* In the memory of a tensor that is made after the last use. */
static bool
borrow(Placing *p, const Want *want)
{
    const Life *life = &p->life[want->slot];
    for (int k = 0; k < p->inst->nlenders; k++) {
        Lender *lender = &p->inst->lenders[k];
        int64_t room = p->bytes[lender->slot];
        if (life->last < p->life[lender->slot].first && place_in(p, want, k + 1, room)) {
            lender->before = life->first < lender->before ? life->first : lender->before;
            return true;
        }
    }
    return false;
}

static void
place_own(Placing *p, const Want *want)
{
    Instance *inst = p->inst;
    const Life *life = &p->life[want->slot];
    inst->own[inst->nown++] = (OwnBlock){want->slot, life->first, life->last, want->bytes};
    inst->home[want->slot] = -inst->nown;
    inst->work_at[want->slot] = 0;
}

/* Returns the peak. */
static int64_t
place_all(Placing *p)
{
    Instance *inst = p->inst;
    inst->workspace = 0;
    inst->nown = 0;
    memset(p->count, 0, sizeof p->count);
    for (int k = 0; k < inst->nlenders; k++) {
        inst->lenders[k].before = p->life[inst->lenders[k].slot].first;
    }
    for (int k = 0; k < p->nwants; k++) {
        const Want *want = &p->wants[k];
        if (want->bytes >= p->least_own) {
            place_own(p, want);
        } else if (!borrow(p, want)) {
            place_in(p, want, 0, INT64_MAX);
            int64_t end = inst->work_at[want->slot] + want->bytes;
            inst->workspace = end > inst->workspace ? end : inst->workspace;
        }
    }
    return instance_peak(p->plan, inst);
}

static bool
binds_sizes(const Plan *plan)
{
    bool binds = false;
    for (int k = 0; k < plan->nsteps; k++) {
        binds |= step_binds(plan, &plan->steps[k]);
    }
    return binds;
}

/* Lists the tensors that the call makes, by size.  None if calls bind sizes, which change the
 * positions. */
static int
list_lenders(Placing *p, Want *list)
{
    int n = 0, steps = binds_sizes(p->plan) ? 0 : p->plan->nsteps;
    for (int k = 0; k < steps; k++) {
        const Step *step = &p->plan->steps[k];
        const Slot *slot = &p->plan->slots[step->slot];
        int64_t bytes = step->kind == STEP_ALLOC ? slot_bytes(slot, p->inst->values) : 0;
        if (bytes >= DLC_LENT) {
            p->bytes[step->slot] = bytes / DLC_LINE * DLC_LINE;
            list[n++] = (Want){step->slot, bytes};
        }
    }
    qsort(list, (size_t)n, sizeof *list, larger_first);
    return n < MOST_LENDERS ? n : MOST_LENDERS;
}

static int
earlier_first(const void *a, const void *b)
{
    return ((const Lender *)a)->before - ((const Lender *)b)->before;
}

/* Each of the largest tensors lends its memory if the call takes less at once that way: it is alive
 * for longer, the workspace is smaller. */
static int64_t
place_lent(Placing *p, Want *list)
{
    Instance *inst = p->inst;
    inst->nlenders = 0;
    int64_t least = place_all(p), workspace = inst->workspace;
    int n = workspace >= DLC_LENT ? list_lenders(p, list) : 0;
    for (int k = 0; k < n; k++) {
        inst->lenders[inst->nlenders++].slot = list[k].slot;
        int64_t peak = place_all(p);
        if (peak < least || (peak == least && inst->workspace < workspace)) {
            least = peak;
            workspace = inst->workspace;
        } else {
            inst->nlenders--;
        }
    }
    if (n) {
        place_all(p);
    }
    qsort(inst->lenders, (size_t)inst->nlenders, sizeof *inst->lenders, earlier_first);
    return least;
}

/* The workspace is as large as the most that is in it at once, from its first value to its last.
 * Where less is alive at once by a share worth it if large values have blocks of their own, they
 * do: those from a size on, the largest of the sizes that are about as good.  (The largest value
 * of a U-Net with eight images has 33 MiB: a block for it made the call 5 % slower, for 1.5 % of
 * the peak.) */
static void
place_best(Placing *p, Want *list)
{
    p->least_own = INT64_MAX;
    int64_t least = place_lent(p, list), best = INT64_MAX;
    bool worth = p->inst->workspace >= DLC_OWN && !binds_sizes(p->plan) && !p->plan->inner;
    int64_t share = worth && p->wants[0].bytes >= MAPPED ? WORTH_MAPPED : WORTH_OWN;
    for (int64_t size = LARGEST_OWN; worth && size >= DLC_OWN; size /= 4) {
        p->inst->nlenders = 0;
        p->least_own = size;
        int64_t peak = place_all(p);
        if (peak < least - least / share) {
            least = peak;
            best = size;
        }
    }
    p->least_own = best;
    place_lent(p, list);
}

/* The scratch of a launch: threads without a piece of work need none. */
static int64_t
scratch_bytes(const Plan *plan, const Instance *inst, int launch)
{
    const Launch *l = &plan->launches[launch];
    int64_t pieces = l->in_order ? 1 : inst->values[l->extent] / inst->grain[launch], bytes;
    int64_t threads = pieces < inst->threads ? pieces : inst->threads;
    bool many = __builtin_mul_overflow(inst->scratch[launch], threads > 1 ? threads : 1, &bytes);
    return many || bytes > INT64_MAX / 4 ? INT64_MAX / 4 : bytes; /* so much is never there */
}

static void
list_wants(Placing *p)
{
    const Plan *plan = p->plan;
    for (int k = 0; k < plan->nslots; k++) {
        const Slot *slot = &plan->slots[k];
        p->life[k] = (Life){slot->first, slot->last};
        if (slot->kind == SLOT_WORK) {
            int64_t want = slot_bytes(slot, p->inst->values);
            p->bytes[k] = (want + DLC_LINE - 1) / DLC_LINE * DLC_LINE;
            p->wants[p->nwants++] = (Want){k, p->bytes[k]};
        }
    }
    for (int k = 0; k < plan->nsteps; k++) {
        const Step *step = &plan->steps[k];
        if (step->kind == STEP_LAUNCH && p->inst->scratch[step->launch]) {
            int at = plan->nslots + step->launch;
            p->life[at] = (Life){k, k};
            p->bytes[at] = scratch_bytes(plan, p->inst, step->launch);
            p->wants[p->nwants++] = (Want){at, p->bytes[at]};
        }
    }
    qsort(p->wants, (size_t)p->nwants, sizeof *p->wants, larger_first);
}

bool
memory_plan(const Plan *plan, Instance *inst)
{
    size_t n = (size_t)(plan->nslots + plan->nlaunches) + 1;
    Placing p = {.plan = plan, .inst = inst};
    Want *list = malloc(((size_t)plan->nsteps + 1) * sizeof *list);
    int *placed = malloc(n * (MOST_LENDERS + 1) * sizeof *placed);
    p.wants = malloc(n * sizeof *p.wants);
    p.bytes = calloc(n, sizeof *p.bytes);
    p.life = calloc(n, sizeof *p.life);
    bool there = list && placed && p.wants && p.bytes && p.life;
    if (there) {
        for (int k = 0; k <= MOST_LENDERS; k++) {
            p.placed[k] = placed + n * (size_t)k;
        }
        list_wants(&p);
        place_best(&p, list);
        for (int k = 0; k < plan->nsteps; k++) {
            inst->in_work[k] = step_in_workspace(plan, inst, &plan->steps[k]);
        }
        for (int k = 0; k < inst->nown; k++) {
            inst->at_own[inst->own[k].first] = inst->at_own[inst->own[k].last] = true;
        }
        instance_keeps(plan, inst);
    }
    free(list);
    free(placed);
    free(p.wants);
    free(p.bytes);
    free(p.life);
    return there;
}
