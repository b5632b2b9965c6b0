/* build/test-jit: names the machine-code tests, or runs one in this process.
 *
 *   test-jit          the names       test-jit NAME     that test       test-jit all      each,
 *   forked
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "jit_test.h"

static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {
#define TEST(name) {#name, test_##name},
    TESTS(TEST)
#undef TEST
};
enum { COUNT = sizeof tests / sizeof *tests };

char tmp_folder[64], own_folder[64];

void
check_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, condition);
    exit(1);
}

char *
double_text(int add)
{
    char *text;
    CHECK(asprintf(&text,
                   "int twice(void *const *p, const long long *n, long long lo, long long hi)\n"
                   "{\n"
                   "    for (long long i = lo; i < hi; i++)\n"
                   "        ((int *)p[1])[i] = 2 * ((int *)p[0])[i] + %d;\n"
                   "    return 0;\n"
                   "}\n",
                   add) > 0);
    return text;
}

Code *
double_code(void)
{
    Code *code = code_new((const char *[]){"twice"}, 1);
    CHECK(code);
    return code;
}

int
run_double(const Code *code)
{
    int in = 21, out = -1;
    CHECK(code_entry(code, 0)((void *[]){&in, &out}, NULL, 0, 1) == 0);
    return out;
}

Code *
tcc_double(int add)
{
    Code *code = double_code();
    char error[256], *text = double_text(add);
    CHECK(jit_tcc_compile(code, text, error, sizeof error));
    free(text);
    return code;
}

void
write_script(const char *name, const char *body)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", own_folder, name);
    FILE *file = fopen(path, "w");
    CHECK(file && fprintf(file, "#!/bin/sh\n%s\n", body) > 0 && fclose(file) == 0);
    CHECK(chmod(path, 0700) == 0 && setenv("DLC_CC", path, 1) == 0);
}

int
count_files(const char *folder)
{
    int count = -2;             /* . and .. */
    DIR *dir = opendir(folder);
    CHECK(dir);
    while (readdir(dir)) {
        count++;
    }
    closedir(dir);
    return count;
}

double
now(void)
{
    return clock_seconds();
}

/* Runs one test in folders of its own, and sees that no temporary file is left. */
static void
run_test(void (*run)(void))
{
    char command[256];
    snprintf(tmp_folder, sizeof tmp_folder, "/tmp/dlc-test-tmp-XXXXXX");
    snprintf(own_folder, sizeof own_folder, "/tmp/dlc-test-own-XXXXXX");
    CHECK(mkdtemp(tmp_folder) && mkdtemp(own_folder));
    setenv("TMPDIR", tmp_folder, 1);
    setenv("DLC_CACHE_DIR", "", 1);
    unsetenv("DLC_CC");
    run();
    CHECK(count_files(tmp_folder) == 0);
    snprintf(command, sizeof command, "/bin/rm -rf %s %s", tmp_folder, own_folder);
    CHECK(system(command) == 0);
}

static int
run_all(void)
{
    int failures = 0;
    for (int i = 0; i < COUNT; i++) {
        int status;
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            run_test(tests[i].run);
            exit(0);
        }
        CHECK(waitpid(pid, &status, 0) == pid);
        failures += status != 0;
        printf("%-24s %s\n", tests[i].name, status == 0 ? "passed" : "FAILED");
        fflush(stdout);
    }
    return failures;
}

int
main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "all") == 0) {
        return run_all() != 0;
    }
    for (int i = 0; i < COUNT; i++) {
        if (argc != 2) {
            puts(tests[i].name);
        } else if (strcmp(argv[1], tests[i].name) == 0) {
            run_test(tests[i].run);
            return 0;
        }
    }
    return argc == 1 ? 0 : 2;
}
