/* The types of ops.  Each rule stands here once: the builder makes types by it, the verifier
 * checks. */
#include "cx.h"
#include "rules.h"

#include <string.h>

static const Type *
wrong(const char **why, const char *text)
{
    *why = text;
    return NULL;
}

/* ---- MAP ---- */

static bool
rule_takes(DtypeRule rule, Dtype dtype)
{
    DtypeClass class = dtype_info[dtype].class;
    switch (rule) {
    case RULE_NUM:
        return class == CLASS_INT || class == CLASS_FLOAT;
    case RULE_FLOAT:
    case RULE_PRED:
        return class == CLASS_FLOAT;
    case RULE_INT:
        return class == CLASS_INT || class == CLASS_BOOL;
    case RULE_BOOL:
        return class == CLASS_BOOL;
    case RULE_PART:
        return class == CLASS_COMPLEX;
    case RULE_PAIR:
        return dtype_pair(dtype) != DTYPE_COUNT;
    case RULE_BITS:
        return class == CLASS_INT || class == CLASS_FLOAT || dtype_is_float8(dtype);
    default:
        return class < CLASS_COMPLEX;
    }
}

/* Are the two as wide, and is one an integer and the other a float? */
static bool
bits_fit(Dtype a, Dtype b)
{
    bool ints = dtype_info[a].class == CLASS_INT && dtype_info[b].class == CLASS_FLOAT;
    return (ints && dtype_info[a].bytes == dtype_info[b].bytes) ||
           (a == DT_u8 && dtype_is_float8(b));
}

static const char *
rule_reason(DtypeRule rule)
{
    switch (rule) {
    case RULE_NUM:
        return "the op wants integers or floating point";
    case RULE_FLOAT:
    case RULE_PRED:
        return "the op wants floating point";
    case RULE_INT:
        return "the op wants integers or bool";
    case RULE_BOOL:
        return "the op wants bool";
    case RULE_PART:
        return "the op wants complex numbers";
    case RULE_PAIR:
        return "the op wants f32 or f64";
    case RULE_BITS:
        return "the op wants integers or floating point";
    default:
        return "the op wants bool, integers or floating point";
    }
}

static const Type *
type_where(Cx *cx, const Type *a, const Type *b, const Type *c, const char **why)
{
    const Type *arm = b ? b : c;
    if (!arm) {
        return wrong(why, "one arm of where must have a type");
    }
    if (a && a->dtype != DT_bool) {
        return wrong(why, "the first operand of where must be bool");
    }
    if ((a && !type_same_shape(a, arm)) || (b && c && b != c)) {
        return wrong(why, "the operands of where differ in shape or dtype");
    }
    return rule_takes(RULE_SEL, arm->dtype) ? type_with(cx, arm, arm->dtype)
                                            : wrong(why, rule_reason(RULE_SEL));
}

/* The dtype of the result for operands of `dtype`; `to` is the cast's. */
static Dtype
map_result(DtypeRule rule, Dtype dtype, Dtype to)
{
    switch (rule) {
    case RULE_CAST:
    case RULE_BITS:
        return to;
    case RULE_CMP:
    case RULE_PRED:
        return DT_bool;
    case RULE_PART:
        return dtype_part(dtype);
    case RULE_PAIR:
        return dtype_pair(dtype);
    default:
        return dtype;
    }
}

const Type *
type_map(Cx *cx, Op op, const Type *a, const Type *b, const Type *c, Dtype to, const char **why)
{
    DtypeRule rule = op_info[op].rule;
    if (rule == RULE_SEL) {
        return type_where(cx, a, b, c, why);
    }
    const Type *t = a ? a : b ? b : c, *given[] = {a, b, c};
    if (!t) {
        return wrong(why, "one operand must have a type");
    }
    for (int k = 0; k < 3; k++) {
        if (given[k] && given[k] != t) {
            return wrong(why, type_same_shape(given[k], t) ? "the operands differ in dtype"
                                                           : "the operands differ in shape");
        }
    }
    if (!rule_takes(rule, t->dtype) || (rule == RULE_CAST && !rule_takes(rule, to))) {
        return wrong(why, rule_reason(rule));
    }
    if (rule == RULE_BITS && !bits_fit(t->dtype, to) && !bits_fit(to, t->dtype)) {
        return wrong(why, "the op wants an integer and a float of one width, or u8 and one of 8 "
                          "bits");
    }
    return type_with(cx, t, map_result(rule, t->dtype, to));
}

bool
literal_fits(Literal literal, Dtype dtype)
{
    DtypeClass class = dtype_info[dtype].class;
    if (class >= CLASS_FLOAT) {
        return class == CLASS_FLOAT;    /* a complex constant is `complex` of two */
    }
    return literal.is_int && (class == CLASS_INT || literal.i == 0 || literal.i == 1);
}

/* ---- RED ---- */

static bool
ascending(int n, const int *axes, int rank)
{
    for (int k = 0; k < n; k++) {
        if (axes[k] < (k ? axes[k - 1] + 1 : 0) || axes[k] >= rank) {
            return false;
        }
    }
    return true;
}

const Type *
type_red(Cx *cx, Op op, const Type *a, int naxes, const int *axes, const char **why)
{
    const OpInfo *info = &op_info[op];
    Dim dims[MAX_RANK];
    int rank = 0;
    if (!ascending(naxes, axes, a->rank)) {
        return wrong(why, "axes must ascend and be axes of the operand");
    }
    if (info->rule == RULE_TRUTH && a->dtype != DT_bool) {
        return wrong(why, "the op wants bool");
    }
    if (!rule_takes(op_info[info->combine].rule, a->dtype)) {
        return wrong(why, rule_reason(op_info[info->combine].rule));
    }
    if (info->rule == RULE_INDEX && naxes != 1) {
        return wrong(why, "the op wants one axis");
    }
    for (int ax = 0, k = 0; ax < a->rank; ax++) {
        if (k < naxes && axes[k] == ax) {
            k++;
        } else {
            dims[rank++] = a->dims[ax];
        }
    }
    Dtype dtype = info->rule == RULE_INDEX ? DT_i64 : a->dtype;
    return type_of(cx, dtype, rank, dims);
}

/* ---- VIEW ---- */

const Type *
type_expand(Cx *cx, const Type *a, int rank, const Dim *dims, int nto, const int *to,
            const char **why)
{
    if (nto != a->rank || !ascending(nto, to, rank)) {
        return wrong(why, "`to` must give each axis of the operand one of the result, ascending");
    }
    for (int ax = 0; ax < a->rank; ax++) {
        if (dims[to[ax]] != a->dims[ax]) {
            return wrong(why, "an axis changes its size: only new axes repeat");
        }
    }
    return type_of(cx, a->dtype, rank, dims);
}

const Type *
type_reshape(Cx *cx, const Type *a, int rank, const Dim *dims, const char **why)
{
    const Type *t = type_of(cx, a->dtype, rank, dims);
    Dim from = type_numel(cx, a), to = type_numel(cx, t);
    /* a size of one value is a symbol in one of them and may be a number in the other */
    return from == to || (dim_le(cx, from, to) && dim_le(cx, to, from))
               ? t
               : wrong(why, "the number of elements is not known to stay the same");
}

const Type *
type_permute(Cx *cx, const Type *a, int n, const int *perm, const char **why)
{
    Dim dims[MAX_RANK];
    unsigned seen = 0;
    for (int ax = 0; ax < n && n == a->rank; ax++) {
        if (perm[ax] < 0 || perm[ax] >= n || (seen >> perm[ax] & 1)) {
            return wrong(why, "`perm` must name each axis once");
        }
        seen |= 1u << perm[ax];
        dims[ax] = a->dims[perm[ax]];
    }
    return n == a->rank ? type_of(cx, a->dtype, n, dims)
                        : wrong(why, "`perm` must name each axis once");
}

const Type *
type_slice(Cx *cx, const Type *a, int64_t axis, Dim length, const char **why)
{
    Dim dims[MAX_RANK];
    if (axis < 0 || axis >= a->rank) {
        return wrong(why, "no such axis");
    }
    memcpy(dims, a->dims, (size_t)a->rank * sizeof *dims);
    dims[axis] = length;
    return type_of(cx, a->dtype, a->rank, dims);
}

const Type *
type_flip(Cx *cx, const Type *a, int naxes, const int *axes, const char **why)
{
    (void)cx;
    return ascending(naxes, axes, a->rank)
               ? a
               : wrong(why, "axes must ascend and be axes of the operand");
}

const Type *
type_as_strided(Cx *cx, const Type *a, int rank, const Dim *dims, int nstrides, const char **why)
{
    return nstrides == rank ? type_of(cx, a->dtype, rank, dims)
                            : wrong(why, "there must be a stride for each axis");
}

/* ---- NODE ---- */

const Type *
type_iota(const Type *t, int64_t axis, const char **why)
{
    if (dtype_info[t->dtype].class != CLASS_INT) {
        return wrong(why, "the op wants integers");
    }
    return axis >= 0 && axis < t->rank ? t : wrong(why, "no such axis");
}

const Type *
type_cat(Cx *cx, int n, const Type *const *parts, int64_t axis, const char **why)
{
    if (n == 0 || axis < 0 || axis >= parts[0]->rank) {
        return wrong(why, n ? "no such axis" : "nothing to join");
    }
    Dim dims[MAX_RANK];
    memcpy(dims, parts[0]->dims, (size_t)parts[0]->rank * sizeof *dims);
    for (int k = 1; k < n; k++) {
        const Type *t = parts[k];
        if (t->dtype != parts[0]->dtype || t->rank != parts[0]->rank) {
            return wrong(why, "the parts differ in dtype or rank");
        }
        for (int ax = 0; ax < t->rank; ax++) {
            if (ax != axis && t->dims[ax] != dims[ax]) {
                return wrong(why, "the parts differ in another axis");
            }
        }
        dims[axis] = dim_add(cx, dims[axis], t->dims[axis]);
    }
    return type_of(cx, parts[0]->dtype, parts[0]->rank, dims);
}

const Type *
type_pad(const Type *a, const Type *t, int nlo, const char **why)
{
    if (dtype_info[t->dtype].class > CLASS_FLOAT) {
        return wrong(why, "there is no constant of the dtype");
    }
    return a->dtype == t->dtype && a->rank == t->rank && nlo == t->rank
               ? t
               : wrong(why, "dtype and rank must stay, with a `lo` for each axis");
}

const Type *
type_gather(Cx *cx, const Type *a, const Type *index, int64_t axis, const char **why)
{
    Dim dims[2 * MAX_RANK];
    if (axis < 0 || axis >= a->rank) {
        return wrong(why, "no such axis");
    }
    if (dtype_info[index->dtype].class != CLASS_INT) {
        return wrong(why, "the index must be integers");
    }
    int rank = 0;
    for (int ax = 0; ax < a->rank; ax++) {
        if (ax != axis) {
            dims[rank++] = a->dims[ax];
            continue;
        }
        for (int k = 0; k < index->rank; k++) {
            dims[rank++] = index->dims[k];
        }
    }
    return type_of(cx, a->dtype, rank, dims);
}

const Type *
type_scan(Cx *cx, Op op, const Type *a, int64_t axis, const char **why)
{
    bool adds = op == OP_logaddexp && dtype_info[a->dtype].class == CLASS_FLOAT;
    if (!adds && (op == OP_COUNT || op_info[op].kind != KIND_RED || op_info[op].rule != RULE_ACC)) {
        return wrong(why, "not a reduction that a scan can be of");
    }
    const Type *t = adds ? a : type_red(cx, op, a, 0, NULL, why);
    return !t || (axis >= 0 && axis < a->rank) ? t : wrong(why, "no such axis");
}

const Type *
type_scatter(Cx *cx, Op op, const Type *a, const Type *index, const Type *v, int64_t axis,
             const char **why)
{
    if (op != OP_store &&
        (op == OP_COUNT || op_info[op].kind != KIND_RED || op_info[op].rule != RULE_ACC)) {
        return wrong(why, "neither store nor a reduction that a scatter can be of");
    }
    if (axis < 0 || axis >= a->rank) {
        return wrong(why, "no such axis");
    }
    if (dtype_info[index->dtype].class != CLASS_INT || !type_same_shape(index, v)) {
        return wrong(why, "the index must be integers, one for each of the values");
    }
    if (v->dtype != a->dtype || v->rank != a->rank) {
        return wrong(why, "the values have another dtype or rank");
    }
    for (int ax = 0; ax < a->rank; ax++) {
        if (ax != axis && !dim_le(cx, v->dims[ax], a->dims[ax])) {
            return wrong(why, "there may be more values along another axis");
        }
    }
    return op == OP_store ? a : type_red(cx, op, a, 0, NULL, why);
}

/* ---- any let ---- */

static const Type *
typed(const Let *let, int k, const char **why)
{
    return k < let->nargs && let->args[k]->type ? let->args[k]->type
                                                : wrong(why, "the operand must not be a constant");
}

static const Type *
view_type(Cx *cx, const Let *let, const Type *a, const Type *t, const char **why)
{
    const Attr *attr;
    switch (let->op) {
    case OP_expand:
        attr = let_attr(let, "to");
        return type_expand(cx, a, t->rank, t->dims, attr->n, attr->axes, why);
    case OP_reshape:
        return type_reshape(cx, a, t->rank, t->dims, why);
    case OP_permute:
        attr = let_attr(let, "perm");
        return type_permute(cx, a, attr->n, attr->axes, why);
    case OP_slice: {
        int64_t axis = let_int(let, "axis");
        bool inside = axis >= 0 && axis < t->rank && t->rank == a->rank;
        return inside ? type_slice(cx, a, axis, t->dims[axis], why) : wrong(why, "no such axis");
    }
    case OP_flip:
        attr = let_attr(let, "axes");
        return type_flip(cx, a, attr->n, attr->axes, why);
    default:
        return type_as_strided(cx, a, t->rank, t->dims, let_attr(let, "strides")->n, why);
    }
}

static const Type *
map_type(Cx *cx, const Let *let, const Type *t, const char **why)
{
    const Type *a[3] = {NULL, NULL, NULL};
    for (int k = 0; k < let->nargs && k < 3; k++) {
        a[k] = let->args[k]->type;
    }
    const Type *r = type_map(cx, let->op, a[0], a[1], a[2], t->dtype, why);
    for (int k = 0; k < let->nargs && r; k++) {
        Dtype dtype = op_info[let->op].rule == RULE_SEL ? (k ? r->dtype : DT_bool)
                      : a[0]                            ? a[0]->dtype
                      : a[1]                            ? a[1]->dtype
                                                        : a[2]->dtype;
        if (value_is_const(let->args[k]) && !literal_fits(let->args[k]->literal, dtype)) {
            return wrong(why, "a constant does not fit the dtype");
        }
    }
    return r;
}

static const Type *
cat_type(Cx *cx, const Let *let, const char **why)
{
    const Type **parts = cx_alloc(cx, (size_t)let->nargs * sizeof *parts);
    for (int k = 0; k < let->nargs; k++) {
        parts[k] = typed(let, k, why);
        if (!parts[k]) {
            return NULL;
        }
    }
    return type_cat(cx, let->nargs, parts, let_int(let, "axis"), why);
}

/* What the bodies return; V30 has seen the form of the let. */
static const Type *
flow_type(Cx *cx, const Let *let, int k, const char **why)
{
    if (let->op == OP_branch) {
        return let->bodies[0]->body->rets[k]->type;
    }
    Loop loop = let_loop(let);
    if (k < loop.carries) {
        return loop_arg(&loop, k)->type;
    }
    const Type *t = loop_next(&loop, k)->type;
    return t->rank < MAX_RANK ? type_of_rows(cx, t, loop.taken)
                              : wrong(why, "the rows have too many axes");
}

static const Type *
node_type(Cx *cx, const Let *let, int k, const Type *t, const char **why)
{
    const Type *a, *b, *c;
    switch (let->op) {
    case OP_const:
        return literal_fits(let->args[0]->literal, t->dtype)
                   ? t
                   : wrong(why, "a constant does not fit the dtype");
    case OP_iota:
        return type_iota(t, let_int(let, "axis"), why);
    case OP_size:
        return type_scalar(cx, DT_i64);
    case OP_cat:
        return cat_type(cx, let, why);
    case OP_pad:
        a = typed(let, 0, why);
        a = a ? type_pad(a, t, let_attr(let, "lo")->n, why) : NULL;
        if (a && value_is_const(let->args[1]) && !literal_fits(let->args[1]->literal, a->dtype)) {
            return wrong(why, "a constant does not fit the dtype");
        }
        return a;
    case OP_gather:
        a = typed(let, 0, why);
        b = typed(let, 1, why);
        return a && b ? type_gather(cx, a, b, let_int(let, "axis"), why) : NULL;
    case OP_scan:
        a = typed(let, 0, why);
        return a ? type_scan(cx, let_op(let), a, let_int(let, "axis"), why) : NULL;
    case OP_scatter:
        a = typed(let, 0, why);
        b = typed(let, 1, why);
        c = typed(let, 2, why);
        return a && b && c ? type_scatter(cx, let_op(let), a, b, c, let_int(let, "axis"), why)
                           : NULL;
    case OP_contract:
        a = typed(let, 0, why);
        b = typed(let, 1, why);
        return a && b ? type_contract(cx, let_contraction(let), a, b, t->dtype, why) : NULL;
    case OP_load:
        a = typed(let, 0, why);
        return !a ? NULL
               : let_attr(let, "at")->n == a->rank
                   ? type_scalar(cx, a->dtype)
                   : wrong(why, "there must be an index for each axis");
    case OP_loop:
    case OP_branch:
        return flow_type(cx, let, k, why);
    case OP_kernel:             /* in the loops stage the body returns nothing */
        return let->body && k < let->body->nrets ? let->body->rets[k]->type : t;
    default:
        return t;
    }
}

const Type *
let_type(Cx *cx, const Let *let, int k, const char **why)
{
    const Type *t = let->res[k]->type, *a;
    const Attr *axes;
    switch (op_info[let->op].kind) {
    case KIND_MAP:
        return map_type(cx, let, t, why);
    case KIND_RED:
        a = typed(let, 0, why);
        axes = let_attr(let, "axes");
        return a ? type_red(cx, let->op, a, axes->n, axes->axes, why) : NULL;
    case KIND_VIEW:
        a = typed(let, 0, why);
        return a ? view_type(cx, let, a, t, why) : NULL;
    default:
        return node_type(cx, let, k, t, why);
    }
}
