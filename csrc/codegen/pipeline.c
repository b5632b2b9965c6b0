/* Code generation on one page: every step from the kernels stage to machine code.
 *
 * What:     kernels_make rewrites the program of a function, tells its kernels apart by key, and
 *           takes those that the process or the cache has.  The others go to the loops stage in
 *           units, through the rewrites of their schedule, to the C of the targets that are wanted
 *           and to machine code.  All machine code comes this way: the kernels of a plan,
 *           imported ones, and the schedules that tuning compares.
 * Requires: a verified function of the kernels stage.
 * Ensures:  the object that is compiled is the one that was verified and dumped.
 * How:      a rewrite is a row of rewrites.def and runs as any pass does (ir/pass.c): with
 *           verification, dumps, blame and fuel.  A written schedule is one more rewrite,
 *           after the others.  The folder compile has the other steps.
 * Why not:  decide in the emitters: a decision that is not in the text can be neither verified, nor
 *           bisected, nor tuned.
 * Example:  dlc-opt --pass program,lower,vectorise softmax.dlc
 */
#include <string.h>

#include "rewrites.h"
#include "compile/kernels.h"

enum {
#define REWRITE(name, in, out, what) REWRITE_##name,
#include "rewrites.def"
    REWRITES
};

static const PassInfo rewrites[] = {
#define REWRITE(name, in, out, what) {#name, STAGE_##in, STAGE_##out, rewrite_##name, what, NULL},
#include "rewrites.def"
};

/* The rewrites of the whole program, before kernels that are equal are found. */
static const PassInfo *const program[] = {
    &rewrites[REWRITE_promise],
    &rewrites[REWRITE_order],
    NULL,
};

static const PassInfo of_program = {
    "program", STAGE_KERNELS, STAGE_KERNELS, NULL, "The rewrites before kernels are looked for.",
    program,
};

/* The rewrites of a unit's loops, which all targets share. */
static const PassInfo *const schedule[] = {
    &rewrites[REWRITE_idle],   &rewrites[REWRITE_divide],
    &rewrites[REWRITE_tile],   &rewrites[REWRITE_micro],
    &rewrites[REWRITE_cut],    &rewrites[REWRITE_vectorise],
    &rewrites[REWRITE_select], &rewrites[REWRITE_parallelise],
    &rewrites[REWRITE_join],   NULL,
};

static const PassInfo of_loops = {
    "schedule", STAGE_LOOPS, STAGE_LOOPS, NULL, "All rewrites of the loops stage, in order.",
    schedule,
};

/* The rewrites of loops that a schedule marks to become others. */
static const PassInfo *const nests[] = {
    &rewrites[REWRITE_split],
    &rewrites[REWRITE_reorder],
    NULL,
};

static const PassInfo of_nests = {
    "nests", STAGE_LOOPS, STAGE_LOOPS, NULL, "The rewrites of loops that become other loops.",
    nests,
};

/* The rewrites of a unit's loops for one target. */
#define DO(rewrite) &rewrites[REWRITE_##rewrite],
#define TARGET(name, what, compiler, calls, fused, width, branches, emitter, arrays, pragmas, \
               costs, rewrites) \
    static const PassInfo *const parts_of_##name[] = {rewrites NULL};
#include "targets.def"
#undef DO

static const PassInfo of_target[TARGETS] = {
#define TARGET(name, ...) \
    {#name,           STAGE_LOOPS,      STAGE_LOOPS, NULL, "The rewrites for one target.", \
     parts_of_##name, 1 + TARGET_##name},
#include "targets.def"
};

const PassInfo *
rewrite_table(int *count)
{
    *count = REWRITES;
    return rewrites;
}

const PassInfo *
rewrite_find(const char *name)
{
    static const PassInfo *const groups[] = {&of_program, &of_loops, &of_nests};
    for (int k = 0; k < 3; k++) {
        if (strcmp(name, groups[k]->name) == 0) {
            return groups[k];
        }
    }
    const PassInfo *found = pass_in(rewrites, REWRITES, name);
    return found ? found : pass_in(of_target, TARGETS, name);
}

/* The loops as a written schedule has them, which is one rewrite. */
static const Fn *
as_written(const Fn *loops, const char *text, Target target, PassOptions *options)
{
    if (!text || options->fuel == 0) {
        return loops;
    }
    options->fuel -= options->fuel > 0;
    return written_apply(loops, text, target);
}

Fn *
loops_make(const Fn *kernels, const char *text, PassOptions *options)
{
    /* The casts are safe: lowering only reads its input, and nobody else has the loops. */
    Fn *loops = pass_run(&rewrites[REWRITE_lower], (Fn *)kernels, options);
    loops = pass_run(&of_loops, loops, options);
    return (Fn *)as_written(loops, text, TARGETS, options);
}

void
loops_for(Loops *loops, unsigned wanted, PassOptions *options)
{
    PassOptions own = *options;
    own.verify |= loops->written != NULL; /* who wrote it may not know what the rewrites need */
    for (int k = 0; k < TARGETS; k++) {
        if (wanted & 1u << k && !loops->of[k]) {
            bool changes = of_target[k].parts[0] != NULL;
            const Fn *of = changes ? pass_run(&of_target[k], fn_clone(loops->shared), &own)
                                   : loops->shared;
            loops->of[k] = as_written(of, loops->written, (Target)k, &own);
        }
    }
    options->fuel = own.fuel;
}

/* On functions of their own: names that are made in a copy are not made in the original again. */
void
targets_digest(const Fn *loops)
{
    Text text = {.cx = loops->cx};
    print_fn(loops, &text);
    for (int k = 0; k < TARGETS; k++) {
        if (targets_compiled() & 1u << k && of_target[k].parts[0]) {
            PassOptions options = PASS_OPTIONS_NONE;
            options.verify = true;
            pass_run(&of_target[k], parse_fn(loops->cx, text.text, "schedule"), &options);
        }
    }
}

Fn *
rewrites_apply(Fn *kernels)
{
    Fn *loops = rewrite_lower(kernels);
    for (const PassInfo *const *rewrite = schedule; *rewrite; rewrite++) {
        loops = (*rewrite)->run(loops);
    }
    return loops;
}

/* Makes the unit; false: a pass has changed kernels after their keys were made. */
static bool
make_unit(Kernels *ks, const NewKernel *group, int n)
{
    int64_t before = ks->passes.fuel;
    Fn *part = unit_program(ks, group, n);
    ks->fuel = ks->passes.fuel;
    Fn *loops = loops_make(part, group->use->schedule, &ks->passes);
    if (unit_reads_late(group, n, loops)) {
        Fn *const parts[] = {part, unit_equals(ks, group, n)};
        for (int k = 0; k < 2 && parts[k]->body->n; k++) {
            ks->passes.fuel = ks->fuel; /* as these loops had it */
            pass_run(&rewrites[REWRITE_retract], parts[k], &ks->passes);
        }
        ks->passes.fuel = before; /* the unit that it will be has it all */
        kernels_retracted(ks);
        return false;
    }
    Loops all = {.shared = loops, .written = group->use->schedule};
    loops_for(&all, unit_targets(ks), &ks->passes);
    Unit unit;
    emit_unit(&all, &unit);
    unit_compile(ks, group, n, part, &all, &unit);
    return true;
}

static bool
make_units(Kernels *ks)
{
    bool made = true;
    for (int k = 0, n; k < ks->nfresh && made; k += n) {
        n = unit_next(ks, k);
        made = make_unit(ks, ks->fresh + k, n);
    }
    return made;
}

void
kernels_compile(Kernels *ks, const CompileOptions *options)
{
    kernels_begin(ks, options);
    for (kernels_look_up(ks); !make_units(ks); kernels_look_up(ks)) {
        kernels_key_again(ks);
    }
    kernels_share(ks);
}

/* The kernels of the program, each with what is written of its schedule. */
static Kernels *
kernels_written(Fn *fn, CompileOptions *options)
{
    Kernels *ks = kernels_of(pass_run(&of_program, fn, &options->passes));
    for (int k = 0; k < ks->nuses && options->schedule; k++) {
        const char *part = written_part(fn->cx, options->schedule, k, ks->nuses);
        if (part) {
            kernel_schedule(&ks->uses[k], part);
        }
    }
    return ks;
}

Kernels *
kernels_make(Fn *fn, const CompileOptions *options)
{
    CompileOptions *rest = cx_copy(fn->cx, options, sizeof *options);
    rest->passes.trace = NULL; /* of fusion's passes: most of those here run once a unit */
    Kernels *ks = kernels_written(fn, rest);
    kernels_compile(ks, rest);
    return ks;
}

void
kernels_schedule(Fn *fn, const CompileOptions *options, Text *out)
{
    CompileOptions own = *options;
    kernels_schedule_text(kernels_written(fn, &own), &own, targets_compiled(), out);
}

const Lowered *
kernel_loops(const Kernels *ks, KernelUse *use, const CompileOptions *options, unsigned targets)
{
    PassOptions passes = {.fuel = options->passes.fuel};
    if (!use->lowered.loops.shared) {
        int at;
        Fn *part = unit_again(ks, use, &at, &passes.fuel);
        Fn *loops = loops_make(part, use->schedule, &passes);
        use->lowered = (Lowered){{.shared = loops, .written = use->schedule}, at};
    }
    loops_for(&use->lowered.loops, targets, &passes);
    return &use->lowered;
}
