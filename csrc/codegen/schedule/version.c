/* Rows of a symbolic length: phases with versions for the lengths that are frequent.
 *
 * What:     marks what gives the length `versions`: a load in a tile of columns whose elements are
 *           a short row apart, or a reduction marked `short`.  One for each phase.
 * Requires: a scheduled function, in which steps of reductions over columns are marked.
 * Ensures:  nothing but speed: the same operations in the same order (V41).
 * How:      Across rows an element of each row is a gather; where the distance is a number the
 *           compiler loads vectors and shuffles them.  Frequent are coordinates, quaternions and
 *           boxes, up to half of a cache line; and whole lanes.  Of the latter the short ones are
 *           those of another phase.  Of a row in lanes the loop, the rest and
 *           what combines blocks go away.
 * Why not:  versions of phases without such rows: across short rows each takes the C compiler as
 *           long as the first; of a row in lanes a quarter of that.
 * Example:  let s: f32 = reduce sum j in N lanes short versions=64 { .. }
 */
#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

typedef struct {
    const Facts *facts;
    Let *across, *along; /* the last such load, the first such reduction */
} Found;

/* The loads of a reduction marked jam in a tile of columns. */
static void
find_loads(Found *found, const Let *reduce, const Let *tile)
{
    for (int k = 0; k < reduce->body->n; k++) {
        Let *load = reduce->body->lets[k];
        const Step *step = load->op == OP_load ? facts_step(found->facts, load, loop_index(tile))
                                               : NULL;
        if (step && dim_is_name(found->facts->cx, step->step) &&
            dim_range(found->facts->cx, step->step).hi <= DLC_SHORT_ROW) {
            found->across = load;
        }
    }
}

static bool
find_length(Let *loop, void *arg)
{
    Found *found = arg;
    const Let *tile = loop_vector_around(loop);
    if (loop->op == OP_reduce && tile && let_has(loop, MARK_jam)) {
        find_loads(found, loop, tile);
    }
    if (!found->along && let_has(loop, MARK_short) && !let_has(loop, MARK_onehot) &&
        dim_is_name(found->facts->cx, loop_extent(loop)) && !one_block(found->facts->cx, loop)) {
        found->along = loop;
    }
    return true;
}

static void
mark_phase(const PhaseView *phase, const void *arg)
{
    (void)arg;
    Cx *cx = phase->fn->cx;
    Found found = {.facts = phase->facts};
    if (let_has(phase->loop, MARK_near)) {
        return;
    }
    phase_visit_loops(phase, find_length, &found);
    Let *marked = found.across ? found.across : found.along;
    if (marked && !dim_has_index(cx, facts_length(phase->facts, marked)) && fuel_spend(cx)) {
        bool is_long = dim_range(cx, facts_length(phase->facts, marked)).hi > DLC_SHORT_ROW;
        let_mark_with(cx, marked, MARK_versions, is_long ? 64 : 8);
    }
}

Fn *
rewrite_version(Fn *fn)
{
    return phases_visit(fn, mark_phase, NULL);
}
