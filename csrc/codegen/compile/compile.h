/* Compiling kernels: what a compile may be told, and programs of units compiled elsewhere. */
#ifndef DLC_CODEGEN_COMPILE_H
#define DLC_CODEGEN_COMPILE_H

#include "codegen/jit/jit.h"

struct Kernels;
struct Plan;

typedef struct CompileOptions {
    /* libtcc then gcc behind; libtcc alone; gcc first */
    enum { MODE_AUTO, MODE_TCC, MODE_CC } mode;
    CcOptions cc;
    PassOptions passes; /* "loops", "cc_loops", "cc", .., "plan" among the names of dump, too */
    const char *schedule; /* of the program's kernels, as nest/written.c has it; NULL: dlc's own */
    bool tune; /* the first call looks for schedules, */
    double tune_budget; /* for about so many seconds */
    /* When not NULL, called with each text of the compile: the names are those of dump. */
    void (*show)(void *arg, const char *what, const char *text);
    void *show_arg;
    /* When not NULL, called with the key in the cache of each kernel that the C compiler makes. */
    void (*used)(void *arg, const char *key);
    void *used_arg;
    /* When not NULL, called with each unit before it is compiled: its loops, its texts for the
     * targets that are compiled and for those of `targets`, a bit 1 << target each. */
    void (*unit)(void *arg, const Loops *loops, const Unit *unit);
    void *unit_arg;
    unsigned targets;
    /* When not NULL, called with each plan once its steps are there, those of bodies first, while
     * its kernels are at hand. */
    void (*plan)(void *arg, const struct Plan *plan, struct Kernels *kernels);
    void *plan_arg;
    bool own_tensors; /* large values between kernels are not in the workspace */
    /* For programs that are loaded again and again.  Kernels that were verified when they were made
     * are taken although passes.verify is set, and the units that only libtcc compiles go to the
     * cache folder, too. */
    bool keeps;
    /* The program runs once in this process, and the next one wants its kernels: the C compiler
     * compiles them for the cache folder although nobody can call them any more. */
    bool once;
    bool checks; /* the first run of each kernel is compared with the interpreter */
} CompileOptions;

/* ---- pipeline.c ---- */

/* The schedule of each kernel of a program of the kernels stage, which is not compiled: what
 * options->schedule says of it, and what dlc chooses; with the loops in comments. */
void kernels_schedule(Fn *fn, const CompileOptions *options, Text *out);

/* ---- import.c: programs of units compiled elsewhere, into the cache ---- */

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

#endif
