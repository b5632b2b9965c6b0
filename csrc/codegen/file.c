/* Whole files. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen.h"

char *
file_read(int fd, size_t size)
{
    char *data = malloc(size + !size);
    for (size_t done = 0; data && done < size;) {
        ssize_t n = read(fd, data + done, size - done);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            free(data);
            return NULL;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return data;
}

bool
file_write(int fd, const void *data, size_t size)
{
    for (const char *p = data; size;) {
        ssize_t n = write(fd, p, size);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        p += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

bool
file_create(const char *path, const char *head, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && file_write(fd, head, strlen(head)) && file_write(fd, text, strlen(text));
    return fd >= 0 && close(fd) == 0 && ok;
}

void
file_remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    for (struct dirent *d; folder && (d = readdir(folder));) {
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0) {
            unlinkat(dirfd(folder), d->d_name, 0);
        }
    }
    if (folder) {
        closedir(folder);
    }
    rmdir(path);
}
