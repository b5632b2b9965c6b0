/* Places in the last axes by the indices of a max pool: its gradients, and max_unpool. */
#include "aten_window.h"

/* Images of planes, with the planes innermost if `last`, as [outer, places, planes]. */
static Value *
as_places(Aten *n, Value *v, bool last)
{
    int rank = v->type->rank, first = rank - n->axes;
    Dim dims[] = {one(n), one(n), one(n)};
    for (int ax = 0; ax < rank; ax++) {
        Dim *to = ax >= first ? &dims[1] : last && ax == first - 1 ? &dims[2] : &dims[0];
        *to = dim_mul(n->cx, *to, v->type->dims[ax]);
    }
    return build_reshape(n->b, last ? move_axes(n, v, first - 1, 1, rank - 1) : v, 3, dims);
}

/* Undoes as_places: gives v the shape of the node's result. */
static Value *
as_image(Aten *n, Value *v, bool last)
{
    int rank = n->type->rank, first = rank - n->axes;
    Dim dims[MAX_RANK];
    if (!last) {
        return build_reshape(n->b, v, rank, n->type->dims);
    }
    for (int ax = 0; ax < rank; ax++) {
        dims[ax] = n->type->dims[ax < first - 1 ? ax : ax == rank - 1 ? first - 1 : ax + 1];
    }
    return move_axes(n, build_reshape(n->b, v, rank, dims), rank - 1, 1, first - 1);
}

/* Argument 0 combined by the op with zeros, at the places in the last axes that `index` names. */
static Value *
combined_at(Aten *n, Op op, const Arg *index)
{
    Value *grad = arg_tensor(n, 0);
    int rank = n->type->rank, first = rank - n->axes;
    if (!is_index(index) || first < 1 || !type_same_shape(grad->type, index->v->type) ||
        grad->type->rank != rank || n->type->dtype == DT_bool) {
        return NULL;
    }
    const Arg *pooled = arg_at(n, 1);
    bool last = image_is_last(n->cx, index->v, first) ||
                (pooled->kind == ARG_TENSOR && type_same_shape(pooled->v->type, n->type) &&
                 image_is_last(n->cx, pooled->v, first));
    Value *none = build_const(n->b, n->type, (Literal){.is_int = true});
    Value *v = as_places(n, build_cast(n->b, grad, n->type->dtype), last);
    Value *at = as_places(n, build_cast(n->b, index->v, DT_i64), last);
    /* Eager's pools say it otherwise than their gradients do. */
    int kind = op == OP_store ? INDEX_OF_MAXIMUM : INDEX_OF_ELEMENT;
    return as_image(n, build_scatter(n->b, op, as_places(n, none, last), at, v, 1, kind), last);
}

/* The gradient of a pool: summed at the positions of the windows' largest elements. */
static Value *
sum_at_places(Aten *n, const Arg *index)
{
    return dtype_info[n->type->dtype].class == CLASS_FLOAT ? combined_at(n, OP_sum, index) : NULL;
}

/* max_pool2d_with_indices_backward(grad, x, kernel, stride, padding, dilation, ceil_mode,
 * indices) */
Value *
aten_max_pool_backward(Aten *n)
{
    return sum_at_places(n, arg_at(n, 7));
}

/* adaptive_max_pool2d_backward(grad, x, indices) */
Value *
aten_adaptive_max_pool_backward(Aten *n)
{
    return sum_at_places(n, arg_at(n, 2));
}

/* max_unpool2d(x, indices, size), max_unpool3d(x, indices, size, stride, padding) */
Value *
aten_max_unpool(Aten *n)
{
    return dtype_info[n->type->dtype].class == CLASS_FLOAT ? combined_at(n, OP_store, arg_at(n, 1))
                                                           : NULL;
}
