/* What the portable target's units have in place of GNU C, and their reductions.
 *
 * The build runs this file, the math header (ir/math) and prelude_reduce.h
 * through the preprocessor: emit_c_prelude.c takes from the result what a unit uses.  Of two
 * definitions of a name the first stands, so that those here replace the header's.
 *
 *     r = dlc_begin_<red>_<dtype>(lanes, block)  of an empty reduction
 *     dlc_step_<red>_<dtype>(&r, v)              one more element
 *     dlc_end_<red>_<dtype>(&r)                  the value
 *     dlc_lanes_<red>_<dtype>(v, n)              of a block of n elements in an array, in lanes
 *     dlc_sequence_<red>_<dtype>(v, n)           the same one after the other
 *
 * lanes, block: 16 and 1024 of a reduction marked lanes, 1 and 64 of one without marks, 1 and 1 of
 * one marked pairs: powers of two. */
#define DLC_PORTABLE
#define __attribute__(attributes)

/* ---- functions of the C library, and constants ---- */

#define __builtin_fma fma
#define __builtin_fmaf fmaf
#define __builtin_rint rint
#define __builtin_rintf rintf
#define __builtin_trunc trunc
#define __builtin_truncf truncf
#define __builtin_floor floor
#define __builtin_floorf floorf
#define __builtin_fabs fabs
#define __builtin_fabsf fabsf
#define __builtin_sqrt sqrt
#define __builtin_sqrtf sqrtf
#define __builtin_copysign copysign
#define __builtin_copysignf copysignf
#define __builtin_inf() dlc_infinity_f64()
#define __builtin_inff() dlc_infinity_f32()
#define __builtin_nan(text) dlc_nan_f64()
#define __builtin_nanf(text) dlc_nan_f32()
#define dlc_inf dlc_infinity_f64()
#define dlc_nan dlc_nan_f64()

double fma(double a, double b, double c);
float fmaf(float a, float b, float c);
double rint(double a);
float rintf(float a);
double trunc(double a);
float truncf(float a);
double floor(double a);
float floorf(float a);
double fabs(double a);
float fabsf(float a);
double sqrt(double a);
float sqrtf(float a);
double copysign(double a, double b);
float copysignf(float a, float b);

static inline float
dlc_infinity_f32(void)
{
    return dlc_from_bits_f32(0x7f800000u);
}
static inline double
dlc_infinity_f64(void)
{
    return dlc_from_bits_f64((uint64_t)0x7ff << 52);
}
static inline float
dlc_nan_f32(void)
{
    return dlc_from_bits_f32(0x7fc00000u);
}
static inline double
dlc_nan_f64(void)
{
    return dlc_from_bits_f64((uint64_t)0xfff << 51);
}

/* By names of their own: a value of the program may be called fma. */
static inline float
dlc_fma_f32(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline double
dlc_fma_f64(double a, double b, double c)
{
    return fma(a, b, c);
}
static inline int32_t
dlc_fma_i32(int32_t a, int32_t b, int32_t c)
{
    return a * b + c;
}
static inline int64_t
dlc_fma_i64(int64_t a, int64_t b, int64_t c)
{
    return a * b + c;
}

/* ---- bits ---- */

static inline uint32_t
dlc_bits_f32(float a)
{
    union {
        float f;
        uint32_t bits;
    } of = {a};
    return of.bits;
}

static inline float
dlc_from_bits_f32(uint32_t bits)
{
    union {
        uint32_t bits;
        float f;
    } of = {bits};
    return of.f;
}

static inline uint64_t
dlc_bits_f64(double a)
{
    union {
        double f;
        uint64_t bits;
    } of = {a};
    return of.bits;
}

static inline double
dlc_from_bits_f64(uint64_t bits)
{
    union {
        uint64_t bits;
        double f;
    } of = {bits};
    return of.f;
}

static inline dlc_c128
dlc_complex_f64(double re, double im)
{
    dlc_c128 z = {re, im};
    return z;
}

/* ---- dims: division rounds down; by zero, which can stand in an empty loop, it gives 0 ---- */

static inline int64_t
dim_div_size(int64_t a, int64_t b)
{
    int64_t q = b ? a / b : 0;
    return b && a % b && (a < 0) != (b < 0) ? q - 1 : q;
}

static inline int64_t
dim_mod_size(int64_t a, int64_t b)
{
    int64_t r = b ? a % b : a;
    return b && r && (r < 0) != (b < 0) ? r + b : r;
}

/* ---- reductions ---- */

/* Of integers none is NaN, and compilers warn of what looks for it. */
#define DLC_WHOLE(dtype, T) \
    static inline T dlc_or_nan_##dtype(T a, T v) \
    { \
        (void)a; \
        return v; \
    } \
    static inline int dlc_beats_argmax_##dtype(T a, T b) { return a > b; } \
    static inline int dlc_beats_argmin_##dtype(T a, T b) { return a < b; }
DLC_WHOLE(i32, int32_t)
DLC_WHOLE(i64, int64_t)

#define DLC_RUNNING(dtype, T) \
    typedef struct { \
        T lane[16], stack[64]; \
        int64_t lanes, block, count, blocks; \
    } dlc_reduction_##dtype;
DLC_RUNNING(bool, uint8_t)
DLC_RUNNING(i32, int32_t)
DLC_RUNNING(i64, int64_t)
DLC_RUNNING(f32, float)
DLC_RUNNING(f64, double)

#define DLC_STEPS(red, dtype, T) \
    static dlc_reduction_##dtype dlc_begin_##red##_##dtype(int lanes, int block) \
    { \
        dlc_reduction_##dtype r = {.lanes = lanes, .block = block}; \
        for (int k = 0; k < lanes; k++) { \
            r.lane[k] = dlc_identity_##red##_##dtype(); \
        } \
        return r; \
    } \
    static void dlc_push_##red##_##dtype(dlc_reduction_##dtype *r) \
    { \
        for (int64_t half = r->lanes / 2; half > 0; half /= 2) { \
            for (int64_t k = 0; k < half; k++) { \
                r->lane[k] = dlc_combine_##red##_##dtype(r->lane[k], r->lane[k + half]); \
            } \
        } \
        dlc_pairs_push_##red##_##dtype(r->stack, &r->blocks, r->lane[0]); \
        for (int64_t k = 0; k < r->lanes; k++) { \
            r->lane[k] = dlc_identity_##red##_##dtype(); \
        } \
    } \
    static void dlc_step_##red##_##dtype(dlc_reduction_##dtype *r, T v) \
    { \
        T *lane = r->lane + (r->count & (r->lanes - 1)); \
        *lane = dlc_combine_##red##_##dtype(*lane, v); \
        if ((++r->count & (r->block - 1)) == 0) { \
            dlc_push_##red##_##dtype(r); \
        } \
    } \
    static T dlc_end_##red##_##dtype(dlc_reduction_##dtype *r) \
    { \
        if ((r->count & (r->block - 1)) != 0) { \
            dlc_push_##red##_##dtype(r); \
        } \
        return dlc_pairs_fold_##red##_##dtype(r->stack, r->blocks); \
    } \
    static T dlc_lanes_##red##_##dtype(const T *v, int64_t n) \
    { \
        T lane[16]; \
        for (int k = 0; k < 16; k++) { \
            lane[k] = dlc_identity_##red##_##dtype(); \
        } \
        for (int64_t at = 0; at + 16 <= n; at += 16) { \
            DLC_ROLLED \
            for (int k = 0; k < 16; k++) { \
                lane[k] = dlc_combine_##red##_##dtype(lane[k], v[at + k]); \
            } \
        } \
        for (int k = 0; k < n % 16; k++) { \
            lane[k] = dlc_combine_##red##_##dtype(lane[k], v[n - n % 16 + k]); \
        } \
        for (int half = 8; half > 0; half /= 2) { \
            for (int k = 0; k < half; k++) { \
                lane[k] = dlc_combine_##red##_##dtype(lane[k], lane[k + half]); \
            } \
        } \
        return lane[0]; \
    } \
    static T dlc_sequence_##red##_##dtype(const T *v, int64_t n) \
    { \
        T all = dlc_identity_##red##_##dtype(); \
        for (int64_t k = 0; k < n; k++) { \
            all = dlc_combine_##red##_##dtype(all, v[k]); \
        } \
        return all; \
    }
#define DLC_STEPS_OF(dtype, T) \
    DLC_STEPS(sum, dtype, T) \
    DLC_STEPS(prod, dtype, T) \
    DLC_STEPS(amax, dtype, T) \
    DLC_STEPS(amin, dtype, T)
DLC_STEPS_OF(i32, int32_t)
DLC_STEPS_OF(i64, int64_t)
DLC_STEPS_OF(f32, float)
DLC_STEPS_OF(f64, double)
DLC_STEPS(any, bool, uint8_t)
DLC_STEPS(all, bool, uint8_t)
DLC_STEPS(amax, bool, uint8_t)
DLC_STEPS(amin, bool, uint8_t)
