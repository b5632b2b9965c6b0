/* Overloads on complex numbers: how the builders of aten.def are used if an operand is complex.
 *
 * The IR moves complex numbers and decomposes them (real, imag, complex); their arithmetic is that
 * of their parts, written here with the formulas of eager's kernels, so that infinities and NaN
 * come out where eager has them.  A builder that only moves elements takes complex ones as they
 * are; one that is linear or selects runs for each part separately; the others have a separate form
 * here. An overload in none of these rows remains a call. */
#include "aten_complex.h"
#include "capture/torch/torch.h"

#include <string.h>

static bool
is_complex(const Type *t)
{
    return t && dtype_info[t->dtype].class == CLASS_COMPLEX;
}

static Value *
component(Aten *n, Value *z, bool imaginary)
{
    return map1(n, imaginary ? OP_imag : OP_real, z);
}

Value *
complex_joined(Aten *n, Parts z)
{
    return map2(n, OP_complex, z.re, z.im);
}

/* ---- operands ---- */

Value *
complex_typed(Aten *n, Value *v, const Type *t)
{
    return v && value_is_const(v) ? build_const(n->b, t, v->literal) : v;
}

bool
complex_parts_of(Aten *n, const Arg *a, const Type *t, Parts *out)
{
    Arg re = *a, im = {.kind = ARG_INT};
    if (a->kind == ARG_COMPLEX) {
        re = (Arg){.kind = ARG_FLOAT, .f = a->f};
        im = (Arg){.kind = ARG_FLOAT, .f = a->im};
    } else if (a->kind == ARG_TENSOR && is_complex(a->v->type)) {
        re.v = component(n, a->v, false);
        im = re;
        im.v = component(n, a->v, true);
    }
    out->re = complex_typed(n, operand(n, &re, t), t);
    out->im = complex_typed(n, operand(n, &im, t), t);
    return out->re && out->im;
}

const Type *
complex_part_type(Aten *n)
{
    return is_complex(n->type) ? type_with(n->cx, n->type, dtype_part(n->type->dtype)) : NULL;
}

bool
complex_two_parts(Aten *n, Parts *a, Parts *b)
{
    const Type *t = complex_part_type(n);
    return t && complex_parts_of(n, arg_at(n, 0), t, a) && complex_parts_of(n, arg_at(n, 1), t, b);
}

bool
complex_own_parts(Aten *n, Parts *z)
{
    const Arg *a = arg_at(n, 0);
    bool complex = a->kind == ARG_TENSOR && is_complex(a->v->type);
    if (complex) {
        *z = (Parts){component(n, a->v, false), component(n, a->v, true)};
    }
    return complex;
}

/* ---- each part by itself ---- */

static Arg part_of_arg(Aten *n, const Arg *a, bool imaginary, bool is_value);

static Arg
parts_of_list(Aten *n, const Arg *a, bool imaginary, bool is_value)
{
    Arg *items = cx_alloc(n->cx, (size_t)(a->n + 1) * sizeof *items);
    for (int k = 0; k < a->n; k++) {
        items[k] = part_of_arg(n, &a->items[k], imaginary, is_value);
    }
    return (Arg){.kind = ARG_LIST, .n = a->n, .items = items};
}

/* An argument for the builder of one part.  The imaginary part of a real value is 0; an argument
 * that is not a value (an axis, an index, a mask) is the same for both. */
static Arg
part_of_arg(Aten *n, const Arg *a, bool imaginary, bool is_value)
{
    Arg out = *a;
    switch (a->kind) {
    case ARG_LIST:
        return parts_of_list(n, a, imaginary, is_value);
    case ARG_COMPLEX:
        return (Arg){.kind = ARG_FLOAT, .f = imaginary ? a->im : a->f};
    case ARG_DTYPE:
        out.dtype = dtype_component(a->dtype);
        return out;
    case ARG_TENSOR:
        if (is_complex(a->v->type)) {
            out.v = component(n, a->v, imaginary);
        } else if (is_value && imaginary) {
            const Type *t = type_with(n->cx, a->v->type, dtype_part(n->type->dtype));
            out.v = build_const(n->b, t, (Literal){.is_int = true});
        }
        return out;
    case ARG_BOOL:
    case ARG_INT:
    case ARG_FLOAT:
    case ARG_DIM:
    case ARG_NUMBER:
        return is_value && imaginary ? (Arg){.kind = ARG_INT} : out;
    default:
        return out;
    }
}

static Value *
one_part(Aten *n, const AtenRow *row, const char *values, bool imaginary)
{
    const Type *t = complex_part_type(n);
    Arg *args = cx_alloc(n->cx, (size_t)(n->nargs + 1) * sizeof *args);
    for (int k = 0; k < n->nargs; k++) {
        bool is_value = strchr(values, '0' + k) != NULL;
        if (n->args[k].kind == ARG_COMPLEX && !is_value) {
            return NULL;
        }
        args[k] = part_of_arg(n, &n->args[k], imaginary, is_value);
    }
    Value *made = NULL;
    Aten one = *n;
    one.args = args;
    one.op = row->op;
    one.type = t;
    one.types = &t;
    one.res = &made;
    made = complex_typed(n, row->build(&one), t);
    made = made ? build_cast(n->b, made, t->dtype) : NULL;
    return made && made->type == t ? made : NULL;
}

/* The row's builder for the real parts and again for the imaginary ones; values: the positions of
 * the arguments that have parts. */
static Value *
by_parts(Aten *n, const AtenRow *row, const char *values)
{
    if (!complex_part_type(n) || n->nres != 1) {
        return NULL;
    }
    Parts z = {one_part(n, row, values, false), one_part(n, row, values, true)};
    return z.re && z.im ? complex_joined(n, z) : NULL;
}

/* ---- casts, numbers made of their parts ---- */

/* To a complex dtype, to bool, or, without the imaginary part, to a real one. */
static Value *
cast_of(Aten *n, const Arg *a)
{
    const Type *t = complex_part_type(n);
    Parts z;
    if (a->kind == ARG_TENSOR && a->v->type == n->type) {
        return a->v;
    }
    if (t) {
        return complex_parts_of(n, a, t, &z) ? complex_joined(n, z) : NULL;
    }
    if (a->kind != ARG_TENSOR || !is_complex(a->v->type)) {
        return NULL;
    }
    Value *re = component(n, a->v, false);
    if (n->type->dtype == DT_bool) {
        re = map2(n, OP_bit_or, to_bool(n, re), to_bool(n, component(n, a->v, true)));
    }
    return operand(n, &(Arg){.kind = ARG_TENSOR, .v = re}, n->type);
}

static Value *
converted(Aten *n)
{
    return cast_of(n, arg_at(n, 0));
}

static Value *
copied(Aten *n)
{
    return cast_of(n, arg_at(n, 1));
}

static Value *
ones(Aten *n)
{
    const Type *t = complex_part_type(n);
    return t ? complex_joined(n, complex_unit(n, t)) : NULL;
}

static Value *
identity(Aten *n)
{
    const Type *t = complex_part_type(n);
    Aten of_parts = *n;
    of_parts.type = t;
    return t ? complex_joined(n, (Parts){aten_eye(&of_parts), complex_typed(n, number(n, 0), t)})
             : NULL;
}

/* cat and stack, for tensors in the dtype of the result. */
static Value *
gathered(Aten *n, AtenBuilder build)
{
    const Arg *list = arg_at(n, 0);
    if (!is_complex(n->type) || list->kind != ARG_LIST) {
        return NULL;
    }
    Arg *items = cx_alloc(n->cx, (size_t)(list->n + 1) * sizeof *items), *args;
    for (int k = 0; k < list->n; k++) {
        if (list->items[k].kind != ARG_TENSOR) {
            return NULL;
        }
        Aten one = *n;
        one.type = type_with(n->cx, list->items[k].v->type, n->type->dtype);
        items[k] = (Arg){.kind = ARG_TENSOR, .v = cast_of(&one, &list->items[k])};
        if (!items[k].v) {
            return NULL;
        }
    }
    args = cx_copy(n->cx, n->args, (size_t)n->nargs * sizeof *args);
    args[0] = (Arg){.kind = ARG_LIST, .n = list->n, .items = items};
    Aten all = *n;
    all.args = args;
    return build(&all);
}

static Value *
joined_along(Aten *n)
{
    return gathered(n, aten_cat);
}

static Value *
stacked(Aten *n)
{
    return gathered(n, aten_stack);
}

/* ---- overloads that are about complex numbers ---- */

Value *
aten_conj(Aten *n)
{
    Parts z;
    return complex_own_parts(n, &z) ? complex_joined(n, (Parts){z.re, map1(n, OP_neg, z.im)})
                                    : arg_tensor(n, 0);
}

/* The two operands, tensors of the parts' dtype: eager refuses any other. */
static bool
equal_parts(Aten *n, Parts *z)
{
    const Type *t = complex_part_type(n);
    for (int k = 0; k < 2; k++) {
        const Arg *a = arg_at(n, k);
        if (!t || !a || a->kind != ARG_TENSOR || a->v->type->dtype != t->dtype) {
            return false;
        }
    }
    z->re = complex_typed(n, operand(n, arg_at(n, 0), t), t);
    z->im = complex_typed(n, operand(n, arg_at(n, 1), t), t);
    return z->re && z->im;
}

/* complex(re, im) */
Value *
aten_complex(Aten *n)
{
    Parts z;
    return equal_parts(n, &z) ? complex_joined(n, z) : NULL;
}

/* polar(size, angle) */
Value *
aten_polar(Aten *n)
{
    Parts z;
    return equal_parts(n, &z)
               ? complex_joined(n, (Parts){map2(n, OP_mul, z.re, map1(n, OP_cos, z.im)),
                                           map2(n, OP_mul, z.re, map1(n, OP_sin, z.im))})
               : NULL;
}

/* The parts side by side along a last axis of two. */
Value *
aten_view_as_real(Aten *n)
{
    Parts z;
    if (!complex_own_parts(n, &z)) {
        return NULL;
    }
    Dim dims[MAX_RANK];
    int rank = n->type->rank;
    memcpy(dims, n->type->dims, (size_t)rank * sizeof *dims);
    dims[rank - 1] = one(n);
    Value *parts[] = {build_reshape(n->b, z.re, rank, dims), build_reshape(n->b, z.im, rank, dims)};
    return build_cat(n->b, 2, parts, rank - 1);
}

Value *
aten_view_as_complex(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    int last = x->type->rank - 1;
    Parts z;
    if (!is_complex(n->type) || last < 0 || dtype_pair(x->type->dtype) != n->type->dtype) {
        return NULL;
    }
    z.re = build_reshape(n->b, part(n, x, last, zero(n), one(n), one(n)), last, x->type->dims);
    z.im = build_reshape(n->b, part(n, x, last, one(n), one(n), one(n)), last, x->type->dims);
    return complex_joined(n, z);
}

/* ---- the rows of aten.def where complex numbers are ---- */

/* How a row's builder with its op is asked: not at all (`moves`: it takes complex numbers as they
 * are), for each part (`values`: the positions of the arguments that have parts), or another in its
 * place. */
typedef struct {
    AtenBuilder build;
    Op op;
    AtenBuilder instead;
    const char *values;
} Way;

#define MOVES(builder) {aten_##builder, OP_COUNT, NULL, NULL}
#define FORMS(builder) {torch_##builder, OP_COUNT, NULL, NULL}
#define PARTS(builder, op, values) {aten_##builder, op, NULL, values}
#define OTHER(builder, op, instead) {aten_##builder, op, instead, NULL}
#define MATH(builder, op, instead) {aten_##builder, op, complex_##instead, NULL}

static const Way ways[] = {
    MOVES(same),
    MOVES(reshape),
    MOVES(expand),
    MOVES(permute),
    MOVES(transpose),
    MOVES(t),
    MOVES(slice),
    MOVES(select),
    MOVES(split),
    MOVES(unbind),
    MOVES(diagonal),
    MOVES(unfold),
    MOVES(as_strided),
    MOVES(flip),
    MOVES(roll),
    MOVES(repeat),
    MOVES(reflection_pad),
    MOVES(replication_pad),
    MOVES(slice_scatter),
    MOVES(embedding),
    MOVES(index_select),
    MOVES(index),
    MOVES(unsafe_index),
    MOVES(gather),
    MOVES(take),
    FORMS(same),
    FORMS(reshape),
    FORMS(expand),
    FORMS(permute),
    FORMS(flip),
    FORMS(repeat),
    FORMS(tile),
    FORMS(outer),
    FORMS(roll),
    FORMS(pad),
    FORMS(narrow),
    FORMS(getattr),
    FORMS(divide),
    FORMS(pow),
    FORMS(where_method),
    MOVES(mm),
    MOVES(bmm),
    MOVES(addmm),
    MOVES(baddbmm),
    MOVES(addbmm),
    MOVES(mv),
    MOVES(addmv),
    MOVES(dot),
    /* The builder of vdot takes the parts itself, because it conjugates one operand. */
    MOVES(vdot),
    MOVES(linear),
    MOVES(matmul),
    MOVES(einsum),
    MOVES(trilinear),
    MOVES(conj),
    MOVES(view_as_real),
    MOVES(view_as_complex),
    MOVES(complex),
    MOVES(polar),
    PARTS(each, OP_neg, "0"),
    PARTS(pad, OP_COUNT, "02"),
    PARTS(where, OP_COUNT, "12"),
    PARTS(masked_fill, OP_COUNT, "02"),
    PARTS(full, OP_COUNT, "1"),
    PARTS(new_full, OP_COUNT, "2"),
    PARTS(scalar, OP_COUNT, "0"),
    PARTS(zeros, OP_COUNT, ""),
    PARTS(sum, OP_sum, "0"),
    PARTS(mean, OP_COUNT, "0"),
    PARTS(scan, OP_sum, "0"),
    PARTS(triangle, OP_le, "0"),
    PARTS(triangle, OP_ge, "0"),
    PARTS(select_scatter, OP_COUNT, "01"),
    PARTS(diagonal_scatter, OP_COUNT, "01"),
    PARTS(index_put, OP_COUNT, "02"),
    PARTS(index_add, OP_COUNT, "03"),
    PARTS(scatter, OP_where, "03"),
    PARTS(scatter, OP_add, "03"),
    PARTS(index_copy, OP_COUNT, "03"),
    PARTS(index_fill, OP_COUNT, "03"),
    PARTS(as_strided_scatter, OP_COUNT, "01"),
    MATH(addc, OP_mul, sum_with_product),
    MATH(addc, OP_div, sum_with_product),
    MATH(lerp, OP_COUNT, between),
    OTHER(eye, OP_COUNT, identity),
    OTHER(ones, OP_COUNT, ones),
    OTHER(cat, OP_COUNT, joined_along),
    OTHER(stack, OP_COUNT, stacked),
    MATH(with_alpha, OP_add, sum_of_two),
    MATH(with_alpha, OP_sub, sum_of_two),
    MATH(rsub, OP_COUNT, difference_from),
    MATH(each, OP_mul, product),
    MATH(each, OP_div, quotient),
    MATH(div_mode, OP_COUNT, quotient),
    MATH(each, OP_reciprocal, inverse),
    MATH(square, OP_COUNT, squared),
    MATH(pow_scalar, OP_COUNT, power),
    MATH(each, OP_pow, power_of_two),
    MATH(each, OP_exp, exp),
    MATH(each, OP_exp2, exp2),
    MATH(each, OP_expm1, expm1),
    MATH(each, OP_log, log),
    MATH(each, OP_log2, log),
    MATH(each, OP_log10, log),
    MATH(each, OP_log1p, log1p),
    MATH(logaddexp, OP_exp, logaddexp),
    MATH(each, OP_sqrt, sqrt),
    MATH(each, OP_rsqrt, rsqrt),
    MATH(each, OP_sigmoid, sigmoid),
    MATH(each, OP_sinh, sinh),
    MATH(each, OP_cosh, cosh),
    MATH(each, OP_tanh, tanh),
    MATH(each, OP_sin, sin),
    MATH(each, OP_cos, cos),
    MATH(each, OP_tan, tan),
    MATH(each, OP_asin, asin),
    MATH(each, OP_acos, acos),
    MATH(each, OP_asinh, asinh),
    MATH(each, OP_acosh, acos),
    MATH(each, OP_atan, atan),
    MATH(each, OP_atanh, atanh),
    MATH(sinc, OP_COUNT, sinc),
    MATH(silu, OP_COUNT, silu),
    MATH(sigmoid_backward, OP_COUNT, sigmoid_backward),
    MATH(tanh_backward, OP_COUNT, tanh_backward),
    MATH(each, OP_abs, absolute),
    MATH(angle, OP_COUNT, direction),
    MATH(sgn, OP_COUNT, sign),
    MATH(each, OP_eq, compared),
    MATH(each, OP_ne, compared),
    MATH(never_of_ints, OP_isnan, either),
    MATH(never_of_ints, OP_isinf, either),
    {torch_cast, OP_COUNT, converted, NULL},
    {torch_copy, OP_COUNT, copied, NULL},
    OTHER(cast, OP_COUNT, converted),
    OTHER(copy, OP_COUNT, copied),
};

Value *
complex_build(Aten *n, const AtenRow *row)
{
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        const Way *way = &ways[k];
        if (way->build == row->build && way->op == row->op) {
            n->op = row->op;
            return way->values ? by_parts(n, row, way->values)
                               : (way->instead ? way->instead : row->build)(n);
        }
    }
    return NULL;
}
