/* Building a plan, shared by plan_build.c, plan_dims.c, plan_result.c and plan_compile.c. */
#ifndef DLC_PLAN_BUILD_H
#define DLC_PLAN_BUILD_H

#include "codegen/compile/kernels.h"
#include "plan.h"

typedef struct Builder {
    Cx *cx;
    const Fn *fn;
    Dim *sizes; /* the size symbols: those of fn, then those that calls bind */
    int nsizes;
    Uncertain *uncertain; /* Plan.uncertain, while it grows */
    Plan *plan; /* the cleanup's: released unless the build ends well */
    int *slot_of; /* value id -> slot, -1 */
    Dim *offsets, **strides; /* by slot: layout as dims */
    DimRef *dim_memo; /* Dim -> DimRef + 1 */
    Dim dim_room;
    int room_slots, room_steps, room_dims;
    DimRef stack[64]; /* operands of dim_walk under way */
    int depth;
    Kernels *kernels; /* of fn, compiled */
    int at_use; /* the next of them */
    bool checks; /* runs are compared with the interpreter */
    bool counts; /* operations are counted, for a report */
    bool own_tensors; /* see CompileOptions */
    const CompileOptions *options;
    int *place_of; /* of a body: by value id, 1 + the slot of its place; 0: it has none */
    int at_flow; /* the next of the plan's */
    bool *taken; /* by slot: a FRESH result owns its storage */
} Builder;

/* ---- plan_dims.c ---- */

void *plan_keep(Builder *b, size_t bytes); /* plan_alloc that fails */
char *plan_text_keep(Builder *b, const char *text); /* NULL stays NULL */
DimRef dim_ref(Builder *b, Dim d);
DimRef *dim_refs(Builder *b, int n, const Dim *dims);
void plan_solves(Builder *b); /* how each size symbol is found */
void plan_uncertain(Builder *b); /* which sizes of values a call must check */
void plan_binds(Builder *b, const Let *let, Call *call); /* ... that this let binds */
void plan_bind_steps(Builder *b, const Let *let, Flow *flow);

/* ---- plan_build.c ---- */

void plan_steps(Builder *b);
int plan_slot_new(Builder *b, SlotKind kind, const Type *t, const Dim *strides, Dim offset);
int plan_slot_for(Builder *b, const Value *v);
int step_add(Builder *b, Step step);
void plan_in_place(Builder *b, int param); /* it is written to while others are read */
/* Notes that step `at` makes or uses the slot, and thus also the storage of the slot. */
void plan_slot_touch(Builder *b, int slot, int at);

/* A slot for what a step makes: a tensor of the host, if it is wanted as one. */
int plan_slot_made(Builder *b, const Value *v, const bool *wanted);
/* The same; for what is over another value that value's slot. */
int plan_slot_result(Builder *b, const Value *v, const bool *wanted);

/* ---- plan_compile.c ---- */

/* Compiles a body whose results go into its last parameters. */
Plan *plan_build_body(Fn *kernels, const CompileOptions *options);

/* ---- plan_flow.c ---- */

void plan_flows(Builder *b); /* the plans of bodies, before all else */
/* Which operands and results of the loop or branch are tensors of the host. */
void plan_flow_wanted(const Flow *flow, const Let *let, bool *wanted);
void plan_flow_step(Builder *b, const Let *let, Flow *flow, const bool *wanted);

/* ---- plan_name.c ---- */

/* The name of the kernel or call for profilers; it belongs to the plan. */
const char *plan_range_name(Builder *b, const Let *let);

/* ---- check.c ---- */

/* Notes the data that a run needs to compare the kernel, whose slots exist, with the interpreter,
 * if that is requested. place: its position among the uses. */
void plan_check_kernel(Builder *b, KernelUse *use, int place);

/* ---- tune/tune.c ---- */

/* Collects the data that the plan's first call needs to compare schedules, if that is requested. */
void tuner_build(Builder *b, const CompileOptions *options);

/* ---- plan_result.c ---- */

void plan_results(Builder *b);
bool plan_strides_match(const Builder *b, int slot, const Dim *strides);
/* A new slot with these strides (NULL: dense) that holds a copy of slot `from`. */
int plan_slot_copy(Builder *b, SlotKind kind, const Type *t, const Dim *strides, int from);

#endif
