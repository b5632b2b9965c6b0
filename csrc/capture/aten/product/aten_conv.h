/* What the files of convolutions share: aten_conv.c reads the operators, aten_conv_choice.c decides
 * who computes one, aten_convolve.c makes contractions of it. */
#ifndef DLC_ATEN_CONV_H
#define DLC_ATEN_CONV_H

#include "aten_product.h"
#include "capture/aten/aten_window.h"

typedef struct {
    Aten *n;
    Window w;
    int64_t groups;
    bool transposed;
    bool last; /* are the channels of results innermost in memory, as far as that is known? */
} Conv;

/* Has a group one channel, so that elements of its windows are not summed but along their
 * places? */
bool conv_is_depthwise(const Conv *c, const Type *weight);
/* Is it transposed, in steps that divide the kernel's sizes? */
bool conv_is_interleaved(const Conv *c);
/* Is it transposed, of an image of one point, which all places of the weight take to the result? */
bool conv_is_of_point(const Conv *c, const Type *x, const Type *made);
/* Is the convolution of x to the image `made` computed here? */
bool conv_is_own(const Conv *c, const Type *x, const Type *weight, const Type *made);
/* x convolved with the weight to the image `made`, whose channels are those of the weight; to: the
 * dtype of the sums.  NULL: the windows are not known to lie in the image. */
Value *conv_image(const Conv *c, Value *x, Value *weight, const Type *made, Dtype to);
/* The weight's gradient: windows of the image by the elements of the other one, both summed over
 * all windows.  The image is the larger one, what is read of a convolution and what is made of a
 * transposed one. */
Value *conv_weight(const Conv *c, Value *image, Value *other, const Type *made);

#endif
