/* The builder's contractions.  An operand that is a permutation or an expansion is replaced by the
 * operand of that view, if the terms keep their order: letters are moved or dropped. Letters are
 * named by their roles, so that equal contractions are the same let. */
#include "build.h"
#include "ir/rules.h"

#include <string.h>

typedef struct {
    Value *v;
    char letters[MAX_RANK];
    int n;
} Side;

typedef struct {
    Side side[2];
    char out[MAX_RANK], sum[MAX_RANK];
    int nout, nsum;
    Where where;
} Sides;

static bool
has(const Side *s, char letter)
{
    return letter_axis(s->letters, s->n, letter) >= 0;
}

static bool
is_summed(const Sides *p, char letter)
{
    return letter_axis(p->sum, p->nsum, letter) >= 0;
}

/* ---- views of operands ---- */

/* Are the summed letters in this order?  That of the first operand is the order of the terms. */
static bool
keeps_terms(const Sides *p, const char *letters, int n)
{
    int last = -1;
    for (int k = 0; k < p->nsum; k++) {
        int axis = letter_axis(letters, n, p->sum[k]);
        if (axis < last) {
            return false;
        }
        last = axis;
    }
    return true;
}

static bool
see_permuted(const Sides *p, Side *s)
{
    const Attr *perm = let_attr(s->v->def, "perm");
    char letters[MAX_RANK];
    for (int ax = 0; ax < s->n; ax++) {
        letters[perm->axes[ax]] = s->letters[ax];
    }
    if (s == &p->side[0] && !keeps_terms(p, letters, s->n)) {
        return false;
    }
    memcpy(s->letters, letters, (size_t)s->n);
    s->v = s->v->def->args[0];
    return true;
}

/* An expansion along an axis that is summed stays, as each of its elements is a term, and so does
 * one along an axis whose index says which terms are summed. */
static bool
see_expanded(const Sides *p, Side *s)
{
    const Attr *to = let_attr(s->v->def, "to");
    char letters[MAX_RANK];
    for (int k = 0; k < to->n; k++) {
        letters[k] = s->letters[to->axes[k]];
    }
    for (int ax = 0; ax < s->n; ax++) {
        bool needed = is_summed(p, s->letters[ax]) || where_is_at(&p->where, s->letters[ax]);
        if (letter_axis(letters, to->n, s->letters[ax]) < 0 && needed) {
            return false;
        }
    }
    memcpy(s->letters, letters, (size_t)to->n);
    s->n = to->n;
    s->v = s->v->def->args[0];
    return true;
}

static void
see_through(const Sides *p, Side *s)
{
    for (bool more = true; more && s->v->def;) {
        Op op = s->v->def->op;
        more = op == OP_permute ? see_permuted(p, s) : op == OP_expand && see_expanded(p, s);
    }
}

/* ---- names of letters ---- */

/* The first letter of those preferred, or of all, that names nothing yet. */
static char
free_letter(const char *preferred, bool *used)
{
    static const char all[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const char *pools[] = {preferred, all};
    for (int k = 0; k < 2; k++) {
        for (const char *c = pools[k]; *c; c++) {
            if (!used[(unsigned char)*c]) {
                used[(unsigned char)*c] = true;
                return *c;
            }
        }
    }
    return 0;                   /* never: two operands have 32 axes */
}

/* Batches are b, c, d, .., rows (of the first operand) m, p, .., columns n, r, .., sums k, l, .. */
static void
name_letters(Sides *p)
{
    char names[128] = {0};
    bool used[128] = {false};
    for (int k = 0; k < 2; k++) {
        const Side *s = &p->side[k], *other = &p->side[1 - k];
        for (int ax = 0; ax < s->n; ax++) {
            unsigned char letter = (unsigned char)s->letters[ax];
            const char *preferred = is_summed(p, s->letters[ax]) ? "klij"
                                    : has(other, s->letters[ax]) ? "bcdefgh"
                                    : k                          ? "nrtvxz"
                                                                 : "mpqsuw";
            names[letter] = names[letter] ? names[letter] : free_letter(preferred, used);
        }
    }
    char *lists[] = {p->side[0].letters, p->side[1].letters, p->out, p->sum};
    int lengths[] = {p->side[0].n, p->side[1].n, p->nout, p->nsum};
    for (int k = 0; k < 4; k++) {
        for (int j = 0; j < lengths[k]; j++) {
            lists[k][j] = names[(unsigned char)lists[k][j]];
        }
    }
    for (int k = -1; k < p->where.nlater; k++) {
        Within *w = k < 0 ? &p->where.first : &p->where.later[k];
        w->at = names[(unsigned char)w->at];
        w->place = names[(unsigned char)w->place];
    }
}

/* ---- contractions that are something simpler ---- */

static Dim
dim_of(const Sides *p, char letter)
{
    const Side *s = &p->side[!has(&p->side[0], letter)];
    return s->v->type->dims[letter_axis(s->letters, s->n, letter)];
}

/* Does the product sum no terms? Its result is then zero. */
static bool
sums_nothing(Build *b, const Sides *p)
{
    bool nothing = false;
    for (int k = 0; k < p->nsum; k++) {
        nothing |= dim_is(b->cx, dim_of(p, p->sum[k]), 0);
    }
    return nothing;
}

/* The sum of one term is a product, but among floats for the sign of its zero. */
static bool
sums_one(Build *b, const Sides *p)
{
    bool one = dtype_info[p->side[0].v->type->dtype].class == CLASS_INT && !p->where.first.place;
    for (int k = 0; k < p->nsum; k++) {
        one &= dim_is(b->cx, dim_of(p, p->sum[k]), 1);
    }
    return one;
}

/* The operand without its summed axes, which have one element, and with the axes of the result. */
static Value *
factor(Build *b, const Sides *p, const Side *s, const Type *t)
{
    int perm[MAX_RANK], to[MAX_RANK], n = 0;
    Dim dims[MAX_RANK];
    for (int k = 0; k < p->nout; k++) {
        int axis = letter_axis(s->letters, s->n, p->out[k]);
        if (axis >= 0) {
            to[n] = k;
            dims[n] = s->v->type->dims[axis];
            perm[n++] = axis;
        }
    }
    for (int k = 0, kept = n; k < s->n; k++) {
        if (is_summed(p, s->letters[k])) {
            perm[kept++] = k;
        }
    }
    Value *v = build_reshape(b, build_permute(b, s->v, perm), n, dims);
    return build_cast(b, build_expand(b, v, t->rank, t->dims, to), t->dtype);
}

static const Contraction *
interned(Build *b, const Contraction *letters)
{
    ContractionError wrong;
    const Contraction *c = contraction_intern(b->cx, letters, &wrong);
    if (!c) {
        build_wrong(b, OP_contract, wrong.why);
    }
    return c;
}

static Value *
emit(Build *b, Sides *p, Dtype to)
{
    const char *why;
    name_letters(p);
    const Side *x = &p->side[0], *y = &p->side[1];
    Contraction letters = contraction_letters(x->n, x->letters, y->n, y->letters, p->nout, p->out);
    letters.where = p->where;
    const Contraction *over = interned(b, &letters);
    Value *args[] = {x->v, y->v};
    const Type *t = type_contract(b->cx, over, args[0]->type, args[1]->type, to, &why);
    Attr attr = attr_letters(b->cx, "over", over);
    return sums_nothing(b, p) ? build_const(b, t, (Literal){.is_int = true})
           : sums_one(b, p)   ? build_map(b, OP_mul, factor(b, p, x, t), factor(b, p, y, t), NULL)
                              : build_emit(b, OP_contract, 2, args, 1, &attr, t);
}

/* Letters of the result that expansions have taken from the operands go; the result is expanded
 * along them. */
static int
keep_out(Sides *p, int *to)
{
    int n = 0;
    for (int k = 0; k < p->nout; k++) {
        if (has(&p->side[0], p->out[k]) || has(&p->side[1], p->out[k])) {
            to[n] = k;
            p->out[n++] = p->out[k];
        }
    }
    return n;
}

Value *
build_product(Build *b, Value *x, Value *y, const char *over, Dtype to)
{
    const char *why, *at;
    const Contraction *letters = contraction_read(b->cx, over, &why, &at);
    if (!letters) {
        build_wrong(b, OP_contract, why);
    }
    return build_contract(b, x, y, letters, to);
}

Value *
build_contract(Build *b, Value *x, Value *y, const Contraction *over, Dtype to)
{
    const char *why = NULL;
    int axes[MAX_RANK];
    const Contraction *c = interned(b, over);
    if (value_is_const(x) || value_is_const(y)) {
        build_wrong(b, OP_contract, "the operand must not be a constant");
    }
    const Type *t = type_contract(b->cx, c, x->type, y->type, to, &why);
    if (!t) {
        build_wrong(b, OP_contract, why);
    }
    if (t->dtype != to) {
        build_wrong(b, OP_contract,
                    "the result has neither the operands' dtype nor their compute dtype");
    }
    Sides p = {.side = {{.v = x, .n = c->na}, {.v = y, .n = c->nb}},
               .nout = c->nout,
               .nsum = c->nsum,
               .where = c->where};
    memcpy(p.side[0].letters, c->a, (size_t)c->na);
    memcpy(p.side[1].letters, c->b, (size_t)c->nb);
    memcpy(p.out, c->out, (size_t)c->nout);
    memcpy(p.sum, c->sum, (size_t)c->nsum);
    see_through(&p, &p.side[0]);
    see_through(&p, &p.side[1]);
    p.nout = keep_out(&p, axes);
    return build_expand(b, emit(b, &p, to), t->rank, t->dims, axes);
}
