/* The compiler, its flags, the cache folder, and their part, with the processor's, of each cache
 * key. Read from the options and the environment once for a plan.
 *
 * Without a compiler the cache still serves: a note in the folder names the compiler that last
 * filled it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cc_job.h"
#include "codegen/processor.h"

#ifdef __aarch64__
#define NATIVE "-mcpu=native"
#else
#define NATIVE "-march=native"
#endif

/* The text needs no header and no library: a compiler without libc's files will do.  No flag may
 * change a bit of a result; prelude.h says which it requires. */
const char *const cc_flags[] = {
    "-std=gnu11",
    "-O3",
    NATIVE,
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-fno-stack-protector",
    "-fPIC",
    "-shared",
    "-nostdlib",
    "-pipe",
    "-w",
    /* gcc would make the steps of columns one loop, which it cannot vectorise */
    "--param=unroll-jam-max-unroll=1",
    /* see Note [Selects are no branches] */
    "-fno-thread-jumps",
    NULL,
};

/* ---- the compiler ---- */

static char *
join(const char *folder, size_t size, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%.*s/%s", (int)size, folder, name) < 0 ? NULL : path;
}

static bool
is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* From "/": the compiler runs in another folder.  Takes the path. */
static char *
from_top(char *path)
{
    char here[CC_PATH];
    if (!path || *path == '/' || !getcwd(here, sizeof here)) {
        return path;
    }
    char *whole = join(here, strlen(here), path);
    free(path);
    return whole;
}

/* The path of a program, as a shell finds it, to be freed; NULL when there is none. */
static char *
find_program(const char *name)
{
    if (strchr(name, '/')) {
        return is_program(name) ? from_top(strdup(name)) : NULL;
    }
    const char *p = getenv("PATH");
    while (p && *p) {
        size_t size = strcspn(p, ":");
        char *path = join(size ? p : ".", size ? size : 1, name);
        if (path && is_program(path)) {
            return from_top(path);
        }
        free(path);
        p += size + (p[size] == ':');
    }
    return NULL;
}

/* Splits "gcc -m64" in words and finds the first; a path with blanks is one word if it is a
 * program. */
static bool
set_compiler(CcTarget *target, const char *command)
{
    char *whole = find_program(command);
    if (whole) {
        target->words[target->nwords++] = whole;
        return true;
    }
    for (const char *p = command + strspn(command, " \t"); *p && target->nwords < CC_WORDS;) {
        size_t size = strcspn(p, " \t");
        char *word = strndup(p, size), *path = NULL;
        if (word && target->nwords == 0) {
            path = find_program(word);
            free(word);
            word = path;
        }
        if (!word) {
            return false;
        }
        target->words[target->nwords++] = word;
        p += size;
        p += strspn(p, " \t");
    }
    return target->nwords > 0;
}

static bool
choose_compiler(CcTarget *target, const char *asked)
{
    static const char *const usual[] = {"cc", "gcc", "clang"};
    if (asked) {
        return set_compiler(target, asked);
    }
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        if (set_compiler(target, usual[i])) {
            return true;
        }
    }
    return false;
}

/* A word of the compiler's, so that kernels with and without lines have other keys. */
static void
add_debugging(CcTarget *target)
{
    char *word = target->nwords && target->nwords < CC_WORDS && text_is_yes(getenv("DLC_GDB"))
                     ? strdup("-g1")
                     : NULL;
    if (word) {
        target->words[target->nwords++] = word;
    }
}

/* ---- the key ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static Sha256 common;
static Key common_key;

/* Of the first processor in /proc/cpuinfo: what it can do, and which model it is, for which
 * -march=native schedules instructions. */
void
cc_target_processor(FILE *file, Sha256 *s)
{
    static const char *const facts[] = {"flags",   "Features",        "vendor_id", "cpu family",
                                        "model\t", "CPU implementer", "CPU part"};
    char line[8192];
    while (fgets(line, sizeof line, file) && *line != '\n') {
        for (size_t k = 0; k < sizeof facts / sizeof *facts; k++) {
            if (strncmp(line, facts[k], strlen(facts[k])) == 0) {
                sha256_add(s, line, strlen(line));
            }
        }
    }
}

static void
add_processor(Sha256 *s)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (file) {
        cc_target_processor(file, s);
        fclose(file);
    }
    const char *isa = isa_info[processor_isa()].name;
    sha256_add(s, isa, strlen(isa) + 1);
}

/* Variables of the child's environment that give a compiler other programs or other flags. */
static void
add_environment(Sha256 *s)
{
    static const char *const names[] = {"COMPILER_PATH", "GCC_EXEC_PREFIX", "CCC_OVERRIDE_OPTIONS"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const char *value = getenv(names[k]);
        if (value) {
            sha256_add(s, names[k], strlen(names[k]) + 1);
            sha256_add(s, value, strlen(value) + 1);
        }
    }
}

/* A compiler is its files, every word that names a program, by real path, size and time; and what
 * it reads in the environment. */
static void
identify_compiler(const CcTarget *target, Key *out)
{
    Sha256 state, *s = &state;
    sha256_begin(s);
    for (int i = 0; i < target->nwords; i++) {
        char *program = find_program(target->words[i]),
             *path = program ? realpath(program, NULL) : NULL;
        struct stat st;
        sha256_add(s, target->words[i], strlen(target->words[i]) + 1);
        if (path && stat(path, &st) == 0) {
            int64_t facts[] = {st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
            sha256_add(s, path, strlen(path) + 1);
            sha256_add(s, facts, sizeof facts);
        }
        free(program);
        free(path);
    }
    add_environment(s);
    key_end(s, out);
}

/* Begins the keys with the parts that are equal for all units of this process. */
static void
begin_keys(void)
{
    sha256_begin(&common);
    sha256_add(&common, DLC_VERSION, sizeof DLC_VERSION);
    add_processor(&common);
    for (const char *const *flag = cc_flags; *flag; flag++) {
        sha256_add(&common, *flag, strlen(*flag) + 1);
    }
    sha256_add(&common, dlc_sources, strlen(dlc_sources));
    Sha256 copy = common;
    key_end(&copy, &common_key);
}

/* Finds the compiler that last filled the cache, if there is no compiler here. */
static void
recall_compiler(CcTarget *target)
{
    Cache cache;
    if (*target->cache && cache_open(&cache, target->cache)) {
        char *noted = cache_read_note(&cache, common_key.hex);
        size_t size = sizeof target->compiler.hex - 1;
        if (noted && strlen(noted) == size && strspn(noted, "0123456789abcdef") == size) {
            memcpy(target->compiler.hex, noted, size);
        }
        free(noted);
        cache_close(&cache);
    }
}

void
cc_target_note(const CcTarget *target, const Cache *cache)
{
    cache_write_note(cache, common_key.hex, target->compiler.hex);
}

static void
begin_key(CcTarget *target)
{
    target->head = common;
    sha256_add(&target->head, target->compiler.hex, sizeof target->compiler.hex);
}

CcTarget *
cc_target_new(const CcOptions *options)
{
    CcTarget *target = calloc(1, sizeof *target);
    if (!target) {
        return NULL;
    }
    target->refs = 1;
    log_configure();
    target->bound = cache_bound();
    cache_path(options->cache, target->cache, sizeof target->cache);
    const char *asked = options->compiler ? options->compiler : getenv("DLC_CC");
    target->named = asked && *asked;
    if (!choose_compiler(target, target->named ? asked : NULL)) {
        snprintf(target->why, sizeof target->why, "no C compiler: looked for %.128s",
                 target->named ? asked : "cc, gcc and clang on the PATH");
    }
    pthread_once(&once, begin_keys);
    add_debugging(target);
    if (target->nwords) {
        identify_compiler(target, &target->compiler);
    } else {
        recall_compiler(target);
    }
    begin_key(target);
    return target;
}

void
cc_target_origin(const CcTarget *target, Key *common_out, Key *compiler)
{
    *common_out = common_key;
    *compiler = target->compiler;
}

void
cc_target_assume(CcTarget *target, const char *common_text, const char *compiler)
{
    if (target->nwords == 0 && strcmp(common_text, common_key.hex) == 0) {
        snprintf(target->compiler.hex, sizeof target->compiler.hex, "%s", compiler);
        begin_key(target);
    }
}

CcTarget *
cc_target_ref(CcTarget *target)
{
    target->refs++;
    return target;
}

void
cc_target_unref(CcTarget *target)
{
    if (!target || --target->refs != 0) {
        return;
    }
    for (int i = 0; i < target->nwords; i++) {
        free(target->words[i]);
    }
    free(target);
}

void
cc_target_key(const CcTarget *target, const void *content, size_t size, Key *out)
{
    Sha256 s = target->head;
    sha256_add(&s, content, size);
    key_end(&s, out);
}

bool
cc_target_compiles(const CcTarget *target)
{
    return target->nwords > 0;
}

const char *
cc_target_cache(const CcTarget *target)
{
    return target->cache;
}

/* Note [Selects are no branches]
 *
 * Two selects by one condition are two branches to gcc until its vectoriser makes selects of
 * them again.  Before that its jump threading joins the branches, and what stands between the
 * two, a load for the second select, becomes part of one branch.  The vectoriser then has to
 * load under a mask, which costs more than the load does.  gcc 11 to 11.4, 12 to 12.3, 13 to
 * 13.2 do worse: where a loop of a few steps is unrolled and its masks were loaded in another
 * order, they load in that order as well and so read wrong elements (their bug 114375;
 * where_of_a_transposed_condition.dlc of tests/regress).  The emitter writes each load
 * outside of the select, so without jump threading none is masked. */
