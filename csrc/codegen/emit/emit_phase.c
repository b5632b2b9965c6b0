/* What is so of a phase for all targets: its buffers, its parallel loops, its cost.
 *
 * Requires: a top-level loop of a scheduled kernel.
 * How:      Parallel loops with nothing between them are one, whose iterations threads share.
 */
#include "codegen/loops/phase_use.h"
#include "emit.h"

/* ---- cost ---- */

typedef struct {
    Cx *cx;
    Dim d;
} Bare;

static void
drop_index(void *arg, Dim name)
{
    Bare *s = arg;
    if (dim_extent(s->cx, name) != DIM_NONE) {
        s->d = dim_replace(s->cx, s->d, name, dim_int(s->cx, 0));
    }
}

/* How many there are in the first iteration of the loops around; a loop may have less than none. */
static Dim
without_indices(Cx *cx, Dim d)
{
    Bare s = {cx, d};
    dim_names(cx, d, drop_index, &s);
    return dim_max(cx, s.d, dim_int(cx, 0));
}

/* The cost of adding an element's value to a reduction.  ends_cost: that of joining its lanes. */
static int64_t
combine_cost(const Let *let)
{
    return let->op == OP_reduce ? op_info[op_info[let_op(let)].combine].cost : 0;
}

static int64_t
ends_cost(const Let *let)
{
    return let_has(let, MARK_lanes) ? DLC_LANES * combine_cost(let) : 0;
}

static Dim
block_work(Cx *cx, const Block *blk)
{
    int64_t own = 0;
    Dim work = dim_int(cx, 0);
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (loop_is(let) && let_has(let, MARK_fused)) {
            Dim terms = without_indices(cx, loop_extent(let));
            work = dim_add(cx, work, dim_div(cx, terms, dim_int(cx, COST_FUSED)));
        } else if (loop_is(let)) {
            Dim each = dim_add(cx, block_work(cx, let->body), dim_int(cx, combine_cost(let)));
            own += COST_LOOP + ends_cost(let);
            work = dim_add(cx, work, dim_mul(cx, without_indices(cx, loop_extent(let)), each));
        } else if (let_is_choice(let)) {
            Dim share = without_indices(cx, choice_share(cx, let));
            work = dim_add(cx, work, dim_mul(cx, share, block_work(cx, let->body)));
        } else {
            own += op_info[let->op].kind == KIND_MAP ? op_info[let->op].cost : COST_LOAD;
        }
    }
    return dim_add(cx, work, dim_int(cx, own));
}

/* ---- the parallel loop ---- */

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
    e->ncollapsed = phase_parallel(loop, e->collapsed);
    for (int k = 0; k < e->ncollapsed; k++) {
        e->counts[k] = parallel_count(e->cx, e->collapsed[k], &each);
        together = dim_mul(e->cx, together, each);
    }
    if (e->ncollapsed) {
        e->phase->work = dim_mul(e->cx, block_work(e->cx, e->collapsed[e->ncollapsed - 1]->body),
                                 together);
    } else {
        e->phase->work = dim_mul(e->cx, without_indices(e->cx, loop_extent(loop)),
                                 block_work(e->cx, loop->body));
    }
    e->phase->extent = dim_int(e->cx, 1);
    for (int k = 0; k < e->ncollapsed; k++) {
        e->phase->extent = dim_mul(e->cx, e->phase->extent, e->counts[k]);
    }
}

Emit
phase_interface(const Fn *fn, const Let *loop, Phase *phase)
{
    Cx *cx = fn->cx;
    const Facts *facts = facts_of_phase(fn, loop);
    PhaseUse use = phase_use(fn, loop);
    phase->buffers = use.buffers;
    phase->nbuffers = use.nbuffers;
    Emit e = {.cx = cx, .fn = fn, .facts = facts, .phase = phase, .loop = loop, .use = use};
    e.scratch = dim_int(cx, 0);
    find_collapsed(&e, loop);
    return e;
}
