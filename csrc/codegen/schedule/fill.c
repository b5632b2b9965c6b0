/* The rest of a row in lanes: which reductions run over lanes that have no element.
 *
 * What:     marks reductions in lanes `fill`, and those of their loads `masked` whose rest a
 *           compiler loads under a mask.
 * Requires: a scheduled function.
 * Ensures:  the order of prelude_reduce.h: a lane without an element gets the identity (V44).
 * How:      A row whose length is no multiple of the lanes ends in fewer elements than there are
 *           lanes.  Compilers make scalar instructions of that loop, so that ten exponentials take
 *           longer than the sixty-four before them, and they take the lanes through memory for it.
 *           So the elements that are left are copied to arrays, which are filled up with the first
 *           of them.  A choice between elements side by side and the first one becomes a load under
 *           a mask.  What the compiler would unroll is hidden from it.  Extremes of floats count as
 *           expensive: compilers make branches of them.
 * Why not:  cheap bodies whose loads are no loads under a mask: elements would be taken together
 *           one by one, or narrow ones converted.  Four or eight elements, if the compiler knows,
 *           are a vector of their own.
 * Example:  softmax: let s: f32 = reduce sum i in N lanes fill {
 *               let a: f32 = load x[i] masked  let e: f32 = exp a  ret e }
 *
 * For the portable target reductions in lanes are marked `terms`: the elements of all lanes are
 * computed in a loop of their own, of which any compiler makes vectors.  How long a block may be is
 * in the target's row.
 *
 * Loads of bfloat16 along such a reduction are marked `widened`: all lanes are loaded at once.  The
 * compiler loads and widens them in two halves else. */
#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

static bool
is_along(const Facts *facts, const Let *load, const Let *reduce)
{
    return load->op == OP_load &&
           dim_uses(facts->cx, facts_access(facts, load)->offset, loop_index(reduce));
}

/* Is a choice between an element of the load and the first one a load under a mask?  What is left
 * is one vector of the compiler's where it is a half or a quarter of the lanes; another number of
 * elements is added to lanes in memory, one by one, and the lanes are waited for. */
static bool
is_masked(const Facts *facts, const Let *load, const Let *reduce)
{
    int64_t extent = 0;
    bool known = dim_is_int(facts->cx, loop_extent(reduce), &extent);
    int64_t rest = extent % DLC_LANES;
    bool part = known && (rest == 0 || rest == DLC_LANES / 4 || rest == DLC_LANES / 2);
    return is_along(facts, load, reduce) && facts_access(facts, load)->bytes <= 8 && !part &&
           facts_row(facts, load, loop_index(reduce)) != DIM_NONE;
}

/* gcc unrolls a loop whose count it can compute, and that of the elements that are left would be
 * scalar code again: more than half of the lanes are not known to it. */
static bool
is_unrolled(const Facts *facts, const Let *reduce)
{
    int64_t extent = 0;
    return dim_is_int(facts->cx, loop_extent(reduce), &extent) &&
           extent % DLC_LANES > DLC_LANES / 2;
}

/* Does a body without expensive operations gain by it? */
static bool
loads_masked(const Facts *facts, const Let *reduce)
{
    int n = 0;
    for (int k = 0; k < reduce->body->n; k++) {
        const Let *load = reduce->body->lets[k];
        if (!is_along(facts, load, reduce)) {
            continue;
        }
        if (facts_access(facts, load)->bytes < 4 || !is_masked(facts, load, reduce)) {
            return false;
        }
        n++;
    }
    return n > 0;
}

static bool
is_extreme(const Let *reduce)
{
    Op op = let_op(reduce);
    Dtype dtype = reduce->body->rets[0]->type->dtype;
    return (op == OP_amax || op == OP_amin || op_info[op].rule == RULE_INDEX) &&
           dtype_info[dtype].class == CLASS_FLOAT;
}

/* Can the body run over lanes that have no element, and is that worth while? */
static bool
is_filled(const Facts *facts, const Let *reduce)
{
    return body_is_plain(reduce->body) &&
           (facts_loop(facts, reduce)->cost >= COST_EXPENSIVE || is_extreme(reduce) ||
            loads_masked(facts, reduce)) &&
           loop_stores_once(facts->cx, reduce);
}

static bool
mark_reduction(const PhaseView *phase, Let *loop)
{
    const Facts *facts = phase->facts;
    if (let_has(loop, MARK_lanes) && !let_has(loop, MARK_onehot) && is_filled(facts, loop) &&
        fuel_spend(facts->cx)) {
        let_mark(loop, MARK_fill, true);
        let_mark(loop, MARK_hidden, is_unrolled(facts, loop));
        for (int k = 0; k < loop->body->n; k++) {
            if (is_masked(facts, loop->body->lets[k], loop)) {
                let_mark(loop->body->lets[k], MARK_masked, true);
            }
        }
    }
    return !(loop->op == OP_for && let_has(loop, MARK_vector));
}

Fn *
rewrite_fill(Fn *fn)
{
    return loops_visit(fn, mark_reduction);
}

static bool
widen_loads(const PhaseView *phase, Let *reduce)
{
    const Facts *facts = phase->facts;
    bool lanes = let_has(reduce, MARK_lanes) && !let_has(reduce, MARK_onehot);
    for (int k = 0; lanes && k < reduce->body->n; k++) {
        Let *load = reduce->body->lets[k];
        if (load->op == OP_load && load->args[0]->type->dtype == DT_bf16 &&
            facts_row(facts, load, loop_index(reduce)) != DIM_NONE && fuel_spend(facts->cx)) {
            let_mark(load, MARK_widened, true);
        }
    }
    return true;
}

Fn *
rewrite_widen(Fn *fn)
{
    return loops_visit(fn, widen_loads);
}

/* Where it is long, an array of a block is as large as the whole stack of a small device. */
static bool
mark_terms(const PhaseView *phase, Let *reduce)
{
    Cx *cx = phase->facts->cx;
    int longest = target_of(phase->fn)->costs.terms;
    bool good = reduce->op == OP_reduce && !let_has(reduce, MARK_fused) &&
                !let_has(reduce, MARK_onehot) && op_info[let_op(reduce)].rule != RULE_INDEX &&
                body_is_plain(reduce->body) &&
                (reduce_block(reduce) <= longest ||
                 dim_range(cx, loop_extent(reduce)).hi <= longest);
    if (good && fuel_spend(cx)) {
        let_mark(reduce, MARK_terms, true);
    }
    return true;
}

Fn *
rewrite_terms(Fn *fn)
{
    return loops_visit(fn, mark_terms);
}
