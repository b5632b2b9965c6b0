/* Times that are predicted, and what this machine was measured to do, see predict.c. */
#ifndef DLC_PREDICT_H
#define DLC_PREDICT_H

#include "codegen/phase.h"

/* ---- speeds.c: the machine ---- */

enum {
    SPEED_LEVELS = 8,           /* working sets that were measured: */
    SPEED_FIRST = 16 << 10,     /* bytes of the smallest one, */
    SPEED_STEP = 4,             /* and how many times as large the next one is */
    SPEED_NEAR = 5,             /* the number of the last one that is near */
    SPEED_PAGE = 4096,          /* bytes of a page: what is read before a jump */
};

/* Bytes that are read in a second, and bytes that a copy reads and writes, by working set; of the
 * largest one, those of a copy with stores that bypass the caches, and of reading pages apart. */
typedef struct {
    double read[SPEED_LEVELS], copy[SPEED_LEVELS], streamed, jumping;
} Traffic;

typedef struct {
    int threads;
    double launch;              /* seconds: the start of a kernel in the caller's thread, */
    double product; /* operations on f32 that a thread does in a product in a second */
    double clock; /* cycles of a thread in a second */
    double fork; /* seconds: what the start takes longer with all threads */
    Traffic alone, together; /* of one thread, of all */
} Speeds;

enum { SPEEDS = 6 + 4 * SPEED_LEVELS }; /* numbers from `clock` on */

/* Measures them, with the threads of the process, in less than a second: clock, fork and
 * traffic.  false: there is no memory. */
bool speeds_measure(Speeds *out);

/* ---- predict.c ---- */

typedef enum { LIMIT_MEMORY, LIMIT_ARITHMETIC, LIMIT_LAUNCH } Limit;

/* A kernel of the program, or another step that moves memory, as a call of the library. */
typedef struct {
    const Let *let;
    double bytes; /* that come from memory or a cache, or go there */
    double moving, computing, starting; /* seconds */
    double seconds; /* of the kernel; of other steps, moving and starting */
    Limit limit;
} Predicted;

/* Predicts the steps of a program of the loops stage: *out has one for each kernel and each other
 * step that moves memory, in order; returns how many.  The time is that of a call that follows
 * another one.  A size symbol that is not among the n counts as in ir/dim/estimate.c. */
int predict_program(const Fn *loops, int n, const FixedSize *sizes, const Speeds *speeds,
                    Predicted **out);
const char *limit_name(Limit limit);

#endif
