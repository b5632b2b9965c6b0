/* Random numbers, chances and orders. */
#include "gen.h"

#include "ir/eval/eval.h"

int
below(uint64_t *random, int n)
{
    return (int)sample_below(random, n);
}

bool
chance(uint64_t *random, int percent)
{
    return below(random, 100) < percent;
}

void
shuffle(uint64_t *random, int n, int *order)
{
    for (int k = 0; k < n; k++) {
        int j = below(random, k + 1);
        order[k] = order[j];
        order[j] = k;
    }
}
