/* Folders of compiles whose process was killed: nobody else removes them.
 *
 * A compile locks its folder (flock, which ends with the process) and makes a file in it, our
 * marker.  A folder is left behind when it has a name of ours and the marker, holds nothing but
 * files, belongs to us alone, its lock is free, and neither it nor a file in it was written to for
 * an hour, in which a compiler that outlived its process ends too. It is opened first, and only
 * this descriptor is checked and emptied. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "codegen/process.h"
#include "files.h"
#include "jit.h"

enum { OLD_SECONDS = 3600 };

static const char marker_text[] = "This folder is of a compile by dlc, which removes it.\n";

void
folder_mark(int fd)
{
    flock(fd, LOCK_EX | LOCK_NB); /* without a lock the folder is as safe as its age makes it, */
    file_create(fd, FOLDER_MARKER, marker_text, ""); /* and without a marker it is never swept */
}

static bool
has_our_marker(int fd)
{
    char text[sizeof marker_text];
    int marker = openat(fd, FOLDER_MARKER, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool ours = marker >= 0 && read(marker, text, sizeof text) == (ssize_t)sizeof marker_text - 1 &&
                memcmp(text, marker_text, sizeof marker_text - 1) == 0;
    if (marker >= 0) {
        close(marker);
    }
    return ours;
}

/* dlc-XXXXXX */
static bool
has_our_name(const char *name)
{
    return strncmp(name, "dlc-", 4) == 0 && strlen(name) == 10 &&
           strspn(name + 4, FOLDER_LETTERS) == 6;
}

/* Does it contain only files that were not written to after `since`?  Also false if it cannot be
 * read completely. */
static bool
holds_old_files(int fd, time_t since)
{
    struct stat st;
    struct dirent *d;
    DIR *folder = folder_read(fd);
    bool old = folder != NULL;
    while (old && (errno = 0, d = readdir(folder))) {
        bool dots = strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0;
        old = dots || (fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                       S_ISREG(st.st_mode) && st.st_mtime < since);
    }
    bool whole = errno == 0;
    if (folder) {
        closedir(folder);
    }
    return old && whole;
}

static bool
is_left(int fd)
{
    struct stat st;
    time_t since = time(NULL) - OLD_SECONDS;
    return fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 0777) == 0700 &&
           st.st_mtime < since && flock(fd, LOCK_EX | LOCK_NB) == 0 && has_our_marker(fd) &&
           holds_old_files(fd, since);
}

static void
sweep_one(int parent, const char *path, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && is_left(fd)) {
        log_line("%s/%s: left by a process that was killed", path, name);
        folder_remove(fd, parent, name);
    } else if (fd >= 0) {
        close(fd);
    }
}

void
folder_sweep(int parent, const char *path)
{
    static atomic_flag swept = ATOMIC_FLAG_INIT; /* once a process */
    DIR *folder = atomic_flag_test_and_set(&swept) ? NULL : folder_read(parent);
    for (struct dirent *d; folder && (d = readdir(folder));) {
        if (has_our_name(d->d_name)) {
            sweep_one(parent, path, d->d_name);
        }
    }
    if (folder) {
        closedir(folder);
    }
}
