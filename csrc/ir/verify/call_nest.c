/* The loops of one call: a copy, or sums of products, with nothing beside.
 *
 * What:     the loads, the store and the loops of such a nest.
 * Requires: nothing: the loops may break any rule.
 * Ensures:  all lets of the nest are known: it has no others.
 * How:      the lets of each block are taken in the one order that they are written in: the loads
 *           of the factors, each with its cast, the product; the sum, what it is added to, the
 *           store.
 * Example:  for i in M { for l in 32 { reduce sum p in K fused { .. }  store tile[i, l] } }: loops
 *           i, l, p. */
#include "ir/verify/product.h"

/* A let of a block that is taken from its first one on. */
typedef struct {
    const Block *blk;
    int k;
} Cursor;

/* Has it all operands, none of which is a number, and a result if the op makes one? */
static bool
is_whole(const Let *let)
{
    bool whole = let->nargs == op_info[let->op].arity &&
                 let->nres == (let->op != OP_store && let->op != OP_for);
    for (int k = 0; k < let->nargs; k++) {
        whole = whole && !value_is_const(let->args[k]) && let->args[k]->type;
    }
    return whole;
}

/* The next let, if it is of the op; else NULL. */
static const Let *
take(Cursor *c, Op op)
{
    const Let *let = c->k < c->blk->n ? c->blk->lets[c->k] : NULL;
    bool good = let && let->op == op && is_whole(let);
    c->k += good;
    return good ? let : NULL;
}

/* The next loop, if it has these marks, apart from that of what a circuit pipelines. */
static const Let *
take_loop(Cursor *c, Op op, Marks marks)
{
    const Let *let = take(c, op);
    return let && ((Marks)let_int(let, "marks") & ~MARK_pipelined) == marks ? let : NULL;
}

/* What the next lets load, in this dtype, or, DTYPE_COUNT, in that in which its elements are
 * computed: a load, and a cast if it has another one.  NULL: they are others. */
static const Value *
take_load(Cursor *c, Dtype dtype, const Let **load)
{
    *load = take(c, OP_load);
    const Value *v = *load ? (*load)->res[0] : NULL;
    if (!v || v->type->dtype != (*load)->args[0]->type->dtype) {
        return NULL;
    }
    Dtype to = dtype == DTYPE_COUNT ? dtype_info[v->type->dtype].compute : dtype;
    if (v->type->dtype == to) {
        return v;
    }
    const Let *cast = take(c, OP_cast);
    return cast && cast->args[0] == v && cast->res[0]->type->dtype == to ? cast->res[0] : NULL;
}

/* Is it computed of these two, which have its dtype? */
static bool
is_of(const Let *let, const Value *a, const Value *b)
{
    Dtype dtype = let->res[0]->type->dtype;
    return let->args[0] == a && let->args[1] == b && a->type->dtype == dtype &&
           b->type->dtype == dtype;
}

/* In either order: building a program again may change it. */
static bool
adds(const Let *add, const Value *old, const Value *sum)
{
    return is_of(add, old, sum) || is_of(add, sum, old);
}

/* Notes the factors of a reduction that is a sum of products. */
static bool
find_factors(const Let *sum, CallNest *nest)
{
    Cursor c = {sum->body, 0};
    const Value *a = take_load(&c, DTYPE_COUNT, &nest->a),
                *b = a ? take_load(&c, DTYPE_COUNT, &nest->b) : NULL;
    const Let *product = b ? take(&c, OP_mul) : NULL;
    return product && is_of(product, a, b) && c.k == sum->body->n && sum->body->nrets == 1 &&
           sum->body->rets[0] == product->res[0] && let_op(sum) == OP_sum &&
           sum->res[0]->type->dtype == a->type->dtype;
}

static bool
same_element(const Let *a, const Let *b)
{
    const Attr *x = let_attr(a, "at"), *y = let_attr(b, "at");
    bool same = a->args[0] == b->args[0] && x->n == y->n;
    for (int k = 0; same && k < x->n; k++) {
        same = x->dims[k] == y->dims[k];
    }
    return same;
}

/* Is it all that the block does to store sums of products, or to add them to what is there? */
static bool
has_products(const Block *blk, CallNest *nest)
{
    Cursor c = {blk, 0};
    const Let *sum = take_loop(&c, OP_reduce, MARK_fused);
    if (!sum || nest->nloops == CALL_LOOPS || !find_factors(sum, nest)) {
        return false;
    }
    const Let *old = take(&c, OP_load), *add = old ? take(&c, OP_add) : NULL;
    nest->loops[nest->nloops++] = sum;
    nest->adds = old != NULL;
    nest->store = take(&c, OP_store);
    return nest->store && c.k == blk->n && !old == !add &&
           nest->store->args[1] == (add ? add : sum)->res[0] &&
           (!old || (adds(add, old->res[0], sum->res[0]) && same_element(old, nest->store)));
}

/* Is a copy all that the block does? */
static bool
has_copy(const Block *blk, CallNest *nest)
{
    const Let *last = blk->n ? blk->lets[blk->n - 1] : NULL;
    bool stores = last && last->op == OP_store && is_whole(last);
    Cursor c = {blk, 0};
    const Value *v = stores ? take_load(&c, last->args[0]->type->dtype, &nest->a) : NULL;
    nest->store = v ? take(&c, OP_store) : NULL;
    return nest->store && c.k == blk->n && nest->store->args[1] == v;
}

bool
call_nest(const Let *outermost, CallNest *nest)
{
    *nest = (CallNest){0};
    if (outermost->op != OP_for) {
        return false;
    }
    for (const Let *loop = outermost; loop;) {
        if (nest->nloops == CALL_LOOPS) {
            return false;
        }
        nest->loops[nest->nloops++] = loop;
        Cursor c = {loop->body, 0};
        loop = loop->body->n == 1 ? take_loop(&c, OP_for, 0) : NULL;
    }
    const Block *blk = nest->loops[nest->nloops - 1]->body;
    return blk->n && blk->lets[0]->op == OP_reduce ? has_products(blk, nest) : has_copy(blk, nest);
}
