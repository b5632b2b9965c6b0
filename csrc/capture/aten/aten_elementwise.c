/* Elementwise overloads that are one op of the IR, or nearly.
 *
 * An op's dtype rule says how its operands are promoted: comparisons happen in the dtype that
 * torch.result_type finds, predicates in the operand's own, logic on truth values; all else happens
 * in the dtype of the result, which the graph knows. */
#include "aten.h"

#include <float.h>
#include <math.h>
#include <string.h>

static DtypeClass
class_of(Dtype dtype)
{
    return dtype_info[dtype].class;
}

bool
is_half(Dtype dtype)
{
    return dtype == DT_f16 || dtype == DT_bf16;
}

Dtype
wide(Dtype dtype)
{
    return is_half(dtype) ? DT_f32 : dtype;
}

/* ---- operands ---- */

static bool
holds_int(Dtype dtype, int64_t i)
{
    int bits = dtype_info[dtype].bytes * 8;
    if (dtype == DT_u8) {
        return i >= 0 && i <= UINT8_MAX;
    }
    return bits == 64 || (i >= -(INT64_C(1) << (bits - 1)) && i < INT64_C(1) << (bits - 1));
}

/* A constant in the dtype.  Eager raises an error for one that does not fit: such a call is left to
 * it.  In bool, it is a truth value. */
static Value *
constant(Aten *n, const Arg *a, Dtype dtype)
{
    if (dtype == DT_bool) {
        return build_int(n->b, a->kind == ARG_FLOAT ? a->f != 0 : a->i != 0);
    }
    if (class_of(dtype) == CLASS_FLOAT) {
        double f = arg_float(a, 0);
        double most = dtype == DT_f16 ? 65504 : dtype == DT_f64 ? DBL_MAX : FLT_MAX;
        return isfinite(f) && fabs(f) > most ? NULL : build_float(n->b, f);
    }
    if (a->kind == ARG_FLOAT && !(fabs(a->f) < 0x1p62 && a->f == trunc(a->f))) {
        return NULL;
    }
    int64_t i = a->kind == ARG_FLOAT ? (int64_t)a->f : a->i;
    return holds_int(dtype, i) ? build_int(n->b, i) : NULL;
}

Value *
operand(Aten *n, const Arg *a, const Type *t)
{
    if (arg_is_number(a)) {
        return constant(n, a, t->dtype);
    }
    if (a->kind != ARG_TENSOR && a->kind != ARG_NUMBER && a->kind != ARG_DIM) {
        return NULL;
    }
    Value *v = a->kind == ARG_DIM ? build_size(n->b, a->d) : a->v;
    if (t->dtype == DT_bool && v->type->dtype != DT_bool) {
        v = to_bool(n, v);
    }
    return build_broadcast(n->b, in_dtype(n, v, t->dtype), t->rank, t->dims);
}

Value *
wide_operand(Aten *n, int k)
{
    const Type *t = type_with(n->cx, n->type, wide(n->type->dtype));
    return class_of(t->dtype) == CLASS_FLOAT ? operand(n, arg_at(n, k), t) : NULL;
}

Value *
to_bool(Aten *n, Value *v)
{
    return v->type->dtype == DT_bool ? v : build_map(n->b, OP_ne, v, build_int(n->b, 0), NULL);
}

Value *
number(Aten *n, double f)
{
    return build_float(n->b, f);
}

Value *
map1(Aten *n, Op op, Value *a)
{
    return build_map(n->b, op, a, NULL, NULL);
}

Value *
map2(Aten *n, Op op, Value *a, Value *b)
{
    return build_map(n->b, op, a, b, NULL);
}

Value *
map3(Aten *n, Op op, Value *a, Value *b, Value *c)
{
    return build_map(n->b, op, a, b, c);
}

Value *
polynomial(Aten *n, Value *x, const double *c, int count)
{
    Value *sum = number(n, c[0]);
    for (int k = 1; k < count; k++) {
        sum = map2(n, OP_add, map2(n, OP_mul, sum, x), number(n, c[k]));
    }
    return sum;
}

/* ---- promotion: tensors with axes count before scalars, and these before Python's numbers ---- */

static Dtype
join(Dtype a, Dtype b)
{
    if (a == b || b == DTYPE_COUNT) {
        return a;
    }
    if (a == DTYPE_COUNT) {
        return b;
    }
    if (class_of(a) != class_of(b)) {
        return class_of(a) > class_of(b) ? a : b;
    }
    if (is_half(a) && is_half(b)) {
        return DT_f32;
    }
    if ((a == DT_u8 || b == DT_u8) && (a == DT_i8 || b == DT_i8)) {
        return DT_i16;
    }
    return dtype_info[a].bytes > dtype_info[b].bytes ? a : b;
}

/* A lower category only counts when its class is the higher one. */
static Dtype
join_category(Dtype high, Dtype low)
{
    if (high == DTYPE_COUNT || low == DTYPE_COUNT) {
        return join(high, low);
    }
    return class_of(high) >= class_of(low) ? high : join(high, low);
}

Dtype
promoted(const Aten *n, int first, int last)
{
    Dtype found[3] = {DTYPE_COUNT, DTYPE_COUNT, DTYPE_COUNT};
    for (int k = first; k <= last; k++) {
        const Arg *a = arg_at(n, k);
        if (a->kind == ARG_TENSOR) {
            Dtype *at = &found[a->v->type->rank ? 0 : 1];
            *at = join(*at, a->v->type->dtype);
        } else {
            Dtype own = a->kind == ARG_BOOL                        ? DT_bool
                        : a->kind == ARG_INT || a->kind == ARG_DIM ? DT_i64
                                                                   : n->number;
            found[2] = join(found[2], own);
        }
    }
    return join_category(found[0], join_category(found[1], found[2]));
}

/* ---- one op ---- */

/* The op on truth values that corresponds to `op` on numbers; OP_COUNT: there is none. */
static Op
on_bools(Op op)
{
    switch (op) {
    case OP_add:
    case OP_fmax:
        return OP_bit_or;
    case OP_mul:
    case OP_fmin:
        return OP_bit_and;
    default:
        return OP_COUNT;
    }
}

/* Returns the dtype in which the operation is computed; DTYPE_COUNT declines the node. */
static Dtype
compute_dtype(const Aten *n, DtypeRule rule, int arity)
{
    Dtype result = n->type->dtype;
    switch (rule) {
    case RULE_CMP:
        return promoted(n, 0, arity - 1);
    case RULE_PRED:
        return arg_at(n, 0)->kind == ARG_TENSOR ? arg_tensor(n, 0)->type->dtype : DTYPE_COUNT;
    case RULE_BOOL:
        return DT_bool;
    case RULE_FLOAT:
        return class_of(result) == CLASS_FLOAT ? result : DTYPE_COUNT;
    case RULE_INT:
        return class_of(result) != CLASS_FLOAT ? result : DTYPE_COUNT;
    default:
        return result;
    }
}

/* Does operand k stay in f32?  Eager's products and quotients of f16 and bf16 read a number, and a
 * scalar as second operand, in f32; all other operations round it first. */
static bool
reads_wide(const Aten *n, Op op, int k)
{
    const Arg *a = &n->args[k];
    if (op != OP_mul && op != OP_div && op != OP_div_trunc && op != OP_div_floor) {
        return false;
    }
    if (a->kind == ARG_TENSOR) {
        return k == 1 && a->v->type->rank == 0 && class_of(a->v->type->dtype) == CLASS_FLOAT &&
               !is_half(a->v->type->dtype);
    }
    return a->kind == ARG_INT || a->kind == ARG_FLOAT || a->kind == ARG_NUMBER ||
           a->kind == ARG_DIM;
}

static Dtype
operand_dtype(const Aten *n, Op op, Dtype dtype, int arity)
{
    for (int k = 0; k < arity; k++) {
        if (reads_wide(n, op, k)) {
            return wide(dtype);
        }
    }
    return dtype;
}

/* May the operation raise? Eager raises if an integer is divided by zero. */
static bool
may_trap(Op op, Dtype dtype, const Value *divisor)
{
    bool whole = class_of(dtype) != CLASS_FLOAT && !(op_info[op].flags & OPF_TOTAL);
    return whole && !(value_is_const(divisor) && divisor->literal.i != 0);
}

Value *
each(Aten *n, Op op)
{
    DtypeRule rule = op_info[op].rule;
    int arity = op_info[op].arity;
    if (n->nargs < arity) {
        return NULL;
    }
    Dtype dtype = compute_dtype(n, rule, arity);
    if (dtype == DTYPE_COUNT || (op == OP_nextafter && is_half(dtype))) {
        return NULL; /* a neighbour in f32 is none in f16 */
    }
    if (dtype == DT_bool && (op == OP_shl || op == OP_shr)) {
        return NULL; /* eager has none of truth values */
    }
    if (dtype == DT_bool && rule == RULE_NUM) {
        op = on_bools(op);
        if (op == OP_COUNT) {
            return NULL;
        }
    }
    const Type *t = type_with(n->cx, n->type, operand_dtype(n, op, dtype, arity));
    Value *v[3] = {NULL, NULL, NULL};
    bool typed = false;
    for (int k = 0; k < arity; k++) {
        v[k] = operand(n, &n->args[k], t);
        if (!v[k]) {
            return NULL;
        }
        typed |= !value_is_const(v[k]);
    }
    if (!typed || (arity == 2 && may_trap(op, dtype, v[1]))) {
        return NULL;
    }
    if (is_half(t->dtype) && (op == OP_div_trunc || op == OP_div_floor)) {
        return half_quotient(n, op, v[0], v[1]);
    }
    return map3(n, op, v[0], v[1], v[2]);
}

Value *
aten_each(Aten *n)
{
    return each(n, n->op);
}

/* floor and its like leave integers as they are, and eager has none of truth values. */
Value *
aten_rounding(Aten *n)
{
    if (n->type->dtype == DT_bool) {
        return NULL;
    }
    bool whole = class_of(n->type->dtype) != CLASS_FLOAT;
    return whole ? operand(n, &n->args[0], n->type) : each(n, n->op);
}

/* Computes isnan and isinf, which are false for every integer. */
Value *
aten_never_of_ints(Aten *n)
{
    return class_of(arg_tensor(n, 0)->type->dtype) == CLASS_FLOAT ? each(n, n->op)
                                                                  : build_int(n->b, 0);
}

Value *
aten_signbit(Aten *n)
{
    Value *x = arg_tensor(n, 0), *none = build_int(n->b, 0);
    if (class_of(x->type->dtype) == CLASS_FLOAT) {
        return each(n, OP_signbit);
    }
    return x->type->dtype == DT_bool ? none : map2(n, OP_lt, x, none);
}

/* Computes the sign; that of a truth value is the value itself. */
Value *
aten_sign(Aten *n)
{
    return n->type->dtype == DT_bool ? arg_tensor(n, 0) : each(n, OP_sign);
}

/* The same; also for complex numbers, for which eager has no `sign`. */
Value *
aten_sgn(Aten *n)
{
    return aten_sign(n);
}

Value *
aten_bit_not(Aten *n)
{
    return n->type->dtype == DT_bool ? each(n, OP_not) : each(n, OP_bit_not);
}

/* Computes logical_and, logical_or and logical_xor on the operands as truth values. */
Value *
aten_logical(Aten *n)
{
    const Type *t = type_with(n->cx, n->type, DT_bool);
    Value *a = operand(n, &n->args[0], t), *b = operand(n, &n->args[1], t);
    return a && b ? map2(n, n->op, a, b) : NULL;
}

/* ---- choices ---- */

static Value *
choose(Aten *n, const Arg *condition, const Arg *yes, const Arg *no)
{
    if (condition->kind != ARG_TENSOR || condition->v->type->dtype != DT_bool) {
        return NULL;
    }
    Value *c = operand(n, condition, type_with(n->cx, n->type, DT_bool));
    Value *a = operand(n, yes, n->type), *b = operand(n, no, n->type);
    if (!a || !b) {
        return NULL;
    }
    if (value_is_const(a) && value_is_const(b)) {
        a = build_const(n->b, n->type, a->literal);
    }
    return map3(n, OP_where, c, a, b);
}

Value *
aten_where(Aten *n)
{
    return choose(n, &n->args[0], &n->args[1], &n->args[2]);
}

Value *
aten_masked_fill(Aten *n)
{
    return choose(n, &n->args[1], &n->args[2], &n->args[0]);
}

/* min(max(x, low), high), either end may be None.  Of truth values eager has none. */
Value *
aten_clamp(Aten *n)
{
    if (n->type->dtype == DT_bool) {
        return NULL;
    }
    Value *v = operand(n, &n->args[0], n->type);
    for (int k = 1; k <= 2; k++) {
        const Arg *end = n->op == OP_COUNT ? arg_at(n, k) : arg_at(n, 1);
        Op op = n->op == OP_COUNT ? (k == 1 ? OP_maximum : OP_minimum) : n->op;
        if (end->kind == ARG_NONE) {
            continue;
        }
        Value *bound = operand(n, end, n->type);
        if (!bound) {
            return NULL;
        }
        v = map2(n, op, v, bound);
        if (n->op != OP_COUNT) {
            break;
        }
    }
    return v;
}

/* ---- casts and copies: the dtype of the result says it all ---- */

Value *
aten_cast(Aten *n)
{
    return operand(n, &n->args[0], n->type);
}

/* Computes copy(self, src), which is src in the type of self. */
Value *
aten_copy(Aten *n)
{
    return operand(n, &n->args[1], n->type);
}
