/* Derivatives of lets: what the files of both directions share.
 *
 * Backward (derive.c) `g` is the gradient of a let's result, and a rule returns that of an operand.
 * Forward (tangent.c) `t` is the tangent of an operand, and a rule returns that of the result.
 * Every rule is made of lets that have rules themselves, so a derivative has derivatives. */
#ifndef DLC_DERIVE_H
#define DLC_DERIVE_H

#include "ir/ir.h"

/* ---- derive.c ---- */

bool derive_has(const Value *v); /* real or complex numbers: what has a derivative at all */
Value *derive_zero(Build *b, const Type *t);
Value *derive_add(Build *b, Value *x, Value *y); /* x NULL: y */
_Noreturn void derive_none(Build *b, Op op);

/* ---- derive_map.c: elementwise ---- */

/* The gradients of a MAP's operands; out: by operand, NULL where there is none.  Since each
 * element of the result has one element of an operand, the rule of an operand is that of its
 * tangent as well, but for where, real, imag and complex. */
void derive_map(Build *b, const Let *let, Value *g, Value **out);

/* ---- derive_view.c: what moves elements ---- */

Value *derive_view(Build *b, const Let *let, Value *g);
Value *derive_gather(Build *b, const Let *let, Value *g);
Value *derive_pad(Build *b, const Let *let, Value *g);
/* x at [.., index[.., j, ..], ..] along the axis, for each place of the index: what a scatter that
 * adds passes back to its values. */
Value *derive_taken(Build *b, Value *x, Value *index, int axis);

/* ---- derive_reduce.c: reductions and scans ---- */

Value *derive_reduction(Build *b, const Let *let, Value *g);
Value *derive_scan(Build *b, const Let *let, Value *g);
Value *tangent_reduction(Build *b, const Let *let, Value *t);
Value *tangent_scan(Build *b, const Let *let, Value *t);

#endif
