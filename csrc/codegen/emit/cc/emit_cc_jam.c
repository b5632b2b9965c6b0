/* Two rows at a time: what one waits for is done while the other goes on.
 *
 * What:     the iterations of a loop around vector reductions and other loops, two by two.
 * Requires: a loop marked jam (schedule/jam.c).
 * Ensures:  each row's operations in the order they have alone.
 * How:      what stands in the row is put twice, the second time under names of its own (name_c,
 *           index_c); the steps of a reduction whose body is cheap, which each wait for the one
 *           before, are put in one loop; other loops one after the other.  An odd row goes the
 *           usual way.
 * Example:  layer norm:  for (; lo + 2 <= hi; lo += 2) {
 *                            const int64_t i0 = lo;
 *                            const int64_t i0_next = (lo + 1);
 *                            for (..) { for k { sum_lane[k] += x[N * i0 + i1]; }
 *                                       for k { sum_next_lane[k] += x[N * i0_next + i1]; } }
 */
#include "emit_cc.h"

static bool
is_joint(const Emit *e, const Let *loop, const Let *rows)
{
    Nest nest = nest_of(e);
    return jam_is_joint(&nest, loop, rows);
}

bool
cc_is_short(Emit *e, const Let *rows)
{
    Nest nest = nest_of(e);
    return dim_range(e->cx, jam_row(&nest, rows)).hi <= let_mark_value(rows, MARK_jam_row);
}

bool
cc_is_alone(const Emit *e)
{
    return !cc_of(e)->jam;
}

/* What stands in the condition of the loop of pairs. */
static const char *
are_near(Emit *e, const Let *rows)
{
    Nest nest = nest_of(e);
    Dim all = jam_elements(&nest, rows), row = jam_row(&nest, rows);
    int elements = (int)let_mark_value(rows, MARK_jam_elements),
        most = (int)let_mark_value(rows, MARK_jam_row);
    if (dim_range(e->cx, all).hi <= elements || cc_is_short(e, rows)) {
        return "";
    }
    const char *near = cx_format(e->cx, "%s <= %d", dim_c(e, all), elements);
    return dim_range(e->cx, row).lo > most
               ? cx_format(e->cx, " && %s", near)
               : cx_format(e->cx, " && (%s || %s <= %d)", near, dim_c(e, row), most);
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
