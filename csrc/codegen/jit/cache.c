/* Compiled units on disk: content-addressed, private, sealed, bounded.
 *
 * An entry is a shared object, <key>.so; one with several kernels has a name for each.  It has a
 * seal behind its last byte: a magic number and the SHA-256 of all before it.  The key covers
 * everything that the object depends on (see cc_target.c and kernel_key.c), so an entry is never
 * out of date, only unused.  Nothing is loaded that another user could have written: the folder and
 * the file must belong to us and be writable by nobody else, and the file is loaded through the
 * descriptor that was checked (folder.c, object.c). Any fault of an entry or of the folder is a
 * miss and a line in the log, never an error. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "codegen/process.h"
#include "entry.h"
#include "files.h"

static const char magic[16] = "dlc sealed 1\n";

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

bool
entry_is_ours(const struct stat *st)
{
    return st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

bool
cache_try(Cache *cache, const char *path, char *why, size_t cap)
{
    struct stat st;
    *cache = (Cache){folder_open(path, true, why, cap), path, {0, 0}};
    if (cache->fd < 0) {
        return false;
    }
    if (fstat(cache->fd, &st) == 0 && entry_is_ours(&st) &&
        faccessat(cache->fd, ".", W_OK, 0) == 0) {
        return true;
    }
    snprintf(why, cap, "it has to be yours and writable by you alone (chmod u+w,go-w)");
    cache_close(cache);
    return false;
}

bool
cache_open(Cache *cache, const char *path)
{
    char why[512];
    if (cache_try(cache, path, why, sizeof why)) {
        return true;
    }
    log_line("cache: %s: not used: %s", path, why);
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

void
seal_end(Sha256 *s, Seal *out)
{
    sha256_end(s, out->digest);
    memcpy(out->magic, magic, sizeof magic);
}

bool
seal_read(int fd, size_t size, Seal *out)
{
    return size >= sizeof *out && file_read_at(fd, size - sizeof *out, out, sizeof *out) &&
           memcmp(out->magic, magic, sizeof magic) == 0;
}

bool
entry_is_sound(int fd, size_t size)
{
    char piece[1 << 14];
    Seal have, want;
    Sha256 s;
    if (!seal_read(fd, size, &have)) {
        return false;
    }
    sha256_begin(&s);
    for (size_t at = 0, end = size - sizeof have; at < end;) {
        size_t n = end - at < sizeof piece ? end - at : sizeof piece;
        if (!file_read_at(fd, at, piece, n)) {
            return false;
        }
        sha256_add(&s, piece, n);
        at += n;
    }
    sha256_end(&s, want.digest);
    return memcmp(have.digest, want.digest, sizeof want.digest) == 0;
}

/* ---- one entry ---- */

void
entry_name(char name[ENTRY_NAME], const char *key)
{
    snprintf(name, ENTRY_NAME, "%s.so", key);
}

/* entry_is_sound for an entry that is ours; the kernels of a unit are one file, read once. */
static bool
is_sound_file(Cache *cache, int fd, const struct stat *st)
{
    uint64_t file[2] = {(uint64_t)st->st_dev, (uint64_t)st->st_ino};
    if (memcmp(file, cache->sound, sizeof file) == 0) {
        return true;
    }
    if (!entry_is_sound(fd, (size_t)st->st_size)) {
        return false;
    }
    memcpy(cache->sound, file, sizeof file);
    return true;
}

/* The entry for reading, if it is sound and ours; -1: it is not there, or not to be used. */
static int
open_sound(Cache *cache, const char *name, struct stat *st)
{
    int fd = object_open(cache->fd, name, OBJECT_MOST, st);
    if (fd < 0 && errno == ENOENT) {
        return -1;
    }
    bool sound = false;
    if (fd < 0) {
        log_line("cache: %s: not loaded: %s", name, strerror(errno));
    } else if (!entry_is_ours(st)) {
        log_line("cache: %s: not loaded, it is not yours alone", name);
    } else if (!(sound = is_sound_file(cache, fd, st))) {
        log_line("cache: %s: damaged, removed", name);
        unlinkat(cache->fd, name, 0);
    }
    if (fd >= 0 && !sound) {
        close(fd);
        fd = -1;
    }
    return fd;
}

void *
cache_load(Cache *cache, const char *key)
{
    char name[ENTRY_NAME], path[4096];
    struct stat st;
    entry_name(name, key);
    int fd = open_sound(cache, name, &st);
    if (fd < 0) {
        return NULL;
    }
    futimens(fd, NULL); /* used now: it is the last to go */
    int n = snprintf(path, sizeof path, "%s/%s", cache->path, name);
    void *object = object_load(fd, n < (int)sizeof path ? path : name);
    close(fd);
    return object;
}

void *
cache_read(Cache *cache, const char *key, size_t *size)
{
    char name[ENTRY_NAME];
    struct stat st;
    entry_name(name, key);
    int fd = open_sound(cache, name, &st);
    if (fd < 0) {
        return NULL;
    }
    futimens(fd, NULL); /* as for an object */
    *size = (size_t)st.st_size - sizeof(Seal);
    char *data = file_read(fd, *size);
    close(fd);
    return data;
}

/* Files that may be removed when they are older; the list ends without a prefix. */
typedef struct {
    const char *prefix;
    int64_t seconds;
} Leftover;

static void
sweep(const Cache *cache, const Leftover *all)
{
    DIR *folder = folder_read(cache->fd);
    if (!folder) {
        return;
    }
    for (struct dirent *d; (d = readdir(folder));) {
        struct stat st;
        const Leftover *of = all;
        while (of->prefix && strncmp(d->d_name, of->prefix, strlen(of->prefix)) != 0) {
            of++;
        }
        if (of->prefix && fstatat(cache->fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            st.st_mtime + of->seconds <= time(NULL)) {
            unlinkat(cache->fd, d->d_name, 0);
        }
    }
    closedir(folder);
}

/* Writes the sealed data to a new file, which is there whole or not at all. */
static bool
write_sealed(const Cache *cache, const char *name, const void *data, size_t size)
{
    Sha256 hash;
    Seal s;
    sha256_begin(&hash);
    sha256_add(&hash, data, size);
    seal_end(&hash, &s);
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
    char name[ENTRY_NAME], other[96];
    entry_name(name, key->hex);
    snprintf(other, sizeof other, "%s-%.16s", temporary, key->hex);
    bool ok = linkat(cache->fd, temporary, cache->fd, other, 0) == 0 ||
              write_sealed(cache, other, data, size);
    ok = ok && renameat(cache->fd, other, cache->fd, name) == 0;
    int error = errno;
    unlinkat(cache->fd, other, 0); /* also left by a rename over a name of the same file */
    errno = error;
    return ok;
}

void
cache_tidy(const Cache *cache, int64_t bound)
{
    /* what killed writers and owners of locks leave behind; what is known of files that may be gone
     * is found again */
    static const Leftover leftovers[] = {
        {"tmp-", 3600}, {"lock-", 3600}, {NOTE_SEEN "-", INT64_C(30) * 24 * 3600}, {NULL, 0}};
    sweep(cache, leftovers);
    cache_trim(cache, bound);
}

/* Their numbers may be the same, in containers. */
void
temporary_name(char name[64])
{
    static atomic_uint serial;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    snprintf(name, 64, "tmp-%lx-%lx%08lx-%x", (long)getpid(), (long)t.tv_sec, (long)t.tv_nsec,
             serial++);
}

bool
cache_store(const Cache *cache, const Key *keys, int nkeys, const void *data, size_t size,
            int64_t bound)
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
    cache_tidy(cache, bound);
    return ok;
}

/* ---- notes ---- */

enum { NOTE_MOST = 1 << 20 };

/* Its text, to be freed; NULL: there is none. */
static char *
text_read(const Cache *cache, const char *kind, const char *name)
{
    char path[96];
    struct stat st;
    snprintf(path, sizeof path, "%s-%.64s", kind, name);
    int fd = object_open(cache->fd, path, NOTE_MOST, &st);
    bool fits = fd >= 0 && st.st_size > 0 && entry_is_ours(&st);
    char *text = fits ? calloc(1, (size_t)st.st_size + 1) : NULL;
    if (text && !file_read_at(fd, 0, text, (size_t)st.st_size)) {
        free(text);
        text = NULL;
    }
    if (fd >= 0) {
        close(fd);
    }
    return text;
}

static void
text_write(const Cache *cache, const char *kind, const char *name, const char *text)
{
    char *old = text_read(cache, kind, name);
    bool same = old && strcmp(old, text) == 0;
    free(old);
    if (same) {
        return;
    }
    char path[96], temporary[64];
    snprintf(path, sizeof path, "%s-%.64s", kind, name);
    temporary_name(temporary);
    int fd = openat(cache->fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && file_write(fd, text, strlen(text));
    if (fd >= 0) {
        close(fd);
    }
    if (!ok || renameat(cache->fd, temporary, cache->fd, path) < 0) {
        unlinkat(cache->fd, temporary, 0);
    }
}

char *
cache_read_note(const Cache *cache, const char *name)
{
    return text_read(cache, NOTE_LASTING, name);
}

void
cache_write_note(const Cache *cache, const char *name, const char *text)
{
    text_write(cache, NOTE_LASTING, name, text);
}

bool
cache_read_key(const Cache *cache, const char *name, Key *out)
{
    char *text = text_read(cache, NOTE_SEEN, name);
    bool ok = text && strlen(text) == KEY_SIZE && strspn(text, "0123456789abcdef") == KEY_SIZE;
    if (ok) {
        memcpy(out->hex, text, KEY_SIZE + 1);
    }
    free(text);
    return ok;
}

void
cache_write_key(const Cache *cache, const char *name, const Key *key)
{
    text_write(cache, NOTE_SEEN, name, key->hex);
}

bool
cache_seen(const Cache *cache, const Key *key)
{
    Key same;
    return cache_read_key(cache, key->hex, &same);
}

void
cache_see(const Cache *cache, const Key *key)
{
    cache_write_key(cache, key->hex, key);
}

/* ---- all entries ---- */

static double
seconds(const struct timespec *time)
{
    return (double)time->tv_sec + 1e-9 * (double)time->tv_nsec;
}

static bool
is_sound_entry(const Cache *cache, const char *name)
{
    struct stat st;
    int64_t most = cache_bound() > OBJECT_MOST ? cache_bound() : OBJECT_MOST;
    int fd = object_open(cache->fd, name, most, &st);
    bool sound = fd >= 0 && entry_is_ours(&st) && entry_is_sound(fd, (size_t)st.st_size);
    if (fd >= 0) {
        close(fd);
    }
    return sound;
}

/* Calls visit for every file whose name is a key, and returns their number. */
int
cache_list(const Cache *cache, bool check, void (*visit)(void *, const CacheEntry *), void *arg)
{
    int count = 0;
    DIR *folder = folder_read(cache->fd);
    if (!folder) {
        return 0;
    }
    for (struct dirent *d; (d = readdir(folder));) {
        struct stat st;
        if (strlen(d->d_name) != KEY_SIZE + 3 || strcmp(d->d_name + KEY_SIZE, ".so") != 0) {
            continue;
        }
        if (fstatat(cache->fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            double used = seconds(&st.st_mtim), read = seconds(&st.st_atim);
            CacheEntry entry = {
                .bytes = st.st_size / (int64_t)(st.st_nlink + !st.st_nlink),
                .used = used < read ? read : used,
                .sound = !check || is_sound_entry(cache, d->d_name),
            };
            memcpy(entry.key, d->d_name, KEY_SIZE);
            visit(arg, &entry);
            count++;
        }
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
            return; /* without memory a few entries live longer */
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
        char name[ENTRY_NAME];
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
    static const Leftover all[] = {
        {"tmp-", 0}, {"lock-", 0}, {NOTE_LASTING "-", 0}, {NOTE_SEEN "-", 0}, {NULL, 0}};
    sweep(cache, all);
    return cache_trim(cache, -1);
}

int64_t
cache_bound(void)
{
    return environment_bytes("DLC_CACHE_SIZE", INT64_C(512) << 20);
}
