/* What needs no array of the tile.
 *
 * What:     marks loads `merged` that are read where they are in memory, elements of a tile and
 *           single ones, and stores that the primitive does which computes their value.  Takes the
 *           mark away from what the primitive of its user cannot have: merge.c does not know tiles
 *           and grids.
 * Requires: the walk at the access: what is before it in the phase has been seen.
 * Ensures:  nothing has stored to what is read in its place in memory before it is used (V50).
 * How:      all of a block is one change.  Elements must be adjacent, or one for all, and of a
 *           dtype that is computed in as it is stored.  A non-temporal store needs a primitive
 *           that stores so.
 * Why not:  copy what is one for all: a call for each, where there is none.
 * Example:  let a: f32 = load x[i] merged  let b: f32 = load m[j] merged  let c: f32 = mul a, b
 *           store y[i] = c merged
 */
#include "tiles.h"

const Pairs *
tiles_pairs(View *v)
{
    if (v->found->kernel != v->facts->kernel) {
        v->found->kernel = v->facts->kernel;
        v->found->pairs = pairs_find(v->cx, v->phase->fn->nvalues, v->facts->kernel->body);
    }
    return v->found->pairs;
}

void
tiles_merge(View *v, const Let *let)
{
    if (v->asked != let->parent) {
        v->asked = let->parent;
        v->may = fuel_spend(v->cx);
    }
    if (v->may) {
        let_mark((Let *)let, MARK_merged, true);
    }
}

static void
take_merged(const View *v, const Let *let)
{
    if (let_has(let, MARK_merged) && fuel_spend(v->cx)) {
        let_mark((Let *)let, MARK_merged, false);
    }
}

/* ---- loads ---- */

static bool
is_adjacent(const View *v, const Walk *walk)
{
    return walk->kind == WALK_FLAT && dim_is(v->cx, walk->step, 1);
}

/* Has a buffer of each iteration its elements side by side? */
static bool
is_laned(const View *v, const Value *buffer)
{
    return v->loop && buffer_is_private(buffer) && v->differs[buffer->id];
}

/* Does its user's primitive take it as it is stored, in a dtype that is not computed in? */
static bool
is_half(View *v, const Let *load, const Walk *walk)
{
    bool at_rows = v->grid && !v->is_long && !v->tile.row;
    bool along = is_adjacent(v, walk) || let_has(load, MARK_transpose);
    return let_has(load, MARK_merged) && !at_rows && along &&
           tiles_pairs(v)->of[load->res[0]->id].half;
}

/* Is it read where it is: elements that are adjacent, or one for all? */
static bool
is_read_there(const View *v, const Let *load, const Walk *walk)
{
    bool one = !v->differs[load->res[0]->id];
    bool many = v->loop && (is_adjacent(v, walk) || is_laned(v, load->args[0]) ||
                            let_has(load, MARK_transpose));
    return (one || many) && !is_narrow(load->res[0]->type->dtype) && !load_is_stored_later(load) &&
           load_is_unchanged(load);
}

void
tiles_place_load(View *v, const Let *load, const Walk *walk, bool in_place)
{
    if (is_read_there(v, load, walk)) {
        tiles_merge(v, load);
    } else if (!in_place && !is_half(v, load, walk)) {
        take_merged(v, load);
    }
}

/* ---- sizes ---- */

/* Is the index compared with one value for all, or with one for each row? */
static bool
is_compared(View *v, const Let *size, const Let *user)
{
    const Value *other = user->args[user->args[0] == size->res[0]];
    bool each = v->tile.differs(v, other);
    Walk walk = walk_of(&v->tile, let_dim(size, "dim"));
    bool along_rows = v->tile.row && walk.kind == WALK_GRID && dim_is(v->cx, walk.step, 1) &&
                      dim_is(v->cx, walk.row_step, 0);
    return (is_adjacent(v, &walk) && !each) ||
           (along_rows && each && user->op != OP_eq && other->def->parent == v->grid->body);
}

void
tiles_place_size(View *v, const Let *size)
{
    const Let *user = let_has(size, MARK_merged) ? tiles_pairs(v)->of[size->res[0]->id].user : NULL;
    if (v->differs[size->res[0]->id] && !(user && is_compared(v, size, user))) {
        take_merged(v, size);
    }
}

/* ---- operations ---- */

void
tiles_place_map(View *v, const Let *let, bool in_place)
{
    const Pairs *pairs = tiles_pairs(v);
    const Pair *pair = &pairs->of[let->res[0]->id];
    const Let *taken[] = {pair->first, pair->other};
    if (!pair->strip || in_place || pairs_takes(pairs, &v->tile, let)) {
        return;
    }
    for (int k = 0; k < 2; k++) {
        if (taken[k] && v->differs[taken[k]->res[0]->id]) {
            take_merged(v, taken[k]);
        }
    }
}

/* ---- stores ---- */

/* Is the value read where it is in memory? */
static bool
is_in_memory(const View *v, const Value *value)
{
    const Let *load = value->def && value->def->op == OP_load ? value->def : NULL;
    return load && (let_has(load, MARK_merged) || !v->differs[value->id]);
}

/* The first store of what the block's last computing let makes.  Nothing behind it stores what is
 * still in memory. */
static const Let *
sole_store(const View *v, const Let *let)
{
    const Block *blk = let->parent;
    const Let *store = NULL;
    for (int k = place_of(let) + 1; k < blk->n; k++) {
        const Let *after = blk->lets[k];
        if (after->op != OP_store ||
            (!literal_of(after->args[1]) && after->args[1] != let->res[0] &&
             is_in_memory(v, after->args[1]))) {
            return NULL;
        }
        store = after->args[1] == let->res[0] && !store ? after : store;
    }
    return store;
}

/* Does the primitive that computes the let store as the store is marked?  One that stores
 * nontemporally leaves no value to others. */
static bool
can_store(View *v, const Let *let, const Let *store)
{
    const Let *loop = let_around(store);
    bool streams = v->tile.row || let_has(loop, MARK_streams) ||
                   let_has(let_around(loop), MARK_tile);
    if (!streams || !let_has(store, MARK_nontemporal)) {
        return true;
    }
    const Pairs *pairs = tiles_pairs(v);
    Primitive of = pairs_primitive(pairs, &v->tile, let, pairs_takes(pairs, &v->tile, let));
    return pairs->uses[let->res[0]->id] == 1 && pairs_bypassing(of.strip, of.mask);
}

void
tiles_place_store(View *v, const Let *store)
{
    const Value *value = store->args[1];
    const Let *let = value_is_const(value) ? NULL : value->def;
    Dtype dtype = store->args[0]->type->dtype;
    if (!v->loop || !let || let->parent != store->parent || !let_is_map(let) ||
        !v->differs[value->id] || value->type->dtype != dtype || is_narrow(dtype) ||
        (loop_is_recurrence(let_around(let)) && loop_carried(let))) {
        return;
    }
    Walk walk = walk_of(&v->tile, facts_access(v->facts, store)->offset);
    if (!is_adjacent(v, &walk) && !is_laned(v, store->args[0])) {
        return;
    }
    const Let *own = pairs_store(tiles_pairs(v), let);
    own = own ? own : sole_store(v, let);
    if (own == store && can_store(v, let, store)) {
        tiles_merge(v, store);
    }
}
