/* Plans the loops of a product's letters.
 *
 * What:     the loops over batches, rows and columns, and how many terms a sum has.
 * Requires: a Product with both operands (lower_operands.c).
 * Ensures:  the last letter of the rows, and of the columns, is in the tiles; the others are loops
 *           around them.
 * How:      letters of one class are merged if they advance everything as one axis would.
 * Example:  lower_plain.c. */
#include <string.h>

#include "lower_product.h"

/* Does a letter of the result decide which terms are summed?  Such a letter is not merged with
 * others. */
static bool
is_in_where(const Product *p, char letter)
{
    return where_is_at(&p->letters->where, letter);
}

/* Is its loop around the tiles?  All rows of a tile have the same places of the first summed
 * letter.  Of later ones they have some each (lower_places.c), but all columns have the same. */
static bool
is_outside(const Product *p, char letter, LetterClass class)
{
    const Where *w = &p->letters->where;
    LetterClass columns = p->swapped ? LETTER_OF_A : LETTER_OF_B;
    return is_in_where(p, letter) &&
           (class == columns || (w->first.place && letter == w->first.at));
}

/* The class of a letter of the result.  A column letter that both operands have is of none.  The
 * last letter of a class is in the tiles: those behind it, which may not be, are taken as
 * batches. */
LetterClass
product_class(const Product *p, char letter)
{
    const Contraction *c = p->letters;
    LetterClass class = letter_class(c, letter);
    bool outside = is_outside(p, letter, class);
    for (int k = letter_axis(c->out, c->nout, letter) + 1; k < c->nout; k++) {
        bool of = letter_class(c, c->out[k]) == class &&
                  dim_is_name(p->lo->cx, p->name[(int)c->out[k]]);
        outside &= !of || is_outside(p, c->out[k], class);
    }
    return p->name[(int)letter] == p->column ? LETTER_OF_NONE : outside ? LETTER_OF_BOTH : class;
}

/* Plans the loops of the letters of a class.  These loops advance the operands from .. to, and the
 * accesses of the probe from its offset `first` on.  A letter that is not in the tiles is not
 * merged with others, because no other offset advances with them as it does. */
static void
plan_class(const Product *p, const Probe *probe, int first, int from, int to, LetterClass class,
           Nest *nest)
{
    Cx *cx = p->lo->cx;
    const Contraction *c = p->letters;
    Dim names[MAX_RANK], extents[MAX_RANK],
        *all = cx_alloc(cx, (size_t)(probe->noffsets + 2 + MAX_RANK) * sizeof *all);
    const Dim offsets[] = {p->a.offset, p->b.offset};
    int n = 0, noffsets = to - from + 1;
    int nprobed = probe->noffsets - first, nstores = first ? 0 : probe->nstores;
    memcpy(all, probe->offsets + first, (size_t)nprobed * sizeof *all);
    memcpy(all + nprobed, offsets + from, (size_t)noffsets * sizeof *all);
    for (int k = 0; k < c->nout; k++) {
        Dim name = p->name[(int)c->out[k]];
        if (product_class(p, c->out[k]) == class && dim_is_name(cx, name)) {
            names[n] = name;
            extents[n++] = dim_extent(cx, name);
            if (is_in_where(p, c->out[k])) {
                all[nprobed + noffsets++] = name;
            }
        }
    }
    nest_plan(cx, nest, n, names, extents, nstores, nprobed + noffsets, all, NEST_KEEP);
}

/* How many places of the first summed letter are summed, which go from p->from on. */
static Dim
places_within(Product *p, Dim places)
{
    Cx *cx = p->lo->cx;
    const Within *w = &p->letters->where.first;
    Dim to, ats = product_extent(p, w->at);
    within_places(cx, w, ats, p->at[(int)w->at], places, &p->from, &to);
    Dim n = dim_sub(cx, to, p->from);
    if (!dim_is_name(cx, p->name[(int)w->place])) {
        p->from = DIM_NONE;
    }
    return dim_le(cx, dim_int(cx, 0), n) ? n : dim_max(cx, dim_int(cx, 0), n);
}

/* The number of terms of a sum, without those that a mask excludes.  Where a letter of the result
 * says which are summed, the places of the first summed letter go from p->from on. */
static Dim
count_sums(Product *p)
{
    const Contraction *c = p->letters;
    Dim n = dim_int(p->lo->cx, 1);
    for (int k = 0; k < c->nsum; k++) {
        const Value *a = p->let->args[0], *b = p->let->args[1];
        int axis = letter_axis(c->a, c->na, c->sum[k]);
        Dim extent = bounds_extent(p->lo, a, axis);
        bool bounded = extent != a->type->dims[axis];
        int other = letter_axis(c->b, c->nb, c->sum[k]);
        extent = bounded ? extent : bounds_extent(p->lo, b, other);
        n = dim_mul(p->lo->cx, n,
                    c->sum[k] == c->where.first.place ? places_within(p, extent) : extent);
    }
    return n;
}

/* Does the group store the interior of a padded tensor?  Then the rows of one image row are not
 * adjacent to those of the next.  They are in one tile nevertheless, and storing the tile needs
 * divisions. */
static bool
is_padded(const Group *g)
{
    const Let *let = g->outputs[0].value->def;
    return let && let->op == OP_pad;
}

void
product_plan(Product *p, const Group *g, const Probe *probe)
{
    p->nsums = count_sums(p);
    p->varies = p->letters->where.first.place;
    p->nplaces = places_count(p);
    int stores = is_padded(g) ? probe->nstores : 0;
    plan_class(p, probe, 0, 0, 1, LETTER_OF_BOTH, &p->batch);
    plan_class(p, probe, stores, 0, 0, p->swapped ? LETTER_OF_B : LETTER_OF_A, &p->rows);
    LetterClass columns = p->column != DIM_NONE ? LETTER_OF_NONE
                          : p->swapped          ? LETTER_OF_A
                                                : LETTER_OF_B;
    plan_class(p, probe, 0, p->column == DIM_NONE, 1, columns, &p->columns);
}

/* ---- sums ---- */

Dim
product_sum(const Product *p)
{
    Cx *cx = p->lo->cx;
    Dim sum = dim_int(cx, 0);
    for (int k = 0; k < p->nsum; k++) {
        sum = dim_add(cx, dim_mul(cx, sum, p->sum_extent[k]), p->sum[k]);
    }
    return sum;
}

void
product_digits(const Product *p, Dim at, Dim *digits)
{
    Cx *cx = p->lo->cx;
    Dim inner = dim_int(cx, 1);
    for (int k = p->nsum - 1; k >= 0; k--) {
        Dim digit = dim_div(cx, at, inner);
        digits[k] = k ? dim_mod(cx, digit, p->sum_extent[k]) : digit;
        inner = dim_mul(cx, inner, p->sum_extent[k]);
    }
}

Dim
product_terms(const Product *p, int first)
{
    Dim terms = dim_int(p->lo->cx, 1);
    for (int k = first; k < p->nsum; k++) {
        terms = dim_mul(p->lo->cx, terms, p->sum_extent[k]);
    }
    return terms;
}
