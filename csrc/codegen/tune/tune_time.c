/* Finds which of several equivalent kernels is the fastest on the operands of a call.
 *
 * Each kernel runs on copies of the tensors, so that the call's own do not change.  A machine's
 * speed drifts by more than the differences that are looked for, so kernels take turns.  First all
 * of them run a few times, to find the best of the candidates.  Then that one and the usual one
 * alternate, until it is known whether it wins more often than by chance and by enough to be worth
 * a change. */
#include <stdlib.h>
#include <string.h>

#include "tune.h"

enum {
    FIRST = 4,                  /* turns of each candidate */
    SECOND = 15,                /* turns of the best one and the usual one */
    WINS = 13,                  /* of those the best one must win; by chance one in 270 does */
    MOST_RUNS = 512,            /* runs in a turn */
};

static const double turn_seconds = 500e-6;      /* a turn lasts at least so long */
static const double worth = 0.97;    /* a winner takes less than this part of the usual time */
static const double gain = 0.5e-6;              /* and gains more seconds than this */

/* The arguments of the phases, on copies. */
typedef struct {
    const TuneJob *job;
    char **memory, **data;      /* by buffer */
    void ***p;                  /* by phase: room for one more than its buffers */
    char *scratch;              /* for all phases */
} Copies;

static void
copies_free(Copies *c)
{
    for (int k = 0; c->memory && k < c->job->nbuffers; k++) {
        free(c->memory[k]);
    }
    for (int k = 0; c->p && k < c->job->nphases; k++) {
        free(c->p[k]);
    }
    free(c->memory);
    free(c->data);
    free(c->p);
    free(c->scratch);
}

static bool
copy_buffers(Copies *c)
{
    for (int k = 0; k < c->job->nbuffers; k++) {
        const TuneBuffer *from = &c->job->buffers[k];
        size_t room = (from->bytes + 2 * DLC_LINE) / DLC_LINE * DLC_LINE + DLC_LINE;
        if (!(c->memory[k] = aligned_alloc(DLC_LINE, room))) {
            return false;
        }
        /* aligned to a line as in the call */
        c->data[k] = c->memory[k] + (uintptr_t)from->data % DLC_LINE;
        if (from->bytes) {
            memory_want_huge(c->memory[k], room);
            memcpy(c->data[k], from->data, from->bytes);
        }
    }
    return true;
}

static char *
copy_of(const Copies *c, int slot)
{
    int k = 0;
    while (c->job->buffers[k].slot != slot) {
        k++;
    }
    return c->data[k];
}

static bool
copies_make(Copies *c, const TuneJob *job)
{
    *c = (Copies){.job = job};
    c->memory = calloc((size_t)job->nbuffers + 1, sizeof *c->memory);
    c->data = calloc((size_t)job->nbuffers + 1, sizeof *c->data);
    c->p = calloc((size_t)job->nphases + 1, sizeof *c->p);
    if (!c->memory || !c->data || !c->p || !copy_buffers(c)) {
        return false;
    }
    size_t scratch = DLC_LINE;
    for (int k = 0; k < job->nphases; k++) {
        size_t each = (size_t)job->inst->scratch[job->first + k] * (size_t)job->threads;
        scratch = each > scratch ? each : scratch;
    }
    if (!(c->scratch = aligned_alloc(DLC_LINE, scratch))) {
        return false;
    }
    for (int k = 0; k < job->nphases; k++) {
        const Launch *launch = &job->plan->launches[job->first + k];
        if (!(c->p[k] = calloc((size_t)launch->nbuffers + 1, sizeof **c->p))) {
            return false;
        }
        for (int j = 0; j < launch->nbuffers; j++) {
            c->p[k][j] = copy_of(c, launch->buffers[j]);
        }
        c->p[k][launch->nbuffers] = c->scratch;
    }
    return true;
}

/* Runs all phases once; false: one has a fault. */
static bool
run(const Copies *c, const Kernel *kernel)
{
    const TuneJob *job = c->job;
    const int64_t *values = job->inst->values;
    for (int k = 0; k < job->nphases; k++) {
        const Launch *launch = &job->plan->launches[job->first + k];
        ParallelJob phase = {
            .code = kernel->code,
            .entry = kernel->first + k,
            .nbuffers = launch->nbuffers,
            .p = c->p[k],
            .n = job->inst->n + launch->dims_at,
            .extent = values[launch->extent],
            .grain = job->inst->grain[job->first + k],
            .scratch = c->scratch,
            .each = (size_t)job->inst->scratch[job->first + k],
            .most = launch->in_order ? 1 : job->threads,
        };
        if (parallel_for(&phase) != 0) {
            return false;
        }
    }
    return true;
}

/* Runs the kernel `runs` times and returns the seconds of one run. */
static double
turn(const Copies *c, const Kernel *kernel, int runs)
{
    double begin = clock_seconds();
    for (int k = 0; k < runs; k++) {
        run(c, kernel);
    }
    return (clock_seconds() - begin) / runs;
}

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double
median(const double *samples, int n)
{
    double sorted[SECOND];
    memcpy(sorted, samples, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    return sorted[n / 2];
}

/* The kernel of 1 .. n-1 with the shortest turn; 0: there is none. */
static int
find_best(const Copies *c, Kernel *const *kernels, int n, int runs, double deadline)
{
    int best = 0;
    double least = 0;
    for (int k = 1; k < n; k++) {
        if (!kernels[k] || !run(c, kernels[k])) {
            continue;
        }
        double shortest = turn(c, kernels[k], runs);
        for (int j = 1; j < FIRST && clock_seconds() < deadline; j++) {
            double seconds = turn(c, kernels[k], runs);
            shortest = seconds < shortest ? seconds : shortest;
        }
        if (!best || shortest < least) {
            best = k;
            least = shortest;
        }
    }
    return best;
}

/* Is b faster than a? seconds: the median of each; both are that of a if b is not faster. */
static int
compare(const Copies *c, const Kernel *a, const Kernel *b, int runs, double deadline,
        double seconds[2])
{
    double of_a[SECOND], of_b[SECOND];
    int wins = 0, n = 0;
    for (; n < SECOND; n++) {
        if (clock_seconds() > deadline) {
            return TUNE_UNDECIDED;
        }
        if (n % 2) {
            of_b[n] = turn(c, b, runs);
        }
        of_a[n] = turn(c, a, runs);
        if (n % 2 == 0) {
            of_b[n] = turn(c, b, runs);
        }
        wins += of_b[n] < of_a[n];
    }
    seconds[0] = median(of_a, n);
    seconds[1] = median(of_b, n);
    bool better = wins >= WINS && seconds[1] < worth * seconds[0] && seconds[0] - seconds[1] > gain;
    seconds[1] = better ? seconds[1] : seconds[0];
    return better;
}

static int
choose(const Copies *c, Kernel *const *kernels, int n, double deadline, double seconds[2])
{
    if (!run(c, kernels[0])) {
        return TUNE_UNDECIDED;
    }
    seconds[0] = seconds[1] = turn(c, kernels[0], 1);
    double want = turn_seconds / (seconds[0] + 1e-9);
    int runs = want < 1 ? 1 : want > MOST_RUNS ? MOST_RUNS : (int)want;
    int best = find_best(c, kernels, n, runs, deadline);
    if (best == 0) {
        return 0;
    }
    int better = compare(c, kernels[0], kernels[best], runs, deadline, seconds);
    return better == 1 ? best : better;
}

int
tune_choose(const TuneJob *job, Kernel *const *kernels, int n, double deadline, double seconds[2])
{
    Copies c;
    int best = copies_make(&c, job) ? choose(&c, kernels, n, deadline, seconds) : TUNE_UNDECIDED;
    copies_free(&c);
    return best;
}
