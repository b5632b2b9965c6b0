/* The microkernels of one instruction set against reference.c, in a program of its own: for a
 * processor that an emulator stands for.  Prints the first difference and returns 1. */
#include "codegen/micro/micro_isa.c"
#include "reference.c"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_K = 1100, PANELS_TESTED = 3 };

static uint64_t state = 1;

static uint64_t
next_random(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

/* Numbers of few bits would be exact in any order; these are not. */
#define FLOATS(dtype, S, make) \
    static S \
    random_##dtype(void) \
    { \
        double x = ((double)next_random() / 0x1p30 - 1) * (next_random() % 8 ? 1 : 64); \
        return make; \
    }
FLOATS(f32, float, (float)x)
FLOATS(f64, double, x)
FLOATS(bf16, uint16_t, dlc_store_bf16((float)x))
FLOATS(f16, uint16_t, dlc_store_f16((float)x))
#define INTEGERS(dtype, S) \
    static S \
    random_##dtype(void) \
    { \
        return (S)(next_random() << 32 ^ next_random()); \
    }
INTEGERS(u8, uint8_t)
INTEGERS(i8, int8_t)
INTEGERS(i16, int16_t)
INTEGERS(i32, int32_t)
INTEGERS(i64, int64_t)

static int
differ(const char *what, const char *dtype, int64_t rows, int64_t k, const void *made,
       const void *want, size_t size)
{
    if (memcmp(made, want, size) == 0) {
        return 0;
    }
    printf("%s_%s of %ld rows and %ld steps\n", what, dtype, (long)rows, (long)k);
    return 1;
}

#define HELD_SUMS(S, s) sum_##s
#define HELD_BYTES(S, s) S
/* A by rows, B by columns of k adjacent elements. */
#define MICRO(dtype, S, s, width, panel) \
    static int test_##dtype(int64_t rows, int64_t k) \
    { \
        enum { W = width, N = W * PANELS_TESTED }; \
        static S a[MICRO_ROWS * MOST_K], b[N * MOST_K]; \
        static HELD_##panel(S, s) panels[PANELS_TESTED][MOST_K * W]; \
        static sum_##s made[MICRO_ROWS * N], want[MICRO_ROWS * N]; \
        for (int64_t i = 0; i < MICRO_ROWS * MOST_K; i++) { \
            a[i] = random_##dtype(); \
        } \
        for (int64_t i = 0; i < N * MOST_K; i++) { \
            b[i] = random_##dtype(); \
        } \
        for (int64_t j = 0; j < PANELS_TESTED; j++) { \
            pack_##dtype(k, W, b + j * W * MOST_K, 1, MOST_K, panels[j]); \
        } \
        for (int64_t more = 0; more < 2; more++) { \
            Matrix x = {a, MOST_K, 1}, y = {b, 1, MOST_K}; \
            for (int64_t i = 0; i < MICRO_ROWS * N; i++) { \
                made[i] = want[i] = (sum_##s)i; \
            } \
            reference_##dtype(rows, k, N, &x, &y, want, more); \
            MicroProduct product = {.rows = rows, \
                                    .columns = N, \
                                    .k = k, \
                                    .a = a, \
                                    .a_row = MOST_K, \
                                    .a_k = 1, \
                                    .b = panels, \
                                    .b_panel = MOST_K * W, \
                                    .tile = made, \
                                    .tile_row = N, \
                                    .more = more, \
                                    .first = rows % 2}; \
            micro_##dtype(&product); \
            if (differ("micro", #dtype, rows, k, made, want, sizeof *made * (size_t)(rows * N))) { \
                return 1; \
            } \
            for (int64_t i = 0; i < rows * N; i++) { \
                made[i] = (sum_##s)i; \
            } \
            product.b = b, product.b_k = 1, product.b_column = MOST_K; \
            micro_unpacked_##dtype(&product); \
            if (differ("micro_unpacked", #dtype, rows, k, made, want, \
                       sizeof *made * (size_t)(rows * N))) { \
                return 1; \
            } \
        } \
        return 0; \
    }
#include "codegen/micro/micro.def"

int
main(void)
{
    static const int64_t lengths[] = {0, 1, 3, 129, 513, MOST_K};
    int failed = 0;

    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        for (int64_t rows = 1; rows <= MICRO_ROWS; rows++) {
#define MICRO(dtype, S, s, width, panel) failed |= test_##dtype(rows, lengths[n]);
#include "codegen/micro/micro.def"
        }
    }
    return failed;
}
