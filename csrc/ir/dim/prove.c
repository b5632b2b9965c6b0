/* Proofs of inequalities between dims.
 *
 * How: a proof of d >= 0 first asks the interval of d.  If that does not decide, it takes the
 *      newest atom (which no other atom of d contains), writes d as A*atom + R, and replaces the
 *      atom by the end of its range that makes d smallest: an index by 0 or extent - 1, x % y by 0
 *      or y - 1, max and min by either operand; a bound of x // y is a bound of x.  The replacement
 *      of an atom consists of older ones, so this ends; `fuel` bounds the branches. */
#include "ir/cx.h"

/* ---- d >= 0 with an atom replaced ---- */

static bool prove(Cx *cx, Dim d);

/* Is a*by + rest >= 0? */
static bool
holds_with(Cx *cx, Dim a, Dim by, Dim rest)
{
    Dim d;
    return dim_try_mul(cx, a, by, &d) && dim_try_add(cx, d, rest, 1, &d) && prove(cx, d);
}

static bool
holds_at(Cx *cx, Dim a, int64_t by, Dim rest)
{
    return by != DIM_INF && by != -DIM_INF && holds_with(cx, a, dim_int(cx, by), rest);
}

static bool
minus(Cx *cx, Dim a, int64_t less, Dim *out)
{
    return dim_try_add(cx, a, dim_int(cx, less), -1, out);
}

/* The largest value: extent - 1 of an index, y - 1 of x % y. */
static bool
holds_at_top(Cx *cx, Dim a, const AtomNode *atom, Dim rest)
{
    Dim top;
    if (atom->kind == ATOM_INDEX) {
        return minus(cx, dim_nonempty(cx, atom->a), 1, &top) && holds_with(cx, a, top, rest);
    }
    if (atom->kind == ATOM_MOD) {
        /* by y first: x may be of many atoms, and a proof that fails spends the fuel */
        bool most = dim_positive(cx, atom->b, atom->a) && minus(cx, atom->b, 1, &top) &&
                    holds_with(cx, a, top, rest);
        return most || (prove(cx, atom->a) && holds_with(cx, a, atom->a, rest));
    }
    return false;
}

/* The least value of x % y, where the interval of y does not say that it is positive. */
static bool
holds_at_bottom(Cx *cx, Dim a, const AtomNode *atom, Dim rest)
{
    return atom->kind == ATOM_MOD && atom->range.lo < 0 && dim_positive(cx, atom->b, atom->a) &&
           holds_at(cx, a, 0, rest);
}

/* t = x // y with y > 0.  t + q >= 0 is x + q*y >= 0, and q - t >= 0 is (q + 1)*y - 1 - x >= 0. */
static bool
holds_shifted(Cx *cx, const AtomNode *t, Dim q, bool up)
{
    Dim edge;
    if (up) {
        return holds_with(cx, q, t->b, t->a);
    }
    return minus(cx, q, -1, &q) && dim_try_mul(cx, q, t->b, &edge) && minus(cx, edge, 1, &edge) &&
           dim_try_add(cx, edge, t->a, -1, &edge) && prove(cx, edge);
}

/* g*t is at least g*(x - y + 1)/y and at most g*x/y: is the sum with rest >= 0 even then?  Without
 * fractions: g/y where y divides g, or else rest*y.  32*((n + 29) // 32) - n + 2 needs this: 32
 * divides neither n nor n + 29, but their difference is a number. */
static bool
holds_as_fraction(Cx *cx, Dim g, const AtomNode *t, Dim rest, bool up)
{
    Dim x = t->a, whole, left;
    dim_divide_whole(cx, g, t->b, &whole, &left);
    if (dim_is(cx, left, 0)) {
        g = whole;
    } else if (!dim_try_mul(cx, rest, t->b, &rest)) {
        return false;
    }
    if (up) {
        return dim_try_add(cx, x, t->b, -1, &x) && minus(cx, x, -1, &x) &&
               holds_with(cx, g, x, rest);
    }
    return dim_try_add(cx, dim_int(cx, 0), x, -1, &x) && holds_with(cx, g, x, rest);
}

/* Proves a*t + rest >= 0 by dividing rest by g = |a|: the remaining sum must not be negative.  If
 * that fails, by bounds that are fractions.  If g is a number, also by the quotient rounded down,
 * which is equivalent but may be a new atom; so this is only the last attempt. */
static bool
holds_quotient(Cx *cx, Dim g, const AtomNode *t, Dim rest, bool up)
{
    Dim q, r, less;
    int64_t by;
    if (!dim_positive(cx, t->b, t->a)) {
        return false;
    }
    dim_divide_whole(cx, rest, g, &q, &r);
    bool whole = prove(cx, r) ||
                 (dim_try_add(cx, r, g, 1, &less) && prove(cx, less) && minus(cx, q, 1, &q));
    if (whole && holds_shifted(cx, t, q, up)) {
        return true;
    }
    if (!dim_is(cx, r, 0) && holds_as_fraction(cx, g, t, rest, up)) {
        return true;
    }
    return cx->dims.floors && dim_is_int(cx, g, &by) && by > 1 &&
           holds_shifted(cx, t, dim_div(cx, rest, g), up);
}

/* Proves a*(x // y) + rest >= 0, where x = by*index + others is at most its value for index =
 * extent - 1.  An extent that is a minimum is at most either operand. */
static bool
holds_at_extent(Cx *cx, Dim a, const AtomNode *t, Dim by, Dim others, Dim extent, Dim rest)
{
    const AtomNode *least = dim_atom(cx, extent);
    Dim top;
    if (least && least->kind == ATOM_MIN) {
        return holds_at_extent(cx, a, t, by, others, least->a, rest) ||
               holds_at_extent(cx, a, t, by, others, least->b, rest);
    }
    return minus(cx, extent, 1, &top) && dim_try_mul(cx, by, top, &top) &&
           dim_try_add(cx, top, others, 1, &top) && holds_with(cx, a, dim_div(cx, top, t->b), rest);
}

/* The largest value of t = x // y with y > 0 is that at the top of an index which x grows with.
 * The quotient may be a new atom: so only in the last attempt. */
static bool
holds_at_top_quotient(Cx *cx, Dim a, const AtomNode *t, Dim rest)
{
    const Poly *p = dim_poly(cx, t->a);
    Dim by, others;
    bool holds = false;
    if (!cx->dims.floors || !dim_positive(cx, t->b, t->a)) {
        return false;
    }
    for (int k = 0; k < p->n && !holds; k++) {
        const MonoNode *m = mono_node(cx, p->terms[k].mono);
        for (int i = 0; i < m->degree && !holds; i++) {
            const AtomNode *index = atom_node(cx, m->atoms[i]);
            if (index->kind == ATOM_INDEX) {
                dim_split(cx, t->a, index->self, &by, &others);
                holds = !dim_uses(cx, by, index->self) && !dim_uses(cx, t->b, index->self) &&
                        prove(cx, by) &&
                        holds_at_extent(cx, a, t, by, others, dim_nonempty(cx, index->a), rest);
            }
        }
    }
    return holds;
}

static bool
prove_without(Cx *cx, Dim d, Atom id)
{
    Dim a, rest, less;
    const AtomNode *atom = atom_facts(cx, id);
    dim_split(cx, d, atom->self, &a, &rest);
    if (!dim_try_add(cx, dim_int(cx, 0), a, -1, &less)) {
        return false;
    }
    bool up = prove(cx, a), down = !up && prove(cx, less);
    bool choice = (atom->kind == ATOM_MAX && up) || (atom->kind == ATOM_MIN && down);
    if (atom->kind == ATOM_MAX || atom->kind == ATOM_MIN) {
        bool first = holds_with(cx, a, atom->a, rest);
        return first == choice ? first : holds_with(cx, a, atom->b, rest);
    }
    if ((up && (holds_at(cx, a, atom->range.lo, rest) || holds_at_bottom(cx, a, atom, rest))) ||
        (down && (holds_at_top(cx, a, atom, rest) || holds_at(cx, a, atom->range.hi, rest)))) {
        return true;
    }
    if (atom->kind == ATOM_DIV) {
        return (down && holds_at_top_quotient(cx, a, atom, rest)) ||
               ((up || down) && holds_quotient(cx, up ? a : less, atom, rest, up));
    }
    /* The sign of A is not known: d is linear in the atom, so smallest at one of the two ends. */
    return !up && !down && !dim_uses(cx, a, atom->self) && holds_at(cx, a, atom->range.lo, rest) &&
           (holds_at_top(cx, a, atom, rest) || holds_at(cx, a, atom->range.hi, rest));
}

/* ---- d >= 0: which atom is replaced ---- */

/* The atom of d that was made last of those before `before`; UINT32_MAX: none. */
static Atom
last_atom(const Cx *cx, Dim d, Atom before)
{
    const Poly *p = dim_poly(cx, d);
    Atom last = UINT32_MAX;
    for (int k = 0; k < p->n; k++) {
        const MonoNode *m = mono_node(cx, p->terms[k].mono);
        for (int i = 0; i < m->degree; i++) {
            Atom atom = m->atoms[i];
            last = atom < before && (last == UINT32_MAX || atom > last) ? atom : last;
        }
    }
    return last;
}

/* d without the factor that all its terms share, where that is positive: C*(2*n - W) is not
 * negative exactly where 2*n - W is not. */
static Dim
without_common_factor(Cx *cx, Dim d)
{
    const Poly *p = dim_poly(cx, d);
    Mono shared = p->n ? p->terms[0].mono : MONO_ONE, left;
    for (int k = 1; k < p->n; k++) {
        shared = mono_gcd(cx, shared, p->terms[k].mono);
    }
    if (shared == MONO_ONE || dim_range(cx, dim_term(cx, 1, shared)).lo < 1) {
        return d;
    }
    Dim rest = dim_int(cx, 0);
    for (int k = 0; k < p->n; k++) {
        mono_div(cx, p->terms[k].mono, shared, &left);
        rest = dim_add(cx, rest, dim_term(cx, p->terms[k].c, left));
    }
    return rest;
}

enum { MOST_QUOTIENTS = 4 };

/* A multiple of d without the quotients that leave nothing over: of n, a multiple of 4, the forms
 * n*(n // 2) and 2*n*(n // 4) are one number, and 4 times each is 2*n*n. */
static Dim
without_exact_quotients(Cx *cx, Dim d)
{
    for (int times = 0; times < MOST_QUOTIENTS; times++) {
        const Poly *p = dim_poly(cx, d);
        Dim by = DIM_NONE, multiple;
        for (int k = 0; k < p->n && by == DIM_NONE; k++) {
            const MonoNode *m = mono_node(cx, p->terms[k].mono);
            for (int i = 0; i < m->degree && by == DIM_NONE; i++) {
                const AtomNode *t = atom_node(cx, m->atoms[i]);
                int64_t divisor;
                if (t->kind == ATOM_DIV && dim_is_int(cx, t->b, &divisor) &&
                    dim_try_mul(cx, t->self, t->b, &multiple) && multiple == t->a) {
                    by = t->b;
                }
            }
        }
        if (by == DIM_NONE || !dim_try_mul(cx, d, by, &multiple)) {
            return d;
        }
        d = multiple;
    }
    return d;
}

enum { MOST_NESTED = 4 };

/* Proves d >= 0 from the fact that certain indices exist, so that their extents are not 0. */
static bool
prove_by_existing(Cx *cx, Dim d)
{
    bool holds = false;
    if (cx->dims.nested == MOST_NESTED) {
        return false;
    }
    cx->dims.nested++;
    for (int k = 0; k < cx->dims.nexist && !holds; k++) {
        Dim less;
        for (int at = 0; !holds && cx->dims.fuel > 0 && dim_less_existing(cx, d, k, &at, &less);) {
            holds = prove(cx, less);
        }
    }
    cx->dims.nested--;
    return holds;
}

static bool
prove_by_atoms(Cx *cx, Dim d)
{
    Atom last = last_atom(cx, d, UINT32_MAX);
    if (prove_without(cx, d, last)) {
        return true;
    }
    while (cx->dims.orders && (last = last_atom(cx, d, last)) != UINT32_MAX && cx->dims.fuel > 0) {
        AtomKind kind = atom_node(cx, last)->kind;
        if ((kind == ATOM_DIV || kind == ATOM_INDEX) && prove_without(cx, d, last)) {
            return true;
        }
    }
    return prove_by_existing(cx, d);
}

/* Minima have two operands, and many ways lead to the same sum.  It fails once in an attempt. */
static bool
prove(Cx *cx, Dim d)
{
    d = without_common_factor(cx, without_exact_quotients(cx, d));
    Range r = dim_range(cx, d);
    if (cx->dims.assumed && r.lo < 0 && r.hi >= 0) {
        /* What was made before the assumption has a longer form than what is made under it. */
        d = without_common_factor(cx, dim_simplified(cx, d));
        r = dim_range(cx, d);
    }
    if (r.lo >= 0 || r.hi < 0) {
        return r.lo >= 0;
    }
    Poly *p = cx->dims.poly[d];
    if (p->failed == cx->dims.attempt && p->nested <= cx->dims.nested) {
        return false;
    }
    if (cx->dims.fuel <= 0) {
        cx->dims.cuts++;
        return false;
    }
    cx->dims.fuel--;
    bool holds = prove_by_atoms(cx, d);
    if (!holds) {
        p = cx->dims.poly[d];
        p->failed = cx->dims.attempt;
        p->nested = cx->dims.nested;
    }
    return holds;
}

enum { FUEL = 80, MORE_FUEL = 1200 };

static bool
attempt(Cx *cx, Dim d, bool orders, bool floors)
{
    cx->dims.fuel = cx->dims.nexist ? MORE_FUEL : FUEL;
    cx->dims.attempt++;
    cx->dims.orders = orders;
    cx->dims.floors = floors;
    return prove(cx, d);
}

/* d >= 0, where the indices of d and of `with` exist? */
static bool
nonneg(Cx *cx, Dim d, Dim with)
{
    Range r = dim_range(cx, d);
    if (r.lo >= 0 || r.hi < 0) {
        return r.lo >= 0;
    }
    if (cx->dims.proving) {
        return prove(cx, d);
    }
    if (dim_refuted(cx, d, with)) {
        return false;
    }
    dim_begin(cx);
    cx->dims.proving = true;
    /* The atom made first may be the one to replace first: a // 2 in a // 2 - 2*(a // 4), and an
     * index of the extent n - a // 3 in 3*index + a % 3. */
    bool yes = attempt(cx, d, false, false) || attempt(cx, d, true, false) ||
               attempt(cx, d, true, true) ||
               (dim_exist(cx, d, with) && attempt(cx, d, false, false));
    cx->dims.proving = cx->dims.orders = cx->dims.floors = false;
    cx->dims.nexist = 0;
    return yes;
}

bool
dim_nonneg(Cx *cx, Dim d)
{
    return nonneg(cx, d, d);
}

/* ---- d >= 1: what the extents of loops say ---- */

typedef struct {
    Cx *cx;
    Atom atom;
    bool found;
} Wanted;

static bool
has_factor(const Cx *cx, Mono mono, Atom atom)
{
    const MonoNode *m = mono_node(cx, mono);
    bool has = false;
    for (int i = 0; i < m->degree; i++) {
        has |= m->atoms[i] == atom;
    }
    return has;
}

/* An extent is at least 1: an atom is not 0 if it is a factor of all its terms, or if there would
 * be no iteration with 0 in its place: a is not 0 in an index of the extent a*b - (a*b) // 2. */
static void
look_at_extent(void *arg, Dim name)
{
    Wanted *want = arg;
    Cx *cx = want->cx;
    const AtomNode *index = dim_atom(cx, name);
    if (index->kind != ATOM_INDEX || want->found) {
        return;
    }
    const Poly *extent = dim_poly(cx, index->a);
    bool all = extent->n > 0;
    for (int k = 0; k < extent->n; k++) {
        all = all && has_factor(cx, extent->terms[k].mono, want->atom);
    }
    Dim self = atom_node(cx, want->atom)->self;
    want->found = all || (dim_uses(cx, index->a, self) &&
                          dim_range(cx, dim_replace(cx, index->a, self, dim_int(cx, 0))).hi <= 0);
}

static bool
mono_positive(Cx *cx, Mono mono, Dim with)
{
    const MonoNode *m = mono_node(cx, mono);
    bool all = true;
    for (int i = 0; i < m->degree && all; i++) {
        Range r = atom_facts(cx, m->atoms[i])->range;
        Wanted want = {cx, m->atoms[i], r.lo > 0};
        if (!want.found) {
            dim_names(cx, with, look_at_extent, &want);
        }
        all = want.found && r.lo >= 0;
    }
    return all;
}

/* An extent of at least 1 that is no more than a multiple of d: d*k + r >= 1, k >= 0 and r <= 0 say
 * that d is positive. */
static bool
is_multiple(Cx *cx, Dim extent, Dim d)
{
    const AtomNode *atom = dim_atom(cx, extent);
    Dim k, r, less;
    if (atom && atom->kind == ATOM_MIN) {
        return is_multiple(cx, atom->a, d) || is_multiple(cx, atom->b, d);
    }
    extent = dim_nonempty(cx, extent);
    if (dim_says(cx, extent, &r) && is_multiple(cx, r, d)) {
        return true;
    }
    dim_divide_whole(cx, extent, d, &k, &r);
    return !dim_is(cx, k, 0) && dim_nonneg(cx, k) &&
           dim_try_add(cx, dim_int(cx, 0), r, -1, &less) && dim_nonneg(cx, less);
}

typedef struct {
    Cx *cx;
    Dim d;
    bool found;
} Multiple;

static void
look_for_multiple(void *arg, Dim name)
{
    Multiple *want = arg;
    const AtomNode *index = dim_atom(want->cx, name);
    want->found = want->found ||
                  (index->kind == ATOM_INDEX && is_multiple(want->cx, index->a, want->d));
}

bool
dim_positive(Cx *cx, Dim d, Dim with)
{
    Dim less;
    if (dim_range(cx, d).lo > 0 || (minus(cx, d, 1, &less) && nonneg(cx, less, with))) {
        return true;
    }
    if (dim_poly(cx, d)->n > 1 || dim_range(cx, d).lo < 0) {
        Multiple want = {cx, d, false};
        dim_names(cx, with, look_for_multiple, &want);
        if (want.found) {
            return true;
        }
    }
    bool some = false, none_negative = true;
    const Poly *p = dim_poly(cx, d);
    for (int k = 0; k < p->n && none_negative; k++) {
        none_negative = p->terms[k].c > 0 &&
                        dim_range(cx, dim_term(cx, 1, p->terms[k].mono)).lo >= 0;
        some = some || mono_positive(cx, p->terms[k].mono, with);
    }
    return some && none_negative;
}

/* ---- a <= b and a < b ---- */

bool
dim_le(Cx *cx, Dim a, Dim b)
{
    Dim d;
    return a == b || dim_is(cx, b, INT64_MAX) ||
           (dim_try_add(cx, b, a, -1, &d) && dim_nonneg(cx, d));
}

bool
dim_lt(Cx *cx, Dim a, Dim b)
{
    Dim d;
    return dim_try_add(cx, b, a, -1, &d) && minus(cx, d, 1, &d) && dim_nonneg(cx, d);
}

/* Is d >= 0 if extent >= 1?  If step * d >= extent - step, then step * d > -step.  The steps are
 * the factors of the extent's terms. */
static bool
holds_in(Cx *cx, Dim d, Dim extent)
{
    extent = dim_nonempty(cx, extent);
    const AtomNode *atom = dim_atom(cx, extent);
    if (atom && atom->kind == ATOM_MIN) {
        return holds_in(cx, d, atom->a) || holds_in(cx, d, atom->b);
    }
    bool holds = false;
    for (int k = 0; k < dim_poly(cx, extent)->n && !holds; k++) {
        Term term = dim_poly(cx, extent)->terms[k];
        Dim step = dim_int(cx, int_gcd(term.c, 0)), all;
        holds = term.mono != MONO_ONE && dim_try_mul(cx, d, step, &all) &&
                dim_try_add(cx, all, step, 1, &all) && dim_try_add(cx, all, extent, -1, &all) &&
                dim_nonneg(cx, all);
    }
    return holds;
}

static bool
is_less(Cx *cx, Dim a, Dim b, Dim extent)
{
    return dim_lt(cx, a, b) || dim_lt_in(cx, a, b, extent);
}

/* A dim is less than a maximum if it is less than either operand: each gets its own proof. */
bool
dim_lt_in(Cx *cx, Dim a, Dim b, Dim extent)
{
    const AtomNode *most = dim_atom(cx, b);
    Dim d;
    if (most && most->kind == ATOM_MAX &&
        (is_less(cx, a, most->a, extent) || is_less(cx, a, most->b, extent))) {
        return true;
    }
    return dim_try_add(cx, b, a, -1, &d) && minus(cx, d, 1, &d) &&
           (holds_in(cx, d, extent) || nonneg(cx, d, dim_index(cx, "i", extent)));
}

/* ---- what a stride is where its tensor has elements ---- */

/* x, where the atom is max(1, x) for an x that is not negative. */
static bool
is_size_or_one(Cx *cx, const AtomNode *atom, Dim *x)
{
    if (atom->kind != ATOM_MAX || !(dim_is(cx, atom->a, 1) || dim_is(cx, atom->b, 1))) {
        return false;
    }
    *x = dim_is(cx, atom->a, 1) ? atom->b : atom->a;
    return dim_le(cx, dim_int(cx, 0), *x);
}

Dim
dim_of_nonempty(Cx *cx, Dim d)
{
    Dim x, by, rest;
    const Poly *p = dim_poly(cx, d);
    const MonoNode *m = p->n ? mono_node(cx, p->terms[0].mono) : NULL;
    for (int k = 0; m && k < m->degree; k++) {
        const AtomNode *atom = atom_node(cx, m->atoms[k]);
        if (is_size_or_one(cx, atom, &x)) {
            dim_split(cx, d, atom->self, &by, &rest);
            if (dim_is(cx, rest, 0) && dim_try_mul(cx, by, x, &by)) {
                return dim_of_nonempty(cx, by);
            }
        }
    }
    return d;
}
