/* How large the tiles, blocks and groups of a product are.
 *
 * What:     the numbers of a TileSizes, from the extents of the product's loops.
 * Requires: a Product (tile.c).
 * Ensures:  a size is a constant, or a formula of the program's symbols: none depends on the number
 *           of threads.  No size changes a bit of a result: chains are cut at fixed steps.
 * How:      a tile is as high as the microkernel.  The panels of a group stay in the second-level
 *           cache while the tiles of a block are multiplied by them (machine.def), and there are
 *           enough groups and blocks for threads.
 * Why not:  the sizes of the processor's caches: the text would be another one on each machine.
 * Example:  (512, 512) by (512, 512): 37 tiles of 14 rows in 2 blocks, 16 panels of 32 columns in
 *           2 groups, 2 chains of 256 steps. */
#include "tile.h"

#include "codegen/machine.h"
#include "ir/costs.h"

_Static_assert((int)COST_DECODED_ROWS == (int)DLC_PRODUCT_TILES * (int)MICRO_MOST_ROWS,
               "what fusion takes for the rows of a block");

Dim
product_inner_extent(const Nest *nest)
{
    return nest->extent[nest->n - 1];
}

/* The height of a tile.  Tiles of a known number of rows have one height, except the last one.  Of
 * a number with a bound that is so, too, where no other form is there for the rows of one tile. */
static Dim
tile_height(const Product *p, const TileSizes *t)
{
    Range rows = dim_range(p->out->cx, t->rows);
    int64_t most = MICRO_MOST_ROWS;
    bool one_form = p->b.panels || p->b.filled || rows.lo > most || rows.lo == rows.hi;
    if (rows.hi >= DIM_INF || rows.hi <= 0 || !one_form) {
        return dim_int(p->out->cx, most);
    }
    int64_t tiles = (rows.hi + most - 1) / most;
    return dim_int(p->out->cx, (rows.hi + tiles - 1) / tiles);
}

/* The number of tiles of a block, equal for all blocks but the last. */
static int64_t
block_tiles(const Product *p, const TileSizes *t)
{
    int64_t tiles, blocks;
    if (!dim_is_int(p->out->cx, t->tiles, &tiles) || tiles == 0) {
        int64_t most = dim_range(p->out->cx, t->tiles).hi;
        return most < 1 ? 1 : most < DLC_PRODUCT_TILES ? most : DLC_PRODUCT_TILES;
    }
    blocks = (tiles + DLC_PRODUCT_TILES - 1) / DLC_PRODUCT_TILES;
    return (tiles + blocks - 1) / blocks;
}

/* The tasks of a loop: its least iterations, as threads would have no tasks where a group has
 * all columns and there are few rows after all.  But each group reads the rows again and stores
 * them in parts: where a sum has so few terms that this takes as long, it is the typical number. */
static int64_t
loop_tasks(const Product *p, const TileSizes *t, Dim extent)
{
    Cx *cx = p->out->cx;
    bool few_terms = dim_typical(cx, t->sums) < CONTRACTION_CHAIN;
    return few_terms ? dim_typical(cx, extent) : extent_least(cx, extent);
}

/* The number of tasks for each group of panels, if it is small.  One that packs its panels is a
 * task with all of its rows. */
static int64_t
tasks_of_group(const Product *p, const TileSizes *t)
{
    const Nest *outer[] = {&p->batch, &p->columns, &p->rows};
    int64_t n = (loop_tasks(p, t, t->tiles) + t->block_tiles - 1) / t->block_tiles;
    n = p->packs_groups ? 1 : n;
    for (int k = 0; k < (p->packs_groups ? 2 : 3); k++) {
        for (int j = 0; j < outer[k]->n - (k > 0) && n < DLC_PRODUCT_GROUPS; j++) {
            n *= loop_tasks(p, t, outer[k]->extent[j]);
        }
    }
    return n;
}

bool
product_is_by_panels(const Product *p)
{
    Cx *cx = p->out->cx;
    if (!p->b.panels) {
        return false;
    }
    const Type *a = p->a.from->type, *b = p->b.from->type;
    return dims_typical(cx, b->rank, b->dims) > dims_typical(cx, a->rank, a->dims);
}

/* The steps of a panel that are used repeatedly before the next ones: the steps of a chain.  If
 * rows have loops inside the group's loop, each of these reads the whole group, so it is all steps;
 * the same if the group is packed right before, with whole sums. */
static int64_t
steps_used_again(const Product *p, const TileSizes *t)
{
    int64_t sums = dim_range(p->out->cx, t->sums).hi;
    bool all = p->packs_groups || (product_is_by_panels(p) && p->rows.n > 1);
    return sums < 1 ? 1 : all || sums < CONTRACTION_CHAIN ? sums : CONTRACTION_CHAIN;
}

/* The number of panels of a group: the largest for which the number of groups is even, or for which
 * the threads have enough tasks.  Groups that pack their panels are the only tasks: an even number
 * is not enough. */
static int64_t
group_panels(const Product *p, const TileSizes *t)
{
    Cx *cx = p->out->cx;
    int64_t sums = steps_used_again(p, t), columns, n = DLC_PRODUCT_PANELS;
    n = DLC_PRODUCT_STEPS / sums < 2 * n ? DLC_PRODUCT_STEPS / sums : 2 * n;
    n = n < 1 ? 1 : n;
    if (!dim_is_int(cx, t->columns, &columns)) {
        int64_t most = dim_range(cx, t->columns).hi;
        return most > n * t->width ? n : most <= t->width ? 1 : (most + t->width - 1) / t->width;
    }
    int64_t panels = (columns + t->width - 1) / t->width, tasks = tasks_of_group(p, t);
    n = n < panels ? n : panels;
    while (!p->blocked && n > 1 && (p->packs_groups || panels % (2 * n) != 0) &&
           (panels + n - 1) / n * tasks < DLC_PRODUCT_GROUPS) {
        n--;
    }
    if (n < 1 || p->blocked) { /* there may be no columns */
        return n < 1 ? 1 : n;
    }
    int64_t groups = (panels + n - 1) / n;
    return (panels + groups - 1) / groups; /* the last one is no smaller than it has to be */
}

/* The number of columns of a group.  If the number of all is a symbol, two groups have them where
 * one has room for all, so that threads have tasks.  Panels that are packed before are not cut so:
 * that a group's are among them would not be proved. */
static Dim
group_columns(const Product *p, const TileSizes *t)
{
    Cx *cx = p->out->cx;
    Dim most = dim_int(cx, t->width * t->group_panels), one = dim_int(cx, 1);
    if (t->group_panels == 1 || p->blocked || p->b.panels || dim_is_int(cx, t->columns, NULL)) {
        return most;
    }
    Dim half = extent_ceiling(cx, t->columns, dim_int(cx, 2 * t->width));
    return dim_mul(cx, dim_max(cx, one, dim_min(cx, half, dim_int(cx, t->group_panels))),
                   dim_int(cx, t->width));
}

/* Does the row operand advance by one element along the sum? */
static bool
is_adjacent(const Product *p)
{
    Dim step, rest;
    return dim_affine(p->out->cx, p->a.offset, p->sum, &step, &rest) && dim_is(p->out->cx, step, 1);
}

TileSizes
tile_sizes(const Product *p)
{
    Cx *cx = p->out->cx;
    TileSizes t = {.rows = product_inner_extent(&p->rows),
                   .columns = product_inner_extent(&p->columns),
                   .sums = p->nsums,
                   .width = panel_width(p->dtype)};
    Range rows = dim_range(cx, t.rows), sums = dim_range(cx, t.sums),
          columns = dim_range(cx, t.columns);
    bool own = p->column != DIM_NONE;
    t.height = tile_height(p, &t);
    t.tiles = extent_ceiling(cx, t.rows, t.height);
    t.block_tiles = block_tiles(p, &t);
    t.group_panels = group_panels(p, &t);
    t.group_columns = group_columns(p, &t);
    t.few = rows.lo <= MICRO_MOST_ROWS && !p->places && !p->b.filled;
    t.many = rows.hi > MICRO_MOST_ROWS || p->places || p->b.filled;
    t.chained = (t.many && sums.hi > CONTRACTION_CHAIN && !own) || p->places;
    t.rows_packed = t.many && !is_adjacent(p) && columns.hi > t.width && !own && !p->runs;
    return t;
}
