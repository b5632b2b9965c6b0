/* Tiles of products: a plain nest becomes loops over groups of panels, blocks of rows and chains.
 *
 * What:     rewrites each plain nest (V57) to the loops of lower_tiles.c, of which `micro` selects
 *           the calls.
 * Requires: the loops stage as lowering leaves it.
 * Ensures:  every bit: a sum has the same terms in the same order, and chains of the same length.
 * How:      it reads the nest alone.  Its indices are the names of the letters: the loads say where
 *           the operands are, and what is computed of a sum moves to the loops over a tile.
 *           Columns that are read as [.., column / width, sum, column % width] are panels.  Rows
 *           whose offset does not go evenly along the sum are read in runs; their columns, where
 *           they are not panels, are packed group by group.
 * Why not:  while lowering: what decides would be in no text that can be verified or bisected.
 * Example:  lower_tiles.c; the nest is that of lower_plain.c. */
#include <string.h>

#include "codegen/loops/facts.h"
#include "codegen/rewrites.h"
#include "ir/verify/product.h"
#include "lower_product.h"

/* ---- the product that a nest says ---- */

static void
add_loop(Nest *nest, const Let *loop)
{
    int k = nest->nloops++;
    nest->naxes = nest->nloops;
    nest->name[k] = nest->axis[k] = nest->index[k] = loop_index(loop);
    nest->extent[k] = nest->count[k] = loop_extent(loop);
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

typedef struct {
    Cx *cx;
    Dim of, *stack;
    int depth;
    Dim least; /* divisor of the index, that is found first */
} Digit;

static void
see_leaf(void *arg, char kind, int64_t value, Dim name)
{
    Digit *d = arg;
    d->stack = cx_grow(d->cx, d->stack, d->depth, sizeof *d->stack);
    d->stack[d->depth++] = kind == 'i' ? dim_int(d->cx, value) : name;
}

static void
see_binary(void *arg, char kind)
{
    Digit *d = arg;
    Dim b = d->stack[--d->depth], a = d->stack[d->depth - 1];
    d->least = kind == '%' && a == d->of ? b : d->least;
    d->stack[d->depth - 1] = dim_apply(d->cx, kind, a, b);
}

/* Finds the extent of the last summed letter, along which the columns are read at index % extent,
 * and that of the others, if the sum goes over both.  Else they are packed in the order of the
 * sum. */
static void
find_last(Product *p)
{
    static const DimWalk walk = {see_leaf, see_binary};
    Cx *cx = p->lo->cx;
    Digit d = {.cx = cx, .of = p->sum[0], .least = DIM_NONE};
    Dim rest;
    for (int ax = 0; ax < p->b.from->type->rank; ax++) {
        d.depth = 0;
        dim_walk(cx, p->b.at[ax], &walk, &d);
    }
    if (d.least == DIM_NONE) {
        return;
    }
    if (!dim_is_name(cx, d.least) || !dim_affine(cx, p->nsums, d.least, &p->others, &rest) ||
        !dim_is(cx, rest, 0)) {
        p->others = dim_div(cx, p->nsums, d.least);
    }
    bool whole = dim_mul(cx, p->others, d.least) == p->nsums;
    p->last = whole ? d.least : DIM_NONE;
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

/* Do the loops over rows decide which columns are read? */
static bool
goes_along_rows(const Product *p)
{
    bool along = false;
    for (int k = 0; k < p->rows.nloops; k++) {
        along |= index_uses(p->lo->cx, p->b.from->type->rank, p->b.at, p->rows.index[k]);
    }
    return along;
}

/* lo: what is around the nest, with room for its loops. */
static Product
product_of(Lower *lo, const Let *outermost, const PlainNest *nest)
{
    Cx *cx = lo->cx;
    Product p = {.lo = lo,
                 .column = DIM_NONE,
                 .from = DIM_NONE,
                 .last = DIM_NONE,
                 .nsum = 1,
                 .dtype = nest->sum->res[0]->type->dtype,
                 .nsums = loop_extent(nest->sum),
                 .in_nest = true};
    p.sum[0] = loop_index(nest->sum);
    p.sum_extent[0] = p.nsums;
    p.a = factor_of(cx, nest->a);
    p.b = factor_of(cx, nest->b);
    for (const Let *loop = outermost; loop->op == OP_for; loop = block_loop(loop->body)) {
        add_loop(let_has(loop, MARK_rows) ? &p.rows : &p.columns, loop);
        if (loop == let_around(nest->sum)) {
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
    Dim column = p.columns.index[p.columns.nloops - 1];
    if (index_uses(cx, p.a.from->type->rank, p.a.at, column)) {
        p.column = column;
        return p;
    }
    p.b.panels = operand_is_panels(&p, &p.b, column);
    p.runs = !is_even(cx, p.a.offset, p.sum[0]);
    p.packs_groups = p.runs && !p.b.panels && !p.varies && !goes_along_rows(&p);
    if (p.packs_groups) {
        p.b.panels = true;
        if (!is_even(cx, p.b.offset, p.sum[0])) {
            find_last(&p);
        }
    }
    return p;
}

/* ---- what is computed of the sums ---- */

typedef struct {
    const Let *outermost, *columns, *sum;
} Moved;

static void
rename(Cx *cx, const Renamed *names, Let *let)
{
    let->attrs = cx_copy(cx, let->attrs, (size_t)let->nattrs * sizeof *let->attrs);
    for (int k = 0; k < let->nattrs; k++) {
        Attr *a = &let->attrs[k];
        if (a->kind == ATTR_DIM) {
            tiles_rename(cx, names, 1, &a->d);
        } else if (a->kind == ATTR_DIMS) {
            Dim *dims = cx_copy(cx, a->dims, (size_t)a->n * sizeof *dims);
            tiles_rename(cx, names, a->n, dims);
            a->dims = dims;
        }
    }
}

/* The depth of the loop over a tile, or outside of it, that goes over the iterations of `loop`. */
static int
depth_of(Lower *lo, const Moved *moved, const Let *loop, const Renamed *names)
{
    Dim index = loop_index(loop);
    tiles_rename(lo->cx, names, 1, &index);
    bool rows = loop == let_around(moved->columns);
    return loop == moved->columns ? lo->depth : rows ? lo->depth - 1 : lower_depth(lo, 1, &index);
}

/* Moves the lets of the nest's blocks, each to the block that has all that it reads, and into the
 * loop that stands for its own: where that has no iterations, an index is not checked. */
static void
move_lets(const void *arg, Lower *lo, const Renamed *names, Value *tile, const Dim *at)
{
    const Moved *moved = arg;
    const Let *loop = moved->outermost;
    Value *sum = moved->sum->res[0], *loaded = NULL;
    for (; loop; loop = loop == moved->columns ? NULL : block_loop(loop->body)) {
        int least = depth_of(lo, moved, loop, names);
        for (int k = 0; k < loop->body->n; k++) {
            Let *let = loop->body->lets[k];
            if (let == moved->sum) {
                loaded = lower_load_here(lo, tile, at);
            }
            if (let->body) {
                continue;
            }
            for (int j = 0; j < let->nargs; j++) {
                let->args[j] = let->args[j] == sum ? loaded : let->args[j];
            }
            rename(lo->cx, names, let);
            int depth = lower_depth_of(lo, let);
            lower_move(lo, depth > least ? depth : least, let);
        }
    }
}

/* ---- nests ---- */

/* Puts the lets in the place of the loop, in its block. */
static void
replace(Cx *cx, Let *loop, const Block *by)
{
    Block *blk = loop->parent, all = *blk;
    int at = place_of(loop);
    blk->lets = NULL;
    blk->n = 0;
    for (int k = 0; k < all.n; k++) {
        for (int j = 0; k == at && j < by->n; j++) {
            block_append(cx, blk, by->lets[j]);
        }
        if (k != at) {
            block_append(cx, blk, all.lets[k]);
        }
    }
}

static int
assume(Cx *cx, const Let *let)
{
    const Let *around = let->parent->owner;
    return around ? assume(cx, around) + let_enter(cx, around) : 0;
}

/* The loops around are open: the next ones are numbered from theirs on. */
static void
open_around(Lower *lo, const Let *outermost)
{
    Block *blk = cx_alloc(lo->cx, sizeof *blk);
    lower_begin(lo, blk);
    const Let *loop = let_around(outermost);
    for (; loop && loop->op == OP_for; loop = let_around(loop)) {
        lo->path[lo->depth + 1] = lo->path[lo->depth];
        lo->depth++;
        lo->blocked |= !let_has(loop, MARK_batch) && !let_has(loop, MARK_steps);
    }
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
    Lower *lo = cx_alloc(cx, sizeof *lo);
    *lo = (Lower){.cx = cx, .fn = fn};
    int assumed = assume(cx, outermost);
    open_around(lo, outermost);
    Product p = product_of(lo, outermost, nest);
    Moved moved = {outermost, let_around(nest->sum), nest->sum};
    cx_set_loc(cx, nest->sum->loc);
    free_names(fn, outermost, nest->sum);
    lower_tiles(&p, &(Epilogue){move_lets, &moved});
    cx_set_loc(cx, (Loc){0});
    replace(cx, outermost, lo->path[0]->blk);
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
        if (!found) {
            n += let->body ? tile_nests(fn, let->body) : 0;
        } else if (fuel_spend(fn->cx)) {
            while (let_has(let, MARK_batch)) {
                let = (Let *)block_loop(let->body);
            }
            int before = blk->n;
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
