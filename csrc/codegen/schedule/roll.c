/* What a compiler is told of single loops: which it must not unroll, and which it pipelines.
 *
 * What:     roll marks vector loops `rolled` that have few iterations and a `where` that chooses
 *           alike in all of them.  pipeline_hls marks loops `pipelined` that no other loop runs in:
 *           if they are marked for vectors, are in such a loop or have such an order, their
 *           operations are worth hardware of their own.
 * Requires: a scheduled function; for pipeline_hls, in which loops are interchanged already.
 * Ensures:  nothing but speed, if the C compiler is right (V41, V56).
 * How:      gcc may unroll a short loop and make a vector loop of the one around it.  gcc 12 then
 *           reads what a `where` chooses of several iterations of that by the condition of the
 *           first; so such a loop stays one.
 * Example:  for j in 8 vector rolled { let y: f32 = where c, a, b .. }, with c from outside
 */
#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

/* Is there a `where` in it, not deeper, that chooses alike in all iterations? */
static bool
has_outer_choice(const Block *blk)
{
    bool outer = false;
    for (int k = 0; k < blk->n && !outer; k++) {
        const Let *let = blk->lets[k], *of = let->op == OP_where ? let->args[0]->def : NULL;
        outer = of && of->parent != blk;
    }
    return outer;
}

static bool
mark_loop(const PhaseView *phase, Let *loop)
{
    Cx *cx = phase->fn->cx;
    int64_t extent;
    if (loop->op == OP_for && let_has(loop, MARK_vector) && loop_count(loop->body) == 0 &&
        dim_is_int(cx, loop_extent(loop), &extent) && extent <= DLC_UNROLLED &&
        has_outer_choice(loop->body) && fuel_spend(cx)) {
        let_mark(loop, MARK_rolled, true);
    }
    return true;
}

Fn *
rewrite_roll(Fn *fn)
{
    return loops_visit(fn, mark_loop);
}

/* ---- circuits ---- */

static bool
is_loop_in(const void *loop, const Let *let)
{
    return let != loop && loop_is(let);
}

/* Loops of a product too, which other targets leave to a microkernel. */
static void
pipeline_loop(void *cx, Let *loop)
{
    static const Marks alone[] = {MARK_vector, MARK_lanes, MARK_fused};
    bool marked = loop_is(loop) && loop_vector_around(loop);
    for (int k = 0; k < 3 && loop_is(loop); k++) {
        marked |= let_has(loop, alone[k]);
    }
    if (marked && !let_any(loop, is_loop_in, loop) && fuel_spend(cx)) {
        let_mark(loop, MARK_pipelined, true);
    }
}

Fn *
rewrite_pipeline_hls(Fn *fn)
{
    fn_each_let(fn, pipeline_loop, fn->cx);
    return fn;
}
