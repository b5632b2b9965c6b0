/* Quotients, remainders, max and min of dims, and the sums they cancel in.
 *
 * Rules, for d > 0 (d = 0 gives 0, so d > 0 must be proved for most; an index that occurs proves
 * that its extent is not 0):
 *   D1  (q*d + r) // d  is  q + r // d             (q*d + r) % d  is  r % d
 *   D2  r // d  is  0                              r % d  is  r                    0 <= r < d
 *   D3  (g*x + s) // (g*y)  is  x // y             ..  %  is  g*(x % y) + s        0 <= s < g
 *   D4  (x // a + s) // b  is  (x + s*a) // (a*b)                                  a, b > 0
 *   D5  (x % (d*k)) // d  is  (x // d) % k         (x % (d*k)) % d  is  x % d
 *   D6  terms that d divides by what is declared leave as a quotient of their own
 *   D7  (x % (g*m)) // (g*n)  is  ((x // g) % m) // n, for a product g of names    g, m, n > 0
 *   C1  x // d * d + x % d  is  x, also times a common factor
 *   C2  x % d + (x // d) % k * d  is  x % (d*k)
 *   C3  x // (d*k) * d  is  x // k  where d*k divides x
 *   C4  x - x // d * d  is  x % d
 *   C5  x % (d*k) - (x // d) % k * d  is  x % d
 *   M1  max and min of dims in a proved order are one of them
 * Both operations share `reduce`, so that quotient and remainder of one pair keep matching. */
#include "ir/cx.h"

/* ---- results remembered: the rules are asked the same again and again ---- */

typedef struct {
    int op;
    Dim a, b;
    unsigned epoch;
    bool busy;                  /* under way: the rules have come back to their own question */
    Dim result;                 /* DIM_NONE: not known */
} Memo;

static bool
same_memo(const void *entry, const void *key)
{
    const Memo *x = entry, *y = key;
    return x->op == y->op && x->a == y->a && x->b == y->b && x->epoch == y->epoch;
}

enum { MAX_DEPTH = 8 };         /* of rules within rules; below it dims stay as they are */

static bool
too_deep(Cx *cx)
{
    bool deep = cx->dims.depth > MAX_DEPTH || cx->dims.work <= 0;
    cx->dims.cuts += deep;
    return deep;
}

static Dim
remember(Cx *cx, int op, Dim a, Dim b, Dim (*rule)(Cx *cx, int op, Dim a, Dim b))
{
    Dims *dims = &cx->dims;
    Memo key = {.op = op, .a = a, .b = b, .epoch = dims->epoch};
    uint64_t hash = hash_mix(hash_mix((uint64_t)op, dims->epoch), (uint64_t)a << 32 | b);
    Memo *memo = table_find(&dims->results, hash, same_memo, &key);
    if (!memo) {
        memo = cx_copy(cx, &key, sizeof key);
        table_add(cx, &dims->results, hash, memo);
    }
    if (memo->result != DIM_NONE) {
        return memo->result;
    }
    dim_begin(cx);
    dims->work--;
    int more = memo->busy ? MAX_DEPTH + 1 : 1;
    unsigned cuts = dims->cuts;
    bool was = memo->busy;
    memo->busy = true;
    dims->depth += more;
    Dim result = rule(cx, op, a, b);
    dims->depth -= more;
    memo->busy = was;
    bool whole = dims->cuts == cuts || (dims->depth == 0 && !dims->proving);
    memo->result = whole && !was && !dims->nexist ? result : memo->result;
    return result;
}

/* ---- quotient and remainder ---- */

/* a == q*d + r, with the facts found about r. */
typedef struct {
    Dim d, q, r;
    bool done;
} Reduced;

static bool
in_range(Cx *cx, Dim r, Dim d)
{
    return dim_nonneg(cx, r) && dim_lt(cx, r, d);
}

/* Which coefficients divide_terms rounds down if they are no multiples.  It rounds coefficients of
 * names only if that settles a division by a number: quotients by other numbers would not match the
 * rest. */
typedef enum { ROUND_NONE, ROUND_NUMBERS, ROUND_ALL } Round;

/* D1: *q and *r with a == q*d + r, over the terms that the first term of d divides. */
static void
divide_terms(Cx *cx, Dim d, Round down, Dim *q, Dim *r)
{
    Term lead = dim_poly(cx, d)->terms[0];
    for (int round = 0, again = 1; again && round < 32; round++) {
        again = 0;
        const Poly *p = dim_poly(cx, *r);
        for (int k = 0; k < p->n && !again; k++) {
            Mono left;
            int64_t c = int_div(p->terms[k].c, lead.c);
            bool rounds = down == ROUND_ALL ||
                          (down == ROUND_NUMBERS && p->terms[k].mono == MONO_ONE);
            if (c != 0 && (rounds || int_mod(p->terms[k].c, lead.c) == 0) &&
                mono_div(cx, p->terms[k].mono, lead.mono, &left)) {
                Dim part = dim_term(cx, c, left);
                *q = dim_add(cx, *q, part);
                *r = dim_sub(cx, *r, dim_mul(cx, part, d));
                again = 1;
            }
        }
    }
}

/* a == q*d + r, by the terms of a that the first term of d divides. */
static void
divide_by_terms(Cx *cx, Dim a, Dim d, Dim *q, Dim *r)
{
    *q = dim_int(cx, 0);
    *r = a;
    divide_terms(cx, d, ROUND_NONE, q, r);
}

/* The quotient of a product that d divides.  Of a factor that it divides alone the others stay
 * outside, so that an index keeps its stride: (n*i) // 2 is (n // 2)*i for an even n. */
static Dim
quotient_known(Cx *cx, Mono product, int64_t d)
{
    const MonoNode *m = mono_node(cx, product);
    for (int i = 0; i < m->degree && m->degree > 1; i++) {
        Dim factor = atom_node(cx, m->atoms[i])->self;
        Mono left;
        if (dim_divides(cx, d, factor) &&
            mono_div(cx, product, dim_poly(cx, factor)->terms[0].mono, &left)) {
            Dim part = dim_opaque(cx, ATOM_DIV, factor, dim_int(cx, d));
            return dim_mul(cx, dim_term(cx, 1, left), part);
        }
    }
    return dim_opaque(cx, ATOM_DIV, dim_term(cx, 1, product), dim_int(cx, d));
}

/* D6, for an integer d: c*m, where a declared divisor divides m. */
static void
divide_known(Cx *cx, int64_t d, Dim *q, Dim *r)
{
    const Poly *p = dim_poly(cx, *r);
    for (int k = 0; k < p->n; k++) {
        Dim m = dim_term(cx, 1, p->terms[k].mono);
        int64_t g = int_gcd(p->terms[k].c, d);
        if (p->terms[k].mono != MONO_ONE && dim_divides(cx, d / g, m)) {
            Dim exact = d == g ? m : quotient_known(cx, p->terms[k].mono, d / g);
            *q = dim_add(cx, *q, dim_mul(cx, dim_int(cx, p->terms[k].c / g), exact));
            *r = dim_sub(cx, *r, dim_term(cx, p->terms[k].c, p->terms[k].mono));
        }
    }
}

void
dim_divide_whole(Cx *cx, Dim a, Dim d, Dim *q, Dim *r)
{
    int64_t by;
    divide_by_terms(cx, a, d, q, r);
    if (dim_is_int(cx, d, &by) && by > 0) {
        divide_known(cx, by, q, r);
        const Poly *p = dim_poly(cx, *r);
        Term last = p->n ? p->terms[p->n - 1] : (Term){0, MONO_ONE};
        if (last.mono == MONO_ONE) {
            *q = dim_add(cx, *q, dim_int(cx, int_div(last.c, by)));
            *r = dim_sub(cx, *r, dim_int(cx, last.c - int_mod(last.c, by)));
        }
    }
}

/* D2; for an integer d also if the range of r lies between other multiples of d. */
static bool
settle(Cx *cx, Reduced *x)
{
    int64_t d;
    if (dim_is(cx, x->r, 0) || in_range(cx, x->r, x->d)) {
        return x->done = true;
    }
    Range r = dim_range(cx, x->r);
    if (dim_is_int(cx, x->d, &d) && r.lo != -DIM_INF && r.hi != DIM_INF &&
        int_div(r.lo, d) == int_div(r.hi, d)) {
        Dim k = dim_int(cx, int_div(r.lo, d));
        x->q = dim_add(cx, x->q, k);
        x->r = dim_sub(cx, x->r, dim_mul(cx, k, x->d));
        x->done = true;
    }
    return x->done;
}

static Reduced
reduce(Cx *cx, Dim a, Dim d)
{
    Reduced x = {.d = d, .q = dim_int(cx, 0), .r = a};
    int64_t i;
    if (settle(cx, &x)) {
        return x;
    }
    divide_terms(cx, d, ROUND_NONE, &x.q, &x.r);
    if (settle(cx, &x)) {
        return x;
    }
    if (dim_is_int(cx, d, &i)) {
        divide_known(cx, i, &x.q, &x.r);
    }
    if (dim_poly(cx, d)->n == 1) {
        Reduced all = x;
        divide_terms(cx, d, ROUND_ALL, &all.q, &all.r);
        if (settle(cx, &all) || !dim_is_int(cx, d, NULL)) {
            return all;
        }
        divide_terms(cx, d, ROUND_NUMBERS, &x.q, &x.r);
    }
    settle(cx, &x);
    return x;
}

/* ---- D3 ---- */

/* The common factor of all terms of d, as a term. */
static Term
content(Cx *cx, Dim d)
{
    const Poly *p = dim_poly(cx, d);
    Term g = {int_gcd(p->terms[0].c, 0), p->terms[0].mono};
    for (int k = 1; k < p->n; k++) {
        g.c = int_gcd(g.c, p->terms[k].c);
        g.mono = mono_gcd(cx, g.mono, p->terms[k].mono);
    }
    return g;
}

/* r == g*x + s, s the terms that g does not divide; of a plain number the remainder. */
static void
take_factor(Cx *cx, Dim r, Term g, Dim *x, Dim *s)
{
    const Poly *p = dim_poly(cx, r);
    *x = *s = dim_int(cx, 0);
    for (int k = 0; k < p->n; k++) {
        Term t = p->terms[k];
        Mono left;
        bool number = t.mono == MONO_ONE && g.mono == MONO_ONE;
        if (mono_div(cx, t.mono, g.mono, &left) && (number || t.c % g.c == 0)) {
            *x = dim_add(cx, *x, dim_term(cx, int_div(t.c, g.c), left));
            t.c = int_mod(t.c, g.c);
        }
        *s = dim_add(cx, *s, dim_term(cx, t.c, t.mono));
    }
}

/* Finds g, x, y, s of rule D3 where g is a sum, the factor of a name in r: i*(N + 1) + j divided by
 * M*N + M is i // M. */
static bool
find_sum_factor(Cx *cx, const Reduced *in, Dim *g, Dim *x, Dim *y, Dim *s)
{
    const Poly *p = dim_poly(cx, in->r);
    if (dim_poly(cx, in->d)->n < 2) {
        return false;
    }
    for (int k = 0; k < p->n; k++) {
        const MonoNode *m = mono_node(cx, p->terms[k].mono);
        for (int i = 0; i < m->degree; i++) {
            Dim left;
            *x = atom_node(cx, m->atoms[i])->self;
            dim_split(cx, in->r, *x, g, s);
            if (dim_poly(cx, *g)->n < 2 || *g == in->d || !in_range(cx, *s, *g)) {
                continue;
            }
            divide_by_terms(cx, in->d, *g, y, &left);
            if (dim_is(cx, left, 0)) {
                return true;
            }
        }
    }
    return false;
}

/* Finds g, x, y, s of rule D3 for r and d. */
static bool
find_factor(Cx *cx, const Reduced *in, Dim *g, Dim *x, Dim *y, Dim *s)
{
    const Poly *p = dim_poly(cx, in->r);
    Term all = content(cx, in->d);
    for (int k = 0; k < p->n; k++) {
        Term t = {int_gcd(all.c, p->terms[k].c), mono_gcd(cx, all.mono, p->terms[k].mono)};
        if (p->terms[k].mono == MONO_ONE || (t.c == 1 && t.mono == MONO_ONE)) {
            continue;
        }
        Dim none;
        *g = dim_term(cx, t.c, t.mono);
        take_factor(cx, in->r, t, x, s);
        if (dim_is(cx, *x, 0) || (!dim_is(cx, *s, 0) && !in_range(cx, *s, *g))) {
            continue;
        }
        take_factor(cx, in->d, t, y, &none);
        return true; /* d > 0, so neither g nor y is 0 */
    }
    return find_sum_factor(cx, in, g, x, y, s);
}

/* ---- D4, D5, D7: the numerator is an atom ---- */

static bool
divided_by(Cx *cx, Dim a, Dim d, Dim with, Dim *k)
{
    Dim left;
    divide_by_terms(cx, a, d, k, &left);
    return dim_is(cx, left, 0) && dim_positive(cx, *k, with);
}

/* The only quotient among the terms whose divisor is known to be positive; NULL: there is none.
 * *rest: the other terms. */
static const AtomNode *
quotient_term(Cx *cx, Dim r, Dim with, Dim *rest)
{
    const Poly *p = dim_poly(cx, r);
    for (int k = 0; k < p->n; k++) {
        Dim term = dim_term(cx, 1, p->terms[k].mono);
        const AtomNode *atom = p->terms[k].c == 1 ? dim_atom(cx, term) : NULL;
        if (atom && atom->kind == ATOM_DIV && dim_positive(cx, atom->b, with)) {
            *rest = dim_sub(cx, r, term);
            return atom;
        }
    }
    return NULL;
}

/* D7: *m and *n where a remainder has the divisor g*m, and d is g*n; g is the largest such term. */
static bool
common_divisor(Cx *cx, const AtomNode *mod, Dim d, Dim with, Dim *g, Dim *m, Dim *n)
{
    Term by = content(cx, mod->b), of = content(cx, d);
    Term both = {int_gcd(by.c, of.c), mono_gcd(cx, by.mono, of.mono)};
    Dim none;
    if (both.mono == MONO_ONE) {
        return false;
    }
    *g = dim_term(cx, both.c, both.mono);
    divide_by_terms(cx, mod->b, *g, m, &none);
    divide_by_terms(cx, d, *g, n, &none);
    return dim_positive(cx, *g, with) && dim_positive(cx, *m, with);
}

static Dim
quotient(Cx *cx, Dim r, Dim d, Dim with)
{
    Dim g, k, m, n, rest;
    const AtomNode *atom = quotient_term(cx, r, with, &rest);
    if (atom) {
        Dim x = dim_add(cx, atom->a, dim_mul(cx, rest, atom->b));
        return dim_div(cx, x, dim_mul(cx, atom->b, d));
    }
    atom = dim_atom(cx, r);
    if (atom && atom->kind == ATOM_MOD && divided_by(cx, atom->b, d, with, &k)) {
        return dim_mod(cx, dim_div(cx, atom->a, d), k);
    }
    if (atom && atom->kind == ATOM_MOD && common_divisor(cx, atom, d, with, &g, &m, &n)) {
        return dim_div(cx, dim_mod(cx, dim_div(cx, atom->a, g), m), n);
    }
    return dim_opaque(cx, ATOM_DIV, r, d);
}

static Dim
remainder_of(Cx *cx, Dim r, Dim d, Dim with)
{
    const AtomNode *atom = dim_atom(cx, r);
    Dim k;
    if (atom && atom->kind == ATOM_MOD && divided_by(cx, atom->b, d, with, &k)) {
        return dim_mod(cx, atom->a, d);
    }
    return dim_opaque(cx, ATOM_MOD, r, d);
}

static Dim
divide(Cx *cx, int op, Dim a, Dim d)
{
    int64_t i;
    Dim zero = dim_int(cx, 0), g, x, y, s;
    bool number = dim_is_int(cx, d, &i);
    if (dim_is(cx, a, 0) || (number && i == 0)) {
        return zero;
    }
    if (number && i < 0 && i != INT64_MIN) {
        Dim up = dim_int(cx, -i), less = dim_sub(cx, zero, a);
        return op == '/' ? dim_div(cx, less, up) : dim_sub(cx, zero, dim_mod(cx, less, up));
    }
    if (too_deep(cx) || (!dim_positive(cx, d, a) && !in_range(cx, a, d))) {
        return dim_opaque(cx, op == '/' ? ATOM_DIV : ATOM_MOD, a, d);
    }
    Reduced in = reduce(cx, a, d);
    if (in.done) {
        return op == '/' ? in.q : in.r;
    }
    if (find_factor(cx, &in, &g, &x, &y, &s)) {
        return op == '/' ? dim_add(cx, in.q, dim_div(cx, x, y))
                         : dim_add(cx, dim_mul(cx, g, dim_mod(cx, x, y)), s);
    }
    return op == '/' ? dim_add(cx, in.q, quotient(cx, in.r, d, a)) : remainder_of(cx, in.r, d, a);
}

Dim
dim_div(Cx *cx, Dim a, Dim b)
{
    return remember(cx, '/', a, b, divide);
}

Dim
dim_mod(Cx *cx, Dim a, Dim b)
{
    return remember(cx, '%', a, b, divide);
}

/* ---- sums that cancel ---- */

/* Has d every term of part, at least as far from zero on the same side? */
static bool
contains(const Cx *cx, Dim d, Dim part)
{
    const Poly *p = dim_poly(cx, d), *q = dim_poly(cx, part);
    for (int k = 0; k < q->n; k++) {
        int i = 0;
        while (i < p->n && p->terms[i].mono != q->terms[k].mono) {
            i++;
        }
        int64_t c = q->terms[k].c;
        if (i == p->n || (c > 0 ? p->terms[i].c < c : p->terms[i].c > c)) {
            return false;
        }
    }
    return q->n > 0;
}

/* The product term by term: to be looked for among the terms of a sum. */
static Dim
raw_mul(Cx *cx, Dim a, Dim b)
{
    cx->dims.raw++;
    Dim d = dim_mul(cx, a, b);
    cx->dims.raw--;
    return d;
}

/* C2 and C5 for the term rest * mod of sum, which has the atom high as well. */
static bool
cancel_mods(Cx *cx, Dim sum, Dim term, Dim rest, const AtomNode *mod, const AtomNode *high,
            Dim *out)
{
    Dim zero = dim_int(cx, 0), part = zero, by = mod->b, d;
    if (high->a == dim_div(cx, mod->a, mod->b)) {
        part = raw_mul(cx, raw_mul(cx, rest, mod->b), high->self);
        by = dim_mul(cx, mod->b, high->b);
    } else if (divided_by(cx, mod->b, high->b, sum, &d) && high->a == dim_div(cx, mod->a, d)) {
        part = dim_sub(cx, zero, raw_mul(cx, raw_mul(cx, rest, d), high->self));
        by = d;
    }
    if (by == mod->b || !contains(cx, sum, part)) {
        return false;
    }
    Dim whole = dim_mul(cx, rest, dim_mod(cx, mod->a, by));
    *out = dim_add(cx, dim_sub(cx, dim_sub(cx, sum, term), part), whole);
    return true;
}

/* C1, C2 and C5 for the term rest * x % d of sum. */
static bool
cancel_mod(Cx *cx, Dim sum, Dim term, Dim rest, const AtomNode *mod, Dim *out)
{
    Dim q = dim_div(cx, mod->a, mod->b), part = raw_mul(cx, raw_mul(cx, rest, mod->b), q);
    if (!contains(cx, sum, part)) { /* 32*(n // 2) is 16*n there, for an even n */
        part = raw_mul(cx, dim_mul(cx, rest, mod->b), q);
    }
    if (contains(cx, sum, part)) {
        /* Without the term first: else the difference from the part would cancel once more. */
        *out = dim_add(cx, dim_sub(cx, dim_sub(cx, sum, term), part), dim_mul(cx, rest, mod->a));
        return true;
    }
    const Poly *p = dim_poly(cx, sum);
    for (int k = 0; k < p->n; k++) {
        const MonoNode *m = mono_node(cx, p->terms[k].mono);
        for (int i = 0; i < m->degree; i++) {
            const AtomNode *high = atom_node(cx, m->atoms[i]);
            if (high != mod && high->kind == ATOM_MOD && dim_positive(cx, high->b, sum) &&
                cancel_mods(cx, sum, term, rest, mod, high, out)) {
                return true;
            }
        }
    }
    return false;
}

/* C3 where a part of the divisor is left. */
static bool
cancel_part(Cx *cx, Dim sum, Dim term, Dim rest, const AtomNode *div, Dim *out)
{
    int64_t by = 1;
    Term factor = dim_poly(cx, rest)->terms[0];
    int64_t common = dim_is_int(cx, div->b, &by) ? int_gcd(factor.c, by) : 1;
    if (common == 1 || !dim_divides(cx, by, div->a)) {
        return false;
    }
    Dim quotient = dim_div(cx, div->a, dim_int(cx, by / common));
    Dim part = dim_mul(cx, dim_term(cx, factor.c / common, factor.mono), quotient);
    *out = dim_add(cx, dim_sub(cx, sum, term), part);
    return true;
}

/* C3 and C4 for the term rest * x // d of sum. */
static bool
cancel_div(Cx *cx, Dim sum, Dim term, Dim rest, const AtomNode *div, Dim *out)
{
    Dim k, left;
    cx->dims.raw++;
    divide_by_terms(cx, rest, div->b, &k, &left);
    cx->dims.raw--;
    if (!dim_is(cx, left, 0)) {
        return cancel_part(cx, sum, term, rest, div, out);
    }
    Dim part = raw_mul(cx, k, div->a), mod = dim_mod(cx, div->a, div->b);
    if (!dim_is(cx, mod, 0) && !contains(cx, sum, dim_sub(cx, dim_int(cx, 0), part))) {
        return false;
    }
    *out = dim_sub(cx, dim_add(cx, dim_sub(cx, sum, term), part), dim_mul(cx, k, mod));
    return true;
}

static Dim
cancel(Cx *cx, int op, Dim d, Dim unused)
{
    const Poly *p = dim_poly(cx, d);
    Dim out;
    for (int k = 0; k < p->n && !too_deep(cx); k++) {
        const MonoNode *m = mono_node(cx, p->terms[k].mono);
        for (int i = 0; i < m->degree; i++) {
            const AtomNode *atom = atom_node(cx, m->atoms[i]);
            if ((atom->kind != ATOM_MOD && atom->kind != ATOM_DIV) ||
                !dim_positive(cx, atom->b, d)) {
                continue;
            }
            Mono left = MONO_ONE;
            mono_div(cx, m->id, dim_poly(cx, atom->self)->terms[0].mono, &left);
            Dim term = dim_term(cx, p->terms[k].c, m->id);
            Dim rest = dim_term(cx, p->terms[k].c, left);
            if (atom->kind == ATOM_MOD ? cancel_mod(cx, d, term, rest, atom, &out)
                                       : cancel_div(cx, d, term, rest, atom, &out)) {
                return out;
            }
        }
    }
    (void)op, (void)unused;
    return d;
}

Dim
dim_cancel(Cx *cx, Dim d)
{
    return remember(cx, '+', d, DIM_NONE, cancel);
}

/* ---- max, min ---- */

static Dim
extreme(Cx *cx, int op, Dim a, Dim b)
{
    bool deep = too_deep(cx);
    if (!deep && dim_le(cx, a, b)) {
        return op == 'M' ? b : a;
    }
    if (!deep && dim_le(cx, b, a)) {
        return op == 'M' ? a : b;
    }
    return dim_opaque(cx, op == 'M' ? ATOM_MAX : ATOM_MIN, a, b);
}

Dim
dim_max(Cx *cx, Dim a, Dim b)
{
    return remember(cx, 'M', a, b, extreme);
}

Dim
dim_min(Cx *cx, Dim a, Dim b)
{
    return remember(cx, 'm', a, b, extreme);
}
