/* Files of the cache folder: what cache.c and mapped.c share. */
#ifndef DLC_CODEGEN_ENTRY_H
#define DLC_CODEGEN_ENTRY_H

#include "jit.h"

enum { KEY_SIZE = 2 * SHA256_SIZE, ENTRY_NAME = KEY_SIZE + 4 };

/* What stands behind the last byte of an entry. */
typedef struct Seal {
    char magic[16];
    uint8_t digest[SHA256_SIZE];
} Seal;

void seal_end(Sha256 *s, Seal *out);
bool seal_read(int fd, size_t size, Seal *out); /* of a file of that size; false: it has none */

struct stat;
bool entry_is_ours(const struct stat *st);
/* Is its seal right?  Reads a piece at a time, and only if the file ends like a sealed one: what is
 * no entry may have any size. */
bool entry_is_sound(int fd, size_t size);
void entry_name(char name[ENTRY_NAME], const char *key);
void temporary_name(char name[64]); /* of a file that no other process has made */
/* Notes, of two kinds: those of one stay, those of the other go when they are a month old. */
#define NOTE_LASTING "note"
#define NOTE_SEEN "seen"
/* A key under a name, for a month. */
bool cache_read_key(const Cache *cache, const char *name, Key *out);
void cache_write_key(const Cache *cache, const char *name, const Key *key);
/* After something was stored: removes leftovers, and the oldest entries beyond the bound. */
void cache_tidy(const Cache *cache, int64_t bound);

#endif
