/* Channels: what is grouped is computed whole, where the channels are innermost in memory.
 *
 * What:     a norm of groups reads its image x: [N, C, H, W] as [N, G, C/G, H, W].  Where C is the
 *           innermost axis in memory, this pass
 *           - computes elementwise operations on the grouped shape on the whole one, and groups
 *             their results;
 *           - factors a reduction over the channels of a group and other axes into two: one over
 *             the other axes, which leaves a number for each channel, and one over the channels;
 *           - makes a reduction of a reshape one of what was reshaped.
 *           Where a group is a row in memory, what follows the norm elementwise is computed in the
 *           shape of the groups, so that it can stand in the norm's kernel.
 * Requires  a verified graph;
 * and ensures: the same values; those of factored reductions of floats up to the order of their
 *           terms (docs/bits.md).  What has strides given stays as it is, with what it is computed
 *           from elementwise; so does what is reduced over groups, or over their channels, alone.
 * How:      one walk forwards.  A let reads a grouped value if an operand is a reshape; the reshape
 *           is cut into segments, the least runs of axes with as many elements on both sides.
 *           O(lets * axes), and a walk to the tensors in memory for each reshape.
 * Why not   factor everywhere: where memory runs along the image, all elements of a group are one
 *           row, and the norm reads it from the cache again.
 * Why not   in lowering: the elementwise part would still have the axes G and C/G, whose loops
 *           cannot be one while an operand is of a group.
 * Example:  sum(reshape x to [N, 8, 3, H, W], axes 2 3 4) of channels last is
 *           sum(reshape sum(x, axes 2 3) to [N, 8, 3], axis 2): vectors run along 24 channels, and
 *           not along 3.  Halide calls this rfactor.
 */
#include "channels.h"
#include "fusion/group.h"

/* A reshape of a value whose channels are innermost in memory. */
typedef struct {
    Value *whole;
    const Type *type;           /* of the reshape */
    Segment segments[MAX_RANK];
    int n, channels;            /* the segment of the channels */
} Grouped;

typedef struct {
    const Type **types;         /* with one dtype: equal shapes are the same pointer */
    int n;
} Shapes;

typedef struct {
    Cx *cx;
    Build *b;
    Value **map;                /* by old Value.id */
    bool *laid; /* ...: it, or a value computed from it elementwise, has strides */
    Innermost innermost; /* of new values */
    Shapes grouped; /* shapes that group innermost channels */
    Shapes others; /* of the old function: not reduced along their last axes only */
    Rows rows;
} Channels;

/* ---- shapes that were seen ---- */

static bool
has_shape(Cx *cx, const Shapes *s, const Type *t)
{
    const Type *shape = s->n ? type_with(cx, t, s->types[0]->dtype) : t;
    bool found = false;
    for (int k = 0; k < s->n && !found; k++) {
        found = s->types[k] == shape;
    }
    return found;
}

static void
add_shape(Cx *cx, Shapes *s, const Type *t)
{
    if (!has_shape(cx, s, t)) {
        s->types = cx_grow(cx, s->types, s->n, sizeof *s->types);
        s->types[s->n] = s->n ? type_with(cx, t, s->types[0]->dtype) : t;
        s->n++;
    }
}

/* ---- what the old function says ---- */

/* Notes the shapes with other reductions.  A softmax over groups, or over the channels of each, has
 * one domain: all of it stays in its shape. */
static void
find_others(Channels *c, const Fn *fn)
{
    for (int k = 0; k < fn->body->n; k++) {
        const Let *let = fn->body->lets[k];
        if (op_info[let->op].kind == KIND_RED && !reduces_last(let, 1)) {
            add_shape(c->cx, &c->others, let->args[0]->type);
        }
    }
}

/* Finds values that must keep their shape.  A value with given strides is stored with them, and the
 * values that it is computed from elementwise keep their shape too, so that they are in one kernel
 * with it. */
static void
find_laid(Channels *c, const Fn *fn)
{
    for (int k = fn->body->n - 1; k >= 0; k--) {
        const Let *let = fn->body->lets[k];
        const Value *v = let->nres ? let->res[0] : NULL;
        if (!v || op_info[let->op].kind != KIND_MAP || !(v->strides || c->laid[v->id])) {
            continue;
        }
        c->laid[v->id] = true;
        for (int j = 0; j < let->nargs; j++) {
            if (!value_is_const(let->args[j])) {
                c->laid[let->args[j]->id] = true;
            }
        }
    }
}

/* ---- grouped values ---- */

/* Is v a reshape of a value whose channels are innermost, are a known number and are not the last
 * axis?  If their number is a symbol, the group of a channel is not known. */
static bool
is_grouped(Channels *c, const Value *v, Grouped *g)
{
    const Let *let = value_is_const(v) ? NULL : v->def;
    if (!let || let->op != OP_reshape) {
        return false;
    }
    *g = (Grouped){.whole = let->args[0], .type = v->type, .channels = AXIS_UNKNOWN};
    int axis = innermost_axis(&c->innermost, g->whole);
    int64_t channels;
    if (axis == AXIS_UNKNOWN || axis == g->whole->type->rank - 1 ||
        !dim_is_int(c->cx, g->whole->type->dims[axis], &channels)) {
        return false;
    }
    g->n = reshape_segments(c->cx, g->whole->type, v->type, g->segments);
    for (int k = 0; k < g->n; k++) {
        g->channels = g->segments[k].from == axis && g->segments[k].nfrom == 1 ? k : g->channels;
    }
    return g->channels != AXIS_UNKNOWN;
}

/* Are the channels two axes, none of them of one element? */
static bool
cuts_channels(Cx *cx, const Grouped *g)
{
    const Segment *s = &g->segments[g->channels];
    return s->nto == 2 && !dim_is(cx, g->type->dims[s->to], 1) &&
           !dim_is(cx, g->type->dims[s->to + 1], 1);
}

/* ---- elementwise operations ---- */

/* Axes of the small value of an expansion, by axis of the whole: which one it is, or none. */
static void
axes_under(const Let *expand, int *under)
{
    const Attr *to = let_attr(expand, "to");
    for (int ax = 0; ax < MAX_RANK; ax++) {
        under[ax] = AXIS_UNKNOWN;
    }
    for (int k = 0; k < to->n; k++) {
        under[to->axes[k]] = k;
    }
}

/* Counts the axes of the segment that an expanded value has, without those of one element. */
static void
count_axes(Cx *cx, const Grouped *g, const Segment *s, const int *under, int *have, int *lack)
{
    *have = *lack = 0;
    for (int ax = s->to; ax < s->to + s->nto; ax++) {
        bool one = dim_is(cx, g->type->dims[ax], 1);
        *have += !one && under[ax] != AXIS_UNKNOWN;
        *lack += !one && under[ax] == AXIS_UNKNOWN;
    }
}

/* An expansion in the whole shape: a value for each group becomes a value for each of its
 * channels. */
typedef struct {
    int nin, inner[MAX_RANK]; /* axes of the small value, by axis of the grouped one */
    int ngrouped, nout, outer[MAX_RANK];
    Dim grouped[MAX_RANK], dims[MAX_RANK];
} Expansion;

/* false: it has a part of the axes of another segment, or is known of each pixel. */
static bool
expansion_of(Channels *c, const Grouped *g, const Let *expand, Expansion *e)
{
    int under[MAX_RANK], parts = 0, pixels = 0;
    *e = (Expansion){.nin = 0};
    axes_under(expand, under);
    for (int k = 0; k < g->n; k++) {
        const Segment *s = &g->segments[k];
        int have, lack;
        count_axes(c->cx, g, s, under, &have, &lack);
        parts += have && lack;
        pixels += have && k > g->channels;
        if (have && lack && k != g->channels) {
            return false;
        }
        for (int ax = s->to; ax < s->to + s->nto; ax++) {
            if (under[ax] != AXIS_UNKNOWN) {
                e->inner[e->nin++] = e->ngrouped;
            }
            if (under[ax] != AXIS_UNKNOWN || have) {
                e->grouped[e->ngrouped++] = g->type->dims[ax];
            }
        }
        for (int ax = s->from; ax < s->from + s->nfrom && have; ax++) {
            e->dims[e->nout] = g->whole->type->dims[ax];
            e->outer[e->nout++] = ax;
        }
    }
    return !(parts && pixels);
}

static bool
has_whole(Channels *c, const Grouped *g, const Value *v)
{
    const Let *let = value_is_const(v) ? NULL : v->def;
    Expansion e;
    return value_is_const(v) || (let && let->op == OP_reshape) ||
           (let && let->op == OP_expand && expansion_of(c, g, let, &e));
}

/* An operand that has one, in the whole shape. */
static Value *
operand_whole(Channels *c, const Grouped *g, Value *v)
{
    const Type *whole = g->whole->type;
    Expansion e;
    if (value_is_const(v)) {
        return v;
    }
    if (v->def->op == OP_reshape) {
        return build_reshape(c->b, v, whole->rank, whole->dims);
    }
    expansion_of(c, g, v->def, &e);
    v = build_expand(c->b, v->def->args[0], e.ngrouped, e.grouped, e.inner);
    v = build_reshape(c->b, v, e.nout, e.dims);
    return build_expand(c->b, v, whole->rank, whole->dims, e.outer);
}

static Value *
map_whole(Channels *c, const Let *let, Value *const *args)
{
    Grouped g;
    Value *moved[3] = {NULL, NULL, NULL};
    const Type *t = let->res[0]->type;
    bool any = false;
    for (int k = 0; k < let->nargs && !any; k++) {
        any = is_grouped(c, args[k], &g) && !has_shape(c->cx, &c->others, g.type);
    }
    for (int k = 0; k < let->nargs && any; k++) {
        any = has_whole(c, &g, args[k]);
    }
    if (!any || !fuel_spend(c->cx)) {
        return NULL;
    }
    for (int k = 0; k < let->nargs; k++) {
        moved[k] = operand_whole(c, &g, args[k]);
    }
    Value *v = build_map_like(c->b, let, moved);
    return build_reshape(c->b, v, t->rank, t->dims);
}

/* ---- what is known of channels alone ---- */

static void
note_grouped_shape(Channels *c, const Value *v)
{
    Grouped g;
    if (is_grouped(c, v, &g) && cuts_channels(c->cx, &g)) {
        add_shape(c->cx, &c->grouped, v->type);
    }
}

/* Is the value a number or an expansion? */
static bool
is_expanded(const Value *v)
{
    return value_is_const(v) || (v->def && v->def->op == OP_expand);
}

/* An expansion along the axes that are marked only. */
static Value *
expand_along(Channels *c, Value *v, const int *place, int n, const Dim *dims)
{
    int to[MAX_RANK];
    if (value_is_const(v)) {
        return v;
    }
    const Attr *old = let_attr(v->def, "to");
    for (int k = 0; k < old->n; k++) {
        to[k] = place[old->axes[k]];
    }
    return build_expand(c->b, v->def->args[0], n, dims, to);
}

/* An elementwise operation on expansions along different axes, a scale of channels times a
 * deviation of groups, is computed for each channel of an image and then expanded. */
static Value *
map_of_channels(Channels *c, const Let *let, Value *const *args)
{
    const Type *t = let->res[0]->type;
    bool expands = has_shape(c->cx, &c->grouped, t) && !has_shape(c->cx, &c->others, t);
    int axes[MAX_RANK], place[MAX_RANK], n = 0, wide = 0;
    Dim dims[MAX_RANK];
    for (int k = 0; k < let->nargs && expands; k++) {
        expands = is_expanded(args[k]);
    }
    for (int ax = 0; ax < t->rank && expands; ax++) {
        bool has = false;
        for (int k = 0; k < let->nargs; k++) {
            has |= !value_is_const(args[k]) && attr_has_axis(let_attr(args[k]->def, "to"), ax);
        }
        wide += !has && !dim_is(c->cx, t->dims[ax], 1);
        if (has) {
            place[ax] = n;
            dims[n] = t->dims[ax];
            axes[n++] = ax;
        }
    }
    if (!expands || !wide || !fuel_spend(c->cx)) {
        return NULL;
    }
    Value *small[3] = {NULL, NULL, NULL};
    for (int k = 0; k < let->nargs; k++) {
        small[k] = expand_along(c, args[k], place, n, dims);
    }
    return build_expand(c->b, build_map_like(c->b, let, small), t->rank, t->dims, axes);
}

/* ---- reductions ---- */

/* The axes of the whole value that correspond to the reduced axes of the grouped one, without the
 * channels of a group.  Returns their number; AXIS_UNKNOWN: a part of another segment is reduced.
 * *inside: among the channels, only those of a group are reduced. */
static int
reduced_whole(Cx *cx, const Grouped *g, const Let *red, int *axes, bool *inside)
{
    const Attr *reduced = let_attr(red, "axes");
    int n = 0;
    *inside = false;
    for (int k = 0; k < g->n; k++) {
        const Segment *s = &g->segments[k];
        int gone = 0, kept = 0;
        for (int ax = s->to; ax < s->to + s->nto; ax++) {
            bool one = dim_is(cx, g->type->dims[ax], 1), is_reduced = attr_has_axis(reduced, ax);
            gone += !one && is_reduced;
            kept += !one && !is_reduced;
        }
        if (gone && kept) {
            *inside = k == g->channels && cuts_channels(cx, g) && attr_has_axis(reduced, s->to + 1);
            if (!*inside) {
                return AXIS_UNKNOWN;
            }
        }
        for (int ax = s->from; ax < s->from + s->nfrom && gone && !kept; ax++) {
            axes[n++] = ax;
        }
    }
    return n;
}

/* Reduces a value with a number for each channel over the channels of each group. */
static Value *
reduce_channels(Channels *c, const Grouped *g, const Let *red, Value *v)
{
    const Segment *s = &g->segments[g->channels];
    Dim dims[MAX_RANK];
    int n = 0, axis = 0;
    for (int ax = 0; ax < g->type->rank; ax++) {
        axis = ax == s->to + 1 ? n : axis;
        if (ax == s->to + 1 || !attr_has_axis(let_attr(red, "axes"), ax)) {
            dims[n++] = g->type->dims[ax];
        }
    }
    return build_red(c->b, red->op, build_reshape(c->b, v, n, dims), 1, &axis);
}

static Value *
reduce_whole(Channels *c, const Let *let, Value *v)
{
    Grouped g;
    const Type *t = let->res[0]->type;
    int axes[MAX_RANK];
    bool inside;
    if (op_info[let->op].rule == RULE_INDEX || !is_grouped(c, v, &g)) {
        return NULL;
    }
    int n = reduced_whole(c->cx, &g, let, axes, &inside);
    const Segment *s = &g.segments[g.channels];
    if (n <= 0 || (inside && dim_range(c->cx, g.type->dims[s->to + 1]).hi > COST_GROUP) ||
        !fuel_spend(c->cx)) {
        return NULL;
    }
    Dtype compute = dtype_info[v->type->dtype].compute;
    v = inside ? build_cast(c->b, g.whole, compute) : g.whole;
    v = build_red(c->b, let->op, v, n, axes);
    v = inside ? reduce_channels(c, &g, let, v) : v;
    return build_reshape(c->b, build_cast(c->b, v, t->dtype), t->rank, t->dims);
}

/* Replaces a reduction over whole axes of a reshape of rows by a reduction of the rows. */
static Value *
reduce_in_rows(Channels *c, const Let *let, const Value *v)
{
    const Type *t = let->res[0]->type;
    Value *from = before_reshape(&c->rows, v);
    int axes[MAX_RANK];
    bool inside;
    if (!from || op_info[let->op].rule == RULE_INDEX) {
        return NULL;
    }
    Grouped g = {.whole = from, .type = v->type, .channels = AXIS_UNKNOWN};
    g.n = reshape_segments(c->cx, from->type, v->type, g.segments);
    int n = reduced_whole(c->cx, &g, let, axes, &inside);
    return n > 0 && fuel_spend(c->cx)
               ? build_reshape(c->b, build_red(c->b, let->op, from, n, axes), t->rank, t->dims)
               : NULL;
}

/* ---- the pass ---- */

static void
channels_let(Channels *c, const Let *let)
{
    Value **args = cx_alloc(c->cx, (size_t)(let->nargs + 3) * sizeof *args), *v = NULL;
    OpKind kind = op_info[let->op].kind;
    build_at(c->b, let->loc);
    for (int k = 0; k < let->nargs; k++) {
        Value *arg = let->args[k];
        args[k] = !value_is_const(arg) && c->map[arg->id] ? c->map[arg->id] : arg;
    }
    if (kind == KIND_MAP && !c->laid[let->res[0]->id]) {
        v = map_whole(c, let, args);
        v = v ? v : map_of_channels(c, let, args);
        v = v ? v : map_in_rows(&c->rows, let, args);
    } else if (kind == KIND_RED) {
        v = reduce_whole(c, let, args[0]);
        v = v ? v : reduce_in_rows(c, let, args[0]);
    }
    if (v) {
        c->map[let->res[0]->id] = v;
    } else {
        build_again(c->b, let, c->map);
    }
    if (let->op == OP_reshape) {
        note_grouped_shape(c, c->map[let->res[0]->id]);
    }
    note_rows(&c->rows);
    for (int k = 0; k < let->nres; k++) { /* so that no walk is deep */
        innermost_axis(&c->innermost, c->map[let->res[k]->id]);
    }
}

Fn *
pass_channels(Fn *fn)
{
    Channels c = {.cx = fn->cx, .innermost = {.cx = fn->cx}};
    Fn *out = rebuild_open(fn, fn->stage, &c.map);
    c.b = build_new(out);
    c.rows = (Rows){.cx = fn->cx, .b = c.b};
    c.laid = cx_alloc(fn->cx, ((size_t)fn->nvalues + 1) * sizeof *c.laid);
    find_others(&c, fn);
    find_laid(&c, fn);
    for (int k = 0; k < fn->body->n; k++) {
        channels_let(&c, fn->body->lets[k]);
    }
    return rebuild_close(fn, out, c.map);
}
