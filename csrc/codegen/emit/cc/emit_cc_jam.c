/* Two rows at a time: what one waits for is done while the other goes on.
 *
 * What:     the iterations of a loop around vector reductions and other loops, two by two.
 * Requires: independent iterations: the loop is parallel, or in one that is.
 * Ensures:  each row's operations in the order they have alone.
 * How:      what stands in the row is put twice, the second time under names of its own (name_c,
 *           index_c); the steps of a reduction whose body is cheap, which each wait for the one
 *           before, are put in one loop; other loops one after the other.  An odd row goes the
 *           usual way. Rows that come from memory go one by one, as two streams are slower than
 *           one; but not where a row is so short that most of its time is the latency of its few
 *           steps and what combines the lanes.
 * Why not:  more rows: four are as fast as two, and as much text again.  A reduction alone: the
 *           processor finds the next row by itself where nothing waits for the result.
 * Example:  layer norm:  for (; lo + 2 <= hi; lo += 2) {
 *                            const int64_t i0 = lo;
 *                            const int64_t i0_next = (lo + 1);
 *                            for (..) { for k { sum_lane[k] += x[N * i0 + i1]; }
 *                                       for k { sum_next_lane[k] += x[N * i0_next + i1]; } }
 */
#include "emit_cc.h"

/* ---- which loops ---- */

/* Is the extent the same of both rows? */
static bool
is_even(Emit *e, const Let *loop, const Let *rows)
{
    bool even = !dim_uses(e->cx, loop_extent(loop), loop_index(rows));
    for (int k = 0; k < e->ncollapsed; k++) {
        even = even && !dim_uses(e->cx, loop_extent(loop), loop_index(e->collapsed[k]));
    }
    return even;
}

static bool
is_joint(Emit *e, const Let *loop, const Let *rows)
{
    return loop->op == OP_reduce && cc_is_latency_bound(loop) && is_even(e, loop, rows);
}

/* As many as the longest reduction has that is put in one loop. */
static Dim
row_of(Emit *e, const Let *rows)
{
    Dim row = dim_int(e->cx, 1);
    for (int k = 0; k < rows->body->n; k++) {
        const Let *loop = rows->body->lets[k];
        row = loop_is(loop) && is_joint(e, loop, rows) ? dim_max(e->cx, row, loop_extent(loop))
                                                       : row;
    }
    return row;
}

/* Of all rows together. */
static Dim
elements_of(Emit *e, const Let *rows)
{
    return dim_mul(e->cx, iterations_of(e, rows), row_of(e, rows));
}

/* The bytes of the widest element that the reductions of a row load. */
static int
width_of(Emit *e, const Let *rows)
{
    int width = 1;
    for (int k = 0; k < rows->body->n; k++) {
        const Let *loop = rows->body->lets[k];
        for (int j = 0; loop_is(loop) && is_joint(e, loop, rows) && j < loop->body->n; j++) {
            const Let *load = loop->body->lets[j];
            int bytes = load->op == OP_load ? dtype_info[load->args[0]->type->dtype].bytes : 1;
            width = bytes > width ? bytes : width;
        }
    }
    return width;
}

static int
short_row(Emit *e, const Let *rows)
{
    return DLC_JAM_ROW / width_of(e, rows);
}

bool
cc_is_short(Emit *e, const Let *rows)
{
    return dim_range(e->cx, row_of(e, rows)).hi <= short_row(e, rows);
}

bool
cc_is_jam(Emit *e, const Let *rows)
{
    bool other = cc_of(e)->jam || e->facts->updates || e->tile || e->rows ||
                 cc_of(e)->recurrences || loop_is_recurrence(rows) || let_has(rows, MARK_vector) ||
                 let_has(rows, MARK_tile) || let_has(rows, MARK_recurrences);
    if (other || loop_count(rows->body) < 2 || !facts_loop(e->facts, rows)->is_plain ||
        dim_is(e->cx, loop_extent(rows), 1)) {
        return false;
    }
    for (int k = 0; k < e->ncollapsed; k++) {
        if (!facts_loop(e->facts, e->collapsed[k])->is_plain) {
            return false;
        }
    }
    bool joint = false;
    for (int k = 0; k < rows->body->n; k++) {
        joint |= loop_is(rows->body->lets[k]) && is_joint(e, rows->body->lets[k], rows);
    }
    return joint && (dim_range(e->cx, elements_of(e, rows)).lo <= DLC_CORE ||
                     dim_range(e->cx, row_of(e, rows)).lo <= short_row(e, rows));
}

/* What stands in the condition of the loop of pairs. */
static const char *
are_near(Emit *e, const Let *rows)
{
    Dim all = elements_of(e, rows), row = row_of(e, rows);
    if (dim_range(e->cx, all).hi <= DLC_CORE || cc_is_short(e, rows)) {
        return "";
    }
    const char *near = cx_format(e->cx, "%s <= %d", dim_c(e, all), DLC_CORE);
    return dim_range(e->cx, row).lo > short_row(e, rows)
               ? cx_format(e->cx, " && %s", near)
               : cx_format(e->cx, " && (%s || %s <= %d)", near, dim_c(e, row), short_row(e, rows));
}

/* ---- their text ---- */

/* Is it one of the loops that run two iterations at a time? */
static bool
in_jam(const Emit *e, const Let *loop)
{
    const Let *jam = cc_of(e)->jam;
    return jam && (loop == jam || (collapsed_at(e, jam) >= 0 && collapsed_at(e, loop) >= 0));
}

bool
cc_jam_is_second(const Emit *e, const Let *loop, Dim index)
{
    bool found = loop ? in_jam(e, loop) : cc_of(e)->jam && loop_index(cc_of(e)->jam) == index;
    for (int k = 0; k < e->ncollapsed && !loop; k++) {
        found |= loop_index(e->collapsed[k]) == index && in_jam(e, e->collapsed[k]);
    }
    return cc_of(e)->second && found;
}

static void
put_twice(Emit *e, const Let *let)
{
    for (int k = 0; k < 2; k++) {
        cc_of(e)->second = k > 0;
        if (let->op == OP_for) {
            put_scope(e);
            cc_loop(e, let);
            put_close(e);
        } else if (loop_is(let)) {
            cc_loop(e, let);
        } else {
            cc_let(e, let);
        }
    }
    cc_of(e)->second = false;
}

static void
put_jam(Emit *e, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (let->op == OP_for && in_jam(e, let)) {
            put_jam(e, let->body);
        } else if (loop_is(let) && is_joint(e, let, cc_of(e)->jam)) {
            cc_lanes_jam(e, let);
        } else {
            put_twice(e, let);
        }
    }
}

void
cc_jam_loop(Emit *e, const Let *rows)
{
    const char *i = index_c(e, loop_index(rows)), *extent = dim_c(e, loop_extent(rows));
    put_scope(e);
    put(e, "int64_t %s = 0;", i);
    put_open(e, "for (; %s + 2 <= %s%s; %s += 2)", i, extent, are_near(e, rows), i);
    cc_of(e)->jam = rows;
    put(e, "const int64_t %s_next = %s + 1;", i, i);
    put_jam(e, rows->body);
    cc_of(e)->jam = NULL;
    put_close(e);
    put_open(e, "for (; %s < %s; %s++)", i, extent, i);
    cc_block(e, rows->body);
    put_close(e);
    put_close(e);
}

void
cc_jam_phase(Emit *e, const Let *phase)
{
    const Let *rows = e->collapsed[e->ncollapsed - 1];
    put_open(e, "for (; lo + 2 <= hi%s; lo += 2)", are_near(e, rows));
    cc_of(e)->jam = rows;
    put_indices(e, "lo");
    cc_of(e)->second = true;
    put_indices(e, "(lo + 1)");
    cc_of(e)->second = false;
    put_jam(e, phase->body);
    cc_of(e)->jam = NULL;
    put_close(e);
}
