/* Grids: several short rows as one tile, for the libtcc tier.
 *
 * What:     the statements of a loop around vector loops of a few elements each, whose iterations are
 *           its rows: so many of them run together that their elements fill a tile.
 * Requires: a loop of independent iterations that tcc_is_grid has accepted.
 * Ensures:  each element's operations as without; rows change places.
 * How:      what stands in the loop itself is a tile of an element for each row; what stands in a loop
 *           inside is a tile of all elements of those rows, one row after the other.  An operand that
 *           lies in memory that way is used where it lies; else its rows are taken together by one
 *           strip, before the loop if all tiles have the same.  What a row has one of is spread over
 *           the row's elements.  Results that lie otherwise are put there by one strip.  A reduction
 *           inside gives an element for each row, see emit_tcc_rows.c; a buffer of the iteration has a
 *           row for each.
 * Why not:  strips with a step for each operand: a row of 32 elements costs as much to begin as to
 *           compute, for every operand of every strip.
 * Example:  y[i, j] = x[i, j] - m[j] for j < 3:
 *               strip_take_4(tile4_0, m, 0, 0, 1, 170, 3);
 *               for (i = lo; i < hi; i += rows) strip_sub_f32(y + 3*i, x + 3*i, tile4_0, rows * 3, 0);
 */
#include "emit_tcc.h"

enum {
    GRID_TILE = 512,            /* elements of a tile */
    GRID_COLUMNS = 128,         /* most elements of a row */
    NEAR_ROWS = 4096,           /* elements of rows that are reduced where they lie */
    CALL = 128,                 /* elements that a strip goes over in the time that calling it takes */
    ONE = 64,                   /* the same of what is done for one element, by a strip or without */
};

/* ---- what becomes a grid ---- */

static bool
is_row(const Let *let)
{
    return let->op == OP_for || let->op == OP_reduce;
}

/* Does the access reach into a buffer of the row that has an element for each iteration of the loop? */
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
is_plain(const Emit *e, const Let *let, const Let *loop)
{
    if (is_row(let) || let->op == OP_buffer) {
        return !loop;
    }
    bool known = let->op == OP_load || let->op == OP_store || let->op == OP_size || let->op == OP_bind ||
                 let->op == OP_const || op_info[let->op].kind == KIND_MAP;
    return known && !(let_accesses(let) && is_private(e, let->args[0]) && !is_of_row(e, let, loop));
}

static bool
has_plain_lets(const Emit *e, const Block *blk, const Let *loop)
{
    for (int k = 0; k < blk->n; k++) {
        if (!is_plain(e, blk->lets[k], loop)) {
            return false;
        }
    }
    return true;
}

/* May a row of the vector loop have more than one element, but never more than so many?  Each is as long. */
static bool
is_up_to(Cx *cx, const Let *loop, int64_t most)
{
    Range range = dim_range(cx, loop_extent(loop));
    return loop_has(loop, "vector") && range.hi > 1 && range.hi <= most && !has_index(cx, loop_extent(loop));
}

/* Is it a short vector loop of scalars? */
static bool
is_short(const Emit *e, const Let *loop)
{
    return is_up_to(e->cx, loop, GRID_COLUMNS) && loop_count(loop->body) == 0 &&
           has_plain_lets(e, loop->body, loop) && (loop->op == OP_for || tcc_has_rows(loop));
}

/* Does one call reduce the row with others, where they lie? */
static bool
is_called(Tcc *t, const Let *reduce, const Let *loop)
{
    return is_up_to(t->e->cx, reduce, DLC_BLOCK) && tcc_is_rows_call(t, reduce, loop);
}

/* Can the rows of the loop be a grid? */
static bool
has_rows(Tcc *t, const Let *loop)
{
    int rows = 0;
    if (loop->op != OP_for || loop_has(loop, "vector") || loop_has(loop, "tile") || loop_has(loop, "chains") ||
        loop_is_chain(loop) || !has_plain_lets(t->e, loop->body, NULL)) {
        return false;
    }
    for (int k = 0; k < loop->body->n; k++) {
        const Let *inner = loop->body->lets[k];
        if (is_row(inner) && !(inner->op == OP_reduce && is_called(t, inner, loop)) && !is_short(t->e, inner)) {
            return false;
        }
        rows += is_row(inner);
    }
    return rows > 0;
}

/* Rows of a tile: so many that the longest that becomes one fills it, and that those which calls reduce where
 * they lie stay near for the next call. */
static Dim
rows_of_tile(Tcc *t, const Let *loop)
{
    Cx *cx = t->e->cx;
    Dim longest = dim_int(cx, 1), called = longest;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *inner = loop->body->lets[k];
        if (inner->op == OP_reduce && is_called(t, inner, loop)) {
            called = dim_max(cx, called, loop_extent(inner));
        } else if (is_row(inner)) {
            longest = dim_max(cx, longest, loop_extent(inner));
        }
    }
    return dim_min(cx, dim_div(cx, dim_int(cx, GRID_TILE), longest), dim_div(cx, dim_int(cx, NEAR_ROWS), called));
}

/* Rows of a buffer, none longer than the longest. */
const char *
tcc_grid_buffer(Tcc *t, const Value *v)
{
    return scratch_room(t->e, dim_int(t->e->cx, GRID_TILE * dtype_info[v->type->dtype].bytes));
}

static void
enter_grid(Tcc *t, const Let *loop)
{
    t->grid = loop;
    t->rows = rows_of_tile(t, loop);
    t->index = loop_index(loop);
    t->n = "rows";
    t->e->tile = loop;
}

static void
leave_grid(Tcc *t)
{
    t->grid = t->e->tile = NULL;
    t->index = DIM_NONE;
    t->n = "1";
}

static void
enter_row(Tcc *t, const Let *loop)
{
    t->columns = loop_extent(loop);
    t->row = t->index;
    t->index = loop_index(loop);
    t->n = "w";
    t->e->tile = loop;
}

static void
leave_row(Tcc *t)
{
    t->index = t->row;
    t->row = DIM_NONE;
    t->n = "rows";
    t->e->tile = t->grid;
}

/* ---- does it pay? ---- */

typedef struct { int calls, moves; } Work;

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
            bool lies = walk.kind == WALK_ONE || (walk.kind == WALK_FLAT && dim_is(t->e->cx, walk.step, 1));
            bool same = let->op == OP_load && walk.kind == WALK_GRID && dim_is(t->e->cx, walk.row_step, 0);
            work.calls += is_narrow(let->args[0]->type->dtype) || walk.kind == WALK_EACH;
            lies |= let->op == OP_load && tcc_lies(t, let);
            work.moves += !lies && !same;
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
pays(Tcc *t, const Let *loop)
{
    int64_t alone = 0, together = 0;
    enter_grid(t, loop);
    int64_t rows = dim_range(t->e->cx, t->rows).lo;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *inner = loop->body->lets[k];
        alone += op_info[inner->op].kind == KIND_MAP ? rows * ONE : 0;
        if (inner->op == OP_reduce && is_called(t, inner, loop)) {
            alone += rows * CALL;
        } else if (is_row(inner)) {
            enter_row(t, inner);
            Work work = work_of(t, inner);
            alone += rows * (work.calls + 1) * CALL;
            together += (int64_t)(work.calls + 1 + work.moves) * CALL +
                        work.moves * rows * dim_range(t->e->cx, t->columns).hi;
            leave_row(t);
        }
    }
    leave_grid(t);
    return alone > together;
}

bool
tcc_is_grid(Tcc *t, const Let *loop)
{
    return t->index == DIM_NONE && has_rows(t, loop) && dim_range(t->e->cx, loop_extent(loop)).hi > 1 && pays(t, loop);
}

/* ---- rows that all tiles have ---- */

typedef struct { const Emit *e; bool inside; } Inside;

static void
see_inside(void *arg, Dim name)
{
    Inside *i = arg;
    i->inside |= i->e->nchain > 0 && dim_extent(i->e->cx, name) != DIM_NONE;
}

/* Can the rows be taken before the loop?  `chained`: before all loops. */
static bool
is_kept(Tcc *t, const Walk *walk, bool chained)
{
    Inside inside = {t->e, false};
    if (chained) {
        dim_names(t->e->cx, walk->start, see_inside, &inside);
    }
    return walk->kind == WALK_GRID && dim_is(t->e->cx, walk->row_step, 0) && !inside.inside;
}

/* Does the offset want an index that is bound in the block? */
static bool
is_looked_up(const Tcc *t, const Block *block, Dim offset)
{
    bool found = false;
    for (int k = 0; k < block->n; k++) {
        const Let *let = block->lets[k];
        found |= let->op == OP_bind && dim_uses(t->e->cx, offset, let->sizes[0]);
    }
    return found;
}

static void
keep_row(Tcc *t, const Let *inner, bool chained)
{
    enter_row(t, inner);
    for (int k = 0; k < inner->body->n; k++) {
        const Let *load = inner->body->lets[k];
        if (load->op != OP_load || is_private(t->e, load->args[0]) || tcc_lies(t, load)) {
            continue;
        }
        Dim offset = access_offset(t->e, load);
        Walk walk = tcc_walk(t, offset);
        if (is_kept(t, &walk, chained) && !is_looked_up(t, inner->body, offset) &&
            !is_looked_up(t, inner->parent, offset)) {
            t->kept = cx_grow(t->e->cx, t->kept, t->nkept, sizeof *t->kept);
            t->kept[t->nkept++] = (Kept){load, tcc_take(t, load, &walk, dim_c(t->e, t->rows))};
        }
    }
    leave_row(t);
}

/* Takes what all tiles have, if there is a tile at all: where `any` is NULL there is. */
static void
keep_rows(Tcc *t, const Let *loop, const char *any)
{
    Emit *e = t->e;
    Text *out = e->out, taken = {.cx = e->cx};
    bool chained = chain_at(e, loop) >= 0;
    e->out = &taken;
    e->indent += any != NULL;
    enter_grid(t, loop);
    for (int k = 0; k < loop->body->n; k++) {
        const Let *inner = loop->body->lets[k];
        if (inner->op == OP_for || (inner->op == OP_reduce && !tcc_is_rows_call(t, inner, loop))) {
            keep_row(t, inner, chained);
        }
    }
    leave_grid(t);
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
tcc_kept(const Tcc *t, const Let *load)
{
    for (int k = 0; k < t->nkept; k++) {
        if (t->kept[k].load == load) {
            return &t->kept[k].place;
        }
    }
    return NULL;
}

/* ---- loops ---- */

/* The loop of rows among the parallel ones: the last, or the one around the last, which has one tile alone. */
static const Let *
chained_rows(const Emit *e)
{
    int last = e->nchain - 1;
    bool vector = last >= 0 && loop_has(e->chain[last], "vector");
    return last - vector >= 0 ? e->chain[last - vector] : NULL;
}

int
tcc_open_grid(Tcc *t)
{
    Emit *e = t->e;
    const Let *rows = chained_rows(e);
    if (!rows || !tcc_is_grid(t, rows)) {
        return 0;
    }
    int n = chain_at(e, rows) + 1;
    tcc_width(t, GRID_TILE);
    keep_rows(t, rows, "lo < hi");
    const char *first = n == 1 ? index_c(e, loop_index(rows)) : "t";
    put(e, "int64_t %s, rows;", first);
    put_open(e, "for (%s = lo; %s < hi; %s += rows)", first, first, first);
    const char *most = dim_c(e, rows_of_tile(t, rows));
    put(e, "rows = hi - %s < %s ? hi - %s : %s;", first, most, first, most);
    const char *rest = "t";
    for (int k = n - 1; k > 0; k--) {
        const char *name = index_c(e, loop_index(e->chain[k])), *count = dim_c(e, e->counts[k]);
        const char *over = k == 1 ? index_c(e, loop_index(e->chain[0])) : cx_format(e->cx, "t%d_rest", k);
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
    tcc_width(t, GRID_TILE);
    enter_grid(t, loop);
    tcc_lets(t, loop->body);
    tcc_release(t, loop->body);
    leave_grid(t);
}

void
tcc_grid(Tcc *t, const Let *loop)
{
    Emit *e = t->e;
    int kept = t->nkept;
    if (chain_at(e, loop) >= 0) {
        put_grid(t, loop);
        return;
    }
    const char *i = index_c(e, loop_index(loop)), *extent = dim_c(e, loop_extent(loop));
    const char *rows = dim_c(e, rows_of_tile(t, loop));
    put_scope(e);
    tcc_width(t, GRID_TILE);
    bool any = dim_range(e->cx, loop_extent(loop)).lo > 0;
    keep_rows(t, loop, any ? NULL : cx_format(e->cx, "%s > 0", extent));
    put(e, "int64_t %s, rows;", i);
    put_open(e, "for (%s = 0; %s < %s; %s += rows)", i, i, extent, i);
    put(e, "rows = %s - %s < %s ? %s - %s : %s;", extent, i, rows, extent, i, rows);
    put_grid(t, loop);
    put_close(e);
    put_close(e);
    while (t->nkept > kept) {
        tcc_free(t, &t->kept[--t->nkept].place);
    }
}

/* ---- rows ---- */

/* What each row has one of, for the loop in it: the values, and where they were before. */
typedef struct { const Value **values; Place *before; int n; } Spread;

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
        tcc_strip(t, "strip_take_%d", dtype_info[dtype_info[v->type->dtype].compute].bytes), copy.at, p.at,
        dim_c(e, t->columns));
    s->values = cx_grow(e->cx, s->values, s->n, sizeof *s->values);
    s->before = cx_grow(e->cx, s->before, s->n, sizeof *s->before);
    s->values[s->n] = v;
    s->before[s->n++] = p;
    copy.last = p.last;
    t->places[v->id] = copy;
}

static void
gather_up(Tcc *t, Spread *s)
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
    const Let *size = tcc_is_comparison(let) ? t->pairs[let->res[0]->id].first : NULL;
    return !(size && size->res[0] != let->args[arg] && tcc_by_rows(t, size));
}

void
tcc_grid_row(Tcc *t, const Let *loop)
{
    Emit *e = t->e;
    Spread s = {0};
    bool reduces = loop->op == OP_reduce;
    if (reduces && tcc_put_rows_call(t, loop)) {
        return;
    }
    Place out = reduces ? tcc_room(t, loop->body->rets[0]->type->dtype, true, NULL) : (Place){.slot = -1};
    put_scope(e);
    enter_row(t, loop);
    put(e, "int64_t w = rows * %s;", dim_c(e, t->columns));
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
    gather_up(t, &s);
    leave_row(t);
    put_close(e);
    if (reduces) {
        tcc_bind(t, loop->res[0], out);
    }
}
