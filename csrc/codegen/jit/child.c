/* A child process with an end: its output is kept, its time is limited, and its group dies with it.
 *
 * posix_spawn and never fork: the process has threads, and a fork of one with gigabytes of tensors
 * is slow.  The child leads a group of its own, so that a kill reaches the processes it started,
 * and so that an interrupt from the terminal is not also its interrupt. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/process.h"
#include "files.h"
#include "jit.h"
#include "codegen/lock.h"

enum {
    POLL_MS = 20, /* how soon `stop` is seen */
    MANY = 16, /* children at a time that child_kill_all reaches at once */
};

/* The children there are, so that the end of the process need not wait for their threads. */
static pid_t children[MANY];
static bool closed;

/* They are the parent's. */
void
child_in_child(void)
{
    memset(children, 0, sizeof children);
    closed = false;
}

/* Replaces `from` by `to` in the list; 0 marks a free entry. */
static void
note(pid_t from, pid_t to)
{
    lock_take(LOCK_children);
    if (to && closed) {
        kill(-to, SIGKILL);
    }
    for (int k = 0; k < MANY; k++) {
        if (children[k] == from) {
            children[k] = to;
            break;
        }
    }
    lock_give(LOCK_children);
}

void
child_kill_all(void)
{
    lock_take(LOCK_children);
    closed = true;
    for (int k = 0; k < MANY; k++) {
        if (children[k]) {
            kill(-children[k], SIGKILL);
        }
    }
    lock_give(LOCK_children);
}

/* Makes the child run in the folder.  false: the C library has no function for this. */
static bool
run_in(posix_spawn_file_actions_t *actions, int folder)
{
#if defined __GLIBC__ && !__GLIBC_PREREQ(2, 29)
    (void)actions;
    return folder <= 0;
#else
    return folder <= 0 || posix_spawn_file_actions_addfchdir_np(actions, folder) == 0;
#endif
}

static int
spawn(pid_t *pid, char *const argv[], char *const env[], int folder, int output)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, plain;
    sigemptyset(&none);
    sigemptyset(&plain);
    sigaddset(&plain, SIGCHLD);
    sigaddset(&plain, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &plain);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF);
    int rc = run_in(&actions, folder) ? posix_spawn(pid, argv[0], &actions, &attr, argv, env)
                                      : ENOSYS;
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

/* Reads the output into text, up to cap, and discards the rest.  False at the end of the output. */
static bool
drain(int fd, char *text, size_t cap, size_t *used)
{
    char some[4096];
    ssize_t n;
    while ((n = read(fd, some, sizeof some)) > 0) {
        size_t keep = (size_t)n < cap - 1 - *used ? (size_t)n : cap - 1 - *used;
        memcpy(text + *used, some, keep);
        *used += keep;
        text[*used] = '\0';
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

bool
child_is_stopped(const ChildLimits *limits)
{
    return (limits->stop && atomic_load(limits->stop)) ||
           (limits->interrupted && limits->interrupted(limits->arg));
}

/* Waits for the end of the child, which is left for waitpid, or of its time: then true. */
static bool
outlives(pid_t pid, int fd, double deadline, const ChildLimits *limits, char *text, size_t cap)
{
    bool open = true;
    size_t used = 0;
    for (;;) {
        struct pollfd p = {.fd = open ? fd : -1, .events = POLLIN};
        poll(&p, 1, open ? POLL_MS : 1);
        open = open && drain(fd, text, cap, &used);
        siginfo_t info = {.si_pid = 0};
        int rc = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
        if (info.si_pid == pid || (rc < 0 && errno != EINTR)) {
            drain(fd, text, cap, &used);
            return false;
        }
        if (clock_seconds() > deadline || child_is_stopped(limits)) {
            return true;
        }
    }
}

/* Kills the rest of the group while its number is still taken, then reaps the child. */
static int
reap(pid_t pid)
{
    int status;
    pid_t got;
    kill(-pid, SIGKILL);
    note(pid, 0);
    while ((got = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
        ;
    return got == pid ? status : -1; /* -1: another waited for it; its end is not known */
}

/* How it ended, as whoever reads it in a log says it. */
static void
describe_end(const char *program, int status, char *text, size_t cap)
{
    if (WIFEXITED(status)) {
        snprintf(text, cap, "%s: ended with status %d", program, WEXITSTATUS(status));
    } else if (WIFSIGNALED(status)) {
        snprintf(text, cap, "%s: killed by signal %d", program, WTERMSIG(status));
    } else {
        snprintf(text, cap, "%s: ended in an unknown way", program);
    }
}

bool
child_run(char *const argv[], char *const env[], const ChildLimits *limits, char *text, size_t cap)
{
    int ends[2], status = -1;
    pid_t pid;
    *text = '\0';
    if (pipe2(ends, O_CLOEXEC) < 0) {
        snprintf(text, cap, "no pipe: %s", strerror(errno));
        return false;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    int rc = spawn(&pid, argv, env, limits->folder, ends[1]);
    close(ends[1]);
    if (rc != 0) {
        snprintf(text, cap, "%s: %s", argv[0], strerror(rc));
    } else {
        note(0, pid);
        if (limits->niceness) {
            setpriority(PRIO_PGRP, (id_t)pid, limits->niceness);
        }
        double deadline = clock_seconds() + limits->seconds;
        bool late = outlives(pid, ends[0], deadline, limits, text, cap);
        status = reap(pid);
        if (late && clock_seconds() > deadline) {
            snprintf(text, cap, "%s: killed, it had %.3g seconds", argv[0], limits->seconds);
        } else if (late) {
            snprintf(text, cap, "%s: killed, nobody waits for it any more", argv[0]);
        } else if (status != 0 && !*text) {
            describe_end(argv[0], status, text, cap);
        }
    }
    close(ends[0]);
    return status == 0;
}
