/* Builders of functions whose Python form differs from the overload's: other arguments, or a choice
 * among overloads.  Each gives the same result as the function's decomposition into overloads. */
#include "torch.h"

#include <string.h>

const TorchRow torch_rows[] = {
#define SAME(in, name, parameters, overload) {in, #name, parameters, overload, NULL, 0},
#define FORM(in, name, parameters, builder) {in, #name, parameters, NULL, torch_##builder, 0},
#define OVER(in, name, parameters, builder, axes) {in, #name, parameters, NULL, builder, axes},
#define PRODUCT(in, name, parameters, overload) {in, #name, parameters, overload, NULL, 0},
#define CALL(in, name) {in, #name, NULL, NULL, NULL, 0},
#include "torch.def"
};
const int torch_nrows = sizeof torch_rows / sizeof *torch_rows;

/* The builder of an overload on other arguments, for the node's own results. */
static Value *
with_args(const Aten *n, const char *overload, int nargs, const Arg *args)
{
    const AtenRow *row = aten_find(overload);
    Aten as = *n;
    as.args = args;
    as.nargs = nargs;
    return row ? aten_run(&as, row) : NULL;
}

Value *
as_overload(Aten *n, const char *overload, const Type *t, int nargs, const Arg *args)
{
    const Type *types[4] = {t};
    Value *res[4] = {NULL};
    Aten as = *n;
    as.type = t;
    as.types = types;
    as.nres = 1;
    as.res = res;
    return with_args(&as, overload, nargs, args);
}

static bool
is_tensor(const Arg *a)
{
    return a->kind == ARG_TENSOR;
}

static Arg
tensor_arg(Value *v)
{
    return (Arg){.kind = ARG_TENSOR, .v = v};
}

static Arg
int_arg(int64_t i)
{
    return (Arg){.kind = ARG_INT, .i = i};
}

/* ---- arithmetic ---- */

/* A number by a tensor is the number times the reciprocal, rounded in between. */
Value *
torch_divide(Aten *n)
{
    if (is_tensor(&n->args[0])) {
        return as_overload(n, "aten.div.Tensor", n->type, 2, n->args);
    }
    Value *r = as_overload(n, "aten.reciprocal.default", n->type, 1, &n->args[1]);
    if (!r) {
        return NULL;
    }
    const Arg args[2] = {tensor_arg(build_cast(n->b, r, n->type->dtype)), n->args[0]};
    return as_overload(n, "aten.mul.Tensor", n->type, 2, args);
}

Value *
torch_pow(Aten *n)
{
    bool of_tensor = is_tensor(&n->args[0]), to_tensor = is_tensor(&n->args[1]);
    const char *overload = of_tensor && to_tensor ? "aten.pow.Tensor_Tensor"
                           : of_tensor            ? "aten.pow.Tensor_Scalar"
                                                  : "aten.pow.Scalar";
    return as_overload(n, overload, n->type, 2, n->args);
}

/* x.where(condition, other) */
Value *
torch_where_method(Aten *n)
{
    const Arg args[3] = {n->args[1], n->args[0], n->args[2]};
    return as_overload(n, "aten.where.self", n->type, 3, args);
}

/* ---- copies ---- */

Value *
torch_same(Aten *n)
{
    return is_tensor(&n->args[0]) ? arg_tensor(n, 0) : NULL;
}

/* Returns the operand itself if it is real, for functions such as conj; NULL: it is complex. */
static Value *
same_real(Aten *n)
{
    Value *x = torch_same(n);
    return x && dtype_info[x->type->dtype].class < CLASS_COMPLEX ? x : NULL;
}

Value *
torch_conj(Aten *n)
{
    Value *x = same_real(n);
    return x ? x : as_overload(n, "aten._conj.default", n->type, 1, n->args);
}

Value *
torch_real(Aten *n)
{
    Value *x = same_real(n);
    return x ? x : map1(n, OP_real, arg_tensor(n, 0));
}

Value *
torch_cast(Aten *n)
{
    return operand(n, &n->args[0], n->type);
}

/* x.type(dtype); without a dtype it is a text, and no tensor. */
Value *
torch_cast_to(Aten *n)
{
    return arg_at(n, 1)->kind == ARG_NONE ? NULL : operand(n, &n->args[0], n->type);
}

Value *
torch_copy(Aten *n)
{
    return operand(n, &n->args[1], n->type);
}

Value *
torch_fill(Aten *n)
{
    return as_overload(n, "aten.fill.Scalar", n->type, 2, n->args);
}

Value *
torch_zero(Aten *n)
{
    return as_overload(n, "aten.zeros.default", n->type, 0, NULL);
}

/* Computes dropout if it drops nothing: in evaluation, or with a probability of 0. */
Value *
torch_dropout(Aten *n)
{
    const Arg *p = arg_at(n, 1), *train = arg_at(n, 2);
    bool none = arg_is_number(p) && arg_float(p, 1) == 0;
    bool off = train->kind == ARG_BOOL && !train->i;
    return none || off ? torch_same(n) : NULL;
}

/* ---- activations ---- */

Value *
torch_relu6(Aten *n)
{
    const Arg args[3] = {n->args[0], int_arg(0), int_arg(6)};
    return as_overload(n, "aten.hardtanh.default", n->type, 3, args);
}

Value *
torch_elu(Aten *n)
{
    const Arg args[4] = {n->args[0], n->args[1], int_arg(1), int_arg(1)};
    return as_overload(n, "aten.elu.default", n->type, 4, args);
}

/* Where the slope is not drawn: the middle of its range. */
Value *
torch_rrelu(Aten *n)
{
    const Arg *lower = arg_at(n, 1), *upper = arg_at(n, 2), *train = arg_at(n, 3);
    if (train->kind != ARG_BOOL || train->i || !arg_is_number(lower) || !arg_is_number(upper)) {
        return NULL;
    }
    double slope = (arg_float(lower, 0) + arg_float(upper, 0)) / 2;
    const Arg args[2] = {n->args[0], {.kind = ARG_FLOAT, .f = slope}};
    return as_overload(n, "aten.leaky_relu.default", n->type, 2, args);
}

Value *
torch_log_sigmoid(Aten *n)
{
    return as_overload(n, "aten.log_sigmoid_forward.default", n->type, 1, n->args);
}

/* ---- reductions ---- */

/* max(x), max(x, other), and max(x, dim), which has two results */
static Value *
extreme(Aten *n, bool most)
{
    const Arg *dim = arg_at(n, 1);
    if (is_tensor(dim)) {
        return as_overload(n, most ? "aten.maximum.default" : "aten.minimum.default", n->type, 2,
                           n->args);
    }
    if (dim->kind == ARG_NONE) {
        return as_overload(n, most ? "aten.max.default" : "aten.min.default", n->type, 1, n->args);
    }
    return n->nres == 2 ? with_args(n, most ? "aten.max.dim" : "aten.min.dim", n->nargs, n->args)
                        : NULL;
}

Value *
torch_max(Aten *n)
{
    return extreme(n, true);
}

Value *
torch_min(Aten *n)
{
    return extreme(n, false);
}

/* (x, dim, unbiased, keepdim, correction) as the overload's (x, dim, correction, keepdim).  A bool
 * in second place would be `unbiased`, over all axes. */
static bool
variance_args(const Aten *n, Arg *args)
{
    const Arg *dim = arg_at(n, 1), *unbiased = arg_at(n, 2), *correction = arg_at(n, 4);
    bool says = unbiased->kind == ARG_BOOL;
    args[0] = n->args[0];
    args[1] = *dim;
    args[2] = says ? int_arg(unbiased->i) : *correction;
    args[3] = *arg_at(n, 3);
    return dim->kind != ARG_BOOL && (says || unbiased->kind == ARG_NONE) &&
           !(says && correction->kind != ARG_NONE);
}

static Value *
variance(Aten *n, const char *overload)
{
    Arg args[4];
    return variance_args(n, args) ? as_overload(n, overload, n->type, 4, args) : NULL;
}

Value *
torch_var(Aten *n)
{
    return variance(n, "aten.var.correction");
}

Value *
torch_std(Aten *n)
{
    return variance(n, "aten.std.correction");
}

static Value *
with_mean(Aten *n, const char *overload)
{
    Arg args[4];
    return variance_args(n, args) && n->nres == 2 ? with_args(n, overload, 4, args) : NULL;
}

Value *
torch_var_mean(Aten *n)
{
    return with_mean(n, "aten.var_mean.correction");
}

Value *
torch_std_mean(Aten *n)
{
    return with_mean(n, "aten.std_mean.correction");
}

/* ---- softmax and norms ---- */

/* softmax(x, dim, .., dtype): of x in that dtype. */
static Value *
softmax(Aten *n, const char *overload)
{
    Value *x = arg_tensor(n, 0);
    const Arg *dim = arg_at(n, 1);
    if (!is_tensor(&n->args[0]) || dim->kind != ARG_INT) {
        return NULL;
    }
    const Arg args[3] = {tensor_arg(build_cast(n->b, x, n->type->dtype)), *dim, {.kind = ARG_BOOL}};
    return as_overload(n, overload, n->type, 3, args);
}

Value *
torch_softmax(Aten *n)
{
    return softmax(n, "aten._softmax.default");
}

Value *
torch_log_softmax(Aten *n)
{
    return softmax(n, "aten._log_softmax.default");
}

Value *
torch_layer_norm(Aten *n)
{
    return as_overload(n, "aten.native_layer_norm.default", n->type, 5, n->args);
}

/* (x, mean, variance, weight, bias, training, momentum, eps), in evaluation */
Value *
torch_batch_norm(Aten *n)
{
    if (arg_true(arg_at(n, 5)) || !is_tensor(arg_at(n, 1)) || !is_tensor(arg_at(n, 2))) {
        return NULL;
    }
    const Arg args[7] = {n->args[0], n->args[3], n->args[4], n->args[1],
                         n->args[2], n->args[6], n->args[7]};
    return as_overload(n, "aten._native_batch_norm_legit_no_training.default", n->type, 7, args);
}

/* ---- made from nothing ---- */

Value *
torch_zeros(Aten *n)
{
    return as_overload(n, "aten.zeros.default", n->type, 0, NULL);
}

Value *
torch_empty(Aten *n)
{
    return as_overload(n, "aten.empty.memory_format", n->type, 0, NULL);
}

Value *
torch_ones(Aten *n)
{
    return as_overload(n, "aten.ones.default", n->type, 0, NULL);
}

/* arange(end), arange(start, end), arange(start, end, step) */
Value *
torch_arange(Aten *n)
{
    const char *overload = arg_at(n, 1)->kind == ARG_NONE   ? "aten.arange.default"
                           : arg_at(n, 2)->kind == ARG_NONE ? "aten.arange.start"
                                                            : "aten.arange.start_step";
    return as_overload(n, overload, n->type, 3, n->args);
}

/* Appends the numbers of a list, and of lists in it; false: there is something else, or too
 * many. */
static bool
flatten(const Aten *n, const Arg *a, int *count, Literal *numbers)
{
    if (arg_is_number(a) && *count < MAX_LITERALS) {
        bool whole = dtype_info[n->type->dtype].class != CLASS_FLOAT;
        bool fits = !whole || a->kind != ARG_FLOAT;
        numbers[(*count)++] = whole ? (Literal){.is_int = true, .i = a->i}
                                    : (Literal){.f = arg_float(a, 0)};
        return fits;
    }
    bool fits = a->kind == ARG_LIST;
    for (int k = 0; fits && k < a->n; k++) {
        fits = flatten(n, &a->items[k], count, numbers);
    }
    return fits;
}

/* tensor(list of numbers) */
static Value *
literal_tensor(Aten *n)
{
    Literal numbers[MAX_LITERALS];
    int64_t all;
    int count = 0;
    bool fits = dtype_info[n->type->dtype].class < CLASS_COMPLEX &&
                flatten(n, arg_at(n, 0), &count, numbers) && count &&
                dim_is_int(n->cx, type_numel(n->cx, n->type), &all) && all == count;
    return fits ? literals(n->b, n->type, count, numbers) : NULL;
}

/* tensor(number), tensor(list) */
Value *
torch_tensor(Aten *n)
{
    const Arg *data = arg_at(n, 0);
    if (data->kind == ARG_LIST) {
        return literal_tensor(n);
    }
    return arg_is_number(data) && n->type->rank == 0
               ? as_overload(n, "aten.scalar_tensor.default", n->type, 1, data)
               : NULL;
}

/* as_tensor(tensor) and as_tensor(number), in the result's dtype */
Value *
torch_as_tensor(Aten *n)
{
    return is_tensor(&n->args[0]) ? torch_cast(n) : torch_tensor(n);
}

/* ---- gathers, pools, attention ---- */

/* embedding(indices, weight, padding_idx, max_norm, ..) */
Value *
torch_embedding(Aten *n)
{
    const Arg args[2] = {n->args[1], n->args[0]};
    bool renorms = arg_at(n, 3)->kind != ARG_NONE;
    return renorms || !is_tensor(args) ? NULL
                                       : as_overload(n, "aten.embedding.default", n->type, 2, args);
}

/* adaptive_avg_pool2d(x, size): one window is the mean of all. */
Value *
torch_adaptive_avg_pool(Aten *n)
{
    int rank = n->type->rank;
    Arg items[MAX_RANK];
    bool all = rank > n->axes;
    if (all && dim_is(n->cx, n->type->dims[rank - 1 - n->axes], 0)) {
        return NULL; /* eager refuses to have no channels */
    }
    for (int k = 0; k < n->axes; k++) {
        items[k] = int_arg(-1 - k);
        all = all && dim_is(n->cx, n->type->dims[rank - 1 - k], 1);
    }
    const Arg args[3] = {
        n->args[0], {.kind = ARG_LIST, .n = n->axes, .items = items}, {.kind = ARG_BOOL, .i = 1}};
    return all ? as_overload(n, "aten.mean.dim", n->type, 3, args) : aten_adaptive_avg_pool(n);
}

/* As lets where products are computed here; as the eager operator where that runs the kernel made
 * for the CPU; else torch decomposes it, and the graph is left to that.
 * (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa) */
Value *
torch_attention(Aten *n)
{
    const Arg *dropout = arg_at(n, 4), *grouped = arg_at(n, 7);
    const Type *v = is_tensor(&n->args[2]) ? arg_tensor(n, 2)->type : NULL;
    bool same = v != NULL;
    for (int k = 0; same && k < 2; k++) {
        const Type *t = is_tensor(&n->args[k]) ? arg_tensor(n, k)->type : NULL;
        same = t && t->rank == 4 && v->rank == 4 && t->dims[3] == v->dims[3] &&
               (t->dims[1] == v->dims[1] || (k == 0 && arg_true(grouped)));
    }
    const Arg args[7] = {n->args[0],    n->args[1],    n->args[2],   *dropout,
                         *arg_at(n, 5), *arg_at(n, 3), *arg_at(n, 6)};
    Value *lets = as_overload(n, "aten._scaled_dot_product_flash_attention_for_cpu.default",
                              n->type, 7, args);
    bool plain = arg_is_number(dropout) && arg_float(dropout, 1) == 0;
    if (!lets && (!same || !plain || dtype_info[v->dtype].class != CLASS_FLOAT)) {
        n->refusal = "torch decomposes attention with these arguments";
    }
    return lets;
}
