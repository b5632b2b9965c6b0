/* Linearise: what loops and branches write by row-major position is carried in the shape that is
 * written.
 *
 * What:     a write to an element by several indices is a scatter to the array with these axes as
 *           one.  A loop carries the array like that, and a branch takes and returns it, so that
 *           the next value is the scatter's, which takes the memory of the one before (in_place.c),
 *           and not a view of it.
 * Requires  a verified graph;
 * and ensures: the same values, with reshapes before and after the loop, and where a body reads it.
 * How:      bodies come first (ir/pass.c): the result of a loop or branch that is in another shape
 *           is what a scatter is.  A carried value, or a result of a branch, is found by what the
 *           body returns: a reshape of one of these.  O(lets) for each level of bodies.
 * Why not   scatters with several axes: each pass and the code generation would know two kinds.
 *           Kernels that return the view: the value that dies has another type than the scatter's
 *           then, and its elements are at other indices.
 * Example:  for i: a[i, 0] = a[i - 1, 1] of a: f64[N, M] carries f64[N*M].
 */
#include "fusion/group.h"

static Value *
mapped(Value *v, Value *const *map)
{
    return value_is_const(v) ? v : map[v->id];
}

static Value *
shaped(Build *b, Value *v, const Type *t)
{
    return v->type == t ? v : build_reshape(b, v, t->rank, t->dims);
}

/* The type in which the value has been written, if the body returns a reshape of that. */
static const Type *
written_as(const Value *ret)
{
    bool view = !value_is_const(ret) && ret->def && ret->def->op == OP_reshape;
    const Value *v = view ? ret->def->args[0] : NULL;
    bool written = v && !value_is_const(v) && v->def &&
                   (v->def->op == OP_scatter || let_is_flow(v->def));
    return written ? v->type : NULL;
}

/* The body with parameters and results of these types, where there is one. */
static Fn *
body_as(const Fn *old, const Type *const *params, const Type *const *rets)
{
    Value **map;
    Fn *fn = rebuild_open(old, old->stage, &map);
    Build *b = build_new(fn);
    int n = old->body->nrets;
    Value **out = cx_alloc(fn->cx, ((size_t)n + 1) * sizeof *out);
    for (int k = 0; k < fn->nparams; k++) {
        Value *param = fn->params[k];
        param->type = params[k] ? params[k] : param->type;
        map[old->params[k]->id] = shaped(b, param, old->params[k]->type);
    }
    for (int k = 0; k < old->body->n; k++) {
        build_again(b, old->body->lets[k], map);
    }
    for (int k = 0; k < n; k++) {
        out[k] = mapped(old->body->rets[k], map);
        out[k] = rets[k] ? shaped(b, out[k], rets[k]) : out[k];
    }
    fn_results(fn, n, out, old->results);
    fn_free_sizes(fn);
    return fn;
}

/* The types of the results in which bodies write them, by their positions among what bodies return;
 * a row of a loop stays as it is. */
static bool
find_types(const Let *let, Fn *const *bodies, int whiles, int n, const Type **rets)
{
    bool any = false;
    for (int k = whiles; k < whiles + n; k++) {
        for (int j = 0; j < let->nbodies && !rets[k]; j++) {
            rets[k] = written_as(bodies[j]->body->rets[k]);
        }
        rets[k] = rets[k] && fuel_spend(bodies[0]->cx) ? rets[k] : NULL;
        any |= rets[k] != NULL;
    }
    return any;
}

/* The type in which the bodies have operand k, if it is another one: that of the value carried in
 * it, or of a result of the branch that had the same type. */
static const Type *
operand_type(const Let *let, int k, int whiles, int n, const Type *const *rets)
{
    const Type *as = NULL;
    if (let->op == OP_loop) {
        return k >= whiles && k < whiles + n ? rets[k] : NULL;
    }
    for (int j = 0; j < n && k && !as; j++) {
        as = let->args[k]->type == let->res[j]->type ? rets[j] : NULL;
    }
    return as;
}

static void
flow_again(Build *b, const Let *let, Value **map)
{
    Cx *cx = build_cx(b);
    bool loops = let->op == OP_loop;
    int whiles = loops && let_int(let, "while"),
        n = loops ? (int)let_int(let, "carries") : let->nres, nrets = whiles + let->nres;
    Fn *bodies[2];
    const Type **rets = cx_alloc(cx, ((size_t)nrets + 1) * sizeof *rets),
               **types = cx_alloc(cx, ((size_t)let->nres + 1) * sizeof *types);
    Value **args = cx_alloc(cx, ((size_t)let->nargs + 1) * sizeof *args);
    for (int j = 0; j < let->nbodies; j++) {
        bodies[j] = let->bodies[j];
    }
    if (!find_types(let, bodies, whiles, n, rets)) {
        build_again(b, let, map);
        return;
    }
    for (int k = 0; k < let->nargs; k++) {
        const Type *as = operand_type(let, k, whiles, n, rets);
        args[k] = mapped(let->args[k], map);
        args[k] = as ? shaped(b, args[k], as) : args[k];
    }
    for (int k = 0; k < let->nres; k++) {
        types[k] = rets[whiles + k] ? rets[whiles + k] : let->res[k]->type;
    }
    for (int j = 0; j < let->nbodies; j++) {
        const Type **params = cx_alloc(cx, ((size_t)bodies[j]->nparams + 1) * sizeof *params);
        int first = loops ? whiles : 1; /* the operand that is parameter 1 or 0 */
        for (int k = first; k < let->nargs; k++) {
            params[k - first + loops] = operand_type(let, k, whiles, n, rets);
        }
        bodies[j] = body_as(bodies[j], params, rets);
    }
    const Let *to = build_flow(b, let, args, types, bodies);
    for (int k = 0; k < let->nres; k++) {
        map[let->res[k]->id] = shaped(b, to->res[k], let->res[k]->type);
    }
}

Fn *
pass_linearise(Fn *fn)
{
    Value **map;
    bool flows = false;
    for (int k = 0; k < fn->body->n; k++) {
        flows |= let_is_flow(fn->body->lets[k]);
    }
    if (!flows) {
        return fn;
    }
    Fn *out = rebuild_open(fn, fn->stage, &map);
    Build *b = build_new(out);
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        if (let_is_flow(let)) {
            flow_again(b, let, map);
        } else {
            build_again(b, let, map);
        }
    }
    return rebuild_close(fn, out, map);
}
