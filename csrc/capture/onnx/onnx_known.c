/* What the elements of a small tensor are, as sizes of the language.
 *
 * ONNX computes shapes by tensors: Shape, Gather, Concat, arithmetic, Reshape.  Such nodes become
 * lets like others.  Where the values decide a size, they are read back from the lets here, element
 * by element, with sizes for numbers: then nothing reads the lets any more, and they cost
 * nothing. */
#include "onnx.h"

#include <math.h>
#include <string.h>

enum { MAX_DEPTH = 1000 }; /* lets below one another */

struct Knowledge {
    Known **of; /* by Value.id */
    bool *asked;
    int room;
};

void
onnx_know_param(Onnx *o, const Value *param, const Known *content)
{
    while (o->ncontents <= param->result) {
        o->contents = cx_grow(o->cx, o->contents, o->ncontents, sizeof *o->contents);
        o->contents[o->ncontents++] = NULL;
    }
    o->contents[param->result] = cx_copy(o->cx, content, sizeof *content);
}

/* ---- elements ---- */

static Element
of_int(Onnx *o, int64_t i)
{
    return (Element){ELEMENT_DIM, dim_int(o->cx, i), 0};
}

static bool
is_int(Onnx *o, const Element *e, int64_t *i)
{
    return e->kind == ELEMENT_DIM && dim_is_int(o->cx, e->d, i);
}

static bool
is_number(Onnx *o, const Element *e, double *f)
{
    int64_t i;
    *f = e->f;
    if (is_int(o, e, &i)) {
        *f = (double)i;
    }
    return e->kind == ELEMENT_FLOAT || is_int(o, e, &i);
}

static Element
of_literal(Onnx *o, Literal l)
{
    return l.is_int ? of_int(o, l.i) : (Element){ELEMENT_FLOAT, DIM_NONE, l.f};
}

static bool
is_whole(Dtype dtype)
{
    return dtype_info[dtype].class <= CLASS_INT;
}

/* Does an integer fit in this type, so that it is not wrapped? */
static bool
fits(Dtype dtype, int64_t i)
{
    int bits = 8 * dtype_info[dtype].bytes;
    if (!is_whole(dtype) || bits == 64) {
        return true;
    }
    return dtype == DT_u8 ? i >= 0 && i <= 255
                          : i >= -((int64_t)1 << (bits - 1)) && i < (int64_t)1 << (bits - 1);
}

/* A float as an integer, cut towards 0; a number as a truth value. */
static Element
converted(Onnx *o, Element e, Dtype to)
{
    double f;
    int64_t i;
    if (to == DT_bool) {
        return is_number(o, &e, &f) ? of_int(o, f != 0) : (Element){0};
    }
    if (is_whole(to) && e.kind == ELEMENT_FLOAT) {
        bool exact = isfinite(e.f) && fabs(e.f) < 0x1p53 && fits(to, (int64_t)e.f);
        return exact ? of_int(o, (int64_t)e.f) : (Element){0};
    }
    if (is_int(o, &e, &i) && !fits(to, i)) {
        return (Element){0};
    }
    if (to == DT_f32 && e.kind == ELEMENT_FLOAT) {
        e.f = (double)(float)e.f;
    }
    return e;
}

static Element
compared(Onnx *o, Op op, const Element *a, const Element *b)
{
    double x, y;
    if (is_number(o, a, &x) && is_number(o, b, &y)) {
        bool is = op == OP_eq   ? x == y
                  : op == OP_ne ? x != y
                  : op == OP_lt ? x < y
                  : op == OP_le ? x <= y
                  : op == OP_gt ? x > y
                                : x >= y;
        return of_int(o, is);
    }
    if (a->kind != ELEMENT_DIM || b->kind != ELEMENT_DIM) {
        return (Element){0};
    }
    bool less = dim_lt(o->cx, a->d, b->d), more = dim_lt(o->cx, b->d, a->d);
    bool same = a->d == b->d, most = same || dim_le(o->cx, a->d, b->d);
    bool least = same || dim_le(o->cx, b->d, a->d);
    bool yes = op == OP_eq   ? same
               : op == OP_ne ? less || more
               : op == OP_lt ? less
               : op == OP_le ? most
               : op == OP_gt ? more
                             : least;
    bool no = op == OP_eq   ? less || more
              : op == OP_ne ? same
              : op == OP_lt ? least
              : op == OP_le ? more
              : op == OP_gt ? most
                            : less;
    return yes || no ? of_int(o, yes) : (Element){0};
}

static Element
of_dims(Onnx *o, Op op, Dim a, Dim b)
{
    Cx *cx = o->cx;
    Dim zero = dim_int(cx, 0), d = DIM_NONE;
    bool positive = dim_lt(cx, zero, b);
    switch (op) {
    case OP_add:
        d = dim_add(cx, a, b);
        break;
    case OP_sub:
        d = dim_sub(cx, a, b);
        break;
    case OP_mul:
        d = dim_mul(cx, a, b);
        break;
    case OP_maximum:
        d = dim_max(cx, a, b);
        break;
    case OP_minimum:
        d = dim_min(cx, a, b);
        break;
    case OP_div_floor:
        d = positive ? dim_div(cx, a, b) : DIM_NONE;
        break;
    case OP_remainder:
        d = positive ? dim_mod(cx, a, b) : DIM_NONE;
        break;
    case OP_div_trunc:
        d = positive && dim_le(cx, zero, a) ? dim_div(cx, a, b) : DIM_NONE;
        break;
    case OP_fmod:
        d = positive && dim_le(cx, zero, a) ? dim_mod(cx, a, b) : DIM_NONE;
        break;
    default:
        break;
    }
    return d == DIM_NONE ? (Element){0} : (Element){ELEMENT_DIM, d, 0};
}

/* By the interpreter, for numbers. */
static Element
of_numbers(Onnx *o, Op op, Dtype from, Dtype to, int n, const double *x)
{
    double in[3] = {0}, out = 0;
    for (int k = 0; k < n; k++) {
        in[k] = x[k];
    }
    bool exact = op_info[op].arity <= 2 && op != OP_cast && op != OP_bitcast;
    if (!exact || (is_whole(from) != is_whole(to))) {
        return (Element){0};
    }
    if (is_whole(from)) {
        int64_t a = (int64_t)in[0], b = (int64_t)in[1], made = 0;
        bool divides = op == OP_div_trunc || op == OP_div_floor || op == OP_fmod ||
                       op == OP_remainder;
        if (from == DT_bool) {
            uint8_t p = a != 0, q = b != 0, r = 0;
            eval_map(op, DT_bool, DT_bool, &p, &q, &q, &r);
            return of_int(o, r);
        }
        if (divides && b == 0) {
            return (Element){0};
        }
        eval_map(op, DT_i64, DT_i64, &a, &b, &b, &made);
        return fits(to, made) ? of_int(o, made) : (Element){0};
    }
    eval_map(op, DT_f64, DT_f64, &in[0], &in[1], &in[2], &out);
    return converted(o, (Element){ELEMENT_FLOAT, DIM_NONE, out}, to);
}

static Element
mapped(Onnx *o, const Let *let, const Element *e)
{
    const OpInfo *info = &op_info[let->op];
    const Type *to = let->res[0]->type;
    Dtype from = to->dtype;
    double x[3];
    bool numbers = true;
    for (int k = 0; k < let->nargs; k++) {
        from = let->args[k]->type && let->op != OP_where ? let->args[k]->type->dtype : from;
        numbers = is_number(o, &e[k], &x[k]) && numbers;
    }
    if (let->op == OP_where) {
        int64_t is;
        return is_int(o, &e[0], &is) ? e[is ? 1 : 2] : (Element){0};
    }
    if (let->op == OP_cast) {
        return converted(o, e[0], to->dtype);
    }
    if (info->rule == RULE_CMP) {
        return compared(o, let->op, &e[0], &e[1]);
    }
    Element made = {0};
    if (numbers) {
        made = of_numbers(o, let->op, from, to->dtype, let->nargs, x);
    } else if (let->nargs == 2 && e[0].kind == ELEMENT_DIM && e[1].kind == ELEMENT_DIM) {
        made = of_dims(o, let->op, e[0].d, e[1].d);
    } else if (let->op == OP_neg && e[0].kind == ELEMENT_DIM) {
        made = of_dims(o, OP_sub, dim_int(o->cx, 0), e[0].d);
    } else if ((let->op == OP_floor || let->op == OP_ceil || let->op == OP_trunc ||
                let->op == OP_round) &&
               e[0].kind == ELEMENT_DIM) {
        made = e[0];
    }
    return made;
}

/* ---- indices ---- */

/* The sizes of a small tensor of numbers; -1: it is another. */
static int
sizes_of(Onnx *o, const Type *t, int64_t *sizes)
{
    int64_t n = 1;
    for (int ax = 0; ax < t->rank; ax++) {
        if (!dim_is_int(o->cx, t->dims[ax], &sizes[ax]) || sizes[ax] < 0 || sizes[ax] > MAX_KNOWN ||
            (n *= sizes[ax]) > MAX_KNOWN) {
            return -1;
        }
    }
    return (int)n;
}

static void
index_of(int at, int rank, const int64_t *sizes, int64_t *index)
{
    for (int ax = rank - 1; ax >= 0; ax--) {
        index[ax] = at % sizes[ax];
        at /= (int)sizes[ax];
    }
}

/* -1: it is out of the tensor. */
static int
place_of(int rank, const int64_t *sizes, const int64_t *index)
{
    int64_t at = 0;
    for (int ax = 0; ax < rank; ax++) {
        if (index[ax] < 0 || index[ax] >= sizes[ax]) {
            return -1;
        }
        at = at * sizes[ax] + index[ax];
    }
    return (int)at;
}

/* The index in the operand of an element of a view; false: the view is not looked through. */
static bool
viewed(Onnx *o, const Let *let, const int64_t *index, int64_t *from)
{
    const Type *t = let->args[0]->type;
    int64_t start, step;
    const Attr *a;
    switch (let->op) {
    case OP_expand:
        a = let_attr(let, "to");
        for (int k = 0; k < t->rank; k++) {
            from[k] = index[a->axes[k]];
        }
        return true;
    case OP_permute:
        a = let_attr(let, "perm");
        for (int k = 0; k < t->rank; k++) {
            from[a->axes[k]] = index[k];
        }
        return true;
    case OP_slice:
        memcpy(from, index, (size_t)t->rank * sizeof *from);
        if (!dim_is_int(o->cx, let_dim(let, "start"), &start) ||
            !dim_is_int(o->cx, let_dim(let, "step"), &step)) {
            return false;
        }
        from[let_int(let, "axis")] = start + step * index[let_int(let, "axis")];
        return true;
    default:
        return false;
    }
}

static const Known *known_of(Onnx *o, Value *v, int depth);

static bool
views(Onnx *o, const Let *let, const Known *x, int n, const int64_t *sizes, Element *out)
{
    int64_t of[MAX_RANK], index[MAX_RANK], from[MAX_RANK];
    const Type *t = let->args[0]->type;
    if (let->op == OP_reshape) {
        memcpy(out, x->elements, (size_t)n * sizeof *out);
        return true;
    }
    sizes_of(o, t, of);
    for (int k = 0; k < n; k++) {
        index_of(k, let->res[0]->type->rank, sizes, index);
        bool is_flip = let->op == OP_flip;
        if (is_flip) {
            const Attr *a = let_attr(let, "axes");
            for (int ax = 0; ax < t->rank; ax++) {
                from[ax] = attr_has_axis(a, ax) ? of[ax] - 1 - index[ax] : index[ax];
            }
        }
        int at = is_flip || viewed(o, let, index, from) ? place_of(t->rank, of, from) : -1;
        if (at < 0) {
            return false;
        }
        out[k] = x->elements[at];
    }
    return true;
}

static bool
joins(Onnx *o, const Let *let, int n, const int64_t *sizes, Element *out, int depth)
{
    int rank = let->res[0]->type->rank, axis = (int)let_int(let, "axis");
    int64_t start = 0;
    for (int part = 0; part < let->nargs; part++) {
        int64_t of[MAX_RANK], index[MAX_RANK];
        const Known *x = known_of(o, let->args[part], depth);
        if (!x || sizes_of(o, let->args[part]->type, of) < 0) {
            return false;
        }
        for (int k = 0; k < x->n; k++) {
            index_of(k, rank, of, index);
            index[axis] += start;
            int at = place_of(rank, sizes, index);
            if (at < 0 || at >= n) {
                return false;
            }
            out[at] = x->elements[k];
        }
        start += of[axis];
    }
    return true;
}

static bool
gathers(Onnx *o, const Let *let, int n, const int64_t *sizes, Element *out, int depth)
{
    const Type *t = let->args[0]->type, *ti = let->args[1]->type;
    const Known *x = known_of(o, let->args[0], depth), *at = known_of(o, let->args[1], depth);
    int axis = (int)let_int(let, "axis");
    int64_t of[MAX_RANK], positions[MAX_RANK], index[MAX_RANK], from[MAX_RANK], i;
    if (!x || !at || sizes_of(o, t, of) < 0 || sizes_of(o, ti, positions) < 0) {
        return false;
    }
    for (int k = 0; k < n; k++) {
        index_of(k, let->res[0]->type->rank, sizes, index);
        int place = place_of(ti->rank, positions, index + axis);
        if (place < 0 || !is_int(o, &at->elements[place], &i)) {
            return false;
        }
        memcpy(from, index, (size_t)axis * sizeof *from);
        from[axis] = i < 0 ? i + of[axis] : i;
        memcpy(from + axis + 1, index + axis + ti->rank,
               (size_t)(t->rank - axis - 1) * sizeof *from);
        int found = place_of(t->rank, of, from);
        if (found < 0) {
            return false;
        }
        out[k] = x->elements[found];
    }
    return true;
}

static bool
reduces(Onnx *o, const Let *let, int n, Element *out, int depth)
{
    const Type *t = let->args[0]->type;
    const Known *x = known_of(o, let->args[0], depth);
    Op by = op_info[let->op].combine;
    int64_t of[MAX_RANK], index[MAX_RANK], made[MAX_RANK], left[MAX_RANK];
    if (!x || sizes_of(o, t, of) < 0 || x->n == 0 || op_info[let->op].rule != RULE_ACC ||
        !is_whole(t->dtype)) {
        return false;
    }
    const Attr *a = let_attr(let, "axes");
    bool *begun = cx_alloc(o->cx, (size_t)n + 1);
    for (int k = 0; k < x->n; k++) {
        int kept = 0;
        index_of(k, t->rank, of, index);
        for (int ax = 0; ax < t->rank; ax++) {
            if (!attr_has_axis(a, ax)) {
                left[kept] = of[ax];
                made[kept++] = index[ax];
            }
        }
        int at = place_of(kept, left, made);
        const Element *e = &x->elements[k];
        if (e->kind != ELEMENT_DIM) {
            return false;
        }
        out[at] = begun[at] ? of_dims(o, by, out[at].d, e->d) : *e;
        if (out[at].kind != ELEMENT_DIM) {
            return false;
        }
        begun[at] = true;
    }
    return true;
}

static bool
find(Onnx *o, const Value *v, int n, const int64_t *sizes, Element *out, int depth)
{
    const Let *let = v->def;
    const OpInfo *info = &op_info[let->op];
    if (let->op == OP_const || let->op == OP_size || let->op == OP_iota) {
        for (int k = 0; k < n; k++) {
            int64_t index[MAX_RANK] = {0};
            index_of(k, v->type->rank, sizes, index);
            out[k] = let->op == OP_const  ? of_literal(o, let->args[0]->literal)
                     : let->op == OP_size ? (Element){ELEMENT_DIM, let_dim(let, "dim"), 0}
                                          : of_int(o, index[let_int(let, "axis")]);
        }
        return true;
    }
    if (info->kind == KIND_MAP) {
        const Known *x[3] = {NULL};
        for (int a = 0; a < let->nargs; a++) {
            x[a] = value_is_const(let->args[a]) ? NULL : known_of(o, let->args[a], depth);
            if (!value_is_const(let->args[a]) && !x[a]) {
                return false;
            }
        }
        for (int k = 0; k < n; k++) {
            Element e[3] = {{0}};
            for (int a = 0; a < let->nargs; a++) {
                e[a] = x[a] ? x[a]->elements[k] : of_literal(o, let->args[a]->literal);
            }
            out[k] = mapped(o, let, e);
        }
        return true;
    }
    if (info->kind == KIND_VIEW) {
        const Known *x = known_of(o, let->args[0], depth);
        return x && views(o, let, x, n, sizes, out);
    }
    return let->op == OP_cat        ? joins(o, let, n, sizes, out, depth)
           : let->op == OP_gather   ? gathers(o, let, n, sizes, out, depth)
           : info->kind == KIND_RED ? reduces(o, let, n, out, depth)
                                    : false;
}

static const Known *
known_of(Onnx *o, Value *v, int depth)
{
    int64_t sizes[MAX_RANK];
    int n = v->type ? sizes_of(o, v->type, sizes) : -1;
    if (n < 0 || depth > MAX_DEPTH) {
        return NULL;
    }
    if (!v->def) {
        return v->result < o->ncontents ? o->contents[v->result] : NULL;
    }
    struct Knowledge *all = o->knowledge;
    if (!all) {
        all = o->knowledge = cx_alloc(o->cx, sizeof *all);
    }
    if (v->id >= all->room) {
        int room = 2 * v->id + 64;
        Known **of = cx_alloc(o->cx, (size_t)room * sizeof *of);
        bool *asked = cx_alloc(o->cx, (size_t)room * sizeof *asked);
        if (all->room) {
            memcpy(of, all->of, (size_t)all->room * sizeof *of);
            memcpy(asked, all->asked, (size_t)all->room * sizeof *asked);
        }
        *all = (struct Knowledge){of, asked, room};
    }
    if (!all->asked[v->id]) {
        Known *made = cx_alloc(o->cx, sizeof *made);
        *made = (Known){n, cx_alloc(o->cx, (size_t)(n + 1) * sizeof *made->elements)};
        bool is = find(o, v, n, sizes, made->elements, depth + 1);
        all = o->knowledge;
        all->asked[v->id] = true;
        all->of[v->id] = is ? made : NULL;
    }
    return all->of[v->id];
}

const Known *
onnx_known(Onnx *o, Value *v)
{
    return known_of(o, v, 0);
}

/* ---- for builders ---- */

/* An input of the graph that the value is computed from, and whose values are not known; NULL:
 * there is none. */
static const Value *
unknown_input(Onnx *o, const Value *v, bool *seen, int depth)
{
    if (value_is_const(v) || seen[v->id] || depth > MAX_DEPTH) {
        return NULL;
    }
    seen[v->id] = true;
    if (!v->def) {
        bool known = v->result < o->ncontents && o->contents[v->result];
        return known ? NULL : v;
    }
    const Value *found = NULL;
    for (int k = 0; k < v->def->nargs && !found; k++) {
        found = unknown_input(o, v->def->args[k], seen, depth + 1);
    }
    return found;
}

void
onnx_not_known(Onnx *o, int k)
{
    bool *seen = cx_alloc(o->cx, (size_t)o->fn->nvalues + 1);
    const Value *v = unknown_input(o, onnx_in(o, k), seen, 0);
    const char *name = o->names[o->node->inputs[k]], *from = NULL;
    for (int n = 0; v && n < o->nvalues && !from; n++) {
        from = o->values[n] == v && o->is_input[n] ? o->names[n] : NULL;
    }
    ++*o->nunknown;
    if (!from) {
        onnx_refuse(o,
                    "the values of '%s' decide a size or what is computed, and are not known "
                    "before a call",
                    name);
    }
    onnx_refuse(
        o,
        "the values of '%s' decide a size or what is computed, and follow from the input '%s', "
        "which is not known "
        "before a call: make it a constant, dlc.load(.., constants={'%s': ..})",
        name, from, from);
}

const Dim *
onnx_dims(Onnx *o, int k, int *n)
{
    const Known *x = onnx_known(o, onnx_in(o, k));
    if (!x) {
        onnx_not_known(o, k);
    }
    Dim *dims = cx_alloc(o->cx, (size_t)(x->n + 1) * sizeof *dims);
    for (int e = 0; e < x->n; e++) {
        Element whole = converted(o, x->elements[e], DT_i64);
        if (whole.kind != ELEMENT_DIM) {
            onnx_not_known(o, k);
        }
        dims[e] = whole.d;
    }
    *n = x->n;
    return dims;
}

const int64_t *
onnx_numbers(Onnx *o, int k, int *n)
{
    const Dim *dims = onnx_dims(o, k, n);
    int64_t *numbers = cx_alloc(o->cx, (size_t)(*n + 1) * sizeof *numbers);
    for (int e = 0; e < *n; e++) {
        if (!dim_is_int(o->cx, dims[e], &numbers[e])) {
            onnx_not_known(o, k);
        }
    }
    return numbers;
}

Dim
onnx_one_dim(Onnx *o, int k)
{
    int n;
    const Dim *dims = onnx_dims(o, k, &n);
    if (n != 1) {
        onnx_refuse(o, "its input %d has %d elements instead of one", k + 1, n);
    }
    return dims[0];
}

int64_t
onnx_one_number(Onnx *o, int k)
{
    int64_t i;
    if (!dim_is_int(o->cx, onnx_one_dim(o, k), &i)) {
        onnx_not_known(o, k);
    }
    return i;
}

bool
onnx_constant(Onnx *o, Value *v, double *f)
{
    const Known *x = onnx_known(o, v);
    return x && x->n == 1 && is_number(o, &x->elements[0], f);
}

bool
onnx_literal(Onnx *o, Value *v, Literal *l)
{
    const Known *x = onnx_known(o, v);
    *l = (Literal){0};
    if (!x || x->n != 1 || !is_number(o, &x->elements[0], &l->f)) {
        return false;
    }
    l->is_int = is_int(o, &x->elements[0], &l->i);
    return true;
}

Value *
onnx_of_dims(Onnx *o, int n, const Dim *dims)
{
    Dim one = dim_int(o->cx, 1), all = dim_int(o->cx, n);
    Value **parts = cx_alloc(o->cx, (size_t)(n + 1) * sizeof *parts);
    const Type *t = type_of(o->cx, DT_i64, 1, &one);
    if (n == 0) {
        return build_const(o->b, type_of(o->cx, DT_i64, 1, &all), (Literal){.is_int = true});
    }
    for (int k = 0; k < n; k++) {
        int64_t i;
        parts[k] = dim_is_int(o->cx, dims[k], &i)
                       ? build_const(o->b, t, (Literal){.is_int = true, .i = i})
                       : build_reshape(o->b, build_size(o->b, dims[k]), 1, &one);
    }
    return build_cat(o->b, n, parts, 0);
}
