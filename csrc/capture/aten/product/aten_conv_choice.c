/* Decides whether dlc or the library that eager calls computes a convolution (docs/options.md). */
#include "aten_conv.h"
#include "codegen/codegen.h"

enum {
    LEAST_CHANNELS = 16,        /* of an image that `auto` convolves here, all in one group */
    WIDEST = 3,                 /* window of each channel, of those oneDNN has a gradient for */
};

/* The elements that a tensor has at least. */
static int64_t
least_elements(Cx *cx, const Type *t)
{
    const int64_t most = INT64_MAX / 4; /* so that two may be added */
    int64_t n = 1;
    for (int ax = 0; ax < t->rank; ax++) {
        if (__builtin_mul_overflow(n, dim_range(cx, t->dims[ax]).lo, &n)) {
            return most;
        }
    }
    return n < most ? n : most;
}

/* Are the zeros between the elements of a transposed convolution's image multiplied? */
static bool
multiplies_zeros(const Conv *c)
{
    bool stepped = false;
    for (int k = 0; k < c->w.axes; k++) {
        stepped |= c->w.step[k] > 1;
    }
    return c->transposed && stepped && !conv_is_interleaved(c);
}

/* Is the convolution computed here?  Under PRODUCTS_AUTO it is if it was measured to take at most
 * the library's time, including the operations fused with it (docs/experiments.md): float32
 * sequences, images and volumes in channels last, between other convolutions, depthwise or in one
 * group.  With AVX-512 these are all such images.  With other instructions there must be enough
 * channels that the runs of a window are long.  A weight with windows that is larger than the
 * images takes longer to pack than is gained, and so does the weight of any transposed convolution.
 * Eager copies the windows of volumes first (`slow_conv3d`). */
bool
conv_is_own(const Conv *c, const Type *x, const Type *weight, const Type *made)
{
    Cx *cx = c->n->cx;
    if (c->n->products != PRODUCTS_AUTO) {
        return c->n->products == PRODUCTS_OWN;
    }
    if (!c->n->images || made->dtype != DT_f32 || multiplies_zeros(c)) {
        return false;
    }
    bool each = conv_is_depthwise(c, weight) && x->dims[1] == made->dims[1] && !c->transposed;
    if (each || c->groups > 1) {
        return each;
    }
    int64_t elements = least_elements(cx, x) + least_elements(cx, made), channels;
    bool volume = c->w.axes == 3 && !c->transposed, wide = isa_info[processor_isa()].vector == 64,
         is_small = least_elements(cx, weight) <= elements || conv_is_of_point(c, x, made),
         many = dim_is_int(cx, x->dims[1], &channels) && channels >= LEAST_CHANNELS;
    return volume || (c->transposed ? many && (is_small || c->n->prepared)
                                    : wide || (many && (window_taps(&c->w) == 1 || is_small)));
}

/* Are its gradients computed here?  oneDNN has no kernel for the gradient of a weight of each
 * channel with windows of more than WIDEST places along an axis: it computes sixteen channels by
 * sixteen, for memory of 256 elements for each of the weight's (docs/experiments.md). */
bool
conv_gradient_is_own(const Conv *c, const Type *x, const Type *weight, const Type *grad)
{
    int64_t widest = 0;
    if (c->n->products != PRODUCTS_AUTO) {
        return c->n->products == PRODUCTS_OWN;
    }
    for (int k = 0; k < c->w.axes; k++) {
        widest = c->w.size[k] > widest ? c->w.size[k] : widest;
    }
    return c->last && !c->transposed && grad->dtype == DT_f32 && widest > WIDEST &&
           conv_is_depthwise(c, weight) && x->dims[1] == grad->dims[1];
}
