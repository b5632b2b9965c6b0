/* Activations and their derivatives: several elementwise ops, computed wide and rounded once, with
 * the formulas of eager's kernels. */
#include "aten_formula.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const double two_over_sqrt_pi = 1.12837916709551257390;
static const double sqrt_half = 0.70710678118654752440;
static const double cube_factor = 0.044715;

/* A constant argument, which constants() has found to be one. */
static double
constant_at(const Aten *n, int k)
{
    return arg_float(arg_at(n, k), 0);
}

/* The first `count` arguments as wide operands; false when one is not to be had. */
static bool
operands(Aten *n, int count, Value **v)
{
    for (int k = 0; k < count; k++) {
        v[k] = wide_operand(n, k);
        if (!v[k] || value_is_const(v[k])) {
            return false;
        }
    }
    return true;
}

/* Numbers, which eager wants the dtype of arithmetic to hold. */
static bool
constants(const Aten *n, int first, int last)
{
    for (int k = first; k <= last; k++) {
        double f = fabs(constant_at(n, k));
        bool large = wide(n->type->dtype) == DT_f32 && f > FLT_MAX && !isinf(f);
        if (!arg_is_number(arg_at(n, k)) || large) {
            return false;
        }
    }
    return true;
}

/* A constant tensor: a choice needs one arm that has a type. */
static Value *
full(Aten *n, double f)
{
    return build_const(n->b, type_with(n->cx, n->type, wide(n->type->dtype)), (Literal){.f = f});
}

/* ---- relu and its like ---- */

Value *
aten_relu(Aten *n)
{
    bool truth = n->type->dtype == DT_bool;             /* eager raises */
    return truth ? NULL : MAX(operand(n, &n->args[0], n->type), build_int(n->b, 0));
}

Value *
aten_threshold(Aten *n)
{
    Value *v[1];
    if (!operands(n, 1, v) || !constants(n, 1, 2)) {
        return NULL;
    }
    return WHERE(LE(v[0], NUM(constant_at(n, 1))), NUM(constant_at(n, 2)), v[0]);
}

Value *
aten_threshold_backward(Aten *n)
{
    Value *v[2];
    if (!operands(n, 2, v) || !constants(n, 2, 2)) {
        return NULL;
    }
    return WHERE(LE(v[1], NUM(constant_at(n, 2))), NUM(0), v[0]);
}

Value *
aten_leaky_relu(Aten *n)
{
    Value *v[1];
    if (!operands(n, 1, v) || !constants(n, 1, 1)) {
        return NULL;
    }
    return WHERE(GT(v[0], NUM(0)), v[0], MUL(v[0], NUM(constant_at(n, 1))));
}

/* (grad, x or result, slope, is_result): the sign of a result gives the sign of x if the slope is
 * not negative; eager refuses negative slopes. */
Value *
aten_leaky_relu_backward(Aten *n)
{
    Value *v[2];
    if (!operands(n, 2, v) || !constants(n, 2, 2) ||
        (arg_true(arg_at(n, 3)) && constant_at(n, 2) < 0)) {
        return NULL;
    }
    return WHERE(GT(v[1], NUM(0)), v[0], MUL(v[0], NUM(constant_at(n, 2))));
}

/* Passes the gradient on where low < x < high, and 0 elsewhere. */
Value *
aten_hardtanh_backward(Aten *n)
{
    Value *v[2];
    if (!operands(n, 2, v) || !constants(n, 2, 3)) {
        return NULL;
    }
    Value *low = LE(v[1], NUM(constant_at(n, 2))), *high = GE(v[1], NUM(constant_at(n, 3)));
    return WHERE(map2(n, OP_bit_or, low, high), NUM(0), v[0]);
}

static Value *
clamp6(Aten *n, Value *x)
{
    return MIN(MAX(ADD(x, NUM(3)), NUM(0)), NUM(6));
}

Value *
aten_hardsigmoid(Aten *n)
{
    Value *v[1];
    return operands(n, 1, v) ? DIV(clamp6(n, v[0]), NUM(6)) : NULL;
}

Value *
aten_hardsigmoid_backward(Aten *n)
{
    Value *v[2];
    if (!operands(n, 2, v)) {
        return NULL;
    }
    Value *inside = AND(GT(v[1], NUM(-3)), LT(v[1], NUM(3)));
    return WHERE(inside, MUL(v[0], NUM(1.0 / 6.0)), NUM(0));
}

Value *
aten_hardswish(Aten *n)
{
    Value *v[1];
    return operands(n, 1, v) ? DIV(MUL(v[0], clamp6(n, v[0])), NUM(6)) : NULL;
}

Value *
aten_hardswish_backward(Aten *n)
{
    Value *v[2];
    if (!operands(n, 2, v)) {
        return NULL;
    }
    Value *middle = MUL(v[0], ADD(DIV(v[1], NUM(3)), NUM(0.5)));
    return WHERE(LE(v[1], NUM(-3)), NUM(0), WHERE(LT(v[1], NUM(3)), middle, v[0]));
}

/* ---- exponential ones ---- */

/* elu(x, alpha, scale, input_scale) */
Value *
aten_elu(Aten *n)
{
    Value *v[1];
    if (!operands(n, 1, v) || !constants(n, 1, 3)) {
        return NULL;
    }
    double scale = constant_at(n, 2), below = constant_at(n, 1) * scale;
    Value *negative = MUL(EXPM1(MUL(v[0], NUM(constant_at(n, 3)))), NUM(below));
    return WHERE(LT(v[0], NUM(0)), negative, MUL(v[0], NUM(scale)));
}

/* elu_backward(grad, alpha, scale, input_scale, is_result, self_or_result): as of leaky_relu */
Value *
aten_elu_backward(Aten *n)
{
    Value *g = wide_operand(n, 0), *x = wide_operand(n, 5);
    if (!g || !x || !constants(n, 1, 3) || (arg_true(arg_at(n, 4)) && constant_at(n, 1) < 0)) {
        return NULL;
    }
    double scale = constant_at(n, 2), below = constant_at(n, 1) * scale, inner = constant_at(n, 3);
    Value *negative = arg_true(arg_at(n, 4))
                          ? MUL(MUL(g, NUM(inner)), ADD(x, NUM(below)))
                          : MUL(MUL(g, NUM(inner * below)), EXP(MUL(x, NUM(inner))));
    return WHERE(LE(x, NUM(0)), negative, MUL(g, NUM(scale)));
}

Value *
aten_softplus(Aten *n)
{
    Value *v[1];
    if (!operands(n, 1, v) || !constants(n, 1, 2)) {
        return NULL;
    }
    double beta = constant_at(n, 1);
    Value *t = MUL(v[0], NUM(beta));
    return WHERE(GT(t, NUM(constant_at(n, 2))), v[0], DIV(LOG1P(EXP(t)), NUM(beta)));
}

Value *
aten_softplus_backward(Aten *n)
{
    Value *v[2];
    if (!operands(n, 2, v) || !constants(n, 2, 3)) {
        return NULL;
    }
    Value *t = MUL(v[1], NUM(constant_at(n, 2))), *z = EXP(t);
    return WHERE(GT(t, NUM(constant_at(n, 3))), v[0], DIV(MUL(v[0], z), ADD(z, NUM(1))));
}

/* min(x, 0) - log1p(exp(-|x|)); the second result is exp(-|x|), kept for the backward */
Value *
aten_log_sigmoid(Aten *n)
{
    Value *v[1];
    if (!operands(n, 1, v)) {
        return NULL;
    }
    Value *z = EXP(NEG(ABS(v[0])));
    n->res[1] = z;
    return SUB(MIN(v[0], NUM(0)), LOG1P(z));
}

Value *
aten_log_sigmoid_backward(Aten *n)
{
    Value *v[3];
    if (!operands(n, 3, v)) {
        return NULL;
    }
    Value *negative = LT(v[1], NUM(0));
    Value *most = WHERE(negative, full(n, 1), NUM(0)), *sign = WHERE(negative, full(n, 1), NUM(-1));
    return MUL(v[0], SUB(most, MUL(sign, DIV(v[2], ADD(NUM(1), v[2])))));
}

Value *
aten_silu(Aten *n)
{
    Value *v[1];
    return operands(n, 1, v) ? DIV(v[0], ADD(NUM(1), EXP(NEG(v[0])))) : NULL;
}

Value *
aten_silu_backward(Aten *n)
{
    Value *v[2];
    if (!operands(n, 2, v)) {
        return NULL;
    }
    Value *s = SIGMOID(v[1]);
    return MUL(MUL(v[0], s), ADD(NUM(1), MUL(v[1], SUB(NUM(1), s))));
}

Value *
aten_mish(Aten *n)
{
    Value *v[1];
    return operands(n, 1, v) ? MUL(v[0], TANH(LOG1P(EXP(v[0])))) : NULL;
}

Value *
aten_mish_backward(Aten *n)
{
    Value *v[2];
    if (!operands(n, 2, v)) {
        return NULL;
    }
    Value *s = SIGMOID(v[1]), *t = TANH(LOG1P(EXP(v[1])));
    return MUL(v[0], ADD(t, MUL(MUL(v[1], s), SUB(NUM(1), MUL(t, t)))));
}

Value *
aten_sigmoid_backward(Aten *n)
{
    Value *v[2];
    return operands(n, 2, v) ? MUL(MUL(v[0], SUB(NUM(1), v[1])), v[1]) : NULL;
}

Value *
aten_tanh_backward(Aten *n)
{
    Value *v[2];
    return operands(n, 2, v) ? MUL(v[0], SUB(NUM(1), MUL(v[1], v[1]))) : NULL;
}

/* ---- gelu ---- */

static bool
by_tanh(const Arg *approximate)
{
    return approximate->kind == ARG_TEXT && strcmp(approximate->text, "tanh") == 0;
}

/* tanh(sqrt(2 / pi) * (x + 0.044715 x^3)) */
static Value *
gelu_inner(Aten *n, Value *x)
{
    Value *cube = MUL(MUL(x, x), x);
    return TANH(MUL(NUM(two_over_sqrt_pi * sqrt_half), ADD(x, MUL(NUM(cube_factor), cube))));
}

Value *
aten_gelu(Aten *n)
{
    Value *v[1];
    if (!operands(n, 1, v)) {
        return NULL;
    }
    Value *x = v[0];
    return by_tanh(arg_at(n, 1)) ? MUL(MUL(x, NUM(0.5)), ADD(NUM(1), gelu_inner(n, x)))
                                 : MUL(x, PHI(x));
}

static Value *
gelu_slope_tanh(Aten *n, Value *x)
{
    double beta = two_over_sqrt_pi * sqrt_half;
    Value *inner = gelu_inner(n, x), *left = MUL(NUM(0.5), x);
    Value *slope = MUL(NUM(beta), ADD(NUM(1), MUL(NUM(3 * cube_factor), MUL(x, x))));
    Value *bend = MUL(MUL(left, SUB(NUM(1), MUL(inner, inner))), slope);
    return ADD(MUL(NUM(0.5), ADD(NUM(1), inner)), bend);
}

Value *
aten_gelu_backward(Aten *n)
{
    Value *v[2];
    if (!arg_is_float(&n->args[0]) || !arg_is_float(&n->args[1]) || !operands(n, 2, v)) {
        return NULL;
    }
    Value *x = v[1];
    if (by_tanh(arg_at(n, 2))) {
        return MUL(v[0], gelu_slope_tanh(n, x));
    }
    Value *cdf = PHI(x);
    Value *pdf = MUL(EXP(MUL(MUL(x, x), NUM(-0.5))), NUM(two_over_sqrt_pi * sqrt_half * 0.5));
    return MUL(v[0], ADD(cdf, MUL(x, pdf)));
}

/* ---- small formulas ---- */

Value *
aten_logit(Aten *n)
{
    Value *v[1];
    if (!operands(n, 1, v)) {
        return NULL;
    }
    Value *x = v[0];
    const Arg *eps = arg_at(n, 1);
    if (eps->kind != ARG_NONE) {
        double e = rounded(n->type->dtype, arg_float(eps, 1));
        if (e > 0.5) {
            return NULL; /* a size, or the ends cross: which one counts depends on eager's loop */
        }
        x = MIN(MAX(x, NUM(e)), NUM(rounded(n->type->dtype, 1 - e)));
    }
    return LOG(rounded_step(n, DIV(x, rounded_step(n, SUB(NUM(1), x)))));
}

Value *
aten_lerp(Aten *n)
{
    Value *v[3];
    if (!operands(n, 2, v)) {
        return NULL;
    }
    v[2] = wide_operand(n, 2);
    if (!v[2]) {
        return NULL;
    }
    Value *gap = SUB(v[1], v[0]);
    if (value_is_const(v[2])) {
        double w = arg_float(arg_at(n, 2), 0);
        return fabs(w) < 0.5 ? ADD(v[0], MUL(v[2], gap)) : SUB(v[1], MUL(gap, NUM(1 - w)));
    }
    Value *near = ADD(v[0], MUL(v[2], gap)), *far = SUB(v[1], MUL(gap, SUB(NUM(1), v[2])));
    return WHERE(LT(ABS(v[2]), NUM(0.5)), near, far);
}

/* x * log(y), zero where x is 0 unless y is NaN; the logarithm is rounded */
Value *
aten_xlogy(Aten *n)
{
    Value *x = wide_operand(n, 0), *y = wide_operand(n, 1);
    if (!x || !y || value_is_const(y)) {
        return NULL;
    }
    if (value_is_const(x)) {
        x = full(n, rounded(n->type->dtype, arg_float(arg_at(n, 0), 0)));
    }
    Value *log = rounded_step(n, map1(n, n->op, y));
    Value *product = WHERE(EQ(x, NUM(0)), full(n, 0), MUL(x, log));
    return WHERE(map1(n, OP_isnan, y), y, product);
}

/* log(exp(a) + exp(b)), by the larger one */
Value *
aten_logaddexp(Aten *n)
{
    Value *v[2];
    if (!operands(n, 2, v)) {
        return NULL;
    }
    bool two = n->op == OP_exp2;
    Value *most = MAX(v[0], v[1]), *gap = NEG(ABS(SUB(v[0], v[1])));
    Value *rest = LOG1P(two ? map1(n, OP_exp2, gap) : EXP(gap));
    rest = two ? MUL(rest, NUM(1.44269504088896340736)) : rest;
    Value *equal = AND(map1(n, OP_isinf, v[0]), EQ(v[0], v[1]));
    return WHERE(equal, v[0], ADD(most, rest));
}

/* nan_to_num(x, nan, posinf, neginf) */
Value *
aten_nan_to_num(Aten *n)
{
    static const double most[DTYPE_COUNT] = {
        [DT_f16] = 65504,
        [DT_bf16] = 0x1.fep127,
        [DT_f32] = FLT_MAX,
        [DT_f64] = DBL_MAX,
    };
    Value *v[1];
    if (dtype_info[n->type->dtype].class != CLASS_FLOAT) {
        return operand(n, &n->args[0], n->type);
    }
    if (!operands(n, 1, v)) {
        return NULL;
    }
    Value *x = v[0];
    double large = most[n->type->dtype];
    Value *y = WHERE(EQ(x, NUM(INFINITY)), NUM(arg_float(arg_at(n, 2), large)), x);
    y = WHERE(EQ(x, NUM(-INFINITY)), NUM(arg_float(arg_at(n, 3), -large)), y);
    return WHERE(map1(n, OP_isnan, x), NUM(arg_float(arg_at(n, 1), 0)), y);
}

Value *
aten_frac(Aten *n)
{
    Value *v[1];
    return operands(n, 1, v) ? SUB(v[0], TRUNC(v[0])) : NULL;
}

Value *
aten_sinc(Aten *n)
{
    Value *v[1];
    if (!operands(n, 1, v)) {
        return NULL;
    }
    Value *t = MUL(v[0], NUM(3.14159265358979323846));
    return WHERE(EQ(v[0], NUM(0)), NUM(1), DIV(SIN(t), t));
}

/* heaviside(x, values); eager raises for two dtypes */
Value *
aten_heaviside(Aten *n)
{
    Value *v[2];
    if (!operands(n, 2, v) || arg_tensor(n, 0)->type->dtype != arg_tensor(n, 1)->type->dtype) {
        return NULL;
    }
    Value *step = WHERE(GT(v[0], NUM(0)), full(n, 1), NUM(0));
    return WHERE(EQ(v[0], NUM(0)), v[1], step);
}

Value *
aten_square(Aten *n)
{
    Value *x = operand(n, &n->args[0], n->type);
    return n->type->dtype == DT_bool ? x : MUL(x, x);
}
