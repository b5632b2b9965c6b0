/* The runs of steps of a product's operand: what is adjacent in memory, read from its offset.
 *
 * How:      An offset with divisions of the sum's index is affine in the quotient and the remainder
 *           of one of them, or of two, one in the other.
 * Example:  100 * (p / 9) + p % 9: runs of 9 steps, 100 elements apart.
 */
#include "product.h"

enum { DIVISIONS = 16, OPERANDS = 64 };

/* The divisions in an offset whose dividend uses p: `of` by `by`. */
typedef struct {
    Cx *cx;
    Dim p, operands[OPERANDS], of[DIVISIONS], by[DIVISIONS];
    int depth, n;
} Divisions;

static void
see_leaf(void *arg, char kind, int64_t value, Dim name)
{
    Divisions *d = arg;
    if (d->depth < OPERANDS) {
        d->operands[d->depth] = kind == 'n' ? name : dim_int(d->cx, value);
    }
    d->depth++;
}

static void
see_binary(void *arg, char kind)
{
    Divisions *d = arg;
    d->depth--;
    if (d->depth >= OPERANDS) {
        return;
    }
    Dim *a = &d->operands[d->depth - 1], b = d->operands[d->depth];
    if ((kind == '/' || kind == '%') && dim_uses(d->cx, *a, d->p) && d->n < DIVISIONS) {
        d->of[d->n] = *a;
        d->by[d->n++] = b;
    }
    *a = dim_apply(d->cx, kind, *a, b);
}

static Divisions
divisions_of(Cx *cx, Dim offset, Dim p)
{
    static const DimWalk walk = {.leaf = see_leaf, .binary = see_binary};
    Divisions d = {.cx = cx, .p = p};
    dim_walk(cx, offset, &walk, &d);
    return d;
}

/* Index = o * by + r - from, for a quotient o and a remainder r. */
typedef struct {
    Dim index, from, by, o;
} Split;

/* Is the offset affine in r, with the same *step for every o?  *rest: the offset at r = 0. */
static bool
split_index(Cx *cx, Dim offset, Split s, Dim *step, Dim *rest)
{
    Dim r = dim_index(cx, "r", s.by), q = dim_add(cx, dim_mul(cx, s.o, s.by), r);
    Dim at = dim_replace(cx, offset, s.index, dim_sub(cx, q, s.from));
    return dim_affine(cx, at, r, step, rest) && !dim_uses(cx, *step, s.o);
}

/* Finds groups of `runs` runs in an offset over the number o of a run.  A chain may begin within a
 * group: its first run is then not the group's. */
static bool
find_groups(Cx *cx, Dim offset, Dim o, ProductRuns *found)
{
    Divisions d = divisions_of(cx, offset, o);
    for (int k = 0; k < d.n; k++) {
        Dim group = dim_index(cx, "g", dim_int(cx, INT32_MAX)), first = dim_sub(cx, d.of[k], o);
        Split split = {o, first, d.by[k], group};
        found->runs = d.by[k];
        if (!dim_uses(cx, first, o) && dim_le(cx, dim_int(cx, 0), first) &&
            split_index(cx, offset, split, &found->next, &found->at) &&
            dim_affine(cx, found->at, group, &found->jump, &found->at)) {
            found->from = dim_add(cx, found->from, dim_mul(cx, first, found->run));
            return true;
        }
    }
    return false;
}

bool
product_runs(Cx *cx, Dim offset, Dim p, ProductRuns *found)
{
    Divisions d = divisions_of(cx, offset, p);
    for (int k = 0; k < 2 * d.n; k++) {
        Dim by = d.by[k % d.n], o = dim_index(cx, "o", dim_int(cx, INT32_MAX)), rest;
        Dim from = dim_sub(cx, d.of[k % d.n], p), below = dim_int(cx, -1);
        *found = (ProductRuns){
            .from = from, .run = by, .runs = dim_int(cx, 1), .next = dim_int(cx, 0)};
        bool split = !dim_uses(cx, from, p) && dim_lt_in(cx, below, from, dim_extent(cx, p)) &&
                     split_index(cx, offset, (Split){p, from, by, o}, &found->step, &rest);
        if (split && (k < d.n ? dim_affine(cx, rest, o, &found->jump, &found->at)
                              : find_groups(cx, rest, o, found))) {
            return true;
        }
    }
    return false;
}
