/* Softmax and the norms, forward and backward: reductions with elementwise work around them, in the
 * wide dtype, with means and variances in two passes. */
#include "aten_formula.h"

#include <math.h>

/* The axes that statistics are taken over, and the type of the tensor they are taken of. */
typedef struct {
    Aten *n;
    const Type *t;
    int naxes, axes[MAX_RANK];
} Over;

static Value *
total(const Over *o, Op op, Value *v)
{
    return build_red(o->n->b, op, v, o->naxes, o->axes);
}

static Value *
mean(const Over *o, Value *v)
{
    return mean_of(o->n, v, o->naxes, o->axes);
}

static Value *
along(const Over *o, Value *v)
{
    return spread(o->n, v, o->t, o->naxes, o->axes);
}

static Value *
shaped(Aten *n, Value *v, int k)
{
    return n->types[k] ? build_reshape(n->b, v, n->types[k]->rank, n->types[k]->dims) : NULL;
}

/* ---- softmax ---- */

/* softmax(x, dim, ..): x wide, without its largest element, and its one axis; a scalar has one. */
static Value *
lowered(Aten *n, Over *o)
{
    Value *x = arg_tensor(n, 0);
    o->n = n;
    o->naxes = 1;
    if (!arg_is_float(&n->args[0]) || !arg_axis(arg_at(n, 1), x->type->rank, o->axes)) {
        return NULL;
    }
    Dim size = one(n);
    x = x->type->rank ? x : build_reshape(n->b, x, 1, &size);
    if (may_be_empty(n, x->type, 1, o->axes)) {
        return NULL;
    }
    x = build_cast(n->b, x, wide(x->type->dtype));
    o->t = x->type;
    return SUB(x, along(o, total(o, OP_amax, x)));
}

/* The softmax of no elements; NULL: there may be some. */
static Value *
of_nothing(Aten *n)
{
    return arg_is_float(&n->args[0]) && dim_is(n->cx, type_numel(n->cx, n->type), 0) ? NUM(0)
                                                                                     : NULL;
}

Value *
aten_softmax(Aten *n)
{
    Over o;
    Value *x = lowered(n, &o);
    if (!x) {
        return of_nothing(n);
    }
    Value *e = EXP(x);
    return shaped(n, DIV(e, along(&o, total(&o, OP_sum, e))), 0);
}

/* Computes a softmax that is 0, not NaN, in rows whose elements are all -inf. */
Value *
aten_safe_softmax(Aten *n)
{
    Over o;
    Value *x = lowered(n, &o), *y = aten_softmax(n);
    if (!x || !y) {
        return y;
    }
    Value *given = build_reshape(n->b, arg_tensor(n, 0), x->type->rank, x->type->dims);
    Value *nothing = EQ(build_cast(n->b, given, x->type->dtype), NUM(-INFINITY));
    Value *all = shaped(n, along(&o, total(&o, OP_all, nothing)), 0);
    return WHERE(all, NUM(0), y);
}

Value *
aten_log_softmax(Aten *n)
{
    Over o;
    Value *x = lowered(n, &o);
    return !x ? of_nothing(n) : shaped(n, SUB(x, along(&o, LOG(total(&o, OP_sum, EXP(x))))), 0);
}

/* (grad, output, dim, dtype) of both backwards: grad and output wide, over one axis. */
static bool
gradient(Aten *n, Over *o, Value **g, Value **y)
{
    *y = arg_tensor(n, 1);
    o->n = n;
    o->naxes = 1;
    if (!arg_is_float(&n->args[0]) || !arg_is_float(&n->args[1]) || (*y)->type->rank == 0 ||
        !arg_axis(arg_at(n, 2), (*y)->type->rank, o->axes)) {
        return false;
    }
    o->t = type_with(n->cx, (*y)->type, wide((*y)->type->dtype));
    *g = operand(n, &n->args[0], o->t);
    *y = operand(n, &n->args[1], o->t);
    return true;
}

Value *
aten_softmax_backward(Aten *n)
{
    Over o;
    Value *g, *y;
    if (!gradient(n, &o, &g, &y)) {
        return NULL;
    }
    return MUL(SUB(g, along(&o, total(&o, OP_sum, MUL(g, y)))), y);
}

Value *
aten_log_softmax_backward(Aten *n)
{
    Over o;
    Value *g, *y;
    if (!gradient(n, &o, &g, &y)) {
        return NULL;
    }
    return SUB(g, MUL(EXP(y), along(&o, total(&o, OP_sum, g))));
}

/* ---- layer norm ---- */

/* The last axes, as many as the list in argument k has elements; the type is that of argument 0,
 * wide. */
static bool
over_last(Aten *n, const Arg *x, int k, Over *o)
{
    const Arg *shape = arg_at(n, k);
    if (!arg_is_float(x) || shape->kind != ARG_LIST || shape->n > x->v->type->rank) {
        return false;
    }
    o->n = n;
    o->naxes = shape->n;
    for (int j = 0; j < shape->n; j++) {
        o->axes[j] = x->v->type->rank - shape->n + j;
    }
    o->t = type_with(n->cx, x->v->type, statistics_dtype(n, x->v->type, o->naxes, o->axes));
    return !may_be_empty(n, o->t, o->naxes, o->axes);
}

/* v times weight plus bias, each broadcast from the end, each optional. */
static Value *
affine(Aten *n, Value *v, const Arg *weight, const Arg *bias)
{
    if (weight->kind == ARG_TENSOR) {
        v = MUL(v, operand(n, weight, v->type));
    }
    return bias->kind == ARG_TENSOR ? ADD(v, operand(n, bias, v->type)) : v;
}

static Value *
reciprocal_deviation(Aten *n, Value *variance, const Arg *eps)
{
    return map1(n, OP_rsqrt, ADD(variance, NUM(arg_float(eps, 0))));
}

/* Eager takes parameters of x's dtype, and of float32 beside halves: arguments first .. last. */
static bool
takes_parameters(const Aten *n, int first, int last)
{
    Dtype dtype = arg_tensor(n, 0)->type->dtype;
    bool all = true;
    for (int k = first; k <= last; k++) {
        const Arg *a = arg_at(n, k);
        all &= a->kind != ARG_TENSOR || a->v->type->dtype == dtype ||
               (is_half(dtype) && a->v->type->dtype == DT_f32);
    }
    return all;
}

/* native_layer_norm(x, shape, weight, bias, eps) -> y, mean, 1 / deviation */
Value *
aten_layer_norm(Aten *n)
{
    Over o;
    if (!over_last(n, &n->args[0], 1, &o) || !takes_parameters(n, 2, 3)) {
        return NULL;
    }
    Value *x = operand(n, &n->args[0], o.t), *m = mean(&o, x), *gap = SUB(x, along(&o, m));
    Value *r = reciprocal_deviation(n, mean(&o, MUL(gap, gap)), arg_at(n, 4));
    n->res[1] = shaped(n, m, 1);
    n->res[2] = shaped(n, r, 2);
    return affine(n, MUL(gap, along(&o, r)), arg_at(n, 2), arg_at(n, 3));
}

/* The gradient of a norm's input: r * (g - mean(g) - xhat * mean(g * xhat)), g after the weight. */
static Value *
norm_gradient(const Over *o, Value *g, Value *xhat, Value *r)
{
    Aten *n = o->n;
    Value *lean = MUL(xhat, along(o, mean(o, MUL(g, xhat))));
    return MUL(r, SUB(SUB(g, along(o, mean(o, g))), lean));
}

/* Sums over the axes that o does not name. */
static Value *
across(const Over *o, Value *v)
{
    int naxes = 0, axes[MAX_RANK];
    for (int ax = 0; ax < o->t->rank; ax++) {
        bool named = false;
        for (int k = 0; k < o->naxes; k++) {
            named |= o->axes[k] == ax;
        }
        if (!named) {
            axes[naxes++] = ax;
        }
    }
    return build_red(o->n->b, OP_sum, v, naxes, axes);
}

/* (grad, x, shape, mean, rstd, weight, bias, mask) -> dx, dweight, dbias */
Value *
aten_layer_norm_backward(Aten *n)
{
    Over o;
    if (n->nres != 3 || !over_last(n, arg_at(n, 1), 2, &o)) {
        return NULL;
    }
    Value *v[4]; /* grad, x, mean, rstd */
    for (int k = 0; k < 4; k++) {
        v[k] = operand(n, arg_at(n, k < 2 ? k : k + 1), o.t);
        if (!v[k]) {
            return NULL;
        }
    }
    const Arg none = {.kind = ARG_NONE};
    Value *xhat = MUL(SUB(v[1], v[2]), v[3]);
    if (n->types[1]) {
        n->res[1] = shaped(n, across(&o, MUL(v[0], xhat)), 1);
    }
    if (n->types[2]) {
        n->res[2] = shaped(n, across(&o, v[0]), 2);
    }
    return n->types[0] ? norm_gradient(&o, affine(n, v[0], arg_at(n, 5), &none), xhat, v[3]) : NULL;
}

/* ---- batch norm: statistics over all axes but 1 ---- */

static bool
over_batch(Aten *n, const Arg *x, Over *o)
{
    if (!arg_is_float(x) || x->v->type->rank < 2) {
        return false;
    }
    o->n = n;
    o->naxes = 0;
    for (int ax = 0; ax < x->v->type->rank; ax++) {
        if (ax != 1) {
            o->axes[o->naxes++] = ax;
        }
    }
    o->t = type_with(n->cx, x->v->type, statistics_dtype(n, x->v->type, o->naxes, o->axes));
    return !may_be_empty(n, o->t, o->naxes, o->axes);
}

/* A tensor with one element a channel, wide; NULL when the argument is None. */
static Value *
channels(const Over *o, const Arg *a)
{
    const Type *t = type_of(o->n->cx, o->t->dtype, 1, &o->t->dims[1]);
    return a->kind == ARG_TENSOR ? operand(o->n, a, t) : NULL;
}

/* x * (r * weight) + (bias - mean * r * weight) */
static Value *
batch_norm(const Over *o, Value *x, Value *m, Value *r, const Arg *weight, const Arg *bias)
{
    Aten *n = o->n;
    Value *w = channels(o, weight), *b = channels(o, bias);
    Value *scale = w ? MUL(r, w) : r, *shift = MUL(m, scale);
    shift = b ? SUB(b, shift) : NEG(shift);
    return ADD(MUL(x, along(o, scale)), along(o, shift));
}

/* With the running statistics; the saved ones, results 1 and 2, are empty. */
static Value *
by_running(Aten *n, const Over *o, const Arg *eps)
{
    Value *m = channels(o, arg_at(n, 3)), *v = channels(o, arg_at(n, 4));
    if (!m || !v) {
        return NULL;
    }
    for (int k = 1; k < n->nres && k < 3; k++) {
        n->res[k] = build_const(n->b, n->types[k], (Literal){.is_int = true});
    }
    Value *r = reciprocal_deviation(n, v, eps);
    return batch_norm(o, operand(n, &n->args[0], o->t), m, r, arg_at(n, 1), arg_at(n, 2));
}

/* (x, weight, bias, running_mean, running_var, momentum, eps) -> y, empty, empty */
Value *
aten_batch_norm_inference(Aten *n)
{
    Over o;
    bool taken = over_batch(n, &n->args[0], &o) && takes_parameters(n, 1, 4);
    return taken ? by_running(n, &o, arg_at(n, 6)) : NULL;
}

/* The dtype in which eager keeps statistics of a batch: float32 for halves if a parameter (of the
 * first `last` arguments) is float32, else that of x. */
static Dtype
sums_dtype(const Aten *n, int last)
{
    Dtype dtype = arg_tensor(n, 0)->type->dtype;
    for (int k = 1; k < last; k++) {
        const Arg *a = arg_at(n, k);
        if (is_half(dtype) && a->kind == ARG_TENSOR && a->v->type->dtype == DT_f32) {
            return DT_f32;
        }
    }
    return dtype;
}

/* Wide, as it is when it has been kept in the dtype. */
static Value *
kept(const Over *o, Dtype dtype, Value *v)
{
    return is_half(dtype) ? build_cast(o->n->b, build_cast(o->n->b, v, dtype), o->t->dtype) : v;
}

/* The statistics of a batch.  For float16, eager computes in float32 and rounds what it stores; for
 * bfloat16 it stores each step, including the count, so that all of them are rounded. */
typedef struct {
    Dtype dtype; /* in which they are stored */
    Value *mean, *r; /* not yet rounded, except the variance in r */
    Value *squares; /* the sum of squared distances from the mean */
} Batch;

/* The step of a statistic: rounded of bfloat16 alone. */
static Value *
step(const Over *o, const Batch *s, Value *v)
{
    return s->dtype == DT_bf16 ? kept(o, s->dtype, v) : v;
}

/* The squares by how many there are, less some. */
static Value *
variance(const Over *o, const Batch *s, int64_t less)
{
    Aten *n = o->n;
    Value *count = count_of(n, o->t, o->naxes, o->axes, less, o->t->dtype);
    return step(o, s, scaled(n, OP_div, s->squares, step(o, s, count)));
}

/* With the statistics of the batch, among the first `last` arguments. */
static Value *
by_batch(Aten *n, const Over *o, int last, const Arg *eps, Batch *s)
{
    Value *x = operand(n, &n->args[0], o->t), *gap;
    *s = (Batch){.dtype = sums_dtype(n, last), .mean = mean(o, x)};
    gap = SUB(x, along(o, s->mean));
    s->squares = step(o, s, total(o, OP_sum, MUL(gap, gap)));
    s->r = reciprocal_deviation(n, variance(o, s, 0), eps);
    n->res[1] = s->mean;
    n->res[2] = s->r;
    return batch_norm(o, x, kept(o, s->dtype, s->mean), kept(o, s->dtype, s->r), arg_at(n, 1),
                      arg_at(n, 2));
}

/* (x, weight, bias, training, momentum, eps) -> y, mean, 1 / deviation */
Value *
aten_batch_norm_no_stats(Aten *n)
{
    Over o;
    Batch s;
    if (!arg_true(arg_at(n, 3)) || !over_batch(n, &n->args[0], &o)) {
        return NULL;
    }
    return by_batch(n, &o, 3, arg_at(n, 5), &s);
}

/* momentum * new + (1 - momentum) * old; for bfloat16 the factors are rounded, and so are the
 * products except that of the new variance. */
static Value *
moved(const Over *o, const Batch *s, const Arg *old, Value *fresh, double momentum)
{
    Aten *n = o->n;
    Value *v = channels(o, old);
    double part = s->dtype == DT_bf16 ? rounded(DT_bf16, momentum) : momentum;
    double rest = s->dtype == DT_bf16 ? rounded(DT_bf16, 1 - part) : 1 - part;
    if (!v) {
        return NULL;
    }
    Value *added = MUL(step(o, s, fresh), NUM(part));
    return ADD(fresh == s->mean ? step(o, s, added) : added, step(o, s, MUL(v, NUM(rest))));
}

/* (x, weight, bias, running_mean, running_var, training, momentum, eps) -> y, mean, 1 / deviation,
 * and where there are five results the new running_mean and running_var */
Value *
aten_batch_norm(Aten *n)
{
    Over o;
    if (!over_batch(n, &n->args[0], &o) || !takes_parameters(n, 1, 4)) {
        return NULL;
    }
    bool training = arg_true(arg_at(n, 5)), moves = n->nres == 5;
    if (!training) {
        for (int k = 3; k < n->nres; k++) {
            n->res[k] = channels(&o, arg_at(n, k));
        }
        return by_running(n, &o, arg_at(n, 7));
    }
    if (!moves && arg_at(n, 3)->kind != ARG_NONE) {
        return NULL; /* it would write the running statistics in place */
    }
    Batch s;
    Value *y = by_batch(n, &o, 5, arg_at(n, 7), &s);
    if (moves) {
        double momentum = arg_float(arg_at(n, 6), 0);
        n->res[3] = moved(&o, &s, arg_at(n, 3), s.mean, momentum);
        n->res[4] = moved(&o, &s, arg_at(n, 4), variance(&o, &s, 1), momentum);
    }
    return y;
}

/* (grad, x, weight, running_mean, running_var, mean, rstd, training, eps, mask) -> dx, dweight,
 * dbias */
Value *
aten_batch_norm_backward(Aten *n)
{
    Over o;
    bool training = arg_true(arg_at(n, 7));
    if (n->nres != 3 || !over_batch(n, arg_at(n, 1), &o)) {
        return NULL;
    }
    Value *m = channels(&o, arg_at(n, training ? 5 : 3));
    Value *r = channels(&o, arg_at(n, training ? 6 : 4));
    if (!m || !r) {
        return NULL;
    }
    if (!training) {
        r = reciprocal_deviation(n, r, arg_at(n, 8));
    }
    Value *g = operand(n, &n->args[0], o.t), *x = operand(n, &n->args[1], o.t);
    Value *w = channels(&o, arg_at(n, 2)), *scale = along(&o, w ? MUL(r, w) : r);
    Value *xhat = MUL(SUB(x, along(&o, m)), along(&o, r));
    n->res[1] = n->types[1] ? total(&o, OP_sum, MUL(g, xhat)) : NULL;
    n->res[2] = n->types[2] ? total(&o, OP_sum, g) : NULL;
    if (!n->types[0]) {
        return NULL;
    }
    return training ? norm_gradient(&o, g, xhat, scale) : MUL(g, scale);
}
