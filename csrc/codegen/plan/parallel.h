/* The parallel loop: one launch over the threads of the process. */
#ifndef DLC_CODEGEN_PARALLEL_H
#define DLC_CODEGEN_PARALLEL_H

#include "codegen/compile/code.h"

/* One launch: entry `entry` of code over 0 .. extent-1.  If each > 0, a piece gets private scratch:
 * the piece of thread t is called with a copy of p in which p[nbuffers] = scratch + t * each. */
typedef struct ParallelJob {
    const Code *code;
    KernelFn body; /* the function to run if there is no code */
    int entry, nbuffers;
    void *const *p; /* room for nbuffers + 1 */
    const int64_t *n;
    int64_t extent, grain;
    char *scratch;
    size_t each;
    int most; /* threads that there is scratch for; 0: there is no bound */
} ParallelJob;

/* Runs the job, split in pieces of at least `grain` over the threads of the OpenMP runtime already
 * in the process (libgomp found by dlsym, the number of threads read at each call), or over threads
 * of dlc's own after parallel_own(); serial without either, inside a parallel region, or when
 * extent <= grain.  Each piece reads the entry anew, so a tier swapped in takes over in flight.
 * Returns the first fault. */
int parallel_for(const ParallelJob *job);
/* Takes the OpenMP runtime that this library (of dlopen) is linked with, if none was taken yet. */
bool parallel_use(void *library);
/* From now on there are threads of dlc's own where the process has no OpenMP runtime. */
void parallel_own(void);
/* `begin` is called once in each thread before its number of threads is asked for: torch keeps the
 * one that its user has set, and gives it to the runtime when the thread first works for torch. */
void parallel_begin(void (*begin)(void));
/* The most threads parallel_for would use now, at least 1. */
int parallel_threads(void);

#endif
