/* Products: the parts of a loop marked micro, and what is read after its call.
 *
 * What:     of a call of a microkernel the rows of the next tile, and this call's part of what is
 *           packed next, each as one span of adjacent elements; where its tile is stored.
 * Requires: loops that keep V24.
 * How:      What is packed next is in the loops after those over the tiles, or at the beginning of
 *           the next iteration of the loop around.
 */
#include "product.h"
#include "ir/verify/product.h"
#include "loops.h"

Product
product_of(const Facts *facts, const Let *micro)
{
    CallNest n = {0};
    call_nest(micro, &n); /* V24 */
    Product p = {
        .rows = micro,
        .panels = n.nloops == CALL_LOOPS ? n.loops[1] : NULL,
        .columns = n.loops[n.nloops - 2],
        .sum = n.loops[n.nloops - 1],
        .a = n.a,
        .b = n.b,
        .store = n.store,
        .adds = n.adds,
    };
    p.each = dim_uses(facts->cx, facts_access(facts, p.a)->offset, loop_index(p.columns));
    p.packed = !p.each && is_of_panel(facts->cx, p.b, loop_index(p.sum), loop_index(p.columns));
    return p;
}

static bool
goes_on(const Facts *facts, const Span *span, const Let *loop)
{
    return dim_uses(facts->cx, span->from, loop_index(loop));
}

/* The span in the next iteration of the loop, with as many elements as in this one: the last
 * iteration may have fewer. */
static Span
in_next(const Facts *facts, const Span *span, const Let *loop)
{
    Dim next = dim_add(facts->cx, loop_index(loop), dim_int(facts->cx, 1));
    return (Span){span->of, dim_replace(facts->cx, span->from, loop_index(loop), next),
                  span->count};
}

/* From the first row of A to the last one; nothing where less than half of it is read, or its rows
 * are windows: most of a window was read by the tiles before. */
static Span
rows_of(const Facts *facts, const Product *p)
{
    Cx *cx = facts->cx;
    Dim step, at, row, one = dim_int(cx, 1), length = loop_extent(p->sum);
    if (!dim_affine(cx, facts_access(facts, p->a)->offset, loop_index(p->sum), &step, &at) ||
        !dim_is(cx, step, 1) || !dim_affine(cx, at, loop_index(p->rows), &row, &at) ||
        !dim_affine(cx, at, loop_index(p->columns), &step, &at)) {
        return (Span){0};
    }
    bool dense = dim_le(cx, one, row) && dim_le(cx, row, dim_mul(cx, length, dim_int(cx, 2)));
    Dim before = dim_mul(cx, dim_sub(cx, loop_extent(p->rows), one), row);
    return dense ? (Span){p->a->args[0], at, dim_add(cx, before, length)} : (Span){0};
}

/* The span, if the loops around the call give where it is. */
static Span
given_at(const Facts *facts, const Span *span, const Let *call)
{
    const Let *around = let_around(call);
    bool given = span->of && loops_give(facts->cx, around, span->from) &&
                 loops_give(facts->cx, around, span->count);
    return given ? *span : (Span){0};
}

Span
product_next_rows(const Facts *facts, const Product *p)
{
    const Let *around = let_around(p->rows);
    Span rows = rows_of(facts, p);
    while (around && around->op == OP_for && dim_is(facts->cx, loop_extent(around), 1)) {
        around = let_around(around);
    }
    bool next = rows.of && around && around->op == OP_for && goes_on(facts, &rows, around) &&
                !dim_uses(facts->cx, facts_access(facts, p->b)->offset, loop_index(around));
    rows = next ? in_next(facts, &rows, around) : (Span){0};
    return given_at(facts, &rows, p->rows);
}

Dim
product_first_time(const Facts *facts, const Product *p)
{
    Cx *cx = facts->cx;
    if (p->b->args[0]->def && p->b->args[0]->def->op == OP_buffer) {
        return dim_int(cx, 1);
    }
    const Let *around = let_around(p->rows);
    for (; around && around->op == OP_for; around = let_around(around)) {
        Dim index = loop_index(around);
        if (dim_uses(cx, facts_access(facts, p->b)->offset, index)) {
            break;
        }
        if (dim_uses(cx, facts_access(facts, p->a)->offset, index)) {
            return index;
        }
    }
    return dim_int(cx, 0);
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

/* The first loop in a block from let number k on, or in an `if` there; NULL: there is none. */
static const Let *
loop_from(const Block *body, int k)
{
    const Let *loop = NULL;
    for (; k < body->n && !loop; k++) {
        const Let *let = body->lets[k];
        loop = loop_is(let) ? let : let_is_choice(let) ? loop_from(let->body, 0) : NULL;
    }
    return loop;
}

/* The pack that this loop is, or NULL. */
static const Let *
pack_from(const Block *body, int k)
{
    const Let *loop = loop_from(body, k);
    return loop ? pack_in(loop) : NULL;
}

/* Is the let in the body, or in choices in it? */
static bool
is_right_in(const Let *let, const Block *body)
{
    const Block *blk = let->parent;
    while (blk != body && let_is_choice(blk->owner)) {
        blk = blk->owner->parent;
    }
    return blk == body;
}

/* What a pack reads, in all loops of its own up to the block `in`.  The last panel may have fewer
 * columns than the others: the count is as if it had as many as the first one. */
static Span
packed_span(const Facts *facts, const Let *pack, const Block *in)
{
    Cx *cx = facts->cx;
    Dim zero = dim_int(cx, 0), one = dim_int(cx, 1), count = one, used = one, step, extent;
    const Let *inner = pack;
    while (loop_is(inner->body->lets[0])) {
        inner = inner->body->lets[0];
    }
    const Let *load = inner->body->lets[0];
    bool known = load->op == OP_load;
    Dim from = known ? facts_access(facts, load)->offset : one;
    for (const Let *loop = let_around(load); known; loop = let_around(loop)) {
        extent = loop_extent(loop);
        known = dim_affine(cx, from, loop_index(loop), &step, &from) && dim_le(cx, zero, step);
        count = known ? dim_add(cx, count, dim_mul(cx, dim_sub(cx, extent, one), step)) : count;
        used = dim_mul(cx, used, extent);
        count = dim_replace(cx, count, loop_index(loop), zero);
        used = dim_replace(cx, used, loop_index(loop), zero);
        if (is_right_in(loop, in)) {
            break;
        }
    }
    known = known && dim_le(cx, count, dim_mul(cx, used, dim_int(cx, 2)));
    return known ? (Span){load->args[0], from, count} : (Span){0};
}

/* The part of a span that one call takes in the loops around it that are inside of `to`.  In a loop
 * that may have too many iterations to be numbered each of them takes the same. */
static Span
part_of(const Facts *facts, const Span *span, const Let *call, const Block *to)
{
    Cx *cx = facts->cx;
    Dim number = dim_int(cx, 0);
    enum { MOST_CALLS = 1 << 20 };
    int64_t calls = 1;
    for (const Let *loop = call; !is_right_in(loop, to);) {
        loop = let_around(loop);
        int64_t most = dim_range(cx, loop_extent(loop)).hi;
        if (most > 0 && most <= MOST_CALLS / calls) {
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
    const Let *pack = NULL, *owner = let_around(call);
    for (const Let *at = call; !pack && owner && owner->op == OP_for; owner = let_around(at)) {
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

Span
product_next_pack(const Facts *facts, const Product *p, int64_t most)
{
    const Block *body = NULL;
    const Let *around = NULL, *pack = next_pack(p->rows, &body, &around);
    Span span = pack ? packed_span(facts, pack, body) : (Span){0};
    if (!span.of || (around && !goes_on(facts, &span, around))) {
        return (Span){0};
    }
    Dim room = dim_int(facts->cx, most);
    span = around ? in_next(facts, &span, around) : span;
    span.count = dim_lt(facts->cx, room, span.count) ? room : span.count;
    span = part_of(facts, &span, p->rows, body);
    return given_at(facts, &span, p->rows);
}

/* ---- what is stored after a call ---- */

/* The first loop behind the let that is no call, in its block or behind the `if` that it stands in;
 * NULL: there is none.  *body: the block of that loop. */
static const Let *
loop_behind(const Let *let, const Block **body)
{
    const Let *found = NULL;
    bool behind = false;
    *body = let->parent;
    for (int k = 0; k < (*body)->n && !found; k++) {
        const Let *next = (*body)->lets[k];
        found = behind && loop_is(next) && !loop_is_call(next) ? next : NULL;
        behind |= next == let;
    }
    return found || !let_is_choice((*body)->owner) ? found : loop_behind((*body)->owner, body);
}

/* The first store behind the call that a tile's rows and columns go to; *rows, *columns: the loops
 * over it. */
static const Let *
product_store(const Facts *facts, const Let *micro, const Value *tile, const Let **rows,
              const Let **columns)
{
    const Block *body;
    *rows = loop_behind(micro, &body);
    if (!*rows && body->n == 1 && body->owner->op == OP_for) {
        return product_store(facts, body->owner, tile, rows, columns); /* a loop over places */
    }
    *columns = *rows && (*rows)->body->n ? (*rows)->body->lets[(*rows)->body->n - 1] : NULL;
    if (!*columns || !loop_is(*columns)) {
        return NULL;
    }
    for (int k = 0; k < (*columns)->body->n; k++) {
        const Let *let = (*columns)->body->lets[k];
        const Let *def = let->op == OP_store ? let->args[0]->def : NULL;
        bool late = def && (def->parent == body || def->parent == (*rows)->body);
        if (let->op == OP_store && !late && facts_contiguous(facts, let, loop_index(*columns)) &&
            dtype_info[let->args[0]->type->dtype].bytes == dtype_info[tile->type->dtype].bytes) {
            return let;
        }
    }
    return NULL;
}

ProductResult
product_result(const Facts *facts, const Let *micro, const Value *tile)
{
    Cx *cx = facts->cx;
    const Let *rows, *columns, *store = product_store(facts, micro, tile, &rows, &columns);
    if (!store) {
        return (ProductResult){0};
    }
    Dim row = loop_index(rows), step, rest;
    Dim offset = dim_replace(cx, facts_access(facts, store)->offset, loop_index(columns),
                             dim_int(cx, 0));
    ProductRuns runs;
    if (!dim_affine(cx, offset, row, &step, &rest)) {
        if (!product_runs(cx, offset, row, &runs)) {
            return (ProductResult){0};
        }
        step = runs.step;
        rest = dim_replace(cx, offset, row, dim_int(cx, 0));
    }
    const Let *around = let_around(micro);
    bool given = loops_give(cx, around, rest) && loops_give(cx, around, step);
    return given ? (ProductResult){store, rest, step} : (ProductResult){0};
}
