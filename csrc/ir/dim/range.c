/* The facts about a dim without a proof: its interval and a divisor.
 *
 * How: both follow from those of its atoms, which are kept with each atom until a size is declared.
 * A product of atoms is taken as if they did not depend on each other, so an interval may be wider
 * than the values.  prove.c may decide questions that the interval does not. */
#include "ir/cx.h"

/* ---- arithmetic on bounds: DIM_INF absorbs ---- */

static int64_t
clamp(__int128 x)
{
    return x >= DIM_INF ? DIM_INF : x <= -DIM_INF ? -DIM_INF : (int64_t)x;
}

static bool
infinite(int64_t x)
{
    return x == DIM_INF || x == -DIM_INF;
}

/* Adds two ends of ranges.  The end is used only on its own side, so inf - inf may be either one:
 * `toward` is the needed side. */
static int64_t
bound_add(int64_t a, int64_t b, int64_t toward)
{
    return infinite(a) || infinite(b) ? (a == toward || b == toward ? toward
                                         : infinite(a)              ? a
                                                                    : b)
                                      : clamp((__int128)a + b);
}

static int64_t
bound_mul(int64_t a, int64_t b)
{
    if (a == 0 || b == 0) {
        return 0;
    }
    return infinite(a) || infinite(b) ? ((a < 0) == (b < 0) ? DIM_INF : -DIM_INF)
                                      : clamp((__int128)a * b);
}

static Range
range_add(Range a, Range b)
{
    return (Range){bound_add(a.lo, b.lo, -DIM_INF), bound_add(a.hi, b.hi, DIM_INF)};
}

static Range
range_mul(Range a, Range b)
{
    int64_t corner[4] = {bound_mul(a.lo, b.lo), bound_mul(a.lo, b.hi), bound_mul(a.hi, b.lo),
                         bound_mul(a.hi, b.hi)};
    Range r = {corner[0], corner[0]};
    for (int k = 1; k < 4; k++) {
        r.lo = corner[k] < r.lo ? corner[k] : r.lo;
        r.hi = corner[k] > r.hi ? corner[k] : r.hi;
    }
    return r;
}

static int64_t
magnitude(Range r)
{
    int64_t lo = r.lo < 0 ? clamp(-(__int128)r.lo) : r.lo, hi = r.hi < 0 ? -r.hi : r.hi;
    return lo > hi ? lo : hi;
}

static Range
range_div(Range x, Range d)
{
    if (d.lo < 0) {
        int64_t most = magnitude(x);
        return (Range){-most, most};
    }
    int64_t least = d.lo > 0 ? d.lo : 1, most = d.hi > 0 ? d.hi : 1;
    Range r = {infinite(x.lo) ? x.lo : int_div(x.lo, x.lo < 0 ? least : most),
               infinite(x.hi) ? x.hi : int_div(x.hi, x.hi < 0 ? most : least)};
    if (d.lo == 0) { /* x // 0 is 0 */
        r.lo = r.lo > 0 ? 0 : r.lo;
        r.hi = r.hi < 0 ? 0 : r.hi;
    }
    return r;
}

static Range
range_mod(Range x, Range d)
{
    if (d.lo < 0) {
        int64_t most = magnitude(d);
        return (Range){-most, most};
    }
    int64_t hi = infinite(d.hi) ? d.hi : d.hi > 0 ? d.hi - 1 : 0;
    return (Range){0, x.lo >= 0 && x.hi < hi ? x.hi : hi};
}

/* ---- ranges and divisors ---- */

static Range
range_scale(Range x, int64_t bits)
{
    return (Range){infinite(x.lo) ? x.lo : dim_scaled(x.lo, bits),
                   infinite(x.hi) ? x.hi : dim_scaled(x.hi, bits)};
}

/* A range that a question assumes of one size symbol, instead of the declared one. */
typedef struct {
    Dim symbol;
    Range range;
} Assumed;

static Range range_of(Cx *cx, Dim d, const Assumed *assumed);

static Range
atom_find_range(Cx *cx, const AtomNode *atom, const Assumed *assumed)
{
    Range a = range_of(cx, atom->a, assumed);
    if (atom->kind == ATOM_INDEX) { /* where the index exists the extent is at least 1 */
        return (Range){0, infinite(a.hi) ? a.hi : a.hi > 1 ? a.hi - 1 : 0};
    }
    Range b = range_of(cx, atom->b, assumed);
    switch (atom->kind) {
    case ATOM_DIV:
        return range_div(a, b);
    case ATOM_MOD:
        return range_mod(a, b);
    case ATOM_MAX:
        return (Range){a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
    case ATOM_SCALE:
        return range_scale(a, b.lo);
    default:
        return (Range){a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
    }
}

static int64_t
atom_find_divisor(Cx *cx, const AtomNode *atom)
{
    if (atom->kind == ATOM_INDEX || atom->kind == ATOM_SCALE) {
        return 1;
    }
    int64_t a = dim_divisor(cx, atom->a), by;
    if (atom->kind != ATOM_DIV) {
        return int_gcd(a, dim_divisor(cx, atom->b));
    }
    return dim_is_int(cx, atom->b, &by) && by && a % by == 0 ? int_gcd(a / by, 0) : 1;
}

const AtomNode *
atom_facts(Cx *cx, Atom id)
{
    AtomNode *atom = cx->dims.atom[id];
    if (atom->kind != ATOM_SIZE && atom->epoch != cx->dims.epoch) {
        atom->range = atom_find_range(cx, atom, NULL);
        atom->divisor = atom_find_divisor(cx, atom);
        atom->epoch = cx->dims.epoch;
    }
    return atom;
}

/* Facts that follow from an assumption are not stored with the atom. */
static Range
atom_range(Cx *cx, Atom id, const Assumed *assumed)
{
    const AtomNode *atom = cx->dims.atom[id];
    if (!assumed) {
        return atom_facts(cx, id)->range;
    }
    return atom->kind != ATOM_SIZE         ? atom_find_range(cx, atom, assumed)
           : atom->self == assumed->symbol ? assumed->range
                                           : atom->range;
}

static Range
range_of(Cx *cx, Dim d, const Assumed *assumed)
{
    const Poly *p = dim_poly(cx, d);
    Range sum = {0, 0};
    for (int k = 0; k < p->n; k++) {
        const MonoNode *m = mono_node(cx, p->terms[k].mono);
        Range r = {1, 1};
        for (int i = 0; i < m->degree; i++) {
            r = range_mul(r, atom_range(cx, m->atoms[i], assumed));
        }
        int64_t c = clamp(p->terms[k].c);
        sum = range_add(sum, range_mul(r, (Range){c, c}));
    }
    return sum;
}

Range
dim_range(Cx *cx, Dim d)
{
    return range_of(cx, d, NULL);
}

Range
dim_range_within(Cx *cx, Dim d, Dim symbol, Range range)
{
    return range_of(cx, d, &(Assumed){symbol, range});
}

int64_t
dim_divisor(Cx *cx, Dim d)
{
    const Poly *p = dim_poly(cx, d);
    int64_t all = 0;
    for (int k = 0; k < p->n; k++) {
        const MonoNode *m = mono_node(cx, p->terms[k].mono);
        int64_t g = int_gcd(p->terms[k].c, 0), more;
        for (int i = 0; i < m->degree; i++) {
            if (!__builtin_mul_overflow(g, atom_facts(cx, m->atoms[i])->divisor, &more)) {
                g = more;
            }
        }
        all = int_gcd(all, g);
    }
    return all;
}

bool
dim_divides(Cx *cx, int64_t divisor, Dim d)
{
    return int_mod(dim_divisor(cx, d), divisor) == 0 && (divisor != 0 || dim_is(cx, d, 0));
}
