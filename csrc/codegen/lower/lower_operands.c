/* The operands of a product: where a microkernel reads their elements.
 *
 * What:     finds each operand in memory.  One that is not there is computed, and one that no
 *           microkernel can follow is copied, to a buffer.
 * Requires: a Product whose letters have names (lower_contract.c).
 * Ensures:  the column operand is panels, or its summed letters advance it as one axis would.  The
 *           row operand is read as one axis too, or in runs: elements of a run, runs, and groups of
 *           runs, each at even steps.
 * How:      Views are followed to the memory that they are of.  An operand whose elements are the
 *           rows of panels already (a prepared weight) is used as it is.
 * Example:  lower_plain.c. */
#include <string.h>

#include "lower_product.h"

/* ---- an operand ---- */

static const char *
letters_of(const Product *p, int k)
{
    return k ? p->letters->b : p->letters->a;
}

void
operand_index(const Product *p, int k, Dim *idx)
{
    for (int ax = 0; ax < p->let->args[k]->type->rank; ax++) {
        idx[ax] = p->at[(int)letters_of(p, k)[ax]];
    }
}

int64_t
operand_own_extent(const Product *p, int k)
{
    const Contraction *c = p->letters;
    int64_t n = 1, extent;
    for (int j = 0; j < c->nout; j++) {
        Dim name = p->name[(int)c->out[j]];
        bool own = letter_class(c, c->out[j]) == (k ? LETTER_OF_B : LETTER_OF_A);
        if (own && dim_is_name(p->lo->cx, name)) {
            n = dim_is_int(p->lo->cx, dim_extent(p->lo->cx, name), &extent) ? n * extent : 0;
        }
    }
    return n;
}

/* Looks through views for the memory that holds the operand; false: the operand is computed. */
static bool
find_memory(Lower *lo, const Value *v, const Dim *idx, Factor *f)
{
    Dim at[MAX_RANK], inner[MAX_RANK];
    memcpy(at, idx, (size_t)v->type->rank * sizeof *at);
    while (!lo->leaf[v->id]) {
        if (!value_is_view(v)) {
            return false;
        }
        index_operand(lo->cx, v->def, 0, at, inner);
        v = v->def->args[0];
        memcpy(at, inner, (size_t)v->type->rank * sizeof *at);
    }
    f->from = lo->leaf[v->id];
    memcpy(f->at, at, (size_t)v->type->rank * sizeof *at);
    f->offset = index_offset(lo->cx, f->from, at);
    return true;
}

bool
operand_find(const Product *p, int k, Factor *f)
{
    Dim idx[MAX_RANK];
    operand_index(p, k, idx);
    return find_memory(p->lo, p->let->args[k], idx, f);
}

/* ---- steps of the offset ---- */

Dim
offset_step(Cx *cx, Dim offset, Dim name)
{
    Dim step, rest;
    return dim_affine(cx, offset, name, &step, &rest) ? step : DIM_NONE;
}

/* Does the offset advance by constant steps along all letters? */
static bool
is_affine(const Product *p, Dim offset)
{
    Dim steps[128], rest = offset;
    int n = 0;
    for (int k = 0; k < 128; k++) {
        if (p->name[k] && dim_is_name(p->lo->cx, p->name[k]) &&
            !dim_affine(p->lo->cx, rest, p->name[k], &steps[n++], &rest)) {
            return false;
        }
    }
    for (int k = 0; k < 128; k++) {
        for (int j = 0; j < n && p->name[k]; j++) {
            if (dim_uses(p->lo->cx, steps[j], p->name[k])) {
                return false;
            }
        }
    }
    return true;
}

bool
product_is_one_sum(const Product *p, Dim offset)
{
    Cx *cx = p->lo->cx;
    bool one = true;
    for (int k = 0; k + 1 < p->nsum && one; k++) {
        one = offset_step(cx, offset, p->sum[k]) ==
              dim_mul(cx, offset_step(cx, offset, p->sum[k + 1]), p->sum_extent[k + 1]);
    }
    return one;
}

bool
product_goes_in_runs(const Product *p, Dim offset)
{
    Cx *cx = p->lo->cx;
    int levels = 1;
    if (!is_affine(p, offset)) {
        return false;
    }
    for (int k = p->nsum - 1; k > 0; k--) {
        Dim whole = dim_mul(cx, offset_step(cx, offset, p->sum[k]), p->sum_extent[k]);
        levels += offset_step(cx, offset, p->sum[k - 1]) != whole;
    }
    return levels <= 3;
}

/* ---- read where it is ---- */

/* Has the operand one letter of its own, which is in the tiles, and is it panels of that?  It has
 * panels for each element of a batch. */
static bool
is_panels(const Product *p, const Factor *f, const char *letters, int rank)
{
    Cx *cx = p->lo->cx;
    Dim column = DIM_NONE;
    for (int k = 0; k < rank; k++) {
        Dim name = p->name[(int)letters[k]];
        bool both = letter_class(p->letters, letters[k]) == LETTER_OF_BOTH;
        if (dim_is_name(cx, name) && !both) {
            if (column != DIM_NONE || where_is_at(&p->letters->where, letters[k])) {
                return false;
            }
            column = name;
        }
    }
    return column != DIM_NONE && p->nsum > 0 &&
           f->from->type->dtype == panel_dtype(p->let->args[!p->swapped]->type->dtype) &&
           access_is_panels(cx, f->from, f->at, &(SumNames){product_sum(p), p->nsum, p->sum},
                            column);
}

/* Are the rows of a tile adjacent in memory? */
static bool
rows_are_adjacent(const Product *p)
{
    const Contraction *c = p->letters;
    Dim last = DIM_NONE;
    for (int k = 0; k < c->nout; k++) {
        Dim name = p->name[(int)c->out[k]];
        bool row = letter_class(c, c->out[k]) == (p->swapped ? LETTER_OF_B : LETTER_OF_A);
        last = row && dim_is_name(p->lo->cx, name) ? name : last;
    }
    return last != DIM_NONE && dim_is(p->lo->cx, offset_step(p->lo->cx, p->a.offset, last), 1);
}

bool
product_find_runs(Product *p)
{
    Cx *cx = p->lo->cx;
    Factor *a = &p->a, *b = &p->b;
    Product others = *p; /* the sum without its last letter */
    others.nsum--;
    if (p->lo->blocked || p->nsum < 2 || !operand_find(p, p->swapped, a) ||
        !product_goes_in_runs(p, a->offset) || product_is_one_sum(p, a->offset) ||
        (!dim_is(cx, offset_step(cx, a->offset, p->sum[p->nsum - 1]), 1) &&
         !rows_are_adjacent(p)) ||
        !operand_find(p, !p->swapped, b)) {
        return false;
    }
    const Value *v = p->let->args[!p->swapped];
    b->panels = is_panels(p, b, letters_of(p, !p->swapped), v->type->rank);
    if (b->panels) {
        return true;
    }
    return is_affine(p, b->offset) &&
           (product_is_one_sum(p, b->offset) || product_is_one_sum(&others, b->offset)) &&
           product_may_pack(p);
}

bool
product_reads_rows(Product *p, bool *memory)
{
    Factor f = {0};
    *memory = operand_find(p, p->swapped, &f);
    return *memory && is_affine(p, f.offset) &&
           (product_is_one_sum(p, f.offset) || product_find_runs(p));
}

/* ---- copied ---- */

/* The axes of a copy of the operand, innermost first: the summed letters in their order, then the
 * letters of the result. */
static void
copy_order(const Product *p, const char *letters, int rank, Order *order)
{
    const Contraction *c = p->letters;
    int n = 0;
    for (int k = c->nsum - 1; k >= 0; k--) {
        order->axis[n++] = letter_axis(letters, rank, c->sum[k]);
    }
    order->nsum = n;
    for (int ax = rank - 1; ax >= 0; ax--) {
        if (letter_axis(c->out, c->nout, letters[ax]) >= 0) {
            order->axis[n++] = ax;
        }
    }
}

/* Makes a buffer of operand k in this order, and reads that; other readers of the operand still
 * read the operand itself. */
static void
copy_operand(const Product *p, Factor *f, int k, const Order *order)
{
    Lower *lo = p->lo;
    const Value *v = p->let->args[k];
    Value *before = lo->leaf[v->id];
    Dim idx[MAX_RANK];
    operand_index(p, k, idx);
    block_materialise(lo, v, idx, order, false);
    find_memory(lo, v, idx, f);
    lo->leaf[v->id] = before;
}

void
operand_materialise(const Product *p, int k)
{
    const Value *v = p->let->args[k];
    Dim idx[MAX_RANK];
    Order order;
    operand_index(p, k, idx);
    copy_order(p, letters_of(p, k), v->type->rank, &order);
    block_materialise(p->lo, v, idx, &order, true);
}

/* Is the operand better copied?  Yes for a row operand whose summed elements are not adjacent, if
 * it is not too large: without a copy, each group of panels would read it with strides.  Of a large
 * one, the rows of one tile are packed at a time.  One that is read in runs has adjacent rows then:
 * a line has the elements of a tile's rows. */
static bool
is_copied(const Product *p, const Factor *f, const Value *v)
{
    Cx *cx = p->lo->cx;
    int64_t most = dims_most(cx, v->type->rank, v->type->dims);
    return f == &p->a && p->nsum && !p->runs &&
           !dim_is(cx, offset_step(cx, f->offset, p->sum[p->nsum - 1]), 1) &&
           most > MICRO_MOST_ROWS * CONTRACTION_CHAIN && most <= DLC_PRODUCT_COPY;
}

/* Finds operand k in memory.  If no microkernel can read it there, it is computed or copied
 * first; columns that are computed are made where they are packed, if that can be. */
static void
make_factor(Product *p, Factor *f, int k)
{
    const Value *v = p->let->args[k];
    Order order;
    bool memory = operand_find(p, k, f);
    f->panels = memory && f == &p->b && is_panels(p, f, letters_of(p, k), v->type->rank);
    if (!memory && f == &p->b && product_may_compute(p) && fuel_spend(p->lo->cx)) {
        product_compute(p);
        return;
    }
    bool one = memory && !f->panels && is_affine(p, f->offset) &&
               (product_is_one_sum(p, f->offset) || (f == &p->a && p->runs));
    if (!(f->panels || one) || is_copied(p, f, v)) {
        copy_order(p, letters_of(p, k), v->type->rank, &order);
        copy_operand(p, f, k, &order);
    }
}

/* Are the rows in memory in groups of a few, so that no tile of the usual height is read with
 * one stride?  The rows of each such group would be a product of their own. */
static bool
rows_are_in_groups(const Product *p)
{
    Cx *cx = p->lo->cx;
    const Contraction *c = p->letters;
    Dim inner = DIM_NONE, outer = DIM_NONE;
    for (int k = 0; k < c->nout; k++) {
        Dim name = p->name[(int)c->out[k]];
        if (letter_class(c, c->out[k]) == (p->swapped ? LETTER_OF_B : LETTER_OF_A) &&
            dim_is_name(cx, name)) {
            outer = inner;
            inner = name;
        }
    }
    if (outer == DIM_NONE || dim_range(cx, dim_extent(cx, inner)).hi > MICRO_MOST_ROWS) {
        return false;
    }
    Dim step = offset_step(cx, p->a.offset, inner), next = offset_step(cx, p->a.offset, outer);
    return step == DIM_NONE || next != dim_mul(cx, step, dim_extent(cx, inner));
}

/* Copies the row operand, in the order of the result, if its rows are apart and each column is read
 * for all of them: the columns are then packed once and not read in place for each few rows. */
static void
join_rows(Product *p)
{
    const Contraction *c = p->letters;
    const char *letters = letters_of(p, p->swapped);
    const Type *type = p->let->args[p->swapped]->type;
    Order order = {.nsum = c->nsum};
    int n = 0;
    int64_t most = dims_most(p->lo->cx, type->rank, type->dims);
    if (p->lo->blocked || p->b.panels || p->runs || !p->nsum || most > DLC_PRODUCT_COPY ||
        most < MICRO_MOST_ROWS * CONTRACTION_CHAIN ||
        operand_own_extent(p, !p->swapped) < DLC_PRODUCT_PANELS * panel_width(p->dtype) ||
        !rows_are_in_groups(p)) {
        return;
    }
    for (int k = c->nsum - 1; k >= 0; k--) {
        order.axis[n++] = letter_axis(letters, type->rank, c->sum[k]);
    }
    for (int k = c->nout - 1; k >= 0; k--) {
        int axis = letter_axis(letters, type->rank, c->out[k]);
        if (axis >= 0) {
            order.axis[n++] = axis;
        }
    }
    copy_operand(p, &p->a, p->swapped, &order);
}

void
product_make_operands(Product *p)
{
    p->runs = product_find_runs(p) && (p->b.panels || product_pack(p));
    make_factor(p, &p->a, p->swapped);
    if (!p->runs) {
        make_factor(p, &p->b, !p->swapped);
    }
    join_rows(p);
    if (p->lo->blocked) {
        product_pack(p);
    }
}

/* The axes of an operand whose columns are to be adjacent, innermost first: the column letter, then
 * the others. */
static void
column_order(const Product *p, const char *letters, int rank, Order *order)
{
    Order all;
    int n = 0;
    copy_order(p, letters, rank, &all);
    for (int last = 1; last >= 0; last--) {
        for (int k = 0; k < rank; k++) {
            bool column = p->name[(int)letters[all.axis[k]]] == p->column;
            if (column == last) {
                order->axis[n++] = all.axis[k];
            }
        }
    }
    order->nsum = 0;
}

void
product_make_columns(Product *p)
{
    Cx *cx = p->lo->cx;
    Order order;
    int k = !p->swapped;
    if (!operand_find(p, k, &p->b) || !is_affine(p, p->b.offset) ||
        !product_is_one_sum(p, p->b.offset) ||
        !dim_is(cx, offset_step(cx, p->b.offset, p->column), 1)) {
        column_order(p, letters_of(p, k), p->let->args[k]->type->rank, &order);
        copy_operand(p, &p->b, k, &order);
    }
}
