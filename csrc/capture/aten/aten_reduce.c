/* Reductions.  The axes of an IR reduction go; keepdim brings them back as axes of one element,
 * which is a reshape to the shape that the graph says. */
#include "aten.h"

#include <math.h>

static DtypeClass
class_of(Dtype dtype)
{
    return dtype_info[dtype].class;
}

static Value *
shaped(Aten *n, Value *v, const Type *t)
{
    return build_reshape(n->b, v, t->rank, t->dims);
}

bool
may_be_empty(Aten *n, const Type *t, int naxes, const int *axes)
{
    Dim zero = dim_int(n->cx, 0);
    for (int k = 0; k < naxes; k++) {
        if (!dim_lt(n->cx, zero, t->dims[axes[k]])) {
            return true;
        }
    }
    return false;
}

static Dim
elements_along(Aten *n, const Type *t, int naxes, const int *axes)
{
    Dim count = one(n);
    for (int k = 0; k < naxes; k++) {
        count = dim_mul(n->cx, count, t->dims[axes[k]]);
    }
    return count;
}

Value *
count_of(Aten *n, const Type *t, int naxes, const int *axes, int64_t less, Dtype dtype)
{
    Dim count = dim_sub(n->cx, elements_along(n, t, naxes, axes), dim_int(n->cx, less));
    count = dim_max(n->cx, count, dim_int(n->cx, 0));
    int64_t value;
    if (dim_is_int(n->cx, count, &value)) {
        return build_float(n->b, (double)value);
    }
    return build_cast(n->b, build_size(n->b, count), dtype);
}

Value *
scaled(Aten *n, Op op, Value *v, Value *s)
{
    if (!value_is_const(s)) {
        s = build_broadcast(n->b, s, v->type->rank, v->type->dims);
    }
    return map2(n, op, v, s);
}

/* From how many elements on statistics of f32 are taken in f64.  In f32 the error of a mean is some
 * units in its last place however exact the order of the sum is, and with 10^7 elements eager's
 * happens to be several times less. */
enum { LONG_ROW = 1 << 20 };

Dtype
statistics_dtype(Aten *n, const Type *t, int naxes, const int *axes)
{
    int64_t least = dim_range(n->cx, elements_along(n, t, naxes, axes)).lo;
    return t->dtype == DT_f32 && least >= LONG_ROW ? DT_f64 : wide(t->dtype);
}

Value *
mean_of(Aten *n, Value *v, int naxes, const int *axes)
{
    Value *count = count_of(n, v->type, naxes, axes, 0, v->type->dtype);
    return scaled(n, OP_div, build_red(n->b, OP_sum, v, naxes, axes), count);
}

Value *
spread(Aten *n, Value *v, const Type *t, int naxes, const int *axes)
{
    bool gone[MAX_RANK] = {false};
    int to[MAX_RANK], kept = 0;
    for (int k = 0; k < naxes; k++) {
        gone[axes[k]] = true;
    }
    for (int ax = 0; ax < t->rank; ax++) {
        if (!gone[ax]) {
            to[kept++] = ax;
        }
    }
    return build_expand(n->b, v, t->rank, t->dims, to);
}

/* The operand and its axes: argument 1 where it says which. */
static Value *
reduced(Aten *n, int *naxes, int *axes)
{
    const Arg *a = arg_at(n, 1), all = {.kind = ARG_NONE};
    Value *x = arg_tensor(n, 0);
    bool says = a->kind == ARG_INT || a->kind == ARG_LIST;
    return arg_axes(says ? a : &all, x->type->rank, naxes, axes) ? x : NULL;
}

/* sum, prod: in the dtype of the result, halves in f32. */
Value *
aten_sum(Aten *n)
{
    int naxes, axes[MAX_RANK];
    Value *x = reduced(n, &naxes, axes);
    if (!x || n->type->dtype == DT_bool) {
        return NULL;
    }
    x = build_cast(n->b, x, wide(n->type->dtype));
    return shaped(n, build_red(n->b, n->op, x, naxes, axes), n->type);
}

Value *
aten_mean(Aten *n)
{
    int naxes, axes[MAX_RANK];
    Value *x = reduced(n, &naxes, axes);
    if (!x || class_of(n->type->dtype) != CLASS_FLOAT) {
        return NULL;
    }
    return shaped(n, mean_of(n, build_cast(n->b, x, wide(n->type->dtype)), naxes, axes), n->type);
}

/* amax, amin, max, min, argmax, argmin: eager raises when there is nothing to choose from. */
Value *
aten_extreme(Aten *n)
{
    int naxes, axes[MAX_RANK];
    Value *x = reduced(n, &naxes, axes);
    if (!x || may_be_empty(n, x->type, naxes, axes)) {
        return NULL;
    }
    bool index = op_info[n->op].rule == RULE_INDEX;
    if (index && x->type->dtype == DT_bool) {
        return NULL; /* eager has no argmax of truth values */
    }
    if (index && naxes != 1) {
        Dim all = type_numel(n->cx, x->type);
        x = build_reshape(n->b, x, 1, &all);
        naxes = 1;
        axes[0] = 0;
    }
    return shaped(n, build_red(n->b, n->op, x, naxes, axes), n->type);
}

/* Computes max.dim and min.dim, which return the extreme and its position. */
Value *
aten_extreme_at(Aten *n)
{
    int naxes, axes[MAX_RANK];
    Value *x = reduced(n, &naxes, axes);
    if (x && !x->type->rank) {
        n->res[1] = build_int(n->b, 0);
        return x;
    }
    if (!x || naxes != 1 || may_be_empty(n, x->type, naxes, axes)) {
        return NULL;
    }
    Op where = n->op == OP_amax ? OP_argmax : OP_argmin;
    n->res[1] = shaped(n, build_red(n->b, where, x, naxes, axes), n->types[1]);
    return shaped(n, build_red(n->b, n->op, x, naxes, axes), n->type);
}

Value *
aten_aminmax(Aten *n)
{
    int naxes, axes[MAX_RANK];
    Value *x = reduced(n, &naxes, axes);
    if (!x || may_be_empty(n, x->type, naxes, axes)) {
        return NULL;
    }
    n->res[1] = shaped(n, build_red(n->b, OP_amax, x, naxes, axes), n->types[1]);
    return shaped(n, build_red(n->b, OP_amin, x, naxes, axes), n->type);
}

Value *
aten_truth(Aten *n)
{
    int naxes, axes[MAX_RANK];
    Value *x = reduced(n, &naxes, axes);
    return x ? shaped(n, build_red(n->b, n->op, to_bool(n, x), naxes, axes), n->type) : NULL;
}

/* The sum of squared distances from the mean over (count - correction), and the mean. */
static Value *
variance(Aten *n, Value **mean)
{
    int naxes, axes[MAX_RANK];
    const Arg *correction = arg_at(n, 2);
    double less = arg_float(correction, 1);
    Value *x = reduced(n, &naxes, axes);
    if (!x || class_of(n->type->dtype) != CLASS_FLOAT || less != floor(less) || fabs(less) > 1e9 ||
        (correction->kind != ARG_NONE && !arg_is_number(correction))) {
        return NULL;
    }
    Dtype dtype = x->type->dtype == n->type->dtype ? statistics_dtype(n, x->type, naxes, axes)
                                                   : wide(n->type->dtype);
    x = build_cast(n->b, x, dtype);
    *mean = mean_of(n, x, naxes, axes);
    Value *gap = map2(n, OP_sub, x, spread(n, *mean, x->type, naxes, axes));
    Value *sum = build_red(n->b, OP_sum, map2(n, OP_mul, gap, gap), naxes, axes);
    return scaled(n, OP_div, sum, count_of(n, x->type, naxes, axes, (int64_t)less, x->type->dtype));
}

Value *
aten_var(Aten *n)
{
    Value *mean, *v = variance(n, &mean);
    return v ? shaped(n, v, n->type) : NULL;
}

Value *
aten_std(Aten *n)
{
    Value *mean, *v = variance(n, &mean);
    return v ? shaped(n, map1(n, OP_sqrt, v), n->type) : NULL;
}

Value *
aten_var_mean(Aten *n)
{
    Value *mean, *v = variance(n, &mean);
    if (!v) {
        return NULL;
    }
    n->res[1] = shaped(n, mean, n->types[1]);
    return shaped(n, n->op == OP_sqrt ? map1(n, OP_sqrt, v) : v, n->type);
}

/* log(sum(exp(x - max))) + max, max taken as 0 where it is infinite */
Value *
aten_logsumexp(Aten *n)
{
    int naxes, axes[MAX_RANK];
    Value *x = reduced(n, &naxes, axes);
    const Arg *dim = arg_at(n, 1);
    bool none = dim->kind == ARG_LIST && dim->n == 0; /* eager raises */
    if (!x || none || class_of(n->type->dtype) != CLASS_FLOAT ||
        may_be_empty(n, x->type, naxes, axes)) {
        return NULL;
    }
    x = build_cast(n->b, x, wide(n->type->dtype));
    Value *most = build_red(n->b, OP_amax, x, naxes, axes);
    most = map3(n, OP_where, map1(n, OP_isinf, most), number(n, 0), most);
    Value *e = map1(n, OP_exp, map2(n, OP_sub, x, spread(n, most, x->type, naxes, axes)));
    Value *sum = build_red(n->b, OP_sum, e, naxes, axes);
    return shaped(n, map2(n, OP_add, map1(n, OP_log, sum), most), n->type);
}

/* ---- scans ---- */

/* cumsum(x, dim, dtype), cumprod, logcumsumexp(x, dim) */
Value *
aten_scan(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    int axis;
    if (n->type->dtype == DT_bool ||
        (n->op == OP_logaddexp && class_of(n->type->dtype) != CLASS_FLOAT)) {
        return NULL;
    }
    if (!x->type->rank) {
        return build_cast(n->b, x, n->type->dtype);
    }
    if (!arg_axis(arg_at(n, 1), x->type->rank, &axis)) {
        return NULL;
    }
    return build_scan(n->b, n->op, build_cast(n->b, x, n->type->dtype), axis);
}

/* cummax(x, dim), cummin: the value and its position, the last among equals, or among NaN. */
Value *
aten_scan_at(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    const Type *t = type_with(n->cx, x->type, DT_i64);
    int axis;
    if (n->nres != 2 || x->type->dtype == DT_bool) {
        return NULL;
    }
    if (!x->type->rank) {
        n->res[1] = build_int(n->b, 0);
        return x;
    }
    if (!arg_axis(arg_at(n, 1), x->type->rank, &axis)) {
        return NULL;
    }
    Value *v = build_scan(n->b, n->op, x, axis), *here = map2(n, OP_eq, x, v);
    if (class_of(x->type->dtype) == CLASS_FLOAT) {
        here = map2(n, OP_bit_or, here, map1(n, OP_isnan, x));
    }
    Value *at = map3(n, OP_where, here, position(n, t, axis), build_int(n->b, 0));
    n->res[1] = build_scan(n->b, OP_amax, at, axis);
    return v;
}
