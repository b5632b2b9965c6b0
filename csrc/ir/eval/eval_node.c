/* The interpreter: reductions, views and the nodes of the graph. */
#include "eval.h"

#include <string.h>

/* ---- reductions: floating point in double, integers in 64 bits ---- */

/* Adds x to the sum, and what the addition loses to `lost`.  One after the other, the roundings of
 * many equal terms go the same way: no order that a kernel adds in is as far off. */
static void
add_term(Fold *fold, double x)
{
    double sum = fold->f + x;
    if (__builtin_isfinite(sum)) {
        bool larger = __builtin_fabs(fold->f) >= __builtin_fabs(x);
        fold->lost += larger ? fold->f - sum + x : x - sum + fold->f;
    }
    fold->f = sum;
}

Fold
fold_start(Op op, Dtype dtype)
{
    bool one = op == OP_prod;
    return (Fold){
        .op = op, .dtype = dtype, .f = one, .most = 1, .least = 1, .i = one || op == OP_all};
}

/* Is x chosen instead of the present element?  NaN comes before all.  Among equals, an index is
 * that of the first, and a zero is the last, as in `maximum` and `minimum`. */
static bool
chosen(const Fold *fold, Elem x, bool is_float)
{
    bool greatest = fold->op == OP_amax || fold->op == OP_argmax,
         last = fold->op == OP_amax || fold->op == OP_amin;
    if (fold->count == 0) {
        return true;
    }
    if (is_float && x.d != x.d) {
        return last || fold->f == fold->f;
    }
    if (is_float ? x.d == fold->f : x.l == fold->i) {
        return last;
    }
    if (is_float) {
        return greatest ? x.d > fold->f : x.d < fold->f;
    }
    return greatest ? x.l > fold->i : x.l < fold->i;
}

void
fold_step(Fold *fold, const void *element, int64_t position)
{
    bool is_float = dtype_info[fold->dtype].class == CLASS_FLOAT;
    Elem x = elem_cast(fold->dtype, is_float ? DT_f64 : DT_i64, elem_load(fold->dtype, element));
    switch (fold->op) {
    case OP_sum:
        add_term(fold, is_float ? x.d : 0);
        fold->size += is_float && __builtin_isfinite(x.d) ? __builtin_fabs(x.d) : 0;
        fold->above |= is_float && x.d > 0;
        fold->below |= is_float && x.d < 0;
        fold->i += is_float ? 0 : x.l;
        break;
    case OP_prod:
        fold->f *= is_float ? x.d : 1;
        if (is_float && __builtin_isfinite(x.d)) {
            *(__builtin_fabs(x.d) < 1 ? &fold->least : &fold->most) *= __builtin_fabs(x.d);
        }
        fold->i *= is_float ? 1 : x.l;
        break;
    case OP_any:
        fold->i |= x.l;
        break;
    case OP_all:
        fold->i &= x.l;
        break;
    default:
        if (chosen(fold, x, is_float)) {
            fold->f = is_float ? x.d : 0;
            fold->i = is_float ? 0 : x.l;
            fold->at = position;
        }
        break;
    }
    fold->count++;
}

void
fold_end(Cx *cx, const Fold *fold, Dtype to, void *out)
{
    bool is_float = dtype_info[fold->dtype].class == CLASS_FLOAT;
    double f = fold->lost != 0 ? fold->f + fold->lost : fold->f; /* keeps the sign of a zero */
    Elem x = is_float ? (Elem){.d = f} : (Elem){.l = fold->i};
    switch (fold->op) {
    case OP_amax:
    case OP_amin:
    case OP_argmax:
    case OP_argmin:
        if (fold->count == 0) {
            fail(cx, DIAG_EVAL_EMPTY, op_info[fold->op].name);
        }
        break;
    default:
        break;
    }
    if (op_info[fold->op].rule == RULE_INDEX) {
        x.l = fold->at;
        is_float = false;
    }
    elem_store(to, elem_cast(is_float ? DT_f64 : DT_i64, to, x), out);
}

void
eval_red(Eval *e, const Let *let)
{
    const Tensor *a = eval_value(e, let->args[0]), *out = eval_make(e, let->res[0]);
    const Attr *axes = let_attr(let, "axes");
    int64_t n = tensor_numel(out), strides[MAX_RANK], index[MAX_RANK] = {0};
    for (int ax = 0, k = 0; ax < a->rank; ax++) {
        bool reduced = k < axes->n && axes->axes[k] == ax;
        strides[ax] = reduced ? 0 : out->strides[ax - k];
        k += reduced;
    }
    Fold *folds = cx_alloc(e->cx, (size_t)n * sizeof *folds);
    for (int64_t k = 0; k < n; k++) {
        folds[k] = fold_start(let->op, a->dtype);
    }
    if (tensor_numel(a) > 0) {
        do {
            int64_t at = 0;
            for (int ax = 0; ax < a->rank; ax++) {
                at += index[ax] * strides[ax];
            }
            fold_step(&folds[at], tensor_at(a, index), axes->n ? index[axes->axes[0]] : 0);
        } while (tensor_next(a, index));
    }
    for (int64_t k = 0; k < n; k++) {
        char *at = (char *)out->data + k * dtype_info[out->dtype].bytes;
        fold_end(e->cx, &folds[k], out->dtype, at);
        noise_of_fold(e, let, &folds[k], at);
    }
}

/* ---- views and nodes that read an operand by an index map ---- */

static void
check_index(Eval *e, const Let *let, int64_t index, int64_t size, int axis)
{
    if (index < 0 || index >= size) {
        fail(e->cx, DIAG_EVAL_INDEX, op_info[let->op].name, (long long)index, axis,
             let->args[0]->name, (long long)size);
    }
}

/* The element of the operand in row-major order that `index` of an as_strided result is. */
static int64_t
strided_element(Eval *e, const Let *let, const int64_t *index)
{
    const Attr *strides = let_attr(let, "strides");
    int64_t at = eval_dim(e, let_dim(let, "offset"));
    for (int ax = 0; ax < strides->n; ax++) {
        at += index[ax] * eval_dim(e, strides->dims[ax]);
    }
    return at;
}

static int64_t
row_major(const Tensor *t, const int64_t *index)
{
    int64_t at = 0;
    for (int ax = 0; ax < t->rank; ax++) {
        at += index[ax] * t->strides[ax];
    }
    return at;
}

static void
from_row_major(const Tensor *t, int64_t at, int64_t *index)
{
    for (int ax = 0; ax < t->rank; ax++) {
        index[ax] = at / t->strides[ax];
        at %= t->strides[ax];
    }
}

static void
gather_index(Eval *e, const Let *let, const int64_t *index, int64_t *from)
{
    const Tensor *a = eval_value(e, let->args[0]), *which = eval_value(e, let->args[1]);
    int axis = (int)let_int(let, "axis");
    memcpy(from, index, (size_t)axis * sizeof *from);
    int64_t g =
        elem_cast(which->dtype, DT_i64, elem_load(which->dtype, tensor_at(which, index + axis))).l;
    from[axis] = g < 0 && let_int(let, "wrap") == INDEX_FROM_END ? g + a->sizes[axis] : g;
    for (int ax = axis + 1; ax < a->rank; ax++) {
        from[ax] = index[ax - 1 + which->rank];
    }
}

/* Which element of the operand is element `index` of the result. */
static void
map_index(Eval *e, const Let *let, const Tensor *out, const int64_t *index, int64_t *from)
{
    const Tensor *a = eval_value(e, let->args[0]);
    const Attr *axes = let->nattrs ? &let->attrs[0] : NULL;
    int axis = axes && axes->kind == ATTR_INT ? (int)axes->i : 0;
    memcpy(from, index, MAX_RANK * sizeof *from);
    switch (let->op) {
    case OP_expand:
        for (int ax = 0; ax < a->rank; ax++) {
            from[ax] = index[axes->axes[ax]];
        }
        break;
    case OP_reshape:
        from_row_major(a, row_major(out, index), from);
        break;
    case OP_permute:
        for (int ax = 0; ax < a->rank; ax++) {
            from[axes->axes[ax]] = index[ax];
        }
        break;
    case OP_slice:
        from[axis] = eval_dim(e, let_dim(let, "start")) +
                     index[axis] * eval_dim(e, let_dim(let, "step"));
        break;
    case OP_flip:
        for (int k = 0; k < axes->n; k++) {
            from[axes->axes[k]] = a->sizes[axes->axes[k]] - 1 - index[axes->axes[k]];
        }
        break;
    case OP_as_strided: {
        int64_t at = strided_element(e, let, index);
        check_index(e, let, at, tensor_numel(a), 0);
        from_row_major(a, at, from);
        break;
    }
    case OP_pad:
        for (int ax = 0; ax < a->rank; ax++) {
            from[ax] = index[ax] - eval_dim(e, axes->dims[ax]);
        }
        break;
    default:
        gather_index(e, let, index, from);
        break;
    }
}

static bool
inside(const Tensor *t, const int64_t *index)
{
    bool is = true;
    for (int ax = 0; ax < t->rank; ax++) {
        is = is && index[ax] >= 0 && index[ax] < t->sizes[ax];
    }
    return is;
}

/* Every element of the result copied from where its index map says; pad's fill where that is
 * nowhere. */
void
eval_view(Eval *e, const Let *let)
{
    const Tensor *a = eval_value(e, let->args[0]), *out = eval_make(e, let->res[0]);
    size_t bytes = (size_t)dtype_info[out->dtype].bytes;
    int64_t index[MAX_RANK] = {0}, from[MAX_RANK];
    Elem fill = {0};
    if (let->op == OP_pad) {
        elem_store(out->dtype, elem_literal(out->dtype, let->args[1]->literal), &fill);
    }
    if (tensor_numel(out) == 0) {
        return;
    }
    do {
        map_index(e, let, out, index, from);
        bool is = inside(a, from);
        for (int ax = 0; ax < a->rank && !is && let->op != OP_pad; ax++) {
            check_index(e, let, from[ax], a->sizes[ax], ax);
        }
        memcpy(tensor_at(out, index), is ? tensor_at(a, from) : &fill, bytes);
    } while (tensor_next(out, index));
}

/* ---- the other nodes ---- */

static void
eval_cat(Eval *e, const Let *let)
{
    Tensor part = *eval_make(e, let->res[0]);
    int axis = (int)let_int(let, "axis");
    for (int k = 0; k < let->nargs; k++) {
        const Tensor *a = eval_value(e, let->args[k]);
        part.sizes[axis] = a->sizes[axis];
        tensor_copy(&part, a);
        part.data = (char *)part.data +
                    a->sizes[axis] * part.strides[axis] * dtype_info[part.dtype].bytes;
    }
}

/* const, iota and size: each element from its index alone. */
static void
eval_made(Eval *e, const Let *let)
{
    const Tensor *out = eval_make(e, let->res[0]);
    int64_t index[MAX_RANK] = {0};
    if (tensor_numel(out) == 0) {
        return;
    }
    do {
        Elem x = let->op == OP_const
                     ? elem_literal(out->dtype, let->args[0]->literal)
                     : elem_cast(DT_i64, out->dtype,
                                 (Elem){.l = let->op == OP_iota
                                                 ? index[let_int(let, "axis")]
                                                 : eval_dim(e, let_dim(let, "dim"))});
        elem_store(out->dtype, x, tensor_at(out, index));
    } while (tensor_next(out, index));
}

/* The dtype in which a running logarithm of sums is kept. */
static Dtype
running_dtype(Dtype dtype)
{
    return dtype == DT_f32 ? DT_f64 : dtype_info[dtype].compute;
}

/* Adds one more element to a running logarithm of sums. */
static void
add_exp(Eval *e, Elem *run, Dtype dtype, const void *x, void *out)
{
    Dtype wide = running_dtype(dtype);
    Elem v = elem_cast(dtype, wide, elem_load(dtype, x));
    e->map(OP_logaddexp, wide, wide, run, &v, NULL, run);
    elem_store(dtype, elem_cast(wide, dtype, *run), out);
}

static void
eval_running_log(Eval *e, const Tensor *a, const Tensor *out, int axis, int64_t *index)
{
    Dtype wide = running_dtype(a->dtype);
    Elem run = elem_literal(wide, (Literal){.f = -__builtin_inf()});
    for (int64_t j = 0; j < a->sizes[axis]; j++) {
        int64_t at[MAX_RANK];
        memcpy(at, index, sizeof at);
        at[axis] = j;
        add_exp(e, &run, a->dtype, tensor_at(a, at), tensor_at(out, at));
    }
}

static void
eval_scan(Eval *e, const Let *let)
{
    const Tensor *out = eval_make(e, let->res[0]), *a = eval_value(e, let->args[0]);
    int axis = (int)let_int(let, "axis");
    int64_t index[MAX_RANK] = {0};
    if (tensor_numel(a) == 0) {
        return;
    }
    do {
        if (let_op(let) == OP_logaddexp) {
            if (index[axis] == 0) {
                eval_running_log(e, a, out, axis, index);
            }
            continue;
        }
        Fold fold = fold_start(let_op(let), a->dtype);
        for (int64_t j = 0; index[axis] == 0 && j < a->sizes[axis]; j++) {
            int64_t at[MAX_RANK];
            memcpy(at, index, sizeof at);
            at[axis] = j;
            fold_step(&fold, tensor_at(a, at), j);
            fold.lost = 0; /* kernels add in this order, too */
            fold_end(e->cx, &fold, out->dtype, tensor_at(out, at));
        }
    } while (tensor_next(a, index));
}

/* Accumulated in the dtype that x is computed in, in row-major order of the values. */
static void
eval_scatter(Eval *e, const Let *let)
{
    const Tensor *out = eval_make(e, let->res[0]), *a = eval_value(e, let->args[0]);
    const Tensor *which = eval_value(e, let->args[1]), *v = eval_value(e, let->args[2]);
    Dtype wide = dtype_info[a->dtype].compute;
    Op op = let_op(let), combine = op == OP_store ? op : op_info[op].combine;
    int axis = (int)let_int(let, "axis");
    int64_t n = tensor_numel(a), bytes = dtype_info[a->dtype].bytes, index[MAX_RANK] = {0},
            to[MAX_RANK];
    Elem *sums = cx_alloc(e->cx, ((size_t)n + 1) * sizeof *sums);
    for (int64_t k = 0; k < n; k++) {
        sums[k] = elem_load(a->dtype, (const char *)a->data + k * bytes);
    }
    if (tensor_numel(v) > 0) {
        do {
            memcpy(to, index, sizeof to);
            int64_t g =
                elem_cast(which->dtype, DT_i64, elem_load(which->dtype, tensor_at(which, index))).l;
            to[axis] = g < 0 && let_int(let, "wrap") == INDEX_FROM_END ? g + a->sizes[axis] : g;
            check_index(e, let, to[axis], a->sizes[axis], axis);
            Elem x = elem_load(v->dtype, tensor_at(v, index)), *sum = &sums[row_major(a, to)];
            if (combine == OP_store) {
                *sum = x;
            } else {
                eval_map(combine, wide, wide, sum, &x, NULL, sum);
            }
        } while (tensor_next(v, index));
    }
    for (int64_t k = 0; k < n; k++) {
        elem_store(out->dtype, sums[k], (char *)out->data + k * bytes);
    }
}

void
eval_node(Eval *e, const Let *let)
{
    switch (let->op) {
    case OP_const:
    case OP_iota:
    case OP_size:
        eval_made(e, let);
        break;
    case OP_cat:
        eval_cat(e, let);
        break;
    case OP_pad:
    case OP_gather:
        eval_view(e, let);
        break;
    case OP_scan:
        eval_scan(e, let);
        break;
    case OP_scatter:
        eval_scatter(e, let);
        break;
    case OP_contract:
        eval_contract(e, let);
        break;
    case OP_kernel:
        eval_kernel(e, let);
        break;
    case OP_loop:
    case OP_branch:
        eval_flow(e, let);
        break;
    case OP_call:
        fail(e->cx, DIAG_EVAL_CALL, let_str(let, "target"));
    default:
        eval_loop_node(e, let);
        break;
    }
}
