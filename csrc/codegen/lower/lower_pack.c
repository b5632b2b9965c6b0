/* Packing whole sums: a phase before the product copies its column operand to panels, or the loop
 * over the groups of panels does so group by group.
 *
 * What:     a buffer [.., N / width, K, width] that holds all of the operand, and a phase that
 *           fills it; or the note that lower_tiles.c packs each group.
 * Requires: a product in a block of rows whose column operand is the same for every block, or a
 *           product whose row operand is read in place in runs.
 * Ensures:  the operand is packed once, and not once for each block.
 * How:      where each group of panels is used for a few rows, and there are enough groups for
 *           threads, the group is packed right before: it stays in the second-level cache, and no
 *           memory holds all of the operand.
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

void
product_find_last(Product *p, Dim offset)
{
    Product others = *p; /* the sum without its last letter */
    p->last = p->others = DIM_NONE;
    if (!product_is_one_sum(p, offset)) {
        others.nsum--;
        p->last = p->sum_extent[others.nsum];
        p->others = product_terms(&others, 0);
    }
}

Dim
product_open_sum(const Product *p, int *inside)
{
    Lower *lo = p->lo;
    if (p->last == DIM_NONE) {
        return lower_open(lo, "p", product_terms(p, 0));
    }
    Dim digit = lower_open(lo, "p", p->last), each = lower_open(lo, "e", p->others);
    ++*inside;
    return dim_add(lo->cx, dim_mul(lo->cx, each, p->last), digit);
}

/* Fills the panels.  Threads share the loops over the operand's other axes and over the panels; in
 * them are the steps of the sum and the columns of a panel. */
static void
fill_panels(const Product *p, const Factor *f, const Value *v, const char *letters, int axis,
            Value *buffer, const Dim *room)
{
    Lower *lo = p->lo;
    Cx *cx = lo->cx;
    const Contraction *c = p->letters;
    int rank = buffer->type->rank, n = 0, inside = 1;
    Dim to[MAX_RANK], from[MAX_RANK], digits[MAX_RANK], width = room[rank - 1];
    memcpy(from, f->at, sizeof from);
    for (int ax = 0; ax < v->type->rank; ax++) {
        if (ax != axis && letter_axis(c->sum, c->nsum, letters[ax]) < 0) {
            to[n] = lower_open(lo, "i", room[n]);
            axes_rename(lo, 1, &p->at[(int)letters[ax]], &to[n], f->from->type->rank, from);
            n++;
        }
    }
    to[n] = lower_open(lo, "g", room[n]);
    to[n + 1] = product_open_sum(p, &inside);
    product_digits(p, to[n + 1], digits);
    Dim first = dim_mul(cx, width, to[n]);
    to[n + 2] = lower_open(lo, "l", dim_min(cx, width, dim_sub(cx, v->type->dims[axis], first)));
    Dim column = dim_add(cx, first, to[n + 2]);
    axes_rename(lo, 1, &p->at[(int)letters[axis]], &column, f->from->type->rank, from);
    axes_rename(lo, p->nsum, p->sum, digits, f->from->type->rank, from);
    lower_store(lo, buffer, to, lower_cast(lo, lower_load_here(lo, f->from, from), p->dtype));
    group_close(lo, inside + n + 2);
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
    const Where *w = &p->letters->where;
    bool one = p->nsum == 1 && p->column == DIM_NONE && !w->first.place && !w->nlater &&
               column_axis(p, v, k ? p->letters->b : p->letters->a) >= 0;
    /* each block of rows computes it again */
    return one && block_is_plain(p->lo, v, &cost) &&
           (cost <= 2 * COST_DECODED_COST ||
            operand_own_extent(p, p->swapped) <= COST_DECODED_ROWS);
}

/* Is each group better packed in its own loop?  It is then used for all rows, which are at most
 * those of one block.  With more rows, packing is cheap in comparison, and threads share it
 * better. */
static bool
is_by_group(const Product *p, const Value *v, const char *letters, int axis)
{
    Cx *cx = p->lo->cx;
    const Contraction *c = p->letters;
    Dim columns = v->type->dims[axis], rows = dim_int(cx, 1);
    bool same = true;
    for (int k = 0; k < c->nout; k++) {
        bool of = letter_axis(letters, v->type->rank, c->out[k]) >= 0;
        same &= of || product_class(p, c->out[k]) != LETTER_OF_BOTH;
        rows = of ? rows : dim_mul(cx, rows, p->let->res[0]->type->dims[k]);
    }
    return same && !p->lo->blocked && product_is_by_panels(p) &&
           extent_least(cx, columns) >= DLC_PRODUCT_GROUPS * panel_width(p->dtype) &&
           dims_typical(cx, 1, &rows) <= DLC_PRODUCT_TILES * MICRO_MOST_ROWS;
}

bool
product_pack(Product *p)
{
    Lower *lo = p->lo, saved = *lo;
    int k = !p->swapped;
    const Value *v = p->let->args[k];
    const char *letters = k ? p->letters->b : p->letters->a;
    Dim at[MAX_RANK], room[MAX_RANK];
    if (!product_may_pack(p) || !fuel_spend(lo->cx)) {
        return false;
    }
    int axis = column_axis(p, v, letters), rank = v->type->rank - p->letters->nsum + 2;
    p->b.panels = true;
    p->packs_groups = is_by_group(p, v, letters, axis);
    product_find_last(p, p->b.offset);
    if (p->packs_groups) {
        return true;
    }
    panel_index(p, v, letters, axis, at, room);
    lo->depth = 0;
    Value *buffer = lower_buffer(lo, 0, p->dtype, rank, room);
    fill_panels(p, &p->b, v, letters, axis, buffer, room);
    lo->depth = saved.depth;
    memcpy(lo->path, saved.path, sizeof lo->path);
    p->b = (Factor){.from = buffer, .panels = true, .offset = index_offset(lo->cx, buffer, at)};
    memcpy(p->b.at, at, (size_t)rank * sizeof *at);
    return true;
}
