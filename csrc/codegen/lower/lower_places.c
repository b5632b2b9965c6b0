/* Places of windows of which some sums leave out the terms: `where`, behind its first letter.
 *
 * What:     which summed letters have loops of their own around the sum of a chain, and which rows
 *           are summed at a place.
 * Requires: a Product (lower_contract.c).
 * Ensures:  behind a place there are whole chains, so that to leave it out is to add nothing.
 * Example:  "nyxpqc,ocpq->nyxo where 0<=1y+p-1<7 and 0<=1x+q-1<7", an image of 7 x 7 points: for
 *           each y those of the places p, and q, that are in the image; at q = 0 the rows of a tile
 *           but x = 0, at q = 2 all but x = 6. */
#include "lower_product.h"

Dim
product_extent(const Product *p, char letter)
{
    return letter_dim(p->letters, p->let->args[0]->type, p->let->args[1]->type, letter);
}

const Within *
places_later(const Product *p, int k)
{
    const Where *w = &p->letters->where;
    const Within *found = NULL;
    for (int j = 0; j < w->nlater; j++) {
        found = p->name[(int)w->later[j].place] == p->sum[k] ? &w->later[j] : found;
    }
    return found;
}

int
places_count(const Product *p)
{
    int n = 0;
    for (int k = 0; k < p->nsum; k++) {
        n = places_later(p, k) ? k + 1 : n;
    }
    return n;
}

Dim
places_first(const Product *p, Dim sums)
{
    Dim others = dim_int(p->lo->cx, 1);
    for (int k = 1; k < p->nsum; k++) {
        others = dim_mul(p->lo->cx, others, p->sum_extent[k]);
    }
    return dim_div(p->lo->cx, sums, others);
}

/* The rows begin where step * index + place - before becomes nonnegative, and end where it reaches
 * the size.  The index is the row plus a constant.  The number of places is added before a
 * division, so that the dividend is not negative. */
void
places_rows(const Product *p, int k, Dim index, Dim row, Dim place, Dim *from, Dim *to)
{
    Cx *cx = p->lo->cx;
    const Within *w = places_later(p, k);
    Dim step = dim_int(cx, w->step), before = dim_int(cx, w->before);
    Dim shift = dim_add(cx, dim_sub(cx, index, row), p->sum_extent[k]);
    Dim least = dim_add(cx, dim_sub(cx, before, place), dim_mul(cx, step, p->sum_extent[k]));
    Dim most = dim_add(cx, least, within_size(cx, w, product_extent(p, w->at)));
    *from = dim_sub(cx, extent_ceiling(cx, least, step), shift);
    *to = dim_sub(cx, extent_ceiling(cx, most, step), shift);
}
