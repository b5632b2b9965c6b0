/* Folders of compiles whose process was killed: nobody else removes them.
 *
 * A compile locks its folder (flock, which ends with the process).  A folder is left behind when it has the name and
 * the form of ours, belongs to us alone, was not written to for an hour, in which a compiler that outlived its process
 * ends too, and its lock is free.  It is opened first, and what is looked at and emptied is what was opened. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "codegen/codegen.h"

enum { OLD_SECONDS = 3600 };

void
folder_lock(int fd)
{
    flock(fd, LOCK_EX | LOCK_NB);       /* without a lock the folder is as safe as its age makes it */
}

/* dlc-XXXXXX */
static bool
has_our_name(const char *name)
{
    return strncmp(name, "dlc-", 4) == 0 && strlen(name) == 10 && strspn(name + 4,
           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == 6;
}

/* Nothing but files, and the source that each compile begins with; or nothing. */
static bool
has_our_form(int fd, const char *source)
{
    struct stat st;
    int files = 0, sources = 0;
    DIR *folder = folder_read(fd);
    bool plain = folder != NULL;
    for (struct dirent *d; plain && (d = readdir(folder));) {
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0) {
            plain = fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
            sources += strcmp(d->d_name, source) == 0;
            files++;
        }
    }
    if (folder) {
        closedir(folder);
    }
    return plain && (files == 0 || sources);
}

static bool
is_left(int fd, const char *source)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 0777) == 0700
           && time(NULL) - st.st_mtime > OLD_SECONDS && flock(fd, LOCK_EX | LOCK_NB) == 0
           && has_our_form(fd, source);
}

static void
sweep_one(int parent, const char *path, const char *name, const char *source)
{
    char whole[4096 + 16];
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && is_left(fd, source)) {
        snprintf(whole, sizeof whole, "%.4000s/%s", path, name);
        log_line("%s: left by a process that was killed", whole);
        folder_remove(fd, whole);
    } else if (fd >= 0) {
        close(fd);
    }
}

void
folder_sweep(const char *path, const char *source)
{
    static atomic_flag swept = ATOMIC_FLAG_INIT;        /* once a process */
    int parent = atomic_flag_test_and_set(&swept) ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = parent < 0 ? NULL : folder_read(parent);
    for (struct dirent *d; folder && (d = readdir(folder));) {
        if (has_our_name(d->d_name)) {
            sweep_one(parent, path, d->d_name, source);
        }
    }
    if (folder) {
        closedir(folder);
    }
    if (parent >= 0) {
        close(parent);
    }
}
