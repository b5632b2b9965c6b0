/* Packing whole operands: a phase before the product fills panels with its columns.
 *
 * What:     a buffer [.., N / width, K, width] that holds all of the operand, and a phase that
 *           fills it: by copying, or by computing the operand.
 * Requires: a product in a block of rows whose column operand is the same for every block, one
 *           whose row operand is read in place in runs, or one whose columns are computed.
 * Ensures:  the operand is packed once, and not once for each block.
 * How:      the phase has loops over the axes of the buffer up to the panels; in these the loops
 *           that fill a panel.  So `tile` can have the panels of a few columns, or steps, filled
 *           where they are multiplied (tile/fill.c), and then no memory holds all of the operand.
 * Example:  k: f32[B, H, S, D] of contract q, k over="bhtd,bhsd->bhts" becomes f32[B, H, (S + 31)
 *           // 32, D, 32]. */
#include <string.h>

#include "lower_product.h"

#include "ir/costs.h"

/* The axis of the operand that has the product's columns; -1: there are several, or none. */
static int
column_axis(const Product *p, const Value *v, const char *letters)
{
    int axis = -1;
    const Contraction *c = p->letters;
    for (int ax = 0; ax < v->type->rank; ax++) {
        Dim name = p->name[(int)letters[ax]];
        if (letter_class(c, letters[ax]) != LETTER_OF_BOTH && dim_is_name(p->lo->cx, name)) {
            if (axis >= 0) {
                return -1;
            }
            axis = ax;
        }
    }
    return axis;
}

/* The index in the panels of an element given by the product's letters, and the panels' sizes. */
static void
panel_index(const Product *p, const Value *v, const char *letters, int axis, Dim *at, Dim *room)
{
    Cx *cx = p->lo->cx;
    const Contraction *c = p->letters;
    Dim width = dim_int(cx, panel_width(p->dtype));
    int n = 0;
    for (int ax = 0; ax < v->type->rank; ax++) {
        if (ax != axis && letter_axis(c->sum, c->nsum, letters[ax]) < 0) {
            at[n] = p->at[(int)letters[ax]];
            room[n++] = v->type->dims[ax];
        }
    }
    Dim column = p->at[(int)letters[axis]];
    Dim panels = extent_ceiling(cx, v->type->dims[axis], width);
    memcpy(at + n, (Dim[]){dim_div(cx, column, width), product_sum(p), dim_mod(cx, column, width)},
           3 * sizeof *at);
    memcpy(room + n, (Dim[]){panels, product_terms(p, 0), width}, 3 * sizeof *room);
}

/* The loops over the whole sum of an operand with this offset.  Its last summed letter has a loop
 * of its own, if that is out of order in it.  Returns the row of the panel; *inside, the number of
 * loops in the one over the sum, grows by one with that loop. */
static Dim
open_sum(const Product *p, Dim offset, int *inside)
{
    Lower *lo = p->lo;
    Product others = *p; /* the sum without its last letter */
    if (product_is_one_sum(p, offset)) {
        return builder_open(&lo->out, "p", product_terms(p, 0));
    }
    Dim last = p->sum_extent[--others.nsum], digit = builder_open(&lo->out, "p", last),
        each = builder_open(&lo->out, "e", product_terms(&others, 0));
    ++*inside;
    return dim_add(lo->cx, dim_mul(lo->cx, each, last), digit);
}

/* An operand as panels, and the loops over these that are open. */
typedef struct {
    const Value *v;
    const char *letters;
    int axis; /* of v: the columns */
    Value *buffer;
    Dim at[MAX_RANK]; /* of the product's element */
    Dim to[MAX_RANK]; /* the indices of the open loops */
    int n; /* their number */
} Panels;

/* Before the phase that is being built: threads share the loops over the operand's other axes and
 * over the panels. */
static Panels
open_panels(Product *p, Dtype dtype)
{
    Lower *lo = p->lo;
    int k = !p->swapped;
    Panels all = {.v = p->let->args[k], .letters = k ? p->letters->b : p->letters->a};
    Dim room[MAX_RANK];
    all.axis = column_axis(p, all.v, all.letters);
    panel_index(p, all.v, all.letters, all.axis, all.at, room);
    int rank = all.v->type->rank - p->letters->nsum + 2;
    lo->out.depth = 0;
    all.buffer = builder_buffer(&lo->out, 0, dtype, rank, room);
    while (all.n < rank - 2) {
        all.to[all.n] = builder_open(&lo->out, all.n == rank - 3 ? "g" : "i", room[all.n]);
        all.n++;
    }
    return all;
}

/* saved: lowering as it was before the loops were opened. */
static void
close_panels(Product *p, const Panels *all, const Lower *saved)
{
    Lower *lo = p->lo;
    builder_close_all(&lo->out, all->n);
    lo->out.depth = saved->out.depth;
    memcpy(lo->out.path, saved->out.path, sizeof lo->out.path);
    p->b = (Factor){.from = all->buffer, .offset = index_offset(lo->cx, all->buffer, all->at)};
    memcpy(p->b.at, all->at, (size_t)all->buffer->type->rank * sizeof *all->at);
}

/* Is it an axis of the operand that has a loop around its panels? */
static bool
is_around(const Product *p, const Panels *all, int ax)
{
    return ax != all->axis && letter_axis(p->letters->sum, p->letters->nsum, all->letters[ax]) < 0;
}

/* The first column of the panel that is open, and how many it has. */
static Dim
columns_of(const Product *p, const Panels *all, Dim *n)
{
    Cx *cx = p->lo->cx;
    Dim width = dim_int(cx, panel_width(p->dtype)), first = dim_mul(cx, width, all->to[all->n - 1]);
    *n = dim_min(cx, width, dim_sub(cx, all->v->type->dims[all->axis], first));
    return first;
}

/* Fills the panel that is open: the loops in it are the steps of the sum and the columns. */
static void
copy_panel(const Product *p, const Panels *all)
{
    Lower *lo = p->lo;
    const Factor *f = &p->b;
    int n = 0, inside = 1, rank = f->from->type->rank;
    Dim from[MAX_RANK], to[MAX_RANK], digits[MAX_RANK], columns;
    memcpy(from, f->at, sizeof from);
    memcpy(to, all->to, sizeof to);
    for (int ax = 0; ax < all->v->type->rank; ax++) {
        if (is_around(p, all, ax)) {
            axes_rename(lo, 1, &p->at[(int)all->letters[ax]], &to[n++], rank, from);
        }
    }
    to[n + 1] = open_sum(p, f->offset, &inside);
    product_digits(p, to[n + 1], digits);
    Dim column = columns_of(p, all, &columns);
    to[n + 2] = builder_open(&lo->out, "l", columns);
    column = dim_add(lo->cx, column, to[n + 2]);
    axes_rename(lo, 1, &p->at[(int)all->letters[all->axis]], &column, rank, from);
    axes_rename(lo, p->nsum, p->sum, digits, rank, from);
    lower_store(
        lo, all->buffer, to,
        builder_cast(&lo->out, lower_load_here(lo, f->from, from), all->buffer->type->dtype));
    builder_close_all(&lo->out, inside + 1);
}

/* Computes what the panel that is open has. */
static void
compute_panel(const Product *p, const Panels *all)
{
    Cx *cx = p->lo->cx;
    Dim start[MAX_RANK], dims[MAX_RANK], none = dim_int(cx, 0), one = dim_int(cx, 1);
    Filled filled = {.buffer = all->buffer, .column = all->axis, .start = start};
    int n = 0, nterms = 0;
    memcpy(filled.at, all->to, sizeof filled.at);
    for (int ax = 0; ax < all->v->type->rank; ax++) {
        bool around = is_around(p, all, ax), term = !around && ax != all->axis;
        start[ax] = around ? all->to[n++] : none;
        dims[ax] = around ? one : all->v->type->dims[ax];
        /* of several letters of the sum all but one have one element */
        if (term && (nterms++ == 0 || !dim_is(cx, dims[ax], 1))) {
            filled.term = ax;
        }
    }
    start[all->axis] = columns_of(p, all, &dims[all->axis]);
    block_compute(p->lo, all->v, dims, &filled);
}

/* Is the operand the same for each block?  Then each of its indices is a bare loop index or 0,
 * without an offset that depends on the block. */
static bool
is_for_all(const Product *p, const Value *v, const char *letters, int axis)
{
    bool all = p->at[(int)letters[axis]] == p->name[(int)letters[axis]];
    for (int ax = 0; ax < v->type->rank; ax++) {
        Dim at = p->at[(int)letters[ax]];
        all &= dim_is_name(p->lo->cx, at) || dim_is(p->lo->cx, at, 0);
    }
    return all;
}

bool
product_may_pack(const Product *p)
{
    int k = !p->swapped;
    const Value *v = p->let->args[k];
    const char *letters = k ? p->letters->b : p->letters->a;
    int axis = column_axis(p, v, letters), rank = v->type->rank - p->letters->nsum + 2;
    return !p->b.panels && !p->b.computed && axis >= 0 &&
           !where_is_at(&p->letters->where, letters[axis]) && p->nsum && rank <= MAX_RANK &&
           !lower_is_part(p->lo, p->b.from) && is_for_all(p, v, letters, axis);
}

bool
product_may_compute(const Product *p)
{
    int k = !p->swapped, cost;
    const Value *v = p->let->args[k];
    const char *letters = k ? p->letters->b : p->letters->a;
    const Where *w = &p->letters->where;
    int axis = column_axis(p, v, letters);
    bool one = p->nsum == 1 && p->column == DIM_NONE && !w->first.place && !w->nlater &&
               axis >= 0 && p->at[(int)letters[axis]] == p->name[(int)letters[axis]] &&
               v->type->rank < MAX_RANK;
    /* each block of rows computes it again */
    return one && block_is_plain(p->lo, v, &cost) &&
           (cost <= 2 * COST_DECODED_COST ||
            operand_own_extent(p, p->swapped) <= COST_DECODED_ROWS);
}

void
product_compute(Product *p)
{
    Lower saved = *p->lo;
    p->lo->blocked = false;
    Panels all = open_panels(p, p->let->args[!p->swapped]->type->dtype);
    compute_panel(p, &all);
    p->lo->blocked = saved.blocked;
    close_panels(p, &all, &saved);
    p->b.computed = true;
}

bool
product_pack(Product *p)
{
    Lower saved = *p->lo;
    if (!product_may_pack(p) || !fuel_spend(saved.cx)) {
        return false;
    }
    Panels all = open_panels(p, panel_dtype(p->let->args[!p->swapped]->type->dtype));
    copy_panel(p, &all);
    close_panels(p, &all, &saved);
    p->b.panels = true;
    return true;
}
