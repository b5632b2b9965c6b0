/* Loads that gather rows of a table, see gather.c. */
#ifndef DLC_GATHER_H
#define DLC_GATHER_H

#include "facts.h"

/* A load of a row, where the row begins, and the one index that it is gathered by. */
typedef struct {
    const Let *load, *bind, *index;
    Dim row;
} Gather;

/* Finds what a load gathers: adjacent elements along one loop, of a row whose place is read from an
 * index in another loop, `through`; false: it gathers nothing. */
bool gather_find(const Facts *facts, const Let *load, const Let *along, const Let *through,
                 Gather *g);

#endif
