/* Windows of the last axes: convolutions and pools.
 *
 * Pads may differ before and after an axis, and ceil_mode adds some: the operand is padded first,
 * and the builder of aten.def gets an image without pads. */
#include "onnx.h"

#include <math.h>
#include <string.h>

enum { MAX_AXES = 3, MAX_PLACES = 256 /* along an axis of a window of slices */ };

typedef struct {
    int axes;
    int64_t size[MAX_AXES], step[MAX_AXES], gap[MAX_AXES], before[MAX_AXES], after[MAX_AXES];
    int64_t over[MAX_AXES]; /* more after the end, by ceil_mode */
    Dim made[MAX_AXES];
} Windows;

static void
numbers(Onnx *o, const char *name, int n, int64_t otherwise, int64_t least, int64_t *out)
{
    const OnnxAttr *a = onnx_attr(o, name);
    if (a && (a->kind != ONNX_INTS || a->n != n)) {
        onnx_refuse(o, "its %s are not %d numbers", name, n);
    }
    for (int k = 0; k < n; k++) {
        out[k] = a ? a->ints[k] : otherwise;
        if (out[k] < least || out[k] > INT16_MAX) {
            onnx_refuse(o, "its %s are not from %lld to %d", name, (long long)least, INT16_MAX);
        }
    }
}

/* What the attributes say; `size` is there already, where a weight says it. */
static void
read_windows(Onnx *o, Windows *w, const Type *x, bool ceils)
{
    Cx *cx = o->cx;
    int64_t pads[2 * MAX_AXES];
    const char *how = onnx_text(o, "auto_pad", "NOTSET");
    numbers(o, "strides", w->axes, 1, 1, w->step);
    numbers(o, "dilations", w->axes, 1, 1, w->gap);
    numbers(o, "pads", 2 * w->axes, 0, 0, pads);
    for (int k = 0; k < w->axes; k++) {
        int64_t in, span = w->gap[k] * (w->size[k] - 1) + 1;
        Dim d = x->dims[k + 2], step = dim_int(cx, w->step[k]);
        w->before[k] = pads[k];
        w->after[k] = pads[k + w->axes];
        w->over[k] = 0;
        if (strcmp(how, "VALID") == 0) {
            w->before[k] = w->after[k] = 0;
        } else if (strncmp(how, "SAME", 4) == 0) {
            if (!dim_is_int(cx, d, &in)) {
                onnx_refuse(o, "auto_pad takes an image whose sizes are numbers: "
                               "dlc.load(.., sizes={..}) fixes them");
            }
            int64_t all = ((in + w->step[k] - 1) / w->step[k] - 1) * w->step[k] + span - in;
            all = all < 0 ? 0 : all;
            w->before[k] = strcmp(how, "SAME_UPPER") == 0 ? all / 2 : all - all / 2;
            w->after[k] = all - w->before[k];
        }
        Dim padded = dim_add(cx, d, dim_int(cx, w->before[k] + w->after[k]));
        if (ceils && dim_is_int(cx, padded, &in)) {
            int64_t count = (in - span + w->step[k] - 1) / w->step[k] + 1;
            /* no window begins in the padding after the end */
            count -= (count - 1) * w->step[k] >= in - w->after[k];
            int64_t needed = (count - 1) * w->step[k] + span - in;
            w->over[k] = needed > 0 ? needed : 0;
            padded = dim_add(cx, padded, dim_int(cx, w->over[k]));
        } else if (ceils && w->step[k] > 1) {
            onnx_refuse(o, "ceil_mode takes an image whose sizes are numbers: "
                           "dlc.load(.., sizes={..}) fixes them");
        }
        Dim room = dim_sub(cx, padded, dim_int(cx, span));
        if (dim_range(cx, room).hi < 0) {
            onnx_refuse(o, "its window is larger than the image");
        }
        w->made[k] = dim_add(cx, dim_div(cx, room, step), dim_int(cx, 1));
    }
}

/* The image with its pads, and with those of ceil_mode. */
static Value *
padded(Onnx *o, const Windows *w, Value *x, Value *fill, bool over)
{
    const Type *t = x->type;
    Dim dims[MAX_RANK], lo[MAX_RANK];
    bool any = false;
    for (int ax = 0; ax < t->rank; ax++) {
        int k = ax - 2;
        int64_t before = k < 0 ? 0 : w->before[k];
        int64_t all = k < 0 ? 0 : before + w->after[k] + (over ? w->over[k] : 0);
        lo[ax] = dim_int(o->cx, before);
        dims[ax] = dim_add(o->cx, t->dims[ax], dim_int(o->cx, all));
        any |= all > 0;
    }
    return any ? build_pad(o->b, x, fill, type_of(o->cx, t->dtype, t->rank, dims), lo) : x;
}

static const Type *
made_of(Onnx *o, const Windows *w, const Type *t, Dim channels)
{
    Dim dims[MAX_RANK] = {t->dims[0], channels};
    memcpy(dims + 2, w->made, (size_t)w->axes * sizeof *dims);
    return type_of(o->cx, t->dtype, w->axes + 2, dims);
}

/* ---- convolutions ---- */

static void
weight_windows(Onnx *o, Windows *w, const Type *x, const Type *weight)
{
    w->axes = weight->rank - 2;
    if (w->axes < 1 || w->axes > MAX_AXES || x->rank != weight->rank) {
        onnx_refuse(o, "it takes images and weights of 3 to 5 axes");
    }
    for (int k = 0; k < w->axes; k++) {
        if (!dim_is_int(o->cx, weight->dims[k + 2], &w->size[k]) || w->size[k] < 1 ||
            w->size[k] > INT16_MAX) {
            onnx_refuse(o, "the sizes of its kernel are no numbers of at least 1");
        }
    }
}

static Value *
convolved(Onnx *o, Value *x, Value *weight, Value *bias)
{
    Windows w;
    weight_windows(o, &w, x->type, weight->type);
    read_windows(o, &w, x->type, false);
    const Type *t = made_of(o, &w, x->type, weight->type->dims[0]);
    int64_t pads[MAX_AXES] = {0};
    bool even = memcmp(w.before, w.after, (size_t)w.axes * sizeof *w.before) == 0;
    if (even) {
        memcpy(pads, w.before, sizeof pads);
    } else {
        x = padded(o, &w, x, build_int(o->b, 0), false);
    }
    int64_t none[MAX_AXES] = {0};
    Arg args[] = {arg_v(x),
                  arg_v(weight),
                  arg_v(bias),
                  arg_ints(o, w.axes, w.step),
                  arg_ints(o, w.axes, pads),
                  arg_ints(o, w.axes, w.gap),
                  {.kind = ARG_BOOL},
                  arg_ints(o, w.axes, none),
                  arg_i(onnx_int(o, "group", 1))};
    return onnx_aten(o, "aten.convolution.default", t, 9, args);
}

void
onnx_conv(Onnx *o)
{
    o->out[0] = convolved(o, onnx_in(o, 0), onnx_in(o, 1), onnx_given(o, 2));
}

/* The pads cut what is computed without them. */
void
onnx_conv_transpose(Onnx *o)
{
    Cx *cx = o->cx;
    Value *x = onnx_in(o, 0), *weight = onnx_in(o, 1);
    const Type *t = x->type;
    Windows w;
    int64_t pads[2 * MAX_AXES], more[MAX_AXES], none[MAX_AXES] = {0},
                                                group = onnx_int(o, "group", 1);
    const char *how = onnx_text(o, "auto_pad", "NOTSET");
    const OnnxAttr *wanted = onnx_attr(o, "output_shape");
    weight_windows(o, &w, t, weight->type);
    numbers(o, "strides", w.axes, 1, 1, w.step);
    numbers(o, "dilations", w.axes, 1, 1, w.gap);
    numbers(o, "pads", 2 * w.axes, 0, 0, pads);
    numbers(o, "output_padding", w.axes, 0, 0, more);
    if (wanted && (wanted->kind != ONNX_INTS || wanted->n < w.axes)) {
        onnx_refuse(o, "its output_shape has fewer than %d numbers", w.axes);
    }
    Dim full[MAX_AXES], kept[MAX_AXES];
    for (int k = 0; k < w.axes; k++) {
        int64_t span = w.gap[k] * (w.size[k] - 1) + 1, cut = pads[k] + pads[k + w.axes], total;
        Dim d = dim_sub(cx, t->dims[k + 2], dim_int(cx, 1));
        full[k] = dim_add(cx, dim_mul(cx, d, dim_int(cx, w.step[k])), dim_int(cx, span));
        w.before[k] = pads[k];
        bool same = strncmp(how, "SAME", 4) == 0;
        if (wanted || same) {
            Dim size = wanted ? dim_int(cx, wanted->ints[wanted->n - w.axes + k])
                              : dim_mul(cx, t->dims[k + 2], dim_int(cx, w.step[k]));
            Dim all = dim_sub(cx, dim_add(cx, full[k], dim_int(cx, more[k])), size);
            if (!dim_is_int(cx, all, &total)) {
                onnx_refuse(o, "its pads follow from sizes that are no numbers");
            }
            cut = total;
            int64_t half = total / 2;
            w.before[k] = strcmp(how, "SAME_UPPER") == 0 ? half : total - half;
        }
        full[k] = dim_add(cx, full[k], dim_int(cx, more[k]));
        if (w.before[k] < 0) { /* more than what is computed: zeros after it */
            w.before[k] = 0;
        }
        if (cut < w.before[k]) { /* an end beyond what is computed: zeros */
            full[k] = dim_add(cx, full[k], dim_int(cx, w.before[k] - cut));
            more[k] += w.before[k] - cut;
            cut = w.before[k];
        }
        kept[k] = dim_sub(cx, full[k], dim_int(cx, cut));
    }
    memcpy(w.made, full, sizeof full);
    const Type *made = made_of(o, &w, t, dim_mul(cx, weight->type->dims[1], dim_int(cx, group)));
    Arg args[] = {arg_v(x),
                  arg_v(weight),
                  arg_v(onnx_given(o, 2)),
                  arg_ints(o, w.axes, w.step),
                  arg_ints(o, w.axes, none),
                  arg_ints(o, w.axes, w.gap),
                  {.kind = ARG_BOOL, .i = 1},
                  arg_ints(o, w.axes, more),
                  arg_i(group)};
    Value *v = onnx_aten(o, "aten.convolution.default", made, 9, args);
    for (int k = 0; k < w.axes; k++) {
        v = build_slice(o->b, v, k + 2, dim_int(cx, w.before[k]), dim_int(cx, 1), kept[k]);
    }
    o->out[0] = v;
}

/* ---- pools ---- */

static void
pool_windows(Onnx *o, Windows *w, const Type *t)
{
    const OnnxAttr *a = onnx_attr(o, "kernel_shape");
    w->axes = t->rank - 2;
    if (w->axes < 1 || w->axes > MAX_AXES || !a) {
        onnx_refuse(o, "it takes an image of 3 to 5 axes, and a kernel_shape");
    }
    numbers(o, "kernel_shape", w->axes, 1, 1, w->size);
    read_windows(o, w, t, onnx_int(o, "ceil_mode", 0) != 0);
}

/* The images of all places of the window combined, axis by axis. */
static Value *
combined(Onnx *o, const Windows *w, Value *x, Op op)
{
    for (int k = 0; k < w->axes; k++) {
        Value *all = NULL;
        if (w->size[k] > MAX_PLACES) {
            onnx_refuse(o, "its window has more than %d places along an axis", MAX_PLACES);
        }
        for (int64_t at = 0; at < w->size[k]; at++) {
            Value *v = build_slice(o->b, x, k + 2, dim_int(o->cx, at * w->gap[k]),
                                   dim_int(o->cx, w->step[k]), w->made[k]);
            all = all ? build_map(o->b, op, all, v, NULL) : v;
        }
        x = all;
    }
    return x;
}

static bool
is_plain(const Windows *w)
{
    bool plain = w->axes == 2 || w->axes == 3;
    for (int k = 0; k < w->axes; k++) {
        plain = plain && w->before[k] == w->after[k] && 2 * w->before[k] <= w->size[k] &&
                w->over[k] == 0;
    }
    return plain;
}

/* The overload of this many axes. */
static const char *
pool_of(int axes, const char *two, const char *three)
{
    return axes == 2 ? two : three;
}

void
onnx_max_pool(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    const Type *t = x->type;
    Windows w;
    pool_windows(o, &w, t);
    if (o->node->noutputs > 1 && o->node->outputs[1] >= 0) {
        onnx_refuse(o, "its output of indices is not compiled");
    }
    bool whole = dtype_info[t->dtype].class <= CLASS_INT;
    if (is_plain(&w) && !whole) {
        const Type *made = made_of(o, &w, t, t->dims[1]);
        Arg args[] = {arg_v(x),
                      arg_ints(o, w.axes, w.size),
                      arg_ints(o, w.axes, w.step),
                      arg_ints(o, w.axes, w.before),
                      arg_ints(o, w.axes, w.gap),
                      {.kind = ARG_BOOL}};
        const char *overload = pool_of(w.axes, "aten.max_pool2d_with_indices.default",
                                       "aten.max_pool3d_with_indices.default");
        if ((o->out[0] = onnx_aten_or_none(o, overload, made, 6, args))) {
            return;
        }
    }
    Value *low = !whole              ? build_float(o->b, -INFINITY)
                 : t->dtype == DT_u8 ? build_int(o->b, 0)
                 : t->dtype == DT_i8 ? build_int(o->b, INT8_MIN)
                                     : NULL;
    if (!low) {
        onnx_refuse(o, "its operand has the element type %s", dtype_info[t->dtype].name);
    }
    o->out[0] = combined(o, &w, padded(o, &w, x, low, true), OP_maximum);
}

/* How many places of each window count: those in the image or, with count_include_pad, in its pads,
 * but not those that ceil_mode added. */
static Value *
counted(Onnx *o, const Windows *w, const Type *t, bool pads)
{
    Dim dims[MAX_RANK] = {dim_int(o->cx, 1), dim_int(o->cx, 1)};
    Windows inner = *w;
    for (int k = 0; k < w->axes; k++) {
        int64_t more = pads ? w->before[k] + w->after[k] : 0;
        dims[k + 2] = dim_add(o->cx, t->dims[k + 2], dim_int(o->cx, more));
        if (pads) {
            inner.before[k] = inner.after[k] = 0;
        }
    }
    const Type *one = type_of(o->cx, t->dtype, t->rank, dims);
    Value *ones = build_const(o->b, one, (Literal){.is_int = true, .i = 1});
    return combined(o, w, padded(o, &inner, ones, build_int(o->b, 0), true), OP_add);
}

void
onnx_average_pool(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    const Type *t = x->type;
    Windows w;
    pool_windows(o, &w, t);
    bool pads = onnx_int(o, "count_include_pad", 0) != 0, dilated = false;
    for (int k = 0; k < w.axes; k++) {
        dilated |= w.gap[k] > 1;
    }
    if (is_plain(&w) && !dilated) {
        const Type *made = made_of(o, &w, t, t->dims[1]);
        Arg args[] = {arg_v(x),
                      arg_ints(o, w.axes, w.size),
                      arg_ints(o, w.axes, w.step),
                      arg_ints(o, w.axes, w.before),
                      {.kind = ARG_BOOL},
                      {.kind = ARG_BOOL, .i = pads}};
        const char *overload = pool_of(w.axes, "aten.avg_pool2d.default",
                                       "aten.avg_pool3d.default");
        if ((o->out[0] = onnx_aten_or_none(o, overload, made, 6, args))) {
            return;
        }
    }
    Value *v = build_cast(o->b, x, wide(t->dtype));
    Value *sum = combined(o, &w, padded(o, &w, v, build_int(o->b, 0), true), OP_add);
    v = onnx_map(o, OP_div, sum, counted(o, &w, v->type, pads));
    o->out[0] = build_cast(o->b, v, t->dtype);
}

void
onnx_lp_pool(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    const Type *t = x->type;
    Windows w;
    int64_t p = onnx_int(o, "p", 2);
    pool_windows(o, &w, t);
    Value *v = onnx_aten(o, "aten.abs.default", t, ARGS(arg_v(x)));
    v = onnx_aten(o, "aten.pow.Tensor_Scalar", t, ARGS(arg_v(v), arg_i(p)));
    v = combined(o, &w, padded(o, &w, v, build_int(o->b, 0), true), OP_add);
    o->out[0] = onnx_aten(o, "aten.pow.Tensor_Scalar", v->type,
                          ARGS(arg_v(v), arg_f(1.0 / (double)p)));
}

void
onnx_global_pool(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    const Type *t = x->type;
    Dim dims[MAX_RANK];
    int64_t axes[MAX_RANK];
    int n = 0;
    if (t->rank < 3) {
        onnx_refuse(o, "its operand has no axes behind the channels");
    }
    for (int ax = 0; ax < t->rank; ax++) {
        dims[ax] = ax < 2 ? t->dims[ax] : dim_int(o->cx, 1);
        if (ax >= 2) {
            axes[n++] = ax;
        }
    }
    const Type *made = type_of(o->cx, t->dtype, t->rank, dims);
    o->out[0] = onnx_aten(o, o->row->overload, made,
                          ARGS(arg_v(x), arg_ints(o, n, axes), {.kind = ARG_BOOL, .i = 1}));
}

/* ---- convolutions of codes ---- */

static Value *
less_zero(Onnx *o, Value *x, Value *zero, Dtype to)
{
    Value *v = build_cast(o->b, x, to);
    if (!zero) {
        return v;
    }
    zero = build_cast(o->b, zero, to);
    if (zero->type->rank == 1 && zero->type->dims[0] != dim_int(o->cx, 1)) {
        zero = build_expand(o->b, zero, v->type->rank, v->type->dims, (const int[]){0});
    } else {
        zero = build_reshape(o->b, zero, 0, NULL);
    }
    return onnx_map(o, OP_sub, v, zero);
}

/* Codes and their zero points have 9 bits, so sums of up to 2^35 products are exact in float64. */
void
onnx_conv_integer(Onnx *o)
{
    Value *x = less_zero(o, onnx_in(o, 0), onnx_given(o, 2), DT_f64);
    Value *weight = less_zero(o, onnx_in(o, 1), onnx_given(o, 3), DT_f64);
    o->out[0] = build_cast(o->b, convolved(o, x, weight, NULL), DT_i32);
}

/* (sum * scales) to codes: round half to even, add the zero point, saturate. */
static Value *
coded(Onnx *o, Value *sum, Value *scale, Value *to_scale, Value *zero)
{
    Value *v = onnx_map(o, OP_mul, sum, scale);
    v = onnx_map(o, OP_div, v, to_scale);
    v = build_map(o->b, OP_round, v, NULL, NULL);
    v = onnx_map(o, OP_add, v, build_cast(o->b, zero, v->type->dtype));
    bool is_signed = zero->type->dtype == DT_i8;
    v = build_map(o->b, OP_maximum, v, build_float(o->b, is_signed ? -128 : 0), NULL);
    v = build_map(o->b, OP_minimum, v, build_float(o->b, is_signed ? 127 : 255), NULL);
    return build_cast(o->b, v, zero->type->dtype);
}

static Value *
scalar_or_channel(Onnx *o, Value *v, int rank)
{
    v = build_cast(o->b, v, DT_f64);
    if (type_wide_axes(o->cx, v->type) == 0) {
        return build_reshape(o->b, v, 0, NULL);
    }
    Dim dims[MAX_RANK];
    for (int ax = 0; ax < rank; ax++) {
        dims[ax] = dim_int(o->cx, 1);
    }
    dims[1] = v->type->dims[0];
    return build_reshape(o->b, v, rank, dims);
}

void
onnx_qlinear_conv(Onnx *o)
{
    Value *x = less_zero(o, onnx_in(o, 0), onnx_in(o, 2), DT_f64), *bias = onnx_given(o, 8);
    Value *weight = less_zero(o, onnx_in(o, 3), onnx_in(o, 5), DT_f64);
    Value *sum = convolved(o, x, weight, bias ? build_cast(o->b, bias, DT_f64) : NULL);
    int rank = sum->type->rank;
    Value *scale = onnx_map(o, OP_mul, scalar_or_channel(o, onnx_in(o, 1), rank),
                            scalar_or_channel(o, onnx_in(o, 4), rank));
    Value *zero = onnx_in(o, 7);
    o->out[0] = coded(o, sum, scale, scalar_or_channel(o, onnx_in(o, 6), rank),
                      build_reshape(o->b, zero, 0, NULL));
}

/* ---- products of codes ---- */

/* A zero point of each row of the first matrix, or of each column of the second. */
static Value *
matrix_less(Onnx *o, Value *x, Value *zero, bool rows)
{
    Value *v = build_cast(o->b, x, DT_f64);
    if (!zero) {
        return v;
    }
    zero = build_cast(o->b, zero, DT_f64);
    if (rows && zero->type->rank == 1 && type_wide_axes(o->cx, zero->type)) {
        Dim dims[] = {zero->type->dims[0], dim_int(o->cx, 1)};
        zero = build_reshape(o->b, zero, 2, dims);
    }
    if (type_wide_axes(o->cx, zero->type) == 0) {
        zero = build_reshape(o->b, zero, 0, NULL);
    }
    return onnx_map(o, OP_sub, v, zero);
}

static const Type *
product_type(Onnx *o, Value *a, Value *b)
{
    Dim dims[MAX_RANK];
    int ra = a->type->rank, rb = b->type->rank, rank = 0;
    if (ra == 0 || rb == 0) {
        onnx_refuse(o, "an operand has no axes");
    }
    Dim ka = a->type->dims[ra - 1], kb = b->type->dims[rb > 1 ? rb - 2 : 0];
    if (ka != kb) {
        onnx_refuse(o, "the axis that is summed has two sizes, which are not known to be equal");
    }
    int batches_a = ra > 2 ? ra - 2 : 0, batches_b = rb > 2 ? rb - 2 : 0;
    int most = batches_a > batches_b ? batches_a : batches_b;
    for (int k = 0; k < most; k++) {
        Dim da = k < most - batches_a ? dim_int(o->cx, 1) : a->type->dims[k - (most - batches_a)];
        Dim db = k < most - batches_b ? dim_int(o->cx, 1) : b->type->dims[k - (most - batches_b)];
        dims[rank++] = dim_is(o->cx, da, 1) ? db : da;
    }
    if (ra > 1) {
        dims[rank++] = a->type->dims[ra - 2];
    }
    if (rb > 1) {
        dims[rank++] = b->type->dims[rb - 1];
    }
    return type_of(o->cx, a->type->dtype, rank, dims);
}

Value *
onnx_product(Onnx *o, Value *a, Value *b)
{
    const Type *t = product_type(o, a, b);
    return onnx_aten(o, "aten.matmul.default", t, ARGS(arg_v(a), arg_v(b)));
}

void
onnx_matmul(Onnx *o)
{
    o->out[0] = onnx_product(o, onnx_in(o, 0), onnx_in(o, 1));
}

void
onnx_matmul_integer(Onnx *o)
{
    Value *a = matrix_less(o, onnx_in(o, 0), onnx_given(o, 2), true);
    Value *b = matrix_less(o, onnx_in(o, 1), onnx_given(o, 3), false);
    o->out[0] = build_cast(o->b, onnx_product(o, a, b), DT_i32);
}

/* One scale, or one of each row or column. */
static Value *
scale_of(Onnx *o, Value *v, bool rows)
{
    v = build_cast(o->b, v, DT_f64);
    if (type_wide_axes(o->cx, v->type) == 0) {
        return build_reshape(o->b, v, 0, NULL);
    }
    if (rows && v->type->rank == 1) {
        Dim dims[] = {v->type->dims[0], dim_int(o->cx, 1)};
        v = build_reshape(o->b, v, 2, dims);
    }
    return v;
}

void
onnx_qlinear_matmul(Onnx *o)
{
    Value *a = matrix_less(o, onnx_in(o, 0), onnx_in(o, 2), true);
    Value *b = matrix_less(o, onnx_in(o, 3), onnx_in(o, 5), false);
    Value *scale = onnx_map(o, OP_mul, scale_of(o, onnx_in(o, 1), true),
                            scale_of(o, onnx_in(o, 4), false));
    Value *zero = onnx_in(o, 7);
    if (type_wide_axes(o->cx, zero->type) == 0) {
        zero = build_reshape(o->b, zero, 0, NULL);
    }
    o->out[0] = coded(o, onnx_product(o, a, b), scale, scale_of(o, onnx_in(o, 6), true), zero);
}

/* alpha * A' B' + beta * C */
void
onnx_gemm(Onnx *o)
{
    Value *a = onnx_in(o, 0), *b = onnx_in(o, 1), *c = onnx_given(o, 2);
    double alpha = onnx_float(o, "alpha", 1), beta = onnx_float(o, "beta", 1);
    const int transposed[] = {1, 0};
    if (a->type->rank != 2 || b->type->rank != 2) {
        onnx_refuse(o, "an operand is no matrix");
    }
    a = onnx_int(o, "transA", 0) ? build_permute(o->b, a, transposed) : a;
    b = onnx_int(o, "transB", 0) ? build_permute(o->b, b, transposed) : b;
    const Type *t = product_type(o, a, b);
    if (!c) {
        Value *v = onnx_product(o, a, b);
        o->out[0] = alpha == 1 ? v
                               : onnx_aten(o, "aten.mul.Scalar", t, ARGS(arg_v(v), arg_f(alpha)));
        return;
    }
    o->out[0] = onnx_aten(o, "aten.addmm.default", t,
                          ARGS(arg_v(c), arg_v(a), arg_v(b), arg_f(beta), arg_f(alpha)));
}
