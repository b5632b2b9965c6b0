/* What marked loads prefetch, for all targets that do.
 *
 * What:     how far ahead of its own element a load prefetches, as the marks of schedule/prefetch.c
 *           say.
 * Ensures:  nothing but speed: a prefetch reads nothing, wherever it points.
 */
#include "emit.h"

Dim
row_offset(const Emit *e, const Let *load, const Let *loop)
{
    return facts_row(e->facts, load, loop_index(loop));
}

int
prefetch_bytes(const Emit *e, const Let *load, const Let *rows, int64_t least)
{
    int64_t along = let_mark_value(load, MARK_prefetch), elements = 0,
            ahead = let_mark_value(load, MARK_prefetch_rows);
    const Step *next = ahead ? step_along(e, load, rows) : NULL;
    if (next && dim_is_int(e->cx, next->step, &elements)) {
        return (int)(elements * ahead * dtype_info[load->args[0]->type->dtype].bytes);
    }
    return (int)(along && along < least ? least : along);
}

const char *
and_beyond(Emit *e, const Let *access)
{
    int64_t bytes = let_mark_value(access, MARK_beyond);
    return bytes ? and_bytes(e, access, bytes) : "";
}
