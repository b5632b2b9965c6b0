/* Scatters: values are combined into positions that are data, in the order of their index.
 *
 * What:     phases for a scatter.  The first ones store what is added to.  The next one has loops
 *           over the values' other axes and, in them, one along the scatter's axis, which makes the
 *           updates in order.
 * Requires: a group with the scatter's value as its only output.
 * Ensures:  the values for one element are combined in their order along the axis, whatever the
 *           tier and the number of threads: iterations of the parallel loops never write the same
 *           element.
 * How:      If the elements at one position are contiguous, schedule.c makes the loop around the
 *           one along the axis a vector: a tile of columns advances together.  Otherwise the loop
 *           along the axis is the vector, and its updates happen in order.  If the dtype is
 *           narrower than the one it is computed in, sums have a buffer of the wider dtype, and a
 *           last phase rounds them once.  A scatter that only stores its values needs no buffer.
 * Why not:  atomic updates: their order would be that of the threads.  Sorting the index first: it
 *           costs more than the updates unless very many values go to one position.
 * Example:  y = scatter x, i, v op=sum axis=0 of f32[N, C]: for k { y = x }, then
 *           for c in C vector { for j in J { load i[j]; bind g; load v[j, c]; update sum y[g, c] }
 *           }.
 */
#include <string.h>

#include "lower.h"

bool
group_is_scatter(const Group *g)
{
    const Let *def = g->outputs[0].value->def;
    return g->noutputs == 1 && def && def->op == OP_scatter;
}

static Group
group_of_value(Lower *lo, const Value *v, Value *buffer)
{
    Group g = {.noutputs = 1, .nfull = 1, .rank = v->type->rank};
    g.outputs = cx_alloc(lo->cx, ((size_t)lo->nresults + 1) * sizeof *g.outputs);
    g.outputs[0] = output_of(lo, v, buffer);
    for (int ax = 0; ax < g.rank; ax++) {
        g.start[ax] = dim_int(lo->cx, 0);
        g.dims[ax] = v->type->dims[ax];
    }
    return g;
}

/* Probes the reads for one of the values.  If the operand needs its own loops, it becomes a buffer
 * first. */
static void
probe_operand(Lower *lo, const Shape *s, Value *v, Probe *probe)
{
    Value *as = cx_alloc(lo->cx, sizeof *as);
    *as = (Value){.type = v->type};
    Output read = output_of(lo, v, as);
    Space all = {.nouter = s->nall};
    memcpy(read.at, s->idx, (size_t)v->type->rank * sizeof *read.at);
    memcpy(all.outer, s->all, sizeof all.outer);
    memcpy(all.outer_extent, s->all_extent, sizeof all.outer_extent);
    probe_outputs(lo, &all, 1, &read, probe);
    if (probe->nsites || probe->nscans || probe->cut != DIM_NONE || probe->own_loops) {
        group_materialise(lo, v, NULL);
        probe_outputs(lo, &all, 1, &read, probe);
    }
}

/* The loops over the values' axes but the scatter's own. */
static void
plan_loops(Lower *lo, const Let *scatter, const Shape *s, const Value *to,
           const Probe *const probes[2], Space *space, Nest *nest)
{
    int axis = (int)let_int(scatter, "axis"), n = 0;
    Dim at[MAX_RANK];
    Dim *offsets = cx_alloc(lo->cx, (size_t)(1 + probes[0]->noffsets + probes[1]->noffsets) *
                                        sizeof *offsets);
    memcpy(at, s->idx, (size_t)to->type->rank * sizeof *at);
    at[axis] = dim_index(lo->cx, "g", to->type->dims[axis]);
    offsets[n++] = index_offset(lo->cx, to, at);
    for (int p = 0; p < 2; p++) {
        for (int k = probes[p]->nstores; k < probes[p]->noffsets; k++) {
            offsets[n++] = probes[p]->offsets[k];
        }
    }
    *space = (Space){0};
    for (int k = 0; k < s->nall; k++) {
        if (s->all[k] != s->idx[axis]) {
            space->outer[space->nouter] = s->all[k];
            space->outer_extent[space->nouter++] = s->all_extent[k];
        }
    }
    nest_plan(lo->cx, nest, space->nouter, space->outer, space->outer_extent, 1, n, offsets, 0);
}

static void
put_updates(Lower *lo, const Let *scatter, Value *to)
{
    Group g = group_of_value(lo, scatter->args[2], to);
    Shape s = group_shape(lo, &g);
    Probe index, values;
    Space space;
    Nest nest;
    Dim axes[MAX_RANK], at[MAX_RANK];
    int axis = (int)let_int(scatter, "axis");
    probe_operand(lo, &s, scatter->args[1], &index);
    probe_operand(lo, &s, scatter->args[2], &values);
    plan_loops(lo, scatter, &s, to, (const Probe *const[]){&index, &values}, &space, &nest);
    lo->probe = &values;
    lo->nests = (Map){0};
    int opened = group_open(lo, &nest, axes);
    lo->outer = lo->out.depth;
    memcpy(at, s.idx, (size_t)g.rank * sizeof *at);
    axes_rename(lo, space.nouter, space.outer, axes, g.rank, at);
    bool one = lo->number && extent_is_one(lo->cx, g.dims[axis]);
    at[axis] = one ? dim_int(lo->cx, 0) : builder_open(&lo->out, "j", g.dims[axis]);
    if (type_is_empty(lo->cx, to->type)) {
        lower_index(lo, scatter, at, g.rank, at); /* is checked all the same */
    } else {
        Value *v = lower_at(lo, scatter->args[2], at);
        v = builder_cast(&lo->out, let_op(scatter) == OP_store ? v : builder_truth(&lo->out, v),
                         to->type->dtype);
        at[axis] = lower_index(lo, scatter, at, g.rank, at);
        builder_update(&lo->out, let_op(scatter), to, at, v);
    }
    builder_close_all(&lo->out, opened + !one);
}

/* Rounds the sums and stores them. */
static void
put_narrow(Lower *lo, const Group *g, Value *wide)
{
    Value *to = g->outputs[0].buffer;
    Shape s = group_shape(lo, g);
    Nest nest;
    Dim axes[MAX_RANK], at[MAX_RANK];
    Dim offsets[] = {index_offset(lo->cx, to, s.idx), index_offset(lo->cx, wide, s.idx)};
    nest_plan(lo->cx, &nest, s.nall, s.all, s.all_extent, 1, 2, offsets, 0);
    int opened = group_open(lo, &nest, axes);
    lo->outer = lo->out.depth;
    memcpy(at, s.idx, (size_t)g->rank * sizeof *at);
    axes_rename(lo, s.nall, s.all, axes, g->rank, at);
    lower_store(lo, to, at, builder_cast(&lo->out, lower_load_here(lo, wide, at), to->type->dtype));
    builder_close_all(&lo->out, opened);
}

void
group_scatter(Lower *lo, const Group *g)
{
    const Let *scatter = g->outputs[0].value->def;
    Value *to = g->outputs[0].buffer, *sums = to;
    Dtype wide = let_op(scatter) == OP_store ? to->type->dtype
                                             : dtype_info[to->type->dtype].compute;
    if (wide != to->type->dtype) {
        sums = builder_buffer(&lo->out, 0, wide, to->type->rank, to->type->dims);
    }
    Group base = group_of_value(lo, scatter->args[0], sums);
    lower_group(lo, &base);
    put_updates(lo, scatter, sums);
    if (sums != to) {
        put_narrow(lo, g, sums);
    }
}
