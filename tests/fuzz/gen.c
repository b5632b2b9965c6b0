/* Random well-typed programs, from the op table.
 *
 * A let is proposed with operands that are likely to fit; the type rules accept or refuse it.
 * Values that depend on a floating point sum or product are `rough`: their last bits depend on the
 * order of addition.  Ops that jump (comparisons, rounding, casts to integers) take none of them,
 * so that what a small difference does to the results stays small, or shows in the nudged program.
 */
#include "gen.h"
#include "ir/costs.h"

#include <string.h>

enum { MAX_VALUES = 64, MAX_ELEMENTS = 1 << 14, TYPICAL = 12 };

typedef struct {
    Cx *cx;
    Fn *fn;
    uint64_t *random;
    Dim dims[12];               /* to make shapes of */
    int ndims, n;
    Value *values[MAX_VALUES];
    bool rough[MAX_VALUES];
} Gen;

static DtypeClass
class_of(const Value *v)
{
    return dtype_info[v->type->dtype].class;
}

/* ---- types ---- */

static Dtype
any_dtype(Gen *g)
{
    static const Dtype often[] = {DT_f32, DT_f32, DT_f32, DT_f32, DT_f64, DT_i64, DT_i64, DT_i32,
                                  DT_bool, DT_bf16, DT_f16, DT_u8, DT_i8, DT_i16, DT_c64, DT_c128};
    return often[below(g->random, (int)(sizeof often / sizeof *often))];
}

static int64_t
typical(void *arg, Dim name)
{
    (void)arg;
    (void)name;
    return TYPICAL;
}

static bool
small(Gen *g, const Type *t)
{
    int64_t n = dim_eval(g->cx, type_numel(g->cx, t), typical, NULL);
    return n <= MAX_ELEMENTS && t->rank <= 5;
}

static const Type *
any_type(Gen *g, Dtype dtype)
{
    Dim dims[MAX_RANK];
    int rank = below(g->random, 4);
    for (int ax = 0; ax < rank; ax++) {
        dims[ax] = g->dims[below(g->random, g->ndims)];
    }
    const Type *t = type_of(g->cx, dtype, rank, dims);
    return small(g, t) ? t : type_scalar(g->cx, dtype);
}

static void
declare_sizes(Gen *g)
{
    static const char *const names[] = {"B", "N", "S"};
    static const struct { Range range; int64_t divisor; } kinds[] = {
        {{2, DIM_INF}, 1}, {{1, DIM_INF}, 1}, {{0, DIM_INF}, 1}, {{8, 4096}, 8}, {{2, 64}, 1},
    };
    static const int64_t constants[] = {1, 2, 3, 5, 8, 16, 17, 32, 40};
    Cx *cx = g->cx;
    for (int k = below(g->random, 4) - 1; k >= 0; k--) {
        int kind = below(g->random, 5);
        Dim d = dim_size(cx, names[k]);
        dim_declare(cx, d, kinds[kind].range, kinds[kind].divisor);
        fn_take_name(g->fn, names[k]);
        fn_size(g->fn, d);
        g->dims[g->ndims++] = d;
        if (chance(g->random, 30)) {
            g->dims[g->ndims++] = dim_add(cx, dim_mul(cx, d, dim_int(cx, 1 + below(g->random, 2))),
                                          dim_int(cx, below(g->random, 3)));
        }
    }
    for (int k = 0; k < 3; k++) {
        g->dims[g->ndims++] = dim_int(cx, constants[below(g->random, 9)]);
    }
}

/* ---- values ---- */

static Value *
keep(Gen *g, Value *v, bool rough)
{
    if (g->n < MAX_VALUES) {
        g->values[g->n] = v;
        g->rough[g->n++] = rough;
    }
    return v;
}

static bool
is_rough(const Gen *g, const Value *v)
{
    for (int k = 0; k < g->n; k++) {
        if (g->values[k] == v) {
            return g->rough[k];
        }
    }
    return false;
}

static Value *
literal(Gen *g, Dtype dtype)
{
    Value *v = cx_alloc(g->cx, sizeof *v);
    bool is_float = dtype_info[dtype].class == CLASS_FLOAT;
    v->literal.is_int = !is_float || chance(g->random, 20);
    v->literal.i = dtype_info[dtype].class == CLASS_BOOL ? below(g->random, 2)
                   : below(g->random, 7) - 2;
    v->literal.f = v->literal.is_int ? 0 : (below(g->random, 33) - 16) / 4.0;
    return v;
}

static Value *
append(Gen *g, Let *let, const Type *type)
{
    Value *v = let_result(g->fn, let, NULL, type, NULL);
    block_append(g->cx, g->fn->body, let);
    return v;
}

/* The let if the rules allow it, else NULL. */
static Value *
propose(Gen *g, Op op, int nargs, Value *const *args, int nattrs, const Attr *attrs,
        const Type *type)
{
    if (!type || !small(g, type)) {
        return NULL;
    }
    Let *let = let_new(g->fn, op, nargs, args, nattrs, attrs);
    Value shape = {.type = type}, *result = &shape;
    const char *why;
    let->res = &result;
    let->nres = 1;
    const Type *is = let_type(g->cx, let, 0, &why);
    let->res = NULL;
    let->nres = 0;
    if (!is || !small(g, is)) {
        return NULL;
    }
    bool rough = (op == OP_sum || op == OP_prod) && dtype_info[is->dtype].class == CLASS_FLOAT;
    for (int k = 0; k < nargs; k++) {
        rough = rough || is_rough(g, args[k]);
    }
    return keep(g, append(g, let, is), rough);
}

/* A value with a property, or NULL: a few tries. */
static Value *
pick(Gen *g, unsigned classes, bool smooth)
{
    for (int k = 0; k < 12; k++) {
        int at = chance(g->random, 60) ? g->n - 1 - below(g->random, g->n < 4 ? g->n : 4)
                 : below(g->random, g->n);
        if (classes >> class_of(g->values[at]) & 1 && !(smooth && g->rough[at])) {
            return g->values[at];
        }
    }
    return NULL;
}

enum {
    BOOLS = 1 << CLASS_BOOL, INTS = 1 << CLASS_INT, FLOATS = 1 << CLASS_FLOAT,
    ALL = BOOLS | INTS | FLOATS, PAIRS = 1 << CLASS_COMPLEX, MOVED = ALL | PAIRS
};

/* A value of the type: one there is, or one made by cast and expand from one there is, or a
 * constant. */
static Value *
matching(Gen *g, const Type *t, bool smooth)
{
    for (int k = 0; k < 8; k++) {
        int at = below(g->random, g->n);
        Value *v = g->values[at];
        if (v->type == t && !(smooth && g->rough[at])) {
            return v;
        }
        int to[MAX_RANK], ax = t->rank - 1, left = v->type->rank - 1;
        for (; ax >= 0 && left >= 0; ax--) {
            if (t->dims[ax] == v->type->dims[left]) {
                to[left--] = ax;
            }
        }
        if (left >= 0 || g->rough[at] || k < 4) {
            continue;
        }
        if (v->type->rank != t->rank) {
            Attr attr = attr_axes(g->cx, "to", v->type->rank, to);
            v = propose(g, OP_expand, 1, &v, 1, &attr, type_with(g->cx, t, v->type->dtype));
        }
        return !v || v->type == t ? v : propose(g, OP_cast, 1, &v, 0, NULL, t);
    }
    return literal(g, t->dtype);
}

/* ---- lets ---- */

/* As wide, an integer for a float and the other way round; DTYPE_COUNT: there is none. */
static Dtype
bitcast_to(Gen *g, Dtype dtype)
{
    switch (dtype) {
    case DT_i16:
        return chance(g->random, 50) ? DT_f16 : DT_bf16;
    case DT_i32:
        return DT_f32;
    case DT_i64:
        return DT_f64;
    case DT_u8:
        return DT_f8_e4m3;
    case DT_f16: case DT_bf16:
        return DT_i16;
    case DT_f32:
        return DT_i32;
    case DT_f64:
        return DT_i64;
    default:
        return DTYPE_COUNT;
    }
}

static bool
jumps(Op op)
{
    switch (op) {
    case OP_div_trunc: case OP_div_floor: case OP_fmod: case OP_remainder: case OP_sign:
    case OP_floor: case OP_ceil: case OP_trunc: case OP_round: case OP_atan2: case OP_copysign:
    case OP_nextafter:
    case OP_bitcast: case OP_lgamma: case OP_pow: case OP_tan: case OP_argmax: case OP_argmin:
        return true;
    default:
        return op_info[op].rule == RULE_CMP || op_info[op].rule == RULE_PRED;
    }
}

/* The value, or one where it is NaN: no rule says which sign a computed NaN has. */
static Value *
signed_number(Gen *g, Value *v)
{
    if (!v || value_is_const(v)) {
        return v;
    }
    Value *args[3] = {propose(g, OP_isnan, 1, &v, 0, NULL, type_with(g->cx, v->type, DT_bool)),
                      literal(g, v->type->dtype), v};
    return args[0] && args[1] ? propose(g, OP_where, 3, args, 0, NULL, v->type) : v;
}

static void
gen_map(Gen *g, Op op)
{
    static const unsigned classes[] = {
        [RULE_SAME] = ALL, [RULE_NUM] = INTS | FLOATS, [RULE_FLOAT] = FLOATS,
        [RULE_INT] = INTS | BOOLS, [RULE_CMP] = ALL, [RULE_BOOL] = BOOLS, [RULE_PRED] = FLOATS,
        [RULE_SEL] = BOOLS, [RULE_CAST] = ALL, [RULE_PART] = PAIRS, [RULE_PAIR] = FLOATS,
        [RULE_BITS] = INTS | FLOATS,
    };
    const OpInfo *info = &op_info[op];
    bool smooth = jumps(op) || op == OP_where;
    Value *args[3] = {pick(g, classes[info->rule], smooth)};
    if (!args[0]) {
        return;
    }
    Dtype dtype = op == OP_where || op == OP_cast ? any_dtype(g) : args[0]->type->dtype;
    if (op == OP_cast && dtype_info[dtype].class != CLASS_FLOAT && is_rough(g, args[0])) {
        return;
    }
    if (op == OP_bitcast) {
        dtype = bitcast_to(g, dtype);
        args[0] = class_of(args[0]) == CLASS_FLOAT ? signed_number(g, args[0]) : args[0];
        if (dtype == DTYPE_COUNT || !args[0]) {
            return;
        }
    }
    const Type *t = type_with(g->cx, args[0]->type, dtype);
    for (int k = 1; k < info->arity; k++) {
        args[k] = chance(g->random, 20) ? literal(g, dtype)
                  : chance(g->random, 10) && op != OP_where ? args[0]
                  : matching(g, t, smooth && op != OP_where);
        if (!args[k]) {
            return;
        }
    }
    if (info->arity == 2 && chance(g->random, 10) && !value_is_const(args[1])) {
        args[0] = literal(g, dtype);
    }
    if (op == OP_copysign || op == OP_signbit) {
        args[info->arity - 1] = signed_number(g, args[info->arity - 1]);
    }
    propose(g, op, info->arity, args, 0, NULL, t);
}

static void
gen_red(Gen *g, Op op)
{
    Value *a = pick(g, ALL, jumps(op));
    int axes[MAX_RANK], n = 0;
    bool some = op == OP_amax || op == OP_amin || op == OP_argmax || op == OP_argmin;
    for (int ax = 0; a && ax < a->type->rank; ax++) {
        bool empty = some && !dim_le(g->cx, dim_int(g->cx, 1), a->type->dims[ax]);
        if (!empty && chance(g->random, 50) && !(n && op_info[op].rule == RULE_INDEX)) {
            axes[n++] = ax;
        }
    }
    if (a && (n || chance(g->random, 10))) {
        Attr attr = attr_axes(g->cx, "axes", n, axes);
        propose(g, op, 1, &a, 1, &attr, a->type);
    }
}

/* Another shape with as many elements: two axes joined, one split, or an axis of size 1 more. */
static const Type *
reshaped(Gen *g, const Type *t)
{
    Cx *cx = g->cx;
    Dim dims[MAX_RANK + 1];
    int n = 0, at = t->rank ? below(g->random, t->rank) : 0, how = below(g->random, 3);
    for (int ax = 0; ax < t->rank; ax++) {
        dims[n++] = t->dims[ax];
        if (ax == at && how == 0 && ax + 1 < t->rank) {
            dims[n - 1] = dim_mul(cx, t->dims[ax], t->dims[ax + 1]);
            ax++;
        }
        else if (ax == at && how == 1 && dim_divides(cx, 2, t->dims[ax])) {
            dims[n - 1] = dim_div(cx, t->dims[ax], dim_int(cx, 2));
            dims[n++] = dim_int(cx, 2);
        }
        else if (ax == at) {
            dims[n++] = dim_int(cx, 1);
        }
    }
    return type_of(cx, t->dtype, n, dims);
}

static void
gen_slice(Gen *g, Value *a)
{
    Cx *cx = g->cx;
    int axis = below(g->random, a->type->rank);
    Dim dims[MAX_RANK], size = a->type->dims[axis], one = dim_int(cx, 1);
    int64_t step = chance(g->random, 30) ? 2 : 1, start = below(g->random, 3);
    memcpy(dims, a->type->dims, (size_t)a->type->rank * sizeof *dims);
    Dim left = dim_sub(cx, size, dim_int(cx, start));
    if (!dim_le(cx, one, left)) {
        return;
    }
    dims[axis] = step == 2 ? dim_div(cx, dim_add(cx, left, one), dim_int(cx, 2)) : left;
    if (chance(g->random, 30)) {
        dims[axis] = one;
    }
    Attr attrs[] = {attr_int(cx, "axis", axis), attr_dim(cx, "start", dim_int(cx, start)),
                    attr_dim(cx, "step", dim_int(cx, step))};
    propose(g, OP_slice, 1, &a, 3, attrs, type_of(cx, a->type->dtype, a->type->rank, dims));
}

static void
gen_expand(Gen *g, Value *a)
{
    Dim dims[MAX_RANK];
    int to[MAX_RANK], n = 0;
    for (int ax = 0; ax <= a->type->rank; ax++) {
        if (chance(g->random, 40)) {
            dims[n++] = g->dims[below(g->random, g->ndims)];
        }
        if (ax < a->type->rank) {
            to[ax] = n;
            dims[n++] = a->type->dims[ax];
        }
    }
    Attr attr = attr_axes(g->cx, "to", a->type->rank, to);
    propose(g, OP_expand, 1, &a, 1, &attr, type_of(g->cx, a->type->dtype, n, dims));
}

/* Overlapping windows of all elements, where there are enough. */
static void
gen_as_strided(Gen *g, Value *a)
{
    Cx *cx = g->cx;
    Dim n = type_numel(cx, a->type), width = dim_int(cx, 1 + below(g->random, 4));
    Dim dims[2] = {dim_sub(cx, n, dim_sub(cx, width, dim_int(cx, 1))), width};
    Dim strides[2] = {dim_int(cx, 1), dim_int(cx, 1)};
    Attr attrs[] = {attr_dim(cx, "offset", dim_int(cx, 0)), attr_dims(cx, "strides", 2, strides)};
    if (dim_le(cx, dim_int(cx, 1), dims[0])) {
        propose(g, OP_as_strided, 1, &a, 2, attrs, type_of(cx, a->type->dtype, 2, dims));
    }
}

static void
gen_view(Gen *g, Op op)
{
    Value *a = pick(g, MOVED, false);
    int axes[MAX_RANK] = {0}, n = 0;
    if (!a || a->type->rank == 0) {
        return;
    }
    Attr attr;
    switch (op) {
    case OP_expand:
        gen_expand(g, a);
        break;
    case OP_reshape:
        propose(g, op, 1, &a, 0, NULL, reshaped(g, a->type));
        break;
    case OP_permute:
        shuffle(g->random, a->type->rank, axes);
        attr = attr_axes(g->cx, "perm", a->type->rank, axes);
        propose(g, op, 1, &a, 1, &attr, a->type);
        break;
    case OP_slice:
        gen_slice(g, a);
        break;
    case OP_flip:
        for (int ax = 0; ax < a->type->rank; ax++) {
            axes[n] = ax;
            n += chance(g->random, 50);
        }
        attr = attr_axes(g->cx, "axes", n, axes);
        propose(g, op, 1, &a, 1, &attr, a->type);
        break;
    default:
        gen_as_strided(g, a);
        break;
    }
}

static void
gen_cat(Gen *g)
{
    Value *parts[3] = {pick(g, MOVED, false)};
    if (!parts[0] || parts[0]->type->rank == 0) {
        return;
    }
    int n = 2 + below(g->random, 2), axis = below(g->random, parts[0]->type->rank);
    for (int k = 1; k < n; k++) {
        parts[k] = chance(g->random, 60) ? matching(g, parts[0]->type, false) : parts[0];
        if (!parts[k] || value_is_const(parts[k])) {
            parts[k] = parts[0];
        }
    }
    Attr attr = attr_int(g->cx, "axis", axis);
    propose(g, OP_cat, n, parts, 1, &attr, parts[0]->type);
}

static void
gen_pad(Gen *g)
{
    Cx *cx = g->cx;
    Value *args[2] = {pick(g, ALL, false)};
    Dim lo[MAX_RANK], dims[MAX_RANK];
    if (!args[0]) {
        return;
    }
    const Type *t = args[0]->type;
    for (int ax = 0; ax < t->rank; ax++) {
        int before = below(g->random, 3), after = below(g->random, 3);
        lo[ax] = dim_int(cx, before);
        dims[ax] = dim_add(cx, t->dims[ax], dim_int(cx, before + after));
    }
    args[1] = literal(g, t->dtype);
    Attr attr = attr_dims(cx, "lo", t->rank, lo);
    propose(g, OP_pad, 2, args, 1, &attr, type_of(cx, t->dtype, t->rank, dims));
}

/* An index of one of so many elements, made of integers by a remainder; NULL: it may be none. */
static Value *
index_of(Gen *g, Value *index, Dim extent)
{
    Cx *cx = g->cx;
    int64_t size;
    if (!index || value_is_const(index) || !dim_le(cx, dim_int(cx, 1), extent)) {
        return NULL;
    }
    const Type *t = type_with(cx, index->type, DT_i64);
    index = index->type == t ? index : propose(g, OP_cast, 1, &index, 0, NULL, t);
    Value *args[2] = {index, cx_alloc(cx, sizeof(Value))};
    args[1]->literal.is_int = true;
    if (dim_is_int(cx, extent, &size)) {
        args[1]->literal.i = size;
    }
    else {
        Attr attr = attr_dim(cx, "dim", extent), to = attr_axes(cx, "to", 0, NULL);
        args[1] = propose(g, OP_size, 0, NULL, 1, &attr, type_scalar(cx, DT_i64));
        args[1] = t->rank ? propose(g, OP_expand, 1, &args[1], 1, &to, t) : args[1];
    }
    return args[0] && args[1] ? propose(g, OP_remainder, 2, args, 0, NULL, t) : NULL;
}

/* One of the first two elements, by a truth value: compilers take such an index for a mask. */
static Value *
choice_of(Gen *g, Dim extent)
{
    Value *truth = pick(g, BOOLS, true);
    if (!truth || value_is_const(truth) || !dim_le(g->cx, dim_int(g->cx, 2), extent)) {
        return NULL;
    }
    return propose(g, OP_cast, 1, &truth, 0, NULL, type_with(g->cx, truth->type, DT_i64));
}

static void
gen_gather(Gen *g)
{
    Cx *cx = g->cx;
    Value *a = pick(g, MOVED, false);
    int axis = a && a->type->rank ? below(g->random, a->type->rank) : -1;
    Value *index = axis < 0 ? NULL
                   : chance(g->random, 30) ? choice_of(g, a->type->dims[axis])
                   : index_of(g, pick(g, INTS, true), a->type->dims[axis]);
    if (index) {
        Attr attrs[] = {attr_int(cx, "axis", axis), attr_int(cx, "wrap", below(g->random, 3))};
        propose(g, OP_gather, 2, (Value *[]){a, index}, 2, attrs, a->type);
    }
}

static void
gen_scan(Gen *g)
{
    static const Op ops[] = {OP_sum, OP_prod, OP_amax, OP_amin};
    Value *a = pick(g, chance(g->random, 50) ? FLOATS : INTS, false);
    if (!a || !a->type->rank) {
        return;
    }
    Attr attrs[] = {attr_name(g->cx, "op", op_info[ops[below(g->random, 4)]].name, DIM_NONE),
                    attr_int(g->cx, "axis", below(g->random, a->type->rank))};
    propose(g, OP_scan, 1, &a, 2, attrs, a->type);
}

static void
gen_scatter_into(Gen *g, Value *a)
{
    static const Op ops[] = {OP_sum, OP_prod, OP_amax, OP_amin, OP_store};
    Cx *cx = g->cx;
    Value *v = NULL;
    int axis = a && a->type->rank ? below(g->random, a->type->rank) : -1;
    for (int k = 0; k < 8 && axis >= 0 && !v; k++) {
        v = pick(g, a->type->dtype < DT_c64 ? ALL : PAIRS, false);
        v = v && v->type->rank == a->type->rank ? v : NULL;
    }
    const Type *t = v ? type_with(cx, v->type, a->type->dtype) : NULL;
    v = !v || v->type == t ? v : propose(g, OP_cast, 1, &v, 0, NULL, t);
    Value *index = v ? index_of(g, matching(g, type_with(cx, t, DT_i64), true), a->type->dims[axis])
                     : NULL;
    if (index) {
        Attr attrs[] = {attr_name(cx, "op", op_info[ops[below(g->random, 5)]].name, DIM_NONE),
                        attr_int(cx, "axis", axis), attr_int(cx, "wrap", below(g->random, 3))};
        propose(g, OP_scatter, 3, (Value *[]){a, index, v}, 3, attrs, a->type);
    }
}

static void
gen_scatter(Gen *g)
{
    gen_scatter_into(g, pick(g, MOVED, false));
}

/* A value with axes at random, and maybe fewer: the other operand of a contraction. */
static Value *
matching_axes(Gen *g, Dtype dtype)
{
    Value *v = pick(g, FLOATS | INTS, false);
    const Type *t = v ? type_with(g->cx, v->type, dtype) : NULL;
    return !v || v->type == t ? v : is_rough(g, v) && dtype_info[dtype].class != CLASS_FLOAT ? NULL
           : propose(g, OP_cast, 1, &v, 0, NULL, t);
}

/* Letters for the axes of b: those of equal axes of a, each once, or new ones. */
static int
shared_letters(Gen *g, const Type *a, const Type *b, char *letters)
{
    int shared = 0;
    bool used[MAX_RANK] = {false};
    for (int ax = 0; ax < b->rank; ax++) {
        letters[ax] = (char)('n' + ax);
        for (int k = 0; k < a->rank && letters[ax] >= 'n'; k++) {
            if (!used[k] && a->dims[k] == b->dims[ax] && chance(g->random, 80)) {
                used[k] = true;
                letters[ax] = (char)('a' + k);
                shared++;
            }
        }
    }
    return shared;
}

/* At times, which terms are summed: by the first summed letter, and one that only a has. */
static const Contraction *
with_condition(Gen *g, const Contraction *c, const Type *a)
{
    ContractionError wrong;
    int64_t places, at = a->rank ? below(g->random, a->rank) : 0;
    if (!c->nsum || !chance(g->random, 50) || letter_class(c, c->a[at]) != LETTER_OF_A ||
        !dim_is_int(g->cx, a->dims[letter_axis(c->a, c->na, c->sum[0])], &places)) {
        return c;
    }
    int64_t ats = dim_typical(g->cx, a->dims[at]);
    Contraction with = *c;
    Within *w = &with.where.first;
    *w = (Within){.at = c->a[at], .place = c->sum[0], .step = 1 + below(g->random, 3)};
    w->before = below(g->random, (int)places + 2);
    if (chance(g->random, 50)) {
        w->times = 1 + below(g->random, 2);
        w->size = below(g->random, 2 * (int)places + 1) - (int)places;
    } else {
        w->size = below(g->random, (int)(ats + places) + 1);
    }
    return contraction_intern(g->cx, &with, &wrong);
}

/* What both have is summed or kept, what one has is kept; the axes of the result in any order. */
static void
gen_contract(Gen *g)
{
    Value *args[2] = {pick(g, FLOATS | INTS, false)};
    args[1] = !args[0] ? NULL : chance(g->random, 20) ? args[0]
              : matching_axes(g, args[0]->type->dtype);
    if (!args[1]) {
        return;
    }
    const Type *a = args[0]->type, *b = args[1]->type;
    char letters[MAX_RANK] = {0}, kept[2 * MAX_RANK];
    int perm[2 * MAX_RANK], n = 0;
    shared_letters(g, a, b, letters);
    for (int k = 0; k < a->rank + b->rank; k++) {
        char letter = k < a->rank ? (char)('a' + k) : letters[k - a->rank];
        bool both = k < a->rank && memchr(letters, letter, (size_t)b->rank);
        if ((k < a->rank || letter >= 'n') && !(both && chance(g->random, 70))) {
            kept[n++] = letter;
        }
    }
    shuffle(g->random, n, perm);
    char out[2 * MAX_RANK];
    for (int k = 0; k < n; k++) {
        out[k] = kept[perm[k]];
    }
    ContractionError wrong;
    Contraction over = contraction_letters(a->rank, "abcdefghijklm", b->rank, letters, n, out);
    const Contraction *c = contraction_intern(g->cx, &over, &wrong);
    if (!c) {
        return;
    }
    Attr attr = attr_letters(g->cx, "over", with_condition(g, c, a));
    Dtype wide = dtype_info[a->dtype].compute;
    propose(g, OP_contract, 2, args, 1, &attr,
            type_with(g->cx, a, chance(g->random, 30) ? wide : a->dtype));
}

static void
gen_node(Gen *g, Op op)
{
    const Type *t = any_type(g, any_dtype(g));
    Value *fill;
    Attr attr;
    switch (op) {
    case OP_const:
        fill = literal(g, t->dtype);
        propose(g, op, 1, &fill, 0, NULL, t);
        break;
    case OP_iota:
        attr = attr_int(g->cx, "axis", t->rank ? below(g->random, t->rank) : 0);
        propose(g, op, 0, NULL, 1, &attr,
                type_with(g->cx, t, chance(g->random, 70) ? DT_i64 : DT_i32));
        break;
    case OP_size:
        attr = attr_dim(g->cx, "dim", g->dims[below(g->random, g->ndims)]);
        propose(g, op, 0, NULL, 1, &attr, type_scalar(g->cx, DT_i64));
        break;
    case OP_cat:
        gen_cat(g);
        break;
    case OP_pad:
        gen_pad(g);
        break;
    case OP_scan:
        gen_scan(g);
        break;
    case OP_scatter:
        gen_scatter(g);
        break;
    case OP_gather:
        gen_gather(g);
        break;
    case OP_contract:
        gen_contract(g);
        break;
    default:                    /* calls run in torch; kernels and loops are what passes make */
        if (chance(g->random, 12)) {
            gen_scatter(g);
        }
        break;
    }
}

static void
gen_let(Gen *g)
{
    static const int weights[] = {
        [KIND_MAP] = 55, [KIND_RED] = 12, [KIND_VIEW] = 20, [KIND_NODE] = 13
    };
    int left = below(g->random, 100), kind = KIND_MAP;
    while (left >= weights[kind]) {
        left -= weights[kind++];
    }
    Op op;
    do {
        op = (Op)below(g->random, OP_COUNT);
    } while (op_info[op].kind != (OpKind)kind);
    switch (kind) {
    case KIND_MAP:
        gen_map(g, op);
        break;
    case KIND_RED:
        gen_red(g, op);
        break;
    case KIND_VIEW:
        gen_view(g, op);
        break;
    default:
        gen_node(g, op);
        break;
    }
}

/* ---- functions ---- */

/* Strides of the axes in any order, with room after each element, row or plane; at times an axis
 * has stride 0. */
static const Dim *
some_strides(Gen *g, const Type *t)
{
    Cx *cx = g->cx;
    Dim *strides = cx_alloc(cx, (MAX_RANK + 1) * sizeof *strides);
    Dim stride = dim_int(cx, 1 + below(g->random, 2));
    int perm[MAX_RANK], order = below(g->random, 2);
    shuffle(g->random, t->rank, perm);
    for (int k = t->rank - 1; k >= 0; k--) {
        int ax = order ? perm[k] : k;
        bool repeated = chance(g->random, 8);
        strides[ax] = repeated ? dim_int(cx, 0) : stride;
        stride = repeated ? stride : dim_mul(cx, stride, t->dims[ax]);
        if (chance(g->random, 30)) {
            stride = dim_add(cx, stride, dim_int(cx, 1 + below(g->random, 20)));
        }
    }
    return strides;
}

/* May the parameter be written?  Not where several elements share memory. */
static bool
is_apart(Gen *g, const Value *param)
{
    bool apart = true;
    for (int ax = 0; param->strides && ax < param->type->rank; ax++) {
        apart = apart && !dim_is(g->cx, param->strides[ax], 0);
    }
    return apart;
}

static void
gen_params(Gen *g)
{
    static const char *const names[] = {"x", "y", "z", "w"};
    int n = 1 + below(g->random, 4);
    for (int k = 0; k < n; k++) {
        const Type *t = k && chance(g->random, 40)
                        ? type_with(g->cx, g->values[0]->type, any_dtype(g))
                        : any_type(g, any_dtype(g));
        const Dim *strides = t->rank && chance(g->random, 35) ? some_strides(g, t) : NULL;
        keep(g, fn_param(g->fn, names[k], t, strides), false);
    }
}

static bool
is_size_of_param(const Gen *g, Dim size)
{
    for (int k = 0; k < g->fn->nparams; k++) {
        const Type *t = g->fn->params[k]->type;
        for (int ax = 0; ax < t->rank; ax++) {
            if (t->dims[ax] == size) {
                return true;
            }
        }
    }
    return false;
}

/* A plan reads sizes off its arguments: each that is declared is one of some parameter. */
static void
gen_params_of_sizes(Gen *g)
{
    static const char *const names[] = {"p", "q", "r"};
    for (int k = 0; k < g->fn->nsizes; k++) {
        if (!is_size_of_param(g, g->fn->sizes[k])) {
            const Type *t = type_of(g->cx, any_dtype(g), 1, &g->fn->sizes[k]);
            keep(g, fn_param(g->fn, names[k], t, NULL), false);
        }
    }
}

/* ---- what becomes of a parameter ---- */

static Value *
gen_changed(Gen *g, Value *param)
{
    static const Op ops[] = {OP_add, OP_mul, OP_maximum, OP_minimum, OP_sub};
    Value *args[2] = {param, matching(g, param->type, false)};
    int first = below(g->random, 2);
    return args[1] ? propose(g, ops[below(g->random, 5)], 2,
                             (Value *[]){args[first], args[!first]}, 0, NULL, param->type)
                   : NULL;
}

static Value *
slice_of(Gen *g, Value *a, int axis, int64_t start, Dim length)
{
    Attr attrs[] = {attr_int(g->cx, "axis", axis), attr_dim(g->cx, "start", dim_int(g->cx, start)),
                    attr_dim(g->cx, "step", dim_int(g->cx, 1))};
    Dim dims[MAX_RANK];
    memcpy(dims, a->type->dims, (size_t)a->type->rank * sizeof *dims);
    dims[axis] = length;
    return propose(g, OP_slice, 1, &a, 3, attrs,
                   type_of(g->cx, a->type->dtype, a->type->rank, dims));
}

/* Another value's first elements in place of some of the parameter's. */
static Value *
gen_replaced(Gen *g, Value *param)
{
    Cx *cx = g->cx;
    int axis = below(g->random, param->type->rank), from = below(g->random, 3);
    int n = 1 + below(g->random, 2);
    Dim rest = dim_sub(cx, param->type->dims[axis], dim_int(cx, from + n));
    Value *other = matching(g, param->type, false), *parts[3];
    if (!other || value_is_const(other) || !dim_le(cx, dim_int(cx, 0), rest)) {
        return NULL;
    }
    parts[0] = slice_of(g, param, axis, 0, dim_int(cx, from));
    parts[1] = slice_of(g, other, axis, 0, dim_int(cx, n));
    parts[2] = slice_of(g, param, axis, chance(g->random, 90) ? from + n : 0, rest);
    Attr attr = attr_int(cx, "axis", axis);
    return parts[0] && parts[1] && parts[2] ? propose(g, OP_cat, 3, parts, 1, &attr, param->type)
                                            : NULL;
}

static Value *
gen_update(Gen *g, Value *param)
{
    int kind = below(g->random, 3);
    if (class_of(param) == CLASS_COMPLEX || class_of(param) == CLASS_BOOL || kind == 0) {
        return class_of(param) == CLASS_BOOL ? NULL : gen_changed(g, param);
    }
    if (kind == 1 && param->type->rank) {
        return gen_replaced(g, param);
    }
    int n = g->n;
    gen_scatter_into(g, param);
    return g->n > n && g->values[g->n - 1]->type == param->type ? g->values[g->n - 1] : NULL;
}

/* Up to three of the last values; one may be written into a parameter of its type.  And some
 * parameters change. */
static void
gen_results(Gen *g)
{
    enum { MOST = 3, PARAMS = 4 };
    Value *values[MOST + PARAMS];
    Result results[MOST + PARAMS] = {{0}};
    int n = 0, most = 1 + below(g->random, 3);
    for (int k = g->n - 1; k >= 0 && n < most; k -= 1 + below(g->random, 3)) {
        values[n++] = g->values[k];
    }
    const Value *param = g->fn->params[0];
    if (chance(g->random, 10) && values[0]->type == param->type && !param->strides) {
        results[0] = (Result){.kind = RESULT_INTO};
    }
    else if (chance(g->random, 15) && values[0]->type->rank == 2) {
        const Type *t = values[0]->type;
        Dim *strides = cx_alloc(g->cx, 2 * sizeof *strides);
        strides[0] = dim_int(g->cx, 1);
        strides[1] = t->dims[0];
        results[0].strides = strides;
    }
    for (int k = results[0].kind == RESULT_INTO; k < g->fn->nparams && k < PARAMS; k++) {
        Value *v = is_apart(g, g->fn->params[k]) && chance(g->random, 30)
                       ? gen_update(g, g->fn->params[k])
                       : NULL;
        if (v && v->type == g->fn->params[k]->type) {
            results[n] = (Result){.kind = RESULT_INTO, .of = k};
            values[n++] = v;
        }
    }
    fn_results(g->fn, n, values, results);
}

Fn *
gen_fn(Cx *cx, uint64_t seed)
{
    uint64_t random = sample_seed(seed);
    Gen g = {.cx = cx, .random = &random, .fn = fn_new(cx, "fuzz", STAGE_GRAPH)};
    declare_sizes(&g);
    gen_params(&g);
    gen_params_of_sizes(&g);
    for (int k = 3 + below(g.random, 22); k > 0; k--) {
        gen_let(&g);
    }
    gen_results(&g);
    verify_fn(g.fn);
    return g.fn;
}
