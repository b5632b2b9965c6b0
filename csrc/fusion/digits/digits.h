/* What a weight of a product is decoded of, see decode.c. */
#ifndef DLC_DIGITS_H
#define DLC_DIGITS_H

#include "fusion/group.h"

/* A weight as codes of eight bits, and the scales by which they are multiplied, or NULL.  Without
 * groups, `to` says along which axis of the weight each axis of the scales goes.  With groups, the
 * codes and scales have the weight's axes, where the axis `sum` has the groups and, in the codes,
 * the terms of a group behind them. */
typedef struct {
    const Value *codes, *scale;
    int to[MAX_RANK];
    int sum;                    /* -1: there are no groups */
    Dim groups, terms;
    const Value *of; /* with groups: what is multiplied by the scales */
    int64_t shift; /* is subtracted from that, which gives codes of eight bits */
    int64_t middle; /* of the range of the codes before */
    const Value *zero, *least; /* for groups: subtracted from it; added to the product; or NULL */
    bool minus; /* the latter is subtracted */
} Decode;

/* Is v such a weight, with one scale for each column at most?  Is it one with groups along the axis
 * that its product sums? */
bool decode_columns(const Value *v, Decode *d);
bool decode_groups(Cx *cx, const Value *v, int sum, Decode *d);
/* The codes and scales with their groups, in the function of b; map: by id in the old one. */
Value *decode_codes(Build *b, const Decode *d, const Value *weight, Value *const *map);
Value *decode_scales(Build *b, const Decode *d, const Value *weight, Value *const *map);
/* What the codes times the scales lack, for each group; NULL: nothing. */
Value *decode_least(Build *b, const Decode *d, const Value *weight, Value *const *map);

#endif
