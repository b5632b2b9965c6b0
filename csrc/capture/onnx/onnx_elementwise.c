/* Elementwise operators: rows that are one overload, and those with attributes. */
#include "onnx.h"

#include <math.h>
#include <string.h>

static DtypeClass
class_of(const Value *v)
{
    return dtype_info[v->type->dtype].class;
}

void
onnx_same(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    o->out[0] = onnx_aten(o, o->row->overload, x->type, ARGS(arg_v(x)));
}

void
onnx_identity(Onnx *o)
{
    o->out[0] = onnx_in(o, 0);
}

void
onnx_test(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    o->out[0] = onnx_aten(o, o->row->overload, type_with(o->cx, x->type, DT_bool), ARGS(arg_v(x)));
}

static Value *
paired(Onnx *o, const char *overload, Value *a, Value *b, bool truth)
{
    Value *both[] = {a, b};
    if (a->type->dtype != b->type->dtype) {
        onnx_refuse(o, "its operands have the element types %s and %s",
                    dtype_info[a->type->dtype].name, dtype_info[b->type->dtype].name);
    }
    const Type *t = onnx_broadcast(o, truth ? DT_bool : a->type->dtype, 2, both);
    return onnx_aten(o, overload, t, ARGS(arg_v(a), arg_v(b), arg_i(1))); /* the factor of a sum */
}

void
onnx_pair(Onnx *o)
{
    o->out[0] = paired(o, o->row->overload, onnx_in(o, 0), onnx_in(o, 1), false);
}

void
onnx_compare(Onnx *o)
{
    if (onnx_is_u64(o, 0)) {
        o->out[0] = paired(o, o->row->overload, onnx_ordered(o, onnx_in(o, 0)),
                           onnx_ordered(o, onnx_in(o, 1)), true);
        return;
    }
    o->out[0] = paired(o, o->row->overload, onnx_in(o, 0), onnx_in(o, 1), true);
}

void
onnx_fold(Onnx *o)
{
    Value *v = onnx_in(o, 0);
    bool flips = onnx_is_u64(o, 0) && strcmp(o->row->overload, "aten.add.Tensor") != 0;
    v = flips ? onnx_ordered(o, v) : v;
    for (int k = 1; k < o->node->ninputs; k++) {
        Value *next = flips ? onnx_ordered(o, onnx_in(o, k)) : onnx_in(o, k);
        v = paired(o, o->row->overload, v, next, false);
    }
    o->out[0] = flips ? onnx_ordered(o, v) : v;
}

void
onnx_mean(Onnx *o)
{
    onnx_fold(o);
    o->out[0] = onnx_aten(o, "aten.div.Scalar", o->out[0]->type,
                          ARGS(arg_v(o->out[0]), arg_i(o->node->ninputs)));
}

/* Is each element of the divisor known, and greater than 0? */
static bool
is_positive(Onnx *o, Value *b)
{
    const Known *x = onnx_known(o, b);
    for (int k = 0; x && k < x->n; k++) {
        if (x->elements[k].kind != ELEMENT_DIM ||
            !dim_lt(o->cx, dim_int(o->cx, 0), x->elements[k].d)) {
            return false;
        }
    }
    return x != NULL;
}

/* Of whole numbers.  ONNX does not say what division by 0 gives, but it may end no process: it is
 * division by 1, and that by -1 is negation, also of the least number. */
static Value *
quotient(Onnx *o, Op op, Value *a, Value *b)
{
    bool is_signed = a->type->dtype != DT_u8, rest = op == OP_fmod || op == OP_remainder;
    if (is_positive(o, b)) {
        return onnx_map(o, op, a, b);
    }
    Value *one = build_const(o->b, b->type, (Literal){.is_int = true, .i = 1});
    Value *none = build_map(o->b, OP_eq, b, build_int(o->b, 0), NULL);
    Value *by = build_map(o->b, OP_where, none, one, b);
    if (!is_signed) {
        return onnx_map(o, op, a, by);
    }
    Value *minus = build_map(o->b, OP_eq, b, build_int(o->b, -1), NULL);
    Value *v = onnx_map(o, op, a, build_map(o->b, OP_where, minus, one, by));
    Value *negative = rest ? build_const(o->b, v->type, (Literal){.is_int = true})
                           : onnx_map(o, OP_neg, a, NULL);
    return onnx_map3(o, OP_where, minus, negative, v);
}

void
onnx_divide(Onnx *o)
{
    Value *a = onnx_in(o, 0), *b = onnx_in(o, 1);
    if (onnx_is_u64(o, 0)) {
        o->out[0] = onnx_u64_quotient(o, a, b, false);
        return;
    }
    o->out[0] = class_of(a) == CLASS_INT ? quotient(o, OP_div_trunc, a, b)
                                         : paired(o, "aten.div.Tensor", a, b, false);
}

void
onnx_mod(Onnx *o)
{
    Value *a = onnx_in(o, 0), *b = onnx_in(o, 1);
    bool c = onnx_int(o, "fmod", 0) != 0;
    if (onnx_is_u64(o, 0)) {
        o->out[0] = onnx_u64_quotient(o, a, b, true);
        return;
    }
    o->out[0] = class_of(a) == CLASS_INT
                    ? quotient(o, c ? OP_fmod : OP_remainder, a, b)
                    : paired(o, c ? "aten.fmod.Tensor" : "aten.remainder.Tensor", a, b, false);
}

/* The result has the dtype of the base; a whole exponent keeps powers of whole numbers exact. */
void
onnx_power(Onnx *o)
{
    Value *a = onnx_in(o, 0), *b = onnx_in(o, 1), *both[] = {a, b};
    const Type *t = onnx_broadcast(o, a->type->dtype, 2, both);
    double f;
    b = onnx_is_u64(o, 1) ? onnx_u64_real(o, b, DT_f64) : b;
    if (class_of(a) == CLASS_FLOAT && type_same_shape(t, a->type) && onnx_constant(o, b, &f)) {
        o->out[0] = onnx_aten(o, "aten.pow.Tensor_Scalar", t, ARGS(arg_v(a), arg_f(f)));
        return;
    }
    if (class_of(a) == CLASS_FLOAT) {
        o->out[0] = onnx_aten(o, "aten.pow.Tensor_Tensor", t,
                              ARGS(arg_v(a), arg_v(onnx_converted(o, b, a->type->dtype))));
        return;
    }
    const Type *wide = type_with(o->cx, t, DT_f64);
    Value *v = onnx_aten(
        o, "aten.pow.Tensor_Tensor", wide,
        ARGS(arg_v(onnx_converted(o, a, DT_f64)), arg_v(onnx_converted(o, b, DT_f64))));
    o->out[0] = onnx_converted(o, v, a->type->dtype);
}

void
onnx_prelu(Onnx *o)
{
    Value *x = onnx_in(o, 0), *slope = onnx_in(o, 1);
    const Type *t = x->type, *ts = slope->type;
    bool old = ts->rank == 1 && t->rank > 2 && ts->dims[0] == t->dims[1]; /* of each channel */
    if (old && !dim_is(o->cx, ts->dims[0], 1) && ts->dims[0] != t->dims[t->rank - 1]) {
        slope = build_expand(o->b, slope, t->rank, t->dims, (const int[]){1});
    }
    Value *negative = onnx_map(o, OP_lt, x, build_int(o->b, 0));
    o->out[0] = onnx_map3(o, OP_where, negative, onnx_map(o, OP_mul, x, slope), x);
}

void
onnx_bit_shift(Onnx *o)
{
    bool left = onnx_is_text(o, "direction", "LEFT", "");
    if (!left && onnx_is_u64(o, 0)) { /* a power of 2 divides */
        Value *one = build_const(o->b, onnx_in(o, 1)->type, (Literal){.is_int = true, .i = 1});
        Value *by = onnx_map(o, OP_shl, one, onnx_in(o, 1)), *zero = build_int(o->b, 0);
        Value *v = onnx_u64_quotient(o, onnx_in(o, 0), by, false);
        Value *none = build_const(o->b, v->type, (Literal){.is_int = true});
        o->out[0] = onnx_map3(o, OP_where, onnx_map(o, OP_eq, by, zero), none, v);
        return;
    }
    o->out[0] = paired(o,
                       left ? "aten.bitwise_left_shift.Tensor" : "aten.bitwise_right_shift.Tensor",
                       onnx_in(o, 0), onnx_in(o, 1), false);
}

void
onnx_where(Onnx *o)
{
    Value *all[] = {onnx_in(o, 0), onnx_in(o, 1), onnx_in(o, 2)};
    const Type *t = onnx_broadcast(o, all[1]->type->dtype, 3, all);
    o->out[0] = onnx_aten(o, "aten.where.self", t,
                          ARGS(arg_v(all[0]), arg_v(all[1]), arg_v(all[2])));
}

void
onnx_is_inf(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    bool positive = onnx_int(o, "detect_positive", 1) != 0;
    bool negative = onnx_int(o, "detect_negative", 1) != 0;
    Value *is = onnx_aten(o, "aten.isinf.default", type_with(o->cx, x->type, DT_bool),
                          ARGS(arg_v(x)));
    if (!(positive && negative)) {
        Value *side = onnx_map(o, positive ? OP_gt : OP_lt, x, build_int(o->b, 0));
        is = onnx_map(o, OP_bit_and, is, side);
        is = positive || negative ? is
                                  : build_const(o->b, is->type, (Literal){.is_int = true, .i = 0});
    }
    o->out[0] = is;
}

/* ---- activations ---- */

static void
with(Onnx *o, const char *overload, int n, const double *numbers)
{
    Value *x = onnx_in(o, 0);
    Arg args[4] = {arg_v(x)};
    for (int k = 0; k < n; k++) {
        args[k + 1] = arg_f(numbers[k]);
    }
    o->out[0] = onnx_aten(o, overload, x->type, n + 1, args);
}

void
onnx_softplus(Onnx *o)
{
    with(o, "aten.softplus.default", 2, (const double[]){1, 20});
}

void
onnx_softsign(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    Value *size = onnx_aten(o, "aten.abs.default", x->type, ARGS(arg_v(x)));
    Value *most = onnx_aten(o, "aten.add.Scalar", x->type, ARGS(arg_v(size), arg_i(1), arg_i(1)));
    o->out[0] = onnx_aten(o, "aten.div.Tensor", x->type, ARGS(arg_v(x), arg_v(most)));
}

void
onnx_elu(Onnx *o)
{
    with(o, "aten.elu.default", 3, (const double[]){onnx_float(o, "alpha", 1), 1, 1});
}

void
onnx_selu(Onnx *o)
{
    double alpha = onnx_float(o, "alpha", 1.67326319217681884765625);
    double gamma = onnx_float(o, "gamma", 1.05070102214813232421875);
    with(o, "aten.elu.default", 3, (const double[]){alpha, gamma, 1});
}

void
onnx_celu(Onnx *o)
{
    double alpha = onnx_float(o, "alpha", 1);
    with(o, "aten.elu.default", 3, (const double[]){alpha, 1, 1 / alpha});
}

void
onnx_leaky_relu(Onnx *o)
{
    with(o, "aten.leaky_relu.default", 1, (const double[]){onnx_float(o, "alpha", 0.01)});
}

void
onnx_thresholded(Onnx *o)
{
    with(o, "aten.threshold.default", 2, (const double[]){onnx_float(o, "alpha", 1), 0});
}

void
onnx_hard_sigmoid(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    Value *v = onnx_aten(o, "aten.mul.Scalar", x->type,
                         ARGS(arg_v(x), arg_f(onnx_float(o, "alpha", 0.2))));
    v = onnx_aten(o, "aten.add.Scalar", x->type,
                  ARGS(arg_v(v), arg_f(onnx_float(o, "beta", 0.5)), arg_i(1)));
    o->out[0] = onnx_aten(o, "aten.clamp.default", x->type, ARGS(arg_v(v), arg_f(0), arg_f(1)));
}

void
onnx_gelu(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    Arg how = {.kind = ARG_TEXT, .text = onnx_text(o, "approximate", "none")};
    o->out[0] = onnx_aten(o, "aten.gelu.default", x->type, ARGS(arg_v(x), how));
}

void
onnx_shrink(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    double bias = onnx_float(o, "bias", 0), most = onnx_float(o, "lambd", 0.5);
    Value *less = onnx_aten(o, "aten.add.Scalar", x->type, ARGS(arg_v(x), arg_f(bias), arg_i(1)));
    Value *more = onnx_aten(o, "aten.sub.Scalar", x->type, ARGS(arg_v(x), arg_f(bias), arg_i(1)));
    const Type *t = type_with(o->cx, x->type, DT_bool);
    Value *above = onnx_aten(o, "aten.gt.Scalar", t, ARGS(arg_v(x), arg_f(most)));
    Value *below = onnx_aten(o, "aten.lt.Scalar", t, ARGS(arg_v(x), arg_f(-most)));
    Value *zero = build_const(o->b, x->type, (Literal){.is_int = true, .i = 0});
    Value *v = onnx_aten(o, "aten.where.self", x->type,
                         ARGS(arg_v(above), arg_v(more), arg_v(zero)));
    o->out[0] = onnx_aten(o, "aten.where.self", x->type, ARGS(arg_v(below), arg_v(less), arg_v(v)));
}

void
onnx_swish(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    Value *v = onnx_aten(o, "aten.mul.Scalar", x->type,
                         ARGS(arg_v(x), arg_f(onnx_float(o, "alpha", 1))));
    v = onnx_aten(o, "aten.sigmoid.default", x->type, ARGS(arg_v(v)));
    o->out[0] = onnx_aten(o, "aten.mul.Tensor", x->type, ARGS(arg_v(x), arg_v(v)));
}

/* A bound: an input or, in old versions, an attribute. */
static Arg
bound(Onnx *o, int k, const char *name)
{
    Value *v = onnx_given(o, k);
    const OnnxAttr *a = onnx_attr(o, name);
    Literal l;
    if (v && onnx_literal(o, v, &l)) {
        return l.is_int ? arg_i(l.i) : arg_f(l.f);
    }
    return v                             ? arg_v(v)
           : a && a->kind == ONNX_FLOATS ? arg_f(a->floats[0])
                                         : (Arg){.kind = ARG_NONE};
}

void
onnx_clip(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    Arg low = bound(o, 1, "min"), high = bound(o, 2, "max");
    if (low.kind != ARG_NONE || high.kind != ARG_NONE) {
        x = onnx_aten(o, "aten.clamp.Tensor", x->type, ARGS(arg_v(x), low, high));
    }
    o->out[0] = x;
}

/* ---- element types ---- */

static Value *
cast_to(Onnx *o, Value *v, Dtype to)
{
    bool real = dtype_info[to].class == CLASS_FLOAT || dtype_is_float8(to);
    if (onnx_is_u64(o, 0) && real) {
        v = onnx_u64_real(o, v, dtype_is_float8(to) ? DT_f32 : to);
    }
    bool encodes = dtype_is_float8(to) && !dtype_is_float8(v->type->dtype);
    return encodes ? onnx_to_float8(o, v, to) : onnx_converted(o, v, to);
}

void
onnx_cast(Onnx *o)
{
    o->out[0] = cast_to(o, onnx_in(o, 0), onnx_dtype(o, onnx_int(o, "to", 0)));
}

void
onnx_cast_like(Onnx *o)
{
    o->out[0] = cast_to(o, onnx_in(o, 0), onnx_in(o, 1)->type->dtype);
}

void
onnx_bit_cast(Onnx *o)
{
    Value *x = onnx_in(o, 0);
    int64_t kind = onnx_int(o, "to", 0);
    Dtype to = onnx_array_dtype((int)kind) == DTYPE_COUNT ? onnx_dtype(o, kind)
                                                          : onnx_array_dtype((int)kind);
    x = onnx_to_array(o, x, onnx_kind(o, 0));
    x = x->type->dtype == DT_bool ? build_cast(o->b, x, DT_u8) : x;
    bool whole = dtype_info[to].class == CLASS_INT && class_of(x) == CLASS_INT;
    if (dtype_info[to].bytes != dtype_info[x->type->dtype].bytes) {
        onnx_refuse(o, "the element types are not of one width");
    }
    Value *v = x->type->dtype == to || whole ? build_cast(o->b, x, to) : build_bitcast(o->b, x, to);
    o->out[0] = onnx_from_array(o, v, (int)kind);
}

/* Of inference, or with the ratio 0: x itself, and a mask of ones. */
void
onnx_dropout(Onnx *o)
{
    Value *x = onnx_in(o, 0), *ratio = onnx_given(o, 1), *training = onnx_given(o, 2);
    double on = 0, part = 0.5;
    if (training && !onnx_constant(o, training, &on)) {
        onnx_not_known(o, 2);
    }
    if (on != 0 && ratio && !onnx_constant(o, ratio, &part)) {
        onnx_not_known(o, 1);
    }
    if (on != 0 && part != 0) {
        onnx_refuse(o, "it draws random numbers, since it is in training mode");
    }
    o->out[0] = x;
    if (o->node->noutputs > 1) {
        Dtype mask = o->node->version < 10 ? x->type->dtype : DT_bool;
        o->out[1] = build_const(o->b, type_with(o->cx, x->type, mask),
                                (Literal){.is_int = true, .i = 1});
    }
}
