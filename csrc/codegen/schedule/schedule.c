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
 *           iteration.
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

#include "codegen/loops.h"

int
loop_count(const Block *blk)
{
    int n = 0;
    for (int k = 0; k < blk->n; k++) {
        n += loop_is(blk->lets[k]);
    }
    return n;
}

bool
loop_is_call(const Let *let)
{
    return let->op == OP_for && (loop_has(let, MARK_pack) || loop_has(let, MARK_micro));
}

static bool
has_call(const Block *blk)
{
    bool found = false;
    for (int k = 0; k < blk->n && !found; k++) {
        found = loop_is_call(blk->lets[k]) ||
                (loop_is(blk->lets[k]) && has_call(blk->lets[k]->body));
    }
    return found;
}

static bool
has_vector(const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        const Let *let = blk->lets[k];
        if (loop_is(let) && (loop_has(let, MARK_vector) || has_vector(let->body))) {
            return true;
        }
    }
    return false;
}

/* The `for` in the body if it is the only loop there, among scalars without memory; else NULL. */
static Let *
only_for(const Let *let)
{
    Let *found = NULL;
    for (int k = 0; k < let->body->n; k++) {
        Let *inner = let->body->lets[k];
        if (inner->op == OP_reduce || let_writes(inner) || inner->op == OP_buffer ||
            (inner->op == OP_for && found)) {
            return NULL;
        }
        found = inner->op == OP_for ? inner : found;
    }
    return found;
}

Let *
loop_inner(const Let *let)
{
    for (int k = 0; k < let->body->n; k++) {
        if (let->body->lets[k]->op == OP_for) {
            return let->body->lets[k];
        }
    }
    return NULL;
}

static bool
is_bound_in(const void *arg, Dim name)
{
    const Block *block = arg;
    bool bound = false;
    for (int k = 0; k < block->n; k++) {
        const Let *let = block->lets[k];
        bound |= let->op == OP_bind && let->sizes[0] == name;
    }
    return bound;
}

bool
loop_transposes(Cx *cx, const Let *rows, const Let *inner, const Let *load, Dim *step)
{
    Dim i = let_dim(rows, "index"), j = let_dim(inner, "index"), one, rest;
    Dim offset = index_offset(cx, load->args[0], let_attr(load, "at")->dims);
    bool bound = dim_any_name(cx, offset, is_bound_in, rows->body) ||
                 dim_any_name(cx, offset, is_bound_in, inner->body);
    return !bound && dim_affine(cx, offset, i, &one, &rest) && dim_is(cx, one, 1) &&
           dim_affine(cx, rest, j, step, &rest) && !dim_is(cx, *step, 0) && !dim_is(cx, *step, 1);
}

/* Each mark is one rewrite, so it costs fuel. */
static bool
mark_by_fuel(Cx *cx, Let *let, unsigned mark)
{
    bool may = fuel_spend(cx);
    if (may) {
        loop_mark(let, mark, true);
    }
    return may;
}

/* Marks the loop `tile` if a load of its only vector loop reads adjacent elements from one
 * iteration of this loop to the next, and not along the vector. */
static void
mark_tile(Cx *cx, Let *let, const Let *inner)
{
    Dim step;
    for (int k = 0; k < inner->body->n; k++) {
        const Let *load = inner->body->lets[k];
        if (load->op == OP_load && loop_transposes(cx, let, inner, load, &step) &&
            dim_range(cx, let_dim(let, "extent")).hi >= DLC_FEW_ITERATIONS &&
            dim_range(cx, let_dim(inner, "extent")).hi >= DLC_FEW_ITERATIONS) {
            mark_by_fuel(cx, let, MARK_tile);
            return;
        }
    }
}

const Let *
loop_carried(const Let *combine)
{
    const Block *body = combine->parent;
    const Let *load = combine->nargs == 2 && !value_is_const(combine->args[0])
                          ? combine->args[0]->def
                          : NULL;
    const Let *buffer = load && load->op == OP_load && load->parent == body ? load->args[0]->def
                                                                            : NULL;
    if (!buffer || buffer->op != OP_buffer || buffer->parent == body) {
        return NULL;
    }
    for (int k = 0; k < body->n; k++) {
        const Let *store = body->lets[k];
        if (store->op == OP_store && store->args[0] == load->args[0] &&
            store->args[1] == combine->res[0]) {
            return load;
        }
    }
    return NULL;
}

bool
loop_is_recurrence(const Let *loop)
{
    const Let *around = loop->parent->owner;
    return loop->op == OP_for && around && around->op == OP_for &&
           loop_has(around, MARK_recurrences);
}

/* Does an iteration need what the one before it has left in a buffer outside the loop? */
static bool
is_ordered(const Let *let)
{
    for (int k = 0; k < let->body->n; k++) {
        if (op_info[let->body->lets[k]->op].kind == KIND_MAP && loop_carried(let->body->lets[k])) {
            return true;
        }
    }
    return false;
}

/* Counts the accesses of the loop that are contiguous along the index; a store counts twice. */
static int
contiguous_accesses(Cx *cx, const Let *loop, Dim index)
{
    int n = 0;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        Dim step, rest;
        if (let_accesses(let) &&
            dim_affine(cx, index_offset(cx, let->args[0], let_attr(let, "at")->dims), index, &step,
                       &rest)) {
            n += (dim_is(cx, step, 1) || dim_is(cx, step, -1)) * (let_writes(let) ? 2 : 1);
        }
    }
    return n;
}

/* Is it a loop around one that must run in order, and no good vector?  It is none if it has too few
 * iterations, or if memory is less contiguous along it than along the inner loop. */
static bool
is_recurrences(Cx *cx, const Let *let)
{
    const Let *inner = loop_count(let->body) == 1 ? loop_inner(let) : NULL;
    if (!inner || loop_count(inner->body) || !is_ordered(inner)) {
        return false;
    }
    int across = contiguous_accesses(cx, inner, let_dim(let, "index"));
    return dim_range(cx, let_dim(let, "extent")).hi < DLC_LANES || across == 0 ||
           across < contiguous_accesses(cx, inner, let_dim(inner, "index"));
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
is_columns(Cx *cx, const Let *let)
{
    const Let *inner = loop_count(let->body) == 1 ? loop_inner(let) : NULL;
    const Let *update = inner ? update_in(inner) : NULL;
    Dim step, rest;
    if (!update || dim_range(cx, let_dim(let, "extent")).hi < DLC_LANES) {
        return false;
    }
    Dim offset = index_offset(cx, update->args[0], let_attr(update, "at")->dims);
    return dim_affine(cx, offset, let_dim(let, "index"), &step, &rest) && dim_is(cx, step, 1);
}

static void
mark_vector(Cx *cx, Let *let)
{
    if (is_ordered(let) || loop_is_call(let)) {
        return;
    }
    if (is_columns(cx, let) || is_recurrences(cx, let)) {
        mark_by_fuel(cx, let, is_columns(cx, let) ? MARK_vector : MARK_recurrences);
        return;
    }
    bool once = dim_is(cx, let_dim(let, "extent"), 1);
    if (loop_count(let->body) &&
        (once || has_vector(let->body) || has_call(let->body) || only_for(let))) {
        for (int k = 0; k < let->body->n; k++) {
            if (let->body->lets[k]->op == OP_for) {
                mark_vector(cx, let->body->lets[k]);
            }
        }
        const Let *inner = only_for(let);
        if (inner && loop_has(inner, MARK_vector) && loop_count(inner->body) == 0) {
            mark_tile(cx, let, inner);
        }
    } else {
        mark_by_fuel(cx, let, MARK_vector);
    }
}

/* Is there nothing beside it, nor beside the loops around it? */
static bool
is_alone(const Let *let)
{
    const Let *around = let->parent->owner;
    while (around->op == OP_for && let->parent->n == 1) {
        let = around;
        around = let->parent->owner;
    }
    return around->op == OP_kernel;
}

/* Has it only a few elements in an iteration or, as a vector loop, only one tile?  Sharing such a
 * loop among threads costs more than running it.  A loop that may have no iterations is shared all
 * the same unless it is alone: then nothing is gathered around it, and no index is checked. */
static bool
is_little(Cx *cx, const Let *let)
{
    int64_t most = 1;
    if (loop_has(let, MARK_vector)) {
        Range n = dim_range(cx, let_dim(let, "extent"));
        return (n.lo > 0 || is_alone(let)) && n.hi <= DLC_COLUMNS;
    }
    for (const Let *inner = only_for(let); inner && most <= DLC_LANES; inner = only_for(let)) {
        Range n = dim_range(cx, let_dim(inner, "extent"));
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
    return !dim_has_index(cx, let_dim(let, "extent"));
}

static void
mark_parallel(Cx *cx, Let *let)
{
    int64_t least = 1;
    for (const Let *first = let; let && !update_in(let) && (let == first || !is_little(cx, let));
         let = only_for(let)) {
        bool whole = loop_has(let, MARK_pack) || loop_has(let, MARK_micro);
        if (whole || !is_even(cx, let) || !mark_by_fuel(cx, let, MARK_parallel)) {
            break;
        }
        int64_t n = dim_range(cx, let_dim(let, "extent")).lo;
        n = loop_has(let, MARK_tile)          ? n / DLC_ROWS
            : loop_has(let, MARK_recurrences) ? n / DLC_RECURRENCES
                                              : n;
        if (loop_has(let, MARK_vector) || (n > 0 && __builtin_mul_overflow(least, n, &least)) ||
            least >= DLC_PARALLEL) {
            break;
        }
    }
}

/* Calls `mark` for each phase: a `for` at the top of a kernel. */
static Fn *
each_phase(Fn *fn, void (*mark)(Cx *cx, Let *phase))
{
    for (int k = 0; k < fn->body->n; k++) {
        const Let *kernel = fn->body->lets[k];
        for (int j = 0; kernel->op == OP_kernel && j < kernel->body->n; j++) {
            if (kernel->body->lets[j]->op == OP_for) {
                mark(fn->cx, kernel->body->lets[j]);
            }
        }
    }
    return fn;
}

Fn *
rewrite_vectorise(Fn *fn)
{
    return each_phase(fn, mark_vector);
}

Fn *
rewrite_parallelise(Fn *fn)
{
    return each_phase(fn, mark_parallel);
}
