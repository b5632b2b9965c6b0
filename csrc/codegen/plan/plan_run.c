/* Running a plan: one pass over the steps.
 *
 * A run owns the host's tensors, by slot.  All else is read from the Plan and the Instance, which
 * nobody writes.  A call that binds sizes gives the run another Instance. */

#include <stdlib.h>
#include <string.h>

#include "plan_flow_run.h"

enum { FEW_BUFFERS = 64 };

/* The address of a WORK slot or of scratch in the run's memory: see Instance. */
static char *
work_data(const Run *run, int k)
{
    int64_t home = run->inst->home[k];
    char *from = home > 0   ? run->tensors[home - 1].data
                 : home < 0 ? run->own[-1 - home]
                            : run->work;
    return from ? from + run->inst->work_at[k] : NULL;
}

void *
run_data(const Run *run, int k)
{
    const Slot *slot = &run->plan->slots[k];
    char *data;
    switch (slot->kind) {
    case SLOT_WORK:
        return work_data(run, k);
    case SLOT_SCALAR:
        return &run->inst->values[slot->offset];        /* nobody writes a scalar */
    case SLOT_VIEW:
        data = run_data(run, slot->root);
        return data ? data + run->inst->values[slot->offset] * dtype_info[slot->dtype].bytes : NULL;
    default:
        return run->tensors[k].data;
    }
}

int
run_alloc(Run *run, int slot)
{
    PlanTensor made = {0};
    run_shape(run, slot, &made);
    int status = run->host->alloc(run->host->arg, run->plan->slots[slot].dtype, &made);
    run->tensors[slot] = run_object(&made);
    return status;
}

/* Allocates the tensors that lend their memory to others from step `at` on. */
static int
alloc_lenders(Run *run, int at)
{
    int status = 0;
    while (status == 0 && run->lent < run->inst->nlenders &&
           run->inst->lenders[run->lent].before == at) {
        run_enter(run);
        status = run_alloc(run, run->inst->lenders[run->lent++].slot);
    }
    return status;
}

static void
free_work(Run *run)
{
    if (run->work) {
        workspace_free(run->work);
        run->work = NULL;
        run->room = 0;
    }
}

static int
view_of(const Run *run, int slot, const PlanObject *base, PlanTensor *out)
{
    const Slot *s = &run->plan->slots[slot];
    int64_t offset = s->kind == SLOT_VIEW ? run->inst->values[s->offset] : 0;
    run_shape(run, slot, out);
    return run->host->view(run->host->arg, base, s->dtype, offset, out);
}

/* ---- a kernel whose schedule is looked for ---- */

static void
add_buffer(const Run *run, TuneJob *job, int slot)
{
    for (int k = 0; k < job->nbuffers; k++) {
        if (job->buffers[k].slot == slot) {
            return;
        }
    }
    const Slot *s = &run->plan->slots[slot];
    size_t bytes = (size_t)slot_bytes(s, run->inst->values);
    job->buffers[job->nbuffers++] = (TuneBuffer){slot, run_data(run, slot), bytes};
}

/* Memory for the kernels, until a call that it is freed before; -1: there is none. */
int
run_workspace(Run *run)
{
    int64_t bytes = run->inst->workspace;
    if (bytes <= run->room) {
        return 0;
    }
    if (run->work) {
        workspace_give(run->work);
    }
    run->work = workspace_take((size_t)bytes);
    run->room = run->work ? bytes : 0;
    if (!run->work) {
        run_enter(run);
        run->host->fault(run->host->arg, FAULT_MEMORY, NULL, NULL);
        return -1;
    }
    return 0;
}

/* The search for a schedule of the job's kernel.  The host hears of it after each step, and may end
 * it; what was the best until then stays. */
static int
tune_job(Run *run, const TuneJob *job)
{
    int status = 0;
    run_leave(run);
    tuning_search(run->tuning, job);
    while (status == 0 && tuning_step(run->tuning)) {
        run_enter(run);
        status = tuning_tell(run->tuning);
        run_leave(run);
    }
    tuning_settle(run->tuning);
    run_enter(run);
    return status < 0 ? status : tuning_tell(run->tuning);
}

/* Looks for a schedule of a kernel at its first launch. */
static int
tune_launch(Run *run, int first)
{
    const Plan *plan = run->plan;
    int status = 0;
    TuneJob job = {
        .plan = plan,
        .inst = run->inst,
        .first = first,
        /* without scratch an instance is for any number */
        .threads = run->inst->threads ? run->inst->threads : parallel_threads(),
    };
    size_t room = 0;
    for (int k = first; k < plan->nlaunches && plan->launches[k].use == plan->launches[first].use;
         k++) {
        job.nphases++;
        room += (size_t)plan->launches[k].nbuffers;
    }
    if ((job.buffers = calloc(room + 1, sizeof *job.buffers))) {
        for (int k = first; k < first + job.nphases; k++) {
            for (int j = 0; j < plan->launches[k].nbuffers; j++) {
                add_buffer(run, &job, plan->launches[k].buffers[j]);
            }
        }
        status = tune_job(run, &job);
        free(job.buffers);
    }
    return status;
}

/* -1: the error is noted. */
static int
run_launch_fault(Run *run, const Launch *launch, int fault)
{
    run_enter(run);
    if (fault != FAULT_HOST) {
        run->host->fault(run->host->arg, fault, launch->node, launch->source);
    }
    return -1;
}

void
run_job(const Run *run, int k, void **buffers, ParallelJob *job)
{
    const Launch *launch = &run->plan->launches[k];
    const Instance *inst = run->inst;
    for (int j = 0; j < launch->nbuffers; j++) {
        buffers[j] = run_data(run, launch->buffers[j]);
    }
    char *scratch = work_data(run, run->plan->nslots + k);
    buffers[launch->nbuffers] = scratch;
    KernelFn compared = check_entry(run, k);
    const CodeVariant *variant = compared ? NULL : code_variant(launch->code, launch->entry);
    *job = (ParallelJob){
        .code = compared ? NULL : launch->code,
        .body = compared,
        .entry = launch->entry,
        .nbuffers = launch->nbuffers,
        .p = buffers,
        .n = inst->n + launch->dims_at,
        .extent = inst->values[launch->extent],
        .grain = inst->grain[k],
        .scratch = scratch,
        .each = (size_t)inst->scratch[k],
        .most = launch->in_order ? 1 : inst->threads,
    };
    if (variant) {
        job->code = NULL;
        job->body = variant->fn;
        job->extent = variant->extent;
        job->grain = variant->grain;
    }
}

/* The steps one after the other.  Between pieces that take some milliseconds the user may interrupt
 * them. */
static int
run_in_order(Run *run, const ParallelJob *job)
{
    enum { GRAINS = 64 };
    int64_t most = job->grain < INT64_MAX / GRAINS ? job->grain * GRAINS : INT64_MAX;
    bool left = run->left;
    Watch watch = {0};
    int fault = 0;
    for (int64_t lo = 0, hi; lo < job->extent && fault == 0; lo = hi) {
        hi = job->extent - lo > most ? lo + most : job->extent;
        if (lo && flow_look_up(&watch, run) < 0) {
            return FAULT_HOST;
        }
        if (left) { /* the look took the interpreter's lock */
            run_leave(run);
        }
        fault = job->code ? code_entry(job->code, job->entry)(job->p, job->n, lo, hi)
                          : job->body(job->p, job->n, lo, hi);
    }
    return fault;
}

int
run_launch(Run *run, const Launch *launch, const ParallelJob *job)
{
    int fault = launch->in_order ? run_in_order(run, job) : parallel_for(job);
    return fault ? run_launch_fault(run, launch, fault) : 0;
}

static int
step_launch(Run *run, const Step *step)
{
    const Launch *launch = &run->plan->launches[step->launch];
    void *p[FEW_BUFFERS + 1], **buffers = p;
    const int64_t *values = run->inst->values;
    bool works = values[launch->extent] != 0; /* else it is not chosen, or empty */
    bool tuned = run->tuning && launch_begins(launch, values) &&
                 tuning_wants(run->tuning, launch->use); /* with the launches that follow */
    bool in_work = tuned || (works && run->inst->in_work[step - run->plan->steps]);
    if (in_work && run_workspace(run) < 0) {
        return -1;
    }
    if (tuned && tune_launch(run, step->launch) < 0) {
        return -1;
    }
    if (run->inst->slow[step->launch]) {
        run_leave(run);
    }
    if (!works) {
        return 0;
    }
    if (launch->nbuffers > FEW_BUFFERS &&
        !(buffers = malloc((size_t)(launch->nbuffers + 1) * sizeof *buffers))) {
        return run_launch_fault(run, launch, FAULT_MEMORY);
    }
    ParallelJob job;
    run_job(run, step->launch, buffers, &job);
    RunRange range = run->watched || run->traced
                         ? run_begin(run, launch->name, launch->nbuffers, launch->buffers)
                         : (RunRange){0};
    int status = run_launch(run, launch, &job);
    if (range.name) {
        run_end(run, &range);
    }
    if (buffers != p) {
        free(buffers);
    }
    return status;
}

/* A launch of a plan whose kernels are compared with the interpreter. */
static int
step_checked(Run *run, const Step *step)
{
    check_begin(run, step->launch);
    int status = step_launch(run, step);
    return status == 0 ? check_end(run, step->launch) : status;
}

static int
step_copy(Run *run, const Step *step)
{
    const Plan *plan = run->plan;
    PlanTensor to, from;
    int64_t elements = 1;
    run_shape(run, step->slot, &to);
    run_shape(run, step->from, &from);
    for (int ax = 0; ax < to.rank; ax++) {
        elements *= to.sizes[ax];
    }
    if (elements > DLC_UNLOCK_COPY) {
        run_leave(run);
    }
    if (run->inst->in_work[step - plan->steps] && run_workspace(run) < 0) {
        return -1;
    }
    copy_strided(dtype_info[plan->slots[step->slot].dtype].bytes, to.rank, to.sizes,
                 run_data(run, step->slot), to.strides, run_data(run, step->from), from.strides);
    return 0;
}

static int
step_view(Run *run, int slot)
{
    PlanTensor made = {0};
    run_enter(run);
    int status = view_of(run, slot, &run->tensors[run->plan->slots[slot].root], &made);
    run->tensors[slot] = run_object(&made);
    return status;
}

static int
step_flow(Run *run, const Step *step)
{
    const Flow *flow = &run->plan->flows[step->flow];
    if (run->inst->in_work[step - run->plan->steps] && run_workspace(run) < 0) {
        return -1;
    }
    RunRange range = run->watched || run->traced
                         ? run_begin(run, flow->name, flow->nargs, flow->args)
                         : (RunRange){0};
    int status = run_flow(run, flow);
    if (range.name) {
        run_end(run, &range);
    }
    return status;
}

static int
do_step(Run *run, int at)
{
    const Step *step = &run->plan->steps[at];
    PlanObject *tensor = &run->tensors[step->slot];
    switch (step->kind) {
    case STEP_ALLOC:
        if (tensor->object) {
            return 0; /* it lends its memory */
        }
        run_enter(run);
        return run_alloc(run, step->slot);
    case STEP_VIEW:
        return step_view(run, step->slot);
    case STEP_LAUNCH:
        return run->plan->checks ? step_checked(run, step) : step_launch(run, step);
    case STEP_CALL:
        if (run->inst->frees[at]) {
            free_work(run);
        }
        return run_call(run, &run->plan->calls[step->call]);
    case STEP_COPY:
        return step_copy(run, step);
    case STEP_FLOW:
        return step_flow(run, step);
    case STEP_FREE:
        run_enter(run);
        if (run->plan->slots[step->slot].kind != SLOT_PARAM) {
            run->host->release(run->host->arg, tensor->object);
        } else if (run->host->give_up) {
            run->host->give_up(run->host->arg, step->slot, run->inst->keeps[at]);
        }
        tensor->object = NULL;
        return 0;
    }
    return -1;
}

static int
run_step(Run *run, int at)
{
    const Instance *inst = run->inst; /* a call may change it: one without own blocks */
    if (alloc_lenders(run, at) < 0 || (inst->at_own[at] && run_take_own(run, at) < 0) ||
        do_step(run, at) < 0) {
        return -1;
    }
    if (run->inst == inst && inst->at_own[at]) {
        run_free_own(run, at);
    }
    if (at == run->inst->work_end) {
        free_work(run);
    }
    return 0;
}

/* Hands the results over; those given away are removed from run->tensors. */
static int
give_results(Run *run, PlanTensor *out)
{
    const Plan *plan = run->plan;
    for (int k = 0; k < plan->nresults; k++) {
        const PlanResult *r = &plan->results[k];
        out[k] = (PlanTensor){0};
        if (plan->slots[r->slot].kind == SLOT_SCALAR) {
            out[k].sizes[0] = run->inst->values[plan->slots[r->slot].offset];
        } else if (r->kind == RESULT_FRESH) {
            run_tensor(run, r->slot, &run->tensors[r->slot], &out[k]);
            run->tensors[r->slot].object = NULL;
        }
    }
    for (int k = 0; k < plan->nresults; k++) {
        const PlanResult *r = &plan->results[k];
        bool whole = r->kind == RESULT_VIEW_PARAM && r->slot == r->of && run->in[r->of].of.object;
        if (whole && !run->host->views) {
            /* A parameter that is returned unchanged: the same object, by which torch knows sizes
             * of nested tensors. */
            run_tensor(run, r->slot, &run->in[r->of].of, &out[k]);
            run->host->retain(run->host->arg, out[k].object);
        } else if (r->kind == RESULT_VIEW_PARAM &&
                   view_of(run, r->slot, &run->in[r->of].of, &out[k]) < 0) {
            return -1;
        } else if (r->kind == RESULT_VIEW_RESULT) {
            PlanObject base = run->tensors[plan->slots[r->slot].root];
            base = base.object ? base : run_object(&out[r->view_slot]);
            if (view_of(run, r->slot, &base, &out[k]) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

static void
drop_results(Run *run, PlanTensor *out)
{
    for (int k = 0; k < run->plan->nresults; k++) {
        if (out[k].object) {
            run->host->release(run->host->arg, out[k].object);
        }
        out[k].object = NULL;
    }
}

/* ---- parameters that kernels write to, where they share memory with others ---- */

static void
copy_param(const Run *run, int k, void *to, const void *from)
{
    PlanTensor shape;
    run_shape(run, k, &shape);
    copy_strided(dtype_info[run->plan->slots[k].dtype].bytes, shape.rank, shape.sizes, to,
                 shape.strides, from, shape.strides);
}

/* The run works on copies, so that all is read before anything is written. */
static int
shadow_params(Run *run)
{
    const Plan *plan = run->plan;
    for (int k = 0; k < plan->nin_place; k++) {
        int slot = plan->in_place[k];
        run->tensors[slot].object = NULL;
        if (run_alloc(run, slot) < 0) {
            return -1;
        }
        copy_param(run, slot, run->tensors[slot].data, run->in[slot].of.data);
    }
    return 0;
}

static void
drop_shadows(Run *run, bool keep)
{
    const Plan *plan = run->plan;
    for (int k = 0; k < plan->nin_place; k++) {
        int slot = plan->in_place[k];
        if (keep) {
            copy_param(run, slot, run->in[slot].of.data, run->tensors[slot].data);
        }
        if (run->tensors[slot].object && run->tensors[slot].object != run->in[slot].of.object) {
            run->host->release(run->host->arg, run->tensors[slot].object);
        }
        run->tensors[slot] = run->in[slot].of;
    }
}

/* Runs all steps and measures the time of each. */
static int
time_steps(Run *run)
{
    const Plan *plan = run->plan;
    double *seconds = calloc((size_t)plan->nsteps + 1, sizeof *seconds), begin = clock_seconds(),
           at = begin;
    int status = seconds ? 0 : -1;
    if (!seconds) {
        run->host->fault(run->host->arg, FAULT_MEMORY, NULL, NULL);
    }
    for (int k = 0; k < plan->nsteps && status == 0; k++) {
        status = run_step(run, k);
        double now = clock_seconds();
        seconds[k] = now - at;
        at = now;
    }
    if (status == 0) {
        call_profile_add(run->host->profile, run->inst, seconds, at - begin);
    }
    free(seconds);
    return status;
}

int
run_all_steps(Run *run)
{
    const Plan *plan = run->plan;
    int status = 0;
    for (int k = 0; k < plan->nsteps && status == 0; k++) {
        status = run_step(run, k);
    }
    return status;
}

static int
run_steps(Run *run, PlanTensor *out)
{
    const Plan *plan = run->plan;
    for (int k = 0; k < plan->nparams; k++) {
        run->tensors[k] = run->in[k].of; /* parameter k is slot k */
    }
    bool shadows = plan->nin_place && params_overlap((Plan *)plan, run->inst, run->in);
    int status = shadows ? shadow_params(run) : 0;
    if (status == 0) {
        status = run->host->profile ? time_steps(run) : run_all_steps(run);
    }
    run_enter(run);
    if (run->check) {
        check_drop(run);
    }
    if (shadows) {
        drop_shadows(run, status == 0);
    }
    if (status == 0) {
        status = give_results(run, out);
        if (status < 0) {
            drop_results(run, out);
        }
    }
    for (int k = plan->nparams; k < plan->nslots; k++) {
        if (run->tensors[k].object) {
            run->host->release(run->host->arg, run->tensors[k].object);
        }
    }
    return status;
}

/* ---- ranges, for profilers and traces ---- */

enum { MOST_SHOWN = 8 }; /* operands of a kernel that a profiler is shown */

RunRange
run_begin(const Run *run, const char *name, int n, const int *slots)
{
    void *objects[MOST_SHOWN];
    int shown = 0;
    for (int k = 0; k < n && shown < MOST_SHOWN; k++) {
        void *object = run->tensors[slots[k]].object;
        SlotKind kind = run->plan->slots[slots[k]].kind;
        if (kind != SLOT_WORK && kind != SLOT_SCALAR && kind != SLOT_VIEW && object) {
            objects[shown++] = object;
        }
    }
    void *range = run->watched ? run->host->begin(name, shown, objects) : NULL;
    return (RunRange){name, range, run->traced ? clock_seconds() : 0};
}

void
run_end(const Run *run, const RunRange *range)
{
    if (run->traced) {
        trace_event("kernel", range->name, range->begin, clock_seconds() - range->begin);
    }
    if (range->object) {
        run->host->end(range->object);
    }
}

/* Takes memory for the run and runs. */
static int
run_instance(Run *run, PlanTensor *out)
{
    PlanObject few[FEW_SLOTS], *many = NULL;
    int status = -1, nown = run->inst->nown;
    size_t nslots = (size_t)run->plan->nslots;
    if (nslots > FEW_SLOTS) {
        run->tensors = many = calloc(nslots, sizeof *many);
    } else {
        run->tensors = few;
        for (size_t k = 0; k < nslots; k++) {
            few[k].object = few[k].data = NULL;
        }
    }
    if (!run->tensors || run_open_own(run, nown) < 0) {
        run->host->fault(run->host->arg, FAULT_MEMORY, NULL, NULL);
    } else {
        status = run_steps(run, out);
    }
    if (run->work) {
        workspace_give(run->work);
    }
    run_drop_own(run, nown);
    free(many);
    return status;
}

/* Does the tensor have the sizes and strides of its slot?  Strides do not matter where an axis has
 * size 1, nor in a tensor without elements. */
static bool
param_fits(const Slot *slot, const int64_t *values, const PlanParam *in)
{
    bool strides = true, empty = false;
    if (slot->rank != in->rank) {
        return false;
    }
    for (int ax = 0; ax < slot->rank; ax++) {
        int64_t size = values[slot->sizes[ax]];
        if (size != in->sizes[ax]) {
            return false;
        }
        strides = strides && (size == 1 || values[slot->strides[ax]] == in->strides[ax]);
        empty = empty || size == 0;
    }
    return strides || empty;
}

static bool
params_fit(const Run *run)
{
    for (int k = 0; k < run->plan->nparams; k++) {
        if (!param_fits(&run->plan->slots[k], run->inst->values, &run->in[k])) {
            return false;
        }
    }
    return true;
}

int
plan_run(const Plan *plan, const PlanHost *host, const int64_t *sizes, const PlanParam *in,
         PlanTensor *out)
{
    enum { ROOM = 32 };
    int64_t few[ROOM], *known = few;
    int status = -1;
    if (plan->nsizes > ROOM && !(known = malloc((size_t)plan->nsizes * sizeof *known))) {
        host->fault(host->arg, FAULT_MEMORY, NULL, NULL);
        return -1;
    }
    for (int k = 0; k < plan->nsizes; k++) {
        known[k] = k < plan->ndeclared && sizes ? sizes[k] : SIZE_UNKNOWN;
    }
    if (!sizes_solve(plan, in, known)) {
        host->fault(host->arg, FAULT_LAYOUT, NULL, NULL);
    } else {
        Instance *inst = instance_get((Plan *)plan, known);
        Run run = {.plan = plan,
                   .inst = inst,
                   .sizes = known,
                   .host = host,
                   .in = in,
                   .traced = trace_is_on()};
        run.watched = host->is_watched && host->is_watched();
        double begin = run.traced ? clock_seconds() : 0;
        if (!inst) {
            host->fault(host->arg, FAULT_MEMORY, NULL, NULL);
        } else if (inst->too_many || !params_fit(&run)) {
            host->fault(host->arg, FAULT_LAYOUT, NULL, NULL);
        } else if (!plan->tuner || tuning_begin(plan, inst, host, &run.tuning) == 0) {
            status = run_instance(&run, out);
        }
        if (run.tuning) {
            tuning_end(run.tuning);
        }
        instance_unref(run.inst);
        if (run.traced) {
            trace_event("call", plan->name, begin, clock_seconds() - begin);
        }
    }
    if (known != few) {
        free(known);
    }
    return status;
}
