/* Bags of an embedding: rows of a table by index, the mean or the maximum of each bag.
 *
 * Only bags of one size, given by an index with two axes. For sums, and for bags whose offsets are
 * data, eager has a routine of its own, and loops are not faster. */
#include "aten.h"

enum { MEAN = 1, LARGEST = 2, MAX_ROWS = 64 }; /* the modes; rows of a bag that are written out */

typedef struct {
    Value *table, *index; /* index: i64 [bags, size], checked */
    int64_t size;
} Bags;

/* The step of 0, step, 2 step ..; 0: it is none.  Of one element: `all`. */
static int64_t
step_of(const Value *v, int64_t all)
{
    int64_t step = 1;
    while (v->def && v->def->op == OP_cast) {
        v = v->def->args[0];
    }
    if (v->def && v->def->op == OP_const) {
        return v->def->args[0]->literal.i == 0 ? all : 0;
    }
    if (v->def && v->def->op == OP_mul && value_is_const(v->def->args[1])) {
        step = v->def->args[1]->literal.i;
        v = v->def->args[0];
    }
    return v->def && v->def->op == OP_iota ? step : 0;
}

/* (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
 * include_last_offset, padding_idx) */
static bool
read_bags(Aten *n, Bags *bags)
{
    const Arg *index = arg_at(n, 1), *offsets = arg_at(n, 2), *padding = arg_at(n, 8);
    bool padded = padding->kind != ARG_NONE && !(padding->kind == ARG_INT && padding->i < 0);
    if (!arg_is_float(&n->args[0]) || arg_tensor(n, 0)->type->rank != 2 || !is_index(index) ||
        !is_index(offsets) || arg_at(n, 6)->kind != ARG_NONE || arg_true(arg_at(n, 7)) || padded) {
        return false;
    }
    const Type *at = offsets->v->type, *all = index->v->type;
    int64_t count = 0;
    bool lines = at->rank == 1 && all->rank == 1,
         known = lines && dim_is_int(n->cx, all->dims[0], &count);
    int64_t size = lines ? step_of(offsets->v, known ? count : 0) : 0;
    if (size < 1 || size > MAX_ROWS ||
        all->dims[0] != dim_mul(n->cx, at->dims[0], dim_int(n->cx, size))) {
        return false;
    }
    Dim dims[] = {at->dims[0], dim_int(n->cx, size)};
    Value *checks = checked(n, index->v, arg_tensor(n, 0)->type->dims[0], INDEX_OF_ELEMENT);
    *bags = (Bags){arg_tensor(n, 0), build_reshape(n->b, checks, 2, dims), size};
    return true;
}

/* Which bag each index is in, and how many are in each. */
static void
count_bags(Aten *n, const Bags *bags)
{
    const int rows = 0;
    const Type *t = bags->index->type;
    Dim all = type_numel(n->cx, t);
    const Type *each = type_of(n->cx, DT_i64, 1, t->dims);
    Value *number = build_expand(n->b, position(n, each, 0), 2, t->dims, &rows);
    n->res[1] = build_reshape(n->b, number, 1, &all);
    n->res[2] = build_const(n->b, each, (Literal){.is_int = true, .i = bags->size});
}

/* The sum, from 0 and rounded, by how many.  Of bfloat16 eager's sum is rounded otherwise. */
static Value *
mean_of_bags(Aten *n, const Bags *bags)
{
    const int rows = 1;
    Value *v = build_cast(n->b, bags->table, wide(n->type->dtype));
    v = build_gather(n->b, v, bags->index, 0, INDEX_FROM_START);
    v = build_red(n->b, OP_sum, v, 1, &rows);
    v = rounded_step(n, bags->size == 1 ? map2(n, OP_add, v, number(n, 0)) : v);
    n->res[3] = n->res[2];
    return n->type->dtype == DT_bf16 ? NULL : map2(n, OP_div, v, build_int(n->b, bags->size));
}

/* The first of the largest, as eager compares them: a NaN stays where it is the first, else it is
 * passed over. */
static Value *
largest_of_bags(Aten *n, const Bags *bags)
{
    const int rows = 0;
    const Type *t = n->type, *at = type_with(n->cx, t, DT_i64);
    Value *best = NULL, *where = NULL;
    for (int64_t k = 0; k < bags->size; k++) {
        Value *index = part(n, bags->index, 1, dim_int(n->cx, k), one(n), one(n));
        index = build_reshape(n->b, index, 1, t->dims);
        Value *next = build_gather(n->b, bags->table, index, 0, INDEX_FROM_START);
        Value *better = k ? map2(n, OP_gt, next, best) : NULL;
        index = build_expand(n->b, index, 2, at->dims, &rows);
        where = k ? map3(n, OP_where, better, index, where) : index;
        best = k ? map3(n, OP_where, better, next, best) : next;
    }
    n->res[3] = where;
    return best;
}

/* _embedding_bag(weight, indices, offsets, ..): also which bag each index is in, the bags' sizes,
 * and for the largest their rows */
Value *
aten_embedding_bag(Aten *n)
{
    const Arg *mode = arg_at(n, 4);
    Bags bags;
    bool known = mode->kind == ARG_INT && (mode->i == MEAN || mode->i == LARGEST);
    if (!known || n->nres != 4 || !read_bags(n, &bags)) {
        return NULL;
    }
    count_bags(n, &bags);
    return mode->i == MEAN ? mean_of_bags(n, &bags) : largest_of_bags(n, &bags);
}
