/* Windows of the last axes, for pools and their gradients: aten_pool.c. */
#ifndef DLC_ATEN_WINDOW_H
#define DLC_ATEN_WINDOW_H

#include "aten.h"

enum { MAX_AXES = 3, MAX_TAPS = 64 };

typedef struct {
    Aten *n;
    int axes, first;            /* how many axes have windows, the first of them */
    int64_t size[MAX_AXES], step[MAX_AXES], lo[MAX_AXES], gap[MAX_AXES];
} Window;

/* Arguments from `at` on: kernel, stride, padding; gap: and dilation.  false: not known, or eager
 * raises. */
bool window_of(Aten *n, int at, int rank, int axes, bool gap, Window *w);
/* The same for windows that may be entirely in the padding, which those of a pool may not. */
bool window_read(Aten *n, int at, int rank, int axes, bool gap, Window *w);
/* The windows of an adaptive pool from x to `made`, if they are all of one size. */
bool window_even(Aten *n, const Type *x, const Type *made, int axes, Window *w);
/* Is x in memory, as far as that is known, with its channels innermost?  They are before the first
 * axis. */
bool window_channels_last(const Window *w, const Value *x);
bool image_is_last(Cx *cx, const Value *x, int first);
bool strides_are_last(Cx *cx, int rank, const Dim *strides, int first);
int64_t window_taps(const Window *w);                   /* places in a window */
Dim window_plus(const Window *w, Dim d, int64_t i);
Dim window_times(const Window *w, Dim d, int64_t i);
/* The number that a mean over each window divides by, NULL: it is not known; `x`: the operand of
 * the pool, t: the windows. */
Value *window_divisor(const Window *w, const Type *x, const Type *t, const Arg *ceil,
                      const Arg *include, const Arg *override);
/* v over the size of the windows of one size, axis by axis, as eager rounds it. */
Value *window_shared(const Window *w, Value *v);

#endif
