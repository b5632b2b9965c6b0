/* The common header of convolutions: aten_conv.c reads the operators, aten_conv_choice.c decides
 * between dlc and the library, aten_convolve.c and, for transposed ones, aten_conv_transposed.c
 * translate them to contractions. */
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
    bool phased[MAX_AXES]; /* axes at whose places within a step windows of their own begin */
    Where where; /* the terms of the contraction */
} Conv;

/* Has a group one channel, so that elements of its windows are not summed but along their
 * places? */
bool conv_is_depthwise(const Conv *c, const Type *weight);
/* Is it transposed, in steps that divide the kernel's sizes? */
bool conv_is_interleaved(const Conv *c);
/* Is it a transposed convolution of an image of one point, so that each place of the weight gives a
 * point of the result? */
bool conv_is_of_point(const Conv *c, const Type *x, const Type *made);
/* Is the convolution of x to the image `made` computed here? */
bool conv_is_own(const Conv *c, const Type *x, const Type *weight, const Type *made);
/* Are the gradients of the convolution of x computed here? */
bool conv_gradient_is_own(const Conv *c, const Type *x, const Type *weight, const Type *grad);
/* x convolved with the weight to the image `made`, whose channels are those of the weight; to: the
 * dtype of the sums.  NULL: the windows are not known to be in the image. */
Value *conv_image(const Conv *c, Value *x, Value *weight, const Type *made, Dtype to);
/* The weight's gradient: windows of the image times the elements of `other`, summed over all
 * windows.  The image is the larger one: the operand of a convolution, the result of a transposed
 * one. */
Value *conv_weight(const Conv *c, Value *image, Value *other, const Type *made);


/* ---- the letters of a contraction ---- */

enum { CONV_PHASES = 2 }; /* the step of an axis that is `phased` */

/* Letters for the places in a window, for an image's points, and for the places within a step. */
extern const char conv_places[], conv_points[], conv_within[];

/* Adds the letters to the term, but not those of axes on which a window has only one place.
 * places: NULL adds all letters. */
void conv_letters(Term *t, const char *letters, const Window *places);
void conv_letters_phases(const Conv *c, Term *t);
/* x, whose channels are at the axis, with groups and their channels as two axes, where there are
 * several groups. */
Value *conv_grouped(const Conv *c, Value *x, int axis);
/* The windows of the image x, in the numbers `counts`.  False: they are not known to be in it. */
bool conv_windows(const Conv *c, Value *x, const Dim *counts, Term *out);
/* The letters and sizes of the weight's axes before its places: of groups, where there are several,
 * and of channels.  How many they are. */
int conv_weight_channels(const Conv *c, const Type *weight, Term *out, Dim *dims);
Value *conv_contracted(const Conv *c, const Term *x, const Term *y, const Term *out, Dtype to);

/* ---- transposed convolutions: aten_conv_transposed.c ---- */

Value *conv_interleaved(const Conv *c, Value *x, Value *weight, const Type *made, Dtype to);
Value *conv_of_point(const Conv *c, Value *x, Value *weight, const Type *made, Dtype to);

#endif
