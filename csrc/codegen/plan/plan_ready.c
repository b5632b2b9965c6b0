/* Launches of the body of a loop that are computed once for all its steps.
 *
 * What:     the sizes of a body are those of the loop, so what a step launches is the same each
 *           time.  Addresses alone differ: carried values change between two places, and rows lie
 *           one behind the other.
 * Requires: a body of kernels alone, in a run that nobody watches: a call may give other tensors
 *           and sizes at each step.  A step has run: the workspace is there.
 * Ensures:  a step sets the addresses that differ, and runs.
 * How:      the loop sets the parameters of the body for three steps: one for each place, and the
 *           one after.  What they have in common, and by how much they differ, holds for all.
 * Example:  for `c = c * x[i]` the first address is one of two, the second grows by a row.
 */
#include <stdlib.h>

#include "plan_run.h"

typedef struct {
    ParallelJob job;
    const Launch *launch;
    void **buffers;
    bool slow;                  /* worth leaving the interpreter's lock */
} ReadyLaunch;

/* An address that differs from step to step. */
typedef struct {
    void **at;
    char *place[2];             /* at step `from`, if it writes this place */
    int64_t row;                /* bytes from a step to the next */
} Moved;

struct Ready {
    ReadyLaunch *launches;
    Moved *moved;
    int nlaunches, nmoved;
    int64_t from;
};

static bool
runs(const Run *run, int launch)
{
    return run->inst->values[run->plan->launches[launch].extent] != 0;
}

/* Kernels alone, which nobody watches. */
static bool
is_plain(const Run *run)
{
    const Plan *plan = run->plan;
    bool plain = !plan->checks && !run->watched && !run->traced && !run->tuning;
    for (int k = 0; k < plan->nsteps && plain; k++) {
        plain = plan->steps[k].kind == STEP_LAUNCH;
    }
    return plain && run->inst->nown == 0 && run->inst->nlenders == 0;
}

/* In one piece of memory: launches, all their buffers, what may move. */
static Ready *
ready_alloc(const Run *run)
{
    const Plan *plan = run->plan;
    size_t launches = 0, buffers = 0;
    for (int k = 0; k < plan->nlaunches; k++) {
        launches += runs(run, k);
        buffers += runs(run, k) ? (size_t)plan->launches[k].nbuffers + 1 : 0;
    }
    Ready *ready = calloc(1, sizeof *ready + launches * sizeof *ready->launches +
                                 buffers * (sizeof *ready->moved + sizeof(void *)));
    if (ready) {
        ready->launches = (ReadyLaunch *)(ready + 1);
        ready->moved = (Moved *)(ready->launches + launches);
        void **all = (void **)(ready->moved + buffers);
        for (int k = 0; k < plan->nlaunches; k++) {
            if (runs(run, k)) {
                ready->launches[ready->nlaunches++].buffers = all;
                all += plan->launches[k].nbuffers + 1;
            }
        }
    }
    return ready;
}

Ready *
ready_make(Run *run, int64_t from)
{
    const Plan *plan = run->plan;
    Ready *ready = is_plain(run) ? ready_alloc(run) : NULL;
    if (!ready) {
        return NULL;
    }
    bool slow = false;
    ready->from = from;
    for (int k = 0, n = 0; k < plan->nsteps; k++) {
        int launch = plan->steps[k].launch;
        slow |= run->inst->slow[launch];
        if (runs(run, launch)) {
            ready->launches[n].launch = &plan->launches[launch];
            ready->launches[n++].slow = slow;
            slow = false;
        }
    }
    return ready;
}

/* Notes the addresses of this step. */
static void
note(Ready *ready, const Run *run, ReadyLaunch *l, ReadyStep step)
{
    run_job(run, (int)(l->launch - run->plan->launches), l->buffers, &l->job);
    for (int k = 0; k < l->launch->nbuffers; k++) {
        Moved *m = &ready->moved[ready->nmoved++];
        char *data = l->buffers[k];
        m->at = &l->buffers[k];
        if (step == READY_NEXT) {
            m->row = data == m->place[0] ? 0 : data - m->place[0];
        } else {
            m->place[step] = data;
        }
    }
}

void
ready_note(Ready *ready, const Run *run, ReadyStep step)
{
    ready->nmoved = 0;
    for (int k = 0; k < ready->nlaunches; k++) {
        note(ready, run, &ready->launches[k], step);
    }
    int all = ready->nmoved, n = 0;
    for (int k = 0; k < all && step == READY_NEXT; k++) {
        Moved *m = &ready->moved[k];
        if (m->row || m->place[0] != m->place[1]) {
            ready->moved[n++] = *m;
        }
    }
    ready->nmoved = step == READY_NEXT ? n : all;
}

int
ready_run(const Ready *ready, Run *run, int64_t at, bool second)
{
    int64_t rows = at - ready->from;
    for (int k = 0; k < ready->nmoved; k++) {
        const Moved *m = &ready->moved[k];
        *m->at = m->place[second] + rows * m->row;
    }
    for (int k = 0; k < ready->nlaunches; k++) {
        const ReadyLaunch *l = &ready->launches[k];
        if (l->slow) {
            run_leave(run);
        }
        int fault = parallel_for(&l->job);
        if (fault) {
            return run_launch_fault(run, l->launch, fault);
        }
    }
    return 0;
}
