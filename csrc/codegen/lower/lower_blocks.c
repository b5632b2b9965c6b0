/* Blocks of rows: a kernel in which whole rows go from one step to the next.
 *
 * What:     one phase whose parallel loops run over blocks of rows.  In a block, each step of the
 *           group is a loop of its own: a contraction, the values computed of its rows, the next
 *           contraction.  A step leaves its part of a value in a buffer of the block, which fits in
 *           the second-level cache.
 * Requires: a group that wants a contraction whose rows are needed as a whole (by a softmax or a
 *           norm), or whose row operand is computed.
 * Ensures:  every value is made of the same operations in the same order as without blocks.
 * How:      Some outer axes of the group become loops; the innermost of them takes a block of rows
 *           in each iteration.  The part of the group that is left inside is lowered like any
 *           group.  If that needs a value as a tensor first, only the block's part of the value is
 *           made: along each axis the part begins where the indices of the block's loops say.
 *           Columns of a product that are computed are made panel by panel (block_compute).
 *           Values that do not depend on the block are made before the phase.
 * Why not:  fuse the loops of phases afterwards: that would have to find out again which iterations
 *           read what others write.  An online softmax: it adds in another order, and the rows of a
 *           block fit in the second-level cache without it.
 * Example:  o = contract (softmax (contract q, k)), v: for b, h, blocks of t parallel { scores =
 *           contract q, k; for t { p = softmax scores }; o = contract p, v }.
 */
#include <string.h>

#include "lower_product.h"

#include "codegen/machine.h"
#include "ir/costs.h"

/* ---- parts of values ---- */

typedef struct {
    const Lower *lo;
    int nopen, nclosed;
    Dim closed;
} Names;

static void
count_index(void *arg, Dim name)
{
    Names *n = arg;
    bool index = dim_extent(n->lo->cx, name) != DIM_NONE,
         open = index && builder_is_open(&n->lo->out, name);
    n->nopen += open;
    n->nclosed += index && !open;
    n->closed = index && !open ? name : n->closed;
}

/* Finds the part of an axis that the index `at` covers in a block; false: it covers the whole
 * axis. */
static bool
part_of(Lower *lo, Dim at, Dim *start, Dim *extent)
{
    Names n = {.lo = lo, .closed = DIM_NONE};
    dim_names(lo->cx, at, count_index, &n);
    if (!n.nopen || n.nclosed > 1) {
        return false;
    }
    *start = n.nclosed ? dim_sub(lo->cx, at, n.closed) : at;
    *extent = n.nclosed ? dim_extent(lo->cx, n.closed) : dim_int(lo->cx, 1);
    return !n.nclosed || !dim_uses(lo->cx, *start, n.closed);
}

/* Finds the part of the value that idx covers in a block; false: it covers the whole value. */
static bool
find_part(Lower *lo, const Value *v, const Dim *idx, Group *g)
{
    bool part = false;
    for (int ax = 0; ax < v->type->rank; ax++) {
        bool cut = part_of(lo, idx[ax], &g->start[ax], &g->dims[ax]);
        if (!cut) {
            g->start[ax] = dim_int(lo->cx, 0);
            g->dims[ax] = v->type->dims[ax];
        }
        part |= cut;
    }
    if (part) {
        bounds_shorten(lo, v, g->start, g->dims);
    }
    return part;
}

void
block_materialise_before(Lower *lo, const Value *v, const Order *order)
{
    Lower saved = *lo;
    lo->out.depth = lo->block_depth = 0;
    lo->blocked = false;
    group_materialise(lo, v, order);
    saved.scalars = lo->scalars;
    saved.out.homes = lo->out.homes;
    saved.binds = lo->binds;
    saved.origins = lo->origins;
    saved.replaced = lo->replaced;
    saved.nreplaced = lo->nreplaced;
    *lo = saved;
}

static void
pad_rows(Lower *lo, const Value *v, int inner, Dim *room)
{
    if (inner >= 0 && !extent_is_one(lo->cx, room[inner])) {
        room[inner] = extent_of_rows(lo->cx, v->type->dtype, room[inner]);
    }
}

/* Adds an output to the group: the value, and a buffer over the part's axes except those in
 * `without`. */
static void
add_output(Lower *lo, Group *g, const Value *v, const Order *order, const Attr *without)
{
    Dim room[MAX_RANK], origin[MAX_RANK];
    int n = 0;
    for (int ax = 0; ax < g->rank; ax++) {
        if (!without || !attr_has_axis(without, ax)) {
            origin[n] = g->start[ax];
            room[n++] = g->dims[ax] == lo->block_extent ? lo->block_most
                                                        : bounds_room(lo, g->dims[ax]);
        }
    }
    if (!without) {
        pad_rows(lo, v, !order ? n - 1 : order->nsum == 1 ? order->axis[0] : -1, room);
    }
    Value *buffer = builder_buffer(&lo->out, lo->out.depth, v->type->dtype, n, room);
    buffer->strides = group_strides(lo, buffer->type, order);
    uint32_t key = (uint32_t)buffer->id;
    memcpy(map_at(lo->cx, &lo->origins, &key, 1, sizeof origin), origin, sizeof origin);
    g->outputs[g->noutputs++] = output_of(lo, v, buffer);
}

/* Notes v and all values of the kernel that it is computed of. */
static void
note_origins(Lower *lo, const Value *v, Map *noted)
{
    uint32_t key = (uint32_t)v->id;
    if (value_is_const(v) || lo->leaf[v->id] || map_get(noted, &key, 1)) {
        return;
    }
    map_at(lo->cx, noted, &key, 1, 1);
    for (int k = 0; k < v->def->nargs; k++) {
        note_origins(lo, v->def->args[k], noted);
    }
}

static bool
is_noted(const Value *v, Map *noted)
{
    uint32_t key = (uint32_t)v->id;
    return !value_is_const(v) && map_get(noted, &key, 1);
}

/* Does anything outside the computation of v also need the reduction red, which v is computed from?
 * origins: the values that v is computed from. */
static bool
is_needed_later(Lower *lo, const Value *v, const Value *red, Map *origins)
{
    Map reached = {0};
    uint32_t key = (uint32_t)red->id;
    bool needed = lo->user[red->id].result;
    map_at(lo->cx, &reached, &key, 1, 1);
    for (int k = 0; k < lo->body->n && !needed; k++) {
        const Let *let = lo->body->lets[k];
        bool reads = false;
        for (int j = 0; j < let->nargs; j++) {
            reads |= is_noted(let->args[j], &reached);
        }
        if (!reads || let->res[0] == v) {
            continue;
        }
        needed = !is_noted(let->res[0], origins) || lo->user[let->res[0]->id].result;
        key = (uint32_t)let->res[0]->id;
        map_at(lo->cx, &reached, &key, 1, 1);
    }
    return needed;
}

/* Adds the reductions to one number for each row of v, so that the same loops compute them:
 * reductions of v itself, and reductions that v is computed from, if a later step would compute
 * these again. */
static void
add_reductions(Lower *lo, Group *g, const Value *v)
{
    Map origins = {0};
    note_origins(lo, v, &origins);
    for (int k = 0; k < lo->body->n; k++) {
        const Let *let = lo->body->lets[k];
        bool red = op_info[let->op].kind == KIND_RED && !lo->leaf[let->res[0]->id] &&
                   (let->args[0] == v || (is_noted(let->res[0], &origins) &&
                                          type_same_shape(let->args[0]->type, v->type) &&
                                          is_needed_later(lo, v, let->res[0], &origins)));
        const Attr *axes = red ? let_attr(let, "axes") : NULL;
        for (int j = 0; red && j < axes->n; j++) {
            int ax = axes->axes[j];
            red = dim_is(lo->cx, g->start[ax], 0) &&
                  bounds_room(lo, g->dims[ax]) == v->type->dims[ax];
        }
        if (red) {
            add_output(lo, g, let->res[0], NULL, axes);
        }
    }
}

/* Has the entry of `leaf` be as it was before when the loops over blocks are closed: other groups,
 * and kernels, read memory from outside and not a block's copy. */
static void
note_replaced(Lower *lo, Value **leaf, Value *before)
{
    lo->replaced = cx_grow(lo->cx, lo->replaced, lo->nreplaced, sizeof *lo->replaced);
    lo->replaced[lo->nreplaced++] = (Replaced){leaf, before};
}

void
block_materialise(Lower *lo, const Value *v, const Dim *idx, const Order *order, bool reductions)
{
    Value *before = lo->leaf[v->id];
    Group g = {.nfull = 1, .rank = v->type->rank, .part = true};
    if (!lo->blocked) {
        group_materialise(lo, v, order);
        return;
    }
    if (!find_part(lo, v, idx, &g)) {
        block_materialise_before(lo, v, order);
        if (before) {
            note_replaced(lo, &lo->leaf[v->id], before);
        }
        return;
    }
    g.outputs = cx_alloc(lo->cx, (size_t)(lo->body->n + 1) * sizeof *g.outputs);
    add_output(lo, &g, v, order, NULL);
    if (reductions) {
        add_reductions(lo, &g, v);
    }
    lower_group(lo, &g);
    for (int k = 0; k < g.noutputs; k++) {
        Value **leaf = &lo->leaf[g.outputs[k].value->id];
        note_replaced(lo, leaf, *leaf);
        *leaf = g.outputs[k].buffer;
    }
}

/* Does the element that is read depend on all of the names? */
static bool
uses_all(Cx *cx, Dim offset, const Shape *s)
{
    bool all = true;
    for (int k = 0; k < s->nall; k++) {
        all &= dim_uses(cx, offset, s->all[k]);
    }
    return all;
}

/* The name whose values an axis of the group goes through; DIM_NONE: none, or several. */
static Dim
name_of_axis(Cx *cx, const Group *g, const Shape *s, int ax)
{
    Dim name = dim_sub(cx, s->idx[ax], g->start[ax]), found = DIM_NONE;
    bool is = dim_is_name(cx, name), lanes = g->lanes && g->lane_axis == ax;
    for (int k = 0; lanes && k < s->nall && found == DIM_NONE; k++) {
        found = dim_uses(cx, name, s->all[k]) ? s->all[k] : DIM_NONE;
    }
    return is ? name : found;
}

/* The axis along which most of the tensors are adjacent that the group reads one element of for
 * each of its own; the last one of several. */
static int
adjacent_axis(Lower *lo, const Group *g)
{
    Probe probe;
    Shape s = group_shape(lo, g);
    int best = g->rank - 1, most = -1;
    group_probe(lo, g, &s, &probe);
    if (probe.interleaved_axis != DIM_NONE) { /* what the parts read is not seen before */
        Group lanes = group_lanes(lo, g, &s, &probe);
        return adjacent_axis(lo, &lanes);
    }
    for (int ax = 0; ax < g->rank; ax++) {
        Dim name = name_of_axis(lo->cx, g, &s, ax);
        int score = name != DIM_NONE ? 0 : -1;
        for (int k = probe.nstores; k < probe.noffsets && score >= 0; k++) {
            score += uses_all(lo->cx, probe.offsets[k], &s) &&
                     nest_score(lo->cx, name, 1, &probe.offsets[k]);
        }
        best = score >= most ? ax : best;
        most = score >= most ? score : most;
    }
    return best;
}

/* The cost of an element of v, if all it is computed of has as many elements. */
static int
cost_of(Lower *lo, const Value *v)
{
    Map origins = {0};
    int cost = 0;
    note_origins(lo, v, &origins);
    for (int k = 0; k < lo->body->n; k++) {
        const Let *let = lo->body->lets[k];
        bool map = op_info[let->op].kind == KIND_MAP && is_noted(let->res[0], &origins);
        cost += map ? op_info[let->op].cost : 0;
    }
    return cost;
}

/* Is v computed of a part that a block has made?  That has no other elements. */
static bool
reads_part(Lower *lo, const Value *v)
{
    Map origins = {0};
    bool part = false;
    note_origins(lo, v, &origins);
    for (int k = 0; k < lo->body->n; k++) {
        const Let *let = lo->body->lets[k];
        for (int j = 0; j < let->nargs && is_noted(let->res[0], &origins); j++) {
            const Value *leaf = value_is_const(let->args[j]) ? NULL : lo->leaf[let->args[j]->id];
            part |= leaf && lower_is_part(lo, leaf);
        }
    }
    return part;
}

bool
block_is_plain(Lower *lo, const Value *v, int *cost)
{
    if (reads_part(lo, v)) {
        return false;
    }
    Output output = output_of(lo, v, NULL);
    Group g = {.noutputs = 1, .nfull = 1, .outputs = &output, .rank = v->type->rank, .part = true};
    Probe probe;
    for (int ax = 0; ax < g.rank; ax++) {
        g.start[ax] = dim_int(lo->cx, 0);
        g.dims[ax] = v->type->dims[ax];
    }
    Shape s = group_shape(lo, &g);
    group_probe(lo, &g, &s, &probe);
    *cost = cost_of(lo, v);
    return !probe.contract && !probe.nsites && !probe.nscans && !probe.own_loops &&
           probe.cut == DIM_NONE;
}

void
block_compute(Lower *lo, const Value *v, const Dim *dims, const Filled *panels)
{
    Lower saved = *lo;
    Output output = output_of(lo, v, NULL);
    Group g = {.noutputs = 1, .nfull = 1, .outputs = &output, .rank = v->type->rank, .part = true};
    int rank = panels->buffer->type->rank;
    Order order = {.axis = {rank - 2, rank - 1}};
    memcpy(g.start, panels->start, (size_t)g.rank * sizeof *g.start);
    memcpy(g.dims, dims, (size_t)g.rank * sizeof *dims);
    for (int k = 2; k < rank; k++) {
        order.axis[k] = rank - 1 - k;
    }
    if (adjacent_axis(lo, &g) == panels->term) {
        panels->buffer->strides = group_strides(lo, panels->buffer->type, &order);
    }
    output.buffer = panels->buffer;
    lo->filled = panels;
    lower_group(lo, &g);
    lo->filled = NULL;
    lo->probe = saved.probe;
    lo->nests = saved.nests;
    lo->outer = saved.outer;
    lo->column = saved.column;
    lo->row = saved.row;
}

/* ---- the epilogue of a contraction ---- */

/* Follows v to the last elementwise value that is computed of it alone.  A block stores that value
 * and not the sums. */
const Value *
block_epilogue(const Lower *lo, const Value *v)
{
    const Let *user = lo->user[v->id].only;
    while (user && op_info[user->op].kind == KIND_MAP &&
           type_same_shape(user->res[0]->type, v->type) && !lo->user[user->res[0]->id].result) {
        v = user->res[0];
        user = lo->user[v->id].only;
    }
    return v;
}

/* ---- blocks ---- */

/* The axes of a group that its blocks run over. */
typedef struct {
    int n, batches, cut; /* all axes; the batch axes, which come first; the axis that is cut */
    Dim name[MAX_RANK], extent[MAX_RANK];
    bool passed; /* from one contraction to another, and no reduction wants rows */
    int64_t row; /* elements of the longest row that a step passes on */
    int64_t rows; /* rows of a block */
} Blocks;

/* Do both operands have the axis?  Then it is a batch axis: each of its elements is a product. */
static bool
is_batch(Lower *lo, const Probe *probe, Dim name)
{
    const Contraction *c = let_contraction(probe->contract);
    bool batch = false;
    for (int k = 0; k < c->nout; k++) {
        batch |= letter_class(c, c->out[k]) == LETTER_OF_BOTH &&
                 dim_uses(lo->cx, probe->contract_at[k], name);
    }
    return batch;
}

/* Puts batch axes first, so that a block has the rows of one product only. */
static void
sort_rows(Lower *lo, const Probe *probe, Blocks *b)
{
    Dim sorted[MAX_RANK];
    int n = 0;
    for (int rows = 0; rows < 2; rows++) {
        for (int k = 0; k < b->n; k++) {
            if (is_batch(lo, probe, b->name[k]) != rows) {
                sorted[n++] = b->name[k];
            }
        }
        b->batches = rows ? b->batches : n;
    }
    memcpy(b->name, sorted, (size_t)n * sizeof *sorted);
}

/* Finds the axes of the group that number the rows: those of the positions of its reductions or, if
 * there are no reductions, those of the row operand. */
static void
find_rows(Lower *lo, const Shape *s, const Probe *probe, Blocks *b)
{
    for (int k = 0; k < s->nall && probe->nsites; k++) {
        b->name[b->n] = s->all[k];
        b->n += sites_use(lo->cx, probe, s->all[k]);
    }
    for (int k = 0; k < probe->nsites; k++) {
        int64_t row = dims_most(lo->cx, probe->sites[k].nown, probe->sites[k].extent);
        b->row = row > b->row ? row : b->row;
    }
    if (!probe->nsites) {
        b->n = contract_rows(lo, s, probe, b->name, &b->row);
        b->passed = true;
    }
    sort_rows(lo, probe, b);
    for (int k = 0; k < b->n; k++) {
        b->extent[k] = dim_extent(lo->cx, b->name[k]);
    }
}

static int64_t
most_rows(const Blocks *b)
{
    int64_t rows = b->row >= DIM_INF ? DLC_PRODUCT_BLOCK_ANY
                                     : DLC_PRODUCT_BLOCK_ROOM / (b->row + 1);
    rows = rows > COST_BLOCK ? COST_BLOCK : rows - rows % MICRO_MOST_ROWS;
    return rows < MICRO_MOST_ROWS ? MICRO_MOST_ROWS : rows;
}

/* A lower bound of the extent of loop k over rows.  For rows that one contraction passes on to
 * another, it is the least extent in typical programs, as in fusion/rows.c. */
static int64_t
least_extent(Cx *cx, const Blocks *b, int k)
{
    int64_t least = b->passed ? dim_typical_least(cx, b->extent[k]) : 0;
    return least > 1 ? least : extent_least(cx, b->extent[k]);
}

/* Cuts the innermost axis that, together with the axes inside it, has more than half a block of
 * `most` rows.  A small number of blocks is made even, so that two threads get equal shares.
 * Returns a lower bound of the number of blocks; a number of batches that is a symbol counts as a
 * typical one. */
static int64_t
cut_rows(Cx *cx, Blocks *b, int64_t most)
{
    int64_t inner = 1, n, tasks, outer = 1;
    b->cut = b->n - 1;
    while (b->cut >= 0 && dim_is_int(cx, b->extent[b->cut], &n) && inner * n <= most / 2) {
        inner *= n > 1 ? n : 1;
        b->cut--;
    }
    if (b->cut < 0) {
        return 0;
    }
    int64_t extent = least_extent(cx, b, b->cut);
    most = most / inner;
    for (int k = 0; k < b->cut && outer < DLC_FEW_BLOCKS; k++) {
        int64_t usual = k < b->batches ? dim_typical(cx, b->extent[k]) : 1,
                more = usual > 1 ? usual : least_extent(cx, b, k);
        outer = more < DLC_FEW_BLOCKS ? outer * more : DLC_FEW_BLOCKS;
    }
    tasks = (extent + most - 1) / most;
    b->rows = most;
    if (dim_is_int(cx, b->extent[b->cut], &n)) {
        tasks += tasks > 1 && tasks * outer % 2 && tasks * outer < DLC_FEW_BLOCKS;
        b->rows = (n + tasks - 1) / tasks;
    }
    return tasks * outer;
}

/* Halves the blocks, down to one tile, until there are enough; false: there are still too few. */
static bool
find_blocks(Cx *cx, Blocks *b)
{
    int64_t most = most_rows(b);
    while (b->n && cut_rows(cx, b, most) < COST_BLOCKS && most > MICRO_MOST_ROWS) {
        most = most / 2 > MICRO_MOST_ROWS ? most / 2 : MICRO_MOST_ROWS;
    }
    return b->n && cut_rows(cx, b, most) >= COST_BLOCKS;
}

/* Opens the loops over the blocks. *part becomes the part of the group that one block computes. */
static void
open_blocks(Lower *lo, const Blocks *b, const Shape *s, Group *part)
{
    Cx *cx = lo->cx;
    Dim start[MAX_RANK], dims[MAX_RANK], rows = dim_int(cx, b->rows), one = dim_int(cx, 1);
    for (int k = 0; k <= b->cut; k++) {
        bool cut = k == b->cut;
        Dim n = cut ? extent_ceiling(cx, b->extent[k], rows) : b->extent[k];
        Dim i = builder_open(&lo->out, cut ? "r" : "i", n);
        start[k] = cut ? dim_mul(cx, rows, i) : i;
        dims[k] = cut ? dim_min(cx, rows, dim_sub(cx, b->extent[k], start[k])) : one;
        lo->block_extent = dims[k];
        lo->block_most = cut ? rows : one;
    }
    for (int ax = 0; ax < part->rank; ax++) {
        for (int k = 0; k <= b->cut; k++) {
            if (dim_uses(cx, s->idx[ax], b->name[k])) {
                part->start[ax] = dim_replace(cx, s->idx[ax], b->name[k], start[k]);
                part->dims[ax] = dims[k];
            }
        }
    }
}

bool
group_blocks(Lower *lo, Group *g, const Shape *s, const Probe *probe)
{
    Blocks b = {0};
    Group part = *g;
    if (lo->blocked || groups_of(lo, probe->contract) >= 0 || probe->nscans ||
        probe->interleaved_axis != DIM_NONE || probe->cut != DIM_NONE || probe->own_loops) {
        return false;
    }
    find_rows(lo, s, probe, &b);
    if (!find_blocks(lo->cx, &b) || !fuel_spend(lo->cx)) {
        return false;
    }
    open_blocks(lo, &b, s, &part);
    lo->blocked = true;
    lo->block_depth = lo->out.depth;
    bounds_find(lo);
    lower_group(lo, &part);
    bounds_forget(lo);
    lo->blocked = false;
    lo->block_depth = 0;
    while (lo->nreplaced > 0) {
        const Replaced *last = &lo->replaced[--lo->nreplaced];
        *last->leaf = last->before;
    }
    g->noutputs = part.noutputs;
    builder_close_all(&lo->out, b.cut + 1);
    return true;
}
