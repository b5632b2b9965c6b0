/* Values at an index vector to scalar lets in loops: what lowering does to a kernel's body.
 *
 * What:     lower_at(v, idx) is the scalar that holds element idx of v, computed where it is first
 *           wanted: loads from operands, MAP lets on scalars, reduce loops.
 * Requires: the loops whose indices idx uses are open.
 * Ensures:  every scalar stands in the outermost loop whose index it needs and is computed once
 *           there.
 * How:      Demand driven, from a result back through its operands, memoised on (v, idx).  A let
 *           goes into the block of the deepest of its operands, so that a scalar that is the same
 *           for a whole row is computed outside the loop over the row.  A loop under construction
 *           is appended to its block when it is closed, after all that it uses.  Linear in lets
 *           times the loops that need them.
 * Why not:  emit everything in the innermost loop and hoist invariants afterwards: a reduction must
 *           be placed before its loop is built, and placement by depth of operands is hoisting.
 * Example:  y[i, j] = x[i, j] / s[i], s = sum(x, axis 1), demanded at [i, j] with i and j open: the
 *           load in the loop of j, the reduce in the loop of i, the division in the loop of j.
 */
#include <string.h>

#include "lower.h"

typedef struct {
    Value *value;
    Frame *frame;
} Scalar;

/* ---- frames ---- */

static int
frame_depth(const Lower *lo, const Frame *frame)
{
    for (int k = lo->depth; k > 0; k--) {
        if (lo->path[k] == frame) {
            return k;
        }
    }
    return 0;
}

static bool
is_open(const Lower *lo, const Frame *frame)
{
    return frame == lo->path[0] || frame_depth(lo, frame) > 0;
}

/* Indices and scalars share one table: a key of one word is an index, of two a scalar's id. */
static void
set_home(Lower *lo, const uint32_t *key, int n, Frame *frame)
{
    *(Frame **)map_at(lo->cx, &lo->homes, key, n, sizeof(Frame *)) = frame;
}

static int
value_depth(const Lower *lo, const Value *v)
{
    uint32_t key[2] = {(uint32_t)v->id, 0};
    Frame **home = value_is_const(v) ? NULL : map_get(&lo->homes, key, 2);
    return home ? frame_depth(lo, *home) : 0;
}

typedef struct {
    const Lower *lo;
    int depth;
} Deepest;

static void
note_depth(void *arg, Dim name)
{
    Deepest *d = arg;
    Frame **home = map_get(&d->lo->homes, &name, 1);
    int depth = home ? frame_depth(d->lo, *home) : 0;
    d->depth = depth > d->depth ? depth : d->depth;
}

static int
dims_depth(const Lower *lo, int n, const Dim *dims)
{
    Deepest d = {lo, 0};
    for (int k = 0; k < n; k++) {
        dim_names(lo->cx, dims[k], note_depth, &d);
    }
    return d.depth;
}

bool
lower_is_open(const Lower *lo, Dim index)
{
    Frame **home = map_get(&lo->homes, &index, 1);
    return home && is_open(lo, *home);
}

/* ---- elements of buffers ---- */

bool
lower_is_part(const Lower *lo, const Value *buffer)
{
    uint32_t key = (uint32_t)buffer->id;
    return map_get(&lo->origins, &key, 1) != NULL;
}

static bool
is_inside(Cx *cx, Dim index, Dim size)
{
    return dim_le(cx, dim_int(cx, 0), index) && dim_lt(cx, index, size);
}

/* The index in the buffer of the value's element `at`.  A buffer of a block's part begins
 * elsewhere.  Along an axis where it begins at the same element for all blocks it has what they
 * read, wherever they begin to.  So it has where the block says which of its own rows are read, as
 * those that a place of a window leaves out are not. */
static const Dim *
place(const Lower *lo, const Value *buffer, const Dim *at, Dim *out)
{
    uint32_t key = (uint32_t)buffer->id;
    const Dim *origin = map_get(&lo->origins, &key, 1);
    for (int ax = 0; origin && ax < buffer->type->rank; ax++) {
        out[ax] = dim_sub(lo->cx, at[ax], origin[ax]);
        for (int k = 1; k <= lo->block_depth; k++) {
            Dim block = lo->path[k]->index;
            if (dim_uses(lo->cx, origin[ax], block) && dim_uses(lo->cx, out[ax], block) &&
                !is_inside(lo->cx, out[ax], buffer->type->dims[ax])) {
                fail(lo->cx, DIAG_OTHER_BLOCK, buffer->name);
            }
        }
    }
    return origin ? out : at;
}

Dim
lower_offset(const Lower *lo, const Value *buffer, const Dim *at)
{
    Dim out[MAX_RANK];
    return index_offset(lo->cx, buffer, place(lo, buffer, at, out));
}

/* ---- lets ---- */

static Let *
put(Lower *lo, int depth, Op op, int nargs, Value *const *args, int nattrs, const Attr *attrs)
{
    Let *let = let_new(lo->fn, op, nargs, args, nattrs, attrs);
    let->loc = cx_loc(lo->cx);
    block_append(lo->cx, lo->path[depth]->blk, let);
    return let;
}

static Value *
result(Lower *lo, Let *let, int depth, const Type *type, const char *stem)
{
    const char *name = fn_take_name(lo->fn, stem) ? stem : fn_fresh_name(lo->fn, stem);
    Value *v = let_result(lo->fn, let, name, type, NULL);
    uint32_t key[2] = {(uint32_t)v->id, 0};
    set_home(lo, key, 2, lo->path[depth]);
    return v;
}

static int
args_depth(const Lower *lo, int n, Value *const *args)
{
    int depth = 0;
    for (int k = 0; k < n; k++) {
        int d = value_depth(lo, args[k]);
        depth = d > depth ? d : depth;
    }
    return depth;
}

static Value *
map_new(Lower *lo, Op op, int nargs, Value *const *args, Dtype dtype, const char *stem)
{
    int depth = args_depth(lo, nargs, args);
    Let *let = put(lo, depth, op, nargs, args, 0, NULL);
    return result(lo, let, depth, type_scalar(lo->cx, dtype), stem);
}

Value *
lower_cast(Lower *lo, Value *v, Dtype to)
{
    return v->type->dtype == to ? v : map_new(lo, OP_cast, 1, &v, to, v->name);
}

/* Makes a loaded bool 0 or 1.  Eager PyTorch takes every byte but 0 for true, and a tensor may have
 * other bytes than 1 (a view of bytes, an array of NumPy).  Casts and the condition of a `where`
 * take such bytes as they are; all other operations need 0 or 1. */
Value *
lower_truth(Lower *lo, Value *v)
{
    if (value_is_const(v) || v->type->dtype != DT_bool || !v->def || v->def->op != OP_load) {
        return v;
    }
    Value *no = cx_alloc(lo->cx, sizeof *no);
    no->literal = (Literal){.is_int = true};
    return map_new(lo, OP_ne, 2, (Value *[]){v, no}, DT_bool, v->name);
}

static Value *
scalar_const(Lower *lo, int depth, Value *literal, Dtype dtype, const char *name)
{
    Let *let = put(lo, depth, OP_const, 1, &literal, 0, NULL);
    return result(lo, let, depth, type_scalar(lo->cx, dtype), name);
}

Value *
lower_number(Lower *lo, Dtype dtype, double number, const char *name)
{
    Value *literal = cx_alloc(lo->cx, sizeof *literal);
    bool is_int = dtype_info[dtype].class != CLASS_FLOAT;
    literal->literal = (Literal){.is_int = is_int, .i = (int64_t)number, .f = number};
    return scalar_const(lo, lo->depth, literal, dtype, name);
}

static bool
is_empty(const Lower *lo, const Type *t)
{
    bool empty = false;
    for (int ax = 0; ax < t->rank; ax++) {
        empty = empty || dim_is(lo->cx, t->dims[ax], 0);
    }
    return empty;
}

/* An element of an empty buffer: any number, since no iteration reads it.  It stands in the
 * innermost loop, so that a check of a value made of it never runs.  A load would run even if its
 * loop has no iterations, because it is placed before the loop if its index does not depend on the
 * loop. */
static Value *
load_of_nothing(Lower *lo, const Value *buffer)
{
    Value *literal = cx_alloc(lo->cx, sizeof *literal), *v;
    Dtype dtype = buffer->type->dtype,
          part = dtype_part(dtype) == DTYPE_COUNT ? dtype : dtype_part(dtype);
    literal->literal = (Literal){.is_int = dtype_info[part].class != CLASS_FLOAT};
    v = scalar_const(lo, lo->depth, literal, part, buffer->name);
    return part == dtype ? v : map_new(lo, OP_complex, 2, (Value *[]){v, v}, dtype, buffer->name);
}

/* Is a result of the kernel written in place to the parameter?  Then the iteration that stores an
 * element must load it, and it must not be loaded before. */
static bool
is_overwritten(const Lower *lo, const Value *buffer)
{
    bool over = false;
    for (int k = 0; k < lo->nin_place; k++) {
        over |= lo->in_place[k] == buffer;
    }
    return over;
}

Value *
lower_load(Lower *lo, Value *buffer, const Dim *at)
{
    if (is_empty(lo, buffer->type)) {
        return load_of_nothing(lo, buffer);
    }
    Dim out[MAX_RANK];
    int rank = buffer->type->rank, depth = dims_depth(lo, rank, at);
    int made = value_depth(lo, buffer);
    depth = is_overwritten(lo, buffer) ? lo->depth : depth > made ? depth : made;
    Attr attr = attr_dims(lo->cx, "at", rank, place(lo, buffer, at, out));
    Let *let = put(lo, depth, OP_load, 1, &buffer, 1, &attr);
    return result(lo, let, depth, type_scalar(lo->cx, buffer->type->dtype), buffer->name);
}

Value *
lower_load_here(Lower *lo, Value *buffer, const Dim *at)
{
    Dim out[MAX_RANK];
    Attr attr = attr_dims(lo->cx, "at", buffer->type->rank, place(lo, buffer, at, out));
    Let *let = put(lo, lo->depth, OP_load, 1, &buffer, 1, &attr);
    return result(lo, let, lo->depth, type_scalar(lo->cx, buffer->type->dtype), buffer->name);
}

Value *
lower_combine(Lower *lo, Op op, Value *a, Value *b)
{
    return map_new(lo, op, 2, (Value *[]){a, b}, b->type->dtype, op_info[op].name);
}

Value *
lower_compare(Lower *lo, Op op, Value *a, Value *b)
{
    return map_new(lo, op, 2, (Value *[]){a, b}, DT_bool, op_info[op].name);
}

void
lower_store(Lower *lo, Value *buffer, const Dim *at, Value *value)
{
    Dim out[MAX_RANK];
    Value *args[] = {buffer, value};
    Attr attr = attr_dims(lo->cx, "at", buffer->type->rank, place(lo, buffer, at, out));
    put(lo, lo->depth, OP_store, 2, args, 1, &attr);
}

void
lower_update(Lower *lo, Op op, Value *buffer, const Dim *at, Value *value)
{
    Value *args[] = {buffer, value};
    Attr attrs[] = {attr_name(lo->cx, "op", op_info[op].name, DIM_NONE),
                    attr_dims(lo->cx, "at", buffer->type->rank, at)};
    put(lo, lo->depth, OP_update, 2, args, 2, attrs);
}

Value *
lower_buffer(Lower *lo, int depth, Dtype dtype, int rank, const Dim *dims)
{
    Let *let = put(lo, depth, OP_buffer, 0, NULL, 0, NULL);
    return result(lo, let, depth, type_of(lo->cx, dtype, rank, dims), "buf");
}

static Value *
size_new(Lower *lo, Dim d)
{
    Attr attr = attr_dim(lo->cx, "dim", d);
    int depth = dims_depth(lo, 1, &d);
    Let *let = put(lo, depth, OP_size, 0, NULL, 1, &attr);
    return result(lo, let, depth, type_scalar(lo->cx, DT_i64), "at");
}

/* ---- loops ---- */

Dim
lower_open(Lower *lo, const char *stem, Dim extent)
{
    Cx *cx = lo->cx;
    if (lo->depth + 1 >= MAX_LOOPS) {
        fail(cx, DIAG_NESTED_LOOPS, MAX_LOOPS);
    }
    Frame *frame = cx_alloc(cx, sizeof *frame);
    frame->blk = cx_alloc(cx, sizeof *frame->blk);
    frame->extent = extent;
    frame->index = dim_index(cx, fn_fresh_name(lo->fn, stem), extent);
    lo->path[++lo->depth] = frame;
    set_home(lo, &frame->index, 1, frame);
    return frame->index;
}

static Let *
close_loop(Lower *lo, Op op, int nattrs, const Attr *attrs)
{
    Frame *frame = lo->path[lo->depth--];
    Let *let = put(lo, lo->depth, op, 0, NULL, nattrs, attrs);
    let->body = frame->blk;
    frame->blk->owner = let;
    return let;
}

Let *
lower_close(Lower *lo)
{
    const Frame *frame = lo->path[lo->depth];
    Attr attrs[] = {
        attr_name(lo->cx, "index", dim_name(lo->cx, frame->index), frame->index),
        attr_dim(lo->cx, "extent", frame->extent),
        attr_marks(lo->cx, 0),
    };
    return close_loop(lo, OP_for, 3, attrs);
}

Value *
lower_close_reduce(Lower *lo, Op op, unsigned marks, Value *ret)
{
    Frame *frame = lo->path[lo->depth];
    Attr attrs[] = {
        attr_name(lo->cx, "op", op_info[op].name, DIM_NONE),
        attr_name(lo->cx, "index", dim_name(lo->cx, frame->index), frame->index),
        attr_dim(lo->cx, "extent", frame->extent),
        attr_marks(lo->cx, marks),
    };
    frame->blk->rets = cx_copy(lo->cx, &ret, sizeof ret);
    frame->blk->nrets = 1;
    Let *let = close_loop(lo, OP_reduce, 4, attrs);
    Dtype dtype = op_info[op].rule == RULE_INDEX ? DT_i64 : ret->type->dtype;
    return result(lo, let, lo->depth, type_scalar(lo->cx, dtype), op_info[op].name);
}

/* Opens the nest's loops.  axes: the index of each axis of the nest over the opened loops. */
void
nest_open(Lower *lo, const Nest *nest, Dim *axes)
{
    memcpy(axes, nest->axis, (size_t)nest->naxes * sizeof *axes);
    for (int k = 0; k < nest->nloops; k++) {
        Dim index = lower_open(lo, "i", nest->count[k]);
        for (int ax = 0; ax < nest->naxes; ax++) {
            axes[ax] = dim_replace(lo->cx, axes[ax], nest->index[k], index);
        }
    }
}

static Value *
close_reduces(Lower *lo, const Nest *nest, Op op, Value *ret)
{
    for (int k = nest->nloops - 1; k >= 0; k--) {
        bool vector = !lo->column && k == nest->nloops - 1;
        ret = lower_close_reduce(lo, op, vector ? MARK_vector : 0, ret);
    }
    return ret;
}

/* ---- reductions ---- */

Dtype
reduce_dtype(const Let *red)
{
    Dtype compute = dtype_info[red->args[0]->type->dtype].compute;
    return op_info[red->op].rule == RULE_INDEX && compute == DT_bool ? DT_i32 : compute;
}

static Value *
reduce_here(Lower *lo, const Let *red, const Dim *idx)
{
    const Nest *nest = map_get(&lo->nests, (const uint32_t[]){(uint32_t)red->res[0]->id}, 1);
    Dim axes[MAX_RANK], inner[MAX_RANK];
    nest_open(lo, nest, axes);
    index_reduced(lo->cx, red, idx, axes, inner);
    const Dim *row = lo->row;
    lo->row = axes;
    Value *v = lower_cast(lo, lower_truth(lo, lower_at(lo, red->args[0], inner)),
                          reduce_dtype(red));
    lo->row = row;
    if (nest->nloops == 0 && op_info[red->op].rule == RULE_INDEX) {
        return size_new(lo, dim_int(lo->cx, 0)); /* the index of the only element */
    }
    return close_reduces(lo, nest, red->op, v);
}

/* Puts the reduction in the innermost loop that its index uses or, if it uses none, in the phase's
 * outer loop.  The loops inside that loop are left meanwhile. */
static Value *
scalar_reduce(Lower *lo, const Let *red, const Dim *idx)
{
    int rank = red->res[0]->type->rank;
    int depth = dims_depth(lo, rank, idx), saved = lo->depth;
    Frame *inside[MAX_LOOPS + 2];
    memcpy(inside, lo->path, sizeof inside);
    lo->depth = depth ? depth : lo->outer;
    Value *v = reduce_here(lo, red, idx);
    v = lower_cast(lo, v, red->res[0]->type->dtype);
    memcpy(lo->path, inside, sizeof inside);
    lo->depth = saved;
    return v;
}

/* ---- cat, pad, gather ---- */

static Value *
scalar_operand(Lower *lo, const Let *let, int k, const Dim *idx)
{
    Dim inner[MAX_RANK];
    if (value_is_const(let->args[k])) {
        return let->args[k];
    }
    index_operand(lo->cx, let, k, idx, inner);
    return lower_at(lo, let->args[k], inner);
}

/* An element of a cat or pad.  The space has been cut so that one piece holds all of it. */
static Value *
scalar_piece(Lower *lo, const Let *let, const Dim *idx)
{
    bool cat = let->op == OP_cat;
    int axis, piece = cat ? index_cat_part(lo->cx, let, idx[let_int(let, "axis")])
                          : index_pad(lo->cx, let, idx, &axis);
    if (cat ? piece < 0 : piece == 0) {
        fail(lo->cx, DIAG_PART_UNKNOWN, op_info[let->op].name);
    }
    return piece < 0
               ? scalar_const(lo, 0, let->args[1], let->res[0]->type->dtype, let->res[0]->name)
               : scalar_operand(lo, let, cat ? piece : 0, idx);
}

Dim
lower_bind(Lower *lo, Value *v, Dim extent, int wrap)
{
    uint32_t key[] = {(uint32_t)v->id, extent, (uint32_t)wrap};
    Dim *known = map_at(lo->cx, &lo->binds, key, 3, sizeof *known);
    if (*known == DIM_NONE) {
        int depth = value_depth(lo, v);
        Attr attrs[] = {
            attr_dim(lo->cx, "extent", extent),
            attr_int(lo->cx, "wrap", wrap),
        };
        Let *let = put(lo, depth, OP_bind, 1, &v, 2, attrs);
        *known = dim_index(lo->cx, fn_fresh_name(lo->fn, "g"), extent);
        let->nsizes = 1;
        let->sizes = cx_copy(lo->cx, known, sizeof *known);
        set_home(lo, known, 1, lo->path[depth]);
    }
    return *known;
}

static Value *
scalar_gather(Lower *lo, const Let *gather, const Dim *idx)
{
    const Type *x = gather->args[0]->type;
    int axis = (int)let_int(gather, "axis"), skip = gather->args[1]->type->rank;
    Dim inner[MAX_RANK], at[MAX_RANK];
    index_operand(lo->cx, gather, 1, idx, at);
    for (int ax = 0; ax < x->rank; ax++) {
        inner[ax] = ax == axis  ? lower_index(lo, gather, at)
                    : ax < axis ? idx[ax]
                                : idx[ax - 1 + skip];
    }
    return lower_at(lo, gather->args[0], inner);
}

/* ---- values ---- */

static Value *
scalar_map(Lower *lo, const Let *let, const Dim *idx)
{
    Value *args[3];
    for (int k = 0; k < let->nargs; k++) {
        args[k] = scalar_operand(lo, let, k, idx);
        bool any = let->op == OP_cast || (let->op == OP_where && k == 0);
        args[k] = any ? args[k] : lower_truth(lo, args[k]);
    }
    return map_new(lo, let->op, let->nargs, args, let->res[0]->type->dtype, let->res[0]->name);
}

static Value *
scalar_let(Lower *lo, const Let *let, const Dim *idx)
{
    const Value *v = let->res[0];
    switch (op_info[let->op].kind) {
    case KIND_MAP:
        return scalar_map(lo, let, idx);
    case KIND_RED:
        return scalar_reduce(lo, let, idx);
    case KIND_VIEW:
        return scalar_operand(lo, let, 0, idx);
    case KIND_NODE:
        break;
    }
    switch (let->op) {
    case OP_const:
        return scalar_const(lo, 0, let->args[0], v->type->dtype, v->name);
    case OP_iota:
        return lower_cast(lo, size_new(lo, idx[let_int(let, "axis")]), v->type->dtype);
    case OP_size:
        return size_new(lo, let_dim(let, "dim"));
    case OP_cat:
    case OP_pad:
        return scalar_piece(lo, let, idx);
    case OP_gather:
        return scalar_gather(lo, let, idx);
    case OP_scan:
        return lower_scan(lo, let, idx);
    case OP_contract:
        return lower_cast(lo, lower_load_here(lo, lo->tile, lo->tile_at), v->type->dtype);
    default:
        fail(lo->cx, DIAG_NOT_IN_KERNEL, op_info[let->op].name);
    }
}

/* The element of the row buffer at the open loops. */
static const Dim *
at_row(Lower *lo, const Need *need, Dim *at)
{
    if (!need->target) {
        return lo->row;
    }
    memcpy(at, need->at, (size_t)need->target->type->rank * sizeof *at);
    axes_rename(lo, need->nrow, need->axes, lo->row, need->target->type->rank, at);
    return at;
}

/* A value that several loops over the row need: the first one computes and stores it. */
static Value *
scalar_buffered(Lower *lo, const Value *v, const Dim *idx, Need *need)
{
    Dim at[MAX_RANK], room[MAX_RANK];
    if (need->buffer) {
        return lower_load(lo, need->buffer, at_row(lo, need, at));
    }
    Value *made = scalar_let(lo, v->def, idx);
    for (int k = 0; k < need->nrow; k++) {
        room[k] = bounds_room(lo, need->row[k]);
    }
    need->buffer = need->target ? need->target
                                : lower_buffer(lo, lo->outer, v->type->dtype, need->nrow, room);
    lower_store(lo, need->buffer, at_row(lo, need, at), made);
    return made;
}

Value *
lower_at(Lower *lo, const Value *v, const Dim *idx)
{
    uint32_t key[MAX_RANK + 1];
    Scalar *s = map_at(lo->cx, &lo->scalars, key, map_key(v, idx, key), sizeof *s);
    if (s->value && is_open(lo, s->frame)) {
        return s->value;
    }
    Loc outer = cx_loc(lo->cx);
    Value *made;
    if (lo->leaf[v->id]) {
        made = lower_load(lo, lo->leaf[v->id], idx);
    } else {
        cx_set_loc(lo->cx, v->def->loc);
        Need *need = map_get(&lo->probe->needs, key, 1);
        made = need && need->nrow ? scalar_buffered(lo, v, idx, need) : scalar_let(lo, v->def, idx);
    }
    cx_set_loc(lo->cx, outer);
    s->value = made; /* entries never move */
    s->frame = lo->path[value_depth(lo, made)];
    return made;
}
