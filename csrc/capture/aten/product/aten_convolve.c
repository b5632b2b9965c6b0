/* Convolutions as contractions of the windows of an image with the weight.
 *
 * The image has its channels after its other axes, is padded as far as the windows reach, and is
 * viewed through as_strided with an axis for the places in a window: "nyxpqc,ocpq->noyx".  Groups
 * are a batch letter.  The terms of a sum are in the order of (p, q, c), whatever the layouts in
 * memory are.  A kernel of one place has no windows: its convolution is a product of the image.
 *
 * A transposed convolution, which is the gradient of the other kind with respect to its image, is a
 * convolution with a step of 1 of the image with zeros between its elements, by the flipped weight;
 * if its steps divide the kernel's sizes, aten_conv_transposed.c has a better form.  A weight's
 * gradient is the contraction of the windows with the gradient of the result.  If a group has one
 * channel, only the places of a window are summed: slices of the image times elements of the
 * weight. */
#include "aten_conv.h"
#include "ir/costs.h"

#include <string.h>

const char conv_places[] = "pqr", conv_points[] = "yxz", conv_within[] = "uvw";

/* ---- windows ---- */

static Dim
reach(const Window *w, int k, Dim count)
{
    Dim last = window_times(w, window_plus(w, count, -1), w->step[k]);
    return window_plus(w, last, w->gap[k] * (w->size[k] - 1) + 1);
}

/* The image with as much around it as the windows reach for; exact: and nothing more.  Where it is
 * not known whether they reach the image's end, as of a step of 3 over a size that is a symbol, the
 * frame holds both: a pad that leaves out elements has to be known as one. */
static Value *
framed(const Window *w, Value *v, const Dim *counts, bool exact)
{
    Aten *n = w->n;
    Dim lo[MAX_RANK], dims[MAX_RANK], needs[MAX_RANK];
    for (int k = 0; k < w->axes; k++) { /* a negative padding leaves elements out */
        int ax = w->first + k;
        int64_t out = w->lo[k] < 0 ? -w->lo[k] : 0;
        v = part(n, v, ax, dim_int(n->cx, out), one(n), window_plus(w, v->type->dims[ax], -out));
    }
    for (int ax = 0; ax < v->type->rank; ax++) {
        int k = ax - w->first;
        lo[ax] = zero(n);
        needs[ax] = dims[ax] = v->type->dims[ax];
        if (k >= 0 && k < w->axes) {
            Dim need = reach(w, k, counts[k]);
            bool enough = w->lo[k] <= 0 && dim_le(n->cx, need, dims[ax]);
            if (enough && exact) {
                v = part(n, v, ax, zero(n), one(n), need);
            }
            lo[ax] = dim_int(n->cx, w->lo[k] > 0 ? w->lo[k] : 0);
            Dim end = dim_add(n->cx, v->type->dims[ax], lo[ax]);
            bool ordered = dim_le(n->cx, need, end) || dim_le(n->cx, end, need);
            needs[ax] = enough && !exact ? dims[ax] : need;
            dims[ax] = ordered ? needs[ax] : dim_max(n->cx, need, end);
        }
    }
    const Type *t = type_of(n->cx, v->type->dtype, v->type->rank, dims);
    v = build_pad(n->b, v, build_int(n->b, 0), t, lo);
    for (int ax = 0; ax < v->type->rank && exact; ax++) {
        v = needs[ax] == dims[ax] ? v : part(n, v, ax, zero(n), one(n), needs[ax]);
    }
    return v;
}

/* Is the last element of such a view known to be one of v? */
static bool
stays_within(const Window *w, const Value *v, int rank, const Dim *dims, const Dim *strides)
{
    Cx *cx = w->n->cx;
    Dim last = dim_int(cx, 0);
    for (int ax = 0; ax < rank; ax++) {
        last = dim_add(cx, last, dim_mul(cx, window_plus(w, dims[ax], -1), strides[ax]));
    }
    return dim_lt(cx, last, type_numel(cx, v->type));
}

/* The windows of v.  Axes for the places in a window, if there are several, come after the axes of
 * the windows.  Between the two are the places within a step that have their own windows: each
 * begins one element after the previous one. */
static Value *
strided(const Conv *c, const Window *w, Value *v, const Dim *counts)
{
    Cx *cx = w->n->cx;
    const Type *t = v->type;
    Dim dense[MAX_RANK], dims[MAX_RANK], strides[MAX_RANK];
    int rank = 0;
    type_dense(cx, t, dense);
    for (int ax = 0; ax < t->rank; ax++) {
        int k = ax - w->first;
        bool image = k >= 0 && k < w->axes;
        for (int j = 0; k == w->axes && j < w->axes; j++) {
            if (c->phased[j]) {
                dims[rank] = dim_int(cx, CONV_PHASES);
                strides[rank++] = dense[w->first + j];
            }
        }
        for (int j = 0; k == w->axes && j < w->axes; j++) {
            if (w->size[j] > 1) {
                dims[rank] = dim_int(cx, w->size[j]);
                strides[rank++] = window_times(w, dense[w->first + j], w->gap[j]);
            }
        }
        dims[rank] = image ? counts[k] : t->dims[ax];
        strides[rank++] = image ? window_times(w, dense[ax], w->step[k]) : dense[ax];
    }
    return stays_within(w, v, rank, dims, strides)
               ? build_as_strided(w->n->b, v, rank, dims, strides, zero(w->n))
               : NULL;
}

/* x, whose channels are at the axis, with groups and their channels as two axes, where there are
 * several groups. */
Value *
conv_grouped(const Conv *c, Value *x, int axis)
{
    Dim dims[MAX_RANK], groups = dim_int(c->n->cx, c->groups);
    const Type *t = x->type;
    if (c->groups == 1) {
        return x;
    }
    memcpy(dims, t->dims, (size_t)axis * sizeof *dims);
    dims[axis] = groups;
    dims[axis + 1] = dim_div(c->n->cx, t->dims[axis], groups);
    memcpy(dims + axis + 2, t->dims + axis + 1, (size_t)(t->rank - axis - 1) * sizeof *dims);
    return build_reshape(c->n->b, x, t->rank + 1, dims);
}

/* Undoes the split: merges the groups at `axis` with the channels of a group behind them. */
static Value *
joined(const Conv *c, Value *v, int axis)
{
    Dim dims[MAX_RANK];
    const Type *t = v->type;
    if (c->groups == 1) {
        return v;
    }
    memcpy(dims, t->dims, (size_t)axis * sizeof *dims);
    dims[axis] = dim_mul(c->n->cx, t->dims[axis], t->dims[axis + 1]);
    memcpy(dims + axis + 1, t->dims + axis + 2, (size_t)(t->rank - axis - 2) * sizeof *dims);
    return build_reshape(c->n->b, v, t->rank - 1, dims);
}

/* Zeros behind each element along the image's axes, so that they are `step` apart. */
static Value *
spread_out(const Window *w, Value *v, const int64_t *step)
{
    Aten *n = w->n;
    Dim dims[MAX_RANK], lo[MAX_RANK], merged[MAX_RANK];
    Dim spread[MAX_RANK];
    int rank = 0;
    for (int ax = 0; ax < v->type->rank; ax++) {
        int k = ax - w->first;
        int64_t by = k >= 0 && k < w->axes ? step[k] : 1;
        dims[rank] = spread[rank] = v->type->dims[ax];
        lo[rank++] = zero(n);
        merged[ax] = window_times(w, v->type->dims[ax], by);
        if (by > 1) {
            dims[rank] = one(n);
            spread[rank] = dim_int(n->cx, by);
            lo[rank++] = zero(n);
        }
    }
    int axes = v->type->rank;
    if (rank == axes) {
        return v;
    }
    v = build_reshape(n->b, v, rank, dims);
    v = build_pad(n->b, v, build_int(n->b, 0), type_of(n->cx, v->type->dtype, rank, spread), lo);
    return build_reshape(n->b, v, axes, merged);
}

/* The windows, as of a convolution that is not transposed, which takes the same elements. */
static Value *
prepared(const Conv *c, Value *v, Window *w)
{
    int64_t step[MAX_AXES];
    if (!c->transposed) {
        return v;
    }
    memcpy(step, w->step, sizeof step);
    for (int k = 0; k < w->axes; k++) {
        w->lo[k] = w->gap[k] * (w->size[k] - 1) - w->lo[k];
        w->step[k] = 1;
    }
    return spread_out(w, v, step);
}

void
conv_letters(Term *t, const char *letters, const Window *places)
{
    for (int k = 0; letters[k]; k++) {
        if (!places || places->size[k] > 1) {
            t->letters[t->n++] = letters[k];
        }
    }
}

static const char *
points(const Conv *c)
{
    return cx_format(c->n->cx, "%.*s", c->w.axes, conv_points);
}

void
conv_letters_phases(const Conv *c, Term *t)
{
    for (int k = 0; k < c->w.axes; k++) {
        conv_letters(t, c->phased[k] ? (char[]){conv_within[k], 0} : "", NULL);
    }
}

static void
add_places(const Conv *c, Term *t)
{
    conv_letters(t, cx_format(c->n->cx, "%.*s", c->w.axes, conv_places), &c->w);
}

/* The windows of the image x, in the numbers `counts`. */
bool
conv_windows(const Conv *c, Value *x, const Dim *counts, Term *out)
{
    Aten *n = c->n;
    Window w = c->w;
    Dim reached[MAX_AXES];
    for (int k = 0; k < w.axes; k++) {
        reached[k] = window_plus(&w, counts[k], c->phased[k] ? CONV_PHASES - 1 : 0);
    }
    *out = (Term){.n = 0};
    conv_letters(out, "n", NULL);
    conv_letters(out, points(c), NULL);
    conv_letters_phases(c, out);
    add_places(c, out);
    conv_letters(out, c->groups > 1 ? "gc" : "c", NULL);
    Value *v = conv_grouped(c, move_axes(n, x, 1, 1, 1 + w.axes), 1 + w.axes);
    v = prepared(c, v, &w);
    out->v = framed(&w, v, reached, false);
    if (window_taps(&w) > 1) {
        Value *seen = strided(c, &w, out->v, counts);
        out->v = seen ? seen : strided(c, &w, framed(&w, v, reached, true), counts);
        return out->v;
    }
    for (int k = 0; k < w.axes; k++) {
        out->v = part(n, out->v, w.first + k, zero(n), dim_int(n->cx, w.step[k]), counts[k]);
    }
    return true;
}

/* ---- convolutions ---- */

/* The letters and sizes of the weight's axes before its places: of groups, where there are several,
 * and of channels.  How many they are. */
int
conv_weight_channels(const Conv *c, const Type *weight, Term *out, Dim *dims)
{
    Dim groups = dim_int(c->n->cx, c->groups);
    int rank = 0;
    *out = (Term){.n = 0};
    conv_letters(out, c->groups > 1 ? "g" : "", NULL);
    conv_letters(out, c->transposed ? "co" : "oc", NULL);
    if (c->groups > 1) {
        dims[rank++] = groups;
    }
    dims[rank++] = dim_div(c->n->cx, weight->dims[0], groups);
    dims[rank++] = weight->dims[1];
    return rank;
}

/* The weight as [g, o, c, ..], transposed as [g, c, o, ..], without places of one. */
static Term
weight_of(const Conv *c, Value *weight)
{
    Aten *n = c->n;
    const Type *t = weight->type;
    Dim dims[MAX_RANK];
    int flipped[MAX_AXES], count = 0;
    Term out;
    int rank = conv_weight_channels(c, t, &out, dims);
    add_places(c, &out);
    for (int k = 0; k < c->w.axes; k++) {
        if (c->w.size[k] > 1) {
            flipped[count++] = rank;
            dims[rank++] = t->dims[k + 2];
        }
    }
    out.v = build_reshape(n->b, weight, rank, dims);
    out.v = c->transposed ? build_flip(n->b, out.v, count, flipped) : out.v;
    return out;
}

Value *
conv_contracted(const Conv *c, const Term *x, const Term *y, const Term *out, Dtype to)
{
    Contraction over = contraction_letters(x->n, x->letters, y->n, y->letters, out->n,
                                           out->letters);
    over.where = c->where;
    return build_contract(c->n->b, x->v, y->v, &over, to);
}

bool
conv_is_depthwise(const Conv *c, const Type *weight)
{
    Dim each = c->transposed ? dim_div(c->n->cx, weight->dims[0], dim_int(c->n->cx, c->groups))
                             : weight->dims[1];
    return c->groups > 1 && dim_is(c->n->cx, each, 1) && window_taps(&c->w) <= MAX_TAPS;
}

/* The weight as [.., g, o] with the axes of its places first.  Where channels are innermost, it is
 * made so in memory: the sum over the one channel of a group is computed before slices of it are
 * read. */
static Value *
places_of(const Conv *c, Value *weight, Dim each)
{
    Aten *n = c->n;
    int axes = c->w.axes;
    Dim dims[MAX_RANK] = {dim_int(n->cx, c->groups), each, one(n)};
    memcpy(dims + 3, weight->type->dims + 2, (size_t)axes * sizeof *dims);
    Value *v = move_axes(n, build_reshape(n->b, weight, axes + 3, dims), 0, 3, axes);
    if (c->last) {
        return build_red(n->b, OP_sum, v, 1, (const int[]){axes + 2});
    }
    return build_reshape(n->b, v, axes + 2, v->type->dims);
}

/* Place `at` of those for each channel and each of the results that it has, [g, o]. */
static Value *
weight_at(const Conv *c, Value *places, int64_t at)
{
    Aten *n = c->n;
    int axes = c->w.axes;
    for (int k = axes - 1; k >= 0; k--) {
        int64_t size = c->w.size[k], place = c->transposed ? size - 1 - at % size : at % size;
        places = part(n, places, k, dim_int(n->cx, place), one(n), one(n));
        at /= size;
    }
    return build_reshape(n->b, places, 2, places->type->dims + axes);
}

/* The elements of v at place `at` of all windows. */
static Value *
image_at(const Window *w, Value *v, int64_t at, const Dim *counts)
{
    Cx *cx = w->n->cx;
    for (int k = w->axes - 1; k >= 0; k--) {
        Dim start = dim_int(cx, at % w->size[k] * w->gap[k]);
        v = part(w->n, v, w->first + k, start, dim_int(cx, w->step[k]), counts[k]);
        at /= w->size[k];
    }
    return v;
}

/* The sum over the places of a window, with the channels where they are in memory. */
static Value *
depthwise(const Conv *c, Value *x, Value *weight, const Type *made)
{
    Aten *n = c->n;
    Window w = c->w;
    Dim each = dim_div(n->cx, made->dims[1], dim_int(n->cx, c->groups)), dims[MAX_RANK];
    int image[MAX_RANK], rank = made->rank + 1, group = c->last ? w.axes + 1 : 1;
    w.first = c->last ? 1 : 2;
    Value *v = c->last ? move_axes(n, x, 1, 1, group) : x, *sum = NULL;
    v = framed(&w, prepared(c, v, &w), made->dims + 2, false);
    dims[0] = made->dims[0];
    dims[group] = v->type->dims[group];
    dims[group + 1] = each;
    memcpy(dims + (c->last ? 1 : 3), made->dims + 2, (size_t)w.axes * sizeof *dims);
    for (int ax = 0; ax < rank - 1; ax++) {
        image[ax] = ax > group ? ax + 1 : ax;
    }
    Value *places = places_of(c, weight, each);
    for (int64_t at = 0; at < window_taps(&w); at++) {
        Value *a = build_cast(n->b, image_at(&w, v, at, made->dims + 2), wide(x->type->dtype));
        Value *b = build_cast(n->b, weight_at(c, places, at), wide(x->type->dtype));
        Value *term = map2(n, OP_mul, build_expand(n->b, a, rank, dims, image),
                           build_expand(n->b, b, rank, dims, (const int[]){group, group + 1}));
        sum = sum ? map2(n, OP_add, sum, term) : term;
    }
    sum = joined(c, sum, group);
    return c->last ? move_axes(n, sum, group, 1, 1) : sum;
}

/* The first place of the windows along axis k of an image of n elements that is in the image for
 * any of `count` windows, and how many places there are from it to the last one. */
static int64_t
places_used(const Window *w, int k, int64_t n, int64_t count, int64_t *used)
{
    int64_t first = -1, last = -1;
    for (int64_t p = 0; p < w->size[k]; p++) {
        int64_t begin = p * w->gap[k] - w->lo[k], i = begin < 0 ? -begin : 0; /* of window 0 */
        i = (i + w->step[k] - 1) / w->step[k]; /* the first window whose place is not before 0 */
        if (i < count && begin + i * w->step[k] < n) {
            first = first < 0 ? p : first;
            last = p;
        }
    }
    *used = last - first + 1;
    return first;
}

/* The weight without the places at its ends that meet nothing but padding: of an image of one
 * point, a kernel of 3 x 3 has eight.  Zeros would be multiplied there. */
static Value *
without_padding(Conv *c, const Type *x, Value *weight, const Type *made)
{
    Aten *n = c->n;
    Window *w = &c->w;
    int64_t size, count, used;
    for (int k = 0; k < w->axes && !c->transposed; k++) {
        if (!dim_is_int(n->cx, x->dims[k + 2], &size) ||
            !dim_is_int(n->cx, made->dims[k + 2], &count)) {
            continue;
        }
        int64_t first = places_used(w, k, size, count, &used);
        if (first >= 0 && used < w->size[k]) {
            weight = part(n, weight, k + 2, dim_int(n->cx, first), one(n), dim_int(n->cx, used));
            w->lo[k] -= first * w->gap[k];
            w->size[k] = used;
        }
    }
    return weight;
}

/* Have the rows of a tile enough points of the axes behind axis k, which do not go on from one
 * point of it to the next if they have windows? */
static bool
has_rows_behind(const Conv *c, int k, const Type *made)
{
    int64_t rows = 1, n;
    bool windows = false;
    for (int j = k + 1; j < c->w.axes; j++) {
        n = dim_typical(c->n->cx, made->dims[j + 2]);
        windows |= c->w.size[j] > 1 && n > 1;
        rows *= n < MICRO_MOST_ROWS ? n : MICRO_MOST_ROWS;
    }
    return windows || rows >= MICRO_MOST_ROWS;
}

/* Is the number of windows that of an image with equal padding before and after it?  They end at
 * most step - 1 elements before the padding does. */
static bool
is_padded_evenly(const Conv *c, int k, Dim size, Dim count)
{
    const Window *w = &c->w;
    Dim moved = window_plus(w, size, 2 * w->lo[k] - w->size[k]);
    return count == window_plus(w, dim_div(c->n->cx, moved, dim_int(c->n->cx, w->step[k])), 1);
}

/* The places of windows along axis k that are in the image; false: all are, or it is not known.
 * *part: the share of places that are not, for a typical size.  If a size is a symbol, the number
 * of windows gives it.  If the step is more than 1, the last window may have padding that is not
 * left out. */
static bool
is_padded_along(const Conv *c, int k, const Type *x, const Type *made, Within *in, double *part)
{
    Cx *cx = c->n->cx;
    const Window *w = &c->w;
    Dim size = x->dims[k + 2], count = made->dims[k + 2], places = dim_int(cx, w->size[k]);
    *in = (Within){
        .at = conv_points[k], .place = conv_places[k], .step = w->step[k], .before = w->lo[k]};
    bool known = dim_is_int(cx, size, &in->size) && dim_is_int(cx, count, NULL);
    if (!known) {
        in->times = w->step[k];
        in->size = w->size[k] - 1 - 2 * w->lo[k];
    }
    if (w->size[k] == 1 || w->gap[k] != 1 || w->lo[k] < 0 ||
        !(known || is_padded_evenly(c, k, size, count))) {
        return false;
    }
    Dim typical = dim_int(cx, dim_typical(cx, count));
    int64_t all = dim_typical(cx, count) * w->size[k], used = within_count(cx, in, typical, places);
    *part = all ? (double)(all - used) / (double)all : 0;
    return used < all;
}

/* Does each window contain an element of the image along axis k? */
static bool
meets_image(const Conv *c, int k, const Type *made, const Within *in)
{
    Cx *cx = c->n->cx;
    return within_each(cx, in, made->dims[k + 2], dim_int(cx, c->w.size[k]));
}

/* Leaves out the products with padding along the first axis of windows: at a depth of 2, with a
 * kernel of 3, they are a third.  Rows along this axis have their own tiles.  Also leaves them out
 * along the other axes if the sums over channels are whole chains, and if this saves more than the
 * calls of a microkernel for each place cost. */
static Where
without_products_of_padding(const Conv *c, const Type *x, const Type *made)
{
    enum { FEWEST = 64 }; /* at least one of this many products is with padding */
    const Window *w = &c->w;
    Where where = {.nlater = 0};
    double part;
    int64_t channels, k = 0;
    while (k < w->axes && w->size[k] == 1) {
        k++;
    }
    if (k == w->axes || !c->last || c->transposed) {
        return where;
    }
    bool padded = is_padded_along(c, (int)k, x, made, &where.first, &part);
    if (!padded || !has_rows_behind(c, (int)k, made)) {
        where.first = (Within){.place = 0};
    }
    if (!dim_is_int(c->n->cx, x->dims[1], &channels) ||
        channels / c->groups % CONTRACTION_CHAIN != 0 ||
        (where.first.place && !meets_image(c, (int)k, made, &where.first))) {
        return where;
    }
    for (k++; k < w->axes; k++) {
        Within *in = &where.later[where.nlater];
        bool left_out = is_padded_along(c, (int)k, x, made, in, &part) && part * FEWEST >= 1;
        where.nlater += left_out && meets_image(c, (int)k, made, in);
    }
    return where;
}

Value *
conv_image(const Conv *all, Value *x, Value *weight, const Type *made, Dtype to)
{
    Aten *n = all->n;
    Conv places = *all, *c = &places;
    Term image, out = {.n = 0}, by;
    weight = without_padding(&places, x->type, weight, made);
    bool one = made->dims[1] == x->type->dims[1];
    if (conv_is_depthwise(c, weight->type) && !(c->last && one)) {
        return depthwise(c, x, weight, made);
    }
    if (conv_is_of_point(c, x->type, made)) {
        return conv_of_point(c, x, weight, made, to);
    }
    if (conv_is_interleaved(c)) {
        return conv_interleaved(c, x, weight, made, to);
    }
    if (!conv_windows(c, x, made->dims + 2, &image)) {
        return NULL;
    }
    if (!conv_is_depthwise(c, weight->type)) {
        places.where = without_products_of_padding(c, x->type, made);
    }
    by = weight_of(c, weight);
    const char *channel = c->groups > 1 ? "go" : "o";
    conv_letters(&out, "n", NULL);
    conv_letters(&out, c->last ? points(c) : channel, NULL);
    conv_letters(&out, c->last ? channel : points(c), NULL);
    Value *v = conv_contracted(c, &image, &by, &out, to);
    v = joined(c, v, c->last ? 1 + c->w.axes : 1);
    return c->last ? move_axes(n, v, 1 + c->w.axes, 1, 1) : v;
}

/* ---- gradients ---- */

/* For a depthwise convolution with channels innermost in memory: for each place, the sums over all
 * windows of its element times the other operand.  Vectors run along the channels. */
static Value *
depthwise_weight(const Conv *c, Value *image, Value *other, const Type *made)
{
    Aten *n = c->n;
    int axes = c->w.axes, over[MAX_RANK], from[MAX_RANK], rank = 0;
    Term windows;
    if (!conv_windows(c, image, other->type->dims + 2, &windows)) {
        return NULL;
    }
    const Type *t = windows.v->type;
    Value *by = conv_grouped(c, move_axes(n, other, 1, 1, 1 + axes), 1 + axes);
    for (int ax = 0; ax < by->type->rank; ax++) {
        from[ax] = ax <= axes ? ax : t->rank - by->type->rank + ax;
    }
    Value *v = map2(
        n, OP_mul, build_cast(n->b, windows.v, wide(made->dtype)),
        build_expand(n->b, build_cast(n->b, by, wide(made->dtype)), t->rank, t->dims, from));
    for (int ax = 0; ax <= axes; ax++) {
        over[rank++] = ax;
    }
    v = build_red(n->b, OP_sum, v, rank, over);
    v = move_axes(n, v, 0, v->type->rank - 2, 2); /* places, groups, channels */
    return build_cast(n->b, build_reshape(n->b, v, made->rank, made->dims), made->dtype);
}

/* The channels of the image are the rows of the product, next to each other in memory, the places
 * are loops around it, and the sums go through the windows in place. */
Value *
conv_weight(const Conv *c, Value *image, Value *other, const Type *made)
{
    Aten *n = c->n;
    Conv plain = *c;
    Term a, b = {.n = 0}, out = {.n = 0};
    plain.transposed = false;
    if (conv_is_depthwise(&plain, made) && c->last &&
        other->type->dims[1] == image->type->dims[1]) {
        return depthwise_weight(&plain, image, other, made);
    }
    if (!conv_windows(&plain, image, other->type->dims + 2, &a)) {
        return NULL;
    }
    b.v = conv_grouped(c, other, 1);
    conv_letters(&b, c->groups > 1 ? "ngo" : "no", NULL);
    conv_letters(&b, points(c), NULL);
    add_places(c, &out);
    const int places = out.n;
    conv_letters(&out, c->groups > 1 ? "gco" : "co", NULL);
    int perm[MAX_RANK] = {places, out.n - 1, out.n - 2}, rank = c->groups > 1 ? 3 : 2;
    memmove(perm, perm + 3 - rank, (size_t)rank * sizeof *perm);
    for (int k = 0; k < places; k++) {
        perm[rank++] = k;
    }
    Value *v = build_permute(n->b, conv_contracted(c, &a, &b, &out, made->dtype), perm);
    return build_reshape(n->b, v, made->rank, made->dims);
}
