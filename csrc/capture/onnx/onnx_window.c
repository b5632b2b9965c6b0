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

int
onnx_convolutions(const OnnxGraph *g)
{
    int n = 0;
    for (int k = 0; k < g->nnodes; k++) {
        const OnnxNode *node = &g->nodes[k];
        const OnnxRow *row = onnx_find(node);
        n += row && (row->build == onnx_conv || row->build == onnx_conv_transpose ||
                     row->build == onnx_qlinear_conv || row->build == onnx_conv_integer);
        for (int j = 0; j < node->nattrs; j++) {
            n += node->attrs[j].kind == ONNX_GRAPH ? onnx_convolutions(node->attrs[j].graph) : 0;
        }
    }
    return n;
}

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

/* The row-major number of each element or, of the image's axes, the column-major one. */
static Value *
numbers_of(Onnx *o, const Type *t, bool columns)
{
    Dim all = type_numel(o->cx, t), dims[MAX_RANK];
    Value *at = build_iota(o->b, type_of(o->cx, DT_i64, 1, &all), 0);
    int perm[MAX_RANK];
    for (int ax = 0; ax < t->rank; ax++) {
        perm[ax] = ax < 2 || !columns ? ax : t->rank + 1 - ax;
        dims[ax] = t->dims[perm[ax]];
    }
    return build_permute(o->b, build_reshape(o->b, at, t->rank, dims), perm);
}

/* The greatest element of each window and its number, axis by axis from the last: of equals, the
 * first of all. */
static void
max_with_places(Onnx *o, const Windows *w, Value *x)
{
    const Type *t = x->type;
    bool whole = dtype_info[t->dtype].class <= CLASS_INT;
    Literal least = onnx_furthest(t->dtype, true);
    Value *at = numbers_of(o, t, onnx_int(o, "storage_order", 0) != 0);
    Value *low = whole ? build_int(o->b, least.i) : build_float(o->b, least.f);
    x = padded(o, w, x, low, true);
    at = padded(o, w, at, build_int(o->b, -1), true);
    for (int k = w->axes - 1; k >= 0; k--) {
        Value *best = NULL, *place = NULL;
        for (int64_t i = 0; i < w->size[k]; i++) {
            Dim from = dim_int(o->cx, i * w->gap[k]), step = dim_int(o->cx, w->step[k]);
            Value *v = build_slice(o->b, x, k + 2, from, step, w->made[k]);
            Value *p = build_slice(o->b, at, k + 2, from, step, w->made[k]);
            Value *more = best ? build_map(o->b, OP_gt, v, best, NULL) : NULL;
            best = best ? build_map(o->b, OP_where, more, v, best) : v;
            place = place ? build_map(o->b, OP_where, more, p, place) : p;
        }
        x = best;
        at = place;
    }
    o->out[0] = x;
    o->out[1] = at;
}

void
onnx_max_unpool(Onnx *o)
{
    Value *x = onnx_in(o, 0), *at = onnx_in(o, 1);
    const Type *t = x->type;
    Windows w = {.axes = t->rank - 2};
    int64_t pads[2 * MAX_AXES];
    int n = 0;
    if (w.axes < 1 || w.axes > MAX_AXES || !onnx_attr(o, "kernel_shape")) {
        onnx_refuse(o, "it takes an image of 3 to 5 axes, and a kernel_shape");
    }
    numbers(o, "kernel_shape", w.axes, 1, 1, w.size);
    numbers(o, "strides", w.axes, 1, 1, w.step);
    numbers(o, "pads", 2 * w.axes, 0, 0, pads);
    for (int k = 0; k < w.axes; k++) {
        Dim d = dim_sub(o->cx, t->dims[k + 2], dim_int(o->cx, 1));
        int64_t more = w.size[k] - pads[k] - pads[k + w.axes];
        w.made[k] = dim_add(o->cx, dim_mul(o->cx, d, dim_int(o->cx, w.step[k])),
                            dim_int(o->cx, more));
    }
    const Type *made = made_of(o, &w, t, t->dims[1]);
    Dim all = type_numel(o->cx, made), count = type_numel(o->cx, t), zeros[MAX_RANK];
    Value *none = build_const(o->b, type_of(o->cx, t->dtype, 1, &all), (Literal){.is_int = true});
    Value *v = onnx_aten(o, "aten.scatter.src", none->type,
                         ARGS(arg_v(none), arg_i(0), arg_v(build_reshape(o->b, at, 1, &count)),
                              arg_v(build_reshape(o->b, x, 1, &count))));
    v = build_reshape(o->b, v, made->rank, made->dims);
    if (onnx_given(o, 2)) {
        const Dim *wanted = onnx_dims(o, 2, &n);
        for (int ax = 0; ax < t->rank; ax++) {
            zeros[ax] = dim_int(o->cx, 0);
            if (n != t->rank || !dim_le(o->cx, made->dims[ax], wanted[ax])) {
                onnx_refuse(o, "its output_shape is not known to have room for the image");
            }
        }
        v = build_pad(o->b, v, build_int(o->b, 0), type_of(o->cx, t->dtype, n, wanted), zeros);
    }
    o->out[0] = v;
}

/* The window that has one of its places at each element of an axis, and whether there is one:
 * (element + offset) / step. */
static Value *
window_at(Onnx *o, Dim size, int64_t offset, int64_t step, Dim windows, Value **hits)
{
    Value *last = build_size(o->b, dim_sub(o->cx, windows, dim_int(o->cx, 1)));
    Value *at = build_iota(o->b, type_of(o->cx, DT_i64, 1, &size), 0), *zero = build_int(o->b, 0);
    at = onnx_map(o, OP_add, at, build_int(o->b, offset));
    Value *is = onnx_map(o, OP_eq, onnx_map(o, OP_remainder, at, build_int(o->b, step)), zero);
    at = onnx_map(o, OP_div_floor, at, build_int(o->b, step));
    is = onnx_map(o, OP_bit_and, is, onnx_map(o, OP_ge, at, zero));
    *hits = onnx_map(o, OP_bit_and, is, onnx_map(o, OP_le, at, last));
    return onnx_map(o, OP_maximum, onnx_map(o, OP_minimum, at, last), zero);
}

/* Columns [N, C * places, windows] added to where they were in an image: axis by axis. */
void
onnx_col2im(Onnx *o)
{
    Value *x = onnx_in(o, 0), *v;
    int n, blocks;
    const Dim *image = onnx_dims(o, 1, &n);
    const int64_t *block = onnx_numbers(o, 2, &blocks);
    Windows w = {.axes = n};
    int64_t pads[2 * MAX_AXES], places = 1;
    Dim dims[MAX_RANK], one = dim_int(o->cx, 1);
    if (n < 1 || n > MAX_AXES || blocks != n || x->type->rank != 3) {
        onnx_refuse(o, "it takes columns [N, C * places, windows] of an image of 1 to 3 axes");
    }
    numbers(o, "strides", n, 1, 1, w.step);
    numbers(o, "dilations", n, 1, 1, w.gap);
    numbers(o, "pads", 2 * n, 0, 0, pads);
    for (int k = 0; k < n; k++) {
        if (block[k] < 1 || block[k] > MAX_PLACES) {
            onnx_refuse(o, "its block has not 1 to %d places along an axis", MAX_PLACES);
        }
        places *= block[k];
        int64_t span = w.gap[k] * (block[k] - 1) + 1;
        Dim room = dim_add(o->cx, image[k], dim_int(o->cx, pads[k] + pads[k + n] - span));
        w.made[k] = dim_add(o->cx, dim_div(o->cx, room, dim_int(o->cx, w.step[k])), one);
        dims[k + 2] = dim_int(o->cx, block[k]);
        dims[k + 2 + n] = w.made[k];
    }
    dims[0] = x->type->dims[0];
    dims[1] = dim_div(o->cx, x->type->dims[1], dim_int(o->cx, places));
    v = build_reshape(o->b, x, 2 + 2 * n, dims);
    for (int k = 0; k < n; k++) {
        /* [N, C, places k .., windows k .., image .. k - 1] */
        int axis = 2 + n - k, rank = v->type->rank;
        Dim left[MAX_RANK];
        Value *sum = NULL;
        for (int64_t p = 0; p < block[k]; p++) {
            Value *hits,
                *at = window_at(o, image[k], pads[k] - p * w.gap[k], w.step[k], w.made[k], &hits);
            Value *part = build_slice(o->b, v, 2, dim_int(o->cx, p), one, one);
            part = build_gather(o->b, part, at, axis, INDEX_FROM_START);
            const Type *t = part->type;
            part = onnx_map3(o, OP_where, build_expand(o->b, hits, t->rank, t->dims, &axis), part,
                             build_const(o->b, t, (Literal){.is_int = true}));
            sum = sum ? onnx_map(o, OP_add, sum, part) : part;
        }
        memcpy(left, sum->type->dims, 2 * sizeof *left);
        memcpy(left + 2, sum->type->dims + 3, (size_t)(rank - 3) * sizeof *left);
        v = onnx_moved(o, build_reshape(o->b, sum, rank - 1, left), axis - 1, rank - 2);
    }
    o->out[0] = v;
}

void
onnx_max_pool(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    const Type *t = x->type;
    Windows w;
    pool_windows(o, &w, t);
    bool whole = dtype_info[t->dtype].class <= CLASS_INT;
    if (o->node->noutputs > 1 && o->node->outputs[1] >= 0) {
        max_with_places(o, &w, x);
        return;
    }
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
    Literal least = onnx_furthest(t->dtype, true);
    Value *low = whole ? build_int(o->b, least.i) : build_float(o->b, least.f);
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

/* A scale or zero point as f64 beside values of t: one number, or one for each index of an axis,
 * which may be the last that it has itself. */
static Value *
number_beside(Onnx *o, Value *v, const Type *t, int axis)
{
    v = build_cast(o->b, v, DT_f64);
    if (type_wide_axes(o->cx, v->type) == 0) {
        return build_reshape(o->b, v, 0, NULL);
    }
    return v->type->rank == 1 ? build_expand(o->b, v, t->rank, t->dims, &axis) : v;
}

/* Codes less their zero point, as f64. */
static Value *
less_zero(Onnx *o, Value *x, Value *zero, int axis)
{
    Value *v = build_cast(o->b, x, DT_f64);
    return zero ? onnx_map(o, OP_sub, v, number_beside(o, zero, v->type, axis)) : v;
}

/* The axis of rows of a matrix, or that of columns. */
static int
axis_of(const Value *v, bool rows)
{
    int rank = v->type->rank;
    return rank > 1 && rows ? rank - 2 : rank - 1;
}

/* Codes and their zero points have 9 bits, so sums of up to 2^35 products are exact in float64. */
void
onnx_conv_integer(Onnx *o)
{
    Value *x = less_zero(o, onnx_in(o, 0), onnx_given(o, 2), 0);
    Value *weight = less_zero(o, onnx_in(o, 1), onnx_given(o, 3), 0);
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

void
onnx_qlinear_conv(Onnx *o)
{
    Value *x = less_zero(o, onnx_in(o, 0), onnx_in(o, 2), 0), *bias = onnx_given(o, 8);
    Value *weight = less_zero(o, onnx_in(o, 3), onnx_in(o, 5), 0);
    Value *sum = convolved(o, x, weight, bias ? build_cast(o->b, bias, DT_f64) : NULL);
    const Type *t = sum->type;
    Value *scale = onnx_pair_of(o, OP_mul, number_beside(o, onnx_in(o, 1), t, 1),
                                number_beside(o, onnx_in(o, 4), t, 1));
    Value *zero = onnx_in(o, 7);
    o->out[0] = coded(o, sum, scale, number_beside(o, onnx_in(o, 6), t, 1),
                      build_reshape(o->b, zero, 0, NULL));
}

/* ---- products of codes ---- */

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
    Value *a = onnx_in(o, 0), *b = onnx_in(o, 1);
    a = less_zero(o, a, onnx_given(o, 2), axis_of(a, true));
    b = less_zero(o, b, onnx_given(o, 3), axis_of(b, false));
    o->out[0] = build_cast(o->b, onnx_product(o, a, b), DT_i32);
}

void
onnx_qlinear_matmul(Onnx *o)
{
    Value *a = onnx_in(o, 0), *b = onnx_in(o, 3), *zero = onnx_in(o, 7);
    a = less_zero(o, a, onnx_in(o, 2), axis_of(a, true));
    b = less_zero(o, b, onnx_in(o, 5), axis_of(b, false));
    Value *sum = onnx_product(o, a, b);
    const Type *t = sum->type;
    Value *scale = onnx_pair_of(o, OP_mul, number_beside(o, onnx_in(o, 1), t, axis_of(sum, true)),
                                number_beside(o, onnx_in(o, 4), t, axis_of(sum, false)));
    if (type_wide_axes(o->cx, zero->type) == 0) {
        zero = build_reshape(o->b, zero, 0, NULL);
    }
    o->out[0] = coded(o, sum, scale, number_beside(o, onnx_in(o, 6), t, axis_of(sum, true)), zero);
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
