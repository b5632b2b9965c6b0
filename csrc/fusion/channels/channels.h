/* What channels.c and innermost.c share. */
#ifndef DLC_CHANNELS_H
#define DLC_CHANNELS_H

#include "ir/ir.h"

enum { AXIS_UNKNOWN = -1 };

/* A run of axes before a reshape and the run of axes after it that has the same elements. */
typedef struct {
    int from, nfrom, to, nto;
} Segment;

/* The least runs.  out: room for MAX_RANK.  Returns how many there are; 0: the axes of the two
 * shapes cannot be told apart. */
int reshape_segments(Cx *cx, const Type *before, const Type *after, Segment *out);

/* What is known of the values of a function that is being built. */
typedef struct {
    Cx *cx;
    signed char *axis; /* by Value.id: 1 + the axis, 0 where it is not known, or not seen yet */
    int room;
} Innermost;

/* The axis of v that is innermost in memory, or will be once v is computed where its operands are;
 * or AXIS_UNKNOWN.  An expansion says nothing.  Asked in the order of the lets, so that no walk is
 * deep. */
int innermost_axis(Innermost *in, const Value *v);

#endif
