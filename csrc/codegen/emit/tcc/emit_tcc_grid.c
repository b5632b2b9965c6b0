/* Grids: several short rows as one tile, for the libtcc tier.
 *
 * What:     the statements of a loop around vector loops of a few elements each, whose iterations
 *           are its rows: so many of them run together that their elements fill a tile.
 * Requires: a loop marked grid.
 * Ensures:  each element's operations as without; rows change places.
 * How:      what stands in the loop itself is a tile of an element for each row; what stands in a
 *           loop inside is a tile of all elements of those rows, one row after the other.  An
 *           operand that is in memory that way is used where it is; else its rows are taken
 *           together by one strip, before the loop if the load is marked `uniform`.  What a row
 *           has one of is spread over the row's elements.  Results that have another layout are put
 *           there by one strip.  A reduction inside gives an element for each row, see
 *           emit_tcc_rows.c; a buffer of the iteration has a row for each.  Rows in the caches that
 *           are too long for a tile may be a grid for their reductions' sake, see
 *           emit_tcc_grid_row.c.
 * Why not:  strips with a step for each operand: a row of 32 elements costs as much to begin as to
 *           compute, for every operand of every strip.
 * Example:  y[i, j] = x[i, j] - m[j] for j < 3:
 *               strip_take_4(tile4_0, m, 0, 0, 1, 170, 3);
 *               for (i = lo; i < hi; i += rows)
 *                   strip_sub_f32(y + 3*i, x + 3*i, tile4_0, rows * 3, 0);
 */
#include "emit_tcc.h"

bool
tcc_is_short(const Tcc *t, const Let *grid, const Let *loop)
{
    return grid_is_short(t->e->facts, loop, let_mark_value(grid, MARK_grid_row));
}

Dim
tcc_grid_rows(const Tcc *t, const Let *grid)
{
    return grid_rows(t->e->facts, grid, let_mark_value(grid, MARK_grid),
                     let_mark_value(grid, MARK_grid_row), let_mark_value(grid, MARK_grid_called),
                     false);
}

/* Rows of a buffer, none longer than the longest. */
const char *
tcc_grid_buffer(Tcc *t, const Value *v)
{
    return scratch_room(t->e, dim_int(t->e->cx, let_mark_value(t->grid, MARK_grid) *
                                                    dtype_info[v->type->dtype].bytes));
}

void
tcc_enter_grid(Tcc *t, const Let *loop)
{
    t->grid = loop;
    tcc_enter(t, loop, "rows");
}

void
tcc_leave_grid(Tcc *t)
{
    t->grid = NULL;
    tcc_leave(t);
}

void
tcc_enter_row(Tcc *t, const Let *loop)
{
    tcc_enter(t, loop, "w");
}

void
tcc_leave_row(Tcc *t)
{
    tcc_enter(t, t->grid, "rows");
}

/* ---- rows that all tiles have ---- */

static void
materialise_row(Tcc *t, const Let *inner)
{
    tcc_enter_row(t, inner);
    for (int k = 0; k < inner->body->n; k++) {
        const Let *load = inner->body->lets[k];
        if (load->op == OP_load && let_has(load, MARK_uniform) && !tcc_in_place_rows(t, load)) {
            Walk walk = tcc_walk(t, access_offset(t->e, load));
            t->materialised = cx_grow(t->e->cx, t->materialised, t->nmaterialised,
                                      sizeof *t->materialised);
            t->materialised[t->nmaterialised++] = (Materialised){
                load, tcc_take(t, load, &walk, dim_c(t->e, tcc_grid_rows(t, t->grid)))};
        }
    }
    tcc_leave_row(t);
}

/* Takes what all tiles have, if there is a tile at all: where `any` is NULL there is. */
static void
materialise_rows(Tcc *t, const Let *loop, const char *any)
{
    Emit *e = t->e;
    Text *out = e->out, taken = {.cx = e->cx};
    e->out = &taken;
    e->indent += any != NULL;
    tcc_enter_grid(t, loop);
    for (int k = 0; k < loop->body->n; k++) {
        const Let *inner = loop->body->lets[k];
        bool called = grid_is_called(e->facts, inner, loop);
        if (loop_is(inner) && tcc_is_short(t, loop, inner) && !called) {
            materialise_row(t, inner);
        }
    }
    tcc_leave_grid(t);
    e->indent -= any != NULL;
    e->out = out;
    if (any && taken.length) {
        put_open(e, "if (%s)", any);
    }
    text_put(e->out, taken.text, taken.length);
    if (any && taken.length) {
        put_close(e);
    }
}

const Place *
tcc_materialised(const Tcc *t, const Let *load)
{
    for (int k = 0; k < t->nmaterialised; k++) {
        if (t->materialised[k].load == load) {
            return &t->materialised[k].place;
        }
    }
    return NULL;
}

/* ---- loops ---- */

int
tcc_open_grid(Tcc *t)
{
    Emit *e = t->e;
    int n = e->ncollapsed;
    const Let *rows = n ? e->collapsed[n - 1] : NULL;
    if (!rows || !let_has(rows, MARK_grid)) {
        return 0;
    }
    materialise_rows(t, rows, "lo < hi");
    const char *first = n == 1 ? index_c(e, loop_index(rows)) : "t";
    put(e, "int64_t %s, rows;", first);
    put_open(e, "for (%s = lo; %s < hi; %s += rows)", first, first, first);
    const char *most = dim_c(e, tcc_grid_rows(t, rows));
    put(e, "rows = hi - %s < %s ? hi - %s : %s;", first, most, first, most);
    if (n > 1) {
        put_indices(e, "t", "");
        const char *i = index_c(e, loop_index(rows)), *extent = dim_c(e, loop_extent(rows));
        put(e, "rows = %s - %s < rows ? %s - %s : rows;", extent, i, extent, i);
    }
    return 1;
}

static void
put_grid(Tcc *t, const Let *loop)
{
    tcc_enter_grid(t, loop);
    tcc_lets(t, loop->body);
    tcc_release(t, loop->body);
    tcc_leave_grid(t);
}

void
tcc_grid(Tcc *t, const Let *loop)
{
    Emit *e = t->e;
    int before = t->nmaterialised;
    if (collapsed_at(e, loop) >= 0) {
        put_grid(t, loop);
        return;
    }
    const char *i = index_c(e, loop_index(loop)), *extent = dim_c(e, loop_extent(loop));
    const char *rows = dim_c(e, tcc_grid_rows(t, loop));
    put_scope(e);
    bool any = dim_range(e->cx, loop_extent(loop)).lo > 0;
    materialise_rows(t, loop, any ? NULL : cx_format(e->cx, "%s > 0", extent));
    put(e, "int64_t %s, rows;", i);
    put_open(e, "for (%s = 0; %s < %s; %s += rows)", i, i, extent, i);
    put(e, "rows = %s - %s < %s ? %s - %s : %s;", extent, i, rows, extent, i, rows);
    put_grid(t, loop);
    put_close(e);
    put_close(e);
    while (t->nmaterialised > before) {
        tcc_free(t, &t->materialised[--t->nmaterialised].place);
    }
}
