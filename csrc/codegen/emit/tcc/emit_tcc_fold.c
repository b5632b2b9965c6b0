/* Reductions of what is loaded, by strips that go through many rows; see emit_tcc_reduce.c.
 *
 * What:     finds reductions whose body loads and does no more than square, multiply or subtract,
 *           and puts the one call that does it all.
 * Requires: the reduction at hand; of one in sequence, a vector loop around it.
 * Ensures:  the order of docs/bits.md: the strips add row after row, or by lanes.
 * How:      loops/term.c says what a body is of.  In sequence a call goes down the rows of a tile:
 *           the steps from row to row are its arguments.  A block of a row is such a call where
 *           emit_tcc_fused.c has none: of narrow numbers and of float64.
 * Why not:  a call for each row of a tile: the sum would be loaded and stored for each, and calls
 *           are as expensive as a row of 256 elements.
 * Example:  s = sum of (x[j, i] - m[i])^2 over j:
 *           strip_down_sum_square_sub_f32(s, x + i + N*from, N, m, 0, to - from, w, 0);
 */
#include <string.h>

#include "emit_tcc.h"

/* Where the rows of an operand begin, and how far the next one is. */
typedef struct {
    const char *at;
    Dim row;
    bool varies;
} Rows;

static Rows
rows_of(Tcc *t, const Let *load, Dim along)
{
    Emit *e = t->e;
    return (Rows){.at = cx_format(e->cx, "%s + %s", name_c(e, load->args[0]),
                                  dim_c(e, access_offset(e, load))),
                  .row = facts_step(e->facts, load, along)->step,
                  .varies = facts_contiguous(e->facts, load, tcc_index(t))};
}

/* The second operand, which is known outside or loaded. */
static Rows
second_rows(Tcc *t, const Block *body, const Value *y, Dtype dtype, Dim along)
{
    const Let *load = let_in(body, y);
    if (load) {
        return rows_of(t, load, along);
    }
    Place p = tcc_place(t, y, dtype);
    return (Rows){p.at, dim_int(t->e->cx, 0), p.varies};
}

/* ---- rows that are looked up ---- */

/* Prefetches rows that are gathered soon, if the load is marked. */
static void
prefetch_gathered(Tcc *t, const Let *reduce, const Let *row, const Scattered *s, const char *rows,
                  const char *n)
{
    Emit *e = t->e;
    int64_t ahead = let_mark_value(row, MARK_prefetch_rows);
    const Let *index = ahead ? term_next_indices(e->facts, reduce, row) : NULL;
    int bytes = dtype_info[row->args[0]->type->dtype].bytes;
    if (!index) {
        return;
    }
    const Value *words = index->args[0];
    Dim next = dim_add(e->cx, access_offset(e, index), dim_int(e->cx, ahead));
    const char *left = dim_c(e, dim_sub(e->cx, type_numel(e->cx, words->type), next));
    put(e, "%s(%s, %s + %s, %s * %d, %s < %s ? %s : %s, %s * %d);",
        tcc_strip(t, "strip_prefetch_rows"), s->from, name_c(e, words), dim_c(e, next), s->step,
        bytes, left, rows, left, rows, n, bytes);
}

/* The steps are a tile of their own while the rows are looked up. */
static bool
put_looked_up(Tcc *t, const Let *reduce, Dtype dtype, const Place *sum, const char *from,
              const char *to)
{
    Emit *e = t->e;
    Tile at_hand = tcc_tile(t);
    const Let *load = term_gathered(e->facts, &at_hand, reduce, dtype);
    if (!load) {
        return false;
    }
    const Block *body = reduce->body;
    const Let *at = t->at;
    const char *n = t->n, *i = index_c(e, loop_index(reduce)),
               *rows = cx_format(e->cx, "%s_rows", i);
    int bound = t->nbound;
    put_scope(e);
    put(e, "int64_t %s = %s - %s;", rows, to, from);
    put(e, "%s = %s;", i, from);
    t->at = reduce;
    t->n = rows;
    tcc_first_lets(t, body, place_of(load));
    Scattered s = tcc_scattered(t, load->args[0], access_offset(e, load), false);
    prefetch_gathered(t, reduce, load, &s, rows, n);
    put(e, "%s(%s, %s, %s, %s, %s, %s);",
        tcc_strip(t, "strip_gathered_%s_%s", op_info[let_op(reduce)].name,
                  dtype_info[load->res[0]->type->dtype].name),
        sum->at, s.from, s.at, s.step, rows, n);
    tcc_free(t, &s.index);
    tcc_release(t, body);
    t->nbound = bound;
    t->at = at;
    t->n = n;
    put_close(e);
    return true;
}

bool
tcc_reduce_down(Tcc *t, const Let *reduce, Dtype dtype, const Place *sum, const char *from,
                const char *to)
{
    Emit *e = t->e;
    Tile tile = tcc_tile(t);
    Term term;
    Dim along = loop_index(reduce);
    bool marked = let_has(reduce, MARK_primitive);
    if (marked && put_looked_up(t, reduce, dtype, sum, from, to)) {
        return true;
    }
    if (!marked || !term_goes_down_in(e->facts, &tile, reduce, dtype, &term)) {
        return false;
    }
    Rows x = rows_of(t, term.x, along), y = {"0", dim_int(e->cx, 0), true};
    if (term.y) {
        y = second_rows(t, reduce->body, term.y, dtype, along);
    }
    put(e, "%s = %s;", index_c(e, along), from);
    put(e, "%s(%s, %s, %s, %s, %s, %s - %s, %s, %d);",
        tcc_strip(t, "strip_down_%s_%s_%s", op_info[let_op(reduce)].name, term.form,
                  dtype_info[term.x->res[0]->type->dtype].name),
        sum->at, x.at, dim_c(e, x.row), y.at, dim_c(e, y.row), to, from, t->n, y.varies ? 0 : 2);
    return true;
}

const char *
tcc_reduce_along(Tcc *t, const Let *reduce, Dtype dtype)
{
    Emit *e = t->e;
    Tile tile = tcc_tile(t);
    Term term;
    Dim along = loop_index(reduce);
    if (!term_goes_along(e->facts, &tile, reduce, dtype, &term)) {
        return NULL;
    }
    Rows x = rows_of(t, term.x, along), y = {.at = "0"};
    if (term.y) {
        y = second_rows(t, reduce->body, term.y, dtype, along);
    }
    const char *bits = tcc_prefetch_bits(t, term.x, reduce, 0);
    return cx_format(e->cx, "%s(%s, %s, w, %d%s)",
                     tcc_strip(t, "strip_along_%s_%s_%s", op_info[let_op(reduce)].name, term.form,
                               dtype_info[term.x->res[0]->type->dtype].name),
                     x.at, y.at, term.y ? 2 : 0, bits);
}
