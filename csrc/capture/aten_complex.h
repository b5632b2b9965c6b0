/* Complex numbers by their parts: aten_complex.c and aten_complex_math.c. */
#ifndef DLC_ATEN_COMPLEX_H
#define DLC_ATEN_COMPLEX_H

#include "aten.h"

/* The two parts, tensors of one type. */
typedef struct { Value *re, *im; } Parts;

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
Value *complex_product(Aten *n);
Value *complex_quotient(Aten *n);
Value *complex_sum_of_two(Aten *n);
Value *complex_difference_from(Aten *n);
Value *complex_inverse(Aten *n);
Value *complex_squared(Aten *n);
Value *complex_power(Aten *n);
Value *complex_sum_with_product(Aten *n);
Value *complex_between(Aten *n);
Value *complex_absolute(Aten *n);
Value *complex_direction(Aten *n);
Value *complex_sign(Aten *n);
Value *complex_compared(Aten *n);
Value *complex_either(Aten *n);

#endif
