/* What the sums of csrc/codegen/micro/micro.h are, element by element.  FUSED is 0 for SSE2. */
#include "ir/math/prelude.h"

#define FMA_f32(a, b, c) (FUSED ? __builtin_fmaf(a, b, c) : (a) * (b) + (c))
#define FMA_f64(a, b, c) (FUSED ? __builtin_fma(a, b, c) : (a) * (b) + (c))
#define FMA_i32(a, b, c) ((int32_t)((uint32_t)(a) * (uint32_t)(b) + (uint32_t)(c)))
#define FMA_i64(a, b, c) ((int64_t)((uint64_t)(a) * (uint64_t)(b) + (uint64_t)(c)))
#ifndef DLC_ISA /* else the text of the microkernels has them */
#define LOAD_bf16(x) dlc_load_bf16(x)
#define LOAD_f16(x) dlc_load_f16(x)
#define LOAD_f32(x) (x)
#define LOAD_f64(x) (x)
#define LOAD_u8(x) (x)
#define LOAD_i8(x) (x)
#define LOAD_i16(x) (x)
#define LOAD_i32(x) (x)
#define LOAD_i64(x) (x)
typedef float sum_f32;
typedef double sum_f64;
typedef int32_t sum_i32;
typedef int64_t sum_i64;
#endif

typedef struct Matrix {
    const void *at;
    int64_t row, column;
} Matrix;

/* tile[i][j] = the sum of a[i][p] * b[p][j], or that added to what is there. */
#define MICRO(dtype, S, s, width, panel) \
    void reference_##dtype(int64_t rows, int64_t k, int64_t columns, const Matrix *a, \
                           const Matrix *b, sum_##s *tile, int64_t more); \
    void reference_##dtype(int64_t rows, int64_t k, int64_t columns, const Matrix *a, \
                           const Matrix *b, sum_##s *tile, int64_t more) \
    { \
        const S *x = a->at, *y = b->at; \
        for (int64_t i = 0; i < rows; i++) { \
            for (int64_t j = 0; j < columns; j++) { \
                sum_##s value = more ? tile[i * columns + j] : 0; \
                for (int64_t p = 0; p < k; p += 256) { \
                    sum_##s chain = 0; \
                    for (int64_t q = p; q < k && q < p + 256; q++) { \
                        chain = FMA_##s((sum_##s)LOAD_##dtype(x[i * a->row + q * a->column]), \
                                        (sum_##s)LOAD_##dtype(y[q * b->row + j * b->column]), \
                                        chain); \
                    } \
                    value = p || more ? (sum_##s)(value + chain) : chain; \
                } \
                tile[i * columns + j] = value; \
            } \
        } \
    }
#include "codegen/micro/micro.def"
