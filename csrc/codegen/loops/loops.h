/* Questions about the loops stage, see loops.c; facts.h has what is asked of each access. */
#ifndef DLC_LOOPS_H
#define DLC_LOOPS_H

#include "codegen/phase.h"
#include "ir/costs.h"
#include "ir/verify/recurrence.h"

enum { MAX_LOOPS = 3 * MAX_RANK }; /* the loops around a let, within its kernel */

/* ---- loops.c ---- */

Dim loop_index(const Let *loop);
Dim loop_extent(const Let *loop);
/* of a vector loop: DLC_TILE or DLC_COLUMNS */
int loop_tile(const Let *loop);
int loop_width(const Let *loop); /* the value of its mark `width`; without it loop_tile() */
/* The number of iterations of a loop that make one parallel iteration. */
int loop_step(const Let *loop);
int reduce_block(const Let *reduce); /* elements of a block: 1024, 64 or 1 */
bool one_block(Cx *cx, const Let *reduce); /* has it never more than one block? */
bool may_be_one_block(Cx *cx, const Let *reduce); /* does its size decide when it runs? */
int bind_fault(const Let *bind); /* the fault of an index out of range */
/* The constant value of an operand, or NULL: the operand is a literal, or the result of a `const`
 * let. */
const Literal *literal_of(const Value *v);
uint64_t literal_bits(Dtype dtype, Literal literal); /* of the compute type, as dtype holds it */
Dtype map_dtype(const Let *let); /* the dtype a MAP let computes in */
bool converts(const Let *let); /* a cast or a bitcast */
bool is_copy(const Let *let); /* a conversion between dtypes that are computed in the same way */
/* The end of the names of the functions that convert: cast_i32_f32; NULL: the let is another. */
const char *conversion(Cx *cx, const Let *let);
/* The dtype in the names of the functions that load and store: that of u8 for 8-bit floats. */
const char *moved_name(Dtype dtype);
Dtype operand_dtype(const Let *let, int k); /* of operand k of a MAP let */
bool is_narrow(Dtype dtype); /* rounded or wrapped after each op */
bool map_rounds(const Let *let); /* is the result of this MAP let? */
int loop_count(const Block *blk); /* loops in the block itself, not deeper */
bool loop_is_vector(const Let *let); /* does it run over vectors: marked vector or lanes? */
bool loop_is_call(const Let *let); /* marked pack or micro: one call does all of it */
bool loop_has_choice(const Let *loop); /* at any depth: its iterations run one by one then */
Let *loop_inner(const Let *let); /* the `for` in its body, or NULL */
/* Are there only operations, loads and stores in it: no loop, no update, no index that is
 * checked? */
bool body_is_plain(const Block *blk);
const Let *loop_vector_around(const Let *let); /* the innermost loop marked vector, or NULL */
/* A stencil, a vector loop over several rows of a tensor: the load marked prefetch, which is
 * furthest ahead in memory; NULL for other loops. */
const Let *loop_stencil_row(const Let *loop);
/* The loop around a load that goes on to the next row: the innermost one in which a reduction reads
 * the tensor; the kernel if there is none. */
const Let *loop_of_reductions(const Let *load);
/* Does a step of the reduction spend more time on latency than on computing? */
bool loop_is_latency_bound(const Let *reduce);

bool loop_accesses(const Let *loop, Op op, const Value *tensor); /* by the op, it or deeper */
bool loop_is_recurrence(const Let *loop); /* in order, inside one so marked */

/* Does d consist only of sizes and of indices of the loop `inside` and those around it, not of
 * data? */
bool loops_give(const Cx *cx, const Let *inside, Dim d);
bool dim_is_bound_in(const Cx *cx, Dim d, const Block *block); /* has it an index bound there? */
bool buffer_is_private(const Value *buffer); /* made in a loop of the kernel */
/* Root blocks: a kernel's own, in which phases stand, and those of its choices.  The root block
 * around one of a choice; NULL: it is the kernel's. */
const Block *block_around(const Block *root);
const Let *phase_kernel(const Let *phase);
/* A phase of the kernel: its loop, or the if marked phase around its loops; NULL: it has fewer. */
const Let *phase_by_number(const Let *kernel, int number);
Dim choice_share(Cx *cx, const Let *choice); /* 1 where its condition holds, else 0 */
/* Of a let in a root block: 1 where the choices around are for it, else 0. */
Dim let_chosen(Cx *cx, const Let *let);
/* Is it known to be so small that it stays in the caches of a core? */
bool buffer_is_small(Cx *cx, const Value *buffer);
/* Has the access's tensor at least so many bytes?  1: yes, 0: no, -1: its size decides. */
int access_is_large(Cx *cx, const Let *access, int64_t bytes);
bool let_is_expensive(const Let *let); /* a MAP that is worth vectors of its own */
Let *let_in(const Block *block, const Value *v); /* the let of the block that makes v, or NULL */

/* The index that is selected by a reduction that returns where(i == index, v, 0); NULL if the
 * condition is another one.  A reduction marked onehot has it. */
const Value *onehot_index(const Let *reduce);

/* Is the integer made of integers alone, which were read from memory that the kernel does not make?
 * Then a compiler knows of no float that was cast to it. */
bool value_is_of_integers(const Value *v);

/* Does the value go nowhere but to tensors of its dtype?  A store rounds by itself. */
bool value_is_only_stored(const Block *blk, const Value *v);
/* By Value.id: may the value differ between iterations of the loop it is made in?  Of a loop in it
 * it always may. */
bool *values_of_loop(Cx *cx, const Let *loop, int nvalues);

/* Where a let stands in its block. */
int place_of(const Let *let);
/* What reads the let's value: a let of its block, or the reduction that it is the element of.
 * NULL: more than one place does, or something writes before. */
const Let *let_only_user(const Let *let);

/* Does its block store the loaded value itself, and something else too?  Then the load may not wait
 * until the store: the other one may write what it reads. */
bool load_is_stored_later(const Let *load);

/* "model.py:41: y = f(x)" of the first let that has a source; NULL: none has. */
const char *block_source(const Block *blk);

#endif
