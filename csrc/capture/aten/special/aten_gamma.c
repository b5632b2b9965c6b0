/* The derivatives of the logarithm of gamma, and the error function scaled.
 *
 * All but trigamma is computed in f64 and rounded once, so a result in f32 or less is nearer than
 * eager's. Trigamma has eager's formula in eager's dtype: that shows in the large numbers that
 * stand for its poles. Eager sums the higher derivatives from the left for each element until it is
 * on the right of the poles; here they are reflected there, which takes the same steps for all. */
#include "capture/aten/aten_formula.h"

#include <math.h>

enum { MAX_ORDER = 12, STEPS = 9, TERMS = 12 };

static const double pi = 3.14159265358979323846;

/* Argument k in f64, rounded to the dtype that eager has it in; NULL: it is no tensor. */
static Value *
deep_operand(Aten *n, int k)
{
    Value *x = wide_operand(n, k);
    return x && !value_is_const(x) ? build_cast(n->b, x, DT_f64) : NULL;
}

/* ---- digamma, trigamma ---- */

/* digamma: its asymptotic series from 10 on, reached by steps to the right; the left side is
 * reflected. */
static Value *
digamma(Aten *n, Value *x)
{
    static const double series[] = {1 / 12.0,  -691 / 32760.0, 1 / 132.0, -1 / 240.0,
                                    1 / 252.0, -1 / 120.0,     1 / 12.0};
    Value *left = LT(x, NUM(0)), *y = WHERE(left, SUB(NUM(1), x), x), *r = NULL;
    for (int k = 0; k < 10; k++) {
        Value *low = LT(y, NUM(10)), *next = NEG(DIV(NUM(1), y));
        r = r ? WHERE(low, ADD(r, next), r) : WHERE(low, next, NUM(0));
        y = WHERE(low, ADD(y, NUM(1)), y);
    }
    Value *z = DIV(NUM(1), MUL(y, y));
    r = SUB(SUB(ADD(r, LOG(y)), DIV(NUM(0.5), y)), MUL(z, polynomial(n, z, TABLE(series))));
    Value *part = SUB(x, TRUNC(x));
    Value *cot = DIV(NUM(pi), TAN(MUL(NUM(pi), part)));
    r = WHERE(left, WHERE(EQ(part, NUM(0)), NUM(NAN), SUB(r, cot)), r);
    return WHERE(EQ(x, NUM(0)), DIV(NUM(-1), x), r);
}

Value *
aten_digamma(Aten *n)
{
    Value *x = deep_operand(n, 0);
    return x ? digamma(n, x) : NULL;
}

static Value *
trigamma(Aten *n, Value *x)
{
    static const double series[] = {1 / 42.0, -1 / 30.0, 1 / 6.0};
    Value *left = LT(x, NUM(0.5)), *s = SIN(MUL(NUM(pi), x));
    Value *y = WHERE(left, SUB(NUM(1), x), x);
    Value *r = WHERE(left, DIV(NUM(-pi * pi), MUL(s, s)), NUM(0));
    for (int k = 0; k < 6; k++) {
        r = ADD(r, DIV(NUM(1), MUL(y, y)));
        y = ADD(y, NUM(1));
    }
    Value *z = DIV(NUM(1), MUL(y, y));
    Value *tail = ADD(ADD(NUM(1), DIV(NUM(1), MUL(NUM(2), y))),
                      MUL(z, polynomial(n, z, TABLE(series))));
    r = ADD(r, DIV(tail, y));
    return WHERE(left, NEG(r), r);
}

/* ---- higher derivatives ---- */

static Value *
to_power(Aten *n, Value *x, int power)
{
    Value *half = power > 1 ? to_power(n, x, power / 2) : NULL;
    Value *even = half ? MUL(half, half) : NULL;
    return !even ? x : power % 2 ? MUL(even, x) : even;
}

/* The sum of (x + k)^-power over k = 0, 1, ..  (Hurwitz's zeta), for x > 0: some terms, and the
 * rest by Euler and Maclaurin. */
static Value *
zeta(Aten *n, int power, Value *x)
{
    /* The divisors of the Euler-Maclaurin series: (2k)! over the Bernoulli number B(2k). */
    static const double divisors[TERMS] = {
        12,
        -720,
        30240,
        -1209600,
        47900160,
        -1307674368000.0 / 691,
        74724249600,
        -10670622842880000.0 / 3617,
        5109094217170944000.0 / 43867,
        -802857662698291200000.0 / 174611,
        1.5511210043330985984e23 / 854513,
        -1.6938241367317436694528e27 / 236364091,
    };
    double c[TERMS], rising = power;
    for (int k = 0; k < TERMS; k++) {
        c[TERMS - 1 - k] = rising / divisors[k];
        rising *= (power + 2.0 * k + 1) * (power + 2.0 * k + 2);
    }
    Value *sum = NULL, *last = NULL, *w = x;
    for (int k = 0; k <= STEPS; k++) {
        w = k ? ADD(w, NUM(1)) : w;
        last = DIV(NUM(1), to_power(n, w, power));
        sum = sum ? ADD(sum, last) : last;
    }
    Value *z = DIV(NUM(1), w), *rest = MUL(z, polynomial(n, MUL(z, z), TABLE(c)));
    rest = ADD(SUB(DIV(w, NUM(power - 1)), NUM(0.5)), rest);
    return ADD(sum, MUL(last, rest));
}

/* The derivative of pi cot(pi x) of an order: a polynomial in the cotangent, by cot' = -(1 +
 * cot^2). */
static Value *
derivative_of_cot(Aten *n, int order, Value *x)
{
    double c[MAX_ORDER + 2] = {0, pi}, falling[MAX_ORDER + 2];
    for (int k = 0; k < order; k++) {
        double next[MAX_ORDER + 2] = {0};
        for (int j = 1; j <= k + 1; j++) {
            next[j - 1] -= pi * j * c[j];
            next[j + 1] -= pi * j * c[j];
        }
        for (int j = 0; j < order + 2; j++) {
            c[j] = next[j];
        }
    }
    for (int j = 0; j < order + 2; j++) {
        falling[j] = c[order + 1 - j];
    }
    Value *part = SUB(x, TRUNC(x));
    Value *cot = DIV(NUM(1), TAN(MUL(NUM(pi), part)));
    return polynomial(n, cot, falling, order + 2);
}

/* polygamma(order, x) */
Value *
aten_polygamma(Aten *n)
{
    const Arg *order = arg_at(n, 0);
    Value *x = order->kind == ARG_INT && order->i >= 0 && order->i <= MAX_ORDER ? deep_operand(n, 1)
                                                                                : NULL;
    if (!x || order->i < 2) {
        return !x ? NULL : order->i ? trigamma(n, wide_operand(n, 1)) : digamma(n, x);
    }
    int k = (int)order->i;
    double sign = k % 2 ? 1 : -1;
    Value *left = LT(x, NUM(0)), *y = WHERE(left, SUB(NUM(1), x), x);
    Value *right = MUL(NUM(sign * tgamma(k + 1.0)), zeta(n, k + 1, y));
    Value *reflected = SUB(MUL(NUM(-sign), right), derivative_of_cot(n, k, x));
    Value *pole = AND(LE(x, NUM(0)), EQ(x, map1(n, OP_floor, x)));
    return WHERE(pole, NUM(sign * INFINITY), WHERE(left, reflected, right));
}

/* ---- exp(x^2) erfc(x) ---- */

/* The square is taken in two parts, so that its exponential has all its bits; from 10 on it is a
 * continued fraction. */
static Value *
erfcx(Aten *n, Value *x)
{
    Value *wide = MUL(x, NUM(0x1p27 + 1)), *top = SUB(wide, SUB(wide, x));
    Value *square = MUL(EXP(MUL(top, top)), EXP(MUL(SUB(x, top), ADD(x, top))));
    Value *near = MUL(square, ERFC(x)), *below = x;
    for (int k = 12; k > 0; k--) {
        below = ADD(x, DIV(NUM(0.5 * k), below));
    }
    Value *far = DIV(NUM(0.56418958354775628695), below);
    Value *r = WHERE(GT(x, NUM(10)), far, near);
    return WHERE(LT(x, NUM(-26.7)), NUM(INFINITY), r);
}

Value *
aten_erfcx(Aten *n)
{
    Value *x = is_half(n->type->dtype) ? NULL : deep_operand(n, 0); /* eager has none of halves */
    return x ? erfcx(n, x) : NULL;
}

/* The logarithm of the normal distribution. */
Value *
aten_log_ndtr(Aten *n)
{
    Value *x = is_half(n->type->dtype) ? NULL : deep_operand(n, 0); /* eager has none of halves */
    if (!x) {
        return NULL;
    }
    Value *t = MUL(x, NUM(0.70710678118654752440));
    Value *tail = SUB(LOG(MUL(erfcx(n, NEG(t)), NUM(0.5))), MUL(t, t));
    Value *rest = LOG1P(MUL(ERFC(t), NUM(-0.5)));
    return WHERE(LT(x, NUM(-1)), tail, rest);
}
