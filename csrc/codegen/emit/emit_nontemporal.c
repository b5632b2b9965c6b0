/* Non-temporal stores: which ones, for all targets.
 *
 * What:     the stores of a phase to tensors that are larger than caches.
 * Requires: a vector loop without loops inside, along contiguous elements.
 * Ensures:  nothing but speed.
 * How:      A non-temporal store writes whole lines, which are not read before, and leaves what the
 *           caches hold.  The next kernel then reads from memory: so only what caches cannot hold
 *           anyway.  If the size is a symbol, it decides when the phase runs.
 */
#include "emit.h"

int
contiguous_bytes(Emit *e, const Let *loop, const Let *let)
{
    const AccessFacts *facts = let_accesses(let) ? facts_access(e->facts, let) : NULL;
    bool contiguous = facts && !facts->is_private && is_contiguous(e, let, loop);
    int bytes = contiguous ? facts->bytes : 0;
    return bytes == 4 || bytes == 8 ? bytes : 0;
}

/* Has the tensor of the access at least so many bytes?  1: yes, 0: no, -1: its size decides. */
static int
has_bytes(Emit *e, const Let *access, int64_t bytes)
{
    const Type *t = access->args[0]->type;
    Range n = dim_range(e->cx, type_numel(e->cx, t));
    int64_t least = bytes / dtype_info[t->dtype].bytes;
    return n.lo >= least ? 1 : n.hi < least ? 0 : -1;
}

/* The same as a C condition to add after another one; empty if it is known. */
static const char *
and_bytes(Emit *e, const Let *access, int bytes)
{
    const Type *t = access->args[0]->type;
    if (has_bytes(e, access, bytes) == 1) {
        return "";
    }
    return cx_format(e->cx, " && %s >= %d", dim_c(e, type_numel(e->cx, t)),
                     bytes / dtype_info[t->dtype].bytes);
}

int
is_large(Emit *e, const Let *access)
{
    return has_bytes(e, access, DLC_LARGE);
}

const char *
and_large(Emit *e, const Let *access)
{
    return and_bytes(e, access, DLC_LARGE);
}

/* Is the result so large that caches keep nothing of it for the next kernel?  1: yes, 0: no, -1:
 * sizes decide.  For a tile the store's tensor alone decides: a tile's rows are short and wait for
 * each line that they write. */
static int
is_nontemporal(Emit *e, const Let *store)
{
    if (store->parent->owner == e->columns) {
        return is_large(e, store);
    }
    Range all = dim_range(e->cx, e->bytes);
    int half = has_bytes(e, store, DLC_HUGE / 2), whole = all.lo >= DLC_HUGE  ? 1
                                                          : all.hi < DLC_HUGE ? 0
                                                                              : -1;
    return half < 0 && whole ? -1 : half ? whole : 0;
}

const char *
and_nontemporal(Emit *e, const Let *store)
{
    if (store->parent->owner == e->columns) {
        return and_large(e, store);
    }
    Dim all = e->bytes;
    const char *half = and_bytes(e, store, DLC_HUGE / 2);
    bool known = dim_range(e->cx, all).lo >= DLC_HUGE;
    return known ? half : cx_format(e->cx, "%s && %s >= %d", half, dim_c(e, all), DLC_HUGE);
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

int
streamed_if(Emit *e, const Let *store, const Let *streaming)
{
    const Let *loop = store->parent->owner;
    bool may = store->op == OP_store && loop && (loop == e->columns || loop == streaming) &&
               contiguous_bytes(e, loop, store);
    int large = may ? is_nontemporal(e, store) : 0;
    return large && is_alone(store) ? large : 0;
}

int
streamed(Emit *e, const Let *store)
{
    return streamed_if(e, store, e->streaming);
}

const char *
use_nontemporal_c(Emit *e, const Let *store)
{
    int huge = is_alone(store) ? is_nontemporal(e, store) : 0;
    e->streams |= huge != 0;
    return huge > 0 ? "1" : huge == 0 ? "0" : cx_format(e->cx, "(1%s)", and_nontemporal(e, store));
}
