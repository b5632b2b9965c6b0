/* Running loops and branches: the steps of a body's plan, again and again, in the run of the plan
 * around it.
 *
 * What is open for all steps of a loop: the instance of the body's plan for the sizes, its
 * workspace and its table of slots.  From the second step on, bodies of kernels alone also have
 * their launches ready (plan_ready.c).  A step sets addresses and runs. */
#include <stdlib.h>
#include <string.h>

#include "plan_run.h"

enum {
    FEW_SIZES = 16,
    FEW_INNER = 64,             /* slots with room on the stack */
    FIRST_ROWS = 16,            /* that there is memory for, if data says when a loop ends */
    BETWEEN_CHECKS = 8, /* steps after which a loop looks at the clock */
};

/* Seconds after which a loop asks whether the user wants it to end. */
static const double CHECK_SECONDS = 0.1;

/* A body under way. */
typedef struct {
    Run run;
    Instance *first;            /* each step begins with it */
    int64_t few_sizes[FEW_SIZES];
    PlanObject few[FEW_INNER];
    Ready *ready;               /* its launches for all steps; NULL: each step finds them anew */
    int64_t work;               /* of the kernels of a step */
    bool calls;                 /* the steps need the interpreter's lock */
} Inner;

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

static int
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
        return no_memory(outer);
    }
    for (int k = 0; k < plan->nsizes; k++) {
        in->run.sizes[k] = k < plan->ndeclared ? outer->inst->values[body->sizes[k]] : SIZE_UNKNOWN;
    }
    in->first = instance_get((Plan *)plan, in->run.sizes);
    if (!in->first) {
        return no_memory(outer);
    }
    if (in->first->too_many) {
        run_enter(outer);
        outer->host->fault(outer->host->arg, FAULT_LAYOUT, NULL, NULL);
        return -1;
    }
    atomic_fetch_add(&in->first->refs, 1);
    in->run.inst = in->first;
    measure(in);
    return 0;
}

/* Parameters belong to the run around, but for those that give_object made. */
static void
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
    free(in->ready);
    instance_unref(run->inst);
    instance_unref(in->first);
    if (run->tensors != in->few) {
        free(run->tensors);
    }
    if (run->sizes != in->few_sizes) {
        free(run->sizes);
    }
}

/* Leaves the interpreter's lock before a step after which enough has been computed in it, by this
 * loop or by others: a loop may be one of many short ones in a long one. */
static void
leave_for_step(Run *outer, const Inner *in)
{
    if (outer->left) {
        return;
    }
    bool much = __builtin_add_overflow(outer->held, in->work, &outer->held);
    outer->held = much ? INT64_MAX : outer->held;
    if (!in->calls && outer->held > DLC_UNLOCK) {
        run_leave(outer);
    }
}

/* The steps of the body once, from sizes that no call has bound yet.  at, second: the step of the
 * loop and the place that it writes, if the launches are ready. */
static int
inner_run(Run *outer, Inner *in, int64_t at, bool second)
{
    Run *run = &in->run;
    leave_for_step(outer, in);
    run->left = outer->left;
    run->held = outer->held;
    run->lent = 0;
    if (run->inst != in->first) {
        instance_unref(run->inst);
        atomic_fetch_add(&in->first->refs, 1);
        run->inst = in->first;
        memcpy(run->sizes, in->first->sizes, (size_t)run->plan->nsizes * sizeof *run->sizes);
    }
    int status = in->ready ? ready_run(in->ready, run, at, second) : run_all_steps(run);
    outer->left = run->left;
    outer->held = run->held;
    return status;
}

static PlanObject
object_of(const Run *run, int slot)
{
    const Slot *s = &run->plan->slots[slot];
    void *object = s->kind == SLOT_SCALAR || s->kind == SLOT_WORK ? NULL
                                                                  : run->tensors[slot].object;
    return (PlanObject){object, run_data(run, slot)};
}

/* ---- a loop ---- */

typedef struct {
    Run *run;
    const Flow *flow;
    Inner in;
    int64_t at;                 /* the step */
    uint8_t go;
    bool second;                /* the carried values are in their second place */
    bool uneven;                /* a step may differ from others in more than addresses */
    PlanObject *params, *places;        /* of the body */
    void **kept; /* by stacked result, where the loop binds a size: its rows so far, */
    int64_t room; /* and so many that there is memory for */
} LoopRun;

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
    PlanObject all = object_of(run, slot);
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

/* Where the step writes: the bool that it returns, carried values, its rows. */
static void
set_places(LoopRun *loop, bool second)
{
    const Flow *flow = loop->flow;
    if (flow->whiles) {
        loop->places[0] = (PlanObject){NULL, &loop->go};
    }
    PlanObject *to = loop->places + flow->whiles;
    for (int k = 0; k < flow->carries; k++) {
        to[k] = object_of(loop->run, second ? flow->other[k] : flow->res[k]);
    }
    for (int k = flow->carries; k < flow->nres; k++) {
        int64_t bytes = stacked_bytes(loop, k);
        char *all = flow->nbinds ? loop->kept[k - flow->carries]
                                 : run_data(loop->run, flow->res[k]);
        to[k] = (PlanObject){NULL, bytes ? all + loop->at * bytes : NULL};
    }
}

/* What the step reads of the values that the step before has written. */
static void
set_carried(LoopRun *loop, bool second)
{
    const Flow *flow = loop->flow;
    for (int k = 0; k < flow->carries; k++) {
        loop->params[1 + k] = object_of(loop->run, second ? flow->other[k] : flow->res[k]);
    }
}

/* The number and the rows of the step. */
static int
give_step(LoopRun *loop)
{
    int status = give_index(loop);
    for (int k = 0; k < loop->flow->rows && status == 0; k++) {
        status = give_row(loop, k);
    }
    return status;
}

/* Sets what a step reads and writes, and notes where that is. */
static void
note_step(LoopRun *loop, bool second, ReadyStep step)
{
    set_carried(loop, !second);
    set_places(loop, second);
    ready_note(loop->in.ready, &loop->in.run, step);
}

/* Computes the launches for this step and those after it, if the body allows it: the first step has
 * read the operands, and all others read what the one before has written. */
static int
make_ready(LoopRun *loop)
{
    loop->in.ready = ready_make(&loop->in.run, loop->at);
    if (!loop->in.ready) {
        loop->uneven = true;
        return 0;
    }
    int status = give_step(loop);
    if (status == 0) {
        note_step(loop, false, READY_FIRST);
        note_step(loop, true, READY_SECOND);
        loop->at++;
        status = give_step(loop);
        note_step(loop, false, READY_NEXT);
        loop->at--;
    }
    drop_given(loop);
    return status;
}

/* Each step finds its launches anew from here on, or there is no further one. */
static void
end_ready(LoopRun *loop)
{
    if (loop->in.ready) {
        free(loop->in.ready);
        loop->in.ready = NULL;
        set_carried(loop, loop->second);
    }
}

static int
loop_step(LoopRun *loop, bool second)
{
    const Flow *flow = loop->flow;
    bool full = flow->nbinds && loop->at == loop->room; /* rows get other memory */
    int status = 0;
    if (full) {
        end_ready(loop);
    } else if (loop->at > 0 && !loop->in.ready && !loop->uneven) {
        status = make_ready(loop);
    }
    if (!loop->in.ready) {
        status = status == 0 ? give_step(loop) : status;
        status = status == 0 ? keep_row(loop) : status;
        if (status == 0) {
            set_places(loop, second);
        }
    }
    status = status == 0 ? inner_run(loop->run, &loop->in, loop->at, second) : status;
    if (!loop->in.ready) {
        drop_given(loop);
        set_carried(loop, second);
    }
    loop->second = second;
    return status;
}

/* Lets the user interrupt a loop, which may be endless: -1 if the host reports an interrupt. */
static int
look_up(LoopRun *loop, double *since)
{
    Run *run = loop->run;
    if (loop->at % BETWEEN_CHECKS || !run->host->interrupted) {
        return 0;
    }
    double now = clock_seconds();
    if (now - *since < CHECK_SECONDS) {
        return 0;
    }
    *since = now;
    run_enter(run);
    return run->host->interrupted(run->host->arg);
}

/* Steps write the carried values to two places alternately; the first place is that of the
 * results.  If the number of steps is known, the last step writes the first place.  Else the first
 * step does. */
static int
loop_steps(LoopRun *loop)
{
    const Flow *flow = loop->flow;
    int64_t steps = flow->counted ? loop->run->inst->values[flow->steps] : INT64_MAX;
    double since = clock_seconds();
    int status = 0;
    for (; status == 0 && loop->go && loop->at < steps; loop->at++) {
        int64_t left = flow->counted ? steps - loop->at : loop->at + 1;
        status = loop_step(loop, left % 2 == 0);
        status = status == 0 ? look_up(loop, &since) : status;
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
        int64_t bytes = row_bytes(loop, 1 + k);
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
            PlanObject place = object_of(loop->run, flow->res[k]);
            int64_t bytes = row_bytes(loop, 1 + k);
            if (bytes && place.data != loop->params[1 + k].data) {
                memcpy(place.data, loop->params[1 + k].data, (size_t)bytes);
            }
            loop->params[1 + k] = place;
        }
    }
}

static void
loop_begin(LoopRun *loop)
{
    const Flow *flow = loop->flow;
    const Run *run = loop->run;
    loop->params = loop->in.run.tensors;
    loop->places = loop->params + flow->bodies[0].nparams;
    loop->go = flow->whiles ? *(const uint8_t *)run_data(run, flow->args[0]) : 1;
    for (int k = 0; k < flow->carries; k++) {
        loop->params[1 + k] = object_of(run, flow->args[flow->whiles + k]);
    }
    for (int k = flow->whiles + flow->carries + flow->rows; k < flow->nargs; k++) {
        loop->params[1 + k - flow->whiles] = object_of(run, flow->args[k]);
    }
    move_in(loop);
}

static int
run_loop(Run *run, const Flow *flow)
{
    LoopRun loop = {.run = run, .flow = flow};
    int status = inner_open(run, &flow->bodies[0], &loop.in);
    if (status == 0) {
        loop_begin(&loop);
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

/* Moves the parameter, if it is one, to the place of the result that is made in its memory. */
static void
keep_in(Inner *in, int param, PlanObject place)
{
    PlanObject *from = &in->run.tensors[param < 0 ? 0 : param];
    if (param >= 0) {
        int64_t bytes = slot_bytes(&in->run.plan->slots[param], in->first->values);
        if (bytes && place.data != from->data) {
            memcpy(place.data, from->data, (size_t)bytes);
        }
        *from = place;
    }
}

static int
run_branch(Run *run, const Flow *flow)
{
    Inner in;
    bool yes = *(const uint8_t *)run_data(run, flow->args[0]) != 0;
    int status = inner_open(run, &flow->bodies[yes ? 0 : 1], &in);
    if (status == 0) {
        PlanObject *params = in.run.tensors;
        for (int k = 1; k < flow->nargs; k++) {
            *params++ = object_of(run, flow->args[k]);
        }
        for (int k = 0; k < flow->nres; k++) {
            PlanObject place = object_of(run, flow->res[k]);
            keep_in(&in, flow->bodies[yes ? 0 : 1].kept[k], place);
            *params++ = place;
        }
        status = inner_run(run, &in, 0, false);
    }
    inner_close(run, &in);
    return status;
}

int
run_flow(Run *run, const Flow *flow)
{
    return flow->loops ? run_loop(run, flow) : run_branch(run, flow);
}
