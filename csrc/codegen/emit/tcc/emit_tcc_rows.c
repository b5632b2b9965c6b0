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

/* ---- rows where they are: reductions marked primitive ---- */

static const char *
operand_c(Tcc *t, const RowsOperand *o, Dtype dtype, unsigned *scalars)
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
    dim_is_int(t->e->cx, dim_mul(t->e->cx, tcc_grid_rows(t, t->grid), loop_extent(reduce)), &all);
    return tcc_prefetch_bits(t, load, reduce, all * dtype_info[call->a.buffer->type->dtype].bytes);
}

bool
tcc_put_rows_call(Tcc *t, const Let *reduce)
{
    Emit *e = t->e;
    RowsCall call;
    unsigned scalars = 0;
    if (!let_has(reduce, MARK_primitive) || !grid_call(e->facts, reduce, t->grid, &call)) {
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
    const char *columns = dim_c(t->e, tcc_columns(t));
    put(t->e, "%s(%s, %s, %s, 0, 0, rows, %s, 0);",
        tcc_strip(t, "strip_rows_%s_load_%s", op_info[let_op(reduce)].name,
                  compute_name(ret->type->dtype)),
        out->at, tile, columns, columns);
    tcc_free(t, &copy);
}
