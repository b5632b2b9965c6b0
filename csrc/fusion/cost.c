/* Cost: what the passes believe about time beside that of an element (ir/math/cost.c): how many
 * elements there are, and what moving bytes costs.
 *
 * For sizes that are symbols ir/dim/estimate.c has typical numbers of elements.
 */
#include "group.h"

int64_t
cost_terms(Cx *cx, const Let *let)
{
    const Type *t = op_info[let->op].kind == KIND_RED ? let->args[0]->type : let->res[0]->type;
    int64_t n = dims_typical(cx, t->rank, t->dims);
    if (let->op == OP_contract) {
        const Contraction *c = let_contraction(let);
        Dim dims[MAX_RANK];
        for (int k = 0; k < c->nsum; k++) {
            dims[k] = letter_dim(c, let->args[0]->type, let->args[1]->type, c->sum[k]);
        }
        if (__builtin_mul_overflow(n, dims_typical(cx, c->nsum, dims), &n)) {
            return INT64_MAX / 64;
        }
    }
    return n < INT64_MAX / 64 ? n : INT64_MAX / 64;
}

/* The time to move bytes: all cores of a desktop share the bandwidth while they compute. */
double
cost_traffic(double bytes)
{
    return bytes / COST_BYTES;
}
