/* Questions of the emitters about a loop: its index, its extent, how its reductions are cut. */
#include <string.h>

#include "emit.h"

int
bind_fault(const Let *bind)
{
    return fault_of_index((int)let_int(bind, "wrap"));
}

Dim
loop_index(const Let *loop)
{
    return let_dim(loop, "index");
}

Dim
loop_extent(const Let *loop)
{
    return let_dim(loop, "extent");
}

typedef struct {
    const Cx *cx;
    const Let *inside;
} Around;

/* Is it an index that comes from data, or from a loop elsewhere? */
static bool
is_foreign(const void *arg, Dim name)
{
    const Around *around = arg;
    bool known = dim_extent(around->cx, name) == DIM_NONE;
    for (const Let *let = around->inside; let && !known; let = let->parent->owner) {
        known = loop_is(let) && loop_index(let) == name;
    }
    return !known;
}

bool
loops_give(const Cx *cx, const Let *inside, Dim d)
{
    return !dim_any_name(cx, d, is_foreign, &(Around){cx, inside});
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

int
loop_cost(const Let *loop)
{
    int cost = 0;
    for (int k = 0; k < loop->body->n; k++) {
        Op op = loop->body->lets[k]->op;
        cost += op_info[op].kind == KIND_MAP ? op_info[op].cost : 0;
    }
    return cost;
}

bool
loop_may_stream(Cx *cx, const Let *loop)
{
    return !loop_count(loop->body) && loop_cost(loop) <= COST_STREAMED &&
           dim_range(cx, loop_extent(loop)).hi >= DLC_STREAMED;
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
