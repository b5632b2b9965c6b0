/* Contractions: which letters of a product become rows, columns and sums.
 *
 * What:     decides the roles of the letters; lower_operands.c finds or makes the operands,
 *           lower_letters.c plans the loops, and lower_plain.c writes them.
 * Requires: a probe that has found one contraction, wanted at each element of the group's space.
 * Ensures:  the sums do not depend on the tiles: the mark `fused` fixes their order.
 * How:      The columns are the axis along which the first output is contiguous.  The operand that
 *           has the columns (the column operand) is packed; either operand may be that one, since
 *           multiplication commutes.  The other is the row operand.  Which is which also depends
 *           on where the operands are: the choice that copies less is better.
 * Example:  lower_plain.c. */
#include <string.h>

#include "lower_product.h"

/* ---- letters ---- */

static void
see_closed(void *arg, Dim name)
{
    Lower *lo = ((void **)arg)[0];
    bool *closed = ((void **)arg)[1];
    *closed |= dim_extent(lo->cx, name) != DIM_NONE && !builder_is_open(&lo->out, name);
}

/* Does the index use only loops that are open already? */
static bool
is_known(Lower *lo, Dim at)
{
    bool closed = false;
    dim_names(lo->cx, at, see_closed, (void *[]){lo, &closed});
    return !closed;
}

/* Gives names to the letters: those of the result get the names of the axes at which it is needed,
 * the summed ones new indices.  False: the result is not needed exactly once at each element of the
 * space. */
static bool
name_letters(Product *p, const Shape *s, const Dim *idx)
{
    Cx *cx = p->lo->cx;
    const Contraction *c = p->letters;
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

/* ---- rows and columns ---- */

/* Is it better to swap the operands, and to store the result across its rows?  Yes if the present
 * row operand would have to be copied and the other one can be read in place, as for a convolution
 * whose weight is in rows; otherwise the windows would be copied as well, and their columns read
 * with a large stride.  Also yes if the other operand can be read in runs, because as columns it
 * would be copied, such as the windows of a weight's gradient. */
static bool
is_better_across(const Product *p, bool swapped)
{
    Product here = *p, across = *p;
    bool memory, other;
    here.swapped = swapped;
    across.swapped = !swapped;
    bool copied = !product_reads_rows(&here, &memory) && memory;
    return (copied && product_reads_rows(&across, &other)) ||
           (!product_find_runs(&here) && product_find_runs(&across));
}

/* Does the first operand have the columns?  Yes if the first output is contiguous along one of its
 * letters, or if the second operand has no letters of its own, unless the operands are better read
 * the other way.  Also, columns that fill at most half a panel become the rows if there are more
 * rows than columns: a tile of few rows wastes nothing. */
static bool
is_swapped(const Product *p, const Probe *probe)
{
    Cx *cx = p->lo->cx;
    const Contraction *c = p->letters;
    int own[2] = {0, 0}, last = -1;
    for (int k = 0; k < c->nout; k++) {
        LetterClass class = letter_class(c, c->out[k]);
        Dim name = p->name[(int)c->out[k]];
        if (class != LETTER_OF_BOTH && dim_is_name(cx, name)) {
            int b = class == LETTER_OF_B;
            own[b]++;
            last = dim_is(cx, offset_step(cx, probe->offsets[0], name), 1) ? b : last;
        }
    }
    bool swapped = last == 0 || (own[1] == 0 && own[0] > 0);
    if (own[0] > 0 && own[1] > 0 && is_better_across(p, swapped)) {
        return !swapped;
    }
    int64_t columns = operand_own_extent(p, !swapped), rows = operand_own_extent(p, swapped);
    int64_t narrow = panel_width(p->dtype) / 2;
    return swapped != (columns > 0 && columns <= narrow && (rows == 0 || rows > columns));
}

/* Chooses a letter of both operands as the columns; false: none will do.  One operand, the row
 * operand, must have letters of its own, and the other one none.  The first output and the row
 * operand must be contiguous along the columns.  The row operand is found here, and is read in
 * place; product_make_columns finds the other one. */
static bool
choose_shared_columns(Product *p, const Probe *probe)
{
    Cx *cx = p->lo->cx;
    const Contraction *c = p->letters;
    Dim column = DIM_NONE;
    int own[2] = {0, 0};
    for (int k = 0; k < c->nout; k++) {
        Dim name = p->name[(int)c->out[k]];
        LetterClass class = letter_class(c, c->out[k]);
        if (dim_is_name(cx, name) && class != LETTER_OF_BOTH) {
            own[class == LETTER_OF_B]++;
        } else if (dim_is_name(cx, name) &&
                   dim_is(cx, offset_step(cx, probe->offsets[0], name), 1)) {
            column = name;
        }
    }
    int of_rows = own[0] == 0;
    if (column == DIM_NONE || (own[0] > 0) == (own[1] > 0) || !p->nsum || c->where.nlater ||
        !operand_find(p, of_rows, &p->a) || !product_goes_in_runs(p, p->a.offset) ||
        !dim_is(cx, offset_step(cx, p->a.offset, column), 1)) {
        return false;
    }
    p->swapped = of_rows;
    p->column = column;
    return true;
}

/* ---- sums of groups ---- */

static const Let *
computed(const Lower *lo, const Value *v, Op op)
{
    bool here = !value_is_const(v) && !lo->leaf[v->id] && v->def;
    return here && v->def->op == op ? v->def : NULL;
}

/* Is it in memory, or a cast of that? */
static bool
is_read(const Lower *lo, const Value *v)
{
    const Let *cast = computed(lo, v, OP_cast);
    v = cast ? cast->args[0] : v;
    while (!value_is_const(v) && !lo->leaf[v->id] && value_is_view(v)) {
        v = v->def->args[0];
    }
    return !value_is_const(v) && lo->leaf[v->id];
}

int
groups_of(const Lower *lo, const Let *let)
{
    int found = -1;
    for (int j = 0; j < 2; j++) {
        const Let *cast = contraction_of_groups(lo->cx, let, j);
        bool here = cast && computed(lo, cast->res[0], OP_cast) &&
                    computed(lo, cast->args[0], OP_contract) && is_read(lo, let->args[1 - j]);
        found = here ? j : found;
    }
    return found;
}

/* The product of each group.  idx: where its elements are needed. */
static Product
product_of_groups(Lower *lo, const Probe *probe, int j, Dim *idx)
{
    const Let *let = probe->contract, *product = let->args[j]->def->args[0]->def;
    const Contraction *c = let_contraction(let);
    const char *mine = j ? c->b : c->a;
    Product p = {.lo = lo,
                 .column = DIM_NONE,
                 .from = DIM_NONE,
                 .let = product,
                 .letters = let_contraction(product),
                 .dtype = dtype_info[product->args[0]->type->dtype].compute,
                 .collect = let,
                 .sums = j};
    for (int ax = 0; ax < let->args[j]->type->rank; ax++) {
        int at = letter_axis(c->out, c->nout, mine[ax]);
        if (at < 0) {
            p.groups = let->args[j]->type->dims[ax];
            p.group = dim_index(lo->cx, "g", p.groups);
        }
        idx[ax] = at < 0 ? p.group : probe->contract_at[at];
    }
    return p;
}

/* ---- a group that wants a contraction ---- */

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

/* Is the contraction the only thing that needs its own loops, and needed at one position only? */
static bool
is_alone(const Probe *probe)
{
    return !probe->nsites && !probe->nscans && probe->interleaved_axis == DIM_NONE &&
           probe->cut == DIM_NONE && !probe->own_loops && probe->ncontracts == 1;
}

/* Which operand, 0 or 1, is the row operand, if it has to be made first: it is computed, or its
 * summed letters advance it neither as one axis nor in runs.  -1: it need not be made.  Fills in
 * the product. */
static int
missing_row_operand(Lower *lo, const Shape *s, const Probe *probe, Product *p)
{
    bool memory;
    *p = product_of(lo, probe->contract);
    if (!name_letters(p, s, probe->contract_at)) {
        return -1;
    }
    p->swapped = is_swapped(p, probe);
    return product_reads_rows(p, &memory) ? -1 : p->swapped;
}

bool
contract_operand(Lower *lo, const Shape *s, const Probe *probe)
{
    Product p;
    int k = missing_row_operand(lo, s, probe, &p);
    if (k >= 0) {
        operand_materialise(&p, k);
    }
    return k >= 0;
}

int
contract_rows(Lower *lo, const Shape *s, const Probe *probe, Dim *names, int64_t *row)
{
    Product p;
    Dim idx[MAX_RANK];
    int n = 0, k = missing_row_operand(lo, s, probe, &p);
    if (k < 0) {
        return 0;
    }
    operand_index(&p, k, idx);
    *row = dims_most(lo->cx, p.nsum, p.sum_extent);
    for (int j = 0; j < s->nall; j++) {
        names[n] = s->all[j];
        n += index_uses(lo->cx, probe->contract->args[k]->type->rank, idx, s->all[j]);
    }
    return n;
}

bool
group_contract(Lower *lo, const Group *g, const Shape *s, const Probe *probe)
{
    Dim idx[MAX_RANK];
    int sums = groups_of(lo, probe->contract);
    Product p = sums < 0 ? product_of(lo, probe->contract)
                         : product_of_groups(lo, probe, sums, idx);
    Probe own = *probe;
    if (!is_alone(probe) || !name_letters(&p, s, sums < 0 ? probe->contract_at : idx)) {
        return false;
    }
    if (choose_shared_columns(&p, probe)) {
        product_make_columns(&p);
    } else {
        p.swapped = is_swapped(&p, probe);
        product_make_operands(&p);
    }
    product_plan(&p, g, probe);
    lo->probe = &own;
    lo->nests = (Map){0};
    lower_plain(&p, g);
    return true;
}
