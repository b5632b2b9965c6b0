/* Results: what the caller was promised of each, and the copies that keeping the promise takes. */

#include "plan_build.h"

static bool
strides_match(const Builder *b, int slot, const Dim *strides)
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

static void
result_fresh(Builder *b, int k, PlanResult *r)
{
    const Value *v = b->fn->body->rets[k];
    Dim dense[MAX_RANK];
    type_dense(b->cx, v->type, dense);
    const Dim *strides = b->fn->results[k].strides ? b->fn->results[k].strides : dense;
    for (int j = 0; j < k; j++) {
        if (b->fn->results[j].kind == RESULT_FRESH && b->fn->body->rets[j] == v) {
            r->same_as = j;
            r->slot = b->plan->results[j].slot;
            return;
        }
    }
    int root = b->plan->slots[r->slot].root;
    if (b->plan->slots[root].kind != SLOT_OBJECT || b->taken[root] ||
        !strides_match(b, r->slot, strides)) {
        r->slot = plan_slot_copy(b, SLOT_OBJECT, v->type, strides, r->slot);
        root = r->slot;
    }
    b->taken[root] = true;
}

static bool
has_no_elements(Cx *cx, const Type *t)
{
    int64_t n = 1;
    for (int ax = 0; ax < t->rank && n; ax++) {
        n = dim_is_int(cx, t->dims[ax], &n) ? n : 1;
    }
    return n == 0;
}

/* What has no elements shares anything's storage: the passes made it a constant. */
static void
result_view(Builder *b, int k, PlanResult *r)
{
    const Result *want = &b->fn->results[k];
    int root = b->plan->slots[r->slot].root;
    int base = want->kind == RESULT_VIEW_PARAM ? want->of : b->plan->slots[b->plan->results[want->of].slot].root;
    r->of = want->of;
    r->view_slot = want->of;
    bool shares = root == base || has_no_elements(b->cx, b->fn->body->rets[k]->type);
    if (!shares || (want->kind == RESULT_VIEW_RESULT && want->of >= k)) {
        fail(b->cx, DIAG_CODEGEN, cx_format(b->cx, "result %d does not share the storage it promises", k));
    }
    if (root != base && want->strides && !strides_match(b, r->slot, want->strides)) {
        r->slot = plan_slot_copy(b, SLOT_OBJECT, b->fn->body->rets[k]->type, want->strides, r->slot);
    }
}

/* Is the parameter another result's target? */
static bool
is_target(const Fn *fn, int param, int but)
{
    for (int k = 0; k < fn->body->nrets; k++) {
        if (k != but && fn->results[k].kind == RESULT_INTO && fn->results[k].of == param) {
            return true;
        }
    }
    return false;
}

/* What an INTO result reads from a parameter is copied before any result is written, where another INTO result
 * is written to that parameter. */
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
        *r = (PlanResult){.kind = fn->results[k].kind, .slot = plan_slot_for(b, v), .same_as = -1};
        if (r->kind == RESULT_FRESH && plan->slots[r->slot].kind == SLOT_SCALAR) {
            continue;           /* handed over as a number */
        }
        if (r->kind == RESULT_FRESH) {
            result_fresh(b, k, r);
        } else if (r->kind == RESULT_INTO) {
            r->of = fn->results[k].of;
            int root = plan->slots[r->slot].root;
            if (r->slot != r->of && plan->slots[root].kind == SLOT_PARAM &&
                (root == r->of || is_target(fn, root, k))) {
                r->slot = plan_slot_copy(b, SLOT_WORK, v->type, NULL, r->slot);
            } else if (r->slot != r->of && plan->slots[root].kind == SLOT_PARAM) {
                plan_over(b, r->of);
            }
        } else {
            result_view(b, k, r);
        }
    }
    for (int k = 0; k < plan->nresults; k++) {
        const PlanResult *r = &plan->results[k];
        if (r->kind == RESULT_INTO && r->slot != r->of) {
            Step copy = {.kind = STEP_COPY, .slot = r->of, .from = r->slot};
            plan_slot_touch(b, r->slot, step_add(b, copy));
        }
    }
}

