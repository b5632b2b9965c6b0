/* Elementwise operations, in one node or in several. */
#include "out.h"

#include <math.h>
#include <string.h>

/* Of the result's shape, in the dtype that the operands have. */
static const Type *
here(Out *o)
{
    return out_as(o, out_dtype(o));
}

static const Type *
truth(Out *o)
{
    return out_as(o, DT_bool);
}

static int
operand(Out *o, int k)
{
    return out_operand(o, k, out_dtype(o));
}

static int
number(Out *o, double f)
{
    Dtype dtype = out_dtype(o);
    return dtype_info[dtype].class == CLASS_FLOAT ? out_scalar(o, dtype, f)
                                                  : out_whole(o, dtype, (int64_t)f);
}

static int
mapped(Out *o, const char *op, Dtype result)
{
    int in[3] = {0};
    for (int k = 0; k < o->let->nargs; k++) {
        in[k] = operand(o, k);
    }
    return out_node(o, op, out_as(o, result), o->let->nargs, in, NO_ATTR);
}

/* Do the operands stay bool? */
static bool
of_bool(const Out *o)
{
    return o->let->res[0]->type->dtype == DT_bool;
}

void
out_map(Out *o)
{
    DtypeRule rule = op_info[o->let->op].rule;
    bool is_truth = rule == RULE_CMP || rule == RULE_PRED;
    out_result(o, mapped(o, o->row->onnx, is_truth ? DT_bool : out_dtype(o)));
}

void
out_negated(Out *o)
{
    out_result(o, out1(o, "Not", truth(o), mapped(o, o->row->onnx, DT_bool)));
}

void
out_converted(Out *o)
{
    const Value *x = o->let->args[0];
    if (dtype_info[x->type->dtype].class == CLASS_COMPLEX) {
        out_refuse(o, "ONNX computes with no %s", dtype_info[x->type->dtype].name);
    }
    out_result(o, out_arg(o, 0));
}

/* Max and Min of truth values are Or and And. */
void
out_extreme(Out *o)
{
    bool most = o->let->op == OP_maximum;
    if (of_bool(o)) {
        int in[] = {out_operand(o, 0, DT_bool), out_operand(o, 1, DT_bool)};
        out_result(o, out_node(o, most ? "Or" : "And", truth(o), 2, in, NO_ATTR));
    } else {
        out_result(o, mapped(o, o->row->onnx, out_dtype(o)));
    }
}

static bool
of_floats(Out *o)
{
    return dtype_info[out_dtype(o)].class == CLASS_FLOAT;
}

/* The other one where one is NaN. */
void
out_number_of(Out *o)
{
    int made = mapped(o, o->row->onnx, out_dtype(o));
    if (of_floats(o)) {
        int a = operand(o, 0), b = operand(o, 1);
        made = out3(o, "Where", here(o), out1(o, "IsNaN", truth(o), a), b, made);
        made = out3(o, "Where", here(o), out1(o, "IsNaN", truth(o), b), a, made);
    }
    out_result(o, made);
}

/* 0 where it is NaN. */
void
out_sign(Out *o)
{
    int made = mapped(o, o->row->onnx, out_dtype(o));
    if (of_floats(o)) {
        int is_nan = out1(o, "IsNaN", truth(o), operand(o, 0));
        made = out3(o, "Where", here(o), is_nan, number(o, 0), made);
    }
    out_result(o, made);
}

/* ---- bits ---- */

void
out_bits(Out *o)
{
    if (of_bool(o)) {
        int in[2] = {0};
        for (int k = 0; k < o->let->nargs; k++) {
            in[k] = out_operand(o, k, DT_bool);
        }
        out_result(o, out_node(o, o->row->onnx, truth(o), o->let->nargs, in, NO_ATTR));
    } else {
        out_result(o, mapped(o, cx_format(o->cx, "Bitwise%s", o->row->onnx), out_dtype(o)));
    }
}

/* Times 2^count, or a quotient that is rounded down. */
static int
shifted(Out *o, const Type *t, int a, int power)
{
    if (o->let->op == OP_shl) {
        return out2(o, "Mul", t, a, power);
    }
    return out2(o, "Div", t, out2(o, "Sub", t, a, out2(o, "Mod", t, a, power)), power);
}

/* By a count that is data: in i64 and in two steps, so that each power of 2 fits.  One that is
 * negative, or the width or more, shifts everything out. */
static int
shifted_by(Out *o, int a, int count, int64_t width)
{
    const Type *t = out_as(o, DT_i64);
    int zero = out_whole(o, DT_i64, 0), two = out_whole(o, DT_i64, 2);
    int below = out2(o, "Less", truth(o), count, zero);
    int beyond = out2(o, "GreaterOrEqual", truth(o), count, out_whole(o, DT_i64, width));
    int is_out = out2(o, "Or", truth(o), below, beyond);
    count = out3(o, "Where", t, is_out, out_whole(o, DT_i64, 62), count);
    int first = out2(o, "Min", t, count, out_whole(o, DT_i64, 31));
    int rest = out2(o, "Sub", t, count, first);
    int made = shifted(o, t, a, out2(o, "Pow", t, two, first));
    made = shifted(o, t, made, out2(o, "Pow", t, two, rest));
    return o->let->op == OP_shl ? out3(o, "Where", t, is_out, zero, made) : made;
}

void
out_shift(Out *o)
{
    const Value *by = o->let->args[1];
    Dtype dtype = out_dtype(o);
    int64_t width = dtype == DT_i64 ? 64 : 32, count = by->name ? -1 : by->literal.i;
    if (count >= 0 && count < width - 1) {
        int power = out_whole(o, dtype, (int64_t)1 << count);
        out_result(o, shifted(o, here(o), operand(o, 0), power));
    } else {
        int a = out_operand(o, 0, DT_i64), b = out_operand(o, 1, DT_i64);
        out_result(o, shifted_by(o, a, b, width));
    }
}

/* ---- division ---- */

static int
mod(Out *o, int a, int b, bool like_c)
{
    int in[] = {a, b};
    return out_node(o, "Mod", here(o), 2, in, out_int("fmod", like_c));
}

/* One less where something is left, of another sign than the divisor. */
static int
rounded_down(Out *o, int quotient, int rest, int by)
{
    int signs = out2(o, "Mul", here(o), out1(o, "Sign", here(o), rest),
                     out1(o, "Sign", here(o), by));
    int less = out2(o, "Less", truth(o), signs, number(o, 0));
    return out2(o, "Sub", here(o), quotient, out_cast(o, less, out_dtype(o)));
}

/* Whole numbers: Div of ONNX rounds to zero.  What is divided by 0 is guarded, since that ends a
 * process. */
static int
divided_ints(Out *o, int a, int b)
{
    Op op = o->let->op;
    const Value *by = o->let->args[1];
    bool is_safe = !by->name && by->literal.i > 0;
    int zero = is_safe ? -1 : out2(o, "Equal", truth(o), b, number(o, 0));
    int minus = is_safe ? -1 : out2(o, "Equal", truth(o), b, number(o, -1));
    int safe = b;
    if (!is_safe) { /* the least number by -1 does not fit either */
        int out = out2(o, "Or", truth(o), zero, minus);
        safe = out3(o, "Where", here(o), out, number(o, 1), b);
    }
    bool rest = op == OP_fmod || op == OP_remainder;
    int made = mod(o, a, safe, op != OP_remainder);
    if (!rest) { /* what is left has the sign of a, so that the difference fits */
        int whole = out2(o, "Div", here(o), out2(o, "Sub", here(o), a, made), safe);
        made = op == OP_div_floor ? rounded_down(o, whole, made, safe) : whole;
    }
    if (!is_safe) {
        int negative = rest ? number(o, 0) : out1(o, "Neg", here(o), a);
        made = out3(o, "Where", here(o), minus, negative, made);
        made = out3(o, "Where", here(o), zero, rest ? a : number(o, 0), made);
    }
    return made;
}

static int
truncated(Out *o, int x)
{
    int size = out1(o, "Floor", here(o), out1(o, "Abs", here(o), x));
    return out2(o, "Mul", here(o), out1(o, "Sign", here(o), x), size);
}

/* As the language has it: the remainder is exact, and the quotient follows from it. */
static int
divided_floats(Out *o, int a, int b)
{
    const Type *t = here(o);
    if (o->let->op == OP_div_trunc) {
        return truncated(o, out2(o, "Div", t, a, b));
    }
    int r = mod(o, a, b, true), zero = number(o, 0);
    if (o->let->op == OP_fmod) {
        return r;
    }
    int below = out2(o, "Less", truth(o),
                     out2(o, "Mul", t, out1(o, "Sign", t, r), out1(o, "Sign", t, b)), zero);
    if (o->let->op == OP_remainder) {
        return out3(o, "Where", t, below, out2(o, "Add", t, r, b), r);
    }
    int q = out2(o, "Div", t, out2(o, "Sub", t, a, r), b);
    q = out3(o, "Where", t, below, out2(o, "Sub", t, q, number(o, 1)), q);
    int near = out1(o, "Round", t, q);
    int none = out2(o, "Equal", truth(o), b, zero);
    return out3(o, "Where", t, none, out2(o, "Div", t, a, b), near);
}

void
out_divide(Out *o)
{
    int a = operand(o, 0), b = operand(o, 1);
    out_result(o, of_floats(o) ? divided_floats(o, a, b) : divided_ints(o, a, b));
}

void
out_trunc(Out *o)
{
    out_result(o, truncated(o, operand(o, 0)));
}

/* ---- functions ---- */

void
out_rsqrt(Out *o)
{
    int root = out1(o, "Sqrt", here(o), operand(o, 0));
    out_result(o, out1(o, "Reciprocal", here(o), root));
}

void
out_exp2(Out *o)
{
    out_result(o, out2(o, "Pow", here(o), number(o, 2), operand(o, 0)));
}

/* 2 sinh(x/2) exp(x/2) has all digits near 0, where exp(x) - 1 has none. */
void
out_expm1(Out *o)
{
    const Type *t = here(o);
    int x = out2(o, "Max", t, operand(o, 0), number(o, -40)); /* of which it is -1 */
    int half = out2(o, "Mul", t, x, number(o, 0.5));
    int made = out2(o, "Mul", t, out1(o, "Sinh", t, half), out1(o, "Exp", t, half));
    out_result(o, out2(o, "Mul", t, made, number(o, 2)));
}

void
out_log_of(Out *o)
{
    double base = o->let->op == OP_log2 ? M_LN2 : M_LN10;
    int made = out1(o, "Log", here(o), operand(o, 0));
    out_result(o, out2(o, "Div", here(o), made, number(o, base)));
}

/* 2 atanh(x / (2 + x)) has all digits near 0. */
void
out_log1p(Out *o)
{
    const Type *t = here(o);
    int x = operand(o, 0);
    int small = out2(o, "Less", truth(o), out1(o, "Abs", t, x), number(o, 0.5));
    int part = out2(o, "Div", t, x, out2(o, "Add", t, x, number(o, 2)));
    int near = out2(o, "Mul", t, out1(o, "Atanh", t, part), number(o, 2));
    int far = out1(o, "Log", t, out2(o, "Add", t, x, number(o, 1)));
    out_result(o, out3(o, "Where", t, small, near, far));
}

/* As Gelu of ONNX has it. */
void
out_phi(Out *o)
{
    const Type *t = here(o);
    int e = out1(o, "Erf", t, out2(o, "Mul", t, operand(o, 0), number(o, M_SQRT1_2)));
    int made = out2(o, "Add", t, e, number(o, 1));
    out_result(o, out2(o, "Mul", t, made, number(o, 0.5)));
}

/* Of a zero, 1 / x says it. */
static int
has_sign(Out *o, int x)
{
    int below = out2(o, "Less", truth(o), x, number(o, 0));
    int inverse = out2(o, "Less", truth(o), out1(o, "Reciprocal", here(o), x), number(o, 0));
    return out2(o, "Or", truth(o), below, inverse);
}

void
out_signbit(Out *o)
{
    out_result(o, has_sign(o, operand(o, 0)));
}

void
out_copysign(Out *o)
{
    int size = out1(o, "Abs", here(o), operand(o, 0));
    int negative = out1(o, "Neg", here(o), size);
    out_result(o, out3(o, "Where", here(o), has_sign(o, operand(o, 1)), negative, size));
}

void
out_where(Out *o)
{
    int q = out_operand(o, 0, DT_bool);
    out_result(o, out3(o, "Where", here(o), q, operand(o, 1), operand(o, 2)));
}
