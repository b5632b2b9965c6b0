/* One node of the graph: tensors, a size, a number or an item of several. */
#include "walk.h"

#include <string.h>

/* operator.getitem(several, k) */
static void
item_build(Walk *w, Bound *at)
{
    PyObject *args = attr(w, at->node, py.name.args);
    const Bound *from = bound_of(w, PyTuple_GET_ITEM(args, 0));
    if (w->direct && from->arg.kind == ARG_TENSOR) {
        index_build(w, at, from);
        return;
    }
    long k = PyLong_AsLong(PyTuple_GET_ITEM(args, 1));
    if (PyErr_Occurred()) {
        python_failed(w);
    }
    if (from->arg.kind != ARG_LIST || k < -from->arg.n || k >= from->arg.n) {
        refuse(w,
               "an item is taken of what is not a tuple of tensors, or the tuple has no such item");
    }
    at->arg = from->arg.items[k < 0 ? k + from->arg.n : k];
    if (at->arg.kind == ARG_TENSOR) {
        at->strides = tensor_strides(w, at->val, at->arg.v->type);
    }
}

/* Bounds that the user promised: torch has drawn its conclusions from them, and the plan checks
 * them where the size is bound. */
static bool
is_promise(const Overload *o)
{
    return o && strncmp(o->name, "aten.sym_constrain_range", 24) == 0;
}

/* A parameter is a value: its contents after a write to it have no name. */
static void
check_reads(Walk *w, const Bound *at)
{
    PyObject *inputs = attr(w, at->node, py.name.all_input_nodes);
    for (Py_ssize_t k = 0; k < PyList_Size(inputs); k++) {
        const Bound *from = bound_of(w, PyList_GET_ITEM(inputs, k));
        if (w->bound[from->storage].written) {
            refuse(w, "it reads an input that the graph has written to before");
        }
    }
}

/* x.item() of an input: with dynamic=True floats come in tensors. */
static void
float_item(Walk *w, const Bound *at, PyObject *target)
{
    if (!w->direct || !PyUnicode_Check(target) ||
        PyUnicode_CompareWithASCIIString(target, "item")) {
        return;
    }
    const Bound *x = bound_of(w, argument(w, at, 0));
    if (x->param >= 0 && x->arg.kind == ARG_TENSOR &&
        x->arg.v->type == type_scalar(w->cx, DT_f64)) {
        float_bind(w, at->val, x->arg.v);
    }
}

static bool
is_number(PyObject *val)
{
    return PyLong_Check(val) || PyFloat_Check(val) || is_a(val, py.SymInt) ||
           is_a(val, py.SymFloat) || is_a(val, py.SymBool);
}

/* x.size() and arithmetic on it: numbers, whatever computes them. */
static bool
are_numbers(PyObject *val)
{
    Py_ssize_t n = PyTuple_Check(val) || PyList_Check(val) ? PySequence_Fast_GET_SIZE(val) : -1;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *item = PySequence_Fast_GET_ITEM(val, k);
        if (!PyLong_Check(item) && !is_a(item, py.SymInt)) {
            return false;
        }
    }
    return n >= 0;
}

/* Does the function give numbers? Its row in torch.def then has the letter s. */
static bool
gives_numbers(const Bound *at)
{
    return at->torch && strchr(at->torch->in, 's');
}

/* May this function be left out where its result is known?  Methods, overloads, arithmetic of
 * Python, torch.Size and torch.sym_*; any other may do more than return numbers. */
static void
check_number(Walk *w, const Bound *at, PyObject *target)
{
    static const char *const modules[] = {"_operator", "math", "builtins"};
    if (!w->direct || at->overload || PyUnicode_Check(target) || gives_numbers(at)) {
        return;
    }
    PyObject *module = attr_or_null(w, target, py.name.__module__);
    PyObject *name = attr_or_null(w, target, py.name.__name__);
    const char *text = name && PyUnicode_Check(name) ? utf8(w, name) : "";
    text += strncmp(text, "_sym_", 5) == 0;     /* torch._sym_sqrt, for math.sqrt */
    bool known = strncmp(text, "sym_", 4) == 0 || strcmp(text, "Size") == 0;
    for (size_t k = 0; module && PyUnicode_Check(module) && k < sizeof modules / sizeof *modules;
         k++) {
        known |= PyUnicode_CompareWithASCIIString(module, modules[k]) == 0;
    }
    if (!known) {
        refuse(w, "it returns a number, and dlc does not know what else the function does");
    }
}

static void
need_dims(Walk *w, const Arg *a)
{
    for (int k = 0; a->kind == ARG_LIST && k < a->n; k++) {
        need_dims(w, &a->items[k]);
    }
    if (a->kind == ARG_DIM) {
        need_dim(w, a->d);
    }
}

/* A result that is a number, or several in a graph taken directly; false: there are tensors. */
static bool
number_build(Walk *w, Bound *at, PyObject *target)
{
    PyObject *val = at->val;
    if (is_a(val, py.SymInt)) {
        at->arg = (Arg){.kind = ARG_DIM, .d = dim_of(w, val)};
        if (w->direct) {
            need_dims(w, &at->arg);
        }
    } else if (is_a(val, py.SymFloat)) {
        float_item(w, at, target);
        at->arg = (Arg){.kind = ARG_NUMBER, .v = number_of(w, val)};
    } else if (is_a(val, py.SymBool)) {
        at->arg = (Arg){.kind = ARG_OTHER};
    } else if (is_number(val)) {
        at->arg = constant_arg(val);
    } else if (w->direct && are_numbers(val)) {
        at->arg = arg_of(w, val);
        need_dims(w, &at->arg);
    } else {
        return false;
    }
    return true;
}

void
function_build(Walk *w, Bound *at, PyObject *target)
{
    if (w->direct && target == py.setitem) {
        set_item(w, at);
        return;
    }
    if (w->direct && mode_build(w, at, target)) {
        return;
    }
    PyObject *val = at->val = !at->val && at->overload && at->overload->silent ? Py_None : at->val;
    if (!val && gives_numbers(at)) {
        at->arg = (Arg){.kind = ARG_OTHER}; /* of constants: Dynamo has put it where it is read */
        return;
    }
    if (!val) {
        refuse(w, "the graph does not say what its result is: the node has no meta['val']");
    }
    if (w->wrote) {
        check_reads(w, at);
    }
    if (is_number(val) || are_numbers(val)) {
        check_number(w, at, target);
    }
    if (is_promise(at->overload)) {
        at->arg = (Arg){.kind = ARG_NONE};
    } else if (scalar_build(w, at) || number_build(w, at, target)) {
        return;
    } else if (target == py.getitem) {
        item_build(w, at);
    } else if (at->overload && strcmp(at->overload->name, "aten.copy_.default") == 0) {
        result_into(w, at);
    } else if (at->torch) {
        torch_build(w, at);
    } else if (!flow_build(w, at)) {
        tensors_build(w, at);
    }
}

/* ---- places ---- */

/* The last frame of a stack trace, "  File "dir/model.py", line 12, in f\n    y = x + 1", as
 * "model.py:12: y = x + 1". */
static const char *
source_of(Walk *w, const char *trace)
{
    const char *file = NULL;
    for (const char *at = trace; (at = strstr(at, "File \"")); at += 6) {
        file = at + 6;
    }
    const char *quote = file ? strchr(file, '"') : NULL;
    if (!quote || strncmp(quote, "\", line ", 8)) {
        return NULL;
    }
    for (const char *at = file; at < quote; at++) {
        file = *at == '/' ? at + 1 : file;
    }
    const char *text = strchr(quote, '\n');
    text = text ? text + 1 + strspn(text + 1, " ") : "";
    return cx_format(w->cx, "%.*s:%d: %.*s", (int)(quote - file), file, atoi(quote + 8),
                     (int)strcspn(text, "\n"), text);
}

static void
place_node(Walk *w, const Bound *at, PyObject *target)
{
    PyObject *meta = attr(w, at->node, py.name.meta), *name = attr(w, at->node, py.name.name);
    PyObject *trace = PyDict_GetItemWithError(meta, py.name.stack_trace);
    if (trace && PyUnicode_Check(trace) && trace != w->last_trace) {
        w->last_trace = trace;
        w->last_source = source_of(w, utf8(w, trace));
    }
    const char *node = utf8(w, name);
    Loc loc = {cx_intern(w->cx, node, strlen(node)), trace ? w->last_source : NULL};
    const char *what = at->overload              ? at->overload->name
                       : at->torch               ? at->torch->name
                       : PyUnicode_Check(target) ? (w->direct ? utf8(w, target) : loc.node)
                                                 : utf8(w, own(w, PyObject_Str(target)));
    w->place = cx_format(w->cx, "%s: ", what);
    build_at(w->b, loc);
    cx_set_loc(w->cx, loc);
}

void
node_build(Walk *w, Bound *at)
{
    const char *op = utf8(w, attr(w, at->node, py.name.op));
    PyObject *target = attr(w, at->node, py.name.target);
    place_node(w, at, target);
    at->displaced = reads_displaced(w, at);
    at->ones = ones_read(w, at) == ONES_EAGER ? ONES_EAGER : ONES_UNKNOWN;
    if (strcmp(op, "placeholder") == 0) {
        placeholder_build(w, at);
        w->in_inputs = false;
    } else if (strcmp(op, "get_attr") == 0) {
        attribute_build(w, at);
    } else if (strcmp(op, "call_function") == 0 || (w->direct && strcmp(op, "call_method") == 0)) {
        function_build(w, at, target);
    } else if (strcmp(op, "output") == 0) {
        modes_check(w);
        if (w->direct) {
            inputs_build(w);
        }
        if (!w->joint) {
            results_build(w, at);
        }
        return;
    } else {
        refuse(w, "nodes of the kind '%s' are not compiled", op);
    }
    if (at->shared && at->arg.kind == ARG_TENSOR) {
        at->arg.v = stored(w, at, at->arg.v);
    }
    at->version = w->bound[at->root].versions;
}
