/* Exact algebra: an op on these operands is bit for bit something simpler.
 *
 * Exact means for every value, NaN, infinities and both zeros included (the payload of a NaN is
 * not part of a value).  So x + -0.0 is x but x + 0.0 is not (x may be -0.0), x - x is 0 for
 * integers alone, and maximum(a, b) is not maximum(b, a) for floats (-0.0 and 0.0 compare
 * equal).  Nothing is reassociated.  Each rule is a line of one of the functions below; the op
 * decides which is asked. */
#include "build.h"

#include <math.h>
#include <string.h>

/* ---- what an operand is ---- */

static bool
is_float(const Type *t)
{
    return dtype_info[t->dtype].class == CLASS_FLOAT;
}

static bool
is_int(const Value *v, int64_t i)
{
    return value_is_const(v) && v->literal.is_int && v->literal.i == i;
}

/* Is v the constant f, with the same sign of zero? */
static bool
is_real(const Value *v, double f)
{
    double have = v->literal.is_int ? (double)v->literal.i : v->literal.f;
    return value_is_const(v) && memcmp(&have, &f, sizeof f) == 0;
}

/* Is v the constant one, as an integer or as a float? */
static bool
is_one(const Value *v)
{
    return is_int(v, 1) || is_real(v, 1.0);
}

/* The operand of v when v is `op` of something. */
static Value *
under(const Value *v, Op op)
{
    return v->def && v->def->op == op ? v->def->args[0] : NULL;
}

static Value *
constant(Build *b, const Type *t, int64_t i)
{
    return build_const(b, t, (Literal){.is_int = true, .i = i});
}

/* ---- arithmetic ---- */

/* The x of x + zero: -0.0 for floats. */
static bool
adds_nothing(const Value *v, const Type *t)
{
    return is_float(t) ? is_real(v, -0.0) : is_int(v, 0);
}

static Value *
algebra_add(Build *b, Value *x, Value *y, const Type *t)
{
    Value *n = under(y, OP_neg), *m = under(x, OP_neg);
    return adds_nothing(y, t)   ? x
           : adds_nothing(x, t) ? y
           : n                  ? build_map(b, OP_sub, x, n, NULL)
           : m                  ? build_map(b, OP_sub, y, m, NULL)
                                : NULL;
}

static Value *
algebra_sub(Build *b, Value *x, Value *y, const Type *t)
{
    Value *n = under(y, OP_neg);
    return (is_float(t) ? is_real(y, 0.0) : is_int(y, 0)) ? x
           : !is_float(t) && x == y                       ? constant(b, t, 0)
           : n                                            ? build_map(b, OP_add, x, n, NULL)
                                                          : NULL;
}

static Value *
algebra_mul(Build *b, Value *x, Value *y, const Type *t)
{
    Value *n = under(x, OP_neg), *m = under(y, OP_neg);
    if (!is_float(t) && (is_int(x, 0) || is_int(y, 0))) {
        return constant(b, t, 0);
    }
    return is_one(y) ? x : is_one(x) ? y : n && m ? build_map(b, OP_mul, n, m, NULL) : NULL;
}

/* x / 2^k is x * 2^-k: both round the same real number. */
static Value *
algebra_div(Build *b, Value *x, Value *y)
{
    int e;
    double f = y->literal.is_int ? (double)y->literal.i : y->literal.f;
    if (!value_is_const(y) || f == 0 || fabs(frexp(f, &e)) != 0.5 || e < -12 || e > 12) {
        return NULL;            /* 2^-k is a number of every dtype within these */
    }
    return f == 1 ? x : build_map(b, OP_mul, x, build_float(b, 1 / f), NULL);
}

/* ---- bits, truth ---- */

static int64_t
all_ones(const Type *t)
{
    return t->dtype == DT_bool ? 1 : t->dtype == DT_u8 ? 255 : -1;
}

static Value *
algebra_bits(Build *b, Op op, Value *x, Value *y, const Type *t)
{
    if (value_is_const(x)) {
        Value *other = x;
        x = y;
        y = other;
    }
    switch (op) {
    case OP_bit_and:
        return is_int(y, all_ones(t)) ? x : is_int(y, 0) ? constant(b, t, 0) : NULL;
    case OP_bit_or:
        return is_int(y, 0) ? x : is_int(y, all_ones(t)) ? constant(b, t, all_ones(t)) : NULL;
    default:                    /* bit_xor */
        return is_int(y, 0) ? x
               : x == y     ? constant(b, t, 0)
               : !is_int(y, all_ones(t))
                   ? NULL
                   : build_map(b, t->dtype == DT_bool ? OP_not : OP_bit_not, x, NULL, NULL);
    }
}

/* Is v a number of a dtype without negative ones? */
static bool
is_unsigned(const Value *v)
{
    return !value_is_const(v) && (v->type->dtype == DT_bool || v->type->dtype == DT_u8);
}

/* Is c the least, or the largest, number of the dtype of v, which has no negative ones?  A constant
 * wraps to the dtype. */
static bool
is_end(const Value *v, const Value *c, bool largest)
{
    if (!is_unsigned(v) || !value_is_const(c) || !c->literal.is_int) {
        return false;
    }
    bool truth = v->type->dtype == DT_bool;
    int n = truth ? c->literal.i != 0 : (int)(c->literal.i & 255);
    return n == (!largest ? 0 : truth ? 1 : 255);
}

/* Beside an end of its dtype, a comparison says the same of any number, and C compilers warn. */
static Value *
algebra_compare(Build *b, Op op, Value *x, Value *y, const Type *t)
{
    if (is_end(x, y, op == OP_le || op == OP_gt) || is_end(y, x, op == OP_ge || op == OP_lt)) {
        if (op != OP_eq && op != OP_ne) {
            return constant(b, t, op == OP_ge || op == OP_le);
        }
    }
    if (x != y) {
        return NULL;
    }
    if (op == OP_lt || op == OP_gt) {
        return constant(b, t, 0);
    }
    return is_float(x->type) ? NULL : constant(b, t, op != OP_ne);
}

static Value *
algebra_where(Build *b, Value *cond, Value *x, Value *y)
{
    Value *n = under(cond, OP_not);
    Value *one = build_literal_of(x), *other = build_literal_of(y);
    bool same = x == y || (one && other && literal_same(one->literal, other->literal));
    if (same || value_is_const(cond)) {
        return same || cond->literal.i ? x : y;
    }
    return n ? build_map(b, OP_where, n, y, x) : NULL;
}

/* ---- unary ---- */

static bool
rounds(Op op)
{
    return op == OP_floor || op == OP_ceil || op == OP_trunc || op == OP_round;
}

static Value *
algebra_unary(Build *b, Op op, Value *x)
{
    Value *inner = x->def && x->def->nargs == 1 ? x->def->args[0] : NULL;
    Op of = inner ? x->def->op : OP_COUNT;
    if ((op == OP_neg || op == OP_not || op == OP_bit_not) && of == op) {
        return inner;
    }
    if (op == OP_abs && of == OP_neg && x->type->dtype != DT_u8) { /* -1 is 255 there */
        return build_map(b, OP_abs, inner, NULL, NULL);
    }
    return (op == OP_abs && of == OP_abs) || (rounds(op) && rounds(of)) ? x : NULL;
}

/* Bits of the magnitude that a dtype holds exactly. */
static int
exact_bits(Dtype dtype)
{
    switch (dtype) {
    case DT_bool:
        return 1;
    case DT_u8:
    case DT_bf16:
        return 8;
    case DT_i8:
        return 7;
    case DT_f16:
        return 11;
    case DT_i16:
        return 15;
    case DT_i32:
        return 31;
    case DT_f32:
        return 24;
    case DT_f64:
        return 53;
    default:
        return 63;
    }
}

/* Is every value of one dtype a value of the other? */
static bool
lossless(Dtype from, Dtype to)
{
    DtypeClass a = dtype_info[from].class, c = dtype_info[to].class;
    if (from == to || a == CLASS_BOOL) {
        return true;
    }
    if (c == CLASS_BOOL || (a == CLASS_FLOAT && c == CLASS_INT)) {
        return false;
    }
    if (a == CLASS_FLOAT) {
        return dtype_info[from].bytes < dtype_info[to].bytes;
    }
    return exact_bits(to) >= exact_bits(from) && !(to == DT_u8);
}

/* cast of cast, straight from x when the dtype between loses nothing. */
static Value *
algebra_cast(Build *b, Value *x, Dtype to)
{
    Value *inner = under(x, OP_cast);
    if (!inner) {
        return NULL;
    }
    Dtype from = inner->type->dtype, mid = x->type->dtype;
    DtypeClass c0 = dtype_info[from].class, c1 = dtype_info[mid].class;
    DtypeClass c2 = dtype_info[to].class;
    /* A float out of range becomes another integer than an integer that wraps. */
    bool wraps = c0 == CLASS_INT && c1 == CLASS_FLOAT && c2 == CLASS_INT && !lossless(from, to);
    bool narrows = c0 == CLASS_INT && c1 == CLASS_INT && c2 == CLASS_INT &&
                   dtype_info[mid].bytes >= dtype_info[to].bytes;
    return (lossless(from, mid) && !wraps) || narrows ? build_cast(b, inner, to) : NULL;
}

/* ---- complex numbers ---- */

/* If x is complex(re, im), returns the part that `op` asks for. */
static Value *
algebra_part(Op op, const Value *x)
{
    bool made = x->def && x->def->op == OP_complex;
    return made ? x->def->args[op == OP_imag] : NULL;
}

/* Simplifies complex(real(z), imag(z)) to z. */
static Value *
algebra_complex(const Value *re, const Value *im)
{
    Value *z = under(re, OP_real);
    return z && z == under(im, OP_imag) ? z : NULL;
}

/* ---- all ---- */

Value *
algebra_map(Build *b, Op op, Value **args, const Type *t)
{
    Value *x = args[0], *y = args[1];
    if ((op_info[op].flags & OPF_IDEMPOTENT) && x == y) {
        return x;
    }
    switch (op) {
    case OP_add:
        return algebra_add(b, x, y, t);
    case OP_sub:
        return algebra_sub(b, x, y, t);
    case OP_mul:
        return algebra_mul(b, x, y, t);
    case OP_div:
        return algebra_div(b, x, y);
    case OP_div_trunc:
    case OP_div_floor:
        return !is_float(t) && is_int(y, 1) ? x : NULL;
    case OP_shl:
    case OP_shr:
        return is_int(y, 0) ? x : NULL;
    case OP_bit_and:
    case OP_bit_or:
    case OP_bit_xor:
        return algebra_bits(b, op, x, y, t);
    case OP_eq:
    case OP_ne:
    case OP_lt:
    case OP_le:
    case OP_gt:
    case OP_ge:
        return algebra_compare(b, op, x, y, t);
    case OP_where:
        return algebra_where(b, x, y, args[2]);
    case OP_cast:
        return algebra_cast(b, x, t->dtype);
    case OP_bitcast:
        x = under(x, OP_bitcast);
        return x && x->type == t ? x : NULL;
    case OP_real:
    case OP_imag:
        return algebra_part(op, x);
    case OP_complex:
        return algebra_complex(x, y);
    default:
        return op_info[op].arity == 1 ? algebra_unary(b, op, x) : NULL;
    }
}

void
algebra_order(Op op, Value **args)
{
    /* If both are equal, 0.0 and -0.0 still differ, so their order matters. */
    bool idempotent = op_info[op].flags & OPF_IDEMPOTENT;
    const Type *t = args[0]->type ? args[0]->type : args[1] ? args[1]->type : NULL;
    if (!(op_info[op].flags & OPF_COMMUTATIVE) || op == OP_hypot ||
        (idempotent && t && is_float(t))) {
        return;
    }
    if (value_is_const(args[0]) || (!value_is_const(args[1]) && args[1]->id < args[0]->id)) {
        Value *first = args[0];
        args[0] = args[1];
        args[1] = first;
    }
}
