/* One compiled variant of a dlc.jit function: its conditions, and its runs. */
#include "jit.h"

#include <string.h>

#include "capture/torch/torch_abi.h"

enum { FEW_PARAMS = 128, FEW_RESULTS = 16, FEW_VALUES = 64 };

/* ---- made from what Python says of it ---- */

/* borrowed: an entry of the dict, with an exception when it is missing */
static PyObject *
entry(PyObject *spec, const char *name, PyTypeObject *type)
{
    PyObject *value = PyDict_GetItemString(spec, name);
    if (!value || !PyObject_TypeCheck(value, type)) {
        PyErr_Format(PyExc_TypeError, "a variant has no %s %s", type->tp_name, name);
        return NULL;
    }
    return value;
}

static int
index_of(PyObject *number, int bound)
{
    long k = PyLong_AsLong(number);
    if (!PyErr_Occurred() && (k < 0 || k >= bound)) {
        PyErr_SetString(PyExc_IndexError, "a variant names what is not there");
    }
    return PyErr_Occurred() ? -1 : (int)k;
}

/* Which argument is which parameter, and which must have the value it had. */
static int
read_arguments(Variant *v, const Taken *args, PyObject *inputs)
{
    const Captured *captured = &v->callable->captured;
    int all = v->narguments + v->ntree;
    v->param_of = PyMem_Calloc((size_t)all + 1, sizeof *v->param_of);
    v->constants = PyMem_Calloc((size_t)v->narguments + 1, sizeof *v->constants);
    if (!v->param_of || !v->constants || PyList_GET_SIZE(inputs) != captured->ninputs) {
        PyErr_SetString(PyExc_ValueError, "a variant with other inputs than its graph");
        return -1;
    }
    for (int k = 0; k < all; k++) {
        v->param_of[k] = -1;
    }
    for (int k = 0; k < captured->ninputs; k++) {
        const InputSpec *input = &captured->inputs[k];
        int at = index_of(PyList_GET_ITEM(inputs, k), all);
        if (at < 0) {
            return -1;
        }
        if (input->kind == INPUT_TENSOR || input->kind == INPUT_SCALAR) {
            v->param_of[at] = input->index;
        }
    }
    for (int k = 0; k < v->narguments; k++) {
        TakeKind kind = taken_kind(v->signatures[k]);
        bool fixed = kind == TAKE_CONSTANT || kind == TAKE_OBJECT ||
                     (kind == TAKE_FLOAT && v->param_of[k] < 0);
        v->constants[k] = fixed ? Py_NewRef(args[k].object) : NULL;
    }
    return 0;
}

static int
read_leaf(const Variant *v, PyObject *pair, JitLeaf *out)
{
    const char *kind;
    PyObject *value;
    if (!PyArg_ParseTuple(pair, "sO", &kind, &value)) {
        return -1;
    }
    out->kind = strcmp(kind, "result") == 0     ? LEAF_RESULT
                : strcmp(kind, "scalar") == 0   ? LEAF_SCALAR
                : strcmp(kind, "argument") == 0 ? LEAF_ARGUMENT
                                                : LEAF_OBJECT;
    if (out->kind == LEAF_OBJECT) {
        out->object = Py_NewRef(value);
        return 0;
    }
    bool result = out->kind == LEAF_RESULT || out->kind == LEAF_SCALAR;
    int bound = result ? v->callable->captured.noutputs : v->narguments + v->ntree;
    out->index = index_of(value, bound);
    return out->index < 0 ? -1 : 0;
}

static int
read_leaves(Variant *v, PyObject *leaves, PyObject *shape)
{
    int n = (int)PyList_GET_SIZE(leaves);
    v->leaves = PyMem_Calloc((size_t)n + 1, sizeof *v->leaves);
    if (!v->leaves) {
        PyErr_NoMemory();
        return -1;
    }
    for (int k = 0; k < n; k++) {
        v->nleaves++;
        if (read_leaf(v, PyList_GET_ITEM(leaves, k), &v->leaves[k]) < 0) {
            return -1;
        }
    }
    v->shape = shape == (PyObject *)&PyTuple_Type ? RETURN_TUPLE
               : shape == Py_None                 ? RETURN_ONE
                                                  : RETURN_TREE;
    if (v->shape == RETURN_TREE) {
        v->unflatten = Py_NewRef(shape);
    }
    if (v->shape == RETURN_ONE && n != 1) {
        PyErr_SetString(PyExc_ValueError, "a variant that returns one of several");
        return -1;
    }
    return 0;
}

static int
read_writes(Variant *v, PyObject *writes)
{
    int n = (int)PyList_GET_SIZE(writes);
    v->writes = PyMem_Calloc((size_t)n + 1, sizeof *v->writes);
    if (!v->writes) {
        PyErr_NoMemory();
        return -1;
    }
    for (int k = 0; k < n; k++) {
        PyObject *number, *text;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(writes, k), "OO", &number, &text)) {
            return -1;
        }
        int argument = index_of(number, v->narguments);
        if (argument < 0) {
            return -1;
        }
        v->writes[v->nwrites++] = (JitWrite){argument, Py_NewRef(text)};
    }
    return 0;
}

static int
read_spec(Variant *v, const Taken *args, PyTypeObject *callable_type, PyObject *spec)
{
    PyObject *through = PyDict_GetItemString(spec, "through");
    if (through) {
        v->through = Py_NewRef(through);
        return 0;
    }
    PyObject *callable = entry(spec, "callable", callable_type);
    PyObject *inputs = callable ? entry(spec, "inputs", &PyList_Type) : NULL;
    PyObject *symbols = inputs ? entry(spec, "symbols", &PyList_Type) : NULL;
    PyObject *guards = symbols ? entry(spec, "guards", &PyList_Type) : NULL;
    PyObject *leaves = guards ? entry(spec, "leaves", &PyList_Type) : NULL;
    PyObject *shape = leaves ? entry(spec, "shape", &PyBaseObject_Type) : NULL;
    PyObject *writes = shape ? entry(spec, "writes", &PyList_Type) : NULL;
    if (!writes) {
        return -1;
    }
    v->callable = (Callable *)Py_NewRef(callable);
    if (read_arguments(v, args, inputs) < 0 || read_leaves(v, leaves, shape) < 0 ||
        read_writes(v, writes) < 0) {
        return -1;
    }
    return jit_guard_read(symbols, guards, v->callable->sizes, v->narguments, &v->guard);
}

Variant *
variant_new(const Taken *args, const Signature *signature, const Tree *tree,
            PyTypeObject *callable_type, PyObject *spec)
{
    int nargs = signature->nparams;
    const PlanTensor *tensors;
    Variant *v = PyMem_Calloc(1, sizeof *v);
    if (!v || !(v->signatures = PyMem_Calloc((size_t)nargs + 1, sizeof *v->signatures))) {
        PyMem_Free(v);
        PyErr_NoMemory();
        return NULL;
    }
    v->refs = 1;
    v->signature = signature;
    v->state = torch_state() | (tree ? tree_state(tree) : 0);
    v->narguments = nargs;
    v->tree = tree;
    v->ntree = tree ? tree_tensors(tree, &tensors) : 0;
    for (int k = 0; k < nargs; k++) {
        v->signatures[k] = args[k].signature;
        v->arrays = v->arrays || taken_kind(args[k].signature) == TAKE_ARRAY;
    }
    if (read_spec(v, args, callable_type, spec) < 0) {
        variant_unref(v);
        return NULL;
    }
    return v;
}

void
variant_unref(Variant *v)
{
    if (--v->refs) {
        return;
    }
    for (int k = 0; v->constants && k < v->narguments; k++) {
        Py_XDECREF(v->constants[k]);
    }
    for (int k = 0; k < v->nleaves; k++) {
        Py_XDECREF(v->leaves[k].object);
    }
    for (int k = 0; k < v->nwrites; k++) {
        Py_XDECREF(v->writes[k].text);
    }
    Py_XDECREF(v->through);
    Py_XDECREF((PyObject *)v->callable);
    Py_XDECREF(v->unflatten);
    jit_guard_clear(&v->guard);
    PyMem_Free(v->signatures);
    PyMem_Free(v->constants);
    PyMem_Free(v->param_of);
    PyMem_Free(v->leaves);
    PyMem_Free(v->writes);
    PyMem_Free(v);
}

int
variant_traverse(const Variant *v, visitproc visit, void *arg)
{
    if (v->refs > 1) {                          /* a call holds it: not reached from here alone */
        return 0;
    }
    Py_VISIT(v->through);
    Py_VISIT((PyObject *)v->callable);
    Py_VISIT(v->unflatten);
    for (int k = 0; v->constants && k < v->narguments; k++) {
        Py_VISIT(v->constants[k]);
    }
    for (int k = 0; k < v->nleaves; k++) {
        Py_VISIT(v->leaves[k].object);
    }
    for (int k = 0; k < v->nwrites; k++) {
        Py_VISIT(v->writes[k].text);
    }
    return 0;
}

int
variant_matches(const Variant *v, uint32_t state, const Tree *tree, const Taken *args)
{
    if (v->state != state || v->tree != tree) {
        return 0;
    }
    for (int k = 0; k < v->narguments; k++) {
        if (v->signatures[k] != args[k].signature) {
            return 0;
        }
    }
    int same = 1;
    for (int k = 0; v->constants && same == 1 && k < v->narguments; k++) {
        if (taken_kind(v->signatures[k]) == TAKE_OBJECT) {
            same = v->constants[k] == args[k].object;
        } else if (v->constants[k]) {
            same = same_constant(v->constants[k], args[k].object);
        }
    }
    return same;
}

/* ---- a call ---- */

typedef struct {
    HostCall call;              /* first: it is the argument of the host functions of callables */
    const Variant *variant;
    const Taken *args;
    const PlanTensor *results;  /* of the plan */
} JitCall;

/* torch sees only the returned views: those that operators get are made in the short way. */
static int
tensor_view(void *arg, const PlanObject *base, Dtype dtype, int64_t offset, PlanTensor *out)
{
    const JitCall *call = arg;
    const Variant *v = call->variant;
    const PlanTensor *tensors;
    bool given = false,
         returned = out >= call->results && out < call->results + v->callable->nresults;
    for (int k = 0; returned && k < v->narguments; k++) {
        bool tensor = taken_kind(call->args[k].signature) == TAKE_TENSOR;
        given = given || (tensor && call->args[k].object == base->object);
    }
    for (int k = 0; returned && k < v->ntree && tree_tensors(v->tree, &tensors); k++) {
        given = given || tensors[k].object == base->object;
    }
    return given ? pytensor_alias(base->object, offset, out)
                 : host_functions.view(arg, base, dtype, offset, out);
}

static PlanParam
param_of(const PlanTensor *tensor)
{
    return (PlanParam){.of = {tensor->object, tensor->data},
                       .rank = tensor->rank,
                       .sizes = tensor->sizes,
                       .strides = tensor->strides};
}

static void
fill_parameters(const Variant *v, const Taken *args, PlanParam *in)
{
    for (int k = 0; k < v->narguments; k++) {
        int param = v->param_of[k];
        if (param >= 0 && taken_kind(v->signatures[k]) == TAKE_FLOAT) {
            void *number = (void *)&args[k].number;     /* operands are only read */
            in[param] = (PlanParam){.of = {.data = number}};
        } else if (param >= 0) {
            in[param] = param_of(&args[k].tensor);
        }
    }
    const PlanTensor *tensors = NULL;
    int n = v->tree ? tree_tensors(v->tree, &tensors) : 0;
    for (int k = 0; k < n; k++) {
        int param = v->param_of[v->narguments + k];
        if (param >= 0) {
            in[param] = param_of(&tensors[k]);
        }
    }
}

/* borrowed: an argument, or behind them a tensor of the tree */
static PyObject *
given_object(const JitCall *call, int index)
{
    const PlanTensor *tensors;
    int behind = index - call->variant->narguments;
    if (behind < 0) {
        return call->args[index].object;
    }
    tree_tensors(call->variant->tree, &tensors);
    return tensors[behind].object;
}

/* Returns a new reference: the object of one result of the graph. */
static PyObject *
result_object(const PlanHost *host, const OutputSpec *spec, PlanTensor *out)
{
    PlanTensor *result = out + spec->index;
    int64_t number = result->sizes[0];
    switch (spec->kind) {
    case OUTPUT_TENSOR:
        if (!result->object) {                  /* a size that the graph returns as a tensor */
            if (host->alloc(host->arg, DT_i64, result) < 0) {
                return NULL;
            }
            *(int64_t *)result->data = number;
        }
        return Py_NewRef((PyObject *)result->object);
    case OUTPUT_INT:
    case OUTPUT_BOOL: {
        const int64_t *read = result->object ? number_at(result, DT_i64) : &number;
        return !read                      ? NULL
               : spec->kind == OUTPUT_INT ? PyLong_FromLongLong(*read)
                                          : PyBool_FromLong(*read != 0);
    }
    case OUTPUT_FLOAT: {
        const double *read = number_at(result, DT_f64);
        return read ? PyFloat_FromDouble(*read) : NULL;
    }
    default:
        return Py_NewRef(spec->object);
    }
}

/* Returns a new reference: one item of the function's return value. */
static PyObject *
leaf_object(const PlanHost *host, const JitCall *call, const JitLeaf *leaf, PlanTensor *out)
{
    const OutputSpec *outputs = call->variant->callable->captured.outputs;
    switch (leaf->kind) {
    case LEAF_RESULT:
        return result_object(host, &outputs[leaf->index], out);
    case LEAF_SCALAR:
        return numpy_scalar(result_object(host, &outputs[leaf->index], out));
    case LEAF_ARGUMENT:
        return Py_NewRef(given_object(call, leaf->index));
    default:
        return Py_NewRef(leaf->object);
    }
}

/* new: the leaves, in the structure that the function returns */
static PyObject *
returned(const PlanHost *host, const JitCall *call, PlanTensor *out)
{
    const Variant *v = call->variant;
    if (v->shape == RETURN_ONE) {
        return leaf_object(host, call, &v->leaves[0], out);
    }
    bool tuple = v->shape == RETURN_TUPLE;
    PyObject *all = tuple ? PyTuple_New(v->nleaves) : PyList_New(v->nleaves);
    for (int k = 0; all && k < v->nleaves; k++) {
        PyObject *object = leaf_object(host, call, &v->leaves[k], out);
        if (!object) {
            Py_CLEAR(all);
        } else if (tuple) {
            PyTuple_SET_ITEM(all, k, object);
        } else {
            PyList_SET_ITEM(all, k, object);
        }
    }
    if (all && v->unflatten) {
        Py_SETREF(all, PyObject_CallOneArg(v->unflatten, all));
    }
    return all;
}

/* A result that is all of an argument is another tensor over the same memory, as eager's view
 * is. */
static int
part_from_arguments(const PlanHost *host, const Callable *callable, const PlanParam *in,
                    PlanTensor *out)
{
    for (int k = 0; k < callable->nresults; k++) {
        for (int j = 0; j < callable->nparams; j++) {
            if (out[k].object && out[k].object == in[j].of.object) {
                size_t bytes = (size_t)in[j].rank * sizeof *in[j].strides;
                memcpy(out[k].strides, in[j].strides, bytes); /* also those of axes of size 1 */
                out[k].object = NULL;
                int status = host->view(host->arg, &in[j].of, callable->param_dtypes[j], 0,
                                        &out[k]);
                host->release(host->arg, in[j].of.object);
                if (status < 0) {
                    return -1;
                }
            }
        }
    }
    return 0;
}

/* ---- what it writes to ---- */

static const char *
argument_name(const Variant *v, int k)
{
    const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(v->signature->names, k));
    return name ? name : "?";
}

/* -1, with eager's exception, where it does not write. */
static int
check_writable(const Taken *to)
{
    if (taken_kind(to->signature) == TAKE_ARRAY) {
        if (!numpy_is_writeable(to->object)) {
            PyErr_SetString(PyExc_ValueError, "assignment destination is read-only");
            return -1;
        }
        return 0;
    }
    int frozen = pytensor_is_frozen(to->object);
    if (frozen > 0) {
        PyErr_SetString(PyExc_RuntimeError,
                        "Inplace update to inference tensor outside InferenceMode is not allowed. "
                        "You can make a clone to get a normal tensor before doing inplace update.");
    }
    return frozen ? -1 : 0;
}

/* The argument or the tensor of the tree, with its dtype; NULL: the kernels do not read it. */
static const PlanTensor *
operand_at(const Variant *v, const Taken *args, int k, Dtype *dtype)
{
    const PlanTensor *tensors = NULL;
    int param = v->param_of[k];
    TakeKind kind = k < v->narguments ? taken_kind(v->signatures[k]) : TAKE_TENSOR;
    if (param < 0 || (kind != TAKE_TENSOR && kind != TAKE_ARRAY)) {
        return NULL;
    }
    *dtype = v->callable->param_dtypes[param];
    if (k < v->narguments) {
        return &args[k].tensor;
    }
    tree_tensors(v->tree, &tensors);
    return &tensors[k - v->narguments];
}

static int
refuse_write(const JitWrite *write, const char *why)
{
    PyObject *text = PyObject_CallNoArgs(write->text);
    if (text) {
        PyErr_Format(dlc_CaptureError, "%S, %s", text, why);
        Py_DECREF(text);
    }
    return -1;
}

static int
check_write(const Variant *v, const Taken *args, const JitWrite *write)
{
    const char *name = argument_name(v, write->argument);
    Dtype dtype = DT_f32, other = DT_f32;
    const PlanTensor *to = operand_at(v, args, write->argument, &dtype);
    if (!to) {
        return 0;
    }
    if (check_writable(&args[write->argument]) < 0) {
        return -1;
    }
    if (tensor_overlaps_itself(to)) {
        return refuse_write(write, "elements of which share memory: give it a copy of that");
    }
    for (int k = 0; k < v->narguments + v->ntree; k++) {
        const PlanTensor *from = operand_at(v, args, k, &other);
        if (from && k != write->argument && tensors_overlap(to, dtype, from, other)) {
            const char *with = k < v->narguments ? argument_name(v, k) : "self";
            PyObject *why = PyUnicode_FromFormat(
                "which shares memory with %s: give it a copy of %s or of %s", with, name, with);
            int status = why ? refuse_write(write, PyUnicode_AsUTF8(why)) : -1;
            Py_XDECREF(why);
            return status;
        }
    }
    return 0;
}

/* The kernels read operands while they write results: -1, with an exception, where an argument
 * that is written to shares its memory with another one, or with itself. */
static int
check_writes(const Variant *v, const Taken *args)
{
    int status = 0;
    for (int k = 0; k < v->nwrites && status == 0; k++) {
        status = check_write(v, args, &v->writes[k]);
    }
    return status;
}

static PyObject *
run(JitCall *call, const int64_t *sizes, PlanParam *in, PlanTensor *out, bool *fits)
{
    const Variant *v = call->variant;
    const Callable *callable = v->callable;
    PlanHost host = v->arrays ? numpy_host : host_functions;
    host.arg = call;
    host.view = v->arrays ? host.view : tensor_view;
    call->results = out;
    fill_parameters(v, call->args, in);
    bool grad = callable->captured.nsites > 0 && pytensor_grad_mode(false);
    int status = prepared_take(callable, in);
    *fits = status <= 0;
    if (status == 0) {
        status = plan_run(callable->plan, &host, sizes, in, out);
        *fits = !call->call.layout;
        prepared_give(callable->captured.nprepared, in + callable->nparams);
    }
    if (grad) {
        pytensor_grad_mode(true);
    }
    if (status == 0 && callable->nwritten && !v->arrays) {
        status = callable_count_writes(callable, in);
        for (int k = 0; status < 0 && k < callable->nresults; k++) {
            Py_CLEAR(out[k].object);
        }
    }
    if (status != 0) {
        return NULL;
    }
    count_add(COUNT_CALLS, 1);
    bool copied = part_from_arguments(&host, callable, in, out) == 0;
    PyObject *value = copied ? returned(&host, call, out) : NULL;
    for (int k = 0; k < callable->nresults; k++) {
        Py_XDECREF((PyObject *)out[k].object);
    }
    return value;
}

PyObject *
variant_run(const Variant *v, const Taken *args, bool *fits)
{
    PlanParam few_params[FEW_PARAMS], *params = few_params;
    PlanTensor few_results[FEW_RESULTS], *results = few_results;
    int64_t few_values[FEW_VALUES], *values = few_values;
    PyObject *value = NULL;
    size_t nparams = (size_t)(v->callable->nparams + v->callable->captured.nprepared);
    size_t nresults = (size_t)v->callable->nresults;
    size_t nvalues = (size_t)(v->guard.nsymbols + v->callable->nsizes);
    if (nparams > FEW_PARAMS) {
        params = PyMem_Malloc(nparams * sizeof *params);
    }
    if (nresults > FEW_RESULTS) {
        results = PyMem_Malloc(nresults * sizeof *results);
    }
    if (nvalues > FEW_VALUES) {
        values = PyMem_Malloc(nvalues * sizeof *values);
    }
    *fits = true;
    if (!params || !results || !values) {
        PyErr_NoMemory();
    } else if (!jit_guard_holds(&v->guard, args, values, values + v->guard.nsymbols)) {
        *fits = false;
    } else if (check_writes(v, args) == 0) {
        JitCall call = {.call = {.callable = v->callable}, .variant = v, .args = args};
        value = run(&call, values + v->guard.nsymbols, params, results, fits);
    }
    if (params != few_params) {
        PyMem_Free(params);
    }
    if (results != few_results) {
        PyMem_Free(results);
    }
    if (values != few_values) {
        PyMem_Free(values);
    }
    return value;
}
