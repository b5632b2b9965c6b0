/* Looking at the loops stage; shared by schedule.c and emit_*.c. */
#ifndef DLC_LOOPS_H
#define DLC_LOOPS_H

#include "codegen.h"
#include "ir/costs.h"

enum { MAX_LOOPS = 3 * MAX_RANK }; /* around a let, of one kernel */

/* ---- schedule.c ---- */

int loop_count(const Block *blk); /* loops in the block itself, not deeper */
bool loop_is_call(const Let *let); /* marked pack or micro: one call does all of it */
Let *loop_inner(const Let *let); /* the `for` in its body, or NULL */
/* Does the load in the vector loop `inner` advance by one element with the loop `rows` around it,
 * and by *step with `inner`? */
bool loop_transposes(Cx *cx, const Let *rows, const Let *inner, const Let *load, Dim *step);

/* schedule_shorten.c: does a step of the reduction wait for more than it computes? */
bool loop_is_latency_bound(const Let *reduce);

/* Does the let combine a value with what the iteration before has left in a buffer outside the
 * loop, and leave the result there?  Returns the load of that buffer, its operand 0, or NULL. */
const Let *loop_carried(const Let *combine);
bool loop_is_recurrence(const Let *loop); /* in order, inside one so marked */

/* ---- lower_index.c ---- */

/* in elements, simplified */
Dim index_offset(Cx *cx, const Value *buffer, const Dim *at);

#endif
