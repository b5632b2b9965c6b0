/* Lowering: from the kernels stage to the loops stage.
 *
 * What:     every kernel's body becomes buffers and loops over scalars.
 * Requires  the kernels stage; ensures the loops stage, where each top-level loop of a kernel is a phase,
 * and ensures: every element of every result is stored once, and reductions carry the mark that fixes
 *           their order (README.md).  Other lets are copied.
 * How:      results of one index space form a group; a group is one phase, or more:
 *           1. The probe (lower_probe.c) finds the reductions that the group demands and at which indices.
 *              Axes of the results that these indices use are outer axes, the others are the row.
 *           2. A reduction that is wanted elsewhere than at all outer axes, or whose outer axes are so few
 *              that its loop must be the parallel one, goes to a buffer in phases of its own, first.
 *           3. Axes become loops (lower_nest.c): outer loops, then the reductions, which store what later
 *              loops over the row would compute again at a cost, then the loop over the row.
 *           4. Scalars are placed by demand (lower_scalar.c).
 *           A reduction with few outer elements and a long row is split: partial results of its blocks
 *           in one phase, in parallel, and their combination in the next: the same operations in the same
 *           order, so the same bits, as in one loop.
 *           A group that needs a cat or a pad along one of its axes is cut into pieces there, one phase each:
           nothing is tested for in the loops.
 * Why not   loops first and fusion of loops after: fusion is done, on values, where it is simple; what is
 *           left is placement, and demand places each scalar once.
 * Example:  y = softmax(x) over f32[B, N] becomes: for i in B { reduce amax; reduce sum, which stores
 *           exp(x - max) to a row buffer; for j in N { load the buffer, divide, store } }.
 */
#include <string.h>

#include "lower.h"

enum {
    FEW_ROWS = 32,              /* fewer outer elements cannot keep threads busy */
    LONG_ROW = 16 * DLC_BLOCK,  /* elements worth several threads */
    FEW_COLUMNS = 4096,         /* kept elements of a column reduction: up to 4 tiles */
    SHORT_ROW = 8,              /* rows not worth a vector */
};

/* Values of one index space; dims may be a part (from `start`) of a larger one. */
typedef struct {
    int ntargets, nfull;        /* the first nfull have these dims, the others those of the outer axes */
    Target *targets;
    int rank;
    Dim start[MAX_RANK], dims[MAX_RANK];
} Group;

static void lower_group(Lower *lo, Group *g);

/* ---- the index space ---- */

typedef struct {
    Space space;
    int nall;
    Dim all[MAX_RANK], all_extent[MAX_RANK];    /* axes that are not of size 1 */
    Dim idx[MAX_RANK];          /* of the targets that have the group's shape */
} Shape;

static Shape
shape_of(Lower *lo, const Group *g)
{
    Shape s = {0};
    for (int ax = 0; ax < g->rank; ax++) {
        s.idx[ax] = g->start[ax];
        if (!extent_is_one(lo->cx, g->dims[ax])) {
            s.all[s.nall] = dim_index(lo->cx, "a", g->dims[ax]);
            s.all_extent[s.nall] = g->dims[ax];
            s.idx[ax] = dim_add(lo->cx, g->start[ax], s.all[s.nall++]);
        }
    }
    return s;
}

static bool
uses(Cx *cx, int n, const Dim *dims, Dim name)
{
    for (int k = 0; k < n; k++) {
        if (dim_uses(cx, dims[k], name)) {
            return true;
        }
    }
    return false;
}

/* Outer axes are those that reductions are demanded at; all are, where there is no reduction. */
static void
divide_axes(Lower *lo, Shape *s, const Probe *probe)
{
    Space *sp = &s->space;
    *sp = (Space){0};
    for (int k = 0; k < s->nall; k++) {
        bool outer = probe->nsites == 0;
        for (int j = 0; j < probe->nsites && !outer; j++) {
            const Site *site = &probe->sites[j];
            outer = uses(lo->cx, site->red->res[0]->type->rank, site->idx, s->all[k]);
        }
        if (outer) {
            sp->outer[sp->nouter] = s->all[k];
            sp->outer_extent[sp->nouter++] = s->all_extent[k];
        } else {
            sp->row[sp->nrow] = s->all[k];
            sp->row_extent[sp->nrow++] = s->all_extent[k];
        }
    }
}

static void
put_targets(const Group *g, const Shape *s)
{
    for (int k = 0; k < g->nfull; k++) {
        memcpy(g->targets[k].at, s->idx, (size_t)g->rank * sizeof(Dim));
    }
}

/* ---- reductions that need phases of their own ---- */

typedef struct { Cx *cx; const Space *space; bool foreign; } Foreign;

static void
see_foreign(void *arg, Dim name)
{
    Foreign *f = arg;
    bool known = dim_extent(f->cx, name) == DIM_NONE;
    for (int k = 0; k < f->space->nouter && !known; k++) {
        known = f->space->outer[k] == name;
    }
    f->foreign |= !known;
}

/* Is the site wanted just once for each element of the outer axes? */
static bool
is_aligned(Lower *lo, const Space *space, const Site *site)
{
    int rank = site->red->res[0]->type->rank;
    Foreign f = {lo->cx, space, false};
    for (int ax = 0; ax < rank; ax++) {
        dim_names(lo->cx, site->idx[ax], see_foreign, &f);
    }
    for (int k = 0; k < space->nouter && !f.foreign; k++) {
        f.foreign = !uses(lo->cx, rank, site->idx, space->outer[k]);
    }
    return !f.foreign;
}

/* Do the loads of the reductions advance along the outer axes rather than along the reduced ones? */
static bool
is_column(Lower *lo, const Space *space, const Probe *probe)
{
    int outer = 0, inner = 0;
    int64_t row = 0;
    for (int j = 0; j < probe->nsites; j++) {
        const Site *s = &probe->sites[j];
        int best = 0;
        for (int k = 0; k < s->nown; k++) {
            int score = nest_score(lo->cx, s->own[k], s->noffsets, s->offsets);
            best = score > best ? score : best;
        }
        inner += best;
        best = 0;
        for (int k = 0; k < space->nouter; k++) {
            int score = nest_score(lo->cx, space->outer[k], s->noffsets, s->offsets);
            best = score > best ? score : best;
        }
        outer += best;
        int64_t most = extent_most(lo->cx, s->nown, s->extent);
        row = most > row ? most : row;
    }
    bool many = extent_most(lo->cx, space->nouter, space->outer_extent) > row;
    return space->nouter > 0 && (outer > inner || (row <= SHORT_ROW && many));
}

static bool
wants_split(Lower *lo, const Space *space, const Site *site, bool column)
{
    int64_t rows = extent_most(lo->cx, space->nouter, space->outer_extent);
    int64_t row = extent_most(lo->cx, site->nown, site->extent);
    return column ? rows <= FEW_COLUMNS && row >= 4 * DLC_STEPS
                  : rows < FEW_ROWS && row >= LONG_ROW / (rows > 0 ? rows : 1);
}

static bool
keeps_index(Op op)
{
    return op_info[op].rule == RULE_INDEX;
}

static Target
target_of(Lower *lo, const Value *value, Value *buffer)
{
    return (Target){value, buffer, cx_alloc(lo->cx, MAX_RANK * sizeof(Dim))};
}

static void
materialise(Lower *lo, const Value *v)
{
    Value *buffer = lower_buffer(lo, 0, v->type->dtype, v->type->rank, v->type->dims);
    Target target = target_of(lo, v, buffer);
    Group g = {.ntargets = 1, .nfull = 1, .targets = &target, .rank = v->type->rank};
    for (int ax = 0; ax < g.rank; ax++) {
        g.start[ax] = dim_int(lo->cx, 0);
        g.dims[ax] = v->type->dims[ax];
    }
    lower_group(lo, &g);
    lo->leaf[v->id] = buffer;
}

/* A cat or pad that the loops cannot tell the pieces of is made a tensor first, in loops that can. */
static void
take_apart(Lower *lo, const Group *g, const Let *let)
{
    for (int k = 0; k < g->ntargets; k++) {
        if (g->targets[k].value == let->res[0]) {
            fail(lo->cx, DIAG_CODEGEN, cx_format(lo->cx, "the pieces of %s cannot be told apart",
                                                 let->res[0]->name));
        }
    }
    materialise(lo, let->res[0]);
}

/* The first site that cannot or should not stand in the group's own loops. */
static const Let *
find_apart(Lower *lo, const Group *g, const Shape *s, const Probe *probe, bool column)
{
    for (int k = 0; k < probe->nsites; k++) {
        const Site *site = &probe->sites[k];
        bool root = g->ntargets == 1 && g->targets[0].value == site->red->res[0];
        if (!root && (!is_aligned(lo, &s->space, site) ||
                      (wants_split(lo, &s->space, site, column) && !keeps_index(site->red->op)))) {
            return site->red;
        }
    }
    return NULL;
}

/* Results whose axes are the outer ones are stored in the same phase.  true: there are some. */
static bool
take_row_results(Lower *lo, Group *g, const Space *space)
{
    bool taken = false;
    for (int k = 0; k < lo->nresults && space->nrow && g->targets[0].buffer->def == lo->kernel; k++) {
        const Type *t = lo->kernel->res[k]->type;
        Dim at[MAX_RANK];
        int n = 0;
        for (int ax = 0; ax < t->rank && n <= space->nouter; ax++) {
            bool one = extent_is_one(lo->cx, t->dims[ax]);
            at[ax] = one ? dim_int(lo->cx, 0) : space->outer[n < space->nouter ? n : 0];
            bool other = !one && (n == space->nouter || t->dims[ax] != space->outer_extent[n]);
            n += other ? MAX_RANK : !one;
        }
        if (n == space->nouter && !lo->done[k]) {
            Target *target = &g->targets[g->ntargets++];
            *target = target_of(lo, lo->rets[k], lo->kernel->res[k]);
            memcpy(target->at, at, (size_t)t->rank * sizeof *at);
            lo->done[k] = taken = true;
        }
    }
    return taken;
}

/* ---- nests ---- */

static void
plan_sites(Lower *lo, const Probe *probe)
{
    lo->nests = (Map){0};
    for (int k = 0; k < probe->nsites; k++) {
        const Site *s = &probe->sites[k];
        uint32_t key = (uint32_t)s->red->res[0]->id;
        Nest *nest = map_at(lo->cx, &lo->nests, &key, 1, sizeof *nest);
        int flags = keeps_index(s->red->op) ? NEST_FLAT : 0;
        nest_plan(lo->cx, nest, s->nown, s->own, s->extent, s->noffsets, s->offsets, flags);
    }
}

/* The outer loops: all offsets count. */
static void
plan_outer(Lower *lo, const Space *space, const Probe *probe, Nest *nest)
{
    Dim *offsets = cx_copy(lo->cx, probe->offsets, (size_t)probe->noffsets * sizeof(Dim));
    int n = probe->noffsets;
    for (int k = 0; k < probe->nsites; k++) {
        for (int j = 0; j < probe->sites[k].noffsets; j++) {
            offsets = cx_grow(lo->cx, offsets, n, sizeof *offsets);
            offsets[n++] = probe->sites[k].offsets[j];
        }
    }
    int flags = probe->nsites && !lo->column ? NEST_KEEP : 0;
    nest_plan(lo->cx, nest, space->nouter, space->outer, space->outer_extent, n, offsets, flags);
}

static void
rename_axes(Lower *lo, int n, const Dim *names, const Dim *axes, int rank, Dim *idx)
{
    for (int ax = 0; ax < rank; ax++) {
        for (int k = 0; k < n; k++) {
            idx[ax] = dim_replace(lo->cx, idx[ax], names[k], axes[k]);
        }
    }
}

/* A phase is a loop, also for one element. */
static int
open_outer(Lower *lo, const Nest *nest, Dim *axes)
{
    nest_open(lo, nest, axes);
    if (nest->nloops == 0) {
        lower_open(lo, "i", dim_int(lo->cx, 1));
        return 1;
    }
    return nest->nloops;
}

static void
close_loops(Lower *lo, int n)
{
    while (n-- > 0) {
        lower_close(lo);
    }
}

/* ---- one phase ---- */

/* Stores come after all loads of the block: a result may be written where an operand is. */
static void
store_targets(Lower *lo, const Group *g, int from, int to, const Space *space, const Dim *outer,
              const Dim *row)
{
    Value **values = cx_alloc(lo->cx, (size_t)g->ntargets * sizeof *values);
    Dim *idx = cx_alloc(lo->cx, (size_t)g->ntargets * MAX_RANK * sizeof *idx);
    for (int k = from; k < to; k++) {
        Dim *at = idx + k * MAX_RANK;
        int rank = g->targets[k].buffer->type->rank;
        memcpy(at, g->targets[k].at, (size_t)rank * sizeof *at);
        rename_axes(lo, space->nouter, space->outer, outer, rank, at);
        rename_axes(lo, space->nrow, space->row, row, rank, at);
        values[k] = lower_at(lo, g->targets[k].value, at);
    }
    for (int k = from; k < to; k++) {
        lower_store(lo, g->targets[k].buffer, idx + k * MAX_RANK, values[k]);
    }
}

static void
build_phase(Lower *lo, const Group *g, const Space *sp, const Probe *probe)
{
    Nest outer, row;
    Dim axes[MAX_RANK], cols[MAX_RANK], at[MAX_RANK];
    plan_sites(lo, probe);
    plan_outer(lo, sp, probe, &outer);
    int opened = open_outer(lo, &outer, axes);
    lo->outer = lo->depth;
    for (int k = 0; k < probe->nsites; k++) {
        const Value *red = probe->sites[k].red->res[0];
        memcpy(at, probe->sites[k].idx, (size_t)red->type->rank * sizeof *at);
        rename_axes(lo, sp->nouter, sp->outer, axes, red->type->rank, at);
        lower_at(lo, red, at);
    }
    store_targets(lo, g, sp->nrow ? g->nfull : 0, g->ntargets, sp, axes, sp->row);
    if (sp->nrow) {
        nest_plan(lo->cx, &row, sp->nrow, sp->row, sp->row_extent, probe->noffsets, probe->offsets, 0);
        nest_open(lo, &row, cols);
        lo->row = cols;
        opened += row.nloops;
        store_targets(lo, g, 0, g->nfull, sp, axes, cols);
    }
    close_loops(lo, opened);
}

/* ---- two phases: the blocks of a reduction, then their combination ---- */

typedef struct {
    const Site *site;
    const Nest *nest;
    int cut;                    /* the loop that is cut in blocks: the innermost, of columns the outermost */
    Dim block, blocks;          /* its block's extent, how many there are */
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
        fail(lo->cx, DIAG_CODEGEN, "a reduction runs over too many axes to be cut in blocks");
    }
    return lower_buffer(lo, 0, dtype, n, dims);
}

/* The element of the operand, given the indices of the nest's loops and of the outer axes. */
static Value *
partial_element(Lower *lo, const Split *s, const Space *space, const Dim *outer, const Dim *loops)
{
    const Let *red = s->site->red;
    Dim inner[MAX_RANK], axes[MAX_RANK], idx[MAX_RANK];
    memcpy(axes, s->nest->axis, sizeof axes);
    rename_axes(lo, s->nest->nloops, s->nest->index, loops, s->nest->naxes, axes);
    memcpy(idx, s->site->idx, (size_t)red->res[0]->type->rank * sizeof *idx);
    rename_axes(lo, space->nouter, space->outer, outer, red->res[0]->type->rank, idx);
    index_reduced(lo->cx, red, idx, axes, inner);
    return lower_cast(lo, lower_at(lo, red->args[0], inner), reduce_dtype(red));
}

static void
build_partials(Lower *lo, const Split *s, const Space *space, const Nest *outer, Value **partial)
{
    Cx *cx = lo->cx;
    Dim loops[MAX_LOOPS], axes[MAX_RANK], at[MAX_LOOPS];
    const Nest *nest = s->nest;
    int n = 0;
    for (int k = 0; k < s->cut; k++) {
        at[n++] = loops[k] = lower_open(lo, "i", nest->count[k]);
    }
    Dim block = at[n++] = lower_open(lo, "block", s->blocks);
    nest_open(lo, outer, axes);
    lo->outer = lo->depth;
    memcpy(at + n, axes, (size_t)space->nouter * sizeof *at);
    Dim first = dim_mul(cx, block, s->block);
    Dim extent = dim_min(cx, s->block, dim_sub(cx, nest->count[s->cut], first));
    for (int k = s->cut; k < nest->nloops; k++) {
        Dim i = lower_open(lo, "i", k == s->cut ? extent : nest->count[k]);
        loops[k] = k == s->cut ? dim_add(cx, first, i) : i;
    }
    Value *v = partial_element(lo, s, space, axes, loops);
    for (int k = s->cut; k < nest->nloops; k++) {
        v = lower_close_reduce(lo, s->site->red->op, lo->column ? "" : "vector", v);
    }
    lower_store(lo, *partial, at, v);
    close_loops(lo, s->cut + 1 + outer->nloops);
}

static void
build_total(Lower *lo, const Split *s, const Group *g, const Shape *shape, const Nest *outer,
            Value *partial)
{
    Dim axes[MAX_RANK], at[MAX_LOOPS], idx[MAX_RANK];
    int opened = open_outer(lo, outer, axes);
    memcpy(idx, shape->idx, (size_t)g->rank * sizeof *idx);
    rename_axes(lo, shape->space.nouter, shape->space.outer, axes, g->rank, idx);
    for (int k = 0; k < s->cut; k++) {
        at[k] = lower_open(lo, "i", s->nest->count[k]);
    }
    at[s->cut] = lower_open(lo, "block", s->blocks);
    memcpy(at + s->cut + 1, axes, (size_t)shape->space.nouter * sizeof *at);
    Value *v = lower_load(lo, partial, at);
    for (int k = s->cut; k >= 0; k--) {
        v = lower_close_reduce(lo, s->site->red->op, k == s->cut ? "pairs" : "", v);
    }
    v = lower_cast(lo, v, g->targets[0].value->type->dtype);
    lower_store(lo, g->targets[0].buffer, idx, v);
    close_loops(lo, opened);
}

static void
build_split(Lower *lo, const Group *g, const Shape *s, const Probe *probe)
{
    const Site *site = &probe->sites[probe->nsites - 1];
    Nest outer;
    plan_sites(lo, probe);
    plan_outer(lo, &s->space, probe, &outer);
    const Nest *nest = map_get(&lo->nests, (const uint32_t[]){(uint32_t)site->red->res[0]->id}, 1);
    Split split = split_of(lo, site, nest);
    Dtype dtype = reduce_dtype(site->red);
    Value *partial = partial_buffer(lo, &split, &s->space, dtype);
    build_partials(lo, &split, &s->space, &outer, &partial);
    build_total(lo, &split, g, s, &outer, partial);
}

/* ---- groups ---- */

/* One group for each piece of the space between the places of the cut. */
static void
lower_pieces(Lower *lo, const Group *g, const Shape *s, const Probe *probe)
{
    for (int k = 0; k + 1 < probe->nplaces; k++) {
        Group piece = *g;
        Dim n = dim_sub(lo->cx, probe->places[k + 1], probe->places[k]);
        for (int ax = 0; ax < g->rank; ax++) {
            if (s->idx[ax] == probe->cut) {
                piece.start[ax] = probe->places[k];
                piece.dims[ax] = n;
            }
        }
        if (!dim_is(lo->cx, n, 0)) {
            lower_group(lo, &piece);
        }
    }
}

static void
lower_group(Lower *lo, Group *g)
{
    Probe probe;
    Shape s = shape_of(lo, g);
    for (;;) {
        s.space = (Space){.nouter = s.nall};
        memcpy(s.space.outer, s.all, sizeof s.all);
        memcpy(s.space.outer_extent, s.all_extent, sizeof s.all);
        put_targets(g, &s);
        probe_targets(lo->leaf, lo->cx, &s.space, g->ntargets, g->targets, &probe);
        if (probe.cut != DIM_NONE) {
            lower_pieces(lo, g, &s, &probe);
            return;
        }
        if (probe.apart) {
            take_apart(lo, g, probe.apart);
            continue;
        }
        divide_axes(lo, &s, &probe);
        bool column = is_column(lo, &s.space, &probe);
        const Let *apart = find_apart(lo, g, &s, &probe, column);
        lo->column = column;
        if (apart) {
            materialise(lo, apart->res[0]);
        } else if (!take_row_results(lo, g, &s.space)) {
            break;
        }
    }
    if (s.space.nrow) {         /* again, now that the axes of the row are known */
        probe_targets(lo->leaf, lo->cx, &s.space, g->ntargets, g->targets, &probe);
    }
    lo->probe = &probe;
    const Site *last = probe.nsites ? &probe.sites[probe.nsites - 1] : NULL;
    if (last && g->ntargets == 1 && g->targets[0].value == last->red->res[0] && last->nown &&
        !keeps_index(last->red->op) && wants_split(lo, &s.space, last, lo->column)) {
        build_split(lo, g, &s, &probe);
    } else {
        build_phase(lo, g, &s.space, &probe);
    }
}

/* ---- kernels ---- */

static int
wide_axes(Cx *cx, const Type *t)
{
    int n = 0;
    for (int ax = 0; ax < t->rank; ax++) {
        n += !extent_is_one(cx, t->dims[ax]);
    }
    return n;
}

/* The largest results first: they take row results along. */
static int
next_result(const Lower *lo)
{
    int best = -1, most = -1;
    for (int k = 0; k < lo->nresults; k++) {
        int n = wide_axes(lo->cx, lo->kernel->res[k]->type);
        if (!lo->done[k] && n > most) {
            most = n;
            best = k;
        }
    }
    return best;
}

static void
lower_results(Lower *lo)
{
    for (int k = next_result(lo); k >= 0; k = next_result(lo)) {
        const Type *type = lo->kernel->res[k]->type;
        Group g = {.rank = type->rank,
                   .targets = cx_alloc(lo->cx, (size_t)lo->nresults * sizeof(Target))};
        for (int ax = 0; ax < g.rank; ax++) {
            g.start[ax] = dim_int(lo->cx, 0);
            g.dims[ax] = type->dims[ax];
        }
        for (int j = k; j < lo->nresults; j++) {
            if (!lo->done[j] && type_same_shape(type, lo->kernel->res[j]->type)) {
                g.targets[g.ntargets++] = target_of(lo, lo->rets[j], lo->kernel->res[j]);
                lo->done[j] = true;
            }
        }
        g.nfull = g.ntargets;
        lower_group(lo, &g);
    }
}

static void
lower_kernel(Fn *fn, const Let *old, Let *let, Value **leaf)
{
    Cx *cx = fn->cx;
    Lower *lo = cx_alloc(cx, sizeof *lo);
    *lo = (Lower){.cx = cx, .fn = fn, .kernel = let, .leaf = leaf, .rets = old->body->rets,
                  .nresults = old->body->nrets};
    lo->done = cx_alloc(cx, (size_t)lo->nresults * sizeof *lo->done);
    lo->path[0] = cx_alloc(cx, sizeof *lo->path[0]);
    lo->path[0]->blk = let->body = cx_alloc(cx, sizeof *let->body);
    let->body->owner = let;
    lower_results(lo);
}

/* ---- functions ---- */

static Attr *
copy_attrs(Cx *cx, const Let *let)
{
    return cx_copy(cx, let->attrs, (size_t)let->nattrs * sizeof *let->attrs);
}

/* A let of the function's own block; leaf maps old values to new ones. */
static void
lower_let(Fn *fn, const Let *old, Value **leaf)
{
    Cx *cx = fn->cx;
    cx_set_loc(cx, old->loc);
    Value **args = cx_alloc(cx, (size_t)(old->nargs + 1) * sizeof *args);
    for (int k = 0; k < old->nargs; k++) {
        args[k] = value_is_const(old->args[k]) ? old->args[k] : leaf[old->args[k]->id];
    }
    Let *let = let_new(fn, old->op, old->nargs, args, old->nattrs, copy_attrs(cx, old));
    let->loc = old->loc;
    let->nsizes = old->nsizes;
    let->sizes = old->sizes;
    for (int k = 0; k < old->nres; k++) {
        const Value *v = old->res[k];
        leaf[v->id] = let_result(fn, let, v->name, v->type, v->strides);
    }
    if (old->op == OP_kernel) {
        lower_kernel(fn, old, let, leaf);
    }
    block_append(cx, fn->body, let);
}

Fn *
lower_fn(const Fn *old)
{
    Cx *cx = old->cx;
    Fn *fn = fn_new(cx, old->name, STAGE_LOOPS);
    Value **leaf = cx_alloc(cx, (size_t)old->nvalues * sizeof *leaf);
    for (int k = 0; k < old->nsizes; k++) {
        fn_size(fn, old->sizes[k]);
        fn_take_name(fn, dim_name(cx, old->sizes[k]));
    }
    for (int k = 0; k < old->nparams; k++) {
        const Value *v = old->params[k];
        leaf[v->id] = fn_param(fn, v->name, v->type, v->strides);
    }
    for (int k = 0; k < old->body->n; k++) {
        for (int j = 0; j < old->body->lets[k]->nres; j++) {
            fn_take_name(fn, old->body->lets[k]->res[j]->name);
        }
    }
    for (int k = 0; k < old->body->n; k++) {
        lower_let(fn, old->body->lets[k], leaf);
    }
    Value **rets = cx_alloc(cx, (size_t)(old->body->nrets + 1) * sizeof *rets);
    for (int k = 0; k < old->body->nrets; k++) {
        Value *v = old->body->rets[k];
        rets[k] = value_is_const(v) ? v : leaf[v->id];
    }
    fn_results(fn, old->body->nrets, rets, old->results);
    cx_set_loc(cx, (Loc){0});
    return fn;
}
