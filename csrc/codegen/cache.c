/* Compiled units on disk: content-addressed, private, sealed, bounded.
 *
 * An entry is a shared object, <key>.so; one with several kernels has a name for each.  It has a seal
 * behind its last byte: a magic number and the SHA-256 of all before it.  The key covers everything
 * that the object depends on (see cc_target.c and kernel_key.c), so an entry is never out of date,
 * only unused.  Nothing is loaded that another user could have
 * written: the folder and the file must belong to us and be writable by nobody else.  Whatever is
 * wrong with an entry or with the folder is a miss and a line in the log, and never an error. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "codegen.h"

enum { KEY_SIZE = 2 * SHA256_SIZE, STALE_SECONDS = 3600 };

static const char magic[16] = "dlc sealed 1\n";

typedef struct {
    char magic[sizeof magic];
    uint8_t digest[SHA256_SIZE];
} Seal;

/* ---- the folder ---- */

bool
cache_path(const char *option, char *path, size_t cap)
{
    const char *named = option ? option : getenv("DLC_CACHE_DIR");
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = 0;
    *path = '\0';
    if (named) {
        n = snprintf(path, cap, "%s", named);
    } else if (base && *base == '/') {
        n = snprintf(path, cap, "%s/dlc", base);
    } else if (home && *home) {
        n = snprintf(path, cap, "%s/.cache/dlc", home);
    }
    if (n >= (int)cap) {
        *path = '\0';
    }
    return *path != '\0';
}

/* Makes the folder and those above it that are missing, for us alone. */
static void
make_folders(const char *path)
{
    char part[4096];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part) {
        return;
    }
    for (char *p = part + 1; *p; p++) {
        if (*p == '/') {
            *p = '\0';
            mkdir(part, 0700);
            *p = '/';
        }
    }
    mkdir(part, 0700);
}

static bool
ours(int fd, mode_t kind, struct stat *st)
{
    return fstat(fd, st) == 0 && (st->st_mode & S_IFMT) == kind && st->st_uid == geteuid()
           && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

bool
cache_open(Cache *cache, const char *path)
{
    struct stat st;
    *cache = (Cache){open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), path, {0, 0}};
    if (cache->fd < 0 && errno == ENOENT) {
        make_folders(path);
        cache->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (cache->fd < 0) {
        log_line("cache: %s: %s", path, strerror(errno));
        return false;
    }
    if (ours(cache->fd, S_IFDIR, &st) && faccessat(cache->fd, ".", W_OK, 0) == 0) {
        return true;
    }
    log_line("cache: %s: not used, it must be yours and writable by you alone", path);
    cache_close(cache);
    return false;
}

void
cache_close(Cache *cache)
{
    if (cache->fd >= 0) {
        close(cache->fd);
    }
    cache->fd = -1;
}

/* ---- seals ---- */

static void
seal(const void *data, size_t size, Seal *out)
{
    Sha256 s;
    sha256_begin(&s);
    sha256_add(&s, data, size);
    sha256_end(&s, out->digest);
    memcpy(out->magic, magic, sizeof magic);
}

static bool
is_sound(int fd, size_t size)
{
    Seal want;
    if (size < sizeof want) {
        return false;
    }
    char *data = file_read(fd, size);
    bool sound = false;
    if (data) {
        seal(data, size - sizeof want, &want);
        sound = memcmp(data + size - sizeof want, &want, sizeof want) == 0;
    }
    free(data);
    return sound;
}

/* ---- one entry ---- */

static void
entry_name(char name[KEY_SIZE + 4], const char *key)
{
    snprintf(name, KEY_SIZE + 4, "%s.so", key);
}

/* is_sound for an entry that is ours; the kernels of a unit are one file, which is read once. */
static bool
is_sound_file(Cache *cache, int fd, const struct stat *st)
{
    uint64_t file[2] = {(uint64_t)st->st_dev, (uint64_t)st->st_ino};
    if (memcmp(file, cache->sound, sizeof file) == 0) {
        return true;
    }
    if (!is_sound(fd, (size_t)st->st_size)) {
        return false;
    }
    memcpy(cache->sound, file, sizeof file);
    return true;
}

void *
cache_load(Cache *cache, const char *key)
{
    char name[KEY_SIZE + 4], path[4096];
    struct stat st;
    entry_name(name, key);
    int fd = openat(cache->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    void *object = NULL;
    if (!ours(fd, S_IFREG, &st)) {
        log_line("cache: %s: not loaded, it is not yours alone", name);
    } else if (!is_sound_file(cache, fd, &st)) {
        log_line("cache: %s: damaged, removed", name);
        unlinkat(cache->fd, name, 0);
    } else if (snprintf(path, sizeof path, "%s/%s", cache->path, name) < (int)sizeof path) {
        futimens(fd, NULL);     /* used now: it is the last to go */
        object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!object) {
            log_line("cache: %s", dlerror());
        }
    }
    close(fd);
    return object;
}

static bool
has_prefix(const char *name, const char *const *prefixes)
{
    while (*prefixes && strncmp(name, *prefixes, strlen(*prefixes)) != 0) {
        prefixes++;
    }
    return *prefixes != NULL;
}

/* To be read from its beginning; NULL: it cannot be. */
static DIR *
open_folder(const Cache *cache)
{
    int copy = openat(cache->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = copy < 0 ? NULL : fdopendir(copy);
    if (!folder && copy >= 0) {
        close(copy);
    }
    return folder;
}

/* Removes files with one of the prefixes that are older. */
static void
sweep(const Cache *cache, const char *const *prefixes, int64_t seconds)
{
    DIR *folder = open_folder(cache);
    if (!folder) {
        return;
    }
    for (struct dirent *d; (d = readdir(folder));) {
        struct stat st;
        if (has_prefix(d->d_name, prefixes)
            && fstatat(cache->fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0
            && st.st_mtime + seconds <= time(NULL)) {
            unlinkat(cache->fd, d->d_name, 0);
        }
    }
    closedir(folder);
}

/* Writes the sealed data to a new file, which is there whole or not at all. */
static bool
write_sealed(const Cache *cache, const char *name, const void *data, size_t size)
{
    Seal s;
    seal(data, size, &s);
    int fd = openat(cache->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && file_write(fd, data, size) && file_write(fd, &s, sizeof s);
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

/* One more name for the temporary file, or a copy of it where files have one name. */
static bool
add_name(const Cache *cache, const char *temporary, const Key *key, const void *data, size_t size)
{
    char name[KEY_SIZE + 4], other[96];
    entry_name(name, key->hex);
    snprintf(other, sizeof other, "%s-%.16s", temporary, key->hex);
    bool ok = linkat(cache->fd, temporary, cache->fd, other, 0) == 0
              || write_sealed(cache, other, data, size);
    ok = ok && renameat(cache->fd, other, cache->fd, name) == 0;
    int error = errno;
    unlinkat(cache->fd, other, 0);      /* also left by a rename over a name of the same file */
    errno = error;
    return ok;
}

/* What writers and owners of locks that were killed leave. */
static const char *const leftovers[] = {"tmp-", "lock-", NULL};

/* The name of a file that no other process has made: their numbers may be the same, in containers. */
static void
temporary_name(char name[64])
{
    static atomic_uint serial;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    snprintf(name, 64, "tmp-%lx-%lx%08lx-%x", (long)getpid(), (long)t.tv_sec, (long)t.tv_nsec,
             serial++);
}

bool
cache_store(const Cache *cache, const Key *keys, int nkeys, const void *data, size_t size, int64_t bound)
{
    char temporary[64];
    temporary_name(temporary);
    bool ok = write_sealed(cache, temporary, data, size);
    for (int k = 0; k < nkeys && ok; k++) {
        ok = add_name(cache, temporary, &keys[k], data, size);
    }
    if (!ok) {
        log_line("cache: %s: not stored: %s", keys->hex, strerror(errno));
    }
    unlinkat(cache->fd, temporary, 0);
    sweep(cache, leftovers, STALE_SECONDS);
    cache_trim(cache, bound);
    return ok;
}

/* ---- notes ---- */

/* What a file holds has no end of its own. */
static bool
is_hex(const char *text, size_t size)
{
    size_t k = 0;
    while (k < size && text[k] && strchr("0123456789abcdef", text[k])) {
        k++;
    }
    return k == size;
}

bool
cache_read_note(const Cache *cache, const char *name, Key *out)
{
    char path[96];
    snprintf(path, sizeof path, "note-%.64s", name);
    int fd = openat(cache->fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char *data = fd < 0 ? NULL : file_read(fd, KEY_SIZE);
    bool ok = data && is_hex(data, KEY_SIZE);
    if (ok) {
        memcpy(out->hex, data, KEY_SIZE);
        out->hex[KEY_SIZE] = '\0';
    }
    free(data);
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

void
cache_write_note(const Cache *cache, const char *name, const Key *key)
{
    Key old;
    char path[96], temporary[64];
    if (cache_read_note(cache, name, &old) && strcmp(old.hex, key->hex) == 0) {
        return;
    }
    snprintf(path, sizeof path, "note-%.64s", name);
    temporary_name(temporary);
    int fd = openat(cache->fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && file_write(fd, key->hex, KEY_SIZE);
    if (fd >= 0) {
        close(fd);
    }
    if (!ok || renameat(cache->fd, temporary, cache->fd, path) < 0) {
        unlinkat(cache->fd, temporary, 0);
    }
}

/* ---- all entries ---- */

static double
seconds(const struct timespec *time)
{
    return (double)time->tv_sec + 1e-9 * (double)time->tv_nsec;
}

/* Calls visit for every file whose name is a key, and returns their number. */
int
cache_list(const Cache *cache, bool check, void (*visit)(void *, const CacheEntry *), void *arg)
{
    int count = 0;
    DIR *folder = open_folder(cache);
    if (!folder) {
        return 0;
    }
    for (struct dirent *d; (d = readdir(folder));) {
        struct stat st;
        if (strlen(d->d_name) != KEY_SIZE + 3 || strcmp(d->d_name + KEY_SIZE, ".so") != 0) {
            continue;
        }
        int fd = openat(cache->fd, d->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) {
            continue;
        }
        if (fstat(fd, &st) == 0) {
            CacheEntry entry = {
                .bytes = st.st_size / (int64_t)(st.st_nlink + !st.st_nlink),
                .used = seconds(&st.st_mtim), .sound = true,
            };
            memcpy(entry.key, d->d_name, KEY_SIZE);
            if (check) {
                entry.sound = ours(fd, S_IFREG, &st) && is_sound(fd, (size_t)st.st_size);
            }
            visit(arg, &entry);
            count++;
        }
        close(fd);
    }
    closedir(folder);
    return count;
}

static void
add_size(void *arg, const CacheEntry *entry)
{
    *(int64_t *)arg += entry->bytes;
}

int64_t
cache_size(const Cache *cache)
{
    int64_t bytes = 0;
    cache_list(cache, false, add_size, &bytes);
    return bytes;
}

typedef struct {
    CacheEntry *entries;
    int count, cap;
} Entries;

static void
add_entry(void *arg, const CacheEntry *entry)
{
    Entries *all = arg;
    if (all->count == all->cap) {
        int cap = all->cap ? 2 * all->cap : 64;
        CacheEntry *grown = realloc(all->entries, (size_t)cap * sizeof *grown);
        if (!grown) {
            return;             /* without memory a few entries live longer */
        }
        all->entries = grown;
        all->cap = cap;
    }
    all->entries[all->count++] = *entry;
}

static int
by_age(const void *a, const void *b)
{
    double x = ((const CacheEntry *)a)->used, y = ((const CacheEntry *)b)->used;
    return (x > y) - (x < y);
}

int
cache_trim(const Cache *cache, int64_t bytes)
{
    int64_t size = cache_size(cache);
    if (size <= bytes) {
        return 0;
    }
    Entries all = {0};
    int removed = 0;
    cache_list(cache, false, add_entry, &all);
    if (all.count) {
        qsort(all.entries, (size_t)all.count, sizeof *all.entries, by_age);
    }
    for (int i = 0; i < all.count && size > bytes; i++) {
        char name[KEY_SIZE + 4];
        entry_name(name, all.entries[i].key);
        if (unlinkat(cache->fd, name, 0) == 0) {
            size -= all.entries[i].bytes;
            removed++;
        }
    }
    free(all.entries);
    return removed;
}

int
cache_clear(const Cache *cache)
{
    static const char *const all[] = {"tmp-", "lock-", "note-", NULL};
    sweep(cache, all, 0);
    return cache_trim(cache, -1);
}

int64_t
cache_bound(void)
{
    return environment_bytes("DLC_CACHE_SIZE", INT64_C(512) << 20);
}
