/* Idle stores: those of results in place that store what is there.
 *
 * What:     drops stores that change nothing, what is computed for them alone, and loops that have
 *           no others.
 * Requires: the loops stage as lowering leaves it: the loops of a result in place store each of its
 *           elements.
 * Ensures:  the same elements in all memory.
 * How:      a store is idle if it puts what was loaded from the element there, of the value whose
 *           memory the result takes, or of the same tensor in a loop of steps.  First whole phases
 *           go, then single stores, last lets first.
 * Why not:  while lowering: only the loops say whether all of a group's stores are idle.
 * Example:  let y over x = kernel { where(m, 0, x) for the first rows, x for the others }: the loop
 *           over the others goes.
 */
#include <string.h>

#include "codegen/loops/facts.h"
#include "codegen/loops/loops.h"
#include "codegen/rewrites.h"

/* Does the store, in a loop of steps, put back what the let before it has loaded from the element,
 * with nothing written between? */
static bool
puts_back(const Let *store, const Let *load)
{
    bool same = load->args[0] == store->args[0] && load->parent == store->parent &&
                same_index(load, store);
    for (int k = same ? place_of(store) - 1 : -1; same && store->parent->lets[k] != load; k--) {
        const Let *between = store->parent->lets[k];
        same = !between->body && !let_writes(between);
    }
    return same;
}

static bool
changes_nothing(const Let *store)
{
    const Value *v = store->op == OP_store ? store->args[1] : NULL;
    bool loaded = v && !value_is_const(v) && v->def->op == OP_load;
    return store_is_idle(store) || (loaded && puts_back(store, v->def));
}

static bool
all_unchanged(const Block *blk)
{
    bool unchanged = true;
    for (int k = 0; k < blk->n && unchanged; k++) {
        const Let *let = blk->lets[k];
        unchanged = let_writes(let) ? changes_nothing(let) : !let->body || all_unchanged(let->body);
    }
    return unchanged;
}

static void
add_uses(int *uses, int nvalues, Value *const *values, int by)
{
    for (int k = 0; k < nvalues; k++) {
        uses[value_is_const(values[k]) ? 0 : values[k]->id] += by;
    }
}

static void
count_uses(int *uses, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        add_uses(uses, blk->lets[k]->nargs, blk->lets[k]->args, 1);
        if (blk->lets[k]->body) {
            count_uses(uses, blk->lets[k]->body);
        }
    }
    add_uses(uses, blk->nrets, blk->rets, 1);
}

/* Does nothing but a store that was dropped need the let? */
static bool
is_unused(const int *uses, const Let *let)
{
    bool pure = let->op == OP_load || op_info[let->op].kind == KIND_MAP;
    return pure && !uses[let->res[0]->id];
}

/* Is it a store that changes nothing, of what nothing else needs?  Where something does, the store
 * shows that no other iteration stores the element that is loaded. */
static bool
is_idle(const int *uses, const Let *let)
{
    return let_writes(let) && changes_nothing(let) && uses[let->args[1]->id] == 1;
}

/* Drops the stores that change nothing, what only they need, and loops without others.  uses: by
 * Value.id. */
static void
drop_unchanged(Cx *cx, Block *blk, int *uses)
{
    int n = blk->n;
    for (int k = blk->n - 1; k >= 0; k--) { /* users first */
        Let *let = blk->lets[k];
        bool loop = let->op == OP_for;
        if (loop || let_is_choice(let)) {
            drop_unchanged(cx, let->body, uses);
        }
        if ((loop && !let->body->n) || (is_idle(uses, let) && fuel_spend(cx)) ||
            is_unused(uses, let)) {
            add_uses(uses, let->nargs, let->args, -1);
        } else {
            blk->lets[--n] = let;
        }
    }
    blk->n -= n;
    memmove(blk->lets, blk->lets + n, (size_t)blk->n * sizeof *blk->lets);
}

/* Drops the phases that store nothing new. */
static void
drop_phases(Cx *cx, Block *blk)
{
    int n = 0;
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        if (let_is_choice(let)) {
            drop_phases(cx, let->body);
        }
        if (let->op != OP_for || !all_unchanged(let->body) || !fuel_spend(cx)) {
            blk->lets[n++] = let;
        }
    }
    blk->n = n;
}

static bool
is_idle_store(const void *arg, const Let *let)
{
    (void)arg;
    return let_writes(let) && changes_nothing(let);
}

Fn *
rewrite_idle(Fn *fn)
{
    Cx *cx = fn->cx;
    int *uses = NULL; /* by Value.id; each scalar is of one kernel */
    for (int k = 0; k < fn->body->n; k++) {
        Let *kernel = fn->body->lets[k];
        if (kernel->op == OP_kernel && let_any(kernel, is_idle_store, NULL)) {
            uses = uses ? uses : cx_alloc(cx, ((size_t)fn->nvalues + 1) * sizeof *uses);
            drop_phases(cx, kernel->body);
            count_uses(uses, kernel->body);
            drop_unchanged(cx, kernel->body, uses);
            facts_forget(fn);
        }
    }
    return fn;
}
