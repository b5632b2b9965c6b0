/* One phase of a group: its loops, the reductions in them, and the stores.
 *
 * What:     the outer loops of an index space; in them the reductions and, if there is a row, the
 *           loops along it; the stores of the outputs.
 * Requires: a probe whose reductions are all at the outer axes.
 * Ensures:  loops whose innermost one runs along memory; all loads of a block before its stores.
 * How:      steps 2 and 3 of lower.c: the nest of each reduction and of the outer axes is planned
 *           by the offsets of what is read and stored there.
 * Example:  softmax over N: outer B; amax and sum, each with a loop over N; a loop over N that
 *           stores the quotients.
 */
#include <string.h>

#include "lower.h"

/* ---- nests ---- */

void
group_sites(Lower *lo, const Probe *probe)
{
    lo->nests = (Map){0};
    for (int k = 0; k < probe->nsites; k++) {
        const Site *s = &probe->sites[k];
        uint32_t key = (uint32_t)s->red->res[0]->id;
        Nest *nest = map_at(lo->cx, &lo->nests, &key, 1, sizeof *nest);
        int flags = op_info[s->red->op].rule == RULE_INDEX ? NEST_FLAT : NEST_BITS;
        nest_plan(lo->cx, nest, s->nown, s->own, s->extent, 0, s->noffsets, s->offsets, flags);
    }
}

/* Plans the outer loops.  The offsets of all loads count, including those of the reductions. */
void
group_outer(Lower *lo, const Space *space, const Probe *probe, Nest *nest)
{
    Dim *offsets = NULL;
    int n = 0;
    for (int k = 0; k < probe->noffsets; k++) {
        offsets = cx_grow(lo->cx, offsets, n, sizeof *offsets);
        offsets[n++] = probe->offsets[k];
    }
    for (int k = 0; k < probe->nsites; k++) {
        for (int j = 0; j < probe->sites[k].noffsets; j++) {
            offsets = cx_grow(lo->cx, offsets, n, sizeof *offsets);
            offsets[n++] = probe->sites[k].offsets[j];
        }
    }
    int flags = !probe->nsites ? NEST_ROWS : lo->column ? 0 : NEST_KEEP;
    flags |= lo->filled ? NEST_AXES : 0; /* `tile` fills panels for some steps of the sums */
    nest_plan(lo->cx, nest, space->nouter, space->outer, space->outer_extent, probe->nstores, n,
              offsets, flags);
}

void
axes_rename(Lower *lo, int n, const Dim *names, const Dim *axes, int rank, Dim *idx)
{
    for (int ax = 0; ax < rank; ax++) {
        for (int k = 0; k < n; k++) {
            idx[ax] = dim_replace(lo->cx, idx[ax], names[k], axes[k]);
        }
    }
}

/* Opens the loops of the nest and returns how many.  A phase must be a loop, so that one element
 * has a loop of one iteration, unless it is in a loop already. */
int
group_open(Lower *lo, const Nest *nest, Dim *axes)
{
    nest_open(lo, nest, axes);
    if (nest->nloops == 0 && !lo->number) {
        builder_open(&lo->out, "i", dim_int(lo->cx, 1));
        return 1;
    }
    return nest->nloops;
}

/* ---- one phase ---- */

/* Stores come after all loads of the block, because a result may share an operand's memory. */
void
group_store(Lower *lo, const Group *g, int from, int to, const Space *space, const Dim *outer,
            const Dim *row)
{
    Value **values = cx_alloc(lo->cx, (size_t)g->noutputs * sizeof *values);
    Dim *idx = cx_alloc(lo->cx, (size_t)g->noutputs * MAX_RANK * sizeof *idx);
    for (int k = from; k < to; k++) {
        Dim *at = idx + k * MAX_RANK;
        const Value *buffer = g->outputs[k].buffer;
        bool filled = lo->filled && lo->filled->buffer == buffer;
        int rank = (filled ? g->outputs[k].value : buffer)->type->rank;
        memcpy(at, g->outputs[k].at, (size_t)rank * sizeof *at);
        axes_rename(lo, space->nouter, space->outer, outer, rank, at);
        axes_rename(lo, space->nrow, space->row, row, rank, at);
        values[k] = builder_cast(&lo->out, lower_at(lo, g->outputs[k].value, at),
                                 g->outputs[k].buffer->type->dtype);
    }
    for (int k = from; k < to; k++) {
        lower_store(lo, g->outputs[k].buffer, idx + k * MAX_RANK, values[k]);
    }
}

/* The need of an output that several loops over the row need, or NULL. */
static Need *
need_of_output(const Probe *probe, const Output *output)
{
    uint32_t key = (uint32_t)output->value->id;
    Need *need = map_get(&probe->needs, &key, 1);
    return need && need->nrow ? need : NULL;
}

/* A row buffer would be copied to the block's part of the value.  So the part takes its place. */
static void
keep_row_in_output(Lower *lo, const Group *g, const Space *sp, const Probe *probe, const Dim *axes)
{
    const Output *output = &g->outputs[0];
    const Type *type = output->buffer->type;
    Need *need = need_of_output(probe, output);
    bool same = g->part && g->nfull == 1 && need && need->nrow == sp->nrow &&
                type->dtype == output->value->type->dtype;
    for (int k = 0; k < sp->nrow && same; k++) {
        same = need->row[k] == sp->row_extent[k];
    }
    if (same) {
        need->output = output->buffer;
        need->axes = sp->row;
        need->at = cx_alloc(lo->cx, MAX_RANK * sizeof *need->at);
        memcpy(need->at, output->at, (size_t)type->rank * sizeof *need->at);
        axes_rename(lo, sp->nouter, sp->outer, axes, type->rank, need->at);
    }
}

/* Does a reduction's loop store the only full output? */
static bool
is_full_stored(const Group *g, const Probe *probe)
{
    const Need *need = need_of_output(probe, &g->outputs[0]);
    return need && need->buffer && need->buffer == need->output;
}

void
group_phase(Lower *lo, const Group *g, const Space *sp, const Probe *probe)
{
    Nest outer, row;
    Dim axes[MAX_RANK], cols[MAX_RANK], at[MAX_RANK];
    group_sites(lo, probe);
    group_outer(lo, sp, probe, &outer);
    int opened = group_open(lo, &outer, axes);
    lo->outer = lo->out.depth;
    keep_row_in_output(lo, g, sp, probe, axes);
    for (int k = 0; k < probe->nsites; k++) {
        const Value *red = probe->sites[k].red->res[0];
        memcpy(at, probe->sites[k].idx, (size_t)red->type->rank * sizeof *at);
        axes_rename(lo, sp->nouter, sp->outer, axes, red->type->rank, at);
        lower_at(lo, red, at);
    }
    group_store(lo, g, sp->nrow ? g->nfull : 0, g->noutputs, sp, axes, sp->row);
    if (sp->nrow && !is_full_stored(g, probe)) {
        nest_plan(lo->cx, &row, sp->nrow, sp->row, sp->row_extent, probe->nstores, probe->noffsets,
                  probe->offsets, 0);
        nest_open(lo, &row, cols);
        lo->row = cols;
        opened += row.nloops;
        group_store(lo, g, 0, g->nfull, sp, axes, cols);
    }
    builder_close_all(&lo->out, opened);
}
