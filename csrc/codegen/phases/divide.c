/* Divided reductions: few results, and many terms of each.
 *
 * What:     a phase that is one reduction becomes two phases.  The first computes partial results
 *           of its blocks, in parallel, to a buffer; the second combines them.
 * Requires: the loops stage as lowering leaves it: loops over the results, in them the loops of the
 *           reduction, and the store of what it returns.
 * Ensures:  the bits of the form with one phase: its blocks are the same, and the mark `pairs`
 *           combines them in the same order.
 * How:      The innermost loop of the reduction is cut into blocks of 1024 elements; for columns
 *           the outermost loop is cut into blocks of 64 steps.  LoopPath around the cut become
 *           parallel loops of the first phase and sequential ones of the second.
 * Why not:  as many parts as there are threads: the order, and so the bits, would depend on the
 *           machine.
 * Example:  sum of f32[N]: for b in (N + 1023)//1024 { p[b] = reduce sum i in min(1024, N - 1024*b)
 *           lanes }; for i in 1 { reduce sum b pairs { load p[b] } }.
 */
#include "divide.h"

#include "codegen/builder/builder.h"
#include "codegen/loops/facts.h"
#include "codegen/rewrites.h"

bool
reduction_is_divided(int64_t results, int64_t terms, bool columns)
{
    int64_t each = results > 0 ? results : 1;
    return columns ? results <= DLC_FEW_COLUMNS && terms >= 4 * DLC_STEPS
                   : results < DLC_FEW_ROWS && terms >= DLC_THREADS_ROW / each;
}

/* ---- the reduction that a phase is ---- */

/* LoopPath, one in the other, outermost first. */
typedef struct {
    int n;
    Let *loop[MAX_RANK];
} LoopPath;

typedef struct {
    LoopPath results, terms;
    Let *cast, *store; /* of what the reduction returns; the cast may be NULL */
    int cut; /* the loop over terms that is cut: the innermost or, of columns, the outermost */
    bool columns;
    Dim block, blocks; /* the extent of a block, the number of blocks */
} Division;

/* Of a block in which everything else computes: the let with a body.  NULL: there is none, or
 * there are others. */
static Let *
only_loop(const Block *blk)
{
    Let *found = NULL;
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        bool computes = let->op == OP_bind || let_is_plain(let);
        if (let->body ? found != NULL : !computes) {
            return NULL;
        }
        found = let->body ? let : found;
    }
    return found;
}

static bool
only_computes(const Block *blk)
{
    bool computes = true;
    for (int k = 0; k < blk->n; k++) {
        computes &= blk->lets[k]->op == OP_bind || let_is_plain(blk->lets[k]);
    }
    return computes;
}

/* The loops over the results.  What the innermost one has beside the reduction is looked at
 * later. */
static Let *
find_results(Let *let, LoopPath *results)
{
    while (let && let->op == OP_for && !let_int(let, "marks") && results->n < MAX_RANK) {
        results->loop[results->n++] = let;
        Let *inner = only_loop(let->body);
        if (!inner || inner->op != OP_for) {
            break;
        }
        let = inner;
    }
    return results->n ? results->loop[results->n - 1] : NULL;
}

/* Does the loop reduce by the operation, in an order that allows for blocks? */
static bool
reduces_in_blocks(const Let *loop, Op op)
{
    return loop->op == OP_reduce && let_op(loop) == op && op_info[op].rule != RULE_INDEX &&
           !let_has(loop, MARK_fused) && !let_has(loop, MARK_pairs) &&
           !value_is_const(loop->body->rets[0]);
}

/* The loops over the terms: each returns what the one in it has reduced. */
static bool
find_terms(const Cx *cx, Let *let, LoopPath *terms)
{
    Op op = let->op == OP_reduce ? let_op(let) : OP_COUNT;
    while (op < OP_COUNT && reduces_in_blocks(let, op) && terms->n < MAX_RANK &&
           !dim_has_index(cx, loop_extent(let))) {
        terms->loop[terms->n++] = let;
        if (only_computes(let->body)) {
            return true;
        }
        Let *inner = only_loop(let->body);
        if (!inner || !inner->nres || let->body->rets[0] != inner->res[0]) {
            return false;
        }
        let = inner;
    }
    return false;
}

/* Is there nothing behind the reduction but perhaps a cast, and the store? */
static bool
find_store(Division *d, Let *reduction)
{
    const Block *blk = reduction->parent;
    int at = place_of(reduction), n = blk->n - at - 1;
    d->store = blk->lets[blk->n - 1];
    d->cast = n == 2 ? blk->lets[at + 1] : NULL;
    const Value *of = d->cast && d->cast->op == OP_cast ? d->cast->args[0] : NULL,
                *stored = d->store->op == OP_store ? d->store->args[1] : NULL;
    return n == 1   ? stored == reduction->res[0]
           : n == 2 ? of == reduction->res[0] && stored == d->cast->res[0]
                    : false;
}

static Let *
last_of(const LoopPath *loops)
{
    return loops->loop[loops->n - 1];
}

/* Does the store go to what the loops over results alone say? */
static bool
goes_by_results(Cx *cx, const Division *d)
{
    const Attr *at = let_attr(d->store, "at");
    bool bound = false;
    for (int k = 0; k < at->n; k++) {
        bound |= dim_is_bound_in(cx, at->dims[k], last_of(&d->results)->body);
    }
    return !bound;
}

static int64_t
most_iterations(Cx *cx, const LoopPath *loops)
{
    Dim extents[MAX_RANK];
    for (int k = 0; k < loops->n; k++) {
        extents[k] = loop_extent(loops->loop[k]);
    }
    return dims_most(cx, loops->n, extents);
}

/* Is the loop a phase that is one reduction, and is that better divided? */
static bool
find_division(Cx *cx, Let *loop, Division *d)
{
    *d = (Division){0};
    Let *inner = find_results(loop, &d->results), *reduction = NULL;
    for (int k = 0; inner && k < inner->body->n; k++) {
        Let *let = inner->body->lets[k];
        bool store = let->op == OP_store && k == inner->body->n - 1;
        if (let->body ? reduction != NULL : !store && let->op != OP_bind && !let_is_plain(let)) {
            return false;
        }
        reduction = let->body ? let : reduction;
    }
    if (!reduction || !find_terms(cx, reduction, &d->terms) || !find_store(d, reduction) ||
        !goes_by_results(cx, d) || loop_accesses(loop, OP_load, d->store->args[0])) {
        return false;
    }
    const Let *last = last_of(&d->terms);
    d->columns = !let_has(last, MARK_lanes);
    d->cut = d->columns ? 0 : d->terms.n - 1;
    Dim steps = dim_int(cx, d->columns ? DLC_STEPS : DLC_BLOCK);
    d->block = steps;
    d->blocks = extent_ceiling(cx, loop_extent(d->terms.loop[d->cut]), steps);
    return d->cut + 1 + d->results.n <= MAX_RANK &&
           reduction_is_divided(most_iterations(cx, &d->results), most_iterations(cx, &d->terms),
                                d->columns);
}

/* ---- the two phases ---- */

static Dim
open(Builder *out, const char *stem, Dim extent, Renamed *names, const Let *loop)
{
    dims_rename(out->cx, names, 1, &extent);
    Dim index = builder_open(out, stem, extent);
    renamed_add(out->cx, names, loop_index(loop), index);
    return index;
}

/* Moves what the block computes to the loops that are open, no farther out than the depth. */
static void
move_lets(Builder *out, const Renamed *names, const Block *blk, int least, const Let *before)
{
    for (int k = 0; k < blk->n && blk->lets[k] != before; k++) {
        Let *let = blk->lets[k];
        if (!let->body) {
            let_rename(out->cx, names, let);
            int depth = builder_depth_of(out, let);
            builder_move(out, depth > least ? depth : least, let);
        }
    }
}

/* The partial results: [loops around the cut, blocks, results]. */
static Value *
partial_buffer(Builder *out, const Division *d, Dtype dtype)
{
    Dim dims[MAX_RANK];
    int n = 0;
    for (int k = 0; k < d->cut; k++) {
        dims[n++] = loop_extent(d->terms.loop[k]);
    }
    dims[n++] = d->blocks;
    for (int k = 0; k < d->results.n; k++) {
        Dim extent = loop_extent(d->results.loop[k]);
        dims[n] = extent;
        n += !extent_is_one(out->cx, extent);
    }
    return builder_buffer(out, 0, dtype, n, dims);
}

static Value *
put_partials(Builder *out, const Division *d)
{
    Cx *cx = out->cx;
    const LoopPath *terms = &d->terms, *results = &d->results;
    Renamed names = {0};
    int n = 0, depths[MAX_RANK], opened, below;
    Dim at[MAX_RANK];
    Value *partial = partial_buffer(out, d, terms->loop[0]->res[0]->type->dtype);
    for (int k = 0; k < d->cut; k++) {
        at[n++] = open(out, "i", loop_extent(terms->loop[k]), &names, terms->loop[k]);
    }
    Dim block = at[n++] = builder_open(out, "block", d->blocks);
    for (int k = 0; k < results->n; k++) {
        const Let *loop = results->loop[k];
        if (extent_is_one(cx, loop_extent(loop))) {
            renamed_add(cx, &names, loop_index(loop), dim_int(cx, 0));
        } else {
            at[n++] = open(out, "i", loop_extent(loop), &names, loop);
        }
        depths[k] = out->depth;
    }
    opened = below = out->depth;
    Dim first = dim_mul(cx, block, d->block), whole = loop_extent(terms->loop[d->cut]);
    for (int k = d->cut; k < terms->n; k++) {
        Dim left = dim_min(cx, d->block, dim_sub(cx, whole, first));
        Dim i = builder_open(out, "i", k == d->cut ? left : loop_extent(terms->loop[k]));
        renamed_add(cx, &names, loop_index(terms->loop[k]),
                    k == d->cut ? dim_add(cx, first, i) : i);
    }
    for (int k = 0; k < results->n; k++) {
        move_lets(out, &names, results->loop[k]->body, depths[k], terms->loop[0]);
    }
    for (int k = 0; k < terms->n; k++) {
        below += k >= d->cut;
        move_lets(out, &names, terms->loop[k]->body, below, NULL);
    }
    Value *v = last_of(terms)->body->rets[0];
    for (int k = terms->n - 1; k >= d->cut; k--) {
        const Let *loop = terms->loop[k];
        v = builder_close_reduce(out, let_op(loop), (Marks)let_int(loop, "marks"), v);
    }
    builder_store(out, partial, at, v);
    builder_close_all(out, opened);
    return partial;
}

static void
put_total(Builder *out, const Division *d, Value *partial)
{
    const LoopPath *terms = &d->terms, *results = &d->results;
    Op op = let_op(terms->loop[0]);
    Renamed names = {0};
    Dim at[MAX_RANK];
    int n = d->cut + 1;
    for (int k = 0; k < results->n; k++) {
        const Let *loop = results->loop[k];
        at[n] = open(out, "i", loop_extent(loop), &names, loop);
        n += !extent_is_one(out->cx, loop_extent(loop));
    }
    for (int k = 0; k < d->cut; k++) {
        at[k] = builder_open(out, "i", loop_extent(terms->loop[k]));
    }
    at[d->cut] = builder_open(out, "block", d->blocks);
    Value *v = builder_load(out, out->depth, partial, at);
    for (int k = d->cut; k >= 0; k--) {
        v = builder_close_reduce(out, op, k == d->cut ? MARK_pairs : 0, v);
    }
    if (d->cast) {
        d->cast->args[0] = v;
        builder_move(out, out->depth, d->cast);
    }
    d->store->args[1] = d->cast ? d->cast->res[0] : v;
    let_rename(out->cx, &names, d->store);
    builder_move(out, out->depth, d->store);
    builder_close_all(out, results->n);
}

static void
free_names(Fn *fn, const LoopPath *loops)
{
    for (int k = 0; k < loops->n; k++) {
        const Let *loop = loops->loop[k];
        fn_free_name(fn, dim_name(fn->cx, loop_index(loop)));
        if (loop->nres) {
            fn_free_name(fn, loop->res[0]->name);
        }
    }
}

static void
divide(Fn *fn, Let *phase, const Division *d)
{
    Cx *cx = fn->cx;
    Builder *out = cx_alloc(cx, sizeof *out);
    *out = (Builder){.cx = cx, .fn = fn};
    builder_begin(out, cx_alloc(cx, sizeof(Block)));
    cx_set_loc(cx, d->terms.loop[0]->loc);
    free_names(fn, &d->results);
    free_names(fn, &d->terms);
    put_total(out, d, put_partials(out, d));
    cx_set_loc(cx, (Loc){0});
    builder_replace(out, phase);
}

/* Divides the phases in the block and in its choices; how many. */
static int
divide_phases(Fn *fn, Block *blk)
{
    int n = 0;
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        Division d;
        int before = blk->n;
        if (let->op == OP_for) {
            int assumed = let_assume(fn->cx, let);
            if (find_division(fn->cx, let, &d) && fuel_spend(fn->cx)) {
                divide(fn, let, &d);
                n++;
            }
            for (; assumed; assumed--) {
                dim_forget(fn->cx);
            }
        } else if (let->body && !loop_is(let)) {
            n += divide_phases(fn, let->body);
        }
        k += blk->n - before;
    }
    return n;
}

Fn *
rewrite_divide(Fn *fn)
{
    if (divide_phases(fn, fn->body)) {
        facts_forget(fn);
    }
    return fn;
}
