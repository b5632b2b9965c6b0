/* The loops of a product: blocks of rows, groups of panels, chains of sums, tiles.
 *
 * What:     one phase.  Parallel loops run over batches, groups of panels and blocks of rows; a
 *           panel has 128 bytes of adjacent columns.  In them, loops marked pack copy the panels of
 *           the column operand.  For each tile of rows, a loop marked micro multiplies rows of the
 *           other operand by the panels into a tile of sums.  Loops over the tile compute and store
 *           the targets while the tile is in the first-level cache.
 * Requires: a Product (lower_contract.c).
 * Ensures:  rows and columns may be symbols.  No loop's bounds depend on the machine or on the
 *           number of threads.
 * How:      All tiles have the same height, except the last one.
 *           If there is one tile of rows, each element of a panel would be used once: the column
 *           operand is then read in place.  If the number of rows is a symbol, the text has both
 *           forms, and the loops of the form that does not apply have the extent zero.
 *           Sums longer than one chain are cut into chains, so that the panels of one chain stay in
 *           the second-level cache while all tiles of the block are computed; a tile keeps its sums
 *           between the chains.  The targets of a tile are computed right after its last chain.
 *           Rows whose elements of a sum are not adjacent are packed too.
 *           A column operand that lower_pack.c leaves to the groups is packed in the loop over
 *           these, whole sums at once, and the loops over rows are in that loop.
 * Why not:  pack all of an operand first: its elements would go through the caches twice, while a
 *           panel that was just packed is still in one.  Chains for one tile: a form for few rows
 *           reads its operand as one stream.
 * Example:  y = relu(contract x, w over="mk,nk->mn"), with K of one chain and many rows:
 *           for g, for r parallel {
 *             for q { for p { for l { panel = w } } pack };
 *             for t { for i { for q { for l { tile = sum of x * panel } } } micro;
 *                     for i { for l { y = relu(tile) } } } }. */
#include <string.h>

#include "lower_product.h"

/* Names, and the indices that replace them in the loops. */
typedef struct {
    int n;
    Dim name[4 * MAX_RANK], by[4 * MAX_RANK];
} Renamed;

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

static Dim
constant(const Tiles *t, int64_t n)
{
    return dim_int(t->p->lo->cx, n);
}

/* ---- names and indices ---- */

static void
rename_all(Cx *cx, const Renamed *r, int n, Dim *dims)
{
    for (int k = 0; k < n; k++) {
        for (int j = 0; j < r->n; j++) {
            dims[k] = dim_replace(cx, dims[k], r->name[j], r->by[j]);
        }
    }
}

/* Opens all loops but the last `inside` ones, and adds the axes of the nest to the names. */
static int
open_class(Lower *lo, const Nest *nest, int inside, Renamed *to)
{
    int first = to->n, opened = nest->nloops > inside ? nest->nloops - inside : 0;
    for (int ax = 0; ax < nest->naxes; ax++) {
        to->name[to->n] = nest->name[ax];
        to->by[to->n++] = nest->axis[ax];
    }
    for (int k = 0; k < opened; k++) {
        Dim index = lower_open(lo, "i", nest->count[k]);
        for (int j = first; j < to->n; j++) {
            to->by[j] = dim_replace(lo->cx, to->by[j], nest->index[k], index);
        }
    }
    return opened;
}

static void
put_inner(Cx *cx, const Nest *nest, Dim at, Renamed *r)
{
    for (int k = 0; k < r->n && nest->nloops; k++) {
        r->by[k] = dim_replace(cx, r->by[k], nest->index[nest->nloops - 1], at);
    }
}

void
product_digits(const Product *p, Dim at, Dim *digits)
{
    Cx *cx = p->lo->cx;
    Dim inner = dim_int(cx, 1);
    for (int k = p->nsum - 1; k >= 0; k--) {
        Dim digit = dim_div(cx, at, inner);
        digits[k] = k ? dim_mod(cx, digit, p->sum_extent[k]) : digit;
        inner = dim_mul(cx, inner, p->sum_extent[k]);
    }
}

static void
put_sum(const Tiles *t, Dim at, Renamed *r)
{
    const Product *p = t->p;
    product_digits(p, at, r->by + r->n);
    if (t->from != DIM_NONE) {
        r->by[r->n] = dim_add(p->lo->cx, r->by[r->n], t->from);
    }
    memcpy(r->name + r->n, p->sum, (size_t)p->nsum * sizeof *r->name);
    r->n += p->nsum;
}

static Dim
row_of(const Tiles *t, Dim i)
{
    Cx *cx = t->p->lo->cx;
    Dim tile = dim_add(cx, dim_mul(cx, t->block, constant(t, t->size.block_tiles)), t->tile);
    return dim_add(cx, dim_mul(cx, t->size.height, tile), i);
}

static Dim
column_of(const Tiles *t, Dim l)
{
    Cx *cx = t->p->lo->cx;
    return dim_add(cx, dim_mul(cx, t->size.group_columns, t->group), l);
}

static Value *
load_factor(const Tiles *t, const Factor *f, const Renamed *names, Dim sum)
{
    Lower *lo = t->p->lo;
    Dim at[MAX_RANK];
    Renamed all = *names;
    put_sum(t, sum, &all);
    memcpy(at, f->at, sizeof at);
    rename_all(lo->cx, &all, f->from->type->rank, at);
    return lower_cast(lo, lower_load_here(lo, f->from, at), t->p->dtype);
}

static Value *
load_of_columns(const Tiles *t, Dim column, Dim sum)
{
    Renamed all = t->names;
    put_inner(t->p->lo->cx, &t->p->columns, column, &all);
    return load_factor(t, &t->p->b, &all, sum);
}

static Value *
load_of_rows(const Tiles *t, Dim row, Dim sum)
{
    Renamed all = t->names;
    put_inner(t->p->lo->cx, &t->p->rows, row, &all);
    return load_factor(t, &t->p->a, &all, sum);
}

/* How many terms the summed letters have from number `first` on. */
static Dim
terms_within(const Product *p, int first)
{
    Dim terms = dim_int(p->lo->cx, 1);
    for (int k = first; k < p->nsum; k++) {
        terms = dim_mul(p->lo->cx, terms, p->sum_extent[k]);
    }
    return terms;
}

/* The row of a panel of whole sums that holds term number `sum` of the terms from t->from on. */
static Dim
row_of_panel(const Tiles *t, Dim sum)
{
    Cx *cx = t->p->lo->cx;
    return t->from == DIM_NONE ? sum
                               : dim_add(cx, sum, dim_mul(cx, t->from, terms_within(t->p, 1)));
}

/* ---- extents ---- */

/* `extent`, which is at most `most`, if the form applies; else 0.  With `many` that is the form for
 * more than one tile of rows, otherwise the form for one tile. */
static Dim
extent_of_form(const Tiles *t, bool many, Dim extent, Dim most)
{
    Cx *cx = t->p->lo->cx;
    Dim height = constant(t, MICRO_MOST_ROWS);
    if (many ? !t->size.few : !t->size.many) {
        return extent;
    }
    Dim beyond = many ? dim_sub(cx, t->size.rows, height)
                      : dim_sub(cx, dim_add(cx, height, constant(t, 1)), t->size.rows);
    return dim_min(cx, extent, dim_mul(cx, most, dim_max(cx, constant(t, 0), beyond)));
}

static Dim
rows_of_tile(const Tiles *t)
{
    Cx *cx = t->p->lo->cx;
    return dim_min(cx, t->size.height, dim_sub(cx, t->size.rows, row_of(t, constant(t, 0))));
}

static Dim
columns_of_group(const Tiles *t)
{
    Cx *cx = t->p->lo->cx;
    return dim_min(cx, t->size.group_columns,
                   dim_sub(cx, t->size.columns, column_of(t, constant(t, 0))));
}

/* Opens a loop over the panels of the group if it has several.  *opened: whether it did. */
static Dim
open_panels(const Tiles *t, bool *opened)
{
    Cx *cx = t->p->lo->cx;
    *opened = t->size.group_panels > 1;
    Dim left = extent_ceiling(cx, columns_of_group(t), constant(t, t->size.width));
    return *opened ? lower_open(t->p->lo, "q", dim_min(cx, constant(t, t->size.group_panels), left))
                   : constant(t, 0);
}

/* Opens a loop over the columns of a panel of the group.  *column: the column within the group. */
static Dim
open_columns(const Tiles *t, Dim panel, Dim *column)
{
    Cx *cx = t->p->lo->cx;
    Dim first = dim_mul(cx, constant(t, t->size.width), panel);
    Dim left = dim_sub(cx, columns_of_group(t), first);
    Dim l = lower_open(t->p->lo, "l", dim_min(cx, constant(t, t->size.width), left));
    *column = dim_add(cx, first, l);
    return l;
}

/* How many terms of a sum are packed at once, at most: the extent of a buffer. */
static Dim
sums_at_once(const Tiles *t)
{
    return t->size.chained ? constant(t, CONTRACTION_CHAIN)
                           : extent_of_buffer(t->p->lo->cx, t->size.sums);
}

/* How many terms of a sum are multiplied at once, from `first` on: those of one chain, or all. */
static Dim
sums_from(const Tiles *t, Dim first)
{
    Cx *cx = t->p->lo->cx;
    Dim none = constant(t, 0), left = dim_sub(cx, t->size.sums, first);
    if (!t->size.chained) {
        return t->size.sums;
    }
    left = dim_min(cx, constant(t, CONTRACTION_CHAIN), left);
    bool known = !t->p->letters.where.first.place || dim_le(cx, none, left);
    return known ? left : dim_max(cx, none, left);
}

/* The number of chains.  Where some sums leave out terms it is that of the others, and the last
 * chains have none. */
static Dim
chains_of(const Tiles *t)
{
    Cx *cx = t->p->lo->cx;
    Dim sums = t->p->letters.where.first.place ? extent_of_buffer(cx, t->size.sums) : t->size.sums;
    return extent_ceiling(cx, sums, constant(t, CONTRACTION_CHAIN));
}

/* Opens a loop if it has more than one iteration, or `always`, because a phase must be a loop. */
static Dim
open_some(Lower *lo, const char *stem, Dim extent, bool always, int *opened)
{
    if (!always && extent_is_one(lo->cx, extent)) {
        return dim_int(lo->cx, 0);
    }
    ++*opened;
    return lower_open(lo, stem, extent);
}

static Dim
open_tiles(const Tiles *t, int *opened)
{
    Lower *lo = t->p->lo;
    Dim most = constant(t, t->size.block_tiles),
        left = dim_sub(lo->cx, t->size.tiles, dim_mul(lo->cx, most, t->block));
    *opened = 0;
    return open_some(lo, "t", dim_min(lo->cx, most, left), false, opened);
}

/* ---- packing and multiplying ---- */

/* Packs n terms of the sums, from `first` on, to panels. */
static void
pack_panels(const Tiles *t, Dim first, Dim n)
{
    Lower *lo = t->p->lo;
    bool several;
    Dim column, panel = open_panels(t, &several), p = lower_open(lo, "p", n),
                l = open_columns(t, panel, &column);
    Value *v = load_of_columns(t, column_of(t, column), dim_add(lo->cx, first, p));
    lower_store(lo, t->buffer, (Dim[]){panel, p, l}, v);
    lower_close(lo);
    loop_mark(lower_close(lo), MARK_pack, true);
    group_close(lo, several);
}

/* Packs the whole sums of a group to panels. */
static void
pack_group(Tiles *t)
{
    const Product *p = t->p;
    Lower *lo = p->lo;
    Tiles all = *t;
    bool several;
    int inside = 1;
    all.from = DIM_NONE;
    Dim sums = terms_within(p, 0);
    Dim room[] = {constant(t, t->size.group_panels), sums, constant(t, t->size.width)};
    t->buffer = lower_buffer(lo, lo->depth, p->dtype, 3, room);
    Dim column, panel = open_panels(t, &several),
                sum = product_open_sum(p, p->b.offset, sums, &inside),
                l = open_columns(t, panel, &column);
    lower_store(lo, t->buffer, (Dim[]){panel, sum, l},
                load_of_columns(&all, column_of(t, column), sum));
    group_close(lo, inside);
    loop_mark(lower_close(lo), MARK_pack, true);
    group_close(lo, several);
}

/* Packs rows of the tile, from `row` on, as if they were the columns of a panel. */
static Value *
pack_rows(const Tiles *t, Dim first, Dim n, Dim row, Dim rows)
{
    Lower *lo = t->p->lo;
    Dim room[] = {sums_at_once(t), constant(t, t->size.width)};
    Value *buffer = lower_buffer(lo, lo->outer, t->p->dtype, 2, room);
    Dim p = lower_open(lo, "p", n), i = lower_open(lo, "i", rows);
    Value *v = load_of_rows(t, row_of(t, dim_add(lo->cx, row, i)), dim_add(lo->cx, first, p));
    lower_store(lo, buffer, (Dim[]){p, i}, v);
    lower_close(lo);
    loop_mark(lower_close(lo), MARK_pack, true);
    return buffer;
}

/* Stores the sum of the loop that is open and closes the loops.  With `more` the tile's old value
 * is added. */
static void
store_sum(const Tiles *t, Value *tile, const Dim *at, Value *product, bool more, bool several)
{
    Lower *lo = t->p->lo;
    Value *v = lower_close_reduce(lo, OP_sum, MARK_fused, product);
    if (more) {
        v = lower_combine(lo, OP_add, lower_load_here(lo, tile, at), v);
    }
    lower_store(lo, tile, at, v);
    lower_close(lo);
    group_close(lo, several);
    loop_mark(lower_close(lo), MARK_micro, true);
}

/* Row i of the tile, as a row of the buffer: with chains, the buffer has all tiles of the block. */
static Dim
tile_row(const Tiles *t, Dim i)
{
    Cx *cx = t->p->lo->cx;
    return t->size.chained ? dim_add(cx, dim_mul(cx, constant(t, MICRO_MOST_ROWS), t->tile), i) : i;
}

/* The index of the letter that w speaks of in a row of the tiles. */
static Dim
index_within(const Tiles *t, const Within *w, Dim row)
{
    Cx *cx = t->p->lo->cx;
    Dim at = t->p->at[(int)w->at];
    Renamed all = t->names;
    put_inner(cx, &t->p->rows, row, &all);
    rename_all(cx, &all, 1, &at);
    return at;
}

/* The rows of the tile that are summed at the places whose loops are open: *n from *first on. */
static void
rows_summed(const Tiles *t, Dim *first, Dim *n)
{
    const Product *p = t->p;
    Cx *cx = p->lo->cx;
    Dim to = rows_of_tile(t), row = dim_index(cx, "i", to);
    *first = constant(t, 0);
    for (int k = 0; k < p->nplaces; k++) {
        const Within *w = places_later(p, k);
        if (w) {
            Dim at = index_within(t, w, row_of(t, row));
            places_rows(p, k, at, row, t->place[k], first, &to);
        }
    }
    *n = dim_sub(cx, to, *first);
}

/* Multiplies the rows of a tile by panels, for n terms of the sums from `first` on.  `more`: they
 * are not the first terms. */
static void
multiply_panels(const Tiles *t, Value *tile, Dim first, Dim n, bool more)
{
    Lower *lo = t->p->lo;
    Dim most = constant(t, MICRO_MOST_ROWS), row, rows, column;
    rows_summed(t, &row, &rows);
    rows = t->p->b.panels ? rows : extent_of_form(t, true, rows, most);
    Value *packed = t->size.rows_packed ? pack_rows(t, first, n, row, rows) : NULL;
    bool several;
    Dim i = lower_open(lo, "i", rows), panel = open_panels(t, &several),
        l = open_columns(t, panel, &column);
    Dim p = lower_open(lo, "p", n), sum = dim_add(lo->cx, first, p);
    row = dim_add(lo->cx, row, i);
    Value *x = packed ? lower_load_here(lo, packed, (Dim[]){p, i})
                      : load_of_rows(t, row_of(t, row), sum);
    Dim packed_at[] = {panel, t->p->packs_groups ? row_of_panel(t, sum) : p, l};
    Value *y = t->buffer ? lower_load_here(lo, t->buffer, packed_at)
                         : load_of_columns(t, column_of(t, column), sum);
    store_sum(t, tile, (Dim[]){tile_row(t, row), column}, lower_combine(lo, OP_mul, x, y), more,
              several);
}

/* Multiplies the rows of the only tile by columns that are read in place. */
static void
multiply_unpacked(const Tiles *t, Value *tile)
{
    Lower *lo = t->p->lo;
    Dim rows = extent_of_form(t, false, rows_of_tile(t), constant(t, MICRO_MOST_ROWS));
    Dim i = lower_open(lo, "i", rows), l = lower_open(lo, "l", columns_of_group(t)),
        p = lower_open(lo, "p", t->size.sums);
    Value *x = load_of_rows(t, row_of(t, i), p), *y = load_of_columns(t, column_of(t, l), p);
    store_sum(t, tile, (Dim[]){tile_row(t, i), l}, lower_combine(lo, OP_mul, x, y), false, false);
}

/* Multiplies the rows of a tile by columns that each have row elements of their own. */
static void
multiply_own(const Tiles *t, Value *tile)
{
    Lower *lo = t->p->lo;
    Renamed all = t->names;
    Dim i = lower_open(lo, "i", rows_of_tile(t)), l = lower_open(lo, "l", columns_of_group(t)),
        p = lower_open(lo, "p", t->size.sums);
    put_inner(lo->cx, &t->p->rows, row_of(t, i), &all);
    put_inner(lo->cx, &t->p->columns, column_of(t, l), &all);
    Value *x = load_factor(t, &t->p->a, &all, p), *y = load_factor(t, &t->p->b, &all, p);
    store_sum(t, tile, (Dim[]){tile_row(t, i), l}, lower_combine(lo, OP_mul, x, y), false, false);
}

/* Computes and stores the targets at the elements of the tile. */
static void
store_tile(const Tiles *t, const Group *g, Value *tile)
{
    Lower *lo = t->p->lo;
    Space space = {0};
    Dim outer[4 * MAX_RANK];
    Renamed all = t->names;
    Dim i = lower_open(lo, "i", rows_of_tile(t)), l = lower_open(lo, "l", columns_of_group(t));
    lo->tile = tile;
    lo->tile_at[0] = tile_row(t, i);
    lo->tile_at[1] = l;
    put_inner(lo->cx, &t->p->rows, row_of(t, i), &all);
    put_inner(lo->cx, &t->p->columns, column_of(t, l), &all);
    for (int k = 0; k < all.n; k++) {
        space.outer[space.nouter] = all.name[k];
        outer[space.nouter++] = all.by[k];
    }
    group_store(lo, g, 0, g->ntargets, &space, outer, NULL);
    group_close(lo, 2);
}

/* ---- the whole ---- */

/* Computes all sums of a tile at once, then its targets, tile by tile. */
static void
put_tiles(Tiles *t, const Group *g)
{
    Lower *lo = t->p->lo;
    Dim none = constant(t, 0), width = constant(t, t->size.width * t->size.group_panels);
    int opened;
    if (t->buffer && !t->p->packs_groups) {
        pack_panels(t, none, extent_of_form(t, true, t->size.sums, constant(t, CONTRACTION_CHAIN)));
    }
    t->tile = open_tiles(t, &opened);
    Value *tile = lower_buffer(lo, lo->depth, t->p->dtype, 2,
                               (Dim[]){constant(t, MICRO_MOST_ROWS), width});
    if (t->p->column != DIM_NONE) {
        multiply_own(t, tile);
    } else if (t->size.many || t->p->b.panels) {
        multiply_panels(t, tile, none, t->size.sums, false);
    }
    if (t->size.few && t->p->column == DIM_NONE && !t->p->b.panels) {
        multiply_unpacked(t, tile);
    }
    store_tile(t, g, tile);
    group_close(lo, opened);
}

/* Multiplies all tiles of the block by one more chain, n terms of the sums from `first` on.  With a
 * group its targets are computed too, of each tile at once. */
static void
put_chain(Tiles *t, Value *tiles, Dim first, Dim n, const Group *g)
{
    int opened;
    if (t->buffer && !t->p->packs_groups) {
        pack_panels(t, first, extent_of_form(t, true, n, constant(t, CONTRACTION_CHAIN)));
    }
    t->tile = open_tiles(t, &opened);
    multiply_panels(t, tiles, first, n, true);
    if (g) {
        store_tile(t, g, tiles);
    }
    group_close(t->p->lo, opened);
}

/* Computes the sums chain by chain for all tiles of the block, which keep them.  The last chain has
 * no terms if there is one chain only. */
static void
put_chains(Tiles *t, const Group *g)
{
    Lower *lo = t->p->lo;
    Cx *cx = lo->cx;
    Dim none = constant(t, 0), one = constant(t, 1), length = constant(t, CONTRACTION_CHAIN);
    Dim chains = chains_of(t), between = dim_max(cx, none, dim_sub(cx, chains, constant(t, 2)));
    Dim room[] = {constant(t, MICRO_MOST_ROWS * t->size.block_tiles),
                  constant(t, t->size.width * t->size.group_panels)};
    Value *tiles = lower_buffer(lo, lo->depth, t->p->dtype, 2, room);
    int opened;
    if (t->buffer && !t->p->packs_groups) {
        pack_panels(t, none, extent_of_form(t, true, sums_from(t, none), length));
    }
    t->tile = open_tiles(t, &opened);
    multiply_panels(t, tiles, none, sums_from(t, none), false);
    if (t->size.few && !t->p->b.panels) {
        multiply_unpacked(t, tiles);
    }
    group_close(lo, opened);
    if (!dim_is(cx, between, 0)) {
        Dim chain = lower_open(
            lo, "c", t->p->b.panels ? between : extent_of_form(t, true, between, between));
        Dim first = dim_mul(cx, length, dim_add(cx, chain, one));
        put_chain(t, tiles, first, sums_from(t, first), NULL);
        lower_close(lo);
    }
    Dim last = dim_mul(cx, length, dim_add(cx, between, one));
    last = t->p->letters.where.first.place ? last : dim_min(cx, t->size.sums, last);
    put_chain(t, tiles, last, sums_from(t, last), g);
}

/* Sets the block's tiles to what a sum begins with: -0.0 and a number are that number. */
static void
begin_tiles(Tiles *t, Value *tiles)
{
    Lower *lo = t->p->lo;
    int opened;
    t->tile = open_tiles(t, &opened);
    Dim i = lower_open(lo, "i", rows_of_tile(t)), l = lower_open(lo, "l", columns_of_group(t));
    lower_store(lo, tiles, (Dim[]){tile_row(t, i), l},
                lower_number(lo, t->p->dtype, -0.0, tiles->name));
    group_close(lo, opened + 2);
}

/* Computes the sums place by place.  At each the tiles' rows that leave it out keep what they
 * have. */
static void
put_places(Tiles *t, const Group *g)
{
    const Product *p = t->p;
    Lower *lo = p->lo;
    Cx *cx = lo->cx;
    Dim room[] = {constant(t, MICRO_MOST_ROWS * t->size.block_tiles),
                  constant(t, t->size.width * t->size.group_panels)};
    Dim first = constant(t, 0), inner = terms_within(p, p->nplaces);
    Value *tiles = lower_buffer(lo, lo->depth, p->dtype, 2, room);
    int opened = 0, of_tiles;
    begin_tiles(t, tiles);
    for (int k = 0; k < p->nplaces; k++) {
        const Within *w = places_later(p, k);
        Dim row = dim_index(cx, "i", t->size.rows), from = constant(t, 0);
        Dim n = k == 0 && t->from != DIM_NONE ? places_first(p, t->size.sums) : p->sum_extent[k];
        if (w && !dim_uses(cx, index_within(t, w, row), row)) {
            within_places(cx, w, index_within(t, w, row), p->sum_extent[k], &from, &n);
            n = dim_sub(cx, n, from);
        }
        t->place[k] = dim_add(cx, from, lower_open(lo, "w", n));
        first = dim_add(cx, dim_mul(cx, first, p->sum_extent[k]), t->place[k]);
    }
    Dim length = p->b.panels && !t->size.rows_packed ? inner : constant(t, CONTRACTION_CHAIN);
    Dim chain = open_some(lo, "c", dim_div(cx, inner, length), false, &opened);
    first = dim_add(cx, dim_mul(cx, first, inner), dim_mul(cx, chain, length));
    put_chain(t, tiles, first, length, NULL);
    group_close(lo, opened + p->nplaces);
    t->tile = open_tiles(t, &of_tiles);
    store_tile(t, g, tiles);
    group_close(lo, of_tiles);
}

/* Opens the loops over blocks of rows and groups of panels, and the loops around these.  Returns
 * how many. */
static int
open_blocks(Tiles *t)
{
    const Product *p = t->p;
    Lower *lo = p->lo;
    Cx *cx = lo->cx;
    bool by_panels = product_is_by_panels(p);
    int opened = open_class(lo, &p->batch, 0, &t->names);
    opened += by_panels ? 0 : open_class(lo, &p->rows, 1, &t->names);
    opened += open_class(lo, &p->columns, 1, &t->names);
    t->group = open_some(lo, "g", extent_ceiling(cx, t->size.columns, t->size.group_columns), false,
                         &opened);
    if (p->packs_groups) {
        pack_group(t);
    }
    opened += by_panels ? open_class(lo, &p->rows, 1, &t->names) : 0;
    Dim blocks = dim_range(cx, t->size.tiles).hi <= t->size.block_tiles
                     ? constant(t, 1)
                     : extent_ceiling(cx, t->size.tiles, constant(t, t->size.block_tiles));
    t->block = open_some(lo, "r", blocks, opened == 0 && !lo->blocked, &opened);
    return opened;
}

void
lower_tiles(const Product *p, const Group *g)
{
    Lower *lo = p->lo;
    Tiles t = {.p = p, .size = product_tile_sizes(p), .from = p->from};
    int opened = open_blocks(&t);
    rename_all(lo->cx, &t.names, 1, &t.size.sums);
    if (t.from != DIM_NONE) {
        rename_all(lo->cx, &t.names, 1, &t.from);
    }
    if (t.size.many && !p->b.panels && p->column == DIM_NONE) {
        Dim room[] = {constant(&t, t.size.group_panels), sums_at_once(&t),
                      constant(&t, t.size.width)};
        t.buffer = lower_buffer(lo, lo->depth, p->dtype, 3, room);
    }
    lo->outer = lo->depth;
    (p->nplaces ? put_places : t.size.chained ? put_chains : put_tiles)(&t, g);
    group_close(lo, opened);
}
