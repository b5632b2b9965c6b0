/* Einstein notation: reads of tensors.
 *
 * A read whose indices are sums of indices and sizes is a view: what it reads of each axis is cut out or padded, and
 * a letter's step in memory is what it adds to the place, so that windows and diagonals are no copies.  Where this is
 * not proved to lie inside, and for indices that are data, it is a gather, which checks. */
#include "notation.h"

#include <string.h>

/* What a view reads of an axis: `length` places from `start`; each letter with the sign that its flip leaves. */
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

/* The axis with places `start` .. start + length - 1 of it, those outside by the edge; NULL: not proved. */
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
    bool before = dim_le(cx, r->start, zero), after = dim_le(cx, size, end);
    if (edge != EDGE_ZERO || !(starts || before) || !(ends || after)) {
        return NULL;
    }
    Dim dims[MAX_RANK], lo[MAX_RANK];
    for (int k = 0; k < v->type->rank; k++) {
        dims[k] = v->type->dims[k];
        lo[k] = zero;
    }
    if (starts || ends) {                       /* what is not read goes first */
        Dim from = starts ? r->start : zero, to = ends ? end : size;
        if (!dim_le(cx, from, to)) {
            return NULL;
        }
        v = build_slice(s->b, v, ax, from, dim_int(cx, 1), dim_sub(cx, to, from));
    }
    lo[ax] = starts ? zero : dim_sub(cx, zero, r->start);
    dims[ax] = r->length;
    const Type *t = type_of(cx, v->type->dtype, v->type->rank, dims);
    Value *fill = dtype_info[t->dtype].class == CLASS_FLOAT ? build_float(s->b, 0) : build_int(s->b, 0);
    return build_pad(s->b, v, fill, t, lo);
}

/* Does the read certainly leave the axis? */
static void
check_inside(Scene *s, const Expr *e, int ax, Dim size, const Reach *r)
{
    Cx *cx = s->cx;
    bool below = dim_lt(cx, r->start, dim_int(cx, 0)), above = dim_lt(cx, size, dim_add(cx, r->start, r->length));
    if (e->edge == EDGE_NONE && (below || above)) {
        notation_fail(s->notation, e->args[ax]->at, "this index goes %s axis %d of '%s': write %s[..] zero, clamp or wrap, "
                      "or a range (for i in 0..size(%s, %d)-1)", below ? "below 0 on" : "beyond the end of", ax, e->name,
                      e->name, e->name, ax);
    }
}

/* ---- as a view ---- */

/* The view of a value that is cut to what is read; letters: those of the read, ascending. */
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
                    strides[k] = dim_add(cx, strides[k], dim_mul(cx, dense[ax], dim_int(cx, times < 0 ? -times : times)));
                }
            }
        }
    }
    return build_as_strided(s->b, v, n, dims, strides, dim_int(cx, 0));
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
        simple = simple && at[ax].n <= 1 && (at[ax].n == 0 || at[ax].times[0] == 1 || at[ax].times[0] == -1);
        for (int j = 0; j < at[ax].n; j++) {
            simple = seen[at[ax].letter[j]]++ == 0 && simple;
        }
    }
    for (int k = 0; k < n; k++) {
        if (flips(reach, e->n, letters[k], &mixed)) {
            axes[nflips++] = k;
        }
    }
    for (int ax = 0; ax < e->n && v && !mixed; ax++) {
        v = cut_axis(s, v, ax, &reach[ax], e->edge);
    }
    if (!v || mixed) {
        return NULL;
    }
    v = simple ? ordered(s, v, reach, n, letters) : strided(s, v, reach, n, letters);
    return nflips ? build_flip(s->b, v, nflips, axes) : v;
}

/* ---- as a gather ---- */

static Part
part_map(Scene *s, Op op, Part a, Part b)
{
    Part t = {.dtype = a.dtype, .weight = OF_AXES};
    t.n = letters_join(a.n, a.letters, b.n, b.letters, t.letters);
    Value *x = part_over(s, a, t.n, t.letters), *y = part_over(s, b, t.n, t.letters);
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
        return part_map(s, OP_remainder, index, part_size(s, dim_max(s->cx, size, dim_int(s->cx, 1))));
    }
    if (edge == EDGE_NONE) {
        return index;
    }
    if (edge == EDGE_ZERO) {
        Part is = part_map(s, OP_bit_and, part_map(s, OP_ge, index, zero), part_map(s, OP_le, index, last));
        *inside = inside->v ? part_map(s, OP_bit_and, *inside, is) : is;
    }
    return part_map(s, OP_maximum, part_map(s, OP_minimum, index, last), zero);
}

/* Of several axes that data choose: each index is checked alone, then there is one for the elements in their order. */
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
        Value *at = part_over(s, part_map(s, OP_mul, checked, part_size(s, dense[ax])), n, letters);
        place = place ? build_map(s->b, OP_add, place, at, NULL) : at;
    }
    return build_gather(s->b, flat, place, 0, INDEX_FROM_START);
}

/* One axis is chosen by data, and no letter stands in two axes. */
static Value *
gather_one(Scene *s, const Named *of, int axis, Part index, const int *whole, int n, const int *letters)
{
    int order[MAX_RANK], rank = 0, perm[MAX_RANK];
    Value *v = build_gather(s->b, of->v, index.v, axis, INDEX_FROM_START);
    for (int ax = 0; ax < of->rank; ax++) {
        for (int k = 0; ax == axis && k < index.n; k++) {
            order[rank++] = index.letters[k];
        }
        if (ax != axis) {
            order[rank++] = whole[ax];
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
    int whole[MAX_RANK], ndata = 0, axis = 0, all = 0;
    *n = 0;
    for (int ax = 0; ax < e->n; ax++) {
        const Expr *at = e->args[ax];
        int k = at->kind == EXPR_NAME ? letter_find(s, at->name) : -1;
        whole[ax] = k >= 0 && s->letters[k].dim == of->dims[ax] ? k : -1;
        index[ax] = part_of(s, at);
        if (dtype_info[index[ax].dtype].class != CLASS_INT || index[ax].weight == OF_NUMBER) {
            if (index[ax].weight != OF_NUMBER || !index[ax].v->literal.is_int) {
                notation_fail(s->notation, at->at, "an index must be of integers: i64(..) makes some");
            }
            index[ax] = part_int(s, index[ax].v->literal.i);
        }
        index[ax] = part_cast(s, index[ax], DT_i64);
        if (whole[ax] < 0) {
            index[ax] = inside_of(s, index[ax], of->dims[ax], e->edge, &inside);
            ndata++;
            axis = ax;
        }
        all += index[ax].n;
        *n = letters_join(*n, letters, index[ax].n, index[ax].letters, letters);
    }
    Value *v = ndata == 1 && all == *n ? gather_one(s, of, axis, index[axis], whole, *n, letters)
                                       : gather_many(s, of, index, *n, letters);
    if (inside.v) {
        bool real = dtype_info[v->type->dtype].class == CLASS_FLOAT;
        v = build_map(s->b, OP_where, part_over(s, inside, *n, letters), v,
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
