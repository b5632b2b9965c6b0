/* Padding with the tensor's own elements: a lookup, at positions that are folded back into it. */
#include "aten.h"

/* max(v, 0) and min(v, last) for replicate; for reflect last - |last - |v||, the fold at both ends.
 * The result lies in 0 .. last for all that eager accepts, and the lookup checks it. */
static Value *
folded(Aten *n, Value *v, Value *last, bool reflect)
{
    if (reflect) {
        Value *out = map2(n, OP_sub, last, map1(n, OP_abs, v));
        return map2(n, OP_sub, last, map1(n, OP_abs, out));
    }
    return map2(n, OP_minimum, map2(n, OP_maximum, v, build_int(n->b, 0)), last);
}

/* Pads the last axes; pad holds (before, after) from the last axis on. */
static Value *
padded(Aten *n, const Arg *pad, bool reflect)
{
    Value *x = n->args[0].v, *at = NULL;
    int count = pad->kind == ARG_LIST ? pad->n / 2 : 0, first = x->type->rank - count;
    Dim dims[MAX_RANK] = {zero(n)};
    if (count <= 0 || first < 0 || n->type->rank != x->type->rank || n->type->dtype == DT_bool) {
        return NULL;
    }
    for (int k = 0; k < count; k++) {
        dims[k] = n->type->dims[first + k];
    }
    const Type *t = type_of(n->cx, DT_i64, count, dims);
    for (int k = 0; k < count; k++) {
        Dim size = x->type->dims[first + k];
        const Arg end = {.kind = ARG_DIM, .d = dim_sub(n->cx, size, one(n))};
        Value *before = operand(n, &pad->items[2 * (count - 1 - k)], t), *last = operand(n, &end, t);
        if (!before || !dim_lt(n->cx, zero(n), size)) {
            return NULL;
        }
        Value *v = folded(n, map2(n, OP_sub, position(n, t, k), before), last, reflect);
        at = row_major(n, at, size, v);
    }
    return gather_merged(n, x, first, count, at);
}

Value *
aten_reflection_pad(Aten *n)
{
    return padded(n, arg_at(n, 1), true);
}

Value *
aten_replication_pad(Aten *n)
{
    return padded(n, arg_at(n, 1), false);
}
