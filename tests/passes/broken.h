/* The bugs on purpose of broken.c and broken_lower.c. */
#ifndef DLC_BROKEN_H
#define DLC_BROKEN_H

#include "ir/ir.h"

bool is_asked(const char *what);                        /* by BROKEN=what in the environment */
void change_op(Block *blk, Op from, Op to);             /* of all lets in the block */

#endif
