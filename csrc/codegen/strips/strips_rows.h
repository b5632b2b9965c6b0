/* Strips over a few rows of a few elements, which stand one after the other in the tile; included
 * by strips_isa.c.
 *
 * Rows go eight elements at a time.  The last eight of a row begin where they must; where a row has
 * fewer than eight, what is too much is what the next row overwrites. */

enum { BLOCK = 8 };

#ifdef __clang__
#define TOGETHER INDEPENDENT
#else
#define TOGETHER INDEPENDENT _Pragma("GCC unroll 1")
#endif

#define ONE_PART(to, value, part) \
    TOGETHER \
    for (int64_t k = 0; k < part; k++) { \
        (to)[k] = value; \
    }
#define ONE_BLOCK(to, value) ONE_PART(to, value, BLOCK)

/* A row of n elements, n >= part, made of values that depend on i + k. */
#define ROW_OF_PARTS(to, value, part) \
    int64_t i = 0; \
    for (; i + part <= n; i += part) { \
        ONE_PART((to) + i, value, part) \
    } \
    if (i < n) { \
        i = n - part; \
        ONE_PART((to) + i, value, part) \
    }
#define ROW_OF_BLOCKS(to, value) ROW_OF_PARTS(to, value, BLOCK)

/* Elements from the row at `a`; `more`: behind it and behind `out` are eight elements at least that
 * may be read and written. */
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

/* Gathers rows.  If all of them are the first row, the copied part is doubled again and again. */
#define TAKE(name, S, C, load) \
    TAKE_ROW(name, S, C, load) \
    static void strip_take_##name(void *result, const void *first, const int64_t *at, \
                                  int64_t step, int64_t stride, int64_t rows, int64_t columns) \
    { \
        C *out = result; \
        const S *a = first; \
        int64_t all = rows * columns, different = !at && step == 0 && rows > 1 ? 1 : rows; \
        for (int64_t r = 0; r < different; r++) { \
            int64_t behind = different - 1 - r; \
            int more = behind * columns >= BLOCK && \
                       (stride == 0 || (!at && behind * step >= BLOCK)); \
            take_row_##name(out + r * columns, a + (at ? at[r] : r) * step, stride, columns, \
                            more); \
        } \
        for (int64_t done = different * columns; done < all; done *= 2) { \
            int64_t left = all - done; \
            __builtin_memcpy(out + done, out, (uint64_t)(left < done ? left : done) * sizeof(C)); \
        } \
    }

#define PUT(name, S, C, store) \
    static void strip_put_##name(void *result, int64_t step, int64_t stride, const void *first, \
                                 int64_t rows, int64_t columns) \
    { \
        const int64_t n = columns; \
        for (int64_t r = 0; r < rows; r++) { \
            S *out = (S *)result + r * step; \
            const C *a = (const C *)first + r * n; \
            if (stride == 1 && n >= 2 * BLOCK) { \
                ROW_OF_PARTS(out, store(a[i + k]), (2 * BLOCK)) \
            } else if (stride == 1 && n >= BLOCK) { \
                ROW_OF_BLOCKS(out, store(a[i + k])) \
            } else { \
                PUT_STRIDED(out, stride, a, n, store) \
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
strip_iota_rows_i64(int64_t *out, int64_t start, int64_t step, int64_t stride, int64_t rows,
                    int64_t columns)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            out[r * columns + c] = start + r * step + c * stride;
        }
    }
}

/* n bytes, n >= part, by parts: the last one begins where it must. */
#define COPY_PARTS(to, from, n, part) \
    for (int64_t i = 0; i < n; i += part) { \
        int64_t part_at = i + part <= n ? i : n - part; \
        __builtin_memcpy((to) + part_at, (from) + part_at, part); \
    }

enum { INDICES = 128 };

/* Which elements of a row come before an index that the row has, or not: a window of a step. */
#define INDICES_OF_ROWS(name, last, before) \
    static void strip_index_rows_##name(uint8_t *out, const int64_t *value, int64_t start, \
                                        int64_t rows, int64_t n) \
    { \
        uint8_t step[2 * INDICES]; \
        __builtin_memset(step, before, INDICES); \
        __builtin_memset(step + INDICES, !before, INDICES); \
        for (int64_t r = 0; r < rows; r++, out += n) { \
            int64_t at = value[r], first = at < start - last        ? 0 \
                                           : at >= start + n - last ? n \
                                                                    : at - start + last; \
            const uint8_t *from = step + INDICES - first; \
            if (n >= 32) { \
                COPY_PARTS(out, from, n, 32) \
            } else if (n >= 8) { \
                COPY_PARTS(out, from, n, 8) \
            } else { \
                COPY_PARTS(out, from, n, 1) \
            } \
        } \
    }

INDICES_OF_ROWS(lt, 0, 1)
INDICES_OF_ROWS(le, 1, 1)
INDICES_OF_ROWS(gt, 1, 0)
INDICES_OF_ROWS(ge, 0, 0)

/* ---- rows where they are ---- */

/* Rows of the result at even steps, and of each operand; out may be an operand with the same
 * steps. */
#define ROWS_IN_PLACE(name, A, Out, expr) \
    static void strip_in_place_##name(void *result, int64_t out_row, const void *first, \
                                      int64_t a_row, const void *second, int64_t b_row, \
                                      const void *third, int64_t c_row, const void *fourth, \
                                      int64_t d_row, int64_t rows, int64_t n) \
    { \
        Out *out = result; \
        const A *a = first, *b = second, *c = third, *d = fourth; \
        for (int64_t r = 0; r < rows; \
             r++, out += out_row, a += a_row, b += b_row, c += c_row, d += d_row) { \
            EACH(expr) \
        } \
    }
#define TWICE_HALF(op) \
    dlc_pack_bf16(half_##op(half_mul(dlc_load_bf16(a[i]), dlc_load_bf16(b[i])), \
                            half_mul(dlc_load_bf16(c[i]), dlc_load_bf16(d[i]))))

ROWS_IN_PLACE(twice_mul_add_f32, float, float, apply_twice_mul_add_f32(a[i], b[i], c[i], d[i]))
ROWS_IN_PLACE(twice_mul_sub_f32, float, float, apply_twice_mul_sub_f32(a[i], b[i], c[i], d[i]))
ROWS_IN_PLACE(twice_mul_add_bf16, uint16_t, uint16_t, TWICE_HALF(add))
ROWS_IN_PLACE(twice_mul_sub_bf16, uint16_t, uint16_t, TWICE_HALF(sub))

/* ---- reductions of rows of a block each ---- */

/* Lanes of several short rows, so that the additions of one need not wait for each other; of a long
 * row they wait for what is read. */
enum { ROWS_TOGETHER = 4, SHORT_ROW = 128 };

/* What a reduction keeps of each row beside the lanes, a step, and the end. */
#define SEEN_sum_f32(r)
#define STEP_sum_f32(value) lanes[k] = dlc_combine_sum_f32(lanes[k], value);
#define END_sum_f32(r) dlc_lanes_sum_f32(of[r])
#define SEEN_sum_f64(r)
#define STEP_sum_f64(value) lanes[k] = dlc_combine_sum_f64(lanes[k], value);
#define END_sum_f64(r) dlc_lanes_sum_f64(of[r])
#define SEEN_amax_f32(r) dlc_size_f32 *sizes = seen[r];
#define STEP_amax_f32(value) EXTREME_STEP(amax_f32, f32, float, value)
#define END_amax_f32(r) dlc_lanes_checked_amax_f32(of[r], seen[r])
#define SEEN_amin_f32(r) SEEN_amax_f32(r)
#define STEP_amin_f32(value) EXTREME_STEP(amin_f32, f32, float, value)
#define END_amin_f32(r) dlc_lanes_checked_amin_f32(of[r], seen[r])

/* One step of each row, in which every lane has an element: `expr` combines x and y of a lane.
 * Short rows are not prefetched (ahead < 0): that would be another load for each few additions. */
#define STEP_OF_ROWS(A, T, red, dtype, at, expr) \
    _Pragma("GCC unroll 4") \
    for (int r = 0; r < count; r++) { \
        T *lanes = of[r]; \
        const A *first = a + r * a_row; \
        const T *second = b + r * b_row; \
        SEEN_##red(r) \
        if (ahead >= 0) { \
            __builtin_prefetch((const char *)(first + at) + ahead); \
        } \
        WIDE_##dtype(first + at) \
        LANES \
        for (int k = 0; k < 16; k++) { \
            T x = LANE_##dtype(first[at + k]), y = scalar ? *second : second[at + k]; \
            (void)y; \
            STEP_##red(expr) \
        } \
    }
/* The same of some. */
#define LAST_STEP_OF_ROWS(A, T, red, dtype, at, expr) \
    _Pragma("GCC unroll 4") \
    for (int r = 0; r < count; r++) { \
        T *lanes = of[r]; \
        const A *first = a + r * a_row; \
        const T *second = b + r * b_row; \
        SEEN_##red(r) \
        LANES \
        for (int k = 0; k < 16; k++) { \
            T term = dlc_identity_##red(); \
            if (k < left) { \
                T x = READ_##dtype(first[at + k]), y = scalar ? *second : second[at + k]; \
                (void)y; \
                term = expr; \
            } \
            STEP_##red(term) \
        } \
    }

/* A row's last lanes have no element but the identity, which changes nothing: a sum's lane is never
 * -0. */
#define REDUCE_ROWS(name, A, T, red, dtype, expr) \
    static inline __attribute__((always_inline)) void rows_##name( \
        T *out, const A *a, int64_t a_row, const T *b, int64_t b_row, int64_t n, int scalar, \
        int64_t ahead, int count) \
    { \
        int64_t whole = n / 16 * 16, left = n - whole; \
        T of[ROWS_TOGETHER][16]; \
        dlc_size_f32 seen[ROWS_TOGETHER][16]; \
        (void)seen; \
        for (int r = 0; r < count; r++) { \
            for (int k = 0; k < 16; k++) { \
                of[r][k] = dlc_identity_##red(); \
                seen[r][k] = 0; \
            } \
        } \
        for (int64_t i = 0; i < whole; i += 16) { \
            STEP_OF_ROWS(A, T, red, dtype, i, expr) \
        } \
        if (left > 0) { \
            LAST_STEP_OF_ROWS(A, T, red, dtype, whole, expr) \
        } \
        for (int r = 0; r < count; r++) { \
            out[r] = END_##red(r); \
        } \
    } \
    static inline __attribute__((always_inline)) void all_##name( \
        T *out, const A *a, int64_t a_row, const T *b, int64_t b_row, int64_t rows, int64_t n, \
        int scalar, int64_t ahead) \
    { \
        int64_t r = 0; \
        for (; n <= SHORT_ROW && r + ROWS_TOGETHER <= rows; r += ROWS_TOGETHER) { \
            rows_##name(out + r, a + r * a_row, a_row, b + r * b_row, b_row, n, scalar, -1, \
                        ROWS_TOGETHER); \
        } \
        for (; r < rows; r++) { \
            rows_##name(out + r, a + r * a_row, a_row, b + r * b_row, b_row, n, scalar, ahead, 1); \
        } \
    }

/* Of one operand, which is all that expr reads, or of two. */
#define REDUCE_ROWS_1(name, A, T, red, dtype, expr) \
    REDUCE_ROWS(name, A, T, red, dtype, expr) \
    static void strip_rows_##name(void *result, const void *a, int64_t a_row, const void *b, \
                                  int64_t b_row, int64_t rows, int64_t n, unsigned scalars) \
    { \
        static const T nothing[1]; \
        (void)b, (void)b_row, (void)scalars; \
        all_##name(result, a, a_row, nothing, 0, rows, n, 1, -1); \
    }
#define REDUCE_ROWS_2(name, A, T, red, dtype, expr) \
    REDUCE_ROWS(name, A, T, red, dtype, expr) \
    static void strip_rows_##name(void *result, const void *a, int64_t a_row, const void *b, \
                                  int64_t b_row, int64_t rows, int64_t n, unsigned scalars) \
    { \
        if (scalars & 2) { \
            all_##name(result, a, a_row, b, b_row, rows, n, 1, scalars >> 4); \
        } else { \
            all_##name(result, a, a_row, b, b_row, rows, n, 0, scalars >> 4); \
        } \
    }

REDUCE_ROWS_2(sum_mul_f32, float, float, sum_f32, f32, x * y)
REDUCE_ROWS_2(sum_square_sub_f32, float, float, sum_f32, f32, SQUARE_OF(x - y))
REDUCE_ROWS_1(sum_load_f32, float, float, sum_f32, f32, x)
REDUCE_ROWS_1(sum_load_f64, double, double, sum_f64, f64, x)
REDUCE_ROWS_2(sum_square_sub_f64, double, double, sum_f64, f64, SQUARE_OF(x - y))
REDUCE_ROWS_1(sum_load_bf16, uint16_t, float, sum_f32, bf16, x)
REDUCE_ROWS_2(sum_square_sub_bf16, uint16_t, float, sum_f32, bf16, SQUARE_OF(x - y))
REDUCE_ROWS_1(amax_load_f32, float, float, amax_f32, f32, x)
REDUCE_ROWS_1(amin_load_f32, float, float, amin_f32, f32, x)
