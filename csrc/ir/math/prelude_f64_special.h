/* Float64 error functions and gamma; see prelude.h and, for pairs, prelude_f64.h. */

/* ---- error functions ---- */

DLC_FN double
dlc_erf_small_f64(double x)
{
    return DLC_FMA(x, dlc_poly_erf_f64(x * x), x);
}

/* erf(x) for x >= 1: 1 - exp(-x*x) times a polynomial in x - 3.5; beyond 5.95 it is 1. */
DLC_FN double
dlc_erf_large_f64(double a)
{
    double x = a > 5.95 ? 5.95 : a;
    dlc_pair square = dlc_two_product(x, x);
    dlc_exponent_f64 e = dlc_reduce_exp_f64(-square.hi, -square.lo);
    double power = dlc_from_bits_f64((e.shifted + 1023 - 0x4338000000000000u) << 52);
    double p = DLC_FMA(e.r * e.r, dlc_poly_exp_f64(e.r), e.r);

    return DLC_FMA(-DLC_FMA(p, power, power), dlc_poly_erf_large_f64(x - 3.5), 1.0);
}

/* erfc(x) for x >= 1/2: exp(-x*x) g(t) / (1 + 2x), g a polynomial in t = (x - 4) / (x + 4) that is
 * its constant but for a tenth. */
DLC_FN double
dlc_erfc_right_f64(double a)
{
    double x = a > 28 ? 28 : a, t = (x - 4) / (x + 4);
    dlc_pair square = dlc_two_product(x, x), den = dlc_quick_sum(2 * x, 1);
    double tenth = DLC_FMA(t, dlc_poly_erfcx_f64(t), dlc_erfcx_f64_first[0][1]);
    dlc_pair g = dlc_quick_sum(dlc_erfcx_f64_first[0][0], tenth);
    dlc_pair q = dlc_divide_pair(g, den);
    dlc_exponent_f64 e = dlc_reduce_exp_f64(-square.hi, -square.lo);
    dlc_pair power = dlc_quick_sum(1, e.r);
    double power_lo = power.lo + DLC_FMA(e.r * e.r, dlc_poly_exp_f64(e.r), e.c);
    dlc_pair p = dlc_two_product(power.hi, q.hi);

    return dlc_scale_f64(p.hi + (p.lo + DLC_FMA(power.hi, q.lo, power_lo * q.hi)), e.shifted, 0);
}

DLC_FN double
dlc_erf_f64(double a)
{
    double x = dlc_abs_f64(a), small = dlc_erf_small_f64(a);

    return x < 1 ? small : dlc_copysign_f64(dlc_erf_large_f64(x), a);
}

/* As dlc_phi_f32, to 2^-52. */
DLC_FN double dlc_phi_f64(double a) { return 0.5 * (1 + dlc_erf_f64(a * 0x1.6a09e667f3bcdp-1)); }

DLC_FN double
dlc_erfc_f64(double a)
{
    double tail = dlc_erfc_right_f64(dlc_abs_f64(a));
    dlc_pair near = dlc_quick_sum(1, -a);
    double small = near.hi + (near.lo - a * dlc_poly_erf_f64(a * a));

    return a > -1 && a < 0.5 ? small : a < 0 ? 2 - tail : tail;
}

/* -log(hi + lo) for 2^-1000 < hi <= 1, half a unit better than a double. */
DLC_FN dlc_pair
dlc_minus_log_pair(dlc_pair a)
{
    dlc_mantissa_f64 x = dlc_split_f64(a.hi);
    dlc_pair sum = dlc_quick_sum(x.e * 0x1.62e42fefp-1, x.f);
    double lo = a.lo * dlc_from_bits_f64((2046 - x.biased) << 52), s = x.f / (2 + x.f);
    double more = lo * DLC_FMA(2 * s, s - 1, 1.0);              /* near to lo / (1 + f) */
    double rest = dlc_log_rest_f64(x.f) + DLC_FMA(x.e, 0x1.473de6af278edp-34, more);
    dlc_pair l = dlc_quick_sum(sum.hi, sum.lo - (0.5 * x.f * x.f - rest));

    return (dlc_pair){-l.hi, -l.lo};
}

/* Over w = -log(1 - a*a) it is a (sqrt(pi)/2 + w P(w)) near 0; over s = sqrt(w), a (s + D(s))
 * beyond. The correction of s has its 1 / 2s from a line that is off by a tenth, which is
 * enough. */
DLC_FN double
dlc_erfinv_f64(double a)
{
    double size = dlc_abs_f64(a);
    dlc_pair square = dlc_two_product(a, a), gap = dlc_quick_sum(1, -square.hi);
    dlc_pair w = dlc_minus_log_pair(dlc_quick_sum(gap.hi, gap.lo - square.lo));
    double p = dlc_poly_erfinv_f64(w.hi - 3.125), s = dlc_sqrt_f64(w.hi);
    dlc_pair part = dlc_two_product(w.hi, p), near = dlc_two_sum(0x1.c5bf891b4ef6bp-1, part.hi);
    double near_lo = near.lo + (part.lo + DLC_FMA(w.lo, p, -0x1.618f13eb7ca89p-55));
    double s_lo = (dlc_less_product(w.hi, s, s) + w.lo) * DLC_FMA(s, -0.02964, 0.2549);
    double more = s < 4 ? dlc_poly_erfinv_tail_f64(s - 3.25) : dlc_poly_erfinv_end_f64(s - 5);
    dlc_pair far = dlc_quick_sum(s, s_lo + more);
    double hi = w.hi < 6.25 ? near.hi : far.hi, lo = w.hi < 6.25 ? near_lo : far.lo;
    dlc_pair r = dlc_two_product(a, hi);
    double edge = size == 1 ? a * dlc_inf : dlc_nan, inside = r.hi + DLC_FMA(a, lo, r.lo);

    return size < 0x1p-30 ? a * 0x1.c5bf891b4ef6bp-1 : size < 1 ? inside : edge;
}

/* ---- gamma ---- */

/* log(gamma(2 + d)) for |d| <= 1/2, 12 bits better than a double. */
DLC_FN dlc_pair
dlc_lgamma_step(dlc_pair p, double d, int k)
{
    dlc_pair term = dlc_two_product(p.hi, d);
    dlc_pair sum = dlc_quick_sum(dlc_lgamma_f64_first[k][0], term.hi);

    return (dlc_pair){sum.hi, sum.lo + (term.lo + DLC_FMA(p.lo, d, dlc_lgamma_f64_first[k][1]))};
}

DLC_FN dlc_pair
dlc_lgamma_at_two(double d)
{
    dlc_pair p = {dlc_poly_lgamma_f64(d), 0};

    p = dlc_lgamma_step(p, d, 5);
    p = dlc_lgamma_step(p, d, 4);
    p = dlc_lgamma_step(p, d, 3);
    p = dlc_lgamma_step(p, d, 2);
    p = dlc_lgamma_step(p, d, 1);
    p = dlc_lgamma_step(p, d, 0);
    dlc_pair r = dlc_two_product(p.hi, d);
    return (dlc_pair){r.hi, DLC_FMA(p.lo, d, r.lo)};
}

/* Stirling's series for log(gamma(hi + lo)), from 5.5 on. */
DLC_FN dlc_pair
dlc_stirling_pair(dlc_pair x)
{
    dlc_pair log = dlc_log_pair(x.hi, x.lo), l = dlc_quick_sum(log.hi, -1);
    dlc_pair y = dlc_quick_sum(x.hi, -0.5);
    double v = 1 / x.hi, l_lo = l.lo + log.lo, y_lo = y.lo + x.lo;
    dlc_pair p = dlc_two_product(y.hi, l.hi), sum = dlc_quick_sum(p.hi, 0x1.acfe390c97d69p-2);
    double rest = DLC_FMA(y.hi, l_lo, DLC_FMA(y_lo, l.hi, p.lo));
    double series = DLC_FMA(v, dlc_poly_stirling_f64(v * v), 0x1.3494bc9001442p-56);

    return (dlc_pair){sum.hi, p.hi < dlc_inf ? sum.lo + (rest + series) : 0};
}

/* The product and, where it counts, j + d. */
DLC_FN dlc_pair
dlc_gamma_factor(dlc_pair product, double j, double d, uint8_t counts)
{
    dlc_pair factor = dlc_quick_sum(j, d), p = dlc_two_product(product.hi, factor.hi);
    double lo = p.lo + DLC_FMA(product.hi, factor.lo, product.lo * factor.hi);

    return (dlc_pair){counts ? p.hi : product.hi, counts ? lo : product.lo};
}

/* gamma(m + d) over gamma(2 + d) for whole m of 2 .. 5, and the inverse for m of -4 .. 2. */
DLC_FN dlc_pair
dlc_gamma_product(double m, double d)
{
    double from = m > 2 ? 2 : m, count = m > 2 ? m - 2 : 2 - m;
    dlc_pair p = {1, 0};

    p = dlc_gamma_factor(p, from, d, count > 0);
    p = dlc_gamma_factor(p, from + 1, d, count > 1);
    p = dlc_gamma_factor(p, from + 2, d, count > 2);
    p = dlc_gamma_factor(p, from + 3, d, count > 3);
    p = dlc_gamma_factor(p, from + 4, d, count > 4);
    return dlc_gamma_factor(p, from + 5, d, count > 5);
}

/* log(|gamma(a)|).  Note [Zeros of the logarithm of gamma]. */
DLC_FN double
dlc_lgamma_f64(double a)
{
    double m = dlc_round_f64(a), d = a - m, z = d * d;
    uint8_t near = m > -5 && m < 6, right = a > 0, up = m > 2;
    dlc_pair two = dlc_lgamma_at_two(d), product = dlc_gamma_product(m, d);
    dlc_pair mirror = dlc_quick_sum(-a, 1);
    dlc_pair x = {right ? a : mirror.hi, right ? 0 : mirror.lo}, far = dlc_stirling_pair(x);
    double q = near ? product.hi : d, q_lo = near ? product.lo : 0;
    dlc_pair log = dlc_log_pair(dlc_abs_f64(q), q < 0 ? -q_lo : q_lo);
    double mirrored = far.lo + z * dlc_poly_sinc_log_f64(z);
    double u = near ? two.hi : right ? far.hi : -far.hi;
    double u_lo = near ? two.lo : right ? far.lo : -mirrored;
    double v = near ? up ? log.hi : -log.hi : right ? 0 : -log.hi;
    double v_lo = near ? up ? log.lo : -log.lo : right ? 0 : -log.lo;
    dlc_pair sum = dlc_two_sum(u, v);
    double r = sum.hi + (sum.lo + (u_lo + v_lo));

    return dlc_isinf_f64(a) || far.hi == dlc_inf || (!right && d == 0) ? dlc_inf : r;
}

/* Note [Zeros of the logarithm of gamma]
 *
 * Left of -2 the logarithm has a zero on both sides of every integer, where large terms cancel:
 * they are pairs, good to about 2^-65.  With m the nearest integer, d = a - m is exact.
 *
 * For m from -4 to 5, gamma(a) is gamma(2 + d) times or over a product of up to six numbers j + d.
 * From 5.5 on Stirling's series is taken at a, and left of -4.5 at 1 - a:
 *     log(gamma(a)) = -log(|d|) - log(sin(pi d) / (pi d)) - log(gamma(1 - a)).
 * The zeros there lie where d is small, and so is the second term, which is no pair therefore. */
