/* Entries that are mapped, and files whose content is known without reading them.
 *
 * What:     an entry as those of cache.c, of any size below the folder's bound, which is written
 *           piece by piece and mapped: its pages are shared by all processes that have it.
 * How:      to hash an entry takes as long as to make what is in it, so it is hashed when it is
 *           written, and then known by what the system says of its file: device, number, size, the
 *           time of the last write, and the start of the machine, since a file that was written
 *           before a crash may have lost its content.  Where one of these is another one, it is
 *           hashed again.  A note in the folder has the digest under the hash of these facts.
 *           Files of users are known in the same way, also by the time of their last change, which
 *           nobody can set.
 * Why not   a path, or the digest that a file says of itself: whoever wrote the file could give
 *           another model the values of his own. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "codegen/process.h"
#include "entry.h"
#include "files.h"

/* Seconds in which two writes may have one time: of a file system that has parts of seconds, and of
 * one that has not. */
#define FINE 0.1
#define COARSE 3.0

/* ---- what a file holds ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char boot[64]; /* a name of this start of the machine; "": nobody knows it */

static void
read_boot(void)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, boot, sizeof boot - 1);
    boot[n > 0 ? n : 0] = '\0';
    if (fd >= 0) {
        close(fd);
    }
}

/* The name of the note about the file; false: there is to be none.  own: it is an entry of the
 * folder, whose reading changes its times but that of its last write. */
static bool
name_of(const struct stat *st, bool own, Key *out)
{
    int64_t facts[] = {
        (int64_t)st->st_dev,          (int64_t)st->st_ino, st->st_size,
        st->st_mtim.tv_sec,           st->st_mtim.tv_nsec, own ? 0 : st->st_ctim.tv_sec,
        own ? 0 : st->st_ctim.tv_nsec};
    Sha256 s;
    pthread_once(&once, read_boot);
    sha256_begin(&s);
    sha256_add(&s, boot, sizeof boot);
    sha256_add(&s, facts, sizeof facts);
    key_end(&s, out);
    return *boot;
}

/* May it have been written to, after this was said of it, at the same time as before? */
static bool
is_fresh(const struct stat *st)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double age = (double)(now.tv_sec - st->st_ctim.tv_sec) +
                 1e-9 * (double)(now.tv_nsec - st->st_ctim.tv_nsec);
    return age < (st->st_ctim.tv_nsec ? FINE : COARSE);
}

void
cache_digest(const Cache *cache, const struct stat *st, const void *data, size_t size, Key *out)
{
    Key name;
    Sha256 s;
    bool notes = name_of(st, false, &name);
    if (notes && cache_read_key(cache, name.hex, out)) {
        return;
    }
    notes = notes && !is_fresh(st); /* before it is read, which may take longer */
    sha256_begin(&s);
    sha256_add(&s, data, size);
    key_end(&s, out);
    if (notes) {
        cache_write_key(cache, name.hex, out);
    }
}

static void
digest_text(const Seal *seal, Key *out)
{
    for (int k = 0; k < SHA256_SIZE; k++) {
        snprintf(out->hex + 2 * (size_t)k, 3, "%02x", seal->digest[k]);
    }
}

/* ---- writing ---- */

bool
cache_begin(const Cache *cache, CacheWriter *w)
{
    temporary_name(w->name);
    sha256_begin(&w->hash);
    w->fd = openat(cache->fd, w->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return w->fd >= 0;
}

bool
cache_add(CacheWriter *w, const void *data, size_t size)
{
    sha256_add(&w->hash, data, size);
    return file_write(w->fd, data, size);
}

bool
cache_end(const Cache *cache, CacheWriter *w, const Key *key, int64_t bound)
{
    char name[ENTRY_NAME];
    struct stat st;
    Seal seal;
    Key note, digest;
    entry_name(name, key->hex);
    seal_end(&w->hash, &seal);
    bool ok = file_write(w->fd, &seal, sizeof seal) && fstat(w->fd, &st) == 0 &&
              renameat(cache->fd, w->name, cache->fd, name) == 0;
    if (!ok) {
        log_line("cache: %s: not stored: %s", name, strerror(errno));
        cache_drop(cache, w);
        return false;
    }
    close(w->fd);
    w->fd = -1;
    if (name_of(&st, true, &note)) {
        digest_text(&seal, &digest);
        cache_write_key(cache, note.hex, &digest);
    }
    cache_tidy(cache, bound);
    return true;
}

void
cache_drop(const Cache *cache, CacheWriter *w)
{
    if (w->fd >= 0) {
        close(w->fd);
        unlinkat(cache->fd, w->name, 0);
    }
    w->fd = -1;
}

/* ---- reading ---- */

/* Is the entry as it was written? */
static bool
is_known(const Cache *cache, int fd, const struct stat *st)
{
    Seal seal;
    Key note, said, digest;
    bool notes = name_of(st, true, &note);
    if (!seal_read(fd, (size_t)st->st_size, &seal)) {
        return false;
    }
    digest_text(&seal, &digest);
    if (notes && cache_read_key(cache, note.hex, &said) && strcmp(said.hex, digest.hex) == 0) {
        return true;
    }
    if (!entry_is_sound(fd, (size_t)st->st_size)) {
        return false;
    }
    if (notes) {
        cache_write_key(cache, note.hex, &digest);
    }
    return true;
}

void *
cache_map(const Cache *cache, const char *key, size_t *size)
{
    char name[ENTRY_NAME];
    struct stat st;
    void *data = MAP_FAILED;
    entry_name(name, key);
    int fd = object_open(cache->fd, name, INT64_MAX, &st);
    if (fd < 0) {
        return NULL;
    }
    if (!entry_is_ours(&st)) {
        log_line("cache: %s: not mapped, it is not yours alone", name);
    } else if (!is_known(cache, fd, &st)) {
        log_line("cache: %s: damaged, removed", name);
        unlinkat(cache->fd, name, 0);
    } else {
        /* Used now: it is the last to go.  The time of the last write stays. */
        futimens(fd, (struct timespec[]){{0, UTIME_NOW}, {0, UTIME_OMIT}});
        *size = (size_t)st.st_size - sizeof(Seal);
        data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    }
    close(fd);
    return data == MAP_FAILED ? NULL : data;
}

void
cache_unmap(void *data, size_t size)
{
    munmap(data, size + sizeof(Seal));
}
