/* Inputs and constants of the graph, and the facts about tensors in meta['val']. */
#include "walk.h"

#include <string.h>

/* ---- what meta['val'] says of a tensor ---- */

bool
is_a(PyObject *o, PyObject *type)
{
    return o && PyObject_TypeCheck(o, (PyTypeObject *)type);
}

static int
dims_of(Walk *w, PyObject *sizes, Dim *dims)
{
    Py_ssize_t n = PyTuple_Size(sizes);
    if (n < 0) {
        python_failed(w);
    }
    if (n > MAX_RANK) {
        refuse(w, "the tensor has %d axes, and dlc takes at most %d: reshape it to fewer", (int)n,
               MAX_RANK);
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        dims[k] = dim_of(w, PyTuple_GET_ITEM(sizes, k));
    }
    return (int)n;
}

static bool
answers_yes(Walk *w, PyObject *o, PyObject *method)
{
    return call0(w, o, method) == Py_True;
}

bool
is_lazy(Walk *w, PyObject *val, Dtype dtype)
{
    return answers_yes(w, val, py.name.is_neg) ||
           (dtype_info[dtype].class >= CLASS_COMPLEX && answers_yes(w, val, py.name.is_conj));
}

const Type *
tensor_type(Walk *w, PyObject *val)
{
    PyObject *torch_dtype = attr(w, val, py.name.dtype);
    Dtype dtype = dtype_of(w, torch_dtype);
    if (attr(w, val, py.name.layout) != py.strided) {
        refuse(w, "the tensor's layout is not torch.strided, and no other one is compiled");
    }
    PyObject *device = attr(w, attr(w, val, py.name.device), py.name.type);
    if (strcmp(utf8(w, device), "meta") == 0) {
        refuse(w, "the tensor is on the device meta, so it has no values: make it on the CPU, "
                  "torch.empty_like(x, device=\"cpu\") or model.to_empty(device=\"cpu\")");
    }
    if (strcmp(utf8(w, device), "cpu")) {
        refuse(w, "the tensor is on the device %s: dlc compiles for the CPU, so call .cpu() on it",
               utf8(w, device));
    }
    if (dtype == DTYPE_COUNT) {
        refuse(w, "the tensor has the dtype %s, which dlc does not know",
               utf8(w, own(w, PyObject_Str(torch_dtype))));
    }
    if (w->direct && w->in_inputs && is_lazy(w, val, dtype)) {
        refuse(w, "the tensor is negated or conjugated when it is read: call resolve_neg() or "
                  "resolve_conj() on it");
    }
    Dim dims[MAX_RANK];
    int rank = dims_of(w, call0(w, val, py.name.size), dims);
    return type_of(w->cx, dtype, rank, dims);
}

/* Returns the strides of the tensor; NULL: they are dense and row-major. */
const Dim *
tensor_strides(Walk *w, PyObject *val, const Type *t)
{
    Dim strides[MAX_RANK], dense[MAX_RANK];
    dims_of(w, call0(w, val, py.name.stride), strides);
    type_dense(w->cx, t, dense);
    size_t bytes = (size_t)t->rank * sizeof(Dim);
    return memcmp(strides, dense, bytes) == 0 ? NULL : cx_copy(w->cx, strides, bytes);
}

/* ---- sizes: who binds them ---- */

bool
size_known(const Walk *w, Dim name)
{
    for (int k = 0; k < w->nsizes; k++) {
        if (w->sizes[k] == name) {
            return true;
        }
    }
    return false;
}

void
size_add(Walk *w, Dim name)
{
    w->sizes = cx_grow(w->cx, w->sizes, w->nsizes, sizeof(Dim));
    w->sizes[w->nsizes++] = name;
}

static void
declare_size(void *arg, Dim name)
{
    Walk *w = arg;
    if (!size_known(w, name)) {
        size_add(w, name);
        fn_size(w->fn, name);
    }
}

static void
need_size(void *arg, Dim name)
{
    Walk *w = arg;
    if (!size_known(w, name)) {
        refuse(w, "the size %s is not the size of an axis of an input, so a call would not know it",
               dim_name(w->cx, name));
    }
}

static bool
is_unknown(const void *walk, Dim name)
{
    return !size_known(walk, name);
}

bool
dim_is_known(Walk *w, Dim d)
{
    return !dim_any_name(w->cx, d, is_unknown, w);
}

void
need_dim(Walk *w, Dim d)
{
    if (!dim_is_int(w->cx, d, NULL)) {
        dim_names(w->cx, d, need_size, w);
    }
}

void
need_sizes(Walk *w, const Type *t)
{
    for (int ax = 0; ax < t->rank; ax++) {
        need_dim(w, t->dims[ax]);
    }
}

/* ---- placeholders ---- */

static void
tensor_input(Walk *w, Bound *at, const char *name, InputSpec *spec)
{
    const Type *t = tensor_type(w, at->val);
    at->strides = tensor_strides(w, at->val, t);
    for (int ax = 0; ax < t->rank; ax++) {
        dim_names(w->cx, t->dims[ax], declare_size, w);
        if (at->strides) {
            dim_names(w->cx, at->strides[ax], declare_size, w);
        }
    }
    at->param = w->fn->nparams;
    at->arg = (Arg){.kind = ARG_TENSOR, .v = fn_param(w->fn, name, t, at->strides)};
    bool lazy = is_lazy(w, at->val, t->dtype);
    if (lazy) {                 /* its memory does not hold its elements: a call computes them */
        PyObject *resolve = dtype_info[t->dtype].class >= CLASS_COMPLEX ? py.resolve_conj
                                                                        : py.resolve_neg;
        at->arg.v = call_on(w, resolve, at->arg.v, NULL, t, at->strides);
    }
    *spec = (InputSpec){INPUT_TENSOR, at->param, lazy};
}

/* The size of a nested tensor's ragged axis is passed as a symbol when the graph runs too: it has
 * no value. */
static bool
size_is_ragged(Walk *w, PyObject *val)
{
    return is_a(attr(w, attr(w, val, py.name.node), py.name._hint), py.SymInt);
}

/* A bare symbol is bound by this input; of anything else the symbols must come from other inputs,
 * which need_sizes() finds out when they are used. */
static void
size_input(Walk *w, Bound *at, InputSpec *spec)
{
    Dim d = dim_of(w, at->val);
    at->arg = (Arg){.kind = ARG_DIM, .d = d};
    if (!dim_is_name(w->cx, d) || size_is_ragged(w, at->val)) {
        return;
    }
    declare_size(w, d);
    for (int k = 0; k < w->fn->nsizes; k++) {
        if (w->fn->sizes[k] == d) {
            *spec = (InputSpec){INPUT_SIZE, k};
        }
    }
}

static void
float_input(Walk *w, Bound *at, InputSpec *spec)
{
    PyObject *expr = attr(w, attr(w, at->val, py.name.node), py.name.expr);
    if (!attr_true(w, expr, py.name.is_Symbol)) {
        at->arg = (Arg){.kind = ARG_NUMBER, .v = number_of(w, at->val)};
        return;
    }
    const char *name = utf8(w, attr(w, expr, py.name.name));
    *spec = (InputSpec){INPUT_SCALAR, w->fn->nparams};
    at->arg = (Arg){.kind = ARG_NUMBER};
    at->arg.v = fn_param(w->fn, name, type_scalar(w->cx, DT_f64), NULL);
}

Arg
constant_arg(PyObject *val)
{
    int overflow = 0;
    if (val == Py_None || !val) {
        return (Arg){.kind = ARG_NONE};
    }
    if (PyBool_Check(val)) {
        return (Arg){.kind = ARG_BOOL, .i = val == Py_True};
    }
    if (PyFloat_Check(val)) {
        return (Arg){.kind = ARG_FLOAT, .f = PyFloat_AS_DOUBLE(val)};
    }
    if (PyLong_Check(val)) {
        int64_t i = PyLong_AsLongLongAndOverflow(val, &overflow);
        return overflow ? (Arg){.kind = ARG_OTHER} : (Arg){.kind = ARG_INT, .i = i};
    }
    return (Arg){.kind = ARG_OTHER};
}

/* Do the graph's results alone read it?  Such objects, a mesh of processes for instance, are handed
 * on. */
static bool
is_handed_on(Walk *w, PyObject *node)
{
    PyObject *users = own(w, PySequence_List(attr(w, node, py.name.users)));
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(users); k++) {
        if (strcmp(utf8(w, attr(w, PyList_GET_ITEM(users, k), py.name.op)), "output") != 0) {
            return false;
        }
    }
    return true;
}

void
placeholder_build(Walk *w, Bound *at)
{
    Captured *out = w->out;
    InputSpec *spec = &out->inputs[out->ninputs++];
    const char *name = utf8(w, attr(w, at->node, py.name.name));
    *spec = (InputSpec){INPUT_UNUSED, 0};
    w->in_inputs = true;
    if (is_a(at->val, py.Tensor)) {
        tensor_input(w, at, name, spec);
    } else if (is_a(at->val, py.SymInt)) {
        size_input(w, at, spec);
    } else if (is_a(at->val, py.SymFloat)) {
        float_input(w, at, spec);
    } else {
        at->arg = constant_arg(at->val);
        if (at->arg.kind == ARG_OTHER && !is_handed_on(w, at->node)) {
            refuse(w, "the input has the type %s, and only tensors and numbers are compiled",
                   Py_TYPE(at->val)->tp_name);
        }
        at->arg = at->arg.kind == ARG_OTHER ? (Arg){.kind = ARG_INPUT, .i = out->ninputs - 1}
                                            : at->arg;
        at->val = NULL;
    }
}

/* ---- attributes of the graph ---- */

static PyObject *
attribute(Walk *w, const char *path)
{
    PyObject *o = w->gm;
    while (*path) {
        size_t length = strcspn(path, ".");
        o = attr(w, o, own(w, PyUnicode_FromStringAndSize(path, (Py_ssize_t)length)));
        path += length + (path[length] == '.');
    }
    return o;
}

/* Reads element k of a tensor's memory as a literal. */
static void
literal_at(const void *data, Dtype dtype, int64_t k, Literal *out)
{
    const char *at = (const char *)data + k * dtype_info[dtype].bytes;
    *out = (Literal){.is_int = dtype_info[dtype].class != CLASS_FLOAT};
    if (out->is_int) {
        eval_map(OP_cast, dtype, DT_i64, at, NULL, NULL, &out->i);
    } else {
        eval_map(OP_cast, dtype, DT_f64, at, NULL, NULL, &out->f);
    }
}

/* Is the tensor a literal of the program, so that nothing else can hold it?  A trace makes literals
 * anew; it uses tensors from outside the program as they are. */
static bool
is_literal(Walk *w, const Bound *at)
{
    PyObject *users = own(w, PySequence_List(attr(w, at->node, py.name.users)));
    bool literal = PyList_GET_SIZE(users) > 0;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(users) && literal; k++) {
        PyObject *target = attr(w, PyList_GET_ITEM(users, k), py.name.target);
        const char *name = utf8(w, own(w, PyObject_Str(target)));
        literal = strcmp(name, "aten.lift_fresh_copy.default") == 0 ||
                  strcmp(name, "aten.lift_fresh.default") == 0;
    }
    return literal;
}

/* torch.tensor(3.0) or torch.tensor([1, 2]) in the user's program, or the value in `x[mask] = 3.0`:
 * numbers.  Its memory is read, because its methods belong to the fake tensors of the trace.  NULL:
 * it is not a short list of numbers, row by row. */
static Value *
numbers_of(Walk *w, PyObject *tensor, const Type *t)
{
    PlanTensor read;
    Literal numbers[MAX_LITERALS];
    int64_t count;
    Dim all = type_numel(w->cx, t);
    if (!pytensor_check(tensor) || pytensor_read(tensor, t->dtype, &read) < 0 || !read.data ||
        !dim_is_int(w->cx, all, &count) || count < 1 || count > MAX_LITERALS ||
        tensor_strides(w, tensor, t)) {
        return NULL;
    }
    for (int k = 0; k < (int)count; k++) {
        literal_at(read.data, t->dtype, k, &numbers[k]);
    }
    return literals(w->b, t, (int)count, numbers);
}

void
attribute_build(Walk *w, Bound *at)
{
    const char *path = utf8(w, attr(w, at->node, py.name.target));
    PyObject *o = attribute(w, path);
    if (!is_a(o, py.Tensor)) {
        at->arg = (Arg){.kind = ARG_OTHER};
        at->val = o;
        return;
    }
    const Type *t = tensor_type(w, o);
    if (is_lazy(w, o, t->dtype)) {
        refuse(w, "the constant is negated or conjugated when it is read: call resolve_neg() or "
                  "resolve_conj() on it");
    }
    if (w->direct && attr_true(w, o, py.name.requires_grad)) {
        refuse(
            w,
            "the constant requires a gradient: pass it as an argument, or make it a parameter of a "
            "module");
    }
    at->constant = true;
    at->strides = tensor_strides(w, o, t);
    at->arg.kind = ARG_TENSOR;
    bool number = strncmp(path, "_tensor_constant", 16) == 0 &&
                  dtype_info[t->dtype].class < CLASS_COMPLEX;
    at->arg.v = number && is_literal(w, at) ? numbers_of(w, o, t) : NULL;
    if (at->arg.v) {
        return;
    }
    PyObject *holder = own(w, PyTuple_Pack(1, own(w, PyTuple_Pack(1, o))));
    at->arg.v = call_on(w, py.item_getter, NULL, holder, t, at->strides);
}
