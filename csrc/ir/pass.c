/* The steps around each pass, in any folder.
 *
 * What:     runs a pass; after it verifies, dumps, times and, when it broke the language, blames
 *           it.
 * Requires  a verified function of the pass's stage in;
 * and ensures: one of its stage out, verified if that is requested.
 * How:      a failing verification raises DIAG_PASS with the pass's name and the path of a file
 *           with the input of the pass: `dlc-opt` on it fails again.  Fuel: each single rewrite
 *           takes one unit by fuel_spend(); `python -m dlc bisect` finds the first bad one by
 *           trying amounts.  The counter belongs to the thread: a compile runs in one thread. The
 *           fuel that a run leaves goes back to its options, so that the passes of fusion and of
 *           code generation share it.
 * Why not   verify within passes: a pass that checks itself hides what it assumes from the next.
 * Example:  DLC_DUMP=fuse prints the kernels of every graph; DLC_FUEL=0 compiles with no rewrite.
 */
#include "ir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Thread_local int64_t fuel = -1;

bool
fuel_spend(Cx *cx)
{
    (void)cx;
    if (fuel == 0) {
        return false;
    }
    fuel -= fuel > 0;
    return true;
}

const PassInfo *
pass_in(const PassInfo *table, int n, const char *name)
{
    int k = 0;
    while (k < n && strcmp(table[k].name, name) != 0) {
        k++;
    }
    return k < n ? &table[k] : NULL;
}

static const char *
text_of(const Fn *fn)
{
    Text text = {.cx = fn->cx};
    print_fn(fn, &text);
    return text.text;
}

/* Is the pass among the comma-separated names? */
static bool
is_listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    while (list && *list) {
        size_t word = strcspn(list, ",");
        if ((word == 3 && strncmp(list, "all", 3) == 0) ||
            (word == length && strncmp(list, name, word) == 0)) {
            return true;
        }
        list += word + (list[word] == ',');
    }
    return false;
}

bool
pass_dumps(const PassOptions *options, const char *name)
{
    return is_listed(options->dump, name);
}

static void
dump(const PassInfo *pass, const char *before, const char *after)
{
    bool same = strcmp(before, after) == 0;
    fprintf(stderr, "-- %s%s\n%s", pass->name, same ? " (unchanged)" : "", same ? "" : after);
}

const char *
reproducer_write(Cx *cx, const char *name, const char *text)
{
    const char *folder = getenv("DLC_DUMP_DIR");
    folder = folder ? folder : getenv("TMPDIR");
    char *path = cx_format(cx, "%s/dlc-%s-XXXXXX", folder ? folder : "/tmp", name);
    int file = mkstemp(path);
    if (file < 0) {
        return NULL;
    }
    FILE *out = fdopen(file, "w");
    if (!out) {
        close(file);
        return NULL;
    }
    bool good = fputs(text, out) >= 0;
    return fclose(out) == 0 && good ? path : NULL;
}

static void
verify(Cx *cx, void *fn)
{
    (void)cx;
    verify_fn(fn);
}

static void
check(const PassInfo *pass, Fn *fn, const char *before, bool no_file)
{
    Cx *cx = fn->cx;
    if (cx_try(cx, verify, fn)) {
        return;
    }
    if (cx_diag(cx)->code == DIAG_MEMORY) {
        fail_again(cx);
    }
    const char *why = cx_format(cx, "%s", cx_diag(cx)->message);
    const char *path = no_file ? NULL : reproducer_write(cx, pass->name, before);
    fail(cx, DIAG_PASS, pass->name, why,
         path      ? path
         : no_file ? "(no file is written of it)"
                   : "(no file could be written)");
}

PassOptions
pass_options_wanted(void)
{
    const char *limit = getenv("DLC_FUEL");
    return (PassOptions){
        .dump = getenv("DLC_DUMP"),
        .verify = text_is_yes(getenv("DLC_VERIFY")),
        .fuel = limit && *limit ? strtoll(limit, NULL, 10) : -1,
    };
}

static Fn *run_with_bodies(const PassInfo *pass, Fn *fn);

/* Gives the let bodies that the pass has made of its own. */
static void
run_in_bodies(const PassInfo *pass, Cx *cx, Let *let)
{
    let_bodies(cx, let, let->nbodies, let->bodies); /* an array of its own */
    for (int j = 0; j < let->nbodies; j++) {
        let->bodies[j]->owner = let;
        Fn *made = run_with_bodies(pass, let->bodies[j]);
        let->bodies[j]->owner = NULL;
        made->owner = NULL;
        fn_free_sizes(made);
        let->bodies[j] = made;
    }
}

/* The pass for the functions that are bodies in this one, and then for it: it sees what has become
 * of them.  Where it makes another function, this one has the old bodies again. */
static Fn *
run_with_bodies(const PassInfo *pass, Fn *fn)
{
    const Block *blk = fn->body;
    int n = blk->n;
    Let **lets = cx_copy(fn->cx, blk->lets, (size_t)n * sizeof *lets);
    Fn ***old = cx_alloc(fn->cx, ((size_t)n + 1) * sizeof *old);
    for (int k = 0; k < n; k++) {
        old[k] = lets[k]->bodies;
        if (lets[k]->nbodies) {
            run_in_bodies(pass, fn->cx, lets[k]);
        }
    }
    Fn *out = pass->run(fn);
    for (int k = 0; k < n && out != fn; k++) {
        lets[k]->bodies = old[k];
    }
    return out;
}

/* One pass, which takes its fuel from the gauge. */
static Fn *
run_alone(const PassInfo *pass, Fn *fn, const PassOptions *o)
{
    if (fn->stage != pass->in) {
        fail(fn->cx, DIAG_PASS_STAGE, pass->name, stage_name(pass->in), stage_name(fn->stage));
    }
    bool listed = is_listed(o->dump, pass->name);
    const char *before = listed || (o->verify && !o->no_file) ? text_of(fn) : "";
    double start = clock_seconds();
    Fn *out = run_with_bodies(pass, fn);
    double seconds = clock_seconds() - start;
    if (o->verify) {
        check(pass, out, before, o->no_file);
    }
    if (listed) {
        dump(pass, before, text_of(out));
    }
    if (o->trace) {
        o->trace(o->trace_arg, pass->name, out, seconds);
    }
    return out;
}

Fn *
pass_run(const PassInfo *pass, Fn *fn, PassOptions *options)
{
    if (!pass->run) {
        fn->target = pass->target ? pass->target : fn->target;
        for (const PassInfo *const *part = pass->parts; *part; part++) {
            fn = pass_run(*part, fn, options);
        }
        return fn;
    }
    fuel = options->fuel;
    fn = run_alone(pass, fn, options);
    options->fuel = fuel;
    fuel = -1;
    return fn;
}
