/* Affine quantisation: quantized_decomposed.*, as PT2E writes it.
 *
 * A number x becomes round(x / scale) + zero point, held between two bounds.  Each operator is the
 * formula of torch's own definition (torch/ao/quantization/fx/_decomposed.py), with its dtypes: a
 * scale that is a number, or a tensor of one, is a double that arithmetic in f32 rounds; one for
 * each channel, token or group takes part in promotion. */
#include "capture/aten/aten.h"
#include "capture/aten/aten_formula.h"
#include "capture/torch/torch.h"

static Arg
tensor_arg(Value *v)
{
    return (Arg){.kind = ARG_TENSOR, .v = v};
}

static Arg
float_arg(double f)
{
    return (Arg){.kind = ARG_FLOAT, .f = f};
}

/* ---- steps of the formulas: overloads of two operands, in the dtype of torch.result_type ---- */

static const Type *
promoted_type(Aten *n, const Type *shape, const Arg *args, int count)
{
    Aten as = *n;
    as.args = args;
    as.nargs = count;
    return type_with(n->cx, shape, promoted(&as, 0, count - 1));
}

/* With a result of these sizes; NULL to decline.  Sums have a third argument, their factor. */
static Value *
step(Aten *n, const char *overload, const Type *shape, Value *a, const Arg *b)
{
    const Arg args[3] = {tensor_arg(a), *b, {.kind = ARG_INT, .i = 1}};
    const Type *t = a ? promoted_type(n, shape, args, 2) : NULL;
    Value *v = t ? as_overload(n, overload, t, 3, args) : NULL;
    return v ? build_cast(n->b, v, t->dtype) : NULL;
}

static Value *
step_of(Aten *n, const char *overload, const Type *shape, Value *a, Value *b)
{
    const Arg arg = tensor_arg(b);
    return b ? step(n, overload, shape, a, &arg) : NULL;
}

/* A number, or the element of a tensor of one as item() gives it. */
static bool
number_at(Aten *n, int k, Arg *out)
{
    *out = *arg_at(n, k);
    if (out->kind == ARG_TENSOR) {
        int64_t count;
        Value *v = arg_tensor(n, k);
        if (!dim_is_int(n->cx, type_numel(n->cx, v->type), &count) || count != 1) {
            return false;
        }
        v = build_cast(n->b, build_reshape(n->b, v, 0, NULL), DT_f64);
        *out = (Arg){.kind = ARG_NUMBER, .v = v};
    }
    return arg_is_number(out) || out->kind == ARG_NUMBER;
}

/* Reads argument k, a scale, and returns its reciprocal as a double. */
static bool
inverse_at(Aten *n, int k, Arg *out)
{
    if (!number_at(n, k, out)) {
        return false;
    }
    if (out->kind == ARG_NUMBER) {
        out->v = map1(n, OP_reciprocal, out->v);
    } else {
        *out = float_arg(1 / arg_float(out, 1));
    }
    return true;
}

/* Clamps x to the bounds that arguments k and k+1 give. */
static Value *
bounded(Aten *n, Value *x, int k)
{
    for (int side = 0; side < 2; side++) {
        Arg bound;
        if (!number_at(n, k + side, &bound)) {
            return NULL;
        }
        Value *to = operand(n, &bound, x->type);
        x = to ? map2(n, side ? OP_minimum : OP_maximum, x, to) : NULL;
        if (!x) {
            return NULL;
        }
    }
    return x;
}

/* Held between the bounds and in the dtype of the result. */
static Value *
code_of(Aten *n, Value *x, int bounds)
{
    Value *v = x ? bounded(n, x, bounds) : NULL;
    return v ? in_dtype(n, v, n->type->dtype) : NULL;
}

/* Argument 0, f32 where it is narrower; NULL: no float. */
static Value *
wide_input(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    return dtype_info[x->type->dtype].class == CLASS_FLOAT
               ? build_cast(n->b, x, wide(x->type->dtype))
               : NULL;
}

/* ---- one scale for the tensor ---- */

/* (x, scale, zero point, least, most, dtype) */
Value *
aten_quantize(Aten *n)
{
    Value *x = wide_input(n);
    Arg inverse, zero;
    if (!x || x->type->dtype != DT_f32 || !inverse_at(n, 1, &inverse) || !number_at(n, 2, &zero)) {
        return NULL;
    }
    x = step(n, "aten.mul.Tensor", x->type, x, &inverse);
    x = x ? step(n, "aten.add.Tensor", x->type, map1(n, OP_round, x), &zero) : NULL;
    return code_of(n, x, 3);
}

/* (x, scale, zero point, least, most, dtype, out_dtype): its dtype is the result's. */
Value *
aten_dequantize(Aten *n)
{
    Arg scale, zero;
    if (!number_at(n, 1, &scale) || !number_at(n, 2, &zero)) {
        return NULL;
    }
    Value *x = in_dtype(n, arg_tensor(n, 0), n->type->dtype);
    x = step(n, "aten.sub.Tensor", n->type, x, &zero);
    return step(n, "aten.mul.Tensor", n->type, x, &scale);
}

/* ---- a scale for each channel ---- */

/* Argument k, one number for each index of the axis, with axes of one element around it. */
static Value *
channels(Aten *n, int k, int axis)
{
    Value *v = arg_tensor(n, k);
    Dim dims[MAX_RANK];
    for (int ax = 0; ax < n->type->rank; ax++) {
        dims[ax] = ax == axis ? n->type->dims[ax] : one(n);
    }
    return build_reshape(n->b, v, n->type->rank, dims);
}

/* (x, scales, zero points, axis, least, most, dtype) */
Value *
aten_quantize_channels(Aten *n)
{
    Value *x = wide_input(n);
    int axis;
    if (!x || !arg_axis(arg_at(n, 3), n->type->rank, &axis)) {
        return NULL;
    }
    Value *scales = channels(n, 1, axis), *zeros = channels(n, 2, axis);
    if (dtype_info[scales->type->dtype].class != CLASS_FLOAT) {
        return NULL;
    }
    x = step_of(n, "aten.mul.Tensor", x->type, x, map1(n, OP_reciprocal, scales));
    x = x ? step_of(n, "aten.add.Tensor", x->type, map1(n, OP_round, x), zeros) : NULL;
    return code_of(n, x, 4);
}

/* (x - zeros) * scales, in the dtypes of torch.result_type; without zeros x * scales. */
static Value *
dequantized(Aten *n, Value *x, Value *zeros, Value *scales)
{
    x = zeros ? step_of(n, "aten.sub.Tensor", x->type, x, zeros) : x;
    return x ? step_of(n, "aten.mul.Tensor", x->type, x, scales) : NULL;
}

/* (x, scales, zero points, axis, least, most, dtype, out_dtype) */
Value *
aten_dequantize_channels(Aten *n)
{
    int axis;
    if (!arg_axis(arg_at(n, 3), n->type->rank, &axis)) {
        return NULL;
    }
    Value *zeros = arg_at(n, 2)->kind == ARG_TENSOR ? channels(n, 2, axis) : NULL;
    return dequantized(n, arg_tensor(n, 0), zeros, channels(n, 1, axis));
}

/* ---- a scale for each token or group: here the zero point is added before rounding ---- */

static Value *
quantized_by(Aten *n, Value *x, Value *scales, Value *zeros, int bounds)
{
    if (dtype_info[scales->type->dtype].class != CLASS_FLOAT) {
        return NULL;
    }
    x = step_of(n, "aten.mul.Tensor", x->type, x, map1(n, OP_reciprocal, scales));
    x = x ? step_of(n, "aten.add.Tensor", x->type, x, zeros) : NULL;
    return x ? code_of(n, map1(n, OP_round, x), bounds) : NULL;
}

/* (x, scales, zero points, least, most, dtype) */
Value *
aten_quantize_tokens(Aten *n)
{
    return quantized_by(n, arg_tensor(n, 0), arg_tensor(n, 1), arg_tensor(n, 2), 3);
}

/* (x, scales, zero points, ..) */
Value *
aten_dequantize_tokens(Aten *n)
{
    return dequantized(n, arg_tensor(n, 0), arg_tensor(n, 1 + 1), arg_tensor(n, 1));
}

/* Argument 0 as rows of a group each; the group's size is argument k.  NULL: it is no constant. */
static Value *
grouped(Aten *n, int k)
{
    Value *x = arg_tensor(n, 0);
    const Arg *size = arg_at(n, k);
    Dim group, dims[2];
    if (x->type->rank != 2 || !arg_dim(n, size, &group)) {
        return NULL;
    }
    dims[0] = dim_div(n->cx, type_numel(n->cx, x->type), group);
    dims[1] = group;
    return build_reshape(n->b, x, 2, dims);
}

static Value *
column(Aten *n, int k)
{
    Value *v = arg_tensor(n, k);
    const Dim dims[2] = {type_numel(n->cx, v->type), one(n)};
    return build_reshape(n->b, v, 2, dims);
}

/* (x, scales, zero points, least, most, dtype, group size, out dtype).  Quantising is left to
 * eager, which raises if there is a NaN. */
Value *
aten_dequantize_groups(Aten *n)
{
    Value *x = grouped(n, 6);
    Value *zeros = arg_at(n, 2)->kind == ARG_TENSOR ? column(n, 2) : NULL;
    x = x ? dequantized(n, x, zeros, column(n, 1)) : NULL;
    return x ? build_reshape(n->b, x, 2, n->type->dims) : NULL;
}

/* ---- scales and zero points from the numbers ---- */

static Value *
extreme_of(Aten *n, Value *x, Op op, int naxes, const int *axes)
{
    Value *v = build_red(n->b, op, x, naxes, axes);
    return map2(n, op == OP_amin ? OP_minimum : OP_maximum, v, number(n, 0));
}

/* For the rows of x along its last axis: in the wide dtype of x, rounded to x's as eager does. */
Value *
aten_choose_tokens(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    int last = x->type->rank - 1;
    if (last < 0 || dtype_info[x->type->dtype].class != CLASS_FLOAT ||
        may_be_empty(n, x->type, 1, &last)) {
        return NULL;
    }
    Value *scale = build_red(n->b, OP_amax, map1(n, OP_abs, x), 1, &last);
    scale = x->type->dtype == DT_f16 ? build_cast(n->b, scale, DT_f32) : scale;
    scale = map2(n, OP_maximum, scale, number(n, rounded(scale->type->dtype, 1e-5)));
    const Arg most = {.kind = ARG_INT, .i = 127};
    scale = step(n, "aten.div.Tensor", scale->type, scale, &most);
    if (!scale) {
        return NULL;
    }
    scale = build_reshape(n->b, scale, n->type->rank, n->type->dims);
    n->res[1] = build_const(n->b, type_with(n->cx, scale->type, DT_i64), (Literal){.is_int = true});
    return scale;
}

/* Of bounds from .. to, a scale and a zero point that is a whole number between them. */
static Value *
choose_between(Aten *n, Value *low, Value *high, int64_t from, int64_t to)
{
    const Arg range = float_arg((double)(to - from));
    Value *scale = step(n, "aten.div.Tensor", low->type, SUB(high, low), &range);
    scale = scale ? map2(n, OP_maximum, scale, number(n, 0x1p-23)) : NULL;
    if (!scale) {
        return NULL;
    }
    Value *below = DIV(low, scale), *above = DIV(high, scale);
    Value *first = number(n, (double)from), *last = number(n, (double)to);
    Value *wrong = GT(ADD(ADD(first, below), ADD(last, above)), number(n, 0));
    Value *zero = WHERE(wrong, SUB(first, below), SUB(last, above));
    zero = map1(n, OP_round, MIN(MAX(zero, first), last));
    n->res[1] = build_reshape(n->b, build_cast(n->b, zero, DT_i64), n->types[1]->rank,
                              n->types[1]->dims);
    return build_reshape(n->b, build_cast(n->b, scale, DT_f64), n->type->rank, n->type->dims);
}

Value *
aten_choose_tokens_asymmetric(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    int last = x->type->rank - 1;
    if (last < 0 || x->type->dtype != DT_f32 || may_be_empty(n, x->type, 1, &last)) {
        return NULL;
    }
    return choose_between(n, extreme_of(n, x, OP_amin, 1, &last),
                          extreme_of(n, x, OP_amax, 1, &last), -128, 127);
}

/* (x, least, most, eps, dtype): one scale and one zero point. */
Value *
aten_choose_qparams(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    const Arg *least = arg_at(n, 1), *most = arg_at(n, 2), *eps = arg_at(n, 3),
              *dtype = arg_at(n, 4);
    bool symmetric = n->op == OP_neg;
    int axes[MAX_RANK];
    for (int ax = 0; ax < x->type->rank; ax++) {
        axes[ax] = ax;
    }
    if (x->type->dtype != DT_f32 || least->kind != ARG_INT || most->kind != ARG_INT ||
        !arg_is_number(eps) || dtype->kind != ARG_DTYPE ||
        may_be_empty(n, x->type, x->type->rank, axes)) {
        return NULL;
    }
    Value *low = extreme_of(n, x, OP_amin, x->type->rank, axes),
          *high = extreme_of(n, x, OP_amax, x->type->rank, axes), *zero;
    double range = (double)(most->i - least->i);
    const Arg by = float_arg(symmetric ? range / 2 : range);
    Value *wide_range = symmetric ? MAX(NEG(low), high) : SUB(high, low);
    Value *scale = step(n, "aten.div.Tensor", low->type, wide_range, &by);
    scale = scale ? MAX(scale, number(n, arg_float(eps, 0))) : NULL;
    if (!scale) {
        return NULL;
    }
    if (symmetric) {
        Literal middle = {.is_int = true, .i = dtype->dtype == DT_u8 ? 128 : 0};
        zero = build_const(n->b, type_with(n->cx, scale->type, DT_i64), middle);
    } else {
        zero = build_cast(n->b, map1(n, OP_round, DIV(low, scale)), DT_i32);
        zero = SUB(build_int(n->b, least->i), zero);
        zero = MIN(MAX(zero, build_int(n->b, least->i)), build_int(n->b, most->i));
        zero = build_cast(n->b, zero, DT_i64);
    }
    n->res[1] = build_reshape(n->b, zero, n->types[1]->rank, n->types[1]->dims);
    return build_reshape(n->b, build_cast(n->b, scale, DT_f64), n->type->rank, n->type->dims);
}
