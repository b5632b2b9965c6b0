/* Attention: the products of queries and keys, a softmax along the keys, a product with the values.
 *
 * The formulas are those of eager's kernels for the CPU: scores, their exponentials and sums are in
 * the wide dtype, the exponentials are rounded to the dtype of the values before the product with
 * these, and the result is divided by their sum last.  A row whose scores are all -inf is 0.  The
 * gradients compute the scores again, and the softmax from the logarithm of its sum. */
#include "aten_product.h"
#include "capture/aten/aten_formula.h"

#include <math.h>

/* The common part of the operators.  Letters: t queries, s keys, d their elements, e those of
 * values; with grouped heads, A is a head of keys, g one of the heads of queries that share it. */
typedef struct {
    Aten *n;
    Dtype wide;
    bool grouped;
    Dim heads, group; /* heads of keys and values, heads of queries for each of them */
    Term q, k, v;
    const Arg *mask;
    bool causal;
    Value *scale; /* a scalar, or a constant */
} Attention;

static bool
without_dropout(const Arg *probability)
{
    return arg_is_number(probability) && arg_float(probability, 0) == 0;
}

/* ---- operands ---- */

/* A tensor of axes .., heads, x, y with its heads as two axes where they are grouped. */
static Value *
split_heads(const Attention *a, Value *v, int behind)
{
    int rank = v->type->rank, axis = rank - 1 - behind;
    Dim dims[MAX_RANK];
    if (!a->grouped || axis < 0 || rank == MAX_RANK) {
        return v;
    }
    bool one_head = dim_is(a->n->cx, v->type->dims[axis], 1);
    for (int k = 0; k <= rank; k++) {
        dims[k] = v->type->dims[k - (k > axis)];
    }
    dims[axis] = one_head ? one(a->n) : a->heads;
    dims[axis + 1] = one_head ? one(a->n) : a->group;
    return build_reshape(a->n->b, v, rank + 1, dims);
}

/* A tensor like the queries: .., heads, t, last. */
static bool
query_term(const Attention *a, const Arg *of, const char *letters, const char *grouped, Term *out)
{
    const Arg split = {.kind = ARG_TENSOR, .v = split_heads(a, of->v, 2)};
    return term_of(&split, a->grouped ? grouped : letters, out);
}

static Dim
size_at(const Arg *a, int from_end)
{
    return a->v->type->dims[a->v->type->rank - 1 - from_end];
}

/* Finds out whether heads of queries share one of keys and values.  false: it is not known. */
static bool
heads_of(Attention *a, const Arg *q, const Arg *k, const Arg *v)
{
    Cx *cx = a->n->cx;
    bool have = q->v->type->rank > 2 && k->v->type->rank > 2 && v->v->type->rank > 2;
    if (!have || size_at(q, 2) == size_at(k, 2) || dim_is(cx, size_at(q, 2), 1)) {
        return true;
    }
    a->heads = size_at(k, 2);
    a->group = dim_div(cx, size_at(q, 2), a->heads);
    a->grouped = size_at(v, 2) == a->heads && dim_mul(cx, a->group, a->heads) == size_at(q, 2);
    return a->grouped;
}

/* Returns the scale of the scores: 1 / sqrt(size), unless the call gives one. */
static Value *
scale_of(Aten *n, const Arg *scale, Dim size, Dtype dtype)
{
    int64_t known;
    const Type *t = type_scalar(n->cx, dtype);
    if (scale->kind != ARG_NONE) {
        return operand(n, scale, t);
    }
    if (dim_is_int(n->cx, size, &known)) {
        return NUM(1 / sqrt((double)known));
    }
    Value *root = SQRT(build_cast(n->b, build_size(n->b, size), DT_f64));
    return build_cast(n->b, DIV(build_cast(n->b, build_int(n->b, 1), DT_f64), root), dtype);
}

/* (query, key, value, ..): false where this is not computed. */
static bool
attention_of(Aten *n, int first, const Arg *mask, const Arg *causal, const Arg *scale, Attention *a)
{
    const Arg *q = arg_at(n, first), *k = arg_at(n, first + 1), *v = arg_at(n, first + 2);
    Dtype dtype = product_dtype(n, first, first + 2);
    if (dtype == DTYPE_COUNT || dtype_info[dtype].class != CLASS_FLOAT || q->v->type->rank < 2 ||
        k->v->type->rank < 2 || v->v->type->rank < 2) {
        return false;
    }
    *a = (Attention){.n = n, .wide = wide(dtype), .mask = mask, .causal = arg_true(causal)};
    a->scale = scale_of(n, scale, size_at(q, 0), a->wide);
    return a->scale && heads_of(a, q, k, v) && query_term(a, q, ".td", ".gtd", &a->q) &&
           term_of(k, ".sd", &a->k) && term_of(v, ".se", &a->v);
}

/* v, whose axes `of` names, with the axes of `like`. */
static Value *
along(Aten *n, Value *v, const Term *of, const Term *like)
{
    int to[MAX_RANK], count = 0;
    for (int k = 0; k < of->n; k++) {
        int axis = letter_axis(like->letters, like->n, of->letters[k]);
        if (axis >= 0) {
            to[count++] = axis;
        }
    }
    return build_expand(n->b, v, like->v->type->rank, like->v->type->dims, to);
}

/* ---- scores ---- */

/* The addend that a mask gives for scores of type t: for truth values, 0 or -inf.  NULL: there is
 * none. */
static Value *
mask_on(const Attention *a, const Type *t)
{
    Aten *n = a->n;
    if (a->mask->kind != ARG_TENSOR) {
        return NULL;
    }
    Value *mask = split_heads(a, a->mask->v, 2);
    if (mask->type->dtype == DT_bool) {
        const Type *of = type_with(n->cx, mask->type, a->wide);
        mask = WHERE(mask, build_const(n->b, of, (Literal){.f = 0}), NUM(-INFINITY));
    }
    return build_broadcast(n->b, build_cast(n->b, mask, a->wide), t->rank, t->dims);
}

/* scale * q * k, -inf where a key comes after its query, plus the mask; keys are the last axis. */
static bool
scores(const Attention *a, Term *out)
{
    Aten *n = a->n;
    *out = a->q;
    if (!term_multiply(n, out, &a->k, REST "gts", a->wide)) {
        return false;
    }
    const Type *t = out->v->type;
    out->v = scaled(n, OP_mul, out->v, a->scale);
    if (a->causal) {
        const Type *places = type_with(n->cx, t, DT_i64);
        Value *seen = LE(position(n, places, t->rank - 1), position(n, places, t->rank - 2));
        out->v = WHERE(seen, out->v, NUM(-INFINITY));
    }
    Value *mask = mask_on(a, t);
    out->v = mask ? ADD(out->v, mask) : out->v;
    return true;
}

/* Multiplies two terms; the result has the letters in `keep`. */
static bool
product_of(const Attention *a, const Term *x, const Term *y, const char *keep, Term *out)
{
    *out = *x;
    return term_multiply(a->n, out, y, keep, a->wide);
}

/* Rounds a term to the dtype of the operands, as eager does between the two products. */
static Term
narrow(const Attention *a, const Term *x)
{
    Term out = *x;
    out.v = build_cast(a->n->b, x->v, a->v.v->type->dtype);
    return out;
}

static Value *
shaped(Aten *n, Value *v, const Type *t)
{
    return build_reshape(n->b, v, t->rank, t->dims);
}

/* ---- forward ---- */

/* The result; the logarithms of the sums of exponentials are result 1 where there is one. */
static Value *
attention(const Attention *a)
{
    Aten *n = a->n;
    Term x, y;
    if (!scores(a, &x) || may_be_empty(n, x.v->type, 1, (const int[]){x.n - 1})) {
        return NULL;
    }
    const int keys = x.n - 1;
    Value *most = build_red(n->b, OP_amax, x.v, 1, &keys), *none = EQ(most, NUM(-INFINITY));
    most = WHERE(none, NUM(0), most);
    x.v = EXP(SUB(x.v, spread(n, most, x.v->type, 1, &keys)));
    Value *sum = build_red(n->b, OP_sum, x.v, 1, &keys);
    sum = WHERE(none, NUM(1), sum);
    const Term weights = narrow(a, &x);
    if (!product_of(a, &weights, &a->v, REST "gte", &y)) {
        return NULL;
    }
    if (n->nres > 1 && n->types[1]) {
        n->res[1] = shaped(n, ADD(most, LOG(sum)), n->types[1]);
    }
    x.n--;
    return DIV(shaped(n, y.v, n->type), shaped(n, along(n, sum, &x, &y), n->type));
}

/* (query, key, value, dropout_p, is_causal, attn_mask, scale) -> result, logsumexp */
Value *
aten_flash_attention(Aten *n)
{
    Attention a;
    bool known = without_dropout(arg_at(n, 3)) &&
                 attention_of(n, 0, arg_at(n, 5), arg_at(n, 4), arg_at(n, 6), &a);
    return known ? attention(&a) : NULL;
}

/* ---- backward ---- */

/* The gradient of the scores: p * (dp - the sum of dp * p); that sum equals the sum of gradient *
 * result. */
static bool
score_gradient(const Attention *a, const Term *p, const Term *grad, const Term *result, Term *out)
{
    Aten *n = a->n;
    if (!product_of(a, grad, &a->v, REST "gts", out) || out->n != p->n) {
        return false;
    }
    const int elements = grad->n - 1;
    Value *both = MUL(build_cast(n->b, grad->v, a->wide), build_cast(n->b, result->v, a->wide));
    Term lean = *grad;
    lean.n--;
    Value *sum = build_red(n->b, OP_sum, both, 1, &elements);
    out->v = MUL(p->v, SUB(out->v, along(n, sum, &lean, out)));
    return true;
}

/* (grad, query, key, value, result, logsumexp, dropout_p, is_causal, attn_mask, scale)
 * -> gradients of query, key, value */
Value *
aten_flash_attention_backward(Aten *n)
{
    Attention a;
    Term grad, result, sums, p, ds, dq, dk, dv;
    bool plain = without_dropout(arg_at(n, 6)) && n->types[1] && n->types[2];
    if (!plain || product_dtype(n, 0, 4) == DTYPE_COUNT ||
        !attention_of(n, 1, arg_at(n, 8), arg_at(n, 7), arg_at(n, 9), &a)) {
        return NULL;
    }
    const Arg log_sum = {.kind = ARG_TENSOR, .v = split_heads(&a, arg_tensor(n, 5), 1)};
    if (!query_term(&a, arg_at(n, 0), ".te", ".gte", &grad) ||
        !query_term(&a, arg_at(n, 4), ".te", ".gte", &result) ||
        !term_of(&log_sum, a.grouped ? ".gt" : ".t", &sums) || !scores(&a, &p)) {
        return NULL;
    }
    p.v = EXP(SUB(p.v, along(n, build_cast(n->b, sums.v, a.wide), &sums, &p)));
    const Term weights = narrow(&a, &p);
    if (!score_gradient(&a, &p, &grad, &result, &ds)) {
        return NULL;
    }
    ds = narrow(&a, &ds);
    if (!product_of(&a, &ds, &a.k, REST "gtd", &dq) || !product_of(&a, &ds, &a.q, REST "sd", &dk) ||
        !product_of(&a, &weights, &grad, REST "se", &dv)) {
        return NULL;
    }
    n->res[1] = shaped(n, scaled(n, OP_mul, dk.v, a.scale), n->types[1]);
    n->res[2] = shaped(n, dv.v, n->types[2]);
    return shaped(n, scaled(n, OP_mul, dq.v, a.scale), n->type);
}
