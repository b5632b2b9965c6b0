/* Code generation on one page: what becomes of the kernels of a unit, and in which order.
 *
 * What:     loops_make takes kernels of the kernels stage to the loops stage and through the
 *           rewrites of their schedule; the emitters then write C for both targets.  All machine
 *           code comes this way: the kernels of a plan, those for short rows, and the schedules
 *           that tuning compares.
 * Requires: a verified function of the kernels stage.
 * Ensures:  the object that is compiled is the one that was verified and dumped.
 * How:      a rewrite is a row of rewrites.def and runs as any pass does (ir/pass.c): with
 *           verification, dumps, blame and fuel.  A schedule that is chosen by measuring is one
 *           more rewrite, after the others. plan_kernels.c says which kernels make a unit, and what
 *           becomes of its text.
 * Why not:  decide in the emitters: a decision that is not in the text can be neither verified, nor
 *           bisected, nor tuned.
 * Example:  dlc-opt --pipeline --pass lower,vectorise softmax.dlc
 */
#include <string.h>

#include "codegen.h"

enum {
#define REWRITE(name, in, out, what) REWRITE_##name,
#include "rewrites.def"
    REWRITES
};

static const PassInfo rewrites[] = {
#define REWRITE(name, in, out, what) {#name, STAGE_##in, STAGE_##out, rewrite_##name, what, NULL},
#include "rewrites.def"
};

static const PassInfo *const schedule[] = {
    &rewrites[REWRITE_vectorise],
    &rewrites[REWRITE_shorten],
    &rewrites[REWRITE_parallelise],
    &rewrites[REWRITE_join],
    NULL,
};

static const PassInfo whole = {
    "schedule", STAGE_LOOPS, STAGE_LOOPS, NULL, "All rewrites of the loops stage, in order.",
    schedule,
};

const PassInfo *
rewrite_table(int *count)
{
    *count = REWRITES;
    return rewrites;
}

const PassInfo *
rewrite_find(const char *name)
{
    const PassInfo *found = pass_in(rewrites, REWRITES, name);
    return found ? found : strcmp(name, whole.name) == 0 ? &whole : schedule_rewrite(name);
}

Fn *
loops_make(const Fn *kernels, const char *chosen, PassOptions *options)
{
    /* The cast is safe: lowering only reads its input. */
    Fn *loops = pass_run(&rewrites[REWRITE_lower], (Fn *)kernels, options);
    loops = pass_run(&whole, loops, options);
    return chosen ? pass_run(schedule_rewrite(chosen), loops, options) : loops;
}
