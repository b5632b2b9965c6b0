/* Searches among few: sorted sequences by halving, and sets by comparing with each member. */
#include "aten.h"

#include <math.h>
#include <string.h>

enum {
    MAX_STEPS = 24,             /* halvings that are written out */
    MAX_MEMBERS = 16,           /* of a set that each element is compared with */
};

/* A number of elements that the program knows, at most `most`; -1: it does not. */
static int64_t
known_count(const Aten *n, Dim d, int64_t most)
{
    int64_t count;
    return dim_is_int(n->cx, d, &count) && count <= most ? count : -1;
}

/* ---- in sorted rows ---- */

typedef struct {
    Value *rows;                /* [rows * count] */
    Value *row;                 /* where each element's row begins, i64; NULL: there is one */
    int64_t count;              /* of a row's elements */
    bool right;                 /* behind equals, else before them */
} Sorted;

/* Is the element at `mid` of its row before the place of v?  As eager asks it, also of NaN. */
static Value *
is_before(Aten *n, const Sorted *s, Value *mid, Value *v)
{
    Value *at = map2(n, OP_minimum, mid, build_int(n->b, s->count - 1));
    at = s->row ? map2(n, OP_add, s->row, at) : at;
    Value *element = build_gather(n->b, s->rows, at, 0, INDEX_FROM_START);
    Value *stays = map2(n, s->right ? OP_gt : OP_ge, element, v);
    return map1(n, OP_not, stays);
}

/* Eager's bisection, in as many steps as the longest search needs; searches that have ended do not
 * change. */
static Value *
halve(Aten *n, const Sorted *s, Value *v)
{
    const Type *t = type_with(n->cx, v->type, DT_i64);
    Value *from = build_const(n->b, t, (Literal){.is_int = true});
    Value *to = build_const(n->b, t, (Literal){.is_int = true, .i = s->count});
    for (int64_t left = s->count; left > 0; left /= 2) {
        Value *half = map2(n, OP_shr, map2(n, OP_sub, to, from), build_int(n->b, 1));
        Value *mid = map2(n, OP_add, from, half), *open = map2(n, OP_lt, from, to);
        Value *before = is_before(n, s, mid, v);
        Value *up = map2(n, OP_bit_and, open, before);
        Value *next = map3(n, OP_where, up, map2(n, OP_add, mid, build_int(n->b, 1)), from);
        to = map3(n, OP_where, map2(n, OP_bit_and, open, map1(n, OP_not, before)), mid, to);
        from = next;
    }
    return from;
}

/* The places of a tensor or a number in rows of the shape t, both in the dtype that eager compares
 * them in. */
static Value *
search(Aten *n, Sorted *s, const Arg *a, Dtype dtype, const Type *t)
{
    Dim all = type_numel(n->cx, t);
    s->count = known_count(n, t->dims[t->rank - 1], 1 << MAX_STEPS);
    s->rows = build_reshape(n->b, build_cast(n->b, s->rows, dtype), 1, &all);
    const Type *scalar = type_of(n->cx, dtype, 0, NULL);
    Value *v = a->kind == ARG_TENSOR ? build_cast(n->b, a->v, dtype) : operand(n, a, scalar);
    if (s->count < 0 || dtype == DT_bool || !v) {
        return NULL;
    }
    return halve(n, s, value_is_const(v) ? build_const(n->b, scalar, v->literal) : v);
}

/* bucketize(x, boundaries, out_int32, right) */
Value *
aten_bucketize(Aten *n)
{
    const Arg *boundaries = arg_at(n, 1);
    if (boundaries->kind != ARG_TENSOR || boundaries->v->type->rank != 1) {
        return NULL;
    }
    Sorted s = {.rows = boundaries->v, .right = arg_true(arg_at(n, 3))};
    return search(n, &s, &n->args[0], promoted(n, 0, 1), boundaries->v->type);
}

/* The beginning of the row of `sorted` for each element of v, whose axes but the last are the
 * same. */
static Value *
row_begins(Aten *n, const Type *sorted, const Type *v)
{
    const Type *t = type_with(n->cx, v, DT_i64);
    Value *at = NULL;
    for (int ax = 0; ax < v->rank - 1; ax++) {
        at = row_major(n, at, v->dims[ax], position(n, t, ax));
    }
    const Arg size = {.kind = ARG_DIM, .d = sorted->dims[sorted->rank - 1]};
    return map2(n, OP_mul, at, operand(n, &size, t));
}

/* The rows in the order of the sorter; eager checks every index of the sorter first. */
static Value *
in_order_of(Aten *n, Value *rows, const Arg *sorter)
{
    const Type *t = rows->type;
    if (!is_index(sorter) || !type_same_shape(sorter->v->type, t)) {
        return NULL;
    }
    Dim all = type_numel(n->cx, t);
    Value *at = checked(n, sorter->v, t->dims[t->rank - 1], INDEX_OF_ELEMENT);
    at = t->rank > 1 ? map2(n, OP_add, row_begins(n, t, t), at) : at;
    return build_gather(n->b, build_reshape(n->b, rows, 1, &all), at, 0, INDEX_FROM_START);
}

/* Behind equals?  By `side`, or else by `right`; -1: eager raises. */
static int
side_of(const Arg *right, const Arg *side)
{
    if (side->kind != ARG_TEXT) {
        return side->kind == ARG_NONE ? arg_true(right) : -1;
    }
    bool behind = strcmp(side->text, "right") == 0,
         known = behind || strcmp(side->text, "left") == 0;
    return known && (behind || !arg_true(right)) ? behind : -1;
}

/* searchsorted(sorted, x, out_int32, right, side, sorter) */
Value *
aten_searchsorted(Aten *n)
{
    const Arg *x = arg_at(n, 1), *sorter = arg_at(n, 5);
    int side = side_of(arg_at(n, 3), arg_at(n, 4));
    const Type *t = n->args[0].kind == ARG_TENSOR ? arg_tensor(n, 0)->type : NULL;
    if (!t || !t->rank || side < 0) {
        return NULL;
    }
    bool rows = t->rank > 1;
    if (rows && (x->kind != ARG_TENSOR || x->v->type->rank != t->rank)) {
        return NULL;
    }
    for (int ax = 0; rows && ax < t->rank - 1; ax++) {
        if (x->v->type->dims[ax] != t->dims[ax]) {
            return NULL;
        }
    }
    Sorted s = {.rows = arg_tensor(n, 0), .right = side};
    s.row = rows ? row_begins(n, t, x->v->type) : NULL;
    s.rows = sorter->kind == ARG_NONE ? s.rows : in_order_of(n, s.rows, sorter);
    return s.rows ? search(n, &s, x, promoted(n, 0, 1), t) : NULL;
}

/* ---- in sets ---- */

/* isin(x, members, assume_unique, invert) */
Value *
aten_isin(Aten *n)
{
    const Arg *members = arg_at(n, 1);
    if (n->args[0].kind != ARG_TENSOR || members->kind != ARG_TENSOR) {
        return NULL;
    }
    Value *x = arg_tensor(n, 0), *set = members->v, *found = NULL;
    Dim all = type_numel(n->cx, set->type);
    int64_t count = known_count(n, all, MAX_MEMBERS);
    if (count < 1 || x->type->dtype != set->type->dtype) {
        return NULL;
    }
    set = build_reshape(n->b, set, 1, &all);
    for (int64_t k = 0; k < count; k++) {
        Value *member = build_reshape(n->b, part(n, set, 0, dim_int(n->cx, k), one(n), one(n)), 0,
                                      NULL);
        Value *same = map2(n, OP_eq, x,
                           build_broadcast(n->b, member, x->type->rank, x->type->dims));
        found = k ? map2(n, OP_bit_or, found, same) : same;
    }
    return arg_true(arg_at(n, 3)) ? map1(n, OP_not, found) : found;
}

/* ---- how many are where ---- */

/* The ends of histc's range, as scalars of the tensor's dtype. */
typedef struct {
    Value *low, *high;
} Ends;

static bool
is_finite_in(Dtype dtype, double f)
{
    return dtype == DT_f32 ? isfinite((float)f) : isfinite(f);
}

/* The range that is given, if eager takes it; both ends equal: none. */
static bool
given_range(Aten *n, const Type *scalar, Ends *r)
{
    double low = arg_float(arg_at(n, 2), 0), high = arg_float(arg_at(n, 3), 0);
    if (!(low < high) || !is_finite_in(scalar->dtype, low) || !is_finite_in(scalar->dtype, high)) {
        return false;
    }
    r->low = build_const(n->b, scalar, (Literal){.f = low});
    r->high = build_const(n->b, scalar, (Literal){.f = high});
    return true;
}

/* The range of the data; if all data are one number, the range around it.  It has to be finite: the
 * returned position 0 comes from a gather, which raises eager's RuntimeError if it is not. */
static Value *
own_range(Aten *n, Value *x, Ends *r)
{
    const int axis = 0;
    Value *low = build_red(n->b, OP_amin, x, 1, &axis),
          *high = build_red(n->b, OP_amax, x, 1, &axis);
    Value *one = number(n, 1), *inf = number(n, INFINITY), *least = number(n, -INFINITY);
    Value *same = map2(n, OP_eq, low, high);
    Value *below = map2(n, OP_minimum, map2(n, OP_sub, low, one),
                        map2(n, OP_nextafter, low, least));
    Value *above = map2(n, OP_maximum, map2(n, OP_add, high, one),
                        map2(n, OP_nextafter, high, inf));
    r->low = map3(n, OP_where, same, below, low);
    r->high = map3(n, OP_where, same, above, high);
    Value *finite = map2(n, OP_bit_and, map2(n, OP_gt, low, least), map2(n, OP_lt, high, inf));
    return fault_where(n, map1(n, OP_not, finite), INDEX_OF_RANGE);
}

/* The bin of each element; arbitrary for elements that are not `in` the range. */
static Value *
bin_of(Aten *n, Value *x, const Ends *r, int64_t bins, Value *in)
{
    const Type *t = x->type;
    Value *low = build_broadcast(n->b, r->low, t->rank, t->dims), *none = build_int(n->b, 0);
    Value *wide = build_broadcast(n->b, map2(n, OP_sub, r->high, r->low), t->rank, t->dims);
    Value *at = map2(n, OP_mul, map2(n, OP_sub, x, low), build_int(n->b, bins));
    at = map2(n, OP_div, at, wide);
    Value *known = map2(n, OP_bit_and, in, map2(n, OP_lt, at, number(n, INFINITY)));
    at = build_cast(n->b, map3(n, OP_where, known, at, none), DT_i64);
    return map2(n, OP_minimum, at, build_int(n->b, bins - 1));
}

/* Is it in the range, and that so small that eager finds its bins? */
static Value *
is_in(Aten *n, Value *x, const Ends *r)
{
    const Type *t = x->type;
    Value *low = build_broadcast(n->b, r->low, t->rank, t->dims);
    Value *high = build_broadcast(n->b, r->high, t->rank, t->dims);
    Value *known = map2(n, OP_lt, map2(n, OP_sub, r->high, r->low), number(n, INFINITY));
    Value *in = map2(n, OP_bit_and, map2(n, OP_ge, x, low), map2(n, OP_le, x, high));
    return map2(n, OP_bit_and, in, build_broadcast(n->b, known, t->rank, t->dims));
}

/* histc(x, bins, least, most): of this range or, if its ends are equal, of the range of the data */
Value *
aten_histc(Aten *n)
{
    const Arg *a = &n->args[0], *least = arg_at(n, 2), *most = arg_at(n, 3);
    const int axis = 0;
    int64_t bins;
    if (a->kind != ARG_TENSOR || dtype_info[a->v->type->dtype].class != CLASS_FLOAT ||
        n->type->rank != 1 || !dim_is_int(n->cx, n->type->dims[0], &bins) || bins < 1 ||
        !arg_is_number(least) || !arg_is_number(most) || is_half(a->v->type->dtype)) {
        return NULL;
    }
    Dim all = type_numel(n->cx, a->v->type);
    Value *x = build_reshape(n->b, a->v, 1, &all), *first = NULL;
    Value *none = build_const(n->b, n->type, (Literal){.is_int = true});
    Ends r;
    if (dim_is(n->cx, all, 0) && arg_float(least, 0) == arg_float(most, 0)) {
        return none;
    }
    if (arg_float(least, 0) != arg_float(most, 0)) {
        if (!given_range(n, type_of(n->cx, x->type->dtype, 0, NULL), &r)) {
            return NULL;
        }
    } else if (may_be_empty(n, x->type, 1, &axis)) {
        return NULL;
    } else {
        first = own_range(n, x, &r);
    }
    Value *in = is_in(n, x, &r), *at = bin_of(n, x, &r, bins, in);
    at = first ? map2(n, OP_add, at, build_broadcast(n->b, first, 1, &all)) : at;
    return build_scatter(n->b, OP_sum, none, at, build_cast(n->b, in, x->type->dtype), 0,
                         INDEX_FROM_START);
}
