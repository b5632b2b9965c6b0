/* Which rows of memory a loop reads, see rows.c. */
#ifndef DLC_ROWS_H
#define DLC_ROWS_H

#include "facts.h"

/* The rows of tensors that the loop's own loads read, but for what stays cached. */
int rows_read(const Facts *facts, const Let *loop);
/* Are they so few that a processor prefetches them by itself? */
bool rows_are_foreseen(const Facts *facts, const Let *loop);

#endif
