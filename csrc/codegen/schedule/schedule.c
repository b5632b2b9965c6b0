/* Two rewrites: vectorise says which loops run over vectors, parallelise which ones threads share.
 *
 * What:     both mark `for` loops of the loops stage; nothing else changes.
 * Requires: loops as lower.c leaves them: independent iterations, reductions with their order
 *           fixed.
 * Ensures:  On each path from a phase to its innermost loops at most one loop is `vector`, and no
 *           loop in the body of a vector reduction is.  `parallel` loops are the outermost ones of
 *           their phase, each the only loop in the one around it.  A `tile` loop has a vector loop
 *           as its only loop inside.  Scalars may stand next to these loops.
 * How:      A loop without loops inside is a vector loop.  So is one whose inner loops are all
 *           sequential (column reductions): it runs a tile of columns at a time, and each inner
 *           loop goes over the tile.  A loop that updates is never parallel.  A vector loop that
 *           updates runs in order; if the elements of the loop around it are contiguous, that one
 *           is the vector instead.
 *           The same goes for a loop whose iterations continue one another (a scan): the loop
 *           around it is the vector, or else it is `recurrences`.  DLC_RECURRENCES iterations of a
 *           `recurrences` loop run together, so that some go on while another waits.
 *           A loop around vector reductions or vector loops stays scalar, and so does a loop of one
 *           iteration, or one with an `if` in it.
 *           The outermost loop is parallel.  While there may be fewer than DLC_PARALLEL iterations
 *           and the next loop is alone inside, that loop is parallel too, unless it has little to
 *           do; the launch counts the product of their extents.  A loop that is parallel and vector
 *           is counted in tiles of DLC_TILE elements, or DLC_COLUMNS if it has loops inside.
 *           A loop around a vector loop that reads across the rows of a tensor is `tile`.  DLC_ROWS
 *           of its iterations run together for DLC_WIDTH of the vector's; what they read is first
 *           transposed, whole cache lines at a time.  The parallel loop counts tiles there.
 * Why not:  search with timings: the order in memory was settled when the loops were made
 *           (lower_nest.c), and bits must not depend on a timing.  schedule_tuning.c has what may
 *           depend on one.
 * Example:  transpose: `for j in M parallel tile { for i in N vector { load x[i, j]; store } }`;
 *           softmax: `for i in B parallel { reduce.. vector; reduce.. vector; for j in N vector }`.
 */
#include <string.h>

#include "codegen/loops/phase_use.h"
#include "codegen/rewrites.h"

/* A sum of products has one order, so it is none for each element of a vector. */
static bool
is_vector_or_call(const void *arg, const Let *let)
{
    (void)arg;
    return loop_is(let) && (loop_is_vector(let) || loop_is_call(let) || let_has(let, MARK_fused));
}

/* The `for` in the body if it is the only loop there, among scalars without memory; else NULL. */
static Let *
only_for(const Let *let)
{
    Let *found = NULL;
    for (int k = 0; k < let->body->n; k++) {
        Let *inner = let->body->lets[k];
        if (inner->op == OP_reduce || let_writes(inner) || inner->op == OP_buffer ||
            let_is_choice(inner) || (inner->op == OP_for && found)) {
            return NULL;
        }
        found = inner->op == OP_for ? inner : found;
    }
    return found;
}

/* Each mark is one rewrite, so it costs fuel. */
static bool
mark_by_fuel(Cx *cx, Let *let, Marks mark)
{
    bool may = fuel_spend(cx);
    if (may) {
        let_mark(let, mark, true);
    }
    return may;
}

/* Marks the loop `tile` if a load of its only vector loop reads adjacent elements from one
 * iteration of this loop to the next, and not along the vector. */
static void
mark_tile(const Facts *facts, Let *let, const Let *inner)
{
    Dim step;
    for (int k = 0; k < inner->body->n; k++) {
        const Let *load = inner->body->lets[k];
        if (load->op == OP_load && facts_transposed(facts, load, let, inner, &step) &&
            dim_range(facts->cx, loop_extent(let)).hi >= DLC_FEW_ITERATIONS &&
            dim_range(facts->cx, loop_extent(inner)).hi >= DLC_FEW_ITERATIONS) {
            mark_by_fuel(facts->cx, let, MARK_tile);
            return;
        }
    }
}

/* Does an iteration need the value that the previous one left in a buffer outside the loop? */
static bool
is_ordered(const Let *let)
{
    for (int k = 0; k < let->body->n; k++) {
        if (let_is_map(let->body->lets[k]) && loop_carried(let->body->lets[k])) {
            return true;
        }
    }
    return false;
}

/* Counts the accesses of the loop that are contiguous along the index; a store counts twice. */
static int
contiguous_accesses(const Facts *facts, const Let *loop, Dim index)
{
    int n = 0;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        const Step *along = let_accesses(let) ? facts_step(facts, let, index) : NULL;
        if (along && (dim_is(facts->cx, along->step, 1) || dim_is(facts->cx, along->step, -1))) {
            n += let_writes(let) ? 2 : 1;
        }
    }
    return n;
}

/* Is it a loop around one that must run in order, and no good vector?  It is none if it has too few
 * iterations, or if memory is less contiguous along it than along the inner loop. */
static bool
is_recurrences(const Facts *facts, const Let *let)
{
    const Let *inner = loop_count(let->body) == 1 ? loop_inner(let) : NULL;
    if (!inner || loop_count(inner->body) || !is_ordered(inner) ||
        recurrences_wrong(facts->cx, inner)) {
        return false;
    }
    int across = contiguous_accesses(facts, inner, loop_index(let));
    return dim_range(facts->cx, loop_extent(let)).hi < DLC_LANES || across == 0 ||
           across < contiguous_accesses(facts, inner, loop_index(inner));
}

/* The update in the loop's own block, or NULL. */
static const Let *
update_in(const Let *let)
{
    for (int k = 0; k < let->body->n; k++) {
        if (let->body->lets[k]->op == OP_update) {
            return let->body->lets[k];
        }
    }
    return NULL;
}

/* Is it a loop around one that updates in order, with adjacent elements and enough iterations for a
 * vector? */
static bool
is_columns(const Facts *facts, const Let *let)
{
    const Let *inner = loop_count(let->body) == 1 ? loop_inner(let) : NULL;
    const Let *update = inner ? update_in(inner) : NULL;
    return update && dim_range(facts->cx, loop_extent(let)).hi >= DLC_LANES &&
           facts_contiguous(facts, update, loop_index(let));
}

static void mark_vector(const Facts *facts, Let *let);

/* The loops in the block, and in choices in it. */
static void
mark_vectors(const Facts *facts, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        if (let->op == OP_for) {
            mark_vector(facts, let);
        } else if (let_enter(facts->cx, let)) {
            mark_vectors(facts, let->body);
            dim_forget(facts->cx);
        }
    }
}

static void
mark_vector(const Facts *facts, Let *let)
{
    Cx *cx = facts->cx;
    if (let_has(let, MARK_steps)) {
        mark_vectors(facts, let->body);
        return;
    }
    if (is_ordered(let) || loop_is_call(let)) {
        return;
    }
    if (loop_has_choice(let)) {
        mark_vectors(facts, let->body);
        return;
    }
    if (is_columns(facts, let) || is_recurrences(facts, let)) {
        if (is_columns(facts, let)) {
            mark_by_fuel(cx, let, MARK_vector);
        } else if (fuel_spend(cx)) {
            let_mark_with(cx, let, MARK_recurrences, DLC_RECURRENCES);
        }
        return;
    }
    bool once = dim_is(cx, loop_extent(let), 1);
    if (loop_count(let->body) &&
        (once || block_any(let->body, is_vector_or_call, NULL) || only_for(let))) {
        mark_vectors(facts, let->body);
        const Let *inner = only_for(let);
        if (inner && let_has(inner, MARK_vector) && loop_count(inner->body) == 0) {
            mark_tile(facts, let, inner);
        }
    } else {
        mark_by_fuel(cx, let, MARK_vector);
    }
}

/* Is there nothing beside it, nor beside the loops around it? */
static bool
is_alone(const Let *let)
{
    const Let *around = let_around(let);
    while (around->op == OP_for && let->parent->n == 1) {
        let = around;
        around = let_around(let);
    }
    return !loop_is(around);
}

/* Does an iteration have only a few elements or, as a vector loop, only one tile?  Sharing such a
 * loop among threads costs more than running it.  A loop that may have no iterations is
 * nevertheless shared unless it is alone: then nothing is gathered around it, and no index is
 * checked. */
static bool
is_little(Cx *cx, const Let *let)
{
    int64_t most = 1;
    if (let_has(let, MARK_vector)) {
        Range n = dim_range(cx, loop_extent(let));
        return (n.lo > 0 || is_alone(let)) && n.hi <= DLC_COLUMNS;
    }
    for (const Let *inner = only_for(let); inner && most <= DLC_LANES; inner = only_for(let)) {
        Range n = dim_range(cx, loop_extent(inner));
        most = n.lo > 0 && n.hi <= DLC_LANES ? most * n.hi : DLC_LANES + 1;
        let = inner;
    }
    return most <= DLC_LANES && !loop_count(let->body);
}

/* Has it the same extent in each iteration of the loops around it?  Threads share the product of
 * the extents, so it must have. */
static bool
is_even(Cx *cx, const Let *let)
{
    return !dim_has_index(cx, loop_extent(let));
}

static void
mark_parallel(Cx *cx, Let *let)
{
    int64_t least = 1;
    for (const Let *first = let; let && !update_in(let) && (let == first || !is_little(cx, let));
         let = only_for(let)) {
        bool whole = let_has(let, MARK_pack) || let_has(let, MARK_micro) ||
                     let_has(let, MARK_steps);
        if (whole || !is_even(cx, let) || !mark_by_fuel(cx, let, MARK_parallel)) {
            break;
        }
        int64_t n = dim_range(cx, loop_extent(let)).lo;
        n = let_has(let, MARK_tile)          ? n / DLC_ROWS
            : let_has(let, MARK_recurrences) ? n / let_mark_value(let, MARK_recurrences)
                                             : n;
        if (let_has(let, MARK_vector) || (n > 0 && __builtin_mul_overflow(least, n, &least)) ||
            least >= DLC_PARALLEL) {
            break;
        }
    }
}

static void
vectorise_phase(const PhaseView *phase, const void *arg)
{
    (void)arg;
    mark_vector(phase->facts, phase->loop);
}

static void
parallelise_phase(const PhaseView *phase, const void *arg)
{
    (void)arg;
    mark_parallel(phase->fn->cx, phase->loop);
}

Fn *
rewrite_vectorise(Fn *fn)
{
    return phases_visit(fn, vectorise_phase, NULL);
}

Fn *
rewrite_parallelise(Fn *fn)
{
    return phases_visit(fn, parallelise_phase, NULL);
}
