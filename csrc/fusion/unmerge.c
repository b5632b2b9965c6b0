/* Unmerge: contractions have the axes that their batches were merged from.
 *
 * What:     a batch of a contraction may be several axes that a reshape has made one of: batches
 *           and heads in front of a `bmm`, heads and the copies of each in `repeat_kv`.  The
 *           contraction gets a letter for each of them, and a reshape of its result makes them one.
 *           Arithmetic, reductions along other axes, expansions and permutations come before that.
 * Requires  a verified graph;
 * and ensures: the same values, bit for bit; no let computes more elements than before.
 * How:      one walk forwards.  What the builder sees through (a permutation, an expansion) was in
 *           front of the reshape: afterwards it is letters, and an operand that was repeated is
 *           not.  A reshape goes on behind a let as long as that does not need the merged axis:
 *           usually up to one that splits the axis again, with which it cancels.  So does a
 *           reshape of the graph that merges the batches of a product with its other axes, as that
 *           behind a grouped convolution: the arithmetic can then be in the product's kernel.
 *           O(lets).
 * Why not   split the last letter of the result: vectors run along it, and what joins the kernel
 *           that makes an operand has its axes.
 * Why not   leave reshapes to the kernels, as index maps: two kernels whose axes are not the same
 *           do not become one, and a product whose rows are the heads that share a key reads it
 *           once.
 * Example:  contract q, reshape(expand k) over="hmk,hnk->hmn" is
 *           reshape(contract reshape(q), k over="gpmk,gnk->gpmn").
 */
#include "group.h"

#include <string.h>

typedef struct {
    const Fn *old;
    Build *b;
    Value **map;
    bool *open;                 /* by old Value.id: a reshape that may go on behind its readers */
} Unmerge;

/* ---- reshapes that merge ---- */

/* Axis k of the result is merged from `count` axes of the operand, from `first` on. */
typedef struct {
    const Type *from;
    int first[MAX_RANK], count[MAX_RANK];
} Merge;

static bool
is_one(Cx *cx, Dim d)
{
    return dim_is(cx, d, 1);
}

/* Is v a reshape that makes one axis of several, and nothing else? */
static bool
merge_of(Cx *cx, const Value *v, Merge *m)
{
    if (value_is_const(v) || !v->def || v->def->op != OP_reshape) {
        return false;
    }
    const Type *from = v->def->args[0]->type, *to = v->type;
    bool merges = false;
    int at = 0;
    m->from = from;
    for (int k = 0; k < to->rank; k++) {
        Dim size = dim_int(cx, 1);
        int longer = 0;
        m->first[k] = at;
        while (at < from->rank && (at == m->first[k] || size != to->dims[k])) {
            longer += !is_one(cx, from->dims[at]);
            size = dim_mul(cx, size, from->dims[at++]);
        }
        m->count[k] = at - m->first[k];
        merges |= longer > 1;
        if (m->count[k] == 0 || size != to->dims[k]) {
            return false;
        }
    }
    return merges && at == from->rank;
}

/* The dims of t, whose axis k runs along axis to[k] of the merged value, split as those are;
 * to_split: the axes that they run along then.  false: they are too many. */
static bool
dims_split(const Merge *m, const Type *t, const int *to, int *rank, Dim *dims, int *to_split)
{
    *rank = 0;
    for (int k = 0; k < t->rank; k++) {
        int axis = to[k];
        for (int j = 0; j < m->count[axis]; j++) {
            if (*rank == MAX_RANK) {
                return false;
            }
            to_split[*rank] = m->first[axis] + j;
            dims[(*rank)++] = m->count[axis] == 1 ? t->dims[k] : m->from->dims[m->first[axis] + j];
        }
    }
    return true;
}

/* ---- contractions ---- */

typedef struct {
    Value *v;
    char letters[MAX_RANK];
    int n;
} Side;
typedef struct {
    Side side[2];
    char out[MAX_RANK];
    int nout;
    Where where;
} Sides;

static void
product_read(const Let *let, Value *const *args, Sides *p)
{
    const Contraction *c = let_contraction(let);
    *p = (Sides){.side = {{.v = args[0], .n = c->na}, {.v = args[1], .n = c->nb}},
                 .nout = c->nout,
                 .where = c->where};
    memcpy(p->side[0].letters, c->a, (size_t)c->na);
    memcpy(p->side[1].letters, c->b, (size_t)c->nb);
    memcpy(p->out, c->out, (size_t)c->nout);
}

static bool
is_batch(const Sides *p, char letter)
{
    return letter_axis(p->side[0].letters, p->side[0].n, letter) >= 0 &&
           letter_axis(p->side[1].letters, p->side[1].n, letter) >= 0 &&
           letter_axis(p->out, p->nout, letter) >= 0;
}

static char
unused_letter(const Sides *p)
{
    char letter = 'a';
    while (letter_axis(p->side[0].letters, p->side[0].n, letter) >= 0 ||
           letter_axis(p->side[1].letters, p->side[1].n, letter) >= 0) {
        letter = letter == 'z' ? 'A' : (char)(letter + 1);
    }
    return letter;              /* there is one: each side has at most MAX_RANK */
}

/* Inserts `more` letters behind the one at `axis`. False: there would be too many. */
static bool
insert_letters(char *letters, int *n, int axis, const char *more, int count)
{
    if (*n + count > MAX_RANK) {
        return false;
    }
    memmove(letters + axis + 1 + count, letters + axis + 1, (size_t)(*n - axis - 1));
    memcpy(letters + axis + 1, more, (size_t)count);
    *n += count;
    return true;
}

/* The axis of a letter as `count` axes, in every place. */
static bool
letter_split(const Unmerge *u, Sides *p, Side *s, char letter, const Dim *dims, int count)
{
    Side *other = &p->side[s == &p->side[0]];
    char more[MAX_RANK];
    int axis = letter_axis(other->letters, other->n, letter);
    int out = letter_axis(p->out, p->nout, letter);
    Dim split[2 * MAX_RANK];
    for (int k = 0; k < count - 1; k++) {
        int before = letter_axis(s->letters, s->n, letter) + k;
        more[k] = unused_letter(p);
        if (!insert_letters(s->letters, &s->n, before, &more[k], 1)) {
            return false;
        }
    }
    for (int k = 0; k < other->n; k++) {
        split[k + (k > axis ? count - 1 : 0)] = other->v->type->dims[k];
    }
    memcpy(split + axis, dims, (size_t)count * sizeof *dims);
    if (!insert_letters(other->letters, &other->n, axis, more, count - 1) ||
        !insert_letters(p->out, &p->nout, out, more, count - 1)) {
        return false;
    }
    other->v = build_reshape(u->b, other->v, other->n, split);
    return true;
}

/* Takes an operand from before the reshape that merges batches. False: there is none. */
static bool
side_unmerged(const Unmerge *u, Sides *p, Side *s)
{
    Merge m;
    Sides was = *p;
    if (!merge_of(u->old->cx, s->v, &m)) {
        return false;
    }
    const int rank = s->n, at = (int)(s - p->side);
    for (int k = 0; k < rank; k++) {
        char letter = was.side[at].letters[k];
        if (m.count[k] > 1 && (!is_batch(p, letter) || letter == p->out[p->nout - 1])) {
            return false;
        }
    }
    for (int k = 0; k < rank; k++) {
        const Dim *dims = m.from->dims + m.first[k];
        if (m.count[k] > 1 && !letter_split(u, p, s, was.side[at].letters[k], dims, m.count[k])) {
            *p = was;
            return false;
        }
    }
    s->v = s->v->def->args[0];
    return true;
}

/* The operand before a permutation of a merging reshape.  The terms of the sums must keep their
 * order, which is that of the first operand. */
static bool
side_permuted(const Unmerge *u, Sides *p, Side *s)
{
    Merge m;
    char letters[MAX_RANK];
    int last = -1;
    const Let *def = s->v->def;
    if (!def || def->op != OP_permute || !merge_of(u->old->cx, def->args[0], &m)) {
        return false;
    }
    for (int ax = 0; ax < s->n; ax++) {
        letters[let_attr(def, "perm")->axes[ax]] = s->letters[ax];
    }
    for (int ax = 0; ax < s->n && s == &p->side[0]; ax++) {
        int to = letter_axis(letters, s->n, s->letters[ax]);
        if (letter_axis(p->out, p->nout, s->letters[ax]) < 0) {
            if (to < last) {
                return false;
            }
            last = to;
        }
    }
    memcpy(s->letters, letters, (size_t)s->n);
    s->v = def->args[0];
    return true;
}

static Value *
contraction_unmerged(const Unmerge *u, const Let *let, Value *const *args)
{
    Sides p;
    const Type *t = let->res[0]->type;
    bool any = false;
    product_read(let, args, &p);
    for (bool more = true; more;) {
        more = false;
        for (int k = 0; k < 2; k++) {
            bool split = side_unmerged(u, &p, &p.side[k]);
            more |= split || side_permuted(u, &p, &p.side[k]);
            any |= split;
        }
    }
    if (!any || !fuel_spend(u->old->cx)) {
        return NULL;
    }
    const Side *x = &p.side[0], *y = &p.side[1];
    Contraction over = contraction_letters(x->n, x->letters, y->n, y->letters, p.nout, p.out);
    over.where = p.where;
    Value *v = build_contract(u->b, x->v, y->v, &over, t->dtype);
    return build_reshape(u->b, v, t->rank, t->dims);
}

/* ---- lets before the reshape ---- */

/* Gives an operand the axes that there were before the merge. */
static Value *
operand_unmerged(const Unmerge *u, const Merge *m, Value *v)
{
    int rank, to[MAX_RANK];
    Dim dims[MAX_RANK];
    const Let *def = value_is_const(v) ? NULL : v->def;
    if (value_is_const(v)) {
        return v;
    }
    const Type *t = m->from;
    bool expands = def && def->op == OP_expand;
    if (expands && dims_split(m, def->args[0]->type, let_attr(def, "to")->axes, &rank, dims, to)) {
        v = build_reshape(u->b, def->args[0], rank, dims);
        return build_expand(u->b, v, t->rank, t->dims, to);
    }
    return build_reshape(u->b, v, t->rank, t->dims);
}

static Value *
map_unmerged(const Unmerge *u, const Merge *m, const Let *let, Value *const *args)
{
    Value *split[3] = {NULL};
    for (int k = 0; k < let->nargs; k++) {
        split[k] = operand_unmerged(u, m, args[k]);
    }
    return build_map_like(u->b, let, split);
}

/* Reduces v, which has the axes before the merge. The reduced axes must not be merged ones. */
static Value *
reduction_unmerged(const Unmerge *u, const Merge *m, const Let *let, const Value *v)
{
    const Attr *axes = let_attr(let, "axes");
    int along[MAX_RANK];
    for (int k = 0; k < axes->n; k++) {
        along[k] = m->first[axes->axes[k]];
        if (m->count[axes->axes[k]] > 1) {
            return NULL;
        }
    }
    return build_red(u->b, let->op, v->def->args[0], axes->n, along);
}

static Value *
permutation_unmerged(const Unmerge *u, const Merge *m, const Let *let, const Value *v)
{
    const Attr *perm = let_attr(let, "perm");
    int split[MAX_RANK], n = 0;
    for (int k = 0; k < perm->n; k++) {
        for (int j = 0; j < m->count[perm->axes[k]]; j++) {
            split[n++] = m->first[perm->axes[k]] + j;
        }
    }
    return build_permute(u->b, v->def->args[0], split);
}

static Value *
expansion_unmerged(const Unmerge *u, const Merge *m, const Let *let, const Value *v)
{
    const Attr *axes = let_attr(let, "to");
    const Type *t = let->res[0]->type;
    int to[MAX_RANK], rank = 0, from = 0;
    Dim dims[MAX_RANK];
    if (t->rank + m->from->rank - v->type->rank > MAX_RANK) {
        return NULL;
    }
    for (int ax = 0; ax < t->rank; ax++) {
        bool own = from < axes->n && axes->axes[from] == ax;
        int count = own ? m->count[from] : 1;
        for (int j = 0; j < count; j++) {
            dims[rank] = count > 1 ? m->from->dims[m->first[from] + j] : t->dims[ax];
            if (own) {
                to[m->first[from] + j] = rank;
            }
            rank++;
        }
        from += own;
    }
    return build_expand(u->b, v->def->args[0], rank, dims, to);
}

/* The let in the axes before the merge, and the merge behind it; NULL: it needs the merged axes. */
static Value *
before_merge(const Unmerge *u, const Let *let, Value *const *args)
{
    Merge m;
    OpKind kind = op_info[let->op].kind;
    int at = 0;
    while (at < let->nargs && (value_is_const(let->args[at]) || !u->open[let->args[at]->id])) {
        at++;
    }
    bool view = let->op == OP_permute || let->op == OP_expand;
    if (!(kind == KIND_MAP || kind == KIND_RED || view) || at == let->nargs ||
        !merge_of(u->old->cx, args[at], &m) || !fuel_spend(u->old->cx)) {
        return NULL;
    }
    const Type *t = let->res[0]->type;
    Value *v = kind == KIND_MAP        ? map_unmerged(u, &m, let, args)
               : kind == KIND_RED      ? reduction_unmerged(u, &m, let, args[at])
               : let->op == OP_permute ? permutation_unmerged(u, &m, let, args[at])
                                       : expansion_unmerged(u, &m, let, args[at]);
    return v ? build_reshape(u->b, v, t->rank, t->dims) : NULL;
}

/* ---- grouped convolutions ---- */

/* Is v a product whose batches a reshape has merged with other axes of it? */
static bool
merges_groups(const Unmerge *u, const Value *v)
{
    Merge m;
    Sides p;
    if (!merge_of(u->old->cx, v, &m) || value_is_const(v->def->args[0]) || !v->def->args[0]->def ||
        v->def->args[0]->def->op != OP_contract) {
        return false;
    }
    const Let *product = v->def->args[0]->def;
    product_read(product, product->args, &p);
    for (int k = 0; k < v->type->rank; k++) {
        int batches = 0;
        for (int j = 0; j < m.count[k]; j++) {
            batches += is_batch(&p, p.out[m.first[k] + j]);
        }
        if (batches > 0 && batches < m.count[k]) {
            return true;
        }
    }
    return false;
}

/* ---- the pass ---- */

static void
unmerge(Unmerge *u, const Let *let)
{
    Value *args[3], *v = NULL;
    Merge m;
    build_at(u->b, let->loc);
    for (int k = 0; k < let->nargs && k < 3; k++) {
        Value *arg = let->args[k];
        args[k] = value_is_const(arg) ? arg : u->map[arg->id];
    }
    if (let->op == OP_contract) {
        v = contraction_unmerged(u, let, args);
    } else if (let->nargs && let->nargs <= 3) {
        v = before_merge(u, let, args);
    }
    if (v) {
        u->map[let->res[0]->id] = v;
        u->open[let->res[0]->id] = merge_of(u->old->cx, v, &m);
    } else {
        build_again(u->b, let, u->map);
        if (let->op == OP_reshape) {
            u->open[let->res[0]->id] = merges_groups(u, u->map[let->res[0]->id]);
        }
    }
}

Fn *
pass_unmerge(Fn *fn)
{
    Unmerge u = {.old = fn, .open = cx_alloc(fn->cx, ((size_t)fn->nvalues + 1) * sizeof *u.open)};
    Fn *out = rebuild_open(fn, fn->stage, &u.map);
    u.b = build_new(out);
    for (int k = 0; k < fn->body->n; k++) {
        unmerge(&u, fn->body->lets[k]);
    }
    return rebuild_close(fn, out, u.map);
}
