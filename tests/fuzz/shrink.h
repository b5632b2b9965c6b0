/* Smaller programs that still fail. */
#ifndef DLC_SHRINK_H
#define DLC_SHRINK_H

#include "ir/ir.h"

/* The smallest text found for which fails(arg, text) still holds, in the arena. */
const char *shrink(Cx *cx, const char *text, bool (*fails)(void *arg, const char *text), void *arg);

#endif
