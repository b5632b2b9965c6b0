/* The builder's reductions, views and nodes, each with the simplifications that are its own. */
#include "build.h"
#include "ir/rules.h"

#include <string.h>

/* Returns the type of the operand, which must not be a constant: constants have none. */
static const Type *
type_in(Build *b, Op op, const Value *a)
{
    if (value_is_const(a)) {
        build_wrong(b, op, "the operand must not be a constant");
    }
    return a->type;
}

static const Type *
checked(Build *b, Op op, const Type *t, const char *const *why)
{
    if (!t) {
        build_wrong(b, op, *why);
    }
    return t;
}

static bool
is_def(const Value *a, Op op)
{
    return a->def && a->def->op == op;
}

/* The view, or a constant if `a` consists of one constant. */
static Value *
emit_view(Build *b, Op op, Value *a, int nattrs, const Attr *attrs, const Type *t)
{
    Value *literal = build_literal_of(a);
    return literal ? build_const(b, t, literal->literal)
                   : build_emit(b, op, 1, &a, nattrs, attrs, t);
}

static bool
counts_up(int n, const int *axes)
{
    int k = 0;
    while (k < n && axes[k] == k) {
        k++;
    }
    return k == n;
}

static void
check_count(Build *b, Op op, int n)
{
    if (n < 0 || n > MAX_RANK) {
        build_wrong(b, op, "more axes than a tensor may have");
    }
}

static void
sort_axes(int n, const int *axes, int *out)
{
    for (int k = 0; k < n; k++) {
        int i = k;
        for (; i > 0 && out[i - 1] > axes[k]; i--) {
            out[i] = out[i - 1];
        }
        out[i] = axes[k];
    }
}

/* ---- reductions ---- */

/* Over axes of size 1 a reduction only drops them; a float sum turns -0.0 to 0.0, so it stays. */
static bool
only_drops(const Build *b, Op op, const Type *a, int n, const int *axes)
{
    bool ones = op != OP_sum || dtype_info[a->dtype].class != CLASS_FLOAT;
    for (int k = 0; k < n; k++) {
        ones &= dim_is(b->cx, a->dims[axes[k]], 1);
    }
    return ones || n == 0;
}

Value *
build_red(Build *b, Op op, Value *a, int naxes, const int *axes)
{
    const char *why = NULL;
    int sorted[MAX_RANK];
    check_count(b, op, naxes);
    sort_axes(naxes, axes, sorted);
    const Type *from = type_in(b, op, a);
    const Type *t = checked(b, op, type_red(b->cx, op, from, naxes, sorted, &why), &why);
    if (only_drops(b, op, from, naxes, sorted)) {
        return op == OP_argmax || op == OP_argmin ? build_const(b, t, (Literal){.is_int = true})
                                                  : build_reshape(b, a, t->rank, t->dims);
    }
    Attr attr = attr_axes(b->cx, "axes", naxes, sorted);
    return build_emit(b, op, 1, &a, 1, &attr, t);
}

/* ---- views ---- */

Value *
build_expand(Build *b, Value *a, int rank, const Dim *dims, const int *to)
{
    const char *why = NULL;
    const Type *from = type_in(b, OP_expand, a);
    const Type *t = checked(b, OP_expand,
                            type_expand(b->cx, from, rank, dims, from->rank, to, &why), &why);
    if (t == from) {
        return a;
    }
    if (is_def(a, OP_expand)) {
        const Attr *inner = let_attr(a->def, "to");
        int both[MAX_RANK];
        for (int k = 0; k < inner->n; k++) {
            both[k] = to[inner->axes[k]];
        }
        return build_expand(b, a->def->args[0], rank, dims, both);
    }
    Attr attr = attr_axes(b->cx, "to", from->rank, to);
    return emit_view(b, OP_expand, a, 1, &attr, t);
}

Value *
build_reshape(Build *b, Value *a, int rank, const Dim *dims)
{
    const char *why = NULL;
    const Type *from = type_in(b, OP_reshape, a), *t = type_of(b->cx, from->dtype, rank, dims);
    if (t == from) {
        return a;
    }
    if (is_def(a, OP_reshape)) {
        return build_reshape(b, a->def->args[0], rank, dims);
    }
    if (!type_reshape(b->cx, from, rank, dims, &why)) {
        Text of = {.cx = b->cx}, to = {.cx = b->cx};
        type_text(b->cx, from, &of);
        type_text(b->cx, t, &to);
        fail(b->cx, DIAG_RESHAPE, of.text, to.text, why);
    }
    return emit_view(b, OP_reshape, a, 0, NULL, t);
}

Value *
build_permute(Build *b, Value *a, const int *perm)
{
    const char *why = NULL;
    const Type *from = type_in(b, OP_permute, a);
    const Type *t = checked(b, OP_permute, type_permute(b->cx, from, from->rank, perm, &why), &why);
    if (counts_up(from->rank, perm)) {
        return a;
    }
    if (is_def(a, OP_permute)) {
        const int *inner = let_attr(a->def, "perm")->axes;
        int both[MAX_RANK];
        for (int k = 0; k < from->rank; k++) {
            both[k] = inner[perm[k]];
        }
        return build_permute(b, a->def->args[0], both);
    }
    Attr attr = attr_axes(b->cx, "perm", from->rank, perm);
    return emit_view(b, OP_permute, a, 1, &attr, t);
}

Value *
build_slice(Build *b, Value *a, int axis, Dim start, Dim step, Dim length)
{
    Cx *cx = b->cx;
    const char *why = NULL;
    const Type *from = type_in(b, OP_slice, a);
    const Type *t = checked(b, OP_slice, type_slice(cx, from, axis, length, &why), &why);
    if (t == from && dim_is(cx, start, 0) && dim_is(cx, step, 1)) {
        return a;
    }
    if (is_def(a, OP_slice) && let_int(a->def, "axis") == axis) {
        Dim first = let_dim(a->def, "start"), stride = let_dim(a->def, "step");
        return build_slice(b, a->def->args[0], axis, dim_add(cx, first, dim_mul(cx, start, stride)),
                           dim_mul(cx, step, stride), length);
    }
    Attr attrs[] = {attr_int(cx, "axis", axis), attr_dim(cx, "start", start),
                    attr_dim(cx, "step", step)};
    return emit_view(b, OP_slice, a, 3, attrs, t);
}

Value *
build_flip(Build *b, Value *a, int naxes, const int *axes)
{
    const char *why = NULL;
    int sorted[MAX_RANK], left[MAX_RANK], n = 0;
    check_count(b, OP_flip, naxes);
    sort_axes(naxes, axes, sorted);
    const Type *t = type_in(b, OP_flip, a);
    checked(b, OP_flip, type_flip(b->cx, t, naxes, sorted, &why), &why);
    unsigned set = 0;
    for (int k = 0; k < naxes; k++) {
        set ^= dim_is(b->cx, t->dims[sorted[k]], 1) ? 0 : 1u << sorted[k];
    }
    if (is_def(a, OP_flip)) {
        const Attr *inner = let_attr(a->def, "axes");
        a = a->def->args[0];
        for (int k = 0; k < inner->n; k++) {
            set ^= 1u << inner->axes[k];
        }
    }
    for (int ax = 0; ax < t->rank; ax++) {
        if (set >> ax & 1) {
            left[n++] = ax;
        }
    }
    Attr attr = attr_axes(b->cx, "axes", n, left);
    return n == 0 ? a : emit_view(b, OP_flip, a, 1, &attr, t);
}

Value *
build_as_strided(Build *b, Value *a, int rank, const Dim *dims, const Dim *strides, Dim offset)
{
    Cx *cx = b->cx;
    const char *why = NULL;
    const Type *from = type_in(b, OP_as_strided, a);
    const Type *t = checked(b, OP_as_strided, type_as_strided(cx, from, rank, dims, rank, &why),
                            &why);
    Dim dense[MAX_RANK];
    type_dense(cx, t, dense);
    if (dim_is(cx, offset, 0) && type_numel(cx, t) == type_numel(cx, from) &&
        (rank == 0 || memcmp(dense, strides, (size_t)rank * sizeof(Dim)) == 0)) {
        return build_reshape(b, a, rank, dims);
    }
    Attr attrs[] = {attr_dim(cx, "offset", offset), attr_dims(cx, "strides", rank, strides)};
    return emit_view(b, OP_as_strided, a, 2, attrs, t);
}

static _Noreturn void
no_broadcast(Build *b, const Type *from, int axis, int rank, const Dim *dims)
{
    Text type = {.cx = b->cx}, size = {.cx = b->cx};
    type_text(b->cx, from, &type);
    if (axis < 0) {
        fail(b->cx, DIAG_BROADCAST_RANK, type.text, rank);
    }
    dim_text(b->cx, dims[rank - from->rank + axis], &size);
    fail(b->cx, DIAG_BROADCAST, type.text, axis, size.text);
}

Value *
build_broadcast(Build *b, Value *a, int rank, const Dim *dims)
{
    if (value_is_const(a)) {
        return a;
    }
    const Type *from = a->type;
    Dim kept[MAX_RANK];
    int to[MAX_RANK], n = 0;
    if (from->rank > rank) {
        no_broadcast(b, from, -1, rank, dims);
    }
    for (int ax = 0; ax < from->rank; ax++) {
        int target = rank - from->rank + ax;
        if (from->dims[ax] == dims[target]) {
            kept[n] = dims[target];
            to[n++] = target;
        } else if (!dim_is(b->cx, from->dims[ax], 1)) {
            no_broadcast(b, from, ax, rank, dims);
        }
    }
    return build_expand(b, build_reshape(b, a, n, kept), rank, dims, to);
}

/* ---- nodes ---- */

Value *
build_iota(Build *b, const Type *t, int axis)
{
    const char *why = NULL;
    checked(b, OP_iota, type_iota(t, axis, &why), &why);
    if (dim_is(b->cx, t->dims[axis], 1)) {
        return build_const(b, t, (Literal){.is_int = true});
    }
    Attr attr = attr_int(b->cx, "axis", axis);
    return build_emit(b, OP_iota, 0, NULL, 1, &attr, t);
}

Value *
build_size(Build *b, Dim d)
{
    Literal literal = {.is_int = true};
    const Type *t = type_scalar(b->cx, DT_i64);
    if (dim_is_int(b->cx, d, &literal.i)) {
        return build_const(b, t, literal);
    }
    Attr attr = attr_dim(b->cx, "dim", d);
    return build_emit(b, OP_size, 0, NULL, 1, &attr, t);
}

/* Are all parts the same constant? */
static bool
one_constant(int n, Value *const *parts)
{
    Value *first = build_literal_of(parts[0]);
    bool same = first != NULL;
    for (int k = 1; k < n && same; k++) {
        Value *other = build_literal_of(parts[k]);
        same = other && literal_same(first->literal, other->literal);
    }
    return same;
}

/* The slice that a and c are together, if both are slices of one value and c begins where a ends;
 * else NULL.  A part that is written to with what is there already gives such slices. */
static Value *
slices_joined(Build *b, Value *a, Value *c, int axis)
{
    Cx *cx = b->cx;
    if (!is_def(a, OP_slice) || !is_def(c, OP_slice) || a->def->args[0] != c->def->args[0] ||
        let_int(a->def, "axis") != axis || let_int(c->def, "axis") != axis) {
        return NULL;
    }
    Dim start = let_dim(a->def, "start"), step = let_dim(a->def, "step"), n = a->type->dims[axis];
    Dim end = dim_add(cx, start, dim_mul(cx, step, n)), both = dim_add(cx, n, c->type->dims[axis]);
    bool joined = end == let_dim(c->def, "start") && step == let_dim(c->def, "step");
    return joined ? build_slice(b, a->def->args[0], axis, start, step, both) : NULL;
}

Value *
build_cat(Build *b, int n, Value *const *parts, int axis)
{
    const char *why = NULL;
    const Type **types = cx_alloc(b->cx, (size_t)n * sizeof *types);
    Value **kept = cx_alloc(b->cx, (size_t)n * sizeof *kept);
    int nmaterialised = 0;
    for (int k = 0; k < n; k++) {
        types[k] = type_in(b, OP_cat, parts[k]);
    }
    const Type *t = checked(b, OP_cat, type_cat(b->cx, n, types, axis, &why), &why);
    for (int k = 0; k < n; k++) {
        if (!dim_is(b->cx, types[k]->dims[axis], 0)) {
            Value *both = nmaterialised ? slices_joined(b, kept[nmaterialised - 1], parts[k], axis)
                                        : NULL;
            nmaterialised -= both != NULL;
            kept[nmaterialised++] = both ? both : parts[k];
        }
    }
    if (nmaterialised <= 1) {
        return nmaterialised ? kept[0] : parts[0];
    }
    if (one_constant(nmaterialised, kept)) {
        return build_const(b, t, build_literal_of(kept[0])->literal);
    }
    Attr attr = attr_int(b->cx, "axis", axis);
    return build_emit(b, OP_cat, nmaterialised, kept, 1, &attr, t);
}

Value *
build_pad(Build *b, Value *a, Value *fill, const Type *t, const Dim *lo)
{
    const char *why = NULL;
    const Type *from = type_in(b, OP_pad, a);
    checked(b, OP_pad, type_pad(from, t, t->rank, &why), &why);
    Value *literal = build_literal_of(fill);
    bool same = from == t;
    if (!literal) {
        build_wrong(b, OP_pad, "the second operand must be a constant");
    }
    if (dtype_info[t->dtype].class == CLASS_FLOAT && literal->literal.is_int) {
        literal = build_float(b, (double)literal->literal.i);
    }
    if (!literal_fits(literal->literal, t->dtype)) {
        build_wrong(b, OP_pad, "a constant does not fit the dtype");
    }
    for (int ax = 0; ax < t->rank; ax++) {
        same &= dim_is(b->cx, lo[ax], 0);
    }
    Attr attr = attr_dims(b->cx, "lo", t->rank, lo);
    return same ? a : build_emit(b, OP_pad, 2, (Value *[]){a, literal}, 1, &attr, t);
}

Value *
build_gather(Build *b, Value *a, Value *index, int axis, int wrap)
{
    const char *why = NULL;
    const Type *from = type_in(b, OP_gather, a), *at = type_in(b, OP_gather, index);
    const Type *t = checked(b, OP_gather, type_gather(b->cx, from, at, axis, &why), &why);
    Attr attrs[] = {attr_int(b->cx, "axis", axis), attr_int(b->cx, "wrap", wrap)};
    return build_emit(b, OP_gather, 2, (Value *[]){a, index}, 2, attrs, t);
}

Value *
build_scan(Build *b, Op op, Value *a, int axis)
{
    const char *why = NULL;
    const Type *from = type_in(b, OP_scan, a);
    const Type *t = checked(b, OP_scan, type_scan(b->cx, op, from, axis, &why), &why);
    Attr attrs[] = {attr_name(b->cx, "op", op_info[op].name, DIM_NONE),
                    attr_int(b->cx, "axis", axis)};
    return build_emit(b, OP_scan, 1, &a, 2, attrs, t);
}

Value *
build_scatter(Build *b, Op op, Value *a, Value *index, Value *v, int axis, int wrap)
{
    const char *why = NULL;
    const Type *from = type_in(b, OP_scatter, a), *at = type_in(b, OP_scatter, index);
    const Type *of = type_in(b, OP_scatter, v);
    const Type *t = checked(b, OP_scatter, type_scatter(b->cx, op, from, at, of, axis, &why), &why);
    Attr attrs[] = {attr_name(b->cx, "op", op_info[op].name, DIM_NONE),
                    attr_int(b->cx, "axis", axis), attr_int(b->cx, "wrap", wrap)};
    return build_emit(b, OP_scatter, 3, (Value *[]){a, index, v}, 3, attrs, t);
}
