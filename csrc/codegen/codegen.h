/* Code generation: kernels to loops, loops to C, C to machine code, and the plan that runs a call.
 *
 * The folder reads the IR (ir/ir.h) and nothing of fusion or of Python.  Two lifetimes meet here:
 * all that lower.c, schedule.c and emit_*.c make lives in the compile's arena; Code and Plan own
 * their memory and outlive it. */
#ifndef DLC_CODEGEN_H
#define DLC_CODEGEN_H

#include <dirent.h>
#include <dirent.h>
#include <stdatomic.h>

#include "ir/ir.h"
#include "machine.h"

enum {
    DLC_LANES = 16,             /* lanes of a vector reduction */
    DLC_SHORT_ROW = 15,         /* elements of rows not worth a vector */
    DLC_BLOCK = 1024,           /* elements of a block of a vector reduction */
    DLC_STEPS = 64,             /* steps of a block of a reduction that is not vector */
};

/* The entry of one phase of a kernel.  p: the kernel's buffers (operands, results, scratch), in the
 * order the phase's header comment lists; n: the values of its size symbols and dims; lo, hi: the
 * part of the parallel loop to run.  Returns 0, or a KernelFault.  Thread safe; touches only its
 * buffers. */
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
};

/* The fault of an index of a kind, which is the `wrap` of a gather. */
static inline int
fault_of_index(int kind)
{
    return kind < INDEX_OF_ELEMENT ? FAULT_INDEX : FAULT_ELEMENT << (kind - INDEX_OF_ELEMENT);
}

/* ---- count.c: the rows of count.def ---- */

enum Count {
#define COUNT(constant, name, kind) COUNT_##constant,
#include "count.def"
    COUNT_ROWS
};

void count_add(enum Count c, int64_t n);
int64_t count_get(enum Count c);
const char *count_name(enum Count c);
bool count_is_time(enum Count c); /* nanoseconds */

/* ---- log.c ---- */

/* "dlc: ..." and a newline to standard error when DLC_LOG was set and not 0 at the last
 * log_configure. */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Reads the environment, which Python changes under its lock: for threads that have that. */
void log_configure(void);

/* ---- trace.c: what the process did and when, for DLC_TRACE ---- */

bool trace_is_on(void);
void trace_start(void);
/* At clock_seconds() `begin`, of this thread; category: a constant; seconds < 0: an instant. */
void trace_event(const char *category, const char *name, double begin, double seconds);
/* Ends it and writes the file; false: errno says why it could not be written. */
bool trace_write(const char *path);

/* ---- environment.c ---- */

/* A number of bytes, such as 4096, 512K, "2 GB" or 1.5GiB, from a variable; `usual` where that is
 * not set, and, with a line to the log, where it is something else. */
int64_t environment_bytes(const char *name, int64_t usual);

/* ---- strips.c, strips_*.c: SIMD routines compiled into the extension, see strips.h ---- */

/* The routine `name` (such as "strip_exp_f32") for this processor, or NULL. */
void *strip_find(const char *name);
/* The instruction set chosen: "sse2", "avx2", "avx512", "neon", ... */
const char *strip_isa(void);
/* What the C compiler has to be told if DLC_ISA chose a narrower set than the processor's, or
 * NULL. */
const char *strip_flag(void);
/* Has the processor instructions that multiply numbers of f16 or bf16 as they are?  No kernel here
 * uses them. */
bool processor_multiplies(Dtype dtype);

/* ---- micro_peak.c ---- */

/* Operations on f32 that all threads together do in a second, at most: a multiply-add is two.  It
 * takes some 5 ms. */
double micro_peak(void);

/* ---- code.c: the machine code of one compiled graph ---- */

/* `count` entries by name, each an atomic pointer that a faster tier replaces while calls go on.
 * Reference counted: the callable holds one reference, a background compile another. */
typedef struct Code Code;

enum CodeTier { TIER_NONE, TIER_TCC, TIER_CC, TIER_TUNED };

Code *code_new(const char *const *names, int count); /* NULL without memory */
Code *code_ref(Code *code);
void code_unref(Code *code);
bool code_is_alone(const Code *code); /* the reference is the last */
KernelFn code_entry(const Code *code, int k); /* the best now, or NULL */
enum CodeTier code_tier(const Code *code, int k);
KernelFn code_entry_of(const Code *code, int k, enum CodeTier *tier); /* and the tier that it is */
int code_count(const Code *code);
const char *code_name(const Code *code, int k);

/* For the compilers.  code_set does nothing to an entry of the same or a faster tier, and counts a
 * swap when it replaces one; code_own keeps what entries point into until the last reference goes
 * (false without memory: nothing is taken). */
void code_set(Code *code, int k, KernelFn fn, enum CodeTier tier);
bool code_own(Code *code, void (*release)(void *memory, size_t size), void *memory, size_t size);

/* ---- jit_tcc.c: the only file that includes libtcc.h ---- */

/* Compiles `text` in process and fills every entry of code that is still empty.  One mutex:
 * compiler state is process-global.  false: `error` (NUL terminated, cut to cap) says why; errno is
 * ENOMEM where that is a lack of memory, and else something other. */
bool jit_tcc_compile(Code *code, const char *text, char *error, size_t cap);

/* ---- perf_map.c ---- */

/* Where the entries that were compiled into this memory are, for perf, when DLC_PERF is set. */
void perf_map_add(const Code *code, const void *memory, size_t size);

/* ---- keys: of kernels, of what is compiled, of what the cache holds ---- */

typedef struct Key {
    char hex[2 * 32 + 1]; /* a SHA-256 */
} Key;

/* ---- cc_target.c: with what units are compiled ---- */

/* The compiler, the cache folder and the processor.  Reference counted. */
typedef struct CcTarget CcTarget;

typedef struct CcOptions {
    const char *compiler; /* NULL: DLC_CC, then cc, gcc, clang on the PATH */
    const char *cache; /* a folder, "" for none, NULL for the default one */
    bool wait; /* compile now, in this thread */
    CcTarget *target; /* made from these options before, or NULL */
    const Key *keys; /* of the unit in the cache; none: made from its text */
    int nkeys;
    const char *schedule; /* a word of tuning.def, whose flag is given too; or NULL */
    /* When not NULL, called around a compile that is waited for: for the interpreter lock. */
    void (*leave)(void *arg);
    void (*enter)(void *arg);
    /* When not NULL, asked without that lock while it is waited for: true ends the compile. */
    bool (*interrupted)(void *arg);
    void *lock_arg;
} CcOptions;

CcTarget *cc_target_new(const CcOptions *options); /* NULL without memory */
CcTarget *cc_target_ref(CcTarget *target);
void cc_target_unref(CcTarget *target);
/* The key of what the target makes of `content`. */
void cc_target_key(const CcTarget *target, const void *content, size_t size, Key *out);
/* What its keys are made of besides what is compiled: processor and dlc, the compiler. */
void cc_target_origin(const CcTarget *target, Key *common, Key *compiler);
const char *cc_target_cache(const CcTarget *target); /* the folder, "" for none */

/* ---- jit_cc.c: gcc (or another C compiler) as a child process ---- */

/* The prelude's files one after the other: made from them by the build. */
extern const char dlc_prelude_text[];
/* The digest of the sources that decide machine code (digest.py), likewise. */
extern const char dlc_sources[];

/* Compiles the prelude and `text` to a shared object, loads it and swaps every entry.  What is in
 * the cache is swapped in before it returns; else, in the background, it returns at once, and
 * failure leaves the entries as they are, counts and logs; where no other reference to code is left
 * when its turn comes, nothing is compiled.  false: it was not taken, or with wait not compiled,
 * and `error` says why. */
bool jit_cc_submit(Code *code, const char *text, const CcOptions *options, char *error, size_t cap);
/* A compile that a C compiler did not do (cc_failure.c), as it is shown. */
typedef struct {
    char command[256];
    char line[256]; /* the first line that says why */
    bool asked; /* somebody named this compiler, or waited for it */
} CcFailure;

bool jit_cc_failure(CcFailure *out); /* the last one; false: there was none */
/* Waits until no background compile is under way; false when `seconds` (negative: no limit)
 * pass. */
bool jit_cc_wait(double seconds);
/* Ends background compiles and their children; called when the process ends. */
void jit_cc_shutdown(void);

/* ---- child.c: a child process with an end ---- */

typedef struct ChildLimits {
    double seconds; /* then its process group is killed */
    int folder; /* a descriptor: it runs in this folder; 0: where this process does */
    int niceness; /* its priority, 0: that of this process */
    const atomic_bool *stop; /* killed when this becomes true; may be NULL */
    bool (*interrupted)(void *arg); /* or when this says so; may be NULL */
    void *arg;
} ChildLimits;

bool child_is_stopped(const ChildLimits *limits);

/* Runs argv[0] (a path) with argv and env and waits for it.  true when it ended with status 0.
 * `text` receives what it wrote to standard output and standard error, cut to cap, or why it
 * failed. */
bool child_run(char *const argv[], char *const env[], const ChildLimits *limits, char *text,
               size_t cap);
/* Kills the groups of all children of this process, and of those that come later. */
void child_kill_all(void);

/* ---- file.c: whole files ---- */

char *file_read(int fd, size_t size); /* to be freed; NULL: errno */
bool file_read_at(int fd, size_t at, void *data, size_t size);
bool file_write(int fd, const void *data, size_t size);
/* a new one, mode 0600 */
bool file_create(int folder, const char *name, const char *head, const char *text);

/* ---- folder.c: folders whose path nobody else can change, and folders of our own ---- */

/* The folder for reading and *at; -1: `why` says which folder on the way is not to be trusted, or
 * what the system said.  make: it and those above it that are missing are made, for us alone. */
int folder_open(const char *path, bool make, char *why, size_t cap);
DIR *folder_read(int fd); /* from its beginning; NULL: it cannot be read */
enum { FOLDER_NAME = 4 + 6 + 1 }; /* of a folder of our own: dlc-XXXXXX */
#define FOLDER_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define FOLDER_MARKER ".dlc-compile" /* the marker file by which one is known */
/* ours and empty, with the name it gets; -1: errno */
int folder_new(int parent, char name[FOLDER_NAME]);
void folder_remove(int fd, int parent, const char *name); /* and the files in it; closes fd */

/* ---- sweep.c: folders that killed processes left ---- */

void folder_mark(int fd); /* folder_sweep knows it, and leaves it while this process has fd open */
/* removes old ones that have a marker.  Once a process */
void folder_sweep(int parent, const char *path);

/* ---- object.c: shared objects ---- */

enum { OBJECT_MOST = 64 << 20 }; /* bytes of a file that one may be */

struct stat;
/* A regular file of that size at most, for reading, and no link; waits for nobody.  -1: errno. */
int object_open(int folder, const char *name, struct stat *st);
bool object_is_whole(const char *data, size_t size); /* as a compiler writes it */
/* For dlsym; NULL: a line in the log.  path: what debuggers are told, no more. */
void *object_load(int fd, const char *path);

/* ---- sha256.c ---- */

enum { SHA256_SIZE = 32 };

typedef struct Sha256 {
    uint32_t state[8];
    uint64_t size;
    uint8_t rest[64];
} Sha256;

void sha256_begin(Sha256 *s);
void sha256_add(Sha256 *s, const void *data, size_t size);
void sha256_end(Sha256 *s, uint8_t digest[SHA256_SIZE]);
void key_end(Sha256 *s, Key *out); /* the same, as a key */

/* ---- cache.c: compiled units on disk, content-addressed, private, checked ---- */

/* The folder: `option` as in CcOptions.cache; the default is $DLC_CACHE_DIR, else
 * $XDG_CACHE_HOME/dlc, else ~/.cache/dlc.  false: path is "" when no cache is wanted. */
bool cache_path(const char *option, char *path, size_t cap);

/* An open folder.  cache_open makes it when it is missing, and refuses (false, with a line in the
 * log) one that is not ours alone to write, or that others could swap for another.  key: 64
 * hexadecimal digits. */
typedef struct Cache {
    int fd;
    const char *path;
    uint64_t sound[2]; /* device and number of the file that was last found sound */
} Cache;

bool cache_open(Cache *cache, const char *path);
/* the same, the line to `why` */
bool cache_try(Cache *cache, const char *path, char *why, size_t cap);
void cache_close(Cache *cache);
void *cache_load(Cache *cache, const char *key); /* for dlsym, or NULL: a miss */
void *cache_read(Cache *cache, const char *key, size_t *size); /* the object's bytes, to be freed */
/* Under each of the keys. */
bool cache_store(const Cache *cache, const Key *keys, int nkeys, const void *data, size_t size,
                 int64_t bound);
/* One key by a name: a hint, which may be lost or untrue. */
bool cache_read_note(const Cache *cache, const char *name, Key *out);
void cache_write_note(const Cache *cache, const char *name, const Key *key);

/* For `python -m dlc cache`.  cache_list checks the seals when `check`; entries come in no
 * order. */
typedef struct CacheEntry {
    char key[65];
    int64_t bytes;
    double used; /* seconds since 1970 */
    bool sound;
} CacheEntry;

int cache_list(const Cache *cache, bool check, void (*visit)(void *arg, const CacheEntry *entry),
               void *arg);
int64_t cache_size(const Cache *cache); /* bytes */
int cache_clear(const Cache *cache); /* entries removed */
int cache_trim(const Cache *cache, int64_t bytes); /* the least recently used go */
int64_t cache_bound(void); /* $DLC_CACHE_SIZE, bytes */

/* ---- parallel.c ---- */

/* One launch: entry `entry` of code over 0 .. extent-1.  When each > 0, a piece gets private
 * scratch: the piece of thread t is called with a copy of p in which p[nbuffers] = scratch + t *
 * each. */
typedef struct ParallelJob {
    const Code *code;
    KernelFn body; /* what is run if there is no code */
    int entry, nbuffers;
    void *const *p; /* room for nbuffers + 1 */
    const int64_t *n;
    int64_t extent, grain;
    char *scratch;
    size_t each;
    int most; /* threads that there is scratch for; 0: there is no bound */
} ParallelJob;

/* Runs the job, split in pieces of at least `grain` over the threads of the OpenMP runtime already
 * in the process (libgomp found by dlsym, the number of threads read at each call); serial without
 * one, inside a parallel region, or when extent <= grain.  Each piece reads the entry anew, so a
 * tier swapped in takes over in flight.  Returns the first fault. */
int parallel_for(const ParallelJob *job);
/* Takes the OpenMP runtime that this library (of dlopen) is linked with, if none was taken yet. */
bool parallel_use(void *library);
/* `begin` is called once in each thread before its number of threads is asked for: torch keeps the
 * one that its user has set, and gives it to the runtime when the thread first works for torch. */
void parallel_begin(void (*begin)(void));
/* The most threads parallel_for would use now, at least 1. */
int parallel_threads(void);

/* ---- pipeline.c: the rewrites of rewrites.def, one file or part of a file each ---- */

#define REWRITE(name, in, out, what) Fn *rewrite_##name(Fn *fn);
#include "rewrites.def"

const PassInfo *rewrite_table(int *count);
/* NULL when there is none; "schedule" is all of those of the loops stage, in order. */
const PassInfo *rewrite_find(const char *name);
/* Kernels to loops that are ready for the emitters.  chosen: a word of tuning.def, or NULL. */
Fn *rewrites_apply(Fn *kernels); /* the same inside a pass, without the chosen one */
Fn *loops_make(const Fn *kernels, const char *chosen, PassOptions *options);

/* ---- schedule_tuning.c: what of a schedule is chosen by measuring ---- */

/* A schedule is a word of tuning.def; the usual one has none. */
int schedule_count(void); /* of those worth measuring here, */
const char *schedule_word(int k); /* and each of them */
const PassInfo *schedule_rewrite(const char *word); /* marks all phases; NULL: no such word */
/* The flag of the C compiler that belongs to it; NULL: none.  A constant. */
const char *schedule_flag(const char *schedule);

/* ---- emit.c, emit_cc.c, emit_tcc.c: the loops stage to C, for the targets of targets.def ---- */

typedef enum {
#define TARGET(name, primitives, what) TARGET_##name,
#include "targets.def"
    TARGETS
} Target;

typedef struct {
    const char *name, *primitives, *what; /* columns of targets.def */
} TargetInfo;

extern const TargetInfo target_info[TARGETS];
Target target_find(const char *name); /* TARGETS when there is none */

/* One phase of one kernel: what a launch needs to know. */
typedef struct Phase {
    const char *name; /* of the C function, a KernelFn */
    const Let *kernel; /* the let in the loops function */
    Value **buffers; /* p[k]: operands, results and scratch buffers of the kernel */
    int nbuffers;
    Dim *dims; /* n[k]: dims over the function's size symbols */
    int ndims;
    Dim extent; /* of the parallel loop; 1 when the phase has none */
    Dim work; /* estimated cost of one iteration, in units of ops.def */
    Dim scratch; /* bytes of private scratch one running piece needs; p[nbuffers] points to it */
} Phase;

typedef struct Unit {
    Phase *phases; /* in the order of execution */
    int nphases;
    const char *text[TARGETS]; /* without the prelude; NULL for a target that was not wanted */
} Unit;

/* wanted: a bit 1 << target for each target whose text is wanted. */
void emit_unit(const Fn *loops, unsigned wanted, Unit *out);

/* A kernel of the loops stage, and the function that it was lowered in. */
typedef struct {
    const Fn *fn;
    const Let *let;
} Lowered;

/* Kernels of several functions as one unit, for people: it is not compiled. */
void emit_kernels(Cx *cx, int n, const Lowered *kernels, unsigned wanted, Unit *out);

/* ---- plan.c, plan_build.c, plan_memory.c: what runs a call ---- */

/* A compiled function: sizes, one workspace with planned offsets, launches, calls, results.
 * Immutable, safe to run from several threads at once. */
typedef struct Plan Plan;

typedef struct CompileOptions {
    /* libtcc then gcc behind; libtcc alone; gcc first */
    enum { MODE_AUTO, MODE_TCC, MODE_CC } mode;
    CcOptions cc;
    PassOptions passes; /* "loops", "cc", "tcc", "plan" among the names of dump, too */
    bool tune; /* the first call compares schedules, */
    double tune_budget; /* for about so many seconds */
    /* When not NULL, called with each text of the compile: the names are those of dump. */
    void (*show)(void *arg, const char *what, const char *text);
    void *show_arg;
    /* When not NULL, called with the key in the cache of each kernel that the C compiler makes. */
    void (*used)(void *arg, const char *key);
    void *used_arg;
    /* When not NULL, called with each unit before it is compiled: its loops and its text for both
     * targets. */
    void (*unit)(void *arg, const Fn *loops, const Unit *unit);
    void *unit_arg;
    /* By parameter, or NULL: a call with a list takes it out of the list, the only reference that
     * its caller has, and so frees it after its last use. */
    const bool *given;
    bool own_tensors; /* large values between kernels are not in the workspace */
    bool checks; /* the first run of each kernel is compared with the interpreter */
} CompileOptions;

/* Compiles a function of the kernels stage. */
Plan *plan_build(const Fn *kernels, const CompileOptions *options);
void plan_free(Plan *plan);

/* ---- plan_import.c: programs of units compiled elsewhere, into the cache ---- */

/* The text of a unit's program.  Fails when it is none, or is one that must not be compiled. */
Fn *program_check(Cx *cx, const char *text);

typedef struct Program {
    const char *text;
    const char *key; /* in the cache that it comes from */
    const void *object; /* the machine code that was there; NULL: the text is to be compiled */
    size_t size;
    const char *common, *compiler; /* what that key was made of, see cc_target_origin */
} Program;

typedef enum { IMPORT_PRESENT, IMPORT_TAKEN, IMPORT_COMPILED, IMPORT_FAILED } ImportResult;

ImportResult program_import(Cx *cx, const Program *program, const CcOptions *cc);

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

/* A call under way that binds sizes.  The host says what was returned, result by result: its sizes,
 * or with rank 0 the number in sizes[0] that it is.  Then plan_bound fills in what `results` are to
 * be, now that it is known.  0, or -1 after a fault. */
typedef struct PlanBinder PlanBinder;

int plan_bind(PlanBinder *binder, int result, const PlanTensor *got);
int plan_bound(PlanBinder *binder, PlanTensor *results);

/* What the plan asks of its caller.  Each returns 0, or -1 after having noted an error. */
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
    /* With the interpreter lock, while the first call compares schedules: `done` of `total` steps;
     * line: what was found, or NULL.  -1: an error is noted, the call is to end.  May be NULL. */
    int (*tuning)(void *arg, int done, int total, const char *line);
    /* Does a profiler run?  Asked once a call.  May be NULL: none ever does. */
    bool (*is_watched)(void);
    /* While one does, around each kernel and call: begin's result is given to end.  objects: those
     * of its operands that have any.  Without the interpreter lock, too. */
    void *(*begin)(const char *name, int n, void *const *objects);
    void (*end)(void *range);
    struct Profile *profile; /* of the plan, NULL: nobody asks how long steps take */
    /* The call needs parameter `param` no more, of which it may have the only reference.  keep: its
     * memory may be kept until a result wants memory of another size; else there will be need of it
     * before.  May be NULL. */
    void (*give_up)(void *arg, int param, bool keep);
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

/* Of the fastest call since call_profile_begin.  Calls may be under way in several threads while it
 * is made, none while it is read. */
typedef struct Profile Profile;

typedef struct ProfileSummary {
    int64_t calls;
    double seconds;
    int nsteps, nslots;
} ProfileSummary;

typedef struct ProfileStep {
    const char *kind; /* "alloc", "view", "launch", "call", "copy" or "free" */
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

/* ---- memory.c: what the process keeps from call to call ---- */

/* Bytes of results, and as many of workspaces, that are kept at most: $DLC_POOL. */
int64_t memory_bound(void);
/* Asks for huge pages for what has not been written yet. */
void memory_want_huge(void *data, size_t size);
/* Frees the workspaces kept for coming calls. */
void workspace_release(void);
void plan_text(const Plan *plan, Text *out); /* the steps, for people */

#endif
