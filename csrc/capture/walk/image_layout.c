/* Convolutions that eager computes, on images with their channels innermost in memory (channels
 * last).
 *
 * Eager's convolution of row-major images reorders its operand and its result. With an image in
 * channels last it does not, and its result is channels last too: so the layout of a call's
 * operands determines the layout of the following values. Kernels read any layout, and write the
 * one that the next call needs (operand_layout.c); a result of the graph in another layout than
 * eager's is copied.  So each convolution, in the order of the graph, takes its image in channels
 * last if the image has that layout, or a kernel makes it, or it is no larger than the result. A
 * single convolution is left as it is: kernels would only do the reordering instead of eager.
 *
 * Eager reorders the weight too, in each call.  If the weight is larger than the images, this costs
 * more, and the convolution is left as it is as well: with 512 channels on 7 x 7 points it takes
 * 1.3 to 1.9 times as long in channels last.
 *
 * Graphs that record for autograd got their layouts from dlc/images.py, by the same rule: the
 * values that they save have the layout of their fake tensors. */
#include "ir/costs.h"
#include "walk.h"

bool
convolution_is(const Bound *at)
{
    const AtenRow *row = at->overload ? at->overload->row
                         : at->torch  ? torch_builder(at->torch)
                                      : NULL;
    return row && (row->build == aten_conv || row->build == aten_conv_transpose ||
                   row->build == aten_convolution);
}

static const Dim *
channels_last(Walk *w, const Type *t)
{
    Dim *strides = cx_alloc(w->cx, (size_t)t->rank * sizeof *strides), next = t->dims[1];
    strides[1] = dim_int(w->cx, 1);
    for (int ax = t->rank - 1; ax >= 0; ax--) {
        if (ax != 1) {
            strides[ax] = next;
            next = dim_mul(w->cx, next, t->dims[ax]);
        }
    }
    return strides;
}

/* The k-th argument, if it is a tensor of the dtype and rank. */
static const Bound *
bound_tensor(Walk *w, const Bound *at, int k, const Type *like)
{
    PyObject *args = attr(w, at->node, py.name.args),
             *item = k < PyTuple_Size(args) ? PyTuple_GET_ITEM(args, k) : NULL;
    const Bound *b = item && is_a(item, py.Node) ? bound_of(w, item) : NULL;
    bool tensor = b && b->arg.kind == ARG_TENSOR && b->arg.v->type->rank == like->rank;
    return tensor && b->arg.v->type->dtype == like->dtype ? b : NULL;
}

/* Are rows and channels last one order of the weight's elements in memory? */
static bool
is_either(Walk *w, const Type *weight)
{
    int64_t places = 1, n;
    for (int ax = 2; ax < weight->rank; ax++) {
        places = dim_is_int(w->cx, weight->dims[ax], &n) ? places * n : 2;
    }
    return places == 1 || dim_is(w->cx, weight->dims[1], 1);
}

bool
images_are_last(const Walk *w)
{
    return w->inference && w->nconvolutions > 1;
}

const Dim *
images_last(Walk *w, const Bound *at, const Type *made)
{
    bool image = made && made->rank == 4 && made->dtype == DT_f32;
    if (!images_are_last(w) || at->shared || !image || !convolution_is(at)) {
        return NULL;
    }
    const Bound *x = bound_tensor(w, at, 0, made), *weight = bound_tensor(w, at, 1, made);
    if (!x || !weight) {
        return NULL;
    }
    const Type *from = x->arg.v->type, *by = weight->arg.v->type;
    bool one_group = by->dims[1] == from->dims[1] || by->dims[1] == made->dims[1];
    bool lies = lies_in(w, weight->arg.v, channels_last(w, by)) || is_either(w, by);
    int64_t read = dims_typical(w->cx, 4, from->dims), written = dims_typical(w->cx, 4, made->dims);
    bool is_small = dims_typical(w->cx, 4, by->dims) <= read + written;
    bool is_free = lies_in(w, x->arg.v, channels_last(w, from)) || may_be_written(w, x->arg.v);
    bool depthwise = dim_is(w->cx, by->dims[1], 1),
         worth = (lies || is_small) && (is_free || read <= written);
    return worth && (one_group || depthwise) ? channels_last(w, made) : NULL;
}

Value *
images_operand(Walk *w, const Bound *b, int k)
{
    Bound wanted = *b;
    if (k == 0) {
        wanted.strides = channels_last(w, b->arg.v->type);
    }
    return laid_out(w, &wanted, LAYOUT_ORDER);
}
