/* Canonicalise: one form for what can be said in several.
 *
 * What:     rebuilds the graph through the folding, value-numbering builder, and moves views to
 *           where they cost least:
 *           - arithmetic on expanded values happens before the expansion;
 *           - but the parts of complex numbers in memory are taken after it: that costs no more
 *             than a load;
 *           - the parts of a view of a pair of parts are views of those;
 *           - arithmetic on what a cat interleaves happens before a reshape of it;
 *           - arithmetic on what is found at the same places happens before it is looked up there:
 *             a bilinear interpolation goes along each row once, not for each row that is made of
 *             it;
 *           - arithmetic between a reshape and the reshape back happens in the first shape;
 *           - arithmetic on images, and on sequences that a contraction made, happens before their
 *             channels move in front of the other axes, as do slices, padding, cats and gathers of
 *             them: in memory channels are innermost then;
 *           - amax and amin of an expanded value do not run along what only repeats;
 *           - a slice of a cat that interleaves its operands is that operand;
 *           - whether a complex number is shorter than a constant is asked of the square of its
 *             length, which needs no root.
 * Requires  a verified graph;
 * and ensures: the same values, bit for bit; no let computes more elements than before.  What is
 *           looked up later than before is in memory once more.
 * How:      one walk forwards; a rule looks at the operands a let has got in the new function, and
 *           rebuilds them through the builder.  Reshapes move only where a walk backwards has
 *           found that all readers end in a reshape to the old shape, so that the views cancel.
 *           O(lets).
 * Why not   move every view one way: a reshape between a value and its reduction would keep the
 *           two out of one kernel, and a transpose costs nothing where it is (the fuse pass looks
 *           through views).
 * Example:  cast(expand b) is expand(cast b): N casts and not B*N.
 */
#include "group.h"

#include <math.h>
#include <string.h>

typedef struct {
    const Fn *old;
    Build *b;
    Value **map;
    const Type **back; /* by old Value.id: the shape all readers reshape it to, or NULL */
    bool *differ; /* by old Value.id: the readers want different shapes */
    bool *waited; /* by old Value.id: it is now a gather from the value that it was computed from */
    bool *taken; /* by old Value.id: a call or the caller takes it, or a view of it */
    bool *late; /* by old Value.id: its channels move after the values that are computed from it */
} Rules;

static Value *
operand(const Rules *r, Value *v)
{
    return !value_is_const(v) && r->map[v->id] ? r->map[v->id] : v;
}

/* ---- arithmetic before expansion ---- */

/* The axes of value v, an expand, that are axes of the frame, also an expand of the same shape. */
static bool
frame_axes(const Let *v, const Let *frame, int *to)
{
    const Attr *mine = let_attr(v, "to"), *all = let_attr(frame, "to");
    for (int k = 0, j = 0; k < mine->n; k++, j++) {
        while (j < all->n && all->axes[j] != mine->axes[k]) {
            j++;
        }
        if (j == all->n) {
            return false;
        }
        to[k] = j;
    }
    return true;
}

/* The operand with the most axes before its expansion; NULL when one is not an expansion. */
static const Let *
find_frame(int n, Value *const *args)
{
    const Let *frame = NULL;
    for (int k = 0; k < n; k++) {
        if (value_is_const(args[k])) {
            continue;
        }
        const Let *def = args[k]->def;
        if (!def || def->op != OP_expand) {
            return NULL;
        }
        frame = frame && let_attr(frame, "to")->n >= let_attr(def, "to")->n ? frame : def;
    }
    return frame;
}

static Value *
map_before_expand(Rules *r, const Let *let, Value *const *args)
{
    const Let *frame = op_info[let->op].rule == RULE_PART ? NULL : find_frame(let->nargs, args);
    Value *small[3];
    int to[MAX_RANK];
    if (!frame) {
        return NULL;
    }
    const Type *t = frame->args[0]->type, *whole = frame->res[0]->type;
    for (int k = 0; k < let->nargs; k++) {
        small[k] = args[k];
        if (value_is_const(args[k])) {
            continue;
        }
        if (!frame_axes(args[k]->def, frame, to)) {
            return NULL;
        }
        small[k] = build_expand(r->b, args[k]->def->args[0], t->rank, t->dims, to);
    }
    if (!fuel_spend(r->old->cx)) {
        return NULL;
    }
    const Attr *axes = let_attr(frame, "to");
    return build_expand(r->b, build_map_like(r->b, let, small), whole->rank, whole->dims,
                        axes->axes);
}

/* ---- arithmetic before a reshape that is taken back ---- */

static void
note_wanted_shape(Rules *r, const Value *v, const Type *shape)
{
    if (!value_is_const(v)) {
        const Type **back = &r->back[v->id];
        r->differ[v->id] |= !shape || (*back && !type_same_shape(*back, shape));
        *back = shape;
    }
}

static void
find_reshapes(Rules *r)
{
    const Fn *fn = r->old;
    for (int k = 0; k < fn->body->nrets; k++) {
        note_wanted_shape(r, fn->body->rets[k], NULL);
    }
    for (int k = fn->body->n - 1; k >= 0; k--) {
        const Let *let = fn->body->lets[k];
        const Value *v = let->nres ? let->res[0] : NULL;
        bool map = op_info[let->op].kind == KIND_MAP;
        const Type *shape = let->op == OP_reshape      ? v->type
                            : map && !r->differ[v->id] ? r->back[v->id]
                                                       : NULL;
        for (int j = 0; j < let->nargs; j++) {
            note_wanted_shape(r, let->args[j], shape);
        }
    }
}

/* An operand in the other shape: a constant, an expanded scalar, a value that was reshaped from
 * that shape, or a value that is in dense memory anyway. */
static Value *
in_shape(Rules *r, Value *v, const Type *shape)
{
    if (value_is_const(v)) {
        return v;
    }
    const Let *def = v->def;
    if (def && def->op == OP_reshape && type_same_shape(def->args[0]->type, shape)) {
        return def->args[0];
    }
    if (def && def->op == OP_expand && def->args[0]->type->rank == 0) {
        return build_expand(r->b, def->args[0], shape->rank, shape->dims, NULL);
    }
    if ((!def || let_is_opaque(def)) && !v->strides) {
        return build_reshape(r->b, v, shape->rank, shape->dims);
    }
    return NULL;
}

static Value *
map_before_reshape(Rules *r, const Let *let, Value *const *args)
{
    const Value *old = let->res[0];
    const Type *shape = r->differ[old->id] ? NULL : r->back[old->id];
    Value *moved[3];
    bool any = false;
    for (int k = 0; k < let->nargs && shape; k++) {
        any |= args[k]->def && args[k]->def->op == OP_reshape;
        moved[k] = in_shape(r, args[k], shape);
        shape = moved[k] ? shape : NULL;
    }
    if (!shape || !any || !fuel_spend(r->old->cx)) {
        return NULL;
    }
    return build_reshape(r->b, build_map_like(r->b, let, moved), old->type->rank, old->type->dims);
}

/* ---- arithmetic before a reshape of a cat whose parts are interleaved ---- */

static Value *
map_before_interleaving(Rules *r, const Let *let, Value *const *args)
{
    Value *moved[3], *cat = NULL;
    for (int k = 0; k < let->nargs; k++) {
        const Let *def = value_is_const(args[k]) ? NULL : args[k]->def;
        const Let *from = def && def->op == OP_reshape ? def->args[0]->def : NULL;
        bool interleaved = from && let_interleaves(r->old->cx, from);
        if (!value_is_const(args[k]) && (cat || !interleaved)) {
            return NULL;
        }
        moved[k] = interleaved ? def->args[0] : args[k];
        cat = interleaved ? moved[k] : cat;
    }
    if (!cat || !fuel_spend(r->old->cx)) {
        return NULL;
    }
    const Type *t = let->res[0]->type;
    return build_reshape(r->b, build_map_like(r->b, let, moved), t->rank, t->dims);
}

/* ---- arithmetic before a gather ---- */

static const Let *
gather_of(const Value *v)
{
    const Let *def = value_is_const(v) ? NULL : v->def;
    return def && def->op == OP_gather && def->args[1]->type->rank == 1 ? def : NULL;
}

/* Do both look at the same places of tensors of one shape? */
static bool
same_places(const Let *a, const Let *b)
{
    return a->args[1] == b->args[1] && let_int(a, "axis") == let_int(b, "axis") &&
           let_int(a, "wrap") == let_int(b, "wrap") &&
           type_same_shape(a->args[0]->type, b->args[0]->type);
}

/* The operand before the gather, or one that is the same at all places of its axis; NULL:
 * neither. */
static Value *
operand_before_gather(Rules *r, const Let *gather, Value *v)
{
    const Let *own = gather_of(v), *def = value_is_const(v) ? NULL : v->def;
    const Type *t = gather->args[0]->type;
    if (value_is_const(v)) {
        return v;
    }
    if (own && same_places(own, gather)) {
        return own->args[0];
    }
    bool same = def && def->op == OP_expand;
    for (int k = 0; same && k < let_attr(def, "to")->n; k++) {
        same = let_attr(def, "to")->axes[k] != let_int(gather, "axis");
    }
    return same ? build_expand(r->b, def->args[0], t->rank, t->dims, let_attr(def, "to")->axes)
                : NULL;
}

/* May the gather for an old value be deferred?  Yes if it gathers from a gather along another axis,
 * or was deferred before. */
static bool
may_defer_gather(const Rules *r, const Value *old, const Let *gather)
{
    const Let *from = gather->args[0]->def;
    return (from && from->op == OP_gather) || r->waited[old->id];
}

/* Are there so many more positions than elements that deferring saves more than storing the
 * elements costs? */
static bool
repeats(Cx *cx, const Let *gather)
{
    Dim there = gather->args[0]->type->dims[let_int(gather, "axis")],
        places = gather->args[1]->type->dims[0];
    return dim_le(cx, dim_mul(cx, there, dim_int(cx, 3)), dim_mul(cx, places, dim_int(cx, 2)));
}

/* Defers the gathers of a let that combines two of them, or that continues from a deferred one. */
static Value *
map_before_gather(Rules *r, const Let *let, Value *const *args)
{
    const Let *gather = NULL;
    Value *moved[3];
    bool combines = false;
    for (int k = 0; k < let->nargs; k++) {
        const Let *own = gather_of(args[k]);
        if (own && may_defer_gather(r, let->args[k], own)) {
            combines |= (gather && own->args[0] != gather->args[0]) || r->waited[let->args[k]->id];
            gather = own;
        }
    }
    if (!combines || !repeats(r->old->cx, gather)) {
        return NULL;
    }
    for (int k = 0; k < let->nargs; k++) {
        moved[k] = operand_before_gather(r, gather, args[k]);
        if (!moved[k]) {
            return NULL;
        }
    }
    if (!fuel_spend(r->old->cx)) {
        return NULL;
    }
    r->waited[let->res[0]->id] = true;
    return build_gather(r->b, build_map_like(r->b, let, moved), gather->args[1],
                        (int)let_int(gather, "axis"), (int)let_int(gather, "wrap"));
}

/* ---- images before their channels move ---- */

static void
take(Rules *r, const Value *v)
{
    if (!value_is_const(v)) {
        r->taken[v->id] = true;
    }
}

/* Finds the values that calls or the caller take.  With such a value they take its layout, which is
 * that of its axes. */
static void
find_taken(Rules *r)
{
    const Block *body = r->old->body;
    for (int k = 0; k < body->nrets; k++) {
        take(r, body->rets[k]);
    }
    for (int k = body->n - 1; k >= 0; k--) {
        const Let *let = body->lets[k];
        bool view = op_info[let->op].kind == KIND_VIEW && r->taken[let->res[0]->id];
        for (int j = 0; (view || let_is_opaque(let)) && j < let->nargs; j++) {
            take(r, let->args[j]);
        }
    }
}

/* Is operand k, v in the new function, an image whose channels have moved from the last axis to the
 * second one?  Of a sequence that is a transposition, and it has channels if a contraction made
 * it. */
static bool
is_moved(const Rules *r, const Let *let, int k, const Value *v)
{
    const Let *def = value_is_const(v) ? NULL : v->def;
    if (!def || def->op != OP_permute || v->type->rank < 3) {
        return false;
    }
    const Let *of = def->args[0]->def;
    const int *perm = let_attr(def, "perm")->axes;
    bool known = v->type->rank > 3 || r->late[let->args[k]->id] || (of && of->op == OP_contract);
    bool moved = known && perm[0] == 0 && perm[1] == v->type->rank - 1;
    for (int ax = 2; ax < v->type->rank && moved; ax++) {
        moved = perm[ax] == ax - 1;
    }
    return moved;
}

/* The axis that axis ax of such an image was before its channels moved. */
static int
axis_before(int rank, int ax)
{
    return ax == 0 ? 0 : ax == 1 ? rank - 1 : ax - 1;
}

/* The result of the let, from v, which is the result before its channels move. */
static Value *
move_channels(Rules *r, const Let *let, Value *v)
{
    int perm[MAX_RANK];
    r->late[let->res[0]->id] = true;
    for (int ax = 0; ax < v->type->rank; ax++) {
        perm[ax] = axis_before(v->type->rank, ax);
    }
    return build_permute(r->b, v, perm);
}

/* The operand before its channels move: a constant, such an image, the source of an expansion along
 * channels, or another value, whose channels are read in place. */
static Value *
before_move(Rules *r, const Let *let, int at, Value *v)
{
    int to[MAX_RANK], back[MAX_RANK];
    Dim dims[MAX_RANK];
    if (value_is_const(v) || is_moved(r, let, at, v)) {
        return value_is_const(v) ? v : v->def->args[0];
    }
    for (int ax = 0, rank = v->type->rank; ax < rank; ax++) {
        back[axis_before(rank, ax)] = ax;
        dims[axis_before(rank, ax)] = v->type->dims[ax];
    }
    const Attr *axes = v->def && v->def->op == OP_expand ? let_attr(v->def, "to") : NULL;
    bool ordered = axes;
    for (int k = 0; ordered && k < axes->n; k++) {
        to[k] = axis_before(v->type->rank, axes->axes[k]);
        ordered = k == 0 || to[k] > to[k - 1];
    }
    return ordered ? build_expand(r->b, v->def->args[0], v->type->rank, dims, to)
                   : build_permute(r->b, v, back);
}

static bool
any_is_moved(const Rules *r, const Let *let, Value *const *args)
{
    bool any = false;
    for (int k = 0; k < let->nargs; k++) {
        any |= is_moved(r, let, k, args[k]);
    }
    return any;
}

static Value *
map_before_move(Rules *r, const Let *let, Value *const *args)
{
    Value *moved[3];
    if (op_info[let->op].rule == RULE_PART || r->taken[let->res[0]->id] ||
        !any_is_moved(r, let, args) || !fuel_spend(r->old->cx)) {
        return NULL;
    }
    for (int k = 0; k < let->nargs; k++) {
        moved[k] = before_move(r, let, k, args[k]);
    }
    return move_channels(r, let, build_map_like(r->b, let, moved));
}

static Value *
cat_before_move(Rules *r, const Let *let, Value *const *parts)
{
    if (r->taken[let->res[0]->id] || !any_is_moved(r, let, parts) || !fuel_spend(r->old->cx)) {
        return NULL;
    }
    Value **moved = cx_alloc(r->old->cx, (size_t)let->nargs * sizeof *moved);
    int axis = axis_before(let->res[0]->type->rank, (int)let_int(let, "axis"));
    for (int k = 0; k < let->nargs; k++) {
        moved[k] = before_move(r, let, k, parts[k]);
    }
    return move_channels(r, let, build_cat(r->b, let->nargs, moved, axis));
}

/* Moves channels after an operation on one image: a part of it, the image with a border, positions
 * along one of its axes. */
static Value *
region_before_move(Rules *r, const Let *let, Value *const *args)
{
    const Type *t = let->res[0]->type;
    Value *v = is_moved(r, let, 0, args[0]) && t->rank == args[0]->type->rank
                   ? args[0]->def->args[0]
                   : NULL;
    Dim dims[MAX_RANK], lo[MAX_RANK];
    bool takes = let->op == OP_slice || let->op == OP_pad || let->op == OP_gather;
    if (!v || !takes || r->taken[let->res[0]->id] || !fuel_spend(r->old->cx)) {
        return NULL;
    }
    for (int ax = 0; ax < t->rank; ax++) {
        dims[axis_before(t->rank, ax)] = t->dims[ax];
        lo[axis_before(t->rank, ax)] = let->op == OP_pad ? let_attr(let, "lo")->dims[ax] : DIM_NONE;
    }
    int axis = let->op == OP_pad ? 0 : axis_before(t->rank, (int)let_int(let, "axis"));
    v = let->op == OP_slice
            ? build_slice(r->b, v, axis, let_dim(let, "start"), let_dim(let, "step"), dims[axis])
        : let->op == OP_pad
            ? build_pad(r->b, v, args[1], type_of(r->old->cx, t->dtype, t->rank, dims), lo)
            : build_gather(r->b, v, args[1], axis, (int)let_int(let, "wrap"));
    return move_channels(r, let, v);
}

/* ---- components of views of pairs: real and imaginary parts ---- */

/* The views of v on a component of the pair that it is a view of; NULL: it is no pair's. */
static Value *
component_of_pair(Rules *r, Op op, Value *v)
{
    const Let *def = v->def;
    if (!def || (op_info[def->op].kind != KIND_VIEW && def->op != OP_complex)) {
        return NULL;
    }
    if (def->op == OP_complex) {
        return build_map(r->b, op, v, NULL, NULL);
    }
    Value *part = component_of_pair(r, op, def->args[0]);
    if (!part) {
        return NULL;
    }
    Value **map = cx_alloc(r->old->cx, ((size_t)build_fn(r->b)->nvalues + 1) * sizeof *map);
    map[def->args[0]->id] = part;
    build_again(r->b, def, map);
    return map[v->id];
}

static Value *
component_before_views(Rules *r, const Let *let, Value *const *args)
{
    bool part = op_info[let->op].rule == RULE_PART && value_is_view(args[0]);
    return part && fuel_spend(r->old->cx) ? component_of_pair(r, let->op, args[0]) : NULL;
}

/* ---- the largest of what repeats ---- */

static Value *
reduction_before_expand(Rules *r, const Let *let, const Value *a)
{
    Cx *cx = r->old->cx;
    if ((let->op != OP_amax && let->op != OP_amin) || !a->def || a->def->op != OP_expand) {
        return NULL;
    }
    const Attr *axes = let_attr(let, "axes"), *to = let_attr(a->def, "to");
    int reduced[MAX_RANK], kept[MAX_RANK], nreduced = 0, nmaterialised = 0;
    for (int ax = 0, k = 0, j = 0, out = 0; ax < a->type->rank; ax++) {
        bool red = j < axes->n && axes->axes[j] == ax, real = k < to->n && to->axes[k] == ax;
        if (red && real) {
            reduced[nreduced++] = k;
        } else if (red && dim_range(cx, a->type->dims[ax]).lo < 1) {
            return NULL; /* reducing nothing is an error that must stay one */
        } else if (real) {
            kept[nmaterialised++] = out;
        }
        out += !red;
        j += red;
        k += real;
    }
    if (nreduced == axes->n || !fuel_spend(cx)) {
        return NULL;
    }
    Value *v = a->def->args[0];
    v = nreduced ? build_red(r->b, let->op, v, nreduced, reduced) : v;
    const Type *t = let->res[0]->type;
    return build_expand(r->b, v, t->rank, t->dims, kept);
}

/* ---- what was joined ---- */

/* The operand of a cat that the slice has; NULL: it has another part, or the caller may see that it
 * is a view.  Not of a cat that writes a part of a value: its readers would compute that again. */
static Value *
piece_of_cat(Rules *r, const Let *let, const Value *a)
{
    Cx *cx = r->old->cx;
    int axis = (int)let_int(let, "axis");
    const Let *cat = a->def && a->def->op == OP_cat ? a->def : NULL;
    if (!cat || let_int(cat, "axis") != axis || !let_interleaves(cx, cat) ||
        r->taken[let->res[0]->id] || !dim_is(cx, let_dim(let, "step"), 1)) {
        return NULL;
    }
    Dim at = dim_int(cx, 0);
    for (int k = 0; k < cat->nargs; k++) {
        Dim length = cat->args[k]->type->dims[axis];
        if (at == let_dim(let, "start") && length == let->res[0]->type->dims[axis]) {
            return fuel_spend(cx) ? cat->args[k] : NULL;
        }
        at = dim_add(cx, at, length);
    }
    return NULL;
}

/* ---- lengths that are compared ---- */

/* The least number whose root, as it is rounded, is c or more; or more than c. */
static double
square_from(double c, bool more)
{
    double square = c * c;
    while (more ? sqrt(square) > c : sqrt(square) >= c) {
        square = nextafter(square, 0);
    }
    while (more ? sqrt(square) <= c : sqrt(square) < c) {
        square = nextafter(square, INFINITY);
    }
    return square;
}

/* hypot is the rounded root of fma(x, x, y*y), but for operands so large or small that they are
 * scaled: these are far from the constant, on the same side as that sum.  Of an infinity and a NaN
 * it is infinite, which is not less, and neither is the sum. */
static Value *
compared_length(Rules *r, const Let *let, Value *const *args)
{
    const Let *length = value_is_const(args[0]) ? NULL : args[0]->def;
    if ((let->op != OP_lt && let->op != OP_le) || !length || length->op != OP_hypot ||
        args[0]->type->dtype != DT_f64 || !value_is_const(args[1])) {
        return NULL;
    }
    const Literal *to = &args[1]->literal;
    double c = to->is_int ? (double)to->i : to->f;
    if (!(c > 0x1p-400 && c < 0x1p400) || !fuel_spend(r->old->cx)) {
        return NULL;
    }
    Value *x = length->args[0], *y = length->args[1], *square = build_map(r->b, OP_mul, y, y, NULL);
    square = build_map(r->b, OP_fma, x, x, square);
    return build_map(r->b, OP_lt, square, build_float(r->b, square_from(c, let->op == OP_le)),
                     NULL);
}

/* ---- the pass ---- */

static void
canonicalise_let(Rules *r, const Let *let)
{
    Value **args = cx_alloc(r->old->cx, (size_t)(let->nargs + 3) * sizeof *args), *v = NULL;
    OpKind kind = op_info[let->op].kind;
    build_at(r->b, let->loc);
    for (int k = 0; k < let->nargs; k++) {
        args[k] = operand(r, let->args[k]);
    }
    if (kind == KIND_MAP) {
        v = map_before_expand(r, let, args);
        v = v ? v : map_before_reshape(r, let, args);
        v = v ? v : map_before_interleaving(r, let, args);
        v = v ? v : map_before_gather(r, let, args);
        v = v ? v : component_before_views(r, let, args);
        v = v ? v : map_before_move(r, let, args);
        v = v ? v : compared_length(r, let, args);
    } else if (kind == KIND_RED) {
        v = reduction_before_expand(r, let, args[0]);
    } else if (let->op == OP_cat) {
        v = cat_before_move(r, let, args);
    } else if (let->nargs > 0 && let->nres > 0) {
        v = let->op == OP_slice ? piece_of_cat(r, let, args[0]) : NULL;
        v = v ? v : region_before_move(r, let, args);
    }
    if (v) {
        r->map[let->res[0]->id] = v;
    } else {
        build_again(r->b, let, r->map);
    }
}

Fn *
pass_canonicalise(Fn *fn)
{
    size_t room = (size_t)fn->nvalues + 1;
    Rules r = {.old = fn,
               .back = cx_alloc(fn->cx, room * sizeof *r.back),
               .differ = cx_alloc(fn->cx, room * sizeof *r.differ),
               .waited = cx_alloc(fn->cx, room * sizeof *r.waited),
               .taken = cx_alloc(fn->cx, room * sizeof *r.taken),
               .late = cx_alloc(fn->cx, room * sizeof *r.late)};
    Fn *out = rebuild_open(fn, fn->stage, &r.map);
    r.b = build_new(out);
    find_reshapes(&r);
    find_taken(&r);
    for (int k = 0; k < fn->body->n; k++) {
        canonicalise_let(&r, fn->body->lets[k]);
    }
    return rebuild_close(fn, out, r.map);
}
