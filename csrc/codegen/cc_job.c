/* What a compile needs to know, read from the options and the environment when it is submitted: the
 * compiler, its environment, the folders, and the key that names the result in the cache. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cc_job.h"

#ifdef __aarch64__
#define NATIVE "-mcpu=native"
#else
#define NATIVE "-march=native"
#endif

/* The text needs no header and no library: a compiler without libc's files will do.  No flag may
 * change a bit of a result; prelude.h says which it requires. */
const char *const cc_flags[] = {
    "-std=gnu11", "-O3", NATIVE, "-ffp-contract=off", "-fwrapv", "-fno-math-errno",
    "-fno-trapping-math", "-fno-stack-protector", "-fPIC", "-shared", "-nostdlib", "-pipe", "-w",
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

/* The path of a program, as a shell finds it, to be freed; NULL when there is none. */
static char *
find_program(const char *name)
{
    if (strchr(name, '/')) {
        return is_program(name) ? strdup(name) : NULL;
    }
    const char *p = getenv("PATH");
    while (p && *p) {
        size_t size = strcspn(p, ":");
        char *path = join(size ? p : ".", size ? size : 1, name);
        if (path && is_program(path)) {
            return path;
        }
        free(path);
        p += size + (p[size] == ':');
    }
    return NULL;
}

/* Splits "gcc -m64" in words and finds the first; a path with blanks is one word if it is a
 * program. */
static bool
set_compiler(Job *job, const char *command)
{
    char *whole = find_program(command);
    if (whole) {
        job->words[job->nwords++] = whole;
        return true;
    }
    for (const char *p = command + strspn(command, " \t"); *p && job->nwords < CC_WORDS;) {
        size_t size = strcspn(p, " \t");
        char *word = strndup(p, size), *path = NULL;
        if (word && job->nwords == 0) {
            path = find_program(word);
            free(word);
            word = path;
        }
        if (!word) {
            return false;
        }
        job->words[job->nwords++] = word;
        p += size;
        p += strspn(p, " \t");
    }
    return job->nwords > 0;
}

static bool
choose_compiler(Job *job, const char *asked)
{
    static const char *const usual[] = {"cc", "gcc", "clang"};
    if (asked) {
        return set_compiler(job, asked);
    }
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        if (set_compiler(job, usual[i])) {
            return true;
        }
    }
    return false;
}

/* ---- the key ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static Sha256 common;

/* The line of /proc/cpuinfo that lists what -march=native sees. */
static void
add_processor(Sha256 *s)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[4096];
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "flags", 5) == 0 || strncmp(line, "Features", 8) == 0) {
            sha256_add(s, line, strlen(line));
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    sha256_add(s, strip_isa(), strlen(strip_isa()) + 1);
}

/* A compiler is its files: every word that names a program, by real path, size and time. */
static void
add_compiler(Sha256 *s, const Job *job)
{
    for (int i = 0; i < job->nwords; i++) {
        char *program = find_program(job->words[i]),
             *path = program ? realpath(program, NULL) : NULL;
        struct stat st;
        sha256_add(s, job->words[i], strlen(job->words[i]) + 1);
        if (path && stat(path, &st) == 0) {
            int64_t facts[] = {st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
            sha256_add(s, path, strlen(path) + 1);
            sha256_add(s, facts, sizeof facts);
        }
        free(program);
        free(path);
    }
}

/* What is the same for every unit of this process. */
static void
begin_keys(void)
{
    sha256_begin(&common);
    sha256_add(&common, DLC_VERSION, sizeof DLC_VERSION);
    add_processor(&common);
    for (const char *const *flag = cc_flags; *flag; flag++) {
        sha256_add(&common, *flag, strlen(*flag) + 1);
    }
    sha256_add(&common, dlc_prelude_text, strlen(dlc_prelude_text));
}

static void
set_key(Job *job)
{
    uint8_t digest[SHA256_SIZE];
    pthread_once(&once, begin_keys);
    Sha256 s = common;
    add_compiler(&s, job);
    sha256_add(&s, job->text, strlen(job->text));
    sha256_end(&s, digest);
    for (int i = 0; i < SHA256_SIZE; i++) {
        snprintf(job->key + 2 * i, 3, "%02x", digest[i]);
    }
}

/* ---- jobs ---- */

void
job_free(Job *job)
{
    if (!job) {
        return;
    }
    code_unref(job->code);
    free(job->text);
    for (int i = 0; i < job->nwords; i++) {
        free(job->words[i]);
    }
    for (char **p = job->env; p && *p; p++) {
        free(*p);
    }
    free(job->env);
    free(job);
}

static bool
is_replaced(const char *variable)
{
    return strncmp(variable, "TMPDIR=", 7) == 0 || strncmp(variable, "LC_ALL=", 7) == 0
           || strncmp(variable, "LD_PRELOAD=", 11) == 0;
}

/* The environment of the child: ours, with messages in English, and two places free for
 * job_set_tmpdir and the end. */
static char **
copy_env(void)
{
    size_t n = 0, kept = 0;
    while (environ && environ[n]) {
        n++;
    }
    char **env = calloc(n + 3, sizeof *env);
    for (size_t i = 0; env && i < n; i++) {
        if (!is_replaced(environ[i]) && (env[kept] = strdup(environ[i]))) {
            kept++;
        }
    }
    if (env) {
        env[kept] = strdup("LC_ALL=C");
    }
    return env;
}

bool
job_set_tmpdir(Job *job, const char *folder)
{
    char **last = job->env;
    while (*last) {
        last++;
    }
    if (asprintf(last, "TMPDIR=%s", folder) < 0) {
        *last = NULL;
    }
    return *last != NULL;
}

static double
time_limit(void)
{
    const char *text = getenv("DLC_CC_TIMEOUT");
    double seconds = text ? atof(text) : 0;
    return seconds > 0 ? seconds : 120;
}

Job *
job_new(Code *code, const char *text, const CcOptions *options, char *error, size_t cap)
{
    const char *tmp = getenv("TMPDIR");
    Job *job = calloc(1, sizeof *job);
    if (!job || !(job->text = strdup(text)) || !(job->env = copy_env())) {
        snprintf(error, cap, "no memory for a compile");
        job_free(job);
        return NULL;
    }
    job->code = code_ref(code);
    job->seconds = time_limit();
    snprintf(job->work, sizeof job->work - 64, "%s", tmp && *tmp ? tmp : "/tmp");
    cache_path(options->cache, job->cache, sizeof job->cache);
    const char *asked = options->compiler ? options->compiler : getenv("DLC_CC");
    if (!choose_compiler(job, asked && *asked ? asked : NULL)) {
        snprintf(error, cap, "no C compiler: looked for %s",
                 asked && *asked ? asked : "cc, gcc and clang on the PATH");
        job_free(job);
        return NULL;
    }
    set_key(job);
    return job;
}
