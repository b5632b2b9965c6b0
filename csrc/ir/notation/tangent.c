/* The tangents of lets, in their order: how each result changes when what is derived by changes as
 * it is said.  Only lets that depend on that are looked at. */
#include "derive.h"
#include "notation.h"

typedef struct {
    Build *b;
    Value **tangent;            /* by Value.id; NULL: it does not change */
} Tangents;

static Value *
tangent_of(const Tangents *d, const Value *v)
{
    return value_is_const(v) ? NULL : d->tangent[v->id];
}

static Value *
tangent_or_zero(const Tangents *d, Value *v, const Type *t)
{
    Value *of = tangent_of(d, v);
    return of ? of : derive_zero(d->b, t);
}

/* real, imag, complex, cast, where: they do to tangents what they do to values. */
static Value *
moved_map(const Tangents *d, const Let *let)
{
    const Type *t = let->res[0]->type;
    Value *v[3] = {NULL, NULL, NULL};
    int first = let->op == OP_where;
    v[0] = let->args[0];
    if (let->op == OP_complex) {
        t = type_with(build_cx(d->b), t, dtype_part(t->dtype));
    }
    if (let->op == OP_cast) {
        return build_cast(d->b, tangent_of(d, let->args[0]), t->dtype);
    }
    for (int k = first; k < let->nargs; k++) {
        v[k] = let->nargs == 1 ? tangent_of(d, let->args[k]) : tangent_or_zero(d, let->args[k], t);
    }
    return build_map(d->b, let->op, v[0], v[1], v[2]);
}

static Value *
of_map(const Tangents *d, const Let *let)
{
    Value *sum = NULL;
    switch (let->op) {
    case OP_where:
    case OP_cast:
    case OP_real:
    case OP_imag:
    case OP_complex:
        return moved_map(d, let);
    default:
        break;
    }
    for (int k = 0; k < let->nargs; k++) {
        Value *t = tangent_of(d, let->args[k]), *out[3] = {NULL, NULL, NULL};
        if (t) {
            derive_map(d->b, let, t, out);
            if (out[k] && value_is_const(out[k])) {
                out[k] = build_const(d->b, let->res[0]->type, out[k]->literal);
            }
            sum = out[k] ? derive_add(d->b, sum, out[k]) : sum;
        }
    }
    return sum;
}

static Value *
of_contract(const Tangents *d, const Let *let)
{
    Value *sum = NULL;
    Dtype to = let->res[0]->type->dtype;
    for (int k = 0; k < 2; k++) {
        Value *t = tangent_of(d, let->args[k]);
        if (t) {
            Value *x = k ? let->args[0] : t, *y = k ? t : let->args[1];
            sum = derive_add(d->b, sum, build_contract(d->b, x, y, let_contraction(let), to));
        }
    }
    return sum;
}

static Value *
of_cat(const Tangents *d, const Let *let)
{
    Value **parts = cx_alloc(build_cx(d->b), (size_t)let->nargs * sizeof *parts);
    for (int k = 0; k < let->nargs; k++) {
        parts[k] = tangent_or_zero(d, let->args[k], let->args[k]->type);
    }
    return build_cat(d->b, let->nargs, parts, (int)let_int(let, "axis"));
}

static Value *
of_scatter(const Tangents *d, const Let *let)
{
    Value *to = let->args[0], *values = let->args[2];
    if (let_op(let) != OP_sum) {
        derive_none(d->b, let->op);
    }
    return build_scatter(d->b, OP_sum, tangent_or_zero(d, to, to->type), let->args[1],
                         tangent_or_zero(d, values, values->type), (int)let_int(let, "axis"),
                         (int)let_int(let, "wrap"));
}

static Value *
of_node(const Tangents *d, const Let *let)
{
    Value *t = tangent_of(d, let->args[0]);
    switch (let->op) {
    case OP_gather:
        return build_gather(d->b, t, let->args[1], (int)let_int(let, "axis"),
                            (int)let_int(let, "wrap"));
    case OP_pad:
        return build_pad(d->b, t, build_float(d->b, 0), let->res[0]->type,
                         let_attr(let, "lo")->dims);
    case OP_scan:
        return tangent_scan(d->b, let, t);
    case OP_scatter:
        return of_scatter(d, let);
    case OP_contract:
        return of_contract(d, let);
    case OP_cat:
        return of_cat(d, let);
    default:
        derive_none(d->b, let->op);
    }
}

static void
of_let(const Tangents *d, const Let *let)
{
    int id = let->res[0]->id;
    switch (op_info[let->op].kind) {
    case KIND_MAP:
        d->tangent[id] = of_map(d, let);
        break;
    case KIND_RED:
        d->tangent[id] = tangent_reduction(d->b, let, tangent_of(d, let->args[0]));
        break;
    case KIND_VIEW:             /* the same view, of the tangent */
        build_again(d->b, let, d->tangent);
        break;
    default:
        d->tangent[id] = of_node(d, let);
    }
}

bool *
values_in_use(const Fn *fn)
{
    bool *used = cx_alloc(fn->cx, (size_t)fn->nvalues * sizeof *used);
    for (int k = 0; k < fn->body->nrets; k++) {
        used[fn->body->rets[k]->id] = true;
    }
    for (int k = fn->body->n - 1; k >= 0; k--) {
        const Let *let = fn->body->lets[k];
        for (int j = 0; used[let->res[0]->id] && j < let->nargs; j++) {
            used[let->args[j]->id] |= !value_is_const(let->args[j]);
        }
    }
    return used;
}

void
tangents(Build *b, int n, Value *const *by, Value *const *given, int nof, Value *const *of,
         Value **out)
{
    Fn *fn = build_fn(b);
    int nlets = fn->body->n;
    Tangents d = {.b = b};
    const bool *used = values_in_use(fn);
    d.tangent = cx_alloc(build_cx(b), (size_t)fn->nvalues * sizeof *d.tangent);
    for (int k = 0; k < n; k++) {
        d.tangent[by[k]->id] = given[k];
    }
    for (int k = 0; k < nlets; k++) {
        const Let *let = fn->body->lets[k];
        bool changes = false, needed = used[let->res[0]->id];
        for (int j = 0; j < let->nargs; j++) {
            changes |= tangent_of(&d, let->args[j]) != NULL;
        }
        if (changes && needed && derive_has(let->res[0])) {
            of_let(&d, let);
        }
    }
    for (int k = 0; k < nof; k++) {
        out[k] = d.tangent[of[k]->id];
    }
}
