/* Dead: drops lets that no result and no effect needs.
 *
 * What:     marks backwards from the results and from calls with effects, and rebuilds what is
 *           marked.
 * Requires  a verified graph;
 * and ensures: every let has a use, or an effect.
 * How:      one walk backwards over the lets: a let's users come after it.  O(lets).  A dropped
 *           let spends a unit of fuel; without fuel it stays, with what it needs.
 * Why not   leave it to the grouping: dead readers would count as traffic, and calls would run for
 *           nothing.
 * Example:  let u: f32[N] = exp x with no use of u is gone; a call with effect=1 never is.
 */
#include "group.h"

static void
need(bool *needed, int n, Value *const *values)
{
    for (int k = 0; k < n; k++) {
        if (!value_is_const(values[k])) {
            needed[values[k]->id] = true;
        }
    }
}

static bool
is_needed(Cx *cx, const Let *let, const bool *needed)
{
    bool live = let->nsizes || let_has_effect(let);
    for (int k = 0; k < let->nres; k++) {
        live |= needed[let->res[k]->id];
    }
    return live || !fuel_spend(cx);
}

Fn *
pass_dead(Fn *fn)
{
    Value **map;
    Fn *out = rebuild_open(fn, fn->stage, &map);
    Build *b = build_new(out);
    bool *needed = cx_alloc(fn->cx, ((size_t)fn->nvalues + 1) * sizeof *needed);
    bool *live = cx_alloc(fn->cx, ((size_t)fn->body->n + 1) * sizeof *live);
    need(needed, fn->body->nrets, fn->body->rets);
    for (int k = fn->body->n - 1; k >= 0; k--) {
        const Let *let = fn->body->lets[k];
        live[k] = is_needed(fn->cx, let, needed);
        if (live[k]) {
            need(needed, let->nargs, let->args);
        }
    }
    for (int k = 0; k < fn->body->n; k++) {
        if (live[k]) {
            build_again(b, fn->body->lets[k], map);
        }
    }
    return rebuild_close(fn, out, map);
}
