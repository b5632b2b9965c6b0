/* Loops and branches under way: what plan_flow_run.c and plan_ready.c share. */
#ifndef DLC_PLAN_FLOW_RUN_H
#define DLC_PLAN_FLOW_RUN_H

#include "plan_run.h"

enum {
    FEW_SIZES = 16,
    FEW_INNER = 64,             /* slots with room on the stack */
};

/* A body under way. */
typedef struct {
    Run run;
    Instance *first;            /* each step begins with it */
    int64_t few_sizes[FEW_SIZES];
    PlanObject few[FEW_INNER];
    int64_t work;               /* of the kernels of a step */
    bool calls;                 /* the steps need the interpreter's lock */
} Inner;

/* When a long run last asked whether the user wants it to end, and the work since then. */
typedef struct {
    double since;
    int64_t work;
} Watch;

typedef struct Ready Ready;

/* A loop under way. */
typedef struct {
    Run *run;                   /* around it */
    const Flow *flow;
    Inner in;
    int64_t at;                 /* the step */
    uint8_t go;
    bool second;                /* the carried values are in their second place */
    bool uneven;                /* a step may differ from others in more than addresses */
    PlanObject *params, *places;        /* of the body */
    Ready *ready;               /* its launches for all steps; NULL: each step finds them anew */
    Watch watch;
    void **kept; /* by stacked result, where the loop binds a size: its rows so far, */
    int64_t room; /* and so many that there is memory for */
} LoopRun;

/* ---- plan_flow_run.c ---- */

/* Opens the body for the sizes of the run around it.  A fault, or FAULT_NONE; inner_close closes it
 * after either. */
int inner_open(Run *outer, const Body *body, Inner *in);
void inner_close(Run *outer, Inner *in);

PlanObject flow_operand(const Run *run, int slot);
/* The parameters of the body of a branch, and the places of its results. */
void branch_begin(const Run *run, const Flow *flow, Inner *in);
/* Those of a loop before its first step, when the carried values are where the operands are. */
void loop_begin(LoopRun *loop);
/* The number and the rows of the step. */
int loop_give_step(LoopRun *loop);
/* Where the step writes: the bool that it returns, carried values, its rows. */
void loop_set_places(LoopRun *loop, bool second);
/* What the step reads of the values that the step before has written. */
void loop_set_carried(LoopRun *loop, bool second);
/* How many steps there are at most. */
int64_t loop_bound(const LoopRun *loop);
/* Does step `at` write the second place of the carried values?  If the number of steps is known,
 * the last step writes the first place.  Else the first step does. */
bool loop_is_second(const LoopRun *loop, int64_t at);
int64_t loop_carried_bytes(const LoopRun *loop, int k);

/* Notes that the kernels have so much to do; leaves the interpreter's lock once that is enough.
 * This loop may be one of many short ones in a long one: what they do adds up. */
static inline void
flow_hold(Run *run, int64_t work)
{
    if (!run->left) {
        bool much = __builtin_add_overflow(run->held, work, &run->held);
        run->held = much ? INT64_MAX : run->held;
        if (run->held > DLC_UNLOCK) {
            run_leave(run);
        }
    }
}

int flow_look_up(Watch *watch, Run *run);

/* Lets the user interrupt a loop, which may be endless, after a step with so much work: -1 if the
 * host reports an interrupt. */
static inline int
flow_watch(Watch *watch, Run *run, int64_t work)
{
    enum { LEAST = DLC_UNLOCK / 8 }; /* what a light step counts */
    watch->work += work < LEAST ? LEAST : work < DLC_UNLOCK ? work : DLC_UNLOCK;
    return watch->work < DLC_UNLOCK ? 0 : flow_look_up(watch, run);
}

/* ---- plan_ready.c ---- */

/* The launches of the steps from loop->at on; NULL: there is no memory, or the body has steps whose
 * launches are not the same each time.  Of the carried values the parameters of the body are then
 * those of no step. */
Ready *ready_make(LoopRun *loop);
int ready_step(const Ready *ready, LoopRun *loop, bool second); /* runs the step */
void ready_free(Ready *ready, LoopRun *loop);

#endif
