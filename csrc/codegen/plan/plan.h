/* The plan's own structures, shared by plan_*.c.
 *
 * A Plan is immutable.  What depends on the sizes of one call (every dim's value, the launches'
 * argument arrays, the workspace's offsets) is an Instance, made once per combination of sizes and
 * kept. */
#ifndef DLC_PLAN_H
#define DLC_PLAN_H

#include <stdatomic.h>

#include "codegen/process.h"
#include "plan_api.h"
#include "parallel.h"
#include "codegen/lock.h"

typedef int DimRef;             /* index into Plan.code: a dim as the plan evaluates it */

/* One step of the evaluation of all dims, operands first. */
typedef struct {
    char op;                    /* as DimWalk: i n + * / % M m */
    int a, b;                   /* n: a is the position among the sizes */
    int64_t value;              /* i */
} DimCode;

typedef enum {
    SLOT_PARAM,                 /* the caller's tensor */
    SLOT_WORK,                  /* a part of the workspace */
    SLOT_OBJECT, /* a tensor of the host: a result, or an operand or result of a call */
    SLOT_VIEW, /* a part of `root` */
    SLOT_SCALAR, /* the value of a dim */
} SlotKind;

/* A value of the function at run time. */
typedef struct {
    SlotKind kind;
    Dtype dtype;
    int rank;
    DimRef *sizes, *strides; /* strides in elements */
    DimRef offset; /* VIEW: elements from root's first one; SCALAR: the value */
    int root; /* VIEW: a slot that is no view; else the slot itself */
    int param; /* PARAM */
    int first, last; /* the steps that make and last use it (roots: or a view of it) */
    bool wants_object; /* VIEW, PARAM: a call or the caller takes it as a tensor */
    /* made by a call and read by none but calls and the caller: any layout does, and where it is
     * not known which it is, there is no data */
    bool as_is;
} Slot;

typedef enum {
    STEP_ALLOC,
    STEP_VIEW,
    STEP_LAUNCH,
    STEP_CALL,
    STEP_COPY,
    STEP_FREE,
    STEP_FLOW
} StepKind;

typedef struct {
    StepKind kind;
    int slot; /* ALLOC, VIEW, FREE; COPY: to */
    int from; /* COPY */
    int launch; /* LAUNCH */
    int call; /* CALL */
    int flow; /* FLOW */
} Step;

typedef struct {
    const Code *code;
    int entry; /* of code */
    int nbuffers, *buffers; /* slots */
    int ndims;
    DimRef *dims;
    DimRef extent, work, scratch;
    bool in_order; /* one thread runs the iterations, in pieces one after the other */
    int dims_at; /* where Instance.n holds the values */
    char *node, *source; /* for faults */
    const char *name; /* for profilers */
    bool counted; /* the first phase, where somebody asks: */
    DimRef operations; /* of the kernel */
    int use; /* of the kernel that it is a phase of: its place among the plan's */
    int phases; /* of the first phase: how many the kernel has */
} Launch;

/* A kernel as it was before it was lowered, for check.c. */
typedef struct {
    char *text; /* a function of the kernels stage that is the kernel alone */
    int *operands, *results; /* slots: of the function's parameters, of the kernel's results */
} CheckedKernel;

/* A size symbol that a call binds: sizes[axis] of its result is scale * name + rest; axis -1: the
 * result is the size. */
typedef struct {
    int size; /* position among the plan's sizes */
    int result, axis;
    int64_t scale, rest;
    Range range; /* the declaration in the function, */
    int64_t divisor; /* on which the kernels rely */
} Bind;

typedef struct {
    int site, nargs, ndims, nres, nbinds;
    int *args, *res; /* slots */
    DimRef *dims;
    Bind *binds;
    char *target;
    const char *name; /* for profilers */
    bool laid; /* see ops.def */
} Call;

/* A body of a loop or a branch: its parameters are those of the function and, behind them, a place
 * for each of its results. */
typedef struct {
    Plan *plan;
    int nparams; /* of the function */
    int *kept; /* of a branch, by result: the parameter in whose memory it is; -1: in its place */
    DimRef *sizes; /* of the outer plan: by the body's declared sizes */
} Body;

/* A loop or a branch, its operands and results as the let has them.  A loop that binds a size has
 * so many steps: it makes its rows after the last one, as tensors of the host. */
typedef struct {
    Body bodies[2]; /* a loop has one */
    bool loops, whiles, counted;
    DimRef steps;
    int carries, rows;
    int nargs, nres;
    int *args, *res; /* slots */
    int *other; /* by carried value: its second place; the first one again, if steps write in it */
    int nbinds;
    Bind bind;
    const char *name; /* for profilers */
} Flow;

/* How a size symbol is found: sizes[axis] of parameter `param` is scale * name + rest; param -1: it
 * is given. */
typedef struct {
    int param, axis;
    int64_t rest, scale;
    Range range; /* the declaration in the function, */
    int64_t divisor; /* on which the kernels rely */
} Solve;

typedef struct {
    ResultKind kind;
    int slot, of;
    int view_slot; /* VIEW_*: the slot whose tensor is shared */
} PlanResult;

/* A size of a value that might be negative, as far as the function declares the sizes in it.  It is
 * known once the first `upto` of the sizes are. */
typedef struct {
    DimRef dim;
    int upto;
} Uncertain;

/* A tensor of the host that is made before its step, because values that are dead by then use its
 * memory. */
typedef struct {
    int slot;
    int before; /* the step */
} Lender;

enum { MOST_LENDERS = 8 };

/* Memory of its own for a slot that is WORK, or for the scratch of launch `slot - nslots`: from one
 * step to another. */
typedef struct {
    int slot, first, last;
    int64_t bytes;
} OwnBlock;

typedef struct Instance {
    atomic_int refs;
    int64_t *sizes; /* the key, nsizes; of those that no call has bound yet SIZE_UNKNOWN */
    int64_t *values; /* of Plan.code; meaningless for sizes that are not known yet */
    int64_t *n; /* the launches' dims */
    /* For each slot that is WORK, then for the scratch of each launch: the offset in the workspace,
     * or in the tensor that lends it memory: 1 + the slot of that tensor; 0: the workspace; below
     * 0: -1 - its position in `own` */
    int64_t *work_at, *home;
    Lender lenders[MOST_LENDERS]; /* in the order of their steps */
    int nlenders;
    OwnBlock *own;
    int nown;
    int64_t *grain; /* per launch */
    bool *in_work; /* per step: it needs the workspace */
    bool *at_own; /* ...: the life of a block begins or ends with it */
    bool *frees; /* ...: a call before which the workspace is given back to the system */
    bool *keeps; /* ...: the memory that it frees may be kept for later results: there is room below
                  * the peak until the end */
    int work_end; /* the step after which the workspace is given back to the system; -1: none */
    bool *slow; /* per launch: worth leaving the interpreter lock for the run it begins */
    void **disjoint; /* per parameter: its data in a call where plan_overlap.c found none shared */
    int64_t workspace; /* bytes */
    int64_t work; /* that a run certainly has, in units of ops.def */
    int64_t *scratch; /* per launch: bytes for each thread */
    int threads; /* that there is scratch for; 0: no launch needs any */
    /* For each launch that is the first of its kernel: a bit for each tier in which it was compared
     * with the interpreter. */
    atomic_uchar *checked;
    /* There are too many elements in a tensor or at a place in memory, a run would take years, or a
     * size has more than 64 bits, is below 0 or is one that the function excludes.  Nothing else is
     * known. */
    bool too_many;
} Instance;

enum {
    INSTANCES = 8, /* combinations of sizes kept ready */
    FEW_SLOTS = 1024, /* this many fit on the stack of a call */
};

struct Plan {
    struct Chunk *chunks; /* all memory below */
    struct Kernel **kernels; /* a reference to each */
    int nkernels;
    DimCode *dims;
    int ndims;
    char **size_names;
    Solve *solves; /* by position in fn->sizes */
    /* the sizes of the function; with those that calls bind, which come after them */
    int ndeclared, nsizes;
    Uncertain *uncertain;
    int nuncertain;
    Slot *slots;
    int nslots, nparams;
    Step *steps;
    int nsteps;
    Launch *launches;
    int nlaunches, launch_values;
    Call *calls;
    int ncalls;
    Flow *flows;
    int nflows;
    /* it is a body: its workspace and its values in it stay from step to step of a loop */
    bool inner;
    PlanResult *results;
    int nresults;
    int *in_place; /* the parameters that are written to while others are read, each once */
    int nin_place;
    char *name;
    struct Tuner *tuner; /* NULL: nothing is to be measured */
    CheckedKernel *checks; /* by Launch.use; NULL: nothing is compared with the interpreter */
    SpinLock lock; /* guards instances, and their records of disjoint memory */
    Instance *instances[INSTANCES]; /* latest used first */
};

/* ---- plan.c: memory and life of a plan ---- */

bool step_binds(const Plan *plan, const Step *step); /* sizes, so the instance changes */
const char *flow_word(const Plan *plan, const Step *step); /* "loop" or "branch" */
void *plan_alloc(Plan *plan, size_t bytes); /* zeroed, freed with the plan; NULL without memory */

/* ---- plan_sizes.c ---- */

/* The instance for these sizes: a new reference, or NULL when memory is out. */
Instance *instance_get(Plan *plan, const int64_t *sizes);
void instance_unref(Instance *instance);
/* Is it the first one of a kernel of which a phase runs for these sizes? */
bool launch_begins(const Launch *launch, const int64_t *values);
/* `to` and the work of the launch; INT64_MAX where that has more bits. */
int64_t launch_add_work(const Launch *launch, const int64_t *values, int64_t to);
/* Completes sizes (SIZE_UNKNOWN: not given) from the parameters; false when one cannot be found. */
bool sizes_solve(const Plan *plan, const PlanParam *in, int64_t *sizes);

void plan_lock(Plan *plan);
void plan_unlock(Plan *plan);

/* ---- plan_peak.c ---- */

/* As call_profile_memory; given may be NULL. */
void instance_memory(const Plan *plan, const Instance *inst, const int64_t *inside, PlanMemory *out,
                     int64_t *given);
/* The most bytes at once, if each call of the library copies its operands and results.  Sets
 * inst->frees and inst->work_end for the positions of the slots and scratch. */
int64_t instance_peak(const Plan *plan, Instance *inst);
/* Sets inst->keeps. */
void instance_keeps(const Plan *plan, Instance *inst);

/* ---- plan_overlap.c ---- */

/* Does a parameter that kernels write to share memory with another one in this call? */
bool params_overlap(Plan *plan, Instance *inst, const PlanParam *in);

/* ---- plan_profile.c ---- */

void call_profile_add(struct Profile *profile, Instance *inst, const double *seconds, double total);
Dim call_profile_operations(Cx *cx, const Let *kernel); /* on elements, by the kernel's lets */

/* ---- plan_memory.c ---- */

/* More elements than any memory has; their bytes, and those of many such tensors, fit in 64
 * bits. */
#define MOST_ELEMENTS ((int64_t)1 << 50)

/* Elements from the first to one past the last that a slot of these sizes and strides can touch, at
 * most MOST_ELEMENTS. */
int64_t slot_span(const Slot *slot, const int64_t *values);
int64_t slot_bytes(const Slot *slot, const int64_t *values); /* of those */
bool slots_fit(const Plan *plan, const int64_t *values); /* has each fewer than that? */
/* Do no two elements of a tensor that kernels write share memory? */
bool results_do_not_overlap(const Plan *plan, const int64_t *sizes, const int64_t *values);
/* Places for the WORK slots and scratch, with the bytes of the workspace; false without memory. */
bool memory_plan(const Plan *plan, Instance *inst);
/* Has the step something in the workspace, as the slots and scratch are placed now? */
bool step_in_workspace(const Plan *plan, const Instance *inst, const Step *step);

/* ---- memory.c ---- */

/* One process-wide store of a few workspaces, so that calls do not map fresh pages each time. */
void *workspace_take(size_t bytes); /* aligned to 64; NULL without memory */
void workspace_give(void *memory);
void workspace_free(void *memory); /* it is not stored */
void *block_take(size_t bytes); /* memory that free() frees; NULL without memory */

/* ---- plan_copy.c ---- */

/* Copies rank-dimensional strided memory, element size in bytes; strides in elements.  No two
 * elements of `to` share memory with one another or with one of `from`. */
void copy_strided(int bytes, int rank, const int64_t *sizes, void *to, const int64_t *to_strides,
                  const void *from, const int64_t *from_strides);

#endif
