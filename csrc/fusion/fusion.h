/* Fusion: from the graph stage to the kernels stage.  Rewrites and grouping; knows the IR
 * (ir/ir.h) and nothing of loops, C or Python.  passes.def lists the passes, pipeline.c holds
 * their order. */
#ifndef DLC_FUSION_H
#define DLC_FUSION_H

#include "../ir/ir.h"

/* A pass reads a function and returns a new one (or the same, unchanged). */
typedef Fn *(*PassFn)(Fn *fn);

typedef struct {
    const char *name;
    Stage in, out;
    PassFn run;
    const char *what;           /* one sentence */
} PassInfo;

/* ---- one file a pass ---- */

#define PASS(name, in, out, what) Fn *pass_##name(Fn *fn);
#include "passes.def"

/* ---- pipeline.c ---- */

typedef struct PassOptions {
    bool verify;                /* verify after every pass (also DLC_VERIFY=1; always in tests) */
    const char *dump;           /* pass names with commas, or "all" (DLC_DUMP): to standard error */
    int64_t fuel;               /* single rewrites allowed (DLC_FUEL); negative: no limit */
    /* When not NULL, called after each pass with the function it made and the seconds it took. */
    void (*trace)(void *arg, const char *pass, const Fn *fn, double seconds);
    void *trace_arg;
} PassOptions;

const PassInfo *pass_table(int *count);
/* NULL when there is none; "pipeline" is all of them, in order. */
const PassInfo *pass_find(const char *name);
/* The whole pipeline: a verified graph in, the kernels stage out. */
Fn *pipeline_run(Fn *graph, const PassOptions *options);
/* One pass, with verification, dump, trace and blame as in the pipeline. */
Fn *pass_run(const PassInfo *pass, Fn *fn, const PassOptions *options);
/* Every single rewrite asks first, and is not done when this is false. */
bool fuel_spend(Cx *cx);

#endif
