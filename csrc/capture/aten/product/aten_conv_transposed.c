/* Transposed convolutions that multiply no zeros: their steps divide the kernel's sizes, or their
 * image is one point.
 *
 * Place j * step + u of the kernel takes element Y - j of the image to element Y * step + u of the
 * result, which begins `lo` elements later.  So the results at the places within a step are
 * channels of a convolution of the image itself, each by every step-th place of the weight: one
 * product of windows for all of them, "nyxpqc,ocpq->nyxo" with [u, v, o] for o.  If `lo` is no
 * multiple of the step, this computes one point more along the axis than the result has.  The
 * places within a step of 2 can have windows of their own instead, each one element after the
 * previous one: "nyxuvpqc,uvocpq->nyuxvo". This has exactly the terms that are used, in the same
 * order. */
#include "aten_conv.h"

#include <string.h>

enum {
    LEAST_PHASED = 32, /* channels of a result whose places have windows of their own: a panel's */
    WASTE = 10 /* the inverse of the part of the multiplications that is saved, at least */
};

bool
conv_is_interleaved(const Conv *c)
{
    bool stepped = false, even = c->transposed;
    int rank = 2 + (c->groups > 1); /* of the weight with places within a step */
    for (int k = 0; k < c->w.axes; k++) {
        stepped |= c->w.step[k] > 1;
        even &= c->w.size[k] % c->w.step[k] == 0 && c->w.gap[k] == 1;
        rank += 1 + (c->w.step[k] > 1);
    }
    return even && stepped && rank <= MAX_RANK;
}

/* Should the places within a step have their own windows, along the axes where these do not all
 * begin at the same element?  Yes if the results are few points of many channels and the weight is
 * packed in advance: packing it for each place reads it that many times. */
static void
choose_phases(Conv *c, const Type *made)
{
    int64_t o, taken = 1, used = 1, n;
    bool windows = false;
    for (int k = 0; k < c->w.axes; k++) {
        windows |= c->w.size[k] > c->w.step[k];
        c->phased[k] = c->w.step[k] == CONV_PHASES && c->w.lo[k] % CONV_PHASES != 0 &&
                       dim_is_int(c->n->cx, made->dims[k + 2], &n) && n > 0 && n < INT16_MAX &&
                       n % CONV_PHASES == 0;
        taken *= c->phased[k] ? n / CONV_PHASES + 1 : 1;
        used *= c->phased[k] ? n / CONV_PHASES : 1;
    }
    bool many = dim_is_int(c->n->cx, made->dims[1], &o) && o / c->groups >= LEAST_PHASED;
    if (!c->n->prepared || !windows || !many || (taken - used) * WASTE < used) {
        memset(c->phased, 0, sizeof c->phased);
    }
}

static bool
is_folded(const Conv *c, int k)
{
    return c->w.step[k] > 1 && !c->phased[k];
}

/* The weight as [g, u.., o, c, p, ..], flipped along the places p of a window, and along the places
 * u within a step that have windows, because these begin in the middle of one.  Its channels `o`
 * are those of the results at all other places within a step: [v, .., o] as one axis. */
static Term
phases_of(const Conv *c, Value *weight, const Window *windows)
{
    Aten *n = c->n;
    Dim dims[MAX_RANK], joint[MAX_RANK];
    int flipped[2 * MAX_AXES], order[MAX_RANK] = {0}, folded[MAX_AXES], places[MAX_AXES];
    int kept = c->groups > 1, nfolded = 0, nplaces = 0, nflipped = 0;
    Term out;
    int rank = conv_weight_channels(c, weight->type, &out, dims), channel = kept;
    Dim channels = dims[channel + 1];
    for (int k = 0; k < c->w.axes; k++) {
        if (windows->size[k] > 1) {
            flipped[nflipped++] = places[nplaces++] = rank;
            dims[rank++] = dim_int(n->cx, windows->size[k]);
        }
        if (c->phased[k]) {
            flipped[nflipped++] = order[kept++] = rank;
        } else if (c->w.step[k] > 1) {
            folded[nfolded++] = rank;
            channels = window_times(&c->w, channels, c->w.step[k]);
        }
        if (c->w.step[k] > 1) {
            dims[rank++] = dim_int(n->cx, c->w.step[k]);
        }
    }
    int outer = kept, to = 0;
    memcpy(order + kept, folded, (size_t)nfolded * sizeof *order);
    kept += nfolded;
    order[kept++] = channel + 1;
    order[kept++] = channel;
    memcpy(order + kept, places, (size_t)nplaces * sizeof *order);
    for (; to < outer; to++) {
        joint[to] = dims[order[to]];
    }
    joint[to++] = channels;
    for (int k = kept - 1; k < rank; k++) {
        joint[to++] = dims[order[k]];
    }
    out.v = build_flip(n->b, build_reshape(n->b, weight, rank, dims), nflipped, flipped);
    out.v = build_reshape(n->b, build_permute(n->b, out.v, order), to, joint);
    out.n = 0;
    conv_letters(&out, c->groups > 1 ? "g" : "", NULL);
    conv_letters_phases(c, &out);
    conv_letters(&out, "oc", NULL);
    conv_letters(&out, cx_format(n->cx, "%.*s", c->w.axes, conv_places), windows);
    return out;
}

/* v: [n, points.., g, [v, .., o]]. Moves the places within a step after the points of their axis,
 * and merges each such pair; those that have windows are there already. */
static Value *
steps_joined(const Conv *c, Value *v, const Dim *counts, const Type *made)
{
    Aten *n = c->n;
    Dim dims[MAX_RANK], joint[MAX_RANK];
    int axes = c->w.axes, rank = 1 + axes, kept = 0, order[MAX_RANK];
    dims[0] = joint[0] = made->dims[0];
    order[kept++] = 0;
    for (int k = 0; k < axes; k++) {
        dims[1 + k] = window_times(&c->w, counts[k], c->phased[k] ? CONV_PHASES : 1);
    }
    if (c->groups > 1) {
        dims[rank++] = dim_int(n->cx, c->groups);
    }
    for (int k = 0; k < axes; k++) {
        order[kept++] = 1 + k;
        if (is_folded(c, k)) {
            order[kept++] = rank;
            dims[rank++] = dim_int(n->cx, c->w.step[k]);
        }
        joint[1 + k] = window_times(&c->w, counts[k], c->w.step[k]);
    }
    if (c->groups > 1) {
        order[kept++] = 1 + axes;
    }
    order[kept++] = rank;
    dims[rank++] = dim_div(n->cx, made->dims[1], dim_int(n->cx, c->groups));
    joint[1 + axes] = made->dims[1];
    v = build_permute(n->b, build_reshape(n->b, v, rank, dims), order);
    return build_reshape(n->b, v, 2 + axes, joint);
}

Value *
conv_interleaved(const Conv *c, Value *x, Value *weight, const Type *made, Dtype to)
{
    Aten *n = c->n;
    Conv plain = *c, steps = *c;
    Term image, out = {.n = 0}, by;
    Dim counts[MAX_AXES];
    int axes = c->w.axes;
    choose_phases(&steps, made);
    memcpy(plain.phased, steps.phased, sizeof plain.phased);
    plain.transposed = false;
    conv_letters(&out, "n", NULL);
    for (int k = 0; k < axes; k++) {
        int64_t skipped = steps.phased[k] ? 0 : c->w.lo[k];
        Dim end = window_plus(&c->w, made->dims[k + 2], skipped + c->w.step[k] - 1);
        counts[k] = dim_div(n->cx, end, dim_int(n->cx, c->w.step[k]));
        plain.w.size[k] = c->w.size[k] / c->w.step[k];
        plain.w.lo[k] = plain.w.size[k] - 1 - (steps.phased[k] ? c->w.lo[k] / CONV_PHASES : 0);
        plain.w.step[k] = 1;
        conv_letters(&out, (char[]){conv_points[k], steps.phased[k] ? conv_within[k] : 0, 0}, NULL);
    }
    if (!conv_windows(&plain, x, counts, &image)) {
        return NULL;
    }
    by = phases_of(&steps, weight, &plain.w);
    conv_letters(&out, c->groups > 1 ? "go" : "o", NULL);
    Value *v = steps_joined(&steps, conv_contracted(c, &image, &by, &out, to), counts, made);
    for (int k = 0; k < axes; k++) {
        Dim first = dim_int(n->cx, steps.phased[k] ? 0 : c->w.lo[k]);
        v = part(n, v, 1 + k, first, one(n), made->dims[k + 2]);
    }
    return move_axes(n, v, 1 + axes, 1, 1);
}

bool
conv_is_of_point(const Conv *c, const Type *x, const Type *made)
{
    bool point = c->transposed;
    for (int k = 0; k < c->w.axes; k++) {
        point &= dim_is(c->n->cx, x->dims[k + 2], 1) && c->w.lo[k] == 0 && c->w.gap[k] == 1 &&
                 dim_is(c->n->cx, made->dims[k + 2], c->w.size[k]);
    }
    return point;
}

/* "nc,co->no" for each group, where `o` are the channels at all places. */
Value *
conv_of_point(const Conv *c, Value *x, Value *weight, const Type *made, Dtype to)
{
    Aten *n = c->n;
    Term image = {.v = conv_grouped(c, build_reshape(n->b, x, 2, x->type->dims), 1)}, by,
         out = {.n = 0};
    Dim dims[MAX_RANK];
    int rank = conv_weight_channels(c, weight->type, &by, dims);
    dims[rank - 1] = window_times(&c->w, dims[rank - 1], window_taps(&c->w));
    by.v = build_reshape(n->b, weight, rank, dims);
    conv_letters(&image, c->groups > 1 ? "ngc" : "nc", NULL);
    conv_letters(&out, c->groups > 1 ? "ngo" : "no", NULL);
    return build_reshape(n->b, conv_contracted(c, &image, &by, &out, to), made->rank, made->dims);
}
