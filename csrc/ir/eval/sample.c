/* Random arguments for a function, and the comparison of the results of two runs: for dlc-opt and
 * the fuzzer.  The same seed gives the same arguments on every machine. */
#include "eval.h"

#include <math.h>
#include <string.h>

/* xorshift64*, seeded through one step of splitmix64. */
static uint64_t
random_bits(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1du;
}

uint64_t
sample_seed(uint64_t seed)
{
    uint64_t z = seed + 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31 ? z ^ z >> 31 : 1;
}

/* Returns a random number from 0 to below - 1. */
int64_t
sample_below(uint64_t *state, int64_t below)
{
    return (int64_t)((random_bits(state) >> 11) % (uint64_t)below);
}

/* Small, within the range, a multiple of the divisor. */
void
sample_sizes(const Fn *fn, uint64_t *state, int64_t *sizes)
{
    for (int k = 0; k < fn->nsizes; k++) {
        Range r = dim_range(fn->cx, fn->sizes[k]);
        int64_t divisor = dim_divisor(fn->cx, fn->sizes[k]);
        int64_t first = r.lo == -DIM_INF ? 0 : r.lo, most = r.hi < first + 20 ? r.hi : first + 20;
        int64_t size = first + sample_below(state, most - first + 1);
        if (divisor > 1) {
            size += divisor - 1 - (size + divisor - 1) % divisor;
            size -= size > r.hi ? divisor : 0;
        }
        sizes[k] = size;
    }
}

/* ---- elements ---- */

static double
sample_double(uint64_t *state, bool special)
{
    static const double values[] = {0.0,       -0.0, 1.0,   -1.0,  INFINITY,
                                    -INFINITY, NAN,  1e-12, -1e12, 0.5};
    if (special && sample_below(state, 16) == 0) {
        return values[sample_below(state, 10)];
    }
    return ((double)(random_bits(state) >> 11) * 0x1p-53 - 0.5) * 6;
}

static void
fill(uint64_t *state, Tensor *t, int64_t below, bool special)
{
    Dtype dtype = dtype_component(t->dtype);
    DtypeClass class = dtype_info[dtype].class;
    int64_t index[MAX_RANK] = {0};
    if (tensor_numel(t) == 0) {
        return;
    }
    do {
        for (int part = 0; part < dtype_components(t->dtype); part++) {
            Elem x = {.d = sample_double(state, special)};
            if (class != CLASS_FLOAT) {
                int64_t some = sample_below(state, class == CLASS_BOOL ? 2 : below ? below : 19);
                x.d = (double)(class == CLASS_BOOL || below ? some : some - 6);
            }
            elem_store(dtype, elem_cast(DT_f64, dtype, x), tensor_part(t, index, part));
        }
    } while (tensor_next(t, index));
}

/* ---- arguments ---- */

typedef struct {
    const Fn *fn;
    const int64_t *sizes;
    int64_t *below;
} Indices;

static int64_t
look_up(void *arg, Dim name)
{
    const Indices *s = arg;
    for (int k = 0; k < s->fn->nsizes; k++) {
        if (s->fn->sizes[k] == name) {
            return s->sizes[k];
        }
    }
    return 1;
}

/* A parameter that is used as an index, directly, through views or loads, must be in range. */
static void
visit_index(void *arg, Let *let)
{
    const Indices *s = arg;
    Dim extent = let->op == OP_bind ? let_dim(let, "extent") : DIM_NONE;
    const Value *v = let->op == OP_bind ? let->args[0] : NULL;
    for (int k = 1; k < let->nargs; k++) {
        char reads = op_reads(let->op, k);
        if (reads == 'i' || reads == 'p') {
            extent = let->args[0]->type->dims[let_int(let, "axis")];
            v = let->args[k];
        }
    }
    if (!v) {
        return;
    }
    while (v->def && (op_info[v->def->op].kind == KIND_VIEW || v->def->op == OP_load ||
                      v->def->op == OP_cast)) {
        v = v->def->args[0];
    }
    int64_t n = dim_eval(s->fn->cx, extent, look_up, arg), *below = &s->below[v->id];
    *below = *below == 0 || n < *below ? n : *below;
}

/* Row-major, or with the promised strides; never overlapping if the promise does not overlap. */
static void
lay_out(const Fn *fn, Indices *s, const Value *v, Tensor *t)
{
    int64_t stride = 1, last = 0, bytes = dtype_info[v->type->dtype].bytes, far;
    t->dtype = v->type->dtype;
    t->rank = v->type->rank;
    for (int ax = t->rank - 1; ax >= 0; ax--) {
        int64_t size = t->sizes[ax] = dim_eval(fn->cx, v->type->dims[ax], look_up, s);
        t->strides[ax] = v->strides ? dim_eval(fn->cx, v->strides[ax], look_up, s) : stride;
        if (size > 1 && (__builtin_mul_overflow(size - 1, t->strides[ax], &far) ||
                         __builtin_add_overflow(last, far, &last) ||
                         __builtin_mul_overflow(stride, size, &stride))) {
            fail(fn->cx, DIAG_SIZE);
        }
    }
    if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(bytes, last, &bytes)) {
        fail(fn->cx, DIAG_SIZE);
    }
    t->data = cx_alloc(fn->cx, (size_t)bytes);
}

static Indices
find_indices(const Fn *fn, const int64_t *sizes)
{
    Indices s = {.fn = fn, .sizes = sizes};
    s.below = cx_alloc(fn->cx, (size_t)fn->nvalues * sizeof *s.below);
    fn_each_let((Fn *)fn, visit_index, &s);
    return s;
}

const int64_t *
sample_indices(const Fn *fn, const int64_t *sizes)
{
    return find_indices(fn, sizes).below;
}

void
sample_args(const Fn *fn, uint64_t *state, const int64_t *sizes, Tensor *in)
{
    Indices s = find_indices(fn, sizes);
    for (int k = 0; k < fn->nparams; k++) {
        lay_out(fn, &s, fn->params[k], &in[k]);
        bool special = sample_below(state, 4) == 0;
        fill(state, &in[k], s.below[fn->params[k]->id], special);
    }
}

void
sample_named(const Fn *fn, uint64_t seed, const int64_t *sizes, Tensor *in)
{
    Indices s = find_indices(fn, sizes);
    for (int k = 0; k < fn->nparams; k++) {
        uint64_t h = seed;
        for (const char *c = fn->params[k]->name; *c; c++) {
            h = (h ^ (unsigned char)*c) * 0x100000001b3u;
        }
        uint64_t state = sample_seed(h);
        lay_out(fn, &s, fn->params[k], &in[k]);
        fill(&state, &in[k], s.below[fn->params[k]->id], false);
    }
}

/* ---- comparison ---- */

double
sample_epsilon(Dtype dtype)
{
    return dtype == DT_f64   ? 0x1p-52
           : dtype == DT_f32 ? 0x1p-23
           : dtype == DT_f16 ? 0x1p-10
                             : 0x1p-7;
}

double
sample_number(Dtype dtype, const void *element)
{
    return elem_cast(dtype, DT_f64, elem_load(dtype, element)).d;
}

/* How far apart two elements of a floating point dtype are, in units of `dtype`'s rounding at the
 * larger one; 0 for two NaN. */
static double
distance(Dtype dtype, double a, double b)
{
    double epsilon = sample_epsilon(dtype);
    if (a == b || (isnan(a) && isnan(b))) {
        return 0;
    }
    double size = fmax(fmax(fabs(a), fabs(b)), dtype == DT_f16 ? 0x1p-14 : 0x1p-126);
    return isfinite(a) && isfinite(b) ? fabs(a - b) / size / epsilon : INFINITY;
}

double
sample_distance(const Tensor *a, const Tensor *b)
{
    double most = 0;
    int64_t index[MAX_RANK] = {0};
    Dtype dtype = dtype_component(a->dtype);
    bool is_float = dtype_info[dtype].class == CLASS_FLOAT;
    bool same = a->dtype == b->dtype && a->rank == b->rank &&
                memcmp(a->sizes, b->sizes, (size_t)a->rank * sizeof a->sizes[0]) == 0;
    if (!same || tensor_numel(a) == 0) {
        return same ? 0 : INFINITY;
    }
    do {
        for (int part = 0; part < dtype_components(a->dtype); part++) {
            const void *x = tensor_part(a, index, part), *y = tensor_part(b, index, part);
            double far = is_float
                             ? distance(dtype, sample_number(dtype, x), sample_number(dtype, y))
                         : memcmp(x, y, (size_t)dtype_info[dtype].bytes) ? INFINITY
                                                                         : 0;
            most = far > most ? far : most;
        }
    } while (tensor_next(a, index));
    return most;
}

void
sample_element(const Tensor *t, const int64_t *index, Text *out)
{
    Dtype dtype = dtype_component(t->dtype);
    for (int part = 0; part < dtype_components(t->dtype); part++) {
        Elem x = elem_load(dtype, tensor_part(t, index, part));
        const char *plus = part ? "+" : "";
        if (dtype_info[dtype].class == CLASS_FLOAT) {
            text_add(out, "%s%.9g%s", plus, elem_cast(dtype, DT_f64, x).d, part ? "i" : "");
        } else {
            text_add(out, "%lld", (long long)elem_cast(dtype, DT_i64, x).l);
        }
    }
}

void
sample_text(const Tensor *t, Text *out)
{
    int64_t index[MAX_RANK] = {0}, left = 8;
    text_add(out, "%s[", dtype_info[t->dtype].name);
    for (int ax = 0; ax < t->rank; ax++) {
        text_add(out, ax ? ", %lld" : "%lld", (long long)t->sizes[ax]);
    }
    text_add(out, "]");
    if (tensor_numel(t) == 0) {
        return;
    }
    do {
        text_add(out, " ");
        sample_element(t, index, out);
    } while (--left > 0 && tensor_next(t, index));
    text_add(out, tensor_numel(t) > 8 ? " ..." : "");
}
