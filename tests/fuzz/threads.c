/* Plans whose launches run in one thread, or in two however little each has to do.
 *
 * Programs of the fuzzer are small: a plan would start no thread for them.  So the linker gives
 * the callers of parallel_for this one (-Wl,--wrap), which cuts a launch into the smallest pieces.
 * What these give depends on no order, as a thread takes the pieces that the other has not. */
#define _GNU_SOURCE /* setenv */
#include "threads.h"

#include "codegen/plan/parallel.h"

#include <stdlib.h>

#define WRAPPED(name) __typeof__(name) __real_##name, __wrap_##name

enum { THREADS = 2 };

static bool both;

void
threads_use(bool two)
{
    static bool own;
    if (!own) {
        setenv("OMP_NUM_THREADS", "2", true);
        setenv("OMP_WAIT_POLICY", "passive", true); /* others want the processors too */
        parallel_own();
        own = true;
    }
    both = two;
}

/* Where scratch has room for one thread, two get scratch of their own. */
WRAPPED(parallel_for);
int
__wrap_parallel_for(const ParallelJob *job)
{
    ParallelJob cut = *job;
    char *scratch = NULL;
    cut.grain = both ? 1 : INT64_MAX;
    if (both && job->each && (scratch = malloc(THREADS * job->each))) {
        cut.scratch = scratch;
        cut.most = THREADS;
    }
    int fault = __real_parallel_for(&cut);
    free(scratch);
    return fault;
}
