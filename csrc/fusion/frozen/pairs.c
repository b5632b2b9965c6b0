/* Pairs: codes of four bits, two in a byte; and which codes are computed again as such.
 *
 * What:     elements 2 i and 2 i + 1 along an axis become one u8, the first in the low bits.
 * Requires  whole numbers from 0 to 15.
 * Ensures   pairs_read of pairs_make is the value, and its text says its range.
 * How:      the bytes are expanded by an axis of two, and each half is shifted and masked.
 * Why not   an element type of four bits: shifts and masks say all that it would.
 * Example:  q: i8[256, 128] becomes p: u8[128, 128] along the axis 0.
 */
#include "weights.h"

#include <string.h>

#define BITS 4
#define CODES 15

Value *
pairs_make(Build *b, Value *v, int axis, Dim n)
{
    Cx *cx = build_cx(b);
    Dim two = dim_int(cx, 2);
    v = build_cast(b, v, DT_u8);
    Value *low = build_slice(b, v, axis, dim_int(cx, 0), two, n),
          *high = build_slice(b, v, axis, dim_int(cx, 1), two, n);
    return build_map(b, OP_bit_or, low, build_map(b, OP_shl, high, build_int(b, BITS), NULL), NULL);
}

Value *
pairs_low(Build *b, Value *v)
{
    return build_map(b, OP_bit_and, v, build_int(b, CODES), NULL);
}

Value *
pairs_read(Build *b, Value *pairs, int axis)
{
    Cx *cx = build_cx(b);
    const Type *of = pairs->type;
    Dim dims[MAX_RANK], merged[MAX_RANK], two = dim_int(cx, 2);
    int to[MAX_RANK], n = 0;
    memcpy(merged, of->dims, (size_t)of->rank * sizeof *merged);
    merged[axis] = dim_mul(cx, of->dims[axis], two);
    for (int ax = 0; ax < of->rank; ax++) {
        to[ax] = n;
        dims[n++] = of->dims[ax];
        if (ax == axis) {
            dims[n++] = two;
        }
    }
    const Type *t = type_of(cx, DT_u8, n, dims);
    Value *v = build_expand(b, pairs, n, dims, to),
          *shift = build_map(b, OP_mul, build_iota(b, t, axis + 1), build_int(b, BITS), NULL);
    v = build_map(b, OP_shr, v, shift, NULL);
    return build_reshape(b, pairs_low(b, v), of->rank, merged);
}

const Type *
pairs_type(Cx *cx, const Type *t, int axis)
{
    Dim dims[MAX_RANK];
    memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
    dims[axis] = dim_div(cx, dims[axis], dim_int(cx, 2));
    return type_of(cx, DT_u8, t->rank, dims);
}

bool
pairs_hold(const Value *v)
{
    return whole_within(whole_range(v), (Whole){0, CODES});
}
