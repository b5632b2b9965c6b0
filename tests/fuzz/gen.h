/* Random well-typed programs. */
#ifndef DLC_GEN_H
#define DLC_GEN_H

#include "ir/ir.h"

/* A verified program of the graph stage; the same seed gives the same one. */
Fn *gen_fn(Cx *cx, uint64_t seed);

/* One that multiplies, of operands of every layout. */
Fn *gen_product(Cx *cx, uint64_t seed);

#endif
