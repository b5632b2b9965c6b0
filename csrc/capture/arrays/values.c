/* Values that are prepared: computed of fixed arrays, or mapped from the cache folder.
 *
 * What:     each value that depends on fixed arrays alone, as the array of a parameter.
 * How:      layers of one shape share a plan.  Where the caller says what its arrays are made of,
 *           an entry of the cache folder has all values of a program, one behind the other, and a
 *           table behind them.  A process that finds it computes nothing and maps the entry.  One
 *           that does not writes each value as soon as it is made, and drops it, and maps the entry
 *           in the end: so no more than one value is in memory besides mapped pages.
 * Requires: the key covers what values depend on: the arrays, by what the caller says of them; the
 *           functions that make the values; dlc and the processor.
 * Why not   an entry for each value: an entry costs a look at the folder, and a model has hundreds.
 *
 *     values, each at a multiple of 64 bytes
 *     for each: where it begins, the number of its axes, sizes, strides
 *     the number of words of the table */
#include "loaded.h"

#include <string.h>

enum { ALIGNED = 64, WORDS = 2 + 2 * MAX_RANK }; /* words of a value in the table, at most */

/* How values are made: by text of the function. */
typedef struct {
    const char *text;
    Plan *plan;
} Maker;

typedef struct {
    Cx *cx;
    Job *job;
    const char **texts; /* by value */
    Maker *makers;
    int nmakers;
    /* of the entry */
    CacheWriter writer;
    Key key;
    bool keeps; /* the folder has room for it */
    const char *origin; /* what the arrays were made of when the key was made */
    int64_t *table;
    int64_t nwords, at; /* at: bytes that were written */
} Values;

/* ---- computed ---- */

static Plan *
maker_of(Values *vs, int k)
{
    const Job *job = vs->job;
    Fn *make = job->made->values[k].make;
    for (int j = 0; j < vs->nmakers; j++) {
        if (strcmp(vs->makers[j].text, vs->texts[k]) == 0) {
            return vs->makers[j].plan;
        }
    }
    CompileOptions options = job->options;
    options.passes = job->passes;
    options.once = true;
    /* The next process finds the values, and wants no kernels for them. */
    options.mode = vs->keeps && options.mode == MODE_AUTO ? MODE_TCC : options.mode;
    verify_fn(make);
    Plan *plan = plan_build(pipeline_run(make, &options.passes), &options);
    vs->makers = cx_grow(vs->cx, vs->makers, vs->nmakers, sizeof *vs->makers);
    vs->makers[vs->nmakers++] = (Maker){vs->texts[k], plan};
    return plan;
}

/* The arrays of a value's parameters, owned; those that begin at any byte are copied. */
static bool
take_params(Values *vs, const PreparedValue *value, PyObject **arrays, Tensor *store, PlanParam *in)
{
    const Loaded *self = vs->job->self;
    for (int k = 0; k < value->make->nparams; k++) {
        arrays[k] = array_aligned(self->arrays[value->params[k]]);
        if (!arrays[k] || array_read(arrays[k], k, &store[k]) < 0) {
            return false;
        }
        in[k] = param_of(&store[k], arrays[k]);
    }
    return true;
}

/* Computes a value, as the array of parameter `at`. */
static bool
make_value(Values *vs, int k, int at)
{
    Loaded *self = vs->job->self;
    const PreparedValue *value = &vs->job->made->values[k];
    int n = value->make->nparams;
    PlanParam *in = cx_alloc(vs->cx, (size_t)(n + 1) * sizeof *in);
    Tensor *store = cx_alloc(vs->cx, (size_t)(n + 1) * sizeof *store);
    PyObject **arrays = cx_alloc(vs->cx, (size_t)(n + 1) * sizeof(PyObject *));
    PlanTensor out;
    ArrayCall call = {NULL, false};
    PlanHost host = array_host;
    host.arg = &call;
    Plan *plan = maker_of(vs, k);
    bool good = take_params(vs, value, arrays, store, in) &&
                plan_run(plan, &host, NULL, in, &out) == 0;
    for (int j = 0; j < n; j++) {
        Py_XDECREF(arrays[j]);
    }
    if (!good && call.layout) {
        fail(vs->cx, DIAG_FIXED_ARRAY, self->params[value->params[0]].name);
    }
    if (good) {
        Py_XSETREF(self->arrays[at], out.object);
    }
    return good;
}

/* Pages of the arrays that were read are the system's again: a process has as much memory as the
 * values take, and not twice as much. */
static bool
released(const Job *job)
{
    PyObject *none = job->release ? PyObject_CallNoArgs(job->release) : Py_NewRef(Py_None);
    Py_XDECREF(none);
    return none != NULL;
}

/* ---- the entry ---- */

static void
find_key(Values *vs)
{
    static const char kind[] = "dlc values 1";
    const Job *job = vs->job;
    Sha256 s;
    sha256_begin(&s);
    sha256_add(&s, kind, sizeof kind);
    sha256_add(&s, job->common.hex, sizeof job->common.hex);
    sha256_add(&s, vs->origin, strlen(vs->origin) + 1);
    for (int k = 0; k < job->made->nvalues; k++) {
        const PreparedValue *value = &job->made->values[k];
        sha256_add(&s, vs->texts[k], strlen(vs->texts[k]) + 1);
        for (int j = 0; j < value->make->nparams; j++) {
            const char *name = job->self->params[value->params[j]].name;
            sha256_add(&s, name, strlen(name) + 1);
        }
    }
    key_end(&s, &vs->key);
}

/* Of more than half of the folder's bound nothing else would be left in it. */
static bool
has_room(const Preparation *made)
{
    int64_t left = cache_bound() / 2;
    for (int k = 0; k < made->nvalues && left >= 0; k++) {
        left -= made->values[k].bytes < left ? made->values[k].bytes : left + 1;
    }
    return left >= 0;
}

static bool
write_value(Values *vs, PyObject *array)
{
    static const char zeros[ALIGNED];
    Tensor t;
    size_t size = (size_t)PyArray_NBYTES((PyArrayObject *)array);
    if (array_read(array, 0, &t) < 0) {
        PyErr_Clear();
        return false;
    }
    int64_t *to = vs->table + vs->nwords;
    *to++ = vs->at;
    *to++ = t.rank;
    memcpy(to, t.sizes, (size_t)t.rank * sizeof *to);
    memcpy(to + t.rank, t.strides, (size_t)t.rank * sizeof *to);
    vs->nwords += 2 + 2 * t.rank;
    size_t more = -size % ALIGNED;
    vs->at += (int64_t)(size + more);
    return cache_add(&vs->writer, t.data, size) && cache_add(&vs->writer, zeros, more);
}

/* What the given arrays are made of, as text; NULL: nobody knows, or an exception */
static const char *
find_origin(const Values *vs)
{
    PyObject *origin = PyObject_CallNoArgs(vs->job->origin);
    const char *said = origin && origin != Py_None ? PyUnicode_AsUTF8(origin) : NULL;
    size_t size = said ? strlen(said) + 1 : 0;
    const char *text = said ? memcpy(cx_alloc(vs->cx, size), said, size) : NULL;
    Py_XDECREF(origin);
    return text;
}

/* Is the key that of what the values were made of?  The file may have been written to meanwhile. */
static bool
has_its_key(const Values *vs)
{
    const char *now = find_origin(vs);
    return now && strcmp(now, vs->origin) == 0;
}

static bool
end_entry(Values *vs)
{
    int64_t n = vs->nwords;
    vs->table[n] = n;
    return cache_add(&vs->writer, vs->table, (size_t)(n + 1) * sizeof n) &&
           cache_end(&vs->job->cache, &vs->writer, &vs->key, cache_bound());
}

static void
unmap(PyObject *capsule)
{
    cache_unmap(PyCapsule_GetPointer(capsule, NULL), (size_t)PyCapsule_GetContext(capsule));
}

/* new: an array over all bytes of the entry, which is mapped as long as it is there; NULL: a miss
 * without an exception, or an exception */
static PyObject *
map_entry(const Values *vs)
{
    size_t size = 0;
    void *data = cache_map(&vs->job->cache, vs->key.hex, &size);
    PyObject *capsule = data ? PyCapsule_New(data, NULL, NULL) : NULL;
    if (!data) {
        return NULL;
    }
    if (!capsule || PyCapsule_SetContext(capsule, (void *)size) < 0 ||
        PyCapsule_SetDestructor(capsule, unmap) < 0) {
        Py_XDECREF(capsule);
        cache_unmap(data, size);
        return NULL;
    }
    npy_intp n = (npy_intp)size;
    PyObject *array = PyArray_New(&PyArray_Type, 1, &n, NPY_UBYTE, NULL, data, 0, NPY_ARRAY_ALIGNED,
                                  NULL);
    /* PyArray_SetBaseObject takes over the reference, also when it fails. */
    if (!array) {
        Py_DECREF(capsule);
    } else if (PyArray_SetBaseObject((PyArrayObject *)array, capsule) < 0) {
        Py_CLEAR(array);
    }
    return array;
}

/* new: a value, as the entry's table has it at *at, which goes on to the next one; NULL: the table
 * is none, or an exception */
static PyObject *
view_value(const PreparedValue *value, PyObject *whole, const int64_t **at, const int64_t *end)
{
    const Type *type = value->make->body->rets[0]->type;
    const int64_t *row = *at, rank = type->rank;
    char *data = PyArray_DATA((PyArrayObject *)whole);
    if (end - row < 2 + 2 * rank || row[1] != rank || row[0] < 0 || row[0] % ALIGNED != 0 ||
        row[0] > (const char *)end - data - value->bytes) {
        return NULL;
    }
    *at = row + 2 + 2 * rank;
    return array_view(whole, type->dtype, (int)rank, row + 2, row + 2 + rank, data + row[0]);
}

/* Makes the values arrays over the entry; false: they are not there, or an exception. */
static bool
find_values(Values *vs, int first)
{
    PyObject *whole = map_entry(vs);
    int64_t n = whole ? (int64_t)PyArray_NBYTES((PyArrayObject *)whole) : 0, words = 0;
    n /= (int64_t)sizeof words;
    const int64_t *all = whole ? PyArray_DATA((PyArrayObject *)whole) : NULL;
    bool good = n > 0;
    if (good) {
        words = all[n - 1];
        good = words >= 0 && words < n;
    }
    const int64_t *at = good ? all + n - 1 - words : NULL;
    for (int k = 0; k < vs->job->made->nvalues && good; k++) {
        PyObject *array = view_value(&vs->job->made->values[k], whole, &at, all + n - 1);
        Py_XSETREF(vs->job->self->arrays[first + k], array);
        good = array != NULL;
    }
    Py_XDECREF(whole);
    return good;
}

/* ---- all of them ---- */

static void
drop(void *arg)
{
    Values *vs = arg;
    for (int k = 0; k < vs->nmakers; k++) {
        plan_free(vs->makers[k].plan);
    }
    if (vs->keeps) {
        cache_drop(&vs->job->cache, &vs->writer);
    }
}

/* Computes them.  keeps: to the entry, and they are dropped; false without an exception: it cannot
 * be written. */
static bool
make_values(Values *vs, int first, bool keeps)
{
    PyObject **arrays = vs->job->self->arrays + first;
    vs->job->computed = vs->job->made->nvalues > 0;
    if (keeps && !cache_begin(&vs->job->cache, &vs->writer)) {
        return false;
    }
    for (int k = 0; k < vs->job->made->nvalues; k++) {
        if (!make_value(vs, k, first + k) || !released(vs->job) ||
            (keeps && !write_value(vs, arrays[k]))) {
            return false;
        }
        if (keeps) {
            Py_CLEAR(arrays[k]);
        }
    }
    return !keeps || (has_its_key(vs) && end_entry(vs));
}

bool
values_make(Cx *cx, Job *job, int first)
{
    Preparation *made = job->made;
    Loaded *self = job->self;
    size_t n = (size_t)made->nvalues;
    Values *vs = cx_alloc(cx, sizeof *vs);
    *vs = (Values){.cx = cx, .job = job, .writer = {.fd = -1}};
    vs->texts = cx_alloc(cx, (n + 1) * sizeof(char *));
    vs->table = cx_alloc(cx, (n * WORDS + 1) * sizeof *vs->table);
    for (size_t k = 0; k < n; k++) {
        Text text = {.cx = cx};
        print_fn(made->values[k].make, &text);
        vs->texts[k] = text.text;
    }
    cx_cleanup(cx, drop, vs);
    vs->origin = n && job->keeps && job->origin && has_room(made) ? find_origin(vs) : NULL;
    vs->keeps = vs->origin != NULL;
    if (vs->keeps) {
        find_key(vs);
    }
    if (PyErr_Occurred()) {
        return false;
    }
    bool found = vs->keeps &&
                 (find_values(vs, first) ||
                  (!PyErr_Occurred() && make_values(vs, first, true) && find_values(vs, first)));
    if (PyErr_Occurred() || (!found && !make_values(vs, first, false))) {
        return false;
    }
    for (size_t k = 0; k < n; k++) {
        int at = first + (int)k;
        if (array_read(self->arrays[at], at, &self->fixed[at]) < 0) {
            return false;
        }
        self->params[at] = (ParamInfo){self->fixed[at].dtype, self->fixed[at].rank, NULL};
    }
    return true;
}
