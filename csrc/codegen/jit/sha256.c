/* SHA-256 as FIPS 180-4 defines it: the names of cache entries and the seal on their content. */
#include "codegen/process.h"
#include "codegen/processor.h"
#include "jit.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t
rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void
portable_blocks(uint32_t state[8], const uint8_t *p, size_t n)
{
    for (; n; n--) {
        uint32_t w[64], v[8];
        for (int i = 0; i < 16; i++, p += 4) {
            w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
        }
        for (int i = 16; i < 64; i++) {
            uint32_t a = w[i - 15], b = w[i - 2];
            w[i] = w[i - 16] + w[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
                   (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
        }
        memcpy(v, state, sizeof v);
        for (int i = 0; i < 64; i++) {
            uint32_t a = v[0], e = v[4];
            uint32_t t = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                         ((e & v[5]) ^ (~e & v[6])) + K[i] + w[i];
            uint32_t u = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                         ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
            memmove(v + 1, v, 7 * sizeof *v);
            v[4] += t;
            v[0] = t + u;
        }
        for (int i = 0; i < 8; i++) {
            state[i] += v[i];
        }
    }
}

#if defined(__x86_64__)
/* The instructions take the eight words as a, b, e, f and c, d, g, h, the first one highest. */
__attribute__((target("sha,sse4.1"))) static void
sha_blocks(uint32_t state[8], const uint8_t *p, size_t n)
{
    const __m128i bytes = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i abcd = _mm_loadu_si128((const __m128i *)state);
    __m128i efgh = _mm_loadu_si128((const __m128i *)(state + 4));
    __m128i cdab = _mm_shuffle_epi32(abcd, 0xb1), hgfe = _mm_shuffle_epi32(efgh, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, hgfe, 8), cdgh = _mm_blend_epi16(hgfe, cdab, 0xf0);
    for (; n; n--, p += 64) {
        __m128i w[4], abef_before = abef, cdgh_before = cdgh;
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m128i *now = &w[i % 4], before = w[(i + 3) % 4];
            if (i < 4) {
                *now = _mm_loadu_si128((const __m128i *)(p + (ptrdiff_t)16 * i));
                *now = _mm_shuffle_epi8(*now, bytes);
            } else {
                __m128i sum = _mm_sha256msg1_epu32(*now, w[(i + 1) % 4]);
                sum = _mm_add_epi32(sum, _mm_alignr_epi8(before, w[(i + 2) % 4], 4));
                *now = _mm_sha256msg2_epu32(sum, before);
            }
            __m128i k = _mm_add_epi32(*now,
                                      _mm_loadu_si128((const __m128i *)(K + (ptrdiff_t)4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, k);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(k, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

/* Leaf 7 of cpuid, bit 29 of ebx; asked once, since a virtual machine leaves for the instruction.
 * Where DLC_ISA leaves out what is newer than SSE2, they are left out as well. */
static bool
has_sha(void)
{
    static atomic_int known; /* 0: not asked */
    int now = atomic_load_explicit(&known, memory_order_relaxed);
    if (!now) {
        unsigned a = 0, b = 0, c = 0, d = 0;
        bool has = isa_info[processor_isa()].fuses && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
                   (b >> 29 & 1);
        now = has ? 1 : -1;
        atomic_store_explicit(&known, now, memory_order_relaxed);
    }
    return now > 0;
}
#endif

/* The hash of all files of kernels that a model has is a good part of the time of a second start:
 * the processor's own instructions are ten times as fast. */
static void
blocks(Sha256 *s, const uint8_t *p, size_t n)
{
#if defined(__x86_64__)
    if (has_sha()) {
        sha_blocks(s->state, p, n);
        return;
    }
#endif
    portable_blocks(s->state, p, n);
}

void
sha256_begin(Sha256 *s)
{
    *s = (Sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                            0x1f83d9ab, 0x5be0cd19}};
}

void
sha256_add(Sha256 *s, const void *data, size_t size)
{
    const uint8_t *p = data;
    while (size) {
        size_t used = s->size % sizeof s->rest, take = sizeof s->rest - used;
        if (!used && size >= sizeof s->rest) {
            take = size - size % sizeof s->rest;
            blocks(s, p, take / sizeof s->rest);
        } else {
            take = take < size ? take : size;
            memcpy(s->rest + used, p, take);
            if (used + take == sizeof s->rest) {
                blocks(s, s->rest, 1);
            }
        }
        s->size += take;
        p += take;
        size -= take;
    }
}

void
sha256_end(Sha256 *s, uint8_t digest[SHA256_SIZE])
{
    uint64_t bits = s->size * 8;
    uint8_t tail[8];
    for (int i = 0; i < 8; i++) {
        tail[i] = (uint8_t)(bits >> (56 - 8 * i));
    }
    static const uint8_t padding[sizeof s->rest] = {0x80};
    size_t used = (s->size + sizeof tail) % sizeof s->rest;
    sha256_add(s, padding, sizeof padding - used);
    sha256_add(s, tail, sizeof tail);
    for (int i = 0; i < SHA256_SIZE; i++) {
        digest[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}

void
key_end(Sha256 *s, Key *out)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[SHA256_SIZE];
    sha256_end(s, digest);
    for (int i = 0; i < SHA256_SIZE; i++) {
        out->hex[2 * i] = digits[digest[i] >> 4];
        out->hex[2 * i + 1] = digits[digest[i] & 15];
    }
    out->hex[2 * SHA256_SIZE] = '\0';
}
