/* Sizes as tensors, and operators that move elements or make them of nothing. */
#include "onnx.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static Dim
num(Onnx *o, int64_t i)
{
    return dim_int(o->cx, i);
}

void
onnx_shape(Onnx *o)
{
    const Type *t = onnx_in(o, 0)->type;
    int64_t from = onnx_int(o, "start", 0), to = onnx_int(o, "end", t->rank);
    from = from < 0 ? from + t->rank : from;
    to = to < 0 ? to + t->rank : to;
    from = from < 0 ? 0 : from > t->rank ? t->rank : from;
    to = to > t->rank ? t->rank : to;
    o->out[0] = onnx_of_dims(o, to > from ? (int)(to - from) : 0, t->dims + from);
}

void
onnx_size(Onnx *o)
{
    Dim d = type_numel(o->cx, onnx_in(o, 0)->type);
    o->out[0] = build_reshape(o->b, onnx_of_dims(o, 1, &d), 0, NULL);
}

static void
check_rank(Onnx *o, int n)
{
    if (n > MAX_RANK) {
        onnx_refuse(o, "its result has %d axes, and dlc takes at most %d", n, MAX_RANK);
    }
}

/* Reshapes to sizes of which one may be -1; the rest is checked by the language. */
static Value *
reshaped(Onnx *o, Value *x, int n, Dim *dims)
{
    Dim known = num(o, 1), all = type_numel(o->cx, x->type);
    int open = -1;
    for (int k = 0; k < n; k++) {
        if (dim_is(o->cx, dims[k], -1)) {
            open = open < 0 ? k : n;
        } else if (dim_lt(o->cx, dims[k], num(o, 0))) {
            onnx_refuse(o, "a size of its shape is less than -1");
        } else {
            known = dim_mul(o->cx, known, dims[k]);
        }
    }
    if (open == n) {
        onnx_refuse(o, "two sizes of its shape are -1");
    }
    if (open >= 0) {
        if (dim_is(o->cx, known, 0)) {
            onnx_refuse(o, "a size of -1 has no meaning beside one of 0");
        }
        dims[open] = dim_div(o->cx, all, known);
        if (!dim_is_int(o->cx, known, NULL)) {
            /* a factor of all sizes: divided exactly, axis by axis */
            Dim left = num(o, 1);
            bool used[MAX_RANK] = {false};
            for (int ax = 0; ax < x->type->rank; ax++) {
                bool found = false;
                for (int k = 0; k < n && !found; k++) {
                    if (k != open && !used[k] && dims[k] == x->type->dims[ax]) {
                        used[k] = found = true;
                    }
                }
                left = found ? left : dim_mul(o->cx, left, x->type->dims[ax]);
            }
            Dim rest = num(o, 1);
            for (int k = 0; k < n; k++) {
                rest = k == open || used[k] ? rest : dim_mul(o->cx, rest, dims[k]);
            }
            dims[open] = dim_div(o->cx, left, rest);
        }
        known = dim_mul(o->cx, known, dims[open]);
    }
    if (known != all) {
        Text text = {.cx = o->cx};
        dim_text(o->cx, all, &text);
        text_add(&text, " elements become ");
        dim_text(o->cx, known, &text);
        onnx_refuse(o, "%s: they are not known to be as many", text.text);
    }
    return build_reshape(o->b, x, n, dims);
}

void
onnx_reshape(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    Dim dims[MAX_RANK];
    int n;
    bool zeros = onnx_int(o, "allowzero", 0) != 0;
    const Dim *given = onnx_dims(o, 1, &n);
    check_rank(o, n);
    for (int k = 0; k < n; k++) {
        bool copied = dim_is(o->cx, given[k], 0) && !zeros;
        if (copied && k >= x->type->rank) {
            onnx_refuse(o, "a size of 0 in its shape stands for axis %d, which its operand lacks",
                        k);
        }
        dims[k] = copied ? x->type->dims[k] : given[k];
    }
    o->out[0] = reshaped(o, x, n, dims);
}

void
onnx_flatten(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    int rank = x->type->rank;
    int64_t axis = onnx_int(o, "axis", 1);
    axis = axis < 0 ? axis + rank : axis;
    if (axis < 0 || axis > rank) {
        onnx_refuse(o, "its axis %lld is none of %d", (long long)axis, rank);
    }
    o->out[0] = onnx_flat(o, x, (int)axis);
}

void
onnx_squeeze(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    const Type *t = x->type;
    int axes[MAX_RANK], n = onnx_axes(o, 1, "axes", t->rank, axes), kept = 0;
    bool gone[MAX_RANK] = {false}, says = onnx_given(o, 1) || onnx_attr(o, "axes");
    Dim dims[MAX_RANK];
    for (int k = 0; k < n; k++) {
        gone[axes[k]] = true;
    }
    for (int ax = 0; ax < t->rank; ax++) {
        bool one = dim_is(o->cx, t->dims[ax], 1);
        if (gone[ax] && !one) {
            onnx_refuse(o, "axis %d is not known to have one element", ax);
        }
        if (!(says ? gone[ax] : one)) {
            dims[kept++] = t->dims[ax];
        }
    }
    o->out[0] = build_reshape(o->b, x, kept, dims);
}

void
onnx_unsqueeze(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    const OnnxAttr *a = onnx_attr(o, "axes");
    const int64_t *given = a && a->kind == ONNX_INTS ? a->ints : NULL;
    int n = given ? a->n : 0, at = 0;
    bool made[MAX_RANK] = {false};
    Dim dims[MAX_RANK];
    if (onnx_given(o, 1)) {
        given = onnx_numbers(o, 1, &n);
    }
    int rank = x->type->rank + n;
    check_rank(o, rank);
    for (int k = 0; k < n; k++) {
        int axis = onnx_axis(o, given[k], rank);
        if (made[axis]) {
            onnx_refuse(o, "its axis %d is named twice", axis);
        }
        made[axis] = true;
    }
    for (int ax = 0; ax < rank; ax++) {
        dims[ax] = made[ax] ? num(o, 1) : x->type->dims[at++];
    }
    o->out[0] = build_reshape(o->b, x, rank, dims);
}

void
onnx_transpose(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    int rank = x->type->rank, perm[MAX_RANK];
    bool used[MAX_RANK] = {false};
    const OnnxAttr *a = onnx_attr(o, "perm");
    if (a && a->n != rank) {
        onnx_refuse(o, "its perm has %d axes, and its operand %d", a->n, rank);
    }
    for (int ax = 0; ax < rank; ax++) {
        perm[ax] = a ? onnx_axis(o, a->ints[ax], rank) : rank - 1 - ax;
        if (used[perm[ax]]) {
            onnx_refuse(o, "its perm has axis %d twice", perm[ax]);
        }
        used[perm[ax]] = true;
    }
    o->out[0] = build_permute(o->b, x, perm);
}

/* Of the shape, and of the operand where that has more. */
static Value *
expanded(Onnx *o, Value *x, int n, const Dim *dims)
{
    Dim to[MAX_RANK];
    const Type *t = x->type;
    check_rank(o, n);
    int rank = n > t->rank ? n : t->rank;
    for (int ax = 0; ax < rank; ax++) {
        Dim own = ax < rank - t->rank ? num(o, 1) : t->dims[ax - (rank - t->rank)];
        Dim wanted = ax < rank - n ? num(o, 1) : dims[ax - (rank - n)];
        to[ax] = dim_is(o->cx, own, 1) ? wanted : own;
        if (to[ax] != wanted && !dim_is(o->cx, wanted, 1)) {
            Text text = {.cx = o->cx};
            dim_text(o->cx, own, &text);
            text_add(&text, " elements cannot be expanded to ");
            dim_text(o->cx, wanted, &text);
            onnx_refuse(o, "axis %d of %s: dlc.load(.., sizes={..}) says more of sizes", ax,
                        text.text);
        }
    }
    return build_broadcast(o->b, x, rank, to);
}

Value *
onnx_moved(Onnx *o, Value *v, int from, int to)
{
    int perm[MAX_RANK], at = 0;
    for (int k = 0; k < v->type->rank; k++) {
        at += at == from;
        perm[k] = k == to ? from : at++;
    }
    return build_permute(o->b, v, perm);
}

void
onnx_expand(Onnx *o)
{
    int n;
    const Dim *dims = onnx_dims(o, 1, &n);
    o->out[0] = expanded(o, onnx_in(o, 0), n, dims);
}

/* ---- parts ---- */

typedef struct {
    int n;
    const Dim *starts, *ends;
    const int64_t *axes, *steps;
} Slices;

static const Dim *
attr_dims_of(Onnx *o, const char *name, int *n)
{
    const OnnxAttr *a = onnx_attr(o, name);
    if (!a || a->kind != ONNX_INTS) {
        onnx_refuse(o, "it lacks the attribute %s", name);
    }
    Dim *dims = cx_alloc(o->cx, (size_t)(a->n + 1) * sizeof *dims);
    for (int k = 0; k < a->n; k++) {
        dims[k] = num(o, a->ints[k]);
    }
    *n = a->n;
    return dims;
}

static Slices
read_slices(Onnx *o)
{
    Slices s = {0};
    int starts, ends, axes = -1, steps = -1;
    if (o->node->version < 10) {
        const OnnxAttr *a = onnx_attr(o, "axes");
        s.starts = attr_dims_of(o, "starts", &starts);
        s.ends = attr_dims_of(o, "ends", &ends);
        s.axes = a ? a->ints : NULL;
        axes = a ? a->n : -1;
    } else {
        s.starts = onnx_dims(o, 1, &starts);
        s.ends = onnx_dims(o, 2, &ends);
        s.axes = onnx_given(o, 3) ? onnx_numbers(o, 3, &axes) : NULL;
        s.steps = onnx_given(o, 4) ? onnx_numbers(o, 4, &steps) : NULL;
    }
    s.n = starts;
    if (starts != ends || (axes >= 0 && axes != starts) || (steps >= 0 && steps != starts)) {
        onnx_refuse(o, "its starts, ends, axes and steps are not as many");
    }
    return s;
}

/* An end of a slice within low .. size, negative ones from the end. */
static Dim
bounded(Onnx *o, Dim at, Dim size, int64_t low, int64_t less)
{
    Cx *cx = o->cx;
    Range r = dim_range(cx, at);
    if (r.hi < 0) {
        at = r.lo < -(INT64_MAX >> 2) ? num(o, low) : dim_add(cx, at, size);
    } else if (r.lo < 0) {
        onnx_refuse(o, "a start or an end is not known to be positive or negative");
    }
    if (r.lo > INT32_MAX - 1 && dim_is_int(cx, at, NULL)) {
        return dim_sub(cx, size, num(o, less));
    }
    at = dim_max(cx, at, num(o, low));
    return dim_min(cx, at, dim_sub(cx, size, num(o, less)));
}

void
onnx_slice(Onnx *o)
{
    Cx *cx = o->cx;
    Value *x = onnx_in(o, 0);
    Slices s = read_slices(o);
    for (int k = 0; k < s.n; k++) {
        int axis = onnx_axis(o, s.axes ? s.axes[k] : k, x->type->rank);
        int64_t step = s.steps ? s.steps[k] : 1;
        Dim size = x->type->dims[axis], zero = num(o, 0);
        if (step == 0) {
            onnx_refuse(o, "a step is 0");
        }
        step = step > INT32_MAX    ? INT32_MAX
               : step < -INT32_MAX ? -INT32_MAX
                                   : step; /* one element */
        if (step > 0) {
            Dim from = bounded(o, s.starts[k], size, 0, 0), to = bounded(o, s.ends[k], size, 0, 0);
            Dim span = dim_add(cx, dim_sub(cx, to, from), num(o, step - 1));
            Dim length = dim_max(cx, dim_div(cx, span, num(o, step)), zero);
            x = build_slice(o->b, x, axis, from, num(o, step), length);
            continue;
        }
        /* backwards: the same elements forwards, and then the other way round */
        Dim from = bounded(o, s.starts[k], size, -1, 1), to = bounded(o, s.ends[k], size, -1, 1);
        Dim span = dim_add(cx, dim_sub(cx, from, to), num(o, -step - 1));
        Dim length = dim_max(cx, dim_div(cx, span, num(o, -step)), zero);
        Dim last = dim_add(cx, from, dim_mul(cx, dim_sub(cx, length, num(o, 1)), num(o, step)));
        last = dim_is(cx, length, 0) ? zero : last;
        x = build_slice(o->b, x, axis, last, num(o, -step), length);
        x = build_flip(o->b, x, 1, &axis);
    }
    o->out[0] = x;
}

void
onnx_concat(Onnx *o)
{
    int n = o->node->ninputs;
    Value **parts = cx_alloc(o->cx, (size_t)(n + 1) * sizeof *parts);
    for (int k = 0; k < n; k++) {
        parts[k] = onnx_in(o, k);
    }
    int axis = onnx_axis(o, onnx_int(o, "axis", 1), onnx_in(o, 0)->type->rank);
    o->out[0] = build_cat(o->b, n, parts, axis);
}

void
onnx_split(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    int axis = onnx_axis(o, onnx_int(o, "axis", 0), x->type->rank), n = o->node->noutputs,
        given = -1;
    Dim size = x->type->dims[axis], at = num(o, 0);
    const Dim *sizes = onnx_given(o, 1)        ? onnx_dims(o, 1, &given)
                       : onnx_attr(o, "split") ? attr_dims_of(o, "split", &given)
                                               : NULL;
    if (sizes && given != n) {
        onnx_refuse(o, "it has %d outputs and %d sizes", n, given);
    }
    Dim each = dim_div(o->cx, dim_add(o->cx, size, num(o, n - 1)), num(o, n));
    for (int k = 0; k < n; k++) {
        Dim length = sizes       ? sizes[k]
                     : k < n - 1 ? each
                                 : dim_sub(o->cx, size, dim_mul(o->cx, each, num(o, n - 1)));
        if (dim_lt(o->cx, length, num(o, 0))) {
            onnx_refuse(o, "its output %d has a negative size", k + 1);
        }
        o->out[k] = build_slice(o->b, x, axis, at, num(o, 1), length);
        at = dim_add(o->cx, at, length);
    }
    if (at != size) {
        onnx_refuse(o, "its parts are not known to be all of the axis");
    }
}

/* x as [1, d0, 1, d1, ..], expanded to [r0, d0, r1, d1, ..] */
void
onnx_tile(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    const Type *t = x->type;
    int n;
    const Dim *times = onnx_dims(o, 1, &n);
    if (n != t->rank) {
        onnx_refuse(o, "it has %d repeats for %d axes", n, t->rank);
    }
    for (int ax = 0; ax < n; ax++) {
        Dim dims[MAX_RANK + 1], all[MAX_RANK];
        int to[MAX_RANK];
        check_rank(o, n + 1);
        if (dim_is(o->cx, times[ax], 1)) {
            continue;
        }
        if (dim_lt(o->cx, times[ax], num(o, 0))) {
            onnx_refuse(o, "it repeats axis %d a negative number of times", ax);
        }
        for (int k = 0; k < n; k++) {
            all[k] = x->type->dims[k];
            to[k] = k + (k >= ax);
            dims[to[k]] = all[k];
        }
        dims[ax] = times[ax];
        all[ax] = dim_mul(o->cx, times[ax], all[ax]);
        x = build_reshape(o->b, build_expand(o->b, x, n + 1, dims, to), n, all);
    }
    o->out[0] = x;
}

/* ---- pads ---- */

/* Elements from beyond the edge: the index along the axis of each element of the result. */
static Value *
edge_index(Onnx *o, const char *mode, Dim before, Dim size, Dim made)
{
    const Type *t = type_of(o->cx, DT_i64, 1, &made);
    Value *at = build_iota(o->b, t, 0), *zero = build_const(o->b, t, (Literal){.is_int = true});
    Value *n = build_broadcast(o->b, build_size(o->b, size), 1, &made);
    Value *lo = build_broadcast(o->b, build_size(o->b, before), 1, &made);
    Value *last = build_map(o->b, OP_sub, n, build_int(o->b, 1), NULL);
    at = build_map(o->b, OP_sub, at, lo, NULL);
    if (strcmp(mode, "edge") == 0) {
        at = build_map(o->b, OP_maximum, at, zero, NULL);
        return build_map(o->b, OP_minimum, at, last, NULL);
    }
    if (strcmp(mode, "wrap") == 0) {
        return build_map(o->b, OP_remainder, at, n, NULL);
    }
    at = build_map(o->b, OP_abs, at, NULL, NULL);
    Value *back = build_map(o->b, OP_sub, build_map(o->b, OP_mul, last, build_int(o->b, 2), NULL),
                            at, NULL);
    return build_map(o->b, OP_where, build_map(o->b, OP_gt, at, last, NULL), back, at);
}

/* x with `before` and `after` more elements along an axis; negative: less. */
static Value *
padded(Onnx *o, Value *x, int axis, int64_t before, int64_t after, const char *mode, Value *fill)
{
    Cx *cx = o->cx;
    if (before < 0 || after < 0) {
        int64_t from = before < 0 ? -before : 0, less = from + (after < 0 ? -after : 0);
        Dim left = dim_max(cx, dim_sub(cx, x->type->dims[axis], num(o, less)), num(o, 0));
        x = build_slice(o->b, x, axis, num(o, from), num(o, 1), left);
        before = before < 0 ? 0 : before;
        after = after < 0 ? 0 : after;
    }
    if (before == 0 && after == 0) {
        return x;
    }
    Dim dims[MAX_RANK], lo[MAX_RANK], size = x->type->dims[axis];
    memcpy(dims, x->type->dims, (size_t)x->type->rank * sizeof *dims);
    for (int ax = 0; ax < x->type->rank; ax++) {
        lo[ax] = num(o, ax == axis ? before : 0);
    }
    dims[axis] = dim_add(cx, size, num(o, before + after));
    if (strcmp(mode, "constant") == 0) {
        return build_pad(o->b, x, fill, type_of(cx, x->type->dtype, x->type->rank, dims), lo);
    }
    Value *at = edge_index(o, mode, num(o, before), size, dims[axis]);
    return build_gather(o->b, x, at, axis, INDEX_FROM_START);
}

void
onnx_pad(Onnx *o)
{
    Value *x = onnx_in(o, 0), *given = onnx_given(o, 2);
    int rank = x->type->rank, n, naxes = rank;
    const char *mode = onnx_text(o, "mode", "constant");
    const OnnxAttr *a = onnx_attr(o, "pads");
    const int64_t *pads = a ? a->ints : onnx_numbers(o, 1, &n), *axes = NULL;
    Literal l = {.f = onnx_float(o, "value", 0)};
    n = a ? a->n : n;
    if (onnx_given(o, 3)) {
        axes = onnx_numbers(o, 3, &naxes);
    }
    if (n != 2 * naxes) {
        onnx_refuse(o, "it has %d pads for %d axes", n, naxes);
    }
    if (strcmp(mode, "constant") != 0 && strcmp(mode, "edge") != 0 && strcmp(mode, "wrap") != 0 &&
        strcmp(mode, "reflect") != 0) {
        onnx_refuse(o, "its mode '%s' is none that is known", mode);
    }
    Value *runtime = given && !onnx_literal(o, given, &l) ? given : NULL;
    bool whole = dtype_info[x->type->dtype].class <= CLASS_INT;
    Value *fill = whole ? build_int(o->b, l.is_int ? l.i : (int64_t)l.f) : build_float(o->b, l.f);
    Value *is = runtime && strcmp(mode, "constant") == 0
                    ? build_const(o->b, type_with(o->cx, x->type, DT_u8),
                                  (Literal){.is_int = true, .i = 1})
                    : NULL; /* where x is, for a number that is known in a call alone */
    for (int k = 0; k < naxes; k++) {
        int axis = onnx_axis(o, axes ? axes[k] : k, rank);
        for (int j = k; j < n; j += naxes) {
            if (pads[j] < -INT32_MAX || pads[j] > INT32_MAX) {
                onnx_refuse(o, "a pad is too large");
            }
        }
        x = padded(o, x, axis, pads[k], pads[k + naxes], mode, fill);
        is = is ? padded(o, is, axis, pads[k], pads[k + naxes], mode, build_int(o->b, 0)) : NULL;
    }
    if (is) {
        Value *v = build_broadcast(o->b, build_reshape(o->b, runtime, 0, NULL), rank,
                                   x->type->dims);
        is = build_map(o->b, OP_ne, is, build_int(o->b, 0), NULL);
        x = build_map(o->b, OP_where, is, x, v);
    }
    o->out[0] = x;
}

/* ---- blocks ---- */

static int64_t
block_of(Onnx *o)
{
    int64_t block = onnx_int(o, "blocksize", 0);
    if (block < 1 || block > INT16_MAX || onnx_in(o, 0)->type->rank != 4) {
        onnx_refuse(o, "it takes an image of 4 axes and blocks of a size of at least 1");
    }
    return block;
}

void
onnx_depth_to_space(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    Dim block = num(o, block_of(o)), area = dim_mul(o->cx, block, block);
    const Dim *d = x->type->dims;
    bool rows = onnx_is_text(o, "mode", "CRD", "DCR");
    Dim each = dim_div(o->cx, d[1], area);
    Dim crd[] = {d[0], each, block, block, d[2], d[3]},
        dcr[] = {d[0], block, block, each, d[2], d[3]};
    Value *v = build_reshape(o->b, x, 6, rows ? crd : dcr);
    v = build_permute(o->b, v,
                      rows ? (const int[]){0, 1, 4, 2, 5, 3} : (const int[]){0, 3, 4, 1, 5, 2});
    Dim made[] = {d[0], each, dim_mul(o->cx, d[2], block), dim_mul(o->cx, d[3], block)};
    o->out[0] = build_reshape(o->b, v, 4, made);
}

void
onnx_space_to_depth(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    Dim block = num(o, block_of(o));
    const Dim *d = x->type->dims;
    Dim high = dim_div(o->cx, d[2], block), wide = dim_div(o->cx, d[3], block);
    Dim parts[] = {d[0], d[1], high, block, wide, block};
    bool crd = onnx_is_text(o, "mode", "CRD", "DCR");
    Value *v = build_permute(o->b, build_reshape(o->b, x, 6, parts),
                             crd ? (const int[]){0, 1, 3, 5, 2, 4}
                                 : (const int[]){0, 3, 5, 1, 2, 4});
    Dim made[] = {d[0], dim_mul(o->cx, dim_mul(o->cx, block, block), d[1]), high, wide};
    o->out[0] = build_reshape(o->b, v, 4, made);
}

/* ---- made of nothing ---- */

void
onnx_constant_of_shape(Onnx *o)
{
    int n;
    const Dim *dims = onnx_dims(o, 0, &n);
    check_rank(o, n);
    const OnnxAttr *a = onnx_attr(o, "value");
    Dtype dtype = onnx_attr(o, "value dtype") ? onnx_dtype(o, onnx_int(o, "value dtype", 1))
                                              : DT_f32;
    Literal l = {.is_int = true};
    if (a && a->n == 1) {
        l = a->kind == ONNX_INTS ? (Literal){.is_int = true, .i = a->ints[0]}
                                 : (Literal){.f = a->floats[0]};
    }
    for (int k = 0; k < n; k++) {
        if (dim_lt(o->cx, dims[k], num(o, 0))) {
            onnx_refuse(o, "a size of its shape is negative");
        }
    }
    o->out[0] = build_const(o->b, type_of(o->cx, dtype, n, dims), l);
}

void
onnx_range(Onnx *o)
{
    Value *v[3] = {onnx_in(o, 0), onnx_in(o, 1), onnx_in(o, 2)};
    Dtype dtype = v[0]->type->dtype;
    Dim length;
    if (dtype_info[dtype].class == CLASS_INT) {
        Dim from = onnx_one_dim(o, 0), to = onnx_one_dim(o, 1);
        int64_t step = onnx_one_number(o, 2);
        if (step == 0 || step == INT64_MIN) {
            onnx_refuse(o, "its delta is 0");
        }
        Dim span = step > 0 ? dim_sub(o->cx, to, from) : dim_sub(o->cx, from, to);
        span = dim_add(o->cx, span, num(o, llabs(step) - 1));
        length = dim_max(o->cx, dim_div(o->cx, span, num(o, llabs(step))), num(o, 0));
    } else {
        double f[3];
        for (int k = 0; k < 3; k++) {
            if (!onnx_constant(o, v[k], &f[k])) {
                onnx_not_known(o, k);
            }
        }
        double n = ceil((f[1] - f[0]) / f[2]);
        if (!(n < 0x1p40)) {
            onnx_refuse(o, "it has too many elements");
        }
        length = num(o, n > 0 ? (int64_t)n : 0);
    }
    const Type *t = type_of(o->cx, dtype, 1, &length);
    Value *at = build_cast(o->b, build_iota(o->b, type_with(o->cx, t, DT_i64), 0), dtype);
    for (int k = 0; k < 3; k++) {
        v[k] = build_broadcast(o->b, build_reshape(o->b, v[k], 0, NULL), 1, &length);
    }
    at = build_map(o->b, OP_mul, at, v[2], NULL);
    o->out[0] = build_map(o->b, OP_add, at, v[0], NULL);
}

/* The column less the row of each place of a matrix, i64. */
static Value *
diagonal_of(Onnx *o, const Type *t)
{
    const Type *whole = type_with(o->cx, t, DT_i64);
    return build_map(o->b, OP_sub, build_iota(o->b, whole, t->rank - 1),
                     build_iota(o->b, whole, t->rank - 2), NULL);
}

void
onnx_eye_like(Onnx *o)
{
    const Type *t = onnx_in(o, 0)->type;
    int64_t number = onnx_int(o, "dtype", 0);
    if (t->rank != 2) {
        onnx_refuse(o, "its operand is no matrix");
    }
    Value *is = build_map(o->b, OP_eq, diagonal_of(o, t), build_int(o->b, onnx_int(o, "k", 0)),
                          NULL);
    o->out[0] = build_cast(o->b, is, number ? onnx_dtype(o, number) : t->dtype);
}

void
onnx_trilu(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    int64_t k = onnx_given(o, 1) ? onnx_one_number(o, 1) : 0;
    bool upper = onnx_int(o, "upper", 1) != 0;
    o->out[0] = onnx_aten(o, upper ? "aten.triu.default" : "aten.tril.default", x->type,
                          ARGS(arg_v(x), arg_i(k)));
}
