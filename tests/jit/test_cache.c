/* The disk cache: a hit saves the compile, and whatever is wrong with an entry or the folder is a
 * miss. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jit_test.h"
#include "codegen/jit/cc_job.h"

static char folder[96];         /* of the cache */

static void
use_folder(void)
{
    snprintf(folder, sizeof folder, "%s/deep/cache", own_folder);
    setenv("DLC_CACHE_DIR", folder, 1);
}

/* Compiles double_text(add) now, and runs it. */
static void
compile(int add)
{
    char error[256], *text = double_text(add);
    Code *code = double_code();
    CHECK(jit_cc_submit(code, text, &(CcOptions){.wait = true}, error, sizeof error));
    CHECK(code_tier(code, 0) == TIER_CC && run_double(code) == 42 + add);
    free(text);
    code_unref(code);
}

static void
check_counts(int compiles, int hits)
{
    CHECK(count_get(COUNT_GCC_COMPILES) == compiles);
    CHECK(count_get(COUNT_CACHE_HITS) == hits);
    CHECK(count_get(COUNT_GCC_FAILURES) == 0);
}

/* The path of the only file in the folder. */
static const char *
entry_path(void)
{
    static char path[512];
    DIR *dir = opendir(folder);
    int count = 0;
    CHECK(dir);
    for (struct dirent *d; (d = readdir(dir));) {
        if (strstr(d->d_name, ".so")) {
            snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
            count++;
        }
    }
    closedir(dir);
    CHECK(count == 1);
    return path;
}

static mode_t
mode_of(const char *path)
{
    struct stat st;
    CHECK(stat(path, &st) == 0);
    return st.st_mode & 07777;
}

void
test_cache_hit(void)
{
    umask(0);
    use_folder();
    compile(0);
    check_counts(1, 0);
    CHECK(mode_of(folder) == 0700 && mode_of(entry_path()) == 0600);
    compile(0);
    check_counts(1, 1);
    char error[256], *text = double_text(0);
    Code *code = tcc_double(0);         /* in the background a hit is there at once */
    CHECK(jit_cc_submit(code, text, &(CcOptions){0}, error, sizeof error));
    CHECK(code_tier(code, 0) == TIER_CC);
    check_counts(1, 2);
    free(text);
    code_unref(code);
}

/* Changes the byte at `at` (from the end when negative) of the entry. */
static void
damage(long at)
{
    FILE *file = fopen(entry_path(), "r+b");
    CHECK(file && fseek(file, at, at < 0 ? SEEK_END : SEEK_SET) == 0);
    int byte = fgetc(file);
    CHECK(byte >= 0 && fseek(file, -1, SEEK_CUR) == 0 && fputc(byte ^ 1, file) >= 0);
    CHECK(fclose(file) == 0);
}

void
test_cache_damaged(void)
{
    static const long places[] = {0, 3000, -1, -48};
    use_folder();
    compile(0);
    for (int i = 0; i < 4; i++) {
        damage(places[i]);
        compile(0);
        check_counts(2 + i, 0);
    }
    CHECK(truncate(entry_path(), 4000) == 0);
    compile(0);
    CHECK(truncate(entry_path(), 0) == 0);
    compile(0);
    check_counts(7, 0);
    compile(0);
    check_counts(7, 1);
}

void
test_cache_entry_writable(void)
{
    use_folder();
    compile(0);
    CHECK(chmod(entry_path(), 0666) == 0);
    compile(0);
    check_counts(2, 0);
}

static void
check_refused(const char *path)
{
    Cache cache;
    setenv("DLC_CACHE_DIR", path, 1);
    CHECK(!cache_open(&cache, path));
    compile(0);
    compile(0);
    check_counts(2, 0);
}

void
test_cache_writable(void)
{
    use_folder();
    compile(1);
    CHECK(chmod(folder, 0770) == 0);
    compile(1);
    check_counts(2, 0);         /* the entry that is there is not loaded */
    CHECK(chmod(folder, 0700) == 0);
    compile(1);
    check_counts(2, 1);
}

/* A folder of another user: made one by root, and any other user finds "/" to be one. */
void
test_cache_foreign(void)
{
    char path[96];
    snprintf(path, sizeof path, "%s/foreign", own_folder);
    CHECK(mkdir(path, 0700) == 0);
    check_refused(geteuid() == 0 && chown(path, 12345, 12345) == 0 ? path : "/");
}

void
test_cache_unusable(void)
{
    char path[96];
    snprintf(path, sizeof path, "%s/file", own_folder);
    CHECK(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0);
    strcat(path, "/cache");
    check_refused(path);
}

void
test_cache_off(void)
{
    char error[256], *text = double_text(0);
    use_folder();
    for (int i = 0; i < 2; i++) {
        Code *code = double_code();
        CHECK(jit_cc_submit(code, text, &(CcOptions){.cache = "", .wait = true}, error,
                            sizeof error));
        code_unref(code);
    }
    check_counts(2, 0);
    CHECK(access(folder, F_OK) < 0);
    free(text);
}

/* Sets when the entry was used last; `key` is found by its path. */
static void
set_used(const char *path, time_t seconds)
{
    struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
}

void
test_cache_bound(void)
{
    Cache cache;
    char first[512];
    struct stat st;
    use_folder();
    compile(0);
    snprintf(first, sizeof first, "%s", entry_path());
    CHECK(stat(first, &st) == 0);
    set_used(first, 1000);
    char size[32];
    snprintf(size, sizeof size, "%ld", 3 * (long)st.st_size + 100);
    setenv("DLC_CACHE_SIZE", size, 1);
    compile(1);
    compile(2);
    CHECK(count_files(folder) == 4);    /* and a note */
    compile(0);                 /* used again, so it is not the one that goes */
    check_counts(3, 1);
    compile(3);
    CHECK(count_files(folder) == 4 && access(first, F_OK) == 0);
    CHECK(cache_open(&cache, folder) && cache_size(&cache) <= cache_bound());
    CHECK(cache_clear(&cache) == 3 && cache_size(&cache) == 0 && count_files(folder) == 0);
    cache_close(&cache);
    setenv("DLC_CACHE_SIZE", "2M", 1);
    CHECK(cache_bound() == 2 << 20);
    setenv("DLC_CACHE_SIZE", "0", 1);
    compile(4);
    CHECK(count_files(folder) == 0);
    unsetenv("DLC_CACHE_SIZE");
    CHECK(cache_bound() == 512 << 20);
}

static void
count_sound(void *arg, const CacheEntry *entry)
{
    int *counts = arg;
    CHECK(strlen(entry->key) == 64 && entry->bytes > 0 && entry->used > 0);
    counts[entry->sound]++;
}

static void
processor_key(const char *text, Key *out)
{
    Sha256 s;
    FILE *file = fmemopen((void *)text, strlen(text), "r");
    CHECK(file);
    sha256_begin(&s);
    cc_target_processor(file, &s);
    CHECK(fclose(file) == 0);
    key_end(&s, out);
}

/* Machine code is for one model, whatever else is said of it and of the second processor. */
void
test_cache_processor(void)
{
    static const char *const texts[] = {
        "vendor_id\t: A\nmodel\t\t: 1\nmodel name\t: X\ncpu MHz\t: 2\nflags\t: fma\n\nflags\t: \n",
        "vendor_id\t: A\nmodel\t\t: 1\nmodel name\t: Y\ncpu MHz\t: 3\nflags\t: fma\n",
        "vendor_id\t: A\nmodel\t\t: 2\nflags\t: fma\n",
        "vendor_id\t: A\nmodel\t\t: 1\nflags\t: fma avx2\n",
        "Features\t: asimd\nCPU part\t: 1\n",
        "Features\t: asimd\nCPU part\t: 2\n",
    };
    Key keys[6];
    for (int k = 0; k < 6; k++) {
        processor_key(texts[k], &keys[k]);
        for (int j = 0; j < k; j++) {
            CHECK((strcmp(keys[j].hex, keys[k].hex) == 0) == (j == 0 && k == 1));
        }
    }
}

/* The text, the compiler's words and what it reads in the environment are in the key; the list
 * finds the damaged ones. */
void
test_cache_key(void)
{
    Cache cache;
    int counts[2] = {0, 0};
    use_folder();
    compile(0);
    damage(100);
    compile(1);
    setenv("DLC_CC", "cc -O1", 1);
    compile(0);
    compile(1);
    check_counts(4, 0);
    compile(1);
    check_counts(4, 1);
    setenv("COMPILER_PATH", "/nowhere", 1);
    compile(1);
    check_counts(5, 1);
    unsetenv("COMPILER_PATH");
    compile(1);
    check_counts(5, 2);
    CHECK(cache_open(&cache, folder));
    CHECK(cache_list(&cache, true, count_sound, counts) == 5 && counts[0] == 1 && counts[1] == 4);
    cache_close(&cache);
}

static void *
compile_same(void *arg)
{
    for (int i = 0; i < 5; i++) {
        compile(*(int *)arg + i);
    }
    return NULL;
}

void
test_cache_threads(void)
{
    pthread_t threads[2];
    int base = 0;
    use_folder();
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, compile_same, &base) == 0);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(count_get(COUNT_GCC_COMPILES) + count_get(COUNT_CACHE_HITS) == 10);
    CHECK(count_get(COUNT_GCC_FAILURES) == 0 && count_files(folder) == 6);
}

void
test_cache_defaults(void)
{
    char path[128], tiny[4];
    setenv("HOME", "/home/h", 1);
    setenv("XDG_CACHE_HOME", "/x", 1);
    setenv("DLC_CACHE_DIR", "/d", 1);
    CHECK(cache_path("/o", path, sizeof path) && strcmp(path, "/o") == 0);
    CHECK(cache_path(NULL, path, sizeof path) && strcmp(path, "/d") == 0);
    CHECK(!cache_path("", path, sizeof path) && *path == '\0');
    unsetenv("DLC_CACHE_DIR");
    CHECK(cache_path(NULL, path, sizeof path) && strcmp(path, "/x/dlc") == 0);
    setenv("XDG_CACHE_HOME", "relative", 1);
    CHECK(cache_path(NULL, path, sizeof path) && strcmp(path, "/home/h/.cache/dlc") == 0);
    CHECK(!cache_path(NULL, tiny, sizeof tiny) && *tiny == '\0');
    unsetenv("HOME");
    CHECK(!cache_path(NULL, path, sizeof path));
}

/* A writer that was killed leaves a temporary file, which goes when it is old. */
void
test_cache_leftovers(void)
{
    char young[128], old[128];
    use_folder();
    compile(0);
    snprintf(young, sizeof young, "%s/tmp-1-young", folder);
    snprintf(old, sizeof old, "%s/tmp-1-old", folder);
    CHECK(close(open(young, O_CREAT | O_WRONLY, 0600)) == 0);
    CHECK(close(open(old, O_CREAT | O_WRONLY, 0600)) == 0);
    set_used(old, 1000);
    compile(1);
    CHECK(access(young, F_OK) == 0 && access(old, F_OK) < 0);
}

static void
check_sha(const char *text, size_t times, const char *digest)
{
    Sha256 s;
    uint8_t bytes[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];
    sha256_begin(&s);
    for (size_t i = 0; i < times; i++) {
        sha256_add(&s, text, strlen(text));
    }
    sha256_end(&s, bytes);
    for (int i = 0; i < SHA256_SIZE; i++) {
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    }
    CHECK(strcmp(hex, digest) == 0);
}

/* The examples of FIPS 180. */
void
test_sha256(void)
{
    check_sha("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_sha("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_sha("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_sha("a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    char text[1001] = {0}; /* the last one again, in pieces of more than a block */
    memset(text, 'a', 1000);
    check_sha(text, 1000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    for (size_t size = 500; size >= 125; size /= 2) {
        text[size] = '\0';
        check_sha(text, 1000000 / size,
                  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
}

/* A unit that begins with a kernel whose object is loaded already: the file has its name in the
 * cache, which dlopen knows as the object that it was. */
void
test_cache_renamed(void)
{
    char error[256], *first = double_text(1), *both;
    Key keys[2] = {{"aa"}, {"bb"}};
    Code *one = double_code(), *two = code_new((const char *[]){"twice", "thrice"}, 2);
    use_folder();
    CHECK(asprintf(&both,
                   "%sint thrice(void *const *p, const long long *n, long long lo, long long hi)\n"
                   "{\n    return 3;\n}\n",
                   first) > 0);
    CHECK(jit_cc_submit(one, first, &(CcOptions){.wait = true, .keys = keys, .nkeys = 1}, error,
                        sizeof error));
    CHECK(jit_cc_submit(two, both, &(CcOptions){.wait = true, .keys = keys, .nkeys = 2}, error,
                        sizeof error));
    CHECK(code_tier(two, 0) == TIER_CC && code_tier(two, 1) == TIER_CC);
    CHECK(run_double(two) == 43 && code_entry(two, 1)(NULL, NULL, 0, 0) == 3);
    check_counts(2, 0);
    free(first);
    free(both);
    code_unref(one);
    code_unref(two);
}
