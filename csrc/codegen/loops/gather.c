/* Rows that are gathered from a table, by indices that follow each other in memory.
 *
 * What:     loads of rows, each of which begins where an index says that was loaded too.
 * Requires: a vector loop over such a row, or a tile of columns, and the loop around or in it that
 *           goes through the indices.
 * Example:  for i in bags: for j in 8: { let [p] = bind words[8*i + j]; .. load x[p, k] }
 */
#include "gather.h"
#include "loops.h"

/* The load of the index that is bound, one for all of a row and by one more for each iteration of
 * `through`. */
static const Let *
index_load(const Facts *facts, const Let *bind, const Let *along, const Let *through)
{
    const Value *v = bind->args[0];
    if (!literal_of(v) && v->def && v->def->op == OP_cast) {
        v = v->def->args[0];
    }
    const Let *index = literal_of(v) ? NULL : v->def;
    if (!index || index->op != OP_load || index->parent != through->body) {
        return NULL;
    }
    const Value *words = index->args[0];
    const AccessFacts *a = facts_access(facts, index);
    bool follows = !words->strides && dtype_info[words->type->dtype].class == CLASS_INT &&
                   !a->is_private && !dim_uses(facts->cx, a->offset, loop_index(along)) &&
                   facts_contiguous(facts, index, loop_index(through));
    return follows ? index : NULL;
}

bool
gather_find(const Facts *facts, const Let *load, const Let *along, const Let *through, Gather *g)
{
    *g = (Gather){.load = load, .row = facts_row(facts, load, loop_index(along))};
    if (g->row == DIM_NONE || facts_access(facts, load)->is_private ||
        dim_uses(facts->cx, g->row, loop_index(through))) {
        return false;
    }
    int binds = 0;
    for (int k = 0; k < through->body->n; k++) {
        const Let *let = through->body->lets[k];
        if (let->op == OP_bind && dim_uses(facts->cx, g->row, let->sizes[0])) {
            g->bind = let;
            binds++;
        }
    }
    g->index = binds == 1 ? index_load(facts, g->bind, along, through) : NULL;
    return g->index != NULL;
}
