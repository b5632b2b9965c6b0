/* Vector primitives that compute two operations: which lets are computed with what uses them.
 *
 * What:     marks loads, sizes and operations `merged` that the vector primitive of their only user
 *           reads or computes too.
 * Requires: a scheduled function.
 * Ensures:  every bit: nothing between the two writes or has loops (V49).
 * How:      loops/pairs.c says what one primitive can do.  All of a block is one change.  An
 *           operation of values that are one for all of a tile is computed by itself, marked or
 *           not, as only that is known where the primitives are called.
 * Why not:  more than two operations in one primitive: each more multiplies the primitives.
 * Example:  let u: f32 = sub x0, m merged  let v: f32 = mul u, r
 */
#include "codegen/loops/pairs.h"
#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

/* What the primitives can do in the kernel at hand. */
typedef struct {
    Cx *cx;
    const Let *kernel;
    const Pairs *pairs;
} Merging;

static void
mark_block(const Merging *m, const Block *blk)
{
    bool asked = false, may = true;
    for (int k = 0; k < blk->n && may; k++) {
        Let *let = blk->lets[k];
        if (let_is_choice(let)) {
            mark_block(m, let->body);
        } else if (let->nres && marks_of(let->op) & MARK_merged && pairs_merge(m->pairs, let)) {
            may = asked || fuel_spend(m->cx);
            asked = true;
            if (may) {
                let_take_marks(m->cx, let);
                let_mark(let, MARK_merged, true);
            }
        }
    }
}

static bool
mark_loop(Let *loop, void *merging)
{
    mark_block(merging, loop->body);
    return true;
}

static void
mark_phase(const PhaseView *phase, const void *arg)
{
    Merging *m = *(Merging *const *)arg;
    if (m->kernel != phase->facts->kernel) {
        m->kernel = phase->facts->kernel;
        m->pairs = pairs_possible(phase->fn->cx, phase->fn->nvalues, m->kernel->body);
    }
    phase_visit_loops(phase, mark_loop, m);
}

Fn *
rewrite_merge(Fn *fn)
{
    Merging *m = &(Merging){.cx = fn->cx};
    return phases_visit(fn, mark_phase, &m);
}
