/* Rows that run two at a time: the iterations of a loop around reductions and other loops.
 *
 * How:      the steps of a reduction whose body is cheap, which each wait for the one before, run
 *           in one loop for both rows, if these are as long; other loops run one after the
 *           other.
 */
#include "jam.h"

Dim
nest_iterations(const Nest *nest, const Let *loop)
{
    bool parallel = false;
    for (int k = 0; k < nest->n; k++) {
        parallel |= nest->parallel[k] == loop;
    }
    Dim all = parallel ? dim_int(nest->cx, 1) : loop_extent(loop);
    for (int k = 0; k < nest->n; k++) {
        all = dim_mul(nest->cx, all, loop_extent(nest->parallel[k]));
    }
    return all;
}

/* Is the extent the same of both rows? */
static bool
is_even(const Nest *nest, const Let *loop, const Let *rows)
{
    bool even = !dim_uses(nest->cx, loop_extent(loop), loop_index(rows));
    for (int k = 0; k < nest->n; k++) {
        even = even && !dim_uses(nest->cx, loop_extent(loop), loop_index(nest->parallel[k]));
    }
    return even;
}

bool
jam_is_joint(const Nest *nest, const Let *loop, const Let *rows)
{
    return loop->op == OP_reduce && loop_is_latency_bound(loop) &&
           op_info[let_op(loop)].rule != RULE_INDEX && is_even(nest, loop, rows);
}

Dim
jam_row(const Nest *nest, const Let *rows)
{
    Dim row = dim_int(nest->cx, 1);
    for (int k = 0; k < rows->body->n; k++) {
        const Let *loop = rows->body->lets[k];
        row = loop_is(loop) && jam_is_joint(nest, loop, rows)
                  ? dim_max(nest->cx, row, loop_extent(loop))
                  : row;
    }
    return row;
}

Dim
jam_elements(const Nest *nest, const Let *rows)
{
    return dim_mul(nest->cx, nest_iterations(nest, rows), jam_row(nest, rows));
}
