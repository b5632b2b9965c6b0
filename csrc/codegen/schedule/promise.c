/* Results in the layout that the caller was promised.
 *
 * What:     a kernel's result that is a fresh result of the function gets the strides that this
 *           has.
 * Requires: the kernels stage.
 * Ensures:  the kernel stores each element where the caller will look for it.
 * How:      only where the passes of fusion have left the layout open: a value with strides of its
 *           own is read in these by other kernels.
 * Why not   ask for fuel where other results are views of it: they have strides in the promised
 *           layout, and a copy in it would be another tensor than theirs.
 * Example:  `let y: f32[8, 64] = kernel { .. }` with the result `f32[8, 64] strides=[1, 8]` becomes
 *           `let y: f32[8, 64] strides=[1, 8] = kernel { .. }`, and no copy follows.
 */
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

Fn *
rewrite_promise(Fn *fn)
{
    for (int k = 0; k < fn->body->nrets; k++) {
        Value *v = fn->body->rets[k];
        const Result *result = &fn->results[k];
        if (v->def && v->def->op == OP_kernel && !v->strides && result->strides &&
            result->kind == RESULT_FRESH && (has_views(fn, k) || fuel_spend(fn->cx))) {
            v->strides = result->strides;
        }
    }
    return fn;
}
