/* The functions that an exported program has in place of the C library's, against those.
 *
 * Compiled for a processor without fused multiply-adds, behind csrc/codegen/export/runtime.h;
 * -DDLC_DIGITS takes the square root by digits. */
#undef fma
#undef fmaf
#undef sqrt
#undef sqrtf
#undef rint
#undef rintf
#undef trunc
#undef truncf
#undef floor
#undef floorf
#include <math.h>
#include <stdio.h>
#include <string.h>

static uint64_t state = 88172645463325252u;

static uint64_t
bits(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1du;
}

/* Of any kind: those near 1, near one another, tiny, huge, whole, zero, infinite, NaN. */
static double
number(void)
{
    static const double special[] = {0.0,    -0.0,     1.0,       -1.0,     INFINITY,
                                     NAN,    0x1p-1074, 0x1p-1022, 0x1p1023, 0.5};
    uint64_t some = bits(), exponent = (bits() >> 40) % 5;
    if (bits() % 16 == 0) {
        return special[bits() % 10];
    }
    if (exponent < 3) {
        some = (some & ~((uint64_t)0x7ff << 52)) | (1023 - 30 + (bits() >> 20) % 60) << 52;
    } else if (exponent == 3) {
        some &= ~((uint64_t)0x7e0 << 52);
    }
    double a;
    memcpy(&a, &some, sizeof a);
    return bits() % 8 == 0 && fabs(a) < 1e15 ? (double)(int64_t)a : a;
}

static float
narrow(void)
{
    uint32_t some = (uint32_t)(bits() >> 32);
    float a;
    memcpy(&a, &some, sizeof a);
    return bits() % 2 ? (float)number() : a;
}

static int
same(double a, double b)
{
    return (a != a && b != b) || (a == b && signbit(a) == signbit(b));
}

#define CHECK(name, got, wanted, a, b, c) \
    do { \
        double g = (double)(got), w = (double)(wanted); \
        if (!same(g, w)) { \
            printf("%s(%a, %a, %a) is %a, not %a\n", name, a, b, c, g, w); \
            return 1; \
        } \
    } while (0)

int
main(void)
{
    for (int k = 0; k < 400000; k++) {
        double a = number(), b = number(), c = k % 3 ? number() : -a * b * (1 + 0x1p-52 * (k % 7));
        float x = narrow(), y = narrow(), z = k % 3 ? narrow() : -x * y;
        CHECK("fma", dlc_own_fma(a, b, c), fma(a, b, c), a, b, c);
        CHECK("fmaf", dlc_own_fmaf(x, y, z), fmaf(x, y, z), x, y, z);
        CHECK("sqrt", dlc_own_root(a), sqrt(a), a, 0.0, 0.0);
        CHECK("sqrtf", dlc_own_rootf(x), sqrtf(x), x, 0.0, 0.0);
        CHECK("rint", dlc_own_round(a), rint(a), a, 0.0, 0.0);
        CHECK("rintf", dlc_own_roundf(x), rintf(x), x, 0.0, 0.0);
        CHECK("trunc", dlc_own_trunc(a), trunc(a), a, 0.0, 0.0);
        CHECK("truncf", dlc_own_truncf(x), truncf(x), x, 0.0, 0.0);
        CHECK("floor", dlc_own_floor(a), floor(a), a, 0.0, 0.0);
        CHECK("floorf", dlc_own_floorf(x), floorf(x), x, 0.0, 0.0);
        CHECK("copysign", dlc_own_copysign(a, b), copysign(a, b), a, b, 0.0);
        CHECK("copysignf", dlc_own_copysignf(x, y), copysignf(x, y), x, y, 0.0);
        CHECK("fabs", dlc_own_fabs(a), fabs(a), a, 0.0, 0.0);
        CHECK("fabsf", dlc_own_fabsf(x), fabsf(x), x, 0.0, 0.0);
    }
    return 0;
}
