/* The rules of marks that say how single values are computed and kept, V49; verify.c has the
 * list. */
#include "verify.h"

/* ---- V49: what is computed with its user ---- */

static int
uses_in(const Block *blk, const Value *value)
{
    int uses = 0;
    for (int k = 0; k < blk->n; k++) {
        for (int j = 0; j < blk->lets[k]->nargs; j++) {
            uses += blk->lets[k]->args[j] == value;
        }
        uses += blk->lets[k]->body ? uses_in(blk->lets[k]->body, value) : 0;
    }
    for (int k = 0; k < blk->nrets; k++) {
        uses += blk->rets[k] == value;
    }
    return uses;
}

/* How often the let after `let` uses it that comes first, if an operation does and nothing in
 * between writes, binds or has a body. */
static int
uses_by_next(const Let *let)
{
    const Block *blk = let->parent;
    int k = 0, uses = 0;
    while (blk->lets[k] != let) {
        k++;
    }
    for (k++; k < blk->n && uses == 0; k++) {
        const Let *next = blk->lets[k];
        if (let_writes(next) || next->op == OP_bind || next->body) {
            return 0;
        }
        for (int j = 0; j < next->nargs; j++) {
            uses += let_is_map(next) && next->args[j] == let->res[0];
        }
    }
    bool returned = uses == 0 && blk->owner->op == OP_reduce && blk->rets[0] == let->res[0] &&
                    blk->lets[blk->n - 1] == let;
    return returned ? 1 : uses;
}

void
verify_merged(Verifier *v, const Let *let)
{
    if (let_has(let, MARK_merged) &&
        (!loop_is(let_around(let)) || uses_by_next(let) != uses_in(let->parent, let->res[0]))) {
        verify_broken(v, 49,
                      "merged marks a value that is not used by the operation that computes it "
                      "too, or by others as well");
    }
}
