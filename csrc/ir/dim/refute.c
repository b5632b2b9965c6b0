/* Counterexamples: an inequality that some sizes break need not be proved.
 *
 * Most questions are asked to find out whether a simpler form will do, and the answer is no.  A
 * proof that fails tries everything first; the values of a dim for a few sizes cost a hundredth of
 * that. */
#include "ir/cx.h"

/* Sizes to try: the least declared value plus so many divisors: near the least, about a vector or a
 * tile, and several tiles. */
static const int64_t MORE[] = {0, 1, 2, 7, 17, 40, 300, 1000};

enum { SAMPLES = sizeof MORE / sizeof *MORE, LARGEST = 1 << 16 };

typedef struct {
    Cx *cx;
    int number;
    bool valid; /* the sizes are in their ranges, and an index has at least one value */
} Sample;

static int64_t
sample_size(Sample *s, const AtomNode *atom)
{
    int64_t divisor = atom->divisor, lo = atom->range.lo;
    if (lo < 0 || lo > LARGEST || divisor > LARGEST) {
        s->valid = false;
        return 0;
    }
    int64_t least = (lo + divisor - 1) / divisor;
    int64_t size = (least + MORE[((unsigned)s->number + 3 * atom->id) % SAMPLES]) * divisor;
    s->valid &= size <= atom->range.hi || (size = least * divisor) <= atom->range.hi;
    return size;
}

/* An index is its first value or its last one. */
static int64_t
sample_value(void *arg, Dim name)
{
    Sample *s = arg;
    const AtomNode *atom = dim_atom(s->cx, name);
    if (atom->kind == ATOM_SIZE) {
        return sample_size(s, atom);
    }
    int64_t extent = dim_eval(s->cx, atom->a, sample_value, s);
    s->valid &= extent > 0;
    return ((unsigned)s->number + atom->id) % 2 ? 0 : extent - 1;
}

bool
dim_refuted(Cx *cx, Dim d, Dim with)
{
    for (int k = 0; k < SAMPLES; k++) {
        Sample s = {cx, k, true};
        if (with != d) {
            dim_eval(cx, with, sample_value, &s);
        }
        for (const Assumption *one = cx->dims.assumed; one; one = one->outer) {
            s.valid &= one->symbol != DIM_NONE || dim_eval(cx, one->fact, sample_value, &s) >= 0;
        }
        if (dim_eval(cx, d, sample_value, &s) < 0 && s.valid) {
            return true;
        }
    }
    return false;
}
