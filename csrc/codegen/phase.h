/* Phases of kernels: what a function of generated code is, and what the emitters make of the loops
 * stage. */
#ifndef DLC_CODEGEN_PHASE_H
#define DLC_CODEGEN_PHASE_H

#include "ir/ir.h"
#include "machine.h"

enum {
    DLC_LANES = 16,             /* lanes of a vector reduction */
    DLC_SHORT_ROW = 15,         /* elements of rows not worth a vector */
    DLC_BLOCK = 1024,           /* elements of a block of a vector reduction */
    DLC_PANEL = 128 + 16, /* from row to row of a transposed copy, see prelude_transpose.h */
    DLC_STEPS = 64, /* steps of a block of a reduction that is not vector */
};

/* The entry of one phase of a kernel.  p: the kernel's buffers (operands, results, scratch), in the
 * order the phase's header comment lists; n: the values of its size symbols and dims; lo, hi: the
 * part to run of the parallel loop, or of a loop whose steps run in order.  Returns 0, or a
 * KernelFault.  Thread safe; touches only its buffers. */
typedef int (*KernelFn)(void *const *p, const int64_t *n, int64_t lo, int64_t hi);

enum KernelFault {
    FAULT_NONE,
    FAULT_INDEX, /* an index is out of range, of the first two kinds of check.def */
    FAULT_MEMORY, /* from the plan: no memory for the call */
    FAULT_LAYOUT, /* from the plan: a parameter is not of the sizes or strides compiled for, or the
                                 * sizes are so large that no tensor can be */
    FAULT_ELEMENT, /* an index of the third kind; each later one has the next bit */
    FAULT_SIZE = FAULT_ELEMENT | FAULT_MEMORY, /* from the plan: a call found a size that the graph
                                                * excludes; node: the text.  No kinds make it. */
    FAULT_WRONG = FAULT_ELEMENT |
                  FAULT_LAYOUT, /* from the plan: a kernel is wrong; node: the text */
    FAULT_HOST = -1, /* within the plan: the host has noted an error of its own, as an interrupt */
};

/* The fault of an index of a kind, which is the `wrap` of a gather. */
static inline int
fault_of_index(int kind)
{
    return kind < INDEX_OF_ELEMENT ? FAULT_INDEX : FAULT_ELEMENT << (kind - INDEX_OF_ELEMENT);
}

/* ---- compile/targets.c: the languages that kernels are written in ---- */

typedef enum {
#define TARGET(name, ...) TARGET_##name,
#include "targets.def"
    TARGETS
} Target;

typedef enum { COMPILER_LIBTCC, COMPILER_CC, COMPILER_ANY } Compiler;

/* What rewrites of several targets weigh differently. */
typedef struct {
    int nontemporal_stores; /* the most of them in a loop */
    int streamed_f32; /* in place of COST_STREAMED, where a loop stores f32 alone */
    bool staged_stores; /* non-temporal ones go through arrays: no loop of the text has them else */
    bool scans_lanes; /* a scan is a routine of as many rows as run together, of adjacent floats */
    int terms; /* the longest block of a reduction of which the values are in an array */
} TargetCosts;

/* What a language has for a tool that makes a circuit; NULL: nothing. */
typedef struct {
    const char *loop, *array;
} TargetPragmas;

/* A row of targets.def, which explains the columns. */
typedef struct {
    const char *name, *what;
    Compiler compiler;
    enum { CALLS_NAMES, CALLS_POINTERS, CALLS_TEXT, CALLS_NONE } calls;
    enum { FUSED_PROCESSOR, FUSED_ALWAYS } fused;
    int width;
    bool branches, arrays;
    TargetPragmas pragmas;
    TargetCosts costs;
} TargetInfo;

extern const TargetInfo target_info[TARGETS];
Target target_find(const char *name); /* TARGETS when there is none */
Target target_for(Compiler compiler); /* whose texts it gets: the first row with it */
/* Whose copy of the loops it is.  Loops of all targets, as one rewrite alone gets them in a test,
 * are taken for those of the first. */
const TargetInfo *target_of(const Fn *fn);
unsigned targets_compiled(void); /* by dlc: 1 << target for each */
bool target_fuses(Target target); /* on this processor: is a fused multiply-add one operation? */

/* ---- micro/micro_portable.c: the microkernels of f32 and f64 as text ---- */

/* The declarations that stand for the word, as dlc_micro_f32; NULL: it is no such word.  They use
 * others of these, and DLC_FMA. */
const char *micro_portable(Cx *cx, const char *word, size_t length);
/* Is the loop, marked pack or micro, one call of a routine that the target has?  Else it stays
 * loops. */
bool target_calls(const TargetInfo *target, const Let *loop);

/* ---- emit.c: the loops stage to C, for each target ---- */

/* One phase of one kernel: what a launch needs to know. */
typedef struct Phase {
    const char *name; /* of the C function, a KernelFn */
    const Let *kernel; /* the let in the loops function */
    Value **buffers; /* p[k]: operands, results and scratch buffers of the kernel */
    int nbuffers;
    Dim *dims; /* n[k]: dims over the function's size symbols */
    int ndims;
    Dim extent; /* of this loop; 1 when the phase has none; 0 where it is not chosen */
    Dim work; /* estimated cost of one iteration, in units of ops.def */
    Dim scratch; /* bytes of private scratch one running piece needs; p[nbuffers] points to it */
    bool in_order; /* the iterations are steps, each behind the one before: threads share none */
    bool is_part; /* the function is for one of several loops, and the phase calls it */
    Dim given; /* of such a function, the size that is its last parameter; or DIM_NONE */
} Phase;

typedef struct Unit {
    Phase *phases; /* in the order of execution */
    int nphases;
    const char *text[TARGETS]; /* without the prelude; NULL for a target that was not wanted */
} Unit;

/* A function of the loops stage: as the rewrites that all targets share leave it, and for each
 * target as the target's own leave it; NULL for a target that is not wanted. */
typedef struct {
    const Fn *shared;
    const Fn *of[TARGETS];
    const char *written; /* the schedule, if it was written: see nest/written.c; else NULL */
} Loops;

/* Texts for the targets that it has loops of.  A phase's kernel is that of the shared loops. */
void emit_unit(const Loops *loops, Unit *out);

/* A kernel of the loops stage: the function that it was lowered in, and its place there. */
typedef struct {
    Loops loops;
    int place;
} Lowered;

/* Kernels of several functions as one unit, for people: it is not compiled.  wanted: a bit
 * 1 << target for each target that all of them have loops of. */
void emit_kernels(Cx *cx, int n, const Lowered *kernels, unsigned wanted, Unit *out);

#endif
