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

const char *
and_beyond(Emit *e, const Let *access)
{
    int64_t bytes = let_mark_value(access, MARK_beyond);
    return bytes ? and_bytes(e, access, bytes) : "";
}
