/* Hash tables from a few words to an entry in the arena: open addressing, nothing is removed. */
#include <string.h>

#include "map.h"

struct MapEntry {
    uint64_t hash;
    int n;
    max_align_t payload[];
};

static uint64_t
hash_words(const uint32_t *key, int n)
{
    uint64_t h = 0x9e3779b97f4a7c15u ^ (uint64_t)n;
    for (int k = 0; k < n; k++) {
        h = (h ^ key[k]) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return h;
}

/* The payload is the key, then the entry.  This is the key's size in units of max_align_t. */
static size_t
key_room(int n)
{
    size_t unit = sizeof(max_align_t);
    return ((size_t)n * sizeof(uint32_t) + unit - 1) / unit;
}

static MapEntry **
find(const Map *map, uint64_t hash, const uint32_t *key, int n)
{
    size_t at = hash & (map->room - 1);
    for (; map->slots[at]; at = (at + 1) & (map->room - 1)) {
        MapEntry *e = map->slots[at];
        if (e->hash == hash && e->n == n &&
            (n == 0 || memcmp(e->payload, key, (size_t)n * sizeof *key) == 0)) {
            break;
        }
    }
    return &map->slots[at];
}

void *
map_get(const Map *map, const uint32_t *key, int n)
{
    MapEntry *e = map->room ? *find(map, hash_words(key, n), key, n) : NULL;
    return e ? e->payload + key_room(n) : NULL;
}

static void
enlarge(Cx *cx, Map *map)
{
    Map old = *map;
    map->room = old.room ? 2 * old.room : 64;
    map->slots = cx_alloc(cx, map->room * sizeof *map->slots);
    for (size_t k = 0; k < old.room; k++) {
        MapEntry *e = old.slots[k];
        if (e) {
            *find(map, e->hash, (const uint32_t *)e->payload, e->n) = e;
        }
    }
}

void *
map_at(Cx *cx, Map *map, const uint32_t *key, int n, size_t bytes)
{
    if (2 * map->count >= map->room) {
        enlarge(cx, map);
    }
    uint64_t hash = hash_words(key, n);
    MapEntry **slot = find(map, hash, key, n);
    if (!*slot) {
        MapEntry *e = cx_alloc(cx, sizeof *e + key_room(n) * sizeof(max_align_t) + bytes);
        e->hash = hash;
        e->n = n;
        if (n) {
            memcpy(e->payload, key, (size_t)n * sizeof *key);
        }
        *slot = e;
        map->count++;
    }
    return (*slot)->payload + key_room(n);
}
