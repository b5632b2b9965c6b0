/* Shared objects, loaded by the descriptor that was looked at.
 *
 * A path would be looked up once more by dlopen, and may then be another file; in a path dlopen
 * also puts something else for $ORIGIN, $LIB and $PLATFORM.  So it is given the descriptor's name
 * in /proc.  Where that is missing nothing is loaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "codegen/process.h"
#include "files.h"
#include "jit.h"
#include "codegen/lock.h"
#include "codegen/micro/micro.h"

enum { BITS = 32, NAME_SIZE = 4096 };

/* A truncated file would take the process with it when its missing pages are touched. */
bool
object_is_whole(const char *data, size_t size)
{
    const ElfW(Ehdr) *h = (const void *)data;
    if (size < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_type != ET_DYN ||
        h->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
        h->e_phentsize != sizeof(ElfW(Phdr)) || h->e_phoff % _Alignof(ElfW(Phdr)) != 0 ||
        h->e_phoff > size || h->e_phnum > (size - h->e_phoff) / sizeof(ElfW(Phdr)) ||
        h->e_shoff > size || h->e_shnum > (size - h->e_shoff) / sizeof(ElfW(Shdr))) {
        return false;
    }
    const ElfW(Phdr) *p = (const void *)(data + h->e_phoff);
    for (int i = 0; i < h->e_phnum; i++) {
        if (p[i].p_offset > size || p[i].p_filesz > size - p[i].p_offset) {
            return false;
        }
    }
    return true;
}

int
object_open(int folder, const char *name, int64_t most, struct stat *st)
{
    /* To open a pipe or a device for reading may wait for somebody. */
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    bool ok = fstat(fd, st) == 0;
    if (ok && !S_ISREG(st->st_mode)) {
        errno = EINVAL;
        ok = false;
    } else if (ok && st->st_size > most) {
        errno = EFBIG;
        ok = false;
    }
    if (!ok) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* A name of the descriptor that no other load has had: dlopen first looks whether it knows the
 * name, and the number may have been another file's.  "/." and "//" change nothing of where a path
 * leads, so they spell a number; more slashes make it as long as `least`. */
static void
name_descriptor(char name[NAME_SIZE], int fd, size_t least)
{
    static atomic_uint serial;
    unsigned number = serial++;
    char bits[2 * BITS + 1], *to = bits;
    for (int k = 0; k < BITS; k++) {
        *to++ = '/';
        *to++ = number >> k & 1 ? '.' : '/';
    }
    *to = '\0';
    size_t more = least > 79 ? least - 79 : 0;
    if (more > NAME_SIZE - 128) {
        more = 0;
    }
    memset(name, '/', more + 1);
    snprintf(name + more, NAME_SIZE - more, "/proc/self/fd%s/%d", bits, fd);
}

/* Tells debuggers and traces the path of the file: the name is in our own memory, and has the same
 * length. */
static void
tell_name(void *object, const char *name, const char *path)
{
    struct link_map *map;
    if (dlinfo(object, RTLD_DI_LINKMAP, &map) == 0 && strcmp(map->l_name, name) == 0 &&
        strlen(path) <= strlen(name)) {
        memcpy(map->l_name, path, strlen(path) + 1);
    }
}

/* The pointers through which the object calls the microkernels that it uses. */
static void
link_micro(void *object)
{
    static const char *const names[] = {
#define MICRO(dtype, storage, sum, columns, panel) \
    "micro_" #dtype, "micro_unpacked_" #dtype, "micro_each_" #dtype, "pack_" #dtype, \
        "pack_scattered_" #dtype,
#include "codegen/micro/micro.def"
    };
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char name[64];
        snprintf(name, sizeof name, "dlc_call_%s", names[k]);
        void **pointer = dlsym(object, name);
        if (pointer) {
            *pointer = micro_find(names[k]);
        }
    }
}

void *
object_load(int fd, const char *path)
{
    char name[NAME_SIZE];
    struct statfs fs;
    if (statfs("/proc/self/fd", &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC) {
        log_line("%s: not loaded, there is no /proc", path);
        return NULL;
    }
    name_descriptor(name, fd, strlen(path));
    /* Threads that load the same file get the same object, whose name is read and written here. */
    lock_take(LOCK_objects);
    void *object = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (object) {
        tell_name(object, name, path);
        link_micro(object);
    }
    lock_give(LOCK_objects);
    if (!object) {
        log_line("%s: %s", path, dlerror());
    }
    return object;
}
