/* Products of bytes: the functions of the dtypes whose panels hold bytes themselves, i8 and u8.
 * Included by micro_types.h.
 *
 * A panel is [k][32] bytes, a quarter of a panel of sums, and its rows are adjacent columns as in
 * any other panel.  A kernel takes several rows of it at a time, and puts the elements of a column
 * beside each other in registers: four for vpdpbusd, which multiplies unsigned by signed bytes, and
 * two, widened to words, for pmaddwd, which every other set of x86 has.  That takes a few
 * operations for all rows of A.  Sums of integers wrap, so their order changes no bit, and neither
 * instruction saturates.
 *
 * vpdpbusd wants different signs.  The elements of a panel get the other one: 128 is added to
 * signed ones and subtracted from others, by flipping the upper bit.  A sum is then too large, or
 * too small, by 128 times the sum of the row of A, with which it begins. */

enum {
    BYTE_COLUMNS = 32,          /* of a panel, and bytes of its row */
    BYTE_COPY = MICRO_CHAIN + DLC_LINE, /* from a row of a copied chain to the next one */
    BYTE_FEW = 4,               /* rows of A for which a panel comes from memory */
    BYTES_AHEAD = 8192,
    QUADS = 4,                  /* rows of a panel at a time, for vpdpbusd */
    QUAD_BYTES = QUADS * BYTE_COLUMNS,
};

/* What the kernels share: rows of A that are a_row elements apart, and a panel, or a part of one,
 * of so many steps.  From `next` on they prefetch next_step bytes further in each row of the
 * panel.  begin: what the sums of a row begin with, or NULL.  add: they are added to the tile. */
typedef struct Bytes {
    int64_t a_row, k, out_row;
    const char *next;
    int64_t next_step;
    const int32_t *begin;
    bool add;
} Bytes;
typedef void BytesKernel(const Bytes *c, const void *a, const char *b, int32_t *out);

/* ---- two rows of a panel at a time ---- */

/* Words are 16 bits.  Adding is an instruction for the same reason as fma_f32 is one. */

#if defined(__AVX2__)
enum { PAIR_COLUMNS = 16, PAIR_ROWS = 5 };
typedef __m256i Words;

DLC_FN void
pair_columns(Words *x, const char *first, const char *second, const bool is_signed)
{
    const __m128i f = _mm_loadu_si128((const __m128i_u *)first),
                  s = _mm_loadu_si128((const __m128i_u *)second),
                  low = _mm_unpacklo_epi8(f, s), high = _mm_unpackhi_epi8(f, s);
    x[0] = is_signed ? _mm256_cvtepi8_epi16(low) : _mm256_cvtepu8_epi16(low);
    x[1] = is_signed ? _mm256_cvtepi8_epi16(high) : _mm256_cvtepu8_epi16(high);
}

#define ADD_PAIRS(sum, a, b) \
    __asm__("vpaddd %1, %0, %0" : "+x"(sum) : "x"(_mm256_madd_epi16(a, b)))
#elif defined(__SSE2__)
enum { PAIR_COLUMNS = 8, PAIR_ROWS = 5 };
typedef __m128i Words;

DLC_FN void
pair_columns(Words *x, const char *first, const char *second, const bool is_signed)
{
    const __m128i all = _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i_u *)first),
                                          _mm_loadl_epi64((const __m128i_u *)second)),
                  zero = _mm_setzero_si128();
    x[0] = is_signed ? _mm_srai_epi16(_mm_unpacklo_epi8(all, all), 8)
                     : _mm_unpacklo_epi8(all, zero);
    x[1] = is_signed ? _mm_srai_epi16(_mm_unpackhi_epi8(all, all), 8)
                     : _mm_unpackhi_epi8(all, zero);
}

#define ADD_PAIRS(sum, a, b) __asm__("paddd %1, %0" : "+x"(sum) : "x"(_mm_madd_epi16(a, b)))
#else
enum { PAIR_COLUMNS = 8, PAIR_ROWS = 5 };
typedef int32_t Words __attribute__((vector_size(16)));

DLC_FN void
pair_columns(Words *x, const char *first, const char *second, const bool is_signed)
{
    int16_t to[2 * PAIR_COLUMNS];
    for (int j = 0; j < PAIR_COLUMNS; j++) {
        to[2 * j] = is_signed ? (signed char)first[j] : (unsigned char)first[j];
        to[2 * j + 1] = is_signed ? (signed char)second[j] : (unsigned char)second[j];
    }
    memcpy(x, to, sizeof to);
}

#define ADD_PAIRS(sum, a, b) \
    (sum += ((a) << 16 >> 16) * ((b) << 16 >> 16) + ((a) >> 16) * ((b) >> 16))
#endif
enum { PAIR_VECTORS = 2, PAIR_LANES = sizeof(Words) / sizeof(int32_t) };
typedef int32_t pair_sums __attribute__((vector_size(sizeof(Words)), aligned(4), may_alias));

/* R rows of A as words, whose number of steps is even: an odd one has a word of zero behind it, by
 * which the panel's last row is multiplied once more. */
DLC_FN void
pairs_block(const int R, const bool is_signed, const Bytes *c, const int16_t *a_, const char *b,
            int32_t *out)
{
    pair_sums sum[PAIR_ROWS][PAIR_VECTORS];
    Words x[PAIR_VECTORS], y;
    const int64_t row = c->a_row * (int)sizeof *a_, row_3 = 3 * row, next_step = 2 * c->next_step;
    const char *rows[2] = {(const char *)a_}, *next = c->next;

    rows[1] = rows[0] + 4 * row;
    UNROLL for (int i = 0; i < R; i++) {
        UNROLL for (int j = 0; j < PAIR_VECTORS; j++) {
            sum[i][j] = (pair_sums){0};
        }
    }
    for (int64_t left = c->k; left > 0; left -= 2) {
        __builtin_prefetch(next, 0, 2);
        pair_columns(x, b, left > 1 ? b + BYTE_COLUMNS : b, is_signed);
        UNROLL for (int i = 0; i < R; i++) {
            const pair_sums pair =
                *(const int32_unaligned *)OF_FOUR(rows[i / 4], i, row, row_3) - (pair_sums){0};
            y = (Words)pair;
            UNROLL for (int j = 0; j < PAIR_VECTORS; j++) {
                ADD_PAIRS(sum[i][j], y, x[j]);
            }
        }
        UNROLL for (int i = 0; i < (R + 3) / 4; i++) {
            rows[i] += 2 * sizeof *a_;
            OPAQUE(rows[i]);
        }
        b += 2 * BYTE_COLUMNS;
        next += next_step;
        OPAQUE(b);
        OPAQUE(next);
    }
    OPAQUE(out);
    UNROLL for (int i = 0; i < R; i++) {
        UNROLL for (int j = 0; j < PAIR_VECTORS; j++) {
            pair_sums *to = (pair_sums *)(out + i * c->out_row + j * PAIR_LANES);
            if (c->add) {
                sum[i][j] += *to;
            }
            *to = sum[i][j];
        }
    }
}

#define EACH_PAIR_ROWS(X) X(1) X(2) X(3) X(4) X(5)
#define PAIRS_SIGNED(R) \
    static __attribute__((noinline)) void \
    pairs_i8_##R(const Bytes *c, const void *a, const char *b, int32_t *out) \
    { \
        pairs_block(R, true, c, a, b, out); \
    }
#define PAIRS_UNSIGNED(R) \
    static __attribute__((noinline)) void \
    pairs_u8_##R(const Bytes *c, const void *a, const char *b, int32_t *out) \
    { \
        pairs_block(R, false, c, a, b, out); \
    }
EACH_PAIR_ROWS(PAIRS_SIGNED)
EACH_PAIR_ROWS(PAIRS_UNSIGNED)
#define IN_TABLE(R) pairs_i8_##R,
static BytesKernel *const pairs_i8[] = {0, EACH_PAIR_ROWS(IN_TABLE)};
#undef IN_TABLE
#define IN_TABLE(R) pairs_u8_##R,
static BytesKernel *const pairs_u8[] = {0, EACH_PAIR_ROWS(IN_TABLE)};
#undef IN_TABLE

/* Rows of A as words, a chain of all rows at a time, by a panel: for each part of its columns, for
 * which that part stays in the first-level cache. */
static void
pairs_panel(Bytes *c, BytesKernel *const *kernels, int64_t rows, int64_t columns, const int16_t *a,
            const char *b, int32_t *out)
{
    const int64_t passes = (rows + PAIR_ROWS - 1) / PAIR_ROWS;

    for (int64_t j = 0; j < columns; j += PAIR_COLUMNS) {
        for (int64_t i = 0, left = passes, n; i < rows; i += n, left--) {
            n = (rows - i + left - 1) / left;
            kernels[n](c, a + i * c->a_row, b + j, out + i * c->out_row + j);
        }
    }
}

/* ---- four rows of a panel at a time ---- */

#if defined(__AVX512F__) && !defined(MICRO_EMULATED)
enum { QUAD_VECTORS = 2, QUAD_LANES = 16 };

/* Has the processor the instructions?  The text is compiled for all that have AVX-512. */
static bool
has_quads(void)
{
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi");
}

#define OF_16(first) \
    FOUR(first), FOUR(first + 1), FOUR(first + 2), FOUR(first + 3), FOUR(first + 4), \
        FOUR(first + 5), FOUR(first + 6), FOUR(first + 7), FOUR(first + 8), FOUR(first + 9), \
        FOUR(first + 10), FOUR(first + 11), FOUR(first + 12), FOUR(first + 13), \
        FOUR(first + 14), FOUR(first + 15)
#define FOUR(column) column, column + 32, column + 64, column + 96
/* By vector: where each of its bytes is in four rows of a panel. */
static const char quads_at[QUAD_VECTORS][64] __attribute__((aligned(64))) = {{OF_16(0)},
                                                                             {OF_16(16)}};
#undef FOUR

DLC_FN vec_i32
add_quads(vec_i32 sum, vec_i32 positive, vec_i32 any)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(positive), "v"(any));
    return sum;
}

/* R rows of A by four rows of a panel at a time; c->k counts these. */
DLC_FN void
quads_block(const int R, const bool is_signed, const Bytes *c, const char *a, const char *b,
            int32_t *out)
{
    vec_i32 sum[MICRO_ROWS][QUAD_VECTORS], x[QUAD_VECTORS], y;
    const int64_t row = c->a_row, row_3 = 3 * row, next_step = QUADS * c->next_step;
    const char *rows[4], *next = c->next;
    static const uint32_t flip = 0x80808080u;

    UNROLL for (int i = 0; i < R; i++) {
        UNROLL for (int j = 0; j < QUAD_VECTORS; j++) {
            sum[i][j] = c->begin ? splat_i32(c->begin[i]) : (vec_i32){0};
        }
    }
    UNROLL for (int i = 0; i < (R + 3) / 4; i++) {
        rows[i] = a + 4 * i * row;
    }
    for (int64_t p = c->k; p > 0; p--) {
        y = *(const vec_i32 *)b;
        __builtin_prefetch(next, 0, 2);
        __builtin_prefetch(next + 64, 0, 2);
        UNROLL for (int j = 0; j < QUAD_VECTORS; j++) {
            x[j] = *(const vec_i32 *)quads_at[j];
            __asm__("vpermi2b %2, %1, %0" : "+v"(x[j]) : "v"(y), "m"(*(const vec_i32 *)(b + 64)));
        }
        UNROLL for (int j = 0; j < QUAD_VECTORS; j++) {
            __asm__("vpxord %1%{1to16%}, %0, %0" : "+v"(x[j]) : "m"(flip));
        }
        UNROLL for (int i = 0; i < R; i++) {
            const char *at = OF_FOUR(rows[i / 4], i, row, row_3);
            __asm__("vpbroadcastd %1, %0" : "=v"(y) : "m"(*(const int32_unaligned *)at));
            UNROLL for (int j = 0; j < QUAD_VECTORS; j++) {
                sum[i][j] = is_signed ? add_quads(sum[i][j], x[j], y)
                                      : add_quads(sum[i][j], y, x[j]);
            }
        }
        UNROLL for (int i = 0; i < (R + 3) / 4; i++) {
            rows[i] += QUADS;
            OPAQUE(rows[i]);
        }
        b += QUAD_BYTES;
        next += next_step;
        OPAQUE(b);
        OPAQUE(next);
    }
    OPAQUE(out);
    UNROLL for (int i = 0; i < R; i++) {
        UNROLL for (int j = 0; j < QUAD_VECTORS; j++) {
            vec_i32 *to = (vec_i32 *)(out + i * c->out_row + j * QUAD_LANES);
            if (c->add) {
                sum[i][j] += *to;
            }
            *to = sum[i][j];
        }
    }
}

#define QUADS_SIGNED(R) \
    static __attribute__((noinline)) void \
    quads_i8_##R(const Bytes *c, const void *a, const char *b, int32_t *out) \
    { \
        quads_block(R, true, c, a, b, out); \
    }
#define QUADS_UNSIGNED(R) \
    static __attribute__((noinline)) void \
    quads_u8_##R(const Bytes *c, const void *a, const char *b, int32_t *out) \
    { \
        quads_block(R, false, c, a, b, out); \
    }
EACH_ROWS(QUADS_SIGNED)
EACH_ROWS(QUADS_UNSIGNED)
#define IN_TABLE(R) quads_i8_##R,
static BytesKernel *const quads_i8[] = {0, EACH_ROWS(IN_TABLE)};
#undef IN_TABLE
#define IN_TABLE(R) quads_u8_##R,
static BytesKernel *const quads_u8[] = {0, EACH_ROWS(IN_TABLE)};
#undef IN_TABLE

/* What the sums of each row begin with, so that the flipped bits of the panel change nothing. */
static void
quads_begin(const char *a, int64_t a_row, int64_t rows, int64_t k, const bool is_signed,
            int32_t *begin)
{
    for (int64_t i = 0; i < rows; i++, a += a_row) {
        vec_i32 sums = {0}, ones = splat_i32(0x01010101), x;
        uint32_t sum = 0;
        int64_t p = 0;
        for (; p + 64 <= k; p += 64) {
            x = *(const vec_i32 *)(const void *)(a + p);
            sums = is_signed ? add_quads(sums, ones, x) : add_quads(sums, x, ones);
        }
        for (; p < k; p++) {
            sum += (uint32_t)(is_signed ? (signed char)a[p] : (unsigned char)a[p]);
        }
        for (int j = 0; j < QUAD_LANES; j++) {
            sum += (uint32_t)sums[j];
        }
        begin[i] = (int32_t)(is_signed ? 0u - 128 * sum : 128 * sum);
    }
}

/* Rows of A, whose elements are adjacent, by a panel.  The last steps, fewer than four, are copied
 * for A and the panel, with zeros behind them: what is there may not be read. */
static void
quads_panel(Bytes *c, BytesKernel *kernel, int64_t rows, const char *a, const char *b, int32_t *out)
{
    const int64_t whole = c->k / QUADS, left = c->k % QUADS;
    Bytes part = *c;

    part.k = whole;
    if (whole || !left) {
        kernel(&part, a, b, out);
        part.begin = NULL, part.add = true;
    }
    if (left) {
        char of_a[MICRO_ROWS * QUADS] = {0}, of_b[QUAD_BYTES] = {0};
        for (int64_t i = 0; i < rows; i++) {
            memcpy(of_a + i * QUADS, a + i * c->a_row + whole * QUADS, (size_t)left);
        }
        memcpy(of_b, b + whole * QUAD_BYTES, (size_t)(left * BYTE_COLUMNS));
        part.k = 1, part.a_row = QUADS;
        kernel(&part, of_a, of_b, out);
    }
}
#else
static bool
has_quads(void)
{
    return false;
}

static void
quads_begin(const char *a, int64_t a_row, int64_t rows, int64_t k, const bool is_signed,
            int32_t *begin)
{
    (void)a, (void)a_row, (void)rows, (void)k, (void)is_signed, (void)begin;
}

static void
quads_panel(Bytes *c, BytesKernel *kernel, int64_t rows, const char *a, const char *b, int32_t *out)
{
    (void)c, (void)kernel, (void)rows, (void)a, (void)b, (void)out;
}
static BytesKernel *const quads_i8[MICRO_ROWS + 1], *const quads_u8[MICRO_ROWS + 1];
#endif

/* ---- packs ---- */

typedef char byte_row __attribute__((vector_size(16), aligned(1), may_alias));
typedef int16_t byte_pairs __attribute__((vector_size(16), may_alias));
typedef int32_t byte_quads __attribute__((vector_size(16), may_alias));
typedef int64_t byte_halves __attribute__((vector_size(16), may_alias));

/* 16 bytes of each of 16 columns, which are column_stride apart, become rows of a panel. */
DLC_FN void
bytes_square(const char *b, int64_t column_stride, char *panel)
{
    byte_row r[16], s[16];

#define STAGE(to, of, lanes, low, high) \
    UNROLL for (int j = 0; j < 8; j++) { \
        to[2 * j] = (byte_row)DLC_ZIP((lanes)of[j], (lanes)of[j + 8], low); \
        to[2 * j + 1] = (byte_row)DLC_ZIP((lanes)of[j], (lanes)of[j + 8], high); \
    }
#define LOW_BYTES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_BYTES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
    UNROLL for (int j = 0; j < 16; j++) {
        r[j] = *(const byte_row *)(b + j * column_stride);
    }
    STAGE(s, r, byte_row, LOW_BYTES, HIGH_BYTES)
    STAGE(r, s, byte_row, LOW_BYTES, HIGH_BYTES)
    STAGE(s, r, byte_row, LOW_BYTES, HIGH_BYTES)
    STAGE(r, s, byte_row, LOW_BYTES, HIGH_BYTES)
    UNROLL for (int p = 0; p < 16; p++) {
        *(byte_row *)(panel + p * BYTE_COLUMNS) = r[p];
    }
#undef STAGE
}

/* A line of each column at a time: see pack_transposed. */
static void
pack_bytes(int64_t k, int64_t columns, const char *b, int64_t k_stride, int64_t column_stride,
           char *panel)
{
    int64_t p = 0;

    if (column_stride == 1 && columns == BYTE_COLUMNS) {
        for (; p < k; p++) {
            __builtin_prefetch(b + (p + PACK_ROWS_AHEAD) * k_stride);
            memcpy(panel + p * BYTE_COLUMNS, b + p * k_stride, BYTE_COLUMNS);
        }
        return;
    }
    for (; k_stride == 1 && columns == BYTE_COLUMNS && p + DLC_LINE <= k; p += DLC_LINE) {
        for (int j = 0; j < BYTE_COLUMNS; j += 16) {
            for (int q = 0; q < DLC_LINE; q += 16) {
                bytes_square(b + p + q + j * column_stride, column_stride,
                             panel + (p + q) * BYTE_COLUMNS + j);
            }
        }
    }
    for (; p < k; p++) {
        for (int64_t j = 0; j < BYTE_COLUMNS; j++) {
            panel[p * BYTE_COLUMNS + j] = j < columns ? b[p * k_stride + j * column_stride] : 0;
        }
    }
}

/* ---- the functions ---- */

/* What the kernels prefetch: part of the next panel where panels are read for the first time, else
 * what the caller reads next, else the panel itself. */
static void
prefetch_of_bytes(const MicroProduct *x, Bytes *c, const char *b, int64_t step, const char *next)
{
    const bool first = x->first && x->b_panel;

    c->next_step = BYTE_COLUMNS;
    c->next = b + (x->rows <= BYTE_FEW ? BYTES_AHEAD : ROWS_AHEAD * BYTE_COLUMNS);
    if (first && x->rows > BYTE_FEW) {
        c->next = b + x->b_panel;
    }
    else if (x->prefetched && !first) {
        c->next = next, c->next_step = step;
    }
}

#define BYTE_FUNCTIONS(dtype, S, is_signed) \
    WIDEN(bytes_of_##dtype, S, S) \
    GATHER(bytes_of_##dtype, S, S) \
    WIDEN(words_of_##dtype, S, int16_t) \
    GATHER(words_of_##dtype, S, int16_t) \
    static void \
    pack_##dtype(int64_t k, int64_t columns, const void *b, int64_t k_stride, \
        int64_t column_stride, void *panel) \
    { \
        pack_bytes(k, columns, b, k_stride, column_stride, panel); \
    } \
    static void \
    pack_scattered_##dtype(const MicroScatter *x) \
    { \
        for (int64_t e = 0; e < x->each; e++) { \
            pack_bytes(x->k, x->columns, (const char *)x->b + e * x->each_stride, x->k_stride, \
                x->column_stride, (char *)x->panel + e * x->rows * BYTE_COLUMNS); \
        } \
    } \
    /* The steps p .. p + n - 1 of all rows by all panels, the first of which begins at b.  a: \
     * these steps in place, or NULL if they are to be copied. */ \
    static void \
    steps_##dtype(const MicroProduct *x, int64_t p, int64_t n, const char *a, const char *b) \
    { \
        union { \
            S bytes[MICRO_ROWS * BYTE_COPY]; \
            int16_t words[MICRO_ROWS * BYTE_COPY]; \
        } copy; \
        int32_t begin[MICRO_ROWS], *out = x->tile; \
        const bool quads = has_quads(); \
        const int64_t step = prefetched_by_step(x, BYTE_COLUMNS); \
        const char *next = x->prefetched; \
        Bytes c = {.a_row = a ? x->a_row : BYTE_COPY, .k = n, .out_row = x->tile_row, \
                   .add = p || x->more}; \
        Chain result = {.result = p + n == x->k ? x->result : NULL, .result_row = x->result_row}; \
        if (quads && !a) { \
            gather_bytes_of_##dtype(copy.bytes, BYTE_COPY, x, p, n); \
            a = (const char *)copy.bytes; \
        } \
        if (quads) { \
            quads_begin(a, c.a_row, x->rows, n, is_signed, begin); \
            c.begin = begin; \
        } \
        else { \
            gather_words_of_##dtype(copy.words, BYTE_COPY, x, p, n); \
            for (int64_t i = 0; i < x->rows; i++) { \
                copy.words[i * BYTE_COPY + n] = 0; \
            } \
        } \
        for (int64_t j = 0; j < x->columns; j += BYTE_COLUMNS, b += x->b_panel, \
             out += BYTE_COLUMNS, next += n * step) { \
            const int64_t columns = x->columns - j; \
            prefetch_of_bytes(x, &c, b, step, next); \
            if (result.result) { \
                Chain now = result; \
                prefetch_result(&now, x->rows); \
                result.result += PANEL_ROW; \
            } \
            if (quads) { \
                quads_panel(&c, quads_##dtype[x->rows], x->rows, a, b, out); \
            } \
            else { \
                pairs_panel(&c, pairs_##dtype, x->rows, \
                    columns < BYTE_COLUMNS ? columns : BYTE_COLUMNS, copy.words, b, out); \
            } \
        } \
    } \
    /* All steps at once if the rows can be read in place, else chain by chain. */ \
    static void \
    micro_##dtype(const MicroProduct *x) \
    { \
        const bool in_place = has_quads() && x->a_k == 1 && !x->a_run && \
            !is_crowded(x, 1, MICRO_ROWS); \
        const int64_t most = in_place && x->k ? x->k : MICRO_CHAIN; \
        for (int64_t p = 0, n; n = x->k - p < most ? x->k - p : most, \
             p < x->k || (p == 0 && !x->more); p += most) { \
            steps_##dtype(x, p, n, in_place ? (const char *)x->a + p : NULL, \
                (const char *)x->b + p * BYTE_COLUMNS); \
        } \
    } \
    /* A chain of one panel's columns is packed at a time: it stays in the first-level cache. */ \
    static void \
    micro_unpacked_##dtype(const MicroProduct *x) \
    { \
        char panel[MICRO_CHAIN * BYTE_COLUMNS] __attribute__((aligned(64))); \
        for (int64_t j = 0; j < x->columns; j += BYTE_COLUMNS) { \
            MicroProduct part = *x; \
            const char *b = (const char *)x->b + j * x->b_column; \
            part.columns = x->columns - j < BYTE_COLUMNS ? x->columns - j : BYTE_COLUMNS; \
            part.tile = (int32_t *)x->tile + j; \
            part.b = panel, part.b_panel = 0; \
            for (int64_t p = 0, n; n = x->k - p < MICRO_CHAIN ? x->k - p : MICRO_CHAIN, \
                 p < x->k || (p == 0 && !x->more); p += MICRO_CHAIN) { \
                pack_bytes(n, part.columns, b + p * x->b_k, x->b_k, x->b_column, panel); \
                part.k = n, part.more = p || x->more; \
                part.a = (const S *)x->a + p * x->a_k; \
                micro_##dtype(&part); \
            } \
        } \
    }
