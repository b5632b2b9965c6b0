/* The walk over the tiles of a phase, see prefetch_tiles.c. */
#ifndef DLC_TILES_H
#define DLC_TILES_H

#include "codegen/loops/loops.h"
#include "codegen/loops/pairs.h"
#include "codegen/loops/phase_use.h"

/* A row that is in a cache, or will be: a tensor, and where in it the row begins. */
typedef struct {
    const Value *tensor;
    Dim row;
} Cached;

/* Of a function: lets that one primitive does together, of the kernel that they were found for
 * last. */
typedef struct {
    const Let *kernel;
    Pairs *pairs;
} Found;

/* The walk over a phase, and which rows are at hand. */
typedef struct {
    const PhaseView *phase;
    const Facts *facts;
    Cx *cx;
    Found *found;
    Dim bytes; /* of the phase, or DIM_NONE: not counted yet */
    Cached *cached;
    int ncached;
    bool *differs; /* by Value.id: it has an element for each of the tile's */
    Map bound; /* indices that are data and vary: their IndexKind */
    Tile tile;
    const Let *loop; /* whose elements are the tile's; NULL outside */
    const Let *grid; /* the loop of rows around, or NULL */
    Dim rows; /* of a tile of the grid */
    int64_t width; /* the most elements of a tile */
    bool is_long; /* one row of a grid at a time */
    bool prefetches; /* does the loop prefetch what its own loads read? */
    bool *unzipped; /* by Value.id: an earlier load has brought it along */
    const Block *asked; /* the block for which fuel was asked last, to mark its lets merged; */
    bool may; /* and what it said */
} View;

/* ---- in_memory.c ---- */

/* What one primitive does together, of the kernel at hand. */
const Pairs *tiles_pairs(View *v);
/* Marks the let merged; all of a block is one change. */
void tiles_merge(View *v, const Let *let);
/* Marks a load that is read where it is in memory, and takes the mark away from others.  in_place:
 * it is one of four that one primitive reads where they are. */
void tiles_place_load(View *v, const Let *load, const Walk *walk, bool in_place);
/* The same of a store that the primitive does which computes its value. */
void tiles_place_store(View *v, const Let *store);
/* Takes the mark away from operations that the let's primitive does not compute: one of two is one
 * for all, or (not in_place) it does not find their operands where they are. */
void tiles_place_map(View *v, const Let *let, bool in_place);
/* The same from a size that no comparison makes. */
void tiles_place_size(View *v, const Let *size);

#endif
