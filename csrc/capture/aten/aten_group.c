/* Group norm. Its gradient is decomposed by torch into sums for each channel and operations on
 * these.
 *
 * Channels are two axes here, groups and the channels of a group, from the first read of x to the
 * last operation. Then the statistics and everything else have one domain, and a group is read,
 * normalised and written while it is in the cache. */
#include "aten_formula.h"

/* x as [N, G, C / G, ..]; `each`: a value for each channel, [G, C / G]. */
typedef struct {
    Aten *n;
    const Type *x, *each;
    int naxes, axes[MAX_RANK];  /* of a group's elements: all from 2 on */
} Groups;

/* The number of channels has to be known as a multiple. */
static bool
groups_of(Aten *n, const Arg *arg, const Arg *count, Groups *g)
{
    const Type *x = arg_is_float(arg) ? arg->v->type : NULL;
    if (!x || x->rank < 2 || x->rank >= MAX_RANK || count->kind != ARG_INT || count->i < 1) {
        return false;
    }
    Dim groups = dim_int(n->cx, count->i), each = dim_div(n->cx, x->dims[1], groups);
    Dim dims[MAX_RANK] = {x->dims[0], groups, each};
    for (int ax = 2; ax < x->rank; ax++) {
        dims[ax + 1] = x->dims[ax];
    }
    *g = (Groups){.n = n, .naxes = x->rank - 1};
    for (int k = 0; k < g->naxes; k++) {
        g->axes[k] = k + 2;
    }
    g->x = type_of(n->cx, x->dtype, x->rank + 1, dims);
    Dtype dtype = statistics_dtype(n, g->x, g->naxes, g->axes);
    g->x = type_with(n->cx, g->x, dtype);
    g->each = type_of(n->cx, dtype, 2, dims + 1);
    return dim_mul(n->cx, each, groups) == x->dims[1] && !may_be_empty(n, g->x, g->naxes, g->axes);
}

/* An argument as wide numbers in the shape of t; NULL: it does not have as many elements. */
static Value *
as(const Groups *g, const Arg *a, const Type *t)
{
    Build *b = g->n->b;
    bool fits = arg_is_float(a) && type_numel(g->n->cx, a->v->type) == type_numel(g->n->cx, t);
    return fits ? build_reshape(b, build_cast(b, a->v, t->dtype), t->rank, t->dims) : NULL;
}

static Value *
mean(const Groups *g, Value *v)
{
    return mean_of(g->n, v, g->naxes, g->axes);
}

/* Repeats a value for each group along the group's elements. */
static Value *
along(const Groups *g, Value *v)
{
    return spread(g->n, v, g->x, g->naxes, g->axes);
}

/* Repeats a value for each channel along the elements of all N. */
static Value *
along_channels(const Groups *g, Value *v)
{
    return build_expand(g->n->b, v, g->x->rank, g->x->dims, (const int[]){1, 2});
}

/* Gives v the dtype and shape of the node's result k. */
static Value *
shaped(const Groups *g, Value *v, int k)
{
    const Type *t = g->n->types[k];
    return t ? build_reshape(g->n->b, build_cast(g->n->b, v, t->dtype), t->rank, t->dims) : NULL;
}

/* x * scale + shift, both of a channel, as eager does; that they are is for the loops to find. */
Value *
group_norm(Aten *n, const Arg *groups, const Arg *weight, const Arg *bias, const Arg *eps)
{
    Groups g;
    if (!groups_of(n, &n->args[0], groups, &g)) {
        return NULL;
    }
    Value *w = as(&g, weight, g.each), *b = as(&g, bias, g.each);
    if ((!w && weight->kind != ARG_NONE) || (!b && bias->kind != ARG_NONE)) {
        return NULL;
    }
    Value *x = as(&g, &n->args[0], g.x), *m = mean(&g, x), *gap = SUB(x, along(&g, m));
    Value *r = map1(n, OP_rsqrt, ADD(mean(&g, MUL(gap, gap)), NUM(arg_float(eps, 0))));
    Value *scale = along(&g, r);
    scale = w ? MUL(scale, along_channels(&g, w)) : scale;
    Value *shift = MUL(scale, along(&g, NEG(m)));
    shift = b ? ADD(along_channels(&g, b), shift) : shift;
    for (int k = 1; k < n->nres && k < 3; k++) {
        n->res[k] = shaped(&g, k == 1 ? m : r, k);
    }
    return shaped(&g, ADD(MUL(x, scale), shift), 0);
}

/* native_group_norm(x, weight, bias, N, C, HxW, groups, eps) -> y, mean, 1 / deviation */
Value *
aten_group_norm(Aten *n)
{
    return group_norm(n, arg_at(n, 6), arg_at(n, 1), arg_at(n, 2), arg_at(n, 7));
}
