/* Random choices in loops: an `if` and its `else` around what each of them does in the same way. */
#ifndef DLC_CHOICES_H
#define DLC_CHOICES_H

#include "ir/ir.h"

/* From now on the loops of units have random choices, drawn from the seed; 0: none. */
void choices_use(uint64_t seed);

bool choices_are_drawn(void);

/* Draws those of a function of the loops stage. */
void choices_draw(Fn *loops);

#endif
