/* Reductions of the rows of a grid, for the libtcc tier; see emit_tcc_grid.c.
 *
 * What:     the call that reduces each row of a tile, or rows where they are.
 * Requires: vector reductions of one block: rows are short.
 * Ensures:  the order of docs/bits.md, row by row.
 * How:      a body that loads and multiplies, or squares a difference, is one strip for all rows
 *           and needs no tile (loops/term.c finds such bodies); else the body fills a tile.
 * Why not:  a call for each row: for 16 elements it takes five times as long as the additions.
 * Example:  s[i] = sum of (x[j] - y[i, j])^2 over j < 16:
 *           strip_rows_sum_square_sub_f32(tile4_0, x, 0, y + 16*i, 16, rows, 16, 0);
 */
#include <string.h>

#include "emit_tcc.h"

bool
tcc_has_rows(const Let *reduce)
{
    const Value *v = reduce->body->rets[0];
    return !value_is_const(v) && v->def && v->def->parent == reduce->body &&
           term_has_strip("rows", let_op(reduce), "load", dtype_info[v->type->dtype].compute);
}

/* ---- rows where they are ---- */

/* Where the first row begins and how far the next one is; or a value known outside, or nothing. */
typedef struct {
    const Value *buffer;
    Dim start, step;
    const Value *outer;
} Operand;

typedef struct {
    const char *form;
    Operand a, b;
} RowsCall;

/* Elements side by side in each row, and rows at even steps. */
static bool
find_operand(Tcc *t, const Let *load, const Let *reduce, const Let *grid, Operand *o)
{
    Cx *cx = t->e->cx;
    Dim offset = access_offset(t->e, load), start = row_offset(t->e, load, reduce);
    const Step *row = step_along(t->e, load, grid);
    *o = (Operand){.buffer = load->args[0], .start = start, .step = row ? row->step : DIM_NONE};
    return !is_private(t->e, load->args[0]) && !dim_is_bound_in(cx, offset, grid->body) &&
           start != DIM_NONE && row;
}

static bool
find_call(Tcc *t, const Let *reduce, const Let *grid, RowsCall *call)
{
    const Value *ret = reduce->body->rets[0];
    Term term;
    if (!term_find(reduce, ret->type->dtype, &term) ||
        !find_operand(t, term.x, reduce, grid, &call->a)) {
        return false;
    }
    bool square = strcmp(term.form, "square") == 0;
    call->form = square ? "mul" : term.form;
    call->b = square ? call->a : (Operand){.outer = term.y};
    const Let *other = term.y && !value_is_const(term.y) && term.y->def ? term.y->def : NULL;
    bool loaded = other && other->parent == reduce->body;
    return term_has_strip("rows", let_op(reduce), call->form, call->a.buffer->type->dtype) &&
           (!loaded || find_operand(t, other, reduce, grid, &call->b));
}

bool
tcc_is_rows_call(Tcc *t, const Let *reduce, const Let *grid)
{
    RowsCall call;
    return find_call(t, reduce, grid, &call);
}

static const char *
operand_c(Tcc *t, const Operand *o, Dtype dtype, unsigned *scalars)
{
    Emit *e = t->e;
    if (o->buffer) {
        return cx_format(e->cx, "%s + %s, %s", name_c(e, o->buffer), dim_c(e, o->start),
                         dim_c(e, o->step));
    }
    if (!o->outer) {
        return "0, 0";
    }
    Place p = tcc_place(t, o->outer, dtype);
    *scalars = 2;
    return cx_format(e->cx, "%s, %d", p.at, p.by_row);
}

/* Prefetches the next tile's rows, as strips of two operands do. */
static const char *
next_rows(Tcc *t, const Let *reduce, const RowsCall *call)
{
    int64_t all = 0;
    const Let *load = reduce->body->lets[0];
    if (strcmp(call->form, "load") == 0) {
        return "";
    }
    for (int k = 0; load->op != OP_load || load->args[0] != call->a.buffer; k++) {
        load = reduce->body->lets[k];
    }
    dim_is_int(t->e->cx, dim_mul(t->e->cx, t->rows, loop_extent(reduce)), &all);
    return tcc_prefetch_bits(t, load, reduce, all * dtype_info[call->a.buffer->type->dtype].bytes);
}

bool
tcc_put_rows_call(Tcc *t, const Let *reduce)
{
    Emit *e = t->e;
    RowsCall call;
    unsigned scalars = 0;
    if (!find_call(t, reduce, t->grid, &call)) {
        return false;
    }
    Dtype dtype = reduce->body->rets[0]->type->dtype, from = call.a.buffer->type->dtype;
    const char *a = operand_c(t, &call.a, dtype, &scalars),
               *b = operand_c(t, &call.b, dtype, &scalars);
    Place out = tcc_room(t, dtype, true, NULL);
    put(e, "%s(%s, %s, %s, rows, %s, %u%s);",
        tcc_strip(t, "strip_rows_%s_%s_%s", op_info[let_op(reduce)].name, call.form,
                  dtype_info[from].name),
        out.at, a, b, dim_c(e, loop_extent(reduce)), scalars, next_rows(t, reduce, &call));
    tcc_bind(t, reduce->res[0], out);
    return true;
}

/* ---- rows of a tile ---- */

void
tcc_put_rows(Tcc *t, const Let *reduce, const Place *out)
{
    const Value *ret = reduce->body->rets[0];
    Place copy;
    const char *tile = tcc_spread(t, ret, ret->type->dtype, &copy);
    const char *columns = dim_c(t->e, t->columns);
    put(t->e, "%s(%s, %s, %s, 0, 0, rows, %s, 0);",
        tcc_strip(t, "strip_rows_%s_load_%s", op_info[let_op(reduce)].name,
                  compute_name(ret->type->dtype)),
        out->at, tile, columns, columns);
    tcc_free(t, &copy);
}
