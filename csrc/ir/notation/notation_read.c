/* Einstein notation: reads of tensors.
 *
 * A read whose indices are sums of indices and sizes is a view: what it reads of each axis is cut
 * out or padded, and a letter's step in memory is what it adds to the place, so that windows and
 * diagonals are no copies.  Where this is not proved to lie inside, and for indices that are data,
 * it is a gather, which checks. */
#include "notation.h"

#include <string.h>

/* What a view reads of an axis: `length` places from `start`; each letter with the sign that its
 * flip leaves. */
typedef struct {
    Affine of;
    Dim start, length;
} Reach;

static Reach
reach_of(Scene *s, const Affine *a)
{
    Cx *cx = s->cx;
    Dim one = dim_int(cx, 1);
    Reach r = {.of = *a, .start = a->offset, .length = one};
    for (int k = 0; k < a->n; k++) {
        Dim last = dim_sub(cx, s->letters[a->letter[k]].dim, one);
        Dim span = dim_mul(cx, last, dim_int(cx, a->times[k] < 0 ? -a->times[k] : a->times[k]));
        r.length = dim_add(cx, r.length, span);
        if (a->times[k] < 0) {
            r.start = dim_sub(cx, r.start, span);
        }
    }
    return r;
}

/* The axis with places `start` .. start + length - 1 of it, those outside by the edge; NULL: not
 * proved. */
static Value *
cut_axis(Scene *s, Value *v, int ax, const Reach *r, Edge edge)
{
    Cx *cx = s->cx;
    Dim zero = dim_int(cx, 0), size = v->type->dims[ax], end = dim_add(cx, r->start, r->length);
    bool starts = dim_le(cx, zero, r->start), ends = dim_le(cx, end, size);
    if (r->start == zero && r->length == size) {
        return v;
    }
    if (starts && ends && dim_le(cx, zero, r->length)) {
        return build_slice(s->b, v, ax, r->start, dim_int(cx, 1), r->length);
    }
    if (edge != EDGE_ZERO || dtype_info[v->type->dtype].class > CLASS_FLOAT) {
        return NULL;
    }
    Dim dims[MAX_RANK], lo[MAX_RANK];           /* a pad leaves out what does not fit, too */
    for (int k = 0; k < v->type->rank; k++) {
        dims[k] = v->type->dims[k];
        lo[k] = zero;
    }
    lo[ax] = dim_sub(cx, zero, r->start);
    dims[ax] = r->length;
    const Type *t = type_of(cx, v->type->dtype, v->type->rank, dims);
    Value *fill = dtype_info[t->dtype].class == CLASS_FLOAT ? build_float(s->b, 0)
                                                            : build_int(s->b, 0);
    return build_pad(s->b, v, fill, t, lo);
}

/* ---- one pad for reads around ---- */

/* How far reads of e's tensor with edge zero, of an axis, reach beyond its ends by known
 * numbers. */
static void
margin_of(Scene *s, const Expr *in, const Expr *e, int ax, int64_t *lo, int64_t *hi)
{
    Affine a;
    for (int k = 0; k < in->n; k++) {
        margin_of(s, in->args[k], e, ax, lo, hi);
    }
    if (in->kind == EXPR_READ && in->edge == EDGE_ZERO && in->name == e->name &&
        affine_read(s, in->args[ax], &a)) {
        int64_t start, past;
        Reach r = reach_of(s, &a);
        Dim end = dim_sub(s->cx, dim_add(s->cx, r.start, r.length),
                          named_find(s, e->name)->dims[ax]);
        if (dim_is_int(s->cx, r.start, &start) && dim_is_int(s->cx, end, &past)) {
            *lo = -start > *lo ? -start : *lo;
            *hi = past > *hi ? past : *hi;
        }
    }
}

/* The tensor with zeros around it, for all reads of the line that want some, so that each is a
 * slice of it. */
static Value *
padded(Scene *s, const Expr *e, const Named *of, Reach *reach)
{
    Cx *cx = s->cx;
    Dim dims[MAX_RANK], lo[MAX_RANK];
    for (int ax = 0; ax < e->n; ax++) {
        int64_t before = 0, behind = 0, start, past;
        Dim end = dim_sub(cx, dim_add(cx, reach[ax].start, reach[ax].length), of->dims[ax]);
        margin_of(s, s->line->body, e, ax, &before, &behind);
        if (!dim_is_int(cx, reach[ax].start, &start) || !dim_is_int(cx, end, &past)) {
            return of->v;
        }
        dims[ax] = dim_add(cx, of->dims[ax], dim_int(cx, before + behind));
        lo[ax] = dim_int(cx, before);
    }
    for (int ax = 0; ax < e->n; ax++) {
        reach[ax].start = dim_add(cx, reach[ax].start, lo[ax]);
    }
    const Type *t = type_of(cx, of->v->type->dtype, of->rank, dims);
    Value *fill = dtype_info[t->dtype].class == CLASS_FLOAT ? build_float(s->b, 0)
                                                            : build_int(s->b, 0);
    return build_pad(s->b, of->v, fill, t, lo);
}

/* Fails if the read certainly leaves the axis. */
static void
check_inside(Scene *s, const Expr *e, int ax, Dim size, const Reach *r)
{
    Cx *cx = s->cx;
    const Expr *begin = e->args[ax];            /* of the index: a sum stands at its sign */
    while (begin->kind == EXPR_CALL && begin->n == 2 && begin->args[0]->at < begin->at) {
        begin = begin->args[0];
    }
    bool below = dim_lt(cx, r->start, dim_int(cx, 0)),
         above = dim_lt(cx, size, dim_add(cx, r->start, r->length));
    if (e->edge == EDGE_NONE && (below || above)) {
        notation_fail(s->notation, begin->at,
                      "this index goes %s axis %d of '%s': write %s[..] zero, clamp or wrap, "
                      "or a range (for i in 0..size(%s, %d)-1)",
                      below ? "below 0 on" : "beyond the end of", ax, e->name, e->name, e->name,
                      ax);
    }
}

/* ---- as a view ---- */

/* The view of a value that is cut to what is read; letters: those of the read, ascending.  NULL:
 * not proved. */
static Value *
strided(Scene *s, Value *v, const Reach *reach, int n, const int *letters)
{
    Cx *cx = s->cx;
    Dim dense[MAX_RANK], dims[MAX_RANK], strides[MAX_RANK];
    type_dense(cx, v->type, dense);
    for (int k = 0; k < n; k++) {
        dims[k] = s->letters[letters[k]].dim;
        strides[k] = dim_int(cx, 0);
        for (int ax = 0; ax < v->type->rank; ax++) {
            for (int j = 0; j < reach[ax].of.n; j++) {
                if (reach[ax].of.letter[j] == letters[k]) {
                    int64_t times = reach[ax].of.times[j];
                    strides[k] = dim_add(
                        cx, strides[k],
                        dim_mul(cx, dense[ax], dim_int(cx, times < 0 ? -times : times)));
                }
            }
        }
    }
    Dim last = dim_int(cx, 0);
    bool inside = true;
    for (int ax = 1; ax < v->type->rank; ax++) { /* lowering divides by the length of a row */
        inside = inside &&
                 (dim_is_name(cx, v->type->dims[ax]) || dim_is_int(cx, v->type->dims[ax], NULL));
    }
    for (int k = 0; k < n; k++) {
        last = dim_add(cx, last, dim_mul(cx, dim_sub(cx, dims[k], dim_int(cx, 1)), strides[k]));
        inside = inside && dim_le(cx, dim_int(cx, 0), strides[k]);
    }
    inside = inside && dim_lt(cx, last, type_numel(cx, v->type));
    return inside ? build_as_strided(s->b, v, n, dims, strides, dim_int(cx, 0)) : NULL;
}

/* Each axis has one letter, and each letter one axis: nothing but their order. */
static Value *
ordered(Scene *s, Value *v, const Reach *reach, int n, const int *letters)
{
    int perm[MAX_RANK], kept = 0, of[MAX_RANK];
    Dim dims[MAX_RANK];
    for (int ax = 0; ax < v->type->rank; ax++) {
        if (reach[ax].of.n) {
            of[kept] = reach[ax].of.letter[0];
            dims[kept++] = v->type->dims[ax];
        }
    }
    if (kept < v->type->rank) {
        v = build_reshape(s->b, v, kept, dims);
    }
    for (int k = 0; k < n; k++) {
        for (int j = 0; j < kept; j++) {
            if (of[j] == letters[k]) {
                perm[k] = j;
            }
        }
    }
    return build_permute(s->b, v, perm);
}

static bool
flips(const Reach *reach, int rank, int letter, bool *mixed)
{
    int minus = 0, plus = 0;
    for (int ax = 0; ax < rank; ax++) {
        for (int j = 0; j < reach[ax].of.n; j++) {
            minus += reach[ax].of.letter[j] == letter && reach[ax].of.times[j] < 0;
            plus += reach[ax].of.letter[j] == letter && reach[ax].of.times[j] > 0;
        }
    }
    *mixed |= minus && plus;
    return minus > 0;
}

static Value *
view_of(Scene *s, const Expr *e, const Named *of, const Affine *at, int n, const int *letters)
{
    Reach reach[MAX_RANK];
    bool simple = true, mixed = false;
    int seen[MAX_LETTERS] = {0}, axes[MAX_RANK], nflips = 0;
    Value *v = of->v;
    for (int ax = 0; ax < e->n; ax++) {
        reach[ax] = reach_of(s, &at[ax]);
        check_inside(s, e, ax, of->dims[ax], &reach[ax]);
        simple = simple && at[ax].n <= 1 &&
                 (at[ax].n == 0 || at[ax].times[0] == 1 || at[ax].times[0] == -1);
        for (int j = 0; j < at[ax].n; j++) {
            simple = seen[at[ax].letter[j]]++ == 0 && simple;
        }
    }
    for (int k = 0; k < n; k++) {
        if (flips(reach, e->n, letters[k], &mixed)) {
            axes[nflips++] = k;
        }
    }
    if (e->edge == EDGE_ZERO && !mixed && dtype_info[v->type->dtype].class <= CLASS_FLOAT) {
        v = padded(s, e, of, reach);
    }
    for (int ax = 0; ax < e->n && v && !mixed; ax++) {
        v = cut_axis(s, v, ax, &reach[ax], e->edge);
    }
    if (!v || mixed) {
        return NULL;
    }
    v = simple ? ordered(s, v, reach, n, letters) : strided(s, v, reach, n, letters);
    return v && nflips ? build_flip(s->b, v, nflips, axes) : v;
}

/* ---- as a gather ---- */

static Part
part_map(Scene *s, Op op, Part a, Part b)
{
    Part t = {.dtype = a.dtype, .weight = OF_AXES};
    t.n = letters_join(a.n, a.letters, b.n, b.letters, t.letters);
    Value *x = part_expand(s, a, t.n, t.letters), *y = part_expand(s, b, t.n, t.letters);
    t.v = build_map(s->b, op, x, y, NULL);
    bool compares = op_info[op].rule == RULE_CMP;
    t.dtype = compares ? DT_bool : a.dtype;
    return t;
}

static Part
part_size(Scene *s, Dim d)
{
    return (Part){.v = build_size(s->b, d), .dtype = DT_i64, .weight = OF_SCALAR};
}

static Part
part_int(Scene *s, int64_t i)
{
    return part_size(s, dim_int(s->cx, i));
}

/* The index inside of its axis, by the edge; `inside` (or NULL): whether it was. */
static Part
inside_of(Scene *s, Part index, Dim size, Edge edge, Part *inside)
{
    Part last = part_size(s, dim_sub(s->cx, size, dim_int(s->cx, 1))), zero = part_int(s, 0);
    if (edge == EDGE_WRAP) {
        return part_map(s, OP_remainder, index,
                        part_size(s, dim_max(s->cx, size, dim_int(s->cx, 1))));
    }
    if (edge == EDGE_NONE) {
        return index;
    }
    if (edge == EDGE_ZERO) {
        Part is = part_map(s, OP_bit_and, part_map(s, OP_ge, index, zero),
                           part_map(s, OP_le, index, last));
        *inside = inside->v ? part_map(s, OP_bit_and, *inside, is) : is;
    }
    return part_map(s, OP_maximum, part_map(s, OP_minimum, index, last), zero);
}

/* Of several axes that data choose: each index is checked alone, then there is one for the elements
 * in their order. */
static Value *
gather_many(Scene *s, const Named *of, Part *index, int n, const int *letters)
{
    Cx *cx = s->cx;
    Dim dense[MAX_RANK], numel = type_numel(cx, of->v->type);
    Value *flat = build_reshape(s->b, of->v, 1, &numel), *place = NULL;
    type_dense(cx, of->v->type, dense);
    for (int ax = 0; ax < of->rank; ax++) {
        const Type *t = type_of(cx, DT_i64, 1, &of->dims[ax]);
        Part checked = index[ax];
        checked.v = build_gather(s->b, build_iota(s->b, t, 0), checked.v, 0, INDEX_FROM_START);
        Value *at = part_expand(s, part_map(s, OP_mul, checked, part_size(s, dense[ax])), n,
                                letters);
        place = place ? build_map(s->b, OP_add, place, at, NULL) : at;
    }
    return build_gather(s->b, flat, place, 0, INDEX_FROM_START);
}

/* No letter stands in two axes: each axis that data choose is a gather of its own, the last one
 * first. */
static Value *
gather_each(Scene *s, const Named *of, const Part *index, const int *whole, int n,
            const int *letters)
{
    int order[MAX_RANK], rank = 0, perm[MAX_RANK];
    Value *v = of->v;
    for (int ax = of->rank - 1; ax >= 0; ax--) {
        v = whole[ax] < 0 ? build_gather(s->b, v, index[ax].v, ax, INDEX_FROM_START) : v;
    }
    for (int ax = 0; ax < of->rank; ax++) {
        for (int k = 0; k < index[ax].n; k++) {
            order[rank++] = index[ax].letters[k];
        }
    }
    for (int k = 0; k < n; k++) {
        for (int j = 0; j < rank; j++) {
            if (order[j] == letters[k]) {
                perm[k] = j;
            }
        }
    }
    return build_permute(s->b, v, perm);
}

static Value *
gathered(Scene *s, const Expr *e, const Named *of, int *n, int *letters)
{
    Part index[MAX_RANK], inside = {0};
    int whole[MAX_RANK], all = 0;
    *n = 0;
    for (int ax = 0; ax < e->n; ax++) {
        const Expr *at = e->args[ax];
        int k = at->kind == EXPR_NAME ? letter_find(s, at->name) : -1;
        whole[ax] = k >= 0 && s->letters[k].dim == of->dims[ax] ? k : -1;
        index[ax] = part_of(s, at);
        if (dtype_info[index[ax].dtype].class != CLASS_INT || index[ax].weight == OF_NUMBER) {
            if (index[ax].weight != OF_NUMBER || !index[ax].v->literal.is_int) {
                notation_fail(s->notation, at->at,
                              "an index must be of integers: i64(..) makes some");
            }
            index[ax] = part_int(s, index[ax].v->literal.i);
        }
        index[ax] = part_cast(s, index[ax], DT_i64);
        if (whole[ax] < 0) {
            index[ax] = inside_of(s, index[ax], of->dims[ax], e->edge, &inside);
        }
        all += index[ax].n;
        *n = letters_join(*n, letters, index[ax].n, index[ax].letters, letters);
    }
    Value *v = all == *n ? gather_each(s, of, index, whole, *n, letters)
                         : gather_many(s, of, index, *n, letters);
    if (inside.v) {
        bool real = dtype_info[v->type->dtype].class == CLASS_FLOAT;
        v = build_map(s->b, OP_where, part_expand(s, inside, *n, letters), v,
                      real ? build_float(s->b, 0) : build_int(s->b, 0));
    }
    return v;
}

Part
part_read(Scene *s, const Expr *e)
{
    const Named *of = named_find(s, e->name);
    Affine at[MAX_RANK];
    Part t = {.dtype = of->v->type->dtype, .weight = OF_AXES};
    bool affine = true;
    for (int ax = 0; ax < e->n; ax++) {
        affine = affine_read(s, e->args[ax], &at[ax]) && affine;
        for (int k = 0; affine && k < at[ax].n; k++) {
            t.n = letters_join(t.n, t.letters, 1, &at[ax].letter[k], t.letters);
        }
    }
    t.v = affine ? view_of(s, e, of, at, t.n, t.letters) : NULL;
    if (!t.v) {
        t.v = gathered(s, e, of, &t.n, t.letters);
    }
    return t;
}
