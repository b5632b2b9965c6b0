/* Column reductions: how many columns run together, and how many steps.
 *
 * What:     marks a vector loop around loops `width` where another number of its iterations than
 *           usual is a tile, for which each loop inside runs once.  Marks reductions in it whose
 *           body is cheap `jam`: so many of their steps go through the tile in one loop; and
 *           `strip`, if so many columns of it at a time.  Marks what they read of coming rows.
 * Requires: a scheduled function, in which what the loops of a tile leave is marked (hoist.c).
 * Ensures:  each iteration's operations in the order that they have alone (V37, V39).
 * How:      Partial results stay in arrays of the tile, which are read and written once for all
 *           steps of a loop.  Rows of memory are better read in long pieces, so that few pages are
 *           begun, if a tile's reductions do little else: 4 KB of each; where there are several
 *           reductions, less if only then the later ones find the tile in a cache.  Such rows are
 *           prefetched four steps before they are wanted, in strips of a few lines, as all lines of
 *           a row at once are more than a core can wait for.  Contiguous rows go one after the
 *           other where they are long: several at once are more than processors follow.  Those of a
 *           few columns are one stream, which processors prefetch by themselves.
 * Why not:  one iteration after the other: it would walk through memory by columns, one element a
 *           line.
 * Example:  s = sum of x[j, i] over j: for i in N parallel vector width=1024 {
 *               let s: f32 = reduce sum j in M jam=4 strip=64 {
 *                   let a: f32 = load x[j, i] prefetch_rows=4 .. } }
 */
#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

/* Where a reduction over a tile of columns reads: what stays cached; rows of memory end to
 * end; or pieces of rows, some of which at least may have to come from memory. */
typedef enum { FROM_CACHES, FROM_ROWS, FROM_PIECES } Source;

typedef struct {
    const Facts *facts;
    const Let *loop; /* the vector loop */
    int64_t width; /* its columns */
    bool stays; /* all rows of it fit in a cache */
} Tile;

/* Does the load go on to another row of the tensor in the next step of the reduction? */
static bool
reads_rows(const Tile *t, const Let *reduce, const Let *load)
{
    const Step *next = facts_from_memory(t->facts, load)
                           ? facts_step(t->facts, load, loop_index(reduce))
                           : NULL;
    return next && !dim_is(t->facts->cx, next->step, 0) &&
           facts_row(t->facts, load, loop_index(t->loop)) != DIM_NONE;
}

static Source
source_of(const Tile *t, const Let *reduce)
{
    Source from = FROM_CACHES;
    for (int k = 0; k < reduce->body->n; k++) {
        const Let *load = reduce->body->lets[k];
        if (reads_rows(t, reduce, load)) {
            Dim stride = facts_step(t->facts, load, loop_index(reduce))->step;
            from = stride == loop_extent(t->loop) && from != FROM_PIECES ? FROM_ROWS : FROM_PIECES;
        }
    }
    return from;
}

/* Can the body of a reduction stand several times in one loop over the tile, and is it worth its
 * text? */
static bool
is_light(const Let *reduce)
{
    int cost = 0;
    for (int k = 0; k < reduce->body->n; k++) {
        const Let *let = reduce->body->lets[k];
        if (let->op != OP_load && !let_is_map(let)) {
            return false;
        }
        cost += let->op == OP_load ? 1 : op_info[let->op].cost;
    }
    return op_info[let_op(reduce)].rule != RULE_INDEX && cost < COST_EXPENSIVE;
}

/* ---- the tile ---- */

static Tile
tile_of(const Facts *facts, const Let *loop)
{
    Tile t = {.facts = facts, .loop = loop, .width = DLC_COLUMNS};
    int64_t rows = 1;
    int loops = 0, bytes = 0;
    bool light = true;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        light &= let->op != OP_buffer && (!loop_is(let) || (let->op == OP_reduce && is_light(let)));
        loops += loop_is(let);
        if (light && loop_is(let) && source_of(&t, let) != FROM_CACHES) {
            int of = dtype_info[let->res[0]->type->dtype].bytes;
            bytes = of > bytes ? of : bytes;
            rows = dim_range(facts->cx, loop_extent(let)).hi;
        }
    }
    if (!light || !bytes) {
        return t;
    }
    t.width = DLC_WIDE / bytes;
    while (loops > 1 && t.width > DLC_COLUMNS && rows > DLC_L2_TILE / bytes / t.width) {
        t.width /= 2;
    }
    t.stays = rows <= DLC_L2_TILE / bytes / t.width;
    return t;
}

/* What the loops of the tile leave to one another is in arrays of so many elements then. */
static void
resize_arrays(Cx *cx, const Block *blk, int64_t width)
{
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        if (let_has(let, MARK_array)) {
            let_mark_with(cx, let, MARK_array, width);
        }
        if (let->body) {
            resize_arrays(cx, let->body, width);
        }
    }
}

static void
mark_width(const Tile *t, Let *loop)
{
    Cx *cx = t->facts->cx;
    if (t->width != loop_width(loop) && fuel_spend(cx)) {
        let_mark_with(cx, loop, MARK_width, t->width);
        resize_arrays(cx, loop->body, t->width);
    }
}

/* ---- its reductions ---- */

static bool
reads(const Let *reduce, const Value *tensor)
{
    for (int k = 0; k < reduce->body->n; k++) {
        const Let *let = reduce->body->lets[k];
        if (let->op == OP_load && let->args[0] == tensor) {
            return true;
        }
    }
    return false;
}

/* Has another reduction before this one read what it reads, of a tile that stays in a cache
 * meanwhile? */
static bool
comes_again(const Tile *t, const Let *reduce)
{
    const Block *blk = t->loop->body;
    bool again = t->stays;
    for (int k = 0; k < reduce->body->n && again; k++) {
        const Let *load = reduce->body->lets[k];
        bool before = load->op != OP_load;
        for (int j = 0; j < blk->n && blk->lets[j] != reduce; j++) {
            before |= blk->lets[j]->op == OP_reduce && reads(blk->lets[j], load->args[0]);
        }
        again = before;
    }
    return again;
}

static void
mark_rows(const Tile *t, const Let *reduce)
{
    for (int k = 0; k < reduce->body->n; k++) {
        Let *load = reduce->body->lets[k];
        if (reads_rows(t, reduce, load) && fuel_spend(t->facts->cx)) {
            let_mark(load, MARK_prefetch, false); /* of a window that goes along the row as well */
            let_mark_with(t->facts->cx, load, MARK_prefetch_rows, DLC_PREFETCH_STEPS);
        }
    }
}

static void
mark_reduction(const Tile *t, Let *reduce)
{
    Cx *cx = t->facts->cx;
    Source source = source_of(t, reduce);
    Range row = dim_range(cx, loop_extent(t->loop));
    bool whole = source == FROM_ROWS && row.hi <= t->width;
    bool prefetches = source != FROM_CACHES && !(whole && comes_again(t, reduce)) &&
                      !(source == FROM_ROWS && row.hi <= DLC_SHORT_ROW);
    bool alone = whole && prefetches && row.lo >= t->width / 2;
    if (!is_light(reduce) || !fuel_spend(cx)) {
        return;
    }
    let_mark_with(cx, reduce, MARK_jam, alone ? 1 : DLC_JAM);
    if (prefetches && !whole) {
        let_mark_with(cx, reduce, MARK_strip, DLC_STRIP);
    }
    if (prefetches) {
        mark_rows(t, reduce);
    }
}

static void
mark_reductions(const Tile *t, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        if (let->op == OP_reduce) {
            mark_reduction(t, let);
        }
        if (let->body) {
            mark_reductions(t, let->body);
        }
    }
}

static bool
mark_loop(const PhaseView *phase, Let *loop)
{
    bool columns = let_has(loop, MARK_vector) && facts_loop(phase->facts, loop)->loops;
    if (columns) {
        const Tile t = tile_of(phase->facts, loop);
        mark_width(&t, loop);
        if (loop_width(loop) == t.width) {
            mark_reductions(&t, loop->body);
        }
    }
    return !columns;
}

Fn *
rewrite_columns(Fn *fn)
{
    return loops_visit(fn, mark_loop);
}
