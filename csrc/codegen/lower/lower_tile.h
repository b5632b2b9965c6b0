/* What the order of a product's tiles (lower_tiles.c) asks of the loops of one tile. */
#ifndef DLC_LOWER_TILE_H
#define DLC_LOWER_TILE_H

#include "lower_product.h"

/* A product, its sizes, and the indices of the loops that are open. */
typedef struct {
    const Product *p;
    TileSizes size;
    Dim block, group, tile;     /* indices */
    Dim from;                   /* of the first summed letter; DIM_NONE: 0 */
    Dim place[MAX_RANK];        /* of the summed letters that have loops of their own */
    Value *buffer;              /* panels */
    Renamed names;
} Tiles;

static inline Dim
constant(const Tiles *t, int64_t n)
{
    return dim_int(t->p->lo->cx, n);
}

/* How many terms of a sum are packed at once, at most: the extent of a buffer. */
Dim tiles_sums_at_once(const Tiles *t);
/* The rows and columns of the tile; row i of it in the buffer, which has all tiles of the block
 * where there are chains; the index of the letter that w speaks of in a row of the tiles. */
Dim tile_rows(const Tiles *t);
Dim tile_columns(const Tiles *t);
Dim tile_row(const Tiles *t, Dim i);
Dim tile_index_within(const Tiles *t, const Within *w, Dim row);
/* Packs n terms of the sums, from `first` on, to panels; packs the whole sums of a group. */
void tiles_pack(const Tiles *t, Dim first, Dim n);
void tiles_pack_group(Tiles *t);
/* Multiplies the rows of a tile: by panels, for n terms of the sums from `first` on, which are not
 * the first terms with `more`; by columns that are read in place; by columns that each have row
 * elements of their own. */
void tile_multiply(const Tiles *t, Value *tile, Dim first, Dim n, bool more);
void tile_multiply_unpacked(const Tiles *t, Value *tile);
void tile_multiply_own(const Tiles *t, Value *tile);
/* Computes and stores the outputs at the elements of the tile. */
void tile_store(const Tiles *t, const Epilogue *e, Value *tile);

#endif
