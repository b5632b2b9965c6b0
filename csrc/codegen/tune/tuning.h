/* What a tuning is made of: what tune.c, notes.c and climb.c share. */
#ifndef DLC_TUNING_H
#define DLC_TUNING_H

#include "codegen/jit/cc_job.h"
#include "codegen/plan/plan_build.h"
#include "predict.h"
#include "search.h"
#include "tune.h"

enum { SEEN_SIZE = 16 }; /* characters of the hash of a candidate's code */

typedef struct {
    char hash[SEEN_SIZE + 1];
} Seen;

struct Tuner {
    atomic_bool begun;
    char *program;
    int *places, nuses; /* for each use in the plan: its kernel's place in the program */
    char *compiler, *cache; /* as in CcOptions */
    double budget;
    bool dumps, verifies;
};

/* What is known of the schedule of a kernel. */
typedef struct {
    const char *schedule; /* the fastest; NULL: the usual one */
    double usual, part; /* seconds of the usual one; the part of them that the fastest takes */
    int tried, at; /* candidates that were measured; the number of the fastest, 0: the usual one */
    bool ended; /* the search had nothing left that was worth a try */
    Seen *seen; /* of a search that has not ended, the candidates */
    int nseen;
    const char *words; /* what it gains */
} Found;

/* A kernel of the program. */
typedef struct {
    Kernel *usual; /* the plan's */
    Key note; /* its name */
    Found found;
    Kernel *kernel; /* the code of the fastest schedule; NULL: the usual code */
    bool ours; /* no other call has tuned it or is tuning it */
    bool wanted; /* this call is to look for its schedule */
    bool settled; /* as far as this process is concerned */
    bool placed; /* the code is in the place of the usual code */
} Tuned;

typedef struct {
    int change, at; /* at: the phase, or the loop of a nest */
    double predicted; /* the logarithm of how many times as fast it is predicted to be, */
    double expects; /* and what the model makes of that */
} Try;

/* The search for the schedule of a kernel. */
typedef struct {
    Tuned *tuned;
    int place, before; /* before: candidates that earlier searches have measured */
    const TuneJob *job;
    TuneCopies *copies;
    CallSizes sizes;
    double bytes, deadline;
    double shortest; /* seconds of the shortest compile; 0: there was none */
    const Fn *loops; /* of the best one, for the target cc */
    const Fn *shared; /* of the best one, that all targets share */
    const char *nest; /* the lines of its schedule before those of the target; "": none */
    const Kernel *kernel; /* its code */
    Try *tries;
    int ntries, at;
} Search;

struct Tuning {
    Cx *cx;
    const Plan *plan;
    const Instance *inst;
    const PlanHost *host;
    Tuner *tuner;
    CcTarget *target;
    Fn *program;
    Kernels *ks;
    Tuned *kernels;
    int nkernels, left; /* left: kernels that still want a schedule */
    Model *model;
    Speeds speeds; /* what candidates are predicted with */
    Search search;
    double begun, deadline;
    bool searches;
    bool failed; /* the host noted an error */
    const char *line; /* for the host, or NULL */
};

/* ---- notes.c: what is known, in the cache folder ---- */

int64_t tuning_size(const Tuning *t, const char *name); /* in this call */
void notes_name(Tuning *t, const KernelUse *use, Tuned *tuned);
/* Fills in what was found for each kernel, and what the model has learnt. */
void notes_read(Tuning *t);
void notes_write_found(Tuning *t, const Tuned *tuned);
void notes_write_model(Tuning *t);
/* t->speeds, from a note or measured, which takes a third of a second. */
void notes_speeds(Tuning *t);
/* The words of what was found, which others read again. */
void found_say(Cx *cx, Found *found);
bool found_saw(const Found *found, const char *code); /* of a candidate */
void found_see(Cx *cx, Found *found, const char *code);

/* ---- fit.c ---- */

/* Why a plan that is built for the usual kernel cannot call the other one in its place; NULL: it
 * can, and what a launch has to know of the kernel is in its code. */
const char *kernel_unfit(Cx *cx, const KernelKey *key, const Kernel *usual, const Kernel *other);

/* ---- tune.c ---- */

/* Compiles the kernel with the schedule, or takes it from the cache.  NULL: that cannot be, or the
 * plan cannot call it.  until: the interpreter lock is not held, and it ends then; 0: it is
 * held. */
Kernel *tuning_compile(Tuning *t, int place, const char *schedule, double until);
/* NULL: the usual schedule. */
const Lowered *tuning_loops(Tuning *t, int place, const char *schedule);
void tuning_put(Tuned *tuned); /* the code into the place of the usual code, once */
void tuning_say(Tuning *t, int place);

#endif
