/* Unroll and jam: rows that run two at a time, and recurrences.
 *
 * What:     marks loops around reductions and other loops `jam`: what one row waits for is done
 *           while the other goes on.  So it marks loops marked recurrences, of which some run in
 *           one loop.  `alone` marks what rows do only when they run alone.
 * Requires: a scheduled function; for alone, the marks of prefetches and non-temporal stores.  It
 *           runs before `version`, whose copies of a loop are one function of the C, so they have
 *           the same marks.
 * Ensures:  each row's operations in the order that they have alone (V35).
 * How:      Rows that come from memory go one by one, as two streams are slower than one; but not
 *           where a row is so short that most of its time is the latency of its few steps and what
 *           combines the lanes.  So the marks give the largest number of elements of all rows
 *           together, and the largest row that is joined whatever that number is.
 *           So two rows that run together are in a cache or are short.  In both cases non-temporal
 *           stores would be slower, and in the first one each prefetch is one more load.
 *           In a recurrence an addition waits four cycles for the one before it, and the processor
 *           has room for others meanwhile.
 * Why not:  more rows: four are as fast as two, and as much text again.  A reduction alone: the
 *           processor finds the next row by itself where nothing waits for the result.
 *           Of a reduction that is not cheap the steps wait for nothing, so it is not joint: it
 *           runs for one row after the other.
 * Example:  layer norm: for i0 in B parallel jam=2 jam_elements=262144 jam_row=256 {
 *               let s: f32 = reduce sum i1 in N lanes joint { .. } .. }
 */
#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

/* Do the steps of the reduction wait for each other, and are there as many in each row? */
static bool
is_joint(Cx *cx, const Let *loop)
{
    return loop->op == OP_reduce && loop_is_latency_bound(loop) && !let_has(loop, MARK_onehot) &&
           op_info[let_op(loop)].rule != RULE_INDEX && !dim_has_index(cx, loop_extent(loop));
}

/* Marks the joint reductions of the rows, or takes these marks away; returns the bytes of the
 * widest element that they load, or 0: there are none. */
static int
mark_joint(Cx *cx, const Let *rows, bool joint)
{
    int width = 0;
    for (int k = 0; k < rows->body->n; k++) {
        Let *loop = rows->body->lets[k];
        if (!is_joint(cx, loop)) {
            continue;
        }
        let_mark(loop, MARK_joint, joint);
        width = width ? width : 1;
        for (int j = 0; j < loop->body->n; j++) {
            const Let *load = loop->body->lets[j];
            int bytes = load->op == OP_load ? dtype_info[load->args[0]->type->dtype].bytes : 1;
            width = bytes > width ? bytes : width;
        }
    }
    return width;
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
    return true;
}

static void
mark_rows(const PhaseView *phase, Let *rows)
{
    Cx *cx = phase->nest.cx;
    bool may = may_jam(phase, rows) && !loop_carries(cx, rows);
    int width = may ? mark_joint(cx, rows, true) : 0;
    if (!width) {
        return;
    }
    int64_t elements = dim_range(cx, jam_elements(&phase->nest, rows)).lo,
            row = dim_range(cx, jam_row(cx, rows)).lo;
    if ((elements <= DLC_CORE || row <= DLC_JAM_ROW / width) && fuel_spend(cx)) {
        let_mark_with(cx, rows, MARK_jam, 2);
        let_mark_with(cx, rows, MARK_jam_elements, DLC_CORE);
        let_mark_with(cx, rows, MARK_jam_row, DLC_JAM_ROW / width);
    } else {
        mark_joint(cx, rows, false);
    }
}

/* ---- what only rows that run alone do ---- */

static bool
does_prefetch(const Let *let)
{
    return let_has(let, MARK_prefetch) || let_has(let, MARK_prefetch_rows);
}

/* How many lets of the rows those are; `on`: marks them too. */
static int
mark_alone(const Let *rows, bool are_short, bool on)
{
    int found = 0;
    for (int k = 0; k < rows->body->n; k++) {
        Let *let = rows->body->lets[k];
        bool prefetches = let->op == OP_load && let_has(rows, MARK_lanes) && does_prefetch(let);
        if ((prefetches && !are_short) || (let->op == OP_for && let_has(let, MARK_streams))) {
            let_mark(let, MARK_alone, on);
            found++;
        } else if (loop_is(let) && !let_has(let, MARK_jam)) {
            found += mark_alone(let, are_short, on);
        }
    }
    return found;
}

static void
mark_rows_alone(const PhaseView *phase, Let *rows)
{
    Cx *cx = phase->nest.cx;
    if (let_has(rows, MARK_jam)) {
        bool are_short = dim_range(cx, jam_row(cx, rows)).hi <= let_mark_value(rows, MARK_jam_row);
        mark_alone(rows, are_short, mark_alone(rows, are_short, false) && fuel_spend(cx));
    }
}

Fn *
rewrite_alone(Fn *fn)
{
    return phases_visit_rows(fn, mark_rows_alone);
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
