/* Tuning: schedules of a plan's kernels, compared in its first call.
 *
 * What:     each kernel runs the fastest of its schedules: the usual one, and one for each row of
 *           tuning.def.  The bits are the same.
 * How:      The plan keeps its kernels as a program.  The first call asks the cache for what
 *           earlier processes have found.  For the other kernels it compiles one unit for each
 *           schedule, not one for each kernel.  When the call comes to a kernel, its operands and
 *           sizes are at hand, and its schedules take turns on copies (tune_time.c).  The code of
 *           the best one replaces that of the usual one, just as gcc's code replaces libtcc's, so
 *           other plans that share the kernel get it too.
 *           What was found is a note in the cache.  Its name is made of the kernel, the processor,
 *           the compiler, the number of threads and the classes of the sizes.  Its content is the
 *           key of the winner's code, so a note that matches no candidate is ignored.
 * Why not:  measure when the kernel is compiled: there are no operands yet, and sizes may be
 *           symbols.  Schedules of two or more words: no kernel measured so far needs them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/jit/cc_job.h"
#include "codegen/plan/plan_build.h"
#include "codegen/rewrites.h"
#include "tune.h"

struct Tuner {
    atomic_bool begun;
    char *program;
    int *places, nuses;         /* for each use in the plan: its kernel's place in the program */
    char *compiler, *cache;     /* as in CcOptions */
    double budget;
    bool dumps, verifies;
};

/* A kernel of the program. */
typedef struct {
    Kernel *usual;              /* the plan's */
    Kernel **kernels;    /* by schedule, [0] is the usual one; NULL: not compiled, or not fit */
    Lowered *loops;             /* by schedule: the loops that were compiled */
    Key *disk, note;            /* by schedule: the key of its code; the name of the note */
    bool ours;                  /* no other call has tuned it or is tuning it */
    bool wanted;                /* this call is to measure it */
    bool settled;               /* its best schedule is known */
    int best;                   /* the number of its best schedule */
} Tuned;

struct Tuning {
    Cx *cx;
    const Plan *plan;
    const Instance *inst;
    const PlanHost *host;
    Tuner *tuner;
    CcTarget *target;
    Fn *program;
    Tuned *kernels;
    int nkernels, nschedules;   /* nschedules counts the usual one too */
    double begun, deadline;
    bool whole;                 /* all schedules have been compiled */
    bool failed;                /* the host noted an error */
    int done, total;
    char line[256];
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

/* The class of a size.  Sizes of one class differ by a factor below 1.5. */
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
    int threads = parallel_threads();
    sha256_begin(&s);
    sha256_add(&s, "tuned", sizeof "tuned");
    sha256_add(&s, tuned->disk[0].hex, sizeof tuned->disk[0].hex);
    sha256_add(&s, &threads, sizeof threads);
    for (int k = 0; k < use->key.nsizes; k++) {
        int class = size_class(size_value(t, dim_name(t->cx, use->key.sizes[k])));
        sha256_add(&s, &class, sizeof class);
    }
    key_end(&s, &tuned->note);
}

static void
write_note(const Tuning *t, const Tuned *tuned)
{
    Cache cache;
    if (t->whole && *cc_target_cache(t->target) && cache_open(&cache, cc_target_cache(t->target))) {
        cache_write_note(&cache, tuned->note.hex, &tuned->disk[tuned->best]);
        cache_close(&cache);
    }
}

/* The schedule that the cache has noted for the kernel, or -1. */
static int
read_note(const Tuning *t, Cache *cache, const Tuned *tuned)
{
    Key key;
    int k = cache_read_note(cache, tuned->note.hex, &key) ? 0 : t->nschedules;
    while (k < t->nschedules && strcmp(tuned->disk[k].hex, key.hex) != 0) {
        k++;
    }
    return k < t->nschedules ? k : -1;
}

/* ---- the candidates ---- */

static void
make_kernel(Tuning *t, KernelUse *use, Tuned *tuned)
{
    size_t n = (size_t)t->nschedules;
    tuned->kernels = cx_alloc(t->cx, n * sizeof *tuned->kernels);
    tuned->disk = cx_alloc(t->cx, n * sizeof *tuned->disk);
    tuned->loops = cx_alloc(t->cx, n * sizeof *tuned->loops);
    for (int k = 0; k < t->nschedules; k++) {
        KernelUse other = *use;
        if (k > 0) {
            kernel_schedule(&other, schedule_word(k - 1));
        }
        cc_target_key(t->target, other.key.key.hex, sizeof other.key.key.hex, &tuned->disk[k]);
    }
    name_note(t, use, tuned);
}

static void
find_kernels(Tuning *t)
{
    Kernels *ks = kernels_of(t->program);
    t->nkernels = ks->nuses;
    t->kernels = cx_alloc(t->cx, (size_t)ks->nuses * sizeof *t->kernels);
    for (int k = t->tuner->nuses - 1; k >= 0; k--) {
        t->kernels[t->tuner->places[k]].usual = t->plan->kernels[k];
    }
    for (int k = 0; k < ks->nuses; k++) {
        Tuned *tuned = &t->kernels[k];
        make_kernel(t, &ks->uses[k], tuned);
        tuned->kernels[0] = tuned->usual;
        tuned->ours = tuned->usual->nphases > 0 && !atomic_flag_test_and_set(&tuned->usual->tuned);
        tuned->wanted = tuned->ours;
    }
}

/* Compiles the kernels, or takes them from the cache, in the schedule that schedule_of returns.
 * Those for which it returns 0 are left out. */
static void
make_schedules(Tuning *t, int (*schedule_of)(const Tuning *t, int kernel))
{
    Kernels *ks = kernels_of(t->program);
    int n = 0, *which = cx_alloc(t->cx, (size_t)ks->nuses * sizeof *which);
    for (int k = 0; k < t->nkernels; k++) {
        int schedule = schedule_of(t, k);
        if (schedule > 0) {
            ks->uses[n] = ks->uses[k];
            kernel_schedule(&ks->uses[n], schedule_word(schedule - 1));
            which[n++] = k;
        }
    }
    ks->nuses = n;
    CompileOptions options = {.mode = MODE_CC, .passes = PASS_OPTIONS_NONE};
    options.passes.verify = t->tuner->verifies;
    options.cc = (CcOptions){
        .compiler = t->tuner->compiler,
        .cache = t->tuner->cache,
        .leave = t->host->leave,
        .enter = t->host->enter,
        .lock_arg = t->host->arg,
    };
    kernels_compile(ks, &options);
    for (int k = 0; k < n; k++) {
        Tuned *tuned = &t->kernels[which[k]];
        tuned->kernels[schedule_of(t, which[k])] = ks->uses[k].kernel;
        if (t->tuner->dumps) {
            tuned->loops[schedule_of(t, which[k])] = *kernel_loops(ks, &ks->uses[k], &options, 0);
        }
        ks->uses[k].kernel = NULL;
    }
}

/* ---- replacing the usual code ---- */

static void
drop_code(void *code, size_t size)
{
    (void)size;
    code_unref(code);
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

static void
put_in_place(Tuned *tuned)
{
    const Kernel *best = tuned->kernels[tuned->best];
    Kernel *usual = tuned->usual;
    if (tuned->best == 0 || !is_fit(usual, best) ||
        !code_own(usual->code, drop_code, code_ref(best->code), 0)) {
        tuned->best = 0;
        return;
    }
    for (int k = 0; k < usual->nphases; k++) {
        code_set(usual->code, usual->first + k, code_entry(best->code, best->first + k),
                 TIER_TUNED);
    }
    count_add(COUNT_TUNED_SWAPS, 1);
}

/* ---- the beginning ---- */

static int
recalled(const Tuning *t, int kernel)
{
    return t->kernels[kernel].best;
}

static void
recall(Tuning *t)
{
    Cache cache;
    if (!*cc_target_cache(t->target) || !cache_open(&cache, cc_target_cache(t->target))) {
        return;
    }
    int n = 0;
    for (int k = 0; k < t->nkernels; k++) {
        Tuned *tuned = &t->kernels[k];
        int best = tuned->ours ? read_note(t, &cache, tuned) : -1;
        if (best >= 0) {
            tuned->best = best;
            tuned->wanted = false;
            tuned->settled = true;
            count_add(COUNT_TUNED_RECALLED, 1);
            n += best > 0;
        }
    }
    cache_close(&cache);
    if (n) {
        make_schedules(t, recalled);
    }
    for (int k = 0; k < t->nkernels; k++) {
        put_in_place(&t->kernels[k]);
    }
}

static int
count_wanted(const Tuning *t)
{
    int n = 0;
    for (int k = 0; k < t->nkernels; k++) {
        n += t->kernels[k].wanted;
    }
    return n;
}

int
tuning_tell(Tuning *t)
{
    if (t->host->tuning &&
        t->host->tuning(t->host->arg, t->done, t->total, *t->line ? t->line : NULL) < 0) {
        t->failed = true;
    }
    *t->line = '\0';
    return t->failed ? -1 : 0;
}

/* For make_schedules: the schedule to compile now, for each kernel that is to be measured. */
static int
compiled(const Tuning *t, int kernel)
{
    return t->kernels[kernel].wanted ? t->done + 1 : 0;
}

static void
compile_all(Tuning *t)
{
    double end = t->begun + 0.75 * t->tuner->budget, longest = 0;
    for (t->done = 0; t->done + 1 < t->nschedules && !t->failed; t->done++) {
        double begin = clock_seconds();
        if (begin + longest > end) {
            break;
        }
        make_schedules(t, compiled);
        double seconds = clock_seconds() - begin;
        longest = seconds > longest ? seconds : longest;
        tuning_tell(t);
    }
    t->whole = t->done + 1 == t->nschedules;
    t->done = t->nschedules - 1;
}

static void
release(void *arg)
{
    Tuning *t = arg;
    for (int k = 0; k < t->nkernels; k++) {
        const Tuned *tuned = &t->kernels[k];
        for (int j = 1; tuned->kernels && j < t->nschedules; j++) {
            kernel_unref(tuned->kernels[j]);
        }
        if (tuned->ours && !tuned->settled) {
            atomic_flag_clear(&tuned->usual->tuned);    /* for another plan */
        }
    }
    cc_target_unref(t->target);
}

static void
prepare(Cx *cx, void *arg)
{
    Tuning *t = arg;
    t->nschedules = schedule_count() + 1;
    t->program = parse_fn(cx, t->tuner->program, "program");
    CcOptions cc = {.compiler = t->tuner->compiler, .cache = t->tuner->cache};
    if (!(t->target = cc_target_new(&cc))) {
        fail(cx, DIAG_MEMORY, sizeof(void *));
    }
    find_kernels(t);
    recall(t);
    if (t->tuner->budget <= 0 || !count_wanted(t)) {
        return;
    }
    if (t->target->nwords == 0) {
        log_line("tune: nothing is measured: %s", t->target->why);
        return;
    }
    t->total = t->nschedules - 1 + count_wanted(t);
    if (tuning_tell(t) == 0) {
        compile_all(t);
    }
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
        t->total = 0;
    }
    *out = t;
    return t->failed ? -1 : 0;
}

/* ---- the kernels of the call ---- */

bool
tuning_wants(const Tuning *t, int use)
{
    return t->total && !t->failed && t->kernels[t->tuner->places[use]].wanted;
}

static void
note_line(Tuning *t, const Launch *launch, const Tuned *tuned, const double seconds[2])
{
    const char *schedule = tuned->best ? schedule_word(tuned->best - 1) : "(the usual schedule)";
    snprintf(t->line, sizeof t->line, "%.100s: %.0f us -> %.0f us %s",
             launch->node ? launch->node : "a kernel", 1e6 * seconds[0], 1e6 * seconds[1],
             schedule);
    log_line("tune: %s", t->line);
}

void
tuning_measure(Tuning *t, const TuneJob *job)
{
    const Launch *launch = &job->plan->launches[job->first];
    Tuned *tuned = &t->kernels[t->tuner->places[launch->use]];
    double seconds[2] = {0, 0};
    for (int k = 1; k < t->nschedules; k++) {
        if (tuned->kernels[k] && !is_fit(tuned->usual, tuned->kernels[k])) {
            kernel_unref(tuned->kernels[k]);
            tuned->kernels[k] = NULL;
        }
    }
    t->done++;
    tuned->wanted = false;
    int best = clock_seconds() < t->deadline
                   ? tune_choose(job, tuned->kernels, t->nschedules, t->deadline, seconds)
                   : TUNE_UNDECIDED;
    if (best == TUNE_UNDECIDED) {
        return;
    }
    tuned->best = best;
    tuned->settled = true;
    put_in_place(tuned);
    count_add(COUNT_TUNED, 1);
    note_line(t, launch, tuned, seconds);
    write_note(t, tuned);
}

/* ---- the end ---- */

static void
dump(Cx *cx, void *arg)
{
    Tuning *t = arg;
    CompileOptions options = {.passes = PASS_OPTIONS_NONE};
    Kernels *ks = kernels_of(t->program);
    Lowered *loops = cx_alloc(cx, (size_t)t->nkernels * sizeof *loops);
    Text text = {.cx = cx};
    for (int k = 0; k < t->nkernels; k++) {
        const Tuned *tuned = &t->kernels[k];
        loops[k] = tuned->best ? tuned->loops[tuned->best]
                               : *kernel_loops(ks, &ks->uses[k], &options, 0);
    }
    print_fn(kernels_with_loops(t->program, loops, TARGETS), &text);
    fprintf(stderr, "/* loops, tuned */\n%s\n", text.text);
}

void
tuning_end(Tuning *t)
{
    if (t->tuner->dumps && t->program) {
        cx_try(t->cx, dump, t);
    }
    count_add(COUNT_TUNE_SECONDS, (int64_t)(1e9 * (clock_seconds() - t->begun)));
    cx_free(t->cx);
}
