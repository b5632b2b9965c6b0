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
    DLC_CHAINS = 8,             /* iterations of a loop marked chains that are run together */
    DLC_LARGE = 8 << 20,        /* bytes of a tensor that comes from memory: no cache near a core has it, */
    DLC_HUGE = 40 << 20,        /* of all that a phase goes through: nor has one that cores share what is read next */
    DLC_STREAMED = 1024,        /* iterations of a vector loop that are run together if their stores pass by caches */
};

/* ---- schedule.c ---- */

bool loop_is(const Let *let);                           /* for, reduce */
int loop_count(const Block *blk);                       /* of loops in it, not deeper */
bool loop_is_call(const Let *let);                      /* marked pack or micro: one call does all of it */
Let *loop_inner(const Let *let);                        /* the `for` in its body, or NULL */
/* Does the load in the vector loop `inner` advance by one element with the loop `rows` around it,
 * and by *step with `inner`? */
bool loop_turns(Cx *cx, const Let *rows, const Let *inner, const Let *load, Dim *step);

/* A combination with what the iteration before has left in a buffer around the loop, and left there in its
 * turn: the load of that buffer, its operand 0; NULL if the let is none. */
const Let *loop_chain(const Let *combine);
bool loop_is_chain(const Let *loop);                    /* in one marked chains: run in order */

/* ---- lower_index.c ---- */

/* in elements, simplified */
Dim index_offset(Cx *cx, const Value *buffer, const Dim *at);

#endif
