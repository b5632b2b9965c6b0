/* Two rows at a time: what one waits for is done while the other goes on.
 *
 * What:     the iterations of a loop around vector reductions and other loops, two by two.
 * Requires: a loop marked jam (schedule/jam.c).
 * Ensures:  each row's operations in the order they have alone.
 * How:      what stands in the row is put twice, the second time under names of its own; the steps
 *           of joint reductions in one loop, others one after the other.  An odd row goes alone.
 * Example:  layer norm:  for (; lo + 2 <= hi; lo += 2) {
 *                            const int64_t i0 = lo;
 *                            const int64_t i0_next = (lo + 1);
 *                            for (..) { for k { sum_lane[k] += x[N * i0 + i1]; }
 *                                       for k { sum_next_lane[k] += x[N * i0_next + i1]; } }
 */
#include <string.h>

#include "emit_cc.h"

/* The part of the loop's condition that says how many elements rows may have. */
static const char *
and_small(Emit *e, const Let *rows)
{
    Nest nest = nest_of(e);
    Dim all = jam_elements(&nest, rows), row = jam_row(e->cx, rows);
    int elements = (int)let_mark_value(rows, MARK_jam_elements),
        most = (int)let_mark_value(rows, MARK_jam_row);
    if (dim_range(e->cx, all).hi <= elements || dim_range(e->cx, row).hi <= most) {
        return "";
    }
    const char *small = cx_format(e->cx, "%s <= %d", dim_c(e, all), elements);
    return dim_range(e->cx, row).lo > most
               ? cx_format(e->cx, " && %s", small)
               : cx_format(e->cx, " && (%s || %s <= %d)", small, dim_c(e, row), most);
}

/* ---- their text ---- */

/* Is it one of the loops that run two iterations at a time? */
static bool
in_jam(const Emit *e, const Let *rows, const Let *loop)
{
    return loop == rows || (collapsed_at(e, rows) >= 0 && collapsed_at(e, loop) >= 0);
}

/* What such a loop binds, in the second copy. */
static void
rename_loop(Emit *e, const Let *loop, Names *names)
{
    Dim index = loop_index(loop);
    const char **i = map_at(e->cx, &names->indices, &index, 1, sizeof *i);
    *i = cx_format(e->cx, "%s_next", index_c(e, index));
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        for (int j = 0; j < let->nres; j++) {
            names->values[let->res[j]->id] = cx_format(e->cx, "%s_next", name_c(e, let->res[j]));
        }
    }
}

/* The second row of a pair. */
static Jam
jam_of(Emit *e, const Let *rows, Names *second)
{
    size_t bytes = (size_t)e->fn->nvalues * sizeof *second->values;
    second->values = cx_alloc(e->cx, bytes);
    memcpy(second->values, e->names->values, bytes);
    rename_loop(e, rows, second);
    for (int k = 0; k < e->ncollapsed; k++) {
        if (e->collapsed[k] != rows && in_jam(e, rows, e->collapsed[k])) {
            rename_loop(e, e->collapsed[k], second);
        }
    }
    return (Jam){rows, {e->names, second}};
}

void
cc_copy(Emit *e, const Jam *jam, int k)
{
    e->names = jam->names[k];
}

static void
put_twice(Emit *e, const Jam *jam, const Let *let)
{
    for (int k = 0; k < 2; k++) {
        cc_copy(e, jam, k);
        if (let->op == OP_for) {
            put_scope(e);
            cc_loop(e, let, true);
            put_close(e);
        } else if (loop_is(let)) {
            cc_loop(e, let, true);
        } else {
            cc_let(e, let);
        }
    }
    cc_copy(e, jam, 0);
}

static void
put_jam(Emit *e, const Jam *jam, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (let->op == OP_for && in_jam(e, jam->rows, let)) {
            put_jam(e, jam, let->body);
        } else if (let_has(let, MARK_joint)) {
            cc_lanes_jam(e, let, jam);
        } else {
            put_twice(e, jam, let);
        }
    }
}

void
cc_jam_loop(Emit *e, const Let *rows)
{
    const char *i = index_c(e, loop_index(rows)), *extent = dim_c(e, loop_extent(rows));
    Names second = {0};
    put_scope(e);
    put(e, "int64_t %s = 0;", i);
    put_open(e, "for (; %s + 2 <= %s%s; %s += 2)", i, extent, and_small(e, rows), i);
    Jam jam = jam_of(e, rows, &second);
    put(e, "const int64_t %s_next = %s + 1;", i, i);
    put_jam(e, &jam, rows->body);
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
    Names second = {0};
    put_open(e, "for (; lo + 2 <= hi%s; lo += 2)", and_small(e, rows));
    Jam jam = jam_of(e, rows, &second);
    put_indices(e, "lo", "");
    cc_copy(e, &jam, 1);
    put_indices(e, "(lo + 1)", "next_");
    cc_copy(e, &jam, 0);
    put_jam(e, &jam, phase->body);
    put_close(e);
}
