/* Strips over a few rows of a few elements, which stand one after the other in the tile; included by
 * strips_isa.c.
 *
 * Rows go eight elements at a time.  The last eight of a row begin where they must; where a row has
 * fewer than eight, what is too much is what the next row overwrites. */

enum { BLOCK = 8 };

#ifdef __clang__
#define TOGETHER INDEPENDENT
#else
#define TOGETHER INDEPENDENT _Pragma("GCC unroll 1")
#endif

#define ONE_BLOCK(to, value) \
    TOGETHER \
    for (int64_t k = 0; k < BLOCK; k++) { \
        (to)[k] = value; \
    }

/* A row of n elements, n >= 8, made of values that depend on i + k. */
#define ROW_OF_BLOCKS(to, value) \
    int64_t i = 0; \
    for (; i + BLOCK <= n; i += BLOCK) { \
        ONE_BLOCK((to) + i, value) \
    } \
    if (i < n) { \
        i = n - BLOCK; \
        ONE_BLOCK((to) + i, value) \
    }

/* Elements from the row at `a`; `more`: behind it and behind `out` are eight elements at least that may be
 * read and written. */
#define TAKE_ROW(name, S, C, load) \
    DLC_FN void \
    take_row_##name(C *out, const S *a, int64_t stride, int64_t n, int more) \
    { \
        if (stride == 0) { \
            C value = load(*a); \
            if (n >= BLOCK) { \
                ROW_OF_BLOCKS(out, value) \
            } \
            else if (more) { \
                ONE_BLOCK(out, value) \
            } \
            else { \
                for (int64_t i = 0; i < n; i++) { \
                    out[i] = value; \
                } \
            } \
        } \
        else if (stride == 1 && n >= BLOCK) { \
            ROW_OF_BLOCKS(out, load(a[i + k])) \
        } \
        else if (stride == 1 && more) { \
            ONE_BLOCK(out, load(a[k])) \
        } \
        else { \
            for (int64_t i = 0; i < n; i++) { \
                out[i] = load(a[i * stride]); \
            } \
        } \
    }

/* Rows that are all the first one: what is there is doubled. */
#define TAKE(name, S, C, load) \
    TAKE_ROW(name, S, C, load) \
    static void \
    strip_take_##name(void *result, const void *first, const int64_t *at, int64_t step, int64_t stride, \
                      int64_t rows, int64_t columns) \
    { \
        C *out = result; \
        const S *a = first; \
        int64_t all = rows * columns, different = !at && step == 0 && rows > 1 ? 1 : rows; \
        for (int64_t r = 0; r < different; r++) { \
            int64_t behind = different - 1 - r; \
            int more = behind * columns >= BLOCK && (stride == 0 || (!at && behind * step >= BLOCK)); \
            take_row_##name(out + r * columns, a + (at ? at[r] : r) * step, stride, columns, more); \
        } \
        for (int64_t done = different * columns; done < all; done *= 2) { \
            int64_t left = all - done; \
            __builtin_memcpy(out + done, out, (uint64_t)(left < done ? left : done) * sizeof(C)); \
        } \
    }

#define PUT(name, S, C, store) \
    static void \
    strip_put_##name(void *result, int64_t step, int64_t stride, const void *first, int64_t rows, int64_t columns) \
    { \
        const int64_t n = columns; \
        for (int64_t r = 0; r < rows; r++) { \
            S *out = (S *)result + r * step; \
            const C *a = (const C *)first + r * n; \
            if (stride == 1 && n >= BLOCK) { \
                ROW_OF_BLOCKS(out, store(a[i + k])) \
            } \
            else { \
                for (int64_t i = 0; i < n; i++) { \
                    out[i * stride] = store(a[i]); \
                } \
            } \
        } \
    }

#define TAKE_AND_PUT(name, S, C, load, store) \
    TAKE(name, S, C, load) \
    PUT(name, S, C, store)

TAKE_AND_PUT(1, uint8_t, uint8_t, AS_IT_IS, AS_IT_IS)
TAKE_AND_PUT(4, uint32_t, uint32_t, AS_IT_IS, AS_IT_IS)
TAKE_AND_PUT(8, uint64_t, uint64_t, AS_IT_IS, AS_IT_IS)
TAKE_AND_PUT(16, dlc_c128, dlc_c128, AS_IT_IS, AS_IT_IS)
TAKE_AND_PUT(u8, uint8_t, int32_t, (int32_t), (uint8_t))
TAKE_AND_PUT(i8, int8_t, int32_t, (int32_t), (int8_t))
TAKE_AND_PUT(i16, int16_t, int32_t, (int32_t), (int16_t))
TAKE_AND_PUT(f16, uint16_t, float, dlc_load_f16, dlc_store_f16)
TAKE_AND_PUT(bf16, uint16_t, float, dlc_load_bf16, dlc_store_bf16)

static void
strip_iota_rows_i64(int64_t *out, int64_t start, int64_t step, int64_t stride, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            out[r * columns + c] = start + r * step + c * stride;
        }
    }
}

#define ROWS_EACH_STORAGE(name) \
    ROW(name##_1) ROW(name##_4) ROW(name##_8) ROW(name##_16) \
    ROW(name##_u8) ROW(name##_i8) ROW(name##_i16) ROW(name##_f16) ROW(name##_bf16)
#define ROWS_OF_ROWS ROWS_EACH_STORAGE(take) ROWS_EACH_STORAGE(put) ROW(iota_rows_i64)
