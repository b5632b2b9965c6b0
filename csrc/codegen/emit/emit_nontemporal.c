/* Non-temporal stores: those that a rewrite has marked, for all targets.
 *
 * What:     when a marked store is non-temporal, as a C condition on sizes.
 * Requires: stores as schedule/nontemporal.c marks them.
 * Ensures:  nothing but speed.
 * How:      the marks say how many bytes the store's tensor has to have, and the tensors of the
 *           phase together.  What the ranges of the sizes decide is no part of the condition.
 */
#include "emit.h"

int
contiguous_bytes(Emit *e, const Let *loop, const Let *let)
{
    return let_accesses(let) ? facts_adjacent_bytes(e->facts, let, loop_index(loop)) : 0;
}

const char *
and_bytes(Emit *e, const Let *access, int64_t bytes)
{
    const Type *t = access->args[0]->type;
    if (access_is_large(e->cx, access, bytes) == 1) {
        return "";
    }
    return cx_format(e->cx, " && %s >= %lld", dim_c(e, type_numel(e->cx, t)),
                     (long long)bytes / dtype_info[t->dtype].bytes);
}

const char *
and_nontemporal(Emit *e, const Let *store)
{
    const char *tensor = and_bytes(e, store, let_mark_value(store, MARK_nontemporal));
    int64_t footprint = let_mark_value(store, MARK_footprint);
    return dim_range(e->cx, e->use.bytes).lo >= footprint
               ? tensor
               : cx_format(e->cx, "%s && %s >= %lld", tensor, dim_c(e, e->use.bytes),
                           (long long)footprint);
}

/* A variable: an argument that is a condition with `&&` ends libtcc for 64-bit ARM. */
const char *
use_nontemporal_c(Emit *e, const Let *store)
{
    bool marked = let_has(store, MARK_nontemporal);
    const char *condition = marked ? and_nontemporal(e, store) : "";
    if (!*condition) {
        return marked ? "1" : "0";
    }
    put(e, "const int nontemporal = 1%s;", condition);
    return "nontemporal";
}
