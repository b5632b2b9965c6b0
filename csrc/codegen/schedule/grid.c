/* Grids: several short rows as one tile.
 *
 * What:     marks loops around vector loops of a few elements `grid`: as many of their iterations
 *           run together as fill a tile.
 * Requires: a scheduled function.
 * Ensures:  each element's operations as without; rows change places (V38).  What a load marked
 *           `uniform` reads is the same for all of them, and is copied before the loop (V45).
 * How:      What stands in the loop itself is computed for a tile of an element for each row, what
 *           stands in a loop inside for all elements of those rows.  That saves calls, but operands
 *           with another layout are moved into the tile, and what a row has one of is spread.  So
 *           both ways are counted in elements that a vector primitive computes in the time.
 *           Reductions of rows that stay cached may take rows that are too long for a tile,
 *           several in one call, if a row has several of them: the next reduction does not wait for
 *           the last of the additions.
 * Why not:  a step for each operand: a row of 32 elements costs as much to begin as to compute, for
 *           every operand of every call.
 * Example:  y[i, j] = x[i, j] - m[j] for j < 3: for i in N parallel grid=512 grid_row=128 { .. }
 */
#include "codegen/loops/grid.h"
#include "codegen/loops/pairs.h"
#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

/* The phase, and what lets one primitive computes, when that has been looked for. */
typedef struct {
    const PhaseView *phase;
    const Facts *facts;
    Pairs *pairs;
} View;

static const Pairs *
pairs_of(View *v)
{
    if (!v->pairs) {
        v->pairs = pairs_find(v->facts->cx, v->phase->fn->nvalues, v->facts->kernel->body);
    }
    return v->pairs;
}

/* ---- loops that may be one ---- */

/* Is it a vector loop of scalars that runs one row at a time, after calls have reduced several?  It
 * has what a short loop may have: no access to a buffer of all rows. */
static bool
is_long(const View *v, const Let *loop)
{
    return loop->op == OP_for && grid_is_short(v->facts, loop, DLC_BLOCK) &&
           !let_has(loop, MARK_parallel);
}

/* Do all rows of the loop, none longer than so many elements, stay in the caches of a core? */
static bool
are_cached(const View *v, const Let *rows, int64_t longest)
{
    return dim_range(v->facts->cx, nest_iterations(&v->phase->nest, rows)).hi <= DLC_CORE / longest;
}

/* Does a row have what a long loop could not use as one element: a buffer, an index that is looked
 * up? */
static bool
has_more(const Let *rows)
{
    bool found = false;
    for (int k = 0; k < rows->body->n; k++) {
        Op op = rows->body->lets[k]->op;
        found |= op == OP_buffer || op == OP_bind;
    }
    return found;
}

/* Loops of a row: the reductions that are calls, and the longest of these; long ones; others that
 * are not short. */
typedef struct {
    int loops, calls, longs, others;
    int64_t called;
} Kinds;

static Kinds
kinds_of(const View *v, const Let *rows)
{
    Kinds kinds = {0};
    for (int k = 0; k < rows->body->n; k++) {
        const Let *inner = rows->body->lets[k];
        if (!loop_is(inner)) {
            continue;
        }
        kinds.loops++;
        if (grid_may_be_called(v->facts, inner, rows)) {
            int64_t hi = dim_range(v->facts->cx, loop_extent(inner)).hi;
            kinds.calls++;
            kinds.called = hi > kinds.called ? hi : kinds.called;
        } else if (!grid_is_short(v->facts, inner, DLC_GRID_COLUMNS) ||
                   let_has(inner, MARK_parallel)) {
            bool is_row = is_long(v, inner);
            kinds.longs += is_row;
            kinds.others += !is_row;
        }
    }
    return kinds;
}

static bool
has_rows(const View *v, const Let *rows, const Kinds *kinds)
{
    bool known = true;
    for (int k = 0; k < rows->body->n; k++) {
        known &= grid_may_have(v->facts, rows->body->lets[k], NULL);
    }
    return known && kinds->loops > 0 && kinds->others == 0 &&
           (!kinds->longs ||
            (kinds->calls > 1 && !has_more(rows) && are_cached(v, rows, kinds->called)));
}

/* ---- does it pay? ---- */

/* Calls of a loop, and those that only move elements of a grid. */
typedef struct {
    int calls, moves;
} Work;

static void
add_access(View *v, const Tile *tile, const Let *access, Work *work)
{
    Walk walk = walk_of(tile, facts_access(v->facts, access)->offset);
    bool ready = walk.kind == WALK_ONE ||
                 (walk.kind == WALK_FLAT && dim_is(tile->cx, walk.step, 1));
    bool same = access->op == OP_load && walk.kind == WALK_GRID &&
                dim_is(tile->cx, walk.row_step, 0);
    work->calls += is_narrow(access->args[0]->type->dtype) || walk.kind == WALK_EACH;
    work->moves += !ready && !same &&
                   !(access->op == OP_load && pairs_in_place(pairs_of(v), v->facts, tile, access));
}

static Tile
tile_of(const View *v, const Let *rows, const Let *loop)
{
    return (Tile){.cx = v->facts->cx,
                  .index = loop_index(loop),
                  .row = loop_index(rows),
                  .columns = loop_extent(loop)};
}

static Work
work_of(View *v, const Let *rows, const Let *loop)
{
    Work work = {0};
    Tile tile = tile_of(v, rows, loop);
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        work.calls += op_info[let->op].kind == KIND_MAP || let->op == OP_bind;
        if (let_accesses(let) && !facts_access(v->facts, let)->is_private) {
            add_access(v, &tile, let, &work);
        }
        for (int j = 0; j < let->nargs; j++) {
            work.moves += let_in(rows->body, let->args[j]) != NULL;
        }
    }
    return work;
}

/* Fewer calls, but more elements moved. */
static bool
is_profitable(View *v, const Let *rows)
{
    Cx *cx = v->facts->cx;
    int64_t alone = 0, together = 0;
    int64_t n = dim_range(
                    cx, grid_rows(v->facts, rows, DLC_GRID, DLC_GRID_COLUMNS, DLC_GRID_ROWS, true))
                    .lo;
    for (int k = 0; k < rows->body->n; k++) {
        const Let *inner = rows->body->lets[k];
        alone += op_info[inner->op].kind == KIND_MAP ? n * DLC_STRIP_ELEMENT : 0;
        if (grid_may_be_called(v->facts, inner, rows)) {
            alone += n * DLC_STRIP_CALL;
        } else if (loop_is(inner) && grid_is_short(v->facts, inner, DLC_GRID_COLUMNS)) {
            Work work = work_of(v, rows, inner);
            alone += n * (work.calls + 1) * DLC_STRIP_CALL;
            together += (int64_t)(work.calls + 1 + work.moves) * DLC_STRIP_CALL +
                        work.moves * n * dim_range(cx, loop_extent(inner)).hi;
        }
    }
    return alone > together;
}

/* ---- marks ---- */

/* Before all loops if the rows are shared by threads, else before the loop of the rows. */
static bool
is_same_in_rows(View *v, const Tile *tile, const Let *load, const Let *rows)
{
    const AccessFacts *access = facts_access(v->facts, load);
    Walk walk = walk_of(tile, access->offset);
    bool shared = let_has(rows, MARK_parallel) && dim_has_index(tile->cx, walk.start);
    return walk.kind == WALK_GRID && dim_is(tile->cx, walk.row_step, 0) && !shared &&
           !access->is_private && !dim_is_bound_in(tile->cx, access->offset, load->parent) &&
           !dim_is_bound_in(tile->cx, access->offset, rows->body) &&
           !(let_has(load, MARK_merged) && pairs_in_place(pairs_of(v), v->facts, tile, load));
}

/* Reductions that one call does for all rows of a tile. */
static void
mark_calls(const View *v, const Let *rows)
{
    for (int k = 0; k < rows->body->n; k++) {
        if (grid_may_be_called(v->facts, rows->body->lets[k], rows)) {
            let_mark(rows->body->lets[k], MARK_primitive, true);
        }
    }
}

static void
mark_same(View *v, const Let *rows)
{
    for (int k = 0; k < rows->body->n; k++) {
        const Let *loop = rows->body->lets[k];
        if (!loop_is(loop) || grid_may_be_called(v->facts, loop, rows) ||
            !grid_is_short(v->facts, loop, DLC_GRID_COLUMNS)) {
            continue;
        }
        Tile tile = tile_of(v, rows, loop);
        for (int j = 0; j < loop->body->n; j++) {
            Let *load = loop->body->lets[j];
            if (load->op == OP_load && is_same_in_rows(v, &tile, load, rows)) {
                let_mark(load, MARK_uniform, true);
            }
        }
    }
}

static bool
mark_grid(Let *loop, void *view)
{
    View *v = view;
    Cx *cx = v->facts->cx;
    if (loop->op != OP_for || let_has(loop, MARK_vector) || let_has(loop, MARK_tile) ||
        let_has(loop, MARK_recurrences)) {
        return false;
    }
    Kinds kinds = kinds_of(v, loop);
    if (let_has(loop, MARK_steps) || !has_rows(v, loop, &kinds) ||
        dim_range(cx, loop_extent(loop)).hi <= 1 || !is_profitable(v, loop) ||
        loop_carries(cx, loop) || !fuel_spend(cx)) {
        return true;
    }
    let_mark_with(cx, loop, MARK_grid, DLC_GRID);
    let_mark_with(cx, loop, MARK_grid_row, DLC_GRID_COLUMNS);
    if (kinds.calls) {
        let_mark_with(cx, loop, MARK_grid_called, DLC_GRID_ROWS);
        mark_calls(v, loop);
    }
    mark_same(v, loop);
    return false;
}

static void
mark_phase(const PhaseView *phase, const void *arg)
{
    (void)arg;
    phase_visit_loops(phase, mark_grid, &(View){.phase = phase, .facts = phase->facts});
}

Fn *
rewrite_grid(Fn *fn)
{
    return phases_visit(fn, mark_phase, NULL);
}
