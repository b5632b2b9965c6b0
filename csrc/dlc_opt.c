/* dlc-opt: the compiler's parts on text.  Text IR in; passes; text IR, or C, out. */
#include "ir/verify/dependence.h"
#include "passes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: dlc-opt [options] file    (- reads standard input)\n"
    "\n"
    "  --pass NAME,...   run these passes; see --list.  cc:scan is the pass scan of target cc\n"
    "  --pipeline        run all passes that torch.compile runs before code generation\n"
    "  --partition N     split a joint graph into a forward, which has its first N results, and a\n"
    "                    backward, which has the parameters named tangents.., and print both\n"
    "  --budget B        with --partition: 0 saves the fewest bytes, 1 (the default) costs the\n"
    "                    least time\n"
    "  --prepare NAME,.. print a function for each value that can be computed before a call from\n"
    "                    these parameters alone, and the function that reads these values\n"
    "  --weights FORMAT  with --prepare: products read these parameters as codes: int8, int4, or\n"
    "                    int4-zero with zero points\n"
    "  --emit WHAT       print IR text (ir, the default), C for a target of --list, or none; or\n"
    "                    dependences: which accesses need the order of each nest's iterations; or\n"
    "                    schedule: the one that the loops have, for --schedule; or changes: what\n"
    "                    becomes of it by each change that the option tune tries, for cc\n"
    "  --no-verify       verify neither the text nor the result of each pass\n"
    "  --size B=4,..     the program with numbers for these sizes; --size drawn: for all, those\n"
    "                    that --eval draws\n"
    "  --schedule FILE   loops get the schedule in the file: what it says of the target whose\n"
    "                    pass was the last, or of the loops that all targets share\n"
    "  --eval SEED       run on random arguments, print the results; fail if passes change them\n"
    "  --fuel N          stop all passes after N single rewrites\n"
    "  --list            list the passes and the targets\n"
    "\n"
    "A file holds one program, or several with lines of --- between them.\n"
    "Exit status: 0 success, 1 the program or a pass is wrong, 2 the command line or file is.\n";

typedef struct {
    const char *file, *passes, *emit, *text;
    const char *frozen;         /* parameters that --prepare names; or NULL */
    const char *weights;        /* the format that these get; or NULL */
    const char *sizes; /* NAME=N,.. that are numbers, or "drawn": those of --eval; or NULL */
    const char *schedule;       /* the text of one; or NULL */
    bool pipeline, verify, eval;
    int partition;              /* results of the forward; -1: no partition */
    double budget;              /* of the partition */
    uint64_t seed;
    int64_t fuel;
} Job;

/* ---- evaluation ---- */

enum { ROUNDINGS = 1 << 12 }; /* two orders of one computation may differ by so many; f32: 5e-4 */

typedef struct {
    int64_t *sizes;
    Tensor *in, *out;
} Run;

static const FixedSize *
fixed_of(const Fn *fn, int size, int n, const FixedSize *fixed)
{
    const char *name = dim_name(fn->cx, fn->sizes[size]);
    for (int k = 0; k < n; k++) {
        if (strcmp(fixed[k].name, name) == 0) {
            return &fixed[k];
        }
    }
    return NULL;
}

/* The arguments depend on the seed and the signature, which passes do not change. */
static Run
sample(const Fn *fn, uint64_t seed, int n, const FixedSize *fixed)
{
    Cx *cx = fn->cx;
    Run r = {cx_alloc(cx, (size_t)fn->nsizes * sizeof *r.sizes),
             cx_alloc(cx, (size_t)fn->nparams * sizeof *r.in),
             cx_alloc(cx, (size_t)fn->body->nrets * sizeof *r.out)};
    uint64_t state = sample_seed(seed);
    sample_sizes(fn, &state, r.sizes);
    for (int k = 0; k < fn->nsizes; k++) {
        const FixedSize *of = fixed_of(fn, k, n, fixed);
        r.sizes[k] = of ? of->value : r.sizes[k];
    }
    sample_args(fn, &state, r.sizes, r.in);
    return r;
}

/* Runs `to` on fresh arguments of fn, because a run may write results into parameters.  `to` may
 * have numbers for sizes of fn. */
static const Tensor *
run(const Fn *fn, const Fn *to, uint64_t seed, int n, const FixedSize *fixed)
{
    Run r = sample(fn, seed, n, fixed);
    int left = 0;
    for (int k = 0; k < fn->nsizes; k++) {
        r.sizes[left] = r.sizes[k];
        left += to->nsizes == fn->nsizes || !fixed_of(fn, k, n, fixed);
    }
    eval_fn_at(to, r.sizes, r.in, r.out);
    return r.out;
}

/* The sizes of --size. */
static const FixedSize *
fixed_sizes(const Job *job, const Fn *fn, int *n)
{
    Cx *cx = fn->cx;
    FixedSize *fixed = cx_alloc(cx, ((size_t)fn->nsizes + 1) * sizeof *fixed);
    *n = 0;
    if (strcmp(job->sizes, "drawn") == 0) {
        Run r = sample(fn, job->seed, 0, NULL);
        for (; *n < fn->nsizes; ++*n) {
            fixed[*n] = (FixedSize){dim_name(cx, fn->sizes[*n]), r.sizes[*n]};
        }
        return fixed;
    }
    for (const char *at = job->sizes; *at; at += *at == ',') {
        size_t length = strcspn(at, "=,");
        char *end = (char *)at + length;
        int64_t value = *end == '=' ? strtoll(at + length + 1, &end, 10) : 0;
        if (*n > fn->nsizes || end == at + length || (*end && *end != ',')) {
            fail_as(cx, DIAG_FIXED_SIZE, "--size takes NAME=NUMBER,.. or drawn, not %s", at);
        }
        fixed[(*n)++] = (FixedSize){cx_intern(cx, at, length), value};
        at = end;
    }
    return fixed;
}

static void
compare(Cx *cx, int n, const Tensor *before, const Tensor *out)
{
    Text text = {.cx = cx};
    for (int k = 0; k < n; k++) {
        text_add(&text, "# result %d: ", k);
        sample_text(&out[k], &text);
        text_add(&text, "\n");
        double far = sample_distance(&before[k], &out[k]);
        if (!(far <= ROUNDINGS)) {
            sample_text(&before[k], &text);
            fail(cx, DIAG_PASS_RESULT, k, far, text.text);
        }
    }
    fputs(text.length ? text.text : "", stdout);
}

/* ---- passes ---- */

/* The options of the command line; the environment gives those that it does not set. */
static PassOptions
options_of(const Job *job)
{
    PassOptions options = pass_options_wanted();
    options.verify = options.verify || job->verify;
    options.fuel = job->fuel < 0 ? options.fuel : job->fuel;
    return options;
}

/* cc:scan is the pass scan as the target cc has it. */
static Fn *
run_pass(const Job *job, Fn *fn, const char *name)
{
    PassOptions options = options_of(job);
    const char *row = strchr(name, ':');
    Target target = row ? target_find(cx_format(fn->cx, "%.*s", (int)(row - name), name)) : TARGETS;
    const PassInfo *info = pass_named(target < TARGETS ? row + 1 : name);
    if (!info) {
        fail(fn->cx, DIAG_NO_PASS, name);
    }
    fn->target = target < TARGETS ? 1 + (int)target : fn->target;
    return pass_run(info, fn, &options);
}

static Fn *
run_passes(const Job *job, Fn *fn)
{
    PassOptions options = options_of(job);
    if (job->pipeline) {
        fn = pipeline_run(fn, &options);
    }
    for (const char *name = job->passes; name && *name;) {
        size_t length = strcspn(name, ",");
        fn = run_pass(job, fn, cx_intern(fn->cx, name, length));
        name += length + (name[length] == ',');
    }
    return fn;
}

/* The target whose pass was the last; TARGETS: none was. */
static Target
target_of_passes(const Job *job, const Fn *fn)
{
    const char *last = job->passes ? strrchr(job->passes, ',') : NULL;
    if (fn->stage != STAGE_LOOPS) {
        fail(fn->cx, DIAG_EMIT_STAGE);
    }
    return job->passes ? target_find(last ? last + 1 : job->passes) : TARGETS;
}

static Fn *
schedule(const Job *job, Fn *fn)
{
    /* The cast is safe: the function is this job's, or a copy. */
    return job->schedule ? (Fn *)written_apply(fn, job->schedule, target_of_passes(job, fn)) : fn;
}

/* Of each outermost loop: its index, and a line for each dependence. */
static void
print_dependences(const Fn *fn, const Block *blk)
{
    Text text = {.cx = fn->cx};
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (let->op != OP_for) {
            if (let->body) {
                print_dependences(fn, let->body);
            }
            continue;
        }
        Dependences all = dependences_of(fn->cx, let);
        text_add(&text, "for %s: %d\n", dim_name(fn->cx, let_dim(let, "index")), all.n);
        for (int j = 0; j < all.n; j++) {
            text_add(&text, "  ");
            dependence_text(fn->cx, &all.of[j], &text);
            text_add(&text, "\n");
        }
    }
    fputs(text.length ? text.text : "", stdout);
}

/* The schedule after each change that `tune` tries, behind the change's name in a comment: of marks
 * in loops of the target cc, of the loops themselves where all targets share them. */
static void
print_changes(const Fn *fn)
{
    CallSizes sizes = {0};
    for (int k = 0; k < change_count() && fn->target; k++) {
        const Fn *changed = change_make(fn, &sizes, k, SCOPE_ALL);
        Text text = {.cx = fn->cx};
        if (changed) {
            written_print(changed, target_for(COMPILER_CC), &text);
            printf("# %s\n%s", change_name(fn->cx, k), text.text);
        }
    }
    for (int k = 0; k < nest_count() && !fn->target; k++) {
        for (int loop = 0; loop < nest_loops(fn); loop++) {
            const char *lines = nest_make(fn, &sizes, k, loop);
            printf("%s", lines ? cx_format(fn->cx, "# %s of loop %d\n%s", nest_name(k), loop, lines)
                               : "");
        }
    }
}

static void
emit(const Job *job, const Fn *fn)
{
    if (strcmp(job->emit, "ir") == 0) {
        Text text = {.cx = fn->cx};
        print_fn(fn, &text);
        fputs(text.text, stdout);
    } else if (strcmp(job->emit, "none") != 0) {
        if (fn->stage != STAGE_LOOPS) {
            fail(fn->cx, DIAG_EMIT_STAGE);
        }
        if (strcmp(job->emit, "schedule") == 0) {
            Text text = {.cx = fn->cx};
            written_print(fn, target_of_passes(job, fn), &text);
            fputs(text.text ? text.text : "", stdout);
            return;
        }
        if (strcmp(job->emit, "dependences") == 0) {
            print_dependences(fn, fn->body);
            return;
        }
        if (strcmp(job->emit, "changes") == 0) {
            print_changes(fn);
            return;
        }
        Target target = target_find(job->emit);
        Unit unit;
        Loops loops = {.shared = fn};
        loops.of[target] = fn;
        emit_unit(&loops, &unit);
        fputs(unit.text[target], stdout);
    }
}

/* ---- the partition ---- */

typedef struct {
    CutRules rules;
    Cut *cut;
    Fn *forward, *backward;
} Halves;

static Halves
partition(const Job *job, const Fn *fn)
{
    Cx *cx = fn->cx;
    bool *tangents = cx_alloc(cx, (size_t)(fn->nparams + 1) * sizeof *tangents);
    if (fn->stage != STAGE_GRAPH || job->partition > fn->body->nrets) {
        fail(cx, DIAG_CUT_STAGE, "--partition");
    }
    for (int k = 0; k < fn->nparams; k++) {
        tangents[k] = strncmp(fn->params[k]->name, "tangents", 8) == 0;
    }
    Halves h = {.rules = {.nforward = job->partition,
                          .tangents = tangents,
                          .budget = job->budget,
                          .fuel = job->fuel}};
    h.cut = partition_cut(fn, &h.rules);
    partition_split(fn, &h.rules, h.cut, &h.forward, &h.backward);
    if (job->verify) {
        verify_fn(h.forward);
        verify_fn(h.backward);
    }
    return h;
}

/* The forward, then the backward on what it saved; all results, in the order of the joint
 * graph's. */
static const Tensor *
run_halves(const Fn *fn, const Halves *h, uint64_t seed)
{
    Cx *cx = fn->cx;
    int forward = h->rules.nforward, n = 0, passed = forward;
    Run args = sample(fn, seed, 0, NULL);
    Tensor *in = cx_alloc(cx, (size_t)(fn->nparams + h->cut->nsaved + 1) * sizeof *in);
    Tensor *out = cx_alloc(cx, (size_t)(fn->body->nrets + h->cut->nsaved + 1) * sizeof *out);
    for (int k = 0; k < fn->nparams; k++) {
        if (!h->rules.tangents[k]) {
            in[n++] = args.in[k];
        }
    }
    eval_fn_at(h->forward, args.sizes, in, out);
    n = 0;
    for (int k = 0; k < h->cut->nsaved; k++) {
        const Value *v = h->cut->saved[k];
        in[n++] = v->def ? out[passed++] : args.in[v->result];
    }
    for (int k = 0; k < fn->nparams; k++) {
        if (h->rules.tangents[k]) {
            in[n++] = args.in[k];
        }
    }
    eval_fn_at(h->backward, args.sizes, in, out + forward);
    return out;
}

/* ---- prepared values ---- */

static bool *
find_frozen(const Fn *fn, const char *names)
{
    bool *frozen = cx_alloc(fn->cx, (size_t)(fn->nparams + 1) * sizeof *frozen);
    while (*names) {
        size_t length = strcspn(names, ",");
        const char *name = cx_intern(fn->cx, names, length);
        int k = 0;
        while (k < fn->nparams && fn->params[k]->name != name) {
            k++;
        }
        if (k == fn->nparams) {
            fail(fn->cx, DIAG_NO_PARAMETER, name);
        }
        frozen[k] = true;
        names += length + (names[length] == ',');
    }
    return frozen;
}

/* The function with the frozen parameters as codes where products read them. */
static Fn *
code(const Job *job, Fn *fn, const bool *frozen, int64_t *fuel)
{
    static const char *const names[WEIGHT_FORMATS] = {
        [WEIGHT_INT8] = "int8", [WEIGHT_INT4] = "int4", [WEIGHT_INT4_ZERO] = "int4-zero"};
    Weight *weights;
    int n = weights_find(fn, frozen, &weights);
    for (int k = 0; k < n; k++) {
        WeightFormat f = WEIGHT_INT8;
        while (f < WEIGHT_INT4_ZERO && strcmp(job->weights, names[f]) != 0) {
            f++;
        }
        weights[k].format = weights[k].why ? WEIGHT_FLOAT : f;
        if (weights[k].why && strcmp(job->emit, "ir") == 0) {
            printf("# %s stays: %s\n", fn->params[weights[k].param]->name, weights[k].why);
        }
    }
    fn = weights_code(fn, n, weights, fuel);
    if (job->verify) {
        verify_fn(fn);
    }
    return run_pass(job, run_pass(job, fn, "canonicalise"), "dead");
}

static Preparation *
prepare(const Job *job, Fn *fn)
{
    if (fn->stage != STAGE_GRAPH) {
        fail(fn->cx, DIAG_CUT_STAGE, "--prepare");
    }
    int64_t fuel = job->fuel;
    const bool *frozen = find_frozen(fn, job->frozen);
    fn = job->weights ? code(job, fn, frozen, &fuel) : fn;
    Preparation *p = prepare_cut(fn, frozen, &fuel);
    for (int k = 0; k <= p->nvalues; k++) {
        const Fn *made = k < p->nvalues ? p->values[k].make : p->run;
        if (job->verify) {
            verify_fn(made);
        }
        emit(job, made);
        fputs(k < p->nvalues && strcmp(job->emit, "none") != 0 ? "---\n" : "", stdout);
    }
    return p;
}

/* Makes the prepared values, then runs on them. */
static const Tensor *
run_prepared(const Fn *fn, const Preparation *p, uint64_t seed)
{
    Cx *cx = fn->cx;
    Run args = sample(fn, seed, 0, NULL);
    Tensor *in = cx_alloc(cx, (size_t)(fn->nparams + p->nvalues + 1) * sizeof *in);
    Tensor *of = cx_alloc(cx, (size_t)(fn->nparams + 1) * sizeof *of);
    memcpy(in, args.in, (size_t)fn->nparams * sizeof *in);
    for (int k = 0; k < p->nvalues; k++) {
        for (int j = 0; j < p->values[k].make->nparams; j++) {
            of[j] = in[p->values[k].params[j]];
        }
        eval_fn(p->values[k].make, of, &in[fn->nparams + k]);
    }
    eval_fn_at(p->run, args.sizes, in, args.out);
    return args.out;
}

static void
do_job(Cx *cx, void *arg)
{
    const Job *job = arg;
    Fn *fn = parse_fn(cx, job->text, job->file), *whole = fn;
    if (job->verify) {
        verify_fn(fn);
    }
    int n = 0;
    const FixedSize *fixed = job->sizes ? fixed_sizes(job, fn, &n) : NULL;
    if (fixed) {
        fn = parse_fixed(cx, job->text, job->file, n, fixed);
        verify_fn(fn);
        whole = job->partition >= 0 || job->frozen ? fn : whole;
    }
    const Tensor *before = job->eval ? run(whole, whole, job->seed, n, fixed) : NULL, *after;
    Fn *to = schedule(job, run_passes(job, fn));
    if (job->partition >= 0) {
        Halves halves = partition(job, to);
        emit(job, halves.forward);
        fputs(strcmp(job->emit, "none") == 0 ? "" : "---\n", stdout);
        emit(job, halves.backward);
        after = job->eval ? run_halves(to, &halves, job->seed) : NULL;
    } else if (job->frozen) {
        const Preparation *p = prepare(job, to);
        after = job->eval ? run_prepared(to, p, job->seed) : NULL;
    } else {
        emit(job, to);
        after = job->eval ? run(whole, to, job->seed, n, fixed) : NULL;
    }
    if (job->eval) {
        compare(cx, fn->body->nrets, before, after);
    }
}

/* One program in a context of its own. */
static bool
do_program(Job *job, char *text)
{
    Cx *cx = cx_new();
    job->text = text;
    bool done = cx && cx_try(cx, do_job, job);
    if (!done) {
        fprintf(stderr, "dlc-opt: %s\n", cx ? cx_diag(cx)->message : "out of memory");
    }
    cx_free(cx);
    return done;
}

/* ---- the command line ---- */

static char *
read_file(const char *name)
{
    FILE *file = strcmp(name, "-") == 0 ? stdin : fopen(name, "rb");
    size_t length = 0, room = 1 << 16;
    char *text = file ? malloc(room) : NULL;
    while (text && !feof(file) && !ferror(file)) {
        if (room - length < 2) {
            char *more = realloc(text, room *= 2);
            if (!more) {
                break;
            }
            text = more;
        }
        length += fread(text + length, 1, room - length - 1, file);
    }
    if (text) {
        text[length] = '\0';
    }
    if (file && file != stdin) {
        fclose(file);
    }
    return text;
}

static int
list_all(void)
{
    const PassInfo *(*const tables[])(int *count) = {pass_table, rewrite_table};
    for (int t = 0; t < 2; t++) {
        int n;
        const PassInfo *table = tables[t](&n);
        for (int k = 0; k < n; k++) {
            printf("%-14s %s\n", table[k].name, table[k].what);
        }
    }
    static const char *const groups[] = {"program", "schedule", "nests"};
    for (int k = 0; k < 3; k++) {
        const PassInfo *all = rewrite_find(groups[k]);
        printf("%-14s %s\n", all->name, all->what);
    }
    for (int k = 0; k < TARGETS; k++) {
        printf("--emit %-7s %s.\n", target_info[k].name, target_info[k].what);
    }
    return 0;
}

static int
complain(const char *what, const char *which)
{
    fprintf(stderr, "dlc-opt: %s '%s'\n\n%s", what, which, usage);
    return 2;
}

/* The option's argument into *to: "--name value" or "--name=value". */
static bool
take(const char *name, int argc, char **argv, int *k, const char **to)
{
    size_t length = strlen(name);
    if (strncmp(argv[*k], name, length) != 0) {
        return false;
    }
    if (argv[*k][length] == '=') {
        *to = argv[*k] + length + 1;
        return true;
    }
    if (argv[*k][length] != '\0' || *k + 1 == argc) {
        return false;
    }
    *to = argv[++*k];
    return true;
}

/* -1, or the status to end with */
static int
check_options(const Job *job)
{
    if (strcmp(job->emit, "ir") == 0 || strcmp(job->emit, "none") == 0 ||
        strcmp(job->emit, "dependences") == 0 || strcmp(job->emit, "schedule") == 0 ||
        strcmp(job->emit, "changes") == 0 || target_find(job->emit) != TARGETS) {
        return job->file ? -1 : complain("which file?", "");
    }
    return complain(
        "--emit ir, none, dependences, schedule, changes or a target that --list names, "
        "not",
        job->emit);
}

/* -1: go on; else the status to end with. */
static int
read_options(int argc, char **argv, Job *job)
{
    const char *seed = NULL, *fuel = NULL, *partition_at = NULL, *budget = NULL;
    for (int k = 1; k < argc; k++) {
        const char *a = argv[k];
        if (take("--pass", argc, argv, &k, &job->passes) ||
            take("--emit", argc, argv, &k, &job->emit) ||
            take("--partition", argc, argv, &k, &partition_at) ||
            take("--budget", argc, argv, &k, &budget) ||
            take("--prepare", argc, argv, &k, &job->frozen) ||
            take("--weights", argc, argv, &k, &job->weights) ||
            take("--size", argc, argv, &k, &job->sizes) ||
            take("--schedule", argc, argv, &k, &job->schedule) ||
            take("--eval", argc, argv, &k, &seed) || take("--fuel", argc, argv, &k, &fuel)) {
            continue;
        }
        if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0) {
            fputs(usage, stdout);
            return 0;
        }
        if (strcmp(a, "--list") == 0) {
            return list_all();
        }
        bool pipeline = strcmp(a, "--pipeline") == 0, no = strcmp(a, "--no-verify") == 0;
        if (a[0] == '-' && a[1] && !pipeline && !no) {
            return complain("unknown option, or one without its value:", a);
        }
        job->pipeline |= pipeline;
        job->verify &= !no;
        job->file = pipeline || no ? job->file : a;
    }
    job->eval = seed != NULL;
    job->seed = seed ? strtoull(seed, NULL, 10) : 0;
    job->fuel = fuel ? strtoll(fuel, NULL, 10) : -1;
    job->partition = partition_at ? atoi(partition_at) : -1;
    job->budget = budget ? strtod(budget, NULL) : 1;
    return check_options(job);
}

/* Ends the program at the first line that is --- and returns what follows it, or NULL. */
static char *
split(char *program)
{
    for (char *line = program; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, "---", 3) == 0 && (line[3] == '\n' || line[3] == '\0')) {
            *line = '\0';
            return line[3] == '\n' ? line + 4 : NULL;
        }
    }
    return NULL;
}

int
main(int argc, char **argv)
{
    Job job = {.emit = "ir", .verify = true};
    int status = read_options(argc, argv, &job);
    if (status >= 0) {
        return status;
    }
    char *text = read_file(job.file);
    if (!text) {
        return complain("cannot read", job.file);
    }
    char *lines = job.schedule ? read_file(job.schedule) : NULL;
    if (job.schedule && !lines) {
        return complain("cannot read", job.schedule);
    }
    job.schedule = lines;
    bool all = true;
    for (char *program = text, *next; program; program = next) {
        next = split(program);
        all = do_program(&job, program) && all;
        fputs(next ? "---\n" : "", stdout);
    }
    free(lines);
    free(text);
    return all ? 0 : 1;
}
