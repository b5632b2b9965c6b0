/* Views: the same elements in another arrangement, and constants and positions, which are
 * broadcast. */
#include "out.h"

#include <stdint.h>

static bool
same_dims(const Type *t, int rank, const Dim *dims)
{
    bool same = t->rank == rank;
    for (int ax = 0; ax < rank && same; ax++) {
        same = t->dims[ax] == dims[ax];
    }
    return same;
}

/* The node that made it, if it is such a one. */
static const OutNode *
made_by(const Out *o, int number, const char *op)
{
    const OutNode *node = o->values[number].node;
    return node && node->op == op ? node : NULL;
}

static const char RESHAPE[] = "Reshape", TRANSPOSE[] = "Transpose", UNSQUEEZE[] = "Unsqueeze";

/* The shape of a reshape; one size that is not known is what is left. */
static int
target(Out *o, int rank, const Dim *dims)
{
    int64_t ints[MAX_RANK];
    int known = 0, positive = 0;
    for (int ax = 0; ax < rank; ax++) {
        bool is_int = dim_is_int(o->cx, dims[ax], &ints[ax]);
        known += is_int;
        positive += is_int && ints[ax] > 0;
        ints[ax] = is_int ? ints[ax] : -1;
    }
    return known == rank || (positive == rank - 1 && known == rank - 1) ? out_ints(o, rank, ints)
                                                                        : out_dims(o, rank, dims);
}

int
out_reshaped(Out *o, int number, int rank, const Dim *dims)
{
    const OutNode *before = made_by(o, number, RESHAPE);
    number = before ? before->in[0] : number;
    const Type *t = out_type(o, number);
    if (same_dims(t, rank, dims)) {
        return number;
    }
    int in[] = {number, target(o, rank, dims)};
    return out_node(o, RESHAPE, type_of(o->cx, t->dtype, rank, dims), 2, in,
                    out_int("allowzero", 1));
}

/* Result axis k is axis perm[k] of the number. */
int
out_transposed(Out *o, int number, const int *perm)
{
    const Type *t = out_type(o, number);
    const OutNode *before = made_by(o, number, TRANSPOSE);
    Dim dims[MAX_RANK];
    int64_t axes[MAX_RANK];
    bool moves = false;
    for (int ax = 0; ax < t->rank; ax++) {
        dims[ax] = t->dims[perm[ax]];
        axes[ax] = before ? before->attrs[0].ints[perm[ax]] : perm[ax];
        moves |= axes[ax] != ax;
    }
    number = before ? before->in[0] : number;
    if (!moves) {
        return number;
    }
    return out_node(o, TRANSPOSE, type_of(o->cx, t->dtype, t->rank, dims), 1, &number,
                    out_list(o->cx, "perm", t->rank, axes));
}

int
out_unsqueezed(Out *o, int number, int n, const int64_t *axes)
{
    const Type *t = out_type(o, number);
    Dim dims[MAX_RANK];
    int next = 0;
    for (int ax = 0, a = 0; ax < t->rank + n; ax++) {
        bool is_new = a < n && axes[a] == ax;
        a += is_new;
        dims[ax] = is_new ? dim_int(o->cx, 1) : t->dims[next++];
    }
    return n ? out2(o, UNSQUEEZE, type_of(o->cx, t->dtype, t->rank + n, dims), number,
                    out_ints(o, n, axes))
             : number;
}

/* What has no elements is made of its shape: an Expand to it is left out by onnxruntime 1.32. */
int
out_expanded(Out *o, int number, const Type *t)
{
    const Type *from = out_type(o, number);
    if (same_dims(from, t->rank, t->dims)) {
        return number;
    }
    int shape = out_dims(o, t->rank, t->dims);
    if (type_is_empty(o->cx, t)) {
        int made = out1(o, "ConstantOfShape", type_with(o->cx, t, DT_f32), shape);
        return out_cast(o, made, from->dtype);
    }
    return out2(o, "Expand", type_with(o->cx, t, from->dtype), number, shape);
}

/* ---- builders ---- */

/* The result of the let, broadcast: axes in front are left out. */
static void
broadcast(Out *o, int part)
{
    part = out_cast(o, part, o->let->res[0]->type->dtype);
    out_places(o, out_expanded(o, part, o->let->res[0]->type), part);
}

void
out_expand(Out *o)
{
    const Attr *to = let_attr(o->let, "to");
    const Type *t = o->let->res[0]->type;
    int64_t axes[MAX_RANK];
    int n = 0, first = to->n ? to->axes[0] : 0;
    for (int ax = first, k = 0; ax < t->rank && to->n; ax++) {
        if (k < to->n && to->axes[k] == ax) {
            k++;
        } else {
            axes[n++] = ax - first;
        }
    }
    broadcast(o, out_unsqueezed(o, out_arg(o, 0), n, axes));
}

void
out_constant(Out *o)
{
    broadcast(o, out_literal(o, o->let->res[0]->type->dtype, o->let->args[0]->literal));
}

/* 0, 1, .. n-1 at an axis of `rank` ones behind it. */
static int
positions(Out *o, Dim n, int behind)
{
    int64_t axes[MAX_RANK];
    for (int k = 0; k < behind; k++) {
        axes[k] = k + 1;
    }
    int in[] = {out_whole(o, DT_i64, 0), out_one(o, n), out_whole(o, DT_i64, 1)};
    int made = out_node(o, "Range", type_of(o->cx, DT_i64, 1, &n), 3, in, NO_ATTR);
    return out_unsqueezed(o, made, behind, axes);
}

void
out_iota(Out *o)
{
    int axis = (int)let_int(o->let, "axis");
    const Type *t = o->let->res[0]->type;
    broadcast(o, positions(o, t->dims[axis], t->rank - 1 - axis));
}

void
out_reshape(Out *o)
{
    const Type *t = o->let->res[0]->type;
    out_result(o, out_reshaped(o, out_arg(o, 0), t->rank, t->dims));
}

void
out_permute(Out *o)
{
    out_result(o, out_transposed(o, out_arg(o, 0), let_attr(o->let, "perm")->axes));
}

/* start, start + step, .. along an axis: the end is where the last one is, and one more. */
void
out_slice(Out *o)
{
    Cx *cx = o->cx;
    int axis = (int)let_int(o->let, "axis");
    const Type *t = o->let->res[0]->type;
    Dim start = let_dim(o->let, "start"), by = let_dim(o->let, "step"), one = dim_int(cx, 1);
    Dim last = dim_mul(cx, dim_sub(cx, t->dims[axis], one), by);
    Dim end = dim_max(cx, start, dim_add(cx, start, dim_add(cx, last, one)));
    int64_t ax = axis;
    int in[] = {out_arg(o, 0), out_dim(o, start), out_dim(o, end), out_ints(o, 1, &ax),
                out_dim(o, by)};
    out_result(o, out_node(o, "Slice", t, 5, in, NO_ATTR));
}

void
out_flip(Out *o)
{
    const Attr *axes = let_attr(o->let, "axes");
    int64_t last[MAX_RANK], end[MAX_RANK], at[MAX_RANK];
    for (int k = 0; k < axes->n; k++) {
        last[k] = -1;
        end[k] = INT64_MIN;
        at[k] = axes->axes[k];
    }
    int n = axes->n;
    int in[] = {out_arg(o, 0), out_ints(o, n, last), out_ints(o, n, end), out_ints(o, n, at),
                out_ints(o, n, last)};
    out_result(o, out_node(o, "Slice", o->let->res[0]->type, 5, in, NO_ATTR));
}

/* The elements at offset + the sum of i[k] * strides[k], by their numbers. */
void
out_as_strided(Out *o)
{
    Cx *cx = o->cx;
    const Type *t = o->let->res[0]->type, *from = o->let->args[0]->type;
    const Attr *strides = let_attr(o->let, "strides");
    int at = out_one(o, let_dim(o->let, "offset"));
    Dim numel = type_numel(cx, from);
    int flat = out_reshaped(o, out_arg(o, 0), 1, &numel);
    for (int ax = t->rank - 1; ax >= 0; ax--) {
        Dim dims[MAX_RANK];
        for (int k = ax; k < t->rank; k++) {
            dims[k - ax] = t->dims[k];
        }
        const Type *here = type_of(cx, DT_i64, t->rank - ax, dims);
        for (int k = ax + 1; k < t->rank; k++) {
            dims[k - ax] = dim_int(cx, 1);
        }
        int places = out2(o, "Mul", type_of(cx, DT_i64, t->rank - ax, dims),
                          positions(o, t->dims[ax], t->rank - 1 - ax),
                          out_dim(o, strides->dims[ax]));
        at = out2(o, "Add", here, places, at);
    }
    int in[] = {flat, at};
    out_result(o, out_node(o, "Gather", t, 2, in, out_int("axis", 0)));
}
