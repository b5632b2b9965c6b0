/* Loops marked `tile`: which operands are transposed, and how much of them at a time.
 *
 * What:     marks the vector loop in a loop marked tile `width`: so many of its iterations run for
 *           the tile's iterations of the outer loop.  Marks loads in it that go across the rows
 *           `transpose`: they read a copy of that part of the operand in which their elements are
 *           adjacent.
 * Requires: a scheduled function.
 * Ensures:  each iteration's operations as without (V37, V40).
 * How:      the copies of a few operands fit in the first-level cache.
 * Why not:  all of them: what does not fit there is read across the rows twice.
 * Example:  y[i, j] = x[j, i]: for i in N parallel tile { for j in M vector width=128 {
 *               let a: f32 = load x[j, i] transpose .. } }
 */
#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

static void
mark_tile(const Facts *facts, const Let *rows, Let *columns)
{
    int copies = 0;
    Dim step;
    if (!fuel_spend(facts->cx)) {
        return;
    }
    let_mark_with(facts->cx, columns, MARK_width, DLC_WIDTH);
    for (int k = 0; k < columns->body->n && copies < DLC_PANELS; k++) {
        Let *load = columns->body->lets[k];
        if (load->op == OP_load && facts_transposed(facts, load, rows, columns, &step) &&
            fuel_spend(facts->cx)) {
            let_mark(load, MARK_transpose, true);
            let_mark_with(facts->cx, load, MARK_array, DLC_ROWS * DLC_PANEL);
            copies++;
        }
    }
}

static bool
mark_loop(const PhaseView *phase, Let *loop)
{
    bool tile = let_has(loop, MARK_tile);
    if (tile) {
        mark_tile(phase->facts, loop, loop_inner(loop));
    }
    return !tile;
}

Fn *
rewrite_transpose(Fn *fn)
{
    return loops_visit(fn, mark_loop);
}
