/* Products of targets that are read: calls of microkernels as loops, and loop interchange.
 *
 * What:     inline_c and inline_hls take the marks `pack` and `micro` from loops that the target
 *           has no function for, so that they are written as they are.  interchange marks loops over columns `interchange` that begin with a short sum of products: the
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

static void
mark_loops(const PhaseView *phase, Let *let)
{
    Cx *cx = phase->fn->cx;
    bool choice = let_enter(cx, let);
    int columns = is_parallel(phase, let) ? 0 : columns_of(cx, let);
    if (columns && fuel_spend(cx)) {
        let_mark_with(cx, let, MARK_interchange, columns);
    }
    for (int k = 0; let->body && !loop_is_call(let) && k < let->body->n; k++) {
        mark_loops(phase, let->body->lets[k]);
    }
    if (choice) {
        dim_forget(cx);
    }
}

/* ---- calls of microkernels that are loops ---- */

/* Are all operands of one of these dtypes? */
static bool
reads_only(const Let *let, const unsigned dtypes)
{
    bool only = let->op != OP_load || (dtypes >> let->res[0]->type->dtype & 1);
    for (int k = 0; let->body && k < let->body->n; k++) {
        only &= reads_only(let->body->lets[k], dtypes);
    }
    return only;
}

static void
inline_calls(Let *let, const unsigned dtypes)
{
    if (loop_is_call(let) && !reads_only(let, dtypes)) {
        let_mark(let, MARK_pack, false);
        let_mark(let, MARK_micro, false);
    }
    for (int k = 0; let->body && k < let->body->n; k++) {
        inline_calls(let->body->lets[k], dtypes);
    }
}

/* arg: the dtypes that the target has functions for, a bit for each. */
static void
inline_phase(const PhaseView *phase, const void *arg)
{
    const unsigned *dtypes = arg;
    inline_calls(phase->loop, *dtypes);
}

/* It is no choice, and takes no fuel: the target has no other form. */
Fn *
rewrite_inline_c(Fn *fn)
{
    const unsigned dtypes = 1u << DT_f32 | 1u << DT_f64;
    return phases_visit(fn, inline_phase, &dtypes);
}

Fn *
rewrite_inline_hls(Fn *fn)
{
    const unsigned none = 0;
    return phases_visit(fn, inline_phase, &none);
}

/* ---- interchange ---- */

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
