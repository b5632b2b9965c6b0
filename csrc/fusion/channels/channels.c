/* Channels: what is grouped is computed whole, where the channels are innermost in memory.
 *
 * What:     a norm of groups reads its image x: [N, C, H, W] as [N, G, C/G, H, W].  Where C is the
 *           innermost axis in memory, this pass
 *           - computes elementwise operations on the grouped shape on the whole one, and groups
 *             their results;
 *           - factors a reduction over the channels of a group and other axes into two: one over
 *             the other axes, which leaves a number for each channel, and one over the channels;
 *           - reduces what is only reshaped in its own shape.
 *           Where a group is a row in memory, what follows the norm elementwise is computed in the
 *           shape of the groups, so that it can stand in the norm's kernel.
 * Requires  a verified graph;
 * and ensures: the same values; those of factored reductions of floats up to the order of their
 *           terms (docs/bits.md).
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
    const Type **types;
    int n;
} Shapes;

typedef struct {
    Cx *cx;
    Build *b;
    Value **map;                /* by old Value.id */
    Innermost innermost;        /* of new values */
    Shapes grouped;             /* in which channels are grouped that are innermost */
    Shapes rows;                /* whose last axes are reduced: a group is a row */
} Channels;

/* ---- shapes that were seen ---- */

static bool
has_shape(const Shapes *s, const Type *t)
{
    bool found = false;
    for (int k = 0; k < s->n && !found; k++) {
        found = type_same_shape(s->types[k], t);
    }
    return found;
}

static void
add_shape(Channels *c, Shapes *s, const Type *t)
{
    if (!has_shape(s, t)) {
        s->types = cx_grow(c->cx, s->types, s->n, sizeof *s->types);
        s->types[s->n++] = t;
    }
}

/* ---- grouped values ---- */

/* Is v a reshape of a value with innermost channels, so and so many, that are not its last axis?
 * Where their number is a symbol, it is not known which group a channel is in. */
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

/* How many axes of the segment an expanded value has; those of one element do not count. */
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

/* An expansion in the whole shape: what is known of a group becomes what is known of each of its
 * channels.  NULL: it has a part of the axes of another segment. */
static Value *
expand_whole(Channels *c, const Grouped *g, const Let *expand)
{
    const Type *whole = g->whole->type;
    Dim grouped[MAX_RANK], dims[MAX_RANK];
    int under[MAX_RANK], inner[MAX_RANK], outer[MAX_RANK];
    int nin = 0, ngrouped = 0, nout = 0;
    axes_under(expand, under);
    for (int k = 0; k < g->n; k++) {
        const Segment *s = &g->segments[k];
        int have, lack;
        count_axes(c->cx, g, s, under, &have, &lack);
        if (have && lack && k != g->channels) {
            return NULL;
        }
        for (int ax = s->to; ax < s->to + s->nto; ax++) {
            if (under[ax] != AXIS_UNKNOWN) {
                inner[nin++] = ngrouped;
            }
            if (under[ax] != AXIS_UNKNOWN || have) {
                grouped[ngrouped++] = g->type->dims[ax];
            }
        }
        for (int ax = s->from; ax < s->from + s->nfrom && have; ax++) {
            dims[nout] = whole->dims[ax];
            outer[nout++] = ax;
        }
    }
    Value *v = build_expand(c->b, expand->args[0], ngrouped, grouped, inner);
    v = build_reshape(c->b, v, nout, dims);
    return build_expand(c->b, v, whole->rank, whole->dims, outer);
}

static Value *
operand_whole(Channels *c, const Grouped *g, Value *v)
{
    const Type *whole = g->whole->type;
    const Let *let = value_is_const(v) ? NULL : v->def;
    return value_is_const(v)              ? v
           : let && let->op == OP_reshape ? build_reshape(c->b, v, whole->rank, whole->dims)
           : let && let->op == OP_expand  ? expand_whole(c, g, let)
                                          : NULL;
}

static Value *
build_op(Channels *c, const Let *let, Value *const *args)
{
    return let->op == OP_cast ? build_cast(c->b, args[0], let->res[0]->type->dtype)
                              : build_map(c->b, let->op, args[0], args[1], args[2]);
}

static Value *
map_whole(Channels *c, const Let *let, Value *const *args)
{
    Grouped g;
    Value *moved[3] = {NULL, NULL, NULL};
    const Type *t = let->res[0]->type;
    bool any = false;
    for (int k = 0; k < let->nargs && !any; k++) {
        any = is_grouped(c, args[k], &g);
    }
    for (int k = 0; k < let->nargs && any; k++) {
        moved[k] = operand_whole(c, &g, args[k]);
        any = moved[k] != NULL;
    }
    if (!any || !fuel_spend(c->cx)) {
        return NULL;
    }
    Value *v = build_op(c, let, moved);
    return build_reshape(c->b, v, t->rank, t->dims);
}

/* ---- what is known of channels alone ---- */

static void
note_grouped_shape(Channels *c, const Value *v)
{
    Grouped g;
    if (is_grouped(c, v, &g) && cuts_channels(c->cx, &g)) {
        add_shape(c, &c->grouped, v->type);
    }
}

/* Marks the axes that an operand is not expanded along; false: it is no expansion. */
static bool
mark_axes(const Value *v, bool *has)
{
    if (value_is_const(v)) {
        return true;
    }
    const Let *let = v->def;
    if (!let || let->op != OP_expand) {
        return false;
    }
    const Attr *to = let_attr(let, "to");
    for (int k = 0; k < to->n; k++) {
        has[to->axes[k]] = true;
    }
    return true;
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
    bool has[MAX_RANK] = {false}, expands = has_shape(&c->grouped, t);
    int axes[MAX_RANK], place[MAX_RANK], n = 0, wide = 0;
    Dim dims[MAX_RANK];
    for (int k = 0; k < let->nargs && expands; k++) {
        expands = mark_axes(args[k], has);
    }
    for (int ax = 0; ax < t->rank; ax++) {
        wide += !has[ax] && !dim_is(c->cx, t->dims[ax], 1);
        if (has[ax]) {
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
    return build_expand(c->b, build_op(c, let, small), t->rank, t->dims, axes);
}

/* ---- rows of groups ---- */

/* Notes the shape of what is reduced along its last axes, two at least. */
static void
note_rows(Channels *c, const Let *red, const Type *t)
{
    const Attr *axes = let_attr(red, "axes");
    bool last = axes->n > 1 && axes->n < t->rank;
    for (int k = 0; k < axes->n && last; k++) {
        last = axes->axes[k] == t->rank - axes->n + k;
    }
    if (last) {
        add_shape(c, &c->rows, t);
    }
}

/* What v was in the shape of rows before it was reshaped; NULL: it was none, or is no result of an
 * elementwise operation. */
static Value *
before_reshape(const Channels *c, const Value *v)
{
    Value *from = v->def && v->def->op == OP_reshape ? v->def->args[0] : NULL;
    bool computed = from && from->def && op_info[from->def->op].kind == KIND_MAP;
    return computed && has_shape(&c->rows, from->type) ? from : NULL;
}

/* An activation of what was normalised in rows is computed in these rows: while they are in the
 * cache, and in one kernel with the norm. */
static Value *
map_in_rows(Channels *c, const Let *let, Value *const *args)
{
    Value *moved[3] = {NULL, NULL, NULL};
    const Type *rows = NULL, *t = let->res[0]->type;
    for (int k = 0; k < let->nargs; k++) {
        moved[k] = value_is_const(args[k]) ? args[k] : before_reshape(c, args[k]);
        if (!moved[k]) {
            return NULL;
        }
        if (!value_is_const(moved[k])) {
            if (rows && !type_same_shape(rows, moved[k]->type)) {
                return NULL;
            }
            rows = moved[k]->type;
        }
    }
    return rows && fuel_spend(c->cx)
               ? build_reshape(c->b, build_op(c, let, moved), t->rank, t->dims)
               : NULL;
}

/* ---- reductions ---- */

static bool
is_reduced(const Let *red, int ax)
{
    const Attr *axes = let_attr(red, "axes");
    bool reduced = false;
    for (int k = 0; k < axes->n; k++) {
        reduced |= axes->axes[k] == ax;
    }
    return reduced;
}

/* The axes of the whole value that are reduced when those of the grouped one are, without the
 * channels of a group.  Returns how many; AXIS_UNKNOWN: a part of another segment is reduced.
 * *inside: of the channels only those of a group are. */
static int
reduced_whole(Cx *cx, const Grouped *g, const Let *red, int *axes, bool *inside)
{
    int n = 0;
    *inside = false;
    for (int k = 0; k < g->n; k++) {
        const Segment *s = &g->segments[k];
        int gone = 0, kept = 0;
        for (int ax = s->to; ax < s->to + s->nto; ax++) {
            bool one = dim_is(cx, g->type->dims[ax], 1);
            gone += !one && is_reduced(red, ax);
            kept += !one && !is_reduced(red, ax);
        }
        if (gone && kept) {
            *inside = k == g->channels && cuts_channels(cx, g) && is_reduced(red, s->to + 1);
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

/* The reduction over the channels of each group, of a number for each channel. */
static Value *
reduce_channels(Channels *c, const Grouped *g, const Let *red, Value *v)
{
    const Segment *s = &g->segments[g->channels];
    Dim dims[MAX_RANK];
    int n = 0, axis = 0;
    for (int ax = 0; ax < g->type->rank; ax++) {
        axis = ax == s->to + 1 ? n : axis;
        if (ax == s->to + 1 || !is_reduced(red, ax)) {
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
    if (kind == KIND_MAP) {
        v = map_whole(c, let, args);
        v = v ? v : map_of_channels(c, let, args);
        v = v ? v : map_in_rows(c, let, args);
    } else if (kind == KIND_RED) {
        v = reduce_whole(c, let, args[0]);
        if (!v) {
            note_rows(c, let, args[0]->type);
        }
    }
    if (v) {
        c->map[let->res[0]->id] = v;
    } else {
        build_again(c->b, let, c->map);
    }
    if (let->op == OP_reshape) {
        note_grouped_shape(c, c->map[let->res[0]->id]);
    }
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
    for (int k = 0; k < fn->body->n; k++) {
        channels_let(&c, fn->body->lets[k]);
    }
    return rebuild_close(fn, out, c.map);
}
