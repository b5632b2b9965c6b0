/* Compiled units on disk: content-addressed, private, sealed, bounded.
 *
 * An entry is a shared object, <key>.so, with a seal behind its last byte: a magic number and the
 * SHA-256 of all before it.  The key covers everything that the object depends on (see jit_cc.c),
 * so an entry is never out of date, only unused.  Nothing is loaded that another user could have
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
    make_folders(path);
    *cache = (Cache){open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), path};
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

void *
cache_load(const Cache *cache, const char *key)
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
    } else if (!is_sound(fd, (size_t)st.st_size)) {
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

/* Removes what writers that were killed have left. */
static void
sweep(const Cache *cache, int64_t seconds)
{
    int copy = openat(cache->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = copy < 0 ? NULL : fdopendir(copy);
    if (!folder) {
        return;
    }
    for (struct dirent *d; (d = readdir(folder));) {
        struct stat st;
        if (strncmp(d->d_name, "tmp-", 4) == 0
            && fstatat(cache->fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0
            && st.st_mtime + seconds <= time(NULL)) {
            unlinkat(cache->fd, d->d_name, 0);
        }
    }
    closedir(folder);
}

bool
cache_store(const Cache *cache, const char *key, const void *data, size_t size)
{
    char name[KEY_SIZE + 4], temporary[64];
    Seal s;
    entry_name(name, key);
    snprintf(temporary, sizeof temporary, "tmp-%ld-%.16s", (long)getpid(), key);
    seal(data, size, &s);
    int fd = openat(cache->fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && file_write(fd, data, size) && file_write(fd, &s, sizeof s)
              && renameat(cache->fd, temporary, cache->fd, name) == 0;
    if (!ok) {
        log_line("cache: %s: not stored: %s", name, strerror(errno));
        if (fd >= 0) {
            unlinkat(cache->fd, temporary, 0);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    sweep(cache, STALE_SECONDS);
    cache_trim(cache, cache_bound());
    return ok;
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
    int count = 0, copy = openat(cache->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = copy < 0 ? NULL : fdopendir(copy);
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
            CacheEntry entry = {.bytes = st.st_size, .used = seconds(&st.st_mtim), .sound = true};
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
    sweep(cache, 0);
    return cache_trim(cache, -1);
}

int64_t
cache_bound(void)
{
    const char *text = getenv("DLC_CACHE_SIZE");
    if (!text || !*text) {
        return INT64_C(512) << 20;
    }
    char *end;
    double bytes = strtod(text, &end);
    const char *units = "KMGT", *unit = *end ? strchr(units, *end & ~0x20) : NULL;
    if (unit && *unit) {
        bytes *= (double)(INT64_C(1) << 10 * (unit - units + 1));
    }
    return bytes > 0 && bytes < 1e18 ? (int64_t)bytes : 0;
}
