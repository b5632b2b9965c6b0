/* Noise: sums changed as another order of their terms might, and the roundings after them.
 *
 * The interpreter adds in double.  A kernel adds in its own order, which its program in the loops
 * stage defines. So their sums differ, and then the roundings of values computed from them. Some
 * runs with noise show how much a result changes by that. A value that depends on no sum has no
 * noise: it is the same in both. */
#include "eval.h"

#include <float.h>
#include <math.h>

enum { ROUNDINGS = 8 };         /* the most that a sum changes, in units of its absolute sum */

/* -1 .. 1, and not near 0. */
static double
some(Eval *e)
{
    double size = 0.5 + (double)sample_below(&e->noise, 1 << 20) * 0x1p-21;
    return sample_below(&e->noise, 2) ? size : -size;
}

/* Adds `by` to the element, unless it is NaN or infinite. */
static void
move(Dtype dtype, void *element, double by)
{
    double x = elem_cast(dtype, DT_f64, elem_load(dtype, element)).d;
    if (isfinite(x)) {
        elem_store(dtype, elem_cast(DT_f64, dtype, (Elem){.d = x + by}), element);
    }
}

static bool
is_noisy(const Eval *e, const Let *let)
{
    bool noisy = false;
    for (int k = 0; k < let->nargs; k++) {
        noisy |= !value_is_const(let->args[k]) && e->noisy[let->args[k]->id];
    }
    return noisy;
}

/* Elementwise: by two roundings of itself, so that it moves whatever its digits are. */
static void
noise_of_map(Eval *e, const Tensor *t)
{
    char *at = t->data;
    for (int64_t n = tensor_numel(t); n > 0; n--, at += dtype_info[t->dtype].bytes) {
        double x = elem_cast(t->dtype, DT_f64, elem_load(t->dtype, at)).d;
        move(t->dtype, at, 2 * some(e) * sample_epsilon(t->dtype) * fabs(x));
    }
}

void
noise_of_let(Eval *e, const Let *let)
{
    if (!e->noise || !let->nres) {
        return;
    }
    const Value *v = let->res[0];
    if (is_noisy(e, let)) {
        e->noisy[v->id] = true;
        if (op_info[let->op].kind == KIND_MAP && dtype_info[v->type->dtype].class == CLASS_FLOAT) {
            noise_of_map(e, eval_value(e, v));
        }
    }
}

/* Could a sum or product of some terms overflow the compute dtype, although that of all terms does
 * not?  Then its order decides whether it is an infinity or, from two infinities, NaN. It cannot if
 * all terms have one sign, or no factor is below 1. */
static bool
may_overflow(const Fold *fold, Dtype compute)
{
    bool grows = fold->op == OP_sum ? !(fold->above && fold->below) : fold->least == 1;
    double size = fold->op == OP_sum ? fold->size : fold->most;
    double max = compute == DT_f64 ? DBL_MAX : FLT_MAX;
    return !grows && !(size * (1 + (double)ROUNDINGS * sample_epsilon(compute)) <= max);
}

/* Each of three runs gets a different such result, so that one of them shows in values computed
 * from it. */
static double
beyond(const Eval *e)
{
    return e->beyond == 0 ? NAN : e->beyond == 1 ? INFINITY : -INFINITY;
}

/* Could a product of some factors be 0, although the product of all is not? */
static bool
may_underflow(const Fold *fold, Dtype compute)
{
    return fold->op == OP_prod && fold->least < (compute == DT_f64 ? DBL_MIN : FLT_MIN);
}

/* The sum or product as another order might give it, in double: it may be a number of the dtype
 * even if the program's order gives none. */
static double
moved(Eval *e, const Fold *fold, Dtype dtype)
{
    Dtype compute = dtype_info[dtype].compute;
    double f = fold->f + fold->lost;
    double size = fold->op == OP_sum ? fold->size : fabs(f) * (double)fold->count;
    double order = ROUNDINGS * sample_epsilon(compute) * size;
    double store = sample_epsilon(dtype) * fabs(f); /* it is rounded once */
    if (may_overflow(fold, compute)) {
        return beyond(e);
    }
    if (may_underflow(fold, compute) && e->beyond == 0) {
        return 0;
    }
    return isfinite(f) ? f + some(e) * fmax(order, store) : f;
}

void
noise_of_fold(Eval *e, const Let *let, const Fold *fold, void *element)
{
    const Value *v = let->res[0];
    Dtype dtype = v->type->dtype;
    if (!e->noise || dtype_info[dtype].class != CLASS_FLOAT) {
        return;
    }
    bool moves = fold->op == OP_sum || fold->op == OP_prod;
    e->noisy[v->id] = e->noisy[v->id] || moves;
    if (moves) {
        elem_store(dtype, elem_cast(DT_f64, dtype, (Elem){.d = moved(e, fold, dtype)}), element);
    } else if (fold->f == 0 && sample_below(&e->noise, 2)) {
        elem_store(dtype, elem_cast(DT_f64, dtype, (Elem){.d = -fold->f}), element);
        e->noisy[v->id] = true; /* of zeros, the order decides which is the largest */
    }
}
