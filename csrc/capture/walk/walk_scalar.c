/* Numbers that depend on data: x.item(), and assertions about such numbers.
 *
 * A float is a scalar of the program as any other.  An integer may be a size of later values, so a
 * call reads it and binds the size; the ranges that torch has inferred for it are checked there.
 * Any other assertion is a call that raises. */
#include "walk.h"

#include <string.h>

static Value *
scalar_value(Walk *w, Value *v)
{
    for (int ax = 0; ax < v->type->rank; ax++) {
        if (!dim_is(w->cx, v->type->dims[ax], 1)) {
            refuse(w, "item() of a tensor that may have more than one element");
        }
    }
    return build_reshape(w->b, v, 0, NULL);
}

/* The expression of a truth value is Eq(symbol, 1). */
static PyObject *
symbol_in(Walk *w, PyObject *expr)
{
    PyObject *args = attr(w, expr, py.name.args);
    bool pair = strcmp(Py_TYPE(expr)->tp_name, "Equality") == 0 && PyTuple_GET_SIZE(args) == 2;
    expr = pair ? PyTuple_GET_ITEM(args, 0) : expr;
    return attr_true(w, expr, py.name.is_Symbol) ? expr : NULL;
}

/* The symbol of the number that is read: that of the node's value or, if torch has learned that
 * this equals another expression, the original one.  NULL: it has been read before. */
static PyObject *
fresh_symbol(Walk *w, const Bound *at)
{
    PyObject *meta = attr(w, at->node, py.name.meta), *node = attr(w, at->val, py.name.node);
    PyObject *symbol = symbol_in(w, attr(w, node, py.name.expr)), *path;
    if (symbol && !size_known(w, dim_of_expr(w, symbol, attr(w, node, py.name.shape_env)))) {
        return symbol;
    }
    PyObject *bindings = PyDict_GetItemWithError(meta, py.name.unbacked_bindings);
    Py_ssize_t next = 0;
    bool found = bindings && PyDict_Check(bindings) && PyDict_Next(bindings, &next, &symbol, &path);
    return found ? symbol : NULL;
}

/* The call that reads the number.  torch may know that its symbol is another size: that is
 * asserted. */
static void
number_read(Walk *w, Bound *at, PyObject *symbol)
{
    const Type *t = type_scalar(w->cx, DT_i64);
    const Dim *strides = NULL;
    Value *v;
    PyObject *env = attr(w, attr(w, at->val, py.name.node), py.name.shape_env);
    Dim name = dim_of_expr(w, symbol, env);
    call_build(w, at, false, false, 1, &t, &strides, &v);
    size_bind(w, v->def, name);
    if (is_a(at->val, py.SymInt) && dim_of(w, at->val) != name) {
        Dim d = dim_of(w, at->val), forth = dim_sub(w->cx, name, d), back = dim_sub(w->cx, d, name);
        Dim differ = dim_min(w->cx, dim_max(w->cx, forth, back), dim_int(w->cx, 1));
        assert_build(w, dim_sub(w->cx, dim_int(w->cx, 1), differ),
                     "a number that is read is not the expected one");
    }
}

/* In a body: do all that use the number select by it, as the walk of each takes it? */
static bool
only_selects(Walk *w, const Bound *at)
{
    PyObject *users = w->inner ? own(w, PySequence_List(attr(w, at->node, py.name.users))) : NULL;
    Py_ssize_t n = users ? PyList_GET_SIZE(users) : 0;
    bool only = n > 0;
    for (Py_ssize_t k = 0; k < n && only; k++) {
        PyObject *user = PyList_GET_ITEM(users, k), *args = attr(w, user, py.name.args);
        PyObject *target = attr(w, user, py.name.target);
        only = is_a(target, py.OpOverload) && PyTuple_GET_SIZE(args) == 3 &&
               strcmp(overload_of(w, target)->name, "aten.select.int") == 0 &&
               PyTuple_GET_ITEM(args, 2) == at->node && PyTuple_GET_ITEM(args, 0) != at->node;
    }
    return only;
}

static void
item_build(Walk *w, Bound *at)
{
    const Bound *x = bound_of(w, argument(w, at, 0));
    if (x->arg.kind != ARG_TENSOR || dtype_info[x->arg.v->type->dtype].class >= CLASS_COMPLEX) {
        refuse(w, "item() of what is not a tensor of real numbers");
    }
    if (is_a(at->val, py.SymFloat)) {
        float_bind(w, at->val, build_cast(w->b, scalar_value(w, x->arg.v), DT_f64));
        at->arg = (Arg){.kind = ARG_NUMBER, .v = number_of(w, at->val)};
        return;
    }
    if (x->arg.v->type->dtype == DT_i64 && only_selects(w, at)) {
        at->arg = (Arg){.kind = ARG_TENSOR, .v = scalar_value(w, x->arg.v)};
        return;
    }
    PyObject *symbol = fresh_symbol(w, at);
    if (symbol) {
        number_read(w, at, symbol);
    }
    if (is_a(at->val, py.SymInt)) {
        at->arg = (Arg){.kind = ARG_DIM, .d = dim_of(w, at->val)};
        need_dim(w, at->arg.d);
    } else {
        at->arg = (Arg){.kind = ARG_OTHER};
    }
}

/* A condition that torch has proved, or that the plan checks where the size is bound, needs no
 * call. */
static bool
is_certain(Walk *w, PyObject *condition)
{
    PyObject *val = is_a(condition, py.Node) ? bound_of(w, condition)->val : condition;
    return val == Py_True || (is_a(val, py.SymBool) && dim_is(w->cx, truth_of(w, val), 1));
}

bool
scalar_build(Walk *w, Bound *at)
{
    const char *name = at->overload && !w->direct ? at->overload->name : "";
    bool symbolic = is_a(at->val, py.SymInt) || is_a(at->val, py.SymFloat) ||
                    is_a(at->val, py.SymBool);
    if (strcmp(name, "aten._local_scalar_dense.default") == 0 && symbolic) {
        item_build(w, at);
        return true;
    }
    if (strcmp(name, "aten._assert_scalar.default") == 0 && is_certain(w, argument(w, at, 0))) {
        at->arg = (Arg){.kind = ARG_NONE};
        return true;
    }
    return false;
}
