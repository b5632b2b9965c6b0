/* Sizes at run time: finding the size symbols, and the instance of a plan for their values. */

#include <stdlib.h>
#include <string.h>

#include "plan.h"

/* A thread is worth starting for the work of DLC_GRAIN, in units of ops.def (nominally a quarter of
 * a cycle for one element; vectors in the caches of a core take a half to a fifth of that): 1.5 to
 * 4 us, while fork and join of the OpenMP runtime, its threads awake, take 1.5.  Two threads, each
 * with this work, are as fast as one or faster: for a sum of two tensors from 64 K elements on, for
 * exp from 19 K, for fifteen operations from 4 K. */

/* The quotient of any two numbers: the least one has no opposite. */
static int64_t
quotient(int64_t a, int64_t b)
{
    return b == -1 ? (int64_t)-(uint64_t)a : a / b;
}

bool
sizes_solve(const Plan *plan, const PlanParam *in, int64_t *sizes)
{
    for (int k = 0; k < plan->ndeclared; k++) {
        const Solve *solve = &plan->solves[k];
        if (sizes[k] == SIZE_UNKNOWN && solve->param >= 0 && solve->axis < in[solve->param].rank) {
            sizes[k] = quotient(in[solve->param].sizes[solve->axis] - solve->rest, solve->scale);
        }
        if (sizes[k] == SIZE_UNKNOWN) {
            return false;
        }
    }
    return true;
}

static int64_t
floor_div(int64_t a, int64_t b)
{
    if (b == 0) {
        return 0;
    }
    int64_t q = quotient(a, b);
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

/* *over is set where the value has more than 64 bits. */
static int64_t
dim_step(const DimCode *code, const int64_t *sizes, const int64_t *values, bool *over)
{
    if (code->op == 'i') {
        return code->value;
    }
    if (code->op == 'n') {
        return sizes[code->a] == SIZE_UNKNOWN ? 0 : sizes[code->a];
    }
    int64_t a = values[code->a], b = values[code->b], value;
    switch (code->op) {
    case '+':
        *over |= __builtin_add_overflow(a, b, &value);
        return value;
    case '*':
        *over |= __builtin_mul_overflow(a, b, &value);
        return value;
    case '/':
        return floor_div(a, b);
    case '%':
        return b ? a - floor_div(a, b) * b : 0;
    case 'M':
        return a > b ? a : b;
    case 's':
        return dim_scaled(a, b);
    default:
        return a < b ? a : b;
    }
}

bool
launch_begins(const Launch *launch, const int64_t *values)
{
    bool works = false;
    for (int k = 0; k < launch->phases && !works; k++) {
        works = values[launch[k].extent] != 0;
    }
    return works;
}

int64_t
launch_add_work(const Launch *launch, const int64_t *values, int64_t to)
{
    int64_t work;
    bool much = __builtin_mul_overflow(values[launch->extent], values[launch->work], &work) ||
                __builtin_add_overflow(to, work, &work);
    return much ? INT64_MAX : work;
}

/* Units of work that take a core a year and more. */
#define NEVER_DONE (INT64_C(1) << 59)

/* The work of a run of the body, of what is certain to run; 0: data or the body's sizes decide. */
static int64_t
body_work(const Body *body, const int64_t *values)
{
    const Plan *plan = body->plan;
    int64_t work = 0, *sizes = calloc((size_t)plan->nsizes + 1, sizeof *sizes);
    for (int k = 0; sizes && k < plan->nsizes; k++) {
        sizes[k] = k < plan->ndeclared ? values[body->sizes[k]] : SIZE_UNKNOWN;
    }
    Instance *inst = sizes ? instance_get((Plan *)plan, sizes) : NULL;
    if (inst && !inst->too_many) {
        work = inst->work;
    }
    instance_unref(inst);
    free(sizes);
    return work;
}

static int64_t
flow_work(const Flow *flow, const int64_t *values)
{
    int64_t work, most = INT64_MAX;
    if (!flow->loops) {
        int64_t yes = body_work(&flow->bodies[0], values), no = body_work(&flow->bodies[1], values);
        return yes < no ? yes : no;
    }
    if (flow->whiles || values[flow->steps] <= 0) {
        return 0; /* data says how many steps there are */
    }
    work = body_work(&flow->bodies[0], values);
    return __builtin_mul_overflow(values[flow->steps], work, &work) ? most : work;
}

/* The work of all launches and of the steps of loops.  A run with more than NEVER_DONE is refused:
 * sizes of so much work are those of values that no memory can have.  Eager refuses to allocate
 * them, where a kernel, in which such a value is in no memory, would begin. */
static int64_t
plan_work(const Plan *plan, const int64_t *sizes, const int64_t *values)
{
    int64_t work = 0;
    bool known = true;
    for (int k = 0; k < plan->nlaunches; k++) {
        work = launch_add_work(&plan->launches[k], values, work);
    }
    for (int k = 0; k < plan->nsizes; k++) {
        known &= sizes[k] != SIZE_UNKNOWN;
    }
    for (int k = 0; k < plan->nflows && known; k++) {
        int64_t more = flow_work(&plan->flows[k], values);
        work = __builtin_add_overflow(work, more, &work) ? INT64_MAX : work;
    }
    return work;
}

/* The work of the launches from k on that follow one another without a call between. */
static void
mark_slow_runs(const Plan *plan, const int64_t *values, bool *slow)
{
    int64_t work = 0;
    int run = -1;
    for (int k = 0; k < plan->nsteps; k++) {
        const Step *step = &plan->steps[k];
        if (step->kind == STEP_LAUNCH) {
            const Launch *launch = &plan->launches[step->launch];
            run = run < 0 ? step->launch : run;
            work = launch_add_work(launch, values, work);
            slow[run] = work > DLC_UNLOCK;
        } else {
            run = -1;
            work = 0;
        }
    }
}

static int64_t *
take(int64_t **from, int count)
{
    int64_t *array = *from;
    *from += count;
    return array;
}

/* In one piece of memory, its arrays behind it; NULL without memory. */
static Instance *
instance_alloc(const Plan *plan)
{
    size_t words = (size_t)(plan->nsizes + plan->ndims + plan->launch_values + 2 * plan->nslots +
                            4 * plan->nlaunches);
    size_t blocks = (size_t)(plan->nslots + plan->nlaunches) * sizeof(OwnBlock);
    size_t pointers = plan->nin_place ? (size_t)plan->nparams * sizeof(void *) : 0;
    Instance *inst = calloc(1, sizeof *inst + words * sizeof(int64_t) + blocks + pointers +
                                   (size_t)(2 * plan->nlaunches + 4 * plan->nsteps));
    if (!inst) {
        return NULL;
    }
    int64_t *memory = (int64_t *)(inst + 1);
    atomic_init(&inst->refs, 1);
    inst->sizes = take(&memory, plan->nsizes);
    inst->values = take(&memory, plan->ndims);
    inst->n = take(&memory, plan->launch_values);
    inst->work_at = take(&memory, plan->nslots + plan->nlaunches);
    inst->home = take(&memory, plan->nslots + plan->nlaunches);
    inst->scratch = take(&memory, plan->nlaunches);
    inst->grain = take(&memory, plan->nlaunches);
    inst->own = (OwnBlock *)memory;
    inst->disjoint = (void **)((char *)memory + blocks);
    inst->slow = (bool *)inst->disjoint + pointers;
    inst->in_work = inst->slow + plan->nlaunches;
    inst->at_own = inst->in_work + plan->nsteps;
    inst->frees = inst->at_own + plan->nsteps;
    inst->keeps = inst->frees + plan->nsteps;
    inst->checked = (atomic_uchar *)(inst->keeps + plan->nsteps);
    return inst;
}

/* Sets the arguments of each launch: its dims, the work that is worth a thread, scratch for each
 * thread. */
static void
set_launches(const Plan *plan, Instance *inst)
{
    bool scratched = false;
    for (int k = 0; k < plan->nlaunches; k++) {
        const Launch *launch = &plan->launches[k];
        for (int j = 0; j < launch->ndims; j++) {
            inst->n[launch->dims_at + j] = inst->values[launch->dims[j]];
        }
        int64_t work = inst->values[launch->work], scratch = inst->values[launch->scratch];
        inst->grain[k] = work > 0 ? (DLC_GRAIN + work - 1) / work : DLC_GRAIN;
        inst->scratch[k] = scratch > 0 ? (scratch + DLC_LINE - 1) / DLC_LINE * DLC_LINE : 0;
        scratched |= scratch > 0;
    }
    inst->threads = scratched ? parallel_threads() : 0;
}

/* Do the sizes of the call satisfy the function's declarations?  Its kernels and views rely on
 * it. */
static bool
are_declared(const Plan *plan, const int64_t *sizes)
{
    for (int k = 0; k < plan->ndeclared; k++) {
        const Solve *solve = &plan->solves[k];
        if (sizes[k] < solve->range.lo || sizes[k] > solve->range.hi ||
            (solve->divisor > 1 && sizes[k] % solve->divisor)) {
            return false;
        }
    }
    return true;
}

/* Kernels loop over sizes that they take for 0 or more.  Calls bind in the order of the sizes:
 * where one is bound, those before it are. */
static bool
are_sizes(const Plan *plan, const int64_t *sizes, const int64_t *values)
{
    for (int k = 0; k < plan->nuncertain; k++) {
        const Uncertain *size = &plan->uncertain[k];
        bool known = size->upto == 0 || sizes[size->upto - 1] != SIZE_UNKNOWN;
        if (known && values[size->dim] < 0) {
            return false;
        }
    }
    return true;
}

static Instance *
instance_new(const Plan *plan, const int64_t *sizes)
{
    Instance *inst = instance_alloc(plan);
    if (!inst) {
        return NULL;
    }
    memcpy(inst->sizes, sizes, (size_t)plan->nsizes * sizeof *sizes);
    if (!are_declared(plan, sizes)) {
        inst->too_many = true;
        return inst;
    }
    for (int k = 0; k < plan->ndims; k++) {
        inst->values[k] = dim_step(&plan->dims[k], sizes, inst->values, &inst->too_many);
    }
    inst->too_many = inst->too_many || !are_sizes(plan, sizes, inst->values) ||
                     !slots_fit(plan, inst->values) ||
                     !results_do_not_overlap(plan, sizes, inst->values);
    if (!inst->too_many) {
        inst->work = plan_work(plan, sizes, inst->values);
        inst->too_many = inst->work >= NEVER_DONE;
    }
    if (inst->too_many) {
        return inst;
    }
    set_launches(plan, inst);
    mark_slow_runs(plan, inst->values, inst->slow);
    if (!memory_plan(plan, inst)) {
        free(inst);
        return NULL;
    }
    return inst;
}

void
instance_unref(Instance *inst)
{
    if (inst && atomic_fetch_sub(&inst->refs, 1) == 1) {
        free(inst);
    }
}

void
plan_lock(Plan *plan)
{
    if (spin_take(&plan->lock)) {
        /* After a fork: the list may be half changed, so it is begun anew. */
        memset(plan->instances, 0, sizeof plan->instances);
    }
}

void
plan_unlock(Plan *plan)
{
    spin_give(&plan->lock);
}

/* Puts inst first; the places before `upto` move down by one. */
static void
put_first(Plan *plan, Instance *inst, int upto)
{
    memmove(plan->instances + 1, plan->instances, (size_t)upto * sizeof *plan->instances);
    plan->instances[0] = inst;
}

Instance *
instance_get(Plan *plan, const int64_t *sizes)
{
    size_t bytes = (size_t)plan->nsizes * sizeof *sizes;
    int threads = parallel_threads(); /* it may take locks: before the plan's own */
    plan_lock(plan);
    for (int k = 0; k < INSTANCES && plan->instances[k]; k++) {
        Instance *inst = plan->instances[k];
        bool same = bytes == 0 || memcmp(inst->sizes, sizes, bytes) == 0;
        if (same && (!inst->threads || inst->threads == threads)) {
            atomic_fetch_add(&inst->refs, 1);
            put_first(plan, inst, k);
            plan_unlock(plan);
            return inst;
        }
    }
    plan_unlock(plan);
    Instance *inst = instance_new(plan, sizes);
    if (inst) {
        atomic_fetch_add(&inst->refs, 1);
        plan_lock(plan);
        Instance *last = plan->instances[INSTANCES - 1];
        put_first(plan, inst, INSTANCES - 1);
        plan_unlock(plan);
        instance_unref(last);
    }
    return inst;
}
