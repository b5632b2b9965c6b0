/* The bugs on purpose of broken.c and broken_lower.c. */
#ifndef DLC_BROKEN_H
#define DLC_BROKEN_H

#include "ir/ir.h"

/* The linker calls __wrap_<fn> instead of a function of dlc's, which is __real_<fn> then.  Both
 * have the type that its header says: a wrapper of another type does not compile. */
#define WRAPPED(fn) extern __typeof__(fn) __real_##fn, __wrap_##fn

bool is_asked(const char *what);                        /* by BROKEN=what in the environment */
void change_op(Block *blk, Op from, Op to);             /* of all lets in the block */

#endif
