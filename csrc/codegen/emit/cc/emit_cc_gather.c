/* Rows that are gathered, prefetched, for an optimising C compiler.
 *
 * What:     loads of rows of a table, each of which begins where an index says that was loaded too:
 *           as hints to the processor, some rows before.
 * Requires: a vector loop over such a row, or a tile of columns, and the loop around or in it that
 *           goes through the indices, one after the other as they are in memory.
 * Ensures:  nothing but speed: an index is read again within its tensor only, and a hint reads
 *           nothing, wherever it points.
 * How:      the marks of loads say how many rows ahead, and of which tables (schedule/prefetch.c).
 * Example:  for i in bags: for j in 8: { later = 8*i + j + 32;
 *           if (later < words) for a line of row x[later]: PREFETCH(it);
 *           sum += w[x[8*i + j], k]; }
 */
#include "codegen/loops/gather.h"
#include "emit_cc.h"

/* Lines of the row, from element `from` to `to` of what lies behind `at`. */
static void
put_prefetch(Emit *e, const Gather *g, const char *at, const char *from, const char *to)
{
    const Value *table = g->load->args[0], *words = g->index->args[0];
    int64_t distance = let_mark_value(g->load, MARK_prefetch_rows),
            most = let_mark_value(g->load, MARK_beyond) - 1;
    int bytes = dtype_info[table->type->dtype].bytes;
    Dim next = dim_add(e->cx, access_offset(e, g->index), dim_int(e->cx, distance)),
        all = type_numel(e->cx, table->type);
    put_scope(e);
    put(e, "const int64_t later = %s;", offset_c(e, next));
    put_open(e, "if (later < %s%s)", dim_c(e, type_numel(e->cx, words->type)),
             dim_range(e->cx, all).lo > most / bytes
                 ? ""
                 : cx_format(e->cx, " && %s > %d", dim_c(e, all), (int)(most / bytes)));
    put(e, "const int64_t %s = %s[later];", index_c(e, g->bind->sizes[0]), name_c(e, words));
    put_open(e, "for (int64_t k = %s; k < %s; k += %d)", from, to,
             facts_access(e->facts, g->load)->per_line);
    put(e, "PREFETCH(%s, (%s%s + k) * %d);", name_c(e, table), offset_c(e, g->row), at, bytes);
    put_close(e);
    put_close(e);
    put_close(e);
}

void
cc_gather_columns(Emit *e, const Let *reduce, const Let *tile, const char *at)
{
    for (int k = 0; k < reduce->body->n; k++) {
        const Let *load = reduce->body->lets[k];
        Gather g;
        if (let_has(load, MARK_prefetch_rows) && gather_find(e->facts, load, tile, reduce, &g)) {
            put_prefetch(e, &g, cx_format(e->cx, " + %s", at), "0", "w");
        }
    }
}

void
cc_gather_row(Emit *e, const Let *loop, const char *from, const char *to)
{
    const Let *through = let_around(loop);
    for (int k = 0; loop_is(through) && k < loop->body->n; k++) {
        const Let *load = loop->body->lets[k];
        Gather g;
        if (let_has(load, MARK_prefetch_rows) && gather_find(e->facts, load, loop, through, &g)) {
            put_prefetch(e, &g, "", from, to);
        }
    }
}
