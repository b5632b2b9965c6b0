/* Non-temporal stores: which stores bypass the caches.
 *
 * What:     marks stores `nontemporal` whose tensors, or whose phase, may be larger than caches,
 *           and vector loops `streams` that run over whole lines for them.
 * Requires: a scheduled function: vector loops, tiles and recurrences are marked, and loops whose
 *           rows run together.
 * Ensures:  nothing but speed: a marked store goes along adjacent elements, and the loop has no
 *           other access to its tensor (V33).
 * How:      A non-temporal store writes whole lines, which are not read before, and leaves what the
 *           caches hold.  The next kernel then reads from memory: so only what caches cannot hold
 *           anyway, by the bytes of the tensor and of all that the phase goes through.  For a tile
 *           the store's tensor alone decides: a tile's rows are short and wait for each line that
 *           they write.  If a size is a symbol, it decides when the phase runs.
 *           A loop streams if memory is slower than its operations.  Rows too short for that may
 *           still run together (emit_cc_flat.c, emit_tcc_grid.c), so their stores are marked too.
 *           What depends on the target is in its row of targets.def: libtcc's code asks no sizes
 *           when it runs, and its strips store floats to memory themselves, however much is
 *           computed before.  Of doubles a tile was stored later, and took a tenth longer.
 * Example:  let x: f32[16777216]; for i in 16777216 parallel vector streams {
 *               .. store y[i] = v nontemporal=20971520 footprint=41943040 }
 */
#include "codegen/loops/phase_use.h"
#include "codegen/loops/scan.h"
#include "codegen/rewrites.h"

typedef struct {
    Cx *cx;
    const TargetInfo *target;
    const Facts *facts;
    Range bytes; /* of the phase */
    bool sizes_known; /* stores whose tensor may be small when the phase runs are not marked */
} Phased;

/* Is the condition met, for all sizes or for some? */
static bool
is_met(const Phased *p, int known)
{
    return p->sizes_known ? known == 1 : known != 0;
}

/* Is the store its tensor's only access in the loop, and is its result not in place? */
static bool
is_alone(const Let *store)
{
    const Block *blk = store->parent;
    int accesses = 0;
    for (int k = 0; k < blk->n; k++) {
        accesses += let_accesses(blk->lets[k]) && blk->lets[k]->args[0] == store->args[0];
    }
    return accesses == 1 && !store->args[0]->over;
}

static bool
is_huge(const Phased *p, const Let *store)
{
    int phase = p->bytes.lo >= DLC_HUGE ? 1 : p->bytes.hi < DLC_HUGE ? 0 : -1;
    return is_met(p, phase) && is_met(p, access_is_large(p->cx, store, DLC_HUGE / 2));
}

/* Where several rows run together, do those that are stored follow each other? */
static bool
has_gap(const Phased *p, const Let *loop, const Let *store)
{
    const Let *rows = let_around(loop);
    const Step *next = let_has(rows, MARK_grid) ? facts_step(p->facts, store, loop_index(rows))
                                                : NULL;
    return let_has(rows, MARK_grid) && !(next && next->step == loop_extent(loop));
}

/* May the store along the loop be non-temporal? */
static bool
may_bypass(const Phased *p, const Let *loop, const Let *store)
{
    if (store->op != OP_store || !facts_adjacent_bytes(p->facts, store, loop_index(loop)) ||
        !is_alone(store) || has_gap(p, loop, store)) {
        return false;
    }
    bool tile = let_around(loop) && let_has(let_around(loop), MARK_tile);
    return tile ? is_met(p, access_is_large(p->cx, store, DLC_LARGE)) : is_huge(p, store);
}

static void
mark_store(const Phased *p, const Let *loop, Let *store)
{
    if (let_has(let_around(loop), MARK_tile)) {
        let_mark_with(p->cx, store, MARK_nontemporal, DLC_LARGE);
    } else {
        let_mark_with(p->cx, store, MARK_nontemporal, DLC_HUGE / 2);
        let_mark_with(p->cx, store, MARK_footprint, DLC_HUGE);
    }
}

/* So many elements of each store wait in its array: of a row of a tile, of a block of rows that run
 * as one, of a strip; of a line. */
static int64_t
array_of(const Phased *p, const Let *loop)
{
    const Let *rows = let_around(loop);
    int64_t n = 0, flat = let_mark_value(rows, MARK_flat);
    dim_is_int(p->cx, loop_extent(loop), &n);
    return let_has(rows, MARK_tile) || let_has(loop, MARK_strip) ? loop_width(loop)
           : flat                                                ? flat * n
                                                                 : DLC_LANES;
}

/* Marks the loop's stores, if they are few enough; true: it has some. */
static bool
mark_stores(const Phased *p, const Let *loop, int most)
{
    int stores = 0;
    for (int k = 0; k < loop->body->n; k++) {
        stores += may_bypass(p, loop, loop->body->lets[k]);
    }
    if (stores == 0 || stores > most || !fuel_spend(p->cx)) {
        return false;
    }
    for (int k = 0; k < loop->body->n; k++) {
        Let *store = loop->body->lets[k];
        if (may_bypass(p, loop, store)) {
            mark_store(p, loop, store);
        }
        if (p->target->costs.staged_stores && let_has(store, MARK_nontemporal)) {
            let_mark_with(p->cx, store, MARK_array, array_of(p, loop));
        }
    }
    return true;
}

/* The store of a scan that a routine does for several rows at a time.  The routine is told whether
 * the tensor is large, by either target. */
static void
mark_scan(const Phased *p, const Let *recurrences)
{
    Phased told = *p;
    told.sizes_known = false;
    Scan s;
    if (let_has(recurrences, MARK_scan) && scan_alone(p->facts, recurrences, &s) && s.at_once &&
        may_bypass(&told, s.loop, s.store) && fuel_spend(p->cx)) {
        mark_store(p, s.loop, (Let *)s.store);
    }
}

/* Do iterations of the loop compute, load and store alone, and nothing for another one? */
static bool
is_independent(const Let *loop)
{
    bool updates = false;
    for (int k = 0; k < loop->body->n; k++) {
        updates |= loop->body->lets[k]->op == OP_update || loop->body->lets[k]->op == OP_buffer;
    }
    return !updates;
}

static bool
stores_f32(const Let *loop)
{
    bool floats = true;
    for (int k = 0; k < loop->body->n; k++) {
        const Let *let = loop->body->lets[k];
        floats &= let->op != OP_store || let->args[0]->type->dtype == DT_f32;
    }
    return floats;
}

/* Is memory slower than its operations, over enough iterations? */
static bool
memory_limits(const Phased *p, const Let *loop)
{
    const LoopFacts *l = facts_loop(p->facts, loop);
    int most = stores_f32(loop) ? p->target->costs.streamed_f32 : COST_STREAMED;
    return is_independent(loop) && !l->loops && l->cost <= most &&
           !let_has(loop, MARK_distribute) &&
           dim_range(p->cx, loop_extent(loop)).hi >= DLC_STREAMED;
}

static bool
mark_loop(Let *loop, void *phased)
{
    const Phased *p = phased;
    const Let *rows = let_around(loop);
    bool runs_with_others = let_has(rows, MARK_flat) ||
                            (let_has(rows, MARK_grid) && dim_range(p->cx, loop_extent(loop)).hi <=
                                                             let_mark_value(rows, MARK_grid_row));
    if (loop->op != OP_for) {
        return true;
    }
    if (let_has(loop, MARK_recurrences)) {
        mark_scan(p, loop);
    } else if (let_has(rows, MARK_tile)) {
        if (!p->target->costs.staged_stores || let_has(loop, MARK_width)) { /* that of the arrays */
            mark_stores(p, loop, loop->body->n);
        }
    } else if (let_has(loop, MARK_vector) && memory_limits(p, loop)) {
        let_mark(loop, MARK_streams, mark_stores(p, loop, p->target->costs.nontemporal_stores));
    } else if (runs_with_others) {
        mark_stores(p, loop, p->target->costs.nontemporal_stores);
    }
    return true;
}

static void
mark_phase(const PhaseView *phase, const void *arg)
{
    Cx *cx = phase->fn->cx;
    const TargetInfo *target = target_of(phase->fn);
    Phased p = {
        .cx = cx,
        .target = target,
        .facts = phase->facts,
        .bytes = dim_range(cx, phase_use(phase->fn, phase->loop).bytes),
        .sizes_known = !target->branches,
    };
    (void)arg;
    phase_visit_loops(phase, mark_loop, &p);
}

Fn *
rewrite_nontemporal(Fn *fn)
{
    return phases_visit(fn, mark_phase, NULL);
}
