/* SHA-256 (FIPS 180-4, "Secure Hash Standard"): the same text is compiled into dlc, which says what
 * is right, and stands in the program that looks at its weights. */
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64]; /* what has come of the next 64 bytes */
} dlc_sha256;

static inline uint32_t
dlc_rotated(uint32_t x, int by)
{
    return x >> by | x << (32 - by);
}

static inline void
dlc_sha256_block(uint32_t *state, const uint8_t *block)
{
    static const uint32_t round[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
        0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
        0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
        0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
        0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
        0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
        0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
        0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
        0xc67178f2};
    uint32_t w[64], v[8];
    for (int k = 0; k < 16; k++) {
        w[k] = (uint32_t)block[4 * k] << 24 | (uint32_t)block[4 * k + 1] << 16 |
               (uint32_t)block[4 * k + 2] << 8 | block[4 * k + 3];
    }
    for (int k = 16; k < 64; k++) {
        uint32_t a = w[k - 15], b = w[k - 2];
        w[k] = w[k - 16] + w[k - 7] + (dlc_rotated(a, 7) ^ dlc_rotated(a, 18) ^ a >> 3) +
               (dlc_rotated(b, 17) ^ dlc_rotated(b, 19) ^ b >> 10);
    }
    for (int k = 0; k < 8; k++) {
        v[k] = state[k];
    }
    for (int k = 0; k < 64; k++) {
        uint32_t e = v[4], a = v[0];
        uint32_t one = v[7] + (dlc_rotated(e, 6) ^ dlc_rotated(e, 11) ^ dlc_rotated(e, 25)) +
                       ((e & v[5]) ^ (~e & v[6])) + round[k] + w[k];
        uint32_t two = (dlc_rotated(a, 2) ^ dlc_rotated(a, 13) ^ dlc_rotated(a, 22)) +
                       ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        for (int j = 7; j > 0; j--) {
            v[j] = v[j - 1];
        }
        v[4] += one;
        v[0] = one + two;
    }
    for (int k = 0; k < 8; k++) {
        state[k] += v[k];
    }
}

static inline void
dlc_sha256_begin(dlc_sha256 *sha)
{
    *sha = (dlc_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                  0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

static inline void
dlc_sha256_add(dlc_sha256 *sha, const void *data, size_t bytes)
{
    const uint8_t *at = (const uint8_t *)data, *end = at + bytes;
    while (at < end) {
        size_t have = (size_t)(sha->bytes % 64);
        if (have == 0 && end - at >= 64) {
            dlc_sha256_block(sha->state, at);
            at += 64;
            sha->bytes += 64;
            continue;
        }
        sha->block[have] = *at++;
        sha->bytes++;
        if (have == 63) {
            dlc_sha256_block(sha->state, sha->block);
        }
    }
}

/* Ends the text, and says whether its hash is this one. */
static inline int
dlc_sha256_is(dlc_sha256 *sha, const uint32_t *wanted)
{
    const uint64_t bits = sha->bytes * 8;
    const uint8_t one = 0x80, zero = 0;
    dlc_sha256_add(sha, &one, 1);
    while (sha->bytes % 64 != 56) {
        dlc_sha256_add(sha, &zero, 1);
    }
    for (int k = 56; k >= 0; k -= 8) {
        const uint8_t byte = (uint8_t)(bits >> k);
        dlc_sha256_add(sha, &byte, 1);
    }
    int same = 1;
    for (int k = 0; k < 8; k++) {
        same &= sha->state[k] == wanted[k];
    }
    return same;
}
