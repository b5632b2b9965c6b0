/* Groups: the loops for values of one index space.
 *
 * What:     decides of which phases a group is, and which values must be tensors before.
 * Requires: outputs whose shapes differ at most in axes of one element, and results that have only
 *           the outer axes (row results).
 * Ensures:  lower_phase.c and others build the phases; each output is stored once.
 * How:      steps 1 to 3 of lower.c.  Each round of the loop in lower_group settles one thing (a
 *           cut, a value that must be a tensor first, a row result that joins) and probes again.
 * Why not:  decide all from one probe: each decision changes which loops there are.
 * Example:  layer norm: sites sum x at [b, t], sum d*d at [b, t]; outer axes b, t; row axis c; the
 *           mean, a row result, is stored in the loop of t.
 */
#include <string.h>

#include "lower.h"

#include "codegen/phases/divide.h"

/* ---- the index space ---- */

Shape
group_shape(Lower *lo, const Group *g)
{
    Shape s = {0};
    for (int ax = 0; ax < g->rank; ax++) {
        s.idx[ax] = g->start[ax];
        if (g->ones || !extent_is_one(lo->cx, g->dims[ax])) {
            s.all[s.nall] = dim_index(lo->cx, "a", g->dims[ax]);
            s.all_extent[s.nall] = g->dims[ax];
            s.idx[ax] = dim_add(lo->cx, g->start[ax], s.all[s.nall++]);
        }
    }
    return s;
}

bool
sites_use(Cx *cx, const Probe *probe, Dim name)
{
    bool use = false;
    for (int k = 0; k < probe->nsites && !use; k++) {
        const Site *site = &probe->sites[k];
        use = index_uses(cx, site->red->res[0]->type->rank, site->idx, name);
    }
    return use;
}

/* Outer axes are those at which reductions are demanded; without reductions all axes are outer. */
static void
divide_axes(Lower *lo, Shape *s, const Probe *probe)
{
    Space *sp = &s->space;
    *sp = (Space){0};
    for (int k = 0; k < s->nall; k++) {
        if (probe->nsites == 0 || sites_use(lo->cx, probe, s->all[k])) {
            sp->outer[sp->nouter] = s->all[k];
            sp->outer_extent[sp->nouter++] = s->all_extent[k];
        } else {
            sp->row[sp->nrow] = s->all[k];
            sp->row_extent[sp->nrow++] = s->all_extent[k];
        }
    }
}

/* Where an output's element is, given the group's index.  Axes of one element may differ. */
static void
place_output(Cx *cx, const Group *g, const Dim *idx, const Output *output)
{
    const Type *own = g->outputs[0].buffer->type, *t = output->buffer->type;
    if (g->ones && type_same_shape(own, t)) {
        memcpy(output->at, idx, (size_t)t->rank * sizeof *idx);
        return;
    }
    for (int ax = 0, from = 0; ax < t->rank; ax++) {
        bool one = extent_is_one(cx, t->dims[ax]);
        while (!one && extent_is_one(cx, own->dims[from])) {
            from++;
        }
        output->at[ax] = one ? dim_int(cx, 0) : idx[from++];
    }
}

static void
put_outputs(Cx *cx, const Group *g, const Shape *s)
{
    for (int k = 0; k < g->noutputs && g->part && !g->lanes; k++) {
        const Let *red = k ? g->outputs[k].value->def : NULL;
        for (int ax = 0, n = 0; ax < g->rank; ax++) {
            if (!red || !attr_has_axis(let_attr(red, "axes"), ax)) {
                g->outputs[k].at[n++] = s->idx[ax];
            }
        }
    }
    if (g->part && !g->lanes) {
        return;
    }
    for (int k = 0; k < g->nfull; k++) {
        Dim idx[MAX_RANK];
        memcpy(idx, s->idx, sizeof idx);
        if (g->lanes) {
            Dim start = g->start[g->lane_axis], each = dim_sub(cx, idx[g->lane_axis], start);
            each = dim_add(cx, dim_mul(cx, each, dim_int(cx, g->lanes)),
                           dim_int(cx, g->outputs[k].lane));
            idx[g->lane_axis] = dim_add(cx, start, each);
        }
        if (g->part) {
            memcpy(g->outputs[k].at, idx, (size_t)g->rank * sizeof *idx);
            continue;
        }
        place_output(cx, g, idx, &g->outputs[k]);
    }
}

/* ---- reductions that need phases of their own ---- */

typedef struct {
    const Lower *lo;
    const Space *space;
} Outside;

/* Is it an index of no open loop and no outer axis? */
static bool
is_foreign(const void *arg, Dim name)
{
    const Outside *o = arg;
    bool known = dim_extent(o->lo->cx, name) == DIM_NONE || builder_is_open(&o->lo->out, name);
    for (int k = 0; k < o->space->nouter && !known; k++) {
        known = o->space->outer[k] == name;
    }
    return !known;
}

/* Is the site needed exactly once for each element of the outer axes? */
static bool
is_aligned(Lower *lo, const Space *space, const Site *site)
{
    int rank = site->red->res[0]->type->rank;
    bool aligned = true;
    for (int ax = 0; ax < rank; ax++) {
        aligned &= !dim_any_name(lo->cx, site->idx[ax], is_foreign, &(Outside){lo, space});
    }
    for (int k = 0; k < space->nouter && aligned; k++) {
        aligned = index_uses(lo->cx, rank, site->idx, space->outer[k]);
    }
    return aligned;
}

/* Will `divide` take the reduction, if it has a phase of its own? */
static bool
is_long(Lower *lo, const Space *space, const Site *site, bool column)
{
    int64_t rows = dims_most(lo->cx, space->nouter, space->outer_extent);
    int64_t row = dims_most(lo->cx, site->nown, site->extent);
    return !lo->blocked && !lo->number && reduction_is_divided(rows, row, column);
}

static bool
returns_index(Op op)
{
    return op_info[op].rule == RULE_INDEX;
}

Output
output_of(Lower *lo, const Value *value, Value *buffer)
{
    return (Output){value, buffer, cx_alloc(lo->cx, MAX_RANK * sizeof(Dim)), 0};
}

/* Strides of a buffer whose axes are in this order, innermost first; NULL: row-major. */
Dim *
group_strides(Lower *lo, const Type *type, const Order *order)
{
    Dim *strides = cx_alloc(lo->cx, MAX_RANK * sizeof *strides), step = dim_int(lo->cx, 1);
    bool dense = true;
    for (int k = 0; order && k < type->rank; k++) {
        dense &= order->axis[k] == type->rank - 1 - k;
        strides[order->axis[k]] = step;
        step = dim_mul(lo->cx, step, type->dims[order->axis[k]]);
    }
    return dense ? NULL : strides;
}

void
group_materialise(Lower *lo, const Value *v, const Order *order)
{
    Value *buffer = builder_buffer(&lo->out, 0, v->type->dtype, v->type->rank, v->type->dims);
    buffer->strides = group_strides(lo, v->type, order);
    Output output = output_of(lo, v, buffer);
    Group g = {.noutputs = 1, .nfull = 1, .outputs = &output, .rank = v->type->rank};
    for (int ax = 0; ax < g.rank; ax++) {
        g.start[ax] = dim_int(lo->cx, 0);
        g.dims[ax] = v->type->dims[ax];
    }
    lower_group(lo, &g);
    lo->leaf[v->id] = buffer;
}

/* Makes a value a tensor first, in loops of its own: for instance a cat whose pieces the loops of
 * the group cannot choose from.  If it is all that the group makes, it may be cut along an axis of
 * one element, which is that of a piece or not: then such axes get names, too.  Returns whether the
 * group is done. */
static bool
materialise_pieces(Lower *lo, const Group *g, const Let *let)
{
    bool alone = g->noutputs == 1 && g->outputs[0].value == let->res[0];
    if (!alone || let->op == OP_scan || let->op == OP_scatter) {
        block_materialise_before(lo, let->res[0], NULL);
        return false;
    }
    if (g->ones) {
        fail(lo->cx, DIAG_PIECES, let->res[0]->name);
    }
    Group named = *g;
    named.ones = true;
    lower_group(lo, &named);
    return true;
}

/* A scan's loop contains no other loops.  So the scan becomes a tensor or, if it is the only
 * output, its operand does. */
static void
materialise_scan(Lower *lo, const Group *g, const Probe *probe)
{
    const Let *scan = probe->scans[0];
    bool alone = g->noutputs == 1 && g->outputs[0].value == scan->res[0];
    group_materialise(lo, alone ? scan->args[0] : scan->res[0], NULL);
}

static bool
is_root(const Group *g, const Site *site)
{
    return g->noutputs == 1 && g->outputs[0].value == site->red->res[0];
}

/* Is the site the group's only output, and one that `divide` takes? */
static bool
is_divided(Lower *lo, const Group *g, const Shape *s, const Site *site, bool column)
{
    return is_root(g, site) && site->nown && !returns_index(site->red->op) &&
           is_long(lo, &s->space, site, column);
}

/* The first site that cannot or should not be in the group's own loops.  If the group's reduction
 * is divided, each of its blocks would compute the site again. */
static const Let *
find_misplaced(Lower *lo, const Group *g, const Shape *s, const Probe *probe, bool column)
{
    bool divided = false;
    for (int k = 0; k < probe->nsites; k++) {
        divided |= is_divided(lo, g, s, &probe->sites[k], column);
    }
    for (int k = 0; k < probe->nsites; k++) {
        const Site *site = &probe->sites[k];
        if (!is_root(g, site) &&
            (divided || !is_aligned(lo, &s->space, site) ||
             (is_long(lo, &s->space, site, column) && !returns_index(site->red->op)))) {
            return site->red;
        }
    }
    return NULL;
}

/* Is the group a whole space, neither a piece of one nor cut into lanes? */
static bool
is_whole(Lower *lo, const Group *g)
{
    bool whole = !g->lanes;
    for (int ax = 0; ax < g->rank; ax++) {
        whole &= dim_is(lo->cx, g->start[ax], 0);
    }
    return whole;
}

static bool
uses_any(Cx *cx, Dim dim, int n, const Dim *names)
{
    bool any = false;
    for (int k = 0; k < n; k++) {
        any |= dim_uses(cx, dim, names[k]);
    }
    return any;
}

/* Are the axes of the result exactly the group's axes outside the row? at: the index of its
 * element. */
static bool
is_row_result(Lower *lo, const Group *g, const Shape *s, const Type *t, Dim *at)
{
    const Space *space = &s->space;
    const Type *full = g->outputs[0].buffer->type;
    int ax = 0;
    bool same = true;
    for (int k = 0; k < g->rank && same; k++) {
        if (!extent_is_one(lo->cx, full->dims[k]) &&
            !uses_any(lo->cx, s->idx[k], space->nrow, space->row)) {
            for (; ax < t->rank && extent_is_one(lo->cx, t->dims[ax]); ax++) {
                at[ax] = dim_int(lo->cx, 0);
            }
            same = ax < t->rank && t->dims[ax] == full->dims[k];
            at[same ? ax++ : 0] = s->idx[k];
        }
    }
    for (; ax < t->rank && same; ax++) {
        same = extent_is_one(lo->cx, t->dims[ax]);
        at[ax] = dim_int(lo->cx, 0);
    }
    return same;
}

/* Adds the results that have only the outer axes, to be stored in the same phase.  True: there are
 * some. */
static bool
take_row_results(Lower *lo, Group *g, const Shape *s)
{
    bool taken = false,
         mine = g->outputs[0].buffer->def == lo->kernel && (lo->blocked || is_whole(lo, g));
    for (int k = 0; k < lo->nresults && s->space.nrow && mine; k++) {
        const Type *t = lo->kernel->res[k]->type;
        Dim at[MAX_RANK];
        if (!lo->group_of[k] && is_row_result(lo, g, s, t, at)) {
            Output *output = &g->outputs[g->noutputs++];
            *output = output_of(lo, lo->rets[k], lo->kernel->res[k]);
            memcpy(output->at, at, (size_t)t->rank * sizeof *at);
            lo->group_of[k] = lo->ngroups;
            taken = true;
        }
    }
    return taken;
}

/* ---- groups ---- */

/* Lowers one group for each piece into which the space is cut.  A piece may be cut again along the
 * same axis, for example by a cat in a cat or a padded cat. */
static void
lower_pieces(Lower *lo, const Group *g, const Shape *s, const Probe *probe)
{
    for (int k = 0; k < probe->npieces; k++) {
        Group piece = *g;
        Dim n = dim_sub(lo->cx, probe->ends[k], probe->starts[k]);
        for (int ax = 0; ax < g->rank; ax++) {
            if (s->idx[ax] == dim_add(lo->cx, g->start[ax], probe->cut)) {
                piece.start[ax] = dim_add(lo->cx, g->start[ax], probe->starts[k]);
                piece.dims[ax] = n;
            }
        }
        if (!dim_is(lo->cx, n, 0)) {
            lower_group(lo, &piece);
        }
    }
}

Group
group_lanes(Lower *lo, const Group *g, const Shape *s, const Probe *probe)
{
    Group all = *g;
    all.lanes = probe->lanes;
    all.noutputs = all.nfull = 0;
    all.outputs = cx_alloc(lo->cx, (size_t)(g->noutputs * probe->lanes + lo->nresults) *
                                       sizeof *all.outputs);
    for (int ax = 0; ax < g->rank; ax++) {
        if (dim_sub(lo->cx, s->idx[ax], g->start[ax]) == probe->interleaved_axis) {
            all.lane_axis = ax;
            all.dims[ax] = dim_div(lo->cx, g->dims[ax], dim_int(lo->cx, probe->lanes));
        }
    }
    for (int k = 0; k < g->noutputs * probe->lanes; k++) {
        const Output *one = &g->outputs[k / probe->lanes];
        all.outputs[k] = output_of(lo, one->value, one->buffer);
        all.outputs[k].lane = k % probe->lanes;
    }
    all.noutputs = all.nfull = g->noutputs * probe->lanes;
    return all;
}

/* Probes what the group's loops will read, with each output at the axes of the space. */
void
group_probe(Lower *lo, const Group *g, Shape *s, Probe *probe)
{
    s->space = (Space){.nouter = s->nall, .laned = !g->lanes && (g->part || is_whole(lo, g))};
    memcpy(s->space.outer, s->all, sizeof s->all);
    memcpy(s->space.outer_extent, s->all_extent, sizeof s->all_extent);
    put_outputs(lo->cx, g, s);
    probe_outputs(lo, &s->space, g->noutputs, g->outputs, probe);
}

/* Lowers a group of scans, lanes or pieces; false: the group is none of these. */
static bool
lower_special(Lower *lo, const Group *g, const Shape *s, const Probe *probe)
{
    if (probe->along != DIM_NONE) {
        group_scan(lo, g, s, probe);
    } else if (probe->interleaved_axis != DIM_NONE) {
        Group lanes = group_lanes(lo, g, s, probe);
        lower_group(lo, &lanes);
    } else if (probe->cut != DIM_NONE) {
        lower_pieces(lo, g, s, probe);
    } else {
        return false;
    }
    return true;
}

/* Builds the phase. */
static void
build_phase(Lower *lo, const Group *g, const Shape *s, Probe *probe)
{
    if (s->space.nrow) {        /* again, now that the axes of the row are known */
        probe_outputs(lo, &s->space, g->noutputs, g->outputs, probe);
    }
    lo->probe = probe;
    group_phase(lo, g, &s->space, probe);
}

/* Has the group loads instead of results that are stored already, and that cost more to compute
 * again than a tensor?  False: there are none. */
static bool
read_stored(Lower *lo, const Probe *probe)
{
    bool any = false;
    for (int k = 0; k < lo->nresults; k++) {
        const Value *v = lo->rets[k];
        const uint32_t key = value_is_const(v) ? 0 : (uint32_t)v->id;
        const Need *need = value_is_const(v) ? NULL : map_get(&probe->needs, &key, 1);
        bool stored = lo->group_of[k] && lo->group_of[k] < lo->ngroups;
        if (stored && need && need->cost >= COST_MATERIALISED && !lo->leaf[v->id] &&
            !lo->kernel->res[k]->over) {
            lo->leaf[v->id] = lo->kernel->res[k];
            any = true;
        }
    }
    return any;
}

/* A tensor of this shape that the kernel reads, with strides of its own; NULL: there is none. */
static const Value *
find_operand(const Lower *lo, const Type *shape)
{
    for (int k = 0; k < lo->body->n; k++) {
        const Let *let = lo->body->lets[k];
        for (int j = 0; j < let->nargs; j++) {
            const Value *v = let->args[j], *leaf = value_is_const(v) ? NULL : lo->leaf[v->id];
            if (leaf && leaf->strides && type_same_shape(leaf->type, shape)) {
                return leaf;
            }
        }
    }
    return NULL;
}

/* The order in memory of the axes of such a tensor.  False: row-major, as far as is known. */
static bool
order_of_operand(const Lower *lo, const Type *shape, Order *order)
{
    const Value *from = find_operand(lo, shape);
    return from && strides_order(lo->cx, shape, from->strides, order->axis);
}

/* Makes a tensor of a reduction that cannot stand in the group's loops.  If there is a value that
 * several loops would compute at too high a cost, that value becomes a tensor first. */
static void
materialise_site(Lower *lo, const Probe *probe, const Let *site)
{
    const Dim *at = NULL;
    Order order = {.nsum = 0};
    for (int k = 0; k < probe->nsites; k++) {
        at = probe->sites[k].red == site ? probe->sites[k].idx : at;
    }
    if (lo->blocked) {
        block_materialise(lo, site->res[0], at, NULL, false);
    } else if (!probe->costly) {
        group_materialise(lo, site->res[0], NULL);
    } else if (!read_stored(lo, probe)) {
        bool ordered = order_of_operand(lo, probe->costly->type, &order);
        group_materialise(lo, probe->costly, ordered ? &order : NULL);
    }
}

/* Makes a tensor that a group with a contraction needs before it has loops.  In a block this is the
 * row operand, else a reduction that does not read the contraction, else the epilogue of its sums.
 * Without blocks it is the contraction. */
static void
materialise_for_contract(Lower *lo, const Group *g, const Shape *s, const Probe *probe)
{
    const Value *v = probe->contract->res[0], *end = lo->blocked ? block_epilogue(lo, v) : v;
    if (lo->blocked && contract_operand(lo, s, probe)) {
        return;
    }
    if (lo->blocked && probe->nsites && !probe->contract_reduced) {
        block_materialise(lo, probe->sites[0].red->res[0], probe->sites[0].idx, NULL, false);
        return;
    }
    block_materialise(lo, end == g->outputs[0].value ? v : end, probe->contract_at, NULL, false);
}

/* Makes values tensors, one after the other, until the rest can be in the group's own loops. */
void
lower_group(Lower *lo, Group *g)
{
    Probe probe;
    Shape s = group_shape(lo, g);
    if (group_is_scatter(g)) {
        group_scatter(lo, g);
        return;
    }
    for (;;) {
        group_probe(lo, g, &s, &probe);
        if (probe.cut != DIM_NONE && !probe.nscans && probe.interleaved_axis == DIM_NONE) {
            lower_pieces(lo, g, &s, &probe);
            return;
        }
        if (probe.contract &&
            (group_blocks(lo, g, &s, &probe) || group_contract(lo, g, &s, &probe))) {
            return;
        }
        if (probe.contract) {
            materialise_for_contract(lo, g, &s, &probe);
            continue;
        }
        if (probe.nscans && (probe.nsites || probe.interleaved_axis != DIM_NONE ||
                             probe.cut != DIM_NONE || probe.own_loops)) {
            materialise_scan(lo, g, &probe);
            continue;
        }
        if (lower_special(lo, g, &s, &probe)) {
            return;
        }
        if (probe.own_loops) {
            if (materialise_pieces(lo, g, probe.own_loops)) {
                return;
            }
            continue;
        }
        divide_axes(lo, &s, &probe);
        bool column = reduces_columns(lo, &s.space, &probe);
        const Let *site = find_misplaced(lo, g, &s, &probe, column);
        lo->column = column;
        if (site) {
            materialise_site(lo, &probe, site);
        } else if (!take_row_results(lo, g, &s)) {
            break;
        }
    }
    build_phase(lo, g, &s, &probe);
}
