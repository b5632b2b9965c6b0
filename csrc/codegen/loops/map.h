/* Hash tables from a few words to an entry, see map.c. */
#ifndef DLC_MAP_H
#define DLC_MAP_H

#include "ir/ir.h"

typedef struct MapEntry MapEntry;
typedef struct {
    MapEntry **slots;
    size_t room, count;
} Map;

/* NULL when there is none */
void *map_get(const Map *map, const uint32_t *key, int n);
/* made, zeroed, if new */
void *map_at(Cx *cx, Map *map, const uint32_t *key, int n, size_t bytes);

#endif
