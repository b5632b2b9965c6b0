/* Dims decomposed: names, replacement, value, expression, text. */
#include "ir/cx.h"

static bool
atom_uses(const Cx *cx, const AtomNode *atom, Dim name)
{
    return atom->self == name ||
           (!atom->name && (dim_uses(cx, atom->a, name) || dim_uses(cx, atom->b, name)));
}

bool
dim_uses(const Cx *cx, Dim d, Dim name)
{
    const Poly *p = dim_poly(cx, d);
    for (int k = 0; k < p->n; k++) {
        const MonoNode *m = mono_node(cx, p->terms[k].mono);
        for (int i = 0; i < m->degree; i++) {
            if (atom_uses(cx, atom_node(cx, m->atoms[i]), name)) {
                return true;
            }
        }
    }
    return false;
}

static char
kind_char(AtomKind kind)
{
    static const char kinds[] = {
        [ATOM_DIV] = '/', [ATOM_MOD] = '%', [ATOM_MAX] = 'M', [ATOM_MIN] = 'm', [ATOM_SCALE] = 's'};
    return kinds[kind];
}

/* name is DIM_NONE: nothing is replaced, and every operation is done again, to be simplified. */
static Dim replaced(Cx *cx, Dim d, Dim name, Dim by);

static Dim
atom_replace(Cx *cx, const AtomNode *atom, Dim name, Dim by)
{
    if (atom->self == name || atom->name) {
        return atom->self == name ? by : atom->self;
    }
    Dim a = replaced(cx, atom->a, name, by), b = replaced(cx, atom->b, name, by);
    return dim_apply(cx, kind_char(atom->kind), a, b);
}

static Dim
replaced(Cx *cx, Dim d, Dim name, Dim by)
{
    if (name != DIM_NONE && !dim_uses(cx, d, name)) {
        return d;
    }
    const Poly *p = dim_poly(cx, d);
    Dim sum = dim_int(cx, 0);
    for (int k = 0; k < p->n; k++) {
        const MonoNode *m = mono_node(cx, p->terms[k].mono);
        Dim term = dim_int(cx, p->terms[k].c);
        for (int i = 0; i < m->degree; i++) {
            term = dim_mul(cx, term, atom_replace(cx, atom_node(cx, m->atoms[i]), name, by));
        }
        sum = dim_add(cx, sum, term);
    }
    return sum;
}

Dim
dim_replace(Cx *cx, Dim d, Dim name, Dim by)
{
    return replaced(cx, d, name, by);
}

Dim
dim_simplified(Cx *cx, Dim d)
{
    return replaced(cx, d, DIM_NONE, DIM_NONE);
}

bool
dim_affine(Cx *cx, Dim d, Dim name, Dim *coefficient, Dim *rest)
{
    dim_split(cx, d, name, coefficient, rest);
    return !dim_uses(cx, *coefficient, name) && !dim_uses(cx, *rest, name);
}

/* ---- the names ---- */

/* The smallest name in d above `after`, below `best`. */
static Dim
next_name(const Cx *cx, Dim d, Dim after, Dim best)
{
    const Poly *p = dim_poly(cx, d);
    for (int k = 0; k < p->n; k++) {
        const MonoNode *m = mono_node(cx, p->terms[k].mono);
        for (int i = 0; i < m->degree; i++) {
            const AtomNode *atom = atom_node(cx, m->atoms[i]);
            if (!atom->name) {
                best = next_name(cx, atom->b, after, next_name(cx, atom->a, after, best));
            } else if (atom->self > after && atom->self < best) {
                best = atom->self;
            }
        }
    }
    return best;
}

void
dim_names(const Cx *cx, Dim d, void (*visit)(void *arg, Dim name), void *arg)
{
    const Dim none = UINT32_MAX;
    for (Dim name = DIM_NONE; (name = next_name(cx, d, name, none)) != none;) {
        visit(arg, name);
    }
}

bool
dim_any_name(const Cx *cx, Dim d, bool (*is)(const void *arg, Dim name), const void *arg)
{
    const Dim none = UINT32_MAX;
    for (Dim name = DIM_NONE; (name = next_name(cx, d, name, none)) != none;) {
        if (is(arg, name)) {
            return true;
        }
    }
    return false;
}

static bool
is_index(const void *cx, Dim name)
{
    return dim_extent(cx, name) != DIM_NONE;
}

bool
dim_has_index(const Cx *cx, Dim d)
{
    return dim_any_name(cx, d, is_index, cx);
}

/* ---- the value ---- */

static uint64_t
atom_eval(const Cx *cx, const AtomNode *atom, int64_t (*value)(void *arg, Dim name), void *arg)
{
    if (atom->name) {
        return (uint64_t)value(arg, atom->self);
    }
    int64_t a = dim_eval(cx, atom->a, value, arg), b = dim_eval(cx, atom->b, value, arg);
    switch (atom->kind) {
    case ATOM_DIV:
        return (uint64_t)int_div(a, b);
    case ATOM_MOD:
        return (uint64_t)int_mod(a, b);
    case ATOM_MAX:
        return (uint64_t)(a > b ? a : b);
    case ATOM_SCALE:
        return (uint64_t)dim_scaled(a, b);
    default:
        return (uint64_t)(a < b ? a : b);
    }
}

int64_t
dim_eval(const Cx *cx, Dim d, int64_t (*value)(void *arg, Dim name), void *arg)
{
    const Poly *p = dim_poly(cx, d);
    uint64_t sum = 0;
    for (int k = 0; k < p->n; k++) {
        const MonoNode *m = mono_node(cx, p->terms[k].mono);
        uint64_t term = (uint64_t)p->terms[k].c;
        for (int i = 0; i < m->degree; i++) {
            term *= atom_eval(cx, atom_node(cx, m->atoms[i]), value, arg);
        }
        sum += term;
    }
    return (int64_t)sum;
}

/* ---- as an expression ---- */

Dim
dim_apply(Cx *cx, char kind, Dim a, Dim b)
{
    switch (kind) {
    case '+':
        return dim_add(cx, a, b);
    case '*':
        return dim_mul(cx, a, b);
    case '/':
        return dim_div(cx, a, b);
    case '%':
        return dim_mod(cx, a, b);
    case 'M':
        return dim_max(cx, a, b);
    case 's':
        return dim_scale_bits(cx, a, b);
    default:
        return dim_min(cx, a, b);
    }
}

static void
walk_atom(const Cx *cx, const AtomNode *atom, const DimWalk *walk, void *arg)
{
    if (atom->name) {
        walk->leaf(arg, 'n', 0, atom->self);
        return;
    }
    dim_walk(cx, atom->a, walk, arg);
    dim_walk(cx, atom->b, walk, arg);
    walk->binary(arg, kind_char(atom->kind));
}

void
dim_walk(const Cx *cx, Dim d, const DimWalk *walk, void *arg)
{
    const Poly *p = dim_poly(cx, d);
    if (p->n == 0) {
        walk->leaf(arg, 'i', 0, DIM_NONE);
    }
    for (int k = 0; k < p->n; k++) {
        const MonoNode *m = mono_node(cx, p->terms[k].mono);
        bool number = p->terms[k].c != 1 || m->degree == 0;
        if (number) {
            walk->leaf(arg, 'i', p->terms[k].c, DIM_NONE);
        }
        for (int i = 0; i < m->degree; i++) {
            walk_atom(cx, atom_node(cx, m->atoms[i]), walk, arg);
            if (i > 0 || number) {
                walk->binary(arg, '*');
            }
        }
        if (k > 0) {
            walk->binary(arg, '+');
        }
    }
}

/* ---- as text ---- */

/* An operand of // or %: in parentheses unless it is a name, a number or a call. */
static void
operand_text(const Cx *cx, Dim d, Text *out)
{
    const AtomNode *atom = dim_atom(cx, d);
    int64_t i;
    bool simple = (atom && atom->kind != ATOM_DIV && atom->kind != ATOM_MOD) ||
                  (dim_is_int(cx, d, &i) && i >= 0);
    text_add(out, simple ? "" : "(");
    dim_text(cx, d, out);
    text_add(out, simple ? "" : ")");
}

static double
scale_of(const Cx *cx, const AtomNode *atom)
{
    int64_t bits = 0;
    dim_is_int(cx, atom->b, &bits);
    return dim_factor(bits);
}

static void
atom_text(const Cx *cx, const AtomNode *atom, bool alone, Text *out)
{
    static const char *const call[] = {
        [ATOM_MAX] = "max", [ATOM_MIN] = "min", [ATOM_SCALE] = "scale"};
    if (atom->name) {
        text_add(out, "%s", atom->name);
    } else if (atom->kind != ATOM_DIV && atom->kind != ATOM_MOD) {
        text_add(out, "%s(", call[atom->kind]);
        dim_text(cx, atom->a, out);
        text_add(out, ", ");
        if (atom->kind == ATOM_SCALE) {
            text_float(out, scale_of(cx, atom));
        } else {
            dim_text(cx, atom->b, out);
        }
        text_add(out, ")");
    } else {
        text_add(out, alone ? "" : "(");
        operand_text(cx, atom->a, out);
        text_add(out, atom->kind == ATOM_DIV ? " // " : " %% ");
        operand_text(cx, atom->b, out);
        text_add(out, alone ? "" : ")");
    }
}

/* Writes the term without its sign, which is already written. */
static void
term_text(const Cx *cx, Term term, bool lead, Text *out)
{
    const MonoNode *m = mono_node(cx, term.mono);
    uint64_t c = term.c < 0 ? 0 - (uint64_t)term.c : (uint64_t)term.c;
    bool number = c != 1 || m->degree == 0 || (lead && term.c < 0);
    text_add(out, !lead ? (term.c < 0 ? " - " : " + ") : term.c < 0 ? "-" : "");
    if (number) {
        text_add(out, "%llu", (unsigned long long)c);
    }
    for (int i = 0; i < m->degree; i++) {
        text_add(out, i > 0 || number ? "*" : "");
        atom_text(cx, atom_node(cx, m->atoms[i]), m->degree == 1 && !number, out);
    }
}

/* Terms in canonical order, but one that is added before those that are subtracted. */
void
dim_text(const Cx *cx, Dim d, Text *out)
{
    const Poly *p = dim_poly(cx, d);
    int first = 0;
    while (first < p->n && p->terms[first].c < 0) {
        first++;
    }
    first = first == p->n ? 0 : first;
    if (p->n == 0) {
        text_add(out, "0");
        return;
    }
    term_text(cx, p->terms[first], true, out);
    for (int k = 0; k < p->n; k++) {
        if (k != first) {
            term_text(cx, p->terms[k], false, out);
        }
    }
}
