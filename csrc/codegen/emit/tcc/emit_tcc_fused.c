/* Two operations in one strip, for the libtcc tier: what a strip that computes does besides.
 *
 * What:     the strips of fused.def that reduce, add or store by themselves what others make.
 * Requires: nothing.
 * Ensures:  the same bits as two calls.
 * Why not:  more than two operations: each more multiplies the strips.
 * Example:  s = sum of x * y:  strip_fold_sum_mul_f32(x, y, w, 0);
 */
#include <string.h>

#include "emit_tcc.h"

typedef struct {
    Op red;
    const char *of, *strip;
} Fold;

static const Fold folds[] = {
#define FOLD(red, arity, strip) \
    {OP_##red, "strip_" #strip "_f32", "strip_fold_" #red "_" #strip "_f32"},
#include "codegen/strips/fused.def"
};

/* A step is an addition and what comes before it. */
static const Fold steps[] = {
    {OP_sum, "strip_mul_f32", "strip_pair_mul_add_left_f32"},
    {OP_sum, "strip_add_f32", "strip_pair_add_add_left_f32"},
    {OP_sum, "strip_sub_f32", "strip_pair_sub_add_left_f32"},
};

static const char *
find_fold(const Fold *table, size_t n, Op red, const char *strip)
{
    for (size_t k = 0; k < n; k++) {
        if (table[k].red == red && strcmp(table[k].of, strip) == 0) {
            return table[k].strip;
        }
    }
    return NULL;
}

const char *
tcc_find_fold(Op red, const char *strip)
{
    return find_fold(folds, sizeof folds / sizeof *folds, red, strip);
}

const char *
tcc_find_step(Op red, const char *strip)
{
    return find_fold(steps, sizeof steps / sizeof *steps, red, strip);
}

typedef struct {
    int arity;
    const char *of, *strip;
} Nontemporal;

static const Nontemporal nontemporals[] = {
#define NONTEMPORAL(arity, strip) \
    {arity, "strip_" #strip "_f32", "strip_nontemporal_" #strip "_f32"},
#include "codegen/strips/fused.def"
};

/* Has the strip of so many operands a loop for those that are one element? */
static bool
has_loop(int arity, unsigned mask)
{
    return arity == 2 ? mask < 3 : arity == 3 ? !(mask & 1) : (mask & ~8u) == 2;
}

const char *
tcc_find_nontemporal(const Call *call)
{
    for (size_t k = 0; k < sizeof nontemporals / sizeof *nontemporals; k++) {
        if (strcmp(nontemporals[k].of, call->strip) == 0 &&
            has_loop(nontemporals[k].arity, call->mask)) {
            return nontemporals[k].strip;
        }
    }
    return NULL;
}
