/* The frame of a pass: a new function with the old one's header, and its results in the end. */
#include "group.h"

Fn *
rebuild_open(const Fn *old, Stage stage, Value ***map)
{
    Fn *fn = fn_new(old->cx, old->name, stage);
    *map = cx_alloc(old->cx, ((size_t)old->nvalues + 1) * sizeof **map);
    for (int k = 0; k < old->nsizes; k++) {
        fn_size(fn, old->sizes[k]);
    }
    for (int k = 0; k < old->nparams; k++) {
        const Value *v = old->params[k];
        (*map)[v->id] = fn_param_like(fn, v);
    }
    return fn;
}

void
rebuild_strides(const Let *let, Value *const *map)
{
    for (int k = 0; op_info[let->op].kind == KIND_VIEW && k < let->nres; k++) {
        Value *v = map[let->res[k]->id];
        v->strides = v->strides ? v->strides : let->res[k]->strides;
    }
}

Fn *
rebuild_close(const Fn *old, Fn *fn, Value *const *map)
{
    int n = old->body->nrets;
    Value **rets = cx_alloc(old->cx, ((size_t)n + 1) * sizeof *rets);
    for (int k = 0; k < n; k++) {
        rets[k] = map[old->body->rets[k]->id];
    }
    fn_results(fn, n, rets, old->results);
    return fn;
}
