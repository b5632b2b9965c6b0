/* Scans of eight rows at a time; see prelude.h.
 *
 * Along a row each combination waits for the one before it; down a column of eight rows none waits
 * for another.  So squares of eight rows by eight elements are transposed in registers
 * (prelude_transpose.h), a column is combined as one vector, and the result is transposed back.
 * Each row's order is as it was. One thread of Zen 5, nanoseconds a float: 0.19 where four rows,
 * one by one, take 0.38; from memory 0.20 to 0.26 where those take 0.44 to 0.52, and a copy
 * 0.19. */

/* how far ahead each row is prefetched: processors follow fewer than eight */
enum { DLC_SCAN_PREFETCH = 256 };

/* out[r * out_row + k] = start and the first k + 1 elements of row r of `a`, combined in their
 * order, for r < 8 and k < n.  out may be a.  nontemporal: stores bypass the caches, where rows
 * begin where lines do. */
#define DLC_SCAN_ROWS(name, sign) \
    static __attribute__((unused)) void dlc_scan_rows_##name( \
        float *out, int64_t out_row, const float *a, int64_t a_row, double start, int64_t n, \
        int nontemporal) \
    { \
        double run[8] = {start, start, start, start, start, start, start, start}; \
        int64_t k = 0; \
        DLC_SCAN_SQUARES(sign) \
        for (; k < n; k++) { \
            _Pragma("GCC unroll 8") for (int r = 0; r < 8; r++) \
            { \
                run[r] = run[r] sign(double) a[r * a_row + k]; \
                out[r * out_row + k] = (float)run[r]; \
            } \
        } \
    }

#if defined DLC_ZIP && defined __AVX__
typedef float dlc_eight_f32 __attribute__((vector_size(32)));
typedef double dlc_eight_f64 __attribute__((vector_size(64)));

/* Two squares, which are a line of each row. */
#define DLC_SCAN_SQUARES(sign) \
    dlc_eight_f64 runs; \
    int lines = nontemporal && DLC_STREAMS && (__UINTPTR_TYPE__)out % 64 == 0 && \
                out_row % 16 == 0; \
    __builtin_memcpy(&runs, run, sizeof runs); \
    for (; k + 16 <= n; k += 16) { \
        dlc_eight_4 x[16]; \
        for (int r = 0; r < 8; r++) { \
            __builtin_prefetch(a + r * a_row + k + DLC_SCAN_PREFETCH); \
            x[r] = *(const dlc_eight_4 *)(a + r * a_row + k); \
            x[8 + r] = *(const dlc_eight_4 *)(a + r * a_row + k + 8); \
        } \
        dlc_transpose_registers_4(x); \
        dlc_transpose_registers_4(x + 8); \
        for (int c = 0; c < 16; c++) { \
            runs = runs sign __builtin_convertvector((dlc_eight_f32)x[c], dlc_eight_f64); \
            x[c] = (dlc_eight_4) __builtin_convertvector(runs, dlc_eight_f32); \
        } \
        dlc_transpose_registers_4(x); \
        dlc_transpose_registers_4(x + 8); \
        for (int r = 0; r < 8; r++) { \
            if (lines) { \
                DLC_STREAM(out + r * out_row + k, (dlc_half_line)x[r]); \
                DLC_STREAM(out + r * out_row + k + 8, (dlc_half_line)x[8 + r]); \
            } else { \
                *(dlc_eight_4 *)(out + r * out_row + k) = x[r]; \
                *(dlc_eight_4 *)(out + r * out_row + k + 8) = x[8 + r]; \
            } \
        } \
    } \
    __builtin_memcpy(run, &runs, sizeof runs);
#else
#define DLC_SCAN_SQUARES(sign) (void)nontemporal;
#endif

DLC_SCAN_ROWS(add_f32, +)
DLC_SCAN_ROWS(mul_f32, *)
