/* Schedules looked for by measuring: what plan_compile.c, plan_run.c, tune.c and
 * tune_time.c share. */
#ifndef DLC_TUNE_H
#define DLC_TUNE_H

#include "codegen/compile/kernel.h"
#include "codegen/plan/plan.h"

/* ---- tune.c ---- */

typedef struct Tuner Tuner;     /* what a plan keeps for tuning; its first call uses it up */
typedef struct Tuning Tuning;   /* the tuning in that call */

/* A tensor that a kernel reads or writes, from its first element to its last. */
typedef struct {
    int slot;
    char *data;
    size_t bytes;
} TuneBuffer;

/* A kernel as a call has come to it: its phases are nphases launches of the plan from `first`
 * on. */
typedef struct {
    const Plan *plan;
    const Instance *inst;
    int first, nphases;
    TuneBuffer *buffers;        /* each slot once */
    int nbuffers;
    int threads;                /* the number of threads to measure with */
} TuneJob;

/* Begins the search: recalls what earlier ones have found.  *out is NULL if there is nothing to do,
 * or another call does it.  Returns -1 if the host noted an error.  Needs the interpreter lock. */
int tuning_begin(const Plan *plan, const Instance *inst, const PlanHost *host, Tuning **out);
bool tuning_wants(const Tuning *t,
                  int use); /* is a schedule of the kernel still to be looked for? */
/* Looks for a schedule of a kernel, without the interpreter lock, a candidate in each step.  false:
 * there are no more, or its time is over.  In the end the best one until then is put in the
 * kernel's place.  The job stays where it is. */
void tuning_search(Tuning *t, const TuneJob *job);
bool tuning_step(Tuning *t);
void tuning_settle(Tuning *t);
/* Tells the host about it: with the lock.  -1 as above. */
int tuning_tell(Tuning *t);
void tuning_end(Tuning *t);

/* ---- tune_time.c ---- */

/* Copies of the tensors of a job, on which equivalent kernels run.  NULL: there is no memory, or
 * the usual kernel has a fault. */
typedef struct TuneCopies TuneCopies;

TuneCopies *tune_copies_new(const TuneJob *job, const Kernel *usual);
void tune_copies_free(TuneCopies *c);
/* How many times as fast b seems to be as a; 0: it has a fault. */
double tune_glance(const TuneCopies *c, const Kernel *a, const Kernel *b);
/* Is b faster than a by more than noise?  seconds: of each.  false if the deadline comes first. */
bool tune_is_faster(const TuneCopies *c, const Kernel *a, const Kernel *b, double deadline,
                    double seconds[2]);
/* Do both make the same bits of the job's tensors?  false without memory to compare them. */
bool tune_is_same(const TuneCopies *c, const Kernel *a, const Kernel *b);

#endif
