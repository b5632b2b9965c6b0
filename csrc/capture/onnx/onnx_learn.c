/* Steps of optimisers: the domain ai.onnx.preview.training. */
#include "onnx.h"

#include <string.h>

static Value *
scalar(Onnx *o, int k, Dtype dtype)
{
    return build_cast(o->b, build_reshape(o->b, onnx_in(o, k), 0, NULL), dtype);
}

/* Input `which` of tensor k of n: the tensor, its gradient, then its state.  Inputs 0 and 1 are the
 * rate and the step. */
static Value *
input_of(Onnx *o, int which, int k, int n)
{
    return onnx_in(o, 2 + which * n + k);
}

/* The gradient of tensor k of n, with that of the norm. */
static Value *
gradient(Onnx *o, int k, int n)
{
    Value *x = input_of(o, 0, k, n), *norm = onnx_times(o, x, onnx_float(o, "norm_coefficient", 0));
    return onnx_add(o, norm, input_of(o, 1, k, n));
}

/* How many tensors there are, each with `each` inputs. */
static int
tensors(Onnx *o, int each)
{
    int n = (o->node->ninputs - 2) / each;
    if (n < 1 || o->node->ninputs != 2 + n * each || o->node->noutputs != n * (each - 1)) {
        onnx_refuse(o, "it has not %d inputs for each tensor", each);
    }
    return n;
}

void
onnx_momentum(Onnx *o)
{
    int n = tensors(o, 3);
    double alpha = onnx_float(o, "alpha", 0), beta = onnx_float(o, "beta", 0);
    bool plain = onnx_is_text(o, "mode", "standard", "standard");
    for (int k = 0; k < n; k++) {
        Value *x = input_of(o, 0, k, n), *v = input_of(o, 2, k, n), *g = gradient(o, k, n);
        Dtype dtype = x->type->dtype;
        Value *begun = onnx_map(o, OP_gt, scalar(o, 1, DT_i64), build_int(o->b, 0));
        const Type *t = type_scalar(o->cx, dtype);
        Value *share = onnx_map3(o, OP_where, begun, build_const(o->b, t, (Literal){.f = beta}),
                                 build_const(o->b, t, (Literal){.f = 1}));
        v = onnx_add(o, onnx_times(o, v, alpha), onnx_mul(o, g, share));
        Value *step = plain ? v : onnx_add(o, g, onnx_times(o, v, alpha));
        o->out[k] = onnx_map(o, OP_sub, x, onnx_mul(o, step, scalar(o, 0, dtype)));
        o->out[n + k] = v;
    }
}

/* numbers / (root of squares + epsilon) */
static Value *
by_root(Onnx *o, Value *numbers, Value *squares)
{
    Value *root = build_map(o->b, OP_sqrt, squares, NULL, NULL);
    return onnx_map(o, OP_div, numbers, onnx_plus(o, root, onnx_float(o, "epsilon", 0)));
}

void
onnx_adagrad(Onnx *o)
{
    int n = tensors(o, 3);
    for (int k = 0; k < n; k++) {
        Value *x = input_of(o, 0, k, n), *g = gradient(o, k, n);
        Dtype dtype = x->type->dtype;
        Value *slow = onnx_plus(
            o, onnx_times(o, scalar(o, 1, dtype), onnx_float(o, "decay_factor", 0)), 1);
        Value *rate = onnx_map(o, OP_div, scalar(o, 0, dtype), slow);
        o->out[n + k] = onnx_add(o, input_of(o, 2, k, n), onnx_mul(o, g, g));
        Value *step = by_root(o, onnx_mul(o, g, rate), o->out[n + k]);
        o->out[k] = onnx_map(o, OP_sub, x, step);
    }
}

/* 1 - base^t, f64 */
static Value *
corrected(Onnx *o, double base)
{
    const Type *t = type_scalar(o->cx, DT_f64);
    Value *b = build_const(o->b, t, (Literal){.f = base});
    Value *power = build_map(o->b, OP_pow, b, scalar(o, 1, DT_f64), NULL);
    return onnx_map(o, OP_sub, onnx_number(o, 1), power);
}

void
onnx_adam(Onnx *o)
{
    int n = tensors(o, 4);
    double alpha = onnx_float(o, "alpha", 0.9), beta = onnx_float(o, "beta", 0.999);
    double after = onnx_float(o, "norm_coefficient_post", 0);
    for (int k = 0; k < n; k++) {
        Value *x = input_of(o, 0, k, n), *g = gradient(o, k, n);
        Dtype dtype = x->type->dtype;
        Value *v = onnx_add(o, onnx_times(o, input_of(o, 2, k, n), alpha),
                            onnx_times(o, g, 1 - alpha));
        Value *h = onnx_add(o, onnx_times(o, input_of(o, 3, k, n), beta),
                            onnx_times(o, onnx_mul(o, g, g), 1 - beta));
        Value *rate = scalar(o, 0, DT_f64), *begun;
        begun = onnx_map(o, OP_gt, scalar(o, 1, DT_i64), build_int(o->b, 0));
        Value *by = build_map(o->b, OP_sqrt, corrected(o, beta), NULL, NULL);
        by = onnx_map(o, OP_div, onnx_mul(o, rate, by), corrected(o, alpha));
        rate = build_cast(o->b, onnx_map3(o, OP_where, begun, by, rate), dtype);
        x = onnx_map(o, OP_sub, x, onnx_mul(o, by_root(o, v, h), rate));
        o->out[k] = after == 0 ? x : onnx_times(o, x, 1 - after);
        o->out[n + k] = v;
        o->out[2 * n + k] = h;
    }
}
