/* One program, run in every way and compared with the interpreter on the graph. */
#include "choices.h"
#include "nudge.h"
#include "portable.h"
#include "run.h"
#include "schedules.h"
#include "threads.h"

#include "codegen/codegen.h"
#include "fusion/fusion.h"
#include "ir/eval/eval.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* the executors of run_case */
enum { LOOPS = 1, LOOPS_OF_CC, OF_TCC, EXECUTORS = 6 };
enum { GUARD = 64, GUARD_BYTE = 0xb7, MAX_MEMORY = 64, LARGE = 1 << 18, NUDGES = 4 };

/* By how many roundings sums are nudged, and whether zeros change their sign.  Three of them share
 * no factor: the cosine of a sum that is so large that its roundings are whole turns comes back to
 * where it was by one of them.  In the second and third not all sums move the same way: what a mean
 * and a variance change may cancel.  The last two are a sum's neighbours, which another order gives
 * most often: an element of a product whose terms cancel can be the same for all but one. */
static const Nudge nudges[NUDGES] = {{8, false, 0}, {-3, true, 1}, {1, false, 2}, {-1, false, 0}};

typedef struct { char *memory; size_t bytes; } Guarded;

typedef struct {
    Cx *cx;
    const Case *c;
    const Fn *graph, *loops;
    Fn *kernels;
    int64_t *sizes;
    uint64_t state;             /* of the random numbers that arguments are made of */
    Guarded memory[MAX_MEMORY]; /* what the plan was given */
    int nmemory;
    PassOptions left;           /* what fusion has left of the fuel is for code generation */
    int fault;
    char where[200];            /* it was */
    void (*stage)(const char *name);
} Run;

/* A way to run the program: fills out (results into parameters: what the parameter then holds). */
typedef struct {
    const char *name;
    unsigned tier;              /* 0: the interpreter */
    void (*run)(Run *r, unsigned tier, Tensor *out);
} Executor;

static Tensor *
arguments(Run *r)
{
    uint64_t state = r->state;
    Tensor *in = cx_alloc(r->cx, (size_t)r->graph->nparams * sizeof *in + 1);
    sample_args(r->graph, &state, r->sizes, in);
    return in;
}

/* ---- the interpreter ---- */

static void
interpret(Run *r, unsigned tier, Tensor *out)
{
    (void)tier;
    const Fn *fn = r->loops ? r->loops : r->kernels ? r->kernels : r->graph;
    eval_fn_at(fn, r->sizes, arguments(r), out);
}

/* ---- the plan, with guard bytes around all memory that it sees ---- */

static void *
guarded(Run *r, size_t bytes)
{
    Guarded *g = &r->memory[r->nmemory];
    if (r->nmemory == MAX_MEMORY || !(g->memory = malloc(bytes + 2 * GUARD))) {
        return NULL;
    }
    r->nmemory++;
    g->bytes = bytes;
    return (char *)memset(g->memory, GUARD_BYTE, bytes + 2 * GUARD) + GUARD;
}

static void
check_guards(Run *r, const char *name)
{
    bool intact = true;
    for (int k = 0; k < r->nmemory; k++) {
        const unsigned char *m = (const unsigned char *)r->memory[k].memory;
        for (int j = 0; j < GUARD; j++) {
            intact = intact && m[j] == GUARD_BYTE
                     && m[GUARD + r->memory[k].bytes + (size_t)j] == GUARD_BYTE;
        }
        free(r->memory[k].memory);
    }
    r->nmemory = 0;
    if (!intact) {
        fail_as(r->cx, DIAG_PASS, "%s: wrote outside a tensor", name);
    }
}

/* Elements from the first to the last in memory; strides are not negative. */
static size_t
span(int rank, const int64_t *sizes, const int64_t *strides)
{
    int64_t last = 0;
    for (int ax = 0; ax < rank; ax++) {
        if (sizes[ax] == 0) {
            return 0;
        }
        last += (sizes[ax] - 1) * strides[ax];
    }
    return (size_t)last + 1;
}

static int
host_alloc(void *arg, Dtype dtype, PlanTensor *out)
{
    size_t n = span(out->rank, out->sizes, out->strides);
    out->data = guarded(arg, n * (size_t)dtype_info[dtype].bytes);
    out->object = out->data;
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

static int
host_call(void *arg, int site, int nargs, const PlanTensor *args, int ndims,
          const int64_t *dims, int nres, PlanTensor *results, PlanBinder *binder)
{
    (void)arg, (void)site, (void)nargs, (void)args, (void)ndims, (void)dims, (void)nres;
    (void)results, (void)binder;
    return -1;
}

static void
host_reference(void *arg, void *object)
{
    (void)arg, (void)object;
}

static void
host_fault(void *arg, int fault, const char *node, const char *source)
{
    Run *r = arg;
    r->fault = fault;
    snprintf(r->where, sizeof r->where, "%s %s", node ? node : "", source ? source : "");
}

static void
host_lock(void *arg)
{
    (void)arg;
}

static void
release_plan(void *arg)
{
    plan_free(arg);
}

/* Parameter k begins some elements into its memory, so at any alignment. */
static void
to_plan(Run *r, const Tensor *t, int k, PlanParam *out)
{
    size_t element = (size_t)dtype_info[t->dtype].bytes;
    size_t bytes = span(t->rank, t->sizes, t->strides) * element;
    size_t offset = (r->c->seed + (uint64_t)k) % 4 * element;
    char *data = (char *)guarded(r, offset + bytes) + offset;
    memcpy(data, t->data, bytes);
    *out = (PlanParam){{data, data}, t->rank, t->sizes, t->strides};
}

/* A copy in the arena: guarded memory goes before results are compared.  A size is handed over as a
 * number unless it was written into a parameter. */
static Tensor
from_plan(Run *r, const Value *v, const PlanTensor *t)
{
    Tensor out = {.dtype = v->type->dtype, .rank = v->type->rank};
    memcpy(out.sizes, t->sizes, sizeof out.sizes);
    memcpy(out.strides, t->strides, sizeof out.strides);
    bool size = v->def && v->def->op == OP_size && !t->data;
    size_t bytes = size ? sizeof(int64_t)
                   : span(t->rank, t->sizes, t->strides) * (size_t)dtype_info[out.dtype].bytes;
    out.data = cx_copy(r->cx, size ? (const void *)t->sizes : t->data, bytes);
    return out;
}

/* The parameter that a result was written into. */
static void
written(const PlanParam *param, PlanTensor *out)
{
    out->data = param->of.data;
    out->rank = param->rank;
    memcpy(out->sizes, param->sizes, sizeof out->sizes);
    memcpy(out->strides, param->strides, sizeof out->strides);
}

/* ---- comparison ---- */

/* want, and the same from programs with nudged sums: how far results move with the order of
 * addition.  Without sums near is want, and only a few roundings are allowed. */
static bool
close_enough(Dtype dtype, double want, const double near[NUDGES], double got)
{
    double epsilon = sample_epsilon(dtype), moved = 0;
    double huge = dtype == DT_f16 ? 1e3 : dtype == DT_f64 ? 1e300 : 1e30;
    if (want == got || (isnan(want) && isnan(got))) {
        return true;
    }
    bool finite = isfinite(want) && isfinite(got), turned = false;
    for (int i = 0; i < NUDGES; i++) {
        moved = fmax(moved, fabs(near[i] - want));
        turned |= isnan(near[i]) != isnan(want) || !isfinite(near[i]);
        finite &= isfinite(near[i]);
    }
    if (!finite) {                                                  /* where overflow is near */
        return fabs(want) > huge || fabs(got) > huge || turned;
    }
    double size = fmax(fabs(want), fabs(got));
    double tiny = dtype == DT_f16 ? 1e-7 : 1e-37;
    return fabs(got - want) <= 16 * moved + 4 * epsilon * size + tiny;
}

/* Complex numbers are compared by their two parts. */
static double
element(const Tensor *t, const int64_t *index, int part)
{
    Dtype dtype = dtype_component(t->dtype);
    return elem_cast(dtype, DT_f64, elem_load(dtype, tensor_part(t, index, part))).d;
}

/* Integers and truth values come of no sum, but may come of the sign of a zero that is the largest
 * element. */
static bool
same_whole(const Tensor *want, Tensor near[NUDGES][MAX_RANK], int k, const Tensor *got,
           const int64_t *index, int part)
{
    size_t bytes = (size_t)dtype_info[dtype_component(want->dtype)].bytes;
    const void *is = tensor_part(got, index, part);
    bool same = memcmp(is, tensor_part(want, index, part), bytes) == 0;
    for (int i = 0; i < NUDGES; i++) {
        same |= nudges[i].zeros && memcmp(is, tensor_part(&near[i][k], index, part), bytes) == 0;
    }
    return same;
}

static void
compare_part(Run *r, const char *name, int k, const Tensor *want, Tensor near[NUDGES][MAX_RANK],
             const Tensor *got, const int64_t *index, int part)
{
    double nudged[NUDGES];
    Dtype dtype = dtype_component(want->dtype);
    bool is_float = dtype_info[dtype].class == CLASS_FLOAT;
    for (int i = 0; i < NUDGES; i++) {
        nudged[i] = element(&near[i][k], index, part);
    }
    bool good = is_float ? close_enough(dtype, element(want, index, part), nudged,
                                        element(got, index, part))
                : same_whole(want, near, k, got, index, part);
    if (!good) {
        fail_as(r->cx, DIAG_PASS,
                "%s: result %d is %.17g where it must be %.17g (nudged %.17g)",
                       name, k, element(got, index, part), element(want, index, part), nudged[0]);
    }
}

static void
compare(Run *r, const char *name, int k, const Tensor *want, Tensor near[NUDGES][MAX_RANK],
        const Tensor *got)
{
    int64_t index[MAX_RANK] = {0};
    if (memcmp(want->sizes, got->sizes, (size_t)want->rank * sizeof want->sizes[0]) != 0) {
        fail_as(r->cx, DIAG_PASS, "%s: result %d has another shape", name, k);
    }
    if (tensor_numel(want) == 0) {
        return;
    }
    do {
        for (int part = 0; part < dtype_components(want->dtype); part++) {
            compare_part(r, name, k, want, near, got, index, part);
        }
    } while (tensor_next(want, index));
}

/* Two executors give the same bits; NaNs are all alike. */
static void
compare_bits(Run *r, const char *first, const char *second, int k, const Tensor *a,
             const Tensor *b)
{
    int64_t index[MAX_RANK] = {0};
    size_t bytes = (size_t)dtype_info[dtype_component(a->dtype)].bytes;
    if (tensor_numel(a) == 0) {
        return;
    }
    do {
        for (int part = 0; part < dtype_components(a->dtype); part++) {
            double x = element(a, index, part), y = element(b, index, part);
            if (memcmp(tensor_part(a, index, part), tensor_part(b, index, part), bytes) != 0
                && !(isnan(x) && isnan(y))) {
                fail_as(r->cx, DIAG_PASS,
                        "the bits differ: result %d is %.17g from %s and %.17g from %s", k, x,
                        first, y, second);
            }
        }
    } while (tensor_next(a, index));
}

/* ---- calls of the plan ---- */

/* One call of the plan. */
static void
call_plan(Run *r, Plan *plan, const char *name, Tensor *out)
{
    const Fn *fn = r->kernels;
    PlanHost host = {r, host_alloc, host_view, host_call, host_reference, host_reference,
                     host_fault, host_lock, host_lock};
    Tensor *args = arguments(r);
    PlanParam *in = cx_alloc(r->cx, (size_t)fn->nparams * sizeof *in + 1);
    PlanTensor *results = cx_alloc(r->cx, (size_t)fn->body->nrets * sizeof *results);
    for (int k = 0; k < fn->nparams; k++) {
        to_plan(r, &args[k], k, &in[k]);
    }
    int status = plan_run(plan, &host, r->sizes, in, results);
    for (int k = 0; k < fn->body->nrets && status == 0; k++) {
        if (fn->results[k].kind == RESULT_INTO) {
            written(&in[fn->results[k].of], &results[k]);
        }
        out[k] = from_plan(r, fn->body->rets[k], &results[k]);
    }
    check_guards(r, name);
    if (status && r->c->damaged && r->fault == FAULT_LAYOUT) {
        /* elements that are written share memory, or are too far apart: refused */
        r->stage(FUZZ_FIRST_STAGE);
    }
    if (status) {
        fail_as(r->cx, DIAG_PASS, "the plan failed: fault %d at %s", r->fault, r->where);
    }
}

/* Two threads give the bits of one. */
static void
run_plan(Run *r, unsigned tier, Tensor *out)
{
    const char *name = tier == RUN_CC ? "cc" : tier == RUN_C ? "c" : "tcc";
    CompileOptions options = {.mode = tier == RUN_TCC ? MODE_TCC : MODE_CC, .passes = r->left};
    options.cc = (CcOptions){.cache = "", .wait = true};
    int64_t by_tcc = count_get(COUNT_TCC_COMPILES);
    Tensor by_two[MAX_RANK];
    portable_use(tier == RUN_C);
    schedules_use(r->c->scheduled ? r->c->seed + 1 : 0, r->c->loops);
    choices_use(r->c->chooses ? r->c->seed + 1 : 0);
    Plan *plan = plan_build(r->kernels, &options);
    cx_cleanup(r->cx, release_plan, plan);
    if (tier != RUN_TCC && count_get(COUNT_TCC_COMPILES) != by_tcc) {
        fail_as(r->cx, DIAG_PASS, "no C compiler compiled the kernels: libtcc stood in for it");
    }
    threads_use(false);
    call_plan(r, plan, name, out);
    threads_use(true);
    call_plan(r, plan, name, by_two);
    for (int k = 0; k < r->kernels->body->nrets; k++) {
        compare_bits(r, "one thread", "two", k, &out[k], &by_two[k]);
    }
}

/* ---- sizes ---- */

static int64_t
look_up(void *arg, Dim name)
{
    const Run *r = arg;
    int k = 0;
    while (k < r->graph->nsizes && r->graph->sizes[k] != name) {
        k++;
    }
    return k < r->graph->nsizes ? r->sizes[k] : 1;
}

typedef struct { Run *r; int64_t most; } Most;

static void
see_value(Most *m, const Value *v)
{
    int64_t n = dim_eval(m->r->cx, type_numel(m->r->cx, v->type), look_up, m->r);
    m->most = n > m->most ? n : m->most;
}

static void
see_let(void *arg, Let *let)
{
    for (int k = 0; k < let->nres; k++) {
        see_value(arg, let->res[k]);
    }
    for (int k = 0; k < let->nbodies; k++) {
        fn_each_let(let->bodies[k], see_let, arg);
    }
}

/* Elements of the largest tensor. */
static int64_t
largest(Run *r)
{
    Most m = {r, 0};
    for (int k = 0; k < r->graph->nparams; k++) {
        see_value(&m, r->graph->params[k]);
    }
    fn_each_let((Fn *)r->graph, see_let, &m);
    return m.most;
}

/* One of a panel of columns, of a tile of rows, or one less or more. */
static void
choose_near_panels(Run *r)
{
    static const int64_t near[] = {32, 16, 14, 31, 33, 15, 17, 64};
    const Fn *fn = r->graph;
    for (int k = 0; k < fn->nsizes; k++) {
        int64_t before = r->sizes[k], size = near[sample_below(&r->state, 8)];
        Range range = dim_range(r->cx, fn->sizes[k]);
        bool fits = size >= range.lo && size <= range.hi &&
                    size % dim_divisor(r->cx, fn->sizes[k]) == 0;
        r->sizes[k] = fits && sample_below(&r->state, 3) ? size : before;
        r->sizes[k] = largest(r) > LARGE / 8 ? before : r->sizes[k];
    }
}

/* Small sizes; now and then a large one, for blocks and tiles, where no tensor becomes too large.
 */
static void
choose_sizes(Run *r)
{
    const Fn *fn = r->graph;
    r->sizes = cx_alloc(r->cx, (size_t)fn->nsizes * sizeof *r->sizes + 1);
    sample_sizes(fn, &r->state, r->sizes);
    for (int k = 0; k < fn->nsizes && largest(r) > LARGE / 8; k++) {
        r->sizes[k] = dim_range(r->cx, fn->sizes[k]).lo;
    }
    if (r->c->laid_out) {
        choose_near_panels(r);
        return;
    }
    if (fn->nsizes == 0 || sample_below(&r->state, 3) != 0) {
        return;
    }
    int k = (int)sample_below(&r->state, fn->nsizes);
    int64_t before = r->sizes[k];
    r->sizes[k] = 1000 + 8 * sample_below(&r->state, 300);
    if (largest(r) > LARGE || dim_range(r->cx, fn->sizes[k]).hi < r->sizes[k]) {
        r->sizes[k] = before;
    }
}

/* The loops with their choices, as text has them. */
static Fn *
with_choices(Run *r, Fn *loops)
{
    Text text = {.cx = r->cx};
    choices_use(r->c->seed + 1);
    choices_draw(loops);
    print_fn(loops, &text);
    return parse_fn(r->cx, text.text, "choices");
}

/* Those that all targets share, or what the rewrites of target cc make of them. */
static Fn *
interpreted_loops(Run *r, int executor, PassOptions *options)
{
    PassOptions own = *options;
    Fn *shared = loops_make(r->kernels, NULL, executor == LOOPS ? options : &own);
    shared = r->c->chooses ? with_choices(r, shared) : shared;
    Loops all = {.shared = shared};
    if (executor == LOOPS_OF_CC) {
        loops_for(&all, 1u << TARGET_cc, &own);
    }
    const Fn *loops = executor == LOOPS_OF_CC ? all.of[TARGET_cc] : shared;
    verify_fn(loops);
    return (Fn *)loops;
}

static Fn *
program(Cx *cx, const Case *c)
{
    Fn *fn = c->text ? parse_fn(cx, c->text, "case") : c->generate(cx, c->seed);
    verify_fn(fn);
    return fn;
}

/* ---- the case ---- */

int64_t
run_case(Cx *cx, const Case *c, void (*stage)(const char *name))
{
    static const Executor executors[EXECUTORS] = {
        {"kernels", 0, interpret}, {"loops", 0, interpret}, {"loops of cc", 0, interpret},
        {"tcc", RUN_TCC, run_plan}, {"cc", RUN_CC, run_plan}, {"c", RUN_C, run_plan},
    };
    Run r = {.cx = cx, .c = c, .state = sample_seed(c->seed), .stage = stage};
    stage(FUZZ_FIRST_STAGE);
    r.graph = program(cx, c);
    choose_sizes(&r);
    if (c->damaged && (largest(&r) > LARGE || largest(&r) < 0)) {
        fail_as(cx, DIAG_PASS, "too large a tensor");
    }
    Tensor near[NUDGES][MAX_RANK], want[MAX_RANK], got[EXECUTORS][MAX_RANK];
    for (int i = 0; i < NUDGES; i++) {
        r.graph = nudge(program(cx, c), &nudges[i]);  /* sizes are the same objects in all */
        interpret(&r, 0, near[i]);
    }
    r.graph = program(cx, c);
    interpret(&r, 0, want);
    PassOptions options = {.verify = true, .fuel = c->limited ? c->fuel : -1};
    for (int k = 0; k < EXECUTORS; k++) {
        const Executor *e = &executors[k];
        stage(e->name);
        if (e->tier & ~c->tiers) {
            continue;
        }
        if (k == 0) {
            r.kernels = pipeline_run(program(cx, c), &options);
            r.left = options;
        }
        r.loops = k == LOOPS || k == LOOPS_OF_CC ? interpreted_loops(&r, k, &options) : NULL;
        e->run(&r, e->tier, got[k]);
        bool second = e->tier > RUN_TCC && c->tiers & RUN_TCC;
        for (int j = 0; j < r.graph->body->nrets; j++) {
            compare(&r, e->name, j, &want[j], near, &got[k][j]);
            if (second || (c->exact && k == OF_TCC)) {
                int first = second ? OF_TCC : LOOPS_OF_CC;
                compare_bits(&r, executors[first].name, e->name, j, &got[first][j],
                             &got[k][j]);
            }
        }
    }
    return options.fuel;
}
