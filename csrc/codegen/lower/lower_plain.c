/* The plain nest of a product: loops over its letters, and one sum.
 *
 * What:     loops marked `batch`, `rows` and `columns`, in these the sum of products, or loops over
 *           places around the sum of a chain, and what the group computes of it.
 * Requires: a Product with its loops planned (lower_letters.c).
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

static void
open_loop(Plain *n, Dim index, Dim extent, Marks mark)
{
    Lower *lo = n->p->lo;
    Dim opened = builder_open(&lo->out, "i", extent);
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
        renamed_add(n->p->lo->cx, &n->names, nest->name[ax], nest->axis[ax]);
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
    Cx *cx = p->lo->cx;
    Dim at[MAX_RANK], digits[MAX_RANK];
    Renamed all = renamed_copy(cx, &n->names);
    product_digits(p, sum, digits);
    if (p->from != DIM_NONE) {
        Dim from = p->from;
        dims_rename(cx, &n->names, 1, &from);
        digits[0] = dim_add(cx, digits[0], from);
    }
    for (int k = 0; k < p->nsum; k++) {
        renamed_add(cx, &all, p->sum[k], digits[k]);
    }
    memcpy(at, f->at, sizeof at);
    dims_rename(cx, &all, f->from->type->rank, at);
    return builder_cast(&p->lo->out, lower_load_here(p->lo, f->from, at), p->dtype);
}

/* The sum of so many terms, from number `first` on. */
static Value *
put_sum(const Plain *n, Dim first, Dim terms)
{
    Lower *lo = n->p->lo;
    Dim sum = dim_add(lo->cx, first, builder_open(&lo->out, "p", terms));
    Value *x = load_factor(n, &n->p->a, sum), *y = load_factor(n, &n->p->b, sum);
    return builder_close_reduce(&lo->out, OP_sum, MARK_fused,
                                builder_combine(&lo->out, OP_mul, x, y));
}

/* Opens the loop over summed letter number k, and conditions on the row of the nest inside, in
 * which it is left out.  Returns how many of these there are. */
static int
open_place(const Plain *n, int k, Dim *place)
{
    const Product *p = n->p;
    Lower *lo = p->lo;
    Cx *cx = lo->cx;
    const Within *w = places_later(p, k);
    const Frame *rows = lo->out.path[lo->outer - 1];
    Dim at = w ? p->at[(int)w->at] : dim_int(cx, 0), terms = p->sum_extent[k], sums = p->nsums,
        one = dim_int(cx, 1), from = dim_int(cx, 0), to;
    dims_rename(cx, &n->names, 1, &at);
    dims_rename(cx, &n->names, 1, &sums);
    if (k == 0 && p->from != DIM_NONE) {
        terms = places_first(p, sums);
    }
    if (w && !dim_uses(cx, at, rows->index)) {
        within_places(cx, w, product_extent(p, w->at), at, terms, &from, &to);
        terms = dim_sub(cx, to, from);
        w = NULL;
    }
    *place = dim_add(cx, from, builder_open(&lo->out, "w", terms));
    int opened = 0;
    if (w) {
        places_rows(p, k, at, rows->index, *place, &from, &to);
        if (!dim_le(cx, from, dim_int(cx, 0))) {
            builder_open_choice(&lo->out, from, rows->index);
            opened++;
        }
        if (!dim_le(cx, rows->extent, to)) {
            builder_open_choice(&lo->out, rows->index, dim_sub(cx, to, one));
            opened++;
        }
    }
    return opened;
}

/* Adds the chains of all places that the row has to one number, which is loaded. */
static Value *
put_places(const Plain *n)
{
    const Product *p = n->p;
    Lower *lo = p->lo;
    Cx *cx = lo->cx;
    int opened[MAX_RANK];
    Dim at[] = {dim_int(cx, 0)}, one = dim_int(cx, 1), chain = dim_int(cx, CONTRACTION_CHAIN),
        first = at[0], place, inner = product_terms(p, p->nplaces);
    Value *total = builder_buffer(&lo->out, lo->out.depth, p->dtype, 1, &one);
    lower_store(lo, total, at, builder_number(&lo->out, p->dtype, -0.0, total->name));
    for (int k = 0; k < p->nplaces; k++) {
        opened[k] = open_place(n, k, &place);
        first = dim_add(cx, dim_mul(cx, first, p->sum_extent[k]), place);
    }
    bool several = inner != chain;
    first = dim_mul(cx, first, inner);
    if (several) {
        Dim c = builder_open(&lo->out, "c", dim_div(cx, inner, chain));
        first = dim_add(cx, first, dim_mul(cx, c, chain));
    }
    Value *sum = put_sum(n, first, chain);
    lower_store(lo, total, at,
                builder_combine(&lo->out, OP_add, lower_load_here(lo, total, at), sum));
    builder_close_all(&lo->out, several);
    for (int k = p->nplaces - 1; k >= 0; k--) {
        for (; opened[k]; opened[k]--) {
            builder_close_choice(&lo->out);
        }
        builder_close(&lo->out);
    }
    return lower_load_here(lo, total, at);
}

/* Adds the sums of all groups to one number, each times the number of the group, as a contraction
 * does: by one chain of fused multiply-adds. */
static Value *
put_groups(const Plain *n)
{
    const Product *p = n->p;
    Lower *lo = p->lo;
    Builder *out = &lo->out;
    const Let *let = p->collect;
    const Contraction *c = let_contraction(let);
    const Value *other = let->args[1 - p->sums];
    const char *letters = p->sums ? c->a : c->b;
    Dim at[] = {dim_int(lo->cx, 0)}, one = dim_int(lo->cx, 1), idx[MAX_RANK];
    Plain inside = *n;
    Value *total = builder_buffer(out, out->depth, DT_f32, 1, &one), *factors[3];
    lower_store(lo, total, at, builder_number(out, DT_f32, 0.0, total->name));
    renamed_add(lo->cx, &inside.names, p->group, builder_open(out, "g", p->groups));
    for (int ax = 0; ax < other->type->rank; ax++) {
        int axis = letter_axis(c->out, c->nout, letters[ax]);
        idx[ax] = axis < 0 ? p->group : lo->probe->contract_at[axis];
    }
    dims_rename(lo->cx, &inside.names, other->type->rank, idx);
    factors[0] = builder_cast(out, put_sum(&inside, at[0], p->nsums), DT_f32);
    factors[1] = lower_at(lo, other, idx);
    factors[2] = lower_load_here(lo, total, at);
    lower_store(lo, total, at, builder_map(out, OP_fma, 3, factors, DT_f32, let->res[0]->name));
    builder_close(out);
    return lower_load_here(lo, total, at);
}

Value *
plain_sum(Lower *lo)
{
    const Plain *n = lo->plain;
    Dim terms = n->p->nsums;
    dims_rename(lo->cx, &n->names, 1, &terms);
    return n->p->collect   ? put_groups(n)
           : n->p->nplaces ? put_places(n)
                           : put_sum(n, dim_int(lo->cx, 0), terms);
}

void
product_outputs(Lower *lo, const Group *g, const Renamed *names)
{
    Space space = {.nouter = names->n};
    for (int k = 0; k < names->n; k++) {
        space.outer[k] = names->name[k];
    }
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
    lo->outer = lo->out.depth;
    lo->plain = &n;
    product_outputs(lo, g, &n.names);
    lo->plain = NULL;
    while (n.n-- > 0) {
        let_mark(builder_close(&lo->out), n.marks[n.n], true);
    }
}
