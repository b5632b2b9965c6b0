/* dlc._C.compile: from an aten graph to a Callable. */

#include "capture/jit/callable.h"
#include "module.h"
#include "weights.h"

#include <string.h>

/* The arguments of compile(), and the results of the compile so far. */
typedef struct {
    PyObject *gm;
    WalkOptions walk;
    /* lists of positions of graph inputs, or NULL: those that are frozen, and that a call frees */
    PyObject *frozen, *given;
    PyObject *weights; /* rows: what is wanted of weights; or NULL */
    PyObject *coded; /* a list for what became of them */
    const char *digits, *groups; /* the passes that make integers of rows, or NULL */
    PyObject *report; /* dict or NULL */
    PassOptions passes;
    CompileOptions options;
    Captured captured;
    const char *program; /* the text of the captured graph, after a fault */
    Plan *plan;
    PyObject *progress; /* told about the search for schedules, or NULL: there is none */
    bool raised; /* a Python exception is set */
    bool given_text; /* the program was read from a file, and no rule has seen it yet */
    Wait wait;
} Job;

static void
report_set(PyObject *report, const char *key, PyObject *value)
{
    if (value && PyDict_SetItemString(report, key, value) < 0) {
        PyErr_Clear(); /* a report that lacks an entry is still a report */
    }
    Py_XDECREF(value);
}

/* Appends the text to an earlier one of this name: each body has a text of its own. */
static void
report_text(void *arg, const char *what, const char *text)
{
    PyObject *before = PyDict_GetItemString(arg, what);
    report_set(arg, what,
               before ? PyUnicode_FromFormat("%U\n%s", before, text ? text : "")
                      : PyUnicode_FromString(text ? text : ""));
}

static void
report_fn(PyObject *report, const char *key, const Fn *fn)
{
    Text text = {.cx = fn->cx};
    print_fn(fn, &text);
    report_text(report, key, text.text);
}

/* Each pass: its row in the report, if there is one, and in the trace. */
static void
note_pass(void *arg, const char *pass, const Fn *fn, double seconds)
{
    trace_event("pass", pass, clock_seconds() - seconds, seconds);
    PyObject *passes = arg ? PyDict_GetItemString(arg, "passes") : NULL;
    if (!passes) {
        return;
    }
    PyObject *row = Py_BuildValue("(sdi)", pass, seconds, fn->body->n);
    if (!row || PyList_Append(passes, row) < 0) {
        PyErr_Clear();
    }
    Py_XDECREF(row);
}

static void
report_calls(PyObject *report, const Captured *captured)
{
    PyObject *calls = PyList_New(0);
    for (int k = 0; calls && k < captured->nsites; k++) {
        const CallSite *site = &captured->sites[k];
        PyObject *target = PyObject_Str(site->target);
        PyObject *row = target ? Py_BuildValue("(Ozz)", target, site->node, site->source) : NULL;
        if (!row || PyList_Append(calls, row) < 0) {
            Py_CLEAR(calls);
        }
        Py_XDECREF(target);
        Py_XDECREF(row);
    }
    report_set(report, "calls", calls);
}

/* Counts the kernels, those in the bodies of loops and branches included. */
static int
count_kernels(const Fn *kernels)
{
    int n = 0;
    for (int k = 0; k < kernels->body->n; k++) {
        const Let *let = kernels->body->lets[k];
        n += let->op == OP_kernel;
        for (int j = 0; j < let->nbodies; j++) {
            n += count_kernels(let->bodies[j]);
        }
    }
    return n;
}

/* Without memory the key is left out: the kernel will be compiled again elsewhere. */
static void
add_key(void *arg, const char *key)
{
    PyObject *text = PyUnicode_FromString(key);
    if (!text || PyList_Append(arg, text) < 0) {
        PyErr_Clear();
    }
    Py_XDECREF(text);
}

/* ---- prepared values ---- */

/* By parameter of the function, those at the positions; NULL: there are none. */
static bool *
find_params(Cx *cx, const Captured *captured, PyObject *positions)
{
    bool *found = cx_alloc(cx, (size_t)(captured->fn->nparams + 1) * sizeof *found), any = false;
    for (Py_ssize_t k = 0; positions && k < PyList_GET_SIZE(positions); k++) {
        Py_ssize_t at = PyNumber_AsSsize_t(PyList_GET_ITEM(positions, k), NULL);
        const InputSpec *input = at >= 0 && at < captured->ninputs ? &captured->inputs[at] : NULL;
        if (input && input->kind == INPUT_TENSOR && !input->lazy) {
            any = found[input->index] = true;
        }
    }
    PyErr_Clear();
    return any ? found : NULL;
}

/* Marks the parameters at the positions, which a call frees: it takes them out of the list that it
 * gets, the only reference that its caller has.  A parameter that the
 * caller gets back unchanged, or that shares memory with a result, stays (V29). */
static void
mark_given(Cx *cx, const Captured *captured, PyObject *positions)
{
    const Fn *fn = captured->fn;
    const bool *given = find_params(cx, captured, positions);
    for (int k = 0; k < fn->nparams; k++) {
        fn->params[k]->given = given && given[k];
    }
    for (int k = 0; k < captured->noutputs; k++) {
        const OutputSpec *output = &captured->outputs[k];
        const InputSpec *input = output->kind == OUTPUT_INPUT ? &captured->inputs[output->index]
                                                              : NULL;
        if (input && input->kind == INPUT_TENSOR) {
            fn->params[input->index]->given = false;
        }
    }
    for (int k = 0; k < fn->body->nrets; k++) {
        const Result *r = &fn->results[k];
        if ((r->kind == RESULT_INTO || r->kind == RESULT_VIEW_PARAM) && r->of >= 0 &&
            r->of < fn->nparams) {
            fn->params[r->of]->given = false;
        }
    }
}

/* The recipe for the value that a function computes; it is identified by the function's text. */
static Recipe *
recipe_of(const Job *job, Fn *make)
{
    CompileOptions options = job->options;
    PassOptions passes = {.verify = job->passes.verify, .fuel = job->passes.fuel};
    Text text = {.cx = make->cx};
    print_fn(make, &text);
    if (pass_dumps(&job->passes, "prepare")) {
        fprintf(stderr, "/* prepare */\n%s\n", text.text);
    }
    Recipe *recipe = recipe_find(text.text);
    if (recipe) {
        return recipe;
    }
    options.passes = passes;
    options.tune = false;
    options.schedule = NULL;
    options.show = NULL;
    Plan *plan = plan_build(pipeline_run(make, &passes), &options);
    if (!(recipe = recipe_new(text.text, plan))) {
        plan_free(plan);
        fail(make->cx, DIAG_MEMORY, text.length);
    }
    return recipe;
}

static void
report_prepared(PyObject *report, const Preparation *made)
{
    long long bytes = 0;
    for (int k = 0; k < made->nvalues; k++) {
        bytes += made->values[k].bytes;
    }
    report_set(report, "prepared", Py_BuildValue("(iL)", made->nvalues, bytes));
}

/* Brings the function to canonical form and drops dead lets. */
static Fn *
canonical(Job *job, Fn *fn)
{
    return pass_run(pass_find("dead"), pass_run(pass_find("canonicalise"), fn, &job->passes),
                    &job->passes);
}

/* The function with weights as codes, if that is wanted; NULL: an exception. */
static Fn *
code_weights(Job *job, Fn *fn, const bool *frozen)
{
    if (!job->weights) {
        return fn;
    }
    WeightsJob weights = {
        .captured = &job->captured,
        .wanted = job->weights,
        .rows = job->coded,
        .options = &job->options,
        .passes = &job->passes,
    };
    Fn *coded = weights_apply(fn, frozen, &weights);
    if (!coded) {
        job->raised = true;
        return NULL;
    }
    if (coded != fn && job->passes.verify) {
        verify_fn(coded);
    }
    if (coded != fn && pass_dumps(&job->passes, "weights")) {
        Text text = {.cx = fn->cx};
        print_fn(coded, &text);
        fprintf(stderr, "/* weights */\n%s\n", text.text);
    }
    return coded == fn ? fn : canonical(job, coded);
}

/* The function whose products of codes have rows of integers, if that is wanted. */
static Fn *
digit_rows(Job *job, Fn *fn)
{
    return job->digits
               ? canonical(job, pass_run(pass_find(job->digits), canonical(job, fn), &job->passes))
               : fn;
}

/* The same where scales belong to groups of terms.  The codes of such weights have their order in
 * memory already. */
static Fn *
group_rows(Job *job, Fn *fn)
{
    return job->groups
               ? canonical(job, pass_run(pass_find(job->groups), canonical(job, fn), &job->passes))
               : fn;
}

/* The function that runs, and how the values are made that it reads.  frozen: by parameter, or
 * NULL. */
static Fn *
prepare(Job *job, Fn *fn, const bool *frozen)
{
    Cx *cx = fn->cx;
    Captured *captured = &job->captured;
    if (!frozen) {
        return group_rows(job, digit_rows(job, fn));
    }
    fn = code_weights(job, canonical(job, fn), frozen);
    if (!fn) {
        return NULL;
    }
    fn = digit_rows(job, fn);
    Preparation *made = prepare_cut(fn, frozen, &job->passes.fuel);
    made->run = group_rows(job, made->run);
    size_t bytes = (size_t)(made->nvalues + 1) * sizeof *captured->prepared;
    if (!(captured->prepared = PyMem_Calloc(1, bytes))) {
        fail(cx, DIAG_MEMORY, bytes);
    }
    for (int k = 0; k < made->nvalues; k++) {
        Fn *make = made->values[k].make;
        PreparedInput *input = &captured->prepared[k];
        if (job->passes.verify) {
            verify_fn(make);
        }
        input->recipe = recipe_of(job, make);
        captured->nprepared++;
        input->dtype = make->body->rets[0]->type->dtype;
        input->nparams = make->nparams;
        bytes = (size_t)(make->nparams + 1) * sizeof *input->params;
        if (!(input->params = PyMem_Calloc(1, bytes))) {
            fail(cx, DIAG_MEMORY, bytes);
        }
        memcpy(input->params, made->values[k].params,
               (size_t)make->nparams * sizeof *input->params);
    }
    if (job->passes.verify) {
        verify_fn(made->run);
    }
    if (job->report) {
        report_prepared(job->report, made);
    }
    return made->run;
}

static void
compile_body(Cx *cx, void *arg)
{
    Job *job = arg;
    double begin = clock_seconds();
    job->given_text = PyDict_Check(job->gm);
    int status = job->given_text ? artifact_read(cx, job->gm, &job->captured)
                                 : walk_graph(cx, job->gm, &job->walk, &job->captured);
    if (status < 0) {
        job->raised = true;
        return;
    }
    double walked = clock_seconds();
    trace_event("capture", "capture", begin, walked - begin);
    const bool *frozen = find_params(cx, &job->captured, job->frozen);
    mark_given(cx, &job->captured, frozen ? NULL : job->given);
    verify_fn(job->captured.fn);
    job->given_text = false;
    if (job->report) {
        report_fn(job->report, "graph", job->captured.fn);
        report_calls(job->report, &job->captured);
        report_set(job->report, "walk_seconds", PyFloat_FromDouble(walked - begin));
    }
    job->options.passes = job->passes;
    Fn *run = prepare(job, job->captured.fn, frozen);
    if (!run) {
        return;
    }
    Fn *kernels = pipeline_run(run, &job->passes);
    double fused = clock_seconds();
    if (job->report) {
        report_fn(job->report, "kernels", kernels);
        report_set(job->report, "fusion_seconds", PyFloat_FromDouble(fused - walked));
        report_set(job->report, "kernel_count", PyLong_FromLong(count_kernels(kernels)));
    }
    job->options.passes = job->passes;
    job->plan = plan_build(kernels, &job->options);
    count_add(COUNT_KERNELS, count_kernels(kernels));
    if (job->report) {
        report_set(job->report, "codegen_seconds", PyFloat_FromDouble(clock_seconds() - fused));
    }
}

/* ---- what a fault leaves ---- */

static void
print_captured(Cx *cx, void *arg)
{
    Job *job = arg;
    Text text = {.cx = cx};
    print_fn(job->captured.fn, &text);
    job->program = text.text;
}

/* Tells the InternalError that is set which program was compiled: its text, and the parts of it
 * that are Python's. */
static void
name_program(Cx *cx, Job *job)
{
    PyObject *type, *error, *traceback;
    if (!PyErr_ExceptionMatches(dlc_InternalError) || !job->captured.fn ||
        !cx_try(cx, print_captured, job)) {
        return;
    }
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    PyObject *text = PyUnicode_FromString(job->program),
             *parts = text ? artifact_parts(&job->captured) : NULL;
    if (!parts || PyObject_SetAttrString(error, "program", text) < 0 ||
        PyObject_SetAttrString(error, "parts", parts) < 0) {
        PyErr_Clear(); /* the error is told without */
    }
    Py_XDECREF(text);
    Py_XDECREF(parts);
    PyErr_Restore(type, error, traceback);
}

/* The compile ended without a callable: raises the reason.  If a rule refuses a program from a
 * file, the fault is the file's, and is not counted as a bug. */
static void
raise_failure(Cx *cx, Job *job)
{
    DiagKind kind = cx_diag(cx)->kind;
    if ((kind == DIAGKIND_INTERNAL || kind == DIAGKIND_GAP) && !job->given_text) {
        count_add(COUNT_INTERNAL_REFUSALS, 1);
    }
    raise_diag(cx_diag(cx));
    name_program(cx, job);
}

static PyObject *
run_job(PyObject *module, Job *job, PyObject *fallback)
{
    PyObject *callable = NULL;
    Cx *cx = cx_new();
    if (!cx) {
        return PyErr_NoMemory();
    }
    bool done = cx_try(cx, compile_body, job);
    if (!done && !job->raised && !PyErr_Occurred()) {
        raise_failure(cx, job);
    }
    if (done && !job->raised) {
        callable = callable_new(module_state(module)->callable_type, job->plan, &job->captured,
                                fallback, job->report, job->progress);
    } else {
        plan_free(job->plan);
        captured_clear(&job->captured);
    }
    cx_free(cx);
    return callable;
}

int
compile_mode(const char *tier, CompileOptions *options)
{
    if (strcmp(tier, "auto") == 0) {
        options->mode = MODE_AUTO;
    } else if (strcmp(tier, "tcc") == 0) {
        options->mode = MODE_TCC;
    } else if (strcmp(tier, "gcc") == 0) {
        options->mode = MODE_CC;
    } else {
        PyErr_Format(PyExc_ValueError, "tier is \"auto\", \"tcc\" or \"gcc\", not \"%s\"", tier);
        return -1;
    }
    return 0;
}

/* The options for kernels, which come after the tier and the options of the passes. */
static void
take_options(Job *job, const char *compiler, const char *cache, PyObject *keys)
{
    CompileOptions *options = &job->options;
    options->cc = (CcOptions){.compiler = compiler, .cache = cache};
    wait_begin(&job->wait, &options->cc);
    options->used = keys ? add_key : NULL;
    options->used_arg = keys;
}

static void
take_tuning(Job *job, PyObject *progress, double budget)
{
    job->progress = progress;
    job->options.tune = true;
    job->options.tune_budget = budget;
    job->options.mode = job->options.mode == MODE_AUTO ? MODE_CC : job->options.mode;
}

static void
take_report(Job *job, PyObject *report)
{
    job->report = report;
    job->passes.trace_arg = job->options.show_arg = report;
    job->options.show = report_text;
    report_set(report, "passes", PyList_New(0));
    report_set(report, "tuned", PyList_New(0));
}

PyDoc_STRVAR(
    compile_doc,
    "compile(gm, fallback, *, tier='auto', cc=None, cache=None, verify=False, dump=None, fuel=-1,\n"
    "        report=None, direct=False, keys=None, bodies=None, tune=None, tune_budget=0.0,\n"
    "        products='auto', frozen=None, inference=False, given=None, own_tensors=False,\n"
    "        checks=False, weights=None, coded=None, schedule=None, activations='exact')\n"
    "        -> Callable\n\n"
    "Compiles an aten-level torch.fx.GraphModule whose nodes carry meta['val'].  fallback: what "
    "runs the\n"
    "graph when the arguments of a call are not those it was captured for.  cache: a folder, '' "
    "for none,\n"
    "None for the default one.  report: a dict to fill for dlc.explain.  direct: gm is of Python "
    "functions,\n"
    "as Dynamo gives it, with meta['example_value'].  keys: a list to which the keys in the cache "
    "of the\n"
    "kernels are appended.  bodies: a function from a GraphModule in gm to what calls get in its "
    "place.  Or gm is a\n"
    "dict of parts: see parts().  tune: the first call looks for schedules, for about tune_budget "
    "seconds, and\n"
    "calls tune(done, total, line): how far it is, and what was found (a str or None); tier 'auto' "
    "is 'gcc' then.\n"
    "products: 'own' computes products of matrices here, 'library' calls the eager operators; "
    "'auto' does\n"
    "for each what is measured to be faster (csrc/capture/aten/product/aten_product.c).\n"
    "frozen: a list of the positions of inputs that change by torch's ways alone: what is computed "
    "of these alone is\n"
    "kept from call to call.  inference: nothing of the graph is recorded for autograd, so that "
    "what it\n"
    "computes may lie in memory otherwise than eager's does; its results do not.  So is a direct "
    "one.  given: a list of the positions of inputs that a call "
    "with a list frees after their last use.  own_tensors: large values between kernels are "
    "tensors of their own,\n"
    "so that a call takes no more at once than is alive.  checks: the first run of each kernel is "
    "compared with\n"
    "the interpreter; where it differs, the call raises InternalError.  weights: rows (position, "
    "tensor or None, format,\n"
    "decibels or None, powers or None, rows) of frozen inputs that may become codes; coded: a list "
    "that gets a row\n"
    "(position, name, format, bytes before, bytes after, decibels, reason, rows) of each.  "
    "schedule: the lines of one for the\n"
    "kernels (csrc/codegen/schedule/nest/written.c).  activations: 'i8', 'i16' and 'i32' multiply "
    "floats by\ncodes as integers.\n\n"
    "Raises CaptureError when dlc cannot take the graph, InternalError when dlc itself is wrong.");

static PyObject *
compile_graph(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"gm",      "fallback",  "tier",     "cc",          "cache",
                            "verify",  "dump",      "fuel",     "report",      "direct",
                            "keys",    "bodies",    "tune",     "tune_budget", "products",
                            "frozen",  "inference", "given",    "own_tensors", "checks",
                            "weights", "coded",     "schedule", "activations", NULL};
    const char *tier = "auto", *cc = NULL, *cache = NULL, *dump = NULL, *products = "auto",
               *activations = "exact";
    PyObject *gm, *fallback, *report = Py_None, *keys = NULL, *bodies = NULL, *tune = Py_None;
    double tune_budget = 0;
    long long fuel = -1;
    int verify = 0, direct = 0, inference = 0, own_tensors = 0, checks = 0;
    Job job = {0};
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "OO|$szzpzLOpO!OOdsO!pO!ppO!O!zs", names, &gm, &fallback, &tier, &cc,
            &cache, &verify, &dump, &fuel, &report, &direct, &PyList_Type, &keys, &bodies, &tune,
            &tune_budget, &products, &PyList_Type, &job.frozen, &inference, &PyList_Type,
            &job.given, &own_tensors, &checks, &PyList_Type, &job.weights, &PyList_Type, &job.coded,
            &job.options.schedule, &activations) ||
        compile_mode(tier, &job.options) < 0 ||
        products_from_text(products, &job.walk.products) < 0) {
        return NULL;
    }
    if (strcmp(activations, "exact") != 0) {
        bool i8 = strcmp(activations, "i8") == 0, i16 = strcmp(activations, "i16") == 0;
        job.digits = i8 ? "digits_i8" : i16 ? "digits_i16" : "digits_i32";
        job.groups = i8 ? "groups_i8" : i16 ? "groups_i16" : "groups_i32";
    }
    if (!pytensor_ready()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "torch_init() comes before compile(): import dlc.backend");
        return NULL;
    }
    if (report != Py_None && !PyDict_Check(report)) {
        PyErr_SetString(PyExc_TypeError, "report is a dict or None");
        return NULL;
    }
    job.gm = gm;
    job.walk.direct = direct;
    job.options.own_tensors = own_tensors;
    job.options.checks = checks;
    job.walk.inference = inference || direct;
    job.walk.bodies = bodies;
    if (job.weights && !job.coded) {
        PyErr_SetString(PyExc_TypeError, "weights comes with coded, a list");
        return NULL;
    }
    job.walk.weights = job.walk.products == PRODUCTS_AUTO ? job.frozen : NULL;
    job.walk.short_weights = job.weights != NULL;
    job.passes = (PassOptions){.verify = verify, .dump = dump, .fuel = fuel};
    job.passes.trace = report != Py_None || trace_is_on() ? note_pass : NULL;
    take_options(&job, cc, cache, keys);
    if (tune != Py_None) {
        take_tuning(&job, tune, tune_budget);
    }
    if (report != Py_None) {
        take_report(&job, report);
    }
    log_configure();
    double begin = clock_seconds();
    PyObject *callable = run_job(module, &job, fallback);
    if (wait_raise(&job.wait)) {
        Py_CLEAR(callable);
    }
    count_add(COUNT_BACKEND_SECONDS, (int64_t)(1e9 * (clock_seconds() - begin)));
    trace_event("compile", "graph", begin, clock_seconds() - begin);
    count_add(COUNT_GRAPHS, callable != NULL);
    return callable;
}

static PyMethodDef compile_methods[] = {
    {"compile", (PyCFunction)(void (*)(void))compile_graph, METH_VARARGS | METH_KEYWORDS,
     compile_doc},
    {NULL},
};

int
compile_register(PyObject *module)
{
    return PyModule_AddFunctions(module, compile_methods);
}
