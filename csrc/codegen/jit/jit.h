/* C to machine code, keys, and the cache on disk. */
#ifndef DLC_CODEGEN_JIT_H
#define DLC_CODEGEN_JIT_H

#include "codegen/compile/code.h"

/* ---- keys: of kernels, of what is compiled, of what the cache holds ---- */

typedef struct Key {
    char hex[2 * 32 + 1]; /* a SHA-256 */
} Key;

/* ---- sha256.c ---- */

enum { SHA256_SIZE = 32 };

typedef struct Sha256 {
    uint32_t state[8];
    uint64_t size;
    uint8_t rest[64];
} Sha256;

void sha256_begin(Sha256 *s);
void sha256_add(Sha256 *s, const void *data, size_t size);
void sha256_end(Sha256 *s, uint8_t digest[SHA256_SIZE]);
void key_end(Sha256 *s, Key *out); /* the same, as a key */

/* ---- jit_tcc.c: the only file that includes libtcc.h ---- */

/* Compiles `text` in process and fills every entry of code that is still empty.  One mutex:
 * compiler state is process-global.  false: `error` (NUL terminated, cut to cap) says why; errno is
 * ENOMEM where that is a lack of memory, and else something other. */
bool jit_tcc_compile(Code *code, const char *text, char *error, size_t cap);

/* ---- perf_map.c ---- */

/* Where the entries that were compiled into this memory are, for perf, when DLC_PERF is set. */
void perf_map_add(const Code *code, const void *memory, size_t size);

/* ---- cc_target.c: with what units are compiled ---- */

/* The compiler, the cache folder and the processor.  Reference counted. */
typedef struct CcTarget CcTarget;

typedef struct CcOptions {
    const char *compiler; /* NULL: DLC_CC, then cc, gcc, clang on the PATH */
    const char *cache; /* a folder, "" for none, NULL for the default one */
    bool wait; /* compile now, in this thread */
    bool caches; /* for the cache, also when nobody can call the code any more */
    CcTarget *target; /* made from these options before, or NULL */
    const Key *keys; /* of the unit in the cache; none: made from its text */
    int nkeys;
    unsigned flags; /* rows of tuning.def whose flags are given too: a bit 1 << row each */
    /* When not NULL, called around a compile that is waited for: for the interpreter lock. */
    void (*leave)(void *arg);
    void (*enter)(void *arg);
    /* When not NULL, asked without that lock while it is waited for: true ends the compile. */
    bool (*interrupted)(void *arg);
    void *lock_arg;
} CcOptions;

CcTarget *cc_target_new(const CcOptions *options); /* NULL without memory */
CcTarget *cc_target_ref(CcTarget *target);
void cc_target_unref(CcTarget *target);
/* The key of the machine code that the target makes of `content`. */
void cc_target_key(const CcTarget *target, const void *content, size_t size, Key *out);
/* The parts of its keys apart from the text that is compiled: processor and dlc, the compiler. */
void cc_target_origin(const CcTarget *target, Key *common, Key *compiler);
bool cc_target_compiles(const CcTarget *target); /* there is a compiler */
const char *cc_target_cache(const CcTarget *target); /* the folder, "" for none */

/* ---- jit_cc.c: gcc (or another C compiler) as a child process ---- */

/* The prelude's files one after the other: made from them by the build. */
extern const char dlc_prelude_text[];
/* The digest of the sources that decide machine code (digest.py), likewise. */
extern const char dlc_sources[];

/* Compiles the prelude and `text` to a shared object, loads it and swaps every entry.  Entries in
 * the cache are swapped in before it returns.  Otherwise, in the background, it returns at once,
 * and a failure leaves the entries as they are, is counted and logged; if no other reference to
 * code is left when its turn comes, nothing is compiled, or with `caches` after all others.  False:
 * the job was not taken, or with wait not compiled, and `error` has the reason. */
bool jit_cc_submit(Code *code, const char *text, const CcOptions *options, char *error, size_t cap);
/* A compile that a C compiler did not do (cc_failure.c), as it is shown. */
typedef struct {
    char command[256];
    char line[256]; /* the first line that says why */
    bool asked; /* somebody named this compiler, or waited for it */
} CcFailure;

bool jit_cc_failure(CcFailure *out); /* the last one; false: there was none */
/* Waits until no background compile is under way; false when `seconds` (negative: no limit)
 * pass. */
bool jit_cc_wait(double seconds);
/* Ends background compiles and their children; called when the process ends. */
void jit_cc_shutdown(void);

/* ---- cache.c: compiled units on disk, content-addressed, private, checked ---- */

/* The folder: `option` as in CcOptions.cache; the default is $DLC_CACHE_DIR, else
 * $XDG_CACHE_HOME/dlc, else ~/.cache/dlc.  False: path is "", because no cache is wanted. */
bool cache_path(const char *option, char *path, size_t cap);

/* An open folder.  cache_open makes it when it is missing, and refuses (false, with a line in the
 * log) one that is not ours alone to write, or that others could swap for another.  key: 64
 * hexadecimal digits. */
typedef struct Cache {
    int fd;
    const char *path;
    uint64_t sound[2]; /* device and number of the file that was last found sound */
} Cache;

bool cache_open(Cache *cache, const char *path);
/* the same, the line to `why` */
bool cache_try(Cache *cache, const char *path, char *why, size_t cap);
void cache_close(Cache *cache);
void *cache_load(Cache *cache, const char *key); /* for dlsym, or NULL: a miss */
void *cache_read(Cache *cache, const char *key, size_t *size); /* the object's bytes, to be freed */
/* Stores the object's bytes under each of the keys. */
bool cache_store(const Cache *cache, const Key *keys, int nkeys, const void *data, size_t size,
                 int64_t bound);
/* A note stores a short text under a name, which is a key.  It is a hint: it may be lost, out of
 * date, or any text. */
char *cache_read_note(const Cache *cache, const char *name); /* to be freed; NULL: there is none */
void cache_write_note(const Cache *cache, const char *name, const char *text);
/* A key by itself, for a month. */
bool cache_seen(const Cache *cache, const Key *key);
void cache_see(const Cache *cache, const Key *key);

/* For `python -m dlc cache`.  cache_list checks the seals when `check`; entries come in no
 * order. */
typedef struct CacheEntry {
    char key[65];
    int64_t bytes;
    double used; /* seconds since 1970 */
    bool sound;
} CacheEntry;

int cache_list(const Cache *cache, bool check, void (*visit)(void *arg, const CacheEntry *entry),
               void *arg);
int64_t cache_size(const Cache *cache); /* bytes */
int cache_clear(const Cache *cache); /* entries removed */
int cache_trim(const Cache *cache, int64_t bytes); /* the least recently used go */
int64_t cache_bound(void); /* $DLC_CACHE_SIZE, bytes */

/* ---- mapped.c: entries that are mapped; what files hold, without reading them ---- */

/* An entry that is written piece by piece. */
typedef struct CacheWriter {
    int fd;
    char name[64]; /* of the temporary file */
    Sha256 hash;
} CacheWriter;

/* False: nothing can be written. */
bool cache_begin(const Cache *cache, CacheWriter *w);
bool cache_add(CacheWriter *w, const void *data, size_t size);
/* Puts it in its place; false: it is not there.  Either way cache_drop does nothing more. */
bool cache_end(const Cache *cache, CacheWriter *w, const Key *key, int64_t bound);
void cache_drop(const Cache *cache, CacheWriter *w);
/* The pieces, for reading, at the begin of a page; NULL: a miss. */
void *cache_map(const Cache *cache, const char *key, size_t *size);
void cache_unmap(void *data, size_t size); /* the size that cache_map gave */

struct stat;
/* The SHA-256 of a file of which the system says st, and which has these bytes: of one that nobody
 * has written to since it was asked for last, without reading it. */
void cache_digest(const Cache *cache, const struct stat *st, const void *data, size_t size,
                  Key *out);

#endif
