/* The probe: what a set of values reads, found by walking index vectors before any loop is built.
 *
 * What:     the reductions that are demanded and where, the offsets of all loads, and the values
 *           that several loops over the same row need.
 * Requires: outputs of one index space, named by bare indices.
 * Ensures:  sites in an order in which each needs only earlier ones.  Changes nothing.
 * How:      The walk is that of lower_scalar.c without the building: from a result back through its
 *           operands, each (value, indices) once for each loop.  Reductions over axes of the same
 *           sizes use the same names for them, and so does the final loop.  So a value that two
 *           loops need at the same place of the row has the same key in both.
 *           Two passes choose what is buffered.  The first goes from results to operands and notes
 *           which loops need each value.  A value worth a buffer needs its operands only in the
 *           first of its loops.  The second goes from operands to results and counts a buffered
 *           operand as a load.  A value that is then too cheap for a buffer is computed again.
 * Why not:  decide while building: the order of loops must be known before the first is opened.
 * Example:  softmax: sites amax at [i], sum at [i]; exp(x - m) at [i, j] is needed by the sum's
 *           loop and by the final one and costs 13 a piece: it has a row buffer.  If x +
 *           softmax(x) is applied in rounds, each sum of the last two rounds is computed again from
 *           the one that is buffered.
 */
#include <string.h>

#include "lower.h"

typedef struct {
    int n;
    const Dim *extents, *names;
} Names;

typedef struct {
    uint64_t loops;
    int64_t cost;
} Visit;         /* of a value at an index vector */

typedef struct {
    Cx *cx;
    const Lower *lo;
    const Space *space;
    Probe *probe;
    Map visits;
    const Value **order;        /* the values that are needed, operands first */
    int norder;
    Names *shared;              /* names in use for rows of these sizes */
    int nshared;
    int loop; /* 0: the final loop; else 1 + the site's number while it is open */
    int loops;
    Dim **offsets; /* where the loop's offsets go */
    int *noffsets;
} Walk;

static int64_t walk(Walk *w, const Value *v, const Dim *idx);

/* Names for the axes of a row.  Rows of the same sizes share them. */
static const Dim *
row_names(Walk *w, int n, const Dim *extents)
{
    for (int k = 0; k < w->nshared; k++) {
        const Names *s = &w->shared[k];
        if (s->n == n && memcmp(s->extents, extents, (size_t)n * sizeof *extents) == 0) {
            return s->names;
        }
    }
    Dim *names = cx_alloc(w->cx, (size_t)n * sizeof *names);
    for (int k = 0; k < n; k++) {
        names[k] = dim_index(w->cx, "r", extents[k]);
    }
    w->shared = cx_grow(w->cx, w->shared, w->nshared, sizeof *w->shared);
    w->shared[w->nshared++] = (Names){n, cx_copy(w->cx, extents, (size_t)n * sizeof *extents),
                                      names};
    return names;
}

static void
add_offset(Walk *w, Dim offset)
{
    for (int k = 0; k < *w->noffsets; k++) {
        if ((*w->offsets)[k] == offset) {
            return;
        }
    }
    *w->offsets = cx_grow(w->cx, *w->offsets, *w->noffsets, sizeof **w->offsets);
    (*w->offsets)[(*w->noffsets)++] = offset;
}

/* ---- reductions ---- */

static void
site_axes(Walk *w, Site *site)
{
    const Attr *axes = let_attr(site->red, "axes");
    const Type *from = site->red->args[0]->type;
    for (int k = 0; k < axes->n; k++) {
        Dim n = from->dims[axes->axes[k]];
        if (!extent_is_one(w->cx, n)) {
            site->extent[site->nown++] = bounds_extent(w->lo, site->red->args[0], axes->axes[k]);
        }
    }
    memcpy(site->own, row_names(w, site->nown, site->extent), (size_t)site->nown * sizeof(Dim));
}

static void
walk_site(Walk *w, const Let *red, const Dim *idx)
{
    for (int k = 0; k < w->probe->nsites; k++) {
        const Site *s = &w->probe->sites[k];
        if (s->red == red &&
            memcmp(s->idx, idx, (size_t)red->res[0]->type->rank * sizeof *idx) == 0) {
            return;
        }
    }
    Site site = {.red = red};
    Dim inner[MAX_RANK];
    site_axes(w, &site);
    index_reduced(w->cx, red, idx, site.own, inner);
    site.idx = cx_copy(w->cx, idx, (size_t)red->res[0]->type->rank * sizeof *idx);
    Walk outer = *w;
    w->loop = ++w->loops;
    w->offsets = &site.offsets;
    w->noffsets = &site.noffsets;
    walk(w, red->args[0], inner);
    w->loop = outer.loop;
    w->offsets = outer.offsets;
    w->noffsets = outer.noffsets;
    Probe *p = w->probe;
    p->sites = cx_grow(w->cx, p->sites, p->nsites, sizeof *p->sites);
    p->sites[p->nsites++] = site;
}

/* ---- scans ---- */

/* Is each axis of the space an axis of the scan, at the same index?  *along: the axis of the space
 * that the scan runs along; *back: the index counts from its end. */
static bool
scan_axes(Walk *w, const Let *scan, const Dim *idx, Dim *along, bool *back)
{
    const Type *t = scan->res[0]->type;
    int axis = (int)let_int(scan, "axis"), found = 0, wide = 0;
    for (int ax = 0; ax < t->rank; ax++) {
        Dim last = dim_sub(w->cx, t->dims[ax], dim_int(w->cx, 1));
        wide += !extent_is_one(w->cx, t->dims[ax]);
        for (int k = 0; k < w->space->nouter; k++) {
            Dim name = w->space->outer[k];
            bool here = idx[ax] == name, end = ax == axis && idx[ax] == dim_sub(w->cx, last, name);
            if ((here || end) && w->space->outer_extent[k] == t->dims[ax]) {
                found++;
                *along = ax == axis ? name : *along;
                *back |= !here;
            }
        }
    }
    return found == wide && found == w->space->nouter;
}

/* Can the scan be in the final loop?  Yes if all of its elements are needed, in its order or in
 * reverse. */
static bool
scan_fits(Walk *w, const Let *scan, const Dim *idx)
{
    Probe *p = w->probe;
    Dim along = DIM_NONE;
    bool back = false;
    if (extent_is_one(w->cx, scan->res[0]->type->dims[let_int(scan, "axis")])) {
        return true;
    }
    if (w->loop != 0 || w->space->nrow || !scan_axes(w, scan, idx, &along, &back) ||
        (p->along != DIM_NONE && (p->along != along || p->back != back))) {
        return false;
    }
    p->along = along;
    p->back = back;
    return true;
}

static int64_t
walk_scan(Walk *w, const Let *scan, const Dim *idx)
{
    Probe *p = w->probe;
    if (!scan_fits(w, scan, idx)) {
        p->own_loops = scan;
        return 0;
    }
    p->scans = cx_grow(w->cx, p->scans, p->nscans, sizeof *p->scans);
    p->scans[p->nscans++] = scan;
    return walk(w, scan->args[0], idx) + COST_LOAD;
}

/* ---- lets ---- */

/* Cuts the space into these pieces of its axis `at`.  If the space has no such axis, or only a part
 * of it, or a reduction wants the let, it has loops of its own. */
static void
cut_space(Walk *w, const Let *let, Dim at, int n, const Dim *starts, const Dim *ends)
{
    const Space *s = w->space;
    Probe *p = w->probe;
    bool ours = false;
    for (int k = 0; k < s->nouter + s->nrow && w->loop == 0; k++) {
        bool row = k >= s->nouter;
        int j = row ? k - s->nouter : k;
        ours |= at == (row ? s->row : s->outer)[j] &&
                ends[n - 1] == (row ? s->row_extent : s->outer_extent)[j];
    }
    if (!ours) {
        p->own_loops = let;
    } else if (p->cut == DIM_NONE) {
        p->cut = at;
        p->npieces = n;
        p->starts = cx_copy(w->cx, starts, (size_t)n * sizeof *starts);
        p->ends = cx_copy(w->cx, ends, (size_t)n * sizeof *ends);
    }
}

static int64_t
walk_operand(Walk *w, const Let *let, int k, const Dim *idx)
{
    Dim inner[MAX_RANK];
    if (value_is_const(let->args[k])) {
        return 0;
    }
    index_operand(w->cx, let, k, idx, inner);
    return walk(w, let->args[k], inner);
}

static int64_t
walk_gather(Walk *w, const Let *let, const Dim *idx)
{
    int64_t cost = walk_operand(w, let, 1, idx);
    Dim inner[MAX_RANK];
    const Type *x = let->args[0]->type;
    int axis = (int)let_int(let, "axis"), skip = let->args[1]->type->rank;
    for (int ax = 0; ax < x->rank; ax++) {
        inner[ax] = ax == axis  ? dim_index(w->cx, "g", x->dims[axis])
                    : ax < axis ? idx[ax]
                                : idx[ax - 1 + skip];
    }
    return cost + walk(w, let->args[0], inner) + COST_LOAD;
}

/* Finds the axis along which the cat interleaves a few parts of one element each; false: there is
 * none.  The index of the cat is an axis of the space, or its remainder by the number of parts:
 * each part makes one of so many adjacent elements. */
static bool
find_interleaved_axis(Walk *w, const Let *cat, Dim at)
{
    Cx *cx = w->cx;
    Dim n = dim_int(cx, cat->nargs);
    bool ours = w->loop == 0 && w->space->laned && let_interleaves(cx, cat);
    for (int k = 0; k < w->space->nouter && ours; k++) {
        Dim name = w->space->outer[k], extent = w->space->outer_extent[k];
        if (at == dim_mod(cx, name, n) && dim_mul(cx, dim_div(cx, extent, n), n) == extent) {
            w->probe->interleaved_axis = name;
            w->probe->lanes = cat->nargs;
            return true;
        }
    }
    return false;
}

static int64_t
walk_cat(Walk *w, const Let *let, const Dim *idx)
{
    int axis = (int)let_int(let, "axis"), part = index_cat_part(w->cx, let, idx[axis]);
    if (part >= 0) {
        return walk_operand(w, let, part, idx);
    }
    if (find_interleaved_axis(w, let, idx[axis])) {
        return 0;
    }
    Dim *places = cx_alloc(w->cx, (size_t)(let->nargs + 1) * sizeof *places);
    for (int k = 0; k <= let->nargs; k++) {
        places[k] = index_cat_start(w->cx, let, k);
    }
    cut_space(w, let, idx[axis], let->nargs, places, places + 1);
    return 0;
}

static int64_t
walk_pad(Walk *w, const Let *let, const Dim *idx)
{
    int axis = 0, state = index_pad(w->cx, let, idx, &axis);
    if (state == 0) {
        Cx *cx = w->cx;
        Dim lo = let_attr(let, "lo")->dims[axis], n = let->res[0]->type->dims[axis];
        Dim hi = dim_add(cx, lo, let->args[0]->type->dims[axis]), zero = dim_int(cx, 0);
        /* Each piece shows where it is by its own end: an operand of any size may end behind the
         * pad, and then the third piece begins behind it and is empty. */
        Dim starts[] = {zero, dim_max(cx, zero, lo), dim_max(cx, zero, hi)},
            ends[] = {dim_max(cx, zero, dim_min(cx, lo, n)), dim_min(cx, hi, n), n};
        cut_space(w, let, idx[axis], 3, starts, ends);
    }
    return state > 0 ? walk_operand(w, let, 0, idx) : 0;
}

/* An index that is used as data counts as an access: a merged loop would divide to get it. */
static int64_t
walk_index(Walk *w, const Let *let, const Dim *idx)
{
    if (let->op == OP_iota) {
        add_offset(w, idx[let_int(let, "axis")]);
    }
    return COST_LOAD;
}

/* A contraction reads its operands in loops of its own, so the walk ends here. */
static int64_t
walk_contract(Walk *w, const Let *let, const Dim *idx)
{
    Probe *p = w->probe;
    if (!p->contract) {
        p->contract = let;
        p->contract_at = cx_copy(w->cx, idx, (size_t)let->res[0]->type->rank * sizeof *idx);
    }
    p->ncontracts++;
    p->contract_reduced |= p->contract == let && w->loop != 0;
    return COST_LOAD;
}

static int64_t
walk_let(Walk *w, const Value *v, const Dim *idx)
{
    const Let *let = v->def;
    int64_t cost = 0;
    switch (op_info[let->op].kind) {
    case KIND_RED:
        walk_site(w, let, idx);
        return 0;
    case KIND_MAP:
        cost = op_info[let->op].cost;
        for (int k = 0; k < let->nargs; k++) {
            cost += walk_operand(w, let, k, idx);
        }
        return cost;
    case KIND_VIEW:
        return walk_operand(w, let, 0, idx);
    case KIND_NODE:
        break;
    }
    if (let->op == OP_scatter) { /* it needs loops of its own */
        w->probe->own_loops = let;
        return 0;
    }
    if (let->op == OP_contract) {
        return walk_contract(w, let, idx);
    }
    return let->op == OP_scan     ? walk_scan(w, let, idx)
           : let->op == OP_gather ? walk_gather(w, let, idx)
           : let->op == OP_cat    ? walk_cat(w, let, idx)
           : let->op == OP_pad    ? walk_pad(w, let, idx)
                                  : walk_index(w, let, idx);
}

static Need *
need_of(Walk *w, const Value *v)
{
    uint32_t key = (uint32_t)v->id;
    return value_is_const(v) ? NULL : map_get(&w->probe->needs, &key, 1);
}

static void
note_need(Walk *w, const Value *v, const Dim *idx, int64_t cost)
{
    uint32_t key = (uint32_t)v->id;
    size_t bytes = (size_t)v->type->rank * sizeof *idx;
    Need *need = map_at(w->cx, &w->probe->needs, &key, 1, sizeof *need);
    if (!need->noted) {
        need->noted = true;
        need->idx = cx_copy(w->cx, idx, bytes);
        need->cost = cost;
        w->order = cx_grow(w->cx, w->order, w->norder, sizeof *w->order);
        w->order[w->norder++] = v;
    }
    need->several |= bytes && memcmp(need->idx, idx, bytes) != 0;
}

static int64_t
walk(Walk *w, const Value *v, const Dim *idx)
{
    uint32_t key[MAX_RANK + 1];
    uint64_t bit = 1ull << (w->loop < 63 ? w->loop : 63);
    Visit *visit = map_at(w->cx, &w->visits, key, map_key(v, idx, key), sizeof *visit);
    if (visit->loops & bit) {
        return visit->cost;
    }
    visit->loops |= bit;
    int64_t cost = COST_LOAD;
    if (w->lo->leaf[v->id]) {
        add_offset(w, lower_offset(w->lo, w->lo->leaf[v->id], idx));
        visit->cost = cost;
    } else {
        cost = walk_let(w, v, idx);
        visit->cost = cost = cost < COST_MOST ? cost : COST_MOST;
        note_need(w, v, idx, cost);
    }
    return cost;
}

/* ---- what to buffer ---- */

static bool
spans_row(Walk *w, const Need *need, int rank, const Names *row)
{
    int found = 0;
    for (int ax = 0; ax < rank; ax++) {
        bool outside = true;
        for (int k = 0; k < row->n; k++) {
            found += need->idx[ax] == row->names[k];
            outside &= !dim_uses(w->cx, need->idx[ax], row->names[k]);
        }
        for (int k = 0; k < row->n && !outside; k++) {
            outside = need->idx[ax] == row->names[k];
        }
        if (!outside) {
            return false;
        }
    }
    return found == row->n && row->n > 0;
}

/* The row that a loop, counted from 1, runs over; the last one is the final loop. */
static Names
row_of(const Walk *w, int loop)
{
    const Probe *p = w->probe;
    if (loop > p->nsites) {
        return (Names){w->space->nrow, w->space->row_extent, w->space->row};
    }
    const Site *s = &p->sites[loop - 1];
    return (Names){s->nown, s->extent, s->own};
}

/* Notes that `loop` computes v, and with `again` that other loops do so too. */
static void
demand(Walk *w, const Value *v, int loop, bool again)
{
    Need *need = need_of(w, v);
    if (need) {
        need->again |= again || (need->first && need->first != loop);
        need->first = need->first && need->first < loop ? need->first : loop;
    }
}

static bool
is_transparent(const Let *let)
{
    OpKind kind = op_info[let->op].kind;
    return kind == KIND_MAP || kind == KIND_VIEW;
}

/* Marks v as buffered if that is possible and may be worth it.  Then only its first loop needs its
 * operands. */
static void
mark_buffered(Walk *w, const Value *v, Need *need)
{
    if (need->again && !need->several && need->cost >= COST_BUFFERED &&
        op_info[v->def->op].kind == KIND_MAP) {
        Names row = row_of(w, need->first);
        bool spans = spans_row(w, need, v->type->rank, &row);
        need->nrow = spans ? row.n : 0;
        need->row = row.extents;
    }
}

/* The cost of v if its buffered operands are loads. */
static int64_t
cost_with_buffers(Walk *w, const Value *v, const Need *need)
{
    if (!is_transparent(v->def)) {
        return need->cost;
    }
    int64_t cost = op_info[v->def->op].kind == KIND_MAP ? op_info[v->def->op].cost : 0;
    for (int k = 0; k < v->def->nargs; k++) {
        const Value *arg = v->def->args[k];
        const Need *operand = need_of(w, arg);
        cost += operand && !operand->nrow ? operand->cost : value_is_const(arg) ? 0 : COST_LOAD;
    }
    return cost < COST_MOST ? cost : COST_MOST;
}

static void
demand_roots(Walk *w, int noutputs, const Output *outputs)
{
    for (int k = 0; k < w->probe->nsites; k++) {
        demand(w, w->probe->sites[k].red->args[0], k + 1, false);
    }
    for (int k = 0; k < noutputs; k++) {
        demand(w, outputs[k].value, w->probe->nsites + 1, false);
    }
}

static void
demand_operands(Walk *w, const Value *v, const Need *need, bool again)
{
    for (int k = 0; need->first && is_transparent(v->def) && k < v->def->nargs; k++) {
        demand(w, v->def->args[k], need->first, again);
    }
}

static void
choose_buffered(Walk *w, int noutputs, const Output *outputs)
{
    demand_roots(w, noutputs, outputs);
    for (int k = w->norder - 1; k >= 0; k--) {
        Need *need = need_of(w, w->order[k]);
        mark_buffered(w, w->order[k], need);
        demand_operands(w, w->order[k], need, need->again && !need->nrow);
    }
    for (int k = 0; k < w->norder; k++) {
        Need *need = need_of(w, w->order[k]);
        need->cost = cost_with_buffers(w, w->order[k], need);
        need->nrow = need->cost >= COST_BUFFERED ? need->nrow : 0;
    }
}

static bool
is_output(const Value *v, int noutputs, const Output *outputs)
{
    bool is = false;
    for (int k = 0; k < noutputs; k++) {
        is |= outputs[k].value == v;
    }
    return is;
}

/* Finds the first value, operands before their users, that several loops would compute at too high
 * a cost if each were a phase of its own.  It must have the shape of a reduction's operand: values
 * with one element for each row are cheap to compute again. */
static void
find_costly(Walk *w, int noutputs, const Output *outputs)
{
    Probe *p = w->probe;
    demand_roots(w, noutputs, outputs);
    for (int k = w->norder - 1; k >= 0; k--) {
        const Need *need = need_of(w, w->order[k]);
        demand_operands(w, w->order[k], need, need->again);
    }
    for (int k = 0; k < w->norder; k++) {
        const Value *v = w->order[k];
        Need *need = need_of(w, v);
        if (!p->costly && need->again && need->cost >= COST_MATERIALISED &&
            op_info[v->def->op].kind == KIND_MAP &&
            type_same_shape(v->type, p->sites[need->first - 1].red->args[0]->type) &&
            !is_output(v, noutputs, outputs)) {
            p->costly = v;
        }
        need->first = 0;
        need->again = false;
    }
}

void
probe_outputs(const Lower *lo, const Space *space, int noutputs, const Output *outputs,
              Probe *probe)
{
    Walk w = {.cx = lo->cx, .lo = lo, .space = space, .probe = probe};
    *probe = (Probe){0};
    w.offsets = &probe->offsets;
    w.noffsets = &probe->noffsets;
    if (space->nrow) {
        w.shared = cx_grow(lo->cx, NULL, 0, sizeof *w.shared);
        w.shared[w.nshared++] = (Names){space->nrow, space->row_extent, space->row};
    }
    for (int k = 0; k < noutputs; k++) {
        if (outputs[k].buffer) {
            add_offset(&w, lower_offset(lo, outputs[k].buffer, outputs[k].at));
        }
    }
    probe->nstores = probe->noffsets;
    for (int k = 0; k < noutputs; k++) {
        walk(&w, outputs[k].value, outputs[k].at);
    }
    if (probe->nsites) {
        find_costly(&w, noutputs, outputs);
        choose_buffered(&w, noutputs, outputs);
    }
}
