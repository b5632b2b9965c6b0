/* gcc, or another C compiler, as a child process: the tier that is faster when settled.
 *
 * One thread, started by the first submission, compiles one unit after the other at low priority
 * and swaps the entries in; a unit that nobody can call any more it leaves out, or compiles last,
 * if the next process will want it in the cache.  It lets a moment pass first: beside a compiler
 * that has just begun, the threads of the first call may wait some milliseconds for a processor.
 * All that the environment says (PATH, TMPDIR, the cache folder, ...) is read in the thread that
 * submits, because Python changes the environment under its own lock.  A compiler that is missing,
 * fails, hangs or writes garbage leaves the entries as they are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cc_job.h"
#include "codegen/processor.h"
#include "codegen/rewrites.h"
#include "codegen/lock.h"

enum { NICENESS = 10, MAX_ERROR = 2048 };

#define DELAY 0.02 /* seconds from a submission to the compile, if nobody waits for it */

/* The queue and its thread. */
static pthread_cond_t changed; /* by the monotonic clock; see start() */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_t thread;
static bool running, ended;
static atomic_bool stop;
static Job *first, **last = &first;
static int pending; /* jobs in the queue or under way */
static int waiting; /* threads, for the jobs */

/* ---- loading ---- */

static void
close_object(void *object, size_t size)
{
    (void)size;
    dlclose(object);
}

/* Replaces every entry of the code by one of the object, or none. */
static bool
install(Code *code, void *object, char *error, size_t cap)
{
    const char *missing = NULL;
    for (int k = 0; k < code_count(code) && !missing; k++) {
        if (!dlsym(object, code_name(code, k))) {
            missing = code_name(code, k);
        }
    }
    if (missing || !code_own(code, close_object, object, 0)) {
        snprintf(error, cap, "%s: not in the object", missing ? missing : "no memory");
        dlclose(object);
        return false;
    }
    for (int k = 0; k < code_count(code); k++) {
        code_set(code, k, (KernelFn)dlsym(object, code_name(code, k)), TIER_CC);
    }
    return true;
}

/* The entries of the unit that one of its objects has: a kernel of it may come from another
 * unit. */
static bool
install_part(Code *code, void *object)
{
    if (!code_own(code, close_object, object, 0)) {
        dlclose(object);
        return false;
    }
    for (int k = 0; k < code_count(code); k++) {
        KernelFn fn = (KernelFn)dlsym(object, code_name(code, k));
        if (fn) {
            code_set(code, k, fn, TIER_CC);
        }
    }
    return true;
}

static bool
is_settled(const Code *code)
{
    for (int k = 0; k < code_count(code); k++) {
        if (code_tier(code, k) < TIER_CC) {
            return false;
        }
    }
    return true;
}

/* Takes entries from the cache; true if it has all of them. */
static bool
from_cache(Job *job)
{
    Cache cache;
    if (!*job->target->cache || !cache_open(&cache, job->target->cache)) {
        return false;
    }
    int hits = 0;
    for (int k = 0; k < job->nkeys && !is_settled(job->code); k++) {
        void *object = cache_load(&cache, job->keys[k].hex);
        hits += object && install_part(job->code, object);
    }
    cache_close(&cache);
    bool settled = is_settled(job->code);
    count_add(COUNT_CACHE_HITS, settled ? hits : 0);
    return settled;
}

/* Reads the output of the compiler; NULL if it is no shared object. */
static char *
read_object(int fd, size_t size)
{
    char *data = file_read(fd, size);
    if (data && !object_is_whole(data, size)) {
        free(data);
        return NULL;
    }
    return data;
}

/* ---- compiling ---- */

/* The names of the files in the folder of a compile. */
#define SOURCE "unit.c"
#define OBJECT "unit.so"

/* The argument list: the compiler, its flags, and "-o out in"; the strings are not copied. */
static void
arguments(const Job *job, char *argv[])
{
    int n = 0;
    for (int i = 0; i < job->target->nwords; i++) {
        argv[n++] = job->target->words[i];
    }
    for (const char *const *flag = cc_flags; *flag; flag++) {
        argv[n++] = (char *)*flag;
    }
    if (strip_flag()) {
        argv[n++] = (char *)strip_flag();
    }
    for (int k = 0; job->flags >> k; k++) {
        if (job->flags >> k & 1) {
            argv[n++] = (char *)tuning_flag(k);
        }
    }
    argv[n++] = "-o";
    argv[n++] = OBJECT;
    argv[n++] = SOURCE;
    argv[n] = NULL;
}

/* Puts the object into the cache, and loads it from there; NULL: there is none. */
static void *
take_to_cache(Job *job, const char *data, size_t size)
{
    Cache cache;
    void *object = NULL;
    if (*job->target->cache && cache_open(&cache, job->target->cache)) {
        if (cache_store(&cache, job->keys, job->nkeys, data, size, job->target->bound)) {
            object = cache_load(&cache, job->keys->hex);
        }
        if (object) {
            cc_target_note(job->target, &cache);
        }
        cache_close(&cache);
    }
    return object;
}

/* Loads the compiled object: from the cache, where it is stored first, or from its folder. */
static bool
take(Job *job, int folder, char *error, size_t cap)
{
    struct stat st;
    int fd = object_open(folder, OBJECT, OBJECT_MOST, &st);
    char *data = fd < 0 ? NULL : read_object(fd, (size_t)st.st_size);
    void *object = data ? take_to_cache(job, data, (size_t)st.st_size) : NULL;
    /* Another process may have put a unit there meanwhile that begins with the same kernel, and has
     * not the others. */
    bool ok = object && install(job->code, object, error, cap);
    if (!data) {
        snprintf(error, cap, "%s: it wrote no shared object", job->target->words[0]);
    } else if (!ok && !(object = object_load(fd, "dlc/" OBJECT))) {
        snprintf(error, cap, "%s: what it wrote cannot be loaded", job->target->words[0]);
    } else if (!ok) {
        ok = install(job->code, object, error, cap);
    }
    free(data);
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

/* The compiler runs in the folder and knows it as ".", so renaming the folder replaces nothing. */
static bool
in_folder(Job *job, const ChildLimits *inside, char *error, size_t cap)
{
    char *argv[CC_WORDS + 32];
    arguments(job, argv);
    if (!file_create(inside->folder, SOURCE, dlc_prelude_text, job->text) ||
        !job_set_tmpdir(job, ".")) {
        snprintf(error, cap, "%s: %s", job->work, strerror(errno));
        return false;
    }
    return child_run(argv, job->env, inside, error, cap) && take(job, inside->folder, error, cap);
}

/* In a private folder, which is also the compiler's TMPDIR, so that nothing is left when it is
 * killed. */
static bool
from_compiler(Job *job, const ChildLimits *limits, char *error, size_t cap)
{
    char name[FOLDER_NAME];
    ChildLimits inside = *limits;
    int parent = open(job->work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    inside.folder = parent < 0 ? -1 : folder_new(parent, name);
    bool ok = inside.folder >= 0;
    if (ok) {
        folder_mark(inside.folder);
        folder_sweep(parent, job->work);
        ok = in_folder(job, &inside, error, cap);
        folder_remove(inside.folder, parent, name);
    } else {
        snprintf(error, cap, "%s: %s", job->work, strerror(errno));
    }
    if (parent >= 0) {
        close(parent);
    }
    return ok;
}

static bool
compile(Job *job, const ChildLimits *limits, char *error, size_t cap)
{
    if (cc_is_hanging(job, error, cap)) {
        return false;
    }
    double deadline = clock_seconds() + limits->seconds;
    double start = clock_seconds();
    bool ok = from_compiler(job, limits, error, cap);
    trace_event("compile", "C compiler", start, clock_seconds() - start);
    count_add(ok ? COUNT_GCC_COMPILES : COUNT_GCC_FAILURES, 1);
    if (!ok) {
        log_line("%s", error);
        if (!child_is_stopped(limits)) {
            cc_note_failure(job, error, clock_seconds() > deadline);
        }
    }
    return ok;
}

/* From the cache, also when another process puts it there meanwhile, else by the compiler. */
static bool
run(Job *job, const ChildLimits *limits, char *error, size_t cap)
{
    Cache cache;
    CacheLock held;
    if (from_cache(job)) {
        return true;
    }
    if (!*job->target->cache || !cache_open(&cache, job->target->cache)) {
        return compile(job, limits, error, cap);
    }
    bool locked = cache_lock(&cache, job->keys, limits, &held);
    bool ok = from_cache(job) || compile(job, limits, error, cap);
    if (locked) {
        cache_unlock(&cache, &held);
    }
    cache_close(&cache);
    return ok;
}

/* ---- the queue ---- */

/* The time in so many seconds, by the monotonic clock. */
static struct timespec
time_in(double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + (int64_t)(seconds * 1e9);
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    return until;
}

/* Takes a job out of the queue, which is not empty.  Those that are for the cache alone come behind
 * all that somebody can call. */
static Job *
next_job(void)
{
    Job **at = &first;
    while (*at && (*at)->caches && code_is_alone((*at)->code)) {
        at = &(*at)->next;
    }
    if (!*at) {
        at = &first;
    }
    Job *job = *at;
    if (!(*at = job->next)) {
        last = at;
    }
    return job;
}

static void *
work(void *unused)
{
    (void)unused;
    char error[MAX_ERROR];
    lock_take(LOCK_queue);
    while (!ended) {
        if (!first) {
            pthread_cond_wait(&changed, lock_mutex(LOCK_queue));
            continue;
        }
        double early = first->start - clock_seconds();
        if (early > 0 && !waiting) {
            struct timespec until = time_in(early);
            pthread_cond_timedwait(&changed, lock_mutex(LOCK_queue), &until);
            continue;
        }
        Job *job = next_job();
        lock_give(LOCK_queue);
        ChildLimits limits = {.seconds = job->seconds, .niceness = NICENESS, .stop = &stop};
        if (job->caches || !code_is_alone(job->code)) {
            run(job, &limits, error, sizeof error);
        }
        job_free(job);
        lock_take(LOCK_queue);
        pending--;
        pthread_cond_broadcast(&changed);
    }
    lock_give(LOCK_queue);
    return NULL;
}

/* Starts the thread; it blocks all signals, so that other threads get them. */
static bool
start(void)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    running = pthread_create(&thread, NULL, work, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return running;
}

static void
reset_queue(void)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attr);
    pthread_condattr_destroy(&attr);
    first = NULL;
    last = &first;
    pending = waiting = 0;
    running = false;
}

/* The thread and its child are the parent's; the jobs are lost here, and stay with libtcc's code.
 * */
void
cc_queue_in_child(void)
{
    reset_queue();
}

static void
prepare(void)
{
    reset_queue();
    atexit(jit_cc_shutdown);
}

static bool
submit(Job *job)
{
    lock_take(LOCK_queue);
    bool ok = !ended && (running || start());
    job->start = clock_seconds() + DELAY;
    if (ok) {
        *last = job;
        last = &job->next;
        pending++;
        pthread_cond_broadcast(&changed);
    }
    lock_give(LOCK_queue);
    return ok;
}

/* The same in this thread, which may hold a lock that others need meanwhile.  If the process ends
 * during it, the thread stays here: an interpreter that has ended has no lock to give. */
static bool
run_here(Job *job, const CcOptions *options, char *error, size_t cap)
{
    if (atomic_load(&stop)) {
        snprintf(error, cap, "the process ends");
        return false;
    }
    if (options->leave) {
        options->leave(options->lock_arg);
    }
    ChildLimits limits = {
        .seconds = job->seconds,
        .stop = &stop,
        .interrupted = options->interrupted,
        .arg = options->lock_arg,
    };
    snprintf(error, cap, "no compile: it was interrupted");
    bool ok = !child_is_stopped(&limits) && run(job, &limits, error, cap);
    while (options->leave && atomic_load(&stop)) {
        pause();
    }
    if (options->leave) {
        options->enter(options->lock_arg);
    }
    return ok;
}

bool
jit_cc_submit(Code *code, const char *text, const CcOptions *options, char *error, size_t cap)
{
    Job *job = job_new(code, text, options, error, cap);
    pthread_once(&once, prepare);
    if (!job) {
        log_line("%s", error);
        return false;
    }
    bool ok = true;
    if (options->wait) {
        ok = run_here(job, options, error, cap);
    } else if (!from_cache(job)) {
        if (submit(job)) {
            return true;
        }
        snprintf(error, cap, "no compile in the background: no thread, or the process ends");
        ok = false;
    }
    job_free(job);
    return ok;
}

bool
jit_cc_wait(double seconds)
{
    bool forever = seconds < 0 || seconds > 1e9;
    struct timespec until = time_in(forever ? 0 : seconds);
    pthread_once(&once, prepare);
    lock_take(LOCK_queue);
    waiting++;
    pthread_cond_broadcast(&changed);
    for (int rc = 0; pending && !ended && rc == 0;) {
        rc = forever ? pthread_cond_wait(&changed, lock_mutex(LOCK_queue))
                     : pthread_cond_timedwait(&changed, lock_mutex(LOCK_queue), &until);
    }
    waiting--;
    bool done = pending == 0;
    lock_give(LOCK_queue);
    return done;
}

void
jit_cc_shutdown(void)
{
    pthread_once(&once, prepare);
    lock_take(LOCK_queue);
    bool join = running && !ended;
    ended = true;
    atomic_store(&stop, true);
    pthread_cond_broadcast(&changed);
    lock_give(LOCK_queue);
    child_kill_all();
    if (!join) {
        return;
    }
    pthread_join(thread, NULL);
    for (Job *job = first, *next; job; job = next) {
        next = job->next;
        job_free(job);
    }
    reset_queue();
}
