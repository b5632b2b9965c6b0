/* What a strip costs an element, in cycles: the fastest of many short runs on operands in the first
 * cache. */
#include <stdint.h>
#include <time.h>

typedef void Strip1(void *out, const void *a, int64_t n, unsigned scalars);
typedef void Strip2(void *out, const void *a, const void *b, int64_t n, unsigned scalars);
typedef void Strip3(void *out, const void *a, const void *b, const void *c, int64_t n,
                    unsigned scalars);

enum { CHAIN = 1000, PASSES = 16 };

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds of one cycle: additions each of which waits for the one before; the least of
 * `rounds`. */
double
cost_cycle(int rounds)
{
    double least = 1e300;
    uint64_t x = 1;
    for (int k = 0; k < rounds; k++) {
        double start = now();
        for (int j = 0; j < CHAIN; j++) {
            __asm__ volatile("" : "+r"(x));
            x += 1;
        }
        __asm__ volatile("" : "+r"(x));
        double took = now() - start;
        least = took < least ? took : least;
    }
    return least / CHAIN;
}

static double
pass(void *strip, int arity, void *out, void *const *in, int64_t n)
{
    double start = now();
    for (int k = 0; k < PASSES; k++) {
        if (arity == 1) {
            ((Strip1 *)strip)(out, in[0], n, 0);
        } else if (arity == 2) {
            ((Strip2 *)strip)(out, in[0], in[1], n, 0);
        } else {
            ((Strip3 *)strip)(out, in[0], in[1], in[2], n, 0);
        }
    }
    return now() - start;
}

/* Nanoseconds of one pass over n elements; the least of `rounds`. */
double
cost_pass(void *strip, int arity, void *out, void *const *in, int64_t n, int rounds)
{
    double least = 1e300;
    for (int k = 0; k < rounds; k++) {
        double took = pass(strip, arity, out, in, n);
        least = took < least ? took : least;
    }
    return least / PASSES;
}
