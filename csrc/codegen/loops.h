/* Looking at the loops stage; shared by schedule.c and emit_*.c. */
#ifndef DLC_LOOPS_H
#define DLC_LOOPS_H

#include "codegen.h"

enum {
    DLC_COLUMNS = 256,          /* elements of a tile of a vector loop that has loops inside */
    DLC_ROWS = 64,              /* iterations of a loop marked tile that are run together, */
    DLC_WIDTH = 128,            /* each for so many of the vector loop in it */
    DLC_PANEL = DLC_WIDTH + 16, /* elements between two rows of what they read turned */
    DLC_PANELS = 4,             /* most loads of a tile that are read so */
};

/* ---- schedule.c ---- */

bool loop_is(const Let *let);                           /* for, reduce */
bool loop_has(const Let *let, const char *word);        /* is the word in the loop's mark? */
int loop_count(const Block *blk);                       /* of loops in it, not deeper */
Let *loop_inner(const Let *let);                        /* the `for` in its body, or NULL */
/* Does the load in the vector loop `inner` advance by one element with the loop `rows` around it,
 * and by *step with `inner`? */
bool loop_turns(Cx *cx, const Let *rows, const Let *inner, const Let *load, Dim *step);

/* ---- lower_index.c ---- */

/* in elements, simplified */
Dim index_offset(Cx *cx, const Value *buffer, const Dim *at);

#endif
