/* The loops in a grid, for the libtcc tier; see emit_tcc_grid.c.
 *
 * What:     a vector loop of a few elements for all rows of a tile at once, or one of more for one
 *           row after the other.
 * Requires: the grid entered, a loop that stands in it.
 * Ensures:  each element's operations as without.
 * How:      what a row has one of is spread over the row's elements, or for one row alone is the
 *           element of a tile.
 * Why not:  long rows with all that is around them one by one: a mean waits for the last of its
 *           additions, the next reduction for the mean.  Layer norm of rows of 1024 in the caches
 *           took 1.3 times as long.
 * Example:  y[i, j] = x[i, j] - m[i] for j < 300:
 *               for (i_row = 0; i_row < rows; i_row++)
 *                   strip_sub_f32(y + 300*i, x + 300*i, tile4_0 + i_row, w, 2);
 */
#include "emit_tcc.h"

/* What each row has one of, for the loop in it: the values, and where they were before. */
typedef struct {
    const Value **values;
    Place *before;
    int n;
} Spread;

static void
spread(Tcc *t, Spread *s, const Value *v)
{
    Emit *e = t->e;
    Place p = value_is_const(v) || !v->def ? (Place){0} : t->places[v->id];
    if (!p.by_row || v->def->parent != t->grid->body) {
        return;
    }
    Place copy = tcc_room(t, v->type->dtype, true, NULL);
    put(e, "%s(%s, %s, 0, 1, 0, rows, %s);",
        tcc_strip(t, "strip_take_%d", dtype_info[dtype_info[v->type->dtype].compute].bytes),
        copy.at, p.at, dim_c(e, tcc_columns(t)));
    s->values = cx_grow(e->cx, s->values, s->n, sizeof *s->values);
    s->before = cx_grow(e->cx, s->before, s->n, sizeof *s->before);
    s->values[s->n] = v;
    s->before[s->n++] = p;
    copy.last = p.last;
    t->places[v->id] = copy;
}

static void
restore_places(Tcc *t, Spread *s)
{
    for (int k = 0; k < s->n; k++) {
        Place *p = &t->places[s->values[k]->id];
        tcc_free(t, p);
        *p = s->before[k];
    }
}

/* What is compared with an index may stay an element for each row. */
static bool
is_spread(Tcc *t, const Let *let, int arg)
{
    const Let *size = let_compares(let) ? t->pairs[let->res[0]->id].first : NULL;
    return !(size && size->res[0] != let->args[arg] && tcc_by_rows(t, size));
}

/* Binds a value that each row has one of to its element of the current row. */
static void
take_element(Tcc *t, Spread *s, const Value *v, const char *row)
{
    Emit *e = t->e;
    Place p = value_is_const(v) || !v->def ? (Place){0} : t->places[v->id];
    if (p.by_row && v->def->parent == t->grid->body) {
        const char *type = type_c(v->type->dtype),
                   *name = cx_format(e->cx, "%s_each", name_c(e, v));
        put(e, "const %s *%s = (const %s *)(%s);", type, name, type, p.at);
        s->values = cx_grow(e->cx, s->values, s->n, sizeof *s->values);
        s->before = cx_grow(e->cx, s->before, s->n, sizeof *s->before);
        s->values[s->n] = v;
        s->before[s->n++] = p;
        t->places[v->id] = (Place){
            .at = cx_format(e->cx, "%s + %s", name, row), .slot = -1, .last = p.last};
    }
}

/* A loop that is too long for a tile: one row after the other. */
static void
put_long_rows(Tcc *t, const Let *loop, void (*put_one)(Tcc *t, const Let *loop))
{
    Emit *e = t->e;
    const Let *grid = t->grid;
    Spread s = {0};
    const char *i = index_c(e, tcc_index(t)), *row = cx_format(e->cx, "%s_row", i);
    put_scope(e);
    put(e, "int64_t %s, %s_first = %s;", row, i, i);
    for (int k = 0; k < loop->body->n; k++) {
        for (int j = 0; j < loop->body->lets[k]->nargs; j++) {
            take_element(t, &s, loop->body->lets[k]->args[j], row);
        }
    }
    put_open(e, "for (%s = 0; %s < rows; %s++)", row, row, row);
    put(e, "int64_t %s = %s_first + %s;", i, i, row);
    tcc_leave_grid(t);
    put_one(t, loop);
    tcc_enter_grid(t, grid);
    for (int k = 0; k < s.n; k++) {
        t->places[s.values[k]->id] = s.before[k];
    }
    put_close(e);
    put_close(e);
}

void
tcc_grid_row(Tcc *t, const Let *loop, void (*put_one)(Tcc *t, const Let *loop))
{
    Emit *e = t->e;
    Spread s = {0};
    bool reduces = loop->op == OP_reduce;
    if (reduces && tcc_put_rows_call(t, loop)) {
        return;
    }
    if (!tcc_is_short(t, t->grid, loop)) {
        if (reduces) { /* of loops that someone has written: grid marks none that has no call */
            fail(e->cx, DIAG_ROWS_CALL, loop->res[0]->name);
        }
        put_long_rows(t, loop, put_one);
        return;
    }
    Place out = reduces ? tcc_room(t, loop->body->rets[0]->type->dtype, true, NULL)
                        : (Place){.slot = -1};
    put_scope(e);
    tcc_enter_row(t, loop);
    put(e, "int64_t w = rows * %s;", dim_c(e, tcc_columns(t)));
    for (int k = 0; k < loop->body->n; k++) {
        for (int j = 0; j < loop->body->lets[k]->nargs; j++) {
            if (is_spread(t, loop->body->lets[k], j)) {
                spread(t, &s, loop->body->lets[k]->args[j]);
            }
        }
    }
    tcc_lets(t, loop->body);
    if (reduces) {
        tcc_put_rows(t, loop, &out);
    }
    tcc_release(t, loop->body);
    restore_places(t, &s);
    tcc_leave_row(t);
    put_close(e);
    if (reduces) {
        tcc_bind(t, loop->res[0], out);
    }
}
