/* A node as a call: of its own target, or of one that the walk needs.
 *
 * The arguments stay Python objects, a template in which slots stand for operands ($), sizes (%)
 * and run-time floats; the let's text says the same for people. */
#include "walk.h"

#include <string.h>

typedef struct {
    Walk *w;
    Value **args;
    Dim *dims;
    int nargs, ndims;
    Needs needs;                /* of the operands */
    bool images;                /* its image is channels last: image_layout.c */
    bool laid;                  /* the operator may lay its results out otherwise than eager's */
    Text text;
} Template;

static int
operand_slot(Template *t, Value *v)
{
    for (int k = 0; k < t->nargs; k++) {
        if (t->args[k] == v) {
            return k;
        }
    }
    t->args = cx_grow(t->w->cx, t->args, t->nargs, sizeof *t->args);
    t->args[t->nargs] = v;
    return t->nargs++;
}

static int
dim_slot(Template *t, Dim d)
{
    for (int k = 0; k < t->ndims; k++) {
        if (t->dims[k] == d) {
            return k;
        }
    }
    t->dims = cx_grow(t->w->cx, t->dims, t->ndims, sizeof *t->dims);
    t->dims[t->ndims] = d;
    return t->ndims++;
}

static PyObject *
dim_object(Template *t, Dim d)
{
    int64_t value;
    if (dim_is_int(t->w->cx, d, &value)) {
        text_add(&t->text, "%lld", (long long)value);
        return own(t->w, PyLong_FromLongLong(value));
    }
    int k = dim_slot(t, d);
    text_add(&t->text, "%%%d", k);
    return own(t->w, slot_new('d', k));
}

/* A dim that is 0 or 1, as a bool. */
static PyObject *
truth_object(Template *t, Dim d)
{
    int64_t value;
    if (dim_is_int(t->w->cx, d, &value)) {
        text_add(&t->text, value ? "True" : "False");
        return value ? Py_True : Py_False;
    }
    int k = dim_slot(t, d);
    text_add(&t->text, "bool %%%d", k);
    return own(t->w, slot_new('b', k));
}

static PyObject *template_of(Template *t, PyObject *o);

/* Equal texts mean equal calls, so things without a text that tells them apart are numbered. */
static void
object_text(Template *t, PyObject *o)
{
    Walk *w = t->w;
    int k = 0;
    while (k < w->nobjects && w->objects[k] != o) {
        k++;
    }
    if (k == w->nobjects) {
        w->objects = cx_grow(w->cx, w->objects, k, sizeof *w->objects);
        w->objects[w->nobjects++] = o;
    }
    text_add(&t->text, "%s#%d", Py_TYPE(o)->tp_name, k);
}

/* Numbers, names and torch's own enumerations read well as they are. */
static void
plain_text(Template *t, PyObject *o)
{
    const char *type = Py_TYPE(o)->tp_name;
    bool plain = o == Py_None || PyLong_Check(o) || PyFloat_Check(o) || PyUnicode_Check(o) ||
                 is_a(o, py.torch_dtype) || strcmp(type, "torch.device") == 0 ||
                 strcmp(type, "torch.layout") == 0 || strcmp(type, "torch.memory_format") == 0;
    if (plain) {
        text_add(&t->text, "%s", utf8(t->w, own(t->w, PyObject_Repr(o))));
    } else {
        object_text(t, o);
    }
}

static PyObject *
body_object(Walk *w, PyObject *module)
{
    return w->bodies ? own(w, PyObject_CallOneArg(w->bodies, module)) : module;
}

/* The object for a node: a slot, or the objects of several results. */
static PyObject *
bound_object(Template *t, const Bound *b)
{
    int k;
    Layout layout;
    switch (b->arg.kind) {
    case ARG_TENSOR:
    case ARG_NUMBER:
        t->laid |= b->arg.kind == ARG_TENSOR &&
                   (t->w->direct ? b->storage != b->root
                                 : is_lazy(t->w, b->val, b->arg.v->type->dtype));
        layout = t->nargs ? t->needs.others : t->needs.first;
        k = operand_slot(t, b->arg.kind != ARG_TENSOR ? b->arg.v
                            : t->images               ? images_operand(t->w, b, t->nargs)
                                                      : laid_out(t->w, b, layout));
        text_add(&t->text, "$%d", k);
        return own(t->w, slot_new(b->arg.kind == ARG_TENSOR ? 'a' : 'f', k));
    case ARG_DIM:
        return dim_object(t, b->arg.d);
    case ARG_INT:
        return dim_object(t, dim_int(t->w->cx, b->arg.i));
    case ARG_BOOL:
        return truth_object(t, dim_int(t->w->cx, b->arg.i));
    case ARG_NONE:
        text_add(&t->text, "None");
        return Py_None;
    case ARG_OTHER:
        if (is_a(b->val, py.SymBool)) {
            return truth_object(t, truth_of(t->w, b->val));
        }
        if (is_a(b->val, py.GraphModule)) {
            object_text(t, b->val);
            return body_object(t->w, b->val);
        }
        break;
    default:
        break;
    }
    refuse(t->w, "it takes a value that is known only in Python");
}

static PyObject *
sequence_object(Template *t, PyObject *o, bool is_list)
{
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    PyObject **items = PySequence_Fast_ITEMS(o);
    PyObject *out = own(t->w, is_list ? PyList_New(n) : PyTuple_New(n));
    text_add(&t->text, is_list ? "[" : "(");
    for (Py_ssize_t k = 0; k < n; k++) {
        text_add(&t->text, k ? ", " : "");
        PyObject *item = Py_NewRef(template_of(t, items[k]));
        if (is_list) {
            PyList_SET_ITEM(out, k, item);
        } else {
            PyTuple_SET_ITEM(out, k, item);
        }
    }
    text_add(&t->text, is_list ? "]" : ")");
    return out;
}

static PyObject *
dict_object(Template *t, PyObject *o, const char *open, const char *close)
{
    PyObject *key, *value, *out = own(t->w, PyDict_New());
    Py_ssize_t at = 0;
    const char *comma = "";
    text_add(&t->text, "%s", open);
    while (PyDict_Next(o, &at, &key, &value)) {
        text_add(&t->text, "%s%s=", comma, PyUnicode_Check(key) ? utf8(t->w, key) : "?");
        comma = ", ";
        if (PyDict_SetItem(out, key, template_of(t, value)) < 0) {
            python_failed(t->w);
        }
    }
    text_add(&t->text, "%s", close);
    return out;
}

static PyObject *
slice_object(Template *t, const PySliceObject *slice)
{
    PyObject *start = template_of(t, slice->start);
    text_add(&t->text, ":");
    PyObject *stop = template_of(t, slice->stop);
    text_add(&t->text, ":");
    return own(t->w, PySlice_New(start, stop, template_of(t, slice->step)));
}

static PyObject *
template_of(Template *t, PyObject *o)
{
    if (is_a(o, py.Node)) {
        return bound_object(t, bound_of(t->w, o));
    }
    if (PyList_Check(o) || PyTuple_CheckExact(o)) {
        return sequence_object(t, o, PyList_Check(o));
    }
    if (PyDict_Check(o)) {
        return dict_object(t, o, "{", "}");
    }
    if (PySlice_Check(o)) {
        return slice_object(t, (PySliceObject *)o);
    }
    if (is_a(o, py.SymInt)) {
        return dim_object(t, dim_of(t->w, o));
    }
    if (is_a(o, py.SymBool)) {
        return truth_object(t, truth_of(t->w, o));
    }
    if (is_a(o, py.SymFloat)) {
        refuse(t->w, "it takes a number that is known only in Python");
    }
    plain_text(t, o);
    return o;
}

/* A string of its own for the call site. */
static char *
keep_text(Walk *w, const char *text)
{
    if (!text) {
        return NULL;
    }
    char *kept = PyMem_Malloc(strlen(text) + 1);
    if (!kept) {
        PyErr_NoMemory();
        python_failed(w);
    }
    return strcpy(kept, text);
}

static int
site_new(Walk *w, PyObject *target, PyObject *args, PyObject *kwargs, bool aliasing)
{
    Captured *out = w->out;
    CallSite *sites = PyMem_Realloc(out->sites, (size_t)(out->nsites + 1) * sizeof *sites);
    if (!sites) {
        PyErr_NoMemory();
        python_failed(w);
    }
    out->sites = sites;
    Loc loc = build_loc(w->b);
    CallSite *site = &sites[out->nsites];
    *site = (CallSite){.target = Py_NewRef(target),
                       .args = Py_NewRef(args),
                       .kwargs = kwargs ? Py_NewRef(kwargs) : NULL};
    out->nsites++;
    site->node = keep_text(w, loc.node);
    site->source = keep_text(w, loc.source);
    w->aliasing = cx_grow(w->cx, w->aliasing, out->nsites - 1, sizeof *w->aliasing);
    w->aliasing[out->nsites - 1] = aliasing;
    return out->nsites - 1;
}

static void
move_site(void *arg, Let *let)
{
    const int *first = arg; /* the number of the first that comes over */
    for (int k = 0; let->op == OP_call && k < let->nattrs; k++) {
        bool site = strcmp(let->attrs[k].key, "site") == 0;
        let->attrs[k].i += site ? *first : 0;
    }
    for (int k = 0; k < let->nbodies; k++) {
        fn_each_let(let->bodies[k], move_site, arg);
    }
}

void
sites_take(Walk *w, Walk *from)
{
    Captured *out = w->out, *in = from->out;
    size_t n = (size_t)(out->nsites + in->nsites);
    CallSite *sites = PyMem_Realloc(out->sites, (n + 1) * sizeof *sites);
    if (!sites) {
        PyErr_NoMemory();
        python_failed(w);
    }
    out->sites = sites;
    int first = out->nsites;
    for (int k = 0; k < in->nsites; k++) {
        w->aliasing = cx_grow(w->cx, w->aliasing, first + k, sizeof *w->aliasing);
        w->aliasing[first + k] = from->aliasing[k];
    }
    fn_each_let(in->fn, move_site, &first);
    for (int k = 0; k < in->nsites; k++) {      /* nothing fails here: a site has one owner */
        sites[out->nsites++] = in->sites[k];
    }
    in->nsites = 0;
}

/* The size symbols in a result's type that nothing has bound yet: the call's own. */
typedef struct {
    Walk *w;
    Let *let;
} NewSizes;

void
size_bind(Walk *w, Let *call, Dim name)
{
    if (!size_known(w, name)) {
        size_add(w, name);
        call->sizes = cx_grow(w->cx, call->sizes, call->nsizes, sizeof(Dim));
        call->sizes[call->nsizes++] = name;
    }
}

static void
bind_new_size(void *arg, Dim name)
{
    NewSizes *s = arg;
    size_bind(s->w, s->let, name);
}

static void
bind_new_sizes(Walk *w, Let *let)
{
    NewSizes s = {w, let};
    for (int k = 0; k < let->nres; k++) {
        const Type *t = let->res[k]->type;
        for (int ax = 0; ax < t->rank; ax++) {
            dim_names(w->cx, t->dims[ax], bind_new_size, &s);
        }
    }
}

/* positions: those of the results in the target's return value. */
static Let *
call_let(Walk *w, Template *t, const char *target, int at, bool effect, bool shares, int n,
         const int *positions, const Type *const *types, const Dim *const *strides)
{
    CallSite *site = &w->out->sites[at];
    site->positions = PyMem_Calloc((size_t)n + 1, sizeof *site->positions);
    site->dtypes = PyMem_Calloc((size_t)n + 1, sizeof *site->dtypes);
    if (!site->positions || !site->dtypes) {
        PyErr_NoMemory();
        python_failed(w);
    }
    for (site->nresults = 0; site->nresults < n; site->nresults++) {
        site->positions[site->nresults] = positions[site->nresults];
        site->dtypes[site->nresults] = types[site->nresults]->dtype;
    }
    const CallAttrs call = {
        .target = target,
        .args = t->text.text ? t->text.text : "",
        .dims = t->dims,
        .ndims = t->ndims,
        .site = at,
        .effect = effect,
        .shares = shares,
        .laid = t->laid,
    };
    Let *let = build_call(w->b, &call, t->nargs, t->args, n, types, strides);
    bind_new_sizes(w, let);
    return let;
}

/* A short name for the let: the overload's, or the callable's own. */
static const char *
target_name(Walk *w, PyObject *target)
{
    const Overload *o = overload_of(w, target);
    if (o) {
        return o->name;
    }
    PyObject *name = attr_or_null(w, target, py.name.__name__);
    return name && PyUnicode_Check(name) ? utf8(w, name) : Py_TYPE(target)->tp_name;
}

void
call_build(Walk *w, const Bound *at, bool effect, bool aliasing, int n, const Type *const *types,
           const Dim *const *strides, Value **res)
{
    const Dim *last = n == 1 && !at->twin.target ? images_last(w, at, types[0]) : NULL;
    Template t = {
        .w = w, .needs = layout_needed(w, at, aliasing), .images = last, .text = {.cx = w->cx}};
    const Twin *twin = &at->twin;
    PyObject *target = twin->target ? twin->target : attr(w, at->node, py.name.target);
    PyObject *args = twin->args ? twin->args : attr(w, at->node, py.name.args);
    if (PyUnicode_Check(target)) {
        target = attr(w, py.Tensor, target);    /* a method */
    }
    /* it copies the layout of an operand that eager may lay out otherwise */
    t.laid = target == py.clone;
    PyObject *kwargs = twin->kwargs ? twin->kwargs : attr(w, at->node, py.name.kwargs);
    PyObject *given = sequence_object(&t, args, false), *named = NULL;
    if (PyDict_Size(kwargs)) {
        named = dict_object(&t, kwargs, " ", "");
    }
    const Type **made = cx_alloc(w->cx, (size_t)(n + 1) * sizeof *made);
    const Dim **layout = cx_alloc(w->cx, (size_t)(n + 1) * sizeof *layout);
    int count = 0, *positions = cx_alloc(w->cx, (size_t)(n + 1) * sizeof *positions);
    bool many = PyTuple_Check(at->val) || PyList_Check(at->val);
    for (int k = 0; k < n; k++) {
        if (types[k]) {
            made[count] = types[k];
            layout[count] = last ? last : strides[k];
            positions[count++] = many ? k : -1;
        }
    }
    int site = site_new(w, target, given, named, aliasing);
    bool shares = aliasing || (at->overload && at->overload->maybe_alias);
    Let *let = call_let(w, &t, target_name(w, target), site, effect, shares, count, positions, made,
                        layout);
    for (int k = 0, from = 0; k < n; k++) {
        res[k] = types[k] ? let->res[from++] : NULL;
    }
}

Value *
call_on(Walk *w, PyObject *target, Value *v, PyObject *rest, const Type *t, const Dim *strides)
{
    Template call = {.w = w, .laid = target == py.clone, .text = {.cx = w->cx}};
    PyObject *args;
    if (v) {
        PyObject *first = own(w, PyTuple_Pack(1, own(w, slot_new('a', operand_slot(&call, v)))));
        text_add(&call.text, "$0");
        args = rest ? own(w, PySequence_Concat(first, rest)) : first;
    } else {
        args = template_of(&call, rest);
    }
    bool shares = target != py.clone;
    int site = site_new(w, target, args, NULL, shares), whole = -1;
    return call_let(w, &call, target_name(w, target), site, false, shares, 1, &whole, &t, &strides)
        ->res[0];
}

void
assert_build(Walk *w, Dim truth, const char *message)
{
    Template call = {.w = w, .text = {.cx = w->cx}};
    PyObject *condition = truth_object(&call, truth);
    PyObject *args = own(w, Py_BuildValue("(Os)", condition, message));
    int site = site_new(w, py.assert_scalar, args, NULL, false);
    call_let(w, &call, target_name(w, py.assert_scalar), site, true, false, 0, NULL, NULL, NULL);
}

/* ---- sizes that Python computes ---- */

static PyObject *expr_object(Template *t, PyObject *expr, PyObject *shape_env);

static PyObject *
symbol_object(Template *t, PyObject *symbol, PyObject *shape_env)
{
    if (attr_true(t->w, symbol, py.name.is_integer)) {
        Dim d = dim_of_expr(t->w, symbol, shape_env);
        need_dim(t->w, d);
        return dim_object(t, d);
    }
    int k = operand_slot(t, float_symbol(t->w, symbol));
    text_add(&t->text, "float $%d", k);
    return own(t->w, slot_new('f', k));
}

/* (name, operand, ..), as dlc/sizes.py reads it. */
static PyObject *
function_object(Template *t, PyObject *expr, PyObject *shape_env)
{
    Walk *w = t->w;
    PyObject *args = attr(w, expr, py.name.args);
    PyObject *name = own(w, PyUnicode_FromString(Py_TYPE(expr)->tp_name));
    if (!PyDict_GetItemWithError(py.size_functions, name)) {
        refuse(w, "a size cannot be written in whole numbers: %s",
               utf8(w, own(w, PyObject_Str(expr))));
    }
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    PyObject *out = own(w, PyTuple_New(n + 1));
    PyTuple_SET_ITEM(out, 0, Py_NewRef(name));
    text_add(&t->text, "%s(", utf8(w, name));
    for (Py_ssize_t k = 0; k < n; k++) {
        text_add(&t->text, k ? ", " : "");
        PyObject *item = expr_object(t, PyTuple_GET_ITEM(args, k), shape_env);
        PyTuple_SET_ITEM(out, k + 1, Py_NewRef(item));
    }
    text_add(&t->text, ")");
    return out;
}

static PyObject *
expr_object(Template *t, PyObject *expr, PyObject *shape_env)
{
    Walk *w = t->w;
    if (attr_true(w, expr, py.name.is_Symbol)) {
        return symbol_object(t, expr, shape_env);
    }
    bool whole = attr_true(w, expr, py.name.is_Integer);
    if (whole || attr_true(w, expr, py.name.is_Float) || attr_true(w, expr, py.name.is_Rational)) {
        PyObject *number = own(w, whole ? PyNumber_Long(expr) : PyNumber_Float(expr));
        plain_text(t, number);
        return number;
    }
    return function_object(t, expr, shape_env);
}

/* The call's result is a size of its own; of its range this much is told. */
static Range
range_of_expr(Walk *w, PyObject *expr, PyObject *shape_env)
{
    PyObject *method = attr(w, shape_env, py.name.bound_sympy);
    PyObject *lower = attr(w, own(w, PyObject_CallOneArg(method, expr)), py.name.lower);
    PyObject *natural = own(w, PyObject_RichCompare(lower, own(w, PyLong_FromLong(0)), Py_GE));
    int is = PyObject_IsTrue(natural);
    if (is < 0) {
        python_failed(w);
    }
    return (Range){is ? 0 : -DIM_INF, DIM_INF};
}

Dim
whole_build(Walk *w, PyObject *expr, PyObject *shape_env)
{
    Template call = {.w = w, .text = {.cx = w->cx}};
    const Type *t = type_scalar(w->cx, DT_i64);
    const Dim *strides = NULL;
    int whole = -1;
    if (w->in_inputs) {         /* the input binds it */
        Dim size = dim_size(w->cx, fn_fresh_name(w->fn, "whole"));
        dim_declare(w->cx, size, range_of_expr(w, expr, shape_env), 1);
        return size;
    }
    PyObject *args = own(w, PyTuple_Pack(1, expr_object(&call, expr, shape_env)));
    int site = site_new(w, py.whole, args, NULL, false);
    Let *let = call_let(w, &call, target_name(w, py.whole), site, false, false, 1, &whole, &t,
                        &strides);
    Dim name = let->nsizes ? let->sizes[0] : dim_size(w->cx, fn_fresh_name(w->fn, "whole"));
    if (!let->nsizes) {
        dim_declare(w->cx, name, range_of_expr(w, expr, shape_env), 1);
        size_bind(w, let, name);
    }
    return name;
}
