/* Blocks of memory that values have of their own in a run, instead of a place in the workspace. */

#include <stdlib.h>

#include "plan_run.h"

int
run_open_own(Run *run, int n)
{
    run->own = n ? calloc((size_t)n, sizeof *run->own) : NULL;
    return n && !run->own ? -1 : 0;
}

int
run_take_own(Run *run, int at)
{
    for (int k = 0; k < run->inst->nown; k++) {
        const OwnBlock *block = &run->inst->own[k];
        if (block->first == at && !(run->own[k] = block_take((size_t)block->bytes))) {
            run_enter(run);
            run->host->fault(run->host->arg, FAULT_MEMORY, NULL, NULL);
            return -1;
        }
    }
    return 0;
}

void
run_free_own(Run *run, int at)
{
    for (int k = 0; k < run->inst->nown; k++) {
        if (run->inst->own[k].last == at) {
            free(run->own[k]);
            run->own[k] = NULL;
        }
    }
}

void
run_drop_own(Run *run, int n)
{
    for (int k = 0; k < n && run->own; k++) {
        free(run->own[k]);
    }
    free(run->own);
    run->own = NULL;
}
