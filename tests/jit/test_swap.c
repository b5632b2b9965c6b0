/* Who may rename folders above ours swaps them while we look; what is no file of ours lies where
 * one should. Nothing foreign is loaded, nothing foreign is removed, and nobody waits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "jit_test.h"

enum { OURS = 100, FOREIGN = 200, SWAP_SHARDS = 40 };

static Key key = {"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"};

static const char *
in_own(const char *name)
{
    static char paths[8][256];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, 256, "%s/%s", own_folder, name);
    return path;
}

static void
write_file(const char *path, const void *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0 && file_write(fd, data, size) && close(fd) == 0);
}

/* An object with `twice` that adds `add`, followed by zeros: reading it takes a while.  To be
 * freed. */
static char *
make_object(int add, size_t *size)
{
    struct stat st;
    char command[512], *text = double_text(add);
    const char *source = in_own("object.c"), *object = in_own("object.so");
    unlink(source);
    write_file(source, text, strlen(text));
    snprintf(command, sizeof command, "cc -shared -fPIC -nostdlib -o %s %s", object, source);
    CHECK(system(command) == 0 && truncate(object, 1 << 16) == 0);
    int fd = open(object, O_RDONLY);
    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    char *data = file_read(fd, *size = (size_t)st.st_size);
    CHECK(data && close(fd) == 0);
    free(text);
    return data;
}

static void
store(const char *folder, int add)
{
    Cache cache;
    size_t size;
    char *data = make_object(add, &size);
    CHECK(cache_open(&cache, folder) && cache_store(&cache, &key, 1, data, size, cache_bound()));
    cache_close(&cache);
    free(data);
}

/* What the entry adds; -1: it is not loaded. */
static int
load(const char *folder)
{
    Cache cache;
    int in = 0, out = -1;
    if (!cache_open(&cache, folder)) {
        return -1;
    }
    void *object = cache_load(&cache, key.hex);
    KernelFn fn = object ? (KernelFn)dlsym(object, "twice") : NULL;
    if (fn) {
        CHECK(fn((void *[]){&in, &out}, NULL, 0, 1) == 0);
    }
    if (object) {
        dlclose(object);
    }
    cache_close(&cache);
    return out;
}

/* ---- the cache ---- */

typedef struct { atomic_bool stop; int rest; } Swapping;

static void *
swap(void *arg)
{
    Swapping *s = arg;
    while (!atomic_load(&s->stop)) {
        CHECK(renameat2(AT_FDCWD, in_own("above"), AT_FDCWD, in_own("foreign"), RENAME_EXCHANGE) ==
              0);
        for (volatile int k = 0; k < s->rest; k++) {
        }
    }
    return NULL;
}

static int
asked_for(const char *variable, int otherwise)
{
    const char *value = getenv(variable);
    return value ? atoi(value) : otherwise;
}

/* The folder above ours is another one half of the time.  $SWAPS: how often one looks; $SWAP_SHARD:
 * which part this is of many, each with its own rest between two swaps, so that these come at other
 * moments of a look. */
void
test_swap_cache(void)
{
    pthread_t thread;
    const char *folder = strdup(in_own("above/cache"));
    int tries = asked_for("SWAPS", 1000), shard = asked_for("SWAP_SHARD", 0), counts[3] = {0};
    Swapping swapping = {.rest = shard % SWAP_SHARDS * 500};
    store(in_own("foreign/cache"), FOREIGN);
    CHECK(chmod(in_own("foreign/cache"), 0777) == 0);
    store(folder, OURS);
    CHECK(load(folder) == OURS);
    CHECK(pthread_create(&thread, NULL, swap, &swapping) == 0);
    for (int k = 0; k < tries; k++) {
        counts[(load(folder) + 1) / 100]++;
    }
    atomic_store(&swapping.stop, true);
    CHECK(pthread_join(thread, NULL) == 0);
    if (getenv("SWAPS")) {
        printf("shard %d: ours %d, nothing %d, foreign %d\n", shard, counts[1], counts[0],
               counts[2]);
    }
    CHECK(counts[2] == 0 && counts[1] > 0);
    free((char *)folder);
}

/* Not ours, or of others above us: refused, with the folder's name. */
void
test_swap_parents(void)
{
    Cache cache;
    char why[512];
    const char *above = strdup(in_own("above")), *folder = strdup(in_own("above/one/cache"));
    CHECK(chmod(own_folder, 0755) == 0);
    store(folder, OURS);
    CHECK(chmod(above, 0777) == 0);
    CHECK(!cache_try(&cache, folder, why, sizeof why));
    CHECK(strstr(why, above) && strstr(why, "can be written by others"));
    CHECK(load(folder) == -1);
    CHECK(chmod(above, 01777) == 0 && load(folder) == OURS);
    CHECK(chmod(above, 0777) == 0 && chmod(own_folder, 0700) == 0 && load(folder) == OURS);
    CHECK(chmod(own_folder, 0755) == 0 && chmod(above, 0755) == 0 && load(folder) == OURS);
    CHECK(symlink("above/../above/one", in_own("link")) == 0 && load(in_own("link/cache")) == OURS);
    CHECK(symlink("round", in_own("round")) == 0);
    CHECK(!cache_try(&cache, in_own("round/cache"), why, sizeof why) &&
          strstr(why, "symbolic links"));
    CHECK(chdir(above) == 0 && load("one//./cache/") == OURS && chdir("/") == 0);
    if (geteuid() == 0) {
        CHECK(chown(above, 12345, 12345) == 0);
        CHECK(!cache_try(&cache, folder, why, sizeof why) &&
              strstr(why, "belongs to another user"));
        CHECK(chown(above, 0, 0) == 0 && chmod(above, 01777) == 0);
        CHECK(symlink("one", in_own("above/theirs")) == 0 &&
              load(in_own("above/theirs/cache")) == OURS);
        CHECK(lchown(in_own("above/theirs"), 12345, 12345) == 0);
        CHECK(!cache_try(&cache, in_own("above/theirs/cache"), why, sizeof why) &&
              strstr(why, "link"));
    }
    free((char *)above);
    free((char *)folder);
}

/* Names that mean something else to dlopen; and what debuggers are told. */
void
test_swap_names(void)
{
    static const char *const names[] = {"$ORIGIN/$LIB/c", "${PLATFORM}", "a:b;c", " \n",
                                        "(deleted)"};
    for (int k = 0; k < 5; k++) {
        char path[256];
        snprintf(path, sizeof path, "%s", in_own(names[k]));
        store(path, OURS + k);
        CHECK(load(path) == OURS + k);
    }
    Cache cache;
    Dl_info info;
    const char *folder = in_own(names[0]);
    CHECK(cache_open(&cache, folder));
    void *one = cache_load(&cache, key.hex), *same = cache_load(&cache, key.hex);
    CHECK(one && one == same && dladdr(dlsym(one, "twice"), &info) &&
          strstr(info.dli_fname, key.hex));
    CHECK(strncmp(info.dli_fname, folder, strlen(folder)) == 0);
    store(folder, OURS + 50);   /* under the same name, while the old one is in use */
    CHECK(load(folder) == OURS + 50);
    dlclose(one);
    dlclose(same);
    cache_close(&cache);
}

/* ---- a compile ---- */

/* The compiler's folder is swapped while it runs: what it wrote is taken, and what lies in the
 * other one stays. */
void
test_swap_compile(void)
{
    char body[1024], error[256], *text = double_text(1);
    size_t size;
    char *data = make_object(FOREIGN, &size);
    write_file(in_own("evil.so"), data, size);
    CHECK(mkdir(in_own("tmp"), 0700) == 0 && setenv("TMPDIR", in_own("tmp"), 1) == 0);
    snprintf(body, sizeof body,
             "cc \"$@\" || exit 1\n"
             "cd %s && folder=$(echo tmp/dlc-*) && mv tmp gone && mkdir -p $folder\n"
             "cp evil.so $folder/unit.so && cp evil.so $folder/precious\n"
             "ls $folder/precious",
             own_folder);
    write_script("swapping", body);
    Code *code = double_code();
    CHECK(jit_cc_submit(code, text, &(CcOptions){.cache = "", .wait = true}, error, sizeof error));
    CHECK(run_double(code) == 43);
    CHECK(system("test -e $TMPDIR/dlc-*/precious") == 0);
    code_unref(code);
    free(text);
    free(data);
}

/* ---- files that are none ---- */

static void
make_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", path);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && close(fd) == 0);
}

enum { PIPE, FOLDER, SOCKET, DEVICE, LINK, LOOP, SPARSE, SEALED_SPARSE, EMPTY, SPECIALS };

static void
make_special(int kind, const char *path)
{
    switch (kind) {
    case PIPE: CHECK(mkfifo(path, 0600) == 0); break;
    case FOLDER: CHECK(mkdir(path, 0700) == 0); break;
    case SOCKET: make_socket(path); break;
    case DEVICE:                /* where one may: the link is refused elsewhere */
        CHECK(mknod(path, S_IFCHR | 0600, (1 << 8) + 5) == 0 || symlink("/dev/zero", path) == 0);
        break;
    case LINK: CHECK(symlink("/dev/zero", path) == 0); break;
    case LOOP: CHECK(symlink(path, path) == 0); break;
    default: write_file(path, "", 0);
    }
    if (kind == SPARSE || kind == SEALED_SPARSE) {
        CHECK(truncate(path, INT64_C(3) << 30) == 0);
    }
    if (kind == SEALED_SPARSE) {
        static const char magic[] = "dlc sealed 1\n\0\0\0",
                          hash[33] = "no hash of what is in the file..";
        int fd = open(path, O_WRONLY | O_APPEND);
        CHECK(fd >= 0 && file_write(fd, magic, 16) && file_write(fd, hash, 32) && close(fd) == 0);
    }
}

static void
check_damaged(void *unused, const CacheEntry *entry)
{
    (void)unused;
    CHECK(!entry->sound);
}

void
test_swap_special_entries(void)
{
    const char *folder = strdup(in_own("cache"));
    char path[256];
    snprintf(path, sizeof path, "%s/%s.so", folder, key.hex);
    for (int kind = 0; kind < SPECIALS; kind++) {
        Cache cache;
        CHECK(cache_open(&cache, folder));
        make_special(kind, path);
        CHECK(load(folder) == -1);
        CHECK(cache_list(&cache, true, check_damaged, NULL) <= 1);
        if (kind == FOLDER) {
            CHECK(rmdir(path) == 0);
        } else {
            store(folder, OURS);        /* over it */
            CHECK(load(folder) == OURS && unlink(path) == 0);
        }
        cache_close(&cache);
    }
    free((char *)folder);
}

enum { DAMAGED = 300, OTHERS = 100 };

/* Not loaded, in less than a second. */
static void
check_not_loaded(const char *folder)
{
    double begin = now();
    CHECK(load(folder) == -1 && now() - begin < 1);
}

/* A bit changed, or a part of it, or more. */
static void
write_damaged(const char *path, const char *data, size_t size, unsigned *seed)
{
    char *copy = malloc(2 * size);
    size_t at = (size_t)rand_r(seed) % size;
    int kind = rand_r(seed) % 3;
    memcpy(copy, data, size);
    memcpy(copy + size, data, size);
    copy[at] ^= kind == 0 ? (char)(1 << rand_r(seed) % 8) : 0;
    write_file(path, copy, kind == 0 ? size : kind == 1 ? at : size + 1 + at);
    free(copy);
}

/* An object without a seal or with one that is none, a script, an entry that others may write or
 * that is another's. */
static void
write_other(int kind, const char *path, const char *data, size_t size, const char *object,
            size_t bytes)
{
    static const char seal[48] = "dlc sealed 1\n", script[] = "#!/bin/sh\n";
    int fd;
    switch (kind % 5) {
    case 0: write_file(path, object, bytes); break;
    case 1:
        write_file(path, object, bytes);
        fd = open(path, O_WRONLY | O_APPEND);
        CHECK(fd >= 0 && file_write(fd, seal, sizeof seal) && close(fd) == 0);
        break;
    case 2: write_file(path, script, sizeof script); break;
    case 3: write_file(path, data, size); CHECK(chmod(path, 0666) == 0); break;
    default:
        write_file(path, data, size);
        CHECK(chown(path, 12345, 12345) == 0 || chmod(path, 0622) == 0);
    }
}

static long
peak_kilobytes(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_maxrss;
}

/* 300 damaged files, 100 foreign and 20 that are none, as entries or as the folder: within a second
 * and 50 MB. */
void
test_swap_refused(void)
{
    char path[256];
    unsigned seed = (unsigned)asked_for("SWAP_SHARD", 0);
    const char *folder = strdup(in_own("cache")), *other = strdup(in_own("other")),
               *kept = strdup(in_own("kept"));
    size_t size, bytes;
    char *object = make_object(FOREIGN, &bytes);
    store(folder, OURS);
    CHECK(load(folder) == OURS);
    snprintf(path, sizeof path, "%s/%s.so", folder, key.hex);
    int fd = open(path, O_RDONLY);
    struct stat st;
    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    char *data = file_read(fd, size = (size_t)st.st_size);
    CHECK(data && close(fd) == 0 && rename(path, kept) == 0);
    long before __attribute__((unused)) = peak_kilobytes();
    for (int k = 0; k < DAMAGED; k++) {
        write_damaged(path, data, size, &seed);
        check_not_loaded(folder);
        unlink(path);           /* most of them are removed by who looks */
    }
    for (int k = 0; k < OTHERS; k++) {
        write_other(k, path, data, size, object, bytes);
        check_not_loaded(folder);
        unlink(path);           /* most of them are removed by who looks */
    }
    for (int kind = 0; kind < SPECIALS; kind++) {
        make_special(kind, path);
        make_special(kind, other);
        check_not_loaded(folder);
        check_not_loaded(other);
        remove(path);
        CHECK(remove(other) == 0);
    }
    CHECK(symlink(kept, path) == 0);
    check_not_loaded(folder);
    unlink(path);
    CHECK(symlink("/proc/self/mem", path) == 0);
    check_not_loaded(folder);
#ifndef __SANITIZE_ADDRESS__    /* which keeps for a time what is freed */
    CHECK(peak_kilobytes() - before < 50 << 10);
#endif
    CHECK(rename(kept, path) == 0 && load(folder) == OURS);
    free((char *)folder);
    free((char *)other);
    free((char *)kept);
    free(object);
    free(data);
}

/* What a compiler leaves as its object. */
void
test_swap_special_objects(void)
{
    static const char *const lines[] = {
        "mkfifo unit.so",
        "mkdir unit.so && rmdir unit.so",
        "ln -s /dev/zero unit.so",
        "ln -s unit.so unit.so",
        "truncate -s 3G unit.so",
        "cc \"$@\" && truncate -s 3G unit.so",
        "cc \"$@\" && mv unit.so a && ln -s a unit.so",
    };
    char error[256], *text = double_text(1);
    Code *code = double_code();
    for (int k = 0; k < (int)(sizeof lines / sizeof *lines); k++) {
        write_script("special", lines[k]);
        CHECK(!jit_cc_submit(code, text, &(CcOptions){.wait = true}, error, sizeof error));
        CHECK(strstr(error, "no shared object") && !code_entry(code, 0));
    }
    code_unref(code);
    free(text);
}
