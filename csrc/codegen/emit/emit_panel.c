/* Loops marked `tile`: rows of a tile run together; what they read across is transposed first.
 *
 * What:     the C around a vector loop in a `tile` loop, the same for both tiers; and the panels.
 *           A panel is an array for a load that goes across the rows, which is marked transpose.
 *           It has the elements in the order in which the vector loop reads them.
 * Requires: a `tile` loop as schedule.c marks it: the transposed loads read nothing that the loop
 *           makes.
 * Ensures:  each iteration's operations as without the mark; iterations change places.
 * How:      A tile of iterations of the loop runs for the `width` of the vector loop in it.  A
 *           call first transposes that part of the operand, one cache line after the other.  Then
 *           the rows run, one after the other.  Panels are scratch.
 * Why not:  run the whole body on blocks in registers: it would be emitted once for each row of a
 *           block, and the libtcc tier has no registers for it.
 * Example:  y[i, j] = x[j, i]:  transpose_4(panel, x + j_from*N + i_from, N, 64, 128);
 *                               for i: for j: y[i*M + j] = panel[(i - i_from)*144 + j - j_from]
 */
#include "emit.h"

bool
is_tiled(const Let *loop)
{
    return let_has(let_around(loop), MARK_tile);
}

static void
put_panel(Emit *e, const Let *rows, const Let *load, const char *transpose)
{
    Cx *cx = e->cx;
    const Let *columns = let_around(load);
    Dim step = step_along(e, load, columns)->step;
    int bytes = dtype_info[load->res[0]->type->dtype].bytes;
    const char *i = index_c(e, loop_index(rows)), *j = index_c(e, loop_index(columns));
    const char *panel = panel_of(e, load), *type = storage_c(load->res[0]->type->dtype);
    put(e, "%s *%s = (%s *)(scratch + %s);", type, panel, type,
        scratch_room(e, dim_int(cx, let_mark_value(load, MARK_array) * bytes)));
    put_scope(e);
    put(e, "const int64_t %s = %s_from, %s = %s_from;", i, i, j, j);
    put(e, "%s(%s, %s + %s, %s, %s_to - %s_from, %s_to - %s_from);", transpose, panel,
        name_c(e, load->args[0]), dim_c(e, access_offset(e, load)), dim_c(e, step), i, i, j, j);
    put_close(e);
}

static void
put_panels(Emit *e, const Let *rows, const char *(*transpose)(void *arg, int bytes), void *arg)
{
    const Block *body = loop_inner(rows)->body;
    for (int k = 0; k < body->n; k++) {
        const Let *load = body->lets[k];
        if (let_has(load, MARK_transpose)) {
            put_panel(e, rows, load, transpose(arg, dtype_info[load->res[0]->type->dtype].bytes));
        }
    }
}

const char *
panel_of(Emit *e, const Let *load)
{
    bool copied = let_has(load, MARK_transpose);
    return copied ? cx_format(e->cx, "%s_transposed", name_c(e, load->res[0])) : NULL;
}

const char *
panel_index(Emit *e, const Let *load)
{
    const Let *columns = let_around(load), *rows = let_around(columns);
    const char *i = index_c(e, loop_index(rows)), *j = index_c(e, loop_index(columns));
    return cx_format(e->cx, "(%s - %s_from) * %d + (%s - %s_from)", i, i, DLC_PANEL, j, j);
}

int
open_rows(Emit *e, const Let *rows, int step)
{
    const char *i = index_c(e, loop_index(rows)), *extent = dim_c(e, loop_extent(rows));
    bool collapsed = collapsed_at(e, rows) >= 0;
    if (collapsed) {
        put(e, "const int64_t %s_from = %s_tile * %d;", i, i, step);
    } else {
        put_open(e, "for (int64_t %s_from = 0; %s_from < %s; %s_from += %d)", i, i, extent, i,
                 step);
    }
    put(e, "const int64_t %s_to = %s - %s_from < %d ? %s : %s_from + %d;", i, extent, i, step,
        extent, i, step);
    return !collapsed;
}

void
put_rows(Emit *e, const Let *rows, const char *(*transpose)(void *arg, int bytes),
         void (*row)(void *arg, const Block *body), void *arg)
{
    const char *i = index_c(e, loop_index(rows)), *from, *to;
    const Let *columns = loop_inner(rows);
    const char *j = index_c(e, loop_index(columns));
    int opened = open_rows(e, rows, loop_step(rows)), width = loop_width(columns);
    vector_bounds(e, columns, &from, &to);
    put_open(e, "for (int64_t %s_from = %s; %s_from < %s; %s_from += %d)", j, from, j, to, j,
             width);
    put(e, "const int64_t %s_to = %s - %s_from < %d ? %s : %s_from + %d;", j, to, j, width, to, j,
        width);
    put_panels(e, rows, transpose, arg);
    put_open(e, "for (int64_t %s = %s_from; %s < %s_to; %s++)", i, i, i, i, i);
    row(arg, rows->body);
    put_close(e);
    put_close(e);
    if (opened) {
        put_close(e);
    }
}
