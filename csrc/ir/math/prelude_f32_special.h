/* Float32 error functions, gamma, powers and division with remainder; see prelude.h and
 * prelude_f32.h. */

/* ---- error function and gamma ---- */

DLC_FN float
dlc_erf_f32(float a)
{
    float x = dlc_abs_f32(a), small = DLC_FMA(x, dlc_poly_erf_f32(x * x), x);
    dlc_exponent_f32 e = dlc_reduce_exp_f32(dlc_poly_erf_tail_f32(x));
    float p = 1 + DLC_FMA(e.r * e.r, dlc_poly_exp_f32(e.r), e.r);
    float power = dlc_from_bits_f32((e.shifted + 127 - 0x4b400000u) << 23);
    float big = DLC_FMA(-p, power, 1.0f), near = x > 4 ? 1 : big;

    return dlc_copysign_f32(x < 0.925f ? small : near, a);
}

/* The normal distribution function, to an absolute error of 2^-23.6: for gelu, in which it is a
 * factor, and which needs neither what erf does for small operands nor erfc for large ones.
 * 2**P(|a|), P fitted so that the error of the power is level. */
DLC_FN float
dlc_phi_f32(float a)
{
    float x = dlc_abs_f32(a), e = dlc_poly_phi_f32(x), shifted = e + 0x1.8p23f,
          r = e - (shifted - 0x1.8p23f);
    float power = dlc_from_bits_f32((dlc_bits_f32(shifted) + 127 - 0x4b400000u) << 23);
    float tail = DLC_FMA(r, dlc_poly_exp2_f32(r), 1.0f) * power, low = x > 5.6f ? 0 : tail;

    return a > 0 ? 1 - low : low;
}

DLC_FN float
dlc_erfc_f32(float a)
{
    double y = dlc_abs_f32(a), x = y > 11 ? 11 : y, g = dlc_poly_erfcx_mid((x - 4) / (x + 4));
    double tail = dlc_exp_mid(-x * x) * g / (1 + 2 * x);

    return (float)(a < 0 ? 2 - tail : tail);
}

DLC_FN float
dlc_erfinv_f32(float a)
{
    double x = a, w = -dlc_log_mid((1 - x) * (1 + x)), s = dlc_sqrt_f64(w);
    double r = x * (w < 6.25 ? dlc_poly_erfinv_mid(w - 3.125) : dlc_poly_erfinv_far(s - 3.25));
    float size = dlc_abs_f32(a), edge = size == 1 ? a * __builtin_inff() : __builtin_nanf("");

    return size < 1 ? (float)r : edge;
}

/* log(gamma(2 + d)) / d for |d| <= 1/2. */
DLC_FN double
dlc_lgamma_slope_mid(double d)
{
    double p = DLC_FMA(dlc_poly_lgamma_f64(d), d, dlc_lgamma_f64_first[5][0]);

    p = DLC_FMA(p, d, dlc_lgamma_f64_first[4][0]);
    p = DLC_FMA(p, d, dlc_lgamma_f64_first[3][0]);
    p = DLC_FMA(p, d, dlc_lgamma_f64_first[2][0]);
    p = DLC_FMA(p, d, dlc_lgamma_f64_first[1][0]);
    return DLC_FMA(p, d, dlc_lgamma_f64_first[0][0]);
}

/* log(gamma(x)) for x >= 1/2: near 2 a polynomial, from 5.5 on Stirling's series. */
DLC_FN double
dlc_lgamma_right_mid(double x)
{
    double z = x < 1.5 ? x + 1 : x, product = 1;

    for (int k = 0; k < 3; k++) {
        uint8_t step = z > 2.5;

        z = step ? z - 1 : z;
        product = step ? product * z : product;
    }
    double l = dlc_log_f64(x >= 5.5 ? x : x < 1.5 ? x : product), v = 1 / x;
    double d = x < 1.5 ? x - 1 : z - 2;
    double near = DLC_FMA(d, dlc_lgamma_slope_mid(d), x < 1.5 ? -l : l);
    double series = DLC_FMA(v, dlc_poly_stirling_f64(v * v), 0x1.acfe390c97d69p-2);
    double far = DLC_FMA(x - 0.5, l - 1, series);

    return x >= 5.5 ? far : near;
}

/* log(|gamma(x)|).  Left of 1/2 by reflection; sin(pi x) comes from x's distance to an integer. */
DLC_FN double
dlc_lgamma_mid(double a)
{
    double f = dlc_abs_f64(a - dlc_round_f64(a));
    uint8_t left = a < 0.5, odd = f > 0.25;
    double angle = 0x1.921fb54442d18p1 * (odd ? 0.5 - f : f);
    uint8_t tiny = f < 0x1p-60;
    double s = odd ? dlc_cos_kernel(angle, 0).hi : dlc_sin_kernel(angle, 0).hi;
    double r = dlc_lgamma_right_mid(left ? 1 - a : a);
    double reflected = ((tiny ? 0 : 0x1.250d048e7a1bdp0) - dlc_log_f64(tiny ? f : s)) - r;

    return dlc_isinf_f64(a) || (left && f == 0) ? dlc_inf : left ? reflected : r;
}

DLC_FN float dlc_lgamma_f32(float a) { return (float)dlc_lgamma_mid(a); }

/* ---- powers ---- */

/* x ** b in double for finite x > 0. */
DLC_FN double
dlc_pow_size_f32(double x, double b)
{
    dlc_log_parts l = dlc_log_parts_mid(x);
    double t = b * DLC_FMA(l.log_m, 0x1.71547652b82fep0, l.e);
    double below = t > 300 ? 300 : t, y = below < -300 ? -300 : below, shifted = y + 0x1.8p52;
    uint64_t power = (dlc_bits_f64(shifted) + 1023 - 0x4338000000000000u) << 52;

    return dlc_poly_exp2_mid(y - (shifted - 0x1.8p52)) * dlc_from_bits_f64(power);
}

/* Selects as those of dlc_pow_size_f64: none by a condition on one operand alone. */
DLC_FN float
dlc_pow_f32(float a, float b)
{
    float x = dlc_abs_f32(a), size = (float)dlc_pow_size_f32(x, b), inf = __builtin_inff();
    uint8_t whole = dlc_round_f32(b) == b, odd = whole & (dlc_round_f32(0.5f * b) != 0.5f * b);
    uint8_t none = x == 0, all = x == inf, ends = (dlc_abs_f32(b) == inf) & (x != 1);
    uint8_t falls = ends & ((x > 1) != (b > 0)), rises = ends & ((x > 1) == (b > 0));
    uint8_t zero = (none & (b > 0)) | (all & (b < 0)) | falls;
    uint8_t over = (none & (b < 0)) | (all & (b > 0)) | rises;
    uint32_t sign = odd ? dlc_bits_f32(-0.0f) : 0;

    size = zero ? 0 : over ? inf : size;
    size = dlc_from_bits_f32(dlc_bits_f32(size) | (dlc_bits_f32(a) & sign));
    size = ((a < 0) & !whole & (x < inf)) ? __builtin_nanf("") : size;
    size = ((a != a) | (b != b)) ? a + b : size;
    return (b == 0) | (a == 1) | ((x == 1) & (dlc_abs_f32(b) == inf)) ? 1 : size;
}

DLC_FN float
dlc_hypot_f32(float a, float b)
{
    double x = a, y = b, r = dlc_sqrt_f64(x * x + y * y);

    return (float)(dlc_isinf_f32(a) || dlc_isinf_f32(b) ? dlc_inf : r);
}

/* log(hypot(a, b)), half the logarithm of a sum of squares; where that is near 1 its distance from
 * 1 is the sum of two exact products. */
DLC_FN float
dlc_loghypot_f32(float a, float b)
{
    double x = dlc_abs_f32(a), y = dlc_abs_f32(b), top = x > y ? x : y, least = x > y ? y : x;
    double square = DLC_FMA(top, top, least * least);
    uint64_t u = dlc_bits_f64(square) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    double e = dlc_from_bits_f64((u >> 52) | 0x4330000000000000u) - (0x1p52 + 1023);
    double m = dlc_from_bits_f64((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu);
    double f = e == 0 ? (top - 1) * (top + 1) + least * least : m - 1, s = f / (m + 1);
    double r = 0.5 * DLC_FMA(e, 0x1.62e42fefa39efp-1, s * dlc_poly_log_mid(s * s));
    double size = square == 0 ? -dlc_inf : square < dlc_inf ? r : square;

    return (float)(x == dlc_inf || y == dlc_inf ? dlc_inf : size);
}

/* In double: near 0 the two terms cancel. */
DLC_FN float dlc_logaddexp_f32(float a, float b) { return (float)dlc_logaddexp_f64(a, b); }

/* ---- division with remainder ---- */

DLC_FN float dlc_div_trunc_f32(float a, float b) { return dlc_trunc_f32(a / b); }

/* One digit of a long division: as many bits of the quotient as have an exact product with y, 51
 * when that is fused and 27 when not.  A call for each: a loop would not be unrolled. */
DLC_FN double
dlc_divide_step(double r, double y, double inverse)
{
    double q = dlc_round_f64(r * inverse);

    q = DLC_HAS_FMA ? q : dlc_from_bits_f64(dlc_bits_f64(q) & 0xffffffffff000000u);
    return DLC_FMA(-q, y, r);
}

/* The longest quotient has 278 bits. */
DLC_FN float
dlc_fmod_f32(float a, float b)
{
    double x = dlc_abs_f32(a), y = dlc_abs_f32(b), inverse = 1 / y, r = x;

    r = dlc_divide_step(r, y, inverse);
    r = dlc_divide_step(r, y, inverse);
    r = dlc_divide_step(r, y, inverse);
    r = dlc_divide_step(r, y, inverse);
    r = dlc_divide_step(r, y, inverse);
    r = dlc_divide_step(r, y, inverse);
    if (!DLC_HAS_FMA) {
        r = dlc_divide_step(r, y, inverse);
        r = dlc_divide_step(r, y, inverse);
        r = dlc_divide_step(r, y, inverse);
        r = dlc_divide_step(r, y, inverse);
        r = dlc_divide_step(r, y, inverse);
    }
    r = r < 0 ? r + y : r;
    return dlc_copysign_f32((float)(y == dlc_inf && x < dlc_inf ? x : r), a);
}

DLC_FN float
dlc_remainder_f32(float a, float b)
{
    float r = dlc_fmod_f32(a, b);

    return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}

DLC_FN float
dlc_div_floor_f32(float a, float b)
{
    float r = dlc_fmod_f32(a, b), q = (a - r) / b;
    float down = r != 0 && (b < 0) != (r < 0) ? q - 1 : q, whole = dlc_floor_f32(down);
    float near = down - whole > 0.5f ? whole + 1 : whole;

    return b == 0 ? a / b : down == 0 ? dlc_copysign_f32(0, a / b) : near;
}
