/* The pipeline around a pass: blame, dumps, trace and fuel.  Prints what fails; 0 when nothing
 * does. */
#include "../../csrc/fusion/fusion.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char program[] =
    "dlc 1 graph\n\nfn f[N](x: f32[N]) -> (f32[N]) {\n"
    "  let y: f32[N] = exp x\n  let z: f32[N] = sin y\n  ret z\n}\n";

static int failures;

#define CHECK(condition)                                                                          \
    ((condition) ? (void)0                                                                        \
                 : (void)(failures++, fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,          \
                                              #condition)))

/* A pass that forgets a let. */
static Fn *
forget(Fn *fn)
{
    fn->body->lets++;
    fn->body->n--;
    return fn;
}

static const PassInfo bad = {"forget", STAGE_GRAPH, STAGE_GRAPH, forget, "Forgets a let."};

static void
run_bad(Cx *cx, void *arg)
{
    PassOptions options = {.verify = true, .fuel = -1};
    pass_run(&bad, parse_fn(cx, program, "text"), &options);
    (void)arg;
}

static void
test_blame(void)
{
    Cx *cx = cx_new();
    CHECK(!cx_try(cx, run_bad, NULL));
    CHECK(cx_diag(cx)->code == DIAG_PASS);
    CHECK(strstr(cx_diag(cx)->message, "the pass forget broke a rule of the language: V02"));
    const char *path = strstr(cx_diag(cx)->message, "its input: ");
    char text[sizeof program + 1] = "";
    FILE *file = path ? fopen(path + strlen("its input: "), "r") : NULL;
    CHECK(file && fread(text, 1, sizeof text - 1, file) > 0);
    CHECK(strstr(text, "exp x"));
    if (file) {
        fclose(file);
        unlink(path + strlen("its input: "));
    }
    cx_free(cx);
}

typedef struct { char names[256]; int kernels; } Seen;

static void
count_kernels(void *arg, Let *let)
{
    ((Seen *)arg)->kernels += let->op == OP_kernel;
}

static void
see(void *arg, const char *pass, const Fn *fn, double seconds)
{
    Seen *seen = arg;
    CHECK(seconds >= 0);
    strncat(seen->names, pass, 32);
    strcat(seen->names, " ");
    seen->kernels = 0;
    fn_each_let((Fn *)fn, count_kernels, seen);
}

static void
run_all(Cx *cx, void *arg)
{
    Seen *seen = arg;
    for (int64_t fuel = -1; fuel <= 0; fuel++) {
        PassOptions options = {.verify = true, .fuel = fuel, .trace = see, .trace_arg = seen};
        seen->names[0] = '\0';
        pipeline_run(parse_fn(cx, program, "text"), &options);
        CHECK(strcmp(seen->names,
                 "unmerge channels count canonicalise linearise dead inside fuse share panels "
                 "layouts pad_rows in_place enclose ") == 0);
        CHECK(seen->kernels == (fuel ? 1 : 2));
    }
}

static void
run_wrong_stage(Cx *cx, void *arg)
{
    PassOptions options = {.fuel = -1};
    Fn *fn = pipeline_run(parse_fn(cx, program, "text"), &options);
    pass_run(pass_find("dead"), fn, &options);
    (void)arg;
}

int
main(void)
{
    Seen seen = {.kernels = 0};
    Cx *cx = cx_new();
    int count;
    test_blame();
    CHECK(cx_try(cx, run_all, &seen));
    CHECK(!cx_try(cx, run_wrong_stage, NULL));
    CHECK(cx_diag(cx)->code == DIAG_PASS_STAGE);
    CHECK(pass_table(&count) && count == 20);
    CHECK(pass_find("fuse") && pass_find("pipeline") && !pass_find("nothing"));
    cx_free(cx);
    return failures != 0;
}
