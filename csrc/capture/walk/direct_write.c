/* Values that the graph itself changes: x.add_(y), x[0] = y.
 *
 * The IR has no writes.  A write to a node gives its root, the node whose storage it is in, a new
 * value, and from then on every node in that storage is out of date: bound_of() makes its value
 * again when it is next read.  A write through a view is put back into the root: the views between
 * them are applied to the old value one by one, and undone in reverse with the new one in place.
 * The final value of an input is a result that goes into its memory. */
#include "walk.h"

enum { MAX_VIEWS = 32 };

/* Applies the view `view` to x instead of its own operand. */
static Value *
view_again(Walk *w, const Let *view, Value *x)
{
    const Type *t = view->res[0]->type;
    switch (view->op) {
    case OP_reshape:
        return build_reshape(w->b, x, t->rank, t->dims);
    case OP_permute:
        return build_permute(w->b, x, let_attr(view, "perm")->axes);
    case OP_slice: {
        int axis = (int)let_int(view, "axis");
        return build_slice(w->b, x, axis, let_dim(view, "start"), let_dim(view, "step"),
                           t->dims[axis]);
    }
    default:
        refuse(w, "it writes in place through a view that repeats or skips elements");
    }
}

/* x with the elements of its view replaced by v. */
static Value *
put_back(Walk *w, const Let *view, Value *x, Value *v)
{
    int back[MAX_RANK];
    if (view->op == OP_reshape) {
        return build_reshape(w->b, v, x->type->rank, x->type->dims);
    }
    if (view->op == OP_permute) {
        const Attr *perm = let_attr(view, "perm");
        for (int ax = 0; ax < perm->n; ax++) {
            back[perm->axes[ax]] = ax;
        }
        return build_permute(w->b, v, back);
    }
    if (!dim_is(w->cx, let_dim(view, "step"), 1)) {
        refuse(w, "it writes in place to a slice with a step");
    }
    Aten n = {.b = w->b, .cx = w->cx, .number = w->number, .type = x->type};
    int64_t axis = let_int(view, "axis");
    Dim start = let_dim(view, "start"), end = dim_add(w->cx, start, v->type->dims[axis]);
    const Arg args[6] = {{.kind = ARG_TENSOR, .v = x}, {.kind = ARG_TENSOR, .v = v},
                         {.kind = ARG_INT, .i = axis}, {.kind = ARG_DIM, .d = start},
                         {.kind = ARG_DIM, .d = end},  {.kind = ARG_INT, .i = 1}};
    Value *made = as_overload(&n, "aten.slice_scatter.default", x->type, 6, args);
    if (!made) {
        refuse(w, "it writes in place to a slice whose size is not known");
    }
    return made;
}

/* Finds the views from the root to x, and to x[index], on a stand-in in a separate function, where
 * nothing folds and nothing remains.  Returns their number; the first one is applied to the
 * root. */
static int
views_between(Walk *w, Bound *x, PyObject *index, const Let **views)
{
    Bound *root = &w->bound[x->root];
    Fn *fn = w->fn;
    Build *b = w->b;
    Arg held = root->arg;
    w->fn = fn_new(w->cx, "views", STAGE_GRAPH);
    w->b = build_new(w->fn);
    Value *base = fn_param(w->fn, "x", held.v->type, NULL), *v = base;
    root->arg.v = base;
    root->version = ++root->versions;
    if (x != root) {
        renew(w, x);
        v = x->arg.v;
    }
    v = index ? index_view(w, v, index, NULL) : v;
    int n = 0, count;
    for (const Value *at = v; at && at != base; at = at->def->args[0]) {
        if (!value_is_view(at) || n == MAX_VIEWS) {
            refuse(w, "it writes in place to the result of a function that is not a plain view");
        }
        views[n++] = at->def;
    }
    for (count = 0; count < n / 2; count++) {
        const Let *other = views[count];
        views[count] = views[n - 1 - count];
        views[n - 1 - count] = other;
    }
    w->fn = fn;
    w->b = b;
    root->arg = held;
    root->version = ++root->versions;
    return v ? n : -1;
}

/* An input is written to at the end.  Then its memory must be its own, element by element: no other
 * input may be in it, and no element may occur twice. */
static void
check_input(Walk *w, const Bound *root)
{
    if (root->arg.kind != ARG_TENSOR || (!root->written && root->arg.v->def)) {
        refuse(w, "it writes in place to an input that is negated or conjugated when it is read");
    }
    if (root->strides) {
        refuse(w, "it writes in place to an input that is not dense and row-major");
    }
    for (int k = 0; k < w->nbound; k++) {
        const Bound *other = &w->bound[k];
        if (other != root && other->param >= 0 && &w->bound[other->root] == root) {
            refuse(w, "it writes in place to an input that shares its storage with another input");
        }
    }
}

/* A lazily negated or conjugated tensor has a separate value, which a write would leave
 * unchanged. */
static void
check_lazy(Walk *w, const Bound *x)
{
    for (int k = 0; k < w->nbound; k++) {
        const Bound *other = &w->bound[k];
        if (other->storage == x->storage && other->root != x->root) {
            refuse(w,
                   "it writes in place to a tensor that is negated or conjugated when it is read");
        }
    }
}

void
write_value(Walk *w, Bound *x, PyObject *index, const Arg *to)
{
    const Let *views[MAX_VIEWS];
    Value *values[MAX_VIEWS + 1];
    Bound *root = &w->bound[x->root];
    check_lazy(w, x);
    if (root->constant) {
        refuse(w, "it writes in place to a constant of the graph");
    }
    if (root->param >= 0) {
        check_input(w, root);
    }
    if (x->arg.kind != ARG_TENSOR || root->arg.kind != ARG_TENSOR) {
        refuse(w, "it writes in place to one of several results of an operator");
    }
    int n = views_between(w, x, index, views);
    if (n < 0) {
        refuse(w, "it writes in place to a part that is not known to lie inside its tensor");
    }
    values[0] = root->arg.v;
    for (int k = 0; k < n; k++) {
        values[k + 1] = view_again(w, views[k], values[k]);
    }
    Value *v = assigned(w, to, values[n]->type);
    for (int k = n - 1; k >= 0; k--) {
        v = put_back(w, views[k], values[k], v);
    }
    root->arg.v = root->shared ? stored(w, root, v) : v;
    root->version = ++root->versions;
    root->written |= root->param >= 0;
}

/* x[mask] = a number, or values that do not depend on the place.  false: it is not that. */
static bool
masked_write(Walk *w, Bound *x, PyObject *index, const Arg *to)
{
    const Arg mask = is_a(index, py.Node) ? arg_of(w, index) : (Arg){.kind = ARG_NONE};
    const Type *t = x->arg.kind == ARG_TENSOR ? x->arg.v->type : NULL;
    if (!t || dtype_info[t->dtype].class >= CLASS_COMPLEX || mask.kind != ARG_TENSOR ||
        mask.v->type->dtype != DT_bool || !mask.v->type->rank ||
        !(arg_is_number(to) || to->kind == ARG_TENSOR)) {
        return false;
    }
    Aten n = {.b = w->b, .cx = w->cx, .number = w->number, .type = t};
    const Type *scalar = type_scalar(w->cx, t->dtype);
    Value *v = to->kind == ARG_TENSOR ? to->v : assigned(w, to, scalar);
    const Arg args[4] = {x->arg,
                         {.kind = ARG_LIST, .n = 1, .items = &mask},
                         {.kind = ARG_TENSOR, .v = v},
                         {.kind = ARG_BOOL}};
    v = as_overload(&n, "aten.index_put.default", t, 4, args);
    if (v) {
        write_value(w, x, NULL, &(Arg){.kind = ARG_TENSOR, .v = v});
    }
    return v != NULL;
}

/* x[:, positions] = v: x with the elements that are written. */
static Value *
put_gather(Walk *w, const Bound *x, PyObject *index, const Arg *v)
{
    const Type *t = x->arg.kind == ARG_TENSOR ? x->arg.v->type : NULL;
    if (!t || dtype_info[t->dtype].class >= CLASS_COMPLEX ||
        (v->kind == ARG_TENSOR && v->v->type->dtype != t->dtype)) {
        refuse(w, "it writes to x[positions] a value of another dtype than x, or x is complex");
    }
    Aten n = {.b = w->b, .cx = w->cx, .number = w->number, .type = t, .nargs = 1, .args = &x->arg};
    Arg list = index_list(w, &n, index);
    Value *to = v->kind == ARG_TENSOR ? v->v : assigned(w, v, type_scalar(w->cx, t->dtype));
    const Arg args[4] = {x->arg, list, {.kind = ARG_TENSOR, .v = to}, {.kind = ARG_BOOL}};
    Value *made = list.kind == ARG_LIST ? as_overload(&n, "aten.index_put.default", t, 4, args)
                                        : NULL;
    if (!made) {
        refuse(w, "it writes to x[positions] in a form that is not compiled");
    }
    return made;
}

void
set_item(Walk *w, Bound *at)
{
    Bound *x = bound_of(w, argument(w, at, 0));
    PyObject *index = argument(w, at, 1);
    Arg v = arg_of(w, argument(w, at, 2));
    at->arg = (Arg){.kind = ARG_NONE};
    if (masked_write(w, x, index, &v)) {
        return;
    }
    if (index_is_view(w, index)) {
        write_value(w, x, index, &v);
        return;
    }
    v = (Arg){.kind = ARG_TENSOR, .v = put_gather(w, x, index, &v)};
    write_value(w, x, NULL, &v);
}

void
renew(Walk *w, Bound *at)
{
    const Bound *root = &w->bound[at->root];
    if (at == root) {
        return;
    }
    const char *place = w->place;
    Loc loc = build_loc(w->b);
    if (at->same >= 0) {
        const Bound *same = bound_of(w, w->bound[at->same].node);
        at->arg = same->arg;
        at->strides = same->strides;
    } else {
        function_build(w, at, attr(w, at->node, py.name.target));
    }
    at->version = root->versions;
    w->place = place;
    build_at(w->b, loc);
}
