/* Transposes of a part of a matrix, for loops that read across its rows; see prelude.h. */

/* out[r * 272 + c] = from[c * step + r] for r < rows <= 32, c < columns <= 256: elements side by
 * side in memory are read together, four rows at a time, which compilers make shuffles of.  Each
 * line of the cache is a step away from the last, where no processor looks ahead by itself: it is
 * asked for sixteen lines before.  Rows of `out` do not begin a power of two apart, so that they do
 * not compete for the same places of the cache. */
#define DLC_TURN(bytes, T) \
    typedef T __attribute__((may_alias)) dlc_element_##bytes; \
    static __attribute__((unused)) void \
    dlc_turn_##bytes(void *to, const void *first, int64_t step, int64_t rows, int64_t columns) \
    { \
        dlc_element_##bytes *out = to; \
        const dlc_element_##bytes *from = first; \
        int64_t c = 0; \
        for (; c + 4 <= columns; c += 4) { \
            for (int64_t k = 16; k < 20; k++) { \
                for (int64_t r = 0; r < rows; r += 64 / bytes) { \
                    __builtin_prefetch(from + (c + k) * step + r); \
                } \
            } \
            int64_t r = 0; \
            for (; r + 4 <= rows; r += 4) { \
                T block[4][4]; \
                for (int k = 0; k < 4; k++) { \
                    for (int j = 0; j < 4; j++) { \
                        block[j][k] = from[(c + k) * step + r + j]; \
                    } \
                } \
                for (int j = 0; j < 4; j++) { \
                    for (int k = 0; k < 4; k++) { \
                        out[(r + j) * 272 + c + k] = block[j][k]; \
                    } \
                } \
            } \
            for (; r < rows; r++) { \
                for (int k = 0; k < 4; k++) { \
                    out[r * 272 + c + k] = from[(c + k) * step + r]; \
                } \
            } \
        } \
        for (; c < columns; c++) { \
            for (int64_t r = 0; r < rows; r++) { \
                out[r * 272 + c] = from[c * step + r]; \
            } \
        } \
    }

DLC_TURN(1, uint8_t)
DLC_TURN(2, uint16_t)
DLC_TURN(4, uint32_t)
DLC_TURN(8, uint64_t)
