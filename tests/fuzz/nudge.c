/* The nudged program: reductions as another order of the same terms might make them. */
#include "nudge.h"

#include "ir/eval/eval.h"

#include <string.h>

/* A new let before position `at`; returns the position after it. */
static int
insert(Fn *fn, int at, Let *let)
{
    Block *blk = fn->body;
    block_append(fn->cx, blk, let);
    memmove(&blk->lets[at + 1], &blk->lets[at], (size_t)(blk->n - 1 - at) * sizeof *blk->lets);
    blk->lets[at] = let;
    return at + 1;
}

static Value *
constant(Cx *cx, double f)
{
    Value *v = cx_alloc(cx, sizeof *v);
    v->literal.f = f;
    return v;
}

/* A let of one result inserted at *at, which moves on. */
static Value *
insert_let(Fn *fn, int *at, Op op, int nargs, Value **args, const Type *t, const Let *attrs)
{
    Let *let = let_new(fn, op, nargs, args, attrs ? attrs->nattrs : 0, attrs ? attrs->attrs : NULL);
    Value *v = let_result(fn, let, NULL, t, NULL);
    *at = insert(fn, *at, let);
    return v;
}

static Value *
insert_map(Fn *fn, int *at, Op op, Value *a, Value *b)
{
    return insert_let(fn, at, op, b ? 2 : 1, (Value *[]){a, b}, a->type, NULL);
}

/* The sum of absolute values. */
static Value *
change_of_sum(Fn *fn, int *at, const Let *sum)
{
    Value *size = insert_map(fn, at, OP_abs, sum->args[0], NULL);
    return insert_let(fn, at, OP_sum, 1, &size, sum->res[0]->type, sum);
}

/* The product as many times as it has factors; NaN where what is large in it overflows, which a
 * zero hides or not as the order has it. */
static Value *
change_of_prod(Fn *fn, int *at, const Let *prod)
{
    Value *x = prod->args[0], *v = prod->res[0], *zero = constant(fn->cx, 0),
          *one = constant(fn->cx, 1);
    Value *size = insert_map(fn, at, OP_abs, x, NULL);
    size = insert_map(fn, at, OP_maximum, size, one);
    Value *most = insert_let(fn, at, OP_prod, 1, &size, v->type, prod);
    Value *ones = insert_map(fn, at, OP_pow, x, zero);
    Value *count = insert_let(fn, at, OP_sum, 1, &ones, v->type, prod);
    return insert_map(fn, at, OP_add, insert_map(fn, at, OP_mul, v, count),
                      insert_map(fn, at, OP_mul, most, zero));
}

/* A zero, whose sign the order of a maximum or minimum decides, with the other sign. */
static Value *
turn_zero(Fn *fn, int *at, Value *v)
{
    const Type *t = v->type, *truth = type_of(fn->cx, DT_bool, t->rank, t->dims);
    Value *is_zero = insert_let(fn, at, OP_eq, 2, (Value *[]){v, constant(fn->cx, 0)}, truth, NULL);
    Value *turned = insert_map(fn, at, OP_neg, v, NULL);
    return insert_let(fn, at, OP_where, 3, (Value *[]){is_zero, turned, v}, t, NULL);
}

/* Inserts after the reduction at position k what stands for it, or returns NULL: itself. */
static Value *
insert_nudge(Fn *fn, int *k, const Nudge *by, int number)
{
    const Let *let = fn->body->lets[*k];
    Value *v = let->res[0];
    double way = by->turn && number / by->turn % 2 ? -1 : 1;
    Value *roundings = constant(fn->cx, way * by->roundings * sample_epsilon(v->type->dtype));
    *k += 1;
    if (let->op == OP_amax || let->op == OP_amin) {
        return by->zeros ? turn_zero(fn, k, v) : NULL;
    }
    Value *change = (let->op == OP_sum ? change_of_sum : change_of_prod)(fn, k, let);
    return insert_map(fn, k, OP_add, v, insert_map(fn, k, OP_mul, change, roundings));
}

static bool
is_nudged(const Let *let)
{
    bool reduces = let->op == OP_sum || let->op == OP_prod || let->op == OP_amax ||
                   let->op == OP_amin;
    return reduces && dtype_info[let->res[0]->type->dtype].class == CLASS_FLOAT;
}

static void
replace(Fn *fn, int from, const Value *v, Value *by)
{
    Block *blk = fn->body;
    for (int j = from; j < blk->n; j++) {
        for (int i = 0; i < blk->lets[j]->nargs; i++) {
            blk->lets[j]->args[i] = blk->lets[j]->args[i] == v ? by : blk->lets[j]->args[i];
        }
    }
    for (int i = 0; i < blk->nrets; i++) {
        blk->rets[i] = blk->rets[i] == v ? by : blk->rets[i];
    }
}

Fn *
nudge(Fn *fn, const Nudge *by)
{
    int k = 0, number = 0;
    while (k < fn->body->n) {
        const Let *let = fn->body->lets[k];
        for (int j = 0; j < let->nbodies; j++) {
            nudge(let->bodies[j], by);
        }
        Value *nudged = is_nudged(let) ? insert_nudge(fn, &k, by, number) : NULL;
        if (nudged) {
            number++;
            replace(fn, k, let->res[0], nudged);
        } else {
            k += !is_nudged(let);
        }
    }
    verify_fn(fn);
    return fn;
}
