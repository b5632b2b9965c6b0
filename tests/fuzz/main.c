/* test-fuzz: runs random programs, or given ones, through every way there is to run them.
 *
 *     test-fuzz [--seed N] [--count N] [--tiers tcc,cc,c|none] [--keep FOLDER] [--products]
 *     [--decoded] [--flow] [--steps] [--rows] [--damage] [--layouts] [--schedules] [--choices]
 *     [--fuel N,STEP] [--print FOLDER] [--loops FILE] [file.dlc ...]
 *
 * --print: the random programs are written to FOLDER/<seed>.dlc, and none of them runs.
 * --products: random programs that multiply, with operands of every layout.
 * --decoded: those of few rows and a weight of few bits alone, with the interpreter's bits.
 * --flow: random programs with loops and branches.
 * --steps: random programs with loops over the elements of arrays, which write parts of them.
 * --rows: random programs of a single thing that is done to rows.
 *
 * --fuel: a file runs with fuel for N single rewrites, for N + STEP, and so on up to all of them.
 * --layouts: operands of the files lie in memory as the seed says, and sizes are near a panel's.
 * --choices: loops come to stand in an if, and copies of them in its else.
 * --schedules: marks of each target's loops are drawn, of those that the verifier accepts.
 * --loops: those loops are added to FILE.<target>.dlc.
 * --damage: a random program gets random damage; that it is refused before it is compiled is no
 *   failure, nor that a pass refuses a size which does not fit in 64 bits, or strides without a
 *   proof.
 * Each case runs in a process of its own, so that a crash is a finding like any other.  Of a
 * program that fails the smallest form found goes to FOLDER/<seed>.dlc.  Exit status: 1 when a
 * program failed. */
#include "mutate.h"
#include "run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 20, WAITING = 15 * SECONDS };
enum { MESSAGE = 1000, REFUSED = 5, FUEL_LEFT = 6, MOST_FUEL = 2000 };

typedef struct { uint64_t ran, failed, refused; } Counts;

static volatile const char *under_way = "";    /* read by the handler of signals */

static void
note_stage(const char *name)
{
    under_way = name;
}

/* A case that hangs is one too: it computes for SECONDS, or waits for much longer, as it also does
 * where others take the processor.  That is counted by the tick: however long a process is halted,
 * it gets one for it. */
static bool
has_time_left(int number)
{
    static volatile sig_atomic_t ticks;
    struct timespec used = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return number == SIGALRM && ++ticks < WAITING && used.tv_sec < SECONDS;
}

static void
on_signal(int number)
{
    if (has_time_left(number)) {
        return;
    }
    char text[100];
    int n = snprintf(text, sizeof text, "%s: %s", (const char *)under_way,
                     number == SIGALRM ? "takes too long" : "crashed");
    n = (int)write(STDERR_FILENO, text, (size_t)n);
    _exit(n > 0 ? 3 : 4);
}

static void
body(Cx *cx, void *arg)
{
    Case *c = arg;
    c->fuel = run_case(cx, c, note_stage);
}

/* In the child: the message goes to standard error, which is the parent's pipe. */
static _Noreturn void
child(Case *c)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM, SIGTRAP};
    for (int k = 0; k < 7; k++) {
        signal(signals[k], on_signal);
    }
    const struct itimerval tick = {{1, 0}, {1, 0}};
    setitimer(ITIMER_REAL, &tick, NULL);
    Cx *cx = cx_new();
    bool done = cx && cx_try(cx, body, c);
    if (!done) {
        fprintf(stderr, "%s: %s", (const char *)under_way, cx ? cx_diag(cx)->message : "no memory");
    }
    bool early = strcmp((const char *)under_way, FUZZ_FIRST_STAGE) == 0;
    bool too_large = !done && cx && cx_diag(cx)->code == DIAG_SIZE;
    bool refused = !done && c->damaged && (early || too_large);
    cx_free(cx);
    fflush(stderr);
    _exit(!done ? (refused ? REFUSED : 1) : c->limited && c->fuel > 0 ? FUEL_LEFT : 0);
}

/* How its process ended; 0 or FUEL_LEFT: well.  message says how. */
static int
case_status(Case *c, char *message)
{
    int ends[2], status = 0;
    size_t n = 0;
    if (pipe(ends) < 0) {
        return 0;
    }
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        child(c);
    }
    close(ends[1]);
    for (ssize_t got = 1; got > 0 && n < MESSAGE - 1; n += got > 0 ? (size_t)got : 0) {
        got = read(ends[0], message + n, MESSAGE - 1 - n);
    }
    message[n] = '\0';
    close(ends[0]);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

typedef struct { Case *c; const char *message, *keep; } Finding;

/* In the same way of running: what stands before the first colon of the message. */
static bool
fails_likewise(void *arg, const char *text)
{
    const Finding *f = arg;
    Case c = *f->c;
    char message[MESSAGE];
    c.text = text;
    int status = case_status(&c, message);
    return status != 0 && status != FUEL_LEFT && status != REFUSED
           && strncmp(message, f->message, strcspn(f->message, ":") + 1) == 0;
}

/* The schedules that were drawn for it: it runs once more. */
static void
keep_loops(const Finding *f, const char *text, const char *path)
{
    Case c = *f->c;
    char message[MESSAGE];
    c.text = text;
    c.loops = path;
    case_status(&c, message);
}

static void
shrink_body(Cx *cx, void *arg)
{
    Finding *f = arg;
    Text text = {.cx = cx};
    print_fn(f->c->generate(cx, f->c->seed), &text);
    const char *smallest = f->c->text ? f->c->text : text.text;
    if (fails_likewise(f, smallest)) {       /* sizes are chosen anew */
        smallest = shrink(cx, smallest, fails_likewise, f);
    }
    printf("%s\n", smallest);
    char *path = cx_format(cx, "%s/%llu.dlc", f->keep ? f->keep : "",
                           (unsigned long long)f->c->seed);
    FILE *file = f->keep ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%s", smallest);
        fclose(file);
    }
    if (f->keep && f->c->scheduled) {
        keep_loops(f, smallest, cx_format(cx, "%s/%llu", f->keep, (unsigned long long)f->c->seed));
    }
}

/* Returns whether the program ran well and some of its fuel was left. */
static bool
report(Case *c, const char *name, const char *keep, Counts *counts)
{
    char message[MESSAGE];
    int status = case_status(c, message);
    counts->ran++;
    counts->refused += status == REFUSED;
    if (status == 0 || status == FUEL_LEFT || status == REFUSED) {
        return status == FUEL_LEFT;
    }
    counts->failed++;
    printf("\n%s: %s\n", name, message);
    if (c->limited) {
        printf("with --fuel %lld\n", (long long)c->fuel);
    }
    Finding f = {c, message, keep};
    Cx *cx = cx_new();
    if (cx && !cx_try(cx, shrink_body, &f)) {
        printf("cannot be shrunk: %s\n", cx_diag(cx)->message);
    }
    cx_free(cx);
    fflush(stdout);
    return false;
}

/* With fuel for c->fuel single rewrites, then for step more each time; the last prefix is the
 * whole. */
static void
sweep(Case *c, const char *name, int64_t step, Counts *counts)
{
    uint64_t failed = counts->failed;
    c->limited = true;
    while (!report(c, name, NULL, counts) && counts->failed == failed) {
        c->fuel += step;
        if (c->fuel > MOST_FUEL) {
            printf("%s: there is no end to its rewrites\n", name);
            counts->failed++;
        }
    }
}

static void
damage_body(Cx *cx, void *arg)
{
    Case *c = arg;
    Text text = {.cx = cx};
    uint64_t state = sample_seed(c->seed);
    print_fn(c->generate(cx, c->seed), &text);
    c->text = mutate(cx, text.text, &state);
}

static void
lay_out_body(Cx *cx, void *arg)
{
    Case *c = arg;
    Text text = {.cx = cx};
    uint64_t state = sample_seed(c->seed);
    Fn *fn = parse_fn(cx, c->text, "case");
    relay(fn, &state);
    verify_fn(fn);
    print_fn(fn, &text);
    c->text = text.text;
}

/* The program of a file, with operands that lie as the seed says. */
static void
run_laid_out(Case *c, const char *name, Counts *counts)
{
    Cx *cx = cx_new();
    if (cx && cx_try(cx, lay_out_body, c)) {
        report(c, name, NULL, counts);
    }
    else {
        printf("%s: %s\n", name, cx ? cx_diag(cx)->message : "no memory");
        counts->failed++;
    }
    cx_free(cx);
}

/* The program of the seed, or what is left of it. */
static void
run_seed(Case *c, const char *keep, Counts *counts)
{
    char name[40];
    snprintf(name, sizeof name, "seed %llu", (unsigned long long)c->seed);
    Cx *cx = c->damaged ? cx_new() : NULL;
    c->text = NULL;
    if (cx && !cx_try(cx, damage_body, c)) {
        printf("%s: %s\n", name, cx_diag(cx)->message);
        counts->failed++;
    }
    report(c, name, keep, counts);
    cx_free(cx);
}

typedef struct { const Case *c; const char *folder; } Printed;

static void
print_body(Cx *cx, void *arg)
{
    const Printed *p = arg;
    Text text = {.cx = cx};
    print_fn(p->c->generate(cx, p->c->seed), &text);
    const char *path = cx_format(cx, "%s/%llu.dlc", p->folder, (unsigned long long)p->c->seed);
    FILE *file = fopen(path, "w");
    if (!file || fputs(text.text, file) < 0 || fclose(file) != 0) {
        fail_as(cx, DIAG_ARGUMENT, "%s cannot be written", path);
    }
}

static void
print_seed(const Case *c, const char *folder, Counts *counts)
{
    Cx *cx = cx_new();
    if (!cx || !cx_try(cx, print_body, &(Printed){c, folder})) {
        printf("seed %llu: %s\n", (unsigned long long)c->seed,
               cx ? cx_diag(cx)->message : "no memory");
        counts->failed++;
    }
    cx_free(cx);
}

static char *
read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    if (!file || !text || fread(text, 1, (1 << 20) - 1, file) == 0) {
        fprintf(stderr, "test-fuzz: cannot read %s\n", path);
        exit(2);
    }
    fclose(file);
    return text;
}

static unsigned
read_tiers(const char *names)
{
    static const char *const known[] = {"tcc", "cc", "c"};
    unsigned tiers = 0;
    while (*names) {
        size_t length = strcspn(names, ",");
        for (int k = 0; k < 3; k++) {
            bool same = strlen(known[k]) == length && memcmp(known[k], names, length) == 0;
            tiers |= same ? 1u << k : 0;
        }
        names += length + (names[length] == ',');
    }
    return tiers;
}

int
main(int argc, char **argv)
{
    Case c = {.generate = gen_fn, .tiers = RUN_TCC | RUN_CC};
    Counts counts = {0};
    uint64_t seed = 1, count = 100;
    int64_t fuel = 0, step = 0;
    const char *keep = NULL, *printed = NULL;
    bool files = false;
    for (int k = 1; k < argc; k++) {
        bool more = k + 1 < argc && argv[k][0] == '-';
        if (more && strcmp(argv[k], "--seed") == 0) {
            seed = strtoull(argv[++k], NULL, 10);
        }
        else if (more && strcmp(argv[k], "--count") == 0) {
            count = strtoull(argv[++k], NULL, 10);
        }
        else if (more && strcmp(argv[k], "--keep") == 0) {
            keep = argv[++k];
        }
        else if (more && strcmp(argv[k], "--print") == 0) {
            printed = argv[++k];
        }
        else if (more && strcmp(argv[k], "--loops") == 0) {
            c.loops = argv[++k];
        }
        else if (more && strcmp(argv[k], "--tiers") == 0) {
            c.tiers = read_tiers(argv[++k]);
        }
        else if (more && strcmp(argv[k], "--fuel") == 0) {
            char *comma;
            fuel = strtoll(argv[++k], &comma, 10);
            step = *comma ? strtoll(comma + 1, NULL, 10) : 1;
        }
        else if (strcmp(argv[k], "--products") == 0) {
            c.generate = gen_product;
        }
        else if (strcmp(argv[k], "--decoded") == 0) {
            c.generate = gen_decoded_product;
            c.exact = true;
        }
        else if (strcmp(argv[k], "--flow") == 0) {
            c.generate = gen_flow;
        }
        else if (strcmp(argv[k], "--steps") == 0) {
            c.generate = gen_steps;
        }
        else if (strcmp(argv[k], "--rows") == 0) {
            c.generate = gen_rows;
        }
        else if (strcmp(argv[k], "--layouts") == 0) {
            c.laid_out = true;
        }
        else if (strcmp(argv[k], "--schedules") == 0) {
            c.scheduled = true;
        }
        else if (strcmp(argv[k], "--choices") == 0) {
            c.chooses = true;
        }
        else if (strcmp(argv[k], "--damage") == 0) {
            c.damaged = true;
        }
        else if (argv[k][0] == '-') {
            fprintf(stderr, "usage: test-fuzz [--seed N] [--count N] [--tiers tcc,cc,c|none] "
                    "[--keep FOLDER] [--products] [--decoded] [--flow] [--steps] [--rows] "
                    "[--damage] [--layouts] [--schedules] [--choices] [--fuel N,STEP] "
                    "[--print FOLDER] [--loops FILE] [file.dlc ...]\n");
            return 2;
        }
        else {
            files = true;
            char *text = read_file(argv[k]);
            c.text = text;
            c.seed = seed;
            c.fuel = fuel;
            if (c.laid_out) {
                run_laid_out(&c, argv[k], &counts);
            }
            else if (step > 0) {
                sweep(&c, argv[k], step, &counts);
            }
            else {
                report(&c, argv[k], NULL, &counts);
            }
            free(text);
        }
    }
    for (uint64_t k = 0; !files && k < count; k++) {
        c.seed = seed + k;
        if (printed) {
            print_seed(&c, printed, &counts);
        }
        else {
            run_seed(&c, keep, &counts);
        }
    }
    if (c.damaged) {
        printf("%llu refused\n", (unsigned long long)counts.refused);
    }
    printf("%llu programs, %llu failed\n", (unsigned long long)counts.ran,
           (unsigned long long)counts.failed);
    return counts.failed != 0;
}
