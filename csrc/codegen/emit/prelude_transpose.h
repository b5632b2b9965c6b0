/* Transposes of a part of a matrix, for loops that read across its rows; see prelude.h.
 *
 * Blocks go through registers: elements side by side in memory are read together.  Compilers make
 * shuffles of the plain loops for 4 by 4; the larger blocks, half the instructions an element, need
 * them spelled out.  Where a compiler has no word for shuffles, or the processor none of that
 * width, the loops stand. */

/* out[j * 144 + k] = from[k * step + j] for a square of elements, by plain loops. */
#define DLC_TRANSPOSE_SQUARE(bytes, T, side) \
    DLC_FN void dlc_transpose_square_##bytes(dlc_element_##bytes *out, \
                                             const dlc_element_##bytes *from, int64_t step) \
    { \
        T block[side][side]; \
        for (int k = 0; k < side; k++) { \
            for (int j = 0; j < side; j++) { \
                block[j][k] = from[k * step + j]; \
            } \
        } \
        for (int j = 0; j < side; j++) { \
            for (int k = 0; k < side; k++) { \
                out[j * 144 + k] = block[j][k]; \
            } \
        } \
    }

/* The same for eight rows of eight in a vector register each.  Rows k and k + 4 are zipped to the
 * new rows 2 k and 2 k + 1; after three times rows are columns. */
#define DLC_TRANSPOSE_ZIP(bytes, T) \
    typedef T dlc_eight_##bytes \
        __attribute__((vector_size(8 * bytes), aligned(bytes), may_alias)); \
    DLC_FN void dlc_transpose_square_##bytes(dlc_element_##bytes *out, \
                                             const dlc_element_##bytes *from, int64_t step) \
    { \
        dlc_eight_##bytes a[8], b[8]; \
        for (int k = 0; k < 8; k++) { \
            a[k] = *(const dlc_eight_##bytes *)(from + k * step); \
        } \
        for (int pass = 0; pass < 3; pass++) { \
            for (int k = 0; k < 4; k++) { \
                b[2 * k] = DLC_ZIP(a[k], a[k + 4], 0, 8, 1, 9, 2, 10, 3, 11); \
                b[2 * k + 1] = DLC_ZIP(a[k], a[k + 4], 4, 12, 5, 13, 6, 14, 7, 15); \
            } \
            for (int k = 0; k < 8; k++) { \
                a[k] = b[k]; \
            } \
        } \
        for (int k = 0; k < 8; k++) { \
            *(dlc_eight_##bytes *)(out + k * 144) = a[k]; \
        } \
    }

/* The same for a register of two halves, between which only the last of the three passes moves
 * anything: shuffles across the halves are slow. */
#define DLC_TRANSPOSE_HALVES(bytes, T) \
    typedef T dlc_eight_##bytes \
        __attribute__((vector_size(8 * bytes), aligned(bytes), may_alias)); \
    DLC_FN void dlc_transpose_registers_##bytes(dlc_eight_##bytes *a) \
    { \
        dlc_eight_##bytes b[8]; \
        for (int k = 0; k < 8; k += 2) { \
            b[k] = DLC_ZIP(a[k], a[k + 1], 0, 8, 1, 9, 4, 12, 5, 13); \
            b[k + 1] = DLC_ZIP(a[k], a[k + 1], 2, 10, 3, 11, 6, 14, 7, 15); \
        } \
        for (int k = 0; k < 8; k++) { \
            int from_k = (k & 4) + (k >> 1 & 1), to_k = (k & 4) + 2 * (k >> 1 & 1) + (k & 1); \
            a[to_k] = k & 1 ? DLC_ZIP(b[from_k], b[from_k + 2], 2, 3, 10, 11, 6, 7, 14, 15) \
                            : DLC_ZIP(b[from_k], b[from_k + 2], 0, 1, 8, 9, 4, 5, 12, 13); \
        } \
        for (int k = 0; k < 4; k++) { \
            b[k] = DLC_ZIP(a[k], a[k + 4], 0, 1, 2, 3, 8, 9, 10, 11); \
            b[k + 4] = DLC_ZIP(a[k], a[k + 4], 4, 5, 6, 7, 12, 13, 14, 15); \
        } \
        for (int k = 0; k < 8; k++) { \
            a[k] = b[k]; \
        } \
    } \
    DLC_FN void dlc_transpose_square_##bytes(dlc_element_##bytes *out, \
                                             const dlc_element_##bytes *from, int64_t step) \
    { \
        dlc_eight_##bytes a[8]; \
        for (int k = 0; k < 8; k++) { \
            a[k] = *(const dlc_eight_##bytes *)(from + k * step); \
        } \
        dlc_transpose_registers_##bytes(a); \
        for (int k = 0; k < 8; k++) { \
            *(dlc_eight_##bytes *)(out + k * 144) = a[k]; \
        } \
    }

/* The same for four rows of four elements of eight bytes. */
#define DLC_TRANSPOSE_FOUR(bytes, T) \
    typedef T dlc_four_##bytes __attribute__((vector_size(4 * bytes), aligned(bytes), may_alias)); \
    DLC_FN void dlc_transpose_square_##bytes(dlc_element_##bytes *out, \
                                             const dlc_element_##bytes *from, int64_t step) \
    { \
        dlc_four_##bytes a[4], b[4]; \
        for (int k = 0; k < 4; k++) { \
            a[k] = *(const dlc_four_##bytes *)(from + k * step); \
        } \
        for (int k = 0; k < 4; k += 2) { \
            b[k] = DLC_ZIP(a[k], a[k + 1], 0, 4, 2, 6); \
            b[k + 1] = DLC_ZIP(a[k], a[k + 1], 1, 5, 3, 7); \
        } \
        for (int k = 0; k < 2; k++) { \
            *(dlc_four_##bytes *)(out + k * 144) = DLC_ZIP(b[k], b[k + 2], 0, 1, 4, 5); \
            *(dlc_four_##bytes *)(out + (k + 2) * 144) = DLC_ZIP(b[k], b[k + 2], 2, 3, 6, 7); \
        } \
    }

/* out[r * 144 + c] = from[c * step + r] for r < rows <= 64, c < columns <= 128.  Each line of the
 * cache is a step away from the last, where no processor prefetches by itself: it is prefetched
 * sixteen lines before, unless the whole part is small enough to be in a cache already.  Rows of
 * `out` do not begin a power of two apart, so that they do not compete for the same places of the
 * cache. */
#define DLC_TRANSPOSE(bytes, side) \
    static __attribute__((unused)) void dlc_transpose_##bytes( \
        void *to, const void *first, int64_t step, int64_t rows, int64_t columns) \
    { \
        dlc_element_##bytes *out = to; \
        const dlc_element_##bytes *from = first; \
        int far = step > 4096 / bytes || step < -4096 / bytes; \
        int64_t c = 0; \
        for (; c + side <= columns; c += side) { \
            for (int64_t k = 16; far && k < 16 + side; k++) { \
                for (int64_t r = 0; r < rows; r += 64 / bytes) { \
                    __builtin_prefetch(from + (c + k) * step + r); \
                } \
            } \
            int64_t r = 0; \
            for (; r + side <= rows; r += side) { \
                dlc_transpose_square_##bytes(out + r * 144 + c, from + c * step + r, step); \
            } \
            for (; r < rows; r++) { \
                for (int k = 0; k < side; k++) { \
                    out[r * 144 + c + k] = from[(c + k) * step + r]; \
                } \
            } \
        } \
        for (; c < columns; c++) { \
            for (int64_t r = 0; r < rows; r++) { \
                out[r * 144 + c] = from[c * step + r]; \
            } \
        } \
    }

typedef uint8_t __attribute__((may_alias)) dlc_element_1;
typedef uint16_t __attribute__((may_alias)) dlc_element_2;
typedef uint32_t __attribute__((may_alias)) dlc_element_4;
typedef uint64_t __attribute__((may_alias)) dlc_element_8;
typedef struct __attribute__((may_alias)) {
    double re, im;
} dlc_element_16;

#ifdef DLC_ZIP
DLC_TRANSPOSE_ZIP(1, uint8_t)
DLC_TRANSPOSE_ZIP(2, uint16_t)
DLC_TRANSPOSE(1, 8)
DLC_TRANSPOSE(2, 8)
#else
DLC_TRANSPOSE_SQUARE(1, uint8_t, 4)
DLC_TRANSPOSE_SQUARE(2, uint16_t, 4)
DLC_TRANSPOSE(1, 4)
DLC_TRANSPOSE(2, 4)
#endif
#if defined DLC_ZIP && defined __AVX__
DLC_TRANSPOSE_HALVES(4, uint32_t)
DLC_TRANSPOSE_FOUR(8, uint64_t)
DLC_TRANSPOSE(4, 8)
DLC_TRANSPOSE(8, 4)
#else
DLC_TRANSPOSE_SQUARE(4, uint32_t, 4)
DLC_TRANSPOSE_SQUARE(8, uint64_t, 2)
DLC_TRANSPOSE(4, 4)
DLC_TRANSPOSE(8, 2)
#endif
DLC_TRANSPOSE_SQUARE(16, dlc_element_16, 2)
DLC_TRANSPOSE(16, 2)

/* Stores that pass by the caches, where the compiler has a word for them and the processor is known
 * to be the faster for it.  A line is written without being read first, and what is in the caches
 * stays there. */
typedef float dlc_half_line __attribute__((vector_size(32), may_alias));
#if defined __AVX__ && defined __clang__
#define DLC_STREAMS 1
#define DLC_STREAM(to, half) __builtin_nontemporal_store(half, (dlc_half_line *)(to))
#elif defined __AVX__ && defined __GNUC__
#define DLC_STREAMS 1
#define DLC_STREAM(to, half) __builtin_ia32_movntps256((float *)(to), half)
#else
#define DLC_STREAMS 0
#define DLC_STREAM(to, half) (*(dlc_half_line *)(to) = (half))
#endif

/* to[k] = row[k] for k < count, elements of four bytes: whole lines of the cache so, the ends as
 * usual, and all of a row whose elements lie across the ends of lines. */
static __attribute__((unused)) void
dlc_stream(void *to, const void *row, int64_t count)
{
    dlc_element_4 *out = to;
    const dlc_element_4 *from = row;
    __UINTPTR_TYPE__ at = (__UINTPTR_TYPE__)to;
    int64_t k = 0, first = at % 4 ? count : (int64_t)((64 - at % 64) % 64 / 4);
    for (; k < first && k < count; k++) {
        out[k] = from[k];
    }
    for (; k + 16 <= count; k += 16) {
        dlc_half_line halves[2];
        __builtin_memcpy(halves, from + k, sizeof halves);
        DLC_STREAM(out + k, halves[0]);
        DLC_STREAM(out + k + 8, halves[1]);
    }
    for (; k < count; k++) {
        out[k] = from[k];
    }
}

/* How many elements of so many bytes lie before a line of the cache begins. */
static inline __attribute__((always_inline, unused)) __INT64_TYPE__
dlc_lead(const void *to, int bytes)
{
    return (__INT64_TYPE__)((64 - (__UINTPTR_TYPE__)to % 64) % 64) / bytes;
}

/* So many lines, as usual where they do not begin where one of the cache does. */
static inline __attribute__((always_inline, unused)) void
dlc_stream_lines(void *to, const void *row, int lines)
{
    if ((__UINTPTR_TYPE__)to % 64) {
        __builtin_memcpy(to, row, 64 * (__SIZE_TYPE__)lines);
        return;
    }
    for (int k = 0; k < 2 * lines; k++) {
        dlc_half_line half;
        __builtin_memcpy(&half, (const char *)row + 32 * k, sizeof half);
        DLC_STREAM((char *)to + 32 * k, half);
    }
}

/* What was stored so is there for other threads, as all stores before a barrier are. */
DLC_FN void
dlc_stream_end(void)
{
#if DLC_STREAMS
    __builtin_ia32_sfence();
#endif
}
