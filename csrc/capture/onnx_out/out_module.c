/* dlc._C.onnx_graph: a program to a graph of ONNX as plain Python data. */
#include "out.h"

#include "capture/capture.h"

typedef struct {
    const char *text;
    Out o;
    PyObject *answer;
} Job;

typedef struct {
    PyObject *(*item)(const Out *o, const void *of, int k);
    const Out *o;
    const void *of;
} Items;

static PyObject *
item_of(const void *items, int k)
{
    const Items *all = items;
    return all->item(all->o, all->of, k);
}

/* A list of n things; NULL with an exception set. */
static PyObject *
list_of(int n, PyObject *(*item)(const Out *o, const void *of, int k), const Out *o, const void *of)
{
    return list_made(n, item_of, &(Items){item, o, of});
}

static PyObject *
int_item(const Out *Py_UNUSED(o), const void *of, int k)
{
    return PyLong_FromLong(((const int *)of)[k]);
}

static PyObject *
wide_item(const Out *Py_UNUSED(o), const void *of, int k)
{
    return PyLong_FromLongLong(((const int64_t *)of)[k]);
}

/* A number, or the text of a size. */
static PyObject *
dim_item(const Out *o, const void *of, int k)
{
    int64_t value;
    Text text = {.cx = o->cx};
    Dim d = ((const Type *)of)->dims[k];
    if (dim_is_int(o->cx, d, &value)) {
        return PyLong_FromLongLong(value);
    }
    dim_text(o->cx, d, &text);
    return PyUnicode_FromString(text.text);
}

/* (stem, dtype, sizes, is it read?) */
static PyObject *
value_item(const Out *o, const void *Py_UNUSED(of), int k)
{
    const OutValue *v = &o->values[k];
    PyObject *dims = list_of(v->type->rank, dim_item, o, v->type);
    const char *dtype = dtype_info[v->type->dtype].name;
    return dims ? Py_BuildValue("(ssNi)", v->stem, dtype, dims, v->is_read) : NULL;
}

/* (name, a text, an integer or a list of them) */
static PyObject *
attr_item(const Out *o, const void *of, int k)
{
    const OutAttr *a = &((const OutNode *)of)->attrs[k];
    PyObject *list = a->ints ? list_of(a->n, wide_item, o, a->ints) : NULL;
    return a->text   ? Py_BuildValue("(ss)", a->name, a->text)
           : list    ? Py_BuildValue("(sN)", a->name, list)
           : a->ints ? NULL
                     : Py_BuildValue("(sL)", a->name, (long long)a->i);
}

static PyObject *graph_made(const Out *o, const OutGraph *g);

static PyObject *
body_item(const Out *o, const void *of, int k)
{
    return graph_made(o, ((const OutNode *)of)->bodies[k]);
}

/* (operator, inputs, outputs, attributes, bodies) */
static PyObject *
node_item(const Out *o, const void *of, int k)
{
    const OutNode *node = ((OutNode *const *)of)[k];
    PyObject *in = list_of(node->nin, int_item, o, node->in);
    PyObject *out = list_of(node->nout, int_item, o, node->out);
    PyObject *attrs = list_of(node->nattrs, attr_item, o, node);
    int nbodies = !!node->bodies[0] + !!node->bodies[1];
    PyObject *bodies = list_of(nbodies, body_item, o, node);
    bool ok = in && out && attrs && bodies;
    PyObject *made = ok ? Py_BuildValue("(sOOOO)", node->op, in, out, attrs, bodies) : NULL;
    Py_XDECREF(in);
    Py_XDECREF(out);
    Py_XDECREF(attrs);
    Py_XDECREF(bodies);
    return made;
}

/* (nodes, inputs, outputs), without the nodes that nothing reads */
static PyObject *
graph_made(const Out *o, const OutGraph *g)
{
    OutNode **read = cx_alloc(o->cx, (size_t)(g->n + 1) * sizeof(OutNode *));
    int n = 0;
    for (int k = 0; k < g->n; k++) {
        if (g->nodes[k]->is_read) {
            read[n++] = g->nodes[k];
        }
    }
    PyObject *nodes = list_of(n, node_item, o, read);
    PyObject *in = list_of(g->ninputs, int_item, o, g->inputs);
    PyObject *out = list_of(g->noutputs, int_item, o, g->outputs);
    PyObject *made = nodes && in && out ? PyTuple_Pack(3, nodes, in, out) : NULL;
    Py_XDECREF(nodes);
    Py_XDECREF(in);
    Py_XDECREF(out);
    return made;
}

/* [(number, elements), ..] of the constants that something reads */
static PyObject *
constants_of(const Out *o)
{
    PyObject *list = PyList_New(0);
    for (int k = 0; list && k < o->nvalues; k++) {
        const OutValue *v = &o->values[k];
        if (!v->is_constant || !v->is_read) {
            continue;
        }
        int64_t n = 1;
        if (v->type->rank) {
            dim_is_int(o->cx, v->type->dims[0], &n);
        }
        PyObject *elements = v->ints ? list_of((int)n, wide_item, o, v->ints)
                                     : Py_BuildValue("[d]", v->f);
        PyObject *pair = elements ? Py_BuildValue("(iN)", k, elements) : NULL;
        if (!pair || PyList_Append(list, pair) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(pair);
    }
    return list;
}

static void
body(Cx *cx, void *arg)
{
    Job *job = arg;
    Out *o = &job->o;
    o->cx = cx;
    const OutGraph *g = out_program(o, parse_fn(cx, job->text, "text"));
    PyObject *values = list_of(o->nvalues, value_item, o, NULL);
    PyObject *constants = constants_of(o), *graph = graph_made(o, g);
    bool ok = values && constants && graph;
    job->answer = ok ? PyTuple_Pack(3, values, constants, graph) : NULL;
    Py_XDECREF(values);
    Py_XDECREF(constants);
    Py_XDECREF(graph);
}

static PyObject *
onnx_graph(PyObject *Py_UNUSED(module), PyObject *args)
{
    Job job = {0};
    if (!PyArg_ParseTuple(args, "s", &job.text)) {
        return NULL;
    }
    Cx *cx = cx_new();
    if (!cx) {
        return PyErr_NoMemory();
    }
    if (!cx_try(cx, body, &job)) {
        raise_diag(cx_diag(cx));
        Py_CLEAR(job.answer);
    }
    cx_free(cx);
    return job.answer;
}

static PyObject *
onnx_has(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    PyObject *list = PyList_New(0);
    for (int op = 0; list && op < OP_COUNT; op++) {
        PyObject *name = out_rows[op].build ? PyUnicode_FromString(op_info[op].name) : NULL;
        if (out_rows[op].build && (!name || PyList_Append(list, name) < 0)) {
            Py_CLEAR(list);
        }
        Py_XDECREF(name);
    }
    return list;
}

static PyMethodDef methods[] = {
    {"onnx_graph", onnx_graph, METH_VARARGS,
     PyDoc_STR("onnx_graph(text) -> (values, constants, graph)\n\n"
               "A program of the graph stage as a graph of opset 18. values: [(stem of the name, "
               "dtype, sizes, is it read?), ..], the\nparameters first; constants: [(number, "
               "elements), ..]. A "
               "graph is (nodes, inputs, outputs), and a node\n(operator, inputs, outputs, "
               "attributes, bodies). Raises CaptureError with all that ONNX lacks.")},
    {"onnx_has", onnx_has, METH_NOARGS,
     PyDoc_STR("onnx_has() -> [operation, ..]: those of the language that ONNX has.")},
    {NULL},
};

int
onnx_out_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
