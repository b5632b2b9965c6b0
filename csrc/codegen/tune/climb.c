/* The search for the schedule of a kernel, in steps of one candidate each.
 *
 * What:     the fastest schedule that is found in the time that there is.
 * How:      a candidate is a change of the fastest schedule so far: of its marks (search.c), or
 *           while it has the usual loops, of these (nests.c).  It is compiled as
 *           text and takes turns with that one on copies of the operands (tune_time.c).  A faster
 *           one is where the search goes on from.  The change that comes first is the one that the
 *           model expects most of (model.c): from what changes have gained on this machine, and
 *           from the time that is predicted for the candidate's loops (predict.c).
 *           A schedule that makes the same C as another one is no candidate.
 * Ensures:  equal measurements lead to equal schedules.  The search ends when nothing is left that
 *           the model expects anything of.  One that time ends is noted so, with the candidates
 *           that were measured, and the next process goes on.
 * Why not   several changes at once: most change nothing, and a search that goes on from the
 *           fastest one combines those that do. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/rewrites.h"
#include "tuning.h"

static const double at_a_glance = 1.02; /* times as fast, to be worth a comparison */

/* A change of which the model expects less is not worth a compile.  In a few kernels each change
 * gains what it does not gain in most others. */
static const double enough = 0.0001;

/* How much longer a compile may take than the shortest one, and seconds more.  Before there was
 * one: seconds at least, and the part of the kernel's time.  What the C compiler unrolls too far is
 * not waited for. */
static const double longer = 4, seconds_more = 0.5, seconds_first = 2, part_first = 0.5;

/* What the model counts with, at most, of a prediction. */
static const double far = 1;

bool
tuning_wants(const Tuning *t, int use)
{
    return t->searches && !t->failed && t->kernels[t->tuner->places[use]].wanted;
}

/* ---- which change comes first ---- */

/* Those of equal promise in the order of the table, and first in all phases. */
static int
by_promise(const void *a, const void *b)
{
    const Try *x = a, *y = b;
    return x->expects != y->expects ? (x->expects < y->expects) - (x->expects > y->expects)
           : x->at != y->at         ? (x->at > y->at) - (x->at < y->at)
                                    : (x->change > y->change) - (x->change < y->change);
}

static double
predicted_seconds(const Fn *loops, const Search *s, const Speeds *speeds)
{
    Predicted *steps;
    int n = predict_program(loops, s->sizes.n, s->sizes.of, speeds, &steps);
    double seconds = 0;
    for (int k = 0; k < n; k++) {
        seconds += steps[k].seconds;
    }
    return seconds;
}

/* The logarithm of how many times as fast the loops are predicted to be as others. */
static double
predicted_gain(double now, double then)
{
    return now > 0 && then > 0 ? fmin(fmax(log(now / then), -far), far) : 0;
}

typedef struct {
    const Tuning *t;
    const char *loops;
    double *gains; /* by change of marks */
} Predicting;

/* In a context of its own: the loops of all changes need much memory. */
static void
predict_changes(Cx *cx, void *arg)
{
    const Predicting *p = arg;
    const Search *s = &p->t->search;
    Fn *loops = parse_fn(cx, p->loops, "schedule");
    loops->target = s->loops->target;
    double now = predicted_seconds(loops, s, &p->t->speeds);
    for (int k = 0; k < change_count(); k++) {
        const Fn *changed = change_make(loops, &s->sizes, k, SCOPE_ALL);
        double then = changed ? predicted_seconds(changed, s, &p->t->speeds) : 0;
        p->gains[k] = predicted_gain(now, then);
    }
}

/* Orders what can be tried from the fastest schedule on.  What is predicted for other loops is
 * found when they come, since they have to be made for it. */
static void
order_tries(Tuning *t)
{
    Search *s = &t->search;
    Text text = {.cx = t->cx};
    Cx *cx = cx_new();
    double *gains = cx_alloc(t->cx, (size_t)change_count() * sizeof *gains);
    print_fn(s->loops, &text);
    if (cx && !cx_try(cx, predict_changes, &(Predicting){t, text.text, gains})) {
        log_line("tune: nothing is predicted: %s", cx_diag(cx)->message);
    }
    if (cx) {
        cx_free(cx);
    }
    for (int k = 0; k < s->ntries; k++) {
        Try *try = &s->tries[k];
        try->predicted = try->change < change_count() ? gains[try->change] : 0;
        try->expects = model_expects(t->model, try->change, s->bytes, try->predicted);
    }
    qsort(s->tries, (size_t)s->ntries, sizeof *s->tries, by_promise);
    s->at = 0;
}

typedef struct {
    Tuning *t;
    const Fn *loops, *shared; /* for the target cc; those that all targets share */
    const char *schedule, *nest, *code;
    int change;
    double predicted;
} Candidate;

/* What the C compiler gets: schedules with marks that change none of it are the same candidate. */
static void
emit_code(Cx *cx, void *arg)
{
    Candidate *c = arg;
    Target target = target_for(COMPILER_CC);
    Loops loops = {.shared = c->shared};
    Unit unit;
    loops.of[target] = c->loops;
    emit_unit(&loops, &unit);
    c->code = cx_format(cx, "%u %s", tuning_flags(c->loops), unit.text[target]);
}

/* ---- the beginning ---- */

static void
list_tries(Tuning *t, const Fn *shared)
{
    Search *s = &t->search;
    int phases = change_phases(s->loops, &s->sizes), scopes = phases > 1 ? phases + 1 : 1;
    int loops = nest_loops(shared), all = scopes * change_count() + loops * nest_count();
    s->tries = cx_alloc(t->cx, (size_t)all * sizeof *s->tries);
    for (int k = 0; k < change_count(); k++) {
        for (int phase = SCOPE_ALL; phase < scopes - 1; phase++) {
            s->tries[s->ntries++] = (Try){.change = k, .at = phase};
        }
    }
    for (int k = 0; k < nest_count(); k++) {
        for (int loop = 0; loop < loops; loop++) {
            s->tries[s->ntries++] = (Try){.change = change_count() + k, .at = loop};
        }
    }
    order_tries(t);
}

/* The lines of a schedule that are of the loops that all targets share. */
static const char *
lines_of_nest(Cx *cx, const char *schedule)
{
    const char *target = schedule ? strstr(schedule, "target ") : NULL;
    return !schedule ? ""
           : target  ? cx_format(cx, "%.*s", (int)(target - schedule), schedule)
                     : schedule;
}

static void
begin_search(Cx *cx, void *arg)
{
    Tuning *t = arg;
    Search *s = &t->search;
    const Tuned *tuned = s->tuned;
    const KernelUse *use = &t->ks->uses[s->place];
    FixedSize *sizes = cx_alloc(cx, ((size_t)use->key.nsizes + 1) * sizeof *sizes);
    for (int k = 0; k < use->key.nsizes; k++) {
        sizes[k].name = dim_name(cx, use->key.sizes[k]);
        sizes[k].value = tuning_size(t, sizes[k].name);
    }
    for (int k = 0; k < s->job->nbuffers; k++) {
        s->bytes += (double)s->job->buffers[k].bytes;
    }
    s->sizes = (CallSizes){use->key.nsizes, sizes};
    const Loops *loops = &tuning_loops(t, s->place, tuned->found.schedule)->loops;
    s->loops = loops->of[target_for(COMPILER_CC)];
    s->nest = lines_of_nest(cx, tuned->found.schedule);
    s->kernel = tuned->kernel ? tuned->kernel : tuned->usual;
    s->copies = tune_copies_new(s->job, tuned->usual);
    double now = clock_seconds();
    notes_speeds(t);
    double took = clock_seconds() - now; /* once on a machine, and beside the budget */
    s->deadline += took;
    t->deadline += took;
    s->shared = loops->shared;
    Candidate now_best = {.t = t, .loops = s->loops, .shared = s->shared};
    if (cx_try(cx, emit_code, &now_best) && !found_saw(&s->tuned->found, now_best.code)) {
        found_see(cx, &s->tuned->found, now_best.code);
    }
    list_tries(t, loops->shared);
}

void
tuning_search(Tuning *t, const TuneJob *job)
{
    int place = t->tuner->places[job->plan->launches[job->first].use];
    Tuned *tuned = &t->kernels[place];
    double now = clock_seconds();
    t->search = (Search){.tuned = tuned, .place = place, .job = job};
    t->search.before = tuned->found.tried;
    t->search.deadline = now + (t->deadline - now) / t->left--;
    tuned->wanted = false;
    if (!cx_try(t->cx, begin_search, t)) {
        log_line("tune: %s", cx_diag(t->cx)->message);
        t->search.loops = NULL;
    }
}

/* ---- a step ---- */

/* The fastest schedule with another mark. */
static void
change_marks(Cx *cx, Candidate *c, const Try *try)
{
    const Search *s = &c->t->search;
    Text text = {.cx = cx};
    c->loops = change_make(s->loops, &s->sizes, try->change, try->at);
    if (!c->loops) {
        return;
    }
    written_print(c->loops, target_for(COMPILER_CC), &text);
    /* behind the line of the target: without marks dlc would decide */
    c->loops = strchr(text.text, '\n')[1] ? c->loops : NULL;
    c->shared = s->shared;
    c->nest = s->nest;
    c->schedule = cx_format(cx, "%s%s", s->nest, text.text);
}

/* Other loops, with the marks that dlc chooses for them. */
static void
change_nest(Cx *cx, void *arg)
{
    Candidate *c = arg;
    Tuning *t = c->t;
    const Search *s = &t->search;
    const Try *try = &s->tries[s->at - 1];
    int nest = try->change - change_count();
    const char *lines = *s->nest ? NULL : nest_make(s->shared, &s->sizes, nest, try->at);
    if (!lines) {
        return;
    }
    c->nest = c->schedule = lines;
    const Loops *loops = &tuning_loops(t, s->place, lines)->loops;
    c->shared = loops->shared;
    c->loops = loops->of[target_for(COMPILER_CC)];
    c->predicted = predicted_gain(predicted_seconds(s->loops, s, &t->speeds),
                                  predicted_seconds(c->loops, s, &t->speeds));
    if (model_expects(t->model, try->change, s->bytes, c->predicted) < enough) {
        c->loops = NULL;
    }
    (void)cx;
}

/* The next one whose code was not measured before; without loops: there is none. */
static void
next_candidate(Cx *cx, Candidate *c)
{
    Search *s = &c->t->search;
    Found *found = &s->tuned->found;
    while (s->at < s->ntries && s->tries[s->at].expects >= enough && !c->loops) {
        const Try *try = &s->tries[s->at++];
        *c = (Candidate){.t = c->t, .change = try->change, .predicted = try->predicted};
        if (try->change < change_count()) {
            change_marks(cx, c, try);
        } else if (!cx_try(cx, change_nest, c)) {
            c->loops = NULL; /* other loops that the rewrites of the target cannot take */
        }
        if (c->loops && (!cx_try(cx, emit_code, c) || found_saw(found, c->code))) {
            c->loops = NULL;
        }
    }
    found->ended = !c->loops;
    if (c->loops) {
        found_see(cx, found, c->code);
    }
}

/* The search goes on from the candidate, whose kernel it keeps. */
static void
accept(Tuning *t, const Candidate *c, Kernel *kernel, const double seconds[2])
{
    Search *s = &t->search;
    Found *found = &s->tuned->found;
    kernel_unref(s->tuned->kernel);
    s->tuned->kernel = kernel;
    found->schedule = c->schedule;
    found->usual = found->at ? found->usual : seconds[0];
    found->part *= seconds[1] / seconds[0];
    found->at = found->tried;
    s->kernel = kernel;
    s->loops = c->loops;
    s->shared = c->shared;
    s->nest = c->nest;
    order_tries(t);
}

static void
measure(Tuning *t, const Candidate *c, Kernel *kernel)
{
    Search *s = &t->search;
    double faster = tune_glance(s->copies, s->kernel, kernel), seconds[2] = {0, 0};
    bool better = faster > at_a_glance &&
                  tune_is_faster(s->copies, s->kernel, kernel, t->deadline, seconds);
    if (better && !tune_is_same(s->copies, s->tuned->usual, kernel)) {
        log_line("tune: not taken, its bits differ or could not be compared:\n%s", c->schedule);
        better = false;
    }
    s->tuned->found.tried++;
    log_line("tune:   %s: %.3f times as fast, predicted %.3f%s", change_name(t->cx, c->change),
             faster, exp(c->predicted), better ? ", taken" : "");
    if (faster > 0) {
        model_compares(t->model, c->predicted, log(faster));
    }
    model_learns(t->model, c->change, s->bytes, better ? log(seconds[0] / seconds[1]) : 0);
    if (better) {
        accept(t, c, kernel, seconds);
    } else {
        kernel_unref(kernel);
    }
}

/* A change that the C compiler takes too long for has gained nothing. */
static void
step_body(Cx *cx, void *arg)
{
    Candidate *c = arg;
    Tuning *t = c->t;
    Search *s = &t->search;
    next_candidate(cx, c);
    if (!c->loops) {
        return;
    }
    double now = clock_seconds();
    double most = s->shortest > 0 ? longer * s->shortest + seconds_more
                                  : fmax(part_first * (s->deadline - now), seconds_first);
    Kernel *kernel = tuning_compile(t, s->place, c->schedule, now + most);
    double took = clock_seconds() - now;
    if (kernel) {
        s->shortest = s->shortest > 0 ? fmin(s->shortest, took) : took;
        measure(t, c, kernel);
    } else {
        model_learns(t->model, c->change, s->bytes, 0);
    }
}

bool
tuning_step(Tuning *t)
{
    const Search *s = &t->search;
    Candidate c = {.t = t};
    double now = clock_seconds();
    bool measured = s->loops && s->tuned->found.tried > s->before;
    if (!s->loops || !s->copies || now >= t->deadline || (measured && now >= s->deadline)) {
        return false;
    }
    if (!cx_try(t->cx, step_body, &c)) {
        log_line("tune: %s", cx_diag(t->cx)->message);
        return false;
    }
    return c.loops != NULL;
}

/* ---- the end ---- */

static void
note_found(Cx *cx, void *arg)
{
    Tuning *t = arg;
    found_say(cx, &t->search.tuned->found);
    tuning_say(t, t->search.place);
    notes_write_found(t, t->search.tuned);
}

void
tuning_settle(Tuning *t)
{
    Search *s = &t->search;
    if (s->copies) {
        tune_copies_free(s->copies);
        s->copies = NULL;
    }
    const Found *found = &s->tuned->found;
    if (!s->loops || (found->tried == s->before && !found->ended)) {
        return; /* there was no memory, or no time */
    }
    s->tuned->settled = true;
    count_add(COUNT_TUNED, 1);
    tuning_put(s->tuned);
    if (!cx_try(t->cx, note_found, t)) {
        log_line("tune: %s", cx_diag(t->cx)->message);
    }
}
