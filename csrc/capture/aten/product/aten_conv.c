/* Convolutions and their gradients: the operators and their arguments.
 *
 * An image and its weight are made the contraction that aten_convolve.c says; a bias is added along
 * the channels. */
#include "aten_conv.h"

#include <string.h>

/* ---- the arguments ---- */

/* One integer for each axis, or one for all; none: `otherwise`. */
static bool
read_numbers(const Arg *a, int axes, int64_t otherwise, int64_t *out)
{
    const Arg *items = a->kind == ARG_LIST ? a->items : a;
    int count = a->kind == ARG_NONE ? 0 : a->kind == ARG_LIST ? a->n : 1;
    for (int k = 0; k < axes; k++) {
        const Arg *item = count == 1 ? items : count == axes ? &items[k] : NULL;
        if (count && (!item || item->kind != ARG_INT || item->i < 0 || item->i > INT16_MAX)) {
            return false;
        }
        out[k] = count ? item->i : otherwise;
    }
    return true;
}

/* A number for each axis, "valid" for none, or "same" for as much as a result of the image's size
 * takes. */
static bool
read_padding(const Arg *a, Window *w)
{
    if (a->kind != ARG_TEXT) {
        return read_numbers(a, w->axes, 0, w->lo);
    }
    bool same = strcmp(a->text, "same") == 0;
    for (int k = 0; k < w->axes; k++) {
        w->lo[k] = same ? w->gap[k] * (w->size[k] - 1) / 2 : 0;
    }
    return same || strcmp(a->text, "valid") == 0;
}

/* weight: [O, C / groups, ..], or transposed [C, O / groups, ..]; places of a kernel are
 * numbers. */
static bool
read_conv(Conv *c, const Type *weight, const Arg *stride, const Arg *padding, const Arg *dilation,
          const Arg *groups)
{
    Window *w = &c->w;
    Dim each;
    *w = (Window){.n = c->n, .axes = weight->rank - 2, .first = 1};
    if (w->axes < 1 || w->axes > MAX_AXES) {
        return false;
    }
    bool known = groups->kind == ARG_INT || groups->kind == ARG_NONE;
    c->groups = groups->kind == ARG_INT ? groups->i : 1;
    for (int k = 0; k < w->axes; k++) {
        known = known && dim_is_int(c->n->cx, weight->dims[k + 2], &w->size[k]) && w->size[k] > 0;
    }
    known = known && c->groups > 0 && read_numbers(stride, w->axes, 1, w->step) &&
            read_numbers(dilation, w->axes, 1, w->gap) && read_padding(padding, w);
    for (int k = 0; k < w->axes && known; k++) {
        known = w->step[k] > 0 && w->gap[k] > 0;
    }
    each = known ? dim_div(c->n->cx, weight->dims[0], dim_int(c->n->cx, c->groups)) : DIM_NONE;
    return known && window_times(w, each, c->groups) == weight->dims[0];
}

/* The channels of an image before the convolution and after it. */
static Dim
channels(const Conv *c, const Type *weight, bool before)
{
    return before == c->transposed ? weight->dims[0]
                                   : window_times(&c->w, weight->dims[1], c->groups);
}

static bool
fits(const Conv *c, const Type *x, const Type *weight, const Type *made)
{
    int rank = c->w.axes + 2;
    return x->rank == rank && made->rank == rank && x->dims[0] == made->dims[0] &&
           x->dims[1] == channels(c, weight, true) && made->dims[1] == channels(c, weight, false);
}

/* Adds the bias along the channels of v. */
static Value *
with_bias(Aten *n, Value *v, const Arg *bias)
{
    const Type *t = v ? v->type : NULL;
    if (!v || bias->kind != ARG_TENSOR) {
        return v;
    }
    Value *b = build_cast(n->b, bias->v, t->dtype);
    return map2(n, OP_add, v, build_expand(n->b, b, t->rank, t->dims, (const int[]){1}));
}

/* Is it a tensor of the dtype, and are there products of that here? */
static bool
is_operand(const Arg *a, Dtype dtype)
{
    return a->kind == ARG_TENSOR && a->v->type->dtype == dtype && dtype != DT_bool;
}

/* t with a batch of one, if it has none. */
static const Type *
with_batch(const Conv *c, const Type *t)
{
    Dim dims[MAX_RANK] = {one(c->n)};
    if (t->rank != c->w.axes + 1) {
        return t;
    }
    memcpy(dims + 1, t->dims, (size_t)t->rank * sizeof *dims);
    return type_of(c->n->cx, t->dtype, t->rank + 1, dims);
}

static bool
channels_last(const Conv *c, const Value *x, const Value *weight)
{
    Window w = c->w;
    w.first = 2;
    return window_channels_last(&w, x) || window_channels_last(&w, weight);
}

/* (x, weight, bias) and the arguments that say which windows */
static Value *
forward(Conv *c, const Arg *stride, const Arg *padding, const Arg *dilation, const Arg *groups)
{
    Aten *n = c->n;
    const Arg *x = arg_at(n, 0), *weight = arg_at(n, 1), *bias = arg_at(n, 2);
    Dtype dtype = n->type->dtype;
    bool has_bias = bias->kind == ARG_TENSOR;
    if (!is_operand(x, dtype) || !is_operand(weight, dtype) ||
        (has_bias && !is_operand(bias, dtype)) ||
        !read_conv(c, weight->v->type, stride, padding, dilation, groups)) {
        return NULL;
    }
    const Type *from = with_batch(c, x->v->type), *made = with_batch(c, n->type);
    if (!conv_is_own(c, from, weight->v->type, made)) {
        return NULL;
    }
    Value *image = build_reshape(n->b, x->v, from->rank, from->dims);
    c->last = image == x->v && (n->images || channels_last(c, x->v, weight->v));
    bool known = fits(c, image->type, weight->v->type, made);
    Dtype to = has_bias ? wide(dtype) : dtype;
    Value *v = known ? with_bias(n, conv_image(c, image, weight->v, made, to), bias) : NULL;
    return v ? build_reshape(n->b, v, n->type->rank, n->type->dims) : NULL;
}

/* convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups); the
 * padding of the result is in its sizes. */
Value *
aten_convolution(Aten *n)
{
    Conv c = {.n = n, .transposed = arg_true(arg_at(n, 6))};
    return forward(&c, arg_at(n, 3), arg_at(n, 4), arg_at(n, 5), arg_at(n, 8));
}

/* conv2d(x, weight, bias, stride, padding, dilation, groups) */
Value *
aten_conv(Aten *n)
{
    Conv c = {.n = n};
    return forward(&c, arg_at(n, 3), arg_at(n, 4), arg_at(n, 5), arg_at(n, 6));
}

/* conv_transpose2d(x, weight, bias, stride, padding, output_padding, groups, dilation) */
Value *
aten_conv_transpose(Aten *n)
{
    Conv c = {.n = n, .transposed = true};
    return forward(&c, arg_at(n, 3), arg_at(n, 4), arg_at(n, 7), arg_at(n, 6));
}

/* ---- gradients ---- */

/* The gradient of the bias: the gradient's sums for each channel. */
static Value *
bias_gradient(Aten *n, Value *grad)
{
    int axes[MAX_RANK] = {0};
    for (int ax = 2; ax < grad->type->rank; ax++) {
        axes[ax - 1] = ax;
    }
    return build_red(n->b, OP_sum, build_cast(n->b, grad, wide(grad->type->dtype)),
                     grad->type->rank - 1, axes);
}

/* Is the gradient of the image to have its channels innermost? */
static bool
makes_channels_last(const Aten *n)
{
    const Dim *strides = n->types[0] && n->strides ? n->strides[0] : NULL;
    return strides && strides_are_last(n->cx, n->types[0]->rank, strides, 2);
}

/* convolution_backward(grad, x, weight, bias_sizes, stride, padding, dilation, transposed,
 * output_padding, groups, mask) -> gradients of x, weight, bias */
Value *
aten_convolution_backward(Aten *n)
{
    const Arg *grad = arg_at(n, 0), *x = arg_at(n, 1), *weight = arg_at(n, 2);
    Conv c = {.n = n, .transposed = arg_true(arg_at(n, 7))};
    Dtype dtype = arg_is_float(grad) ? grad->v->type->dtype : DT_bool;
    if (n->nres != 3 || !is_operand(grad, dtype) || !is_operand(x, dtype) ||
        !is_operand(weight, dtype) ||
        !read_conv(&c, weight->v->type, arg_at(n, 4), arg_at(n, 5), arg_at(n, 6), arg_at(n, 9)) ||
        !fits(&c, x->v->type, weight->v->type, grad->v->type)) {
        return NULL;
    }
    c.last = channels_last(&c, grad->v, weight->v) || makes_channels_last(n);
    if (!conv_gradient_is_own(&c, x->v->type, weight->v->type, grad->v->type)) {
        return NULL;
    }
    if (n->types[1]) {
        n->res[1] = conv_weight(&c, c.transposed ? grad->v : x->v, c.transposed ? x->v : grad->v,
                                n->types[1]);
    }
    n->res[2] = n->types[2] ? bias_gradient(n, grad->v) : NULL;
    c.transposed = !c.transposed;
    return n->types[0] ? conv_image(&c, grad->v, weight->v, n->types[0], dtype) : NULL;
}
