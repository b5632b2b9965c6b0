/* Rows of a loop that are positions.
 *
 * What:     a tensor of rows that a loop reads is computed in the body from the number of the step,
 *           if it consists of positions, sizes and integers.
 * Requires: a verified graph.
 * Ensures:  the same values: integers, whose arithmetic wraps in both places.
 * How:      `for i in range(a, b, s)` is a loop over the rows a, a + s, ..: sums and products of an
 *           iota.  The body computes the same of the number of its step.  O(lets) for each row.
 * Why not   leave it to fusion: a kernel of the function cannot join the body, and an index that is
 *           loaded is checked in each step, where one that is computed may be proved.
 * Example:  iota + 1 as the rows of a loop is `add step, 1` in its body.
 */
#include "fusion/group.h"

/* Is the value, an i64 for each step, made of positions, sizes and integers alone?  seen: by id,
 * what is asked for already; of several operands all must be. */
static bool
is_counted(const Value *v, bool *seen)
{
    const Let *let = value_is_const(v) ? NULL : v->def;
    if (!let) {
        return value_is_const(v) && v->literal.is_int;
    }
    if (v->type->dtype != DT_i64) {
        return false;
    }
    if (seen[v->id]) {
        return true;
    }
    seen[v->id] = true;
    switch (let->op) {
    case OP_iota:
    case OP_size:
        return true;
    case OP_const:
        return let->args[0]->literal.is_int;
    case OP_expand:
        return let->args[0]->type->rank == 0 && is_counted(let->args[0], seen);
    case OP_add:
    case OP_sub:
    case OP_mul:
        return is_counted(let->args[0], seen) && is_counted(let->args[1], seen);
    default:
        return false;
    }
}

/* Builds in the loop's body, for one step, what `made` has for all steps. */
typedef struct {
    Build *b;
    Value *step;
    Value **made; /* by id of the value for each step */
} Counting;

static Value *
counted(const Counting *c, Value *v)
{
    const Let *let = value_is_const(v) ? NULL : v->def;
    Value **made = let ? &c->made[v->id] : NULL;
    if (!let || *made) {
        return let ? *made : v;
    }
    switch (let->op) {
    case OP_iota:
        *made = c->step;
        break;
    case OP_size:
        *made = build_size(c->b, let_dim(let, "dim"));
        break;
    case OP_const:
        *made = build_const(c->b, c->step->type, let->args[0]->literal);
        break;
    case OP_expand:
        *made = counted(c, let->args[0]);
        break;
    default: {
        Value *first = counted(c, let->args[0]);
        *made = build_map(c->b, let->op, first, counted(c, let->args[1]), NULL);
    }
    }
    return *made;
}

static void
drop_param(Fn *fn, int k)
{
    fn->nparams--;
    for (; k < fn->nparams; k++) {
        fn->params[k] = fn->params[k + 1];
        fn->params[k]->result = k;
    }
}

/* The body without the parameter that is the row.  around: the function of the rows. */
static Fn *
body_without(const Fn *around, const Fn *old, int param, Value *rows)
{
    Value **map;
    Fn *fn = rebuild_open(old, old->stage, &map);
    Build *b = build_new(fn);
    Value **made = cx_alloc(fn->cx, (size_t)around->nvalues * sizeof *made);
    map[old->params[param]->id] = counted(&(Counting){b, fn->params[0], made}, rows);
    for (int k = 0; k < old->body->n; k++) {
        build_again(b, old->body->lets[k], map);
    }
    rebuild_close(old, fn, map);
    drop_param(fn, param);
    fn_free_sizes(fn);
    return fn;
}

/* The loop with operands of the new function, fn, and without the rows that are counted. */
static void
build_loop(const Fn *fn, Build *b, const Let *let, Value **map)
{
    Cx *cx = build_cx(b);
    Loop loop = let_loop(let);
    Fn *body = let->bodies[0];
    Value **args = cx_alloc(cx, ((size_t)let->nargs + 1) * sizeof *args);
    const Type **types = cx_alloc(cx, ((size_t)let->nres + 1) * sizeof *types);
    int first = loop.whiles + loop.carries, n = let->nargs, rows = loop.rows;
    for (int k = 0; k < n; k++) {
        args[k] = map[let->args[k]->id];
    }
    for (int k = loop.rows - 1; k >= 0; k--) {
        Value *v = args[first + k];
        bool *seen = cx_alloc(cx, (size_t)fn->nvalues * sizeof *seen);
        if (v->type->rank == 1 && !value_is_const(v) && v->def && is_counted(v, seen) &&
            fuel_spend(cx)) {
            body = body_without(fn, body, 1 + loop.carries + k, v);
            for (int j = first + k; j + 1 < n; j++) {
                args[j] = args[j + 1];
            }
            n--;
            rows--;
        }
    }
    const Attr attrs[] = {attr_int(cx, "carries", loop.carries), attr_int(cx, "rows", rows),
                          attr_int(cx, "while", loop.whiles), *let_attr(let, "steps")};
    for (int k = 0; k < let->nres; k++) {
        types[k] = let->res[k]->type;
    }
    build_at(b, let->loc);
    Let *to = build_let(b, OP_loop, n, args, attrs, NULL, let->nres, types, NULL);
    to->nsizes = let->nsizes;
    to->sizes = cx_copy(cx, let->sizes, (size_t)let->nsizes * sizeof *let->sizes);
    let_bodies(cx, to, 1, &body);
    for (int k = 0; k < let->nres; k++) {
        map[let->res[k]->id] = to->res[k];
    }
}

Fn *
pass_count(Fn *fn)
{
    Value **map;
    bool any = false;
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        any |= let->op == OP_loop && let_int(let, "rows");
    }
    if (!any) {
        return fn;
    }
    Fn *out = rebuild_open(fn, fn->stage, &map);
    Build *b = build_new(out);
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        if (let->op == OP_loop && let_int(let, "rows")) {
            build_loop(out, b, let, map);
        } else {
            build_again(b, let, map);
        }
    }
    return rebuild_close(fn, out, map);
}
