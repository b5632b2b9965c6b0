/* The pipeline of fusion: which passes run, in which order.  What happens around each is
 * ir/pass.c's. */
#include "fusion.h"

#include <string.h>

enum {
#define PASS(name, in, out, what) PASS_##name,
#include "passes.def"
    PASSES
};

static const PassInfo passes[] = {
#define PASS(name, in, out, what) {#name, STAGE_##in, STAGE_##out, pass_##name, what, NULL},
#include "passes.def"
};

static const PassInfo *const order[] = {
    &passes[PASS_unmerge],      &passes[PASS_channels],  &passes[PASS_count],
    &passes[PASS_canonicalise], &passes[PASS_linearise], &passes[PASS_dead],
    &passes[PASS_inside],       &passes[PASS_fuse],      &passes[PASS_share],
    &passes[PASS_panels],       &passes[PASS_layouts],   &passes[PASS_pad_rows],
    &passes[PASS_in_place],     &passes[PASS_enclose],   NULL,
};

static const PassInfo whole = {
    "pipeline", STAGE_GRAPH, STAGE_KERNELS, NULL, "All passes, in order.", order,
};

const PassInfo *
pass_table(int *count)
{
    *count = PASSES;
    return passes;
}

const PassInfo *
pass_find(const char *name)
{
    const PassInfo *found = pass_in(passes, PASSES, name);
    return found ? found : strcmp(name, whole.name) == 0 ? &whole : NULL;
}

Fn *
pipeline_run(Fn *graph, PassOptions *options)
{
    return pass_run(&whole, graph, options);
}
