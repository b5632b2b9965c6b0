/* Grids: several short rows as one tile, for the libtcc tier.
 *
 * What:     the statements of a loop around vector loops of a few elements each, whose iterations
 *           are its rows: so many of them run together that their elements fill a tile.
 * Requires: a loop of independent iterations that tcc_is_grid has accepted.
 * Ensures:  each element's operations as without; rows change places.
 * How:      what stands in the loop itself is a tile of an element for each row; what stands in a
 *           loop inside is a tile of all elements of those rows, one row after the other.  An
 *           operand that is in memory that way is used where it is; else its rows are taken
 *           together by one strip, before the loop if all tiles have the same.  What a row has one
 *           of is spread over the row's elements.  Results that have another layout are put there
 *           by one strip.  A reduction inside gives an element for each row, see emit_tcc_rows.c; a
 *           buffer of the iteration has a row for each.  Rows in the caches that are too long for a
 *           tile may be a grid for their reductions' sake, see emit_tcc_grid_row.c.
 * Why not:  strips with a step for each operand: a row of 32 elements costs as much to begin as to
 *           compute, for every operand of every strip.
 * Example:  y[i, j] = x[i, j] - m[j] for j < 3:
 *               strip_take_4(tile4_0, m, 0, 0, 1, 170, 3);
 *               for (i = lo; i < hi; i += rows)
 *                   strip_sub_f32(y + 3*i, x + 3*i, tile4_0, rows * 3, 0);
 */
#include "emit_tcc.h"

/* ---- what becomes a grid ---- */

/* Does the access reach into a buffer of the row that has an element for each iteration of the
 * loop? */
static bool
is_of_row(const Emit *e, const Let *access, const Let *loop)
{
    const Value *buffer = access->args[0];
    return loop && access->op != OP_update && buffer->def->parent == loop->parent &&
           access_offset((Emit *)e, access) == loop_index(loop) &&
           type_numel(e->cx, buffer->type) == loop_extent(loop);
}

/* Of a row of the grid, which is the loop, or of its rows: then the loop is NULL. */
static bool
may_be_in_grid(const Emit *e, const Let *let, const Let *loop)
{
    if (loop_is(let) || let->op == OP_buffer) {
        return !loop;
    }
    bool known = let_is_plain(let) || let->op == OP_store || let->op == OP_bind;
    return known && !(let_accesses(let) && is_private(e, let->args[0]) && !is_of_row(e, let, loop));
}

static bool
may_be_grid(const Emit *e, const Block *blk, const Let *loop)
{
    for (int k = 0; k < blk->n; k++) {
        if (!may_be_in_grid(e, blk->lets[k], loop)) {
            return false;
        }
    }
    return true;
}

/* May a row of the vector loop have more than one element, but never more than so many?  Each is as
 * long. */
static bool
is_up_to(Cx *cx, const Let *loop, int64_t most)
{
    Range range = dim_range(cx, loop_extent(loop));
    return loop_is_vector(loop) && range.hi > 1 && range.hi <= most &&
           !dim_has_index(cx, loop_extent(loop));
}

/* Is it a short vector loop of scalars? */
bool
tcc_is_short(const Emit *e, const Let *loop)
{
    return is_up_to(e->cx, loop, DLC_GRID_COLUMNS) && loop_count(loop->body) == 0 &&
           may_be_grid(e, loop->body, loop) && (loop->op == OP_for || tcc_has_rows(loop));
}

/* Does one call reduce the row with others, where they are? */
static bool
is_called(Tcc *t, const Let *reduce, const Let *loop)
{
    return is_up_to(t->e->cx, reduce, DLC_BLOCK) && tcc_is_rows_call(t, reduce, loop);
}

/* Is it a vector loop of scalars that runs one row at a time, after calls have reduced several? */
static bool
is_long(const Emit *e, const Let *loop)
{
    return loop->op == OP_for && is_up_to(e->cx, loop, DLC_BLOCK) && loop_count(loop->body) == 0 &&
           collapsed_at(e, loop) < 0 && loop != e->columns;
}

/* Do all rows of the loop, none longer than so many elements, stay in caches near a core? */
static bool
are_cached(const Emit *e, const Let *loop, int64_t longest)
{
    Nest nest = nest_of(e);
    return dim_range(e->cx, nest_iterations(&nest, loop)).hi <= DLC_CORE / longest;
}

/* Loops of the rows that a grid could be of: those of a tile, calls, and long ones. */
typedef struct {
    int rows, calls, longs;
    int64_t called;
} Kinds;

static Kinds
kinds_of(Tcc *t, const Let *loop)
{
    Kinds kinds = {0};
    for (int k = 0; k < loop->body->n; k++) {
        const Let *inner = loop->body->lets[k];
        if (!loop_is(inner)) {
            continue;
        }
        kinds.rows++;
        if (inner->op == OP_reduce && is_called(t, inner, loop)) {
            int64_t hi = dim_range(t->e->cx, loop_extent(inner)).hi;
            kinds.calls++;
            kinds.called = hi > kinds.called ? hi : kinds.called;
        } else if (!tcc_is_short(t->e, inner)) {
            kinds.longs++;
            kinds.rows -= is_long(t->e, inner) ? 0 : DLC_CORE;
        }
    }
    return kinds;
}

/* Does a row have what a long loop could not use as one element: a buffer, an index that is looked
 * up? */
static bool
has_more(const Let *loop)
{
    bool found = false;
    for (int k = 0; k < loop->body->n; k++) {
        Op op = loop->body->lets[k]->op;
        found |= op == OP_buffer || op == OP_bind;
    }
    return found;
}

/* Can the rows of the loop be a grid? */
static bool
has_rows(Tcc *t, const Let *loop)
{
    if (loop->op != OP_for || let_has(loop, MARK_vector) || let_has(loop, MARK_tile) ||
        let_has(loop, MARK_recurrences) || loop_is_recurrence(loop) ||
        !may_be_grid(t->e, loop->body, NULL)) {
        return false;
    }
    Kinds kinds = kinds_of(t, loop);
    return kinds.rows > 0 && (!kinds.longs || (kinds.calls > 1 && !has_more(loop) &&
                                               are_cached(t->e, loop, kinds.called)));
}

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

/* Rows of a tile: so many that the longest that becomes one fills it, and that those which calls
 * reduce where they are stay near for the next call. */
static Dim
rows_of_tile(Tcc *t, const Let *loop)
{
    Cx *cx = t->e->cx;
    Dim longest = dim_int(cx, 1), called = longest;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *inner = loop->body->lets[k];
        if (inner->op == OP_reduce && is_called(t, inner, loop)) {
            called = dim_max(cx, called, loop_extent(inner));
        } else if (loop_is(inner) && tcc_is_short(t->e, inner)) {
            longest = dim_max(cx, longest, loop_extent(inner));
        }
    }
    Dim most = dim_min(cx, dim_div(cx, dim_int(cx, DLC_GRID), longest),
                       dim_div(cx, dim_int(cx, DLC_GRID_ROWS), called));
    return whole_lines(cx, most, longest);
}

/* Rows of a buffer, none longer than the longest. */
const char *
tcc_grid_buffer(Tcc *t, const Value *v)
{
    return scratch_room(t->e, dim_int(t->e->cx, DLC_GRID * dtype_info[v->type->dtype].bytes));
}

void
tcc_enter_grid(Tcc *t, const Let *loop)
{
    t->grid = loop;
    t->rows = rows_of_tile(t, loop);
    t->index = loop_index(loop);
    t->n = "rows";
    t->e->tile = loop;
    t->prefetches = true;
}

void
tcc_leave_grid(Tcc *t)
{
    t->grid = t->e->tile = NULL;
    t->index = DIM_NONE;
    t->n = "1";
}

void
tcc_enter_row(Tcc *t, const Let *loop)
{
    t->columns = loop_extent(loop);
    t->row = t->index;
    t->index = loop_index(loop);
    t->n = "w";
    t->e->tile = loop;
}

void
tcc_leave_row(Tcc *t)
{
    t->index = t->row;
    t->row = DIM_NONE;
    t->n = "rows";
    t->e->tile = t->grid;
    t->prefetches = true;
}

/* ---- does it pay? ---- */

typedef struct {
    int calls, moves;
} Work;

/* Strips of a loop, and those that only move elements of a grid. */
static Work
work_of(Tcc *t, const Let *loop)
{
    Work work = {0};
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        work.calls += op_info[let->op].kind == KIND_MAP || let->op == OP_bind;
        if (let_accesses(let) && !is_private(t->e, let->args[0])) {
            Walk walk = tcc_walk(t, access_offset(t->e, let));
            bool ready = walk.kind == WALK_ONE ||
                         (walk.kind == WALK_FLAT && dim_is(t->e->cx, walk.step, 1));
            bool same = let->op == OP_load && walk.kind == WALK_GRID &&
                        dim_is(t->e->cx, walk.row_step, 0);
            work.calls += is_narrow(let->args[0]->type->dtype) || walk.kind == WALK_EACH;
            ready |= let->op == OP_load && tcc_in_place_rows(t, let);
            work.moves += !ready && !same;
        }
        for (int j = 0; j < let->nargs; j++) {
            const Value *v = let->args[j];
            work.moves += !value_is_const(v) && v->def && v->def->parent == t->grid->body;
        }
    }
    return work;
}

/* Fewer calls, but more elements moved. */
static bool
is_profitable(Tcc *t, const Let *loop)
{
    int64_t alone = 0, together = 0;
    tcc_enter_grid(t, loop);
    int64_t rows = dim_range(t->e->cx, t->rows).lo;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *inner = loop->body->lets[k];
        alone += op_info[inner->op].kind == KIND_MAP ? rows * DLC_STRIP_ELEMENT : 0;
        if (inner->op == OP_reduce && is_called(t, inner, loop)) {
            alone += rows * DLC_STRIP_CALL;
        } else if (loop_is(inner) && tcc_is_short(t->e, inner)) {
            tcc_enter_row(t, inner);
            Work work = work_of(t, inner);
            alone += rows * (work.calls + 1) * DLC_STRIP_CALL;
            together += (int64_t)(work.calls + 1 + work.moves) * DLC_STRIP_CALL +
                        work.moves * rows * dim_range(t->e->cx, t->columns).hi;
            tcc_leave_row(t);
        }
    }
    tcc_leave_grid(t);
    return alone > together;
}

bool
tcc_is_grid(Tcc *t, const Let *loop)
{
    return t->index == DIM_NONE && has_rows(t, loop) &&
           dim_range(t->e->cx, loop_extent(loop)).hi > 1 && is_profitable(t, loop);
}

/* ---- rows that all tiles have ---- */

/* Can the rows be taken before the loop?  `collapsed`: before all loops. */
static bool
can_materialise(Tcc *t, const Walk *walk, bool collapsed)
{
    bool inside = collapsed && t->e->ncollapsed > 0 && dim_has_index(t->e->cx, walk->start);
    return walk->kind == WALK_GRID && dim_is(t->e->cx, walk->row_step, 0) && !inside;
}

static void
materialise_row(Tcc *t, const Let *inner, bool collapsed)
{
    tcc_enter_row(t, inner);
    for (int k = 0; k < inner->body->n; k++) {
        const Let *load = inner->body->lets[k];
        if (load->op != OP_load || is_private(t->e, load->args[0]) || tcc_in_place_rows(t, load)) {
            continue;
        }
        Dim offset = access_offset(t->e, load);
        Walk walk = tcc_walk(t, offset);
        if (can_materialise(t, &walk, collapsed) &&
            !dim_is_bound_in(t->e->cx, offset, inner->body) &&
            !dim_is_bound_in(t->e->cx, offset, inner->parent)) {
            t->materialised = cx_grow(t->e->cx, t->materialised, t->nmaterialised,
                                      sizeof *t->materialised);
            t->materialised[t->nmaterialised++] = (Materialised){
                load, tcc_take(t, load, &walk, dim_c(t->e, t->rows))};
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
    bool collapsed = collapsed_at(e, loop) >= 0;
    e->out = &taken;
    e->indent += any != NULL;
    tcc_enter_grid(t, loop);
    for (int k = 0; k < loop->body->n; k++) {
        const Let *inner = loop->body->lets[k];
        bool called = inner->op == OP_reduce && tcc_is_rows_call(t, inner, loop);
        if (loop_is(inner) && tcc_is_short(t->e, inner) && !called) {
            materialise_row(t, inner, collapsed);
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

/* The loop of rows among the parallel ones: the last, or the one around the last, which has one
 * tile alone. */
static const Let *
collapsed_rows(const Emit *e)
{
    int last = e->ncollapsed - 1;
    bool vector = last >= 0 && let_has(e->collapsed[last], MARK_vector);
    return last - vector >= 0 ? e->collapsed[last - vector] : NULL;
}

int
tcc_open_grid(Tcc *t)
{
    Emit *e = t->e;
    const Let *rows = collapsed_rows(e);
    if (!rows || !tcc_is_grid(t, rows)) {
        return 0;
    }
    int n = collapsed_at(e, rows) + 1;
    tcc_width(t, DLC_GRID);
    materialise_rows(t, rows, "lo < hi");
    const char *first = n == 1 ? index_c(e, loop_index(rows)) : "t";
    put(e, "int64_t %s, rows;", first);
    put_open(e, "for (%s = lo; %s < hi; %s += rows)", first, first, first);
    const char *most = dim_c(e, rows_of_tile(t, rows));
    put(e, "rows = hi - %s < %s ? hi - %s : %s;", first, most, first, most);
    const char *rest = "t";
    for (int k = n - 1; k > 0; k--) {
        const char *name = index_c(e, loop_index(e->collapsed[k])), *count = dim_c(e, e->counts[k]);
        const char *over = k == 1 ? index_c(e, loop_index(e->collapsed[0]))
                                  : cx_format(e->cx, "t%d_rest", k);
        put(e, "const int64_t %s = %s / %s, %s = %s %% %s;", over, rest, count, name, rest, count);
        rest = over;
    }
    if (n > 1) {
        const char *i = index_c(e, loop_index(rows)), *extent = dim_c(e, loop_extent(rows));
        put(e, "rows = %s - %s < rows ? %s - %s : rows;", extent, i, extent, i);
    }
    return 1;
}

static void
put_grid(Tcc *t, const Let *loop)
{
    tcc_width(t, DLC_GRID);
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
    const char *rows = dim_c(e, rows_of_tile(t, loop));
    put_scope(e);
    tcc_width(t, DLC_GRID);
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
