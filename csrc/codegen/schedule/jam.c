/* Unroll and jam: rows that run two at a time, and recurrences.
 *
 * What:     marks loops around reductions and other loops `jam`: what one row waits for is done
 *           while the other goes on.  So it marks loops marked recurrences, of which some run in
 *           one loop.
 * Requires: a scheduled function.
 * Ensures:  each row's operations in the order that they have alone (V35).
 * How:      Rows that come from memory go one by one, as two streams are slower than one; but not
 *           where a row is so short that most of its time is the latency of its few steps and what
 *           combines the lanes.  So the marks give the largest number of elements of all rows
 *           together, and the largest row that is joined whatever that number is.
 *           In a recurrence an addition waits four cycles for the one before it, and the processor
 *           has room for others meanwhile.
 * Why not:  more rows: four are as fast as two, and as much text again.  A reduction alone: the
 *           processor finds the next row by itself where nothing waits for the result.
 * Example:  layer norm: for i0 in B parallel jam=2 jam_elements=262144 jam_row=256 { .. }
 */
#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

/* The elements of a row that is joined whatever memory there is, by the widest element that its
 * reductions load. */
static int
short_row(const PhaseView *phase, const Let *rows)
{
    int width = 1;
    for (int k = 0; k < rows->body->n; k++) {
        const Let *loop = rows->body->lets[k];
        for (int j = 0;
             loop_is(loop) && jam_is_joint(&phase->nest, loop, rows) && j < loop->body->n; j++) {
            const Let *load = loop->body->lets[j];
            int bytes = load->op == OP_load ? dtype_info[load->args[0]->type->dtype].bytes : 1;
            width = bytes > width ? bytes : width;
        }
    }
    return DLC_JAM_ROW / width;
}

/* Does an iteration continue the one before it? */
static bool
is_ordered(const Let *rows)
{
    bool ordered = false;
    for (int k = 0; k < rows->body->n; k++) {
        const Let *let = rows->body->lets[k];
        ordered |= let_is_map(let) && loop_carried(let) != NULL;
    }
    return ordered;
}

static bool
may_jam(const PhaseView *phase, const Let *rows)
{
    if (is_ordered(rows) || loop_count(rows->body) < 2 ||
        !facts_loop(phase->facts, rows)->is_plain || dim_is(phase->nest.cx, loop_extent(rows), 1)) {
        return false;
    }
    for (int k = 0; k < phase->nest.n; k++) {
        if (!facts_loop(phase->facts, phase->nest.parallel[k])->is_plain) {
            return false;
        }
    }
    bool joint = false;
    for (int k = 0; k < rows->body->n; k++) {
        const Let *loop = rows->body->lets[k];
        joint |= loop_is(loop) && jam_is_joint(&phase->nest, loop, rows);
    }
    return joint;
}

static void
mark_rows(const PhaseView *phase, Let *rows)
{
    Cx *cx = phase->nest.cx;
    if (may_jam(phase, rows) &&
        (dim_range(cx, jam_elements(&phase->nest, rows)).lo <= DLC_CORE ||
         dim_range(cx, jam_row(&phase->nest, rows)).lo <= short_row(phase, rows)) &&
        fuel_spend(cx)) {
        let_mark_with(cx, rows, MARK_jam, 2);
        let_mark_with(cx, rows, MARK_jam_elements, DLC_CORE);
        let_mark_with(cx, rows, MARK_jam_row, short_row(phase, rows));
    }
}

/* ---- recurrences ---- */

static bool
mark_recurrences(const PhaseView *phase, Let *rows)
{
    const Facts *facts = phase->facts;
    const Let *loop = let_has(rows, MARK_recurrences) ? loop_inner(rows) : NULL;
    bool several = dim_range(facts->cx, loop_extent(rows)).hi > 1;
    if (loop && facts_loop(facts, rows)->is_plain && facts_loop(facts, loop)->is_plain &&
        (several || let_has(loop, MARK_distribute)) && fuel_spend(facts->cx)) {
        let_mark_with(facts->cx, rows, MARK_jam, DLC_RECURRENCE_LOOPS);
    }
    return !loop;
}

Fn *
rewrite_jam(Fn *fn)
{
    return loops_visit(phases_visit_rows(fn, mark_rows), mark_recurrences);
}
