/* Entries that are mapped: whole or not at all, and hashed again when their file was written to. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jit_test.h"

enum { PIECE = 100000, PIECES = 30 };

static Cache cache;
static Key key;
static char entry[256], piece[PIECE];

static void
store(void)
{
    CacheWriter w;
    CHECK(cache_begin(&cache, &w));
    for (int k = 0; k < PIECES; k++) {
        memset(piece, k, PIECE);
        CHECK(cache_add(&w, piece, PIECE));
    }
    CHECK(cache_end(&cache, &w, &key, cache_bound()) && w.fd < 0);
    cache_drop(&cache, &w); /* does nothing */
    CHECK(access(entry, F_OK) == 0);
}

static void
begin(void)
{
    static char folder[96];
    snprintf(folder, sizeof folder, "%s/cache", own_folder);
    memset(key.hex, '5', sizeof key.hex - 1);
    snprintf(entry, sizeof entry, "%s/%s.so", folder, key.hex);
    CHECK(cache_open(&cache, folder));
    store();
}

static bool
is_found(void)
{
    size_t size = 0;
    const char *data = cache_map(&cache, key.hex, &size);
    for (int k = 0; k < PIECES && data; k++) {
        CHECK(size == (size_t)PIECE * PIECES && data[k * PIECE] == k &&
              data[(k + 1) * PIECE - 1] == k);
    }
    if (data) {
        cache_unmap((void *)data, size);
    }
    return data;
}

static void
count_sound(void *arg, const CacheEntry *one)
{
    *(int *)arg += one->sound && one->bytes > PIECE * PIECES;
}

void
test_mapped(void)
{
    int sound = 0;
    begin();
    CHECK(is_found() && is_found());
    CHECK(cache_list(&cache, true, count_sound, &sound) == 1 && sound == 1);
    CHECK(cache_size(&cache) > PIECE * PIECES);
    const char *data;
    size_t size;
    CHECK((data = cache_map(&cache, key.hex, &size)));
    CHECK(cache_trim(&cache, PIECE) == 1 && !is_found());
    CHECK(data[PIECE] == 1); /* who has it keeps it */
    store();
    CHECK(is_found());
}

/* A file of another time is hashed again: the same content is taken, another one is removed. */
void
test_mapped_damaged(void)
{
    static const long places[] = {0, PIECE * 7L, -1, -40};
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    begin();
    CHECK(utimensat(AT_FDCWD, entry, times, 0) == 0 && is_found() && is_found());
    for (int k = 0; k < 4; k++) {
        FILE *file = fopen(entry, "r+b");
        CHECK(file && fseek(file, places[k], places[k] < 0 ? SEEK_END : SEEK_SET) == 0);
        int byte = fgetc(file);
        CHECK(byte >= 0 && fseek(file, -1, SEEK_CUR) == 0 && fputc(byte ^ 1, file) >= 0);
        CHECK(fclose(file) == 0 && !is_found() && access(entry, F_OK) < 0);
        store();
        CHECK(is_found());
    }
    CHECK(truncate(entry, PIECE) == 0 && !is_found());
    store();
    CHECK(truncate(entry, 0) == 0 && !is_found());
    store();
    CHECK(chmod(entry, 0666) == 0 && !is_found()); /* others may have written to it */
    CHECK(chmod(entry, 0600) == 0 && is_found());
    char other[300];
    snprintf(other, sizeof other, "%s.moved", entry);
    CHECK(rename(entry, other) == 0 && symlink(other, entry) == 0 && !is_found());
    CHECK(unlink(entry) == 0 && mkfifo(entry, 0600) == 0 && !is_found());
}

/* What is not ended is not there. */
void
test_mapped_unfinished(void)
{
    CacheWriter w;
    begin();
    CHECK(unlink(entry) == 0);
    CHECK(cache_begin(&cache, &w) && cache_add(&w, piece, PIECE));
    CHECK(!is_found());
    cache_drop(&cache, &w);
    cache_drop(&cache, &w);
    CHECK(!is_found() && count_files(cache.path) == 1); /* a note of the first one */
}

/* The digest of a file is noted once the file is old enough, and is that of its content after each
 * write. */
void
test_digest(void)
{
    char path[256];
    struct stat st;
    Key one, two, three;
    begin();
    snprintf(path, sizeof path, "%s/weights", own_folder);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && write(fd, "abc", 3) == 3 && fstat(fd, &st) == 0);
    int before = count_files(cache.path);
    cache_digest(&cache, &st, "abc", 3, &one);
    CHECK(strncmp(one.hex, "ba7816bf", 8) == 0 && count_files(cache.path) == before);
    usleep(150000);
    cache_digest(&cache, &st, "abc", 3, &two);
    CHECK(strcmp(one.hex, two.hex) == 0);
    cache_digest(&cache, &st, "not looked at", 13, &three);
    bool noted = count_files(cache.path) ==
                 before + 1; /* not where times have no parts of seconds */
    CHECK((strcmp(one.hex, three.hex) == 0) == noted);
    CHECK(pwrite(fd, "d", 1, 0) == 1 && fstat(fd, &st) == 0);
    cache_digest(&cache, &st, "dbc", 3, &two);
    CHECK(strcmp(one.hex, two.hex) != 0);
    struct timespec times[2] = {st.st_atim,
                                st.st_mtim}; /* who sets the time back changes another */
    CHECK(pwrite(fd, "e", 1, 0) == 1 && futimens(fd, times) == 0 && fstat(fd, &st) == 0);
    cache_digest(&cache, &st, "ebc", 3, &three);
    CHECK(strcmp(three.hex, two.hex) != 0);
    close(fd);
}
