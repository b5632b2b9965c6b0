/* Schedules compared by measuring: what plan_compile.c, plan_run.c, tune.c and tune_time.c
 * share. */
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

/* Begins the comparison of schedules: recalls earlier choices, and compiles the candidates. *out is
 * NULL if there is nothing to do, or another call does it.  Returns -1 if the host noted an error.
 * Needs the interpreter lock. */
int tuning_begin(const Plan *plan, const Instance *inst, const PlanHost *host, Tuning **out);
bool tuning_wants(const Tuning *t, int use); /* is the kernel still to be measured? */
/* Measures the kernel, and puts the best schedule in its place: without the interpreter lock. */
void tuning_measure(Tuning *t, const TuneJob *job);
/* Tells the host about it: with the lock.  -1 as above. */
int tuning_tell(Tuning *t);
void tuning_end(Tuning *t);

/* ---- tune_time.c ---- */

enum { TUNE_UNDECIDED = -1 };

/* Finds which of n kernels that compute the same is fastest for the job: 0, unless another one is
 * faster by more than noise.  kernels[k] may be NULL.  seconds: of kernel 0 and of the chosen one.
 * TUNE_UNDECIDED: the deadline came first, or there is no memory for copies of the buffers. */
int tune_choose(const TuneJob *job, Kernel *const *kernels, int n, double deadline,
                double seconds[2]);

#endif
