/* Conditions that are assumed for a while: what is so in a branch of an `if`.
 *
 * How: the condition a <= b is the fact b - a >= 0.  If that is linear in one size symbol and has
 *      no other names, it narrows the range of the symbol, and ranges, simplification and proofs
 *      use it as they use a declaration.  So do the two facts of max(x, y) <= b: by
 *      max(N, 32 - N) <= 16, N is 16.  Any other fact is one more dim that is not negative,
 *      as those that follow from indices (exist.c).
 *      Derived facts and simplified dims are remembered by epoch.  A condition has an epoch of its
 *      own, which is the same one whenever it is assumed again, and the epoch before goes on when
 *      it is forgotten: nothing is derived twice.  No size is declared in between. */
#include "ir/cx.h"

/* fact == *by * symbol + *rest, for the only name in it; DIM_NONE: it is not so. */
static Dim
symbol_of(Cx *cx, Dim fact, int64_t *by, int64_t *rest)
{
    const Poly *p = dim_poly(cx, fact);
    Dim symbol = DIM_NONE;
    *by = *rest = 0;
    for (int k = 0; k < p->n; k++) {
        const AtomNode *atom = dim_atom(cx, dim_term(cx, 1, p->terms[k].mono));
        if (p->terms[k].mono == MONO_ONE) {
            *rest = p->terms[k].c;
        } else if (atom && atom->kind == ATOM_SIZE && *by == 0) {
            *by = p->terms[k].c;
            symbol = atom->self;
        } else {
            return DIM_NONE;
        }
        p = dim_poly(cx, fact);
    }
    return symbol;
}

/* The part of the range where by * symbol + rest >= 0. */
static Range
narrowed(Range range, int64_t by, int64_t rest)
{
    int64_t less;
    if (rest == INT64_MIN || by == INT64_MIN) {
        return range;
    }
    if (by > 0) {
        less = -int_div(rest, by);
        range.lo = less > range.lo ? less : range.lo;
    } else {
        less = int_div(rest, -by);
        range.hi = less < range.hi ? less : range.hi;
    }
    return range;
}

/* Narrows the range of a symbol by a fact; symbol: DIM_NONE before the first one.  False: the fact
 * is of no symbol, or of another one. */
static bool
narrow(Cx *cx, Assumption *one, Dim fact)
{
    int64_t by, rest;
    Dim symbol = symbol_of(cx, fact, &by, &rest);
    if (symbol == DIM_NONE || (one->symbol != DIM_NONE && one->symbol != symbol)) {
        return false;
    }
    const AtomNode *atom = dim_atom(cx, symbol);
    if (one->symbol == DIM_NONE) {
        one->symbol = symbol;
        one->before = one->within = atom->range;
    }
    Range part = dim_multiples(narrowed(one->within, by, rest), atom->divisor);
    if (part.lo <= part.hi) { /* else it is never so, and anything may be said */
        one->within = part;
    }
    return true;
}

/* The fact is *other - max(*x, *y) >= 0 for some dims. */
static bool
is_both(Cx *cx, Dim fact, Dim *other, Dim *x, Dim *y)
{
    const Poly *p = dim_poly(cx, fact);
    for (int k = 0; k < p->n; k++) {
        Dim term = dim_term(cx, 1, p->terms[k].mono);
        const AtomNode *atom = dim_atom(cx, term);
        p = dim_poly(cx, fact);
        if (atom && atom->kind == ATOM_MAX && p->terms[k].c == -1) {
            *x = atom->a;
            *y = atom->b;
            *other = dim_add(cx, fact, term);
            return true;
        }
    }
    return false;
}

static Assumption *
assumption_new(Cx *cx, Dim fact)
{
    Dims *dims = &cx->dims;
    Assumption *one = cx_alloc(cx, sizeof *one);
    Dim other, x, y;
    *one = (Assumption){.fact = fact, .symbol = DIM_NONE, .from = dims->epoch};
    bool both = is_both(cx, fact, &other, &x, &y),
         known = narrow(cx, one, both ? dim_sub(cx, other, x) : fact);
    if (both && !(known && narrow(cx, one, dim_sub(cx, other, y)))) {
        one->symbol = DIM_NONE;
    }
    dims->assumptions = cx_grow(cx, dims->assumptions, dims->nassumptions,
                                sizeof *dims->assumptions);
    one->epoch = ++dims->epochs;
    return dims->assumptions[dims->nassumptions++] = one;
}

void
dim_assume(Cx *cx, Dim a, Dim b)
{
    Dims *dims = &cx->dims;
    Dim fact = dim_sub(cx, b, a);
    Assumption *found = NULL;
    for (int k = 0; k < dims->nassumptions && !found; k++) {
        Assumption *one = dims->assumptions[k];
        found = one->from == dims->epoch && one->fact == fact ? one : NULL;
    }
    found = found ? found : assumption_new(cx, fact);
    found->outer = dims->assumed;
    dims->assumed = found;
    dims->epoch = found->epoch;
    if (found->symbol != DIM_NONE) {
        dim_atom(cx, found->symbol)->range = found->within;
    }
}

void
dim_forget(Cx *cx)
{
    const Assumption *one = cx->dims.assumed;
    if (one->symbol != DIM_NONE) {
        dim_atom(cx, one->symbol)->range = one->before;
    }
    cx->dims.epoch = one->from;
    cx->dims.assumed = one->outer;
}

void
dim_forget_to(Cx *cx, const Assumption *one)
{
    while (cx->dims.assumed != one) {
        dim_forget(cx);
    }
}
