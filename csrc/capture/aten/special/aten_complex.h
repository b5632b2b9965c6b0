/* Complex numbers by their parts: aten_complex.c and aten_complex_math.c. */
#ifndef DLC_ATEN_COMPLEX_H
#define DLC_ATEN_COMPLEX_H

#include "capture/aten/aten_formula.h"

#define OR(a, b) map2(n, OP_bit_or, a, b)
#define NOT(a) map1(n, OP_not, a)
#define HYPOT(a, b) map2(n, OP_hypot, a, b)
#define ATAN2(a, b) map2(n, OP_atan2, a, b)
#define SIGN_OF(a, b) map2(n, OP_copysign, a, b)
#define ISINF(a) map1(n, OP_isinf, a)
#define FINITE(a) LT(ABS(a), NUM(INFINITY))
#define IS_ZERO(a) EQ(a, NUM(0))

/* The two parts, tensors of one type. */
typedef struct {
    Value *re, *im;
} Parts;

/* ---- aten_complex.c ---- */

Value *complex_joined(Aten *n, Parts z);
/* A constant as a tensor: the parts of a complex number have types of their own. */
Value *complex_typed(Aten *n, Value *v, const Type *t);
/* The type of the parts of a complex result; NULL when it is not complex. */
const Type *complex_part_type(Aten *n);
/* The parts of an argument as tensors of the real type t, and false when it has none. */
bool complex_parts_of(Aten *n, const Arg *a, const Type *t, Parts *out);
/* The parts of arguments 0 and 1 in the dtype of the result. */
bool complex_two_parts(Aten *n, Parts *a, Parts *b);
/* The parts of argument 0, a complex tensor, whatever the result is. */
bool complex_own_parts(Aten *n, Parts *z);

/* ---- aten_complex_math.c: builders, called as those of aten.def ---- */

Parts complex_unit(Aten *n, const Type *t);             /* 1 */
Parts complex_times(Aten *n, Parts a, Parts b);
Parts complex_over(Aten *n, Parts a, Parts b);
Value *complex_product(Aten *n);
Value *complex_quotient(Aten *n);
Value *complex_sum_of_two(Aten *n);
Value *complex_difference_from(Aten *n);
Value *complex_inverse(Aten *n);
Value *complex_squared(Aten *n);
Value *complex_sum_with_product(Aten *n);
Value *complex_between(Aten *n);
Value *complex_absolute(Aten *n);
Value *complex_direction(Aten *n);
Value *complex_sign(Aten *n);
Value *complex_compared(Aten *n);
Value *complex_either(Aten *n);

/* ---- aten_complex_functions.c ---- */

/* A constant in the type of v: a choice needs an arm that has one. */
Value *complex_like(Aten *n, const Value *v, double f);
/* Is the result complex64? Its intermediate values in float64 do not overflow. */
bool complex_is_narrow(const Aten *n);
/* A function of argument 0, which it gets in its own dtype or in float64; NULL when that or the
 * result is not complex. */
Value *complex_map(Aten *n, bool in_double, Parts (*f)(Aten *n, Parts z));
/* x nearer to 0 where its exponential might overflow: that is `more` times smaller. */
Value *complex_without_excess(Aten *n, Value *x, Value **more);
Value *complex_exp(Aten *n);
Value *complex_exp2(Aten *n);
Value *complex_expm1(Aten *n);
Value *complex_log(Aten *n);                            /* log2 and log10 too */
Value *complex_log1p(Aten *n);
Value *complex_logaddexp(Aten *n);
Value *complex_sqrt(Aten *n);
Value *complex_rsqrt(Aten *n);
Value *complex_power(Aten *n);
Value *complex_power_of_two(Aten *n);
Value *complex_sigmoid(Aten *n);
Value *complex_silu(Aten *n);
Value *complex_sigmoid_backward(Aten *n);
Value *complex_tanh_backward(Aten *n);

/* ---- aten_complex_trig.c ---- */

Value *complex_sinh(Aten *n);
Value *complex_cosh(Aten *n);
Value *complex_tanh(Aten *n);
Value *complex_sin(Aten *n);
Value *complex_cos(Aten *n);
Value *complex_tan(Aten *n);
Value *complex_sinc(Aten *n);
Value *complex_asin(Aten *n);
Value *complex_acos(Aten *n);                           /* acosh too */
Value *complex_asinh(Aten *n);
Value *complex_atan(Aten *n);
Value *complex_atanh(Aten *n);

#endif
