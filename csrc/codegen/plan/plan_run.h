/* A run of a plan under way: what plan_run.c and plan_call.c share. */
#ifndef DLC_PLAN_RUN_H
#define DLC_PLAN_RUN_H

#include "codegen/tune/tune.h"

typedef struct Run {
    const Plan *plan;
    Instance *inst;             /* for the sizes that are known */
    int64_t *sizes;             /* of all names; SIZE_UNKNOWN where no call has bound it yet */
    const PlanHost *host;
    const PlanParam *in;
    PlanObject *tensors;        /* by slot: the host's tensor; object NULL where there is none */
    char *work;                 /* NULL before the first step that needs it */
    int64_t room;               /* bytes at work */
    int lent;                   /* of the instance's lenders: so many exist already */
    void **own;                 /* by the instance's own blocks: NULL where none is there */
    bool left;                  /* the interpreter lock is released */
    int64_t held;               /* the work of steps of loops since it was taken */
    bool watched, traced;       /* a profiler runs; a trace is written */
    Tuning *tuning;             /* NULL: no schedules are looked for */
    struct Check *check;        /* of a kernel that runs now; NULL: it is not compared */
} Run;

static inline void
run_enter(Run *run)
{
    if (run->left) {
        run->host->enter(run->host->arg);
        run->left = false;
        run->held = 0;
    }
}

static inline void
run_leave(Run *run)
{
    if (!run->left) {
        run->host->leave(run->host->arg);
        run->left = true;
    }
}

/* The sizes and strides that a slot has in this run. */
static inline void
run_shape(const Run *run, int k, PlanTensor *out)
{
    const Slot *slot = &run->plan->slots[k];
    out->rank = slot->rank;
    for (int ax = 0; ax < slot->rank; ax++) {
        out->sizes[ax] = run->inst->values[slot->sizes[ax]];
        out->strides[ax] = run->inst->values[slot->strides[ax]];
    }
}

static inline PlanObject
run_object(const PlanTensor *tensor)
{
    return (PlanObject){tensor->object, tensor->data};
}

/* The host's tensor with the shape of the slot. */
static inline void
run_tensor(const Run *run, int slot, const PlanObject *tensor, PlanTensor *out)
{
    out->object = tensor->object;
    out->data = tensor->data;
    run_shape(run, slot, out);
}

/* The range of a kernel or call in progress for a profiler; name NULL: there is no profiler. */
typedef struct {
    const char *name;
    void *object;               /* the host's */
    double begin;
} RunRange;

/* ---- plan_run.c ---- */

void *run_data(const Run *run, int slot); /* the first element of the slot */
int run_alloc(Run *run, int slot);        /* in the interpreter's lock: a tensor of the host */
/* slots: of the operands. */
RunRange run_begin(const Run *run, const char *name, int n, const int *slots);
void run_end(const Run *run, const RunRange *range);

int run_workspace(Run *run); /* memory for the kernels; -1: there is none, an error is noted */
/* The launch as a job, with the addresses of its buffers; there is room for nbuffers + 1. */
void run_job(const Run *run, int launch, void **buffers, ParallelJob *job);
int run_launch(Run *run, const Launch *launch, const ParallelJob *job); /* -1: an error is noted */
int run_all_steps(Run *run);

/* ---- plan_flow_run.c ---- */

int run_flow(Run *run, const Flow *flow);

/* ---- plan_own.c ---- */

/* Room for the addresses of the n blocks that the instance owns; -1: no memory. */
int run_open_own(Run *run, int n);
/* The blocks whose life begins with step `at`; -1: an error is noted. */
int run_take_own(Run *run, int at);
void run_free_own(Run *run, int at); /* ... ends with step `at` */
void run_drop_own(Run *run, int n);

/* ---- check.c ---- */

typedef struct Check Check;

/* Before a launch: prepares the comparison of the results of its kernel, if this is its first
 * launch. */
void check_begin(Run *run, int launch);
/* The function to launch for a kernel that is compared; otherwise NULL: the best function at that
 * time. */
KernelFn check_entry(const Run *run, int launch);
/* After it: compares, if the kernel ends with it; -1: an error is noted. */
int check_end(Run *run, int launch);
void check_drop(Run *run);

/* ---- plan_call.c ---- */

/* Calls the host; its results are in run->tensors. */
int run_call(Run *run, const Call *call);
/* In the interpreter's lock.  The size of the bind, which `what` says; -1: the function excludes
 * it. */
int run_bind(Run *run, const char *what, const Bind *bind, int64_t value);
/* The run goes on with the instance for the sizes; -1: they fit no memory. */
int run_bound(Run *run, const char *what, int nbinds, const Bind *binds);

#endif
