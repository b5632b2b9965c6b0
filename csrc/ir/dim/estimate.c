/* Numbers of elements and bytes where sizes are symbols: the typical ones, and the largest.
 *
 * Typical: a symbol counts as COST_TYPICAL, moved into its declared range and to a multiple of its
 * divisor.  This is an estimate.  It only chooses among programs that are right for all sizes. */
#include "ir/costs.h"
#include "ir/cx.h"

static int64_t
typical(void *arg, Dim name)
{
    Cx *cx = arg;
    Range range = dim_range(cx, name);
    int64_t divisor = dim_divisor(cx, name);
    int64_t value = COST_TYPICAL < range.lo ? range.lo : COST_TYPICAL;
    value = value > range.hi ? range.hi : value;
    return divisor > 1 && value % divisor ? value - value % divisor + divisor : value;
}

int64_t
dim_typical(Cx *cx, Dim d)
{
    int64_t value = dim_eval(cx, d, typical, cx);
    return value < 0 ? 0 : value;
}

int64_t
dim_typical_least(Cx *cx, Dim d)
{
    int64_t least = dim_range(cx, d).lo, half = dim_typical(cx, d) / 2;
    return least > half ? least : half;
}

/* An estimate is at most this many elements: sums of estimates in bytes do not overflow. */
#define LARGEST (INT64_MAX / 64)

int64_t
dims_typical(Cx *cx, int n, const Dim *dims)
{
    int64_t numel = 1;
    for (int k = 0; k < n; k++) {
        if (__builtin_mul_overflow(numel, dim_typical(cx, dims[k]), &numel)) {
            return LARGEST;
        }
    }
    return numel < LARGEST ? numel : LARGEST;
}

int64_t
dims_most(Cx *cx, int n, const Dim *dims)
{
    int64_t most = 1;
    for (int k = 0; k < n; k++) {
        if (__builtin_mul_overflow(most, dim_range(cx, dims[k]).hi, &most)) {
            return DIM_INF;
        }
    }
    return most;
}

int64_t
type_typical_bytes(Cx *cx, const Type *t)
{
    return dims_typical(cx, t->rank, t->dims) * dtype_info[t->dtype].bytes;
}
