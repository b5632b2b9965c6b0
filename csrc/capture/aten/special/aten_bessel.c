/* Bessel functions and their like: series and quotients of polynomials for each part of the line,
 * and a selection for each element.
 *
 * The formulas are those of the Cephes Mathematical Library, in the dtype of the result (f32 for
 * f16 and bf16) as eager computes them, so that errors, infinities and NaN are eager's. */
#include "capture/aten/aten_formula.h"
#include "aten_cephes.h"

#include <math.h>

static const double pi = 3.14159265358979323846;
static const double two_over_pi = 0.63661977236758134308;
static const double sqrt_two_over_pi = 0.79788456080286535588;
static const double sqrt_two_pi = 2.50662827463100050242;
static const double one_over_sqrt_pi = 0.56418958354775628695;

/* The only argument as a tensor; NULL: it is none. */
static Value *
argument(Aten *n)
{
    Value *x = wide_operand(n, 0);
    return x && !value_is_const(x) ? x : NULL;
}

/* The same; also NULL for f16 and bf16, for which eager has no such function. */
static Value *
argument_not_half(Aten *n)
{
    return is_half(n->type->dtype) ? NULL : argument(n);
}

/* Evaluates a Chebyshev series in x/2 by Clenshaw's recurrence. */
static Value *
chebyshev(Aten *n, Value *x, const double *c, int count)
{
    Value *last = NUM(0), *before = NUM(0), *sum = NUM(c[0]);
    for (int k = 1; k < count; k++) {
        before = last;
        last = sum;
        sum = ADD(SUB(MUL(x, last), before), NUM(c[k]));
    }
    return MUL(NUM(0.5), SUB(sum, before));
}

/* value for x > 0, `at_zero` at 0, NaN below: for functions that are defined on the right half of
 * the line. */
static Value *
of_positive(Aten *n, Value *x, Value *value, double at_zero)
{
    value = WHERE(EQ(x, NUM(0)), NUM(at_zero), value);
    return WHERE(LT(x, NUM(0)), NUM(NAN), value);
}

/* ---- modified: I0, I1, K0, K1 ---- */

/* exp(-x) I0(x) for x >= 0 */
static Value *
scaled_i0(Aten *n, Value *x)
{
    Value *near = chebyshev(n, SUB(DIV(x, NUM(2)), NUM(2)), TABLE(i0_near));
    Value *far = DIV(chebyshev(n, SUB(DIV(NUM(32), x), NUM(2)), TABLE(i0_far)), SQRT(x));
    return WHERE(LE(x, NUM(8)), near, far);
}

/* exp(-|x|) I1(x), size being |x| */
static Value *
scaled_i1(Aten *n, Value *x, Value *size)
{
    Value *near = MUL(chebyshev(n, SUB(DIV(size, NUM(2)), NUM(2)), TABLE(i1_near)), size);
    Value *far = DIV(chebyshev(n, SUB(DIV(NUM(32), size), NUM(2)), TABLE(i1_far)), SQRT(size));
    Value *r = WHERE(LE(size, NUM(8)), near, far);
    return WHERE(LT(x, NUM(0)), NEG(r), r);
}

Value *
aten_i0(Aten *n)
{
    Value *x = argument(n), *size = x ? ABS(x) : NULL;
    return x ? MUL(EXP(size), scaled_i0(n, size)) : NULL;
}

Value *
aten_i0e(Aten *n)
{
    Value *x = argument(n);
    return x ? scaled_i0(n, ABS(x)) : NULL;
}

Value *
aten_i1(Aten *n)
{
    Value *x = argument(n), *size = x ? ABS(x) : NULL;
    return x ? MUL(EXP(size), scaled_i1(n, x, size)) : NULL;
}

Value *
aten_i1e(Aten *n)
{
    Value *x = argument(n);
    return x ? scaled_i1(n, x, ABS(x)) : NULL;
}

Value *
aten_modified_i0(Aten *n)
{
    return is_half(n->type->dtype) ? NULL : aten_i0(n);
}

Value *
aten_modified_i1(Aten *n)
{
    return is_half(n->type->dtype) ? NULL : aten_i1(n);
}

/* K0(x), or exp(x) K0(x) */
static Value *
k0(Aten *n, bool scaled)
{
    Value *x = argument_not_half(n);
    if (!x) {
        return NULL;
    }
    Value *i0 = MUL(EXP(x), scaled_i0(n, x));
    Value *near = chebyshev(n, SUB(MUL(x, x), NUM(2)), TABLE(k0_near));
    near = SUB(near, MUL(LOG(MUL(x, NUM(0.5))), i0));
    Value *far = DIV(chebyshev(n, SUB(DIV(NUM(8), x), NUM(2)), TABLE(k0_far)), SQRT(x));
    near = scaled ? MUL(near, EXP(x)) : near;
    far = scaled ? far : MUL(EXP(NEG(x)), far);
    return of_positive(n, x, WHERE(LE(x, NUM(2)), near, far), INFINITY);
}

static Value *
k1(Aten *n, bool scaled)
{
    Value *x = argument_not_half(n);
    if (!x) {
        return NULL;
    }
    Value *i1 = MUL(EXP(x), scaled_i1(n, x, x));
    Value *near = DIV(chebyshev(n, SUB(MUL(x, x), NUM(2)), TABLE(k1_near)), x);
    near = ADD(MUL(LOG(MUL(x, NUM(0.5))), i1), near);
    Value *far = DIV(chebyshev(n, SUB(DIV(NUM(8), x), NUM(2)), TABLE(k1_far)), SQRT(x));
    near = scaled ? MUL(near, EXP(x)) : near;
    far = scaled ? far : MUL(EXP(NEG(x)), far);
    return of_positive(n, x, WHERE(LE(x, NUM(2)), near, far), INFINITY);
}

Value *
aten_k0(Aten *n)
{
    return k0(n, false);
}

Value *
aten_scaled_k0(Aten *n)
{
    return k0(n, true);
}

Value *
aten_k1(Aten *n)
{
    return k1(n, false);
}

Value *
aten_scaled_k1(Aten *n)
{
    return k1(n, true);
}

/* ---- J0, J1, Y0, Y1 ---- */

/* The parts of J and Y of one order for large arguments: amplitudes of the cosine and the sine of
 * an angle. */
typedef struct {
    Value *p, *q, *angle, *by;
} Wave;

static Wave
far_wave(Aten *n, Value *x, bool first)
{
    Value *five = DIV(NUM(5), x), *z = first ? MUL(five, five) : DIV(NUM(25), MUL(x, x));
    Wave w = {.angle = SUB(x, NUM(first ? 0.75 * pi : 0.25 * pi)), .by = SQRT(x)};
    if (first) {
        w.p = DIV(polynomial(n, z, TABLE(j1_pp)), polynomial(n, z, TABLE(j1_pq)));
        w.q = MUL(five, DIV(polynomial(n, z, TABLE(j1_qp)), polynomial(n, z, TABLE(j1_qq))));
    } else {
        w.p = DIV(polynomial(n, z, TABLE(j0_pp)), polynomial(n, z, TABLE(j0_pq)));
        w.q = MUL(five, DIV(polynomial(n, z, TABLE(j0_qp)), polynomial(n, z, TABLE(j0_qq))));
    }
    return w;
}

static Value *
far_j(Aten *n, Value *x, bool first)
{
    Wave w = far_wave(n, x, first);
    Value *v = SUB(MUL(w.p, COS(w.angle)), MUL(w.q, SIN(w.angle)));
    return DIV(MUL(v, NUM(sqrt_two_over_pi)), w.by);
}

static Value *
far_y(Aten *n, Value *x, bool first)
{
    Wave w = far_wave(n, x, first);
    Value *v = ADD(MUL(w.p, SIN(w.angle)), MUL(w.q, COS(w.angle)));
    return DIV(MUL(v, NUM(sqrt_two_over_pi)), w.by);
}

/* J0 for 0 <= x <= 5 */
static Value *
near_j0(Aten *n, Value *x)
{
    Value *z = MUL(x, x);
    Value *zeros = MUL(SUB(z, NUM(5.78318596294678452118)), SUB(z, NUM(30.4712623436620863991)));
    Value *r = DIV(MUL(zeros, polynomial(n, z, TABLE(j0_rp))), polynomial(n, z, TABLE(j0_rq)));
    return WHERE(LT(x, NUM(0.00001)), SUB(NUM(1), DIV(z, NUM(4))), r);
}

static Value *
near_j1(Aten *n, Value *x)
{
    Value *z = MUL(x, x), *r = DIV(polynomial(n, z, TABLE(j1_rp)), polynomial(n, z, TABLE(j1_rq)));
    r = MUL(MUL(r, x), SUB(z, NUM(14.6819706421238932572)));
    return MUL(r, SUB(z, NUM(49.2184563216946036703)));
}

Value *
aten_bessel_j0(Aten *n)
{
    Value *x = argument_not_half(n), *size = x ? ABS(x) : NULL;
    return x ? WHERE(LE(size, NUM(5)), near_j0(n, size), far_j(n, size, false)) : NULL;
}

Value *
aten_bessel_j1(Aten *n)
{
    Value *x = argument_not_half(n), *size = x ? ABS(x) : NULL;
    if (!x) {
        return NULL;
    }
    Value *r = WHERE(LE(size, NUM(5)), near_j1(n, size), far_j(n, size, true));
    return WHERE(LT(x, NUM(0)), NEG(r), r);
}

Value *
aten_bessel_y0(Aten *n)
{
    Value *x = argument_not_half(n);
    if (!x) {
        return NULL;
    }
    Value *z = MUL(x, x),
          *near = DIV(polynomial(n, z, TABLE(y0_yp)), polynomial(n, z, TABLE(y0_yq)));
    near = ADD(near, MUL(MUL(NUM(two_over_pi), LOG(x)), near_j0(n, x)));
    return of_positive(n, x, WHERE(LE(x, NUM(5)), near, far_y(n, x, false)), -INFINITY);
}

Value *
aten_bessel_y1(Aten *n)
{
    Value *x = argument_not_half(n);
    if (!x) {
        return NULL;
    }
    Value *z = MUL(x, x),
          *near = DIV(polynomial(n, z, TABLE(y1_yp)), polynomial(n, z, TABLE(y1_yq)));
    Value *rest = SUB(MUL(near_j1(n, x), LOG(x)), DIV(NUM(1), x));
    near = ADD(MUL(x, near), MUL(NUM(two_over_pi), rest));
    return of_positive(n, x, WHERE(LE(x, NUM(5)), near, far_y(n, x, true)), -INFINITY);
}

/* sin(x) / x, by its series near 0 */
Value *
aten_spherical_j0(Aten *n)
{
    static const double series[] = {
        1 / 6227020800.0, -1 / 39916800.0, 1 / 362880.0, -1 / 5040.0, 1 / 120.0, -1 / 6.0, 1,
    };
    Value *x = argument_not_half(n);
    if (!x) {
        return NULL;
    }
    Value *near = polynomial(n, MUL(x, x), TABLE(series)), *far = DIV(SIN(x), x);
    far = WHERE(map1(n, OP_isinf, x), NUM(0), far);
    return WHERE(LT(ABS(x), NUM(0.5)), near, far);
}

/* ---- Ai ---- */

/* Computes Ai below -2.09, where it oscillates, by a sine and a cosine. */
static Value *
airy_wave(Aten *n, Value *x)
{
    Value *root = SQRT(NEG(x)), *zeta = DIV(MUL(MUL(NUM(-2), x), root), NUM(3));
    Value *z = DIV(NUM(1), zeta), *zz = MUL(z, z), *angle = ADD(zeta, NUM(0.25 * pi));
    Value *f = DIV(polynomial(n, zz, TABLE(ai_afn)), polynomial(n, zz, TABLE(ai_afd)));
    Value *g = DIV(polynomial(n, zz, TABLE(ai_agn)), polynomial(n, zz, TABLE(ai_agd)));
    Value *v = SUB(MUL(SIN(angle), ADD(NUM(1), MUL(zz, f))), MUL(COS(angle), MUL(z, g)));
    return MUL(DIV(NUM(one_over_sqrt_pi), SQRT(root)), v);
}

/* Computes Ai from 2.09 on, where it decays, by an exponential. */
static Value *
airy_tail(Aten *n, Value *x)
{
    Value *root = SQRT(x), *zeta = DIV(MUL(MUL(NUM(2), x), root), NUM(3)), *z = DIV(NUM(1), zeta);
    Value *v = DIV(polynomial(n, z, TABLE(ai_an)), polynomial(n, z, TABLE(ai_ad)));
    return DIV(MUL(NUM(one_over_sqrt_pi), v), MUL(MUL(NUM(2), SQRT(root)), EXP(zeta)));
}

/* Between both regions: the two series in x^3, with as many terms as f64 has bits for. */
static Value *
airy_series(Aten *n, Value *x)
{
    Value *z = MUL(MUL(x, x), x), *f = NUM(1), *g = x, *df = NUM(1), *dg = x;
    for (int k = 1; k < 40; k += 3) {
        df = DIV(MUL(df, z), NUM((double)(k + 1) * (k + 2)));
        dg = DIV(MUL(dg, z), NUM((double)(k + 2) * (k + 3)));
        f = ADD(f, df);
        g = ADD(g, dg);
    }
    return SUB(MUL(NUM(0.355028053887817239260), f), MUL(NUM(0.258819403792806798405), g));
}

Value *
aten_airy_ai(Aten *n)
{
    Value *x = argument_not_half(n);
    if (!x) {
        return NULL;
    }
    Value *right = WHERE(LT(x, NUM(2.09)), airy_series(n, x), airy_tail(n, x));
    right = WHERE(GT(x, NUM(103.892)), NUM(0), right);
    Value *r = WHERE(LT(x, NUM(-2.09)), airy_wave(n, x), right);
    return WHERE(map1(n, OP_isinf, x), NUM(NAN), r);
}

/* ---- the quantile of the normal distribution ---- */

/* In the tails, by z = sqrt(-2 log y); negative. */
static Value *
ndtri_tail(Aten *n, Value *y)
{
    Value *x = SQRT(MUL(NUM(-2), LOG(y))), *z = DIV(NUM(1), x);
    Value *near = DIV(polynomial(n, z, TABLE(ndtri_p1)), polynomial(n, z, TABLE(ndtri_q1)));
    Value *far = DIV(polynomial(n, z, TABLE(ndtri_p2)), polynomial(n, z, TABLE(ndtri_q2)));
    Value *rest = MUL(z, WHERE(LT(x, NUM(8)), near, far));
    return SUB(rest, SUB(x, DIV(LOG(x), x)));
}

Value *
aten_ndtri(Aten *n)
{
    static const double tail = 0.13533528323661269189; /* exp(-2) */
    Value *p = argument_not_half(n);
    if (!p) {
        return NULL;
    }
    Value *upper = GT(p, NUM(1 - tail)), *y = WHERE(upper, SUB(NUM(1), p), p);
    Value *c = SUB(y, NUM(0.5)), *cc = MUL(c, c);
    Value *quotient = DIV(MUL(cc, polynomial(n, cc, TABLE(ndtri_p0))),
                          polynomial(n, cc, TABLE(ndtri_q0)));
    Value *middle = MUL(ADD(c, MUL(c, quotient)), NUM(sqrt_two_pi)), *end = ndtri_tail(n, y);
    Value *r = WHERE(GT(y, NUM(tail)), middle, WHERE(upper, NEG(end), end));
    r = WHERE(EQ(p, NUM(0)), NUM(-INFINITY), r);
    return WHERE(EQ(p, NUM(1)), NUM(INFINITY), r);
}
