/* The kernels of a function on their way to machine code: what pipeline.c and the files of this
 * folder share, and those who ask for kernels (plan, tune). */
#ifndef DLC_KERNELS_H
#define DLC_KERNELS_H

#include "codegen/process.h"
#include "compile.h"
#include "kernel.h"

/* The unit that a kernel was lowered in, and the fuel that its rewrites had. */
typedef struct Made {
    struct KernelUse **uses;
    int n;
    int64_t fuel;
} Made;

/* A kernel let and its machine code. */
typedef struct KernelUse {
    const Let *let;
    KernelKey key;
    Kernel *kernel;             /* a reference, which goes to the plan */
    Lowered lowered;            /* what was compiled; nothing, if the kernel was there already */
    const Made *made;           /* how; NULL: likewise */
    const struct KernelUse *same_as;
    const char *schedule;       /* a written one, see nest/written.c; NULL: dlc's own */
} KernelUse;

/* A kernel that neither the process nor the cache has. */
typedef struct NewKernel {
    const Let *let;
    KernelUse *use;
    Key id, disk;               /* its keys in the process and in the cache */
    double work;
    int place;                  /* in the function */
} NewKernel;

typedef struct Kernels {
    Cx *cx;
    const Fn *fn;               /* of the kernels stage */
    KernelUse *uses;            /* its kernel lets, in its order */
    int nuses;
    /* These hold while kernels are looked for and compiled: */
    const CompileOptions *options;
    PassOptions passes;         /* the fuel is what the passes before have left */
    int64_t fuel;               /* ... when the unit was begun that is being made */
    bool anew;                  /* nothing that was made before is taken */
    bool texts;                 /* units of libtcc are kept in the cache folder */
    CcTarget *target;           /* NULL: no C compiler is wanted, and no cache */
    Kernel **held;              /* of units taken from there: those wanted may come later */
    int nheld;
    NewKernel *fresh;           /* ... one unit after the other */
    int nfresh;
} Kernels;

/* ---- kernels.c ---- */

/* The kernel lets and their keys, in the function's order.  The kernels that they get are dropped
 * with the arena, unless somebody has taken them. */
Kernels *kernels_of(const Fn *fn);
/* Before they are compiled: the use is of the kernel with this schedule, which has a key of its
 * own. */
void kernel_schedule(KernelUse *use, const char *schedule);
/* With what they are compiled; the options stay where they are. */
void kernels_begin(Kernels *ks, const CompileOptions *options);
/* Have the unit's kernels results over parameters that their loops would read too late? */
bool unit_reads_late(const NewKernel *group, int n, const Fn *loops);
/* The kernels elsewhere that have a key of the unit's, as a function of their own. */
Fn *unit_equals(const Kernels *ks, const NewKernel *group, int n);
/* Results have lost a parameter's memory since the keys were computed (rewrite_retract): such
 * kernels are others now. */
void kernels_retracted(Kernels *ks);
/* Computes the keys of the uses without a kernel again. */
void kernels_key_again(Kernels *ks);
/* Gives equal uses the kernel that one of them has. */
void kernels_share(Kernels *ks);
/* The references that they have, all or none of them taken by a plan. */
void kernels_drop(Kernels *ks);

/* ---- find.c ---- */

/* Takes kernels of the process or of the cache where there are such; the others are `fresh`. */
void kernels_look_up(Kernels *ks);

/* The keys of a kernel as it is compiled here: in the cache folder, and in this process. */
void kernel_keys(const Kernels *ks, const KernelKey *key, Key *disk, Key *id);

/* ---- stored.c: units of libtcc in the cache folder, for who has no C compiler ---- */

/* The kernel from a unit that is there, or NULL; the unit's other kernels are held. */
Kernel *stored_find(Kernels *ks, Cache *cache, const KernelKey *key, const Key *id);
/* Stores a unit's text as libtcc gets it. */
void stored_put(const Kernels *ks, const NewKernel *group, int n, const char *const *shapes,
                const char *text);

/* ---- units.c ---- */

/* The number of kernels of `fresh` in the unit that begins at `first`.  Call it for one unit after
 * the other, since it also sorts: units with most work come first, and a unit has the order of the
 * function, so that names are bound before they are used. */
int unit_next(Kernels *ks, int first);
/* Makes a function that has the kernels of the unit alone. */
Fn *unit_program(const Kernels *ks, const NewKernel *group, int n);
/* The function that the kernel of the use was lowered in, and *fuel for the rewrites.  If it shares
 * the kernel of an equal use, it is in the place of that one.  *at: its position. */
Fn *unit_again(const Kernels *ks, KernelUse *use, int *at, int64_t *fuel);
/* The targets that its text is wanted for, a bit 1 << target each. */
unsigned unit_targets(const Kernels *ks);
/* Both tiers of a unit: its kernels get their code. */
void unit_compile(Kernels *ks, const NewKernel *group, int n, const Fn *program, const Loops *loops,
                  const Unit *unit);

/* ---- program.c ---- */

/* The kernels as a function of their own; what they share with `fn` stays where it is. */
Fn *kernels_part(const Fn *fn, KernelUse *const *uses, int n);
/* The text of the function, without the places that its lets come from. */
const char *kernels_text(const Fn *part);
/* All kernels as a program, equal ones once.  places: by use, its kernel's place there. */
const char *kernels_program(const Kernels *ks, int *places);

/* ---- pipeline.c ---- */

/* The kernels of a function with their machine code.  ks->fn is the program that they are of, which
 * the rewrites have made of fn. */
Kernels *kernels_make(Fn *fn, const CompileOptions *options);
/* Gives each use its kernel. */
void kernels_compile(Kernels *ks, const CompileOptions *options);
/* The loops of a kernel, with those of the targets: those that were compiled, of a kernel that an
 * equal one shares in its own names; for one that was there already those that would be. */
const Lowered *kernel_loops(const Kernels *ks, KernelUse *use, const CompileOptions *options,
                            unsigned targets);

/* ---- show.c ---- */

/* Is the text wanted on standard error? */
bool compile_dumps(const CompileOptions *options, const char *what);
/* Does anybody want it, on standard error or as a text of the result? */
bool compile_shows(const CompileOptions *options, const char *what);
void compile_show(const CompileOptions *options, const char *what, const char *text);
/* The function with its kernels as loops, to be printed.  target: TARGETS for the loops that all
 * targets share. */
const Fn *kernels_with_loops(const Fn *kernels, const Lowered *lowered, Target target);
/* The schedule that each kernel has, for the loops that all targets share and those of the targets
 * (bits 1 << target), with the loops in comments: nest/written.c reads it. */
void kernels_schedule_text(const Kernels *ks, const CompileOptions *options, unsigned targets,
                           Text *out);
/* Shows the loops that were compiled and what was made of them, as one function and one text. */
void kernels_show(const Kernels *ks, const CompileOptions *options);

#endif
