/* Loops under construction, and the lets in them: what the rest of lowering writes through.
 *
 * What:     opens and closes loops, and puts each let into one of the blocks that are open.
 * Requires: the loops whose indices a let uses are open.
 * Ensures:  a let is in the block of the deepest of its operands, so what is the same for a whole
 *           row is computed outside the loop over the row.  Stores are in the innermost loop.
 * How:      Each index and each scalar has a home, the frame of its loop.  A loop is appended to
 *           its block when it is closed, after all that it uses.
 * Example:  with i and j open, s of the loop of i and x of the loop of j: exp s goes into the loop
 *           of i, and div x, s into the loop of j. */
#include <string.h>

#include "lower.h"

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

bool
lower_frame_is_open(const Lower *lo, const Frame *frame)
{
    return frame == lo->path[0] || frame_depth(lo, frame) > 0;
}

/* Indices and scalars share one table: a key of one word is an index, a key of two words is a
 * scalar's id. */
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

Frame *
lower_frame(const Lower *lo, const Value *v)
{
    return lo->path[value_depth(lo, v)];
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

int
lower_depth(const Lower *lo, int n, const Dim *dims)
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
    return home && lower_frame_is_open(lo, *home);
}

/* ---- elements of buffers ---- */

bool
lower_is_part(const Lower *lo, const Value *buffer)
{
    uint32_t key = (uint32_t)buffer->id;
    return map_get(&lo->origins, &key, 1) != NULL;
}

/* The index in the buffer of element `at` of the value.  A buffer of a block's part begins at
 * another element.  Along an axis where it begins at the same element for all blocks, it has the
 * elements that they read, wherever they begin.  The same holds if the block decides which of its
 * rows are read, because those that a window position leaves out are not. */
static const Dim *
place(const Lower *lo, const Value *buffer, const Dim *at, Dim *out)
{
    uint32_t key = (uint32_t)buffer->id;
    const Dim *origin = map_get(&lo->origins, &key, 1);
    const Filled *f = lo->filled;
    if (f && f->buffer == buffer) {
        out[0] = f->panel;
        out[1] = dim_sub(lo->cx, at[f->term], f->start[f->term]);
        out[2] = dim_sub(lo->cx, at[f->column], f->start[f->column]);
        return out;
    }
    for (int ax = 0; origin && ax < buffer->type->rank; ax++) {
        out[ax] = dim_sub(lo->cx, at[ax], origin[ax]);
        for (int k = 1; k <= lo->block_depth; k++) {
            Dim block = lo->path[k]->index;
            if (dim_uses(lo->cx, origin[ax], block) && dim_uses(lo->cx, out[ax], block) &&
                !index_is_inside(lo->cx, out[ax], buffer->type->dims[ax])) {
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

/* Before the choice of the block that is open, whose `if` is there already if it is an `else`. */
static void
put_buffer(Lower *lo, const Frame *frame, Let *let)
{
    Block *blk = frame->blk;
    const Let *choice = frame->into->owner;
    block_append(lo->cx, blk, let);
    while (frame->into != blk && choice->parent != blk) {
        choice = choice->parent->owner;
    }
    if (frame->into != blk && choice->op == OP_else) {
        blk->lets[blk->n - 1] = blk->lets[blk->n - 2];
        blk->lets[blk->n - 2] = let;
    }
}

static Let *
put(Lower *lo, int depth, Op op, int nargs, Value *const *args, int nattrs, const Attr *attrs)
{
    Let *let = let_new(lo->fn, op, nargs, args, nattrs, attrs);
    let->loc = cx_loc(lo->cx);
    if (op == OP_buffer) {
        put_buffer(lo, lo->path[depth], let);
    } else {
        block_append(lo->cx, lo->path[depth]->into, let);
    }
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

Value *
lower_map(Lower *lo, Op op, int nargs, Value *const *args, Dtype dtype, const char *stem)
{
    int depth = args_depth(lo, nargs, args);
    Let *let = put(lo, depth, op, nargs, args, 0, NULL);
    return result(lo, let, depth, type_scalar(lo->cx, dtype), stem);
}

Value *
lower_cast(Lower *lo, Value *v, Dtype to)
{
    return v->type->dtype == to ? v : lower_map(lo, OP_cast, 1, &v, to, v->name);
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
    return lower_map(lo, OP_ne, 2, (Value *[]){v, no}, DT_bool, v->name);
}

Value *
lower_const(Lower *lo, int depth, Value *literal, Dtype dtype, const char *name)
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
    return lower_const(lo, lo->depth, literal, dtype, name);
}

/* An element of an empty buffer: any number, since no iteration reads it.  It is in the innermost
 * loop, so that a check of a value computed from it never runs.  A load would run even if its loop
 * has no iterations, because it is placed before the loop if its index does not depend on the
 * loop. */
static Value *
load_of_nothing(Lower *lo, const Value *buffer)
{
    Value *literal = cx_alloc(lo->cx, sizeof *literal), *v;
    Dtype dtype = buffer->type->dtype,
          part = dtype_part(dtype) == DTYPE_COUNT ? dtype : dtype_part(dtype);
    literal->literal = (Literal){.is_int = dtype_info[part].class != CLASS_FLOAT};
    v = lower_const(lo, lo->depth, literal, part, buffer->name);
    return part == dtype ? v : lower_map(lo, OP_complex, 2, (Value *[]){v, v}, dtype, buffer->name);
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

/* A load or store of the first operand, at `at`. */
static Let *
put_access(Lower *lo, int depth, Op op, int nargs, Value *const *args, const Dim *at)
{
    Attr attrs[] = {attr_dims(lo->cx, "at", args[0]->type->rank, at), attr_marks(lo->cx, 0)};
    return put(lo, depth, op, nargs, args, 2, attrs);
}

Value *
lower_load(Lower *lo, Value *buffer, const Dim *at)
{
    if (type_is_empty(lo->cx, buffer->type)) {
        return load_of_nothing(lo, buffer);
    }
    Dim out[MAX_RANK];
    int rank = buffer->type->rank, depth = lower_depth(lo, rank, at);
    int made = value_depth(lo, buffer);
    depth = is_overwritten(lo, buffer) ? lo->depth : depth > made ? depth : made;
    Let *let = put_access(lo, depth, OP_load, 1, &buffer, place(lo, buffer, at, out));
    return result(lo, let, depth, type_scalar(lo->cx, buffer->type->dtype), buffer->name);
}

Value *
lower_load_here(Lower *lo, Value *buffer, const Dim *at)
{
    Dim out[MAX_RANK];
    Let *let = put_access(lo, lo->depth, OP_load, 1, &buffer, place(lo, buffer, at, out));
    return result(lo, let, lo->depth, type_scalar(lo->cx, buffer->type->dtype), buffer->name);
}

Value *
lower_combine(Lower *lo, Op op, Value *a, Value *b)
{
    return lower_map(lo, op, 2, (Value *[]){a, b}, b->type->dtype, op_info[op].name);
}

Value *
lower_compare(Lower *lo, Op op, Value *a, Value *b)
{
    return lower_map(lo, op, 2, (Value *[]){a, b}, DT_bool, op_info[op].name);
}

void
lower_store(Lower *lo, Value *buffer, const Dim *at, Value *value)
{
    Dim out[MAX_RANK];
    Value *args[] = {buffer, value};
    put_access(lo, lo->depth, OP_store, 2, args, place(lo, buffer, at, out));
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
    Attr marks = attr_marks(lo->cx, 0);
    Let *let = put(lo, depth, OP_buffer, 0, NULL, 1, &marks);
    return result(lo, let, depth, type_of(lo->cx, dtype, rank, dims), "buf");
}

Value *
lower_size(Lower *lo, Dim d)
{
    Attr attr = attr_dim(lo->cx, "dim", d);
    int depth = lower_depth(lo, 1, &d);
    Let *let = put(lo, depth, OP_size, 0, NULL, 1, &attr);
    return result(lo, let, depth, type_scalar(lo->cx, DT_i64), "at");
}

void
lower_move(Lower *lo, int depth, Let *let)
{
    block_append(lo->cx, lo->path[depth]->into, let);
    for (int k = 0; k < let->nres; k++) {
        uint32_t key[2] = {(uint32_t)let->res[k]->id, 0};
        set_home(lo, key, 2, lo->path[depth]);
    }
    for (int k = 0; k < let->nsizes; k++) {
        set_home(lo, &let->sizes[k], 1, lo->path[depth]);
    }
}

int
lower_depth_of(const Lower *lo, const Let *let)
{
    int depth = args_depth(lo, let->nargs, let->args);
    for (int k = 0; k < let->nattrs; k++) {
        const Attr *a = &let->attrs[k];
        int at = a->kind == ATTR_DIMS  ? lower_depth(lo, a->n, a->dims)
                 : a->kind == ATTR_DIM ? lower_depth(lo, 1, &a->d)
                                       : 0;
        depth = at > depth ? at : depth;
    }
    return depth;
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
    frame->blk = frame->into = cx_alloc(cx, sizeof *frame->blk);
    frame->extent = extent;
    frame->index = dim_index(cx, fn_fresh_name(lo->fn, stem), extent);
    lo->path[++lo->depth] = frame;
    set_home(lo, &frame->index, 1, frame);
    return frame->index;
}

void
lower_begin(Lower *lo, Block *blk)
{
    lo->path[0] = cx_alloc(lo->cx, sizeof *lo->path[0]);
    lo->path[0]->blk = lo->path[0]->into = blk;
}

void
lower_append(Lower *lo, Let *let)
{
    block_append(lo->cx, lo->path[lo->depth]->into, let);
}

/* ---- choices ---- */

static void
open_choice(Lower *lo, Op op, int nattrs, const Attr *attrs)
{
    Frame *frame = lo->path[lo->depth];
    Let *choice = let_new(lo->fn, op, 0, NULL, nattrs, attrs);
    choice->loc = cx_loc(lo->cx);
    choice->parent = frame->into;
    choice->body = cx_alloc(lo->cx, sizeof *choice->body);
    choice->body->owner = choice;
    let_enter(lo->cx, choice);
    frame->into = choice->body;
}

void
lower_open_choice(Lower *lo, Dim a, Dim b)
{
    Attr attrs[] = {attr_dim(lo->cx, "left", a), attr_dim(lo->cx, "right", b)};
    open_choice(lo, OP_if, 2, attrs);
}

void
lower_close_choice(Lower *lo)
{
    Frame *frame = lo->path[lo->depth];
    Let *choice = frame->into->owner;
    dim_forget(lo->cx);
    frame->into = choice->parent;
    block_append(lo->cx, frame->into, choice);
}

void
lower_else(Lower *lo)
{
    lower_close_choice(lo);
    open_choice(lo, OP_else, 0, NULL);
}

/* ---- closing loops ---- */

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
lower_close_reduce(Lower *lo, Op op, Marks marks, Value *ret)
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

/* ---- indices that are data ---- */

/* The loop in which an index is checked that is read for element `to`: the loop of its scalar, or
 * the deepest loop around the element that may have no iterations.  Outside that loop, an index
 * would be checked although nothing is read at it. */
static int
check_depth(const Lower *lo, const Value *v, int n, const Dim *to)
{
    int made = value_depth(lo, v);
    for (int depth = lo->depth; depth > made; depth--) {
        const Frame *frame = lo->path[depth];
        bool over = false;
        for (int k = 0; k < n; k++) {
            over |= dim_uses(lo->cx, to[k], frame->index);
        }
        if (over && dim_range(lo->cx, frame->extent).lo < 1) {
            return depth;
        }
    }
    return made;
}

Dim
lower_bind(Lower *lo, Value *v, Dim extent, int wrap, int n, const Dim *to)
{
    uint32_t key[] = {(uint32_t)v->id, extent, (uint32_t)wrap};
    Dim *known = map_at(lo->cx, &lo->binds, key, 3, sizeof *known);
    if (*known == DIM_NONE || !lower_is_open(lo, *known)) {
        /* Of an empty axis no element is loaded, and what no phase uses is not in it. */
        bool empty = dim_range(lo->cx, extent).hi <= 0;
        int depth = empty ? lo->depth : check_depth(lo, v, n, to);
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
