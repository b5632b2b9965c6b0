/* Random well-typed programs, and what they are drawn with. */
#ifndef DLC_GEN_H
#define DLC_GEN_H

#include "ir/ir.h"

int below(uint64_t *random, int n);                 /* 0 .. n - 1 */
bool chance(uint64_t *random, int percent);
void shuffle(uint64_t *random, int n, int *order);  /* order: 0 .. n - 1 in any order */

/* A verified program of the graph stage; the same seed gives the same one. */
Fn *gen_fn(Cx *cx, uint64_t seed);

/* One that multiplies, of operands of every layout. */
Fn *gen_product(Cx *cx, uint64_t seed);

/* One of few rows and a weight of few bits. */
Fn *gen_decoded_product(Cx *cx, uint64_t seed);

/* One with a loop or a branch, or one in the other. */
Fn *gen_flow(Cx *cx, uint64_t seed);

/* One with loops whose steps read and write elements, rows and parts of arrays. */
Fn *gen_steps(Cx *cx, uint64_t seed);

/* One of a single thing that is done to rows: a scan, a norm, a place, a sum of few elements. */
Fn *gen_rows(Cx *cx, uint64_t seed);

/* Gives parameters and results that promise no strides some, in place; what shares memory with
 * another stays. */
void relay(Fn *fn, uint64_t *random);

#endif
