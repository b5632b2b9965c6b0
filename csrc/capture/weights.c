/* The option weights: which frozen weights of a graph become codes, decided by what these lose.
 *
 * fusion/frozen/codes.c finds the weights and rewrites the graph; here are their values.  A
 * format's noise is a program of the weight alone, which runs once while the graph is compiled.  A
 * weight keeps its floats if the noise of its format is above the bound, or if its values are not
 * known yet.  The report says for each weight what became of it. */

#include "capture/jit/callable.h"
#include "ir/costs.h"
#include "module.h"
#include "weights.h"

#include <math.h>
#include <string.h>

static const char *const format_names[WEIGHT_FORMATS] = {
    [WEIGHT_FLOAT] = "float",
    [WEIGHT_INT8] = "int8",
    [WEIGHT_INT4] = "int4",
    [WEIGHT_INT4_ZERO] = "int4 with zero points",
};

/* By the number of digits; NULL: no option has so many. */
static const char *const row_names[] = {"exact", "i8", "i16", NULL, "i32"};

enum { MOST_MEASURED = WEIGHT_POWERS - WEIGHT_ROWS };   /* digits that a profile has measured */

/* What the caller wants of one weight. */
typedef struct {
    PyObject *tensor; /* borrowed; None: its values are not known */
    const char *format; /* int8, int4 or auto; NULL: it is not asked for */
    double least; /* decibels of signal above noise; NAN: the format's own bound */
    PyObject *powers; /* of a profile, borrowed, or None: see weights_profile */
    const char *rows; /* a name of row_names, or auto; NULL: exact */
} Wanted;

/* What the choice for this weight was based on. */
typedef struct {
    double noise; /* of the format it has, or of the one it would have; NAN: not measured */
    const char *why;
} Found;

typedef struct {
    Cx *cx;
    const Fn *fn;
    const WeightsJob *job;
} Chooser;

/* ---- the noise of a format ---- */

static void
drop_recipe(void *recipe)
{
    recipe_unref(recipe);
}

/* The plan of a measure, as long as the compile; layers of one shape share it. */
static Recipe *
measure_of(Chooser *c, Fn *fn)
{
    CompileOptions options = *c->job->options;
    PassOptions passes = {.verify = c->job->passes->verify, .fuel = -1};
    Text text = {.cx = c->cx};
    print_fn(fn, &text);
    Recipe *recipe = recipe_find(text.text);
    if (!recipe) {
        options.mode = MODE_TCC; /* it runs once */
        options.passes = passes;
        options.tune = false;
        options.show = NULL;
        Plan *plan = plan_build(pipeline_run(fn, &passes), &options);
        recipe = recipe_new(text.text, plan);
        if (!recipe) {
            plan_free(plan);
            fail(c->cx, DIAG_MEMORY, text.length);
        }
    }
    cx_cleanup(c->cx, drop_recipe, recipe);
    return recipe;
}

static double
noise_of(Chooser *c, const Weight *w, WeightFormat format, PyObject *tensor)
{
    Fn *fn = weights_measure(c->fn, w, format);
    double noise = NAN;
    if (c->job->passes->verify) {
        verify_fn(fn);
    }
    recipe_number(measure_of(c, fn), tensor, c->fn->params[w->param]->type->dtype, &noise);
    return noise;
}

/* The noise of the weight's products, of a profile: the power of one kind of it over that of their
 * results. */
static double
profiled(const Wanted *wanted, int kind)
{
    PyObject *signal = PySequence_GetItem(wanted->powers, 0),
             *noise = PySequence_GetItem(wanted->powers, kind);
    double s = signal ? PyFloat_AsDouble(signal) : NAN, n = noise ? PyFloat_AsDouble(noise) : NAN;
    Py_XDECREF(signal);
    Py_XDECREF(noise);
    PyErr_Clear();
    return s == 0 ? (n == 0 ? 0 : NAN) : n / s;
}

static double
noise_wanted(Chooser *c, const Weight *w, const Wanted *wanted, WeightFormat format)
{
    return wanted->powers != Py_None ? profiled(wanted, format)
                                     : noise_of(c, w, format, wanted->tensor);
}

/* What rows of so many digits add to the noise; NAN: that has not been measured. */
static double
rows_noise(const Wanted *wanted, int digits)
{
    bool measured = wanted->powers != Py_None && digits <= MOST_MEASURED;
    return digits > MOST_MEASURED || !digits ? 0
           : measured                        ? profiled(wanted, WEIGHT_ROWS + digits - 1)
                                             : NAN;
}

/* ---- the choice ---- */

static double
decibels(double noise)
{
    return noise > 0 ? -10 * log10(noise) : noise == 0 ? INFINITY : NAN;
}

static bool
is_enough(const Wanted *wanted, WeightFormat format, double noise)
{
    double own = format == WEIGHT_INT8 ? COST_INT8_SIGNAL : COST_INT4_SIGNAL;
    return decibels(noise) >= (isnan(wanted->least) ? own : wanted->least);
}

/* The form of int4 that is worth its bytes: zero points are, if they save a tenth of the noise. */
static WeightFormat
form_of_int4(Chooser *c, const Weight *w, const Wanted *wanted, double *noise)
{
    double plain = noise_wanted(c, w, wanted, WEIGHT_INT4),
           zero = noise_wanted(c, w, wanted, WEIGHT_INT4_ZERO);
    bool worth = 10 * zero <= 9 * plain;
    *noise = worth ? zero : plain;
    return worth ? WEIGHT_INT4_ZERO : WEIGHT_INT4;
}

/* How many digits the rows of a weight of bytes get: what is asked for or, for auto, the fewest,
 * if the signal suffices.  *noise: that of the codes, then of both. */
static int
choose_rows(const Wanted *wanted, double *noise)
{
    const int all = (int)(sizeof row_names / sizeof *row_names);
    bool any = wanted->rows && strcmp(wanted->rows, "auto") == 0;
    for (int k = 1; k < all; k++) {
        bool asked = any ? k <= MOST_MEASURED
                         : wanted->rows && row_names[k] && strcmp(wanted->rows, row_names[k]) == 0;
        double both = asked ? *noise + rows_noise(wanted, k) : NAN;
        if (asked && is_enough(wanted, WEIGHT_INT8, both)) {
            *noise = both;
            return k;
        }
    }
    return 0;
}

/* Chooses the weight's format and notes the reason in `found`. */
static WeightFormat
choose(Chooser *c, Weight *w, const Wanted *wanted, Found *found)
{
    WeightFormat format = WEIGHT_FLOAT;
    *found = (Found){.noise = NAN, .why = w->why};
    if (w->why) {
        return WEIGHT_FLOAT;
    }
    if (!wanted->format || strcmp(wanted->format, format_names[WEIGHT_FLOAT]) == 0) {
        found->why = "codes are not asked for";
        return WEIGHT_FLOAT;
    }
    if (wanted->tensor == Py_None && wanted->powers == Py_None) {
        found->why = "its values are not known while the graph is compiled";
        return WEIGHT_FLOAT;
    }
    if (strcmp(wanted->format, "int8") != 0) {
        format = form_of_int4(c, w, wanted, &found->noise);
        if (is_enough(wanted, format, found->noise)) {
            return format;
        }
    }
    if (strcmp(wanted->format, "int4") != 0) {
        found->noise = noise_wanted(c, w, wanted, WEIGHT_INT8);
        if (is_enough(wanted, WEIGHT_INT8, found->noise)) {
            w->digits = choose_rows(wanted, &found->noise);
            return WEIGHT_INT8;
        }
    }
    found->why = isnan(found->noise) ? "it has NaN, infinities or too large numbers"
                                     : "codes would lose too much";
    return WEIGHT_FLOAT;
}

/* ---- what is wanted, by parameter ---- */

/* Reads rows (position, tensor, format, least, powers, rows); -1 with an exception. */
static int
read_wanted(const WeightsJob *job, Wanted *wanted)
{
    const Captured *captured = job->captured;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(job->wanted); k++) {
        Py_ssize_t at;
        PyObject *least;
        Wanted row;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(job->wanted, k), "nOsOOs;weights has rows of six",
                              &at, &row.tensor, &row.format, &least, &row.powers, &row.rows)) {
            return -1;
        }
        row.least = least == Py_None ? NAN : PyFloat_AsDouble(least);
        if (PyErr_Occurred()) {
            return -1;
        }
        const InputSpec *input = at >= 0 && at < captured->ninputs ? &captured->inputs[at] : NULL;
        if (input && input->kind == INPUT_TENSOR && !input->lazy) {
            wanted[input->index] = row;
        }
    }
    return 0;
}

static Py_ssize_t
position_of(const Captured *captured, int param)
{
    for (int k = 0; k < captured->ninputs; k++) {
        if (captured->inputs[k].kind == INPUT_TENSOR && captured->inputs[k].index == param) {
            return k;
        }
    }
    return -1;
}

/* new: (position, name, format, bytes before, bytes after, decibels, why, rows) */
static PyObject *
row_of(const Chooser *c, const Weight *w, const Found *found)
{
    const Value *v = c->fn->params[w->param];
    double signal = decibels(found->noise);
    return Py_BuildValue("(nssLLdzs)", position_of(c->job->captured, w->param), v->name,
                         format_names[w->format], (long long)weight_bytes(c->fn, w, WEIGHT_FLOAT),
                         (long long)weight_bytes(c->fn, w, w->format), signal,
                         w->format == WEIGHT_FLOAT ? found->why : NULL, row_names[w->digits]);
}

static int
report_rows(const Chooser *c, int n, const Weight *weights, const Found *found)
{
    for (int k = 0; k < n; k++) {
        PyObject *row = row_of(c, &weights[k], &found[k]);
        if (!row || PyList_Append(c->job->rows, row) < 0) {
            Py_XDECREF(row);
            return -1;
        }
        Py_DECREF(row);
    }
    return 0;
}

static void
choose_all(Chooser *c, int n, Weight *weights, const Wanted *wanted, Found *found)
{
    for (int k = 0; k < n; k++) {
        weights[k].format = choose(c, &weights[k], &wanted[weights[k].param], &found[k]);
    }
}

/* Is a profile asked for, instead of codes? */
static bool
is_profile(const Wanted *wanted, int n)
{
    bool any = false;
    for (int k = 0; k < n; k++) {
        any |= wanted[k].format && strcmp(wanted[k].format, "profile") == 0;
    }
    return any;
}

/* The graph that also returns the powers, as outputs after its own. */
static Fn *
profile(Fn *fn, int n, Weight *weights, Captured *captured)
{
    Fn *out = weights_profile(fn, n, weights);
    int more = out->body->nrets - fn->body->nrets;
    size_t bytes = (size_t)(captured->noutputs + more + 1) * sizeof *captured->outputs;
    OutputSpec *outputs = PyMem_Realloc(captured->outputs, bytes);
    if (!outputs) {
        fail(fn->cx, DIAG_MEMORY, bytes);
    }
    captured->outputs = outputs;
    for (int k = 0; k < more; k++) {
        outputs[captured->noutputs++] = (OutputSpec){.kind = OUTPUT_TENSOR,
                                                     .index = fn->body->nrets + k};
    }
    captured->fn = out;
    return out;
}

/* The function whose weights have the rows that have been chosen. */
static Fn *
code_rows(Chooser *c, Fn *fn, int n, Weight *weights)
{
    int *digits = cx_alloc(c->cx, ((size_t)fn->nparams + 1) * sizeof *digits);
    bool any = false;
    for (int k = 0; k < n; k++) {
        weights[k].digits = weights[k].format == WEIGHT_INT8 ? weights[k].digits : 0;
        digits[weights[k].param] = weights[k].digits;
        any |= weights[k].digits > 0;
    }
    if (any) {
        fn = pass_run(pass_find("canonicalise"), fn, c->job->passes);
        fn = digits_by_param(pass_run(pass_find("dead"), fn, c->job->passes), digits);
    }
    for (int k = 0; k < n; k++) {
        weights[k].digits = digits[weights[k].param];
    }
    return fn;
}

Fn *
weights_apply(Fn *fn, const bool *frozen, const WeightsJob *job)
{
    Chooser c = {.cx = fn->cx, .fn = fn, .job = job};
    Weight *weights;
    int n = weights_find(fn, frozen, &weights);
    Wanted *wanted = cx_alloc(c.cx, ((size_t)fn->nparams + 1) * sizeof *wanted);
    Found *found = cx_alloc(c.cx, ((size_t)n + 1) * sizeof *found);
    for (int k = 0; k < fn->nparams; k++) {
        wanted[k] = (Wanted){.tensor = Py_None, .powers = Py_None, .least = NAN};
    }
    if (read_wanted(job, wanted) < 0) {
        return NULL;
    }
    Fn *out;
    if (is_profile(wanted, fn->nparams)) {
        for (int k = 0; k < n; k++) {
            found[k] = (Found){.noise = NAN, .why = weights[k].why};
        }
        out = profile(fn, n, weights, job->captured);
    } else {
        choose_all(&c, n, weights, wanted, found);
        out = code_rows(&c, weights_code(fn, n, weights, &job->passes->fuel), n, weights);
    }
    return report_rows(&c, n, weights, found) < 0 ? NULL : out;
}
