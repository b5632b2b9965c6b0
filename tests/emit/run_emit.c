/* Runs a function of the kernels stage on random operands in every way there is, and compares; one
 * of the loops stage as it is, with its marks.
 *
 *     test-emit file.dlc [name=size ...] [seed=n] [integers=n] [special=1] [fault=1]
 *               [print=loops|tcc|cc|c] [cc=0] [fuel=n] [run=0]
 *
 * The interpreter runs the kernels stage and the loops stage; libtcc and the C compiler run each
 * phase over several partitions of its parallel loop, the latter the text for it and the portable
 * one.  All must agree in every bit, NaN aside, and with the interpreter within a tolerance.  With
 * cc=0 libtcc runs alone.  Buffers have guard bytes on both sides.
 * With run=0 nothing runs: the text is all that is wanted.  The C compiler's objects are kept in
 * $DLC_CACHE_DIR, as the same text is run with many sizes and operands. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"

#include "../read_file.h"
#include "portable.h"

enum { GUARD = 64, PIECES = 3 };

static uint64_t rng = 1;

static uint64_t
rand_bits(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng;
}

static int64_t
rand_below(int64_t n)
{
    return (int64_t)(rand_bits() >> 1) % (n > 0 ? n : 1);
}

typedef struct {
    int argc;
    char **argv;
    bool failed;
} Run;

static const char *
argument(const Run *r, const char *name)
{
    size_t n = strlen(name);
    for (int k = 2; k < r->argc; k++) {
        if (strncmp(r->argv[k], name, n) == 0 && r->argv[k][n] == '=') {
            return r->argv[k] + n + 1;
        }
    }
    return NULL;
}

/* ---- sizes ---- */

typedef struct {
    Cx *cx;
    const Fn *fn;
    int64_t values[64];
} Sizes;

static int64_t
size_value(void *arg, Dim name)
{
    const Sizes *s = arg;
    for (int k = 0; k < s->fn->nsizes; k++) {
        if (s->fn->sizes[k] == name) {
            return s->values[k];
        }
    }
    return 0;
}

static int64_t
dim_now(Sizes *s, Dim d)
{
    return dim_eval(s->cx, d, size_value, s);
}

static void
choose_sizes(const Run *r, Sizes *s)
{
    for (int k = 0; k < s->fn->nsizes; k++) {
        Dim size = s->fn->sizes[k];
        const char *given = argument(r, dim_name(s->cx, size));
        Range range = dim_range(s->cx, size);
        int64_t step = dim_divisor(s->cx, size), low = range.lo < 1 ? 1 : range.lo;
        int64_t value = low + rand_below(40);
        value = value > range.hi ? range.hi : value;
        s->values[k] = given ? atoll(given) : (value + step - 1) / step * step;
    }
}

/* ---- memory ---- */

static int64_t
span(const Tensor *t)
{
    int64_t last = 0;
    for (int ax = 0; ax < t->rank; ax++) {
        if (t->sizes[ax] == 0) {
            return 0;
        }
        last += (t->sizes[ax] - 1) * t->strides[ax];
    }
    return last + 1;
}

static Tensor
tensor_new(Sizes *s, const Value *v)
{
    Tensor t = {.dtype = v->type->dtype, .rank = v->type->rank};
    Dim dense[MAX_RANK];
    type_dense(s->cx, v->type, dense);
    for (int ax = 0; ax < t.rank; ax++) {
        t.sizes[ax] = dim_now(s, v->type->dims[ax]);
        t.strides[ax] = dim_now(s, v->strides ? v->strides[ax] : dense[ax]);
    }
    size_t bytes = (size_t)(span(&t) * dtype_info[t.dtype].bytes);
    char *memory = cx_alloc(s->cx, bytes + 2 * GUARD);
    memset(memory, 0x5a, bytes + 2 * GUARD);
    t.data = memory + GUARD;
    return t;
}

static bool
guards_hold(const Tensor *t)
{
    const unsigned char *data = t->data;
    size_t bytes = (size_t)(span(t) * dtype_info[t->dtype].bytes);
    for (int k = 1; k <= GUARD; k++) {
        if (data[-k] != 0x5a || data[bytes + (size_t)k - 1] != 0x5a) {
            return false;
        }
    }
    return true;
}

/* The parts of complex numbers count as elements, and at their number. */
static void *
part_at(const Tensor *t, int64_t at)
{
    return (char *)t->data + at * dtype_info[dtype_component(t->dtype)].bytes;
}

static void
put_element(const Tensor *t, int64_t at, double f, int64_t i)
{
    Dtype dtype = dtype_component(t->dtype);
    if (dtype_info[dtype].class == CLASS_FLOAT) {
        eval_map(OP_cast, DT_f64, dtype, &f, NULL, NULL, part_at(t, at));
    } else {
        eval_map(OP_cast, DT_i64, dtype, &i, NULL, NULL, part_at(t, at));
    }
}

static double
get_element(const Tensor *t, int64_t at)
{
    double f;
    eval_map(OP_cast, dtype_component(t->dtype), DT_f64, part_at(t, at), NULL, NULL, &f);
    return f;
}

static void
fill_random(const Tensor *t, int64_t integers, bool special)
{
    static const double specials[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-40, -1.0, 1.0, 4e9};
    for (int64_t k = 0; k < span(t) * dtype_components(t->dtype); k++) {
        double f = (double)rand_below(1 << 20) / (1 << 18) - 2;
        if (special && rand_below(16) == 0) {
            f = specials[rand_below(9)];
        }
        put_element(t, k, f, t->dtype == DT_bool ? rand_below(2) : rand_below(integers));
    }
}

/* ---- phases ---- */

typedef struct {
    Sizes *sizes;
    const Fn *loops;
    Tensor *tensors; /* by Value.id */
} State;

/* The result has the memory of a copy of the parameter, and the kernel reads the parameter
 * there. */
static void
take_over(State *s, const Value *v)
{
    const Tensor *to = &s->tensors[v->id], *from = &s->tensors[v->over->id];
    memcpy(to->data, from->data, (size_t)(span(from) * dtype_info[from->dtype].bytes));
    s->tensors[v->over->id] = *to;
}

/* Those of the kernel that are made for these sizes. */
static void
bind_buffers(State *s, const Block *root)
{
    Dim a, b;
    for (int k = 0; k < root->n; k++) {
        const Let *let = root->lets[k];
        if (let->op == OP_buffer) {
            s->tensors[let->res[0]->id] = tensor_new(s->sizes, let->res[0]);
        } else if (let_is_choice(let)) {
            let_condition(s->sizes->cx, let, &a, &b);
            if (dim_now(s->sizes, a) <= dim_now(s->sizes, b)) {
                bind_buffers(s, let->body);
            }
        }
    }
}

static void
bind_tensors(State *s, const Tensor *in)
{
    s->tensors = cx_alloc(s->sizes->cx, (size_t)s->loops->nvalues * sizeof *s->tensors);
    for (int k = 0; k < s->loops->nparams; k++) {
        s->tensors[s->loops->params[k]->id] = in[k];
    }
    for (int k = 0; k < s->loops->body->n; k++) {
        const Let *let = s->loops->body->lets[k];
        for (int j = 0; j < let->nres; j++) {
            s->tensors[let->res[j]->id] = tensor_new(s->sizes, let->res[j]);
            if (let->res[j]->over) {
                take_over(s, let->res[j]);
            }
            if (let->op == OP_size) {
                *(int64_t *)s->tensors[let->res[j]->id].data = dim_now(s->sizes,
                                                                       let_dim(let, "dim"));
            }
        }
        if (let->body) {
            bind_buffers(s, let->body);
        }
    }
}

/* All of 0..extent-1, in random pieces: steps in their order, iterations that threads share from
 * the last ones on. */
static int
run_pieces(State *s, const Phase *phase, KernelFn fn, int pieces)
{
    Cx *cx = s->sizes->cx;
    void **p = cx_alloc(cx, (size_t)(phase->nbuffers + 1) * sizeof *p);
    int64_t *n = cx_alloc(cx, (size_t)(phase->ndims + 1) * sizeof *n);
    int64_t extent = dim_now(s->sizes, phase->extent), cuts[PIECES + 2] = {0};
    /* without iterations it may not be the one that is chosen; if no loop is parallel, it runs
     * once, whole */
    pieces = extent <= 1 ? (int)extent : pieces;
    size_t scratch = (size_t)dim_now(s->sizes, phase->scratch);
    int fault = 0;
    for (int k = 0; k < phase->nbuffers; k++) {
        p[k] = s->tensors[phase->buffers[k]->id].data;
    }
    for (int k = 0; k < phase->ndims; k++) {
        n[k] = dim_now(s->sizes, phase->dims[k]);
    }
    for (int k = 1; k < pieces; k++) {
        cuts[k] = cuts[k - 1] + rand_below(extent - cuts[k - 1] + 1);
    }
    cuts[pieces] = extent;
    for (int k = 0; k < pieces; k++) {
        int at = phase->in_order ? k : pieces - 1 - k;
        p[phase->nbuffers] = cx_alloc(cx, scratch + 1);
        memset(p[phase->nbuffers], 0xa5, scratch);
        fault |= fn(p, n, cuts[at], cuts[at + 1]);
    }
    return fault;
}

static int
run_unit(State *s, const Unit *unit, const Code *code, int pieces)
{
    int fault = 0;
    for (int k = 0; k < unit->nphases && !fault; k++) {
        fault = run_pieces(s, &unit->phases[k], code_entry(code, k), pieces);
    }
    return fault;
}

/* ---- comparison ---- */

/* The first difference between two tensors of one shape: -1 for none.  strict: every bit, NaN's
 * aside. */
static int64_t
compare(const Tensor *a, const Tensor *b, bool strict, double *x, double *y)
{
    Dtype dtype = dtype_component(a->dtype);
    int parts = dtype_components(a->dtype);
    int64_t n = parts;
    for (int ax = 0; ax < a->rank; ax++) {
        n *= a->sizes[ax];
    }
    double eps = dtype == DT_f64       ? 1e-10
                 : a->dtype == DT_f16  ? 4e-3
                 : a->dtype == DT_bf16 ? 3e-2
                                       : 2e-5;
    for (int64_t k = 0; k < n; k++) {
        int64_t at = 0, bt = 0, rest = k / parts;
        for (int ax = a->rank - 1; ax >= 0; ax--) {
            at += rest % a->sizes[ax] * a->strides[ax];
            bt += rest % a->sizes[ax] * b->strides[ax];
            rest /= a->sizes[ax];
        }
        at = at * parts + k % parts;
        bt = bt * parts + k % parts;
        *x = get_element(a, at);
        *y = get_element(b, bt);
        bool same = memcmp(part_at(a, at), part_at(b, bt), (size_t)dtype_info[dtype].bytes) == 0;
        bool near = *x == *y || fabs(*x - *y) <= eps * (1 + fabs(*y));
        if (!(same || (*x != *x && *y != *y) || (!strict && near))) {
            return k;
        }
    }
    return -1;
}

static void
check(Run *r, const char *what, const Fn *fn, const Tensor *got, const Tensor *want, bool strict)
{
    for (int k = 0; k < fn->body->nrets; k++) {
        double x, y;
        int64_t at = compare(&got[k], &want[k], strict, &x, &y);
        if (at >= 0) {
            printf("%s: result %d, element %lld: %.9g, should be %.9g\n", what, k, (long long)at, x,
                   y);
            r->failed = true;
        }
    }
}

static void
check_guards(Run *r, const char *what, const State *s)
{
    for (int k = 0; k < s->loops->nvalues; k++) {
        if (s->tensors[k].data && !guards_hold(&s->tensors[k])) {
            printf("%s: memory around value %d was written\n", what, k);
            r->failed = true;
        }
    }
}

/* ---- the program ---- */

static const Tensor *
run_tier(Run *r, const char *what, const Fn *loops, const Unit *unit, const Code *code,
         Sizes *sizes, const Tensor *in, int pieces)
{
    State s = {sizes, loops, NULL};
    bind_tensors(&s, in);
    int fault = run_unit(&s, unit, code, pieces);
    const char *expected = argument(r, "fault");
    if (fault != (expected ? atoi(expected) : 0)) {
        printf("%s: fault %d\n", what, fault);
        r->failed = true;
    }
    check_guards(r, what, &s);
    Tensor *out = cx_alloc(sizes->cx, (size_t)(loops->body->nrets + 1) * sizeof *out);
    for (int k = 0; k < loops->body->nrets; k++) {
        out[k] = s.tensors[loops->body->rets[k]->id];
    }
    return fault ? NULL : out;
}

static Code *
compile(Cx *cx, const Unit *unit, Target target)
{
    const char **names = cx_alloc(cx, (size_t)(unit->nphases + 1) * sizeof *names);
    const char *text = unit->text[target], *folder = getenv("DLC_CACHE_DIR");
    char error[4096] = "";
    for (int k = 0; k < unit->nphases; k++) {
        names[k] = unit->phases[k].name;
    }
    Code *code = code_new(names, unit->nphases);
    CcOptions options = {.cache = folder ? folder : "", .wait = true};
    Compiler by = target_info[target].compiler;
    bool done = by == COMPILER_LIBTCC ? jit_tcc_compile(code, text, error, sizeof error)
                : by == COMPILER_CC   ? jit_cc_submit(code, text, &options, error, sizeof error)
                                      : portable_compile(code, text, error, sizeof error);
    if (!done) {
        fail_as(cx, DIAG_LIBTCC, "%s: %s", target_info[target].name, error);
    }
    return code;
}

/* fuel=n limits these rewrites.  DLC_FUEL limits those of the targets too, by what is left. */
static const Fn *
to_loops(Run *r, const Fn *kernels, PassOptions *options)
{
    Cx *cx = kernels->cx;
    const char *fuel = argument(r, "fuel");
    PassOptions limited = *options;
    limited.fuel = fuel ? atoll(fuel) : 0;
    const Fn *loops = loops_make(kernels, NULL, fuel ? &limited : options);
    Text text = {.cx = cx}, again = {.cx = cx};
    print_fn(loops, &text);
    print_fn(parse_fn(cx, text.text, "loops"), &again);
    if (strcmp(text.text, again.text) != 0) {
        printf("the loops stage does not print as it parses\n");
        r->failed = true;
    }
    const char *print = argument(r, "print");
    if (print && strcmp(print, "loops") == 0) {
        printf("%s", text.text);
    }
    return loops;
}

/* Through each tier on random operands, against the interpreter. */
static void
run_unit_everywhere(Run *r, const Fn *kernels, const Fn *loops, const Unit *unit)
{
    Cx *cx = kernels->cx;
    const char *cc = argument(r, "cc");
    Sizes sizes = {.cx = cx, .fn = kernels};
    choose_sizes(r, &sizes);
    Tensor *in = cx_alloc(cx, (size_t)(kernels->nparams + 1) * sizeof *in);
    const char *integers = argument(r, "integers");
    for (int k = 0; k < kernels->nparams; k++) {
        in[k] = tensor_new(&sizes, kernels->params[k]);
        fill_random(&in[k], integers ? atoll(integers) : 100, argument(r, "special") != NULL);
    }
    Tensor *want = cx_alloc(cx, (size_t)(kernels->body->nrets + 1) * sizeof *want), *got;
    bool faults = argument(r, "fault") != NULL;
    if (!faults) {
        eval_fn(kernels, in, want);
        got = cx_alloc(cx, (size_t)(kernels->body->nrets + 1) * sizeof *got);
        eval_fn(loops, in, got);
        check(r, "loops", kernels, got, want, false);
    }
    Code *code[TARGETS] = {NULL};
    for (int k = 0; k < TARGETS; k++) {
        bool wanted = unit->text[k] && (k == TARGET_tcc || !cc || cc[0] != '0');
        code[k] = wanted ? compile(cx, unit, (Target)k) : NULL;
    }
    const Tensor *first = run_tier(r, "tcc", loops, unit, code[TARGET_tcc], &sizes, in, 1);
    for (int k = 0; k < TARGETS * PIECES && !faults && first; k++) {
        Target target = (Target)(k / PIECES);
        int pieces = k % PIECES + 1;
        const char *what = cx_format(cx, "%s in %d pieces", target_info[target].name, pieces);
        const Tensor *out = code[target]
                                ? run_tier(r, what, loops, unit, code[target], &sizes, in, pieces)
                                : NULL;
        if (out) {
            check(r, what, kernels, out, first, target_fuses(target) == target_fuses(TARGET_tcc));
        }
    }
    if (first) {
        check(r, "tcc against the interpreter", kernels, first, want, false);
    }
    for (int k = 0; k < TARGETS; k++) {
        if (faults && k != TARGET_tcc && code[k]) {
            run_tier(r, target_info[k].name, loops, unit, code[k], &sizes, in, 1);
        }
        code_unref(code[k]);
    }
}

static void
run(Cx *cx, void *arg)
{
    Run *r = arg;
    Fn *kernels = parse_fn(cx, read_file(cx, r->argv[1]), r->argv[1]);
    verify_fn(kernels);
    const char *seed = argument(r, "seed"), *print = argument(r, "print"),
               *runs = argument(r, "run");
    rng = 88172645463325252ull + (seed ? (uint64_t)atoll(seed) * 7919 : 0);
    PassOptions options = pass_options_wanted();
    options.verify = true;
    bool lowered = kernels->stage == STAGE_LOOPS;
    Loops all = {.shared = lowered ? kernels : to_loops(r, kernels, &options)};
    const Fn *loops = all.shared;
    unsigned called = 0; /* targets whose phases run as a KernelFn, over the same range */
    for (int k = 0; k < TARGETS; k++) {
        called |= target_info[k].arrays ? 0 : 1u << k;
        all.of[k] = lowered && !target_info[k].arrays ? loops : NULL;
    }
    loops_for(&all, called, &options);
    Loops others = {.shared = loops}; /* are verified alone */
    loops_for(&others, lowered ? 0 : ~called, &options);
    Unit unit;
    emit_unit(&all, &unit);
    if (print && strcmp(print, "loops") != 0) {
        int target = target_find(print);
        if (target == TARGETS || !unit.text[target]) {
            fail_as(cx, DIAG_ARGUMENT, "print=%s is neither loops nor a target that runs", print);
        }
        printf("%s", unit.text[target]);
    }
    if (!(runs && runs[0] == '0')) {
        run_unit_everywhere(r, kernels, loops, &unit);
    }
}

int
main(int argc, char **argv)
{
    Run r = {argc, argv, false};
    Cx *cx = cx_new();
    if (argc < 2 || !cx) {
        printf("usage: test-emit file.dlc [name=size ...] [seed=n] [print=loops|tcc|cc|c] [cc=0] "
               "[run=0]\n");
        return 2;
    }
    if (!cx_try(cx, run, &r)) {
        printf("%s\n", cx_diag(cx)->message);
        r.failed = true;
    }
    cx_free(cx);
    jit_cc_shutdown();
    return r.failed;
}
