/* Images at places that data say: RoiAlign, DeformConv. */
#include "onnx.h"

#include <string.h>

enum { MAX_SAMPLES = 64 };

static Dim
num(Onnx *o, int64_t i)
{
    return dim_int(o->cx, i);
}

/* The four neighbours of places (y, x), each [N, points], of images [N, C, height * width], each
 * with its share; `clamps`: neighbours outside are those at the edge, else 0. */
static void
neighbours(Onnx *o, Value *image, Value *const *at, const Dim *sizes, bool clamps, Value **out)
{
    Value *low[2], *rest[2];
    for (int k = 0; k < 2; k++) {
        low[k] = build_map(o->b, OP_floor, at[k], NULL, NULL);
        rest[k] = onnx_map(o, OP_sub, at[k], low[k]);
    }
    for (int c = 0; c < 4; c++) {
        Value *place = NULL, *outside = NULL, *share = NULL;
        for (int k = 0; k < 2; k++) {
            bool upper = k == 0 ? c >= 2 : c % 2;
            Value *v = upper ? onnx_plus(o, low[k], 1) : low[k];
            Value *is = onnx_is_outside(o, v, sizes[k]), *index = onnx_inside(o, v, sizes[k]);
            Value *by = upper ? rest[k] : onnx_map(o, OP_sub, onnx_number(o, 1), rest[k]);
            Value *n = build_broadcast(o->b, build_size(o->b, sizes[k]), 2, index->type->dims);
            outside = outside ? onnx_map(o, OP_bit_or, outside, is) : is;
            place = place ? onnx_map(o, OP_add, onnx_map(o, OP_mul, place, n), index) : index;
            share = share ? onnx_map(o, OP_mul, share, by) : by;
        }
        Value *v = onnx_elements_at(o, image, place, clamps ? NULL : outside);
        share = build_cast(o->b, share, v->type->dtype);
        out[c] = onnx_map(o, OP_mul, v,
                          build_expand(o->b, share, 3, v->type->dims, (const int[]){0, 2}));
    }
}

/* ---- RoiAlign ---- */

/* Where the samples of a region's bins are along an axis: [regions, bins * samples]. */
static Value *
samples(Onnx *o, Value *from, Value *size, int64_t bins, int64_t count)
{
    Dim all = num(o, bins * count), dims[] = {from->type->dims[0], all};
    const Type *t = type_of(o->cx, from->type->dtype, 2, dims);
    Value *at = build_cast(o->b, build_iota(o->b, type_with(o->cx, t, DT_i64), 1), t->dtype);
    at = onnx_times(o, onnx_plus(o, at, 0.5), 1.0 / (double)(bins * count));
    const int row[] = {0};
    at = onnx_map(o, OP_mul, at, build_expand(o->b, size, 2, dims, row));
    return onnx_map(o, OP_add, at, build_expand(o->b, from, 2, dims, row));
}

void
onnx_roi_align(Onnx *o)
{
    Value *x = onnx_in(o, 0), *rois = onnx_in(o, 1), *batch = onnx_in(o, 2), *part[4], *sum = NULL;
    const Type *t = x->type;
    int64_t out[] = {onnx_int(o, "output_height", 1), onnx_int(o, "output_width", 1)};
    int64_t n = onnx_int(o, "sampling_ratio", 0);
    double scale = onnx_float(o, "spatial_scale", 1);
    bool half = onnx_is_text(o, "coordinate_transformation_mode", "half_pixel",
                             o->node->version < 16 ? "output_half_pixel" : "half_pixel");
    bool max = onnx_is_text(o, "mode", "max", "avg");
    Dim one = num(o, 1), regions = rois->type->dims[0];
    if (t->rank != 4 || rois->type->rank != 2 || !dim_is(o->cx, rois->type->dims[1], 4) || n < 1 ||
        n * n > MAX_SAMPLES || out[0] < 1 || out[1] < 1 || out[0] > INT16_MAX ||
        out[1] > INT16_MAX) {
        onnx_refuse(o,
                    "it takes an image of 4 axes, regions [_, 4], and a sampling_ratio of 1 to 8");
    }
    Dtype at = wide(rois->type->dtype);
    Value *ends[4], *places[2], *outside = NULL;
    for (int k = 0; k < 4; k++) {
        Value *v = build_slice(o->b, rois, 1, num(o, k), one, one);
        v = build_cast(o->b, build_reshape(o->b, v, 1, &regions), at);
        ends[k] = onnx_plus(o, onnx_times(o, v, scale), half ? -0.5 : 0);
    }
    int64_t rows = out[0] * n, columns = out[1] * n;
    Dim points = num(o, rows * columns), grid[] = {regions, num(o, rows), num(o, columns)};
    Dim flat[] = {regions, points};
    for (int k = 0; k < 2; k++) { /* y, x */
        Value *size = onnx_map(o, OP_sub, ends[3 - k], ends[1 - k]);
        size = half ? size : onnx_map(o, OP_maximum, size, onnx_number(o, 1));
        Value *v = samples(o, ends[1 - k], size, out[k], n);
        v = build_expand(o->b, v, 3, grid, k == 0 ? (const int[]){0, 1} : (const int[]){0, 2});
        v = build_reshape(o->b, v, 2, flat);
        Value *last = onnx_size_number(o, t->dims[2 + k], at);
        Value *is = onnx_map(o, OP_bit_or, onnx_map(o, OP_lt, v, onnx_number(o, -1)),
                             onnx_map(o, OP_gt, v, last));
        outside = outside ? onnx_map(o, OP_bit_or, outside, is) : is;
        last = onnx_size_number(o, dim_sub(o->cx, t->dims[2 + k], one), at);
        v = onnx_map(o, OP_maximum, v, onnx_number(o, 0));
        places[k] = onnx_map(o, OP_minimum, v, last);
    }
    Value *of = build_gather(o->b, x, build_cast(o->b, batch, DT_i64), 0, INDEX_FROM_START);
    Dim image[] = {regions, t->dims[1], dim_mul(o->cx, t->dims[2], t->dims[3])};
    of = build_cast(o->b, build_reshape(o->b, of, 3, image), wide(t->dtype));
    neighbours(o, of, places, t->dims + 2, true, part);
    for (int k = 0; k < 4; k++) {
        sum = sum ? onnx_map(o, max ? OP_maximum : OP_add, sum, part[k]) : part[k];
    }
    outside = build_expand(o->b, outside, 3, sum->type->dims, (const int[]){0, 2});
    sum = onnx_map3(o, OP_where, outside, build_const(o->b, sum->type, (Literal){.is_int = true}),
                    sum);
    Dim bins[] = {regions, t->dims[1], num(o, out[0]), num(o, n), num(o, out[1]), num(o, n)};
    sum = build_reshape(o->b, sum, 6, bins);
    sum = build_red(o->b, max ? OP_amax : OP_sum, sum, 2, (const int[]){3, 5});
    sum = max ? sum : onnx_times(o, sum, 1.0 / (double)(n * n));
    o->out[0] = build_cast(o->b, sum, t->dtype);
}

/* ---- DeformConv ---- */

static int64_t
at_of(Onnx *o, const char *name, int k, int64_t otherwise)
{
    const OnnxAttr *a = onnx_attr(o, name);
    int64_t i = a && a->kind == ONNX_INTS && k < a->n ? a->ints[k] : otherwise;
    if (i < 0 || i > INT16_MAX) {
        onnx_refuse(o, "its %s are not from 0 to %d", name, INT16_MAX);
    }
    return i;
}

/* Each place of the kernel reads the image at its own offset; the rest is a product. */
void
onnx_deform_conv(Onnx *o)
{
    Value *x = onnx_in(o, 0), *w = onnx_in(o, 1), *offset = onnx_in(o, 2), *bias = onnx_given(o, 3);
    Value *mask = onnx_given(o, 4), *columns[MAX_SAMPLES];
    const Type *t = x->type, *tw = w->type;
    int64_t size[2], group = onnx_int(o, "group", 1), groups = onnx_int(o, "offset_group", 1),
                     channels;
    if (t->rank != 4 || tw->rank != 4 || offset->type->rank != 4 ||
        !dim_is_int(o->cx, tw->dims[2], &size[0]) || !dim_is_int(o->cx, tw->dims[3], &size[1]) ||
        size[0] < 1 || size[1] < 1 || size[0] * size[1] > MAX_SAMPLES || group < 1 || groups < 1 ||
        !dim_is_int(o->cx, t->dims[1], &channels) || channels % groups || channels % group) {
        onnx_refuse(o, "it takes images of 4 axes, and a kernel of at most %d places", MAX_SAMPLES);
    }
    Dim one = num(o, 1), n = t->dims[0], high = offset->type->dims[2],
        broad = offset->type->dims[3];
    Dim points = dim_mul(o->cx, high, broad), images = dim_mul(o->cx, n, num(o, groups));
    int64_t places = size[0] * size[1], each = channels / groups;
    Dtype at = wide(t->dtype);
    Dim rows[] = {images, num(o, each), dim_mul(o->cx, t->dims[2], t->dims[3])};
    Value *image = build_cast(o->b, build_reshape(o->b, x, 3, rows), at);
    Dim parts[] = {images, num(o, places), num(o, 2), points}, flat[] = {images, points};
    Dim grid[] = {images, high, broad}, shares[] = {images, num(o, places), points};
    offset = build_cast(o->b, build_reshape(o->b, offset, 4, parts), at);
    mask = mask ? build_cast(o->b, build_reshape(o->b, mask, 3, shares), at) : NULL;
    for (int64_t p = 0; p < places; p++) {
        Value *place[2], *four[4], *v = NULL;
        for (int k = 0; k < 2; k++) {
            int64_t of = k == 0 ? p / size[1] : p % size[1];
            Value *own = build_slice(o->b, offset, 1, num(o, p), one, one);
            own = build_slice(o->b, own, 2, num(o, k), one, one);
            Value *i = build_iota(o->b, type_of(o->cx, DT_i64, 3, grid), 1 + k);
            i = build_cast(o->b, build_reshape(o->b, i, 2, flat), at);
            i = onnx_times(o, i, (double)at_of(o, "strides", k, 1));
            i = onnx_plus(o, i,
                          (double)(of * at_of(o, "dilations", k, 1) - at_of(o, "pads", k, 0)));
            place[k] = onnx_map(o, OP_add, i, build_reshape(o->b, own, 2, flat));
        }
        neighbours(o, image, place, t->dims + 2, false, four);
        for (int k = 0; k < 4; k++) {
            v = v ? onnx_map(o, OP_add, v, four[k]) : four[k];
        }
        if (mask) {
            Value *m = build_reshape(o->b, build_slice(o->b, mask, 1, num(o, p), one, one), 2,
                                     flat);
            v = onnx_map(o, OP_mul, v,
                         build_expand(o->b, m, 3, v->type->dims, (const int[]){0, 2}));
        }
        Dim column[] = {n, num(o, group), num(o, channels / group), one, points};
        columns[p] = build_reshape(o->b, v, 5, column);
    }
    Value *all = build_cat(o->b, (int)places, columns, 3);
    Dim outputs = dim_div(o->cx, tw->dims[0], num(o, group));
    Dim weights[] = {num(o, group), outputs, tw->dims[1], num(o, places)};
    w = build_cast(o->b, build_reshape(o->b, w, 4, weights), at);
    Value *v = build_product(o->b, w, all, "gocp,ngcps->ngos", at);
    Dim made[] = {n, tw->dims[0], high, broad};
    v = build_reshape(o->b, v, 4, made);
    v = bias ? onnx_map(o, OP_add, v,
                        build_expand(o->b, build_cast(o->b, bias, at), 4, made, (const int[]){1}))
             : v;
    o->out[0] = build_cast(o->b, v, t->dtype);
}
