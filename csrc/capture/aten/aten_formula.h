/* Formulas as one writes them: each of these is a let, built for the node `n` at hand. */
#ifndef DLC_ATEN_FORMULA_H
#define DLC_ATEN_FORMULA_H

#include "aten.h"

#define NUM(f) number(n, f)
#define NEG(a) map1(n, OP_neg, a)
#define ABS(a) map1(n, OP_abs, a)
#define SQRT(a) map1(n, OP_sqrt, a)
#define EXP(a) map1(n, OP_exp, a)
#define EXPM1(a) map1(n, OP_expm1, a)
#define LOG(a) map1(n, OP_log, a)
#define LOG1P(a) map1(n, OP_log1p, a)
#define SIN(a) map1(n, OP_sin, a)
#define COS(a) map1(n, OP_cos, a)
#define TAN(a) map1(n, OP_tan, a)
#define TANH(a) map1(n, OP_tanh, a)
#define SIGMOID(a) map1(n, OP_sigmoid, a)
#define ERF(a) map1(n, OP_erf, a)
#define ERFC(a) map1(n, OP_erfc, a)
#define PHI(a) map1(n, OP_phi, a)
#define TRUNC(a) map1(n, OP_trunc, a)
#define ADD(a, b) map2(n, OP_add, a, b)
#define SUB(a, b) map2(n, OP_sub, a, b)
#define MUL(a, b) map2(n, OP_mul, a, b)
#define DIV(a, b) map2(n, OP_div, a, b)
#define MAX(a, b) map2(n, OP_maximum, a, b)
#define MIN(a, b) map2(n, OP_minimum, a, b)
#define LT(a, b) map2(n, OP_lt, a, b)
#define LE(a, b) map2(n, OP_le, a, b)
#define GT(a, b) map2(n, OP_gt, a, b)
#define GE(a, b) map2(n, OP_ge, a, b)
#define EQ(a, b) map2(n, OP_eq, a, b)
#define AND(a, b) map2(n, OP_bit_and, a, b)
#define WHERE(c, a, b) map3(n, OP_where, c, a, b)
/* A polynomial's coefficients and their number. */
#define TABLE(c) c, (int)(sizeof c / sizeof *c)

#endif
