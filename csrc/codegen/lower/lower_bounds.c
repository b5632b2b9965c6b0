/* Bounds: a block of rows skips the elements that a mask excludes.
 *
 * What:     along an axis on which rows are masked by position (a causal mask), each block stops
 *           where its longest row ends.  This bounds the product that makes the rows, their
 *           reductions, and the product that is made of them.
 * Requires: a kernel that is cut into blocks of rows (lower_blocks.c).
 * Ensures:  each result is what all of the axis would give.  An excluded element is -inf: it
 *           changes no maximum, and its exponential adds 0 to a sum.  In a product, 0 times another
 *           factor adds nothing while that factor is finite.  One phase finds out whether all
 *           factors are finite; if one is not, all of the axis is computed.
 * How:      A `where` with -inf, whose condition compares positions, says where rows end.  From
 *           there the users are followed.  The value of an excluded element is -inf, 0 or true, or,
 *           if its row is NaN, NaN like the rest of the row.  Each user must be such a value again
 *           or a reduction that such an element does not change; otherwise nothing is left out.
 * Why not:  leave out whatever is multiplied by 0: 0 times infinity is NaN in the text.  A bound in
 *           the text of the contraction: each row would have a bound of its own, but a tile has
 *           several rows.
 * Example:  where (le s, t), x, -inf with rows t = 50*r .. 50*r + 49 is computed for
 *           s < 50*r + 50. */
#include <math.h>
#include <string.h>

#include "lower.h"

/* The value of an excluded element. */
typedef enum { EXCLUDED_LEAST, EXCLUDED_ZERO, EXCLUDED_TRUE, EXCLUDED_UNKNOWN } Excluded;

struct Bounded {
    const Let *select;          /* the where */
    int axis;
    int n;
    const Value **values;       /* of its shape, with the axis bounded */
    const Let *contract;      /* the contraction that sums over the axis, or NULL */
    int factors;              /* the number of its operand that has the other factors */
    /* a buffer with one number for each batch of the factors: NaN unless all are finite */
    Value *nan;
    Dim extent, full; /* the axis in the open block (DIM_NONE: not known yet); all of it */
};

/* ---- the values that are bounded ---- */

static bool
is_number(const Value *v, double *number)
{
    bool is = value_is_const(v);
    *number = is ? v->literal.is_int ? (double)v->literal.i : v->literal.f : 0;
    return is;
}

/* Looks through views. */
static const Value *
look_through(Lower *lo, const Value *v, const Dim *idx, Dim *at)
{
    Dim inner[MAX_RANK];
    memcpy(at, idx, (size_t)v->type->rank * sizeof *at);
    while (!lo->leaf[v->id] && op_info[v->def->op].kind == KIND_VIEW &&
           !value_is_const(v->def->args[0])) {
        index_operand(lo->cx, v->def, 0, at, inner);
        v = v->def->args[0];
        memcpy(at, inner, (size_t)v->type->rank * sizeof *at);
    }
    return v;
}

/* The value that v repeats along the bounded axis, one number for each row; NULL: there is none. */
static const Value *
value_of_rows(Lower *lo, const Bounded *b, const Value *v)
{
    Dim idx[MAX_RANK], at[MAX_RANK];
    if (value_is_const(v)) {
        return NULL;
    }
    for (int ax = 0; ax < v->type->rank; ax++) {
        bool one = extent_is_one(lo->cx, v->type->dims[ax]);
        idx[ax] = one ? dim_int(lo->cx, 0) : dim_index(lo->cx, "b", v->type->dims[ax]);
    }
    const Value *rows = look_through(lo, v, idx, at);
    bool good = rows->type->rank == v->type->rank - 1 && !lo->leaf[rows->id];
    for (int ax = 0; ax < rows->type->rank && good; ax++) {
        good = at[ax] == idx[ax + (ax >= b->axis)];
    }
    return good ? rows : NULL;
}

static bool
reduces_axis(const Bounded *b, const Let *red)
{
    const Attr *axes = let_attr(red, "axes");
    return axes->n == 1 && axes->axes[0] == b->axis;
}

/* Is v, for each row, the reduction `red` of the same row of `of`?  A `where` may replace it by a
 * finite constant: at least 1 for a sum, else at least 0. */
static bool
has_reduction(Lower *lo, const Bounded *b, const Value *v, Op red, const Value *of)
{
    const Value *rows = value_of_rows(lo, b, v);
    double other;
    if (rows && rows->def->op == OP_where && is_number(rows->def->args[1], &other) &&
        isfinite(other) && other >= (red == OP_sum)) {
        rows = rows->def->args[2];
    }
    return rows && !value_is_const(rows) && !lo->leaf[rows->id] && rows->def->op == red &&
           rows->def->args[0] == of && reduces_axis(b, rows->def);
}

/* The value of an element of the let's result if the element of operand k is excluded and has the
 * value `what`. */
static Excluded
excluded_of(Lower *lo, const Bounded *b, const Let *let, int k, Excluded what)
{
    double number = 0;
    bool constant = let->nargs == 2 && is_number(let->args[!k], &number), first = k == 0,
         good = false;
    switch (let->op) {
    case OP_cast:
        good = dtype_info[let->res[0]->type->dtype].class == CLASS_FLOAT && what != EXCLUDED_TRUE;
        break;
    case OP_mul:
        good = constant && number >= 1e-4 && number <= 1e4; /* neither 0 nor inf in any dtype */
        break;
    case OP_sub:
        good = first && what == EXCLUDED_LEAST &&
               has_reduction(lo, b, let->args[1], OP_amax, let->args[0]);
        break;
    case OP_div:
        good = first && what == EXCLUDED_ZERO &&
               has_reduction(lo, b, let->args[1], OP_sum, let->args[0]);
        break;
    case OP_where:
        good = k == 2 && what == EXCLUDED_ZERO && is_number(let->args[1], &number) && number == 0 &&
               value_of_rows(lo, b, let->args[0]);
        break;
    case OP_exp:
    case OP_exp2:
        return what == EXCLUDED_LEAST ? EXCLUDED_ZERO : EXCLUDED_UNKNOWN;
    case OP_eq:
        return what == EXCLUDED_LEAST && constant && number == -INFINITY ? EXCLUDED_TRUE
                                                                         : EXCLUDED_UNKNOWN;
    default:
        break;
    }
    return good ? what : EXCLUDED_UNKNOWN;
}

/* Does the contraction sum over the axis of operand k and over no other, and are its other factors
 * in memory?  At most one contraction may. */
static bool
sums_axis(Lower *lo, const Bounded *b, const Let *let, int k)
{
    const Contraction *c = let_contraction(let);
    Dim idx[MAX_RANK] = {0}, at[MAX_RANK];
    const Value *others = let->args[!k];
    bool known = !b->contract && others != let->args[k] && c->nsum == 1 && !c->where.first.place &&
                 c->sum[0] == (k ? c->b : c->a)[b->axis];
    for (int ax = 0; ax < others->type->rank; ax++) {
        idx[ax] = dim_index(lo->cx, "b", others->type->dims[ax]);
    }
    return known && lo->leaf[look_through(lo, others, idx, at)->id];
}

static bool follow(Lower *lo, Bounded *b, const Value *v, Excluded what);

static bool
follow_user(Lower *lo, Bounded *b, const Let *let, int k, Excluded what)
{
    if (op_info[let->op].kind == KIND_RED) {
        Op red = what == EXCLUDED_LEAST ? OP_amax : what == EXCLUDED_ZERO ? OP_sum : OP_all;
        return let->op == red && reduces_axis(b, let);
    }
    if (let->op == OP_contract) {
        if (what != EXCLUDED_ZERO || !sums_axis(lo, b, let, k)) {
            return false;
        }
        b->contract = let;
        b->factors = !k;
        return true;
    }
    Excluded next = op_info[let->op].kind == KIND_MAP ? excluded_of(lo, b, let, k, what)
                                                      : EXCLUDED_UNKNOWN;
    return next != EXCLUDED_UNKNOWN && follow(lo, b, let->res[0], next);
}

/* Notes v and the values that it reaches; false: excluded elements change something for a user. */
static bool
follow(Lower *lo, Bounded *b, const Value *v, Excluded what)
{
    bool good = true;
    b->values[b->n++] = v;
    for (int k = 0; k < lo->body->nrets && good; k++) {
        good = lo->body->rets[k] != v;
    }
    for (int k = 0; k < lo->body->n && good; k++) {
        const Let *let = lo->body->lets[k];
        for (int j = 0; j < let->nargs && good; j++) {
            good = let->args[j] != v || follow_user(lo, b, let, j, what);
        }
    }
    return good;
}

/* ---- where rows end ---- */

/* The axes of a block's part of a value: an index for each, and the position that it stands for. */
typedef struct {
    Lower *lo;
    int rank, axis;
    const Dim *dims;
    Dim name[MAX_RANK], at[MAX_RANK];
} Part;

/* The integer that the value has at a position; false: the position does not tell. */
static bool
integer_at(Lower *lo, const Value *v, const Dim *idx, Dim *out)
{
    Dim at[MAX_RANK], inner[MAX_RANK], a, b;
    if (value_is_const(v)) {
        *out = dim_int(lo->cx, v->literal.i);
        return v->literal.is_int;
    }
    v = look_through(lo, v, idx, at);
    if (lo->leaf[v->id] || (v->type->dtype != DT_i64 && v->type->dtype != DT_i32)) {
        return false;
    }
    const Let *let = v->def;
    switch (let->op) {
    case OP_iota:
        *out = at[let_int(let, "axis")];
        return true;
    case OP_size:
        *out = let_dim(let, "dim");
        return true;
    case OP_const:
        return integer_at(lo, let->args[0], at, out);
    case OP_cast:
        index_operand(lo->cx, let, 0, at, inner);
        return integer_at(lo, let->args[0], inner, out);
    case OP_add:
    case OP_sub:
        if (!integer_at(lo, let->args[0], at, &a) || !integer_at(lo, let->args[1], at, &b)) {
            return false;
        }
        *out = let->op == OP_add ? dim_add(lo->cx, a, b) : dim_sub(lo->cx, a, b);
        return true;
    default:
        return false;
    }
}

/* The largest value of d in the part, over all axes but the bounded one; DIM_NONE: it is not
 * known. */
static Dim
most_of(const Part *p, Dim d)
{
    Cx *cx = p->lo->cx;
    for (int ax = 0; ax < p->rank; ax++) {
        Dim step, rest;
        int64_t n;
        if (ax == p->axis || !dim_uses(cx, d, p->name[ax])) {
            continue;
        }
        if (!dim_affine(cx, d, p->name[ax], &step, &rest) || !dim_is_int(cx, step, &n) ||
            dim_uses(cx, rest, p->name[ax])) {
            return DIM_NONE;
        }
        Dim last = dim_sub(cx, p->dims[ax], dim_int(cx, 1));
        d = n > 0 ? dim_add(cx, rest, dim_mul(cx, step, last)) : rest;
    }
    return d;
}

/* The position on the axis after which no row has a >= b; DIM_NONE: it is not known. */
static Dim
end_of_difference(const Part *p, Dim a, Dim b)
{
    Cx *cx = p->lo->cx;
    Dim step, rest, name = p->name[p->axis];
    int64_t n;
    if (!dim_affine(cx, dim_sub(cx, a, b), name, &step, &rest) || !dim_is_int(cx, step, &n) ||
        n >= 0 || dim_uses(cx, rest, name)) {
        return DIM_NONE;
    }
    rest = most_of(p, rest);
    return rest == DIM_NONE ? rest
                            : dim_add(cx, dim_div(cx, rest, dim_int(cx, -n)), dim_int(cx, 1));
}

/* The position on the axis after which the condition v is false (with `negated`: true); DIM_NONE:
 * it is not known. */
static Dim
end_of(const Part *p, const Value *v, const Dim *idx, bool negated)
{
    Lower *lo = p->lo;
    Dim at[MAX_RANK], a, b;
    if (value_is_const(v)) {
        return DIM_NONE;
    }
    v = look_through(lo, v, idx, at);
    const Let *let = v->def;
    if (lo->leaf[v->id]) {
        return DIM_NONE;
    }
    if ((let->op == OP_bit_and || let->op == OP_bit_or) && (let->op == OP_bit_or) == negated) {
        a = end_of(p, let->args[0], at, negated);
        b = end_of(p, let->args[1], at, negated);
        return a == DIM_NONE ? b : b == DIM_NONE ? a : dim_min(lo->cx, a, b);
    }
    if (let->op == OP_not || (let->op == OP_bit_not && v->type->dtype == DT_bool)) {
        return end_of(p, let->args[0], at, !negated);
    }
    bool less = let->op == OP_le || let->op == OP_lt, strict = let->op == OP_lt || let->op == OP_gt;
    if ((!less && !strict && let->op != OP_ge) || !integer_at(lo, let->args[0], at, &a) ||
        !integer_at(lo, let->args[1], at, &b)) {
        return DIM_NONE;
    }
    Dim more = dim_int(lo->cx, strict != negated);
    return less != negated ? end_of_difference(p, b, dim_add(lo->cx, a, more))
                           : end_of_difference(p, a, dim_add(lo->cx, b, more));
}

/* ---- factors that are not finite ---- */

/* Does a block have only one element along this axis of the factors? *at: its index. */
static bool
is_batch(const Lower *lo, const Bounded *b, int axis, const Dim *start, const Dim *dims, Dim *at)
{
    const Contraction *c = let_contraction(b->contract);
    const char *rows = b->factors ? c->a : c->b, *factors = b->factors ? c->b : c->a;
    int ax = letter_axis(rows, b->factors ? c->na : c->nb, factors[axis]);
    if (ax < 0 || ax == b->axis || !extent_is_one(lo->cx, dims[ax])) {
        return false;
    }
    *at = start[ax];
    return true;
}

/* Adds up 0 times each factor, for each batch, in an earlier phase: NaN if one is not finite. */
static void
find_nan(Lower *lo, Bounded *b, const Dim *start, const Dim *dims)
{
    const Value *factors = b->contract->args[b->factors];
    Lower saved = *lo;
    Dim idx[MAX_RANK], at[MAX_RANK], room[MAX_RANK], to[MAX_RANK];
    Dtype dtype = dtype_info[factors->type->dtype].compute;
    Value *zero = cx_alloc(lo->cx, sizeof *zero), *v;
    int n = 0, reduced = 0;
    for (int ax = 0; ax < factors->type->rank; ax++) {
        if (is_batch(lo, b, ax, start, dims, &at[ax])) {
            room[n++] = factors->type->dims[ax];
        }
    }
    lo->out.depth = 0;
    b->nan = builder_buffer(&lo->out, 0, dtype, n, room);
    if (!n) { /* a phase is a loop */
        builder_open(&lo->out, "i", dim_int(lo->cx, 1));
    }
    for (int ax = 0, k = 0; ax < factors->type->rank; ax++) {
        if (is_batch(lo, b, ax, start, dims, &at[ax])) {
            idx[ax] = to[k++] = builder_open(&lo->out, "i", factors->type->dims[ax]);
        }
    }
    for (int ax = 0; ax < factors->type->rank; ax++) {
        if (!is_batch(lo, b, ax, start, dims, &at[ax])) {
            idx[ax] = builder_open(&lo->out, "p", factors->type->dims[ax]);
            reduced++;
        }
    }
    const Value *from = look_through(lo, factors, idx, at);
    v = builder_cast(&lo->out, lower_load_here(lo, lo->leaf[from->id], at), dtype);
    v = builder_combine(&lo->out, OP_mul, zero, v);
    for (int k = 0; k < reduced; k++) {
        v = builder_close_reduce(&lo->out, OP_sum, k == 0 ? MARK_lanes : 0, v);
    }
    lower_store(lo, b->nan, to, v);
    while (lo->out.depth) {
        builder_close(&lo->out);
    }
    lo->out.depth = saved.out.depth;
    memcpy(lo->out.path, saved.out.path, sizeof lo->out.path);
}

/* `end`, or no less than all of the axis if a factor is not finite. */
static Dim
all_if_nan(Lower *lo, Bounded *b, Dim end, const Dim *start, const Dim *dims)
{
    Dim at[MAX_RANK];
    int n = 0;
    if (!b->contract) {
        return end;
    }
    if (!b->nan) {
        find_nan(lo, b, start, dims);
    }
    for (int ax = 0; ax < b->contract->args[b->factors]->type->rank; ax++) {
        n += is_batch(lo, b, ax, start, dims, &at[n]);
    }
    Value *sum = lower_load_here(lo, b->nan, at), *nan = builder_compare(&lo->out, OP_ne, sum, sum);
    Dim all = lower_bind(lo, builder_cast(&lo->out, nan, DT_i64), dim_int(lo->cx, 2), 0, 0, NULL);
    return dim_add(lo->cx, end, dim_mul(lo->cx, b->full, all));
}

/* ---- the whole ---- */

/* The axis along which rows of the value are reduced to their maximum; -1: there is none. */
static int
axis_of_rows(const Lower *lo, const Value *v)
{
    for (int k = 0; k < lo->body->n; k++) {
        const Let *let = lo->body->lets[k];
        if (let->op == OP_amax && let->args[0] == v && let_attr(let, "axes")->n == 1) {
            return let_attr(let, "axes")->axes[0];
        }
    }
    return -1;
}

void
bounds_find(Lower *lo)
{
    lo->nbounded = 0;
    for (int k = 0; k < lo->body->n; k++) {
        const Let *let = lo->body->lets[k];
        double a = 0, b = 0;
        if (let->op != OP_where || lo->leaf[let->res[0]->id] ||
            (is_number(let->args[1], &a) && a == -INFINITY) ==
                (is_number(let->args[2], &b) && b == -INFINITY)) {
            continue;
        }
        Bounded found = {.select = let, .axis = axis_of_rows(lo, let->res[0]), .extent = DIM_NONE};
        found.values = cx_alloc(lo->cx, (size_t)lo->body->n * sizeof *found.values);
        if (found.axis >= 0 && follow(lo, &found, let->res[0], EXCLUDED_LEAST)) {
            found.full = let->res[0]->type->dims[found.axis];
            lo->bounded = cx_grow(lo->cx, lo->bounded, lo->nbounded, sizeof *lo->bounded);
            lo->bounded[lo->nbounded++] = found;
        }
    }
}

void
bounds_forget(Lower *lo)
{
    lo->nbounded = 0;
}

static Bounded *
bounded_of(const Lower *lo, const Value *v, int axis)
{
    for (int k = 0; k < lo->nbounded; k++) {
        Bounded *b = &lo->bounded[k];
        for (int j = 0; j < b->n && b->axis == axis; j++) {
            if (b->values[j] == v) {
                return b;
            }
        }
    }
    return NULL;
}

void
bounds_shorten(Lower *lo, const Value *v, const Dim *start, Dim *dims)
{
    Bounded *b = NULL;
    Cx *cx = lo->cx;
    Part p = {.lo = lo, .rank = v->type->rank, .dims = dims};
    for (int ax = 0; ax < v->type->rank; ax++) {
        p.name[ax] = dim_index(cx, "b", dims[ax]);
        p.at[ax] = extent_is_one(cx, dims[ax]) ? start[ax] : dim_add(cx, start[ax], p.name[ax]);
        b = b ? b : bounded_of(lo, v, ax);
    }
    if (!b || dims[b->axis] != b->full) {
        return;
    }
    if (b->extent == DIM_NONE) {
        double least;
        p.axis = b->axis;
        bool negated = is_number(b->select->args[1], &least) && least == -INFINITY;
        /* a bound is a multiple of a panel's columns */
        Dim end = end_of(&p, b->select->args[0], p.at, negated);
        Dim step = dim_int(cx, panel_width(DT_f32));
        if (end == DIM_NONE) {
            b->n = 0;
            return;
        }
        end = dim_mul(cx, step, extent_ceiling(cx, dim_max(cx, dim_int(cx, 1), end), step));
        b->extent = dim_min(cx, b->full, all_if_nan(lo, b, end, start, dims));
    }
    dims[b->axis] = b->extent;
}

Dim
bounds_extent(const Lower *lo, const Value *v, int axis)
{
    const Bounded *b = bounded_of(lo, v, axis);
    return b && b->extent != DIM_NONE ? b->extent : v->type->dims[axis];
}

Dim
bounds_room(const Lower *lo, Dim extent)
{
    for (int k = 0; k < lo->nbounded; k++) {
        extent = lo->bounded[k].extent == extent ? lo->bounded[k].full : extent;
    }
    return extent;
}
