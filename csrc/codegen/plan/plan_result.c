/* Results: what the caller was promised of each, and the copies that keeping the promise takes. */

#include "plan_build.h"

bool
plan_strides_match(const Builder *b, int slot, const Dim *strides)
{
    for (int ax = 0; ax < b->plan->slots[slot].rank; ax++) {
        if (b->strides[slot][ax] != strides[ax]) {
            return false;
        }
    }
    return true;
}

int
plan_slot_copy(Builder *b, SlotKind kind, const Type *t, const Dim *strides, int from)
{
    int to = plan_slot_new(b, kind, t, strides, dim_int(b->cx, 0));
    if (kind == SLOT_OBJECT) {
        plan_slot_touch(b, to, step_add(b, (Step){.kind = STEP_ALLOC, .slot = to}));
    }
    int at = step_add(b, (Step){.kind = STEP_COPY, .slot = to, .from = from});
    plan_slot_touch(b, to, at);
    plan_slot_touch(b, from, at);
    return to;
}

/* A value that is returned as two results becomes two tensors: the passes may have found them
 * equal, but the caller may write to one. */
static void
result_fresh(Builder *b, int k, PlanResult *r)
{
    const Value *v = b->fn->body->rets[k];
    Dim dense[MAX_RANK];
    type_dense(b->cx, v->type, dense);
    const Dim *strides = b->fn->results[k].strides ? b->fn->results[k].strides : dense;
    int root = b->plan->slots[r->slot].root;
    if (b->plan->slots[root].kind != SLOT_OBJECT || b->taken[root] ||
        !plan_strides_match(b, r->slot, strides)) {
        r->slot = plan_slot_copy(b, SLOT_OBJECT, v->type, strides, r->slot);
        root = r->slot;
    }
    b->taken[root] = true;
}

/* A result that others are views of has become a copy, of a tensor with the same strides: then the
 * others are views of that tensor. */
static void
view_of_copy(Builder *b, int k, PlanResult *r)
{
    const Result *want = &b->fn->results[k];
    int copy = b->plan->results[want->of].slot,
        from = plan_slot_for(b, b->fn->body->rets[want->of]);
    if (copy != from && b->plan->slots[from].root == from && b->plan->slots[r->slot].root == from &&
        b->plan->slots[copy].root == copy && plan_strides_match(b, copy, b->strides[from])) {
        int view = plan_slot_new(b, SLOT_VIEW, b->fn->body->rets[k]->type, b->strides[r->slot],
                                 b->offsets[r->slot]);
        b->plan->slots[view].root = copy;
        r->slot = view;
    }
}

/* A view that needs eager's strides where they address nothing, and which the passes do not keep:
 * those of axes of one element, and all strides of a tensor without elements. */
static void
strides_as_wanted(Builder *b, int k, PlanResult *r)
{
    const Type *t = b->fn->body->rets[k]->type;
    const Dim *have = b->strides[r->slot], *want = b->fn->results[k].strides;
    Dim strides[MAX_RANK], dense[MAX_RANK];
    bool same = true;
    type_dense(b->cx, t, dense);
    want = want ? want : dense;
    for (int ax = 0; ax < t->rank; ax++) {
        bool free = dim_is(b->cx, t->dims[ax], 1) || stride_same(b->cx, t, have[ax], want[ax]);
        strides[ax] = free ? want[ax] : have[ax];
        same &= strides[ax] == have[ax];
    }
    if (!same) {
        int root = b->plan->slots[r->slot].root;
        r->slot = plan_slot_new(b, SLOT_VIEW, t, strides, b->offsets[r->slot]);
        b->plan->slots[r->slot].root = root;
    }
}

/* A tensor without elements may share any storage: the passes made it a constant. */
static void
result_view(Builder *b, int k, PlanResult *r)
{
    const Result *want = &b->fn->results[k];
    if (want->kind == RESULT_VIEW_RESULT && want->of < k) {
        view_of_copy(b, k, r);
    }
    int root = b->plan->slots[r->slot].root;
    int base = want->kind == RESULT_VIEW_PARAM
                   ? want->of
                   : b->plan->slots[b->plan->results[want->of].slot].root;
    r->of = want->of;
    r->view_slot = want->of;
    bool shares = root == base || type_is_empty(b->cx, b->fn->body->rets[k]->type);
    if (!shares || (want->kind == RESULT_VIEW_RESULT && want->of >= k)) {
        fail(b->cx, DIAG_RESULT_STORAGE, k);
    }
    if (root != base && want->strides && !plan_strides_match(b, r->slot, want->strides)) {
        r->slot = plan_slot_copy(b, SLOT_OBJECT, b->fn->body->rets[k]->type, want->strides,
                                 r->slot);
    }
    strides_as_wanted(b, k, r);
}

/* ---- results into parameters ---- */

/* The parameter that the result is, or is a view of; -1: none. */
static int
param_read(const Builder *b, int k)
{
    int root = b->plan->slots[b->plan->results[k].slot].root;
    return b->plan->slots[root].kind == SLOT_PARAM ? root : -1;
}

static void
write_into(Builder *b, int k)
{
    const PlanResult *r = &b->plan->results[k];
    Step copy = {.kind = STEP_COPY, .slot = r->of, .from = r->slot};
    plan_slot_touch(b, r->slot, step_add(b, copy));
}

/* Does a result that waits to be written read the parameter that result k is written to? */
static bool
is_awaited(const Builder *b, const bool *waits, int k)
{
    bool awaited = false;
    for (int j = 0; j < b->plan->nresults; j++) {
        awaited |= waits[j] && param_read(b, j) == b->plan->results[k].of;
    }
    return awaited;
}

/* Among the results that wait and read parameters, one whose own parameter nobody still reads, or
 * else any; -1: there is none. */
static int
next_move(const Builder *b, const bool *waits)
{
    int any = -1;
    for (int k = 0; k < b->plan->nresults; k++) {
        if (waits[k] && param_read(b, k) >= 0) {
            any = any < 0 ? k : any;
            if (!is_awaited(b, waits, k)) {
                return k;
            }
        }
    }
    return any;
}

/* Results that are read from parameters are written first, each before its source is written to.  A
 * copy is made if they wait for each other in a cycle, or if one reads the parameter that it is
 * written to.  Computed results come last. */
static void
write_results(Builder *b)
{
    int n = b->plan->nresults;
    bool *waits = cx_alloc(b->cx, ((size_t)n + 1) * sizeof *waits);
    for (int k = 0; k < n; k++) {
        const PlanResult *r = &b->plan->results[k];
        waits[k] = r->kind == RESULT_INTO && r->slot != r->of;
    }
    for (int k = next_move(b, waits); k >= 0; k = next_move(b, waits)) {
        PlanResult *r = &b->plan->results[k];
        if (is_awaited(b, waits, k)) {
            r->slot = plan_slot_copy(b, SLOT_WORK, b->fn->body->rets[k]->type, NULL, r->slot);
        } else {
            plan_in_place(b, r->of);
            write_into(b, k);
            waits[k] = false;
        }
    }
    for (int k = 0; k < n; k++) {
        if (waits[k]) {
            write_into(b, k);
        }
    }
}

void
plan_results(Builder *b)
{
    Plan *plan = b->plan;
    const Fn *fn = b->fn;
    plan->nresults = fn->body->nrets;
    plan->results = plan_keep(b, (size_t)plan->nresults * sizeof *plan->results);
    for (int k = 0; k < plan->nresults; k++) {
        PlanResult *r = &plan->results[k];
        const Value *v = fn->body->rets[k];
        *r = (PlanResult){.kind = fn->results[k].kind, .slot = plan_slot_for(b, v)};
        if (r->kind == RESULT_FRESH && plan->slots[r->slot].kind == SLOT_SCALAR) {
            continue; /* handed over as a number */
        }
        if (r->kind == RESULT_FRESH) {
            result_fresh(b, k, r);
        } else if (r->kind == RESULT_INTO) {
            r->of = fn->results[k].of;
        } else {
            result_view(b, k, r);
        }
    }
    write_results(b);
}
