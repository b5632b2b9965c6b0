/* Gathers by index, and writes at an index that are a choice between two values.
 *
 * The IR's gather takes one index along one axis.  Several indices become one into their axes
 * merged, a row-major position put together in i64.  Each index is checked by itself before: see
 * Note [Checked indices]. */
#include "aten.h"

#include <string.h>

bool
is_index(const Arg *a)
{
    return a->kind == ARG_TENSOR && (a->v->type->dtype == DT_i64 || a->v->type->dtype == DT_i32);
}

bool
is_index64(const Arg *a)
{
    return a->kind == ARG_TENSOR && a->v->type->dtype == DT_i64;
}

/* Has the result of the gather at most MAX_RANK axes? */
static bool
fits(const Value *x, const Value *index)
{
    return x->type->rank >= 1 && x->type->rank - 1 + index->type->rank <= MAX_RANK;
}

static Value *
gather(Aten *n, Value *x, const Arg *index, int axis, int wrap)
{
    if (!is_index(index) || !fits(x, index->v)) {
        return NULL;
    }
    return build_gather(n->b, x, build_cast(n->b, index->v, DT_i64), axis, wrap);
}

/* embedding(weight, indices, ...) */
Value *
aten_embedding(Aten *n)
{
    return gather(n, arg_tensor(n, 0), arg_at(n, 1), 0, INDEX_FROM_START);
}

/* index_select(x, dim, index) */
Value *
aten_index_select(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    int axis;
    if (!arg_axis(arg_at(n, 1), x->type->rank, &axis) || arg_tensor(n, 2)->type->rank != 1) {
        return NULL;
    }
    return gather(n, x, arg_at(n, 2), axis, axis == 1 ? INDEX_OF_COLUMN : INDEX_FROM_START);
}

/* ---- positions in several axes ---- */

Value *
position(Aten *n, const Type *t, int axis)
{
    Dim size = t->dims[axis];
    Value *k = build_iota(n->b, type_of(n->cx, DT_i64, 1, &size), 0);
    return build_expand(n->b, k, t->rank, t->dims, &axis);
}

Value *
checked(Aten *n, Value *index, Dim size, int wrap)
{
    Value *all = build_iota(n->b, type_of(n->cx, DT_i64, 1, &size), 0);
    return build_gather(n->b, all, build_cast(n->b, index, DT_i64), 0, wrap);
}

/* A gather from two elements with an index of which -1 is a fault.  From a single element it would
 * be known to be 0, and an index that nothing reads is not checked. */
Value *
fault_where(Aten *n, Value *wrong, int kind)
{
    Value *index = map1(n, OP_neg, build_cast(n->b, wrong, DT_i64));
    return checked(n, index, dim_int(n->cx, 2), kind);
}

/* The check returns 0.  Subtracting it keeps the sign of zeros. */
Value *
raising_where(Aten *n, Value *v, Value *wrong, int kind)
{
    const Type *t = v->type;
    if (dtype_info[t->dtype].class == CLASS_COMPLEX) {
        Value *re = raising_where(n, map1(n, OP_real, v), wrong, kind);
        return map2(n, OP_complex, re, map1(n, OP_imag, v));
    }
    Value *fault = build_cast(n->b, fault_where(n, wrong, kind), t->dtype);
    fault = build_broadcast(n->b, fault, t->rank, t->dims);
    return map2(n, t->dtype == DT_bool ? OP_ne : OP_sub, v, fault);
}

/* A check is done where it is read, together with the elements of a value.  A source that may be
 * empty is not enough; x has elements, at least the part with the wanted size. */
void
raise_unless_size(Aten *n, Value **x, Value **src, int axis, Dim wanted)
{
    const Type *t = type_scalar(n->cx, DT_i64), *of = (*src)->type;
    const Arg size = {.kind = ARG_DIM, .d = of->dims[axis]}, as = {.kind = ARG_DIM, .d = wanted};
    Value *wrong = map2(n, OP_ne, operand(n, &size, t), operand(n, &as, t));
    *src = raising_where(n, *src, wrong, INDEX_OF_PART);
    if (may_be_empty(n, of, 1, &axis)) {
        *x = raising_where(n, *x, wrong, INDEX_OF_PART);
    }
}

Value *
row_major(Aten *n, Value *at, Dim size, Value *next)
{
    const Type *t = next->type;
    const Arg extent = {.kind = ARG_DIM, .d = size};
    return at ? map2(n, OP_add, map2(n, OP_mul, at, operand(n, &extent, t)), next) : next;
}

/* x with `count` axes from `first` on as one. */
static Value *
merged(Aten *n, Value *x, int first, int count)
{
    Dim dims[MAX_RANK];
    int kept = 0;
    for (int ax = 0; ax < x->type->rank; ax++) {
        if (ax <= first || ax >= first + count) {
            dims[kept++] = x->type->dims[ax];
        } else {
            dims[first] = dim_mul(n->cx, dims[first], x->type->dims[ax]);
        }
    }
    return build_reshape(n->b, x, kept, dims);
}

Value *
gather_merged(Aten *n, Value *x, int first, int count, Value *at)
{
    return build_gather(n->b, merged(n, x, first, count), at, first, INDEX_FROM_START);
}

/* ---- x[i, :, j] ---- */

/* The axes of x from the first one that an index is for to the last one, and the number of
 * indices. */
typedef struct {
    const Arg *items;
    int first, count, tensors;
    int made;                   /* axes that the indices, broadcast, make */
} Span;

static bool
find_span(const Aten *n, Span *s)
{
    const Arg *list = arg_at(n, 1);
    int last = -1;
    *s = (Span){.items = list->items, .first = -1};
    for (int k = 0; k < list->n; k++) {
        if (list->items[k].kind == ARG_NONE) {
            continue;
        }
        if (!is_index(&list->items[k])) {
            return false;
        }
        int rank = list->items[k].v->type->rank;
        s->made = rank > s->made ? rank : s->made;
        s->first = s->first < 0 ? k : s->first;
        s->tensors++;
        last = k;
    }
    s->count = last - s->first + 1;
    return s->tensors > 0;
}

/* The position in the span, for each element of the broadcast indices and of the axes between
 * them. */
static Value *
span_position(Aten *n, const Type *x, const Span *s, const Type *t, bool check)
{
    Value *at = NULL;
    const Type *made = type_of(n->cx, DT_i64, s->made, t->dims);
    for (int k = 0, mid = s->made; k < s->count; k++) {
        const Arg *index = &s->items[s->first + k];
        Dim size = x->dims[s->first + k];
        int to[MAX_RANK];
        if (index->kind == ARG_NONE) {
            at = row_major(n, at, size, position(n, t, mid++));
            continue;
        }
        Value *v = build_broadcast(n->b, build_cast(n->b, index->v, DT_i64), made->rank,
                                   made->dims);
        v = check ? checked(n, v, size, INDEX_FROM_END) : v;
        for (int ax = 0; ax < made->rank; ax++) {
            to[ax] = ax;
        }
        at = row_major(n, at, size, build_expand(n->b, v, t->rank, t->dims, to));
    }
    return at;
}

Value *
move_axes(Aten *n, Value *v, int from, int count, int to)
{
    int perm[MAX_RANK];
    for (int ax = 0; ax < v->type->rank; ax++) {
        int other = ax < to ? ax : ax - count;          /* among those that keep their order */
        perm[ax] = ax >= to && ax < to + count ? from + ax - to
                   : other < from              ? other
                                               : other + count;
    }
    return build_permute(n->b, v, perm);
}

/* How many of the axes that the indices make are each index's own: the first ones the first's, the
 * next the second's, as of x[i[:, None], j].  false: an axis is of several, or an index has
 * none. */
static bool
find_own(Aten *n, const Span *s, int *own)
{
    memset(own, 0, (size_t)s->count * sizeof *own);
    for (int ax = 0, last = 0; ax < s->made; ax++) {
        int owner = -1;
        for (int k = 0; k < s->count; k++) {
            const Type *t = s->items[s->first + k].v->type;
            int at = ax - s->made + t->rank;
            if (at >= 0 && !dim_is(n->cx, t->dims[at], 1)) {
                if (owner >= 0) {
                    return false;
                }
                owner = k;
            }
        }
        last = owner < 0 ? last : owner;
        own[last]++;
        for (int k = last + 1; k < s->count; k++) {
            if (own[k]) {
                return false;
            }
        }
    }
    bool all = true;
    for (int k = 0; k < s->count; k++) {
        all &= own[k] > 0;
    }
    return all;
}

/* One axis after the other, from the last on, so that arithmetic on rows can go before the gather
 * of rows.  A kernel that looks up both runs over the last axis in its inner loop, and takes the
 * places of the others from outside. */
static Value *
at_each(Aten *n, const Span *s, const int *own, int wrap)
{
    Value *v = arg_tensor(n, 0);
    for (int k = s->count - 1, from = s->made; k >= 0; k--) {
        Value *index = build_cast(n->b, s->items[s->first + k].v, DT_i64);
        const Type *t = index->type;
        Dim dims[MAX_RANK];
        from -= own[k];
        for (int ax = 0; ax < own[k]; ax++) {
            int at = from + ax - s->made + t->rank;
            dims[ax] = at < 0 ? one(n) : t->dims[at];
        }
        v = build_gather(n->b, v, build_reshape(n->b, index, own[k], dims), s->first + k, wrap);
    }
    return v;
}

static Value *
at_several(Aten *n, const Span *s, bool check)
{
    Value *x = arg_tensor(n, 0);
    int own[MAX_RANK];
    if (s->tensors == s->count && s->count > 1 && s->made <= MAX_RANK && find_own(n, s, own)) {
        return at_each(n, s, own, check ? INDEX_FROM_END : INDEX_FROM_START);
    }
    bool separated = s->tensors < s->count;         /* then their axes come first in the result */
    int between = s->count - s->tensors, rank = s->made + between;
    Dim dims[MAX_RANK];
    if (x->type->rank - s->tensors + s->made != n->type->rank || rank > MAX_RANK) {
        return NULL;
    }
    for (int ax = 0; ax < s->made; ax++) {
        dims[ax] = n->type->dims[(separated ? 0 : s->first) + ax];
    }
    for (int k = 0, ax = s->made; k < s->count; k++) {
        if (s->items[s->first + k].kind == ARG_NONE) {
            dims[ax++] = x->type->dims[s->first + k];
        }
    }
    const Type *t = type_of(n->cx, DT_i64, rank, dims);
    Value *v = gather_merged(n, x, s->first, s->count, span_position(n, x->type, s, t, check));
    return separated && s->first ? move_axes(n, v, s->first, s->made, 0) : v;
}

Value *
aten_index(Aten *n)
{
    Span s;
    if (!find_span(n, &s)) {
        return NULL;
    }
    return s.tensors == 1 ? gather(n, arg_tensor(n, 0), &s.items[s.first], s.first, INDEX_FROM_END)
                          : at_several(n, &s, true);
}

/* ---- x[i, :, j] = v ---- */

/* Finds the shape to which the indices broadcast. False: they do not broadcast. */
static bool
broadcast_indices(Aten *n, const Span *s, Dim *dims)
{
    for (int ax = 0; ax < s->made; ax++) {
        dims[ax] = one(n);
    }
    for (int k = 0; k < s->count; k++) {
        const Arg *index = &s->items[s->first + k];
        int rank = index->kind == ARG_TENSOR ? index->v->type->rank : 0;
        for (int ax = 0; ax < rank; ax++) {
            Dim d = index->v->type->dims[ax], *to = &dims[s->made - rank + ax];
            if (*to != d && !dim_is(n->cx, *to, 1) && !dim_is(n->cx, d, 1)) {
                return false;
            }
            *to = dim_is(n->cx, *to, 1) ? d : *to;
        }
    }
    return true;
}

/* The type of x[indices]: the axes of the positions t replace the span or, with `front`, come
 * first. */
static const Type *
looked_up(Aten *n, const Type *x, const Span *s, const Type *t, bool front)
{
    Dim dims[2 * MAX_RANK];
    int rank = 0, between = t->rank - s->made;
    memcpy(dims, t->dims, (size_t)(front ? s->made : 0) * sizeof *dims);
    rank += front ? s->made : 0;
    memcpy(dims + rank, x->dims, (size_t)s->first * sizeof *dims);
    rank += s->first;
    memcpy(dims + rank, t->dims + (front ? s->made : 0),
           (size_t)(front ? between : t->rank) * sizeof *dims);
    rank += front ? between : t->rank;
    int after = x->rank - s->first - s->count;
    memcpy(dims + rank, x->dims + s->first + s->count, (size_t)after * sizeof *dims);
    return rank + after > MAX_RANK ? NULL : type_of(n->cx, x->dtype, rank + after, dims);
}

/* x with v at the indices: added, or replacing the elements. */
Value *
put_at(Aten *n, Value *v, bool adds)
{
    Span s;
    Value *x = arg_tensor(n, 0);
    Dim dims[MAX_RANK];
    if (!find_span(n, &s) || !broadcast_indices(n, &s, dims)) {
        return NULL;
    }
    int rank = s.made, first = s.first;
    for (int k = 0; k < s.count; k++) {
        if (s.items[first + k].kind == ARG_NONE) {
            dims[rank++] = x->type->dims[first + k];
        }
    }
    bool front = s.tensors < s.count && first > 0, alone = s.tensors == 1;
    const Type *t = type_of(n->cx, DT_i64, rank, dims), *made = looked_up(n, x->type, &s, t, front);
    if (!made) {
        return NULL;
    }
    v = build_broadcast(n->b, v, made->rank, made->dims);
    Value *all = merged(n, x, first, s.count);
    Value *at = alone ? build_cast(n->b, s.items[first].v, DT_i64)
                      : span_position(n, x->type, &s, t, true);
    Dim count = type_numel(n->cx, t);
    memcpy(dims, all->type->dims, (size_t)all->type->rank * sizeof *dims);
    dims[first] = count;
    v = build_reshape(n->b, front ? move_axes(n, v, 0, s.made, first) : v, all->type->rank, dims);
    at = build_expand(n->b, build_reshape(n->b, at, 1, &count), v->type->rank, v->type->dims,
                      &first);
    v = build_scatter(n->b, adds ? OP_sum : OP_store, all, at, v, first,
                      alone ? INDEX_FROM_END : INDEX_FROM_START);
    return build_reshape(n->b, v, x->type->rank, x->type->dims);
}

/* Like index, for indices that the caller knows to be in range. */
Value *
aten_unsafe_index(Aten *n)
{
    Span s;
    return find_span(n, &s) ? at_several(n, &s, false) : NULL;
}

/* ---- gather and scatter: an index for every element ---- */

/* gather(x, dim, index): result[i, j] is x[i, index[i, j]] */
Value *
aten_gather(Aten *n)
{
    Value *x = arg_tensor(n, 0), *at = NULL;
    const Arg *index = arg_at(n, 2);
    int axis, rank = x->type->rank;
    if (!is_index(index) || index->v->type->rank != rank || !arg_axis(arg_at(n, 1), rank, &axis)) {
        return NULL;
    }
    if (!rank) {
        Dim size = one(n);
        return gather(n, build_reshape(n->b, x, 1, &size), index, 0, INDEX_OF_ELEMENT);
    }
    const Type *t = type_with(n->cx, index->v->type, DT_i64);
    for (int ax = 0; ax < rank; ax++) {
        if (ax != axis && !dim_le(n->cx, t->dims[ax], x->type->dims[ax])) {
            return NULL;
        }
        Value *next = ax == axis ? checked(n, index->v, x->type->dims[ax], INDEX_OF_ELEMENT)
                                 : position(n, t, ax);
        at = row_major(n, at, x->type->dims[ax], next);
    }
    return gather_merged(n, x, 0, rank, at);
}

/* take(x, index): of all elements in row-major order */
Value *
aten_take(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    Dim size = type_numel(n->cx, x->type);
    return gather(n, build_reshape(n->b, x, 1, &size), arg_at(n, 1), 0, INDEX_FROM_END);
}

/* one_hot(index, classes): eager's RuntimeError for an index that is none of them */
Value *
aten_one_hot(Aten *n)
{
    const Arg *index = arg_at(n, 0), *classes = arg_at(n, 1);
    int to[MAX_RANK], rank = n->type->rank;
    Dim size;
    if (!is_index64(index) || rank != index->v->type->rank + 1 || !arg_dim(n, classes, &size) ||
        size != n->type->dims[rank - 1] || !dim_lt(n->cx, zero(n), size)) {
        return NULL;
    }
    for (int ax = 0; ax < rank; ax++) {
        to[ax] = ax;
    }
    Value *at = checked(n, index->v, size, INDEX_OF_ELEMENT);
    return map2(n, OP_eq, position(n, n->type, rank - 1),
                build_expand(n->b, at, rank, n->type->dims, to));
}

/* Where the argument writes: an index with one element along the axis for each row of x becomes a
 * comparison with positions.  NULL: it may write more than one element of a row. */
static Value *
written(Aten *n, int axis, const Arg *index)
{
    const Type *x = arg_tensor(n, 0)->type, *t = type_with(n->cx, x, DT_i64);
    if (!x->rank || !is_index(index) || index->v->type->rank != x->rank) {
        return NULL;
    }
    for (int ax = 0; ax < x->rank; ax++) {
        Dim size = index->v->type->dims[ax];
        if (ax == axis ? !dim_is(n->cx, size, 1) : size != x->dims[ax]) {
            return NULL;
        }
    }
    Value *at = checked(n, index->v, x->dims[axis], INDEX_OF_ELEMENT);
    return map2(n, OP_eq, position(n, t, axis), build_broadcast(n->b, at, t->rank, t->dims));
}

/* The first element along the axis of each row of src, which has as many rows as x. */
static Value *
first_of_rows(Aten *n, Value *src, const Type *x, int axis)
{
    if (src->type->rank != x->rank || may_be_empty(n, src->type, 1, &axis)) {
        return NULL;
    }
    for (int ax = 0; ax < x->rank; ax++) {
        if (ax != axis && src->type->dims[ax] != x->dims[ax]) {
            return NULL;
        }
    }
    return part(n, src, axis, zero(n), one(n), one(n));
}

/* scatter(x, dim, index, src), scatter_add: a choice where the index names one element of each row
 * of x, so that nothing is written twice. */
Value *
aten_scatter(Aten *n)
{
    Value *x = arg_tensor(n, 0);
    Arg src = *arg_at(n, 3);
    int axis;
    Value *here = arg_axis(arg_at(n, 1), x->type->rank, &axis) ? written(n, axis, arg_at(n, 2))
                                                               : NULL;
    if (here && src.kind == ARG_TENSOR) {
        src.v = first_of_rows(n, src.v, x->type, axis);
    }
    if (!here || (src.kind == ARG_TENSOR && !src.v)) {
        return scatter_elements(n, n->op == OP_add ? OP_sum : OP_store, arg_at(n, 3));
    }
    Value *v = operand(n, &src, x->type);
    if (v && n->op == OP_add) {
        v = x->type->dtype == DT_bool ? NULL : map2(n, OP_add, x, v);
    }
    return v ? map3(n, OP_where, here, v, x) : NULL;
}

/* Note [Checked indices]
 *
 * A position that is merged from several indices may lie in the tensor while one of them does not,
 * and eager raises an error for that one: IndexError for gathers, RuntimeError for an index of each
 * element. So each passes a gather from 0, 1, .. size-1 of its axis: a gather that costs nothing
 * but the check, gives the index back, and counts negative ones from the end. */
