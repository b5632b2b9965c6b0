/* The verifier's rules of a whole program: V12, V21, V28 and V29, of memory that outlives a let. */
#include "verify.h"

/* ---- V12: results ---- */

/* Has result k, a view, strides in what it shares memory with?  A fresh result that it is no view
 * of must have those promised in what both are views of, which is no parameter: else it is a
 * copy. */
static void
check_strides(Verifier *v, int k)
{
    const Fn *fn = v->fn;
    const Result *r = &fn->results[k];
    const Value *view = fn->body->rets[k];
    bool of_result = r->kind == RESULT_VIEW_RESULT;
    const Value *of = of_result ? fn->body->rets[r->of] : fn->params[r->of];
    const Dim *promised = of_result ? fn->results[r->of].strides : of->strides;
    Dim given[MAX_RANK], strides[MAX_RANK];
    type_dense(v->cx, of->type, given);
    promised = promised ? promised : given;
    bool fresh = of_result && fn->results[r->of].kind == RESULT_FRESH, stays = true;
    if (fresh && !value_is_view_of(view, of)) {
        stays = value_root(of)->def && value_layout_beside(v->cx, of, of, promised, strides);
        for (int ax = 0; ax < of->type->rank && stays; ax++) {
            stays = dim_is(v->cx, of->type->dims[ax], 1) ||
                    stride_same(v->cx, of->type, strides[ax], promised[ax]);
        }
    }
    if (!stays || !value_layout_beside(v->cx, view, of, promised, strides)) {
        verify_broken(v, 12, "result %d has no strides in %s %d", k,
                      of_result ? "result" : "parameter", r->of);
    }
}

static void
check_result(Verifier *v, int k)
{
    const Fn *fn = v->fn;
    const Result *r = &fn->results[k];
    const Type *t = fn->body->rets[k]->type;
    bool of_result = r->kind == RESULT_VIEW_RESULT;
    verify_dims(v, r->strides ? t->rank : 0, r->strides);
    if (r->kind == RESULT_FRESH) {
        return;
    }
    if (r->of < 0 || r->of >= (of_result ? fn->body->nrets : fn->nparams)) {
        verify_broken(v, 12, "result %d names %s %d, which there is not", k,
                      of_result ? "result" : "parameter", r->of);
    }
    if (of_result && r->of >= k) {
        verify_broken(v, 12, "result %d is a view of result %d, which is not before it", k, r->of);
    }
    if (of_result && fn->results[r->of].kind == RESULT_VIEW_RESULT) {
        verify_broken(v, 12, "result %d is a view of result %d, which is a view of a result", k,
                      r->of);
    }
    if (of_result && fn->results[r->of].kind == RESULT_INTO) {
        verify_broken(v, 12, "result %d is a view of result %d, which goes into a parameter", k,
                      r->of);
    }
    const Type *base = of_result ? fn->body->rets[r->of]->type : fn->params[r->of]->type;
    if (base->dtype != t->dtype || (r->kind == RESULT_INTO && base != t)) {
        verify_broken(v, 12, "result %d does not have the type of what it shares memory with", k);
    }
    for (int j = 0; j < k && r->kind == RESULT_INTO; j++) {
        if (fn->results[j].kind == RESULT_INTO && fn->results[j].of == r->of) {
            verify_broken(v, 12, "results %d and %d go into the same parameter", j, k);
        }
    }
    const Value *of = of_result ? fn->body->rets[r->of] : fn->params[r->of];
    if (r->kind != RESULT_INTO && value_root(fn->body->rets[k]) != value_root(of) &&
        !type_is_empty(v->cx, t)) {
        verify_broken(v, 12, "result %d is no view of %s %d", k, of_result ? "result" : "parameter",
                      r->of);
    }
    if (r->kind != RESULT_INTO && !type_is_empty(v->cx, t)) {
        check_strides(v, k);
    }
}

static void
check_results(Verifier *v)
{
    const Block *body = v->fn->body;
    v->let = NULL;
    for (int k = 0; k < body->nrets; k++) {
        if (value_is_const(body->rets[k])) {
            verify_broken(v, 9, "result %d is a constant", k);
        }
    }
    for (int k = 0; k < body->nrets; k++) {
        check_result(v, k);
    }
}

/* ---- V21: results in place ---- */

static void
check_overs(Verifier *v)
{
    const Fn *fn = v->fn;
    const ValueUse *uses = NULL;
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        for (int j = 0; j < let->nres; j++) {
            if (let->res[j]->over) {
                uses = uses ? uses : value_uses(fn);
                const char *why = in_place_wrong(fn, uses, k, let->res[j]);
                v->let = let;
                if (why) {
                    verify_broken(v, 21, "'%s' %s", let->res[j]->name, why);
                }
            }
        }
    }
}

/* ---- V28: promised layouts ---- */

/* Does the let store elements, each in its place? */
static bool
is_stored(const Let *let)
{
    return let->op == OP_kernel || let->op == OP_cat;
}

static void
check_view_layout(Verifier *v, const Value *view)
{
    Cx *cx = v->cx;
    const Type *t = view->type;
    Dim strides[MAX_RANK], dense[MAX_RANK];
    if (!value_layout(cx, view, strides)) {
        verify_broken(v, 28, "'%s' has no strides in '%s': a kernel has to make it", view->name,
                      view->def->args[0]->name);
    }
    type_dense(cx, t, dense);
    const Dim *promised = view->strides ? view->strides : dense;
    for (int ax = 0; ax < t->rank; ax++) {
        if (!dim_is(cx, t->dims[ax], 1) && !stride_same(cx, t, promised[ax], strides[ax])) {
            verify_broken(v, 28, "'%s' promises other strides than it has in '%s'", view->name,
                          view->def->args[0]->name);
        }
    }
}

static void
check_layout(Verifier *v, const Let *let)
{
    v->let = let;
    for (int k = 0; k < let->nres; k++) {
        const Value *made = let->res[k];
        if (value_is_view(made) && v->fn->stage != STAGE_GRAPH) {
            check_view_layout(v, made);
        } else if (is_stored(let) && made->strides && !made->over &&
                   !value_has_places(v->cx, made, made->strides)) {
            verify_broken(v, 28, "'%s' promises strides that may put two elements in one place",
                          made->name);
        }
    }
}

/* Checks the lets in a kernel, at any depth. */
static void
check_inside(Verifier *v, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        for (int j = 0; j < let->nres && let->op != OP_buffer; j++) {
            v->let = let;
            if (let->res[j]->strides) {
                verify_broken(v, 28, "'%s' promises strides, and is in no memory",
                              let->res[j]->name);
            }
        }
        if (let->body) {
            check_inside(v, let->body);
        }
    }
}

static void
check_layouts(Verifier *v)
{
    const Block *body = v->fn->body;
    for (int k = 0; k < body->n; k++) {
        check_layout(v, body->lets[k]);
        if (body->lets[k]->body) {
            check_inside(v, body->lets[k]->body);
        }
    }
}

/* ---- V29: parameters that the call frees ---- */

static void
check_given(Verifier *v)
{
    const Fn *fn = v->fn;
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        for (int j = 0; j < let->nres; j++) {
            const Value *over = let->res[j]->over;
            v->let = let;
            if (let->res[j]->given) {
                verify_broken(v, 29, "'%s' is given, and is no parameter", let->res[j]->name);
            }
            if (over && over->given) {
                verify_broken(v, 29, "'%s' takes the memory of '%s', which the call frees",
                              let->res[j]->name, over->name);
            }
        }
    }
    v->let = NULL;
    for (int k = 0; k < fn->body->nrets; k++) {
        const Result *r = &fn->results[k];
        bool into = r->kind == RESULT_INTO;
        if ((into || r->kind == RESULT_VIEW_PARAM) && fn->params[r->of]->given) {
            verify_broken(v, 29, "result %d %s '%s', which the call frees", k,
                          into ? "goes into" : "is a view of", fn->params[r->of]->name);
        }
    }
}

void
verify_program(Verifier *v)
{
    check_results(v);
    check_overs(v);
    check_layouts(v);
    check_given(v);
}
