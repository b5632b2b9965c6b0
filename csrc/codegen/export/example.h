/* The numbers of an example, and the hash of its results: the same text is compiled into dlc, which
 * says what is right, and stands in the program that checks it.
 *
 * kind: b bool, i integer, f floating point, h f16, g bf16, o another element of so many bytes */
#include <stdint.h>

static inline uint64_t
example_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (*state * 0x2545f4914f6cdd1d) >> 32;
}

/* step / 64 as the bits of an f16 or a bf16 */
static inline uint16_t
example_half(int step, char kind)
{
    unsigned size = (unsigned)(step < 0 ? -step : step), top = 0, sign = step < 0 ? 0x8000 : 0;
    while (size >> (top + 1)) {
        top++;
    }
    unsigned digits = kind == 'h' ? 10 : 7, bias = kind == 'h' ? 15 : 127;
    unsigned rest = top > digits ? size >> (top - digits) : size << (digits - top);
    unsigned value = ((top + bias - 6) << digits) | (rest & ((1u << digits) - 1));
    return (uint16_t)(sign | (size ? value : 0));
}

/* An integer is below `below`, if that is not 0; floating point numbers are from -2 to 2, or from 1
 * to 2 if they are to be positive. */
static inline void
example_fill(void *to, char kind, int bytes, int64_t elements, int64_t below, int positive,
             uint64_t *state)
{
    for (int64_t k = 0; k < elements; k++) {
        uint64_t some = example_next(state);
        int64_t whole = below ? (int64_t)(some % (uint64_t)below) : (int64_t)(some % 13);
        int step = positive ? 64 + (int)(some % 65) : (int)(some % 257) - 128;
        if (kind == 'b') {
            ((uint8_t *)to)[k] = some & 1;
        } else if (kind == 'i' && bytes == 1) {
            ((uint8_t *)to)[k] = (uint8_t)whole;
        } else if (kind == 'i' && bytes == 2) {
            ((int16_t *)to)[k] = (int16_t)whole;
        } else if (kind == 'i' && bytes == 4) {
            ((int32_t *)to)[k] = (int32_t)whole;
        } else if (kind == 'i') {
            ((int64_t *)to)[k] = whole;
        } else if (kind == 'f' && bytes == 4) {
            ((float *)to)[k] = (float)step / 64 + (float)(some >> 16 & 1023) / 65536;
        } else if (kind == 'f') {
            ((double *)to)[k] = (double)step / 64 + (double)(some >> 16 & 1023) / 65536;
        } else if (kind == 'h' || kind == 'g') {
            ((uint16_t *)to)[k] = example_half(step, kind);
        } else {
            for (int j = 0; j < bytes; j++) {
                ((uint8_t *)to)[k * bytes + j] = 0;
            }
        }
    }
}

/* All NaNs are one number here, and so are both zeros: which of them an operation gives is open. */
static inline uint64_t
example_hash(uint64_t hash, const void *from, char kind, int bytes, int64_t elements)
{
    const uint8_t *at = from;
    const uint16_t one = 1;
    const int first = *(const uint8_t *)&one; /* is the first byte the lowest one? */
    int digits = kind == 'h' ? 10 : kind == 'g' ? 7 : bytes == 4 ? 23 : 52;
    for (int64_t k = 0; k < elements; k++) {
        for (int part = 0; part < bytes; part += 8) {
            uint64_t value = 0;
            int size = bytes - part < 8 ? bytes - part : 8;
            for (int j = 0; j < size; j++) {
                value |= (uint64_t)at[k * bytes + part + j] << 8 * (first ? j : size - 1 - j);
            }
            if (kind == 'f' || kind == 'h' || kind == 'g') {
                uint64_t plain = value & ~((uint64_t)1 << (8 * bytes - 1));
                uint64_t infinity = (((uint64_t)1 << (8 * bytes - 1 - digits)) - 1) << digits;
                value = plain == 0 ? 0 : plain > infinity ? infinity + 1 : value;
            }
            hash = (hash ^ value) * 0x100000001b3;
            hash ^= hash >> 29;
        }
    }
    return hash;
}
