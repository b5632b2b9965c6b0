/* Sums with a factor, quotients and powers; rounding to decimals, angles.
 *
 * In f16 and bf16 eager rounds between some steps of these and not between others: see each of
 * them. */
#include "aten.h"

#include <math.h>
#include <string.h>

static bool
is_float(Dtype dtype)
{
    return dtype_info[dtype].class == CLASS_FLOAT;
}

double
rounded(Dtype dtype, double f)
{
    uint64_t stored = 0;
    double back = f;
    if (is_half(dtype)) {
        eval_map(OP_cast, DT_f64, dtype, &f, NULL, NULL, &stored);
        eval_map(OP_cast, dtype, DT_f64, &stored, NULL, NULL, &back);
    }
    return back;
}

Value *
rounded_step(Aten *n, Value *v)
{
    return build_cast(n->b, build_cast(n->b, v, n->type->dtype), wide(n->type->dtype));
}

/* ---- sums with a factor ---- */

static bool
is_truth(const Arg *a)
{
    return a->kind == ARG_BOOL || (a->kind == ARG_TENSOR && a->v->type->dtype == DT_bool);
}

/* Eager raises for differences of truth values, and for a factor of a higher class than the
 * result. */
static bool
alpha_raises(const Aten *n, Op op, const Arg *alpha)
{
    Dtype dtype = n->type->dtype;
    bool difference = op == OP_sub && (is_truth(&n->args[0]) || is_truth(&n->args[1]));
    bool factor = (alpha->kind == ARG_FLOAT && !is_float(dtype)) ||
                  (alpha->kind == ARG_BOOL && dtype != DT_bool);
    return difference || factor;
}

/* Rounded to the dtype of the result, to be computed with in the wide one. */
static Value *
term(Aten *n, const Arg *a)
{
    Dtype dtype = n->type->dtype;
    Value *v = operand(n, a, n->type);
    if (!v || !value_is_const(v)) {
        return v ? build_cast(n->b, v, wide(dtype)) : NULL;
    }
    return is_half(dtype) ? number(n, rounded(dtype, arg_float(a, 0))) : v;
}

/* a op factor * b, where the product is not rounded. */
static Value *
scaled_sum(Aten *n, Op op, const Arg *first, const Arg *second)
{
    Value *a = term(n, first), *b = term(n, second), *factor = term(n, arg_at(n, 2));
    if (!a || !b || !factor || (value_is_const(a) && value_is_const(b))) {
        return NULL;
    }
    if (value_is_const(b)) {
        b = build_const(n->b, type_with(n->cx, n->type, wide(n->type->dtype)), b->literal);
    }
    return map2(n, op, a, map2(n, OP_mul, b, factor));
}

static Value *
with_alpha(Aten *n, Op op, const Arg *first, const Arg *second)
{
    const Arg *alpha = arg_at(n, 2);
    bool one = arg_is_number(alpha) && arg_float(alpha, 0) == 1;
    if (alpha_raises(n, op, alpha)) {
        return NULL;
    }
    if (n->type->dtype == DT_bool) {
        return op == OP_add && one ? each(n, op) : NULL;
    }
    if (!one) {
        return scaled_sum(n, op, first, second);
    }
    Value *a = operand(n, first, n->type), *b = operand(n, second, n->type);
    return !a || !b || (value_is_const(a) && value_is_const(b)) ? NULL : map2(n, op, a, b);
}

Value *
aten_with_alpha(Aten *n)
{
    return with_alpha(n, n->op, &n->args[0], &n->args[1]);
}

Value *
aten_rsub(Aten *n)
{
    return with_alpha(n, OP_sub, &n->args[1], &n->args[0]);
}

/* self + value * t1 * t2, or / t2; value is not rounded */
Value *
aten_addc(Aten *n)
{
    const Type *t = type_with(n->cx, n->type, wide(n->type->dtype));
    Value *v[4];
    for (int k = 0; k < 4; k++) {
        v[k] = k < 3 ? term(n, arg_at(n, k)) : operand(n, arg_at(n, k), t);
        if (!v[k]) {
            return NULL;
        }
    }
    if (!is_float(t->dtype) && (n->op != OP_mul || t->dtype == DT_bool)) {
        return NULL;
    }
    return map2(n, OP_add, v[0], map2(n, n->op, map2(n, OP_mul, v[1], v[3]), v[2]));
}

/* a*b + c, where eager rounds the product too, whatever the name says.  Dynamo writes addcmul_,
 * addcdiv_ and add_ with a factor so. */
Value *
aten_fma(Aten *n)
{
    Value *v[3];
    for (int k = 0; k < 3; k++) {
        const Arg *a = arg_at(n, k);
        bool other = a->kind == ARG_TENSOR && a->v->type->dtype != n->type->dtype;
        v[k] = other || !is_float(n->type->dtype) ? NULL : operand(n, a, n->type);
        if (!v[k]) {
            return NULL;
        }
    }
    if (value_is_const(v[0]) && value_is_const(v[1])) {
        return NULL;
    }
    return map2(n, OP_add, map2(n, OP_mul, v[0], v[1]), v[2]);
}

/* ---- division ---- */

/* The quotient of two tensors of f16 or bf16, rounded after each step. */
Value *
half_quotient(Aten *n, Op op, Value *a, Value *b)
{
    Value *q = map2(n, OP_div, a, b), *zero = number(n, 0);
    if (op == OP_div_trunc) {
        return map1(n, OP_trunc, q);
    }
    Value *rest = map2(n, OP_fmod, a, b), *d = map2(n, OP_div, map2(n, OP_sub, a, rest), b);
    Value *signs = map2(n, OP_ne, map2(n, OP_lt, b, zero), map2(n, OP_lt, rest, zero));
    Value *below = map2(n, OP_bit_and, map2(n, OP_ne, rest, zero), signs);
    d = map3(n, OP_where, below, map2(n, OP_sub, d, number(n, 1)), d);
    Value *floor = map1(n, OP_floor, d),
          *far = map2(n, OP_gt, map2(n, OP_sub, d, floor), number(n, 0.5));
    floor = map3(n, OP_where, far, map2(n, OP_add, floor, number(n, 1)), floor);
    Value *none = map2(n, OP_copysign, zero, q);
    Value *whole = map3(n, OP_where, map2(n, OP_ne, d, zero), floor, none);
    return map3(n, OP_where, map2(n, OP_eq, b, zero), q, whole);
}

Value *
aten_div_mode(Aten *n)
{
    const Arg *mode = arg_at(n, 2);
    if (mode->kind == ARG_NONE) {
        return each(n, OP_div);
    }
    if (mode->kind != ARG_TEXT) {
        return NULL;
    }
    return each(n, strcmp(mode->text, "floor") == 0 ? OP_div_floor : OP_div_trunc);
}

/* ---- powers ---- */

/* x to the power of 1.5: a root and a product are within a unit in the last place of pow, at a
 * fraction of its time.  They differ at -inf alone, which has no root. */
static Value *
power_of_half(Aten *n, Value *x)
{
    Value *power = map2(n, OP_mul, x, map1(n, OP_sqrt, x)), *far = number(n, -INFINITY);
    return map3(n, OP_where, map2(n, OP_eq, x, far), number(n, INFINITY), power);
}

/* The powers that eager computes in another way than by pow, and those that another way gives as
 * well. */
static Value *
special_power(Aten *n, Value *x, double e)
{
    if (e == 1) {
        return x;
    }
    if (e == 2) {
        return map2(n, OP_mul, x, x);
    }
    if (e == 3) {
        return map2(n, OP_mul, map2(n, OP_mul, x, x), x);
    }
    if (!is_float(x->type->dtype)) {
        return NULL;
    }
    if ((e == 0.5 || e == -0.5) && n->type->dtype != DT_f16) {
        return map1(n, e > 0 ? OP_sqrt : OP_rsqrt, x);
    }
    if (e == -1 || e == -2) {
        return map1(n, OP_reciprocal, e == -1 ? x : map2(n, OP_mul, x, x));
    }
    if (e == 1.5 && !is_half(n->type->dtype)) {
        return power_of_half(n, x);
    }
    return map2(n, OP_pow, x, number(n, e));
}

/* The exponent is rounded first; in bf16 so is each product, in f16 the result alone. */
Value *
aten_pow_scalar(Aten *n)
{
    const Arg *e = arg_at(n, 1);
    Dtype dtype = n->type->dtype;
    if (dtype == DT_bool || !arg_is_number(e)) {
        return NULL;
    }
    if (arg_float(e, 1) == 0) {
        return number(n, 1);
    }
    double by = rounded(dtype, arg_float(e, 1));
    if (is_half(dtype) && isinf(by) && !isinf(arg_float(e, 1))) {
        return NULL; /* eager wants the dtype to hold it */
    }
    const Type *t = dtype == DT_f16 ? type_with(n->cx, n->type, DT_f32) : n->type;
    return special_power(n, operand(n, &n->args[0], t), by);
}

/* ldexp(x, e) for whole e: x * 2^e, rounded once, as eager's.  No power of two of f32 reaches from
 * its greatest number to its least, so there are three; the last one alone may round. */
Value *
aten_ldexp(Aten *n)
{
    const Arg *a = arg_at(n, 0), *b = arg_at(n, 1);
    const Type *whole = type_with(n->cx, n->type, DT_i32);
    if (n->type->dtype != DT_f32 || !arg_is_float(a) || b->kind != ARG_TENSOR ||
        dtype_info[b->v->type->dtype].class != CLASS_INT || b->v->type->dtype == DT_i64) {
        return NULL;
    }
    Value *x = operand(n, a, n->type), *left = operand(n, b, whole), *powers[3];
    for (int k = 0; k < 3; k++) {
        Value *part = map2(n, OP_maximum, left, build_int(n->b, -126));
        part = map2(n, OP_minimum, part, build_int(n->b, 127));
        left = map2(n, OP_sub, left, part);
        part = map2(n, OP_shl, map2(n, OP_add, part, build_int(n->b, 127)), build_int(n->b, 23));
        powers[k] = build_bitcast(n->b, part, DT_f32);
    }
    return map2(n, OP_mul, map2(n, OP_mul, map2(n, OP_mul, x, powers[2]), powers[1]), powers[0]);
}

/* ---- rounding to decimals, angles ---- */

/* round(x, decimals) */
Value *
aten_round_decimals(Aten *n)
{
    Value *x = wide_operand(n, 0);
    const Arg *decimals = arg_at(n, 1);
    int64_t most = n->type->dtype == DT_f64 ? 300 : 38;
    if (!x || value_is_const(x) || decimals->kind != ARG_INT || decimals->i < -most ||
        decimals->i > most) {
        return NULL;
    }
    if (decimals->i == 0) {
        return map1(n, OP_round, x);
    }
    bool less = decimals->i < 0;
    Value *by = number(n, pow(10, (double)(less ? -decimals->i : decimals->i)));
    Value *moved = map1(n, OP_round, map2(n, less ? OP_div : OP_mul, x, by));
    return map2(n, less ? OP_mul : OP_div, moved, by);
}

/* The angle of a real number: pi below 0. */
Value *
aten_angle(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    if (dtype_info[n->type->dtype].class != CLASS_FLOAT) {
        return NULL;
    }
    const Type *t = type_with(n->cx, n->type, wide(n->type->dtype));
    Value *half_turn = build_const(n->b, t, (Literal){.f = 3.14159265358979323846});
    Value *angle = map3(n, OP_where, map2(n, OP_lt, x, build_int(n->b, 0)), half_turn,
                        number(n, 0));
    bool real = dtype_info[x->type->dtype].class == CLASS_FLOAT;
    return real ? map3(n, OP_where, map1(n, OP_isnan, x), number(n, NAN), angle) : angle;
}

/* ---- a fraction and a power of two ---- */

/* frexp(x): |x| is brought to 1 .. 2 by powers of two, each half of the one before, all exactly. */
Value *
aten_frexp(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    if (x->type->dtype != n->type->dtype || dtype_info[x->type->dtype].class != CLASS_FLOAT) {
        return NULL;
    }
    x = build_cast(n->b, x, wide(x->type->dtype));
    int most = x->type->dtype == DT_f64 ? 512 : 64;
    const Type *t = type_with(n->cx, x->type, DT_i32);
    Value *size = map1(n, OP_abs, x), *power = build_const(n->b, t, (Literal){.is_int = true});
    Value *whole = map2(n, OP_lt, size, number(n, INFINITY));
    whole = map2(n, OP_bit_and, whole, map2(n, OP_gt, size, number(n, 0)));
    for (int k = most; k >= 1; k /= 2) {
        Value *big = map2(n, OP_ge, size, number(n, ldexp(1, k)));
        size = map3(n, OP_where, big, map2(n, OP_mul, size, number(n, ldexp(1, -k))), size);
        power = map3(n, OP_where, big, map2(n, OP_add, power, build_int(n->b, k)), power);
    }
    for (int k = 2 * most; k >= 1; k /= 2) {
        int by = k > most ? most : k; /* the least subnormal takes the first twice */
        Value *small = map2(n, OP_lt, size, number(n, ldexp(1, 1 - by)));
        size = map3(n, OP_where, small, map2(n, OP_mul, size, number(n, ldexp(1, by))), size);
        power = map3(n, OP_where, small, map2(n, OP_sub, power, build_int(n->b, by)), power);
    }
    size = map2(n, OP_copysign, map2(n, OP_mul, size, number(n, 0.5)), x);
    n->res[1] = map3(n, OP_where, whole, map2(n, OP_add, power, build_int(n->b, 1)),
                     build_int(n->b, 0));
    return map3(n, OP_where, whole, size, x);
}
