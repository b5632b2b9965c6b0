/* Vectors of one instruction set: their length, how many sums a kernel holds in registers, the
 * fused multiply-add.
 *
 * The multiply-add is the instruction itself: gcc sees through a loop of __builtin_fmaf over the
 * lanes and makes loads and extracts of single elements of it. */
#ifndef DLC_MICRO_VECTOR_H
#define DLC_MICRO_VECTOR_H

#include "ir/math/prelude.h"

#if defined(__AVX512F__) || DLC_HAS_FMA && defined(__x86_64__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

/* VECTOR    bytes of a vector
 * WIDTH     vectors of a row of the kernel for many rows
 * HEIGHT    rows that it has: HEIGHT * WIDTH sums and what one step needs fill the registers
 * FULL      heights at which a kernel as wide as a panel takes no more registers than that
 * THIN      the same of a kernel of one vector, for the last columns
 * FEW       rows of the kernel that transposes columns in registers, up to 8
 * TOGETHER  vectors of columns that it has
 * WHOLE_LINES  it reads a line of each column at once
 * HALVES    the last columns of a panel, if they fit in half a vector, have kernels of such halves:
 *           a processor takes half the time for them, or multiplies two of them at once
 * Integers need a register or two for the product, and more where the set has no such
 * multiplication. */
#if defined(__AVX512F__)
enum {
    VECTOR = 64,
    WIDTH = 2,
    HEIGHT = 14,
    FULL = 14,
    THIN = 14,
    HEIGHT_i32 = 13,
    FULL_i32 = 13,
    THIN_i32 = 14,
    HEIGHT_i64 = 13,
    FULL_i64 = 13,
    THIN_i64 = 14
};
#elif defined(__AVX2__)
enum {
    VECTOR = 32,
    WIDTH = 2,
    HEIGHT = 6,
    FULL = 3,
    THIN = 14,
    HEIGHT_i32 = 5,
    FULL_i32 = 2,
    THIN_i32 = 10,
    HEIGHT_i64 = 3,
    FULL_i64 = 1,
    THIN_i64 = 6
};
#elif defined(__aarch64__)
enum {
    VECTOR = 16,
    WIDTH = 4,
    HEIGHT = 6,
    FULL = 2,
    THIN = 14,
    HEIGHT_i32 = 6,
    FULL_i32 = 2,
    THIN_i32 = 14,
    HEIGHT_i64 = 3,
    FULL_i64 = 1,
    THIN_i64 = 14
};
#else
enum {
    VECTOR = 16,
    WIDTH = 2,
    HEIGHT = 4,
    FULL = 1,
    THIN = 8,
    HEIGHT_i32 = 3,
    FULL_i32 = 1,
    THIN_i32 = 6,
    HEIGHT_i64 = 2,
    FULL_i64 = 1,
    THIN_i64 = 4
};
#endif
#if defined(__AVX512F__)
#define HALVES 1
#else
#define HALVES 0
#endif
enum {
    HEIGHT_f32 = HEIGHT,
    FULL_f32 = FULL,
    THIN_f32 = THIN,
    HEIGHT_f64 = HEIGHT,
    FULL_f64 = FULL,
    THIN_f64 = THIN
};
/* With AVX-512 a line of each column waits in registers, in half of them; no second vector's would
 * fit. */
#if defined(__AVX512F__)
enum { WHOLE_LINES = 1, TOGETHER = 1, FEW_f32 = 8, FEW_f64 = 8, FEW_i32 = 1, FEW_i64 = 1 };
#else
enum { WHOLE_LINES = 0, TOGETHER = WIDTH, FEW_f32 = 4, FEW_f64 = 2, FEW_i32 = 1, FEW_i64 = 1 };
#endif

/* Of any alignment, and of any type in memory: integers of 64 bits are `long` or `long long`. */
#define VECTORS(dtype, T) \
    typedef T lane_##dtype __attribute__((vector_size(16), aligned(sizeof(T)), may_alias)); \
    typedef T vec_##dtype __attribute__((vector_size(VECTOR), aligned(sizeof(T)), may_alias)); \
    typedef T half_vec_##dtype \
        __attribute__((vector_size(VECTOR / 2), aligned(sizeof(T)), may_alias)); \
    DLC_FN vec_##dtype splat_##dtype(T x) { return x - (vec_##dtype){0}; } \
    DLC_FN half_vec_##dtype half_splat_##dtype(T x) { return x - (half_vec_##dtype){0}; }
VECTORS(f32, float)
VECTORS(f64, double)
VECTORS(i32, int32_t)
VECTORS(i64, int64_t)
typedef int32_t int32_unaligned __attribute__((aligned(1), may_alias));

#define MULTIPLY_ADD(dtype, value) MULTIPLY_ADD_OF(fma_##dtype, vec_##dtype, value)
#define MULTIPLY_ADD_OF(name, vec, value) \
    DLC_FN vec \
    name(vec a, vec b, vec c) \
    { \
        return (vec)(value); \
    }
/* The sum stays in its register.  With the builtin gcc may put it where a factor was and move it
 * back, and spills. */
#define MULTIPLY_ADD_IN_PLACE(dtype, instruction, r) \
    MULTIPLY_ADD_IN_PLACE_OF(fma_##dtype, vec_##dtype, instruction, r)
#define MULTIPLY_ADD_IN_PLACE_OF(name, vec, instruction, r) \
    DLC_FN vec \
    name(vec a, vec b, vec c) \
    { \
        __asm__(instruction : "+" r(c) : r(a), r(b)); \
        return c; \
    }
MULTIPLY_ADD(i32, a * b + c)
MULTIPLY_ADD(i64, a * b + c)
#if defined(MICRO_EMULATED)
MULTIPLY_ADD(f32, _mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c))
MULTIPLY_ADD(f64, _mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c))
#elif defined(__x86_64__) && DLC_HAS_FMA
MULTIPLY_ADD_IN_PLACE(f32, "vfmadd231ps %2, %1, %0", "v")
MULTIPLY_ADD_IN_PLACE(f64, "vfmadd231pd %2, %1, %0", "v")
#elif defined(__aarch64__)
MULTIPLY_ADD_IN_PLACE(f32, "fmla %0.4s, %1.4s, %2.4s", "w")
MULTIPLY_ADD_IN_PLACE(f64, "fmla %0.2d, %1.2d, %2.2d", "w")
#else
MULTIPLY_ADD(f32, a * b + c)
MULTIPLY_ADD(f64, a * b + c)
#endif

#if HALVES
MULTIPLY_ADD_OF(half_fma_i32, half_vec_i32, a * b + c)
MULTIPLY_ADD_OF(half_fma_i64, half_vec_i64, a * b + c)
#if defined(MICRO_EMULATED)
MULTIPLY_ADD_OF(half_fma_f32, half_vec_f32, _mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c))
MULTIPLY_ADD_OF(half_fma_f64, half_vec_f64, _mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c))
#else
MULTIPLY_ADD_IN_PLACE_OF(half_fma_f32, half_vec_f32, "vfmadd231ps %2, %1, %0", "v")
MULTIPLY_ADD_IN_PLACE_OF(half_fma_f64, half_vec_f64, "vfmadd231pd %2, %1, %0", "v")
#endif
#endif

/* The same, of one element in memory for all lanes: where it is multiplied by one vector only, its
 * splat would take a register and an operation more. */
#define MULTIPLY_ADD_AT(dtype, T) \
    DLC_FN vec_##dtype \
    fma_at_##dtype(const T *a, vec_##dtype b, vec_##dtype c) \
    { \
        return fma_##dtype(splat_##dtype(*a), b, c); \
    }
#define MULTIPLY_ADD_IN_PLACE_AT(dtype, T, instruction) \
    DLC_FN vec_##dtype \
    fma_at_##dtype(const T *a, vec_##dtype b, vec_##dtype c) \
    { \
        __asm__(instruction : "+v"(c) : "m"(*a), "v"(b)); \
        return c; \
    }
#if defined(__AVX512F__) && !defined(MICRO_EMULATED)
MULTIPLY_ADD_IN_PLACE_AT(f32, float, "vfmadd231ps %1%{1to16%}, %2, %0")
MULTIPLY_ADD_IN_PLACE_AT(f64, double, "vfmadd231pd %1%{1to8%}, %2, %0")
#else
MULTIPLY_ADD_AT(f32, float)
MULTIPLY_ADD_AT(f64, double)
#endif
MULTIPLY_ADD_AT(i32, int32_t)
MULTIPLY_ADD_AT(i64, int64_t)

/* Loops of constant counts over arrays that are to become registers. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif

/* Four rows of A or B, or four panels, from one pointer: the processor's addresses add a stride or
 * twice a stride. */
#define OF_FOUR(base, i, stride, three) \
    ((i) % 4 == 3 ? (base) + (three) : (base) + (i) % 4 * (stride))
/* Hides from the compiler how a pointer goes on: else it makes a pointer of each address, more than
 * there are registers for, or a second loop for a stride of 1. */
#define OPAQUE(pointer) __asm__("" : "+r"(pointer))
/* The same, and what is read there waits for a vector. */
#if defined(__aarch64__)
#define OPAQUE_AFTER(pointer, vector) __asm__("" : "+r"(pointer) : "w"(vector))
#elif defined(__x86_64__) && !defined(MICRO_EMULATED)
#define OPAQUE_AFTER(pointer, vector) __asm__("" : "+r"(pointer) : "v"(vector))
#else
#define OPAQUE_AFTER(pointer, vector) __asm__("" : "+r"(pointer) : "m"(vector))
#endif

/* ---- transposes ----
 *
 * square_<dtype>(r, from, step, step_3) reads 16 bytes of each of VECTOR / sizeof(T) rows: r[p]
 * becomes element p of all of them.  from[l] is the first one of the rows of lane l, which has 128
 * bits; its others are `step` bytes apart, and step_3 is three steps.  So the loads put lanes where
 * they belong, and only shuffles inside of lanes remain. */

#define LANE(l) ((__m128)*(const lane_f32 *)OF_FOUR(from[l], k, step, step_3))
#if defined(__AVX512F__)
DLC_FN vec_f32
lanes(const char *const *from, const int k, int64_t step, int64_t step_3)
{
    __m512 v = _mm512_castps128_ps512(LANE(0));
    v = _mm512_insertf32x4(v, LANE(1), 1);
    v = _mm512_insertf32x4(v, LANE(2), 2);
    return (vec_f32)_mm512_insertf32x4(v, LANE(3), 3);
}
#define LOW_4 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define HIGH_4 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define LOW_8 0, 8, 2, 10, 4, 12, 6, 14
#define HIGH_8 1, 9, 3, 11, 5, 13, 7, 15
#elif defined(__AVX2__)
DLC_FN vec_f32
lanes(const char *const *from, const int k, int64_t step, int64_t step_3)
{
    return (vec_f32)_mm256_insertf128_ps(_mm256_castps128_ps256(LANE(0)), LANE(1), 1);
}
#define LOW_4 0, 8, 1, 9, 4, 12, 5, 13
#define HIGH_4 2, 10, 3, 11, 6, 14, 7, 15
#define LOW_8 0, 4, 2, 6
#define HIGH_8 1, 5, 3, 7
#else
DLC_FN vec_f32
lanes(const char *const *from, const int k, int64_t step, int64_t step_3)
{
    return *(const lane_f32 *)OF_FOUR(from[0], k, step, step_3);
}
#define LOW_4 0, 4, 1, 5
#define HIGH_4 2, 6, 3, 7
#define LOW_8 0, 2
#define HIGH_8 1, 3
#endif
#undef LANE

/* Transposes the squares in the lanes of some vectors. */
DLC_FN void
in_lanes_8(vec_f64 *r, const vec_f64 *a)
{
    r[0] = DLC_ZIP(a[0], a[1], LOW_8);
    r[1] = DLC_ZIP(a[0], a[1], HIGH_8);
}

DLC_FN void
in_lanes_4(vec_f32 *r, const vec_f32 *a)
{
    vec_f32 low, high;
    vec_f64 b[4];

    UNROLL for (int k = 0; k < 2; k++) {
        low = DLC_ZIP(a[2 * k], a[2 * k + 1], LOW_4);
        high = DLC_ZIP(a[2 * k], a[2 * k + 1], HIGH_4);
        b[k] = (vec_f64)low, b[k + 2] = (vec_f64)high;
    }
    UNROLL for (int k = 0; k < 2; k++) {
        r[2 * k] = (vec_f32)DLC_ZIP(b[2 * k], b[2 * k + 1], LOW_8);
        r[2 * k + 1] = (vec_f32)DLC_ZIP(b[2 * k], b[2 * k + 1], HIGH_8);
    }
}

/* part[q] becomes bytes 16 * q to 16 * q + 15 of row k of each lane.  So a line is read once: the
 * rows of all lanes may be more lines than a set of the cache has room for. */
#if defined(__AVX512F__)
DLC_FN void
line_at(vec_f64 *part, const char **from, const int k, int64_t step, int64_t step_3)
{
    vec_f64 low[2], high[2];

    UNROLL for (int l = 0; l < 2; l++) {
        vec_f64 x = *(const vec_f64 *)OF_FOUR(from[2 * l], k, step, step_3),
                y = *(const vec_f64 *)OF_FOUR(from[2 * l + 1], k, step, step_3);
        low[l] = DLC_ZIP(x, y, 0, 1, 2, 3, 8, 9, 10, 11);
        high[l] = DLC_ZIP(x, y, 4, 5, 6, 7, 12, 13, 14, 15);
        UNROLL for (int n = 0; n < 4; n++) {
            OPAQUE_AFTER(from[n], high[l]);     /* lines that wait would take registers */
        }
    }
    part[0] = DLC_ZIP(low[0], low[1], 0, 1, 4, 5, 8, 9, 12, 13);
    part[1] = DLC_ZIP(low[0], low[1], 2, 3, 6, 7, 10, 11, 14, 15);
    part[2] = DLC_ZIP(high[0], high[1], 0, 1, 4, 5, 8, 9, 12, 13);
    part[3] = DLC_ZIP(high[0], high[1], 2, 3, 6, 7, 10, 11, 14, 15);
}
#else
DLC_FN void
line_at(vec_f64 *part, const char **from, const int k, int64_t step, int64_t step_3)
{
    (void)part, (void)from, (void)k, (void)step, (void)step_3;
}
#endif

#define SQUARE(dtype, bytes, same) \
    DLC_FN void \
    in_lanes_##dtype(vec_##dtype *r, const vec_##dtype *a) \
    { \
        vec_##same x[16 / bytes], y[16 / bytes]; \
        UNROLL for (int p = 0; p < 16 / bytes; p++) { \
            x[p] = (vec_##same)a[p]; \
        } \
        in_lanes_##bytes(y, x); \
        UNROLL for (int p = 0; p < 16 / bytes; p++) { \
            r[p] = (vec_##dtype)y[p]; \
        } \
    } \
    DLC_FN void \
    square_##dtype(vec_##dtype *r, const char *const *from, int64_t step, int64_t step_3) \
    { \
        UNROLL for (int k = 0; k < 16 / bytes; k++) { \
            r[k] = (vec_##dtype)lanes(from, k, step, step_3); \
        } \
        in_lanes_##dtype(r, r); \
    } \
    DLC_FN void \
    lines_##dtype(vec_##dtype *r, const char **from, int64_t step, int64_t step_3) \
    { \
        UNROLL for (int k = 0; WHOLE_LINES && k < 16 / bytes; k++) { \
            vec_f64 part[4]; \
            line_at(part, from, k, step, step_3); \
            UNROLL for (int q = 0; q < 4; q++) { \
                r[q * (16 / bytes) + k] = (vec_##dtype)part[q]; \
            } \
        } \
    }
SQUARE(f32, 4, f32)
SQUARE(f64, 8, f64)
SQUARE(i32, 4, f32)
SQUARE(i64, 8, f64)

#endif
