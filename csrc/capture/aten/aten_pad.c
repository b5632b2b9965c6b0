/* Padding with the tensor's own elements: the border consists of parts of the tensor. If these are
 * not known to be inside it, the border is a gather at positions that are folded back. */
#include <string.h>

#include "aten.h"

typedef struct {
    Aten *n;
    const Arg *pad;             /* (before, after) from the last axis on */
    bool reflect;
    int first;                  /* axis that is padded */
} Pad;

/* ---- as parts ---- */

/* How many elements are added before the axis and after it; negative: how many are cut off.  False:
 * they are not numbers. */
static bool
find_counts(const Pad *p, int axis, int64_t *count)
{
    const Arg *items = &p->pad->items[2 * (p->n->type->rank - 1 - axis)];
    bool known = true;
    for (int after = 0; after < 2 && known; after++) {
        Dim d;
        known = arg_dim(p->n, &items[after], &d) && dim_is_int(p->n->cx, d, &count[after]);
    }
    return known;
}

static int64_t
left_out(int64_t count)
{
    return count < 0 ? -count : 0;
}

/* Are all counts numbers, and less than the axis is long? */
static bool
has_parts(const Pad *p, const Value *x)
{
    Cx *cx = p->n->cx;
    for (int ax = p->first; ax < x->type->rank; ax++) {
        int64_t count[2];
        if (!find_counts(p, ax, count)) {
            return false;
        }
        int64_t most = count[0] > count[1] ? count[0] : count[1];
        Dim left = dim_int(cx, left_out(count[0]) + left_out(count[1]));
        if (!dim_lt(cx, left, x->type->dims[ax]) ||
            (p->reflect && !dim_lt(cx, dim_int(cx, most), x->type->dims[ax]))) {
            return false;
        }
    }
    return true;
}

/* The elements that are added next to the axis. */
static Value *
beside(const Pad *p, Value *x, int axis, int64_t count, bool after)
{
    Cx *cx = p->n->cx;
    Build *b = p->n->b;
    Dim last = dim_sub(cx, x->type->dims[axis], one(p->n)), wide = dim_int(cx, count);
    if (p->reflect) {
        Dim start = after ? dim_sub(cx, last, wide) : one(p->n);
        return build_flip(b, build_slice(b, x, axis, start, one(p->n), wide), 1, &axis);
    }
    Dim dims[MAX_RANK];
    memcpy(dims, x->type->dims, (size_t)x->type->rank * sizeof *dims);
    dims[axis] = wide;
    Value *edge = build_slice(b, x, axis, after ? last : zero(p->n), one(p->n), one(p->n));
    return build_broadcast(b, edge, x->type->rank, dims);
}

/* x with its axes from `axis` on extended.  Each part is a view of x, and a loop of its own in a
 * kernel: gathering by position takes two to five times as long. */
static Value *
extended(const Pad *p, Value *x, int axis)
{
    Cx *cx = p->n->cx;
    Value *parts[3];
    int64_t count[2];
    int nparts = 0;
    if (axis == x->type->rank || !find_counts(p, axis, count)) {
        return x;
    }
    int64_t from = left_out(count[0]), left = from + left_out(count[1]);
    if (count[0] > 0) {
        parts[nparts++] = extended(p, beside(p, x, axis, count[0], false), axis + 1);
    }
    Value *own = left ? build_slice(p->n->b, x, axis, dim_int(cx, from), one(p->n),
                                    dim_sub(cx, x->type->dims[axis], dim_int(cx, left)))
                      : x;
    parts[nparts++] = extended(p, own, axis + 1);
    if (count[1] > 0) {
        parts[nparts++] = extended(p, beside(p, x, axis, count[1], true), axis + 1);
    }
    return nparts == 1 ? parts[0] : build_cat(p->n->b, nparts, parts, axis);
}

/* ---- as positions ---- */

/* max(v, 0) and min(v, last) for replicate; for reflect last - |last - |v||, the fold at both ends.
 * The result is in 0 .. last for everything that eager accepts, and the gather checks it. */
static Value *
folded(Aten *n, Value *v, Value *last, bool reflect)
{
    if (reflect) {
        Value *out = map2(n, OP_sub, last, map1(n, OP_abs, v));
        return map2(n, OP_sub, last, map1(n, OP_abs, out));
    }
    return map2(n, OP_minimum, map2(n, OP_maximum, v, build_int(n->b, 0)), last);
}

/* One axis after the other, from the last on. */
static Value *
looked_up(const Pad *p, Value *x)
{
    Aten *n = p->n;
    for (int ax = n->type->rank - 1; ax >= p->first; ax--) {
        const Type *t = type_of(n->cx, DT_i64, 1, &n->type->dims[ax]);
        Dim size = x->type->dims[ax];
        const Arg end = {.kind = ARG_DIM, .d = dim_sub(n->cx, size, one(n))};
        Value *before = operand(n, &p->pad->items[2 * (n->type->rank - 1 - ax)], t),
              *last = operand(n, &end, t);
        if (!before || !dim_lt(n->cx, zero(n), size)) {
            return NULL;
        }
        Value *at = folded(n, map2(n, OP_sub, position(n, t, 0), before), last, p->reflect);
        x = build_gather(n->b, x, at, ax, INDEX_FROM_START);
    }
    return x;
}

static Value *
padded(Aten *n, const Arg *pad, bool reflect)
{
    Value *x = arg_tensor(n, 0);
    int count = pad->kind == ARG_LIST ? pad->n / 2 : 0;
    Pad p = {n, pad, reflect, x->type->rank - count};
    if (count <= 0 || p.first < 0 || n->type->rank != x->type->rank || n->type->dtype == DT_bool) {
        return NULL;
    }
    return has_parts(&p, x) ? extended(&p, x, p.first) : looked_up(&p, x);
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
