/* Strided copies: of operands whose layout is not the promised one, and of results into place. */

#include <string.h>

#include "plan.h"

#define COPY_ROW(type)                                                                            \
    for (int64_t k = 0; k < n; k++) {                                                             \
        ((type *)to)[k * to_step] = ((const type *)from)[k * from_step];                          \
    }

static void
copy_row(int bytes, int64_t n, void *to, int64_t to_step, const void *from, int64_t from_step)
{
    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, (size_t)(n * bytes));
        return;
    }
    switch (bytes) {
    case 1: COPY_ROW(uint8_t) break;
    case 2: COPY_ROW(uint16_t) break;
    case 4: COPY_ROW(uint32_t) break;
    case 8: COPY_ROW(uint64_t) break;
    default: COPY_ROW(dlc_c128) break;
    }
}

void
copy_strided(int bytes, int rank, const int64_t *sizes, void *to, const int64_t *to_strides,
             const void *from, const int64_t *from_strides)
{
    if (rank == 0) {
        memcpy(to, from, (size_t)bytes);
    } else if (rank == 1) {
        copy_row(bytes, sizes[0], to, to_strides[0], from, from_strides[0]);
    } else {
        for (int64_t k = 0; k < sizes[0]; k++) {
            copy_strided(bytes, rank - 1, sizes + 1,
                         (char *)to + k * to_strides[0] * bytes, to_strides + 1,
                         (const char *)from + k * from_strides[0] * bytes, from_strides + 1);
        }
    }
}
