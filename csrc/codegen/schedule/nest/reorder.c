/* Loops in another order: those that a mark `reorder` asks for.
 *
 * What:     a loop marked reorder and the loop in it change places.
 * Requires: a verified function of the loops stage: the second is all that is in the first, and no
 *           iteration gets another value in the changed order (V55).
 * Ensures:  each bit: a sum keeps the order of its terms, since reductions are no such loops.
 * Why not:  choose here which loops to mark: what is contiguous has been settled when the loops
 *           were made.  Who writes a schedule knows of a reason, or tries.
 * Example:  for i in N reorder { for j in M { .. } }  becomes  for j in M { for i in N { .. } }
 */
#include <string.h>

#include "codegen/loops/facts.h"
#include "codegen/loops/loops.h"
#include "codegen/rewrites.h"
#include "nest.h"

Attr *
nest_attr(Let *let, const char *key)
{
    int k = 0;
    while (strcmp(let->attrs[k].key, key) != 0) {
        k++;
    }
    return &let->attrs[k];
}

void
nest_reorder(Let *loop)
{
    static const char *const keys[] = {"index", "extent"};
    Let *inner = loop->body->lets[0];
    for (int k = 0; k < 2; k++) {
        Attr *outer = nest_attr(loop, keys[k]), was = *outer;
        *outer = *nest_attr(inner, keys[k]);
        *nest_attr(inner, keys[k]) = was;
    }
}

/* Rewrites each loop in the block that has the mark, inner ones first; how many there were. */
static int
visit_block(Fn *fn, Block *blk, Marks mark, void (*rewrite)(Fn *fn, Let *loop))
{
    int n = 0;
    for (int k = 0; k < blk->n; k++) {
        Let *let = blk->lets[k];
        n += let->body ? visit_block(fn, let->body, mark, rewrite) : 0;
        if (let->op == OP_for && let_has(let, mark) && fuel_spend(fn->cx)) {
            rewrite(fn, let);
            n++;
        }
    }
    return n;
}

Fn *
nest_visit(Fn *fn, Marks mark, void (*rewrite)(Fn *fn, Let *loop))
{
    if (visit_block(fn, fn->body, mark, rewrite)) {
        facts_forget(fn);
    }
    return fn;
}

static void
reorder(Fn *fn, Let *loop)
{
    (void)fn;
    let_mark(loop, MARK_reorder, false);
    nest_reorder(loop);
}

Fn *
rewrite_reorder(Fn *fn)
{
    return nest_visit(fn, MARK_reorder, reorder);
}
