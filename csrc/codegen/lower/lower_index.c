/* Index vectors: which element of an operand an element of the result is made of.
 *
 * What:     for a let and the index vector of one of its result's elements (dims over loop indices
 *           and size symbols), the index vector of the operand's element.
 * Requires: a verified let.
 * Ensures:  indices within the operand whenever those given are within the result.  For cat and pad
 *           this holds within the part that the caller has found to have the element.
 * How:      each view is the map that ops.def says, in the arithmetic of dim.c, whose normal form
 *           makes (i*N + j)//N be i.  A reshape is cut first into the groups of axes whose sizes
 *           multiply to the same, so that it divides only where it must.
 * Why not:  carry strides and offsets: a reshape of a transpose has no strides, but index maps
 *           compose with every view.
 * Example:  reshape f32[B, T, H*D] to [B, T, H, D] at [b, t, h, d] reads [b, t, h*D + d].
 */
#include <string.h>

#include "lower.h"

bool
index_is_inside(Cx *cx, Dim d, Dim n)
{
    return dim_le(cx, dim_int(cx, 0), d) && dim_lt(cx, d, n);
}

/* The row-major number of the element among axes from .. to-1. */
static Dim
ravel(Cx *cx, const Dim *dims, const Dim *idx, int from, int to)
{
    Dim at = dim_int(cx, 0);
    for (int ax = from; ax < to; ax++) {
        at = dim_add(cx, dim_mul(cx, at, dims[ax]), idx[ax]);
    }
    return at;
}

static void
unravel(Cx *cx, Dim at, const Dim *dims, int from, int to, Dim *out)
{
    int first = from;
    while (first < to - 1 && extent_is_one(cx, dims[first])) {
        out[first++] = dim_int(cx, 0);
    }
    for (int ax = to - 1; ax >= first; ax--) {
        if (extent_is_one(cx, dims[ax])) {
            out[ax] = dim_int(cx, 0);
        } else if (ax == first) {
            out[ax] = at;
        } else {
            out[ax] = dim_mod(cx, at, dims[ax]);
            at = dim_div(cx, at, dims[ax]);
        }
    }
}

/* Finds the next group of axes on both sides whose sizes have the same product; false: none is
 * left. */
static bool
next_group(Cx *cx, const Type *a, const Type *b, int *ka, int *kb)
{
    Dim pa = dim_int(cx, 1), pb = pa;
    int ea = *ka, eb = *kb;
    do {
        if (ea == a->rank || eb == b->rank) {
            return false;
        }
        /* Take from the side whose product is smaller.  If the products cannot be compared, take
         * from b: the group may then end later, and division by a larger product cancels more in
         * the normal form. */
        bool take_a = extent_is_one(cx, pa) || (extent_is_one(cx, pb) ? false : dim_le(cx, pa, pb));
        if (take_a) {
            pa = dim_mul(cx, pa, a->dims[ea++]);
        } else {
            pb = dim_mul(cx, pb, b->dims[eb++]);
        }
    } while (pa != pb || extent_is_one(cx, pa));
    *ka = ea;
    *kb = eb;
    return true;
}

static void
map_reshape(Cx *cx, const Type *from, const Type *to, const Dim *idx, Dim *out)
{
    int ka = 0, kb = 0, ea = 0, eb = 0;
    while (next_group(cx, from, to, &ea, &eb)) {
        unravel(cx, ravel(cx, to->dims, idx, kb, eb), from->dims, ka, ea, out);
        ka = ea;
        kb = eb;
    }
    unravel(cx, ravel(cx, to->dims, idx, kb, to->rank), from->dims, ka, from->rank, out);
}

/* The outermost axis of more than one element of whose row-major stride `stride` is a multiple;
 * -1: there is none. */
static int
axis_of_stride(Cx *cx, const Type *t, const Dim *dense, Dim stride, Dim *times)
{
    int64_t whole;
    for (int ax = 0; ax < t->rank; ax++) {
        *times = dim_div(cx, stride, dense[ax]);
        if (!extent_is_one(cx, t->dims[ax]) && dim_is_int(cx, *times, &whole) && whole > 0 &&
            dim_mul(cx, *times, dense[ax]) == stride) {
            return ax;
        }
    }
    return -1;
}

/* The element of an as_strided result whose axes run along those of the operand, as windows do.
 * Then each index is a sum without division.  False: some axis does not, or the sums are not known
 * to stay within the operand's axes. */
static bool
map_along_axes(Cx *cx, const Let *let, const Dim *idx, Dim *out)
{
    const Type *from = let->args[0]->type, *to = let->res[0]->type;
    const Dim *strides = let_attr(let, "strides")->dims;
    Dim dense[MAX_RANK], times;
    type_dense(cx, from, dense);
    bool along = dim_is(cx, let_dim(let, "offset"), 0);
    for (int ax = 0; ax < from->rank; ax++) {
        out[ax] = dim_int(cx, 0);
    }
    for (int ax = 0; ax < to->rank && along; ax++) {
        if (!extent_is_one(cx, to->dims[ax])) {
            int axis = axis_of_stride(cx, from, dense, strides[ax], &times);
            along = axis >= 0;
            if (along) {
                out[axis] = dim_add(cx, out[axis], dim_mul(cx, times, idx[ax]));
            }
        }
    }
    for (int ax = 0; ax < from->rank && along; ax++) {
        along = index_is_inside(cx, out[ax], from->dims[ax]);
    }
    return along;
}

static void
map_view(Cx *cx, const Let *let, const Dim *idx, Dim *out)
{
    const Type *from = let->args[0]->type, *to = let->res[0]->type;
    const Attr *a = let->attrs;
    if (let->op != OP_as_strided && let->op != OP_expand && let->op != OP_reshape) {
        memcpy(out, idx, (size_t)to->rank * sizeof *out);
    }
    switch (let->op) {
    case OP_expand:
        for (int ax = 0; ax < from->rank; ax++) {
            out[ax] = extent_is_one(cx, from->dims[ax]) ? dim_int(cx, 0) : idx[a[0].axes[ax]];
        }
        break;
    case OP_reshape:
        map_reshape(cx, from, to, idx, out);
        break;
    case OP_permute:
        for (int ax = 0; ax < to->rank; ax++) {
            out[a[0].axes[ax]] = idx[ax];
        }
        break;
    case OP_slice: {
        int ax = (int)let_int(let, "axis");
        out[ax] = dim_add(cx, let_dim(let, "start"), dim_mul(cx, idx[ax], let_dim(let, "step")));
        break;
    }
    case OP_flip:
        for (int k = 0; k < a[0].n; k++) {
            int ax = a[0].axes[k];
            out[ax] = dim_sub(cx, dim_sub(cx, to->dims[ax], dim_int(cx, 1)), idx[ax]);
        }
        break;
    default: { /* as_strided */
        if (map_along_axes(cx, let, idx, out)) {
            break;
        }
        Dim at = let_dim(let, "offset");
        const Attr *strides = let_attr(let, "strides");
        for (int ax = 0; ax < to->rank; ax++) {
            at = dim_add(cx, at, dim_mul(cx, idx[ax], strides->dims[ax]));
        }
        unravel(cx, at, from->dims, 0, from->rank, out);
    }
    }
}

Dim
index_cat_start(Cx *cx, const Let *cat, int part)
{
    Dim start = dim_int(cx, 0);
    int axis = (int)let_int(cat, "axis");
    for (int k = 0; k < part; k++) {
        start = dim_add(cx, start, cat->args[k]->type->dims[axis]);
    }
    return start;
}

/* The only part that can have the element, because all others are known to end before it or to
 * begin after it; -1: several parts can.  This finds a part of 0 or 1 elements too: its only index
 * does not prove that the part has an element. */
static int
only_part(Cx *cx, const Let *cat, Dim at)
{
    int axis = (int)let_int(cat, "axis"), only = -1;
    for (int k = 0; k < cat->nargs; k++) {
        Dim start = index_cat_start(cx, cat, k),
            end = dim_add(cx, start, cat->args[k]->type->dims[axis]);
        if (dim_lt(cx, at, start) || dim_le(cx, end, at)) {
            continue;
        }
        if (only >= 0) {
            return -1;
        }
        only = k;
    }
    return only;
}

int
index_cat_part(Cx *cx, const Let *cat, Dim at)
{
    int axis = (int)let_int(cat, "axis");
    for (int k = 0; k < cat->nargs; k++) {
        Dim start = index_cat_start(cx, cat, k);
        if (index_is_inside(cx, dim_sub(cx, at, start), cat->args[k]->type->dims[axis])) {
            return k;
        }
    }
    return only_part(cx, cat, at);
}

int
index_pad(Cx *cx, const Let *pad, const Dim *idx, int *axis)
{
    const Type *from = pad->args[0]->type;
    const Dim *lo = let_attr(pad, "lo")->dims;
    int state = 1;
    for (int ax = 0; ax < from->rank; ax++) {
        Dim end = dim_add(cx, lo[ax], from->dims[ax]);
        if (dim_lt(cx, idx[ax], lo[ax]) || dim_le(cx, end, idx[ax])) {
            return -1;
        }
        if (state && !index_is_inside(cx, dim_sub(cx, idx[ax], lo[ax]), from->dims[ax])) {
            state = 0;
            *axis = ax;
        }
    }
    return state;
}

void
index_operand(Cx *cx, const Let *let, int k, const Dim *idx, Dim *out)
{
    const Type *from = let->args[k]->type;
    if (op_info[let->op].kind == KIND_VIEW) {
        map_view(cx, let, idx, out);
        return;
    }
    int axis = let->op == OP_cat || let->op == OP_gather ? (int)let_int(let, "axis") : 0;
    memcpy(out, let->op == OP_gather ? idx + axis : idx, (size_t)from->rank * sizeof *out);
    if (let->op == OP_cat) {
        out[axis] = dim_sub(cx, idx[axis], index_cat_start(cx, let, k));
    } else if (let->op == OP_pad) {
        const Dim *lo = let_attr(let, "lo")->dims;
        for (int ax = 0; ax < from->rank; ax++) {
            out[ax] = dim_sub(cx, idx[ax], lo[ax]);
        }
    }
}

void
index_reduced(Cx *cx, const Let *red, const Dim *idx, const Dim *own, Dim *out)
{
    const Attr *axes = let_attr(red, "axes");
    const Type *from = red->args[0]->type;
    for (int ax = 0, k = 0; ax < from->rank; ax++) {
        bool reduced = k < axes->n && axes->axes[k] == ax;
        k += reduced;
        out[ax] = !reduced ? *idx++ : extent_is_one(cx, from->dims[ax]) ? dim_int(cx, 0) : *own++;
    }
}

/* ---- values that are indices ---- */

static Dim
combine_dims(Cx *cx, Op op, Dim a, Dim b)
{
    return a == DIM_NONE || b == DIM_NONE ? DIM_NONE
           : op == OP_add                 ? dim_add(cx, a, b)
           : op == OP_sub                 ? dim_sub(cx, a, b)
                                          : dim_mul(cx, a, b);
}

static Dim index_value(Lower *lo, const Value *v, const Dim *idx);

/* The index that a gather from 0, 1, 2, .. checks, where it is not proved.  DIM_NONE: the gather is
 * from something else. */
static Dim
checked_index(Lower *lo, const Let *gather, const Dim *idx)
{
    const Let *all = gather->args[0]->def;
    Dim inner[MAX_RANK];
    if (lo->leaf[gather->args[0]->id] || !all || all->op != OP_iota ||
        gather->args[0]->type->rank != 1) {
        return DIM_NONE;
    }
    index_operand(lo->cx, gather, 1, idx, inner);
    Dim extent = gather->args[0]->type->dims[0], at = index_value(lo, gather->args[1], inner);
    if (at != DIM_NONE && index_is_inside(lo->cx, at, extent)) {
        return at;
    }
    Value *v = builder_cast(&lo->out, lower_at(lo, gather->args[1], inner), DT_i64);
    return lower_bind(lo, v, extent, (int)let_int(gather, "wrap"), gather->res[0]->type->rank, idx);
}

/* An element of an i64 tensor as a dim, if it consists only of positions, sizes, the number of a
 * step and checked indices; DIM_NONE: it does not. */
static Dim
index_value(Lower *lo, const Value *v, const Dim *idx)
{
    Dim inner[MAX_RANK], dims[2];
    if (value_is_const(v)) {
        return v->literal.is_int ? dim_int(lo->cx, v->literal.i) : DIM_NONE;
    }
    const Let *let = v->def;
    if (v == lo->number) {
        return lo->step;
    }
    if (lo->leaf[v->id] || v->type->dtype != DT_i64) {
        return DIM_NONE;
    }
    switch (let->op) {
    case OP_iota:
        return idx[let_int(let, "axis")];
    case OP_size:
        return let_dim(let, "dim");
    case OP_gather:
        return checked_index(lo, let, idx);
    case OP_add:
    case OP_sub:
    case OP_mul:
        for (int k = 0; k < 2; k++) {
            dims[k] = index_value(lo, let->args[k], idx);
        }
        return combine_dims(lo->cx, let->op, dims[0], dims[1]);
    default:
        if (op_info[let->op].kind != KIND_VIEW) {
            return DIM_NONE;
        }
        index_operand(lo->cx, let, 0, idx, inner);
        return index_value(lo, let->args[0], inner);
    }
}

Dim
lower_index(Lower *lo, const Let *let, const Dim *idx, int n, const Dim *to)
{
    Dim extent = let->args[0]->type->dims[let_int(let, "axis")],
        at = index_value(lo, let->args[1], idx);
    if (at != DIM_NONE && index_is_inside(lo->cx, at, extent)) {
        return at;
    }
    Value *v = builder_cast(&lo->out, lower_at(lo, let->args[1], idx), DT_i64);
    return lower_bind(lo, v, extent, (int)let_int(let, "wrap"), n, to);
}

/* ---- offsets ---- */

int
map_key(const Value *v, const Dim *idx, uint32_t *key)
{
    key[0] = (uint32_t)v->id;
    if (v->type->rank) {
        memcpy(key + 1, idx, (size_t)v->type->rank * sizeof *idx);
    }
    return v->type->rank + 1;
}
