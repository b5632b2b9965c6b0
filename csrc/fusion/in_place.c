/* In place: what becomes of a parameter is stored where the parameter is.
 *
 * What:     a kernel's result that goes into a parameter takes its memory ("over"), where
 *           ir/alias.c says that it may; its binder has the parameter's strides then.
 * Requires  verified kernels;
 * and ensures: what each parameter is in the end, and what is returned.  A function that fails may
 * have
 *           changed parameters by then, as an eager program has; a kernel that looks something up
 *           stores elsewhere, so that it changes all of a parameter or nothing, and a scatter what
 *           eager's does, or less.
 * How:      for each result into a parameter, from the table of who reads which parameter.
 *           O(lets).
 * Why not   always into memory of its own, copied in the end: an optimiser's step moves twice the
 *           bytes, and one row written to a cache of two thousand moves the cache.
 * Example:  p.sub_(g * 0.1): let p1: f32[N] over p = kernel { .. }
 */
#include "fusion.h"

typedef struct {
    Fn *fn;
    ParamUse *uses;
    int *place;                 /* by Value.id of a kernel's result: its let's position + 1 */
    int *returned;              /* by Value.id: how many results it is */
    bool *viewed;               /* by Value.id: a view at the top level is of it */
    bool *shared;               /* by Value.id: results of a call may share its memory */
} InPlace;

/* Could the kernel stop when its results are half stored?  A half-done scatter is allowed: eager
 * leaves the same, or more. */
static bool
may_fail(const Let *let)
{
    bool fails = let->nargs && op_reads(let->op, 0) == 'd';
    for (int k = 0; let->body && k < let->body->n && !fails; k++) {
        fails = may_fail(let->body->lets[k]);
    }
    return fails;
}

static void
scan(InPlace *s)
{
    const Fn *fn = s->fn;
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        for (int j = 0; let->op == OP_kernel && j < let->nres; j++) {
            s->place[let->res[j]->id] = k + 1;
        }
        for (int j = 0; let->op == OP_call && let_int(let, "shares") && j < let->nargs; j++) {
            const Value *root = value_root(let->args[j]);
            if (root) {
                s->shared[root->id] = true;
            }
        }
        if (op_info[let->op].kind == KIND_VIEW && !value_is_const(let->args[0])) {
            s->viewed[let->args[0]->id] = true;
        }
    }
    for (int k = 0; k < fn->body->nrets; k++) {
        s->returned[fn->body->rets[k]->id]++;
    }
}

static void
place(InPlace *s, int k)
{
    Cx *cx = s->fn->cx;
    Value *v = s->fn->body->rets[k];
    const Value *param = s->fn->params[s->fn->results[k].of];
    int at = s->place[v->id] - 1;
    if (at < 0 || may_fail(v->def) || s->returned[v->id] > 1 || s->shared[v->id]) {
        return;
    }
    const Dim *strides = v->strides;
    if (s->viewed[v->id] && strides != param->strides) {
        return;                 /* the views say how the value would are in memory of its own */
    }
    v->over = param;
    v->strides = param->strides;
    if (in_place_wrong(s->fn, s->uses, at, v) || !fuel_spend(cx)) {
        v->over = NULL;
        v->strides = strides;
    }
}

Fn *
pass_in_place(Fn *fn)
{
    Cx *cx = fn->cx;
    size_t n = (size_t)fn->nvalues + 1;
    InPlace s = {
        .fn = fn,
        .uses = param_uses(fn),
        .place = cx_alloc(cx, n * sizeof *s.place),
        .returned = cx_alloc(cx, n * sizeof *s.returned),
        .viewed = cx_alloc(cx, n * sizeof *s.viewed),
        .shared = cx_alloc(cx, n * sizeof *s.shared),
    };
    scan(&s);
    for (int k = 0; k < fn->body->nrets; k++) {
        if (fn->results[k].kind == RESULT_INTO && !value_is_const(fn->body->rets[k])) {
            place(&s, k);
        }
    }
    return fn;
}
