/* Strips whose result passes by the caches; included by strips_isa.c.
 *
 * What: what the last strip of a vector loop computes, stored line by line where the caches are not
 * for it. How: elements before the first whole line of the result and after the last one are the
 * usual strip's, and so are all where scalars are set that have no loop here.  Why not a tile that
 * is stored so afterwards: it is one more pass through the tile, and sixteen lines at once wait for
 * each other while nothing is computed: of two tensors of 64 MiB swiglu took 1.2 times as long, and
 * with lines stored faster, 1.6 times. */

#if defined __AVX512F__ && defined __clang__
typedef float nontemporal_piece __attribute__((vector_size(64), may_alias));
#define NONTEMPORAL_PIECE(to, piece) __builtin_nontemporal_store(piece, (nontemporal_piece *)(to))
#elif defined __AVX512F__ && defined __GNUC__
typedef float nontemporal_piece __attribute__((vector_size(64), may_alias));
#define NONTEMPORAL_PIECE(to, piece) __builtin_ia32_movntps512((float *)(to), piece)
#else
typedef dlc_half_line nontemporal_piece;
#define NONTEMPORAL_PIECE(to, piece) DLC_STREAM(to, piece)
#endif

enum { LINE = 16 };                     /* elements of four bytes */

/* `to` begins a line. */
DLC_FN void
nontemporal_line(void *to, const void *line)
{
    for (int k = 0; k < LINE * 4 / (int)sizeof(nontemporal_piece); k++) {
        nontemporal_piece piece;
        __builtin_memcpy(&piece, (const nontemporal_piece *)line + k, sizeof piece);
        NONTEMPORAL_PIECE((nontemporal_piece *)to + k, piece);
    }
}

/* Elements before the first whole line: all, where no element begins one. */
DLC_FN int64_t
nontemporal_lead(const void *out, int64_t n)
{
    int64_t lead = (__UINTPTR_TYPE__)out % 4 ? n : dlc_lead(out, 4);
    return lead < n ? lead : n;
}

/* The whole lines from out + i on, of values that depend on i + k. */
#define NONTEMPORAL_LINES(T, value) \
    for (; i + LINE <= n; i += LINE) { \
        T line[LINE]; \
        LANES \
        for (int k = 0; k < LINE; k++) { \
            line[k] = value; \
        } \
        nontemporal_line(out + i, line); \
    }

static void
strip_stream(void *to, const void *row, int64_t n)
{
    uint32_t *out = to;
    const uint32_t *a = row;
    int64_t lead = nontemporal_lead(to, n), i = lead;
    __builtin_memcpy(out, a, (uint64_t)lead * 4);
    NONTEMPORAL_LINES(uint32_t, a[i + k])
    __builtin_memcpy(out + i, a + i, (uint64_t)(n - i) * 4);
}

static void
strip_stream_end(void)
{
    dlc_stream_end();
}

/* ---- by the number of operands ---- */

#define FROM(v, at, bit) (scalars & (bit) ? (v) : (v) + (at))

#define NONTEMPORAL_2(op) \
    static void strip_nontemporal_##op##_f32(void *result, const void *first, const void *second, \
                                             int64_t n, unsigned scalars) \
    { \
        float *out = result; \
        const float *a = first, *b = second, a0 = *a, b0 = *b; \
        int64_t i = nontemporal_lead(out, n); \
        strip_##op##_f32(out, a, b, i, scalars); \
        switch (scalars) { \
        case 0: \
            NONTEMPORAL_LINES(float, apply_##op##_f32(a[i + k], b[i + k])) break; \
        case 1: \
            NONTEMPORAL_LINES(float, apply_##op##_f32(a0, b[i + k])) break; \
        case 2: \
            NONTEMPORAL_LINES(float, apply_##op##_f32(a[i + k], b0)) break; \
        default:; \
        } \
        strip_##op##_f32(out + i, FROM(a, i, 1), FROM(b, i, 2), n - i, scalars); \
    }

#define NONTEMPORAL_3(op) \
    static void strip_nontemporal_##op##_f32(void *result, const void *first, const void *second, \
                                             const void *third, int64_t n, unsigned scalars) \
    { \
        float *out = result; \
        const float *a = first, *b = second, *c = third, b0 = *b, c0 = *c; \
        int64_t i = nontemporal_lead(out, n); \
        strip_##op##_f32(out, a, b, c, i, scalars); \
        switch (scalars) { \
        case 0: \
            NONTEMPORAL_LINES(float, apply_##op##_f32(a[i + k], b[i + k], c[i + k])) break; \
        case 2: \
            NONTEMPORAL_LINES(float, apply_##op##_f32(a[i + k], b0, c[i + k])) break; \
        case 4: \
            NONTEMPORAL_LINES(float, apply_##op##_f32(a[i + k], b[i + k], c0)) break; \
        case 6: \
            NONTEMPORAL_LINES(float, apply_##op##_f32(a[i + k], b0, c0)) break; \
        default:; \
        } \
        strip_##op##_f32(out + i, FROM(a, i, 1), FROM(b, i, 2), FROM(c, i, 4), n - i, scalars); \
    }

#define NONTEMPORAL_4(op) \
    static void strip_nontemporal_##op##_f32(void *result, const void *first, const void *second, \
                                             const void *third, const void *fourth, int64_t n, \
                                             unsigned scalars) \
    { \
        float *out = result; \
        const float *a = first, *b = second, *c = third, *d = fourth, b0 = *b, d0 = *d; \
        int64_t i = nontemporal_lead(out, n); \
        strip_##op##_f32(out, a, b, c, d, i, scalars); \
        switch (scalars) { \
        case 2: \
            NONTEMPORAL_LINES(float, apply_##op##_f32(a[i + k], b0, c[i + k], d[i + k])) break; \
        case 10: \
            NONTEMPORAL_LINES(float, apply_##op##_f32(a[i + k], b0, c[i + k], d0)) break; \
        default:; \
        } \
        strip_##op##_f32(out + i, FROM(a, i, 1), FROM(b, i, 2), FROM(c, i, 4), FROM(d, i, 8), \
                         n - i, scalars); \
    }

#define NONTEMPORAL(arity, strip) NONTEMPORAL_##arity(strip)
#include "fused.def"
