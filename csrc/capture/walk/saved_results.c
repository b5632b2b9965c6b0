/* Known results: an operator that is computed again, some of whose results have been saved.
 *
 * The backward may compute layer_norm again although it gets the mean and reciprocal deviation that
 * the forward saved. The builder computes both again, by reductions; here they are replaced by the
 * parameters that hold them, and the reductions are dead.  The bits are the same, since the
 * forward's builder was the same.
 *
 * A node's meta['dlc_known'] has them: a dict from the position of a result to the name of the
 * placeholder.  The program is rebuilt, because the replacement of a value must come before its
 * users. */
#include "walk.h"

#include <string.h>

static Value *
param_named(const Walk *w, const char *name)
{
    for (int k = 0; k < w->fn->nparams; k++) {
        if (strcmp(w->fn->params[k]->name, name) == 0) {
            return w->fn->params[k];
        }
    }
    return NULL;
}

Value *
known_base(Value *v)
{
    while (v->def && v->def->op == OP_reshape && !value_is_const(v->def->args[0])) {
        v = v->def->args[0];
    }
    return v;
}

void
known_read(Walk *w, const Bound *at)
{
    PyObject *known = PyDict_GetItemWithError(attr(w, at->node, py.name.meta), py.name.dlc_known);
    PyObject *key, *name;
    Py_ssize_t next = 0;
    while (known && at->arg.kind == ARG_LIST && PyDict_Next(known, &next, &key, &name)) {
        long k = PyLong_AsLong(key);
        const Arg *a = k >= 0 && k < at->arg.n ? &at->arg.items[k] : NULL;
        Value *param = param_named(w, utf8(w, name));
        if (a && param && a->kind == ARG_TENSOR && a->v->type == param->type &&
            known_base(a->v)->def) {
            w->known = cx_grow(w->cx, w->known, w->nknown, sizeof *w->known);
            w->known[w->nknown].v = known_base(a->v);
            w->known[w->nknown++].param = param;
        }
    }
}

/* The known value for v in the new program, else NULL. */
static Value *
known_value(const Walk *w, Build *b, const Value *v, Value *const *map)
{
    for (int k = 0; k < w->nknown; k++) {
        if (w->known[k].v == v) {
            return build_reshape(b, map[w->known[k].param->id], v->type->rank, v->type->dims);
        }
    }
    return NULL;
}

void
known_replace(Walk *w)
{
    const Fn *old = w->fn;
    int n = old->body->nrets;
    Fn *fn = fn_new(w->cx, old->name, old->stage);
    Value **map = cx_alloc(w->cx, (size_t)(old->nvalues + 1) * sizeof *map);
    Value **results = cx_alloc(w->cx, (size_t)(n + 1) * sizeof *results);
    for (int k = 0; k < old->nsizes; k++) {
        fn_size(fn, old->sizes[k]);
    }
    for (int k = 0; k < old->nparams; k++) {
        const Value *v = old->params[k];
        map[v->id] = fn_param_like(fn, v);
    }
    Build *b = build_new(fn);
    for (int k = 0; k < old->body->n; k++) {
        const Let *let = old->body->lets[k];
        Value *known = let->nres == 1 ? known_value(w, b, let->res[0], map) : NULL;
        if (known) {
            map[let->res[0]->id] = known;
        } else {
            build_again(b, let, map);
        }
    }
    for (int k = 0; k < n; k++) {
        results[k] = map[old->body->rets[k]->id];
    }
    fn_results(fn, n, results, old->results);
    w->fn = fn;
}
