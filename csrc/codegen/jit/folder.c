/* Folders that are opened by a walk from "/": nobody else may replace anything on the path.
 *
 * Each folder on the way has to belong to us, to root or to the owner of "/", and others must not
 * be able to rename its entries: they cannot write to it, or it has the sticky bit, or a folder
 * above lets only its owner through.  Symbolic links are followed by hand, so that the folders on
 * their way are checked as well. The folder that is opened is the one that was checked: each step
 * starts at the descriptor of the previous one. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "codegen/process.h"
#include "files.h"
#include "jit.h"

enum { MOST_LINKS = 40, PATH_SIZE = 4096, MOST_NAMES = 100 };

typedef struct {
    int fd;                     /* the folder so far, opened only as a path */
    uid_t top; /* whose "/" is: where users are mapped, root has another number */
    /* missing ones are made; others cannot get here; others may add names here */
    bool make, hidden, shared;
    int links;
    char rest[2 * PATH_SIZE]; /* of the path */
    char *why;
    size_t cap;
} Walk;

static bool
refuse(Walk *w, const char *reason)
{
    snprintf(w->why, w->cap, "%s", reason);
    return false;
}

/* Refuses the folder, with its name in the reason. */
static bool
refuse_here(Walk *w, const char *reason)
{
    char link[32], path[PATH_SIZE];
    snprintf(link, sizeof link, "/proc/self/fd/%d", w->fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    snprintf(w->why, w->cap, "%.*s %s", (int)w->cap - 64, n > 0 ? path : "a folder above", reason);
    return false;
}

/* ---- who may write ---- */

/* Is our first group nobody's but ours, by the system's own files?  Many systems give a user such a
 * one, and let it write. */
static bool
is_group_alone(void)
{
    char text[4096], name[256] = "";
    struct passwd user, *u;
    struct group group, *g;
    bool alone = true, found = false;
    FILE *file = fopen("/etc/passwd", "re");
    while (file && fgetpwent_r(file, &user, text, sizeof text, &u) == 0) {
        alone = alone && (user.pw_gid != getegid() || user.pw_uid == geteuid());
        if (user.pw_uid == geteuid()) {
            snprintf(name, sizeof name, "%s", user.pw_name);
        }
    }
    if (file) {
        fclose(file);
    }
    file = fopen("/etc/group", "re");
    while (file && fgetgrent_r(file, &group, text, sizeof text, &g) == 0) {
        found = found || group.gr_gid == getegid();
        for (char **who = group.gr_mem; group.gr_gid == getegid() && *who; who++) {
            alone = alone && strcmp(*who, name) == 0;
        }
    }
    if (file) {
        fclose(file);
    }
    return alone && found && *name;
}

/* Has the folder a list of users?  If so, the group bits of the mode describe that list. */
static bool
has_list(int fd)
{
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return getxattr(link, "system.posix_acl_access", NULL, 0) >= 0 ||
           (errno != ENODATA && errno != ENOTSUP);
}

static bool
others_write(const Walk *w, const struct stat *st)
{
    bool group = (st->st_mode & S_IWGRP) && !(st->st_uid == geteuid() && st->st_gid == getegid() &&
                                              is_group_alone() && !has_list(w->fd));
    return (st->st_mode & S_IWOTH) || group;
}

static bool
is_trusted(const Walk *w, uid_t user)
{
    return user == 0 || user == geteuid() || user == w->top;
}

static bool
look(Walk *w)
{
    struct stat st;
    if (fstat(w->fd, &st) < 0 || !S_ISDIR(st.st_mode)) {
        return refuse_here(w, "is no folder");
    }
    if (w->hidden) {
        return true;
    }
    if (!is_trusted(w, st.st_uid)) {
        return refuse_here(w, "belongs to another user");
    }
    w->shared = others_write(w, &st);
    if (w->shared && !(st.st_mode & S_ISVTX)) {
        return refuse_here(w, "can be written by others, who may rename what is in it");
    }
    w->hidden = !(st.st_mode & (S_IXGRP | S_IXOTH));
    return true;
}

/* ---- the walk ---- */

static bool
begin(Walk *w)
{
    struct stat st;
    if (w->fd >= 0) {
        close(w->fd);
    }
    w->fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (w->fd < 0 || fstat(w->fd, &st) < 0) {
        return refuse(w, strerror(errno));
    }
    w->top = st.st_uid;
    w->hidden = false;
    return look(w);
}

/* Continues the walk at the target of a symbolic link. */
static bool
follow(Walk *w, int link, const struct stat *st)
{
    char target[PATH_SIZE], rest[sizeof w->rest];
    ssize_t n = readlinkat(link, "", target, sizeof target - 1);
    if (w->shared && !w->hidden && !is_trusted(w, st->st_uid)) {
        return refuse_here(w, "has a link on the way that belongs to another user");
    }
    if (n <= 0 || ++w->links > MOST_LINKS) {
        return refuse(w, strerror(ELOOP));
    }
    target[n] = '\0';
    if (snprintf(rest, sizeof rest, "%s/%s", target, w->rest) >= (int)sizeof rest) {
        return refuse(w, strerror(ENAMETOOLONG));
    }
    memcpy(w->rest, rest, sizeof rest);
    return *target != '/' || begin(w);
}

static bool
step(Walk *w, const char *name)
{
    struct stat st;
    int next = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0 && errno == ENOENT && w->make) {
        mkdirat(w->fd, name, 0700);
        next = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    }
    if (next < 0 || fstat(next, &st) < 0) {
        return refuse(w, strerror(errno));
    }
    if (S_ISLNK(st.st_mode)) {
        bool ok = follow(w, next, &st);
        close(next);
        return ok;
    }
    close(w->fd);
    w->fd = next;
    w->hidden = w->hidden && strcmp(name, "..") != 0;
    return look(w);
}

/* Takes the next name of the path; false at its end. */
static bool
next_name(Walk *w, char name[PATH_SIZE])
{
    char *from = w->rest + strspn(w->rest, "/");
    size_t size = strcspn(from, "/");
    if (size == 0 || size >= PATH_SIZE) {
        return false;
    }
    memcpy(name, from, size);
    name[size] = '\0';
    memmove(w->rest, from + size, strlen(from + size) + 1);
    return true;
}

/* Makes the path absolute. */
static bool
set_path(Walk *w, const char *path)
{
    char here[PATH_SIZE] = "";
    if (*path != '/' && !getcwd(here, sizeof here)) {
        return refuse(w, strerror(errno));
    }
    if (snprintf(w->rest, sizeof w->rest, "%s/%s", here, path) >= (int)sizeof w->rest) {
        return refuse(w, strerror(ENAMETOOLONG));
    }
    return true;
}

int
folder_open(const char *path, bool make, char *why, size_t cap)
{
    char name[PATH_SIZE];
    Walk w = {.fd = -1, .make = make, .why = why, .cap = cap};
    bool ok = set_path(&w, path) && begin(&w);
    while (ok && next_name(&w, name)) {
        ok = step(&w, name);
    }
    int fd = -1;
    if (ok && (fd = openat(w.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        refuse(&w, strerror(errno));
    }
    if (w.fd >= 0) {
        close(w.fd);
    }
    return fd;
}

/* ---- one of our own ---- */

DIR *
folder_read(int fd)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = copy < 0 ? NULL : fdopendir(copy);
    if (!folder && copy >= 0) {
        close(copy);
    }
    return folder;
}

static bool
is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool
is_empty(int fd)
{
    DIR *folder = folder_read(fd);
    bool empty = folder != NULL;
    for (struct dirent *d; empty && (d = readdir(folder));) {
        empty = is_dots(d->d_name);
    }
    if (folder) {
        closedir(folder);
    }
    return empty;
}

/* Makes a name of "dlc-" and six letters or digits. */
static bool
random_name(char name[FOLDER_NAME])
{
    unsigned char bytes[6];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        return false;
    }
    memcpy(name, "dlc-", 4);
    for (size_t k = 0; k < sizeof bytes; k++) {
        name[4 + k] = FOLDER_LETTERS[bytes[k] % (sizeof FOLDER_LETTERS - 1)];
    }
    name[4 + sizeof bytes] = '\0';
    return true;
}

/* Whoever may rename the folder has had the time to do so: the opened one must be ours, and
 * empty. */
static int
open_new(int parent, const char *name)
{
    struct stat st;
    int low = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int fd = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, 3); /* no standard stream of a child */
    if (low >= 0) {
        close(low);
    }
    if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 0777) != 0700 ||
                    !is_empty(fd))) {
        close(fd);
        errno = EPERM;
        fd = -1;
    }
    return fd;
}

int
folder_new(int parent, char name[FOLDER_NAME])
{
    int status = -1;
    for (int k = 0; k < MOST_NAMES && status < 0; k++) {
        if (!random_name(name) || ((status = mkdirat(parent, name, 0700)) < 0 && errno != EEXIST)) {
            return -1;
        }
    }
    int fd = status < 0 ? -1 : open_new(parent, name);
    if (fd < 0 && status == 0) {
        int error = errno;
        unlinkat(parent, name, AT_REMOVEDIR);
        errno = error;
    }
    return fd;
}

void
folder_remove(int fd, int parent, const char *name)
{
    DIR *folder = folder_read(fd);
    for (struct dirent *d; folder && (d = readdir(folder));) {
        if (!is_dots(d->d_name) && strcmp(d->d_name, FOLDER_MARKER) != 0) {
            unlinkat(fd, d->d_name, 0);
        }
    }
    if (folder) {
        closedir(folder);
    }
    unlinkat(fd, FOLDER_MARKER, 0); /* last: a folder that is left half empty is swept later */
    close(fd);
    unlinkat(parent, name, AT_REMOVEDIR);
}
