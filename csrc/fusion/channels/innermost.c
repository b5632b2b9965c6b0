/* Innermost: which axis of a value memory runs along, and the axes that a reshape maps to axes. */
#include "channels.h"
#include "fusion/group.h"

#include <string.h>

enum { UNSEEN = -1 };

int
reshape_segments(Cx *cx, const Type *whole, const Type *grouped, Segment *out)
{
    int n = 0, i = 0, j = 0;
    while (i < whole->rank && j < grouped->rank) {
        Segment s = {i, 1, j, 1};
        Dim a = whole->dims[i++], b = grouped->dims[j++];
        while (a != b) {
            if (dim_le(cx, b, a) && j < grouped->rank) {
                b = dim_mul(cx, b, grouped->dims[j++]);
                s.nto++;
            } else if (dim_le(cx, a, b) && i < whole->rank) {
                a = dim_mul(cx, a, whole->dims[i++]);
                s.nfrom++;
            } else {
                return 0;
            }
        }
        out[n++] = s;
    }
    if (n) {                    /* axes of one element at the end */
        out[n - 1].nfrom += whole->rank - i;
        out[n - 1].nto += grouped->rank - j;
    }
    return n;
}

static int
axis_of_one_step(Cx *cx, const Value *v)
{
    Dim strides[MAX_RANK];
    if (!value_layout(cx, v, strides)) {
        return AXIS_UNKNOWN;
    }
    for (int ax = v->type->rank - 1; ax >= 0; ax--) {
        if (dim_is(cx, strides[ax], 1) && !dim_is(cx, v->type->dims[ax], 1)) {
            return ax;
        }
    }
    return AXIS_UNKNOWN;
}

/* The innermost axis of an elementwise operation: that of its operands of the same size, if they
 * agree. */
static int
innermost_of_operands(Innermost *in, const Let *let)
{
    int found = AXIS_UNKNOWN;
    for (int k = 0; k < let->nargs; k++) {
        const Value *arg = let->args[k];
        bool large = !value_is_const(arg) && type_same_shape(arg->type, let->res[0]->type);
        int axis = large ? innermost_axis(in, arg) : AXIS_UNKNOWN;
        if (axis != AXIS_UNKNOWN && found != AXIS_UNKNOWN && axis != found) {
            return AXIS_UNKNOWN;
        }
        found = axis != AXIS_UNKNOWN ? axis : found;
    }
    return found;
}

static int
axis_through_permute(const Let *permute, int axis)
{
    const Attr *perm = let_attr(permute, "perm");
    int to = AXIS_UNKNOWN;
    for (int ax = 0; ax < perm->n && axis != AXIS_UNKNOWN; ax++) {
        to = perm->axes[ax] == axis ? ax : to;
    }
    return to;
}

/* The channels have to be one axis on both sides. */
static int
axis_through_reshape(Cx *cx, const Let *reshape, int axis)
{
    Segment segments[MAX_RANK];
    int n = reshape_segments(cx, reshape->args[0]->type, reshape->res[0]->type, segments);
    for (int k = 0; k < n && axis != AXIS_UNKNOWN; k++) {
        const Segment *s = &segments[k];
        if (axis >= s->from && axis < s->from + s->nfrom) {
            return s->nfrom == 1 && s->nto == 1 ? s->to : AXIS_UNKNOWN;
        }
    }
    return AXIS_UNKNOWN;
}

static int
find_innermost(Innermost *in, const Value *v)
{
    const Let *let = v->def;
    if (!let || let_is_opaque(let) || let->op == OP_contract) {
        return axis_of_one_step(in->cx, v);
    }
    if (op_info[let->op].kind == KIND_MAP) {
        return innermost_of_operands(in, let);
    }
    return let->op == OP_permute ? axis_through_permute(let, innermost_axis(in, let->args[0]))
           : let->op == OP_reshape
               ? axis_through_reshape(in->cx, let, innermost_axis(in, let->args[0]))
               : AXIS_UNKNOWN;
}

static void
make_room(Innermost *in, int id)
{
    int room = 2 * (id + 1);
    signed char *more = cx_alloc(in->cx, (size_t)room);
    memset(more, UNSEEN, (size_t)room);
    for (int k = 0; k < in->room; k++) {
        more[k] = in->axis[k];
    }
    in->axis = more;
    in->room = room;
}

int
innermost_axis(Innermost *in, const Value *v)
{
    if (value_is_const(v)) {
        return AXIS_UNKNOWN;
    }
    if (v->id >= in->room) {
        make_room(in, v->id);
    }
    if (in->axis[v->id] == UNSEEN) {
        int axis = find_innermost(in, v);
        in->axis[v->id] = (signed char)(axis + 1);
    }
    return in->axis[v->id] - 1;
}
