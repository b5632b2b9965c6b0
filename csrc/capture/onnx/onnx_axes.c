/* Operators along axes: reductions, scans, softmax, norms. */
#include "onnx.h"

#include <math.h>
#include <string.h>

/* ---- reductions ---- */

typedef struct {
    int n, axes[MAX_RANK];
    const Type *made;
} Along;

/* The axes of a reduction, and the type of its result. */
static Along
along(Onnx *o, Value *x)
{
    Along a;
    const Type *t = x->type;
    Dim dims[MAX_RANK];
    int rank = 0, given = 0;
    bool kept = onnx_int(o, "keepdims", 1) != 0, gone[MAX_RANK] = {false};
    a.n = onnx_axes(o, 1, "axes", t->rank, a.axes);
    if (a.n == 0 && (given = onnx_int(o, "noop_with_empty_axes", 0) == 0)) {
        while (a.n < t->rank) {
            a.axes[a.n] = a.n;
            a.n++;
        }
    }
    for (int k = 0; k < a.n; k++) {
        gone[a.axes[k]] = true;
    }
    for (int ax = 0; ax < t->rank; ax++) {
        if (!gone[ax] || kept) {
            dims[rank++] = gone[ax] ? dim_int(o->cx, 1) : t->dims[ax];
        }
    }
    a.made = type_of(o->cx, t->dtype, rank, dims);
    return a;
}

static Value *
total(Onnx *o, Value *x, const Along *a)
{
    int64_t axes[MAX_RANK];
    if (a->n == 0) {
        return x;
    }
    for (int k = 0; k < a->n; k++) {
        axes[k] = a->axes[k];
    }
    bool by_one = strcmp(o->row->overload, "aten.prod.dim_int") == 0;
    Arg list = arg_ints(o, a->n, axes);
    Value *v = x;
    if (!by_one) {
        return onnx_aten(o, o->row->overload, a->made, ARGS(arg_v(x), list));
    }
    v = build_red(o->b, OP_prod, v, a->n, a->axes);
    return build_reshape(o->b, v, a->made->rank, a->made->dims);
}

void
onnx_reduce(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    Along a = along(o, x);
    bool mean = strcmp(o->row->overload, "aten.mean.dim") == 0;
    if (mean && dtype_info[x->type->dtype].class <= CLASS_INT) {
        Value *v = build_red(o->b, OP_sum, x, a.n, a.axes);
        Dim count = dim_int(o->cx, 1);
        for (int k = 0; k < a.n; k++) {
            count = dim_mul(o->cx, count, x->type->dims[a.axes[k]]);
        }
        Value *n = build_cast(o->b, build_size(o->b, count), x->type->dtype);
        v = onnx_map(o, OP_div_trunc, v, n);
        o->out[0] = build_reshape(o->b, v, a.made->rank, a.made->dims);
        return;
    }
    o->out[0] = total(o, x, &a);
}

Literal
onnx_furthest(Dtype dtype, bool low)
{
    static const struct {
        Dtype dtype;
        int64_t low, high;
    } rows[] = {{DT_bool, 0, 1},
                {DT_u8, 0, UINT8_MAX},
                {DT_i8, INT8_MIN, INT8_MAX},
                {DT_i16, INT16_MIN, INT16_MAX},
                {DT_i32, INT32_MIN, INT32_MAX},
                {DT_i64, INT64_MIN, INT64_MAX}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (rows[k].dtype == dtype) {
            return (Literal){.is_int = true, .i = low ? rows[k].low : rows[k].high};
        }
    }
    return (Literal){.f = low ? -INFINITY : INFINITY};
}

/* Of nothing, the largest element is the smallest number that there is. */
void
onnx_reduce_extreme(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    Along a = along(o, x);
    for (int k = 0; k < a.n; k++) {
        if (dim_is(o->cx, x->type->dims[a.axes[k]], 0)) {
            Literal l = onnx_furthest(x->type->dtype, o->row->way == OP_amax);
            o->out[0] = build_const(o->b, a.made, l);
            return;
        }
    }
    if (x->type->dtype == DT_bool) {
        Value *v = build_red(o->b, o->row->way == OP_amax ? OP_any : OP_all, x, a.n, a.axes);
        o->out[0] = build_reshape(o->b, v, a.made->rank, a.made->dims);
        return;
    }
    o->out[0] = total(o, x, &a);
}

void
onnx_reduce_l1(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    Along a = along(o, x);
    o->out[0] = total(o, onnx_aten(o, "aten.abs.default", x->type, ARGS(arg_v(x))), &a);
}

static Value *
squares(Onnx *o, Value *x)
{
    return onnx_aten(o, "aten.mul.Tensor", x->type, ARGS(arg_v(x), arg_v(x)));
}

void
onnx_reduce_squares(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    Along a = along(o, x);
    o->out[0] = total(o, squares(o, x), &a);
}

/* An elementwise function of floats; of whole numbers in float64. */
static Value *
function(Onnx *o, const char *overload, Value *x)
{
    bool whole = dtype_info[x->type->dtype].class <= CLASS_INT;
    Value *v = whole ? build_cast(o->b, x, DT_f64) : x;
    return build_cast(o->b, onnx_aten(o, overload, v->type, ARGS(arg_v(v))), x->type->dtype);
}

void
onnx_reduce_l2(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    Along a = along(o, x);
    o->out[0] = function(o, "aten.sqrt.default", total(o, squares(o, x), &a));
}

void
onnx_reduce_log(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    Along a = along(o, x);
    o->out[0] = function(o, "aten.log.default", total(o, x, &a));
}

void
onnx_reduce_log_exp(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    Along a = along(o, x);
    for (int k = 0; k < a.n; k++) {
        if (dim_is(o->cx, x->type->dims[a.axes[k]], 0)) {
            o->out[0] = build_const(o->b, a.made, (Literal){.f = -INFINITY});
            return;
        }
    }
    if (dtype_info[x->type->dtype].class <= CLASS_INT) {
        onnx_refuse(o, "its operand is of whole numbers");
    }
    o->out[0] = a.n ? total(o, x, &a) : x;
}

void
onnx_cumulate(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    const Type *t = x->type;
    int axis = onnx_axis(o, onnx_one_number(o, 1), t->rank);
    bool back = onnx_int(o, "reverse", 0) != 0, shifted = onnx_int(o, "exclusive", 0) != 0;
    bool product = strcmp(o->row->overload, "aten.cumprod.default") == 0;
    Value *v = back ? build_flip(o->b, x, 1, &axis) : x;
    if (shifted) {
        /* one more before, and then without the last, since there may be none */
        Dim one = dim_int(o->cx, 1), zero = dim_int(o->cx, 0), lo[MAX_RANK];
        for (int ax = 0; ax < t->rank; ax++) {
            lo[ax] = ax == axis ? one : zero;
        }
        const Type *more = onnx_resized(o, t, axis, dim_add(o->cx, t->dims[axis], one), t->dtype);
        bool whole = dtype_info[t->dtype].class <= CLASS_INT;
        Value *fill = whole ? build_int(o->b, product) : build_float(o->b, product);
        v = build_slice(o->b, build_pad(o->b, v, fill, more, lo), axis, zero, one, t->dims[axis]);
    }
    v = onnx_aten(o, o->row->overload, t, ARGS(arg_v(v), arg_i(axis)));
    o->out[0] = back ? build_flip(o->b, v, 1, &axis) : v;
}

/* ---- softmax ---- */

void
onnx_softmax(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    int axis = onnx_axis(o, onnx_int(o, "axis", -1), x->type->rank);
    Arg halves = {.kind = ARG_BOOL};
    o->out[0] = onnx_aten(o, o->row->overload, x->type, ARGS(arg_v(x), arg_i(axis), halves));
}

/* Over all axes from one on, as before version 13. */
void
onnx_softmax_flat(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    const Type *t = x->type;
    int axis = onnx_axis(o, onnx_int(o, "axis", 1), t->rank);
    Value *v = onnx_flat(o, x, axis);
    Arg halves = {.kind = ARG_BOOL};
    v = onnx_aten(o, o->row->overload, v->type, ARGS(arg_v(v), arg_i(1), halves));
    o->out[0] = build_reshape(o->b, v, t->rank, t->dims);
}

void
onnx_lp_normalization(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    const Type *t = x->type;
    int axis = onnx_axis(o, onnx_int(o, "axis", -1), t->rank), to[MAX_RANK], n = 0;
    bool two = onnx_int(o, "p", 2) == 2;
    for (int ax = 0; ax < t->rank; ax++) {
        if (ax != axis) {
            to[n++] = ax;
        }
    }
    Value *e = two ? squares(o, x) : onnx_aten(o, "aten.abs.default", t, ARGS(arg_v(x)));
    Value *sum = build_red(o->b, OP_sum, e, 1, &axis);
    sum = two ? build_map(o->b, OP_sqrt, sum, NULL, NULL) : sum;
    sum = build_expand(o->b, sum, t->rank, t->dims, to);
    Value *none = build_map(o->b, OP_eq, sum, build_int(o->b, 0), NULL);
    Value *zero = build_const(o->b, t, (Literal){.is_int = true});
    o->out[0] = build_map(o->b, OP_where, none, zero, build_map(o->b, OP_div, x, sum, NULL));
}

/* ---- norms ---- */

static Value *
by_channel(Onnx *o, Value *v, const Type *t)
{
    if (v->type->rank != 1 || v->type->dims[0] != t->dims[1]) {
        onnx_refuse(o, "its scale, bias, mean and variance have a number for each channel");
    }
    return build_expand(o->b, build_cast(o->b, v, t->dtype), t->rank, t->dims, (const int[]){1});
}

/* By mean and variance of the batch; those of all batches follow them slowly. */
static void
batch_norm_trained(Onnx *o, Value *x)
{
    const Type *t = x->type;
    double keeps = onnx_float(o, "momentum", 0.9);
    int axes[MAX_RANK], n = 0;
    for (int ax = 0; ax < t->rank; ax++) {
        if (ax != 1) {
            axes[n++] = ax;
        }
    }
    Dtype at = wide(t->dtype);
    Value *v = build_cast(o->b, x, at), *now[2], *rstd;
    v = onnx_normalised(o, v, n, axes, onnx_float(o, "epsilon", 1e-5), &now[0], &rstd);
    Value *far = onnx_map(o, OP_sub, build_cast(o->b, x, at), now[0]), *count;
    Value *squared = build_red(o->b, OP_sum, onnx_map(o, OP_mul, far, far), n, axes);
    Dim all = dim_int(o->cx, 1);
    for (int k = 0; k < n; k++) {
        all = dim_mul(o->cx, all, t->dims[axes[k]]);
    }
    count = onnx_size_number(o, all, at);
    now[0] = build_reshape(o->b, now[0], 1, t->dims + 1);
    now[1] = onnx_map(o, OP_div, squared, count);
    v = onnx_map(o, OP_mul, v, by_channel(o, onnx_in(o, 1), v->type));
    v = onnx_map(o, OP_add, v, by_channel(o, onnx_in(o, 2), v->type));
    o->out[0] = build_cast(o->b, v, t->dtype);
    for (int k = 1; k < o->node->noutputs; k++) {
        Value *old = onnx_in(o, k + 2);
        Value *next = onnx_times(o, build_cast(o->b, old, at), keeps);
        next = onnx_map(o, OP_add, next, onnx_times(o, now[k - 1], 1 - keeps));
        o->out[k] = build_cast(o->b, next, old->type->dtype);
    }
}

void
onnx_batch_norm(Onnx *o)
{
    Value *x = onnx_in(o, 0), *v[4];
    const Type *t = x->type;
    if (onnx_int(o, "training_mode", 0) && o->node->noutputs <= 3 && t->rank >= 2) {
        batch_norm_trained(o, x);
        return;
    }
    if (onnx_int(o, "training_mode", 0) || (o->node->noutputs > 1 && o->node->outputs[1] >= 0)) {
        onnx_refuse(o, "it is in training mode, and dlc loads models for inference");
    }
    if (t->rank < 2) {
        onnx_refuse(o, "its operand has no channels");
    }
    for (int k = 0; k < 4; k++) {
        v[k] = onnx_in(o, k + 1);
        by_channel(o, v[k], t);
    }
    Dim nothing = dim_int(o->cx, 0);
    const Type *none = type_of(o->cx, t->dtype, 1, &nothing), *types[3] = {t, none, none};
    Value *res[3] = {NULL};
    Arg args[] = {arg_v(x),
                  arg_v(v[0]),
                  arg_v(v[1]),
                  arg_v(v[2]),
                  arg_v(v[3]),
                  arg_f(0.1),
                  arg_f(onnx_float(o, "epsilon", 1e-5))};
    onnx_aten_all(o, "aten._native_batch_norm_legit_no_training.default", 3, types, res, 7, args);
    o->out[0] = res[0];
}

Value *
onnx_normalised(Onnx *o, Value *x, int n, const int *axes, double eps, Value **mean, Value **rstd)
{
    const Type *t = x->type;
    Dim dims[MAX_RANK];
    int64_t list[MAX_RANK];
    memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
    for (int k = 0; k < n; k++) {
        dims[axes[k]] = dim_int(o->cx, 1);
        list[k] = axes[k];
    }
    const Type *made = type_of(o->cx, t->dtype, t->rank, dims), *types[2] = {made, made};
    Value *res[2];
    onnx_aten_all(o, "aten.var_mean.correction", 2, types, res,
                  ARGS(arg_v(x), arg_ints(o, n, list), arg_i(0), {.kind = ARG_BOOL, .i = 1}));
    *mean = res[1];
    *rstd = build_map(o->b, OP_rsqrt, build_map(o->b, OP_add, res[0], build_float(o->b, eps), NULL),
                      NULL, NULL);
    return onnx_map(o, OP_mul, onnx_map(o, OP_sub, x, *mean), *rstd);
}

void
onnx_instance_norm(Onnx *o)
{
    Value *x = onnx_in(o, 0), *mean, *rstd;
    const Type *t = x->type;
    int axes[MAX_RANK], n = 0;
    for (int ax = 2; ax < t->rank; ax++) {
        axes[n++] = ax;
    }
    if (n == 0) {
        onnx_refuse(o, "its operand has no axes behind the channels");
    }
    Value *wide_x = build_cast(o->b, x, wide(t->dtype));
    Value *v = onnx_normalised(o, wide_x, n, axes, onnx_float(o, "epsilon", 1e-5), &mean, &rstd);
    v = onnx_map(o, OP_mul, v, by_channel(o, onnx_in(o, 1), v->type));
    v = onnx_map(o, OP_add, v, by_channel(o, onnx_in(o, 2), v->type));
    o->out[0] = build_cast(o->b, v, t->dtype);
}

void
onnx_layer_norm(Onnx *o)
{
    Value *x = onnx_in(o, 0), *scale = onnx_in(o, 1), *bias = onnx_given(o, 2), *mean, *rstd;
    const Type *t = x->type;
    int first = onnx_axis(o, onnx_int(o, "axis", -1), t->rank), axes[MAX_RANK], n = 0;
    for (int ax = first; ax < t->rank; ax++) {
        axes[n++] = ax;
    }
    Dtype stash = onnx_dtype(o, onnx_int(o, "stash_type", 1));
    Dtype at = wide(t->dtype) == DT_f64 ? DT_f64 : wide(stash);
    Value *v = onnx_normalised(o, build_cast(o->b, x, at), n, axes, onnx_float(o, "epsilon", 1e-5),
                               &mean, &rstd);
    v = onnx_map(o, OP_mul, v, build_cast(o->b, scale, at));
    v = bias ? onnx_map(o, OP_add, v, build_cast(o->b, bias, at)) : v;
    o->out[0] = build_cast(o->b, v, t->dtype);
    Value *more[] = {mean, rstd};
    for (int k = 1; k < o->node->noutputs; k++) {
        o->out[k] = build_cast(o->b, more[k - 1], stash);
    }
}

/* Local response: sums of squares over neighbouring channels, as a window of slices. */
void
onnx_lrn(Onnx *o)
{
    Value *x = onnx_in(o, 0), *sum = NULL;
    const Type *t = x->type;
    int64_t size = onnx_int(o, "size", 0), before = (size - 1) / 2;
    double alpha = onnx_float(o, "alpha", 1e-4), beta = onnx_float(o, "beta", 0.75);
    if (t->rank < 2 || size < 1 || size > 64) {
        onnx_refuse(o, "its size is not 1 to 64, or its operand has no channels");
    }
    Dim dims[MAX_RANK], lo[MAX_RANK];
    memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
    for (int ax = 0; ax < t->rank; ax++) {
        lo[ax] = dim_int(o->cx, ax == 1 ? before : 0);
    }
    dims[1] = dim_add(o->cx, t->dims[1], dim_int(o->cx, size - 1));
    Value *all = build_pad(o->b, squares(o, x), build_int(o->b, 0),
                           type_of(o->cx, t->dtype, t->rank, dims), lo);
    for (int64_t k = 0; k < size; k++) {
        Value *part = build_slice(o->b, all, 1, dim_int(o->cx, k), dim_int(o->cx, 1), t->dims[1]);
        sum = sum ? build_map(o->b, OP_add, sum, part, NULL) : part;
    }
    Value *v = build_map(o->b, OP_mul, sum, build_float(o->b, alpha / (double)size), NULL);
    v = build_map(o->b, OP_add, v, build_float(o->b, onnx_float(o, "bias", 1)), NULL);
    v = onnx_aten(o, "aten.pow.Tensor_Scalar", t, ARGS(arg_v(v), arg_f(beta)));
    o->out[0] = build_map(o->b, OP_div, x, v, NULL);
}
