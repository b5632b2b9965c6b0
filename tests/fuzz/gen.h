/* Random well-typed programs. */
#ifndef DLC_GEN_H
#define DLC_GEN_H

#include "ir/ir.h"

/* A verified program of the graph stage; the same seed gives the same one.  nudge: every floating
 * point sum and product is changed by a few roundings, as another order of addition might: how far
 * the results move says how exactly they can be expected. */
Fn *gen_fn(Cx *cx, uint64_t seed, bool nudge);

#endif
