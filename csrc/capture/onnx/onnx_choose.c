/* Operators that choose elements: the greatest ones, those that are not 0, each once, boxes that
 * overlap little.  How many there are may be a size that only a call finds. */
#include "onnx.h"

#include <string.h>

static Value *
count_as(Onnx *o, Dim d, const Type *t)
{
    return build_broadcast(o->b, build_size(o->b, d), t->rank, t->dims);
}

/* ---- TopK ---- */

/* A step of a choice: the greatest element (or least, by the op) along an axis of those that are
 * left, as its position and its value; of equals the first. */
typedef struct {
    Value *at, *value;
} Extreme;

static Extreme
next_extreme(Onnx *o, Value *x, Value *left, int axis, bool greatest)
{
    const Type *t = x->type;
    Literal l = onnx_furthest(t->dtype, greatest);
    Value *worst = build_const(o->b, t, l);
    Value *v = build_map(o->b, OP_where, left, x, worst);
    Value *value = build_red(o->b, greatest ? OP_amax : OP_amin, v, 1, &axis);
    Value *at = build_red(o->b, greatest ? OP_argmax : OP_argmin, v, 1, &axis);
    /* if it is the worst that there is, what is gone looks like it */
    Value *any = build_red(o->b, OP_argmax, build_cast(o->b, left, DT_i32), 1, &axis);
    Value *is_worst = build_map(o->b, OP_eq, value, build_const(o->b, value->type, l), NULL);
    return (Extreme){build_map(o->b, OP_where, is_worst, any, at), value};
}

/* v, without an axis, repeated along it to the shape of t. */
static Value *
along(Onnx *o, Value *v, const Type *t, int axis)
{
    int to[MAX_RANK], n = 0;
    for (int ax = 0; ax < t->rank; ax++) {
        if (ax != axis) {
            to[n++] = ax;
        }
    }
    return build_expand(o->b, v, t->rank, t->dims, to);
}

static Value *
all_true(Onnx *o, const Type *t)
{
    return build_const(o->b, type_with(o->cx, t, DT_bool), (Literal){.is_int = true, .i = 1});
}

void
onnx_top_k(Onnx *o)
{
    bool flips = onnx_is_u64(o, 0);
    Value *x = flips ? onnx_ordered(o, onnx_in(o, 0)) : onnx_in(o, 0);
    const Type *t = x->type;
    int axis = onnx_axis(o, onnx_int(o, "axis", -1), t->rank);
    bool greatest = onnx_int(o, "largest", 1) != 0;
    Dim k = o->node->version < 10 ? dim_int(o->cx, onnx_int(o, "k", 0)) : onnx_one_dim(o, 1);
    if (t->dtype == DT_bool || !dim_le(o->cx, k, t->dims[axis]) ||
        dim_lt(o->cx, k, dim_int(o->cx, 0))) {
        onnx_refuse(o, "its k is not known to be at most the size of the axis");
    }
    OnnxBody body;
    onnx_body_open(o, &body);
    onnx_body_param(o, "step", type_scalar(o->cx, DT_i64));
    Value *left = onnx_body_param(o, "left", type_with(o->cx, t, DT_bool));
    Extreme e = next_extreme(o, onnx_body_stay(o, &body, x), left, axis, greatest);
    Value *at = along(o, e.at, t, axis);
    Value *others = build_map(o->b, OP_ne, at, build_iota(o->b, at->type, axis), NULL);
    Value *rets[] = {build_map(o->b, OP_bit_and, left, others, NULL), e.value, e.at};
    Fn *fn = onnx_body_close(o, &body, 3, rets);
    Value *args[] = {all_true(o, t), x};
    Let *let = onnx_loop(o, &(OnnxLoop){.carries = 1, .steps = k}, fn, 1 + body.nstays, args);
    o->out[0] = onnx_moved(o, let->res[1], 0, axis);
    o->out[0] = flips ? onnx_ordered(o, o->out[0]) : o->out[0];
    o->out[1] = onnx_moved(o, let->res[2], 0, axis);
}

/* ---- NonZero, Compress ---- */

/* `rows` of as many as there are truth values, in the order of `at`: the first `count` of them. */
static Value *
in_order(Onnx *o, Value *is, Value *at)
{
    Dim n = is->type->dims[0], one = dim_int(o->cx, 1), room = dim_add(o->cx, n, one);
    Value *count = build_red(o->b, OP_sum, build_cast(o->b, is, DT_i64), 1, (const int[]){0});
    Value *all = build_iota(o->b, type_of(o->cx, DT_i64, 1, &n), 0), *first;
    Value *none = build_const(o->b, type_of(o->cx, DT_i64, 1, &room), (Literal){.is_int = true});
    at = build_map(o->b, OP_where, is, at, count_as(o, n, at->type)); /* the others to the end */
    Value *made = onnx_aten(o, "aten.scatter.src", none->type,
                            ARGS(arg_v(none), arg_i(0), arg_v(at), arg_v(all)));
    onnx_first_rows(o, count, 1, &made, &first);
    return first;
}

Value *
onnx_where_true(Onnx *o, Value *is)
{
    Value *at = build_scan(o->b, OP_sum, build_cast(o->b, is, DT_i64), 0);
    return in_order(o, is, build_map(o->b, OP_sub, at, build_int(o->b, 1), NULL));
}

/* A row-major position as that in each axis. */
static void
positions(Onnx *o, Value *at, int rank, const Dim *dims, Value **out)
{
    for (int ax = rank - 1; ax >= 0; ax--) {
        Value *n = count_as(o, dims[ax], at->type);
        out[ax] = build_map(o->b, OP_remainder, at, n, NULL);
        at = build_map(o->b, OP_div_trunc, at, n, NULL);
    }
}

/* Lists of one length as rows or as columns of a matrix. */
static Value *
joined(Onnx *o, int n, Value *const *lists, int axis)
{
    Value *parts[MAX_RANK];
    Dim count = lists[0]->type->dims[0], one = dim_int(o->cx, 1);
    Dim dims[] = {axis == 0 ? one : count, axis == 0 ? count : one};
    for (int k = 0; k < n; k++) {
        parts[k] = build_reshape(o->b, lists[k], 2, dims);
    }
    return build_cat(o->b, n, parts, axis);
}

void
onnx_non_zero(Onnx *o)
{
    Value *x = onnx_in(o, 0), *at[MAX_RANK];
    Dim all = type_numel(o->cx, x->type), one = dim_int(o->cx, 1);
    int rank = x->type->rank ? x->type->rank : 1; /* a number is a list of one */
    Value *is = build_reshape(o->b, x, 1, &all);
    is = is->type->dtype == DT_bool ? is : onnx_map(o, OP_ne, is, build_int(o->b, 0));
    positions(o, onnx_where_true(o, is), rank, x->type->rank ? x->type->dims : &one, at);
    o->out[0] = joined(o, rank, at, 0);
}

void
onnx_compress(Onnx *o)
{
    Value *x = onnx_in(o, 0), *is = onnx_in(o, 1);
    const OnnxAttr *a = onnx_attr(o, "axis");
    Dim all = type_numel(o->cx, x->type);
    int axis = a ? onnx_axis(o, onnx_int(o, "axis", 0), x->type->rank) : 0;
    x = a ? x : build_reshape(o->b, x, 1, &all);
    if (is->type->rank != 1) {
        onnx_refuse(o, "its condition is no list");
    }
    o->out[0] = build_gather(o->b, x, onnx_where_true(o, is), axis, INDEX_FROM_START);
}

/* ---- Unique ---- */

static bool
is_real(const Type *t)
{
    return dtype_info[t->dtype].class == CLASS_FLOAT;
}

static Value *
is_nan(Onnx *o, Value *v)
{
    return build_map(o->b, OP_isnan, v, NULL, NULL);
}

/* Equal, also two that are no numbers. */
static Value *
equal(Onnx *o, Value *a, Value *b)
{
    Value *is = build_map(o->b, OP_eq, a, b, NULL);
    return is_real(a->type)
               ? build_map(o->b, OP_bit_or, is,
                           build_map(o->b, OP_bit_and, is_nan(o, a), is_nan(o, b), NULL), NULL)
               : is;
}

/* What is no number comes last. */
static Value *
less(Onnx *o, Value *a, Value *b)
{
    Value *is = build_map(o->b, OP_lt, a, b, NULL);
    if (!is_real(a->type)) {
        return is;
    }
    Value *number = build_map(o->b, OP_not, is_nan(o, a), NULL, NULL);
    return build_map(o->b, OP_bit_or, is, build_map(o->b, OP_bit_and, number, is_nan(o, b), NULL),
                     NULL);
}

/* Each row is compared with each. */
void
onnx_unique(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    const OnnxAttr *by = onnx_attr(o, "axis");
    Dim all = type_numel(o->cx, x->type);
    int axis = by ? onnx_axis(o, onnx_int(o, "axis", 0), x->type->rank) : 0, second = 1, third = 2;
    Value *given = by ? x : build_reshape(o->b, x, 1, &all);
    Dim n = given->type->dims[axis], width = dim_int(o->cx, 1);
    for (int ax = 0; ax < given->type->rank; ax++) {
        width = ax == axis ? width : dim_mul(o->cx, width, given->type->dims[ax]);
    }
    Value *rows = build_reshape(o->b, onnx_moved(o, given, axis, 0), 2, (const Dim[]){n, width});
    if (dim_is(o->cx, width, 0)) { /* all rows are equal, as if they had one number */
        width = dim_int(o->cx, 1);
        rows = build_const(o->b, type_of(o->cx, DT_u8, 2, (const Dim[]){n, width}),
                           (Literal){.is_int = true});
    }
    rows = rows->type->dtype == DT_bool ? build_cast(o->b, rows, DT_u8) : rows;
    Dim cube[] = {n, n, width}, square[] = {n, n};
    Value *a = build_expand(o->b, rows, 3, cube, (const int[]){0, 2});
    Value *b = build_expand(o->b, rows, 3, cube, (const int[]){1, 2});
    Value *same = equal(o, a, b), *differ = build_map(o->b, OP_not, same, NULL, NULL);
    Value *is_equal = build_red(o->b, OP_all, same, 1, &third);
    Value *first = build_red(o->b, OP_argmax, build_cast(o->b, is_equal, DT_i32), 1, &second);
    Value *is_first = build_map(o->b, OP_eq, first, build_iota(o->b, first->type, 0), NULL);
    Value *order;
    if (onnx_int(o, "sorted", 1)) {
        /* how many rows are before each one, each counted once: by the place where they differ */
        Value *place = build_red(o->b, OP_argmax, build_cast(o->b, differ, DT_i32), 1, &third);
        Value *i = build_iota(o->b, place->type, 0), *j = build_iota(o->b, place->type, 1);
        Value *w = count_as(o, width, place->type);
        Dim flat = dim_mul(o->cx, n, width);
        Value *list = build_reshape(o->b, rows, 1, &flat), *of[2], *row[] = {i, j};
        for (int k = 0; k < 2; k++) {
            Value *at = build_map(o->b, OP_mul, row[k], w, NULL);
            at = build_map(o->b, OP_add, at, place, NULL);
            of[k] = build_gather(o->b, list, at, 0, INDEX_FROM_START);
        }
        Value *before = build_map(o->b, OP_bit_and, less(o, of[1], of[0]),
                                  build_expand(o->b, is_first, 2, square, &second), NULL);
        order = build_red(o->b, OP_sum, build_cast(o->b, before, DT_i64), 1, &second);
    } else {
        order = build_scan(o->b, OP_sum, build_cast(o->b, is_first, DT_i64), 0);
        order = build_map(o->b, OP_sub, order, build_int(o->b, 1), NULL);
        order = build_gather(o->b, order, first, 0, INDEX_FROM_START);
    }
    Value *at = in_order(o, is_first, order);
    Value *count = build_red(o->b, OP_sum, build_cast(o->b, is_equal, DT_i64), 1, &second);
    Value *made[] = {build_gather(o->b, given, at, axis, INDEX_FROM_START), at, order,
                     build_gather(o->b, count, at, 0, INDEX_FROM_START)};
    memcpy(o->out, made, (size_t)o->node->noutputs * sizeof *made);
}

/* ---- NonMaxSuppression ---- */

/* A column of boxes [.., 4]. */
static Value *
corner(Onnx *o, Value *boxes, int k)
{
    const Type *t = boxes->type;
    Dim one = dim_int(o->cx, 1);
    Value *v = build_slice(o->b, boxes, t->rank - 1, dim_int(o->cx, k), one, one);
    return build_reshape(o->b, v, t->rank - 1, t->dims);
}

/* Lower and upper ends of boxes along both axes. */
static void
ends_of(Onnx *o, Value *boxes, bool centers, Value **low, Value **high)
{
    for (int k = 0; k < 2; k++) {
        Value *a = corner(o, boxes, k), *b = corner(o, boxes, k + 2);
        if (centers) {
            b = onnx_map(o, OP_mul, b, onnx_number(o, 0.5));
            low[k] = onnx_map(o, OP_sub, a, b);
            high[k] = onnx_map(o, OP_add, a, b);
        } else {
            low[k] = onnx_map(o, OP_minimum, a, b);
            high[k] = onnx_map(o, OP_maximum, a, b);
        }
    }
}

/* Does each box [B, N] overlap the one at `at` [B, C] by more than a part? [B, C, N] */
static Value *
overlaps(Onnx *o, Value *boxes, Value *at, bool centers, Value *most)
{
    Dim four = dim_int(o->cx, 4);
    Dim b = boxes->type->dims[0], n = boxes->type->dims[1], c = at->type->dims[1];
    Dim chosen[] = {b, c, four}, dims[] = {b, c, n};
    const int of_box[] = {0, 2}, of_one[] = {0, 1};
    Value *low[2], *high[2], *low1[2], *high1[2], *shared = NULL, *area = NULL, *area1 = NULL;
    Value *index = build_expand(o->b, at, 3, chosen, of_one);
    Value *one = onnx_aten(o, "aten.gather.default", type_of(o->cx, boxes->type->dtype, 3, chosen),
                           ARGS(arg_v(boxes), arg_i(1), arg_v(index)));
    ends_of(o, boxes, centers, low, high);
    ends_of(o, one, centers, low1, high1);
    for (int k = 0; k < 2; k++) {
        Value *ends[] = {build_expand(o->b, low[k], 3, dims, of_box),
                         build_expand(o->b, high[k], 3, dims, of_box),
                         build_expand(o->b, low1[k], 3, dims, of_one),
                         build_expand(o->b, high1[k], 3, dims, of_one)};
        Value *side = onnx_map(o, OP_sub, onnx_map(o, OP_minimum, ends[1], ends[3]),
                               onnx_map(o, OP_maximum, ends[0], ends[2]));
        side = onnx_map(o, OP_maximum, side, onnx_number(o, 0));
        Value *size = onnx_map(o, OP_sub, ends[1], ends[0]);
        Value *size1 = onnx_map(o, OP_sub, ends[3], ends[2]);
        shared = shared ? onnx_map(o, OP_mul, shared, side) : side;
        area = area ? onnx_map(o, OP_mul, area, size) : size;
        area1 = area1 ? onnx_map(o, OP_mul, area1, size1) : size1;
    }
    Value *both = onnx_map(o, OP_sub, onnx_map(o, OP_add, area, area1), shared);
    Value *is = onnx_map(o, OP_gt, onnx_map(o, OP_div, shared, both), most);
    return build_map(o->b, OP_bit_and, is, onnx_map(o, OP_gt, both, onnx_number(o, 0)), NULL);
}

static Value *
one_number(Onnx *o, int k, Dtype dtype, double otherwise)
{
    Value *v = onnx_given(o, k);
    return v ? build_cast(o->b, build_reshape(o->b, v, 0, NULL), dtype)
             : build_const(o->b, type_scalar(o->cx, dtype),
                           dtype == DT_i64 ? (Literal){.is_int = true, .i = (int64_t)otherwise}
                                           : (Literal){.f = otherwise});
}

/* All classes of all images at a time: each step takes the box with the highest score of those that
 * are left, and removes those that overlap it. */
void
onnx_non_max(Onnx *o)
{
    Value *boxes = onnx_in(o, 0), *scores = onnx_in(o, 1);
    const Type *t = scores->type, *tb = boxes->type;
    bool centers = onnx_int(o, "center_point_box", 0) != 0;
    if (t->rank != 3 || tb->rank != 3 || t->dims[0] != tb->dims[0] || t->dims[2] != tb->dims[1] ||
        !dim_is(o->cx, tb->dims[2], 4)) {
        onnx_refuse(o, "it takes boxes [batch, boxes, 4] and scores [batch, classes, boxes]");
    }
    Value *most = one_number(o, 2, DT_i64, 0), *part = one_number(o, 3, t->dtype, 0);
    Value *left = all_true(o, t);
    if (onnx_given(o, 4)) {
        left = onnx_map(o, OP_gt, scores, one_number(o, 4, t->dtype, 0));
    }
    OnnxBody body;
    onnx_body_open(o, &body);
    Value *step = onnx_body_param(o, "step", type_scalar(o->cx, DT_i64));
    Value *rest = onnx_body_param(o, "left", left->type);
    Value *all[] = {boxes, scores, most, part}, *in[4];
    for (int k = 0; k < 4; k++) {
        in[k] = onnx_body_stay(o, &body, all[k]);
    }
    Extreme e = next_extreme(o, in[1], rest, 2, true);
    Value *some = build_red(o->b, OP_any, rest, 1, (const int[]){2});
    Value *counts = onnx_map(o, OP_bit_and, some, build_map(o->b, OP_lt, step, in[2], NULL));
    Value *at = along(o, e.at, t, 2);
    Value *stays = build_map(o->b, OP_ne, at, build_iota(o->b, at->type, 2), NULL);
    Value *far = build_map(o->b, OP_not, overlaps(o, in[0], e.at, centers, in[3]), NULL, NULL);
    Value *rets[] = {
        build_map(o->b, OP_bit_and, build_map(o->b, OP_bit_and, rest, stays, NULL), far, NULL),
        e.at, counts};
    Fn *fn = onnx_body_close(o, &body, 3, rets);
    Value *args[5] = {left};
    memcpy(args + 1, body.stays, (size_t)body.nstays * sizeof *args);
    double limit;
    Dim steps = t->dims[2];
    if (onnx_constant(o, most, &limit) && limit < 0x1p40) {
        steps = dim_min(o->cx, steps, dim_int(o->cx, limit > 0 ? (int64_t)limit : 0));
    }
    Let *let = onnx_loop(o, &(OnnxLoop){.carries = 1, .steps = steps}, fn, 1 + body.nstays, args);
    Value *index = onnx_moved(o, let->res[1], 0, 2), *is = onnx_moved(o, let->res[2], 0, 2);
    Dim count = type_numel(o->cx, is->type);
    Value *found = onnx_where_true(o, build_reshape(o->b, is, 1, &count)), *columns[3];
    positions(o, found, 3, is->type->dims, columns);
    columns[2] = build_gather(o->b, build_reshape(o->b, index, 1, &count), found, 0,
                              INDEX_FROM_START);
    o->out[0] = joined(o, 3, columns, 1);
}
