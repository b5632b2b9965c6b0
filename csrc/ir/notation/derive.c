/* The gradient of lets, by reverse accumulation: from the last let to the first, what the gradients
 * of its results say of its operands is added to theirs.  Only lets between what is derived by and
 * what is derived are looked at. */
#include "derive.h"

#include <stdio.h>

typedef struct {
    Build *b;
    Cx *cx;
    int nvalues; /* values of the program; what is made here comes after */
    bool *active; /* by Value.id: depends on what is derived by */
    Value **gradient; /* by Value.id */
} Derive;

void
derive_none(Build *b, Op op)
{
    fail(build_cx(b), DIAG_NO_DERIVATIVE, op_info[op].name);
}

static bool
is_real(const Value *v)
{
    return v->type && dtype_info[v->type->dtype].class == CLASS_FLOAT;
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
    Value *before = d->gradient[v->id];
    d->gradient[v->id] = before ? build_map(d->b, OP_add, before, g, NULL) : g;
}

static Value *
zeros(Derive *d, const Type *t)
{
    return build_const(d->b, t, (Literal){.f = 0});
}

/* ---- views ---- */

static Value *
of_expand(Derive *d, const Let *let, Value *g)
{
    const Attr *to = let_attr(let, "to");
    int axes[MAX_RANK], n = 0;
    for (int ax = 0, at = 0; ax < g->type->rank; ax++) {
        if (at < to->n && to->axes[at] == ax) {
            at++;
        } else {
            axes[n++] = ax;
        }
    }
    return n ? build_red(d->b, OP_sum, g, n, axes) : g;
}

static Value *
of_permute(Derive *d, const Let *let, Value *g)
{
    const Attr *perm = let_attr(let, "perm");
    int back[MAX_RANK];
    for (int k = 0; k < perm->n; k++) {
        back[perm->axes[k]] = k;
    }
    return build_permute(d->b, g, back);
}

/* start + step*iota along the axis, an index for each element of t. */
static Value *
places(Derive *d, const Type *t, int axis, Dim start, Dim step)
{
    Build *b = d->b;
    Value *i = build_iota(b, type_with(d->cx, t, DT_i64), axis), *n;
    if (!dim_is(d->cx, step, 1)) {
        n = build_expand(b, build_size(b, step), t->rank, t->dims, NULL);
        i = build_map(b, OP_mul, i, n, NULL);
    }
    if (!dim_is(d->cx, start, 0)) {
        n = build_expand(b, build_size(b, start), t->rank, t->dims, NULL);
        i = build_map(b, OP_add, i, n, NULL);
    }
    return i;
}

static Value *
of_slice(Derive *d, const Let *let, Value *g)
{
    const Type *t = let->args[0]->type;
    int axis = (int)let_int(let, "axis");
    Dim start = let_dim(let, "start"), step = let_dim(let, "step"), lo[MAX_RANK];
    if (!dim_is(d->cx, step, 1)) {
        Value *index = places(d, g->type, axis, start, step);
        return build_scatter(d->b, OP_sum, zeros(d, t), index, g, axis, INDEX_FROM_START);
    }
    for (int ax = 0; ax < t->rank; ax++) {
        lo[ax] = ax == axis ? start : dim_int(d->cx, 0);
    }
    return build_pad(d->b, g, build_float(d->b, 0), t, lo);
}

static Value *
of_strided(Derive *d, const Let *let, Value *g)
{
    Build *b = d->b;
    const Type *t = let->args[0]->type;
    const Dim *strides = let_attr(let, "strides")->dims;
    Dim numel = type_numel(d->cx, t), n = type_numel(d->cx, g->type);
    Value *index = build_expand(b, build_size(b, let_dim(let, "offset")), g->type->rank,
                                g->type->dims, NULL);
    for (int ax = 0; ax < g->type->rank; ax++) {
        index = build_map(b, OP_add, index, places(d, g->type, ax, dim_int(d->cx, 0), strides[ax]),
                          NULL);
    }
    Value *to = zeros(d, type_of(d->cx, t->dtype, 1, &numel));
    Value *flat = build_scatter(b, OP_sum, to, build_reshape(b, index, 1, &n),
                                build_reshape(b, g, 1, &n), 0, INDEX_FROM_START);
    return build_reshape(b, flat, t->rank, t->dims);
}

static Value *
of_view(Derive *d, const Let *let, Value *g)
{
    const Type *t = let->args[0]->type;
    switch (let->op) {
    case OP_expand:
        return of_expand(d, let, g);
    case OP_reshape:
        return build_reshape(d->b, g, t->rank, t->dims);
    case OP_permute:
        return of_permute(d, let, g);
    case OP_slice:
        return of_slice(d, let, g);
    case OP_flip: {
        const Attr *axes = let_attr(let, "axes");
        return build_flip(d->b, g, axes->n, axes->axes);
    }
    default:
        return of_strided(d, let, g);
    }
}

/* ---- reductions ---- */

/* A value of the result's shape over the axes that were reduced. */
static Value *
over_axes(Derive *d, const Let *let, Value *v)
{
    const Type *t = let->args[0]->type;
    const Attr *axes = let_attr(let, "axes");
    int to[MAX_RANK], n = 0;
    for (int ax = 0, at = 0; ax < t->rank; ax++) {
        if (at < axes->n && axes->axes[at] == ax) {
            at++;
        } else {
            to[n++] = ax;
        }
    }
    return build_expand(d->b, v, t->rank, t->dims, to);
}

/* The product of the elements before each one along the axis; with flips, behind it. */
static Value *
product_before(Derive *d, Value *x, int axis)
{
    const Type *t = x->type;
    Dim lo[MAX_RANK], dims[MAX_RANK], one = dim_int(d->cx, 1), zero = dim_int(d->cx, 0);
    for (int ax = 0; ax < t->rank; ax++) {
        lo[ax] = ax == axis ? one : zero;
        dims[ax] = ax == axis ? dim_add(d->cx, t->dims[ax], one) : t->dims[ax];
    }
    x = build_pad(d->b, x, build_float(d->b, 1), type_of(d->cx, t->dtype, t->rank, dims), lo);
    return build_scan(d->b, OP_prod, build_slice(d->b, x, axis, zero, one, t->dims[axis]), axis);
}

static Value *
of_prod(Derive *d, const Let *let, Value *g)
{
    Build *b = d->b;
    int axis = let_attr(let, "axes")->axes[0];
    Value *x = let->args[0];
    Value *before = product_before(d, x, axis);
    Value *behind = build_flip(b, product_before(d, build_flip(b, x, 1, &axis), axis), 1, &axis);
    return build_map(b, OP_mul, over_axes(d, let, g), build_map(b, OP_mul, before, behind, NULL),
                     NULL);
}

/* Elements that are the extreme share the gradient. */
static Value *
of_extreme(Derive *d, const Let *let, Value *g)
{
    Build *b = d->b;
    const Attr *axes = let_attr(let, "axes");
    Value *x = let->args[0], *is = build_map(b, OP_eq, x, over_axes(d, let, let->res[0]), NULL);
    Value *count = build_red(b, OP_sum, build_cast(b, is, g->type->dtype), axes->n, axes->axes);
    Value *share = over_axes(d, let, build_map(b, OP_div, g, count, NULL));
    return build_map(b, OP_where, is, share, build_float(b, 0));
}

static Value *
of_reduction(Derive *d, const Let *let, Value *g)
{
    switch (let->op) {
    case OP_sum:
        return over_axes(d, let, g);
    case OP_prod:
        return of_prod(d, let, g);
    case OP_amax:
    case OP_amin:
        return of_extreme(d, let, g);
    default:
        return NULL;
    }
}

/* ---- gathers, products ---- */

/* One index for each element: the axes of the index are one axis, as those that it made. */
static Value *
of_gather(Derive *d, const Let *let, Value *g)
{
    Build *b = d->b;
    Value *index = let->args[1];
    const Type *t = let->args[0]->type;
    int axis = (int)let_int(let, "axis"), wrap = (int)let_int(let, "wrap");
    Dim dims[MAX_RANK], n = type_numel(d->cx, index->type);
    for (int ax = 0; ax < t->rank; ax++) {
        dims[ax] = ax == axis ? n : t->dims[ax];
    }
    index = build_expand(b, build_reshape(b, index, 1, &n), t->rank, dims, &axis);
    return build_scatter(b, OP_sum, zeros(d, t), index, build_reshape(b, g, t->rank, dims), axis,
                         wrap);
}

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
    char over[4 * MAX_RANK + 4];
    bool sums = false;
    for (int k = 0; k < side[0].n; k++) {
        sums |= letter_axis(to, nto, side[0].letters[k]) < 0;
    }
    if (!sums) {
        return outer(d, side, to, nto);
    }
    int n = snprintf(over, sizeof over, "%.*s,%.*s->%.*s", side[0].n, side[0].letters, side[1].n,
                     side[1].letters, nto, to);
    return build_contract(d->b, side[0].v, side[1].v, cx_intern(d->cx, over, (size_t)n),
                          side[0].v->type->dtype);
}

static void
of_contract(Derive *d, const Let *let, Value *g)
{
    Contraction c = let_contraction(let);
    Value *x = let->args[0], *y = let->args[1];
    Lettered gradient = {build_cast(d->b, g, x->type->dtype), c.out, c.nout};
    if (is_active(d, x)) {
        Lettered side[2] = {gradient, {y, c.b, c.nb}};
        give(d, x, product(d, side, c.a, c.na));
    }
    if (is_active(d, y)) {
        Lettered side[2] = {gradient, {x, c.a, c.na}};
        give(d, y, product(d, side, c.b, c.nb));
    }
}

/* What a pad has left out has no gradient; so the other way round it is a pad. */
static Value *
of_pad(Derive *d, const Let *let, Value *g)
{
    const Type *t = let->args[0]->type;
    const Dim *lo = let_attr(let, "lo")->dims;
    Dim back[MAX_RANK];
    for (int ax = 0; ax < t->rank; ax++) {
        back[ax] = dim_sub(d->cx, dim_int(d->cx, 0), lo[ax]);
    }
    return build_pad(d->b, g, build_float(d->b, 0), t, back);
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
        give(d, let->args[0], of_reduction(d, let, g));
        return;
    case KIND_VIEW:
        give(d, let->args[0], of_view(d, let, g));
        return;
    default:
        break;
    }
    switch (let->op) {
    case OP_gather:
        give(d, let->args[0], of_gather(d, let, g));
        return;
    case OP_contract:
        of_contract(d, let, g);
        return;
    case OP_pad:
        give(d, let->args[0], of_pad(d, let, g));
        return;
    case OP_cat:
        of_cat(d, let, g);
        return;
    default:
        derive_none(d->b, let->op);
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
            if (is_active(&d, let->args[j]) && is_real(let->res[0])) {
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
