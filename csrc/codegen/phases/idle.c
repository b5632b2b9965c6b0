/* Idle stores: those of results in place that store what is there, and those that nobody reads.
 *
 * What:     drops stores that change nothing, or go into a buffer that is not read; what is
 *           computed for them alone; and loops that have no others.
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

/* By Value.id: as what operations need it, and as the tensor that is written. */
typedef struct {
    int *all, *written;
} Uses;

static void
add_uses(int *uses, int nvalues, Value *const *values, int by)
{
    for (int k = 0; k < nvalues; k++) {
        uses[value_is_const(values[k]) ? 0 : values[k]->id] += by;
    }
}

/* by: 1 for a let that is there, -1 for one that is dropped */
static void
add_let(const Uses *uses, const Let *let, int by)
{
    add_uses(uses->all, let->nargs, let->args, by);
    add_uses(uses->written, let_writes(let) ? 1 : 0, let->args, by);
}

static void
count_uses(const Uses *uses, const Block *blk)
{
    for (int k = 0; k < blk->n; k++) {
        add_let(uses, blk->lets[k], 1);
        if (blk->lets[k]->body) {
            count_uses(uses, blk->lets[k]->body);
        }
    }
    add_uses(uses->all, blk->nrets, blk->rets, 1);
}

static bool
is_read(const Uses *uses, const Value *v)
{
    return !v->def || v->def->op != OP_buffer || uses->all[v->id] != uses->written[v->id];
}

/* Does nothing but a store that was dropped need the let? */
static bool
is_unused(const Uses *uses, const Let *let)
{
    bool pure = let->op == OP_load || let->op == OP_buffer || let->op == OP_size ||
                op_info[let->op].kind == KIND_MAP;
    return pure && !uses->all[let->res[0]->id];
}

/* Is it a store that changes nothing, of what nothing else needs?  Where something does, the store
 * shows that no other iteration stores the element that is loaded. */
static bool
is_idle(const Uses *uses, const Let *let)
{
    return let_writes(let) && (!is_read(uses, let->args[0]) ||
                               (changes_nothing(let) && uses->all[let->args[1]->id] == 1));
}

/* Drops the stores that change nothing or that nobody reads, what only they need, and loops without
 * others.  False: there are none. */
static bool
drop_unchanged(Cx *cx, Block *blk, const Uses *uses)
{
    int n = blk->n;
    bool dropped = false;
    for (int k = blk->n - 1; k >= 0; k--) { /* users first */
        Let *let = blk->lets[k];
        bool loop = let->op == OP_for;
        if (loop || let_is_choice(let)) {
            dropped |= drop_unchanged(cx, let->body, uses);
        }
        if ((loop && !let->body->n) || (is_idle(uses, let) && fuel_spend(cx)) ||
            is_unused(uses, let)) {
            add_let(uses, let, -1);
            dropped = true;
        } else {
            blk->lets[--n] = let;
        }
    }
    blk->n -= n;
    memmove(blk->lets, blk->lets + n, (size_t)blk->n * sizeof *blk->lets);
    return dropped;
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

static bool
is_unread(const void *uses, const Let *let)
{
    return let_writes(let) && !is_read(uses, let->args[0]);
}

static bool
is_buffer(const void *arg, const Let *let)
{
    (void)arg;
    return let->op == OP_buffer;
}

Fn *
rewrite_idle(Fn *fn)
{
    Cx *cx = fn->cx;
    size_t room = ((size_t)fn->nvalues + 1) * sizeof(int);
    const Uses uses = {cx_alloc(cx, room), cx_alloc(cx, room)}; /* each scalar is of one kernel */
    for (int k = 0; k < fn->body->n; k++) {
        Let *kernel = fn->body->lets[k];
        if (kernel->op != OP_kernel) {
            continue;
        }
        bool unchanged = let_any(kernel, is_idle_store, NULL);
        if (unchanged) {
            drop_phases(cx, kernel->body);
        }
        if (unchanged || let_any(kernel, is_buffer, NULL)) {
            count_uses(&uses, kernel->body);
            /* a load that nobody needs may stand before the store, and go after it */
            while (drop_unchanged(cx, kernel->body, &uses) && let_any(kernel, is_unread, &uses)) {
            }
            facts_forget(fn);
        }
    }
    return fn;
}
