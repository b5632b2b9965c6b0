/* An FX graph of aten overloads to the IR, node by node. */
#include "walk.h"

static void
index_nodes(Walk *w)
{
    PyObject *graph = attr(w, w->gm, py.name.graph);
    PyObject *nodes = own(w, PySequence_List(attr(w, graph, py.name.nodes)));
    w->nbound = (int)PyList_GET_SIZE(nodes);
    w->bound = cx_alloc(w->cx, (size_t)(w->nbound + 1) * sizeof *w->bound);
    w->out->inputs = PyMem_Calloc((size_t)w->nbound + 1, sizeof *w->out->inputs);
    if (!w->out->inputs) {
        PyErr_NoMemory();
        python_failed(w);
    }
    for (int k = 0; k < w->nbound; k++) {
        int mark = w->npool;
        Bound *at = &w->bound[k];
        PyObject *node = PyList_GET_ITEM(nodes, k);
        PyObject *meta = attr(w, node, py.name.meta), *target = attr(w, node, py.name.target);
        if (PyDict_SetItem(w->index, node, own(w, PyLong_FromLong(k))) < 0) {
            python_failed(w);
        }
        *at = (Bound){.node = node, .param = -1, .result = -1, .same = -1};
        at->val = PyDict_GetItemWithError(meta, w->direct ? py.name.example_value : py.name.val);
        at->overload = overload_of(w, target);
        at->torch = w->direct ? torch_row_of(w, target, &at->writes) : NULL;
        w->nconvolutions += convolution_is(at);
        pool_release(w, mark);
    }
    if (w->nbound == 0) {
        refuse(w, "the graph has no output node");
    }
}

void
walk_nodes(Walk *w)
{
    w->index = own(w, PyDict_New());
    w->dims = own(w, PyDict_New());
    w->given = own(w, PyDict_New());
    w->fn = fn_new(w->cx, "graph", STAGE_GRAPH);
    w->b = build_new(w->fn);
    w->number = dtype_of(w, own(w, PyObject_CallNoArgs(py.get_default_dtype)));
    w->fills_empty = own(w, PyObject_CallNoArgs(py.is_deterministic)) == Py_True &&
                     own(w, PyObject_CallNoArgs(py.fills_empty)) == Py_True;
    index_nodes(w);
    roots_find(w);
    for (int k = 0; k < w->nbound; k++) {
        int mark = w->npool;
        node_build(w, &w->bound[k]);
        pool_release(w, mark);
    }
    eager_check_end(w);
    if (w->nknown) {
        known_replace(w);
    }
    w->out->fn = w->fn;
}

int
walk_try(Walk *w, void (*body)(Cx *cx, void *walk))
{
    *w->out = (Captured){0};
    if (walk_python_ready() < 0) {
        return -1;
    }
    bool done = cx_try(w->cx, body, w);
    PyObject *type, *value, *trace;             /* releasing may run any code */
    PyErr_Fetch(&type, &value, &trace);
    pool_release(w, 0);
    PyMem_Free(w->pool);
    if (!done) {
        captured_clear(w->out);
    }
    PyErr_Restore(type, value, trace);
    if (!done && !PyErr_Occurred()) {
        raise_diag(cx_diag(w->cx));
    }
    return done ? 0 : -1;
}

static void
walk_body(Cx *cx, void *walk)
{
    (void)cx;
    walk_nodes(walk);
}

int
walk_graph(Cx *cx, PyObject *gm, const WalkOptions *options, Captured *out)
{
    Walk w = {.cx = cx,
              .gm = gm,
              .direct = options->direct,
              .inference = options->inference,
              .bodies = options->bodies,
              .products = options->products,
              .weights = options->weights,
              .short_weights = options->short_weights,
              .out = out};
    return walk_try(&w, walk_body);
}

int
products_from_text(const char *text, Products *out)
{
    static const char *const names[] = {
        [PRODUCTS_LIBRARY] = "library",
        [PRODUCTS_AUTO] = "auto",
        [PRODUCTS_OWN] = "own",
    };
    for (int k = 0; k < (int)(sizeof names / sizeof *names); k++) {
        if (strcmp(text, names[k]) == 0) {
            *out = (Products)k;
            return 0;
        }
    }
    PyErr_Format(PyExc_ValueError, "products is \"auto\", \"own\" or \"library\", not \"%s\"",
                 text);
    return -1;
}

void
captured_clear(Captured *captured)
{
    for (int k = 0; k < captured->noutputs; k++) {
        Py_XDECREF(captured->outputs[k].object);
    }
    for (int k = 0; k < captured->nsites; k++) {
        CallSite *site = &captured->sites[k];
        Py_XDECREF(site->target);
        Py_XDECREF(site->function);
        Py_XDECREF(site->args);
        Py_XDECREF(site->kwargs);
        PyMem_Free(site->node);
        PyMem_Free(site->source);
        PyMem_Free(site->positions);
        PyMem_Free(site->dtypes);
    }
    prepared_clear(captured->prepared, captured->nprepared);
    PyMem_Free(captured->inputs);
    PyMem_Free(captured->outputs);
    PyMem_Free(captured->sites);
    *captured = (Captured){0};
}

/* ---- for Python: tests and explain ---- */

static void
print_body(Cx *cx, void *arg)
{
    const Fn *fn = *(Fn **)arg;
    Text text = {.cx = cx};
    print_fn(fn, &text);
    *(const char **)arg = text.text;
}

static PyObject *
walk_text(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *gm;
    int direct = false;
    const char *products = "auto";
    WalkOptions options = {0};
    if (!PyArg_ParseTuple(args, "O|ps", &gm, &direct, &products) ||
        products_from_text(products, &options.products) < 0) {
        return NULL;
    }
    options.direct = options.inference = direct;
    Captured captured;
    PyObject *text = NULL;
    Cx *cx = cx_new();
    if (!cx) {
        return PyErr_NoMemory();
    }
    if (walk_graph(cx, gm, &options, &captured) == 0) {
        void *io = captured.fn;
        if (cx_try(cx, print_body, &io)) {
            text = PyUnicode_FromString(io);
        } else {
            raise_diag(cx_diag(cx));
        }
        captured_clear(&captured);
    }
    cx_free(cx);
    return text;
}

static PyObject *
overloads(PyObject *module, PyObject *args)
{
    (void)module;
    int products = false;
    if (!PyArg_ParseTuple(args, "|p", &products)) {
        return NULL;
    }
    PyObject *list = PyList_New(0);
    for (int k = 0; list && k < aten_nrows; k++) {
        if (aten_rows[k].product != products) {
            continue;
        }
        PyObject *name = PyUnicode_FromString(aten_rows[k].overload);
        if (!name || PyList_Append(list, name) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(name);
    }
    return list;
}

static PyObject *
functions(PyObject *module, PyObject *Py_UNUSED(none))
{
    (void)module;
    PyObject *list = PyList_New(0);
    for (int k = 0; list && k < torch_nrows; k++) {
        const TorchRow *row = &torch_rows[k];
        PyObject *item = Py_BuildValue("(ssss)", row->in, row->name, row->parameters,
                                       row->overload);
        if (!item || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    return list;
}

static PyMethodDef methods[] = {
    {"walk", walk_text, METH_VARARGS,
     PyDoc_STR(
         "walk(graph_module, direct=False, products='auto') -> str: the IR text of a GraphModule "
         "of aten\n"
         "overloads, or of Python functions as Dynamo gives it.")},
    {"overloads", overloads, METH_VARARGS,
     PyDoc_STR(
         "overloads(products=False) -> list of str: the overloads that are compiled; or those that "
         "are\n"
         "products, which are where dlc computes products itself.")},
    {"functions", functions, METH_NOARGS,
     PyDoc_STR(
         "functions() -> list of (in, name, parameters or None, overload or None): the rows of "
         "torch.def.")},
    {NULL, NULL, 0, NULL},
};

int
walk_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
