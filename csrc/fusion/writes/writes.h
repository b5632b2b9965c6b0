/* Declares what the files of this folder share. */
#ifndef DLC_WRITES_H
#define DLC_WRITES_H

#include "fusion/fusion.h"

/* A function of the kernels stage, and who reads what in it. */
typedef struct {
    Fn *fn;
    ValueUse *uses;
    int *place;                 /* by Value.id of a kernel's result: its let's position + 1 */
    int *returned;              /* by Value.id: how many results it is */
    bool *viewed;               /* by Value.id: a view at the top level is of it */
    bool *shared;               /* by Value.id: results of a call may share its memory */
    int *keeps,
        question; /* by Value.id: the last question that was answered by yes, see keeps_part */
    bool decides; /* what is found is done, and costs fuel */
} Writes;

/* ---- in_place.c ---- */

/* Is v, a result of the kernel, made of elements of the old value, which nothing is computed of,
 * and of others beside them? */
bool keeps_part(Writes *s, const Let *kernel, const Value *v, const Value *old);

/* ---- split.c ---- */

/* The function with kernels split so that more results take the memory of older values.  s: with
 * the results that do so already bound over them; that binding is taken back. */
Fn *split_writes(Writes *s);

/* ---- enclose.c ---- */

/* Is what a step does little enough for a loop in a kernel? */
bool loop_is_little(Cx *cx, const Let *loop);
/* A kernel that is the loop, and has its results; the loop has new ones. */
Let *loop_as_kernel(Fn *fn, Let *loop);

/* ---- ranges.c ---- */

/* The loop with loops over ranges in its body as kernels with a number of steps; NULL: it has none,
 * or something that does not go into a kernel. */
Let *ranges_count(const Fn *fn, const Let *loop);

#endif
