/* The C compiler behind libtcc: what works swaps the entries, and whatever goes wrong with a
 * compiler leaves them, leaves no process and leaves no file. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "jit_test.h"

static const CcOptions behind = {NULL, NULL, false}, now_here = {NULL, NULL, true};

/* Submits text with `add` behind libtcc's code, and waits; true when gcc's code came. */
static bool
settle(Code *code, int add)
{
    char error[256], *text = double_text(add);
    CHECK(jit_cc_submit(code, text, &behind, error, sizeof error));
    free(text);
    CHECK(jit_cc_wait(-1));
    return code_tier(code, 0) == TIER_CC;
}

/* DLC_CC is a compiler that is no good: libtcc's code stays and one failure is counted. */
static void
fails(void)
{
    Code *code = tcc_double(0);
    CHECK(!settle(code, 1));
    CHECK(code_tier(code, 0) == TIER_TCC && run_double(code) == 42);
    CHECK(count_get(COUNT_GCC_FAILURES) == 1 && count_get(COUNT_GCC_COMPILES) == 0);
    CHECK(count_get(COUNT_SWAPS) == 0);
    code_unref(code);
}

void
test_cc_swaps(void)
{
    Code *code = tcc_double(0);
    KernelFn old = code_entry(code, 0);
    CHECK(settle(code, 1));
    CHECK(run_double(code) == 43 && code_entry(code, 0) != old);
    int in = 21, out = 0;
    CHECK(old((void *[]){&in, &out}, NULL, 0, 1) == 0 && out == 42);    /* still alive */
    CHECK(count_get(COUNT_GCC_COMPILES) == 1 && count_get(COUNT_SWAPS) == 1);
    CHECK(count_get(COUNT_GCC_FAILURES) == 0 && count_get(COUNT_CACHE_HITS) == 0);
    code_unref(code);
}

/* A thread that is in a loop of calls sees the new code without being told. */
static void *
call_until_swapped(void *arg)
{
    const Code *code = arg;
    int got;
    while ((got = run_double(code)) == 42)
        ;
    CHECK(got == 43);
    return NULL;
}

void
test_cc_swap_in_flight(void)
{
    pthread_t thread;
    Code *code = tcc_double(0);
    CHECK(pthread_create(&thread, NULL, call_until_swapped, code) == 0);
    CHECK(settle(code, 1));
    CHECK(pthread_join(thread, NULL) == 0);
    code_unref(code);
}

void
test_cc_words(void)
{
    setenv("DLC_CC", "  cc   -O1 -DUNUSED ", 1);
    Code *code = tcc_double(0);
    CHECK(settle(code, 1) && run_double(code) == 43);
    code_unref(code);
}

void
test_cc_error(void)
{
    char error[256] = "";
    Code *code = double_code();
    CHECK(!jit_cc_submit(code, "int twice(", &now_here, error, sizeof error));
    CHECK(strstr(error, "error") && code_entry(code, 0) == NULL);
    char *text = double_text(5);
    CHECK(jit_cc_submit(code, text, &now_here, error, sizeof error) && run_double(code) == 47);
    CHECK(count_get(COUNT_GCC_FAILURES) == 1 && count_get(COUNT_GCC_COMPILES) == 1);
    free(text);
    code_unref(code);
}

static void
not_taken(const char *reason)
{
    char error[256] = "", *text = double_text(1);
    Code *code = tcc_double(0);
    CHECK(!jit_cc_submit(code, text, &behind, error, sizeof error) && strstr(error, reason));
    CHECK(run_double(code) == 42);
    free(text);
    code_unref(code);
}

void
test_cc_missing(void)
{
    setenv("DLC_CC", "/nowhere/gcc", 1);
    not_taken("/nowhere/gcc");
}

void
test_cc_none(void)
{
    setenv("PATH", own_folder, 1);
    not_taken("no C compiler");
}

static pid_t
read_pid(void)
{
    char path[128];
    int pid = 0;
    snprintf(path, sizeof path, "%s/pid", own_folder);
    for (double end = now() + 20; pid == 0 && now() < end; usleep(1000)) {
        FILE *file = fopen(path, "r");
        if (file && fscanf(file, "%d;", &pid) != 1) {
            pid = 0;
        }
        if (file) {
            fclose(file);
        }
    }
    CHECK(pid > 0);
    return pid;
}

/* A compiler whose own child sleeps, and whose temporary file lies in TMPDIR. */
static void
write_sleeper(void)
{
    char body[256];
    snprintf(body, sizeof body, "touch $TMPDIR/cc123.s\nsleep 1000 &\necho \"$!;\" >%s/pid\nwait",
             own_folder);
    write_script("cc", body);
}

static void
check_gone(pid_t pid)
{
    for (double end = now() + 20; kill(pid, 0) == 0 && now() < end;) {
        usleep(1000);           /* until init has taken note of it */
    }
    CHECK(kill(pid, 0) < 0 && errno == ESRCH);
}

void
test_cc_sleeps(void)
{
    setenv("DLC_CC_TIMEOUT", "0.5", 1);
    write_sleeper();
    fails();
    check_gone(read_pid());
}

void
test_cc_shutdown(void)
{
    char error[256], *text = double_text(1);
    write_sleeper();
    Code *code = tcc_double(0);
    for (int i = 0; i < 3; i++) { /* one under way, two in the queue */
        CHECK(jit_cc_submit(code, text, &behind, error, sizeof error));
    }
    pid_t pid = read_pid();
    CHECK(!jit_cc_wait(0.01));
    double start = now();
    jit_cc_shutdown();
    CHECK(now() - start < 10);
    check_gone(pid);
    CHECK(run_double(code) == 42);
    CHECK(!jit_cc_submit(code, text, &behind, error, sizeof error));
    CHECK(jit_cc_wait(-1));
    free(text);
    code_unref(code);
}

/* What was submitted and dropped before its turn costs no compile. */
void
test_cc_unwanted(void)
{
    char error[256], body[256], path[128], *text[] = {double_text(1), double_text(2)};
    snprintf(path, sizeof path, "%s/go", own_folder);
    snprintf(body, sizeof body, "until [ -e %s ]; do sleep 0.01; done\nexec cc \"$@\"", path);
    write_script("cc", body);
    Code *code[] = {tcc_double(0), tcc_double(0)};
    for (int k = 0; k < 2; k++) { /* one under way, one in the queue */
        CHECK(jit_cc_submit(code[k], text[k], &behind, error, sizeof error));
        free(text[k]);
    }
    code_unref(code[1]);
    FILE *go = fopen(path, "w");
    CHECK(go && fclose(go) == 0);
    CHECK(jit_cc_wait(-1));
    CHECK(run_double(code[0]) == 43 && code_tier(code[0], 0) == TIER_CC);
    CHECK(count_get(COUNT_GCC_COMPILES) == 1 && count_get(COUNT_GCC_FAILURES) == 0);
    code_unref(code[0]);
}

void
test_cc_garbage(void)
{
    write_script("cc", "echo '\\001\\002 what?' >&2\n"
                       "while [ \"$1\" != -o ]; do shift; done\n"
                       "head -c 5000 /dev/urandom >\"$2\"");
    fails();
}

/* The header and half of the rest, as after a full disk: touching the lost pages would be fatal. */
void
test_cc_truncated(void)
{
    write_script("cc", "cc \"$@\" || exit 1\n"
                       "while [ \"$1\" != -o ]; do shift; done\n"
                       "size=$(wc -c <\"$2\")\n"
                       "head -c $((size / 2)) \"$2\" >\"$2\".half && mv \"$2\".half \"$2\"");
    fails();
}

void
test_cc_killed(void)
{
    write_script("cc", "kill -9 $$");
    fails();
}

void
test_cc_empty(void)
{
    write_script("cc", "exit 0");
    fails();
}

void
test_cc_floods(void)
{
    char error[256] = "", *text = double_text(0);
    write_script("cc", "head -c 3000000 /dev/zero | tr '\\0' x\nexit 3");
    Code *code = double_code();
    CHECK(!jit_cc_submit(code, text, &now_here, error, sizeof error));
    CHECK(strlen(error) == sizeof error - 1 && error[0] == 'x');
    free(text);
    code_unref(code);
}

/* An object that has not all entries swaps none. */
void
test_cc_lacks(void)
{
    char error[256];
    Code *code = code_new((const char *[]){"twice", "thrice"}, 2);
    char *text = double_text(0);
    CHECK(!jit_cc_submit(code, text, &now_here, error, sizeof error) && strstr(error, "thrice"));
    CHECK(!code_entry(code, 0) && !code_entry(code, 1));
    free(text);
    code_unref(code);
}

/* In a child of fork the thread is not there: it has an empty queue and can compile for itself. */
void
test_cc_fork(void)
{
    int status;
    char error[256], *text = double_text(1);
    Code *code = tcc_double(0);
    write_sleeper();
    CHECK(jit_cc_submit(code, text, &behind, error, sizeof error));
    pid_t sleeper = read_pid(), pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        unsetenv("DLC_CC");
        Code *own = tcc_double(3);
        CHECK(jit_cc_wait(0) && run_double(own) == 45);
        CHECK(settle(own, 4) && run_double(own) == 46);
        CHECK(kill(sleeper, 0) == 0);
        jit_cc_shutdown();      /* as at the end of a process */
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(kill(sleeper, 0) == 0);
    jit_cc_shutdown();
    check_gone(sleeper);
    free(text);
    code_unref(code);
}

/* A process that does not wait for its children cannot know how a compile ended: it is not trusted.
 * */
void
test_cc_sigchld(void)
{
    signal(SIGCHLD, SIG_IGN);
    fails();
    signal(SIGCHLD, SIG_DFL);
}

static const char marker[] = "This folder is of a compile by dlc, which removes it.\n";

/* A file in a folder, as old as it is said to be. */
static void
make_file(int folder, const char *name, const char *text, int hours)
{
    struct timespec then = {.tv_sec = time(NULL) - 3600 * hours}, times[] = {then, then};
    int fd = openat(folder, name, O_CREAT | O_WRONLY, 0600);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK(futimens(fd, times) == 0 && close(fd) == 0);
}

/* A folder in TMPDIR that has been left for two hours, with a marker file (unless NULL) and a file
 * of this age. */
static int
make_left(const char *name, const char *marked, const char *file, int hours)
{
    char path[160];
    struct timespec then = {.tv_sec = time(NULL) - 2 * 3600}, times[] = {then, then};
    snprintf(path, sizeof path, "%s/%s", tmp_folder, name);
    CHECK(mkdir(path, 0700) == 0);
    int fd = open(path, O_RDONLY | O_DIRECTORY);
    CHECK(fd >= 0);
    make_file(fd, file, "int x;\n", hours);
    if (marked) {
        make_file(fd, ".dlc-compile", marked, 2);
    }
    CHECK(futimens(fd, times) == 0);
    return fd;
}

/* Folders of killed compiles are removed: old ones with our marker file, whose process has gone. */
void
test_cc_sweep(void)
{
    static const char *const kept[] = {"dlc-young0", "dlc-locked", "dlc-other1",
                                       "dlc-other2", "dlc-nested", "dlc-of-others"};
    char error[256], path[160], *text = double_text(5);
    CHECK(close(make_left("dlc-left01", marker, "unit.c", 2)) == 0);
    CHECK(close(make_left("dlc-left02", marker, "cc1kLm.s", 2)) == 0);
    CHECK(close(make_left(kept[0], marker, "unit.c", 0)) == 0);  /* a compiler still writes to it */
    int locked = make_left(kept[1], marker, "unit.c", 2);
    CHECK(flock(locked, LOCK_EX) == 0);
    CHECK(close(make_left(kept[2], NULL, "unit.c", 2)) == 0);
    CHECK(close(make_left(kept[3], "", "unit.c", 2)) == 0);
    int nested = make_left(kept[4], marker, "unit.c", 2);
    struct stat st;
    CHECK(fstat(nested, &st) == 0 && mkdirat(nested, "thesis", 0700) == 0);
    CHECK(futimens(nested, (struct timespec[]){st.st_atim, st.st_mtim}) == 0 && close(nested) == 0);
    CHECK(close(make_left(kept[5], marker, "unit.c", 2)) == 0);
    Code *code = double_code();
    CHECK(jit_cc_submit(code, text, &(CcOptions){.wait = true}, error, sizeof error) &&
          run_double(code) == 47);
    free(text);
    code_unref(code);
    CHECK(count_files(tmp_folder) == (int)(sizeof kept / sizeof *kept));
    CHECK(close(locked) == 0);
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
        snprintf(path, sizeof path, "%s/%s/unit.c", tmp_folder, kept[k]);
        CHECK(access(path, F_OK) == 0);         /* whole */
        snprintf(path, sizeof path, "/bin/rm -r %s/%s", tmp_folder, kept[k]);
        CHECK(system(path) == 0);
    }
}
