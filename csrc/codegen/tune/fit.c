/* Whether a plan can call a kernel in the place of another one that computes the same.
 *
 * What:     a kernel fits if its phases take the same tensors and sizes and no more scratch.  The
 *           number of iterations of a phase, and how many of them are worth a thread, may be others
 *           if they are constants: then its code has them (CodeVariant), and a launch takes them
 *           from there.
 * How:      by the texts of both shapes (compile/kernel_shape.c).  What has to be equal is equal as
 *           text.
 * Why not   another plan: calls run in this one, and it is built for the usual kernels.  Numbers
 *           that depend on sizes: an instance of the plan has computed the usual ones. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tuning.h"

typedef struct {
    ShapeReader usual, other;
} Both;

static void
read_int(ShapeReader *r)
{
    shape_int(r);
}

static void
read_type(ShapeReader *r)
{
    shape_type(r);
}

static void
read_dim(ShapeReader *r)
{
    shape_dim(r);
}

static void
read_ref(ShapeReader *r)
{
    char kind;
    shape_ref(r, &kind);
}

/* Reads one of both; are they the same? */
static bool
same(Both *b, void (*read)(ShapeReader *r))
{
    const char *usual = b->usual.at, *other = b->other.at;
    read(&b->usual);
    read(&b->other);
    size_t length = (size_t)(b->usual.at - usual);
    return length == (size_t)(b->other.at - other) && memcmp(usual, other, length) == 0;
}

/* The number is that of both; -1: they are different. */
static int
same_count(Both *b)
{
    ShapeReader ahead = b->usual;
    int n = (int)shape_int(&ahead);
    return same(b, read_int) ? n : -1;
}

static bool
same_each(Both *b, void (*read)(ShapeReader *r))
{
    int n = same_count(b);
    bool all = n >= 0;
    for (int k = 0; k < n && all; k++) {
        all = same(b, read);
    }
    return all;
}

/* The value; -1: it depends on sizes. */
static int64_t
constant(ShapeReader *r)
{
    int64_t value;
    return dim_is_int(r->cx, shape_dim(r), &value) ? value : -1;
}

/* An extent, the work of an iteration, and scratch. */
typedef struct {
    int64_t extent, work, scratch;
} Share;

static Share
read_share(ShapeReader *r)
{
    Share share = {constant(r), 0, 0};
    share.work = constant(r);
    share.scratch = constant(r);
    return share;
}

static int64_t
grain_of(Share share)
{
    return share.work > 0 ? (DLC_GRAIN + share.work - 1) / share.work : DLC_GRAIN;
}

/* Can the phase of the other kernel be launched as that of the usual one?  *out: with which
 * numbers; an extent of 0: with those of the usual one. */
static bool
phase_fits(Both *b, CodeVariant *out)
{
    *out = (CodeVariant){0};
    if (!same_each(b, read_ref) || !same_each(b, read_dim)) {
        return false;
    }
    const char *usual_at = b->usual.at, *other_at = b->other.at;
    Share usual = read_share(&b->usual), other = read_share(&b->other);
    size_t length = (size_t)(b->usual.at - usual_at);
    bool equal = length == (size_t)(b->other.at - other_at) &&
                 memcmp(usual_at, other_at, length) == 0;
    bool known = usual.extent >= 0 && usual.work >= 0 && other.extent >= 0 && other.work >= 0;
    /* a thread has scratch of its own, and there is as much as the usual launch has threads */
    bool room = other.scratch == 0 ||
                (known && other.scratch <= usual.scratch && other.scratch > 0 &&
                 other.extent / grain_of(other) <= usual.extent / grain_of(usual));
    bool launched = usual.extent > 0, alike = launched == (other.extent > 0);
    if (!equal && known && launched) {
        *out = (CodeVariant){NULL, other.extent, grain_of(other)};
    }
    return (equal || (known && room && alike)) && same(b, read_int); /* are steps in order? */
}

typedef struct {
    Both both;
    const Kernel *other;
    const char *why; /* it does not fit; NULL: it does */
} Fit;

static void
drop_variant(void *variant, size_t size)
{
    (void)size;
    free(variant);
}

/* The code of the other kernel gets the numbers that it is to be launched with. */
static bool
give_variant(const Kernel *other, int phase, CodeVariant numbers)
{
    int entry = other->first + phase;
    if (!numbers.extent || code_variant(other->code, entry)) {
        return true;
    }
    CodeVariant *variant = malloc(sizeof *variant);
    if (!variant || !code_own(other->code, drop_variant, variant, sizeof *variant)) {
        free(variant);
        return false;
    }
    *variant = numbers;
    variant->fn = code_entry(other->code, entry);
    code_set_variant(other->code, entry, variant);
    return true;
}

static void
compare(Cx *cx, void *arg)
{
    Fit *fit = arg;
    int phases = same_count(&fit->both);
    bool alike = phases >= 0 && same_each(&fit->both, read_type);
    fit->why = alike ? NULL : "it has other tensors";
    CodeVariant *numbers = cx_alloc(cx, ((size_t)(phases > 0 ? phases : 0) + 1) * sizeof *numbers);
    for (int k = 0; k < phases && !fit->why; k++) {
        bool fits = phase_fits(&fit->both, &numbers[k]);
        fit->why = fits ? NULL : "a phase needs more scratch memory, or sizes that no launch has";
    }
    for (int k = 0; k < phases && !fit->why; k++) {
        fit->why = give_variant(fit->other, k, numbers[k]) ? NULL : "there is no memory";
    }
}

const char *
kernel_unfit(Cx *cx, const KernelKey *key, const Kernel *usual, const Kernel *other)
{
    ShapeReader of_usual = {cx, usual->shape, key->sizes, key->nsizes}, of_other = of_usual;
    of_other.at = other->shape;
    Fit fit = {{of_usual, of_other}, other, NULL};
    if (other->nphases != usual->nphases) {
        return "it has other phases";
    }
    for (int k = 0; k < other->nphases; k++) {
        if (code_tier(other->code, other->first + k) != TIER_CC) {
            return "the C compiler did not compile it";
        }
    }
    return cx_try(cx, compare, &fit) ? fit.why : cx_diag(cx)->message;
}
