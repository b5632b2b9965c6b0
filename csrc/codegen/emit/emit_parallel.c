/* The loops that threads share, and the private buffers of what they run. */
#include "emit.h"

/* ---- buffers ---- */

const char *
scratch_room(Emit *e, Dim bytes)
{
    const char *at = offset_c(e, e->scratch);
    Dim line = dim_int(e->cx, 64);
    bytes = dim_mul(e->cx, dim_div(e->cx, dim_add(e->cx, bytes, dim_int(e->cx, 63)), line), line);
    /* a buffer without elements must have a place all the same */
    bytes = dim_is(e->cx, bytes, 0) ? line : bytes;
    e->scratch = dim_add(e->cx, e->scratch, bytes);
    return at;
}

const char *
private_buffer(Emit *e, const Value *v, int lanes)
{
    return scratch_room(e,
                        dim_mul(e->cx, type_numel(e->cx, v->type),
                                dim_int(e->cx, (int64_t)dtype_info[v->type->dtype].bytes * lanes)));
}

/* ---- the parallel loop ---- */

Nest
nest_of(const Emit *e)
{
    return (Nest){e->cx, e->collapsed, e->ncollapsed};
}

int
collapsed_at(const Emit *e, const Let *loop)
{
    for (int k = 0; k < e->ncollapsed; k++) {
        if (e->collapsed[k] == loop) {
            return k;
        }
    }
    return -1;
}

static const char *
collapsed_name(Emit *e, int k)
{
    const char *index = index_c(e, loop_index(e->collapsed[k]));
    return loop_step(e->collapsed[k]) > 1 ? cx_format(e->cx, "%s_tile", index) : index;
}

void
put_indices(Emit *e, const char *at, const char *copy)
{
    const char *rest = at;
    if (e->ncollapsed == 1) {
        put(e, "const int64_t %s = %s;", collapsed_name(e, 0), at);
    }
    for (int k = e->ncollapsed - 1; k > 0; k--) {
        const char *name = collapsed_name(e, k), *count = dim_c(e, e->counts[k]);
        const char *over = k == 1 ? collapsed_name(e, 0) : cx_format(e->cx, "t%d_%srest", k, copy);
        put(e, "const int64_t %s = %s / %s, %s = %s %% %s;", over, rest, count, name, rest, count);
        rest = over;
    }
}

/* Is a count but the outermost no number?  To divide by a variable takes as long as a short row. */
static bool
divides_slowly(const Emit *e)
{
    bool slowly = false;
    for (int k = 1; k < e->ncollapsed; k++) {
        slowly |= !dim_is_int(e->cx, e->counts[k], NULL);
    }
    return slowly;
}

/* Puts the indices of iteration lo; returns what advances all but the last, like an odometer. */
static const char *
put_counters(Emit *e)
{
    const char *first = collapsed_name(e, 0), *all = cx_format(e->cx, "%s = 0", first);
    const char *rest = "lo", *next = cx_format(e->cx, "++%s", first);
    for (int k = 1; k < e->ncollapsed; k++) {
        all = cx_format(e->cx, "%s, %s = 0", all, collapsed_name(e, k));
    }
    put(e, "int64_t %s;", all);
    put_open(e, "if (lo < hi)");
    for (int k = e->ncollapsed - 1; k > 0; k--) {
        const char *count = dim_c(e, e->counts[k]),
                   *over = k > 1 ? cx_format(e->cx, "t%d_rest", k) : first;
        put(e, "%s = %s %% %s;", collapsed_name(e, k), rest, count);
        put(e, "%s%s = %s / %s;", k > 1 ? "const int64_t " : "", over, rest, count);
        rest = over;
    }
    put_close(e);
    for (int k = 1; k < e->ncollapsed - 1; k++) {
        const char *i = collapsed_name(e, k);
        next = cx_format(e->cx, "++%s == %s && (%s = 0, %s)", i, dim_c(e, e->counts[k]), i, next);
    }
    return next;
}

/* Two loops: the last index runs in one of its own, in which compilers see what does not change. */
static void
open_counters(Emit *e)
{
    const char *next = put_counters(e), *last = collapsed_name(e, e->ncollapsed - 1),
               *count = dim_c(e, e->counts[e->ncollapsed - 1]);
    put_open(e, "for (int64_t t = lo; t < hi; %s = 0, (void)(%s))", last, next);
    put(e, "const int64_t t_end = %s - %s < hi - t ? t + %s - %s : hi;", count, last, count, last);
    put_open(e, "for (; t < t_end; t++, %s++)", last);
}

int
open_parallel(Emit *e)
{
    if (e->ncollapsed <= 1) {
        bool rows = e->ncollapsed == 1 && !let_has(e->collapsed[0], MARK_vector);
        if (rows) {
            const char *i = collapsed_name(e, 0);
            put_open(e, "for (int64_t %s = lo; %s < hi; %s++)", i, i, i);
        } else if (e->ncollapsed == 0) {
            put(e, "(void)lo, (void)hi;");
        }
        return rows;
    }
    if (divides_slowly(e)) {
        open_counters(e);
        return 2;
    }
    put_open(e, "for (int64_t t = lo; t < hi; t++)");
    put_indices(e, "t", "");
    return 1;
}

/* The bounds of a vector loop: all of it, the tiles lo..hi, or the one tile of collapsed loops. */
void
vector_bounds(Emit *e, const Let *loop, const char **from, const char **to)
{
    const char *extent = dim_c(e, loop_extent(loop)), *i = index_c(e, loop_index(loop));
    int at = collapsed_at(e, loop), tile = loop_tile(loop);
    *from = "0";
    *to = extent;
    if (at < 0) {
        return;
    }
    *from = cx_format(e->cx, "%s_lo", i);
    *to = cx_format(e->cx, "%s_hi", i);
    if (e->ncollapsed == 1) {
        put(e, "const int64_t %s = lo * %d;", *from, tile);
        put(e, "const int64_t %s = hi * %d < %s ? hi * %d : %s;", *to, tile, extent, tile, extent);
    } else {
        put(e, "const int64_t %s = %s * %d;", *from, collapsed_name(e, at), tile);
        put(e, "const int64_t %s = %s + %d < %s ? %s + %d : %s;", *to, *from, tile, extent, *from,
            tile, extent);
    }
}
