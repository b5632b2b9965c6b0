/* Elementary functions of complex numbers by their parts, with the special values that C99 asks
 * for and eager's kernels, which call the C library, have.
 *
 * Where terms cancel or the range of float32 is too narrow between the steps, parts of complex64
 * are computed in float64 and rounded once; then no step overflows that the result does not.  For
 * complex128 the same formulas shift exponents (`more` below) and have other forms for very large
 * and very small numbers (`narrow` is false). */
#include "aten_complex.h"

#include <math.h>

static const double ln2 = 0.69314718055994530942;

/* ---- operands ---- */

Value *
complex_like(Aten *n, const Value *v, double f)
{
    return build_const(n->b, v->type, (Literal){.f = f});
}

/* Argument 0 of a function, in its own dtype or in float64; false when it or the result is not
 * complex. */
static bool
given(Aten *n, bool in_double, Parts *z)
{
    if (!complex_part_type(n) || !complex_own_parts(n, z)) {
        return false;
    }
    Dtype dtype = in_double ? DT_f64 : z->re->type->dtype;
    *z = (Parts){build_cast(n->b, z->re, dtype), build_cast(n->b, z->im, dtype)};
    return true;
}

/* Reads the parts of both operands and casts them to float64. */
static bool
given_two(Aten *n, Parts *a, Parts *b)
{
    bool given = complex_two_parts(n, a, b);
    if (given) {
        *a = (Parts){build_cast(n->b, a->re, DT_f64), build_cast(n->b, a->im, DT_f64)};
        *b = (Parts){build_cast(n->b, b->re, DT_f64), build_cast(n->b, b->im, DT_f64)};
    }
    return given;
}

bool
complex_is_narrow(const Aten *n)
{
    return n->type->dtype == DT_c64;
}

/* Joins the parts, cast to the node's dtype, to its complex result. */
static Value *
result(Aten *n, Parts z)
{
    Dtype dtype = complex_part_type(n)->dtype;
    return complex_joined(n, (Parts){build_cast(n->b, z.re, dtype), build_cast(n->b, z.im, dtype)});
}

Value *
complex_map(Aten *n, bool in_double, Parts (*f)(Aten *n, Parts z))
{
    Parts z;
    return given(n, in_double, &z) ? result(n, f(n, z)) : NULL;
}

static Parts
one_of(Aten *n, Parts z)
{
    return (Parts){complex_like(n, z.re, 1), complex_like(n, z.re, 0)};
}

/* ---- exponentials ---- */

Value *
complex_without_excess(Aten *n, Value *x, Value **more)
{
    bool wide = x->type->dtype == DT_f64;
    double edge = wide ? 700 : 80, shift = wide ? 600 : 60;
    Value *size = ABS(x), *big = GT(size, NUM(edge));
    *more = WHERE(big, complex_like(n, x, exp(shift)), NUM(1));
    return WHERE(big, SIGN_OF(SUB(size, NUM(shift)), x), x);
}

/* e**x (cos y + i sin y), where an infinite x decides the cases that an infinite y leaves open. */
static Parts
exponential(Aten *n, Parts z)
{
    Value *more, *near = complex_without_excess(n, z.re, &more), *low = LT(z.re, NUM(0));
    Value *size = EXP(WHERE(low, z.re, near)), *open = OR(FINITE(z.im), NOT(ISINF(z.re)));
    more = WHERE(low, complex_like(n, size, 1), more);
    Value *re = WHERE(open, MUL(size, COS(z.im)), size), *im = MUL(size, SIN(z.im));
    im = WHERE(OR(open, NOT(low)), im, SIGN_OF(size, z.im));
    return (Parts){MUL(re, more), WHERE(IS_ZERO(z.im), z.im, MUL(im, more))};
}

Value *
complex_exp(Aten *n)
{
    return complex_map(n, false, exponential);
}

/* e**(z ln 2), as eager has it */
static Parts
power_of_2(Aten *n, Parts z)
{
    return exponential(n, (Parts){MUL(z.re, NUM(ln2)), MUL(z.im, NUM(ln2))});
}

Value *
complex_exp2(Aten *n)
{
    return complex_map(n, true, power_of_2);
}

/* expm1(x) cos y - 2 sin(y/2)**2 + i exp(x) sin y */
static Parts
exponential_minus_one(Aten *n, Parts z)
{
    Value *half = SIN(MUL(z.im, NUM(0.5)));
    Value *re = SUB(MUL(EXPM1(z.re), COS(z.im)), MUL(NUM(2), MUL(half, half)));
    return (Parts){re, MUL(EXP(z.re), SIN(z.im))};
}

Value *
complex_expm1(Aten *n)
{
    return complex_map(n, true, exponential_minus_one);
}

/* ---- logarithms ---- */

static Parts
logarithm(Aten *n, Parts z)
{
    return (Parts){map2(n, OP_loghypot, z.re, z.im), ATAN2(z.im, z.re)};
}

Value *
complex_log(Aten *n)
{
    Parts z;
    if (!given(n, n->op != OP_log, &z)) {
        return NULL;
    }
    Parts made = logarithm(n, z);
    if (n->op != OP_log) {
        Value *by = NUM(n->op == OP_log2 ? ln2 : 2.30258509299404568402);
        made = (Parts){DIV(made.re, by), DIV(made.im, by)};
    }
    return result(n, made);
}

/* Where |1 + z| is near 1 its square's distance from 1 has the bits that 1 + z loses. */
static Parts
logarithm_of_one_plus(Aten *n, Parts z)
{
    Value *up = ADD(z.re, NUM(1)), *d = ADD(MUL(z.re, ADD(z.re, NUM(2))), MUL(z.im, z.im));
    Value *near = MUL(LOG1P(d), NUM(0.5)), *far = map2(n, OP_loghypot, up, z.im);
    Value *small = LT(ADD(ABS(z.re), ABS(z.im)), NUM(1e-100));         /* y*y may be nothing */
    Value *re = WHERE(small, z.re, WHERE(LT(ABS(d), NUM(0.5)), near, far));
    return (Parts){re, ATAN2(z.im, up)};
}

Value *
complex_log1p(Aten *n)
{
    return complex_map(n, true, logarithm_of_one_plus);
}

static Parts
either_of(Aten *n, Value *which, Parts a, Parts b)
{
    return (Parts){WHERE(which, a.re, b.re), WHERE(which, a.im, b.im)};
}

static Parts
sum_of(Aten *n, Parts a, Parts b)
{
    return (Parts){ADD(a.re, b.re), ADD(a.im, b.im)};
}

/* log(e**a + e**b) by the one whose real part is larger; of two that are as large and infinite it
 * is the second, or the logarithm of the sum. */
Value *
complex_logaddexp(Aten *n)
{
    Parts a, b;
    if (!given_two(n, &a, &b)) {
        return NULL;
    }
    Value *less = LT(a.re, b.re), *none = complex_like(n, a.re, NAN);
    Parts low = either_of(n, less, a, b), high = either_of(n, less, b, a);
    Parts gap = {SUB(low.re, high.re), SUB(low.im, high.im)};
    Parts made = sum_of(n, logarithm_of_one_plus(n, exponential(n, gap)), high);
    Parts far = logarithm(n, sum_of(n, exponential(n, low), exponential(n, high)));
    far = either_of(n, LT(low.re, NUM(0)), low, far);
    made = either_of(n, AND(ISINF(low.re), EQ(low.re, high.re)), far, made);
    Value *sum = ADD(ADD(ABS(a.re), ABS(a.im)), ADD(ABS(b.re), ABS(b.im)));
    return result(n, either_of(n, map1(n, OP_isnan, sum), (Parts){none, none}, made));
}

/* ---- roots and powers ---- */

/* With t = sqrt((|x| + |z|) / 2) it is t + i y / 2t, or right of 0 the same rotated by a right
 * angle. */
static Parts
root(Aten *n, Parts z)
{
    Value *x = ABS(z.re), *y = ABS(z.im), *by = NUM(1), *back = NUM(1);
    if (!complex_is_narrow(n)) {
        Value *large = OR(GT(x, NUM(0x1p1000)), GT(y, NUM(0x1p1000)));
        Value *small = AND(LT(x, NUM(0x1p-900)), LT(y, NUM(0x1p-900)));
        by = WHERE(small, complex_like(n, x, 0x1p200), NUM(1));
        by = WHERE(large, complex_like(n, x, 0x1p-100), by);
        back = WHERE(small, complex_like(n, x, 0x1p-100), NUM(1));
        back = WHERE(large, complex_like(n, x, 0x1p50), back);
        x = MUL(x, by);
        y = MUL(y, by);
    }
    Value *t = SQRT(MUL(ADD(x, HYPOT(x, y)), NUM(0.5))), *other = DIV(y, MUL(t, NUM(2)));
    other = WHERE(IS_ZERO(t), complex_like(n, t, 0), other);
    if (!complex_is_narrow(n)) {
        t = MUL(t, back);
        other = MUL(other, back);
    }
    Value *left = LT(z.re, NUM(0)), *far = ISINF(z.im), *beyond = complex_like(n, t, INFINITY);
    Value *re = WHERE(left, other, t), *im = WHERE(left, t, other);
    return (Parts){WHERE(far, beyond, re), SIGN_OF(WHERE(far, beyond, im), z.im)};
}

Value *
complex_sqrt(Aten *n)
{
    return complex_map(n, true, root);
}

static Parts
one_over_root(Aten *n, Parts z)
{
    z = root(n, z);
    return complex_over(n, one_of(n, z), z);
}

Value *
complex_rsqrt(Aten *n)
{
    return complex_map(n, true, one_over_root);
}

/* e**(b log a) */
static Value *
any_power(Aten *n)
{
    Parts a, b;
    if (!given_two(n, &a, &b)) {
        return NULL;
    }
    return result(n, exponential(n, complex_times(n, b, logarithm(n, a))));
}

static bool
is_number(const Arg *a, double f)
{
    bool pair = a->kind == ARG_COMPLEX;
    return pair ? a->f == f && a->im == 0 : arg_is_number(a) && arg_float(a, 0) == f;
}

/* Powers: those that eager computes by products, roots and quotients, and the others. */
Value *
complex_power(Aten *n)
{
    const Arg *e = arg_at(n, 1);
    Parts z;
    if (is_number(e, 0)) {
        const Type *t = complex_part_type(n);
        return t ? complex_joined(n, complex_unit(n, t)) : NULL;
    }
    if (is_number(e, 0.5) || is_number(e, -0.5)) {
        return is_number(e, 0.5) ? complex_sqrt(n) : complex_rsqrt(n);
    }
    bool below = is_number(e, -1) || is_number(e, -2);
    bool product = below || is_number(e, 1) || is_number(e, 2) || is_number(e, 3);
    if (!product || !complex_own_parts(n, &z)) {
        return any_power(n);
    }
    Parts made = z;
    for (int k = 1; k < (int)fabs(e->kind == ARG_COMPLEX ? e->f : arg_float(e, 1)); k++) {
        made = complex_times(n, made, z);
    }
    return complex_joined(n, below ? complex_over(n, one_of(n, made), made) : made);
}

/* pow of two tensors, or of a number and a tensor: 1 to any power is 1. */
Value *
complex_power_of_two(Aten *n)
{
    const Type *t = complex_part_type(n);
    return t && is_number(arg_at(n, 0), 1) ? complex_joined(n, complex_unit(n, t)) : any_power(n);
}

/* ---- activations ---- */

/* top / (1 + exp(-z)) */
static Parts
logistic(Aten *n, Parts top, Parts z)
{
    Parts e = exponential(n, (Parts){NEG(z.re), NEG(z.im)});
    return complex_over(n, top, (Parts){ADD(e.re, NUM(1)), e.im});
}

static Parts
sigmoid(Aten *n, Parts z)
{
    return logistic(n, one_of(n, z), z);
}

static Parts
silu(Aten *n, Parts z)
{
    return logistic(n, z, z);
}

Value *
complex_sigmoid(Aten *n)
{
    return complex_map(n, true, sigmoid);
}

Value *
complex_silu(Aten *n)
{
    return complex_map(n, true, silu);
}

/* A gradient times the conjugate of the derivative, which is computed from the function's
 * result. */
static Value *
by_chain_rule(Aten *n, Parts derivative)
{
    const Type *t = complex_part_type(n);
    Parts grad;
    if (!t || !complex_parts_of(n, arg_at(n, 0), t, &grad)) {
        return NULL;
    }
    return complex_joined(n, complex_times(n, grad, (Parts){derivative.re, NEG(derivative.im)}));
}

/* Computes the gradient of sigmoid: grad * conj(y * (1 - y)) for arguments (grad, y). */
Value *
complex_sigmoid_backward(Aten *n)
{
    const Type *t = complex_part_type(n);
    Parts y;
    if (!t || !complex_parts_of(n, arg_at(n, 1), t, &y)) {
        return NULL;
    }
    return by_chain_rule(n, complex_times(n, (Parts){SUB(NUM(1), y.re), NEG(y.im)}, y));
}

/* Computes the gradient of tanh: grad * conj(1 - y*y) for arguments (grad, y). */
Value *
complex_tanh_backward(Aten *n)
{
    const Type *t = complex_part_type(n);
    Parts y;
    if (!t || !complex_parts_of(n, arg_at(n, 1), t, &y)) {
        return NULL;
    }
    Parts square = complex_times(n, y, y);
    return by_chain_rule(n, (Parts){SUB(NUM(1), square.re), NEG(square.im)});
}
