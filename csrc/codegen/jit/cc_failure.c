/* The message about a C compiler that fails; only Python prints it.
 *
 * A record is never changed once others may see it, and a new one is made only for another command:
 * so there is no lock that a fork could find taken, and the number of old records is bounded by the
 * number of commands tried. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cc_job.h"

typedef struct {
    CcFailure shown;
    bool late;                  /* it exceeded its time */
} Failure;

static _Atomic(Failure *) last;

static void
command_text(const CcTarget *target, char *text, size_t cap)
{
    size_t used = 0;
    *text = '\0';
    for (int k = 0; k < target->nwords && used < cap; k++) {
        used += (size_t)snprintf(text + used, cap - used, "%s%s", k ? " " : "", target->words[k]);
    }
}

/* The first line with the word error in it, else the first that is not empty. */
static void
copy_reason(const char *text, char *line, size_t cap)
{
    bool said = false;
    *line = '\0';
    for (size_t size; *text && !said; text += size + (text[size] == '\n')) {
        char one[1024];
        size = strcspn(text, "\n");
        snprintf(one, sizeof one, "%.*s", (int)size, text);
        said = strcasestr(one, "error") != NULL;
        if (said || !*line) {
            snprintf(line, cap, "%.*s", (int)cap - 1, one);
        }
    }
}

void
cc_note_failure(const Job *job, const char *error, bool late)
{
    Failure *old = atomic_load(&last), *new = calloc(1, sizeof *new);
    if (!new) {
        return;
    }
    command_text(job->target, new->shown.command, sizeof new->shown.command);
    copy_reason(error, new->shown.line, sizeof new->shown.line);
    new->shown.asked = job->waited || job->target->named;
    new->late = late;
    bool known = old && strcmp(old->shown.command, new->shown.command) == 0 && old->late == late &&
                 old->shown.asked == new->shown.asked;
    if (known || !atomic_compare_exchange_strong(&last, &old, new)) {
        free(new);
    }
}

bool
jit_cc_failure(CcFailure *out)
{
    const Failure *failure = atomic_load(&last);
    if (failure) {
        *out = failure->shown;
    }
    return failure != NULL;
}

bool
cc_is_hanging(const Job *job, char *error, size_t cap)
{
    const Failure *failure = job->waited ? atomic_load(&last) : NULL;
    char command[sizeof failure->shown.command];
    command_text(job->target, command, sizeof command);
    bool hangs = failure && failure->late && count_get(COUNT_GCC_COMPILES) == 0 &&
                 strcmp(command, failure->shown.command) == 0;
    if (hangs) {
        snprintf(error, cap, "%s", failure->shown.line);
    }
    return hangs;
}
