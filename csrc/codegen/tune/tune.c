/* Tuning: schedules of a plan's kernels, looked for in its first call.
 *
 * What:     each kernel runs the fastest schedule that was found for it.  The bits are the same.
 * How:      The plan keeps its kernels as a program.  The first call asks the cache for what
 *           earlier processes have found.  When the call comes to another kernel, its operands and
 *           sizes are at hand.  Then the search begins with the loops of the usual schedule.  It
 *           makes a change of them (search.c), the one that the model expects most of (model.c),
 *           compiles the schedule as text, and measures both in turn on copies of the operands
 *           (tune_time.c).  A faster one is where it goes on from.  In the end the code of the best
 *           one replaces that of the usual one, as gcc's code replaces libtcc's.  So other plans
 *           that share the kernel get it too.
 *           What was found is a note in the cache: the schedule's text, behind a comment that says
 *           what it gains.  The note's name is made of the kernel, the processor, the compiler, the
 *           number of threads and the classes of the sizes.  A text that is no schedule of the
 *           kernel is ignored.
 * Why not:  measure when the kernel is compiled: there are no operands yet, and sizes may be
 *           symbols.  Several changes at once: most change nothing, and a search that goes on from
 *           the best one combines those that do. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/jit/cc_job.h"
#include "codegen/plan/plan_build.h"
#include "codegen/rewrites.h"
#include "search.h"
#include "tune.h"

static const double at_a_glance = 1.02; /* times as fast, to be worth a comparison */

/* How much longer a compile may take than the shortest one, and seconds more.  Before there was
 * one: seconds at least, and the part of the kernel's time.  What the C compiler unrolls too far is
 * not waited for. */
static const double longer = 4, seconds_more = 0.5, seconds_first = 2, part_first = 0.5;

struct Tuner {
    atomic_bool begun;
    char *program;
    int *places, nuses; /* for each use in the plan: its kernel's place in the program */
    char *compiler, *cache; /* as in CcOptions */
    double budget;
    bool dumps, verifies;
};

/* A kernel of the program. */
typedef struct {
    Kernel *usual; /* the plan's */
    Key note; /* its name */
    const char *schedule; /* of the code that is to run; NULL: the usual one */
    Kernel *kernel; /* that code */
    const char *found; /* what it gains, in words */
    bool ours; /* no other call has tuned it or is tuning it */
    bool wanted; /* this call is to look for its schedule */
    bool settled; /* its schedule is known */
} Tuned;

typedef struct {
    int change, phase;
    double expects;
} Try;

/* The search for the schedule of a kernel. */
typedef struct {
    Tuned *tuned;
    int place;
    const TuneJob *job;
    TuneCopies *copies;
    CallSizes sizes;
    double bytes, deadline;
    double shortest; /* seconds of the shortest compile; 0: there was none */
    double usual,
        part; /* seconds of the usual schedule; the part of them that the best one takes */
    const Fn *loops; /* of the best one, for the target cc */
    const Kernel *kernel; /* its code */
    Try *tries;
    int ntries, at;
    const char **seen;
    int nseen, tried, found_at; /* candidates that were measured; the number of the best one */
} Search;

struct Tuning {
    Cx *cx;
    const Plan *plan;
    const Instance *inst;
    const PlanHost *host;
    Tuner *tuner;
    CcTarget *target;
    Fn *program;
    Kernels *ks;
    Tuned *kernels;
    int nkernels, left; /* left: kernels that still want a schedule */
    Model *model;
    Search search;
    double begun, deadline;
    bool searches;
    bool failed; /* the host noted an error */
    const char *line; /* for the host, or NULL */
};

/* ---- in the plan ---- */

void
tuner_build(Builder *b, const CompileOptions *options)
{
    if (!options->tune || options->schedule || b->kernels->nuses == 0 ||
        options->passes.fuel >= 0) {
        return;
    }
    if (options->mode == MODE_TCC) {
        log_line("tune: there is nothing to choose in libtcc's tier");
        return;
    }
    Tuner *tuner = plan_keep(b, sizeof *tuner);
    tuner->nuses = b->kernels->nuses;
    tuner->places = plan_keep(b, (size_t)b->kernels->nuses * sizeof *tuner->places);
    tuner->program = plan_text_keep(b, kernels_program(b->kernels, tuner->places));
    tuner->compiler = plan_text_keep(b, options->cc.compiler);
    tuner->cache = plan_text_keep(b, options->cc.cache);
    tuner->budget = options->tune_budget;
    tuner->verifies = options->passes.verify;
    tuner->dumps = compile_dumps(options, "loops");
    b->plan->tuner = tuner;
}

/* ---- notes ---- */

/* The class of a size.  CallSizes of one class differ by a factor below 1.5. */
static int
size_class(int64_t n)
{
    int log = 0;
    for (; n >= 2; n /= 2) {
        log += 2;
        if (n == 3) {
            return log + 1;
        }
    }
    return log;
}

static int64_t
size_value(const Tuning *t, const char *name)
{
    for (int k = 0; k < t->plan->nsizes; k++) {
        if (strcmp(t->plan->size_names[k], name) == 0) {
            return t->inst->sizes[k];
        }
    }
    return 0;
}

static void
name_note(Tuning *t, const KernelUse *use, Tuned *tuned)
{
    Sha256 s;
    Key disk;
    int threads = parallel_threads();
    cc_target_key(t->target, use->key.key.hex, sizeof use->key.key.hex, &disk);
    sha256_begin(&s);
    sha256_add(&s, "tuned", sizeof "tuned");
    sha256_add(&s, disk.hex, sizeof disk.hex);
    sha256_add(&s, &threads, sizeof threads);
    for (int k = 0; k < use->key.nsizes; k++) {
        int class = size_class(size_value(t, dim_name(t->cx, use->key.sizes[k])));
        sha256_add(&s, &class, sizeof class);
    }
    key_end(&s, &tuned->note);
}

static bool
open_cache(const Tuning *t, Cache *cache)
{
    return *cc_target_cache(t->target) && cache_open(cache, cc_target_cache(t->target));
}

static void
write_note(const Tuning *t, const Key *name, const char *text)
{
    Cache cache;
    if (open_cache(t, &cache)) {
        cache_write_note(&cache, name->hex, text);
        cache_close(&cache);
    }
}

/* The note, or NULL. */
static const char *
read_note(Tuning *t, Cache *cache, const Key *name)
{
    char *text = cache_read_note(cache, name->hex);
    const char *copy = text ? cx_format(t->cx, "%s", text) : NULL;
    free(text);
    return copy;
}

/* What the model has learnt, with the compiler on this processor. */
static Key
model_note(const Tuning *t)
{
    static const char content[] = "what changes of schedules gain";
    Key name;
    cc_target_key(t->target, content, sizeof content, &name);
    return name;
}

/* ---- the candidates ---- */

typedef struct {
    Tuning *t;
    KernelUse *use;
    double until; /* the interpreter lock is not held, and it ends then; 0: it is held */
} Compiled;

/* The kernel in a unit of its own, as one with a written schedule is. */
static KernelUse *
use_alone(Tuning *t, int place, const char *schedule)
{
    KernelUse *use = cx_copy(t->cx, &t->ks->uses[place], sizeof *use);
    if (schedule) {
        kernel_schedule(use, schedule);
    }
    return use;
}

static bool
is_late(void *arg)
{
    const Compiled *c = arg;
    return clock_seconds() > c->until;
}

static void
compile_body(Cx *cx, void *arg)
{
    const Compiled *c = arg;
    Kernels *ks = cx_copy(cx, c->t->ks, sizeof *ks);
    CompileOptions options = {.mode = MODE_CC, .passes = PASS_OPTIONS_NONE};
    options.passes.verify = c->t->tuner->verifies;
    options.cc = (CcOptions){.compiler = c->t->tuner->compiler, .cache = c->t->tuner->cache};
    if (c->until > 0) {
        options.cc.interrupted = is_late;
        options.cc.lock_arg = arg;
    } else {
        options.cc.leave = c->t->host->leave;
        options.cc.enter = c->t->host->enter;
        options.cc.lock_arg = c->t->host->arg;
    }
    ks->uses = c->use;
    ks->nuses = 1;
    kernels_compile(ks, &options);
}

/* Did the C compiler make the kernel, and can the plan call it in place of the usual one? */
static bool
is_fit(const Kernel *usual, const Kernel *other)
{
    bool fit = other && other->nphases == usual->nphases && strcmp(other->shape, usual->shape) == 0;
    for (int k = 0; fit && k < other->nphases; k++) {
        fit = code_tier(other->code, other->first + k) == TIER_CC;
    }
    return fit;
}

/* Compiles the kernel with the schedule, or takes it from the cache.  NULL: that cannot be, or the
 * plan cannot call it. */
static Kernel *
compile(Tuning *t, int place, const char *schedule, double until)
{
    Compiled c = {t, use_alone(t, place, schedule), until};
    bool compiled = cx_try(t->cx, compile_body, &c);
    if (!compiled) {
        log_line("tune: %s", cx_diag(t->cx)->message);
    }
    Kernel *kernel = c.use->kernel;
    if (!compiled || !is_fit(t->kernels[place].usual, kernel)) {
        kernel_unref(kernel);
        return NULL;
    }
    return kernel;
}

static const Fn *
loops_of(Tuning *t, int place, const char *schedule)
{
    CompileOptions options = {.passes = PASS_OPTIONS_NONE};
    Target target = target_for(COMPILER_CC);
    return kernel_loops(t->ks, use_alone(t, place, schedule), &options, 1u << target)
        ->loops.of[target];
}

/* ---- replacing the usual code ---- */

static void
drop_code(void *code, size_t size)
{
    (void)size;
    code_unref(code);
}

static void
put_in_place(Tuned *tuned)
{
    const Kernel *best = tuned->kernel;
    Kernel *usual = tuned->usual;
    if (!best || !code_own(usual->code, drop_code, code_ref(best->code), 0)) {
        return;
    }
    for (int k = 0; k < usual->nphases; k++) {
        code_set(usual->code, usual->first + k, code_entry(best->code, best->first + k),
                 TIER_TUNED);
    }
    count_add(COUNT_TUNED_SWAPS, 1);
}

/* ---- the beginning ---- */

static void
find_kernels(Tuning *t)
{
    t->ks = kernels_of(t->program);
    t->kernels = cx_alloc(t->cx, (size_t)t->ks->nuses * sizeof *t->kernels);
    t->nkernels = t->ks->nuses;
    for (int k = t->tuner->nuses - 1; k >= 0; k--) {
        t->kernels[t->tuner->places[k]].usual = t->plan->kernels[k];
    }
    for (int k = 0; k < t->nkernels; k++) {
        Tuned *tuned = &t->kernels[k];
        name_note(t, &t->ks->uses[k], tuned);
        tuned->ours = tuned->usual->nphases > 0 && !atomic_flag_test_and_set(&tuned->usual->tuned);
        tuned->wanted = tuned->ours;
    }
}

/* The operations that the kernel of the program computes first in this plan. */
static const char *
node_of(const Tuning *t, int place)
{
    const Plan *plan = t->plan;
    int k = 0;
    while (k < plan->nlaunches && t->tuner->places[plan->launches[k].use] != place) {
        k++;
    }
    return k < plan->nlaunches && plan->launches[k].node ? plan->launches[k].node : "a kernel";
}

/* The first line is for the log and the bar; a report has the schedule, too. */
static void
say(Tuning *t, int place)
{
    const Tuned *tuned = &t->kernels[place];
    log_line("tune: %.100s: %s", node_of(t, place), tuned->found);
    t->line = cx_format(t->cx, "%.100s: %s\n%s", node_of(t, place), tuned->found,
                        tuned->schedule ? tuned->schedule : "");
}

/* A note is a comment, and on the lines behind it the schedule; none: the usual one is the best.
 * Code that another call has put in place stays, and is told about. */
static void
recall_kernel(Tuning *t, int place, const char *note)
{
    Tuned *tuned = &t->kernels[place];
    const char *end = strncmp(note, "# ", 2) == 0 ? strchr(note, '\n') : NULL;
    if (!end) {
        return;
    }
    if (tuned->ours && end[1] && !(tuned->kernel = compile(t, place, end + 1, 0))) {
        return;
    }
    tuned->schedule = end[1] ? end + 1 : NULL;
    tuned->found = cx_format(t->cx, "%.*s", (int)(end - note - 2), note + 2);
    if (tuned->ours) {
        tuned->wanted = false;
        tuned->settled = true;
        count_add(COUNT_TUNED_RECALLED, 1);
        put_in_place(tuned);
    }
    say(t, place);
    tuning_tell(t);
}

static void
recall(Tuning *t)
{
    Cache cache;
    Key name = model_note(t);
    const char *learnt = NULL, **notes = cx_alloc(t->cx, (size_t)t->nkernels * sizeof *notes);
    if (open_cache(t, &cache)) {
        learnt = read_note(t, &cache, &name);
        for (int k = 0; k < t->nkernels; k++) {
            notes[k] = read_note(t, &cache, &t->kernels[k].note);
        }
        cache_close(&cache);
    }
    t->model = model_new(t->cx, learnt);
    for (int k = 0; k < t->nkernels && !t->failed; k++) {
        if (notes[k]) {
            recall_kernel(t, k, notes[k]);
        }
        t->left += t->kernels[k].wanted;
    }
}

/* In hundredths of the budget, which a search mostly uses up. */
enum { WHOLE = 100 };

int
tuning_tell(Tuning *t)
{
    double part = (clock_seconds() - t->begun) / (t->tuner->budget + 1e-9);
    int done = t->searches && t->left ? (int)fmin(WHOLE * part, WHOLE - 1) : WHOLE;
    if (t->host->tuning && t->host->tuning(t->host->arg, done, WHOLE, t->line) < 0) {
        t->failed = true;
    }
    t->line = NULL;
    return t->failed ? -1 : 0;
}

static void
release(void *arg)
{
    Tuning *t = arg;
    if (t->search.copies) {
        tune_copies_free(t->search.copies);
    }
    for (int k = 0; k < t->nkernels; k++) {
        const Tuned *tuned = &t->kernels[k];
        kernel_unref(tuned->kernel);
        if (tuned->ours && !tuned->settled) {
            atomic_flag_clear(&tuned->usual->tuned); /* for another plan */
        }
    }
    cc_target_unref(t->target);
}

static void
prepare(Cx *cx, void *arg)
{
    Tuning *t = arg;
    t->program = parse_fn(cx, t->tuner->program, "program");
    CcOptions cc = {.compiler = t->tuner->compiler, .cache = t->tuner->cache};
    if (!(t->target = cc_target_new(&cc))) {
        fail(cx, DIAG_MEMORY, sizeof(void *));
    }
    find_kernels(t);
    recall(t);
    if (t->tuner->budget <= 0 || t->left == 0 || t->failed) {
        return;
    }
    if (!cc_target_compiles(t->target)) {
        log_line("tune: nothing is measured: %s", t->target->why);
        return;
    }
    t->searches = true;
    tuning_tell(t);
}

static void
make(Cx *cx, void *arg)
{
    Tuning *t = *(Tuning **)arg = cx_alloc(cx, sizeof *t);
    cx_cleanup(cx, release, t);
}

int
tuning_begin(const Plan *plan, const Instance *inst, const PlanHost *host, Tuning **out)
{
    Cx *cx = atomic_exchange(&plan->tuner->begun, true) ? NULL : cx_new();
    *out = NULL;
    if (!cx) {
        return 0;
    }
    Tuning *t;
    if (!cx_try(cx, make, &t)) {
        cx_free(cx);
        return 0;
    }
    *t = (Tuning){.cx = cx, .plan = plan, .inst = inst, .host = host, .tuner = plan->tuner};
    t->begun = clock_seconds();
    t->deadline = t->begun + t->tuner->budget;
    if (!cx_try(cx, prepare, t)) {
        log_line("tune: %s", cx_diag(cx)->message);
        t->searches = false;
    }
    *out = t;
    return t->failed ? -1 : 0;
}

/* ---- the search ---- */

bool
tuning_wants(const Tuning *t, int use)
{
    return t->searches && !t->failed && t->kernels[t->tuner->places[use]].wanted;
}

/* Those of equal promise in the order of the table, and first in all phases. */
static int
by_promise(const void *a, const void *b)
{
    const Try *x = a, *y = b;
    return x->expects != y->expects ? (x->expects < y->expects) - (x->expects > y->expects)
           : x->phase != y->phase   ? (x->phase > y->phase) - (x->phase < y->phase)
                                    : (x->change > y->change) - (x->change < y->change);
}

/* Orders what can be tried from the best schedule on. */
static void
order_tries(Tuning *t)
{
    Search *s = &t->search;
    for (int k = 0; k < s->ntries; k++) {
        s->tries[k].expects = model_expects(t->model, s->tries[k].change, s->bytes);
    }
    qsort(s->tries, (size_t)s->ntries, sizeof *s->tries, by_promise);
    s->at = 0;
}

static void
list_tries(Tuning *t)
{
    Search *s = &t->search;
    int phases = change_phases(s->loops, &s->sizes), scopes = phases > 1 ? phases + 1 : 1;
    s->tries = cx_alloc(t->cx, (size_t)(scopes * change_count()) * sizeof *s->tries);
    for (int k = 0; k < change_count(); k++) {
        for (int phase = SCOPE_ALL; phase < scopes - 1; phase++) {
            s->tries[s->ntries++] = (Try){k, phase, 0};
        }
    }
    order_tries(t);
}

static void
begin_search(Cx *cx, void *arg)
{
    Tuning *t = arg;
    Search *s = &t->search;
    const KernelUse *use = &t->ks->uses[s->place];
    FixedSize *sizes = cx_alloc(cx, ((size_t)use->key.nsizes + 1) * sizeof *sizes);
    for (int k = 0; k < use->key.nsizes; k++) {
        sizes[k].name = dim_name(cx, use->key.sizes[k]);
        sizes[k].value = size_value(t, sizes[k].name);
    }
    for (int k = 0; k < s->job->nbuffers; k++) {
        s->bytes += (double)s->job->buffers[k].bytes;
    }
    s->sizes = (CallSizes){use->key.nsizes, sizes};
    s->loops = loops_of(t, s->place, NULL);
    s->kernel = s->tuned->usual;
    s->copies = tune_copies_new(s->job, s->tuned->usual);
    list_tries(t);
}

void
tuning_search(Tuning *t, const TuneJob *job)
{
    int place = t->tuner->places[job->plan->launches[job->first].use];
    double now = clock_seconds();
    t->search = (Search){.tuned = &t->kernels[place], .place = place, .job = job, .part = 1};
    t->search.deadline = now + (t->deadline - now) / t->left--;
    t->search.tuned->wanted = false;
    if (!cx_try(t->cx, begin_search, t)) {
        log_line("tune: %s", cx_diag(t->cx)->message);
        t->search.loops = NULL;
    }
}

typedef struct {
    Tuning *t;
    const Fn *loops;
    const char *schedule;
    int change;
} Candidate;

static bool
is_seen(const Search *s, const char *schedule)
{
    int k = 0;
    while (k < s->nseen && strcmp(s->seen[k], schedule) != 0) {
        k++;
    }
    return k < s->nseen;
}

/* The next one that no change has made before; without loops: there is none. */
static void
next_candidate(Cx *cx, Candidate *c)
{
    Search *s = &c->t->search;
    while (s->at < s->ntries && !c->loops) {
        const Try *try = &s->tries[s->at++];
        const Fn *loops = change_make(s->loops, &s->sizes, try->change, try->phase);
        Text text = {.cx = cx};
        if (loops) {
            written_print(loops, target_for(COMPILER_CC), &text);
        }
        /* behind the line of the target: without marks dlc would decide */
        if (loops && strchr(text.text, '\n')[1] && !is_seen(s, text.text)) {
            s->seen = cx_grow(cx, s->seen, s->nseen, sizeof *s->seen);
            s->seen[s->nseen++] = text.text;
            *c = (Candidate){c->t, loops, text.text, try->change};
        }
    }
}

/* The search goes on from the candidate, whose kernel it keeps. */
static void
accept(Tuning *t, const Candidate *c, Kernel *kernel, const double seconds[2])
{
    Search *s = &t->search;
    kernel_unref(s->tuned->kernel);
    s->tuned->kernel = kernel;
    s->tuned->schedule = c->schedule;
    s->usual = s->found_at ? s->usual : seconds[0];
    s->part *= seconds[1] / seconds[0];
    s->found_at = s->tried;
    s->kernel = kernel;
    s->loops = c->loops;
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
    s->tried++;
    log_line("tune:   %s: %.3f times as fast%s", change_name(t->cx, c->change), faster,
             better ? ", taken" : "");
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
    Kernel *kernel = compile(t, s->place, c->schedule, now + most);
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
    if (!s->loops || !s->copies || now >= t->deadline || (s->tried && now >= s->deadline)) {
        return false;
    }
    if (!cx_try(t->cx, step_body, &c)) {
        log_line("tune: %s", cx_diag(t->cx)->message);
        return false;
    }
    return c.loops != NULL;
}

static void
note_found(Cx *cx, void *arg)
{
    Tuning *t = arg;
    const Search *s = &t->search;
    Tuned *tuned = s->tuned;
    tuned->found = tuned->schedule
                       ? cx_format(cx, "%.1f us -> %.1f us, candidate %d of %d", 1e6 * s->usual,
                                   1e6 * s->usual * s->part, s->found_at, s->tried)
                       : cx_format(cx, "the usual schedule, the best of %d", s->tried + 1);
    say(t, s->place);
    write_note(t, &tuned->note,
               cx_format(cx, "# %s\n%s", tuned->found, tuned->schedule ? tuned->schedule : ""));
}

void
tuning_settle(Tuning *t)
{
    Search *s = &t->search;
    if (s->copies) {
        tune_copies_free(s->copies);
        s->copies = NULL;
    }
    if (!s->loops || (s->tried == 0 && s->at < s->ntries)) {
        return; /* there was no memory, or no time */
    }
    s->tuned->settled = true;
    count_add(COUNT_TUNED, 1);
    put_in_place(s->tuned);
    if (!cx_try(t->cx, note_found, t)) {
        log_line("tune: %s", cx_diag(t->cx)->message);
    }
}

/* ---- the end ---- */

static void
dump(Cx *cx, void *arg)
{
    Tuning *t = arg;
    CompileOptions options = {.passes = PASS_OPTIONS_NONE};
    Target target = target_for(COMPILER_CC);
    Lowered *loops = cx_alloc(cx, (size_t)t->nkernels * sizeof *loops);
    Text text = {.cx = cx};
    for (int k = 0; k < t->nkernels; k++) {
        KernelUse *use = use_alone(t, k, t->kernels[k].schedule);
        loops[k] = *kernel_loops(t->ks, use, &options, 1u << target);
    }
    print_fn(kernels_with_loops(t->program, loops, target), &text);
    fprintf(stderr, "/* loops, tuned */\n%s\n", text.text);
}

static void
note_model(Cx *cx, void *arg)
{
    const Tuning *t = arg;
    Key name = model_note(t);
    write_note(t, &name, model_text(cx, t->model));
}

void
tuning_end(Tuning *t)
{
    if (t->tuner->dumps && t->program) {
        cx_try(t->cx, dump, t);
    }
    if (t->searches && t->model) {
        cx_try(t->cx, note_model, t);
    }
    count_add(COUNT_TUNE_SECONDS, (int64_t)(1e9 * (clock_seconds() - t->begun)));
    cx_free(t->cx);
}
