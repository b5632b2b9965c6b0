/* One-hot selects: sums along a row of which one element is not zero.
 *
 * What:     marks the sum of where(i == at, v, 0) over i `onehot`: v is computed once, at that
 *           element.
 * Requires: reductions as lower.c leaves them.
 * Ensures:  the bits of the sum: it adds positive zeros to the element, so that -0 becomes 0.  If
 *           the index is that of no element, the sum stays at its identity.
 * How:      the reduction is in lanes, its body loads and computes only, and `at` is known before
 *           it.
 * Why not:  in the IR, as a gather: a gather reads memory, so v would have to be stored first.
 * Example:  cross entropy takes one logarithm of each row: a pass over the row, a third of the
 *           time, is one load.
 *               let loss: f32 = reduce sum j in V lanes onehot { .. where (eq j, label), e, 0.0 }
 */
#include "codegen/loops/loops.h"
#include "codegen/rewrites.h"

/* Does the body only load and compute? */
static bool
is_pure(const Block *body)
{
    bool pure = true;
    for (int k = 0; k < body->n; k++) {
        const Let *let = body->lets[k];
        pure &= op_info[let->op].kind == KIND_MAP || let->op == OP_load || let->op == OP_size;
    }
    return pure;
}

static bool
is_zero(const Value *v, Dtype dtype)
{
    const Literal *literal = literal_of(v);
    return literal && literal_bits(dtype, *literal) == 0;
}

static bool
is_onehot(const Let *reduce)
{
    const Value *ret = reduce->body->rets[0];
    const Let *where = value_is_const(ret) ? NULL : ret->def;
    bool selects = let_op(reduce) == OP_sum && where && where->parent == reduce->body &&
                   where->op == OP_where && !literal_of(where->args[0]) &&
                   is_zero(where->args[2], ret->type->dtype);
    return selects && onehot_index(reduce) && is_pure(reduce->body);
}

static void
mark_select(void *cx, Let *let)
{
    if (let->op == OP_reduce && let_has(let, MARK_lanes) && is_onehot(let) && fuel_spend(cx)) {
        let_mark(let, MARK_onehot, true);
    }
}

Fn *
rewrite_select(Fn *fn)
{
    fn_each_let(fn, mark_select, fn->cx);
    return fn;
}
