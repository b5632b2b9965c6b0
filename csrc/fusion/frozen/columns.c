/* Along which axis of codes the columns of a product run.
 *
 * What:     of each value that columns are computed of, the axis whose index is that of the column.
 * Requires  columns_of_codes has found what computes the columns.
 * Ensures   a value with such an axis is read at the column's own index along it, on all ways from
 *           the columns to it.
 * How:      the axis is followed from the columns backwards, through views and arithmetic.
 * Example:  w: u8[K / 2, N] behind reshape (expand w to=[0, 2]) to [K, N] has the axis 1.
 */
#include "fusion/group.h"

enum { APART = -1 };

static Dim
elements_before(Cx *cx, const Type *t, int axis)
{
    Dim n = dim_int(cx, 1);
    for (int ax = 0; ax < axis; ax++) {
        n = dim_mul(cx, n, t->dims[ax]);
    }
    return n;
}

/* The axis of the operand of a reshape that is the result's axis; -1: that is a part of one, or of
 * several. */
static int
axis_of_reshape(Cx *cx, const Type *in, const Type *out, int axis)
{
    int found = -1;
    Dim before = elements_before(cx, out, axis);
    for (int ax = 0; ax < in->rank; ax++) {
        bool same = in->dims[ax] == out->dims[axis] && elements_before(cx, in, ax) == before;
        found = same ? ax : found;
    }
    return found;
}

/* The axis of operand k along which the result's axis runs; -1: none does, or not from the same
 * element on. */
static int
axis_of_operand(Cx *cx, const Let *let, int k, int axis)
{
    const Attr *to;
    switch (let->op) {
    case OP_permute:
        return let_attr(let, "perm")->axes[axis];
    case OP_expand:
        to = let_attr(let, "to");
        for (int ax = 0; ax < to->n; ax++) {
            if (to->axes[ax] == axis) {
                return dim_is(cx, let->args[0]->type->dims[ax], 1) ? -1 : ax;
            }
        }
        return -1;
    case OP_reshape:
        return axis_of_reshape(cx, let->args[0]->type, let->res[0]->type, axis);
    case OP_slice:
        return let_int(let, "axis") != axis ||
                       (dim_is(cx, let_dim(let, "start"), 0) && dim_is(cx, let_dim(let, "step"), 1))
                   ? axis
                   : -1;
    case OP_cat:
        return let_int(let, "axis") != axis ? axis : -1;
    default:
        return op_info[let->op].kind == KIND_MAP && op_reads(let->op, k) == 'e' ? axis : -1;
    }
}

void
codes_columns(const Codes *codes, const Value *v, int axis, signed char *column)
{
    int found = axis < 0 ? APART : axis + 1;
    if (value_is_const(v) || column[v->id] == APART || column[v->id] == found) {
        return;
    }
    bool inner = false;
    axis = column[v->id] ? -1 : axis; /* another way gave another axis */
    column[v->id] = (signed char)(axis < 0 ? APART : found);
    for (int k = 0; k < codes->n; k++) {
        inner |= codes->inner[k] == v;
    }
    for (int k = 0; inner && k < v->def->nargs; k++) {
        const Value *of = v->def->args[k];
        if (!value_is_const(of)) {
            int at = axis < 0 ? -1 : axis_of_operand(codes->cx, v->def, k, axis);
            codes_columns(codes, of, at, column);
        }
    }
}
