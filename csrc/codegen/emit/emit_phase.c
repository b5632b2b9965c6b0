/* What is so of a phase for all targets: its buffers and its parallel loops.
 *
 * Requires: a top-level loop of a scheduled kernel.
 * How:      Parallel loops with nothing between them are one, whose iterations threads share.
 */
#include "codegen/loops/phase_use.h"
#include "emit.h"

/* The number of parallel iterations of a loop.  *each: the number of its own iterations in one. */
static Dim
parallel_count(Cx *cx, const Let *loop, Dim *each)
{
    Dim extent = loop_extent(loop), step = dim_int(cx, loop_step(loop));
    if (loop_step(loop) == 1) {
        *each = step;
        return extent;
    }
    *each = dim_min(cx, extent, step);
    return dim_div(cx, dim_add(cx, extent, dim_int(cx, loop_step(loop) - 1)), step);
}

static void
find_collapsed(Emit *e, const Let *loop)
{
    Dim each, together = dim_int(e->cx, 1);
    e->phase->in_order = phase_in_order(&e->use, loop);
    e->ncollapsed = e->target->arrays ? 0 : phase_launched(&e->use, loop, e->collapsed);
    e->phase->extent = dim_int(e->cx, 1);
    for (int k = 0; k < e->ncollapsed; k++) {
        e->counts[k] = parallel_count(e->cx, e->collapsed[k], &each);
        together = dim_mul(e->cx, together, each);
        e->phase->extent = dim_mul(e->cx, e->phase->extent, e->counts[k]);
    }
    e->phase->work = e->ncollapsed
                         ? dim_mul(e->cx, work_of_iteration(e->cx, e->collapsed[e->ncollapsed - 1]),
                                   together)
                         : work_of_loop(e->cx, loop);
}

Emit
phase_interface(Target target, const Fn *fn, const Let *loop, Phase *phase)
{
    Cx *cx = fn->cx;
    const Facts *facts = facts_of_phase(fn, loop);
    PhaseUse use = phase_use(fn, loop);
    phase->buffers = use.buffers;
    phase->nbuffers = use.nbuffers;
    Emit e = {.cx = cx, .fn = fn, .facts = facts, .phase = phase, .loop = loop, .use = use};
    e.target = &target_info[target];
    e.scratch = dim_int(cx, 0);
    find_collapsed(&e, loop);
    return e;
}
