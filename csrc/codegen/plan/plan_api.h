/* Plans, for those who build and run them: a compiled function and its host. */
#ifndef DLC_CODEGEN_PLAN_API_H
#define DLC_CODEGEN_PLAN_API_H

#include "codegen/compile/compile.h"

/* ---- plan.c, plan_build.c, plan_memory.c: what runs a call ---- */

/* A compiled function: sizes, one workspace with planned offsets, launches, calls, results.
 * Immutable, safe to run from several threads at once. */
typedef struct Plan Plan;

/* Compiles a function of the kernels stage. */
Plan *plan_build(Fn *kernels, const CompileOptions *options);
void plan_free(Plan *plan);

/* A tensor as the caller holds it.  object is the caller's own (a tensor handle), opaque here. */
typedef struct PlanTensor {
    void *object;
    void *data; /* first element */
    int rank;
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
} PlanTensor;

/* One whose sizes are known elsewhere: a call has hundreds of them, and room for MAX_RANK axes in
 * each would be more memory than many a value. */
typedef struct PlanObject {
    void *object, *data;
} PlanObject;

/* A parameter: its sizes and strides are where the caller has them. */
typedef struct PlanParam {
    PlanObject of;
    int rank;
    const int64_t *sizes, *strides;
} PlanParam;

/* A call in progress that binds sizes.  The host reports the results one by one: the sizes or, for
 * a number, rank 0 and the number in sizes[0]. Then plan_bound fills in the expected `results`,
 * which are now known. 0, or -1 after a fault. */
typedef struct PlanBinder PlanBinder;

int plan_bind(PlanBinder *binder, int result, const PlanTensor *got);
int plan_bound(PlanBinder *binder, PlanTensor *results);

/* The functions that the plan needs of its caller.  Each returns 0, or -1 after having noted an
 * error. */
typedef struct PlanHost {
    void *arg;
    /* A fresh tensor with these sizes and strides: fills object and data. */
    int (*alloc)(void *arg, Dtype dtype, PlanTensor *out);
    /* A view of base's storage; offset in elements from base's first element. */
    int (*view)(void *arg, const PlanObject *base, Dtype dtype, int64_t offset, PlanTensor *out);
    /* Runs call site `site`: operands (scalars are rank 0 tensors), dims; fills results.  A result
     * must have the sizes and strides that results[k] has on entry; when its rank is -1 any will
     * do, and the plan asks no more of it than its object.  binder: NULL for a call that binds no
     * sizes. */
    int (*call)(void *arg, int site, int nargs, const PlanTensor *args, int ndims,
                const int64_t *dims, int nres, PlanTensor *results, PlanBinder *binder);
    void (*retain)(void *arg, void *object); /* one more reference to the object, */
    void (*release)(void *arg, void *object); /* one fewer */
    void (*fault)(void *arg, int fault, const char *node, const char *source);
    /* Called before and after a run of kernels that takes long: for the GIL. */
    void (*leave)(void *arg);
    void (*enter)(void *arg);
    /* Reports, while the first call looks for schedules, `done` of `total`.  line: what it found,
     * and the schedule on lines behind that, or NULL.  -1: an error is noted, and the call must
     * end.  Has the interpreter lock.  May be NULL. */
    int (*tuning)(void *arg, int done, int total, const char *line);
    /* Is a profiler running?  Called once in each call.  May be NULL: there is none. */
    bool (*is_watched)(void);
    /* While one is running, called around each kernel and call: end gets the result of begin.
     * objects: the operands that have objects.  Also without the interpreter lock. */
    void *(*begin)(const char *name, int n, void *const *objects);
    void (*end)(void *range);
    struct Profile *profile; /* of the plan, NULL: nobody asks how long steps take */
    /* The call no longer needs parameter `param`, and may have the only reference to it. keep: its
     * memory may be kept until a result needs memory of another size; otherwise it is needed
     * before.  May be NULL. */
    void (*give_up)(void *arg, int param, bool keep);
    /* With the interpreter lock, now and then in a long loop: -1: an error is noted, the call is to
     * end.  May be NULL. */
    int (*interrupted)(void *arg);
    bool views; /* a result that is a parameter is a view of it, too, and not its object */
} PlanHost;

/* Runs the plan.  sizes: by position in fn->sizes, SIZE_UNKNOWN where the value is to be found from
 * the parameters (sizes NULL: all of them).  in: the parameters, whose sizes and strides are read
 * before anything runs; out: the results, each with a reference of its own (object NULL for
 * RESULT_INTO; a result that is a `size` let has its value in sizes[0]).  0, or -1 when the host
 * noted an error; FAULT_LAYOUT comes before anything was written. */
int plan_run(const Plan *plan, const PlanHost *host, const int64_t *sizes, const PlanParam *in,
             PlanTensor *out);

/* ---- plan_peak.c: how much memory a call takes ---- */

typedef struct PlanMemory {
    /* bytes, with scratch: from the first step that needs it to a call that frees it */
    int64_t workspace;
    /* the most at once: the workspace, tensors that the call makes, those that it was given to
     * free */
    int64_t peak;
    int64_t left; /* at its end: the results that are new */
} PlanMemory;

/* sizes: by position in fn->sizes.  given: by parameter, zeroed; gets the bytes of those that the
 * call was given to free.  false: there are no tensors of these sizes, or no memory. */
bool plan_memory_for(Plan *plan, const int64_t *sizes, PlanMemory *out, int64_t *given);

/* ---- plan_profile.c: what the steps of a call took ---- */

/* The profile of the fastest call since call_profile_begin.  Calls may be in progress in several
 * threads while it is made, but not while it is read. */
typedef struct Profile Profile;

typedef struct ProfileSummary {
    int64_t calls;
    double seconds;
    int nsteps, nslots, nsizes;
} ProfileSummary;

typedef struct ProfileStep {
    const char *kind; /* "alloc", "view", "launch", "call", "copy", "free", "loop", "branch" */
    const char *node, *source; /* of a launch; may be NULL */
    const char *symbol; /* of a launch: its function in machine code */
    /* of a launch: its place among the function's; -1: it is for short rows, or no launch */
    int kernel;
    int site; /* of a call */
    enum CodeTier tier;
    const int *slots, *results; /* operands; those that a call makes */
    int nslots, nresults;
    int64_t extent, operations; /* of the first launch of a kernel: its operations on elements */
    double seconds;
} ProfileStep;

typedef struct ProfileSlot {
    const char *kind; /* "param", "work", "tensor", "view" or "scalar" */
    Dtype dtype;
    int rank, root; /* root: the slot whose memory a view shows */
    int64_t bytes, sizes[MAX_RANK];
} ProfileSlot;

Profile *call_profile_new(const Plan *plan); /* NULL without memory */
void call_profile_free(Profile *profile);
void call_profile_begin(Profile *profile); /* forgets the calls there were */
/* false: there was no call */
bool call_profile_summary(const Profile *profile, ProfileSummary *out);
/* As plan_memory_for, for the sizes of that call.  inside: by site, the bytes that a call takes and
 * gives back besides its results; NULL: they do not count. */
void call_profile_memory(const Profile *profile, const int64_t *inside, PlanMemory *out,
                         int64_t *given);
void call_profile_step(const Profile *profile, int k, ProfileStep *out);
void call_profile_slot(const Profile *profile, int k, ProfileSlot *out);
/* The name of size k, and what it was. */
const char *call_profile_size(const Profile *profile, int k, int64_t *value);

/* ---- memory.c: what the process keeps from call to call ---- */

/* The most bytes of results, and the most of workspaces, that are kept: $DLC_POOL. */
int64_t memory_bound(void);
/* Requests huge pages for memory that has not been written yet. */
void memory_want_huge(void *data, size_t size);
/* Frees the workspaces kept for coming calls. */
void workspace_release(void);
void plan_text(const Plan *plan, Text *out); /* the steps, for people */

#endif
