/* Split reductions: few outer elements and a long row, or few columns of many rows.
 *
 * What:     two phases for one reduction.  The first computes partial results of its blocks, in
 *           parallel, to a buffer; the second combines them.
 * Requires: a group with the reduction's value as its only output.
 * Ensures:  the bits of the form with one phase: its blocks are the same, and the mark `pairs`
 *           combines them in the same order.
 * How:      The innermost loop of the reduction is cut into blocks of 1024 elements; for columns
 *           the outermost loop is cut into blocks of 64 steps.  Loops around the cut become
 *           parallel loops of the first phase and sequential ones of the second.
 * Why not:  as many parts as there are threads: the order, and so the bits, would depend on the
 *           machine.
 * Example:  sum of f32[N]: for b in (N + 1023)//1024 { p[b] = reduce sum i in min(1024, N - 1024*b)
 *           vector }; for i in 1 { reduce sum b pairs { load p[b] } }.
 */
#include <string.h>

#include "lower.h"

typedef struct {
    const Site *site;
    const Nest *nest;
    /* the loop that is cut in blocks: the innermost or, for columns, the outermost */
    int cut;
    Dim block, blocks;          /* the extent of a block, the number of blocks */
} Split;

static Split
split_of(Lower *lo, const Site *site, const Nest *nest)
{
    Cx *cx = lo->cx;
    int steps = lo->column ? DLC_STEPS : DLC_BLOCK;
    Split s = {site, nest, lo->column ? 0 : nest->nloops - 1, dim_int(cx, steps), DIM_NONE};
    s.blocks = dim_div(cx, dim_add(cx, nest->count[s.cut], dim_int(cx, steps - 1)), s.block);
    return s;
}

/* The partial results: [loops around the cut, blocks, outer axes]. */
static Value *
partial_buffer(Lower *lo, const Split *s, const Space *space, Dtype dtype)
{
    Dim dims[MAX_LOOPS];
    int n = 0;
    for (int k = 0; k < s->cut; k++) {
        dims[n++] = s->nest->count[k];
    }
    dims[n++] = s->blocks;
    for (int k = 0; k < space->nouter; k++) {
        dims[n++] = space->outer_extent[k];
    }
    if (n > MAX_RANK) {
        fail(lo->cx, DIAG_SPLIT_AXES, n, MAX_RANK);
    }
    return builder_buffer(&lo->out, 0, dtype, n, dims);
}

/* The element of the operand, given the indices of the nest's loops and of the outer axes. */
static Value *
partial_element(Lower *lo, const Split *s, const Space *space, const Dim *outer, const Dim *loops)
{
    const Let *red = s->site->red;
    Dim inner[MAX_RANK], axes[MAX_RANK], idx[MAX_RANK];
    memcpy(axes, s->nest->axis, sizeof axes);
    axes_rename(lo, s->nest->nloops, s->nest->index, loops, s->nest->naxes, axes);
    memcpy(idx, s->site->idx, (size_t)red->res[0]->type->rank * sizeof *idx);
    axes_rename(lo, space->nouter, space->outer, outer, red->res[0]->type->rank, idx);
    index_reduced(lo->cx, red, idx, axes, inner);
    return builder_cast(&lo->out, builder_truth(&lo->out, lower_at(lo, red->args[0], inner)),
                        reduce_dtype(red));
}

static void
build_partials(Lower *lo, const Split *s, const Space *space, const Nest *outer, Value *partial)
{
    Cx *cx = lo->cx;
    Dim loops[MAX_LOOPS], axes[MAX_RANK], at[MAX_LOOPS];
    const Nest *nest = s->nest;
    int n = 0;
    for (int k = 0; k < s->cut; k++) {
        at[n++] = loops[k] = builder_open(&lo->out, "i", nest->count[k]);
    }
    Dim block = at[n++] = builder_open(&lo->out, "block", s->blocks);
    nest_open(lo, outer, axes);
    lo->outer = lo->out.depth;
    memcpy(at + n, axes, (size_t)space->nouter * sizeof *at);
    Dim first = dim_mul(cx, block, s->block);
    Dim extent = dim_min(cx, s->block, dim_sub(cx, nest->count[s->cut], first));
    for (int k = s->cut; k < nest->nloops; k++) {
        Dim i = builder_open(&lo->out, "i", k == s->cut ? extent : nest->count[k]);
        loops[k] = k == s->cut ? dim_add(cx, first, i) : i;
    }
    Value *v = partial_element(lo, s, space, axes, loops);
    for (int k = s->cut; k < nest->nloops; k++) {
        v = builder_close_reduce(&lo->out, s->site->red->op, lo->column ? 0 : MARK_lanes, v);
    }
    lower_store(lo, partial, at, v);
    builder_close_all(&lo->out, s->cut + 1 + outer->nloops);
}

static void
build_total(Lower *lo, const Split *s, const Group *g, const Shape *shape, const Nest *outer,
            Value *partial)
{
    Dim axes[MAX_RANK], at[MAX_LOOPS], idx[MAX_RANK];
    int opened = group_open(lo, outer, axes);
    memcpy(idx, shape->idx, (size_t)g->rank * sizeof *idx);
    axes_rename(lo, shape->space.nouter, shape->space.outer, axes, g->rank, idx);
    for (int k = 0; k < s->cut; k++) {
        at[k] = builder_open(&lo->out, "i", s->nest->count[k]);
    }
    at[s->cut] = builder_open(&lo->out, "block", s->blocks);
    memcpy(at + s->cut + 1, axes, (size_t)shape->space.nouter * sizeof *at);
    Value *v = lower_load(lo, partial, at);
    for (int k = s->cut; k >= 0; k--) {
        v = builder_close_reduce(&lo->out, s->site->red->op, k == s->cut ? MARK_pairs : 0, v);
    }
    v = builder_cast(&lo->out, v, g->outputs[0].value->type->dtype);
    lower_store(lo, g->outputs[0].buffer, idx, v);
    builder_close_all(&lo->out, opened);
}

void
group_split(Lower *lo, const Group *g, const Shape *s, const Probe *probe)
{
    const Site *site = &probe->sites[probe->nsites - 1];
    Nest outer;
    group_sites(lo, probe);
    group_outer(lo, &s->space, probe, &outer);
    const Nest *nest = map_get(&lo->nests, (const uint32_t[]){(uint32_t)site->red->res[0]->id}, 1);
    Split split = split_of(lo, site, nest);
    Dtype dtype = reduce_dtype(site->red);
    Value *partial = partial_buffer(lo, &split, &s->space, dtype);
    build_partials(lo, &split, &s->space, &outer, partial);
    build_total(lo, &split, g, s, &outer, partial);
}
