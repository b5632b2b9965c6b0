/* Decode: finds the codes that a weight of a product is made of, and their scales.
 *
 * What:     the weight is codes of eight bits, cast to floats, perhaps times numbers that do not go
 *           along the summed axis; or times numbers for groups of adjacent terms.  In the second
 *           case whole numbers may be subtracted before: the codes are the differences.  And there
 *           may be a number for each group that is subtracted before, or added after.
 * Requires  a graph in canonical form.
 * Ensures   codes times scales, plus the least, are the weight, as real numbers; where nothing is
 *           added, bit for bit.  The codes are whole numbers from -128 to 127, as their operations
 *           say.
 * How:      scales of groups are an expansion by one axis.  Whatever the axes of the codes were
 *           before, in the order of memory they can be reshaped to those of the expansion, and
 *           these to the axes of the weight with the summed one cut in two.  What is subtracted is
 *           followed through views to integers, whose range follows from masks and shifts.
 * Why not   formats: they differ in how their bytes are cut, which views and masks say.
 * Example:  mul (sub (cast q), 8.0), (reshape (expand s)) with q: u8 and s: f32[G, N] has the codes
 *           sub (cast q to i8), 8 and the scales s. */
#include "digits.h"

enum { MOST_STEPS = 24 };       /* that are followed */

static const Let *
def_of(const Value *v, Op op)
{
    return !value_is_const(v) && v->def && v->def->op == op ? v->def : NULL;
}

static double
number_of(const Value *v)
{
    return v->literal.is_int ? (double)v->literal.i : v->literal.f;
}

/* The same numbers as i8.  Integers wrap, so it does not matter where they are cast. */
static Value *
as_bytes(Build *b, const Value *v, Value *const *map)
{
    if (value_is_const(v)) {
        return build_int(b, (int64_t)number_of(v));
    }
    const Let *let = v->def;
    const Attr *to;
    switch (let->op) {
    case OP_cast:
        return build_cast(b, map[let->args[0]->id], DT_i8);
    case OP_sub:
    case OP_add:
        return build_map(b, let->op, as_bytes(b, let->args[0], map), as_bytes(b, let->args[1], map),
                         NULL);
    case OP_expand:
        to = let_attr(let, "to");
        return build_expand(b, as_bytes(b, let->args[0], map), v->type->rank, v->type->dims,
                            to->axes);
    case OP_permute:
        return build_permute(b, as_bytes(b, let->args[0], map), let_attr(let, "perm")->axes);
    default:
        return build_reshape(b, as_bytes(b, let->args[0], map), v->type->rank, v->type->dims);
    }
}

/* Are the views among these operations such as as_bytes makes? */
static bool
is_followed(const Value *v, int steps)
{
    const Let *let = value_is_const(v) ? NULL : v->def;
    if (!let || let->op == OP_cast) {
        return true;
    }
    bool view = let->op == OP_expand || let->op == OP_permute || let->op == OP_reshape,
         known = steps && (view || let->op == OP_sub || let->op == OP_add);
    for (int k = 0; k < let->nargs && known; k++) {
        known = is_followed(let->args[k], steps - 1);
    }
    return known;
}

/* Are they whole numbers of eight bits, once a number is subtracted? */
static bool
take_codes(const Value *v, Decode *d)
{
    Whole bytes = {INT8_MIN, INT8_MAX};
    bool known = !value_is_const(v) && v->type->dtype == DT_f32 && is_followed(v, MOST_STEPS);
    Whole range = known ? whole_floats(v) : WHOLE_NONE;
    if (range.least > range.most || range.most - range.least > UINT8_MAX) {
        return false;
    }
    d->middle = (range.least + range.most + 1) / 2;
    d->shift = whole_within(range, bytes) ? 0 : d->middle;
    d->codes = d->of = v;
    return true;
}

/* ---- groups ---- */

static int64_t
elements(Cx *cx, const Type *t, int from)
{
    int64_t all = 1, n;
    for (int ax = from; ax < t->rank; ax++) {
        all = dim_is_int(cx, t->dims[ax], &n) && n > 0 && all < INT32_MAX ? all * n : 0;
    }
    return all;
}

/* Is the value, behind reshapes, an expansion by one axis, that of the terms of a group?  sum: the
 * axis of the weight that they are a part of. */
static bool
find_groups(Cx *cx, const Value *v, const Type *weight, int sum, Decode *d)
{
    while (def_of(v, OP_reshape)) {
        v = v->def->args[0];
    }
    const Let *expand = def_of(v, OP_expand);
    int axis = -1, n = 0;
    int64_t terms, all;
    if (!expand || value_is_const(expand->args[0])) {
        return false;
    }
    const Attr *to = let_attr(expand, "to");
    for (int ax = 0; ax < v->type->rank; ax++) {
        bool own = attr_has_axis(to, ax), one = dim_is(cx, v->type->dims[ax], 1);
        axis = own || one ? axis : ax;
        n += !own && !one;
    }
    bool cut = n == 1 && dim_is_int(cx, v->type->dims[axis], &terms) &&
               dim_is_int(cx, weight->dims[sum], &all) && terms > 1 && all % terms == 0 &&
               all / terms > 1 && all / terms <= CONTRACTION_CHAIN &&
               elements(cx, v->type, axis + 1) == elements(cx, weight, sum + 1) &&
               elements(cx, weight, 0) > 0;
    d->sum = cut ? sum : -1;
    d->scale = expand->args[0];
    d->terms = v->type->dims[cut ? axis : 0];
    d->groups = dim_int(cx, cut ? all / terms : 1);
    return cut;
}

static const Value *
before_reshapes(const Value *v)
{
    while (def_of(v, OP_reshape)) {
        v = v->def->args[0];
    }
    return v;
}

/* The number of each group that v is, if its groups are those of d; else NULL. */
static const Value *
number_of_groups(Cx *cx, const Value *v, const Type *weight, const Decode *d)
{
    Decode other;
    bool same = !value_is_const(v) && find_groups(cx, v, weight, d->sum, &other) &&
                other.groups == d->groups;
    return same ? other.scale : NULL;
}

/* Is v a difference of codes and a number of each group, or one of all? */
static bool
take_zeros(Cx *cx, const Value *v, const Type *weight, Decode *d)
{
    const Let *minus = def_of(before_reshapes(v), OP_sub);
    if (!minus || !take_codes(minus->args[0], d)) {
        return false;
    }
    const Value *zero = minus->args[1];
    d->zero = value_is_const(zero) ? zero : number_of_groups(cx, zero, weight, d);
    d->shift = d->middle; /* so what is added is small: not what all codes have in common */
    return d->zero;
}

/* Is v a product of codes and scales of groups? */
static bool
take_product(Cx *cx, const Value *v, const Type *weight, int sum, Decode *d)
{
    const Let *mul = value_is_const(v) ? NULL : def_of(before_reshapes(v), OP_mul);
    for (int k = 0; mul && k < 2; k++) {
        *d = (Decode){.sum = -1};
        if (!value_is_const(mul->args[0]) && !value_is_const(mul->args[1]) &&
            find_groups(cx, mul->args[1 - k], weight, sum, d) &&
            (take_codes(mul->args[k], d) || take_zeros(cx, mul->args[k], weight, d))) {
            return true;
        }
    }
    return false;
}

bool
decode_groups(Cx *cx, const Value *v, int sum, Decode *d)
{
    const Type *weight = v->type;
    *d = (Decode){.sum = -1};
    if (weight->rank + 1 >= MAX_RANK) {
        return false;
    }
    if (take_product(cx, v, weight, sum, d)) {
        return true;
    }
    v = before_reshapes(v);
    const Let *both = def_of(v, OP_add), *minus = def_of(v, OP_sub);
    both = both ? both : minus;
    for (int k = 0; both && k < (minus ? 1 : 2); k++) {
        if (take_product(cx, both->args[k], weight, sum, d)) {
            d->least = number_of_groups(cx, both->args[1 - k], weight, d);
            d->minus = minus;
            d->shift = d->middle;
            return d->least;
        }
    }
    return false;
}

static Value *
with_groups(Build *b, Value *v, const Decode *d, const Value *weight, bool terms)
{
    Dim dims[MAX_RANK];
    int n = 0;
    for (int ax = 0; ax < weight->type->rank; ax++) {
        dims[n++] = ax == d->sum ? d->groups : weight->type->dims[ax];
        if (ax == d->sum && terms) {
            dims[n++] = d->terms;
        }
    }
    return build_reshape(b, v, n, dims);
}

Value *
decode_codes(Build *b, const Decode *d, const Value *weight, Value *const *map)
{
    Value *codes = as_bytes(b, d->of, map);
    codes = d->shift ? build_map(b, OP_sub, codes, build_int(b, d->shift), NULL) : codes;
    return with_groups(b, codes, d, weight, true);
}

/* Those of a group are beside each other in memory, as its sums are: what is computed is stored so.
 */
static Value *
columns_innermost(Build *b, const Value *v, const Decode *d, const Value *weight, Value *const *map)
{
    int last = weight->type->rank - 1, perm[MAX_RANK], back[MAX_RANK];
    v = before_reshapes(v);
    const Let *let = v->def;
    bool computed = let && op_info[let->op].kind == KIND_MAP && let->nargs <= 2;
    if (!computed || d->sum != last) {
        return with_groups(b, map[v->id], d, weight, false);
    }
    for (int k = 0; k <= last; k++) {
        perm[k] = k ? k - 1 : last;
        back[perm[k]] = k;
    }
    Value *args[2] = {0};
    for (int k = 0; k < let->nargs; k++) {
        const Value *of = let->args[k];
        args[k] = value_is_const(of)
                      ? (Value *)of
                      : build_permute(b, with_groups(b, map[of->id], d, weight, false), perm);
    }
    return build_permute(b, build_map_like(b, let, args), back);
}

Value *
decode_scales(Build *b, const Decode *d, const Value *weight, Value *const *map)
{
    return columns_innermost(b, d->scale, d, weight, map);
}

Value *
decode_least(Build *b, const Decode *d, const Value *weight, Value *const *map)
{
    Value *all = NULL, *shift = build_float(b, (double)d->shift);
    if (d->zero && value_is_const(d->zero)) {
        shift = build_float(b, (double)d->shift - number_of(d->zero));
    } else if (d->zero) {
        shift = build_map(b, OP_sub, shift, with_groups(b, map[d->zero->id], d, weight, false),
                          NULL);
    }
    if (d->zero || d->shift) {
        all = build_map(b, OP_mul, decode_scales(b, d, weight, map), shift, NULL);
    }
    if (d->least) {
        Value *least = with_groups(b, map[d->least->id], d, weight, false);
        all = all        ? build_map(b, d->minus ? OP_sub : OP_add, all, least, NULL)
              : d->minus ? build_map(b, OP_neg, least, NULL, NULL)
                         : least;
    }
    return all;
}

/* ---- one scale for each column ---- */

/* The codes that are cast to v, or NULL. */
static const Value *
codes_of(const Value *v)
{
    const Let *cast = def_of(v, OP_cast);
    const Value *codes = cast && v->type->dtype == DT_f32 ? cast->args[0] : NULL;
    return codes && !value_is_const(codes) && codes->type->dtype == DT_i8 ? codes : NULL;
}

/* Is v a value for some axes, expanded?  A constant is one for none. */
static bool
take_scale(Decode *d, const Value *v)
{
    const Let *expand = def_of(v, OP_expand);
    if (value_is_const(v)) {
        d->scale = v;
        return true;
    }
    if (!expand || value_is_const(expand->args[0])) {
        return false;
    }
    d->scale = expand->args[0];
    const Attr *to = let_attr(expand, "to");
    for (int k = 0; k < d->scale->type->rank; k++) {
        d->to[k] = to->axes[k];
    }
    return true;
}

bool
decode_columns(const Value *v, Decode *d)
{
    const Let *mul = def_of(v, OP_mul);
    *d = (Decode){.codes = codes_of(v), .sum = -1};
    for (int k = 0; mul && k < 2 && !d->codes; k++) {
        const Value *codes = codes_of(mul->args[k]);
        d->codes = codes && take_scale(d, mul->args[1 - k]) ? codes : NULL;
    }
    return d->codes != NULL;
}
