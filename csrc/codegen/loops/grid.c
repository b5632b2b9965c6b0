/* Several short rows as one tile: a grid.
 *
 * How:      a loop of rows has vector loops of a few elements inside.  The elements of a tile are
 *           those of several rows, one row after the other.  An offset is decomposed by the index
 *           of the vector loop and by that of the rows.
 * Example:  4*i + 2*j for rows of 8 elements, i of the rows: WALK_GRID with the steps 4 and 2.
 */
#include <string.h>

#include "grid.h"
#include "term.h"

/* ---- how an offset goes through the elements of a tile ---- */

typedef struct {
    const Tile *tile;
    bool varies, each;
} Varies;

static void
see_varying(void *arg, Dim name)
{
    Varies *v = arg;
    const Tile *tile = v->tile;
    IndexKind bound = tile->bound ? tile->bound(tile->arg, name) : INDEX_SAME;
    v->each |= bound != INDEX_SAME && !(tile->row && bound == INDEX_BY_ROW);
    v->varies |= bound != INDEX_SAME || name == tile->index || name == tile->row;
}

static Varies
varies(const Tile *tile, Dim d)
{
    Varies v = {tile, false, false};
    if (tile->index != DIM_NONE) {
        dim_names(tile->cx, d, see_varying, &v);
    }
    return v;
}

bool
dim_varies(const Tile *tile, Dim d)
{
    return varies(tile, d).varies;
}

bool
dim_goes_by(const Tile *tile, Dim d, Dim name, Dim *step, Dim *rest)
{
    return dim_affine(tile->cx, d, name, step, rest) && !dim_varies(tile, *step);
}

/* Completes a walk that varies from row to row: w has the walk along a row, and w.start is the
 * beginning of a row. */
static Walk
walk_rows(const Tile *tile, Walk w)
{
    Dim rest;
    if (varies(tile, w.start).each) {
        w.kind = WALK_EACH;
    } else if (!dim_goes_by(tile, w.start, tile->row, &w.row_step, &rest) ||
               dim_varies(tile, rest)) {
        w.kind = WALK_ROWS;
    } else {
        w.kind = w.row_step == dim_mul(tile->cx, w.step, tile->columns) ? WALK_FLAT : WALK_GRID;
    }
    return w;
}

static Walk
walk(const Tile *tile, Dim d)
{
    Dim none = dim_int(tile->cx, 0);
    Walk w = {WALK_EACH, d, none, none};
    if (!dim_varies(tile, d)) {
        w.kind = WALK_ONE;
    } else if (dim_goes_by(tile, d, tile->index, &w.step, &w.start)) {
        bool left = dim_varies(tile, w.start);
        if (left && tile->row) {
            return walk_rows(tile, w);
        }
        w.kind = left ? WALK_EACH : tile->row ? WALK_GRID : WALK_FLAT;
    }
    return w;
}

Walk
walk_of(const Tile *tile, Dim d)
{
    Walk w = walk(tile, d);
    w.start = w.kind == WALK_EACH || !tile->row ? d : w.start;
    return w;
}

/* ---- lets of a grid ---- */

/* Does the access reach into a buffer of the row that has an element for each iteration of the
 * loop? */
static bool
is_of_row(const Facts *facts, const Let *access, const Let *loop)
{
    const Value *buffer = access->args[0];
    return loop && access->op != OP_update && buffer->def->parent == loop->parent &&
           facts_access(facts, access)->offset == loop_index(loop) &&
           type_numel(facts->cx, buffer->type) == loop_extent(loop);
}

bool
grid_may_have(const Facts *facts, const Let *let, const Let *loop)
{
    if (loop_is(let) || let->op == OP_buffer) {
        return !loop;
    }
    bool known = let_is_plain(let) || let->op == OP_store || let->op == OP_bind;
    return known && !(let_accesses(let) && facts_access(facts, let)->is_private &&
                      !is_of_row(facts, let, loop));
}

bool
grid_is_up_to(Cx *cx, const Let *loop, int64_t most)
{
    Range range = dim_range(cx, loop_extent(loop));
    return loop_is_vector(loop) && range.hi > 1 && range.hi <= most &&
           !dim_has_index(cx, loop_extent(loop));
}

/* Is there a strip that reduces rows of what the body returns? */
static bool
has_rows(const Let *reduce)
{
    const Value *v = reduce->body->rets[0];
    return let_in(reduce->body, v) &&
           term_has_strip("rows", let_op(reduce), "load", dtype_info[v->type->dtype].compute);
}

bool
grid_is_short(const Facts *facts, const Let *loop, int64_t most)
{
    bool is_short = grid_is_up_to(facts->cx, loop, most) && loop_count(loop->body) == 0;
    for (int k = 0; is_short && k < loop->body->n; k++) {
        is_short = grid_may_have(facts, loop->body->lets[k], loop);
    }
    return is_short && (loop->op == OP_for || has_rows(loop));
}

/* ---- rows where they are ---- */

/* Elements side by side in each row, and rows at even steps. */
static bool
find_operand(const Facts *facts, const Let *load, const Let *reduce, const Let *rows,
             RowsOperand *o)
{
    Dim start = facts_row(facts, load, loop_index(reduce));
    const Step *row = facts_step(facts, load, loop_index(rows));
    *o = (RowsOperand){.buffer = load->args[0], .start = start, .step = row ? row->step : DIM_NONE};
    return !facts_access(facts, load)->is_private &&
           !dim_is_bound_in(facts->cx, facts_access(facts, load)->offset, rows->body) &&
           start != DIM_NONE && row;
}

bool
grid_call(const Facts *facts, const Let *reduce, const Let *rows, RowsCall *call)
{
    const Value *ret = reduce->body->rets[0];
    Term term;
    if (!term_find(reduce, ret->type->dtype, &term) ||
        !find_operand(facts, term.x, reduce, rows, &call->a)) {
        return false;
    }
    bool square = strcmp(term.form, "square") == 0;
    call->form = square ? "mul" : term.form;
    call->b = square ? call->a : (RowsOperand){.outer = term.y};
    const Let *other = term.y ? let_in(reduce->body, term.y) : NULL;
    return term_has_strip("rows", let_op(reduce), call->form, call->a.buffer->type->dtype) &&
           (!other || find_operand(facts, other, reduce, rows, &call->b));
}

bool
grid_may_be_called(const Facts *facts, const Let *let, const Let *rows)
{
    RowsCall call;
    return let->op == OP_reduce && grid_is_up_to(facts->cx, let, DLC_BLOCK) &&
           grid_call(facts, let, rows, &call);
}

bool
grid_is_called(const Facts *facts, const Let *let, const Let *rows)
{
    return let_has(let, MARK_primitive) && grid_may_be_called(facts, let, rows);
}

/* ---- the rows of a tile ---- */

/* So many rows of up to so many that they are whole lines of the cache. */
static Dim
whole_lines(Cx *cx, Dim rows, Dim columns)
{
    int64_t n, row, unit = DLC_LINE / 4;
    if (!dim_is_int(cx, rows, &n) || !dim_is_int(cx, columns, &row)) {
        return rows;
    }
    while (unit > 1 && unit / 2 * row % (DLC_LINE / 4) == 0) {
        unit /= 2;
    }
    return n > unit ? dim_int(cx, n - n % unit) : rows;
}

Dim
grid_rows(const Facts *facts, const Let *rows, int64_t tile, int64_t row, int64_t called,
          bool possible)
{
    Cx *cx = facts->cx;
    Dim longest = dim_int(cx, 1), reduced = longest;
    for (int k = 0; k < rows->body->n; k++) {
        const Let *inner = rows->body->lets[k];
        if ((possible || let_has(inner, MARK_primitive)) &&
            grid_may_be_called(facts, inner, rows)) {
            reduced = dim_max(cx, reduced, loop_extent(inner));
        } else if (loop_is(inner) && grid_is_short(facts, inner, row)) {
            longest = dim_max(cx, longest, loop_extent(inner));
        }
    }
    Dim most = dim_div(cx, dim_int(cx, tile), longest);
    most = called ? dim_min(cx, most, dim_div(cx, dim_int(cx, called), reduced)) : most;
    return whole_lines(cx, most, longest);
}
