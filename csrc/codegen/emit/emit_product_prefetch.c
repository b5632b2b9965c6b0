/* What a call of a microkernel prefetches while it multiplies, for both tiers.
 *
 * Problem:  A tile of rows is multiplied by all panels of a group.  Then come the next rows, and
 *           after the last ones the next group is packed.  Both come from memory or from a cache
 *           that cores share.  Its latency is hundreds of cycles, and one core reads it at a third
 *           of the speed at which it packs from its own cache.
 * How:      The call takes one span of adjacent elements (MicroProduct.prefetched) and prefetches
 *           it evenly, some bytes in each step of its sums.  That is the rows of the next tile, or
 *           this call's part of what is packed next, whichever has more bytes.  What is packed next
 *           is in the loops after those over the tiles, or at the beginning of the next iteration
 *           of the loop around.
 * Limits:   Of what is packed next no more is prefetched than the panels leave of the second-level
 *           cache.  Panels that do not fit there come from farther away themselves: the call
 *           prefetches their rows then, as it does without a span.  A span of which less than half
 *           is read is not prefetched.
 * Why not:  both at once: the loop of a kernel would need registers that it does not have.
 * Measured: docs/experiments.md, "What a microkernel prefetches".
 */
#include "emit.h"

static bool
goes_on(Emit *e, const Span *span, const Let *loop)
{
    return dim_uses(e->cx, span->from, loop_index(loop));
}

/* The span in the next iteration of the loop, with as many elements as in this one: the last
 * iteration may have fewer. */
static Span
in_next(Emit *e, const Span *span, const Let *loop)
{
    Dim next = dim_add(e->cx, loop_index(loop), dim_int(e->cx, 1));
    return (Span){span->of, dim_replace(e->cx, span->from, loop_index(loop), next), span->count};
}

/* As many elements as the panels leave room for in the second-level cache. */
static int64_t
room_beside(Cx *cx, const Value *panels, const Value *v)
{
    int64_t most = dims_most(cx, panels->type->rank, panels->type->dims);
    int64_t taken = most < DLC_L2 ? most * dtype_info[panels->type->dtype].bytes : DLC_L2;
    return taken < DLC_L2 ? (DLC_L2 - taken) / dtype_info[v->type->dtype].bytes : 0;
}

/* The rows of the next tile, if the innermost loop goes on to other rows and the same panels. */
static Span
rows_of_next(Emit *e, const Let *loop, const Let *b, const Span *rows)
{
    const Let *around = loop->parent->owner;
    while (around && around->op == OP_for && dim_is(e->cx, loop_extent(around), 1)) {
        around = around->parent->owner;
    }
    bool next = rows->of && around && around->op == OP_for && goes_on(e, rows, around) &&
                room_beside(e->cx, b->args[0], rows->of) > 0 &&
                !dim_uses(e->cx, access_offset(e, b), loop_index(around));
    return next ? in_next(e, rows, around) : (Span){0};
}

/* The loop marked pack that is all that the loops around it do, or NULL. */
static const Let *
pack_in(const Let *let)
{
    while (loop_is(let) && !let_has(let, MARK_pack)) {
        let = let->body->n == 1 ? let->body->lets[0] : NULL;
        if (!let) {
            return NULL;
        }
    }
    return loop_is(let) ? let : NULL;
}

/* The first pack in a block from let number k on, before the next loop that does anything else. */
static const Let *
pack_from(const Block *body, int k)
{
    const Let *pack = NULL;
    for (bool loop = false; k < body->n && !loop && !pack; k++) {
        loop = loop_is(body->lets[k]);
        pack = loop ? pack_in(body->lets[k]) : NULL;
    }
    return pack;
}

/* What a pack reads, in all loops of its own up to the block `in`.  The last panel may have fewer
 * columns than the others: the count is as if it had as many as the first one. */
static Span
packed_span(Emit *e, const Let *pack, const Block *in)
{
    Cx *cx = e->cx;
    Dim zero = dim_int(cx, 0), one = dim_int(cx, 1), count = one, used = one, step, extent;
    const Let *inner = pack;
    while (loop_is(inner->body->lets[0])) {
        inner = inner->body->lets[0];
    }
    const Let *load = inner->body->lets[0];
    bool known = load->op == OP_load;
    Dim from = known ? access_offset(e, load) : one;
    for (const Let *loop = load->parent->owner; known; loop = loop->parent->owner) {
        extent = loop_extent(loop);
        known = dim_affine(cx, from, loop_index(loop), &step, &from) && dim_le(cx, zero, step);
        count = known ? dim_add(cx, count, dim_mul(cx, dim_sub(cx, extent, one), step)) : count;
        used = dim_mul(cx, used, extent);
        count = dim_replace(cx, count, loop_index(loop), zero);
        used = dim_replace(cx, used, loop_index(loop), zero);
        if (loop->parent == in) {
            break;
        }
    }
    known = known && dim_le(cx, count, dim_mul(cx, used, dim_int(cx, 2)));
    return known ? (Span){load->args[0], from, count} : (Span){0};
}

/* The part of a span that one call takes in the loops around it that are inside of `to`.  In a loop
 * that may have more iterations than the second-level cache has bytes each of them takes the
 * same. */
static Span
part_of(Emit *e, const Span *span, const Let *call, const Block *to)
{
    Cx *cx = e->cx;
    Dim number = dim_int(cx, 0);
    int64_t calls = 1;
    for (const Let *loop = call; loop->parent != to;) {
        loop = loop->parent->owner;
        int64_t most = dim_range(cx, loop_extent(loop)).hi;
        if (most > 0 && most <= DLC_L2 / calls) {
            number = dim_add(cx, number, dim_mul(cx, dim_int(cx, calls), loop_index(loop)));
            calls *= most;
        }
    }
    Dim up = dim_add(cx, span->count, dim_int(cx, calls - 1)),
        part = dim_div(cx, up, dim_int(cx, calls));
    return (Span){span->of, dim_add(cx, span->from, dim_mul(cx, part, number)), part};
}

/* The pack that comes next, in a block *body of a loop around the call.  *around: that loop, if the
 * pack comes in its next iteration, else NULL.  Loops of the kernel's own block are not looked at:
 * they may be another phase's, whose tensors this one does not have. */
static const Let *
next_pack(const Let *call, const Block **body, const Let **around)
{
    const Let *pack = NULL, *owner = call->parent->owner;
    for (const Let *at = call; !pack && owner && owner->op == OP_for; owner = at->parent->owner) {
        int k = 0;
        *body = at->parent;
        while ((*body)->lets[k] != at) {
            k++;
        }
        pack = pack_from(*body, k + 1);
        *around = pack ? NULL : owner;
        pack = pack ? pack : pack_from(*body, 0);
        at = owner;
    }
    return pack;
}

/* This call's part of what is packed next. */
static Span
packed_next(Emit *e, const Let *call, const Let *b)
{
    const Block *body = NULL;
    const Let *around = NULL, *pack = next_pack(call, &body, &around);
    Span span = pack ? packed_span(e, pack, body) : (Span){0};
    if (!span.of || (around && !goes_on(e, &span, around))) {
        return (Span){0};
    }
    Dim room = dim_int(e->cx, room_beside(e->cx, b->args[0], span.of));
    span = around ? in_next(e, &span, around) : span;
    span.count = dim_lt(e->cx, room, span.count) ? room : span.count;
    return part_of(e, &span, call, body);
}

/* At most; of a size that is a symbol the typical one. */
static int64_t
most_bytes(Emit *e, const Span *span)
{
    int64_t most = span->of ? dim_range(e->cx, span->count).hi : 0;
    most = most < DIM_INF ? most : dim_typical(e->cx, span->count);
    return span->of ? most * dtype_info[span->of->type->dtype].bytes : 0;
}

void
put_prefetched(Emit *e, const Let *loop, const Let *b, const Span *rows)
{
    Cx *cx = e->cx;
    Span next = rows_of_next(e, loop, b, rows), packed = packed_next(e, loop, b);
    const Span *span = most_bytes(e, &packed) > most_bytes(e, &next) ? &packed : &next;
    const Let *around = loop->parent->owner;
    if (most_bytes(e, span) > 0 && loops_give(cx, around, span->from) &&
        loops_give(cx, around, span->count)) {
        int bytes = dtype_info[span->of->type->dtype].bytes;
        put(e, "    .prefetched = %s + %s, .prefetched_bytes = %s,", name_c(e, span->of),
            dim_c(e, span->from), dim_c(e, dim_mul(cx, span->count, dim_int(cx, bytes))));
    }
}
