/* The settings of a compile, read from the environment when it is submitted. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cc_job.h"

void
job_free(Job *job)
{
    if (!job) {
        return;
    }
    code_unref(job->code);
    cc_target_unref(job->target);
    free(job->text);
    free(job->keys);
    for (char **p = job->env; p && *p; p++) {
        free(*p);
    }
    free(job->env);
    free(job);
}

static bool
is_replaced(const char *variable)
{
    return strncmp(variable, "TMPDIR=", 7) == 0 || strncmp(variable, "LC_ALL=", 7) == 0 ||
           strncmp(variable, "LD_PRELOAD=", 11) == 0;
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

/* Sets the keys of the options, or else the key of the text. */
static bool
set_keys(Job *job, const CcOptions *options)
{
    job->nkeys = options->nkeys ? options->nkeys : 1;
    if (!(job->keys = calloc((size_t)job->nkeys, sizeof *job->keys))) {
        return false;
    }
    if (options->nkeys) {
        memcpy(job->keys, options->keys, (size_t)job->nkeys * sizeof *job->keys);
    } else {
        cc_target_key(job->target, job->text, strlen(job->text), job->keys);
    }
    return true;
}

Job *
job_new(Code *code, const char *text, const CcOptions *options, char *error, size_t cap)
{
    const char *tmp = getenv("TMPDIR");
    Job *job = calloc(1, sizeof *job);
    if (job) {
        job->target = options->target ? cc_target_ref(options->target) : cc_target_new(options);
    }
    if (!job || !job->target || !(job->text = strdup(text)) || !(job->env = copy_env()) ||
        !set_keys(job, options)) {
        snprintf(error, cap, "no memory for a compile");
        job_free(job);
        return NULL;
    }
    job->code = code_ref(code);
    job->flags = options->flags;
    job->seconds = time_limit();
    job->waited = options->wait;
    job->caches = options->caches && *job->target->cache;
    snprintf(job->work, sizeof job->work - 64, "%s", tmp && *tmp ? tmp : "/tmp");
    if (job->target->nwords == 0) {
        snprintf(error, cap, "%s", job->target->why);
        job_free(job);
        return NULL;
    }
    return job;
}
