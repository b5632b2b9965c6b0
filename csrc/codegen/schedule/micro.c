/* Calls of microkernels: which loops are one, and what it prefetches while it multiplies.
 *
 * What:     micro marks the loops of a product that one call does: `micro`, those that multiply
 *           rows by columns, and `pack`, those that fill the panels which such calls read.
 *           prefetch_products marks loops marked micro `prefetch_tile`, if they prefetch the rows
 *           of the next tile, or `prefetch_pack`, if they prefetch so many elements together of
 *           what is packed next; and the store of a tile `prefetch_tile`, if they prefetch where
 *           it goes.
 * Requires: loops as lowering makes them; for prefetch_products a scheduled function.
 * Ensures:  nothing but speed (V22, V23, V24, V41): without marks the loops are loops, with the
 *           same sums.
 * How:      A sum marked fused says where a product is.  The loops around it are a call if they
 *           have the form of V24.  A loop is a pack if it fills what a call reads as panels, and
 *           has the form of V23.
 *           What to prefetch: a tile of rows is multiplied by all panels of a group.  Then come the
 *           next rows, and after the last ones the next group is packed.  Both come from memory or
 *           from a cache that cores share.  Its latency is hundreds of cycles, and one core reads
 *           it at a third of the speed at which it packs from its own cache.  A call prefetches
 *           whichever has more bytes.  Of what is packed next no more is prefetched than the panels
 *           leave of the second-level cache.  Panels that do not fit there come from farther away
 *           themselves: the call prefetches their rows then, as it does without a mark.
 * Why not:  both at once: the loop of a kernel would need registers that it does not have.
 * Measured: docs/experiments.md, "What a microkernel prefetches".
 * Example:  for i in 14 micro prefetch_tile { .. }
 */
#include "codegen/loops/phase_use.h"
#include "codegen/loops/product.h"
#include "codegen/rewrites.h"
#include "ir/verify/product.h"

/* ---- which loops are calls ---- */

/* The loops outside of others that `select` takes. */
static void
select_loops(const PhaseView *phase, Let *let, bool *panels,
             bool (*select)(const PhaseView *, Let *, bool *))
{
    Cx *cx = phase->fn->cx;
    bool choice = let_enter(cx, let);
    bool taken = !choice && (let->op != OP_for || select(phase, let, panels));
    for (int k = 0; let->body && !taken && k < let->body->n; k++) {
        select_loops(phase, let->body->lets[k], panels, select);
    }
    if (choice) {
        dim_forget(cx);
    }
}

/* Notes what a call reads as panels: columns, and rows that were packed as if they were. */
static bool
select_micro(const PhaseView *phase, Let *loop, bool *panels)
{
    Cx *cx = phase->fn->cx;
    if (!loop_multiplies(cx, loop) || !fuel_spend(cx)) {
        return false;
    }
    let_mark(loop, MARK_micro, true);
    Product p = product_of(phase->facts, loop);
    panels[p.b->args[0]->id] |= p.packed;
    panels[p.a->args[0]->id] |= is_of_panel(cx, p.a, loop_index(p.sum), loop_index(p.rows));
    return true;
}

/* A loop over one panel may have the form, too; the one inside it is taken. */
static bool
select_pack(const PhaseView *phase, Let *loop, bool *panels)
{
    Cx *cx = phase->fn->cx;
    const Value *buffer = loop_packs(cx, loop);
    const Let *inner = loop_inner(loop);
    if (!buffer || !panels[buffer->id] || (inner && inner->op == OP_for && loop_packs(cx, inner)) ||
        !fuel_spend(cx)) {
        return false;
    }
    let_mark(loop, MARK_pack, true);
    return true;
}

static void
micro_phase(const PhaseView *phase, const void *panels)
{
    select_loops(phase, phase->loop, *(bool *const *)panels, select_micro);
}

static void
pack_phase(const PhaseView *phase, const void *panels)
{
    select_loops(phase, phase->loop, *(bool *const *)panels, select_pack);
}

Fn *
rewrite_micro(Fn *fn)
{
    bool *panels = cx_alloc(fn->cx, (size_t)fn->nvalues * sizeof *panels); /* by Value.id */
    return phases_visit(phases_visit(fn, micro_phase, &panels), pack_phase, &panels);
}

/* ---- what they prefetch ---- */

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

/* The store that follows the last call of a tile: each call of that tile prefetches its memory. */
static void
mark_result(const Facts *facts, Let *micro, const Product *p)
{
    ProductResult to = product_result(facts, micro, p->store->args[0]);
    if (to.store && !let_has(to.store, MARK_prefetch_tile) && fuel_spend(facts->cx)) {
        let_mark((Let *)to.store, MARK_prefetch_tile, true);
    }
}

static void
mark_call(const Facts *facts, Let *micro)
{
    Cx *cx = facts->cx;
    Product p = product_of(facts, micro);
    if (!p.packed) {
        return;
    }
    mark_result(facts, micro, &p);
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
