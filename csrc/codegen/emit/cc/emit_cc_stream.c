/* Vector loops over tensors that are larger than caches, for an optimising C compiler.
 *
 * What:     three kinds of loops that processors alone do not run at the speed of memory.
 *           A stencil is a loop over several rows of one tensor.  It runs in strips of as many
 *           iterations as its mark says.  Each strip first prefetches what its marked accesses need
 *           later: of the row that is furthest ahead in memory, and of what is stored.
 *           The vector loop in a loop marked tile stores to an array; non-temporal stores take that
 *           to memory.
 *           Any other loop that memory limits has non-temporal stores line by line (a stencil block
 *           by block).  Between the lines it prefetches the next row, if reductions have read
 *           this one (emit_cc_prefetch.c).
 * Requires: a vector loop without loops inside; for a stencil loads, maps and stores only.
 * Ensures:  each iteration's operations as they were, and its stores after its loads.
 * How:      The plain loop is faster for data in a cache, so the size decides.  If the size is a
 *           symbol, it decides when the phase runs.
 * Example:  y[i, j] = x[i, j] + x[i+1, j]: prefetches x[i+1, j+1024] and y[i, j+1024].
 */
#include "emit_cc.h"

/* ---- stencils ---- */

/* Prefetches a cache line of a strip. */
static void
put_prefetch(Emit *e, const Let *let)
{
    int64_t bytes = facts_access(e->facts, let)->bytes;
    put(e, "__builtin_prefetch(%s + (%s) + %d + cache_line, %d);", name_c(e, let->args[0]),
        offset_c(e, access_offset(e, let)), (int)(let_mark_value(let, MARK_prefetch) / bytes),
        let->op == OP_store);
}

static void
put_strips(Emit *e, const Let *loop, const Let *row, const char *to)
{
    const char *i = index_c(e, loop_index(loop));
    int strip = (int)let_mark_value(loop, MARK_strip);
    put_open(e, "for (; %s_at + %d <= %s%s; %s_at += %d)", i, strip, to, and_beyond(e, row), i,
             strip);
    put_open(e, "for (int64_t cache_line = 0, %s = %s_at; cache_line < %d; cache_line += %d)", i, i,
             strip, facts_access(e->facts, row)->per_line);
    put_prefetch(e, row);
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        if (let->op == OP_store && let_has(let, MARK_prefetch)) {
            put_prefetch(e, let);
        }
    }
    put_close(e);
    put(e, "VECTORS_OF(%d)", (int)let_mark_value(loop, MARK_simdlen));
    put_open(e, "for (int64_t %s = %s_at; %s < %s_at + %d; %s++)", i, i, i, i, strip, i);
    cc_block(e, loop->body);
    put_close(e);
    put_close(e);
}

void
cc_stencil_loop(Emit *e, const Let *loop, const Let *row, const char *from, const char *to)
{
    const char *i = index_c(e, loop_index(loop));
    put(e, "int64_t %s_at = %s;", i, from);
    put_strips(e, loop, row, to);
    put(e, "INDEPENDENT");
    cc_open_loop(e, i, cx_format(e->cx, "%s_at", i), to);
    cc_block(e, loop->body);
    put_close(e);
}

/* ---- non-temporal stores ---- */

/* Does it store to an array first, from where non-temporal stores go to memory? */
static bool
is_staged(const Let *let)
{
    return let->op == OP_store && let_has(let, MARK_array);
}

/* The next such store of the loop, behind `store` or from its beginning; NULL: there is none. */
static const Let *
next_staged(const Let *loop, const Let *store)
{
    int k = store ? place_of(store) + 1 : 0;
    while (k < loop->body->n && !is_staged(loop->body->lets[k])) {
        k++;
    }
    return k < loop->body->n ? loop->body->lets[k] : NULL;
}

#define FOR_STAGED(let, loop) \
    for (const Let *let = next_staged(loop, NULL); let; let = next_staged(loop, let))

/* The address of the first element that a row stores. */
const char *
cc_row_place(Emit *e, const Let *store)
{
    Dim rest = step_along(e, store, let_around(store))->rest;
    return cx_format(e->cx, "%s + (%s)", name_c(e, store->args[0]), offset_c(e, rest));
}

/* The address of the first element of a block of a row, or of a row of a tile. */
static const char *
block_place(Emit *e, const Let *store)
{
    return cx_format(e->cx, "%s + %s_from", cc_row_place(e, store),
                     index_c(e, loop_index(let_around(store))));
}

/* Marked stores go to an array, `element` of which is that of the iteration; NULL: no more. */
static void
divert(Emit *e, const Let *loop, const char *element)
{
    FOR_STAGED(let, loop)
    {
        cc_stand(e, let,
                 element ? cx_format(e->cx, "%s_to[%s]", name_c(e, let->args[0]), element) : NULL);
    }
}

/* The index of the loop, counted from <index>_from, where its block or line begins. */
static const char *
from_first(Emit *e, const Let *loop)
{
    const char *i = index_c(e, loop_index(loop));
    return cx_format(e->cx, "%s - %s_from", i, i);
}

/* Prefetches what a marked load reads some rows later. */
static void
put_prefetch_rows(Emit *e, const Let *load)
{
    int64_t rows = let_mark_value(load, MARK_prefetch_rows);
    const Let *columns = let_around(load);
    const Step *row = rows ? step_along(e, load, let_around(columns)) : NULL;
    if (!row || !contiguous_bytes(e, columns, load)) {
        return;
    }
    Dim ahead = dim_mul(e->cx, row->step, dim_int(e->cx, rows)),
        at = dim_add(e->cx, row_offset(e, load, columns), ahead);
    put_open(e, "for (int64_t cache_line = 0; cache_line < %d%s; cache_line += %d)",
             loop_width(columns), and_beyond(e, load), facts_access(e->facts, load)->per_line);
    put(e, "__builtin_prefetch(%s + (%s) + %s_from + cache_line);", name_c(e, load->args[0]),
        offset_c(e, at), index_c(e, loop_index(columns)));
    put_close(e);
}

/* Puts, for each non-temporal store, an array for the elements of one block and a pointer to it.
 * If the tensor turns out to be small, the pointer is to the store's own place. */
void
cc_stream_arrays(Emit *e, const Let *loop, const char *(*place)(Emit *e, const Let *store))
{
    FOR_STAGED(let, loop)
    {
        const char *out = name_c(e, let->args[0]), *type = storage_c(let->args[0]->type->dtype);
        put(e, "const int %s_large = DLC_STREAMS%s;", out, and_nontemporal(e, let));
        put(e, "_Alignas(64) %s %s_row[%d];", type, out, (int)let_mark_value(let, MARK_array));
        put(e, "%s *const %s_to = %s_large ? %s_row : %s;", type, out, out, out, place(e, let));
    }
}

void
cc_stream_open(Emit *e, const Let *loop)
{
    for (int k = 0; k < loop->body->n; k++) {
        if (loop->body->lets[k]->op == OP_load) {
            put_prefetch_rows(e, loop->body->lets[k]);
        }
    }
    cc_stream_arrays(e, loop, block_place);
    divert(e, loop, from_first(e, loop));
}

bool
cc_stream_blocks(Emit *e, const Let *loop, const char **from, const char **to)
{
    const char *i = index_c(e, loop_index(loop));
    const Let *store = let_has(loop, MARK_streams) ? next_staged(loop, NULL) : NULL;
    if (!store) {
        return false;
    }
    int width = (int)let_mark_value(store, MARK_array);
    put_open(e, "for (int64_t %s_from = %s; %s_from < %s; %s_from += %d)", i, *from, i, *to, i,
             width);
    put(e, "const int64_t %s_to = %s_from + %d < %s ? %s_from + %d : %s;", i, i, width, *to, i,
        width, *to);
    *from = cx_format(e->cx, "%s_from", i);
    *to = cx_format(e->cx, "%s_to", i);
    cc_stream_arrays(e, loop, block_place);
    divert(e, loop, from_first(e, loop));
    return true;
}

/* Runs sixteen iterations at a time.  They store to arrays, which the compiler keeps in registers,
 * and non-temporal stores take these to memory. */
static void
put_lines(Emit *e, const Let *loop, const char *i, const char *to)
{
    put_open(e, "for (%s_from = %s_stop; %s_from + 16 <= %s; %s_from += 16)", i, i, i, to, i);
    FOR_STAGED(let, loop)
    {
        put(e, "_Alignas(64) %s %s_to[16];", storage_c(let->args[0]->type->dtype),
            name_c(e, let->args[0]));
    }
    cc_prefetch_rows(e, loop, cx_format(e->cx, "%s_from", i));
    put(e, "LANES");
    put_open(e, "for (int64_t %s = %s_from; %s < %s_from + 16; %s++)", i, i, i, i, i);
    divert(e, loop, from_first(e, loop));
    cc_near_lane(e, loop->body, from_first(e, loop));
    cc_block(e, loop->body);
    cc_near_lane(e, loop->body, NULL);
    divert(e, loop, NULL);
    put_close(e);
    FOR_STAGED(let, loop)
    {
        put(e, "dlc_stream_lines(%s, %s_to, %d);", block_place(e, let), name_c(e, let->args[0]),
            contiguous_bytes(e, loop, let) / 4);
    }
    put_close(e);
}

/* The C condition under which all non-temporal stores apply. */
static const char *
stream_condition(Emit *e, const Let *loop)
{
    const char *condition = "DLC_STREAMS";
    for (int k = loop->body->n - 1; k >= 0; k--) {
        const Let *let = loop->body->lets[k];
        if (is_staged(let)) {
            condition = cx_format(e->cx, "%s%s", condition, and_nontemporal(e, let));
        }
    }
    return condition;
}

bool
cc_stream_lines(Emit *e, const Let *loop, const char *from, const char *to)
{
    const char *i = index_c(e, loop_index(loop));
    const Let *first = let_has(loop, MARK_streams) ? next_staged(loop, NULL) : NULL;
    if (!first) {
        return false;
    }
    const char *condition = stream_condition(e, loop);
    put(e, "int64_t %s_from = %s, %s_stop = %s;", i, from, i, to);
    put_open(e, "if (%s)", condition);
    put(e, "const int64_t lead = %s + dlc_lead(%s, %d);", from, block_place(e, first),
        contiguous_bytes(e, loop, first));
    put(e, "%s_stop = lead < %s ? lead : %s;", i, to, to);
    put_close(e);
    put_open(e, "for (;;)");
    put(e, "INDEPENDENT");
    cc_open_loop(e, i, cx_format(e->cx, "%s_from", i), cx_format(e->cx, "%s_stop", i));
    cc_block(e, loop->body);
    put_close(e);
    put_open(e, "if (%s_stop >= %s)", i, to);
    put(e, "break;");
    put_close(e);
    put_lines(e, loop, i, to);
    put(e, "%s_stop = %s;", i, to);
    put_close(e);
    return true;
}

/* ---- blocks of short rows ---- */

/* The address of the store with the narrowest elements.  Where its cache lines begin, lines of
 * wider elements begin too. */
const char *
cc_stream_block_place(Emit *e, const Let *loop)
{
    const Let *first = NULL;
    FOR_STAGED(let, loop)
    {
        first = first && contiguous_bytes(e, loop, first) <= contiguous_bytes(e, loop, let) ? first
                                                                                            : let;
    }
    return first ? cc_row_place(e, first) : NULL;
}

void
cc_stream_block_close(Emit *e, const Let *loop)
{
    FOR_STAGED(store, loop)
    {
        const char *out = name_c(e, store->args[0]);
        put_open(e, "if (%s_large)", out);
        put(e, "dlc_stream_lines(%s, %s_row, %d);", cc_row_place(e, store), out,
            (int)let_mark_value(store, MARK_array) / facts_access(e->facts, store)->per_line);
        put_close(e);
    }
}

void
cc_stream_close(Emit *e, const Let *loop)
{
    const char *i = index_c(e, loop_index(loop));
    divert(e, loop, NULL);
    FOR_STAGED(store, loop)
    {
        const char *out = name_c(e, store->args[0]);
        put_open(e, "if (%s_large)", out);
        put(e, "dlc_stream(%s, %s_row, %s(%s_to - %s_from));", block_place(e, store), out,
            contiguous_bytes(e, loop, store) == 8 ? "2 * " : "", i, i);
        put_close(e);
    }
}
