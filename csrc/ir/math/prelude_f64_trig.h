/* Float64 trigonometry; see prelude.h and, for pairs, prelude_f64.h. */

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

/* sin(x + y) for |x| <= pi/4 and a tiny y. */
DLC_FN dlc_pair
dlc_sin_kernel(double x, double y)
{
    double z = x * x, cube = z * x;

    return dlc_quick_sum(x, DLC_FMA(cube, dlc_poly_sin_f64(z), DLC_FMA(-0.5 * z, y, y)));
}

DLC_FN dlc_pair
dlc_cos_kernel(double x, double y)
{
    double z = x * x, half = 0.5 * z, w = 1 - half;
    double rest = ((1 - w) - half) + DLC_FMA(z * z, dlc_poly_cos_f64(z), -x * y);

    return dlc_quick_sum(w, rest);
}

/* x in quarter turns beside a number whose unit is 1: within 2^26 of it only the low 27 bits
 * differ. */
DLC_FN double
dlc_shift_quarters_f64(double x)
{
    return DLC_FMA(x, 0x1.45f306dc9c883p-1, 0x1.8000004p52);
}

/* Note [Near]: DLC_IS_FAR if x is too far or no number. */
DLC_FN uint64_t
dlc_far_angle_f64(double x)
{
    return DLC_HAS_FMA ? dlc_bits_f64(dlc_shift_quarters_f64(x)) ^ 0x4338000000000000u : 0;
}

/* For a near x.  pi/2 in three parts: `most` is exact, what hi loses of it goes to lo.  It is
 * exact only where it is fused. */
DLC_FN dlc_angle
dlc_near_angle_f64(double x)
{
    if (!DLC_HAS_FMA) {
        return dlc_reduce_angle(x);
    }
    double shifted = dlc_shift_quarters_f64(x), n = shifted - 0x1.8000004p52;
    double most = DLC_FMA(n, -0x1.921fb54442d18p0, x), hi = most - n * 0x1.1a62633145c07p-54;
    double lo = DLC_FMA(n, 0x1.f1976b7ed8fbcp-110, DLC_FMA(n, -0x1.1a62633145c07p-54, most - hi));

    return (dlc_angle){hi, lo, dlc_bits_f64(shifted)};
}

DLC_FN dlc_angle
dlc_angle_of_f64(double x)
{
    dlc_angle near = dlc_near_angle_f64(x), exact = dlc_reduce_angle(x);
    uint8_t far = DLC_IS_FAR(dlc_far_angle_f64(x));
    double hi = dlc_blend_f64(far, exact.hi, near.hi), lo = dlc_blend_f64(far, exact.lo, near.lo);
    uint64_t mask = -(uint64_t)far;

    return (dlc_angle){hi, lo, (exact.quarters & mask) | (near.quarters & ~mask)};
}

/* The sine, `quarters` quarter turns later. */
DLC_FN double
dlc_sin_turn_f64(dlc_angle r, uint64_t quarters)
{
    uint64_t n = r.quarters + quarters;
    double s = dlc_sin_kernel(r.hi, r.lo).hi, c = dlc_cos_kernel(r.hi, r.lo).hi;

    return dlc_from_bits_f64(dlc_bits_f64(n & 1 ? c : s) ^ (n & 2) << 62);
}

DLC_FN double
dlc_tan_turn_f64(dlc_angle r)
{
    dlc_pair s = dlc_sin_kernel(r.hi, r.lo), c = dlc_cos_kernel(r.hi, r.lo);
    uint64_t odd = r.quarters & 1;
    dlc_pair num = {odd ? -c.hi : s.hi, odd ? -c.lo : s.lo};
    dlc_pair den = {odd ? s.hi : c.hi, odd ? s.lo : c.lo}, t = dlc_divide_pair(num, den);

    return t.hi + t.lo;
}

/* r, the sine or tangent of a, but -0 as it is and the tiny, which are their own. */
DLC_FN double
dlc_unless_tiny_f64(double a, double r)
{
    return dlc_blend_f64(dlc_abs_f64(a) < 0x1p-27, a, r);
}

DLC_FN double
dlc_sin_f64(double a)
{
    return dlc_unless_tiny_f64(a, dlc_sin_turn_f64(dlc_angle_of_f64(a), 0));
}

DLC_FN double
dlc_near_sin_f64(double a)
{
    return dlc_unless_tiny_f64(a, dlc_sin_turn_f64(dlc_near_angle_f64(a), 0));
}

DLC_FN double
dlc_tan_f64(double a)
{
    return dlc_unless_tiny_f64(a, dlc_tan_turn_f64(dlc_angle_of_f64(a)));
}

DLC_FN double
dlc_near_tan_f64(double a)
{
    return dlc_unless_tiny_f64(a, dlc_tan_turn_f64(dlc_near_angle_f64(a)));
}

DLC_FN double dlc_cos_f64(double a) { return dlc_sin_turn_f64(dlc_angle_of_f64(a), 1); }
DLC_FN double dlc_near_cos_f64(double a) { return dlc_sin_turn_f64(dlc_near_angle_f64(a), 1); }
DLC_FN uint64_t dlc_far_sin_f64(double a) { return dlc_far_angle_f64(a); }
DLC_FN uint64_t dlc_far_cos_f64(double a) { return dlc_far_angle_f64(a); }
DLC_FN uint64_t dlc_far_tan_f64(double a) { return dlc_far_angle_f64(a); }

/* The angle of (x, y) for y >= 0 and x >= 0, both finite: a multiple of pi/4, which is exact as the
 * constant ends in zeros, and atan(num / den) for |num / den| <= 1/2. */
DLC_FN double
dlc_octants_f64(double y, double x, uint8_t left)
{
    uint8_t flat = y <= 0.5 * x, steep = y > 2 * x;
    double top = (steep ? 0 : y) - (flat ? 0 : x), num = left ? -top : top;
    double sum = (steep ? 0 : x) + (flat ? 0 : y), den = sum == 0 ? 1 : sum, inverse = 1 / den;
    double base = steep ? 2 : flat ? 0 : 1, upper = left ? 4 - base : base;
    double t = num * inverse, t_lo = dlc_less_product(num, t, den) * inverse, z = t * t;
    dlc_pair angle = dlc_quick_sum(upper * 0x1.921fb54442d18p-1, t);
    double rest = DLC_FMA(upper, 0x1.1a62633145c07p-55, t_lo + angle.lo);

    return angle.hi + DLC_FMA(t * z, dlc_poly_atan_f64(z), rest);
}

DLC_FN double
dlc_atan_f64(double a)
{
    double x = dlc_abs_f64(a);

    return dlc_copysign_f64(dlc_octants_f64(x > 0x1p100 ? 0x1p100 : x, 1, 0), a);
}

DLC_FN double
dlc_atan2_f64(double a, double b)
{
    double y = dlc_abs_f64(a), x = dlc_abs_f64(b), top = y > x ? y : x;
    double scale = top > 0x1p1000 ? 0x1p-20 : top < 0x1p-900 ? 0x1p100 : 1;
    uint8_t far = top == dlc_inf;
    double up = far ? y == dlc_inf ? 1 : 0 : y * scale;
    double along = far ? x == dlc_inf ? 1 : 0 : x * scale;
    double r = dlc_octants_f64(up, along, dlc_signbit_f64(b));

    return a != a || b != b ? a + b : dlc_copysign_f64(r, a);
}

/* s + p = asin(s), s being a or, where |a| is big, sqrt((1 - |a|) / 2). */
typedef struct dlc_arc_f64 { double s, p; uint8_t big; } dlc_arc_f64;

/* Beyond 1/2, asin(x) is pi/2 - 2 asin(sqrt((1 - x) / 2)). */
DLC_FN dlc_arc_f64
dlc_reduce_asin_f64(double a)
{
    double x = dlc_abs_f64(a);
    uint8_t big = x > 0.5;
    double z = big ? 0.5 * (1 - x) : x * x, s = big ? dlc_sqrt_f64(z) : a;

    return (dlc_arc_f64){s, s * z * dlc_poly_asin_f64(z), big};
}

DLC_FN double
dlc_asin_f64(double a)
{
    dlc_arc_f64 t = dlc_reduce_asin_f64(a);
    dlc_pair right = dlc_quick_sum(0x1.921fb54442d18p0, -2 * t.s);
    double r = right.hi + (right.lo + DLC_FMA(t.p, -2.0, 0x1.1a62633145c07p-54));

    return dlc_copysign_f64(t.big ? r : t.s + t.p, a);
}

DLC_FN double
dlc_acos_f64(double a)
{
    dlc_arc_f64 t = dlc_reduce_asin_f64(a);
    double left = 0x1.921fb54442d18p1 - (2 * (t.s + t.p) - 0x1.1a62633145c07p-53);
    double middle = 0x1.921fb54442d18p0 - (t.s + (t.p - 0x1.1a62633145c07p-54));

    return t.big ? a < 0 ? left : 2 * (t.s + t.p) : middle;
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
