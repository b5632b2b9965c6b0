/* Operators of the domain com.microsoft, which onnxruntime's optimiser writes into models. */
#include "onnx.h"

#include <math.h>
#include <string.h>

static Dim
num(Onnx *o, int64_t i)
{
    return dim_int(o->cx, i);
}

static Value *
factored(Onnx *o, Value *v, double by)
{
    return by == 1 ? v : onnx_map(o, OP_mul, v, onnx_number(o, by));
}

/* ---- activations, products ---- */

static Value *
gelu(Onnx *o, Value *x, const char *how)
{
    Arg as = {.kind = ARG_TEXT, .text = how};
    return onnx_aten(o, "aten.gelu.default", x->type, ARGS(arg_v(x), as));
}

void
onnx_bias_gelu(Onnx *o)
{
    o->out[0] = gelu(o, onnx_map(o, OP_add, onnx_in(o, 0), onnx_in(o, 1)), "none");
}

void
onnx_fast_gelu(Onnx *o)
{
    Value *x = onnx_in(o, 0), *bias = onnx_given(o, 1);
    o->out[0] = gelu(o, bias ? onnx_map(o, OP_add, x, bias) : x, "tanh");
}

void
onnx_quick_gelu(Onnx *o)
{
    Value *x = onnx_in(o, 0), *v = factored(o, x, onnx_float(o, "alpha", 1.702));
    v = onnx_aten(o, "aten.sigmoid.default", v->type, ARGS(arg_v(v)));
    o->out[0] = onnx_map(o, OP_mul, x, v);
}

/* Its last axes exchanged; before, with transBatch, the first axis is moved behind the batches. */
static Value *
transposed(Onnx *o, Value *v, bool batch, bool matrix)
{
    int rank = v->type->rank;
    if (rank < 2) {
        return v;
    }
    v = batch && rank > 2 ? onnx_moved(o, v, 0, rank - 2) : v;
    return matrix ? onnx_moved(o, v, rank - 1, rank - 2) : v;
}

void
onnx_fused_matmul(Onnx *o)
{
    Value *a = transposed(o, onnx_in(o, 0), onnx_int(o, "transBatchA", 0) != 0,
                          onnx_int(o, "transA", 0) != 0);
    Value *b = transposed(o, onnx_in(o, 1), onnx_int(o, "transBatchB", 0) != 0,
                          onnx_int(o, "transB", 0) != 0);
    o->out[0] = factored(o, onnx_product(o, a, b), onnx_float(o, "alpha", 1));
}

/* An input of so many axes; refuses others. */
static Value *
of_rank(Onnx *o, int k, int rank)
{
    Value *v = onnx_in(o, k);
    if (v->type->rank != rank) {
        onnx_refuse(o, "its input %d has %d axes instead of %d", k + 1, v->type->rank, rank);
    }
    return v;
}

/* ---- norms ---- */

/* Over the last axis: (v - mean) / deviation * scale + bias or, plain, v / root of its square. */
typedef struct {
    Value *mean, *rstd; /* mean: NULL where it is none */
} Norm;

static Value *
normal(Onnx *o, Value *v, Value *scale, Value *bias, bool plain, double eps, Norm *by)
{
    const Type *t = v->type;
    Dtype at = wide(t->dtype);
    int axis = t->rank - 1;
    if (axis < 0) {
        onnx_refuse(o, "its operand has no axes");
    }
    Value *x = build_cast(o->b, v, at);
    if (plain) {
        const Type *one = onnx_resized(o, x->type, axis, num(o, 1), at);
        Value *square = onnx_map(o, OP_mul, x, x);
        const int64_t last = axis;
        by->mean = NULL;
        Value *s = onnx_aten(
            o, "aten.mean.dim", one,
            ARGS(arg_v(square), arg_ints(o, 1, &last), {.kind = ARG_BOOL, .i = 1}));
        by->rstd = build_map(o->b, OP_rsqrt, onnx_map(o, OP_add, s, onnx_number(o, eps)), NULL,
                             NULL);
        x = onnx_map(o, OP_mul, x, by->rstd);
    } else {
        x = onnx_normalised(o, x, 1, &axis, eps, &by->mean, &by->rstd);
    }
    x = onnx_map(o, OP_mul, x, build_cast(o->b, scale, at));
    x = bias ? onnx_map(o, OP_add, x, build_cast(o->b, bias, at)) : x;
    return build_cast(o->b, x, t->dtype);
}

static void
give(Onnx *o, int k, Value *v)
{
    if (k < o->node->noutputs && o->node->outputs[k] >= 0) {
        o->out[k] = v;
    }
}

void
onnx_skip_norm(Onnx *o)
{
    bool plain = strstr(o->node->op, "Simplified") != NULL;
    Value *bias = onnx_given(o, plain ? 3 : 4);
    Norm by;
    Value *v = onnx_map(o, OP_add, onnx_in(o, 0), onnx_in(o, 1));
    v = bias ? onnx_map(o, OP_add, v, bias) : v;
    o->out[0] = normal(o, v, onnx_in(o, 2), plain ? NULL : onnx_given(o, 3), plain,
                       onnx_float(o, "epsilon", 1e-12), &by);
    give(o, 1, by.mean);
    give(o, 2, by.rstd);
    give(o, 3, v);
}

void
onnx_embed_norm(Onnx *o)
{
    Value *ids = onnx_in(o, 0), *segments = onnx_given(o, 1), *mask = onnx_given(o, 7), *at;
    Norm by;
    const Type *t = ids->type;
    if (t->rank != 2) {
        onnx_refuse(o, "its ids are not [batch, sequence]");
    }
    Value *v = build_gather(o->b, onnx_in(o, 2), build_cast(o->b, ids, DT_i64), 0,
                            INDEX_FROM_START);
    at = onnx_given(o, 8);
    at = at ? build_cast(o->b, at, DT_i64)
            : build_iota(o->b, type_of(o->cx, DT_i64, 1, t->dims + 1), 0);
    v = onnx_map(o, OP_add, v, build_gather(o->b, onnx_in(o, 3), at, 0, INDEX_FROM_START));
    if (segments) {
        v = onnx_map(o, OP_add, v,
                     build_gather(o->b, onnx_in(o, 4), build_cast(o->b, segments, DT_i64), 0,
                                  INDEX_FROM_START));
    }
    o->out[0] = normal(o, v, onnx_in(o, 5), onnx_in(o, 6), false, onnx_float(o, "epsilon", 1e-12),
                       &by);
    Value *counts = build_const(o->b, type_of(o->cx, DT_i32, 1, t->dims),
                                (Literal){.is_int = true});
    if (mask) {
        Value *is = onnx_map(o, OP_eq, mask, build_int(o->b, 1));
        counts = build_red(o->b, OP_sum, build_cast(o->b, is, DT_i32), 1, (const int[]){1});
    }
    give(o, 1, counts);
    give(o, 2, v);
}

/* ---- attention: [batch, heads, sequence, head] ---- */

/* [B, S, heads * D] to [B, heads, S, D]. */
static Value *
heads_of(Onnx *o, Value *v, int64_t heads)
{
    const Dim *d = v->type->dims;
    if (v->type->rank != 3 || heads < 1) {
        onnx_refuse(o, "its operand is not [batch, sequence, heads * size]");
    }
    Dim size = dim_div(o->cx, d[2], num(o, heads)), dims[] = {d[0], d[1], num(o, heads), size};
    return onnx_moved(o, build_reshape(o->b, v, 4, dims), 2, 1);
}

static Value *
without_heads(Onnx *o, Value *v)
{
    v = onnx_moved(o, v, 1, 2);
    const Dim *d = v->type->dims;
    Dim dims[] = {d[0], d[1], dim_mul(o->cx, d[2], d[3])};
    return build_reshape(o->b, v, 3, dims);
}

/* Each head as often as `times` others read it. */
static Value *
repeated(Onnx *o, Value *v, int64_t times)
{
    const Dim *d = v->type->dims;
    Dim dims[] = {d[0], d[1], num(o, times), d[2], d[3]};
    Dim all[] = {d[0], dim_mul(o->cx, d[1], dims[2]), d[2], d[3]};
    if (times == 1) {
        return v;
    }
    return build_reshape(o->b, build_expand(o->b, v, 5, dims, (const int[]){0, 1, 3, 4}), 4, all);
}

/* Softmax of scores, then the values' mean; hidden: NULL, or where a key does not count. */
static Value *
attended(Onnx *o, Value *const *qkv, double scale, double cap, Value *bias, Value *hidden)
{
    Dtype at = wide(qkv[0]->type->dtype);
    Value *s = build_product(o->b, qkv[0], qkv[1], "bnsd,bntd->bnst", at);
    s = factored(o, s, scale);
    if (cap > 0) {
        s = build_map(o->b, OP_tanh, factored(o, s, 1 / cap), NULL, NULL);
        s = factored(o, s, cap);
    }
    s = bias ? onnx_map(o, OP_add, s, build_cast(o->b, bias, at)) : s;
    if (hidden) {
        Value *none = build_const(o->b, s->type, (Literal){.f = -INFINITY});
        s = onnx_map3(o, OP_where, hidden, none, s);
    }
    Arg halves = {.kind = ARG_BOOL};
    s = onnx_aten(o, "aten._softmax.default", s->type, ARGS(arg_v(s), arg_i(3), halves));
    return build_product(o->b, build_cast(o->b, s, qkv[2]->type->dtype), qkv[2], "bnst,bntd->bnsd",
                         qkv[2]->type->dtype);
}

/* The place of each query or key, [queries, keys], i64. */
static Value *
places(Onnx *o, Dim queries, Dim keys, int axis)
{
    Dim dims[] = {queries, keys};
    return build_iota(o->b, type_of(o->cx, DT_i64, 2, dims), axis);
}

static Value *
of_size(Onnx *o, Dim d)
{
    return build_size(o->b, d);
}

/* An additive mask [B, 1, S or 1, T] of what mask_index says; NULL: there is none. */
static Value *
index_mask(Onnx *o, Dim batch, Dim queries, Dim keys)
{
    Value *mask = onnx_given(o, 3), *is;
    double low = onnx_float(o, "mask_filter_value", -10000);
    if (!mask) {
        return NULL;
    }
    const Type *t = mask->type;
    Dim dims[] = {batch, num(o, 1), num(o, 1), keys};
    if (t->rank == 1 && t->dims[0] == batch) { /* how many keys there are */
        Value *end = build_expand(o->b, build_cast(o->b, mask, DT_i64), 4, dims, (const int[]){0});
        is = onnx_map(o, OP_lt, build_iota(o->b, end->type, 3), end);
    } else if (t->rank == 2 && t->dims[0] == batch && t->dims[1] == keys) {
        is = onnx_map(o, OP_gt, build_reshape(o->b, mask, 4, dims), build_int(o->b, 0));
    } else if (t->rank == 3 && t->dims[1] == queries && t->dims[2] == keys) {
        dims[2] = queries;
        is = onnx_map(o, OP_gt, build_reshape(o->b, mask, 4, dims), build_int(o->b, 0));
    } else {
        onnx_refuse(o, "its mask_index is neither [batch] nor [batch, keys] nor "
                       "[batch, queries, keys]");
    }
    Value *zero = build_const(o->b, type_with(o->cx, is->type, DT_f32), (Literal){.f = 0});
    return onnx_map3(o, OP_where, is, zero, build_const(o->b, zero->type, (Literal){.f = low}));
}

/* Queries, keys and values are one product of the input. */
void
onnx_packed_attention(Onnx *o)
{
    Value *x = onnx_in(o, 0), *weight = onnx_in(o, 1), *bias = onnx_given(o, 2);
    Value *past = onnx_given(o, 4) ? of_rank(o, 4, 5) : NULL, *more = onnx_given(o, 5), *part[3];
    const OnnxAttr *widths = onnx_attr(o, "qkv_hidden_sizes");
    int64_t heads = onnx_int(o, "num_heads", 0), head;
    if (x->type->rank != 3 || weight->type->rank != 2 || onnx_int(o, "do_rotary", 0) ||
        onnx_given(o, 6) || heads < 1 ||
        (widths && (widths->kind != ONNX_INTS || widths->n != 3))) {
        onnx_refuse(o, "it has a form that is not compiled: do_rotary, or a shared buffer");
    }
    Value *all = onnx_product(o, x, weight);
    all = bias ? onnx_map(o, OP_add, all, bias) : all;
    Dim from = num(o, 0), third = dim_div(o->cx, weight->type->dims[1], num(o, 3));
    for (int k = 0; k < 3; k++) {
        Dim size = widths ? num(o, widths->ints[k]) : third;
        part[k] = heads_of(o, build_slice(o->b, all, 2, from, num(o, 1), size), heads);
        from = dim_add(o->cx, from, size);
    }
    for (int k = 1; past && k < 3; k++) { /* [2, B, heads, P, D] */
        Value *old = build_slice(o->b, past, 0, num(o, k - 1), num(o, 1), num(o, 1));
        Value *both[] = {build_reshape(o->b, old, 4, old->type->dims + 1), part[k]};
        part[k] = build_cat(o->b, 2, both, 2);
    }
    Dim s = x->type->dims[1], t = part[1]->type->dims[2];
    Value *mask = index_mask(o, x->type->dims[0], s, t), *hidden = NULL;
    mask = mask && more ? onnx_map(o, OP_add, mask, more) : mask ? mask : more;
    if (onnx_int(o, "unidirectional", 0)) {
        Value *last = onnx_map(o, OP_add, places(o, s, t, 0), of_size(o, dim_sub(o->cx, t, s)));
        hidden = onnx_map(o, OP_gt, places(o, s, t, 1), last);
    }
    double scale = onnx_float(o, "scale", 0);
    if (scale == 0) {
        if (!dim_is_int(o->cx, part[0]->type->dims[3], &head)) {
            onnx_refuse(o, "the size of its heads is no number");
        }
        scale = 1 / sqrt((double)head);
    }
    o->out[0] = without_heads(o, attended(o, part, scale, 0, mask, hidden));
    if (o->node->noutputs > 1 && o->node->outputs[1] >= 0) {
        Value *both[2];
        for (int k = 0; k < 2; k++) {
            const Type *made = type_of_rows(o->cx, part[k + 1]->type, num(o, 1));
            both[k] = build_reshape(o->b, part[k + 1], made->rank, made->dims);
        }
        o->out[1] = build_cat(o->b, 2, both, 0);
    }
}

/* ---- rotations ---- */

/* x [B, heads, S, D] with its first 2 * R numbers rotated; at [B, S]: rows of the tables [_, R]. */
static Value *
rotated(Onnx *o, Value *x, Value *at, Value *cosines, Value *sines, bool interleaved)
{
    const Dim *d = x->type->dims;
    Dim half = cosines->type->dims[1], both = dim_mul(o->cx, half, num(o, 2));
    Dim dims[] = {d[0], d[1], d[2], half}, pairs[] = {d[0], d[1], d[2], half, num(o, 1)};
    const int to[] = {0, 2, 3};
    Value *c = build_gather(o->b, cosines, at, 0, INDEX_FROM_START), *part[2];
    Value *s = build_gather(o->b, sines, at, 0, INDEX_FROM_START);
    c = build_expand(o->b, c, 4, dims, to);
    s = build_expand(o->b, s, 4, dims, to);
    for (int k = 0; k < 2; k++) {
        part[k] = interleaved ? build_slice(o->b, x, 3, num(o, k), num(o, 2), half)
                              : build_slice(o->b, x, 3, k ? half : num(o, 0), num(o, 1), half);
    }
    Value *made[] = {
        onnx_map(o, OP_sub, onnx_map(o, OP_mul, part[0], c), onnx_map(o, OP_mul, part[1], s)),
        onnx_map(o, OP_add, onnx_map(o, OP_mul, part[0], s), onnx_map(o, OP_mul, part[1], c))};
    for (int k = 0; interleaved && k < 2; k++) {
        made[k] = build_reshape(o->b, made[k], 5, pairs);
    }
    Value *v = build_cat(o->b, 2, made, interleaved ? 4 : 3);
    dims[3] = both;
    v = build_reshape(o->b, v, 4, dims);
    if (both == d[3]) {
        return v;
    }
    Value *rest = build_slice(o->b, x, 3, both, num(o, 1), dim_sub(o->cx, d[3], both));
    return build_cat(o->b, 2, (Value *[]){v, rest}, 3);
}

/* [1], the first place, or [B, S]. */
static Value *
all_places(Onnx *o, Value *given, Dim batch, Dim steps)
{
    Dim dims[] = {batch, steps};
    const Type *t = type_of(o->cx, DT_i64, 2, dims);
    given = build_cast(o->b, given, DT_i64);
    if (given->type->rank == 1) {
        return onnx_map(o, OP_add, build_iota(o->b, t, 1), build_reshape(o->b, given, 0, NULL));
    }
    return build_broadcast(o->b, given, 2, dims);
}

void
onnx_rotary(Onnx *o)
{
    Value *x = onnx_in(o, 0), *cosines = onnx_in(o, 2), *sines = of_rank(o, 3, 2), *v = x;
    int64_t heads = onnx_int(o, "num_heads", 0), width = onnx_int(o, "rotary_embedding_dim", 0),
            half, all;
    bool flat = x->type->rank == 3;
    if (onnx_int(o, "is_packed_batching", 0) || cosines->type->rank != 2) {
        onnx_refuse(o, "it has a form that is not compiled: packed batches");
    }
    if (flat && heads == 0 && !width && dim_is_int(o->cx, cosines->type->dims[1], &half) &&
        dim_is_int(o->cx, x->type->dims[2], &all) && half > 0) {
        heads = all / (2 * half);
    }
    v = flat ? heads_of(o, x, heads) : of_rank(o, 0, 4);
    Value *at = all_places(o, onnx_in(o, 1), v->type->dims[0], v->type->dims[2]);
    v = rotated(o, v, at, cosines, sines, onnx_int(o, "interleaved", 0) != 0);
    v = factored(o, v, onnx_float(o, "scale", 1));
    o->out[0] = flat ? without_heads(o, v) : v;
}

/* A value of each batch [B] beside [B, ..]. */
static Value *
of_batch(Onnx *o, Value *v, int rank, const Dim *dims)
{
    return build_expand(o->b, v, rank, dims, (const int[]){0});
}

/* How many rows keys have behind a past of P rows, which may be a buffer with room for the S new
 * ones: as many as there are keys in all if that is known and more than P, else P + S. */
static Dim
rows_behind(Onnx *o, Dim past, Dim all)
{
    const Known *known = onnx_known(o, onnx_in(o, 6));
    if (!known || known->n != 1 || known->elements[0].kind != ELEMENT_DIM) {
        return all;
    }
    return dim_min(o->cx, dim_max(o->cx, past, known->elements[0].d), all);
}

/* What was there in front, up to `count` of each batch, and then the new: [B, heads, rows, D]. */
static Value *
appended(Onnx *o, Value *past, Value *new, Value *count)
{
    if (!past) {
        return new;
    }
    Value *both = build_cat(o->b, 2, (Value *[]){past, new}, 2);
    const Type *t = both->type, *ti = type_with(o->cx, t, DT_i64);
    Value *at = build_iota(o->b, ti, 2), *n = of_batch(o, count, 4, t->dims);
    Value *p = of_size(o, past->type->dims[2]),
          *last = of_size(o, dim_sub(o->cx, t->dims[2], num(o, 1)));
    Value *later = onnx_map(o, OP_add, onnx_map(o, OP_sub, at, n), p);
    later = onnx_map(o, OP_minimum, later, last);
    at = onnx_map3(o, OP_where, onnx_map(o, OP_lt, at, n), at, later);
    Value *v = onnx_aten(o, "aten.gather.default", t, ARGS(arg_v(both), arg_i(2), arg_v(at)));
    Dim rows = rows_behind(o, past->type->dims[2], t->dims[2]);
    return build_slice(o->b, v, 2, num(o, 0), num(o, 1), rows);
}

void
onnx_group_attention(Onnx *o)
{
    static const char *const others[] = {"smooth_softmax", "qk_output", "kv_cache_bit_width",
                                         "sliding_window_cache"};
    Value *q = onnx_in(o, 0), *k = onnx_given(o, 1), *v = k ? onnx_in(o, 2) : NULL;
    Value *past[] = {onnx_given(o, 3) ? of_rank(o, 3, 4) : NULL,
                     onnx_given(o, 4) ? of_rank(o, 4, 4) : NULL};
    int64_t heads = onnx_int(o, "num_heads", 0), few = onnx_int(o, "kv_num_heads", 0), head;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (onnx_int(o, others[i], 0) > 0) {
            onnx_refuse(o, "its attribute %s is not compiled", others[i]);
        }
    }
    for (int i = 11; i < o->node->ninputs; i++) {
        if (onnx_given(o, i)) {
            onnx_refuse(o, "its input %d is not compiled", i + 1);
        }
    }
    if (q->type->rank != 3 || heads < 1 || few < 1 || heads % few) {
        onnx_refuse(o, "it takes queries [batch, sequence, heads * size]");
    }
    if (!k) { /* all in one */
        Dim size = dim_div(o->cx, q->type->dims[2], num(o, heads + 2 * few));
        Dim a = dim_mul(o->cx, size, num(o, heads)), b = dim_mul(o->cx, size, num(o, few));
        Value *all = q;
        q = build_slice(o->b, all, 2, num(o, 0), num(o, 1), a);
        k = build_slice(o->b, all, 2, a, num(o, 1), b);
        v = build_slice(o->b, all, 2, dim_add(o->cx, a, b), num(o, 1), b);
    }
    q = heads_of(o, q, heads);
    k = heads_of(o, k, few);
    v = heads_of(o, v, few);
    Dim batch = q->type->dims[0], s = q->type->dims[2];
    Value *ends = build_cast(o->b, onnx_in(o, 5), DT_i64); /* the last key's place, of each batch */
    ends = build_reshape(o->b, ends, 1, &batch);
    Value *count = onnx_map(o, OP_add, ends, build_int(o->b, 1));
    count = onnx_map(o, OP_sub, count, of_size(o, s));
    count = onnx_map(o, OP_maximum, count, build_int(o->b, 0)); /* keys before the new ones */
    if (onnx_int(o, "do_rotary", 0)) {
        Dim dims[] = {batch, s};
        Value *at = onnx_given(o, 9);
        Value *own = build_iota(o->b, type_of(o->cx, DT_i64, 2, dims), 1);
        at = at ? all_places(o, at, batch, s)
                : onnx_map(o, OP_add, own, of_batch(o, count, 2, dims));
        bool interleaved = onnx_int(o, "rotary_interleaved", 0) != 0;
        Value *cosines = of_rank(o, 7, 2), *sines = of_rank(o, 8, 2);
        q = rotated(o, q, at, cosines, sines, interleaved);
        k = rotated(o, k, at, cosines, sines, interleaved);
    }
    k = appended(o, past[0], k, count);
    v = appended(o, past[1], v, count);
    Dim t = k->type->dims[2], dims[] = {batch, num(o, 1), s, t};
    const Type *square = type_of(o->cx, DT_i64, 4, dims);
    Value *place = build_iota(o->b, square, 2), *key = build_iota(o->b, square, 3);
    place = onnx_map(o, OP_add, place, of_batch(o, count, 4, dims));
    Value *hidden = onnx_map(o, OP_gt, key, place);
    int64_t window = onnx_int(o, "local_window_size", -1);
    if (window > 0) {
        Value *first = onnx_map(o, OP_sub, place, build_int(o->b, window));
        hidden = onnx_map(o, OP_bit_or, hidden, onnx_map(o, OP_le, key, first));
    }
    double scale = onnx_float(o, "scale", 0);
    if (scale == 0) {
        if (!dim_is_int(o->cx, q->type->dims[3], &head)) {
            onnx_refuse(o, "the size of its heads is no number");
        }
        scale = 1 / sqrt((double)head);
    }
    Value *qkv[] = {q, repeated(o, k, heads / few), repeated(o, v, heads / few)};
    Value *made = attended(o, qkv, scale, onnx_float(o, "softcap", 0), onnx_given(o, 10), hidden);
    o->out[0] = without_heads(o, made);
    give(o, 1, k);
    give(o, 2, v);
}

/* ---- products by weights of few bits ---- */

/* Bytes [.., n] as codes [.., n * 8 / bits], of each byte the low ones first. */
static Value *
codes_of(Onnx *o, Value *bytes, int64_t bits)
{
    int rank = bytes->type->rank;
    int64_t each = 8 / bits;
    Dim dims[MAX_RANK], all[MAX_RANK];
    Value *parts[8];
    memcpy(dims, bytes->type->dims, (size_t)rank * sizeof *dims);
    memcpy(all, dims, sizeof all);
    dims[rank] = num(o, 1);
    all[rank - 1] = dim_mul(o->cx, all[rank - 1], num(o, each));
    for (int64_t k = 0; k < each; k++) {
        Value *v = k ? onnx_map(o, OP_shr, bytes, build_int(o->b, k * bits)) : bytes;
        v = bits < 8 ? onnx_map(o, OP_bit_and, v, build_int(o->b, (1 << bits) - 1)) : v;
        parts[k] = build_reshape(o->b, v, rank + 1, dims);
    }
    return build_reshape(o->b, build_cat(o->b, (int)each, parts, rank), rank, all);
}

/* A [.., K] by weights [N, blocks, bytes of a block]; scales, and zero points, of each block. */
void
onnx_matmul_bits(Onnx *o)
{
    Value *a = onnx_in(o, 0), *b = onnx_in(o, 1), *scales = onnx_in(o, 2), *zero = onnx_given(o, 3);
    int64_t k = onnx_int(o, "K", 0), n = onnx_int(o, "N", 0), bits = onnx_int(o, "bits", 4);
    int64_t block = onnx_int(o, "block_size", 0);
    Dtype at = wide(a->type->dtype);
    int rank = a->type->rank;
    if ((bits != 2 && bits != 4 && bits != 8) || block < 8 || block > INT32_MAX || k < 1 || n < 1 ||
        k > INT32_MAX || n > INT32_MAX || b->type->dtype != DT_u8 || rank < 1 ||
        onnx_int(o, "weight_prepacked", 0)) {
        onnx_refuse(o, "it takes codes of 2, 4 or 8 bits in blocks of at least 8");
    }
    if (onnx_given(o, 4)) {
        onnx_refuse(o, "its g_idx is not compiled");
    }
    int64_t blocks = (k + block - 1) / block, bytes = block * bits / 8;
    Dim packed[] = {num(o, n), num(o, blocks), num(o, bytes)};
    Dim by_block[] = {num(o, n), num(o, blocks)}, rows[] = {num(o, n), num(o, blocks * block)};
    if (type_numel(o->cx, b->type) != num(o, n * blocks * bytes)) {
        onnx_refuse(o, "its weight is not [N, blocks, bytes of a block]");
    }
    Value *code = build_cast(o->b, codes_of(o, build_reshape(o->b, b, 3, packed), bits), at);
    Dim full[] = {num(o, n), num(o, blocks), num(o, block)};
    const int to[] = {0, 1};
    if (zero && zero->type->dtype == DT_u8) {
        Dim lines[] = {num(o, n), num(o, (blocks * bits + 7) / 8)};
        zero = codes_of(o, build_reshape(o->b, zero, 2, lines), bits);
        zero = build_slice(o->b, zero, 1, num(o, 0), num(o, 1), num(o, blocks));
    }
    zero = zero ? build_expand(o->b, build_cast(o->b, build_reshape(o->b, zero, 2, by_block), at),
                               3, full, to)
                : onnx_number(o, (double)(1 << (bits - 1)));
    Value *by = build_cast(o->b, build_reshape(o->b, scales, 2, by_block), at);
    Value *w = onnx_map(o, OP_mul, onnx_map(o, OP_sub, code, zero),
                        build_expand(o->b, by, 3, full, to));
    w = build_slice(o->b, build_reshape(o->b, w, 2, rows), 1, num(o, 0), num(o, 1), num(o, k));
    Dim made[MAX_RANK];
    memcpy(made, a->type->dims, (size_t)rank * sizeof *made);
    made[rank - 1] = num(o, n);
    Value *x = build_cast(o->b, onnx_flat(o, a, rank - 1), at);
    Value *v = build_product(o->b, x, w, "mk,nk->mn", at), *bias = onnx_given(o, 5);
    v = bias ? onnx_map(o, OP_add, v, build_cast(o->b, bias, at)) : v;
    o->out[0] = build_cast(o->b, build_reshape(o->b, v, rank, made), a->type->dtype);
}
