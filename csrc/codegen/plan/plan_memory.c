/* Where intermediates live: offsets in the workspace.
 *
 * Slots are taken by size, largest first, and each is put at the lowest offset where it
 * meets no slot already placed whose life overlaps ("greedy by size": Pisarchyk and Lee, Efficient
 * memory management for deep neural net inference, 2020).  Quadratic in the number of slots, which
 * is the number of intermediates between kernels; done once for a combination of sizes. */

#include <stdlib.h>

#include "plan.h"

int64_t
slot_span(const Slot *slot, const int64_t *values)
{
    int64_t last = 0, reach;
    bool many = false;
    for (int ax = 0; ax < slot->rank; ax++) {
        int64_t size = values[slot->sizes[ax]];
        if (size <= 0) {            /* below 0: of a size that no call has bound yet */
            return 0;
        }
        many |= __builtin_mul_overflow(size - 1, values[slot->strides[ax]], &reach);
        many |= __builtin_add_overflow(last, reach, &last);
    }
    return many || last >= MOST_ELEMENTS ? MOST_ELEMENTS : last + 1;
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

/* Has each element memory of its own?  Axes are looked at from the shortest stride on: each has to
 * reach past all that the ones before it span.  repeated: an axis of stride 0 is as good, as what
 * is made there is the same along it: an expanded tensor. */
static bool
is_apart(const Slot *slot, const int64_t *values, bool repeated)
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
results_are_apart(const Plan *plan, const int64_t *sizes, const int64_t *values)
{
    for (int k = plan->ndeclared; k < plan->nsizes; k++) {
        if (sizes[k] == SIZE_UNKNOWN) {
            return true;        /* what depends on it is not known yet */
        }
    }
    for (int k = 0; k < plan->nsteps; k++) {
        const Step *step = &plan->steps[k];
        if (step->kind == STEP_ALLOC && !is_apart(&plan->slots[step->slot], values, true)) {
            return false;
        }
    }
    for (int k = 0; k < plan->nresults; k++) {
        const PlanResult *r = &plan->results[k];
        if (r->kind == RESULT_INTO && !is_apart(&plan->slots[r->of], values, false)) {
            return false;
        }
    }
    return true;
}

typedef struct {
    int slot;
    int64_t bytes;
} Want;

static int
larger_first(const void *a, const void *b)
{
    const Want *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : x->slot - y->slot;
}

/* The lowest offset at which `want` fits beside the first `n` of `placed`, which are sorted by
 * offset. */
static int64_t
lowest_gap(const Plan *plan, const Want *want, const int *placed, int n, const int64_t *at,
           const int64_t *bytes)
{
    const Slot *slot = &plan->slots[want->slot];
    int64_t offset = 0;
    for (int k = 0; k < n; k++) {
        const Slot *other = &plan->slots[placed[k]];
        if (other->last < slot->first || slot->last < other->first) {
            continue;
        }
        if (at[placed[k]] >= offset + want->bytes) {
            break;
        }
        int64_t end = at[placed[k]] + bytes[placed[k]];
        offset = end > offset ? end : offset;
    }
    return offset;
}

int64_t
memory_plan(const Plan *plan, const int64_t *values, int64_t *work_at)
{
    size_t n = (size_t)plan->nslots + 1;
    Want *wants = malloc(n * sizeof *wants);
    int *placed = malloc(n * sizeof *placed);
    int64_t *bytes = calloc(n, sizeof *bytes), total = -1;
    int count = 0;
    if (wants && placed && bytes) {
        for (int k = 0; k < plan->nslots; k++) {
            const Slot *slot = &plan->slots[k];
            if (slot->kind == SLOT_WORK) {
                int64_t want = slot_span(slot, values) * dtype_info[slot->dtype].bytes;
                bytes[k] = (want + DLC_LINE - 1) / DLC_LINE * DLC_LINE;
                wants[count++] = (Want){k, bytes[k]};
            }
        }
        qsort(wants, (size_t)count, sizeof *wants, larger_first);
        total = 0;
        for (int k = 0; k < count; k++) {
            int slot = wants[k].slot, j = k;
            work_at[slot] = lowest_gap(plan, &wants[k], placed, k, work_at, bytes);
            for (; j > 0 && work_at[placed[j - 1]] > work_at[slot]; j--) {
                placed[j] = placed[j - 1];
            }
            placed[j] = slot;
            int64_t end = work_at[slot] + bytes[slot];
            total = end > total ? end : total;
        }
    }
    free(wants);
    free(placed);
    free(bytes);
    return total;
}
