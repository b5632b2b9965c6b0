/* The element that a one-hot select takes: see schedule/select.c. */
#include "loops.h"

/* The operand that is compared with the reduction's own index, or NULL. */
static const Value *
compared(const Let *eq, const Let *reduce)
{
    for (int k = 0; k < 2; k++) {
        const Value *i = eq->args[k], *at = eq->args[1 - k];
        bool index = !literal_of(i) && i->def && i->def->parent == reduce->body &&
                     i->def->op == OP_size && let_dim(i->def, "dim") == loop_index(reduce);
        if (index && !literal_of(at) && at->def && at->def->parent != reduce->body) {
            return at;
        }
    }
    return NULL;
}

const Value *
onehot_index(const Let *reduce)
{
    const Let *where = reduce->body->rets[0]->def, *eq = where->args[0]->def;
    return eq && eq->parent == reduce->body && eq->op == OP_eq ? compared(eq, reduce) : NULL;
}
