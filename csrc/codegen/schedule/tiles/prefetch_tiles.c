/* Prefetches of tiles: what loops over tiles prefetch, and how far ahead.
 *
 * What:     marks loads and stores of vector loops and grids: `prefetch`, so many bytes further on,
 *           or `prefetch_rows`, what they access so many rows later; `primitive` loads or stores of
 *           the parts of an element, which are one call, and reductions that are one.  Takes marks
 *           away of what no primitive prefetches.  in_memory.c says which accesses are `merged`.
 * Requires: a scheduled function in which grids, non-temporal stores and the width of tiles are
 *           marked.
 * Ensures:  nothing but speed: a prefetch reads nothing, wherever it points (V34).
 * How:      one walk over a phase in the order in which it runs.  What caches hold is not
 *           prefetched (that takes a tenth to a third of the time of what is computed from it), nor
 *           what an earlier loop of the phase has read, nor a row that all iterations of the loops
 *           around read.  Nor what a reduction goes along: it reads a block in one go,
 *           which processors foresee (prefetch.c has what they do not).
 *           What is prefetched comes into the first level: from the second, the strips that read it
 *           take as long again as the additions of a few of them (a step of Adam in memory 1.2
 *           times, swiglu 1.15).  While a tile of a kilobyte is computed from few operations,
 *           memory has not answered yet: a tile further it has (a stencil 1.2 times).  All streams
 *           together take the places that follow in a page, two tiles and the one at hand, so that
 *           however far ahead, a place in the cache has one line of each.  Larger tiles take long
 *           enough. A stencil's first row is alone, the others it has read before: six tiles ahead
 *           4.3 ms of 64 MiB, four 4.4, two 5.6, while of four rows, of Adam, and of a residual
 *           with a bias four tiles took a tenth longer than two.
 *           A loop with non-temporal stores that reads one or two rows prefetches none: what is
 *           prefetched in one go keeps lines from being stored, and processors foresee as much by
 *           themselves (64 MiB: swiglu 5.0 ms with prefetching, 4.3 without, 4.0 when the last
 *           strip stores by itself too; a GELU and its residual 8.2, 7.6, 7.1).  Of four rows they
 *           do not: a step of Adam 10.1 ms, without 12.9.
 *           What is written over what is read is prefetched once, to be written.  With tiles of a
 *           whole block it would wait too long in the cache: the scale of an RMS norm took 1.6
 *           times as long.
 *           Of 131072 gathered rows of 128, sums of 8 take 5.7 ms without prefetching, 3.3 with 8
 *           rows ahead, 3.0 with 16, 3.2 with 32.
 * Why not:  by the loads of one loop alone: a row that two loops read would be prefetched twice.
 * Example:  for i in N parallel vector width=256 { let a: f32 = load x[i] prefetch=2048 merged .. }
 */
#include <string.h>

#include "codegen/loops/phase_use.h"
#include "codegen/loops/rows.h"
#include "codegen/loops/scan.h"
#include "codegen/loops/term.h"
#include "codegen/rewrites.h"
#include "tiles.h"

static void walk_let(View *v, const Let *let);
static void walk_block(View *v, const Block *blk);

/* ---- what varies ---- */

static IndexKind
bound_kind(const void *arg, Dim name)
{
    const View *v = arg;
    const IndexKind *kind = map_get(&v->bound, &name, 1);
    return kind ? *kind : INDEX_SAME;
}

/* In a row that runs alone, what each row has one of is one element. */
static bool
is_each(const void *arg, const Value *value)
{
    const View *v = arg;
    return !value_is_const(value) && v->differs[value->id] &&
           !(v->is_long && value->def && value->def->parent == v->grid->body);
}

static bool
any_differs(const View *v, const Let *let)
{
    bool found = false;
    for (int k = 0; k < let->nargs; k++) {
        found |= is_each(v, let->args[k]);
    }
    return found;
}

static void
enter(View *v, const Let *loop, Dim row)
{
    v->loop = loop;
    v->tile.row = row;
    v->tile.index = loop ? loop_index(loop) : DIM_NONE;
    v->tile.columns = loop ? loop_extent(loop) : DIM_NONE;
}

/* ---- what is cached ---- */

static void
add_cached(View *v, const Value *tensor, Dim row)
{
    v->cached = cx_grow(v->cx, v->cached, v->ncached, sizeof *v->cached);
    v->cached[v->ncached++] = (Cached){tensor, row};
}

/* A row that begins a few elements away counts: it is on the same lines of the cache. */
static bool
is_cached(const View *v, const Value *tensor, Dim row)
{
    bool found = false;
    for (int k = 0; k < v->ncached && !found; k++) {
        int64_t distance = DLC_ROW_DISTANCE;
        found = v->cached[k].tensor == tensor &&
                (v->cached[k].row == row ||
                 (dim_is_int(v->cx, dim_sub(v->cx, v->cached[k].row, row), &distance) &&
                  distance > -DLC_ROW_DISTANCE && distance < DLC_ROW_DISTANCE));
    }
    return found;
}

/* Does the tensor stay in caches?  One of several that alternate does not, however small each is:
 * a step of Adam over a hundred tensors of 700 KB took a third longer without prefetching; but of
 * 3.5 MB in all a seventh longer with. */
static bool
stays_cached(View *v, const Value *tensor)
{
    if (!buffer_is_small(v->cx, tensor)) {
        return false;
    }
    int64_t n = dim_range(v->cx, type_numel(v->cx, tensor->type)).hi;
    if (n <= DLC_STAYS_ALWAYS / dtype_info[tensor->type->dtype].bytes) {
        return true;
    }
    if (v->bytes == DIM_NONE) {
        v->bytes = phase_use(v->phase->fn, v->phase->loop).bytes;
    }
    return dim_range(v->cx, v->bytes).lo < DLC_STAYS;
}

/* Must the row come from memory, and has nothing prefetched it yet?  From now on it is cached. */
static bool
comes_from_memory(View *v, const Value *tensor, Dim offset)
{
    const Nest *nest = &v->phase->nest;
    bool vector = nest->n == 1 && let_has(nest->parallel[0], MARK_vector);
    Dim row = dim_replace(v->cx, offset, v->tile.index, dim_int(v->cx, 0));
    if (buffer_is_private(tensor) || stays_cached(v, tensor) || is_cached(v, tensor, row)) {
        return false;
    }
    add_cached(v, tensor, row);
    return vector || dim_has_index(v->cx, row);
}

/* Notes that a reduction which one call does reads the row of the load. */
static void
read_row(View *v, const Let *load, const Let *reduce)
{
    Dim offset = facts_access(v->facts, load)->offset;
    add_cached(v, load->args[0], dim_replace(v->cx, offset, loop_index(reduce), dim_int(v->cx, 0)));
}

/* ---- one access ---- */

/* How many elements behind a tile those lie that are prefetched while it is computed. */
static int64_t
distance_from(int64_t tile)
{
    return tile <= DLC_SCALAR_TILE ? 2 * tile : tile;
}

/* Does the block read the same tensor a row or more further on (sign 1), or further back (-1)? */
static bool
reads_row(const View *v, const Let *load, Dim offset, int sign)
{
    bool found = false;
    for (int k = 0; k < load->parent->n && !found; k++) {
        const Let *other = load->parent->lets[k];
        if (other->op == OP_load && other->args[0] == load->args[0]) {
            Dim at = facts_access(v->facts, other)->offset;
            Range distance = dim_range(v->cx, sign > 0 ? dim_sub(v->cx, at, offset)
                                                       : dim_sub(v->cx, offset, at));
            found = distance.lo > 0 && distance.hi >= DLC_ROW_DISTANCE;
        }
    }
    return found;
}

static void
mark(const View *v, const Let *access, unsigned which, int64_t value)
{
    if (fuel_spend(v->cx)) {
        let_mark_with(v->cx, (Let *)access, which, value);
    }
}

/* In a loop that runs inside of the tile, the next is a few of its iterations ahead; in a tile that
 * is transposed, a few rows are. */
static void
mark_load(View *v, const Let *load, Dim offset)
{
    const Let *loop = let_around(load);
    int64_t tile = v->width;
    if (v->grid && !v->is_long) {
        dim_is_int(v->cx, v->tile.row ? dim_mul(v->cx, v->rows, v->tile.columns) : v->rows, &tile);
    }
    bool back = tile <= DLC_SCALAR_TILE && reads_row(v, load, offset, -1);
    int64_t ahead = back ? DLC_PREFETCH_STENCIL * tile : distance_from(tile);
    const Let *rows = let_around(loop);
    const Step *next = let_has(rows, MARK_tile) ? facts_step(v->facts, load, loop_index(rows))
                                                : NULL;
    if (reads_row(v, load, offset, 1) || !comes_from_memory(v, load->args[0], offset) ||
        v->loop->op == OP_reduce || (loop == v->loop && !v->prefetches)) {
        return;
    }
    const Step *inside = loop == v->loop ? NULL : facts_step(v->facts, load, loop_index(loop));
    if (inside && dim_is(v->cx, inside->step, 0)) {
        return; /* the next row is known to data alone, or is this one again */
    }
    if (inside) {
        mark(v, load, MARK_prefetch_rows, DLC_PREFETCH_ROWS);
    } else if (next && !dim_is(v->cx, next->step, 0)) {
        mark(v, load, MARK_prefetch_rows, DLC_PREFETCH_TILE_ROWS);
    } else {
        mark(v, load, MARK_prefetch, ahead * facts_access(v->facts, load)->bytes);
    }
}

/* Elements at a small stride, or rows at one, from the walk's start on. */
static void
mark_strided(View *v, const Let *access, const Walk *walk)
{
    Dim by = walk->kind == WALK_GRID ? walk->row_step : walk->step;
    int64_t step = 0, rows = v->width,
            columns = v->tile.row ? dim_range(v->cx, v->tile.columns).hi : 1;
    if (dim_is_int(v->cx, by, &step) && step >= columns && step <= 4 * columns &&
        walk->kind <= WALK_GRID && comes_from_memory(v, access->args[0], walk->start)) {
        if (v->tile.row) {
            dim_is_int(v->cx, v->rows, &rows);
        }
        mark(v, access, MARK_prefetch, step * rows * facts_access(v->facts, access)->bytes);
    }
}

/* ---- lets ---- */

/* Four of the block's loads could be the operands of two products. */
static const Pairs *
pairs_for(View *v, const Block *blk)
{
    int loads = 0, products = 0;
    for (int k = 0; k < blk->n; k++) {
        loads += blk->lets[k]->op == OP_load;
        products += blk->lets[k]->op == OP_mul;
    }
    return loads < 4 || products < 2 ? NULL : tiles_pairs(v);
}

/* Is the load one of four that one primitive reads where they are? */
static bool
is_in_place(View *v, const Let *load)
{
    bool row = !v->grid || v->is_long || v->tile.row;
    const Pairs *pairs = row && v->loop ? pairs_for(v, load->parent) : NULL;
    return pairs && pairs_in_place(pairs, v->facts, &v->tile, load);
}

/* Is the load of elements of a tile that is transposed first? */
static bool
is_transposed(const View *v, const Let *load)
{
    const Let *columns = let_around(load), *rows = let_around(columns);
    int before = 0;
    Dim step;
    if (!let_has(rows, MARK_tile) || !facts_transposed(v->facts, load, rows, columns, &step)) {
        return false;
    }
    for (int k = 0; columns->body->lets[k] != load; k++) {
        const Let *let = columns->body->lets[k];
        before += let->op == OP_load && facts_transposed(v->facts, let, rows, columns, &step);
    }
    return before < DLC_PANELS;
}

/* Marks that one primitive does all the loads or stores. */
static void
mark_zip(const View *v, const Zip *zip)
{
    bool may = fuel_spend(v->cx);
    for (int k = 0; k < zip->n && may; k++) {
        let_mark((Let *)zip->parts[k], MARK_primitive, true);
    }
}

static void
walk_load(View *v, const Let *load)
{
    int id = load->res[0]->id;
    const AccessFacts *access = facts_access(v->facts, load);
    Walk walk = walk_of(&v->tile, access->offset);
    Zip zip;
    v->differs[id] = walk.kind != WALK_ONE ||
                     (access->is_private && v->loop && v->differs[load->args[0]->id]);
    bool in_place = !access->is_private && !let_has(load, MARK_transpose) && is_in_place(v, load);
    tiles_place_load(v, load, &walk, in_place);
    if (access->is_private || is_transposed(v, load)) {
        return;
    }
    if (in_place) {
        mark_strided(v, load, &walk);
    } else if (v->unzipped[id]) {
        return;
    } else if (zip_find(v->facts, &v->tile, load, &zip)) {
        for (int k = 0; k < zip.n; k++) {
            v->unzipped[zip.parts[k]->res[0]->id] = true;
        }
        mark_zip(v, &zip);
        mark_strided(v, load, &zip.walk);
    } else if (walk.kind == WALK_FLAT && dim_is(v->cx, walk.step, 1)) {
        mark_load(v, load, walk.start);
    }
}

/* The first of stores that are one strip. */
static void
walk_store(View *v, const Let *store)
{
    Zip zip;
    if (!zip_find(v->facts, &v->tile, store, &zip)) {
        tiles_place_store(v, store);
        return;
    }
    for (int k = 0; store->parent->lets[k] != store; k++) {
        for (int j = 0; j < zip.n; j++) {
            if (zip.parts[j] == store->parent->lets[k]) {
                return;
            }
        }
    }
    mark_zip(v, &zip);
    mark_strided(v, store, &zip.walk);
}

/* One of the four loads that the primitive of the let reads where they are; NULL: it does not. */
static const Let *
load_in_place(View *v, const Let *let)
{
    const Pairs *pairs = let->nargs == 2 ? pairs_for(v, let->parent) : NULL;
    for (int k = 0; pairs && k < let->parent->n; k++) {
        const Let *load = let->parent->lets[k];
        if (load->op == OP_load && pairs->of[load->res[0]->id].in_place == let) {
            return is_in_place(v, load) ? load : NULL;
        }
    }
    return NULL;
}

/* The sum of two products of rows where they are is stored there, too. */
static void
walk_map(View *v, const Let *let)
{
    const Let *load = load_in_place(v, let);
    Walk walk;
    const Let *store = load ? pairs_in_place_store(tiles_pairs(v), v->facts, &v->tile, let, &walk)
                            : NULL;
    v->differs[let->res[0]->id] = any_differs(v, let);
    tiles_place_map(v, let, load != NULL);
    if (store) {
        tiles_merge(v, store);
    }
    if (store && v->tile.row) {
        mark_strided(v, store, &walk);
    }
}

static void
walk_bind(View *v, const Let *bind)
{
    if (any_differs(v, bind)) {
        IndexKind *kind = map_at(v->cx, &v->bound, &bind->sizes[0], 1, sizeof *kind);
        bool by_row = v->grid && !v->is_long && !v->tile.row;
        *kind = by_row ? INDEX_BY_ROW : INDEX_EACH;
    }
}

/* ---- what reductions prefetch ---- */

static bool
has_prefetch(const Let *load)
{
    return let_has(load, MARK_prefetch) || let_has(load, MARK_prefetch_rows);
}

/* Does the primitive that reduces the let also compute it and what it takes in, of the load? */
static bool
is_of_one(View *v, const Let *reduce, const Let *load)
{
    const Let *last = let_in(reduce->body, reduce->body->rets[0]);
    const Pair *pair = last ? &tiles_pairs(v)->of[last->res[0]->id] : NULL;
    return pair && pair->folded && pair->strip && reduce->body->n == 3 &&
           pair->first->args[0] == load->res[0] && pairs_fold(let_op(reduce), pair->strip);
}

/* So much is computed from what the reduction loads that what is prefetched arrives meanwhile.  One
 * primitive that does it all prefetches as it goes. */
static void
mark_calls(View *v, const Let *reduce)
{
    bool slow = let_has(reduce, MARK_lanes) && facts_loop(v->facts, reduce)->cost >= COST_EXP;
    for (int k = 0; slow && k < reduce->body->n; k++) {
        Let *load = reduce->body->lets[k];
        if (has_prefetch(load) && !is_of_one(v, reduce, load) && fuel_spend(v->cx)) {
            let_mark(load, MARK_prefetch_call, true);
        }
    }
}

/* The load that the primitive which reduces what it computes prefetches; NULL: there is none. */
static const Let *
prefetched_by_fold(View *v, const Let *reduce)
{
    const Let *last = let_in(reduce->body, reduce->body->rets[0]), *load;
    const Pairs *pairs = tiles_pairs(v);
    if (!last || !pairs->of[last->res[0]->id].folded) {
        return NULL;
    }
    Primitive of = pairs_primitive(pairs, &v->tile, last, pairs_takes(pairs, &v->tile, last));
    load = of.mask == 2 && pairs_fold(let_op(reduce), of.strip) ? let_in(reduce->body, of.args[0])
                                                                : NULL;
    return load && load->op == OP_load ? load : NULL;
}

/* Only calls of their own and `by`, what the primitive of the reduction loads, prefetch. */
static void
take_prefetches(const View *v, const Let *reduce, const Let *by)
{
    for (int k = 0; k < reduce->body->n; k++) {
        Let *load = reduce->body->lets[k];
        if (has_prefetch(load) && load != by && !let_has(load, MARK_prefetch_call) &&
            fuel_spend(v->cx)) {
            let_mark(load, MARK_prefetch | MARK_prefetch_rows | MARK_beyond, false);
        }
    }
}

/* ---- loops ---- */

/* Does it store non-temporally, and read so few rows that it prefetches none? */
static bool
is_foreseen(const View *v, const Let *loop)
{
    bool may = loop->op == OP_for && (v->tile.row || let_has(loop, MARK_streams)), streams = false;
    for (int k = 0; may && k < loop->body->n; k++) {
        const Let *store = loop->body->lets[k];
        streams |= store->op == OP_store && let_has(store, MARK_nontemporal);
    }
    return streams && rows_are_foreseen(v->facts, loop);
}

static void
mark_stores(View *v, const Let *loop)
{
    bool tile = let_has(let_around(loop), MARK_tile);
    if (v->width >= DLC_BLOCK || tile || loop_count(loop->body)) {
        return;
    }
    for (int k = 0; k < loop->body->n; k++) {
        const Let *store = loop->body->lets[k];
        bool bypasses = let_has(loop, MARK_streams) && let_has(store, MARK_nontemporal);
        if (store->op != OP_store || bypasses ||
            !facts_contiguous(v->facts, store, loop_index(loop))) {
            continue;
        }
        Dim offset = facts_access(v->facts, store)->offset;
        if (comes_from_memory(v, store->args[0], offset)) {
            if (store->args[0]->over) {
                comes_from_memory(v, store->args[0]->over, offset);
            }
            mark(v, store, MARK_prefetch,
                 distance_from(v->width) * facts_access(v->facts, store)->bytes);
        }
    }
}

static void
walk_vector(View *v, const Let *loop)
{
    enter(v, loop, DIM_NONE);
    v->width = loop_width(loop);
    v->prefetches = !is_foreseen(v, loop);
    mark_stores(v, loop);
    walk_block(v, loop->body);
    enter(v, NULL, DIM_NONE);
}

/* A loop in a grid: of all rows at once, or of one after the other. */
static void
walk_row(View *v, const Let *loop)
{
    const Let *grid = v->grid;
    RowsCall call;
    if (loop->op == OP_reduce) {
        v->differs[loop->res[0]->id] = true;
    }
    if (grid_is_called(v->facts, loop, grid)) {
        const Let *by = NULL;
        grid_call(v->facts, loop, grid, &call);
        for (int k = 0; strcmp(call.form, "load") != 0 && k < loop->body->n && !by; k++) {
            const Let *load = loop->body->lets[k];
            by = load->op == OP_load && load->args[0] == call.a.buffer ? load : NULL;
        }
        if (by) {
            read_row(v, by, loop);
        }
        take_prefetches(v, loop, by);
        return;
    }
    if (!grid_is_short(v->facts, loop, let_mark_value(grid, MARK_grid_row))) {
        v->is_long = true;
        walk_vector(v, loop);
        v->is_long = false;
    } else {
        enter(v, loop, loop_index(grid));
        v->prefetches = !is_foreseen(v, loop);
        walk_block(v, loop->body);
        if (loop->op == OP_reduce) {
            take_prefetches(v, loop, NULL);
        }
    }
    enter(v, grid, DIM_NONE);
    v->width = let_mark_value(grid, MARK_grid);
    v->prefetches = true;
}

static void
walk_grid(View *v, const Let *loop)
{
    v->grid = loop;
    v->rows = grid_rows(v->facts, loop, let_mark_value(loop, MARK_grid),
                        let_mark_value(loop, MARK_grid_row), let_mark_value(loop, MARK_grid_called),
                        false);
    v->width = let_mark_value(loop, MARK_grid);
    v->prefetches = true;
    enter(v, loop, DIM_NONE);
    walk_block(v, loop->body);
    enter(v, NULL, DIM_NONE);
    v->grid = NULL;
}

/* Marks that one primitive does the reduction. */
static void
mark_primitive(const View *v, const Let *reduce)
{
    if (fuel_spend(v->cx)) {
        let_mark((Let *)reduce, MARK_primitive, true);
    }
}

/* Gathered rows, each of which one tile holds.  True: the reduction is of such rows. */
static bool
walk_gathered(View *v, const Let *reduce, Dtype dtype)
{
    const Let *row = term_gathered(v->facts, &v->tile, reduce, dtype), *loop = v->loop;
    Tile tile = v->tile;
    if (!row) {
        return false;
    }
    v->loop = reduce;
    v->tile.index = loop_index(reduce);
    for (int k = 0; reduce->body->lets[k] != row; k++) {
        walk_let(v, reduce->body->lets[k]);
    }
    v->loop = loop;
    v->tile = tile;
    if (term_next_indices(v->facts, reduce, row) && !buffer_is_small(v->cx, row->args[0]) &&
        dim_range(v->cx, loop_extent(let_around(reduce))).hi <= v->width) {
        mark(v, row, MARK_prefetch_rows, DLC_PREFETCH_ONEHOT);
    }
    return true;
}

/* What a reduction that goes through its elements a block at a time loads, and prefetches none
 * of. */
static void
place_loads(View *v, const Let *reduce)
{
    for (int k = 0; k < reduce->body->n; k++) {
        const Let *let = reduce->body->lets[k];
        if (let->op == OP_load) {
            Walk walk = walk_of(&v->tile, facts_access(v->facts, let)->offset);
            v->differs[let->res[0]->id] = walk.kind != WALK_ONE;
            tiles_place_load(v, let, &walk, false);
        } else {
            walk_let(v, let);
        }
    }
}

static void
walk_reduce(View *v, const Let *reduce)
{
    const Value *ret = reduce->body->rets[0];
    Dtype dtype = value_is_const(ret) ? reduce->res[0]->type->dtype : ret->type->dtype;
    bool arg = op_info[let_op(reduce)].rule == RULE_INDEX, in_tile = v->tile.index != DIM_NONE;
    Term term;
    v->differs[reduce->res[0]->id] = in_tile;
    if (let_has(reduce, MARK_fused) && !in_tile) {
        enter(v, reduce, DIM_NONE);
        place_loads(v, reduce);
        enter(v, NULL, DIM_NONE);
    } else if (let_has(reduce, MARK_lanes) && !let_has(reduce, MARK_onehot)) {
        enter(v, reduce, DIM_NONE);
        v->width = DLC_BLOCK;
        if (term_goes_along(v->facts, &v->tile, reduce, dtype, &term)) {
            bool ahead = facts_prefetched(v->facts, term.x, let_around(reduce), 0) != 0;
            if (ahead || term.y || term.lets > 1) { /* else it reduces what it finds in memory */
                mark_primitive(v, reduce);
            }
            read_row(v, term.x, reduce);
            place_loads(v, reduce);
            take_prefetches(v, reduce, let_has(reduce, MARK_primitive) ? term.x : NULL);
        } else {
            walk_block(v, reduce->body);
            take_prefetches(v, reduce, arg ? NULL : prefetched_by_fold(v, reduce));
        }
        enter(v, NULL, DIM_NONE);
    } else if (in_tile && !arg &&
               (walk_gathered(v, reduce, dtype) ||
                term_goes_down_in(v->facts, &v->tile, reduce, dtype, &term))) {
        mark_primitive(v, reduce);
    } else {
        walk_block(v, reduce->body);
        if (!in_tile) { /* one element after the other */
            take_prefetches(v, reduce, NULL);
        }
    }
}

static void
walk_for(View *v, const Let *loop)
{
    if (loop_is_call(loop)) {
        return;
    }
    if (v->grid && !v->is_long) {
        walk_row(v, loop);
    } else if (let_has(loop, MARK_grid)) {
        walk_grid(v, loop);
    } else if (let_has(loop, MARK_scan)) {
        return;
    } else if (let_has(loop, MARK_vector) || loop_is_recurrence(loop)) {
        walk_vector(v, loop);
    } else {
        walk_block(v, loop->body);
    }
}

static void
walk_let(View *v, const Let *let)
{
    switch (let->op) {
    case OP_for:
        walk_for(v, let);
        break;
    case OP_reduce:
        mark_calls(v, let);
        v->grid && !v->is_long ? walk_row(v, let) : walk_reduce(v, let);
        break;
    case OP_if:
    case OP_else:
        walk_block(v, let->body);
        break;
    case OP_load:
        walk_load(v, let);
        break;
    case OP_store:
        walk_store(v, let);
        break;
    case OP_size:
        v->differs[let->res[0]->id] = dim_varies(&v->tile, let_dim(let, "dim"));
        tiles_place_size(v, let);
        break;
    case OP_bind:
        walk_bind(v, let);
        break;
    case OP_buffer:
        v->differs[let->res[0]->id] = v->tile.index != DIM_NONE;
        break;
    default:
        if (let_is_map(let)) {
            walk_map(v, let);
        }
    }
}

static void
walk_block(View *v, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        walk_let(v, blk->lets[k]);
    }
}

/* Loads outside of all loops, in the block of the phase or around it. */
static void
walk_outside(View *v, const Block *root)
{
    for (; root; root = block_around(root)) {
        for (int k = 0; k < root->n; k++) {
            Walk walk = {.kind = WALK_ONE};
            if (root->lets[k]->op == OP_load) {
                tiles_place_load(v, root->lets[k], &walk, false);
            }
        }
    }
}

static void
mark_phase(const PhaseView *phase, const void *arg)
{
    Cx *cx = phase->fn->cx;
    size_t values = (size_t)phase->fn->nvalues;
    View v = {.phase = phase,
              .facts = phase->facts,
              .cx = cx,
              .found = *(Found *const *)arg,
              .differs = cx_alloc(cx, values * sizeof *v.differs),
              .unzipped = cx_alloc(cx, values * sizeof *v.unzipped)};
    v.tile = (Tile){.cx = cx, .bound = bound_kind, .differs = is_each, .arg = &v};
    walk_outside(&v, phase->loop->parent);
    walk_for(&v, phase->loop);
}

Fn *
rewrite_prefetch_tcc(Fn *fn)
{
    Found found = {0}, *of = &found;
    return phases_visit(fn, mark_phase, &of);
}
