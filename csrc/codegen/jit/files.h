/* Child processes, files, folders and shared objects: the tools of the compilers and the cache. */
#ifndef DLC_CODEGEN_FILES_H
#define DLC_CODEGEN_FILES_H

#include <dirent.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- child.c: a child process with an end ---- */

typedef struct ChildLimits {
    double seconds; /* then its process group is killed */
    int folder; /* a descriptor: it runs in this folder; 0: where this process does */
    int niceness; /* its priority, 0: that of this process */
    const atomic_bool *stop; /* killed when this becomes true; may be NULL */
    bool (*interrupted)(void *arg); /* or when this says so; may be NULL */
    void *arg;
} ChildLimits;

bool child_is_stopped(const ChildLimits *limits);

/* Runs argv[0] (a path) with argv and env and waits for it.  true when it ended with status 0.
 * `text` receives what it wrote to standard output and standard error, cut to cap, or why it
 * failed. */
bool child_run(char *const argv[], char *const env[], const ChildLimits *limits, char *text,
               size_t cap);
/* Kills the groups of all children of this process, and of those that come later. */
void child_kill_all(void);

/* ---- file.c: whole files ---- */

char *file_read(int fd, size_t size); /* to be freed; NULL: errno */
bool file_read_at(int fd, size_t at, void *data, size_t size);
bool file_write(int fd, const void *data, size_t size);
/* a new one, mode 0600 */
bool file_create(int folder, const char *name, const char *head, const char *text);

/* ---- folder.c: folders whose path nobody else can change, and folders of our own ---- */

/* Opens the folder for reading and *at; -1: `why` names the folder on the way that is not to be
 * trusted, or has the system's error. make: it and missing folders above it are made, for this user
 * only. */
int folder_open(const char *path, bool make, char *why, size_t cap);
DIR *folder_read(int fd); /* from its beginning; NULL: it cannot be read */
enum { FOLDER_NAME = 4 + 6 + 1 }; /* of a folder of our own: dlc-XXXXXX */
#define FOLDER_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define FOLDER_MARKER ".dlc-compile" /* the file that marks such a folder */
/* ours and empty, with the name it gets; -1: errno */
int folder_new(int parent, char name[FOLDER_NAME]);
void folder_remove(int fd, int parent, const char *name); /* and the files in it; closes fd */

/* ---- sweep.c: folders that killed processes left ---- */

void folder_mark(int fd); /* folder_sweep knows it, and leaves it while this process has fd open */
/* removes old ones that have a marker.  Once a process */
void folder_sweep(int parent, const char *path);

/* ---- object.c: shared objects ---- */

enum { OBJECT_MOST = 64 << 20 }; /* bytes that one has at most */

struct stat;
/* A regular file of `most` bytes at most, for reading, and no link; waits for nobody.  -1:
 * errno. */
int object_open(int folder, const char *name, int64_t most, struct stat *st);
bool object_is_whole(const char *data, size_t size); /* as a compiler writes it */
/* For dlsym; NULL: there is a line in the log. path: shown to debuggers, not used otherwise. */
void *object_load(int fd, const char *path);

#endif
