/* Phases over the same rows become one.
 *
 * What:     neighbouring `for` loops of a kernel with the same parallel loops outermost stand in
 *           one of these.
 * Requires: marks as vectorise and parallelise leave them (schedule.c).
 * Ensures:  the same operations on the same elements.
 * How:      Iterations of one phase and of the next change places, so neither may load what the
 *           other stores, and what both store must be other elements in other iterations: of each
 *           store an index is the loop's own. A kernel with results over parameters is left alone,
 *           as these are loaded under other names. Pieces of a concatenation are such phases: rows
 *           of the result are then written as a whole, what several pieces read is read once, and
 *           the threads meet once.
 * Why not:  when the loops are made: which of them are parallel, and which are tiles, is settled
 *           here.  Loops with other marks: tiles of one phase are not those of another.
 * Example:  y = cat(x * 2, z + 1) of rows:
 *               for i parallel { for j { y[i, j] = .. }  for j { y[i, N + j] = .. } }
 */
#include <string.h>

#include "codegen/loops.h"

static bool
is_marked(const Let *loop, unsigned marks)
{
    return let_int(loop, "marks") == marks;
}

/* The loop in a loop that may be joined too: alone there, and with no mark but `parallel`. */
static Let *
rows_inner(const Let *loop)
{
    Let *inner = loop_count(loop->body) == 1 ? loop_inner(loop) : NULL;
    return inner && (is_marked(inner, 0) || is_marked(inner, MARK_parallel)) ? inner : NULL;
}

/* ---- may they? ---- */

/* The loops that two phases have in common, outermost first. */
typedef struct {
    int n;
    Dim a[MAX_RANK], b[MAX_RANK];
} Levels;

/* The loop's own index along an axis, or its quotient and remainder along two, of both accesses? */
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

/* Do both accesses go with each of the loops?  Then iterations that differ touch other elements. */
static bool
go_with(Cx *cx, const Let *a, const Let *b, const Levels *levels)
{
    bool all = true;
    for (int k = 0; k < levels->n && all; k++) {
        all = goes_with(cx, a, b, levels->a[k], levels->b[k]);
    }
    return all;
}

/* May an access change places with all of the block? */
static bool
is_apart(Cx *cx, const Let *a, const Block *blk, const Levels *levels)
{
    bool good = true;
    for (int k = 0; k < blk->n && good; k++) {
        const Let *b = blk->lets[k];
        if (let_accesses(b) && a->args[0] == b->args[0] && (let_writes(a) || let_writes(b))) {
            good = let_writes(a) && let_writes(b) && go_with(cx, a, b, levels);
        }
        good = good && b->op != OP_update && (!b->body || is_apart(cx, a, b->body, levels));
    }
    return good;
}

static bool
are_apart(Cx *cx, const Block *a, const Block *b, const Levels *levels)
{
    bool good = true;
    for (int k = 0; k < a->n && good; k++) {
        const Let *let = a->lets[k];
        good = let->op != OP_update && (!let_accesses(let) || is_apart(cx, let, b, levels)) &&
               (!let->body || are_apart(cx, let->body, b, levels));
    }
    return good;
}

/* Are the loops alike, and is there room in one for what both have inside? */
static bool
are_alike(const Let *a, const Let *b)
{
    return let_dim(a, "extent") == let_dim(b, "extent") &&
           let_int(a, "marks") == let_int(b, "marks") &&
           loop_count(a->body) + loop_count(b->body) <= DLC_JOINED;
}

/* Has it loops whose iterations threads must share: those that are not rows, or are surely long? */
static bool
has_shared(Cx *cx, const Block *blk)
{
    bool has = false;
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        has |= loop_is(let) && loop_has(let, MARK_parallel) &&
               (!is_marked(let, MARK_parallel | MARK_vector) ||
                dim_range(cx, let_dim(let, "extent")).lo > DLC_COLUMNS);
    }
    return has;
}

/* How many of their loops two phases may have in common: with all that are parallel or with
 *     none. */
static int
common(Cx *cx, const Let *a, const Let *b)
{
    Levels levels = {0};
    int most = 0;
    while (a && b && are_alike(a, b) && levels.n < MAX_RANK &&
           (levels.n || is_marked(a, MARK_parallel))) {
        const Let *in_a = rows_inner(a), *in_b = rows_inner(b);
        bool inside = has_shared(cx, a->body) || has_shared(cx, b->body);
        levels.a[levels.n] = let_dim(a, "index");
        levels.b[levels.n++] = let_dim(b, "index");
        if (!are_apart(cx, a->body, b->body, &levels)) {
            break; /* nor would they be under more loops: join moves what stands beside them */
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

/* Threads would share the iterations of the last of the loops in it: tasks would do all of the
 * others, or there would be none where the last is empty. */
static void
unshare(const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        if (loop_is(blk->lets[k])) {
            loop_mark(blk->lets[k], MARK_parallel, false);
        }
    }
}

/* The body of b, under a's index, comes after that of a; of `levels` loops one in the other each is
 * one. */
static void
join(Cx *cx, Let *a, const Let *b, int levels)
{
    Let *in_a = levels > 1 ? rows_inner(a) : NULL, *in_b = levels > 1 ? rows_inner(b) : NULL;
    int n = 0, count = a->body->n + b->body->n;
    Let **lets = cx_alloc(cx, (size_t)count * sizeof *lets);
    rename_index(cx, b->body, let_dim(b, "index"), let_dim(a, "index"));
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

/* Does it multiply tiles?  The loops around those have sizes that depend on one another. */
static bool
has_tiles(const Let *let)
{
    bool has = loop_has(let, MARK_micro) || loop_has(let, MARK_pack);
    for (int k = 0; k < let->body->n && !has; k++) {
        has = let->body->lets[k]->op == OP_for && has_tiles(let->body->lets[k]);
    }
    return has;
}

static void
join_phases(Cx *cx, Let *kernel)
{
    Block *blk = kernel->body;
    int n = 0, at = 0, count = has_in_place(kernel) ? 0 : blk->n;
    /* the phase before, at `at`, if only memory of the kernel's own and numbers came since */
    Let *last = NULL;
    for (int k = 0; k < count; k++) {
        Let *let = blk->lets[k];
        bool may = last && let->op == OP_for && loop_has(let, MARK_parallel) && !has_tiles(let);
        int levels = may ? common(cx, last, let) : 0;
        if (levels && fuel_spend(cx)) {
            join(cx, last, let, levels); /* where the later one is: what it needs is made */
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
    blk->n = count ? n : blk->n;
}

Fn *
rewrite_join(Fn *fn)
{
    for (int k = 0; k < fn->body->n; k++) {
        if (fn->body->lets[k]->op == OP_kernel) {
            join_phases(fn->cx, fn->body->lets[k]);
        }
    }
    return fn;
}
