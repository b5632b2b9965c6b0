/* Contractions: which letters of a product become rows, columns and sums, and where its
 * operands are.
 *
 * What:     decides the roles of the letters; lower_letters.c plans their loops, and lower_tiles.c
 *           writes them.
 * Requires: a probe that has found one contraction, wanted at each element of the group's space.
 * Ensures:  the sums do not depend on the tiles: the mark `fused` fixes their order.
 * How:      Letters become loops according to the steps by which they advance the operands.  The
 *           columns are the axis along which the first target is contiguous.  The operand that has
 *           the columns (the column operand) is packed; either operand may be that one, since
 *           multiplication commutes.  The other is the row operand.  Summed letters must advance
 *           an operand as one axis would; if they do not, the operand is copied first.  An operand
 *           whose elements are the rows of panels already (a prepared weight) is used as it is.
 * Example:  lower_tiles.c. */
#include <string.h>

#include "lower_product.h"

/* ---- operands ---- */

/* Looks through views for the memory that holds the operand; false: the operand is computed. */
static bool
find_memory(Lower *lo, const Value *v, const Dim *idx, Factor *f)
{
    Dim at[MAX_RANK], inner[MAX_RANK];
    memcpy(at, idx, (size_t)v->type->rank * sizeof *at);
    while (!lo->leaf[v->id]) {
        if (op_info[v->def->op].kind != KIND_VIEW) {
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

/* Does the offset advance by constant steps along all letters? */
static bool
is_affine(Product *p, Dim offset)
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

static Dim
step_of(Cx *cx, Dim offset, Dim name)
{
    Dim step, rest;
    return dim_affine(cx, offset, name, &step, &rest) ? step : DIM_NONE;
}

bool
product_is_one_sum(const Product *p, Dim offset)
{
    Cx *cx = p->lo->cx;
    bool one = true;
    for (int k = 0; k + 1 < p->nsum && one; k++) {
        one = step_of(cx, offset, p->sum[k]) ==
              dim_mul(cx, step_of(cx, offset, p->sum[k + 1]), p->sum_extent[k + 1]);
    }
    return one;
}

/* Does a sum advance by even steps on at most three levels: elements of a run, runs, groups of
 * runs?  A microkernel can follow these. */
static bool
is_in_runs(const Product *p, Dim offset)
{
    Cx *cx = p->lo->cx;
    int levels = 1;
    for (int k = p->nsum - 1; k > 0; k--) {
        Dim whole = dim_mul(cx, step_of(cx, offset, p->sum[k]), p->sum_extent[k]);
        levels += step_of(cx, offset, p->sum[k - 1]) != whole;
    }
    return levels <= 3;
}

/* The axes of a copy of the operand, innermost first: the summed letters in their order, then the
 * letters of the result. */
static void
copy_order(const Product *p, const char *letters, int rank, Order *order)
{
    const Contraction *c = &p->letters;
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

/* Is the operand stored as panels, [.., n / width, .., k, n % width], with n its only letter of the
 * columns, which is in the tiles?  It has panels for each element of a batch. */
static bool
is_panels(const Product *p, const Factor *f, const char *letters, int rank)
{
    Cx *cx = p->lo->cx;
    const Type *type = f->from->type;
    int64_t width = panel_width(p->dtype);
    Dim column = DIM_NONE, row = dim_int(cx, 0);
    for (int k = 0; k < p->nsum; k++) {
        row = dim_add(cx, dim_mul(cx, row, p->sum_extent[k]), p->sum[k]);
    }
    for (int k = 0; k < rank; k++) {
        Dim name = p->name[(int)letters[k]];
        bool both = letter_class(&p->letters, letters[k]) == LETTER_OF_BOTH;
        if (dim_is_name(cx, name) && !both) {
            if (column != DIM_NONE || where_is_at(&p->letters.where, letters[k])) {
                return false;
            }
            column = name;
        }
    }
    if (column == DIM_NONE || p->nsum < 1 || type->rank < 2 || type->dtype != p->dtype ||
        !dim_is(cx, type->dims[type->rank - 1], width)) {
        return false;
    }
    Dim panel = dim_index(cx, "j", dim_extent(cx, column)),
        l = dim_index(cx, "l", dim_int(cx, width));
    Dim split = dim_add(cx, dim_mul(cx, panel, dim_int(cx, width)), l);
    bool same = f->at[type->rank - 2] == row &&
                dim_replace(cx, f->at[type->rank - 1], column, split) == l;
    for (int k = 0; k < type->rank - 2 && same; k++) {
        Dim at = dim_replace(cx, f->at[k], column, split), step, rest;
        same = !dim_uses(cx, at, l) && dim_affine(cx, at, panel, &step, &rest);
        for (int j = 0; j < p->nsum && same; j++) {
            same = !dim_uses(cx, at, p->sum[j]);
        }
    }
    return same;
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
           !dim_is(cx, step_of(cx, f->offset, p->sum[p->nsum - 1]), 1) &&
           most > MICRO_MOST_ROWS * CONTRACTION_CHAIN && most <= DLC_PRODUCT_COPY;
}

/* Are the rows in memory in groups of a few, so that no tile of the usual height is read with
 * one stride?  The rows of each such group would be a product of their own. */
static bool
rows_are_in_groups(const Product *p)
{
    Cx *cx = p->lo->cx;
    const Contraction *c = &p->letters;
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
    Dim step = step_of(cx, p->a.offset, inner), next = step_of(cx, p->a.offset, outer);
    return step == DIM_NONE || next != dim_mul(cx, step, dim_extent(cx, inner));
}

static void
operand_index(const Product *p, int k, Dim *idx)
{
    for (int ax = 0; ax < p->let->args[k]->type->rank; ax++) {
        idx[ax] = p->at[(int)(k ? p->letters.b : p->letters.a)[ax]];
    }
}

/* Finds operand k in memory.  If no microkernel can read it there, it is computed or copied
 * first. */
static void
make_factor(Product *p, Factor *f, int k)
{
    const char *letters = k ? p->letters.b : p->letters.a;
    Value *v = p->let->args[k];
    Dim idx[MAX_RANK];
    Order order;
    operand_index(p, k, idx);
    bool memory = find_memory(p->lo, v, idx, f);
    f->panels = memory && f == &p->b && is_panels(p, f, letters, v->type->rank);
    bool one = memory && !f->panels && is_affine(p, f->offset) &&
               (product_is_one_sum(p, f->offset) || (f == &p->a && p->runs));
    if (!(f->panels || one) || is_copied(p, f, v)) {
        Value *before = p->lo->leaf[v->id];
        copy_order(p, letters, v->type->rank, &order);
        block_materialise(p->lo, v, idx, &order, false);
        find_memory(p->lo, v, idx, f);
        p->lo->leaf[v->id] = before; /* other readers of v still read v itself */
    }
}

/* Are the rows of a tile adjacent in memory? */
static bool
rows_are_adjacent(const Product *p)
{
    const Contraction *c = &p->letters;
    Dim last = DIM_NONE;
    for (int k = 0; k < c->nout; k++) {
        Dim name = p->name[(int)c->out[k]];
        bool row = letter_class(c, c->out[k]) == (p->swapped ? LETTER_OF_B : LETTER_OF_A);
        last = row && dim_is_name(p->lo->cx, name) ? name : last;
    }
    return last != DIM_NONE && dim_is(p->lo->cx, step_of(p->lo->cx, p->a.offset, last), 1);
}

/* Finds both operands where the row operand is read in place, run by run; false: it cannot be.  The
 * elements of a run, or those of the rows, are adjacent.  The column operand is then packed; its
 * last summed letter may be out of order in memory. */
static bool
find_runs(Product *p)
{
    Cx *cx = p->lo->cx;
    Dim idx[MAX_RANK];
    Factor *a = &p->a, *b = &p->b;
    Product others = *p; /* the sum without its last letter */
    others.nsum--;
    operand_index(p, p->swapped, idx);
    if (p->lo->blocked || p->nsum < 2 || !find_memory(p->lo, p->let->args[p->swapped], idx, a) ||
        !is_affine(p, a->offset) || product_is_one_sum(p, a->offset) || !is_in_runs(p, a->offset) ||
        (!dim_is(cx, step_of(cx, a->offset, p->sum[p->nsum - 1]), 1) && !rows_are_adjacent(p))) {
        return false;
    }
    const Value *v = p->let->args[!p->swapped];
    operand_index(p, !p->swapped, idx);
    if (!find_memory(p->lo, p->let->args[!p->swapped], idx, b)) {
        return false;
    }
    b->panels = is_panels(p, b, p->swapped ? p->letters.a : p->letters.b, v->type->rank);
    if (b->panels) {
        return true;
    }
    return is_affine(p, b->offset) &&
           (product_is_one_sum(p, b->offset) || product_is_one_sum(&others, b->offset)) &&
           product_may_pack(p);
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

/* Chooses a letter of both operands as the columns; false: none will do.  One operand, the row
 * operand, must have letters of its own, and the other one none.  The first target and the row
 * operand must be contiguous along the columns.  The row operand is found here, and is read in
 * place; make_column_operand finds the other one. */
static bool
choose_shared_columns(Product *p, const Probe *probe)
{
    Lower *lo = p->lo;
    Cx *cx = lo->cx;
    const Contraction *c = &p->letters;
    Dim idx[MAX_RANK], column = DIM_NONE;
    int own[2] = {0, 0};
    for (int k = 0; k < c->nout; k++) {
        Dim name = p->name[(int)c->out[k]];
        LetterClass class = letter_class(c, c->out[k]);
        if (dim_is_name(cx, name) && class != LETTER_OF_BOTH) {
            own[class == LETTER_OF_B]++;
        } else if (dim_is_name(cx, name) && dim_is(cx, step_of(cx, probe->offsets[0], name), 1)) {
            column = name;
        }
    }
    int of_rows = own[0] == 0;
    operand_index(p, of_rows, idx);
    if (column == DIM_NONE || (own[0] > 0) == (own[1] > 0) || !p->nsum || c->where.nlater ||
        !find_memory(lo, p->let->args[of_rows], idx, &p->a) || !is_affine(p, p->a.offset) ||
        !is_in_runs(p, p->a.offset) || !dim_is(cx, step_of(cx, p->a.offset, column), 1)) {
        return false;
    }
    p->swapped = of_rows;
    p->column = column;
    return true;
}

/* Finds the operand without rows, or copies it if its elements of the columns are not adjacent. */
static void
make_column_operand(Product *p)
{
    Lower *lo = p->lo;
    Dim idx[MAX_RANK];
    Order order;
    int k = !p->swapped;
    Value *v = p->let->args[k];
    operand_index(p, k, idx);
    if (!find_memory(lo, v, idx, &p->b) || !is_affine(p, p->b.offset) ||
        !product_is_one_sum(p, p->b.offset) ||
        !dim_is(lo->cx, step_of(lo->cx, p->b.offset, p->column), 1)) {
        Value *before = lo->leaf[v->id];
        column_order(p, k ? p->letters.b : p->letters.a, v->type->rank, &order);
        block_materialise(lo, v, idx, &order, false);
        find_memory(lo, v, idx, &p->b);
        lo->leaf[v->id] = before;
    }
}

/* ---- letters ---- */

static void
see_closed(void *arg, Dim name)
{
    Lower *lo = ((void **)arg)[0];
    bool *closed = ((void **)arg)[1];
    *closed |= dim_extent(lo->cx, name) != DIM_NONE && !lower_is_open(lo, name);
}

/* Does the index use only loops that are open already? */
static bool
is_known(Lower *lo, Dim at)
{
    bool closed = false;
    dim_names(lo->cx, at, see_closed, (void *[]){lo, &closed});
    return !closed;
}

/* Names the letters: those of the result by the axes at which it is wanted, the summed ones by new
 * indices.  False: the result is not wanted exactly once at each element of the space. */
static bool
name_letters(Product *p, const Shape *s, const Dim *idx)
{
    Cx *cx = p->lo->cx;
    const Contraction *c = &p->letters;
    const Type *a = p->let->args[0]->type, *b = p->let->args[1]->type;
    int named = 0;
    for (int k = 0; k < c->nout; k++) {
        Dim name = dim_int(cx, 0);
        for (int j = 0; j < s->nall; j++) {
            name = dim_uses(cx, idx[k], s->all[j]) ? s->all[j] : name;
        }
        bool one = !dim_is_name(cx, name), ours = one || is_known(p->lo, dim_sub(cx, idx[k], name));
        for (int j = 0; j < k && !one; j++) {
            ours &= !dim_uses(cx, idx[j], name);
        }
        if (!ours) {
            return false;
        }
        named += !one;
        p->name[(int)c->out[k]] = name;
        p->at[(int)c->out[k]] = idx[k];
    }
    for (int k = 0; k < c->nsum; k++) {
        Dim extent = letter_dim(c, a, b, c->sum[k]);
        bool one = extent_is_one(cx, extent);
        Dim name = one ? dim_int(cx, 0) : dim_index(cx, "k", extent);
        p->name[(int)c->sum[k]] = p->at[(int)c->sum[k]] = name;
        if (!one) {
            p->sum[p->nsum] = name;
            p->sum_extent[p->nsum++] = extent;
        }
    }
    return named == s->nall;
}

/* The number of elements of the letters that only the result and one operand have; 0: not known. */
static int64_t
own_extent(const Product *p, bool of_b)
{
    const Contraction *c = &p->letters;
    int64_t n = 1, extent;
    for (int k = 0; k < c->nout; k++) {
        Dim name = p->name[(int)c->out[k]];
        bool own = letter_class(c, c->out[k]) == (of_b ? LETTER_OF_B : LETTER_OF_A);
        if (own && dim_is_name(p->lo->cx, name)) {
            n = dim_is_int(p->lo->cx, dim_extent(p->lo->cx, name), &extent) ? n * extent : 0;
        }
    }
    return n;
}

/* Can the row operand be read where it is?  *memory: is it in memory at all? */
static bool
reads_rows(Product *p, bool *memory)
{
    Dim idx[MAX_RANK];
    Factor f = {0};
    operand_index(p, p->swapped, idx);
    *memory = find_memory(p->lo, p->let->args[p->swapped], idx, &f);
    return *memory && is_affine(p, f.offset) && (product_is_one_sum(p, f.offset) || find_runs(p));
}

/* Is the row operand better the other one, and the result stored across its rows?  Yes if this one
 * would have to be copied, and the other one can be read where it is: so of a convolution whose
 * weight is in rows.  Else the windows would be copied too, and columns of theirs read apart.  And
 * yes if the other one can be read in runs: as columns it would be copied, such as the windows of a
 * weight's gradient. */
static bool
is_better_across(const Product *p, bool swapped)
{
    Product here = *p, across = *p;
    bool memory, other;
    here.swapped = swapped;
    across.swapped = !swapped;
    bool copied = !reads_rows(&here, &memory) && memory;
    return (copied && reads_rows(&across, &other)) || (!find_runs(&here) && find_runs(&across));
}

/* Does the first operand have the columns?  Yes if the first target is contiguous along one of its
 * letters, or if the second operand has no letters of its own, but for operands that are better
 * read the other way.  And columns that fill at most half a panel become the rows if there are more
 * rows than columns: a tile of few rows is no waste. */
static bool
is_swapped(const Product *p, const Probe *probe)
{
    Cx *cx = p->lo->cx;
    const Contraction *c = &p->letters;
    int own[2] = {0, 0}, last = -1;
    for (int k = 0; k < c->nout; k++) {
        LetterClass class = letter_class(c, c->out[k]);
        Dim name = p->name[(int)c->out[k]];
        if (class != LETTER_OF_BOTH && dim_is_name(cx, name)) {
            int b = class == LETTER_OF_B;
            own[b]++;
            last = dim_is(cx, step_of(cx, probe->offsets[0], name), 1) ? b : last;
        }
    }
    bool swapped = last == 0 || (own[1] == 0 && own[0] > 0);
    if (own[0] > 0 && own[1] > 0 && is_better_across(p, swapped)) {
        return !swapped;
    }
    int64_t columns = own_extent(p, !swapped), rows = own_extent(p, swapped);
    int64_t narrow = panel_width(p->dtype) / 2;
    return swapped != (columns > 0 && columns <= narrow && (rows == 0 || rows > columns));
}

static Product
product_of(Lower *lo, const Let *let)
{
    return (Product){.lo = lo,
                     .column = DIM_NONE,
                     .from = DIM_NONE,
                     .let = let,
                     .letters = let_contraction(let),
                     .dtype = dtype_info[let->args[0]->type->dtype].compute};
}

/* Does nothing but the contraction need loops of its own, and is it wanted at one place only? */
static bool
is_alone(const Probe *probe)
{
    return !probe->nsites && !probe->nscans && probe->interleaved_axis == DIM_NONE &&
           probe->cut == DIM_NONE && !probe->own_loops && probe->ncontracts == 1;
}

/* Which operand, 0 or 1, is the row operand, if it has to be made first: it is computed, or its
 * summed letters advance it neither as one axis nor in runs.  -1: it need not be made.  Fills in
 * the product, and the indices at which the operand is read. */
static int
missing_row_operand(Lower *lo, const Shape *s, const Probe *probe, Product *p, Dim *idx)
{
    bool memory;
    *p = product_of(lo, probe->contract);
    if (!name_letters(p, s, probe->contract_at)) {
        return -1;
    }
    p->swapped = is_swapped(p, probe);
    operand_index(p, p->swapped, idx);
    return reads_rows(p, &memory) ? -1 : p->swapped;
}

bool
contract_operand(Lower *lo, const Shape *s, const Probe *probe)
{
    Product p;
    Dim idx[MAX_RANK];
    Order order;
    int k = missing_row_operand(lo, s, probe, &p, idx);
    if (k < 0) {
        return false;
    }
    const Value *v = p.let->args[k];
    copy_order(&p, k ? p.letters.b : p.letters.a, v->type->rank, &order);
    block_materialise(lo, v, idx, &order, true);
    return true;
}

int
contract_rows(Lower *lo, const Shape *s, const Probe *probe, Dim *names, int64_t *row)
{
    Product p;
    Dim idx[MAX_RANK];
    int n = 0, k = missing_row_operand(lo, s, probe, &p, idx);
    if (k < 0) {
        return 0;
    }
    *row = dims_most(lo->cx, p.nsum, p.sum_extent);
    for (int j = 0; j < s->nall; j++) {
        names[n] = s->all[j];
        n += index_uses(lo->cx, probe->contract->args[k]->type->rank, idx, s->all[j]);
    }
    return n;
}

/* Copies the row operand, in the order of the result, if its rows are apart and each column is read
 * for all of them: the columns are then packed once and not read in place for each few rows. */
static void
join_rows(Product *p)
{
    Lower *lo = p->lo;
    const Contraction *c = &p->letters;
    const char *letters = p->swapped ? c->b : c->a;
    Value *v = p->let->args[p->swapped], *before = lo->leaf[v->id];
    Dim idx[MAX_RANK];
    Order order = {.nsum = c->nsum};
    int rank = v->type->rank, n = 0;
    int64_t most = dims_most(lo->cx, rank, v->type->dims);
    if (lo->blocked || p->b.panels || p->runs || !p->nsum || most > DLC_PRODUCT_COPY ||
        most < MICRO_MOST_ROWS * CONTRACTION_CHAIN ||
        own_extent(p, !p->swapped) < DLC_PRODUCT_PANELS * panel_width(p->dtype) ||
        !rows_are_in_groups(p)) {
        return;
    }
    for (int k = c->nsum - 1; k >= 0; k--) {
        order.axis[n++] = letter_axis(letters, rank, c->sum[k]);
    }
    for (int k = c->nout - 1; k >= 0; k--) {
        int axis = letter_axis(letters, rank, c->out[k]);
        if (axis >= 0) {
            order.axis[n++] = axis;
        }
    }
    operand_index(p, p->swapped, idx);
    block_materialise(lo, v, idx, &order, false);
    find_memory(lo, v, idx, &p->a);
    lo->leaf[v->id] = before; /* other readers of v still read v itself */
}

/* Chooses the row operand, and makes both operands what the tiles read. */
static void
make_operands(Product *p, const Probe *probe)
{
    p->swapped = is_swapped(p, probe);
    p->runs = find_runs(p) && (p->b.panels || product_pack(p));
    make_factor(p, &p->a, p->swapped);
    if (!p->runs) {
        make_factor(p, &p->b, !p->swapped);
    }
    join_rows(p);
    if (p->lo->blocked) {
        product_pack(p);
    }
}

bool
group_contract(Lower *lo, const Group *g, const Shape *s, const Probe *probe)
{
    Product p = product_of(lo, probe->contract);
    Probe own = *probe;
    if (!is_alone(probe) || !name_letters(&p, s, probe->contract_at)) {
        return false;
    }
    if (choose_shared_columns(&p, probe)) {
        make_column_operand(&p);
    } else {
        make_operands(&p, probe);
    }
    product_plan(&p, g, probe);
    lo->probe = &own;
    lo->nests = (Map){0};
    lower_tiles(&p, g);
    return true;
}
