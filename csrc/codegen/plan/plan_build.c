/* Building a plan from the loops stage: slots for values, steps for lets, then lives. */

#include <string.h>

#include "plan_build.h"

/* ---- slots ---- */

int
plan_slot_new(Builder *b, SlotKind kind, const Type *t, const Dim *strides, Dim offset)
{
    Plan *plan = b->plan;
    if (plan->nslots == b->room_slots) {
        int room = b->room_slots ? 2 * b->room_slots : 64;
        Slot *more = plan_keep(b, (size_t)room * sizeof *more);
        if (plan->nslots) {
            memcpy(more, plan->slots, (size_t)plan->nslots * sizeof *more);
        }
        plan->slots = more;
        b->room_slots = room;
    }
    int k = plan->nslots++;
    Dim dense[MAX_RANK];
    type_dense(b->cx, t, dense);
    strides = strides ? strides : dense;
    b->strides = cx_grow(b->cx, b->strides, k, sizeof *b->strides);
    b->offsets = cx_grow(b->cx, b->offsets, k, sizeof *b->offsets);
    b->taken = cx_grow(b->cx, b->taken, k, sizeof *b->taken);
    b->strides[k] = cx_copy(b->cx, strides, (size_t)t->rank * sizeof *strides);
    b->offsets[k] = offset;
    b->taken[k] = false;
    plan->slots[k] = (Slot){
        .kind = kind,
        .dtype = t->dtype,
        .rank = t->rank,
        .sizes = dim_refs(b, t->rank, t->dims),
        .strides = dim_refs(b, t->rank, strides),
        .offset = dim_ref(b, offset),
        .root = k,
        .param = k,
        .first = INT32_MAX,
        .last = -1,
    };
    return k;
}

static int
plan_slot_value(Builder *b, SlotKind kind, const Value *v)
{
    return b->slot_of[v->id] = plan_slot_new(b, kind, v->type, v->strides, dim_int(b->cx, 0));
}

int
plan_slot_for(Builder *b, const Value *v)
{
    if (value_is_const(v) || b->slot_of[v->id] < 0) {
        fail(b->cx, DIAG_NO_MEMORY_HOLDS, v->name ? v->name : "a constant");
    }
    return b->slot_of[v->id];
}

/* ---- steps ---- */

int
step_add(Builder *b, Step step)
{
    Plan *plan = b->plan;
    if (plan->nsteps == b->room_steps) {
        int room = b->room_steps ? 2 * b->room_steps : 64;
        Step *more = plan_keep(b, (size_t)room * sizeof *more);
        if (plan->nsteps) {
            memcpy(more, plan->steps, (size_t)plan->nsteps * sizeof *more);
        }
        plan->steps = more;
        b->room_steps = room;
    }
    plan->steps[plan->nsteps] = step;
    return plan->nsteps++;
}

void
plan_slot_touch(Builder *b, int slot, int at)
{
    for (int k = slot;; k = b->plan->slots[k].root) {
        Slot *s = &b->plan->slots[k];
        s->first = at < s->first ? at : s->first;
        s->last = at > s->last ? at : s->last;
        if (s->root == k) {
            break;
        }
    }
}

static void
build_view(Builder *b, const Let *let, const bool *wanted)
{
    int base = plan_slot_for(b, let->args[0]);
    Dim strides[MAX_RANK], offset;
    if (!view_layout(b->cx, let, b->strides[base], b->offsets[base], strides, &offset)) {
        fail(b->cx, DIAG_VIEW_STRIDES, let->res[0]->name);
    }
    int slot = plan_slot_new(b, SLOT_VIEW, let->res[0]->type, strides, offset);
    b->slot_of[let->res[0]->id] = slot;
    b->plan->slots[slot].root = b->plan->slots[base].root;
    if (wanted[let->res[0]->id]) {
        b->plan->slots[slot].wants_object = true;
        plan_slot_touch(b, slot, step_add(b, (Step){.kind = STEP_VIEW, .slot = slot}));
    }
}

int
plan_slot_made(Builder *b, const Value *v, const bool *wanted)
{
    bool object = wanted[v->id];
    if (!object && b->place_of && b->place_of[v->id]) {
        return b->slot_of[v->id] = b->place_of[v->id] - 1;
    }
    int slot = plan_slot_value(b, object ? SLOT_OBJECT : SLOT_WORK, v);
    if (object) {
        plan_slot_touch(b, slot, step_add(b, (Step){.kind = STEP_ALLOC, .slot = slot}));
    }
    return slot;
}

/* A cat outside of kernels: each part is copied to its place. */
static void
build_copies(Builder *b, const Let *let, const bool *wanted)
{
    Cx *cx = b->cx;
    int to = plan_slot_made(b, let->res[0], wanted), axis = (int)let_int(let, "axis");
    Dim offset = dim_int(cx, 0);
    for (int k = 0; k < let->nargs; k++) {
        const Type *part = let->args[k]->type;
        int from = plan_slot_for(b, let->args[k]);
        int view = plan_slot_new(b, SLOT_VIEW, part, b->strides[to], offset);
        b->plan->slots[view].root = to;
        int at = step_add(b, (Step){.kind = STEP_COPY, .slot = view, .from = from});
        plan_slot_touch(b, view, at);
        plan_slot_touch(b, from, at);
        offset = dim_add(cx, offset, dim_mul(cx, part->dims[axis], b->strides[to][axis]));
    }
}

/* Where a fault of the kernel comes from: its first let that reads or writes at an index, else
 * itself. */
static Loc
fault_place(const Let *kernel)
{
    for (int k = 0; k < kernel->body->n; k++) {
        const Let *let = kernel->body->lets[k];
        if ((let->op == OP_gather || let->op == OP_scatter) && let->loc.node) {
            return let->loc;
        }
    }
    return kernel->loc;
}

/* One phase, read from the kernel's shape. */
static void
build_launch(Builder *b, ShapeReader *r, const KernelUse *use, int phase, const int *made)
{
    Plan *plan = b->plan;
    int entry = plan->nlaunches++, nbuffers = (int)shape_int(r);
    Launch *launch = &plan->launches[entry];
    int at = step_add(b, (Step){.kind = STEP_LAUNCH, .launch = entry});
    const Loc from = fault_place(use->let);
    *launch = (Launch){
        .code = use->kernel->code,
        .entry = use->kernel->first + phase,
        .nbuffers = nbuffers,
        .buffers = plan_keep(b, (size_t)nbuffers * sizeof *launch->buffers),
        .dims_at = plan->launch_values,
        .node = plan_text_keep(b, from.node),
        .source = plan_text_keep(b, from.source),
        .name = plan_range_name(b, use->let),
        .use = b->at_use - 1,
        .phases = phase == 0 ? use->kernel->nphases : 0,
    };
    for (int k = 0; k < nbuffers; k++) {
        char kind;
        int which = shape_ref(r, &kind);
        launch->buffers[k] = kind == 'b' ? made[which]
                                         : plan_slot_for(b, kind == 'p' ? use->key.operands[which]
                                                                        : use->let->res[which]);
        plan_slot_touch(b, launch->buffers[k], at);
    }
    launch->ndims = (int)shape_int(r);
    launch->dims = plan_keep(b, (size_t)launch->ndims * sizeof *launch->dims);
    for (int k = 0; k < launch->ndims; k++) {
        launch->dims[k] = dim_ref(b, shape_dim(r));
    }
    launch->extent = dim_ref(b, shape_dim(r));
    launch->work = dim_ref(b, shape_dim(r));
    launch->scratch = dim_ref(b, shape_dim(r));
    launch->in_order = shape_int(r) != 0;
    if (b->counts && phase == 0) {
        launch->counted = true;
        launch->operations = dim_ref(b, call_profile_operations(b->cx, use->let));
    }
    plan->launch_values += launch->ndims;
}

void
plan_in_place(Builder *b, int param)
{
    Plan *plan = b->plan;
    plan->in_place = plan->in_place ? plan->in_place
                                    : plan_keep(b, (size_t)plan->nparams * sizeof *plan->in_place);
    plan->in_place[plan->nin_place++] = param;
}

int
plan_slot_result(Builder *b, const Value *v, const bool *wanted)
{
    if (!v->over) {
        return plan_slot_made(b, v, wanted);
    }
    if (!v->over->def) {
        plan_in_place(b, plan_slot_for(b, v->over));
    }
    return b->slot_of[v->id] = plan_slot_for(b, v->over);
}

static void
build_phases(Builder *b, const KernelUse *use)
{
    ShapeReader r = {b->cx, use->kernel->shape, use->key.sizes, use->key.nsizes};
    int phases = (int)shape_int(&r), n = (int)shape_int(&r);
    int *made = cx_alloc(b->cx, ((size_t)n + 1) * sizeof *made);
    for (int k = 0; k < n; k++) {
        made[k] = plan_slot_new(b, SLOT_WORK, shape_type(&r), NULL, dim_int(b->cx, 0));
    }
    for (int k = 0; k < phases; k++) {
        build_launch(b, &r, use, k, made);
    }
}

static void
build_kernel(Builder *b, const Let *let, const bool *wanted)
{
    KernelUse *use = &b->kernels->uses[b->at_use++];
    for (int k = 0; k < let->nres; k++) {
        plan_slot_result(b, let->res[k], wanted);
    }
    plan_check_kernel(b, use, b->at_use - 1);
    build_phases(b, use);
}

static void
build_call_step(Builder *b, const Let *let)
{
    Plan *plan = b->plan;
    const Attr *dims = let_attr(let, "dims");
    Call *call = &plan->calls[plan->ncalls];
    *call = (Call){
        .site = (int)let_int(let, "site"),
        .nargs = let->nargs,
        .nres = let->nres,
        .ndims = dims->n,
        .args = plan_keep(b, (size_t)let->nargs * sizeof *call->args),
        .res = plan_keep(b, (size_t)let->nres * sizeof *call->res),
        .dims = dim_refs(b, dims->n, dims->dims),
        .target = plan_text_keep(b, let_str(let, "target")),
        .name = plan_range_name(b, let),
        .laid = let_int(let, "laid") != 0,
    };
    plan_binds(b, let, call);
    int at = step_add(b, (Step){.kind = STEP_CALL, .call = plan->ncalls++});
    for (int k = 0; k < let->nargs; k++) {
        call->args[k] = plan_slot_for(b, let->args[k]);
        plan_slot_touch(b, call->args[k], at);
    }
    for (int k = 0; k < let->nres; k++) {
        call->res[k] = plan_slot_value(b, SLOT_OBJECT, let->res[k]);
        plan_slot_touch(b, call->res[k], at);
    }
}

static void
build_lets(Builder *b, const bool *wanted)
{
    for (int k = 0; k < b->fn->body->n; k++) {
        const Let *let = b->fn->body->lets[k];
        cx_set_loc(b->cx, let->loc);
        if (let->op == OP_kernel) {
            build_kernel(b, let, wanted);
        } else if (let->op == OP_call) {
            build_call_step(b, let);
        } else if (let_is_flow(let)) {
            plan_flow_step(b, let, &b->plan->flows[b->at_flow++], wanted);
        } else if (let->op == OP_size) {
            int slot = plan_slot_new(b, SLOT_SCALAR, let->res[0]->type, NULL, let_dim(let, "dim"));
            bool object = wanted[let->res[0]->id];
            b->slot_of[let->res[0]->id] = object ? plan_slot_copy(b, SLOT_OBJECT, let->res[0]->type,
                                                                  NULL, slot)
                                                 : slot;
        } else if (let->op == OP_cat) {
            build_copies(b, let, wanted);
        } else if (op_info[let->op].kind == KIND_VIEW) {
            build_view(b, let, wanted);
        } else {
            fail(b->cx, DIAG_OUTSIDE_KERNEL, op_info[let->op].name);
        }
    }
    cx_set_loc(b->cx, (Loc){0});
}

/* ---- which values are tensors of the host ---- */

/* wanted[id]: a call or the caller takes the value, or (for roots) a view of it, as a tensor.  A
 * size that is a result is returned as a number. */
static bool *
find_wanted(Builder *b)
{
    bool *wanted = cx_alloc(b->cx, (size_t)b->fn->nvalues * sizeof *wanted);
    for (int k = 0, flow = 0; k < b->fn->body->n; k++) {
        const Let *let = b->fn->body->lets[k];
        if (let_is_flow(let)) {
            plan_flow_wanted(&b->plan->flows[flow++], let, wanted);
        }
        for (int j = 0; let->op == OP_call && j < let->nargs; j++) {
            if (!value_is_const(let->args[j])) {
                wanted[let->args[j]->id] = wanted[value_root(let->args[j])->id] = true;
            }
        }
    }
    for (int k = 0; k < b->fn->body->nrets; k++) {
        const Value *v = b->fn->body->rets[k];
        ResultKind kind = b->fn->results[k].kind;
        if (!value_is_const(v) && kind != RESULT_INTO && !(v->def && v->def->op == OP_size)) {
            wanted[value_root(v)->id] = true;
            wanted[v->id] = wanted[v->id] || kind == RESULT_FRESH;
        }
    }
    for (int k = b->fn->body->n - 1; k >= 0; k--) { /* values in one memory, the last one first */
        const Let *let = b->fn->body->lets[k];
        for (int j = 0; j < let->nres; j++) {
            const Value *v = let->res[j];
            if (v->over) {
                wanted[v->over->id] |= wanted[v->id];
            }
        }
    }
    return wanted;
}

/* A result that no kernel, view or copy reads stays as the operator made it, even if the graph was
 * captured with another layout.  Eager would have the same layout, unless the call says that its
 * operands differ from eager's. */
static void
find_as_is(Plan *plan)
{
    for (int k = 0; k < plan->ncalls; k++) {
        for (int j = 0; j < plan->calls[k].nres; j++) {
            plan->slots[plan->calls[k].res[j]].as_is = !plan->calls[k].laid;
        }
    }
    for (int k = 0; k < plan->nlaunches; k++) {
        for (int j = 0; j < plan->launches[k].nbuffers; j++) {
            plan->slots[plan->launches[k].buffers[j]].as_is = false;
        }
    }
    for (int k = 0; k < plan->nslots; k++) {
        if (plan->slots[k].root != k) {
            plan->slots[plan->slots[k].root].as_is = false;
        }
    }
    for (int k = 0; k < plan->nresults; k++) { /* a view of the whole has no slot of its own */
        if (plan->results[k].kind == RESULT_VIEW_RESULT) {
            plan->slots[plan->slots[plan->results[k].slot].root].as_is = false;
        }
    }
    for (int k = 0; k < plan->nsteps; k++) {
        if (plan->steps[k].kind == STEP_COPY) {
            plan->slots[plan->steps[k].from].as_is = false;
        }
    }
    for (int k = 0; k < plan->nflows; k++) {
        for (int j = 0; j < plan->flows[k].nargs; j++) {
            plan->slots[plan->flows[k].args[j]].as_is = false;
        }
    }
}

/* May it have many bytes?  One whose size is a symbol may. */
static bool
is_large(const Plan *plan, const Slot *slot)
{
    int64_t bytes = dtype_info[slot->dtype].bytes;
    for (int ax = 0; ax < slot->rank && bytes < DLC_ALONE; ax++) {
        const DimCode *size = &plan->dims[slot->sizes[ax]];
        bool many = size->op != 'i' || __builtin_mul_overflow(bytes, size->value, &bytes);
        bytes = many ? DLC_ALONE : bytes;
    }
    return bytes >= DLC_ALONE;
}

/* A step that binds sizes changes the workspace.  A value that lives across it becomes a
 * tensor of the host, and so does a large value if the caller requests it: *head by step and *next
 * by slot are lists of the tensors to be made before each step. */
static void
find_across(Builder *b, int *head, int *next)
{
    Plan *plan = b->plan;
    int *last = cx_alloc(b->cx, ((size_t)plan->nsteps + 1) * sizeof *last);
    for (int k = 0, binder = -1; k < plan->nsteps; k++) {
        last[k] = binder;       /* the last such step before step k */
        const Step *step = &plan->steps[k];
        binder = step_binds(plan, step) ? k : binder;
    }
    for (int k = 0; k < plan->nslots; k++) {
        Slot *slot = &plan->slots[k];
        bool own = slot->last >= 0 &&
                   (last[slot->last] >= slot->first || (b->own_tensors && is_large(plan, slot)));
        if (slot->kind == SLOT_WORK && own) {
            slot->kind = SLOT_OBJECT;
            next[k] = head[slot->first];
            head[slot->first] = k + 1;
        }
    }
}

/* A parameter that the call was given to free: by V29 it is in the memory of no result. */
static bool
is_given_up(const Builder *b, int slot)
{
    return slot < b->plan->nparams && b->fn->params[slot]->given;
}

/* Tensors of the host are released after their last use, unless they are results. */
static void
add_frees(Builder *b)
{
    Plan *plan = b->plan;
    const Step *old = plan->steps;
    int n = plan->nsteps;
    size_t steps = (size_t)n + 1, slots = (size_t)plan->nslots + 1;
    int *head = cx_alloc(b->cx, steps * sizeof *head),
        *next = cx_alloc(b->cx, slots * sizeof *next);
    int *made = cx_alloc(b->cx, steps * sizeof *made),
        *then = cx_alloc(b->cx, slots * sizeof *then);
    int *now = cx_alloc(b->cx, steps * sizeof *now); /* by step: its new position */
    find_across(b, made, then);
    for (int k = 0; k < plan->nslots; k++) {
        const Slot *slot = &plan->slots[k];
        bool object = slot->kind == SLOT_OBJECT || (slot->kind == SLOT_VIEW && slot->wants_object);
        bool freed = (object && !b->taken[slot->root]) || is_given_up(b, k);
        if (freed && slot->last >= 0) {
            next[k] = head[slot->last];
            head[slot->last] = k + 1;
        }
    }
    plan->steps = NULL;
    plan->nsteps = b->room_steps = 0;
    for (int k = 0; k < n; k++) {
        for (int s = made[k]; s; s = then[s - 1]) {
            step_add(b, (Step){.kind = STEP_ALLOC, .slot = s - 1});
        }
        now[k] = step_add(b, old[k]);
        for (int s = head[k]; s; s = next[s - 1]) {
            step_add(b, (Step){.kind = STEP_FREE, .slot = s - 1});
        }
    }
    for (int k = 0; k < plan->nslots; k++) {
        Slot *slot = &plan->slots[k];
        if (slot->last >= 0) {
            slot->first = now[slot->first];
            slot->last = now[slot->last];
        }
    }
}

static int
count_phases(const Builder *b)
{
    int n = 0;
    for (int k = 0; k < b->kernels->nuses; k++) {
        n += b->kernels->uses[k].kernel->nphases;
    }
    return n;
}

/* Results of a body that a step makes are made in their places: they are read there, too. */
static void
find_places(Builder *b)
{
    const Fn *fn = b->fn;
    b->place_of = cx_alloc(b->cx, (size_t)fn->nvalues * sizeof *b->place_of);
    for (int k = 0; k < fn->body->nrets; k++) {
        const Value *v = fn->body->rets[k];
        while (v->over) {
            v = v->over; /* it makes the memory */
        }
        bool place = fn->results[k].of >= fn->nparams - fn->body->nrets;
        bool fits = fn->results[k].kind == RESULT_INTO && place && v->def && !v->strides;
        if (fits && !b->place_of[v->id]) {
            b->place_of[v->id] = 1 + b->slot_of[fn->params[fn->results[k].of]->id];
        }
    }
}

void
plan_steps(Builder *b)
{
    Plan *plan = b->plan;
    plan_solves(b);
    plan_uncertain(b);
    plan_flows(b);
    bool *wanted = find_wanted(b);
    for (int k = 0; k < b->fn->nparams; k++) {
        int slot = plan_slot_value(b, SLOT_PARAM, b->fn->params[k]);
        plan->slots[slot].wants_object = wanted[b->fn->params[k]->id];
    }
    if (plan->inner) {
        find_places(b);
    }
    plan->nparams = b->fn->nparams;
    plan->launches = plan_keep(b, (size_t)count_phases(b) * sizeof *plan->launches);
    plan->calls = plan_keep(b, (size_t)b->fn->body->n * sizeof *plan->calls);
    build_lets(b, wanted);
    plan_results(b);
    find_as_is(plan);
    add_frees(b);
}
