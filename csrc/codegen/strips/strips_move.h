/* Strips that bring elements from where they are to where they are wanted; included by
 * strips_isa.c.
 *
 * Conversions, storage, constants, indices, gathers, updates and transposes. */

/* ---- conversions ---- */

#define CAST(from, From, to, To) \
    static void \
    strip_cast_##from##_##to(void *result, const void *first, int64_t n) \
    { \
        To *out = result; \
        const From *a = first; \
        EACH(dlc_cast_##from##_##to(a[i])) \
    }
#define CASTS(from, From) \
    CAST(from, From, bool, uint8_t) \
    CAST(from, From, i32, int32_t) \
    CAST(from, From, i64, int64_t) \
    CAST(from, From, f32, float) \
    CAST(from, From, f64, double)

CASTS(bool, uint8_t)
CASTS(i32, int32_t)
CASTS(i64, int64_t)
CASTS(f32, float)
CASTS(f64, double)

#define BITCAST(from, From, to, To) \
    static void \
    strip_bitcast_##from##_##to(void *result, const void *first, int64_t n) \
    { \
        To *out = result; \
        const From *a = first; \
        EACH(dlc_bitcast_##from##_##to(a[i])) \
    }

BITCAST(i16, int32_t, f16, float)
BITCAST(i16, int32_t, bf16, float)
BITCAST(i32, int32_t, f32, float)
BITCAST(i64, int64_t, f64, double)
BITCAST(f16, float, i16, int32_t)
BITCAST(bf16, float, i16, int32_t)
BITCAST(f32, float, i32, int32_t)
BITCAST(f64, double, i64, int64_t)

/* Elements at equal distances in memory. */
#define PUT_STRIDED(out, stride, a, n, store) \
    for (int64_t i = 0; i < n; i++) { \
        (out)[i * stride] = store((a)[i]); \
    }

/* A load and a store of storage dtype dt, whose elements are S, from and to compute type C. */
#define STORAGE(dt, S, C, load, store) STORAGE_STRIDED(dt, S, C, load, store, )
#define STORAGE_STRIDED(dt, S, C, load, store, strided) \
    static void \
    strip_load_##dt(void *result, const void *first, int64_t stride, int64_t n) \
    { \
        C *out = result; \
        const S *a = first; \
        if (stride == 1) { \
            EACH(load(a[i])) \
        } \
        else if (stride == 0 && n > 0) { \
            C value = load(*a); \
            EACH(value) \
        } \
        strided \
        else { \
            EACH(load(a[i * stride])) \
        } \
    } \
    static void \
    strip_store_##dt(void *result, int64_t stride, const void *first, int64_t n) \
    { \
        S *out = result; \
        const C *a = first; \
        if (stride == 1) { \
            EACH(store(a[i])) \
        } \
        else { \
            PUT_STRIDED(out, stride, a, n, store) \
        } \
    }

/* Strides that compilers have shuffles for. */
#define STRIDED(load) \
    else if (stride == 2) { \
        EACH(load(a[i * 2])) \
    } \
    else if (stride == 3) { \
        EACH(load(a[i * 3])) \
    } \
    else if (stride == 4) { \
        EACH(load(a[i * 4])) \
    }

STORAGE(bool, uint8_t, uint8_t, dlc_cast_i32_bool, dlc_cast_bool_bool)
STORAGE_STRIDED(u8, uint8_t, int32_t, (int32_t), (uint8_t), STRIDED((int32_t)))
STORAGE(i8, int8_t, int32_t, (int32_t), (int8_t))
STORAGE(i16, int16_t, int32_t, (int32_t), (int16_t))
STORAGE(i32, int32_t, int32_t, dlc_cast_i32_i32, dlc_cast_i32_i32)
STORAGE(i64, int64_t, int64_t, dlc_cast_i64_i64, dlc_cast_i64_i64)
STORAGE(f16, uint16_t, float, dlc_load_f16, dlc_store_f16)
STORAGE(bf16, uint16_t, float, dlc_load_bf16, dlc_store_bf16)
STORAGE_STRIDED(f32, float, float, dlc_cast_f32_f32, dlc_cast_f32_f32, STRIDED(dlc_cast_f32_f32))
STORAGE(f64, double, double, dlc_cast_f64_f64, dlc_cast_f64_f64)
#define AS_IT_IS(z) (z)
STORAGE(c64, uint64_t, uint64_t, AS_IT_IS, AS_IT_IS)
STORAGE(c128, dlc_c128, dlc_c128, AS_IT_IS, AS_IT_IS)

/* Converts stored small integers to float. */
#define READ(dt, S) \
    static void \
    strip_read_##dt##_f32(void *result, const void *first, int64_t n) \
    { \
        float *out = result; \
        const S *a = first; \
        EACH((float)a[i]) \
    }

READ(u8, uint8_t)
READ(i8, int8_t)

/* Tiles put side by side, an element of each in turn, and decomposed. */
static void
strip_zip_2(void *result, const void *first, const void *second, int64_t n)
{
    uint32_t *out = result;
    const uint32_t *a = first, *b = second;
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        out[2 * i] = a[i];
        out[2 * i + 1] = b[i];
    }
}

static void
strip_zip_3(void *result, const void *first, const void *second, const void *third, int64_t n)
{
    uint32_t *out = result;
    const uint32_t *a = first, *b = second, *c = third;
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        out[3 * i] = a[i];
        out[3 * i + 1] = b[i];
        out[3 * i + 2] = c[i];
    }
}

static void
strip_zip_4(void *result, const void *first, const void *second, const void *third,
            const void *fourth, int64_t n)
{
    uint32_t *out = result;
    const uint32_t *a = first, *b = second, *c = third, *d = fourth;
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        out[4 * i] = a[i];
        out[4 * i + 1] = b[i];
        out[4 * i + 2] = c[i];
        out[4 * i + 3] = d[i];
    }
}

static void
strip_unzip_2(void *first, void *second, const void *from, int64_t n)
{
    uint32_t *a = first, *b = second;
    const uint32_t *in = from;
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        a[i] = in[2 * i];
        b[i] = in[2 * i + 1];
    }
}

static void
strip_unzip_3(void *first, void *second, void *third, const void *from, int64_t n)
{
    uint32_t *a = first, *b = second, *c = third;
    const uint32_t *in = from;
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        a[i] = in[3 * i];
        b[i] = in[3 * i + 1];
        c[i] = in[3 * i + 2];
    }
}

static void
strip_unzip_4(void *first, void *second, void *third, void *fourth, const void *from, int64_t n)
{
    uint32_t *a = first, *b = second, *c = third, *d = fourth;
    const uint32_t *in = from;
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        a[i] = in[4 * i];
        b[i] = in[4 * i + 1];
        c[i] = in[4 * i + 2];
        d[i] = in[4 * i + 3];
    }
}

#define IN_PLACE(op, T) \
    static void \
    strip_##op(void *tile, int64_t n) \
    { \
        T *out = tile; \
        EACH(dlc_##op(out[i])) \
    }

IN_PLACE(round_f16, float)
IN_PLACE(round_bf16, float)
IN_PLACE(wrap_u8, int32_t)
IN_PLACE(wrap_i8, int32_t)
IN_PLACE(wrap_i16, int32_t)

/* ---- fill, iota, gather ---- */

#define FILL(dtype, T) \
    static void \
    strip_fill_##dtype(void *result, const void *first, int64_t n) \
    { \
        T *out = result; \
        T value = *(const T *)first; \
        EACH(value) \
    }

FILL(bool, uint8_t)
FILL(i32, int32_t)
FILL(i64, int64_t)
FILL(f32, float)
FILL(f64, double)
FILL(c64, uint64_t)
FILL(c128, dlc_c128)

static void
strip_iota_i64(int64_t *out, int64_t start, int64_t step, int64_t n)
{
    EACH(start + i * step)
}

static int
strip_check_index(const int64_t *index, int64_t size, int wrap, int64_t *out, int64_t n)
{
    uint64_t bad = 0;

    for (int64_t i = 0; i < n; i++) {
        int64_t k = index[i] + (wrap && index[i] < 0 ? size : 0);

        bad |= (uint64_t)k >= (uint64_t)size;
        out[i] = k;
    }
    return bad != 0;
}

/* Which of n consecutive indices is the value. */
static void
strip_one_hot(void *result, const int64_t *value, int64_t start, int64_t n)
{
    uint8_t *out = result;
    EACH(0)
    uint64_t at = (uint64_t)*value - (uint64_t)start;
    if (at < (uint64_t)n) {
        out[at] = 1;
    }
}

#define GATHER(bytes, T) \
    static void \
    strip_gather_##bytes(void *result, const void *first, const int64_t *index, int64_t scale, \
                         int64_t n) \
    { \
        T *out = result; \
        const T *base = first; \
        EACH(base[index[i] * scale]) \
    }

GATHER(1, uint8_t)
GATHER(2, uint16_t)
GATHER(4, uint32_t)
GATHER(8, uint64_t)
GATHER(16, dlc_c128)

/* ---- updates: two indices may be equal ---- */

#define UPDATE(name, T, expr) \
    static void strip_update_##name(void *base, const int64_t *index, int64_t scale, \
                                    const void *values, int64_t n) \
    { \
        T *out = base; \
        const T *v = values; \
        for (int64_t i = 0; i < n; i++) { \
            T *to = &out[index[i] * scale]; \
            *to = expr; \
        } \
    }

#define UPDATES(dtype, T) \
    UPDATE(store_##dtype, T, v[i]) \
    UPDATE(amax_##dtype, T, apply_maximum_##dtype(*to, v[i])) \
    UPDATE(amin_##dtype, T, apply_minimum_##dtype(*to, v[i]))
#define UPDATES_NUM(dtype, T) \
    UPDATES(dtype, T) \
    UPDATE(sum_##dtype, T, apply_add_##dtype(*to, v[i])) \
    UPDATE(prod_##dtype, T, apply_mul_##dtype(*to, v[i]))

UPDATES(bool, uint8_t)
UPDATES_NUM(i32, int32_t)
UPDATES_NUM(i64, int64_t)
UPDATES_NUM(f32, float)
UPDATES_NUM(f64, double)
UPDATE(store_c64, uint64_t, v[i])
UPDATE(store_c128, dlc_c128, v[i])

/* ---- transposes ---- */

#define TRANSPOSE(bytes) \
    static void strip_transpose_##bytes(void *out, const void *from, int64_t step, int64_t rows, \
                                        int64_t columns) \
    { \
        dlc_transpose_##bytes(out, from, step, rows, columns); \
    }

TRANSPOSE(1)
TRANSPOSE(2)
TRANSPOSE(4)
TRANSPOSE(8)
TRANSPOSE(16)

/* ---- prefetching ---- */

#define PREFETCH(name, write, level) \
    static void \
    strip_##name(const void *from, int64_t bytes) \
    { \
        for (int64_t k = 0; k < bytes; k += 64) { \
            __builtin_prefetch((const char *)from + k, write, level); \
        } \
    }

PREFETCH(prefetch, 0, 3)
PREFETCH(prefetch_write, 1, 3)
