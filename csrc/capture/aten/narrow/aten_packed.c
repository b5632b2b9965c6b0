/* Products of floats by weights in few bits: the operators that take the codes, as contractions of
 * the decoded weights. */
#include "capture/aten/aten.h"
#include "capture/aten/aten_formula.h"
#include "capture/aten/product/aten_product.h"

/* x [M, K] by the rows of w [N, K], in f32. */
static Value *
by_rows(Aten *n, Value *x, Value *w)
{
    const Arg args[2] = {{.kind = ARG_TENSOR, .v = x}, {.kind = ARG_TENSOR, .v = w}};
    Term a, b;
    bool made = term_of(&args[0], "mk", &a) && term_of(&args[1], "nk", &b) &&
                term_multiply(n, &a, &b, "mn", DT_f32);
    return made ? a.v : NULL;
}

static bool
is_float32_or_bf16(const Aten *n)
{
    Dtype dtype = arg_tensor(n, 0)->type->dtype;
    return dtype == n->type->dtype && (dtype == DT_f32 || dtype == DT_bf16);
}

/* (x, w, scales): codes of 8 bits, which every float holds exactly, and a scale for each row. */
Value *
aten_int8_mm(Aten *n)
{
    Value *x = arg_tensor(n, 0), *w = arg_tensor(n, 1), *scales = arg_tensor(n, 2);
    if (!is_float32_or_bf16(n) || w->type->dtype != DT_i8 || scales->type->rank != 1) {
        return NULL;
    }
    Value *v = by_rows(n, x, build_cast(n->b, w, x->type->dtype));
    const Arg scale = {.kind = ARG_TENSOR, .v = scales};
    Value *by = v ? operand(n, &scale, v->type) : NULL;
    return by ? map2(n, OP_mul, v, by) : NULL;
}

/* ---- codes of 4 bits, in the order of torch's kernels for this processor ---- */

/* Bytes [A, K, B] as codes [A, K, 2B]: all low halves, then all high ones; or byte by byte. */
static Value *
halves(Aten *n, Value *bytes, bool adjacent)
{
    const Type *t = bytes->type;
    Value *low = AND(bytes, build_int(n->b, 15)),
          *high = map2(n, OP_shr, bytes, build_int(n->b, 4));
    Dim dims[4] = {t->dims[0], t->dims[1], t->dims[2], one(n)};
    Value *parts[2] = {low, high};
    for (int k = 0; adjacent && k < 2; k++) {
        parts[k] = build_reshape(n->b, parts[k], 4, dims);
    }
    Value *both = build_cat(n->b, 2, parts, adjacent ? 3 : 2);
    dims[2] = dim_mul(n->cx, t->dims[2], dim_int(n->cx, 2));
    return build_reshape(n->b, both, 3, dims);
}

/* Rows first .. first + count-1 of the weight: their codes, [count, K].  Each `block` rows are
 * side by side: for each k its codes of all of them. */
static Value *
rows_of(Aten *n, Value *bytes, int64_t first, int64_t count, int64_t block, Dim k, bool adjacent)
{
    Dim half = dim_div(n->cx, k, dim_int(n->cx, 2));
    Dim at = dim_mul(n->cx, dim_int(n->cx, first), half),
        length = dim_mul(n->cx, dim_int(n->cx, count), half);
    const Dim dims[3] = {dim_int(n->cx, count / block), k, dim_int(n->cx, block / 2)};
    Value *v = build_reshape(n->b, part(n, bytes, 0, at, one(n), length), 3, dims);
    v = build_permute(n->b, halves(n, v, adjacent), (const int[]){0, 2, 1});
    const Dim rows[2] = {dim_int(n->cx, count), k};
    return build_reshape(n->b, v, 2, rows);
}

/* The codes [N, K] of packed bytes [N, K/2]. */
static Value *
unpacked(Aten *n, Value *packed)
{
    int64_t rows, block = n->packing.rows;
    if (packed->type->rank != 2 || packed->type->dtype != DT_u8 || !block ||
        !dim_is_int(n->cx, packed->type->dims[0], &rows)) {
        return NULL;
    }
    Dim k = dim_mul(n->cx, packed->type->dims[1], dim_int(n->cx, 2)),
        all = type_numel(n->cx, packed->type);
    Value *bytes = build_reshape(n->b, packed, 1, &all), *parts[2];
    int64_t whole = rows / block * block, rest = rows - whole;
    int count = 0;
    if (whole) {
        parts[count++] = rows_of(n, bytes, 0, whole, block, k, n->packing.adjacent);
    }
    if (rest) {
        parts[count++] = rows_of(n, bytes, whole, rest, rest, k, true);
    }
    return count == 1 ? parts[0] : count ? build_cat(n->b, 2, parts, 0) : NULL;
}

/* Element [.., which] of the scales and zeros [K / group, N, 2], for each weight [N, K]. */
static Value *
of_groups(Aten *n, Value *both, int which, Dim group, const Type *t)
{
    Dim at = dim_int(n->cx, which);
    const Dim dims[2] = {both->type->dims[0], both->type->dims[1]};
    Value *v = build_reshape(n->b, part(n, both, 2, at, one(n), one(n)), 2, dims);
    v = build_cast(n->b, build_permute(n->b, v, (const int[]){1, 0}), DT_f32);
    const Dim wide[3] = {dims[1], dims[0], group};
    v = build_expand(n->b, v, 3, wide, (const int[]){0, 1});
    return build_reshape(n->b, v, 2, t->dims);
}

/* (x, packed, group size, scales and zeros): the weight is (code - 8) * scale + zero. */
Value *
aten_int4_mm(Aten *n)
{
    Value *x = arg_tensor(n, 0), *both = arg_tensor(n, 3);
    Dim group;
    if (!is_float32_or_bf16(n) || !arg_dim(n, arg_at(n, 2), &group) || both->type->rank != 3) {
        return NULL;
    }
    Value *code = unpacked(n, arg_tensor(n, 1));
    if (!code) {
        return NULL;
    }
    Value *w = SUB(build_cast(n->b, code, DT_f32), NUM(8));
    w = MUL(w, of_groups(n, both, 0, group, code->type));
    w = ADD(w, of_groups(n, both, 1, group, code->type));
    return by_rows(n, build_cast(n->b, x, DT_f32), w);
}
