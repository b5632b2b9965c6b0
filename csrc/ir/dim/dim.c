/* Symbolic sizes: interned polynomials over atoms, and their sums and products.
 *
 * A dim is a sum of terms, a term an integer times a product of atoms (a Mono), an atom a size
 * name, a loop index or an opaque a//b, a%b, max, min, scale.  Monos, atoms and sums are interned,
 * and terms stand in an order that depends on names only, so that equal dims have equal ids and the
 * text of a dim does not depend on the order in which things were made.  dim_node.c stores them;
 * dim_div.c has the rules for the opaque atoms. */
#include "ir/cx.h"

#include <string.h>

/* ---- sums ---- */

/* The sum; if atoms of its terms cancel (x//d*d + x%d is x), the rest. */
static Dim
sum_done(Cx *cx, int n, const Term *terms)
{
    bool opaque = false;
    for (int k = 0; k < n && !opaque; k++) {
        const MonoNode *m = mono_node(cx, terms[k].mono);
        for (int i = 0; i < m->degree && !opaque; i++) {
            AtomKind kind = atom_node(cx, m->atoms[i])->kind;
            opaque = kind == ATOM_DIV || kind == ATOM_MOD;
        }
    }
    Dim d = poly_intern(cx, n, terms);
    return opaque && !cx->dims.raw ? dim_cancel(cx, d) : d;
}

enum {
    FEW = 24,                   /* terms that fit on the stack */
    MAX_TERMS = 4096,           /* of a sum; the sums on the way to it are kept, too */
};

static Term *
term_room(Cx *cx, int n, Term few[static FEW])
{
    return n <= FEW ? few : cx_alloc(cx, (size_t)n * sizeof(Term));
}

bool
dim_try_add(Cx *cx, Dim a, Dim b, int64_t c, Dim *out)
{
    const Poly *x = dim_poly(cx, a), *y = dim_poly(cx, b);
    if (x->n + y->n > MAX_TERMS) {
        return false;
    }
    Term few[FEW], *terms = term_room(cx, x->n + y->n, few);
    int n = 0;
    for (int i = 0, j = 0; i < x->n || j < y->n;) {
        int order = i == x->n   ? 1
                    : j == y->n ? -1
                                : mono_order(cx, x->terms[i].mono, y->terms[j].mono);
        Term term = {0, order <= 0 ? x->terms[i].mono : y->terms[j].mono};
        int64_t more = 0;
        if (order >= 0 && __builtin_mul_overflow(c, y->terms[j].c, &more)) {
            return false;
        }
        if (__builtin_add_overflow(order <= 0 ? x->terms[i].c : 0, more, &term.c)) {
            return false;
        }
        i += order <= 0;
        j += order >= 0;
        if (term.c != 0) {
            terms[n++] = term;
        }
    }
    *out = sum_done(cx, n, terms);
    return true;
}

/* d times one term.  The order of terms is kept by a common factor. */
static bool
times_term(Cx *cx, Dim d, Term by, Dim *out)
{
    const Poly *p = dim_poly(cx, d);
    Term few[FEW], *terms = term_room(cx, p->n, few);
    for (int k = 0; k < p->n; k++) {
        if (mono_node(cx, p->terms[k].mono)->degree + mono_node(cx, by.mono)->degree > MAX_DEGREE ||
            __builtin_mul_overflow(p->terms[k].c, by.c, &terms[k].c)) {
            return false;
        }
        terms[k].mono = mono_mul(cx, p->terms[k].mono, by.mono);
    }
    *out = sum_done(cx, p->n, terms);
    return true;
}

void
dim_split(Cx *cx, Dim d, Dim atom, Dim *a, Dim *rest)
{
    const Poly *p = dim_poly(cx, d);
    Term few[2][FEW], *with = term_room(cx, p->n, few[0]), *without = term_room(cx, p->n, few[1]);
    Mono one = dim_poly(cx, atom)->terms[0].mono;
    int n = 0;
    for (int k = 0; k < p->n; k++) {
        with[n] = without[k - n] = p->terms[k];
        n += mono_div(cx, p->terms[k].mono, one, &with[n].mono);
    }
    *rest = poly_intern(cx, p->n - n, without);         /* nothing cancels that did not in d */
    *a = poly_intern(cx, n, with);
}

bool
dim_try_mul(Cx *cx, Dim a, Dim b, Dim *out)
{
    int64_t i;
    if (dim_is_int(cx, a, &i)) {
        return dim_try_add(cx, dim_int(cx, 0), b, i, out);
    }
    if (dim_is_int(cx, b, &i)) {
        return dim_try_add(cx, dim_int(cx, 0), a, i, out);
    }
    Dim sum = dim_int(cx, 0), part;
    for (int k = 0; k < dim_poly(cx, b)->n; k++) {
        if (!times_term(cx, a, dim_poly(cx, b)->terms[k], &part) ||
            !dim_try_add(cx, sum, part, 1, &sum)) {
            return false;
        }
    }
    *out = sum;
    return true;
}

Dim
dim_add(Cx *cx, Dim a, Dim b)
{
    if (!dim_try_add(cx, a, b, 1, &a)) {
        dim_too_large(cx);
    }
    return a;
}

Dim
dim_sub(Cx *cx, Dim a, Dim b)
{
    if (!dim_try_add(cx, a, b, -1, &a)) {
        dim_too_large(cx);
    }
    return a;
}

Dim
dim_mul(Cx *cx, Dim a, Dim b)
{
    if (!dim_try_mul(cx, a, b, &a)) {
        dim_too_large(cx);
    }
    return a;
}

Dim
dim_scale_bits(Cx *cx, Dim a, Dim bits)
{
    int64_t i, by = 0;
    dim_is_int(cx, bits, &by);
    return dim_is_int(cx, a, &i) ? dim_int(cx, dim_scaled(i, by))
                                 : dim_opaque(cx, ATOM_SCALE, a, bits);
}

Dim
dim_scale(Cx *cx, Dim a, double by)
{
    int64_t bits;
    memcpy(&bits, &by, sizeof bits);
    return by == 1 ? a : by == 0 ? dim_int(cx, 0) : dim_scale_bits(cx, a, dim_int(cx, bits));
}

/* ---- leaves ---- */

Dim
dim_int(Cx *cx, int64_t value)
{
    return dim_term(cx, value, MONO_ONE);
}

bool
dim_is_int(const Cx *cx, Dim d, int64_t *value)
{
    const Poly *p = dim_poly(cx, d);
    bool is = p->n == 0 || (p->n == 1 && p->terms[0].mono == MONO_ONE);
    if (is && value) {
        *value = p->n ? p->terms[0].c : 0;
    }
    return is;
}

bool
dim_is(const Cx *cx, Dim d, int64_t value)
{
    int64_t i;
    return dim_is_int(cx, d, &i) && i == value;
}

Dim
dim_size(Cx *cx, const char *name)
{
    return atom_intern(cx, (AtomNode){.kind = ATOM_SIZE,
                                      .name = cx_intern(cx, name, strlen(name)),
                                      .range = {0, DIM_INF},
                                      .divisor = 1});
}

Range
dim_multiples(Range range, int64_t divisor)
{
    Range out = range;
    int64_t over = int_mod(range.lo, divisor);
    bool room = !over || range.lo <= INT64_MAX - divisor;
    out.lo += over && room ? divisor - over : 0;
    out.hi -= range.hi == DIM_INF ? 0 : int_mod(range.hi, divisor);
    return range.lo >= 0 && room && out.lo <= out.hi ? out : range;
}

void
dim_declare(Cx *cx, Dim size, Range range, int64_t divisor)
{
    AtomNode *atom = dim_atom(cx, size);
    range = dim_multiples(range, divisor > 0 ? divisor : 1);
    if (atom->range.lo != range.lo || atom->range.hi != range.hi || atom->divisor != divisor) {
        atom->range = range;
        atom->divisor = divisor > 0 ? divisor : 1;
        cx->dims.epoch = ++cx->dims.epochs;
    }
}

Dim
dim_index(Cx *cx, const char *name, Dim extent)
{
    return atom_new(cx, (AtomNode){.kind = ATOM_INDEX,
                                   .name = cx_intern(cx, name, strlen(name)),
                                   .a = extent})
        ->self;
}

bool
dim_is_name(const Cx *cx, Dim d)
{
    const AtomNode *atom = dim_atom(cx, d);
    return atom && atom->name;
}

const char *
dim_name(const Cx *cx, Dim d)
{
    return dim_atom(cx, d)->name;
}

Dim
dim_extent(const Cx *cx, Dim index)
{
    return dim_atom(cx, index)->a;
}

/* ---- bounds of the work, for dim_div.c and prove.c ---- */

enum { WORK = 300 };

void
dim_begin(Cx *cx)
{
    if (cx->dims.depth == 0 && !cx->dims.proving) {
        cx->dims.work = WORK;
    }
}

void
dim_recover(Cx *cx)
{
    cx->dims.depth = cx->dims.raw = 0;
    cx->dims.proving = cx->dims.orders = cx->dims.floors = false;
    cx->dims.nexist = cx->dims.nested = 0;
    cx->dims.epoch = ++cx->dims.epochs;
}
