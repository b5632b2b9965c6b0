/* x[mask] = v: each element chooses between the old one and the new one. */
#include "aten.h"

/* The list's only index, a mask, and the first axis it is for; NULL: there are others. */
static Value *
only_mask(const Arg *list, int *first)
{
    Value *mask = NULL;
    for (int k = 0; k < list->n; k++) {
        const Arg *item = &list->items[k];
        if (item->kind == ARG_NONE) {
            continue;
        }
        if (mask || item->kind != ARG_TENSOR || item->v->type->dtype != DT_bool) {
            return NULL;
        }
        mask = item->v;
        *first = k;
    }
    return mask;
}

/* The mask's axes are axes of x from `first` on. */
static Value *
mask_along(Aten *n, Value *mask, int first, const Type *x)
{
    int to[MAX_RANK];
    if (first + mask->type->rank > x->rank) {
        return NULL;
    }
    for (int ax = 0; ax < mask->type->rank; ax++) {
        to[ax] = first + ax;
        if (mask->type->dims[ax] != x->dims[first + ax]) {
            return NULL;
        }
    }
    return build_expand(n->b, mask, x->rank, x->dims, to);
}

/* Is the value the same for every place that is written: one number, or a row along the axes after
 * the mask's? */
static Value *
for_all_places(Aten *n, Value *v, int first, int taken, const Type *x)
{
    int behind = x->rank - first - taken;
    if (dim_is(n->cx, type_numel(n->cx, v->type), 1)) {
        v = build_reshape(n->b, v, 0, NULL);
    } else if (first || v->type->rank > behind + 1) {
        return NULL;
    } else if (v->type->rank == behind + 1) {
        if (!dim_is(n->cx, v->type->dims[0], 1)) {
            return NULL;
        }
        v = build_reshape(n->b, v, behind, v->type->dims + 1);
    }
    return build_broadcast(n->b, v, x->rank, x->dims);
}

/* index_put(x, indices, values, accumulate): indices, or one mask and values that do not depend on
 * the place */
Value *
aten_index_put(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    const Arg *list = arg_at(n, 1), *values = arg_at(n, 2);
    int first = 0;
    Value *mask = list->kind == ARG_LIST ? only_mask(list, &first) : NULL;
    bool adds = arg_true(arg_at(n, 3));
    if (list->kind != ARG_LIST || values->kind != ARG_TENSOR ||
        values->v->type->dtype != x->type->dtype || (adds && x->type->dtype == DT_bool)) {
        return NULL;
    }
    if (!mask) {
        return put_at(n, values->v, adds);
    }
    Value *here = mask_along(n, mask, first, x->type);
    Value *v = here ? for_all_places(n, values->v, first, mask->type->rank, x->type) : NULL;
    return v ? map3(n, OP_where, here, adds ? map2(n, OP_add, x, v) : v, x) : NULL;
}

/* masked_scatter(x, mask, source): where the mask is set, the source's next element, in row-major
 * order; eager's RuntimeError if it has too few */
Value *
aten_masked_scatter(Aten *n)
{
    const Arg *mask = arg_at(n, 1), *source = arg_at(n, 2);
    const Type *t = n->type;
    if (n->args[0].kind != ARG_TENSOR || mask->kind != ARG_TENSOR ||
        mask->v->type->dtype != DT_bool || source->kind != ARG_TENSOR ||
        source->v->type->dtype != arg_tensor(n, 0)->type->dtype) {
        return NULL;
    }
    Dim all = type_numel(n->cx, t), count = type_numel(n->cx, source->v->type);
    if (!dim_le(n->cx, one(n), count)) {
        return NULL; /* the gathered element must exist even where nothing is written */
    }
    Value *here = build_broadcast(n->b, mask->v, t->rank, t->dims);
    Value *x = build_broadcast(n->b, arg_tensor(n, 0), t->rank, t->dims);
    Value *flat = build_reshape(n->b, here, 1, &all);
    Value *nth = build_scan(n->b, OP_sum, build_cast(n->b, flat, DT_i64), 0);
    nth = map3(n, OP_where, flat, map2(n, OP_sub, nth, build_int(n->b, 1)), build_int(n->b, 0));
    Value *v = build_gather(n->b, build_reshape(n->b, source->v, 1, &count), nth, 0,
                            INDEX_OF_ELEMENT);
    return map3(n, OP_where, here, build_reshape(n->b, v, t->rank, t->dims), x);
}
