/* The plain nest of a product: loops over its letters, and one sum.
 *
 * What:     loops marked `batch`, `rows` and `columns`, in these the sum of products, and what the
 *           group computes of it.
 * Requires: a Product with its loops planned (lower_letters.c), of which product_is_plain is true.
 * Ensures:  V57.  The marks say which letters are whose: two operands may be read at the same
 *           steps along a letter that only one of them has.
 * How:      the last loops of rows and of columns are inside; tile.c makes tiles of these two.
 * Example:  y = relu(contract x, w over="mk,nk->mn"):
 *           for i in M rows { for j in N columns {
 *             let sum = reduce sum p in K fused { load x[i, p]; load w[j, p]; mul }
 *             let y = maximum sum, 0; store y[i, j] = y } } */
#include <string.h>

#include "lower_product.h"

/* A nest whose loops are open. */
typedef struct Plain {
    const Product *p;
    int n;
    Marks marks[MAX_LOOPS];     /* of the loops, outermost first */
    Renamed names;
} Plain;

/* Are both operands in memory, and have the sums of all rows of a tile the same terms? */
bool
product_is_plain(const Product *p)
{
    bool packs_all = p->varies && p->packs_groups; /* also the terms that are left out */
    return !packs_all && !p->nplaces && !p->b.computed;
}

static void
open_loop(Plain *n, Dim index, Dim extent, Marks mark)
{
    Lower *lo = n->p->lo;
    Dim opened = lower_open(lo, "i", extent);
    for (int k = 0; k < n->names.n; k++) {
        n->names.by[k] = dim_replace(lo->cx, n->names.by[k], index, opened);
    }
    n->marks[n->n++] = mark;
}

/* Opens all loops of a class but the last `inside` ones. */
static void
open_outer(Plain *n, const Nest *nest, int inside, Marks mark)
{
    for (int ax = 0; ax < nest->naxes; ax++) {
        n->names.name[n->names.n] = nest->name[ax];
        n->names.by[n->names.n++] = nest->axis[ax];
    }
    for (int k = 0; k < nest->nloops - inside; k++) {
        open_loop(n, nest->index[k], nest->count[k], mark);
    }
}

/* Opens the last one, which has one iteration if there is none. */
static void
open_last(Plain *n, const Nest *nest, Marks mark)
{
    Cx *cx = n->p->lo->cx;
    int last = nest->nloops - 1;
    open_loop(n, last < 0 ? dim_int(cx, 0) : nest->index[last],
              last < 0 ? dim_int(cx, 1) : nest->count[last], mark);
}

static Value *
load_factor(const Plain *n, const Factor *f, Dim sum)
{
    const Product *p = n->p;
    Dim at[MAX_RANK];
    Renamed all = n->names;
    product_digits(p, sum, all.by + all.n);
    if (p->from != DIM_NONE) {
        Dim from = p->from;
        tiles_rename(p->lo->cx, &n->names, 1, &from);
        all.by[all.n] = dim_add(p->lo->cx, all.by[all.n], from);
    }
    memcpy(all.name + all.n, p->sum, (size_t)p->nsum * sizeof *all.name);
    all.n += p->nsum;
    memcpy(at, f->at, sizeof at);
    tiles_rename(p->lo->cx, &all, f->from->type->rank, at);
    return lower_cast(p->lo, lower_load_here(p->lo, f->from, at), p->dtype);
}

Value *
plain_sum(Lower *lo)
{
    const Plain *n = lo->plain;
    Dim terms = n->p->nsums;
    tiles_rename(lo->cx, &n->names, 1, &terms);
    Dim sum = lower_open(lo, "p", terms);
    Value *x = load_factor(n, &n->p->a, sum), *y = load_factor(n, &n->p->b, sum);
    return lower_close_reduce(lo, OP_sum, MARK_fused, lower_combine(lo, OP_mul, x, y));
}

void
product_outputs(Lower *lo, const Group *g, const Renamed *names)
{
    Space space = {.nouter = names->n};
    memcpy(space.outer, names->name, (size_t)names->n * sizeof *space.outer);
    group_store(lo, g, 0, g->noutputs, &space, names->by, NULL);
}

void
lower_plain(const Product *p, const Group *g)
{
    Lower *lo = p->lo;
    Plain n = {.p = p};
    open_outer(&n, &p->batch, 0, MARK_batch);
    open_outer(&n, &p->rows, 1, MARK_rows);
    open_outer(&n, &p->columns, 1, MARK_columns);
    open_last(&n, &p->rows, MARK_rows);
    open_last(&n, &p->columns, MARK_columns);
    lo->outer = lo->depth;
    lo->plain = &n;
    product_outputs(lo, g, &n.names);
    lo->plain = NULL;
    while (n.n-- > 0) {
        let_mark(lower_close(lo), n.marks[n.n], true);
    }
}
