/* Rows that run two at a time: the iterations of a loop around reductions and other loops.
 *
 * How:      the steps of a reduction marked joint run in one loop for both rows; other loops run
 *           one after the other.
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

Dim
jam_row(Cx *cx, const Let *rows)
{
    Dim row = dim_int(cx, 1);
    for (int k = 0; k < rows->body->n; k++) {
        const Let *loop = rows->body->lets[k];
        row = let_has(loop, MARK_joint) ? dim_max(cx, row, loop_extent(loop)) : row;
    }
    return row;
}

Dim
jam_elements(const Nest *nest, const Let *rows)
{
    return dim_mul(nest->cx, nest_iterations(nest, rows), jam_row(nest->cx, rows));
}
