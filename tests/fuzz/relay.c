/* Operands and results that lie in memory in any way: what decides which routine reads them.
 *
 * Rows further apart than they are long, every second row or column, axes in another order, as
 * heads and transposed matrices have it, a batch of stride 0.  Where they begin is drawn by run.c:
 * at any alignment.  A program that was dense becomes one of the same text with promised strides,
 * so that the code of each target is compared with the interpreter on them. */
#include "gen.h"

#include <stdlib.h>

enum { OPERANDS = 70, RESULTS = 25 }; /* of a hundred: so many lie otherwise */

/* 0 .. n - 1, often as they are. */
static void
some_order(uint64_t *random, int n, int *order)
{
    shuffle(random, n, order);
    for (int k = 0, same = chance(random, 50); k < n && same; k++) {
        order[k] = k;
    }
}

/* Axes in any order, with room behind each or every second part of it; of an operand some have
 * stride 0, the first the most. */
static const Dim *
some_strides(Cx *cx, uint64_t *random, const Type *t, bool operand)
{
    Dim *strides = cx_alloc(cx, (size_t)t->rank * sizeof *strides);
    Dim step = dim_int(cx, chance(random, 75) ? 1 : 2);
    int order[MAX_RANK];
    some_order(random, t->rank, order);
    for (int k = t->rank - 1; k >= 0; k--) {
        int ax = order[k];
        bool repeats = chance(random, k == 0 && t->rank > 2 ? 20 : 8);
        strides[ax] = operand && repeats ? dim_int(cx, 0) : step;
        if (!operand || !repeats) {
            step = dim_mul(cx, step, t->dims[ax]);
            step = chance(random, 12) ? dim_mul(cx, step, dim_int(cx, 2)) : step;
            step = chance(random, 35) ? dim_add(cx, step, dim_int(cx, 1 + below(random, 40)))
                                      : step;
        }
    }
    return strides;
}

/* Does the parameter say how a result lies? */
static bool
is_shared(const Fn *fn, int param)
{
    bool shared = value_uses(fn)[fn->params[param]->id].in_place > 0;
    for (int k = 0; k < fn->body->nrets; k++) {
        bool of_param = fn->results[k].kind == RESULT_INTO ||
                        fn->results[k].kind == RESULT_VIEW_PARAM;
        shared |= of_param && fn->results[k].of == param;
    }
    return shared;
}

static bool
is_base(const Fn *fn, int result)
{
    bool base = false;
    for (int k = 0; k < fn->body->nrets; k++) {
        base |= fn->results[k].kind == RESULT_VIEW_RESULT && fn->results[k].of == result;
    }
    return base;
}

void
relay(Fn *fn, uint64_t *random)
{
    for (int k = 0; k < fn->nparams; k++) {
        Value *v = fn->params[k];
        if (v->type->rank && !v->strides && chance(random, OPERANDS) && !is_shared(fn, k)) {
            v->strides = some_strides(fn->cx, random, v->type, true);
        }
    }
    for (int k = 0; k < fn->body->nrets; k++) {
        Result *r = &fn->results[k];
        const Type *t = fn->body->rets[k]->type;
        if (t->rank && r->kind == RESULT_FRESH && !r->strides && chance(random, RESULTS) &&
            !is_base(fn, k)) {
            r->strides = some_strides(fn->cx, random, t, false);
        }
    }
}
