/* The values of size symbols, solved from the shapes of arguments. */
#include "ir/cx.h"
#include "eval.h"

typedef struct {
    const Fn *fn;
    Cx *cx;
    int64_t *values;            /* SIZE_UNKNOWN: not yet known */
    int unknown;                /* names without a value in the dim looked at, */
    int one;                    /* and one of them */
} Solve;

static int
position(const Solve *s, Dim name)
{
    int k = 0;
    while (k < s->fn->nsizes && s->fn->sizes[k] != name) {
        k++;
    }
    return k;
}

static int64_t
look_up(void *arg, Dim name)
{
    const Solve *s = arg;
    int k = position(s, name);
    return k < s->fn->nsizes ? s->values[k] : 0;
}

static void
count_unknown(void *arg, Dim name)
{
    Solve *s = arg;
    int k = position(s, name);
    if (k < s->fn->nsizes && s->values[k] == SIZE_UNKNOWN) {
        s->unknown++;
        s->one = k;
    }
}

/* d has the value `is`: solves for the one name in it without a value, if d is affine in it. */
static void
solve(Solve *s, Dim d, int64_t is)
{
    Dim factor, rest;
    s->unknown = 0;
    dim_names(s->cx, d, count_unknown, s);
    if (s->unknown != 1 || !dim_affine(s->cx, d, s->fn->sizes[s->one], &factor, &rest)) {
        return;
    }
    int64_t a = dim_eval(s->cx, factor, look_up, s), b = dim_eval(s->cx, rest, look_up, s);
    if (a != 0 && int_mod(is - b, a) == 0) {
        s->values[s->one] = int_div(is - b, a);
    }
}

static void
check_param(Solve *s, int k, const Tensor *in)
{
    const Type *t = s->fn->params[k]->type;
    bool match = t->dtype == in->dtype && t->rank == in->rank;
    for (int ax = 0; ax < t->rank && match; ax++) {
        match = dim_eval(s->cx, t->dims[ax], look_up, s) == in->sizes[ax];
    }
    if (match) {
        return;
    }
    Text given = {.cx = s->cx}, wanted = {.cx = s->cx}, sizes = {.cx = s->cx};
    text_add(&given, "%s[", dtype_info[in->dtype].name);
    for (int ax = 0; ax < in->rank; ax++) {
        text_add(&given, ax ? ", %lld" : "%lld", (long long)in->sizes[ax]);
    }
    text_add(&given, "]");
    type_text(s->cx, t, &wanted);
    for (int i = 0; i < s->fn->nsizes; i++) {
        text_add(&sizes, "%s %s=%lld", i ? "," : " with", dim_name(s->cx, s->fn->sizes[i]),
                 (long long)s->values[i]);
    }
    fail(s->cx, DIAG_ARGUMENT, k + 1, s->fn->params[k]->name, given.text, wanted.text,
         sizes.text ? sizes.text : "");
}

static void
check_size(Solve *s, int k)
{
    const char *name = dim_name(s->cx, s->fn->sizes[k]);
    Range r = dim_range(s->cx, s->fn->sizes[k]);
    int64_t divisor = dim_divisor(s->cx, s->fn->sizes[k]), is = s->values[k];
    if (is == SIZE_UNKNOWN) {
        fail(s->cx, DIAG_SIZE_UNSAID, name);
    }
    if (is < r.lo || is > r.hi || (divisor > 1 && is % divisor != 0)) {
        fail(s->cx, DIAG_SIZE_RANGE, name, (long long)is, (long long)r.lo, (long long)r.hi,
             (long long)divisor);
    }
}

/* Shapes first; then strides, for names that occur only in promised strides. */
void
eval_solve(const Fn *fn, const Tensor *in, int64_t *values)
{
    Solve s = {.fn = fn, .cx = fn->cx, .values = values};
    for (int turn = 0; turn <= 2 * fn->nsizes; turn++) {
        for (int k = 0; k < fn->nparams; k++) {
            const Value *v = fn->params[k];
            bool strides = turn >= fn->nsizes && v->strides;
            for (int ax = 0; ax < v->type->rank && v->type->rank == in[k].rank; ax++) {
                solve(&s, v->type->dims[ax], in[k].sizes[ax]);
                if (strides) {
                    solve(&s, v->strides[ax], in[k].strides[ax]);
                }
            }
        }
    }
    for (int k = 0; k < fn->nsizes; k++) {
        check_size(&s, k);
    }
    for (int k = 0; k < fn->nparams; k++) {
        check_param(&s, k, &in[k]);
    }
}

void
eval_sizes(const Fn *fn, const Tensor *in, int64_t *values)
{
    for (int k = 0; k < fn->nsizes; k++) {
        values[k] = SIZE_UNKNOWN;
    }
    eval_solve(fn, in, values);
}
