/* Results in the layout that the caller was promised.
 *
 * What:     a kernel's result that is a fresh result of the function gets the strides that this
 *           has.
 * Requires: the kernels stage.
 * Ensures:  the kernel stores each element where the caller will look for it, and views of the
 *           result say what strides they have then.
 * How:      only where no two elements come to one place, whatever the sizes, and where the passes
 *           of fusion have left the layout open: a value with strides of its own is read in these
 *           by other kernels.  A result stays as it is, to be copied, where a view of it would have
 *           no strides.
 * Why not   ask for fuel where other results are views of it: they have strides in the promised
 *           layout, and a copy in it would be another tensor than theirs.
 * Example:  `let y: f32[8, 64] = kernel { .. }` with the result `f32[8, 64] strides=[1, 8]` becomes
 *           `let y: f32[8, 64] strides=[1, 8] = kernel { .. }`, and no copy follows.
 */
#include <string.h>

#include "codegen/rewrites.h"

static bool
has_views(const Fn *fn, int result)
{
    bool has = false;
    for (int k = 0; k < fn->body->nrets; k++) {
        has |= fn->results[k].kind == RESULT_VIEW_RESULT && fn->results[k].of == result;
    }
    return has;
}

static Value *
view_of(const Let *let, const Value *v)
{
    Value *view = let->nres == 1 ? let->res[0] : NULL;
    return view && value_is_view(view) && value_root(view) == v ? view : NULL;
}

/* Has each view of v outside of kernels strides, as v has them now? */
static bool
views_fit(const Fn *fn, const Value *v)
{
    Dim strides[MAX_RANK];
    bool fit = true;
    for (int k = 0; k < fn->body->n && fit; k++) {
        const Value *view = view_of(fn->body->lets[k], v);
        fit = !view || value_layout(fn->cx, view, strides);
    }
    return fit;
}

/* Who reads a view goes by the strides that it says it has. */
static void
lay_views(const Fn *fn, const Value *v)
{
    Dim strides[MAX_RANK], dense[MAX_RANK];
    for (int k = 0; k < fn->body->n; k++) {
        Value *view = view_of(fn->body->lets[k], v);
        if (view && value_layout(fn->cx, view, strides)) {
            size_t bytes = (size_t)view->type->rank * sizeof *strides;
            type_dense(fn->cx, view->type, dense);
            bool plain = memcmp(strides, dense, bytes) == 0;
            view->strides = plain ? NULL : cx_copy(fn->cx, strides, bytes);
        }
    }
}

Fn *
rewrite_promise(Fn *fn)
{
    for (int k = 0; k < fn->body->nrets; k++) {
        Value *v = fn->body->rets[k];
        const Result *result = &fn->results[k];
        if (v->def && v->def->op == OP_kernel && !v->strides && !v->over && result->strides &&
            result->kind == RESULT_FRESH && value_has_places(fn->cx, v, result->strides)) {
            v->strides = result->strides;
            if (has_views(fn, k) || (views_fit(fn, v) && fuel_spend(fn->cx))) {
                lay_views(fn, v);
            } else {
                v->strides = NULL;
            }
        }
    }
    return fn;
}
