/* Which reductions are divided, see divide.c. */
#ifndef DLC_DIVIDE_H
#define DLC_DIVIDE_H

#include "ir/ir.h"

/* Is a reduction of at most so many terms, of which there are at most so many results, worth two
 * phases?  columns: its vectors run along the results, not along the terms. */
bool reduction_is_divided(int64_t results, int64_t terms, bool columns);

#endif
