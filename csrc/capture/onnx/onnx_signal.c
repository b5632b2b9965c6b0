/* DFT, STFT, MelWeightMatrix: transforms as products by matrices of sines and cosines. */
#include "onnx.h"

#include <math.h>
#include <string.h>

/* ---- DFT ---- */

/* [rows, columns]: the cosine or sine of 2 pi i j / length, computed in float64. */
static Value *
waves(Onnx *o, Op op, Dim rows, Dim columns, Dim length)
{
    Dim dims[] = {rows, columns};
    const Type *t = type_of(o->cx, DT_i64, 2, dims);
    Value *at = onnx_map(o, OP_mul, build_iota(o->b, t, 0), build_iota(o->b, t, 1));
    at = onnx_map(o, OP_remainder, at, build_broadcast(o->b, build_size(o->b, length), 2, dims));
    at = onnx_times(o, build_cast(o->b, at, DT_f64), 2 * 3.14159265358979323846);
    at = onnx_map(o, OP_div, at, onnx_size_number(o, length, DT_f64));
    return build_map(o->b, op, at, NULL, NULL);
}

/* [A, N, B] at [rows, N]: [A, rows, B].  In float64, since a sum may be near 0. */
static Value *
by(Onnx *o, Value *x, Value *matrix)
{
    return build_product(o->b, x, matrix, "anb,kn->akb", x->type->dtype);
}

/* The axis of x cut, or filled with zeros, to a length. */
static Value *
fitted(Onnx *o, Value *x, Dim length)
{
    Dim size = x->type->dims[1],
        zeros[3] = {dim_int(o->cx, 0), dim_int(o->cx, 0), dim_int(o->cx, 0)};
    if (size == length) {
        return x;
    }
    if (dim_le(o->cx, length, size)) {
        return build_slice(o->b, x, 1, zeros[0], dim_int(o->cx, 1), length);
    }
    if (!dim_le(o->cx, size, length)) {
        onnx_refuse(o, "its length is not known to be at most, or at least, the size of the axis");
    }
    return build_pad(o->b, x, build_int(o->b, 0),
                     onnx_resized(o, x->type, 1, length, x->type->dtype), zeros);
}

typedef struct {
    Dim length;
    bool inverse, onesided;
} Transform;

/* re, im [A, N, B], im NULL of real numbers; the result likewise, of `bins` rows. */
static void
transformed(Onnx *o, const Transform *f, Value **re, Value **im)
{
    Dim half = dim_add(o->cx, dim_div(o->cx, f->length, dim_int(o->cx, 2)), dim_int(o->cx, 1));
    bool to_real = f->inverse && f->onesided;
    Dim in = to_real ? half : f->length, out = f->onesided && !f->inverse ? half : f->length;
    Value *x = fitted(o, *re, in), *y = *im ? fitted(o, *im, in) : NULL;
    Value *c = waves(o, OP_cos, out, in, f->length);
    Value *s = waves(o, OP_sin, out, in, f->length);
    if (to_real) { /* each number but the first, and that in the middle, stands for two */
        Value *at = build_iota(o->b, type_with(o->cx, c->type, DT_i64), 1);
        Value *twice = onnx_map(o, OP_mul, at, build_int(o->b, 2));
        Value *n = build_broadcast(o->b, build_size(o->b, f->length), 2, c->type->dims);
        Value *once = onnx_map(o, OP_bit_or, onnx_map(o, OP_eq, at, build_int(o->b, 0)),
                               onnx_map(o, OP_eq, twice, n));
        Value *two = build_const(o->b, c->type, (Literal){.f = 2});
        Value *weight = onnx_map3(o, OP_where, once, build_const(o->b, c->type, (Literal){.f = 1}),
                                  two);
        c = onnx_map(o, OP_mul, c, weight);
        s = onnx_map(o, OP_mul, s, weight);
    }
    if (f->inverse) {
        Value *n = onnx_size_number(o, f->length, DT_f64);
        c = onnx_map(o, OP_div, c, n);
        s = onnx_map(o, OP_div, s, n);
        s = build_map(o->b, OP_neg, s, NULL, NULL);
    }
    *re = y ? onnx_map(o, OP_add, by(o, x, c), by(o, y, s)) : by(o, x, c);
    Value *minus = build_map(o->b, OP_neg, by(o, x, s), NULL, NULL);
    *im = to_real ? NULL : y ? onnx_map(o, OP_add, by(o, y, c), minus) : minus;
}

/* One of the parts [.., 1 or 2] of x, as [A, N, B] around the axis. */
static Value *
part_of(Onnx *o, Value *x, int axis, int k)
{
    int last = x->type->rank - 1;
    Dim one = dim_int(o->cx, 1), dims[] = {one, x->type->dims[axis], one};
    for (int ax = 0; ax < last; ax++) {
        if (ax != axis) {
            dims[ax < axis ? 0 : 2] = dim_mul(o->cx, dims[ax < axis ? 0 : 2], x->type->dims[ax]);
        }
    }
    Value *v = build_slice(o->b, x, last, dim_int(o->cx, k), one, one);
    return build_reshape(o->b, build_cast(o->b, v, DT_f64), 3, dims);
}

static Value *
whole_of(Onnx *o, Value *re, Value *im, const Type *t, int axis)
{
    Dim dims[MAX_RANK];
    Value *parts[] = {re, im};
    memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
    dims[axis] = re->type->dims[1];
    dims[t->rank - 1] = dim_int(o->cx, 1);
    for (int k = 0; k < 2 && parts[k]; k++) {
        parts[k] = build_reshape(o->b, build_cast(o->b, parts[k], t->dtype), t->rank, dims);
    }
    return im ? build_cat(o->b, 2, parts, t->rank - 1) : parts[0];
}

void
onnx_dft(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    const Type *t = x->type;
    bool old = o->node->version < 20;
    int64_t given = old ? onnx_int(o, "axis", 1) : onnx_given(o, 2) ? onnx_one_number(o, 2) : -2;
    if (t->rank < 2) {
        onnx_refuse(o, "its operand is not [.., real and imaginary part]");
    }
    int axis = onnx_axis(o, given, t->rank);
    bool real = dim_is(o->cx, t->dims[t->rank - 1], 1);
    if (axis == t->rank - 1 || (!real && !dim_is(o->cx, t->dims[t->rank - 1], 2))) {
        onnx_refuse(o, "its operand is not [.., real and imaginary part]");
    }
    Transform f = {t->dims[axis], onnx_int(o, "inverse", 0) != 0, onnx_int(o, "onesided", 0) != 0};
    if (onnx_given(o, 1)) {
        f.length = onnx_one_dim(o, 1);
    } else if (f.inverse && f.onesided) {
        f.length = dim_mul(o->cx, dim_int(o->cx, 2), dim_sub(o->cx, f.length, dim_int(o->cx, 1)));
    }
    Value *re = part_of(o, x, axis, 0), *im = real ? NULL : part_of(o, x, axis, 1);
    transformed(o, &f, &re, &im);
    o->out[0] = whole_of(o, re, im, t, axis);
}

/* ---- STFT ---- */

/* Frames [B, frames, length] of a signal [B, N], one each `step` elements. */
static Value *
frames_of(Onnx *o, Value *x, Dim step, Dim length, Value *window)
{
    Dim b = x->type->dims[0], n = x->type->dims[1], one = dim_int(o->cx, 1);
    Dim count = dim_add(o->cx, dim_div(o->cx, dim_sub(o->cx, n, length), step), one);
    Dim dims[] = {b, count, length}, strides[] = {n, step, one};
    Value *v = build_as_strided(o->b, x, 3, dims, strides, dim_int(o->cx, 0));
    return window ? onnx_map(o, OP_mul, v, build_cast(o->b, window, DT_f64)) : v;
}

void
onnx_stft(Onnx *o)
{
    Value *x = onnx_in(o, 0), *window = onnx_given(o, 2);
    const Type *t = x->type;
    Dim step = onnx_one_dim(o, 1), length;
    if (t->rank != 3 || (window && window->type->rank != 1)) {
        onnx_refuse(o, "it takes a signal [batch, length, 1 or 2]");
    }
    length = onnx_given(o, 3) ? onnx_one_dim(o, 3) : window ? window->type->dims[0] : t->dims[1];
    if (window && window->type->dims[0] != length) {
        onnx_refuse(o, "its window is not known to be as long as a frame");
    }
    Dim one = dim_int(o->cx, 1);
    bool real = dim_is(o->cx, t->dims[2], 1);
    Transform f = {length, false, onnx_int(o, "onesided", 1) != 0};
    Value *parts[2] = {NULL, NULL};
    for (int k = 0; k < (real ? 1 : 2); k++) {
        Value *v = build_reshape(o->b, build_slice(o->b, x, 2, dim_int(o->cx, k), one, one), 2,
                                 t->dims);
        v = frames_of(o, build_cast(o->b, v, DT_f64), step, length, window);
        Dim dims[] = {dim_mul(o->cx, v->type->dims[0], v->type->dims[1]), length, one};
        parts[k] = build_reshape(o->b, v, 3, dims);
    }
    transformed(o, &f, &parts[0], &parts[1]);
    Dim frames = dim_add(o->cx, dim_div(o->cx, dim_sub(o->cx, t->dims[1], length), step), one);
    Dim made[] = {t->dims[0], frames, one, dim_int(o->cx, 2)};
    o->out[0] = whole_of(o, parts[0], parts[1], type_of(o->cx, t->dtype, 4, made), 2);
}

/* ---- MelWeightMatrix ---- */

static Value *
number_in(Onnx *o, int k)
{
    return build_cast(o->b, build_reshape(o->b, onnx_in(o, k), 0, NULL), DT_f64);
}

static Value *
mel_of(Onnx *o, Value *hertz)
{
    Value *v = onnx_times(o, hertz, 1.0 / 700);
    return onnx_times(o, build_map(o->b, OP_log1p, v, NULL, NULL), 2595 / log(10));
}

void
onnx_mel_weights(Onnx *o)
{
    Dim bands = onnx_one_dim(o, 0), length = onnx_one_dim(o, 1), two = dim_int(o->cx, 2);
    Dim bins = dim_add(o->cx, dim_div(o->cx, length, two), dim_int(o->cx, 1));
    Dim edges = dim_add(o->cx, bands, two), dims[] = {bins, bands};
    const int column[] = {1};
    Value *low = mel_of(o, number_in(o, 3)), *high = mel_of(o, number_in(o, 4));
    Value *step = onnx_map(o, OP_div, onnx_map(o, OP_sub, high, low),
                           onnx_size_number(o, edges, DT_f64));
    Value *at = build_iota(o->b, type_of(o->cx, DT_i64, 1, &edges), 0), *edge[3], *v;
    at = onnx_map(o, OP_mul, build_cast(o->b, at, DT_f64), step);
    at = onnx_times(o, onnx_map(o, OP_add, at, low), log(10) / 2595);
    at = onnx_times(o, build_map(o->b, OP_expm1, at, NULL, NULL), 700);
    Value *more = onnx_size_number(o, dim_add(o->cx, length, dim_int(o->cx, 1)), DT_f64);
    at = onnx_map(o, OP_div, onnx_map(o, OP_mul, at, more), number_in(o, 2));
    at = build_map(o->b, OP_floor, at, NULL, NULL);
    for (int k = 0; k < 3; k++) {
        edge[k] = build_slice(o->b, at, 0, dim_int(o->cx, k), dim_int(o->cx, 1), bands);
        edge[k] = build_expand(o->b, edge[k], 2, dims, column);
    }
    const Type *t = edge[0]->type;
    Value *j = build_cast(o->b, build_iota(o->b, type_with(o->cx, t, DT_i64), 0), DT_f64);
    Value *rise = onnx_map(o, OP_sub, edge[1], edge[0]),
          *fall = onnx_map(o, OP_sub, edge[2], edge[1]);
    Value *zero = build_const(o->b, t, (Literal){.f = 0}),
          *one = build_const(o->b, t, (Literal){.f = 1});
    Value *up = onnx_map(o, OP_div, onnx_map(o, OP_sub, j, edge[0]), rise);
    Value *down = onnx_map(o, OP_div, onnx_map(o, OP_sub, edge[2], j), fall);
    Value *rises = onnx_map(o, OP_bit_and, onnx_map(o, OP_ge, j, edge[0]),
                            onnx_map(o, OP_le, j, edge[1]));
    Value *falls = onnx_map(o, OP_bit_and, onnx_map(o, OP_ge, j, edge[1]),
                            onnx_map(o, OP_lt, j, edge[2]));
    Value *flat = onnx_map(o, OP_eq, rise, zero);
    v = onnx_map3(o, OP_where, rises, onnx_map3(o, OP_where, flat, one, up), zero);
    v = onnx_map3(o, OP_where, falls, down, v);
    o->out[0] = build_cast(o->b, v, onnx_dtype(o, onnx_int(o, "output_datatype", 1)));
}
