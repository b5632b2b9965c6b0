/* Prepared values: values that graphs compute only from frozen parameters, kept from call to call.
 *
 * A Recipe is the plan that computes a value from some parameters; it is identified by its text. A
 * Made is its result for certain tensors: the value, and the state of each tensor (tensor_state.c).
 * A call compares the states, and computes the value again if one differs. Nothing here keeps a
 * tensor alive: when a tensor is freed, the values computed from it are freed too.
 *
 * The interpreter lock guards all of this file.  A value is computed without the lock. The states
 * from before are kept with it, so that after a write in the meantime the next call computes the
 * value again, and nothing is kept if values were dropped in the meantime. If two threads compute
 * one value, the later one wins.  A call holds a reference to each value that it reads. */

#include <string.h>

#include "capture/jit/callable.h"
#include "capture/module.h"
#include "tensor_state.h"

typedef struct Made {
    int refs, nstates;
    PlanParam value;            /* the object: owned; NULL: forgotten */
    int64_t bytes;
    struct Made *next;          /* of the recipe */
    TensorState states[];
} Made;

struct Recipe {
    int refs;                   /* of graphs */
    char *text;
    Plan *plan;
    Made *made;                 /* a reference to each */
    Recipe *next;
};

static Recipe *recipes;
static int64_t held_bytes;      /* of values */
static uint64_t thaws;          /* how often values were forgotten because the user says so */

/* ---- values ---- */

/* Frees the value; holders of the Made find that it is empty. */
static void
made_forget(Made *made)
{
    PyObject *value = made->value.of.object;
    made->value.of.object = NULL;
    held_bytes -= value ? made->bytes : 0;
    for (int k = 0; k < made->nstates; k++) {
        state_drop(&made->states[k]);
    }
    Py_XDECREF(value);
}

static void
made_unref(Made *made)
{
    if (made && --made->refs == 0) {
        made_forget(made);
        PyMem_Free(made);
    }
}

/* Removes the values for which `which` is true from the recipe, and frees them. */
static void
recipe_forget(Recipe *recipe, bool (*which)(const Made *made, const void *arg), const void *arg)
{
    Made *out = NULL;
    for (Made **at = &recipe->made; *at;) {
        Made *made = *at;
        if (which(made, arg)) {
            *at = made->next;
            made->next = out;
            out = made;
        } else {
            at = &made->next;
        }
    }
    while (out) {               /* this may run any code: the list is as it should be */
        Made *made = out;
        out = made->next;
        made_forget(made);
        made_unref(made);
    }
}

/* of: a tensor, or the weak reference to one: no object is both */
static bool
is_made_of(const Made *made, const void *of)
{
    bool is = false;
    for (int k = 0; k < made->nstates; k++) {
        is |= made->states[k].tensor == of || made->states[k].weak == of;
    }
    return is;
}

static bool
is_any(const Made *made, const void *arg)
{
    (void)arg;
    return made != NULL;
}

/* Returns another reference to the recipe. */
static Recipe *
recipe_ref(Recipe *recipe)
{
    if (recipe) {
        recipe->refs++;
    }
    return recipe;
}

/* Does so in all recipes.  A recipe that is freed while values are freed would break the list. */
static void
forget(bool (*which)(const Made *made, const void *arg), const void *arg)
{
    for (Recipe *recipe = recipe_ref(recipes), *next; recipe; recipe = next) {
        recipe_forget(recipe, which, arg);
        next = recipe_ref(recipe->next);
        recipe_unref(recipe);
    }
}

static PyObject *
prepared_died(PyObject *Py_UNUSED(module), PyObject *weak)
{
    forget(is_made_of, weak);
    Py_RETURN_NONE;
}

static PyMethodDef died_method = {"prepared_died", prepared_died, METH_O, NULL};

void
prepared_forget_all(void)
{
    thaws++;
    forget(is_any, NULL);
}

/* ---- recipes ---- */

Recipe *
recipe_find(const char *text)
{
    for (Recipe *recipe = recipes; recipe; recipe = recipe->next) {
        if (strcmp(recipe->text, text) == 0) {
            return recipe_ref(recipe);
        }
    }
    return NULL;
}

Recipe *
recipe_new(const char *text, Plan *plan)
{
    Recipe *recipe = PyMem_Calloc(1, sizeof *recipe);
    size_t length = strlen(text) + 1;
    if (!recipe || !(recipe->text = PyMem_Malloc(length))) {
        PyMem_Free(recipe);
        return NULL;
    }
    memcpy(recipe->text, text, length);
    recipe->refs = 1;
    recipe->plan = plan;
    recipe->next = recipes;
    return recipes = recipe;
}

void
recipe_unref(Recipe *recipe)
{
    if (!recipe || --recipe->refs) {
        return;
    }
    Recipe **at = &recipes;
    while (*at != recipe) {
        at = &(*at)->next;
    }
    *at = recipe->next;
    recipe_forget(recipe, is_any, NULL);
    plan_free(recipe->plan);
    PyMem_Free(recipe->text);
    PyMem_Free(recipe);
}

/* ---- a call ---- */

static bool
is_of(const Made *made, const PreparedInput *input, const PlanParam *in)
{
    bool of = made->value.of.object != NULL;
    for (int k = 0; of && k < made->nstates; k++) {
        of = made->states[k].tensor == in[input->params[k]].of.object;
    }
    return of;
}

static bool
made_holds(const Made *made, const PreparedInput *input, const PlanParam *in)
{
    bool holds = true;
    for (int k = 0; holds && k < made->nstates; k++) {
        holds = state_holds(&made->states[k], &in[input->params[k]]);
    }
    return holds;
}

/* The value that was computed from these tensors, whatever they contain now; borrowed, NULL: there
 * is none. */
static Made *
find_made(PreparedInput *input, const PlanParam *in)
{
    Made *made = input->last;
    if (made && is_of(made, input, in)) {
        return made;
    }
    made = input->recipe->made;
    while (made && !is_of(made, input, in)) {
        made = made->next;
    }
    if (made) {
        Made *before = input->last;
        made->refs++;
        input->last = made;
        made_unref(before);
    }
    return made;
}

static int
alloc_unpooled(void *arg, Dtype dtype, PlanTensor *out)
{
    (void)arg;
    return pytensor_unpooled(dtype, out);
}

/* new: runs the recipe. 1: the layout of the tensors is not the one that was compiled. */
static int
run_recipe(const Callable *callable, const PreparedInput *input, const PlanParam *in,
           PlanParam *out)
{
    PlanTensor made;
    PlanParam *params = PyMem_Calloc((size_t)input->nparams + 1, sizeof *params);
    HostCall call = {.callable = callable};
    PlanHost host = host_functions;
    if (!params) {
        PyErr_NoMemory();
        return -1;
    }
    host.arg = &call;
    host.alloc = alloc_unpooled;
    for (int k = 0; k < input->nparams; k++) {
        params[k] = in[input->params[k]];
    }
    int status = plan_run(input->recipe->plan, &host, NULL, params, &made);
    PyMem_Free(params);
    if (status == 0 && pytensor_param(made.object, input->dtype, out) < 0) {
        Py_DECREF((PyObject *)made.object);
        PyErr_SetString(dlc_InternalError, "a prepared value of another dtype than its graph says");
        return -1;
    }
    count_add(COUNT_PREPARED, status == 0);
    return call.layout ? 1 : status;
}

void
recipe_number(const Recipe *recipe, PyObject *tensor, Dtype dtype, double *out)
{
    PlanTensor made = {0}, read = {0};
    PlanParam in;
    HostCall call = {0};
    PlanHost host = host_functions;
    host.arg = &call;
    if (!pytensor_check(tensor) || pytensor_param(tensor, dtype, &in) < 0 ||
        plan_run(recipe->plan, &host, NULL, &in, &made) != 0) {
        PyErr_Clear();
        return;
    }
    if (!call.layout && pytensor_read(made.object, DT_f64, &read) == 0) {
        *out = *(const double *)read.data;
    }
    Py_DECREF((PyObject *)made.object);
}

/* A Made for the present state of the tensors, without a value; NULL: their state cannot be
 * determined, or there is no memory. */
static Made *
made_new(const PreparedInput *input, const PlanParam *in)
{
    Made *made = PyMem_Calloc(1, sizeof *made + (size_t)input->nparams * sizeof *made->states);
    PyObject *died = PyCFunction_New(&died_method, NULL);
    if (made) {
        made->refs = 1;
    }
    for (int k = 0; made && k < input->nparams; k++) {
        made->nstates++;
        if (!died || !state_take(&made->states[k], &in[input->params[k]], died)) {
            made_unref(made);
            made = NULL;
        }
    }
    Py_XDECREF(died);
    if (!died) {                /* no memory: as where a tensor has no state */
        PyErr_Clear();
    }
    return made;
}

/* Keeps the Made, which is stolen, instead of the former one for these tensors. */
static void
keep(PreparedInput *input, const PlanParam *in, Made *made)
{
    Recipe *recipe = input->recipe;
    Made *before = recipe->made, **at = &recipe->made;
    while (before && !is_of(before, input, in)) {
        at = &before->next;
        before = before->next;
    }
    if (before) {
        *at = before->next;
    }
    made->next = recipe->made;
    recipe->made = made;
    made->refs++;
    Made *last = input->last;
    input->last = made;
    made_unref(last);
    if (before) {
        made_forget(before);
        made_unref(before);
    }
}

static int64_t
bytes_of(Dtype dtype, const PlanParam *dense)
{
    int64_t bytes = dtype_info[dtype].bytes;
    for (int ax = 0; ax < dense->rank; ax++) {
        bytes *= dense->sizes[ax];
    }
    return bytes;
}

/* Runs the recipe; the object of `out` is a new reference. */
static int
make(const Callable *callable, PreparedInput *input, const PlanParam *in, PlanParam *out)
{
    Made *made = made_new(input, in);
    uint64_t before = thaws;
    int status = run_recipe(callable, input, in, out);
    /* The value is not kept if tensors were thawed meanwhile: these may have changed unnoticed. */
    if (status != 0 || !made || thaws != before) {
        made_unref(made);
        return status;
    }
    made->value = *out;
    Py_INCREF((PyObject *)out->of.object);
    made->bytes = bytes_of(input->dtype, out);
    held_bytes += made->bytes;
    keep(input, in, made);
    return 0;
}

int
prepared_take(const Callable *callable, PlanParam *in)
{
    const Captured *captured = &callable->captured;
    PlanParam *out = in + callable->nparams;
    for (int k = 0; k < captured->nprepared; k++) {
        PreparedInput *input = &captured->prepared[k];
        const Made *made = find_made(input, in);
        int status = 0;
        if (made && made_holds(made, input, in)) {
            out[k] = made->value;
            Py_INCREF((PyObject *)out[k].of.object);
        } else {
            status = make(callable, input, in, &out[k]);
        }
        if (status != 0) {
            prepared_give(k, out);
            return status;
        }
    }
    return 0;
}

void
prepared_give(int n, PlanParam *values)
{
    for (int k = 0; k < n; k++) {
        Py_CLEAR(*(PyObject **)&values[k].of.object);
    }
}

void
prepared_clear(PreparedInput *inputs, int n)
{
    for (int k = 0; k < n; k++) {
        made_unref(inputs[k].last);
        recipe_unref(inputs[k].recipe);
        PyMem_Free(inputs[k].params);
    }
    PyMem_Free(inputs);
}

/* ---- for Python ---- */

static PyObject *
thaw(PyObject *Py_UNUSED(module), PyObject *tensors)
{
    if (tensors == Py_None) {
        prepared_forget_all();
        Py_RETURN_NONE;
    }
    PyObject *all = PySequence_List(tensors);
    thaws++;
    for (Py_ssize_t k = 0; all && k < PyList_GET_SIZE(all); k++) {
        forget(is_made_of, PyList_GET_ITEM(all, k));
    }
    if (!all) {
        return NULL;
    }
    Py_DECREF(all);
    Py_RETURN_NONE;
}

static PyObject *
prepared_bytes(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyLong_FromLongLong(held_bytes);
}

static PyMethodDef methods[] = {
    {"prepared_bytes", prepared_bytes, METH_NOARGS,
     PyDoc_STR("prepared_bytes() -> int: of the values of frozen parameters that are kept now.")},
    {"thaw", thaw, METH_O,
     PyDoc_STR("thaw(tensors): forgets the values that were made of these tensors; None: all there "
               "are.")},
    {NULL},
};

int
prepared_register(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
