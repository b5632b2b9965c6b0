/* Programs with random damage. */
#ifndef FUZZ_MUTATE_H
#define FUZZ_MUTATE_H

#include "ir/ir.h"

/* The text with one to three changes; it may be a program or not. */
char *mutate(Cx *cx, const char *text, uint64_t *state);

#endif
