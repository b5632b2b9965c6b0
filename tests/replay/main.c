/* The C that code generation writes for each program, as digests.
 *
 *     test-replay folder|- file.dlc ...
 *
 * Each file holds one program of the graph or the kernels stage.  A line is printed for each
 * program: the file's name, the number of units, and the SHA-256 of the units' texts for libtcc and
 * for the C compiler, cut to 16 digits.  The texts themselves are written to the folder, unless it
 * is "-".  They are those that a compile makes: kernels for short rows included. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/compile/kernels.h"
#include "fusion/fusion.h"

#include "../read_file.h"

enum { SHOWN = 16 };

typedef struct {
    const char *folder, *path, *name;
    bool failed;
} Job;

/* The units of one program. */
typedef struct {
    int units;
    Text tcc, cc;
} Written;

static void
note_unit(void *arg, const Loops *loops, const Unit *unit)
{
    Written *w = arg;
    (void)loops;
    w->units++;
    text_add(&w->tcc, "%s", unit->text[TARGET_tcc]);
    text_add(&w->cc, "%s", unit->text[TARGET_cc]);
}

static void
digest(const Text *text, char out[SHOWN + 1])
{
    Sha256 s;
    Key key;
    sha256_begin(&s);
    sha256_add(&s, text->text ? text->text : "", text->length);
    key_end(&s, &key);
    memcpy(out, key.hex, SHOWN);
    out[SHOWN] = '\0';
}

static void
write_text(const Job *job, Cx *cx, const char *target, const Text *text)
{
    const char *path = cx_format(cx, "%s/%s.%s", job->folder, job->name, target);
    FILE *file = fopen(path, "w");
    if (!file || fputs(text->text ? text->text : "", file) < 0 || fclose(file) != 0) {
        fail_as(cx, DIAG_ARGUMENT, "%s cannot be written", path);
    }
}

static void
report(const Job *job, Cx *cx, const Written *w)
{
    char tcc[SHOWN + 1], cc[SHOWN + 1];
    digest(&w->tcc, tcc);
    digest(&w->cc, cc);
    printf("%s %d %s %s\n", job->name, w->units, tcc, cc);
    if (strcmp(job->folder, "-") != 0) {
        write_text(job, cx, "tcc.c", &w->tcc);
        write_text(job, cx, "cc.c", &w->cc);
    }
}

/* The kernels of the function as a compile makes them. */
static void
make(const Job *job, Fn *kernels)
{
    Cx *cx = kernels->cx;
    Written w = {.tcc = {.cx = cx}, .cc = {.cx = cx}};
    CompileOptions options = {.mode = MODE_TCC, .passes = pass_options_wanted(), .unit = note_unit,
                              .unit_arg = &w, .targets = 1u << TARGET_cc};
    PassOptions passes = options.passes;
    kernels = pass_run(rewrite_find("program"), kernels, &passes);
    Kernels *ks = kernels_of(kernels);
    kernels_compile(ks, &options);
    report(job, cx, &w);
    kernels_drop(ks);
}

static Fn *
read_kernels(Cx *cx, const Job *job)
{
    PassOptions options = PASS_OPTIONS_NONE;
    Fn *fn = parse_fn(cx, read_file(cx, job->path), job->path);
    verify_fn(fn);
    return fn->stage == STAGE_GRAPH ? pipeline_run(fn, &options) : fn;
}

static void
replay(Cx *cx, void *arg)
{
    const Job *job = arg;
    make(job, read_kernels(cx, job));
}

/* The file's name without its folder and its ending. */
static const char *
stem(Cx *cx, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
               *dot = strrchr(name, '.');
    return cx_format(cx, "%.*s", (int)(dot ? dot - name : (long)strlen(name)), name);
}

int
main(int argc, char **argv)
{
    bool failed = argc < 3;
    if (failed) {
        fputs("usage: test-replay folder|- file.dlc ...\n", stderr);
    }
    for (int k = 2; k < argc; k++) {
        Cx *cx = cx_new();
        if (!cx) {
            fputs("test-replay: no memory\n", stderr);
            return 1;
        }
        Job job = {.folder = argv[1], .path = argv[k], .name = stem(cx, argv[k])};
        if (!cx_try(cx, replay, &job)) {
            fprintf(stderr, "%s: %s\n", argv[k], cx_diag(cx)->message);
            failed = true;
        }
        cx_free(cx);
    }
    return failed;
}
