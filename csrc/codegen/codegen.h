/* Code generation: kernels to loops, loops to C, C to machine code, and the plan that runs a call.
 *
 * The folder reads the IR (ir/ir.h) and nothing of fusion or of Python.  Two lifetimes meet here:
 * all that lower.c, schedule.c and emit_*.c make lives in the compile's arena; Code and Plan are
 * reference counted, own their memory, and outlive it. */
#ifndef DLC_CODEGEN_H
#define DLC_CODEGEN_H

#include "../ir/ir.h"

enum {
    DLC_LANES = 16,             /* lanes of a vector reduction */
    DLC_BLOCK = 1024,           /* elements of a block of a vector reduction */
    DLC_STEPS = 64,             /* steps of a block of a reduction that is not vector */
    DLC_TILE = 1024,            /* elements of a tile of the libtcc tier */
};

/* The entry of one phase of a kernel.  p: the kernel's buffers (operands, results, scratch), in the
 * order the phase's header comment lists; n: the values of its size names and dims; lo, hi: the part
 * of the parallel loop to run.  Returns 0, or a KernelFault.  Thread safe; touches only its buffers. */
typedef int (*KernelFn)(void *const *p, const int64_t *n, int64_t lo, int64_t hi);

enum KernelFault {
    FAULT_NONE,
    FAULT_INDEX,                /* a gather index is out of range */
};

/* ---- count.c: the rows of count.def ---- */

enum Count {
#define COUNT(constant, name, kind) COUNT_##constant,
#include "codegen/count.def"
    COUNT_ROWS
};

void count_add(enum Count c, int64_t n);
int64_t count_get(enum Count c);
const char *count_name(enum Count c);
bool count_is_time(enum Count c);                                       /* nanoseconds */

/* ---- log.c ---- */

/* "dlc: ..." and a newline to standard error when DLC_LOG is set and not 0. */
bool log_on(void);
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- strips.c, strips_*.c: SIMD routines compiled into the extension, see strips.h ---- */

/* The routine `name` (such as "strip_exp_f32") for this processor, or NULL. */
void *strip_find(const char *name);
/* The instruction set chosen: "sse2", "avx2", "avx512", "neon", ... */
const char *strip_isa(void);

/* ---- code.c: the machine code of one compiled graph ---- */

/* `count` entries by name, each an atomic pointer that a faster tier replaces while calls go on.
 * Reference counted: the callable holds one reference, a background compile another. */
typedef struct Code Code;

enum CodeTier { TIER_NONE, TIER_TCC, TIER_CC };

Code *code_new(const char *const *names, int count);                    /* NULL without memory */
Code *code_ref(Code *code);
void code_unref(Code *code);
KernelFn code_entry(const Code *code, int k);                           /* the best now, or NULL */
enum CodeTier code_tier(const Code *code, int k);
int code_count(const Code *code);
const char *code_name(const Code *code, int k);

/* For the compilers.  code_set counts a swap when it replaces an entry; code_own keeps the memory that
 * entries point into until the last reference goes (false without memory: nothing is taken). */
void code_set(Code *code, int k, KernelFn fn, enum CodeTier tier);
bool code_own(Code *code, void (*release)(void *memory, size_t size), void *memory, size_t size);

/* ---- jit_tcc.c: the only file that includes libtcc.h ---- */

/* Compiles `text` in process and fills every entry of code that is still empty.  One mutex: compiler
 * state is process-global.  false: `error` (NUL terminated, cut to cap) says why. */
bool jit_tcc_compile(Code *code, const char *text, char *error, size_t cap);

/* ---- jit_cc.c: gcc (or another C compiler) as a child process ---- */

typedef struct CcOptions {
    const char *compiler;       /* NULL: DLC_CC, then cc, gcc, clang on the PATH */
    const char *cache;          /* a folder, "" for none, NULL for the default one */
    bool wait;                  /* compile now, in this thread */
} CcOptions;

/* Compiles `text` to a shared object (or takes it from the cache), loads it and swaps every entry.
 * In the background it returns at once; failure leaves the entries as they are, counts and logs.
 * With wait, false and `error` say why it failed. */
bool jit_cc_submit(Code *code, const char *text, const CcOptions *options, char *error, size_t cap);
/* Waits until no background compile is under way; false when `seconds` (negative: no limit) pass. */
bool jit_cc_wait(double seconds);
/* Ends background compiles and their children; called when the process ends. */
void jit_cc_shutdown(void);

/* ---- cache.c: compiled units on disk, content-addressed, private, checked ---- */
/* ---- parallel.c ---- */

/* Runs entry k of code over 0 .. extent-1, split in pieces of at least `grain` over the threads of the
 * OpenMP runtime already in the process (libgomp found by dlsym, the number of threads read at each
 * call); serial without one, inside a parallel region, or when extent <= grain.  Each piece reads the
 * entry anew, so a tier swapped in takes over in flight.  Returns the first fault. */
int parallel_for(const Code *code, int k, void *const *p, const int64_t *n, int64_t extent, int64_t grain);

/* ---- lower.c, lower_index.c: the kernels stage to the loops stage ---- */

/* Every kernel's body becomes buffers and loops (see ops.def for, reduce, load, store). */
Fn *lower_fn(const Fn *kernels);

/* ---- schedule.c: the loops stage to itself ---- */

/* Collapses, reorders and marks loops: parallel outside, vector innermost, column or row reductions. */
Fn *schedule_fn(const Fn *loops);

/* ---- emit.c, emit_cc.c, emit_tcc.c: the loops stage to C, for two tiers ---- */

/* One phase of one kernel: what a launch needs to know. */
typedef struct Phase {
    const char *name;           /* of the C function, a KernelFn */
    const Let *kernel;          /* the let in the loops function */
    Value **buffers;            /* p[k]: operands, results and scratch buffers of the kernel */
    int nbuffers;
    Dim *dims;                  /* n[k]: dims over the function's size names */
    int ndims;
    Dim extent;                 /* of the parallel loop; 1 when the phase has none */
    Dim work;                   /* estimated cost of one iteration, in units of ops.def */
    Dim scratch;                /* bytes of private scratch one running piece needs; p[nbuffers] points to it */
} Phase;

typedef struct Unit {
    Phase *phases;              /* in the order of execution */
    int nphases;
    const char *tcc_text;       /* strips do the arithmetic */
    const char *cc_text;        /* plain loops under the prelude, without the prelude itself */
} Unit;

void emit_unit(const Fn *loops, Unit *out);

/* ---- plan.c, plan_build.c, plan_memory.c: what runs a call ---- */

/* A compiled function: sizes, one workspace with planned offsets, launches, calls, results.
 * Reference counted, immutable, safe to run from several threads at once. */
typedef struct Plan Plan;

typedef struct CompileOptions {
    enum { MODE_AUTO, MODE_TCC, MODE_CC } mode;         /* libtcc then gcc behind; libtcc alone; gcc first */
    CcOptions cc;
    const char *dump;           /* "loops", "c", "tcc", "plan" among the names: to standard error */
    bool verify;
} CompileOptions;

/* Compiles a function of the kernels stage. */
Plan *plan_build(const Fn *kernels, const CompileOptions *options);
Plan *plan_ref(Plan *plan);
void plan_unref(Plan *plan);

/* A tensor as the caller holds it.  object is the caller's own (a tensor handle), opaque here. */
typedef struct PlanTensor {
    void *object;
    void *data;                 /* first element */
    int rank;
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
} PlanTensor;

/* What the plan asks of its caller.  Each returns 0, or -1 after having noted an error. */
typedef struct PlanHost {
    void *arg;
    /* A fresh tensor with these sizes and strides: fills object and data. */
    int (*alloc)(void *arg, Dtype dtype, PlanTensor *out);
    /* A view of base's storage; offset in elements from base's first element. */
    int (*view)(void *arg, const PlanTensor *base, Dtype dtype, int64_t offset, PlanTensor *out);
    /* Runs call site `site`: operands (scalars are rank 0 tensors), dims; fills results.  A result must
     * have the sizes and strides asked for in results[k] on entry; sizes of -1 are found out. */
    int (*call)(void *arg, int site, int nargs, const PlanTensor *args, int ndims, const int64_t *dims,
                int nres, PlanTensor *results);
    void (*release)(void *arg, PlanTensor *tensor);     /* drops object */
    void (*fault)(void *arg, int fault, const char *node, const char *source);
    /* Called before and after a run of kernels that takes long: for the GIL. */
    void (*leave)(void *arg);
    void (*enter)(void *arg);
} PlanHost;

/* Runs the plan.  sizes: by position in fn->sizes, INT64_MIN where the value is to be found from the
 * parameters (sizes NULL: all of them).  in: the parameters; out: the results (object NULL for RESULT_INTO; scalars of `size` lets
 * have data pointing at an int64 inside out[k].sizes).  0, or -1 when the host noted an error. */
int plan_run(const Plan *plan, const PlanHost *host, const int64_t *sizes, const PlanTensor *in,
             PlanTensor *out);
int plan_text(const Plan *plan, Text *out);             /* the steps, for people */

#endif
