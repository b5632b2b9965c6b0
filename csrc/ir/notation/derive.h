/* Gradients of lets, what derive.c and derive_map.c share. */
#ifndef DLC_DERIVE_H
#define DLC_DERIVE_H

#include "ir/ir.h"

/* The gradients of a MAP's operands, g being that of its result r; out: by operand, NULL where
 * there is none. */
void derive_map(Build *b, const Let *let, Value *g, Value **out);
_Noreturn void derive_none(Build *b, Op op);

#endif
