/* Tiles of vector loops: how many iterations run at a time.
 *
 * What:     marks vector loops, and loops in order within recurrences, `width` where another number
 *           of iterations than usual is a tile, which each vector primitive computes in one call.
 * Requires: a scheduled function in which grids and non-temporal stores are marked.
 * Ensures:  nothing but speed: iterations keep their order (V37).
 * How:      A loop of scalars works on tiles of a quarter of the elements of a block.  A
 *           first-level cache of 32 KB has eight lines for each place in a page, and what a few
 *           tensors and tiles take must leave room for what arrives: with tiles of half a block a
 *           few operations over two tensors took a sixth longer, an optimiser's step over four
 *           tensors a third.  Where much is computed from little the calls show: sixteen steps of
 *           z*z + c on two tensors took a seventh less with half a block, which is what a loop with
 *           eight operations for each access has.  So has one that prefetches nothing, and one over
 *           a row that a reduction has been through: a layer norm of bf16 4.8 ms of 64 MiB, 4.4
 *           with half a block or a whole one.  One call without a buffer for its result takes a
 *           whole block. Rows of memory in a loop with loops inside are better read in long pieces,
 *           where primitives go down them; of several reductions the later ones find the tile in a
 *           cache.
 * Why not:  one width: what does not fit in the first-level cache, and calls for little.
 * Example:  y = a*x*x + b*x + c:  for i in N parallel vector width=256 { .. }
 */
#include "codegen/loops/grid.h"
#include "codegen/loops/phase_use.h"
#include "codegen/loops/rows.h"
#include "codegen/loops/term.h"
#include "codegen/rewrites.h"

/* A row that is little longer than a tile is one. */
static int
whole_row(Cx *cx, const Let *loop)
{
    int64_t n = 0;
    bool two = dim_is_int(cx, loop_extent(loop), &n) && n > DLC_SCALAR_TILE &&
               n < 2 * DLC_SCALAR_TILE;
    return two ? 2 * DLC_SCALAR_TILE : DLC_SCALAR_TILE;
}

/* Has a reduction gone along the row before?  Then it is cached. */
static bool
follows_reduction(const Let *loop)
{
    const Block *blk = loop->parent;
    bool follows = false;
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        follows |= let->op == OP_reduce && let_has(let, MARK_lanes) &&
                   loop_extent(let) == loop_extent(loop);
    }
    return follows;
}

/* Of a loop with loops inside. */
static int
width_of_columns(Cx *cx, const Let *loop)
{
    const Block *blk = loop->body;
    int64_t rows = 1;
    int loops = 0, bytes = 1;
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (let->op == OP_buffer ||
            (loop_is(let) && (let->op != OP_reduce || !term_goes_down(let)))) {
            return DLC_COLUMNS;
        }
        if (loop_is(let)) {
            rows = dim_range(cx, loop_extent(let)).hi;
            bytes = dtype_info[let->res[0]->type->dtype].bytes;
            loops++;
        }
    }
    int width = DLC_WIDE / bytes;
    while (loops > 1 && width > DLC_COLUMNS && rows > DLC_L2_TILE / bytes / width) {
        width /= 2;
    }
    return width;
}

static int
width_of_scalars(const Facts *facts, const Let *loop)
{
    int accesses = 0, maps = 0;
    for (int k = 0; k < loop->body->n; k++) {
        Op op = loop->body->lets[k]->op;
        accesses += op == OP_load || op == OP_store;
        maps += op_info[op].kind == KIND_MAP;
    }
    if (let_has(let_around(loop), MARK_tile)) {
        return DLC_WIDTH;
    }
    if (maps <= DLC_STRIP_OPS) {
        return DLC_TILE;
    }
    bool prefetches = !let_has(loop, MARK_streams) || !rows_are_foreseen(facts, loop);
    return maps > DLC_STRIP_ACCESSES * accesses || !prefetches || follows_reduction(loop)
               ? 2 * DLC_SCALAR_TILE
               : whole_row(facts->cx, loop);
}

/* Does it run a tile at a time by itself, and not with others of a grid? */
static bool
has_tiles(const Facts *facts, const Let *loop)
{
    const Let *rows = let_around(loop);
    bool vector = loop->op == OP_for && (let_has(loop, MARK_vector) || loop_is_recurrence(loop));
    return vector && !(let_has(rows, MARK_grid) &&
                       grid_is_short(facts, loop, let_mark_value(rows, MARK_grid_row)));
}

static bool
mark_width(const PhaseView *phase, Let *loop)
{
    const Facts *facts = phase->facts;
    if (has_tiles(facts, loop)) {
        int width = loop_count(loop->body) ? width_of_columns(facts->cx, loop)
                                           : width_of_scalars(facts, loop);
        if (width != loop_tile(loop) && fuel_spend(facts->cx)) {
            let_mark_with(facts->cx, loop, MARK_width, width);
        }
    }
    return true;
}

Fn *
rewrite_tile_tcc(Fn *fn)
{
    return loops_visit(fn, mark_width);
}
