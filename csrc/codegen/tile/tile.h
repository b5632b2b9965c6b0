/* What the files that make the tiles of a product tell each other. */
#ifndef DLC_TILE_H
#define DLC_TILE_H

#include "codegen/builder/builder.h"

/* An operand: what the nest reads. */
typedef struct {
    Value *from;
    Dim at[MAX_RANK], offset;
    bool panels;                /* already packed: the last two axes are those of a panel */
    bool filled;                /* its panels are filled for some steps at a time */
} Factor;

/* Loops of one class, outermost first. */
typedef struct {
    int n;
    Dim index[MAX_LOOPS], extent[MAX_LOOPS];
} Nest;

/* A product, as its nest says it. */
typedef struct {
    Builder *out;               /* the loops marked batch, and all around them, are open */
    bool blocked;               /* a loop around is over blocks of rows */
    Factor a, b;                /* the rows and the columns */
    Dim column; /* the columns, if both operands have their letter; else DIM_NONE */
    bool runs; /* sums go through runs of the row operand */
    bool packs_groups; /* each group of panels is filled in its own loop, whole sums at once */
    const struct Fill *fill; /* the phase whose panels the tiles fill themselves, or NULL */
    Dim sum; /* the index of the sum */
    Dim terms; /* of the sum in the nest */
    Dim nsums; /* the same, of all places */
    bool varies; /* sums have different numbers of terms */
    const Let *places; /* the outermost loop over places, or NULL */
    const Value *total; /* where the sums of groups are collected, as numbers; or NULL */
    const Value *begin; /* what the total is before the first place */
    Dtype dtype; /* of the sums */
    Dtype held; /* what panels hold of the columns, and of rows that are packed */
    Nest batch, rows, columns; /* its loops */
} Product;

/* What is computed of the sums of a tile, once they are all there: at the rows and columns of the
 * tile whose loops are open, where the names have these indices. */
typedef struct {
    void (*put)(const void *arg, Builder *out, const Renamed *names, Value *tile, const Dim *at);
    /* what becomes of the totals with the sums of one group, which are in `tile` */
    void (*collect)(const void *arg, Builder *out, const Renamed *names, Value *tile, const Dim *at,
                    Value *totals, const Dim *to);
    const void *arg;
} Epilogue;

/* How the loops of a product are cut. */
typedef struct {
    Dim rows, columns, sums;    /* extents of the loops in the tiles */
    Dim height, tiles;          /* of a tile; their number */
    int64_t block_tiles;        /* in a block of rows; the last block may have fewer */
    int64_t width;              /* columns of a panel */
    int64_t group_panels;       /* of a group, at most */
    Dim group_columns;          /* in a group; the last group may have fewer */
    bool few, many;             /* may all rows be in one tile; or in more than one */
    bool chained;               /* sums are cut into chains, so that tiles keep them */
    bool rows_packed;
} TileSizes;

/* A product, its sizes, and the indices of the loops that are open. */
typedef struct {
    const Product *p;
    TileSizes size;
    Dim block, group, tile;     /* indices */
    Value *buffer;              /* panels */
    int around;                 /* the depth of the loops over blocks */
    Renamed names;
} Tiles;

static inline Dim
constant(const Tiles *t, int64_t n)
{
    return dim_int(t->p->out->cx, n);
}

/* How many terms of a sum are packed at once, at most: the extent of a buffer. */
Dim tiles_sums_at_once(const Tiles *t);
/* fill.c: a phase that fills the panels of a product. */
typedef struct Fill {
    Value *buffer;
    Let *loop;                  /* the phase */
    Let *panel;                 /* its loop over panels, which is in the loops over other axes */
    bool computes;              /* and does not only copy */
} Fill;

/* Finds the phase that fills what the load in the nest reads; false: there is none.  Can its panels
 * be filled for some steps of the sums? */
bool fill_find(Cx *cx, const Let *nest, const Let *load, Dim column, Fill *f);
bool fill_has_steps(Cx *cx, const Fill *f);
/* Frees the names in the phase, which is dropped when its copies are there. */
void fill_begin(Fn *fn, const Fill *f);
void fill_drop(const Fill *f);
/* Where some steps of a panel go: the buffer of the panels, or a new one, which is packed then. */
Value *fill_buffer(const Tiles *t);
/* Puts what fills this panel of the operand, for n steps from `first` on, or DIM_NONE, for all: to
 * panel number `slot` of the buffer `to`. */
void fill_put(const Tiles *t, Value *to, Dim slot, Dim panel, Dim first, Dim n);

/* The rows and columns of the tile; row i of it in the buffer, which has all tiles of the block
 * where there are chains. */
Dim tile_rows(const Tiles *t);
Dim tile_columns(const Tiles *t);
Dim tile_row(const Tiles *t, Dim i);
/* Packs n terms of the sums, from `first` on, to panels; fills the whole sums of a group. */
void tiles_pack(const Tiles *t, Dim first, Dim n);
void tiles_fill_group(Tiles *t);
/* Multiplies the rows of a tile: by panels, for n terms of the sums from `first` on, which are not
 * the first terms with `more`; by columns that are read in place; by columns that each have row
 * elements of their own. */
void tile_multiply(const Tiles *t, Value *tile, Dim first, Dim n, bool more);
void tile_multiply_unpacked(const Tiles *t, Value *tile);
void tile_multiply_own(const Tiles *t, Value *tile);
/* Computes and stores the outputs at the elements of the tile; adds the sums of a group to totals.
 */
void tile_store(const Tiles *t, const Epilogue *e, Value *tile);
void tile_collect(const Tiles *t, const Epilogue *e, Value *tile, Value *totals);

/* A load in the loop that is open. */
static inline Value *
load_here(Builder *out, Value *buffer, const Dim *at)
{
    return builder_load(out, out->depth, buffer, at);
}

/* sizes.c.  by_panels: the column operand is already packed, and larger than the other one; each
 * group of panels is used for all rows before the next one.  The inner extent is that of the loop
 * inside the tiles. */
TileSizes tile_sizes(const Product *p);
bool product_is_by_panels(const Product *p);
Dim product_inner_extent(const Nest *nest);
/* order.c */
void tiles_put(const Product *p, const Epilogue *e);

#endif
