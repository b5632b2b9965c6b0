/* What an exported program has besides its kernels: text that export_runtime.c takes parts of.
 *
 * A line of dashes with a word begins a part, which a program has if it uses the word; a part uses
 * only parts before it.  `model` is the name of the program.  Everything is C11 that
 * calls nothing but memcpy and memset, which compilers call by themselves. */
#include <stddef.h>
#include <stdint.h>

/* What is said in front of the parts elsewhere. */
typedef struct {
    void (*parallel)(void *user, int64_t n, void (*body)(void *arg, int64_t lo, int64_t hi),
                     void *arg);
    void *user;
} model_threads;

enum { DLC_PIECES = 16, DLC_BUFFERS = 64, DLC_RANK = 16 };

/* ---- fabs ---- */
static inline double
dlc_own_fabs(double a)
{
    union {
        double f;
        uint64_t bits;
    } of = {a};
    of.bits &= INT64_MAX;
    return of.f;
}
#define fabs dlc_own_fabs

/* ---- fabsf ---- */
static inline float
dlc_own_fabsf(float a)
{
    union {
        float f;
        uint32_t bits;
    } of = {a};
    of.bits &= INT32_MAX;
    return of.f;
}
#define fabsf dlc_own_fabsf

/* ---- copysign ---- */
static inline double
dlc_own_copysign(double a, double b)
{
    union {
        double f;
        uint64_t bits;
    } of = {a}, sign = {b};
    of.bits = (of.bits & INT64_MAX) | (sign.bits & ~(uint64_t)INT64_MAX);
    return of.f;
}
#define copysign dlc_own_copysign

/* ---- copysignf ---- */
static inline float
dlc_own_copysignf(float a, float b)
{
    union {
        float f;
        uint32_t bits;
    } of = {a}, sign = {b};
    of.bits = (of.bits & INT32_MAX) | (sign.bits & ~(uint32_t)INT32_MAX);
    return of.f;
}
#define copysignf dlc_own_copysignf

/* ---- dlc_own_round ---- */
/* Half to even, by adding and taking away a number whose unit is 1. */
static inline double
dlc_own_round(double a)
{
    union {
        double f;
        uint64_t bits;
    } of = {a}, sign = {a};
    of.bits &= INT64_MAX;
    of.f = of.f < 0x1p52 ? of.f + 0x1p52 - 0x1p52 : of.f;
    of.bits |= sign.bits & ~(uint64_t)INT64_MAX;
    return of.f;
}

/* ---- dlc_own_roundf ---- */
static inline float
dlc_own_roundf(float a)
{
    union {
        float f;
        uint32_t bits;
    } of = {a}, sign = {a};
    of.bits &= INT32_MAX;
    of.f = of.f < 0x1p23f ? of.f + 0x1p23f - 0x1p23f : of.f;
    of.bits |= sign.bits & ~(uint32_t)INT32_MAX;
    return of.f;
}

/* ---- dlc_own_signed ---- */
/* With the sign of b, which a zero has too. */
static inline double
dlc_own_signed(double a, double b)
{
    union {
        double f;
        uint64_t bits;
    } of = {a}, sign = {b};
    of.bits = (of.bits & INT64_MAX) | (sign.bits & ~(uint64_t)INT64_MAX);
    return of.f;
}

/* ---- rint ---- */
/* part: dlc_own_round */
#define rint dlc_own_round

/* ---- rintf ---- */
/* part: dlc_own_roundf */
#define rintf dlc_own_roundf

/* ---- trunc ---- */
/* part: dlc_own_round */
/* part: dlc_own_signed */
static inline double
dlc_own_trunc(double a)
{
    double size = a < 0 ? -a : a, near = dlc_own_round(size);
    return dlc_own_signed(near > size ? near - 1 : near, a);
}
#define trunc dlc_own_trunc

/* ---- truncf ---- */
/* part: dlc_own_roundf */
/* part: dlc_own_signed */
static inline float
dlc_own_truncf(float a)
{
    float size = a < 0 ? -a : a, near = dlc_own_roundf(size);
    return (float)dlc_own_signed(near > size ? near - 1 : near, a);
}
#define truncf dlc_own_truncf

/* ---- floor ---- */
/* part: dlc_own_round */
/* part: dlc_own_signed */
static inline double
dlc_own_floor(double a)
{
    double near = dlc_own_round(a);
    return dlc_own_signed(near > a ? near - 1 : near, a);
}
#define floor dlc_own_floor

/* ---- floorf ---- */
/* part: dlc_own_roundf */
/* part: dlc_own_signed */
static inline float
dlc_own_floorf(float a)
{
    float near = dlc_own_roundf(a);
    return (float)dlc_own_signed(near > a ? near - 1 : near, a);
}
#define floorf dlc_own_floorf

/* ---- dlc_roots ---- */
#if defined(DLC_DIGITS) || defined(__TINYC__) || !(defined(__GNUC__) || defined(__clang__))
#define dlc_roots 0 /* none of the processor's is known */
#elif defined(__NO_MATH_ERRNO__) && (defined(__SSE2__) || defined(__aarch64__) || defined(__wasm__))
#define dlc_roots 1 /* -fno-math-errno: an instruction, and loops with it become vectors */
#elif defined(__SSE2__)
#define dlc_roots 2
#include <emmintrin.h>
#else
#define dlc_roots 0
#endif

#if dlc_roots == 0 && defined(__NO_MATH_ERRNO__) && defined(__ARM_FEATURE_FMA) && \
    !defined(DLC_DIGITS)
#define dlc_float_roots /* a small ARM, with instructions for floats alone */
#endif

#if dlc_roots == 0
/* Digit by digit. */
static inline double
dlc_digits(double a)
{
    union {
        double f;
        uint64_t bits;
    } of = {a};
    if (!(a > 0) || of.bits >> 52 == 0x7ff) {
        return a < 0 ? (a - a) / (a - a) : a;
    }
    int tiny = of.bits >> 52 == 0;
    of.f = tiny ? a * 0x1p108 : a;
    int exponent = (int)(of.bits >> 52) - 1023, odd = exponent & 1;
    uint64_t digits = ((of.bits & 0xfffffffffffff) | (uint64_t)1 << 52) << (10 + odd);
    uint64_t root = 0, rest = 0;
    for (int k = 0; k < 54; k++) {
        rest = rest << 2 | digits >> 62;
        digits <<= 2;
        root <<= 1;
        if (rest > root << 1) {
            rest -= root << 1 | 1;
            root |= 1;
        }
    }
    root = (root >> 1) + (root & 1);
    of.bits = ((uint64_t)((exponent - odd) / 2 + 1023 - 1) << 52) + root;
    return tiny ? of.f * 0x1p-54 : of.f;
}
#endif

/* ---- sqrt ---- */
/* part: dlc_roots */
static inline double
dlc_own_root(double a)
{
#if dlc_roots == 1
    return __builtin_sqrt(a);
#elif dlc_roots == 2
    return _mm_cvtsd_f64(_mm_sqrt_sd(_mm_set_sd(a), _mm_set_sd(a)));
#else
    return dlc_digits(a);
#endif
}
#define sqrt dlc_own_root

/* ---- sqrtf ---- */
/* part: dlc_roots */
static inline float
dlc_own_rootf(float a)
{
#if dlc_roots == 1
    return __builtin_sqrtf(a);
#elif defined(dlc_float_roots)
    (void)dlc_digits; /* is that of doubles */
    return __builtin_sqrtf(a);
#elif dlc_roots == 2
    return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(a)));
#else
    return (float)dlc_digits(a); /* rounded twice it is as if it were once: 53 >= 2 * 24 + 2 */
#endif
}
#define sqrtf dlc_own_rootf

/* ---- fmaf ---- */
/* -DDLC_HAS_FMA=0: two operations, faster where a processor has no such one, with other bits. */
#if defined(DLC_HAS_FMA) && !DLC_HAS_FMA
static inline float
dlc_own_fmaf(float a, float b, float c)
{
    return a * b + c;
}
#define fmaf dlc_own_fmaf
#elif (defined(__GNUC__) || defined(__clang__)) && !defined(__TINYC__) && \
    (defined(__FMA__) || defined(__aarch64__) || defined(__ARM_FEATURE_FMA) || \
     defined(__s390x__) || defined(__FP_FAST_FMAF))
#define fmaf __builtin_fmaf
#else
/* The product is exact in a double.  The sum is rounded to odd, so that rounding it again is as
 * rounding once. */
static inline float
dlc_own_fmaf(float a, float b, float c)
{
    union {
        double f;
        uint64_t bits;
    } sum;
    double product = (double)a * b;
    sum.f = product + c;
    double back = sum.f - product, lost = (product - (sum.f - back)) + (c - back);
    if (sum.f - sum.f == 0 && lost != 0 && !(sum.bits & 1)) {
        sum.bits += (lost > 0) == (sum.f > 0) ? 1 : ~(uint64_t)0;
    }
    return (float)sum.f;
}
#define fmaf dlc_own_fmaf
#endif

/* ---- fma ---- */
#if defined(DLC_HAS_FMA) && !DLC_HAS_FMA
static inline double
dlc_own_fma(double a, double b, double c)
{
    return a * b + c;
}
#define fma dlc_own_fma
#elif (defined(__GNUC__) || defined(__clang__)) && !defined(__TINYC__) && \
    (defined(__FMA__) || defined(__aarch64__) || defined(__s390x__) || defined(__FP_FAST_FMA))
#define fma __builtin_fma
#else
/* high * 2^64 + low, times 2^exponent */
typedef struct {
    uint64_t high, low;
    int exponent;
} dlc_wide;

static inline dlc_wide
dlc_scaled(uint64_t high, uint64_t low, int exponent)
{
    for (; !(high >> 61); exponent--) {
        high = high << 1 | low >> 63;
        low <<= 1;
    }
    return (dlc_wide){high, low, exponent};
}

/* Its last bit says whether one was lost. */
static inline dlc_wide
dlc_shifted(dlc_wide w, int by)
{
    for (; by > 0 && (w.high || w.low > 1); by--) {
        w.low = w.low >> 1 | w.high << 63 | (w.low & 1);
        w.high >>= 1;
    }
    return w;
}

static inline dlc_wide
dlc_product(double a, double b)
{
    union {
        double f;
        uint64_t bits;
    } of[2] = {{a}, {b}};
    uint64_t m[2];
    int e[2];
    for (int k = 0; k < 2; k++) {
        int biased = (int)(of[k].bits >> 52 & 0x7ff);
        m[k] = (of[k].bits & 0xfffffffffffff) | (uint64_t)(biased > 0) << 52;
        e[k] = (biased > 0 ? biased : 1) - 1075;
    }
    uint64_t x = m[0] >> 32, y = m[1] >> 32, u = m[0] & 0xffffffff, v = m[1] & 0xffffffff;
    uint64_t middle = x * v + (u * v >> 32), other = u * y + (middle & 0xffffffff);
    return dlc_scaled(x * y + (middle >> 32) + (other >> 32), m[0] * m[1], e[0] + e[1]);
}

static inline double
dlc_rounded(dlc_wide w, int negative)
{
    union {
        uint64_t bits;
        double f;
    } of;
    int top = w.exponent + 127;
    for (; !(w.high >> 63); top--) {
        w.high = w.high << 1 | w.low >> 63;
        w.low <<= 1;
    }
    uint64_t all = w.high | (w.low != 0);
    int away = 11 + (top < -1022 ? -1022 - top : 0);
    if (top > 1023) {
        of.bits = (uint64_t)0x7ff << 52;
    } else if (away >= 64) {
        of.bits = away == 64 && all > (uint64_t)1 << 63;
    } else {
        uint64_t kept = all >> away, rest = all << (64 - away), half = (uint64_t)1 << 63;
        kept += rest > half || (rest == half && (kept & 1));
        of.bits = top < -1022 ? kept : ((uint64_t)(top + 1022) << 52) + kept;
    }
    return negative ? -of.f : of.f;
}

static inline double
dlc_own_fma(double a, double b, double c)
{
    double plain = a * b;
    if (a - a != 0 || b - b != 0 || a == 0 || b == 0) {
        return plain + c;
    }
    if (c - c != 0) {
        return c;
    }
    if (c == 0) {
        return plain != 0 ? plain : (a < 0) != (b < 0) ? -0.0 : 0.0;
    }
    dlc_wide x = dlc_product(a, b), y = dlc_product(c, 1);
    int of_x = (a < 0) != (b < 0), of_y = c < 0;
    int gap = x.exponent - y.exponent;
    if (gap < 0 || (gap == 0 && (x.high < y.high || (x.high == y.high && x.low < y.low)))) {
        dlc_wide swap = x;
        int sign = of_x;
        x = y;
        y = swap;
        of_x = of_y;
        of_y = sign;
        gap = -gap;
    }
    y = dlc_shifted(y, gap);
    if (of_x == of_y) {
        uint64_t low = x.low + y.low;
        x.high += y.high + (low < y.low);
        x.low = low;
    } else {
        x.high -= y.high + (x.low < y.low);
        x.low -= y.low;
    }
    return x.high | x.low ? dlc_rounded(x, of_x) : 0.0;
}
#define fma dlc_own_fma
#endif

/* ---- size_div ---- */
/* Rounded down; by zero, which can stand for what has no elements, 0. */
static inline int64_t
size_div(int64_t a, int64_t b)
{
    int64_t q = b ? a / b : 0;
    return b && a % b && (a < 0) != (b < 0) ? q - 1 : q;
}

/* ---- size_mod ---- */
static inline int64_t
size_mod(int64_t a, int64_t b)
{
    int64_t r = b ? a % b : 0;
    return r && (r < 0) != (b < 0) ? r + b : r;
}

/* ---- size_max ---- */
static inline int64_t
size_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- size_min ---- */
static inline int64_t
size_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- size_scale ---- */
/* a times the number with these bits, rounded down. */
static inline int64_t
size_scale(int64_t a, uint64_t bits)
{
    union {
        uint64_t bits;
        double f;
    } by = {bits};
    double product = (double)a * by.f;
    if (product >= 0x1p63 || product < -0x1p63) {
        return product < 0 ? INT64_MIN : INT64_MAX;
    }
    return (int64_t)product - ((double)(int64_t)product > product);
}

/* ---- size_plus ---- */
static inline int64_t
size_plus(int64_t a, int64_t b, int *over)
{
    if ((b > 0 && a > INT64_MAX - b) || (b < 0 && a < INT64_MIN - b)) {
        *over = 1;
        return 0;
    }
    return a + b;
}

/* ---- size_times ---- */
static inline int64_t
size_times(int64_t a, int64_t b, int *over)
{
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    if (x && y > INT64_MAX / x) {
        *over = 1;
        return 0;
    }
    return a * b;
}

/* ---- size_sum ---- */
/* Of bytes; INT64_MAX stands for too many. */
static inline int64_t
size_sum(int64_t a, int64_t b)
{
    return b > INT64_MAX - a ? INT64_MAX : a + b;
}

/* ---- size_span ---- */
/* The elements from the first to one past the last of an array. */
static inline int64_t
size_span(int rank, const int64_t *sizes, const int64_t *strides)
{
    int64_t last = 0;
    for (int k = 0; k < rank; k++) {
        if (sizes[k] <= 0) {
            return 0;
        }
        last += (sizes[k] - 1) * strides[k];
    }
    return last + 1;
}

/* ---- size_fits ---- */
/* part: size_plus */
/* part: size_times */
/* Are there less than 2^50 elements?  Then no place in memory has more than 64 bits. */
static inline int
size_fits(int rank, const int64_t *sizes, const int64_t *strides)
{
    int over = 0;
    int64_t last = 0;
    for (int k = 0; k < rank; k++) {
        if (sizes[k] <= 0) {
            return 1;
        }
        last = size_plus(last, size_times(sizes[k] - 1, strides[k], &over), &over);
    }
    return !over && last < INT64_C(1) << 50;
}

/* ---- size_room ---- */
/* So many bytes as whole lines of a cache. */
static inline int64_t
size_room(int64_t bytes)
{
    return bytes > 0 ? (bytes + 63) / 64 * 64 : 0;
}

/* ---- dlc_copy ---- */
/* Between two layouts of one shape that share no memory; strides in elements of so many bytes. */
static void
dlc_copy(int bytes, int rank, const int64_t *sizes, void *to, const int64_t *to_strides,
         const void *from, const int64_t *from_strides)
{
    int64_t index[DLC_RANK] = {0}, elements = 1;
    for (int k = 0; k < rank; k++) {
        elements *= sizes[k];
    }
    for (int64_t i = 0; i < elements; i++) {
        int64_t out = 0, in = 0;
        for (int k = 0; k < rank; k++) {
            out += index[k] * to_strides[k];
            in += index[k] * from_strides[k];
        }
        for (int k = 0; k < bytes; k++) {
            ((char *)to)[out * bytes + k] = ((const char *)from)[in * bytes + k];
        }
        for (int k = rank - 1; k >= 0 && ++index[k] == sizes[k]; k--) {
            index[k] = 0;
        }
    }
}

/* ---- dlc_move ---- */
static void
dlc_move(void *to, const void *from, int64_t bytes)
{
    for (int64_t k = 0; k < bytes && to != from; k++) {
        ((char *)to)[k] = ((const char *)from)[k];
    }
}

/* ---- dlc_launch ---- */
/* A part of a kernel: `extent` iterations, which may run in any order, and memory for each piece of
 * them at p[count]. */
typedef struct {
    int (*run)(void *const *p, const int64_t *n, int64_t lo, int64_t hi);
    void *const *p;
    const int64_t *n;
    int count;
    int64_t extent, work, each, pieces;
    int fault[DLC_PIECES];
} dlc_job;

static void
dlc_pieces(void *arg, int64_t lo, int64_t hi)
{
    dlc_job *job = arg;
    int64_t size = job->extent / job->pieces, rest = job->extent % job->pieces;
    for (int64_t k = lo; k < hi; k++) {
        void *p[DLC_BUFFERS + 1];
        for (int j = 0; j <= job->count; j++) {
            p[j] = job->p[j];
        }
        p[job->count] = (char *)p[job->count] + k * job->each;
        job->fault[k] = job->run(p, job->n, size * k + rest * k / job->pieces,
                                 size * (k + 1) + rest * (k + 1) / job->pieces);
    }
}

/* Has it a fault? */
static int
dlc_launch(dlc_job *job, const model_threads *threads)
{
    int64_t least = 65536 / (job->work > 0 ? job->work : 1) + 1;
    job->pieces = job->extent / least < DLC_PIECES ? job->extent / least : DLC_PIECES;
    if (!threads || job->pieces <= 1) {
        return job->extent > 0 && job->run(job->p, job->n, 0, job->extent) != 0;
    }
    threads->parallel(threads->user, job->pieces, dlc_pieces, job);
    int fault = 0;
    for (int64_t k = 0; k < job->pieces; k++) {
        fault |= job->fault[k];
    }
    return fault != 0;
}

/* ---- dlc_first_lowest ---- */
/* Is the first byte of a number the lowest one, as in a file of weights? */
static inline int
dlc_first_lowest(void)
{
    const uint16_t one = 1;
    return *(const unsigned char *)&one;
}

/* ---- dlc_tensor ---- */
/* Where a file of JSON is read. */
typedef struct {
    const char *at, *end;
} dlc_json;

static inline int
dlc_is(dlc_json *j, char c)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\t')) {
        j->at++;
    }
    int is = j->at < j->end && *j->at == c;
    j->at += is;
    return is;
}

/* The string that begins here, without its quotes; its length, or -1. */
static inline int64_t
dlc_string(dlc_json *j, const char **begin)
{
    if (!dlc_is(j, '"')) {
        return -1;
    }
    *begin = j->at;
    for (; j->at < j->end && *j->at != '"'; j->at++) {
        j->at += *j->at == '\\' && j->at + 1 < j->end;
    }
    return j->at < j->end ? (int64_t)(j->at++ - *begin) : -1;
}

static inline int
dlc_word(const char *text, int64_t length, const char *word)
{
    int64_t k = 0;
    while (k < length && word[k] && word[k] == text[k]) {
        k++;
    }
    return k == length && !word[k];
}

/* The whole number of up to 18 digits that begins here, or -1; what follows more is none of it. */
static inline int64_t
dlc_number(dlc_json *j)
{
    int64_t value = 0;
    int digits = 0;
    dlc_is(j, '\0');
    for (; j->at < j->end && *j->at >= '0' && *j->at <= '9' && digits < 18; digits++) {
        value = value * 10 + (*j->at++ - '0');
    }
    return digits ? value : -1;
}

/* Behind the value that begins here. */
static inline void
dlc_skip(dlc_json *j)
{
    const char *text;
    for (int64_t depth = 0; j->at < j->end; j->at++) {
        if (depth == 0 && (*j->at == ',' || *j->at == '}' || *j->at == ']')) {
            return;
        }
        depth += (*j->at == '{' || *j->at == '[') - (*j->at == '}' || *j->at == ']');
        if (*j->at == '"') {
            if (dlc_string(j, &text) < 0) {
                return;
            }
            j->at--;
        }
    }
}

typedef struct {
    const char *name, *dtype;
    int size, rank; /* bytes of an element */
    const int64_t *shape;
} dlc_wanted;

/* The offset of the tensor that is described here, or -1: it is another one. */
static inline int64_t
dlc_described(dlc_json *j, const dlc_wanted *w, int64_t room)
{
    const char *key, *dtype;
    int64_t length, bytes = w->size, begin = -1, end = -1;
    int same = 0, shaped = 0;
    for (int more = dlc_is(j, '{'); more; more = dlc_is(j, ',')) {
        length = dlc_string(j, &key);
        if (length < 0 || !dlc_is(j, ':')) {
            return -1;
        }
        if (dlc_word(key, length, "dtype")) {
            length = dlc_string(j, &dtype);
            same = length >= 0 && dlc_word(dtype, length, w->dtype);
        } else if (dlc_word(key, length, "shape")) {
            shaped = dlc_is(j, '[');
            for (int k = 0; k < w->rank && shaped; k++) {
                shaped = (k == 0 || dlc_is(j, ',')) && dlc_number(j) == w->shape[k];
                bytes *= w->shape[k];
            }
            shaped = shaped && dlc_is(j, ']');
        } else if (dlc_word(key, length, "data_offsets") && dlc_is(j, '[')) {
            begin = dlc_number(j);
            end = dlc_is(j, ',') ? dlc_number(j) : -1;
            end = dlc_is(j, ']') ? end : -1;
        } else {
            dlc_skip(j);
        }
    }
    return same && shaped && begin >= 0 && end <= room && end - begin == bytes ? begin : -1;
}

/* The data of a tensor in a safetensors file; NULL: there is none of this name, type and shape. */
static inline const void *
dlc_tensor(const void *file, size_t bytes, const dlc_wanted *w)
{
    const unsigned char *head = (const unsigned char *)file;
    const char *key;
    uint64_t length = 0;
    for (int k = 0; k < 8 && bytes >= 8; k++) {
        length |= (uint64_t)head[k] << 8 * k;
    }
    if (bytes < 8 || length > bytes - 8) {
        return NULL;
    }
    dlc_json j = {(const char *)file + 8, (const char *)file + 8 + length};
    const char *data = j.end;
    for (int more = dlc_is(&j, '{'); more; more = dlc_is(&j, ',')) {
        int64_t n = dlc_string(&j, &key);
        if (n < 0 || !dlc_is(&j, ':')) {
            return NULL;
        }
        if (dlc_word(key, n, w->name)) {
            int64_t at = dlc_described(&j, w, (int64_t)(bytes - 8 - length));
            return at < 0 || (uintptr_t)(data + at) % (unsigned)w->size ? NULL : data + at;
        }
        dlc_skip(&j);
    }
    return NULL;
}
