/* Products of matrices, vectors and batches of them, as contractions.
 *
 * They are accumulated as ops.def defines, so in f32 for f16 and bf16. An addend in the same
 * operator of eager (addmm's first operand, linear's bias) is added to the sum before the one
 * rounding, as in eager's kernels. */
#include "aten_product.h"
#include "capture/torch/torch.h"
#include "codegen/codegen.h"
#include "fusion/fusion.h"
#include "ir/costs.h"

#include <math.h>
#include <string.h>

static bool
is_complex(Dtype dtype)
{
    return dtype_info[dtype].class == CLASS_COMPLEX;
}

/* ---- terms ---- */

bool
term_of(const Arg *a, const char *letters, Term *out)
{
    bool rest = letters[0] == '.';
    int named = (int)strlen(letters + rest), rank = a->kind == ARG_TENSOR ? a->v->type->rank : -1;
    *out = (Term){.v = a->v, .n = rank};
    if (rank < named || (!rest && rank > named)) {
        return false;
    }
    for (int k = 0; k < rank; k++) {            /* the axes left are aligned at their ends */
        int left = rank - named;
        out->letters[k] = k < left ? (char)('A' + left - 1 - k) : letters[rest + k - left];
    }
    return true;
}

static int
axis_of(const Term *x, char letter)
{
    return letter_axis(x->letters, x->n, letter);
}

/* Removes an axis that has one element. */
static void
drop_axis(Aten *n, Term *x, int axis)
{
    Dim dims[MAX_RANK];
    int rank = 0;
    for (int k = 0; k < x->n; k++) {
        if (k != axis) {
            x->letters[rank] = x->letters[k];
            dims[rank++] = x->v->type->dims[k];
        }
    }
    x->n = rank;
    x->v = build_reshape(n->b, x->v, rank, dims);
}

/* Axes of one letter that differ in size: one of them has one element. */
static bool
agree(Aten *n, Term *x, Term *y)
{
    for (int k = x->n - 1; k >= 0; k--) {
        int other = axis_of(y, x->letters[k]);
        if (other < 0 || x->v->type->dims[k] == y->v->type->dims[other]) {
            continue;
        }
        if (dim_is(n->cx, x->v->type->dims[k], 1)) {
            drop_axis(n, x, k);
        } else if (dim_is(n->cx, y->v->type->dims[other], 1)) {
            drop_axis(n, y, other);
        } else {
            return false;
        }
    }
    return true;
}

/* The letters that x alone has and nobody wants are summed before. */
static bool
sum_alone(Aten *n, Term *x, const Term *y, const char *keep)
{
    int axes[MAX_RANK], count = 0, rank = 0;
    for (int k = 0; k < x->n; k++) {
        if (!strchr(keep, x->letters[k]) && axis_of(y, x->letters[k]) < 0) {
            axes[count++] = k;
        } else {
            x->letters[rank++] = x->letters[k];
        }
    }
    if (count && dtype_info[x->v->type->dtype].class != CLASS_FLOAT) {
        return false;
    }
    x->n = rank;
    x->v = count ? build_red(n->b, OP_sum, x->v, count, axes) : x->v;
    return true;
}

/* Has the result two elements or more along letters that only one of the operands has? */
static bool
is_long(const Aten *n, const Term *x, const Term *y)
{
    bool found = false;
    for (int k = 0; k < x->n && !found; k++) {
        found = axis_of(y, x->letters[k]) < 0 && !dim_is(n->cx, x->v->type->dims[k], 1);
    }
    return found;
}

/* Is y a matrix whose sums with the vector x go through adjacent elements?  A weight of `linear`
 * is one. */
static bool
has_rows(const Aten *n, const Term *x, const Term *y)
{
    Dim strides[MAX_RANK];
    int summed = -1, outer = 0;
    for (int k = 0; k < y->n; k++) {
        if (axis_of(x, y->letters[k]) >= 0) {
            summed = summed < 0 ? k : MAX_RANK;
        } else {
            outer++;
        }
    }
    return outer == 1 && summed >= 0 && summed < MAX_RANK && !is_long(n, x, y) &&
           is_long(n, y, x) && value_layout(n->cx, y->v, strides) &&
           dim_is(n->cx, strides[summed], 1);
}

/* Are the columns of the product, y, computed of codes?  The product's kernel decodes them, while
 * the library reads all of them from memory, where a kernel stores them.  Where it has instructions
 * for the dtype, that pays off only for a few rows. */
static bool
is_decoded(const Aten *n, const Term *x, const Term *y)
{
    enum { FEW = MICRO_MOST_ROWS };
    Dtype dtype = y->v->type->dtype;
    int64_t rows = 1;
    int shared = 0; /* with the summed letter, and no batch */
    for (int k = 0; k < x->n; k++) {
        bool own = axis_of(y, x->letters[k]) < 0;
        rows *= own ? dim_typical(n->cx, x->v->type->dims[k]) : 1;
        shared += !own;
    }
    return shared == 1 && dtype_info[dtype].class == CLASS_FLOAT && is_long(n, y, x) &&
           (!processor_multiplies(dtype) || rows <= FEW) && value_is_of_codes(n->cx, y->v);
}

/* Is the contraction of x and y computed here?  Under PRODUCTS_AUTO it is where it has been
 * measured to take at most the library's time: docs/experiments.md.  So a vector times a matrix
 * whose columns are adjacent is not, nor are complex numbers, nor short floats where the library
 * has the processor's own instructions. */
static bool
is_own(const Aten *n, const Term *x, const Term *y)
{
    Dtype dtype = x->v->type->dtype;
    bool matrices = is_long(n, x, y) && is_long(n, y, x);
    bool rows = (dtype == DT_f32 || dtype == DT_f64) && (has_rows(n, x, y) || has_rows(n, y, x));
    bool measured = n->prepared || rows || is_decoded(n, x, y) ||
                    (is_decoded(n, y, x) && !is_long(n, x, y)) ||
                    (matrices && !is_complex(dtype) && !processor_multiplies(dtype));
    return n->products == PRODUCTS_OWN || (n->products == PRODUCTS_AUTO && measured);
}

/* The contraction; complex numbers are multiplied by their parts. */
static Value *
contracted(Aten *n, Value *x, Value *y, const Contraction *over, Dtype to)
{
    if (!is_complex(x->type->dtype)) {
        return build_contract(n->b, x, y, over, to);
    }
    Value *parts[2][2]; /* of x, of y */
    for (int k = 0; k < 2; k++) {
        parts[0][k] = map1(n, k ? OP_imag : OP_real, x);
        parts[1][k] = map1(n, k ? OP_imag : OP_real, y);
    }
    Value *re = map2(n, OP_sub, build_contract(n->b, parts[0][0], parts[1][0], over, to),
                     build_contract(n->b, parts[0][1], parts[1][1], over, to));
    Value *im = map2(n, OP_add, build_contract(n->b, parts[0][0], parts[1][1], over, to),
                     build_contract(n->b, parts[0][1], parts[1][0], over, to));
    return map2(n, OP_complex, re, im);
}

bool
term_multiply(Aten *n, Term *x, const Term *with, const char *keep, Dtype to)
{
    Term y = *with, out = {.n = 0};
    if (!agree(n, x, &y) || !is_own(n, x, &y) || !sum_alone(n, x, &y, keep) ||
        !sum_alone(n, &y, x, keep)) {
        return false;
    }
    for (const char *letter = keep; *letter; letter++) {
        if (axis_of(x, *letter) >= 0 || axis_of(&y, *letter) >= 0) {
            if (out.n == MAX_RANK) {
                return false;
            }
            out.letters[out.n++] = *letter;
        }
    }
    Contraction over = contraction_letters(x->n, x->letters, y.n, y.letters, out.n, out.letters);
    out.v = contracted(n, x->v, y.v, &over, is_complex(to) ? dtype_part(to) : to);
    *x = out;
    return true;
}

Value *
term_ordered(Aten *n, const Term *x, const char *letters, int count)
{
    int perm[MAX_RANK];
    for (int k = 0; k < count; k++) {
        perm[k] = axis_of(x, letters[k]);
        if (perm[k] < 0) {
            return NULL;
        }
    }
    return count == x->n ? build_permute(n->b, x->v, perm) : NULL;
}

Dtype
product_dtype(const Aten *n, int first, int last)
{
    Dtype dtype = n->type->dtype;
    for (int k = first; k <= last; k++) {
        const Arg *a = arg_at(n, k);
        if (a->kind != ARG_TENSOR || a->v->type->dtype != dtype) {
            return DTYPE_COUNT;
        }
    }
    return dtype == DT_bool ? DTYPE_COUNT : dtype;
}

/* ---- products ---- */

/* The product of arguments k and k+1, with the letters of each and those of the result. */
static Value *
product(Aten *n, int k, const char *x, const char *y, const char *out, Dtype to)
{
    Term a, b;
    if (product_dtype(n, k, k + 1) == DTYPE_COUNT || !term_of(arg_at(n, k), x, &a) ||
        !term_of(arg_at(n, k + 1), y, &b) || !term_multiply(n, &a, &b, out, to)) {
        return NULL;
    }
    return a.v;
}

static Value *
plain(Aten *n, const char *x, const char *y, const char *out)
{
    return product(n, 0, x, y, out, n->type->dtype);
}

Value *
aten_mm(Aten *n)
{
    return plain(n, "mk", "kn", "mn");
}

Value *
aten_bmm(Aten *n)
{
    return plain(n, "bmk", "bkn", "bmn");
}

Value *
aten_mv(Aten *n)
{
    return plain(n, "mk", "k", "m");
}

Value *
aten_dot(Aten *n)
{
    return plain(n, "k", "k", "");
}

/* Computes vdot, which conjugates its first operand. */
Value *
aten_vdot(Aten *n)
{
    Arg args[2] = {*arg_at(n, 0), *arg_at(n, 1)};
    if (args[0].kind == ARG_TENSOR && is_complex(args[0].v->type->dtype)) {
        Value *z = args[0].v;
        args[0].v = map2(n, OP_complex, map1(n, OP_real, z), map1(n, OP_neg, map1(n, OP_imag, z)));
    }
    Aten of = *n;
    of.args = args;
    return aten_dot(&of);
}

/* Of i8, or of u8 and i8, in i32.  The latter are cast to i16, which holds both: unless every
 * product is computed here, the library has instructions for them as they are. */
Value *
aten_int_mm(Aten *n)
{
    const Arg *a = arg_at(n, 0), *b = arg_at(n, 1);
    Term x, y;
    bool narrow = term_of(a, "mk", &x) && term_of(b, "kn", &y) && y.v->type->dtype == DT_i8 &&
                  n->type->dtype == DT_i32;
    bool mixed = narrow && x.v->type->dtype == DT_u8 && n->products == PRODUCTS_OWN;
    narrow = narrow && (mixed || x.v->type->dtype == DT_i8);
    if (mixed) {
        x.v = build_cast(n->b, x.v, DT_i16);
        y.v = build_cast(n->b, y.v, DT_i16);
    }
    return narrow && term_multiply(n, &x, &y, "mn", DT_i32) ? x.v : NULL;
}

/* ---- with something added ---- */

/* An argument that is a number, and this one; None is 1. */
static bool
is_number(const Arg *a, double f)
{
    return a->kind == ARG_NONE ? f == 1 : arg_is_number(a) && arg_float(a, 0) == f;
}

static Value *
by_factor(Aten *n, Value *v, const Arg *factor)
{
    const Type *t = v ? v->type : NULL;
    Arg whole = *factor;
    if (!v || is_number(factor, 1)) {
        return v;
    }
    if (is_complex(t->dtype)) {
        const Arg args[2] = {{.kind = ARG_TENSOR, .v = v}, *factor};
        Value *scaled = as_overload(n, "aten.mul.Tensor", t, 2, args);
        return scaled && scaled->type == t ? scaled : NULL;
    }
    if (dtype_info[t->dtype].class == CLASS_INT) {
        if (factor->kind == ARG_NUMBER || !(fabs(arg_float(factor, 0)) < 0x1p62)) {
            return NULL;
        }
        if (factor->kind == ARG_FLOAT) { /* eager cuts it off */
            whole = (Arg){.kind = ARG_INT, .i = (int64_t)factor->f};
        }
    }
    Value *by = operand(n, &whole, t);
    return by ? map2(n, OP_mul, v, by) : NULL;
}

/* beta * self + alpha * v, v being in the wide dtype; of self nothing is read where beta is 0. */
static Value *
added(Aten *n, const Arg *self, Value *v, const Arg *beta, const Arg *alpha)
{
    v = by_factor(n, v, alpha);
    if (!v || is_number(beta, 0)) {
        return v;
    }
    if (self->kind != ARG_TENSOR || self->v->type->dtype != n->type->dtype) {
        return NULL;
    }
    const Type *t = v->type;
    if (is_complex(t->dtype)) {
        Value *term = by_factor(n, build_broadcast(n->b, self->v, t->rank, t->dims), beta);
        const Arg args[2] = {{.kind = ARG_TENSOR, .v = term}, {.kind = ARG_TENSOR, .v = v}};
        return term ? as_overload(n, "aten.add.Tensor", t, 2, args) : NULL;
    }
    Value *term = by_factor(n, operand(n, self, t), beta);
    return term ? map2(n, OP_add, term, v) : NULL;
}

/* Computes beta * self + alpha * (x @ y) for arguments (self, x, y, beta, alpha). */
static Value *
with_self(Aten *n, const char *x, const char *y, const char *out)
{
    Value *v = product(n, 1, x, y, out, wide(n->type->dtype));
    return added(n, arg_at(n, 0), v, arg_at(n, 3), arg_at(n, 4));
}

Value *
aten_addmm(Aten *n)
{
    return with_self(n, "mk", "kn", "mn");
}

Value *
aten_addmv(Aten *n)
{
    return with_self(n, "mk", "k", "m");
}

Value *
aten_baddbmm(Aten *n)
{
    return with_self(n, "bmk", "bkn", "bmn");
}

/* Computes addbmm, which sums the products of all batches. */
Value *
aten_addbmm(Aten *n)
{
    return with_self(n, "bmk", "bkn", "mn");
}

/* Computes linear(x, weight, bias); the weight may be a vector. */
Value *
aten_linear(Aten *n)
{
    const Arg none = {.kind = ARG_NONE}, *bias = arg_at(n, 2);
    bool vector = arg_at(n, 1)->kind == ARG_TENSOR && arg_tensor(n, 1)->type->rank == 1;
    bool has_bias = bias->kind == ARG_TENSOR;
    Dtype to = has_bias ? wide(n->type->dtype) : n->type->dtype;
    Value *v = vector ? product(n, 0, ".k", "k", REST, to)
                      : product(n, 0, ".k", "nk", REST "n", to);
    return has_bias ? added(n, bias, v, &none, &none) : v;
}

/* Multiplies matrices or vectors; the axes in front of them broadcast. */
Value *
aten_matmul(Aten *n)
{
    int ranks[2];
    for (int k = 0; k < 2; k++) {
        ranks[k] = arg_at(n, k)->kind == ARG_TENSOR ? arg_tensor(n, k)->type->rank : 0;
        if (ranks[k] == 0) {
            return NULL;
        }
    }
    const char *out = cx_format(n->cx, REST "%s%s", ranks[0] > 1 ? "m" : "",
                                ranks[1] > 1 ? "n" : "");
    return plain(n, ranks[0] > 1 ? ".mk" : "k", ranks[1] > 1 ? ".kn" : "k", out);
}

/* ---- distances ---- */

/* Returns the sum of squares of each row. */
static Value *
squares(Aten *n, Value *x)
{
    return build_red(n->b, OP_sum, map2(n, OP_mul, x, x), 1, (const int[]){x->type->rank - 1});
}

/* v with an axis of one element at `axis`, as wide as t. */
static Value *
along(Aten *n, Value *v, int axis, const Type *t)
{
    Dim dims[MAX_RANK];
    for (int k = 0; k <= v->type->rank; k++) {
        dims[k] = k == axis ? one(n) : v->type->dims[k - (k > axis)];
    }
    return build_broadcast(n->b, build_reshape(n->b, v, v->type->rank + 1, dims), t->rank, t->dims);
}

/* The root of |x|^2 - 2 x y + |y|^2, in this order, as eager: of near rows the last sum is
 * exact. */
Value *
aten_euclidean_dist(Aten *n)
{
    if (dtype_info[n->type->dtype].class != CLASS_FLOAT || product_dtype(n, 0, 1) == DTYPE_COUNT) {
        return NULL;
    }
    Value *v = product(n, 0, ".mk", ".nk", REST "mn", n->type->dtype);
    if (!v || v->type != n->type) {
        return NULL;
    }
    Value *x = arg_tensor(n, 0), *y = arg_tensor(n, 1);
    x = along(n, squares(n, x), x->type->rank - 1, n->type);
    y = along(n, squares(n, y), y->type->rank - 2, n->type);
    v = map2(n, OP_add, map2(n, OP_sub, x, map2(n, OP_mul, v, number(n, 2))), y);
    return map1(n, OP_sqrt, map2(n, OP_maximum, v, number(n, 0)));
}

/* (x, y, p, mode): by products where eager does so, which is for more than 25 rows if it may
 * choose. */
Value *
aten_cdist(Aten *n)
{
    const Arg *p = arg_at(n, 2), *mode = arg_at(n, 3);
    enum { MAY_CHOOSE = 0, BY_PRODUCTS = 1, ROWS = 25 };
    int64_t how = mode->kind == ARG_INT ? mode->i : mode->kind == ARG_NONE ? MAY_CHOOSE : -1;
    if (mode->kind == ARG_TEXT) {
        how = strcmp(mode->text, "use_mm_for_euclid_dist") == 0                ? BY_PRODUCTS
              : strcmp(mode->text, "use_mm_for_euclid_dist_if_necessary") == 0 ? MAY_CHOOSE
                                                                               : -1;
    }
    bool many = false;
    for (int k = 0; k < 2; k++) {
        const Arg *x = arg_at(n, k);
        int rank = x->kind == ARG_TENSOR ? x->v->type->rank : 0;
        many |= rank >= 2 && dim_lt(n->cx, dim_int(n->cx, ROWS), x->v->type->dims[rank - 2]);
    }
    bool products = is_number(p, 2) && (how == BY_PRODUCTS || (how == MAY_CHOOSE && many));
    return products ? aten_euclidean_dist(n) : NULL;
}
