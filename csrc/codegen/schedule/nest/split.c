/* Loops in two: those that a mark `split` asks for.
 *
 * What:     makes two loops of each loop marked split=n: the outer one counts blocks of n
 *           iterations, the inner one goes over a block.  If the loop is marked reorder too, the
 *           inner one changes places with the loop that was in it, which tiles the two.
 * Requires: a verified function of the loops stage (V55).
 * Ensures:  split alone keeps the order of all iterations, so each bit.  Where the number of
 *           iterations may be no multiple of n, the last block is shorter, by a `min`.
 * How:      inner loops first: of two loops in each other that are marked so and whose outer one is
 *           marked reorder, the blocks of both come outside.  The two get the loop's name with
 *           _out and _in, so that a schedule can name them.
 * Why not   an `if` in the block for the last iterations: a loop with an `if` in it is no vector
 *           loop.
 * Example:  for i in N split=32 { store y[i] = x }  becomes
 *           for i_out in (N + 31)//32 { for i_in in min(32, -32*i_out + N) { store y[.. + i_in] = x
 */
#include <string.h>

#include "codegen/loops/loops.h"
#include "codegen/rewrites.h"
#include "nest.h"

/* ---- an index that becomes others ---- */

/* Indices of the body, and what stands in their places.  Where the extent of a loop or a bind
 * changes, so does its index, which keeps its name. */
typedef struct {
    Cx *cx;
    Dim *from, *to;
    int n;
} Places;

static void
add_place(Places *p, Dim from, Dim to)
{
    p->from = cx_grow(p->cx, p->from, p->n, sizeof *p->from);
    p->to = cx_grow(p->cx, p->to, p->n, sizeof *p->to);
    p->from[p->n] = from;
    p->to[p->n++] = to;
}

static Dim
in_place(const Places *p, Dim d)
{
    for (int k = 0; k < p->n; k++) {
        d = dim_uses(p->cx, d, p->from[k]) ? dim_replace(p->cx, d, p->from[k], p->to[k]) : d;
    }
    return d;
}

static const Dim *
all_in_place(const Places *p, int n, const Dim *dims)
{
    Dim *out = cx_copy(p->cx, dims, (size_t)n * sizeof *out);
    for (int k = 0; k < n; k++) {
        out[k] = in_place(p, out[k]);
    }
    return out;
}

/* The index of a loop or a bind after its extent has been changed. */
static Dim
new_index(Places *p, Dim index, Dim extent)
{
    if (dim_extent(p->cx, index) != extent) {
        Dim to = dim_index(p->cx, dim_name(p->cx, index), extent);
        add_place(p, index, to);
        index = to;
    }
    return index;
}

static void
put_in_value(const Places *p, Value *v)
{
    const Type *t = v->type;
    v->type = type_of(p->cx, t->dtype, t->rank, all_in_place(p, t->rank, t->dims));
    v->strides = v->strides ? all_in_place(p, t->rank, v->strides) : NULL;
}

static void
put_in_block(Places *p, Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        let->attrs = cx_copy(p->cx, let->attrs, (size_t)let->nattrs * sizeof *let->attrs);
        for (int j = 0; j < let->nattrs; j++) {
            Attr *a = &let->attrs[j];
            a->d = a->kind == ATTR_DIM ? in_place(p, a->d) : a->d;
            a->dims = a->kind == ATTR_DIMS ? all_in_place(p, a->n, a->dims) : a->dims;
        }
        for (int j = 0; j < let->nres; j++) {
            put_in_value(p, let->res[j]);
        }
        if (loop_is(let)) {
            Attr *index = nest_attr(let, "index");
            index->d = new_index(p, index->d, loop_extent(let));
        } else if (let->op == OP_bind) {
            let->sizes = cx_copy(p->cx, let->sizes, sizeof *let->sizes);
            let->sizes[0] = new_index(p, let->sizes[0], let_dim(let, "extent"));
        }
        if (let->body) {
            put_in_block(p, let->body);
        }
    }
}

/* ---- two loops of one ---- */

/* The loop's name with the end, or one like it that is free. */
static const char *
name_of(Fn *fn, const char *name, const char *end)
{
    const char *made = cx_format(fn->cx, "%s%s", name, end);
    made = cx_intern(fn->cx, made, strlen(made));
    return fn_take_name(fn, made) ? made : fn_fresh_name(fn, made);
}

static void
set_loop(Fn *fn, Let *loop, const char *name, Dim extent)
{
    loop->attrs = cx_copy(fn->cx, loop->attrs, (size_t)loop->nattrs * sizeof *loop->attrs);
    *nest_attr(loop, "extent") = attr_dim(fn->cx, "extent", extent);
    *nest_attr(loop, "index") = attr_name(fn->cx, "index", name, dim_index(fn->cx, name, extent));
}

static void
split(Fn *fn, Let *loop)
{
    Cx *cx = fn->cx;
    Dim index = loop_index(loop), extent = loop_extent(loop);
    int64_t size = let_mark_value(loop, MARK_split);
    bool reorders = let_has(loop, MARK_reorder);
    Dim by = dim_int(cx, size), most = dim_add(cx, extent, dim_int(cx, size - 1));
    let_mark(loop, MARK_split | MARK_reorder, false);
    Let *inner = let_new(fn, OP_for, 0, NULL, loop->nattrs, loop->attrs);
    inner->loc = loop->loc;
    inner->body = loop->body;
    inner->body->owner = inner;
    loop->body = cx_alloc(cx, sizeof *loop->body);
    loop->body->owner = loop;
    block_append(cx, loop->body, inner);
    const char *name = dim_name(cx, index);
    set_loop(fn, loop, name_of(fn, name, "_out"), dim_div(cx, most, by));
    Dim first = dim_mul(cx, loop_index(loop), by), left = dim_sub(cx, extent, first);
    bool one = dim_range(cx, extent).hi <= size;
    set_loop(fn, inner, name_of(fn, name, "_in"),
             dim_divides(cx, size, extent) ? by
             : one                         ? extent
                                           : dim_min(cx, by, left));
    Places places = {.cx = cx};
    add_place(&places, index, dim_add(cx, first, loop_index(inner)));
    put_in_block(&places, inner->body);
    if (reorders) {
        nest_reorder(inner);
    }
}

Fn *
rewrite_split(Fn *fn)
{
    return nest_visit(fn, MARK_split, split);
}
