/* Building a plan, shared by plan_build.c, plan_dims.c, plan_result.c and plan_compile.c. */
#ifndef DLC_PLAN_BUILD_H
#define DLC_PLAN_BUILD_H

#include "kernel.h"
#include "plan.h"

/* A kernel let and its machine code. */
typedef struct KernelUse {
    const Let *let;
    KernelKey key;
    Kernel *kernel;             /* a reference, which goes to the plan */
    Lowered loops;              /* what was compiled; nothing, if the kernel was there already */
    const struct KernelUse *same_as;
    const char *schedule;       /* see schedule_tuning.c; NULL: the one that is not measured */
    Dim row; /* a size that is DLC_SHORT_ROW at most where this kernel is used; DIM_NONE */
    struct KernelUse *shorts; /* the same let's kernel for short rows, or NULL */
} KernelUse;

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
    KernelUse *uses; /* the kernel lets of fn, in its order */
    int nuses, at_use;
    bool checks; /* runs are compared with the interpreter */
    bool counts; /* operations are counted, for a report */
    bool own_tensors; /* see CompileOptions */
    const bool *given; /* by parameter: the call frees it after its last use; NULL: none */
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

/* ---- plan_order.c ---- */

void plan_order(Builder *b); /* the order of b->fn's kernels and calls */

/* ---- plan_build.c ---- */

void plan_steps(Builder *b);
int plan_slot_new(Builder *b, SlotKind kind, const Type *t, const Dim *strides, Dim offset);
int plan_slot_for(Builder *b, const Value *v);
int step_add(Builder *b, Step step);
void plan_in_place(Builder *b, int param); /* it is written to while others are read */
/* The step `at` makes or uses the slot, and with it the storage it lies in. */
void plan_slot_touch(Builder *b, int slot, int at);

/* ---- plan_kernels.c ---- */

/* The kernel lets and their keys, in the function's order. */
void plan_find_uses(Builder *b);
/* Before plan_kernels: the use is of the kernel with this schedule, which has a key of its own. */
void plan_schedule(KernelUse *use, const char *schedule);
/* Gives each its kernel. */
void plan_kernels(Builder *b, const CompileOptions *options);
/* The loops of a kernel: those that were compiled, or for one that was there already those that
 * would be. */
Lowered plan_lowered(Builder *b, KernelUse *use, const CompileOptions *options);

/* ---- plan_program.c ---- */

/* The kernels as a function of their own; what they share with `fn` stays where it is. */
Fn *plan_part(const Fn *fn, KernelUse *const *uses, int n);
/* Its text, without the places that its lets come from. */
const char *plan_part_text(const Fn *part);
/* All kernels as a program, equal ones once.  places: by use, its kernel's place there. */
const char *plan_program(Builder *b, int *places);

/* ---- plan_short_rows.c ---- */

/* Gives uses one for short rows, where rows may be short. */
void plan_find_short(Builder *b);
/* While the kernel for short rows is made: the row's range until plan_widen. */
Range plan_narrow(Cx *cx, Dim row);
void plan_widen(Cx *cx, Dim row, Range full);
/* The key of the use's kernel, which is made for those rows. */
void plan_key(Cx *cx, KernelCoder *coder, KernelUse *use);
/* 1 for the sizes that the use's kernel is for, 0 for those that the other one is for. */
Dim plan_share(Cx *cx, const KernelUse *use);

/* ---- plan_name.c ---- */

/* What profilers call the kernel or call; the plan's. */
const char *plan_range_name(Builder *b, const Let *let);

/* ---- plan_compile.c ---- */

/* Kernel results that the caller was promised with strides are made with these strides. */
void plan_promise_layouts(const Fn *fn);
/* is the text wanted on standard error? */
bool plan_dumps(const CompileOptions *options, const char *what);
/* The function with its kernels as loops, to be printed. */
const Fn *plan_with_loops(const Fn *kernels, const Lowered *lowered);

/* ---- codegen/check.c ---- */

/* What a run needs to compare the kernel, whose slots are made, with the interpreter, if that is
 * wanted.  place: among the uses. */
void plan_check_kernel(Builder *b, KernelUse *use, int place);

/* ---- tune.c ---- */

/* What the plan's first call needs to compare schedules of its kernels, if that is wanted. */
void tuner_build(Builder *b, const CompileOptions *options);

/* ---- plan_result.c ---- */

void plan_results(Builder *b);
/* A new slot with these strides (NULL: dense) that holds a copy of slot `from`. */
int plan_slot_copy(Builder *b, SlotKind kind, const Type *t, const Dim *strides, int from);

#endif
