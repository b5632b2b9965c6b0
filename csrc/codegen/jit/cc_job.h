/* A compile by a C compiler, from its submission to its end: cc_target.c has the compiler, cc_job.c
 * makes the job, cc_lock.c keeps processes from doing it twice, jit_cc.c runs it. */
#ifndef DLC_CC_JOB_H
#define DLC_CC_JOB_H

#include <stdio.h>

#include "codegen/process.h"
#include "files.h"
#include "jit.h"

enum { CC_WORDS = 16, CC_PATH = 4096 };

/* ---- cc_target.c ---- */

struct CcTarget {
    atomic_int refs;
    char *words[CC_WORDS]; /* the compiler's path, and the arguments in DLC_CC */
    int nwords; /* 0: there is no compiler */
    bool named; /* by the option or by DLC_CC */
    char why[256]; /* there is none */
    char cache[CC_PATH]; /* "" for none */
    int64_t bound; /* bytes that it may hold */
    Key compiler; /* this one, or the one whose work the cache has */
    Sha256 head; /* of every key */
};

/* After its work went to the cache. */
void cc_target_note(const CcTarget *target, const Cache *cache);
/* If there is no compiler and `common` is this process's key: assumes the compiler whose work the
 * cache has. */
void cc_target_assume(CcTarget *target, const char *common, const char *compiler);

/* What of a text like /proc/cpuinfo is in every key. */
void cc_target_processor(FILE *file, Sha256 *s);

/* Flags of every compile, NULL at the end. */
extern const char *const cc_flags[];

/* ---- cc_job.c ---- */

typedef struct Job {
    struct Job *next;
    Code *code;
    CcTarget *target;
    char *text;
    char **env; /* of the child */
    char work[CC_PATH]; /* where its own folder is made */
    Key *keys; /* in the cache: the first is the unit's own */
    int nkeys;
    unsigned flags; /* of the schedule: rows of tuning.def, a bit 1 << row each */
    double seconds; /* that it may take */
    double start; /* by clock_seconds(): in the background it begins no earlier */
    bool caches; /* also when nobody can call the code any more */
    bool waited; /* by the thread that submits it */
} Job;

/* Reads the environment, so it runs in the thread that submits.  NULL: error says why. */
Job *job_new(Code *code, const char *text, const CcOptions *options, char *error, size_t cap);
void job_free(Job *job);
bool job_set_tmpdir(Job *job, const char *folder); /* in env, once */

/* ---- cc_failure.c ---- */

void cc_note_failure(const Job *job, const char *error, bool late); /* late: its time was over */
/* Has the compiler timed out and compiled nothing in this process?  It is waited for only once. */
bool cc_is_hanging(const Job *job, char *error, size_t cap);

/* ---- cc_lock.c ---- */

/* The lock of a key, among the processes that share the folder; it ends with the process that holds
 * it. */
typedef struct {
    int fd; /* -1: not locked */
    char name[80];
} CacheLock;

/* Waits for the lock: true when it is ours.  false: there is no locking here, the time is over or
 * the compile is stopped; then one compiles without. */
bool cache_lock(const Cache *cache, const Key *key, const ChildLimits *limits, CacheLock *out);
void cache_unlock(const Cache *cache, CacheLock *lock);

#endif
