/* Tuning: schedules of a plan's kernels, looked for in its first call.
 *
 * What:     each kernel runs the fastest schedule that was found for it.  The bits are the same.
 * How:      The plan keeps its kernels as a program.  The first call asks the cache for what
 *           earlier processes have found (notes.c).  When the call comes to a kernel whose search
 *           has not ended, its operands and sizes are at hand, and the search goes on (climb.c).
 *           In the end the code of the fastest schedule replaces the usual one, as gcc's code
 *           replaces libtcc's.  So other plans that share the kernel get it too.
 * Why not:  measure when the kernel is compiled: there are no operands yet, and sizes may be
 *           symbols. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/rewrites.h"
#include "tuning.h"

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

Kernel *
tuning_compile(Tuning *t, int place, const char *schedule, double until)
{
    Compiled c = {t, use_alone(t, place, schedule), until};
    bool compiled = cx_try(t->cx, compile_body, &c);
    if (!compiled) {
        log_line("tune: %s", cx_diag(t->cx)->message);
    }
    Kernel *kernel = c.use->kernel;
    const char *unfit = compiled && kernel
                            ? kernel_unfit(t->cx, &c.use->key, t->kernels[place].usual, kernel)
                            : NULL;
    if (unfit) {
        log_line("tune: not in the place of the usual loops, %s:\n%s", unfit, schedule);
    }
    if (!compiled || !kernel || unfit) {
        kernel_unref(kernel);
        return NULL;
    }
    return kernel;
}

const Lowered *
tuning_loops(Tuning *t, int place, const char *schedule)
{
    CompileOptions options = {.passes = PASS_OPTIONS_NONE};
    return kernel_loops(t->ks, use_alone(t, place, schedule), &options,
                        1u << target_for(COMPILER_CC));
}

/* ---- replacing the usual code ---- */

static void
drop_code(void *code, size_t size)
{
    (void)size;
    code_unref(code);
}

void
tuning_put(Tuned *tuned)
{
    const Kernel *best = tuned->kernel;
    Kernel *usual = tuned->usual;
    if (!best || tuned->placed || !code_own(usual->code, drop_code, code_ref(best->code), 0)) {
        return;
    }
    for (int k = 0; k < usual->nphases; k++) {
        const CodeVariant *variant = code_variant(best->code, best->first + k);
        if (variant) {
            code_set_variant(usual->code, usual->first + k, variant);
        } else {
            code_set(usual->code, usual->first + k, code_entry(best->code, best->first + k),
                     TIER_TUNED);
        }
    }
    tuned->placed = true;
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
        notes_name(t, &t->ks->uses[k], tuned);
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
void
tuning_say(Tuning *t, int place)
{
    const Found *found = &t->kernels[place].found;
    log_line("tune: %.100s: %s", node_of(t, place), found->words);
    t->line = cx_format(t->cx, "%.100s: %s\n%s", node_of(t, place), found->words,
                        found->schedule ? found->schedule : "");
}

/* Code that another call has put in place stays, and is told about. */
static void
recall_kernel(Tuning *t, int place)
{
    Tuned *tuned = &t->kernels[place];
    Found *found = &tuned->found;
    if (tuned->ours && found->schedule &&
        !(tuned->kernel = tuning_compile(t, place, found->schedule, 0))) {
        log_line("tune: the note of %.100s is not used, the search begins anew", node_of(t, place));
        *found = (Found){.part = 1}; /* no schedule of the kernel */
        return;
    }
    if (tuned->ours) {
        tuned->wanted = !found->ended;
        count_add(COUNT_TUNED_RECALLED, 1);
    }
    tuning_say(t, place);
    tuning_tell(t);
}

static void
recall(Tuning *t)
{
    notes_read(t);
    for (int k = 0; k < t->nkernels && !t->failed; k++) {
        if (t->kernels[k].found.words) {
            recall_kernel(t, k);
        }
        t->left += t->kernels[k].wanted;
    }
}

/* Those that no search of this call goes on with. */
static void
put_recalled(Tuning *t)
{
    for (int k = 0; k < t->nkernels; k++) {
        Tuned *tuned = &t->kernels[k];
        if (tuned->ours && tuned->found.words && !(t->searches && tuned->wanted)) {
            tuned->settled = true;
            tuning_put(tuned);
        }
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
        Tuned *tuned = &t->kernels[k];
        tuning_put(tuned); /* of a search that there was no time to go on with */
        kernel_unref(tuned->kernel);
        if (tuned->ours && !tuned->settled && !tuned->placed) {
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
    bool wanted = t->tuner->budget > 0 && t->left > 0 && !t->failed;
    t->searches = wanted && cc_target_compiles(t->target);
    put_recalled(t);
    if (t->searches) {
        tuning_tell(t);
    } else if (wanted) {
        log_line("tune: nothing is measured: %s", t->target->why);
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
        t->searches = false;
    }
    *out = t;
    return t->failed ? -1 : 0;
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
        KernelUse *use = use_alone(t, k, t->kernels[k].found.schedule);
        loops[k] = *kernel_loops(t->ks, use, &options, 1u << target);
    }
    print_fn(kernels_with_loops(t->program, loops, target), &text);
    fprintf(stderr, "/* loops, tuned */\n%s\n", text.text);
}

static void
note_model(Cx *cx, void *arg)
{
    (void)cx;
    notes_write_model(arg);
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
