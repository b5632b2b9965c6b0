/* Running loops and branches: the steps of a body's plan, again and again, in the run of the plan
 * around it.
 *
 * What is open for all steps of a loop: the instance of the body's plan for the sizes, its
 * workspace and its table of slots.  After a few steps, bodies without calls also have their
 * launches ready (plan_ready.c).  A step sets addresses and runs. */
#include <stdlib.h>
#include <string.h>

#include "plan_flow_run.h"

enum {
    FIRST_ROWS = 16,            /* that there is memory for, if data says when a loop ends */
    /* Making launches ready takes as long as some 4 steps: it is worth it before this many, and
     * after that many where nobody knows how many there are. */
    READY_BEFORE = 8,
    READY_AFTER = 4,
};

/* Seconds after which a loop asks whether the user wants it to end. */
static const double CHECK_SECONDS = 0.1;

static int
no_memory(Run *run)
{
    run_enter(run);
    run->host->fault(run->host->arg, FAULT_MEMORY, NULL, NULL);
    return -1;
}

static void
measure(Inner *in)
{
    const Plan *plan = in->run.plan;
    in->work = plan->nlaunches;
    for (int k = 0; k < plan->nlaunches; k++) {
        in->work = launch_add_work(&plan->launches[k], in->first->values, in->work);
    }
    in->calls = plan->ncalls > 0;
}

int
inner_open(Run *outer, const Body *body, Inner *in)
{
    const Plan *plan = body->plan;
    size_t nslots = (size_t)plan->nslots, nsizes = (size_t)plan->nsizes;
    memset(in, 0, sizeof *in);
    in->run = (Run){
        .plan = plan,
        .host = outer->host,
        .left = outer->left,
        .watched = outer->watched,
        .traced = outer->traced,
        .tensors = nslots > FEW_INNER ? calloc(nslots, sizeof *in->run.tensors) : in->few,
        .sizes = nsizes > FEW_SIZES ? calloc(nsizes, sizeof *in->run.sizes) : in->few_sizes,
    };
    if (!in->run.tensors || !in->run.sizes) {
        return FAULT_MEMORY;
    }
    for (int k = 0; k < plan->nsizes; k++) {
        in->run.sizes[k] = k < plan->ndeclared ? outer->inst->values[body->sizes[k]] : SIZE_UNKNOWN;
    }
    in->first = instance_get((Plan *)plan, in->run.sizes);
    if (!in->first || in->first->too_many) {
        return in->first ? FAULT_LAYOUT : FAULT_MEMORY;
    }
    atomic_fetch_add(&in->first->refs, 1);
    in->run.inst = in->first;
    measure(in);
    return FAULT_NONE;
}

static int
open_or_fail(Run *outer, const Body *body, Inner *in)
{
    int fault = inner_open(outer, body, in);
    if (fault != FAULT_NONE) {
        run_enter(outer);
        outer->host->fault(outer->host->arg, fault, NULL, NULL);
    }
    return fault == FAULT_NONE ? 0 : -1;
}

/* Parameters belong to the run around, but for those that give_object made. */
void
inner_close(Run *outer, Inner *in)
{
    Run *run = &in->run;
    const Plan *plan = run->plan;
    if (run->check) {
        check_drop(run);
    }
    for (int k = plan->nparams; run->tensors && k < plan->nslots; k++) {
        if (run->tensors[k].object) {
            run_enter(outer);
            run->host->release(run->host->arg, run->tensors[k].object);
        }
    }
    if (run->work) {
        workspace_give(run->work);
    }
    instance_unref(run->inst);
    instance_unref(in->first);
    if (run->tensors != in->few) {
        free(run->tensors);
    }
    if (run->sizes != in->few_sizes) {
        free(run->sizes);
    }
}

/* At the clock, first of all. */
int
flow_look_up(Watch *watch, Run *run)
{
    double now = clock_seconds();
    watch->work = 0;
    if (now - watch->since < CHECK_SECONDS || !run->host->interrupted) {
        return 0;
    }
    watch->since = now;
    run_enter(run);
    return run->host->interrupted(run->host->arg);
}

/* The steps of the body once, from sizes that no call has bound yet. */
static int
inner_run(Run *outer, Inner *in)
{
    Run *run = &in->run;
    if (!in->calls) {
        flow_hold(outer, in->work);
    }
    run->left = outer->left;
    run->held = outer->held;
    run->lent = 0;
    if (run->inst != in->first) {
        instance_unref(run->inst);
        atomic_fetch_add(&in->first->refs, 1);
        run->inst = in->first;
        memcpy(run->sizes, in->first->sizes, (size_t)run->plan->nsizes * sizeof *run->sizes);
    }
    int status = run_all_steps(run);
    outer->left = run->left;
    outer->held = run->held;
    return status;
}

PlanObject
flow_operand(const Run *run, int slot)
{
    const Slot *s = &run->plan->slots[slot];
    void *object = s->kind == SLOT_SCALAR || s->kind == SLOT_WORK ? NULL
                                                                  : run->tensors[slot].object;
    return (PlanObject){object, run_data(run, slot)};
}

/* ---- a loop ---- */

static const Slot *
param_slot(const LoopRun *loop, int k)
{
    return &loop->in.run.plan->slots[k];
}

static int64_t
row_bytes(const LoopRun *loop, int param)
{
    return slot_bytes(param_slot(loop, param), loop->in.first->values);
}

int64_t
loop_carried_bytes(const LoopRun *loop, int k)
{
    return row_bytes(loop, 1 + k);
}

/* Of a row of result k. */
static int64_t
stacked_bytes(const LoopRun *loop, int k)
{
    return row_bytes(loop, loop->in.run.plan->nparams - loop->flow->nres + k);
}

/* Memory for the row of this step: there is twice as much as before whenever it is full. */
static int
keep_row(LoopRun *loop)
{
    const Flow *flow = loop->flow;
    if (!flow->nbinds || loop->at < loop->room) {
        return 0;
    }
    int stacks = flow->nres - flow->carries;
    if (!loop->kept && !(loop->kept = calloc((size_t)stacks, sizeof *loop->kept))) {
        return no_memory(loop->run);
    }
    loop->room = loop->room ? 2 * loop->room : FIRST_ROWS;
    for (int k = 0; k < stacks; k++) {
        int64_t bytes;
        bool many = __builtin_mul_overflow(loop->room, stacked_bytes(loop, flow->carries + k),
                                           &bytes);
        void *more = many ? NULL : realloc(loop->kept[k], (size_t)bytes + 1);
        if (!more) {
            return no_memory(loop->run);
        }
        loop->kept[k] = more;
    }
    return 0;
}

/* The number of steps is a size from here on, and the rows are tensors. */
static int
give_rows(LoopRun *loop)
{
    const Flow *flow = loop->flow;
    Run *run = loop->run;
    run_enter(run);
    if (run_bind(run, flow->name, &flow->bind, loop->at) < 0 ||
        run_bound(run, flow->name, 1, &flow->bind) < 0) {
        return -1;
    }
    for (int k = flow->carries; k < flow->nres; k++) {
        if (run_alloc(run, flow->res[k]) < 0) {
            return -1;
        }
        int64_t bytes = loop->at * stacked_bytes(loop, k);
        if (bytes) {
            memcpy(run->tensors[flow->res[k]].data, loop->kept[k - flow->carries], (size_t)bytes);
        }
    }
    return 0;
}

static void
drop_rows(LoopRun *loop)
{
    for (int k = 0; loop->kept && k < loop->flow->nres - loop->flow->carries; k++) {
        free(loop->kept[k]);
    }
    free(loop->kept);
}

/* The number of the step as a tensor, where a call takes it. */
static int
give_index(LoopRun *loop)
{
    loop->params[0] = (PlanObject){NULL, &loop->at};
    if (!param_slot(loop, 0)->wants_object) {
        return 0;
    }
    Run *run = loop->run;
    PlanTensor made = {0};
    run_enter(run);
    if (run->host->alloc(run->host->arg, DT_i64, &made) < 0) {
        return -1;
    }
    *(int64_t *)made.data = loop->at;
    loop->params[0] = run_object(&made);
    return 0;
}

static int
give_row(LoopRun *loop, int k)
{
    const Flow *flow = loop->flow;
    int slot = flow->args[flow->whiles + flow->carries + k], param = 1 + flow->carries + k;
    Run *run = loop->run;
    PlanObject all = flow_operand(run, slot);
    int64_t bytes = row_bytes(loop, param);
    loop->params[param] = (PlanObject){NULL, bytes ? (char *)all.data + loop->at * bytes : NULL};
    if (!param_slot(loop, param)->wants_object) {
        return 0;
    }
    PlanTensor row = {0};
    const Slot *s = param_slot(loop, param);
    run_enter(run);
    run_shape(&loop->in.run, param, &row);
    if (run->host->view(run->host->arg, &all, s->dtype,
                        loop->at * bytes / dtype_info[s->dtype].bytes, &row) < 0) {
        return -1;
    }
    loop->params[param] = run_object(&row);
    return 0;
}

/* What give_index and give_row made. */
static void
drop_given(LoopRun *loop)
{
    const Flow *flow = loop->flow;
    for (int k = 0; k <= flow->carries + flow->rows; k++) {
        bool given = k == 0 || k > flow->carries;
        if (given && loop->params[k].object) {
            run_enter(loop->run);
            loop->run->host->release(loop->run->host->arg, loop->params[k].object);
        }
        loop->params[k].object = given ? NULL : loop->params[k].object;
    }
}

void
loop_set_places(LoopRun *loop, bool second)
{
    const Flow *flow = loop->flow;
    if (flow->whiles) {
        loop->places[0] = (PlanObject){NULL, &loop->go};
    }
    PlanObject *to = loop->places + flow->whiles;
    for (int k = 0; k < flow->carries; k++) {
        to[k] = flow_operand(loop->run, second ? flow->other[k] : flow->res[k]);
    }
    for (int k = flow->carries; k < flow->nres; k++) {
        int64_t bytes = stacked_bytes(loop, k);
        char *all = flow->nbinds ? loop->kept[k - flow->carries]
                                 : run_data(loop->run, flow->res[k]);
        to[k] = (PlanObject){NULL, bytes ? all + loop->at * bytes : NULL};
    }
}

void
loop_set_carried(LoopRun *loop, bool second)
{
    const Flow *flow = loop->flow;
    for (int k = 0; k < flow->carries; k++) {
        loop->params[1 + k] = flow_operand(loop->run, second ? flow->other[k] : flow->res[k]);
    }
}

int
loop_give_step(LoopRun *loop)
{
    int status = give_index(loop);
    for (int k = 0; k < loop->flow->rows && status == 0; k++) {
        status = give_row(loop, k);
    }
    return status;
}

int64_t
loop_bound(const LoopRun *loop)
{
    return loop->flow->counted ? loop->run->inst->values[loop->flow->steps] : INT64_MAX;
}

bool
loop_is_second(const LoopRun *loop, int64_t at)
{
    int64_t left = loop->flow->counted ? loop_bound(loop) - at : at + 1;
    return left % 2 == 0;
}

/* Computes the launches of this step and those after it, if that is worth it: the first step has
 * read the operands, and all others read what the one before has written. */
static void
make_ready(LoopRun *loop)
{
    bool known = loop->flow->counted && !loop->flow->whiles;
    bool worth = known ? loop->at > 0 && loop_bound(loop) - loop->at >= READY_BEFORE
                       : loop->at >= READY_AFTER;
    if (worth && !loop->ready && !loop->uneven) {
        loop->ready = ready_make(loop);
        loop->uneven = !loop->ready;
        loop_set_carried(loop, loop->second);
    }
}

/* Each step finds its launches anew from here on, or there is no further one. */
static void
end_ready(LoopRun *loop)
{
    if (loop->ready) {
        ready_free(loop->ready, loop);
        loop->ready = NULL;
        loop_set_carried(loop, loop->second);
    }
}

/* A step that finds its launches. */
static int
plain_step(LoopRun *loop, bool second)
{
    int status = loop_give_step(loop);
    status = status == 0 ? keep_row(loop) : status;
    if (status == 0) {
        loop_set_places(loop, second);
        status = inner_run(loop->run, &loop->in);
    }
    drop_given(loop);
    loop_set_carried(loop, second);
    return status;
}

static int
loop_step(LoopRun *loop, bool second)
{
    if (loop->flow->nbinds && loop->at == loop->room) {
        end_ready(loop); /* rows get other memory */
    } else {
        make_ready(loop);
    }
    int status = loop->ready ? ready_step(loop->ready, loop, second) : plain_step(loop, second);
    loop->second = second;
    return status;
}

/* Steps write the carried values to two places alternately; the first place is that of the
 * results. */
static int
loop_steps(LoopRun *loop)
{
    const Plan *plan = loop->in.run.plan;
    /* nobody knows the work of calls, and that of loops in the step comes from data */
    int64_t steps = loop_bound(loop),
            work = plan->ncalls || plan->nflows ? DLC_UNLOCK : loop->in.work;
    int status = 0;
    loop->watch.since = clock_seconds();
    for (; status == 0 && loop->go && loop->at < steps; loop->at++) {
        status = loop_step(loop, loop_is_second(loop, loop->at));
        status = status == 0 ? flow_watch(&loop->watch, loop->run, work) : status;
    }
    return status;
}

/* Copies the carried values to the place of the results, if the last step has not written them
 * there: if there was no step, if the number of steps was not known and is even, or if a loop with
 * a known number ends an odd number of steps early. */
static void
settle(const LoopRun *loop)
{
    const Flow *flow = loop->flow;
    for (int k = 0; k < flow->carries; k++) {
        int64_t bytes = loop_carried_bytes(loop, k);
        void *to = run_data(loop->run, flow->res[k]);
        if (bytes && loop->params[1 + k].data != to) {
            memcpy(to, loop->params[1 + k].data, (size_t)bytes);
        }
    }
}

/* Copies the operands of values that have one place to that place, where the first step finds
 * them. */
static void
move_in(const LoopRun *loop)
{
    const Flow *flow = loop->flow;
    for (int k = 0; k < flow->carries; k++) {
        if (flow->other[k] == flow->res[k]) {
            PlanObject place = flow_operand(loop->run, flow->res[k]);
            int64_t bytes = loop_carried_bytes(loop, k);
            if (bytes && place.data != loop->params[1 + k].data) {
                memcpy(place.data, loop->params[1 + k].data, (size_t)bytes);
            }
            loop->params[1 + k] = place;
        }
    }
}

void
loop_begin(LoopRun *loop)
{
    const Flow *flow = loop->flow;
    const Run *run = loop->run;
    loop->params = loop->in.run.tensors;
    loop->places = loop->params + flow->bodies[0].nparams;
    loop->go = flow->whiles ? *(const uint8_t *)run_data(run, flow->args[0]) : 1;
    for (int k = 0; k < flow->carries; k++) {
        loop->params[1 + k] = flow_operand(run, flow->args[flow->whiles + k]);
    }
    for (int k = flow->whiles + flow->carries + flow->rows; k < flow->nargs; k++) {
        loop->params[1 + k - flow->whiles] = flow_operand(run, flow->args[k]);
    }
}

static int
run_loop(Run *run, const Flow *flow)
{
    LoopRun loop = {.run = run, .flow = flow};
    int status = open_or_fail(run, &flow->bodies[0], &loop.in);
    if (status == 0) {
        loop_begin(&loop);
        move_in(&loop);
        status = loop_steps(&loop);
        end_ready(&loop);
    }
    if (status == 0) {
        settle(&loop);
    }
    if (status == 0 && flow->nbinds) {
        status = give_rows(&loop);
    }
    drop_rows(&loop);
    inner_close(run, &loop.in);
    return status;
}

void
branch_begin(const Run *run, const Flow *flow, Inner *in)
{
    PlanObject *params = in->run.tensors;
    for (int k = 1; k < flow->nargs; k++) {
        *params++ = flow_operand(run, flow->args[k]);
    }
    for (int k = 0; k < flow->nres; k++) {
        *params++ = flow_operand(run, flow->res[k]);
    }
}

/* Moves a parameter to the place of the result that is made in its memory. */
static void
keep_in(Inner *in, int param, PlanObject place)
{
    PlanObject *from = &in->run.tensors[param];
    int64_t bytes = slot_bytes(&in->run.plan->slots[param], in->first->values);
    if (bytes && place.data != from->data) {
        memcpy(place.data, from->data, (size_t)bytes);
    }
    *from = place;
}

static int
run_branch(Run *run, const Flow *flow)
{
    Inner in;
    int way = *(const uint8_t *)run_data(run, flow->args[0]) ? 0 : 1;
    const Body *body = &flow->bodies[way];
    int status = open_or_fail(run, body, &in);
    if (status == 0) {
        branch_begin(run, flow, &in);
        for (int k = 0; k < flow->nres; k++) {
            if (body->kept[k] >= 0) {
                keep_in(&in, body->kept[k], in.run.tensors[body->nparams + k]);
            }
        }
        status = inner_run(run, &in);
    }
    inner_close(run, &in);
    return status;
}

int
run_flow(Run *run, const Flow *flow)
{
    return flow->loops ? run_loop(run, flow) : run_branch(run, flow);
}
