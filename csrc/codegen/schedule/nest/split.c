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
 *           cut splits loops in others that read a tensor of panels: a vector runs along
 *           one.
 * Why not   an `if` in the block for the last iterations: a loop with an `if` in it is no vector
 *           loop.
 * Example:  for i in N split=32 { store y[i] = x }  becomes
 *           for i_out in (N + 31)//32 { for i_in in min(32, -32*i_out + N) { store y[.. + i_in] = x
 */
#include <string.h>

#include "codegen/loops/facts.h"
#include "codegen/loops/loops.h"
#include "codegen/rewrites.h"
#include "nest.h"

/* ---- an index that becomes others ---- */

/* The index of a loop or a bind after its extent has been changed.  It keeps its name. */
static Dim
new_index(Cx *cx, Renamed *places, Dim index, Dim extent)
{
    if (dim_extent(cx, index) != extent) {
        Dim to = dim_index(cx, dim_name(cx, index), extent);
        renamed_add(cx, places, index, to);
        index = to;
    }
    return index;
}

static const Dim *
renamed_dims(Cx *cx, const Renamed *places, int n, const Dim *dims)
{
    Dim *out = cx_copy(cx, dims, (size_t)n * sizeof *out);
    dims_rename(cx, places, n, out);
    return out;
}

static void
put_in_value(Cx *cx, const Renamed *places, Value *v)
{
    const Type *t = v->type;
    v->type = type_of(cx, t->dtype, t->rank, renamed_dims(cx, places, t->rank, t->dims));
    v->strides = v->strides ? renamed_dims(cx, places, t->rank, v->strides) : NULL;
}

static void
put_in_block(Cx *cx, Renamed *places, Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        let_rename(cx, places, let);
        for (int j = 0; j < let->nres; j++) {
            put_in_value(cx, places, let->res[j]);
        }
        if (loop_is(let)) {
            Attr *index = nest_attr(let, "index");
            index->d = new_index(cx, places, index->d, loop_extent(let));
        } else if (let->op == OP_bind) {
            let->sizes = cx_copy(cx, let->sizes, sizeof *let->sizes);
            let->sizes[0] = new_index(cx, places, let->sizes[0], let_dim(let, "extent"));
        }
        if (let->body) {
            put_in_block(cx, places, let->body);
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

Let *
nest_split(Fn *fn, Let *loop, int64_t size)
{
    Cx *cx = fn->cx;
    Dim index = loop_index(loop), extent = loop_extent(loop);
    Dim by = dim_int(cx, size), most = dim_add(cx, extent, dim_int(cx, size - 1));
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
    Renamed places = {0};
    renamed_add(cx, &places, index, dim_add(cx, first, loop_index(inner)));
    put_in_block(cx, &places, inner->body);
    return inner;
}

static void
split(Fn *fn, Let *loop)
{
    int64_t size = let_mark_value(loop, MARK_split);
    bool reorders = let_has(loop, MARK_reorder);
    let_mark(loop, MARK_split | MARK_reorder, false);
    Let *inner = nest_split(fn, loop, size);
    if (reorders) {
        nest_reorder(inner);
    }
}

Fn *
rewrite_split(Fn *fn)
{
    return nest_visit(fn, MARK_split, split);
}

/* ---- loops over several panels ---- */

/* The columns of a panel, if the load is of one of several in each of which the index goes on, and
 * which do not lie behind each other; else 0. */
static int64_t
panel_read(Cx *cx, const Let *load, Dim index)
{
    const Attr *at = load->op == OP_load ? let_attr(load, "at") : NULL;
    const Type *t = at ? load->args[0]->type : NULL;
    int64_t width = 0, n = 0;
    bool columns = at && at->n > 2 && dim_is_int(cx, t->dims[at->n - 1], &width) &&
                   dim_is_int(cx, dim_extent(cx, index), &n) && n > width && n % width == 0 &&
                   at->dims[at->n - 1] == dim_mod(cx, index, t->dims[at->n - 1]);
    bool behind = columns &&
                  (dim_uses(cx, at->dims[at->n - 2], index) || dim_is(cx, t->dims[at->n - 2], 1));
    return columns && width > 1 && !behind ? width : 0;
}

/* Of a loop without others in it. */
static int64_t
panels_read_by(Cx *cx, const Let *loop)
{
    int64_t width = 0;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        int64_t one = panel_read(cx, let, loop_index(loop));
        width = one ? one : width;
        if (let->body) {
            return 0;
        }
    }
    return width;
}

static int
cut_block(Fn *fn, Block *blk, bool inside)
{
    int n = 0;
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        bool marked = let->op == OP_for && let_int(let, "marks") != 0;
        bool plain = inside && let->op == OP_for && !marked;
        int64_t width = plain ? panels_read_by(fn->cx, let) : 0;
        if (width && fuel_spend(fn->cx)) {
            nest_split(fn, let, width);
            n++;
        } else if (let->body && !marked) { /* a call of a microkernel has the loops it has */
            n += cut_block(fn, let->body, inside || let->op == OP_for);
        }
    }
    return n;
}

Fn *
rewrite_cut(Fn *fn)
{
    if (cut_block(fn, fn->body, false)) {
        facts_forget(fn);
    }
    return fn;
}
