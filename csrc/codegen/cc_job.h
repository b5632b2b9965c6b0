/* A compile by a C compiler, from its submission to its end: cc_job.c makes it, jit_cc.c runs it.
 * */
#ifndef DLC_CC_JOB_H
#define DLC_CC_JOB_H

#include "codegen.h"

enum { CC_WORDS = 16, CC_PATH = 4096 };

typedef struct Job {
    struct Job *next;
    Code *code;
    char *text;
    char *words[CC_WORDS];     /* the compiler's path, and what DLC_CC says behind it */
    int nwords;
    char **env;                 /* of the child */
    char work[CC_PATH];        /* where its own folder is made */
    char cache[CC_PATH];       /* "" for none */
    char key[2 * SHA256_SIZE + 1];
    double seconds;
} Job;

/* Flags of every compile, NULL at the end. */
extern const char *const cc_flags[];

/* Reads the environment, so it runs in the thread that submits.  NULL: error says why. */
Job *job_new(Code *code, const char *text, const CcOptions *options, char *error, size_t cap);
void job_free(Job *job);
bool job_set_tmpdir(Job *job, const char *folder);                       /* in env, once */

#endif
