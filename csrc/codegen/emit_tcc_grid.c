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

/* The elements of a short vector loop of scalars, or 0. */
static int
row_length(const Emit *e, const Let *loop)
{
    int64_t n = 0;
    bool short_ = loop_has(loop, "vector") && dim_is_int(e->cx, loop_extent(loop), &n) && n > 1 &&
                  n <= GRID_COLUMNS && loop_count(loop->body) == 0 && has_plain_lets(e, loop->body, loop);
    return short_ && (loop->op == OP_for || tcc_has_rows(loop)) ? (int)n : 0;
}

/* The elements of a row that one call reduces with those of other rows, where they lie, or 0. */
static int
called_length(Tcc *t, const Let *reduce, const Let *loop)
{
    int64_t n = 0;
    bool called = reduce->op == OP_reduce && loop_has(reduce, "vector") &&
                  dim_is_int(t->e->cx, loop_extent(reduce), &n) && n > 1 && n <= DLC_BLOCK &&
                  tcc_is_rows_call(t, reduce, loop);
    return called ? (int)n : 0;
}

/* Elements of the longest row of the loop that becomes a tile, or 0 where its rows cannot be a grid. */
static int
longest_row(Tcc *t, const Let *loop)
{
    int longest = 0;
    if (loop->op != OP_for || loop_has(loop, "vector") || loop_has(loop, "tile") || loop_has(loop, "chains") ||
        loop_is_chain(loop) || !has_plain_lets(t->e, loop->body, NULL)) {
        return 0;
    }
    for (int k = 0; k < loop->body->n; k++) {
        const Let *inner = loop->body->lets[k];
        int n = !is_row(inner) ? 0 : called_length(t, inner, loop) ? 1 : row_length(t->e, inner);
        if (is_row(inner) && n == 0) {
            return 0;
        }
        longest = n > longest ? n : longest;
    }
    return longest;
}

/* Rows of a tile: those that calls reduce where they lie stay near for the next one. */
static int
rows_of_tile(Tcc *t, const Let *loop)
{
    int rows = GRID_TILE / longest_row(t, loop);
    for (int k = 0; k < loop->body->n; k++) {
        int n = called_length(t, loop->body->lets[k], loop);
        rows = n > 0 && NEAR_ROWS / n < rows ? NEAR_ROWS / n : rows;
    }
    return rows;
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
    int64_t n = 0;
    dim_is_int(t->e->cx, loop_extent(loop), &n);
    t->columns = (int)n;
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
    for (int k = 0; k < loop->body->n; k++) {
        const Let *inner = loop->body->lets[k];
        alone += op_info[inner->op].kind == KIND_MAP ? (int64_t)t->rows * ONE : 0;
        if (is_row(inner) && inner->op == OP_reduce && tcc_is_rows_call(t, inner, loop)) {
            alone += (int64_t)t->rows * CALL;
        } else if (is_row(inner)) {
            enter_row(t, inner);
            Work work = work_of(t, inner);
            alone += (int64_t)t->rows * (work.calls + 1) * CALL;
            together += (int64_t)(work.calls + 1 + work.moves) * CALL +
                        (int64_t)work.moves * t->rows * t->columns;
            leave_row(t);
        }
    }
    leave_grid(t);
    return alone > together;
}

bool
tcc_is_grid(Tcc *t, const Let *loop)
{
    return t->index == DIM_NONE && longest_row(t, loop) > 0 && dim_range(t->e->cx, loop_extent(loop)).hi > 1 && pays(t, loop);
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
            t->kept[t->nkept++] = (Kept){load, tcc_take(t, load, &walk, cx_format(t->e->cx, "%d", t->rows))};
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
    put(e, "rows = hi - %s < %d ? hi - %s : %d;", first, rows_of_tile(t, rows), first, rows_of_tile(t, rows));
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
    int rows = rows_of_tile(t, loop);
    put_scope(e);
    tcc_width(t, GRID_TILE);
    bool any = dim_range(e->cx, loop_extent(loop)).lo > 0;
    keep_rows(t, loop, any ? NULL : cx_format(e->cx, "%s > 0", extent));
    put(e, "int64_t %s, rows;", i);
    put_open(e, "for (%s = 0; %s < %s; %s += rows)", i, i, extent, i);
    put(e, "rows = %s - %s < %d ? %s - %s : %d;", extent, i, rows, extent, i, rows);
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
    put(e, "%s(%s, %s, 0, 1, 0, rows, %d);",
        tcc_strip(t, "strip_take_%d", dtype_info[dtype_info[v->type->dtype].compute].bytes), copy.at, p.at,
        t->columns);
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
    put(e, "int64_t w = rows * %d;", t->columns);
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
