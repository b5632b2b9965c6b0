/* Whole files. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/process.h"
#include "files.h"
#include "jit.h"

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
file_read_at(int fd, size_t at, void *data, size_t size)
{
    for (char *to = data; size;) {
        ssize_t n = pread(fd, to, size, (off_t)at);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return false;
        }
        size_t got = n > 0 ? (size_t)n : 0;
        to += got;
        at += got;
        size -= got;
    }
    return true;
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
file_create(int folder, const char *name, const char *head, const char *text)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && file_write(fd, head, strlen(head)) && file_write(fd, text, strlen(text));
    return fd >= 0 && close(fd) == 0 && ok;
}
