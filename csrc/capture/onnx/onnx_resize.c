/* Images at other places: Resize by axes, GridSample by points.  Both read a few neighbours of a
 * place, each with a coefficient; places and coefficients are computed in float64 or float32. */
#include "onnx.h"

#include <math.h>
#include <string.h>

enum { MAX_TAPS = 64, MAX_SPATIAL = 3 };

/* ---- small formulas ---- */

Value *
onnx_pair_of(Onnx *o, Op op, Value *a, Value *b)
{
    if (value_is_const(a) && value_is_const(b)) {
        double x = a->literal.is_int ? (double)a->literal.i : a->literal.f;
        double y = b->literal.is_int ? (double)b->literal.i : b->literal.f;
        return onnx_number(o, op == OP_add   ? x + y
                              : op == OP_sub ? x - y
                              : op == OP_mul ? x * y
                                             : x / y);
    }
    return onnx_map(o, op, a, b);
}

Value *
onnx_plus(Onnx *o, Value *a, double f)
{
    return onnx_pair_of(o, OP_add, a, onnx_number(o, f));
}

Value *
onnx_times(Onnx *o, Value *a, double f)
{
    return onnx_pair_of(o, OP_mul, a, onnx_number(o, f));
}

Value *
onnx_size_number(Onnx *o, Dim d, Dtype dtype)
{
    int64_t i;
    return dim_is_int(o->cx, d, &i) ? onnx_number(o, (double)i)
                                    : build_cast(o->b, build_size(o->b, d), dtype);
}

Value *
onnx_inside(Onnx *o, Value *at, Dim size)
{
    Value *last = onnx_size_number(o, dim_sub(o->cx, size, dim_int(o->cx, 1)), at->type->dtype);
    at = onnx_map(o, OP_maximum, at, onnx_number(o, 0));
    return build_cast(o->b, onnx_map(o, OP_minimum, at, last), DT_i64);
}

Value *
onnx_is_outside(Onnx *o, Value *at, Dim size)
{
    Value *last = onnx_size_number(o, dim_sub(o->cx, size, dim_int(o->cx, 1)), at->type->dtype);
    return build_map(o->b, OP_bit_or, onnx_map(o, OP_lt, at, onnx_number(o, 0)),
                     onnx_map(o, OP_gt, at, last), NULL);
}

/* ((a x + b) x + c) x + d */
static Value *
cubic(Onnx *o, Value *x, double a, double b, double c, double d)
{
    Value *v = onnx_plus(o, onnx_times(o, x, a), b);
    v = onnx_plus(o, onnx_map(o, OP_mul, v, x), c);
    return onnx_plus(o, onnx_map(o, OP_mul, v, x), d);
}

/* The coefficient of a neighbour at a distance, at least 0, of linear or cubic interpolation. */
static Value *
coefficient(Onnx *o, Value *x, bool linear, double a)
{
    if (linear) {
        Value *v = onnx_map(o, OP_sub, onnx_number(o, 1), x);
        return onnx_map(o, OP_maximum, v, onnx_number(o, 0));
    }
    Value *near = cubic(o, x, a + 2, -(a + 3), 0, 1);
    Value *far = cubic(o, x, a, -5 * a, 8 * a, -4 * a);
    Value *zero = build_const(o->b, x->type, (Literal){.is_int = true});
    far = onnx_map3(o, OP_where, onnx_map(o, OP_lt, x, onnx_number(o, 2)), far, zero);
    return onnx_map3(o, OP_where, onnx_map(o, OP_le, x, onnx_number(o, 1)), near, far);
}

/* ---- Resize ---- */

typedef struct {
    bool given;
    Dim size; /* of the result */
    Value *scale, *from, *to; /* numbers; from, to: of the region, of 0 to 1 */
} Side;

typedef struct {
    const char *mode, *place, *nearest;
    bool smooths, excludes;
    double a, beyond;
    Side sides[MAX_RANK];
} Resizing;

/* Where in the axis each element of the result is, f64. */
static Value *
places(Onnx *o, const Resizing *r, const Side *s, Dim size)
{
    const Type *t = type_of(o->cx, DT_f64, 1, &s->size);
    Value *y = build_cast(o->b, build_iota(o->b, type_with(o->cx, t, DT_i64), 0), DT_f64);
    Value *in = onnx_size_number(o, size, DT_f64), *made = onnx_pair_of(o, OP_mul, s->scale, in),
          *v;
    Value *half = onnx_plus(o, onnx_map(o, OP_div, onnx_plus(o, y, 0.5), s->scale), -0.5),
          *single = NULL;
    if (strcmp(r->place, "asymmetric") == 0) {
        return onnx_map(o, OP_div, y, s->scale);
    }
    if (strcmp(r->place, "half_pixel") == 0) {
        return half;
    }
    if (strcmp(r->place, "half_pixel_symmetric") == 0) {
        Value *by = onnx_pair_of(o, OP_div, onnx_size_number(o, s->size, DT_f64), made);
        by = onnx_pair_of(o, OP_sub, onnx_number(o, 1), by);
        return onnx_map(o, OP_add, half, onnx_pair_of(o, OP_mul, onnx_times(o, in, 0.5), by));
    }
    Value *last = onnx_plus(o, made, -1), *span = onnx_plus(o, in, -1);
    if (strcmp(r->place, "pytorch_half_pixel") == 0) {
        v = half;
        single = build_const(o->b, t, (Literal){.f = -0.5});
    } else if (strcmp(r->place, "align_corners") == 0) {
        v = onnx_map(o, OP_div, onnx_map(o, OP_mul, y, span), last);
        single = build_const(o->b, t, (Literal){.f = 0});
    } else if (strcmp(r->place, "tf_crop_and_resize") == 0) {
        Value *part = onnx_pair_of(o, OP_mul, onnx_pair_of(o, OP_sub, s->to, s->from), span);
        v = onnx_map(o, OP_div, onnx_map(o, OP_mul, y, part), last);
        single = build_broadcast(
            o->b,
            value_is_const(part)
                ? build_const(o->b, type_scalar(o->cx, DT_f64), (Literal){.f = part->literal.f / 2})
                : onnx_times(o, part, 0.5),
            1, &s->size);
    } else {
        onnx_refuse(o, "its coordinate_transformation_mode '%s' is none that is known", r->place);
    }
    if (value_is_const(made)) {
        v = made->literal.f == 1 ? single : v;
    } else {
        v = onnx_map3(o, OP_where, onnx_map(o, OP_eq, made, onnx_number(o, 1)), single, v);
    }
    if (strcmp(r->place, "tf_crop_and_resize") == 0) {
        v = onnx_map(o, OP_add, v, onnx_pair_of(o, OP_mul, s->from, span));
    }
    return v;
}

static Value *
nearest_place(Onnx *o, const Resizing *r, Value *at)
{
    bool low = strcmp(r->nearest, "round_prefer_floor") == 0;
    if (low || strcmp(r->nearest, "ceil") == 0) {
        return build_map(o->b, OP_ceil, low ? onnx_plus(o, at, -0.5) : at, NULL, NULL);
    }
    bool high = strcmp(r->nearest, "round_prefer_ceil") == 0;
    if (!high && strcmp(r->nearest, "floor") != 0) {
        onnx_refuse(o, "its nearest_mode '%s' is none that is known", r->nearest);
    }
    return build_map(o->b, OP_floor, high ? onnx_plus(o, at, 0.5) : at, NULL, NULL);
}

static Value *
resized(Onnx *o, const Resizing *r, Value *x, int axis)
{
    const Side *s = &r->sides[axis];
    const Type *t = onnx_resized(o, x->type, axis, s->size, x->type->dtype);
    Dim size = x->type->dims[axis];
    Value *at = places(o, r, s, size), *v = NULL;
    if (strcmp(r->mode, "nearest") == 0) {
        v = build_gather(o->b, x, onnx_inside(o, nearest_place(o, r, at), size), axis,
                         INDEX_FROM_START);
    } else {
        bool linear = strcmp(r->mode, "linear") == 0;
        double scale = 1, reach = linear ? 1 : 2;
        if (!linear && strcmp(r->mode, "cubic") != 0) {
            onnx_refuse(o, "its mode '%s' is none that is known", r->mode);
        }
        if (r->smooths) {
            if (!value_is_const(s->scale)) {
                onnx_refuse(o, "antialias takes scales that are numbers: "
                               "dlc.load(.., sizes={..}) fixes them");
            }
            scale = s->scale->literal.f < 1 ? s->scale->literal.f : 1;
        }
        double first = floor(-reach / scale) + 1;
        if (!(scale > 0) || 2 - 2 * first > MAX_TAPS) {
            onnx_refuse(o, "it has more than %d neighbours of a place", MAX_TAPS);
        }
        Value *base = build_map(o->b, OP_floor, at, NULL, NULL), *sum = NULL;
        Value *rest = build_map(o->b, OP_sub, at, base, NULL);
        Value *by[MAX_TAPS], *index[MAX_TAPS];
        int n = (int)(2 - 2 * first);
        for (int k = 0; k < n; k++) {
            Value *far = onnx_map(o, OP_sub, onnx_number(o, first + k), rest);
            far = build_map(o->b, OP_abs, onnx_times(o, far, scale), NULL, NULL);
            Value *place = onnx_plus(o, base, first + k);
            by[k] = coefficient(o, far, linear, r->a);
            if (r->excludes) {
                Value *zero = build_const(o->b, by[k]->type, (Literal){.is_int = true});
                by[k] = onnx_map3(o, OP_where, onnx_is_outside(o, place, size), zero, by[k]);
            }
            index[k] = onnx_inside(o, place, size);
            sum = sum ? onnx_map(o, OP_add, sum, by[k]) : by[k];
        }
        for (int k = 0; k < n; k++) {
            bool divided = r->smooths || r->excludes;
            Value *c = divided ? onnx_map(o, OP_div, by[k], sum) : by[k];
            c = build_cast(o->b, c, t->dtype);
            Value *part = build_gather(o->b, x, index[k], axis, INDEX_FROM_START);
            part = onnx_map(o, OP_mul, part, build_expand(o->b, c, t->rank, t->dims, &axis));
            v = v ? onnx_map(o, OP_add, v, part) : part;
        }
    }
    if (strcmp(r->place, "tf_crop_and_resize") == 0) {
        Literal l = {.f = r->beyond};
        Value *is = build_expand(o->b, onnx_is_outside(o, at, size), t->rank, t->dims, &axis);
        v = onnx_map3(o, OP_where, is, build_const(o->b, t, l), v);
    }
    return v;
}

/* A number of a list, known or not. */
static Value *
number_at(Onnx *o, int input, int k)
{
    Value *list = onnx_in(o, input);
    const Known *known = onnx_known(o, list);
    Dim one = dim_int(o->cx, 1);
    if (known && k < known->n && known->elements[k].kind == ELEMENT_FLOAT) {
        return onnx_number(o, known->elements[k].f);
    }
    Value *v = build_slice(o->b, list, 0, dim_int(o->cx, k), one, one);
    return build_cast(o->b, build_reshape(o->b, v, 0, NULL), DT_f64);
}

#define MOST_SIZE 0x1p53 /* whole numbers below are exact in float64 */

/* One scale for all axes, of numbers. */
static void
keep_ratio(Onnx *o, Resizing *r, const Type *t, const char *policy)
{
    double scale = 0;
    bool least = strcmp(policy, "not_larger") == 0, first = true;
    for (int ax = 0; ax < t->rank; ax++) {
        int64_t in, out;
        if (!r->sides[ax].given) {
            continue;
        }
        if (!dim_is_int(o->cx, t->dims[ax], &in) || !dim_is_int(o->cx, r->sides[ax].size, &out)) {
            onnx_refuse(o, "keep_aspect_ratio_policy takes sizes that are numbers: "
                           "dlc.load(.., sizes={..}) fixes them");
        }
        if (in < 1 || out < 0) {
            onnx_refuse(o,
                        "keep_aspect_ratio_policy takes an image with elements along axis %d, "
                        "and a size of at least 0",
                        ax);
        }
        double next = (double)out / (double)in;
        scale = first || (least ? next < scale : next > scale) ? next : scale;
        first = false;
    }
    for (int ax = 0; ax < t->rank; ax++) {
        int64_t in;
        if (r->sides[ax].given && dim_is_int(o->cx, t->dims[ax], &in)) {
            double size = scale * (double)in + 0.5;
            if (!(size < MOST_SIZE)) {
                onnx_refuse(o, "by keep_aspect_ratio_policy, axis %d is too large", ax);
            }
            r->sides[ax].scale = onnx_number(o, scale);
            r->sides[ax].size = dim_int(o->cx, (int64_t)size);
        }
    }
}

static void
read_scales(Onnx *o, Resizing *r, const Type *t, int input, const int *axes, int n)
{
    const OnnxAttr *a = input < 0 ? onnx_attr(o, "scales") : NULL;
    const Known *known = input < 0 ? NULL : onnx_known(o, onnx_in(o, input));
    if (input >= 0 && !known) {
        onnx_not_known(o, input);
    }
    int count = a && a->kind == ONNX_FLOATS ? a->n : known ? known->n : 0;
    if (count != n) {
        onnx_refuse(o, "it has %d scales for %d axes", count, n);
    }
    for (int k = 0; k < n; k++) {
        double f = a ? a->floats[k] : known->elements[k].f;
        if (!isfinite(f) || !(f > 0)) {
            onnx_refuse(o, "a scale is not greater than 0");
        }
        r->sides[axes[k]] = (Side){true, dim_scale(o->cx, t->dims[axes[k]], f), onnx_number(o, f),
                                   NULL, NULL};
    }
}

/* Upsample too, which is Resize of version 10. */
void
onnx_resize(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    const Type *t = x->type;
    int axes[MAX_RANK], n = t->rank, nsizes = 0;
    bool old = o->node->version < 11, upsample = strcmp(o->node->op, "Upsample") == 0;
    old = old || upsample;
    const OnnxAttr *a = onnx_attr(o, "axes");
    Resizing r = {
        .mode = onnx_text(o, "mode", "nearest"),
        .place = onnx_text(o, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel"),
        .nearest = onnx_text(o, "nearest_mode", old ? "floor" : "round_prefer_floor"),
        .smooths = onnx_int(o, "antialias", 0) != 0,
        .excludes = onnx_int(o, "exclude_outside", 0) != 0,
        .a = onnx_float(o, "cubic_coeff_a", -0.75),
        .beyond = onnx_float(o, "extrapolation_value", 0)};
    for (int ax = 0; ax < t->rank; ax++) {
        axes[ax] = ax;
    }
    if (a && a->kind == ONNX_INTS && a->n <= t->rank) {
        n = a->n;
        for (int k = 0; k < n; k++) {
            axes[k] = onnx_axis(o, a->ints[k], t->rank);
        }
    }
    if (!old && onnx_given(o, 3)) {
        const Dim *sizes = onnx_dims(o, 3, &nsizes);
        if (nsizes != n) {
            onnx_refuse(o, "it has %d sizes for %d axes", nsizes, n);
        }
        for (int k = 0; k < n; k++) {
            Side *s = &r.sides[axes[k]];
            *s = (Side){.given = true, .size = sizes[k]};
            Dim in = t->dims[axes[k]];
            s->scale = s->size == in ? onnx_number(o, 1)
                                     : onnx_pair_of(o, OP_div, onnx_size_number(o, s->size, DT_f64),
                                                    onnx_size_number(o, in, DT_f64));
        }
        const char *policy = onnx_text(o, "keep_aspect_ratio_policy", "stretch");
        if (strcmp(policy, "stretch") != 0) {
            keep_ratio(o, &r, t, policy);
        }
    } else {
        read_scales(o, &r, t, upsample && o->node->version < 9 ? -1 : old ? 1 : 2, axes, n);
    }
    bool crops = strcmp(r.place, "tf_crop_and_resize") == 0,
         blends = strcmp(r.mode, "nearest") != 0;
    Value *v = blends
                   ? build_cast(o->b, x,
                                dtype_info[t->dtype].class <= CLASS_INT ? DT_f32 : wide(t->dtype))
                   : x;
    for (int k = 0; k < n; k++) {
        Side *s = &r.sides[axes[k]];
        bool same = s->size == t->dims[axes[k]] && value_is_const(s->scale) &&
                    s->scale->literal.f == 1;
        if (crops) {
            s->from = number_at(o, 1, k);
            s->to = number_at(o, 1, n + k);
            same = same && value_is_const(s->from) && value_is_const(s->to) &&
                   s->from->literal.f == 0 && s->to->literal.f == 1;
        }
        v = same ? v : resized(o, &r, v, axes[k]);
    }
    o->out[0] = build_cast(o->b, v, t->dtype);
}

/* ---- GridSample ---- */

typedef struct {
    bool corners;
    const char *pads;
} Grid;

/* A number, reflected at the borders of an axis until it is between them. */
static Value *
reflected(Onnx *o, const Grid *g, Value *x, Dim size)
{
    Value *low = onnx_number(o, g->corners ? 0 : -0.5);
    Dim span = g->corners ? dim_sub(o->cx, size, dim_int(o->cx, 1)) : size;
    Value *range = onnx_size_number(o, span, x->type->dtype);
    Value *far = build_map(o->b, OP_abs, onnx_map(o, OP_sub, x, low), NULL, NULL);
    if (dim_is(o->cx, span, 0)) {
        return build_const(o->b, x->type, (Literal){.is_int = true});
    }
    Value *both = onnx_times(o, range, 2);
    Value *rest = onnx_map(o, OP_fmod, far, both);
    rest = onnx_map(o, OP_minimum, rest, onnx_map(o, OP_sub, both, rest));
    return onnx_map(o, OP_add, rest, low);
}

Value *
onnx_elements_at(Onnx *o, Value *x, Value *at, Value *outside)
{
    Dim dims[] = {x->type->dims[0], x->type->dims[1], at->type->dims[1]};
    const int to[] = {0, 2};
    const Type *t = type_of(o->cx, x->type->dtype, 3, dims);
    at = build_expand(o->b, at, 3, dims, to);
    Value *v = onnx_aten(o, "aten.gather.default", t, ARGS(arg_v(x), arg_i(2), arg_v(at)));
    if (!outside) {
        return v;
    }
    Value *zero = build_const(o->b, t, (Literal){.is_int = true});
    return onnx_map3(o, OP_where, build_expand(o->b, outside, 3, dims, to), zero, v);
}

void
onnx_grid_sample(Onnx *o)
{
    Value *x = onnx_in(o, 0), *grid = onnx_in(o, 1);
    const Type *t = x->type, *tg = grid->type;
    const char *mode = onnx_text(o, "mode", "linear");
    Grid g = {onnx_int(o, "align_corners", 0) != 0, onnx_text(o, "padding_mode", "zeros")};
    int n = t->rank - 2;
    bool is_nearest = strcmp(mode, "nearest") == 0;
    bool linear = strcmp(mode, "linear") == 0 || strcmp(mode, "bilinear") == 0;
    if (n < 1 || n > MAX_SPATIAL || tg->rank != n + 2 || !dim_is(o->cx, tg->dims[n + 1], n) ||
        t->dims[0] != tg->dims[0]) {
        onnx_refuse(o, "it takes images of 3 to 5 axes, and a grid with a point of %d numbers", n);
    }
    Dtype at = wide(tg->dtype);
    Dim made[MAX_RANK], points = dim_int(o->cx, 1), pixels = points, one = points;
    for (int k = 0; k < n; k++) {
        points = dim_mul(o->cx, points, tg->dims[k + 1]);
        pixels = dim_mul(o->cx, pixels, t->dims[k + 2]);
        made[k + 2] = tg->dims[k + 1];
    }
    made[0] = t->dims[0];
    made[1] = t->dims[1];
    Dim flat[] = {tg->dims[0], points, dim_int(o->cx, n)};
    grid = build_cast(o->b, build_reshape(o->b, grid, 3, flat), at);
    Dim rows[] = {t->dims[0], t->dims[1], pixels};
    Value *image = build_cast(o->b, build_reshape(o->b, x, 3, rows), wide(t->dtype)), *sum = NULL;
    Value *base[MAX_SPATIAL], *rest[MAX_SPATIAL] = {NULL};
    int first = is_nearest || linear ? 0 : -1, taps = is_nearest ? 1 : linear ? 2 : 4, count = 1;
    for (int k = 0; k < n; k++) {
        Dim size = t->dims[k + 2];
        Value *v = build_slice(o->b, grid, 2, dim_int(o->cx, n - 1 - k), one, one);
        v = onnx_plus(o, build_reshape(o->b, v, 2, flat), 1);
        v = g.corners
                ? onnx_map(o, OP_mul, onnx_times(o, v, 0.5),
                           onnx_size_number(o, dim_sub(o->cx, size, one), at))
                : onnx_times(
                      o, onnx_plus(o, onnx_map(o, OP_mul, v, onnx_size_number(o, size, at)), -1),
                      0.5);
        v = is_nearest ? build_map(o->b, OP_round, v, NULL, NULL) : v;
        if (strcmp(g.pads, "border") == 0) {
            Value *last = onnx_size_number(o, dim_sub(o->cx, size, one), at);
            v = onnx_map(o, OP_minimum, onnx_map(o, OP_maximum, v, onnx_number(o, 0)), last);
        } else if (strcmp(g.pads, "reflection") == 0) {
            v = reflected(o, &g, v, size);
        }
        base[k] = is_nearest ? v : build_map(o->b, OP_floor, v, NULL, NULL);
        rest[k] = is_nearest ? NULL : build_map(o->b, OP_sub, v, base[k], NULL);
        count *= taps;
    }
    for (int c = 0; c < count; c++) {
        Value *by = NULL, *place = NULL, *outside = NULL;
        for (int k = 0, left = c; k < n; k++, left /= taps) {
            int tap = first + left % taps;
            Dim size = t->dims[k + 2];
            Value *v = tap ? onnx_plus(o, base[k], tap) : base[k];
            if (strcmp(g.pads, "zeros") == 0) {
                Value *is = onnx_is_outside(o, v, size);
                outside = outside ? onnx_map(o, OP_bit_or, outside, is) : is;
            } else if (strcmp(g.pads, "reflection") == 0) {
                v = build_map(o->b, OP_trunc, reflected(o, &g, v, size), NULL, NULL);
            }
            Value *index = onnx_inside(o, v, size);
            place = place ? onnx_map(o, OP_add,
                                     onnx_map(o, OP_mul, place,
                                              build_broadcast(o->b, build_size(o->b, size), 2,
                                                              place->type->dims)),
                                     index)
                          : index;
            if (!is_nearest) {
                Value *far = onnx_map(o, OP_sub, onnx_number(o, tap), rest[k]);
                far = coefficient(o, build_map(o->b, OP_abs, far, NULL, NULL), linear, -0.75);
                by = by ? onnx_map(o, OP_mul, by, far) : far;
            }
        }
        Value *v = onnx_elements_at(o, image, place, outside);
        if (by) {
            by = build_expand(o->b, build_cast(o->b, by, v->type->dtype), 3, v->type->dims,
                              (const int[]){0, 2});
            v = build_map(o->b, OP_mul, v, by, NULL);
        }
        sum = sum ? build_map(o->b, OP_add, sum, v, NULL) : v;
    }
    o->out[0] = build_reshape(o->b, build_cast(o->b, sum, t->dtype), n + 2, made);
}
