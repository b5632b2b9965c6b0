/* Distances in units in the last place from references of higher precision: glibc's double functions
 * for float, its long double functions for double.  Loaded by strips.py. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef long double Wide;
typedef Wide (*Ref)(Wide, Wide);

/* What a measurement found; `at` are the operands of the worst. */
typedef struct Worst {
    double ulp;
    double at[2];
    int64_t wrong;              /* NaN, infinity or a zero's sign where the reference has another */
    double wrong_at[2];
} Worst;

#define REF1(name, expr) static Wide ref_##name(Wide a, Wide b) { (void)b; return expr; }
#define REF2(name, expr) static Wide ref_##name(Wide a, Wide b) { return expr; }
#define REFS(f, l) \
    REF1(exp##l,   f(exp)(a))    REF1(exp2##l,  f(exp2)(a))   REF1(expm1##l, f(expm1)(a)) \
    REF1(log##l,   f(log)(a))    REF1(log2##l,  f(log2)(a))   REF1(log10##l, f(log10)(a)) \
    REF1(log1p##l, f(log1p)(a))  REF1(sin##l,   f(sin)(a))    REF1(cos##l,   f(cos)(a)) \
    REF1(tan##l,   f(tan)(a))    REF1(asin##l,  f(asin)(a))   REF1(acos##l,  f(acos)(a)) \
    REF1(atan##l,  f(atan)(a))   REF1(sinh##l,  f(sinh)(a))   REF1(cosh##l,  f(cosh)(a)) \
    REF1(tanh##l,  f(tanh)(a))   REF1(asinh##l, f(asinh)(a))  REF1(acosh##l, f(acosh)(a)) \
    REF1(atanh##l, f(atanh)(a))  REF1(erf##l,   f(erf)(a))    REF1(erfc##l,  f(erfc)(a)) \
    REF1(lgamma##l, f(lgamma)(a)) REF1(sqrt##l, f(sqrt)(a))   REF1(rsqrt##l, 1 / f(sqrt)(a)) \
    REF1(floor##l, f(floor)(a))  REF1(ceil##l,  f(ceil)(a))   REF1(trunc##l, f(trunc)(a)) \
    REF1(round##l, f(rint)(a))   REF1(abs##l,   f(fabs)(a))   REF1(reciprocal##l, 1 / a) \
    REF1(sigmoid##l, a >= 0 ? 1 / (1 + f(exp)(-a)) : f(exp)(a) / (1 + f(exp)(a))) \
    REF2(atan2##l, f(atan2)(a, b)) REF2(pow##l, f(pow)(a, b)) REF2(hypot##l, f(hypot)(a, b)) \
    REF2(fmod##l,  f(fmod)(a, b))
#define NARROW(name) (double)name
#define WIDE(name) name##l
REFS(NARROW, )
REFS(WIDE, l)

/* Newton's method on the smaller tail, from a start by bisection on the exponent. */
static Wide
ref_erfinvl(Wide a, Wide b)
{
    Wide x = fabsl(a), y = 0, step = 4;

    (void)b;
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

static Wide ref_erfinv(Wide a, Wide b) { return ref_erfinvl(a, b); }

typedef struct Row {
    const char *name;
    Ref narrow, wide;
} Row;

static const Row rows[] = {
#define ROW(name) {#name, ref_##name, ref_##name##l}
    ROW(exp), ROW(exp2), ROW(expm1), ROW(log), ROW(log2), ROW(log10), ROW(log1p), ROW(sin), ROW(cos),
    ROW(tan), ROW(asin), ROW(acos), ROW(atan), ROW(sinh), ROW(cosh), ROW(tanh), ROW(asinh),
    ROW(acosh), ROW(atanh), ROW(erf), ROW(erfc), ROW(erfinv), ROW(lgamma), ROW(sigmoid), ROW(sqrt),
    ROW(rsqrt), ROW(reciprocal), ROW(floor), ROW(ceil), ROW(trunc), ROW(round), ROW(abs),
    ROW(atan2), ROW(pow), ROW(hypot), ROW(fmod),
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

/* The distance of got from want in units of a format with `digits` bits and least exponent `least`,
 * or -1 for a wrong NaN, infinity or zero.  Infinity counts as the power of two after the largest. */
static double
distance(Wide got, Wide want, int digits, int least, int greatest)
{
    int exponent;

    if (isnan(got) || isnan(want)) {
        return isnan(got) && isnan(want) ? 0 : -1;
    }
    if (!isinf(want) && fabsl(want) > ldexpl(1, greatest)) {
        want = copysignl(INFINITY, want);
    }
    if (isinf(want) || got == want) {
        return got == want && signbit(got) == signbit(want) ? 0 : -1;
    }
    if (isinf(got)) {
        got = copysignl(ldexpl(1, greatest), got);
    }
    frexpl(want, &exponent);
    int unit = exponent - digits < least ? least : exponent - digits;
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

/* Adds to *worst what got[i] = name(a[i], b[i]) is off by; b may be NULL.  0: no such function. */
int
measure_f32(const char *name, const float *a, const float *b, const float *got, int64_t n,
            Worst *worst)
{
    const Row *row = find(name);

    for (int64_t i = 0; row && i < n; i++) {
        Wide want = row->narrow(a[i], b ? b[i] : 0);
        note(worst, distance(got[i], want, 24, -149, 128), a[i], b ? b[i] : 0);
    }
    return row != NULL;
}

int
measure_f64(const char *name, const double *a, const double *b, const double *got, int64_t n,
            Worst *worst)
{
    const Row *row = find(name);

    for (int64_t i = 0; row && i < n; i++) {
        Wide want = row->wide(a[i], b ? b[i] : 0);
        note(worst, distance(got[i], want, 53, -1074, 1024), a[i], b ? b[i] : 0);
    }
    return row != NULL;
}
