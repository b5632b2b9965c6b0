/* Tiles of products: a plain nest becomes loops over groups of panels, blocks of rows and chains.
 *
 * What:     rewrites each plain nest (V57) to the loops of order.c, of which `micro` selects
 *           the calls.
 * Requires: the loops stage as lowering leaves it.
 * Ensures:  every bit: a sum has the same terms in the same order, and chains of the same length.
 * How:      it reads the nest alone.  Its indices are the names of the letters: the loads say where
 *           the operands are, and what is computed of a sum moves to the loops over a tile.
 *           Columns that are read as [.., column / width, sum, column % width] are panels; what
 *           fills these in a phase before may be done in the loops of the tiles (fill.c).
 *           Rows whose offset does not go evenly along the sum are read in runs.
 * Why not:  while lowering: what decides would be in no text that can be verified or bisected.
 * Example:  order.c; the nest is that of lower/lower_plain.c. */
#include <string.h>

#include "codegen/loops/facts.h"
#include "codegen/rewrites.h"
#include "ir/verify/product.h"
#include "tile.h"

/* ---- the product that a nest says ---- */

static void
add_loop(Nest *nest, const Let *loop)
{
    nest->index[nest->n] = loop_index(loop);
    nest->extent[nest->n++] = loop_extent(loop);
}

static Factor
factor_of(Cx *cx, const Let *load)
{
    Factor f = {.from = load->args[0]};
    const Attr *at = let_attr(load, "at");
    memcpy(f.at, at->dims, (size_t)at->n * sizeof *at->dims);
    f.offset = index_offset(cx, f.from, f.at);
    return f;
}

static bool
is_even(Cx *cx, Dim offset, Dim index)
{
    Dim step, rest;
    return dim_affine(cx, offset, index, &step, &rest);
}

/* Does a loop of the nest decide how many terms the sum has?  Loops around it do so for all. */
static bool
varies(Cx *cx, const Let *sum)
{
    const Marks of_nest[] = {MARK_batch, MARK_rows, MARK_columns};
    bool found = false, inside = true;
    for (const Let *loop = let_around(sum); inside && loop->op == OP_for; loop = let_around(loop)) {
        inside = false;
        for (int k = 0; k < 3; k++) {
            inside |= let_has(loop, of_nest[k]);
        }
        found |= inside && dim_uses(cx, loop_extent(sum), loop_index(loop));
    }
    return found;
}

/* Is each group of panels better filled in its own loop?  It is then used for all rows, which are
 * at most those of one block.  With more rows, packing is cheap in comparison, and threads share it
 * better. */
static bool
is_by_group(const Product *p)
{
    Cx *cx = p->out->cx;
    Dim columns = product_inner_extent(&p->columns), rows = dim_int(cx, 1);
    bool same = p->columns.n == 1;
    for (int k = 0; k < p->batch.n; k++) {
        same &= index_uses(cx, p->b.from->type->rank, p->b.at, p->batch.index[k]);
    }
    for (int k = 0; k < p->rows.n; k++) {
        same &= !index_uses(cx, p->b.from->type->rank - 2, p->b.at, p->rows.index[k]);
        rows = dim_mul(cx, rows, p->rows.extent[k]);
    }
    return same && !p->blocked && product_is_by_panels(p) &&
           extent_least(cx, columns) >= DLC_PRODUCT_GROUPS * panel_width(p->dtype) &&
           dims_typical(cx, 1, &rows) <= DLC_PRODUCT_TILES * MICRO_MOST_ROWS;
}

/* Decides where the panels are filled: in the phase before, in the loop over groups of them, or for
 * a few steps of the sums at a time.  What is computed takes no memory for all of it; what is
 * copied is copied once for all blocks of rows. */
static void
place_fill(Product *p, const Let *outermost, const Let *load, Fill *f)
{
    Cx *cx = p->out->cx;
    if (!fill_find(cx, outermost, load, p->columns.index[p->columns.n - 1], f)) {
        return;
    }
    bool in_order = p->b.at[p->b.from->type->rank - 2] == p->sum,
         steps = in_order && (f->computes || (!p->blocked && !p->runs));
    if ((steps ? fill_has_steps(cx, f) : p->b.panels && is_by_group(p)) && fuel_spend(cx)) {
        p->fill = f;
        p->b.filled = steps;
        p->b.panels &= !steps;
        p->packs_groups = !steps;
    }
}

/* What panels hold: of operands of one dtype what is best for it, else the dtype of the sums. */
static Dtype
held_dtype(const Product *p)
{
    Dtype a = p->a.from->type->dtype;
    return a == p->b.from->type->dtype ? panel_dtype(a) : p->dtype;
}

/* out: the loops around the nest are open; blocked: one of them is over blocks of rows. */
static Product
product_of(Builder *out, bool blocked, const Let *outermost, const PlainNest *nest, Fill *fill)
{
    Cx *cx = out->cx;
    Product p = {.out = out,
                 .blocked = blocked,
                 .column = DIM_NONE,
                 .sum = loop_index(nest->sum),
                 .terms = loop_extent(nest->sum),
                 .dtype = nest->sum->res[0]->type->dtype,
                 .nsums = loop_extent(nest->sum),
                 .places = nest->places,
                 .total = nest->computes ? nest->total->res[0] : NULL,
                 .begin = nest->begin ? nest->begin->args[1] : NULL};
    for (const Let *let = nest->places; let && !p.total && let != nest->sum;
         let = let->body->lets[0]) {
        p.nsums = let->op == OP_for ? dim_mul(cx, loop_extent(let), p.nsums) : p.nsums;
    }
    p.a = factor_of(cx, nest->a);
    p.b = factor_of(cx, nest->b);
    for (const Let *loop = outermost; loop->op == OP_for; loop = block_loop(loop->body)) {
        add_loop(let_has(loop, MARK_rows) ? &p.rows : &p.columns, loop);
        if (loop == nest->columns) {
            break;
        }
    }
    for (const Let *loop = let_around(outermost); loop && loop->op == OP_for;
         loop = let_around(loop)) {
        if (let_has(loop, MARK_batch)) {
            add_loop(&p.batch, loop);
        }
    }
    p.varies = varies(cx, nest->sum);
    Dim column = p.columns.index[p.columns.n - 1];
    if (index_uses(cx, p.a.from->type->rank, p.a.at, column)) {
        p.column = column;
        return p;
    }
    p.held = held_dtype(&p);
    p.b.panels = p.b.from->type->dtype == p.held &&
                 access_is_panels(cx, p.b.from, p.b.at, &(SumNames){p.sum, 1, &p.sum}, column);
    p.runs = p.b.panels && ((p.places && !p.total) || !is_even(cx, p.a.offset, p.sum));
    place_fill(&p, outermost, nest->b, fill);
    return p;
}

/* ---- what is computed of the sums ---- */

typedef struct {
    const Let *outermost;
    const PlainNest *nest;
} Moved;

/* The depth of the loop over a tile, or outside of it, that goes over the iterations of `loop`. */
static int
depth_of(Builder *out, const Moved *moved, const Let *loop, const Renamed *names)
{
    Dim index = loop_index(loop);
    dims_rename(out->cx, names, 1, &index);
    bool rows = loop == let_around(moved->nest->columns);
    return loop == moved->nest->columns ? out->depth
           : rows                       ? out->depth - 1
                                        : builder_depth(out, 1, &index);
}

/* Is it of the number that places add to, which tiles of sums stand for? */
static bool
is_of_total(const PlainNest *nest, const Let *let)
{
    return nest->total && (let == nest->total || let == nest->begin ||
                           (let->op == OP_const && let->res[0] == nest->begin->args[1]));
}

/* Moves the lets of the nest's blocks, each to the block that has all that it reads, and into the
 * loop that stands for its own: where that has no iterations, an index is not checked. */
static void
move_lets(const void *arg, Builder *out, const Renamed *names, Value *tile, const Dim *at)
{
    const Moved *moved = arg;
    const Let *loop = moved->outermost;
    const PlainNest *nest = moved->nest;
    const Let *result = nest->result ? nest->result : nest->sum;
    Value *loaded = NULL;
    for (; loop; loop = loop == nest->columns ? NULL : block_loop(loop->body)) {
        int least = depth_of(out, moved, loop, names);
        for (int k = 0; k < loop->body->n; k++) {
            Let *let = loop->body->lets[k];
            if (let == result) {
                loaded = load_here(out, tile, at);
            }
            if (let->body || let == result || is_of_total(nest, let)) {
                continue;
            }
            for (int j = 0; j < let->nargs; j++) {
                let->args[j] = let->args[j] == result->res[0] ? loaded : let->args[j];
            }
            let_rename(out->cx, names, let);
            int depth = builder_depth_of(out, let);
            builder_move(out, depth > least ? depth : least, let);
        }
    }
}

/* Moves what computes the total of the sum of a group: the sum is in the tile, and the total in the
 * other buffer. */
static void
move_collected(const void *arg, Builder *out, const Renamed *names, Value *tile, const Dim *at,
               Value *totals, const Dim *to)
{
    const Moved *moved = arg;
    const PlainNest *nest = moved->nest;
    const Value *total = nest->total->res[0];
    const Block *blk = nest->sum->parent;
    Value *sum = load_here(out, tile, at), *held = load_here(out, totals, to);
    const Value *old = NULL;
    for (int k = 1; k < blk->n; k++) {
        Let *let = blk->lets[k];
        bool accesses = let->nargs && let->args[0] == total;
        if (accesses && let->op == OP_load) {
            old = let->res[0];
            continue;
        }
        for (int j = 0; j < let->nargs; j++) {
            let->args[j] = let->args[j] == nest->sum->res[0] ? sum
                           : old && let->args[j] == old      ? held
                                                             : let->args[j];
        }
        if (accesses) {
            builder_store(out, totals, to, let->args[1]);
            continue;
        }
        let_rename(out->cx, names, let);
        builder_move(out, builder_depth_of(out, let), let);
    }
}

/* ---- nests ---- */

static int
assume(Cx *cx, const Let *let)
{
    const Let *around = let->parent->owner;
    return around ? assume(cx, around) + let_enter(cx, around) : 0;
}

/* The loops around are open: the next ones are numbered from theirs on.  Returns whether one of
 * them is over blocks of rows. */
static bool
open_around(Builder *out, const Let *outermost)
{
    Block *blk = cx_alloc(out->cx, sizeof *blk);
    bool blocked = false;
    builder_begin(out, blk);
    const Let *loop = let_around(outermost);
    for (; loop && loop->op == OP_for; loop = let_around(loop)) {
        out->path[out->depth + 1] = out->path[out->depth];
        out->depth++;
        blocked |= !let_has(loop, MARK_batch) && !let_has(loop, MARK_steps);
    }
    return blocked;
}

/* Frees the names of the nest's loops, and of the sum with all in it: the tiles may have them. */
static void
free_names(Fn *fn, const Let *outermost, const Let *sum)
{
    for (const Let *loop = let_around(sum); loop != let_around(outermost);
         loop = let_around(loop)) {
        fn_free_name(fn, dim_name(fn->cx, loop_index(loop)));
    }
    for (int k = 0; k < sum->body->n; k++) {
        fn_free_name(fn, sum->body->lets[k]->res[0]->name);
    }
    fn_free_name(fn, dim_name(fn->cx, loop_index(sum)));
    fn_free_name(fn, sum->res[0]->name);
}

static void
tile(Fn *fn, Let *outermost, const PlainNest *nest)
{
    Cx *cx = fn->cx;
    Builder *out = cx_alloc(cx, sizeof *out);
    *out = (Builder){.cx = cx, .fn = fn};
    int assumed = assume(cx, outermost);
    bool blocked = open_around(out, outermost);
    Fill fill;
    Product p = product_of(out, blocked, outermost, nest, &fill);
    Moved moved = {outermost, nest};
    cx_set_loc(cx, nest->sum->loc);
    free_names(fn, outermost, nest->sum);
    if (p.fill) {
        fill_begin(fn, p.fill);
    }
    tiles_put(&p, &(Epilogue){move_lets, move_collected, &moved});
    cx_set_loc(cx, (Loc){0});
    builder_replace(out, outermost);
    if (p.fill) {
        fill_drop(p.fill);
    }
    for (; assumed; assumed--) {
        dim_forget(cx);
    }
}

/* As lowering makes it: with as many loops as a tensor has axes, at most. */
static bool
is_of_few_loops(const Let *sum)
{
    int n = 0;
    for (const Let *loop = let_around(sum); loop && loop->op == OP_for; loop = let_around(loop)) {
        n++;
    }
    return n <= MAX_RANK;
}

/* Rewrites the nests in the block; how many there were. */
static int
tile_nests(Fn *fn, Block *blk)
{
    int n = 0;
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k], *batch = let;
        PlainNest nest;
        bool found = let->op == OP_for && loop_is_plain_nest(fn->cx, let, &nest) &&
                     is_of_few_loops(nest.sum);
        int before = blk->n;
        if (!found) {
            n += let->body ? tile_nests(fn, let->body) : 0;
            k += blk->n - before;
        } else if (fuel_spend(fn->cx)) {
            while (let_has(let, MARK_batch)) {
                let = (Let *)block_loop(let->body);
            }
            tile(fn, let, &nest);
            k += blk->n - before;
            for (; batch && let_has(batch, MARK_batch); batch = loop_inner(batch)) {
                let_mark(batch, MARK_batch, false);
            }
            n++;
        }
    }
    return n;
}

Fn *
rewrite_tile(Fn *fn)
{
    if (tile_nests(fn, fn->body)) {
        facts_forget(fn);
    }
    return fn;
}
