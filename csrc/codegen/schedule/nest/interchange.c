/* Loop interchange: sums of a product of which all columns are computed together.
 *
 * What:     marks loops over columns `interchange` that begin with a short sum of products: the
 *           sums of all columns are in an array, and the loop over columns is inside that over
 *           terms.
 * Requires: a scheduled function.
 * Ensures:  every bit: each sum has its order, and no iteration needs another one (V50).
 * How:      compilers make vectors of the inner loop, since the columns of an operand are adjacent,
 *           and of no loop over terms, whose order is part of the program.  The array has as many
 *           sums as a row of a panel, so that they fit into registers.
 * Why not:  longer sums: each part of them would need an array.
 * Example:  for j in 32 interchange=32 { let s: f32 = reduce sum p in 256 fused { .. } .. }
 */
#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

static bool
is_parallel(const PhaseView *phase, const Let *loop)
{
    bool found = false;
    for (int k = 0; k < phase->nest.n; k++) {
        found |= phase->nest.parallel[k] == loop;
    }
    return found;
}

/* The sums that an array has room for; 0: the loop is no such one. */
static int
columns_of(Cx *cx, const Let *loop)
{
    const Block *body = loop->body;
    const Let *sum = loop->op == OP_for && body->n > 1 ? body->lets[0] : NULL;
    if (!sum || sum->op != OP_reduce || !let_has(sum, MARK_fused)) {
        return 0;
    }
    int most = MICRO_ROW_BYTES / dtype_info[sum->res[0]->type->dtype].bytes;
    bool plain = dim_range(cx, loop_extent(loop)).hi <= most &&
                 dim_range(cx, loop_extent(sum)).hi <= CONTRACTION_CHAIN &&
                 !dim_uses(cx, loop_extent(sum), loop_index(loop)) && !loop_carries(cx, loop);
    for (int k = 1; k < body->n; k++) {
        plain &= !loop_is(body->lets[k]) && !let_is_choice(body->lets[k]);
    }
    return plain ? most : 0;
}

/* Calls of microkernels too: those that the target has no function for are loops. */
static void
mark_loops(const PhaseView *phase, Let *let)
{
    Cx *cx = phase->fn->cx;
    bool choice = let_enter(cx, let);
    int columns = is_parallel(phase, let) ? 0 : columns_of(cx, let);
    if (columns && fuel_spend(cx)) {
        let_mark_with(cx, let, MARK_interchange, columns);
    }
    for (int k = 0; let->body && k < let->body->n; k++) {
        mark_loops(phase, let->body->lets[k]);
    }
    if (choice) {
        dim_forget(cx);
    }
}

static void
mark_phase(const PhaseView *phase, const void *arg)
{
    (void)arg;
    mark_loops(phase, phase->loop);
}

Fn *
rewrite_interchange(Fn *fn)
{
    return phases_visit(fn, mark_phase, NULL);
}
