/* The derivatives of elementwise operations. */
#include "derive.h"

typedef struct {
    Build *b;
    Value *x, *y, *r, *g;
} Rule;

static Value *
un(const Rule *r, Op op, Value *a)
{
    return build_map(r->b, op, a, NULL, NULL);
}

static Value *
two(const Rule *r, Op op, Value *a, Value *c)
{
    return build_map(r->b, op, a, c, NULL);
}

static Value *
num(const Rule *r, double f)
{
    return build_float(r->b, f);
}

static Value *
mul(const Rule *r, Value *a, Value *c)
{
    return two(r, OP_mul, a, c);
}

/* 1 + sign*x*x */
static Value *
one_and_square(const Rule *r, Value *x, bool plus)
{
    return two(r, plus ? OP_add : OP_sub, num(r, 1), mul(r, x, x));
}

/* Returns factor * g / x, where g is the gradient. */
static Value *
over(const Rule *r, Value *x, double factor)
{
    Value *q = two(r, OP_div, r->g, x);
    return factor == 1 ? q : mul(r, q, num(r, factor));
}

/* Returns factor * g * exp(-x*x/scale), where g is the gradient. */
static Value *
bell(const Rule *r, double scale, double factor)
{
    Value *e = un(r, OP_exp, mul(r, mul(r, r->x, r->x), num(r, -1 / scale)));
    return mul(r, mul(r, r->g, e), num(r, factor));
}

#define PI 3.14159265358979323846
#define LN2 0.693147180559945309417
#define LN10 2.30258509299404568402
#define TWO_OVER_ROOT_PI 1.12837916709551257390
#define ONE_OVER_ROOT_TWO_PI 0.398942280401432677940

static Value *
zero_of(const Rule *r, const Value *v)
{
    return derive_zero(r->b, v->type);
}

static Value *
choose(const Rule *r, Value *c, Value *a, Value *b)
{
    return build_map(r->b, OP_where, c, a, b);
}

/* Of z + TERMS: digamma by its asymptotic series, whose terms are smaller than a rounding there. */
static Value *
digamma_far(const Rule *r, Value *z)
{
    static const double bernoulli[] = {1 / 12.,  691 / 32760., 1 / 132., 1 / 240.,
                                       1 / 252., 1 / 120.,     1 / 12.};
    Value *inverse = un(r, OP_reciprocal, z), *w = mul(r, inverse, inverse);
    Value *sum = mul(r, w, num(r, bernoulli[0]));
    for (size_t k = 1; k < sizeof bernoulli / sizeof *bernoulli; k++) {
        sum = mul(r, w, two(r, OP_sub, num(r, bernoulli[k]), sum));
    }
    sum = two(r, OP_add, sum, mul(r, inverse, num(r, 0.5)));
    return two(r, OP_sub, un(r, OP_log, z), sum);
}

/* The derivative of lgamma: digamma(z) is digamma(z + 1) - 1/z, and below a half it is reflected.
 * What the other case is given has no pole, as its derivatives are multiplied by 0 there. */
static Value *
digamma(const Rule *r)
{
    enum { TERMS = 10 };
    Value *x = r->x, *low = two(r, OP_lt, x, num(r, 0.5));
    Value *z = choose(r, low, two(r, OP_sub, num(r, 1), x), x);
    Value *near = choose(r, low, two(r, OP_sub, x, un(r, OP_round, x)), num(r, 0.25));
    Value *cot = un(r, OP_reciprocal, un(r, OP_tan, mul(r, near, num(r, PI))));
    Value *sum = digamma_far(r, two(r, OP_add, z, num(r, TERMS)));
    for (int k = TERMS - 1; k >= 0; k--) {
        sum = two(r, OP_sub, sum, un(r, OP_reciprocal, two(r, OP_add, z, num(r, k))));
    }
    return choose(r, low, two(r, OP_sub, sum, mul(r, cot, num(r, PI))), sum);
}

/* Of one operand; false: there is none in the table. */
static bool
derive_one(const Rule *r, Op op, Value **out)
{
    Value *x = r->x, *y = r->r, *g = r->g;
    switch (op) {
    case OP_neg:
        *out = un(r, OP_neg, g);
        break;
    case OP_abs:
        *out = mul(r, g, un(r, OP_sign, x));
        break;
    case OP_sqrt:
        *out = over(r, y, 0.5);
        break;
    case OP_rsqrt:
        *out = mul(r, mul(r, g, num(r, -0.5)), mul(r, y, mul(r, y, y)));
        break;
    case OP_reciprocal:
        *out = un(r, OP_neg, mul(r, g, mul(r, y, y)));
        break;
    case OP_exp:
        *out = mul(r, g, y);
        break;
    case OP_exp2:
        *out = mul(r, mul(r, g, y), num(r, LN2));
        break;
    case OP_expm1:
        *out = mul(r, g, two(r, OP_add, y, num(r, 1)));
        break;
    case OP_log:
        *out = over(r, x, 1);
        break;
    case OP_log2:
        *out = over(r, x, 1 / LN2);
        break;
    case OP_log10:
        *out = over(r, x, 1 / LN10);
        break;
    case OP_log1p:
        *out = over(r, two(r, OP_add, x, num(r, 1)), 1);
        break;
    case OP_sin:
        *out = mul(r, g, un(r, OP_cos, x));
        break;
    case OP_cos:
        *out = un(r, OP_neg, mul(r, g, un(r, OP_sin, x)));
        break;
    case OP_tan:
        *out = mul(r, g, one_and_square(r, y, true));
        break;
    case OP_asin:
        *out = over(r, un(r, OP_sqrt, one_and_square(r, x, false)), 1);
        break;
    case OP_acos:
        *out = over(r, un(r, OP_sqrt, one_and_square(r, x, false)), -1);
        break;
    case OP_atan:
        *out = over(r, one_and_square(r, x, true), 1);
        break;
    case OP_sinh:
        *out = mul(r, g, un(r, OP_cosh, x));
        break;
    case OP_cosh:
        *out = mul(r, g, un(r, OP_sinh, x));
        break;
    case OP_tanh:
        *out = mul(r, g, one_and_square(r, y, false));
        break;
    case OP_asinh:
        *out = over(r, un(r, OP_sqrt, one_and_square(r, x, true)), 1);
        break;
    case OP_acosh:
        *out = over(r, un(r, OP_sqrt, two(r, OP_sub, mul(r, x, x), num(r, 1))), 1);
        break;
    case OP_atanh:
        *out = over(r, one_and_square(r, x, false), 1);
        break;
    case OP_erf:
        *out = bell(r, 1, TWO_OVER_ROOT_PI);
        break;
    case OP_erfc:
        *out = bell(r, 1, -TWO_OVER_ROOT_PI);
        break;
    case OP_phi:
        *out = bell(r, 2, ONE_OVER_ROOT_TWO_PI);
        break;
    case OP_sigmoid:
        *out = mul(r, g, mul(r, y, two(r, OP_sub, num(r, 1), y)));
        break;
    case OP_cast:
        *out = g;
        break;
    case OP_erfinv:
        *out = mul(r, mul(r, g, un(r, OP_exp, mul(r, y, y))), num(r, 1 / TWO_OVER_ROOT_PI));
        break;
    case OP_lgamma:
        *out = mul(r, g, digamma(r));
        break;
    case OP_real: /* a gradient by a complex number is that by its two parts */
        *out = two(r, OP_complex, g, zero_of(r, g));
        break;
    case OP_imag:
        *out = two(r, OP_complex, zero_of(r, g), g);
        break;
    case OP_floor:
    case OP_ceil:
    case OP_trunc:
    case OP_round:
    case OP_sign:
        break; /* none, wherever there is one */
    default:
        return false;
    }
    return true;
}

/* The larger or smaller operand has it, and both a half where they are equal.  Where one is NaN
 * both have it whole, as with torch's maximum. */
static void
derive_extreme(const Rule *r, bool least, Value **out)
{
    Value *half = mul(r, r->g, num(r, 0.5)), *zero = num(r, 0), *same = two(r, OP_eq, r->x, r->y);
    Value *second = two(r, least ? OP_gt : OP_lt, r->x, r->y),
          *first = two(r, least ? OP_lt : OP_gt, r->x, r->y);
    out[0] = choose(r, same, half, choose(r, second, zero, r->g));
    out[1] = choose(r, same, half, choose(r, first, zero, r->g));
}

/* Of fmax and fmin the first operand has it where they are equal, and no NaN where the other is
 * none, as with torch's. */
static void
derive_extreme_number(const Rule *r, bool least, Value **out)
{
    Value *first = two(r, least ? OP_le : OP_ge, r->x, r->y), *zero = num(r, 0);
    first = two(r, OP_bit_or, first, two(r, OP_ne, r->y, r->y));
    out[0] = choose(r, first, r->g, zero);
    out[1] = choose(r, first, zero, r->g);
}

/* A base of 0 has no logarithm and needs none for powers from 0 on, and a power of 0 needs no
 * quotient.  There another base is put in place before, not the result behind, so that derivatives
 * of this are right as well. */
static void
derive_power(const Rule *r, Value **out)
{
    Value *x = r->x, *y = r->y, *one = num(r, 1), *zero = num(r, 0);
    Value *wide = two(r, OP_gt, un(r, OP_abs, x), zero), *base = choose(r, wide, x, one);
    base = choose(r, two(r, OP_eq, y, zero), base, x);
    out[0] = mul(r, r->g, mul(r, y, two(r, OP_pow, base, two(r, OP_sub, y, one))));
    base = choose(r, two(r, OP_bit_and, two(r, OP_eq, x, zero), two(r, OP_ge, y, zero)), one, x);
    out[1] = mul(r, r->g, mul(r, r->r, un(r, OP_log, base)));
}

static bool
derive_two(const Rule *r, Op op, Value **out)
{
    Value *x = r->x, *y = r->y, *g = r->g, *s;
    switch (op) {
    case OP_add:
        out[0] = out[1] = g;
        break;
    case OP_sub:
        out[0] = g;
        out[1] = un(r, OP_neg, g);
        break;
    case OP_mul:
        out[0] = mul(r, g, y);
        out[1] = mul(r, g, x);
        break;
    case OP_div:
        out[0] = two(r, OP_div, g, y);
        out[1] = un(r, OP_neg, mul(r, out[0], r->r));
        break;
    case OP_remainder:
    case OP_fmod:
        out[0] = g;
        s = two(r, op == OP_fmod ? OP_div_trunc : OP_div_floor, x, y);
        out[1] = un(r, OP_neg, mul(r, g, s));
        break;
    case OP_maximum:
    case OP_minimum:
        derive_extreme(r, op == OP_minimum, out);
        break;
    case OP_fmax:
    case OP_fmin:
        derive_extreme_number(r, op == OP_fmin, out);
        break;
    case OP_atan2: /* 0 where both are 0 */
        s = two(r, OP_add, mul(r, x, x), mul(r, y, y));
        s = two(r, OP_div, g, choose(r, two(r, OP_eq, s, num(r, 0)), num(r, 1), s));
        out[0] = mul(r, s, y);
        out[1] = un(r, OP_neg, mul(r, s, x));
        break;
    case OP_hypot:
        s = two(r, OP_div, g, r->r);
        out[0] = mul(r, s, x);
        out[1] = mul(r, s, y);
        break;
    case OP_loghypot:
        s = two(r, OP_add, mul(r, x, x), mul(r, y, y));
        s = two(r, OP_div, g, s);
        out[0] = mul(r, s, x);
        out[1] = mul(r, s, y);
        break;
    case OP_complex:
        out[0] = un(r, OP_real, g);
        out[1] = un(r, OP_imag, g);
        break;
    case OP_logaddexp:
        out[0] = mul(r, g, un(r, OP_sigmoid, two(r, OP_sub, x, y)));
        out[1] = mul(r, g, un(r, OP_sigmoid, two(r, OP_sub, y, x)));
        break;
    case OP_pow:
        derive_power(r, out);
        break;
    case OP_copysign:
        out[0] = mul(r, g, mul(r, un(r, OP_sign, x), un(r, OP_sign, r->r)));
        break;
    case OP_div_floor:
    case OP_div_trunc:
        break;
    default:
        return false;
    }
    return true;
}

void
derive_map(Build *b, const Let *let, Value *g, Value **out)
{
    const Type *t = let->res[0]->type, *of = t;
    Rule r = {.b = b, .r = let->res[0], .g = g};
    Value *args[3] = {NULL, NULL, NULL};
    /* constants as tensors: two of them are no operands of an op */
    if (let->op == OP_complex) {
        of = type_with(build_cx(b), t, dtype_part(t->dtype));
    }
    for (int k = 0; k < let->nargs; k++) {
        const Value *a = let->args[k];
        args[k] = let->args[k];
        if (value_is_const(a) && op_info[let->op].rule != RULE_SEL) {
            args[k] = build_const(b, of, a->literal);
        }
    }
    r.x = args[0];
    r.y = let->nargs > 1 ? args[1] : NULL;
    if (let->op == OP_where) {
        Value *zero = derive_zero(b, t);
        out[1] = build_map(b, OP_where, args[0], g, zero);
        out[2] = build_map(b, OP_where, args[0], zero, g);
        return;
    }
    if (let->op == OP_fma) {
        out[0] = mul(&r, g, args[1]);
        out[1] = mul(&r, g, args[0]);
        out[2] = g;
        return;
    }
    if (let->nargs == 1 ? derive_one(&r, let->op, out) : derive_two(&r, let->op, out)) {
        return;
    }
    derive_none(b, let->op);
}
