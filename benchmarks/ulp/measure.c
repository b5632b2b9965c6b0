/* Distances in units in the last place from references of higher precision: the C library's double
 * functions for float, its long double functions for double.  Loaded by strips.py.
 *
 * The float side runs over all 2**32 operands, so it takes the vector forms of the double functions
 * (libmvec: at most 4 ulp of a double, 1e-8 ulp of a float).  glibc's math.h declares those that it
 * has only to programs for fast arithmetic, which this is not: what it says of itself is for that
 * header alone. */
#define __FAST_MATH__ 1
#include <math.h>
#undef __FAST_MATH__
#include <stdint.h>
#include <string.h>

enum { BLOCK = 512 };

typedef long double Wide;

/* What a measurement found; `at` are the operands of the worst. */
typedef struct Worst {
    double ulp;
    double at[2];
    int64_t wrong;              /* NaN, infinity or a zero's sign where the reference has another */
    double wrong_at[2];
} Worst;

/* X(name, the exact result of operands a and b); F makes a function's name that of its
 * precision. */
#define REFERENCES(X, F) \
    X(exp,   F(exp)(a))    X(exp2,  F(exp2)(a))   X(expm1, F(expm1)(a))  X(log,   F(log)(a)) \
    X(log2,  F(log2)(a))   X(log10, F(log10)(a))  X(log1p, F(log1p)(a))  X(sin,   F(sin)(a)) \
    X(cos,   F(cos)(a))    X(tan,   F(tan)(a))    X(asin,  F(asin)(a))   X(acos,  F(acos)(a)) \
    X(atan,  F(atan)(a))   X(sinh,  F(sinh)(a))   X(cosh,  F(cosh)(a))   X(tanh,  F(tanh)(a)) \
    X(asinh, F(asinh)(a))  X(acosh, F(acosh)(a))  X(atanh, F(atanh)(a))  X(erf,   F(erf)(a)) \
    X(erfc,  F(erfc)(a))   X(lgamma, F(lgamma)(a)) X(sqrt, F(sqrt)(a))   X(rsqrt, 1 / F(sqrt)(a)) \
    X(floor, F(floor)(a))  X(ceil,  F(ceil)(a))   X(trunc, F(trunc)(a))  X(round, F(rint)(a)) \
    X(abs,   F(fabs)(a))   X(reciprocal, 1 / a) \
    X(sigmoid, (a >= 0 ? 1 : F(exp)(a)) / (1 + F(exp)(-F(fabs)(a)))) \
    X(atan2, F(atan2)(a, b)) X(pow, F(pow)(a, b)) X(hypot, F(hypot)(a, b)) X(fmod, F(fmod)(a, b)) \
    X(erfinv, erfinv_##F(a))

#define NARROW(name) name
#define WIDE(name) name##l

/* Winitzki's estimate (2e-3) and three of Halley's steps, which cube the error, on the smaller
 * tail. */
static inline double
erfinv_NARROW(double a)
{
    double x = fabs(a), log = log1p(-x * x), t = 4.33075 + 0.5 * log;
    double y = sqrt(sqrt(t * t - log * 6.802721) - t);

    for (int k = 0; k < 3; k++) {
        double miss = x < 0.5 ? erf(y) - x : (1 - x) - erfc(y);
        double step = miss * 0.886226925452758014 * exp(y * y);
        y -= step / (1 + y * step);
    }
    return copysign(x < 1 ? y : x == 1 ? INFINITY : NAN, a);
}

/* Newton's method on the smaller tail, from a start by bisection on the exponent. */
static Wide
erfinv_WIDE(Wide a)
{
    Wide x = fabsl(a), y = 0, step = 4;

    if (!(x < 1)) {
        return x == 1 ? copysignl(INFINITY, a) : NAN;
    }
    for (int k = 0; k < 24; k++, step /= 2) {
        y += erfcl(y + step) > 1 - x ? step : 0;
    }
    for (int k = 0; k < 4; k++) {
        Wide miss = x < 0.5L ? x - erfl(y) : erfcl(y) - (1 - x);
        y += miss * 0.886226925452758013649084L * expl(y * y);
    }
    return copysignl(y, a);
}

#define NARROW_BLOCK(name, expr) \
    static void \
    narrow_##name(const double *x, const double *y, double *want) \
    { \
        _Pragma("omp simd") \
        for (int i = 0; i < BLOCK; i++) { \
            double a = x[i], b = y[i]; \
            (void)b; \
            want[i] = expr; \
        } \
    }
#define WIDE_FUNCTION(name, expr) \
    static Wide \
    wide_##name(Wide a, Wide b) \
    { \
        (void)b; \
        return expr; \
    }
REFERENCES(NARROW_BLOCK, NARROW)
REFERENCES(WIDE_FUNCTION, WIDE)

typedef struct Row {
    const char *name;
    void (*narrow)(const double *x, const double *y, double *want);
    Wide (*wide)(Wide a, Wide b);
} Row;

static const Row rows[] = {
#define ROW(name, expr) {#name, narrow_##name, wide_##name},
    REFERENCES(ROW, NARROW)
};

static const Row *
find(const char *name)
{
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        if (strcmp(rows[k].name, name) == 0) {
            return &rows[k];
        }
    }
    return NULL;
}

/* The distance of got from want in units of float's last place, or -1 for a wrong NaN, infinity or
 * zero.  Infinity counts as the power of two after the largest.  Without branches. */
static inline double
distance_f32(double got, double want)
{
    want = fabs(want) > 0x1p128 ? copysign(INFINITY, want) : want;
    int64_t bits, scale_bits;
    memcpy(&bits, &want, sizeof bits);
    int64_t unit = (bits >> 52 & 0x7ff) - 1022 - 24;
    scale_bits = (1023 - (unit < -149 ? -149 : unit)) << 52;
    double scale, near = fabs(got) == INFINITY ? copysign(0x1p128, got) : got;
    memcpy(&scale, &scale_bits, sizeof scale);
    double d = fabs(near - want) * scale;
    d = fabs(want) == INFINITY ? -1 : d;
    d = got == want ? copysign(1, got) == copysign(1, want) ? 0 : -1 : d;
    return got != got || want != want ? got != got && want != want ? 0 : -1 : d;
}

/* The same in long double, for double. */
static double
distance_f64(Wide got, Wide want)
{
    enum { DIGITS = 53, LEAST = -1074, GREATEST = 1024 };
    int exponent;

    if (isnan(got) || isnan(want)) {
        return isnan(got) && isnan(want) ? 0 : -1;
    }
    if (!isinf(want) && fabsl(want) > ldexpl(1, GREATEST)) {
        want = copysignl(INFINITY, want);
    }
    if (isinf(want) || got == want) {
        return got == want && signbit(got) == signbit(want) ? 0 : -1;
    }
    if (isinf(got)) {
        got = copysignl(ldexpl(1, GREATEST), got);
    }
    frexpl(want, &exponent);
    int unit = exponent - DIGITS < LEAST ? LEAST : exponent - DIGITS;
    return (double)ldexpl(fabsl(got - want), -unit);
}

static void
note(Worst *worst, double d, double a, double b)
{
    if (d < 0) {
        worst->wrong++;
        worst->wrong_at[0] = a;
        worst->wrong_at[1] = b;
    }
    else if (d > worst->ulp) {
        worst->ulp = d;
        worst->at[0] = a;
        worst->at[1] = b;
    }
}

/* Notes every of m distances; mostly none is to be noted, which a loop over vectors finds. */
static void
note_block(Worst *worst, const double *d, const double *x, const double *y, int64_t m)
{
    int news = 0;

    for (int64_t i = 0; i < m; i++) {
        news |= (d[i] < 0) | (d[i] > worst->ulp);
    }
    for (int64_t i = 0; news && i < m; i++) {
        note(worst, d[i], x[i], y[i]);
    }
}

/* Adds to worst[k] what made[k][i] = name(a[i], b[i]) is off by, for `count` results k of n
 * elements each; b may be NULL.  0: no such function. */
int
measure_f32(const char *name, const float *a, const float *b, const float *const *made, int count,
            int64_t n, Worst *worst)
{
    const Row *row = find(name);
    double x[BLOCK], y[BLOCK] = {0}, want[BLOCK], d[BLOCK];

    for (int64_t at = 0; row && at < n; at += BLOCK) {
        int64_t m = n - at < BLOCK ? n - at : BLOCK;
        for (int64_t i = 0; i < BLOCK; i++) {
            x[i] = i < m ? a[at + i] : 1;
            y[i] = b ? i < m ? b[at + i] : 1 : 0;
        }
        row->narrow(x, y, want);
        for (int k = 0; k < count; k++) {
            const float *got = made[k] + at;
            for (int64_t i = 0; i < m; i++) {
                d[i] = distance_f32(got[i], want[i]);
            }
            note_block(worst + k, d, x, y, m);
        }
    }
    return row != NULL;
}

int
measure_f64(const char *name, const double *a, const double *b, const double *const *made,
            int count, int64_t n, Worst *worst)
{
    const Row *row = find(name);

    for (int64_t i = 0; row && i < n; i++) {
        Wide want = row->wide(a[i], b ? b[i] : 0);
        for (int k = 0; k < count; k++) {
            note(worst + k, distance_f64(made[k][i], want), a[i], b ? b[i] : 0);
        }
    }
    return row != NULL;
}
