/* Complex sines and tangents, circular and hyperbolic, and their inverses; see
 * aten_complex_functions.c. */
#include "aten_complex.h"

#include <math.h>

static const double pi = 3.14159265358979323846, ln2 = 0.69314718055994530942;

/* -i z; and i z, which brings a function of -i z back: sin(z) is i sinh(-i z). */
static Parts
rotated(Aten *n, Parts z)
{
    return (Parts){z.im, NEG(z.re)};
}

static Parts
rotated_back(Aten *n, Parts z)
{
    return (Parts){NEG(z.im), z.re};
}

/* ---- circles and hyperbolas ---- */

/* sinh x cos y + i cosh x sin y */
static Parts
hyperbolic_sine(Aten *n, Parts z)
{
    Value *more, *x = complex_without_excess(n, z.re, &more), *open = FINITE(z.im);
    Value *sh = map1(n, OP_sinh, x), *ch = map1(n, OP_cosh, x);
    Value *far = ISINF(z.re), *settled = OR(IS_ZERO(z.re), far);
    Value *size = WHERE(far, ABS(z.re), z.re);
    Value *re = WHERE(OR(open, NOT(settled)), MUL(MUL(sh, COS(z.im)), more), size);
    return (Parts){re, WHERE(IS_ZERO(z.im), z.im, MUL(MUL(ch, SIN(z.im)), more))};
}

/* cosh x cos y + i sinh x sin y */
static Parts
hyperbolic_cosine(Aten *n, Parts z)
{
    Value *more, *x = complex_without_excess(n, z.re, &more), *open = FINITE(z.im);
    Value *sh = map1(n, OP_sinh, x), *ch = map1(n, OP_cosh, x);
    Value *far = AND(ISINF(z.re), NOT(open));
    Value *re = WHERE(far, complex_like(n, x, INFINITY), MUL(MUL(ch, COS(z.im)), more));
    Value *none = MUL(SIGN_OF(complex_like(n, x, 0), z.re), SIGN_OF(complex_like(n, x, 1), z.im));
    Value *axis = OR(AND(IS_ZERO(z.re), NOT(open)), IS_ZERO(z.im));
    return (Parts){re, WHERE(axis, none, MUL(MUL(sh, SIN(z.im)), more))};
}

/* sinh x cosh x + i sin y cos y over sinh(x)**2 + cos(y)**2; far from 0,
 * 1 + 4 i sin y cos y exp(-2 |x|). */
static Parts
hyperbolic_tangent(Aten *n, Parts z)
{
    Value *size = ABS(z.re), *beyond = GT(size, NUM(22)), *open = FINITE(z.im);
    Value *x = WHERE(beyond, complex_like(n, size, 22), z.re), *c = COS(z.im);
    Value *sh = map1(n, OP_sinh, x);
    Value *below = ADD(MUL(sh, sh), MUL(c, c)), *both = MUL(SIN(z.im), c);
    Value *re = DIV(MUL(sh, map1(n, OP_cosh, x)), below);
    Value *far = SIGN_OF(WHERE(OR(open, ISINF(z.re)), complex_like(n, x, 1), NUM(NAN)), z.re);
    Value *im = WHERE(beyond, MUL(MUL(NUM(4), both), EXP(MUL(NUM(-2), size))), DIV(both, below));
    Value *none = OR(IS_ZERO(z.im), AND(ISINF(z.re), NOT(open)));
    return (Parts){WHERE(IS_ZERO(z.re), z.re, WHERE(beyond, far, re)),
                   WHERE(none, SIGN_OF(complex_like(n, x, 0), z.im), im)};
}

Value *
complex_sinh(Aten *n)
{
    return complex_map(n, false, hyperbolic_sine);
}

Value *
complex_cosh(Aten *n)
{
    return complex_map(n, false, hyperbolic_cosine);
}

Value *
complex_tanh(Aten *n)
{
    return complex_map(n, true, hyperbolic_tangent);
}

static Parts
sine(Aten *n, Parts z)
{
    return rotated_back(n, hyperbolic_sine(n, rotated(n, z)));
}

static Parts
cosine(Aten *n, Parts z)
{
    return hyperbolic_cosine(n, rotated(n, z));
}

static Parts
tangent(Aten *n, Parts z)
{
    return rotated_back(n, hyperbolic_tangent(n, rotated(n, z)));
}

Value *
complex_sin(Aten *n)
{
    return complex_map(n, false, sine);
}

Value *
complex_cos(Aten *n)
{
    return complex_map(n, false, cosine);
}

Value *
complex_tan(Aten *n)
{
    return complex_map(n, true, tangent);
}

/* sin(pi z) / (pi z), and 1 for 0 */
static Parts
sine_over(Aten *n, Parts z)
{
    Parts t = {MUL(z.re, NUM(pi)), MUL(z.im, NUM(pi))}, made = complex_over(n, sine(n, t), t);
    Value *zero = AND(IS_ZERO(z.re), IS_ZERO(z.im));
    return (Parts){WHERE(zero, complex_like(n, z.re, 1), made.re),
                   WHERE(zero, complex_like(n, z.re, 0), made.im)};
}

Value *
complex_sinc(Aten *n)
{
    return complex_map(n, true, sine_over);
}

/* ---- their inverses ---- */

/* For x + i y with x and y not negative: the real parts of asin and acos, and the absolute value of
 * the imaginary part. */
typedef struct {
    Value *asin, *acos, *im;
} Arc;

/* Hull, Fairgrieve and Tang, "Implementing the complex arcsine and arccosine functions using
 * exception handling" (1997): r and s are the distances from -1 and 1, a their mean. */
static Arc
arc_between(Aten *n, Value *x, Value *y)
{
    Value *less = SUB(x, NUM(1)), *r = HYPOT(ADD(x, NUM(1)), y), *s = HYPOT(less, y);
    Value *a = MUL(ADD(r, s), NUM(0.5)), *b = DIV(x, a), *square = MUL(y, y);
    Value *right = ADD(ADD(r, x), NUM(1)), *above = ADD(s, less), *below = SUB(s, less);
    Value *sum = MUL(ADD(a, x), NUM(0.5)), *part = DIV(square, right);
    Value *inside = SQRT(MUL(sum, ADD(part, below)));
    Value *outside = MUL(y, SQRT(ADD(DIV(sum, right), DIV(sum, above))));
    Value *side = WHERE(LE(x, NUM(1)), inside, outside), *flat = LE(b, NUM(0.6417));
    Value *half = MUL(NUM(0.5), ADD(part, WHERE(LT(x, NUM(1)), DIV(square, below), above)));
    Value *near = LOG1P(ADD(half, SQRT(MUL(half, ADD(a, NUM(1))))));
    if (!complex_is_narrow(n)) { /* y*y may be nothing */
        Value *thin = AND(LT(x, NUM(1)), LT(y, MUL(NUM(0x1p-60), ABS(less))));
        near = WHERE(thin, DIV(y, SQRT(MUL(NEG(less), ADD(x, NUM(1))))), near);
    }
    Value *far = LOG(ADD(a, SQRT(SUB(MUL(a, a), NUM(1)))));
    return (Arc){WHERE(flat, map1(n, OP_asin, b), ATAN2(x, side)),
                 WHERE(flat, map1(n, OP_acos, b), ATAN2(side, x)),
                 WHERE(LE(a, NUM(1.5)), near, far)};
}

static Arc
arc_of(Aten *n, Value *re, Value *im)
{
    Value *x = ABS(re), *y = ABS(im), *far = OR(GT(x, NUM(0x1p60)), GT(y, NUM(0x1p60)));
    Value *zero = IS_ZERO(x);
    Arc near = arc_between(n, x, y);
    return (Arc){WHERE(zero, x, WHERE(far, ATAN2(x, y), near.asin)),
                 WHERE(zero, complex_like(n, x, 0.5 * pi), WHERE(far, ATAN2(y, x), near.acos)),
                 WHERE(far, ADD(map2(n, OP_loghypot, x, y), NUM(ln2)), near.im)};
}

static Parts
arcsine(Aten *n, Parts z)
{
    Arc arc = arc_of(n, z.re, z.im);
    return (Parts){SIGN_OF(arc.asin, z.re), SIGN_OF(arc.im, z.im)};
}

Value *
complex_asin(Aten *n)
{
    return complex_map(n, true, arcsine);
}

static Parts
hyperbolic_arcsine(Aten *n, Parts z)
{
    Arc arc = arc_of(n, z.im, z.re);
    return (Parts){SIGN_OF(arc.im, z.re), SIGN_OF(arc.asin, z.im)};
}

Value *
complex_asinh(Aten *n)
{
    return complex_map(n, true, hyperbolic_arcsine);
}

/* acos or acosh: the parts of one are those of the other, exchanged, with other signs. */
static Parts
arccosine(Aten *n, Parts z)
{
    Arc arc = arc_of(n, z.re, z.im);
    Value *angle = WHERE(map1(n, OP_signbit, z.re), SUB(NUM(pi), arc.acos), arc.acos);
    Parts acos = {angle, SIGN_OF(arc.im, NEG(z.im))}, acosh = {arc.im, SIGN_OF(angle, z.im)};
    return n->op == OP_acos ? acos : acosh;
}

Value *
complex_acos(Aten *n)
{
    return complex_map(n, true, arccosine);
}

/* log1p(4 x / ((1 - x)**2 + y**2)) / 4 and half the angle of (1 - x)(1 + x) - y**2 + 2 i y, for
 * x >= 0 */
static Parts
hyperbolic_arc(Aten *n, Parts z)
{
    Value *x = ABS(z.re), *y = ABS(z.im), *gap = SUB(NUM(1), x), *up = ADD(x, NUM(1));
    Value *square = MUL(y, y);
    Value *re = DIV(MUL(NUM(4), x), ADD(MUL(gap, gap), square));
    re = MUL(LOG1P(re), NUM(0.25));
    if (!complex_is_narrow(n)) {
        Value *h = HYPOT(MUL(x, NUM(0.5)), MUL(y, NUM(0.5))), *size = MAX(x, y);
        re = WHERE(GT(size, NUM(0x1p100)), DIV(DIV(MUL(x, NUM(0.25)), h), h), re);
        Value *pole = AND(IS_ZERO(gap), LT(y, NUM(0x1p-400)));
        re = WHERE(pole, MUL(NUM(0.5), SUB(NUM(ln2), LOG(y))), re);
    }
    Value *none = OR(IS_ZERO(x), OR(ISINF(x), ISINF(y)));
    Value *angle = MUL(ATAN2(MUL(NUM(2), y), SUB(MUL(gap, up), square)), NUM(0.5));
    angle = WHERE(ISINF(y), complex_like(n, y, 0.5 * pi), angle);
    return (Parts){SIGN_OF(WHERE(none, complex_like(n, x, 0), re), z.re), SIGN_OF(angle, z.im)};
}

Value *
complex_atanh(Aten *n)
{
    return complex_map(n, true, hyperbolic_arc);
}

static Parts
circular_arc(Aten *n, Parts z)
{
    return rotated_back(n, hyperbolic_arc(n, rotated(n, z)));
}

Value *
complex_atan(Aten *n)
{
    return complex_map(n, true, circular_arc);
}
