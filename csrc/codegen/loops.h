/* Looking at the loops stage; shared by schedule.c and emit_*.c. */
#ifndef DLC_LOOPS_H
#define DLC_LOOPS_H

#include "codegen.h"

enum { DLC_COLUMNS = 256 };     /* elements of a tile of a vector loop that has loops inside */

/* ---- schedule.c ---- */

bool loop_is(const Let *let);                           /* for, reduce */
bool loop_has(const Let *let, const char *word);        /* is the word in the loop's mark? */
int loop_count(const Block *blk);                       /* of loops in it, not deeper */

/* ---- lower_index.c ---- */

/* in elements, simplified */
Dim index_offset(Cx *cx, const Value *buffer, const Dim *at);

#endif
