/* libtcc: what it compiles runs, what it refuses is reported, and its pages are never both writable
 * and executable. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "codegen/micro/micro.h"
#include "jit_test.h"

#define HEAD "(void *const *p, const long long *n, long long lo, long long hi)"

void
test_tcc_runs(void)
{
    Code *code = tcc_double(0);
    CHECK(run_double(code) == 42 && code_tier(code, 0) == TIER_TCC);
    CHECK(count_get(COUNT_TCC_COMPILES) == 1 && count_get(COUNT_SWAPS) == 0);
    CHECK(strcmp(count_name(COUNT_TCC_COMPILES), "tcc_compiles") == 0);
    code_unref(code_ref(code));
    CHECK(run_double(code) == 42);
    code_unref(code);
}

/* A text gets the routines of the extension by naming them. */
void
test_tcc_strips(void)
{
    char text[512], error[256];
    CHECK(strip_find("strip_exp_f32") && !strip_find("strip_of_no_op") && processor_isa() < ISAS);
    CHECK(micro_find("micro_f32") == (void *)micro_of("f32")->micro && !micro_find("micro_c64"));
    CHECK(micro_find("micro_unpacked_i8") == (void *)micro_of("i8")->unpacked &&
          !micro_find("micro"));
    CHECK(!micro_find("micros_f32"));
    CHECK(micro_find("pack_f64") == (void *)micro_of("f64")->pack && !micro_of("f6"));
    snprintf(text, sizeof text,
             "/* my_strip_exp_f32 */ void strip_exp_f32(); int get" HEAD
             " { *(void **)p[0] = (void *)strip_exp_f32; return 0; }");
    Code *code = code_new((const char *[]){"get"}, 1);
    CHECK(jit_tcc_compile(code, text, error, sizeof error));
    void *got = NULL;
    CHECK(code_entry(code, 0)((void *[]){&got}, NULL, 0, 0) == 0);
    CHECK(got == strip_find("strip_exp_f32"));
    code_unref(code);
}

static void
refuse(const char *text, const char *reason)
{
    Code *code = double_code();
    char error[256] = "";
    CHECK(!jit_tcc_compile(code, text, error, sizeof error));
    CHECK(strstr(error, reason));
    CHECK(code_entry(code, 0) == NULL && code_tier(code, 0) == TIER_NONE);
    code_unref(code);
}

void
test_tcc_errors(void)
{
    refuse("int twice(", "error");
    refuse("int other" HEAD " { return 0; }", "no function twice");
    refuse("int strip_of_no_op(); int twice" HEAD " { return strip_of_no_op(); }",
           "strip_of_no_op");
    refuse("#include <stdio.h>\n", "stdio.h");
    refuse("int twice" HEAD " { return printf(\"\"); }", "printf");
    Code *code = tcc_double(0);         /* and libtcc is none the worse for it */
    CHECK(run_double(code) == 42);
    CHECK(count_get(COUNT_TCC_COMPILES) == 1);
    code_unref(code);
}

/* What the compiled code needs beyond its text: conversions, copies of structures. */
void
test_tcc_runtime(void)
{
    const char *text =
        "typedef struct { long long a[40]; } Big;\n"
        "int twice" HEAD "\n"
        "{\n"
        "    double *d = p[0]; float *f = p[1]; unsigned long long *u = p[2];\n"
        "    Big x = {{7}}, y[2]; y[1] = x;\n"
        "    u[1] = (unsigned long long)d[0]; u[2] = (unsigned long long)f[0];\n"
        "    d[1] = (double)u[0]; f[1] = (float)u[0]; u[3] = y[1].a[0] + y[1].a[39];\n"
        "    u[4] = u[0] / 10 + u[0] % 10 + (u[0] >> 60);\n"
        "    return 0;\n"
        "}\n";
    double d[2] = {0x1.8p63, 0};
    float f[2] = {0x1.4p63f, 0};
    unsigned long long u[5] = {0xffffffffffff0000ull};
    char error[256];
    Code *code = double_code();
    CHECK(jit_tcc_compile(code, text, error, sizeof error));
    CHECK(code_entry(code, 0)((void *[]){d, f, u}, NULL, 0, 0) == 0);
    CHECK(u[1] == 0xc000000000000000ull && u[2] == 0xa000000000000000ull && u[3] == 7);
    CHECK(d[1] == (double)u[0] && f[1] == (float)u[0]);
    CHECK(u[4] == u[0] / 10 + u[0] % 10 + (u[0] >> 60));
    code_unref(code);
}

/* The protection ("r-xp") of the mapping that holds an address. */
static void
protection(const void *address, char out[5])
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], bits[5];
    unsigned long lo, hi, at = (unsigned long)address;
    CHECK(maps);
    out[0] = '\0';
    while (fgets(line, sizeof line, maps)) {
        CHECK(sscanf(line, "%lx-%lx %4s", &lo, &hi, bits) == 3);
        CHECK(!(bits[1] == 'w' && bits[2] == 'x'));
        if (at >= lo && at < hi) {
            memcpy(out, bits, 5);
        }
    }
    fclose(maps);
}

void
test_tcc_pages(void)
{
    char bits[5];
    Code *code = tcc_double(0);
    void *entry = *(void **)&(KernelFn){code_entry(code, 0)};
    protection(entry, bits);
    CHECK(strcmp(bits, "r-xp") == 0);
    code_unref(code);
    protection(entry, bits);
    CHECK(strcmp(bits, "r-xp") != 0);   /* its pages are gone with it */
}

static size_t
address_space(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages;
    CHECK(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void *
compile_many(void *arg)
{
    int base = *(int *)arg;
    for (int i = 0; i < 25; i++) {
        Code *code = tcc_double(base + i);
        CHECK(run_double(code) == 42 + base + i);
        code_unref(code);
    }
    return NULL;
}

void
test_tcc_threads(void)
{
    pthread_t threads[4];
    int bases[4] = {0, 100, 200, 300};
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_create(&threads[i], NULL, compile_many, &bases[i]) == 0);
    }
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(count_get(COUNT_TCC_COMPILES) == 100);
}

/* Without memory a compile fails, wherever in libtcc that is found out, and the process goes on. */
void
test_tcc_no_memory(void)
{
#ifdef __SANITIZE_ADDRESS__
    return;                     /* its own memory is not to be limited */
#endif
    char error[256];
    int failed = 0;
    for (size_t room = 0; room < 4 << 20; room += 16 << 10) {
        struct rlimit old, tight;
        Code *code = double_code();
        char *text = double_text(0);
        CHECK(getrlimit(RLIMIT_AS, &old) == 0);
        tight = (struct rlimit){address_space() + room, old.rlim_max};
        CHECK(setrlimit(RLIMIT_AS, &tight) == 0);
        bool ok = jit_tcc_compile(code, text, error, sizeof error);
        CHECK(setrlimit(RLIMIT_AS, &old) == 0);
        CHECK(ok ? run_double(code) == 42 : *error && !code_entry(code, 0));
        failed += !ok;
        free(text);
        code_unref(code);
    }
    CHECK(failed > 0);
}
