/* Which of two equivalent kernels is faster on the operands of a call, and whether both make the
 * same bits.
 *
 * Kernels run on copies of the tensors, so that the call's own do not change.  A machine's speed
 * drifts by more than the differences that are looked for, so two kernels take turns: a few, to see
 * whether one may be faster, and then as many as it takes to know that it wins more often than by
 * chance and by enough to be worth a change. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tune.h"

enum {
    FIRST = 3,                  /* turns of each at a glance */
    SECOND = 15,                /* turns of each in a comparison */
    WINS = 13,                  /* of those the faster one must win; by chance one in 270 does */
    MOST_RUNS = 512,            /* runs in a turn */
};

static const double turn_seconds = 500e-6;      /* a turn lasts at least so long */
static const double worth = 0.97;    /* a winner takes less than this part of the usual time */
static const double gain = 0.5e-6;              /* and gains more seconds than this */

/* The arguments of the phases, on copies. */
struct TuneCopies {
    const TuneJob *job;
    char **memory, **data;      /* by buffer */
    void ***p;                  /* by phase: room for one more than its buffers */
    char *scratch;              /* for all phases */
    int runs;                   /* in a turn */
};

typedef struct TuneCopies Copies;

void
tune_copies_free(TuneCopies *c)
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
    free(c);
}

static void
fill_buffers(const Copies *c)
{
    for (int k = 0; k < c->job->nbuffers; k++) {
        const TuneBuffer *from = &c->job->buffers[k];
        if (from->bytes) {
            memcpy(c->data[k], from->data, from->bytes);
        }
    }
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
        memory_want_huge(c->memory[k], room);
    }
    fill_buffers(c);
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
    *c = (Copies){.job = job, .runs = 1};
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
        const CodeVariant *variant = code_variant(kernel->code, kernel->first + k);
        if (variant) {
            phase.extent = variant->extent;
            phase.grain = variant->grain;
        }
        if (parallel_for(&phase) != 0) {
            return false;
        }
    }
    return true;
}

/* One thread computes all the time, so its own time counts: whatever else the processor does then
 * takes none of it. */
static double
now(const Copies *c)
{
    struct timespec t;
    if (c->job->threads > 1 || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) {
        return clock_seconds();
    }
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Runs the kernel as often as a turn has runs, and returns the seconds of one run. */
static double
turn(const Copies *c, const Kernel *kernel)
{
    double begin = now(c);
    for (int k = 0; k < c->runs; k++) {
        run(c, kernel);
    }
    return (now(c) - begin) / c->runs;
}

TuneCopies *
tune_copies_new(const TuneJob *job, const Kernel *usual)
{
    Copies *c = calloc(1, sizeof *c);
    if (!c || !copies_make(c, job) || !run(c, usual)) {
        if (c) {
            tune_copies_free(c);
        }
        return NULL;
    }
    double want = turn_seconds / (turn(c, usual) + 1e-9);
    c->runs = want < 1 ? 1 : want > MOST_RUNS ? MOST_RUNS : (int)want;
    return c;
}

double
tune_glance(const TuneCopies *c, const Kernel *a, const Kernel *b)
{
    double of_a = 0, of_b = 0;
    if (!run(c, b)) {
        return 0;
    }
    for (int k = 0; k < FIRST; k++) {
        double first = turn(c, a), second = turn(c, b);
        of_a = k == 0 || first < of_a ? first : of_a;
        of_b = k == 0 || second < of_b ? second : of_b;
    }
    return of_a / (of_b + 1e-12);
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

bool
tune_is_faster(const TuneCopies *c, const Kernel *a, const Kernel *b, double deadline,
               double seconds[2])
{
    double of_a[SECOND], of_b[SECOND];
    int wins = 0;
    for (int n = 0; n < SECOND; n++) {
        if (clock_seconds() > deadline) {
            return false;
        }
        if (n % 2) {
            of_b[n] = turn(c, b);
        }
        of_a[n] = turn(c, a);
        if (n % 2 == 0) {
            of_b[n] = turn(c, b);
        }
        wins += of_b[n] < of_a[n];
    }
    seconds[0] = median(of_a, SECOND);
    seconds[1] = median(of_b, SECOND);
    return wins >= WINS && seconds[1] < worth * seconds[0] && seconds[0] - seconds[1] > gain;
}

/* Compares the tensors with those that are there, or (keep) takes them there. */
static bool
match(const Copies *c, char *there, bool keep)
{
    bool same = true;
    for (int k = 0; k < c->job->nbuffers; k++) {
        size_t bytes = c->job->buffers[k].bytes;
        if (keep && bytes) {
            memcpy(there, c->data[k], bytes);
        } else if (bytes) {
            same &= memcmp(there, c->data[k], bytes) == 0;
        }
        there += bytes;
    }
    return same;
}

bool
tune_is_same(const TuneCopies *c, const Kernel *a, const Kernel *b)
{
    size_t bytes = 1;
    for (int k = 0; k < c->job->nbuffers; k++) {
        bytes += c->job->buffers[k].bytes;
    }
    char *there = malloc(bytes);
    bool same = there != NULL;
    for (int k = 0; k < 2 && same; k++) {
        fill_buffers(c);
        same = run(c, k ? b : a) && match(c, there, k == 0);
    }
    free(there);
    return same;
}
