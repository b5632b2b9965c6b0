/* What the rewrites share that make other loops of those that are there, see reorder.c and
 * put.c. */
#ifndef DLC_NEST_H
#define DLC_NEST_H

#include "codegen/loops/loops.h"
#include "codegen/rewrites.h"

/* ---- reorder.c ---- */

/* The attribute itself, which is in the let's schema. */
Attr *nest_attr(Let *let, const char *key);
/* The loop and the one that is alone in it change places: their indices and extents do. */
void nest_reorder(Let *loop);
/* Rewrites each loop that has the mark, those inside first, as far as fuel allows; returns fn. */
Fn *nest_visit(Fn *fn, Marks mark, void (*rewrite)(Fn *fn, Let *loop));

/* ---- split.c ---- */

/* Makes the loop one over blocks of so many iterations, and returns the loop over a block.  Both
 * have the marks that it had. */
Let *nest_split(Fn *fn, Let *loop, int64_t size);

/* ---- put.c: lets that stand for others; like: one of these ---- */

/* Behind the block's others.  at: the element of an access to one axis, else NULL. */
Let *nest_let(Fn *fn, Block *to, const Let *like, Op op, int nargs, Value *const *args,
              const Dim *at);
/* The same of one with a value, of the type of the other's. */
Value *nest_value(Fn *fn, Block *to, const Let *like, Op op, int nargs, Value *const *args,
                  const Dim *at);
/* A loop that is in no block yet; its index has a name like that of the other loop. */
Let *nest_loop(Fn *fn, const Let *like, Dim extent, Marks marks);
/* The block of an if that left <= right, or of the else behind it. */
Block *nest_choice(Fn *fn, Block *to, Op op, Dim left, Dim right);
Value *nest_literal(Cx *cx, Literal is);
/* Room for n sums like this one of a product, in registers. */
Value *nest_sums(Fn *fn, Block *to, const Let *sum, int n);
/* A loop over so many columns, in which n arrays of sums, or of extremes, begin. */
void nest_zeros(Fn *fn, Block *to, const Let *sum, const Let *columns, Dim extent, int n,
                Value *const *sums);
/* Combines a value with the sum or the extreme of a column. */
void nest_combine(Fn *fn, Block *to, const Let *sum, Value *term, Value *sums, Dim column);
/* Adds a * b to the sum of a column. */
void nest_step(Fn *fn, Block *to, const Let *sum, Value *a, Value *b, Value *sums, Dim column);

#endif
