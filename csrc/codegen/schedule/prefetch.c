/* Prefetches: which loads have them, and how far ahead.
 *
 * What:     marks loads with how far ahead they prefetch: `prefetch` bytes further on, or what they
 *           read `prefetch_rows` rows later.
 * Requires: a scheduled function; for stencil, loops that run as several are marked, for
 *           prefetch_cc, non-temporal stores too.
 * Ensures:  nothing but speed: a prefetch reads nothing, wherever it points (V34).
 * How:      Processors prefetch along a row by themselves, within a page.  They do not foresee
 *           where a row begins that is short, in a tile, or gathered, and in a loop over several
 *           rows of one tensor they do not go far enough.  What is known to stay in the
 *           second-level cache is not prefetched: each prefetch is one more load.
 *           Along rows a reduction prefetches one page ahead: the same position of a coming row or,
 *           in a long row, a later part of it.  If rows are not contiguous, it prefetches the next
 *           row instead (without that, a batch norm of 64 MiB took a fifth longer).  Only the last
 *           reduction of a row that reads an element prefetches, because it has fewer cache misses
 *           of its own.  If sizes are symbols, it is not known what stays in a cache, and the phase
 *           makes no comparison when it runs either: there prefetches cost a hundredth for data in
 *           the first-level cache, and six hundredths for sums of rows of 64.
 *           If a loop over the row follows the reductions and has non-temporal stores, it
 *           prefetches all of the next row, since memory has nothing else to read then.
 *           Rows are gathered so many ahead that what is prefetched fits in the first-level cache,
 *           and that a few dozen lines are under way where rows are short.
 * Why not:  in all loops: a processor finds one row, or rows of several tensors, by itself
 *           (measured: 0.94 times the speed).  In loops without a reduction that are not stencils:
 *           they would be cut in strips, to have one prefetch for each line.  Then a loop over data
 *           in the first-level cache takes up to 1.7 times as long, and one over memory a tenth
 *           less.  Stencils over columns of tiles, which keep rows in the first-level cache: 0.75
 *           times.  Larger tiles, other ways through them, blocks of 16 by 16, the next tile's
 *           lines: 0.9 to 1.1 times, because the stores are what waits.  Long gathered rows whose
 *           elements are stored one by one: a processor finds all but the beginning alone, and
 *           waits for the stores.
 * Example:  let s: f32 = reduce sum j in N lanes { let a: f32 = load x[i, j] prefetch=4096 .. }
 */
#include "codegen/loops/gather.h"
#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

/* ---- reductions along rows ---- */

/* Does a later reduction of the same rows read the element again? */
static bool
comes_again(const Facts *facts, const Let *load, const Let *reduce, Dim row)
{
    const Block *rows = reduce->parent;
    bool seen = false;
    for (int k = 0; k < rows->n; k++) {
        const Let *later = rows->lets[k];
        bool reads = seen && let_has(later, MARK_lanes) && !let_has(later, MARK_onehot);
        for (int j = 0; reads && j < later->body->n; j++) {
            const Let *l = later->body->lets[j];
            if (l->op == OP_load && l->args[0] == load->args[0] &&
                facts_row(facts, l, loop_index(later)) == row) {
                return true;
            }
        }
        seen |= later == reduce;
    }
    return false;
}

/* Are the elements of the next row so far that a prefetch reaches it, and no farther? */
static bool
is_reached(Cx *cx, Dim step, int bytes, int64_t least)
{
    int64_t elements = 0;
    return dim_is_int(cx, step, &elements) && elements > least && elements <= DLC_FARTHEST / bytes;
}

/* About a page if the next row follows or the row itself goes on; else the next row, or nothing if
 * it is not known how far that is. */
static void
mark_in_row(const Facts *facts, Let *load, const Let *reduce)
{
    Cx *cx = facts->cx;
    int bytes = facts_access(facts, load)->bytes;
    const Let *rows = let_around(reduce);
    Range length = dim_range(cx, loop_extent(reduce));
    const Step *next = loop_is(rows) ? facts_step(facts, load, loop_index(rows)) : NULL;
    if (length.lo >= 2 * DLC_PAGE / bytes ||
        (next && (next->step == loop_extent(reduce) || dim_is(cx, next->step, length.hi)))) {
        let_mark_with(cx, load, MARK_prefetch, DLC_PAGE);
    } else if (next && is_reached(cx, next->step, bytes, length.hi) &&
               length.lo >= DLC_PAGE / bytes / DLC_PAGE_ROWS) {
        let_mark_with(cx, load, MARK_prefetch_rows, 1);
    }
}

static void
mark_reduction(const Facts *facts, const Let *reduce)
{
    for (int k = 0; k < reduce->body->n; k++) {
        Let *load = reduce->body->lets[k];
        Dim row = facts_from_memory(facts, load) ? facts_row(facts, load, loop_index(reduce))
                                                 : DIM_NONE;
        if (row != DIM_NONE && !comes_again(facts, load, reduce, row) && fuel_spend(facts->cx)) {
            mark_in_row(facts, load, reduce);
        }
    }
}

/* Inside of a vector loop reductions do not go along rows. */
static bool
mark_rows(const PhaseView *phase, Let *loop)
{
    if (loop->op == OP_reduce && !let_has(loop, MARK_onehot)) {
        mark_reduction(phase->facts, loop);
    }
    return !(loop->op == OP_for && let_has(loop, MARK_vector));
}

/* ---- rows that follow a loop with non-temporal stores ---- */

/* Marks loads that read what reductions have read, so that they prefetch the next row. */
static void
mark_next_row(const Facts *facts, const Let *loop, Let *load)
{
    Cx *cx = facts->cx;
    const Let *rows = loop_of_reductions(load);
    int64_t bytes = dtype_info[load->args[0]->type->dtype].bytes, row = bytes;
    for (const Let *inner = loop; inner != rows && row <= DLC_L2; inner = let_around(inner)) {
        Range n = dim_range(cx, loop_extent(inner));
        row = n.lo >= 1 && n.hi <= DLC_L2 ? row * n.hi : DLC_L2 + 1;
    }
    const Step *next = loop_is(rows) ? facts_step(facts, load, loop_index(rows)) : NULL;
    if (row >= 2 * DLC_PAGE && row <= DLC_L2 && next && facts_from_memory(facts, load) &&
        is_reached(cx, next->step, (int)bytes, 0) && fuel_spend(cx)) {
        let_mark_with(cx, load, MARK_prefetch_rows, 1);
    }
}

/* ---- gathered rows ---- */

/* Note [Gathered rows]
 *
 * Two threads of Zen 5, 64 MiB of rows, each looked up once by indices at random; milliseconds, and
 * in pages of 4 KB:
 *
 *   rows of     sums of 8: 0   8    16   32   64 rows before   each doubled: 0   8    16   32   64
 *   16 floats             35   12.5 9.7  3.9  2.8                            47  14   10.5 4.6  4.4
 *   128                   1.48 1.11 0.84 0.84 0.87                           3.3 2.8  2.9  3.0  2.9
 *   1024                  2.46 1.20 1.33 1.16 1.25                           3.1 3.3  3.4  3.3  3.3
 */

/* Do the indices follow each other in memory, from one run of the loop through them to the next? */
static bool
in_order(const Facts *facts, const Let *index, const Let *through)
{
    for (const Let *loop = let_around(through); loop_is(loop); loop = let_around(loop)) {
        const Step *next = facts_step(facts, index, loop_index(loop));
        if (next && next->step == loop_extent(through)) {
            return true;
        }
    }
    return !dim_has_index(facts->cx, facts_row(facts, index, loop_index(through))) ||
           dim_range(facts->cx, loop_extent(through)).lo > 4 * DLC_PREFETCH_GATHER;
}

static void
mark_gather(const Facts *facts, Let *load, const Let *along, const Let *through, int64_t row)
{
    Gather g;
    if (buffer_is_small(facts->cx, load->args[0]) ||
        !gather_find(facts, load, along, through, &g) || !in_order(facts, g.index, through) ||
        !fuel_spend(facts->cx)) {
        return;
    }
    int64_t bytes = row * facts_access(facts, load)->bytes,
            rows = bytes < DLC_L1 / 2 / DLC_PREFETCH_GATHER ? DLC_PREFETCH_GATHER
                                                            : DLC_L1 / 2 / bytes;
    rows = rows < DLC_PREFETCH_GATHER_MIN ? DLC_PREFETCH_GATHER_MIN : rows;
    let_mark_with(facts->cx, load, MARK_prefetch_rows, rows);
    let_mark_with(facts->cx, load, MARK_beyond, DLC_L2 + 1);
}

/* ---- stencils ---- */

/* Note [Stencils]
 *
 * One thread of Zen 5, four million floats: the heat equation takes 0.77 ms instead of 1.33, a copy
 * of as many bytes 0.62.  x.T + 2y takes 1.6 ms instead of 2.0, a copy 1.2; with the next kernel
 * that reads it, 2.2 instead of 2.5.  Half as many floats: 1.22 instead of 1.46; with the next
 * kernel, 1.94 instead of 1.96. */

/* Elements from load a to load b of the same tensor. */
static Range
distance(const Facts *facts, const Let *a, const Let *b)
{
    return dim_range(facts->cx, dim_sub(facts->cx, facts_access(facts, b)->offset,
                                        facts_access(facts, a)->offset));
}

/* Is it a row ahead of another load of the same tensor, and behind none? */
static bool
is_last_row(const Facts *facts, const Let *loop, const Let *load)
{
    const Block *blk = loop->body;
    bool row = false, last = facts_adjacent_bytes(facts, load, loop_index(loop)) &&
                             access_is_large(facts->cx, load, DLC_LARGE);
    for (int j = 0; j < blk->n && last; j++) {
        const Let *other = blk->lets[j];
        if (other != load && other->op == OP_load && other->args[0] == load->args[0]) {
            Range far = distance(facts, other, load);
            row |= far.lo > 0 && far.hi >= DLC_ROW_DISTANCE;
            last = far.lo >= 0;
        }
    }
    return row && last;
}

/* Marks the load of the row that is furthest ahead in memory, if the loop is a stencil, and the
 * loop `strip`: so many iterations prefetch together.  Vectors have 32 bytes: few of its loads
 * begin where a cache line does, and a vector of 64 bytes would be in two lines. */
static void
mark_stencil(const PhaseView *phase, Let *loop)
{
    const Facts *facts = phase->facts;
    int width = target_of(phase->fn)->width;
    Let *row = NULL;
    for (int k = loop->body->n - 1; k >= 0; k--) {
        Let *let = loop->body->lets[k];
        if (!let_is_map(let) && let->op != OP_load && let->op != OP_store) {
            return;
        }
        row = let->op == OP_load && is_last_row(facts, loop, let) ? let : row;
    }
    if (row && width && fuel_spend(facts->cx)) {
        int bytes = facts_access(facts, row)->bytes;
        let_mark_with(facts->cx, row, MARK_prefetch, DLC_PREFETCH * bytes);
        let_mark_with(facts->cx, row, MARK_beyond, DLC_LARGE);
        let_mark_with(facts->cx, loop, MARK_strip, DLC_STRIP);
        let_mark_with(facts->cx, loop, MARK_simdlen, width / bytes);
    }
}

static bool
mark_stencils(const PhaseView *phase, Let *loop)
{
    bool vector = loop->op == OP_for && let_has(loop, MARK_vector) && !loop_count(loop->body);
    if (vector && !let_has(loop, MARK_distribute) && !let_has(let_around(loop), MARK_tile)) {
        mark_stencil(phase, loop);
    }
    return true;
}

/* A stencil's stores that go through the caches prefetch as far as its last row. */
static bool
mark_stores(const Facts *facts, const Let *loop)
{
    bool stencil = loop_stencil_row(loop) != NULL;
    for (int k = 0; k < loop->body->n && stencil; k++) {
        Let *let = loop->body->lets[k];
        bool plain = let->op == OP_store &&
                     !(let_has(loop, MARK_streams) && let_has(let, MARK_nontemporal));
        int bytes = plain ? facts_adjacent_bytes(facts, let, loop_index(loop)) : 0;
        if (bytes) {
            let_mark_with(facts->cx, let, MARK_prefetch, DLC_PREFETCH * bytes);
        }
    }
    return stencil;
}

/* ---- tiles ---- */

/* A tile that is transposed: what it reads along the row, some rows later. */
static void
mark_tile(const Facts *facts, const Let *rows, const Let *columns)
{
    Cx *cx = facts->cx;
    for (int k = 0; k < columns->body->n; k++) {
        Let *load = columns->body->lets[k];
        bool along = load->op == OP_load && facts_adjacent_bytes(facts, load, loop_index(columns));
        const Step *row = along ? facts_step(facts, load, loop_index(rows)) : NULL;
        if (row && !dim_is(cx, row->step, 0) && access_is_large(cx, load, DLC_LARGE) &&
            fuel_spend(cx)) {
            let_mark_with(cx, load, MARK_prefetch_rows, DLC_PREFETCH_TILE_ROWS);
            let_mark_with(cx, load, MARK_beyond, DLC_LARGE);
        }
    }
}

/* A reduction or loop over a tile of columns: rows that it gathers. */
static void
mark_columns(const Facts *facts, const Let *loop, const Let *tile)
{
    int64_t row = dim_range(facts->cx, loop_extent(tile)).hi;
    for (int k = 0; k < loop->body->n; k++) {
        if (loop->body->lets[k]->op == OP_load) {
            mark_gather(facts, loop->body->lets[k], tile, loop,
                        row < DLC_COLUMNS ? row : DLC_COLUMNS);
        }
    }
}

/* ---- the target cc ---- */

static void
mark_vector(const Facts *facts, const Let *loop)
{
    const Let *around = let_around(loop);
    int64_t row = dim_range(facts->cx, loop_extent(loop)).hi;
    if (around->op == OP_for && let_has(around, MARK_tile)) {
        mark_tile(facts, around, loop);
        return;
    }
    bool stencil = mark_stores(facts, loop);
    for (int k = 0; k < loop->body->n; k++) {
        Let *load = loop->body->lets[k];
        if (load->op != OP_load) {
            continue;
        }
        if (loop_is(around) && !let_has(load, MARK_prefetch) &&
            row <= DLC_GATHER_ROW / facts_access(facts, load)->bytes) {
            mark_gather(facts, load, loop, around, row);
        }
        if (!stencil && let_has(loop, MARK_streams) && !let_has(load, MARK_prefetch_rows) &&
            facts_row(facts, load, loop_index(loop)) != DIM_NONE) {
            mark_next_row(facts, loop, load);
        }
    }
}

static bool
mark_other(const PhaseView *phase, Let *loop)
{
    const Let *tile = loop_vector_around(loop);
    if (tile) {
        mark_columns(phase->facts, loop, tile);
    } else if (loop->op == OP_for && let_has(loop, MARK_vector) && !loop_count(loop->body)) {
        mark_vector(phase->facts, loop);
    }
    return true;
}

Fn *
rewrite_prefetch_reductions(Fn *fn)
{
    return loops_visit(fn, mark_rows);
}

Fn *
rewrite_stencil(Fn *fn)
{
    return loops_visit(fn, mark_stencils);
}

Fn *
rewrite_prefetch_cc(Fn *fn)
{
    return loops_visit(fn, mark_other);
}
