/* Builders of torch.nn.functional that aten.def has no overload for: torch decomposes these for
 * AOTAutograd, and here they are the same formulas, rounded where those round. */
#include "capture/aten/aten_formula.h"
#include "torch.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Argument k in the dtype and shape of the result: each op on it is rounded to that. */
static Value *
given(Aten *n, int k)
{
    bool same = arg_is_float(&n->args[0]) && n->type->dtype == arg_tensor(n, 0)->type->dtype;
    return same ? operand(n, arg_at(n, k), n->type) : NULL;
}

/* ---- elementwise ---- */

Value *
torch_isfinite(Aten *n)
{
    if (!arg_is_float(&n->args[0])) {
        return NULL;
    }
    Value *x = arg_tensor(n, 0);
    return AND(map2(n, OP_ne, ABS(x), NUM(INFINITY)), EQ(x, x));
}

Value *
torch_softsign(Aten *n)
{
    Value *x = given(n, 0);
    return x ? DIV(x, ADD(ABS(x), NUM(1))) : NULL;
}

Value *
torch_tanhshrink(Aten *n)
{
    Value *x = given(n, 0);
    return x ? SUB(x, TANH(x)) : NULL;
}

Value *
torch_selu(Aten *n)
{
    const Arg args[4] = {
        n->args[0],
        {.kind = ARG_FLOAT, .f = 1.6732632423543772848170429916717},
        {.kind = ARG_FLOAT, .f = 1.0507009873554804934193349852946},
        {.kind = ARG_INT, .i = 1},
    };
    return as_overload(n, "aten.elu.default", n->type, 4, args);
}

/* x, where it is above 0, else alpha * expm1(x / alpha), rounded once. */
Value *
torch_celu(Aten *n)
{
    Value *x = given(n, 0) ? wide_operand(n, 0) : NULL;
    double alpha = arg_float(arg_at(n, 1), 0);
    if (!x || alpha == 0) {
        return NULL;
    }
    Value *low = EXPM1(DIV(x, NUM(alpha)));
    return WHERE(GT(x, NUM(0)), x, MUL(low, NUM(alpha)));
}

/* The weight is one number, or one for each of the channels, axis 1. */
Value *
torch_prelu(Aten *n)
{
    Value *x = given(n, 0), *w;
    const Arg *weight = arg_at(n, 1);
    if (!x || !arg_is_float(weight) || weight->v->type->dtype != n->type->dtype ||
        weight->v->type->rank > 1) {
        return NULL;
    }
    w = weight->v;
    if (w->type->rank == 0 || dim_is(n->cx, w->type->dims[0], 1)) {
        w = build_broadcast(n->b, build_reshape(n->b, w, 0, NULL), n->type->rank, n->type->dims);
    } else if (n->type->rank >= 2 && w->type->dims[0] == n->type->dims[1]) {
        w = build_expand(n->b, w, n->type->rank, n->type->dims, (const int[]){1});
    } else {
        return NULL;
    }
    return WHERE(GT(x, NUM(0)), x, MUL(w, x));
}

Value *
torch_hardshrink(Aten *n)
{
    Value *x = given(n, 0), *edge = operand(n, arg_at(n, 1), n->type);
    return x && edge ? WHERE(LE(ABS(x), edge), NUM(0), x) : NULL;
}

Value *
torch_softshrink(Aten *n)
{
    Value *x = given(n, 0), *edge = operand(n, arg_at(n, 1), n->type);
    if (!x || !edge) {
        return NULL;
    }
    Value *sign = as_overload(n, "aten.sign.default", n->type, 1, n->args);
    Value *nearer = SUB(x, MUL(sign, edge)), *nothing = MUL(x, NUM(0));
    return WHERE(GT(ABS(x), edge), nearer, nothing);
}

/* ---- norms ---- */

/* Casts v to the dtype in which norms of x are computed. */
static Value *
widened(Aten *n, Value *v, const Type *x)
{
    return build_cast(n->b, v, wide(x->dtype));
}

/* 1 / sqrt(v + eps) */
static Value *
reciprocal_root(Aten *n, Value *v, double eps)
{
    return map1(n, OP_rsqrt, ADD(v, NUM(eps)));
}

/* rms_norm(x, shape, weight, eps): x / sqrt(mean of the squares + eps) * weight, rounded once */
Value *
torch_rms_norm(Aten *n)
{
    const Arg *shape = arg_at(n, 1), *weight = arg_at(n, 2), *eps = arg_at(n, 3);
    if (!arg_is_float(&n->args[0]) || shape->kind != ARG_LIST || shape->n > n->type->rank ||
        (weight->kind != ARG_NONE &&
         (!arg_is_float(weight) || weight->v->type->dtype != n->type->dtype))) {
        return NULL;
    }
    Value *x = widened(n, arg_tensor(n, 0), n->type);
    int axes[MAX_RANK];
    for (int k = 0; k < shape->n; k++) {
        axes[k] = n->type->rank - shape->n + k;
    }
    double least = x->type->dtype == DT_f64 ? DBL_EPSILON : FLT_EPSILON;
    x = build_cast(n->b, x, statistics_dtype(n, n->type, shape->n, axes));
    if (may_be_empty(n, x->type, shape->n, axes)) {
        return NULL;
    }
    Value *r = reciprocal_root(n, mean_of(n, MUL(x, x), shape->n, axes), arg_float(eps, least));
    x = MUL(x, spread(n, r, x->type, shape->n, axes));
    return weight->kind == ARG_NONE ? x : MUL(x, operand(n, weight, x->type));
}

/* group_norm(x, groups, weight, bias, eps) */
Value *
torch_group_norm(Aten *n)
{
    return group_norm(n, arg_at(n, 1), arg_at(n, 2), arg_at(n, 3), arg_at(n, 4));
}

/* normalize(x, p, dim, eps): x / max(|x|, eps), for the Euclidean norm and dtypes without
 * intermediate rounding */
Value *
torch_normalize(Aten *n)
{
    const Arg *eps = arg_at(n, 3);
    Value *x = arg_tensor(n, 0);
    int naxes, axes[MAX_RANK];
    if (!arg_is_float(&n->args[0]) || wide(x->type->dtype) != x->type->dtype ||
        arg_float(arg_at(n, 1), 0) != 2 || arg_at(n, 2)->kind == ARG_NONE ||
        arg_at(n, 4)->kind != ARG_NONE || !arg_is_number(eps) ||
        !arg_axes(arg_at(n, 2), x->type->rank, &naxes, axes)) {
        return NULL;
    }
    Value *length = SQRT(build_red(n->b, OP_sum, MUL(x, x), naxes, axes));
    length = MAX(length, operand(n, eps, length->type));
    return DIV(x, spread(n, length, x->type, naxes, axes));
}

/* ---- images ---- */

/* Does each spatial axis grow by a factor in the list, or by one factor for all, that is a power of
 * two? */
static bool
grows_by(const Aten *n, const Type *x, int *factors)
{
    const Arg *size = arg_at(n, 1), *scale = arg_at(n, 2);
    for (int ax = 2; ax < x->rank; ax++) {
        const Arg *f = scale->kind == ARG_LIST && scale->n == x->rank - 2 ? &scale->items[ax - 2]
                                                                          : scale;
        int factor = 1;
        while (factor <= 16 &&
               dim_mul(n->cx, x->dims[ax], dim_int(n->cx, factor)) != n->type->dims[ax]) {
            factor *= 2;
        }
        bool said = scale->kind == ARG_NONE ? size->kind != ARG_NONE
                                            : arg_is_number(f) && arg_float(f, 0) == factor;
        if (factor > 16 || !said) {
            return false;
        }
        factors[ax] = factor;
    }
    return true;
}

/* interpolate(x, size, scale_factor, "nearest"): each element that many times, where index * (1 /
 * factor) is exact */
Value *
torch_interpolate(Aten *n)
{
    const Arg *mode = arg_at(n, 3);
    Value *x = arg_tensor(n, 0);
    int factors[MAX_RANK], to[MAX_RANK], rank = 0;
    Dim dims[MAX_RANK];
    if (n->args[0].kind != ARG_TENSOR || mode->kind != ARG_TEXT || strcmp(mode->text, "nearest") ||
        arg_at(n, 4)->kind != ARG_NONE || arg_true(arg_at(n, 5)) || x->type->rank < 3 ||
        x->type->rank > 5 || !grows_by(n, x->type, factors)) {
        return NULL;
    }
    for (int ax = 0; ax < x->type->rank; ax++) {
        to[ax] = rank;
        dims[rank++] = x->type->dims[ax];
        if (ax >= 2) {
            dims[rank++] = dim_int(n->cx, factors[ax]);
        }
    }
    x = build_expand(n->b, x, rank, dims, to);
    return build_reshape(n->b, x, n->type->rank, n->type->dims);
}

/* Moves axes of `factor` elements: of the channels behind each of the last two axes (out), or
 * back. */
static Value *
shuffled(Aten *n, bool out)
{
    const Type *x = n->args[0].kind == ARG_TENSOR ? arg_tensor(n, 0)->type : NULL, *t = n->type;
    const Arg *factor = arg_at(n, 1);
    if (!x || x->rank < 3 || x->rank > MAX_RANK - 2 || factor->kind != ARG_INT) {
        return NULL;
    }
    int at = x->rank - 3, perm[MAX_RANK];
    const int wide_perm[5] = {0, 3, 1, 4, 2}, deep_perm[5] = {0, 2, 4, 1, 3};
    Dim f = dim_int(n->cx, factor->i), dims[MAX_RANK];
    const Dim wide_dims[5] = {t->dims[at], f, f, x->dims[at + 1], x->dims[at + 2]};
    const Dim deep_dims[5] = {x->dims[at], t->dims[at + 1], f, t->dims[at + 2], f};
    for (int ax = 0; ax < at + 5; ax++) {
        perm[ax] = ax < at ? ax : at + (out ? wide_perm : deep_perm)[ax - at];
        dims[ax] = ax < at ? x->dims[ax] : (out ? wide_dims : deep_dims)[ax - at];
    }
    Value *v = build_permute(n->b, build_reshape(n->b, arg_tensor(n, 0), at + 5, dims), perm);
    return build_reshape(n->b, v, t->rank, t->dims);
}

Value *
torch_pixel_shuffle(Aten *n)
{
    return shuffled(n, true);
}

Value *
torch_pixel_unshuffle(Aten *n)
{
    return shuffled(n, false);
}
