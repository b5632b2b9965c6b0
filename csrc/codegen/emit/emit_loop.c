/* Questions of the emitters about a loop: its index, its extent, how its reductions are cut. */
#include <string.h>

#include "emit.h"

int
bind_fault(const Let *bind)
{
    return fault_of_index((int)let_int(bind, "wrap"));
}

Let *
computed_in(const Block *block, const Value *v)
{
    return literal_of(v) ? NULL : let_in(block, v);
}

Dim
loop_index(const Let *loop)
{
    return let_dim(loop, "index");
}

const Step *
step_along(const Emit *e, const Let *access, const Let *loop)
{
    return facts_step(e->facts, access, loop_index(loop));
}

bool
is_contiguous(const Emit *e, const Let *access, const Let *loop)
{
    return facts_contiguous(e->facts, access, loop_index(loop));
}

Dim
loop_extent(const Let *loop)
{
    return let_dim(loop, "extent");
}

int
loop_tile(const Let *loop)
{
    return loop_count(loop->body) ? DLC_COLUMNS : DLC_TILE;
}

int
loop_step(const Let *loop)
{
    return loop_has(loop, MARK_vector)        ? loop_tile(loop)
           : loop_has(loop, MARK_tile)        ? DLC_ROWS
           : loop_has(loop, MARK_recurrences) ? DLC_RECURRENCES
                                              : 1;
}

bool
loop_may_stream(const Emit *e, const Let *loop)
{
    const LoopFacts *facts = facts_loop(e->facts, loop);
    return !facts->loops && facts->cost <= COST_STREAMED &&
           dim_range(e->cx, loop_extent(loop)).hi >= DLC_STREAMED;
}

int
reduce_block(const Let *reduce)
{
    return loop_has(reduce, MARK_pairs) ? 1 : loop_has(reduce, MARK_vector) ? DLC_BLOCK : DLC_STEPS;
}

bool
one_block(Cx *cx, const Let *reduce)
{
    return dim_range(cx, loop_extent(reduce)).hi <= reduce_block(reduce);
}

bool
has_update(const Let *let)
{
    bool found = let->op == OP_update;
    for (int k = 0; let->body && k < let->body->n; k++) {
        found |= has_update(let->body->lets[k]);
    }
    return found;
}
