/* Arithmetic of complex numbers by their parts: replacements for the builders of aten_elementwise.c
 * and aten_arith.c if an operand is complex, with the formulas of eager's kernels. */
#include "aten_complex.h"

/* ---- arithmetic ---- */

Parts
complex_times(Aten *n, Parts a, Parts b)
{
    return (Parts){
        map2(n, OP_sub, map2(n, OP_mul, a.re, b.re), map2(n, OP_mul, a.im, b.im)),
        map2(n, OP_add, map2(n, OP_mul, a.re, b.im), map2(n, OP_mul, a.im, b.re)),
    };
}

/* Smith's quotient: divided by the larger part of b first, so that no square overflows.  By zero
 * each part is divided by 0. */
Parts
complex_over(Aten *n, Parts a, Parts b)
{
    Value *size_re = map1(n, OP_abs, b.re), *size_im = map1(n, OP_abs, b.im), *none = number(n, 0);
    Value *wide = map2(n, OP_ge, size_re, size_im);
    Value *large = map3(n, OP_where, wide, b.re, b.im),
          *small = map3(n, OP_where, wide, b.im, b.re);
    Value *ratio = map2(n, OP_div, small, large);
    Value *scale = map1(n, OP_reciprocal, map2(n, OP_add, large, map2(n, OP_mul, small, ratio)));
    Value *first = map3(n, OP_where, wide, a.re, a.im),
          *second = map3(n, OP_where, wide, a.im, a.re);
    Value *re = map2(n, OP_mul, map2(n, OP_add, first, map2(n, OP_mul, second, ratio)), scale);
    Value *cross = map2(n, OP_mul, first, ratio);
    Value *im = map3(n, OP_where, wide, map2(n, OP_sub, second, cross),
                     map2(n, OP_sub, cross, second));
    im = map2(n, OP_mul, im, scale);
    Value *zero = map2(n, OP_bit_and, map2(n, OP_eq, size_re, none), map2(n, OP_eq, size_im, none));
    return (Parts){
        map3(n, OP_where, zero, map2(n, OP_div, a.re, size_re), re),
        map3(n, OP_where, zero, map2(n, OP_div, a.im, size_im), im),
    };
}

Value *
complex_product(Aten *n)
{
    Parts a, b;
    return complex_two_parts(n, &a, &b) ? complex_joined(n, complex_times(n, a, b)) : NULL;
}

Value *
complex_quotient(Aten *n)
{
    Parts a, b;
    bool whole = arg_at(n, 2)->kind != ARG_NONE; /* a rounding mode: eager has none */
    return !whole && complex_two_parts(n, &a, &b) ? complex_joined(n, complex_over(n, a, b)) : NULL;
}

/* a + alpha * b, a - alpha * b: in eager a product of complex numbers even where alpha is 1, which
 * makes NaN of b's infinities. */
static Value *
sum_with(Aten *n, Op op, int first, int second)
{
    static const Arg once = {.kind = ARG_INT, .i = 1};
    const Type *t = complex_part_type(n);
    const Arg *alpha = arg_at(n, 2);
    Parts a, b, by;
    if (!t || !complex_parts_of(n, arg_at(n, first), t, &a) ||
        !complex_parts_of(n, arg_at(n, second), t, &b) ||
        !complex_parts_of(n, alpha->kind == ARG_NONE ? &once : alpha, t, &by)) {
        return NULL;
    }
    b = complex_times(n, by, b);
    return complex_joined(n, (Parts){map2(n, op, a.re, b.re), map2(n, op, a.im, b.im)});
}

Value *
complex_sum_of_two(Aten *n)
{
    return sum_with(n, n->op, 0, 1);
}

Value *
complex_difference_from(Aten *n)
{
    return sum_with(n, OP_sub, 1, 0);
}

static Parts
plus(Aten *n, Parts a, Parts b)
{
    return (Parts){map2(n, OP_add, a.re, b.re), map2(n, OP_add, a.im, b.im)};
}

static Parts
minus(Aten *n, Parts a, Parts b)
{
    return (Parts){map2(n, OP_sub, a.re, b.re), map2(n, OP_sub, a.im, b.im)};
}

Parts
complex_unit(Aten *n, const Type *t)
{
    return (Parts){complex_typed(n, number(n, 1), t), complex_typed(n, number(n, 0), t)};
}

Value *
complex_inverse(Aten *n)
{
    Parts z;
    return complex_own_parts(n, &z)
               ? complex_joined(n, complex_over(n, complex_unit(n, z.re->type), z))
               : NULL;
}

Value *
complex_squared(Aten *n)
{
    Parts z;
    return complex_own_parts(n, &z) ? complex_joined(n, complex_times(n, z, z)) : NULL;
}

/* self + value * t1 * t2, or / t2 */
Value *
complex_sum_with_product(Aten *n)
{
    const Type *t = complex_part_type(n);
    Parts v[4];
    for (int k = 0; k < 4; k++) {
        if (!t || !complex_parts_of(n, arg_at(n, k), t, &v[k])) {
            return NULL;
        }
    }
    Parts first = complex_times(n, v[3], v[1]);
    Parts second = n->op == OP_mul ? complex_times(n, first, v[2]) : complex_over(n, first, v[2]);
    return complex_joined(n, plus(n, v[0], second));
}

/* lerp(x, end, weight), from the end that is nearer */
Value *
complex_between(Aten *n)
{
    const Type *t = complex_part_type(n);
    Parts a, b, w;
    if (!complex_two_parts(n, &a, &b) || !complex_parts_of(n, arg_at(n, 2), t, &w)) {
        return NULL;
    }
    Parts gap = minus(n, b, a), near = plus(n, a, complex_times(n, w, gap));
    Parts far = minus(n, b, complex_times(n, gap, minus(n, complex_unit(n, t), w)));
    Value *size = map2(n, OP_add, map2(n, OP_mul, w.re, w.re), map2(n, OP_mul, w.im, w.im));
    Value *small = map2(n, OP_lt, size, number(n, 0.25));
    return complex_joined(n, (Parts){map3(n, OP_where, small, near.re, far.re),
                                     map3(n, OP_where, small, near.im, far.im)});
}

/* ---- size and direction ---- */

static Value *
size_of(Aten *n, Parts z)
{
    return map2(n, OP_hypot, z.re, z.im);
}

Value *
complex_absolute(Aten *n)
{
    Parts z;
    return complex_own_parts(n, &z) ? size_of(n, z) : NULL;
}

Value *
complex_direction(Aten *n)
{
    Parts z;
    return complex_own_parts(n, &z) ? map2(n, OP_atan2, z.im, z.re) : NULL;
}

/* z / |z|, and 0 for 0 */
Value *
complex_sign(Aten *n)
{
    Parts z;
    if (!complex_own_parts(n, &z)) {
        return NULL;
    }
    Value *size = size_of(n, z), *none = number(n, 0), *zero = map2(n, OP_eq, size, none);
    return complex_joined(n, (Parts){map3(n, OP_where, zero, none, map2(n, OP_div, z.re, size)),
                                     map3(n, OP_where, zero, none, map2(n, OP_div, z.im, size))});
}

/* ---- truth ---- */

/* Two complex numbers are equal if both parts are; they are compared in the larger dtype of the
 * arguments. */
Value *
complex_compared(Aten *n)
{
    Parts a, b;
    Dtype dtype = DT_f32;
    for (int k = 0; k < 2; k++) {
        const Arg *x = arg_at(n, k);
        bool tensor = x->kind == ARG_TENSOR;
        dtype = tensor && (x->v->type->dtype == DT_c128 || x->v->type->dtype == DT_f64) ? DT_f64
                                                                                        : dtype;
    }
    const Type *t = type_with(n->cx, n->type, dtype);
    if (!complex_parts_of(n, arg_at(n, 0), t, &a) || !complex_parts_of(n, arg_at(n, 1), t, &b)) {
        return NULL;
    }
    return map2(n, n->op == OP_eq ? OP_bit_and : OP_bit_or, map2(n, n->op, a.re, b.re),
                map2(n, n->op, a.im, b.im));
}

/* Computes isnan and isinf, which are true if they are true of either part. */
Value *
complex_either(Aten *n)
{
    Parts z;
    return complex_own_parts(n, &z) ? map2(n, OP_bit_or, map1(n, n->op, z.re), map1(n, n->op, z.im))
                                    : NULL;
}
