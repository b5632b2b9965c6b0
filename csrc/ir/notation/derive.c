/* The gradient of lets, by reverse accumulation: from the last let to the first, what the gradients
 * of its results say of its operands is added to theirs.  Only lets between what is derived by and
 * what is derived are looked at. */
#include "derive.h"

typedef struct {
    Build *b;
    Cx *cx;
    int nvalues; /* values of the program, without those made here */
    bool *active; /* by Value.id: depends on what is derived by */
    Value **gradient; /* by Value.id */
} Derive;

bool
derive_has(const Value *v)
{
    DtypeClass class = v->type ? dtype_info[v->type->dtype].class : CLASS_BOOL;
    return class == CLASS_FLOAT || class == CLASS_COMPLEX;
}

static bool
is_complex(const Type *t)
{
    return dtype_info[t->dtype].class == CLASS_COMPLEX;
}

Value *
derive_zero(Build *b, const Type *t)
{
    Literal zero = {.f = 0};
    if (!is_complex(t)) {
        return build_const(b, t, zero);
    }
    Value *part = build_const(b, type_with(build_cx(b), t, dtype_part(t->dtype)), zero);
    return build_map(b, OP_complex, part, part, NULL);
}

Value *
derive_add(Build *b, Value *x, Value *y)
{
    if (!x) {
        return y;
    }
    if (!is_complex(x->type)) {
        return build_map(b, OP_add, x, y, NULL);
    }
    Value *part[2];
    for (int k = 0; k < 2; k++) {
        Op op = k ? OP_imag : OP_real;
        part[k] = build_map(b, OP_add, build_map(b, op, x, NULL, NULL),
                            build_map(b, op, y, NULL, NULL), NULL);
    }
    return build_map(b, OP_complex, part[0], part[1], NULL);
}

void
derive_none(Build *b, Op op)
{
    fail(build_cx(b), DIAG_NO_DERIVATIVE, op_info[op].name);
}

static bool
is_active(const Derive *d, const Value *v)
{
    return !value_is_const(v) && d->active[v->id];
}

static void
give(Derive *d, Value *v, Value *g)
{
    if (!g || !is_active(d, v)) {
        return;
    }
    if (value_is_const(g)) {
        g = build_const(d->b, v->type, g->literal);
    }
    g = build_cast(d->b, g, v->type->dtype);
    d->gradient[v->id] = derive_add(d->b, d->gradient[v->id], g);
}

/* ---- products ---- */

typedef struct {
    Value *v;
    const char *letters;
    int n;
} Lettered;

/* An outer product: every letter of both is one of the result's. */
static Value *
outer(Derive *d, const Lettered *side, const char *to, int nto)
{
    Dim dims[MAX_RANK];
    Value *v[2];
    for (int k = 0; k < nto; k++) {
        int at = letter_axis(side[0].letters, side[0].n, to[k]);
        dims[k] = at >= 0 ? side[0].v->type->dims[at]
                          : side[1].v->type->dims[letter_axis(side[1].letters, side[1].n, to[k])];
    }
    for (int s = 0; s < 2; s++) {
        int perm[MAX_RANK], axes[MAX_RANK], n = 0;
        for (int k = 0; k < nto; k++) {
            int at = letter_axis(side[s].letters, side[s].n, to[k]);
            if (at >= 0) {
                perm[n] = at;
                axes[n++] = k;
            }
        }
        v[s] = build_expand(d->b, build_permute(d->b, side[s].v, perm), nto, dims, axes);
    }
    return build_map(d->b, OP_mul, v[0], v[1], NULL);
}

/* The gradient, side 0, times the other operand, as the letters `to`. */
static Value *
product(Derive *d, const Lettered *side, const char *to, int nto)
{
    bool sums = false;
    for (int k = 0; k < side[0].n; k++) {
        sums |= letter_axis(to, nto, side[0].letters[k]) < 0;
    }
    if (!sums) {
        return outer(d, side, to, nto);
    }
    Contraction over = contraction_letters(side[0].n, side[0].letters, side[1].n, side[1].letters,
                                           nto, to);
    return build_contract(d->b, side[0].v, side[1].v, &over, side[0].v->type->dtype);
}

static void
of_contract(Derive *d, const Let *let, Value *g)
{
    const Contraction *c = let_contraction(let);
    Value *x = let->args[0], *y = let->args[1];
    Lettered gradient = {build_cast(d->b, g, x->type->dtype), c->out, c->nout};
    if (is_active(d, x)) {
        Lettered side[2] = {gradient, {y, c->b, c->nb}};
        give(d, x, product(d, side, c->a, c->na));
    }
    if (is_active(d, y)) {
        Lettered side[2] = {gradient, {x, c->a, c->na}};
        give(d, y, product(d, side, c->b, c->nb));
    }
}

static void
of_cat(Derive *d, const Let *let, Value *g)
{
    int axis = (int)let_int(let, "axis");
    Dim start = dim_int(d->cx, 0);
    for (int k = 0; k < let->nargs; k++) {
        Dim length = let->args[k]->type->dims[axis];
        give(d, let->args[k], build_slice(d->b, g, axis, start, dim_int(d->cx, 1), length));
        start = dim_add(d->cx, start, length);
    }
}

/* What it has added to gets the whole gradient, and each value that of its place. */
static void
of_scatter(Derive *d, const Let *let, Value *g)
{
    if (let_op(let) != OP_sum) {
        derive_none(d->b, let->op);
    }
    give(d, let->args[0], g);
    if (is_active(d, let->args[2])) {
        int axis = (int)let_int(let, "axis");
        give(d, let->args[2], derive_taken(d->b, g, let->args[1], axis));
    }
}

static void
of_node(Derive *d, const Let *let, Value *g)
{
    switch (let->op) {
    case OP_gather:
        give(d, let->args[0], derive_gather(d->b, let, g));
        return;
    case OP_scatter:
        of_scatter(d, let, g);
        return;
    case OP_scan:
        give(d, let->args[0], derive_scan(d->b, let, g));
        return;
    case OP_contract:
        of_contract(d, let, g);
        return;
    case OP_pad:
        give(d, let->args[0], derive_pad(d->b, let, g));
        return;
    case OP_cat:
        of_cat(d, let, g);
        return;
    default:
        derive_none(d->b, let->op);
    }
}

static void
of_let(Derive *d, const Let *let, Value *g)
{
    Value *out[3] = {NULL, NULL, NULL};
    switch (op_info[let->op].kind) {
    case KIND_MAP:
        derive_map(d->b, let, g, out);
        for (int k = 0; k < let->nargs; k++) {
            give(d, let->args[k], out[k]);
        }
        return;
    case KIND_RED:
        give(d, let->args[0], derive_reduction(d->b, let, g));
        return;
    case KIND_VIEW:
        give(d, let->args[0], derive_view(d->b, let, g));
        return;
    default:
        of_node(d, let, g);
    }
}

void
derive(Build *b, int nof, Value *const *of, Value *const *seeds, int n, Value *const *by,
       Value **gradients)
{
    Fn *fn = build_fn(b);
    Cx *cx = build_cx(b);
    Derive d = {.b = b, .cx = cx, .nvalues = fn->nvalues};
    int nlets = fn->body->n;
    d.active = cx_alloc(cx, (size_t)d.nvalues * sizeof *d.active);
    d.gradient = cx_alloc(cx, (size_t)d.nvalues * sizeof *d.gradient);
    for (int k = 0; k < n; k++) {
        d.active[by[k]->id] = true;
    }
    for (int k = 0; k < nlets; k++) {
        const Let *let = fn->body->lets[k];
        for (int j = 0; j < let->nargs; j++) {
            if (is_active(&d, let->args[j]) && derive_has(let->res[0])) {
                d.active[let->res[0]->id] = true;
            }
        }
    }
    for (int k = 0; k < nof; k++) {
        if (seeds[k]) {
            give(&d, of[k], seeds[k]);
        }
    }
    for (int k = nlets - 1; k >= 0; k--) {
        const Let *let = fn->body->lets[k];
        Value *g = d.gradient[let->res[0]->id];
        if (g) {
            of_let(&d, let, g);
        }
    }
    for (int k = 0; k < n; k++) {
        gradients[k] = d.gradient[by[k]->id];
    }
}
