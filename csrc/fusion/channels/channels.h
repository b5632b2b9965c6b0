/* Declares what the files of this folder share. */
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

/* Facts about the layout of values of a function under construction. */
typedef struct {
    Cx *cx;
    signed char *axis; /* by Value.id: 1 + the axis, 0 where it is not known, or not seen yet */
    int room;
} Innermost;

/* The axis of v that is innermost in memory, or will be once v is computed where its operands are;
 * or AXIS_UNKNOWN.  An expansion says nothing.  Asked in the order of the lets, so that no walk is
 * deep. */
int innermost_axis(Innermost *in, const Value *v);

/* ---- rows.c ---- */

/* Facts about the rows of values of a function under construction. */
typedef struct {
    Cx *cx;
    Build *b;
    const Type **types; /* by Value.id: the shape that it, or an operand, is reduced in */
    int n, seen;        /* how many values are known; lets that were looked at */
} Rows;

/* Is it a reduction over at least `least` last axes, but not over all axes?  A reduction over a
 * group, its channels and an image, has at least two. */
bool reduces_last(const Let *red, int least);
/* Looks at the lets that are new. */
void note_rows(Rows *r);
/* The value in the shape of rows that v is a reshape of; NULL: there is none, or it is not the
 * result of an elementwise operation. */
Value *before_reshape(const Rows *r, const Value *v);
/* The elementwise let in the rows of its operands, reshaped; NULL: they are no rows, or fuel is
 * out. */
Value *map_in_rows(Rows *r, const Let *let, Value *const *args);

#endif
