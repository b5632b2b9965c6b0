/* The AVX-512 intrinsics that the microkernels use, for a processor that has only AVX2: found in
 * front of the compiler's own header by a build with __AVX512F__ defined and -mavx2 -mfma. */
#undef __AVX512F__
#include_next <immintrin.h>
#define __AVX512F__ 1

#define EACH_HALF(type, half, value) \
    union { \
        type whole; \
        half part[2]; \
    } x = {a}, y = {b}, z = {c}; \
    for (int k = 0; k < 2; k++) { \
        z.part[k] = value(x.part[k], y.part[k], z.part[k]); \
    } \
    return z.whole;

static inline __attribute__((always_inline)) __m512
emulated_fmadd_ps(__m512 a, __m512 b, __m512 c)
{
    EACH_HALF(__m512, __m256, _mm256_fmadd_ps)
}

static inline __attribute__((always_inline)) __m512d
emulated_fmadd_pd(__m512d a, __m512d b, __m512d c)
{
    EACH_HALF(__m512d, __m256d, _mm256_fmadd_pd)
}

static inline __attribute__((always_inline)) __m512
emulated_insertf32x4(__m512 a, __m128 b, int lane)
{
    __builtin_memcpy((char *)&a + 16 * lane, &b, 16);
    return a;
}

static inline __attribute__((always_inline)) __m512
emulated_castps128_ps512(__m128 a)
{
    __m512 whole = {0};

    return emulated_insertf32x4(whole, a, 0);
}

#undef _mm512_fmadd_ps
#undef _mm512_fmadd_pd
#undef _mm512_insertf32x4
#undef _mm512_castps128_ps512
#define _mm512_fmadd_ps emulated_fmadd_ps
#define _mm512_fmadd_pd emulated_fmadd_pd
#define _mm512_insertf32x4 emulated_insertf32x4
#define _mm512_castps128_ps512 emulated_castps128_ps512
