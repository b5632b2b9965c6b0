/* The order of a product's loops: blocks of rows, groups of panels, chains of sums, tiles.
 *
 * What:     one phase.  Parallel loops run over batches, groups of panels and blocks of rows; a
 *           panel has 128 bytes of adjacent columns.  In them, loops copy the panels of the column
 *           operand.  For each tile of rows, a loop multiplies rows of the other operand by the
 *           panels into a tile of sums.  Loops over the tile compute and store
 *           the outputs while the tile is in the first-level cache.
 * Requires: a Product of a nest (tile.c), whose loops marked batch are open.
 * Ensures:  rows and columns may be symbols.  No loop's bounds depend on the machine or on the
 *           number of threads.
 * How:      one_tile.c has the loops of one tile, this file their order.
 *           All tiles have the same height, except the last one.
 *           If there is one tile of rows, each element of a panel would be used once: the column
 *           operand is then read in place.  If the number of rows is a symbol, the text has both
 *           forms, in an if and its else.
 *           Sums longer than one chain are cut into chains, so that the panels of one chain stay in
 *           the second-level cache while all tiles of the block are computed; a tile keeps its sums
 *           between the chains.  The outputs of a tile are computed right after its last chain.
 *           Rows whose elements of a sum are not adjacent are packed too.
 *           A column operand that is computed is made one panel and chain at a time (fill.c),
 *           whatever the number of rows: there is one form.  It is computed into the panel, or if
 *           it is read along the sum, into a buffer, which is packed.
 *           Panels that are filled group by group are in the loop over these, whole sums at once,
 *           and the loops over rows are in that loop.
 * Why not:  pack all of an operand first: its elements would go through the caches twice, while a
 *           panel that was just packed is still in one.  Chains for one tile: a form for few rows
 *           reads its operand as one stream.
 * Example:  y = relu(contract x, w over="mk,nk->mn"), with K of one chain and many rows:
 *           for g, for r parallel {
 *             for q { for p { for l { panel = w } } };
 *             for t { for i { for q { for l { tile = sum of x * panel } } };
 *                     for i { for l { y = relu(tile) } } } }. */
#include "tile.h"

/* ---- extents and loops ---- */

/* Opens all loops but the one inside, and adds their indices to the names.  Returns how many. */
static int
open_class(Builder *out, const Nest *nest, Renamed *to)
{
    for (int k = 0; k < nest->n; k++) {
        bool inside = k == nest->n - 1;
        renamed_add(out->cx, to, nest->index[k],
                    inside ? nest->index[k] : builder_open(out, "i", nest->extent[k]));
    }
    return nest->n - 1;
}

/* The number of terms, from `first` on, that are multiplied at once: those of one chain, or all. */
static Dim
sums_from(const Tiles *t, Dim first)
{
    Cx *cx = t->p->out->cx;
    Dim none = constant(t, 0), left = dim_sub(cx, t->size.sums, first);
    if (!t->size.chained) {
        return t->size.sums;
    }
    left = dim_min(cx, constant(t, CONTRACTION_CHAIN), left);
    bool known = !t->p->varies || dim_le(cx, none, left);
    return known ? left : dim_max(cx, none, left);
}

/* The number of chains.  If some sums leave out terms, it is the number of the sums with the most
 * terms, if that is known, and the last chains of the others are empty. */
static Dim
chains_of(const Tiles *t)
{
    Cx *cx = t->p->out->cx;
    Dim sums = t->size.sums;
    if (t->p->varies && dim_range(cx, sums).hi < DIM_INF) {
        sums = extent_of_buffer(cx, sums);
    }
    return extent_ceiling(cx, sums, constant(t, CONTRACTION_CHAIN));
}

/* Opens a loop if it has more than one iteration, or `always`, because a phase must be a loop. */
static Dim
open_some(Builder *out, const char *stem, Dim extent, bool always, int *opened)
{
    if (!always && extent_is_one(out->cx, extent)) {
        return dim_int(out->cx, 0);
    }
    ++*opened;
    return builder_open(out, stem, extent);
}

static Dim
open_tiles(const Tiles *t, int *opened)
{
    Builder *out = t->p->out;
    Dim most = constant(t, t->size.block_tiles),
        left = dim_sub(out->cx, t->size.tiles, dim_mul(out->cx, most, t->block));
    *opened = 0;
    return open_some(out, "t", dim_min(out->cx, most, left), false, opened);
}

/* ---- one tile of rows or several ---- */

/* Does the number of rows decide, when it runs, how they are multiplied? */
static bool
has_forms(const Tiles *t)
{
    return t->size.few && t->size.many && !t->p->b.panels && t->p->column == DIM_NONE;
}

/* Opens the choice of the form for one tile, or of that for several. */
static void
open_few(const Tiles *t)
{
    builder_open_choice(t->p->out, t->size.rows, constant(t, MICRO_MOST_ROWS));
}

static void
open_many(const Tiles *t)
{
    builder_open_choice(t->p->out, constant(t, MICRO_MOST_ROWS + 1), t->size.rows);
}

static void
close_form(const Tiles *t, bool opened)
{
    if (opened) {
        builder_close_choice(t->p->out);
    }
}

/* Packs n terms of the sums from `first` on, unless all of the group's are packed already. */
static void
pack_terms(const Tiles *t, Dim first, Dim n)
{
    if (t->buffer && !t->p->packs_groups) {
        tiles_pack(t, first, n);
    }
}

/* ---- the orders of tiles ---- */

/* Multiplies all tiles of the block by one more chain: n terms of the sums from `first` on. */
static void
put_chain(Tiles *t, Value *tiles, Dim first, Dim n)
{
    int opened;
    pack_terms(t, first, n);
    t->tile = open_tiles(t, &opened);
    tile_multiply(t, tiles, first, n, true);
    builder_close_all(t->p->out, opened);
}

/* The chains of all tiles of the block but the last one, which has no terms if there is one chain
 * only; packs the terms of that. */
static void
put_first_chains(Tiles *t, Value *tiles, Dim between, Dim last)
{
    Builder *out = t->p->out;
    Cx *cx = out->cx;
    Dim none = constant(t, 0), one = constant(t, 1), length = constant(t, CONTRACTION_CHAIN);
    int opened;
    pack_terms(t, none, sums_from(t, none));
    t->tile = open_tiles(t, &opened);
    tile_multiply(t, tiles, none, sums_from(t, none), false);
    builder_close_all(out, opened);
    opened = 0;
    if (!dim_is(cx, between, 0)) {
        Dim chain = open_some(out, "c", between, false, &opened);
        Dim first = dim_mul(cx, length, dim_add(cx, chain, one));
        put_chain(t, tiles, first, sums_from(t, first));
        builder_close_all(out, opened);
    }
    if (!dim_is(cx, sums_from(t, last), 0)) {
        pack_terms(t, last, sums_from(t, last));
    }
}

/* A buffer of the sums of so many tiles. */
static Value *
sums_of_tiles(const Tiles *t, int64_t tiles, Dtype dtype)
{
    Builder *out = t->p->out;
    Dim room[] = {constant(t, MICRO_MOST_ROWS * tiles),
                  constant(t, t->size.width * t->size.group_panels)};
    return builder_buffer(out, out->depth, dtype, 2, room);
}

/* That of one tile or, where there are chains, of all tiles of the block. */
static Value *
open_sums(const Tiles *t)
{
    const Product *p = t->p;
    return sums_of_tiles(t, t->size.chained ? t->size.block_tiles : 1,
                         p->total ? p->total->type->dtype : p->dtype);
}

/* Multiplies one tile: by what is left of the sums after the chains before, from `first` on, or by
 * columns that no form packs. */
static void
put_rest(const Tiles *t, Value *tile, Dim first)
{
    Dim n = sums_from(t, first);
    if (t->p->column != DIM_NONE) {
        tile_multiply_own(t, tile);
    } else if (!t->size.many && !t->p->b.panels) {
        tile_multiply_unpacked(t, tile);
    } else if (!t->size.chained || !dim_is(t->p->out->cx, n, 0)) {
        tile_multiply(t, tile, first, n, t->size.chained);
    }
}

/* Computes the sums: all chains but the last one for all tiles of the block, which keep them; then
 * tile by tile the last chain, or the only one, and the tile's outputs.  The form for one tile of
 * rows has no chains before. */
static void
put_sums(Tiles *t, const Epilogue *e)
{
    Builder *out = t->p->out;
    Cx *cx = out->cx;
    Dim none = constant(t, 0), one = constant(t, 1), last = none, between = none;
    bool forms = has_forms(t), chained = t->size.chained;
    int opened;
    if (chained) {
        Dim chains = chains_of(t), length = constant(t, CONTRACTION_CHAIN);
        between = dim_sub(cx, chains, constant(t, 2));
        /* a loop of less than no iterations has none, which is shorter to say */
        between = dim_is_int(cx, between, NULL) ? dim_max(cx, none, between) : between;
        last = dim_mul(cx, length, dim_max(cx, one, dim_sub(cx, chains, one)));
        last = t->p->varies ? last : dim_min(cx, t->size.sums, last);
    }
    Value *sums = chained ? open_sums(t) : NULL;
    if (forms) {
        open_many(t);
    }
    if (chained) {
        put_first_chains(t, sums, between, last);
    } else {
        pack_terms(t, none, t->size.sums);
    }
    close_form(t, forms);
    t->tile = open_tiles(t, &opened);
    sums = chained ? sums : open_sums(t);
    if (forms) {
        open_few(t);
        tile_multiply_unpacked(t, sums);
        builder_else(out);
    }
    put_rest(t, sums, last);
    close_form(t, forms);
    tile_store(t, e, sums);
    builder_close_all(out, opened);
}

/* Sets the block's tiles to what they are before the first place. */
static void
begin_tiles(Tiles *t, Value *tiles)
{
    Builder *out = t->p->out;
    int opened;
    t->tile = open_tiles(t, &opened);
    Dim i = builder_open(out, "i", tile_rows(t)), l = builder_open(out, "l", tile_columns(t));
    builder_store(
        out, tiles, (Dim[]){tile_row(t, i), l},
        builder_const(out, out->depth, t->p->begin->def->args[0], tiles->type->dtype, tiles->name));
    builder_close_all(out, opened + 2);
}

/* Multiplies all tiles of the block by the terms of one group, and adds the sums to the totals. */
static void
put_group(Tiles *t, const Epilogue *e, Value *totals)
{
    Dim none = constant(t, 0);
    int opened;
    pack_terms(t, none, t->p->terms);
    t->tile = open_tiles(t, &opened);
    Value *sums = sums_of_tiles(t, 1, t->p->dtype);
    tile_multiply(t, sums, none, t->p->terms, false);
    tile_collect(t, e, sums, totals);
    builder_close_all(t->p->out, opened);
}

/* Computes the sums place by place.  At each place, the rows of a tile that leave it out keep their
 * sums. */
static void
put_places(Tiles *t, const Epilogue *e)
{
    const Product *p = t->p;
    Builder *out = p->out;
    Value *tiles = open_sums(t);
    int opened = 0, of_tiles;
    begin_tiles(t, tiles);
    for (const Let *let = p->places; let->op != OP_reduce; let = let->body->lets[0]) {
        if (let->op == OP_for) {
            Dim n = loop_extent(let);
            dims_rename(out->cx, &t->names, 1, &n);
            renamed_add(out->cx, &t->names, loop_index(let),
                        open_some(out, "w", n, false, &opened));
        }
    }
    if (p->total) {
        put_group(t, e, tiles);
    } else {
        put_chain(t, tiles, constant(t, 0), p->terms);
    }
    builder_close_all(out, opened);
    t->tile = open_tiles(t, &of_tiles);
    tile_store(t, e, tiles);
    builder_close_all(out, of_tiles);
}

/* Opens the loops over blocks of rows and groups of panels, and the loops around these.  Returns
 * how many. */
static int
open_blocks(Tiles *t)
{
    const Product *p = t->p;
    Builder *out = p->out;
    Cx *cx = out->cx;
    bool by_panels = product_is_by_panels(p);
    int opened = 0;
    opened += by_panels ? 0 : open_class(out, &p->rows, &t->names);
    opened += open_class(out, &p->columns, &t->names);
    t->group = open_some(out, "g", extent_ceiling(cx, t->size.columns, t->size.group_columns),
                         false, &opened);
    if (p->packs_groups) {
        tiles_fill_group(t);
    }
    opened += by_panels ? open_class(out, &p->rows, &t->names) : 0;
    Dim blocks = dim_range(cx, t->size.tiles).hi <= t->size.block_tiles
                     ? constant(t, 1)
                     : extent_ceiling(cx, t->size.tiles, constant(t, t->size.block_tiles));
    t->block = open_some(out, "r", blocks, opened + p->batch.n == 0 && !p->blocked, &opened);
    return opened;
}

void
tiles_put(const Product *p, const Epilogue *e)
{
    Builder *out = p->out;
    Tiles t = {.p = p, .size = tile_sizes(p)};
    int opened = open_blocks(&t);
    dims_rename(out->cx, &t.names, 1, &t.size.sums);
    if (t.size.many && !p->b.panels && p->column == DIM_NONE) {
        Dim room[] = {constant(&t, t.size.group_panels), tiles_sums_at_once(&t),
                      constant(&t, t.size.width)};
        t.buffer = builder_buffer(out, out->depth, p->held, 3, room);
    }
    t.around = out->depth;
    (p->places ? put_places : put_sums)(&t, e);
    builder_close_all(out, opened);
}
