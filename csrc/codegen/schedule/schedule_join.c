/* Phases over the same rows become one.
 *
 * What:     neighbouring `for` loops of a kernel that have the same outermost parallel loops are
 *           joined into one such nest.
 * Requires: marks as vectorise and parallelise leave them (schedule.c).
 * Ensures:  the same operations on the same elements.
 * How:      Joining changes the order of iterations of the two phases.  So neither phase may load
 *           what the other stores.  If both store to one buffer, different iterations must store
 *           different elements: each store has the loop's own index as one of its indices.  A
 *           kernel with results in place is left alone, because its parameters are loaded under
 *           other names.  The pieces of a concatenation are such phases.  Once joined, they write
 *           whole rows of the result, load only once what several pieces read, and end at one
 *           barrier.
 * Why not:  when the loops are made: only here is it settled which of them are parallel and which
 *           are tiles.  Join loops with different marks: the tiles of one phase are not those of
 *           another.
 * Example:  y = cat(x * 2, z + 1) of rows:
 *               for i parallel { for j { y[i, j] = .. }  for j { y[i, N + j] = .. } }
 */
#include <string.h>

#include "codegen/loops/facts.h"
#include "codegen/loops/loops.h"
#include "codegen/rewrites.h"

static bool
is_marked(const Let *loop, Marks marks)
{
    return (Marks)let_int(loop, "marks") == marks;
}

/* The loop inside that may be joined too: the only one, with no mark but `parallel`; or NULL. */
static Let *
rows_inner(const Let *loop)
{
    Let *inner = loop_count(loop->body) == 1 ? loop_inner(loop) : NULL;
    return inner && (is_marked(inner, 0) || is_marked(inner, MARK_parallel)) ? inner : NULL;
}

/* ---- may they be joined? ---- */

/* The loops that two phases have in common, outermost first. */
typedef struct {
    int n;
    Dim a[MAX_RANK], b[MAX_RANK];
} Levels;

/* Do both accesses use the loop's index along one axis, or its quotient and remainder along two? */
static bool
goes_with(Cx *cx, const Let *a, const Let *b, Dim in_a, Dim in_b)
{
    const Attr *at = let_attr(a, "at"), *to = let_attr(b, "at");
    const Dim *extents = a->args[0]->type->dims;
    bool found = false;
    for (int ax = 0; ax < at->n; ax++) {
        found |= at->dims[ax] == in_a && to->dims[ax] == in_b;
        if (dim_range(cx, extents[ax]).lo < 1 || at->dims[ax] != dim_mod(cx, in_a, extents[ax]) ||
            to->dims[ax] != dim_mod(cx, in_b, extents[ax])) {
            continue;
        }
        for (int other = 0; other < at->n; other++) {
            found |= at->dims[other] == dim_div(cx, in_a, extents[ax]) &&
                     to->dims[other] == dim_div(cx, in_b, extents[ax]);
        }
    }
    return found;
}

/* Do both accesses use the index of each loop so?  Then different iterations touch different
 * elements. */
static bool
go_with(Cx *cx, const Let *a, const Let *b, const Levels *levels)
{
    bool all = true;
    for (int k = 0; k < levels->n && all; k++) {
        all = goes_with(cx, a, b, levels->a[k], levels->b[k]);
    }
    return all;
}

/* May the access change places with everything in the block? */
static bool
may_exchange(Cx *cx, const Let *a, const Block *blk, const Levels *levels)
{
    bool good = true;
    for (int k = 0; k < blk->n && good; k++) {
        const Let *b = blk->lets[k];
        if (let_accesses(b) && a->args[0] == b->args[0] && (let_writes(a) || let_writes(b))) {
            good = let_writes(a) && let_writes(b) && go_with(cx, a, b, levels);
        }
        good = good && b->op != OP_update && (!b->body || may_exchange(cx, a, b->body, levels));
    }
    return good;
}

static bool
may_exchange_blocks(Cx *cx, const Block *a, const Block *b, const Levels *levels)
{
    bool good = true;
    for (int k = 0; k < a->n && good; k++) {
        const Let *let = a->lets[k];
        good = let->op != OP_update && (!let_accesses(let) || may_exchange(cx, let, b, levels)) &&
               (!let->body || may_exchange_blocks(cx, let->body, b, levels));
    }
    return good;
}

/* Are the loops alike, and is the number of loops in both small enough for one? */
static bool
are_alike(const Let *a, const Let *b)
{
    return loop_extent(a) == loop_extent(b) && let_int(a, "marks") == let_int(b, "marks") &&
           loop_count(a->body) + loop_count(b->body) <= DLC_JOINED;
}

/* Has the block parallel loops that must stay shared: no plain rows, or surely long ones? */
static bool
has_shared(Cx *cx, const Block *blk)
{
    bool has = false;
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        has |= loop_is(let) && let_has(let, MARK_parallel) &&
               (!is_marked(let, MARK_parallel | MARK_vector) ||
                dim_range(cx, loop_extent(let)).lo > DLC_COLUMNS);
    }
    return has;
}

/* The number of loops that two phases can have in common: with all parallel ones, or else 0. */
static int
common(Cx *cx, const Let *a, const Let *b)
{
    Levels levels = {0};
    int most = 0;
    while (a && b && are_alike(a, b) && levels.n < MAX_RANK &&
           (levels.n || is_marked(a, MARK_parallel))) {
        const Let *in_a = rows_inner(a), *in_b = rows_inner(b);
        bool inside = has_shared(cx, a->body) || has_shared(cx, b->body);
        levels.a[levels.n] = loop_index(a);
        levels.b[levels.n++] = loop_index(b);
        if (!may_exchange_blocks(cx, a->body, b->body, &levels)) {
            break; /* more levels do not help: join also moves the lets beside the inner loops */
        }
        most = inside ? most : levels.n;
        a = in_a;
        b = in_b;
    }
    return most;
}

/* ---- joining ---- */

static void
rename_index(Cx *cx, const Block *blk, Dim from, Dim to)
{
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        for (int j = 0; j < let->nattrs; j++) {
            Attr *a = &let->attrs[j];
            if (a->kind == ATTR_DIM) {
                a->d = dim_replace(cx, a->d, from, to);
            } else if (a->kind == ATTR_DIMS && a->n) {
                Dim *dims = cx_copy(cx, a->dims, (size_t)a->n * sizeof *dims);
                for (int ax = 0; ax < a->n; ax++) {
                    dims[ax] = dim_replace(cx, dims[ax], from, to);
                }
                a->dims = dims;
            }
        }
        if (let->body) {
            rename_index(cx, let->body, from, to);
        }
    }
}

/* Unmarks the parallel loops in the block.  Threads would share the iterations of the last of them
 * only: every task would run all the others, or no task would exist if the last is empty. */
static void
unshare(const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        if (loop_is(blk->lets[k])) {
            let_mark(blk->lets[k], MARK_parallel, false);
        }
    }
}

/* Appends the body of b, under a's index, to that of a.  For `levels` nested loops, the inner loops
 * are joined too. */
static void
join(Cx *cx, Let *a, const Let *b, int levels)
{
    Let *in_a = levels > 1 ? rows_inner(a) : NULL, *in_b = levels > 1 ? rows_inner(b) : NULL;
    int n = 0, count = a->body->n + b->body->n;
    Let **lets = lets_new(cx, count);
    rename_index(cx, b->body, loop_index(b), loop_index(a));
    for (int k = 0; k < count; k++) {
        Let *let = k < a->body->n ? a->body->lets[k] : b->body->lets[k - a->body->n];
        if (!in_a || (let != in_a && let != in_b)) {
            lets[n++] = let;
            let->parent = a->body;
        }
    }
    if (in_a) {
        join(cx, in_a, in_b, levels - 1);
        lets[n++] = in_a;
    }
    a->body->lets = lets;
    a->body->n = n;
    if (!in_a) {
        unshare(a->body);
    }
}

static bool
has_in_place(const Let *kernel)
{
    bool over = false;
    for (int k = 0; k < kernel->nres; k++) {
        over |= kernel->res[k]->over != NULL;
    }
    return over;
}

/* Does it multiply tiles?  The loops around tiles have extents that depend on one another. */
static bool
has_tiles(const Let *let)
{
    return let_find_marked(let, MARK_micro) || let_find_marked(let, MARK_pack);
}

static void
join_phases(Cx *cx, Block *blk)
{
    int n = 0, at = 0, count = blk->n;
    /* the phase before, at `at`, if since then only buffers of the kernel and constants came */
    Let *last = NULL;
    for (int k = 0; k < count; k++) {
        Let *let = blk->lets[k];
        if (let_enter(cx, let)) {
            join_phases(cx, let->body);
            dim_forget(cx);
        }
        bool may = last && let->op == OP_for && let_has(let, MARK_parallel) && !has_tiles(let);
        int levels = may ? common(cx, last, let) : 0;
        if (levels && fuel_spend(cx)) {
            join(cx, last, let, levels); /* at the later one: its operands exist there */
            memmove(blk->lets + at, blk->lets + at + 1, (size_t)(n - at - 1) * sizeof *blk->lets);
            n--;
            let = last;
        }
        if (let->op != OP_buffer && let->op != OP_size && let->op != OP_const) {
            last = let->op == OP_for ? let : NULL;
            at = n;
        }
        blk->lets[n++] = let;
    }
    blk->n = n;
}

Fn *
rewrite_join(Fn *fn)
{
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        if (let->op == OP_kernel && !has_in_place(let)) {
            join_phases(fn->cx, let->body);
        }
    }
    facts_forget(fn);
    return fn;
}
