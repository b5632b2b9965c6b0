/* Bits as numbers of another dtype: x.view(dtype).
 *
 * One width is a bitcast.  Other widths are arithmetic on integers: adjacent narrow elements are
 * put together by shifts, the first one lowest in memory and in the number; a wide one is taken
 * apart by shifts. */
#include "capture/aten/aten.h"

static Dtype
integer_of(int bytes)
{
    return bytes == 1 ? DT_u8 : bytes == 2 ? DT_i16 : bytes == 4 ? DT_i32 : DT_i64;
}

/* The integer dtype whose elements have the bits; DTYPE_COUNT: there is none. */
static Dtype
bits_dtype(Dtype dtype)
{
    bool number = dtype_info[dtype].class == CLASS_INT || dtype_info[dtype].class == CLASS_FLOAT;
    return number || dtype_is_float8(dtype) ? integer_of(dtype_info[dtype].bytes) : DTYPE_COUNT;
}

static Value *
to_bits(Aten *n, Value *v)
{
    bool whole = dtype_info[v->type->dtype].class == CLASS_INT;
    Dtype bits = bits_dtype(v->type->dtype);
    return whole ? build_cast(n->b, v, bits) : build_bitcast(n->b, v, bits);
}

static Value *
from_bits(Aten *n, Value *v, Dtype dtype)
{
    bool whole = dtype_info[dtype].class == CLASS_INT;
    return whole ? build_cast(n->b, v, dtype) : build_bitcast(n->b, v, dtype);
}

/* Elements r*k .. r*k + r-1 of the last axis as element k. */
static Value *
joined(Aten *n, Value *v, Dtype wide)
{
    int last = v->type->rank - 1, width = 8 * dtype_info[v->type->dtype].bytes;
    int r = dtype_info[wide].bytes * 8 / width;
    Dim length = n->type->dims[last];
    Value *all = NULL;
    for (int k = 0; k < r; k++) {
        Value *one = part(n, v, last, dim_int(n->cx, k), dim_int(n->cx, r), length);
        one = build_cast(n->b, one, wide);
        if (v->type->dtype != DT_u8 && k < r - 1) {     /* without the copies of its sign */
            one = map2(n, OP_bit_and, one, build_int(n->b, (INT64_C(1) << width) - 1));
        }
        one = map2(n, OP_shl, one, build_int(n->b, (int64_t)k * width));
        all = all ? map2(n, OP_bit_or, all, one) : one;
    }
    return all;
}

/* Undoes joined: each element becomes r neighbours on the last axis. */
static Value *
separated(Aten *n, Value *v, Dtype narrow)
{
    const Type *t = v->type;
    int to[MAX_RANK], width = 8 * dtype_info[narrow].bytes;
    Dim dims[MAX_RANK];
    if (t->rank == MAX_RANK) {
        return NULL;
    }
    for (int ax = 0; ax < t->rank; ax++) {
        to[ax] = ax;
        dims[ax] = t->dims[ax];
    }
    dims[t->rank] = dim_int(n->cx, dtype_info[t->dtype].bytes * 8 / width);
    const Type *apart = type_of(n->cx, t->dtype, t->rank + 1, dims);
    Value *at = build_iota(n->b, apart, t->rank);
    Value *all = build_expand(n->b, v, apart->rank, apart->dims, to);
    all = map2(n, OP_shr, all, map2(n, OP_mul, at, build_int(n->b, width)));
    return build_reshape(n->b, build_cast(n->b, all, narrow), n->type->rank, n->type->dims);
}

Value *
aten_bit_view(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    Dtype from = bits_dtype(x->type->dtype), to = bits_dtype(n->type->dtype);
    if (x->type->dtype == n->type->dtype) {
        return x;
    }
    if (from == DTYPE_COUNT || to == DTYPE_COUNT || x->type->rank != n->type->rank) {
        return NULL;
    }
    Value *bits = to_bits(n, x);
    if (from != to) {
        bits = x->type->rank == 0                              ? NULL
               : dtype_info[from].bytes < dtype_info[to].bytes ? joined(n, bits, to)
                                                               : separated(n, bits, to);
    }
    return bits ? from_bits(n, bits, n->type->dtype) : NULL;
}
