/* What follows from indices that exist: each of them has an extent of at least 1.  And from what is
 * assumed (assume.c).
 *
 * How: a question names dims, and those have names of indices.  `extent - 1` of each is kept as a
 * dim that is not negative; an extent that is a minimum or a product gives several.  A proof that
 * is at its end takes multiples of them away: X + Y - 2 is not negative where X - 1 and Y - 1 are
 * not. */
#include "ir/cx.h"

/* x, where the extent is written as max(0, x). */
Dim
dim_nonempty(Cx *cx, Dim extent)
{
    const AtomNode *most = dim_atom(cx, extent);
    if (!most || most->kind != ATOM_MAX) {
        return extent;
    }
    return dim_is(cx, most->a, 0) ? most->b : dim_is(cx, most->b, 0) ? most->a : extent;
}

/* more >= 1 where rest + c*atom >= 1. */
static bool
term_says(Cx *cx, int64_t c, const AtomNode *atom, Dim rest, Dim *more)
{
    int64_t by;
    Dim most;
    if (c == -1 && atom->kind == ATOM_MIN && (rest == atom->a || rest == atom->b)) {
        return dim_try_add(cx, rest, rest == atom->a ? atom->b : atom->a, -1, more);
    }
    return c == 1 && atom->kind == ATOM_DIV && dim_is_int(cx, atom->b, &by) && by > 0 &&
           dim_try_add(cx, rest, dim_int(cx, 1), -1, &most) &&
           dim_try_mul(cx, most, atom->b, &most) && dim_try_add(cx, atom->a, most, 1, &most) &&
           dim_try_add(cx, most, dim_int(cx, 1), 1, more);
}

bool
dim_says(Cx *cx, Dim extent, Dim *more)
{
    const Poly *p = dim_poly(cx, extent);
    for (int k = 0; k < p->n; k++) {
        Term term = p->terms[k];
        const AtomNode *atom = dim_atom(cx, dim_term(cx, 1, term.mono));
        Dim rest;
        if (atom && !atom->name &&
            dim_try_add(cx, extent, dim_term(cx, term.c, term.mono), -1, &rest) &&
            term_says(cx, term.c, atom, rest, more)) {
            return true;
        }
    }
    return false;
}

static void add_extent(Cx *cx, Dim extent);

/* Where a product of factors that are not negative is at least 1, each factor is: those that all
 * terms share, and what is left without them. */
static void
add_factors(Cx *cx, Dim extent)
{
    const Poly *p = dim_poly(cx, extent);
    Mono shared = p->n ? p->terms[0].mono : MONO_ONE, left;
    int64_t content = p->n ? p->terms[0].c : 1;
    for (int k = 1; k < p->n; k++) {
        shared = mono_gcd(cx, shared, p->terms[k].mono);
        content = int_gcd(content, p->terms[k].c);
    }
    content = content < 0 ? -content : content;
    if ((shared == MONO_ONE && content == 1) || dim_range(cx, dim_term(cx, 1, shared)).lo < 0) {
        return;
    }
    const MonoNode *factors = mono_node(cx, shared);
    for (int k = 0; k < factors->degree; k++) {
        Dim factor = atom_node(cx, factors->atoms[k])->self;
        if (dim_range(cx, factor).lo >= 0 && factor != extent) {
            add_extent(cx, factor);
        }
    }
    Dim rest = dim_int(cx, 0);
    for (int k = 0; k < p->n; k++) {
        mono_div(cx, p->terms[k].mono, shared, &left);
        rest = dim_add(cx, rest, dim_term(cx, p->terms[k].c / content, left));
    }
    if (rest != extent) {
        add_extent(cx, rest);
    }
}

static void
add_extent(Cx *cx, Dim extent)
{
    Dims *dims = &cx->dims;
    extent = dim_nonempty(cx, extent);
    add_factors(cx, extent);
    const AtomNode *atom = dim_atom(cx, extent);
    Dim more, less;
    if (atom && atom->kind == ATOM_MIN) {
        add_extent(cx, atom->a);
        add_extent(cx, atom->b);
        return;
    }
    if (dim_says(cx, extent, &more)) {
        add_extent(cx, more);
    }
    if (dims->nexist == MOST_EXIST || dim_range(cx, extent).lo >= 1 ||
        !dim_try_add(cx, extent, dim_int(cx, 1), -1, &less)) {
        return;
    }
    for (int k = 0; k < dims->nexist; k++) {
        if (dims->exist[k] == less) {
            return;
        }
    }
    dims->exist[dims->nexist++] = less;
}

static void
add_name(void *arg, Dim name)
{
    Cx *cx = arg;
    const AtomNode *index = dim_atom(cx, name);
    if (index->kind == ATOM_INDEX) {
        add_extent(cx, index->a);
        dim_names(cx, index->a, add_name, cx);
    }
}

bool
dim_exist(Cx *cx, Dim d, Dim with)
{
    cx->dims.nexist = 0;
    dim_names(cx, d, add_name, cx);
    if (with != d) {
        dim_names(cx, with, add_name, cx);
    }
    for (const Assumption *one = cx->dims.assumed; one; one = one->outer) {
        if (one->symbol == DIM_NONE && cx->dims.nexist < MOST_EXIST) {
            cx->dims.exist[cx->dims.nexist++] = one->fact;
        }
    }
    return cx->dims.nexist > 0;
}

bool
dim_less_existing(Cx *cx, Dim d, int k, int *at, Dim *out)
{
    const Poly *p = dim_poly(cx, d), *one = dim_poly(cx, cx->dims.exist[k]);
    Mono left;
    for (; *at < p->n * one->n; ++*at) {
        Term from = p->terms[*at / one->n], by = one->terms[*at % one->n];
        if (by.mono != MONO_ONE && from.c / by.c >= 1 && mono_div(cx, from.mono, by.mono, &left) &&
            dim_range(cx, dim_term(cx, 1, left)).lo >= 0) {
            Dim times = dim_term(cx, from.c / by.c, left), part;
            ++*at;
            return dim_try_mul(cx, times, cx->dims.exist[k], &part) &&
                   dim_try_add(cx, d, part, -1, out);
        }
    }
    return false;
}
