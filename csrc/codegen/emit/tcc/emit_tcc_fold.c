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

/* Is there such a strip? */
static bool
has_strip(Op red, const Term *term, bool down)
{
    return term_has_strip(down ? "down" : "along", red, term->form, term->x->res[0]->type->dtype);
}

/* ---- where the rows lie ---- */

typedef struct {
    const char *at;
    Dim row;
    bool varies;
} Rows;

/* Is the index bound to what is in memory? */
static bool
is_index_in_memory(const void *arg, Dim name)
{
    const Tcc *t = arg;
    return map_get(&t->indices, &name, 1) != NULL;
}

/* Elements side by side, or one for all, at even steps along the loop. */
static bool
find_rows(Tcc *t, const Let *load, Dim along, Rows *rows)
{
    Cx *cx = t->e->cx;
    const Value *buffer = load->args[0];
    Dim offset = access_offset(t->e, load);
    const Step *tile = facts_step(t->e->facts, load, t->index),
               *row = facts_step(t->e->facts, load, along);
    if (dim_any_name(cx, offset, is_index_in_memory, t) || is_private(t->e, buffer) ||
        panel_of(t->e, load) || !tile || !row ||
        !(dim_is(cx, tile->step, 1) || dim_is(cx, tile->step, 0))) {
        return false;
    }
    *rows = (Rows){.at = cx_format(cx, "%s + %s", name_c(t->e, buffer), dim_c(t->e, offset)),
                   .row = row->step,
                   .varies = dim_is(cx, tile->step, 1)};
    return true;
}

/* The second operand, which is known outside or loaded. */
static bool
find_second(Tcc *t, const Block *body, const Value *y, Dtype dtype, Dim along, Rows *rows)
{
    const Let *load = let_in(body, y);
    if (load) {
        return find_rows(t, load, along, rows);
    }
    Place p = tcc_place(t, y, dtype);
    *rows = (Rows){p.at, dim_int(t->e->cx, 0), p.varies};
    return true;
}

/* ---- rows that are looked up ---- */

/* Of 131072 rows of 128, sums of 8 take 5.7 ms without prefetching, 3.3 with 8 rows ahead, 3.0 with
 * 16, 3.2 with 32. */

/* May the let be computed for all steps at once, a tile of them?  Its operands are such lets, or
 * known outside and one for all. */
static bool
is_of_steps(Tcc *t, const Block *body, const Let *let)
{
    bool map = op_info[let->op].kind == KIND_MAP && !rounding(let);
    if (let->op == OP_load) {
        return !tcc_varies(t, access_offset(t->e, let)) && !is_private(t->e, let->args[0]);
    }
    if (let->op == OP_size) {
        return !tcc_varies(t, let_dim(let, "dim"));
    }
    for (int k = 0; k < let->nargs; k++) {
        const Value *v = let->args[k];
        if (!value_is_const(v) && !let_in(body, v) && t->places[v->id].varies) {
            return false;
        }
    }
    return map || let->op == OP_bind;
}

/* The load of a sum's rows, each of which begins where a gather says, and is read element by
 * element. */
static const Let *
looked_up(Tcc *t, const Let *reduce, Dtype dtype)
{
    const Block *body = reduce->body;
    Term term = {.form = "load"};
    Dim step, rest;
    term.x = term_load(body, body->rets[0], dtype, &term.lets);
    if (!term.x || let_has(reduce, MARK_pairs) || !has_strip(let_op(reduce), &term, true) ||
        is_private(t->e, term.x->args[0]) || panel_of(t->e, term.x)) {
        return NULL;
    }
    Dim offset = access_offset(t->e, term.x);
    if (dim_any_name(t->e->cx, offset, is_index_in_memory, t) ||
        !tcc_affine(t, offset, t->index, &step, &rest) || !dim_is(t->e->cx, step, 1) ||
        dim_uses(t->e->cx, rest, t->index) || body->lets[body->n - term.lets] != term.x) {
        return NULL;
    }
    int binds = 0;
    for (int k = 0; k < body->n - term.lets; k++) {
        binds += body->lets[k]->op == OP_bind;
        if (!is_of_steps(t, body, body->lets[k])) {
            return NULL;
        }
    }
    return binds ? term.x : NULL;
}

/* The load of the only index that the row is looked up by, if the next bag's follow in memory; or
 * NULL.  Of indices with strides of their own it is not known where they end. */
static const Let *
next_indices(Tcc *t, const Let *reduce, const Let *row)
{
    const Block *body = reduce->body;
    const Let *index = row->mark == 3 && body->lets[1]->op == OP_bind ? body->lets[0] : NULL;
    if (!index || index->op != OP_load || index->args[0]->strides ||
        index->res[0]->type->dtype != DT_i64 || is_private(t->e, index->args[0]) ||
        !is_contiguous(t->e, index, reduce)) {
        return NULL;
    }
    for (const Let *loop = reduce->parent->owner; loop_is(loop); loop = loop->parent->owner) {
        const Step *next = step_along(t->e, index, loop);
        if (next && next->step == loop_extent(reduce)) {
            return index;
        }
    }
    return NULL;
}

/* Prefetches rows that are looked up soon, if all of a row is one tile. */
static void
prefetch_gathered(Tcc *t, const Let *reduce, const Let *row, const Scattered *s, const char *rows,
                  const char *n)
{
    Emit *e = t->e;
    const Let *index = next_indices(t, reduce, row), *tile = reduce->parent->owner;
    int bytes = dtype_info[row->args[0]->type->dtype].bytes;
    if (!index || buffer_is_small(e->cx, row->args[0]) ||
        dim_range(e->cx, loop_extent(tile)).hi > t->width) {
        return;
    }
    const Value *words = index->args[0];
    Dim next = dim_add(e->cx, access_offset(e, index), dim_int(e->cx, DLC_PREFETCH_ONEHOT));
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
    const Let *load = looked_up(t, reduce, dtype), *tile = e->tile;
    if (!load) {
        return false;
    }
    const Block *body = reduce->body;
    const char *n = t->n, *i = index_c(e, loop_index(reduce)),
               *rows = cx_format(e->cx, "%s_rows", i);
    Dim index = t->index;
    int bound = t->nbound;
    put_scope(e);
    put(e, "int64_t %s = %s - %s;", rows, to, from);
    put(e, "%s = %s;", i, from);
    t->index = loop_index(reduce);
    t->n = rows;
    e->tile = reduce;
    tcc_first_lets(t, body, load->mark - 1);
    Scattered s = tcc_scattered(t, load->args[0], access_offset(e, load), false);
    prefetch_gathered(t, reduce, load, &s, rows, n);
    put(e, "%s(%s, %s, %s, %s, %s, %s);",
        tcc_strip(t, "strip_gathered_%s_%s", op_info[let_op(reduce)].name,
                  dtype_info[load->res[0]->type->dtype].name),
        sum->at, s.from, s.at, s.step, rows, n);
    tcc_free(t, &s.index);
    tcc_release(t, body);
    t->nbound = bound;
    t->index = index;
    t->n = n;
    e->tile = tile;
    put_close(e);
    return true;
}

bool
tcc_reduce_down(Tcc *t, const Let *reduce, Dtype dtype, const Place *sum, const char *from,
                const char *to)
{
    Emit *e = t->e;
    Term term;
    Rows x, y = {"0", dim_int(e->cx, 0), true};
    Dim along = loop_index(reduce);
    if (t->index != DIM_NONE && put_looked_up(t, reduce, dtype, sum, from, to)) {
        return true;
    }
    if (t->index == DIM_NONE || !term_find(reduce, dtype, &term) ||
        !has_strip(let_op(reduce), &term, true) || !find_rows(t, term.x, along, &x) || !x.varies ||
        (term.y && !find_second(t, reduce->body, term.y, dtype, along, &y))) {
        return false;
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
    Term term;
    Rows x, y = {.at = "0"};
    Dim along = loop_index(reduce);
    if (!term_find(reduce, dtype, &term) || !has_strip(let_op(reduce), &term, false) ||
        !find_rows(t, term.x, along, &x) || !x.varies || (term.y && let_in(reduce->body, term.y))) {
        return NULL;
    }
    if (term.y) {
        find_second(t, reduce->body, term.y, dtype, along, &y);
    }
    const char *bits = tcc_prefetch_bits(t, term.x, reduce, 0);
    if (!*bits && !term.y && term.lets == 1) {
        return NULL; /* strip_reduce does the same */
    }
    return cx_format(e->cx, "%s(%s, %s, w, %d%s)",
                     tcc_strip(t, "strip_along_%s_%s_%s", op_info[let_op(reduce)].name, term.form,
                               dtype_info[term.x->res[0]->type->dtype].name),
                     x.at, y.at, term.y ? 2 : 0, bits);
}
