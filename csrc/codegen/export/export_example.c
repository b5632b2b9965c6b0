/* The program that checks an exported one: it runs it on an example and compares the result.
 *
 * dlc runs the example here, as a call of the compiled program does, and keeps a hash of the
 * results.  The numbers are made by example.h, so that the file does not have them.
 */
#include <stdlib.h>
#include <string.h>

#include "example.h"
#include "export_text.h"

/* example.h as one text: made by the build. */
extern const char dlc_example_text[];

enum { SEED = 1, USUAL = 3 };

/* How the numbers are made: tried in this order, until the program has results that are numbers. */
typedef enum { ANY, POSITIVE, FIRST, TRIES } Try;

typedef struct {
    Export *x;
    int64_t *sizes; /* by position in the function's */
    int64_t *values; /* by DimRef of the plan */
    const int64_t *below; /* by Value.id */
    Try how;
    void **memory; /* what the host has made */
    int nmemory;
    int fault;
    uint64_t hash;
    int64_t numbers, strange; /* elements of results that are floating point; that are NaN */
} Example;

/* ---- elements ---- */

static char
kind_of(Dtype dtype)
{
    Dtype part = dtype_component(dtype);
    switch (dtype_info[part].class) {
    case CLASS_BOOL:
        return 'b';
    case CLASS_INT:
        return 'i';
    case CLASS_FLOAT:
        return part == DT_f16 ? 'h' : part == DT_bf16 ? 'g' : 'f';
    default:
        return 'o';
    }
}

/* Those of a complex number are its parts. */
static int
bytes_of(Dtype dtype)
{
    return dtype_info[dtype].bytes / dtype_components(dtype);
}

static int64_t
elements_of(const Example *e, int slot)
{
    const Slot *s = &e->x->main->plan->slots[slot];
    return slot_span(s, e->values) * dtype_components(s->dtype);
}

static int64_t
below_of(const Example *e, int param)
{
    const Value *v = e->x->main->fn->params[param];
    return e->how == FIRST ? 1 : e->below[v->id];
}

/* ---- the host ---- */

static void *
made(Example *e, size_t bytes)
{
    void *memory = malloc(bytes + 64);
    if (memory) {
        e->memory = cx_grow(e->x->cx, e->memory, e->nmemory, sizeof *e->memory);
        e->memory[e->nmemory++] = memset(memory, 0, bytes + 64);
    }
    return memory;
}

static int
host_alloc(void *arg, Dtype dtype, PlanTensor *out)
{
    int64_t last = 0;
    for (int ax = 0; ax < out->rank; ax++) {
        last += out->sizes[ax] > 0 ? (out->sizes[ax] - 1) * out->strides[ax] : 0;
    }
    out->data = out->object = made(arg, (size_t)(last + 1) * (size_t)dtype_info[dtype].bytes);
    return out->data ? 0 : -1;
}

static int
host_view(void *arg, const PlanObject *base, Dtype dtype, int64_t offset, PlanTensor *out)
{
    (void)arg;
    out->data = (char *)base->data + offset * dtype_info[dtype].bytes;
    out->object = base->object;
    return 0;
}

static void
host_reference(void *arg, void *object)
{
    (void)arg, (void)object;
}

static void
host_fault(void *arg, int fault, const char *node, const char *source)
{
    (void)node, (void)source;
    ((Example *)arg)->fault = fault;
}

static void
host_lock(void *arg)
{
    (void)arg;
}

/* ---- a run ---- */

static void
hash_array(Example *e, Dtype dtype, const void *data, int64_t elements)
{
    char kind = kind_of(dtype);
    int bytes = bytes_of(dtype);
    e->hash = example_hash(e->hash, data, kind, bytes, elements);
    for (int64_t k = 0; k < elements && kind == 'f'; k++) {
        double v = bytes == 4 ? (double)((const float *)data)[k] : ((const double *)data)[k];
        e->numbers++;
        e->strange += v != v;
    }
}

static void
run(Example *e)
{
    const Plan *plan = e->x->main->plan;
    Cx *cx = e->x->cx;
    PlanHost host = {.arg = e,
                     .alloc = host_alloc,
                     .view = host_view,
                     .retain = host_reference,
                     .release = host_reference,
                     .fault = host_fault,
                     .leave = host_lock,
                     .enter = host_lock};
    PlanParam *in = cx_alloc(cx, ((size_t)plan->nparams + 1) * sizeof *in);
    PlanTensor *out = cx_alloc(cx, ((size_t)plan->nresults + 1) * sizeof *out);
    uint64_t state = SEED;
    for (int k = 0; k < plan->nparams; k++) {
        const Slot *s = &plan->slots[k];
        int64_t n = elements_of(e, k);
        int64_t *sizes = cx_alloc(cx, 2 * MAX_RANK * sizeof *sizes);
        for (int ax = 0; ax < s->rank; ax++) {
            sizes[ax] = e->values[s->sizes[ax]];
            sizes[MAX_RANK + ax] = e->values[s->strides[ax]];
        }
        bool known = weight_is_known(e->x, k);
        void *data = known ? (void *)(uintptr_t)e->x->options->data[k]
                           : made(e, (size_t)n * (size_t)bytes_of(s->dtype));
        if (!data) {
            fail(cx, DIAG_MEMORY, (size_t)n);
        }
        if (!known) {
            example_fill(data, kind_of(s->dtype), bytes_of(s->dtype), n, below_of(e, k),
                         e->how == POSITIVE, &state);
        }
        in[k] = (PlanParam){{data, data}, s->rank, sizes, sizes + MAX_RANK};
    }
    e->fault = 0;
    e->hash = 0xcbf29ce484222325;
    e->numbers = e->strange = 0;
    if (plan_run(plan, &host, e->sizes, in, out) < 0) {
        return;
    }
    for (int k = 0; k < plan->nresults; k++) {
        const PlanResult *r = &plan->results[k];
        const Slot *s = &plan->slots[r->slot];
        if (r->kind == RESULT_INTO) {
            hash_array(e, plan->slots[r->of].dtype, in[r->of].of.data, elements_of(e, r->of));
        } else if (s->kind == SLOT_SCALAR) {
            hash_array(e, DT_i64, out[k].sizes, 1);
        } else {
            hash_array(e, s->dtype, out[k].data, elements_of(e, r->slot));
        }
    }
}

static void
release(void *arg)
{
    Example *e = arg;
    for (int k = 0; k < e->nmemory; k++) {
        free(e->memory[k]);
    }
    e->nmemory = 0;
}

/* Small sizes that are allowed, but where the caller gives one. */
static void
choose_sizes(Example *e)
{
    const Plan *plan = e->x->main->plan;
    const int64_t *given = e->x->options->sizes;
    e->sizes = cx_alloc(e->x->cx, ((size_t)plan->nsizes + 1) * sizeof *e->sizes);
    for (int k = 0; k < plan->ndeclared; k++) {
        const Solve *s = &plan->solves[k];
        int64_t divisor = s->divisor > 1 ? s->divisor : 1;
        int64_t size = s->range.lo > USUAL + k ? s->range.lo : USUAL + k;
        size = (size + divisor - 1) / divisor * divisor;
        size = size > s->range.hi ? s->range.hi / divisor * divisor : size;
        e->sizes[k] = given && given[k] != SIZE_UNKNOWN ? given[k] : size;
    }
}

/* The sizes of the plan for those of the example. */
static void
find_values(Example *e)
{
    Instance *inst = instance_get((Plan *)e->x->main->plan, e->sizes);
    if (!inst) {
        fail(e->x->cx, DIAG_MEMORY, (size_t)0);
    }
    bool wrong = inst->too_many;
    size_t bytes = ((size_t)e->x->main->plan->ndims + 1) * sizeof *e->values;
    e->values = cx_alloc(e->x->cx, bytes);
    memcpy(e->values, inst->values, bytes - sizeof *e->values);
    instance_unref(inst);
    if (wrong) {
        fail(e->x->cx, DIAG_EXPORT_SIZES);
    }
}

static void
make(Example *e)
{
    choose_sizes(e);
    find_values(e);
    e->below = sample_indices(e->x->main->fn, e->sizes);
    cx_cleanup(e->x->cx, release, e);
    for (e->how = ANY; e->how < TRIES; e->how++) {
        run(e);
        release(e);
        if (!e->fault && e->strange * 2 <= e->numbers) {
            return;
        }
    }
    e->how = ANY;
    run(e);
    release(e);
    e->how = e->fault ? FIRST : ANY;
    if (e->fault) {
        run(e);
        release(e);
    }
}

/* ---- its text ---- */

static const char pool[] =
    "#ifdef CHECK_THREADS\n"
    "#include <pthread.h>\n"
    "\n"
    "/* A pool in its simplest form: threads that begin and end with each kernel. */\n"
    "typedef struct {\n"
    "    void (*body)(void *arg, int64_t lo, int64_t hi);\n"
    "    void *arg;\n"
    "    int64_t lo, hi;\n"
    "} example_share;\n"
    "\n"
    "static void *\n"
    "example_run_share(void *arg)\n"
    "{\n"
    "    const example_share *s = arg;\n"
    "    s->body(s->arg, s->lo, s->hi);\n"
    "    return NULL;\n"
    "}\n"
    "\n"
    "static void\n"
    "example_run_all(void *user, int64_t n, void (*body)(void *arg, int64_t lo, int64_t hi),\n"
    "                void *arg)\n"
    "{\n"
    "    pthread_t threads[CHECK_THREADS];\n"
    "    example_share shares[CHECK_THREADS];\n"
    "    int begun[CHECK_THREADS];\n"
    "    (void)user;\n"
    "    for (int k = 0; k < CHECK_THREADS; k++) {\n"
    "        shares[k] =\n"
    "            (example_share){body, arg, n * k / CHECK_THREADS, n * (k + 1) / CHECK_THREADS};\n"
    "        begun[k] = pthread_create(&threads[k], NULL, example_run_share, &shares[k]) == 0;\n"
    "        if (!begun[k]) {\n"
    "            example_run_share(&shares[k]);\n"
    "        }\n"
    "    }\n"
    "    for (int k = 0; k < CHECK_THREADS; k++) {\n"
    "        if (begun[k]) {\n"
    "            pthread_join(threads[k], NULL);\n"
    "        }\n"
    "    }\n"
    "}\n"
    "#endif\n";

/* The memory of arguments and results, without which there is nothing to check, and the numbers. */
static void
put_arrays(Export *x, const Example *e, Text *out)
{
    const Plan *plan = x->main->plan;
    Text all = {.cx = x->cx}, fill = {.cx = x->cx};
    text_add(&fill, "%s", "");
    for (int k = 0; k < plan->nparams; k++) {
        const Slot *s = &plan->slots[k];
        long long n = elements_of(e, k);
        if (weight_is_known(x, k)) {
            continue;
        }
        text_add(out, "    %s *%s = calloc(%lld, sizeof *%s);\n", element_c(s->dtype), x->params[k],
                 n ? n : 1, x->params[k]);
        text_add(&all, "!%s || ", x->params[k]);
        text_add(&fill, "    example_fill(%s, '%c', %d, %lld, %lld, %d, &example_state);\n",
                 x->params[k], kind_of(s->dtype), bytes_of(s->dtype), n, (long long)below_of(e, k),
                 e->how == POSITIVE);
    }
    for (int k = 0; k < plan->nresults; k++) {
        const Slot *s = &plan->slots[plan->results[k].slot];
        if (x->outputs[k]) {
            bool size = s->kind == SLOT_SCALAR;
            long long n = size ? 1 : (long long)elements_of(e, plan->results[k].slot);
            text_add(out, "    %s *%s = calloc(%lld, sizeof *%s);\n",
                     size ? "int64_t" : element_c(s->dtype), x->outputs[k], n ? n : 1,
                     x->outputs[k]);
            text_add(&all, "!%s || ", x->outputs[k]);
        }
    }
    text_add(out,
             "    if (%s%s) {\n        puts(\"%s: there is no memory\");\n"
             "        return 2;\n    }\n%s",
             all.text ? all.text : "", is_for(x, EXPORT_HLS) ? "0" : "!workspace", x->options->name,
             fill.text);
}

/* A file as it is, in memory; NULL: it cannot be read. */
static const char reader[] =
    "\nstatic void *\n"
    "example_read(const char *path, size_t *bytes)\n"
    "{\n"
    "    FILE *file = fopen(path, \"rb\");\n"
    "    long size = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;\n"
    "    int good = size >= 0 && fseek(file, 0, SEEK_SET) == 0;\n"
    "    char *memory = good ? malloc((size_t)size + 1) : NULL;\n"
    "    *bytes = memory ? fread(memory, 1, (size_t)size, file) : 0;\n"
    "    if (file) {\n"
    "        fclose(file);\n"
    "    }\n"
    "    return memory;\n"
    "}\n";

/* The structure of the weights: of arrays of the example, or from the file. */
static void
put_weight_pointers(Export *x, Text *out)
{
    const char *name = x->options->name;
    const Plan *plan = x->main->plan;
    if (x->in_file && x->options->data) {
        text_add(out,
                 "    size_t example_bytes;\n"
                 "    const char *example_path = argc > 1 ? argv[1] : \"%s.safetensors\";\n"
                 "    void *example_file = example_read(example_path, &example_bytes);\n"
                 "    if (!example_file) {\n"
                 "        printf(\"%s: %%s cannot be read\\n\", example_path);\n"
                 "        return 2;\n    }\n"
                 "    %s_weights weights;\n"
                 "    %s_status status = %s_bind(&weights, example_file, example_bytes);\n"
                 "    if (status) {\n        printf(\"%s: %%s\\n\", %s_message(status));\n"
                 "        return 2;\n    }\n",
                 name, name, name, name, name, name, name);
    } else if (x->in_file) {
        text_add(out, "    %s_weights weights = {", name);
        for (int k = 0; k < plan->nparams; k++) {
            if (is_weight(x, k)) {
                text_add(out, ".%s = %s, ", x->params[k], x->params[k]);
            }
        }
        text_add(out, "};\n    %s_status status;\n", name);
    } else {
        text_add(out, "    %s_status status;\n", name);
    }
}

static void
put_hashes(Export *x, const Example *e, Text *out)
{
    const Plan *plan = x->main->plan;
    for (int k = 0; k < plan->nresults; k++) {
        const PlanResult *r = &plan->results[k];
        int slot = r->kind == RESULT_INTO ? r->of : r->slot;
        const Slot *s = &plan->slots[slot];
        const char *name = x->outputs[k] ? x->outputs[k] : x->params[r->of];
        bool size = s->kind == SLOT_SCALAR;
        text_add(out, "    example_result = example_hash(example_result, %s, '%c', %d, %lld);\n",
                 name, size ? 'i' : kind_of(s->dtype), size ? 8 : bytes_of(s->dtype),
                 size ? 1 : (long long)elements_of(e, slot));
    }
}

void
put_check(Export *x, Text *out)
{
    Example *e = cx_alloc(x->cx, sizeof *e);
    *e = (Example){.x = x};
    make(e);
    const char *name = x->options->name, *sizes = size_params(x, x->main, false);
    const Plan *plan = x->main->plan;
    int n = (int)strlen(sizes);
    text_add(
        out,
        "/* Runs %s on an example and compares the bits of the results with those of dlc.%s */\n"
        "#include \"%s.h\"\n\n#include <stdio.h>\n#include <stdlib.h>\n#include <time.h>\n\n",
        name,
        is_for(x, EXPORT_HLS) ? ""
                              : "\n * With -DCHECK_THREADS=4 -pthread the kernels share threads.",
        name);
    const char *example = strstr(dlc_example_text, "#include <stdint.h>");
    text_add(out, "%s\n%s", example + strlen("#include <stdint.h>\n\n"),
             is_for(x, EXPORT_HLS) ? "" : pool);
    bool reads = x->in_file && x->options->data;
    text_add(out, "%s\nint\nmain(%s)\n{\n", reads ? reader : "",
             reads ? "int argc, char **argv" : "void");
    for (int k = 0; k < plan->nsizes; k++) {
        text_add(out, "    const int64_t %s = %lld;\n", x->sizes[k], (long long)e->sizes[k]);
    }
    text_add(out, "    uint64_t example_state = %d, example_result = 0xcbf29ce484222325;\n", SEED);
    if (!is_for(x, EXPORT_HLS)) {
        text_add(out,
                 "    size_t bytes = %s_workspace(%.*s);\n"
                 "    void *workspace = calloc(1, bytes + 1);\n",
                 name, n ? n - 2 : 0, sizes);
    }
    put_arrays(x, e, out);
    put_weight_pointers(x, out);
    bool plain = is_for(x, EXPORT_HLS); /* the call and its arrays, and nothing else */
    if (!plain) {
        text_add(out,
                 "    const %s_threads *threads = NULL;\n"
                 "#ifdef CHECK_THREADS\n"
                 "    threads = &(%s_threads){example_run_all, NULL};\n#endif\n",
                 name, name);
    }
    text_add(out,
             "    clock_t example_begin = clock();\n"
             "    status = %s_run(%s);\n"
             "    double example_seconds = (double)(clock() - example_begin) / CLOCKS_PER_SEC;\n",
             name, run_params(x, false));
    text_add(
        out,
        "    if (status) {\n        printf(\"%s: %%s\\n\", %s%s);\n        return %s;\n    }\n",
        name, plain ? "\"an index in an input is out of range\"" : name,
        plain ? "" : "_message(status)", e->fault ? "0" : "1");
    put_hashes(x, e, out);
    text_add(out,
             "    (void)example_state;\n"
             "    int example_same = example_result == 0x%llx;\n"
             "    printf(\"%s: %%s%s, %%.6f s\\n\",\n"
             "           example_same ? \"the bits are the same\" : \"the bits are others\", %s"
             "example_seconds);\n",
             (unsigned long long)e->hash, name, plain ? "" : ", %zu bytes of workspace",
             plain ? "" : "bytes, ");
    for (int k = 0; k < plan->nparams; k++) {
        if (!weight_is_known(x, k)) {
            text_add(out, "    free(%s);\n", x->params[k]);
        }
    }
    for (int k = 0; k < plan->nresults; k++) {
        if (x->outputs[k]) {
            text_add(out, "    free(%s);\n", x->outputs[k]);
        }
    }
    text_add(out, "%s%s    return !example_same;\n}\n", reads ? "    free(example_file);\n" : "",
             plain ? "" : "    free(workspace);\n");
}
