/* The negative log likelihood: one element of each row, chosen by a class; that of two classes. */
#include "aten_formula.h"

/* The common part of forward and backward: (.., x, target, weight, reduction, ignore_index) from
 * argument `first` on. x has an axis of classes, which the target does not have. */
typedef struct {
    const Type *x;              /* wide */
    Value *safe;                /* the class of each row, i64; 0 where the row is ignored */
    Value *kept;                /* is it not? */
    const Arg *weight;
    int axis, naxes, axes[MAX_RANK];            /* of the classes; of the rows */
    bool mean, each;            /* the reduction: mean, or none; else the sum */
} Loss;

static bool
read_loss(Aten *n, int first, Loss *loss)
{
    const Arg *x = arg_at(n, first), *target = arg_at(n, first + 1), *how = arg_at(n, first + 3);
    const Arg *ignored = arg_at(n, first + 4);
    Dim rows[MAX_RANK];
    if (x->kind != ARG_TENSOR || target->kind != ARG_TENSOR || target->v->type->dtype != DT_i64 ||
        dtype_info[x->v->type->dtype].class != CLASS_FLOAT || how->kind != ARG_INT ||
        !x->v->type->rank) {
        return false;
    }
    const Arg *weight = arg_at(n, first + 2);
    if (weight->kind == ARG_TENSOR && weight->v->type->dtype != x->v->type->dtype) {
        return false;                           /* eager raises */
    }
    *loss = (Loss){.x = type_with(n->cx, x->v->type, wide(x->v->type->dtype)),
                   .weight = weight,
                   .mean = how->i == 1,
                   .each = how->i == 0};
    loss->axis = loss->x->rank > 1;
    for (int ax = 0; ax < loss->x->rank; ax++) {
        if (ax != loss->axis) {
            loss->axes[loss->naxes] = loss->naxes;
            rows[loss->naxes++] = loss->x->dims[ax];
        }
    }
    const Type *t = type_of(n->cx, DT_i64, loss->naxes, rows);
    Value *v = build_reshape(n->b, target->v, t->rank, t->dims), *none = operand(n, ignored, t);
    if (!none) {
        return false;
    }
    loss->kept = map2(n, OP_ne, v, none);
    loss->safe = map3(n, OP_where, loss->kept, v, build_int(n->b, 0));
    return true;
}

static Value *
over_classes(Aten *n, const Loss *loss, Value *rows)
{
    return spread(n, rows, loss->x, 1, &loss->axis);
}

static Value *
is_class(Aten *n, const Loss *loss, Value *at)
{
    const Type *t = type_with(n->cx, loss->x, DT_i64);
    return map2(n, OP_eq, position(n, t, loss->axis), over_classes(n, loss, at));
}

/* The weight of each row's class; NULL without weights. */
static Value *
weights(Aten *n, const Loss *loss)
{
    if (loss->weight->kind != ARG_TENSOR) {
        return NULL;
    }
    Value *w = build_cast(n->b, loss->weight->v, loss->x->dtype);
    return build_gather(n->b, w, loss->safe, 0, INDEX_FROM_START);
}

/* x at the class of each row.  If x is computed in the same graph, it is a sum with all terms but
 * one equal to 0: the kernel that computes the rows (a softmax) then has it without storing
 * them. */
static Value *
at_class(Aten *n, const Loss *loss, Value *x)
{
    Value *at = checked(n, loss->safe, loss->x->dims[loss->axis], INDEX_FROM_START), *pos = NULL;
    if (x->def && op_info[x->def->op].kind == KIND_MAP) {
        Value *v = build_cast(n->b, x, loss->x->dtype);
        v = map3(n, OP_where, is_class(n, loss, at), v, number(n, 0));
        return build_red(n->b, OP_sum, v, 1, &loss->axis);
    }
    for (int ax = 0, row = 0; ax < loss->x->rank; ax++) {
        Value *next = ax == loss->axis ? at : position(n, at->type, row++);
        pos = row_major(n, pos, loss->x->dims[ax], next);
    }
    return build_cast(n->b, gather_merged(n, x, 0, loss->x->rank, pos), loss->x->dtype);
}

static Value *
total(Aten *n, const Loss *loss, Value *v)
{
    return build_red(n->b, OP_sum, v, loss->naxes, loss->axes);
}

/* (x, target, weight, reduction, ignore_index) -> loss, total weight */
Value *
aten_nll_loss(Aten *n)
{
    Loss loss;
    if (!read_loss(n, 0, &loss)) {
        return NULL;
    }
    bool rows = loss.each && loss.x->rank > 1;
    Value *v = map1(n, OP_neg, at_class(n, &loss, arg_tensor(n, 0))), *w = weights(n, &loss);
    v = map3(n, OP_where, loss.kept, w ? map2(n, OP_mul, v, w) : v, number(n, 0));
    w = w ? map3(n, OP_where, loss.kept, w, number(n, 0))
          : build_cast(n->b, loss.kept, v->type->dtype);
    w = total(n, &loss, w);
    if (n->nres > 1) {
        n->res[1] = rows ? build_const(n->b, n->types[1], (Literal){.is_int = true}) : w;
    }
    v = rows ? v : total(n, &loss, v);
    return loss.mean ? map2(n, OP_div, v, w) : build_reshape(n->b, v, n->type->rank, n->type->dims);
}

/* (grad, x, target, weight, reduction, ignore_index, total weight): -grad at the class of each row,
 * which the forward has checked. */
Value *
aten_nll_loss_backward(Aten *n)
{
    Loss loss;
    const Arg *grad = arg_at(n, 0), *whole = arg_at(n, 6);
    if (!read_loss(n, 1, &loss) || grad->kind != ARG_TENSOR || whole->kind != ARG_TENSOR) {
        return NULL;
    }
    const Type *rows = type_with(n->cx, loss.safe->type, loss.x->dtype);
    Value *g = map1(n, OP_neg, build_cast(n->b, grad->v, rows->dtype)), *w = weights(n, &loss);
    g = loss.mean ? map2(n, OP_div, g, build_cast(n->b, whole->v, rows->dtype)) : g;
    g = build_broadcast(n->b, g, rows->rank, rows->dims);
    g = map3(n, OP_where, loss.kept, w ? map2(n, OP_mul, g, w) : g, number(n, 0));
    Value *here = is_class(n, &loss, loss.safe);
    return map3(n, OP_where, here, over_classes(n, &loss, g), number(n, 0));
}

/* ---- two classes ---- */

/* The loss, which raises where v is not in 0 .. 1. */
static Value *
of_parts(Aten *n, Value *loss, Value *v, int kind)
{
    Value *outside = map1(n, OP_not, AND(GE(v, NUM(0)), LE(v, NUM(1))));
    return raising_where(n, loss, outside, kind);
}

/* Bounds a logarithm below by -100, as eager does, so that the loss is never infinite. */
static Value *
bounded(Aten *n, Value *v)
{
    return MAX(v, NUM(-100));
}

/* binary_cross_entropy(x, target, weight, reduction); eager refuses another dtype or size of the
 * target. */
Value *
aten_binary_cross_entropy(Aten *n)
{
    const Arg *given = arg_at(n, 1), *weight = arg_at(n, 2), *how = arg_at(n, 3);
    const Type *t = arg_tensor(n, 0)->type;
    if (!arg_is_float(&n->args[0]) || !arg_is_float(given) || given->v->type->dtype != t->dtype ||
        given->v->type->rank != t->rank || !has_sizes(n, given->v, t->dims) ||
        how->kind != ARG_INT || (weight->kind != ARG_NONE && !arg_is_float(weight))) {
        return NULL;
    }
    int axes[MAX_RANK] = {0}, rank = t->rank;
    const Type *as = type_with(n->cx, t, wide(t->dtype));
    Value *x = operand(n, &n->args[0], as), *target = operand(n, given, as);
    Value *off = MUL(SUB(target, NUM(1)), bounded(n, LOG1P(NEG(x))));
    Value *loss = SUB(off, MUL(target, bounded(n, LOG(x))));
    loss = of_parts(n, loss, x, INDEX_OF_INPUT);
    loss = of_parts(n, loss, target, INDEX_OF_TARGET);
    loss = weight->kind == ARG_NONE ? loss : MUL(loss, operand(n, weight, as));
    for (int ax = 0; ax < rank; ax++) {
        axes[ax] = ax;
    }
    return how->i == 0   ? loss
           : how->i == 1 ? mean_of(n, loss, rank, axes)
                         : build_red(n->b, OP_sum, loss, rank, axes);
}
