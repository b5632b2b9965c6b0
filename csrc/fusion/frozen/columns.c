/* Where the columns of a product run in the codes that they are computed of.
 *
 * What:     of each value that columns are computed of, the axis whose index is that of the column,
 *           or of which that index is a part.
 * Requires  columns_of_codes has found what computes the columns.
 * Ensures   a value with such an axis is read at the column's own index along it, on all ways from
 *           the columns to it.
 * How:      the axis is followed from the columns backwards, through views and arithmetic.  A
 *           reshape may merge it with others or cut it off them: where sizes are constants, an
 *           index is known by the elements that lie between two of its values.
 * Example:  w: u8[K / 2, N] behind reshape (expand w to=[0, 2]) to [K, N] has the axis 1;
 *           w: u8[N * G, 18] behind reshape to [N, G, 18] has N columns in the axis 0, G rows each.
 */
#include "fusion/group.h"

#include <string.h>

static const Columns VARYING = {.are = COLUMNS_VARY};

static Dim
elements_before(Cx *cx, const Type *t, int axis)
{
    Dim n = dim_int(cx, 1);
    for (int ax = 0; ax < axis; ax++) {
        n = dim_mul(cx, n, t->dims[ax]);
    }
    return n;
}

/* The elements of one index of the axis; 0: they are not a constant. */
static int64_t
elements_inside(const Cx *cx, const Type *t, int axis)
{
    int64_t all = 1, n;
    for (int ax = axis + 1; ax < t->rank && all; ax++) {
        all = dim_is_int(cx, t->dims[ax], &n) && n > 0 && all < INT32_MAX && n < INT32_MAX ? all * n
                                                                                           : 0;
    }
    return all;
}

/* Of columns that are an axis of the result of a reshape, or a part: the operand's. */
static Columns
columns_of_reshape(Cx *cx, const Type *in, const Type *out, Columns at)
{
    Dim before = elements_before(cx, out, at.axis);
    int64_t inside = elements_inside(cx, out, at.axis) * at.inner, n = at.n, own;
    for (int ax = 0; ax < in->rank && at.inner == 1 && (!n || dim_is(cx, in->dims[ax], n)); ax++) {
        if (in->dims[ax] == out->dims[at.axis] && elements_before(cx, in, ax) == before) {
            return (Columns){COLUMNS_ALONG, ax, n, 1};
        }
    }
    for (int ax = 0; ax < in->rank && inside && n; ax++) {
        int64_t each = elements_inside(cx, in, ax);
        bool part = each && dim_is_int(cx, in->dims[ax], &own) && inside % each == 0 &&
                    own % (inside / each * n) == 0;
        if (part && own > 0) {
            return (Columns){COLUMNS_ALONG, ax, n, inside / each};
        }
    }
    return VARYING;
}

/* The axes of the index take the place of one of the table's. */
static Columns
columns_of_gather(const Let *let, int k, Columns at)
{
    int axis = (int)let_int(let, "axis"), rank = let->args[1]->type->rank;
    bool before = at.axis < axis, behind = at.axis >= axis + rank;
    if (k == 1) {
        at.axis -= axis;
        return before || behind ? VARYING : at;
    }
    at.axis -= behind ? rank - 1 : 0;
    return before || behind ? at : VARYING;
}

/* Where columns of the result run in operand k. */
static Columns
columns_of_operand(Cx *cx, const Let *let, int k, Columns at)
{
    const Attr *to;
    bool whole = at.inner == 1 && (!at.n || dim_is(cx, let->res[0]->type->dims[at.axis], at.n));
    Columns same = at;
    switch (let->op) {
    case OP_permute:
        same.axis = let_attr(let, "perm")->axes[at.axis];
        return same;
    case OP_expand:
        to = let_attr(let, "to");
        for (int ax = 0; ax < to->n; ax++) {
            if (to->axes[ax] == at.axis) {
                same.axis = ax;
                return dim_is(cx, let->args[0]->type->dims[ax], 1) ? VARYING : same;
            }
        }
        return VARYING;
    case OP_reshape:
        return columns_of_reshape(cx, let->args[0]->type, let->res[0]->type, at);
    case OP_slice:
        if (let_int(let, "axis") != at.axis) {
            return same;
        }
        same.n = 0; /* it has further columns */
        dim_is_int(cx, let->args[0]->type->dims[at.axis], &same.n);
        return whole && dim_is(cx, let_dim(let, "start"), 0) && dim_is(cx, let_dim(let, "step"), 1)
                   ? same
                   : VARYING;
    case OP_gather:
        return columns_of_gather(let, k, at);
    case OP_cat:
        return let_int(let, "axis") != at.axis ? same : VARYING;
    default:
        return op_info[let->op].kind == KIND_MAP && op_reads(let->op, k) == 'e' ? same : VARYING;
    }
}

static bool
is_same(const Columns *a, const Columns *b)
{
    return a->are == b->are && (a->are != COLUMNS_ALONG ||
                                (a->axis == b->axis && a->n == b->n && a->inner == b->inner));
}

static void
follow(const Codes *codes, const Value *v, Columns at, Columns *of)
{
    Columns *own = value_is_const(v) ? NULL : &of[v->id];
    if (!own || own->are == COLUMNS_VARY || is_same(own, &at)) {
        return;
    }
    bool inner = false;
    at = own->are == COLUMNS_UNKNOWN ? at : VARYING; /* another way gave another place */
    *own = at;
    for (int k = 0; k < codes->n; k++) {
        inner |= codes->inner[k] == v;
    }
    for (int k = 0; inner && k < v->def->nargs; k++) {
        if (!value_is_const(v->def->args[k])) {
            bool known = at.are == COLUMNS_ALONG;
            follow(codes, v->def->args[k],
                   known ? columns_of_operand(codes->cx, v->def, k, at) : VARYING, of);
        }
    }
}

void
codes_columns(const Codes *codes, const Value *v, int axis, Columns *of)
{
    Columns at = {axis < 0 ? COLUMNS_VARY : COLUMNS_ALONG, axis, 0, 1};
    if (axis >= 0) {
        dim_is_int(codes->cx, v->type->dims[axis], &at.n);
    }
    follow(codes, v, axis < 0 ? VARYING : at, of);
}

const Type *
columns_own_axis(Cx *cx, const Type *t, const Columns *columns, int *axis)
{
    int64_t own = 0;
    Dim dims[MAX_RANK];
    int n = columns->axis;
    *axis = n;
    dim_is_int(cx, t->dims[n], &own);
    if (columns->n == own || t->rank + 2 > MAX_RANK) {
        return columns->n == own ? t : NULL;
    }
    memcpy(dims, t->dims, (size_t)n * sizeof *dims);
    int64_t parts[] = {own / columns->n / columns->inner, columns->n, columns->inner};
    for (int k = 0; k < 3; k++) {
        *axis = k == 1 ? n : *axis;
        if (k == 1 || parts[k] != 1) {
            dims[n++] = dim_int(cx, parts[k]);
        }
    }
    for (int ax = columns->axis + 1; ax < t->rank; ax++) {
        dims[n++] = t->dims[ax];
    }
    return type_of(cx, t->dtype, n, dims);
}
