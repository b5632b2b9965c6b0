/* Accesses of buffers, and indices that are data, in the loops under construction.
 *
 * What:     loads and stores of elements of a value, wherever a buffer has them; nests of loops;
 *           binds.
 * Requires: the loops whose indices an access uses are open (builder.c).
 * Ensures:  what a result in place overwrites is loaded where it is stored.
 * Example:  the block's part of a value, from row 14*r on: element [i + 14*r, j] is [i, j]. */
#include <string.h>

#include "lower.h"

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
        int n = buffer->type->rank - 2;
        memcpy(out, f->at, (size_t)n * sizeof *out);
        out[n] = dim_sub(lo->cx, at[f->term], f->start[f->term]);
        out[n + 1] = dim_sub(lo->cx, at[f->column], f->start[f->column]);
        return out;
    }
    for (int ax = 0; origin && ax < buffer->type->rank; ax++) {
        out[ax] = dim_sub(lo->cx, at[ax], origin[ax]);
        for (int k = 1; k <= lo->block_depth; k++) {
            Dim block = lo->out.path[k]->index;
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
    v = builder_const(&lo->out, lo->out.depth, literal, part, buffer->name);
    return part == dtype
               ? v
               : builder_map(&lo->out, OP_complex, 2, (Value *[]){v, v}, dtype, buffer->name);
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
    if (type_is_empty(lo->cx, buffer->type)) {
        return load_of_nothing(lo, buffer);
    }
    Dim out[MAX_RANK];
    int rank = buffer->type->rank, depth = builder_depth(&lo->out, rank, at);
    int made = builder_depth_of_value(&lo->out, buffer);
    depth = is_overwritten(lo, buffer) ? lo->out.depth : depth > made ? depth : made;
    return builder_load(&lo->out, depth, buffer, place(lo, buffer, at, out));
}

Value *
lower_load_here(Lower *lo, Value *buffer, const Dim *at)
{
    Dim out[MAX_RANK];
    return builder_load(&lo->out, lo->out.depth, buffer, place(lo, buffer, at, out));
}

void
lower_store(Lower *lo, Value *buffer, const Dim *at, Value *value)
{
    Dim out[MAX_RANK];
    builder_store(&lo->out, buffer, place(lo, buffer, at, out), value);
}

void
nest_open(Lower *lo, const Nest *nest, Dim *axes)
{
    memcpy(axes, nest->axis, (size_t)nest->naxes * sizeof *axes);
    for (int k = 0; k < nest->nloops; k++) {
        Dim index = builder_open(&lo->out, "i", nest->count[k]);
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
    int made = builder_depth_of_value(&lo->out, v);
    for (int depth = lo->out.depth; depth > made; depth--) {
        const Frame *frame = lo->out.path[depth];
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
    if (*known == DIM_NONE || !builder_is_open(&lo->out, *known)) {
        /* Of an empty axis no element is loaded, and what no phase uses is not in it. */
        bool empty = dim_range(lo->cx, extent).hi <= 0;
        int depth = empty ? lo->out.depth : check_depth(lo, v, n, to);
        Attr attrs[] = {
            attr_dim(lo->cx, "extent", extent),
            attr_int(lo->cx, "wrap", wrap),
        };
        *known = builder_bind(&lo->out, depth, v, 2, attrs);
    }
    return *known;
}
