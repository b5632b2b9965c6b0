/* Loops under construction, and the lets in them: what lowering and tiling write through.
 *
 * What:     opens and closes loops, and puts each let into one of the blocks that are open.
 * Requires: the loops whose indices a let uses are open.
 * Ensures:  a let is in the block of the deepest of its operands, so what is the same for a whole
 *           row is computed outside the loop over the row.  Stores are in the innermost loop.
 * How:      Each index and each scalar has a home, the frame of its loop.  A loop is appended to
 *           its block when it is closed, after all that it uses.
 * Example:  with i and j open, s of the loop of i and x of the loop of j: exp s goes into the loop
 *           of i, and div x, s into the loop of j. */
#include "builder.h"

/* ---- frames ---- */

static int
frame_depth(const Builder *out, const Frame *frame)
{
    for (int k = out->depth; k > 0; k--) {
        if (out->path[k] == frame) {
            return k;
        }
    }
    return 0;
}

bool
builder_frame_is_open(const Builder *out, const Frame *frame)
{
    return frame == out->path[0] || frame_depth(out, frame) > 0;
}

/* Indices and scalars share one table: a key of one word is an index, a key of two words is a
 * scalar's id. */
static void
set_home(Builder *out, const uint32_t *key, int n, Frame *frame)
{
    *(Frame **)map_at(out->cx, &out->homes, key, n, sizeof(Frame *)) = frame;
}

int
builder_depth_of_value(const Builder *out, const Value *v)
{
    uint32_t key[2] = {(uint32_t)v->id, 0};
    Frame **home = value_is_const(v) ? NULL : map_get(&out->homes, key, 2);
    return home ? frame_depth(out, *home) : 0;
}

Frame *
builder_frame(const Builder *out, const Value *v)
{
    return out->path[builder_depth_of_value(out, v)];
}

typedef struct {
    const Builder *out;
    int depth;
} Deepest;

static void
note_depth(void *arg, Dim name)
{
    Deepest *d = arg;
    Frame **home = map_get(&d->out->homes, &name, 1);
    int depth = home ? frame_depth(d->out, *home) : 0;
    d->depth = depth > d->depth ? depth : d->depth;
}

int
builder_depth(const Builder *out, int n, const Dim *dims)
{
    Deepest d = {out, 0};
    for (int k = 0; k < n; k++) {
        dim_names(out->cx, dims[k], note_depth, &d);
    }
    return d.depth;
}

bool
builder_is_open(const Builder *out, Dim index)
{
    Frame **home = map_get(&out->homes, &index, 1);
    return home && builder_frame_is_open(out, *home);
}

/* ---- lets ---- */

/* Before the choice of the block that is open, whose `if` is there already if it is an `else`. */
static void
put_buffer(Builder *out, const Frame *frame, Let *let)
{
    Block *blk = frame->blk;
    const Let *choice = frame->into->owner;
    block_append(out->cx, blk, let);
    while (frame->into != blk && choice->parent != blk) {
        choice = choice->parent->owner;
    }
    if (frame->into != blk && choice->op == OP_else) {
        blk->lets[blk->n - 1] = blk->lets[blk->n - 2];
        blk->lets[blk->n - 2] = let;
    }
}

static Let *
put(Builder *out, int depth, Op op, int nargs, Value *const *args, int nattrs, const Attr *attrs)
{
    Let *let = let_new(out->fn, op, nargs, args, nattrs, attrs);
    let->loc = cx_loc(out->cx);
    if (op == OP_buffer) {
        put_buffer(out, out->path[depth], let);
    } else {
        block_append(out->cx, out->path[depth]->into, let);
    }
    return let;
}

static Value *
result(Builder *out, Let *let, int depth, const Type *type, const char *stem)
{
    const char *name = fn_take_name(out->fn, stem) ? stem : fn_fresh_name(out->fn, stem);
    Value *v = let_result(out->fn, let, name, type, NULL);
    uint32_t key[2] = {(uint32_t)v->id, 0};
    set_home(out, key, 2, out->path[depth]);
    return v;
}

static int
args_depth(const Builder *out, int n, Value *const *args)
{
    int depth = 0;
    for (int k = 0; k < n; k++) {
        int d = builder_depth_of_value(out, args[k]);
        depth = d > depth ? d : depth;
    }
    return depth;
}

Value *
builder_map(Builder *out, Op op, int nargs, Value *const *args, Dtype dtype, const char *stem)
{
    int depth = args_depth(out, nargs, args);
    Let *let = put(out, depth, op, nargs, args, 0, NULL);
    return result(out, let, depth, type_scalar(out->cx, dtype), stem);
}

Value *
builder_cast(Builder *out, Value *v, Dtype to)
{
    return v->type->dtype == to ? v : builder_map(out, OP_cast, 1, &v, to, v->name);
}

/* Makes a loaded bool 0 or 1.  Eager PyTorch takes every byte but 0 for true, and a tensor may have
 * other bytes than 1 (a view of bytes, an array of NumPy).  Casts and the condition of a `where`
 * take such bytes as they are; all other operations need 0 or 1. */
Value *
builder_truth(Builder *out, Value *v)
{
    if (value_is_const(v) || v->type->dtype != DT_bool || !v->def || v->def->op != OP_load) {
        return v;
    }
    Value *no = cx_alloc(out->cx, sizeof *no);
    no->literal = (Literal){.is_int = true};
    return builder_map(out, OP_ne, 2, (Value *[]){v, no}, DT_bool, v->name);
}

Value *
builder_const(Builder *out, int depth, Value *literal, Dtype dtype, const char *name)
{
    Let *let = put(out, depth, OP_const, 1, &literal, 0, NULL);
    return result(out, let, depth, type_scalar(out->cx, dtype), name);
}

Value *
builder_number(Builder *out, Dtype dtype, double number, const char *name)
{
    Value *literal = cx_alloc(out->cx, sizeof *literal);
    bool is_int = dtype_info[dtype].class != CLASS_FLOAT;
    literal->literal = (Literal){.is_int = is_int, .i = (int64_t)number, .f = number};
    return builder_const(out, out->depth, literal, dtype, name);
}

/* A load or store of the first operand, at `at`. */
static Let *
put_access(Builder *out, int depth, Op op, int nargs, Value *const *args, const Dim *at)
{
    Attr attrs[] = {attr_dims(out->cx, "at", args[0]->type->rank, at), attr_marks(out->cx, 0)};
    return put(out, depth, op, nargs, args, 2, attrs);
}

Value *
builder_load(Builder *out, int depth, Value *buffer, const Dim *at)
{
    Let *let = put_access(out, depth, OP_load, 1, &buffer, at);
    return result(out, let, depth, type_scalar(out->cx, buffer->type->dtype), buffer->name);
}

void
builder_store(Builder *out, Value *buffer, const Dim *at, Value *value)
{
    Value *args[] = {buffer, value};
    put_access(out, out->depth, OP_store, 2, args, at);
}

Value *
builder_combine(Builder *out, Op op, Value *a, Value *b)
{
    return builder_map(out, op, 2, (Value *[]){a, b}, b->type->dtype, op_info[op].name);
}

Value *
builder_compare(Builder *out, Op op, Value *a, Value *b)
{
    return builder_map(out, op, 2, (Value *[]){a, b}, DT_bool, op_info[op].name);
}

void
builder_update(Builder *out, Op op, Value *buffer, const Dim *at, Value *value)
{
    Value *args[] = {buffer, value};
    Attr attrs[] = {attr_name(out->cx, "op", op_info[op].name, DIM_NONE),
                    attr_dims(out->cx, "at", buffer->type->rank, at)};
    put(out, out->depth, OP_update, 2, args, 2, attrs);
}

Value *
builder_buffer(Builder *out, int depth, Dtype dtype, int rank, const Dim *dims)
{
    Attr marks = attr_marks(out->cx, 0);
    Let *let = put(out, depth, OP_buffer, 0, NULL, 1, &marks);
    return result(out, let, depth, type_of(out->cx, dtype, rank, dims), "buf");
}

Value *
builder_size(Builder *out, Dim d)
{
    Attr attr = attr_dim(out->cx, "dim", d);
    int depth = builder_depth(out, 1, &d);
    Let *let = put(out, depth, OP_size, 0, NULL, 1, &attr);
    return result(out, let, depth, type_scalar(out->cx, DT_i64), "at");
}

void
builder_move(Builder *out, int depth, Let *let)
{
    block_append(out->cx, out->path[depth]->into, let);
    for (int k = 0; k < let->nres; k++) {
        uint32_t key[2] = {(uint32_t)let->res[k]->id, 0};
        set_home(out, key, 2, out->path[depth]);
    }
    for (int k = 0; k < let->nsizes; k++) {
        set_home(out, &let->sizes[k], 1, out->path[depth]);
    }
}

int
builder_depth_of(const Builder *out, const Let *let)
{
    int depth = args_depth(out, let->nargs, let->args);
    for (int k = 0; k < let->nattrs; k++) {
        const Attr *a = &let->attrs[k];
        int at = a->kind == ATTR_DIMS  ? builder_depth(out, a->n, a->dims)
                 : a->kind == ATTR_DIM ? builder_depth(out, 1, &a->d)
                                       : 0;
        depth = at > depth ? at : depth;
    }
    return depth;
}

/* ---- loops ---- */

Dim
builder_open(Builder *out, const char *stem, Dim extent)
{
    Cx *cx = out->cx;
    if (out->depth + 1 >= MAX_LOOPS) {
        fail(cx, DIAG_NESTED_LOOPS, MAX_LOOPS);
    }
    Frame *frame = cx_alloc(cx, sizeof *frame);
    frame->blk = frame->into = cx_alloc(cx, sizeof *frame->blk);
    frame->extent = extent;
    frame->index = dim_index(cx, fn_fresh_name(out->fn, stem), extent);
    out->path[++out->depth] = frame;
    set_home(out, &frame->index, 1, frame);
    return frame->index;
}

void
builder_begin(Builder *out, Block *blk)
{
    out->path[0] = cx_alloc(out->cx, sizeof *out->path[0]);
    out->path[0]->blk = out->path[0]->into = blk;
}

void
builder_append(Builder *out, Let *let)
{
    block_append(out->cx, out->path[out->depth]->into, let);
}

void
builder_replace(Builder *out, Let *loop)
{
    Block *blk = loop->parent, all = *blk;
    const Block *by = out->path[0]->blk;
    int at = place_of(loop);
    blk->lets = NULL;
    blk->n = 0;
    for (int k = 0; k < all.n; k++) {
        for (int j = 0; k == at && j < by->n; j++) {
            block_append(out->cx, blk, by->lets[j]);
        }
        if (k != at) {
            block_append(out->cx, blk, all.lets[k]);
        }
    }
}

/* ---- choices ---- */

static void
open_choice(Builder *out, Op op, int nattrs, const Attr *attrs)
{
    Frame *frame = out->path[out->depth];
    Let *choice = let_new(out->fn, op, 0, NULL, nattrs, attrs);
    choice->loc = cx_loc(out->cx);
    choice->parent = frame->into;
    choice->body = cx_alloc(out->cx, sizeof *choice->body);
    choice->body->owner = choice;
    let_enter(out->cx, choice);
    frame->into = choice->body;
}

void
builder_open_choice(Builder *out, Dim a, Dim b)
{
    Attr attrs[] = {attr_dim(out->cx, "left", a), attr_dim(out->cx, "right", b)};
    open_choice(out, OP_if, 2, attrs);
}

void
builder_close_choice(Builder *out)
{
    Frame *frame = out->path[out->depth];
    Let *choice = frame->into->owner;
    dim_forget(out->cx);
    frame->into = choice->parent;
    block_append(out->cx, frame->into, choice);
}

void
builder_else(Builder *out)
{
    builder_close_choice(out);
    open_choice(out, OP_else, 0, NULL);
}

/* ---- closing loops ---- */

static Let *
close_loop(Builder *out, Op op, int nattrs, const Attr *attrs)
{
    Frame *frame = out->path[out->depth--];
    Let *let = put(out, out->depth, op, 0, NULL, nattrs, attrs);
    let->body = frame->blk;
    frame->blk->owner = let;
    return let;
}

Let *
builder_close(Builder *out)
{
    const Frame *frame = out->path[out->depth];
    Attr attrs[] = {
        attr_name(out->cx, "index", dim_name(out->cx, frame->index), frame->index),
        attr_dim(out->cx, "extent", frame->extent),
        attr_marks(out->cx, 0),
    };
    return close_loop(out, OP_for, 3, attrs);
}

Value *
builder_close_reduce(Builder *out, Op op, Marks marks, Value *ret)
{
    Frame *frame = out->path[out->depth];
    Attr attrs[] = {
        attr_name(out->cx, "op", op_info[op].name, DIM_NONE),
        attr_name(out->cx, "index", dim_name(out->cx, frame->index), frame->index),
        attr_dim(out->cx, "extent", frame->extent),
        attr_marks(out->cx, marks),
    };
    frame->blk->rets = cx_copy(out->cx, &ret, sizeof ret);
    frame->blk->nrets = 1;
    Let *let = close_loop(out, OP_reduce, 4, attrs);
    Dtype dtype = op_info[op].rule == RULE_INDEX ? DT_i64 : ret->type->dtype;
    return result(out, let, out->depth, type_scalar(out->cx, dtype), op_info[op].name);
}

void
builder_close_all(Builder *out, int n)
{
    while (n-- > 0) {
        builder_close(out);
    }
}

/* ---- indices that are data ---- */

Dim
builder_bind(Builder *out, int depth, Value *v, int nattrs, const Attr *attrs)
{
    Let *let = put(out, depth, OP_bind, 1, &v, nattrs, attrs);
    Dim index = dim_index(out->cx, fn_fresh_name(out->fn, "g"), let_dim(let, "extent"));
    let->nsizes = 1;
    let->sizes = cx_copy(out->cx, &index, sizeof index);
    set_home(out, &index, 1, out->path[depth]);
    return index;
}
