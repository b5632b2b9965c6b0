/* Cost: what the passes believe about time, in the unit of ops.def's cost column (a quarter of a
 * cycle per element of a vectorised loop).
 *
 * Sizes may be names.  A name is taken to be TYPICAL, moved into its declared range and to a
 * multiple of its divisor: decisions must hold for all sizes, estimates only choose among right
 * programs.
 */
#include "group.h"

enum { TYPICAL = 256, BYTES_PER_UNIT = 2 };

static int64_t
typical(void *arg, Dim name)
{
    Cx *cx = arg;
    Range range = dim_range(cx, name);
    int64_t divisor = dim_divisor(cx, name);
    int64_t value = TYPICAL < range.lo ? range.lo : TYPICAL > range.hi ? range.hi : TYPICAL;
    return divisor > 1 && value % divisor ? value - value % divisor + divisor : value;
}

static int64_t
typical_dim(Cx *cx, Dim d)
{
    int64_t value = dim_eval(cx, d, typical, cx);
    return value < 0 ? 0 : value;
}

int64_t
cost_numel(Cx *cx, int rank, const Dim *dims)
{
    int64_t n = 1;
    for (int ax = 0; ax < rank; ax++) {
        if (__builtin_mul_overflow(n, typical_dim(cx, dims[ax]), &n)) {
            return INT64_MAX / 64;
        }
    }
    return n < INT64_MAX / 64 ? n : INT64_MAX / 64;
}

int64_t
cost_most(Cx *cx, int rank, const Dim *dims)
{
    int64_t n = 1;
    for (int ax = 0; ax < rank; ax++) {
        if (__builtin_mul_overflow(n, dim_range(cx, dims[ax]).hi, &n)) {
            return DIM_INF;
        }
    }
    return n;
}

int64_t
cost_bytes(Cx *cx, const Type *t)
{
    return cost_numel(cx, t->rank, t->dims) * dtype_info[t->dtype].bytes;
}

int
cost_let(const Let *let)
{
    switch (op_info[let->op].kind) {
    case KIND_MAP:
        return op_info[let->op].cost;
    case KIND_RED:
        return 2;
    case KIND_VIEW:
        return 0;
    case KIND_NODE:
        return let->op == OP_gather || let->op == OP_scatter ? 8
               : let->op == OP_cat || let->op == OP_pad || let->op == OP_scan ? 4 : 1;
    }
    return 0;
}

/* Two bytes a unit: what the cores of a desktop get from memory together while they all compute. */
double
cost_traffic(double bytes)
{
    return bytes / BYTES_PER_UNIT;
}
