/* What the rewrites share that make other loops of those that a schedule marks, see reorder.c. */
#ifndef DLC_NEST_H
#define DLC_NEST_H

#include "codegen/phase.h"

/* The attribute itself, which is in the let's schema. */
Attr *nest_attr(Let *let, const char *key);
/* The loop and the one that is alone in it change places: their indices and extents do. */
void nest_reorder(Let *loop);
/* Rewrites each loop that has the mark, those inside first, as far as fuel allows; returns fn. */
Fn *nest_visit(Fn *fn, Marks mark, void (*rewrite)(Fn *fn, Let *loop));

#endif
