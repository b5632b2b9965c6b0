/* The representation of dims: interned products of atoms, interned sums of terms, and their
 * canonical order. */
#include "ir/cx.h"

#include <math.h>
#include <string.h>

/* ---- integers ---- */

int64_t
int_div(int64_t a, int64_t b)
{
    if (b == 0) {
        return 0;
    }
    if (b == -1) {
        return (int64_t)(0 - (uint64_t)a);
    }
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

int64_t
int_mod(int64_t a, int64_t b)
{
    if (b == 0 || b == -1) {
        return 0;
    }
    return a % b + ((a % b != 0 && (a % b < 0) != (b < 0)) ? b : 0);
}

int64_t
int_gcd(int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
    uint64_t y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t r = x % y;
        x = y;
        y = r;
    }
    return x > INT64_MAX ? 1 : (int64_t)x;
}

_Noreturn void
dim_too_large(Cx *cx)
{
    fail(cx, DIAG_SIZE);
}

double
dim_factor(int64_t bits)
{
    double by;
    memcpy(&by, &bits, sizeof by);
    return by;
}

int64_t
dim_scaled(int64_t a, int64_t bits)
{
    double product = floor((double)a * dim_factor(bits));
    return product >= 0x1p63 ? INT64_MAX : product < -0x1p63 ? INT64_MIN : (int64_t)product;
}

/* ---- the nodes ---- */

const Poly *
dim_poly(const Cx *cx, Dim d)
{
    return cx->dims.poly[d];
}

const MonoNode *
mono_node(const Cx *cx, Mono mono)
{
    return cx->dims.mono[mono];
}

const AtomNode *
atom_node(const Cx *cx, Atom atom)
{
    return cx->dims.atom[atom];
}

typedef struct {
    int n;
    const void *items;
} Key;

static bool
same_mono(const void *entry, const void *key)
{
    const MonoNode *m = entry;
    const Key *want = key;
    return m->degree == want->n &&
           (want->n == 0 || memcmp(m->atoms, want->items, (size_t)want->n * sizeof(Atom)) == 0);
}

static Mono
mono_intern(Cx *cx, int degree, const Atom *atoms)
{
    Dims *dims = &cx->dims;
    Key key = {degree, atoms};
    uint64_t hash = hash_bytes(atoms, (size_t)degree * sizeof(Atom));
    MonoNode *m = table_find(&dims->monos, hash, same_mono, &key);
    if (!m) {
        m = cx_alloc(cx, sizeof *m + (size_t)degree * sizeof(Atom));
        m->degree = degree;
        for (int k = 0; k < degree; k++) {
            m->atoms[k] = atoms[k];
        }
        dims->mono = cx_grow(cx, dims->mono, dims->nmonos, sizeof *dims->mono);
        m->id = (Mono)dims->nmonos;
        dims->mono[dims->nmonos++] = m;
        table_add(cx, &dims->monos, hash, m);
    }
    return m->id;
}

static bool
same_poly(const void *entry, const void *key)
{
    const Poly *p = entry;
    const Key *want = key;
    if (p->n != want->n) {
        return false;
    }
    const Term *terms = want->items;
    for (int k = 0; k < p->n; k++) {
        if (p->terms[k].c != terms[k].c || p->terms[k].mono != terms[k].mono) {
            return false;
        }
    }
    return true;
}

static void
first_nodes(Cx *cx)
{
    if (cx->dims.npolys == 0) {
        mono_intern(cx, 0, NULL);                       /* MONO_ONE */
        cx->dims.poly = cx_grow(cx, NULL, 0, sizeof *cx->dims.poly);
        cx->dims.npolys = 1;                            /* DIM_NONE */
    }
}

Dim
poly_intern(Cx *cx, int n, const Term *terms)
{
    Dims *dims = &cx->dims;
    Key key = {n, terms};
    uint64_t hash = (uint64_t)n;
    for (int k = 0; k < n; k++) {
        hash = hash_mix(hash_mix(hash, (uint64_t)terms[k].c), terms[k].mono);
    }
    Poly *p = table_find(&dims->polys, hash, same_poly, &key);
    if (!p) {
        first_nodes(cx);
        p = cx_alloc(cx, sizeof *p + (size_t)n * sizeof(Term));
        p->n = n;
        for (int k = 0; k < n; k++) {
            p->terms[k] = terms[k];
        }
        dims->poly = cx_grow(cx, dims->poly, dims->npolys, sizeof *dims->poly);
        p->id = (Dim)dims->npolys;
        dims->poly[dims->npolys++] = p;
        table_add(cx, &dims->polys, hash, p);
    }
    return p->id;
}

/* Is d a single term?  (Zero has no term.) */
static bool
is_term(const Cx *cx, Dim d, Term *term)
{
    const Poly *p = dim_poly(cx, d);
    if (p->n == 1) {
        *term = p->terms[0];
    }
    return p->n == 1;
}

AtomNode *
dim_atom(const Cx *cx, Dim d)
{
    Term term;
    if (!is_term(cx, d, &term) || term.c != 1 || mono_node(cx, term.mono)->degree != 1) {
        return NULL;
    }
    return cx->dims.atom[mono_node(cx, term.mono)->atoms[0]];
}

Dim
dim_term(Cx *cx, int64_t c, Mono mono)
{
    first_nodes(cx);
    return poly_intern(cx, c != 0, &(Term){c, mono});
}

/* ---- the canonical order: by names, so that it is the same in every context ---- */

/* i9 before i10: numbers in names count as numbers. */
static int
name_order(const char *a, const char *b)
{
    static const char digits[] = "0123456789";
    while (*a && *a == *b) {
        a++;
        b++;
    }
    size_t x = strspn(a, digits), y = strspn(b, digits);
    return x != y ? (x < y ? -1 : 1) : strcmp(a, b);
}

static int dim_order(const Cx *cx, Dim a, Dim b);

static int
atom_order(const Cx *cx, Atom a, Atom b)
{
    if (a == b) {
        return 0;
    }
    const AtomNode *x = atom_node(cx, a), *y = atom_node(cx, b);
    if (x->kind != y->kind) {
        return x->kind < y->kind ? -1 : 1;
    }
    int order = 0;
    if (x->name) {
        order = name_order(x->name, y->name);
    } else {
        order = dim_order(cx, x->a, y->a);
        order = order ? order : dim_order(cx, x->b, y->b);
    }
    return order ? order : a < b ? -1 : 1;      /* two indices of one name */
}

/* Orders monomials by falling degree, so that constants come last. */
int
mono_order(const Cx *cx, Mono a, Mono b)
{
    if (a == b) {
        return 0;
    }
    const MonoNode *x = mono_node(cx, a), *y = mono_node(cx, b);
    if (x->degree != y->degree) {
        return x->degree > y->degree ? -1 : 1;
    }
    int order = 0;
    for (int k = 0; k < x->degree && order == 0; k++) {
        order = atom_order(cx, x->atoms[k], y->atoms[k]);
    }
    return order;
}

static int
dim_order(const Cx *cx, Dim a, Dim b)
{
    const Poly *x = dim_poly(cx, a), *y = dim_poly(cx, b);
    int n = x->n < y->n ? x->n : y->n, order = 0;
    for (int k = 0; k < n && order == 0; k++) {
        order = mono_order(cx, x->terms[k].mono, y->terms[k].mono);
        if (order == 0 && x->terms[k].c != y->terms[k].c) {
            order = x->terms[k].c < y->terms[k].c ? -1 : 1;
        }
    }
    return order ? order : x->n - y->n;
}

/* ---- products of atoms ---- */

Mono
mono_mul(Cx *cx, Mono a, Mono b)
{
    const MonoNode *x = mono_node(cx, a), *y = mono_node(cx, b);
    Atom atoms[MAX_DEGREE];
    if (x->degree + y->degree > MAX_DEGREE) {
        dim_too_large(cx);
    }
    int n = 0, i = 0, j = 0;
    while (i < x->degree || j < y->degree) {
        bool left = j == y->degree ||
                    (i < x->degree && atom_order(cx, x->atoms[i], y->atoms[j]) <= 0);
        atoms[n++] = left ? x->atoms[i++] : y->atoms[j++];
    }
    return mono_intern(cx, n, atoms);
}

bool
mono_div(Cx *cx, Mono a, Mono b, Mono *out)
{
    const MonoNode *x = mono_node(cx, a), *y = mono_node(cx, b);
    Atom atoms[MAX_DEGREE];
    int n = 0, j = 0;
    for (int i = 0; i < x->degree; i++) {
        if (j < y->degree && x->atoms[i] == y->atoms[j]) {
            j++;
        } else {
            atoms[n++] = x->atoms[i];
        }
    }
    if (j == y->degree) {
        *out = mono_intern(cx, n, atoms);
    }
    return j == y->degree;
}

Mono
mono_gcd(Cx *cx, Mono a, Mono b)
{
    const MonoNode *x = mono_node(cx, a), *y = mono_node(cx, b);
    Atom atoms[MAX_DEGREE];
    int n = 0;
    for (int i = 0, j = 0; i < x->degree && j < y->degree;) {
        int order = atom_order(cx, x->atoms[i], y->atoms[j]);
        if (order == 0) {
            atoms[n++] = x->atoms[i];
        }
        i += order <= 0;
        j += order >= 0;
    }
    return mono_intern(cx, n, atoms);
}

/* ---- atoms ---- */

AtomNode *
atom_new(Cx *cx, AtomNode as)
{
    Dims *dims = &cx->dims;
    AtomNode *atom = cx_copy(cx, &as, sizeof as);
    dims->atom = cx_grow(cx, dims->atom, dims->natoms, sizeof *dims->atom);
    atom->id = (Atom)dims->natoms;
    dims->atom[dims->natoms++] = atom;
    atom->epoch = NO_EPOCH;
    first_nodes(cx);
    atom->self = dim_term(cx, 1, mono_intern(cx, 1, &atom->id));
    return atom;
}

static bool
same_atom(const void *entry, const void *key)
{
    const AtomNode *x = entry, *y = key;
    return x->kind == y->kind && x->name == y->name && x->a == y->a && x->b == y->b;
}

Dim
atom_intern(Cx *cx, AtomNode as)
{
    uint64_t hash = hash_mix(hash_mix((uint64_t)as.kind, (uint64_t)(uintptr_t)as.name),
                             (uint64_t)as.a << 32 | as.b);
    AtomNode *atom = table_find(&cx->dims.atoms, hash, same_atom, &as);
    if (!atom) {
        atom = atom_new(cx, as);
        table_add(cx, &cx->dims.atoms, hash, atom);
    }
    return atom->self;
}

Dim
dim_opaque(Cx *cx, AtomKind kind, Dim a, Dim b)
{
    bool swap = (kind == ATOM_MAX || kind == ATOM_MIN) && dim_order(cx, a, b) > 0;
    return atom_intern(cx, (AtomNode){.kind = kind, .a = swap ? b : a, .b = swap ? a : b});
}
