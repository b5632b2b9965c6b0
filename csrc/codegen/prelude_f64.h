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
#if DLC_HAS_FMA
    return (dlc_pair){p, __builtin_fma(a, b, -p)};
#else
    double ah = dlc_from_bits_f64((dlc_bits_f64(a) + 0x4000000) & 0xfffffffff8000000u), al = a - ah;
    double bh = dlc_from_bits_f64((dlc_bits_f64(b) + 0x4000000) & 0xfffffffff8000000u), bl = b - bh;

    return (dlc_pair){p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
#endif
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

/* (exp(x) - 1) / 2 for x <= 750. */
DLC_FN double
dlc_expm1_half_f64(double x)
{
    dlc_exponent_f64 e = dlc_reduce_exp_f64(x < -100 ? -100 : x, 0);
    double half = dlc_from_bits_f64((e.shifted + 1022 - 0x4338000000000000u) << 52);
    double p = e.r + DLC_FMA(e.r * e.r, dlc_poly_expm1_f64(e.r), e.c);

    return DLC_FMA(p, half, half - 0.5);
}

DLC_FN double
dlc_expm1_f64(double a)
{
    double h = dlc_expm1_half_f64(a > 709.9 ? 709.9 : a);

    return dlc_abs_f64(a) < 0x1p-54 ? a : 2 * h;
}

DLC_FN double
dlc_sinh_f64(double a)
{
    double x = dlc_abs_f64(a), size = x > 750 ? 750 : x;
    double h = dlc_expm1_half_f64(size > 30 ? 30 : size);
    double small = h + h / (2 * h + 1), big = dlc_exp_scaled_f64(size, 0, -1);

    return x < 0x1p-27 ? a : dlc_copysign_f64(x < 22 ? small : big, a);
}

DLC_FN double
dlc_cosh_f64(double a)
{
    double x = dlc_abs_f64(a), h = dlc_exp_scaled_f64(x > 750 ? 750 : x, 0, -1);

    return h + 0.25 / h;
}

DLC_FN double
dlc_tanh_f64(double a)
{
    double x = dlc_abs_f64(a), h = dlc_expm1_half_f64(x > 22 ? 44 : 2 * x);

    return dlc_copysign_f64(h / (h + 1), a);
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

DLC_FN double
dlc_atanh_f64(double a)
{
    double x = dlc_abs_f64(a);

    return dlc_copysign_f64(0.5 * dlc_log1p_f64(2 * x / (1 - x)), a);
}

/* ---- trigonometry ---- */

/* x = (n + (hi + lo) 2/pi) quarter turns, n in the low bits of `quarters`, for every finite x. */
typedef struct dlc_angle { double hi, lo; uint64_t quarters; } dlc_angle;

/* a - 4 * round(a / 4). */
DLC_FN double
dlc_modulo_4(double a)
{
    return a - 4 * dlc_round_f64(0.25 * a);
}

/* Note [Quarter turns]. */
DLC_FN dlc_angle
dlc_reduce_angle(double x)
{
    uint64_t over = (dlc_bits_f64(x) >> 52 & 0x7ff) - 1075, k = (over & ~-(over >> 63)) >> 4;
    double down = x * dlc_from_bits_f64((1023 - 16 * k) << 52);
    dlc_pair a = dlc_two_product(down, dlc_two_over_pi[0][k]);
    dlc_pair b = dlc_two_product(down, dlc_two_over_pi[1][k]);
    dlc_pair s = dlc_two_sum(dlc_modulo_4(a.hi), dlc_modulo_4(a.lo));
    dlc_pair t = dlc_two_sum(s.hi, dlc_modulo_4(b.hi));
    double shifted = t.hi + 0x1.8p52, r = t.hi - (shifted - 0x1.8p52);
    dlc_pair turn = dlc_two_sum(r, t.lo + s.lo + (b.lo + down * dlc_two_over_pi[2][k]));
    dlc_pair angle = dlc_two_product(turn.hi, 0x1.921fb54442d18p0);
    double lo = angle.lo + (turn.hi * 0x1.1a62633145c07p-54 + turn.lo * 0x1.921fb54442d18p0);

    return (dlc_angle){angle.hi, lo, dlc_bits_f64(shifted)};
}

DLC_FN double
dlc_sin_kernel(double x, double y)
{
    double z = x * x, cube = z * x;

    return x + DLC_FMA(cube, dlc_poly_sin_f64(z), DLC_FMA(-0.5 * z, y, y));
}

DLC_FN double
dlc_cos_kernel(double x, double y)
{
    double z = x * x, half = 0.5 * z, w = 1 - half;

    return w + (((1 - w) - half) + DLC_FMA(z * z, dlc_poly_cos_f64(z), -x * y));
}

/* sin of x turned by `ahead` quarters. */
DLC_FN double
dlc_sin_ahead(double x, uint64_t ahead)
{
    dlc_angle r = dlc_reduce_angle(x);
    uint64_t n = r.quarters + ahead;
    double s = dlc_sin_kernel(r.hi, r.lo), c = dlc_cos_kernel(r.hi, r.lo);

    return dlc_from_bits_f64(dlc_bits_f64(n & 1 ? c : s) ^ (n & 2) << 62);
}

DLC_FN double
dlc_sin_f64(double a)
{
    return dlc_blend_f64(dlc_abs_f64(a) < 0x1p-27, a, dlc_sin_ahead(a, 0));
}

DLC_FN double dlc_cos_f64(double a) { return dlc_sin_ahead(a, 1); }

DLC_FN double
dlc_tan_f64(double a)
{
    dlc_angle r = dlc_reduce_angle(a);
    double s = dlc_sin_kernel(r.hi, r.lo), c = dlc_cos_kernel(r.hi, r.lo);
    uint64_t odd = r.quarters & 1;
    double t = (odd ? -c : s) / (odd ? s : c);

    return dlc_blend_f64(dlc_abs_f64(a) < 0x1p-27, a, t);
}

/* base + atan(num / den) for |num / den| <= tan(pi/8). */
DLC_FN double
dlc_atan_sum_f64(double num, double den, double base, double lo)
{
    double t = num / den, z = t * t;

    return base + (t + DLC_FMA(t * z, dlc_poly_atan_f64(z), lo));
}

/* The angle of (x, y) for y >= 0 and x >= 0, not both infinite. */
DLC_FN double
dlc_octants_f64(double y, double x, uint8_t left)
{
    uint8_t steep = y > 0x1.3504f333f9de6p1 * x, middle = y > 0x1.a827999fcef32p-2 * x;
    double num = steep ? -x : middle ? y - x : y, den = steep ? y : middle ? y + x : x;
    double base = steep ? 2 : middle ? 1 : 0, turned = left ? 4 - base : base;

    return dlc_atan_sum_f64(left ? -num : num, den == 0 ? 1 : den, turned * 0x1.921fb54442d18p-1,
                            turned * 0x1.1a62633145c07p-55);
}

DLC_FN double
dlc_atan_f64(double a)
{
    return dlc_copysign_f64(dlc_octants_f64(dlc_abs_f64(a), 1, 0), a);
}

DLC_FN double
dlc_atan2_f64(double a, double b)
{
    double y = dlc_abs_f64(a), x = dlc_abs_f64(b), top = y > x ? y : x;
    double scale = top > 0x1p1000 ? 0x1p-20 : top < 0x1p-900 ? 0x1p100 : 1;
    uint8_t both = y == dlc_inf && x == dlc_inf;
    double r = dlc_octants_f64(both ? 1 : y * scale, both ? 1 : x * scale, dlc_signbit_f64(b));

    return a != a || b != b ? a + b : dlc_copysign_f64(r, a);
}

/* Beyond 1/2, asin(x) is pi/2 - 2 asin(sqrt((1 - x) / 2)). */
DLC_FN double
dlc_asin_f64(double a)
{
    double x = dlc_abs_f64(a);
    uint8_t big = x > 0.5;
    double z = big ? 0.5 * (1 - x) : x * x, s = big ? dlc_sqrt_f64(z) : x;
    double p = s * z * dlc_poly_asin_f64(z);
    dlc_pair right = dlc_quick_sum(0x1.921fb54442d18p0, -2 * s);
    double r = right.hi + (right.lo + DLC_FMA(p, -2.0, 0x1.1a62633145c07p-54));

    return dlc_copysign_f64(big ? r : s + p, a);
}

DLC_FN double
dlc_acos_f64(double a)
{
    double x = dlc_abs_f64(a);
    uint8_t big = x > 0.5;
    double z = big ? 0.5 * (1 - x) : x * x, s = big ? dlc_sqrt_f64(z) : a;
    double p = s * z * dlc_poly_asin_f64(z);
    double left = 0x1.921fb54442d18p1 - (2 * (s + p) - 0x1.1a62633145c07p-53);
    double middle = 0x1.921fb54442d18p0 - (s + (p - 0x1.1a62633145c07p-54));

    return big ? a < 0 ? left : 2 * (s + p) : middle;
}

/* ---- error function and gamma ---- */

DLC_FN double
dlc_erf_small_f64(double x)
{
    return DLC_FMA(x, dlc_poly_erf_f64(x * x), x);
}

/* erfc(x) for x >= 0: exp(-x*x) g(x) / (1 + 2x), g a polynomial in (x - 4) / (x + 4). */
DLC_FN double
dlc_erfc_right_f64(double a)
{
    double x = a > 28 ? 28 : a, g = dlc_poly_erfcx_f64((x - 4) / (x + 4));
    dlc_pair square = dlc_two_product(x, x);

    return dlc_exp_scaled_f64(-square.hi, -square.lo, 0) * (g / DLC_FMA(2.0, x, 1.0));
}

DLC_FN double
dlc_erf_f64(double a)
{
    double x = dlc_abs_f64(a), small = dlc_erf_small_f64(a);

    return x < 1 ? small : dlc_copysign_f64(1 - dlc_erfc_right_f64(x), a);
}

DLC_FN double
dlc_erfc_f64(double a)
{
    double tail = dlc_erfc_right_f64(dlc_abs_f64(a)), small = 1 - dlc_erf_small_f64(a);

    return a > -1 && a < 0.5 ? small : a < 0 ? 2 - tail : tail;
}

DLC_FN double
dlc_erfinv_f64(double a)
{
    double w = -dlc_log_f64((1 - a) * (1 + a)), s = dlc_sqrt_f64(w);
    double tail = s < 4 ? dlc_poly_erfinv_tail_f64(s - 3.25) : dlc_poly_erfinv_end_f64(s - 5);
    double r = a * (w < 6.25 ? dlc_poly_erfinv_f64(w - 3.125) : tail);

    return dlc_abs_f64(a) == 1 ? a * dlc_inf : a == 0 ? a : r;
}

/* log(gamma(x)) for x >= 1/2: near 2 a polynomial, from 8 on Stirling's series. */
DLC_FN double
dlc_lgamma_right_f64(double x)
{
    double z = x < 1.5 ? x + 1 : x, product = 1;

    for (int k = 0; k < 6; k++) {
        uint8_t step = z > 2.5;

        z = step ? z - 1 : z;
        product = step ? product * z : product;
    }
    double l = dlc_log_f64(x >= 8 ? x : x < 1.5 ? x : product), v = 1 / x;
    double d = x < 1.5 ? x - 1 : z - 2;
    double near = DLC_FMA(d, dlc_poly_lgamma_f64(d), x < 1.5 ? -l : l);
    double series = DLC_FMA(v, dlc_poly_stirling_f64(v * v), 0x1.acfe390c97d69p-2);
    double far = DLC_FMA(x - 0.5, l - 1, series);

    return x >= 8 ? far : near;
}

/* log(|gamma(x)|).  Left of 1/2 by reflection; sin(pi x) comes from x's distance to an integer. */
DLC_FN double
dlc_lgamma_f64(double a)
{
    double f = dlc_abs_f64(a - dlc_round_f64(a));
    uint8_t left = a < 0.5, odd = f > 0.25;
    double angle = 0x1.921fb54442d18p1 * (odd ? 0.5 - f : f);
    uint8_t tiny = f < 0x1p-60;
    double s = odd ? dlc_cos_kernel(angle, 0) : dlc_sin_kernel(angle, 0);
    double r = dlc_lgamma_right_f64(left ? 1 - a : a);
    double reflected = ((tiny ? 0 : 0x1.250d048e7a1bdp0) - dlc_log_f64(tiny ? f : s)) - r;

    return dlc_isinf_f64(a) || (left && f == 0) ? dlc_inf : left ? reflected : r;
}

/* ---- powers ---- */

/* log(x) for finite x > 0 to about 65 bits. */
DLC_FN dlc_pair
dlc_log_pair(double x)
{
    dlc_mantissa_f64 m = dlc_split_f64(x);
    double den = 2 + m.f, s = m.f / den;
    dlc_pair back = dlc_two_product(s, den);
    double s_lo = (((m.f - back.hi) - back.lo) - s * (m.f - (den - 2))) / den;
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

/* |a| ** b without the cases that dlc_pow_edges_f64 puts right. */
DLC_FN double
dlc_pow_size_f64(double x, double b)
{
    dlc_pair l = dlc_log_pair(x);
    double hi = x == 0 ? -dlc_inf : x == dlc_inf ? x : l.hi;
    dlc_pair p = dlc_two_product(b, hi);
    uint8_t far = dlc_abs_f64(p.hi) > 1000;

    return dlc_exp_scaled_f64(dlc_clamp_exp_f64(p.hi), far ? 0 : DLC_FMA(b, l.lo, p.lo), 0);
}

/* The sign of a ** b, and its value where a is negative or either operand settles it. */
DLC_FN double
dlc_pow_edges_f64(double a, double b, double size)
{
    uint8_t whole = dlc_round_f64(b) == b, odd = whole && dlc_round_f64(0.5 * b) != 0.5 * b;
    double signed_size = odd ? dlc_copysign_f64(size, a) : size;
    double r = a < 0 && !whole && a > -dlc_inf ? dlc_nan : signed_size;

    return b == 0 || a == 1 || (a == -1 && dlc_isinf_f64(b)) ? 1 : a != a || b != b ? a + b : r;
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

/* Note [Quarter turns]
 *
 * x times 2/pi is wanted modulo 4.  As a double is a multiple of its unit, the bits of 2/pi whose
 * product with that unit is a multiple of 4 do not count.  Column k of dlc_two_over_pi, read for
 * exponents from 52 + 16 k on, holds what is left of 2^16k * 2/pi modulo 4 in three doubles, and x
 * is scaled down by 2^16k.  The two greater products are exact pairs and each part is taken modulo
 * 4 on its own.  The result is right to 2^-90 of a quarter turn; only doubles beyond 2^52 that lie
 * within 2^-37 of a multiple of pi/2 can show that.  The loads are gathers: a select before the
 * index would turn them into a branch. */
