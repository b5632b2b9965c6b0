/* Float32 functions; see prelude.h.  The common ones stay in float; where a float formula would
 * need pairs of floats the work is done in double, for half the lanes and a single rounding. */

/* ---- exponentials ---- */

/* x = n ln 2 + r, with n in the low bits of `shifted`; |r| <= ln 2 / 2. */
typedef struct dlc_exponent_f32 { float r; uint32_t shifted; } dlc_exponent_f32;

DLC_FN dlc_exponent_f32
dlc_reduce_exp_f32(float x)
{
    float shifted = DLC_FMA(x, 0x1.715476p0f, 0x1.8p23f), n = shifted - 0x1.8p23f;
    float r = DLC_FMA(n, -0x1.7f7d1cp-20f, DLC_FMA(n, -0x1.62e4p-1f, x));

    return (dlc_exponent_f32){r, dlc_bits_f32(shifted)};
}

/* p * 2**n, in two steps so that a subnormal result is rounded once. */
DLC_FN float
dlc_scale_f32(float p, uint32_t shifted)
{
    uint32_t k = shifted + 254 - 0x4b400000u, half = k >> 1;

    return p * dlc_from_bits_f32(half << 23) * dlc_from_bits_f32((k - half) << 23);
}

/* What is out of range is chosen last: a clamp of the operand would be waited for by all that
 * follows. */
DLC_FN float
dlc_exp_f32(float a)
{
    dlc_exponent_f32 e = dlc_reduce_exp_f32(a);
    float p = DLC_FMA(e.r * e.r, dlc_poly_exp_f32(e.r), e.r);
    float v = dlc_scale_f32(1 + p, e.shifted);
    float low = a < -110 ? 0 : v;

    return a > 90 ? __builtin_inff() : low;
}

DLC_FN float
dlc_exp2_f32(float a)
{
    float shifted = a + 0x1.8p23f, r = a - (shifted - 0x1.8p23f);
    float v = dlc_scale_f32(DLC_FMA(r, dlc_poly_exp2_f32(r), 1.0f), dlc_bits_f32(shifted));
    float low = a < -160 ? 0 : v;

    return a > 130 ? __builtin_inff() : low;
}

/* (exp(x) - 1) / 2 for -80 < x < 89. */
DLC_FN float
dlc_expm1_half_f32(float x)
{
    dlc_exponent_f32 e = dlc_reduce_exp_f32(x);
    float half = dlc_from_bits_f32((e.shifted + 126 - 0x4b400000u) << 23);
    float p = DLC_FMA(e.r * e.r, dlc_poly_expm1_f32(e.r), e.r);

    return DLC_FMA(p, half, half - 0.5f);
}

DLC_FN float
dlc_expm1_f32(float a)
{
    float v = 2 * dlc_expm1_half_f32(a), low = a < -40 ? -1 : v;
    float r = a > 88.8f ? __builtin_inff() : low;

    return dlc_abs_f32(a) < 0x1p-25f ? a : r;
}

DLC_FN float
dlc_tanh_f32(float a)
{
    float x = dlc_abs_f32(a), z = x * x, small = DLC_FMA(x * z, dlc_poly_tanh_f32(z), x);
    dlc_exponent_f32 e = dlc_reduce_exp_f32(2 * x);
    float p = 1 + DLC_FMA(e.r * e.r, dlc_poly_exp_f32(e.r), e.r);
    float power = dlc_from_bits_f32((e.shifted + 127 - 0x4b400000u) << 23);
    float big = 1 - 2 / DLC_FMA(p, power, 1.0f), near = x > 10 ? 1 : big;

    return dlc_copysign_f32(x < 0.6f ? small : near, a);
}

DLC_FN float
dlc_sigmoid_f32(float a)
{
    float e = dlc_exp_f32(-dlc_abs_f32(a));

    return (a >= 0 ? 1 : e) / (1 + e);
}

/* exp(x) to 34 bits for |x| < 700. */
DLC_FN double
dlc_exp_mid(double x)
{
    double t = x * 0x1.71547652b82fep0, shifted = t + 0x1.8p52;
    uint64_t power = (dlc_bits_f64(shifted) + 1023 - 0x4338000000000000u) << 52;

    return dlc_poly_exp2_mid(t - (shifted - 0x1.8p52)) * dlc_from_bits_f64(power);
}

DLC_FN float
dlc_sinh_f32(float a)
{
    double x = dlc_abs_f32(a), e = dlc_exp_mid(x > 100 ? 100 : x), square = x * x;
    double small = x + x * square * DLC_FMA(square, 0x1.1111111111111p-7, 0x1.5555555555555p-3);

    return dlc_copysign_f32((float)(x < 0.0625 ? small : 0.5 * (e - 1 / e)), a);
}

DLC_FN float
dlc_cosh_f32(float a)
{
    double x = dlc_abs_f32(a), e = dlc_exp_mid(x > 100 ? 100 : x);

    return (float)(0.5 * (e + 1 / e));
}

/* ---- logarithms ---- */

/* x = 2**e (1 + f), f in sqrt(1/2) - 1 .. sqrt(2) - 1, for finite x > 0; biased as e + 127. */
typedef struct dlc_mantissa_f32 { float e, f; uint32_t biased; } dlc_mantissa_f32;

DLC_FN dlc_mantissa_f32
dlc_split_f32(float x)
{
    uint8_t small = x < 0x1p-126f;
    uint32_t u = dlc_bits_f32(small ? x * 0x1p23f : x) + (0x3f800000u - 0x3f3504f3u);
    float e = (float)((int32_t)(u >> 23) - (small ? 150 : 127));
    float m = dlc_from_bits_f32((u & 0x7fffff) + 0x3f3504f3u);

    return (dlc_mantissa_f32){e, m - 1, u >> 23};
}

/* r, but what log has at infinity, NaN, zero and below. */
DLC_FN float
dlc_log_edges_f32(float a, float r)
{
    float top = a < __builtin_inff() ? r : a, low = a == 0 ? -__builtin_inff() : __builtin_nanf("");

    return a > 0 ? top : low;
}

/* e ln 2 + log(1 + f). */
DLC_FN float
dlc_log_sum_f32(float e, float f)
{
    float rest = DLC_FMA(f * f, dlc_poly_log_f32(f), e * 0x1.7f7d1cp-20f);

    return DLC_FMA(e, 0x1.62e4p-1f, f + rest);
}

DLC_FN float
dlc_log_f32(float a)
{
    dlc_mantissa_f32 x = dlc_split_f32(a);

    return dlc_log_edges_f32(a, dlc_log_sum_f32(x.e, x.f));
}

/* f / ln 2 wants more bits than a float: the factor is a pair, the product as good as fused. */
DLC_FN float
dlc_log2_f32(float a)
{
    dlc_mantissa_f32 x = dlc_split_f32(a);
    double l = DLC_FMA((double)x.f * x.f, (double)dlc_poly_log_f32(x.f), (double)x.f);

    return dlc_log_edges_f32(a, (float)DLC_FMA(l, 0x1.71547652b82fep0, (double)x.e));
}

DLC_FN float
dlc_log10_f32(float a)
{
    dlc_mantissa_f32 x = dlc_split_f32(a);
    double l = DLC_FMA((double)x.f * x.f, (double)dlc_poly_log_f32(x.f), (double)x.f);

    l = DLC_FMA(l, 0x1.bcb7b1526e50ep-2, x.e * 0x1.34413509f79ffp-2);
    return dlc_log_edges_f32(a, (float)l);
}

/* 1 + f is (1 + a) / 2**e; f is made from a, which keeps the bits that 1 + a loses. */
DLC_FN float
dlc_log1p_f32(float a)
{
    dlc_mantissa_f32 x = dlc_split_f32(1 + a);
    float scale = dlc_from_bits_f32((254 - x.biased) << 23), f = DLC_FMA(a, scale, scale - 1);
    float r = dlc_log_sum_f32(x.e, x.e > 30 ? x.f : f);

    return a == 0 ? a : dlc_log_edges_f32(1 + a, r);
}

/* e and log(m) with x = 2**e m, to 37 bits; x is positive and neither subnormal nor infinite. */
typedef struct dlc_log_parts { double e, log_m; } dlc_log_parts;

DLC_FN dlc_log_parts
dlc_log_parts_mid(double x)
{
    uint64_t u = dlc_bits_f64(x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    double e = dlc_from_bits_f64((u >> 52) | 0x4330000000000000u) - (0x1p52 + 1023);
    double m = dlc_from_bits_f64((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu);
    double s = (m - 1) / (m + 1);

    return (dlc_log_parts){e, s * dlc_poly_log_mid(s * s)};
}

DLC_FN double
dlc_log_mid(double x)
{
    dlc_log_parts l = dlc_log_parts_mid(x);

    return DLC_FMA(l.e, 0x1.62e42fefa39efp-1, l.log_m);
}

DLC_FN float
dlc_asinh_f32(float a)
{
    double x = dlc_abs_f32(a), z = x * x;
    double small = DLC_FMA(x * z, DLC_FMA(z, 0x1.3333333333333p-4, -0x1.5555555555555p-3), x);
    double r = x < 0.03125 ? small : dlc_log_mid(x + dlc_sqrt_f64(z + 1));

    return dlc_copysign_f32((float)(x < dlc_inf ? r : x), a);
}

DLC_FN float
dlc_acosh_f32(float a)
{
    double x = a, r = dlc_log_mid(x + dlc_sqrt_f64(x * x - 1));

    return (float)(x < dlc_inf ? x < 1 ? dlc_nan : r : x);
}

DLC_FN float
dlc_atanh_f32(float a)
{
    double x = dlc_abs_f32(a), small = DLC_FMA(x * x, x * 0x1.5555555555555p-2, x);
    double r = x < 0x1p-10 ? small : 0.5 * dlc_log_mid((1 + x) / (1 - x));

    return dlc_copysign_f32((float)(x < 1 ? r : x == 1 ? dlc_inf : dlc_nan), a);
}

/* ---- trigonometry ---- */

/* x = n quarter turns + r - excess, n in the low bits of `quarters`; excess is below the last place
 * of r. */
typedef struct dlc_angle_f32 { float r, excess; uint32_t quarters; } dlc_angle_f32;

/* For every finite x.  Note [Exact quarters]. */
DLC_FN dlc_angle_f32
dlc_exact_angle_f32(double x)
{
    double size = dlc_abs_f64(x), low = dlc_two_over_pi_f32[0][1], high = dlc_two_over_pi_f32[0][0];

    high = size < 0x1p50 ? high : dlc_two_over_pi_f32[1][0];
    low = size < 0x1p50 ? low : dlc_two_over_pi_f32[1][1];
    high = size < 0x1p76 ? high : dlc_two_over_pi_f32[2][0];
    low = size < 0x1p76 ? low : dlc_two_over_pi_f32[2][1];
    high = size < 0x1p102 ? high : dlc_two_over_pi_f32[3][0];
    low = size < 0x1p102 ? low : dlc_two_over_pi_f32[3][1];
    double shifted = DLC_FMA(x, high, 0x1.8p52), n = shifted - 0x1.8p52;
    double top = dlc_from_bits_f64(dlc_bits_f64(high) & 0xfffffffff0000000u);
    double turn = DLC_HAS_FMA ? DLC_FMA(x, high, -n) : (x * top - n) + x * (high - top);
    turn = DLC_FMA(x, low, turn);
    double again = turn + 0x1.8p52, angle = (turn - (again - 0x1.8p52)) * 0x1.921fb54442d18p0;
    float r = (float)angle;

    return (dlc_angle_f32){r, (float)(r - angle),
                           (uint32_t)(dlc_bits_f64(shifted) + dlc_bits_f64(again))};
}

/* x in quarter turns beside a number whose unit is 1: within 2^17 of it only the low 18 bits
 * differ. */
DLC_FN float dlc_shift_quarters_f32(float x) { return DLC_FMA(x, 0x1.45f306p-1f, 0x1.84p23f); }

/* Note [Near]: DLC_IS_FAR if x is too far or no number. */
DLC_FN uint32_t
dlc_far_angle_f32(float x)
{
    return DLC_HAS_FMA ? dlc_bits_f32(dlc_shift_quarters_f32(x)) ^ 0x4b400000u : 0;
}

/* For a near x.  pi/2 in three parts: `most` is exact, what r loses of it goes to the excess.
 * It is exact only where it is fused. */
DLC_FN dlc_angle_f32
dlc_near_angle_f32(float x)
{
    if (!DLC_HAS_FMA) {
        return dlc_exact_angle_f32(x);
    }
    float shifted = dlc_shift_quarters_f32(x), n = shifted - 0x1.84p23f;
    float most = DLC_FMA(n, -0x1.921fb4p0f, x), r = most - n * 0x1.4442d2p-24f;
    float excess = DLC_FMA(n, -0x1.ee59dap-50f, DLC_FMA(n, 0x1.4442d2p-24f, r - most));

    return (dlc_angle_f32){r, excess, dlc_bits_f32(shifted)};
}

DLC_FN dlc_angle_f32
dlc_angle_of_f32(float x)
{
    dlc_angle_f32 near = dlc_near_angle_f32(x), exact = dlc_exact_angle_f32(x);
    uint8_t far = DLC_IS_FAR(dlc_far_angle_f32(x));
    float r = far ? exact.r : near.r, excess = far ? exact.excess : near.excess;

    return (dlc_angle_f32){r, excess, far ? exact.quarters : near.quarters};
}

/* The square of r - excess. */
DLC_FN float
dlc_square_angle_f32(dlc_angle_f32 t)
{
    return DLC_FMA(t.r, t.r, -2 * t.r * t.excess);
}

/* The sine, `quarters` quarter turns later.  At zeros the sum of the small terms is +0: taken away
 * it leaves -0. */
DLC_FN float
dlc_sin_turn_f32(dlc_angle_f32 t, uint32_t quarters)
{
    float z = dlc_square_angle_f32(t);
    float s = t.r - DLC_FMA(t.r * z, -dlc_poly_sin_f32(z), t.excess);
    float c = DLC_FMA(z, dlc_poly_cos_f32(z), 1.0f);
    uint32_t n = t.quarters + quarters;

    return dlc_from_bits_f32(dlc_bits_f32(n & 1 ? c : s) ^ (n & 2) << 30);
}

/* a - b * c, the product not rounded. */
DLC_FN float
dlc_less_product_f32(float a, float b, float c)
{
    return DLC_HAS_FMA ? __builtin_fmaf(-b, c, a) : (float)(a - (double)b * c);
}

/* tan(r - excess) is about tan(r) - (1 + 1.5 z) excess; after an odd number of quarters it is -1 /
 * (s + low). */
DLC_FN float
dlc_tan_turn_f32(dlc_angle_f32 t)
{
    float z = dlc_square_angle_f32(t), excess = DLC_FMA(t.excess * z, 1.5f, t.excess);
    float more = DLC_FMA(t.r * z, dlc_poly_tan_f32(z), -excess), s = t.r + more;
    float low = (t.r - s) + more, q = 1 / s;
    float cotangent = DLC_FMA(q, DLC_FMA(-q, low, dlc_less_product_f32(1, q, s)), q);

    return t.quarters & 1 ? -cotangent : s;
}

DLC_FN float dlc_sin_f32(float a) { return dlc_sin_turn_f32(dlc_angle_of_f32(a), 0); }
DLC_FN float dlc_cos_f32(float a) { return dlc_sin_turn_f32(dlc_angle_of_f32(a), 1); }
DLC_FN float dlc_tan_f32(float a) { return dlc_tan_turn_f32(dlc_angle_of_f32(a)); }
DLC_FN float dlc_near_sin_f32(float a) { return dlc_sin_turn_f32(dlc_near_angle_f32(a), 0); }
DLC_FN float dlc_near_cos_f32(float a) { return dlc_sin_turn_f32(dlc_near_angle_f32(a), 1); }
DLC_FN float dlc_near_tan_f32(float a) { return dlc_tan_turn_f32(dlc_near_angle_f32(a)); }
DLC_FN uint32_t dlc_far_sin_f32(float a) { return dlc_far_angle_f32(a); }
DLC_FN uint32_t dlc_far_cos_f32(float a) { return dlc_far_angle_f32(a); }
DLC_FN uint32_t dlc_far_tan_f32(float a) { return dlc_far_angle_f32(a); }

DLC_FN float
dlc_atan_f32(float a)
{
    float x = dlc_abs_f32(a);
    uint8_t steep = x > 1;
    float t = (steep ? -1 : x) / (steep ? x : 1), z = t * t;
    float r = DLC_FMA(t * z, dlc_poly_atan_f32(z), steep ? -0x1.777a5cp-25f : 0) + t;

    return dlc_copysign_f32(steep ? 0x1.921fb6p0f + r : r, a);
}

DLC_FN float
dlc_atan2_f32(float a, float b)
{
    double y = dlc_abs_f32(a), x = dlc_abs_f32(b);
    uint8_t steep = y > x;
    double num = steep ? x : y, den = steep ? y : x;
    double t = num == den ? num != 0 : num / den, z = t * t;
    double r = DLC_FMA(t * z, dlc_poly_atan_mid(z), t);
    double right = steep ? 0x1.921fb54442d18p0 - r : r;

    return dlc_copysign_f32((float)(dlc_signbit_f32(b) ? 0x1.921fb54442d18p1 - right : right), a);
}

/* s + p = asin(s), s being a or, where |a| is big, sqrt((1 - |a|) / 2). */
typedef struct dlc_arc_f32 { float s, p; uint8_t big; } dlc_arc_f32;

/* Beyond 1/2, asin(x) is pi/2 - 2 asin(sqrt((1 - x) / 2)). */
DLC_FN dlc_arc_f32
dlc_reduce_asin_f32(float a)
{
    float x = dlc_abs_f32(a);
    uint8_t big = x > 0.5f;
    float z = big ? 0.5f * (1 - x) : x * x, s = big ? dlc_sqrt_f32(z) : a;

    return (dlc_arc_f32){s, s * z * dlc_poly_asin_f32(z), big};
}

DLC_FN float
dlc_asin_f32(float a)
{
    dlc_arc_f32 t = dlc_reduce_asin_f32(a);
    float top = 0x1.921fb6p0f - 2 * t.s, lost = (0x1.921fb6p0f - top) - 2 * t.s;
    float right = top + (lost + DLC_FMA(t.p, -2.0f, -0x1.777a5cp-25f));

    return dlc_copysign_f32(t.big ? right : t.s + t.p, a);
}

DLC_FN float
dlc_acos_f32(float a)
{
    dlc_arc_f32 t = dlc_reduce_asin_f32(a);
    float left = DLC_FMA(t.s + t.p, -2.0f, -0x1.777a5cp-24f) + 0x1.921fb6p1f;
    float middle = 0x1.921fb6p0f - (t.s + (t.p + 0x1.777a5cp-25f));

    return t.big ? a < 0 ? left : 2 * (t.s + t.p) : middle;
}

/* Note [Exact quarters]
 *
 * x times 2/pi is wanted modulo 4 and to about 2^-55, for x up to 2^128.  A float is a multiple of
 * its unit, so the bits of 2/pi whose product with that unit is a multiple of 4 do not count.  Row
 * k of dlc_two_over_pi_f32 holds 2/pi without the bits that do not count from x = 2^(23 + 26 k) on;
 * used from 2^50, 2^76 and 2^102 on it keeps the product below 2^51, where adding and subtracting
 * 1.5 * 2^52 rounds to an integer.  The first of a row's two doubles gives the remainder exactly,
 * by one fused operation or by a product cut in two; the second adds 53 bits more and up to an
 * eighth, so that the sum is rounded again.  No float lies so near to a multiple of pi/2 that this
 * is not enough. */
