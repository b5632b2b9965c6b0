/* Float64 functions; see prelude.h.  Pairs of doubles (hi, lo) stand for the unevaluated sum. */

DLC_TABLE double dlc_inf = __builtin_inf(), dlc_nan = __builtin_nan("");

/* ---- exact sums and products ---- */

typedef struct dlc_pair { double hi, lo; } dlc_pair;

/* a + b exactly. */
DLC_FN dlc_pair
dlc_two_sum(double a, double b)
{
    double s = a + b, t = s - a;

    return (dlc_pair){s, (a - (s - t)) + (b - t)};
}

/* a + b exactly when a is 0 or |a| >= |b|. */
DLC_FN dlc_pair
dlc_quick_sum(double a, double b)
{
    double s = a + b;

    return (dlc_pair){s, b - (s - a)};
}

/* a * b exactly, away from overflow and underflow. */
DLC_FN dlc_pair
dlc_two_product(double a, double b)
{
    double p = a * b;

    if (DLC_HAS_FMA) {
        return (dlc_pair){p, __builtin_fma(a, b, -p)};
    }
    double ah = dlc_from_bits_f64((dlc_bits_f64(a) + 0x4000000) & 0xfffffffff8000000u), al = a - ah;
    double bh = dlc_from_bits_f64((dlc_bits_f64(b) + 0x4000000) & 0xfffffffff8000000u), bl = b - bh;

    return (dlc_pair){p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}

/* a - b * c, the product not rounded. */
DLC_FN double
dlc_less_product(double a, double b, double c)
{
    if (DLC_HAS_FMA) {
        return __builtin_fma(-b, c, a);
    }
    dlc_pair p = dlc_two_product(b, c);

    return (a - p.hi) - p.lo;
}

/* num / den; hi and lo of the quotient may overlap, hi being off by two units. */
DLC_FN dlc_pair
dlc_divide_pair(dlc_pair num, dlc_pair den)
{
    double inverse = 1 / den.hi, q = num.hi * inverse;
    double left = dlc_less_product(num.hi, q, den.hi) + (num.lo - q * den.lo);

    return (dlc_pair){q, left * inverse};
}

/* c ? a : b in integers, where a compiler would hide the loads of b behind a branch. */
DLC_FN double
dlc_blend_f64(uint8_t c, double a, double b)
{
    uint64_t mask = -(uint64_t)c;

    return dlc_from_bits_f64((dlc_bits_f64(a) & mask) | (dlc_bits_f64(b) & ~mask));
}

/* ---- exponentials ---- */

/* x + x_lo = n ln 2 + r + c, with n in the low bits of `shifted`; |r| <= ln 2 / 2. */
typedef struct dlc_exponent_f64 { double r, c; uint64_t shifted; } dlc_exponent_f64;

DLC_FN dlc_exponent_f64
dlc_reduce_exp_f64(double x, double x_lo)
{
    double shifted = DLC_FMA(x, 0x1.71547652b82fep0, 0x1.8p52), n = shifted - 0x1.8p52;
    double hi = DLC_FMA(n, -0x1.62e42fefp-1, x), lo = n * 0x1.473de6af278edp-34 - x_lo;
    double r = hi - lo;

    return (dlc_exponent_f64){r, (hi - r) - lo, dlc_bits_f64(shifted)};
}

/* p * 2**(n + more), in two steps so that a subnormal result is rounded once. */
DLC_FN double
dlc_scale_f64(double p, uint64_t shifted, int more)
{
    uint64_t k = shifted + (uint64_t)(2046 + more) - 0x4338000000000000u, half = k >> 1;

    return p * dlc_from_bits_f64(half << 52) * dlc_from_bits_f64((k - half) << 52);
}

/* exp(x + x_lo) * 2**more for |x| < 1500 and a tiny x_lo. */
DLC_FN double
dlc_exp_scaled_f64(double x, double x_lo, int more)
{
    dlc_exponent_f64 e = dlc_reduce_exp_f64(x, x_lo);
    double p = DLC_FMA(e.r * e.r, dlc_poly_exp_f64(e.r), e.c);

    return dlc_scale_f64(1 + (e.r + p), e.shifted, more);
}

DLC_FN double
dlc_clamp_exp_f64(double x)
{
    double below = x > 750 ? 750 : x;

    return below < -800 ? -800 : below;
}

DLC_FN double
dlc_exp_f64(double a)
{
    return dlc_exp_scaled_f64(dlc_clamp_exp_f64(a), 0, 0);
}

DLC_FN double
dlc_exp2_f64(double a)
{
    double below = a > 1100 ? 1100 : a, x = below < -1200 ? -1200 : below;
    double shifted = x + 0x1.8p52, f = x - (shifted - 0x1.8p52);
    double r = f * 0x1.62e42fefa39efp-1, c = DLC_FMA(f, 0x1.62e42fefa39efp-1, -r);
    double p = DLC_FMA(r * r, dlc_poly_exp_f64(r), DLC_FMA(f, 0x1.abc9e3b39803fp-56, c));

    return dlc_scale_f64(1 + (r + p), dlc_bits_f64(shifted), 0);
}

/* (exp(x) - 1) * 2**more, half a unit better than a double, while exp(x) * 2**more is finite. */
DLC_FN dlc_pair
dlc_expm1_scaled_f64(double x, int more)
{
    dlc_exponent_f64 e = dlc_reduce_exp_f64(x < -100 ? -100 : x, 0);
    uint64_t one_bits = (uint64_t)(1023 + more);
    double power = dlc_from_bits_f64((e.shifted + one_bits - 0x4338000000000000u) << 52);
    double one = dlc_from_bits_f64(one_bits << 52);
    double p = DLC_FMA(e.r * e.r, dlc_poly_expm1_f64(e.r), e.c);
    dlc_pair sum = dlc_quick_sum(power - one, e.r * power);

    return dlc_quick_sum(sum.hi, DLC_FMA(p, power, sum.lo));
}

DLC_FN double
dlc_expm1_f64(double a)
{
    double h = dlc_expm1_scaled_f64(a > 709.9 ? 709.9 : a, -1).hi;

    return dlc_abs_f64(a) < 0x1p-54 ? a : 2 * h;
}

/* With t = (exp(x) - 1) / 4 it is 2 (t + t / (4 t + 1)); the quotient becomes 1/4 early. */
DLC_FN double
dlc_sinh_f64(double a)
{
    double x = dlc_abs_f64(a);
    dlc_pair t = dlc_expm1_scaled_f64(x > 710.5 ? 710.5 : x, -2);
    dlc_pair num = {t.hi > 0x1p60 ? 0x1p60 : t.hi, t.hi > 0x1p60 ? 0 : t.lo};
    dlc_pair den = dlc_two_sum(4 * num.hi, 1);
    dlc_pair q = dlc_divide_pair(num, (dlc_pair){den.hi, den.lo + 4 * num.lo});
    dlc_pair sum = dlc_quick_sum(t.hi, q.hi);

    return x < 0x1p-27 ? a : dlc_copysign_f64(2 * (sum.hi + (sum.lo + (t.lo + q.lo))), a);
}

DLC_FN double
dlc_cosh_f64(double a)
{
    double x = dlc_abs_f64(a), h = dlc_exp_scaled_f64(x > 750 ? 750 : x, 0, -1);

    return h + 0.25 / h;
}

/* h / (h + 1) with h = (exp(2x) - 1) / 2; 1 / (h + 1) is one less the quotient. */
DLC_FN double
dlc_tanh_f64(double a)
{
    double x = dlc_abs_f64(a);
    dlc_pair h = dlc_expm1_scaled_f64(x > 22 ? 44 : 2 * x, -1), den = dlc_two_sum(h.hi, 1);
    double q = h.hi / den.hi, rest = h.lo - q * (den.lo + h.lo);

    return dlc_copysign_f64(DLC_FMA(rest, 1 - q, q), a);
}

DLC_FN double
dlc_sigmoid_f64(double a)
{
    double x = -dlc_abs_f64(a), e = dlc_exp_scaled_f64(x < -800 ? -800 : x, 0, 0);

    return (a >= 0 ? 1 : e) / (1 + e);
}

/* ---- logarithms ---- */

/* x = 2**e (1 + f), f in sqrt(1/2) - 1 .. sqrt(2) - 1, for finite x > 0; biased is e + 1023, for a
 * subnormal x e + 1077. */
typedef struct dlc_mantissa_f64 { double e, f; uint64_t biased; } dlc_mantissa_f64;

DLC_FN dlc_mantissa_f64
dlc_split_f64(double x)
{
    uint8_t small = x < 0x1p-1022;
    double up = small ? x * 0x1p54 : x;
    uint64_t u = dlc_bits_f64(up) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    double e = dlc_from_bits_f64((u >> 52) | 0x4330000000000000u) - 0x1p52 - (small ? 1077 : 1023);
    double m = dlc_from_bits_f64((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu);

    return (dlc_mantissa_f64){e, m - 1, u >> 52};
}

/* log(1 + f) - f + f*f/2. */
DLC_FN double
dlc_log_rest_f64(double f)
{
    double s = f / (2 + f), z = s * s;

    return s * DLC_FMA(z, dlc_poly_log_f64(z), 0.5 * f * f);
}

/* e ln 2 + log(1 + f) + c. */
DLC_FN double
dlc_log_sum_f64(double e, double f, double c)
{
    double square = 0.5 * f * f, rest = dlc_log_rest_f64(f) + DLC_FMA(e, 0x1.473de6af278edp-34, c);

    return DLC_FMA(e, 0x1.62e42fefp-1, f - (square - rest));
}

/* r, but what log has at infinity, NaN, zero and below. */
DLC_FN double
dlc_log_edges_f64(double a, double r)
{
    double top = a < dlc_inf ? r : a, low = a == 0 ? -dlc_inf : dlc_nan;

    return a > 0 ? top : low;
}

DLC_FN double
dlc_log_f64(double a)
{
    dlc_mantissa_f64 x = dlc_split_f64(a);

    return dlc_log_edges_f64(a, dlc_log_sum_f64(x.e, x.f, 0));
}

/* log(1 + f) with a hi that has 21 bits, so that products with it are exact. */
DLC_FN dlc_pair
dlc_log_short_f64(double f)
{
    double square = 0.5 * f * f, sum = f - square;
    double hi = dlc_from_bits_f64(dlc_bits_f64(sum) & 0xffffffff00000000u);

    return (dlc_pair){hi, ((f - hi) - square) + dlc_log_rest_f64(f)};
}

DLC_FN double
dlc_log2_f64(double a)
{
    dlc_mantissa_f64 x = dlc_split_f64(a);
    dlc_pair l = dlc_log_short_f64(x.f);
    double rest = l.lo * 0x1.71547p0 + (l.hi + l.lo) * 0x1.94ae0bf85ddf4p-22;
    dlc_pair sum = dlc_quick_sum(x.e, l.hi * 0x1.71547p0);

    return dlc_log_edges_f64(a, sum.hi + (sum.lo + rest));
}

DLC_FN double
dlc_log10_f64(double a)
{
    dlc_mantissa_f64 x = dlc_split_f64(a);
    dlc_pair l = dlc_log_short_f64(x.f);
    double rest = l.lo * 0x1.bcb7bp-2 + (l.hi + l.lo) * 0x1.526e50e32a6abp-26;
    dlc_pair sum = dlc_quick_sum(x.e * 0x1.34413509p-2, l.hi * 0x1.bcb7bp-2);

    return dlc_log_edges_f64(a, sum.hi + (sum.lo + DLC_FMA(x.e, 0x1.ef3fde623e256p-35, rest)));
}

/* 1 + f is (1 + a) / 2**e; f is made from a, which keeps the bits that 1 + a loses. */
DLC_FN double
dlc_log1p_f64(double a)
{
    dlc_mantissa_f64 x = dlc_split_f64(1 + a);
    double scale = dlc_from_bits_f64((2046 - x.biased) << 52), f = DLC_FMA(a, scale, scale - 1);
    double r = dlc_log_sum_f64(x.e, x.e > 60 ? x.f : f, 0);

    return a == 0 ? a : dlc_log_edges_f64(1 + a, r);
}

DLC_FN double
dlc_asinh_f64(double a)
{
    double x = dlc_abs_f64(a), square = x * x;
    uint8_t big = x > 0x1p60;
    double r = dlc_log1p_f64(big ? x : x + square / (1 + dlc_sqrt_f64(square + 1)));

    return dlc_copysign_f64(big ? r + 0x1.62e42fefa39efp-1 : r, a);
}

DLC_FN double
dlc_acosh_f64(double a)
{
    double x = a - 1;
    uint8_t big = a > 0x1p60;
    double r = dlc_log1p_f64(big ? a : x + dlc_sqrt_f64(DLC_FMA(x, x, 2 * x)));

    return a < 1 ? dlc_nan : big ? r + 0x1.62e42fefa39efp-1 : r;
}

/* With (1 + x) / (1 - x) = 2**k m it is half of k ln 2 + log(m), and log(m) is 2 atanh(s) with
 * s = (1 + x - 2**k (1 - x)) / (1 + x + 2**k (1 - x)), which the polynomial takes: x if k is 0. */
DLC_FN double
dlc_atanh_f64(double a)
{
    double x = dlc_abs_f64(a);
    dlc_pair top = dlc_quick_sum(1, x), low = dlc_quick_sum(1, -x);
    uint64_t u = dlc_bits_f64(low.hi) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    double k = (0x1p52 + 1023) - dlc_from_bits_f64((u >> 52) | 0x4330000000000000u);
    double power = dlc_from_bits_f64((2046 - (u >> 52)) << 52);
    uint8_t more = top.hi > 0x1.6a09e667f3bcdp0 * (low.hi * power);

    k = more ? k + 1 : k;
    power = more ? 2 * power : power;
    double y = low.hi * power, y_lo = low.lo * power;
    dlc_pair num = dlc_quick_sum(top.hi - y, top.lo - y_lo), den = dlc_two_sum(top.hi, y);
    dlc_pair s = dlc_divide_pair(num, (dlc_pair){den.hi, den.lo + (top.lo + y_lo)});
    double z = s.hi * s.hi, rest = DLC_FMA(s.hi * z, dlc_poly_log_f64(z), 2 * s.lo);
    dlc_pair sum = dlc_quick_sum(k * 0x1.62e42fefp-1, 2 * s.hi);
    double r = 0.5 * (sum.hi + (sum.lo + DLC_FMA(k, 0x1.473de6af278edp-34, rest)));

    return dlc_copysign_f64(x < 1 ? r : x == 1 ? dlc_inf : dlc_nan, a);
}

/* ---- powers ---- */

/* log(x + x_lo) to about 65 bits for finite x > 0, which must not be subnormal unless x_lo is 0. */
DLC_FN dlc_pair
dlc_log_pair(double x, double x_lo)
{
    dlc_mantissa_f64 m = dlc_split_f64(x);
    double f_lo = 0.5 * x_lo * dlc_from_bits_f64((2047 - m.biased) << 52), den = 2 + m.f;
    dlc_pair num = {m.f, f_lo}, q = dlc_divide_pair(num, (dlc_pair){den, m.f - (den - 2) + f_lo});
    double s = q.hi, s_lo = q.lo;
    dlc_pair z = dlc_two_product(s, s);
    double z_lo = z.lo + 2 * s * s_lo;
    dlc_pair cubic = dlc_two_product(z.hi, 0x1.5555555555555p-1);
    double cubic_lo = cubic.lo + (z.hi * 0x1.5555555555555p-55 + z_lo * 0x1.5555555555555p-1);
    dlc_pair t = dlc_quick_sum(2, cubic.hi);
    double t_lo = t.lo + (cubic_lo + z.hi * z.hi * dlc_poly_log_dd(z.hi));
    dlc_pair l = dlc_two_product(s, t.hi), sum = dlc_quick_sum(m.e * 0x1.62e42fefp-1, l.hi);
    double l_lo = l.lo + (s * t_lo + s_lo * t.hi);

    return dlc_quick_sum(sum.hi, sum.lo + DLC_FMA(m.e, 0x1.473de6af278edp-34, l_lo));
}

/* |a| ** b without the cases that dlc_pow_edges_f64 puts right.  No condition of a select depends
 * on one operand alone: that may be one number for all elements, and gcc 12 vectorises no select
 * whose condition is the same for all. */
DLC_FN double
dlc_pow_size_f64(double x, double b)
{
    dlc_pair l = dlc_log_pair(x, 0), p = dlc_two_product(b, l.hi);
    uint8_t far = dlc_abs_f64(p.hi) > 1000, none = x == 0, all = x == dlc_inf;
    uint8_t zero = (none & (b > 0)) | (all & (b < 0)), over = (none & (b < 0)) | (all & (b > 0));
    double r = dlc_exp_scaled_f64(dlc_clamp_exp_f64(p.hi), far ? 0 : DLC_FMA(b, l.lo, p.lo), 0);

    return zero ? 0 : over ? dlc_inf : r;
}

/* The sign of a ** b, and its value where a is negative or either operand settles it. */
DLC_FN double
dlc_pow_edges_f64(double a, double b, double size)
{
    uint8_t whole = dlc_round_f64(b) == b, odd = whole & (dlc_round_f64(0.5 * b) != 0.5 * b);
    uint64_t sign = odd ? dlc_bits_f64(-0.0) : 0;
    double signed_size = dlc_from_bits_f64(dlc_bits_f64(size) | (dlc_bits_f64(a) & sign));
    double r = ((a < 0) & !whole & (a > -dlc_inf)) ? dlc_nan : signed_size;
    uint8_t is_one = (b == 0) | (a == 1) | ((a == -1) & dlc_isinf_f64(b));

    return is_one ? 1 : ((a != a) | (b != b)) ? a + b : r;
}

DLC_FN double
dlc_pow_f64(double a, double b)
{
    return dlc_pow_edges_f64(a, b, dlc_pow_size_f64(dlc_abs_f64(a), b));
}

DLC_FN double
dlc_hypot_f64(double a, double b)
{
    double x = dlc_abs_f64(a), y = dlc_abs_f64(b), top = x > y ? x : y;
    double down = top > 0x1p500 ? 0x1p-600 : top < 0x1p-500 ? 0x1p600 : 1;
    double up = top > 0x1p500 ? 0x1p600 : top < 0x1p-500 ? 0x1p-600 : 1;
    double u = x * down, v = y * down, r = dlc_sqrt_f64(DLC_FMA(u, u, v * v)) * up;

    return x == dlc_inf || y == dlc_inf ? dlc_inf : r;
}

/* a + b - 1 for a sum that is near 1. */
DLC_FN double
dlc_less_one_f64(dlc_pair a, dlc_pair b)
{
    dlc_pair s = dlc_two_sum(a.hi, b.hi), t = dlc_two_sum(s.hi - 1, s.lo);
    dlc_pair rest = dlc_two_sum(a.lo, b.lo), sum = dlc_two_sum(t.hi, rest.hi);

    return sum.hi + (sum.lo + (t.lo + rest.lo));
}

/* log(hypot(a, b)), half the logarithm of a sum of squares, which is known as a pair. */
DLC_FN double
dlc_loghypot_f64(double a, double b)
{
    double x = dlc_abs_f64(a), y = dlc_abs_f64(b), most = x > y ? x : y, least = x > y ? y : x;
    uint8_t large = most > 0x1p500, small = most < 0x1p-400;
    double by = large ? 0x1p-600 : small ? 0x1p600 : 1, more = large ? 1200 : small ? -1200 : 0;
    dlc_pair p = dlc_two_product(most * by, most * by), q = dlc_two_product(least * by, least * by);
    dlc_pair square = dlc_quick_sum(p.hi, q.hi);
    dlc_mantissa_f64 m = dlc_split_f64(square.hi);
    double f = m.e == 0 ? dlc_less_one_f64(p, q) : m.f;
    double rest = m.e == 0 ? 0 : (square.lo + (p.lo + q.lo)) / square.hi;
    double r = 0.5 * dlc_log_sum_f64(m.e + more, f, rest);
    double size = square.hi == 0 ? -dlc_inf : square.hi < dlc_inf ? r : square.hi;

    return x == dlc_inf || y == dlc_inf ? dlc_inf : size;
}

/* log(exp(a) + exp(b)); of two equal infinities that one. */
DLC_FN double
dlc_logaddexp_f64(double a, double b)
{
    double most = a < b ? b : a, least = a < b ? a : b;
    double r = dlc_log1p_f64(dlc_exp_f64(least - most)) + most;

    return a == b && dlc_isinf_f64(a) ? a : r;
}

/* ---- division with remainder ---- */

DLC_FN double dlc_div_trunc_f64(double a, double b) { return dlc_trunc_f64(a / b); }

/* Digit by digit in integers, for quotients that do not fit a double's mantissa; 0 < y <= x. */
static __attribute__((unused, noinline)) double
dlc_fmod_far_f64(double x, double y)
{
    uint64_t u = dlc_bits_f64(x), v = dlc_bits_f64(y);
    int64_t eu = (int64_t)(u >> 52), ev = (int64_t)(v >> 52);
    uint64_t mu = eu ? (u & 0xfffffffffffffu) | 0x10000000000000u : u;
    uint64_t mv = ev ? (v & 0xfffffffffffffu) | 0x10000000000000u : v;

    eu += !eu;
    ev += !ev;
    for (mu %= mv; eu > ev; eu--) {
        mu = 2 * mu >= mv ? 2 * mu - mv : 2 * mu;
    }
    double unit = dlc_from_bits_f64(ev > 52 ? (uint64_t)(ev - 52) << 52 : (uint64_t)1 << (ev - 1));
    return (double)(int64_t)mu * unit;
}

/* A quotient below 2**53, rounded to an integer, is off by at most one; the remainder is exact. */
DLC_FN double
dlc_fmod_f64(double a, double b)
{
    double x = dlc_abs_f64(a), y = dlc_abs_f64(b), q = dlc_trunc_f64(x / y), r;

    if (x < y) {
        r = x;
    }
    else if (q < 0x1p53 && DLC_HAS_FMA && x < dlc_inf && y > 0x1p-900) {
        r = DLC_FMA(-q, y, x);
        r = r < 0 ? r + y : r >= y ? r - y : r;
    }
    else if (x < dlc_inf && y > 0) {
        r = dlc_fmod_far_f64(x, y);
    }
    else {
        r = dlc_nan;
    }
    return a != a || b != b ? a + b : dlc_copysign_f64(r, a);
}

DLC_FN double
dlc_remainder_f64(double a, double b)
{
    double r = dlc_fmod_f64(a, b);

    return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}

/* floor(a / b) as if the quotient were not rounded. */
DLC_FN double
dlc_div_floor_f64(double a, double b)
{
    double r = dlc_fmod_f64(a, b), q = (a - r) / b;
    double down = r != 0 && (b < 0) != (r < 0) ? q - 1 : q, whole = dlc_floor_f64(down);
    double near = down - whole > 0.5 ? whole + 1 : whole;

    return b == 0 ? a / b : down == 0 ? dlc_copysign_f64(0, a / b) : near;
}
