/* What a call of a microkernel prefetches while it multiplies.
 *
 * What:     marks loops marked micro `prefetch_tile`, if they prefetch the rows of the next tile,
 *           or `prefetch_pack`, if they prefetch so many elements together of what is packed next.
 * Requires: a scheduled function.
 * Ensures:  nothing but speed (V41).
 * How:      A tile of rows is multiplied by all panels of a group.  Then come the next rows, and
 *           after the last ones the next group is packed.  Both come from memory or from a cache
 *           that cores share.  Its latency is hundreds of cycles, and one core reads it at a third
 *           of the speed at which it packs from its own cache.  A call prefetches whichever has
 *           more bytes.  Of what is packed next no more is prefetched than the panels leave of the
 *           second-level cache.  Panels that do not fit there come from farther away themselves:
 *           the call prefetches their rows then, as it does without a mark.
 * Why not:  both at once: the loop of a kernel would need registers that it does not have.
 * Measured: docs/experiments.md, "What a microkernel prefetches".
 * Example:  for i in 14 micro prefetch_tile { .. }
 */
#include "codegen/loops/phase_use.h"
#include "codegen/loops/product.h"
#include "codegen/rewrites.h"

/* As many elements as the panels leave room for in the second-level cache. */
static int64_t
room_beside(Cx *cx, const Value *panels, const Value *v)
{
    int64_t most = dims_most(cx, panels->type->rank, panels->type->dims);
    int64_t taken = most < DLC_L2 ? most * dtype_info[panels->type->dtype].bytes : DLC_L2;
    return taken < DLC_L2 ? (DLC_L2 - taken) / dtype_info[v->type->dtype].bytes : 0;
}

/* At most; of a size that is a symbol the typical one. */
static int64_t
most_bytes(Cx *cx, const Span *span)
{
    int64_t most = span->of ? dim_range(cx, span->count).hi : 0;
    most = most < DIM_INF ? most : dim_typical(cx, span->count);
    return span->of ? most * dtype_info[span->of->type->dtype].bytes : 0;
}

static void
mark_call(const Facts *facts, Let *micro)
{
    Cx *cx = facts->cx;
    Product p = product_of(facts, micro);
    if (!p.packed) {
        return;
    }
    Span tile = product_next_rows(facts, &p), pack = product_next_pack(facts, &p, DIM_INF);
    int64_t room = pack.of ? room_beside(cx, p.b->args[0], pack.of) : 0;
    pack = room > 0 ? product_next_pack(facts, &p, room) : (Span){0};
    if (tile.of && room_beside(cx, p.b->args[0], tile.of) == 0) {
        tile = (Span){0};
    }
    bool packs = most_bytes(cx, &pack) > most_bytes(cx, &tile);
    const Span *span = packs ? &pack : &tile;
    if (most_bytes(cx, span) <= 0 || !fuel_spend(cx)) {
        return;
    }
    if (packs) {
        let_mark_with(cx, micro, MARK_prefetch_pack, room);
    } else {
        let_mark(micro, MARK_prefetch_tile, true);
    }
}

static void
mark_calls(const Facts *facts, Let *let)
{
    if (let_has(let, MARK_micro)) {
        mark_call(facts, let);
    }
    for (int k = 0; let->body && !loop_is_call(let) && k < let->body->n; k++) {
        mark_calls(facts, let->body->lets[k]);
    }
}

static void
mark_phase(const PhaseView *phase, const void *arg)
{
    (void)arg;
    mark_calls(phase->facts, phase->loop);
}

Fn *
rewrite_prefetch_products(Fn *fn)
{
    return phases_visit(fn, mark_phase, NULL);
}
