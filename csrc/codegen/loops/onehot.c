/* One-hot selects: sums along a row of which one element is not zero.
 *
 * What:     the sum of where(i == at, v, 0) over i: one evaluation of v, at that element.
 * Requires: a reduction marked vector whose body loads and computes only; `at` known before it.
 * Ensures:  the bits of the sum: it adds positive zeros to the element, so that -0 becomes 0.
 * How:      If the index is that of no element, the sum stays at its identity.
 * Why not:  in the IR, as a gather: a gather reads memory, so v would have to be stored first.
 * Example:  cross entropy takes one logarithm of each row: a pass over the row, a third of the
 *           time, is one load.
 */
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

static bool
is_zero(const Value *v, Dtype dtype)
{
    const Literal *literal = literal_of(v);
    return literal && literal_bits(dtype, *literal) == 0;
}

const Value *
onehot_index(const Let *reduce)
{
    const Value *ret = reduce->body->rets[0];
    const Let *where = value_is_const(ret) ? NULL : ret->def;
    for (int k = 0; k < reduce->body->n; k++) {
        const Let *let = reduce->body->lets[k];
        if (op_info[let->op].kind != KIND_MAP && let->op != OP_load && let->op != OP_size) {
            return NULL;
        }
    }
    if (let_op(reduce) != OP_sum || !where || where->parent != reduce->body ||
        where->op != OP_where || literal_of(where->args[0]) ||
        !is_zero(where->args[2], ret->type->dtype)) {
        return NULL;
    }
    const Let *eq = where->args[0]->def;
    return eq && eq->parent == reduce->body && eq->op == OP_eq ? compared(eq, reduce) : NULL;
}

bool
is_onehot(const Let *reduce)
{
    return reduce->op == OP_reduce && onehot_index(reduce);
}
