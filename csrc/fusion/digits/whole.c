/* Whole: the ranges of whole numbers, as the operations that compute them say.
 *
 * What:     follows integers through masks, shifts, sums and views, and floats to the integers
 *           that they are cast of.
 * Requires  a graph in canonical form.
 * Ensures   each element is in the range.  What wraps, or is rounded in float32, has no range but
 *           that of its dtype.
 * Example:  cast (bit_and (shr w, 4), 15) has the range 0 to 15.
 */
#include "fusion/group.h"

#include <math.h>

enum { MOST_STEPS = 24 };       /* that are followed */

const Whole WHOLE_NONE = {1, 0};

static Whole range_of(const Value *v, int steps);

static Whole
both(Whole a, Whole b)
{
    bool none = a.least > a.most || b.least > b.most;
    return none ? WHOLE_NONE
                : (Whole){a.least < b.least ? a.least : b.least, a.most > b.most ? a.most : b.most};
}

/* The smallest 2^n - 1 that is not less. */
static int64_t
ones_above(int64_t n)
{
    int64_t ones = 0;
    while (ones < n) {
        ones = 2 * ones + 1;
    }
    return ones;
}

static Whole
range_of_dtype(Dtype dtype)
{
    return dtype == DT_u8    ? (Whole){0, 255}
           : dtype == DT_i8  ? (Whole){INT8_MIN, INT8_MAX}
           : dtype == DT_i16 ? (Whole){INT16_MIN, INT16_MAX}
           : dtype == DT_i32 ? (Whole){INT32_MIN, INT32_MAX}
                             : WHOLE_NONE;
}

static Whole
range_of_constant(const Literal *n)
{
    double f = n->is_int ? (double)n->i : n->f;
    bool whole = f == floor(f) && fabs(f) < INT32_MAX;
    return whole ? (Whole){(int64_t)f, (int64_t)f} : WHOLE_NONE;
}

bool
whole_within(Whole a, Whole b)
{
    return a.least <= a.most && b.least <= a.least && a.most <= b.most;
}

static Whole
range_of_let(const Let *let, int steps)
{
    Whole a = let->nargs > 0 ? range_of(let->args[0], steps) : WHOLE_NONE,
          b = let->nargs > 1 ? range_of(let->args[1], steps) : WHOLE_NONE;
    bool known = a.least <= a.most && b.least <= b.most, positive = known && a.least >= 0;
    switch (let->op) {
    case OP_bit_and:
        return b.least <= b.most && b.least >= 0 ? (Whole){0, b.most} : WHOLE_NONE;
    case OP_bit_or:
        return positive && b.least >= 0 ? (Whole){0, ones_above(a.most | b.most)} : WHOLE_NONE;
    case OP_shr:
        return positive && b.least >= 0 && b.most < 31 ? (Whole){0, a.most >> b.least} : WHOLE_NONE;
    case OP_shl:
        return positive && b.least >= 0 && b.most < 31 ? (Whole){0, a.most << b.most} : WHOLE_NONE;
    case OP_add:
        return known ? (Whole){a.least + b.least, a.most + b.most} : WHOLE_NONE;
    case OP_sub:
        return known ? (Whole){a.least - b.most, a.most - b.least} : WHOLE_NONE;
    case OP_where:
        return both(b, range_of(let->args[2], steps));
    case OP_cat:
        for (int k = 1; k < let->nargs; k++) {
            a = both(a, range_of(let->args[k], steps));
        }
        return a;
    case OP_cast:
    case OP_gather:
        return a;
    default:
        return value_is_view(let->res[0]) ? a : WHOLE_NONE;
    }
}

/* The range of whole numbers; that of its dtype, if no more is known. */
static Whole
range_of(const Value *v, int steps)
{
    if (value_is_const(v)) {
        return range_of_constant(&v->literal);
    }
    Whole all = range_of_dtype(v->type->dtype),
          found = v->def && steps ? range_of_let(v->def, steps - 1) : WHOLE_NONE;
    bool integer = dtype_info[v->type->dtype].class == CLASS_INT;
    return !integer ? WHOLE_NONE : whole_within(found, all) ? found : all;
}

/* WHOLE_NONE where float32 rounds some of these whole numbers: those from 2^24 on. */
static Whole
if_exact(Whole range)
{
    return whole_within(range, (Whole){-(1 << 24), 1 << 24}) ? range : WHOLE_NONE;
}

/* The range of floats that are computed of integers, if they are whole and are so exactly. */
static Whole
range_of_floats(const Value *v, int steps)
{
    const Let *let = value_is_const(v) ? NULL : v->def;
    if (!let || !steps) {
        return value_is_const(v) ? if_exact(range_of_constant(&v->literal)) : WHOLE_NONE;
    }
    Whole a = WHOLE_NONE, b = WHOLE_NONE;
    switch (let->op) {
    case OP_cast:
        return dtype_info[let->args[0]->type->dtype].class == CLASS_INT
                   ? if_exact(range_of(let->args[0], MOST_STEPS))
                   : WHOLE_NONE;
    case OP_sub:
    case OP_add:
        a = range_of_floats(let->args[0], steps - 1);
        b = range_of_floats(let->args[1], steps - 1);
        return a.least > a.most || b.least > b.most
                   ? WHOLE_NONE
                   : if_exact(let->op == OP_add ? (Whole){a.least + b.least, a.most + b.most}
                                                : (Whole){a.least - b.most, a.most - b.least});
    default:
        return value_is_view(v) ? range_of_floats(let->args[0], steps - 1) : WHOLE_NONE;
    }
}

Whole
whole_range(const Value *v)
{
    return range_of(v, MOST_STEPS);
}

Whole
whole_floats(const Value *v)
{
    return range_of_floats(v, MOST_STEPS);
}
